"""Pieces of SQL text that depend on a type: times as numbers and back, values as text, columns as CREATE TABLE takes them."""

from __future__ import annotations

import re

from pyspark.sql import types as T

from streamtime.sql.syntax.text import floor_div, quoted

MICROS_PER_DAY = 86_400_000_000
LAST_DAY = 106_751_991  # since 1970 or before it, whose microseconds are a BIGINT

# to the microsecond: by default JSON has milliseconds
AS_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


def ddl(schema: T.StructType) -> str:
    """Columns as CREATE TABLE takes them, whatever their names are, or those of their fields."""
    return _fields(schema, " ")


def _fields(schema: T.StructType, between: str) -> str:
    return ", ".join(f"{quoted(f.name)}{between}{type_text(f.dataType)}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def type_text(kind: T.DataType) -> str:
    """A type as SQL text, whatever the names of its fields are."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{_fields(kind, ': ')}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{type_text(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{type_text(kind.keyType)}, {type_text(kind.valueType)}>"
    return kind.simpleString()


UNMAPPED = re.compile(r"[ ,;{}()\n\t=]")


def char_type(field: T.StructField) -> str | None:
    """CHAR with its length, which Spark shows as STRING, and pads with blanks where it is written and compared."""
    written = str((field.metadata or {}).get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return written if written.startswith("char(") else None


def needs_mapping(schema: T.StructType) -> bool:
    """Whether Delta's files cannot have the names of these columns, so that a table needs `delta.columnMapping.mode`."""
    return UNMAPPED.search("".join(field_names(schema))) is not None


def field_names(kind: T.DataType) -> list[str]:
    """The names in a type, at any depth."""
    if isinstance(kind, T.StructType):
        return [name for f in kind for name in (f.name, *field_names(f.dataType))]
    if isinstance(kind, T.ArrayType):
        return field_names(kind.elementType)
    return [*field_names(kind.keyType), *field_names(kind.valueType)] if isinstance(kind, T.MapType) else []


def microseconds(time: str, kind: T.DataType) -> str:
    """SQL text for the microseconds since 1970 of a time: of a TIMESTAMP_NTZ or DATE, those of the moment that it names in UTC."""
    if isinstance(kind, T.DateType):
        day = f"unix_date({time})"  # of null, `greatest` would take the other
        return f"if({day} IS NULL, NULL, least(greatest({day}, -{LAST_DAY}), {LAST_DAY}) * 86400000000L)"
    if isinstance(kind, T.TimestampNTZType):  # whatever the session's time zone, which unix_micros would ask for
        day = f"unix_date(CAST({time} AS DATE))"
        of_day = f"(hour({time}) * 3600L + minute({time}) * 60) * 1000000 + CAST(extract(SECOND FROM {time}) * 1000000 AS BIGINT)"
        before_1970 = f"({day} + 1) * 86400000000L + ({of_day} - 86400000000L)"  # the very first day has no midnight
        return f"if({day} < 0, {before_1970}, {day} * 86400000000L + {of_day})"
    return f"unix_micros(CAST({time} AS TIMESTAMP_LTZ))"  # TIMESTAMP may mean another type in a session


def moment(number: str, kind: T.DataType) -> str:
    """SQL text for microseconds since 1970 as a TIMESTAMP or TIMESTAMP_NTZ."""
    if isinstance(kind, T.TimestampType):
        return f"timestamp_micros({number})"
    return f"(TIMESTAMP_NTZ '1970-01-01 00:00:00' + ({number}) * INTERVAL '0.000001' SECOND)"


def event_time(number: str, kind: T.DataType) -> str:
    """The same as an event time of any type: a DATE is the day that the moment lies in."""
    if isinstance(kind, T.DateType):
        return f"date_from_unix_date(CAST({floor_div(number, MICROS_PER_DAY)} AS INT))"
    return moment(number, kind)


def collated(kind: T.DataType) -> bool:
    """Whether it is a string that compares otherwise than byte by byte."""
    return isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY"


def as_text(value: str, kind: T.DataType, depth: int = 0) -> str:
    """SQL text for a value as a string, one to one for values that GROUP BY tells apart; under a collation, as it is written."""
    if isinstance(kind, T.StructType):
        fields = [as_text(f"({value}).{quoted(f.name)}", f.dataType, depth) for f in kind.fields]
        return f"if({value} IS NULL, NULL, to_json(array({', '.join(fields)})))"
    if isinstance(kind, T.ArrayType):
        item = f"item_{depth}"
        return f"to_json(transform({value}, {item} -> {as_text(item, kind.elementType, depth + 1)}))"
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return f"if({value} = 0, '0', CAST({value} AS STRING))"  # 0.0 = -0.0, and NaN = NaN, as in GROUP BY
    if isinstance(kind, T.TimestampType):
        return f"CAST(unix_micros({value}) AS STRING)"  # its text depends on the time zone, and repeats an hour in autumn
    if isinstance(kind, T.BinaryType):
        return f"hex({value})"
    if collated(kind):
        return f"collate({value}, 'UTF8_BINARY')"
    return f"CAST({value} AS STRING)"


def time_text(micros: int | None, kind: T.DataType) -> str:
    """A time as Spark writes it, in UTC."""
    assert micros is not None
    text = str(T.TimestampNTZType().fromInternal(micros))
    if isinstance(kind, T.DateType):
        return text[:10]
    return text.rstrip("0") if "." in text else text
