"""Sessions (rules W2, W3): merging by gap, lateness and closing, row by row, over Arrow batches sorted by key and processing order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs import groups

OPENED, MERGED, LATE, ASIDE = 0, 1, 2, 3


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
