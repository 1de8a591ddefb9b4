"""JOIN_CHANGES with `on` (J8): Kafka's cases, a slow definition, random changelogs, and what is refused."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import TESTS

CASES = json.loads((TESTS / "cases" / "kafka_fk_join.json").read_text()) + [
    case for case in json.loads((TESTS / "cases" / "table_table_join.json").read_text()) if case["params"]["join"].startswith("fk_")
]
JOIN = (
    "JOIN_CHANGES(TABLE(SELECT scenario, k, n, ts, v AS l, fk, gone FROM left_changes) PARTITION BY (scenario, k) ORDER BY n,"
    " TABLE(SELECT scenario, k AS id, n, ts, v AS r, gone FROM right_changes) PARTITION BY (scenario, id) ORDER BY n,"
    " on => 'l.scenario, fk', time => 'ts', deleted => 'gone', clock_by => ARRAY('scenario'), join_type => '{}'{})"
)
Row = tuple[
    str, str | None, int | None, int | None, str | None, str | None, bool
]  # side, key, place, time in ms, value, foreign key, deleted


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


def place(row: Row) -> Any:
    """By ORDER BY, the left side first, then the remaining columns in their order, nulls first: key, time, value, foreign key, `gone`."""
    side, k, n, t, v, fk, gone = row
    return n, side, (k or "").encode(), t, v is not None, v or "", fk is not None, (fk or "").encode(), gone


def slow(
    rows: list[Row], join: str, versioned: tuple[str, ...], retention: int | None, told: list[tuple[Any, ...]] | None = None
) -> list[tuple[Any, ...]]:
    """One scenario by the letter of J8, change by change. `told` gets each row, what became of it, and what its sentence has to say."""
    lefts: dict[str, tuple[int, str | None, str | None]] = {}
    rights: dict[str, tuple[int, str | None]] = {}
    newest: dict[Any, int] = {}
    clock: dict[str, int] = {}
    emitted: list[tuple[Any, ...]] = []
    told = [] if told is None else told
    told += [(row, "null_time" if None in row[2:4] else "null_key", "") for row in rows if None in row[1:4]]

    def joined(k: str) -> tuple[Any, ...] | None:
        if k not in lefts:
            return None
        _, v, fk = lefts[k]
        match = rights.get(fk) if fk is not None else None
        return (v, fk, match[1] if match else None) if match or join == "left" else None

    def emit(n: int, k: str, before: Any, times: list[int]) -> None:
        after = joined(k)
        if after is not None or before is not None:
            seq = sum(change[:2] == (n, k) for change in emitted)
            values = (*after, "upsert") if after is not None else (None, None, None, "delete")
            emitted.append((n, k, seq, *values, max(times)))

    for side, k, n, t, v, fk, gone in sorted((row for row in rows if None not in row[1:4]), key=place):
        if side in versioned:
            if retention is not None and side in clock and t < clock[side] - retention:
                told.append(((side, k, n, t, v, fk, gone), "too_old", ""))
                continue
            clock[side] = max(t, clock.get(side, t))
            if t < newest.get((side, k), t):
                told.append(((side, k, n, t, v, fk, gone), "out_of_order", newest[side, k]))
                continue
            newest[side, k] = t
        if side == "left":
            before, named = joined(k), lefts[k][2] if k in lefts else None
            old = rights.get(named) if named is not None else None
            lefts.pop(k, None)
            if not gone:
                lefts[k] = (t, v, fk)
            match = old if gone else rights.get(fk) if fk is not None else None
            emit(n, k, before, [t, *([match[0]] if match else [])])
            after, waits = joined(k), "names no row" if fk is None else "that it names"
            did = "alone" if after else "withdrew" if before else "nothing" if gone else "waits"
            did = "joined" if after and match else did
            told.append(((side, k, n, t, v, fk, gone), did, {"joined": match and match[0], "waits": waits}.get(did, "")))
        else:
            touched = [key for key, row in lefts.items() if row[2] == k]
            was = {key: joined(key) for key in touched}
            rights.pop(k, None)
            if not gone:
                rights[k] = (t, v)
            for key in touched:
                emit(n, key, was[key], [t, lefts[key][0]])
            emits = [key for key in touched if was[key] or joined(key)]
            did = ("joined" if not gone else "alone" if join == "left" else "withdrew") if emits else "nothing" if gone else "waits"
            told.append(((side, k, n, t, v, fk, gone), did, f": {len(emits)}." if emits else ""))
    return sorted(emitted, key=lambda c: c[:3])


def of_case(case: dict[str, Any]) -> tuple[list[Row], str, tuple[str, ...], int | None]:
    asked, rows = case["params"], []
    for n, i in enumerate(case["input"], 1):
        value, fk = i["value"], None
        if i["side"] == "left" and value is not None and asked["foreign_key"] != "always null":
            fk = value.partition("|")[2]
            fk = None if fk == "returnNull" else fk
        rows.append((i["side"], i["key"], n, i.get("ts", n), value, fk, value is None))
    versioned = tuple(side for side in ("left", "right") if asked.get(f"{side}_versioned"))
    return rows, asked["join"].removeprefix("fk_"), versioned, asked.get("history_retention_ms")


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


def drawn(rng: random.Random) -> list[Row]:
    """Changes of few keys that name few others, far years, nulls in each role, and ties of both kinds."""
    times = [*range(0, 40, 5), -62_000_000_000_000, 253_000_000_000_000]
    rows: list[Row] = []
    n = 0
    for i in range(rng.randrange(0, 30)):
        n += rng.choice((0, 1, 1, 1))
        side = rng.choice(("left", "right"))
        keys = (None, "", "a", "a", "b", "c") if side == "left" else (None, "", "x", "x", "x", "y'`\\")
        t = None if rng.random() < 0.1 else rng.choice(times[:8] if rng.random() < 0.95 else times)
        fk = rng.choice((None, "", "x", "x", "y'`\\", "z")) if side == "left" else None
        rows.append((side, rng.choice(keys), None if rng.random() < 0.05 else n, t, f"{side[0]}{i}", fk, rng.random() < 0.25))
    return rows


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
