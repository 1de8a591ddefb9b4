"""SESSIONIZE: the final bounds of each row's session (rules W2 to W4), over Arrow batches sorted by key and processing order.

A session's end is known only when it has closed or its key has ended. Until then its rows wait, as one number each; the rows themselves
wait in Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtime.udfs import groups
from streamtime.udfs.groups import Flags, Ints
from streamtime.udfs.sessions import judge


@dataclass(frozen=True)
class Sessionize:
    """Which columns come in each batch: time, [stream time], [hash of the identity], identity columns.."""

    gap: int
    grace: int = 0
    has_stream_time: bool = False  # without it, rows come in event-time order and stream time is the row's own time
    hashed: bool = False  # rows are sorted by the identity's hash first: rows of identities with one hash may mix

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Per row a struct of its session's final `start` and `end`; null where the row is late or takes no part."""
        keys: groups.Runs[Memory] = groups.Runs(Memory)
        waiting: deque[Waiting] = deque()
        like: pa.DataType | None = None
        for columns in batches:
            like = columns[0].type
            waiting.append(self._batch(columns, keys))
            alive = {one for memory in keys.memories.values() for one in memory.live}
            while waiting and waiting[0].is_final(alive):
                yield waiting.popleft().bounds(like)
        while waiting and like is not None:
            yield waiting.popleft().bounds(like)

    def _batch(self, columns: tuple[pa.Array, ...], keys: groups.Runs[Memory]) -> Waiting:
        clocks, runs = columns[: 1 + self.has_stream_time], columns[1 + self.has_stream_time :]
        length = len(columns[0])
        rows = np.flatnonzero(groups.valid((columns[0], *runs), length))
        batch = Waiting(np.full(length, -1, np.int32))
        if not len(rows):
            return batch
        if len(rows) < length:
            clocks, runs = (tuple(c.take(pa.array(rows)) for c in some) for some in (clocks, runs))
        times = groups.micros(clocks[0])
        stream = groups.micros(clocks[1]) if self.has_stream_time else times
        for part in keys.parts(runs[:1] if self.hashed else (), runs[self.hashed :], len(rows)):
            if part.rows is None:
                batch.take(rows, self, part.starts, times, stream, part.memory)
            else:
                moments = times[part.rows]
                clock = stream[part.rows] if self.has_stream_time else moments
                batch.take(rows[part.rows], self, part.starts, moments, clock, part.memory)
        return batch


@dataclass(eq=False)
class Open:
    """A session that may still grow, or merge into another."""

    start: int
    end: int
    merged_into: Open | None = None

    def final(self) -> Open:
        """The session that this one has become."""
        return self if self.merged_into is None else self.merged_into.final()


@dataclass
class Memory:
    """The live sessions of the key whose rows may go on in the next batch."""

    live: list[Open] = field(default_factory=list)


@dataclass
class Waiting:
    """The rows of a batch: to each the number of its session (-1: none), to each number the bounds, and which of them may still change."""

    session: npt.NDArray[np.int32]
    starts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    opened: list[tuple[int, Open]] = field(default_factory=list)

    def take(self, rows: Ints, rule: Sessionize, starts: Flags, times: Ints, clocks: Ints, memory: Memory) -> None:
        """Judge rows of the batch, and remember the last key's live sessions."""
        group, offset = groups.numbered(starts), len(self.starts)
        before = [] if starts[0] else memory.live
        live = np.array([(one.start, one.end) for one in before], np.int64).reshape(-1, 2).T
        judged = judge(rule.gap, rule.grace, group, times, clocks, live)
        self.session[rows] = np.where(judged.late, -1, judged.session + offset)
        self.starts, self.ends = np.concatenate((self.starts, judged.starts)), np.concatenate((self.ends, judged.ends))
        known: dict[int, Open] = {}
        for one, number in zip(before, judged.carried.tolist(), strict=True):
            if number in known:
                one.merged_into = known[number]
            else:
                one.start, one.end, known[number] = int(judged.starts[number]), int(judged.ends[number]), one
        for number in judged.live.tolist():
            known.setdefault(number, Open(int(judged.starts[number]), int(judged.ends[number])))
        memory.live = [known[number] for number in judged.live.tolist()]
        self.opened += [(number + offset, one) for number, one in known.items()]

    def is_final(self, alive: set[Open]) -> bool:
        """Whether no session of these rows can change any more."""
        return not any(one.final() in alive for _, one in self.opened)

    def bounds(self, like: pa.DataType) -> pa.Array:
        """The sessions' bounds, row by row."""
        for number, one in self.opened:
            self.starts[number], self.ends[number] = one.final().start, one.final().end
        none = self.session < 0
        edges = (np.append(edge, 0)[self.session] for edge in (self.starts, self.ends))
        return pa.StructArray.from_arrays([groups.times(edge, none, like) for edge in edges], ["start", "end"])
