"""Streams into Delta, killed at random moments and restarted: nothing is lost, nothing doubled, no verdict changed.

One kill in a short run, else two, each of a process in which all queries run; STREAMTIME_KILLS=20 for more.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import PROGRAMS, reference
from support.programs.jvm import talking
from support.programs.killed_calls import CALLS
from support.reference import deduplicate as reference_deduplicate
from support.reference.suppress import Suppress

SECOND = 1_000_000


Files = list[list[reference.Row]]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, thorough: bool) -> tuple[Files, Path]:
    """Files of events through streams that are killed over and over, and then let run to their end; and the folder with what they wrote."""
    kills = int(os.environ.get("STREAMTIME_KILLS", "2" if thorough else "1"))
    random_, folder = random.Random(kills), tmp_path_factory.mktemp("killed")
    batches = []
    (folder / "in").mkdir()
    for number in range(4 * max(kills, 2)):
        times = [(1000 + number * 20 + random_.randint(-30, 20)) * SECOND for _ in range(40)]
        rows: list[reference.Row] = [{"k": random_.randint(0, 30), "t": t, "id": number * 40 + i} for i, t in enumerate(times)]
        batches.append(rows)
        moments = pa.array([r["t"] for r in rows], pa.timestamp("us", "UTC"))
        ids = {c: pa.array([r[c] for r in rows], pa.int32()) for c in ("k", "id")}
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": ids["k"], "ts": moments, "id": ids["id"]}), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    program = (PROGRAMS / "killed_stream.py", str(folder))
    for _ in range(kills):
        with talking(*program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as (process, said):
            for _ in range(random_.randint(1, 6)):  # so many micro-batches of all queries are done, the next are somewhere on their way
                assert said.readline().strip().isdigit()
            time.sleep(random_.uniform(0, 2))
            os.killpg(process.pid, signal.SIGKILL)  # the JVM and its Python workers with it
    with (folder / "log").open("wb") as log, talking(*program, stdout=log, stderr=log) as (_, said):
        assert said.read().endswith("done\n"), (folder / "log").read_text()[-2000:]
    return batches, folder


def micro_batches(offsets: Path, files: Files) -> list[tuple[list[reference.Row], int]]:
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


@pytest.mark.long("tests/sql/stream/test_streaming.py::test_deduplicate_over_a_stream_cut_and_restarted_at_random")
def test_a_stream_killed_at_random_moments_loses_nothing_and_doubles_nothing(spark: SparkSession, killed: tuple[Files, Path]) -> None:
    files, folder = killed
    batches = micro_batches(folder / "deduplicate" / "checkpoint" / "offsets", files)
    written = spark.read.format("delta").load(str(folder / "deduplicate" / "out"))
    found = Counter((r.id, r.reason, r.kept_time) for r in written.collect())
    clocked = [(row, watermark) for rows, watermark in batches for row in reference.in_processing_order(rows, ["t"])]
    expected = reference_deduplicate.deduplicate([], within=30 * SECOND, order=["t"], clocked=clocked)
    assert found == Counter((j.row["id"], j.reason, moment(j.kept_time)) for j in expected)


@pytest.mark.long("tests/sql/stream/test_suppress_stream.py")
def test_a_suppressed_stream_that_is_killed_gives_exactly_one_final_row_for_each_window_that_closed(
    spark: SparkSession, killed: tuple[Files, Path]
) -> None:
    files, folder = killed
    batches = micro_batches(folder / "suppress" / "checkpoint" / "offsets", files)
    written = spark.read.format("delta").load(str(folder / "suppress" / "out"))
    found = [(r.k, r.minute, r.id, r.emit_time) for r in written.collect()]
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


@pytest.mark.long("tests/sql/changes/test_changes_streams.py")
def test_joins_of_two_streams_that_are_killed_are_those_of_batch(spark: SparkSession, killed: tuple[Files, Path]) -> None:
    """Both sides are sources of their own, and after a kill one may be a file ahead of the other."""
    _, folder = killed
    spark.read.parquet(str(folder / "in")).createOrReplaceTempView("events")
    spark.read.format("delta").load(str(folder / "joins" / "out")).select("*", "_metadata.file_modification_time").createOrReplaceTempView(
        "out"
    )
    spark.sql(f"SELECT * FROM {CALLS['joins'].format('')}").createOrReplaceTempView("batch")
    last = "SELECT k, max_by(struct(l, r), {}) AS last FROM {} WHERE what = 'changes' GROUP BY k"
    arrived = spark.sql(last.format("struct(file_modification_time, id)", "out")).collect()
    assert sorted(arrived) == sorted(spark.sql(last.format("id", "batch")).collect())
    newest = max((folder / "joins" / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    watermark = json.loads(newest.read_text().splitlines()[1])["batchWatermarkMs"]
    due = f"id IN (SELECT id FROM events WHERE unix_millis(ts) <= {watermark} - 90000)"
    of = "SELECT k, id, l, r FROM {} WHERE what = 'as of'"
    found = spark.sql(of.format("out")).collect()
    assert Counter(found) == Counter(spark.sql(f"{of.format('batch')} AND {due}").collect())
    assert len(found) > 40
