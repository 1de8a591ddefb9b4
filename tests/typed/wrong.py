"""Calls that type checkers refuse: each line that says so, and no other. Nothing here runs; test_signatures.py asks mypy and pyright."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession

import streamtime


def calls(spark: SparkSession, df: DataFrame, pdf: pd.DataFrame, column: Column, word: str) -> None:
    streamtime.deduplicate(df, order_by="ts", withn=timedelta(minutes=10))  # wrong: no such option
    streamtime.deduplicate(df, order_by="ts", within="ten")  # wrong: a string
    streamtime.deduplicate(df, order_by="ts", within=10)  # wrong: a number
    streamtime.deduplicate(df, order_by="ts", output="droped")  # wrong: no such word
    streamtime.deduplicate(df, order_by="ts", output="explain")  # wrong: a word of other functions
    streamtime.deduplicate(df, order_by="ts", output=word)  # wrong: any string
    streamtime.deduplicate(df, order_by="ts", refresh="true")  # wrong: a string for a flag
    streamtime.deduplicate(df, keys=column, order_by="ts")  # wrong: a Column
    streamtime.deduplicate(df, keys=[column], order_by="ts")  # wrong: a list of Columns
    streamtime.deduplicate(df, keys=1, order_by="ts")  # wrong: a number for a key
    streamtime.deduplicate(df, keys={"k"}, order_by="ts")  # wrong: keys have an order
    streamtime.deduplicate(df, keys="k")  # wrong: no order
    streamtime.deduplicate(df, order_by=None)  # wrong: no order
    streamtime.deduplicate(df, "k", "ts")  # wrong: options without names
    streamtime.deduplicate("clicks", order_by="ts")  # wrong: the name of a table
    streamtime.deduplicate(spark, order_by="ts")  # wrong: a session
    streamtime.deduplicate(order_by="ts")  # wrong: over nothing
    streamtime.deduplicate(df, df, order_by="ts")  # wrong: two DataFrames
    streamtime.deduplicate(df, order_by="ts").no_such_method()  # wrong: the result is a DataFrame
    streamtime.sessionize(df, keys="k", order_by="ts")  # wrong: no gap
    streamtime.sessionize(df, keys="k", order_by="ts", gap=None)  # wrong: no gap
    streamtime.window_updates(df, keys="k", order_by="ts", size=timedelta(1))  # wrong: no aggregates
    streamtime.suppress_until_time_limit(df, keys="k", order_by="ts", max_records=1.5)  # wrong: half a row
    streamtime.suppress_until_close(df, keys="k", order_by="ts", when_full="emit")  # wrong: no such word
    streamtime.as_of_join(df, keys="k", order_by="ts")  # wrong: one side
    streamtime.as_of_join(df, df, keys="k", order_by="ts", direction="back")  # wrong: no such word
    streamtime.as_of_join(left=df, rigth=df)  # wrong: no such side
    streamtime.table_history(df, "t")  # wrong: a DataFrame for a session
    streamtime.table_history(spark)  # wrong: no table
    streamtime.table_history(spark, "t", from_=1.5)  # wrong: no commit
    streamtime.deduplicte(df, order_by="ts")  # wrong: no such function
