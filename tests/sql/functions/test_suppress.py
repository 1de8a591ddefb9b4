"""SUPPRESS_UNTIL_CLOSE and SUPPRESS_UNTIL_TIME_LIMIT end to end: Kafka's cases and KIP-328's tables, and random changelogs against the slow
definition.
"""

from __future__ import annotations

import datetime
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from support import TESTS
from support.inputs.suppress_calls import DDL, interval, options_of, some_rows, sql_of
from support.reference.suppress import Fate, Full, Suppress
from support.times import micros, moment, view

import streamtime

FOLDER = TESTS / "cases"
WINDOWED = "offset INT, seq INT, key STRING, value STRING, ts TIMESTAMP, window_start TIMESTAMP, window_end TIMESTAMP"
UNLIMITED = 9223372036854775807


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def changelog(events: list[dict[str, Any]], params: dict[str, Any]) -> list[dict[str, Any]]:
    """The changes of a windowed count or concatenation: one per window touched (W1), or those of sessions (W2, W3, W5)."""
    found: list[dict[str, Any]] = []
    clock = -(10**18)
    windows: dict[Any, tuple[Any, int]] = {}
    sessions: dict[Any, list[tuple[int, int, int]]] = {}
    grace = params["grace_ms"]

    def change(offset: int, key: str, start: int, end: int, value: Any, ts: int) -> None:
        found.append({"offset": offset, "seq": len(found), "key": key, "window_start": start, "window_end": end, "value": value, "ts": ts})

    for offset, event in enumerate(events, 1):
        key, ts = event["key"], event["ts"]
        if key is None:
            continue
        clock = max(clock, ts)
        if params["window_type"] == "session":
            gap, live = params["gap_ms"], [s for s in sessions.get(key, []) if s[1] >= clock - params["gap_ms"] - grace]
            joined = sorted((s for s in live if s[0] - gap <= ts <= s[1] + gap), key=lambda s: (s[1], s[0]))
            start, end = min([ts, *(s[0] for s in joined)]), max([ts, *(s[1] for s in joined)])
            if end < clock - grace - gap:
                continue
            for s in joined:
                change(offset, key, s[0], s[1], None, s[1])
            sessions[key] = [s for s in live if s not in joined] + [(start, end, 1 + sum(s[2] for s in joined))]
            change(offset, key, start, end, sessions[key][-1][2], end)
            continue
        size, slide = params["window_size_ms"], params.get("advance_ms", params["window_size_ms"])
        start = max(0, (ts - size) // slide * slide + slide)  # Kafka has no window that starts before time 0
        while start <= ts:
            if start + size > clock - grace:
                value, newest = windows.get((key, start), (params.get("first", 0), ts))
                value = value + f"+{event['value']}" if "first" in params else value + 1
                windows[key, start] = (value, max(newest, ts))
                change(offset, key, start, start + size, value, max(newest, ts))
            start += slide
    return found


def stream_times(events: list[dict[str, Any]]) -> list[int]:
    """Stream time after each event."""
    found, clock = [], -(10**18)
    for event in events:
        clock = max(clock, event["ts"] if event["key"] is not None else clock)
        found.append(clock)
    return found


def run(spark: SparkSession, function: str, rows: list[dict[str, Any]], options: str, keys: str) -> list[tuple[Any, ...]]:
    """Rows in the order of release: the row that released them is known by their `emit_time` alone."""
    times = ("ts", "window_start", "window_end")
    given = [
        {"seq": 0, "window_start": None, "window_end": None, **r}
        | {t: moment(r.get(t)) for t in times}
        | {"value": None if r["value"] is None else str(r["value"])}
        for r in rows
    ]
    view(spark, given, WINDOWED)
    text = f"SELECT * FROM {function}(TABLE(t) PARTITION BY {keys} ORDER BY (offset, seq), time => 'ts', {options})"
    got = [r for r in spark.sql(text).collect() if r.emit_reason != "end"]

    def millis(at: datetime.datetime | None) -> int | None:
        found = micros(at)
        return None if found is None else found // 1000

    return [(r.key, millis(r.window_start), millis(r.window_end), r.value, millis(r.ts), millis(r.emit_time)) for r in got]


def expected_of(case: dict[str, Any], clock: list[int]) -> list[tuple[Any, ...]]:
    rows = [e for e in case["expected"] if "check" not in e and "error" not in e]
    return [
        (
            e["key"],
            e.get("window_start"),
            e.get("window_end"),
            None if e["value"] is None else str(e["value"]),
            e["ts"],
            clock[e["after"] - 1],
        )
        for e in rows
    ]


def windows_of(params: dict[str, Any]) -> str:
    gap = f", gap => {interval(params['gap_ms'])}" if params.get("window_type") == "session" else ""
    return f"window_end => 'window_end', grace => {interval(params['grace_ms'])}{gap}, deleted => 'value IS NULL'"


CLOSING = [
    c
    for c in cases("suppress_until_window_close")
    if c["params"].get("window_type") != "sliding" and c["params"].get("emit") != "on_window_update"
]


def test_every_case_of_windows_but_sliding_ones_and_those_without_suppress_is_there() -> None:
    left = {c["id"] for c in cases("suppress_until_window_close")} - {c["id"] for c in CLOSING}
    assert all("Sliding" in i or i.endswith("on_window_update") or i.endswith("ByGrace") for i in left)
    assert len(CLOSING) == 9


@pytest.mark.parametrize("case", CLOSING, ids=[c["id"].partition(".")[2] for c in CLOSING])
def test_case_until_close(spark: SparkSession, case: dict[str, Any]) -> None:
    params, events = case["params"], case["input"]
    if "window_type" in params:
        rows = changelog(
            events, params | ({"first": "0" if '"0"' in params["aggregate"] else ""} if "concat" in params["aggregate"] else {})
        )
    else:
        rows = [r | {"offset": i} for i, r in enumerate(events, 1)]
    got = run(spark, "SUPPRESS_UNTIL_CLOSE", rows, windows_of(params), "(key, window_start)")
    expected = expected_of(case, stream_times(events))
    if "emit_interval_wallclock_ms" in params:  # Kafka looks once in a second; these windows had closed before it did
        got = [(*row[:5], None) for row in got if row[2] + params["grace_ms"] <= 20]
        expected = [(*row[:5], None) for row in expected]
    assert got == expected


CLOSED = [c for c in cases("kafka_suppress_until_close") if c["params"]["window_type"] != "sliding" and "known_wart" not in c]


@pytest.mark.parametrize("case", CLOSED, ids=[c["id"].partition(".")[2] for c in CLOSED])
def test_kafka_until_close(spark: SparkSession, case: dict[str, Any]) -> None:
    rows = changelog(case["input"], case["params"])
    got = run(spark, "SUPPRESS_UNTIL_CLOSE", rows, windows_of(case["params"]), "(key, window_start)")
    expected = expected_of(case, stream_times(case["input"]))
    assert len(expected) == len(case["expected"])
    if case["params"].get("emit") == "on_window_close":  # without suppress, in another order within a step
        got, expected = sorted(got), sorted(expected)
    assert got == expected


LIMITED = [
    c for c in cases("suppress_time_limit") if c["params"].get("level") != "buffer" and "groupBy" not in c["params"].get("downstream", "")
]


def limits_of(params: dict[str, Any]) -> str:
    wait = params.get("interval_ms", UNLIMITED)
    full = {"emit": "emit_early", "shut_down": "fail"}.get(params.get("buffer_full", ""))
    found = {
        "wait": None if wait == UNLIMITED else interval(wait),
        "max_records": params.get("max_records"),
        "max_bytes": params.get("max_bytes"),
        "when_full": f"'{full}'" if full and ("max_records" in params or "max_bytes" in params) else None,
    }
    return ", ".join(f"{name} => {value}" for name, value in found.items() if value is not None)


@pytest.mark.parametrize("case", LIMITED, ids=[c["id"].partition(".")[2] for c in LIMITED])
def test_case_until_time_limit(spark: SparkSession, case: dict[str, Any]) -> None:
    params, rows = case["params"], [r | {"offset": i} for i, r in enumerate(case["input"], 1)]
    if "max_bytes" in params and "kip328" in case["id"]:
        got = run_by_bytes(spark, rows, params["max_bytes"])
    else:
        if "max_bytes" in params:  # in these cases two of Kafka's entries are too much; here, five columns of 8 bytes and two short texts
            params = params | {"max_bytes": 60}
        if any("error" in e for e in case["expected"]):
            with pytest.raises(PythonException, match=r"SUPPRESS_UNTIL_TIME_LIMIT, `max_(records|bytes)`: the buffer is full: expected at"):
                run(spark, "SUPPRESS_UNTIL_TIME_LIMIT", rows, limits_of(params), "(key, window_start)")
            return
        got = run(spark, "SUPPRESS_UNTIL_TIME_LIMIT", rows, limits_of(params), "(key, window_start)")
    assert got == expected_of(case, stream_times(rows))


def run_by_bytes(spark: SparkSession, rows: list[dict[str, Any]], most: int) -> list[tuple[Any, ...]]:
    """KIP-328's byte: a character of the value stands for a thousand, beside which the other columns do not count."""
    wide = [r | {"value": r["value"] * 1000} for r in rows]
    options = f"max_bytes => {most * 1000 + 500}, when_full => 'emit_early'"
    return [
        (*r[:3], r[3][: len(r[3]) // 1000], *r[4:]) for r in run(spark, "SUPPRESS_UNTIL_TIME_LIMIT", wide, options, "(key, window_start)")
    ]


KAFKA = cases("kafka_suppress_until_time_limit")


@pytest.mark.parametrize("case", KAFKA, ids=[c["id"].partition(".")[2] for c in KAFKA])
def test_kafka_until_time_limit(spark: SparkSession, case: dict[str, Any]) -> None:
    params, events = case["params"], case["input"]
    rows = changelog(events, params) if "window_type" in params else [r for r in events if r["key"] is not None]
    if "error" in case:
        with pytest.raises(PythonException, match=r"`max_records`: the buffer is full: expected at most 3 rows, got 4"):
            run(spark, "SUPPRESS_UNTIL_TIME_LIMIT", rows, limits_of(params), "(key, window_start)")
        return
    got = run(spark, "SUPPRESS_UNTIL_TIME_LIMIT", rows, limits_of(params), "(key, window_start)")
    assert got == expected_of(case, stream_times(events))


def as_row(fate: Fate) -> tuple[Any, ...]:
    return (fate.row["id"], None if fate.outcome == "released" else fate.outcome, fate.stream_time, fate.emit_time, fate.emit_reason)


@pytest.mark.parametrize("seed", range(9))
def test_random_changelogs_equal_the_slow_definition_and_nothing_is_lost(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    rows, options = some_rows(random_, random_.choice([0, 1, 30, 80])), options_of(random_)
    for row in rows:  # five columns of 8 bytes, and a key of one
        row["size"] = 40 + (0 if row["k"] is None else 1)
    if options.get("max_bytes") is not None:
        options["max_bytes"] *= 10
    shuffled = random_.sample(rows, len(rows))
    df = view(spark, [r | {"t": moment(r["t"], 1), "close": moment(r["close"], 1)} for r in shuffled], DDL)
    df.repartition(random_.randint(1, 4)).createOrReplaceTempView("t")
    text = sql_of(options, "OUT")
    try:
        fates = Suppress(**options).run(rows)
    except Full:
        with pytest.raises(PythonException, match="the buffer is full"):
            spark.sql(text.replace("OUT", "rows")).collect()
        return

    def of(output: str) -> list[Any]:
        return spark.sql(text.replace("OUT", output)).collect()

    all_rows = Counter((r.id, r.reason, micros(r.stream_time), micros(r.emit_time), r.emit_reason) for r in of("all"))
    assert all_rows == Counter(map(as_row, fates)), text
    released = [(r.id, micros(r.emit_time), r.emit_reason) for r in of("rows")]
    expected = [(f.row["id"], f.emit_time, f.emit_reason) for f in fates if f.outcome == "released"]
    assert sorted(released) == sorted(expected)
    if not options["clock_by"]:
        assert released == expected
    late = {f.row["id"]: None if f.stream_time is None else (f.stream_time - f.row["t"]) / 1e6 for f in fates}
    dropped = Counter((r.id, r.reason, micros(r.stream_time), r.lateness) for r in of("dropped"))
    assert dropped == Counter((f.row["id"], f.outcome, f.stream_time, late[f.row["id"]]) for f in fates if f.outcome != "released")
    explained = Counter((r.id, r.outcome, micros(r.stream_time), micros(r.decided_at), r.decided_by) for r in of("explain"))
    assert explained == Counter(
        (
            f.row["id"],
            f.outcome,
            f.stream_time,
            f.decided_at,
            None if f.decided_by is None else json.dumps({"id": f.decided_by["id"]}, separators=(",", ":")),
        )
        for f in fates
    )
    assert all(r.explanation for r in of("explain"))


def text_of(spark: SparkSession, rows: list[tuple[Any, ...]], call: str, columns: str = "off, k, s, v") -> list[Any]:
    """A call over rows whose time is in seconds."""
    values = ", ".join(f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in rows)
    relation = f"SELECT *, timestamp_seconds(s) AS ts FROM VALUES {values} AS v({columns})"
    return spark.sql(call.format(f"TABLE({relation}) PARTITION BY k ORDER BY off, time => 'ts'")).collect()


LIMIT = "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT({}, wait => INTERVAL 10 SECONDS, output => 'explain') ORDER BY off"
CLOSES = "SELECT * FROM SUPPRESS_UNTIL_CLOSE({}, window_end => 'timestamp_seconds(v)', grace => INTERVAL 2 SECONDS, output => 'explain') ORDER BY off"


def fates(rows: list[Any]) -> list[tuple[str, str | None]]:
    return [(r.outcome, r.decided_by and str(json.loads(r.decided_by)["off"])) for r in rows]


def test_a_wait_is_over_when_stream_time_reaches_it_and_not_one_second_earlier(spark: SparkSession) -> None:
    got = text_of(spark, [(1, "a", 0, 1), (2, "b", 9, 1), (3, "b", 10, 2)], LIMIT)
    assert fates(got) == [("released", "3"), ("replaced", "3"), ("released", None)]


def test_a_row_that_comes_in_the_step_in_which_its_key_was_due_replaces_the_held_one(spark: SparkSession) -> None:
    got = text_of(spark, [(1, "a", 0, 1), (2, "a", 10, 2)], LIMIT)
    assert fates(got) == [("replaced", "2"), ("released", "2")]
    assert "in the very step in which its wait was over" in got[0].explanation


def test_a_newer_row_keeps_the_place_of_its_key_the_timer_does_not_restart(spark: SparkSession) -> None:
    rows = [(i, "a", i * 4, i) for i in range(6)]  # at 0, 4, 8, 12, ..: the place of 0 is due at 10, the next starts with 16
    assert [o for o, _ in fates(text_of(spark, rows, LIMIT))] == ["replaced", "replaced", "replaced", "released", "replaced", "released"]


def test_an_older_row_that_replaces_a_newer_one_keeps_its_own_time(spark: SparkSession) -> None:
    text = LIMIT.replace(", output => 'explain'", "").replace(" ORDER BY off", "")
    got = text_of(spark, [(1, "a", 5, 1), (2, "a", 3, 2), (3, "b", 20, 1)], text)
    assert [(r.off, r.s, r.emit_reason) for r in got] == [(2, 3, "time"), (3, 20, "end")]


def test_a_late_row_without_a_place_passes_at_once(spark: SparkSession) -> None:
    got = text_of(spark, [(1, "a", 50, 1), (2, "b", 40, 1), (3, "c", 41, 1)], LIMIT)
    assert fates(got) == [("released", None), ("released", "2"), ("released", None)]
    assert got[1].explanation.startswith("Passed at once")


def test_a_window_is_closed_when_stream_time_reaches_its_end_plus_grace(spark: SparkSession) -> None:
    rows = [(1, "a", 1, 10), (2, "b", 11, 20), (3, "b", 12, 20), (4, "a", 12, 10)]
    assert fates(text_of(spark, rows, CLOSES)) == [("released", "3"), ("replaced", "3"), ("held", None), ("released", "4")]


def test_a_session_closes_one_microsecond_after_its_end_plus_gap_plus_grace(spark: SparkSession) -> None:
    call = (
        "SELECT off, emit_time FROM SUPPRESS_UNTIL_CLOSE({}, window_end => 'timestamp_seconds(v)', gap => INTERVAL 3 SECONDS, "
        "grace => INTERVAL 2 SECONDS)"
    )
    assert text_of(spark, [(1, "a", 1, 10), (2, "b", 15, 99)], call) == []
    ((off, at),) = text_of(spark, [(1, "a", 1, 10), (2, "b", 15, 99), (3, "b", 15.000001, 99)], call)
    assert (off, micros(at)) == (1, 15_000_001)


def test_the_close_of_the_newest_held_row_counts(spark: SparkSession) -> None:
    got = text_of(spark, [(1, "a", 1, 10), (2, "a", 2, 30), (3, "b", 20, 99), (4, "b", 32, 99)], CLOSES)
    assert fates(got) == [("replaced", "2"), ("released", "4"), ("replaced", "4"), ("held", None)]


def test_a_null_key_is_a_key_like_any_other_and_several_keys_with_nulls_are_told_apart(spark: SparkSession) -> None:
    rows = [(1, None, 0, 1), (2, None, 1, 2), (3, "a", 2, 1)]
    assert [o for o, _ in fates(text_of(spark, rows, LIMIT))] == ["replaced", "released", "released"]
    spark.sql(
        "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(SELECT * FROM VALUES (1, NULL, 'a'), (2, 'a', NULL), (3, NULL, NULL), (4, '', NULL)"
        " AS v(off, x, y)) PARTITION BY (x, y) ORDER BY off, time => 'timestamp_seconds(off)', wait => INTERVAL 1 DAY)"
    ).createOrReplaceTempView("apart")
    assert [r.off for r in spark.sql("SELECT off FROM apart").collect()] == [1, 2, 3, 4]


def test_rows_that_come_out_together_come_oldest_place_first_then_by_key(spark: SparkSession) -> None:
    call = "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT({}, wait => INTERVAL 10 SECONDS, at_end => 'hold')"
    rows = [(1, "b", 1, 1), (2, "é", 1, 1), (3, None, 1, 1), (4, "a", 0, 1), (5, "aa", 1, 1), (6, "z", 50, 1)]
    assert [r.off for r in text_of(spark, rows, call)] == [4, 3, 5, 1, 2]


def test_pre_images_are_no_changes_and_deltas_deletes_are_tombstones(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW feed AS SELECT *, timestamp_seconds(v) AS ts FROM VALUES ('insert', 'a', 1), ('update_preimage', 'a', 2),"
        " ('update_postimage', 'a', 3), ('insert', 'b', 4), ('delete', 'b', 5) AS t(_change_type, k, v)"
    )
    ends = "window_end => 'timestamp_seconds(9)', at_end => 'emit', output => 'all'"
    got = spark.sql(f"SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(feed) PARTITION BY k ORDER BY ts, {ends})").collect()
    assert Counter((r.v, r.reason) for r in got) == Counter([(1, "replaced"), (3, None), (4, "replaced"), (5, "tombstone")])
    limit = spark.sql("SELECT v FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(feed) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY)")
    assert [r.v for r in limit.collect()] == [3, 5]


def test_the_alert_of_the_kip_is_raised_once_after_the_window_closes_and_not_before(spark: SparkSession) -> None:
    """Fewer than 3 events in an hour; ten minutes are given to late ones (S11)."""
    times = [("ann", "10:05"), ("bob", "10:10"), ("bob", "10:20"), ("bob", "10:30"), ("eve", "10:50"), ("ann", "11:05"), ("ann", "10:59"),
             ("bob", "11:09"), ("bob", "11:10"), ("eve", "12:10")]  # fmt: skip
    values = ", ".join(f"({n}, '{user}', TIMESTAMP '2024-05-01 {at}:00')" for n, (user, at) in enumerate(times, 1))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW events AS SELECT * FROM VALUES {values} AS e(off, user_id, ts)")
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW updates AS SELECT off, user_id, date_trunc('HOUR', ts) AS hour, "
        "count(*) OVER (PARTITION BY user_id, date_trunc('HOUR', ts) ORDER BY off) AS n, "
        "max(ts) OVER (PARTITION BY user_id, date_trunc('HOUR', ts) ORDER BY off) AS change_time FROM events"
    )
    alerts = spark.sql(
        "SELECT user_id, hour, n, emit_time FROM SUPPRESS_UNTIL_CLOSE(TABLE(updates) PARTITION BY (user_id, hour) ORDER BY off, "
        "time => 'change_time', window_end => 'hour + INTERVAL 1 HOUR', grace => INTERVAL 10 MINUTES) WHERE n < 3"
    ).collect()
    shown = [(r.user_id, f"{r.hour:%H:%M}", r.n, f"{r.emit_time:%H:%M}") for r in alerts]
    assert shown == [("ann", "10:00", 2, "11:10"), ("eve", "10:00", 1, "11:10"), ("ann", "11:00", 1, "12:10"), ("bob", "11:00", 2, "12:10")]


@pytest.mark.usefixtures("many_rows")
def test_spilling_gives_the_same_rows_and_leaves_no_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.range(300_000).selectExpr(
        "pmod(xxhash64(id), 70000) AS k", "timestamp_seconds(id) AS ts", "id AS off", "repeat(CAST(id AS STRING), 3) AS x"
    ).createOrReplaceTempView("t")
    call = "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY off, time => 'ts', wait => INTERVAL 200000 SECONDS{})"
    spilled = call.format(", max_records => 1000, when_full => 'spill'")
    for text in (call.format(""), spilled):
        spark.sql(f"SELECT count(*) AS n, sum(xxhash64(*)) AS h FROM (SELECT * FROM ({text}))").createOrReplaceTempView("x")
    differ = spark.sql(f"SELECT count(*) AS n FROM (({call.format('')}) EXCEPT ALL ({spilled}))")
    assert differ.first().n == 0
    assert spark.sql(spilled).count() == spark.sql(call.format("")).count() > 70_000


def test_types_nullability_and_metadata_of_the_input_are_kept(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT 1 AS k, TIMESTAMP_NTZ '2024-01-01 00:00:00' AS ts, CAST(1.5 AS DECIMAL(20, 3)) AS d, map('a', 1) AS m, named_struct('x', array(1)) AS s, "
        "X'00FF' AS b, DATE '2024-01-01' AS day, INTERVAL 1 DAY AS i, CAST(NULL AS FLOAT) AS f, parse_json('{}') AS v"
    ).withMetadata("d", {"note": "kept"})
    got = streamtime.suppress_until_time_limit(df, keys=["k"], order_by=["ts"], wait=datetime.timedelta(0))
    assert got.columns == [*df.columns, "emit_time", "emit_reason"]
    for mine, theirs in zip(got.schema.fields, df.schema.fields, strict=False):
        assert (mine.name, mine.dataType, mine.nullable, mine.metadata) == (theirs.name, theirs.dataType, theirs.nullable, theirs.metadata)
    assert got.drop("emit_time", "emit_reason", "v").collect() == df.drop("v").collect()
    assert got.schema["emit_time"].dataType == df.schema["ts"].dataType
    by_day = streamtime.suppress_until_close(df, keys=["k"], order_by=["day"], window_end="ts", at_end="emit")
    assert [str(r.emit_time) for r in by_day.collect()] == ["2024-01-01"]


def test_metrics_of_a_bounded_buffer(spark: SparkSession) -> None:
    call = (
        "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT({}, wait => INTERVAL 10 SECONDS, max_records => 2, when_full => 'emit_early', at_end => 'hold',"
        " output => 'metrics', name => 'mine')"
    )
    rows = [(1, "a", 0, 1), (2, "a", 2, 1), (3, "b", 4, 1), (4, "c", 6, 1), (5, "b", 3, 1), (6, "d", 16, 1), (7, None, None, 1)]
    got = {r.metric: r.value for r in text_of(spark, rows, call)}
    size = 8 + 1 + 8 + 8 + 8  # off, s, v and ts are of fixed width; k is one byte
    assert got == {
        "null_time_drop_total": 1.0, "null_time_drop_rate": 1 / 16, "replaced_drop_total": 2.0, "replaced_drop_rate": 2 / 16,
        "tombstone_drop_total": 0.0, "tombstone_drop_rate": 0.0, "held_drop_total": 1.0, "held_drop_rate": 1 / 16,
        "record_lateness_avg": 3 / 6, "record_lateness_max": 3.0,
        "suppression_buffer_count_current": 1.0, "suppression_buffer_count_avg": (1 + 1 + 2 + 2 + 2 + 1) / 6, "suppression_buffer_count_max": 2.0,
        "suppression_buffer_size_current": size, "suppression_buffer_size_avg": size * 9 / 6, "suppression_buffer_size_max": size * 2,
        "suppression_emit_total": 3.0, "suppression_emit_rate": 3 / 16,
        "suppression_overtime_min": -4.0, "suppression_overtime_avg": (-4 + 2 + 0) / 3,
    }  # fmt: skip


UPDATES = "SELECT 'a' AS k, TIMESTAMP '2024-01-01 00:00:00' AS ts, TIMESTAMP '2024-01-01 00:10:00' AS window_end, TIMESTAMP '2024-01-01 00:12:00' AS window_close"


def test_a_smaller_grace_than_that_of_the_window_function_is_refused_and_an_equal_one_is_not(spark: SparkSession) -> None:
    spark.sql(UPDATES).withMetadata("window_close", {"streamtime.grace": 120_000_000}).createOrReplaceTempView("t")
    call = "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts{}, at_end => 'emit')"
    message = r"`grace`: 119 s is less than the 120 s that made `window_close`: a window could change after it came out \(S7\)"
    with pytest.raises(AnalysisException, match=message):
        spark.sql(call.format(", window_end => 'window_end', grace => INTERVAL 119 SECONDS"))
    with pytest.raises(AnalysisException, match="`grace`: is missing, and so 0 s: less than the 120 s"):
        spark.sql(call.format(", window_end => 'window_end'"))
    with pytest.raises(AnalysisException, match=r"no column `widow_end` in the input\. Did you mean `window_end`"):
        spark.sql(call.format(", window_end => 'widow_end'"))
    assert spark.sql(call.format(", window_end => 'window_end', grace => INTERVAL 2 MINUTES")).count() == 1
    assert spark.sql(call.format("")).count() == 1


def test_first_results_of_sessions_wait_for_the_gap_that_made_them(spark: SparkSession) -> None:
    """S12: without it, each change would be a first result at once."""
    rows = "TABLE(SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts) PARTITION BY k ORDER BY ts, aggregates => 'count(*) AS n', grace => INTERVAL 1 MINUTE"
    call = "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM {}) PARTITION BY k ORDER BY ts, until => 'end', window_end => {})"
    sessions = f"SESSION_UPDATES({rows}, gap => INTERVAL 30 MINUTES)"
    early = "one of 1800 s made `window_close`, and before that a session has not ended (S12). Write gap => INTERVAL 1800 SECONDS."
    for given, problem in (("", "is missing"), (", gap => INTERVAL '1799.5' SECOND", "1799.5 s is too short")):
        with pytest.raises(AnalysisException, match=re.escape(f"`gap`: {problem}: {early}")):
            spark.sql(call.format(sessions, f"'session_end'{given}"))
    for given in ("'session_end', gap => INTERVAL 30 MINUTES", "'session_end + INTERVAL 30 MINUTES'"):
        assert "emit_time" in spark.sql(call.format(sessions, given)).columns
    for windows in ("size => INTERVAL 1 HOUR", "difference => INTERVAL 1 HOUR"):
        assert "emit_time" in spark.sql(call.format(f"WINDOW_UPDATES({rows}, {windows})", "'window_end'")).columns


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        ("SESSION_UPDATES(.., gap => INTERVAL 30 MINUTES", "", "`gap`: is missing: one of 1800 s made `window_close`, and a session could"),
        (
            "SESSION_UPDATES(.., gap => INTERVAL 30 MINUTES",
            ", gap => INTERVAL '1799.5' SECOND",
            "`gap`: 1799.5 s is too short: one of 1800 s made",
        ),
        ("SESSION_UPDATES(.., gap => INTERVAL 30 MINUTES", ", gap => INTERVAL 30 MINUTES", None),
        (
            "WINDOW_UPDATES(.., difference => INTERVAL 1 HOUR",
            "",
            "`window_end`: these windows close a microsecond after their end and `grace`",
        ),
        ("WINDOW_UPDATES(.., size => INTERVAL 1 HOUR", "", None),
    ],
)
def test_a_close_before_that_of_the_function_that_made_it_is_refused(
    spark: SparkSession, made: str, given: str, message: str | None
) -> None:
    """S7: the end of sessions and of sliding windows is part of them, and sessions wait for their gap."""
    rows = made.replace(
        "..", "TABLE(SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts) PARTITION BY k ORDER BY ts, aggregates => 'count(*) AS n'"
    )
    table = f"SELECT * FROM {rows}, grace => INTERVAL 10 MINUTES)"
    end = "session_end" if "SESSION" in made else "window_end"
    call = f"SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE({table}) PARTITION BY k ORDER BY ts, window_end => '{end}', grace => INTERVAL 10 MINUTES{given})"
    if message is None:
        assert "emit_time" in spark.sql(call).columns
        return
    with pytest.raises(AnalysisException, match=re.escape(message)):
        spark.sql(call)
    larger = call.removesuffix(f"10 MINUTES{given})") + "41 MINUTES)"
    assert "emit_time" in spark.sql(larger).columns
    assert "emit_time" in spark.sql(call.replace(f"'{end}'", f"'{end} + INTERVAL 31 MINUTES'")).columns
    for other in ("window_close", "closes"):  # which say it themselves
        of = call.replace(f"'{end}', grace => INTERVAL 10 MINUTES{given}", f"'{other}', grace => INTERVAL 10 MINUTES")
        assert (
            "emit_time"
            in spark.sql(of.replace("SELECT * FROM " + rows, f"SELECT *, {end} + INTERVAL 40 MINUTES AS closes FROM {rows}")).columns
        )
    assert "emit_time" in spark.sql(call.replace(f"'{end}', grace => INTERVAL 10 MINUTES{given}", "'window_close'")).columns


@pytest.mark.parametrize("grace", [2**53 + 1, 9_100_000_000_000_000_001, UNLIMITED])
def test_the_grace_that_made_a_window_close_is_known_to_the_microsecond(spark: SparkSession, grace: int) -> None:
    """A DOUBLE, which has 53 bits, would round it."""
    spark.sql("SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts").createOrReplaceTempView("t")

    def length(micros: int) -> str:
        return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND"

    for function, size, bound in (("WINDOW_UPDATES", "size", "window"), ("SESSION_UPDATES", "gap", "session")):
        updates = f"{function}(TABLE(t) PARTITION BY k ORDER BY ts, {size} => INTERVAL 1 DAY, grace => {length(grace)}, aggregates => 'count(*) AS n')"
        made = spark.sql(f"SELECT * FROM {updates}")
        assert made.schema["window_close"].metadata["streamtime.grace"] == grace
        gap = ", gap => INTERVAL 1 DAY" if size == "gap" else ""
        call = (
            f"SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM {updates}) PARTITION BY k ORDER BY ts, window_end => '{bound}_end', "
            f"grace => {{}}{gap})"
        )
        assert spark.sql(f"SELECT * FROM {call.format(length(grace))}").columns[0] == "k"
        with pytest.raises(AnalysisException, match=r"`grace`: .* that made `window_close`"):
            spark.sql(f"SELECT * FROM {call.format(length(grace - 1))}")


@pytest.mark.parametrize("function", ["SUPPRESS_UNTIL_CLOSE", "SUPPRESS_UNTIL_TIME_LIMIT"])
def test_a_versioned_table_is_refused(spark: SparkSession, function: str) -> None:
    spark.sql(UPDATES).withMetadata("ts", {"streamtime.versioned": True}).createOrReplaceTempView("t")
    wait = ", wait => INTERVAL 1 DAY" if function.endswith("LIMIT") else ""
    with pytest.raises(
        AnalysisException, match=r"the input is a versioned table \(`ts` says so\), and suppress cannot honour versions \(S9, V9\)"
    ):
        spark.sql(f"SELECT * FROM {function}(TABLE(t) PARTITION BY k ORDER BY ts{wait})")


def test_an_order_that_cannot_be_merged_is_sorted_by_spark(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW t AS SELECT k, s, timestamp_seconds(t) AS ts, collate(s, 'UTF8_LCASE') AS c, array(s) AS a "
        "FROM VALUES ('x', 'b', 1), ('x', 'A', 2), ('x', 'a', 3), ('x', 'B', 4) AS v(k, s, t)"
    )
    call = "SELECT s FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY ts ORDER BY ({}, ts), time => 'ts', wait => INTERVAL 0 SECONDS)"
    assert [r.s for r in spark.sql(call.format("c")).collect()] == ["A", "a", "b", "B"]
    assert [r.s for r in spark.sql(call.format("s")).collect()] == ["A", "B", "a", "b"]
    assert [r.s for r in spark.sql(call.format("a")).collect()] == ["A", "B", "a", "b"]
