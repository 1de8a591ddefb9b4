"""ASSIGN_TASKS for large clusters, and its moves against those of a solver: `python3 run.py benchmark assign`.

Three calls for each size: all tasks are new, with a standby each; 5 % more members join; 5 % of the members are gone. Beside them, on the
same tables, the fewest moves with which loads can be even, as a linear program (HiGHS, by scipy) and as a min-cost flow (the network
simplex of networkx, for small sizes: it is slow). The solvers get their problem as arrays and know neither lags nor standbys. Results of
other sizes stay in assign.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy
from contestants.measured_on import today
from pyspark.sql import SparkSession
from scipy.optimize import linprog
from scipy.sparse import coo_array
from tabulate import tabulate

import streamtime

HERE = Path(__file__).parent
SIZES = "5000x50,25000x250,50000x500,100000x1000,200000x2000"
CALL = "ASSIGN_TASKS(tasks => TABLE(tasks), members => TABLE({}), current => TABLE(current), standbys => {}{})"
SMALL = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="tasks x members, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    spark = streamtime.session(cores=options.cores, memory="6g")
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for tasks, members in (map(int, size.split("x")) for size in options.sizes.split(",")):
            print(f"[{tasks:,} tasks, {members:,} members, {options.rounds} rounds ..]", flush=True)
            lines += measured(spark, Path(folder), tasks, members, options.rounds)
            print(tabulate(lines, headers="keys", floatfmt=".2f", intfmt=","), flush=True)
    results = HERE / "assign.json"
    sizes = {(line["tasks"], line["members"]) for line in lines}
    others = (
        [line for line in json.loads(results.read_text())["lines"] if (line["tasks"], line["members"]) not in sizes]
        if results.exists()
        else []
    )
    written = {
        **today(options.cores),
        "rounds": options.rounds,
        "lines": sorted(others + lines, key=lambda line: line["tasks"]),
    }
    results.write_text(json.dumps(written, indent=1) + "\n")
    spark.stop()


def measured(spark: SparkSession, folder: Path, tasks: int, members: int, rounds: int) -> list[dict[str, Any]]:
    """A line for each event. Each goes on from the plan for all new tasks."""
    some = members // 20
    keep(spark, folder, "tasks", f"SELECT format_string('t%07d', id) AS task FROM range({tasks})")
    keep(spark, folder, "members", f"SELECT format_string('m%05d', id) AS member FROM range({members})")
    keep(spark, folder, "more", f"SELECT format_string('m%05d', id) AS member FROM range({members + some})")
    keep(spark, folder, "fewer", f"SELECT format_string('m%05d', id) AS member FROM range({some}, {members})")
    keep(spark, folder, "current", "SELECT '' AS task, '' AS member, '' AS role WHERE false")
    planned = CALL.format("members", 1, "")
    lines = [line(tasks, members, "all new", seconds(lambda: consume(spark, planned), rounds))]
    keep(spark, folder, "current", f"SELECT task, member, role FROM {planned}")
    for event, table in ((f"{some} join", "more"), (f"{some} are gone", "fewer")):
        call, metrics = CALL.format(table, 1, ", handover => 'immediate'"), ", handover => 'immediate', output => 'metrics'"
        taken = seconds(lambda call=call: consume(spark, call), rounds)  # type: ignore[misc]
        found = {r.metric: int(r.value) for r in spark.sql(f"SELECT metric, value FROM {CALL.format(table, 1, metrics)}").collect()}
        names = [r.member for r in spark.table(table).orderBy("member").collect()]
        number = {name: place for place, name in enumerate(names)}
        actives = spark.table("current").where("role = 'active'").orderBy("task").collect()
        owner = numpy.array([number.get(r.member, -1) for r in actives])
        began = time.monotonic()
        fewest = by_linear_program(owner, len(names))
        solved = time.monotonic() - began
        flow: float | None = None
        if tasks <= SMALL:
            began = time.monotonic()
            assert by_flow(owner, len(names)) == fewest
            flow = time.monotonic() - began
        lines.append(line(tasks, members, event, taken, moves=found["moves"], fewest=fewest, highs=solved, flow=flow))
    return lines


def line(tasks: int, members: int, event: str, taken: list[float], **more: float | None) -> dict[str, Any]:
    said = {"tasks": tasks, "members": members, "event": event, "seconds": statistics.median(taken)}
    return said | {name: more.get(name) for name in ("moves", "fewest", "highs", "flow")}


def keep(spark: SparkSession, folder: Path, name: str, query: str) -> None:
    """A query's rows as a Delta table, under a name."""
    path = folder / f"{name}-{time.monotonic_ns()}"
    spark.sql(query).write.format("delta").save(str(path))
    spark.read.format("delta").load(str(path)).createOrReplaceTempView(name)


def consume(spark: SparkSession, call: str) -> None:
    spark.sql(f"SELECT * FROM {call}").write.format("noop").mode("overwrite").save()


def seconds(run: Callable[[], None], rounds: int) -> list[float]:
    """After one that does not count."""
    taken = []
    for _ in range(rounds + 1):
        began = time.monotonic()
        run()
        taken.append(time.monotonic() - began)
    return taken[1:]


def by_linear_program(owner: numpy.ndarray, members: int) -> int:
    """How many tasks with a living owner must move. Unknown: for each, whether it stays; for each member, what comes, and if it has one more.

    No rounding is needed: it is a flow, so the best solution is in whole numbers.
    """
    owned = numpy.flatnonzero(owner >= 0)
    n, each, over = len(owned), len(owner) // members, len(owner) % members
    place = numpy.arange(members)
    rows = numpy.concatenate([owner[owned], place, place, numpy.full(members, members)])
    columns = numpy.concatenate([numpy.arange(n), n + place, n + members + place, n + members + place])
    values = numpy.concatenate([numpy.ones(n), numpy.ones(members), -numpy.ones(members), numpy.ones(members)])
    even = coo_array((values, (rows, columns)), shape=(members + 1, n + 2 * members)).tocsr()
    cost = numpy.concatenate([-numpy.ones(n), numpy.zeros(2 * members)])
    bounds = [(0, 1)] * n + [(0, None)] * members + [(0, 1)] * members
    found = linprog(cost, A_eq=even, b_eq=numpy.append(numpy.full(members, each), over), bounds=bounds, method="highs")
    return n + round(found.fun)


def by_flow(owner: numpy.ndarray, members: int) -> int:
    """The same as a min-cost flow: a task goes to its owner for nothing, or to any member for 1."""
    graph, (each, over) = networkx.DiGraph(), divmod(len(owner), members)
    graph.add_node("one more", demand=over)
    for member in range(members):
        graph.add_node(("m", member), demand=each)
        graph.add_edge("any", ("m", member), weight=0)
        graph.add_edge(("m", member), "one more", capacity=1, weight=0)
    for task, had in enumerate(owner.tolist()):
        graph.add_node(("t", task), demand=-1)
        graph.add_edge(("t", task), "any", weight=int(had >= 0))
        if had >= 0:
            graph.add_edge(("t", task), ("m", had), weight=0)
    return int(networkx.network_simplex(graph)[0])


if __name__ == "__main__":
    main()
