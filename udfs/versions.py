"""The rules of versions, V1 to V3: which put is accepted, which lookup is answered, when a version ends and is forgotten; and what each put
is told when it comes, over Arrow batches.

A version is valid until the next of its key begins, a tombstone or not (V1); in SQL, that is `lead` of the time, in order of time.
Whether a put is refused, a lookup expired or a version gone are comparisons of microseconds: of numbers, of NumPy arrays, or of Spark's
columns, for which stream time is SQL text and `minus` makes a column of it. A length None is unlimited, and a stream time None has not
begun: nothing is refused then, and nothing expires.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.closing import minus

Minus = Callable[[Any, int], Any]  # how a length is taken from stream time


def refused(time: Any, stream_time: Any, grace: int | None, minus: Minus = minus) -> Any:
    """Whether a put comes too late [V2]; at stream time - `grace` it is still accepted."""
    return grace is not None and stream_time is not None and time < minus(stream_time, grace)


def moved(stream_time: int | None, accepted: int | None) -> int | None:
    """Stream time after puts that were accepted, the largest of whose times is given [V2]."""
    return accepted if stream_time is None else stream_time if accepted is None else max(stream_time, accepted)


def expired(at: Any, stream_time: Any, retention: int | None, minus: Minus = minus) -> Any:
    """Whether a lookup is too old for any version but the current one, which never expires [V3]."""
    return retention is not None and stream_time is not None and at < minus(stream_time, retention)


def gone(end: Any, stream_time: Any, retention: int | None, minus: Minus = minus) -> Any:
    """Whether all lookups that a version could answer, those before its end, have expired [V3]."""
    return retention is not None and stream_time is not None and end is not None and end <= minus(stream_time, retention)


@dataclass
class Versions:
    """The versions of a key: how many puts there were and, of those that count, which was the last of each time, sorted by time [V2]."""

    seen: int = 0
    times: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ordinals: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    deleted: Flags = field(default_factory=lambda: np.zeros(0, bool))

    def add(self, times: Ints, ordinals: Ints, deleted: Flags) -> None:
        """Later arrivals; where times are equal they take the place of earlier ones."""
        if not len(times):
            return
        times = np.concatenate([self.times, times])
        order = np.argsort(times, kind="stable")
        times = times[order]
        last = groups.ends(times)
        self.times = times[last]
        self.ordinals = np.concatenate([self.ordinals, ordinals])[order][last]
        self.deleted = np.concatenate([self.deleted, deleted])[order][last]


class Times:
    """The times at which versions of one key begin, in order."""

    def __init__(self) -> None:
        self.begins: list[int] = []

    def put(self, time: int) -> int | None:
        """Take a version, in the place of one that begins then; when the next one that is known begins, None where there is none."""
        begins = self.begins
        place = bisect_right(begins, time)
        following = begins[place] if place < len(begins) else None
        if not place or begins[place - 1] != time:
            begins.insert(place, time)
        return following


@dataclass(frozen=True)
class Puts:
    """For each put, when the next version begins of those that its key had when it came; null for the newest."""

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (time, key columns..), by key, in processing order; a null time is no put, and gives null."""
        boundaries, known = groups.Boundaries(), Times()
        for times, *columns in batches:
            length = len(times)
            if not length:
                yield times
                continue
            starts = boundaries.starts(columns, length).tolist()
            taken = groups.valid([times], length).tolist()
            numbers: list[int | None] = []
            for begins, put, time in zip(starts, taken, groups.micros(times).tolist(), strict=True):
                if begins:
                    known = Times()
                numbers.append(known.put(time) if put else None)
            missing = np.array([f is None for f in numbers])
            yield groups.times(np.array([f or 0 for f in numbers], np.int64), missing, times.type)
