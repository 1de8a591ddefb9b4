"""What reports say of rows: how late they are, and rates by event time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.streams import Source, at

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield spark
    spark.conf.set(ZONE, before)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE"])
def test_a_row_ahead_of_stream_time_is_not_late(spark: SparkSession, kind: str) -> None:
    """One without a key does not move stream time, nor has it one before the first that does."""
    rows = "(1, NULL, '2024-01-02'), (2, 'a', '2024-01-03'), (3, NULL, '2024-01-09'), (4, NULL, '2024-01-01'), (5, 'a', '2024-01-01')"
    table = f"SELECT col1 AS n, col2 AS k, CAST(col3 AS {kind}) AS ts FROM VALUES {rows}"
    call = f"(TABLE({table}) PARTITION BY k ORDER BY n, time => 'ts', {{}}, output => 'all')"
    day = 86_400.0
    found = spark.sql(f"SELECT n, lateness FROM SESSIONIZE{call.format('gap => INTERVAL 1 HOUR, grace => INTERVAL 0 HOURS')} ORDER BY n")
    assert [tuple(r) for r in found.collect()] == [(1, None), (2, 0.0), (3, 0.0), (4, 2 * day), (5, 2 * day)]
    last = call.format("keep => 'last', within => INTERVAL 1 HOUR")  # stream time falls from the last row on
    found = spark.sql(f"SELECT n, lateness FROM DEDUPLICATE{last} ORDER BY n")
    assert [tuple(r) for r in found.collect()] == [(1, day), (2, 2 * day), (3, 8 * day), (4, 0.0), (5, 0.0)]


def test_on_a_stream_no_row_ahead_of_the_watermark_is_late(source: Source) -> None:
    source.add([("a", at(50), 1, 0)])
    source.add([("a", at(60), 2, 0), ("b", at(50), 3, 0), ("b", at(20), 4, 0)])
    call = "DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, within => INTERVAL 1 SECOND, output => 'all')"
    assert {(r.id, r.lateness) for r in source.run(f"SELECT id, lateness FROM {call}")} == {(1, None), (2, 0.0), (3, 0.0), (4, 30.0)}


@pytest.mark.parametrize("kind", ["TIMESTAMP_NTZ", "DATE"])
def test_rates_are_by_the_time_that_columns_without_a_zone_say(new_york: SparkSession, kind: str) -> None:
    """On a day on which New York has an hour less."""
    table = f"SELECT 'a' AS k, CAST(col1 AS {kind}) AS ts FROM VALUES ('2024-03-10 01:30:00'), ('2024-03-11 01:30:00')"
    call = f"DEDUPLICATE(TABLE({table}) PARTITION BY k ORDER BY ts, within => INTERVAL 9 DAYS, output => 'metrics')"
    assert new_york.sql(f"SELECT 1 / value FROM {call} WHERE metric = 'duplicate_drop_rate'").collect() == [(pytest.approx(86_400.0),)]
