"""A streaming query in a process of its own, to be killed: files of events, through a function, into a Delta table. Says its progress."""

from __future__ import annotations

import sys
from pathlib import Path

from jvm import JAVA_OPTIONS, say
from killed_calls import CALLS, WAITS

import streamtime


def main(channel: str, folder: Path, function: str) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder),
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }
    spark = streamtime.session(cores=2, settings=settings)
    reader = spark.readStream.schema("k INT, ts TIMESTAMP, id INT").option("maxFilesPerTrigger", "1").option("maxFileAge", "9999d")
    reader.parquet(str(folder / "in")).createOrReplaceTempView("events")
    rows = spark.sql(f"SELECT * FROM {CALLS[function].format(WAITS)}")
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    said = -1
    while not query.awaitTermination(0.05):
        progress = query.lastProgress
        if progress is not None and progress.batchId > said:
            said = progress.batchId
            say(channel, said)
    say(channel, "done")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
