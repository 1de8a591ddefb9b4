"""Arithmetic over rows that lie grouped: one pass over all groups at once, and state across batches.

Rows come in batches, sorted so that each group's rows are adjacent; the last group of a batch may go on in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
MICROS_PER_DAY = 86_400_000_000
LAST_DAY = HIGHEST // MICROS_PER_DAY


class Boundaries:
    """Tells where a new group begins, in batches of Arrow columns; remembers the last row of the batch before."""

    def __init__(self) -> None:
        self.last: list[Any] | None = None

    def starts(self, columns: Sequence[pa.Array], length: int) -> Flags:
        """True where the row's values differ from those of the row before; nulls are equal to nulls."""
        starts = np.zeros(length, bool)
        for column in columns:
            starts[1:] |= differs(column.slice(1), column.slice(0, length - 1))
        if self.last is None:
            starts[0] = True
        else:
            starts[0] = any(differs(c.slice(0, 1), before)[0] for c, before in zip(columns, self.last, strict=True))
        self.last = [c.slice(length - 1, 1) for c in columns]
        return starts


M = TypeVar("M")


@dataclass
class Part(Generic[M]):
    """Rows to be judged together: all rows of a batch (`rows` None) or some; the memory is that of the first, then the last group's."""

    rows: npt.NDArray[np.intp] | None
    starts: Flags
    memory: M


class GroupRuns(Generic[M]):
    """Hands out the rows of each batch by group, with the memory of groups that go on from the batch before.

    Rows may be sorted by a hash of their group first: then a run of rows with one hash nearly always is one group, yet may mix several.
    Mixed runs are taken apart group by group; all other rows stay together.
    """

    def __init__(self, new: Callable[[], M]) -> None:
        self.new = new
        self.group_starts, self.run_starts = Boundaries(), Boundaries()
        self.memories: dict[tuple[Any, ...], M] = {}

    def parts(self, hashes: Sequence[pa.Array], columns: Sequence[pa.Array], length: int) -> Iterator[Part[M]]:
        """The parts of a batch. Without `hashes`, rows of a group are adjacent. A part must be judged before the next is asked for."""
        starts = self.group_starts.starts(columns, length)
        run_starts = self.run_starts.starts(hashes, length) if hashes else starts
        if run_starts[0]:
            self.memories = {}
        mixed = starts & ~run_starts
        if not mixed.any() and len(self.memories) <= 1:
            memory = next(iter(self.memories.values()), None) or self.new()
            yield Part(None, starts, memory)
            self.memories = {self._key(columns, length - 1) if hashes else (): memory}
            return
        run = numbered(run_starts)
        apart = np.zeros(run[-1] + 1, bool)
        apart[run[mixed]] = True
        apart[0] |= len(self.memories) > 1
        together = np.flatnonzero(~apart[run])
        memories = self.memories
        if len(together):
            memory = next(iter(memories.values())) if together[0] == 0 and memories else self.new()
            yield Part(together, starts[together], memory)
            if not apart[-1]:
                self.memories = {self._key(columns, length - 1): memory}
        for number in np.flatnonzero(apart):
            if number:
                memories = {}
            if number == run[-1]:
                self.memories = memories
            rows = np.flatnonzero(run == number)
            for members in self._by_group(columns, rows):
                key = self._key(columns, int(members[0]))
                going_on = key in memories
                memory = memories.setdefault(key, self.new())
                member_starts = np.zeros(len(members), bool)
                member_starts[0] = not going_on
                yield Part(members, member_starts, memory)

    @staticmethod
    def _key(columns: Sequence[pa.Array], row: int) -> tuple[Any, ...]:
        return tuple(plain_value(c[row]) for c in columns)

    @staticmethod
    def _by_group(columns: Sequence[pa.Array], rows: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
        codes = [c.take(pa.array(rows)).dictionary_encode().indices.to_numpy(zero_copy_only=False) for c in columns]
        _, group = np.unique(np.stack(codes), axis=1, return_inverse=True)
        group = group.ravel()
        return [rows[group == g] for g in range(int(group.max()) + 1)]


def plain_value(scalar: pa.Scalar) -> Any:
    """A value that Python compares; of a time its number, since Python knows none beyond the year 9999."""
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def differs(left: pa.Array, right: pa.Array) -> Flags:
    """Row by row, whether two columns differ; null equals null, and NaN itself."""
    if pa.types.is_nested(left.type):
        return _nested_differ(left, right)
    unequal = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        unequal = pc.and_not_kleene(unequal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
    if unequal.null_count:
        unequal = pc.if_else(pc.is_valid(unequal), unequal, pc.xor(pc.is_null(left), pc.is_null(right)))
    return as_flags(unequal)


def _nested_differ(left: pa.Array, right: pa.Array) -> Flags:
    """The same of structs, field by field, and of arrays, item by item, which Arrow does not compare."""
    unequal = as_flags(pc.not_equal(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_struct(left.type):
        for a, b in zip(left.flatten(), right.flatten(), strict=True):
            unequal |= differs(a, b)
        return unequal
    unequal |= as_ints(pc.list_value_length(left)) != as_ints(pc.list_value_length(right))
    alike = np.flatnonzero(~unequal)
    one, other = (column.take(pa.array(alike)) for column in (left, right))
    items = differs(one.flatten(), other.flatten())
    unequal[alike[as_ints(pc.list_parent_indices(one))[items]]] = True
    return unequal


def as_flags(column: pa.Array) -> Flags:
    """An Arrow boolean column without nulls as a NumPy one."""
    flags: Flags = column.to_numpy(zero_copy_only=False)
    return flags


def valid(columns: Sequence[pa.Array], length: int) -> Flags:
    """True where none of the columns is null."""
    ok = np.ones(length, bool)
    for column in columns:
        if column.null_count:
            ok &= as_flags(pc.is_valid(column))
    return ok


def micros(times: pa.Array) -> Ints:
    """Event times (timestamps or dates) as microseconds since the epoch; what stands in place of a null means nothing."""
    if pa.types.is_date32(times.type):
        days: Ints = as_ints(times.cast(pa.int32())).astype(np.int64)
        return np.clip(days, -LAST_DAY, LAST_DAY) * MICROS_PER_DAY
    numbers: Ints = as_ints(times.cast(pa.int64()))
    return numbers


def as_ints(column: pa.Array) -> Any:
    """An Arrow integer column as a NumPy one, whatever its nulls hold."""
    return (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)


def times(values: Ints, is_null: Flags, like: pa.DataType) -> pa.Array:
    """Microseconds as an Arrow column of a time type."""
    if pa.types.is_date32(like):
        return pa.array((values // MICROS_PER_DAY).astype(np.int32), mask=is_null).cast(like)
    return pa.array(values, mask=is_null).cast(like)


def plus(values: Ints, duration: int) -> Ints:
    """Addition that stops at the largest number instead of wrapping round; `duration` is not negative."""
    if duration > HIGHEST:  # two durations together
        return plus(plus(values, HIGHEST), duration - HIGHEST)
    limit = HIGHEST - duration
    return np.where(values > limit, HIGHEST, np.minimum(values, limit) + duration)


def minus(values: Ints, duration: int) -> Ints:
    """Subtraction that stops at the smallest number instead of wrapping round; `duration` is not negative."""
    if duration > HIGHEST:
        return minus(minus(values, HIGHEST), duration - HIGHEST)
    limit = LOWEST + duration
    return np.where(values < limit, LOWEST, np.maximum(values, limit) - duration)


def difference(left: Any, right: Any) -> Ints:
    """Subtraction of times that stops at the smallest and the largest number instead of wrapping round."""
    left, right = np.int64(left), np.int64(right)
    with np.errstate(over="ignore"):
        apart = left - right
    return np.where((left ^ right) & (left ^ apart) < 0, np.where(left < 0, LOWEST, HIGHEST), apart)


def numbered(starts: Flags) -> Ints:
    """Group numbers 0, 1, .. for a batch; whatever its first row, it belongs to group 0."""
    numbers: Ints = np.cumsum(starts, dtype=np.int64)
    numbers -= numbers[0]
    return numbers


def begins(values: Ints) -> Flags:
    """Where another run of equal values begins."""
    first = np.ones(len(values), bool)
    first[1:] = values[1:] != values[:-1]
    return first


def ends(values: Ints) -> Flags:
    """Where a run of equal values ends."""
    last = np.ones(len(values), bool)
    last[:-1] = values[1:] != values[:-1]
    return last


def search(group: Ints, values: Ints, targets: Ints) -> Ints:
    """For each row i, the first row after all rows of its group with a value <= targets[i]. Values rise within a group."""
    low, high = int(values.min()), int(values.max())
    width = high - low + 2
    if width * (int(group[-1]) + 1) < HIGHEST:
        capped = np.where(targets < low, -1, np.minimum(np.maximum(targets, low), high) - low)  # below the smallest number there is none
        places: Ints = np.searchsorted(group * width + (values - low), group * width + capped, side="right")
        return places
    distinct = np.unique(values)  # too wide for one number: use ranks in place of values
    width = len(distinct) + 1
    ranks = np.searchsorted(distinct, values)
    below = np.searchsorted(distinct, targets, side="right") - 1
    ranked: Ints = np.searchsorted(group * width + ranks, group * width + below, side="right")
    return ranked


def running_max(group: Ints, values: Ints) -> Ints:
    """The largest value so far, per group."""
    low, high = int(values.min()), int(values.max())
    width = high - low + 1
    if width * (int(group[-1]) + 1) < HIGHEST:
        offset = group * width - low
        result: Ints = np.maximum.accumulate(values + offset) - offset
        return result
    distinct, ranks = np.unique(values, return_inverse=True)
    offset = group * len(distinct)
    largest: Ints = distinct[np.maximum.accumulate(ranks + offset) - offset]
    return largest


def falls(group: Ints, values: Ints) -> Flags:
    """For each row but the first: whether its value is smaller than the one before it in its group."""
    fallen: Flags = (values[1:] < values[:-1]) & (group[1:] == group[:-1])
    return fallen
