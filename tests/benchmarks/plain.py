"""Plain SQL against the calls that it was compiled from, and bare shuffle + sort: `python3 run.py benchmark plain`.

Same data, noop sink and interleaved rounds as the benchmark of DEDUPLICATE. Each call is a contestant, and so is what `streamtime.compile`
makes of it. They are compared in seconds of CPU, of the JVM and of its Python workers together, which a busy machine does not change much,
and by the clock. Compiling is not counted, but measured: the first time, and the median of three more, of which also the CPU.

What is found is stored in plain.json beside this file, call by call: what was not run this time stays. docs/plain.md has the table.

With `--one-key` no speed is compared: all rows have one key, and plain SQL gets through them in a driver with 2 GB, or it does not. Each
call has a process of its own, so that the others go on; plain_one_key.json has what became of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contestants.measured_on import today
from contestants.tables import PLAIN, plain, plain_one_key
from deduplicate import MILLION, WITHIN, Memory, data, seconds
from pyspark.sql import DataFrame, SparkSession

import streamtime

HERE = Path(__file__).parent
STORED, ONE_STORED = HERE / "plain.json", HERE / "plain_one_key.json"
Times = dict[str, list[float]]
FLOOR, HEAP = "shuffle + sort", "2g"
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
ONE_KEY = CALLS | {
    "DEDUPLICATE for ever": f"DEDUPLICATE({EVENT})",
    "WINDOW_UPDATES": f"WINDOW_UPDATES({EVENT}, {HOUR}, aggregates => 'count(*) AS n, sum(off) AS total')",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=0, help="5 million; with --one-key 10 million")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--shapes", default="500k keys,50 keys,one hot key")
    parser.add_argument("--only", default="", help="calls whose names match this regular expression from the beginning")
    parser.add_argument("--one-key", action="store_true", help="all rows of one key, in 2 GB")
    parser.add_argument("--in-folder", help=argparse.SUPPRESS)  # the process of one call, over these rows
    options = parser.parse_args()
    options.rows = options.rows or (10 if options.one_key else 5) * MILLION
    if options.in_folder:
        print(json.dumps(gone_through(options.only, Path(options.in_folder), options.cores)))
    elif options.one_key:
        of_one_key(options)
    else:
        compared(options)


def compared(options: argparse.Namespace) -> None:
    spark = streamtime.session(cores=options.cores, memory="6g")
    with tempfile.TemporaryDirectory() as name:
        for shape in options.shapes.split(","):
            view = shape.replace(" ", "_")
            print(f"[{shape}: {options.rows:,} rows, {options.rounds} rounds ..]", flush=True)
            data(spark, Path(name), view, options.rows, 50 if shape == "50 keys" else 500_000, shape == "one hot key")
            texts, compiling = dict[str, str](), dict[str, dict[str, float]]()
            for call, text in CALLS.items():
                if re.match(options.only, call):
                    texts[call] = f"SELECT * FROM {text.format(view)}"
                    texts[call + PLAIN], compiling[call] = compiled(spark, texts[call])
            floor = {FLOOR: lambda view=view: sorted_by_key(spark, view)}  # type: ignore[misc]
            runs = floor | {call: (lambda text=text: spark.sql(text)) for call, text in texts.items()}  # type: ignore[misc]
            cpu, clock = measured(runs, options.rounds)
            shown(shape, cpu, clock)
            store(options, shape, cpu, clock, compiling)
    print(plain(json.loads(STORED.read_text())))
    spark.stop()


def compiled(spark: SparkSession, text: str) -> tuple[str, dict[str, float]]:
    """Plain SQL, and the seconds that it took to make it the first time, and thereafter; of these also the seconds of CPU."""
    took, used = list[tuple[float, float]](), Processor()
    for _ in range(4):
        start, before = time.monotonic(), used.seconds()
        made = streamtime.compile(spark, text)
        took.append((time.monotonic() - start, used.seconds() - before))
    used.stop.set()
    later, cpu = (round(statistics.median(of), 2) for of in zip(*took[1:], strict=True))
    return made, {"first": round(took[0][0], 2), "median of three": later, "CPU of these": cpu}


def measured(runs: dict[str, Callable[[], DataFrame]], rounds: int) -> tuple[Times, Times]:
    """Seconds of CPU of each, and of the clock, in interleaved rounds, the first of which is not counted."""
    cpu, clock = Times({name: [] for name in runs}), Times({name: [] for name in runs})
    used = Processor()
    for number in range(rounds + 1):
        for name, make in runs.items():
            before = used.seconds()
            took = seconds(make)
            if number:
                cpu[name].append(round(used.seconds() - before, 2))
                clock[name].append(round(took, 2))
    used.stop.set()
    return cpu, clock


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


def about_now(options: argparse.Namespace) -> dict[str, Any]:
    """Where and when something is measured."""
    return today() | {"rows": options.rows, "cores": options.cores, "load_average": round(os.getloadavg()[1])}


def before(stored: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {}
    return found


def store(options: argparse.Namespace, shape: str, cpu: Times, clock: Times, compiling: dict[str, dict[str, float]]) -> None:
    """The calls that were run with this shape, beside what was there."""
    about = before(STORED)
    about.setdefault("compile_seconds", {}).update(compiling)
    for call in compiling:
        of_each = [{"call": times[call], "plain": times[call + PLAIN], FLOOR: times[FLOOR]} for times in (cpu, clock)]
        found = about_now(options) | {"cpu_seconds": of_each[0], "seconds": of_each[1]}
        about.setdefault("shapes", {}).setdefault(shape, {})[call] = found
    STORED.write_text(json.dumps(about, indent=1) + "\n")


def of_one_key(options: argparse.Namespace) -> None:
    """Each call in a process of its own, which may end in any way."""
    with tempfile.TemporaryDirectory() as name:
        spark = streamtime.session(cores=options.cores, memory=HEAP)
        data(spark, Path(name), "one_key", options.rows, 1)
        spark.stop()
        for call in (c for c in ONE_KEY if re.match(options.only, c)):
            command = [sys.executable, __file__, "--one-key", "--cores", str(options.cores), "--only", call, "--in-folder", name]
            ended = subprocess.run(command, capture_output=True, text=True)
            said = ended.stdout.strip().rpartition("\n")[2]
            found = json.loads(said) if ended.returncode == 0 else {"failed": why(ended.stderr)}
            about = before(ONE_STORED) | {"heap": HEAP}
            about.setdefault("plain SQL", {})[call] = about_now(options) | found
            ONE_STORED.write_text(json.dumps(about, indent=1) + "\n")
            print(f"{call:44} {found}", flush=True)
    print(plain_one_key(json.loads(ONE_STORED.read_text())))


def gone_through(call: str, folder: Path, cores: int) -> dict[str, float]:
    """Seconds, seconds of CPU, and the largest resident size of the JVM, whose heap has 2 GB."""
    spark = streamtime.session(cores=cores, memory=HEAP)
    spark.read.parquet(str(folder / "one_key")).createOrReplaceTempView("one_key")
    text = streamtime.compile(spark, f"SELECT * FROM {ONE_KEY[call].format('one_key')}")
    memory, used = Memory(), Processor()
    before = used.seconds()
    took = seconds(lambda: spark.sql(text))
    found = {"seconds": round(took, 1), "cpu_seconds": round(used.seconds() - before, 1), "jvm_mb": round(memory.jvm)}
    memory.stop.set()
    used.stop.set()
    spark.stop()
    return found


def why(log: str) -> str:
    """What a process ended by."""
    errors = re.findall(r"[\w.]*(?:OutOfMemory|Exception|Error)[^\n]*", log)
    memory = [error for error in errors if "OutOfMemory" in error]
    return [*memory, *errors, "it ended without a word"][0][:200]


def sorted_by_key(spark: SparkSession, view: str) -> DataFrame:
    """What every call does at the least."""
    return spark.table(view).repartition("k").sortWithinPartitions("k", "ts")


def shown(shape: str, cpu: Times, clock: Times) -> None:
    """A table of medians, and of their ratios to the floor; of plain SQL also to the call."""
    print(shape)
    medians = [{name: statistics.median(found) for name, found in times.items()} for times in (cpu, clock)]
    for name in cpu:
        line = f"  {name:44}"
        for unit, of in zip(("s of CPU", "s"), medians, strict=True):
            call = of.get(name.removesuffix(PLAIN), of[name])
            line += f" {of[name]:8.2f} {unit} {of[name] / of[FLOOR]:6.2f}x {FLOOR}"
            line += f" {of[name] / call:6.2f}x the call" if name.endswith(PLAIN) else " " * 16
        print(line, flush=True)


if __name__ == "__main__":
    main()
