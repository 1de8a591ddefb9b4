"""A stream over files, one micro-batch for each."""

from __future__ import annotations

import datetime
import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

EPOCH = datetime.datetime(1970, 1, 1)


SECOND = 1_000_000


DDL = "k STRING, ts TIMESTAMP, id INT, off INT"


Rows = list[dict[str, Any]]


class Source:
    """A folder whose files are read as micro-batches, one each, and a query's checkpoint beside it."""

    def __init__(self, spark: SparkSession, folder: Path, ddl: str = DDL) -> None:
        self.spark, self.folder, self.ddl, self.files = spark, folder, ddl, 0
        (folder / "in").mkdir()
        self.found: dict[int, list[Row]] = {}
        self.progress: list[Any] = []

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        """One more micro-batch."""
        path = self.folder / "in" / f"{self.files}.parquet"
        pq.write_table(self.spark.createDataFrame(rows, self.ddl).toArrow(), path)
        os.utime(path, (1_700_000_000 + self.files, 1_700_000_000 + self.files))
        self.files += 1

    def stream(self) -> DataFrame:
        """The folder as a stream."""
        reader = self.spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", "1").option("maxFileAge", "9999d")
        return reader.parquet(str(self.folder / "in"))

    def run(self, text: str) -> list[Row]:
        """Start or restart the query over all files there are, and give all rows it has put out so far."""
        self.stream().createOrReplaceTempView("events")
        if "ts" in self.stream().columns:
            self.stream().withWatermark("ts", "2 seconds").createOrReplaceTempView("marked")

        def write(df: DataFrame, number: int) -> None:
            self.found[number] = df.collect()

        writer = self.spark.sql(text).writeStream.foreachBatch(write).option("checkpointLocation", str(self.folder / "checkpoint"))
        for left in reversed(range(10)):
            query = writer.trigger(availableNow=True).start()
            try:
                query.awaitTermination()
                break
            except StreamingQueryException as error:
                # Spark gives a Python process ten seconds to start, which a busy machine may not keep to; then a job is started again, too
                if left == 0 or "Python worker failed to connect back" not in str(error):
                    raise
            finally:
                self.progress += query.recentProgress
        return [row for rows in self.found.values() for row in rows]


def on_the_wall(source: Source, text: str, rows: int) -> list[Any]:
    """What a query by the clock on the wall puts out until so many rows are there. It never ends by itself: time always passes."""
    source.stream().createOrReplaceTempView("events")
    found: dict[int, list[Any]] = {}
    commits = source.folder / "checkpoint" / "commits"  # a micro-batch that is not there runs again, by another clock

    def write(df: DataFrame, batch: int) -> None:
        found[batch] = df.collect()

    writer = source.spark.sql(text).writeStream.foreachBatch(write).option("checkpointLocation", str(source.folder / "checkpoint"))
    until = time.monotonic() + 900
    for left in reversed(range(10)):
        query = writer.trigger(processingTime="500 milliseconds").start()
        try:
            while time.monotonic() < until and query.isActive:
                if sum(map(len, found.values())) >= rows and (commits / str(max(found))).exists():
                    break
                time.sleep(0.2)
            problem = query.exception()  # afterwards there may be one that says no more than that it was stopped
        finally:
            query.stop()
        if left == 0 or "Python worker failed to connect back" not in str(problem):  # as in `Source.run`
            break
    assert problem is None
    return [row for some in found.values() for row in some]


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=seconds)


def ids(rows: list[Row]) -> list[int]:
    return sorted(r.id for r in rows)


def random_batches(random_: random.Random, disorder: int) -> list[Rows]:
    rows = [
        {
            "k": random_.choice([None, "a", "b", "c", "d", "ä"]),
            "t": random_.choice([None, *([(1000 + i + random_.randint(-disorder, disorder)) * SECOND] * 20)]),
            "id": i,
            "off": random_.choice([None, i, random_.randint(0, 3)]),
        }
        for i in range(60)
    ]
    cuts = sorted(random_.sample(range(1, 60), 4))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True)]


def replay(source: Source, batches: list[Rows], text: str, random_: random.Random) -> list[Row]:
    """The batches one by one, the query stopped and restarted in between wherever chance says so."""
    found: list[Row] = []
    for number, rows in enumerate(batches):
        source.add([(r["k"], None if r["t"] is None else EPOCH + datetime.timedelta(microseconds=r["t"]), r["id"], r["off"]) for r in rows])
        if number == len(batches) - 1 or random_.random() < 0.4:
            found = source.run(text)
    return found


def micros(value: datetime.datetime | None) -> int | None:
    return None if value is None else (value - EPOCH) // datetime.timedelta(microseconds=1)


class Far(Source):
    """A stream of times that Python's datetime does not know: they are given as microseconds."""

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        """One more micro-batch."""
        names = [(name, kind == "TIMESTAMP") for name, kind in (column.split() for column in self.ddl.split(", "))]
        df = self.spark.createDataFrame(rows, self.ddl.replace("TIMESTAMP", "BIGINT"))
        self.add_all(df.selectExpr(*[f"timestamp_micros({name}) AS {name}" if moment else name for name, moment in names]))

    def add_all(self, df: DataFrame) -> None:
        """One more, of all rows of this."""
        df.coalesce(1).write.parquet(str(self.folder / str(self.files)))
        (part,) = (self.folder / str(self.files)).glob("*.parquet")
        at = self.folder / "in" / f"{self.files}.parquet"
        part.rename(at)
        os.utime(at, (1_700_000_000 + self.files, 1_700_000_000 + self.files))
        self.files += 1
