"""Functions over changelogs on real streams: the same SQL over the same changes gives what batch gives, change by change, however they are
cut into micro-batches and wherever the query is stopped and started again."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.streams import Source, at

DDL = "`the k` STRING, n INT, ts TIMESTAMP, side INT, v STRING, change_type STRING, id INT"
LEFT = "TABLE(SELECT `the k`, n, ts, v AS `l ``v`, change_type FROM {0} WHERE side = 0) PARTITION BY `the k` ORDER BY n"
RIGHT = "TABLE(SELECT id AS r, `the k` AS k, n, ts, v IS NULL AS gone, v AS `r.v` FROM {0} WHERE side = 1) PARTITION BY k ORDER BY n"
JOIN = f"JOIN_CHANGES({LEFT}, {RIGHT}, time => 'ts', deleted => 'gone'{{1}})"
FILTER = (
    "FILTER_CHANGES(TABLE(SELECT * FROM {0} WHERE side = 0) PARTITION BY `the k` ORDER BY n, time => 'ts', condition => 'v > \"3\"'{1})"
)
TOTALS = (
    "AGGREGATE_CHANGES(TABLE(SELECT `the k`, n, ts, change_type, if(id % 7 = 0, NULL, id % 2) AS g, v, if(id = 3, 'NaN', v) AS odd FROM {0})"
    " PARTITION BY `the k` ORDER BY n, time => 'ts', group_by => ARRAY('g'), aggregates => 'count(*) AS c, count(v) AS cv,"
    " sum(CAST(v AS INT)) AS s, avg(CAST(v AS DECIMAL(5, 2))) AS a, sum(odd / 3D) AS d, min(v) AS lo, max(CAST(odd AS FLOAT)) AS top, max(ts) AS hi'{1})"
)
CHAIN = (
    "JOIN_CHANGES(TABLE(SELECT `the k`, n, change_seq, l, r, change_type, change_time FROM JOIN_CHANGES("
    "  TABLE(SELECT `the k`, n, change_seq, v AS l, change_type, change_time FROM " + FILTER.format("{0}", "") + ")"
    "    PARTITION BY `the k` ORDER BY (n, change_seq),"
    "  TABLE(SELECT `the k`, n, 0 AS change_seq, v AS r, ts AS change_time, change_type FROM {0} WHERE side = 1)"
    "    PARTITION BY `the k` ORDER BY (n, change_seq), time => 'change_time', join_type => 'left', watermark => INTERVAL 1 HOUR))"
    " PARTITION BY `the k` ORDER BY (n, change_seq),"
    " TABLE(SELECT `the k`, n, 0 AS change_seq, v AS z, ts AS change_time, change_type FROM {0} WHERE side = 2)"
    "  PARTITION BY `the k` ORDER BY (n, change_seq), time => 'change_time', join_type => 'outer'{1})"
)
WAIT = ", watermark => INTERVAL 1 HOUR"


def changes(seed: int, sides: int, count: int = 70) -> list[tuple[Any, ...]]:
    """In processing order: by place, then by side, with nulls in each role, ties, and times out of order."""
    rng = random.Random(seed)
    rows: list[tuple[Any, ...]] = []
    n = 0
    for i in range(count):
        n += rng.choice([0, 1, 1])
        key, ts = rng.choice([None, "a", "a", "b", "ä'`", ""]), rng.choice([None, *[at(1000 + i + rng.randint(-9, 9))] * 20])
        value = rng.choice([None, *"123456789"])
        rows.append((key, rng.choice([None, *[n] * 15]), ts, rng.randrange(sides), value, rng.choice(["upsert", "upsert", "delete"]), i))
    return sorted(rows, key=lambda r: (r[1] is not None, r[1] or 0, r[3]))


def replayed(source: Source, rows: list[tuple[Any, ...]], text: str, seed: int) -> list[Any]:
    """In random micro-batches, stopped and started again once."""
    cuts = sorted(random.Random(seed).sample(range(1, len(rows)), 4))
    for number, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        source.add(rows[a:b])
        if number == 2:
            source.run(text)
    return source.run(text)


@pytest.fixture
def changing(spark: SparkSession, source: Source, tmp_path: Path) -> Source:
    source.ddl = DDL
    return source


@pytest.mark.parametrize(
    ("call", "more", "sides"),
    [
        (JOIN, ", join_type => 'outer'", 2),
        pytest.param(
            JOIN, ", join_type => 'inner', versioned => ARRAY('left', 'right')", 2, marks=pytest.mark.long("the same of outer joins")
        ),
        pytest.param(CHAIN, "", 3, marks=pytest.mark.long("the same of two joins")),
        (FILTER, ", versioned => true", 1),
        (TOTALS, "", 2),
    ],
    ids=["outer", "versioned", "chain", "filter", "totals"],
)
@pytest.mark.short("a stream of changes, cut anyhow")
def test_a_stream_cut_anyhow_gives_the_changes_of_batch(spark: SparkSession, changing: Source, call: str, more: str, sides: int) -> None:
    rows = changes(sides, sides)
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")
    expected = spark.sql(f"SELECT * FROM {call.format('batch', more)}")
    found = replayed(changing, rows, f"SELECT * FROM {call.format('events', more + WAIT)}", len(call))
    assert found[0].asDict().keys() == dict.fromkeys(expected.columns).keys()
    assert Counter(map(str, found)) == Counter(map(str, expected.collect()))  # as text, since NaN is not NaN
    assert len({row.change_type for row in found}) == 2


TWICE = {  # columns in two roles: what a change has of them is the row's, not what caused it
    "by another key": (
        "JOIN_CHANGES(TABLE(SELECT id, n, ts, change_type, id % 4 AS of FROM {0} WHERE side = 0) PARTITION BY id ORDER BY (n, id),"
        " TABLE(SELECT id % 4 AS r, n, ts, v, change_type FROM {0} WHERE side = 1) PARTITION BY r ORDER BY (n, r), on => 'l.of', time => 'ts'{1})"
    ),
    "group": (
        "AGGREGATE_CHANGES(TABLE(SELECT `the k`, n, ts, id % 3 AS g, v, change_type FROM {0}) PARTITION BY `the k` ORDER BY (n, g),"
        " time => 'ts', group_by => ARRAY('g'), aggregates => 'count(*) AS c'{1})"
    ),
    "one name": FILTER.replace("SELECT * FROM", "SELECT *, id AS v FROM").replace("'v >", "'side = 0 AND id >"),
}


@pytest.mark.parametrize(
    "call", [pytest.param("by another key", marks=pytest.mark.long("tests/sql/changes/test_foreign_key_streams.py")), "group", "one name"]
)
def test_columns_of_two_roles_and_two_columns_of_one_name(spark: SparkSession, changing: Source, call: str) -> None:
    rows = changes(7, 2, 40)
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")
    expected = spark.sql(f"SELECT * FROM {TWICE[call].format('batch', '')}").collect()
    changing.add(rows[:20])
    changing.run(f"SELECT * FROM {TWICE[call].format('events', WAIT)}")
    changing.add(rows[20:])
    found = changing.run(f"SELECT * FROM {TWICE[call].format('events', WAIT)}")
    assert Counter(map(tuple, found)) == Counter(map(tuple, expected))
    assert len({row.change_type for row in found}) == 2


EXPLAINED = {
    "join": (JOIN, ", join_type => 'left', versioned => ARRAY('right')", 2, {"joined", "alone", "withdrew", "waits"}),
    "filter": (FILTER, "", 1, {"passed", "withdrew", "nothing"}),
    "totals": (TOTALS, ", versioned => true", 2, {"added", "changed", "moved", "removed", "no_group", "nothing", "out_of_order"}),
}


@pytest.mark.parametrize(
    "function", ["join", *(pytest.param(f, marks=pytest.mark.long("the same of joins")) for f in ("filter", "totals"))]
)
def test_a_stream_says_what_each_change_did_as_batch_does(spark: SparkSession, changing: Source, function: str) -> None:
    call, more, sides, outcomes = EXPLAINED[function]
    rows = changes(5, sides, 140)
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")
    text = f"SELECT * EXCEPT (stream_time) FROM {call}"
    expected = spark.sql(text.format("batch", f"{more}, output => 'explain'"))
    found = replayed(changing, rows, text.format("events", f"{more}, output => 'explain'{WAIT}"), len(call))
    assert found[0].asDict().keys() == dict.fromkeys(expected.columns).keys()
    assert Counter(map(str, found)) == Counter(map(str, expected.collect()))
    assert {row.outcome for row in found} >= outcomes | {"null_time", "null_key"}


def test_no_side_is_ahead_of_the_other(spark: SparkSession, changing: Source) -> None:
    """`retention` counts from the side that is behind; what is ignored is told of, and counted in the progress."""
    rows = [("a", i, at(86_400 * (1 - side) + i), side, "x", "upsert", i) for i in range(6) for side in (0, 1)]
    more = ", versioned => ARRAY('left', 'right'), retention => INTERVAL 3 SECONDS, output => 'all', name => 'both'"
    text = f"SELECT * FROM {JOIN.format('events', more)}"
    for some in (rows[:4], rows[4:8], [*rows[8:], ("a", 6, at(3), 1, "x", "upsert", 9), (None, 7, at(4), 0, "x", "upsert", 9)]):
        changing.add(some)
    changing.run(text)
    changing.add([("a", 8, at(1), 1, "x", "upsert", 9)])
    found = changing.run(text)
    assert Counter((r.side, r.n, r.reason) for r in found if r.reason) == Counter(
        {("right", 6, "out_of_order"): 1, ("right", 8, "too_old"): 1, ("left", 7, "null_key"): 1}
    )
    assert len(found) == len(rows) + 3
    names = ("input_rows", "out_of_order_drop_total", "too_old_drop_total", "null_key_drop_total")
    observed = [p.observedMetrics["both"] for p in changing.progress if "both" in p.observedMetrics]
    assert [sum(o[name] for o in observed) for name in names] == [15, 1, 1, 1]


def test_change_feeds_of_delta_tables_are_streams_of_changes(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    for name, column in (("orders", "amount INT"), ("towns", "town STRING")):
        spark.sql(f"CREATE TABLE {schema}.{name} (name STRING, {column}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
        feed = spark.readStream.option("readChangeFeed", "true").table(f"{schema}.{name}")
        feed.selectExpr("*", "_commit_timestamp AS ts").createOrReplaceTempView(f"{name}_feed")
    call = "JOIN_CHANGES(TABLE(orders_feed) PARTITION BY name ORDER BY ts, TABLE(towns_feed) PARTITION BY name ORDER BY ts)"

    def run() -> None:
        writer = spark.sql(f"SELECT * FROM {call}").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).toTable(f"{schema}.bought").awaitTermination()

    spark.sql(f"INSERT INTO {schema}.orders VALUES ('ann', 1), ('bob', 2), ('eve', 3)")
    spark.sql(f"INSERT INTO {schema}.towns VALUES ('ann', 'Rome'), ('bob', 'Oslo')")
    run()
    spark.sql(f"UPDATE {schema}.orders SET amount = 9 WHERE name = 'ann'")
    spark.sql(f"DELETE FROM {schema}.towns WHERE name = 'bob'")
    spark.sql(f"INSERT INTO {schema}.towns VALUES ('eve', 'Bonn')")
    run()
    last = spark.sql(
        f"SELECT name, max_by(struct(change_type, amount, town), struct(ts, change_seq)) AS l FROM {schema}.bought GROUP BY name ORDER BY name"
    )
    assert [(r.name, *r.l) for r in last.collect()] == [
        ("ann", "upsert", 9, "Rome"),
        ("bob", "delete", None, None),
        ("eve", "upsert", 3, "Bonn"),
    ]
    assert spark.table(f"{schema}.bought").count() == 5  # ann and bob; ann again, bob's deletion, eve


WRONG = {
    JOIN.format("events", ", clock_by => ARRAY('the k')"): "`clock_by`: is not possible on a stream",
    JOIN.format("events", ", output => 'metrics'"): "'metrics' is not possible on a stream",
    f"JOIN_CHANGES({LEFT.format('events')}, {RIGHT.format('batch')}, time => 'ts')": "the right side is no stream",
    TOTALS.replace("ARRAY('g')", "ARRAY('lower')")
    .replace("SELECT ", "SELECT collate('a', 'UTF8_LCASE') AS lower, ", 1)
    .format("events", ""): "`group_by`: a column with a collation",
}


def test_what_a_stream_cannot_have_is_refused(spark: SparkSession, changing: Source) -> None:
    changing.stream().createOrReplaceTempView("events")
    spark.createDataFrame([], DDL).createOrReplaceTempView("batch")
    for call, message in WRONG.items():
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"SELECT * FROM {call}")
