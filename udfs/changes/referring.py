"""JOIN_CHANGES by a foreign key on a stream, by the left key again (rule J8): what `References` tells of each left row, as changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.changes.latest import carried, firsts, lasts, numbered
from streamtime.udfs.state import Entries, Taken

THERE, TIME, MATCH, MATCH_TIME, PLACE, SEQ = range(1, 7)  # an entry, behind what it lives by
WIDTH = 7


@dataclass(frozen=True)
class Referring:
    """A `Holder`. An entry is a left row, and whether it has a match."""

    of_right: str  # whether a change of the right side causes it; else the left row is what comes with it
    time: str  # of the change that causes it
    place: str  # a number of the ORDER BY columns
    there: str  # whether the left row is there
    match: str
    match_time: str
    carried: tuple[str, ...]  # the columns of the change
    left: tuple[str, ...]  # the columns of the left row
    right: tuple[str, ...]  # the columns of its match
    made: tuple[str, str, str]  # the names of the type of a change, its time, and its number
    join_type: str = "inner"
    told: tuple[str, str, str] | None = None  # not changes leave, but those of the left side with whether the join has a row, had one, and
    # the time of the match

    @property
    def counts(self) -> tuple[str, ...]:
        """None of its own."""
        return ()

    @property
    def width(self) -> int:
        """An entry of this module."""
        return WIDTH

    def threshold(self, clock: int) -> int:
        """A deletion is forgotten once stream time has passed it: until then its numbers may go on."""
        return max(clock, LOWEST + 1)

    def release(self, due: Entries, clock: int) -> pa.Table:
        """Nothing leaves when it is forgotten."""
        return pa.table({})

    def take(self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries) -> Taken:
        """The changes of a micro-batch."""
        known, starts, matrix = len(owner), firsts(group), held.matrix
        at = known + np.arange(len(group))
        first = np.full(int(group[-1]) + 1, -1)
        first[owner] = np.arange(known)
        of_right, here, match = (groups.as_flags(one(rows, name)) for name in (self.of_right, self.there, self.match))
        moments, of_match = groups.micros(one(rows, self.time)), groups.micros(one(rows, self.match_time))
        left, _ = carried(group, starts, np.where(of_right, -1, at), first[group])
        time = np.concatenate((matrix[TIME], moments))
        there = (left >= 0) & np.concatenate((matrix[THERE] == 1, here))[left]
        before = np.where(starts, first[group], at - 1)
        had = (before >= 0) & np.concatenate((self._has(matrix[THERE] == 1, matrix[MATCH] == 1), self._has(there, match)))[before]
        met = np.concatenate((np.where(matrix[MATCH] == 1, matrix[MATCH_TIME], LOWEST), np.where(match, of_match, LOWEST)))
        has, matched = self._has(there, match), met[known:]
        other = np.where(
            of_right, np.where(there, time[left], LOWEST), np.where(there, matched, np.where(before >= 0, met[before], LOWEST))
        )
        emits = has | had
        seq, places, numbers = numbered(group, groups.as_ints(one(rows, self.place)), emits, owner, matrix[PLACE], matrix[SEQ])
        pool = self._pool(rows, held)
        like = rows.schema.field(self.time).type
        if self.told is None:
            which = np.flatnonzero(emits)
            out = self._changes(rows, pool.take(pa.array(left[which], mask=~has[which])), which, has, has & match)
            made = (seq[which], groups.times(np.maximum(moments, other)[which], np.zeros(len(which), bool), like))
            out = out.append_column(self.made[1], made[1]).append_column(self.made[2], pa.array(made[0]))
        else:
            out = self._told(self.told, rows, ~of_right, has, had, groups.times(np.where(match, of_match, 0), ~match, like))
        ends = lasts(group)
        ends = ends[left[ends] >= 0]
        lives_by = np.where(there, HIGHEST, moments)
        entries = np.stack([of[ends] for of in (lives_by, there, time[left], match, np.where(match, of_match, 0), places, numbers)])
        payload = only(pool.take(pa.array(left[ends]))) if self.left else None
        return Taken(out, group[ends], Entries(entries.astype(np.int64), payload))

    def _changes(self, rows: pa.Table, left: pa.Table, which: Ints, has: Flags, matched: Flags) -> pa.Table:
        """These rows as changes: the rest is to come, their times and numbers."""
        out = rows.select(list(self.carried)).take(pa.array(which))
        right = rows.select(list(self.right)).take(pa.array(which, mask=~matched[which]))
        for name, column in zip((*self.left, *self.right), (*left.columns, *right.columns), strict=True):
            out = out.append_column(name, column)
        return out.append_column(self.made[0], pa.array(["delete", "upsert"]).take(pa.array(has[which].astype(np.int64))))

    def _told(self, told: tuple[str, str, str], rows: pa.Table, which: Flags, has: Flags, had: Flags, met: pa.Array) -> pa.Table:
        out = rows.select(list(self.carried))
        for name, column in zip(told, (pa.array(has), pa.array(had), met), strict=True):
            out = out.append_column(name, column)
        return out.filter(pa.array(which))

    def _has(self, there: Flags, match: Flags) -> Flags:
        """Whether the join has a row."""
        return there & match if self.join_type == "inner" else there

    def _pool(self, rows: pa.Table, held: Entries) -> pa.Table:
        """The columns of left rows that are held, then of the rows."""
        changes = rows.select(list(self.left))
        if held.payload is None or not len(held):
            return changes
        return pa.concat_tables([pa.Table.from_batches([held.payload]).select(list(self.left)).cast(changes.schema), changes])
