"""WINDOW_UPDATES with sliding windows (rules W5, W6): one that ends at each row, one that begins right after it if rows lie in it.

A window's content is looked up among panes: what the rows of a key with one event time come to.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import Closing, of_sliding_windows
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.updates.aggregates import State
from streamtime.udfs.updates.updates import (
    CHANGED,
    UPSERT,
    ChangeColumns,
    Parents,
    Updates,
    Windows,
    accumulated,
    beginnings,
    joined,
    numbered,
    taken,
)

PANE = LOWEST  # stands for the largest event time, in the entry of a pane


@dataclass
class KeyWindows:
    """A key's panes and windows. A reference is a number of a row, or of a change; where it is negative, ~reference is a held entry."""

    times: list[int] = field(default_factory=list)
    panes: dict[int, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)


@dataclass
class RowEffects:
    """What rows did, as plain lists."""

    items: list[int] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    begun_with: list[tuple[int, int]] = field(default_factory=list)  # chain, held entry
    causes: list[int] = field(default_factory=list)  # of each change the item
    ends: list[int] = field(default_factory=list)
    members: list[list[int]] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)
    keys: dict[int, KeyWindows] = field(default_factory=dict)


@dataclass(frozen=True)
class SlidingUpdates(Updates):
    """Windows `[start, start + difference]`."""

    layout: ChangeColumns
    difference: int
    grace: int

    @property
    def closing(self) -> Closing:
        """When a window closes [W5]."""
        return of_sliding_windows(self.grace)

    def release(self, due: Entries, stream_time: int | None) -> pa.Table:
        """Windows; panes are not results."""
        return super().release(due.take(due.matrix[CHANGED] != PANE), stream_time)

    def changes(
        self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries, before: int = 0, since: int = 0
    ) -> tuple[Taken, Ints]:
        """One upsert for each window that a row lies in or calls into being, by their end."""
        times = groups.micros(one(rows, self.layout.time))
        log = self._log(times, group, self.closing.closed_before(stream_times), owner, held.matrix, since)
        item, chain = np.array(log.items, np.int64), np.array(log.chains, np.int64)
        begun = np.array(log.begun_with, np.int64).reshape(-1, 2).T
        states = self.layout.states(held.payload, len(held), rows)
        per_item = accumulated(self.layout, rows, item, chain, Parents.held(begun[0], begun[1]), states, every=True).per_item
        pool = [joined([h, i]) if log.items else h for h, i in zip(states, per_item, strict=True)]
        caused_by = item[log.causes] if log.causes else np.zeros(0, np.int64)
        seq = numbered(self.layout, rows, group, caused_by, before)
        content = self._content(log, pool, len(held))
        out = pa.table({})
        if not self.layout.final:
            latest = np.array(log.latest, np.int64)
            start, end = (np.array([bounded(e - back) for e in log.ends], np.int64) for back in (self.difference, 0))
            upserts = Windows(start, end, self.close(end), np.full(len(end), UPSERT), latest)
            results = [a.result(s, kind) for (a, kind), s in zip(self.layout.aggregates, content, strict=True)]
            at = pa.array(caused_by)
            out = self.layout.table({n: one(rows, n).take(at) for n in self.layout.carried}, upserts, results, pa.array(seq), None)
        late: dict[str, float] = {"late_drop_total": len(times) - len(item)}
        return Taken(out, *self._entries(rows, held, log, item, pool, content, caused_by, seq), late), caused_by

    def _log(self, times: Ints, group: Ints, horizons: Ints, owner: Ints, held: Ints, since: int) -> RowEffects:
        log, chain_of = RowEffects(), dict[tuple[int, int], int]()
        for entry, (whose, end, start, changed) in enumerate(zip(owner.tolist(), *held.tolist(), strict=True)):
            key = log.keys.setdefault(whose, KeyWindows())
            if changed == PANE:
                bisect.insort(key.times, start)
                key.panes[start] = ~entry
            else:
                key.windows[end if end < HIGHEST else start + self.difference] = ~entry
        for row, (whose, time, horizon) in enumerate(zip(group.tolist(), times.tolist(), horizons.tolist(), strict=True)):
            if time + self.difference < horizon:
                continue
            key = log.keys.setdefault(whose, KeyWindows())
            self._take(log, key, chain_of, row, whose, time, horizon)
        touched = set(group[group >= since].tolist())
        log.keys = {whose: key for whose, key in sorted(log.keys.items()) if whose in touched}
        return log

    def _take(
        self, log: RowEffects, key: KeyWindows, chain_of: dict[tuple[int, int], int], row: int, whose: int, time: int, horizon: int
    ) -> None:
        span = self.difference
        is_new = time not in key.panes
        if (whose, time) not in chain_of:
            chain_of[whose, time] = len(chain_of)
            if not is_new:
                log.begun_with.append((chain_of[whose, time], ~key.panes[time]))
        if is_new:
            bisect.insort(key.times, time)
        key.panes[time] = len(log.items)
        log.items.append(row)
        log.chains.append(chain_of[whose, time])
        for end in self._touched(key.times, time, is_new):
            if end < horizon:
                continue
            inside = key.times[bisect.bisect_left(key.times, end - span) : bisect.bisect_right(key.times, end)]
            if inside:
                key.windows[end] = len(log.ends)
                log.causes.append(len(log.items) - 1)
                log.ends.append(end)
                log.members.append([key.panes[p] for p in inside])
                log.latest.append(inside[-1])

    def _touched(self, times: list[int], time: int, is_new: bool) -> list[int]:
        """The ends of windows that a row lies in or calls into being, in Kafka's order: those that were there, the latest first; then
        what begins after the row before it; then what ends at it; then what begins after it."""
        span, at = self.difference, bisect.bisect_left(times, time)
        later = times[at : bisect.bisect_right(times, time + span)]
        there = [p for p in later if p > time or not is_new]
        before = times[bisect.bisect_left(times, time - 1 - span) : at]
        after = next(iter(there), time + span + 2)  # the first that was there and does not lie before the row
        known = {*there, *(p + 1 + span for p in before[:-1])}
        fresh = list[int]()
        if before:
            (known.add if after <= before[-1] + 1 + span else fresh.append)(before[-1] + 1 + span)
        if is_new and time not in known:
            fresh.append(time)
        if is_new and time + 1 + span not in times:
            fresh.append(time + 1 + span)
        return [*sorted(known, reverse=True), *dict.fromkeys(fresh)]

    def _content(self, log: RowEffects, pool: list[State], held: int) -> list[State]:
        """What the windows that changed come to, each merged from its panes by time."""
        count = len(log.ends)
        child = np.repeat(np.arange(count), [len(m) for m in log.members]) if count else np.zeros(0, np.int64)
        members = np.array([r for m in log.members for r in m], np.int64)
        where = np.where(members >= 0, members + held, ~members)
        parents = Parents.held(child, where)
        none = np.zeros(0, np.int64)
        return [beginnings(a, np.arange(count), parents, p, none) for (a, _), p in zip(self.layout.aggregates, pool, strict=True)]

    def _entries(
        self,
        rows: pa.Table,
        held: Entries,
        log: RowEffects,
        item: Ints,
        pool: list[State],
        content: list[State],
        caused_by: Ints,
        seq: Ints,
    ) -> tuple[Ints, Entries]:
        span = self.difference
        panes = [(whose, bounded(p + 1 + span), p, PANE, ref) for whose, key in log.keys.items() for p, ref in key.panes.items()]
        windows = [
            (whose, bounded(end), bounded(end - span), log.latest[ref] if ref >= 0 else int(held.matrix[CHANGED][~ref]), ref)
            for whose, key in log.keys.items()
            for end, ref in key.windows.items()
            if self.layout.final
        ]
        some = np.array(panes, np.int64).reshape(-1, 5).T
        fresh = np.array([w for w in windows if w[-1] >= 0], np.int64).reshape(-1, 5).T
        old = np.array([w for w in windows if w[-1] < 0], np.int64).reshape(-1, 5).T
        ref = some[-1]
        states = [taken(s, np.where(ref >= 0, ref + len(held), ~ref)) for s in pool]
        last = np.where(ref >= 0, item[np.maximum(ref, 0)] if len(item) else 0, 0)  # a pane's row is never looked at
        parts = [
            Entries(some[1:4], self.layout.payload(states, rows, last, np.zeros(len(ref), np.int64))),
            Entries(fresh[1:4], self.layout.payload([taken(s, fresh[-1]) for s in content], rows, caused_by[fresh[-1]], seq[fresh[-1]])),
            Entries(old[1:4], held.take(~old[-1]).payload),
        ]
        whose = np.concatenate((some[0], fresh[0], old[0]))
        order = np.argsort(whose, kind="stable")
        return whose[order], Entries.join(parts, 3).take(order)


def bounded(moment: int) -> int:
    """The moment, or the end of BIGINT beyond which it lies."""
    return min(max(moment, LOWEST), HIGHEST)
