"""AS_OF_JOIN end to end: Kafka's cases, the slow definition on random input, DuckDB's own ASOF join, and each boundary by name."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import reference_as_of as slow
from pyspark.sql import Row, SparkSession
from test_deduplicate import micros, moment, view

import streamtime

FOLDER = Path(__file__).parent / "cases"
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
        with pytest.raises(streamtime.CallError, match="needs `arrival`"):  # what is not versioned has no history to wait for
            df = view(spark, [], "k STRING, t TIMESTAMP")
            streamtime.as_of_join(df, df, keys=["k"], order_by=["t"], grace=seconds(1))
    elif "error" in outcome:
        with pytest.raises(streamtime.CallError, match="longer than `retention`"):
            joined(spark, case, "stream", "table")
    elif "ok" in outcome:
        assert joined(spark, case, "stream", "table") == Counter()
    else:
        assert joined(spark, case, params["stream_side"], params["table_side"]) == expected(case, "+" if '"+"' in params["joiner"] else "-")


def some_rows(random_: random.Random, names: str) -> list[dict[str, Any]]:
    count, spread = random_.choice([0, 1, 40, 40, 40]), random_.choice([5, 20, 60])
    values = {
        "k": lambda: random_.choice([None, *"aaaabbbccc"]),
        "t": lambda: random_.choice([None, *[random_.randint(-5, spread)] * 15]),
        "o": lambda: random_.choice([None, *[random_.randint(0, 60)] * 15]),
        "gone": lambda: random_.random() < 0.2,
        "a": lambda: random_.randint(0, 3),
        "b": lambda: random_.randint(0, 3),
    }
    return [{n: values[n]() for n in names.split()} for _ in range(count)]


def sides(spark: SparkSession, random_: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    left, right = some_rows(random_, "k t o a"), some_rows(random_, "k t o gone b")
    for rows, ddl, name in ((left, LEFT, "l"), (right, RIGHT, "r")):
        shuffled = random_.sample(rows, len(rows))
        df = view(spark, [r | {"t": moment(r["t"], 1)} for r in shuffled], ddl, name)
        df.repartition(random_.randint(1, 3)).createOrReplaceTempView(name)
    return left, right


def pairs(found: list[slow.Joined]) -> Counter[Any]:
    nothing = dict.fromkeys(("k", "t", "o", "gone", "b"))
    return Counter((*j.row.values(), *(j.match or nothing).values(), j.reason) for j in found)


def got(rows: list[Row]) -> Counter[Any]:
    return Counter((*r[:1], micros(r[1]), *r[2:5], micros(r[5]), *r[6:9], r[9]) for r in rows)


def compare(spark: SparkSession, found: list[slow.Joined], options: str) -> None:
    text = (
        f"SELECT * FROM AS_OF_JOIN(TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY t, deleted => 'gone'{options}, OUT)"
    )
    everything = spark.sql(text.replace("OUT", "output => 'all'")).collect()
    assert got(everything) == pairs(found), text
    inner = spark.sql(text.replace("OUT", "output => 'rows'")).collect()
    assert got([Row(*r, None) for r in inner]) == pairs([j for j in found if j.match]), text
    dropped = spark.sql(text.replace("OUT", "output => 'dropped'")).collect()
    expected = Counter((*j.row.values(), j.reason) for j in found if not j.match)
    assert Counter((r.k, micros(r.t), r.o, r.a, r.reason) for r in dropped) == expected, text
    left = spark.sql(text.replace("OUT", "join_type => 'left'")).collect()
    kept = [slow.Joined(j.row, j.match) for j in found if j.reason != "held"]
    assert got([Row(*r, None) for r in left]) == pairs(kept), text


@pytest.mark.parametrize("seed", range(14))
def test_random_sides_equal_the_slow_definition(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    left, right = sides(spark, random_)
    direction = ("backward", "forward", "nearest")[seed % 3]
    exact, ties, tolerance = random_.random() < 0.6, random_.choice(["last", "first"]), random_.choice([None, 0, 3])
    found = slow.as_of_join(left, right, direction=direction, exact=exact, ties=ties, tolerance=tolerance)
    options = f", direction => '{direction}', allow_exact => {exact}, ties => '{ties}'"
    compare(spark, found, options + (f", tolerance => {interval(tolerance)}" if tolerance is not None else ""))


@pytest.mark.parametrize("seed", range(14))
def test_random_arrivals_equal_the_slow_definition(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(100 + seed)
    left, right = sides(spark, random_)
    retention, grace = random_.choice([None, 0, 3, 20]), random_.choice([None, None, 0, 2, 10])
    grace = min(grace, retention) if grace is not None and retention is not None else grace
    exact, at_end, clock_by = random_.random() < 0.8, random_.choice(["emit", "hold"]), random_.random() < 0.3
    found = slow.known_as_of(left, right, retention=retention, grace=grace, at_end=at_end, exact=exact, clock_by=clock_by)
    options = f", arrival => 'o', allow_exact => {exact}"
    options += f", retention => {interval(retention)}" if retention is not None else ""
    options += f", grace => {interval(grace)}, at_end => '{at_end}'" if grace is not None else ""
    compare(spark, found, options + (", clock_by => ARRAY('k')" if clock_by else ""))
