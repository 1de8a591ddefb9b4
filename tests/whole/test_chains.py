"""Several functions with state in one query, in batch and as a stream: what one lets go, the next one takes.

Micro-batches are small, so that the watermark moves in small steps: large ones hide rows that leave behind it.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from support.streams import Source, at

DDL = "k STRING, ts TIMESTAMP, id INT, off INT"
UPDATES = (
    "WINDOW_UPDATES(TABLE({}) PARTITION BY k ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, grace => INTERVAL 15 SECONDS, "
    "aggregates => 'count(*) AS n, sum(id) AS total, max(ts) AS newest'{})"
)
HELD = "SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM {}) PARTITION BY (k, window_start) ORDER BY (id, change_seq), time => 'change_time')"
SESSIONS = (
    "SESSION_UPDATES(TABLE({}) PARTITION BY k ORDER BY id, time => 'ts', gap => INTERVAL 3 SECONDS, grace => INTERVAL 15 SECONDS, "
    "aggregates => 'count(*) AS n, collect_list(id) AS ids'{})"
)
FIRST = "(SELECT * FROM DEDUPLICATE(TABLE({}) PARTITION BY id ORDER BY id, time => 'ts', within => INTERVAL 1 DAY))"


def events(seed: int, count: int = 90) -> list[tuple[str, datetime.datetime, int, int]]:
    """Time rises by a second a row, with up to ten seconds of disorder, less than the grace; then rows that close what is open."""
    random_ = random.Random(seed)
    rows = [(random_.choice("abc"), at(100 + i - random_.randint(0, 10)), i, 0) for i in range(count)]
    return [*rows, *((k, at(1000), count + i, 0) for i, k in enumerate("abc"))]


def streamed(
    source: Source, rows: list[tuple[str, datetime.datetime, int, int]], text: str, seed: int, steps: tuple[int, ...]
) -> list[Row]:
    """The rows in small micro-batches, the query stopped and restarted once."""
    random_, at_ = random.Random(seed), 0
    while at_ < len(rows):
        step = random_.choice(steps)
        source.add(rows[at_ : at_ + step])
        if at_ < len(rows) // 2 <= at_ + step:
            source.run(text)
        at_ += step
    return source.run(text)


def view(spark: SparkSession, rows: list[tuple[str, datetime.datetime, int, int]]) -> None:
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")


@pytest.mark.parametrize(
    "final",
    [
        pytest.param(HELD.format(UPDATES.format("{}", "")), marks=pytest.mark.long("the same in one call")),
        UPDATES.format("{}", ", emit => 'final'"),
    ],
    ids=["two calls", "one call"],
)
def test_final_rows_of_windows_are_those_of_group_by_in_batch_and_as_a_stream(spark: SparkSession, source: Source, final: str) -> None:
    rows = events(1)
    view(spark, rows)
    text = f"SELECT k, window_start, n, total, newest, emit_time FROM {final}"
    oracle = spark.sql(
        "SELECT k, window(ts, '10 seconds').start AS window_start, count(*) AS n, sum(id) AS total, max(ts) AS newest FROM batch "
        "WHERE ts < '2024-01-01 00:16:40' GROUP BY k, window(ts, '10 seconds')"
    ).collect()
    in_batch = spark.sql(text.format("batch")).collect()
    assert Counter(r[:5] for r in in_batch) == Counter(tuple(r) for r in oracle)
    got = streamed(source, rows, text.format("events"), 1, (2, 5, 9, 20))
    assert Counter(r[:5] for r in got) == Counter(tuple(r) for r in oracle)
    assert all(r.emit_time >= r.window_start + datetime.timedelta(seconds=25) for r in [*got, *in_batch])
    late = [m for p in source.progress for m in p.observedMetrics.values() if "late_drop_total" in m.asDict()]
    assert late
    assert sum(m.late_drop_total for m in late) == 0
    assert sum(m.input_rows for m in late) == len(rows)


@pytest.mark.short("batch and stream, row for row")
def test_final_sessions_are_equal_however_the_stream_is_cut(spark: SparkSession, source: Source) -> None:
    rows = events(2)
    view(spark, rows)
    text = "SELECT k, session_start, session_end, n, array_sort(ids) AS ids FROM {}"
    expected = Counter(map(repr, spark.sql(text.format(SESSIONS.format("batch", ", emit => 'final'"))).collect()))
    assert sum(expected.values()) > 10
    assert (
        Counter(map(repr, streamed(source, rows, text.format(SESSIONS.format("events", ", emit => 'final'")), 2, (2, 5, 9, 20))))
        == expected
    )


@pytest.mark.long("tests/whole/test_chains.py::test_final_sessions_are_equal_however_the_stream_is_cut")
def test_three_functions_and_a_window_aggregate_after_them(spark: SparkSession, source: Source) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # the fixture puts it back; four operators with state are enough here
    rows = events(3)
    doubled = [r for row in rows for r in (row, row)]
    view(spark, doubled)
    chain = HELD.format(UPDATES.format(FIRST, ""))
    text = f"SELECT window(emit_time, '30 seconds').start AS at, sum(n) AS n, count(*) AS windows FROM {chain} GROUP BY window(emit_time, '30 seconds')"
    in_batch = spark.sql(text.format("batch")).collect()
    assert sum(r.n for r in in_batch) == 90
    more = [("z", at(2000), 1000, 0), ("z", at(3000), 1001, 0)]  # the aggregate waits for its watermark, too
    got = streamed(source, doubled, text.format("events"), 3, (9, 20))
    for row in more:
        source.add([row])
        got = source.run(text.format("events"))
    assert sum(r.n for r in got if r.at < at(1900)) == 90
    assert sum(r.windows for r in got if r.at < at(1900)) == sum(r.windows for r in in_batch)


def test_late_rows_of_a_stream_are_reported_and_counted(source: Source) -> None:
    calm = [("a", at(100 + i), i, 0) for i in range(5)]
    source.add(calm)
    source.add([("a", at(200), 5, 0)])
    source.add([("a", at(101), 6, 0), ("a", None, 7, 0), (None, at(200), 8, 0), ("a", at(196), 9, 0)])
    got = source.run(f"SELECT id, reason, lateness, window_start FROM {UPDATES.format('events', ', output => ' + repr('dropped'))}")
    assert sorted((r.id, r.reason, r.lateness) for r in got) == [(6, "late", 99.0), (7, "null_time", None), (8, "null_key", 0.0)]
    counted = Counter[str]()
    for p in source.progress:
        for observed in p.observedMetrics.values():
            counted.update({n: v for n, v in observed.asDict().items() if n.endswith("_drop_total")})
    assert counted == Counter(late_drop_total=1, null_time_drop_total=1, null_key_drop_total=1)


@pytest.mark.short("a stream into a table")
def test_a_stream_can_be_written_to_delta_and_read_as_a_table(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    for row in [("a", at(0), 0, 0), ("a", at(1), 1, 0), ("b", at(100), 2, 0)]:
        source.add([row])
    source.stream().createOrReplaceTempView("events")
    query = (
        spark.sql(f"SELECT * FROM {UPDATES.format('events', ', emit => ' + repr('final'))}")
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "delta_checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "table"))
    )
    query.awaitTermination()
    rows = spark.read.format("delta").load(str(tmp_path / "table")).collect()
    assert [(r.k, r.n, r.total, r.emit_reason) for r in rows] == [("a", 2, 1, "close")]
