"""The main job on real data: loads 336,776 flights and 26,115 weather rows into Delta, answers questions in SQL, checks the answers."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import expectations
import flights
from pyspark.sql import Row, SparkSession
from story import play, say

import streamtime

SCRIPT = Path(__file__).with_name("quickstart.sql")


def main() -> int:
    """Run the story; 1 if a postcondition does not hold."""
    began = time.monotonic()
    say("Starting Spark with Delta Lake ..")
    folder = Path(tempfile.mkdtemp(prefix="streamtime-"))
    spark = streamtime.session(settings={"spark.sql.warehouse.dir": str(folder), "spark.sql.shuffle.partitions": "4"})
    try:
        say(f"Spark {spark.version} is up, and knows {', '.join(r.function for r in functions(spark))}")
        say("Loading flights, weather and planes into Delta tables ..")
        flights.load(spark, "quickstart")
        play(spark, SCRIPT)
        say("Checking what must hold of the tables, with Great Expectations ..")
        results = expectations.check(spark)
        for table, says, holds in results:
            print(f"  {'ok    ' if holds else 'FAILED'} {table}: {says}")
        broken = [r for r in results if not r[2]]
        say(f"{len(results) - len(broken)} of {len(results)} hold. Done in {time.monotonic() - began:.0f} s.")
        return 1 if broken else 0
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def functions(spark: SparkSession) -> list[Row]:
    """The pack's functions, asked in SQL."""
    return spark.sql("SELECT DISTINCT function FROM FUNCTION_CATALOG() ORDER BY function").collect()


if __name__ == "__main__":
    sys.exit(main())
