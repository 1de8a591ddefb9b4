"""The end of validity that each put of a versioned table is given when it comes (rule V2), over Arrow batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups


class Times:
    """The times at which versions of one key begin, in order."""

    def __init__(self) -> None:
        self.begins: list[int] = []

    def put(self, time: int) -> int | None:
        """Take a version; when the next one that is known begins, None where there is none."""
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
            found: list[int | None] = []
            for begins, put, time in zip(starts, taken, groups.micros(times).tolist(), strict=True):
                if begins:
                    known = Times()
                found.append(known.put(time) if put else None)
            missing = np.array([f is None for f in found])
            yield groups.times(np.array([f or 0 for f in found], np.int64), missing, times.type)
