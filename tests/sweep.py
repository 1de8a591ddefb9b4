"""A long run that CI has no time for: maintained tables over hundreds of random commits, in a process that is killed on the way.

    python3 run.py sweep --commits 300 --kills 10 --folder ~/sweep --seconds 5000

After each commit, tables whose queries read what it changed are brought up to date, and compared with their queries by one query. Prints a
line for each commit: its number, what it took, how many tables were written by which way, what was done. A table that differs, or a run
that fails, is printed with its receipt, and made anew, so that the sweep goes on.

The same `--seed` gives the same commits, but for those that a kill cut off: another is done in their place, since they may have been done
already, and a row that is written twice would have its key twice. `--each` leaves tables behind by some
commits: so many are brought up to date at a time, those that wait longest; the last commit is followed by all. `--seconds` picks that
number anew before each commit, by the pace so far, and ends the sweep where time is over: all tables are brought up to date then. A sweep in
a `--folder` that is started again, whatever ended it, goes on where it was.

When all is done, what was done stands in tests/sweep.json: of how many commits, by which commit of the code; each table's comparisons, and
the ways and writes by which it came to be; kills; what failed. docs/maintain.md has its numbers from there.
"""

from __future__ import annotations

import argparse
import datetime
import json
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
from typing import Any

from pyspark.sql import SparkSession

import streamtime
from streamtime.maintained import additive, maintaining, units

sys.path.insert(0, str(Path(__file__).parent))
from support.inputs import maintained as cases
from support.inputs import tpch
from support.programs import jvm

SCHEMA = "swept"
TABLES = cases.TABLES | tpch.TABLES
OFTEN = (
    ["orders"] * 4
    + ["items", "items", "kinds", "prices", "visits", "visits", "visits"]
    + ["h_lines"] * 4
    + ["h_orders"] * 2
    + ["h_customers", "h_nations", "h_suppliers"]
)
START = 60  # seconds until a process that was killed is there again
LIMITS = {
    "many": (0, 0),
    "few": (maintaining.FEW, units.LARGE),
}  # tables are small: what is done to many rows and large tables is asked for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", default=",".join(cases.QUERIES))
    parser.add_argument("--each", type=int, default=1000, help="tables that are brought up to date after a commit, at most")
    parser.add_argument("--seconds", type=float, help="what the sweep may take, this time")
    parser.add_argument("--folder", type=Path, help="where its tables are kept (default: a temporary one)")
    parser.add_argument("--stored", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=float("inf"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Path(options.child), options)
    if options.seconds is not None:
        options.until = time.time() + options.seconds
    with tempfile.TemporaryDirectory() as name:
        folder = (options.folder or Path(name)).expanduser().resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return parent(folder, options)


# -- the process that kills


def parent(folder: Path, options: argparse.Namespace) -> int:
    """Start the one that works, kill it now and then at any moment, with its JVM, and start it again."""
    done, killed, random_ = folder / "done", folder / "killed", random.Random()
    ended = len(lines(done)) >= options.commits
    while not ended:
        command = [sys.executable, __file__, *sys.argv[1:], "--child", str(folder), "--until", str(options.until)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            ended = not watched(process, done, killed, random_, options)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        if ended and process.returncode != 0:
            print("The process ended.", flush=True)
            return 1
    record = recorded(folder, options)
    options.stored.write_text(json.dumps(record, indent=1) + "\n")
    print(
        f"{record['commits']} commits, {record['kills']} kills; {len(record['failures'])} failed", *record["failures"], sep="\n", flush=True
    )
    return int(bool(record["failures"]))


def watched(process: subprocess.Popen[bytes], done: Path, killed: Path, random_: random.Random, options: argparse.Namespace) -> bool:
    """Wait until the process is killed; False where it ends by itself."""
    every = options.commits / (options.kills + 1)
    while process.poll() is None:
        time.sleep(random_.uniform(0.1, 3))
        kills = len(lines(killed))
        if kills < options.kills and len(lines(done)) >= (kills + 1) * every:
            time.sleep(random_.uniform(0, 20))
            os.killpg(process.pid, signal.SIGKILL)
            told = {"after": len(lines(done)), "at": round(time.time(), 1)}
            with killed.open("a") as file:
                file.write(json.dumps(told) + "\n")
            print(f"[killed, after {told['after']} commits]", flush=True)
            process.wait()
            return True
    return False


def lines(file: Path) -> list[dict[str, Any]]:
    """What stands in a file of JSON, a line each."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def recorded(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What was done in a folder, in short."""
    steps, tables = lines(folder / "done"), dict[str, dict[str, Any]]()
    for name in options.queries.split(","):
        runs = [step["runs"][name] for step in steps if name in step["runs"]]
        ways = Counter(run["way"] for run in runs)
        tables[name] = {
            "compared": sum(run["compared"] for run in runs),
            "ways": dict(sorted(ways.items())),
            "row by row": sum(run["added"] > 0 for run in runs),
            "writes": steps[-1]["writes"].get(name, {}),
        }
    return {
        "asked": {"commits": options.commits, "kills": options.kills},
        "commits": len(steps),
        "of": dict(Counter(step["kind"] for step in steps).most_common()),
        "kills": len(lines(folder / "killed")),
        "killed after": [kill["after"] for kill in lines(folder / "killed")],
        "comparisons": sum(table["compared"] for table in tables.values()),
        "tables": tables,
        "failures": [f"{f['commit']} {f['table']}: {f['text']}" for f in lines(folder / "failed")],
        "seed": options.seed,
        "code": dict(Counter(step["code"] for step in steps)),
        "date": datetime.date.today().isoformat(),
        "hours": round(sum(step["seconds"] for step in steps) / 3600, 1),
        "machine": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
    }


def code() -> str:
    """The commit of the code that runs, with a + where files of it are others."""
    here = Path(__file__).parent.parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + (
        "+" if git("status", "--porcelain", "--", "catalog", "sql", "udfs", "tests/support") else ""
    )


# -- the process that works


def child(folder: Path, options: argparse.Namespace) -> int:
    """Commits, and runs, until all are done or the process is killed. What was done before lasts."""
    sweep, by, above = Sweep(opened(folder), folder, options), code(), os.getppid()
    for number in range(len(lines(folder / "done")), options.commits):
        last = number == options.commits - 1 or time.time() > options.until - len(sweep.names) * sweep.pace
        step = sweep.step(number, last)
        with (folder / "done").open("a") as file:
            file.write(json.dumps(step | {"code": by}) + "\n")
        if os.getppid() != above:
            return 1  # nobody is there who counts
        if last:
            break
    return 0


def opened(folder: Path) -> SparkSession:
    """A session in which the tables of processes before are there."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{jvm.JAVA_OPTIONS} {jvm.ROOM}")
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
        "spark.databricks.delta.snapshotPartitions": "1",
        **jvm.INTERPRETED,  # of a few rows: a plan takes longer to be compiled than to be run as it is
    }
    spark = streamtime.session(cores=2, memory="3g", settings=settings)
    jvm.answers_at_once(spark)
    jvm.no_process_for_a_file(spark)
    jvm.classes_are_found_once()
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
        self.pace = 0.0  # seconds of a table

    def step(self, number: int, last: bool) -> dict[str, Any]:
        """A commit, the runs that it asks for, and the comparison. Gives what was done."""
        begun, random_ = time.monotonic(), random.Random(f"{self.options.seed} {number}{self.again(number)}")
        table = random_.choice([t for t in OFTEN if any(cases.reads(name, t) for name in self.names)])
        text = cases.commit(self.spark, SCHEMA, random_, table)
        for name in self.names:
            if cases.reads(name, table):
                self.waiting.setdefault(name, number)
        due = sorted(self.waiting, key=lambda name: self.waiting[name])[: None if last else self.each(number)]
        receipts = {name: self.run(name, number, random_) for name in due}
        there = [name for name in due if receipts[name]]
        told = cases.differs(self.spark, SCHEMA, *there) if there else {}
        seconds = time.monotonic() - begun
        if due:
            self.pace = seconds / len(due) if not self.pace else 0.8 * self.pace + 0.2 * seconds / len(due)
        runs = {
            name: {"way": r.way, "added": r.added, "compared": 1} if r else {"way": "failed", "added": 0, "compared": 0}
            for name, r in receipts.items()
        }
        ways = Counter(run["way"] for run in runs.values())
        shown = ", ".join(f"{n} {way}" for way, n in sorted(ways.items()))
        print(f"{number:4} {seconds:6.1f} s  {shown}: {'differ: ' + str(told) if told else 'equal'}  {text[:110]}", flush=True)
        for table, rows in told.items():
            name = table.partition(".m_")[2]
            self.failed(number, name, f"differs in {rows} rows after {text}\n{receipts[name]}")
        kind = text.partition(" ")[0]
        writes = {name: self.writes(name) for name in self.names} if last else {}
        return {"commit": number, "kind": kind, "seconds": round(seconds, 1), "runs": runs, "writes": writes}

    def again(self, number: int) -> str:
        """What tells a commit apart from those that were begun in its place before."""
        file = self.folder / "begun"
        with file.open("a") as begun:
            begun.write(json.dumps({"commit": number}) + "\n")
        times = sum(one["commit"] == number for one in lines(file))
        return f" {times}" if times > 1 else ""

    def each(self, number: int) -> int:
        """How many tables a commit is followed by."""
        if self.options.until == float("inf") or not self.pace:
            return int(min(self.options.each, 3 if self.options.seconds else self.options.each))
        kills = max(0, self.options.kills - len(lines(self.folder / "killed")))
        left = self.options.until - time.time() - kills * START
        return max(1, min(self.options.each, round(left / (self.options.commits - number) / self.pace)))

    def run(self, name: str, number: int, random_: random.Random) -> streamtime.Receipt | None:
        """One run, as of few rows or of many; None where it failed."""
        followed = cases.QUERIES[name][2]
        policy = "incremental" if followed and random_.random() < 0.8 else "auto"
        maintaining.FEW, units.LARGE = LIMITS[random_.choice(list(LIMITS))]
        additive.LARGE = units.LARGE
        del self.waiting[name]
        try:
            return cases.maintained(self.spark, SCHEMA, name, policy)
        except ConnectionError:
            raise  # Spark's process is gone, whatever ended it: no table failed
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-6:])
            self.failed(number, name, f"{policy}: {type(error).__name__}: {str(error)[:1000]}\n{where}")
            return None

    def writes(self, name: str) -> dict[str, int]:
        """By which writes a table came to be, as its log says."""
        if not self.spark.catalog.tableExists(f"{SCHEMA}.m_{name}"):
            return {}  # it failed
        told = self.spark.sql(f"DESCRIBE HISTORY {SCHEMA}.m_{name}").select("operation", "operationParameters").collect()
        return dict(Counter(written(row["operation"], row["operationParameters"] or {}) for row in told).most_common())

    def failed(self, number: int, name: str, text: str) -> None:
        print(f"FAILED {number} {name}: {text}", flush=True)
        with (self.folder / "failed").open("a") as file:
            text = " ".join(text.replace(f"{Path(__file__).parents[1]}/", "").split())[:600]
            file.write(json.dumps({"commit": number, "table": name, "text": text}) + "\n")
        self.spark.sql(f"DROP TABLE IF EXISTS {SCHEMA}.m_{name}")
        self.waiting.setdefault(name, -1)


def written(operation: str, parameters: dict[str, str]) -> str:
    """A write by the name of what it was told."""
    told = [word for word in ("replaceOn", "replaceWhere", "predicate") if parameters.get(word, "[]") not in ("[]", "")]
    return operation if operation == "MERGE" else " ".join([operation, parameters.get("mode", ""), *told]).strip()


if __name__ == "__main__":
    sys.exit(main())
