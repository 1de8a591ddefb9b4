"""`streamtime.watch`: what Spark tells, as rows and lines; then queries that run, fail and start again, and tables that cannot be written."""

from __future__ import annotations

import datetime
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from support.streams import Source, at

import streamtime
from streamtime import CallError
from streamtime.monitoring import events, watching

TOLD = {
    "id": "q", "runId": "r", "name": None, "timestamp": "2024-05-01T10:00:00.123Z", "batchId": 7, "numInputRows": 5, "sink": {"numOutputRows": -1},
    "durationMs": {"triggerExecution": 20}, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "stateOperators": [], "sources": [{"metrics": None}],
    "observedMetrics": {
        "b `ü`": {"call": "F(ORDER BY ts)", "input_rows": 5, "late_drop_total": 2, "null_time_drop_total": 0, "record_lateness_avg": None, "record_lateness_max": 3},
        "a": {"call": "S(ORDER BY n)", "input_rows": 3, "replaced_drop_total": 1, "suppression_buffer_entered_total": 2, "suppression_buffer_left_total": 3, "suppression_emit_total": 3},
        "theirs": {"word": "x", "number": 1, "nothing": None, "row": {"a": 1}},
        "j": {"call": "J(ORDER BY ts)", "input_rows": 1, "left_late_total": 4, "right_too_old_total": 0, "released_total": 9},
    },
}  # fmt: skip


def test_a_micro_batch_is_a_row_with_an_entry_for_each_call() -> None:
    event = events.progressed(TOLD)
    assert event.keys() == {*events.NAMES} - {"error"}
    assert (event["at"], event["watermark"], event["output_rows"]) == (
        datetime.datetime(2024, 5, 1, 10, 0, 0, 123000, datetime.UTC),
        None,
        None,
    )
    joins, suppressed, windows, theirs = sorted(
        event["calls"], key=lambda call: (call["call"] is None, call["call"] != "J(ORDER BY ts)", call["label"])
    )
    assert (windows["call"], windows["label"], windows["rows"], windows["dropped"]) == (
        "F(ORDER BY ts)",
        "b `ü`",
        5,
        {"late": 2, "null_time": 0},
    )
    assert (windows["held"], windows["lateness_avg"], windows["lateness_max"], windows["counts"]) == (None, None, 3.0, {})
    assert (suppressed["held"], suppressed["dropped"], suppressed["counts"]) == (-1, {"replaced": 1}, {"suppression_emit_total": 3.0})
    assert (theirs["call"], theirs["rows"], theirs["dropped"], theirs["counts"]) == (None, None, {}, {"number": 1.0})
    assert (joins["dropped"], joins["counts"]) == ({"right_too_old": 0}, {"left_late_total": 4.0, "released_total": 9.0})


def test_moments_that_python_does_not_know_are_null() -> None:
    assert [events.moment(text) for text in (None, "", "+10000-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z")] == [None] * 4
    assert str(events.moment("0001-01-01T00:00:00.000Z")) == "0001-01-01 00:00:00+00:00"


def test_a_line_stands_out_where_rows_were_lost_or_a_query_failed() -> None:
    level, line = events.line(events.progressed(TOLD))
    assert level == logging.WARNING
    assert line == "q: micro-batch 7; 5 rows in 20 ms; S(ORDER BY n) dropped 1 replaced; F(ORDER BY ts) dropped 2 late"
    level, line = events.line(events.progressed(TOLD | {"name": "n", "observedMetrics": {"a": TOLD["observedMetrics"]["a"]}}))
    assert (level, line) == (logging.INFO, "n: micro-batch 7; 5 rows in 20 ms; S(ORDER BY n) dropped 1 replaced")
    for count, loses in (("left_late_total", False), ("right_too_old_total", True)):  # who came late was answered; who was too old, ignored
        joined = TOLD | {"observedMetrics": {"j": {"call": "J(ORDER BY ts)", "input_rows": 5, count: 4}}}
        words = "; J(ORDER BY ts) dropped 4 right_too_old" if loses else ""
        assert events.line(events.progressed(joined)) == (
            logging.WARNING if loses else logging.INFO,
            f"q: micro-batch 7; 5 rows in 20 ms{words}",
        )
    timed = events.progressed(TOLD | {"observedMetrics": {}, "eventTime": {"watermark": "2024-05-01T10:11:00.500Z"}})
    assert events.line(timed) == (logging.INFO, "q: micro-batch 7; 5 rows in 20 ms; watermark 2024-05-01 10:11:00.500000 UTC")
    failed = events.ended("q", "r", "n", datetime.datetime.now(datetime.UTC), "a.b.C: [X] wrong\n\tat a.b.C\n")
    assert events.line(failed) == (logging.ERROR, "n failed: a.b.C: [X] wrong")
    assert events.line(events.ended("q", "r", None, datetime.datetime.now(datetime.UTC), None)) == (logging.INFO, "q ended")


class Broken:
    """A session that can write nothing, and whose listeners hear what a test says."""

    def __init__(self) -> None:
        self.streams = SimpleNamespace(active=[], addListener=lambda _: None, removeListener=lambda _: None)
        self.createDataFrame = None

    def table(self, _: str) -> Any:
        raise RuntimeError("no such table")


def test_a_table_that_cannot_be_written_is_said_once_and_holds_nothing_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watching, "MOST", 3)
    watch = watching.Watch(Broken(), "t", log=False, every=60)  # type: ignore[arg-type]
    for _ in range(5):
        watch.heard(lambda: events.progressed(TOLD))
        watch._write()
    watch.heard(lambda: events.progressed({}))  # another Spark tells something else
    assert watch.lost == 3
    watch._names.clear()
    watch.close()
    watch.close()
    assert [record.getMessage() for record in caplog.records] == [
        "watch: t cannot be written, which is tried again: no such table",
        "watch: an event could not be read: 'timestamp'",
        "watch: 6 events are not in t: close the watch before Spark stops",
    ]


class HalfHeard(Broken):
    """A table of which the end of a commit is not always heard. Delta leaves out a commit whose number it has."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: dict[str, list[Any]] = {}
        self.unheard = 1
        self.createDataFrame = self.made  # type: ignore[assignment]

    def table(self, _: str) -> Any:
        return SimpleNamespace(schema=None)

    def made(self, rows: list[Any], _: object) -> Any:
        def save(_: str) -> None:
            self.commits.setdefault(writer.number, rows)
            if self.unheard:
                self.unheard -= 1
                raise TimeoutError("no answer")

        def options(txnAppId: str, txnVersion: str) -> Any:
            writer.number = txnVersion
            return writer

        writer = SimpleNamespace(saveAsTable=save, options=options)
        writer.format = writer.mode = lambda _: writer
        return SimpleNamespace(write=writer)


def test_events_that_come_before_a_commit_is_tried_again_are_not_lost() -> None:
    spark = HalfHeard()
    watch = watching.Watch(spark, "t", log=False, every=60)  # type: ignore[arg-type]
    for number in range(3):
        watch.heard(lambda number=number: events.progressed(TOLD | {"batchId": number}))  # type: ignore[misc]
        if number != 1:
            watch._write()
    place = events.NAMES.index("batch")
    assert [[row[place] for row in rows] for rows in spark.commits.values()] == [[0], [1, 2]]
    watch._names.clear()
    watch.close()


LATE = """
SELECT * FROM WINDOW_UPDATES(
  TABLE(SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM events) PARTITION BY (`k`, id) ORDER BY ts, within => INTERVAL 1 HOUR, watermark => INTERVAL 1 SECOND))
  PARTITION BY k ORDER BY ts, size => INTERVAL 10 SECONDS, aggregates => 'count(*) AS n', emit => 'final', name => 'mine `ü`')
"""


def test_queries_are_watched_while_they_run_fail_and_start_again(
    spark: SparkSession, source: Source, schema: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, checkpoint = f"{schema}.streams", str(tmp_path / "checkpoint")
    caplog.set_level(logging.INFO, "streamtime.streams")

    def run(text: str, name: str, place: str) -> None:
        writer = spark.sql(text).writeStream.format("noop").queryName(name).option("checkpointLocation", place)
        writer.trigger(availableNow=True).start().awaitTermination()

    source.add([("a", at(0), 1, 1), ("a", at(1), 1, 2), (None, None, 3, 3)])
    source.add([("b", at(100), 4, 4)])
    source.stream().createOrReplaceTempView("events")
    with streamtime.watch(spark, table, every=600) as watch:
        run(LATE, "wind `ö`", checkpoint)
        watch.flush()
        assert spark.table(table).where("event = 'ended'").count() == 1
        spark.sql(f"ALTER TABLE {table} RENAME TO {schema}.away")
        source.add([("a", at(2), 5, 5), ("a", at(200), 6, 6)])
        run(LATE, "wind `ö`", checkpoint)
        watch.flush()
        with pytest.raises(StreamingQueryException):
            run("SELECT assert_true(id < 0, 'boom') FROM events", "fails", str(tmp_path / "other"))
        spark.sql(f"ALTER TABLE {schema}.away RENAME TO {table}")
    rows = spark.table(table).orderBy("at", "batch").collect()
    runs = [[r for r in rows if r.run_id == run] for run in dict.fromkeys(r.run_id for r in rows)]
    first, second, failed = ([r.event for r in some] for some in runs)
    assert (first[0], first[-1], {*first[1:-1]}) == ("started", "ended", {"progress"})
    assert (second[0], second[-1], {*second[1:-1]}) == ("started", "ended", {"progress"})
    assert (failed[0], failed[-1]) == ("started", "failed")
    assert runs[0][0].query_id == runs[1][0].query_id != runs[2][0].query_id
    assert {r.query for r in (*runs[0], *runs[1])} == {"wind `ö`"}
    assert "boom" in runs[2][-1].error
    calls = [call for r in (*runs[0], *runs[1]) for call in r.calls or ()]
    assert {call.call for call in calls} == {"DEDUPLICATE(PARTITION BY (k, id) ORDER BY ts)", "WINDOW_UPDATES(PARTITION BY k ORDER BY ts)"}
    assert {call.label for call in calls if call.call.startswith("W")} == {"mine `ü`"}

    def dropped(function: str, reason: str) -> int:
        return sum(call.dropped[reason] for call in calls if call.call.startswith(function))

    assert (dropped("D", "duplicate"), dropped("W", "late"), dropped("D", "null_time")) == (1, 1, 1)
    assert sum(call.rows for call in calls if call.call.startswith("D")) == 6 == sum(r.input_rows for r in (*runs[0], *runs[1]) if r.calls)
    batches = [r for r in (*runs[0], *runs[1]) if r.event == "progress"]
    assert max(r.watermark for r in batches if r.watermark) == at(199)
    assert all(len(r.state) == 2 and r.milliseconds["triggerExecution"] > 0 for r in batches)
    assert [record.levelname for record in caplog.records if "cannot be written" in record.getMessage()] == ["ERROR"]
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR" and "fails failed" in r.getMessage()] != []
    assert any(
        "WINDOW_UPDATES(PARTITION BY k ORDER BY ts) dropped 1 late" in r.getMessage() for r in caplog.records if r.levelname == "WARNING"
    )


LEFT_OPEN = """
import threading
from types import SimpleNamespace
import streamtime
done = threading.Event()
listens = lambda listener: threading.Thread(target=done.wait).start()  # as PySpark's does over Spark Connect: no daemon
streams = SimpleNamespace(active=[], addListener=listens, removeListener=lambda listener: (print("closed"), done.set()))
streamtime.watch(SimpleNamespace(streams=streams))
"""


def test_a_watch_that_nobody_closed_lets_python_end() -> None:
    ended = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=True, timeout=300)
    assert ended.stdout == "closed\n"


def test_a_table_that_is_something_else_is_left_alone(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.mine (id INT) USING delta")
    with pytest.raises(CallError, match=r"watch, `table`: .*`mine` is no table of metrics: it has `id`\. Name one that is not there yet"):
        streamtime.watch(spark, f"{schema}.mine")
    local = spark.newSession()
    local.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    streamtime.watch(local, f"{schema}.events", log=False).close()
    assert {f.name for f in spark.table(f"{schema}.events").schema if f.dataType.simpleString() == "timestamp"} == {"at", "watermark"}
    with pytest.raises(CallError, match=r"watch, `every`: expected seconds, more than none, got 0"):
        streamtime.watch(spark, every=0)
