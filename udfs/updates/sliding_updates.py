"""WINDOW_UPDATES with sliding windows (rules W5, W6): one that ends at each row, one that begins right after it if rows lie in it.

A window's content is looked up among panes: what the rows of a key with one event time come to.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
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
    MOST,
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

ROWS = 1 << 16  # at once
PANE = LOWEST  # stands for the largest event time, in the entry of a pane


@dataclass
class KeyWindows:
    """A key's panes and windows. A reference is a number of a row, or of a change; where it is negative, ~reference is a held entry."""

    times: list[int] = field(default_factory=list)
    panes: dict[int, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)  # of `windows`, those that are to be merged from their panes, for final rows


@dataclass
class RowEffects:
    """What rows did, as plain lists."""

    items: list[int] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    begun_with: list[tuple[int, int]] = field(default_factory=list)  # chain, held entry
    causes: list[int] = field(default_factory=list)  # of each change the item
    ends: list[int] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)
    merged: list[tuple[int, list[int]]] = field(default_factory=list)  # changes, and the panes that each is merged from
    keys: dict[int, KeyWindows] = field(default_factory=dict)
    taken: int = 0  # rows
    spent: int = 0  # changes, and panes that are to be merged

    def merge(self, change: int, panes: list[int]) -> None:
        """What a window comes to, as its panes are now."""
        self.merged.append((change, panes))
        self.spent += len(panes)


@dataclass(frozen=True)
class Changed:
    """The changes of windows, in order."""

    content: list[State]  # what windows come to
    place: Ints  # of each change where in `content` its window is, or -1
    caused_by: Ints  # the row
    seq: Ints

    def states(self, which: Ints) -> list[State]:
        """What the windows of these changes come to."""
        return [taken(state, self.place[which]) for state in self.content]


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
        self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries, before: int = 0, last_only: bool = False
    ) -> tuple[Taken, Ints, int]:
        """One upsert for each window that a row lies in or calls into being, by their end."""
        rows, group, stream_times = rows.slice(0, ROWS), group[:ROWS], stream_times[:ROWS]
        log = self._log(groups.micros(one(rows, self.layout.time)), group, self.closing.closed_before(stream_times), owner, held.matrix)
        rows, group = rows.slice(0, log.taken), group[: log.taken]
        touched = set((group[-1:] if last_only else group).tolist())
        log.keys = {whose: key for whose, key in sorted(log.keys.items()) if whose in touched}
        item, chain = np.array(log.items, np.int64), np.array(log.chains, np.int64)
        begun = np.array(log.begun_with, np.int64).reshape(-1, 2).T
        states = self.layout.states(held.payload, len(held), rows)
        per_item = accumulated(self.layout, rows, item, chain, Parents.held(begun[0], begun[1]), states, every=True).per_item
        pool = [joined([h, i]) if log.items else h for h, i in zip(states, per_item, strict=True)]
        caused_by = item[log.causes] if log.causes else np.zeros(0, np.int64)
        seq = numbered(self.layout, rows, group, caused_by, before)
        changed = Changed(*self._content(log, pool, len(held)), caused_by, seq)
        out = pa.table({})
        if not self.layout.final:
            latest = np.array(log.latest, np.int64)
            start, end = (np.array([bounded(e - back) for e in log.ends], np.int64) for back in (self.difference, 0))
            upserts = Windows(start, end, self.close(end), np.full(len(end), UPSERT), latest)
            results = [a.result(s, kind) for (a, kind), s in zip(self.layout.aggregates, changed.content, strict=True)]
            at = pa.array(caused_by)
            out = self.layout.table({n: one(rows, n).take(at) for n in self.layout.carried}, upserts, results, pa.array(seq), None)
        late: dict[str, float] = {"late_drop_total": log.taken - len(item)}
        return Taken(out, *self._entries(rows, held, log, item, pool, changed), late), caused_by, log.taken

    def _log(self, times: Ints, group: Ints, horizons: Ints, owner: Ints, held: Ints) -> RowEffects:
        log, chain_of = RowEffects(), dict[tuple[int, int], int]()
        for entry, (whose, end, start, changed) in enumerate(zip(owner.tolist(), *held.tolist(), strict=True)):
            if whose > group[-1]:
                break
            key = log.keys.setdefault(whose, KeyWindows())
            if changed == PANE:
                bisect.insort(key.times, start)
                key.panes[start] = ~entry
            else:
                key.windows[end if end < HIGHEST else start + self.difference] = ~entry
        for row, (whose, time, horizon) in enumerate(zip(group.tolist(), times.tolist(), horizons.tolist(), strict=True)):
            if log.spent >= MOST:
                break
            log.taken += 1
            if time + self.difference >= horizon:
                key = log.keys.setdefault(whose, KeyWindows())
                self._take(log, key, chain_of, row, whose, time, horizon)
        return log

    def _take(
        self, log: RowEffects, key: KeyWindows, chain_of: dict[tuple[int, int], int], row: int, whose: int, time: int, horizon: int
    ) -> None:
        is_new = time not in key.panes
        if (whose, time) not in chain_of:
            chain_of[whose, time] = len(chain_of)
            if not is_new:
                log.begun_with.append((chain_of[whose, time], ~key.panes[time]))
        if is_new:
            bisect.insort(key.times, time)
        touched = self._touched(key.times, time, is_new)
        for end in touched:
            if end < horizon and end in key.due:  # a window that is closed has what its panes were
                log.merge(key.due.pop(end), [key.panes[p] for p in self._inside(key, end) if p in key.panes])
        key.panes[time] = len(log.items)
        log.items.append(row)
        log.chains.append(chain_of[whose, time])
        for end in touched:
            if end >= horizon and (inside := self._inside(key, end)):
                key.windows[end] = len(log.ends)
                if self.layout.final:
                    key.due[end] = len(log.ends)
                else:
                    log.merge(len(log.ends), [key.panes[p] for p in inside])
                log.causes.append(len(log.items) - 1)
                log.ends.append(end)
                log.latest.append(inside[-1])
        log.spent += len(touched)

    def _inside(self, key: KeyWindows, end: int) -> list[int]:
        """The event times in a window."""
        return key.times[bisect.bisect_left(key.times, end - self.difference) : bisect.bisect_right(key.times, end)]

    def _touched(self, times: list[int], time: int, is_new: bool) -> list[int]:
        """The ends of windows that a row lies in or calls into being, in Kafka's order: those that were there, the latest first; then
        what begins after the row before it; then what ends at it; then what begins after it."""
        span, at = self.difference, bisect.bisect_left(times, time)
        behind = bisect.bisect_right(times, time + span)
        later = times[at:behind]
        there = [p for p in later if p > time or not is_new]
        before = times[bisect.bisect_left(times, time - 1 - span) : at]
        after = next(iter(there), time + span + 2)  # the first that was there and does not lie before the row
        known = {*there, *(p + 1 + span for p in before[:-1])}
        fresh = list[int]()
        if before:
            (known.add if after <= before[-1] + 1 + span else fresh.append)(before[-1] + 1 + span)
        if is_new and time not in known:
            fresh.append(time)
        if is_new and times[behind : behind + 1] != [time + 1 + span]:
            fresh.append(time + 1 + span)
        return [*sorted(known, reverse=True), *dict.fromkeys(fresh)]

    def _content(self, log: RowEffects, pool: list[State], held: int) -> tuple[list[State], Ints]:
        """What the windows that changed come to, each merged from its panes by time; and of each change its place in that, or -1."""
        due = ((n, [key.panes[p] for p in self._inside(key, end)]) for key in log.keys.values() for end, n in key.due.items())
        changes, parts, none = list[int](), list[list[State]](), np.zeros(0, np.int64)
        for windows in portions(itertools.chain(log.merged, due)):
            changes += [number for number, _ in windows]
            child = np.repeat(np.arange(len(windows)), np.array([len(panes) for _, panes in windows], np.int64))
            members = np.array([r for _, panes in windows for r in panes], np.int64)
            parents, own = Parents.held(child, np.where(members >= 0, members + held, ~members)), np.arange(len(windows))
            parts.append([beginnings(a, own, parents, p, none) for (a, _), p in zip(self.layout.aggregates, pool, strict=True)])
        place = np.full(len(log.ends), -1)
        place[np.array(changes, np.int64)] = np.arange(len(changes))
        return [joined([part[i] for part in parts]) for i in range(len(pool))], place

    def _entries(
        self, rows: pa.Table, held: Entries, log: RowEffects, item: Ints, pool: list[State], changed: Changed
    ) -> tuple[Ints, Entries]:
        """Panes, which have what the rows of one time come to; and windows, where only final results leave."""
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
        ref, ends = some[-1], fresh[-1]
        states = [taken(s, np.where(ref >= 0, ref + len(held), ~ref)) for s in pool]
        last = np.where(ref >= 0, item[np.maximum(ref, 0)] if len(item) else 0, 0)  # a pane's row is never looked at
        parts = [
            Entries(some[1:4], self.layout.payload(states, rows, last, np.zeros(len(ref), np.int64))),
            Entries(fresh[1:4], self.layout.payload(changed.states(ends), rows, changed.caused_by[ends], changed.seq[ends])),
            Entries(old[1:4], held.take(~old[-1]).payload),
        ]
        whose = np.concatenate((some[0], fresh[0], old[0]))
        order = np.argsort(whose, kind="stable")
        return whose[order], Entries.join(parts, 3).take(order)


def portions(windows: Iterable[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Windows and the panes that they are merged from, some at a time."""
    some, count = list[tuple[int, list[int]]](), 0
    for change, panes in windows:
        some.append((change, panes))
        count += len(panes)
        if count >= MOST:
            yield some
            some, count = [], 0
    yield some


def bounded(moment: int) -> int:
    """The moment, or the end of BIGINT beyond which it lies."""
    return min(max(moment, LOWEST), HIGHEST)
