"""Flink SQL on a local mini cluster with as many slots as cores, state in RocksDB: `python -m contestants.flink CORES JAR`, the jar that reads Parquet.

It reads one file for each slot, as it would read one partition of a log: it takes the files of a folder in no order, and what its watermark has
passed it drops. The answer is complete when its input ends.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyflink.version  # type: ignore[import-not-found]
from pyflink.common import Configuration, RowKind  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

from .questions import CLOSER, EPOCH, FINAL_SESSIONS, FINAL_WINDOWS, FIRST, shown
from .served import Found, serve

SOURCE = (
    "CREATE TEMPORARY TABLE t (k BIGINT, ts TIMESTAMP_LTZ(3), off BIGINT, x DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) "
    "WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
)
TOTALS = "COUNT(*) AS n, SUM(off) AS total, MAX(x) AS high"
QUERIES = {
    FIRST: "SELECT k, ts, off, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS place FROM t WHERE k IS NOT NULL) WHERE place = 1",
    FINAL_WINDOWS: f"SELECT k, window_start, window_end, {TOTALS} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
    "WHERE k IS NOT NULL GROUP BY k, window_start, window_end",
    FINAL_SESSIONS: f"SELECT k, window_start AS session_start, window_end - INTERVAL '30' MINUTE AS session_end, {TOTALS} "
    "FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '30' MINUTE)) WHERE k IS NOT NULL GROUP BY k, window_start, window_end",
}
TIMES = {FIRST: ("ts",), FINAL_WINDOWS: ("window_start", "window_end"), FINAL_SESSIONS: ("session_start", "session_end")}
COLUMNS = {
    FIRST: ("k", "ts", "off", "x"),
    FINAL_WINDOWS: ("k", "window_start", "window_end", "n", "total", "high"),
    FINAL_SESSIONS: ("k", "session_start", "session_end", "n", "total", "high"),
}
SINKS = {
    FIRST: "k BIGINT, ts TIMESTAMP_LTZ(3), off BIGINT, x DOUBLE",
    FINAL_WINDOWS: "k BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, total BIGINT, high DOUBLE",
    FINAL_SESSIONS: "k BIGINT, session_start TIMESTAMP(3), session_end TIMESTAMP(3), n BIGINT, total BIGINT, high DOUBLE",
}
SUMMED_UP = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "1000000",
}


@cache
def environment() -> TableEnvironment:
    """Made when it is first needed: its JVM writes to what standard output is by then."""
    cores, jar = sys.argv[1:]
    settings = {
        "parallelism.default": cores,
        "taskmanager.numberOfTaskSlots": cores,
        "taskmanager.memory.managed.size": "1g",
        "taskmanager.memory.network.max": "256m",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.dir": Path(tempfile.mkdtemp()).as_uri(),
        "restart-strategy.type": "none",
        "table.local-time-zone": "UTC",
        "pipeline.object-reuse": "true",
        "pipeline.jars": Path(jar).as_uri(),
    }
    configured = Configuration()
    for name, value in settings.items():
        configured.set_string(name, value)
    return TableEnvironment.create(EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configured).build())


def with_flink(question: str) -> Found:
    def run(folder: Path, asked: Any) -> Any:
        tables = environment()
        tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS t")
        tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS nothing")
        tables.execute_sql(SOURCE.format((folder / "slots").as_uri()))
        if asked == "rows":
            return sorted(rows(tables, question))
        if asked == "count":
            return counted(tables, question)
        tables.execute_sql(f"CREATE TEMPORARY TABLE nothing ({SINKS[question]}) WITH ('connector' = 'blackhole')")
        began = time.perf_counter()
        tables.execute_sql(f"INSERT INTO nothing {QUERIES[question]}").wait()
        return time.perf_counter() - began

    return run


def counted(tables: TableEnvironment, question: str) -> int:
    """A count changes with each row, and its Python client takes a millisecond for each change: so it is told to sum up seconds of them."""
    for name, value in SUMMED_UP.items():
        tables.get_config().set(name, value)
    try:
        counts = tables.execute_sql(f"SELECT COUNT(*) FROM ({QUERIES[question]}) WHERE k <> {CLOSER}")
        return int([row[0] for row in counts.collect()][-1])
    finally:
        tables.get_config().set("table.exec.mini-batch.enabled", "false")


def rows(tables: TableEnvironment, question: str) -> Iterator[str]:
    """Times come as text: its Python client cannot take a TIMESTAMP_LTZ."""
    columns = [f"CAST({c} AS STRING)" if c in TIMES[question] else c for c in COLUMNS[question]]
    for row in tables.execute_sql(f"SELECT {', '.join(columns)} FROM ({QUERIES[question]}) WHERE k <> {CLOSER}").collect():
        assert row.get_row_kind() is RowKind.INSERT, row
        times = [name in TIMES[question] for name in COLUMNS[question]]
        yield ", ".join(shown(micros(value) if timed else value) for value, timed in zip(row, times, strict=True))


def micros(text: str) -> int:
    return (datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


if __name__ == "__main__":
    serve({f"{question}|Flink SQL {pyflink.version.__version__}": with_flink(question) for question in QUERIES})
