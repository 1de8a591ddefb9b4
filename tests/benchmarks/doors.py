"""What each door costs: `python3 run.py benchmark doors`.

Analysis of small calls by `spark.sql` where the pack is registered, and by `streamtime.query`; a statement that is none of ours with and without
the pack; what it takes to parse an AS OF join; then 100,000 rows through each door, to the noop sink. One process, interleaved, medians. Writes
doors.json beside this file; `python3 run.py benchmark doors parser` measures the parser alone, and writes nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from contestants.measured_on import today
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udtf as make_udtf

import streamtime
from streamtime.shelf import FUNCTIONS
from streamtime.sql.syntax.as_of_rewrite import rewrite
from streamtime.sql.udtf import handler

HERE = Path(__file__).parent

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


def parser(spark: SparkSession, rounds: int = 10, each: int = 20) -> dict[str, float]:
    """Seconds for `SELECT 1`, with and without the pack, in turns; and for the parser alone, of an AS OF join and of the call it becomes."""
    times: dict[str, list[float]] = {}

    def timed(name: str, run: Callable[[str], object], text: str) -> None:
        for number in range(each + 5):
            began = time.perf_counter()
            run(text)
            if number >= 5:
                times.setdefault(name, []).append(time.perf_counter() - began)

    join = "SELECT * FROM orders o JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON o.k = p.k WHERE o.v > 3"
    made = rewrite(join)
    assert made is not None
    for number in range(2 * rounds):
        if number % 2:
            streamtime.unregister(spark)
        timed("SELECT 1, without the pack" if number % 2 else "SELECT 1, with the pack", spark.sql, "SELECT 1")
        if number % 2:
            streamtime.register(spark)
        else:
            parse = spark._jsparkSession.sessionState().sqlParser().parsePlan
            timed("parse an AS OF join", parse, join)
            timed("parse the call", parse, made.text)
    return {name: statistics.median(t) for name, t in times.items()}


def whole(spark: SparkSession, rounds: int = 5, rows: int = 100_000, keys: int = 1_000) -> dict[str, float]:
    """Seconds for 100,000 rows, by door."""
    made = f"SELECT pmod(xxhash64(id), {keys}) AS k, timestamp_seconds(id) AS ts, id AS off, 0.5D AS x FROM range({rows})"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW many AS {made}")
    spark.table("many").cache().count()
    spec = next(s for s in FUNCTIONS if s.name == "DEDUPLICATE")
    spark.udtf.register("py_deduplicate", make_udtf(handler.handler(spec), useArrow=False))
    call = "SELECT * FROM {}(TABLE(many), keys => ARRAY('k'), order_by => ARRAY('ts'), within => INTERVAL 6 HOURS)"
    doors: dict[str, Callable[[], DataFrame]] = {
        "spark.sql": lambda: spark.sql(call.format("DEDUPLICATE")),
        "streamtime.query": lambda: streamtime.query(spark, call.format("DEDUPLICATE")),
        "Python UDTF": lambda: spark.sql(call.format("py_deduplicate")),
    }
    times: dict[str, list[float]] = {name: [] for name in doors}
    for number in range(rounds + 1):
        for name, make in doors.items():
            began = time.perf_counter()
            make().write.format("noop").mode("overwrite").save()
            if number:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(t) for name, t in times.items()}


def main() -> None:
    spark = streamtime.session(cores=2)
    results = {"parser": parser(spark)}
    for name, seconds in results["parser"].items():
        print(f"{name:28} {seconds * 1000:6.2f} ms")
    if "parser" not in sys.argv[1:]:
        doors(spark, results)
        written = today(2) | {"median_seconds": results}
        (HERE / "doors.json").write_text(json.dumps(written, indent=1) + "\n")
    spark.stop()


def doors(spark: SparkSession, results: dict[str, dict[str, float]]) -> None:
    for name, times in analysis(spark).items():
        medians = {door: statistics.median(t) for door, t in times.items()}
        print(
            f"{name:24}"
            + "".join(f" {door} {t * 1000:6.1f} ms" for door, t in medians.items())
            + f" {medians['query'] / medians['spark.sql']:6.2f}x"
        )
        results[f"analysis, {name}"] = medians
    results["100,000 rows"] = whole(spark)
    for door, seconds in results["100,000 rows"].items():
        print(f"100,000 rows, {door:18} {seconds:6.2f} s {seconds / results['100,000 rows']['spark.sql']:6.1f}x")


if __name__ == "__main__":
    main()
