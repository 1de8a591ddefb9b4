"""What each row did to the sessions of its key when it came, row by row: for `output => 'explain'`, and for what is late in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Ints
from streamtime.udfs.sessions.rules import LATE, Sessions
from streamtime.udfs.state import Step

FOR_EVER = 1 << 65  # microseconds: more than any two times lie apart
EDGES = ("was_start", "was_end", "start", "end")


@dataclass(frozen=True)
class SessionSteps:
    """Of each row four times.

    `start` and `end` are its session's bounds right after it; `was_start` and `was_end` those that the session which it joined had before,
    null where it joined none. Of a row that merged two (there are never more within `gap` of it), `was_end` is the end of the earlier one
    and `was_start` the start of the later one: the wrong way round.

    Without `grace`, no row is late; `closes` says whether sessions then close all the same, as they do in a stream.
    """

    gap: int
    grace: int | None
    closes: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("late",)

    @property
    def width(self) -> int:
        """A stream keeps the end and the start of each live session."""
        return 2

    def threshold(self, watermark: int) -> int:
        """A session that ends before this is closed [W3]."""
        return max(watermark - self.gap - (self.grace or 0), LOWEST)

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, watermark: int) -> Step:
        """One micro-batch of a stream (`streamtime.udfs.state.Transition`); columns are the time alone."""
        live: dict[int, list[tuple[int, int]]] = {}
        for key, end, start in zip(owner.tolist(), *held.tolist(), strict=True):
            live.setdefault(key, []).append((start, end))
        steps, late, found = self._steps(group.tolist(), groups.micros(columns[0]).tolist(), [watermark] * len(group), live)
        entries = sorted((key, end, start) for key, sessions in found.items() for start, end in sessions)
        matrix = np.array(entries, np.int64).reshape(-1, 3).T
        return Step(np.array(late, np.int64), self._times(steps, columns[0].type), matrix[0], matrix[1:])

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Per row a struct of `late` and the four times. Batches are (time, stream time, identity columns..)."""
        boundaries, live = groups.Boundaries(), list[tuple[int, int]]()
        for times, clock, *identity in batches:
            length = len(times)
            steps, late = np.full((4, length), LOWEST), np.zeros(length, bool)
            rows = np.flatnonzero(groups.valid((times, *identity), length))
            if len(rows):
                starts = boundaries.starts([c.take(pa.array(rows)) for c in identity], len(rows))
                group, moments, clocks = groups.numbered(starts), groups.micros(times)[rows], groups.micros(clock)[rows]
                given = {} if starts[0] else {0: live}
                steps[:, rows], late[rows], found = self._steps(group.tolist(), moments.tolist(), clocks.tolist(), given)
                live = found.get(int(group[-1]), [])
            yield pa.StructArray.from_arrays([pa.array(late), *self._times(steps, times.type)], ["late", *EDGES])

    def _steps(
        self, group: list[int], times: list[int], clocks: list[int], live: dict[int, list[tuple[int, int]]]
    ) -> tuple[Ints, list[bool], dict[int, list[tuple[int, int]]]]:
        """The four times of each row, which are late, and the live sessions of each group at the end. LOWEST stands for null."""
        never = self.grace is None and not self.closes
        sessions = Sessions(self.gap, FOR_EVER if never else self.grace or 0)
        steps, late = np.full((len(group), 4), LOWEST), [False] * len(group)
        before, found = -1, dict[int, list[tuple[int, int]]]()
        for row, (key, time, clock) in enumerate(zip(group, times, clocks, strict=True)):
            if key != before:
                sessions.live, before = sorted(live.get(key, [])), key
            verdict, start, end = sessions.take(time, clock)
            late[row] = verdict == LATE and self.grace is not None
            near = sessions.near
            was = (near[-1][0], near[0][1]) if near else (LOWEST, LOWEST)
            steps[row] = *was, start, end
            found[key] = sessions.live
        return steps.T, late, found

    def _times(self, steps: Ints, like: pa.DataType) -> list[pa.Array]:
        return [groups.times(np.where(edge == LOWEST, 0, edge), edge == LOWEST, like) for edge in steps]
