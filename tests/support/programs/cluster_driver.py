"""The driver of an application on a cluster whose workers have not the pack: asks what `cluster_questions` says, and answers line by line."""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path

from cluster_questions import prepare, questions
from jvm import INTERPRETED, JAVA_OPTIONS, say
from pyspark.sql import SparkSession

import streamtime
from streamtime import workers
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
        **INTERPRETED,  # else each of three JVMs compiles each plan
    }
    builder = SparkSession.builder.master(master).appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    streamtime.register(spark)
    return spark


def main(channel: str, master: str, shared: str, beginnings: str) -> None:
    """Questions of which each has its own test are asked if their names begin so."""
    folder, asked = Path(shared), ("the workers", "a versioned table", *json.loads(beginnings))
    spark = session(master, folder)
    prepare(spark, {beginning.strip() for beginning in asked})
    for name, ask in questions():
        if not name.startswith(asked):
            continue
        spark.conf.set("spark.sql.shuffle.partitions", "16" if name.startswith("SUPPRESS") else "2")  # enough for suppress to spread
        try:
            answer = ask(spark, folder)
        except Exception as error:
            answer = ["failed", *ERROR.findall(str(error))[:5], str(error)[:500]]
        say(channel, json.dumps([name, answer]))
    say(channel, json.dumps(["workers that lack NumPy", lacking(spark, folder)]))
    spark.stop()


def lacking(spark: SparkSession, folder: Path) -> list[str]:
    """What registering says where executors run a Python that has PySpark and no more."""
    bare = folder / "python3"
    bare.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -s -S "$@"\n')
    bare.chmod(0o755)
    spark.sparkContext.pythonExec = str(bare)
    streamtime.unregister(spark)
    workers._asked.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        streamtime.register(spark)
        streamtime.register(spark)
    return [str(w.message).replace(str(bare), "python3") for w in caught if w.category is RuntimeWarning]


if __name__ == "__main__":
    main(*sys.argv[1:])
