"""What a put takes, in which order, and by which stream time: tables that others changed, zones, batches that share a name, rows that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.times import micros, moment

from streamtime import VersionedTable

DDL = "k STRING, t TIMESTAMP, v STRING"
YEAR = 365 * 86_400_000_000


def table_of(spark: SparkSession, schema: str, ddl: str = DDL, **options: Any) -> VersionedTable:
    return VersionedTable.create(spark, f"{schema}.t", ddl, **{"key": "k", "time": "t"} | options)


@pytest.mark.parametrize("way", ["rows", "frame"])
def test_stream_time_is_what_the_table_has_though_its_newest_rows_are_gone(spark: SparkSession, schema: str, way: str) -> None:
    table = table_of(spark, schema, grace="1 day")
    table.put([("a", moment(80 * YEAR, 1), "a typo")])
    if way == "rows":
        spark.sql(f"DROP TABLE {table.table}")
        table_of(spark, schema, grace="1 day")
    else:
        spark.sql(f"RESTORE {table.table} TO VERSION AS OF 0")
    rows = [("a", moment(5 * YEAR, 1), "right")]
    assert table.put(rows if way == "rows" else spark.createDataFrame(rows, DDL)).accepted == 1
    assert [micros(row.t) for row in spark.table(table.table).collect()] == [5 * YEAR]
    late = [("a", moment(4 * YEAR, 1), "late")]
    assert table.put(late if way == "rows" else spark.createDataFrame(late, DDL)).counts == {"too_old": 1}
