"""Plays a SQL script as a story: its comments, its statements, their results."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from streamtime.script import statements


def play(spark: SparkSession, script: Path) -> None:
    """Run the statements, one after the other, and show what they give."""
    for statement in statements(script.read_text()):
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


def say(text: str) -> None:
    """Progress, apart from results."""
    print(f"[{text}]", flush=True)


def show(df: DataFrame, most: int = 20) -> None:
    """A result as an aligned table."""
    rows = [["" if v is None else f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else str(v) for v in r] for r in df.take(most)]
    widths = [max(len(text) for text in column) for column in zip(df.columns, *rows, strict=True)]
    for line in (df.columns, ["-" * w for w in widths], *rows):
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
