"""Calls that type checkers accept. Nothing here runs; test_signatures.py asks mypy and pyright."""

from __future__ import annotations

import datetime
from datetime import timedelta
from typing import assert_type

from pyspark.sql import DataFrame, SparkSession

import streamtime


def calls(spark: SparkSession, df: DataFrame, columns: list[str], time: str | None) -> None:
    assert_type(streamtime.deduplicate(df, order_by="ts"), DataFrame)
    streamtime.deduplicate(df=df, keys="user_id", order_by=["ts"], within=timedelta(minutes=10), keep="last", output="dropped")
    streamtime.deduplicate(df, keys=columns, order_by=("ts DESC", "n"), time=time, refresh=True, offset=None, name="clicks")
    streamtime.deduplicate(df, keys=None, order_by=tuple(columns), within=timedelta.max, clock_by="shard")
    streamtime.distinct_in_window(df, keys=["k"], order_by="ts", size=timedelta(hours=1), grace=timedelta(0))
    streamtime.sessionize(df, keys=["k"], order_by=["ts"], gap=timedelta(minutes=30), output="explain")
    streamtime.session_updates(df, keys="k", order_by="n", time="ts", gap=timedelta(minutes=30), aggregates="count(*) AS n", emit="final")
    streamtime.window_updates(df, keys="k", order_by="ts", difference=timedelta(1), aggregates="sum(v) AS v", at_end="emit", emit="final")
    streamtime.suppress_until_close(df, keys="k", order_by="ts", window_end="window_end", max_records=10, when_full="spill")
    streamtime.suppress_until_time_limit(df, keys="k", order_by="ts", wait=timedelta(seconds=5), clock="event", max_bytes=1 << 20)
    streamtime.as_of_join(df, df, keys="k", order_by="ts", join_type="left", allow_exact=False, ties="error")
    streamtime.as_of_join(left=df, right=df, on="l.k = r.k", match="l.ts >= r.ts", tolerance=timedelta(days=1))
    streamtime.as_of_join(df, df, using="k", history="prices", at="ts", unit="timestamp")
    streamtime.versions(df, keys=["k"], order_by=["n"], time="ts", deleted="op = 'd'", output="puts")
    streamtime.table_history(spark, "db.t", from_=3, to=datetime.datetime(2024, 5, 1), keys="k")
    streamtime.table_history(spark, table="db.t", from_="2024-05-01", to=datetime.date(2024, 5, 2))
    rows: DataFrame = streamtime.query(spark, "SELECT * FROM DEDUPLICATE(TABLE(t) ORDER BY ts)")
    streamtime.versions(streamtime.deduplicate(rows, order_by="ts"), keys="k", order_by="ts").show()
