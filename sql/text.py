"""Pieces of SQL text. Imports nothing of the pack: it travels to where Python UDTFs run."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T


def quoted(name: str) -> str:
    """A column name as a SQL identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(identifier: str) -> str:
    """The name that an identifier stands for, quoted or not."""
    return identifier.strip().strip("`").replace("``", "`")


def literal(text: str) -> str:
    """A string as a SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def microseconds(time: str, kind: T.DataType) -> str:
    """SQL text for the microseconds since 1970 of a time: of a TIMESTAMP_NTZ or DATE, those of the moment that it names in UTC."""
    if isinstance(kind, T.DateType):
        return f"(unix_date({time}) * 86400000000L)"
    if isinstance(kind, T.TimestampNTZType):  # whatever the session's time zone, which unix_micros would ask for
        of_day = f"(hour({time}) * 3600L + minute({time}) * 60) * 1000000 + CAST(extract(SECOND FROM {time}) * 1000000 AS BIGINT)"
        return f"(unix_date(CAST({time} AS DATE)) * 86400000000L + {of_day})"
    return f"unix_micros(CAST({time} AS TIMESTAMP))"


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


def time_text(micros: int | None, kind: T.DataType) -> str:
    """A time as Spark writes it, in UTC."""
    assert micros is not None
    text = str(T.TimestampNTZType().fromInternal(micros))
    if isinstance(kind, T.DateType):
        return text[:10]
    return text.rstrip("0") if "." in text else text
