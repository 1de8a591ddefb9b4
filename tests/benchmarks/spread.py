"""How far each function spreads over a cluster, and how often it evaluates its input: `python3 run.py benchmark spread`.

It counts bytes, not seconds, from Spark's own task metrics, so it says the same on any machine, however busy. For each call: the bytes that
all tasks read, over those of the critical path, which is the largest task of each stage, added. That is the speed-up which a cluster with
endless cores could give; `largest` is the share of all bytes that one task reads. The input is a Parquet table of N rows in P files, a
task reads one of them, as where a cluster has P cores, and a shuffle has P partitions. Evaluations: how many rows a Python function in the
TABLE argument sees, over N.

Of maintain, the bytes are those of one run after a commit that changes one row of a hundred, of tables with ten times as many rows, in as many
files; and in place of evaluations, all rows that are read from files, over those of its tables.

    --rows 1e6 --partitions 64    what is measured
    --only SUPPRESS               calls whose name has this in it
    --output                      every output of each function, not only 'rows'

The results are stored in spread.json beside this file, each with its date, those of --only where rows and partitions are the same;
docs/scale.md has the table.
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
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import streamtime
from streamtime.sql.tables.applied import Applied

HERE = Path(__file__).parent
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
REPORTS = ("dropped", "all", "metrics")
IN_ORDER = "TABLE({t}) PARTITION BY k ORDER BY ts"
CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "DEDUPLICATE, event order": ("DEDUPLICATE(TABLE({t}) PARTITION BY k ORDER BY ts, within => INTERVAL 6 HOURS{o})", REPORTS),
    "DEDUPLICATE, arrival order": ("DEDUPLICATE(" + FIELDS + ", within => INTERVAL 6 HOURS{o})", REPORTS),
    "DISTINCT_IN_WINDOW, arrival order": ("DISTINCT_IN_WINDOW(" + FIELDS + ", size => INTERVAL 1 HOUR{o})", REPORTS),
    "SESSIONIZE, event order": ("SESSIONIZE(TABLE({t}) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 HOUR{o})", REPORTS),
    "SESSIONIZE, arrival order": ("SESSIONIZE(" + FIELDS + ", gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES{o})", REPORTS),
    "WINDOW_UPDATES": (WINDOWS, (*REPORTS, "explain")),
    "WINDOW_UPDATES, final": (WINDOWS.replace("{o}", ", emit => 'final'{o}"), ()),
    "SESSION_UPDATES": (SESSIONS, (*REPORTS, "explain")),
    "SESSION_UPDATES, final": (SESSIONS.replace("{o}", ", emit => 'final'{o}"), ()),
    "WINDOW_UPDATES, hopping": (WINDOWS.replace("{o}", ", slide => INTERVAL 20 MINUTES{o}"), ()),
    "WINDOW_UPDATES, hopping, final": (WINDOWS.replace("{o}", ", slide => INTERVAL 20 MINUTES, emit => 'final'{o}"), ()),
    "WINDOW_UPDATES, sliding": (WINDOWS.replace("size => INTERVAL 1 HOUR", "difference => INTERVAL 1 MINUTE"), ()),
    "WINDOW_UPDATES, final, event order": (WINDOWS.replace(FIELDS, IN_ORDER).replace("{o}", ", emit => 'final'{o}"), ()),
    "SESSION_UPDATES, final, event order": (SESSIONS.replace(FIELDS, IN_ORDER).replace("{o}", ", emit => 'final'{o}"), ()),
    "DISTINCT_IN_WINDOW, event order": (f"DISTINCT_IN_WINDOW({IN_ORDER}, size => INTERVAL 1 HOUR{{o}})", REPORTS),
    "DISTINCT_IN_WINDOW, gap": (f"DISTINCT_IN_WINDOW({FIELDS}, gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES{{o}})", REPORTS),
    "SUPPRESS_UNTIL_CLOSE of WINDOW_UPDATES": (
        f"SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM {WINDOWS.replace('{o}', '')}) PARTITION BY (k, window_start) "
        "ORDER BY (n, change_seq), time => 'change_time'{o})",
        (*REPORTS, "explain"),
    ),
    "SUPPRESS_UNTIL_TIME_LIMIT": ("SUPPRESS_UNTIL_TIME_LIMIT(" + FIELDS + ", wait => INTERVAL 10 MINUTES{o})", (*REPORTS, "explain")),
    "SUPPRESS_UNTIL_TIME_LIMIT, one buffer": (
        "SUPPRESS_UNTIL_TIME_LIMIT(" + FIELDS + ", wait => INTERVAL 10 MINUTES, max_records => 100000, when_full => 'spill'{o})",
        (),
    ),
    "VERSIONS, event order": ("VERSIONS(TABLE({t}) PARTITION BY k ORDER BY ts{o})", REPORTS),
    "VERSIONS, arrival order": ("VERSIONS(" + FIELDS + ", grace => INTERVAL 10 MINUTES{o})", REPORTS),
    "AS_OF_JOIN": ("AS_OF_JOIN(TABLE({t}) PARTITION BY k ORDER BY ts, TABLE(r) PARTITION BY k ORDER BY at{o})", ()),
    "JOIN_CHANGES": (JOIN.format(key="k", o="{o}"), ("explain",)),
    "JOIN_CHANGES, versioned": (JOIN.format(key="k", o=", versioned => ARRAY('left', 'right'){o}"), ()),
    "JOIN_CHANGES, versioned with retention": (
        JOIN.format(key="k", o=", versioned => ARRAY('left', 'right'), retention => INTERVAL 1 DAY{o}"),
        REPORTS,
    ),
    "JOIN_CHANGES, foreign key": (JOIN.format(key="n", o=", on => 'k'{o}"), (*REPORTS, "explain")),
    "FILTER_CHANGES": ("FILTER_CHANGES(" + FIELDS + ", condition => 'v > 50'{o})", ("explain",)),
    "AGGREGATE_CHANGES": (
        "AGGREGATE_CHANGES(TABLE(SELECT n, ts, k % 1000 AS g, v, k FROM {t}) PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('g'),"
        " aggregates => 'count(*) AS c, sum(v) AS s, max(v) AS m'{o})",
        (),
    ),
    "apply_changes, what is merged": (APPLIED.merge.partition("USING ")[2].rpartition(" AS s")[0], ()),
    "AS_OF_JOIN, arrival": (
        "AS_OF_JOIN(TABLE(SELECT *, n AS arr FROM {t}) PARTITION BY k ORDER BY ts, "
        "TABLE(SELECT *, unix_micros(at) div 100000 AS arr FROM r) PARTITION BY k ORDER BY at, arrival => 'arr'{o})",
        (),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", action="store_true")
    asked = parser.parse_args()
    rows, partitions = int(asked.rows), asked.partitions
    spark = streamtime.session(
        cores=2,
        memory="4g",
        settings={
            "spark.ui.enabled": "true",
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.files.minPartitionNum": str(partitions),  # two cores would read all small files in two tasks
        },
    )
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made(spark, folder, rows, partitions)
        seen = spark.sparkContext.accumulator(0)

        def looked_at(value: int) -> int:
            seen.add(1)
            return value

        spark.udf.register("looked_at", looked_at, "long")
        spark.sql("CREATE TEMP VIEW dear AS SELECT n, k, timestamp_micros(looked_at(unix_micros(ts))) AS ts, v FROM t")
        print(f"{'call':52}{'stages':>8}{'tasks':>7}{'largest':>9}{'speed-up limit':>16}{'evaluations':>13}", flush=True)
        for name, (call, outputs) in CALLS.items():
            for output in ("rows", *(outputs if asked.output else ())):
                said = name if output == "rows" else f"{name}, {output}"
                if asked.only not in said:
                    continue
                option = "" if output == "rows" else f", output => '{output}'"
                one = spread_of(spark, functools.partial(run, spark, call.format(t="t", o=option)))
                seen.value = 0
                run(spark, call.format(t="dear", o=option))
                found[said] = told(said, one, seen.value / rows)
        if any(asked.only in said for said in MAINTAINED):
            opened(spark, folder, rows * MORE, partitions)
        for said, (text, key) in MAINTAINED.items():
            if asked.only in said:
                act = functools.partial(kept_up, spark, said, text, key)
                act()
                spark.sql("UPDATE kept.a SET v = v + 1 WHERE pmod(hash(n), 100) = 0")
                one = spread_of(spark, act)
                found[said] = told(said, one, one["records"] / (spark.table("kept.a").count() + spark.table("kept.b").count()))
    known = json.loads((HERE / "spread.json").read_text()) if asked.only and (HERE / "spread.json").exists() else {}
    if not asked.only or (known["rows"], known["partitions"]) == (rows, partitions):
        found = known.get("calls", {}) | found
        about = {"rows": rows, "partitions": partitions, "pyspark": spark.version, "python": platform.python_version()}
        (HERE / "spread.json").write_text(json.dumps({**about, "calls": found}, indent=1) + "\n")
    return 0


def told(said: str, one: dict[str, Any], evaluations: float) -> dict[str, Any]:
    """A line of the table, printed."""
    one |= {"evaluations": round(evaluations, 2), "when": datetime.now(UTC).date().isoformat()}
    print(f"{said:52}{one['stages']:8}{one['widest']:7}{one['largest']:9.3f}{one['limit']:16.1f}{evaluations:13.2f}", flush=True)
    return one


def opened(spark: SparkSession, folder: str, rows: int, partitions: int) -> None:
    """Delta tables with feeds, in as many files."""
    given(spark, rows, partitions).createOrReplaceTempView("more")
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
    spark.sql(f"CREATE SCHEMA kept LOCATION '{folder}/kept'")
    spark.sql(f"CREATE TABLE kept.a {feed} AS SELECT /*+ REPARTITION({partitions}) */ * FROM more")
    names = f"SELECT /*+ REPARTITION({partitions}) */ DISTINCT k, k % 1000 AS w FROM more"
    spark.sql(f"CREATE TABLE kept.b {feed} AS {names}")


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


def run(spark: SparkSession, call: str) -> None:
    spark.sql(f"SELECT * FROM {call}").write.format("noop").mode("overwrite").save()


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
