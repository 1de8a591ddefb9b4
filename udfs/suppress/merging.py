"""Rows in processing order through one task, though no task sorts them all: many tasks sort what they have, one merges the sorted runs.

What one task alone does is dear. So rows become Arrow batches, and are sorted, where they are; what travels are blobs, short pieces of a
sorted run. They arrive in the order of their first rows, of which a number tells: a row is final once the next blob begins after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import encoded
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.ordering import By, one, sorted_rows

FIRST, DATA = "__streamtime_first_row", "__streamtime_rows"
RUN_ROWS, RUN_BYTES = 1 << 19, 1 << 26  # to be sorted at once
BLOB_ROWS = 1 << 13
FEWEST_ROWS = 1 << 16  # merged at once


@dataclass(frozen=True)
class Merging:
    """A processing order; `ties` are only looked at where all else is equal."""

    order: tuple[By, ...]
    ties: tuple[By, ...]

    def __call__(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """A sorted run as blobs, each with a number for its first row. Called itself, since to Spark equal objects are one function."""
        table, numbers = self._sorted([rows])
        for start in range(0, table.num_rows, BLOB_ROWS):
            columns = [pa.array([numbers[start]], pa.int64()), pa.array([encoded(table.slice(start, BLOB_ROWS))], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, [FIRST, DATA])

    def merge(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Blobs in, ordered by the numbers of their first rows; sorted rows out."""
        waiting, rows, enough = list[pa.Table](), 0, FEWEST_ROWS
        for batch in batches:
            for first, data in zip(batch.column(FIRST).to_pylist(), batch.column(DATA), strict=True):
                if rows >= enough:
                    table, numbers = self._sorted(waiting)
                    cut = int(np.searchsorted(numbers, first, side="left"))
                    if cut:
                        yield table.slice(0, cut)
                    waiting, rows = [table.slice(cut)], table.num_rows - cut
                    enough = max(FEWEST_ROWS, 2 * rows)
                waiting.append(pa.ipc.open_stream(data.as_buffer()).read_all())
                rows += waiting[-1].num_rows
        if waiting:
            yield self._sorted(waiting)[0]

    def _sorted(self, tables: Sequence[pa.Table]) -> tuple[pa.Table, Ints]:
        table = pa.concat_tables(tables).combine_chunks()
        rows = sorted_rows([], self.order, self.ties, table)
        return table.take(pa.array(rows)), number(one(table, self.order[0].name), self.order[0])[rows]


def number(column: pa.Array, by: By) -> Ints:
    """A number for each value that never falls where the order rises, the same in whatever table the value lies."""
    kind = column.type
    if pa.types.is_boolean(kind):
        numbers: Ints = groups.as_ints(column.cast(pa.int8())).astype(np.int64)
    elif pa.types.is_temporal(kind):
        numbers = groups.as_ints(column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())).astype(np.int64)
    elif pa.types.is_integer(kind):
        numbers = groups.as_ints(column).astype(np.int64)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False) + 0.0
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        numbers = np.where(np.isnan(values), HIGHEST, np.where(bits < 0, LOWEST - bits, bits))
    else:
        eight = np.array(column.cast(pa.binary()).fill_null(b"").to_pylist(), "S8")
        numbers = (eight.view(">u8").astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    numbers = numbers if by.ascending else ~numbers
    if column.null_count:
        present = groups.valid([column], len(column))
        numbers = np.where(present, numbers, LOWEST if by.nulls_first else HIGHEST)
    return numbers
