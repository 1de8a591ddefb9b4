"""The main job on real data: loads 336,776 flights and 26,115 weather rows into Delta, answers questions in SQL, checks the answers."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import expectations
import flights
from pyspark.sql import DataFrame, Row, SparkSession

import streamtime
from streamtime.script import statements

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
        for statement in statements(SCRIPT.read_text()):
            print()
            for line in statement.comment:
                print(f"\033[1m{line}\033[0m" if sys.stdout.isatty() else f"-- {line}")
            print(statement.sql)
            started = time.monotonic()
            df = spark.sql(statement.sql)
            if df.columns:
                show(df)
            say(f"{time.monotonic() - started:.1f} s")
        print()
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


def say(text: str) -> None:
    """Progress, apart from results."""
    print(f"[{text}]", flush=True)


def show(df: DataFrame, most: int = 20) -> None:
    """A result as an aligned table."""
    rows = [["" if v is None else f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else str(v) for v in r] for r in df.take(most)]
    widths = [max(len(text) for text in column) for column in zip(df.columns, *rows, strict=True)]
    for line in (df.columns, ["-" * w for w in widths], *rows):
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
