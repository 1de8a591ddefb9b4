"""A key with 10 million rows needs constant memory in Python, and little in the JVM: run in a process of its own, to measure it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys, threading, time
from pathlib import Path
import streamtime

spark = streamtime.session(cores=2, memory="1g", settings={"spark.sql.shuffle.partitions": "2"})
peak, done = [0], threading.Event()

def watch():  # the largest Python worker; the JVM is bounded by its heap of 1 GB
    while not done.wait(0.2):
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
                if "pyspark.daemon" in (status.parent / "cmdline").read_text():
                    peak[0] = max(peak[0], int(text.split("VmRSS:")[1].split()[0]))
            except (OSError, IndexError):
                pass

threading.Thread(target=watch, daemon=True).start()
spark.range(10_000_000).selectExpr("'hot' AS k", "timestamp_seconds(id) AS ts", "id").createOrReplaceTempView("t")
call = "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => INTERVAL 9 SECONDS)"
count = spark.sql(f"SELECT count(*) AS n FROM {call}").first().n
done.set()
print(json.dumps({"rows": count, "worker_mb": peak[0] / 1024}))
"""


@pytest.mark.long("tests/udfs/updates/test_updates.py")
def test_a_hot_key_of_ten_million_rows_in_bounded_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    got = json.loads(done.stdout.splitlines()[-1])
    assert got["rows"] == 1_000_000
    assert 0 < got["worker_mb"] < 400, got  # pyarrow and numpy alone take about 150
