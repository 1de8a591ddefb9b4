"""A stream into Delta, killed at random moments and restarted: nothing is lost, nothing doubled, no verdict changed.

Three kills by default; STREAMTIME_KILLS=20 for more.
"""

from __future__ import annotations

import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import reference
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
KILLS = int(os.environ.get("STREAMTIME_KILLS", "3"))
SECOND = 1_000_000


def test_a_stream_killed_at_random_moments_loses_nothing_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    random_ = random.Random(KILLS)
    batches = []
    (tmp_path / "in").mkdir()
    for number in range(10 * KILLS):
        times = [(1000 + number * 20 + random_.randint(-30, 20)) * SECOND for _ in range(40)]
        rows = [{"k": random_.randint(0, 30), "t": t, "id": number * 40 + i} for i, t in enumerate(times)]
        batches.append(rows)
        moments = pa.array([r["t"] for r in rows], pa.timestamp("us", "UTC"))
        ids = {c: pa.array([r[c] for r in rows], pa.int32()) for c in ("k", "id")}
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": ids["k"], "ts": moments, "id": ids["id"]}), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, str(HERE / "killed_stream.py"), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            for _ in range(random_.randint(0, 4)):  # so many micro-batches are done, the next is somewhere on its way
                assert process.stdout.readline().strip().isdigit()
            time.sleep(random_.uniform(0, 2))
            os.killpg(process.pid, signal.SIGKILL)  # the JVM and its Python workers with it
    done = subprocess.run([sys.executable, str(HERE / "killed_stream.py"), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("done\n"), done.stderr[-2000:]
    found = Counter((r.id, r.reason, r.kept_time) for r in spark.read.format("delta").load(str(tmp_path / "out")).collect())
    expected = reference.deduplicate([], within=30 * SECOND, order=["t"], clocked=reference.in_micro_batches(batches, ["t"], 0, 1000))

    def moment(micros: int | None) -> datetime.datetime | None:
        return None if micros is None else datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)

    assert found == Counter((j.row["id"], j.reason, moment(j.kept_time)) for j in expected)
    shutil.rmtree(tmp_path / "checkpoint")
