"""Plays a SQL script over real data as a story: its comments, its statements, their results."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import flights
from pyspark.sql import DataFrame, SparkSession

import streamtime
from streamtime.shell.script import statements


@contextmanager
def stage(schema: str, log: Path | None = None) -> Iterator[tuple[SparkSession, Path]]:
    """A session with the data in a schema, and a folder; both are gone afterwards. What Spark and its workers say may go to a log."""
    say("Starting Spark with Delta Lake ..")
    folder = Path(tempfile.mkdtemp(prefix="streamtime-"))
    with errors_to(log):
        spark = streamtime.session(settings={"spark.sql.warehouse.dir": str(folder), "spark.sql.shuffle.partitions": "4"})
    try:
        known = spark.sql("SELECT DISTINCT function FROM FUNCTION_CATALOG() ORDER BY function").collect()
        say(f"Spark {spark.version} is up, and knows {', '.join(row.function for row in known)}")
        say("Loading flights, weather and planes into Delta tables ..")
        flights.load(spark, schema)
        yield spark, folder
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def errors_to(log: Path | None) -> Iterator[None]:
    """Standard error of all processes that start meanwhile goes to a file."""
    if log is None:
        yield
        return
    before = os.dup(2)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def play(spark: SparkSession, script: Path | str) -> None:
    """Run the statements of a file, or of a text, one after the other, and show what they give."""
    for statement in statements(script if isinstance(script, str) else script.read_text()):
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
