"""Our calls, and Spark's own idioms for the same answers, over the view `t`: in batch and on a stream."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .plain import noop
from .questions import CLOSER, FINAL_SESSIONS, FINAL_WINDOWS, FIRST, FIRST_WITHIN, SESSIONS, WINDOWS, told

FLOOR, OURS, THEIRS = "shuffle + sort", "streamtime", "Spark's own"
AGGREGATES = "count(*) AS n, sum(off) AS total, max(x) AS high"
DELAY = "INTERVAL 10 MINUTES"  # of the watermark, for all who read a stream
EVENT = "TABLE(t) PARTITION BY k ORDER BY ts"
WINDOW_COLUMNS, SESSION_COLUMNS = "k, window_start, window_end, n, total, high", "k, session_start, session_end, n, total, high"
CALLS = {
    FIRST_WITHIN: f"SELECT * FROM DEDUPLICATE({EVENT}, within => INTERVAL 6 HOURS)",
    SESSIONS: f"SELECT * EXCEPT (session_id) FROM SESSIONIZE({EVENT}, gap => INTERVAL 30 MINUTES)",
    WINDOWS: f"SELECT {WINDOW_COLUMNS} FROM WINDOW_UPDATES({EVENT}, size => INTERVAL 1 HOUR, aggregates => '{AGGREGATES}', "
    "emit => 'final', at_end => 'emit')",
}
STREAM_CALLS = {
    FIRST: f"SELECT * FROM DEDUPLICATE({EVENT}, watermark => {DELAY}) WHERE k IS NOT NULL",
    FINAL_WINDOWS: f"SELECT {WINDOW_COLUMNS} FROM WINDOW_UPDATES({EVENT}, size => INTERVAL 1 HOUR, watermark => {DELAY}, "
    f"aggregates => '{AGGREGATES}', emit => 'final')",
    FINAL_SESSIONS: f"SELECT {SESSION_COLUMNS} FROM SESSION_UPDATES({EVENT}, gap => INTERVAL 30 MINUTES, watermark => {DELAY}, "
    f"aggregates => '{AGGREGATES}', emit => 'final')",
}
KNOWN = "(SELECT * FROM t WHERE k IS NOT NULL AND ts IS NOT NULL)"
# one aggregate over the collected rows of a key: no window function can say what hangs on which row was kept before
STEP = (
    "IF(a.kept IS NULL OR r.ts > a.kept + INTERVAL 6 HOURS, "
    "named_struct('kept', r.ts, 'out', concat(a.out, array(r))), named_struct('kept', a.kept, 'out', a.out))"
)
EMPTY = "named_struct('kept', CAST(NULL AS TIMESTAMP), 'out', CAST(array() AS ARRAY<STRUCT<ts: TIMESTAMP, off: BIGINT, x: DOUBLE>>))"
IDIOMS = {
    FIRST_WITHIN: f"SELECT k, inline(aggregate(array_sort(collect_list(struct(ts, off, x))), {EMPTY}, (a, r) -> {STEP}, a -> a.out)) "
    f"FROM {KNOWN} GROUP BY k UNION ALL SELECT * FROM t WHERE k IS NULL AND ts IS NOT NULL",
    SESSIONS: "SELECT * EXCEPT (opens, n), min(ts) OVER (PARTITION BY k, n) AS session_start, max(ts) OVER (PARTITION BY k, n) AS session_end FROM ("
    "SELECT *, sum(opens) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM ("
    f"SELECT *, if(ts <= lag(ts) OVER (PARTITION BY k ORDER BY ts) + INTERVAL 30 MINUTES, 0, 1) AS opens FROM {KNOWN}))",
    WINDOWS: f"SELECT k, w.start AS window_start, w.end AS window_end, n, total, high FROM (SELECT k, window(ts, '1 hour') AS w, {AGGREGATES} FROM {KNOWN} GROUP BY 1, 2)",
}
STREAM_IDIOMS = {
    FINAL_WINDOWS: f"SELECT k, w.start AS window_start, w.end AS window_end, n, total, high FROM (SELECT k, window(ts, '1 hour') AS w, {AGGREGATES} FROM t WHERE k IS NOT NULL GROUP BY 1, 2)",
    FINAL_SESSIONS: "SELECT k, w.start AS session_start, w.end - INTERVAL 30 MINUTES AS session_end, n, total, high FROM ("
    f"SELECT k, session_window(ts, '30 minutes') AS w, {AGGREGATES} FROM t WHERE k IS NOT NULL GROUP BY k, session_window(ts, '30 minutes'))",
}
Run = Callable[[Path, str], Any]


def view(spark: SparkSession, folder: Path) -> None:
    spark.read.parquet(str(folder)).createOrReplaceTempView("t")


def in_batch(spark: SparkSession, text: str) -> Run:
    def run(folder: Path, asked: str) -> Any:
        view(spark, folder)
        df = spark.sql(text)
        if asked == "rows":
            return told(df.toArrow())
        return df.count() if asked == "count" else noop(df)

    return run


def floor(spark: SparkSession) -> Run:
    """The bare shuffle by key and sort by key and time of the same rows."""

    def run(folder: Path, asked: str) -> Any:
        view(spark, folder)
        return noop(spark.table("t").repartition("k").sortWithinPartitions("k", "ts"))

    return run


def on_stream(spark: SparkSession, text: str, own: bool) -> Run:
    """A micro-batch for each file; seconds from the start of the query to its end, with all micro-batches."""

    def run(folder: Path, asked: str) -> Any:
        reader = (
            spark.readStream.schema("k LONG, ts TIMESTAMP, off LONG, x DOUBLE")
            .option("maxFilesPerTrigger", "1")
            .option("maxFileAge", "9999d")
        )
        stream = reader.parquet(str(folder))
        (stream.withWatermark("ts", DELAY.removeprefix("INTERVAL ")) if own else stream).createOrReplaceTempView("t")
        found: list[pa.Table] = []
        checkpoint = tempfile.mkdtemp()
        writer = spark.sql(text).writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        began = time.perf_counter()
        if asked == "seconds":
            writer.format("noop").start().awaitTermination()
        else:
            writer.foreachBatch(lambda df, _: found.append(collected(df, asked))).start().awaitTermination()
        took = time.perf_counter() - began
        shutil.rmtree(checkpoint)
        if asked == "rows":
            return told(pa.concat_tables(found))
        return sum(table["n"][0].as_py() for table in found) if asked == "count" else took

    return run


def collected(df: DataFrame, asked: str) -> pa.Table:
    answer = df.where(f"k <> {CLOSER}")
    return answer.toArrow() if asked == "rows" else answer.selectExpr("count(*) AS n").toArrow()


def batch(spark: SparkSession, question: str) -> dict[str, Run]:
    return {OURS: in_batch(spark, CALLS[question]), THEIRS: in_batch(spark, IDIOMS[question])}


def stream(spark: SparkSession, question: str) -> dict[str, Run]:
    runs = {OURS: on_stream(spark, STREAM_CALLS[question], own=False)}
    if question in STREAM_IDIOMS:
        runs[THEIRS] = on_stream(spark, STREAM_IDIOMS[question], own=True)
    return runs
