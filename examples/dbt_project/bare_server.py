"""A Thrift server of somebody else: Spark and Delta Lake, and none of the functions. `build.py --target bare` starts it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from streamtime.session import delta_jars


def main() -> None:
    """Serve on any free port of this machine alone, which is written to a file, until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--cores", default="*")
    parser.add_argument("--conf", action="append", default=[])
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = started(options.cores, folder, dict(conf.split("=", 1) for conf in options.conf))
        port = served(spark)
        partial = options.ready_file.with_suffix(".part")
        partial.write_text(json.dumps({"thrift_port": port}))
        partial.replace(options.ready_file)
        sys.stdin.read()
        spark.stop()


def started(cores: str, folder: str, more: dict[str, str]) -> SparkSession:
    """A session as anybody has it; its tables go with it."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, delta_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.hadoop.hive.server2.thrift.port": "0",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in (settings | more).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def served(spark: SparkSession) -> int:
    """Spark's own Thrift server over that session; gives its port."""
    server = spark.sparkContext._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    services = server.startWithSparkSession(spark._jsparkSession, False).getServices()
    (door,) = [service for service in services if service.getClass().getSimpleName() == "ThriftBinaryCLIService"]
    return int(door.getPortNumber())


if __name__ == "__main__":
    main()
