"""DuckDB and Polars, each as `peers.py` asks it: `python -m contestants.batch_peers CORES MEMORY`. All columns of all rows are made as Arrow data."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

cores, memory = sys.argv[1:]
os.environ["POLARS_MAX_THREADS"] = cores

import duckdb  # noqa: E402 - Polars reads its number of threads when it is imported
import polars as pl  # noqa: E402

from . import in_duckdb, in_polars  # noqa: E402
from .questions import BATCH, told  # noqa: E402
from .served import Found, serve  # noqa: E402


def with_duckdb(question: str) -> Found:
    def run(folder: Path, asked: Any) -> Any:
        database = in_duckdb.opened(str(folder / "*.parquet"), cores, memory)
        if asked == "rows":
            return told(in_duckdb.answer(database, question))
        query = in_duckdb.QUERIES[question]
        if asked == "count":
            (found,) = database.execute(f"SELECT count(*) FROM ({query})").fetchone() or (None,)
            return found
        began = time.perf_counter()
        for _ in database.sql(query).to_arrow_reader():
            pass
        return time.perf_counter() - began

    return run


def with_polars(question: str) -> Found:
    def run(folder: Path, asked: Any) -> Any:
        began = time.perf_counter()
        answer = in_polars.IDIOMS[question](pl.scan_parquet(folder / "*.parquet")).collect()
        if asked == "rows":
            return told(answer.to_arrow())
        return answer.height if asked == "count" else time.perf_counter() - began

    return run


if __name__ == "__main__":
    engines = {f"DuckDB {duckdb.__version__}": with_duckdb, f"Polars {pl.__version__}": with_polars}
    serve({f"{question}|{name}": engine(question) for question in BATCH for name, engine in engines.items()})
