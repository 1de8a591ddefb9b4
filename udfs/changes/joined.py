"""JOIN_CHANGES and FILTER_CHANGES on streams (rules J7, V8): what each change does to the table that is described, as changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.changes.latest import PLACE, REASONS, SEQ, Latest, StateBefore, held_after, numbered, same_group, seen
from streamtime.udfs.state import Entries, Taken


@dataclass(frozen=True)
class Reported:
    """The columns of rows that are reported, in order, and the names of what is added to them."""

    columns: tuple[str, ...]
    reason: str
    stream_time: str
    only_dropped: bool
    told: tuple[str, ...] = ()  # also these: whether there was a row, whether there is one, both of one group, and times: of the other
    # side's row, of the newest change of this side before
    group_by: tuple[str, ...] = ()  # what tells groups apart
    before: tuple[tuple[str, str], ...] = ()  # columns of the row of side 0 that was there before, and what they are called then


@dataclass(frozen=True)
class JoinedChanges(Latest):
    """A `Holder`. Of one side it is a filter, whose rows are alive where they pass."""

    carried: tuple[str, ...]  # the columns of the change that caused one
    own: tuple[tuple[str, ...], ...]  # by side: the columns of its row
    made: tuple[str, str, str]  # the names of the type of a change, its time, and its number
    join_type: str = "inner"
    always: bool = False  # a deletion leaves also where nothing was there
    report: Reported | None = None  # the output is not the changes, but this

    def take(self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries) -> Taken:
        """The changes of a micro-batch."""
        now = int(clock[0])
        state = seen(self.log, rows, group, now, owner, held)
        has, had = self._present(state, state.now), self._present(state, state.before)
        emits = state.applied & (has | had | self.always)
        seq, places, numbers = numbered(
            group, groups.as_ints(one(rows, self.log.place)), emits, owner, held.matrix[PLACE], held.matrix[SEQ]
        )
        out = self._changes(state, has, seq, np.flatnonzero(emits)) if self.report is None else self._reported(state, now, self.report)
        return Taken(out, *held_after(self.log, state, places, numbers), self.ignored(state))

    def _present(self, state: StateBefore, last: list[Ints]) -> Flags:
        """Whether the described table has a row."""
        there = [state.there(of_side) for of_side in last]
        if self.join_type == "left":
            return there[0]
        flags: Flags = (np.logical_and if self.join_type == "inner" else np.logical_or).reduce(there)
        return flags

    def _changes(self, state: StateBefore, has: Flags, seq: Ints, at: Ints) -> pa.Table:
        out = state.rows.select(list(self.carried)).take(pa.array(at))
        time = state.moments
        for side, (columns, last) in enumerate(zip(self.own, state.now, strict=True)):
            time = np.maximum(time, np.where(state.mine == side, LOWEST, state.times(last)))
            rows = last[at]
            place = pa.array(rows, mask=~(has[at] & state.there(rows)))
            for name, column in zip(columns, state.pool(columns).take(place).columns if columns else (), strict=True):
                out = out.append_column(name, column)
        types = pa.array(["delete", "upsert"]).take(pa.array(has[at].astype(np.int64)))
        like = state.rows.schema.field(self.log.time).type
        moments = groups.times(time[at], np.zeros(len(at), bool), like)
        for name, made in zip(self.made, (types, moments, pa.array(seq[at])), strict=True):
            out = out.append_column(name, made)
        return out

    def _reported(self, state: StateBefore, clock: int, report: Reported) -> pa.Table:
        wanted = np.flatnonzero(~state.applied) if report.only_dropped else np.arange(len(state.group))
        rows = state.rows.select(list(report.columns)).take(pa.array(wanted))
        like = rows.schema.field(self.log.time).type
        clocks = groups.times(np.full(len(wanted), clock), np.full(len(wanted), clock == LOWEST), like)
        words = pa.array(REASONS, pa.string()).take(pa.array(state.reasons[wanted]))
        rows = rows.append_column(report.reason, words).append_column(report.stream_time, clocks)
        for name, column in zip(report.told, self._told(state, report.group_by, like) if report.told else (), strict=True):
            rows = rows.append_column(name, column)
        if report.before:
            place = pa.array(state.before[0][wanted], mask=~state.there(state.before[0])[wanted])
            were = state.pool([name for name, _ in report.before]).take(place)
            for (_, name), column in zip(report.before, were.columns, strict=True):
                rows = rows.append_column(name, column)
        return rows

    def _told(self, state: StateBefore, group_by: tuple[str, ...], like: pa.DataType) -> tuple[pa.Array, ...]:
        """What each change did, and what it met. Nothing is asked of one that did not apply."""
        had, has = (self._present(state, last) for last in (state.before, state.now))
        others = np.stack([np.where(state.mine == side, LOWEST, state.times(last)) for side, last in enumerate(state.now)])
        before = np.stack([np.where(state.mine == side, last, -1) for side, last in enumerate(state.before)]).max(axis=0)
        newest = np.where(before >= 0, state.time[before], LOWEST)
        times = [groups.times(moments, moments == LOWEST, like) for moments in (others.max(axis=0), newest)]
        return pa.array(had | self.always), pa.array(has), pa.array(had & has & same_group(state, group_by)), *times
