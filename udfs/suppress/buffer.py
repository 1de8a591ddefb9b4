"""The buffer of suppress: rows as Arrow tables, in processing order, held until they are decided (`streamtime.udfs.suppress.decisions`).

Rows come in batches, which are gathered to chunks: some hundred thousand rows, more where more are held, so that what each chunk costs for
the held rows stays a constant for each row that comes. Of a held row only numbers are looked at; the row itself stays in the chunk it came
in until most of that chunk is gone, and is then copied out of it. Where the buffer spills, such parts lie in files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import ahead
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import By, one, ranks, sorted_by
from streamtime.udfs.keys import halves, new_secret
from streamtime.udfs.suppress.counts import Counts
from streamtime.udfs.suppress.decisions import (
    END,
    HELD,
    NULL_TIME,
    OUTCOMES,
    RELEASED,
    TOMBSTONE,
    Bounds,
    Decided,
    Rows,
    after_each,
    emitting_early,
    refuse_full,
    until_close,
    until_time_limit,
)
from streamtime.udfs.suppress.merging import Merging
from streamtime.udfs.suppress.parts import Parts

DELETED, BYTES, ASIDE, ORDER = (f"__streamtime_{name}" for name in ("deleted", "bytes", "aside", "by"))
OUTCOME, ARRIVED, EMIT_TIME, EMIT_REASON, DECIDED_AT, DECIDED_BY, DUE_AT = (
    f"__streamtime_{name}" for name in ("outcome", "stream_time", "emit_time", "emit_reason", "decided_at", "decided_by", "due")
)
FEWEST_ROWS, MOST_BYTES, SENT_ROWS = 1 << 17, 1 << 26, 1 << 16
AHEAD, CHUNKS_AHEAD = 8, 2  # pieces that are made before they are asked for
Later = Callable[[], pa.Table]  # rows that are known, and still to be gathered


@dataclass(frozen=True)
class Suppress:
    """A call, as the rows' columns and plain values. A helper column that a call does not need is not there."""

    function: str
    time: str
    keys: tuple[str, ...]
    told: tuple[str, ...]  # the columns that tell keys apart
    clocks: tuple[str, ...]
    kept: tuple[str, ...]  # columns of rows that come out
    results: tuple[str, ...]  # columns that are added to them
    wait: int = 0
    close: str | None = None  # the column from which a window's close is known; None: until the time limit
    after: int = 0  # how long after the time in that column it closes
    at_end: str = "hold"
    output: str = "rows"
    when_full: str | None = None
    records: int | None = None
    bytes: int | None = None
    merging: Merging | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of a task, sorted by clock and processing order; gives decided rows, as they are decided, or the counts."""
        return self._over(pa.Table.from_batches([batch]) for batch in batches)

    def run_merged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same over sorted runs, where there is one clock."""
        assert self.merging is not None
        return self._over(ahead(self.merging.merge(batches), AHEAD))

    def _over(self, tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Rows are merged, decided, gathered and sent by threads of their own, none of which waits for another."""
        return ahead(sent(ahead(self._decided(tables), CHUNKS_AHEAD)), AHEAD)

    def _decided(self, tables: Iterator[pa.Table]) -> Iterator[Later]:
        with Buffer(self) as buffer:
            for table in buffer.chunks(tables):
                yield from buffer.take(table)
            yield from buffer.ended()
            if self.output == "metrics":
                yield lambda: pa.Table.from_batches([buffer.counts.batch()])


@dataclass
class Held:
    """Rows as numbers, and where each lies (`streamtime.udfs.suppress.parts`)."""

    first: Ints
    second: Ints
    place: Ints
    due: Ints
    arrived: Ints
    deleted: Flags
    sizes: Ints
    refs: Ints

    @staticmethod
    def none() -> Held:
        """No rows."""
        empty = np.zeros(0, np.int64)
        return Held(empty, empty, empty, empty, empty, empty.astype(bool), empty, empty)

    def fields(self) -> list[Any]:
        """The numbers."""
        return [self.first, self.second, self.place, self.due, self.arrived, self.deleted, self.sizes, self.refs]

    def some(self, rows: Ints) -> Held:
        """Some of the rows."""
        return Held(*(f[rows] for f in self.fields()))

    def and_then(self, others: Held) -> Held:
        """These rows, and others after them."""
        return Held(*(np.concatenate(pair) for pair in zip(self.fields(), others.fields(), strict=True)))


class Buffer:
    """The rows that are held, of one clock; decides chunk by chunk."""

    def __init__(self, call: Suppress) -> None:
        self.call = call
        self.held = Held.none()
        self.parts = Parts(Bounds(call.records, call.bytes) if call.when_full == "spill" else None)
        self.stream = LOWEST
        self.secret = new_secret()
        self.boundaries = groups.Boundaries()
        self.counts = Counts()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.parts.close()

    def chunks(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Tables gathered, as many rows as what is held asks for."""
        waiting, rows, size = list[pa.Table](), 0, 0
        share = 4 if self.call.when_full == "spill" else 1  # a chunk lies in memory, whatever the bounds
        for table in tables:
            if table.num_rows:
                waiting, rows, size = [*waiting, table], rows + table.num_rows, size + table.nbytes
            if rows >= max(FEWEST_ROWS, len(self.held.refs) // share) or size >= MOST_BYTES:
                yield pa.concat_tables(waiting).combine_chunks()
                waiting, rows, size = [], 0, 0
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()

    def take(self, table: pa.Table) -> Iterator[Later]:
        """What a chunk decides: its own rows, and held ones."""
        call = self.call
        aside = self._timeless(table)
        if aside.any():
            if call.output != "rows":
                yield from self._aside(table.filter(pa.array(aside)))
            table = table.filter(pa.array(~aside))
        if not table.num_rows:
            return
        starts = self.boundaries.starts([one(table, c) for c in call.clocks], table.num_rows)
        if starts[0]:
            yield from self.ended()
        held, times = len(self.held.refs), groups.micros(one(table, call.time))
        clock = groups.numbered(starts)
        stream = times.copy()
        stream[0] = max(int(times[0]), self.stream)
        stream = groups.running_max(clock, stream) if clock[-1] else np.maximum.accumulate(stream)
        new = self._numbers(table, times, stream)
        last = self.stream if held else int(stream[0])
        rows = self.held.and_then(new)
        taken = Rows(
            first=rows.first,
            second=rows.second,
            clock=np.concatenate((np.zeros(held, np.int64), clock)),
            stream=np.concatenate((np.full(held, last), stream)),
            place=rows.place,
            due=rows.due,
            new=held,
        )
        decided = self._decided(taken, rows)
        rows = Held(rows.first, rows.second, decided.place, decided.due, rows.arrived, rows.deleted, rows.sizes, rows.refs)
        self._measure(taken, decided, rows.sizes)
        if call.output == "metrics":
            self.counts.arrived(times, stream)
        gone = decided.outcome != HELD
        ended = ~gone & (taken.clock < clock[-1])
        if ended.any() and call.at_end == "emit":
            decided.outcome[ended], decided.why[ended] = RELEASED, END
        self.stream = int(stream[-1])
        yield from self._out(rows, decided, np.flatnonzero(gone | ended), taken.stream, table)
        self.held = rows.some(np.flatnonzero(~gone & ~ended))
        self.parts.tidy(self.held.refs, self.held.sizes)

    def ended(self) -> Iterator[Later]:
        """A clock is over: what is still held comes out or is kept back [C7]."""
        count = len(self.held.refs)
        if count:
            emits = self.call.at_end == "emit"
            outcome, nothing = np.full(count, RELEASED if emits else HELD), np.full(count, count)
            decided = Decided(nothing, outcome, np.full(count, END), self.held.place, self.held.due)
            yield from self._out(self.held, decided, np.arange(count), np.full(count, self.stream), None)
        self.held, self.stream = Held.none(), LOWEST
        self.parts.tidy(self.held.refs, self.held.sizes)

    def _timeless(self, table: pa.Table) -> Flags:
        """Rows without a time. Where they are not asked for, those without an event time are not here."""
        if ASIDE in table.column_names:
            return groups.as_flags(one(table, ASIDE))
        return ~groups.valid([one(table, self.call.close)] if self.call.close is not None else [], table.num_rows)

    def _numbers(self, table: pa.Table, times: Ints, stream: Ints) -> Held:
        """New rows as numbers; the rows themselves become a part."""
        call, length = self.call, table.num_rows
        if call.close is not None:
            due = place = groups.plus(groups.micros(one(table, call.close)), call.after)
        else:
            place, due = times, np.full(length, HIGHEST) if call.wait == HIGHEST else groups.plus(times, call.wait)
            if call.wait == 0:  # nothing waits, at the end of TIMESTAMP neither
                due = np.minimum(due, HIGHEST - 1)
        deleted = groups.as_flags(one(table, DELETED)) if DELETED in table.column_names else np.zeros(length, bool)
        sizes = groups.as_ints(one(table, BYTES)) if BYTES in table.column_names else np.zeros(length, np.int64)
        refs = self.parts.add(table.select(list(dict.fromkeys([*call.kept, *call.keys, call.time]))))
        first, second = halves([one(table, k) for k in call.told], length, self.secret)
        return Held(first, second, place, due, stream, deleted, sizes, refs)

    def _decided(self, taken: Rows, rows: Held) -> Decided:
        call = self.call
        if call.close is not None:
            return until_close(taken)
        if call.when_full != "emit_early":
            return until_time_limit(taken)
        keys = self.parts.gathered(rows.refs, call.keys) if call.keys else pa.table({"none": pa.nulls(len(rows.refs), pa.int64())})
        rank = ranks(keys, [By(k) for k in call.keys])
        return emitting_early(taken, Bounds(call.records, call.bytes), rows.sizes, rank)

    def _measure(self, taken: Rows, decided: Decided, sizes: Ints) -> None:
        """How full the buffer is after each row: for the metrics, and against the bounds."""
        call = self.call
        if call.output != "metrics" and call.when_full != "fail":
            return
        count = after_each(decided, np.ones(len(sizes), np.int64), taken.new)
        size = after_each(decided, sizes, taken.new)
        if call.output == "metrics":
            self.counts.held(count, size)
        if call.when_full == "fail":
            refuse_full(call.function, Bounds(call.records, call.bytes), count, size, taken.stream[taken.new :])

    def _out(self, rows: Held, decided: Decided, picked: Ints, stream: Ints, table: pa.Table | None) -> Iterator[Later]:
        """The decided rows that the output asks for, in the order in which they were decided; the oldest place first, then by key."""
        call = self.call
        outcome = decided.outcome[picked]
        if call.close is not None:
            outcome[rows.deleted[picked] & (outcome == RELEASED)] = TOMBSTONE
        came = outcome == RELEASED
        if call.output == "metrics":
            self._count(outcome, rows.sizes[picked])
            limited = picked[came & (decided.due[picked] < HIGHEST)]
            self.counts.released(self._moment(decided, stream, limited), decided.due[limited])
            return
        if call.output in ("rows", "dropped"):
            wanted = came == (call.output == "rows")
            picked, outcome = picked[wanted], outcome[wanted]
        if not len(picked):
            return
        turn = 2 * decided.at[picked] - (decided.why[picked] == END)  # what a clock's end releases comes before the next clock's first row
        keys, refs = [By(k) for k in call.keys], rows.refs[picked]
        order = sorted_by([turn, decided.place[picked]], keys, lambda tied: self.parts.gathered(refs[tied], call.keys))
        found = self.parts.later(refs[order], tuple(dict.fromkeys([*call.kept, *call.keys, call.time])))
        held = len(self.held.refs)
        yield functools.partial(self._with_results, found, outcome[order], decided, rows, picked[order], stream, table, held)

    def _with_results(
        self, rows_then: Later, outcome: Ints, decided: Decided, rows: Held, picked: Ints, stream: Ints, table: pa.Table | None, held: int
    ) -> pa.Table:
        found = rows_then()
        kind = found.schema.field(self.call.time).type
        at, why = decided.at[picked], decided.why[picked]
        came, at_end = outcome == RELEASED, (decided.outcome[picked] == RELEASED) & (why == END)
        open_ = (outcome == HELD) | at_end
        moment = self._moment(decided, stream, picked)
        reasons = pa.array(["time" if self.call.close is None else "close", "full", "end"])
        made = {
            OUTCOME: lambda: pa.array(OUTCOMES).take(pa.array(outcome)),
            ARRIVED: lambda: groups.times(rows.arrived[picked], np.zeros(len(at), bool), kind),
            EMIT_TIME: lambda: groups.times(moment, ~came, kind),
            EMIT_REASON: lambda: reasons.take(pa.array(why, mask=~came)),
            DECIDED_AT: lambda: groups.times(moment, outcome == HELD, kind),
            DECIDED_BY: lambda: (
                pa.nulls(len(at), pa.string()) if table is None else one(table, ORDER).take(pa.array(at - held, mask=open_))
            ),
            DUE_AT: lambda: groups.times(decided.due[picked], decided.due[picked] == HIGHEST, kind),
        }
        found = found.select(list(self.call.kept))
        for name in self.call.results:
            found = found.append_column(name, made[name]())
        return found

    @staticmethod
    def _moment(decided: Decided, stream: Ints, picked: Ints) -> Ints:
        """Stream time when each of the rows was decided; at the end of its clock, the last."""
        at = decided.at[picked] - (decided.why[picked] == END)
        moment: Ints = stream[np.minimum(at, len(stream) - 1)]
        return moment

    def _aside(self, table: pa.Table) -> Iterator[Later]:
        """Rows without a time: dropped as they come."""
        count = table.num_rows
        if self.call.output == "metrics":
            self._count(np.full(count, NULL_TIME), np.zeros(count, np.int64))
            return
        kind = table.schema.field(self.call.time).type
        made = {
            OUTCOME: pa.array([OUTCOMES[NULL_TIME]] * count, pa.string()),
            EMIT_REASON: pa.nulls(count, pa.string()),
            DECIDED_BY: table.column(ORDER) if ORDER in table.column_names else None,
        }
        found = table.select(list(self.call.kept))
        for name in self.call.results:
            found = found.append_column(name, made[name] if name in made else pa.nulls(count, kind))
        yield lambda: found

    def _count(self, outcome: Ints, sizes: Ints) -> None:
        self.counts.totals += np.bincount(outcome, minlength=len(OUTCOMES))
        self.counts.count[0] += int((outcome == HELD).sum())
        self.counts.size[0] += int(sizes[outcome == HELD].sum())


def sent(tables: Iterator[Later]) -> Iterator[pa.RecordBatch]:
    """Tables as batches of a size that suits Spark."""
    for table in tables:
        yield from table().combine_chunks().to_batches(max_chunksize=SENT_ROWS)
