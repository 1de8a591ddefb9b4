"""How often a call computes its input: once in event-time order, twice where stream time is asked for first, and suppress in both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

import streamtime
from streamtime.sql.rows import ranges, scans

pytestmark = pytest.mark.usefixtures("as_users")

ROWS = 600
ARRIVAL = "TABLE(dear) PARTITION BY k ORDER BY n, time => 'ts'"
EVENT = "TABLE(dear) PARTITION BY k ORDER BY ts"
AT, BY = "SELECT k, n, ts AS at", "PARTITION BY k ORDER BY at"
OTHER = "TABLE(SELECT k, n, ts, v AS w FROM plain) PARTITION BY k ORDER BY n"
TOTALS = "group_by => ARRAY('v'), aggregates => 'count(*) AS c'"
WINDOW = "size => INTERVAL 1 HOUR, aggregates => 'sum(v) AS s'"
COUNTS = "aggregates => 'count(*) AS c'"
CHANGES = "PARTITION BY (k, window_start) ORDER BY (ts, change_seq), time => 'change_time'"
SESSION = "gap => INTERVAL 1 HOUR, aggregates => 'sum(v) AS s'"
SHARED_OUT = (
    "tasks => TABLE(SELECT n AS task, looked_at(v + 1) AS cost FROM plain), members => TABLE(SELECT n AS member, looked_at(k + 1) AS threads"
    " FROM plain), current => TABLE(SELECT n AS task, k AS member, looked_at(v) AS lag FROM plain), standbys => 1"
)
CALLS = {
    f"DEDUPLICATE({EVENT}, within => INTERVAL 6 HOURS)": 1,
    f"DEDUPLICATE({EVENT}, within => INTERVAL 6 HOURS, keep => 'last')": 1,
    f"DEDUPLICATE({EVENT})": 1,
    f"DEDUPLICATE({EVENT}, output => 'metrics')": 1,
    f"DEDUPLICATE({ARRIVAL})": 1,
    f"DEDUPLICATE({ARRIVAL}, output => 'dropped')": 2,
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 HOURS)": 2,
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 HOURS, output => 'all')": 2,
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 HOURS, output => 'metrics')": 2,
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 HOURS, clock_by => ARRAY('k'), output => 'dropped')": 1,
    f"DISTINCT_IN_WINDOW({ARRIVAL}, size => INTERVAL 1 HOUR)": 2,
    f"DISTINCT_IN_WINDOW({EVENT}, size => INTERVAL 1 HOUR)": 1,
    f"DISTINCT_IN_WINDOW({EVENT}, size => INTERVAL 1 HOUR, slide => INTERVAL 20 MINUTES)": 1,
    f"DISTINCT_IN_WINDOW({EVENT}, gap => INTERVAL 1 HOUR)": 1,
    f"DISTINCT_IN_WINDOW({ARRIVAL}, gap => INTERVAL 1 HOUR, output => 'dropped')": 2,
    f"DISTINCT_IN_WINDOW({ARRIVAL}, size => INTERVAL 1 HOUR, clock_by => ARRAY('k'), output => 'metrics')": 1,
    f"SESSIONIZE({EVENT}, gap => INTERVAL 1 HOUR)": 1,
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES)": 2,
    f"SESSIONIZE({EVENT}, gap => INTERVAL 1 HOUR, output => 'metrics')": 1,
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES, output => 'dropped')": 2,
    f"WINDOW_UPDATES({EVENT}, {WINDOW})": 1,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, output => 'dropped')": 1,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, slide => INTERVAL 20 MINUTES)": 1,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW})": 2,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, output => 'metrics')": 2,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, clock_by => ARRAY('k'), emit => 'final')": 1,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, slide => INTERVAL 20 MINUTES, emit => 'final')": 2,  # once more for when they leave
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, slide => INTERVAL 20 MINUTES, emit => 'final')": 2,
    f"WINDOW_UPDATES({EVENT}, difference => INTERVAL 1 MINUTE, {COUNTS})": 1,
    f"WINDOW_UPDATES({EVENT}, difference => INTERVAL 1 MINUTE, {COUNTS}, emit => 'final', at_end => 'emit')": 2,
    f"WINDOW_UPDATES({ARRIVAL}, difference => INTERVAL 1 MINUTE, {COUNTS}, emit => 'final', at_end => 'emit')": 2,
    f"WINDOW_UPDATES({EVENT}, size => INTERVAL 1 SECOND, grace => INTERVAL 3 HOURS, aggregates => 'sum(v / 2) AS s', emit => 'final')": 2,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, emit => 'final', at_end => 'emit')": 2,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, emit => 'final')": 1,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, emit => 'final', at_end => 'emit', grace => INTERVAL 10 MINUTES)": 1,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, emit => 'final')": 2,
    f"SESSION_UPDATES({EVENT}, {SESSION})": 1,
    f"SESSION_UPDATES({EVENT}, {SESSION}, emit => 'final')": 1,
    f"SESSION_UPDATES({EVENT}, {SESSION}, output => 'dropped')": 1,
    f"SESSION_UPDATES({ARRIVAL}, {SESSION})": 2,
    f"SESSION_UPDATES({ARRIVAL}, {SESSION}, output => 'metrics')": 2,
    f"SESSION_UPDATES({ARRIVAL}, {SESSION}, emit => 'final', at_end => 'emit')": 2,
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 10 MINUTES, output => 'dropped')": 2,
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 10 MINUTES, output => 'explain')": 2,
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'ts', output => 'metrics')": 1,
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'ts', until => 'end')": 2,
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 10 MINUTES)": 2,
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 10 MINUTES, max_records => 9, when_full => 'spill')": 1,
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'ts', grace => INTERVAL 10 MINUTES)": 2,
    f"VERSIONS({EVENT})": 1,
    f"VERSIONS({EVENT}, output => 'dropped')": 1,
    f"VERSIONS({EVENT}, retention => INTERVAL 1 DAY)": 2,
    f"VERSIONS({ARRIVAL})": 1,
    f"VERSIONS({ARRIVAL}, output => 'metrics')": 2,
    f"VERSIONS({ARRIVAL}, grace => INTERVAL 10 MINUTES)": 2,
    f"VERSIONS({ARRIVAL}, grace => INTERVAL 10 MINUTES, retention => INTERVAL 1 DAY)": 2,
    f"AS_OF_JOIN({EVENT}, TABLE({AT} FROM plain) {BY})": 1,
    f"AS_OF_JOIN({EVENT}, TABLE({AT} FROM plain) {BY}, arrival => 'n')": 1,
    f"AS_OF_JOIN({EVENT}, TABLE({AT} FROM plain) {BY}, arrival => 'n', grace => INTERVAL 10 MINUTES)": 2,
    f"AS_OF_JOIN({EVENT}, TABLE({AT} FROM plain) {BY}, arrival => 'n', retention => INTERVAL 1 DAY)": 2,
    f"AS_OF_JOIN(TABLE(plain) PARTITION BY k ORDER BY ts, TABLE({AT} FROM dear) {BY})": 1,
    f"AS_OF_JOIN(TABLE(plain) PARTITION BY k ORDER BY ts, TABLE({AT} FROM dear) {BY}, arrival => 'n')": 1,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY k ORDER BY n, {OTHER}, time => 'ts')": 1,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY k ORDER BY n, {OTHER}, time => 'ts', versioned => ARRAY('left'), join_type => 'outer')": 1,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY k ORDER BY n, {OTHER}, time => 'ts', versioned => ARRAY('left'), retention => INTERVAL 1 DAY)": 2,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY n ORDER BY n, {OTHER}, time => 'ts', on => 'k')": 1,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY k ORDER BY n, {OTHER}, time => 'ts', output => 'explain')": 2,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY n ORDER BY n, {OTHER}, time => 'ts', on => 'k', output => 'explain')": 2,
    f"FILTER_CHANGES({ARRIVAL}, condition => 'v > 3')": 1,
    f"ASSIGN_TASKS({SHARED_OUT})": 3,  # its three tables, each of them once
    f"FILTER_CHANGES({ARRIVAL}, condition => 'v > 3', versioned => true, retention => INTERVAL 1 DAY)": 2,
    f"AGGREGATE_CHANGES({ARRIVAL}, {TOTALS}, versioned => true)": 1,
    f"AGGREGATE_CHANGES({ARRIVAL}, {TOTALS}, versioned => true, retention => INTERVAL 1 DAY)": 2,
    f"ASSIGN_TASKS({SHARED_OUT}, rounds => 2, output => 'metrics')": 3,
    f"SUPPRESS_UNTIL_CLOSE({EVENT}, window_end => 'ts', grace => INTERVAL 10 MINUTES)": 3,
    f"SUPPRESS_UNTIL_TIME_LIMIT({EVENT}, wait => INTERVAL 10 MINUTES)": 3,
    f"SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM WINDOW_UPDATES({EVENT}, {WINDOW})) {CHANGES})": 1,  # in one with the call in it
    f"SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM WINDOW_UPDATES({EVENT}, {WINDOW.replace('v)', 'v / 2)')})) {CHANGES})": 1,  # not in one: that would be 2
}
SAMPLED = [  # an order that is computed: of a hundredth, once more
    call for call in CALLS if EVENT in call and (call.startswith("SUPPRESS") or (call.startswith("AS_OF_JOIN") and "retention" in call))
]

PLAIN = {  # as plain SQL, where no kernel runs: at most, for Spark may share what two parts of a query compute
    f"DEDUPLICATE({EVENT}, within => INTERVAL 6 HOURS)": 2,
    f"DEDUPLICATE({EVENT}, within => INTERVAL 6 HOURS, output => 'all')": 2,
    f"DEDUPLICATE({ARRIVAL}, output => 'all')": 2,
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 HOURS)": 2,
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 1 HOUR, grace => INTERVAL 10 MINUTES)": 2,
    f"DISTINCT_IN_WINDOW({ARRIVAL}, size => INTERVAL 1 HOUR, output => 'all')": 2,
    f"SESSIONIZE({EVENT}, gap => INTERVAL 1 HOUR)": 2,
    f"DISTINCT_IN_WINDOW({ARRIVAL}, size => INTERVAL 1 HOUR)": 2,
    f"DISTINCT_IN_WINDOW({ARRIVAL}, gap => INTERVAL 1 HOUR, output => 'all')": 2,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, emit => 'final')": 2,
    f"WINDOW_UPDATES({EVENT}, {WINDOW}, emit => 'final', at_end => 'emit')": 1,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, emit => 'final', at_end => 'emit')": 2,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, emit => 'final')": 2,
    f"WINDOW_UPDATES({EVENT}, {WINDOW})": 1,
    f"WINDOW_UPDATES({ARRIVAL}, {WINDOW}, slide => INTERVAL 20 MINUTES)": 2,
    f"WINDOW_UPDATES({EVENT}, difference => INTERVAL 1 MINUTE, {COUNTS})": 1,
    f"WINDOW_UPDATES({ARRIVAL}, difference => INTERVAL 1 MINUTE, {COUNTS})": 2,
    f"SESSION_UPDATES({EVENT}, {SESSION})": 1,
    f"SESSION_UPDATES({EVENT}, {SESSION}, emit => 'final')": 1,
    f"SESSION_UPDATES({ARRIVAL}, {SESSION})": 2,
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'ts', grace => INTERVAL 10 MINUTES)": 2,
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 10 MINUTES)": 2,
    f"SUPPRESS_UNTIL_CLOSE({EVENT}, window_end => 'ts', grace => INTERVAL 10 MINUTES)": 2,
    f"SUPPRESS_UNTIL_TIME_LIMIT({EVENT}, wait => INTERVAL 10 MINUTES)": 2,
    f"JOIN_CHANGES(TABLE(dear) PARTITION BY k ORDER BY n, {OTHER}, time => 'ts', join_type => 'outer')": 2,
    f"SUPPRESS_UNTIL_CLOSE({ARRIVAL}, window_end => 'ts', output => 'metrics')": 2,
    f"AGGREGATE_CHANGES({ARRIVAL}, {TOTALS})": 1,
    f"AGGREGATE_CHANGES({ARRIVAL}, {TOTALS.replace('count(*) AS c', 'min(n) AS low, max(v) AS high')})": 1,
    f"VERSIONS({EVENT})": 1,
    f"VERSIONS({EVENT}, retention => INTERVAL 1 DAY)": 2,
    f"VERSIONS({ARRIVAL}, retention => INTERVAL 1 DAY)": 2,
    f"VERSIONS({ARRIVAL}, output => 'puts')": 2,
    f"AS_OF_JOIN({EVENT}, TABLE(SELECT k, n, ts AS at FROM plain) PARTITION BY k ORDER BY at, arrival => 'n')": 2,
    f"AS_OF_JOIN({EVENT}, TABLE({AT} FROM plain) {BY}, arrival => 'n', grace => INTERVAL 10 MINUTES)": 1,
    f"AS_OF_JOIN({EVENT}, TABLE({AT} FROM plain) {BY}, arrival => 'n', retention => INTERVAL 1 DAY)": 1,
}


@pytest.fixture(scope="module")
def seen(spark: SparkSession) -> Iterator[Accumulator[int]]:
    """How many rows had their event time computed."""
    counter = spark.sparkContext.accumulator(0)

    def looked_at(value: int) -> int:
        counter.add(1)
        return value

    spark.udf.register("looked_at", looked_at, "long")
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW plain AS SELECT id AS n, id % 7 AS k, timestamp_seconds(id * 50) AS ts, id AS v FROM range(0, {ROWS}, 1, 2)"
    )
    spark.sql("CREATE OR REPLACE TEMP VIEW dear AS SELECT n, k, timestamp_micros(looked_at(unix_micros(ts))) AS ts, v FROM plain")
    yield counter
    spark.catalog.dropTempView("dear")
    spark.catalog.dropTempView("plain")


@pytest.mark.parametrize(
    "call", CALLS, ids=lambda call: "known" if "arrival" in call and "retention" in call else "in_one" if CHANGES in call else None
)
def test_the_input_is_computed_as_often_as_pages_say(
    spark: SparkSession, seen: Accumulator[int], call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "FEWEST", 3)  # so that suppress spreads
    monkeypatch.setattr(scans, "SMALL", 0)
    seen.value = 0
    spark.sql(f"SELECT * FROM {call}").write.format("noop").mode("overwrite").save()
    most = CALLS[call] * ROWS + (0.05 * ROWS if call in SAMPLED else 0)
    assert CALLS[call] * ROWS <= seen.value <= most


def test_of_few_rows_stream_time_takes_no_second_look(spark: SparkSession, seen: Accumulator[int]) -> None:
    for call in [c for c in CALLS if c.startswith(f"DEDUPLICATE({ARRIVAL}")]:
        seen.value = 0
        spark.sql(f"SELECT * FROM {call}").write.format("noop").mode("overwrite").save()
        assert seen.value == ROWS, call


@pytest.mark.parametrize(
    "taken",
    [
        "LIMIT 599",
        "ORDER BY v % 2 LIMIT 599",
        "LIMIT 598 OFFSET 1",
        "SEMI JOIN (SELECT k FROM plain LIMIT 500) USING (k)",
        "WHERE k IN (SELECT k FROM plain LIMIT 500)",
    ],
)
def test_what_a_limit_takes_is_taken_once(
    spark: SparkSession, seen: Accumulator[int], monkeypatch: pytest.MonkeyPatch, taken: str, thorough: bool
) -> None:
    """On a cluster it may take other rows each time, and a part of the plan would not know those that another has."""
    monkeypatch.setattr(ranges, "FEWEST", 3)
    monkeypatch.setattr(scans, "SMALL", 0)
    again = [call for call, times in CALLS.items() if times > 1 and "TABLE(dear)" in call]
    if not taken.startswith("LIMIT"):  # Spark writes what is below in two ways where both sides are one list
        again = [call for call in again if not (call.startswith("AS_OF_JOIN") and "retention" in call)]
    few = again[::9] + [call for call in again if "sum(v / 2)" in call and "OFFSET" in taken]
    for call in again if thorough else few:
        seen.value = 0
        rows = spark.sql(f"SELECT * FROM {call.replace('TABLE(dear)', f'TABLE(SELECT * FROM dear {taken})')}")
        rows.write.format("noop").mode("overwrite").save()
        assert ROWS - 1 <= seen.value <= ROWS, call
        plan = rows._jdf.queryExecution().executedPlan().toString()
        assert "REPARTITION_BY_NUM" not in plan or "(" not in taken, plan  # where a part is limited, one task is too few


@pytest.mark.parametrize("call", PLAIN)
def test_plain_sql_computes_its_input_no_more_often_than_its_page_says(spark: SparkSession, seen: Accumulator[int], call: str) -> None:
    plain = streamtime.compile(spark, f"SELECT * FROM {call}")
    seen.value = 0
    spark.sql(plain).write.format("noop").mode("overwrite").save()
    assert ROWS <= seen.value <= PLAIN[call] * ROWS
