"""Pieces of SQL text. Imports nothing of the pack: it travels to where Python UDTFs run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import types as T

FAR = 1 << 62  # microseconds: more than any two times lie apart, and no sum of it with a time overflows
HIGHEST = 2**63 - 1
LAST_DAY = 106_751_991  # since 1970 or before it, whose microseconds are a BIGINT


def quoted(name: str) -> str:
    """A column name as a SQL identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(identifier: str) -> str:
    """The name that an identifier stands for, quoted or not; other text as it is."""
    text = identifier.strip()
    return text[1:-1].replace("``", "`") if len(text) > 2 and text[0] == text[-1] == "`" else text


def named_parts(path: str) -> list[str]:
    """The names in a path with dots, as Spark writes it."""
    return [(a or b).replace("``", "`") for a, b in re.findall(r"`((?:[^`]|``)+)`|([^`.]+)", path)]


def literal(text: str) -> str:
    """A string as a SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def ddl(schema: T.StructType) -> str:
    """Columns as CREATE TABLE takes them, whatever their names are, or those of their fields."""
    return _fields(schema, " ")


def _fields(schema: T.StructType, between: str) -> str:
    return ", ".join(f"{quoted(f.name)}{between}{_type(f.dataType)}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def _type(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return f"STRUCT<{_fields(kind, ': ')}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()


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
        return f"(least(greatest(unix_date({time}), -{LAST_DAY}), {LAST_DAY}) * 86400000000L)"
    if isinstance(kind, T.TimestampNTZType):  # whatever the session's time zone, which unix_micros would ask for
        day = f"unix_date(CAST({time} AS DATE))"
        of_day = f"(hour({time}) * 3600L + minute({time}) * 60) * 1000000 + CAST(extract(SECOND FROM {time}) * 1000000 AS BIGINT)"
        before_1970 = f"({day} + 1) * 86400000000L + ({of_day} - 86400000000L)"  # the very first day has no midnight
        return f"if({day} < 0, {before_1970}, {day} * 86400000000L + {of_day})"
    return f"unix_micros(CAST({time} AS TIMESTAMP))"


def floor_div(number: str, by: int) -> str:
    """SQL text for how many whole times an integer has another in it, rounded down. `/` would go through DOUBLE, which has 53 bits."""
    return f"(({number}) DIV {by}L - CAST(({number}) % {by}L < 0 AS BIGINT))"


def plus(number: str, duration: int) -> str:
    """SQL text for a BIGINT and a duration, which is not negative; it stops at the largest BIGINT."""
    duration = min(duration, HIGHEST)
    return f"(least({number}, {HIGHEST - duration}L) + {duration}L)"


def minus(number: str, duration: int) -> str:
    """SQL text for a BIGINT less a duration, which is not negative; it stops at the smallest BIGINT."""
    duration = min(duration, HIGHEST)
    return f"(greatest({number}, {-HIGHEST - 1 + duration}L) - {duration}L)"


def moment(number: str, kind: T.DataType) -> str:
    """SQL text for microseconds since 1970 as a TIMESTAMP or TIMESTAMP_NTZ."""
    if isinstance(kind, T.TimestampType):
        return f"timestamp_micros({number})"
    return f"(TIMESTAMP_NTZ '1970-01-01 00:00:00' + ({number}) * INTERVAL '0.000001' SECOND)"


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


def named_by(keys: Sequence[str]) -> str:
    """SQL text for several strings as one, one to one: a `|` stands between them, and behind a backslash within all but the last."""
    if not keys:
        return "''"
    *first, last = keys
    escaped = [rf"replace(replace({key}, r'\', r'\\'), '|', r'\|')" for key in first]
    return " || '|' || ".join([*escaped, last])


def one_to_one(values: Sequence[str]) -> str:
    """SQL text for several strings as one, one to one and never null: each but the last behind its length, a null as what is no length."""
    if not values:
        return "''"
    *first, last = values
    parts = [f"coalesce(concat(octet_length({value}), ':', {value}), '-')" for value in first]
    parts.append(f"coalesce(concat('=', {last}), '-')")
    return f"concat({', '.join(parts)})"


def time_text(micros: int | None, kind: T.DataType) -> str:
    """A time as Spark writes it, in UTC."""
    assert micros is not None
    text = str(T.TimestampNTZType().fromInternal(micros))
    if isinstance(kind, T.DateType):
        return text[:10]
    return text.rstrip("0") if "." in text else text
