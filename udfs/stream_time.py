"""Stream time: the largest event time seen so far in processing order (rule C3), per group, over Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups


@dataclass(frozen=True)
class StreamTime:
    """Running maximum of event times. `earliest` turns it round: the smallest so far, for input in reverse order (D8)."""

    earliest: bool = False

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (time, group columns..) in processing order; null times do not move it, and before the first it is null."""
        boundaries = groups.Boundaries()
        carried: int | None = None
        for times, *columns in batches:
            length = len(times)
            if not length:
                yield times
                continue
            starts = boundaries.starts(columns, length)
            moves = groups.valid([times], length)
            values = groups.micros(times)
            values = np.where(moves, ~values if self.earliest else values, groups.LOWEST)
            group, seen = groups.numbered(starts), moves.astype(np.int64)
            if not starts[0] and carried is not None:
                values[0] = max(int(values[0]), carried)
                seen[0] = 1
            lowest = int(values[seen > 0].min()) if seen.any() else 0  # a narrow range of numbers is quick
            running = groups.running_max(group, np.maximum(values, lowest))
            unseen = groups.running_max(group, seen) == 0
            carried = None if unseen[-1] else int(running[-1])
            yield groups.times(~running if self.earliest else running, unseen, times.type)


@dataclass(frozen=True)
class TimeBefore:
    """Stream time before each row, in processing order, as microseconds."""

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (time, stream time before the task), both in microseconds; null times do not move it; before the first it is null."""
        carried = groups.LOWEST
        for columns in batches:
            times, earlier = (
                np.where(groups.valid([column], len(column)), np.maximum(groups.as_ints(column), -groups.HIGHEST), groups.LOWEST)
                for column in columns
            )
            running = np.maximum.accumulate(np.append(carried, times))
            before, carried = np.maximum(running[:-1], earlier), int(running[-1])
            yield pa.array(before, mask=before == groups.LOWEST)
