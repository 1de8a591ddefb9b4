"""Streaming queries over workers, planned by ASSIGN_TASKS: a worker joins, one dies, no query is lost and none runs twice."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from story import play, say, show, stage

import streamtime

SCRIPT = Path(__file__).with_name("workers.sql")
PLAN = """ASSIGN_TASKS(tasks => TABLE(tenants), members => TABLE(workers), current => TABLE(assignment), name => 'tenants'{})"""
QUERY = """
SELECT *, '{worker}' AS worker
FROM DEDUPLICATE(TABLE(SELECT * FROM incoming WHERE tenant = '{tenant}') PARTITION BY flight_id ORDER BY offset, time => 'scheduled',
                 within => INTERVAL 30 DAYS)"""


class Worker:
    """Runs the queries of the tenants that the table `assignment` gives it. Their state lies in checkpoints that all workers reach."""

    def __init__(self, spark: SparkSession, name: str, folder: Path) -> None:
        self.spark, self.name, self.folder = spark, name, folder
        self.queries: dict[str, StreamingQuery] = {}

    def let_go(self, tenants: Iterable[str]) -> None:
        """Stop their queries, wherever they are in a micro-batch."""
        for tenant in tenants:
            self.queries.pop(tenant).stop()

    def start(self, tenant: str) -> None:
        """Go on where the checkpoint stands."""
        others = [q.name for q in self.spark.streams.active if (q.name or "").startswith(f"{tenant} ")]
        if others:
            raise RuntimeError(f"{tenant} has two owners: {others} and {self.name}")
        rows = self.spark.sql(QUERY.format(worker=self.name, tenant=tenant))
        writer = rows.writeStream.queryName(f"{tenant} on {self.name}").option("checkpointLocation", str(self.folder / tenant))
        self.queries[tenant] = writer.format("delta").trigger(processingTime="1 second").toTable("done")

    def catch_up(self) -> None:
        """Wait until all that came is done."""
        for query in self.queries.values():
            query.processAllAvailable()


def main() -> int:
    """Plan, run, and plan again; 1 if a flight is missing or there twice."""
    began = time.monotonic()
    with stage("workers", Path("workers.log")) as (spark, folder):
        play(spark, SCRIPT)
        spark.conf.set("spark.sql.shuffle.partitions", "2")  # the streams are small, and there are many
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        spark.readStream.table("log").createOrReplaceTempView("incoming")
        workers = {name: Worker(spark, name, folder) for name in ("w1", "w2", "w3")}
        moves = {}
        for week, (event, statement) in enumerate(EVENTS, 1):
            print()
            say(f"Week {week}: {event}")
            if statement:
                print(statement)
                spark.sql(statement)
            moves[week] = plan(spark)
            carry_out(spark, workers)
            spark.sql(f"INSERT INTO log SELECT /*+ REPARTITION(2) */ * FROM departures WHERE sent_in = {week}")
            if week == 2:
                time.sleep(2)
                say("w2 dies, in the middle of its work")
                workers["w2"].let_go([*workers["w2"].queries])
            else:
                for worker in workers.values():
                    worker.catch_up()
        print()
        history(spark)
        holds = postconditions(spark, moves)
        for says, does in holds.items():
            print(f"  {'ok    ' if does else 'FAILED'} {says}")
        say(f"Done in {time.monotonic() - began:.0f} s. What Spark and its Python workers said meanwhile is in workers.log")
        return 0 if all(holds.values()) else 1


EVENTS = [
    ("two workers, and all tenants are new", None),
    ("a third worker joins, and takes its share", "INSERT INTO workers VALUES ('w3', true)"),
    ("the second is gone, and only its tenants move", "UPDATE workers SET alive = false WHERE member = 'w2'"),
    ("nothing happens, and nothing moves", None),
]


def plan(spark: SparkSession) -> int:
    """A round: the plan becomes the next version of `assignment`; how many tenants have another owner."""
    changes = spark.sql(f"SELECT task, member, action, why FROM {PLAN.format(', output => ' + repr('explain'))} WHERE action <> 'keep'")
    rows = changes.orderBy("task", "action").collect()
    if rows:
        show(spark.createDataFrame(rows, changes.schema).coalesce(1))
    spark.sql(f"INSERT OVERWRITE assignment SELECT task, member, role FROM {PLAN.format('')} WHERE action <> 'revoke'")
    return len({r.task for r in rows})


def carry_out(spark: SparkSession, workers: dict[str, Worker]) -> None:
    """Each worker makes of its queries what the table says: first all let go, then all start."""
    wanted = {name: {r.task for r in spark.table("assignment").where(f"member = '{name}'").collect()} for name in workers}
    for name, worker in workers.items():
        worker.let_go(worker.queries.keys() - wanted[name])
    for name, worker in workers.items():
        for tenant in sorted(wanted[name] - worker.queries.keys()):
            worker.start(tenant)
        say(f"  {name} runs {', '.join(sorted(worker.queries)) or 'nothing'}")


def history(spark: SparkSession) -> None:
    """Each round was a commit, so the table's history says who had what, and when."""
    asked = "SELECT task, member, from_version, to_version FROM TABLE_HISTORY('assignment') ORDER BY task, from_version"
    print(asked)
    show(spark.sql(asked))
    work = "SELECT worker, count(DISTINCT tenant) AS tenants, count(*) AS flights FROM done GROUP BY worker ORDER BY worker"
    print(f"\n{work}")
    show(spark.sql(work))
    try:
        streamtime.plot(spark.sql("SELECT * FROM TABLE_HISTORY('assignment')"), title="Who had which tenant").savefig("workers.svg")
        say("workers.svg shows it")
    except ImportError as missing:
        say(str(missing))


def postconditions(spark: SparkSession, moves: dict[int, int]) -> dict[str, bool]:
    """What must hold of what the workers did."""
    done, sent = spark.table("done"), spark.table("departures")
    owned = spark.sql("SELECT task FROM TABLE_HISTORY('assignment') WHERE member = 'w2' AND to_version IS NOT NULL AND from_version <= 2")
    of_w2 = spark.sql("SELECT task FROM assignment VERSION AS OF 2 WHERE member = 'w2'").count()
    return {
        "each flight is there": sent.select("flight_id").subtract(done.select("flight_id")).count() == 0,
        "and once, though one in twenty was sent again a week later": done.count() == sent.select("flight_id").distinct().count(),
        "the worker that joined took no more than its share": 0 < moves[2] <= 2,
        "of the worker that died, its tenants moved, and no other": moves[3] == of_w2 <= owned.count(),
        "in the last week nothing moved": moves[4] == 0,
    }


if __name__ == "__main__":
    sys.exit(main())
