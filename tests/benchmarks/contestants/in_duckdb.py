"""The idioms of DuckDB for the questions in batch, over the view `t`: windows, and a recursive query where a row's fate hangs on one before it."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from .questions import FIRST_WITHIN, SESSIONS, WINDOWS

# `next` is the number of the first row that lies more than six hours after this one. From the first row of each key on, follow it.
DEDUPLICATE = """
WITH RECURSIVE numbered AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts, off NULLS FIRST, x NULLS FIRST) AS n,
        1 + count(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 6 HOURS FOLLOWING) AS next
    FROM t WHERE ts IS NOT NULL AND k IS NOT NULL
), kept AS (
    SELECT * FROM numbered WHERE n = 1
    UNION ALL
    SELECT r.* FROM kept JOIN numbered r ON r.k = kept.k AND r.n = kept.next
)
SELECT k, ts, off, x FROM kept UNION ALL SELECT k, ts, off, x FROM t WHERE k IS NULL AND ts IS NOT NULL"""
SESSIONIZE = """
WITH flagged AS (
    SELECT *, coalesce(ts > lag(ts) OVER (PARTITION BY k ORDER BY ts) + INTERVAL 30 MINUTES, true) AS opens
    FROM t WHERE ts IS NOT NULL AND k IS NOT NULL
), numbered AS (
    SELECT *, sum(opens::INT) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM flagged
)
SELECT k, ts, off, x, min(ts) OVER (PARTITION BY k, n) AS session_start, max(ts) OVER (PARTITION BY k, n) AS session_end FROM numbered"""
FINAL = """
SELECT k, time_bucket(INTERVAL 1 HOUR, ts) AS window_start, window_start + INTERVAL 1 HOUR AS window_end,
    count(*) AS n, sum(off)::BIGINT AS total, max(x) AS high
FROM t WHERE ts IS NOT NULL AND k IS NOT NULL GROUP BY k, window_start"""
QUERIES = {FIRST_WITHIN: DEDUPLICATE, SESSIONS: SESSIONIZE, WINDOWS: FINAL}


def opened(files: str, threads: str = "2", memory: str = "4g") -> duckdb.DuckDBPyConnection:
    """A database in memory that has the files as the view `t`."""
    database = duckdb.connect(config={"threads": threads, "memory_limit": f"{memory}B"})
    database.execute("SET TimeZone = 'UTC'")
    database.execute(f"CREATE VIEW t AS FROM read_parquet('{files}')")
    return database


def answer(database: duckdb.DuckDBPyConnection, question: str) -> pa.Table:
    return database.sql(QUERIES[question]).to_arrow_table()
