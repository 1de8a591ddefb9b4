"""What SESSION_UPDATES and WINDOW_UPDATES share: rows added up in chains, changes numbered and laid out (rules W5, W6, C10), final rows.

A chain is what is added up row by row: a window, or a session as long as it only grows. Where sessions merge, a new chain begins with what
they came to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import Closing
from streamtime.udfs.state import KEY, LIVES_BY, Entries, Taken
from streamtime.udfs.updates.aggregates import Aggregate, Segments, State

END, START, CHANGED = LIVES_BY - KEY, 1, 2  # the numbers of an entry; CHANGED: the largest event time in it
DELETE, UPSERT = 0, 1
TYPES = pa.array(["delete", "upsert"])
SEQ, DELETED = "change_seq", "__streamtime_deleted"
HELD = "__streamtime_state_"  # what the states of aggregates are held under, beside columns of any name
MOST = 1 << 19  # changes at once, or what they are merged from: one row may cause thousands


@dataclass(frozen=True)
class Parents:
    """What chains begin with: `child` (rising) begins with `parent`, a chain, or where it is negative the entry ~parent that was held."""

    child: Ints
    parent: Ints

    @staticmethod
    def held(child: Ints, entry: Ints) -> Parents:
        """Chains that go on with held entries."""
        return Parents(child, ~entry)


@dataclass(frozen=True)
class ChangeColumns:
    """The columns of changes."""

    carried: tuple[str, ...]  # the columns of the row that caused a change: keys, clock_by and ORDER BY columns
    ordered: tuple[str, ...]  # those of them among which changes are numbered: the ORDER BY columns
    bounds: tuple[str, str]
    aggregates: tuple[tuple[Aggregate, pa.DataType | None], ...]  # with the type of an average
    time: str
    kind: pa.DataType  # the type of the event time
    final: bool  # one row for each window, once it is closed, instead of all changes
    beside: bool = False  # changes stand beside their rows: without what is carried, and with `DELETED` in place of `change_type`
    last_changes: bool = False  # a final row is a window's last change, and has its number

    def __post_init__(self) -> None:
        names = [*self.carried, *self.bounds, *(a.name for a, _ in self.aggregates)]
        assert len(set(names)) == len(names)

    @property
    def of_one_row(self) -> bool:
        """Whether `change_seq` counts the changes of one input row, and not those of all rows with the same ORDER BY values."""
        return self.final and not self.last_changes

    def states(self, payload: pa.RecordBatch | None, count: int, rows: pa.Table) -> list[State]:
        """The states of held entries, aggregate by aggregate."""
        kinds = [one(rows, a.column).type if a.column else pa.null() for a, _ in self.aggregates]
        empty = [a.empty(kind, count) for (a, _), kind in zip(self.aggregates, kinds, strict=True)]
        if payload is None or not count:
            return empty
        return [{field: payload.column(f"{HELD}{i}.{field}") for field in state} for i, state in enumerate(empty)]

    def payload(self, states: Sequence[State], rows: pa.Table, last: Ints, seq: Ints) -> pa.RecordBatch:
        """What is held of windows: their states, and where only final rows leave, the columns of the last change."""
        columns = {f"{HELD}{i}.{field}": column for i, state in enumerate(states) for field, column in state.items()}
        if self.final:
            at = pa.array(last)
            columns |= {name: one(rows, name).take(at) for name in self.carried} | {SEQ: pa.array(seq)}
        return pa.RecordBatch.from_pydict(columns)

    def table(
        self, carried: dict[str, pa.Array], windows: Windows, results: Sequence[pa.Array], seq: pa.Array, emit: int | None
    ) -> pa.Table:
        """Changes, or final rows."""
        kind = moments(self.kind)
        made = {name: pa.array(bound).cast(kind) for name, bound in zip(self.bounds, (windows.start, windows.end), strict=True)}
        made |= {a.name: result for (a, _), result in zip(self.aggregates, results, strict=True)}
        made["window_close"] = pa.array(windows.close).cast(kind)
        if self.beside:
            made[DELETED] = pa.array(windows.type == DELETE)
        else:
            made["change_type"] = TYPES.take(pa.array(windows.type))
        made["change_time"] = pa.array(windows.changed).cast(kind)
        made[SEQ] = seq
        if emit is not None:
            made["emit_time"] = pa.array(np.full(len(seq), emit)).cast(kind)
            made["emit_reason"] = pa.array(["close"]).take(pa.array(np.zeros(len(seq), np.int64)))
        return pa.table(carried | made)

    def released(self, due: Entries, close: Ints, emit: int | None) -> pa.Table:
        """The final rows of windows that are closed; `emit` is when they leave, on a stream."""
        assert due.payload is not None
        held = due.payload
        states = [
            {c.removeprefix(prefix): held.column(c) for c in held.schema.names if c.startswith(prefix)}
            for prefix in (f"{HELD}{i}." for i in range(len(self.aggregates)))
        ]
        results = [a.result(state, result) for (a, result), state in zip(self.aggregates, states, strict=True)]
        matrix = due.matrix
        windows = Windows(matrix[START], matrix[END], close, np.full(len(due), UPSERT), matrix[CHANGED])
        return self.table({n: held.column(n) for n in self.carried}, windows, results, held.column(SEQ), emit)


@dataclass(frozen=True)
class Windows:
    """The bounds of changes, in microseconds."""

    start: Ints
    end: Ints
    close: Ints
    type: Ints
    changed: Ints


def moments(kind: pa.DataType) -> pa.DataType:
    """The type of bounds: a window may end within a day."""
    return pa.timestamp("us") if pa.types.is_date(kind) else kind


@dataclass(frozen=True)
class Sums:
    """What chains come to: after each item, where that was asked for; and in the end."""

    per_item: list[State]
    pools: list[State]
    place: Ints  # of each chain its last state in the pools

    def of(self, chains: Ints) -> list[State]:
        """The last states of some chains."""
        return [taken(pool, self.place[chains]) for pool in self.pools]


def accumulated(
    layout: ChangeColumns, rows: pa.Table, item: Ints, chain: Ints, parents: Parents, held: list[State], *, every: bool
) -> Sums:
    """Add up rows in chains; with `every`, say what it comes to after each.

    An item is a row of `rows` in a chain; items come in processing order, chains are numbered from 0 and none is empty.
    """
    count = int(chain.max(initial=-1)) + 1
    rising = not (chain[1:] < chain[:-1]).any()
    order = np.arange(len(chain)) if rising else np.argsort(chain, kind="stable")
    whole = len(item) == rows.num_rows and bool((item == np.arange(len(item))).all())
    times = groups.micros(one(rows, layout.time))
    times = times if whole else times[item]
    level = levels(count, parents)
    entries = len(held[0][next(iter(held[0]))]) if held else 0
    pools, done, known = held, np.full(count, -1), entries
    depths = int(level.max(initial=-1)) + 1
    pieces: list[tuple[Ints, list[State]]] = []
    for depth in range(depths):
        now = np.flatnonzero(level == depth) if depths > 1 else np.arange(count)
        members = order if depths == 1 else order[level[chain[order]] == depth]
        untouched = rising and depths == 1  # all items as they lie
        chains = chain if untouched else chain[members]
        segments = Segments(np.flatnonzero(groups.begins(chains)), len(members))
        wanted = np.arange(len(members)) if every else segments.ends
        at, states = pa.array(item if untouched else item[members]), []
        moments = times if untouched else times[members]
        for (aggregate, _), pool in zip(layout.aggregates, pools, strict=True):
            values = one(rows, aggregate.column or layout.time)
            begins = len(parents.child) > 0
            first = beginnings(aggregate, now, parents, pool, done) if begins else aggregate.empty(values.type, len(now))
            states.append(aggregate.state(segments, values if whole and untouched else values.take(at), moments, first, wanted))
        if every and untouched:  # nothing begins with them: they can stay where they are
            return Sums(states, states, segments.ends)
        pieces.append((members[wanted], states))
        if every and depths == 1:
            return Sums(_in_place(pieces, len(chain)), states, segments.ends)
        ends = [taken(s, segments.ends) for s in states] if every else states
        done[now], known = known + np.arange(len(now)), known + len(now)
        pools = [joined([pool, end]) for pool, end in zip(pools, ends, strict=True)]
    if not pieces:
        return Sums([taken(pool, chain) for pool in pools], pools, done)
    return Sums(_in_place(pieces, len(chain)) if every else [], pools, done)


def _in_place(pieces: list[tuple[Ints, list[State]]], count: int) -> list[State]:
    """States by item."""
    where = np.concatenate([p for p, _ in pieces])
    states = [joined([some[i] for _, some in pieces]) if len(pieces) > 1 else pieces[0][1][i] for i in range(len(pieces[0][1]))]
    if (where == np.arange(count)).all():
        return states
    back = np.empty(count, np.int64)
    back[where] = np.arange(count)
    return [taken(state, back) for state in states]


def levels(count: int, parents: Parents) -> Ints:
    """How many merges of chains lie before each chain."""
    level = np.zeros(count, np.int64)
    of_chain = parents.parent >= 0
    for child, parent in zip(parents.child[of_chain].tolist(), parents.parent[of_chain].tolist(), strict=True):
        level[child] = max(level[child], level[parent] + 1)  # a chain comes after those that it began with
    return level


def beginnings(aggregate: Aggregate, chains: Ints, parents: Parents, pool: State, done: Ints) -> State:
    """What these chains begin with: the states of their parents, merged in their order."""
    where = ~parents.parent
    of_chain = parents.parent >= 0
    where[of_chain] = done[parents.parent[of_chain]]
    begins = np.searchsorted(parents.child, chains, side="left")
    lengths = np.searchsorted(parents.child, chains, side="right") - begins
    at = np.full(len(chains), -1)
    at[lengths > 0] = where[begins[lengths > 0]]
    first = aggregate.fresh(taken(pool, at))
    for nth in range(1, int(lengths.max(initial=0))):
        more = np.flatnonzero(lengths > nth)
        merged = aggregate.merge(taken(first, more), taken(pool, where[begins[more] + nth]))
        place = np.arange(len(chains))
        place[more] = len(chains) + np.arange(len(more))
        first = taken(joined([first, merged]), place)
    return first


def taken(state: State, at: Ints) -> State:
    """States by position; -1 is null."""
    positions = pa.array(at, mask=at < 0)
    return {name: column.take(positions) for name, column in state.items()}


def joined(states: Sequence[State]) -> State:
    """States, one after the other."""
    return {name: pa.concat_arrays([s[name] for s in states]) for name in states[0]}


def numbered(layout: ChangeColumns, rows: pa.Table, group: Ints, caused_by: Ints, before: int) -> Ints:
    """change_seq: 0, 1, .. over a key's changes that share the ORDER BY columns; `before` of the first row's have left already.

    With `of_one_row` it counts the changes of each row.
    """
    run = np.cumsum(runs(layout, rows, group)) - 1
    of = run[caused_by]
    begins = np.arange(len(of))
    begins[1:][of[1:] == of[:-1]] = 0
    seq: Ints = np.arange(len(of)) - np.maximum.accumulate(begins)
    seq[of == 0] += before
    return seq


def runs(layout: ChangeColumns, rows: pa.Table, group: Ints) -> Flags:
    """Where numbers of changes begin anew."""
    starts = np.ones(rows.num_rows, bool)
    if not layout.of_one_row:
        starts = groups.begins(group)
        for name in layout.ordered:
            column = one(rows, name)
            starts[1:] |= groups.differs(column.slice(1), column.slice(0, len(column) - 1))
    return starts


def so_far(starts: Flags, caused_by: Ints, before: int) -> int:
    """How many changes the run of the last row has had; `before`: how many that of the first row had had."""
    last = int(np.flatnonzero(starts)[-1]) if starts.any() else 0
    return int((caused_by >= last).sum()) + (0 if starts.any() else before)


class Updates:
    """A function that emits changes: `changes` says what a batch comes to. The rest is the same for all."""

    layout: ChangeColumns
    changed_at_end: ClassVar[bool] = False  # whether a result's event time is always its end

    def changes(
        self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries, before: int = 0, last_only: bool = False
    ) -> tuple[Taken, Ints, int]:
        """Also the rows that the changes were caused by, and how many rows were taken: as many as memory lasts for, at least one.

        `before` is for `numbered`; with `last_only` entries are given of the last group alone. What is closed for good, for other clocks
        of its key too, has ~group in place of its group.
        """
        raise NotImplementedError

    @property
    def closing(self) -> Closing:
        """When its windows close."""
        raise NotImplementedError

    def threshold(self, stream_time: int) -> int:
        """An entry that lives by less is closed."""
        return int(self.closing.closed_before(stream_time))

    def close(self, end: Ints) -> Ints:
        """When results with this end are final (rule W6)."""
        closed: Ints = self.closing.close(end)
        return closed

    def release(self, due: Entries, stream_time: int | None) -> pa.Table:
        """The final rows of windows that are closed; on a stream, when they leave is known."""
        return self.layout.released(due, self.close(due.matrix[END]), stream_time) if self.layout.final and len(due) else pa.table({})

    @property
    def counts(self) -> tuple[str, ...]:
        """How many rows came after their window closed."""
        return ("late_drop_total",)

    @property
    def width(self) -> int:
        """End, start, and the largest event time."""
        return 3

    def take(self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries) -> Taken:
        """One micro-batch (`streamtime.udfs.state.Holder`)."""
        parts, at, before, starts = list[Taken](), 0, 0, runs(self.layout, rows, group)
        while at < rows.num_rows:
            part, caused_by, taken = self.changes(rows.slice(at), group[at:], stream_times[at:], owner, held, before)
            parts.append(part)
            before, at = so_far(starts[at : at + taken], caused_by, before), at + taken
            if at < rows.num_rows:
                before = 0 if starts[at] else before
                owner, held = _with_new(owner, held, part, self.width)
                ours = owner >= group[at]
                owner, held = owner[ours], held.take(ours)
        return parts[0] if len(parts) == 1 else _together(parts, self.width)


def _with_new(owner: Ints, held: Entries, part: Taken, width: int) -> tuple[Ints, Entries]:
    """What is held after a part of a micro-batch."""
    stays = ~np.isin(owner, part.groups)
    whose = np.concatenate((part.groups, owner[stays]))
    order = np.argsort(whose, kind="stable")
    return whose[order], Entries.join([part.entries, held.take(stays)], width).take(order)


def _together(parts: list[Taken], width: int) -> Taken:
    """The parts of a micro-batch as one. A later part says all that is held of its groups."""
    whose, entries = parts[0].groups, parts[0].entries
    for part in parts[1:]:
        whose, entries = _with_new(whose, entries, part, width)
    out = pa.concat_tables([p.out for p in parts if p.out.num_columns]) if parts[0].out.num_columns else parts[0].out
    return Taken(out, whose, entries, {name: sum(p.counts[name] for p in parts) for name in parts[0].counts})
