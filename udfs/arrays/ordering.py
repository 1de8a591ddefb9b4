"""Processing order in NumPy: Spark's own sort order, for rows that Spark cannot sort for us (a stream's).

Values become numbers that compare as Spark compares the values: false before true, NaN after every number and equal to itself, strings
byte by byte, arrays and structs element by element, nulls inside them first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, Ints


@dataclass(frozen=True)
class By:
    """A column to order by."""

    name: str
    ascending: bool = True
    nulls_first: bool = True
    zeros: bool = False  # by nothing but the signs of its zeros, which are equal elsewhere


def sorted_rows(keys: Sequence[Ints], by: Sequence[By], ties: Sequence[By], table: pa.Table) -> Ints:
    """The rows of the table, by keys, then in processing order; `ties` are only looked at where all else is equal."""
    ordered = [*keys, *(directed(one(table, b.name), b) for b in by)]
    return sorted_by(ordered, ties, lambda rows: table.take(pa.array(rows)))


def sorted_by(ordered: Sequence[Ints], ties: Sequence[By], fetched: Callable[[Ints], pa.Table]) -> Ints:
    """The numbers of rows, by these columns; where all of these are equal by `ties`, for which some rows are fetched, then as they were."""
    rows = np.argsort(ordered[0]) if len(ordered) == 1 else _lexsorted(ordered)
    same = np.zeros(len(rows), bool)
    same[1:] = np.logical_and.reduce([inside[1:] == inside[:-1] for inside in (o[rows] for o in ordered)])
    tied = same.copy()
    tied[:-1] |= same[1:]
    places = np.flatnonzero(tied)
    if len(places):
        among = rows[places]
        chosen = fetched(among) if ties else pa.table({})
        run = np.cumsum(~same)[places]
        rows[places] = among[_lexsorted([run, *(directed(one(chosen, b.name), b) for b in ties), among])]
    return rows


def _lexsorted(columns: Sequence[Ints]) -> Ints:
    """The rows by these columns, where equal rows need not stay in place: one number for all of them, where that is wide enough, sorts
    several times as fast.
    """
    together, room = np.zeros(len(columns[0]), np.int64), 1
    for column in columns if len(together) else ():
        low = int(column.min())
        width = int(column.max()) - low + 1
        room *= width
        if room > HIGHEST:
            return np.lexsort(columns[::-1])
        together = together * width + (column - low)
    return np.argsort(together)


def directed(column: pa.Array, by: By) -> Ints:
    """Numbers that rise where the column comes later."""
    numbers = signs(column) if by.zeros else ordinals(column)
    numbers = numbers if by.ascending else ~numbers
    if not column.null_count:
        return numbers
    present = groups.valid([column], len(column))
    _, ranks = np.unique(numbers, return_inverse=True)
    return np.where(present, ranks, -1 if by.nulls_first else len(ranks)).astype(np.int64)


def ranks(table: pa.Table, by: Sequence[By]) -> Ints:
    """For each row the rank of its values: equal values have one."""
    numbers = [directed(one(table, b.name), b) for b in by][::-1]
    ranked = np.zeros(table.num_rows, np.int64)
    if numbers:
        order = np.lexsort(numbers)
        changes = np.zeros(len(order), bool)
        for column in numbers:
            changes[1:] |= column[order[1:]] != column[order[:-1]]
        ranked[order] = np.cumsum(changes)
    return ranked


def ordinals(column: pa.Array) -> Ints:
    """Numbers that compare as Spark compares the values; what stands in place of a null means nothing."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
        kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        kind = column.type
    if pa.types.is_integer(kind):
        numbers: Ints = groups.as_ints(column).astype(np.int64)
        return numbers
    if pa.types.is_floating(kind):
        return ranked(column.fill_null(0).to_numpy(zero_copy_only=False))
    if pa.types.is_nested(kind):
        return of_values([comparable(v) for v in column.cast(without_times(kind)).to_pylist()])
    encoded = column.dictionary_encode()
    words = encoded.dictionary
    codes: Ints = groups.as_ints(encoded.indices)
    if not len(words):
        return np.zeros(len(column), np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        words = words.cast(pa.large_binary())
    rank = np.empty(len(words), np.int64)
    rank[pc.sort_indices(words).to_numpy()] = np.arange(len(words))
    numbered: Ints = rank[codes]
    return numbered


def signs(column: pa.Array) -> Ints:
    """Numbers that tell both zeros of a DOUBLE or FLOAT apart, -0.0 first, wherever they are; of values that are equal but for these."""
    if pa.types.is_floating(column.type):
        values = column.fill_null(1).to_numpy(zero_copy_only=False)
        numbers: Ints = ((values != 0) | ~np.signbit(values)).astype(np.int64)
        return numbers
    return of_values([tuple(_signs(v)) for v in column.cast(without_times(column.type)).to_pylist()])


def _signs(value: Any) -> Iterator[bool]:
    if isinstance(value, float):
        yield value != 0 or math.copysign(1, value) > 0
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _signs(inside)


def ranked(values: Any) -> Ints:
    """Dense ranks; NaN is the largest."""
    ranks: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return ranks


def of_values(values: list[Any]) -> Ints:
    """Dense ranks of Python values."""
    rank = {v: i for i, v in enumerate(sorted(set(values)))}
    return np.array([rank[v] for v in values], np.int64)


def without_times(kind: pa.DataType) -> pa.DataType:
    """The type with numbers for the times in it: Python knows no times beyond the year 9999. Its fields may be null: in a null they are."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_times(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(without_times(kind.value_type)).with_nullable(True))
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def comparable(value: Any) -> tuple[Any, ...]:
    """A value of an array or struct as a tuple that compares as Spark compares it."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, *(comparable(v) for v in value.values()))
    if isinstance(value, list):
        return (1, *(comparable(v) for v in value))
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (1, value != value, 0.0 if value != value else value)
    return (1, value)


def one(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
