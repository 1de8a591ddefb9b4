"""JOIN_CHANGES with `on` (J8): Kafka's cases, a slow definition, random changelogs, and what is refused."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.reference.foreign_key import CASES, Row, drawn, of_case, slow

JOIN = (
    "JOIN_CHANGES(TABLE(SELECT scenario, k, n, ts, v AS l, fk, gone FROM left_changes) PARTITION BY (scenario, k) ORDER BY n,"
    " TABLE(SELECT scenario, k AS id, n, ts, v AS r, gone FROM right_changes) PARTITION BY (scenario, id) ORDER BY n,"
    " on => 'l.scenario, fk', time => 'ts', deleted => 'gone', clock_by => ARRAY('scenario'), join_type => '{}'{})"
)


def given(spark: SparkSession, scenarios: dict[str, list[Row]]) -> None:
    for side in ("left", "right"):
        rows = [(s, *row[1:]) for s, changes in scenarios.items() for row in changes if row[0] == side]
        random.Random(1).shuffle(rows)
        df = spark.createDataFrame(rows, "scenario STRING, k STRING, n BIGINT, t BIGINT, v STRING, fk STRING, gone BOOLEAN")
        df.selectExpr("scenario", "k", "n", "timestamp_millis(t) AS ts", "v", "fk", "gone").createOrReplaceTempView(f"{side}_changes")


def options(versioned: tuple[str, ...], retention: int | None) -> str:
    text = f", versioned => ARRAY({', '.join(map(repr, versioned))})" if versioned else ""
    return text + (f", retention => INTERVAL '{retention / 1000:.3f}' SECOND" if versioned and retention is not None else "")


def found(spark: SparkSession, join: str, more: str) -> dict[str, list[tuple[Any, ...]]]:
    """By scenario: place, key, number, left value, foreign key, right value, type, time in ms."""
    query = f"SELECT scenario, n, k, change_seq, l, fk, r, change_type, unix_millis(change_time) FROM {JOIN.format(join, more)}"
    answer = defaultdict(list)
    for row in spark.sql(query).collect():
        answer[row.scenario].append(tuple(row)[1:])
    return {scenario: sorted(changes, key=lambda c: c[:3]) for scenario, changes in answer.items()}


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[str, list[tuple[Any, ...]]]:
    """All cases, one query for each combination of options."""
    groups: dict[Any, dict[str, list[Row]]] = defaultdict(dict)
    for case in CASES:
        rows, *asked = of_case(case)
        groups[tuple(asked)][case["id"]] = rows
    answer: dict[str, list[tuple[Any, ...]]] = {}
    for (join, versioned, retention), scenarios in groups.items():
        given(spark, scenarios)
        answer |= found(spark, join, options(versioned, retention))
    return answer


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_a_case_of_kafka(answers: dict[str, list[tuple[Any, ...]]], case: dict[str, Any]) -> None:
    got = answers.get(case["id"], [])
    assert got == slow(*of_case(case))
    there: set[Any] = set()
    expected = []
    for e in sorted(case["expected"], key=lambda e: (e["after"], e["key"])):  # Kafka also sends deletes of what was never there
        if e["value"] is not None or e["key"] in there:
            expected.append((e["after"], e["key"], e["value"], *([e["ts"]] if "ts" in e else [])))
        (there.discard if e["value"] is None else there.add)(e["key"])
    joined = []
    for n, k, _, v, _, r, kind, t in got:
        cause = case["input"][n - 1]  # a change by the right side has its time alone in Kafka, with us the larger one (J8)
        assert cause["side"] == "left" or t >= cause.get("ts", 0)
        at = [t if cause["side"] == "left" else cause["ts"]] if case.get("timestamps_asserted", True) else []
        joined.append((n, k, f"({v},{r or 'null'})" if kind == "upsert" else None, *at))
    assert joined == expected


@pytest.mark.parametrize("seed", range(6))
def test_random_changelogs_are_joined_as_defined(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    join = ("inner", "left")[seed % 2]
    versioned = ((), ("left",), ("right",), ("left", "right"), ("left", "right"), ())[seed]
    retention = rng.choice((None, 0, 5, 12))
    scenarios = {f"s{i}": drawn(rng) for i in range(150)}
    given(spark, scenarios)
    got = found(spark, join, options(versioned, retention))
    for scenario, rows in scenarios.items():
        assert got.get(scenario, []) == slow(rows, join, versioned, retention), scenario
    assert sum(map(len, got.values())) > 100


def test_every_ignored_change_is_told_of(spark: SparkSession) -> None:
    rng = random.Random(5)
    scenarios = {f"s{i}": drawn(rng) for i in range(60)}
    given(spark, scenarios)

    def asked(output: str) -> list[Any]:
        more = options(("left", "right"), 5) + f", output => {output!r}"
        return spark.sql(f"SELECT * FROM {JOIN.format('left', more)}").collect()

    all_rows = asked("all")
    assert list(all_rows[0].asDict()) == ["scenario", "k", "n", "ts", "l", "fk", "id", "r", "side", "reason", "stream_time", "lateness"]
    assert len(all_rows) == sum(map(len, scenarios.values()))
    assert Counter(r for r in all_rows if r.reason) == Counter(asked("dropped"))
    reasons = Counter(r.reason for r in all_rows)
    assert set(reasons) == {None, "null_time", "null_key", "too_old", "out_of_order"}
    metrics = {r.metric: r.value for r in asked("metrics")}
    assert {f"{reason}_drop_total": float(n) for reason, n in reasons.items() if reason}.items() <= metrics.items()


@pytest.mark.parametrize("join", ["inner", "left"])
def test_every_change_is_told_in_words(spark: SparkSession, join: str) -> None:
    rng = random.Random(12)
    versioned, retention = ("left", "right"), 5
    scenarios = {f"s{i}": drawn(rng) for i in range(120)}
    given(spark, scenarios)
    more = options(versioned, retention) + ", output => 'explain'"
    got = spark.sql(f"SELECT * FROM {JOIN.format(join, more)}").collect()
    assert list(got[0].asDict()) == ["scenario", "k", "n", "ts", "l", "fk", "id", "r", "side", "outcome", "stream_time", "explanation"]
    told: dict[tuple[Any, ...], tuple[str, Any]] = {}
    for scenario, rows in scenarios.items():
        seen: list[tuple[Any, ...]] = []
        slow(rows, join, versioned, retention, seen)
        told |= {(scenario, row[0], row[4]): (did, says) for row, did, says in seen}  # a value is of one row
    assert len(told) == len(got) == sum(map(len, scenarios.values()))
    for row in got:
        did, says = told[row.scenario, row.side, row.l or row.r]
        assert row.outcome == did, row
        if isinstance(says, int):
            says = spark_time(says)
        assert says in row.explanation, (row, says)
    words = {"joined", "withdrew", "waits", "nothing", "too_old", "out_of_order", "null_time", "null_key"}
    assert {row.outcome for row in got} == words | ({"alone"} if join == "left" else set())
    both = {(side, did) for side in ("left", "right") for did in ("joined", "nothing")}
    assert {(row.side, row.outcome) for row in got} >= both | {("right", "waits"), ("left", "waits" if join == "inner" else "alone")}


def test_a_right_row_that_is_told_of_has_its_key_whatever_it_is_called(spark: SparkSession) -> None:
    """As the left side's key in other letters, with another number's type; as its foreign key; as ORDER BY. Else it is refused."""
    spark.sql("CREATE OR REPLACE TEMP VIEW lines AS SELECT 1 AS id, 2 AS of, 'x' AS `ö x`, 5 AS n, TIMESTAMP '0001-02-01' AS ts")
    spark.sql("CREATE OR REPLACE TEMP VIEW goods AS SELECT 2L AS ID, 'x' AS `ö x`, 4 AS n, TIMESTAMP '9999-01-01' AS ts, 'r' AS r")

    def asked(right: str, on: str, of_left: str) -> list[Any]:
        sides = f"TABLE(SELECT {of_left} FROM lines) PARTITION BY id ORDER BY n, "
        sides += f"TABLE(SELECT {right}, n, ts, r FROM goods) PARTITION BY {right} ORDER BY n".replace("n, n", "n")
        return spark.sql(f"SELECT * FROM JOIN_CHANGES({sides}, on => {on!r}, time => 'ts', output => 'explain') ORDER BY n").collect()

    for right, on, of_left, name, keys in (
        ("ID", "of", "id, of, n, ts", "id", (2, 1)),
        ("`ö x`", "l.`ö x`", "*", "ö x", ("x", "x")),
        ("n", "of", "id, of, n, ts", "n", (4, 5)),
    ):
        goods, line = asked(right, on, of_left)
        assert (goods[name], line[name]) == keys
        assert (goods.side, goods.outcome, line.outcome) == ("right", "waits", "waits" if name == "n" else "joined")
    with pytest.raises(AnalysisException, match="two columns `ö x`"):
        asked("`ö x`", "name", "id, n, ts, `ö x` AS name, 1 AS `ö x`")


def spark_time(milliseconds: int) -> str:
    """As Spark writes a TIMESTAMP of these tests."""
    time = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    return time.isoformat(" ").rstrip("0") if milliseconds % 1000 else time.isoformat(" ")


def test_a_key_that_breaks_ties_in_order_by_is_the_left_rows(spark: SparkSession) -> None:
    """The order has the right side's key on a change that the right side causes; and where the keys are joined, its other column."""
    lines = (
        "TABLE(SELECT * FROM VALUES (101, 2, 7), (102, 2, 7) AS l(order_id, n, product_id)) PARTITION BY order_id ORDER BY (n, order_id)"
    )
    products = (
        "TABLE(SELECT * FROM VALUES (7, 1, 'tea'), (8, 3, 'mug'), (7, 3, 'green tea') AS p(id, n, name)) PARTITION BY id ORDER BY (n, id)"
    )
    text = f"SELECT * FROM JOIN_CHANGES({lines}, {products}, on => 'l.product_id', time => 'timestamp_seconds(n)'{{}})"
    found = sorted((r.order_id, r.n, r.name, r.change_seq) for r in spark.sql(text.format("")).collect())
    assert found == [(101, 2, "tea", 0), (101, 3, "green tea", 0), (102, 2, "tea", 0), (102, 3, "green tea", 0)]
    told = spark.sql(text.format(", output => 'all'")).collect()
    assert sorted((r.side, r.order_id, r.id, r.n) for r in told) == [
        ("left", 101, None, 2), ("left", 102, None, 2), ("right", None, 7, 1), ("right", None, 7, 3), ("right", None, 8, 3),
    ]  # fmt: skip
    joined = f"JOIN_CHANGES({lines}, {products.replace('(n, id)', '(n, size)').replace('*', '*, length(name) AS size')}, time => 'timestamp_seconds(n)')"
    same_key = spark.sql(f"SELECT * FROM {joined.replace('(7, ', '(101, ')}").collect()
    assert {(r.order_id, r.name) for r in same_key} == {(101, "tea"), (101, "green tea")}


def test_the_last_changes_are_sparks_own_join(spark: SparkSession) -> None:
    """A hot foreign key, keys of two types, several columns in `on`."""
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW sold AS SELECT id AS n, id % 900 AS sale, timestamp_seconds(id) AS ts, id % 13 = 0 AS gone,"
        " CAST(if(id % 3 = 0, id % 40, 1) AS INT) AS product, if(id % 17 = 0, NULL, 'shop') AS shop, id AS amount FROM range(3000)"
    )
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW named AS SELECT id * 50 AS n, 'shop' AS of, id % 40 AS id, timestamp_seconds(id) AS ts,"
        " id % 7 = 0 AS gone, concat('p', id) AS name FROM range(60)"
    )
    for join in ("inner", "left"):
        got = spark.sql(
            "WITH told AS (SELECT * FROM JOIN_CHANGES(TABLE(sold) PARTITION BY sale ORDER BY n, TABLE(named) PARTITION BY (of, id) ORDER BY n,"
            f" on => 'shop, l.product', time => 'ts', deleted => 'gone', join_type => '{join}'))"
            " SELECT sale, last.amount, last.product, last.name FROM (SELECT sale, max_by(struct(*), struct(n, change_seq)) AS last"
            " FROM told GROUP BY sale) WHERE last.change_type = 'upsert'"
        )
        expected = spark.sql(
            "WITH l AS (SELECT sale, max_by(struct(*), n) AS x FROM sold GROUP BY sale), r AS (SELECT of, id, max_by(struct(*), n) AS x"
            " FROM named GROUP BY of, id) SELECT l.sale, l.x.amount, l.x.product, r.x.name FROM (SELECT * FROM l WHERE NOT x.gone) l"
            f" {join} JOIN (SELECT * FROM r WHERE NOT x.gone) r ON l.x.shop = r.of AND l.x.product = r.id"
        )
        rows = sorted(map(str, expected.collect()))
        assert len(rows) > 300
        assert sorted(map(str, got.collect())) == rows


def test_each_side_is_read_once_and_the_join_spreads(spark: SparkSession) -> None:
    given(spark, {"s": [("left", "a", 1, 5, "l1", "x", False)]})
    plan = spark.sql(f"SELECT * FROM {JOIN.format('left', '')}")._jdf.queryExecution().executedPlan().toString()
    assert len(re.findall(r"Scan ExistingRDD", plan)) == 2, plan
    assert "SinglePartition" not in plan
    assert "Nested" not in plan
    assert "Python" not in plan
    salted = re.findall(r"Exchange hashpartitioning\([^)]*__streamtime_salt", plan)
    assert len(salted) == 2, plan  # rows that name nothing are spread, and the right side is shuffled for its versions and the join at once


WRONG = {
    "on => 'fkk'": "`on`",
    "on => 'fk, n'": "`on`: names 2 columns, and the key of the right side has 1",
    "on => 'n'": "`on`: `n` (BIGINT) and `id` (STRING) have different types",
    "on => 'fk', join_type => 'outer'": "`join_type`: 'outer' is not possible with `on`",
}


@pytest.mark.parametrize("asked", WRONG)
def test_a_wrong_call_is_refused(spark: SparkSession, asked: str) -> None:
    given(spark, {})
    sides = (
        "TABLE(SELECT k, n, ts, v AS l, fk FROM left_changes) PARTITION BY k ORDER BY n,"
        " TABLE(SELECT k AS id, n, ts, v AS r FROM right_changes) PARTITION BY id ORDER BY n"
    )
    with pytest.raises(AnalysisException, match=re.escape(WRONG[asked])):
        spark.sql(f"SELECT * FROM JOIN_CHANGES({sides}, time => 'ts', {asked})")
