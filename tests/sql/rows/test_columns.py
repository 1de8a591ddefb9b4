"""Columns are made once for each text; what is made for one analysis alone is let go with it."""

from __future__ import annotations

import gc
import weakref

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import named, remembered


def test_what_is_made_of_a_column_of_one_analysis_goes_with_it(spark: SparkSession) -> None:
    """Such a column may hold on to a whole query. Catches: a cache that does, which shows after hundreds of analyses alone."""
    columns = [named("v"), F.col("k") + 1]
    made = [remembered("a sum", columns, lambda: columns[0] + columns[1]) for _ in range(2)]
    assert made[0] is not made[1]
    alive = [weakref.ref(column) for column in (columns[1], *made)]
    columns.clear()
    made.clear()
    gc.collect()
    assert [column() for column in alive] == [None, None, None]


def test_what_is_made_of_columns_that_last_is_made_once(spark: SparkSession) -> None:
    made: list[Column] = []

    def make() -> Column:
        made.append(named("k") + named("v"))
        return made[-1]

    first = remembered("another sum", [named("k"), named("v")], make)
    assert remembered("another sum", [named("k"), named("v")], make) is first
    assert remembered("another sum", [named("v"), named("k")], make) is not first
    assert len(made) == 2
