"""How far each function spreads over a cluster, and how often it evaluates its input: `python3 run.py benchmark spread`.

It counts bytes, not seconds, from Spark's own task metrics, so it says the same on any machine, however busy. For each call: the bytes that
all tasks read, over those of the critical path, which is the largest task of each stage, added. That is the speed-up which a cluster with
endless cores could give; `largest` is the share of all bytes that one task reads. The input is a Parquet table of N rows in P files, a
task reads one of them, as where a cluster has P cores, and a shuffle has P partitions. Evaluations: how many rows a Python function in the
TABLE argument sees, over those of its input, which is one of FEWER rows in a few files: that does not depend on how many there are.

Of TABLE_HISTORY evaluations are the rows of its table's change data that it reads, over those that are there. Of maintain, the bytes are those
of one run after a commit that changes one row of a hundred, of tables with ten times as many rows, in as many files; and in place of
evaluations, all rows that are read from files, over those of its tables.

    --rows 5e5 --partitions 64    what is measured
    --only SUPPRESS               calls whose name has this in it, as they stand in the printed table
    --output                      each call with every output, and as the plain SQL that it compiles to: of 200,000 rows and 16 partitions,
                                  for these are many
    --missing                     only what is not stored yet

Each result is stored in spread.json beside this file, or with --output in spread_outputs.json, as soon as it is there, with its date: a run
that is stopped goes on with --missing. Those of --only and --missing are stored where rows and partitions are those of the others.
docs/scale.md has the tables.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.accumulators import Accumulator
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import streamtime
from streamtime.sql.tables.applied import Applied

HERE = Path(__file__).parent
SHUFFLED, READ = "spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum"
FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
FIELDS = "TABLE({t}) PARTITION BY k ORDER BY n, time => 'ts'"
WINDOWS = (
    "WINDOW_UPDATES(" + FIELDS + ", size => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES, aggregates => 'count(*) AS c, sum(v) AS s'{o})"
)
SESSIONS = "SESSION_UPDATES(" + FIELDS + ", gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES, aggregates => 'count(*) AS c'{o})"
JOIN = (
    "JOIN_CHANGES(TABLE({{t}}) PARTITION BY {key} ORDER BY n,"
    " TABLE(SELECT k, unix_micros(at) div 100000 AS n, at AS ts, price FROM r) PARTITION BY k ORDER BY n, time => 'ts'{o})"
)
APPLIED = Applied("nowhere", "gone", "{t}", ("k", "n", "ts", "v"), ("k",), ("n",), ("ts", "v"), deleted="v = 7")
MAINTAINED = {
    "maintain, join": ("SELECT a.n, a.k, a.v, b.w FROM kept.a AS a JOIN kept.b AS b ON a.k = b.k", "n"),
    "maintain, totals of a join": (
        "SELECT b.w, count(*) AS c, sum(a.v) AS v FROM kept.a AS a JOIN kept.b AS b ON a.k = b.k GROUP BY b.w",
        None,
    ),
    "maintain, DEDUPLICATE": (
        "SELECT * FROM DEDUPLICATE(TABLE(SELECT n, k, ts, v FROM kept.a) PARTITION BY k ORDER BY ts, within => INTERVAL 6 HOURS)",
        None,
    ),
}  # the query, and its key: after a commit that changes one row of a hundred
MORE = 10  # times as many rows has a table that is kept up: of few rows, the log of a table is most of what is read
FEWER = 200_000  # rows whose evaluations are counted: as files more than what one task takes
REPORTS = ("dropped", "all", "metrics")
EXPLAINED = (*REPORTS, "explain")
PLAIN = "plain SQL"
IN_ORDER = "TABLE({t}) PARTITION BY k ORDER BY ts"
UNTIL_CLOSE = (
    f"SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM {WINDOWS.replace('{o}', '')}) PARTITION BY (k, window_start) "
    "ORDER BY (n, change_seq), time => 'change_time'{o})"
)
ARRIVED = (
    "AS_OF_JOIN(TABLE(SELECT *, n AS arr FROM {t}) PARTITION BY k ORDER BY ts, "
    "TABLE(SELECT *, unix_micros(at) div 100000 AS arr FROM r) PARTITION BY k ORDER BY at, arrival => 'arr'{o})"
)
SHARED_OUT = (
    "ASSIGN_TASKS(tasks => TABLE(SELECT n AS task, 1 + pmod(unix_micros(ts), 7) AS cost FROM {t} WHERE n % 25 = 0), "
    "members => TABLE(SELECT DISTINCT price AS member FROM r), "
    "current => TABLE(SELECT n AS task, v AS member, pmod(unix_micros(ts), 2) AS lag FROM {t} WHERE n % 25 = 0){o})"
)
CALLS: dict[str, tuple[str, tuple[str, ...]]] = {  # and the other outputs that are asked for
    "DEDUPLICATE, event order": ("DEDUPLICATE(TABLE({t}) PARTITION BY k ORDER BY ts, within => INTERVAL 6 HOURS{o})", REPORTS),
    "DEDUPLICATE, arrival order": ("DEDUPLICATE(" + FIELDS + ", within => INTERVAL 6 HOURS{o})", REPORTS),
    "DEDUPLICATE, last, arrival order": ("DEDUPLICATE(" + FIELDS + ", within => INTERVAL 6 HOURS, keep => 'last'{o})", ()),
    "DEDUPLICATE, unique, event order": (f"DEDUPLICATE({IN_ORDER}, within => INTERVAL 6 HOURS, keep => 'unique'{{o}})", ()),
    "DEDUPLICATE without within": ("DEDUPLICATE(" + FIELDS + "{o})", REPORTS),
    "DEDUPLICATE without within, last": ("DEDUPLICATE(" + FIELDS + ", keep => 'last'{o})", ()),
    "DEDUPLICATE without within, unique": ("DEDUPLICATE(" + FIELDS + ", keep => 'unique'{o})", ()),
    "DISTINCT_IN_WINDOW, arrival order": ("DISTINCT_IN_WINDOW(" + FIELDS + ", size => INTERVAL 1 HOUR{o})", REPORTS),
    "SESSIONIZE, event order": ("SESSIONIZE(TABLE({t}) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 HOUR{o})", REPORTS),
    "SESSIONIZE, arrival order": ("SESSIONIZE(" + FIELDS + ", gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES{o})", EXPLAINED),
    "WINDOW_UPDATES": (WINDOWS, EXPLAINED),
    "WINDOW_UPDATES, final": (WINDOWS.replace("{o}", ", emit => 'final'{o}"), ()),
    "SESSION_UPDATES": (SESSIONS, EXPLAINED),
    "SESSION_UPDATES, final": (SESSIONS.replace("{o}", ", emit => 'final'{o}"), ()),
    "WINDOW_UPDATES, hopping": (WINDOWS.replace("{o}", ", slide => INTERVAL 20 MINUTES{o}"), ()),
    "WINDOW_UPDATES, hopping, final": (WINDOWS.replace("{o}", ", slide => INTERVAL 20 MINUTES, emit => 'final'{o}"), ()),
    "WINDOW_UPDATES, sliding": (WINDOWS.replace("size => INTERVAL 1 HOUR", "difference => INTERVAL 1 MINUTE"), ()),
    "WINDOW_UPDATES, final, event order": (WINDOWS.replace(FIELDS, IN_ORDER).replace("{o}", ", emit => 'final'{o}"), ()),
    "SESSION_UPDATES, final, event order": (SESSIONS.replace(FIELDS, IN_ORDER).replace("{o}", ", emit => 'final'{o}"), ()),
    "DISTINCT_IN_WINDOW, event order": (f"DISTINCT_IN_WINDOW({IN_ORDER}, size => INTERVAL 1 HOUR{{o}})", REPORTS),
    "DISTINCT_IN_WINDOW, gap": (f"DISTINCT_IN_WINDOW({FIELDS}, gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES{{o}})", REPORTS),
    "SUPPRESS_UNTIL_CLOSE of WINDOW_UPDATES": (UNTIL_CLOSE, EXPLAINED),
    "SUPPRESS_UNTIL_CLOSE of WINDOW_UPDATES, until end": (
        UNTIL_CLOSE.replace("{o}", ", window_end => 'window_end', until => 'end'{o}"),
        (),
    ),
    "SUPPRESS_UNTIL_CLOSE, event order": (f"SUPPRESS_UNTIL_CLOSE({IN_ORDER}, window_end => 'ts', grace => INTERVAL 10 MINUTES{{o}})", ()),
    "SUPPRESS_UNTIL_TIME_LIMIT": ("SUPPRESS_UNTIL_TIME_LIMIT(" + FIELDS + ", wait => INTERVAL 10 MINUTES{o})", EXPLAINED),
    "SUPPRESS_UNTIL_TIME_LIMIT, event order": (f"SUPPRESS_UNTIL_TIME_LIMIT({IN_ORDER}, wait => INTERVAL 10 MINUTES{{o}})", ()),
    "SUPPRESS_UNTIL_TIME_LIMIT, one buffer": (
        "SUPPRESS_UNTIL_TIME_LIMIT(" + FIELDS + ", wait => INTERVAL 10 MINUTES, max_records => 100000, when_full => 'spill'{o})",
        (),
    ),
    "VERSIONS, event order": ("VERSIONS(TABLE({t}) PARTITION BY k ORDER BY ts{o})", REPORTS),
    "VERSIONS, arrival order": ("VERSIONS(" + FIELDS + ", grace => INTERVAL 10 MINUTES{o})", (*REPORTS, "puts")),
    "VERSIONS, event order, retention": (f"VERSIONS({IN_ORDER}, retention => INTERVAL 1 DAY{{o}})", ()),
    "VERSIONS, arrival order, retention": ("VERSIONS(" + FIELDS + ", grace => INTERVAL 10 MINUTES, retention => INTERVAL 1 DAY{o})", ()),
    "AS_OF_JOIN": ("AS_OF_JOIN(TABLE({t}) PARTITION BY k ORDER BY ts, TABLE(r) PARTITION BY k ORDER BY at{o})", REPORTS),
    "JOIN_CHANGES": (JOIN.format(key="k", o="{o}"), EXPLAINED),
    "JOIN_CHANGES, versioned": (JOIN.format(key="k", o=", versioned => ARRAY('left', 'right'){o}"), ()),
    "JOIN_CHANGES, versioned with retention": (
        JOIN.format(key="k", o=", versioned => ARRAY('left', 'right'), retention => INTERVAL 1 DAY{o}"),
        REPORTS,
    ),
    "JOIN_CHANGES, foreign key": (JOIN.format(key="n", o=", on => 'k'{o}"), EXPLAINED),
    "FILTER_CHANGES": ("FILTER_CHANGES(" + FIELDS + ", condition => 'v > 50'{o})", EXPLAINED),
    "AGGREGATE_CHANGES": (
        "AGGREGATE_CHANGES(TABLE(SELECT n, ts, k % 1000 AS g, v, k FROM {t}) PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('g'),"
        " aggregates => 'count(*) AS c, sum(v) AS s, max(v) AS m'{o})",
        EXPLAINED,
    ),
    "apply_changes, what is merged": (APPLIED.merge.partition("USING ")[2].rpartition(" AS s")[0], ()),
    "AS_OF_JOIN, arrival": (ARRIVED, REPORTS),
    "AS_OF_JOIN, arrival and grace": (ARRIVED.replace("{o}", ", grace => INTERVAL 10 MINUTES{o}"), ()),
    "AS_OF_JOIN, arrival and retention": (ARRIVED.replace("{o}", ", retention => INTERVAL 1 DAY{o}"), ()),
    "TABLE_HISTORY": ("TABLE_HISTORY('kept.h', keys => ARRAY('n'))", ()),
    "ASSIGN_TASKS": (SHARED_OUT, ("explain", "metrics")),
}
ORDERS = {  # that are hard to cut into ranges
    "one order value, computed": "TABLE(SELECT *, DATE '2024-01-01' + CAST(n < 0 AS INT) AS one FROM {t}) PARTITION BY k ORDER BY one, time => 'ts'",
    "order of texts": "TABLE(SELECT *, lpad(n, 12, '0') AS word FROM {t}) PARTITION BY k ORDER BY word, time => 'ts'",
    "order (partition, offset)": "TABLE(SELECT *, pmod(n, 8) AS part FROM {t}) PARTITION BY k ORDER BY (part, n), time => 'ts'",
}
for order, rows_in in ORDERS.items():
    for asked_in in ("DEDUPLICATE, arrival order", "WINDOW_UPDATES, final", "SUPPRESS_UNTIL_TIME_LIMIT"):
        CALLS[f"{asked_in.removesuffix(', arrival order')}, {order}"] = (CALLS[asked_in][0].replace(FIELDS, rows_in), ())
EACH_ONCE = {"ASSIGN_TASKS": 0.08}  # where it is not all rows: how many evaluations of them are one for each row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", action="store_true")
    parser.add_argument("--missing", action="store_true")
    asked = parser.parse_args()
    rows, partitions = int(asked.rows or (FEWER if asked.output else 500_000)), asked.partitions or (16 if asked.output else 64)
    size, file = {"rows": rows, "partitions": partitions}, HERE / ("spread_outputs.json" if asked.output else "spread.json")
    stored = json.loads(file.read_text()) if file.exists() else size
    same = {name: stored[name] for name in size} == size
    known: dict[str, dict[str, Any]] = stored["calls"] if same and "calls" in stored else {}

    def wanted(said: str) -> bool:
        return asked.only in said and not (asked.missing and said in known)

    def store(said: str, one: dict[str, Any]) -> None:
        known[said] = one
        if same or not (asked.only or asked.missing):
            versions = {"pyspark": spark.version, "python": platform.python_version()}
            calls = {name: known[name] for name in names() if name in known}
            file.write_text(json.dumps(size | versions | {"calls": calls}, indent=1) + "\n")

    spark = streamtime.session(
        cores=2,
        memory="4g",
        settings={
            "spark.ui.enabled": "true",
            "spark.ui.retainedStages": "300",  # more of them take long to list
            SHUFFLED: str(partitions),
            "spark.sql.adaptive.enabled": "false",
            READ: str(partitions),  # two cores would read all small files in two tasks
        },
    )
    with tempfile.TemporaryDirectory() as folder:
        made(spark, folder, rows, partitions)
        seen = looked_at(spark)
        print(f"{'call':60}{'stages':>8}{'tasks':>7}{'largest':>9}{'speed-up limit':>16}{'evaluations':>13}", flush=True)
        for name, (call, outputs) in CALLS.items():
            for way in ("rows", *((*outputs, PLAIN) if asked.output else ())):
                if wanted(said := named(name, way)):
                    store(said, measured(spark, name, call, way, rows, seen))
        maintained = {} if asked.output else MAINTAINED
        if any(map(wanted, maintained)):
            opened(spark, rows * MORE, partitions)
        for said, (text, key) in maintained.items():
            if wanted(said):
                act = functools.partial(kept_up, spark, said, text, key)
                act()
                spark.sql("UPDATE kept.a SET v = v + 1 WHERE pmod(hash(n), 100) = 0")
                one = spread_of(spark, act)
                of_tables = spark.table("kept.a").count() + spark.table("kept.b").count()
                store(said, about(said, "rows") | told(said, one, one["records"] / of_tables))
    return 0


def looked_at(spark: SparkSession) -> Accumulator[int]:
    """How many rows had their event time computed, of the view `dear`."""
    seen = spark.sparkContext.accumulator(0)

    def look(value: int) -> int:
        seen.add(1)
        return value

    spark.udf.register("looked_at", look, "long")
    spark.sql("CREATE TEMP VIEW dear AS SELECT n, k, timestamp_micros(looked_at(unix_micros(ts))) AS ts, v FROM few")
    return seen


def measured(spark: SparkSession, name: str, call: str, way: str, rows: int, seen: Accumulator[int]) -> dict[str, Any]:
    """What a call reads, and how often it evaluates its input; or why it is no plain SQL."""
    try:
        over_all, over_few = (statement(spark, call, way, view) for view in ("t", "dear"))
    except AnalysisException as error:
        if way != PLAIN or "has no plain SQL" not in str(error):
            raise
        return about(name, way) | {"refused": str(error).partition("; line ")[0]}
    one = spread_of(spark, functools.partial(run, spark, over_all))
    if name == "TABLE_HISTORY":
        often = one["records"] / spark.sql("SELECT count(*) FROM table_changes('kept.h', 0)").collect()[0][0]
    else:
        seen.value = 0
        with in_few_tasks(spark):
            run(spark, over_few)
        often = seen.value / min(rows, FEWER) / EACH_ONCE.get(name, 1)
    return about(name, way) | told(named(name, way), one, often)


def about(call: str, way: str) -> dict[str, str]:
    """What was asked, and when."""
    return {"call": call, "way": way, "when": datetime.now(UTC).date().isoformat()}


def named(call: str, way: str) -> str:
    """What a result is called."""
    return call if way == "rows" else f"{call}, {way}"


def names() -> list[str]:
    """Of all results, in order."""
    return [*(named(call, way) for call, (_, outputs) in CALLS.items() for way in ("rows", *outputs, PLAIN)), *MAINTAINED]


def told(said: str, one: dict[str, Any], evaluations: float) -> dict[str, Any]:
    """A line of the table, printed."""
    one["evaluations"] = round(evaluations, 2)
    print(f"{said:60}{one['stages']:8}{one['widest']:7}{one['largest']:9.3f}{one['limit']:16.1f}{evaluations:13.2f}", flush=True)
    return one


def statement(spark: SparkSession, call: str, way: str, view: str) -> str:
    """The call over a view, with that output or as plain SQL."""
    option = f", output => '{way}'" if way not in ("rows", PLAIN) else ""
    text = f"SELECT * FROM {call.format(t=view, o=option)}"
    return streamtime.compile(spark, text) if way == PLAIN else text  # of a query without a call, that is the query


@contextmanager
def in_few_tasks(spark: SparkSession) -> Iterator[None]:
    """As many as suppress needs to spread."""
    before = {name: spark.conf.get(name) for name in (SHUFFLED, READ)}
    for name in before:
        spark.conf.set(name, "16")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def opened(spark: SparkSession, rows: int, partitions: int) -> None:
    """Delta tables with feeds, in as many files."""
    given(spark, rows, partitions).createOrReplaceTempView("more")
    spark.sql(f"CREATE TABLE kept.a {FEED} AS SELECT /*+ REPARTITION({partitions}) */ * FROM more")
    names = f"SELECT /*+ REPARTITION({partitions}) */ DISTINCT k, k % 1000 AS w FROM more"
    spark.sql(f"CREATE TABLE kept.b {FEED} AS {names}")


def kept_up(spark: SparkSession, said: str, text: str, key: str | None) -> None:
    """One run of maintain."""
    target = f"kept.m_{list(MAINTAINED).index(said)}"
    policy: Any = "incremental" if spark.catalog.tableExists(target) else "full"
    receipt = streamtime.maintain(spark, target, text, key=key, policy=policy)
    assert receipt.way == policy, receipt


def given(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Ten rows for each key, one every 0.1 s, up to ten minutes late."""
    return spark.range(0, rows, 1, partitions).selectExpr(
        "id AS n",
        f"pmod(xxhash64(id, 1), {max(rows // 10, 1)}) AS k",
        "timestamp_micros(1704067200000000 + id * 100000 - pmod(xxhash64(id, 2), 600) * 1000000) AS ts",
        "pmod(xxhash64(id, 3), 100) AS v",
    )


def made(spark: SparkSession, folder: str, rows: int, partitions: int) -> None:
    """What calls read; the right side of joins has every other row."""
    given(spark, rows, partitions).write.parquet(f"{folder}/left")
    spark.read.parquet(f"{folder}/left").createOrReplaceTempView("t")
    spark.sql(f"SELECT /*+ REPARTITION({partitions}) */ k, ts AS at, v AS price FROM t WHERE n % 2 = 0").write.parquet(f"{folder}/right")
    spark.read.parquet(f"{folder}/right").createOrReplaceTempView("r")
    spark.sql("CREATE TEMP VIEW gone AS SELECT k, price AS n FROM r WHERE price = 7")
    given(spark, min(rows, FEWER), 4).write.parquet(f"{folder}/few")
    spark.read.parquet(f"{folder}/few").createOrReplaceTempView("few")
    spark.sql(f"CREATE SCHEMA kept LOCATION '{folder}/kept'")
    spark.sql(f"CREATE TABLE kept.h {FEED} AS SELECT /*+ REPARTITION({partitions}) */ * FROM t")
    spark.sql("UPDATE kept.h SET v = v + 1 WHERE pmod(hash(n), 100) = 0")


def run(spark: SparkSession, text: str) -> None:
    spark.sql(text).write.format("noop").mode("overwrite").save()


def spread_of(spark: SparkSession, act: Callable[[], None]) -> dict[str, Any]:
    """What the tasks of what is done read."""
    before = {stage["stageId"] for stage in asked_of(spark, "/stages")}
    start = time.monotonic()
    act()
    took = time.monotonic() - start
    listeners = spark.sparkContext._jsc.sc().listenerBus()  # type: ignore[union-attr]
    listeners.waitUntilEmpty()
    total = path = largest = widest = stages = records = 0
    for stage in asked_of(spark, "/stages?status=complete"):
        if stage["stageId"] in before:
            continue
        tasks = asked_of(spark, f"/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=100000")
        read = [bytes_of(task["taskMetrics"]) for task in tasks if "taskMetrics" in task]
        records += stage["inputRecords"]
        if not any(read):
            continue
        stages, total, path = stages + 1, total + sum(read), path + max(read)
        largest, widest = max(largest, max(read)), max(widest, sum(map(bool, read)))
    return {
        "stages": stages,
        "widest": widest,
        "largest": round(largest / max(total, 1), 3),
        "limit": round(total / max(path, 1), 1),
        "records": records,
        "seconds": round(took, 1),
    }


def bytes_of(metrics: dict[str, Any]) -> int:
    shuffled = metrics["shuffleReadMetrics"]
    return int(metrics["inputMetrics"]["bytesRead"] + shuffled["localBytesRead"] + shuffled["remoteBytesRead"])


def asked_of(spark: SparkSession, path: str) -> Any:
    """What Spark's own REST interface says."""
    context = spark.sparkContext
    with urllib.request.urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}{path}") as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
