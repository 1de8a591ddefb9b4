"""Columns and their types: by name and from SQL text, as sort orders, and which types can be keys, be ordered, or travel to Python."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import unlogged
from streamtime.sql.rows.typed import as_text, collated
from streamtime.sql.syntax.text import minus, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)
SUMMED_AS_BIGINT = (T.ByteType, T.ShortType, T.IntegerType)  # whatever number of rows a table has
DIRECT = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.BinaryType,
)

ARROW: dict[type[T.DataType], pa.DataType] = {
    T.TimestampType: pa.timestamp("us", "UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.DateType: pa.date32(),
    T.BooleanType: pa.bool_(),
    T.LongType: pa.int64(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
}


def expression(text: str) -> Column:
    """SQL text as a column. The same text gives the same object: each would cost several calls into the JVM, at every analysis."""
    return _expression(text, SparkContext._active_spark_context)


@functools.lru_cache(maxsize=4096)
def _expression(text: str, _context: SparkContext | None) -> Column:
    return _last(F.expr(text))


def remembered(what: Hashable, columns: Sequence[Column], make: Callable[[], Column]) -> Column:
    """What `make` gives, made once for these very columns; every time where one of them is itself made for this analysis alone."""
    if not all(map(lasts, columns)):
        return make()
    key = (what, *map(id, columns))
    known = _remembered.get(key)
    if known is None:
        if len(_remembered) > 1024:
            _remembered.clear()
        known = _remembered[key] = (list(columns), _last(make()))
    return known[1]


def lasts(column: Column) -> bool:
    """Whether later analyses may meet this very column, so that something may be kept with it. Others may hold on to whole queries."""
    return _lasting.get(id(column)) is column


def _last(column: Column) -> Column:
    _lasting[id(column)] = column
    return column


_lasting: weakref.WeakValueDictionary[int, Column] = weakref.WeakValueDictionary()
_remembered: dict[Hashable, tuple[list[Column], Column]] = {}  # what is remembered is held, so that an id stays its own


def named(name: str) -> Column:
    """The column of exactly that name."""
    return expression(quoted(name))


def less(number: str, duration: int) -> Column:
    """A BIGINT, as SQL text, less a duration; it stops at the smallest one."""
    return expression(minus(number, duration))


def together(pairs: Mapping[str, str]) -> Column:
    """The condition of a join in which columns are equal as GROUP BY says: a null is a value like any other."""
    return functools.reduce(operator.and_, [named(one).eqNullSafe(named(other)) for one, other in pairs.items()], F.lit(True))


def sorted_by(text: str, ascending: bool = True, nulls_first: bool = True) -> Column:
    """SQL text as a sort order."""
    return _sorted_by(text, ascending, nulls_first, SparkContext._active_spark_context)


@functools.lru_cache(maxsize=4096)
def _sorted_by(text: str, ascending: bool, nulls_first: bool, _context: SparkContext | None) -> Column:
    column = F.expr(text)
    if ascending:
        return _last(column.asc_nulls_first() if nulls_first else column.asc_nulls_last())
    return _last(column.desc_nulls_first() if nulls_first else column.desc_nulls_last())


def orderable(kind: T.DataType) -> bool:
    """Whether Spark can sort by it (rule C4 leaves the others out of tie-breaking)."""
    if isinstance(kind, T.StructType):
        return all(orderable(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return orderable(kind.elementType)
    return not isinstance(kind, (T.MapType, T.VariantType, T.CalendarIntervalType)) and type(kind).__name__ not in (
        "GeometryType",
        "GeographyType",
    )


def direct(kind: T.DataType) -> bool:
    """Whether equal values are equal in Arrow too, so that a kernel can take the column as it is."""
    return isinstance(kind, DIRECT) or (isinstance(kind, T.StringType) and not collated(kind))


def equality(name: str, kind: T.DataType) -> Column:
    """A column that is null where the named one is, and equal exactly where Spark's own GROUP BY says that the values are.

    What Arrow compares as Spark does stays as it is. Other values become text, one to one. Under a collation, values that count as equal
    become the text of the least of them, which takes a shuffle of its own.
    """
    column = named(name)
    if direct(kind):
        return column
    text = expression(as_text(quoted(name), kind))
    if not has_collation(kind):
        return text
    return F.first(text).over(Window.partitionBy(column).orderBy(text))


def hash_of_all(schema: T.StructType, of: str = "") -> str:
    """SQL text for a number that rows differ in: a hash of all columns that have one, or of these fields of a struct."""
    names = [(f"{of}.{quoted(f.name)}", f.dataType) if of else (quoted(f.name), f.dataType) for f in schema]
    return f"hash({', '.join(name if direct(kind) else f'isnull({name})' for name, kind in names)})"  # a MAP has no hash


def resolved(df: DataFrame, text: str) -> T.DataType | None:
    """The type of an expression over these rows; None where it does not resolve."""
    try:
        with unlogged():  # over Spark Connect, what is wrong shows only when the schema is asked
            return df.select(F.expr(text).alias("typed")).schema[0].dataType
    except AnalysisException:
        return None


def resolves(df: DataFrame, text: str) -> bool:
    """Whether an expression has a meaning over these rows."""
    return resolved(df, text) is not None


def alike(one: T.DataType, other: T.DataType) -> bool:
    """Whether values of these types can be equal: both are numbers, or both the same, whatever their fields are called and may be null."""
    if isinstance(one, T.StructType) and isinstance(other, T.StructType):
        return len(one) == len(other) and all(alike(a.dataType, b.dataType) for a, b in zip(one, other, strict=True))
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        return alike(one.elementType, other.elementType)
    return one == other or (isinstance(one, T.NumericType) and isinstance(other, T.NumericType))


def named_like(kind: T.DataType, other: T.DataType) -> T.DataType:
    """A type with the names that the fields of one that is alike have there; they may be null."""
    if isinstance(kind, T.StructType) and isinstance(other, T.StructType):
        fields = zip(kind, other, strict=True)
        return T.StructType([T.StructField(b.name, named_like(a.dataType, b.dataType)) for a, b in fields])
    if isinstance(kind, T.ArrayType) and isinstance(other, T.ArrayType):
        return T.ArrayType(named_like(kind.elementType, other.elementType))
    return kind


def nullable(kind: T.DataType) -> T.DataType:
    """The type where anything in it may be null."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType))
    return T.MapType(nullable(kind.keyType), nullable(kind.valueType)) if isinstance(kind, T.MapType) else kind


def has_collation(kind: T.DataType) -> bool:
    """Whether a string with a collation is anywhere in it."""
    if isinstance(kind, T.StructType):
        return any(has_collation(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return has_collation(kind.elementType)
    return collated(kind)


def has_floating(kind: T.DataType) -> bool:
    """Whether a DOUBLE or FLOAT is anywhere in it: of these, -0.0 and 0.0 are equal, and not the same."""
    if isinstance(kind, T.StructType):
        return any(has_floating(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return has_floating(kind.elementType)
    return isinstance(kind, T.FloatType | T.DoubleType)


def has_arrow_form(kind: T.DataType) -> bool:
    """Whether Spark can send it to Python."""
    if isinstance(kind, T.StructType):
        return all(has_arrow_form(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return has_arrow_form(kind.elementType)
    if isinstance(kind, T.MapType):
        return has_arrow_form(kind.keyType) and has_arrow_form(kind.valueType)
    return not isinstance(kind, (T.YearMonthIntervalType, T.CalendarIntervalType))


def must_travel(
    call: Bound, role: str | None, what: str, kind: T.DataType, where: str = "to Python",
    fix: str = "Leave it out of the TABLE argument, or cast it.",
) -> None:  # fmt: skip
    """Raise CallError for what Spark cannot send there."""
    if not has_arrow_form(kind):
        raise call.refuse(role, f"{what} has type {kind.simpleString().upper()}, which cannot travel {where}", fix)


def arrow_type(kind: T.DataType) -> pa.DataType:
    """The Arrow form of a time, a number, a string or a flag."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return ARROW[type(kind)]


def tie_break(name: str, kind: T.DataType, reverse: bool = False) -> Column:
    """How a column breaks ties (rule C4): ascending, nulls first; with a collation by its bytes, so that equal means identical."""
    return sorted_by(tie_text(name, kind), ascending=not reverse, nulls_first=not reverse)


def tie_value(name: str, kind: T.DataType) -> Column:
    """What a column breaks ties by, as a value."""
    return expression(tie_text(name, kind))


def tie_text(name: str, kind: T.DataType) -> str:
    """The same as SQL text."""
    return as_text(quoted(name), kind) if has_collation(kind) else quoted(name)


def sign_text(name: str) -> str:
    """SQL text that tells both zeros of a DOUBLE or FLOAT apart, wherever they are in a column."""
    return f"CAST({quoted(name)} AS STRING)"
