"""Where the rows of a buffer lie: in the chunks they came in, until most of a chunk is gone; beyond its bounds, in files.

A row is known by a number: its part in the upper half, its place therein in the lower.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays.groups import Ints
from streamtime.udfs.suppress.decisions import Bounds

ROW_BITS = 32
MOST_PARTS = 16  # in memory; more are copied together


class Parts:
    """Tables of rows, some of which are still asked for. With `spill_beyond`, what is more than that lies in files."""

    def __init__(self, spill_beyond: Bounds | None = None) -> None:
        self.spill_beyond = spill_beyond
        self.tables: dict[int, pa.Table] = {}
        self.files: dict[int, Path] = {}
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.next_part = 0

    def close(self) -> None:
        """Forget everything."""
        self.tables = {}
        if self.folder is not None:
            self.folder.cleanup()

    def add(self, table: pa.Table) -> Ints:
        """A new part; gives the numbers of its rows."""
        number = self.next_part
        self.tables[number], self.next_part = table, number + 1
        refs: Ints = (number << ROW_BITS) + np.arange(table.num_rows, dtype=np.int64)
        return refs

    def gathered(self, refs: Ints, columns: Sequence[str]) -> pa.Table:
        """Rows from wherever they lie, in the order asked for."""
        return self.later(refs, columns)()

    def later(self, refs: Ints, columns: Sequence[str]) -> Callable[[], pa.Table]:
        """The same, to be called at any time, by any thread: from where the rows lie now."""
        part, row = refs >> ROW_BITS, refs & ((1 << ROW_BITS) - 1)
        tables = {number: self.tables[number].select(list(columns)) for number in counted(part)[0]}

        def gather() -> pa.Table:
            if len(tables) == 1:
                return next(iter(tables.values())).take(pa.array(row))
            places = [np.flatnonzero(part == number) for number in tables]
            pieces = [table.take(pa.array(row[mine])) for table, mine in zip(tables.values(), places, strict=True)]
            back = np.empty(len(refs), np.int64)
            back[np.concatenate(places)] = np.arange(len(refs))
            return pa.concat_tables(pieces).combine_chunks().take(pa.array(back))

        return gather

    def tidy(self, refs: Ints, sizes: Ints) -> None:
        """Only these rows are still asked for: forget and copy parts, and spill. Numbers of rows that move are changed in place."""
        numbers, live = counted(refs >> ROW_BITS)
        for number in set(self.tables) - set(numbers):
            self._forget(number)
        for number, rows in zip(numbers, live, strict=True):
            if 2 * rows < self.tables[number].num_rows:
                self._copy([number], refs)
        in_memory = [n for n in self.tables if n not in self.files]
        if len(in_memory) > MOST_PARTS and self.spill_beyond is None:
            self._copy(in_memory, refs)
        if self.spill_beyond is not None:
            self._spill(self.spill_beyond, refs, sizes)

    def _copy(self, numbers: list[int], refs: Ints) -> None:
        """What is asked for of these parts as one new part."""
        rows = np.flatnonzero(np.isin(refs >> ROW_BITS, numbers))
        refs[rows] = self.add(self.gathered(refs[rows], self.tables[numbers[0]].column_names))
        for number in numbers:
            self._forget(number)

    def _forget(self, number: int) -> None:
        del self.tables[number]
        if number in self.files:
            self.files.pop(number).unlink()

    def _spill(self, bounds: Bounds, refs: Ints, sizes: Ints) -> None:
        """Write the newest parts to files, until what is left in memory is within the bounds."""
        part, count, size = refs >> ROW_BITS, 0, 0
        for number in sorted(set(self.tables) - set(self.files)):
            mine = part == number
            count, size = count + int(mine.sum()), size + int(sizes[mine].sum())
            if bounds.over(count, size):
                self._write(number)

    def _write(self, number: int) -> None:
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="streamtime-")
        path = Path(self.folder.name) / f"{number}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self.tables[number].schema) as writer:
            writer.write_table(self.tables[number])
        self.files[number], self.tables[number] = path, pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def counted(numbers: Ints) -> tuple[list[int], list[int]]:
    """The distinct numbers, which lie close together, and how often each is there."""
    if not len(numbers):
        return [], []
    lowest = int(numbers.min())
    counts = np.bincount(numbers - lowest)
    there = np.flatnonzero(counts)
    return (there + lowest).tolist(), counts[there].tolist()
