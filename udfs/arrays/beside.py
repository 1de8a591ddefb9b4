"""A kernel's result as one more column of its rows, where all of them travel to Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Beside:
    """Runs a kernel over the last columns of batches, and puts its result in their place. Its result has a batch for each of them."""

    kernel: Any
    name: str
    columns: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, with the result as the last column."""
        waiting: list[pa.RecordBatch] = []

        def given() -> Iterator[tuple[pa.Array, ...]]:
            for batch in batches:
                waiting.append(batch)
                yield tuple(batch.columns[-self.columns :])

        for result in self.kernel.run(given()):
            batch = waiting.pop(0)
            own = batch.num_columns - self.columns
            yield pa.RecordBatch.from_arrays([*batch.columns[:own], result], names=[*batch.schema.names[:own], self.name])
        assert not waiting, "a kernel gave fewer batches than it took"
