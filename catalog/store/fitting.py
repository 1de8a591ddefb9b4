"""What fits a column of a table: values of Python, columns of a DataFrame, and the literals that stand for times."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError
from streamtime.sql.rows.columns import TIMES
from streamtime.sql.rows.typed import MICROS_PER_DAY, event_time
from streamtime.sql.syntax.text import quoted


def fitting(field: T.StructField, function: str) -> Callable[[Any, str], Any]:
    """What makes a value one of this column, or raises CallError; told in which argument it came."""
    kind, verify = field.dataType, T._make_type_verifier(field.dataType)
    takes: tuple[type, ...] = T._acceptable_types.get(type(kind), ())

    def fitted(value: Any, argument: str) -> Any:
        if value is None:
            if not field.nullable:
                raise CallError(function, argument, f"`{field.name}` is NOT NULL, and got None", "Give it a value.")
            return None
        try:
            if type(value) is int and isinstance(kind, T.FloatType | T.DoubleType | T.DecimalType):
                value = decimal.Decimal(value) if isinstance(kind, T.DecimalType) else float(value)
            if isinstance(kind, T.StringType) and not isinstance(value, str):  # Spark would take any object's text
                raise TypeError
            verify(value)
        except (PySparkException, TypeError, ValueError, OverflowError):
            named = [t.__qualname__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__qualname__}" for t in takes]
            fix = None if type(value) in takes else f"Give it as {' or '.join(named)}."
            expected = f"expected {kind.simpleString().upper()} for `{field.name}`"
            raise CallError(function, argument, f"{expected}, got {value!r} ({type(value).__qualname__})", fix) from None
        return bytes(value) if isinstance(value, bytearray) else value

    return fitted


def as_stored(of: T.StructField, stored: T.StructField, table: str, function: str, argument: str) -> Column | None:
    """A column of a DataFrame as the type that it has in the table; None where it has that. A number that does not fit is an error when the
    rows are read. Raises CallError for other types, whose values may be others afterwards."""
    given, wanted, column = of.dataType, stored.dataType, F.col(quoted(of.name))
    if given.simpleString() == wanted.simpleString():
        return None
    if isinstance(given, T.NullType) or (isinstance(given, T.StringType) and isinstance(wanted, T.StringType)):  # of another collation
        return column.cast(wanted)
    kinds = [kind.simpleString().upper() for kind in (given, wanted)]
    if not isinstance(given, T.NumericType) or not isinstance(wanted, T.NumericType) or _cuts(given, wanted):
        problem = f"has `{of.name}` as {kinds[0]}, and the table {table} as {kinds[1]}"
        raise CallError(function, argument, problem, "Cast it, or give the table a wider type (delta.enableTypeWidening).")
    text = f"{function}: a value of `{of.name}` ({kinds[0]}) does not fit into {kinds[1]}, which {table} has."
    cast = column.try_cast(wanted)
    return F.when(column.isNull() | (cast.cast(given) == column), cast).otherwise(F.raise_error(F.lit(text)))


def _cuts(given: T.DataType, stored: T.DataType) -> bool:
    """Whether numbers of one type lose a fraction in the other."""
    if isinstance(given, T.IntegralType):
        return False
    scale = given.scale if isinstance(given, T.DecimalType) else None
    if isinstance(stored, T.IntegralType | T.DecimalType):
        return scale is None or scale > (stored.scale if isinstance(stored, T.DecimalType) else 0)
    return isinstance(stored, T.FloatType)


def literal(value: Any, kind: T.DataType) -> Column:
    """A value to look up. A datetime is the time that a put of it stores, whatever zones Python and the session are in."""
    if isinstance(value, datetime.datetime) and isinstance(kind, TIMES):
        number = kind.toInternal(value) * (MICROS_PER_DAY if isinstance(kind, T.DateType) else 1)
        return F.expr(event_time(f"{number}L", kind))
    return F.lit(value).cast(kind)
