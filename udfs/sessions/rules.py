"""Sessions (rules W2, W3): merging by gap, lateness and closing, over rows sorted by key and processing order.

`Sessions` takes the rows of one key one by one; `judge` comes to the same for many keys at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.state import Step

OPENED, MERGED, LATE, ASIDE = 0, 1, 2, 3
DROPPED = {OPENED: 0, LATE: 1, MERGED: 2}  # by their places in `FirstInSession.reasons`


@dataclass
class Sessions:
    """The live sessions of one key, as (start, end), both inclusive, in microseconds, in order: they lie further apart than `gap`."""

    gap: int
    grace: int
    live: list[tuple[int, int]] = field(default_factory=list)
    near: list[tuple[int, int]] = field(default_factory=list)  # those that the row at hand found, as they were: two at most

    def take(self, time: int, stream_time: int) -> tuple[int, int, int]:
        """Judge a row after merging: (what happened, session start, session end). A closed session is final [W3]."""
        live, closes = self.live, stream_time - self.gap - self.grace
        while live and live[0][1] < closes:
            del live[0]
        stop = bisect_left(live, (time + self.gap + 1,))
        start = stop
        while start and live[start - 1][1] + self.gap >= time:
            start -= 1
        self.near = near = live[start:stop]
        if not near and time < closes:
            return LATE, time, time
        session = (min(time, near[0][0]), max(time, near[-1][1])) if near else (time, time)
        live[start:stop] = [session]
        return (MERGED if near else OPENED), *session


@dataclass(frozen=True)
class FirstInSession:
    """DISTINCT_IN_WINDOW with `gap`: which rows open a session [D9]. Batches are (time, stream time, identity columns..)."""

    gap: int
    grace: int

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("late", "duplicate")

    @property
    def width(self) -> int:
        """A stream keeps the end and the start of each live session."""
        return 2

    def threshold(self, watermark: int) -> int:
        """A session that ends before this is closed [W3]."""
        return max(watermark - self.gap - self.grace, groups.LOWEST)

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, watermark: int) -> Step:
        """One micro-batch of a stream (`streamtime.udfs.state.Transition`); columns are the time alone."""
        sessions = Sessions(self.gap, self.grace)
        known: dict[int, list[tuple[int, int]]] = {}
        for key, end, start in zip(owner.tolist(), *held.tolist(), strict=True):
            known.setdefault(key, []).append((start, end))
        reasons, bounds = np.zeros(len(group), np.int64), np.zeros((2, len(group)), np.int64)
        live_of: dict[int, list[tuple[int, int]]] = {}
        before = -1
        for row, (key, time) in enumerate(zip(group.tolist(), groups.micros(columns[0]).tolist(), strict=True)):
            if key != before:
                sessions.live, before = sorted(known.get(key, [])), key
            verdict, bounds[0, row], bounds[1, row] = sessions.take(time, watermark)
            reasons[row] = DROPPED[verdict]
            if verdict != LATE:
                live_of[key] = sessions.live
        entries = [(key, end, start) for key, live in live_of.items() for start, end in live]
        matrix = np.array(entries, np.int64).reshape(-1, 3).T
        edges = [groups.times(edge, np.zeros(len(edge), bool), columns[0].type) for edge in bounds]
        return Step(reasons, edges, matrix[0], matrix[1:])

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Per row a struct: `verdict` (opened, merged, late, or takes no part) and the session's bounds after the row."""
        sessions, boundaries = Sessions(self.gap, self.grace), groups.Boundaries()
        for times, clock, *identity in batches:
            length = len(times)
            verdict, start, end = (
                np.full(length, ASIDE, np.int8),
                np.zeros(length, np.int64),
                np.zeros(length, np.int64),
            )
            rows = np.flatnonzero(groups.valid((times, *identity), length))
            if len(rows):
                picked = pa.array(rows)
                starts = boundaries.starts([c.take(picked) for c in identity], len(rows)).tolist()
                moments = groups.micros(times)[rows].tolist()
                clocks = groups.micros(clock)[rows].tolist()
                for row, new, time, stream_time in zip(rows.tolist(), starts, moments, clocks, strict=True):
                    if new:
                        sessions.live = []
                    verdict[row], start[row], end[row] = sessions.take(time, stream_time)
            aside = verdict == ASIDE
            bounds = [groups.times(edge, aside, times.type) for edge in (start, end)]
            yield pa.StructArray.from_arrays([pa.array(verdict), *bounds], ["verdict", "start", "end"])


NONE = np.zeros((2, 0), np.int64)


@dataclass(frozen=True)
class Judged:
    """What became of rows, and the sessions as they stand after the last of them, by number; a number may stand for none."""

    session: Ints  # per row, the number of the session that it ends up in; -1 where it is late
    carried: Ints  # the same for each session that came in
    live: Ints  # the live sessions of the last group
    starts: Ints
    ends: Ints

    @property
    def late(self) -> Flags:
        """Which rows are late."""
        return self.session < 0


def judge(gap: int, grace: int, group: Ints, times: Ints, clocks: Ints, live: Ints = NONE, owner: Ints | None = None) -> Judged:
    """Judge rows that lie by group, each group's in processing order, as `Sessions` does.

    `clocks` is stream time at each row; `live` are sessions that come in, as starts and ends: of the first group, or of their `owner`.

    Rows whose times connect, whatever their order, are one session if none of them is later than `grace`: each then finds alive whatever
    it connects to. Only the others have to be looked at in their order, and one by one only where times fall.
    """
    count = live.shape[1]
    low, high, of = times, times, group
    if count:
        low, high = (np.concatenate((edge, times)) for edge in live)
        of = np.concatenate((np.full(count, group[0]) if owner is None else owner, group))
    closes = groups.minus(groups.minus(clocks, gap), grace)
    before = np.concatenate((np.full(count, groups.LOWEST), closes))
    if groups.falls(group, clocks).any():  # a key's rows follow several clocks: what one of them closed stays closed
        order, session = np.argsort(of, kind="stable"), np.empty(len(of), np.int64)
        given = (values[order] for values in (of, low, high, before))
        session[order], starts, ends, alive = _one_by_one(gap, *given)
        return Judged(session[count:], session[:count], np.array(alive, np.int64), starts, ends)
    rising = not (of[1:] < of[:-1]).any() and not groups.falls(of, low).any()
    order = np.arange(len(low)) if rising else np.lexsort((low, of))
    begins, reach, whose = low[order], high[order], of[order]
    reach = groups.running_max(whose, reach) if count else reach
    first = np.ones(len(low), bool)
    first[1:] = (whose[1:] != whose[:-1]) | (begins[1:] > groups.plus(reach[:-1], gap))
    at = np.flatnonzero(first)
    session = np.empty(len(low), np.int64)
    session[order] = np.cumsum(first) - 1
    starts, ends = begins[at], np.maximum.reduceat(high[order], at)
    troubled = np.zeros(len(at), bool)
    troubled[session[count:][times < groups.minus(clocks, grace)]] = True
    if troubled.any():
        rows = np.flatnonzero(troubled[session])
        rows = rows[np.argsort(session[rows], kind="stable")]
        which = session[rows]
        fallen = np.isin(which, which[1:][groups.falls(which, low[rows]) | groups.falls(which, high[rows])])
        for some, decide in ((rows[~fallen], _rising), (rows[fallen], _one_by_one)):
            if len(some):
                numbers, *edges, _ = decide(gap, session[some], low[some], high[some], before[some])
                session[some] = np.where(numbers < 0, -1, numbers + len(starts))
                starts, ends = (np.concatenate(pair) for pair in zip((starts, ends), edges, strict=True))
    last = np.unique(session[of == group[-1]])
    last = last[last >= 0]
    return Judged(session[count:], session[:count], last[ends[last] >= closes[-1]], starts, ends)


def _rising(gap: int, group: Ints, low: Ints, high: Ints, closes: Ints) -> tuple[Ints, Ints, Ints, list[int]]:
    """Rows in rising order: one joins the session of the row before, unless that is too far away or closed."""
    numbers, kept = np.full(len(low), -1), np.flatnonzero(high >= closes)
    group, low, high, closes = (values[kept] for values in (group, low, high, closes))
    opened = np.ones(len(kept), bool)
    opened[1:] = (group[1:] != group[:-1]) | (high[:-1] < closes[1:]) | (low[1:] > groups.plus(high[:-1], gap))
    numbers[kept] = np.cumsum(opened) - 1
    return numbers, low[opened], high[np.flatnonzero(np.append(opened, True)[1:])], []


def _one_by_one(gap: int, group: Ints, low: Ints, high: Ints, closes: Ints) -> tuple[Ints, Ints, Ints, list[int]]:
    """Rows in any order; those with a length are sessions that came in. Gives the live sessions of the last group as well."""
    starts, ends, into, numbers = list[int](), list[int](), list[int](), list[int]()
    live, begins, before = list[int](), list[int](), -1  # in order, and the starts of these
    for key, start, end, closed in zip(group.tolist(), low.tolist(), high.tolist(), closes.tolist(), strict=True):
        if key != before:
            live, begins, before = [], [], key
        while live and ends[live[0]] < closed:
            del live[0], begins[0]
        last = first = bisect_right(begins, end + gap)
        while first and ends[live[first - 1]] + gap >= start:
            first -= 1
        if first < last:
            number = live[first]
            if start < begins[first]:
                starts[number] = begins[first] = start
            if first + 1 < last:
                ends[number] = ends[live[last - 1]]
                for other in live[first + 1 : last]:
                    into[other] = number
                del live[first + 1 : last], begins[first + 1 : last]
            if end > ends[number]:
                ends[number] = end
        elif end < closed:
            number = -1
        else:
            number = len(starts)
            starts.append(start)
            ends.append(end)
            into.append(number)
            live.insert(last, number)
            begins.insert(last, start)
        numbers.append(number)
    for number in range(len(into)):
        while into[number] != into[into[number]]:
            into[number] = into[into[number]]
    found = np.array(numbers)
    found[found >= 0] = np.array([*into, 0])[found[found >= 0]]
    return found, np.array(starts, np.int64), np.array(ends, np.int64), live
