"""How many rows each task has in the end."""

from __future__ import annotations

from pyspark.sql import SparkSession

PARTITIONS = 8


def rows_by_task(spark: SparkSession, call: str) -> list[int]:
    """The rows that each task of the last stage of a call gives, of as many tasks as `PARTITIONS`; none is left out since it is small."""
    changed = {"spark.sql.shuffle.partitions": str(PARTITIONS), "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) or "" for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        every = "max(to_json(struct(*))) AS one"  # else Spark leaves out what columns that nobody asks for need
        rows = spark.sql(f"SELECT spark_partition_id() AS task, count(*) AS n, {every} FROM {call} GROUP BY task").collect()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    return [row["n"] for row in rows]
