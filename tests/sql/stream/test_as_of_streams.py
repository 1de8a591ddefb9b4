"""AS_OF_JOIN over real streams: each micro-batch sees the table's newest history, rows wait out their grace, restarts lose nothing."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support import reference_as_of as slow
from support.streams import SECOND, Source, at

import streamtime

CALL = "SELECT * FROM AS_OF_JOIN(TABLE(events) PARTITION BY k ORDER BY ts, TABLE({table}) PARTITION BY k ORDER BY since{options})"


def prices(spark: SparkSession, schema: str) -> str:
    table = f"{schema}.prices"
    spark.sql(f"CREATE TABLE {table} (k STRING, since TIMESTAMP, gone BOOLEAN, price INT) USING delta")
    return table


def add(spark: SparkSession, table: str, *rows: tuple[Any, ...]) -> None:
    spark.createDataFrame(list(rows), "k STRING, since TIMESTAMP, gone BOOLEAN, price INT").write.insertInto(table)


def test_each_micro_batch_sees_the_newest_history(spark: SparkSession, schema: str, source: Source) -> None:
    table = prices(spark, schema)
    add(spark, table, ("a", at(0), False, 1))
    source.add([("a", at(5), 1, 0), ("b", at(5), 2, 0)])
    call = CALL.format(table=table, options=", join_type => 'left', deleted => 'gone'")
    assert [(r.id, r.price) for r in source.run(call)] == [(1, 1), (2, None)]
    add(spark, table, ("a", at(4), False, 2), ("b", at(1), False, 3), ("b", at(2), True, None), ("b", at(8), False, 4))
    source.add([("a", at(5), 3, 0), ("b", at(5), 4, 0), ("b", at(9), 5, 0), (None, at(9), 6, 0), ("a", None, 7, 0)])
    found = {r.id: r.price for r in source.run(call)}
    assert found == {1: 1, 2: None, 3: 2, 4: None, 5: 4, 6: None, 7: None}


def test_rows_wait_out_their_grace_and_then_see_what_is_there(spark: SparkSession, schema: str, source: Source) -> None:
    table = prices(spark, schema)
    call = CALL.format(table=table, options=", grace => INTERVAL 10 SECONDS")
    source.add([("a", at(5), 1, 0), ("a", at(9), 2, 0)])
    assert source.run(call) == []
    add(spark, table, ("a", at(4), False, 1))
    source.add([("z", at(16), 3, 0)])
    assert [(r.id, r.price) for r in source.run(call)] == [(1, 1)]  # 16 has passed 5 + 10, not 9 + 10
    add(spark, table, ("a", at(8), False, 2))
    source.add([("z", at(100), 4, 0)])
    assert {r.id: r.price for r in source.run(call)} == {1: 1, 2: 2}


def test_a_stream_reads_a_versioned_table_by_its_name(spark: SparkSession, schema: str, source: Source) -> None:
    prices = streamtime.VersionedTable.create(spark, f"{schema}.prices", "k STRING, since TIMESTAMP, price INT", key="k", time="since")
    prices.put([("a", at(0), 1), ("b", at(0), 3)])
    source.add([("a", at(5), 1, 0), ("b", at(5), 2, 0)])
    text = f"SELECT e.id, p.price FROM events e LEFT JOIN {schema}.prices FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k"
    assert [tuple(r) for r in source.run(text)] == [(1, 1), (2, 3)]
    prices.put([("a", at(4), 2)])
    prices.delete("b", at(4))
    source.add([("a", at(5), 3, 0), ("b", at(5), 4, 0), ("b", at(3), 5, 0)])
    assert {r.id: r.price for r in source.run(text)} == {1: 1, 2: 3, 3: 2, 4: None, 5: 3}


def test_commits_of_a_table_are_not_for_streams(spark: SparkSession, schema: str, source: Source) -> None:
    table = prices(spark, schema)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    source.stream().createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match="Declare its versions"):
        spark.sql(f"SELECT * FROM events e JOIN {table} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k")


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_a_stream_cut_anyhow_joins_as_batch_does(spark: SparkSession, schema: str, source: Source, direction: str) -> None:
    random_ = random.Random(direction)
    table, exact, ties = prices(spark, schema), random_.random() < 0.5, random_.choice(["last", "first"])
    right = [{"k": random_.choice("abc"), "t": random_.randint(0, 30) * SECOND, "gone": random_.random() < 0.2, "b": i} for i in range(40)]
    add(spark, table, *[(r["k"], at(r["t"] / SECOND), r["gone"], r["b"]) for r in right])
    left = [{"k": random_.choice([None, *"abcabc"]), "t": random_.choice([None, *range(31)]), "o": i, "a": 0} for i in range(60)]
    for cut in range(0, 60, 20):
        source.add([(r["k"], None if r["t"] is None else at(r["t"]), r["o"], 0) for r in left[cut : cut + 20]])
    options = f", direction => '{direction}', allow_exact => {exact}, ties => '{ties}', deleted => 'gone', tolerance => INTERVAL 5 SECONDS"
    rows = [r | {"t": None if r["t"] is None else r["t"] * SECOND} for r in left]
    found = slow.as_of_join(rows, right, direction=direction, exact=exact, ties=ties, tolerance=5 * SECOND)
    expected = Counter((j.row["o"], j.match["b"] if j.match else None, j.reason) for j in found)
    assert (
        Counter((r.id, r.price, r.reason) for r in source.run(CALL.format(table=table, options=options + ", output => 'all'"))) == expected
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (", arrival => 'id'", "`arrival`: is not possible on a stream"),
        (", retention => INTERVAL 1 HOUR", "`retention`: is not possible on a stream"),
        (", at_end => 'hold'", "`at_end`: is not possible on a stream"),
        (", output => 'metrics'", "'metrics' is not possible on a stream"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(spark: SparkSession, schema: str, source: Source, options: str, message: str) -> None:
    table = prices(spark, schema)
    source.stream().selectExpr("*", "ts AS since").createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match=message):
        spark.sql(CALL.format(table=table, options=options))


def test_a_right_side_that_is_a_stream_is_refused(spark: SparkSession, source: Source) -> None:
    source.stream().selectExpr("*", "ts AS since").createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match="the right side is a stream"):
        spark.sql(CALL.format(table="events", options=""))
