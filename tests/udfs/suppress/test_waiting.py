"""Suppress as a stream's workers do it, without Spark, against the slow definition: random changelogs, cut into micro-batches at random.

Catches: a row released under the wrong watermark, a replaced row that comes back, a place that moves, timers never set, counts that drift.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from support import reference
from support.inputs.micro_batches import KEYS, MOMENT, STEP, HoldingStream, cut_up, moment
from support.reference.suppress import Full
from support.reference.suppress import Suppress as Reference

from streamtime.sql.stream.buckets import REASON, STREAM_TIME, Holding
from streamtime.sql.stream.checkpoint import StateError
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.suppress.bounded import BoundedBuffer
from streamtime.udfs.suppress.decisions import Bounds, BufferFull
from streamtime.udfs.suppress.until import Until
from streamtime.udfs.suppress.waiting import StreamBuffer

COLUMNS = ("k", "t", "close", "deleted", "id")


def table(rows: list[reference.Row]) -> pa.Table:
    """Rows with hashes of their keys: half of it is shared by several keys."""
    place = {None: 5, "a": -(1 << 62), "b": 1 << 62, "c": 1 << 62, "d": 1 << 61}
    second = {None: 0, "a": 1, "b": 1, "c": 2, "d": 1}
    return pa.table(
        {
            "k": pa.array([r["k"] for r in rows], pa.string()),
            "t": pa.array([r["t"] for r in rows], MOMENT),
            "close": pa.array([r["close"] for r in rows], MOMENT),
            "deleted": pa.array([r["deleted"] for r in rows], pa.bool_()),
            "id": pa.array([r["id"] for r in rows], pa.int64()),
            KEY_HASH: pa.array([place[r["k"]] for r in rows], pa.int64()),
            KEYS[0]: pa.array([place[r["k"]] for r in rows], pa.int64()),
            KEYS[1]: pa.array([second[r["k"]] for r in rows], pa.int64()),
            ASIDE: pa.array([1 if r["t"] is None or r["close"] is None else -1 for r in rows], pa.int32()),
        }
    )


def some_stream(random_: random.Random) -> list[list[reference.Row]]:
    rows = []
    for i in range(random_.randint(1, 80)):
        time = (i // random_.choice([1, 2]) + random_.randint(-8, 8)) * STEP
        close = random_.choice([None, *([time + random_.randint(-2, 9) * STEP] * 20)])
        deleted = random_.random() < 0.2
        rows.append({"k": random_.choice([None, "a", "b", "c", "d"]), "t": random_.choice([None, *([time] * 15)]), "close": close,
                     "deleted": deleted, "id": i})  # fmt: skip
    return cut_up(random_, rows)


@pytest.mark.parametrize("seed", range(130))
def test_a_stream_is_suppressed_as_the_slow_definition_says(seed: int) -> None:
    random_ = random.Random(seed)
    batches, delay, closes = some_stream(random_), random_.choice([0, 0, 4 * STEP]), random_.random() < 0.5
    wait = random_.choice([0, 1, 3 * STEP, 10 * STEP, groups.HIGHEST])
    output = random_.choice(["rows", "dropped", "all"])
    order = random_.choice(["id", "t"])
    corrected = closes and random_.random() < 0.5
    holder = StreamBuffer(
        Until(wait, "close" if closes else None, corrected=corrected), "t", COLUMNS, REASON, STREAM_TIME, "at", "why", "deleted", output
    )
    results = (("at", MOMENT), ("why", pa.string())) if output == "all" else ()
    ties = tuple(By(n) for n in ("k", "t", "close", "deleted", "id") if n != order)
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By(order),), ties, ("null_time",), results, output))
    largest, watermarks, found = reference.BEFORE, [], []
    for rows in batches:
        rows[:] = [r | {"close": r["close"] if closes else 0} for r in rows]
        watermark = (largest - delay) // STEP * STEP
        watermarks.append(watermark if watermark > 0 else reference.BEFORE)
        found += stream.run(table(random_.sample(rows, len(rows))), max(watermark, 0))
        largest = max([largest, *(r["t"] for r in rows if r["t"] is not None)])
    for watermark in (200 * STEP,):
        found += stream.run(table([]), watermark)
    limit = None if closes or wait == groups.HIGHEST else wait
    slow = Reference(closes=closes, corrected=corrected, wait=limit, order=[order], watermarked=True)
    fates = slow.stream([*zip(batches, watermarks, strict=True), ([], 200 * STEP)])
    held = {id(p.fate) for p in slow.buffer.values()}
    expected = []
    for fate in fates:
        known = [None if fate.stream_time == reference.BEFORE else fate.stream_time, fate.emit_time]
        if fate.outcome == "released" and output in ("rows", "all"):
            expected.append((fate.row["id"], None, known[0] if output == "all" else None, known[1], fate.emit_reason))
        if fate.outcome != "released" and id(fate) not in held and output in ("dropped", "all"):
            expected.append((fate.row["id"], fate.outcome, known[0], None, None))
    got = Counter((r["id"], r.get(REASON), moment(r.get(STREAM_TIME)), moment(r.get("at")), r.get("why")) for r in found)
    timeless = {r["id"] for rows in batches for r in rows if r["t"] is None or r["close"] is None}
    assert Counter((i, *(x if i not in timeless else (x[0], None, *x[2:]))) for i, *x in got.elements()) == Counter(expected)
    released = sum(f.outcome == "released" for f in fates)
    assert stream.counts["suppression_emit_total"] == released
    for reason in ("replaced", "tombstone", "null_time"):
        assert stream.counts[f"{reason}_drop_total"] == sum(f.outcome == reason for f in fates)
    assert stream.counts["suppression_buffer_entered_total"] - stream.counts["suppression_buffer_left_total"] == len(slow.buffer)


def test_a_held_row_leaves_by_its_timer_though_its_bucket_sees_no_more_rows() -> None:
    holder = StreamBuffer(Until(wait=10 * STEP), "t", COLUMNS, REASON, STREAM_TIME, "at", "why")
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows"))
    row: dict[str, Any] = {"k": "a", "t": 5 * STEP, "close": 0, "deleted": False, "id": 1}
    assert stream.run(table([row]), 0) == []
    assert stream.run(table([]), 15 * STEP - 1000) == []
    (got,) = stream.run(table([]), 15 * STEP)
    assert (got["id"], moment(got["at"]), got["why"]) == (1, 15 * STEP, "time")
    assert stream.run(table([]), 100 * STEP) == []


def test_what_passes_before_stream_time_is_known_is_not_late() -> None:
    holder = StreamBuffer(Until(wait=0), "t", COLUMNS, REASON, STREAM_TIME, "at", "why")
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows"))
    row: dict[str, Any] = {"k": "a", "t": 5 * STEP, "close": 0, "deleted": False, "id": 1}
    assert [r["id"] for r in stream.run(table([row, row | {"k": "b", "t": 2 * STEP}]), 0)] == [1, 1]
    assert stream.counts["suppression_overtime_sum"] == 0
    stream.run(table([row | {"t": 3 * STEP}]), 7 * STEP)
    assert stream.counts["suppression_overtime_sum"] == 4 * STEP


def test_the_wall_clock_releases_too() -> None:
    holder = StreamBuffer(Until(close="close"), "t", COLUMNS, REASON, STREAM_TIME, "at", "why")
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows", wall=True))
    row: dict[str, Any] = {"k": "a", "t": 5 * STEP, "close": 20 * STEP, "deleted": False, "id": 1}
    assert stream.run(table([row]), 10 * STEP) == []
    (got,) = stream.run(table([]), 20 * STEP)
    assert (moment(got["at"]), got["why"]) == (20 * STEP, "close")


def test_a_clock_on_the_wall_that_is_set_back_mutes_nothing_and_stream_time_stays_where_it_was() -> None:
    holder = StreamBuffer(Until(close="close"), "t", COLUMNS, REASON, STREAM_TIME, "at", "why")
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows", wall=True))

    def row(number: int, close: int) -> dict[str, Any]:
        return {"k": "a" if number < 3 else "d", "t": 5 * STEP, "close": close * STEP, "deleted": False, "id": number}

    assert stream.run(table([row(1, 200)]), 100 * STEP) == []  # fast by 80
    (due,) = stream.run(table([row(2, 60)]), 20 * STEP)  # set right; 1 is replaced, and what was due at 60 is due
    assert (due["id"], moment(due["at"])) == (2, 100 * STEP)
    assert stream.run(table([row(3, 110)]), 21 * STEP) == []
    assert stream.run(table([]), 109 * STEP) == []
    (later,) = stream.run(table([]), 110 * STEP)
    assert (later["id"], moment(later["at"])) == (3, 110 * STEP)


def test_the_latest_time_of_day_is_kept_though_nothing_is_held() -> None:
    holder = StreamBuffer(Until(close="close"), "t", COLUMNS, REASON, STREAM_TIME, "at", "why")
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows", wall=True))
    row: dict[str, Any] = {"k": "a", "t": 5 * STEP, "close": 20 * STEP, "deleted": False, "id": 1}
    assert [moment(r["at"]) for r in stream.run(table([row]), 100 * STEP)] == [100 * STEP]
    assert [moment(r["at"]) for r in stream.run(table([row]), 30 * STEP)] == [100 * STEP]


def zoned(rows: pa.Table, zone: str) -> pa.Table:
    """As Spark sends them, whose moments have the session's time zone."""
    kinds = {"t": pa.timestamp("us", zone), "close": pa.timestamp("us", zone)}
    return rows.cast(pa.schema([f.with_type(kinds.get(f.name, f.type)) for f in rows.schema]))


@pytest.mark.parametrize("bounded", [False, True])
def test_a_restart_in_a_session_of_another_time_zone_changes_nothing(bounded: bool) -> None:
    random_ = random.Random(7)
    batches = [table(rows) for rows in [*(rows for _ in range(3) for rows in some_stream(random_)), []]]
    holder = StreamBuffer(Until(wait=5 * STEP), "t", COLUMNS, REASON, STREAM_TIME, "at", "why", "deleted", "all")
    if bounded:
        holder = BoundedBuffer(**vars(holder), function="F", keys=("k",), size="id", bounds=Bounds(3, None, "emit_early"))
        batches = [b.drop_columns([KEY_HASH, *KEYS]).append_column(KEY_HASH, pa.array([0] * len(b), pa.int64())) for b in batches]
    results = (("at", pa.timestamp("us", "UTC")), ("why", pa.string()))
    keys = () if bounded else KEYS
    plan = Holding("F", holder, keys, {}, "t", (By("id"),), (), ("null_time",), results, "all", columns=COLUMNS)
    held, moved = HoldingStream(plan), HoldingStream(plan)
    zones = ["UTC", "Europe/Berlin", "America/New_York", "+03:00"]
    for number, rows in enumerate(batches):
        assert moved.run(zoned(rows, zones[number % 4]), number * STEP) == held.run(zoned(rows, "UTC"), number * STEP)
    assert held.counts["suppression_emit_total"] > 10


def test_held_rows_of_other_columns_are_an_error_that_names_them_and_those_in_another_order_are_not() -> None:
    def stream(columns: tuple[str, ...], before: HoldingStream | None = None) -> HoldingStream:
        holder = StreamBuffer(Until(wait=5 * STEP), "t", columns, REASON, STREAM_TIME, "at", "why")
        made = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows", columns=columns))
        made.handles = made.handles if before is None else before.handles
        return made

    row: dict[str, Any] = {"k": "a", "t": 5 * STEP, "close": 7, "deleted": False, "id": 1}
    first = stream(COLUMNS)
    assert first.run(table([row]), 0) == []
    other = table([row | {"id": 2}])
    wider = other.append_column("more", pa.array([1], pa.int32()))
    for rows, columns, said in (
        (other.drop_columns(["deleted"]), ("k", "t", "close", "id"), "deleted was boolean and is not given"),
        (wider, (*COLUMNS, "more"), "more was not given and is int"),
        (other.set_column(4, "id", pa.array(["2"])), COLUMNS, "id was bigint and is string"),
        (None, (*COLUMNS, "more"), "more was not given and is there"),
    ):
        with pytest.raises(StateError, match=f"F: the query's checkpoint was written with other columns: {said}. Go back to what it was"):
            stream(columns, first).run(table([]) if rows is None else rows, 100 * STEP)
    (got,) = stream(("id", "close", "t", "k", "deleted"), first).run(table([]), 100 * STEP)
    assert list(got) == ["id", "close", "t", "k", "deleted", "at", "why"]
    assert (got["id"], moment(got["close"]), got["k"]) == (1, 7, "a")


@pytest.mark.parametrize("bounded", [False, True])
def test_held_rows_in_which_nothing_may_be_null_any_more_or_something_since_are_rows_of_the_same_columns(bounded: bool) -> None:
    columns = (*COLUMNS, "s")
    holder = StreamBuffer(Until(wait=5 * STEP), "t", columns, REASON, STREAM_TIME, "at", "why")
    if bounded:
        holder = BoundedBuffer(**vars(holder), function="F", keys=("k",), size="id", bounds=Bounds(9, None, "emit_early"))
    stream = HoldingStream(Holding("F", holder, KEYS, {}, "t", (By("id"),), (), ("null_time",), (), "rows", columns=columns))
    out: list[dict[str, Any]] = []
    for number, nullable in enumerate([True, False, True]):
        row: dict[str, Any] = {"k": "b", "t": number * 9 * STEP, "close": 7, "deleted": False, "id": number}
        kind = pa.list_(pa.field("element", pa.struct([pa.field("x", pa.int64(), nullable)]), nullable))
        rows = table([row]).append_column(pa.field("s", kind, nullable), pa.array([[{"x": number}]], kind))
        out += stream.run(rows, number * 9 * STEP)
    assert [(r["id"], r["s"]) for r in out] == [(0, [{"x": 0}]), (1, [{"x": 1}])]


@pytest.mark.parametrize("seed", range(160))
def test_a_bounded_stream_is_suppressed_as_the_slow_definition_says(seed: int) -> None:
    random_ = random.Random(seed)
    batches, closes = some_stream(random_), random_.random() < 0.4
    corrected = closes and random_.random() < 0.5
    wait, output, early = random_.choice([0, 3 * STEP, None]), random_.choice(["rows", "all"]), not closes and random_.random() < 0.8
    records, size = random_.choice([(0, None), (1, None), (3, None), (None, 5), (3, 9)])
    columns = (*COLUMNS, "size")
    holder = BoundedBuffer(
        Until(groups.HIGHEST if wait is None else wait, "close" if closes else None, corrected=corrected), "t", columns, REASON, STREAM_TIME, "at", "why", "deleted", output,
        "F", ("k",), "size", Bounds(records, size, "emit_early" if early else "fail"),
    )  # fmt: skip
    results = (("at", MOMENT), ("why", pa.string())) if output == "all" else ()
    ties = tuple(By(n) for n in ("k", "t", "close", "deleted"))
    stream = HoldingStream(Holding("F", holder, (), {}, "t", (By("id"),), ties, ("null_time",), results, output))

    def together(rows: list[reference.Row]) -> pa.Table:
        made = table(rows)
        made = made.append_column("size", pa.array([r["size"] for r in rows], pa.int64()))
        zeros = pa.array([0] * len(rows), pa.int64())
        return made.drop_columns([KEY_HASH, *KEYS]).append_column(KEY_HASH, zeros)

    slow = Reference(
        closes=closes, corrected=corrected, wait=None if closes else wait, watermarked=True, max_records=records, max_bytes=size,
        when_full="emit_early" if early else "fail",
    )  # fmt: skip
    largest, clocked = reference.BEFORE, list[tuple[list[reference.Row], int]]()
    found: list[dict[str, Any]] = []
    for rows in batches:
        rows[:] = [r | {"size": random_.randint(0, 4), "close": r["close"] if closes else 0} for r in rows]
        clocked.append((rows, largest if largest > 0 else reference.BEFORE))
        largest = max([largest, *(r["t"] for r in rows if r["t"] is not None)])
    clocked.append(([], 300 * STEP))

    def run() -> None:
        for rows, watermark in clocked:
            found.extend(stream.run(together(random_.sample(rows, len(rows))), max(watermark, 0)))

    try:
        fates = slow.stream(clocked)
    except Full:
        with pytest.raises(BufferFull, match="F, `max_"):
            run()
        return
    run()
    got = Counter((r["id"], moment(r["at"]), r["why"]) for r in found if r.get(REASON) is None)
    known = [(f.row["id"], f.emit_time, f.emit_reason) for f in fates if f.outcome == "released"]
    assert got == Counter(known)
    assert stream.counts["suppression_emit_total"] == len(known)
    assert stream.counts["replaced_drop_total"] == sum(f.outcome == "replaced" for f in fates)
    assert stream.counts["suppression_buffer_entered_total"] - stream.counts["suppression_buffer_left_total"] == len(slow.buffer)
