"""SESSIONIZE: the final bounds of each row's session (rules W2 to W4), over Arrow batches sorted by key and processing order.

A session's end is known only when it has closed or its key has ended. Until then its rows wait: here as two numbers for each run of rows
of one session, themselves in Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.closing import of_sessions
from streamtime.udfs.sessions.rules import judge


@dataclass(frozen=True)
class Sessionize:
    """Which columns come in each batch: time, [stream time], [hash of the identity], identity columns.."""

    gap: int
    grace: int = 0
    has_stream_time: bool = False  # without it, rows come in event-time order and stream time is the row's own time
    hashed: bool = False  # rows are sorted by the identity's hash first: rows of identities with one hash may mix

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Per row a struct of its session's final `start` and `end`; null where the row is late or takes no part."""
        keys: groups.GroupRuns[SessionMemory] = groups.GroupRuns(SessionMemory)
        opened, waiting = Opened(), deque[Pending]()
        like: pa.DataType | None = None
        for columns in batches:
            like = columns[0].type
            waiting.append(self._batch(columns, keys, opened))
            alive = opened.marked([memory.live for memory in keys.memories.values()])
            while waiting and not alive[opened.root(waiting[0].ids)].any():
                yield waiting.popleft().bounds(opened, like)
        while waiting and like is not None:
            yield waiting.popleft().bounds(opened, like)

    def _batch(self, columns: tuple[pa.Array, ...], keys: groups.GroupRuns[SessionMemory], opened: Opened) -> Pending:
        timed, runs = columns[: 1 + self.has_stream_time], columns[1 + self.has_stream_time :]
        length = len(columns[0])
        rows = np.flatnonzero(groups.valid((columns[0], *runs), length))
        batch = Pending(np.full(length, -1, np.int32))
        if not len(rows):
            return batch.packed()
        if len(rows) < length:
            timed, runs = (tuple(c.take(pa.array(rows)) for c in some) for some in (timed, runs))
        times = groups.micros(timed[0])
        stream_times = groups.micros(timed[1]) if self.has_stream_time else times
        for part in keys.parts(runs[:1] if self.hashed else (), runs[self.hashed :], len(rows)):
            if part.rows is None:
                batch.take(rows, self, part.starts, times, stream_times, part.memory, opened)
            else:
                moments = times[part.rows]
                some = stream_times[part.rows] if self.has_stream_time else moments
                batch.take(rows[part.rows], self, part.starts, moments, some, part.memory, opened)
        return batch.packed()


def none() -> Ints:
    """No numbers."""
    return np.zeros(0, np.int64)


@dataclass
class Opened:
    """Sessions that were open at the end of a batch, by an id that stays theirs: their bounds, and what they were merged into."""

    count: int = 0
    starts: Ints = field(default_factory=none)
    ends: Ints = field(default_factory=none)
    into: Ints = field(default_factory=none)

    def add(self, count: int) -> Ints:
        """New ones."""
        ids = np.arange(self.count, self.count + count)
        self.count += count
        if self.count > len(self.into):
            room = np.arange(len(self.into), 2 * self.count)
            self.starts, self.ends, self.into = (np.concatenate((a, room)) for a in (self.starts, self.ends, self.into))
        return ids

    def root(self, ids: Ints) -> Ints:
        """The sessions that these have become."""
        roots = self.into[ids]
        while (self.into[roots] != roots).any():
            roots = self.into[roots]
        self.into[ids] = roots
        return roots

    def marked(self, parts: Sequence[Ints]) -> Flags:
        """True for these."""
        marks = np.zeros(self.count, bool)
        for ids in parts:
            marks[ids] = True
        return marks


@dataclass
class SessionMemory:
    """The live sessions of the key whose rows may go on in the next batch, by id."""

    live: Ints = field(default_factory=none)


@dataclass
class Pending:
    """The rows of a batch: to each the number of its session (-1: none), to each number its bounds; some with ids, as they may change."""

    session: npt.NDArray[np.int32]
    starts: Ints = field(default_factory=none)
    ends: Ints = field(default_factory=none)
    numbers: Ints = field(default_factory=none)
    ids: Ints = field(default_factory=none)
    lengths: npt.NDArray[np.int32] = field(
        default_factory=lambda: np.zeros(0, np.int32)
    )  # once packed, how many rows in a row have each of the numbers in `session`

    def packed(self) -> Pending:
        """The same in less memory: one number for rows in a row that are in one session."""
        changes = np.append(True, self.session[1:] != self.session[:-1])[: len(self.session)]
        edges = np.flatnonzero(changes)
        self.lengths = np.diff(np.append(edges, len(self.session))).astype(np.int32)
        self.session = self.session[edges]
        return self

    def take(
        self, rows: Ints, rule: Sessionize, starts: Flags, times: Ints, stream_times: Ints, memory: SessionMemory, opened: Opened
    ) -> None:
        """Judge rows of the batch, and remember the last key's live sessions."""
        group, offset = groups.numbered(starts), len(self.starts)
        before, far = none() if starts[0] else memory.live, none()
        if len(before):  # those that no row of the batch can reach wait aside
            own = slice(0, int(np.searchsorted(group, 0, side="right")))
            low, high = int(times[own].min()) - rule.gap, int(times[own].max()) + rule.gap
            near = (opened.ends[before] >= low) & (opened.starts[before] <= high)
            before, far = before[near], before[~near]
            closes = of_sessions(rule.gap, rule.grace).closed_before(int(stream_times[own].max()))
            far = far[opened.ends[far] >= closes] if group[-1] == 0 else none()
        judged = judge(rule.gap, rule.grace, group, times, stream_times, np.stack((opened.starts[before], opened.ends[before])))
        self.session[rows] = np.where(judged.late, -1, judged.session + offset)
        self.starts, self.ends = np.concatenate((self.starts, judged.starts)), np.concatenate((self.ends, judged.ends))
        ids = np.full(len(judged.starts), -1)
        ids[judged.carried[::-1]] = before[::-1]  # of those that are one now, the first keeps its id
        opened.into[before] = ids[judged.carried]
        new = judged.live[ids[judged.live] < 0]
        ids[new] = opened.add(len(new))
        memory.live = np.concatenate((far, ids[judged.live]))
        known = np.flatnonzero(ids >= 0)
        opened.starts[ids[known]], opened.ends[ids[known]] = judged.starts[known], judged.ends[known]
        used = np.zeros(len(ids), bool)
        used[judged.session[~judged.late]] = True
        known = known[used[known]]
        self.numbers, self.ids = np.concatenate((self.numbers, known + offset)), np.concatenate((self.ids, ids[known]))

    def bounds(self, opened: Opened, like: pa.DataType) -> pa.Array:
        """The sessions' bounds, row by row."""
        final = opened.root(self.ids)
        self.starts[self.numbers], self.ends[self.numbers] = opened.starts[final], opened.ends[final]
        without = np.repeat(self.session < 0, self.lengths)
        edges = (np.repeat(np.append(edge, 0)[self.session], self.lengths) for edge in (self.starts, self.ends))
        return pa.StructArray.from_arrays([groups.times(edge, without, like) for edge in edges], ["start", "end"])
