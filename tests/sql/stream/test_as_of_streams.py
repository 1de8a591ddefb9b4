"""AS_OF_JOIN over real streams: each micro-batch sees the table's newest history, rows wait out their grace, restarts lose nothing."""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.reference import as_of as slow
from support.streams import SECOND, Source, at, on_the_wall

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


@pytest.mark.short("two streams, row for row")
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


@pytest.mark.parametrize(
    "text", [pytest.param("{inner}", marks=pytest.mark.long("the same of an inner join")), "SELECT * FROM ({left}) WHERE price IS NOT NULL"]
)
def test_a_table_without_rows_leaves_no_row_of_the_stream_unread(spark: SparkSession, schema: str, source: Source, text: str) -> None:
    """Where plans are not compiled, as here and for a user with a hundred columns, Spark reads nothing for an inner join with nothing."""
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "false"
    table, grace = prices(spark, schema), ", grace => INTERVAL 10 SECONDS"
    inner, left = (CALL.format(table=table, options=f"{grace}, join_type => '{kind}'") for kind in ("inner", "left"))
    source.add([("a", at(5), 1, 0), ("z", at(9), 2, 0)])
    assert source.run(text.format(inner=inner, left=left)) == []
    add(spark, table, ("a", at(4), False, 1))
    source.add([("z", at(16), 3, 0)])
    assert [(r.id, r.price) for r in source.run(text.format(inner=inner, left=left))] == [(1, 1)]


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


@pytest.mark.parametrize("direction", ["backward", pytest.param("forward", marks=pytest.mark.long("the same to one side")), "nearest"])
def test_a_stream_cut_anyhow_joins_as_batch_does(spark: SparkSession, schema: str, source: Source, direction: str) -> None:
    random_ = random.Random(direction)
    table, ties = prices(spark, schema), random_.choice(["last", "first"])
    right = [{"k": random_.choice("abc"), "t": random_.randint(0, 30) * SECOND, "gone": random_.random() < 0.2, "b": i} for i in range(40)]
    add(spark, table, *[(r["k"], at(r["t"] / SECOND), r["gone"], r["b"]) for r in right])
    left = [{"k": random_.choice([None, *"abcabc"]), "t": random_.choice([None, *range(31)]), "o": i, "a": 0} for i in range(60)]
    for cut in range(0, 60, 20):
        source.add([(r["k"], None if r["t"] is None else at(r["t"]), r["o"], 0) for r in left[cut : cut + 20]])
    options = f", direction => '{direction}', ties => '{ties}', deleted => 'gone', tolerance => INTERVAL 5 SECONDS, output => 'all'"
    rows = [r | {"t": None if r["t"] is None else r["t"] * SECOND} for r in left]
    calls, expected = list[str](), Counter[Any]()
    for exact in (True, False):
        calls.append(CALL.format(table=table, options=f"{options}, allow_exact => {exact}").replace("*", f"{exact} AS exact, *"))
        found = slow.as_of_join(rows, right, direction=direction, exact=exact, ties=ties, tolerance=5 * SECOND)
        expected.update((exact, j.row["o"], j.match["b"] if j.match else None, j.reason) for j in found)
    assert Counter((r.exact, r.id, r.price, r.reason) for r in source.run(" UNION ALL ".join(calls))) == expected


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


BOTH = (
    "SELECT {columns} FROM AS_OF_JOIN(TABLE(SELECT k, ts, id FROM {of} WHERE off = 0) PARTITION BY k ORDER BY ts,"
    " TABLE(SELECT k AS rk, ts AS since, id % 5 AS rank, id % 7 = 0 AS gone, id AS price FROM {of} WHERE off = 1) PARTITION BY rk"
    " ORDER BY (since, rank DESC), deleted => 'gone', tolerance => INTERVAL 9 SECONDS{options})"
)
WAITS = ", grace => INTERVAL 12 SECONDS, retention => INTERVAL 15 SECONDS"


@pytest.mark.parametrize(
    "options",
    [
        ", output => 'all'",
        pytest.param(", join_type => 'left', allow_exact => false, ties => 'first'", marks=pytest.mark.long("the same of other options")),
    ],
)
def test_two_streams_cut_anyhow_join_as_batch_does(spark: SparkSession, source: Source, options: str) -> None:
    """No right row is later than `grace`; at last a right row lets all that waits go, while the left side is idle."""
    random_ = random.Random(options)
    rows = [(random_.choice([None, *"abab"]), at(100 + i // 2 + random_.randint(0, 10)), i, random_.randint(0, 1)) for i in range(90)]
    rows = [(k, None if random_.random() < 0.05 else ts, i, side) for k, ts, i, side in rows] + [("z", at(900), 0, 1)]
    spark.createDataFrame(rows, source.ddl).createOrReplaceTempView("batch")
    columns = "k, ts, id, rk, since, price" + (", reason, lateness" if "output" in options else "")
    expected = spark.sql(BOTH.format(of="batch", columns=columns, options=options))
    cuts = [0, *sorted(random_.sample(range(1, 80), 4)), len(rows)]
    for number, (a, b) in enumerate(itertools.pairwise(cuts)):
        source.add(rows[a:b])
        if number == 2:
            early = source.run(BOTH.format(of="events", columns=columns, options=options + WAITS))
    found = source.run(BOTH.format(of="events", columns=columns, options=options + WAITS))
    assert Counter(found) == Counter(expected.collect())
    assert len(early) < len(found)
    assert {r.price is None for r in found} == {True, False}


def test_what_is_too_late_is_told_of(spark: SparkSession, source: Source) -> None:
    """An idle right side does not hold the join up; a left row older than `retention` finds the newest version, or none, and says why."""
    call = BOTH.format(of="events", columns="id, price, reason", options=", output => 'all', name => 'met'" + WAITS)
    source.add([("a", at(100), 1, 1), ("a", at(106), 2, 1), ("b", at(100), 3, 1)])
    source.add([("a", at(105), 4, 0), ("a", at(107), 5, 0), ("c", at(150), 6, 0)])
    source.add([("a", at(104), 8, 0), ("b", at(104), 9, 0), ("c", at(104), 10, 0), ("a", at(104), 11, 1)])
    found = source.run(call)
    assert {(r.id, r.price, r.reason) for r in found} == {
        (4, 1, None), (5, 2, None), (8, None, "expired"), (9, 3, None), (10, None, "no_match"),
    }  # fmt: skip
    observed = [p.observedMetrics["met"] for p in source.progress if "met" in p.observedMetrics]
    assert [sum(o[name] for o in observed) for name in ("right_too_old_total", "left_late_total")] == [1, 3]


def test_a_left_row_without_a_key_moves_no_watermark_and_waits_for_nothing(source: Source) -> None:
    source.add([(None, at(5000), 1, 0), ("a", at(100), 2, 1)])
    source.add([("a", at(101), 3, 0)])
    call = BOTH.format(of="events", columns="id, price, reason", options=", output => 'all'" + WAITS)
    assert source.run(call) == [(1, None, "null_key")]
    source.add([("z", at(900), 4, 1)])
    assert sorted(source.run(call)) == [(1, None, "null_key"), (3, 2, None)]


@pytest.mark.parametrize("policy", ["min", pytest.param("max", marks=pytest.mark.long("the same that does not wait"))])
@pytest.mark.parametrize("by", ["an option", "Spark"])
def test_an_idle_side_holds_the_join_up_where_both_have_watermarks_unless_the_policy_is_max(
    spark: SparkSession, source: Source, policy: str, by: str
) -> None:
    """The right side has one from Spark, as the left one does, or from the call's option, which is for a side that has none."""
    setting = "spark.sql.streaming.multipleWatermarkPolicy"
    for side, name in enumerate(("lefts", "rights")):
        rows = source.stream().where(f"off = {side}")
        (rows.withWatermark("ts", "0 seconds") if name == "lefts" or by == "Spark" else rows).createOrReplaceTempView(name)
    call = (
        "SELECT id, price FROM AS_OF_JOIN(TABLE(lefts) PARTITION BY k ORDER BY ts,"
        " TABLE(SELECT k AS rk, ts AS since, id AS price FROM rights) PARTITION BY rk ORDER BY since, retention => INTERVAL 1 DAY"
        f"{', watermark => INTERVAL 0 SECONDS' if by == 'an option' else ''})"
    )
    source.add([("a", at(100), 1, 1), ("a", at(99), 9, 0)])
    source.add([("a", at(105), 2, 0)])
    source.add([("a", at(300), 3, 0)])  # from now on the right side is idle
    before = spark.conf.get(setting)
    try:
        spark.conf.set(setting, policy)
        found = source.run(call)
        assert {(r.id, r.price) for r in found} == ({(2, 1), (3, 1)} if policy == "max" else set())
        # what a side's watermark was, Spark forgets where a query is started again: so another left row
        source.add([("a", at(400), 4, 1), ("z", at(301), 5, 0)])
        assert {(r.id, r.price) for r in source.run(call)} == {(2, 1), (3, 1)}
    finally:
        spark.conf.set(setting, str(before))


@pytest.mark.parametrize("right", ["stream", pytest.param("table", marks=pytest.mark.long("the same beside a table"))])
def test_idle_streams_let_their_last_rows_go_by_the_clock_on_the_wall(spark: SparkSession, schema: str, source: Source, right: str) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    options, soon = ", grace => INTERVAL 6 SECONDS, clock => 'wall'", now - datetime.timedelta(seconds=5)
    if right == "stream":
        source.add([("a", soon, 1, 1), ("a", now, 2, 0)])
        call = BOTH.format(of="events", columns="id, price", options=f"{options}, retention => INTERVAL 1 HOUR")
    else:
        call = CALL.format(table=prices(spark, schema), options=options)
        add(spark, f"{schema}.prices", ("a", soon, False, 1))
        source.add([("a", now, 2, 0)])
    (row,) = on_the_wall(source, call, 1)
    assert (row.id, row.price) == (2, 1)
    assert datetime.datetime.now(datetime.UTC).replace(tzinfo=None) >= now + datetime.timedelta(seconds=6)


def test_the_clock_on_the_wall_needs_a_stream_timestamps_and_rows_that_wait(spark: SparkSession, schema: str, source: Source) -> None:
    source.stream().selectExpr("*", "ts AS since").createOrReplaceTempView("events")
    wall = ", clock => 'wall'"
    with pytest.raises(AnalysisException, match="`clock`: needs `grace` where the right side is a table"):
        spark.sql(CALL.format(table=prices(spark, schema), options=wall))
    days = CALL.replace("TABLE(events)", "TABLE(SELECT k, CAST(ts AS DATE) AS ts FROM events)")
    days = days.replace("{table}", "SELECT k, CAST(ts AS DATE) AS since FROM events")
    with pytest.raises(AnalysisException, match="`clock`: 'wall' needs a TIMESTAMP as event time, got DATE"):
        spark.sql(days.format(options=f"{wall}, retention => INTERVAL 9 DAYS"))
    spark.sql("SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts, TIMESTAMP '2024-01-01' AS since").createOrReplaceTempView("batch")
    with pytest.raises(AnalysisException, match="`clock`: 'wall' is possible on a stream only: in batch no time passes"):
        spark.sql(CALL.format(table="batch", options=wall).replace("TABLE(events)", "TABLE(batch)"))


REFUSED = {
    "": "`retention`: is missing: the right side is a stream",
    ", retention => INTERVAL 1 HOUR, grace => INTERVAL 2 HOURS": "`grace`: is longer than `retention`",
    ", retention => INTERVAL 1 HOUR, direction => 'forward'": "`direction`: 'forward' is not possible where the right side is a stream",
    ", retention => INTERVAL 1 HOUR, ties => 'error'": "`ties`: 'error' is not possible where the right side is a stream",
    ", retention => INTERVAL 1 HOUR, arrival => 'id'": "`arrival`: is not possible on a stream",
    ", retention => INTERVAL 1 HOUR, at_end => 'hold'": "`at_end`: is not possible on a stream",
}


def test_what_two_streams_cannot_have_is_refused(spark: SparkSession, source: Source) -> None:
    source.stream().selectExpr("*", "ts AS since").createOrReplaceTempView("events")
    for options, message in REFUSED.items():
        with pytest.raises(AnalysisException, match=message):
            spark.sql(CALL.format(table="events", options=options))
    spark.sql("SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts").createOrReplaceTempView("batch")
    with pytest.raises(AnalysisException, match="the right side is a stream, and the left side is none"):
        spark.sql(CALL.format(table="events", options="").replace("TABLE(events)", "TABLE(batch)", 1))
