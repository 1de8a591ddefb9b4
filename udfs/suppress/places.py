"""The places of keys in the buffer of SUPPRESS_UNTIL_TIME_LIMIT (rule S3), where each key's rows lie together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, Ints
from streamtime.udfs.suppress.decisions import taking_places

UNSEEN = -HIGHEST  # stream time before there is one: no later than any


@dataclass(frozen=True)
class Places:
    """For each row when its place is due: that of the row which took it.

    A row takes a place where its key holds none: where stream time had reached the due time of the place before before the row came.
    """

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (stream time before the row, when a place that it took were due, key columns..), sorted by key and processing order.

        Both times are microseconds. A row without a due time is none, and lies apart from others.
        """
        boundaries, carried = groups.Boundaries(), HIGHEST
        for before_, due_, *key in batches:
            length = len(due_)
            if not length:
                yield due_
                continue
            starts = boundaries.starts(key, length)
            before = np.where(groups.valid([before_], length), groups.as_ints(before_), UNSEEN)
            due, absent = groups.as_ints(due_), ~groups.valid([due_], length)
            if not starts[0]:  # the key's place from the batch before is its first row's, as if that came once more
                before, due, starts = np.append(UNSEEN, before), np.append(carried, due), np.append(True, starts)
            numbers = places(groups.numbered(starts), before, due)
            carried = int(numbers[-1])
            yield pa.array(numbers[-length:], mask=absent)


def places(group: Ints, before: Ints, due: Ints) -> Ints:
    """For each row when its place is due. `before` rises within a group; the first row of each takes a place."""
    index = np.arange(len(group))
    reached = groups.search(group, before, groups.minus(due, 1))  # the first row of the group before which its place was due
    successor = np.where(due == HIGHEST, _ends(group), np.maximum(reached, index + 1))
    taker = taking_places(group, successor)
    taken: Ints = due[np.maximum.accumulate(np.where(taker, index, 0))]
    return taken


def _ends(group: Ints) -> Ints:
    ends: Ints = np.searchsorted(group, group, side="right")
    return ends
