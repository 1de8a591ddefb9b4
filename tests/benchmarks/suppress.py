"""SUPPRESS against bare shuffle + sort of the same rows, side by side in one process: `python3 run.py benchmark suppress`.

UNTIL_CLOSE is asked over rows with a day, which the query computes; its floor is shuffle + sort of those rows, by key and day.

Every contestant reads the same Parquet file and writes to the noop sink. Rounds are interleaved, the first is not counted, medians are
compared. Prints a table of ratios; writes suppress.json beside this file. With `--spread` it compares many tasks with one buffer instead, and
writes suppress_spread.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from contestants.measured_on import today
from deduplicate import MILLION, Memory, data, interleaved
from pyspark.sql import DataFrame, SparkSession

import streamtime

HERE = Path(__file__).parent
FLOOR, DAYS_FLOOR = "shuffle + sort", "shuffle + sort, with days"
DAYS = "SELECT *, date_trunc('DAY', ts) AS day FROM {}"
TIME_LIMIT = "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE({}) PARTITION BY k ORDER BY off, time => 'ts', wait => INTERVAL {}{})"
CLOSE = (
    f"SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE({DAYS}) PARTITION BY (k, day) "
    "ORDER BY off, time => 'ts', window_end => 'day + INTERVAL 1 DAY', grace => INTERVAL 1 HOUR{})"
)


def floors(spark: SparkSession, view: str) -> dict[str, Callable[[], DataFrame]]:
    """Bare shuffle + sort of the rows, and of the rows with days."""
    return {
        FLOOR: lambda: spark.table(view).repartition("k").sortWithinPartitions("k", "ts"),
        DAYS_FLOOR: lambda: spark.sql(DAYS.format(view)).repartition("k", "day").sortWithinPartitions("k", "day", "ts"),
    }


def contestants(spark: SparkSession, view: str) -> dict[str, Callable[[], DataFrame]]:
    """What is compared on one data set."""
    queries = {
        "UNTIL_CLOSE, days": CLOSE.format(view, ""),
        "UNTIL_TIME_LIMIT 6 hours": TIME_LIMIT.format(view, "6 HOURS", ""),
        "UNTIL_TIME_LIMIT for ever": TIME_LIMIT.format(view, "1000 DAYS", ""),
    }
    return floors(spark, view) | {name: (lambda text=text: spark.sql(text)) for name, text in queries.items()}


def bounded(spark: SparkSession, view: str) -> dict[str, Callable[[], DataFrame]]:
    """What a bound costs: row by row, or in files."""
    bound = ", max_records => 50000, when_full => '{}'"
    queries = {
        "UNTIL_TIME_LIMIT, emit_early": TIME_LIMIT.format(view, "1000 DAYS", bound.format("emit_early")),
        "UNTIL_TIME_LIMIT, spill": TIME_LIMIT.format(view, "1000 DAYS", bound.format("spill")),
        "UNTIL_CLOSE, metrics": CLOSE.format(view, ", output => 'metrics'"),
        "UNTIL_CLOSE, all": CLOSE.format(view, ", output => 'all'"),
        "UNTIL_CLOSE, explain": CLOSE.format(view, ", output => 'explain'"),
    }
    return floors(spark, view) | {name: (lambda text=text: spark.sql(text)) for name, text in queries.items()}


def spread(spark: SparkSession, folder: Path, rows: int, rounds: int) -> None:
    """What it costs to spread, where there are not the cores for it."""
    data(spark, folder, "spread", rows, rows // 10)
    kept = ("UNTIL_CLOSE, days", "UNTIL_TIME_LIMIT 6 hours")
    runs: dict[str, Callable[[], DataFrame]] = {}
    for name, partitions in (("one buffer", "4"), ("spread", "16")):
        for contestant, make in contestants(spark, "spread").items():
            if contestant in (FLOOR, DAYS_FLOOR, *kept):
                runs[f"{contestant}: {name}"] = lambda make=make, partitions=partitions: set_to(spark, partitions, make)  # type: ignore[misc]
    found = interleaved(runs, rounds)
    medians = {name: statistics.median(times) for name, times in found.items()}
    for name, took in medians.items():
        print(f"  {name:40} {took:8.3f} s")
    written = {
        **today(2), "rows": rows, "rounds": rounds,
        "load_average": os.getloadavg()[0], "median_seconds": medians, "seconds": found,
    }  # fmt: skip
    (HERE / "suppress_spread.json").write_text(json.dumps(written, indent=1) + "\n")


def set_to(spark: SparkSession, partitions: str, make: Callable[[], DataFrame]) -> DataFrame:
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    return make()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5 * MILLION)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--growth", default="1,5,20", help="millions of rows, for the growth of cost")
    parser.add_argument("--only-500k-keys", action="store_true", help="measure one data set, write nothing")
    parser.add_argument("--spread", action="store_true", help="many tasks beside one buffer, over 2 million rows")
    options = parser.parse_args()
    spark = streamtime.session(cores=options.cores, memory="6g")
    if options.spread:
        with tempfile.TemporaryDirectory() as name:
            spread(spark, Path(name), min(options.rows, 2 * MILLION), options.rounds)
        spark.stop()
        return
    memory, results = Memory(), dict[str, dict[str, list[float]]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shapes = {"500k keys": (500_000, False), "50 keys": (50, False), "one hot key": (500_000, True)}
        for shape, (keys, hot) in list(shapes.items())[: 1 if options.only_500k_keys else None]:
            view = shape.replace(" ", "_")
            print(f"[{shape}: {options.rows:,} rows, {options.rounds} rounds ..]", flush=True)
            data(spark, folder, view, options.rows, keys, hot)
            results[shape] = interleaved(contestants(spark, view), options.rounds)
        if not options.only_500k_keys:
            print("[bounds and outputs ..]", flush=True)
            results["bounds and outputs, 500k keys"] = interleaved(bounded(spark, "500k_keys"), options.rounds)
            growth: dict[str, list[float]] = {}
            for millions in map(int, options.growth.split(",")):
                print(f"[growth: {millions}M rows ..]", flush=True)
                data(spark, folder, f"g{millions}", millions * MILLION, 100_000 * millions)
                for contestant, times in interleaved(contestants(spark, f"g{millions}"), options.rounds).items():
                    growth[f"{contestant}, {millions}M"] = times
            results["growth"] = growth
    memory.stop.set()
    medians = {shape: {n: statistics.median(t) for n, t in times.items()} for shape, times in results.items()}
    for shape, times in medians.items():
        print(shape)
        for contestant, took in times.items():
            base = times.get(DAYS_FLOOR if "CLOSE" in contestant else FLOOR)
            ratio = f"{took / base:8.2f}x" if base else f"{took / float(contestant.rpartition(' ')[2][:-1]):8.3f} s per million rows"
            print(f"  {contestant:32} {took:8.3f} s {ratio}")
    peak = {"jvm_mb": round(memory.jvm), "python_worker_mb": round(memory.worker)}
    print(f"peak memory: {peak}")
    if not options.only_500k_keys:
        written = {
            **today(options.cores), "rows": options.rows, "rounds": options.rounds,
            "peak_memory": peak, "median_seconds": medians, "seconds": results,
        }  # fmt: skip
        (HERE / "suppress.json").write_text(json.dumps(written, indent=1) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
