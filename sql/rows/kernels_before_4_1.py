"""Runs a kernel where Spark has no Arrow functions (before 4.1): as a pandas function over integers, text and bytes.

Here Spark turns the kernel's columns into those that `streamtime.udfs.arrays.as_pandas` reads, and its result back. All other columns
stay in the JVM, and rows stay in place, exactly as with an Arrow function. A kernel over other types is no work of this module's: `kernels`
sends it whole rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf

from streamtime.sql.rows.columns import expression, named
from streamtime.udfs.arrays import as_pandas
from streamtime.udfs.arrays.worker import spare_the_collector

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.udfs.kernel import Kernel

ARROW: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", "UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.BinaryType: pa.binary(),
    T.StringType: pa.string(),
}
DAY, HOUR, MINUTE, SECOND = (seconds * 1_000_000 for seconds in (86_400, 3_600, 60, 1))


def with_column(df: DataFrame, name: str, kernel: Kernel, columns: list[Column], returns: T.DataType) -> DataFrame | None:
    """The rows with the kernel's result; None where it takes or gives other types than these. Spark is asked for the columns' types, which
    costs an analysis.
    """
    kinds = [f.dataType for f in df.select(*[c.alias(f"c{i}") for i, c in enumerate(columns)]).schema]
    if not all(isinstance(kind, (*ARROW, T.DecimalType)) for kind in kinds) or not _counts(returns):
        return None
    function = _function(kernel, tuple(map(_arrow, kinds)), returns, application())
    result = f"{name}_integers"
    run = df.withColumn(result, function(*[part for c, kind in zip(columns, kinds, strict=True) for part in _sent(c, kind)]))
    # a second projection, since the function would run once for each field that is read from its result
    return run.withColumn(name, _arrived(named(result), returns)).drop(result)


def _counts(returns: T.DataType) -> bool:
    """Whether results travel back as integers."""
    if isinstance(returns, T.StructType):
        return all(_counts(f.dataType) for f in returns.fields)
    return type(returns) in ARROW and as_pandas.counts(ARROW[type(returns)])


def _arrow(kind: T.DataType) -> pa.DataType:
    return pa.decimal128(kind.precision, kind.scale) if isinstance(kind, T.DecimalType) else ARROW[type(kind)]


def _sent(column: Column, kind: T.DataType) -> list[Column]:
    if not as_pandas.counts(_arrow(kind)):
        return [column.cast("string") if isinstance(kind, T.DecimalType) else column]
    return [F.coalesce(_count(column, kind), F.lit(0).cast("long")), column.isNull()]


def _count(column: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.DateType):
        return F.unix_date(column).cast("long")
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType):  # no function counts its microseconds without asking for a time zone
        parts = ((F.unix_date(column.cast("date")), DAY), (F.hour(column), HOUR), (F.minute(column), MINUTE))
        seconds = (F.extract(F.lit("SECOND"), column) * SECOND).cast("long")
        return functools.reduce(lambda total, part: total + part[0].cast("long") * part[1], parts, seconds)
    return column.cast("long")


def _arrived(column: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.StructType):
        return F.struct(*[_arrived(column.getField(f.name), f.dataType).alias(f.name) for f in kind.fields])
    if isinstance(kind, T.DateType):
        return F.date_from_unix_date(column.cast("int"))
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(column)
    if isinstance(kind, T.TimestampNTZType):
        return expression("TIMESTAMP_NTZ '1970-01-01'") + column * expression("INTERVAL '0.000001' SECOND")
    return column.cast(kind)


def application() -> Hashable:
    """What a function that was made for Spark holds on to: it knows the Python that its workers are to run."""
    context = SparkContext._active_spark_context
    return context, getattr(context, "pythonExec", None)


@functools.lru_cache(maxsize=256)
def _function(kernel: Kernel, kinds: tuple[pa.DataType, ...], returns: T.DataType, _application: Hashable) -> Callable[..., Column]:
    def over(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        spare_the_collector()
        return as_pandas.run(kernel, kinds, batches)

    integers: T.DataType = T.LongType()
    if isinstance(returns, T.StructType):
        integers = T.StructType([T.StructField(f.name, T.LongType()) for f in returns.fields])
    result = Iterator[pd.DataFrame] if isinstance(returns, T.StructType) else Iterator[pd.Series]
    over.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": result}
    over.__name__ = type(kernel).__name__.lower()
    made: Callable[..., Column] = pandas_udf(over, integers).asNondeterministic()  # type: ignore[call-overload]
    return made
