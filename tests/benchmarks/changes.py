"""The functions of changelogs beside bare shuffle + sort of the same rows: `python3 run.py benchmark changes`.

Half of the rows are changes of the left side, half of the right one, or all of them changes of one table; one in ten deletes. A chained join
has these two sides, and the one table as a third. Bare is Spark's shuffle by key and sort by key and order of the same columns, once. Each round runs bare and every call, one after the other, in an order
of its own; a ratio is the median of those of the rounds. Beside seconds it counts those of the processor, of this process and all that it
started, which say the same on a busy machine. Results of other sizes stay in changes.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from contestants.measured_on import today
from pyspark.sql import SparkSession
from tabulate import tabulate

import streamtime

HERE = Path(__file__).parent
SIDES = "TABLE(l) PARTITION BY k ORDER BY n, TABLE(r) PARTITION BY k ORDER BY n, time => 'ts', deleted => 'gone'"
GROUPS = "TABLE(t) PARTITION BY k ORDER BY n, time => 'ts', deleted => 'gone', group_by => ARRAY('g')"
FOREIGN = (  # five changes of each left row, which names a row of the right side
    "TABLE(SELECT *, n DIV 10 AS id FROM l) PARTITION BY id ORDER BY n, TABLE(r) PARTITION BY k ORDER BY n, time => 'ts', deleted => 'gone', "
    "on => 'k'"
)
JOINED = f"SELECT k, n, change_seq, change_time, change_type, v, w FROM JOIN_CHANGES({SIDES})"
THIRD = "SELECT k, n, 0L AS change_seq, ts AS change_time, if(gone, 'delete', 'upsert') AS change_type, g FROM t"
CHAIN = f"TABLE({JOINED}) PARTITION BY k ORDER BY (n, change_seq), TABLE({THIRD}) PARTITION BY k ORDER BY (n, change_seq), time => 'change_time'"
PART = "TABLE(t) PARTITION BY k ORDER BY n, time => 'ts', deleted => 'gone', condition => 'v > 50'"
BARE_JOIN, BARE_CHAIN = "bare shuffle + sort of both sides", "bare shuffle + sort of three sides"
BARE_TOTALS = "bare shuffle + sort of the changes"
CALLS = {
    "JOIN_CHANGES, inner": (BARE_JOIN, f"JOIN_CHANGES({SIDES})"),
    "JOIN_CHANGES, outer": (BARE_JOIN, f"JOIN_CHANGES({SIDES}, join_type => 'outer')"),
    "JOIN_CHANGES, versioned": (BARE_JOIN, f"JOIN_CHANGES({SIDES}, versioned => ARRAY('left', 'right'))"),
    "JOIN_CHANGES, explain": (BARE_JOIN, f"JOIN_CHANGES({SIDES}, output => 'explain')"),
    "JOIN_CHANGES, foreign key": (BARE_JOIN, f"JOIN_CHANGES({FOREIGN})"),
    "JOIN_CHANGES, of a join": (BARE_CHAIN, f"JOIN_CHANGES({CHAIN})"),
    "FILTER_CHANGES, a condition": (BARE_TOTALS, f"FILTER_CHANGES({PART})"),
    "FILTER_CHANGES, explain": (BARE_TOTALS, f"FILTER_CHANGES({PART}, output => 'explain')"),
    "AGGREGATE_CHANGES, count and sum": (BARE_TOTALS, f"AGGREGATE_CHANGES({GROUPS}, aggregates => 'count(*) AS c, sum(v) AS s')"),
    "AGGREGATE_CHANGES, max": (BARE_TOTALS, f"AGGREGATE_CHANGES({GROUPS}, aggregates => 'max(v) AS m')"),
    "AGGREGATE_CHANGES, sum of DOUBLE": (BARE_TOTALS, f"AGGREGATE_CHANGES({GROUPS}, aggregates => 'sum(d) AS s')"),
    "AGGREGATE_CHANGES, explain": (
        BARE_TOTALS,
        f"AGGREGATE_CHANGES({GROUPS}, aggregates => 'count(*) AS c, sum(v) AS s', output => 'explain')",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    rows = int(options.rows)
    spark = streamtime.session(cores=options.cores, memory="6g", settings={"spark.sql.adaptive.enabled": "false"})
    with tempfile.TemporaryDirectory() as folder:
        made(spark, folder, rows)
        bare = {
            BARE_JOIN: "SELECT k, n, ts, v, gone FROM l UNION ALL SELECT k, n, ts, w, gone FROM r",
            BARE_CHAIN: (
                "SELECT k, n, ts, v, gone FROM l UNION ALL SELECT k, n, ts, w, gone FROM r UNION ALL SELECT k, n, ts, g, gone FROM t"
            ),
            BARE_TOTALS: "SELECT k, n, ts, v, g, gone FROM t",
        }
        seconds: dict[str, list[float]] = {name: [] for name in (*bare, *CALLS)}
        cpu: dict[str, list[float]] = {name: [] for name in seconds}
        for number in range(options.rounds + 1):
            for name in random.sample(list(seconds), len(seconds)):
                used, began = cpu_seconds(), time.perf_counter()
                if name in bare:
                    df = spark.sql(bare[name]).repartition(4, "k").sortWithinPartitions("k", "n")
                else:
                    df = spark.sql(f"SELECT * FROM {CALLS[name][1]}")
                df.write.format("noop").mode("overwrite").save()
                if number:  # the first round warms up
                    seconds[name].append(time.perf_counter() - began)
                    cpu[name].append(cpu_seconds() - used)
            print(f"[round {number} of {options.rounds} ..]", flush=True)
    lines: list[dict[str, Any]] = []
    for name, (against, _) in CALLS.items():
        ratios, of_cpu = ([one / other for one, other in zip(of[name], of[against], strict=True)] for of in (seconds, cpu))
        lines.append(
            {
                "call": name,
                "rows": rows,
                "seconds": round(statistics.median(seconds[name]), 2),
                "bare": round(statistics.median(seconds[against]), 2),
                "ratio": round(statistics.median(ratios), 2),
                "ratios from": round(min(ratios), 2),
                "to": round(max(ratios), 2),
                "cpu seconds": round(statistics.median(cpu[name]), 2),
                "cpu ratio": round(statistics.median(of_cpu), 2),
            }
        )
    print(tabulate(lines, headers="keys", floatfmt=".2f", intfmt=","))
    results = HERE / "changes.json"
    others = [line for line in json.loads(results.read_text())["lines"] if line["rows"] != rows] if results.exists() else []
    written = {
        **today(options.cores),
        "rounds": options.rounds,
        "lines": sorted([*others, *lines], key=lambda line: line["rows"]),
    }
    results.write_text(json.dumps(written, indent=1) + "\n")


def cpu_seconds() -> float:
    """Seconds of the processor that this process used, and all that it started."""
    used, children = {}, defaultdict(list)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children[int(fields[1])].append(int(process.name))
        used[int(process.name)] = sum(map(int, fields[11:15]))  # its own, and of those of its children that have ended
    mine, found = [os.getpid()], 0
    while mine:
        process_id = mine.pop()
        found += used.get(process_id, 0)
        mine += children[process_id]
    return found / os.sysconf("SC_CLK_TCK")


def made(spark: SparkSession, folder: str, rows: int) -> None:
    """Ten changes of each key, in any order of time; groups of about a thousand keys."""
    spark.sql("SET spark.sql.shuffle.partitions = 4")
    spark.range(0, rows, 1, 4).selectExpr(
        "id AS n",
        f"pmod(xxhash64(id, 1), {max(rows // 10, 1)}) AS k",
        "timestamp_micros(1704067200000000 + id * 100000 - pmod(xxhash64(id, 2), 600) * 1000000) AS ts",
        "pmod(xxhash64(id, 3), 100) AS v",
        "pmod(xxhash64(id, 3), 100) / 7D AS d",
        f"pmod(xxhash64(id, 5), {max(rows // 10_000, 1)}) AS g",
        "pmod(xxhash64(id, 4), 10) = 0 AS gone",
    ).write.parquet(f"{folder}/t")
    spark.read.parquet(f"{folder}/t").createOrReplaceTempView("t")
    spark.sql("SELECT n, k, ts, v, gone FROM t WHERE n % 2 = 0").write.parquet(f"{folder}/l")
    spark.sql("SELECT n, k, ts, v AS w, gone FROM t WHERE n % 2 = 1").write.parquet(f"{folder}/r")
    for side in "lr":
        spark.read.parquet(f"{folder}/{side}").createOrReplaceTempView(side)


if __name__ == "__main__":
    main()
