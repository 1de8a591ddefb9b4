"""SESSIONIZE against what one writes in SQL, and against bare shuffle + sort: `python3 run.py benchmark sessions`.

Same data, noop sink and interleaved rounds as the benchmark of DEDUPLICATE. A further function is a line in `contestants`, with the
contestant that it is measured by: of ratios, each is against the first of its own data set, and against that one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from contestants.measured_on import today
from deduplicate import MILLION, Memory, data, interleaved
from pyspark.sql import DataFrame, SparkSession

import streamtime

HERE = Path(__file__).parent
GAP = "INTERVAL 30 MINUTES"
FLOOR = "shuffle + sort"
IDIOM = "lag, sum, min, max"
# one row per contestant: what it is measured by; None: itself
CONTESTANTS: dict[str, str | None] = {
    FLOOR: None,
    IDIOM: None,
    "lag, sum": None,
    "session_window, joined back": None,
    "SESSIONIZE": IDIOM,
    "SESSIONIZE, no row late, by offset": IDIOM,
    "SESSIONIZE, late rows": IDIOM,
    "session_window, aggregated": None,
    "SESSION_UPDATES": FLOOR,
    "SESSION_UPDATES, late rows": FLOOR,
    "SESSION_UPDATES, final": "session_window, aggregated",
    "window, aggregated": None,
    "window, exact sums": None,
    "WINDOW_UPDATES": FLOOR,
    "WINDOW_UPDATES, hopping": FLOOR,
    "WINDOW_UPDATES, final": "window, aggregated",
    "WINDOW_UPDATES, final, exact sums": "window, exact sums",
    "WINDOW_UPDATES, final, exact sums, late rows": "window, exact sums",
    "WINDOW_UPDATES, final, exact sums, input computed": "window, exact sums",
    "WINDOW_UPDATES, final, exact sums, late rows, input computed": "window, exact sums",
    "WINDOW_UPDATES, UNTIL_CLOSE": "window, aggregated",
    "window, whole numbers": None,
    "WINDOW_UPDATES, UNTIL_CLOSE, whole numbers": "window, whole numbers",
    "WINDOW_UPDATES, UNTIL_CLOSE, whole numbers, few columns": "window, whole numbers",
    "WINDOW_UPDATES, UNTIL_CLOSE, apart": "window, aggregated",
    "session_window, exact sums": None,
    "SESSION_UPDATES, final, exact sums": "session_window, exact sums",
}
AGGREGATES = "count(*) AS n, sum(x) AS total, max(x) AS high"
EXACT = "count(*) AS n, sum(off) AS total, max(x) AS high"  # the same whatever the order of rows, so that they can be grouped
WHOLE = "count(*) AS n, sum(off) AS total, max(off) AS high"  # and to the last digit as changes have it: no zero has a sign
GROWING = (FLOOR, IDIOM, "SESSIONIZE")


def idiom(view: str, bounds: bool) -> str:
    """Gaps and islands in plain SQL; with the bounds of each session, or with its number alone."""
    flagged = f"SELECT *, if(ts <= lag(ts) OVER (PARTITION BY k ORDER BY ts) + {GAP}, 0, 1) AS opens FROM {view}"
    numbered = f"SELECT * EXCEPT (opens), sum(opens) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM ({flagged})"
    named = f"SELECT * EXCEPT (n), concat(k, '-', n) AS session_id FROM ({numbered})"
    if not bounds:
        return named
    edges = "min(ts) OVER (PARTITION BY k, n) AS session_start, max(ts) OVER (PARTITION BY k, n) AS session_end"
    return f"SELECT * EXCEPT (n), {edges}, concat(k, '-', n) AS session_id FROM ({numbered})"


def joined_back(view: str) -> str:
    """Spark's own sessions, which lose the rows, joined to them again."""
    sessions = f"SELECT k, w.start AS session_start, w.end AS session_end FROM (SELECT k, session_window(ts, '30 minutes') AS w FROM {view}) GROUP BY k, w"
    return f"SELECT t.*, s.session_start, s.session_end - {GAP} AS session_end FROM {view} t JOIN ({sessions}) s ON t.k = s.k AND t.ts >= s.session_start AND t.ts < s.session_end"


def contestants(spark: SparkSession, view: str) -> dict[str, Callable[[], DataFrame]]:
    """What is compared on one data set."""
    call = f"SELECT * FROM SESSIONIZE(TABLE({view}) PARTITION BY k ORDER BY {{}}, gap => {GAP}{{}})"
    texts = {
        IDIOM: idiom(view, bounds=True),
        "lag, sum": idiom(view, bounds=False),
        "session_window, joined back": joined_back(view),
        "SESSIONIZE": call.format("ts", ""),
        "SESSIONIZE, no row late, by offset": call.format("off, time => 'ts'", ""),
        "SESSIONIZE, late rows": call.format("off, time => 'ts'", ", grace => INTERVAL 20 MINUTES"),
    }
    updates = f"SELECT * FROM {{}}(TABLE({view}) PARTITION BY k ORDER BY {{}}, aggregates => '{AGGREGATES}', {{}})"
    gap, size = f"gap => {GAP}", "size => INTERVAL 1 HOUR"
    texts |= {
        "session_window, aggregated": f"SELECT k, session_window(ts, '30 minutes') AS w, {AGGREGATES} FROM {view} GROUP BY 1, 2",
        "SESSION_UPDATES": updates.format("SESSION_UPDATES", "ts", gap),
        "SESSION_UPDATES, late rows": updates.format("SESSION_UPDATES", "off, time => 'ts'", f"{gap}, grace => INTERVAL 20 MINUTES"),
        "SESSION_UPDATES, final": updates.format("SESSION_UPDATES", "ts", f"{gap}, emit => 'final'"),
        "window, aggregated": f"SELECT k, window(ts, '1 hour') AS w, {AGGREGATES} FROM {view} GROUP BY 1, 2",
        "WINDOW_UPDATES": updates.format("WINDOW_UPDATES", "ts", size),
        "WINDOW_UPDATES, hopping": updates.format("WINDOW_UPDATES", "ts", f"{size}, slide => INTERVAL 20 MINUTES"),
        "WINDOW_UPDATES, final": updates.format("WINDOW_UPDATES", "ts", f"{size}, emit => 'final'"),
    }
    exact, final = updates.replace(AGGREGATES, EXACT), f"{size}, emit => 'final'"
    texts |= {
        "window, exact sums": f"SELECT k, window(ts, '1 hour') AS w, {EXACT} FROM {view} GROUP BY 1, 2",
        "window, whole numbers": f"SELECT k, window(ts, '1 hour') AS w, {WHOLE} FROM {view} GROUP BY 1, 2",
        "WINDOW_UPDATES, final, exact sums": exact.format("WINDOW_UPDATES", "ts", final),
        "WINDOW_UPDATES, final, exact sums, late rows": exact.format(
            "WINDOW_UPDATES", "off, time => 'ts'", f"{final}, grace => INTERVAL 10 MINUTES"
        ),
    }
    plain, computed = f"TABLE({view})", f"TABLE(SELECT k, ts, off, abs(x) AS x FROM {view})"  # what is computed is not read again
    for name in ("WINDOW_UPDATES, final, exact sums", "WINDOW_UPDATES, final, exact sums, late rows"):
        texts[f"{name}, input computed"] = texts[name].replace(plain, computed)
    texts |= {
        "session_window, exact sums": f"SELECT k, session_window(ts, '30 minutes') AS w, {EXACT} FROM {view} GROUP BY 1, 2",
        "SESSION_UPDATES, final, exact sums": exact.format("SESSION_UPDATES", "ts", f"{gap}, emit => 'final'"),
    }
    changes = texts["WINDOW_UPDATES"]
    for beside, made in (
        ("", changes),
        (", whole numbers", changes.replace(AGGREGATES, WHOLE)),
        (", whole numbers, few columns", changes.replace(AGGREGATES, WHOLE)),
        (", apart", f"{changes} WHERE n > 0"),  # what stands between the calls keeps them from being planned as one
    ):
        texts[f"WINDOW_UPDATES, UNTIL_CLOSE{beside}"] = (
            f"SELECT {'k, window_start, n, total, high' if 'few' in beside else '*'} FROM SUPPRESS_UNTIL_CLOSE(TABLE({made}) "
            "PARTITION BY (k, window_start) ORDER BY (ts, change_seq), time => 'change_time')"
        )
    runs = {FLOOR: lambda: spark.table(view).repartition("k").sortWithinPartitions("k", "ts")}
    return runs | {name: (lambda text=text: spark.sql(text)) for name, text in texts.items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5 * MILLION)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--shapes", default="500k keys,50 keys,one hot key")
    parser.add_argument("--growth", default="1,5,20", help="millions of rows, for the growth of cost; '' for none")
    parser.add_argument("--store", default="sessions", help="the name of the JSON file to write")
    parser.add_argument("--only", default=",".join(CONTESTANTS).replace(", ", ";"), help="contestants, `;` for `, ` in a name")
    options = parser.parse_args()
    only = [name.replace(";", ", ") for name in options.only.split(",")]
    spark = streamtime.session(cores=options.cores, memory="6g")
    memory, results, cpu = Memory(), dict[str, dict[str, list[float]]](), dict[str, dict[str, list[float]]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shapes = {"500k keys": (500_000, False), "50 keys": (50, False), "one hot key": (500_000, True)}
        for shape in options.shapes.split(","):
            view = shape.replace(" ", "_")
            print(f"[{shape}: {options.rows:,} rows, {options.rounds} rounds ..]", flush=True)
            data(spark, folder, view, options.rows, *shapes[shape])
            runs = {n: run for n, run in contestants(spark, view).items() if n in only}
            if shapes[shape][1]:
                runs.pop("session_window, joined back", None)  # each row of the hot key meets each of its sessions
            results[shape] = interleaved(runs, options.rounds, cpu.setdefault(shape, {}))
            shown(shape, results[shape])
            shown(f"{shape}, CPU", cpu[shape])
        growth: dict[str, list[float]] = {}
        for millions in map(int, filter(None, options.growth.split(","))):
            data(spark, folder, f"g{millions}", millions * MILLION, 100_000 * millions)
            sized = {n: m for n, m in contestants(spark, f"g{millions}").items() if n in GROWING and n in only}
            growth |= {f"{n}, {millions}M": times for n, times in interleaved(sized, options.rounds).items()}
        if growth:
            results["growth"] = growth
            shown("growth", growth)
    memory.stop.set()
    peak = {"jvm_mb": round(memory.jvm), "python_worker_mb": round(memory.worker)}
    print(f"peak memory: {peak}")
    written = {
        **today(options.cores), "rows": options.rows, "rounds": options.rounds,
        "peak_memory": peak, "median_seconds": {s: {n: statistics.median(t) for n, t in found.items()} for s, found in results.items()},
        "median_cpu_seconds": {s: {n: statistics.median(t) for n, t in found.items()} for s, found in cpu.items()}, "seconds": results,
        "cpu_seconds": cpu, "load_average": os.getloadavg()[0],
    }  # fmt: skip
    (HERE / f"{options.store}.json").write_text(json.dumps(written, indent=1) + "\n")
    spark.stop()


def shown(shape: str, times: dict[str, list[float]]) -> None:
    """A table of medians, and of their ratios to the floor and to what each is measured by."""
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(shape)
    for name, took in medians.items():
        ratios = [f"{took / medians[base]:6.2f}x {base}" for base in (FLOOR, CONTESTANTS.get(name)) if base in medians]
        print(f"  {name:60} {took:8.3f} s  {'  '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()
