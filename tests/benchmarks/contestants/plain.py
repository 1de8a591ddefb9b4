"""What all Spark contestants share: the two sides, the floor, the sink, and a checksum that tells whether two results match."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FLOOR = "shuffle + sort of both sides"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def sides(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    """Both sides of one shape, also as the views `l` and `r`."""
    left, right = spark.read.parquet(str(folder / "l")), spark.read.parquet(str(folder / "r"))
    left.createOrReplaceTempView("l")
    right.createOrReplaceTempView("r")
    return left, right


def noop(df: DataFrame) -> float:
    """Seconds to run all of it."""
    began = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def floor(spark: SparkSession, folder: Path) -> float:
    """Seconds for each side's bare shuffle by key and sort by key and time, added."""
    return sum(noop(side.repartition("k").sortWithinPartitions("k", "ts")) for side in sides(spark, folder))


def checksum(joined: DataFrame, right_id: str = "b0") -> list[int]:
    """Rows, matches, and a sum over which right row each left row meets."""
    row = joined.select(F.count("*"), F.count(right_id), F.sum(F.col(right_id) * (F.col("a0") % 1000))).first()
    assert row is not None
    return [int(value) for value in row]
