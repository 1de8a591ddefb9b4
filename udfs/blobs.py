"""Rows on their way: batches gathered to larger pieces, rows as bytes, a table as one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

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


def encoded(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def only(table: pa.Table) -> pa.RecordBatch:
    """The table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


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
