"""`pytest --plain`: tests that compare rows run the plain SQL of their calls, in the same session: the same cases, rules and slow definitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import streamtime
from streamtime.statements.query import MENTIONED

COUNTS, REASONS = Counter[str](), Counter[str]()


def calls_as_plain_sql(spark: SparkSession) -> None:
    """From now on `spark.sql` compiles what it is given, where that has plain SQL."""
    as_it_is = spark.sql

    def sql(text: str, args: Any = None, **frames: Any) -> DataFrame:
        if MENTIONED.search(text) and not frames:
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
