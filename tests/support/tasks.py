"""How many rows each task has in the end, and where rows are sorted on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

PARTITIONS = 8


@contextmanager
def apart(spark: SparkSession) -> Iterator[None]:
    """Shuffles have as many tasks as `PARTITIONS` meanwhile, however few their rows are."""
    changed = {"spark.sql.shuffle.partitions": str(PARTITIONS), "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) or "" for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def rows_by_task(spark: SparkSession, call: str) -> list[int]:
    """The rows that each task of the last stage of a call gives; none is left out since it is small."""
    every = "max(to_json(struct(*))) AS one"  # else Spark leaves out what columns that nobody asks for need
    with apart(spark):
        rows = spark.sql(f"SELECT spark_partition_id() AS task, count(*) AS n, {every} FROM {call} GROUP BY task").collect()
    return [row["n"] for row in rows]


def sorts(plan: str) -> list[str]:
    """The sorts and exchanges of a plan, the last first. What a subquery does stands behind a colon, and is left out."""
    return re.findall(r"^[\s+*()\d-]*(Sort|Exchange)\b", plan, re.MULTILINE)
