"""Windows, sessions and suppress on real data: one final answer for each hour, in batch and as a stream into Delta, checked by GROUP BY."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from story import play, say, stage

from streamtime import expectations

SCRIPT = Path(__file__).with_name("windows.sql")
UPDATES = """WINDOW_UPDATES(TABLE({}) PARTITION BY origin ORDER BY offset, time => 'scheduled', size => INTERVAL 1 HOUR,
                    grace => INTERVAL 1 DAY, aggregates => 'count(*) AS flights, avg(delay_minutes) AS delay')"""
CHAIN = f"""
SELECT * FROM SUPPRESS_UNTIL_CLOSE(
    TABLE(SELECT * FROM {UPDATES.format("incoming")})
    PARTITION BY (origin, window_start) ORDER BY (offset, change_seq), time => 'change_time')"""
ORACLE = """
SELECT origin, window(scheduled, '1 hour').start AS window_start, count(*) AS flights FROM departure_log
GROUP BY origin, window(scheduled, '1 hour')"""


def main() -> int:
    """Run the story, then the stream; 1 if an answer differs."""
    began = time.monotonic()
    with stage("windows") as (spark, folder):
        play(spark, SCRIPT)
        stream(spark, folder)
        wrong = differences(spark)
        for says, count in wrong.items():
            print(f"  {'ok    ' if not count else 'FAILED'} {says}")
        say(f"Done in {time.monotonic() - began:.0f} s.")
        return 1 if any(wrong.values()) else 0


def stream(spark: SparkSession, folder: Path) -> None:
    """The same chain over the log as a stream, month by month: updates, then suppress, then a Delta table."""
    say("The same as a stream: the log, quarter by quarter, through both functions into the Delta table hourly_stream ..")
    print(CHAIN)
    log = spark.table("departures")
    for quarter in range(1, 5):
        log.where(f"quarter(scheduled) = {quarter}").write.format("delta").mode("append").saveAsTable("departure_log")
    spark.readStream.option("maxFilesPerTrigger", "1").table("departure_log").createOrReplaceTempView("incoming")
    query = (
        spark.sql(CHAIN)
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("hourly_stream")
    )
    while not query.awaitTermination(5):
        done = query.lastProgress
        if done:
            say(f"  {done['numInputRows']:,} rows in micro-batch {done['batchId']}")


def differences(spark: SparkSession) -> dict[str, int]:
    """What must be empty: nothing was late with a day of grace, so GROUP BY window gives the same; and each window has one final row."""
    closed = spark.sql(f"SELECT * FROM ({ORACLE}) JOIN (SELECT origin, window_start FROM hourly_stream) USING (origin, window_start)")
    streamed = spark.sql("SELECT origin, window_start, flights FROM hourly_stream")
    batch = spark.sql("SELECT origin, window_start, flights FROM hourly")
    once = expectations.one_final_row_per_window("origin", "window_start", "window_end")
    (final,) = expectations.validate(spark, {"hourly_stream": [once]})
    missing = batch.select("origin", "window_start").exceptAll(streamed.select("origin", "window_start"))
    open_days = missing.where("window_start < TIMESTAMP_NTZ '2013-12-30'")
    return {
        "each hour that closed has one final row": final.unexpected,
        "the stream's rows are those of GROUP BY window": streamed.exceptAll(closed).count(),
        "the batch's rows are the stream's": batch.join(streamed.select("origin", "window_start"), ["origin", "window_start"])
        .select(batch.columns)
        .exceptAll(streamed)
        .count(),
        "the stream misses no hour but those of the last two days, which are still open": open_days.count(),
    }


if __name__ == "__main__":
    sys.exit(main())
