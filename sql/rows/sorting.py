"""Sorting rows by key and processing order, fast.

Spark compares rows by the first 8 bytes of the first sort column, and calls a comparator only where these are equal; with few or hot keys
that is nearly always. So rows are sorted first by one number: the key's hash in the upper half, a coarse event time in the lower. Then
nearly every comparison ends at those 8 bytes: 1.4 to 2 times faster, most of all with hot keys. Within a key the order is exactly the
same; keys that share a hash may mix, which the kernels take apart (`streamtime.udfs.arrays.groups.Runs`). A window cannot: Spark sorts
for it, by its own columns. Either way the number is sorted by before the shuffle already, without any comparator; what sorts behind it
merges those runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, sorted_by
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Order

HASH = f"{PREFIX}hash"  # of the key, beside its rows
LOWER_HALF = 2**32 - 1
SINCE_1950 = 631_152_000  # seconds before 1970: the lower half then reaches to 2086; times outside of it are only sorted slower


def hash_of(identity: Sequence[str]) -> Column:
    """The key's hash, as an INT. `identity` are column names."""
    return expression(_hash(identity))


def sorted_runs(df: DataFrame, identity: Sequence[str], rising: str) -> tuple[DataFrame, list[str]]:
    """The rows in runs, one for each task that has them, sorted by key's hash, which is added as the column `HASH`, and by what rises,
    a number of 32 bits as SQL text; and the columns by which windows over the rows of a key then divide: they shuffle the runs, and merge
    them. `identity` are column names; without them there is one task, and no such column.
    """
    if not identity:
        return df.sortWithinPartitions(expression(rising)).repartition(1), []
    df = df.withColumn(HASH, hash_of(identity)).sortWithinPartitions(_number(quoted(HASH), rising))
    return df, [HASH, *identity]


def prefix(identity: Sequence[str], rising: str, kind: T.DataType, reverse: bool = False) -> Column:
    """The order by the number to sort by first. `rising` is a time that never falls within a key's processing order
    (with `reverse`: never rises).
    """
    lower = coarse(rising, kind)
    return _number(_hash(identity), _falling(lower) if reverse else lower)


def _hash(identity: Sequence[str]) -> str:
    return f"hash({', '.join(map(quoted, identity))})"


def _number(upper: str, lower: str) -> Column:
    """The order by two halves of 32 bits, given as SQL text, as one number."""
    return sorted_by(f"shiftleft(CAST({upper} AS BIGINT), 32) + {lower}")


def coarse(name: str, kind: T.DataType) -> str:
    """A time, or a whole number, as a number of 32 bits that never falls where it rises, as SQL text; 0 where it is null."""
    time = quoted(name)
    if isinstance(kind, T.IntegralType):
        number = f"CAST({time} AS BIGINT)"
    elif not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        return "0L"
    elif isinstance(kind, T.TimestampType):
        number = f"unix_seconds({time}) + {SINCE_1950}"
    elif isinstance(kind, T.TimestampNTZType):  # by the hour: no function counts its seconds without asking for a time zone
        number = f"unix_date(CAST({time} AS DATE)) * 24L + hour({time}) + {2**31}"
    else:
        number = f"unix_date({time}) + {2**31}"
    return f"least(greatest({number}, 0L), {LOWER_HALF}L)"


def rising(order: Order, reverse: bool = False) -> str:
    """A number of 32 bits that never falls where rows come in this order, as SQL text; with `reverse` in its reverse."""
    number = coarse(order.ref.name, order.ref.type) if order.ascending and order.nulls_first else "0L"
    return _falling(number) if reverse else number


def _falling(rising: str) -> str:
    return f"{LOWER_HALF}L - {rising}"


def coarse_number(name: str) -> str:
    """As `coarse`, of a BIGINT of microseconds, or of its complement: steps of two seconds, from 1828 to 2112."""
    return f"least(greatest(shiftright({quoted(name)}, 21) + {2**31}L, 0L), {LOWER_HALF}L)"
