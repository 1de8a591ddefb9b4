"""Streaming queries in a process of their own, to be killed: files of events, through functions, each into a Delta table. Says their progress."""

from __future__ import annotations

import sys
from pathlib import Path

from jvm import INTERPRETED, JAVA_OPTIONS, say
from killed_calls import CALLS, WAITS

import streamtime


def main(channel: str, folder: Path) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder),
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        **INTERPRETED,
    }
    spark = streamtime.session(cores=2, settings=settings)
    reader = spark.readStream.schema("k INT, ts TIMESTAMP, id INT").option("maxFilesPerTrigger", "1").option("maxFileAge", "9999d")
    reader.parquet(str(folder / "in")).createOrReplaceTempView("events")
    queries = []
    for name, call in CALLS.items():
        rows = spark.sql(f"SELECT * FROM {call.format(WAITS)}")
        writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / name / "checkpoint"))
        queries.append(writer.trigger(availableNow=True).start(str(folder / name / "out")))
    said = [-1 for _ in queries]
    going = True
    while going:
        going = any(not query.awaitTermination(0.02) for query in queries)
        for place, query in enumerate(queries):
            progress = query.lastProgress
            if progress is not None and progress.batchId > said[place]:
                said[place] = progress.batchId
                say(channel, said[place])
    say(channel, "done")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
