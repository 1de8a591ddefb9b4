"""DISTINCT_IN_WINDOW: the example outputs of KIP-655, and random inputs against the slow definition."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.reference import deduplicate as reference_deduplicate
from support.times import micros, moment, view

import streamtime

KIP_TIMES = [4, 5, 6, 23, 22, 24, 34, 33, 32, 7, 22, 35]


def kip(spark: SparkSession) -> None:
    rows = [{"key": "key", "s": s, "ts": moment(s * 1000), "n": i} for i, s in enumerate(KIP_TIMES)]
    view(spark, rows, "key STRING, s INT, ts TIMESTAMP, n INT")


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("size => INTERVAL 10 SECONDS", [(0, 10, 4), (20, 30, 23), (30, 40, 34)]),
        ("gap => INTERVAL 10 SECONDS", [(4, 4, 4), (23, 23, 23)]),
        ("gap => INTERVAL 9 SECONDS", [(4, 4, 4), (23, 23, 23), (34, 34, 34)]),
    ],
)
def test_the_example_outputs_of_the_kip(spark: SparkSession, window: str, expected: list[tuple[int, int, int]]) -> None:
    kip(spark)
    text = f"SELECT * FROM DISTINCT_IN_WINDOW(TABLE(t) PARTITION BY key ORDER BY n, time => 'ts', {window}) ORDER BY n"
    got = [(micros(r.window_start), micros(r.window_end), r.s) for r in spark.sql(text).collect()]
    assert got == [(a * 1_000_000, b * 1_000_000, s) for a, b, s in expected]


@pytest.mark.parametrize("seed", range(12))
def test_random_input_equals_the_slow_definition(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    rows = [
        {
            "k": random_.choice([None, *"aaabbbccc"]),
            "t": random_.choice([None, *([random_.randint(-20, 60)] * 12)]),
            "off": i,
            "p": random_.randint(0, 1),
        }
        for i in range(random_.choice([0, 1, 40]))
    ]
    options: dict[str, Any] = {
        "order": random_.choice([["t"], ["off"], ["off"]]),
        "clock_by": random_.choice([[], [], ["p"]]),
        "grace": random_.choice([0, 0, 7, 100]),
    }
    if random_.random() < 0.5:
        options["gap"] = random_.choice([0, 3, 8])
        judged = reference_deduplicate.distinct_in_sessions(rows, **options)
        window = f"gap => INTERVAL '{options['gap'] / 1e6:.6f}' SECOND"
    else:
        options["size"] = random_.choice([1, 10, 13])
        slide = random_.choice([None, 1, 4, 10])
        options["slide"] = slide if slide and slide <= options["size"] else None
        judged = reference_deduplicate.distinct_in_windows(rows, **options)
        window = f"size => INTERVAL '{options['size'] / 1e6:.6f}' SECOND"
        window += f", slide => INTERVAL '{options['slide'] / 1e6:.6f}' SECOND" if options["slide"] else ""
    in_order = options["order"] == ["t"]
    df = view(
        spark,
        [r | {"t": moment(r["t"], 1)} for r in random_.sample(rows, len(rows))],
        "k STRING, t TIMESTAMP, off INT, p INT",
    )
    df.repartition(random_.randint(1, 3)).createOrReplaceTempView("t")
    clock_by = ", clock_by => ARRAY('p')" if options["clock_by"] else ""
    text = (
        f"SELECT * FROM DISTINCT_IN_WINDOW(TABLE(t) PARTITION BY k ORDER BY {options['order'][0]}, time => 't', {window}, "
        f"grace => INTERVAL '{options['grace'] / 1e6:.6f}' SECOND{clock_by}, output => 'OUT')"
    )
    got = Counter(
        (r.k, r.off, r.reason, None if r.window_start is None else (micros(r.window_start), micros(r.window_end)))
        for r in spark.sql(text.replace("OUT", "all")).collect()
    )
    assert got == Counter((j.row["k"], j.row["off"], j.reason, j.window) for j in judged), (text, in_order)
    rows_out = Counter((r.k, r.off, micros(r.window_start)) for r in spark.sql(text.replace("OUT", "rows")).collect())
    assert rows_out == Counter((j.row["k"], j.row["off"], j.window and j.window[0]) for j in judged if j.reason is None)
    reported = Counter((r.off, r.reason) for r in spark.sql(text.replace("OUT", "dropped")).collect())
    assert reported == Counter((j.row["off"], j.reason) for j in judged if j.reason is not None)


def test_windows_are_aligned_to_the_epoch_also_before_1970_and_in_every_time_zone(spark: SparkSession) -> None:
    sql = "SELECT window_start FROM DISTINCT_IN_WINDOW(TABLE(SELECT 'a' AS k, {} AS ts) PARTITION BY k ORDER BY ts, size => INTERVAL 1 DAY)"
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "Europe/Berlin"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            at = spark.sql(sql.format("TIMESTAMP '1969-12-31 22:30:00 UTC'")).selectExpr("unix_seconds(window_start) AS s").first().s
            assert at == -86_400
            ntz = spark.sql(sql.format("TIMESTAMP_NTZ '2024-10-27 02:30:00'")).first().window_start
            assert ntz == datetime.datetime(2024, 10, 27)
            date = spark.sql(sql.format("DATE '2024-10-27'")).first().window_start
            assert date == datetime.datetime(2024, 10, 27)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_window_is_closed_at_its_end_plus_grace(spark: SparkSession) -> None:
    rows = [{"k": "a", "t": moment(t), "n": i} for i, t in enumerate([0, 12_000, 9_000])]  # 9 s belongs to [0, 10) s
    df = view(spark, rows, "k STRING, t TIMESTAMP, n INT")
    for grace, reason in ((2_000, "late"), (2_001, "duplicate")):  # stream time 12 s: closed at 10 s + grace <= 12 s
        got = streamtime.distinct_in_window(
            df, keys=["k"], order_by=["n"], time="t", size=datetime.timedelta(seconds=10),
            grace=datetime.timedelta(milliseconds=grace), output="dropped",
        )  # fmt: skip
        assert [r.reason for r in got.collect()] == [reason]
