"""Sessions (rules W2, W3): merging by gap, lateness and closing, over rows sorted by key and processing order.

`Sessions` takes the rows of one key one by one, whoever asks; `judge` comes to the same for many keys at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.closing import in_grace, of_sessions
from streamtime.udfs.state import Step

OPENED, JOINED, LATE, ASIDE = 0, 1, 2, 3
DROPPED = {OPENED: 0, LATE: 1, JOINED: 2}  # by their places in `FirstInSession.reasons`


Session = tuple[int, int, int]  # its start and end, both inclusive, in microseconds, and what whoever asks knows it by


@dataclass(slots=True)
class Sessions:
    """The live sessions of one key, in order: they lie further apart than `gap`. Wherever rows come one by one, this is how they merge."""

    gap: int
    live: list[Session] = field(default_factory=list)
    over: list[Session] = field(default_factory=list)  # those that the row at hand found closed: they are no longer live
    near: list[Session] = field(default_factory=list)  # those that it merged with, as they were: of a row two at most
    at: int = 0  # the place of its session among the live ones

    def take(self, start: int, end: int, oldest_end: int, known_by: int = 0) -> Session | None:
        """The session that a row, or a session that comes in, is in after merging with all within `gap` [W2]; None where it is late [W3].

        It is known by what the first of those was known by, else by `known_by`. A session that ends before `oldest_end` is closed.
        """
        live, gap = self.live, self.gap
        if self.over:
            self.over = []
        while live and live[0][1] < oldest_end:  # a closed session is final: no row joins it
            self.over.append(live.pop(0))
        last = len(live) if not live or live[-1][0] <= end + gap else bisect_left(live, (end + gap + 1,))
        first = last
        while first and live[first - 1][1] + gap >= start:
            first -= 1
        self.at = first
        self.near = near = live[first:last]
        if not near:
            if end < oldest_end:
                return None
            session = (start, end, known_by)
            live.insert(first, session)
            return session
        (low, _, known_by), (_, high, _) = near[0], near[-1]
        session = (low if low < start else start, high if high > end else end, known_by)
        live[first:last] = (session,)
        return session


def walked(gap: int, group: Ints, times: Ints, oldest_ends: Ints, live: dict[int, list[Session]]) -> tuple[Ints, dict[int, list[Session]]]:
    """Rows that come by group, each group's in processing order, one by one; and each group's live sessions before, and after.

    Of each row what it did, its session's start and end right after it, and the start and end of the session that it joined before it,
    LOWEST where it joined none. Of a row that merged two, that start is the one of the later session, and the end that of the earlier one.
    """
    sessions, before, living = Sessions(gap), -1, dict[int, list[Session]]()
    steps = list[int]()
    for key, time, oldest_end in zip(group.tolist(), times.tolist(), oldest_ends.tolist(), strict=True):
        if key != before:
            sessions.live, before = sorted(live.get(key, [])), key
            living[key] = sessions.live
        session = sessions.take(time, time, oldest_end)
        if session is None:
            steps += (LATE, time, time, LOWEST, LOWEST)
        elif near := sessions.near:
            steps += (JOINED, session[0], session[1], near[-1][0], near[0][1])
        else:
            steps += (OPENED, time, time, LOWEST, LOWEST)
    return np.array(steps, np.int64).reshape(-1, 5).T, living


@dataclass(frozen=True)
class RowByRow:
    """What each row did to the sessions of its key when it came. Batches are (time, stream time, identity columns..)."""

    gap: int
    grace: int | None

    @property
    def width(self) -> int:
        """A stream keeps the end and the start of each live session."""
        return 2

    def threshold(self, stream_time: int) -> int:
        """A session that ends before this is closed [W3]."""
        return int(of_sessions(self.gap, self.grace).closed_before(stream_time))

    def oldest_ends(self, stream_times: Ints) -> Ints:
        """A session that ends before this is closed when the row comes."""
        closed: Ints = of_sessions(self.gap, self.grace).closed_before(stream_times)
        return closed

    def judged(self, group: Ints, times: pa.Array, owner: Ints, held: Ints, stream_time: int) -> tuple[Ints, Ints]:
        """One micro-batch of a stream: of each row what `walked` says, and the new entries, each with its group before it."""
        live: dict[int, list[Session]] = {}
        for key, end, start in zip(owner.tolist(), *held.tolist(), strict=True):
            live.setdefault(key, []).append((start, end, 0))
        steps, live = walked(self.gap, group, groups.micros(times), self.oldest_ends(np.full(len(group), stream_time)), live)
        entries = [(key, end, start) for key, sessions in live.items() for start, end, _ in sessions]
        return steps, np.array(entries, np.int64).reshape(-1, 3).T

    def steps(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[tuple[Ints, pa.DataType]]:
        """The same of batches, with the type of their times; a row that takes no part is ASIDE."""
        boundaries, live = groups.Boundaries(), list[Session]()
        for times, stream_time, *identity in batches:
            length = len(times)
            steps = np.full((5, length), LOWEST)
            steps[0] = ASIDE
            rows = np.flatnonzero(groups.valid((times, *identity), length))
            if len(rows):
                starts = boundaries.starts([c.take(pa.array(rows)) for c in identity], len(rows))
                group, oldest_ends = groups.numbered(starts), self.oldest_ends(groups.micros(stream_time)[rows])
                steps[:, rows], living = walked(self.gap, group, groups.micros(times)[rows], oldest_ends, {} if starts[0] else {0: live})
                live = living[int(group[-1])]
            yield steps, times.type


def edge(moments: Ints, like: pa.DataType) -> pa.Array:
    """Times, null where LOWEST stands for none."""
    none = moments == LOWEST
    return groups.times(np.where(none, 0, moments), none, like)


@dataclass(frozen=True)
class FirstInSession(RowByRow):
    """DISTINCT_IN_WINDOW with `gap`: which rows open a session [D9]."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("late", "duplicate")

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, stream_time: int) -> Step:
        """One micro-batch of a stream (`streamtime.udfs.state.Transition`); columns are the time alone."""
        (verdict, start, end, *_), entries = self.judged(group, columns[0], owner, held, stream_time)
        reasons = np.array([DROPPED[v] for v in (OPENED, JOINED, LATE)])[verdict]
        return Step(reasons, [edge(start, columns[0].type), edge(end, columns[0].type)], entries[0], entries[1:])

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Per row a struct: `verdict` (opened, joined, late, or takes no part) and the session's bounds after the row."""
        for (verdict, start, end, *_), like in self.steps(batches):
            columns = [pa.array(verdict.astype(np.int8)), edge(start, like), edge(end, like)]
            yield pa.StructArray.from_arrays(columns, ["verdict", "start", "end"])


NONE = np.zeros((2, 0), np.int64)


@dataclass(frozen=True)
class Fates:
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


def judge(gap: int, grace: int, group: Ints, times: Ints, stream_times: Ints, live: Ints = NONE, owner: Ints | None = None) -> Fates:
    """Judge rows that lie by group, each group's in processing order, as `Sessions` does.

    `stream_times` are those at each row; `live` are sessions that come in, as starts and ends: of the first group, or of their `owner`.

    Rows whose times connect, whatever their order, are one session if none of them is later than `grace`: each then finds alive whatever
    it connects to. Only the others have to be looked at in their order, and one by one only where times fall.
    """
    count = live.shape[1]
    low, high, of = times, times, group
    if count:
        low, high = (np.concatenate((edge, times)) for edge in live)
        of = np.concatenate((np.full(count, group[0]) if owner is None else owner, group))
    oldest_ends = of_sessions(gap, grace).closed_before(stream_times)
    before = np.concatenate((np.full(count, LOWEST), oldest_ends))
    if groups.falls(group, stream_times).any():  # a key's rows follow several clocks: what one of them closed stays closed
        order, session = np.argsort(of, kind="stable"), np.empty(len(of), np.int64)
        given = (values[order] for values in (of, low, high, before))
        session[order], starts, ends, alive = _one_by_one(gap, *given)
        return Fates(session[count:], session[:count], np.array(alive, np.int64), starts, ends)
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
    troubled[session[count:][times < in_grace(stream_times, grace)]] = True
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
    return Fates(session[count:], session[:count], last[ends[last] >= oldest_ends[-1]], starts, ends)


def _rising(gap: int, group: Ints, low: Ints, high: Ints, oldest_ends: Ints) -> tuple[Ints, Ints, Ints, list[int]]:
    """Rows in rising order: one joins the session of the row before, unless that is too far away or closed."""
    numbers, accepted = np.full(len(low), -1), np.flatnonzero(high >= oldest_ends)
    group, low, high, oldest_ends = (values[accepted] for values in (group, low, high, oldest_ends))
    opened = np.ones(len(accepted), bool)
    opened[1:] = (group[1:] != group[:-1]) | (high[:-1] < oldest_ends[1:]) | (low[1:] > groups.plus(high[:-1], gap))
    numbers[accepted] = np.cumsum(opened) - 1
    return numbers, low[opened], high[np.flatnonzero(np.append(opened, True)[1:])], []


def _one_by_one(gap: int, group: Ints, low: Ints, high: Ints, oldest_ends: Ints) -> tuple[Ints, Ints, Ints, list[int]]:
    """Rows in any order; those with a length are sessions that came in. Gives the live sessions of the last group as well."""
    starts, ends, into, numbers = list[int](), list[int](), list[int](), list[int]()
    sessions, before = Sessions(gap), -1  # known by their numbers
    for key, start, end, oldest_end in zip(group.tolist(), low.tolist(), high.tolist(), oldest_ends.tolist(), strict=True):
        if key != before:
            sessions.live, before = [], key
        session = sessions.take(start, end, oldest_end, len(starts))
        if session is None:
            numbers.append(-1)
            continue
        first, last, number = session
        numbers.append(number)
        if number == len(starts):
            starts.append(first)
            ends.append(last)
            into.append(number)
        else:
            starts[number], ends[number] = first, last
            if len(sessions.near) > 1:
                for _, _, other in sessions.near[1:]:
                    into[other] = number
    for number in range(len(into)):
        while into[number] != into[into[number]]:
            into[number] = into[into[number]]
    steps = np.array(numbers)
    steps[steps >= 0] = np.array([*into, 0])[steps[steps >= 0]]
    return steps, np.array(starts, np.int64), np.array(ends, np.int64), [number for _, _, number in sessions.live]
