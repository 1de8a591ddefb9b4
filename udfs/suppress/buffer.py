"""The buffer of suppress: rows as Arrow tables, in processing order, held until they are decided (`streamtime.udfs.suppress.decisions`).

Rows come in batches, which are gathered to chunks: some hundred thousand rows, more where more are held, so that what each chunk costs for
the held rows stays a constant for each row that comes. Of a held row only numbers are looked at; the row itself stays in the chunk it came
in until most of that chunk is gone, and is then copied out of it. Where the buffer spills, such parts lie in files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
    BufferedChanges,
    Decided,
    enforce,
    fullness,
)
from streamtime.udfs.suppress.merging import Merging
from streamtime.udfs.suppress.parts import Parts
from streamtime.udfs.suppress.until import Until

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
    until: Until
    time: str
    keys: tuple[str, ...]
    told: tuple[str, ...]  # the columns that tell keys apart
    clocks: tuple[str, ...]
    columns: tuple[str, ...]  # of rows that come out
    results: tuple[str, ...]  # columns that are added to them
    bounds: Bounds = Bounds()  # noqa: RUF009 - it is frozen
    at_end: str = "hold"
    output: str = "rows"
    merging: Merging | None = None

    @property
    def held(self) -> list[str]:
        """The columns of a held row."""
        return list(dict.fromkeys([*self.columns, *self.keys, self.time]))

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
class HeldRows:
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
    def none() -> HeldRows:
        """No rows."""
        empty = np.zeros(0, np.int64)
        return HeldRows(empty, empty, empty, empty, empty, empty.astype(bool), empty, empty)

    def fields(self) -> list[Any]:
        """The numbers."""
        return [self.first, self.second, self.place, self.due, self.arrived, self.deleted, self.sizes, self.refs]

    def some(self, rows: Ints) -> HeldRows:
        """Some of the rows."""
        return HeldRows(*(f[rows] for f in self.fields()))

    def and_then(self, others: HeldRows) -> HeldRows:
        """These rows, and others after them."""
        return HeldRows(*(np.concatenate(pair) for pair in zip(self.fields(), others.fields(), strict=True)))


@dataclass(frozen=True)
class Chunk:
    """Rows that are decided together: those that are held, then new ones."""

    rows: HeldRows
    taken: BufferedChanges  # what their fate hangs on
    decided: Decided
    table: pa.Table | None  # the new rows; None: there are none

    def moment(self, picked: Ints) -> Ints:
        """Stream time when each of these rows was decided; at the end of its clock, the last."""
        at = self.decided.at[picked] - (self.decided.why[picked] == END)
        moment: Ints = self.taken.stream_times[np.minimum(at, len(self.taken.stream_times) - 1)]
        return moment


class Buffer:
    """The rows that are held, of one clock; decides chunk by chunk."""

    def __init__(self, call: Suppress) -> None:
        self.call = call
        self.held = HeldRows.none()
        self.parts = Parts(call.bounds if call.bounds.spill else None)
        self.stream_time = LOWEST
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
        share = 4 if self.call.bounds.spill else 1  # a chunk lies in memory, whatever the bounds
        for table in tables:
            if table.num_rows:
                waiting, rows, size = [*waiting, table], rows + table.num_rows, size + table.nbytes
            if rows >= max(FEWEST_ROWS, len(self.held.refs) // share) or size >= MOST_BYTES:
                yield pa.concat_tables(waiting).combine_chunks()
                waiting, rows, size = [], 0, 0
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()

    def take(self, table: pa.Table) -> Iterator[Later]:
        """What a chunk decides, of its own rows and of held ones. The order of steps is Kafka's."""
        aside = self._timeless(table)
        if aside.any():
            if self.call.output != "rows":
                yield from self._aside(table.filter(pa.array(aside)))
            table = table.filter(pa.array(~aside))
        if not table.num_rows:
            return
        starts = self.boundaries.starts([one(table, c) for c in self.call.clocks], table.num_rows)
        if starts[0]:
            yield from self.ended()
        chunk = self._processed(table, groups.numbered(starts))
        self._enforce_constraints(chunk)
        yield from self._emitted(chunk)

    def ended(self) -> Iterator[Later]:
        """A clock is over: what is still held comes out or is held back [C7]."""
        count = len(self.held.refs)
        if count:
            outcome, after_all = np.full(count, RELEASED if self.call.at_end == "emit" else HELD), np.full(count, count)
            decided = Decided(after_all, outcome, np.full(count, END), self.held.place, self.held.due)
            taken = self._taken(self.held, np.zeros(0, np.int64), np.zeros(0, np.int64))
            yield from self._out(Chunk(self.held, taken, decided, None), np.arange(count))
        self.held, self.stream_time = HeldRows.none(), LOWEST
        self.parts.tidy(self.held.refs, self.held.sizes)

    def _timeless(self, table: pa.Table) -> Flags:
        """Rows without a time. Where they are not asked for, those without an event time are not here."""
        if ASIDE in table.column_names:
            return groups.as_flags(one(table, ASIDE))
        close = self.call.until.close
        return ~groups.valid([one(table, close)] if close is not None else [], table.num_rows)

    def _processed(self, table: pa.Table, clock: Ints) -> Chunk:
        """New rows move stream time and are buffered; then it is known what becomes of each, and of those held."""
        call, times = self.call, groups.micros(one(table, self.call.time))
        stream_times = times.copy()
        stream_times[0] = max(int(times[0]), self.stream_time)
        stream_times = groups.running_max(clock, stream_times) if clock[-1] else np.maximum.accumulate(stream_times)
        if call.output == "metrics":
            self.counts.arrived(times, stream_times)
        rows = self.held.and_then(self._buffered(table, stream_times))
        taken = self._taken(rows, clock, stream_times)
        decided = call.until.decided(taken, call.bounds, rows.sizes, lambda: self._ranks(rows))
        return Chunk(replace(rows, place=decided.place, due=decided.due), taken, decided, table)

    def _buffered(self, table: pa.Table, stream_times: Ints) -> HeldRows:
        """New rows as numbers; the rows themselves become a part."""
        call, length = self.call, table.num_rows
        place, due = call.until.places(table, call.time)
        deleted = groups.as_flags(one(table, DELETED)) if DELETED in table.column_names else np.zeros(length, bool)
        sizes = groups.as_ints(one(table, BYTES)) if BYTES in table.column_names else np.zeros(length, np.int64)
        refs = self.parts.add(table.select(call.held))
        first, second = halves([one(table, k) for k in call.told], length, self.secret)
        return HeldRows(first, second, place, due, stream_times, deleted, sizes, refs)

    def _taken(self, rows: HeldRows, clock: Ints, stream_times: Ints) -> BufferedChanges:
        """What the fate of rows hangs on; clocks and stream times are those of the new ones."""
        held = len(rows.refs) - len(clock)
        return BufferedChanges(
            first=rows.first,
            second=rows.second,
            clock=np.concatenate((np.zeros(held, np.int64), clock)),
            stream_times=np.concatenate((np.full(held, self.stream_time), stream_times)),
            place=rows.place,
            due=rows.due,
            new=held,
        )

    def _ranks(self, rows: HeldRows) -> Ints:
        """The keys of rows, numbered in their own order."""
        keys = list(self.call.keys)
        gathered = self.parts.gathered(rows.refs, keys) if keys else pa.table({"none": pa.nulls(len(rows.refs), pa.int64())})
        return ranks(gathered, [By(k) for k in keys])

    def _enforce_constraints(self, chunk: Chunk) -> None:
        """How full the buffer is after each row: for the metrics, and against the bounds."""
        call, sizes = self.call, chunk.rows.sizes
        if call.output == "metrics":
            self.counts.held(*fullness(chunk.taken, chunk.decided, sizes))
        enforce(call.function, call.bounds, chunk.taken, chunk.decided, sizes)

    def _emitted(self, chunk: Chunk) -> Iterator[Later]:
        """Rows whose fate is known leave; the others are held. Of clocks that ended within the chunk, nothing is."""
        decided, clock = chunk.decided, chunk.taken.clock
        gone = decided.outcome != HELD
        ended = ~gone & (clock < clock[-1])
        if ended.any() and self.call.at_end == "emit":
            decided.outcome[ended], decided.why[ended] = RELEASED, END
        self.stream_time = int(chunk.taken.stream_times[-1])
        yield from self._out(chunk, np.flatnonzero(gone | ended))
        self.held = chunk.rows.some(np.flatnonzero(~gone & ~ended))
        self.parts.tidy(self.held.refs, self.held.sizes)

    def _out(self, chunk: Chunk, picked: Ints) -> Iterator[Later]:
        """The decided rows that the output asks for, in the order in which they were decided; the oldest place first, then by key."""
        call, decided, rows = self.call, chunk.decided, chunk.rows
        outcome = decided.outcome[picked]
        drops = call.until.dropped(rows.deleted[picked], rows.arrived[picked], decided.due[picked])
        outcome[drops & (outcome == RELEASED)] = TOMBSTONE
        came = outcome == RELEASED
        if call.output == "metrics":
            self._count(outcome, rows.sizes[picked])
            limited = picked[came & (decided.due[picked] < HIGHEST)]
            self.counts.released(chunk.moment(limited), decided.due[limited])
            return
        if call.output in ("rows", "dropped"):
            wanted = came == (call.output == "rows")
            picked, outcome = picked[wanted], outcome[wanted]
        if not len(picked):
            return
        turn = 2 * decided.at[picked] - (decided.why[picked] == END)  # what a clock's end releases comes before the next clock's first row
        keys, refs = [By(k) for k in call.keys], rows.refs[picked]
        order = sorted_by([turn, decided.place[picked]], keys, lambda tied: self.parts.gathered(refs[tied], call.keys))
        gathered = self.parts.later(refs[order], call.held)
        yield functools.partial(self._with_results, gathered, outcome[order], chunk, picked[order])

    def _with_results(self, rows_then: Later, outcome: Ints, chunk: Chunk, picked: Ints) -> pa.Table:
        """Decided rows with the columns that are added to them."""
        rows, decided, table = rows_then(), chunk.decided, chunk.table
        kind, count = rows.schema.field(self.call.time).type, len(picked)
        at, why, due = decided.at[picked], decided.why[picked], decided.due[picked]
        came, at_end = outcome == RELEASED, (decided.outcome[picked] == RELEASED) & (why == END)
        open_, moment = (outcome == HELD) | at_end, chunk.moment(picked)
        made = {
            OUTCOME: lambda: pa.array(OUTCOMES).take(pa.array(outcome)),
            ARRIVED: lambda: groups.times(chunk.rows.arrived[picked], np.zeros(count, bool), kind),
            EMIT_TIME: lambda: groups.times(moment, ~came, kind),
            EMIT_REASON: lambda: pa.array(self.call.until.reasons).take(pa.array(why, mask=~came)),
            DECIDED_AT: lambda: groups.times(moment, outcome == HELD, kind),
            DECIDED_BY: lambda: (
                pa.nulls(count, pa.string()) if table is None else one(table, ORDER).take(pa.array(at - chunk.taken.new, mask=open_))
            ),
            DUE_AT: lambda: groups.times(due, due == HIGHEST, kind),
        }
        rows = rows.select(list(self.call.columns))
        for name in self.call.results:
            rows = rows.append_column(name, made[name]())
        return rows

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
        aside = table.select(list(self.call.columns))
        for name in self.call.results:
            aside = aside.append_column(name, made[name] if name in made else pa.nulls(count, kind))
        yield lambda: aside

    def _count(self, outcome: Ints, sizes: Ints) -> None:
        self.counts.totals += np.bincount(outcome, minlength=len(OUTCOMES))
        self.counts.count[0] += int((outcome == HELD).sum())
        self.counts.size[0] += int(sizes[outcome == HELD].sum())


def sent(tables: Iterator[Later]) -> Iterator[pa.RecordBatch]:
    """Tables as batches of a size that suits Spark."""
    for table in tables:
        yield from table().combine_chunks().to_batches(max_chunksize=SENT_ROWS)
