"""maintain() beside computing anew: a join of two tables, totals over it, and DEDUPLICATE, at several rates of change.

    python3 run.py benchmark maintain --rows 2e6 --rounds 2

Two tables are kept by the same query, one by each way. In each round, for each rate, rows of a source are changed; then both tables are
brought up to date, one after the other, the first one by turns. A ratio is that of the full way to the incremental one: above 1, following
the changes is cheaper. `crosses` is the rate at which they cost the same, between the two rates where the ratio passes 1.

Before, `auto` is asked which way it would go (`explain=True`); it knows what the runs before took. It is right where that way took less
time, or at most a tenth more. CPU is that of the JVM and of Python's workers, which other programs on the machine change little.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tabulate import tabulate

import streamtime

QUERIES = {
    "join": ("SELECT a.id, a.k, a.v, b.w FROM bench.a AS a JOIN bench.b AS b ON a.k = b.k", "id"),
    "totals of a join": ("SELECT b.g, count(*) AS n, sum(a.v) AS v FROM bench.a AS a JOIN bench.b AS b ON a.k = b.k GROUP BY b.g", None),
    "DEDUPLICATE": ("SELECT * FROM DEDUPLICATE(TABLE(bench.a) PARTITION BY k ORDER BY ts, within => INTERVAL 10 MINUTES)", None),
}
WAYS = ("full", "incremental")
ONE_ROW = "one row deleted"
CLOSE = 1.1  # two ways that took so nearly the same that either is right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rates", default="0.0001,0.01,0.2")
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    rows, rates = int(options.rows), [0.0, *map(float, options.rates.split(","))]
    lines: list[dict[str, Any]] = []
    crosses: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        spark = streamtime.session(
            cores=options.cores, memory="6g", settings={"spark.sql.warehouse.dir": folder, "spark.sql.shuffle.partitions": "8"}
        )
        made(spark, rows)
        for name in options.queries.split(","):
            measured = rounds(spark, name, rows, rates, options.rounds)
            lines += (found := [summed(name, rate, [m for m in measured if m["rate"] == rate]) for rate in rates])
            crosses[name] = crossing([(line["rate"], line["ratio"]) for line in found if line["rate"]])
    print(tabulate([{**line, "rate": f"{line['rate']:.2%}" if line["rate"] else ONE_ROW} for line in lines], headers="keys"))
    asked, right = (sum(line[name] for line in lines) for name in ("asked", "auto right"))
    print(f"crosses: {crosses}; auto chose the cheaper way {right} of {asked} times")
    written = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": options.cores, "cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "rows": rows,
        "rounds": options.rounds,
        "auto": {"asked": asked, "right": right},
        "crosses": crosses,
        "lines": lines,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(written, indent=1) + "\n")


def made(spark: SparkSession, rows: int) -> None:
    spark.sql("CREATE SCHEMA bench")
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
    spark.sql(
        f"CREATE TABLE bench.a {feed} AS SELECT id, pmod(hash(id), {rows}) AS k, id * 7 % 1000 AS v, "
        f"timestamp_seconds(pmod(hash(id, 1), 10000000)) AS ts FROM range({rows})"
    )
    spark.sql(f"CREATE TABLE bench.b {feed} AS SELECT id AS k, id * 3 % 77 AS w, id % {max(rows // 50, 1)} AS g FROM range({rows})")


def rounds(spark: SparkSession, name: str, rows: int, rates: list[float], count: int) -> list[dict[str, Any]]:
    """What each round took at each rate."""
    text, key = QUERIES[name]
    for way in WAYS:
        spark.sql(f"DROP TABLE IF EXISTS bench.m_{way}")
        streamtime.maintain(spark, f"bench.m_{way}", text, key=key)
    found = []
    for number in range(count):
        for place, rate in enumerate(rates):
            changed(spark, rows, rate, seed=number * len(rates) + place)
            asked = streamtime.maintain(spark, "bench.m_incremental", text, key=key, explain=True).way
            one: dict[str, Any] = {"rate": rate, "auto": asked}
            for way in WAYS if number % 2 == 0 else reversed(WAYS):
                begun, used = time.monotonic(), cpu()
                receipt = streamtime.maintain(spark, f"bench.m_{way}", text, key=key, policy=way)
                one |= {way: time.monotonic() - begun, f"{way} CPU": cpu() - used}
                assert receipt.way == way, receipt
            found.append(one)
            took = "  ".join(f"{way} {one[way]:.1f} s ({one[f'{way} CPU']:.1f} s of CPU)" for way in WAYS)
            print(f"{name:18} {rate:8g}  {took}  auto: {asked}", flush=True)
    return found


def changed(spark: SparkSession, rows: int, rate: float, seed: int) -> None:
    """Rows of a source, spread over all of it; of no rate, one row goes."""
    if rate:
        spark.sql(f"UPDATE bench.a SET v = v + 1 WHERE pmod(hash(id, {seed}), {rows}) < {max(1, int(rows * rate))}")
    else:
        spark.sql(f"DELETE FROM bench.a WHERE id = {rows // 2 + seed}")


def cpu() -> float:
    """Seconds that the processes below this one have used: the JVM, Python's workers, and those of them that ended."""
    used, below = 0, [str(os.getpid())]
    while below:
        parent = below.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            below += task.read_text().split()
        if parent != str(os.getpid()):
            try:
                used += sum(map(int, Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[11:15]))
            except FileNotFoundError:  # it ended meanwhile, and its parent has its time
                continue
    return used / os.sysconf("SC_CLK_TCK")


def summed(name: str, rate: float, measured: list[dict[str, Any]]) -> dict[str, Any]:
    """A line of the table: medians, and how often `auto` was right."""
    ratios = [m["full"] / m["incremental"] for m in measured]
    right = [m["auto"] == min(WAYS, key=lambda way: m[way]) or 1 / CLOSE < ratio < CLOSE for m, ratio in zip(measured, ratios, strict=True)]
    medians = {k: round(statistics.median(m[k] for m in measured), 1) for k in ("full", "incremental", "full CPU", "incremental CPU")}
    of_cpu = statistics.median(m["full CPU"] / m["incremental CPU"] for m in measured)
    spread = {"ratio": round(statistics.median(ratios), 2), "ratios from": round(min(ratios), 2), "to": round(max(ratios), 2)}
    auto = {"auto": ", ".join(m["auto"] for m in measured), "auto right": sum(right), "asked": len(right)}
    return {"query": name, "rate": rate, **medians, **spread, "ratio of CPU": round(of_cpu, 2), **auto}


def crossing(points: list[tuple[float, float]]) -> float | None:
    """The rate at which the ratio is 1, on a line between two rates, both of logarithms; None where it is on one side of it for all."""
    for (low, above), (high, below) in pairwise(points):
        if above >= 1 > below:
            part = math.log(above) / (math.log(above) - math.log(below))
            return round(math.exp(math.log(low) + part * (math.log(high) - math.log(low))), 6)
    return None


if __name__ == "__main__":
    main()
