"""What others would write in DuckDB and Polars gives our rows, on an input that is nasty: the benchmark `peers` compares like with like."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession
from support import TESTS

sys.path.append(str(TESTS / "benchmarks"))
from contestants import in_duckdb, in_polars, in_spark, questions


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peers") / "few"
    questions.write_files(questions.table(questions.nasty_rows()), folder, [200, 300])
    return folder


@pytest.mark.parametrize("question", questions.BATCH)
def test_each_peer_has_the_rows_of_our_call(spark: SparkSession, files: Path, question: str) -> None:
    session = spark.newSession()
    in_spark.view(session, files)
    ours = questions.told(session.sql(in_spark.CALLS[question]).toArrow())
    assert len(ours) > 10
    with in_duckdb.opened(str(files / "*.parquet")) as database:
        assert questions.difference(ours, questions.told(in_duckdb.answer(database, question))) is None
    polars = in_polars.IDIOMS[question](pl.scan_parquet(files / "*.parquet")).collect().to_arrow()
    assert questions.difference(ours, questions.told(polars)) is None


def test_a_difference_is_said_with_its_row() -> None:
    said = questions.difference(["1, 2", "1, 2", "3, 4"], ["1, 2", "5, 6"])
    assert said == "it lacks 2 rows, such as (1, 2); it has 1 rows that we have not, such as (5, 6)"
    assert questions.difference(["1, 2", "1, 2"], ["1, 2", "1, 2"]) is None
