"""DEDUPLICATE end to end: the cases of Kafka and KIP-655, and random inputs against the slow definition, through every way to call it."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import TESTS
from support.inputs.deduplicate_calls import CASES, options_of, some_rows, sql_of
from support.reference import deduplicate as reference_deduplicate
from support.times import micros, moment, view

import streamtime

STATE_CASE = "deduplicate.shouldEvictExpiredEntryFromBothStoresByKeyValue"  # counts entries of a store: ours is one number a key


def test_every_case_is_there() -> None:
    ids = {c["id"] for c in json.loads((TESTS / "cases" / "deduplicate.json").read_text())}
    assert ids - {c["id"] for c in CASES} == {STATE_CASE}
    assert len(CASES) == 24


IDENTITIES = {"id = key": "key", "id = null": "CAST(NULL AS STRING)", "id = value": "value", "id = key|value": "concat(key, '|', value)"}


def by_parameters() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The cases of one identity and interval, which are one call: each has a key and a clock of its own."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for case in CASES:
        params = case["params"]
        identity = "" if params["mode"] == "by_key" else IDENTITIES[params["id_selector"]]
        found.setdefault((identity, params["interval_ms"]), []).append(case)
    return found


@pytest.mark.parametrize("way", ["clause", "options", "python"])
@pytest.mark.parametrize(("identity", "interval_ms"), sorted(by_parameters()))
def test_every_case_holds(spark: SparkSession, identity: str, interval_ms: int, way: str) -> None:
    cases = by_parameters()[identity, interval_ms]
    rows = [r | {"c": c["id"], "n": i + 1, "ts": moment(r["ts"])} for c in cases for i, r in enumerate(c["input"])]
    df = view(spark, rows, "c STRING, key STRING, value STRING, ts TIMESTAMP, n INT")
    keys = ["c", "key", *([identity] if identity else [])]
    within, interval = datetime.timedelta(milliseconds=interval_ms), f"INTERVAL {interval_ms / 1000} SECONDS"
    rest = f"time => 'ts', within => {interval}, clock_by => ARRAY('c')"
    if way == "clause":
        got = spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY ({', '.join(keys)}) ORDER BY n, {rest})")
    elif way == "options":
        array = ", ".join('"' + k + '"' for k in keys)
        got = spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE(t), keys => ARRAY({array}), order_by => ARRAY('n'), {rest})")
    else:
        got = streamtime.deduplicate(df, keys=keys, order_by=["n"], time="ts", within=within, clock_by=["c"])
    found = got.collect()
    for case in cases:
        assert sorted(r.n for r in found if r.c == case["id"]) == [e["after"] for e in case["expected"]], case["id"]


@pytest.mark.parametrize("seed", range(15))
def test_random_input_equals_the_slow_definition_and_nothing_is_lost(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    rows, options = some_rows(random_, random_.choice([0, 1, 8, 60])), options_of(random_)
    judged = reference_deduplicate.deduplicate(rows, **options)
    expected = Counter(
        (*j.row.values(), j.reason, j.stream_time, None if j.lateness is None else j.lateness / 1e6, j.kept_time) for j in judged
    )
    shuffled = random_.sample(rows, len(rows))
    df = view(spark, [r | {"t": moment(r["t"], 1)} for r in shuffled], "k STRING, t TIMESTAMP, off INT, p INT")
    df.repartition(random_.randint(1, 4)).createOrReplaceTempView("t")
    text = sql_of(options, "{}").replace("'{}'", "'all'")
    got = Counter(
        (r.k, micros(r.t), r.off, r.p, r.reason, micros(r.stream_time), r.lateness, micros(r.kept_time))
        for r in spark.sql(text).collect()
    )  # fmt: skip
    assert got == expected, text
    plain = Counter((*r[:4],) for r in df.collect())
    passed = Counter((*r,) for r in spark.sql(text.replace("'all'", "'rows'")).collect())
    dropped = Counter((*r[:4],) for r in spark.sql(text.replace("'all'", "'dropped'")).collect())
    assert passed + dropped == plain
    assert passed == Counter((j.row["k"], _naive(j.row["t"]), j.row["off"], j.row["p"]) for j in judged if j.reason is None)


def _naive(t: int | None) -> datetime.datetime | None:
    at = moment(t, 1)
    return None if at is None else at.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("count", "by"),
    [(16, ["off"]), (40, ["off"]), (70, ["p", "off"]), (16, ["one"])],
    ids=["16", "40", "70 of two columns", "of one value"],
)
def test_stream_time_is_exact_where_the_order_is_cut_into_ranges(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, count: int, by: list[str]
) -> None:
    from streamtime.sql.rows import ranges, scans

    monkeypatch.setattr(scans, "SMALL", 0)
    monkeypatch.setattr(ranges, "straight_from_files", lambda _: True)
    monkeypatch.setattr(ranges, "SAMPLED_ROWS", 20)  # so that 6,000 rows are cut, as 100,000 are by default
    monkeypatch.setattr(ranges, "FEWEST", count)  # the tests' partitions are fewer
    random_ = random.Random(1)
    rows = [
        {
            "k": random_.randint(0, 40),
            "t": i // 2 + random_.randint(-400, 0),
            "off": i if i % 7 else i - 1,
            "p": random_.randint(0, 1),
            "one": "one",
        }
        for i in range(6_000)
    ]
    df = view(
        spark,
        [r | {"t": moment(r["t"], 1)} for r in random_.sample(rows, len(rows))],
        "k INT, t TIMESTAMP, off INT, p INT, one STRING",
    )
    for keep, descending in (("first", False), ("last", False), ("first", True)):
        judged = reference_deduplicate.deduplicate(rows, within=150, order=by, keep=keep, descending=descending)
        order = [f"{column} DESC" for column in by] if descending else by
        got = streamtime.deduplicate(
            df,
            keys=["k"],
            order_by=order,
            time="t",
            within=datetime.timedelta(microseconds=150),
            keep=keep,
            output="all",
        )
        found = Counter((r.k, r.off, micros(r.stream_time), r.reason, micros(r.kept_time)) for r in got.collect())
        assert found == Counter((j.row["k"], j.row["off"], j.stream_time, j.reason, j.kept_time) for j in judged)


def test_shuffling_the_input_never_changes_the_output_not_even_with_ties(spark: SparkSession) -> None:
    random_ = random.Random(3)
    rows = [
        {"k": random_.randint(0, 3), "t": moment(random_.randint(0, 5), 1), "v": random_.choice([None, "x", "y", "z"])} for _ in range(300)
    ]
    results = set()
    for _ in range(4):
        random_.shuffle(rows)
        view(spark, rows, "k INT, t TIMESTAMP, v STRING")
        spark.table("t").repartition(random_.randint(1, 5)).createOrReplaceTempView("t")
        got = spark.sql("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY t, within => INTERVAL '0.000002' SECOND)")
        results.add(tuple(sorted(map(repr, got.collect()))))
    assert len(results) == 1


@pytest.mark.usefixtures("many_rows")
def test_a_hot_key_across_many_batches_is_one_chain(spark: SparkSession) -> None:
    spark.range(200_000).selectExpr("'hot' AS k", "timestamp_seconds(id) AS ts").createOrReplaceTempView("t")
    call = "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => INTERVAL {} SECONDS)"
    assert spark.sql(f"SELECT * FROM {call.format(9)}").count() == 20_000
    assert spark.sql(f"SELECT max(unix_seconds(ts) % 10) AS m FROM {call.format(9)}").first().m == 0


def test_keys_whose_hashes_collide_are_told_apart(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamtime.sql.functions import deduplicate as module
    from streamtime.sql.rows.columns import expression, sorted_by

    monkeypatch.setattr(module, "hash_of", lambda identity: expression("7"))
    monkeypatch.setattr(module, "prefix", lambda identity, rising, *rest: sorted_by(f"unix_micros(`{rising}`)"))
    random_ = random.Random(5)
    rows = [{"k": random_.choice("abcdef"), "t": random_.randint(0, 3_000), "off": i, "p": 0} for i in range(25_000)]
    view(spark, [r | {"t": moment(r["t"], 1)} for r in rows], "k STRING, t TIMESTAMP, off INT, p INT")
    judged = reference_deduplicate.deduplicate(rows, within=20)
    got = spark.sql("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY t, within => INTERVAL '0.00002' SECOND)")
    assert Counter((r.k, r.off) for r in got.collect()) == Counter((j.row["k"], j.row["off"]) for j in judged if j.reason is None)


@pytest.mark.parametrize("within", [None, "INTERVAL 1 DAY"])
def test_unique_under_a_limit_looks_ahead_all_the_same(spark: SparkSession, within: str | None) -> None:
    spark.range(20, numPartitions=1).selectExpr("id DIV 2 AS k", "timestamp_seconds(id) AS ts").createOrReplaceTempView("t")
    option = f", within => {within}" if within else ""
    text = f"SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, keep => 'unique', output => 'all'{option})"
    assert {r.reason for r in spark.sql(f"{text} LIMIT 1").collect()} == {"duplicate"}


def test_metrics_count_what_was_dropped_and_how_late_rows_were(spark: SparkSession) -> None:
    rows = [{"k": k, "t": moment(t), "n": i} for i, (k, t) in enumerate([("a", 0), ("a", 4000), ("b", 10_000), ("a", 2000), ("c", None)])]
    view(spark, rows, "k STRING, t TIMESTAMP, n INT")
    call = (
        "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY n, time => 't', within => INTERVAL 20 SECONDS, output => 'metrics', name => 'clicks')"
    )
    got = {r.metric: (r.name, r.value, r.unit) for r in spark.sql(f"SELECT * FROM {call}").collect()}
    assert got == {
        "null_time_drop_total": ("clicks", 1.0, "rows"),
        "null_time_drop_rate": ("clicks", 0.1, "rows per second of event time"),
        "duplicate_drop_total": ("clicks", 2.0, "rows"),
        "duplicate_drop_rate": ("clicks", 0.2, "rows per second of event time"),
        "record_lateness_avg": ("clicks", 2.0, "seconds"),
        "record_lateness_max": ("clicks", 8.0, "seconds"),
    }


def test_an_interval_of_microseconds_and_one_of_centuries(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW t AS SELECT 'a' AS k, ts FROM VALUES (TIMESTAMP '0001-01-01'), (TIMESTAMP '1969-12-31 23:59:59.999999'),"
        " (TIMESTAMP '1970-01-01 00:00:00'), (TIMESTAMP '1970-01-01 00:00:00.000002'), (TIMESTAMP '9999-12-31 23:59:59') AS v(ts)"
    )
    call = "SELECT count(*) AS n FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => {})"
    assert spark.sql(call.format("INTERVAL '0.000001' SECOND")).first().n == 4
    assert spark.sql(call.format("INTERVAL 106751991 DAYS")).first().n == 1


@pytest.mark.parametrize("order", ["ts", "n"])
def test_the_first_moment_of_all_is_told_from_the_second_in_plain_sql_too(spark: SparkSession, order: str) -> None:
    rows = "SELECT 'a' AS k, timestamp_micros(CAST(t AS BIGINT)) AS ts, n FROM VALUES (-9223372036854775808BD, 1), (-9223372036854775806BD, 2) AS t(t, n)"
    options = f"PARTITION BY k ORDER BY {order}, time => 'ts', within => INTERVAL '0.000001' SECOND, keep => 'last'"
    query = f"SELECT n, unix_micros(ts) AS at FROM DEDUPLICATE(TABLE({rows}) {options}) ORDER BY n"
    both = [spark.sql(text).collect() for text in (query, streamtime.compile(spark, query))]
    assert both[0] == both[1] == [(1, -(2**63)), (2, 2 - 2**63)]
