"""Times as numbers, and rows with them as views."""

from __future__ import annotations

import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment(millis: int | None, unit: int = 1000) -> datetime.datetime | None:
    return None if millis is None else EPOCH + datetime.timedelta(microseconds=millis * unit)


def micros(at: datetime.datetime | datetime.date | None) -> int | None:
    if at is None:
        return None
    at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at
    return (at - EPOCH) // datetime.timedelta(microseconds=1)


def view(spark: SparkSession, rows: list[dict[str, Any]], ddl: str, name: str = "t") -> DataFrame:
    columns = [f.split()[0] for f in ddl.split(", ")]
    df = spark.createDataFrame([tuple(r[c] for c in columns) for r in rows], ddl)
    df.createOrReplaceTempView(name)
    return df
