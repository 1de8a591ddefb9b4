"""Functions on a stream against Spark's own, side by side in one process: DEDUPLICATE against `dropDuplicatesWithinWatermark` and a per-key
`transformWithState`; with `--suite windows`, final rows of windows against Spark's window aggregate in append mode; with
`--suite joins`, joins of two streams against Spark's own.

Every contestant reads the same Parquet files, one a micro-batch, keeps its state in RocksDB and writes to the noop sink; each starts from
its own new checkpoint. The time is that of all micro-batches but the first, which starts workers. Rounds are interleaved; some before
them are not counted: the JVM compiles then, for half a minute and longer. `python3 run.py benchmark streaming`.
What is measured takes the place of what was: by shape and contestant, each with its date.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import streamtime

HERE = Path(__file__).parent
MILLION = 1_000_000
WITHIN = 6 * 3600  # seconds
MOST_KEYS_ONE_BY_ONE = 100_000
WARM = {"100k keys": 4}  # rounds that are not counted, where a round is short; else one
SCHEMA = "k LONG, ts TIMESTAMP, off LONG, x DOUBLE, page STRING"


class PerKey(StatefulProcessor):
    """What one writes by hand: the kept time of each key as a value of its own."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.kept = handle, handle.getValueState("kept", "micros LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        found = self.kept.get()
        before = kept = found[0] if found else None
        for row in rows:
            if kept is None or abs(row.micros - kept) > WITHIN * 1_000_000:
                kept = row.micros
                yield row
        if kept != before:
            self.kept.update((kept,))
            self.handle.registerTimer(kept // 1000 + WITHIN * 1000)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        found = self.kept.get()
        if found and found[0] // 1000 + WITHIN * 1000 <= timerValues.getCurrentWatermarkInMs():
            self.kept.clear()
        return iter(())

    def close(self) -> None:
        pass


def ours(stream: DataFrame) -> DataFrame:
    stream.createOrReplaceTempView("stream")
    return stream.sparkSession.sql(
        f"SELECT * FROM DEDUPLICATE(TABLE(stream) PARTITION BY k ORDER BY ts, within => INTERVAL {WITHIN} SECONDS)"
    )


def within_watermark(stream: DataFrame) -> DataFrame:
    return stream.withWatermark("ts", f"{WITHIN} seconds").dropDuplicatesWithinWatermark(["k"])


def per_key(stream: DataFrame) -> DataFrame:
    rows = stream.withWatermark("ts", "0 seconds").withColumn("micros", F.unix_micros("ts")).withColumn("ts", F.timestamp_micros("micros"))
    return rows.groupBy("k").transformWithState(
        PerKey(), "k LONG, ts TIMESTAMP, off LONG, x DOUBLE, page STRING, micros LONG", "Append", "EventTime"
    )


AGGREGATES = "count(*) AS n, sum(x) AS total, max(x) AS high"
UPDATES = (
    "SELECT * FROM WINDOW_UPDATES(TABLE(stream) PARTITION BY k ORDER BY ts, size => INTERVAL 10 MINUTES, "
    f"watermark => INTERVAL 10 MINUTES, aggregates => '{AGGREGATES}'{{}})"
)
SUPPRESSED = "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE({}) PARTITION BY (k, window_start) ORDER BY (ts, change_seq), time => 'change_time')"


def spark_windows(stream: DataFrame) -> DataFrame:
    stream.withWatermark("ts", "10 minutes").createOrReplaceTempView("stream")
    return stream.sparkSession.sql(f"SELECT k, window(ts, '10 minutes') AS w, {AGGREGATES} FROM stream GROUP BY 1, 2")


def final_windows(stream: DataFrame) -> DataFrame:
    return updates(stream, ", emit => 'final'")


def suppressed_windows(stream: DataFrame) -> DataFrame:
    stream.createOrReplaceTempView("stream")
    return stream.sparkSession.sql(SUPPRESSED.format(UPDATES.format("")))


def suppressed_apart(stream: DataFrame) -> DataFrame:
    """What stands between the calls keeps them from being planned as one."""
    updates(stream, "").createOrReplaceTempView("updates")
    return stream.sparkSession.sql(SUPPRESSED.format("updates"))


def updates(stream: DataFrame, more: str) -> DataFrame:
    stream.createOrReplaceTempView("stream")
    return stream.sparkSession.sql(UPDATES.format(more))


def spark_join(stream: DataFrame) -> DataFrame:
    """Rows that lie within ten minutes of each other: it has no tables, and without a bound its state grows with the rows."""
    left = stream.where("off % 2 = 0").selectExpr("k", "off", "ts", "x").withWatermark("ts", "10 minutes")
    right = stream.where("off % 2 = 1").selectExpr("k AS rk", "off AS number", "ts AS since", "page").withWatermark("since", "10 minutes")
    return left.join(right, F.expr("k = rk AND since BETWEEN ts - INTERVAL 10 MINUTES AND ts + INTERVAL 10 MINUTES"))


def joined_changes(stream: DataFrame) -> DataFrame:
    stream.createOrReplaceTempView("stream")
    return stream.sparkSession.sql(
        "SELECT * FROM JOIN_CHANGES(TABLE(SELECT k, off, ts, x FROM stream WHERE off % 2 = 0) PARTITION BY k ORDER BY off,"
        " TABLE(SELECT k, off, ts, page FROM stream WHERE off % 2 = 1) PARTITION BY k ORDER BY off, time => 'ts')"
    )


def met_versions(stream: DataFrame) -> DataFrame:
    stream.createOrReplaceTempView("stream")
    return stream.sparkSession.sql(
        "SELECT * FROM AS_OF_JOIN(TABLE(SELECT k, off, ts, x FROM stream WHERE off % 2 = 0) PARTITION BY k ORDER BY ts,"
        " TABLE(SELECT k, ts AS since, page FROM stream WHERE off % 2 = 1) PARTITION BY k ORDER BY since,"
        " grace => INTERVAL 10 MINUTES, retention => INTERVAL 10 MINUTES)"
    )


# the one that others are measured by comes first
SUITES: dict[str, dict[str, Callable[[DataFrame], DataFrame]]] = {
    "deduplicate": {
        "dropDuplicatesWithinWatermark": within_watermark,
        "DEDUPLICATE": ours,
        "transformWithState per key": per_key,
    },
    "windows": {
        "window, append mode": spark_windows,
        "WINDOW_UPDATES, final": final_windows,
        "WINDOW_UPDATES, UNTIL_CLOSE": suppressed_windows,
        "WINDOW_UPDATES, UNTIL_CLOSE, apart": suppressed_apart,
    },
    "joins": {
        "stream-stream join, ten minutes": spark_join,
        "JOIN_CHANGES": joined_changes,
        "AS_OF_JOIN of two streams": met_versions,
    },
}


def files(spark: SparkSession, folder: Path, batches: int, rows: int, keys: int, fill: bool) -> None:
    """One Parquet file a micro-batch. With `fill`, the first ones bring every key once; the rest come from all keys alike."""
    filling = keys // rows if fill else 0
    for number in range(filling + batches):
        base = number * rows
        key = F.col("id") if number < filling else F.pmod(F.xxhash64("id"), F.lit(keys))
        ts = F.timestamp_micros(F.lit(1_700_000_000_000_000) + F.col("id") * F.lit(3_600_000_000 * 3 // (rows * (filling + batches))))
        made = spark.range(base, base + rows, numPartitions=1).select(
            key.alias("k"),
            ts.alias("ts"),
            F.col("id").alias("off"),
            F.rand(1).alias("x"),
            F.concat(F.lit("/page/"), F.col("id") % 1000).alias("page"),
        )
        made.orderBy(F.xxhash64("off")).coalesce(1).write.parquet(str(folder / f"b{number:04}"))


def run(spark: SparkSession, folder: Path, build: Callable[[DataFrame], DataFrame], skip: int) -> float:
    """Rows a second over all micro-batches but the first `skip`."""
    stream = spark.readStream.schema(SCHEMA).option("recursiveFileLookup", "true").option("maxFilesPerTrigger", "1").parquet(str(folder))
    checkpoint = tempfile.mkdtemp()
    query = build(stream).writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p.numInputRows][skip:]
    shutil.rmtree(checkpoint)
    return sum(p.numInputRows for p in progress) / (sum(p.durationMs["triggerExecution"] for p in progress) / 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", nargs="*", default=["100k keys", "500k keys", "10M live keys"])
    parser.add_argument("--suite", choices=list(SUITES), default="deduplicate")
    parser.add_argument("--contestants", nargs="*")
    arguments = parser.parse_args()
    suite = {n: c for n, c in SUITES[arguments.suite].items() if not arguments.contestants or n in arguments.contestants}
    folder = Path(tempfile.mkdtemp())
    spark = streamtime.session(
        cores=2, memory="6g", settings={"spark.local.dir": str(folder), "spark.sql.streaming.numRecentProgressUpdates": "1000"}
    )
    shapes = {
        "100k keys": {"batches": 5, "rows": 200_000, "keys": 100_000, "fill": False},
        "500k keys": {"batches": 6, "rows": MILLION, "keys": 500_000, "fill": False},
        "10M live keys": {"batches": 4, "rows": MILLION, "keys": 10 * MILLION, "fill": True},
    }
    results: dict[str, Any] = {}
    for name in arguments.shapes:
        shape = shapes[name]
        files(spark, folder / name, **shape)
        skip = 1 + (shape["keys"] // shape["rows"] if shape["fill"] else 0)
        seen: dict[str, list[float]] = {c: [] for c in suite}
        warm = WARM.get(name, 1)
        for number in range(1 - warm, arguments.rounds + 1):
            for contestant, build in suite.items():
                if contestant == "transformWithState per key" and shape["keys"] > MOST_KEYS_ONE_BY_ONE:
                    continue  # it takes as long as all else together
                speed = run(spark, folder / name, build, skip)
                print(f"{name}, round {number}, {contestant}: {speed:,.0f} rows/s", flush=True)
                if number > 0:
                    seen[contestant].append(speed)
        how = {"date": datetime.now(UTC).date().isoformat(), "python": platform.python_version(), "pyspark": pyspark.__version__}
        results[name] = {c: {"rows_per_second": round(statistics.median(v)), "runs": [*map(round, v)]} | how for c, v in seen.items() if v}
        shutil.rmtree(folder / name)
    for name, by in results.items():
        print(f"\n{name}")
        reference = next(iter(by.values()))["rows_per_second"]
        for contestant, measured in by.items():
            print(f"  {contestant:32} {measured['rows_per_second']:>10,.0f} rows/s  {measured['rows_per_second'] / reference:5.2f} x")
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
    stored = HERE / ("streaming.json" if arguments.suite == "deduplicate" else f"streaming_{arguments.suite}.json")
    made: dict[str, Any] = {"results": json.loads(stored.read_text())["results"] if stored.exists() else {}}
    for name, by in results.items():
        made["results"][name] = made["results"].get(name, {}) | by
    stored.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
