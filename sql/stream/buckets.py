"""What runs on Spark's workers for a streaming query: rows, packed by bucket of keys, are judged with their bucket's state.

Spark cannot sort a stream's rows, so they are sorted here. Nothing here knows what a function means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamtime.sql.stream.checkpoint import StateError, agreed, fitting
from streamtime.sql.stream.packing import ASIDE, KEY_HASH, NO_KEYS, SETTING, TAKES_PART, blob, leaves, unblobbed
from streamtime.udfs import keys
from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import encoded, only
from streamtime.udfs.arrays.ordering import By, one, sorted_rows
from streamtime.udfs.arrays.worker import spare_the_collector
from streamtime.udfs.state import KEY, LIVES_BY, Counting, Entries, Holder, HoldingRows, Index, Matrix, Seconds, Slices, Transition, grouped

if TYPE_CHECKING:
    import pandas as pd

REASON, STREAM_TIME = "__streamtime_reason", "__streamtime_stream_time"
HALVES = "__streamtime_first_half", "__streamtime_second_half"
NEVER = groups.LOWEST
BUCKETS = "buckets"  # among the options of the state that belongs to no key
FAR = 2**65  # no moment that comes, nor does it less any duration
STATE, STATE_FORM = "function state", "4"  # how the state is laid out, among its options; up to 3 buckets were called 0, 1, ..


@dataclass(frozen=True)
class Judging:
    """What a worker needs to know of a call that judges rows as they come."""

    function: str
    transition: Transition
    keys: tuple[str, ...]  # the columns that tell keys apart
    options: dict[str, str]  # those that the state depends on, as people read them
    roles: tuple[str, ...]  # the columns that the transition asks for, the event time first
    order: tuple[By, ...]  # the processing order ..
    ties: tuple[By, ...]  # .. and what decides between equals
    aside: tuple[str, ...]  # why a row can be dropped before it is judged: 1, 2, ..
    results: tuple[str, ...]  # names for the transition's result columns, all of them event times
    output: str  # rows, dropped or all
    offset: tuple[str, ...] = ()  # the columns that tell source records apart, where the transition asks for two numbers of them

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row can be dropped: before it is judged, or by the transition."""
        return (*self.aside, *self.transition.reasons)

    @property
    def counts(self) -> tuple[str, ...]:
        """The numbers that come with each blob."""
        return counted(self.reasons)


class Bucket(StatefulProcessor):
    """The state of one bucket of keys: an index and slices."""

    function: str
    options: dict[str, str]
    wall = False  # stream time is the clock on the wall

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        spare_the_collector()
        self.handle = handle
        blob = T.StructType().add("blob", T.BinaryType())
        self.index = handle.getValueState("index", blob)
        self.slices = handle.getMapState("slices", T.StructType().add("slot", T.LongType()), blob)

    def get(self, slot: int) -> bytes:
        """A slice."""
        stored = self.slices.getValue((slot,))
        if stored is None:
            raise StateError(f"{self.function}: slice {slot} of the state is missing from the checkpoint")
        return bytes(stored[0])

    def put(self, slot: int, blob: bytes) -> None:
        """Write a slice."""
        self.slices.updateValue((slot,), (blob,))

    def delete(self, slot: int) -> None:
        """Remove a slice."""
        self.slices.removeKey((slot,))

    def close(self) -> None:
        """Nothing to close."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """A bucket's rows of a micro-batch are taken; what comes to no key's bucket says how many buckets there are."""
        if key[0] != NO_KEYS:
            return self.taken(rows, timerValues)
        self.count_buckets({int(number) for some in rows for number in some["data"]})
        return iter(())

    def taken(self, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        """What leaves a bucket whose rows come."""
        raise NotImplementedError

    def count_buckets(self, now: set[int]) -> None:
        """The checkpoint keeps how many buckets there are. Raises StateError for another number: keys would be sought in the wrong ones."""
        stored = self.index.get()
        before = Index.load(bytes(stored[0])).options if stored else None
        if before is None:
            (number,) = now
            form = {name: value for name, value in self.options.items() if name == STATE}
            self.index.update((Index(options=form | {BUCKETS: number}).dump(),))
            return
        self.refuse_other_form(before)
        if now != {before[BUCKETS]}:
            raise StateError(
                f"{self.function}: the query's checkpoint was written with {before[BUCKETS]} buckets of keys, and this run has {min(now)}. "
                f"Run SET {SETTING} = {before[BUCKETS]} before the query is started."
            )

    def refuse_other_form(self, options: dict[str, str]) -> None:
        """Raise StateError for what another version wrote."""
        if options.get(STATE) != self.options.get(STATE):
            raise StateError(
                f"{self.function}: the query's checkpoint was written by another version of streamtime, whose state cannot be read: "
                "it is laid out in another way since. Start the query with a new checkpoint location."
            )

    def load(self) -> Index:
        """What is known of the bucket. Raises StateError where it was written by another call."""
        stored = self.index.get()
        index = Index.load(bytes(stored[0]) if stored else None)
        if not index.options:
            index.options = self.options
        self.refuse_other_form(index.options)
        if not index.secret:
            index.secret = keys.new_secret()
        index.options = agreed(self.function, index.options, self.options)
        return index

    def stream_time(self, timer_values: Any, index: Index) -> int:
        """Stream time, which never goes back: a clock on the wall does, when it is set or another machine takes over."""
        if not self.wall:
            return micros(timer_values)
        index.clock = max(time_of_day(timer_values), index.clock)
        return index.clock

    def save(self, state: Slices, wakes: int) -> None:
        """Write what changed, and wake up once stream time has passed `wakes` (in microseconds)."""
        index = state.index
        state.save()
        at = max(wakes // 1000 + 1, 1)  # at 0 the watermark is still unknown, and a timer would be spent for nothing
        if index.slices and wakes < groups.HIGHEST and (index.timer is None or at < index.timer):
            index.timer = at
            self.handle.registerTimer(at)
        if index.slices or index.timer is not None or index.clock > NEVER:
            self.index.update((index.dump(),))
        else:
            self.index.clear()


class Judge(Bucket):
    """One bucket of keys, one micro-batch: blobs of rows in, blobs of judged rows out."""

    def __init__(self, plan: Judging) -> None:
        self.plan, self.transition = plan, plan.transition
        self.function, self.options = plan.function, plan.options

    def taken(self, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        """Judge the rows of a bucket."""
        state = Slices(self, self.load(), KEY + self.transition.width)
        yield self._judged(unblobbed(rows), state, micros(timer_values))
        self.save(state, self._wakes(state))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Drop what is dead."""
        state = Slices(self, self.load(), KEY + self.transition.width)
        state.index.timer = None
        state.expire(self.transition.threshold(micros(timerValues)))
        self.save(state, self._wakes(state))
        return iter(())

    def _wakes(self, state: Slices) -> int:
        if state.index.timer is not None:
            return FAR
        return max((s.highest for s in state.index.slices), default=FAR) - self.transition.threshold(0)

    def _judged(self, table: pa.Table, state: Slices, stream_time: int) -> pd.DataFrame:
        """The judged rows that the call asks for, and the counts."""
        aside = groups.as_ints(one(table, ASIDE)).astype(np.int64)
        taking = np.flatnonzero(aside == TAKES_PART)
        times = one(table, self.plan.roles[0])
        reasons, results = np.maximum(aside, 0), [pa.nulls(table.num_rows, times.type)] * len(self.plan.results)
        if len(taking):
            taken = table if len(taking) == table.num_rows else table.take(pa.array(taking))
            told = numbers(taken, self.plan.keys, state.index.secret)
            order = sorted_rows(list(told), self.plan.order, self.plan.ties, taken)
            rows = taking[order]
            group, distinct = grouped(told[:, order])
            columns = [one(taken, role) for role in self.plan.roles]
            if self.plan.offset:
                known = groups.valid([one(taken, c) for c in self.plan.offset], len(taking))
                columns += [pa.array(half, mask=~known) for half in numbers(taken, self.plan.offset, f"offset {state.index.secret}")]
            columns = [column.take(pa.array(order)) for column in columns]
            threshold = self.transition.threshold(stream_time)
            owner, held = live(state, distinct, threshold)
            step = self.transition.step(group, columns, owner, held.matrix[KEY:], stream_time)
            state.put(Entries(np.concatenate((distinct[:, step.groups], step.entries))), threshold)
            reasons[rows] = np.where(step.reasons > 0, len(self.plan.aside) + step.reasons, 0)
            at = np.full(table.num_rows, -1)
            at[rows] = np.arange(len(rows))
            results = [r.take(pa.array(at, mask=at < 0)) for r in step.results]
        counts = [*map(float, totals(reasons, times, self.plan.reasons, stream_time).values())]
        table = table.drop_columns([KEY_HASH, ASIDE, *self.plan.keys, *self.plan.offset])
        if self.plan.output != "rows":
            table = reported(table, reasons, self.plan.reasons, stream_time, times.type)
        for name, result in zip(self.plan.results, results, strict=True):
            table = table.append_column(name, result)
        if self.plan.output != "all":
            table = table.filter(pa.array((reasons > 0) == (self.plan.output == "dropped")))
        return leaves(encoded(only(table)), counts)


@dataclass(frozen=True)
class Holding:
    """What a worker needs to know of a call that holds rows, or results of them, until they are due."""

    function: str
    holder: Holder
    keys: tuple[str, ...]  # the columns that tell keys apart
    options: dict[str, str]  # those that the state depends on, as people read them
    time: str  # the event time
    order: tuple[By, ...]  # the processing order ..
    ties: tuple[By, ...]  # .. and what decides between equals
    aside: tuple[str, ...]  # why a row can be dropped before it is taken: 1, 2, ..
    results: tuple[tuple[str, pa.DataType | str], ...]  # columns that a row which never came to the holder has beside its own; a type, or
    # the column that has it
    output: str  # rows, dropped or all
    wall: bool = False  # stream time is the clock on the wall
    row_identity: tuple[str, ...] = ()  # columns that tell rows of a group apart: the holder gets the two numbers of these (`HALVES`)
    passing: tuple[str, ...] = ()  # the columns of a row that passes aside, where such rows leave beside what the holder lets go
    columns: tuple[str, ...] = ()  # those of a row that comes to the holder, in order; none: not known

    @property
    def counts(self) -> tuple[str, ...]:
        """The numbers that come with each blob."""
        return (*counted(self.aside), *self.holder.counts)

    @property
    def seconds(self) -> tuple[Seconds, ...]:
        """The metrics that are made of them, where they are more than sums."""
        return self.holder.seconds if isinstance(self.holder, Counting) else ()


class Hold(Bucket):
    """One bucket of keys, one micro-batch: blobs of rows in; out come blobs of what is due, and of what leaves at once."""

    def __init__(self, plan: Holding) -> None:
        self.plan, self.holder = plan, plan.holder
        self.function, self.options, self.wall = plan.function, plan.options, plan.wall

    def taken(self, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        """Release what is due, then take the rows of a bucket."""
        table = unblobbed(rows)
        state = self._slices(table.schema)
        stream_time = self.stream_time(timer_values, state.index)
        threshold = self.holder.threshold(stream_time)
        due = state.due(threshold)
        released = [self.holder.release(due.without_keys(), stream_time)] if len(due) else []
        aside = groups.as_ints(one(table, ASIDE)).astype(np.int64)
        times = one(table, self.plan.time)
        counts = totals(np.maximum(aside, 0), times, self.plan.aside, stream_time) | self._counted(due, stream_time)
        taking = np.flatnonzero(aside == TAKES_PART)
        out = [self._aside(table, aside, stream_time)] if self.plan.passing or self.plan.output != "rows" else []
        if len(taking):
            taken = table if len(taking) == table.num_rows else table.take(pa.array(taking)).combine_chunks()
            told = numbers(taken, self.plan.keys, state.index.secret)
            order = sorted_rows(list(told), self.plan.order, self.plan.ties, taken)
            group, distinct = grouped(told[:, order])
            ordered = taken.take(pa.array(order)).drop_columns([KEY_HASH, ASIDE, *self.plan.keys])
            if self.plan.row_identity:
                halves = numbers(ordered, self.plan.row_identity, state.index.secret)
                for name, half in zip(HALVES, halves, strict=True):
                    ordered = ordered.append_column(name, pa.array(half))
            owner, held = live(state, distinct, threshold)
            step = self.holder.take(ordered, group, np.full(len(group), stream_time), owner, held.without_keys())
            matrix = np.concatenate((distinct[:, step.groups], step.entries.matrix))
            state.put(Entries(matrix, step.entries.payload), threshold)
            out.append(step.out)
            counts = together(counts, step.counts, {s.of for s in self.plan.seconds if s.least})
        yield blob([*released, *out], counts, self.plan.counts)
        self.save(state, self._wakes(state))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Release what is due."""
        state = self._slices(None)
        stream_time = self.stream_time(timerValues, state.index)
        threshold = self.holder.threshold(stream_time)
        due = state.due(threshold)
        if len(due):
            yield blob([self.holder.release(due.without_keys(), stream_time)], self._counted(due, stream_time), self.plan.counts)
        state.expire(threshold)
        state.index.rung(stream_time)
        self.save(state, self._wakes(state))

    def _slices(self, rows: pa.Schema | None) -> Slices:
        columns = self.holder.held_columns(self.plan.columns) if isinstance(self.holder, HoldingRows) and self.plan.columns else ()
        return Slices(self, self.load(), KEY + self.holder.width, lambda held: fitting(self.function, held, columns, rows))

    def _counted(self, due: Entries, stream_time: int) -> dict[str, float]:
        return self.holder.counted(due.without_keys(), stream_time) if len(due) and isinstance(self.holder, Counting) else {}

    def _aside(self, table: pa.Table, aside: groups.Ints, stream_time: int) -> pa.Table:
        """Rows that never came to the holder: those that pass, or all of them, with the reason."""
        kind = one(table, self.plan.time).type
        if self.plan.output == "rows":
            rows = table.filter(pa.array(aside == 0)).select(list(self.plan.passing))
        else:
            left = table.filter(pa.array(aside != TAKES_PART)).drop_columns([KEY_HASH, ASIDE, *self.plan.keys])
            rows = reported(left, aside[aside != TAKES_PART], self.plan.aside, stream_time, kind)
        for name, result in self.plan.results:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, self._kind(table, result, kind)))
        return rows

    def _kind(self, table: pa.Table, result: pa.DataType | str, time: pa.DataType) -> pa.DataType:
        if isinstance(result, str):
            return one(table, result).type
        return time if pa.types.is_timestamp(result) and result.tz else result  # Spark names its time zone in many ways

    def _wakes(self, state: Slices) -> int:
        return first_due(state) - self.holder.threshold(0)


def first_due(state: Slices) -> int:
    """The smallest that an entry lives by that is not released yet."""
    return min((s.lowest for s in state.index.slices if s.lowest < groups.HIGHEST), default=FAR)


def together(counts: dict[str, float], more: dict[str, float], least: Collection[str]) -> dict[str, float]:
    """Numbers added up, but for those which are the smallest of something."""
    shared = {name: (counts[name], count) for name, count in more.items() if name in counts}
    return counts | more | {name: min(pair) if name in least else sum(pair) for name, pair in shared.items()}


def numbers(table: pa.Table, columns: Sequence[str], secret: str) -> Matrix:
    """The two numbers of each row's key, of these columns."""
    return np.stack(keys.halves([one(table, c) for c in columns], table.num_rows, secret))


def live(state: Slices, distinct: Matrix, threshold: int) -> tuple[groups.Ints, Entries]:
    """The entries of these keys that are not dead: whose they are, rising, and the entries."""
    owner, held = state.find(distinct)
    alive = np.flatnonzero(held.matrix[LIVES_BY] >= threshold)
    alive = alive[np.argsort(owner[alive], kind="stable")]
    return owner[alive], held.take(alive)


def reported(table: pa.Table, reasons: groups.Ints, names: tuple[str, ...], stream_time: int, kind: pa.DataType) -> pa.Table:
    """Rows with why they are dropped, and stream time."""
    words = pa.array([None, *names], pa.string()).take(pa.array(reasons))
    clocks = groups.times(np.full(table.num_rows, stream_time), np.full(table.num_rows, stream_time == NEVER), kind)
    return table.append_column(REASON, words).append_column(STREAM_TIME, clocks)


def counted(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """The names of `totals`, in order."""
    return ("input_rows", *(f"{r}_drop_total" for r in reasons), "timed_rows", "lateness_sum", "lateness_max")


def totals(reasons: groups.Ints, times: pa.Array, names: tuple[str, ...], stream_time: int) -> dict[str, float]:
    """The numbers of section 8 that any function has."""
    moments = groups.micros(times)[groups.valid([times], len(times))]
    behind = np.maximum(groups.difference(stream_time, moments), 0) if stream_time != NEVER else np.zeros(1, np.int64)
    counts = np.bincount(reasons, minlength=len(names) + 1)[1:].tolist()
    values = [len(reasons), *counts, len(moments), float(behind.sum(dtype=np.float64)), int(behind.max(initial=0))]
    return dict(zip(counted(names), values, strict=True))


def time_of_day(timer_values: Any) -> int:
    """The clock on the wall when the micro-batch began."""
    return int(timer_values.getCurrentProcessingTimeInMs()) * 1000


def micros(timer_values: Any) -> int:
    """The watermark under which the micro-batch runs; before the first it is unknown, which Spark writes as 0."""
    at = int(timer_values.getCurrentWatermarkInMs())
    return at * 1000 if at > 0 else NEVER
