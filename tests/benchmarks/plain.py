"""Plain SQL against the calls that it was compiled from, and bare shuffle + sort: `python3 run.py benchmark plain`.

Same data, noop sink and interleaved rounds as the benchmark of DEDUPLICATE. Each call is a contestant, and so is what `streamtime.compile`
makes of it, which is measured by the call: in seconds of CPU, of the JVM and of its Python workers together, which a busy machine does not
change much. Compiling is not counted; the seconds that it took are in the results. They are stored in plain.json beside this file, those of
`--only` where the number of rows is the same; docs/plain.md has the table.

With `--one-key` no speed is compared: all rows have one key, and plain SQL gets through them in a driver with 2 GB, or it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from contestants.tables import PLAIN, plain
from deduplicate import MILLION, WITHIN, Memory, data, seconds
from pyspark.sql import DataFrame, SparkSession

import streamtime

HERE = Path(__file__).parent
STORED = HERE / "plain.json"
Times = dict[str, list[float]]
FLOOR = "shuffle + sort"
TICKS = os.sysconf("SC_CLK_TCK")
EVENT, ARRIVAL = "TABLE({0}) PARTITION BY k ORDER BY ts", "TABLE({0}) PARTITION BY k ORDER BY off, time => 'ts'"
GAP, HOUR, GRACE = "gap => INTERVAL 30 MINUTES", "size => INTERVAL 1 HOUR", "grace => INTERVAL 20 MINUTES"
CALLS = {
    "DEDUPLICATE within": f"DEDUPLICATE({EVENT}, {WITHIN})",
    "DEDUPLICATE within, arrival order": f"DEDUPLICATE({ARRIVAL}, {WITHIN})",
    "SESSIONIZE": f"SESSIONIZE({EVENT}, {GAP})",
    "SESSIONIZE, late rows": f"SESSIONIZE({ARRIVAL}, {GAP}, {GRACE})",
    "VERSIONS": f"VERSIONS({EVENT})",
    "AS_OF_JOIN": f"AS_OF_JOIN({EVENT}, TABLE(SELECT k, ts AS at, off AS price FROM {{0}}) PARTITION BY k ORDER BY at)",
    "DISTINCT_IN_WINDOW, arrival order": f"DISTINCT_IN_WINDOW({ARRIVAL}, {HOUR}, {GRACE})",
    "WINDOW_UPDATES, final": f"WINDOW_UPDATES({EVENT}, {HOUR}, aggregates => 'count(*) AS n, sum(off) AS total', emit => 'final')",
}
ONE_KEY = {name: text for name, text in CALLS.items() if not name.startswith(("AS_OF", "DISTINCT"))} | {
    "DEDUPLICATE for ever": f"DEDUPLICATE({EVENT})",
    "WINDOW_UPDATES": f"WINDOW_UPDATES({EVENT}, {HOUR}, aggregates => 'count(*) AS n, sum(off) AS total')",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=0, help="5 million; with --one-key 10 million")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--shapes", default="500k keys,50 keys,one hot key")
    parser.add_argument("--only", default="", help="calls whose names begin so, a regular expression")
    parser.add_argument("--one-key", action="store_true", help="all rows of one key, in 2 GB")
    options = parser.parse_args()
    options.rows = options.rows or (10 if options.one_key else 5) * MILLION
    if options.one_key:
        of_one_key(options.rows, options.cores, options.only)
        return
    spark = streamtime.session(cores=options.cores, memory="6g")
    results, compiling = dict[str, Times](), dict[str, float]()
    with tempfile.TemporaryDirectory() as name:
        for shape in options.shapes.split(","):
            view = shape.replace(" ", "_")
            print(f"[{shape}: {options.rows:,} rows, {options.rounds} rounds ..]", flush=True)
            data(spark, Path(name), view, options.rows, 50 if shape == "50 keys" else 500_000, shape == "one hot key")
            texts = dict[str, str]()
            for call, text in CALLS.items():
                if re.match(options.only, call):
                    texts[call] = f"SELECT * FROM {text.format(view)}"
                    start = time.monotonic()
                    texts[call + PLAIN] = streamtime.compile(spark, texts[call])
                    compiling[call] = time.monotonic() - start
            floor = {FLOOR: lambda view=view: sorted_by_key(spark, view)}  # type: ignore[misc]
            runs = floor | {call: (lambda text=text: spark.sql(text)) for call, text in texts.items()}  # type: ignore[misc]
            results[shape] = measured(runs, options.rounds)
            shown(shape, results[shape])
    store(options, results, compiling)
    print(plain(json.loads(STORED.read_text())))
    spark.stop()


def measured(runs: dict[str, Callable[[], DataFrame]], rounds: int) -> Times:
    """Seconds of CPU of each, in interleaved rounds, the first of which is not counted."""
    found: Times = {name: [] for name in runs}
    used = Processor()
    for number in range(rounds + 1):
        for name, make in runs.items():
            before = used.seconds()
            seconds(make)
            if number:
                found[name].append(round(used.seconds() - before, 2))
    used.stop.set()
    return found


class Processor:
    """Seconds of CPU of this process and all below it. Of a worker that has ended counts what it had when it was last looked at."""

    def __init__(self) -> None:
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.known = dict[tuple[int, int], int]()  # ticks of each process, by its number and when it began
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self) -> float:
        """Up to now."""
        with self.lock:
            self._look()
            return sum(self.known.values()) / TICKS

    def _watch(self) -> None:
        while not self.stop.wait(0.2):
            self.seconds()

    def _look(self) -> None:
        found = dict[int, tuple[int, int, int]]()  # parent, begin, ticks
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(stat.parent.name)] = int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12])
        tree = below = {os.getpid()}
        while below := {process for process, (parent, *_) in found.items() if parent in below}:
            tree = tree | below
        self.known |= {(process, found[process][1]): found[process][2] for process in tree if process in found}


def store(options: argparse.Namespace, results: dict[str, Times], compiling: dict[str, float]) -> None:
    """What was measured, beside what was before with as many rows."""
    known = json.loads(STORED.read_text()) if STORED.exists() else {"rows": 0}
    if known["rows"] != options.rows:
        known = {"cpu_seconds": {}, "compile_seconds": {}}
    for shape, times in results.items():
        known["cpu_seconds"][shape] = known["cpu_seconds"].get(shape, {}) | times
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "cores": options.cores,
        "rows": options.rows,
        "rounds": options.rounds,
        "load_average": os.getloadavg()[1],
        "compile_seconds": known["compile_seconds"] | {call: round(took, 2) for call, took in compiling.items()},
        "cpu_seconds": known["cpu_seconds"],
    }
    STORED.write_text(json.dumps(about, indent=1) + "\n")


def of_one_key(rows: int, cores: int, only: str) -> None:
    """Seconds, and the largest resident size of the JVM, whose heap has 2 GB. A call that runs out of memory ends the run."""
    memory, found = Memory(), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as name:
        spark = streamtime.session(cores=cores, memory="2g")
        data(spark, Path(name), "one_key", rows, 1)
        for call, text in ONE_KEY.items():
            if re.match(only, call):
                plain = streamtime.compile(spark, f"SELECT * FROM {text.format('one_key')}")
                memory.reset()
                took = seconds(lambda plain=plain: spark.sql(plain))  # type: ignore[misc]
                found[call] = {"seconds": took, "jvm_mb": memory.jvm}
                print(f"{call:44} {took:8.1f} s  {memory.jvm:8.0f} MB", flush=True)
        spark.stop()
    memory.stop.set()
    written = {"date": datetime.now(UTC).date().isoformat(), "rows": rows, "cores": cores, "heap": "2g"}
    written |= {"load_average": os.getloadavg()[1], "plain SQL": found}
    (HERE / "plain_one_key.json").write_text(json.dumps(written, indent=1) + "\n")


def sorted_by_key(spark: SparkSession, view: str) -> DataFrame:
    """What every call does at the least."""
    return spark.table(view).repartition("k").sortWithinPartitions("k", "ts")


def shown(shape: str, times: Times) -> None:
    """A table of medians, and of their ratios to the floor; of plain SQL also to the call."""
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(shape)
    for name, took in medians.items():
        call = medians.get(name.removesuffix(PLAIN), took)
        of_call = f"{took / call:6.2f}x the call" if name.endswith(PLAIN) else ""
        print(f"  {name:44} {took:8.2f} s of CPU  {took / medians[FLOOR]:6.2f}x {FLOOR}  {of_call}", flush=True)


if __name__ == "__main__":
    main()
