"""Runs a kernel inside Spark: as an Arrow function over the few columns it needs; all other columns never leave the JVM.

The function is stateful along a partition, so it must see the rows exactly as sorted. Three things hold that together: it is marked
as not deterministic, so the optimizer neither moves nor repeats it; the sort right below it stays, because a projection that is not
deterministic keeps its order; and Spark feeds a task's rows in order and puts results back by position.

It travels with each query, since workers need no package of ours. Code is pickled by value, which takes as long as a small query, so it is
done once for the same classes and functions; what a call says, its kernel's fields, is pickled with each. A worker reads a code once.
"""

from __future__ import annotations

import functools
import importlib
import io
import pkgutil
import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as T
from pyspark.sql.pandas import functions as pandas_functions

from streamtime.sql.rows import kernels_before_4_1
from streamtime.sql.rows.columns import named, remembered
from streamtime.udfs.arrays.beside import Beside
from streamtime.udfs.arrays.blobs import Named
from streamtime.udfs.arrays.worker import opened, spare_the_collector
from streamtime.udfs.kernel import Kernel

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.udfs.arrays.blobs import Packer

BLOB = "__streamtime_blob"
Given = TypeVar("Given")
Made = TypeVar("Made")
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


class Shipped(Generic[Given, Made]):
    """A function that workers call; there it is the function itself."""

    def __init__(self, function: Callable[[Given], Made]) -> None:
        ship_by_value()
        self.function = function
        self.__name__ = getattr(function, "__name__", "function")  # Spark's plans show it

    def __call__(self, given: Given) -> Made:
        """Here, as on a worker."""
        return self.function(given)

    def __reduce__(self) -> tuple[Callable[[bytes, bytes], Any], tuple[bytes, bytes]]:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(self.function)  # type: ignore[no-untyped-call]
        return opened, (_code(tuple(pickler.named)), file.getvalue())


class _Pickler(cloudpickle.Pickler):
    """Of the classes and functions that travel by value it writes down only the place among all that it named."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self.named: dict[type | FunctionType, int] = {}
        self.by_value = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]

    def persistent_id(self, one: object) -> int | None:
        """None where it is to be pickled as it is."""
        if not isinstance(one, type | FunctionType) or one.__module__ not in self.by_value or _in_its_module(one) is not one:
            return None
        return self.named.setdefault(one, len(self.named))


def _in_its_module(one: type | FunctionType) -> object:
    """What has its name there: it is something else where it was made by a call."""
    at: object = sys.modules[one.__module__]
    for name in one.__qualname__.split("."):
        at = getattr(at, name, None)
    return at


@functools.lru_cache(maxsize=256)
def _code(named: tuple[type | FunctionType, ...]) -> bytes:
    return bytes(cloudpickle.dumps(named))  # type: ignore[no-untyped-call]


@functools.cache
def ship_by_value(*others: ModuleType) -> None:
    """Send the kernels, and other modules that run on workers, with each query from now on."""
    import streamtime.udfs

    for module in pkgutil.walk_packages(streamtime.udfs.__path__, "streamtime.udfs."):
        cloudpickle.register_pickle_by_value(importlib.import_module(module.name))  # type: ignore[no-untyped-call]
    for other in others:
        cloudpickle.register_pickle_by_value(other)  # type: ignore[no-untyped-call]
