"""SUPPRESS over streams, end to end: against the slow definition, cut and restarted at random; idle streams; what can follow; refusals."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from support.reference import BEFORE, in_micro_batches
from support.reference.suppress import Suppress
from support.streams import SECOND, Source, at, ids, micros, on_the_wall, random_batches, replay

from streamtime.sql.stream import buckets

LIMIT = "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(events) PARTITION BY k ORDER BY id, time => 'ts', wait => INTERVAL 5 SECONDS{})"
CLOSE = (
    "SUPPRESS_UNTIL_CLOSE(TABLE(SELECT *, date_trunc('MINUTE', ts) AS minute FROM events) PARTITION BY (k, minute) ORDER BY id, time => 'ts', "
    "window_end => 'minute + INTERVAL 10 SECONDS', grace => INTERVAL 3 SECONDS, deleted => 'off = 1'{})"
)
END = CLOSE.replace("minute + INTERVAL 10 SECONDS', grace => INTERVAL 3 SECONDS", "minute + INTERVAL 13 SECONDS', until => 'end'")
MINUTE = 60 * SECOND
FINAL = (
    "WINDOW_UPDATES(TABLE(events) PARTITION BY k ORDER BY ts, size => INTERVAL 5 SECONDS, aggregates => 'count(*) AS c', emit => 'final')"
)


def fates_of(batches: list[list[dict[str, Any]]], closes: bool, delay: int, corrected: bool = False) -> tuple[list[Any], int]:
    """What becomes of the rows; and how many are still held once the last micro-batch, which has no rows, is over."""
    clocked = {r["id"]: clock for r, clock in in_micro_batches(batches, ["id"], delay, 1000)}
    largest = max(r["t"] for rows in batches for r in rows if r["t"] is not None)
    meant = [
        [r | {"deleted": r["off"] == 1, "close": None if r["t"] is None else r["t"] // MINUTE * MINUTE + 13 * SECOND,
              "minute": None if r["t"] is None else r["t"] // MINUTE} for r in rows]
        for rows in batches
    ]  # fmt: skip
    wait, keys = (None, ["k", "minute"]) if closes else (5 * SECOND, ["k"])
    slow = Suppress(closes=closes, corrected=corrected, wait=wait, keys=keys, watermarked=True)
    fates = slow.stream([*((rows, clocked[rows[0]["id"]]) for rows in meant), ([], (largest - delay) // 1000 * 1000)])
    return fates, len(slow.buffer)


CALLS = [LIMIT, CLOSE, END, END.replace("deleted =>", "max_records => 1000, when_full => 'fail', deleted =>")]


@pytest.mark.short("a stream that is cut and restarted at random")
def test_a_stream_cut_and_restarted_at_random_is_suppressed_as_the_slow_definition_says(source: Source, thorough: bool) -> None:
    """All calls in one query, in short the first two."""
    calls = CALLS if thorough else CALLS[:2]
    random_ = random.Random("calls")
    batches, delay = random_batches(random_, 4), 2 * SECOND
    told = [call.format(f", watermark => INTERVAL 2 SECONDS, output => 'all', name => 'm{i}'") for i, call in enumerate(calls)]
    columns = "id, reason, stream_time, emit_time, emit_reason"
    found = replay(source, batches, " UNION ALL ".join(f"SELECT {i} AS call, {columns} FROM {t}" for i, t in enumerate(told)), random_)

    def known(clock: int | None) -> int | None:
        return None if clock == BEFORE else clock

    for i, call in enumerate(calls):
        fates, held = fates_of(batches, call != LIMIT, delay, "until" in call)
        expected = Counter(
            (f.row["id"], None if f.outcome == "released" else f.outcome, known(f.stream_time), f.emit_time, f.emit_reason)
            for f in fates
            if f.outcome != "held"
        )
        rows = [r for r in found if r.call == i]
        assert Counter((r.id, r.reason, micros(r.stream_time), micros(r.emit_time), r.emit_reason) for r in rows) == expected, call
        observed = [p.observedMetrics[f"m{i}"] for p in source.progress]
        assert sum(o.suppression_emit_total for o in observed) == sum(f.outcome == "released" for f in fates)
        assert sum(o.suppression_buffer_entered_total - o.suppression_buffer_left_total for o in observed) == held
        for reason in ("null_time", "replaced", "tombstone"):
            assert sum(getattr(o, f"{reason}_drop_total") for o in observed) == sum(f.outcome == reason for f in fates)


@pytest.mark.long(
    "tests/sql/stream/test_suppress_stream.py::test_a_stream_cut_and_restarted_at_random_is_suppressed_as_the_slow_definition_says"
)
def test_rows_and_dropped_rows_are_what_all_says(source: Source) -> None:
    random_ = random.Random(5)
    for rows in random_batches(random_, 4):
        source.add([(r["k"], None if r["t"] is None else at(r["t"] / SECOND), r["id"], r["off"]) for r in rows])
    source.stream().createOrReplaceTempView("events")
    found: dict[str, list[Any]] = {"rows": [], "dropped": [], "all": []}
    for output, rows in found.items():
        option = f", output => '{output}'"

        def write(df: DataFrame, _: int, rows: list[Any] = rows) -> None:
            rows.extend(df.collect())

        writer = source.spark.sql(f"SELECT * FROM {LIMIT.format(option)}").writeStream.foreachBatch(write)
        writer.option("checkpointLocation", str(source.folder / output)).trigger(availableNow=True).start().awaitTermination()
    assert Counter(r.id for r in found["all"]) == Counter(r.id for r in found["rows"]) + Counter(r.id for r in found["dropped"])
    assert {(r.id, r.emit_time) for r in found["rows"]} == {(r.id, r.emit_time) for r in found["all"] if r.reason is None}
    assert {r.reason for r in found["dropped"]} == {"replaced", "null_time"}


def test_final_results_of_batch_and_stream_are_equal_however_the_input_is_cut(spark: SparkSession, source: Source) -> None:
    random_ = random.Random(11)
    rows = [r for b in random_batches(random_, 1) for r in b if r["t"] is not None]  # no later than the grace
    closing = {"k": "z", "t": 2000 * SECOND, "id": 99, "off": None}
    text = (
        "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT *, window(ts, '10 seconds').end AS ends FROM events) PARTITION BY (k, ends) ORDER BY id, "
        "time => 'ts', window_end => 'ends', grace => INTERVAL 3 SECONDS)"
    )
    replay(source, [rows[:9], rows[9:20], rows[20:50]], text, random_)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # what is held was sent in another session's zone
        found = replay(source, [rows[50:], [closing]], text, random_)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    spark.read.schema(source.ddl).parquet(str(source.folder / "in")).createOrReplaceTempView("events")
    batch = spark.sql(text).collect()
    assert Counter((r.id, r.ends) for r in found) == Counter((r.id, r.ends) for r in batch)
    assert len(found) == len({(r.k, r.ends) for r in found}) > 20


@pytest.mark.long("tests/sql/stream/test_streaming.py::test_an_aggregate_by_window_can_follow")
def test_a_window_aggregate_can_follow_though_rows_lie_behind_the_watermark(source: Source) -> None:
    for second in range(23):  # in small steps, so that released rows are older than the watermark
        source.add([("a", at(second), second, 0)])
    text = f"SELECT window.start, count(*) AS n, max(ts) AS newest FROM {LIMIT.format('')} GROUP BY window(emit_time, '10 seconds')"
    got = sorted((r.start, r.n, r.newest) for r in source.run(text))
    # a micro-batch runs under the second before its own: the places of 0, 6 and 12 are released at 5, 11 and 17
    assert [(start, n) for start, n, _ in got] == [(at(0), 1), (at(10), 2)]
    assert all(newest < start + datetime.timedelta(seconds=10) for start, _, newest in got)


@pytest.mark.parametrize("call", [LIMIT.format(""), FINAL], ids=["SUPPRESS_UNTIL_TIME_LIMIT", "WINDOW_UPDATES"])
def test_an_aggregate_by_the_rows_own_times_is_refused(spark: SparkSession, source: Source, call: str) -> None:
    source.stream().withWatermark("ts", "2 seconds").createOrReplaceTempView("marked")
    inner = call.replace("events", "marked")
    for time, allowed in (("ts", False), ("emit_time", True)):
        df = spark.sql(f"SELECT window.start, count(*) AS n FROM {inner} GROUP BY window({time}, '10 seconds')")
        with nullcontext() if allowed else pytest.raises(AnalysisException, match=r"(?s)watermark"):
            df.writeStream.format("noop").option("checkpointLocation", str(source.folder / time)).start().stop()


@pytest.mark.parametrize("call", ["LIMIT", "CLOSE"])
def test_an_idle_stream_releases_its_last_row_by_the_clock_on_the_wall(source: Source, call: str) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    source.add([("a", now, 1, 0)])
    text = (
        "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(events) PARTITION BY k ORDER BY ts, wait => INTERVAL 6 SECONDS, clock => 'wall')"
        if call == "LIMIT"
        else "SUPPRESS_UNTIL_CLOSE(TABLE(events) PARTITION BY k ORDER BY ts, window_end => 'ts + INTERVAL 6 SECONDS', clock => 'wall')"
    )
    (row,) = on_the_wall(source, f"SELECT * FROM {text}", 1)
    assert row.id == 1
    assert row.emit_time >= now + datetime.timedelta(seconds=6)
    assert row.emit_reason == ("time" if call == "LIMIT" else "close")


def test_a_clock_on_the_wall_that_is_set_back_mutes_no_row_of_a_stream(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = source.folder / "fast"  # while this is there, the clock is an hour fast

    def stepping(timer_values: Any) -> int:
        return (int(timer_values.getCurrentProcessingTimeInMs()) + 3_600_000 * fast.exists()) * 1000

    monkeypatch.setattr(buckets, "time_of_day", stepping)
    text = "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(events) PARTITION BY k ORDER BY ts, wait => INTERVAL 10 SECONDS, clock => 'wall')"
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    fast.touch()
    source.add([("a", now + datetime.timedelta(hours=2), 1, 0), ("b", now, 2, 0)])
    assert ids(on_the_wall(source, text, 1)) == [2]
    fast.unlink()
    source.add([("b", now + datetime.timedelta(minutes=30), 3, 0), ("b", now + datetime.timedelta(hours=3), 4, 0)])
    found = on_the_wall(source, text, 1)
    assert ids(found) == [3]
    assert all(r.emit_time >= now + datetime.timedelta(hours=1) for r in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (", at_end => 'emit'", "`at_end`: 'emit' is not possible on a stream: it does not end"),
        (", clock_by => ARRAY('off')", "`clock_by`: is not possible on a stream"),
        (", output => 'explain'", "`output`: 'explain' is not possible on a stream"),
        (", output => 'metrics'", "`output`: 'metrics' is not possible on a stream"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(source: Source, options: str, message: str) -> None:
    source.add([("a", at(0), 1, 0)])
    source.stream().createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match=message.replace("(", r"\(")):
        source.spark.sql(f"SELECT * FROM {LIMIT.format(options)}")


def test_a_bounded_stream_emits_its_oldest_places_early_across_keys_and_restarts(source: Source) -> None:
    text = LIMIT.replace("5 SECONDS", "1 DAY").format(", max_records => 2, when_full => 'emit_early'")
    for number, (key, offset) in enumerate([("a", 0), ("b", 1), ("a", 2), ("c", 3), ("d", 4)]):
        source.add([(key, at(offset), number, 0)])
        found = source.run(f"SELECT * FROM {text}")
    assert [(r.id, r.emit_reason) for r in sorted(found, key=lambda r: r.id)] == [(1, "full"), (2, "full")]
    source.add([("e", at(5), 5, 0), ("f", at(6), 6, 0), ("g", at(7), 7, 0)])
    failing = text.replace("'emit_early'", "'fail'")
    with pytest.raises(StreamingQueryException, match=r"with other options: .*when_full was emit_early and is fail"):
        source.run(f"SELECT * FROM {failing}")


def test_an_option_that_says_until_when_is_kept_with_the_checkpoint(source: Source) -> None:
    source.add([("a", at(0), 1, 0)])
    text = CLOSE.replace(", grace => INTERVAL 3 SECONDS", "").format("")
    source.run(f"SELECT * FROM {text}")
    source.add([("a", at(1), 2, 0)])
    with pytest.raises(StreamingQueryException, match=r"with other options: until was not given and is end"):
        source.run(f"SELECT * FROM {text.replace('deleted =>', '''until => 'end', deleted =>''')}")


def test_the_clock_on_the_wall_needs_timestamps(source: Source, tmp_path: Path) -> None:
    source.add([("a", at(0), 1, 0)])
    source.stream().selectExpr("k", "CAST(ts AS DATE) AS day").createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match="`clock`: 'wall' needs a TIMESTAMP as event time, got DATE"):
        source.spark.sql(
            "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(events) PARTITION BY k ORDER BY day, wait => INTERVAL 1 DAY, clock => 'wall')"
        )
