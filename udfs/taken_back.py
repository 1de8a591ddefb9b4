"""Sums, smallest and largest values of what comes and goes (rule J9): where what is taken back leaves no trace."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from streamtime.udfs.arrays import groups

FINEST = 1074  # every double is a multiple of 2 to the power of minus this
UNIT = 1 << FINEST
NAN, INFINITY = float("nan"), float("inf")


class Bag(Protocol):
    """Values that are there, some of them several times."""

    def put(self, value: Any) -> None:
        """One more."""

    def take(self, value: Any) -> None:
        """One less; it was there."""

    def result(self) -> Any:
        """The aggregate of what is there; None of nothing."""


@dataclass
class ExactSum:
    """A sum of doubles as Python's own integers, so that it depends on what is there alone; rounded once, when it is asked for."""

    total: int = 0
    count: int = 0
    odd: dict[str, int] = field(default_factory=lambda: {"nan": 0, "inf": 0, "-inf": 0})

    def put(self, value: float) -> None:
        """One more."""
        self._add(value, 1)

    def take(self, value: float) -> None:
        """One less; it was there."""
        self._add(value, -1)

    def _add(self, value: float, sign: int) -> None:
        self.count += sign
        if value - value != 0:
            self.odd[str(value)] += sign
        else:
            numerator, denominator = value.as_integer_ratio()
            self.total += sign * (numerator << (FINEST + 1 - denominator.bit_length()))

    def result(self) -> float | None:
        """The sum, as the double that is nearest to it; None of nothing."""
        if not self.count:
            return None
        if self.odd["nan"] or (self.odd["inf"] and self.odd["-inf"]):
            return NAN
        if self.odd["inf"] or self.odd["-inf"]:
            return INFINITY if self.odd["inf"] else -INFINITY
        try:
            return self.total / UNIT
        except OverflowError:
            return INFINITY if self.total > 0 else -INFINITY


@dataclass(frozen=True, slots=True, eq=True)
class Down:
    """A value that sorts the other way round."""

    value: Any

    def __lt__(self, other: Down) -> bool:
        return bool(other.value < self.value)


@dataclass
class Smallest:
    """The smallest value that is there, or the largest: a heap, from which values that are gone are taken when they come to its top."""

    largest: bool
    heap: list[Any] = field(default_factory=list)
    counts: dict[Any, int] = field(default_factory=dict)  # of the values in the heap; 0: gone

    def put(self, value: Any) -> None:
        """One more."""
        if value in self.counts:
            self.counts[value] += 1
        else:
            self.counts[value] = 1
            heapq.heappush(self.heap, Down(value) if self.largest else value)

    def take(self, value: Any) -> None:
        """One less; it was there."""
        self.counts[value] -= 1

    def result(self) -> Any:
        """The value at the top that is there; None if none is."""
        while self.heap:
            top = self.heap[0].value if self.largest else self.heap[0]
            if self.counts[top]:
                return top
            heapq.heappop(self.heap)
            del self.counts[top]
        return None


@dataclass(frozen=True)
class TakenBack:
    """`function` ('sum', 'min', 'max') of the values of each group, row by row."""

    function: str

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Batches of (whether the value comes, else it goes; value; group columns..), sorted by group, then as they come and go."""
        boundaries, bag = groups.Boundaries(), self.empty()
        for comes, values, *columns in batches:
            if not len(values):
                yield values
                continue
            states = []
            starts = boundaries.starts(columns, len(values)).tolist()
            for start, here, value in zip(starts, comes.to_pylist(), self.read(values), strict=True):
                if start:
                    bag = self.empty()
                if value is not None:
                    (bag.put if here else bag.take)(value)
                states.append(bag.result())
            yield self.written(states, values.type)

    def read(self, values: pa.Array) -> list[Any]:
        """The values as Python compares them: times as numbers, so that no year is too far, NaN after every number, -0.0 as 0.0."""
        if pa.types.is_temporal(values.type):
            values = _as_number(values)
        states: list[Any] = values.to_pylist()
        if self._has_nan(values.type):
            return [None if v is None else (True, 0.0) if v != v else (False, v + 0.0) for v in states]
        return states

    def written(self, states: list[Any], kind: pa.DataType) -> pa.Array:
        """Values as Python compares them, as a column again."""
        if pa.types.is_temporal(kind):
            return pa.array(states, _number(kind)).cast(kind)
        if self._has_nan(kind):
            states = [None if f is None else NAN if f[0] else f[1] for f in states]
        return pa.array(states, kind)

    def _has_nan(self, kind: pa.DataType) -> bool:
        return self.function != "sum" and pa.types.is_floating(kind)

    def empty(self) -> Bag:
        """Nothing yet."""
        return ExactSum() if self.function == "sum" else Smallest(self.function == "max")


def _as_number(values: pa.Array) -> pa.Array:
    return values.cast(_number(values.type))


def _number(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()
