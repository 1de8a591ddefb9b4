"""Many clients at once on one `streamtime serve`, over both doors: `python3 run.py benchmark load --clients 16 --seconds 60`.

Each client opens a session, runs every example of the reference pages, compares each answer with the page's, closes the session, and starts
again while the time is not over: a round that has begun is ended, so a block lasts longer where one round does. Half of them are Spark
Connect's, most others PyHive's, and some are beeline's. Before the blocks and after each: what the server holds, its memory after a garbage
collection. Exit code 1 for a wrong answer, a session that is left, or more held than `contestants/growth.py` allows.
Writes load.json beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyspark
from contestants.measured_on import today
from pyhive import hive
from pyspark.sql import SparkSession
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1]))
from contestants.growth import IDLE, beyond
from ready import cpu
from support.served import Served, serving

from streamtime.describe import ResultTable, results, run_examples
from streamtime.shelf import FUNCTIONS

HERE = Path(__file__).parent
Found = dict[str, list[ResultTable]]
MARK, BETWEEN = "end of statement", "\x01"


def connect(server: Served, schema: str) -> Found:
    """One session of Spark Connect."""
    spark: Any = SparkSession.builder.remote(server.ready["connect"]).create()
    try:

        def run(text: str) -> ResultTable:
            df = spark.sql(text)
            return {"columns": df.columns, "rows": [list(row) for row in df.collect()] if df.columns else []}

        return examples(run, schema)
    finally:
        spark.stop()


def thrift(server: Served, schema: str) -> Found:
    """One connection of PyHive."""
    with hive.connect("127.0.0.1", server.ready["thrift_port"]) as connection:

        def run(text: str) -> ResultTable:
            with connection.cursor() as cursor:
                cursor.execute(text)
                columns = [column[0] for column in cursor.description or ()]
                return {"columns": columns, "rows": [list(row) for row in cursor.fetchall()] if columns else []}

        return examples(run, schema)


def beeline(server: Served, schema: str) -> Found:
    """One run of beeline, which is Hive's JDBC driver."""
    texts: list[str] = []
    examples(lambda text: texts.append(text) or {"columns": [], "rows": []}, schema)  # type: ignore[func-returns-value]
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{server.ready['thrift_port']}/", "-n", "load", "--silent=true"]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("".join(f"{text}\n;\nSELECT '{MARK}' AS m;\n" for text in texts))
        script.flush()
        shape = ("--outputformat=dsv", f"--delimiterForDSV={BETWEEN}")
        environment = os.environ | {"SPARK_HOME": str(home)}
        done = subprocess.run([*command, *shape, "-f", script.name], capture_output=True, text=True, env=environment, check=False)
    written = re.sub(r"(?m)^(null *\n|null(?=\S))", "", done.stdout)  # its progress, of which Spark tells nothing
    said = [part.strip("\n").split("\n") for part in written.split(f"m\n{MARK}\n")]
    tables = iter([{"columns": head.split(BETWEEN), "rows": [row.split(BETWEEN) for row in rows]} for head, *rows in said])
    assert len(said) > len(texts), done.stdout[-500:] + done.stderr[-1500:]
    return examples(lambda _: next(tables), schema)


def examples(run: Callable[[str], ResultTable], schema: str) -> Found:
    """All examples, in a schema of the client's own: some make tables."""
    run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    run(f"CREATE SCHEMA {schema}")
    run(f"USE {schema}")
    return run_examples(FUNCTIONS, run)


def same(found: ResultTable, expected: ResultTable) -> bool:
    """Whether an answer is that of the page, however a door writes its values."""
    return list(map(str.lower, found["columns"])) == list(map(str.lower, expected["columns"])) and [
        list(map(plain, row)) for row in found["rows"]
    ] == [list(map(plain, row)) for row in expected["rows"]]


def plain(value: object) -> str:
    """A value in one way: JDBC has tenths of seconds, and lists as JSON."""
    text = "null" if value is None else str(value).lower()
    return re.sub(r"(:\d\d)\.0\b", r"\1", text.replace('"', "'").replace(" ", ""))


def differences(found: Found) -> list[str]:
    """The examples whose answer is another one than the page's."""
    return [
        f"{name}, example {number + 1}: {found.get(name, [])[number : number + 1]}"
        for name, tables in results().items()
        for number, table in enumerate(tables)
        if name not in found or len(found[name]) <= number or not same(found[name][number], table)
    ]


class Clients:
    """Clients that ask until the time is over, each in a thread."""

    def __init__(self, server: Served, doors: Iterable[Callable[[Served, str], Found]]) -> None:
        self.server, self.doors = server, list(doors)
        self.rounds: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.lock = threading.Lock()

    def run(self, seconds: float) -> None:
        """Each asks at least once."""
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self._ask, args=(number, door, until)) for number, door in enumerate(self.doors)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _ask(self, number: int, door: Callable[[Served, str], Found], until: float) -> None:
        while True:
            try:
                wrong = differences(door(self.server, f"load_{number}"))
            except Exception as problem:
                wrong = [f"{type(problem).__name__}: {str(problem)[:2000]}"]
            with self.lock:
                self.rounds[door.__name__] += 1
                self.wrong += [f"{door.__name__}, client {number}, {text}" for text in wrong]
            if time.monotonic() >= until:
                return


def held(server: Served) -> dict[str, int]:
    """What the server holds, once its garbage is collected."""
    jvm = next(pid for pid in children(server.process.pid) if name(pid) == "java")
    for _ in range(2):  # what the first one finalizes, the second one collects
        subprocess.run(["jcmd", str(jvm), "GC.run"], check=True, capture_output=True)
    header, values = subprocess.run(["jstat", "-gc", str(jvm)], check=True, capture_output=True, text=True).stdout.splitlines()
    gc = {key: float(value) for key, value in zip(header.split(), values.split(), strict=True) if value != "-"}
    return {
        "sessions": sum(sessions(server).values()),
        "threads of the JVM": int(status(jvm, "Threads")),
        "heap, MB": round(sum(gc[key] for key in ("S0U", "S1U", "EU", "OU")) / 1024),
        "classes, MB": round(gc["MU"] / 1024),
        "threads of Python": int(status(server.process.pid, "Threads")),
        "memory of Python, MB": int(status(server.process.pid, "VmRSS")) // 1024,
        "processes": len(list(descendants(server.process.pid))),
        "CPU seconds until then": round(cpu(server.process.pid)),
    }


def sessions(server: Served) -> dict[str, int]:
    """How many sessions there are, by door."""
    with urllib.request.urlopen(server.ready["health"], timeout=30) as told:
        found: dict[str, int] = json.load(told)["sessions"]
        return found


def status(pid: int, key: str) -> str:
    """A line of Linux's status of a process."""
    return re.findall(rf"(?m)^{key}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]


def name(pid: int) -> str:
    """What a process runs."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> Iterable[int]:
    """These, and theirs."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    some = max(options.clients // 8, 1)
    doors = [*[beeline] * some, *[thrift] * (options.clients // 2 - some), *[connect] * (options.clients - options.clients // 2)]
    small = ("--cores", str(options.cores), "--memory", "3g")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *small, java="") as server:
        warm = Clients(server, [beeline, thrift, connect])
        warm.run(0)
        print(*warm.wrong, sep="\n")
        time.sleep(IDLE)
        lines = {"before": held(server)}
        clients, began = Clients(server, doors), time.monotonic()
        for number in range(options.blocks):
            print(f"[{len(doors)} clients, {options.seconds:.0f} seconds, {number + 1} of {options.blocks} ..]", flush=True)
            clients.run(options.seconds)
            time.sleep(IDLE)
            lines[f"after {number + 1}"] = held(server)
        seconds = time.monotonic() - began
    table = [{"": figure} | {when: line[figure] for when, line in lines.items()} for figure in lines["before"]]
    asked = sum(clients.rounds.values()) * sum(len(tables) for tables in results().values())
    print(tabulate(table, headers="keys"))
    print(f"{dict(clients.rounds)} rounds, {asked:,} answers in {seconds:.0f} s, {len(clients.wrong)} wrong")
    over = beyond(lines)
    print(*clients.wrong[:20], *over, sep="\n")
    written = {
        **today(options.cores),
        "clients": {door.__name__: doors.count(door) for door in dict.fromkeys(doors)},
        "seconds": round(seconds),
        "rounds": clients.rounds,
        "answers": asked,
        "wrong": len(clients.wrong),
        "held": lines,
    }
    (HERE / "load.json").write_text(json.dumps(written, indent=1) + "\n")
    return 1 if clients.wrong or over else 0


if __name__ == "__main__":
    sys.exit(main())
