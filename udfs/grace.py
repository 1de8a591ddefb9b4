"""Rows that wait on a stream until the watermark has passed them by a grace period (rule C5e)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import of_waiting_rows
from streamtime.udfs.state import Entries, Taken, waiting


@dataclass(frozen=True)
class Grace:
    """An entry is a row and its time, by which it lives. A row without a time does not wait."""

    grace: int
    time: str

    @property
    def counts(self) -> tuple[str, ...]:
        """None of its own."""
        return ()

    @property
    def width(self) -> int:
        """The time."""
        return 1

    def threshold(self, stream_time: int) -> int:
        """A row leaves when stream time has reached its time and `grace`."""
        return int(of_waiting_rows(self.grace).closed_before(stream_time))

    def held_columns(self, columns: Sequence[str]) -> Sequence[str]:
        """All of them."""
        return columns

    def take(self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries) -> Taken:
        """One micro-batch of a stream (`streamtime.udfs.state.Holder`)."""
        column = one(rows, self.time)
        times = np.where(groups.valid([column], len(column)), groups.micros(column), LOWEST)
        leaves = times < of_waiting_rows(self.grace).closed_before(stream_times)
        stay = np.flatnonzero(~leaves)
        lives = np.concatenate((held.matrix[0], times[stay]))[np.newaxis]
        whose, entries = waiting(held, owner, rows.take(pa.array(stay)), group[stay], lives)
        return Taken(rows.take(pa.array(np.flatnonzero(leaves))), whose, entries, {})

    def release(self, due: Entries, _clock: int) -> pa.Table:
        """Rows whose time has come."""
        assert due.payload is not None
        return pa.Table.from_batches([due.payload])
