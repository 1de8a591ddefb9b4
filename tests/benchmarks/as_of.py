"""AS_OF_JOIN side by side with what else answers the same question: `python3 run.py benchmark as_of`.

Contestants read the same Parquet files, written once per shape; those on Spark write to the noop sink, the others make all columns as Arrow
data. All have two cores and the same memory. First each gives a checksum of its result on few rows of the same shape, which must be the same
for all; then rounds are interleaved, the first is not counted, medians are compared. The floor is the bare shuffle by key + sort by key and
time of both sides.

Spark 4.3 lives in a virtual environment of its own, in a process of its own, and has a floor of its own; DuckDB and Polars in another. tempo
is imported into this process. All of them are installed by this script into a temporary folder (or into --environments, which it keeps), and
left out where that fails. A shape: `--keys 50 --columns 30 --rows 2e6`. With `--hot 100e6`, nothing but that many rows, half of
them on each side, all of one key, in a driver of 2 GB: time and peak memory. Results are merged into as_of.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contestants.measured_on import today
from contestants.own_process import Child, Run, pip, python_with
from contestants.plain import FLOOR, SETTINGS, checksum, floor, noop, sides
from deduplicate import SPAN, Memory
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import streamtime

HERE = Path(__file__).parent
OURS, INTERVALS, TEMPO = "AS_OF_JOIN", "lead + interval join", "tempo {} asofJoin"
CALL = "SELECT * FROM AS_OF_JOIN(TABLE(l) PARTITION BY k ORDER BY ts, TABLE(r) PARTITION BY k ORDER BY ts, join_type => 'left')"
MANY = 40_000
FEW = 20_000
KEYS = {"40000": "40k keys", "50": "50 keys", "hot": "one hot key"}
MOST_ROWS_A_KEY = 1_000  # the interval join compares all rows of a key on one side with all on the other
PACKAGES = {
    "tempo": ("dbl-tempo==0.1.30", "ipython", "scipy"),
    "spark_native": ("pyspark==4.3.0",),
    "one_process": ("duckdb", "polars", "pyarrow"),
}


def side(spark: SparkSession, rows: int, keys: str, columns: int, letter: str) -> DataFrame:
    """k, ts and so many payload columns: the row's number, then doubles, strings and longs in turn. Times are unique; rows lie in
    random order. `hot`: one key has half of the rows, and 40,000 the others.
    """
    seed = F.lit(ord(letter))
    key = F.pmod(F.xxhash64("id", seed), F.lit(MANY if keys == "hot" else int(keys)))
    if keys == "hot":
        key = F.when(F.col("id") % 2 == 0, F.lit(0)).otherwise(key)
    step = SPAN // rows
    ts = F.timestamp_micros(F.col("id") * F.lit(step) + F.pmod(F.xxhash64("id", seed, F.lit(1)), F.lit(step)))
    payload = [F.col("id").alias(f"{letter}0")]
    for i in range(1, columns):
        noise = F.xxhash64("id", seed, F.lit(i + 1))
        kinds = (noise, noise / F.lit(2.0**64), F.concat(F.lit("/page/"), F.pmod(noise, F.lit(10_000))))
        payload.append(kinds[i % 3].alias(f"{letter}{i}"))
    return spark.range(rows, numPartitions=8).select(key.cast("long").alias("k"), ts.alias("ts"), *payload)


def data(spark: SparkSession, folder: Path, rows: int, keys: str, columns: int) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for name, letter in (("l", "a"), ("r", "b")):
        shuffled = F.xxhash64(f"{letter}0")
        made = side(spark, rows, keys, columns, letter)
        made.repartition(8, shuffled).sortWithinPartitions(shuffled).write.parquet(str(folder / name))


def interval_join(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.sparkSession.sql(
        "SELECT l.*, v.* EXCEPT (until) FROM l LEFT JOIN (SELECT *, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS until FROM r) v "
        "ON l.k = v.k AND l.ts >= v.ts AND (v.until IS NULL OR l.ts < v.until)"
    )


def union(left: DataFrame, right: DataFrame) -> DataFrame:
    rights = right.select("k", "ts", F.lit(0).alias("side"), F.struct("*").alias("r"))
    both = left.withColumn("side", F.lit(1)).unionByName(rights, allowMissingColumns=True)
    window = "OVER (PARTITION BY k ORDER BY ts, side ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    met = both.withColumn("met", F.expr(f"last_value(r) IGNORE NULLS {window}"))
    return met.where("side = 1").select(*left.columns, "met.*")


def on_spark(spark: SparkSession, make: Callable[[DataFrame, DataFrame], DataFrame], right_id: str = "b0") -> Run:
    def run(folder: Path, check: bool) -> float | list[int]:
        joined = make(*sides(spark, folder))
        return checksum(joined, right_id) if check else noop(joined)

    return run


def ours(spark: SparkSession) -> dict[str, Run]:
    """What needs nothing but Spark and this pack."""
    return {
        FLOOR: lambda folder, check: [] if check else floor(spark, folder),
        OURS: on_spark(spark, lambda left, right: spark.sql(CALL)),
        INTERVALS: on_spark(spark, interval_join),
        "union + last_value": on_spark(spark, union),
    }


def tempo(spark: SparkSession, packages: Path) -> dict[str, Run]:
    """tempo's join as its documentation shows it: no prefix on the left, `right` on the right, nulls skipped."""
    target = packages / "tempo"
    if not (target / "tempo").exists():
        pip(sys.executable, "--target", str(target), *PACKAGES["tempo"])
    sys.path.append(str(target))
    from tempo import TSDF  # type: ignore[import-not-found]

    def join(left: DataFrame, right: DataFrame) -> DataFrame:
        joined: DataFrame = TSDF(left, "ts", ["k"]).asofJoin(TSDF(right, "ts", ["k"]), right_prefix="right").df
        return joined

    return {TEMPO.format(PACKAGES["tempo"][0].partition("==")[2]): on_spark(spark, join, "right_b0")}


def others(spark: SparkSession, packages: Path, options: argparse.Namespace) -> tuple[dict[str, Run], list[Child]]:
    """What has to be installed first, as far as that works."""
    runs: dict[str, Run] = {}
    children: list[Child] = []
    for name in options.others.split(",") if options.others else ():
        try:
            if name == "tempo":
                runs |= tempo(spark, packages)
            else:
                python = python_with(PACKAGES[name], packages / name)
                children.append(Child(name, python, str(options.cores), options.memory, log=packages / f"{name}.log", limit=options.limit))
                runs |= children[-1].runs()
        except (ImportError, OSError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"[left out: {name}: {error}]", flush=True)
    return runs, children


def agreeing(runs: dict[str, Run], folder: Path) -> tuple[dict[str, Run], dict[str, str]]:
    """Those that run, and those that fail, with the reason.

    Raises:
        AssertionError: two contestants have different results.
    """
    reference: float | list[int] = []
    failed: dict[str, str] = {}
    for name, run in runs.items():
        try:
            sums = run(folder, True)
        except Exception as error:
            failed[name] = reason(name, error)
            continue
        reference = reference or sums
        assert not sums or sums == reference, f"{name} has another result: {sums}, not {reference}"
    return {name: run for name, run in runs.items() if name not in failed}, failed


def measured(runs: dict[str, Run], folder: Path, rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of each contestant in each round but the first, and those that failed or took too long, with the reason."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    failed: dict[str, str] = {}
    for number in range(rounds + 1):
        for name in list(found):
            try:
                took = runs[name](folder, False)
            except Exception as error:
                failed[name] = reason(name, error)
                found.pop(name)
                continue
            assert isinstance(took, float)
            print(f"    round {number}, {name}: {took:.2f} s", flush=True)
            if number:
                found[name].append(took)
    return found, failed


def reason(name: str, error: Exception) -> str:
    said = f"{type(error).__name__}: {str(error)[:200]}"
    print(f"  {name}: {said}", flush=True)
    return said


def shown(shape: str, times: dict[str, list[float]]) -> None:
    """Medians, and their ratios to the floor on the same Spark."""
    medians = {name: statistics.median(found) for name, found in times.items()}
    floors = {name: took for name, took in medians.items() if name.startswith(FLOOR)}
    print(shape)
    for name, took in medians.items():
        base = next((t for n, t in floors.items() if n != FLOOR and name.endswith(n.removeprefix(FLOOR))), floors.get(FLOOR))
        print(f"  {name:44} {took:8.3f} s {f'{took / base:6.2f}x' if base else ''}", flush=True)


def hot(rows: int, cores: int) -> dict[str, dict[str, float]]:
    """So many rows of one key, half on each side, without files: each left row meets the right row that is one microsecond older."""
    spark = streamtime.session(cores=cores, memory="2g", settings=SETTINGS)
    half = rows // 2
    ts = "timestamp_micros(2 * (id * 48271 % {n}) + {later})"  # 48271 is a prime: times are unique where it does not divide n
    for name, letter, later in (("l", "a", 1), ("r", "b", 0)):
        made = spark.range(half, numPartitions=8).selectExpr("0L AS k", f"{ts.format(n=half, later=later)} AS ts", f"id AS {letter}0")
        made.createOrReplaceTempView(name)
    found: dict[str, dict[str, float]] = {}
    memory = Memory()
    for name in (FLOOR, OURS):
        memory.reset()
        if name == FLOOR:
            took = sum(noop(spark.table(v).repartition("k").sortWithinPartitions("k", "ts")) for v in ("l", "r"))
        else:
            seen = Observation()
            joined = spark.sql(CALL)
            met = F.count_if((F.col("a0") == F.col("b0")) & joined["b0"].isNotNull())
            took = noop(joined.observe(seen, F.count("*").alias("rows"), met.alias("met")))
            assert seen.get == {"rows": half, "met": half}, seen.get
        found[name] = {"seconds": took, "peak_mb": round(memory.total), "peak_jvm_mb": round(memory.jvm)}
        print(f"  {name:44} {took:8.1f} s, peak memory {memory.total:,.0f} MB, of it JVM {memory.jvm:,.0f} MB", flush=True)
    spark.stop()
    return found


def merged(shape: str, found: Any) -> None:
    """Into as_of.json."""
    file = HERE / "as_of.json"
    written = json.loads(file.read_text()) if file.exists() else {}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    written[shape] = today() | {"load_average": load} | found
    file.write_text(json.dumps(written, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=2e6, help="rows of each side")
    parser.add_argument("--keys", default=",".join(KEYS), help="numbers of keys, or `hot`")
    parser.add_argument("--columns", default="1,30", help="payload columns of each side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--others", default=",".join(PACKAGES), help="which of the packages to install; '' for none")
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a contestant in a process of its own is left out")
    parser.add_argument("--environments", type=Path, help="a folder to keep the installed packages in")
    parser.add_argument("--hot", type=float, help="this many rows with one key, and nothing else")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.hot:
        print(f"[one key, {options.hot:,.0f} rows on both sides together, driver memory 2g ..]", flush=True)
        found = hot(int(options.hot), options.cores)
        if not options.dry:
            merged(f"one key alone, {options.hot:,.0f} rows", {"contestants": found})
        return
    spark = streamtime.session(cores=options.cores, memory=options.memory, settings=SETTINGS)
    with tempfile.TemporaryDirectory() as name:
        packages = options.environments or Path(name) / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        runs, children = others(spark, packages.resolve(), options)
        runs = ours(spark) | runs
        for columns in map(int, options.columns.split(",")):
            for keys in options.keys.split(","):
                rows = int(options.rows)
                shape = f"{KEYS.get(keys, f'{keys} keys')}, {columns} columns"
                print(f"[{shape}: {rows:,} x {rows:,} rows, {options.rounds} rounds ..]", flush=True)
                folder = Path(name) / shape.replace(" ", "_")
                data(spark, folder / "few", FEW, keys, columns)
                data(spark, folder / "all", rows, keys, columns)
                quadratic = keys == "hot" or rows // int(keys) > MOST_ROWS_A_KEY
                here = {n: run for n, run in runs.items() if not (quadratic and n == INTERVALS)}
                agreed, wrong = agreeing(here, folder / "few")
                times, failed = measured(agreed, folder / "all", options.rounds)
                shown(shape, times)
                if not options.dry:
                    medians = {n: statistics.median(t) for n, t in times.items()}
                    sizes = {"rows": rows, "rounds": options.rounds, "cores": options.cores, "memory": options.memory}
                    merged(shape, sizes | {"median_seconds": medians, "seconds": times, "left_out": wrong | failed})
                shutil.rmtree(folder)
        for child in children:
            child.stop()
    spark.stop()


if __name__ == "__main__":
    main()
