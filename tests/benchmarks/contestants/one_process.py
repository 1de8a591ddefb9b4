"""DuckDB and Polars, which are no Spark: `python -m contestants.one_process CORES MEMORY`. All columns of all rows are made as Arrow data."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

cores, memory = sys.argv[1:]
os.environ["POLARS_MAX_THREADS"] = cores

import duckdb  # noqa: E402 - Polars reads its number of threads when it is imported
import polars as pl  # noqa: E402

from contestants.served import serve  # noqa: E402


def in_duckdb(folder: Path, check: bool) -> float | list[int]:
    database = duckdb.connect(config={"threads": cores, "memory_limit": f"{memory}B"})
    for side in ("l", "r"):
        database.execute(f"CREATE VIEW {side} AS FROM read_parquet('{folder / side / '*.parquet'}')")
    join = "l ASOF LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts"
    if check:
        row = database.execute(f"SELECT count(*), count(b0), sum(b0 * (a0 % 1000)) FROM {join}").fetchone()
        assert row is not None
        return [int(value) for value in row]
    began = time.perf_counter()
    for _ in database.execute(f"SELECT * FROM {join}").to_arrow_reader():
        pass
    return time.perf_counter() - began


def in_polars(folder: Path, check: bool) -> float | list[int]:
    left, right = (pl.scan_parquet(folder / side / "*.parquet").sort("ts") for side in ("l", "r"))
    joined = left.join_asof(right, on="ts", by="k", strategy="backward", coalesce=False, check_sortedness=False)
    if check:
        sums = joined.select(n=pl.len(), met=pl.col("b0").count(), total=(pl.col("b0") * (pl.col("a0") % 1000)).sum()).collect()
        return [int(value) for value in sums.row(0)]
    began = time.perf_counter()
    joined.collect()
    return time.perf_counter() - began


if __name__ == "__main__":
    serve({f"DuckDB {duckdb.__version__}": in_duckdb, f"Polars {pl.__version__}": in_polars})
