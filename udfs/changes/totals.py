"""AGGREGATE_CHANGES on a stream, then by group (rule J9): what the rows of a group come to, while some come and others go.

The state of a group is its number of rows, and of each aggregate what can be taken back (`streamtime.udfs.taken_back`): an exact sum, or
the distinct values with how often each is there.
"""

from __future__ import annotations

import decimal
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.changes.latest import carried, firsts, lasts, numbered
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.taken_back import Down, ExactSum, Smallest, TakenBack

AT, PLACE, SEQ, ROWS = range(1, 5)  # an entry, behind what it lives by
EXACT = decimal.Context(prec=100)
DIGITS = 38


@dataclass
class Whole:
    """A sum of whole numbers: those, or decimals of one scale as multiples of their last digit."""

    total: int = 0
    count: int = 0

    def put(self, value: int) -> None:
        """One more."""
        self.total, self.count = self.total + value, self.count + 1

    def take(self, value: int) -> None:
        """One less; it was there."""
        self.total, self.count = self.total - value, self.count - 1

    def result(self) -> int | None:
        """The sum; None of nothing."""
        return self.total if self.count else None


@dataclass(frozen=True)
class ColumnTotal:
    """An aggregate of a column: how many values are there, and what else is known of them."""

    name: str
    counted: str  # the name of how many values are there
    column: str
    function: str  # count, sum, min, max

    def empty(self, kind: pa.DataType) -> Any:
        """Nothing yet."""
        if self.function in ("min", "max"):
            return Smallest(self.function == "max")
        return ExactSum() if pa.types.is_floating(kind) and self.function == "sum" else Whole()

    def read(self, values: pa.Array) -> list[Any]:
        """The values, as what holds them compares or adds them."""
        if self.function == "count":
            return [0 if there else None for there in groups.valid([values], len(values)).tolist()]
        states = TakenBack(self.function).read(values)
        if pa.types.is_decimal(values.type) and self.function == "sum":
            return [None if v is None else int(v.scaleb(values.type.scale, EXACT)) for v in states]
        return states

    def results(self, states: list[Any], kind: pa.DataType) -> pa.Array:
        """What it comes to, as a column."""
        if self.function in ("min", "max"):
            return TakenBack(self.function).written(states, kind)
        if pa.types.is_floating(kind):
            return pa.array(states, pa.float64())
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        if any(f is not None and abs(f) >= 10**DIGITS for f in states):
            raise OverflowError(f"AGGREGATE_CHANGES: a sum of `{self.column}` has more than {DIGITS} digits. Cast the argument to DOUBLE.")
        sums = [None if f is None else decimal.Decimal(f).scaleb(-scale, EXACT) for f in states]
        return pa.array(sums, pa.decimal128(DIGITS, scale))

    def saved(self, bags: Sequence[Any], kind: pa.DataType) -> dict[str, pa.Array]:
        """What is known of several groups, for the state."""
        if self.function in ("min", "max"):
            there = [[v for v, n in bag.counts.items() if n] for bag in bags]
            offsets = pa.array(np.cumsum([0, *map(len, there)]), pa.int32())
            values = TakenBack(self.function).written([v for some in there for v in some], kind)
            counts = pa.array([bag.counts[v] for bag, some in zip(bags, there, strict=True) for v in some], pa.int64())
            return {f"{self.name}_values": _lists(offsets, values), f"{self.name}_counts": _lists(offsets, counts)}
        made = {
            f"{self.name}_total": pa.array([hex(b.total) for b in bags], pa.string()),
            self.counted: pa.array([b.count for b in bags], pa.int64()),
        }
        if pa.types.is_floating(kind) and self.function == "sum":
            made[f"{self.name}_odd"] = pa.array([list(b.odd.values()) for b in bags], pa.list_(pa.int64()))
        return made

    def loaded(self, payload: pa.RecordBatch, kind: pa.DataType) -> Callable[[int], Any]:
        """Gives what is known of a group, by its place in the state."""
        if self.function in ("min", "max"):
            values, counts = payload[f"{self.name}_values"], payload[f"{self.name}_counts"]

            def smallest(at: int) -> Smallest:
                known = self.read(values[at].values)
                heap = [Down(v) for v in known] if self.function == "max" else list(known)
                heapq.heapify(heap)
                return Smallest(self.function == "max", heap, dict(zip(known, counts[at].values.to_pylist(), strict=True)))

            return smallest
        totals, counts = payload[f"{self.name}_total"], payload[self.counted]

        def added(at: int) -> Any:
            bag = self.empty(kind)
            bag.total, bag.count = int(totals[at].as_py(), 16), counts[at].as_py()
            if isinstance(bag, ExactSum):
                bag.odd = dict(zip(bag.odd, payload[f"{self.name}_odd"][at].as_py(), strict=True))
            return bag

        return added


def _lists(offsets: pa.Array, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, values)


@dataclass(frozen=True)
class Totals:
    """A `Holder` of groups, over what `Replaced` gives."""

    time: str
    place: str  # a number of the ORDER BY columns
    comes: str
    last: str
    moved: str
    aggregates: tuple[ColumnTotal, ...]
    carried: tuple[str, ...]
    made: tuple[str, str, str]  # the names of the number of rows, the time of the change, and its number

    @property
    def counts(self) -> tuple[str, ...]:
        """None of its own."""
        return ()

    @property
    def width(self) -> int:
        """What an entry lives by, the group's time, the place and number of its last change, how many rows it has."""
        return 5

    def threshold(self, clock: int) -> int:
        """A group without rows is forgotten once stream time has passed its time."""
        return max(clock, LOWEST + 1)

    def release(self, due: Entries, clock: int) -> pa.Table:
        """Nothing leaves when it is forgotten."""
        return pa.table({})

    def take(self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries) -> Taken:
        """What a micro-batch comes to."""
        leaves = groups.as_flags(one(rows, self.last))
        matrix = held.matrix
        at_first, rows_first = np.full(int(group[-1]) + 1, LOWEST), np.zeros(int(group[-1]) + 1, np.int64)
        at_first[owner], rows_first[owner] = matrix[AT], matrix[ROWS]
        at, _ = carried(group, firsts(group), groups.micros(one(rows, self.time)), at_first[group])
        comes = groups.as_flags(one(rows, self.comes))
        signs = np.where(comes, 1, -1)
        so_far = np.cumsum(signs)
        starts = firsts(group)
        count = rows_first[group] + so_far - (so_far - signs)[starts][group]
        number, places, numbers = numbered(group, groups.as_ints(one(rows, self.place)), leaves, owner, matrix[PLACE], matrix[SEQ])
        seq = 2 * number + (groups.as_flags(one(rows, self.moved)) & comes)
        which = np.flatnonzero(leaves)
        out = rows.select(list(self.carried)).take(pa.array(which))
        like = rows.schema.field(self.time).type
        times = groups.times(at[which], np.zeros(len(which), bool), like)
        for name, made in zip(self.made, (pa.array(count[which]), times, pa.array(seq[which])), strict=True):
            out = out.append_column(name, made)
        saved: dict[str, pa.Array] = {}
        for asked in self.aggregates:
            values = one(rows, asked.column)
            here, results, bags = _added_up(asked, values, group, comes, owner, held)
            out = out.append_column(asked.counted, pa.array([here[i] for i in which.tolist()], pa.int64()))
            if asked.function != "count":
                out = out.append_column(asked.name, asked.results([results[i] for i in which.tolist()], values.type))
            saved |= asked.saved(bags, values.type)
        ends = lasts(group)
        lives_by = np.where(count[ends] > 0, HIGHEST, at[ends])
        entries = np.stack((lives_by, at[ends], places[ends], numbers[ends], count[ends])).astype(np.int64)
        return Taken(out, group[ends], Entries(entries, only(pa.table(saved)) if saved else None))


def _added_up(
    asked: ColumnTotal, values: pa.Array, group: Ints, comes: groups.Flags, owner: Ints, held: Entries
) -> tuple[list[int], list[Any], list[Any]]:
    """For each row how many values are there then, and what they come to; and what is known of each group in the end."""
    load = asked.loaded(held.payload, values.type) if held.payload is not None and len(owner) else None
    entry = dict(zip(owner.tolist(), range(len(owner)), strict=True))
    here, results, bags = list[int](), list[Any](), list[Any]()
    bag, count, current = asked.empty(values.type), 0, -1
    for whose, arrives, value in zip(group.tolist(), comes.tolist(), asked.read(values), strict=True):
        if whose != current:
            current = whose
            bag = load(entry[whose]) if load is not None and whose in entry else asked.empty(values.type)
            bags.append(bag)
            count = sum(bag.counts.values()) if isinstance(bag, Smallest) else bag.count
        if value is not None:
            (bag.put if arrives else bag.take)(value)
            count += 1 if arrives else -1
        here.append(count)
        results.append(bag.result())
    return here, results, bags
