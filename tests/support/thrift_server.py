"""A Thrift server of somebody else: in a process of its own, with Delta Lake and without the pack. The end of stdin ends it."""

from __future__ import annotations

import os
import sys

from jvm import JAVA_OPTIONS, say
from pyspark.sql import SparkSession

from streamtime.session import delta_jars


def main(channel: str, port: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, delta_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.hadoop.hive.server2.thrift.port": port,
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    jvm = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithSparkSession(spark._jsparkSession, False)
    say(channel, "ready")
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
