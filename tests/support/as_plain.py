"""Tests that compare rows run the plain SQL of their calls: the same cases, rules and slow definitions.

`pytest --plain` does so in the same session. `pytest --plain-bundle FOLDER` keeps each text there, with the tables that it reads and what the
call gives, which the test compares with its rules; `run.py conformance --cases` runs these in a process without the pack.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import streamtime
from streamtime.plain.compiling import QUERY
from streamtime.sql.syntax import as_of_rewrite
from streamtime.statements.query import MENTIONED
from support import TESTS

COUNTS, REASONS = Counter[str](), Counter[str]()


def calls_as_plain_sql(spark: SparkSession) -> None:
    """From now on `spark.sql` compiles what it is given, where that has plain SQL."""
    as_it_is = spark.sql

    def sql(text: str, args: Any = None, **frames: Any) -> DataFrame:
        if mentioned(text) and not frames:
            try:
                spark.sql = as_it_is  # type: ignore[method-assign]
                text = streamtime.compile(spark, text)
                COUNTS["plain"] += 1
            except AnalysisException as error:
                COUNTS["as is"] += 1
                REASONS[str(error).partition("; line")[0][:140]] += 1
            finally:
                spark.sql = sql  # type: ignore[assignment, method-assign]
        return as_it_is(text, args, **frames)

    spark.sql = sql  # type: ignore[assignment, method-assign]


def mentioned(text: str) -> bool:
    return bool(MENTIONED.search(text)) or as_of_rewrite.mentioned(text)


class Kept:
    """What `spark.sql` is given, as cases for other processes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        sys.path.insert(0, str(TESTS / "conformance"))
        from bundle import Bundle

        self.spark, self.as_it_is = spark, spark.sql
        self.bundle = Bundle(spark, folder, anywhere=False)
        spark.sql = self.sql  # type: ignore[assignment, method-assign]

    def sql(self, text: str, args: Any = None, **frames: Any) -> DataFrame:
        if QUERY.match(text) and mentioned(text) and not args and not frames:
            self.spark.sql = self.as_it_is  # type: ignore[method-assign]
            try:
                self.bundle.add(os.environ["PYTEST_CURRENT_TEST"].partition("::")[0], text)
            except Exception as error:  # of a call that the test wants to be refused, or of a table that cannot be kept
                REASONS[f"{type(error).__name__}: {error}".partition("; line")[0][:140]] += 1
            finally:
                self.spark.sql = self.sql  # type: ignore[assignment, method-assign]
        return self.as_it_is(text, args, **frames)

    def stop(self) -> None:
        """Nothing more is kept."""
        self.spark.sql = self.as_it_is  # type: ignore[method-assign]

    def write(self) -> None:
        self.bundle.write()
        COUNTS["plain"], COUNTS["as is"] = len(self.bundle.cases), len(self.bundle.refused)
