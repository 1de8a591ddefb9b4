"""Rows on their way: batches gathered to larger pieces, rows as bytes, a table as one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from streamtime.udfs.arrays.worker import spare_the_collector

T = TypeVar("T")


def gathered(batches: Iterator[pa.RecordBatch], rows: int, size: int | None = None) -> Iterator[pa.Table]:
    """Batches put together, until there are so many rows, or bytes."""
    waiting, count, weight = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        if batch.num_rows:
            waiting, count, weight = [*waiting, batch], count + batch.num_rows, weight + batch.nbytes
        if waiting and (count >= rows or (size is not None and weight >= size)):
            yield pa.Table.from_batches(waiting)
            waiting, count, weight = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True)
class Packer:
    """Packs rows into blobs, so many rows or bytes at once; `blobs` gives a batch of at most as many blobs as it takes rows."""

    blobs: Callable[[pa.Table], Iterator[pa.RecordBatch]]
    rows: int
    size: int
    names: tuple[str, ...] = ()  # of the columns that `run` gets

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, blobs out."""
        for table in ahead(gathered(batches, self.rows, self.size), 1):
            yield from self.blobs(table)

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """The same as a column, which has as many rows as come in: the first of them are blobs, the others null."""
        named = (pa.RecordBatch.from_arrays(list(batch), list(self.names)) for batch in batches)
        for table in ahead(gathered(named, self.rows, self.size), 1):
            missing, kind = table.num_rows, pa.null()
            for some in self.blobs(table):
                made = some.to_struct_array()
                missing, kind = missing - len(made), made.type
                yield made
            yield pa.nulls(missing, kind)


@dataclass(frozen=True)
class Named:
    """A function over batches whose columns have these names."""

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    names: tuple[str, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What it makes of batches whose columns come in that order."""
        spare_the_collector()
        return self.function(pa.RecordBatch.from_arrays(batch.columns, list(self.names)) for batch in batches)


def encoded(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def in_one_form(rows: Rows) -> Rows:
    """Rows whose columns have one type, whatever a restart changes: moments are said to be of UTC, where Spark says the session's zone, and
    anything may be null, though in the query as it is now it never is. The values stay as they are."""
    schema = pa.schema([f.with_type(_in_one_form(f.type)).with_nullable(True) for f in rows.schema], rows.schema.metadata)
    if schema.equals(rows.schema):
        return rows
    columns = [column.cast(kind) if column.type != kind else column for column, kind in zip(rows.columns, schema.types, strict=True)]
    return type(rows).from_arrays(columns, schema=schema)


def _in_one_form(kind: pa.DataType) -> pa.DataType:
    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(_in_one_form(field.type)).with_nullable(True)

    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind) and not any(f.metadata for f in kind):  # by its metadata Spark knows a VARIANT
        return pa.struct([inside(f) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(inside(kind.key_field).with_nullable(False), inside(kind.item_field), kind.keys_sorted)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(inside(kind.value_field))
    return kind


def only(table: pa.Table) -> pa.RecordBatch:
    """The table as one batch. Raises OverflowError where a column has more text or bytes than one batch can hold: 2 GB."""
    first, *more = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    if more:
        raise OverflowError(
            f"streamtime: {table.num_rows} rows of one bucket of keys have more than 2 GB in one column. "
            "Give the stream fewer rows at once (`maxFilesPerTrigger`, `maxBytesPerTrigger`), or fewer columns in the TABLE argument."
        )
    return first


def ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """The same items, made by a thread of their own up to so many ahead of their use: Arrow and NumPy let both run at once."""
    thread = ThreadPoolExecutor(1)
    try:
        coming = deque(thread.submit(next, items, None) for _ in range(most))
        while (item := coming.popleft().result()) is not None:
            coming.append(thread.submit(next, items, None))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
