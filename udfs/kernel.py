"""What a kernel is to Spark: columns in, one column out, row by row."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Protocol

import pyarrow as pa


class Kernel(Hashable, Protocol):
    """What runs over a task's rows: batches of columns in, one column out, row by row."""

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Must give as many rows as it takes, in order."""
