"""A long run that CI has no time for: maintained tables over hundreds of random commits, in a process that is killed on the way.

    python3 run.py sweep --commits 300 --kills 10

Prints each commit and how many rows differ from the queries; ends with 'N passed, N failed'.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import streamtime
from streamtime.session import lasting

sys.path.insert(0, str(Path(__file__).parent))
from support import maintained as cases

SCHEMA = "swept"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", default=",".join(cases.QUERIES))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Path(options.child[0]), int(options.child[1]), options)
    with tempfile.TemporaryDirectory() as name:
        folder, random_ = Path(name), random.Random(options.seed)
        done, failed, kills = folder / "done", 0, 0
        while count(done) < options.commits:
            command = [
                sys.executable,
                __file__,
                "--seed",
                str(options.seed),
                "--queries",
                options.queries,
                "--child",
                name,
                str(options.commits),
            ]
            process = subprocess.Popen(command)
            if kills < options.kills:
                kills += 1
                time.sleep(random_.uniform(40, 120))
                process.kill()
                print(f"[killed, after {count(done)} commits]", flush=True)
            failed += int(process.wait() == 1)
            if failed:
                break
        print(f"{count(done)} passed, {failed} failed")
        return int(failed > 0)


def count(done: Path) -> int:
    return len(done.read_text().splitlines()) if done.exists() else 0


def child(folder: Path, commits: int, options: argparse.Namespace) -> int:
    """Commits, and runs, until all are done or the process is killed. What was done before lasts."""
    settings = lasting(folder / "warehouse") | {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "Europe/Berlin"}
    spark = streamtime.session(cores=2, memory="3g", settings=settings)
    done, names = folder / "done", options.queries.split(",")
    if not spark.catalog.databaseExists(SCHEMA):
        spark.sql(f"CREATE SCHEMA {SCHEMA}")
    if not all(spark.catalog.tableExists(f"{SCHEMA}.{name}") for name in cases.TABLES):
        spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")
        spark.sql(f"CREATE SCHEMA {SCHEMA}")
        cases.made(spark, SCHEMA)
    for number in range(count(done), commits):
        random_ = random.Random(f"{options.seed} {number}")
        text = cases.commit(spark, SCHEMA, random_)
        name = names[number % len(names)]  # each query sees several commits at once
        receipt = cases.maintained(spark, SCHEMA, name, "auto" if random_.random() < 0.2 or not cases.QUERIES[name][2] else "incremental")
        differing = cases.differs(spark, SCHEMA, name)
        print(f"{number:4} {name:10} {receipt.way:12} {differing}  {text[:120]}", flush=True)
        if differing:
            return 1
        with done.open("a") as file:
            file.write(f"{number}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
