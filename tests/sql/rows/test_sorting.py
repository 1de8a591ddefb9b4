"""Rows go sorted into the shuffle, so that what sorts them behind it merges runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.tasks import sorts

IN_ORDER, ARRIVED = "TABLE(many) PARTITION BY k ORDER BY ts", "TABLE(many) PARTITION BY k ORDER BY n, time => 'ts'"
HOUR, COUNT = "INTERVAL 1 HOUR", "aggregates => 'count(*) AS c'"
ONCE = ["Sort", "Exchange", "Sort"]


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = str(tmp_path_factory.mktemp("many") / "rows")
    spark.sql("SELECT id % 7 AS k, timestamp_seconds(id) AS ts, xxhash64(id) AS n FROM range(1000000)").write.parquet(folder)
    spark.read.parquet(folder).createOrReplaceTempView("many")
    yield
    spark.catalog.dropTempView("many")


@pytest.mark.parametrize(
    ("call", "steps"),
    [
        (f"DEDUPLICATE({IN_ORDER}, within => {HOUR})", ONCE),
        (f"DEDUPLICATE({IN_ORDER}, within => {HOUR}, keep => 'last', output => 'all')", ONCE),
        (f"SESSIONIZE({IN_ORDER}, gap => {HOUR})", ONCE),
        (f"WINDOW_UPDATES({IN_ORDER}, size => {HOUR}, {COUNT})", ONCE),
        (f"SESSION_UPDATES({IN_ORDER}, gap => {HOUR}, {COUNT})", ONCE),
        (f"DEDUPLICATE({ARRIVED}, within => {HOUR})", ONCE + ONCE),  # of keys, and of stream time
        (f"DEDUPLICATE({ARRIVED.replace(' n', ' n DESC')}, within => {HOUR}, keep => 'last')", ONCE + ONCE),
        (f"SESSIONIZE({ARRIVED}, gap => {HOUR}, grace => {HOUR})", ONCE + ONCE),
        # a window sorts by its own columns: below a shuffle, one more sort is for it
        (f"VERSIONS({IN_ORDER})", ONCE),
        (f"DEDUPLICATE({IN_ORDER})", ["Sort", "Exchange", "Sort", "Sort"]),
        (f"DEDUPLICATE({IN_ORDER}, keep => 'last')", ["Sort", "Exchange", "Sort", "Sort"]),
    ],
)
def test_rows_are_sorted_on_both_sides_of_a_shuffle(spark: SparkSession, many: None, call: str, steps: list[str]) -> None:
    plan = str(spark.sql(f"SELECT * FROM {call}")._jdf.queryExecution().executedPlan().toString())
    assert sorts(plan) == steps
