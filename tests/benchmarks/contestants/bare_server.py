"""Spark's own two servers in one process, as its documentation has them started: Spark Connect as a plugin, then Thrift. With Delta Lake and a
Hive metastore, as `streamtime serve`; without the pack. Writes a file once both listen, and serves until its stdin ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from streamtime.session import delta_jars, lasting


def main(folder: str, connect: str, thrift: str, cores: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    place = Path(folder)
    log4j = place / "log4j2.properties"
    log4j.write_text("rootLogger.level = off\n")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, delta_jars())),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -Dderby.stream.error.file={place / 'derby.log'}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": connect,
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.hadoop.hive.server2.thrift.port": thrift,
        **lasting(place / "warehouse"),
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sql("SHOW TABLES")  # which opens the metastore, as `streamtime serve` does
    spark.sparkContext._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithSparkSession(spark._jsparkSession, False)
    (place / "ready").write_text("")
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
