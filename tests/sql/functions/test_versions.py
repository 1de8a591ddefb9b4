"""VERSIONS: what Kafka's stores did, the slow definition on random input, and each boundary by name."""

from __future__ import annotations

import datetime
import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from support.inputs.versioned_cases import CASES, KAFKA, REFUSED
from support.reference import versions as reference_versions
from support.reference.versions import Store
from support.times import micros, moment, view

import streamtime

DDL = "k STRING, t TIMESTAMP, off INT, p INT, gone BOOLEAN"


def seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def interval(micros_: int) -> str:
    return f"INTERVAL '{micros_ / 1e6:.6f}' SECOND"


def with_equal_parameters() -> dict[tuple[int, int], list[dict[str, Any]]]:
    found = defaultdict(list)
    for case in [*CASES, *KAFKA]:
        found[case["params"]["history_retention_ms"], case["params"]["grace_ms"]].append(case)
    return found


@pytest.mark.parametrize(("retention", "grace"), with_equal_parameters())
def test_puts_and_lookups_of_every_case(spark: SparkSession, retention: int, grace: int) -> None:
    """All cases of equal parameters at once, each under a clock of its own."""
    cases = {c["id"]: c for c in with_equal_parameters()[retention, grace]}
    rows = [
        {"c": c["id"], "k": r["key"], "v": r.get("value"), "t": moment(r["ts"]), "n": n}
        for c in cases.values()
        for n, r in enumerate(c["input"], 1)
    ]
    df = view(spark, rows, "c STRING, k STRING, v STRING, t TIMESTAMP, n INT")
    options = {"keys": ["c", "k"], "order_by": ["n"], "time": "t", "clock_by": ["c"], "deleted": "v IS NULL"}
    options |= {"grace": seconds(grace / 1000), "retention": seconds(retention / 1000)}
    puts = {(r.c, r.n): r for r in streamtime.versions(df, **options, output="puts").collect()}
    checked = 0
    for case in cases.values():
        for e in case["expected"]:
            if e.get("check") == "put_return" or set(e) == {"after", "valid_to"}:
                put = puts[case["id"], e["after"]]
                told = {"current": -1, "refused": REFUSED}.get(put.put_status, put.valid_to and micros(put.valid_to) // 1000)
                assert told == e["valid_to"], (case["id"], e)
                checked += 1
    assert checked > 2
    found = defaultdict(list)
    for r in streamtime.versions(df, **options).collect():
        found[r.c, r.k].append((micros(r.valid_from) // 1000, r.valid_to and micros(r.valid_to) // 1000, r.v))
    for case in cases.values():
        last = max(r["ts"] for r in case["input"])
        for e in (e for e in case["expected"] if e["after"] == len(case["input"])):
            if e.get("check") in ("get_as_of", "get_latest") or "get" in e:
                asked = e.get("get", e)
                at = asked.get("as_of")
                valid = [v for begins, ends, v in found[case["id"], asked["key"]] if lookup(begins, ends, at, last - retention)]
                assert valid == [e["value"]] * (e["value"] is not None), (case["id"], e)


def lookup(begins: int, ends: int | None, at: int | None, oldest: int) -> bool:
    """V1 and V3, over the rows that VERSIONS gives."""
    if at is None:
        return ends is None
    return begins <= at and (ends is None or (at < ends and at >= oldest))


def some_rows(random_: random.Random) -> list[dict[str, Any]]:
    count, spread = random_.choice([0, 1, 60]), random_.choice([10, 60])
    return [
        {
            "k": random_.choice([None, *"aaabbbccc"]),
            "t": random_.choice([None, *([i * spread // 60 + random_.randint(-9, 9)] * 15)]),
            "off": random_.choice([None, *[i // 2] * 20]),
            "p": random_.randint(0, 1),
            "gone": random_.random() < 0.2,
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_random_input_equals_the_slow_definition_and_nothing_is_lost(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    rows = some_rows(random_)
    order, clock_by = random_.choice([["t"], ["off"], ["off"], ["p", "off"]]), random_.choice([[], [], ["p"]])
    grace, retention = random_.choice([None, 0, 3, 20]), random_.choice([None, None, 0, 5, 20])
    judged = reference_versions.versions(rows, order=order, grace=grace, retention=retention, deleted="gone", clock_by=clock_by)
    df = view(spark, [r | {"t": moment(r["t"], 1)} for r in random_.sample(rows, len(rows))], DDL)
    df.repartition(random_.randint(1, 4)).createOrReplaceTempView("t")
    options = "".join(f", {n} => {interval(v)}" for n, v in (("grace", grace), ("retention", retention)) if v is not None)
    options += f", clock_by => ARRAY('{clock_by[0]}')" if clock_by else ""
    text = f"SELECT * FROM VERSIONS(TABLE(t) PARTITION BY k ORDER BY ({', '.join(order)}), time => 't'{options}, deleted => 'gone', output => 'OUT')"

    def run(output: str) -> list[Row]:
        return spark.sql(text.replace("OUT", output)).collect()

    def key(r: Row) -> tuple[Any, ...]:
        return (r.k, micros(r.t), r.off, r.p, r.gone)

    def row_of(j: reference_versions.Judged) -> tuple[Any, ...]:
        return tuple(j.row.values())

    got = Counter((*key(r), r.reason, micros(r.valid_from), micros(r.valid_to)) for r in run("all"))
    valid = [(j.row["t"], j.valid_to) if j.reason is None else (None, None) for j in judged]
    assert got == Counter((*row_of(j), j.reason, *v) for j, v in zip(judged, valid, strict=True)), text
    assert Counter((*key(r), micros(r.valid_from), micros(r.valid_to)) for r in run("rows")) == Counter(
        (*row_of(j), *v) for j, v in zip(judged, valid, strict=True) if j.reason is None and not j.tombstone
    )
    dropped = Counter((*key(r), r.reason, micros(r.stream_time) if order != ["t"] else None) for r in run("dropped"))
    assert dropped == Counter((*row_of(j), j.reason, clock_of(j) if order != ["t"] else None) for j in judged if j.reason)
    assert Counter((*key(r), r.put_status, micros(r.valid_to)) for r in run("puts")) == Counter(
        (*row_of(j), j.status, j.told) for j in judged
    )
    metrics = {r.metric: r.value for r in run("metrics")}
    reasons = Counter(j.reason for j in judged)
    assert {m.removesuffix("_drop_total"): v for m, v in metrics.items() if m.endswith("_total")} == {
        r: float(reasons[r]) for r in ("null_time", "null_key", "too_old", "overwritten", "expired")
    }


def clock_of(j: reference_versions.Judged) -> int | None:
    return None if j.row["t"] is None or (j.row["off"] is None and j.reason == "null_time") else j.stream_time


def versions_of(spark: SparkSession, times: list[float], **options: Any) -> list[Any]:
    """Puts of one key in the order in which they came, at these seconds: the bounds of each, or why it is none."""
    rows = [{"k": "a", "t": moment(round(t * 1_000_000), 1), "off": i, "p": 0, "gone": False} for i, t in enumerate(times)]
    given = {"order_by": ["off"], "time": "t", "output": "all"} | options
    found = streamtime.versions(view(spark, rows, DDL), keys=["k"], **given).orderBy("off").collect()
    return [r.reason or (micros(r.valid_from) / 1e6, r.valid_to and micros(r.valid_to) / 1e6) for r in found]  # type: ignore[operator]


def test_a_row_at_stream_time_minus_grace_is_accepted_and_one_microsecond_older_is_not(spark: SparkSession) -> None:
    assert versions_of(spark, [10, 5], grace=seconds(5)) == [(10, None), (5, 10)]
    assert versions_of(spark, [10, 4.999999], grace=seconds(5)) == [(10, None), "too_old"]


def test_a_version_that_ended_exactly_at_the_horizon_is_expired_and_the_current_one_never_is(spark: SparkSession) -> None:
    assert versions_of(spark, [0, 5, 10], retention=seconds(5)) == ["expired", (5, 10), (10, None)]
    assert versions_of(spark, [0, 5, 10], retention=seconds(5.000001)) == [(0, 5), (5, 10), (10, None)]
    assert versions_of(spark, [7], retention=seconds(0)) == [(7, None)]


def test_without_grace_and_retention_nothing_is_too_old(spark: SparkSession) -> None:
    assert versions_of(spark, [1e9, -1e9]) == [(1e9, None), (-1e9, 1e9)]


def test_the_same_key_and_time_overwrites_and_a_tombstone_ends_what_came_before(spark: SparkSession) -> None:
    assert versions_of(spark, [3, 3, 9, 3]) == ["overwritten", "overwritten", (9, None), (3, 9)]
    rows = [
        {"k": "a", "t": moment(t), "off": i, "p": 0, "gone": g} for i, (t, g) in enumerate([(3, False), (5, True), (4, False), (4, True)])
    ]
    view(spark, rows, DDL)
    text = "SELECT off, valid_to FROM VERSIONS(TABLE(t) PARTITION BY k ORDER BY off, time => 't', deleted => 'gone')"
    assert [(r.off, micros(r.valid_to)) for r in spark.sql(text).collect()] == [(0, 4000)]


def test_changelogs_chain_into_versions_and_preimages_are_no_changes(spark: SparkSession) -> None:
    spark.sql(
        "SELECT * FROM VALUES ('a', 1, 'insert'), ('a', 1, 'update_preimage'), ('a', 2, 'update_postimage'), ('a', 3, 'delete'), ('b', 2, 'delete')"
        " AS c(k, s, _change_type)"
    ).selectExpr("*", "timestamp_seconds(s) AS ts").createOrReplaceTempView("feed")
    got = spark.sql("SELECT k, s, unix_seconds(valid_to) AS ends FROM VERSIONS(TABLE(feed) PARTITION BY k ORDER BY ts)").collect()
    assert sorted(map(tuple, got)) == [("a", 1, 2), ("a", 2, 3)]
    spark.sql("SELECT id % 2 AS k, id, timestamp_seconds(id) AS ts FROM range(4)").createOrReplaceTempView("events")
    updates = "SELECT * FROM WINDOW_UPDATES(TABLE(events) PARTITION BY k ORDER BY id, time => 'ts', size => INTERVAL 1 DAY, aggregates => 'count(*) AS n')"
    text = f"SELECT k, n, valid_to FROM VERSIONS(TABLE({updates}) PARTITION BY (k, window_start) ORDER BY (id, change_seq), time => 'change_time')"
    assert sorted((r.k, r.n, micros(r.valid_to)) for r in spark.sql(text).collect()) == [
        (0, 1, 2_000_000), (0, 2, None), (1, 1, 3_000_000), (1, 2, None),
    ]  # fmt: skip


def test_a_where_on_a_changelog_lets_the_old_version_live_on_and_deleted_does_not(spark: SparkSession) -> None:
    spark.sql("SELECT 'a' AS k, v, timestamp_seconds(v) AS ts FROM VALUES (1), (5) AS t(v)").createOrReplaceTempView("changes")
    text = "SELECT v, valid_to IS NULL AS current FROM VERSIONS(TABLE({}) PARTITION BY k ORDER BY ts{})"
    assert list(map(tuple, spark.sql(text.format("SELECT * FROM changes WHERE v < 3", "")).collect())) == [(1, True)]
    assert list(map(tuple, spark.sql(text.format("changes", ", deleted => 'NOT (v < 3)'")).collect())) == [(1, False)]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP_NTZ"])
def test_dates_and_timestamps_without_a_zone(spark: SparkSession, kind: str) -> None:
    spark.sql(
        f"SELECT 'a' AS k, n, CAST(d AS {kind}) AS at FROM VALUES (1, '2024-03-30'), (2, '2024-04-02'), (3, '2024-03-31'), (4, '2024-03-30') AS t(n, d)"
    ).createOrReplaceTempView("t")
    for output, expected in (
        ("rows", [(1, "2024-03-31"), (2, None), (3, "2024-04-02")]),
        ("puts", [(1, None), (2, None), (3, "2024-04-02"), (4, None)]),
    ):
        text = f"SELECT * FROM VERSIONS(TABLE(t) PARTITION BY k ORDER BY n, time => 'at', grace => INTERVAL 2 DAYS, output => '{output}')"
        df = spark.sql(text)
        assert df.schema["valid_to"].dataType == spark.table("t").schema["at"].dataType
        assert sorted((r.n, r.valid_to and str(r.valid_to)[:10]) for r in df.collect()) == expected


def test_the_current_version_of_days_never_expires(spark: SparkSession) -> None:
    days = "('a', '2024-01-01'), ('a', '2024-03-01'), ('a', '2024-06-01'), ('b', '1960-01-01'), ('c', '0001-01-01'), ('c', NULL), (NULL, '2024-06-01')"
    days = f"SELECT k, CAST(day AS DATE) AS day FROM VALUES {days} AS t(k, day)"
    rows = spark.sql(f"SELECT * FROM VERSIONS(TABLE({days}) PARTITION BY k ORDER BY day, retention => INTERVAL 30 DAYS)").collect()
    assert sorted((r.k, str(r.day), r.valid_to and str(r.valid_to)) for r in rows) == [
        ("a", "2024-03-01", "2024-06-01"),  # has just ended
        ("a", "2024-06-01", None),
        ("b", "1960-01-01", None),
        ("c", "0001-01-01", None),
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TABLE(t) PARTITION BY k", "VERSIONS, ORDER BY: is missing"),
        ("TABLE(t) PARTITION BY k ORDER BY t, grace => INTERVAL '-1' SECOND", "`grace`: expected an interval of zero or more"),
        ("TABLE(t) PARTITION BY k ORDER BY t, retention => INTERVAL 1 MONTH", "`retention`: expected an interval of days to seconds"),
        ("TABLE(t) PARTITION BY k ORDER BY t, deleted => 'off'", "`deleted`: expected a condition, got INT"),
        ("TABLE(t) PARTITION BY k ORDER BY t, deletd => 'gone'", "`deletd`: no such option. Did you mean `deleted`?"),
        (
            "TABLE(SELECT *, t AS valid_to FROM t) PARTITION BY k ORDER BY t",
            "the input already has a column `valid_to`, which this call adds",
        ),
        (
            "TABLE(SELECT *, 1 AS put_status FROM t) PARTITION BY k ORDER BY t, output => 'puts'",
            "the input already has a column `put_status`",
        ),
    ],
)
def test_a_wrong_call_is_refused_in_words(spark: SparkSession, call: str, message: str) -> None:
    view(spark, [], DDL)
    with pytest.raises(AnalysisException, match="VERSIONS") as caught:
        spark.sql(f"SELECT * FROM VERSIONS({call})")
    assert message in str(caught.value)


def test_a_stream_is_refused(spark: SparkSession) -> None:
    spark.readStream.format("rate").load().createOrReplaceTempView("rates")
    with pytest.raises(AnalysisException, match=r"VERSIONS: is not possible on a stream: when a version ends is not known"):
        spark.sql("SELECT * FROM VERSIONS(TABLE(rates) PARTITION BY value ORDER BY timestamp)")


def test_the_kernel_equals_the_slow_store_however_its_input_is_cut() -> None:
    import pyarrow as pa

    from streamtime.udfs.versions import Puts

    for seed in range(300):
        random_ = random.Random(seed)
        rows = [
            (k, random_.choice([None, random_.randint(-9, 9), random_.randint(0, 30)]))
            for k in "abc"
            for _ in range(random_.randint(0, 20))
        ]
        stores: dict[str, Store] = defaultdict(Store)
        expected = [None if t is None else stores[k].put(k, 1, t)[1] for k, t in rows]
        cuts = sorted(random_.choices(range(len(rows) + 1), k=3))
        pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        batches = ((pa.array([t for _, t in p], pa.timestamp("us")), pa.array([k for k, _ in p], pa.string())) for p in pieces)
        got = [v for b in Puts().run(batches) for v in b.cast(pa.int64()).to_pylist()]
        assert got == expected
