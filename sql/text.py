"""Pieces of SQL text. Imports nothing of the pack: it travels to where Python UDTFs run."""

from __future__ import annotations

from pyspark.sql import types as T


def quoted(name: str) -> str:
    """A column name as a SQL identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def microseconds(time: str, kind: T.DataType) -> str:
    """SQL text for the microseconds since 1970 of a time: of a TIMESTAMP_NTZ or DATE, those of the moment that it names in UTC."""
    if isinstance(kind, T.DateType):
        return f"unix_date({time}) * 86400000000L"
    if isinstance(kind, T.TimestampNTZType):  # whatever the session's time zone, which unix_micros would ask for
        of_day = f"(hour({time}) * 3600L + minute({time}) * 60) * 1000000 + CAST(extract(SECOND FROM {time}) * 1000000 AS BIGINT)"
        return f"unix_date(CAST({time} AS DATE)) * 86400000000L + {of_day}"
    return f"unix_micros(CAST({time} AS TIMESTAMP))"
