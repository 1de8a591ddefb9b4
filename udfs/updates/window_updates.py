"""WINDOW_UPDATES with tumbling and hopping windows (rules W1, W5, W6): every row, in every window that contains it and is open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import Closing, of_time_windows
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.updates.updates import CHANGED, MOST, START, UPSERT, ChangeColumns, Parents, Updates, Windows, accumulated, numbered


@dataclass(frozen=True)
class WindowUpdates(Updates):
    """Windows `[start, end)`, aligned to the epoch."""

    layout: ChangeColumns
    size: int
    slide: int
    grace: int

    @property
    def closing(self) -> Closing:
        """When a window closes [W1]."""
        return of_time_windows(self.grace)

    def changes(
        self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries, before: int = 0, last_only: bool = False
    ) -> tuple[Taken, Ints, int]:
        """One upsert for each row and window, windows of one row by their start."""
        taken = min(rows.num_rows, max(MOST // -(-self.size // self.slide), 1))
        rows, group, stream_times = rows.slice(0, taken), group[:taken], stream_times[:taken]
        times = groups.micros(one(rows, self.layout.time))
        into = (
            times % self.slide
        )  # the last window; what lies beyond the ends of BIGINT stands there, but not more than one window begins there
        room = np.where(times < 0, times - LOWEST, HIGHEST)
        number = np.minimum((self.size - 1 - into) // self.slide - 1, (room - into) // self.slide) + 2
        item = np.repeat(np.arange(len(times)), number)
        into = into[item] + self.slide * (np.cumsum(number)[item] - 1 - np.arange(len(item)))
        start, ahead = times[item] - np.minimum(into, room[item]), self.size - into
        end = np.minimum(times[item], HIGHEST - ahead) + ahead
        is_open = end >= self.closing.closed_before(stream_times)[item]
        late: dict[str, float] = {"late_drop_total": int((~is_open).sum())}
        item, start, end = item[is_open], start[is_open], end[is_open]
        window, of_group, of_start = windows(group[item], start)
        entry = known(of_group, of_start, owner, held.matrix[START])
        going_on = np.flatnonzero(entry >= 0)
        states = self.layout.states(held.payload, len(held), rows)
        sums = accumulated(self.layout, rows, item, window, Parents.held(going_on, entry[going_on]), states, every=not self.layout.final)
        changed = np.where(entry >= 0, held.matrix[CHANGED][entry] if len(held) else LOWEST, LOWEST)
        seq = numbered(self.layout, rows, group, item, before)
        latest, last = reached(window, times[item], changed)
        out = pa.table({})
        if not self.layout.final:
            upserts = Windows(start, end, self.close(end), np.full(len(item), UPSERT), latest)
            results = [a.result(s, kind) for (a, kind), s in zip(self.layout.aggregates, sums.per_item, strict=True)]
            at = pa.array(item)
            out = self.layout.table({n: one(rows, n).take(at) for n in self.layout.carried}, upserts, results, pa.array(seq), None)
        asked = np.flatnonzero(of_group >= (group[-1] if last_only else 0))
        of_group, of_start, last, entry = of_group[asked], of_start[asked], last[asked], entry[asked]
        matrix = np.stack((end[last], of_start, latest[last])).reshape(3, -1)
        new = Entries(matrix, self.layout.payload(sums.of(asked), rows, item[last], seq[last]))
        return Taken(out, *with_untouched(new, of_group, owner, held, entry), late), item, taken


def windows(group: Ints, start: Ints) -> tuple[Ints, Ints, Ints]:
    """The windows that items fall into: each item's window, and each window's group and start, in that order."""
    rises = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (start[1:] >= start[:-1]))
    order = np.arange(len(group)) if rises.all() else np.lexsort((start, group))
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(group[order]) != 0) | (np.diff(start[order]) != 0)
    window = np.empty(len(order), np.int64)
    window[order] = np.cumsum(begins) - 1
    return window, group[order][begins], start[order][begins]


def known(group: Ints, start: Ints, owner: Ints, held: Ints) -> Ints:
    """For each window the entry that was held of it, or -1."""
    places = np.full(len(group), -1)
    if not len(owner):
        return places
    asked = (group >= owner.min()) & (group <= owner.max())
    if not asked.all():  # of a batch, the first group alone
        places[asked] = known(group[asked], start[asked], owner, held)
        return places
    distinct = np.unique(np.concatenate((start, held)))
    wanted = group * len(distinct) + np.searchsorted(distinct, start)
    there = owner * len(distinct) + np.searchsorted(distinct, held)
    order = np.argsort(there)
    place = np.searchsorted(there[order], wanted)
    inside = place < len(there)
    hit = np.zeros(len(group), bool)
    hit[inside] = there[order][place[inside]] == wanted[inside]
    places[hit] = order[place[hit]]
    return places


def reached(window: Ints, times: Ints, before: Ints) -> tuple[Ints, Ints]:
    """The largest event time in each item's window so far, and each window's last item."""
    if not len(window):
        return times, window
    order = np.argsort(window, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(window[order])), len(order) - 1)
    begins = np.append(0, ends[:-1] + 1)
    moments = times[order]
    moments[begins] = np.maximum(moments[begins], before)
    latest = np.empty(len(window), np.int64)
    latest[order] = groups.running_max(window[order], moments)
    return latest, order[ends]


def with_untouched(new: Entries, of_group: Ints, owner: Ints, held: Entries, entry: Ints) -> tuple[Ints, Entries]:
    """The new entries, and of the same groups those held that are as they were; by group."""
    stays = np.isin(owner, of_group)
    stays[entry[entry >= 0]] = False
    if not stays.any():
        return of_group, new
    both = Entries.join([new, held.take(stays)], len(new.matrix))
    of = np.concatenate((of_group, owner[stays]))
    order = np.argsort(of, kind="stable")
    return of[order], both.take(order)
