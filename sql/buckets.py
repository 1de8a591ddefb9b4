"""What runs on Spark's workers for a streaming query: rows packed by bucket of keys, judged with their bucket's state, and unpacked.

Spark hands rows to a stateful Python function one by one, which costs more than all else. So rows travel to it as blobs: Arrow batches of
one bucket each. Spark cannot sort a stream's rows, so they are sorted here. Nothing here knows what a function means.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamtime.udfs import groups
from streamtime.udfs.ordering import By, one, sorted_rows
from streamtime.udfs.state import KEY, LIVES_BY, Index, Slices, Transition, grouped

PLACE, SECOND = "__streamtime_place", "__streamtime_second"  # the two halves of a key's hash
ASIDE = "__streamtime_aside"  # -1: the row takes part; 0: it passes aside; above: it is dropped, for that reason
REASON, CLOCK = "__streamtime_reason", "__streamtime_stream_time"
TAKES_PART = -1
BUCKET_BITS = 7
BUCKETS = 1 << BUCKET_BITS
MOST_ROWS, MOST_BYTES = 1 << 20, 1 << 26  # that wait in a task for being packed
PACKED = T.StructType().add("bucket", T.IntegerType()).add("data", T.BinaryType())
NEVER = groups.LOWEST


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in, blobs out: of each bucket one, or a few where a task has many rows."""
    waiting, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        if batch.num_rows:
            waiting, rows, size = [*waiting, batch], rows + batch.num_rows, size + batch.nbytes
        if rows >= MOST_ROWS or size >= MOST_BYTES:
            yield from blobs(pa.Table.from_batches(waiting))
            waiting, rows, size = [], 0, 0
    if waiting:
        yield from blobs(pa.Table.from_batches(waiting))


def blobs(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows, bucket by bucket. The bucket is the upper bits of the first half of the key's hash."""
    bucket = (groups.as_ints(one(table, PLACE)) >> (64 - BUCKET_BITS)) & (BUCKETS - 1)
    order = np.argsort(bucket.astype(np.uint8), kind="stable")
    (batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
    edges = np.searchsorted(bucket[order], np.arange(BUCKETS + 1)).tolist()
    filled = [(number, start, stop) for number, (start, stop) in enumerate(itertools.pairwise(edges)) if start < stop]
    for some in (filled[i : i + 32] for i in range(0, len(filled), 32)):
        data = [encoded(batch.slice(start, stop - start)) for _, start, stop in some]
        yield pa.RecordBatch.from_arrays([pa.array([n for n, _, _ in some], pa.int32()), pa.array(data, pa.binary())], PACKED.names)


def encoded(rows: pa.RecordBatch) -> bytes:
    """Rows as one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blobs in, rows out."""
    for batch in batches:
        for data in batch.column("data"):
            yield from pa.ipc.open_stream(data.as_buffer())


@dataclass(frozen=True)
class Plan:
    """What a worker needs to know of a call."""

    function: str
    transition: Transition
    options: dict[str, str]  # those that the state depends on, as people read them
    roles: tuple[str, ...]  # the columns that the transition asks for, the event time first
    order: tuple[By, ...]  # the processing order ..
    ties: tuple[By, ...]  # .. and what decides between equals
    reasons: tuple[str, ...]  # why a row can be dropped: 1, 2, ..
    results: tuple[str, ...]  # names for the transition's result columns, all of them event times
    output: str  # rows, dropped or all

    @property
    def counts(self) -> tuple[str, ...]:
        """The numbers that come with each blob."""
        return ("input_rows", *(f"{r}_drop_total" for r in self.reasons), "timed_rows", "lateness_sum", "lateness_max")


class StateError(RuntimeError):
    """A checkpoint does not belong to the query as it is now."""


class Judge(StatefulProcessor):
    """One bucket of keys, one micro-batch: blobs of rows in, blobs of judged rows out."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.transition = plan, plan.transition

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The state: an index and slices."""
        self.handle = handle
        blob = T.StructType().add("blob", T.BinaryType())
        self.index = handle.getValueState("index", blob)
        self.slices = handle.getMapState("slices", T.StructType().add("slot", T.LongType()), blob)

    def get(self, slot: int) -> bytes:
        """A slice."""
        found = self.slices.getValue((slot,))
        if found is None:
            raise StateError(f"{self.plan.function}: slice {slot} of the state is missing from the checkpoint")
        return bytes(found[0])

    def put(self, slot: int, blob: bytes) -> None:
        """Write a slice."""
        self.slices.updateValue((slot,), (blob,))

    def delete(self, slot: int) -> None:
        """Remove a slice."""
        self.slices.removeKey((slot,))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Judge the rows of a bucket."""
        index = self._load()
        state = Slices(self, index, KEY + self.transition.width)
        tables = [pa.ipc.open_stream(data).read_all() for some in rows for data in some["data"].tolist()]
        yield self._judged(pa.concat_tables(tables).combine_chunks(), state, micros(timerValues))
        state.save()
        self._save(index)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Drop what is dead."""
        index = self._load()
        index.timer = None
        state = Slices(self, index, KEY + self.transition.width)
        state.expire(self.transition.threshold(micros(timerValues)))
        state.save()
        self._save(index)
        return iter(())

    def close(self) -> None:
        """Nothing to close."""

    def _load(self) -> Index:
        found = self.index.get()
        index = Index.load(bytes(found[0]) if found else None)
        if not index.options:
            index.options = self.plan.options
        if index.options != self.plan.options:
            changed = [
                f"{name} was {index.options.get(name, 'not given')} and is {self.plan.options.get(name, 'not given')}"
                for name in sorted(index.options.keys() | self.plan.options.keys())
                if index.options.get(name) != self.plan.options.get(name)
            ]
            raise StateError(
                f"{self.plan.function}: the query's checkpoint was written with other options: {'; '.join(changed)}. "
                "Go back to what it was, or start the query with a new checkpoint location."
            )
        return index

    def _save(self, index: Index) -> None:
        if not index.slices and index.timer is None:
            self.index.clear()
            return
        if index.slices and index.timer is None:
            dies = max(s.highest for s in index.slices) - self.transition.threshold(0)
            if dies < 2**62:
                index.timer = dies // 1000 + 1
                self.handle.registerTimer(index.timer)
        self.index.update((index.dump(),))

    def _judged(self, table: pa.Table, state: Slices, watermark: int) -> pd.DataFrame:
        """The judged rows that the call asks for, and the counts."""
        aside = groups.as_ints(one(table, ASIDE)).astype(np.int64)
        taking = np.flatnonzero(aside == TAKES_PART)
        times = one(table, self.plan.roles[0])
        reasons, results = np.maximum(aside, 0), [pa.nulls(table.num_rows, times.type)] * len(self.plan.results)
        if len(taking):
            keys = np.stack([groups.as_ints(one(table, half)) for half in (PLACE, SECOND)])[:, taking]
            taken = table if len(taking) == table.num_rows else table.take(pa.array(taking))
            order = sorted_rows(list(keys), self.plan.order, self.plan.ties, taken)
            rows = taking[order]
            group, distinct = grouped(keys[:, order])
            columns = [one(taken, role).take(pa.array(order)) for role in self.plan.roles]
            threshold = self.transition.threshold(watermark)
            owner, held = state.find(distinct)
            alive = np.flatnonzero(held[LIVES_BY] >= threshold)
            alive = alive[np.argsort(owner[alive], kind="stable")]
            step = self.transition.step(group, columns, owner[alive], held[KEY:, alive], watermark)
            state.put(np.concatenate((distinct[:, step.groups], step.entries)), threshold)
            reasons[rows] = step.reasons
            place = np.full(table.num_rows, -1)
            place[rows] = np.arange(len(rows))
            results = [r.take(pa.array(place, mask=place < 0)) for r in step.results]
        counts = self._counts(reasons, times, watermark)
        table = table.drop_columns([PLACE, SECOND, ASIDE])
        if self.plan.output != "rows":
            names = pa.array([None, *self.plan.reasons], pa.string())
            clock = groups.times(np.full(table.num_rows, watermark), np.full(table.num_rows, watermark == NEVER), times.type)
            table = table.append_column(REASON, names.take(pa.array(reasons))).append_column(CLOCK, clock)
        for name, result in zip(self.plan.results, results, strict=True):
            table = table.append_column(name, result)
        if self.plan.output != "all":
            table = table.filter(pa.array((reasons > 0) == (self.plan.output == "dropped")))
        return pd.DataFrame({"data": [encoded(only(table))], "counts": [counts]}, dtype=object)

    def _counts(self, reasons: groups.Ints, times: pa.Array, watermark: int) -> list[int]:
        moments = groups.micros(times)[groups.valid([times], len(times))]
        behind = np.maximum(watermark - moments, 0) if watermark != NEVER else np.zeros(1, np.int64)
        totals = np.bincount(reasons, minlength=len(self.plan.reasons) + 1)[1:].tolist()
        return [len(reasons), *totals, len(moments), int(behind.sum()), int(behind.max(initial=0))]


def only(table: pa.Table) -> pa.RecordBatch:
    """The table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def micros(timer_values: Any) -> int:
    """The watermark under which the micro-batch runs; before the first it is unknown, which Spark writes as 0."""
    at = int(timer_values.getCurrentWatermarkInMs())
    return at * 1000 if at > 0 else NEVER
