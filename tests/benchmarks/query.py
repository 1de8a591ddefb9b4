"""What query() costs beside the analyzer door: analysis of small calls on one session, interleaved, medians: `python tests/benchmarks/query.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

import streamtime

CALL = "SELECT * FROM DEDUPLICATE(TABLE(ten) PARTITION BY k ORDER BY {})"
CALLS = {
    "within": CALL.format("ts, within => INTERVAL 6 HOURS"),
    "for ever": CALL.format("ts"),
    "within, late rows": CALL.format("off, time => 'ts', within => INTERVAL 6 HOURS"),
    "a constant to compute": CALL.format("ts, within => INTERVAL 1 HOUR * 6"),
    "a CTE": f"WITH cte AS (SELECT * FROM ten) {CALL.format('ts').replace('ten', 'cte')}",
    "no call": "SELECT * FROM ten",
}


def analysis(spark: SparkSession, rounds: int = 30, warm: int = 10) -> dict[str, dict[str, list[float]]]:
    """Seconds until the DataFrame is there and analysed, by call and door."""
    spark.sql("CREATE OR REPLACE TEMP VIEW ten AS SELECT id % 4 AS k, timestamp_seconds(id) AS ts, id AS off, 0.5D AS x FROM range(10)")
    doors: dict[str, Callable[[str], object]] = {"spark.sql": spark.sql, "query": lambda text: streamtime.query(spark, text)}
    found: dict[str, dict[str, list[float]]] = {name: {door: [] for door in doors} for name in CALLS}
    for number in range(rounds + warm):
        for name, text in CALLS.items():
            for door, make in doors.items():
                began = time.perf_counter()
                make(text)
                if number >= warm:
                    found[name][door].append(time.perf_counter() - began)
    return found


def main() -> None:
    spark = streamtime.session(cores=2)
    for name, times in analysis(spark).items():
        medians = {door: statistics.median(t) for door, t in times.items()}
        print(
            f"{name:24}"
            + "".join(f" {door} {t * 1000:6.1f} ms" for door, t in medians.items())
            + f" {medians['query'] / medians['spark.sql']:6.2f}x"
        )
    spark.stop()


if __name__ == "__main__":
    main()
