"""What the metrics of suppress are made of (section 8): sums and extremes of one task."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Ints
from streamtime.udfs.suppress.decisions import OUTCOMES

COUNTED = (
    *(f"{outcome}_total" for outcome in OUTCOMES), "rows", "late_sum", "late_max", "low", "high",
    *(f"{what}_{how}" for what in ("count", "size") for how in ("current", "max", "sum")), "overtime_min", "overtime_sum", "overtimes",
)  # fmt: skip
FLOATS = ("late_sum", "overtime_sum")


@dataclass
class Counts:
    """What the metrics of section 8 are made of."""

    totals: Ints = field(default_factory=lambda: np.zeros(len(OUTCOMES), np.int64))
    rows: int = 0  # that have a time
    late_sum: float = 0.0
    late_max: int = 0
    low: int | None = None
    high: int | None = None
    count: list[int] = field(default_factory=lambda: [0, 0, 0])  # now, most, sum over rows
    size: list[int] = field(default_factory=lambda: [0, 0, 0])
    overtime_min: int | None = None
    overtime_sum: float = 0.0
    overtimes: int = 0

    def arrived(self, times: Ints, stream: Ints) -> None:
        """New rows."""
        late = groups.difference(stream, times)
        self.rows += len(times)
        self.late_sum += float(late.sum(dtype=np.float64))
        self.late_max = max(self.late_max, int(late.max()))
        low, high = int(times.min()), int(times.max())
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def held(self, count: Ints, size: Ints) -> None:
        """How much is held after each new row."""
        for gauge, values in ((self.count, count), (self.size, size)):
            gauge[1] = max(gauge[1], int(values.max()))
            gauge[2] += int(values.sum())

    def released(self, emitted: Ints, due: Ints) -> None:
        """Rows that come out, when they do and when they were to."""
        if len(due):
            over = groups.difference(emitted, due)
            least = int(over.min())
            self.overtime_min = least if self.overtime_min is None else min(self.overtime_min, least)
            self.overtime_sum += float(over.sum(dtype=np.float64))
            self.overtimes += len(over)

    def batch(self) -> pa.RecordBatch:
        """One row: `COUNTED`."""
        values = [*self.totals.tolist(), self.rows, self.late_sum, self.late_max, self.low, self.high, *self.count, *self.size]
        values += [self.overtime_min, self.overtime_sum, self.overtimes]
        kinds = [pa.float64() if name in FLOATS else pa.int64() for name in COUNTED]
        columns = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(columns, list(COUNTED))
