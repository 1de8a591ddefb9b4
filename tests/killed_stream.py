"""A streaming query in a process of its own, to be killed: files of events, through DEDUPLICATE, into a Delta table. Prints when it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import streamtime

CALL = "DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, within => INTERVAL 30 SECONDS, output => 'all')"


def main(folder: Path) -> None:
    spark = streamtime.session(cores=2, settings={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder)})
    reader = spark.readStream.schema("k INT, ts TIMESTAMP, id INT").option("maxFilesPerTrigger", "1").option("maxFileAge", "9999d")
    reader.parquet(str(folder / "in")).createOrReplaceTempView("events")
    writer = spark.sql(f"SELECT * FROM {CALL}").writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    print("running", flush=True)
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
