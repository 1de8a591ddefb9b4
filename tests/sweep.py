"""A long run that CI has no time for: maintained tables over hundreds of random commits, in a process that is killed on the way.

    python3 run.py sweep --commits 300 --kills 10

After each commit, all tables whose queries read what it changed are brought up to date, and compared with their queries by one query.
Prints a line for each commit: its number, how many tables were written by which way, what it took, what was done. A table that differs,
or a run that fails, is printed with its receipt, and made anew, so that the sweep goes on. Ends with 'N passed, N failed'.

The same `--seed` gives the same commits, but for those that a kill cut off: they are done again. `--each` leaves tables behind by some
commits: so many are brought up to date at a time, those that wait longest; the last commit is followed by all.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

import streamtime

sys.path.insert(0, str(Path(__file__).parent))
from support import jvm, tpch
from support import maintained as cases

SCHEMA = "swept"
TABLES = cases.TABLES | tpch.TABLES
OFTEN = (
    ["orders"] * 4
    + ["items", "items", "kinds", "prices", "visits", "visits", "visits"]
    + ["h_lines"] * 4
    + ["h_orders"] * 2
    + ["h_customers", "h_nations", "h_suppliers"]
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", default=",".join(cases.QUERIES))
    parser.add_argument("--each", type=int, default=1000)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Path(options.child), options)
    with tempfile.TemporaryDirectory() as name:
        return parent(Path(name), options)


# -- the process that kills


def parent(folder: Path, options: argparse.Namespace) -> int:
    """Start the one that works, kill it now and then at any moment, with its JVM, and start it again."""
    done, failed, random_, kills = folder / "done", folder / "failed", random.Random(options.seed), 0
    while count(done) < options.commits:
        process = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--child", str(folder)], start_new_session=True)
        every = options.commits / (options.kills + 1)
        while process.poll() is None:
            time.sleep(random_.uniform(0.1, 3))
            if kills < options.kills and count(done) >= (kills + 1) * every:
                kills += 1
                time.sleep(random_.uniform(0, 20))
                os.killpg(process.pid, signal.SIGKILL)
                print(f"[killed, after {count(done)} commits]", flush=True)
                break
        if process.wait() not in (0, -signal.SIGKILL):
            print("The process ended.", flush=True)
            return 1
    print(f"{count(done)} commits, {kills} kills; {count(failed)} failed\n{failed.read_text() if failed.exists() else ''}", flush=True)
    return int(count(failed) > 0)


def count(done: Path) -> int:
    return len(done.read_text().splitlines()) if done.exists() else 0


# -- the process that works


def child(folder: Path, options: argparse.Namespace) -> int:
    """Commits, and runs, until all are done or the process is killed. What was done before lasts."""
    sweep = Sweep(opened(folder), folder, options)
    for number in range(count(folder / "done"), options.commits):
        sweep.step(number, last=number == options.commits - 1)
        with (folder / "done").open("a") as file:
            file.write(f"{number}\n")
    return 0


def opened(folder: Path) -> SparkSession:
    """A session in which the tables of processes before are there."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm.JAVA_OPTIONS)
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.codegen.wholeStage": "false",  # of a few rows: a plan takes longer to be compiled than to be run as it is
    }
    spark = streamtime.session(cores=2, memory="3g", settings=settings)
    jvm.answers_at_once(spark)
    jvm.no_process_for_a_file(spark)
    jvm.classes_are_found_once(spark)
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    tables = folder / "warehouse" / f"{SCHEMA}.db"
    for path in sorted(tables.iterdir()) if tables.exists() else ():
        if list((path / "_delta_log").glob("*.json")):
            spark.sql(f"CREATE TABLE {SCHEMA}.{path.name} USING delta LOCATION '{path}'")
    cases.made(spark, SCHEMA, {name: columns for name, columns in TABLES.items() if not spark.catalog.tableExists(f"{SCHEMA}.{name}")})
    return spark


class Sweep:
    """The maintained tables, and which of them wait for what was changed."""

    def __init__(self, spark: SparkSession, folder: Path, options: argparse.Namespace) -> None:
        self.spark, self.folder, self.options = spark, folder, options
        self.names = options.queries.split(",")
        self.waiting = dict.fromkeys(self.names, -1)  # since which commit; after a kill nobody knows

    def step(self, number: int, last: bool) -> None:
        """A commit, the runs that it asks for, and the comparison."""
        begun, random_ = time.monotonic(), random.Random(f"{self.options.seed} {number}")
        table = random_.choice(OFTEN)
        text = cases.commit(self.spark, SCHEMA, random_, table)
        for name in self.names:
            if cases.reads(name, table):
                self.waiting.setdefault(name, number)
        due = sorted(self.waiting, key=lambda name: self.waiting[name])[: None if last else self.options.each]
        ways: Counter[str] = Counter()
        receipts = {}
        for name in due:
            followed = cases.QUERIES[name][2]
            policy = "incremental" if followed and random_.random() < 0.8 else "auto"
            del self.waiting[name]
            receipts[name] = receipt = self.run(name, policy, number)
            ways[receipt.way if receipt else "failed"] += 1
        written = [name for name in due if receipts[name]]
        told = cases.differs(self.spark, SCHEMA, *written) if written else {}
        seconds = time.monotonic() - begun
        shown = ", ".join(f"{n} {way}" for way, n in sorted(ways.items()))
        print(f"{number:4} {seconds:6.1f} s  {shown}: {'differ: ' + str(told) if told else 'equal'}  {text[:110]}", flush=True)
        for table, rows in told.items():
            name = table.partition(".m_")[2]
            self.failed(number, name, f"differs in {rows} rows after {text}\n{receipts[name]}")

    def run(self, name: str, policy: str, number: int) -> streamtime.Receipt | None:
        """One run; None where it failed."""
        try:
            return cases.maintained(self.spark, SCHEMA, name, policy)
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-6:])
            self.failed(number, name, f"{policy}: {type(error).__name__}: {str(error)[:1000]}\n{where}")
            return None

    def failed(self, number: int, name: str, text: str) -> None:
        print(f"FAILED {number} {name}: {text}", flush=True)
        with (self.folder / "failed").open("a") as file:
            file.write(f"{number} {name}: {' '.join(text.split())[:300]}\n")
        self.spark.sql(f"DROP TABLE IF EXISTS {SCHEMA}.m_{name}")
        self.waiting.setdefault(name, -1)


if __name__ == "__main__":
    sys.exit(main())
