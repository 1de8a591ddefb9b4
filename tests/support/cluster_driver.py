"""The driver of an application on a cluster whose workers have not the pack: asks what `cluster_questions` says, and answers line by line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from cluster_questions import prepare, questions
from jvm import JAVA_OPTIONS, say
from pyspark.sql import SparkSession

import streamtime
from streamtime.session import delta_jars
from streamtime.sql.stream.plan import ROCKSDB

ERROR = re.compile(r"^\S*(?:Error|Exception): .*", re.MULTILINE)  # a line that says what went wrong, in the middle of Spark's


def session(master: str, folder: Path) -> SparkSession:
    """An application of somebody who has a cluster: none of the settings of `streamtime.session`."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.memory": "1g",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # the first task waits for both executors
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    streamtime.register(spark)
    return spark


def main(channel: str, master: str, shared: str) -> None:
    folder = Path(shared)
    spark = session(master, folder)
    prepare(spark)
    for name, ask in questions():
        spark.conf.set("spark.sql.shuffle.partitions", "16" if name.startswith("SUPPRESS") else "2")  # enough for suppress to spread
        try:
            answer = ask(spark, folder)
        except Exception as error:
            answer = ["failed", *ERROR.findall(str(error))[:5], str(error)[:500]]
        say(channel, json.dumps([name, answer]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
