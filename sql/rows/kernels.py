"""Runs a kernel inside Spark: as an Arrow function over the few columns it needs; all other columns never leave the JVM.

The function is stateful along a partition, so it must see the rows exactly as sorted. Three things hold that together: it is marked
as not deterministic, so the optimizer neither moves nor repeats it; the sort right below it stays, because a projection that is not
deterministic keeps its order; and Spark feeds a task's rows in order and puts results back by position.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas import functions as pandas_functions

from streamtime.sql.rows import kernels_before_4_1
from streamtime.sql.rows.columns import named, remembered
from streamtime.sql.rows.shipping import Shipped, ship_by_value
from streamtime.udfs.arrays.beside import Beside
from streamtime.udfs.arrays.blobs import Named
from streamtime.udfs.arrays.worker import spare_the_collector
from streamtime.udfs.kernel import Kernel

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.udfs.arrays.blobs import Packer

BLOB = "__streamtime_blob"
arrow_udf = getattr(pandas_functions, "arrow_udf", None)  # from Spark 4.1


def with_column(df: DataFrame, name: str, kernel: Kernel, columns: list[Column], returns: T.DataType) -> DataFrame:
    """The rows, already partitioned and sorted for the kernel, with its result."""
    if arrow_udf is None:
        ship_by_value()
        made = kernels_before_4_1.with_column(df, name, kernel, columns, returns)
        return _over_rows(df, name, kernel, columns, returns) if made is None else made
    function = _function(kernel, len(columns) == 1, returns, kernels_before_4_1.application())
    return df.withColumn(name, remembered(function, columns, lambda: function(*columns)))


def mapped(df: DataFrame, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: T.StructType) -> DataFrame:
    """`mapInArrow` over columns of any names: PySpark's own takes each for SQL, and knows none with a dot or a backquote."""
    ship_by_value()
    columns = df.columns
    return df.toDF(*[f"c{i}" for i in range(len(columns))]).mapInArrow(Shipped(Named(run, tuple(columns)).run), schema)


def _over_rows(df: DataFrame, name: str, kernel: Kernel, columns: list[Column], returns: T.DataType) -> DataFrame:
    """The same, where whole rows must travel."""
    sent = df.select(*map(named, df.columns), *[c.alias(f"{name}_of_{i}") for i, c in enumerate(columns)])
    schema = T.StructType([*df.schema.fields, T.StructField(name, returns)])
    return mapped(sent, Beside(kernel, name, len(columns)).run, schema)


def packed(df: DataFrame, packer: Packer, blobs: T.StructType) -> DataFrame:
    """The rows as blobs. As a column, since mapInArrow measures from Spark 4.1 on the whole batch anew with each row that it sends."""
    if arrow_udf is None:
        return mapped(df, packer.pack, blobs)
    made = with_column(df, BLOB, replace(packer, names=tuple(df.columns)), [named(c) for c in df.columns], blobs)
    return made.where(named(BLOB).isNotNull()).select(f"{BLOB}.*")


@functools.lru_cache(maxsize=256)
def _function(kernel: Kernel, single: bool, returns: T.DataType, _application: Hashable) -> Callable[..., Column]:
    """The Spark function of a kernel: made once per application, since to pickle it takes as long as a small query."""
    ship_by_value()
    run = Shipped(kernel.run)

    def over_single(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        spare_the_collector()
        return run((batch,) for batch in batches)

    def over_many(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        spare_the_collector()
        return run(batches)

    over_single.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    over_many.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    function = over_single if single else over_many
    function.__name__ = type(kernel).__name__.lower()
    assert arrow_udf is not None
    made: Callable[..., Column] = arrow_udf(function, returns).asNondeterministic()
    return made
