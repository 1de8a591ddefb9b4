"""What one would pick instead, side by side: `python3 run.py benchmark peers`.

In batch: deduplication within a time, sessions of each row, and final windows; our calls, Spark's own idiom, DuckDB and Polars, each in its own
idiom for the same answer, over the same Parquet files. On a stream: deduplication, final sessions and final windows; our calls, Spark's own
operators and Flink SQL, over the same rows.

Before any time is taken, each contestant answers a small input that is nasty, row for row as our call; one that does not ends the benchmark,
which then says which row differs. On the large input all must come to the same number of rows. What a contestant cannot say stands with the
results. Then rounds are interleaved, the first is not counted, and medians are compared: in batch to the bare shuffle by key + sort by key and
time, on a stream as rows a second, from the start of the query to its end. One that takes longer than --limit seconds is left out.

DuckDB and Polars are in the extra `bench`, in a process of their own. Flink needs older packages than ours (py4j 0.10.9.7, pandas below 2.3,
pyarrow 16), so it gets a virtual environment of its own, in a temporary folder or in --environments, which is kept, and a jar that reads Parquet.

    --rows 1e6 --keys 100000,50 --rounds 3    what is measured
    --suites batch,stream                     or one of them

Results are merged into peers.json beside this file, by suite and number of keys, each question when it is done; docs/speed.md has the tables
(contestants/tables.py).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from contestants import in_spark, questions
from contestants.measured_on import today
from contestants.own_process import Child, python_with
from contestants.plain import SETTINGS
from deduplicate import data
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import streamtime
from streamtime.session import IVY

HERE = Path(__file__).parent
STORED = HERE / "peers.json"
FLINK = "2.3.0"
BATCHES = 5  # files of a stream
BLOCK = 1_000  # rows that lie in random order on a stream, none of them far from its place
MONTH = 30 * 24 * 3600  # seconds, at most, that a stream's rows span
BUSY = 1.0  # load of other programs from which on a machine counts as shared
Run = Callable[[Path, str], Any]
Runs = dict[str, Run]
CANNOT = {
    "Spark's own": [
        "`dropDuplicates` keeps any row of a key, not the first: it is not in the table of streams",
        "deduplication within a time is an aggregate that has all rows of a key in memory at once",
        "late rows: on a stream they are dropped, and counted, not listed; in batch there are none",
    ],
    "DuckDB": ["no streams; late rows and order of arrival: not without what exact stream time would take, written by hand"],
    "Polars": ["as DuckDB; deduplication within a time takes a loop in Python"],
    "Flink SQL": [
        "deduplication within a time of the kept row: it has for ever, and once for each window",
        "which of a key's rows with one time is first: the one that it meets first; ours has the rest of the row decide",
        "event times finer than a millisecond: `The supported precision 'p' is from 0 to 3`",
        "a row whose time is NULL ends the job",
        "`MAX` over a NaN depends on which row came first",
        "late rows: they are dropped, and counted, not listed",
        "it reads a folder's files in no order, and drops what its watermark has passed: so it has one file for each slot",
        "it has no micro-batches: what it writes is to be applied row by row, or at checkpoints",
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--keys", default="100000,50", help="numbers of keys")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--suites", default="batch,stream")
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a contestant is left out")
    parser.add_argument("--environments", type=Path, help="a folder to keep Flink in")
    parser.add_argument("--without-flink", action="store_true")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None  # before we add to it
    spark = streamtime.session(cores=options.cores, memory=options.memory, settings=SETTINGS)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for suite in options.suites.split(","):
            contestants = entered(suite, spark, folder, options, stack)
            print(f"[{suite}: the same rows on a small input ..]", flush=True)
            few(suite, folder / suite)
            agreeing(contestants, folder / suite, "rows")
            for keys in map(int, options.keys.split(",")):
                rows = int(options.rows)
                print(f"[{suite}: {rows:,} rows, {keys:,} keys, {options.rounds} rounds ..]", flush=True)
                place = folder / f"{suite}{keys}"
                many(suite, spark, place, rows, keys, options.cores)
                found: dict[str, Any] = {}
                for question, runs in contestants.items():
                    found[question] = raced(question, runs, place, options.rounds, options.limit)
                    if not options.dry:
                        merged(suite, keys, rows, options, load, found)
    spark.stop()


def entered(suite: str, spark: SparkSession, folder: Path, options: argparse.Namespace, stack: ExitStack) -> dict[str, Runs]:
    """By question, who answers it; ours comes first."""
    if suite == "batch":
        made = {q: in_spark.batch(spark, q) | {in_spark.FLOOR: in_spark.floor(spark)} for q in questions.BATCH}
        child = Child(
            "batch_peers", Path(sys.executable), str(options.cores), options.memory, log=folder / "peers.log", limit=options.limit
        )
    else:
        made = {q: in_spark.stream(spark, q) for q in questions.STREAM}
        if options.without_flink:
            return made
        child = flink((options.environments or folder / "environments").resolve(), options)
    stack.callback(child.stop)
    for name, run in child.runs().items():
        question, _, contestant = name.partition("|")
        made[question][contestant] = run
    return made


def flink(folder: Path, options: argparse.Namespace) -> Child:
    """Flink in a virtual environment, its jar for Parquet, and Hadoop's classes, which that needs, of Spark's own jars."""
    python = python_with((f"apache-flink=={FLINK}",), folder / "flink")
    jar = folder / "ivy" / "jars" / f"org.apache.flink_flink-sql-parquet-{FLINK}.jar"
    spark_home = Path(pyspark.__file__).parent
    if not jar.exists():
        ivy = folder / "ivysettings.xml"
        ivy.write_text(IVY.format(cache=folder))
        command = [
            str(spark_home / "bin" / "spark-submit"), "--packages", f"org.apache.flink:flink-sql-parquet:{FLINK}",
            "--conf", f"spark.jars.ivySettings={os.environ.get('STREAMTIME_IVY_SETTINGS') or ivy}", "--conf", f"spark.jars.ivy={folder / 'ivy'}",
            "--class", "org.apache.hadoop.util.VersionInfo", "--master", "local[1]", "spark-internal",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    hadoop = os.pathsep.join(map(str, sorted((spark_home / "jars").glob("hadoop-client-*.jar"))))
    environment = {"HADOOP_CLASSPATH": hadoop, "JAVA_TOOL_OPTIONS": f"-Xmx{options.memory}"}
    return Child("flink", python, str(options.cores), str(jar), log=folder / "flink.log", limit=options.limit, environment=environment)


def few(suite: str, folder: Path) -> None:
    if suite == "batch":
        questions.write_files(questions.table(questions.nasty_rows()), folder, [200, 300])
    else:
        laid_out(questions.table(questions.stream_rows()), folder, [200, 200, 200, 6], 2)


def laid_out(rows: pa.Table, folder: Path, sizes: list[int], slots: int) -> None:
    """The rows of a stream twice: a file for each micro-batch, and a file for each slot, as one of so many partitions of a log."""
    questions.write_files(rows, folder, sizes)
    numbers = pa.array(range(rows.num_rows))
    parts = [rows.filter(pc.equal(pc.subtract(numbers, pc.multiply(pc.divide(numbers, slots), slots)), slot)) for slot in range(slots)]
    questions.write_files(pa.concat_tables(parts), folder / "slots", [part.num_rows for part in parts])


def many(suite: str, spark: SparkSession, folder: Path, rows: int, keys: int, cores: int) -> None:
    if suite == "batch":
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # Polars reads the older type as nanoseconds
        data(spark, folder.parent, folder.name, rows, keys)
        return
    step = max(MONTH * 1000 // rows // 72, 1)  # milliseconds: ten hours in all
    place = F.col("id") - F.col("id") % BLOCK + F.col("id") * 48271 % BLOCK  # a prime, which does not divide BLOCK
    made = spark.range(rows, numPartitions=1).select(
        F.pmod(F.xxhash64("id"), F.lit(keys)).alias("k"),
        F.timestamp_millis(F.lit(1_700_000_000_000) + place * step).alias("ts"),
        F.col("id").alias("off"),
        F.rand(1).alias("x"),
    )
    closer = questions.table([(questions.CLOSER, (1_700_000_000 + 2 * MONTH) * questions.SECOND, 0, 0.0)])
    arrived = pa.concat_tables([made.toArrow().cast(questions.SCHEMA), closer])
    batch = -(-rows // BATCHES // BLOCK) * BLOCK
    sizes = [min(batch, rows - start) for start in range(0, rows, batch)]
    sizes[-1] += 1  # the closer
    laid_out(arrived, folder, sizes, cores)


def agreeing(contestants: dict[str, Runs], folder: Path, asked: str) -> None:
    """All have the answer of the first, or the benchmark ends."""
    for question, runs in contestants.items():
        (first, ours), *others = runs.items()
        expected = ours(folder, asked)
        assert expected, f"{question}: {first} has no rows"
        for name, run in others:
            if name == in_spark.FLOOR:
                continue
            differs = questions.difference(expected, run(folder, asked))
            if differs is not None:
                sys.exit(f"{question}: {name} gives other rows than {first}: {differs}")
            print(f"  {question}: {name} has our {len(expected)} rows", flush=True)


def raced(question: str, runs: Runs, folder: Path, rounds: int, limit: float) -> dict[str, Any]:
    """Seconds of each round but the first, in which rows are counted: all must come to as many as ours."""
    left_out: dict[str, str] = {}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    counts: dict[str, int] = {}
    for number, (name, run) in turns(runs, rounds, left_out):
        try:
            if number == 0:
                counts[name] = run(folder, "count")
                continue
            seconds[name].append(took := run(folder, "seconds"))
        except (RuntimeError, TimeoutError) as error:
            left_out[name] = f"{type(error).__name__}: {str(error)[:200]}"
            print(f"    {question}, {name}: {left_out[name]}", flush=True)
            continue
        print(f"    {question}, round {number}, {name}: {took:.2f} s", flush=True)
        if took > limit:
            left_out[name] = f"more than {limit:.0f} s"
    counts.pop(in_spark.FLOOR, None)
    assert len(set(counts.values())) == 1, f"{question}: other numbers of rows: {counts}"
    medians = {name: statistics.median(times) for name, times in seconds.items() if times and name not in left_out}
    for name, took in medians.items():
        print(f"  {question:32} {name:24} {took:8.3f} s", flush=True)
    return {"rows": next(iter(counts.values())), "median_seconds": medians, "seconds": seconds, "left_out": left_out}


def turns(racing: Runs, rounds: int, left_out: dict[str, str]) -> Iterator[tuple[int, tuple[str, Run]]]:
    for number in range(rounds + 1):
        for name, run in racing.items():
            if name not in left_out:
                yield number, (name, run)


def merged(suite: str, keys: int, rows: int, options: argparse.Namespace, load: float | None, found: dict[str, Any]) -> None:
    """Into peers.json."""
    written = json.loads(STORED.read_text()) if STORED.exists() else {}
    written["cannot"] = CANNOT
    written.setdefault(suite, {})[f"{keys} keys"] = {
        **today(shared=bool(load and load > BUSY)), "load_average_before": load, "pyspark": pyspark.__version__,
        "rows": rows, "rounds": options.rounds, "cores": options.cores, "memory": options.memory, "questions": found,
    }  # fmt: skip
    STORED.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
