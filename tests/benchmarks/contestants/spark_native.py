"""Spark 4.3's native ASOF JOIN, and the floor on that Spark: `python -m contestants.spark_native CORES MEMORY`."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from contestants.plain import FLOOR, SETTINGS, checksum, floor, noop, sides
from contestants.served import serve

JOIN = "SELECT * FROM l LEFT ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k"


def main() -> None:
    cores, memory = sys.argv[1:]
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", memory)
    for name, value in {**SETTINGS, "spark.sql.join.asofJoin.enabled": "true"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def native(folder: Path, check: bool) -> float | list[int]:
        sides(spark, folder)
        joined = spark.sql(JOIN)
        return checksum(joined) if check else noop(joined)

    def bare(folder: Path, check: bool) -> float | list[int]:
        return [] if check else floor(spark, folder)

    serve({f"{FLOOR}, Spark {spark.version}": bare, f"native ASOF JOIN, Spark {spark.version}": native})
    spark.stop()


if __name__ == "__main__":
    main()
