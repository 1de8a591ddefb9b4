"""When windows leave that close anywhere (rules S2, W6): for each close, the first stream time at or above it.

Stream times are as many as rows, and nothing travels with them. So a task sorts those that it has, and sends them on by the thousand: what
Spark shuffles and sorts are the windows, and here and there a piece of stream times among them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Ints

RANGES, NUMBER, TIMES = "__streamtime_ranges", "__streamtime_number", "__streamtime_times"
AT_ONCE, SIZE = 1 << 20, 1 << 26  # rows, bytes, to be sorted at once
EACH = 1 << 10  # stream times in a piece


@dataclass(frozen=True)
class Pieces:
    """Stream times, of which each has its range, in pieces: rising, each time once. Ranges go up with the times.

    A piece has the ranges that need it, and its largest time, as the number to sort it by. The first time of a range stands alone: the
    ranges below need it, too, down to the next that has times, since what closes above all of these waits for it.
    """

    each: int = EACH

    def __call__(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Columns: the range, the stream time in microseconds; what has no stream time is left out."""
        ranges, times = (np.sort(groups.as_ints(column)) for column in rows.filter(rows.column(1).is_valid()).columns)
        new = groups.begins(times)
        ranges, times = ranges[new], times[new]
        bounds = [*np.flatnonzero(groups.begins(ranges)).tolist(), len(times)]
        pieces, lowest = list[tuple[range, Ints]](), 0
        for begin, end in itertools.pairwise(bounds):
            its = int(ranges[begin])
            pieces.append((range(lowest, its + 1), times[begin : begin + 1]))
            pieces += [(range(its, its + 1), times[at : min(at + self.each, end)]) for at in range(begin + 1, end, self.each)]
            lowest = its
        columns = {
            RANGES: pa.array([[*needed] for needed, _ in pieces], pa.list_(pa.int32())),
            NUMBER: pa.array([piece[-1] for _, piece in pieces], pa.int64()),
            TIMES: pa.array([piece.tobytes() for _, piece in pieces], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class NextStreamTime:
    """For each close the smallest stream time at or above it, of those that a task has; null where it has none.

    Rows come by falling number: a piece of stream times by its largest, a close by the number right below it. So what is sorted is one
    number, which takes Spark a sixth of the time that two columns do. Of rows with the same number either may come first.
    """

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (stream times, close), of which each row has one; microseconds. What comes beside stream times means nothing."""
        times, above = np.empty(0, np.int64), np.empty(0, np.int64)  # below what is still to come, and the smallest that is not
        for pieces, closes in batches:
            coming = [np.frombuffer(piece.as_buffer(), np.int64) for piece in pieces.drop_null()]
            times = np.sort(np.concatenate([times, *coming]), kind="stable") if coming else times
            known = np.append(times, above)
            wanted = groups.as_ints(closes)
            at = np.searchsorted(times, wanted)
            has_one = at < len(known)
            yield pa.array(known[np.where(has_one, at, 0)] if len(known) else wanted, pa.int64(), mask=~has_one)
            if len(closes):
                last = coming[-1][-1] if pieces[-1].is_valid else wanted[-1] - 1  # what follows closes right above it at most
                below = int(np.searchsorted(times, last, side="right"))
                times, above = times[:below], known[below : below + 1]
