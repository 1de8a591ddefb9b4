"""Eight hundred analyses leave nothing behind. Catches: a cache that holds a query's plan, references of Py4J that nobody gives back."""

from __future__ import annotations

import gc
import time

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from support.programs.jvm import instances

ROWS = "TABLE(leaky) PARTITION BY k ORDER BY ts"
LATE = "TABLE(leaky) PARTITION BY (k, upper(v)) ORDER BY v, time => 'ts'"
DAY = "INTERVAL 1 DAY"
CALLS = (
    *[f"DEDUPLICATE({ROWS}, within => {DAY})", f"DEDUPLICATE({ROWS})", f"SESSIONIZE({ROWS}, gap => {DAY})"] * 20,
    f"DEDUPLICATE({ROWS}, within => {DAY}, output => 'dropped')",
    f"DEDUPLICATE({LATE}, within => {DAY}, output => 'all')",
    f"DEDUPLICATE({ROWS}, within => {DAY}, output => 'metrics')",
    f"SESSIONIZE({ROWS}, gap => {DAY}, output => 'explain')",
    f"DISTINCT_IN_WINDOW({ROWS}, size => {DAY})",
    f"WINDOW_UPDATES({ROWS}, size => {DAY}, aggregates => 'count(*) AS n', emit => 'final')",
    f"SESSION_UPDATES({ROWS}, gap => {DAY}, aggregates => 'count(*) AS n')",
    f"SUPPRESS_UNTIL_TIME_LIMIT({ROWS}, wait => {DAY})",
    f"AS_OF_JOIN({ROWS}, {ROWS})",
    f"VERSIONS({ROWS})",
)
OURS = "org.apache.spark.sql.classic.Dataset", "org.apache.spark.sql.Column"


def held(spark: SparkSession) -> tuple[dict[str, int], float]:
    """What is alive once all is collected: DataFrames and proxies here, Py4J's references, objects of the JVM; and megabytes of its heap."""
    bindings = JavaObject("GATEWAY_SERVER", spark.sparkContext._gateway._gateway_client).getGateway().getBindings()
    before, count = -1, -2
    while before != count:
        gc.collect()
        time.sleep(1.2)  # Py4J gives references back once a second
        before, count = count, bindings.size()
    alive = instances(spark, *OURS)  # after which the JVM gives back what it held of the proxies here
    memory = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    memory.gc()
    time.sleep(1)
    alive |= {"DataFrame": sum(isinstance(o, DataFrame) for o in gc.get_objects()), "reference": count}
    alive |= {"proxy": len(spark.sparkContext._gateway.gateway_property.pool)}  # type: ignore[union-attr]
    return alive, memory.getHeapMemoryUsage().getUsed() / 1e6


def test_hundreds_of_analyses_leave_nothing_behind(spark: SparkSession, thorough: bool) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW leaky AS SELECT * FROM VALUES (1, 'a', TIMESTAMP '2024-01-01') AS t(k, v, ts)")
    found = []
    rounds = (800 if thorough else 96) // len(CALLS)
    for number in range(rounds + 1):
        for call in CALLS:
            spark.sql(f"SELECT * FROM {call}")
        if number in (rounds // 6, rounds):
            found.append(held(spark))
    (before, heap), (after, more) = found
    assert all(after[kind] <= count + 20 for kind, count in before.items()), found  # five sixths of the analyses lie between
    assert more < heap + 8, found
