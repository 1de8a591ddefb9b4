"""Time windows in a stream: the first row of each key in each window (rules D9, W1). In batch, Spark's own window functions say it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Ints
from streamtime.udfs.closing import of_time_windows
from streamtime.udfs.state import Step

LATE, DUPLICATE = 1, 2  # by their places in `FirstInWindow.reasons`


@dataclass(frozen=True)
class FirstInWindow:
    """A key and a window are one group; the state is that it was seen, and lives by the window's end."""

    grace: int
    duplicates: bool = True  # whether the rows after the first are dropped

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("late", "duplicate") if self.duplicates else ("late",)

    @property
    def width(self) -> int:
        """The window's end."""
        return 1

    def threshold(self, watermark: int) -> int:
        """A window that ends before this is closed [W1]."""
        return int(of_time_windows(self.grace).closed_before(watermark))

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, watermark: int) -> Step:
        """One micro-batch of a stream (`streamtime.udfs.state.Transition`); columns are the time and the window's end."""
        ends = groups.micros(columns[1])
        first = np.ones(len(group), bool)
        first[1:] = group[1:] != group[:-1]
        late = ends < self.threshold(watermark)
        opens = first & ~late & ~np.isin(group, owner)
        passes = opens if self.duplicates else ~late
        return Step(np.where(late, LATE, np.where(passes, 0, DUPLICATE)), [], group[opens], ends[opens][np.newaxis])
