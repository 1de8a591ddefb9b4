"""FILTER_CHANGES: Kafka's cases, also with totals after it, a slow definition, nasty input, and what is refused."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import TESTS

ALL = [case for name in ("kafka_table_filter", "table_filter") for case in json.loads((TESTS / "cases" / f"{name}.json").read_text())]
TOTALS = [case for case in ALL if "downstream" in case["params"]]
STATES = [case for case in ALL if "check" in case["params"]]
CASES = [case for case in ALL if case not in TOTALS and case not in STATES]
EVEN = "CAST(v AS INT) % 2 = 0"
Row = tuple[str | None, int | None, int | None, str | None]  # key, place, time in ms, value
CALL = (
    "FILTER_CHANGES(TABLE(given) PARTITION BY (scenario, k) ORDER BY n, time => 'ts', deleted => 'v IS NULL', clock_by => ARRAY('scenario'),"
    " condition => '{}'{})"
)


def given(spark: SparkSession, scenarios: dict[str, list[Row]]) -> None:
    rows = [(scenario, *row) for scenario, changes in scenarios.items() for row in changes]
    random.Random(1).shuffle(rows)
    df = spark.createDataFrame(rows, "scenario STRING, k STRING, n BIGINT, t BIGINT, v STRING")
    df.selectExpr("scenario", "k", "n", "timestamp_millis(t) AS ts", "v").createOrReplaceTempView("given")


def options(versioned: bool, retention: int | None) -> str:
    return (", versioned => true" if versioned else "") + (
        f", retention => INTERVAL '{retention / 1000:.3f}' SECOND" if versioned and retention is not None else ""
    )


def found(spark: SparkSession, condition: str, more: str) -> dict[str, list[tuple[Any, ...]]]:
    """By scenario: place, key, number, value, type, time in ms."""
    answer = defaultdict(list)
    query = f"SELECT scenario, n, k, change_seq, v, change_type, unix_millis(change_time) FROM {CALL.format(condition, more)}"
    for row in spark.sql(query).collect():
        answer[row.scenario].append(tuple(row)[1:])
    return {scenario: sorted(changes, key=lambda c: c[:3]) for scenario, changes in answer.items()}


def slow(rows: list[Row], passes: Any, versioned: bool, retention: int | None) -> list[tuple[Any, ...]]:
    """One scenario by the letter of V8, change by change."""
    there: set[Any] = set()
    at: Counter[Any] = Counter()
    clock: int | None = None
    emitted = []
    for k, n, t, v in sorted(
        (r for r in rows if None not in r[:3]), key=lambda r: (r[1], r[0].encode(), r[2], r[3] is not None, r[3] or "")
    ):  # type: ignore[union-attr]
        assert t is not None
        if versioned and retention is not None and clock is not None and t < clock - retention:
            continue
        clock = t if clock is None else max(clock, t)
        passed = v is not None and passes(v)
        if passed or versioned or k in there:
            emitted.append((n, k, at[n, k], v if passed else None, "upsert" if passed else "delete", t))
            at[n, k] += 1
        (there.add if passed else there.discard)(k)
    return sorted(emitted, key=lambda c: c[:3])


def of_case(case: dict[str, Any]) -> list[Row]:
    return [(i["key"], n, i["ts"], None if i["value"] is None else str(i["value"])) for n, i in enumerate(case["input"], 1)]


def asked(case: dict[str, Any]) -> tuple[str, bool, int | None]:
    """The condition as SQL, whether the input is versioned, its retention."""
    text = case["params"]["predicate"]
    condition = 'v = "accept"' if "accept" in text else f"NOT ({EVEN})" if text.startswith("NOT") else EVEN
    return condition, case["params"].get("input_versioned", False), case["params"].get("history_retention_ms")


def passes(condition: str) -> Any:
    if "accept" in condition:
        return lambda v: v == "accept"
    return lambda v: (int(v) % 2 == 0) != condition.startswith("NOT")


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[str, list[tuple[Any, ...]]]:
    """All cases, one query for each combination of options."""
    groups: dict[Any, dict[str, list[Row]]] = defaultdict(dict)
    for case in CASES + STATES:
        groups[asked(case)][case["id"]] = of_case(case)
    answer: dict[str, list[tuple[Any, ...]]] = {}
    for (condition, versioned, retention), scenarios in groups.items():
        given(spark, scenarios)
        answer |= found(spark, condition, options(versioned, retention))
    return answer


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_a_case_of_kafka(answers: dict[str, list[tuple[Any, ...]]], case: dict[str, Any]) -> None:
    condition, versioned, retention = asked(case)
    got = answers.get(case["id"], [])
    assert got == slow(of_case(case), passes(condition), versioned, retention)
    there: set[Any] = set()
    expected = []
    for e in case["expected"]:  # without old values Kafka also deletes what was never there
        value = None if e["value"] is None else str(e["value"])
        if value is not None or versioned or e["key"] in there:
            expected.append((e["after"], e["key"], value, e["ts"]))
        (there.discard if value is None else there.add)(e["key"])
    assert [(n, k, v, t) for n, k, _, v, _, t in got] == expected


@pytest.mark.parametrize("case", STATES, ids=[c["id"] for c in STATES])
def test_the_table_after_each_change_is_kafkas(answers: dict[str, list[tuple[Any, ...]]], case: dict[str, Any]) -> None:
    for e in case["expected"]:
        table = {k: [int(v), t] if v is not None else None for n, k, _, v, _, t in answers[case["id"]] if n <= e["after"]}
        assert {k: table.get(k) for k in e["values"]} == e["values"]


@pytest.mark.parametrize("case", TOTALS, ids=[c["id"] for c in TOTALS])
def test_totals_after_a_filter_are_kafkas(spark: SparkSession, case: dict[str, Any]) -> None:
    """Versionedness passes through the filter (V8): what is out of order is ignored behind it."""
    condition, versioned, retention = asked(case)
    given(spark, {"one": of_case(case)})
    got = spark.sql(
        f"WITH passed AS (SELECT * FROM {CALL.format(condition, options(versioned, retention))})"
        " SELECT n, v, c, change_type, unix_millis(change_time) AS t FROM AGGREGATE_CHANGES(TABLE(passed) PARTITION BY k ORDER BY (n, change_seq),"
        f" time => 'change_time', versioned => {versioned}, group_by => ARRAY('v'), aggregates => 'count(*) AS c') ORDER BY n, change_seq"
    )
    assert [(r.n, r.v, r.c or 0, r.t) for r in got.collect()] == [(e["after"], e["key"], e["value"], e["ts"]) for e in case["expected"]]


def drawn(rng: random.Random) -> list[Row]:
    """Changes of few keys, far years, nulls in each role, and ties of both kinds."""
    times = [*range(0, 40, 5), -62_000_000_000_000, 253_000_000_000_000]
    rows: list[Row] = []
    n = 0
    for _ in range(rng.randrange(0, 25)):
        n += rng.choice((0, 1, 1, 1))
        t = None if rng.random() < 0.1 else rng.choice(times[:8] if rng.random() < 0.95 else times)
        k = rng.choice((None, "", "a", "a", "b", "ä'`\\"))
        rows.append((k, None if rng.random() < 0.05 else n, t, rng.choice((None, "1", "2", "3", "4", "-7"))))
    return rows


@pytest.mark.parametrize("versioned", [False, True])
def test_random_changelogs_are_filtered_as_defined(spark: SparkSession, versioned: bool) -> None:
    rng = random.Random(versioned)
    scenarios = {f"s{i}": drawn(rng) for i in range(200)}
    given(spark, scenarios)
    got = found(spark, EVEN, options(versioned, 12))
    for scenario, rows in scenarios.items():
        assert got.get(scenario, []) == slow(rows, passes(EVEN), versioned, 12), scenario
    assert sum(map(len, got.values())) > 500


def test_every_change_is_told_of_once(spark: SparkSession) -> None:
    rng = random.Random(3)
    scenarios = {f"s{i}": drawn(rng) for i in range(60)}
    given(spark, scenarios)

    def told(output: str, more: str) -> list[Any]:
        return spark.sql(f"SELECT * FROM {CALL.format(EVEN, more + f', output => {output!r}')}").collect()

    for more, outcomes in ((options(True, 5), {"passed", "withdrew"}), ("", {"passed", "withdrew", "nothing"})):
        all_rows, explained = told("all", more), told("explain", more)
        assert len(all_rows) == len(explained) == sum(map(len, scenarios.values()))
        assert Counter(r for r in all_rows if r.reason) == Counter(told("dropped", more))
        reasons = Counter(r.reason for r in all_rows)
        assert set(reasons) == {None, "null_time", "null_key"} | ({"too_old"} if more else set())
        did = Counter(r.outcome for r in explained)
        assert set(did) == outcomes | set(reasons) - {None}
        assert all(r.explanation for r in explained)
        assert did["passed"] + did["withdrew"] == sum(map(len, found(spark, EVEN, more).values()))
        metrics = {r.metric: r.value for r in told("metrics", more)}
        assert {f"{reason}_drop_total": float(n) for reason, n in reasons.items() if reason}.items() <= metrics.items()


def test_a_change_feed_of_delta_and_an_empty_table(spark: SparkSession) -> None:
    feed = (
        "SELECT *, timestamp_seconds(_commit_version) AS at FROM VALUES (1, 10, 'insert', 0), (1, 10, 'update_preimage', 1),"
        " (1, -1, 'update_postimage', 1), (2, 5, 'insert', 1), (2, 5, 'delete', 3) AS t(id, amount, _change_type, _commit_version)"
    )
    call = "SELECT * FROM FILTER_CHANGES(TABLE({}) PARTITION BY id ORDER BY at, condition => 'amount > 0') ORDER BY at, id"
    changes = spark.sql(call.format(feed))
    assert changes.columns == ["id", "amount", "at", "change_type", "change_time", "change_seq"]
    assert [(r.id, r.amount, r.change_type) for r in changes.collect()] == [
        (1, 10, "upsert"),
        (1, None, "delete"),
        (2, 5, "upsert"),
        (2, None, "delete"),
    ]
    assert spark.sql(call.format(f"{feed} LIMIT 0")).collect() == []


WRONG = {
    "": "`condition`: is required",
    "condition => 'v'": "`condition`: expected a condition, got STRING (`v`)",
    "condition => 'w > 1'": "`condition`: no column `w` in the input",
    "condition => 'true', retention => INTERVAL 1 DAY": "`retention`: needs `versioned`",
}


@pytest.mark.parametrize("more", WRONG)
def test_a_wrong_call_is_refused(spark: SparkSession, more: str) -> None:
    given(spark, {})
    with pytest.raises(AnalysisException, match=re.escape(WRONG[more])):
        spark.sql(f"SELECT * FROM FILTER_CHANGES(TABLE(given) PARTITION BY k ORDER BY n, time => 'ts'{', ' * bool(more)}{more})")
