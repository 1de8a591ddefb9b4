"""maintain() beside computing anew: a join of two tables and totals over it, at several rates of change.

    python3 run.py benchmark maintain --rows 5e6

For each rate: rows are changed, the table is brought up to date by each way, one after the other, on copies of one table; the ratio is
that of the full way to the incremental one. Both write what they computed. `crosses` is the rate at which they cost the same, between the
two rates where the ratio passes 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import streamtime

QUERIES = {
    "join": ("SELECT a.id, a.k, a.v, b.w FROM bench.a AS a JOIN bench.b AS b ON a.k = b.k", "id"),
    "totals of a join": ("SELECT b.g, count(*) AS n, sum(a.v) AS v FROM bench.a AS a JOIN bench.b AS b ON a.k = b.k GROUP BY b.g", None),
    "DEDUPLICATE": ("SELECT * FROM DEDUPLICATE(TABLE(bench.a) PARTITION BY k ORDER BY ts, within => INTERVAL 10 MINUTES)", None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rates", default="1e-6,0.0001,0.01,0.2")
    parser.add_argument("--queries", default=",".join(QUERIES))
    options = parser.parse_args()
    rows = int(options.rows)
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        spark = streamtime.session(cores=2, memory="6g", settings={"spark.sql.warehouse.dir": folder, "spark.sql.shuffle.partitions": "8"})
        spark.sql("CREATE SCHEMA bench")
        feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
        spark.sql(
            f"CREATE TABLE bench.a {feed} AS SELECT id, pmod(hash(id), {rows}) AS k, id * 7 % 1000 AS v, "
            f"timestamp_seconds(pmod(hash(id, 1), 10000000)) AS ts FROM range({rows})"
        )
        spark.sql(f"CREATE TABLE bench.b {feed} AS SELECT id AS k, id * 3 % 77 AS w, id % {max(rows // 50, 1)} AS g FROM range({rows})")
        for name in options.queries.split(","):
            text, key = QUERIES[name]
            for rate in map(float, options.rates.split(",")):
                ratios, seconds = [], {"full": [], "incremental": []}
                for number in range(options.rounds):
                    for way in ("full", "incremental"):
                        spark.sql(f"DROP TABLE IF EXISTS bench.m_{way}")
                        streamtime.maintain(spark, f"bench.m_{way}", text, key=key)
                    count = max(1, int(rows * rate))
                    spark.sql(f"UPDATE bench.a SET v = v + 1 WHERE pmod(hash(id, {number}), {rows}) < {count}")
                    for way in ("full", "incremental"):
                        begun = time.monotonic()
                        receipt = streamtime.maintain(spark, f"bench.m_{way}", text, key=key, policy=way)
                        seconds[way].append(time.monotonic() - begun)
                        assert receipt.way in (way, "none"), receipt
                    ratios.append(seconds["full"][-1] / seconds["incremental"][-1])
                of = {way: round(statistics.median(s), 2) for way, s in seconds.items()} | {"ratio": round(statistics.median(ratios), 2)}
                found.setdefault(name, {})[f"{rate:g}"] = of
                print(f"{name:20} {rate:10g}  {of}", flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps({"rows": rows, "rounds": options.rounds, "queries": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
