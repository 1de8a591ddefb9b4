"""What there is of each key while its changes come in, micro-batch by micro-batch (rules J7, V8): the last row of each side.

Rows come by key, each key's in processing order. What is held of a key are entries, one for each of its sides: the side's last change, as
numbers, and the columns of its row. A row is held for as long as it is there. A deletion is held until stream time has passed it, as a
change of the same place may still come, whose number must go on; on a side that ignores older changes, as long as such can come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import minus
from streamtime.udfs.state import Entries
from streamtime.udfs.versions import refused

LIVES_BY, SIDE, TIME, ALIVE, PLACE, SEQ = range(6)  # an entry
WIDTH = 6
APPLIED, TOO_OLD, OUT_OF_ORDER = range(3)
REASONS = (None, "too_old", "out_of_order")


@dataclass(frozen=True)
class LogColumns:
    """The columns of changes, and which of them count. A side is a number from 0 on."""

    time: str
    alive: str  # whether the change leaves a row
    place: str  # a number of the ORDER BY columns: equal where they are
    side: str | None  # None: there is one side only
    held: tuple[str, ...]  # the columns of rows that are held
    bounded: tuple[bool, ...]  # by side: whether `retention` bounds how old a change may be
    ordered: tuple[bool, ...]  # by side: whether a change older than the newest one is ignored
    retention: int | None = None
    passing: bool = False  # rows are held no longer than deletions: nobody asks what was there

    @property
    def sides(self) -> int:
        """How many there are."""
        return len(self.ordered)

    def lives_by(self, side: Ints, time: Ints, alive: Flags) -> Ints:
        """Until when a change is held: a row for as long as it is there, a deletion until no older change can come."""
        for_ever = np.array(self.ordered)[side] & (self.retention is None)
        return np.where(alive & (not self.passing), HIGHEST, np.where(for_ever, HIGHEST, time))

    def threshold(self, clock: int) -> int:
        """What lives by less is forgotten."""
        oldest: int = minus(clock, self.retention or 0)
        return max(oldest, LOWEST + 1)


@dataclass(frozen=True)
class StateBefore:
    """What the changes of a micro-batch find. Rows are numbered with those held, which come first; -1 is none."""

    rows: pa.Table
    group: Ints
    reasons: Ints  # of each change: APPLIED, TOO_OLD or OUT_OF_ORDER
    side: Ints
    time: Ints  # these three of rows that are held, too
    alive: Flags
    whose: Ints
    now: list[Ints]  # by side, for each change: the last row that applied, it included
    before: list[Ints]  # .. or not included
    held: Entries

    @property
    def applied(self) -> Flags:
        """Which changes count."""
        flags: Flags = self.reasons == APPLIED
        return flags

    @property
    def mine(self) -> Ints:
        """The side of each change."""
        return self.side[len(self.held) :]

    @property
    def moments(self) -> Ints:
        """The time of each change."""
        return self.time[len(self.held) :]

    def there(self, places: Ints) -> Flags:
        """Whether these are rows, not deletions or nothing."""
        here: Flags = (places >= 0) & self.alive[places]
        return here

    def times(self, places: Ints) -> Ints:
        """Their times; LOWEST where there is no row."""
        return np.where(self.there(places), self.time[places], LOWEST)

    def pool(self, columns: Sequence[str]) -> pa.Table:
        """These columns of the rows held, then of the changes."""
        changes = self.rows.select(list(columns))
        if self.held.payload is None or not len(self.held):
            return changes
        return pa.concat_tables([pa.Table.from_batches([self.held.payload]).select(list(columns)).cast(changes.schema), changes])


@dataclass(frozen=True)
class Latest:
    """What all holders of latest changes have in common."""

    log: LogColumns

    @property
    def counts(self) -> tuple[str, ...]:
        """The changes that were ignored."""
        return ("too_old_drop_total", "out_of_order_drop_total")

    @property
    def width(self) -> int:
        """An entry of `latest`."""
        return WIDTH

    def threshold(self, clock: int) -> int:
        """When deletions are forgotten."""
        return self.log.threshold(clock)

    def release(self, due: Entries, clock: int) -> pa.Table:
        """Nothing leaves when it is forgotten."""
        return pa.table({})

    def ignored(self, state: StateBefore) -> dict[str, float]:
        """How many there were, by name."""
        return {name: int((state.reasons == reason).sum()) for name, reason in zip(self.counts, (TOO_OLD, OUT_OF_ORDER), strict=True)}


def seen(log: LogColumns, rows: pa.Table, group: Ints, clock: int, owner: Ints, held: Entries) -> StateBefore:
    """Look at changes that come by group, each group's in processing order, with what is held of some groups (`owner`, rising)."""
    count, known = len(group), len(owner)
    mine = groups.as_ints(one(rows, log.side)).astype(np.int64) if log.side else np.zeros(count, np.int64)
    moments = groups.micros(one(rows, log.time))
    side, time = np.concatenate((held.matrix[SIDE], mine)), np.concatenate((held.matrix[TIME], moments))
    alive = np.concatenate((held.matrix[ALIVE] == 1, groups.as_flags(one(rows, log.alive))))
    starts = firsts(group)
    reasons = np.zeros(count, np.int64)
    held_of = []
    for s in range(log.sides):
        of = np.full(int(group[-1]) + 1, -1)
        entries = np.flatnonzero(held.matrix[SIDE] == s)
        of[owner[entries]] = entries
        held_of.append(of[group])
        reasons[_too_old(log, s, mine, moments, clock)] = TOO_OLD
        if log.ordered[s]:
            accepted = (mine == s) & (reasons != TOO_OLD)
            newest = np.where(of[group] >= 0, time[of[group]], LOWEST)
            _, before = carried(group, starts, np.where(accepted, moments, LOWEST), newest)
            reasons[accepted & (moments < before)] = OUT_OF_ORDER
    at = known + np.arange(count)
    both = [carried(group, starts, np.where((reasons == APPLIED) & (mine == s), at, -1), held_of[s]) for s in range(log.sides)]
    whose = np.concatenate((owner, group))
    return StateBefore(rows, group, reasons, side, time, alive, whose, [now for now, _ in both], [before for _, before in both], held)


def same_group(state: StateBefore, group_by: Sequence[str]) -> Flags:
    """Whether a change of side 0, and what was there before it, are equal in these columns. Of other sides it says nothing."""
    at = len(state.held) + np.arange(len(state.group))
    same = np.ones(len(at), bool)
    for column in state.pool(group_by).columns if group_by else ():
        now, before = (column.take(pa.array(which)).combine_chunks() for which in (at, np.maximum(state.before[0], 0)))
        same &= ~groups.differs(now, before)
    return same


def _too_old(log: LogColumns, side: int, mine: Ints, moments: Ints, clock: int) -> Flags:
    if not log.bounded[side] or log.retention is None:
        return np.zeros(len(mine), bool)
    old: Flags = (mine == side) & refused(moments, None if clock == LOWEST else clock, log.retention)  # which is its grace as well
    return old


def firsts(group: Ints) -> Flags:
    """Where another group begins."""
    return np.append(True, group[1:] != group[:-1])


def lasts(group: Ints) -> Ints:
    """The last row of each group."""
    return np.flatnonzero(np.append(group[1:] != group[:-1], True))


def carried(group: Ints, starts: Flags, values: Ints, first: Ints) -> tuple[Ints, Ints]:
    """The largest value of each row's group up to it, and before it; each group begins with what `first` says at its rows."""
    values = np.where(starts, np.maximum(values, first), values)
    now = groups.running_max(group, values)
    before = np.where(starts, first, np.append(first[:1], now[:-1]))
    return now, before


def numbered(group: Ints, place: Ints, emits: Flags, owner: Ints, places: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints]:
    """The number of each change that leaves, among those of its place; and for each row the place of the last that left up to it, and how
    many have left there. `places` and `numbers` are what was held of these of some groups (`owner`).
    """
    starts = firsts(group)
    runs = starts | np.append(True, place[1:] != place[:-1])
    run = np.cumsum(runs) - 1
    so_far = np.cumsum(emits, dtype=np.int64)
    begun: Ints = (so_far - emits)[runs][run]
    in_run: Ints = so_far - begun  # how many have left in this run, up to this row
    place_before, number_before = (np.zeros(int(group[-1]) + 1, np.int64) for _ in range(2))
    place_before[owner], number_before[owner] = places, numbers
    place_before, number_before = place_before[group], number_before[group]
    goes_on = (run == run[starts][np.cumsum(starts) - 1]) & (place_before == place)
    in_run = in_run + np.where(goes_on, number_before, 0)
    last, _ = carried(group, starts, np.where(emits, np.arange(len(group)), -1), np.full(len(group), -1))
    return in_run - 1, np.where(last >= 0, place[last], place_before), np.where(last >= 0, in_run[last], number_before)


def held_after(log: LogColumns, state: StateBefore, places: Ints, numbers: Ints) -> tuple[Ints, Entries]:
    """What is held from now on, of keys that have a change that counts: whose each entry is, rising, and the entries."""
    group = state.group
    touched = np.zeros(int(group[-1]) + 1, bool)
    touched[group[state.applied]] = True
    ends = lasts(group)
    ends = ends[touched[group[ends]]]
    of = np.concatenate([now[ends] for now in state.now])
    end = np.tile(ends, log.sides)[of >= 0]
    of = of[of >= 0]
    order = np.lexsort((state.side[of], group[end]))
    of, end = of[order], end[order]
    side, time, alive = state.side[of], state.time[of], state.alive[of]
    matrix = np.stack((log.lives_by(side, time, alive), side, time, alive, places[end], numbers[end])).astype(np.int64)
    payload = only(state.pool(log.held).take(pa.array(of))) if log.held else None
    return group[end], Entries(matrix.reshape(WIDTH, -1), payload)
