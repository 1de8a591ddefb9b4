"""A stream into Delta, killed at random moments and restarted: nothing is lost, nothing doubled, no verdict changed.

Two kills by default; STREAMTIME_KILLS=20 for more.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from support import TESTS, reference
from support.jvm import talking
from support.killed_calls import CALLS
from support.reference_suppress import Suppress

KILLS = int(os.environ.get("STREAMTIME_KILLS", "2"))
SECOND = 1_000_000


def killed(random_: random.Random, folder: Path, function: str) -> list[list[reference.Row]]:
    """Files of events through a stream that is killed over and over, and then let run to its end."""
    batches = []
    (folder / "in").mkdir()
    for number in range(4 * KILLS):
        times = [(1000 + number * 20 + random_.randint(-30, 20)) * SECOND for _ in range(40)]
        rows: list[reference.Row] = [{"k": random_.randint(0, 30), "t": t, "id": number * 40 + i} for i, t in enumerate(times)]
        batches.append(rows)
        moments = pa.array([r["t"] for r in rows], pa.timestamp("us", "UTC"))
        ids = {c: pa.array([r[c] for r in rows], pa.int32()) for c in ("k", "id")}
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": ids["k"], "ts": moments, "id": ids["id"]}), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    program = (TESTS / "support" / "killed_stream.py", str(folder), function)
    for _ in range(KILLS):
        with talking(*program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as (process, said):
            for _ in range(random_.randint(0, 3)):  # so many micro-batches are done, the next is somewhere on its way
                assert said.readline().strip().isdigit()
            time.sleep(random_.uniform(0, 2))
            os.killpg(process.pid, signal.SIGKILL)  # the JVM and its Python workers with it
    with (folder / "log").open("wb") as log, talking(*program, stdout=log, stderr=log) as (_, said):
        assert said.read().endswith("done\n"), (folder / "log").read_text()[-2000:]
    return batches


def micro_batches(offsets: Path, files: list[list[reference.Row]]) -> list[tuple[list[reference.Row], int]]:
    """The rows of each micro-batch that there was, and the watermark under which it ran.

    A kill may come after Spark noted a file and before it began a micro-batch: the next one then has two files. Or after the sink has all
    rows and before Spark knows: their times then do not move the watermark.
    """
    found: list[tuple[list[reference.Row], int]] = []
    first, largest = 0, 0
    for path in sorted(offsets.glob("[0-9]*"), key=lambda p: int(p.name)):
        _, settings, offset = path.read_text().splitlines()
        watermark, last = json.loads(settings)["batchWatermarkMs"] * 1000, json.loads(offset)["logOffset"]
        assert (found[-1][1] if found else 0) <= watermark <= largest
        found.append(([row for rows in files[first : last + 1] for row in rows], watermark or reference.BEFORE))
        largest = max([largest, *(row["t"] for row in found[-1][0])])
        first = last + 1
    assert first == len(files)
    return found


def moment(micros: int | None) -> datetime.datetime | None:
    return None if micros is None else datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)


def test_a_stream_killed_at_random_moments_loses_nothing_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    batches = micro_batches(tmp_path / "checkpoint" / "offsets", killed(random.Random(KILLS), tmp_path, "deduplicate"))
    found = Counter((r.id, r.reason, r.kept_time) for r in spark.read.format("delta").load(str(tmp_path / "out")).collect())
    clocked = [(row, watermark) for rows, watermark in batches for row in reference.in_processing_order(rows, ["t"])]
    expected = reference.deduplicate([], within=30 * SECOND, order=["t"], clocked=clocked)
    assert found == Counter((j.row["id"], j.reason, moment(j.kept_time)) for j in expected)
    shutil.rmtree(tmp_path / "checkpoint")


def test_a_suppressed_stream_that_is_killed_gives_exactly_one_final_row_for_each_window_that_closed(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = micro_batches(tmp_path / "checkpoint" / "offsets", killed(random.Random(KILLS + 1), tmp_path, "suppress"))
    found = [(r.k, r.minute, r.id, r.emit_time) for r in spark.read.format("delta").load(str(tmp_path / "out")).collect()]
    minute = 60 * SECOND
    meant = [
        ([r | {"minute": r["t"] // minute * minute, "close": (r["t"] // minute + 1) * minute + 80 * SECOND} for r in rows], watermark)
        for rows, watermark in batches
    ]
    fates = Suppress(closes=True, deleted=False, keys=["k", "minute"], watermarked=True).stream(meant)
    final = [(f.row["k"], moment(f.row["minute"]), f.row["id"], moment(f.emit_time)) for f in fates if f.outcome == "released"]
    assert Counter(found) == Counter(final)
    closed = {(r["k"], r["minute"]) for rows, _ in meant for r in rows if r["close"] <= batches[-1][1]}
    assert Counter((k, m) for k, m, _, _ in found) == Counter((k, moment(m)) for k, m in closed)  # one for each, none missing
    shutil.rmtree(tmp_path / "checkpoint")


def test_joins_of_two_streams_that_are_killed_are_those_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Both sides are sources of their own, and after a kill one may be a file ahead of the other."""
    killed(random.Random(KILLS + 2), tmp_path, "joins")
    spark.read.parquet(str(tmp_path / "in")).createOrReplaceTempView("events")
    spark.read.format("delta").load(str(tmp_path / "out")).select("*", "_metadata.file_modification_time").createOrReplaceTempView("out")
    spark.sql(f"SELECT * FROM {CALLS['joins'].format('')}").createOrReplaceTempView("batch")
    last = "SELECT k, max_by(struct(l, r), {}) AS last FROM {} WHERE what = 'changes' GROUP BY k"
    arrived = spark.sql(last.format("struct(file_modification_time, id)", "out")).collect()
    assert sorted(arrived) == sorted(spark.sql(last.format("id", "batch")).collect())
    newest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    watermark = json.loads(newest.read_text().splitlines()[1])["batchWatermarkMs"]
    due = f"id IN (SELECT id FROM events WHERE unix_millis(ts) <= {watermark} - 90000)"
    of = "SELECT k, id, l, r FROM {} WHERE what = 'as of'"
    found = spark.sql(of.format("out")).collect()
    assert Counter(found) == Counter(spark.sql(f"{of.format('batch')} AND {due}").collect())
    assert len(found) > 20 * KILLS
    shutil.rmtree(tmp_path / "checkpoint")
