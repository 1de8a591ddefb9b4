"""Rows of a stream travel to the functions that hold state as blobs: Arrow batches of one bucket of keys each.

Spark hands rows to a stateful Python function one by one, which costs more than all else. So a bucket's rows come together, and its state
is a few blobs too. There are two buckets and more for each partition of the state, and no partition has two more than another, so that no
task is left without work: a bucket has a name that Spark sends there (`ids`). Spark keeps the number of partitions in the query's
checkpoint, and tells every task.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import Packer, encoded, in_one_form, only
from streamtime.udfs.arrays.ordering import one

if TYPE_CHECKING:
    import pandas as pd  # to import it takes a second, and Spark starts a process for each query that only asks what state there is

KEY_HASH = "__streamtime_key_hash"  # a hash of the key, for nothing but its bucket
ASIDE = "__streamtime_aside"  # -1: the row takes part; 0: it passes aside; above: it is dropped, for that reason
TAKES_PART = -1
NO_KEYS = -1  # the bucket of no key, to which only the number of buckets comes
SETTING = "streamtime.buckets"
FEWEST, MOST = 16, 4096  # few ones hold much of a large micro-batch each, many cost each micro-batch their reading
FOR_A_PARTITION = 2
# what Spark 4.1 and later, and what earlier ones take from the checkpoint; the last is Spark's own default
PARTITIONS = ("spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions")
SPARKS_OWN = 200
PACKED = T.StructType().add("bucket", T.IntegerType()).add("data", T.BinaryType()).add("buckets", T.BinaryType())


@dataclass(frozen=True)
class ByBucket:
    """Rows bucket by bucket, one blob of each; the first says how many buckets there are. A bucket: the upper bits of the key's hash."""

    asked: int | None  # how many buckets; None: as Spark's partitions say

    def __call__(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows in, blobs out."""
        number = self.asked or for_partitions(partitions())
        bits, names = number.bit_length() - 1, ids(number)
        bucket = (groups.as_ints(one(table, KEY_HASH)) >> (64 - bits)) & (number - 1) if bits else np.zeros(table.num_rows, np.int64)
        order = np.argsort(bucket.astype(np.uint16), kind="stable")
        (batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
        edges = np.searchsorted(bucket[order], np.arange(number + 1)).tolist()
        filled = [(number, start, stop) for number, (start, stop) in enumerate(itertools.pairwise(edges)) if start < stop]
        for at in range(0, len(filled), 32):
            some = filled[at : at + 32]
            data = [encoded(batch.slice(start, stop - start)) for _, start, stop in some]
            said = [None if at or i else str(number).encode() for i in range(len(some))]
            columns = [pa.array(names[[number for number, _, _ in some]]), pa.array(data, pa.binary()), pa.array(said, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, PACKED.names)


def packer(asked: int | None = None) -> Packer:
    """Packs a stream's rows by bucket."""
    return Packer(ByBucket(asked), rows=1 << 20, size=1 << 26)


def for_partitions(number: int) -> int:
    """How many buckets there are for so many partitions of the state: a power of two."""
    return min(max(1 << (FOR_A_PARTITION * number - 1).bit_length(), FEWEST), MOST)


def ids(number: int) -> npt.NDArray[np.int32]:
    """What the buckets are called. Spark's hash of the n-th name (Murmur3 of an INT, seed 42) is n, and so is its partition, modulo theirs.

    These are the steps of that hash backwards. Had names any hash, some of many partitions would get nothing, and others several shares.
    """
    h = np.arange(number, dtype=np.uint32)

    def undo(factor: int) -> np.uint32:
        return np.uint32(pow(factor, -1, 1 << 32))

    def turned(bits: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
        return (bits >> np.uint32(by)) | (bits << np.uint32(32 - by))

    h = (h ^ (h >> np.uint32(16))) * undo(0xC2B2AE35)
    h = (h ^ (h >> np.uint32(13)) ^ (h >> np.uint32(26))) * undo(0x85EBCA6B)
    h = h ^ (h >> np.uint32(16)) ^ np.uint32(4)  # the bytes of an INT
    h = turned((h - np.uint32(0xE6546B64)) * undo(5), 13) ^ np.uint32(42)
    return (turned(h * undo(0x1B873593), 15) * undo(0xCC9E2D51)).view(np.int32)


def partitions() -> int:
    """How many partitions the state of the query has that this task belongs to."""
    task = TaskContext.get()
    numbers = [task.getLocalProperty(name) for name in PARTITIONS] if task is not None else []
    return int(next(filter(None, numbers), SPARKS_OWN))


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blobs in, rows out."""
    for batch in batches:
        for data in batch.column("data"):
            if data.is_valid:
                yield from pa.ipc.open_stream(data.as_buffer())


def unblobbed(rows: Iterator[pd.DataFrame]) -> pa.Table:
    """The rows of a bucket."""
    tables = [in_one_form(pa.ipc.open_stream(data).read_all()) for some in rows for data in some["data"].tolist()]
    return pa.concat_tables(tables).combine_chunks()


def blob(tables: list[pa.Table], counts: dict[str, float], names: Sequence[str]) -> pd.DataFrame:
    """What leaves a bucket."""
    filled = [t for t in tables if t.num_rows]
    data = encoded(only(pa.concat_tables(filled))) if filled else None
    return leaves(data, [float(counts.get(c, 0)) for c in names])


def leaves(data: bytes | None, counts: Sequence[float]) -> pd.DataFrame:
    """One row for Spark: a blob and its counts."""
    import pandas as pd

    return pd.DataFrame({"data": [data], "counts": [counts]}, dtype=object)
