"""What is asked of a cluster, and of any other session that has the pack. An answer is the rows in any order, as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import streamtime
from streamtime.shelf import FUNCTIONS
from streamtime.shell import script
from streamtime.sql.call.spec import Spec

# 60 rows that arrive out of order, of five keys, one of them NULL, with times of which one is NULL
ROWS = """CREATE OR REPLACE TEMP VIEW rows AS SELECT nullif('k' || id % 5, 'k4') AS k, id AS off, id % 7 AS n,
    if(id = 23, NULL, timestamp_seconds(id + (id * 7) % 11)) AS ts FROM range(60)"""
TURN = "PARTITION BY k ORDER BY off, time => 'ts'"
STATEMENTS = {
    "DEDUPLICATE": (
        f"SELECT * FROM DEDUPLICATE(TABLE(rows) {TURN}, within => INTERVAL 6 SECONDS, output => 'all')",
        "SELECT * FROM DEDUPLICATE(TABLE(rows) PARTITION BY n ORDER BY ts, within => INTERVAL 9 SECONDS, keep => 'unique')",
    ),
    "DISTINCT_IN_WINDOW": (
        f"SELECT * FROM DISTINCT_IN_WINDOW(TABLE(rows) {TURN}, size => INTERVAL 8 SECONDS, output => 'all')",
        f"SELECT * FROM DISTINCT_IN_WINDOW(TABLE(rows) {TURN}, gap => INTERVAL 6 SECONDS)",
    ),
    "SESSIONIZE": (
        f"SELECT * FROM SESSIONIZE(TABLE(rows) {TURN}, gap => INTERVAL 6 SECONDS, grace => INTERVAL 2 SECONDS, output => 'explain')",
    ),
    "SESSION_UPDATES": (
        f"SELECT * FROM SESSION_UPDATES(TABLE(rows) {TURN}, gap => INTERVAL 6 SECONDS, aggregates => 'count(*) AS c, sum(n) AS total')",
    ),
    "WINDOW_UPDATES": (
        f"SELECT * FROM WINDOW_UPDATES(TABLE(rows) {TURN}, size => INTERVAL 8 SECONDS, slide => INTERVAL 4 SECONDS, aggregates => 'max(n) AS m')",
        f"SELECT * FROM WINDOW_UPDATES(TABLE(rows) {TURN}, difference => INTERVAL 3 SECONDS, aggregates => 'collect_list(n) AS all', "
        "grace => INTERVAL 4 SECONDS)",
    ),
    "SUPPRESS_UNTIL_CLOSE": (
        "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT *, date_trunc('MINUTE', ts) AS w FROM rows) PARTITION BY (k, w) ORDER BY off, time => 'ts', "
        "window_end => 'w + INTERVAL 20 SECONDS', deleted => 'n = 3', output => 'all')",
    ),
    "SUPPRESS_UNTIL_TIME_LIMIT": (
        f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(rows) {TURN}, wait => INTERVAL 7 SECONDS, output => 'all')",
        f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(rows) {TURN}, wait => INTERVAL 7 SECONDS, max_records => 3, when_full => 'emit_early')",
        f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(rows) {TURN}, wait => INTERVAL 7 SECONDS, max_records => 2, when_full => 'spill')",
    ),
    "AS_OF_JOIN": (
        "SELECT * FROM AS_OF_JOIN(TABLE(rows) PARTITION BY k ORDER BY ts, TABLE(SELECT k, ts, off FROM rows WHERE n < 3) PARTITION BY k "
        "ORDER BY ts, join_type => 'left', allow_exact => false)",
        "SELECT * FROM AS_OF_JOIN(TABLE(rows) PARTITION BY k ORDER BY ts, TABLE(SELECT k, ts, off FROM rows WHERE n < 3) PARTITION BY k "
        "ORDER BY ts, arrival => 'off', retention => INTERVAL 20 SECONDS, grace => INTERVAL 3 SECONDS)",
    ),
    "JOIN_CHANGES": (
        f"SELECT * FROM JOIN_CHANGES(TABLE(SELECT k, off, ts, n FROM rows) {TURN.partition(',')[0]}, TABLE(SELECT k, off, ts, n + 1 AS m FROM rows)"
        f" {TURN}, join_type => 'outer', versioned => ARRAY('right'), retention => INTERVAL 20 SECONDS)",
        "SELECT * FROM JOIN_CHANGES(TABLE(SELECT off AS id, k, off, ts, n FROM rows) PARTITION BY id ORDER BY ts,"
        " TABLE(SELECT k, ts, n + 1 AS m FROM rows WHERE n < 3) PARTITION BY k ORDER BY ts, on => 'k')",
    ),
    "AGGREGATE_CHANGES": (
        f"SELECT * FROM AGGREGATE_CHANGES(TABLE(rows) {TURN}, group_by => ARRAY('n'), aggregates => 'count(*) AS c, max(off) AS top')",
        f"SELECT * FROM AGGREGATE_CHANGES(TABLE(rows) {TURN}, versioned => true, retention => INTERVAL 9 SECONDS, group_by => ARRAY('n'),"
        " aggregates => 'sum(off / 7D) AS total')",
    ),
    "FILTER_CHANGES": (f"SELECT * FROM FILTER_CHANGES(TABLE(rows) {TURN}, condition => 'n > 2', output => 'all')",),
    "VERSIONS": (
        f"SELECT * FROM VERSIONS(TABLE(rows) {TURN}, retention => INTERVAL 30 SECONDS, grace => INTERVAL 4 SECONDS, deleted => 'n = 2')",
        f"SELECT * FROM VERSIONS(TABLE(rows) {TURN}, grace => INTERVAL 4 SECONDS, output => 'puts')",
    ),
    "TABLE_HISTORY": ("SELECT k, v, from_version, to_version FROM TABLE_HISTORY('fed', keys => ARRAY('k'))",),
    "ASSIGN_TASKS": (
        "SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT off AS task FROM rows), members => TABLE(SELECT 'm' || id AS member FROM range(4)), "
        "current => TABLE(SELECT off AS task, 'm' || n AS member, ts IS NULL AS late, n * 5000 AS lag FROM rows WHERE k = 'k1'), "
        "standbys => 1, rounds => 9, output => 'explain')",
    ),
    "FUNCTION_CATALOG": ("SELECT * FROM FUNCTION_CATALOG()",),
}
FED = (  # a Delta table with a history of commits
    "CREATE TABLE fed USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS f(k, v)",
    "UPDATE fed SET v = 'c' WHERE k = 1",
)

ORDERS = """CREATE OR REPLACE TEMP VIEW orders AS SELECT item, timestamp_seconds(s) AS ts, id
    FROM VALUES ('tea', 5, 1), ('tea', 10, 2), ('tea', 29, 3), ('tea', 30, 4), ('tea', 41, 5), ('cup', 99, 6), (NULL, 9, 7) AS o(item, s, id)"""
PRICES = (("tea", 10, 2.0), ("tea", 40, 3.0), ("cup", 0, 5.0))
AS_OF = {
    "by a clause": "SELECT id, price FROM orders o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.item",
    "by a call": "SELECT id, price FROM AS_OF_JOIN(TABLE(SELECT * FROM orders o) PARTITION BY item ORDER BY ts, "
    "TABLE(SELECT * FROM prices p) PARTITION BY item ORDER BY since, join_type => 'left')",
}

# Two micro-batches: key, second, number
BATCHES = ((("a", 0, 1), ("a", 5, 2), ("b", 6, 3), ("a", 61, 4)), (("a", 70, 5), ("b", 72, 6), ("b", 90, 7), ("c", 200, 8)))
STREAMS = {
    "DEDUPLICATE": "SELECT k, id, reason FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, within => INTERVAL 10 SECONDS, output => 'all')",
    "SUPPRESS_UNTIL_CLOSE": "SELECT k, id, emit_reason FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT *, date_trunc('MINUTE', ts) AS w FROM events) "
    "PARTITION BY (k, w) ORDER BY id, time => 'ts', window_end => 'w + INTERVAL 1 MINUTE')",
}
Ask = Callable[[SparkSession, Path], list[str]]


def statements(spec: Spec) -> tuple[str, ...]:
    """What is asked of a function: what stands above, or else the examples of its page."""
    return STATEMENTS.get(spec.name) or tuple(example.query for example in spec.examples)


def shown(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


def questions() -> Iterator[tuple[str, Ask]]:
    """By name, what finds each answer in a session, whose current schema is the asker's own, and a folder that all its workers share."""

    def statement(text: str) -> Ask:
        return lambda spark, _: shown(spark.sql(text).collect())

    yield "the workers", workers
    for spec in FUNCTIONS:
        for number, text in enumerate(statements(spec)):
            yield f"{spec.name} {number}", statement(text)
    yield "a versioned table", versioned
    for how, text in AS_OF.items():
        yield f"as of {how}", statement(text)
    for name, text in STREAMS.items():
        yield f"stream {name}", lambda spark, folder, name=name, text=text: streamed(spark, folder / name, text)  # type: ignore[misc]


def prepare(spark: SparkSession, functions: Collection[str]) -> None:
    """The input of what is asked of these functions, and of all else, in the session and in its current schema."""
    of_pages = [
        cut.sql
        for spec in FUNCTIONS
        if spec.name in functions and spec.name not in STATEMENTS
        for e in spec.examples
        for cut in script.statements(e.setup)
    ]
    for text in (ROWS, ORDERS, *(FED if "TABLE_HISTORY" in functions else ()), *of_pages):
        spark.sql(text)


def workers(spark: SparkSession, _: Path) -> list[str]:
    """Where two tasks at once run, and whether the pack is there."""

    def look(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.util
        from pathlib import Path

        has = [m for m in ("streamtime", "sqlglot", "pandas") if importlib.util.find_spec(m)]
        yield pa.RecordBatch.from_pydict({"at": [str(Path.cwd())], "has": [" ".join(has)]})

    return shown(spark.range(2, numPartitions=2).mapInArrow(look, "at STRING, has STRING").collect())


def versioned(spark: SparkSession, _: Path) -> list[str]:
    """Puts, too late, again and out of order; a tombstone; and what the table says then. Leaves `prices` as PRICES and those say."""
    table = streamtime.VersionedTable.create(
        spark, "prices", "item STRING, since TIMESTAMP, price DOUBLE", key="item", time="since", grace="1 minute"
    )

    def at(second: int) -> datetime:
        return datetime.fromtimestamp(second)

    moments = [(item, at(second), price) for item, second, price in PRICES]
    schema = T.StructType.fromDDL("item STRING, since TIMESTAMP, price DOUBLE")
    told = [
        table.put(spark.createDataFrame(moments, schema).repartition(2), order_by=["price"], batch_id="first"),
        table.put(spark.createDataFrame(moments, schema), batch_id="first"),
        table.put([("tea", at(30), 2.5), ("tea", at(30), 2.6), ("jug", at(100), 1.0), ("jug", at(39), 9.0)]),
    ]
    said = [f"{t.accepted} {t.counts} {t.repeated}" for t in told]
    gone = table.delete("tea", at(41))
    found = [table.get("tea", at(s)) for s in (9, 30, 50)]
    rows = [gone, *found, *table.history("tea"), *table.versions().orderBy("item", "valid_from").collect()]
    moment = lambda value: f"@{value.timestamp():g}" if isinstance(value, datetime) else value  # noqa: E731
    return [*said, *(" ".join(str(moment(v)) for v in row) if row else "none" for row in rows)]


def streamed(spark: SparkSession, folder: Path, text: str) -> list[str]:
    """What the query puts into a Delta table, over files of events, one for each micro-batch."""
    (folder / "in").mkdir(parents=True)
    for number, batch in enumerate(BATCHES):
        keys, seconds, ids = zip(*batch, strict=True)
        moments = pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", "UTC"))
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": keys, "ts": moments, "id": pa.array(ids, pa.int32())}), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    reader = spark.readStream.schema("k STRING, ts TIMESTAMP, id INT").option("maxFilesPerTrigger", "1").option("maxFileAge", "9999d")
    reader.parquet(str(folder / "in")).createOrReplaceTempView("events")
    writer = spark.sql(text).writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return shown(spark.read.format("delta").load(str(folder / "out")).collect())
