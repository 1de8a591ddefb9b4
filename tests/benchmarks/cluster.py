"""How calls spread over the workers of a cluster: `python3 run.py benchmark cluster`.

Starts a standalone cluster of Spark on this machine, a master and 1, then 2, then 4 workers of one core, each a process of its own, and asks
the same calls of each, over the input of the benchmark `spread`. The workers share this machine's cores, so seconds by the clock say little;
what can be counted on any machine, however busy:

- `speed-up`: bytes that all tasks read, over those of the critical path, which is the busiest worker of each stage, added. It is at most the
  number of workers. Which worker has which task is as Spark's scheduler had it;
- `CPU`: processor seconds of all workers, JVM and Python, over those of one worker: what spreading costs;
- `busiest`: the share of them that one worker had.

    --rows 1e6 --workers 1,2,4 --rounds 3    what is measured; a round before these is not counted

Medians are stored in cluster.json beside this file; docs/scale.md has the table (contestants/tables.py).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from spread import CALLS, asked_of, bytes_of, made, run

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.cluster import Cluster, standalone

import streamtime

HERE = Path(__file__).parent
ASKED = (
    "DEDUPLICATE, event order",
    "DEDUPLICATE, arrival order",
    "SESSIONIZE, event order",
    "WINDOW_UPDATES, final",
    "SESSION_UPDATES, final",
    "SUPPRESS_UNTIL_CLOSE of WINDOW_UPDATES",
    "AS_OF_JOIN",
    "JOIN_CHANGES",
)
TASKS = 16  # of a stage: from so many on, suppress spreads
TICKS = os.sysconf("SC_CLK_TCK")
Found = dict[str, dict[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rows, sizes = int(asked.rows), [int(size) for size in asked.workers.split(",")]
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            folder = Path(name) / str(size)
            folder.mkdir()
            print(f"[{size} workers ..]", flush=True)
            with standalone(folder, size) as cluster:
                found[str(size)] = measured(cluster, Path(name), rows, asked.rounds)
    about = {"rows": rows, "tasks": TASKS, "rounds": asked.rounds, "cores": os.cpu_count(), "python": platform.python_version()}
    when = datetime.now(UTC).date().isoformat()
    (HERE / "cluster.json").write_text(json.dumps({"date": when, **about, "workers": found}, indent=1) + "\n")
    return 0


def measured(cluster: Cluster, folder: Path, rows: int, rounds: int) -> Found:
    """By call, the medians of its rounds."""
    spark = session(cluster, folder)
    place = folder / "input"
    if not place.exists():
        made(spark, str(place), rows, TASKS)
    for name in ("left", "right"):
        spark.read.parquet(f"{place}/{name}").createOrReplaceTempView({"left": "t", "right": "r"}[name])
    found: Found = {}
    meters = [Meter(worker.process.pid) for worker in cluster.workers]
    for name in ASKED:
        seen = [one(spark, meters, CALLS[name][0].format(t="t", o="")) for _ in range(rounds + 1)][1:]
        found[name] = {what: round(statistics.median(each[what] for each in seen), 3) for what in seen[0]}
        print(f"  {name:40}" + "".join(f"{what} {value:8.2f}   " for what, value in found[name].items()), flush=True)
    spark.stop()
    return found


def session(cluster: Cluster, folder: Path) -> SparkSession:
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # the first task waits for all workers
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.cores.max": str(len(cluster.workers)),
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(cluster.address).appName("cluster")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    streamtime.register(spark)
    return spark


def one(spark: SparkSession, meters: list[Meter], call: str) -> dict[str, float]:
    """One call: its speed-up by bytes, processor seconds of all workers, and the share of the busiest."""
    stages = {stage["stageId"] for stage in asked_of(spark, "/stages")}
    before = [meter.seconds() for meter in meters]
    run(spark, call)
    took = [meter.seconds() - start for meter, start in zip(meters, before, strict=True)]
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    total = path = 0
    for stage in asked_of(spark, "/stages?status=complete"):
        if stage["stageId"] in stages:
            continue
        read: dict[str, int] = defaultdict(int)
        for task in asked_of(spark, f"/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=100000"):
            read[task["executorId"]] += bytes_of(task["taskMetrics"]) if "taskMetrics" in task else 0
        total, path = total + sum(read.values()), path + max(read.values(), default=0)
    return {"speed-up": total / max(path, 1), "CPU": sum(took), "busiest": max(took) / max(sum(took), 0.01)}


class Meter:
    """Processor seconds of a worker: of all processes of its session, which are its executors and their Python. Those that have ended count as last seen."""

    def __init__(self, session: int) -> None:
        self.session, self.seen = session, dict[str, int]()

    def seconds(self) -> float:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()  # from the third on, which is the state
            except OSError:
                continue  # it has ended
            if int(fields[3]) == self.session:
                self.seen[folder.name] = int(fields[11]) + int(fields[12])
        return sum(self.seen.values()) / TICKS


if __name__ == "__main__":
    sys.exit(main())
