"""Sessions (rules W2, W3): merging by gap, lateness and closing, row by row, over Arrow batches sorted by key and processing order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs import groups
from streamtime.udfs.groups import Ints
from streamtime.udfs.state import Step

OPENED, MERGED, LATE, ASIDE = 0, 1, 2, 3
DROPPED = {OPENED: 0, LATE: 3, MERGED: 4}  # as numbers among DISTINCT_IN_WINDOW's reasons: null_time, null_key, late, duplicate


@dataclass
class Sessions:
    """The live sessions of one key, as (start, end), both inclusive, in microseconds."""

    gap: int
    grace: int
    live: list[tuple[int, int]] = field(default_factory=list)

    def take(self, time: int, stream_time: int) -> tuple[int, int, int]:
        """Judge a row after merging: (what happened, session start, session end). A closed session is final [W3]."""
        closes = stream_time - self.gap - self.grace
        self.live = [s for s in self.live if s[1] >= closes]
        near = [s for s in self.live if s[0] - self.gap <= time <= s[1] + self.gap]
        start, end = min([time, *(s[0] for s in near)]), max([time, *(s[1] for s in near)])
        if end < closes:
            return LATE, start, end
        self.live = [s for s in self.live if s not in near]
        self.live.append((start, end))
        return (MERGED if near else OPENED), start, end


@dataclass(frozen=True)
class FirstInSession:
    """DISTINCT_IN_WINDOW with `gap`: which rows open a session [D9]. Batches are (time, stream time, identity columns..)."""

    gap: int
    grace: int
    duplicates: bool = True  # on a stream, whether the rows after the first are dropped

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
        kept: dict[int, list[tuple[int, int]]] = {}
        before = -1
        for row, (key, time) in enumerate(zip(group.tolist(), groups.micros(columns[0]).tolist(), strict=True)):
            if key != before:
                sessions.live, before = known.get(key, []), key
            verdict, bounds[0, row], bounds[1, row] = sessions.take(time, watermark)
            reasons[row] = DROPPED[verdict] if self.duplicates or verdict != MERGED else 0
            if verdict != LATE:
                kept[key] = sessions.live
        entries = [(key, end, start) for key, live in kept.items() for start, end in live]
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
