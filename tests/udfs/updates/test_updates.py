"""WINDOW_UPDATES and SESSION_UPDATES without Spark: batches cut anywhere, streams cut anywhere, against the slow definition.

Catches: rows added to the wrong window or session, states lost between batches, merges in the wrong order, deletes missed or doubled,
windows closed one microsecond early or late, numbers that start anew where a batch ends.
"""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.inputs.micro_batches import KEYS, STEP, HoldingStream, some_stream, table
from support.inputs.updates_rows import some_rows
from support.reference import BEFORE, in_micro_batches
from support.reference import updates as slow

from streamtime.sql.stream.buckets import Holding
from streamtime.sql.stream.packing import ASIDE
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.updates import in_batch, sliding_updates, window_updates
from streamtime.udfs.updates.aggregates import aggregate
from streamtime.udfs.updates.in_batch import PerRow, Sorted
from streamtime.udfs.updates.session_updates import SessionUpdates
from streamtime.udfs.updates.sliding_updates import SlidingUpdates
from streamtime.udfs.updates.updates import DELETED, ChangeColumns, Updates
from streamtime.udfs.updates.window_updates import WindowUpdates

MOMENT = pa.timestamp("us")
AGGREGATES = (
    (aggregate("rows", "count"), None),
    (aggregate("n", "count", "v"), None),
    (aggregate("total", "sum", "v"), None),
    (aggregate("low", "min", "v"), None),
    (aggregate("high", "max", "v"), None),
    (aggregate("mean", "avg", "v"), pa.float64()),
    (aggregate("head", "first", "v"), None),
    (aggregate("tail", "last", "v"), None),
    (aggregate("all", "collect_list", "v"), None),
)
NAMES = [a.name for a, _ in AGGREGATES]


def layout(order: str, final: bool) -> ChangeColumns:
    carried = tuple(dict.fromkeys(["k", order]))
    return ChangeColumns(carried, (order,), ("start", "end"), AGGREGATES, "t", MOMENT, final)


def cut(random_: random.Random, table: pa.Table) -> Iterator[pa.RecordBatch]:
    at = 0
    while at < table.num_rows:
        step = random_.choice([1, 2, 7, 30])
        yield from table.slice(at, step).combine_chunks().to_batches()
        at += step


def columns(rows: slow.Clocked) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([r["k"] for r, _ in rows], pa.string()),
            "t": pa.array([r["t"] for r, _ in rows], MOMENT),
            "off": pa.array([r["off"] for r, _ in rows], pa.int64()),
            "v": pa.array([r["v"] for r, _ in rows], pa.int64()),
            "clock": pa.array([c for _, c in rows], MOMENT),
        }
    )


def micros(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else int((np.datetime64(value, "us") - np.datetime64(0, "us")).astype(int))


def plain(row: dict[str, Any], order: str) -> tuple[Any, ...]:
    bounds = tuple(micros(row[n]) for n in ("start", "end", "window_close", "change_time"))
    values = None if row["change_type"] == "delete" else tuple(row[n] for n in NAMES)
    assert row["change_type"] == "upsert" or all(row[n] is None for n in NAMES)
    return (row["k"], micros(row[order]), *bounds, row["change_seq"], repr(values))


def expected(change: slow.Change, order: str) -> tuple[Any, ...]:
    return (change.row["k"], change.row[order], change.start, change.end, change.close, change.time, change.seq, repr(change.values))


def function(random_: random.Random, order: str, final: bool, unit: int = 1) -> tuple[Updates, Any]:
    grace = random_.choice([0, 0, 3, 12]) * unit
    if random_.random() < 0.5:
        gap = random_.choice([0, 1, 3]) * unit
        return SessionUpdates(layout(order, final), gap, grace), lambda rows, by: slow.sessions(rows, by, gap, grace)
    if random_.random() < 0.5:
        difference = random_.choice([0, 1, 4]) * unit
        return SlidingUpdates(layout(order, final), difference, grace), lambda rows, by: slow.sliding_windows(rows, by, difference, grace)
    size = random_.choice([1, 5, 8]) * unit
    slide = random_.choice([size, unit, 3 * unit])
    slide = min(slide, size)
    return WindowUpdates(layout(order, final), size, slide, grace), lambda rows, by: slow.time_windows(rows, by, size, slide, grace)


def few_at_once(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    most, rows = [(1, 1000), (7, 5), (1 << 19, 1 << 16)][seed % 3]
    monkeypatch.setattr(sliding_updates, "ROWS", rows)
    monkeypatch.setattr(sliding_updates, "MOST", most)
    monkeypatch.setattr(window_updates, "MOST", most)


@pytest.mark.parametrize("seed", range(160))
def test_changes_and_final_rows_are_what_the_slow_definition_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    few_at_once(monkeypatch, seed)
    monkeypatch.setattr(in_batch, "CHUNK", random_.choice([1, 10, 1000]))
    order = random_.choice(["t", "off", "off"])
    rows = slow.clocked(some_rows(random_, random_.choice([1, 30, 80])), [order], [])
    final = random_.random() < 0.4
    updates, slowly = function(random_, order, final)
    judged = slowly(rows, [order])
    taking = [(r, c) for r, c in rows if slow.takes_part(r, [order])]
    taking.sort(key=lambda pair: pair[0]["k"])
    run = Sorted(updates, ("k",), "clock")
    out = list(run.run(cut(random_, columns(taking))))
    got = [plain(row, order) for batch in out for row in batch.to_pylist()]
    if final:
        fewer = replace(run, wanted=("window_close", "k")).run(cut(random_, columns(taking)))
        some = [tuple(row.items()) for batch in fewer for row in batch.to_pylist()]
        assert sorted(some) == sorted((("window_close", r["window_close"]), ("k", r["k"])) for batch in out for r in batch.to_pylist())
        wanted = [expected(c, order) for c, _ in slow.final(judged, rows)]
        assert sorted(got, key=repr) == sorted(wanted, key=repr), updates
    else:
        wanted = [expected(c, order) for c in judged.changes]
        for key in "abc":
            assert [g for g in got if g[0] == key] == [w for w in wanted if w[0] == key], updates


@pytest.mark.parametrize("seed", range(110))
def test_keys_that_share_a_hash_mix_and_changes_come_beside_their_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    few_at_once(monkeypatch, seed)
    monkeypatch.setattr(in_batch, "CHUNK", random_.choice([1, 10, 1000]))
    order, final = random_.choice(["t", "off"]), random_.random() < 0.3
    rows = slow.clocked(some_rows(random_, random_.choice([1, 30, 80])), [order], [])
    updates, slowly = function(random_, order, final)
    judged = slowly(rows, [order])
    hashes = dict(zip("abc", random_.choice([(1, 1, 1), (1, 2, 1), (1, 2, 3)]), strict=True))
    taking = [(r, c) for r, c in rows if slow.takes_part(r, [order])]
    taking.sort(key=lambda pair: (hashes[pair[0]["k"]], pair[1]))  # stream time never falls, so that each key's rows stay in order
    given = columns(taking).append_column("h", pa.array([hashes[r["k"]] for r, _ in taking], pa.int32()))
    run = Sorted(updates, ("k",), "clock", hashed="h")
    if final:
        got = [plain(row, order) for batch in run.run(cut(random_, given)) for row in batch.to_pylist()]
        wanted = [expected(c, order) for c, _ in slow.final(judged, rows)]
        assert sorted(got, key=repr) == sorted(wanted, key=repr), updates
        return
    beside = replace(run, updates=replace(updates, layout=replace(updates.layout, carried=(), beside=True)))  # type: ignore[type-var]
    made = ("start", "end", *NAMES, "window_close", "change_time", "change_seq", DELETED)
    kernel = PerRow(beside, tuple(given.column_names), made)
    lists = [found for array in kernel.run(tuple(b.columns) for b in cut(random_, given)) for found in array.to_pylist()]
    assert len(lists) == len(taking)
    flat = [
        {"k": row["k"], order: row[order], "change_type": "delete" if change[DELETED] else "upsert"} | change
        for (row, _), found in zip(taking, lists, strict=True)
        for change in found
    ]
    wanted = [expected(c, order) for c in judged.changes]
    for key in "abc":
        assert [plain(f, order) for f in flat if f["k"] == key] == [w for w in wanted if w[0] == key], updates


@pytest.mark.parametrize("seed", range(110))
def test_on_a_stream_changes_come_and_final_rows_leave_as_the_slow_definition_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    few_at_once(monkeypatch, seed)
    order, final, delay = random_.choice(["t", "id"]), random_.random() < 0.5, random_.choice([0, 0, 4]) * STEP
    batches, seen = some_stream(random_), BEFORE
    for number, rows in enumerate(batches):
        for row in rows:
            row |= {"v": row.pop("off"), "batch": number}
    updates, slowly = function(random_, order, final, STEP)
    clocked = in_micro_batches(batches, [order], delay, STEP)
    judged = slowly(clocked, [order])
    ties = (By("id" if order == "t" else "t"),)
    stream = HoldingStream(Holding("F", updates, KEYS, {}, "t", (By(order),), ties, ("null_time", "null_key"), (), "rows"))
    got, watermarks = [], []
    for rows in [*batches, [], []]:
        watermark = max(seen - delay, 0)
        watermarks.append(watermark)
        aside = [1 if r["t"] is None else 2 if r["k"] is None else -1 for r in rows]
        columns = table(rows).drop_columns([ASIDE]).append_column(ASIDE, pa.array(aside, pa.int32()))
        columns = columns.append_column("v", pa.array([r["v"] for r in rows], pa.int64()))
        shuffled = columns.take(pa.array(random_.sample(range(len(rows)), len(rows)), pa.int64()))
        got += [(*plain(r, order), micros(r.get("emit_time")), r.get("emit_reason")) for r in stream.run(shuffled, watermark)]
        seen = max([seen, *(r["t"] for r in rows if r["t"] is not None)]) if rows else 10**9  # the watermark passes all
    if final:
        released = [(c, next(w for w in watermarks if w >= c.close and w > 0)) for c, _ in slow.final(judged, clocked)]
        wanted = [(*expected(c, order), at, "close") for c, at in released]
    else:
        wanted = [(*expected(c, order), None, None) for c in judged.changes]
    assert Counter(got) == Counter(wanted), updates
    assert stream.counts["late_drop_total"] == len(judged.late)
    assert stream.counts["null_time_drop_total"] + stream.counts["null_key_drop_total"] == len(judged.aside)
    assert not stream.held()


MANY = [SlidingUpdates(layout("t", False), 49, 0), WindowUpdates(layout("t", False), 200, 1, 0)]


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("updates", MANY, ids=["sliding", "hopping"])
def test_memory_does_not_grow_with_what_rows_touch(updates: Any, final: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (sliding_updates, window_updates):
        monkeypatch.setattr(room, "MOST", 1 << 13)
    few = replace(updates.layout, aggregates=AGGREGATES[:3], final=final)
    rows = pa.table({"k": ["a"] * 200, "t": pa.array(range(200), MOMENT), "v": range(200)})
    given = rows.append_column("clock", rows.column("t"))
    tracemalloc.start()
    try:
        count = sum(len(b) for b in Sorted(replace(updates, layout=few), ("k",), "clock").run(iter(given.to_batches())))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count > (240 if final else 8_000)
    assert peak < 3_000_000
