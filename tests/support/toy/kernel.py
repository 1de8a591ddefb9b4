"""The place of each row among those of its key: in batch a column, on a stream a count that is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.state import Step


@dataclass(frozen=True)
class EveryNth:
    """A key's state is how many rows it had; it lives for ever."""

    n: int

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of key columns, each key's rows adjacent; gives each row's number, from 1."""
        boundaries, before = groups.Boundaries(), 0
        for columns in batches:
            length = len(columns[0])
            starts = boundaries.starts(columns, length) if length else np.zeros(0, bool)
            places = _places(starts, before)
            before = int(places[-1]) if length else before
            yield pa.array(places)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("passed_over",)

    @property
    def width(self) -> int:
        """What it lives by, and the count."""
        return 2

    def threshold(self, watermark: int) -> int:
        """Nothing dies."""
        return LOWEST

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, watermark: int) -> Step:
        """One micro-batch of a stream (`streamtime.udfs.state.Transition`)."""
        starts = np.ones(len(group), bool)
        starts[1:] = group[1:] != group[:-1]
        whose = group[starts]
        had = np.zeros(len(whose), np.int64)
        had[np.searchsorted(whose, owner)] = held[1]
        places = _places(starts, 0) + had[np.cumsum(starts) - 1]
        ends = np.append(np.flatnonzero(starts)[1:] - 1, len(group) - 1)
        entries = np.stack((np.full(len(whose), HIGHEST), places[ends]))
        return Step((places % self.n != 0).astype(np.int64), [], whose, entries)


def _places(starts: groups.Flags, before: int) -> Ints:
    """Each row's number within its group, from 1; rows before the first start go on from `before`."""
    rows = np.arange(len(starts))
    first: Ints = np.maximum.accumulate(np.where(starts, rows, -before))
    return rows - first + 1
