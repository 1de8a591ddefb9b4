"""Every function through two doors, on workers that cannot import streamtime: prints what each call gives."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import streamtime
from streamtime.shelf import FUNCTIONS

BLOCKER = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "streamtime":
            raise ModuleNotFoundError("streamtime is not here")
sys.meta_path.insert(0, Blocked())
"""
OPTIONS = {
    "SESSIONIZE": ", gap => INTERVAL 1 SECOND",
    "SESSION_UPDATES": ", gap => INTERVAL 1 SECOND, aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit'",
    "WINDOW_UPDATES": ", size => INTERVAL 3 SECONDS, aggregates => 'sum(off) AS n'",
    "SUPPRESS_UNTIL_CLOSE": ", window_end => 'closes'",
    "SUPPRESS_UNTIL_TIME_LIMIT": ", wait => INTERVAL 2 SECONDS",
    "DEDUPLICATE": ", within => INTERVAL 2 SECONDS",
    "VERSIONS": ", grace => INTERVAL 1 DAY",
    "DISTINCT_IN_WINDOW": ", size => INTERVAL 3 SECONDS",
    "AS_OF_JOIN": ", arrival => 'off'",
    "JOIN_CHANGES": ", keys => ARRAY('k'), order_by => ARRAY('off'), time => 'ts', versioned => ARRAY('left'), retention => INTERVAL 9 SECONDS",
    "AGGREGATE_CHANGES": ", group_by => ARRAY('k'), aggregates => 'max(off) AS top'",
    "FILTER_CHANGES": ", condition => 'off > 4', versioned => true",
}

CLAUSES = "{}, keys => ARRAY('k'), order_by => ARRAY('ts')"
NAMED = {
    "ASSIGN_TASKS": "tasks => TABLE(SELECT off AS task FROM t), members => TABLE(SELECT 1 AS member)",
    "JOIN_CHANGES": "TABLE(SELECT k, ts, off FROM t), TABLE(t)",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(BLOCKER)
        os.environ["PYTHONPATH"] = folder  # of the workers; this process has started
        spark = streamtime.session(cores=2, memory="2g", settings={"spark.sql.shuffle.partitions": "2"})
        spark.sql(
            "SELECT 'a' AS k, timestamp_seconds(id) AS ts, id AS off, timestamp_seconds(id + 5) AS closes FROM range(10)"
        ).createOrReplaceTempView("t")
        for door in ("analyzer", "udtf"):
            if door == "udtf":
                streamtime.unregister(spark)
                streamtime.register(spark, door="udtf")
            for name, tables in ((f.name, f.tables) for f in FUNCTIONS if f.tables and (door == "analyzer" or f.local is not None)):
                over = CLAUSES.format(", ".join(["TABLE(t)"] * tables))
                call = f"{name}({NAMED.get(name, over)}, output => 'rows'{OPTIONS.get(name, '')})"
                try:
                    print(door, name, spark.sql(f"SELECT * FROM {call}").count(), flush=True)
                except Exception as error:
                    print(door, name, "failed", str(error)[-400:], flush=True)
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
