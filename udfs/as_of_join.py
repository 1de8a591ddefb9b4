"""Lookups in a versioned table as it was known when each row arrived (rules J5, V1 to V3): all keys of a batch at once.

A left row asks for the newest version with `time <= t` among the versions that had arrived before it; of versions with one time, the last
to arrive. In rows sorted by key and time, that is the nearest row before it with a smaller place in order of arrival. It is found by
halving: the smallest place in each stretch of 2, 4, 8, .. rows says which stretches can be skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.versions import Versions, expired, refused

NO_MATCH, EXPIRED = -1, -2


@dataclass(frozen=True)
class KnownAsOf:
    """For each right row its number within its key, from 0; for each left row that of the version it sees, or NO_MATCH, or EXPIRED less
    the number of the version that it would see if nothing expired.

    `retention` in microseconds: older right rows never existed, and older lookups find the current version or none.
    """

    retention: int | None
    exact: bool = True

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (is right, deleted, time, stream time of the right side, keys..), by key in order of arrival.

        Left rows may lack a time.
        """
        boundaries, versions = groups.Boundaries(), Versions()
        for right, deleted, time, stream_time, *keys in batches:
            if not len(right):
                yield pa.array([], pa.int64())
                continue
            starts = boundaries.starts(keys, len(right))
            if starts[0]:
                versions = Versions()
            known, versions = self._batch(
                groups.as_flags(right),
                groups.as_flags(deleted),
                groups.micros(time),
                groups.valid([time], len(right)),
                stream_time,
                starts,
                versions,
            )
            yield pa.array(known)

    def _batch(
        self, right: Flags, deleted: Flags, times: Ints, timed: Flags, stream_time: pa.Array, starts: Flags, before: Versions
    ) -> tuple[Ints, Versions]:
        group, length = groups.numbered(starts), len(right)
        first = np.append(np.flatnonzero(starts[1:]) + 1, length)
        first = np.concatenate([[0], first[:-1]]) if group[-1] else np.zeros(1, np.int64)
        counted = np.cumsum(right)
        ordinals = counted - 1 - (counted[first] - right[first])[group]
        ordinals[group == 0] += before.seen
        accepted, late = right.copy(), np.zeros(length, bool)
        if self.retention is not None:  # which is its grace as well
            now, began = groups.micros(stream_time), groups.valid([stream_time], length)
            accepted &= ~(began & refused(times, now, self.retention))
            late = began & expired(times, now, self.retention)
        if not self.exact:
            timed = timed & (times > groups.LOWEST)  # nothing lies before the smallest time
        asked = times if self.exact else groups.minus(times, 1)
        asked = np.where(right, times, asked)
        hit = _newest_known(group, first, asked, accepted)
        matches = np.where(hit >= 0, ordinals[hit], NO_MATCH)
        valid_from = np.where(hit >= 0, times[hit], groups.LOWEST)
        gone = np.where(hit >= 0, deleted[hit], False)
        least = min([times.min(), *before.times[:1]])  # no version begins before it: where none is known, none is newer than another
        newest = groups.running_max(group, np.where(accepted, times, least))
        if len(before.times):
            same = np.flatnonzero(group == 0)
            at = np.searchsorted(before.times, asked[same], side="right") - 1
            older = (at >= 0) & ((hit[same] < 0) | (before.times[at] > valid_from[same]))
            rows, at = same[older], at[older]
            matches[rows], valid_from[rows], gone[rows] = before.ordinals[at], before.times[at], before.deleted[at]
            newest[same] = np.maximum(newest[same], before.times[-1])
        hidden = late & (valid_from < newest) & (matches >= 0) & ~gone
        matches[gone | ~timed] = NO_MATCH
        matches[hidden & timed] = EXPIRED - matches[hidden & timed]
        last = group == group[-1]
        versions = before if group[-1] == 0 else Versions()
        versions.seen += int(right[last].sum())
        ours = last & accepted
        versions.add(times[ours], ordinals[ours], deleted[ours])
        return np.where(right, ordinals, matches), versions


def _newest_known(group: Ints, first: Ints, times: Ints, accepted: Flags) -> Ints:
    """For each row the row with the newest time up to its own, among accepted rows of its group before it; -1 where there is none."""
    length = len(times)
    order = np.lexsort((times, group))  # stable: rows of one time stay in order of arrival
    place = np.where(accepted[order], order, length)
    smallest = [place]  # at i, over the 1, 2, 4, .. rows that end there
    while (width := 1 << len(smallest)) < length:
        half = smallest[-1]
        smallest.append(np.minimum(half, np.concatenate([np.full(width // 2, length), half[: -(width // 2)]])))
    at = np.arange(length) - 1
    for level in range(len(smallest) - 1, -1, -1):
        skip = (at >= 0) & (smallest[level][at] >= order)
        at = np.where(skip, at - (1 << level), at)
    at = np.where(at >= first[group[order]], at, -1)
    hit = np.empty(length, np.int64)
    hit[order] = np.where(at >= 0, order[at], -1)
    return hit
