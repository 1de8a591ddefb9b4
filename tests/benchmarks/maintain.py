"""maintain() beside computing anew: joins of two tables, totals over one, and DEDUPLICATE, at several rates of change.

    python3 run.py benchmark maintain --rows 5e6 --folder ~/bench

For each rate some rows of one table are changed, anywhere in it, and the maintained table is brought up to date by following them; 'one' is
a row that is deleted. Beside it stand `maintain` with policy='full', and the bare query with an overwrite of a table, as who has no
`maintain` would write it: in the same process, of the same tables, one after the other, the full run first, so that the others find code that
has been compiled. Where a query is one that people keep up by hand, a MERGE that follows the same commit stands beside it (`by hand`), after
it. It knows that one query, trusts that each change comes once, and looks for no two rows of one key. `--warm` runs all once that is not
counted. `tasks` are CPU seconds of Spark's tasks, by its own metrics; `cpu` those of this process and all that it started, the planner and
the JVM's compiler among them; `seconds` are of the clock, which other work stretches.
Medians, and the rate at which following costs as much as the bare query, stand in docs/maintain.md. `predicted` is what `maintain` expected
of each way at that moment: policy='auto' takes the lesser.

Results are stored after each run, and tables are kept in the folder: started again, it goes on where it was, with --rounds more, if so asked.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import streamtime

sys.path.insert(0, str(Path(__file__).parent))
from changes import cpu_seconds

TABLES = {
    "a": "SELECT id, pmod(hash(id), {n}) AS k, id * 7 % 1000 AS v, timestamp_seconds(pmod(hash(id, 1), 10000000)) AS ts FROM range({n})",
    "b": "SELECT id AS k, id * 3 % 77 AS w, id % greatest({n} DIV 50, 1) AS g FROM range({n})",
    "wide": "SELECT *, sha2(string(id), 256) AS note, concat('street ', hash(id, 2)) AS street, concat('city ', id % 997) AS city, "
    "CAST(v AS DECIMAL(12, 2)) AS paid FROM {s}.a",
}
QUERIES = {
    "join": ("a", "SELECT a.id, a.k, a.v, b.w FROM {s}.a AS a JOIN {s}.b AS b ON a.k = b.k", "id"),
    "join, wide rows": ("wide", "SELECT a.*, b.w, b.g FROM {s}.wide AS a JOIN {s}.b AS b ON a.k = b.k", "id"),
    "totals of a join": (
        "a",
        "SELECT b.g, count(*) AS n, sum(a.v) AS v FROM {s}.a AS a JOIN {s}.b AS b ON a.k = b.k GROUP BY b.g",
        None,
    ),
    "DEDUPLICATE": ("a", "SELECT * FROM DEDUPLICATE(TABLE({s}.a) PARTITION BY k ORDER BY ts, within => INTERVAL 10 MINUTES)", None),
}
CHANGES = "table_changes('{s}.{t}', {v}, {v}) AS f JOIN {s}.b AS b ON f.k = b.k"
BY_KEY = f"""MERGE INTO {{target}} AS t USING (SELECT f.*, b.* EXCEPT (k) FROM {CHANGES} WHERE f._change_type <> 'update_preimage') AS s
    ON t.id = s.id WHEN MATCHED AND s._change_type = 'delete' THEN DELETE WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT *"""
TOTALS = f"""MERGE INTO {{target}} AS t USING (SELECT g, sum(d) AS n, sum(d * v) AS v FROM (SELECT b.g, f.v,
    IF(f._change_type IN ('insert', 'update_postimage'), 1, -1) AS d FROM {CHANGES}) GROUP BY g) AS s
    ON t.g = s.g WHEN MATCHED AND t.n + s.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = t.n + s.n, v = t.v + s.v
    WHEN NOT MATCHED THEN INSERT *"""
BY_HAND = {"join": BY_KEY, "join, wide rows": BY_KEY, "totals of a join": TOTALS}
RATES = ("one", "0.0001", "0.01", "0.2")
Stored = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--rounds", type=int, default=1, help="runs of each rate that there are to be in the end")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--rates", default=",".join(RATES))
    parser.add_argument("--queries", default=";".join(QUERIES), help="names, with ; between them")
    parser.add_argument("--folder", type=Path, help="where tables are kept (default: a temporary one)")
    parser.add_argument("--stored", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        benchmark = Benchmark(options.folder or Path(temporary), int(options.rows), options.stored)
        benchmark.done(options.queries.split(";"), options.rates.split(","), options.rounds, options.warm)


class Benchmark:
    """One size of tables, and what was measured of it."""

    def __init__(self, folder: Path, rows: int, stored: Path) -> None:
        self.rows, self.file, self.schema = rows, stored, f"bench_{rows}"
        self.spark = opened(folder.expanduser().resolve(), self.schema)
        self.all: Stored = json.loads(stored.read_text()) if stored.exists() else {}
        self.found: Stored = self.all.setdefault(str(rows), {})

    def done(self, queries: list[str], rates: list[str], rounds: int, warm: bool) -> None:
        for name in queries:
            self.made("a", "b", QUERIES[name][0])
            if warm:
                self.round(name, rates, None)
            for number in range(rounds):
                self.round(name, rates, number)

    def round(self, name: str, rates: list[str], number: int | None) -> None:
        """Each way once; without a number nothing is stored."""
        table, text, key = QUERIES[name]
        ways = self.found.setdefault(name, {"bare": [], "full": [], "rates": {}}) if number is not None else {}
        ways = ways or {"bare": [], "full": [], "rates": {}}
        text, target, place = text.format(s=self.schema), f"{self.schema}.m_{list(QUERIES).index(name)}", number or 0
        if len(ways["full"]) <= place or not self.spark.catalog.tableExists(target):
            ways["full"].append(self.run(target, text, key, "full"))
            self.stored(name, "full", ways, number)
        if len(ways["bare"]) <= place:
            ways["bare"].append(measured(self.spark, lambda: self.bare(text)))
            self.stored(name, "bare", ways, number)
        for rate in rates:
            runs = ways["rates"].setdefault(rate, [])
            if len(runs) <= place:
                if name in BY_HAND and not self.spark.catalog.tableExists(f"{target}_by_hand"):
                    vectors = "TBLPROPERTIES (delta.enableDeletionVectors = true)"
                    self.spark.sql(f"CREATE TABLE {target}_by_hand USING delta {vectors} AS {text}")
                self.changed(table, rate)
                runs.append(self.run(target, text, key, "incremental"))
                self.stored(name, rate, ways, number)
                if name in BY_HAND:
                    runs[-1]["by hand"] = self.by_hand(name, f"{target}_by_hand", table)
                    self.stored(name, rate, ways, number)

    def made(self, *names: str) -> None:
        """The tables, where they are not there."""
        feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
        for name in names:
            if not self.spark.catalog.tableExists(f"{self.schema}.{name}"):
                self.spark.sql(f"CREATE TABLE {self.schema}.{name} {feed} AS {TABLES[name].format(n=self.rows, s=self.schema)}")

    def changed(self, table: str, rate: str) -> None:
        """A commit that changes about so many rows, others each time."""
        name, salt = f"{self.schema}.{table}", time.time_ns() % 1_000_000
        if rate == "one":
            least = self.spark.sql(f"SELECT min(id) FROM {name}").first()
            self.spark.sql(f"DELETE FROM {name} WHERE id = {least and least[0]}")
        else:
            count = max(1, int(self.rows * float(rate)))
            self.spark.sql(f"UPDATE {name} SET v = v + 1 WHERE pmod(hash(id, {salt}), {self.rows}) < {count}")

    def run(self, target: str, text: str, key: str | None, way: str) -> Stored:
        """One run of maintain."""
        kept: list[streamtime.Receipt] = []
        found = measured(self.spark, lambda: kept.append(streamtime.maintain(self.spark, target, text, key=key, policy=way)))
        (receipt,) = kept
        assert receipt.way in (way, "none"), receipt
        rows = {"inserted": receipt.inserted, "updated": receipt.updated, "removed": receipt.removed}
        told = {"touched": receipt.touched, "predicted": receipt.predicted, "decided": receipt.decided}
        return found | told | rows

    def by_hand(self, name: str, target: str, table: str) -> Stored:
        """The newest commit of a table, merged as who knows the query would."""
        newest = self.spark.sql(f"DESCRIBE HISTORY {self.schema}.{table} LIMIT 1").collect()[0]["version"]
        merge = BY_HAND[name].format(target=target, s=self.schema, t=table, v=newest)
        return measured(self.spark, lambda: self.spark.sql(merge).collect())

    def bare(self, text: str) -> None:
        streamtime.query(self.spark, text).write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(
            f"{self.schema}.bare"
        )

    def stored(self, name: str, what: str, ways: Stored, number: int | None) -> None:
        run = (ways[what] if what in ways else ways["rates"][what])[-1]
        bare = [b["tasks"] for b in ways["bare"]]
        print(
            f"{self.rows:,} {name:18} {what:>8}  tasks {run['tasks']:6.2f} s  cpu {run['cpu']:6.2f} s  clock {run['seconds']:6.2f} s"
            + (f"  bare/this by tasks {statistics.median(bare) / run['tasks']:5.2f}" if bare else "")
            + (f"  by hand {run['by hand']['tasks']:.2f} s, {run['by hand']['seconds']:.2f} s" if "by hand" in run else "")
            + ("" if number is not None else "  not counted"),
            flush=True,
        )
        if number is not None:
            self.all["machine"] = {
                "cpus": os.cpu_count(),
                "cores": 2,
                "date": datetime.date.today().isoformat(),
                "load": os.getloadavg()[0],
            }
            self.file.write_text(json.dumps(self.all, indent=1) + "\n")


def measured(spark: SparkSession, run: Callable[[], object]) -> Stored:
    """What a run takes: CPU seconds of tasks and of all, and seconds of the clock."""
    before, used, begun = stages(spark), cpu_seconds(), time.monotonic()
    run()
    seconds, cpu = time.monotonic() - begun, cpu_seconds() - used
    tasks = sum(taken for stage, taken in stages(spark).items() if stage not in before)
    return {"tasks": round(tasks, 2), "cpu": round(cpu, 2), "seconds": round(seconds, 2)}


def stages(spark: SparkSession) -> dict[tuple[int, int], float]:
    """The CPU seconds of each stage's tasks, as far as Spark remembers."""
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    context.listenerBus().waitUntilEmpty()
    jvm: Any = spark._jvm
    nothing = jvm.java.util.ArrayList()
    found = context.statusStore().stageList(nothing, False, False, spark.sparkContext._gateway.new_array(jvm.double, 0), nothing)  # type: ignore[union-attr]
    each = [found.apply(i) for i in range(found.size())]
    return {(stage.stageId(), stage.attemptId()): stage.executorCpuTime() / 1e9 for stage in each}


def opened(folder: Path, schema: str) -> SparkSession:
    """A session in which the tables of runs before are there."""
    settings = {"spark.sql.warehouse.dir": str(folder), "spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "false"}
    spark = streamtime.session(cores=2, memory="6g", settings=settings)
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for log in sorted(folder.glob(f"{schema}.db/*/_delta_log")):
        spark.sql(f"CREATE TABLE IF NOT EXISTS {schema}.{log.parent.name} USING delta LOCATION '{log.parent}'")
    return spark


if __name__ == "__main__":
    main()
