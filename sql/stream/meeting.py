"""What runs on Spark's workers where rows that are held, when they are due, meet what else is held of their key, as versions are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streamtime.sql.stream.buckets import Bucket, counted, first_due, numbers, totals
from streamtime.sql.stream.packing import blob, unblobbed
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.state import KEY, Entries, Matrix, Meeter, Slices, grouped

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Meeting:
    """What a worker needs to know of a call whose held rows, when they are due, meet what else is held of their key."""

    function: str
    meeter: Meeter
    keys: tuple[str, ...]  # the columns that tell keys apart
    options: dict[str, str]  # those that the state depends on, as people read them
    time: str  # the event time
    wall: bool = False  # stream time is the clock on the wall

    @property
    def counts(self) -> tuple[str, ...]:
        """The numbers that come with each blob."""
        return (*counted(()), *self.meeter.counts)


class Meet(Bucket):
    """One bucket of keys, one micro-batch: what is due, and what comes, meets what is held of its key."""

    def __init__(self, plan: Meeting) -> None:
        self.plan, self.meeter = plan, plan.meeter
        self.function, self.options, self.wall = plan.function, plan.options, plan.wall

    def taken(self, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        """Take the rows of a bucket, and let go what is due."""
        state = Slices(self, self.load(), KEY + self.meeter.width)
        table = unblobbed(rows)
        told = numbers(table, self.plan.keys, state.index.secret)
        order = np.lexsort(told[::-1])
        stream_time = self.stream_time(timer_values, state.index)
        yield from self._met(state, table.take(pa.array(order)).combine_chunks(), told[:, order], stream_time)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Let go what is due."""
        state = Slices(self, self.load(), KEY + self.meeter.width)
        stream_time = self.stream_time(timerValues, state.index)
        state.index.rung(stream_time)
        yield from self._met(state, None, np.zeros((KEY, 0), np.int64), stream_time)

    def _met(self, state: Slices, table: pa.Table | None, told: Matrix, stream_time: int) -> Iterator[pd.DataFrame]:
        threshold = self.meeter.threshold(stream_time)
        due = state.due(threshold)
        keys_of = np.concatenate((told, due.matrix[:KEY]), axis=1)
        order = np.lexsort(keys_of[::-1])
        group, distinct = grouped(keys_of[:, order])
        of = np.empty(len(order), np.int64)
        of[order] = group
        owner, held = state.find(distinct)
        by_owner = np.argsort(owner, kind="stable")
        owner, held = owner[by_owner], held.take(by_owner)
        step = self.meeter.meet(
            table, of[: told.shape[1]], stream_time, owner, held.without_keys(), of[told.shape[1] :], due.without_keys()
        )
        matrix = np.concatenate((distinct[:, step.groups], step.entries.matrix))
        state.put(Entries(matrix, step.entries.payload), threshold)
        counts = dict(step.counts)
        if table is not None:
            times = one(table, self.plan.time)
            counts |= totals(np.zeros(len(times), np.int64), times, (), stream_time)
        yield blob([step.out], counts, self.plan.counts)
        self.save(state, first_due(state) - self.meeter.threshold(0))
