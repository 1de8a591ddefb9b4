"""DEDUPLICATE against bare shuffle + sort and Spark's own operators, side by side in one process: `python3 run.py benchmark`.

Every contestant reads the same Parquet file and writes to the noop sink. Rounds are interleaved, the first is not counted, medians are
compared. Prints a table of ratios; writes results.json and results.png beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from contestants.measured_on import today
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import streamtime

HERE = Path(__file__).parent
MILLION = 1_000_000
SPAN = 10 * 86_400 * 1_000_000  # microseconds of event time in the even and few data sets, whatever their size
WITHIN = "within => INTERVAL 6 HOURS"


def data(spark: SparkSession, folder: Path, name: str, rows: int, keys: int, hot: bool = False) -> None:
    """A view over a Parquet file: k, ts, off (the arrival order: up to an hour of disorder), x; its rows lie in random order."""
    key = F.pmod(F.xxhash64("id"), F.lit(keys))
    if hot:
        key = F.when(F.col("id") % 2 == 0, F.lit(0)).otherwise(key)
    ts = F.col("id") * F.lit(SPAN // rows) + F.pmod(F.xxhash64("id", F.lit(1)), F.lit(3_600_000_000))
    made = spark.range(rows, numPartitions=8).select(
        key.cast("long").alias("k"), F.timestamp_micros(ts).alias("ts"), F.col("id").alias("off"), F.rand(1).alias("x")
    )
    shuffled = F.xxhash64("off")
    made.repartition(8, shuffled).sortWithinPartitions(shuffled).write.parquet(str(folder / name))
    spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)


def contestants(spark: SparkSession, view: str) -> dict[str, Callable[[], DataFrame]]:
    """What is compared on one data set."""
    call = f"SELECT * FROM DEDUPLICATE(TABLE({view}) PARTITION BY k ORDER BY {{}})"
    first = f"SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts, off, x) AS n FROM {view}"
    return {
        "shuffle + sort": lambda: spark.table(view).repartition("k").sortWithinPartitions("k", "ts"),
        "DEDUPLICATE within": lambda: spark.sql(call.format(f"ts, {WITHIN}")),
        "DEDUPLICATE within, late rows": lambda: spark.sql(call.format(f"off, time => 'ts', {WITHIN}")),
        "DEDUPLICATE for ever": lambda: spark.sql(call.format("ts")),
        "row_number() = 1": lambda: spark.sql(f"SELECT * EXCEPT (n) FROM ({first}) WHERE n = 1"),
        "dropDuplicates": lambda: spark.table(view).dropDuplicates(["k"]),
    }


def fold(spark: SparkSession, view: str) -> DataFrame:
    """The same interval deduplication as one SQL aggregate over collected rows: all of a key's rows at once in memory."""
    step = (
        "IF(a.kept IS NULL OR r.ts > a.kept + INTERVAL 6 HOURS, "
        "named_struct('kept', r.ts, 'out', concat(a.out, array(r))), named_struct('kept', a.kept, 'out', a.out))"
    )
    empty = "named_struct('kept', CAST(NULL AS TIMESTAMP), 'out', CAST(array() AS ARRAY<STRUCT<ts: TIMESTAMP, off: BIGINT, x: DOUBLE>>))"
    return spark.sql(
        f"SELECT k, inline(aggregate(array_sort(collect_list(struct(ts, off, x))), {empty}, (a, r) -> {step}, a -> a.out)) FROM {view} GROUP BY k"
    )


class Memory:
    """The largest resident sizes in MB, sampled: of this process's JVM, of its largest Python worker, and of the JVM with all workers."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.reset()
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        self.jvm = self.worker = self.total = 0.0

    def _watch(self) -> None:
        while not self.stop.wait(0.2):
            parents, sizes = self._processes()
            jvms = {p for p, parent in parents.items() if parent == os.getpid() and self._runs(p, "org.apache.spark.deploy.SparkSubmit")}
            workers: set[int] = set()
            below = jvms
            while below := {p for p, parent in parents.items() if parent in below}:
                workers |= {p for p in below if self._runs(p, "-m\0pyspark.")}  # a JVM that starts a program is for a moment two of itself
            self.jvm = max([self.jvm, *(sizes[p] for p in jvms)])
            self.worker = max([self.worker, *(sizes[p] for p in workers)])
            self.total = max(self.total, sum(sizes[p] for p in jvms | workers))

    @staticmethod
    def _processes() -> tuple[dict[int, int], dict[int, float]]:
        """Of each process its parent, and its resident size."""
        parents, sizes = dict[int, int](), dict[int, float]()
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                pid, parent, size = (int(fields[name].split()[0]) for name in ("Pid", "PPid", "VmRSS"))
            except (OSError, KeyError, ValueError):
                continue
            parents[pid], sizes[pid] = parent, size / 1024
        return parents, sizes

    @staticmethod
    def _runs(pid: int, what: str) -> bool:
        try:
            return what in Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return False


def seconds(make: Callable[[], DataFrame]) -> float:
    began = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def used() -> float:
    """The seconds of CPU that this process, its JVM and their workers have used; those of one that ended count with who began it."""
    stats: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            stats[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
    ours = {os.getpid()}
    while more := {p for p, fields in stats.items() if int(fields[1]) in ours} - ours:
        ours |= more
    return sum(int(ticks) for p in ours for ticks in stats[p][11:15]) / os.sysconf("SC_CLK_TCK")


def interleaved(runs: dict[str, Callable[[], DataFrame]], rounds: int, cpu: dict[str, list[float]] | None = None) -> dict[str, list[float]]:
    """The times of each round, and in `cpu` the seconds of CPU: on a busy machine the clock says little."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, make in runs.items():
            before = used()
            took = seconds(make)
            if number:
                found[name].append(took)
                if cpu is not None:
                    cpu.setdefault(name, []).append(used() - before)
    return found


def small(spark: SparkSession, rounds: int = 40) -> dict[str, list[float]]:
    """Ten rows, analysis included: what a person at a prompt waits for."""
    spark.sql("CREATE OR REPLACE TEMP VIEW ten AS SELECT id % 4 AS k, timestamp_seconds(id) AS ts, id AS off, 0.5D AS x FROM range(10)")
    queries = {name: make for name, make in contestants(spark, "ten").items() if name not in ("shuffle + sort", "dropDuplicates")}
    found: dict[str, list[float]] = {name: [] for name in queries}
    for number in range(rounds + 20):
        for name, make in queries.items():
            began = time.perf_counter()
            make().collect()
            if number >= 20:
                found[name].append(time.perf_counter() - began)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5 * MILLION)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--growth", default="1,5,20", help="millions of rows, for the growth of cost")
    parser.add_argument("--only-ten-rows", action="store_true", help="measure the ten-row queries alone, and keep the other results")
    parser.add_argument("--shapes", help="measure these data sets alone, such as 'one hot key', and keep the other results")
    options = parser.parse_args()
    spark = streamtime.session(cores=options.cores, memory="6g")
    if options.only_ten_rows:
        before = json.loads((HERE / "results.json").read_text())
        report(before["seconds"] | {"ten rows": small(spark)}, before["peak_memory"], options)
        spark.stop()
        return
    memory = Memory()
    results: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shapes = {"500k keys": (500_000, False), "50 keys": (50, False), "one hot key": (500_000, True)}
        for shape, (keys, hot) in shapes.items():
            if options.shapes and shape not in options.shapes.split(","):
                continue
            view = shape.replace(" ", "_")
            print(f"[{shape}: {options.rows:,} rows, {options.rounds} rounds ..]", flush=True)
            data(spark, folder, view, options.rows, keys, hot)
            runs = contestants(spark, view)
            if not hot:
                runs["SQL fold"] = lambda view=view: fold(spark, view)  # type: ignore[misc]
            if shape == "50 keys":
                runs.pop("SQL fold")  # 100,000 rows in one array, copied at each kept row
            results[shape] = interleaved(runs, options.rounds)
        growth: dict[str, list[float]] = {}
        for millions in [] if options.shapes else map(int, options.growth.split(",")):
            print(f"[growth: {millions}M rows ..]", flush=True)
            data(spark, folder, f"g{millions}", millions * MILLION, 100_000 * millions)
            sized = {n: m for n, m in contestants(spark, f"g{millions}").items() if n in ("shuffle + sort", "DEDUPLICATE within")}
            for contestant, times in interleaved(sized, options.rounds).items():
                growth[f"{contestant}, {millions}M"] = times
        if options.shapes:
            results = json.loads((HERE / "results.json").read_text())["seconds"] | results
        else:
            results["growth"] = growth
            print("[ten rows ..]", flush=True)
            results["ten rows"] = small(spark)
    memory.stop.set()
    report(results, {"jvm_mb": round(memory.jvm), "python_worker_mb": round(memory.worker)}, options)
    spark.stop()


def report(results: dict[str, dict[str, list[float]]], memory: dict[str, int], options: argparse.Namespace) -> None:
    medians = {shape: {n: statistics.median(t) for n, t in times.items()} for shape, times in results.items()}
    print()
    for shape, times in medians.items():
        base = times.get("shuffle + sort") or times.get("row_number() = 1")
        print(shape)
        for name, took in times.items():
            ratio = f"{took / base:8.2f}x" if base else f"{took / float(name.rpartition(' ')[2][:-1]):8.3f} s per million rows"
            print(f"  {name:32} {took:8.3f} s {ratio}")
    print(f"peak memory: {memory}")
    written = {
        **today(options.cores), "rows": options.rows, "rounds": options.rounds,
        "peak_memory": memory, "median_seconds": medians, "seconds": results,
    }  # fmt: skip
    (HERE / "results.json").write_text(json.dumps(written, indent=1) + "\n")
    picture(medians)


def picture(medians: dict[str, dict[str, float]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shapes = [s for s in medians if "shuffle + sort" in medians[s]]
    names = [n for n in medians[shapes[0]] if n != "shuffle + sort"]
    figure, axes = plt.subplots(figsize=(9, 4))
    for i, name in enumerate(names):
        heights = [medians[s].get(name, 0) / medians[s]["shuffle + sort"] for s in shapes]
        bars = axes.bar([j + i * 0.13 for j in range(len(shapes))], heights, 0.12, label=name)
        axes.bar_label(bars, [f"{h:.1f}" if h else "" for h in heights], fontsize=7)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks([j + 0.13 * (len(names) - 1) / 2 for j in range(len(shapes))], shapes)
    axes.set_ylabel("time, bare shuffle + sort = 1")
    axes.legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(HERE / "results.png", dpi=120)


if __name__ == "__main__":
    main()
