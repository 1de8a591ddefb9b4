"""A session that is not the pack's own, where nothing says which Python the workers run: what registering, a call and a table without Delta say."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from jvm import JAVA_OPTIONS, say
from pyspark.sql import SparkSession

import streamtime
from streamtime.shell import doctor

SCHEMA = "product STRING, ts TIMESTAMP, price DOUBLE"
CALL = "SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts) PARTITION BY k ORDER BY ts, within => INTERVAL 1 DAY)"


def main(channel: str, folder: str) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    context, found = spark.sparkContext, {}
    found["before"] = context.pythonExec
    found["text"] = str(streamtime.register(spark))
    found["after"] = context.pythonExec
    found["again"] = str(streamtime.register(spark))
    found["rows"] = spark.sql(CALL).count()
    found["doctor"] = doctor.check("workers", lambda: doctor.workers(spark)).state
    for name, make in (("create", create), ("open", streamtime.VersionedTable)):
        try:
            make(spark, "p")
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    spark.sql("CREATE TABLE files USING parquet AS SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts")
    spark.sql("CREATE TEMP VIEW temporary AS SELECT * FROM files")
    spark.sql("CREATE VIEW stored AS SELECT * FROM files")
    found["history"] = {}
    for table in ("files", "temporary", "stored", "nowhere"):
        try:
            spark.sql(f"SELECT * FROM TABLE_HISTORY('{table}')")
        except Exception as error:
            found["history"][table] = str(error)
    streamtime.unregister(spark)
    os.environ["PYSPARK_PYTHON"] = context.pythonExec = str(Path(folder) / "bin" / "python3")  # chosen, and wrong
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found["chosen"] = str(streamtime.register(spark))
    found["kept"], found["warned"] = context.pythonExec, [str(w.message) for w in caught if w.category is RuntimeWarning]
    finding = doctor.check("workers", lambda: doctor.workers(spark))
    found["failed"] = [finding.state, finding.says, finding.todo]
    say(channel, json.dumps(found))
    spark.stop()


def create(spark: SparkSession, table: str) -> streamtime.VersionedTable:
    return streamtime.VersionedTable.create(spark, table, SCHEMA, key="product", time="ts")


if __name__ == "__main__":
    main(*sys.argv[1:])
