"""Aggregates that can be added to, row by row, and merged (rule W5): over many segments of rows at once, in columns.

A segment is what one window or one session adds up, row after row. The state of an aggregate is a few columns, one row per segment: that
is what a query keeps between batches. Sums keep the order of the rows, so that a result does not depend on where a batch ends.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.arrays.ordering import ordinals

State = dict[str, pa.Array]
SHORT = 48  # segments up to this length are added up side by side, longer ones each for itself


class Segments:
    """Rows in segments: each segment's rows are adjacent, in processing order. Every segment starts from a state of its own."""

    def __init__(self, starts: Ints, length: int) -> None:
        lengths = np.diff(starts, append=length)
        segment = np.arange(len(starts))
        self.starts, self.length = starts, length  # the position of each segment's first row, and how many rows there are
        self.ends = starts + lengths - 1
        self.lead = starts + segment  # where each segment's first state stands, in an array that has it before the rows of the segment
        self.number = np.repeat(segment, lengths)  # of each row the segment
        self.place = np.arange(1, length + 1) + self.number  # where each row stands there

    @property
    def extended(self) -> Ints:
        """The segment numbers of an array that has each segment's first state before its rows."""
        numbers: Ints = np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=self.length) + 1)
        return numbers

    @property
    def position(self) -> Ints:
        """Each row's number in its segment, from 1."""
        numbers: Ints = np.arange(1, self.length + 1) - self.starts[self.number]
        return numbers

    def counted(self, first: Ints, present: Flags | None) -> Ints:
        """How many rows are present so far (None: all are), from each segment's first count on."""
        if present is None or present.all():
            return first[self.number] + self.position if first.any() else self.position
        total = np.cumsum(present, dtype=np.int64)
        before = total[self.starts] - present[self.starts]
        counts: Ints = total + (first - before)[self.number]
        return counts

    def led(self, first: Any, rows: Any) -> Any:
        """Each segment's first value, then its rows' values."""
        both = np.empty(self.length + len(self.starts), rows.dtype)
        both[self.lead], both[self.place] = first, rows
        return both


def running(add: np.ufunc, segments: Segments, both: Any) -> Any:
    """What each segment comes to row by row, from its first value on: strictly in the order of rows, whatever the type."""
    lengths = np.diff(segments.lead, append=len(both))
    for start, length in zip(segments.lead[lengths > SHORT].tolist(), lengths[lengths > SHORT].tolist(), strict=True):
        both[start : start + length] = add.accumulate(both[start : start + length])
    short, left = segments.lead[lengths <= SHORT], lengths[lengths <= SHORT]
    for step in range(1, int(left.max(initial=1))):
        at = short[left > step] + step
        both[at] = add(both[at - 1], both[at])
    return both[segments.place]


def running_sum(segments: Segments, first: Any, rows: Any) -> Any:
    """The sum so far, row by row. Raises OverflowError for integers that do not fit; exact, and in the order of rows, for others."""
    both = segments.led(first, rows)
    if both.dtype != np.int64:
        return running(np.add, segments, both)
    if np.abs(both.astype(np.float64)).sum() < 2.0**62:
        total = np.cumsum(both)
        sums: Ints = (total - (total[segments.lead] - both[segments.lead])[segments.extended])[segments.place]
        return sums
    exact = running(np.add, segments, both.astype(object))
    if len(exact) and not (min(exact) >= groups.LOWEST and max(exact) <= groups.HIGHEST):
        raise OverflowError
    return exact.astype(np.int64)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: `function` of `column` (none for count(*)), named `name`."""

    name: str
    function: str
    column: str = ""

    def state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        """The state after the rows at these positions. `values` are the argument's; `first` are the states that the segments start from."""
        return self._state(segments, values, times, first, at)

    def merge(self, left: State, right: State) -> State:
        """Two states as one, pair by pair; the left one's rows came first."""
        return self._merge(left, right)

    def result(self, state: State, kind: pa.DataType | None) -> pa.Array:
        """The aggregate's values; `kind` is the type of an average."""
        return self._result(state, kind)

    def fresh(self, state: State) -> State:
        """States, those that are null made such that nothing is in them."""
        return self._fresh(state)

    def empty(self, kind: pa.DataType, length: int) -> State:
        """States with nothing in them, for arguments of this type."""
        return self._empty(kind, length)

    def _state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        raise NotImplementedError

    def _merge(self, left: State, right: State) -> State:
        raise NotImplementedError

    def _result(self, state: State, kind: pa.DataType | None) -> pa.Array:
        return state["value"]

    def _fresh(self, state: State) -> State:
        return state

    def _empty(self, kind: pa.DataType, length: int) -> State:
        raise NotImplementedError


class CountOf(Aggregate):
    """count(*), count(x)."""

    def _state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        present = groups.valid([values], segments.length) if self.column and values.null_count else None
        return {"n": pa.array(segments.counted(groups.as_ints(first["n"]), present)[at])}

    def _merge(self, left: State, right: State) -> State:
        return {"n": pa.array(groups.as_ints(left["n"]) + groups.as_ints(right["n"]))}

    def _result(self, state: State, kind: pa.DataType | None) -> pa.Array:
        return state["n"]

    def _fresh(self, state: State) -> State:
        return {"n": state["n"].fill_null(0)}

    def _empty(self, kind: pa.DataType, length: int) -> State:
        return {"n": pa.array(np.zeros(length, np.int64))}


class Sum(Aggregate):
    """sum(x), avg(x): over BIGINT, DOUBLE or DECIMAL, to which the plan has cast the argument."""

    def _state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        present = groups.valid([values], segments.length) if values.null_count else None
        n = segments.counted(groups.as_ints(first["n"]), present)[at]
        amounts = numbers(values) if present is None else np.where(present, numbers(values), 0)
        try:
            total = running_sum(segments, numbers(first["total"]), amounts)[at]
        except OverflowError:
            raise OverflowError(
                f"{self.function}(..) AS {self.name}: the sum does not fit BIGINT; cast the argument to DECIMAL(38)"
            ) from None
        return {"n": pa.array(n), "total": column_of(self, total, values.type)}

    def _merge(self, left: State, right: State) -> State:
        both = Segments(np.arange(len(left["n"])), len(left["n"]))
        total = running_sum(both, numbers(left["total"]), numbers(right["total"]))
        n = groups.as_ints(left["n"]) + groups.as_ints(right["n"])
        return {"n": pa.array(n), "total": column_of(self, total, left["total"].type)}

    def _result(self, state: State, kind: pa.DataType | None) -> pa.Array:
        n, total = groups.as_ints(state["n"]), numbers(state["total"])
        none = n == 0
        if self.function == "sum":
            return masked(state["total"], none)
        if kind is None or not pa.types.is_decimal(kind):
            return pa.array(total.astype(np.float64) / np.where(none, 1, n), mask=none)
        scale = 10 ** (kind.scale - state["total"].type.scale)
        return masked(
            column_of(self, np.array([half_up(t * scale, c) for t, c in zip(total, n.tolist(), strict=True)], object), kind), none
        )

    def _fresh(self, state: State) -> State:
        total = state["total"]
        return {
            "n": state["n"].fill_null(0),
            "total": total.fill_null(pa.scalar(Decimal(0) if pa.types.is_decimal(total.type) else 0, total.type)),
        }

    def _empty(self, kind: pa.DataType, length: int) -> State:
        if pa.types.is_decimal(kind):
            return self._fresh({"n": pa.nulls(length, pa.int64()), "total": pa.nulls(length, kind)})
        return {"n": pa.array(np.zeros(length, np.int64)), "total": pa.array(np.zeros(length)).cast(kind)}


class MinMax(Aggregate):
    """min(x), max(x): as Spark compares; nulls do not take part."""

    def _state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_temporal(values.type):
            return {"value": self._of_numbers(segments, values, first["value"], at)}
        both = pa.concat_arrays([first["value"], values])
        return {"value": best(self.function == "max", segments, both, dense_ranks(both))(at)}

    def _of_numbers(self, segments: Segments, values: pa.Array, first: pa.Array, at: Ints) -> pa.Array:
        """NaN is larger than any number: `maximum` lets it through, `fmin` only where there is nothing else."""
        held, rows = (as_numbers(column) for column in (first, values))
        of_floats = rows.dtype.kind == "f"
        none = (
            (-np.inf if of_floats else np.iinfo(rows.dtype).min)
            if self.function == "max"
            else (np.nan if of_floats else np.iinfo(rows.dtype).max)
        )
        there = [groups.valid([column], len(column)) for column in (first, values)]
        held, rows = (np.where(is_there, numbers, none) for is_there, numbers in zip(there, (held, rows), strict=True))
        best = running(np.maximum if self.function == "max" else np.fmin, segments, segments.led(held, rows.astype(rows.dtype)))[at]
        nothing = None
        if not there[1].all():
            nothing = segments.counted(there[0].astype(np.int64), there[1])[at] == 0
        plain = pa.array(best, mask=nothing)
        return plain if plain.type == values.type else plain.cast(values.type)

    def _merge(self, left: State, right: State) -> State:
        each = np.arange(len(left["value"]))
        return self._state(Segments(each, len(each)), right["value"], each, left, each)

    def _empty(self, kind: pa.DataType, length: int) -> State:
        return {"value": pa.nulls(length, kind)}


class Edge(Aggregate):
    """first(x), last(x): of the earliest or latest event time; among equal times the first or last in processing order. A null counts."""

    def _state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        both = pa.concat_arrays([first["value"], values])
        known = groups.valid([first["at"]], len(segments.starts))
        moments = np.concatenate((groups.as_ints(first["at"]), times))
        order = np.argsort(moments, kind="stable")  # the state before the rows, the rows in processing order
        rank = np.empty(len(both), np.int64)
        rank[order] = np.arange(len(both))
        rank[: len(known)][~known] = -1
        pick = best(self.function == "last", segments, both, rank)
        return {"value": pick(at), "at": best(self.function == "last", segments, pa.array(moments), rank)(at)}

    def _merge(self, left: State, right: State) -> State:
        length = len(left["at"])
        known, both = groups.valid([left["at"]], length), groups.valid([right["at"]], length)
        earlier, later = groups.as_ints(left["at"]), groups.as_ints(right["at"])
        takes_right = both & (~known | ((later < earlier) if self.function == "first" else (later >= earlier)))
        at = pa.array(np.where(takes_right, np.arange(length) + length, np.arange(length)))
        return {name: pa.concat_arrays([left[name], right[name]]).take(at) for name in ("value", "at")}

    def _empty(self, kind: pa.DataType, length: int) -> State:
        return {"value": pa.nulls(length, kind), "at": pa.nulls(length, pa.int64())}


class Collect(Aggregate):
    """collect_list(x): in event-time order, ties in processing order, without nulls."""

    def _state(self, segments: Segments, values: pa.Array, times: Ints, first: State, at: Ints) -> State:
        before = first["values"]
        pool = pa.concat_arrays([before.flatten(), values])
        moments = [*first["ats"].flatten().to_pylist(), *times.tolist()]
        held, offset = [], 0
        for length in (before.value_lengths().fill_null(0)).to_pylist():
            held.append(list(range(offset, offset + length)))
            offset += length
        present, wanted = groups.valid([values], segments.length).tolist(), np.zeros(segments.length, bool)
        wanted[at] = True
        lists: dict[int, list[int]] = {}
        for row, (segment, is_wanted) in enumerate(zip(segments.number.tolist(), wanted.tolist(), strict=True)):
            if present[row]:
                bisect.insort_right(held[segment], offset + row, key=moments.__getitem__)
            if is_wanted:
                lists[row] = held[segment].copy()
        return gathered([lists[row] for row in at.tolist()], pool, np.array(moments, np.int64))

    def _merge(self, left: State, right: State) -> State:
        pool = pa.concat_arrays([left["values"].flatten(), right["values"].flatten()])
        moments = [*left["ats"].flatten().to_pylist(), *right["ats"].flatten().to_pylist()]
        lists, at = [list[int]() for _ in range(len(left["values"]))], 0
        for side in (left, right):
            for members, length in zip(lists, side["values"].value_lengths().fill_null(0).to_pylist(), strict=True):
                members += range(at, at + length)
                at += length
        return gathered([sorted(m, key=moments.__getitem__) for m in lists], pool, np.array(moments, np.int64))

    def _result(self, state: State, kind: pa.DataType | None) -> pa.Array:
        return state["values"]

    def _fresh(self, state: State) -> State:
        return {name: filled(lists) for name, lists in state.items()}

    def _empty(self, kind: pa.DataType, length: int) -> State:
        return self._fresh({"values": pa.nulls(length, pa.list_(kind)), "ats": pa.nulls(length, pa.list_(pa.int64()))})


KINDS: dict[str, type[Aggregate]] = {
    "count": CountOf, "sum": Sum, "avg": Sum, "min": MinMax, "max": MinMax, "first": Edge, "last": Edge, "collect_list": Collect,
}  # fmt: skip


def aggregate(name: str, function: str, column: str = "") -> Aggregate:
    """An aggregate by the name of its function."""
    return KINDS[function](name, function, column)


def gathered(lists: Sequence[Sequence[int]], pool: pa.Array, moments: Ints) -> State:
    """Lists of positions as lists of values, and of their times."""
    offsets = pa.array(np.cumsum([0, *map(len, lists)]), pa.int32())
    members = np.array([m for some in lists for m in some], np.int64)
    values = pool.take(pa.array(members))
    ats = pa.array(moments[members], pa.int64())
    return {"values": pa.ListArray.from_arrays(offsets, values), "ats": pa.ListArray.from_arrays(offsets, ats)}


def filled(lists: pa.Array) -> pa.Array:
    """Lists, with an empty one for a null."""
    offsets = np.cumsum([0, *lists.value_lengths().fill_null(0).to_pylist()])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), lists.flatten())


def dense_ranks(values: pa.Array) -> Ints:
    """Numbers from 0 that compare as the values do; -1 for a null."""
    _, dense = np.unique(ordinals(values), return_inverse=True)
    return np.where(groups.valid([values], len(values)), dense, -1)


def best(largest: bool, segments: Segments, values: pa.Array, rank: Ints) -> Callable[[Ints], pa.Array]:
    """Row by row the value of the largest or smallest rank so far; `values` and `rank` have each segment's first one, then all rows'.

    A rank of -1 does not take part; where nothing did, the value is null.
    """
    count = len(segments.starts)
    unknown = rank < 0
    top = int(rank.max(initial=0)) + 1
    scored = np.where(unknown, 0, rank + 1 if largest else top - rank)  # 0: none; the more, the better
    where = np.zeros(top + 1, np.int64)
    where[scored[::-1]] = np.arange(len(rank))[::-1]
    reached = groups.running_max(segments.extended, segments.led(scored[:count], scored[count:]))[segments.place]

    def at(rows: Ints) -> pa.Array:
        score = reached[rows]
        return values.take(pa.array(where[score], mask=score == 0))

    return at


def numbers(column: pa.Array) -> Any:
    """A numeric column as NumPy: BIGINT, DOUBLE, or a DECIMAL's unscaled values as Python's integers. 0 for a null."""
    if not pa.types.is_decimal(column.type):
        return groups.as_ints(column)
    halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)
    whole = halves[:, 1].view(np.int64).astype(object) * 2**64 + halves[:, 0].astype(object)
    return np.where(groups.valid([column], len(column)), whole, 0) if column.null_count else whole


def column_of(one: Aggregate, values: Any, kind: pa.DataType) -> pa.Array:
    """The reverse. Raises OverflowError where a decimal has too many digits."""
    if not pa.types.is_decimal(kind):
        return pa.array(values, kind)
    if len(values) and max(abs(v) for v in values) >= 10**kind.precision:
        problem = f"the result has more than {kind.precision} digits"
        raise OverflowError(f"{one.function}(..) AS {one.name}: {problem}; cast the argument to a smaller DECIMAL")
    packed = b"".join(int(v).to_bytes(16, "little", signed=True) for v in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(packed)])


def as_numbers(column: pa.Array) -> Any:
    """A column of numbers or times as NumPy."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return groups.as_ints(column)


def masked(column: pa.Array, none: Any) -> pa.Array:
    """The column with more nulls."""
    return column.take(pa.array(np.arange(len(column)), mask=none))


def half_up(value: int, divisor: int) -> int:
    """A quotient, rounded as Spark rounds decimals; 0 for a division by 0."""
    if divisor == 0:
        return 0
    whole, rest = divmod(abs(value), divisor)
    whole += 2 * rest >= divisor
    return whole if value >= 0 else -whole
