"""Final rows of tumbling windows by GROUP BY, against the slow definition and the kernel, on rows that are late, tied, null and far."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.inputs import nasty
from support.inputs.nasty import interval
from support.reference import updates as slow

import streamtime
from streamtime.sql.rows import scans
from streamtime.sql.windows import first_reach, release, updates

SUMS = "count(*) AS n_rows, count(v) AS n, sum(v) AS total, min(v) AS low, max(v) AS high, avg(v) AS mean"
CALLS: tuple[dict[str, Any], ...] = (
    {"order": "off", "size": 10, "grace": 0},
    {"order": "off", "size": 7, "grace": 15, "at_end": "emit"},
    {"order": "id", "size": 5, "grace": 1, "far": True},
    {"order": "id", "size": 3, "grace": 2, "kind": "DATE", "at_end": "emit"},
    {"order": "off", "size": 9, "grace": 3, "kind": "TIMESTAMP_NTZ"},
    {"order": "t", "size": 8, "grace": 5},
    {"order": "t", "size": 2, "grace": 0, "kind": "DATE", "at_end": "emit"},
    {"order": "t", "size": 6, "grace": 0, "far": True, "at_end": "emit"},
)


def executed(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_final_rows_are_those_of_the_slow_definition_without_a_kernel(
    spark: SparkSession, number: int, files: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(first_reach, "FEW_STEPS", 1)
    options, kind = CALLS[number], CALLS[number].get("kind", "TIMESTAMP")
    rows, unit, names = nasty.drifted(spark, number, 700, kind, "far" in options, late=40)
    if files:
        nasty.in_files(spark, tmp_path)
    size, grace, order = options["size"] * unit, options["grace"] * unit, options["order"]
    clocked = slow.clocked(rows, [order], [])
    judged = slow.time_windows(clocked, [order], size, size, grace)
    text = (
        f"WINDOW_UPDATES({names.clauses(['k'], [order])}, time => {names.option('{t}')}, size => {interval(size)}, grace => {interval(grace)}, "
        f"aggregates => {names.option(SUMS.replace('(v)', '({v})'))}, emit => 'final', at_end => '{options.get('at_end', 'hold')}')"
    )
    edge = "TIMESTAMP_NTZ" if kind == "DATE" else kind
    times = ", ".join(nasty.micros(c, edge) for c in ("window_start", "window_end", "window_close", "change_time", "emit_time"))
    by = nasty.micros(names.sql("{t}"), kind) if order == "t" and kind != "DATE" else names.sql(f"{{{order}}}")
    by = nasty.micros(f"CAST({by} AS TIMESTAMP_NTZ)", edge) if by == names.sql("{t}") else by
    df = spark.sql(
        f"SELECT {names.sql('{k}')}, {by}, {times}, change_type, change_seq, emit_reason, n_rows, n, total, low, high, mean FROM {text}"
    )
    assert "Arrow" not in executed(df)
    last = max(clock for _, clock in clocked if clock is not None)
    wanted = Counter(
        (
            *(c.row["k"], c.row[order], c.start, min(c.end, nasty.HIGHEST), min(c.close, nasty.HIGHEST), c.time),
            *(last if at is None else at, "upsert", 0, "end" if at is None else "close", *(c.values or ())[:6]),
        )
        for c, at in slow.final(judged, clocked)
        if at is not None or "at_end" in options
    )
    got = Counter(map(tuple, df.collect()))
    assert got == wanted, (sorted((got - wanted).items(), key=repr)[:5], sorted((wanted - got).items(), key=repr)[:5])
    assert judged.late or order == "t"
    final, _, _ = executed(df).partition("Initial Plan")
    scans_of = {"t": 3 if "at_end" in options else 2}  # of all columns once, and of times: when windows close, and the last of all
    assert final.count("FileScan") == (scans_of.get(order, 3) if files else 0), final


SESSIONS: tuple[dict[str, Any], ...] = (
    {"gap": 1, "grace": 0},
    {"gap": 7, "grace": 5, "at_end": "emit"},
    {"gap": 2, "grace": 1, "kind": "DATE", "at_end": "emit"},
    {"gap": 4, "grace": 9, "kind": "TIMESTAMP_NTZ"},
    {"gap": 0, "grace": 0, "at_end": "emit"},
    {"gap": 5, "grace": 2, "far": True, "at_end": "emit"},
)


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("number", range(len(SESSIONS)))
def test_final_sessions_in_event_order_are_those_of_the_slow_definition_and_no_kernel_adds_up(
    spark: SparkSession, number: int, files: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    many = bool(number % 2)
    monkeypatch.setattr(release, "WORTH_CUTTING", 2 if many else 100_000)
    monkeypatch.setattr(scans, "SMALL", 0 if many else scans.SMALL)
    options, kind = SESSIONS[number], SESSIONS[number].get("kind", "TIMESTAMP")
    rows, unit, names = nasty.drifted(spark, number, 700, kind, "far" in options)
    if files:
        nasty.in_files(spark, tmp_path)
    gap, grace = options["gap"] * unit, options["grace"] * unit
    clocked = slow.clocked(rows, ["t"], [])
    text = (
        f"SESSION_UPDATES({names.clauses(['k'], ['t'])}, gap => {interval(gap)}, grace => {interval(grace)}, "
        f"aggregates => {names.option(SUMS.replace('(v)', '({v})'))}, emit => 'final', at_end => '{options.get('at_end', 'hold')}')"
    )
    edge = "TIMESTAMP_NTZ" if kind == "DATE" else kind
    times = ", ".join(nasty.micros(c, edge) for c in ("session_start", "session_end", "window_close", "change_time", "emit_time"))
    by = nasty.micros(names.sql("CAST({t} AS TIMESTAMP_NTZ)" if kind == "DATE" else "{t}"), edge)
    df = spark.sql(
        f"SELECT {names.sql('{k}')}, {by}, {times}, change_type, change_seq, emit_reason, n_rows, n, total, low, high, mean FROM {text}"
    )
    plan = executed(df)
    packs = plan.count("ArrowEvalPython [packer(") + plan.count("MapInArrow")  # before Spark 4.1
    assert plan.count("Arrow") == plan.count("ArrowEvalPython [nextstreamtime(") + packs  # when they leave
    assert ("Arrow" in plan) == (many or not files)  # of an RDD nobody knows that it is small
    if "at_end" not in options:  # which asks for the last time of all, too, by names of its own on some Sparks
        # all columns once, and times: from when to when, and each of them; where they are few, also where ranges begin
        read = set(re.findall(r"FileScan parquet (\[.*?\])", plan))  # a part of a plan that stands twice counts once
        assert len(read) == ((3 if many else 4) if files else 0), read
    last = max(clock for _, clock in clocked if clock is not None)
    wanted = Counter(
        (
            *(c.row["k"], c.row["t"], c.start, c.end, min(c.close, nasty.HIGHEST), c.time),
            *(last if at is None else at, "upsert", c.seq, "end" if at is None else "close", *(c.values or ())[:6]),
        )
        for c, at in slow.final(slow.sessions(clocked, ["t"], gap, grace), clocked)
        if at is not None or "at_end" in options
    )
    got = Counter(map(tuple, df.collect()))
    assert got == wanted, (sorted((got - wanted).items(), key=repr)[:5], sorted((wanted - got).items(), key=repr)[:5])
    assert len(wanted) > 50


NUMBERS = (
    "CAST(id - 50 AS TINYINT) AS a, CAST(id * 7 AS SMALLINT) AS b, CAST(id * 1000003 AS INT) AS c, id * 90071992547409 - 4503599627370496 AS d, "
    "CAST(id * 1.37 - 60 AS DECIMAL(9, 2)) AS e, CAST(id * 123456789012.345 AS DECIMAL(28, 6)) AS f, id % 3 = 0 AS g, "
    "DATE '1900-01-01' + INTERVAL 1 DAY * id AS h, timestamp_seconds(id * 1e9) AS i, nanvl(id / 7, 0) * if(id % 2 = 0, -1, 1) AS x, "
    "CAST(if(id % 5 = 0, 'NaN', -0.0D) AS FLOAT) AS y"
)


def test_totals_of_every_type_are_the_kernels(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.sql(
        f"SELECT id % 4 AS k, timestamp_seconds(id DIV 9 * 60) AS ts, {NUMBERS} FROM range(100) UNION ALL "
        "SELECT 9, timestamp_seconds(5), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
    ).createOrReplaceTempView("numbers")
    asked = [f"{f}({c}) AS {f}_{c}" for f in ("sum", "avg") for c in "abcdef"]
    asked += [f"{f}({c}) AS {f}_{c}" for f in ("min", "max", "count") for c in "abcdefghixy"]
    text = (
        "SELECT * FROM WINDOW_UPDATES(TABLE(numbers) PARTITION BY k ORDER BY ts, size => INTERVAL 7 MINUTES, "
        f"aggregates => '{', '.join(asked)}', emit => 'final', at_end => 'emit')"
    )
    grouped = spark.sql(text)
    found = grouped.collect()
    assert "Arrow" not in executed(grouped)
    monkeypatch.setattr(updates, "final_rows", lambda *_: None)
    kernel = spark.sql(text)

    def said(rows: list[Any]) -> list[list[str]]:
        """Values as they read; 0.0 is -0.0, and the kernel rounds an average of large BIGINTs row by row."""
        return sorted([f"{v + 0.0:.13g}" if isinstance(v, float) else repr(v) for v in row] for row in rows)

    assert said(found) == said(kernel.collect())
    assert len(found) > 8
    assert "ArrowEvalPython" in executed(kernel) or "MapInArrow" in executed(kernel)
    assert [(f.name, f.dataType, f.metadata) for f in grouped.schema] == [(f.name, f.dataType, f.metadata) for f in kernel.schema]


def test_a_sum_that_does_not_fit_fails_and_one_that_fits_in_the_end_does_not(spark: SparkSession) -> None:
    call = (
        "SELECT s FROM WINDOW_UPDATES(TABLE(SELECT timestamp_seconds(1) AS ts, 1 AS k, * FROM VALUES {} AS t(n, v)) PARTITION BY k "
        "ORDER BY n, time => 'ts', size => INTERVAL 10 MINUTES, aggregates => '{}(v) AS s', emit => 'final', at_end => 'emit')"
    )
    fits = "(1, 9223372036854775807), (2, 5L), (3, -9L), (4, NULL)"
    assert spark.sql(call.format(fits, "sum")).head() == (2**63 - 5,)
    for low in ("(1, -9223372036854775808), (2, 0L)", "(1, -9223372036854775807), (2, -1L)"):
        assert spark.sql(call.format(low, "sum")).head() == (-(2**63),)
    assert spark.sql(call.format("(1, 9223372036854775807), (2, 9223372036854775807)", "avg")).head() == (2.0**63,)
    with pytest.raises(Exception, match=r"sum\(..\) AS s: the sum does not fit BIGINT; cast the argument to DECIMAL\(38\)"):
        spark.sql(call.format("(1, 9223372036854775807), (2, 1L)", "sum")).collect()


@pytest.mark.parametrize("order", ["off", "t"])
@pytest.mark.parametrize("at_end", ["hold", "emit"])
def test_no_rows_and_rows_that_take_no_part_give_no_window(spark: SparkSession, order: str, at_end: str) -> None:
    none = [r for r in nasty.scenarios(5, 60) if None in (r["k"], r["t"], r["off"])]
    assert len({(r["k"] is None, r["t"] is None) for r in none}) > 2
    for rows in ([], none):
        nasty.view(spark, rows)
        df = spark.sql(
            f"SELECT * FROM WINDOW_UPDATES(TABLE(SELECT * FROM nasty WHERE {order} IS NULL OR k IS NULL) PARTITION BY k ORDER BY {order}, "
            f"time => 't', size => INTERVAL 1 HOUR, aggregates => 'sum(v) AS s', emit => 'final', at_end => '{at_end}')"
        )
        assert "Arrow" not in executed(df)
        assert df.collect() == []


@pytest.mark.parametrize("at_end", ["hold", "emit"])
def test_rows_that_take_no_part_are_in_no_sum_of_plain_sql(spark: SparkSession, at_end: str) -> None:
    most = 2**63 - 1
    no_key = ", ".join(f"(NULL, {at}, {most})" for at in (1, 5000, 5000, 99999))  # times that no other row has: they move no clock
    rows = f"VALUES {no_key}, ('a', NULL, {most}), ('a', NULL, {most}), ('a', 1, {most}), ('a', 9000, NULL)"
    call = (
        f"SELECT * FROM WINDOW_UPDATES(TABLE(SELECT k, timestamp_seconds(s) AS `t s`, v FROM {rows} AS t(k, s, v)) PARTITION BY k "
        "ORDER BY `t s`, size => INTERVAL 1 HOUR, emit => 'final', aggregates => "
        f"'sum(v) AS s, avg(v) AS mean, count(*) AS c, max(v) AS high', at_end => '{at_end}')"
    )
    plain, called = spark.sql(streamtime.compile(spark, call)), spark.sql(call)
    assert sorted(plain.collect(), key=repr) == sorted(called.collect(), key=repr)
    assert [(f.name, f.dataType, f.nullable) for f in plain.schema] == [(f.name, f.dataType, f.nullable) for f in called.schema]
    assert [(r.s, r.c) for r in sorted(called.collect(), key=repr)] == [(most, 1), (None, 1)][: 2 if at_end == "emit" else 1]
    assert {r.emit_time.timestamp() for r in plain.collect()} == {9000}


@pytest.mark.parametrize(
    ("change", "grouped"),
    [
        ({}, True),
        ({"ORDER BY n": "ORDER BY ts"}, True),
        ({"sum(v)": "sum(CAST(v AS DOUBLE))"}, False),  # its last digits depend on the order of rows
        ({"sum(v)": "first(v)"}, False),
        ({"sum(v)": "collect_list(v)"}, False),
        ({"sum(v)": "max(k)"}, False),
        ({"sum(v)": "sum(CAST(v AS DECIMAL(30, 2)))"}, False),
        ({"PARTITION BY k": "PARTITION BY x"}, False),  # of 0.0 and -0.0, a change has the last row's
        ({"PARTITION BY k": "PARTITION BY c"}, False),
        ({"ORDER BY n": "ORDER BY (n, v)"}, False),
        ({"ORDER BY n": "ORDER BY n DESC"}, False),
        ({"ORDER BY n": "ORDER BY x"}, False),
        ({"1 HOUR": "1 HOUR, slide => INTERVAL 30 MINUTES"}, False),
        ({"1 HOUR": "1 SECOND"}, False),  # too many windows for a table of them
        ({"1 HOUR": "1 HOUR, clock_by => ARRAY('k')"}, False),
    ],
)
def test_rows_are_grouped_only_where_their_order_does_not_matter(spark: SparkSession, change: dict[str, str], grouped: bool) -> None:
    spark.sql(
        "SELECT id AS n, CAST(id AS STRING) AS k, timestamp_seconds(id) AS ts, id AS v, CAST(id AS DOUBLE) AS x, "
        "collate(CAST(id AS STRING), 'UTF8_LCASE') AS c FROM range(9)"
    ).createOrReplaceTempView("t")
    text = (
        "SELECT * FROM WINDOW_UPDATES(TABLE(t) PARTITION BY k ORDER BY n, time => 'ts', size => INTERVAL 1 HOUR, "
        "aggregates => 'sum(v) AS s', emit => 'final')"
    )
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    df = spark.sql(text)
    assert ("Arrow" not in executed(df)) == grouped


def test_sessions_are_grouped_whatever_other_columns_the_input_has(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT k, n, m FROM SESSION_UPDATES(TABLE(SELECT 1 AS k, timestamp_seconds(id) AS ts, map(id, 'x') AS m, parse_json('1') AS j, "
        "id AS v FROM range(3)) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 MINUTE, aggregates => 'sum(v) AS n, count(m) AS m', "
        "emit => 'final', at_end => 'emit')"
    )
    assert "Arrow" not in executed(df)
    assert df.collect() == [(1, 3, 3)]


def test_a_column_that_is_never_null_stays_so(spark: SparkSession) -> None:
    view = "SELECT timestamp_seconds(id) AS ts, id AS n, 1 AS k, DATE '2024-01-01' AS d, 2.0BD AS e FROM range(3)"
    for order in ("n", "ts", "d", "e"):
        df = spark.sql(
            f"SELECT * FROM WINDOW_UPDATES(TABLE({view}) PARTITION BY k ORDER BY {order}, time => 'ts', size => INTERVAL 1 HOUR, "
            "aggregates => 'count(*) AS c', emit => 'final', at_end => 'emit')"
        )
        assert not df.schema["k"].nullable
        assert not df.schema[order].nullable
        assert df.collect()[0].c == 3
    assert Decimal(2) == df.collect()[0].e


@pytest.mark.parametrize("order", ["day", "n"])
def test_dates_beyond_the_last_timestamp_are_grouped_as_the_kernel_adds_them_up(spark: SparkSession, order: str) -> None:
    days = "SELECT 'a' AS k, n, date_from_unix_date(n) AS day, 1 AS v FROM VALUES (1), (106751989), (106751995), (200000000), (-106751995) AS t(n)"
    call = (
        f"WINDOW_UPDATES(TABLE({days}) PARTITION BY k ORDER BY {order}, time => 'day', size => INTERVAL 3 DAYS, "
        "aggregates => 'sum(v) AS total', emit => 'final', at_end => 'emit')"
    )
    texts = [text.replace(" AS total", " AS total, sum(CAST(v AS DOUBLE)) AS x") if x else text for x, text in enumerate((call, call))]
    columns = [
        "window_start",
        "window_end",
        "window_close",
        "change_time",
        "emit_time",
        "CAST(n AS STRING)" if order == "n" else "CAST(day AS STRING)",
    ]
    said = ", ".join(f"CAST({c} AS STRING)" for c in columns)
    grouped, added_up = (Counter(map(tuple, spark.sql(f"SELECT {said}, total, emit_reason FROM {text}").collect())) for text in texts)
    assert grouped == added_up
    assert len(grouped) == 4
