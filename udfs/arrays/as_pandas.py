"""Arrow columns as pandas ones and back, losing nothing: how a kernel runs in a Spark that has no Arrow functions (before 4.1).

On their way through pandas, integers with nulls would become floats, and times would have to lie between 1677 and 2262. So what counts
(numbers, dates, times, flags) travels as 64-bit integers beside a column that marks the nulls; text and bytes travel as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from streamtime.udfs.arrays import groups


def counts(kind: pa.DataType) -> bool:
    """Whether columns of this type travel as integers."""
    return not (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind))


def run(kernel: Any, kinds: Sequence[pa.DataType], batches: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    """The kernel over batches of pandas columns. `kinds` are the types that it expects."""
    return map(sent, kernel.run(arrived(kinds, batch) for batch in batches))


def arrived(kinds: Sequence[pa.DataType], columns: Sequence[Any]) -> tuple[pa.Array, ...]:
    """pandas columns as the Arrow columns that they stand for."""
    rest, series = iter(columns), []
    for kind in kinds:
        values = next(rest)
        if not counts(kind):
            text = pa.binary() if pa.types.is_binary(kind) else pa.string()
            series.append(pa.array(values, text, from_pandas=True).cast(kind))
            continue
        numbers = pa.array(values.to_numpy(np.int64), mask=next(rest).to_numpy(np.bool_))
        series.append((numbers.cast(pa.int32()) if pa.types.is_date32(kind) else numbers).cast(kind))
    return tuple(series)


def sent(column: pa.Array) -> Any:
    """A kernel's result, of numbers, dates and times, as pandas integers that can be null; of structs, as a frame of such columns."""
    if pa.types.is_struct(column.type):
        fields = zip(column.type, column.flatten(), strict=True)
        return pd.DataFrame({field.name: sent(values) for field, values in fields})
    is_null = np.array(groups.as_flags(pc.is_null(column)))
    numbers = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    return pd.Series(pd.arrays.IntegerArray(np.array(groups.as_ints(numbers.cast(pa.int64()))), is_null))
