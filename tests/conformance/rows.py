"""Rows as text that does not depend on who computed them: two engines agree where these are equal. Needs Arrow alone."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


def of_table(table: pa.Table) -> list[list[str | None]]:
    """The rows of an Arrow table, sorted. Times become microseconds, whatever year they are in."""
    columns = [_numbered(table.column(i)).to_pylist() for i in range(table.num_columns)]
    return of_rows(zip(*columns, strict=True))


def of_rows(rows: Iterable[Iterable[Any]]) -> list[list[str | None]]:
    """The rows of a cursor, sorted."""
    return sorted(([None if v is None else said(v) for v in row] for row in rows), key=lambda row: [(v is not None, v or "") for v in row])


def said(value: Any) -> str:
    """A value as text: 12 digits of a fraction, since sums of them depend on the order of rows in the last ones."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.12g}"
    if isinstance(value, decimal.Decimal):
        return format(value.normalize() + 0, "f")
    if isinstance(value, datetime.datetime):
        return str((value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta()) - EPOCH) // MICROSECOND)
    if isinstance(value, datetime.date):
        return str((value - EPOCH.date()).days)
    if isinstance(value, datetime.timedelta):
        return str(value // MICROSECOND)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, dict):
        return json.dumps([None if v is None else said(v) for v in value.values()])
    if isinstance(value, (list, tuple)):
        return json.dumps([None if v is None else said(v) for v in value])
    return str(value)


def _numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_duration(kind) else column
