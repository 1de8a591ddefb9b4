"""JOIN_CHANGES by a foreign key on a stream, by the key of the right side (rule J8): its row, and the left rows that name it.

`Replaced` comes before it, by the left key: what comes to a key that is named, and what goes from it. `Referring` comes after it, by the
left key again. An entry of a right row has its columns, and one of a left row has its key, no more: a right row that many name is one
large group, which is written anew with each micro-batch that touches it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.changes.latest import ALIVE, LIVES_BY, SIDE, TIME, WIDTH, Latest, carried, firsts, lasts, seen
from streamtime.udfs.state import Entries, Taken

ROW, NAMING = 0, 1  # what an entry is, in place of its side
FIRST, SECOND = 4, 5  # the two numbers of a left row, in an entry that is one


@dataclass(frozen=True)
class Marks:
    """The columns that say what a row is."""

    of_right: str  # whether it is a change of the right side; else it comes to its group, or goes from it
    comes: str
    silent: str  # it goes to another group, which tells of it
    names: str  # false: a null names nothing
    number: str  # of the left side's changes, by their order
    told: tuple[str, str]  # two numbers that tell left rows apart


@dataclass(frozen=True)
class GroupSpans:
    """From where to where left rows are in their groups: places among what is held, and the rows behind it."""

    group: Ints
    start: Ints
    end: Ints  # HIGHEST: it stays
    numbers: tuple[Ints, Ints]


@dataclass(frozen=True)
class References(Latest):
    """A `Holder`. The log is that of the right side."""

    marks: Marks
    carried: tuple[str, ...]  # the columns of a change that go on
    key: tuple[str, ...]  # the columns of a left row that are its key
    row: tuple[str, ...]  # the columns of the right side's row
    made: tuple[str, str, str, str]  # the names of whether the left row is there, whether it has a match, its time, and a number
    many: str | None = None  # where changes are told of, each of the right side is there, too, with how many left rows name it
    by_right: tuple[str, ...] | None = None  # those of `carried` that a left row has which a change of the right side touches; None: all

    def take(self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries) -> Taken:
        """What a micro-batch does to left rows: to each of those that come or go, and to all that name a right row that changes."""
        known = len(owner)
        at = known + np.arange(len(group))
        of_right, comes = (groups.as_flags(one(rows, name)) for name in (self.marks.of_right, self.marks.comes))
        applied, counts = self._applied(rows, group, int(clock[0]), owner, held, of_right)
        ours = np.flatnonzero(held.matrix[SIDE] == ROW)
        first = np.full(int(group[-1]) + 1, -1)
        first[owner[ours]] = ours
        now, _ = carried(group, firsts(group), np.where(applied, at, -1), first[group])
        alive = np.concatenate((held.matrix[ALIVE] == 1, groups.as_flags(one(rows, self.log.alive))))
        time = np.concatenate((held.matrix[TIME], groups.micros(one(rows, self.log.time))))
        left = self._left(rows, group, owner, held, ~of_right, comes)
        whose, which = _meets(left, at[applied], group[applied])
        told = np.flatnonzero(~of_right & ~groups.as_flags(one(rows, self.marks.silent)))
        cause = np.concatenate((told, which - known))
        there = np.concatenate((comes[told], np.ones(len(which), bool)))
        right_places = np.concatenate((now[told], which))
        match = there & (right_places >= 0) & alive[right_places]
        number = np.concatenate((groups.as_ints(one(rows, self.marks.number))[told], which - known))
        pool = _pool(rows, held, (*self.key, *self.row))
        out = self._caused(rows, cause, np.arange(len(cause)) >= len(told))
        named = pool.select(list(self.key)).take(pa.array(np.concatenate((at[told], left.start[whose]))))
        met = pool.select(list(self.row)).take(pa.array(right_places, mask=~match))
        for name, column in zip((*self.key, *self.row), (*named.columns, *met.columns), strict=True):
            out = out.append_column(name, column)
        times = groups.times(np.where(match, time[right_places], 0), ~match, rows.schema.field(self.log.time).type)
        for name, made in zip(self.made, (pa.array(there), pa.array(match), times, pa.array(number)), strict=True):
            out = out.append_column(name, made)
        if self.many is not None:
            out = self._with_told(out, self.many, rows, np.flatnonzero(applied), which - known)
        return Taken(out, *self._held_after(pool, group, owner, now, time, alive, left), counts)

    def _caused(self, rows: pa.Table, cause: Ints, by_right: Flags) -> pa.Table:
        every, some = pa.array(cause), pa.array(cause, mask=by_right)
        columns = {name: one(rows, name) for name in self.carried}
        needed = columns if self.by_right is None else self.by_right
        return pa.table({name: column.take(every if name in needed else some) for name, column in columns.items()})

    def _with_told(self, out: pa.Table, many: str, rows: pa.Table, right: Ints, met: Ints) -> pa.Table:
        """Behind what goes on of left rows: the changes of the right side (`right`); `met` has each of them once for a left row."""
        out = out.append_column(many, pa.nulls(out.num_rows, pa.int64()))
        count = pa.array(np.bincount(met, minlength=rows.num_rows)[right].astype(np.int64))
        own = rows.select(list(self.carried)).take(pa.array(right))
        columns = [*own.columns, *(pa.nulls(len(right), f.type) for f in out.schema if f.name not in {*self.carried, many}), count]
        return pa.concat_tables([out, pa.Table.from_arrays(columns, schema=out.schema)])

    def _applied(
        self, rows: pa.Table, group: Ints, clock: int, owner: Ints, held: Entries, of_right: Flags
    ) -> tuple[Flags, dict[str, float]]:
        """Which rows are changes of the right side that count."""
        applied = np.zeros(len(group), bool)
        right = np.flatnonzero(of_right)
        if not len(right):
            return applied, {}
        ours = (held.matrix[SIDE] == ROW) & np.isin(owner, group[right])
        state = seen(self.log, rows.take(pa.array(right)), group[right], clock, owner[ours], held.take(ours))
        applied[right] = state.applied
        return applied, self.ignored(state)

    def _left(self, rows: pa.Table, group: Ints, owner: Ints, held: Entries, of_left: Flags, comes: Flags) -> GroupSpans:
        naming, parts = np.flatnonzero(held.matrix[SIDE] == NAMING), np.flatnonzero(of_left)
        of = np.concatenate((owner[naming], group[parts]))
        halves = [
            np.concatenate((held.matrix[field][naming], groups.as_ints(one(rows, name))[parts]))
            for field, name in zip((FIRST, SECOND), self.marks.told, strict=True)
        ]
        place = np.concatenate((naming, len(owner) + parts))
        begins = np.concatenate((np.ones(len(naming), bool), (comes & groups.as_flags(one(rows, self.marks.names)))[parts]))
        order = np.lexsort((place, *halves[::-1], of))
        of, place, begins, (high, low) = of[order], place[order], begins[order], (half[order] for half in halves)
        same = np.zeros(len(of), bool)  # whether the next one is of the same left row, and so ends this one
        same[:-1] = (of[1:] == of[:-1]) & (high[1:] == high[:-1]) & (low[1:] == low[:-1])
        end = np.where(same, np.append(place[1:], HIGHEST), HIGHEST)
        return GroupSpans(of[begins], place[begins], end[begins], (high[begins], low[begins]))

    def _held_after(
        self, pool: pa.Table, group: Ints, owner: Ints, now: Ints, time: Ints, alive: Flags, left: GroupSpans
    ) -> tuple[Ints, Entries]:
        """What is held from now on of all groups that had a row; where nothing is, that is said of those that held something."""
        ends = lasts(group)
        ends = ends[now[ends] >= 0]
        row, stays = now[ends], left.end == HIGHEST
        naming = left.start[stays]
        gone = np.setdiff1d(owner, np.concatenate((group[ends], left.group[stays])))
        whose = np.concatenate((group[ends], left.group[stays], gone))
        matrix = np.zeros((WIDTH, len(whose)), np.int64)
        ours, theirs = slice(0, len(row)), slice(len(row), len(row) + len(naming))
        matrix[LIVES_BY] = LOWEST
        matrix[LIVES_BY, ours] = self.log.lives_by(np.zeros(len(row), np.int64), time[row], alive[row])
        matrix[TIME, ours], matrix[ALIVE, ours] = time[row], alive[row]
        matrix[LIVES_BY, theirs], matrix[SIDE, theirs] = HIGHEST, NAMING
        matrix[FIRST, theirs], matrix[SECOND, theirs] = (half[stays] for half in left.numbers)
        source = np.concatenate((row, naming, np.full(len(gone), -1)))
        order = np.argsort(whose, kind="stable")
        source = source[order]
        return whose[order], Entries(matrix[:, order], only(pool.take(pa.array(source, mask=source < 0))))


def _meets(left: GroupSpans, right: Ints, of: Ints) -> tuple[Ints, Ints]:
    """Each pair of a left row and a change of the right side, by its place, that comes while the left row is there."""
    low = np.maximum(np.searchsorted(right, left.start), np.searchsorted(of, left.group, side="left"))
    high = np.minimum(np.searchsorted(right, left.end), np.searchsorted(of, left.group, side="right"))
    many = np.maximum(high - low, 0)
    whose = np.repeat(np.arange(len(many)), many)
    before = np.cumsum(many) - many
    return whose, right[np.repeat(low - before, many) + np.arange(len(whose))]


def _pool(rows: pa.Table, held: Entries, columns: tuple[str, ...]) -> pa.Table:
    """These columns of what is held, then of the rows."""
    changes = rows.select(list(columns))
    if held.payload is None or not len(held):
        return changes
    return pa.concat_tables([pa.Table.from_batches([held.payload]).select(list(columns)).cast(changes.schema), changes])
