"""Kernels through pandas, as where Spark has no Arrow functions (4.0). Catches: numbers that become floats, times out of pandas' range."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streamtime.sql.rows import kernels
from streamtime.udfs.arrays import as_pandas

MOST = 2**63 - 1
COLUMNS = [
    pa.array([-MOST - 1, MOST, None, 2**53 + 1], pa.int64()),
    pa.array([None, -128, 127, 0], pa.int8()),
    pa.array([True, False, None, True]),
    pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999, None, -1], pa.timestamp("us", "UTC")),
    pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999, None, -1], pa.timestamp("us")),
    pa.array([-719_162, 2_932_896, None, -1], pa.int32()).cast(pa.date32()),
    pa.array(
        [Decimal("-1.000000000000000001"), Decimal("99999999999999999999.999999999999999999"), None, Decimal(0)], pa.decimal128(38, 18)
    ),
    pa.array(["", "a\0b", None, "\N{GREEK SMALL LETTER ALPHA}"]),
    pa.array([b"", b"\xff\x00", None, b"a"]),
]


def as_spark_sends(column: pa.Array) -> Iterator[pd.Series]:
    """What `streamtime.sql.rows.kernels_before_4_1` has Spark make of a column, and Spark's own conversion to pandas."""
    if not as_pandas.counts(column.type):
        yield pd.Series([str(v) if isinstance(v, Decimal) else v for v in column.to_pylist()], dtype=object)
        return
    yield pd.Series(as_pandas.sent(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column).fillna(0).to_numpy(np.int64))
    yield column.is_null().to_pandas()


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: str(c.type))
def test_a_column_arrives_as_it_was(column: pa.Array) -> None:
    for part in (column, column.slice(1, 2), column.slice(0, 0)):
        (arrived,) = as_pandas.arrived([part.type], list(as_spark_sends(part)))
        assert arrived.type == part.type
        assert arrived.equals(part)


EXTREMES = {
    "TIMESTAMP": ("0001-01-01 00:00:00.000001", "1677-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-03-10 02:30:00", "9999-12-31 00:00:00"),
    "TIMESTAMP_NTZ": ("0001-01-01 00:00:00.000001", "1677-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-03-10 02:30:00", "9999-12-31 23:59:59.999999"),
    "DATE": ("0001-01-01", "1677-01-01", "1969-12-31", "2024-03-10", "9999-12-31"),
}  # fmt: skip
CALLS = (
    "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => INTERVAL 0 SECONDS, output => 'all')",
    "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY n, time => 'ts', within => INTERVAL 1 DAY, keep => 'unique', output => 'all')",
    "DISTINCT_IN_WINDOW(TABLE(t) PARTITION BY k ORDER BY n, time => 'ts', gap => INTERVAL 1 DAY, clock_by => ARRAY('k'), output => 'all')",
)


@pytest.mark.parametrize("kind", EXTREMES)
def test_the_result_is_that_of_an_arrow_function(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    rows = ", ".join(f"({k}, {kind} '{at}', {n})" for k, at in enumerate(EXTREMES[kind]) for n in (k, k + 10))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # where 2024-03-10 02:30 is no time, unless it has no zone
    try:
        spark.sql(
            f"CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM VALUES {rows}, (9, NULL, 20), (NULL, {kind} '{EXTREMES[kind][0]}', 21) AS v(k, ts, n)"
        )
        text = {call: Counter(answer(spark, call)) for call in CALLS}
        monkeypatch.setattr(kernels, "arrow_udf", None)
        for call, expected in text.items():
            assert Counter(answer(spark, call)) == expected, call
        kept = spark.sql(f"SELECT k, n, string(kept_time) AS kept FROM {CALLS[0]} WHERE reason = 'duplicate'").collect()
        assert {(r.k, r.n): r.kept for r in kept} == {(k, k + 10): at for k, at in stored(spark, kind).items()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def stored(spark: SparkSession, kind: str) -> dict[int, str]:
    return dict(spark.sql("SELECT DISTINCT k, string(ts) FROM t WHERE k < 9").collect())


def answer(spark: SparkSession, call: str) -> list[Any]:
    df = spark.sql(f"SELECT * FROM {call}")
    return [tuple(r) for r in df.selectExpr(*[f"string({c})" for c in df.columns]).collect()]


def test_no_time_is_lost_between_microseconds(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "arrow_udf", None)
    spark.sql("SELECT 1 AS k, timestamp_micros(id - 3) AS ts FROM range(7)").createOrReplaceTempView("t")
    got = spark.sql("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => INTERVAL '0.000001' SECOND)").collect()
    assert sorted(r.ts.replace(tzinfo=datetime.UTC).timestamp() for r in got) == pytest.approx([-3e-6, -1e-6, 1e-6, 3e-6])
