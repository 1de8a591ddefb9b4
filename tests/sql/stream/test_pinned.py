"""What calls over streams pin in their checkpoints, and what they refuse since state compares byte by byte. Catches: an argument whose type is
not pinned, so that sums of other scales are added up; an output with a state of its own; a collation that is said as an error of Spark's.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from support.streams import Source, at

from streamtime.sql.stream import buckets, plan

TYPED = "TABLE(SELECT k, ts, id, CAST(id AS {}) AS amount, struct(id + 0 AS x) AS s FROM events) PARTITION BY k ORDER BY (ts, s)"
SUMS = "aggregates => 'count(s) AS c, sum(amount) AS total, avg(amount) AS mean, min(k) AS least'"
CHANGES = "AGGREGATE_CHANGES({}, time => 'ts', group_by => ARRAY('id'), {}{{}})"


def options(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, call: str) -> list[dict[str, str]]:
    """Those of each state of the call."""
    plans: list[Any] = []
    for name in ("Judge", "Hold"):
        made = getattr(buckets, name)
        monkeypatch.setattr(plan, name, lambda given, made=made: (plans.append(given), made(given))[1])
    spark.sql(f"SELECT * FROM {call}")
    monkeypatch.undo()
    return [p.options for p in plans]


def test_what_is_added_up_is_pinned_with_its_types_and_so_is_an_output_with_a_state_of_its_own(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    source.stream().createOrReplaceTempView("events")
    decimals, whole = (TYPED.format(kind) for kind in ("DECIMAL(10, 2)", "INT"))
    windows, sessions = (f"{{}}_UPDATES({{{{}}}}, {size} => INTERVAL 1 MINUTE, {SUMS}{{{{}}}})" for size in ("size", "gap"))
    totals, ordered = "amount decimal(10,2), k string", "s struct<x:int>"
    for call, said in (
        (windows.format("WINDOW").format(decimals, ""), [(totals, "rows")]),
        (windows.format("WINDOW").format(whole, ", emit => 'final'"), [(f"amount bigint, amount double, k string, {ordered}", "rows")]),
        (windows.format("WINDOW").format(whole, ", output => 'all'"), [(None, "dropped or all")]),
        (sessions.format("SESSION").format(decimals, ", emit => 'final'"), [(f"{totals}, {ordered}", "rows")]),
        (sessions.format("SESSION").format(decimals, ", output => 'dropped'"), [(None, "dropped or all")]),
        (CHANGES.format(decimals, SUMS).format(""), [(f"id int, {totals}", None)] * 2),
        (CHANGES.format(whole, SUMS).format(", output => 'all'"), [("id int, amount int, k string", None)]),
        (f"SUPPRESS_UNTIL_TIME_LIMIT({whole}, wait => INTERVAL 1 MINUTE)", [(None, "rows")]),
        (f"SUPPRESS_UNTIL_TIME_LIMIT({whole}, wait => INTERVAL 1 MINUTE, output => 'all')", [(None, "dropped or all")]),
    ):
        pinned = options(monkeypatch, source.spark, call)
        assert [(p.get("types"), p.get("output")) for p in pinned] == said, call
        assert all(p["letters"] == "as written" for p in pinned)


LCASE = "collate(k, 'UTF8_LCASE')"
COLLATED = f"SELECT k, ts, id, {LCASE} AS c, named_struct('x', {LCASE}, 'y', array({LCASE})) AS s FROM events"
WITHIN = "within => INTERVAL 1 MINUTE"
RIGHT = "TABLE(SELECT k, ts, id AS price, collate(k, 'UTF8_LCASE') AS c FROM events) PARTITION BY k ORDER BY "


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (f"DEDUPLICATE(TABLE({COLLATED}) PARTITION BY k ORDER BY (ts, c), {WITHIN})", r"ORDER BY: a column .* \(`c`\)\. Use collate\(c, "),
        (f"DEDUPLICATE(TABLE({COLLATED}) PARTITION BY s ORDER BY ts, {WITHIN})",
         r"PARTITION BY: a key .* \(`s`\)\. Use CAST\(s AS STRUCT<X:STRING,Y:ARRAY<STRING>>\), in the TABLE argument"),
        (f"DEDUPLICATE(TABLE({COLLATED}) PARTITION BY k ORDER BY ts, {WITHIN}, offset => 's')", r"`offset`: a column .* \(`s`\)"),
        (f"AGGREGATE_CHANGES(TABLE({COLLATED}) PARTITION BY k ORDER BY (ts, c), time => 'ts', group_by => ARRAY('id'), aggregates => 'count(*) AS n')",
         r"ORDER BY: a column .* \(`c`\)"),
        (f"FILTER_CHANGES(TABLE({COLLATED}) PARTITION BY k ORDER BY (ts, s), condition => 'id > 1')", r"ORDER BY: a column .* \(`s`\)"),
        (f"JOIN_CHANGES({RIGHT}(ts, c), TABLE(SELECT k, ts, {LCASE} AS c FROM events) PARTITION BY k ORDER BY (ts, c), time => 'ts')",
         r"ORDER BY: a column .* \(`c`\)"),
        (f"AS_OF_JOIN(TABLE(events) PARTITION BY k ORDER BY ts, {RIGHT}(ts, c), retention => INTERVAL 1 HOUR)", r"ORDER BY: a column .* \(`c`\)"),
    ],
)  # fmt: skip
def test_a_collation_is_refused_wherever_values_are_told_apart_or_ordered(source: Source, call: str, said: str) -> None:
    source.stream().createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match=rf"(?s){said}.*" if said.endswith("\\)") else said):
        source.spark.sql(f"SELECT * FROM {call}")


def test_rows_that_are_held_leave_after_a_restart_under_which_nothing_in_them_may_be_null(source: Source) -> None:
    held = "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(SELECT k, ts, id, struct({} AS x) AS s FROM events) PARTITION BY k ORDER BY ts, wait => INTERVAL 5 SECONDS)"
    source.add([("a", at(0), 1, None)])
    source.run(f"SELECT * FROM {held.format('off')}")
    source.add([("b", at(1), 2, 7)])
    source.add([("c", at(60), 3, 8)])
    assert sorted((r.id, r.s.x) for r in source.run(f"SELECT * FROM {held.format('coalesce(off, 0)')}")) == [(1, None), (2, 7)]


@pytest.mark.long("tests/sql/stream/test_checkpoint.py")
def test_totals_of_another_type_are_an_error_that_says_so_and_those_of_another_output_are_one_of_sparks(source: Source) -> None:
    call = f"SELECT * FROM {CHANGES.format(TYPED.format('DECIMAL(10, 2)'), SUMS)}"
    source.add([("a", at(0), 1, 0)])
    source.run(call.format(""))
    source.add([("a", at(1), 1, 0)])
    with pytest.raises(
        StreamingQueryException, match=r"other options: types was id int, amount decimal\(10,2\), k string and is id int, amo"
    ):
        source.run(call.format("").replace("DECIMAL(10, 2)", "DECIMAL(12, 4)"))
    with pytest.raises(StreamingQueryException, match="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"):  # a report has one state
        source.run(call.format(", output => 'all'"))
