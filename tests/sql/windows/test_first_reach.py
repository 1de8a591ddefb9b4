"""Late rows by the first-reach table, against the slow definition: DISTINCT_IN_WINDOW where one clock runs over all rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.inputs import nasty
from support.inputs.nasty import SECOND, interval
from support.reference import deduplicate as reference_deduplicate

from streamtime.sql.windows import first_reach

CALLS: tuple[dict[str, Any], ...] = (
    {"order": ["off"], "size": 10, "slide": 10, "grace": 0},
    {"order": ["off"], "size": 30, "slide": 7, "grace": 5},
    {"order": ["d", "off"], "size": 20, "slide": 20, "grace": 100},
    {"order": ["off", "t"], "size": 5, "slide": 5, "grace": 1, "far": True},
    {"order": ["v", "id"], "size": 3, "slide": 2, "grace": 2, "kind": "DATE"},
    {"order": ["off"], "size": 9, "slide": 4, "grace": 3, "kind": "TIMESTAMP_NTZ"},
)


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_the_first_rows_of_windows_that_were_open_are_those_of_the_slow_definition(
    spark: SparkSession, number: int, files: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(first_reach, "FEW_STEPS", 1)
    options, kind = CALLS[number], CALLS[number].get("kind", "TIMESTAMP")
    rows, unit, names = nasty.drifted(spark, number, 600, kind, "far" in options, late=60)
    if files:
        nasty.in_files(spark, tmp_path)
    size, slide, grace = (options[n] * unit for n in ("size", "slide", "grace"))
    judged = reference_deduplicate.distinct_in_windows(nasty.meant(rows), order=options["order"], grace=grace, size=size, slide=slide)
    text = (
        f"DISTINCT_IN_WINDOW({names.clauses(['k'], options['order'])}, time => {names.option('{t}')}, size => {interval(size)}, "
        f"slide => {interval(slide)}, grace => {interval(grace)})"
    )
    df = spark.sql(f"SELECT {names.sql('{id}')}, {nasty.micros('window_start', kind)}, {nasty.micros('window_end', kind)} FROM {text}")
    assert "streamtime" not in str(df._jdf.queryExecution().executedPlan().toString()).replace("__streamtime_", "")
    assert "ArrowEvalPython" not in df._jdf.queryExecution().executedPlan().toString()
    assert df._jdf.queryExecution().executedPlan().toString().count("FileScan") == 3 * files
    got = Counter(map(tuple, df.collect()))
    wanted = Counter((j.row["id"], *(min(edge, nasty.HIGHEST) for edge in j.window)) for j in judged if j.reason is None and j.window)
    assert {j.reason for j in judged} >= {None, "late", "duplicate", "null_key"}
    assert got == wanted, (sorted((got - wanted).items())[:9], sorted((wanted - got).items())[:9])


@pytest.mark.parametrize(("order", "table"), [("off", True), ("off DESC", False), ("off NULLS LAST", False), ("t", False)])
def test_stream_time_is_sorted_for_only_where_rows_do_not_compare_as_they_are_ordered(spark: SparkSession, order: str, table: bool) -> None:
    nasty.view(spark, nasty.drifting(1, 20, SECOND, False))
    call = f"DISTINCT_IN_WINDOW(TABLE(nasty) PARTITION BY k ORDER BY {order}, time => 't', size => INTERVAL 10 MINUTES)"
    (plan,) = spark.sql(f"EXPLAIN SELECT * FROM {call}").head()  # type: ignore[misc]
    assert ("BroadcastHashJoin" in plan) == table
    assert ("ArrowEvalPython" in plan) == (not table and order != "t")


def test_what_users_filter_by_reaches_the_files(spark: SparkSession, tmp_path: Path) -> None:
    many = ", ".join(f"id AS c{i}" for i in range(9))
    spark.sql(f"SELECT id % 5 AS k, id AS n, timestamp_seconds(id) AS ts, {many} FROM range(99)").write.parquet(str(tmp_path / "rows"))
    spark.read.parquet(str(tmp_path / "rows")).createOrReplaceTempView("clicks")
    call = "DISTINCT_IN_WINDOW(TABLE(clicks) PARTITION BY k ORDER BY n, time => 'ts', size => INTERVAL 1 HOUR)"
    plan = spark.sql(f"SELECT * FROM {call} WHERE k = 3")._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(k,3)" in plan, plan
    spark.catalog.dropTempView("clicks")
