"""AS_OF_JOIN end to end: Kafka's cases, the slow definition on random input, DuckDB's own ASOF join, and each boundary by name."""

from __future__ import annotations

import datetime
import json
import random
import re
from collections import Counter
from typing import Any

import duckdb
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import TESTS
from support.times import micros, moment, view

import streamtime

FOLDER = TESTS / "cases"
CASES = json.loads((FOLDER / "stream_table_join.json").read_text())
KAFKA = json.loads((FOLDER / "kafka_stream_table_join.json").read_text())
LEFT, RIGHT = "k STRING, t TIMESTAMP, o INT, a INT", "k STRING, t TIMESTAMP, o INT, gone BOOLEAN, b INT"


def interval(micros_: int) -> str:
    return f"INTERVAL '{micros_ / 1e6:.6f}' SECOND"


def seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def joined(spark: SparkSession, case: dict[str, Any], stream: str, table: str) -> Counter[Any]:
    """What a case's join gives, as (key, stream value, table value, time)."""
    params = case["params"]
    rows = [{"k": r["key"], "v": r["value"], "t": moment(r["ts"]), "o": i, "side": r["side"]} for i, r in enumerate(case["input"])]
    versioned, retention, grace = params["table_versioned"], params.get("history_retention_ms"), params.get("grace_ms")
    for row in rows:
        row["at"] = row["t"] if versioned else moment(row["o"])  # a table without versions is as it was when a row arrived
    ddl = "k STRING, v STRING, t TIMESTAMP, o INT, at TIMESTAMP"
    found = streamtime.as_of_join(
        # Kafka drops stream records without a value
        view(spark, [r | {"k": None if r["k"] is None else str(r["k"])} for r in rows if r["side"] == stream and r["v"] is not None], ddl),
        view(spark, [r | {"k": None if r["k"] is None else str(r["k"])} for r in rows if r["side"] == table], ddl),
        keys=["k"],
        order_by=["at"],
        arrival="o",
        deleted="v IS NULL",
        join_type=params["join"],
        retention=None if retention is None or not versioned else seconds(retention / 1000),
        grace=None if grace is None else seconds(grace / 1000),
        at_end=None if grace is None else "hold",
    )
    return Counter((r[0], r[1], r[6], micros(r[2])) for r in found.collect())


def expected(case: dict[str, Any], joiner: str) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for e in case["expected"]:
        if "check" not in e:
            left, _, right = e["value"].partition(joiner)
            found[None if e["key"] is None else str(e["key"]), left, None if right == "null" else right, e["ts"] * 1000] += 1
    return found


@pytest.mark.parametrize("case", KAFKA, ids=[c["id"] for c in KAFKA])
def test_what_kafka_really_did(spark: SparkSession, case: dict[str, Any]) -> None:
    assert joined(spark, case, "stream", "table") == expected(case, "-")


@pytest.mark.parametrize("case", CASES, ids=[c["id"].removeprefix("stream_table_join.") for c in CASES])
def test_case(spark: SparkSession, case: dict[str, Any]) -> None:
    params, outcome = case["params"], case["expected"][0] if case["expected"] else {}
    if "error" in outcome and not params["table_versioned"]:
        df = view(spark, [], "k STRING, t TIMESTAMP")
        with pytest.raises(streamtime.CallError, match="needs `arrival`"):  # what is not versioned has no history to wait for
            streamtime.as_of_join(df, df, keys=["k"], order_by=["t"], grace=seconds(1))
    elif "error" in outcome:
        with pytest.raises(streamtime.CallError, match="longer than `retention`"):
            joined(spark, case, "stream", "table")
    elif "ok" in outcome:
        assert joined(spark, case, "stream", "table") == Counter()
    else:
        assert joined(spark, case, params["stream_side"], params["table_side"]) == expected(case, "+" if '"+"' in params["joiner"] else "-")


@pytest.mark.parametrize(("direction", "sign"), [("backward", ">="), ("backward", ">"), ("forward", "<="), ("forward", "<")])
def test_duckdb_agrees(spark: SparkSession, direction: str, sign: str) -> None:
    """Its ASOF join on random data, in which no two right rows have one key and time, since there it picks any."""
    random_ = random.Random(sign)
    left = [(random_.choice("abcdefgh"), at(random_.randrange(5000)), n) for n in range(2000)]
    right = [(k, at(t), n) for n, (k, t) in enumerate(sorted({(random_.choice("abcdefgi"), random_.randrange(5000)) for _ in range(2000)}))]
    con = duckdb.connect()
    for name, rows, value in (("l", left, "a"), ("r", right, "b")):
        con.execute(f"CREATE TABLE {name} (k VARCHAR, t TIMESTAMP, {value} INT)")
        con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
        spark.createDataFrame(rows, f"k STRING, t TIMESTAMP, {value} INT").createOrReplaceTempView(name)
    expected = con.sql(f"SELECT l.k, l.t, a, r.t, b FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.t {sign} r.t").fetchall()
    found = spark.sql(
        f"SELECT l.k, l.t, a, r.t, b FROM AS_OF_JOIN(TABLE(SELECT * FROM l), TABLE(SELECT * FROM r), "
        f"on => 'l.k = r.k', match => 'l.t {sign} r.t', join_type => 'left')"
    ).collect()
    assert Counter(map(tuple, found)) == Counter(expected)
    assert 100 < sum(r[4] is None for r in found) < 1000


def at(minutes: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", [(8, None), (10, 2), (11, 2), (13, None), (30, 5)]),
        ("allow_exact => false", [(8, None), (10, None), (11, 2), (13, 2), (30, None)]),
        ("ties => 'first'", [(8, None), (10, 1), (11, 1), (13, None), (30, 4)]),
        ("tolerance => INTERVAL 1 MINUTE", [(8, None), (10, 2), (11, 2), (13, None), (30, 5)]),
        ("tolerance => INTERVAL '59.999999' SECOND", [(8, None), (10, 2), (11, None), (13, None), (30, 5)]),
        ("direction => 'forward'", [(8, 1), (10, 1), (11, 4), (13, 4), (30, 4)]),
        ("direction => 'forward', ties => 'first'", [(8, 1), (10, 1), (11, 4), (13, 4), (30, 4)]),
        ("direction => 'nearest'", [(8, 2), (10, 2), (11, 2), (13, 2), (20, 2), (21, 5), (30, 5)]),
        ("direction => 'nearest', tolerance => INTERVAL 2 MINUTES", [(8, 2), (10, 2), (11, 2), (13, None), (30, 5)]),
    ],
)
def test_boundaries_by_name(spark: SparkSession, options: str, found: list[tuple[int, int | None]]) -> None:
    """Right: two rows at 10 (1, then 2), a deletion at 13, two rows at 30 (4, then 5). What `forward` sees of ties is the last of them."""
    right = [("a", at(10), 1, False), ("a", at(10), 2, False), ("a", at(13), 3, True), ("a", at(30), 4, False), ("a", at(30), 5, False)]
    spark.createDataFrame(right, "k STRING, t TIMESTAMP, n INT, gone BOOLEAN").createOrReplaceTempView("r")
    spark.createDataFrame([("a", at(m)) for m, _ in found], "k STRING, t TIMESTAMP").createOrReplaceTempView("l")
    if "forward" in options and "first" not in options:
        found = [(m, {1: 2, 4: 5}.get(n, n) if n else n) for m, n in found]
    rows = spark.sql(
        "SELECT l.t, n FROM AS_OF_JOIN(TABLE(SELECT * FROM l) PARTITION BY k ORDER BY t, TABLE(SELECT * FROM r) PARTITION BY k ORDER BY (t, n), "
        f"join_type => 'left', deleted => 'gone'{', ' + options if options else ''})"
    ).collect()
    assert sorted((r.t, r.n) for r in rows) == sorted((at(m), n) for m, n in found)


def test_names_of_both_sides_can_be_said_around_the_call(spark: SparkSession) -> None:
    spark.sql("SELECT 1 AS k, TIMESTAMP '2024-01-02' AS t, 'x' AS v, 5 AS n").createOrReplaceTempView("l")
    spark.sql("SELECT 1 AS k, TIMESTAMP '2024-01-01' AS t, 'y' AS v").createOrReplaceTempView("r")
    call = "AS_OF_JOIN(TABLE(SELECT * FROM l o), TABLE(SELECT * FROM r p), match => 'o.t >= p.t', {})"
    text = "SELECT o.v AS a, p.v AS b, o.t > p.t AS later, p.*, * FROM " + call.format("on => 'o.k = p.k'")
    row = spark.sql(text).collect()[0]
    assert row[:3] == ("x", "y", True)
    assert len(row) == 3 + 3 + 7
    using = spark.sql("SELECT * FROM " + call.format("using => ARRAY('k')"))
    assert using.columns == ["k", "t", "v", "n", "t", "v"]
    assert [f.nullable for f in using.schema] == [False] * 6
    after = call.replace("match => 'o.t >= p.t'", "order_by => ARRAY('t')")
    rest = spark.sql("SELECT p.v FROM " + after.format("join_type => 'left', on => 'o.k = p.k AND o.n + length(p.v) > 6'"))
    assert [r.v for r in rest.collect()] == [None]


@pytest.mark.parametrize(
    ("times", "found"),
    [("match => 'l.t >= r.t'", [(1, 20), (2, None), (3, None)]), ("order_by => ARRAY('t')", [(1, None), (2, None), (3, None)])],
)
def test_what_on_says_beside_the_keys_chooses_rows_or_filters_what_was_chosen(
    spark: SparkSession, times: str, found: list[tuple[int, int | None]]
) -> None:
    """As Spark 4.3's ASOF JOIN does with MATCH_CONDITION; and after the version is picked, as J1 says, where there is none."""
    left = "SELECT * FROM VALUES ('a', TIMESTAMP '2024-01-03', 1), ('a', TIMESTAMP '2024-01-03', 2), ('b', TIMESTAMP '2024-01-03', 3) AS l(k, t, n)"
    right = "SELECT * FROM VALUES ('a', TIMESTAMP '2024-01-01', 20), ('a', TIMESTAMP '2024-01-02', 30) AS r(k, t, p)"
    call = f"AS_OF_JOIN(TABLE({left}), TABLE({right}), {times}, on => 'l.k = r.k AND r.p < 25 AND l.n <> 2', join_type => 'left')"
    assert [tuple(r) for r in spark.sql(f"SELECT n, p FROM {call} ORDER BY n").collect()] == found


@pytest.mark.parametrize(
    ("condition", "picked", "chosen"),
    [
        ("p.currency = 'EUR'", None, 2),
        ("'USD' <=> p.currency", 3, 3),
        ("p.currency = concat('E', 'UR') AND o.n = 7", None, 2),
        ("p.currency = as_of_currency", None, 2),
        ("o.n = 8 AND p.currency = 'USD'", None, None),
    ],
)
def test_an_equality_with_a_constant_is_no_key(spark: SparkSession, condition: str, picked: int | None, chosen: int | None) -> None:
    """J1: it is looked at once the version is picked, here that of USD, which took the place of EUR; with `match` it chooses among rows."""
    spark.sql("DECLARE OR REPLACE VARIABLE as_of_currency STRING DEFAULT 'EUR'")
    spark.sql("SELECT 'tea' AS item, TIMESTAMP '2024-01-01 12:00:00' AS t, 7 AS n").createOrReplaceTempView("tea_orders")
    prices = "('tea', TIMESTAMP '2024-01-01 09:00:00', 'EUR', 2), ('tea', TIMESTAMP '2024-01-01 11:00:00', 'USD', 3)"
    spark.sql(f"SELECT * FROM VALUES {prices} AS p(item, t, currency, price)").createOrReplaceTempView("tea_prices")
    call = (
        "SELECT price FROM AS_OF_JOIN(TABLE(SELECT * FROM tea_orders o), TABLE(SELECT * FROM tea_prices p), "
        f"on => \"o.item = p.item AND {condition}\", join_type => 'left', "
    )
    assert [r.price for r in spark.sql(f"{call}order_by => ARRAY('t'))").collect()] == [picked]
    assert [r.price for r in spark.sql(f"{call}match => 'o.t >= p.t')").collect()] == [chosen]


def test_keys_that_are_null_match_where_the_condition_says_so(spark: SparkSession) -> None:
    left = "SELECT * FROM VALUES (CAST(NULL AS STRING), TIMESTAMP '2024-01-03'), ('a', TIMESTAMP '2024-01-03') AS l(k, t)"
    right = "SELECT * FROM VALUES (CAST(NULL AS STRING), TIMESTAMP '2024-01-01', 20), ('b', TIMESTAMP '2024-01-02', 30) AS r(k, t, p)"
    call = f"AS_OF_JOIN(TABLE({left}), TABLE({right}), match => 'l.t >= r.t', on => 'l.k <=> r.k')"
    assert [tuple(r) for r in spark.sql(f"SELECT l.k, p FROM {call}").collect()] == [(None, 20)]


def test_a_key_that_null_matches_may_have_a_clock_of_its_own(spark: SparkSession) -> None:
    left = "SELECT * FROM VALUES ('a', TIMESTAMP '2024-01-09', 2), (CAST(NULL AS STRING), TIMESTAMP '2024-01-02', 3) AS l(k, t, o)"
    right = "SELECT * FROM VALUES (CAST(NULL AS STRING), TIMESTAMP '2024-01-01', 1, 20) AS r(k, t, o, p)"
    call = (
        f"SELECT l.k, p FROM AS_OF_JOIN(TABLE({left}), TABLE({right}), order_by => ARRAY('t'), on => 'l.k <=> r.k', arrival => 'o', "
        "grace => INTERVAL 1 DAY, clock_by => ARRAY('{}'))"
    )
    assert [tuple(r) for r in spark.sql(call.format("k")).collect()] == [(None, 20)]
    with pytest.raises(
        AnalysisException, match=r"`clock_by`: `o` is not among the left side's keys \(J5\)\. The keys of the left side are `k`\."
    ):
        spark.sql(call.format("o"))
    sides = f"TABLE({left}) PARTITION BY named_struct('of', k) ORDER BY t, TABLE({right}) PARTITION BY named_struct('of', k) ORDER BY t"
    by = "\"named_struct('of', k)\""  # a struct of the user's is called as it was written
    text = f"SELECT l.k, p FROM AS_OF_JOIN({sides}, arrival => 'o', grace => INTERVAL 1 DAY, clock_by => ARRAY({by}))"
    assert [tuple(r) for r in spark.sql(text).collect()] == [(None, 20)]


def test_keys_and_arrivals_that_have_parts_are_equal_whatever_these_are_called_and_may_be_null(spark: SparkSession) -> None:
    left = "VALUES (1, 'u', TIMESTAMP '2024-01-02', 2), (CAST(NULL AS INT), 'u', TIMESTAMP '2024-01-02', 2) AS l(i, s, t, o)"
    right = "VALUES (1L, 'u', TIMESTAMP '2024-01-01', 1L, 10), (NULL, 'u', TIMESTAMP '2024-01-01', 1L, 20) AS r(b, s, t, o, p)"
    conditions = (
        "l.i <=> r.b",
        "named_struct('x', l.i, 's', array(l.s)) = named_struct('y', r.b, 't', array(r.s))",
        "array(named_struct('x', l.i)) = array(named_struct('y', CAST(r.b AS DOUBLE)))",
    )
    sides = f"TABLE(SELECT * FROM {left}), TABLE(SELECT * FROM {right}), order_by => ARRAY('t')"
    calls = [f'AS_OF_JOIN({sides}, on => "{on}"{more})' for on in conditions for more in ("", ", arrival => 'struct(o)'")]
    found = spark.sql(" UNION ALL ".join(f"SELECT {n} AS n, l.i, p FROM {call}" for n, call in enumerate(calls))).collect()
    assert Counter(map(tuple, found)) == Counter((n, *pair) for n in range(len(calls)) for pair in ((1, 10), (None, 20)))


@pytest.mark.parametrize("arrival", ["k", "struct(o)"])
def test_arrivals_that_cannot_be_compared_are_refused(spark: SparkSession, arrival: str) -> None:
    spark.sql("SELECT 1 AS k, TIMESTAMP '2024-01-02' AS t, 2 AS o, 'x' AS v").createOrReplaceTempView("l")
    call = f"AS_OF_JOIN(TABLE(SELECT v, t, {arrival} AS o FROM l) PARTITION BY v ORDER BY t, TABLE(SELECT v, t, v AS o FROM l) PARTITION BY v ORDER BY t"
    with pytest.raises(
        AnalysisException, match=r"`arrival`: the arrivals `o` \((INT|STRUCT<O:INT>)\) and `o` \(STRING\) have different types"
    ):
        spark.sql(f"SELECT * FROM {call}, arrival => 'o')")


def test_further_expressions_of_order_by_decide_between_equal_times(spark: SparkSession) -> None:
    left = view(spark, [{"k": "a", "t": moment(5), "n": 0, "w": 0}], "k STRING, t TIMESTAMP, n INT, w INT")
    right = view(
        spark, [{"k": "a", "t": moment(1), "n": n, "w": w} for n, w in ((1, 3), (2, 1), (3, 2))], "k STRING, t TIMESTAMP, n INT, w INT"
    )

    def found(*order: str) -> int:
        return int(streamtime.as_of_join(left, right, keys=["k"], order_by=["t", *order]).collect()[0][6])

    assert (found(), found("w"), found("w DESC"), found("n DESC")) == (3, 1, 2, 1)


def test_equal_times_are_an_error_where_asked_for(spark: SparkSession) -> None:
    spark.sql("SELECT * FROM VALUES ('a', TIMESTAMP '2024-01-01'), ('b', TIMESTAMP '2024-01-01') AS l(k, t)").createOrReplaceTempView("l")
    right = "SELECT * FROM VALUES ('a', TIMESTAMP '2024-01-01', 1), ('a', TIMESTAMP '2024-01-01', 2), ('c', TIMESTAMP '2024-01-01', 1), "
    spark.sql(right + "('c', TIMESTAMP '2024-01-01', 1) AS r(k, t, n)").createOrReplaceTempView("r")
    call = "SELECT * FROM AS_OF_JOIN(TABLE({}) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, ties => 'error')"
    with pytest.raises(Exception, match="AS_OF_JOIN, `ties`: the right side has several rows of one key at 2024-01-01 00:00:00"):
        spark.sql(call.format("l")).collect()
    assert spark.sql(call.format("SELECT * FROM l WHERE k = 'b'")).collect() == []
    later = call.format("SELECT 'a' AS k, TIMESTAMP '2024-01-05' AS t").removesuffix(")") + ", tolerance => INTERVAL {} DAYS, {})"
    no_match = "deleted => 'n = 2'"  # whichever of the two is picked
    assert spark.sql(later.format(3, no_match)).collect() == []
    with pytest.raises(Exception, match="AS_OF_JOIN, `ties`: the right side has several rows"):
        spark.sql(later.format(4, no_match)).collect()


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("CAST(1 AS INT)", "CAST(1 AS BIGINT)", 1),
        ("CAST(0.0 AS DOUBLE)", "CAST(-0.0 AS DOUBLE)", 1),
        ("CAST('NaN' AS DOUBLE)", "CAST('NaN' AS FLOAT)", 1),
        ("'A' COLLATE UTF8_LCASE", "'a' COLLATE UTF8_LCASE", 1),
        ("struct(1, 'x')", "struct(1, 'x')", 1),
        ("array(1.5D)", "array(1.5D)", 1),
        ("CAST(NULL AS STRING)", "CAST(NULL AS STRING)", 0),
    ],
)
def test_keys_are_equal_as_in_sql(spark: SparkSession, left: str, right: str, expected: int) -> None:
    rows = spark.sql(
        f"SELECT * FROM AS_OF_JOIN(TABLE(SELECT {left} AS k, DATE '2024-01-02' AS t) PARTITION BY k ORDER BY t, "
        f"TABLE(SELECT {right} AS k, DATE '2024-01-01' AS t, map(1, 2) AS payload, parse_json('1') AS more) PARTITION BY k ORDER BY t)"
    ).collect()
    assert len(rows) == expected


def test_a_day_without_a_match_is_far_from_none(spark: SparkSession) -> None:
    left = "VALUES ('a', DATE '2024-01-05', 1), ('b', DATE '2024-01-01', 2), ('c', NULL, 3), ('d', DATE '9999-12-31', 4), ('e', DATE '0001-01-01', 5)"
    right = "VALUES ('a', DATE '2024-01-02', 0), ('c', NULL, 0), (NULL, DATE '2024-01-02', 0), ('e', DATE '9999-12-31', 0)"
    sides = ", ".join(f"TABLE(SELECT * FROM {side} AS t(k, t, o)) PARTITION BY k ORDER BY t" for side in (left, right))
    for more in ("", ", arrival => 'o'"):
        rows = spark.sql(f"SELECT * FROM AS_OF_JOIN({sides}, join_type => 'left', tolerance => INTERVAL 7 DAYS{more})").collect()
        found = {r[0]: any(v is not None for v in r[3:]) for r in rows}
        assert found == {"a": True, "b": False, "c": False, "d": False, "e": False}
        assert len(rows) == len(found)


@pytest.mark.parametrize(("match", "keys"), [("l.t >= r.t", "ab"), ("r.t <= l.t", "ab"), ("l.t > r.t", "a"), ("r.t < l.t", "a")])
def test_what_is_known_then_is_matched_as_the_condition_says(spark: SparkSession, match: str, keys: str) -> None:
    for name, rows in (
        ("lefts", "('a', DATE '2024-01-01', 5), ('b', DATE '2024-01-01', 5)"),
        ("rights", "('a', DATE '2023-12-01', 1), ('b', DATE '2024-01-01', 1)"),
    ):
        spark.sql(f"SELECT * FROM VALUES {rows} AS t(k, t, o)").createOrReplaceTempView(name)
    on = match.replace("l.", "lefts.").replace("r.", "rights.")
    text = f"SELECT * FROM AS_OF_JOIN(TABLE(lefts), TABLE(rights), on => 'lefts.k = rights.k', match => '{on}', arrival => 'o')"
    assert "".join(sorted(row[0] for row in spark.sql(text).collect())) == keys


@pytest.mark.parametrize("key", ["CAST(k AS DOUBLE)", "struct(k)", "array(CAST(k AS FLOAT))"])
@pytest.mark.parametrize("more", ["", ", retention => INTERVAL 1 HOUR"])
def test_a_clock_may_be_any_key(spark: SparkSession, key: str, more: str) -> None:
    rows = "(1, TIMESTAMP '2024-01-01 10:00:00', 1), (2, TIMESTAMP '2024-01-01 10:00:00', 2), (1, TIMESTAMP '2024-01-01 10:05:00', 4)"
    left, right = (spark.sql(f"SELECT {key} AS k, t, o + {o} AS o, 'x' AS v FROM VALUES {rows} AS t(k, t, o)") for o in (1, 0))
    left.withMetadata("v", {"comment": "of the left side"}).createOrReplaceTempView("lefts")
    right.createOrReplaceTempView("rights")
    sides = ", ".join(f"TABLE({side}) PARTITION BY k ORDER BY t" for side in ("lefts", "rights"))
    found = spark.sql(f"SELECT * FROM AS_OF_JOIN({sides}, arrival => 'o', grace => INTERVAL 1 MINUTE, clock_by => ARRAY('k'){more})")
    assert found.count() == 3
    assert found.schema[3].metadata == {"comment": "of the left side"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TABLE(l) PARTITION BY k ORDER BY t", "expected 2 TABLE argument"),
        ("TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k", "ORDER BY: is missing on the right side"),
        ("TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY (k, n) ORDER BY (t)", "the left side has 1 keys, the right side 2"),
        ("TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY n ORDER BY t", "have different types. Cast one of them"),
        ("TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY CAST(t AS DATE)", "the times have different types"),
        ("TABLE(l) PARTITION BY k ORDER BY t DESC, TABLE(r) PARTITION BY k ORDER BY t", "the time of the left side and must go up"),
        ("TABLE(l) PARTITION BY kk ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t", "PARTITION BY of the left side: no column `kk`"),
        (
            "TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, retention => INTERVAL 1 DAY",
            "`retention`: needs `arrival`",
        ),
        ("TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, on => 'l.k = r.k'", "`on`: given beside PARTITION BY"),
        ("TABLE(l), TABLE(r), match => 'l.t >= r.t', on => 'k = k'", "column `k` is ambiguous: both sides have it"),
        ("TABLE(l), TABLE(r), match => 'l.t >= r.t', on => 'l.k > r.k'", "expected an equality between a column of the left side"),
        (
            "TABLE(l), TABLE(r), match => 'l.t >= r.t', on => 'l.k = 1 AND r.k = 2'",
            "expected an equality between a column of the left side",
        ),
        (
            "TABLE(l), TABLE(r), order_by => ARRAY('t'), on => 'l.k = r.k AND l.zz > 1'",
            "cannot resolve `.*l.zz > 1.*` over the two sides",
        ),
        (
            "TABLE(l), TABLE(r), match => 'l.t >= r.t', on => 'l.k = r.k AND length(l.k) > r.n'",
            "is neither an equality of the sides nor about one",
        ),
        ("TABLE(l), TABLE(r), on => 'l.k = r.k', match => 'l.t = r.t'", "expected a comparison of the two times with >=, >, <= or <"),
        ("TABLE(l), TABLE(r), on => 'l.k = r.k', match => 'l.t >= r.t', direction => 'forward'", "`match`: given beside `direction`"),
        ("TABLE(l), TABLE(r), on => 'l.k = r.k', match => 'l.t >= r.t', order_by => ARRAY('t')", "`match`: given beside `order_by`"),
        (
            "TABLE(l), TABLE(r), on => 'l.k = r.k', match => 'l.t <= r.t', arrival => 't'",
            "`match`: looks ahead, which does not go with `arrival`",
        ),
        (
            "TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, arrival => 'n', ties => 'first'",
            "the later arrival wins",
        ),
        (
            "TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, arrival => 't', clock_by => ARRAY('t')",
            "not among the left side's",
        ),
        ("TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, join_typ => 'left'", "Did you mean `join_type`"),
    ],
)
def test_wrong_calls_are_refused_in_words(spark: SparkSession, call: str, message: str) -> None:
    spark.sql("SELECT 'a' AS k, TIMESTAMP '2024-01-02' AS t").createOrReplaceTempView("l")
    spark.sql("SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS t, 1 AS n").createOrReplaceTempView("r")
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"SELECT * FROM AS_OF_JOIN({call})")


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_rows_are_sorted_before_the_one_shuffle_and_once_behind_it(spark: SparkSession, direction: str) -> None:
    call = f"AS_OF_JOIN(TABLE(lefts) PARTITION BY k ORDER BY t, TABLE(rights) PARTITION BY k ORDER BY t, direction => '{direction}')"
    spark.sql("SELECT id % 3 AS k, timestamp_seconds(id) AS t FROM range(9)").createOrReplaceTempView("lefts")
    spark.sql("SELECT id % 3 AS k, timestamp_seconds(id) AS t, id FROM range(9)").createOrReplaceTempView("rights")
    plan = spark.sql(f"EXPLAIN SELECT count(*) FROM (SELECT * FROM {call} WHERE id > 0 LIMIT 100)").first()[0]
    nodes = re.findall(r"(?:\+- |:- |^)\*?(?:\(\d+\) )?(Window|Sort|Exchange|Union)", plan, re.M)
    assert nodes[nodes.index("Window") :] == ["Window", "Sort", "Exchange", "Sort", "Union"]


@pytest.mark.usefixtures("many_rows")
def test_keys_that_share_a_hash_are_told_apart(spark: SparkSession) -> None:
    hashed = spark.range(200_000).selectExpr("xxhash64(id) AS id").selectExpr("id", "hash(id) AS h")
    twins = hashed.groupBy("h").agg({"id": "collect_list"}).toDF("h", "ids").where("size(ids) > 1").orderBy("h").first()
    assert twins is not None
    a, b = twins.ids[:2]
    lefts = [{"k": a, "t": moment(5000), "x": 1}, {"k": b, "t": moment(5000), "x": 2}]
    rights = [{"k": k, "t": moment(ms), "y": y} for k, ms, y in ((a, 1000, 10), (b, 2000, 20), (b, 6000, 30))]
    view(spark, lefts, "k BIGINT, t TIMESTAMP, x INT", "lefts")
    view(spark, rights, "k BIGINT, t TIMESTAMP, y INT", "rights")
    for direction, found in (("backward", [(1, 10), (2, 20)]), ("forward", [(2, 30)]), ("nearest", [(1, 10), (2, 30)])):
        call = f"AS_OF_JOIN(TABLE(lefts) PARTITION BY k ORDER BY t, TABLE(rights) PARTITION BY k ORDER BY t, direction => '{direction}')"
        assert sorted((r.x, r.y) for r in spark.sql(f"SELECT x, y FROM {call}").collect()) == found
