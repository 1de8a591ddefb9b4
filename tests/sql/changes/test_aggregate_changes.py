"""AGGREGATE_CHANGES: Kafka's cases, a slow definition, Spark's own GROUP BY, nasty input, and what is refused."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import TESTS

CASES = [
    case for name in ("kafka_table_aggregate", "table_aggregate") for case in json.loads((TESTS / "cases" / f"{name}.json").read_text())
]
CALL = (
    "AGGREGATE_CHANGES(TABLE(given) PARTITION BY (scenario, k) ORDER BY n, time => 'ts', deleted => 'gone', clock_by => ARRAY('scenario'),"
    " group_by => ARRAY('scenario', 'g'), aggregates => '{}'{})"
)
Row = tuple[str | None, int | None, int | None, str | None, Any, bool]  # key, place, time in ms, group, value, whether it is deleted


def given(spark: SparkSession, scenarios: dict[str, list[Row]]) -> None:
    """The changes of all scenarios as the view `given`."""
    rows = [(scenario, *row) for scenario, changes in scenarios.items() for row in changes]
    random.Random(1).shuffle(rows)
    df = spark.createDataFrame(rows, "scenario STRING, k STRING, n BIGINT, t BIGINT, g STRING, x BIGINT, gone BOOLEAN")
    df.selectExpr("scenario", "k", "n", "timestamp_millis(t) AS ts", "g", "x", "gone").createOrReplaceTempView("given")


def options(versioned: bool, retention: int | None) -> str:
    return (", versioned => true" if versioned else "") + (
        f", retention => INTERVAL '{retention / 1000:.3f}' SECOND" if versioned and retention is not None else ""
    )


def found(spark: SparkSession, aggregates: str, more: str) -> dict[str, list[tuple[Any, ...]]]:
    """By scenario: place, number among the changes of its place, group, type, time in ms, aggregates."""
    df = spark.sql(f"SELECT * FROM {CALL.format(aggregates, more)}")
    names = [c for c in df.columns if c not in ("scenario", "n", "g", "change_type", "change_time", "change_seq")]
    answer = defaultdict(list)
    for row in df.selectExpr("*", "unix_millis(change_time) AS t").collect():
        answer[row.scenario].append((row.n, row.change_seq, row.g, row.change_type, row.t, *(row[n] for n in names)))
    return {scenario: sorted(changes, key=lambda c: c[:3]) for scenario, changes in answer.items()}


def place(row: Row) -> Any:
    """By ORDER BY, then by the remaining columns in their order, nulls first: key, time, group, value, `gone`."""
    k, n, t, g, x, gone = row
    return n, (k or "").encode(), t, g is not None, g or "", x is not None, x or 0, gone


def slow(rows: list[Row], versioned: bool, retention: int | None, aggregated: Any) -> list[tuple[Any, ...]]:
    """One scenario by the letter of J9, change by change; each group added up anew each time."""
    table: dict[Any, tuple[str | None, Any] | None] = {}
    newest: dict[Any, int] = {}
    reached: dict[Any, int] = {}
    at: Counter[Any] = Counter()
    clock: int | None = None
    emitted = []
    for k, n, t, g, x, gone in sorted((row for row in rows if None not in row[:3]), key=place):
        if versioned:
            if retention is not None and clock is not None and t < clock - retention:
                continue
            clock = t if clock is None else max(t, clock)
            if t < newest.get(k, t):
                continue
            newest[k] = t
        old = table.get(k)
        table[k] = None if gone or g is None else (g, x)
        new = table[k]
        touched = [row[0] for row in (old, new) if row is not None]
        for seq, group in enumerate(dict.fromkeys(touched)):
            reached[group] = max(t, reached.get(group, t))
            values = [row[1] for row in table.values() if row is not None and row[0] == group]
            kind = "upsert" if values else "delete"
            emitted.append((n, 2 * at[group, n] + seq, group, kind, reached[group], *aggregated(values)))
            at[group, n] += 1
    return sorted(emitted, key=lambda c: c[:3])


def of_case(case: dict[str, Any]) -> list[Row]:
    by = case["params"]["group_by"]
    rows: list[Row] = []
    for n, i in enumerate(case["input"], 1):
        k, value = i["key"], i["value"]
        x: int | None = 1
        if by.startswith("part of value"):
            g, _, number = (value or "").partition(":")
            x = int(number or 0)
        elif by == "key":
            g, x = k, int(value)
        elif by.startswith("first char"):
            g = k[0]
        else:
            g = None if k in ("null", "NULL") else value
        rows.append((k, n, i["ts"], g, x, value is None))
    return rows


def counted(values: list[Any]) -> tuple[Any, ...]:
    return (len(values), sum(values)) if values else (None, None)


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[str, list[tuple[Any, ...]]]:
    """All cases, one query for each combination of options."""
    groups: dict[Any, dict[str, list[Row]]] = defaultdict(dict)
    for case in CASES:
        asked = case["params"]
        groups[asked["input_versioned"], asked.get("history_retention_ms")][case["id"]] = of_case(case)
    answer: dict[str, list[tuple[Any, ...]]] = {}
    for (versioned, retention), scenarios in groups.items():
        given(spark, scenarios)
        answer |= found(spark, "count(*) AS n_rows, sum(x) AS total", options(versioned, retention))
    return answer


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_a_case_of_kafka(answers: dict[str, list[tuple[Any, ...]]], case: dict[str, Any]) -> None:
    got, asked = answers[case["id"]], case["params"]
    assert got == slow(of_case(case), asked["input_versioned"], asked.get("history_retention_ms"), counted)
    expected = [(e["after"], e["key"], e["ts"]) for e in case["expected"]]
    if "known_wart" in case:  # Kafka forgets a deletion that came with the time of what it deleted
        assert case["known_wart"] == "lost_tombstone"
        assert len(got) < len(expected)
        return
    assert [(n, g, t) for n, _, g, _, t, *_ in got] == expected
    if "aggregate" in asked and asked["aggregate"] in ("count", "sum"):
        at = 5 if asked["aggregate"] == "count" else 6
        for change, e in zip(got, case["expected"], strict=True):
            assert (change[at] or 0) == e["value"]
            assert (change[3] == "delete") == (change[5] is None)  # Kafka sends 0


def drawn(rng: random.Random) -> list[Row]:
    """Changes of few keys and groups, far years, large and small numbers, nulls in each role, and ties of both kinds."""
    times = [*range(0, 40, 5), -62_000_000_000_000, 253_000_000_000_000]
    rows, n = [], 0
    for _ in range(rng.randrange(0, 25)):
        n += rng.choice((0, 1, 1, 1))
        rows.append(
            (
                rng.choice((None, "", "a", "a", "b", "c", "ä'`\\")),
                None if rng.random() < 0.05 else n,
                None if rng.random() < 0.1 else rng.choice(times[:8] if rng.random() < 0.95 else times),
                rng.choice((None, "", "g", "g", "h", "ö'`\\")),
                rng.choice((None, 0, 1, 2, 2, -3, 10**9)),
                rng.random() < 0.2,
            )
        )
    return list(dict.fromkeys(rows))


def everything(values: list[Any]) -> tuple[Any, ...]:
    there = [v for v in values if v is not None]
    if not values:
        return (None,) * 8
    if not there:
        return (len(values), 0, *(None,) * 6)
    return (
        len(values),
        len(there),
        sum(there),
        sum(there) / len(there),
        min(there),
        max(there),
        math.fsum(v / 3 for v in there),
        max(str(v) for v in there),
    )


@pytest.mark.parametrize("seed", range(2))
def test_random_changelogs_are_added_up_as_defined(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    versioned, retention = seed % 2 == 1, rng.choice((None, 0, 5, 12))
    scenarios = {f"s{i}": drawn(rng) for i in range(150)}
    given(spark, scenarios)
    aggregates = (
        "count(*) AS n_rows, count(x) AS present, sum(x) AS total, avg(x) AS mean, min(x) AS low, max(x) AS high,"
        " sum(x / 3D) AS thirds, max(string(x)) AS last_word"
    )
    got = found(spark, aggregates, options(versioned, retention))
    for scenario, rows in scenarios.items():
        assert got.get(scenario, []) == slow(rows, versioned, retention, everything), scenario
    assert sum(map(len, got.values())) > 300


@pytest.mark.usefixtures("many_rows")
def test_the_last_changes_are_sparks_own_totals(spark: SparkSession, many_rows: None, thorough: bool) -> None:
    """Types and values of all aggregates, over numbers that rounding would show in, with a group that has nearly all rows."""
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW wide AS SELECT id AS n, id % 700 AS k, if(id % 9 = 0, id % 23, -1) AS g, id % 31 = 0 AS gone,"
        " timestamp_millis(id * 7919 % 10007) AS ts, CAST(id % 97 AS TINYINT) AS tiny, id * 1000003 * 1000003 % 1000000000000 AS large,"
        " CAST(id * 1.37 AS DECIMAL(12, 3)) AS money, CAST(id AS DECIMAL(38, 18)) / 7 AS fine, CAST(id % 1009 AS FLOAT) AS small,"
        " id / 7D AS real, if(id % 5 = 0, NULL, concat('w', id % 333)) AS word, DATE '0001-01-01' + CAST(id % 4000000 / 2 AS INT) AS day,"
        " id % 3 = 0 AS yes, to_binary(hex(id % 100), 'hex') AS bytes FROM range(5000)"
    )
    columns = ("tiny", "large", "money", "fine", "small", "real", "word", "day", "yes", "bytes", "ts")
    numbers = columns[:6]
    asked = [f"{f}({c}) AS {f}_{c}" for c in columns for f in ("count", "min", "max")]
    asked += [f"{f}({c}) AS {f}_{c}" for c in numbers for f in ("sum", "avg") if (f, c) != ("avg", "fine")]  # which is rounded (its page)
    asked = asked if thorough else asked[::2]
    text = ", ".join(["count(*) AS n_rows", *asked])
    changes = spark.sql(
        "SELECT * FROM AGGREGATE_CHANGES(TABLE(wide) PARTITION BY k ORDER BY n, time => 'ts', deleted => 'gone',"
        f" group_by => ARRAY('g'), aggregates => '{text}')"
    )
    names = ["n_rows", *(a.rpartition(" ")[2] for a in asked)]
    changes.createOrReplaceTempView("told")
    got = spark.sql(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n DESC, change_seq DESC) AS newest FROM told)"
        " WHERE newest = 1 AND change_type = 'upsert'"
    ).select("g", *names)
    expected = spark.sql(
        f"SELECT g, {text} FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS newest FROM wide)"
        " WHERE newest = 1 AND NOT gone GROUP BY g"
    )
    assert [(f.name, f.dataType) for f in got.schema] == [(f.name, f.dataType) for f in expected.schema]
    rows = [sorted(df.collect(), key=lambda r: r.g) for df in (got, expected)]
    assert len(rows[1]) > 10
    for one, other in zip(*rows, strict=True):
        for name, a, b in zip(["g", *names], one, other, strict=True):
            assert math.isclose(a, b, rel_tol=1e-12) if isinstance(b, float) else a == b, (one.g, name, a, b)


def of_doubles(spark: SparkSession, rows: list[tuple[int, str, float | None, bool]], aggregates: str) -> list[Any]:
    """What each change makes of one group: its number, and the aggregates of `x`."""
    spark.createDataFrame(rows, "n BIGINT, k STRING, x DOUBLE, gone BOOLEAN").createOrReplaceTempView("doubles")
    names = ", ".join(one.split(" AS ")[-1] for one in aggregates.split(", "))
    return spark.sql(
        f"SELECT n, {names} FROM AGGREGATE_CHANGES(TABLE(SELECT *, timestamp_seconds(n) AS ts, 1 AS g FROM doubles)"
        f" PARTITION BY k ORDER BY n, time => 'ts', deleted => 'gone', group_by => ARRAY('g'), aggregates => '{aggregates}') ORDER BY n"
    ).collect()


def test_the_order_may_go_down_or_begin_with_a_column_that_is_made_anew(spark: SparkSession) -> None:
    """What is taken back was put there before it, so the smallest values and sums of DOUBLE see changes in their order."""
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW moving AS SELECT id AS n, -id AS back, id % 13 AS change_seq, id % 13 AS other, hash(id) % 40 AS k, "
        "hash(id, 1) % 3 AS g, if(id % 11 = 0, NULL, id * 7919 % 101) AS v, if(id % 7 = 0, double('NaN'), id / 3D) AS x, id % 17 = 0 AS gone, "
        "timestamp_seconds(id * 31 % 997) AS ts FROM range(400)"
    )
    call = (
        "AGGREGATE_CHANGES(TABLE(moving) PARTITION BY k ORDER BY {}, time => 'ts', deleted => 'gone', group_by => ARRAY('g'), "
        "aggregates => 'count(*) AS c, min(v) AS low, max(x) AS high, sum(x) AS s')"
    )
    totals = "g, c, low, high, s, change_type, change_time, change_seq"
    for one, same in (("back DESC", "n"), ("(n DESC, ts)", "(back, ts)"), ("(change_seq, n DESC)", "(other, back)")):
        made = [sorted(map(repr, spark.sql(f"SELECT {totals} FROM {call.format(order)}").collect())) for order in (one, same)]
        assert len(made[0]) > 400
        assert made[0] == made[1], one


def test_doubles_are_taken_back_without_a_trace(spark: SparkSession) -> None:
    """Large and small ones, infinities and NaN: what is gone is forgotten."""
    nasty = [0.1, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 5e-324, -0.0, 1.7976931348623157e308, 1.7976931348623157e308]
    rows = [(i, f"k{i}", x, False) for i, x in enumerate(nasty)]
    rows += [(100 + n, f"k{i}", None, True) for n, i in enumerate((5, 3, 4, 9, 1, 2, 8, 6, 7))]
    got = of_doubles(spark, rows, "sum(x) AS total, avg(x) AS mean, min(x) AS low, max(x) AS high")
    text = [tuple(map(repr, row)) for row in got]
    assert text[2] == ("2", "0.1", repr(0.1 / 3), "-1e+300", "1e+300")
    assert text[4][1] == text[5][1] == "nan"
    assert text[5][4] == "nan"  # after every number, as in Spark
    assert text[9] == ("9", "nan", "nan", "-inf", "nan")
    assert text[10][1] == "nan"  # NaN is gone, both infinities are there
    assert text[11][1:] == ("-inf", "-inf", "-inf", "1.7976931348623157e+308")
    assert text[12][1] == "inf"  # too large, as in Spark
    assert text[13][1] == "1.7976931348623157e+308"
    assert text[-1] == ("108", "0.1", "0.1", "0.1", "0.1")


def test_zero_has_no_sign_in_min_and_max(spark: SparkSession) -> None:
    """Else 0.0 that is gone would show in whether -0.0 comes out as it is."""
    rows = [(1, "a", 0.0, False), (2, "a", None, True), (3, "b", -0.0, False), (4, "c", 0.0, False), (5, "b", None, True)]
    got = of_doubles(spark, rows, "min(x) AS low, max(CAST(x AS FLOAT)) AS high")
    assert [(row.n, str(row.low), str(row.high)) for row in got] == [(n, *["None" if n == 2 else "0.0"] * 2) for n in range(1, 6)]


def test_a_sum_that_does_not_fit_is_an_error_as_in_spark(spark: SparkSession) -> None:
    query = (
        "SELECT * FROM AGGREGATE_CHANGES(TABLE(SELECT id, timestamp_seconds(id) AS ts, 1 AS g, 9223372036854775807 AS x FROM range(2))"
        " PARTITION BY id ORDER BY ts, group_by => ARRAY('g'), aggregates => 'sum(x) AS total')"
    )
    with pytest.raises(Exception, match="OVERFLOW"):
        spark.sql(query).collect()


def test_every_change_is_told_of_once(spark: SparkSession) -> None:
    rng = random.Random(7)
    scenarios = {f"s{i}": drawn(rng) for i in range(60)}
    given(spark, scenarios)
    more = options(True, 5)

    def asked(output: str) -> list[Any]:
        return spark.sql(f"SELECT * FROM {CALL.format('count(*) AS rows', f'{more}, output => {output!r}')}").collect()

    all_rows, dropped, explained = asked("all"), asked("dropped"), asked("explain")
    assert len(all_rows) == len(explained) == sum(map(len, scenarios.values()))
    assert Counter(r for r in all_rows if r.reason) == Counter(dropped)
    reasons = Counter(r.reason for r in all_rows)
    assert set(reasons) == {None, "null_time", "null_key", "too_old", "out_of_order"}
    told = Counter(r.outcome for r in explained)
    outcomes = {"added", "changed", "moved", "removed", "no_group", "nothing"}
    assert set(told) == outcomes | set(reasons) - {None}
    assert {reason: told[reason] for reason in reasons if reason} == {reason: n for reason, n in reasons.items() if reason}
    assert all(r.explanation for r in explained)
    changes = sum(map(len, found(spark, "count(*) AS rows", more).values()))
    assert told["added"] + told["changed"] + 2 * told["moved"] + told["removed"] == changes
    metrics = {r.metric: r.value for r in asked("metrics")}
    assert {f"{reason}_drop_total": float(n) for reason, n in reasons.items() if reason}.items() <= metrics.items()


def test_no_rows(spark: SparkSession) -> None:
    given(spark, {})
    assert found(spark, "count(*) AS rows, max(x) AS most", "") == {}


def test_totals_of_a_join(spark: SparkSession) -> None:
    """Changelogs chain (C10): the changes of a join, added up; the join withdraws what was there."""
    got = spark.sql(
        "WITH sales AS (SELECT * FROM VALUES (1, 'ann', 10), (2, 'bob', 5), (5, 'bob', 7) AS t(n, name, amount)),"
        " towns AS (SELECT * FROM VALUES (3, 'ann', 'Rome'), (4, 'bob', 'Rome'), (6, 'ann', 'Oslo'), (7, 'bob', NULL) AS t(n, name, town)),"
        " joined AS (SELECT * FROM JOIN_CHANGES(TABLE(SELECT *, timestamp_seconds(n) AS ts FROM sales) PARTITION BY name ORDER BY n,"
        " TABLE(SELECT *, timestamp_seconds(n) AS ts FROM towns) PARTITION BY name ORDER BY n, time => 'ts', deleted => 'town IS NULL'))"
        " SELECT n, town, people, total, change_type FROM AGGREGATE_CHANGES(TABLE(joined) PARTITION BY name ORDER BY (n, change_seq),"
        " time => 'change_time', group_by => ARRAY('town'), aggregates => 'count(*) AS people, sum(amount) AS total') ORDER BY n, change_seq"
    ).collect()
    assert [tuple(r) for r in got] == [
        (3, "Rome", 1, 10, "upsert"),
        (4, "Rome", 2, 15, "upsert"),
        (5, "Rome", 2, 17, "upsert"),
        (6, "Rome", 1, 7, "upsert"),
        (6, "Oslo", 1, 10, "upsert"),
        (7, "Rome", None, None, "delete"),
    ]


def test_odd_names_and_columns_in_two_roles(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT * FROM AGGREGATE_CHANGES(TABLE(SELECT id AS `the key`, CAST(id AS DOUBLE) AS `a.b``c`, DATE '2024-01-01' AS `when`"
        " FROM range(3)) PARTITION BY `the key` ORDER BY `when`, group_by => ARRAY('`when`', '`a.b``c`'),"
        " aggregates => 'sum(`a.b``c`) AS `s.u m`, min(`the key`) AS `min`')"
    )
    assert df.columns == ["when", "a.b`c", "s.u m", "min", "change_type", "change_time", "change_seq"]
    assert sorted(tuple(r)[1:5] for r in df.collect()) == [(0.0, 0.0, 0, "upsert"), (1.0, 1.0, 1, "upsert"), (2.0, 2.0, 2, "upsert")]


WRONG = {
    "group_by => ARRAY('g'), aggregates => 'first(x) AS f'": "`first(x) AS f` cannot be taken back: count(..), sum(..), avg(..), min(..), max(..) can",
    "group_by => ARRAY('upper(g)'), aggregates => 'count(*) AS c'": "`group_by`: a change has this column, so it needs a name (`upper(g)`)",
    "group_by => ARRAY('gg'), aggregates => 'count(*) AS c'": "`group_by`: no column `gg` in the input. Did you mean `g`?",
    "group_by => ARRAY('g'), aggregates => 'count(*) AS g'": "the result would have two columns `g`",
    "group_by => ARRAY('g'), aggregates => 'sum(k) AS s'": "expected a number in `sum(k) AS s`",
    "group_by => ARRAY('g'), aggregates => 'min(array(x)) AS s'": "`min(array(x)) AS s` of ARRAY<BIGINT> is not possible",
    "group_by => ARRAY('g'), aggregates => 'count(*) AS c', deleted => 'k'": "`deleted`: expected a condition, got STRING (`k`)",
    "group_by => ARRAY('g'), aggregates => 'count(*) AS c', retention => INTERVAL 1 DAY": "`retention`: needs `versioned`",
    "aggregates => 'count(*) AS c'": "`group_by`",
}


@pytest.mark.parametrize("asked", WRONG)
def test_a_wrong_call_is_refused(spark: SparkSession, asked: str) -> None:
    given(spark, {})
    with pytest.raises(AnalysisException, match=re.escape(WRONG[asked])):
        spark.sql(f"SELECT * FROM AGGREGATE_CHANGES(TABLE(given) PARTITION BY k ORDER BY n, time => 'ts', {asked})")


def test_keys_and_groups_that_changes_could_not_show_are_refused(spark: SparkSession) -> None:
    """Changes have columns of these names, which a column of the input cannot have beside them."""
    rows = "TABLE(SELECT 1 AS k, 2 AS n, TIMESTAMP '2024-01-01' AS ts, 'x' AS Change_Type, 3 AS _commit_version)"
    calls = {
        f"AGGREGATE_CHANGES({rows} PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('_commit_version'), aggregates => 'count(*) AS c')":
        "`group_by`: `_commit_version` is a column that tells of a change, which is made anew or left out. Rename it in the TABLE argument: TABLE(SELECT *, `_commit_version` AS name FROM ..)",
        f"FILTER_CHANGES({rows} PARTITION BY (k, change_type) ORDER BY n, time => 'ts', condition => 'n > 0')":
        "PARTITION BY: `Change_Type` is a column that tells of a change",
        f"JOIN_CHANGES({rows} PARTITION BY change_type ORDER BY n, {rows} PARTITION BY change_type ORDER BY n, time => 'ts')":
        "PARTITION BY of the left side: `Change_Type` is a column that tells of a change",
    }  # fmt: skip
    for call, said in calls.items():
        with pytest.raises(AnalysisException, match=re.escape(said)):
            spark.sql(f"SELECT * FROM {call}")


def test_an_average_of_decimals_is_sparks(spark: SparkSession) -> None:
    rng = random.Random(3)
    rows = [(i, i % 3, Decimal(rng.randrange(-(10**11), 10**11)) / 100) for i in range(300)]
    spark.createDataFrame(rows, "n BIGINT, g INT, x DECIMAL(15, 2)").createOrReplaceTempView("money")
    got = spark.sql(
        "SELECT g, n, mean FROM AGGREGATE_CHANGES(TABLE(SELECT *, timestamp_seconds(n) AS ts FROM money) PARTITION BY n ORDER BY n,"
        " time => 'ts', group_by => ARRAY('g'), aggregates => 'avg(x) AS mean')"
    )
    expected = spark.sql("SELECT g, n, avg(x) OVER (PARTITION BY g ORDER BY n) AS mean FROM money")
    assert sorted(got.collect()) == sorted(expected.collect())
