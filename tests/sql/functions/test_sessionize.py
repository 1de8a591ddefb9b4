"""SESSIONIZE: Kafka's cases, the slow definition on random input, other engines where no row is late, and each boundary by name."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from typing import Any

import duckdb
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from support import TESTS
from support.reference import sessionize as reference_sessionize
from support.times import micros, moment, view

import streamtime

FOLDER = TESTS / "cases"
CASES = [c for c in json.loads((FOLDER / "session_window.json").read_text()) if "gap_ms" in c["params"]]
KAFKA = [c for c in json.loads((FOLDER / "kafka_session_window.json").read_text()) if "known_wart" not in c]
DDL = "k STRING, t TIMESTAMP, off INT, p INT"


def seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def session_counts(spark: SparkSession, case: dict[str, Any]) -> tuple[Counter[Any], Counter[str]]:
    """How many rows each session of a case has at the end, and how many rows were dropped, and why."""
    rows = [{"k": r["key"], "n": i, "t": moment(r["ts"])} for i, r in enumerate(case["input"])]
    df = view(spark, rows, "k STRING, n INT, t TIMESTAMP")
    gap, grace = (seconds(case["params"][name] / 1000) for name in ("gap_ms", "grace_ms"))
    found = streamtime.sessionize(df, keys=["k"], order_by=["n"], time="t", gap=gap, grace=grace, output="all").collect()
    passed = Counter((r.k, micros(r.session_start), micros(r.session_end)) for r in found if r.reason is None)
    return passed, Counter(r.reason for r in found if r.reason)


def at_the_end(changes: list[dict[str, Any]]) -> dict[Any, int]:
    """A changelog of sessions as the table that it comes to."""
    table = {}
    for c in changes:
        table[c["key"], c["window_start"] * 1000, c["window_end"] * 1000] = c["value"]
    return {session: count for session, count in table.items() if count is not None}


@pytest.mark.parametrize("case", CASES, ids=[c["id"].removeprefix("session_window.") for c in CASES])
def test_case(spark: SparkSession, case: dict[str, Any]) -> None:
    passed, _ = session_counts(spark, case)
    for expected in case["expected"]:
        if expected.get("check") == "dropped_records_total":
            upto = case | {"input": case["input"][: expected["after"]]}
            assert session_counts(spark, upto)[1].total() == expected["value"]
        elif expected.get("check") == "sessions" and expected["after"] == len(case["input"]):
            assert {s: n for s, n in passed.items() if s[0] == expected["key"]} == at_the_end(expected["records"])
        elif expected.get("check") == "get_session":
            assert at_the_end([expected]).items() <= passed.items()
    changes = [e for e in case["expected"] if "check" not in e]
    if changes and "on_window_close" not in case["params"]["emit"]:
        assert passed == at_the_end(changes)
    assert at_the_end(changes).items() <= passed.items()


@pytest.mark.parametrize("case", KAFKA, ids=[c["id"] for c in KAFKA])
def test_what_kafka_really_did(spark: SparkSession, case: dict[str, Any]) -> None:
    """Every session that it emitted as final, or at last, has the rows that it counted; it dropped as many rows."""
    passed, dropped = session_counts(spark, case)
    final = at_the_end(case["expected"])
    assert dropped.total() == case["dropped_records_total"]
    assert final.items() <= passed.items()
    if case["params"].get("emit") == "on_window_update":
        assert passed == final


def some_rows(random_: random.Random) -> list[dict[str, Any]]:
    count, spread = random_.choice([0, 1, 50]), random_.choice([10, 60])
    return [
        {
            "k": random_.choice([None, *"aaabbbccc"]),
            "t": random_.choice([None, *([i * spread // 50 + random_.randint(-9, 9)] * 15)]),
            "off": random_.choice([None, *[i] * 20]),
            "p": random_.randint(0, 1),
        }
        for i in range(count)
    ]


def interval(micros_: int) -> str:
    return f"INTERVAL '{micros_ / 1e6:.6f}' SECOND"


@pytest.mark.parametrize("seed", range(7))
def test_random_input_equals_the_slow_definition_and_nothing_is_lost(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    rows = some_rows(random_)
    order, clock_by = random_.choice([["t"], ["off"], ["off"], ["p", "off"]]), random_.choice([[], [], ["p"], ["k"]])
    gap, grace = random_.choice([0, 1, 4]), random_.choice([None, 0, 0, 3, 20])
    judged = reference_sessionize.sessionize(rows, gap=gap, grace=grace, order=order, clock_by=clock_by)
    df = view(spark, [r | {"t": moment(r["t"], 1)} for r in random_.sample(rows, len(rows))], DDL)
    df.repartition(random_.randint(1, 4)).createOrReplaceTempView("t")
    options = f", gap => {interval(gap)}" + (f", grace => {interval(grace)}" if grace is not None else "")
    options += f", clock_by => ARRAY('{clock_by[0]}')" if clock_by else ""
    text = f"SELECT * FROM SESSIONIZE(TABLE(t) PARTITION BY k ORDER BY ({', '.join(order)}), time => 't'{options}, output => 'OUT')"

    def run(output: str) -> list[Row]:
        return spark.sql(text.replace("OUT", output)).collect()

    def key(r: Row) -> tuple[Any, ...]:
        return (r.k, micros(r.t), r.off, r.p)

    def row_of(j: reference_sessionize.Judged) -> tuple[Any, ...]:
        return tuple(j.row.values())

    def clock_of(j: reference_sessionize.Judged) -> tuple[int | None, float | None]:
        if order == ["t"] and j.reason == "null_key":  # rows in event-time order are on time
            return j.row["t"], 0.0
        return j.stream_time, None if j.stream_time is None else (j.stream_time - j.row["t"]) / 1e6 if j.stream_time >= j.row["t"] else 0.0

    got = Counter((*key(r), r.reason, micros(r.session_start), micros(r.session_end)) for r in run("all"))
    assert got == Counter((*row_of(j), j.reason, *(j.final or (None, None))) for j in judged), text
    passed = run("rows")
    assert Counter((*key(r), micros(r.session_start), micros(r.session_end)) for r in passed) == Counter(
        (*row_of(j), *j.final) for j in judged if j.final
    )
    sessions = {(r.k, r.session_start) for r in passed}
    assert {(r.k, r.session_start, r.session_id) for r in passed} == {(k, s, f"{k}@{written(s)}") for k, s in sessions}
    dropped = Counter((*key(r), r.reason, micros(r.stream_time)) for r in run("dropped"))
    assert dropped == Counter((*row_of(j), j.reason, clock_of(j)[0]) for j in judged if j.reason)
    explained = Counter((*key(r), r.outcome, micros(r.stream_time), micros(r.session_start), micros(r.session_end)) for r in run("explain"))
    assert explained == Counter((*row_of(j), j.outcome, clock_of(j)[0], *(j.after or (None, None))) for j in judged)
    metrics = {r.metric: r.value for r in run("metrics")}
    reasons = Counter(j.reason for j in judged)
    assert {m.removesuffix("_drop_total"): v for m, v in metrics.items() if m.endswith("_total")} == {
        r: float(reasons[r]) for r in ("null_time", "null_key", "late")
    }


def written(at: datetime.datetime) -> str:
    """As Spark writes it, which leaves zeros at the end out."""
    text = str(at)
    return text.rstrip("0") if "." in text else text


@pytest.mark.usefixtures("many_rows")
def test_lag_and_sum_session_window_and_duckdb_say_the_same_where_no_row_is_late(spark: SparkSession) -> None:
    text = "SELECT 'k' || pmod(hash(id), 40) AS k, timestamp_seconds(pmod(xxhash64(id), 100000)) AS t, id FROM range(20000)"
    spark.sql(text).createOrReplaceTempView("t")
    ours = spark.sql("SELECT * FROM SESSIONIZE(TABLE(t) PARTITION BY k ORDER BY id, time => 't', gap => INTERVAL 100 SECONDS)")
    got = Counter((r.k, r.session_start, r.session_end, r.id) for r in ours.collect())
    idiom = """WITH flagged AS (SELECT *, CASE WHEN t <= lag(t) OVER w + INTERVAL 100 SECOND THEN 0 ELSE 1 END AS opens
                               FROM t WINDOW w AS (PARTITION BY k ORDER BY t, id)),
                    numbered AS (SELECT *, sum(opens) OVER (PARTITION BY k ORDER BY t, id) AS n FROM flagged)
               SELECT k, min(t) OVER w AS a, max(t) OVER w AS b, id FROM numbered WINDOW w AS (PARTITION BY k, n)"""
    assert got == Counter(map(tuple, spark.sql(idiom).collect()))
    elsewhere = duckdb.connect()
    elsewhere.register("t", spark.table("t").selectExpr("k", "CAST(t AS TIMESTAMP_NTZ) AS t", "id").toArrow())
    assert got == Counter(elsewhere.execute(idiom).fetchall())
    theirs = spark.sql("SELECT k, session_window(t, '100001 milliseconds') AS w, count(*) AS n FROM t GROUP BY 1, 2").collect()
    ends = seconds(100.001)  # Spark's gap is exclusive: times are whole seconds, so a millisecond more makes it ours
    assert Counter((k, a, b) for k, a, b, _ in got.elements()) == Counter({(r.k, r.w.start, r.w.end - ends): r.n for r in theirs})


def sessions_of(spark: SparkSession, times: list[float], **options: Any) -> list[Any]:
    """Rows of one key in the order in which they came, at these seconds: each row's final session, or why it has none."""
    rows = [{"k": "a", "t": moment(round(t * 1_000_000), 1), "off": i, "p": 0} for i, t in enumerate(times)]
    given = {"gap": seconds(10), "order_by": ["off"], "time": "t", "output": "all"} | options
    found = streamtime.sessionize(view(spark, rows, DDL), keys=["k"], **given).orderBy("off").collect()
    return [r.reason or (micros(r.session_start) / 1e6, micros(r.session_end) / 1e6) for r in found]  # type: ignore[operator]


def test_a_distance_of_the_gap_merges_and_one_microsecond_more_does_not(spark: SparkSession) -> None:
    assert sessions_of(spark, [0, 10]) == [(0, 10), (0, 10)]
    assert sessions_of(spark, [0, 10.000001]) == [(0, 0), (10.000001, 10.000001)]
    assert sessions_of(spark, [0, 0, 0.000001], gap=seconds(0)) == [(0, 0), (0, 0), (0.000001, 0.000001)]


def test_a_row_that_joins_two_sessions_makes_them_one_for_the_rows_that_came_before(spark: SparkSession) -> None:
    for grace in (None, seconds(100)):
        assert sessions_of(spark, [0, 20, 10], grace=grace) == [(0, 20)] * 3
        assert sessions_of(spark, [0, 21, 10], grace=grace) == [(0, 10), (21, 21), (0, 10)]


def test_equal_times_are_one_session(spark: SparkSession) -> None:
    assert sessions_of(spark, [5, 5, 5]) == [(5, 5)] * 3


def test_a_row_at_the_close_is_accepted_and_one_microsecond_later_it_is_late(spark: SparkSession) -> None:
    for grace in (0, 7):
        close = 10 + grace  # stream time at which a session [0, 0] still accepts a row
        assert sessions_of(spark, [close, 0], grace=seconds(grace))[1] != "late"
        assert sessions_of(spark, [close + 0.000001, 0], grace=seconds(grace))[1] == "late"


def test_an_old_row_that_joins_a_live_session_is_accepted_however_old_it_is(spark: SparkSession) -> None:
    assert sessions_of(spark, [9, 19, 25, 0], grace=seconds(0)) == [(0, 25)] * 4  # alone, 0 is late from 10 on


def test_a_closed_session_is_final_and_a_later_row_opens_one_less_than_the_gap_after_it(spark: SparkSession) -> None:
    df = view(
        spark,
        [{"k": k, "t": moment(t * 1000), "off": i, "p": 0} for i, (k, t) in enumerate([("a", 0), ("b", 11), ("a", 9), ("a", 12)])],
        DDL,
    )
    options: dict[str, Any] = {"keys": ["k"], "order_by": ["off"], "time": "t", "gap": seconds(10)}
    for grace, sessions in ((0, [(0, 0), (11, 11), (9, 12), (9, 12)]), (1, [(0, 12), (11, 11), (0, 12), (0, 12)])):
        found = streamtime.sessionize(df, **options, grace=seconds(grace)).orderBy("off").collect()
        assert [(micros(r.session_start), micros(r.session_end)) for r in found] == [(a * 10**6, b * 10**6) for a, b in sessions]


def test_rows_in_event_time_order_are_never_late_and_order_by_offset_changes_nothing_without_grace(spark: SparkSession) -> None:
    times = [0.0, 100.0, 5.0, 200.0, 15.0]
    by_time = sessions_of(spark, times, order_by=["t"], grace=seconds(0))
    assert by_time == sessions_of(spark, times) == [(0, 15), (100, 100), (0, 15), (200, 200), (0, 15)]


@pytest.mark.parametrize(
    ("kind", "gap", "ids"),
    [
        ("TIMESTAMP", "INTERVAL 1 DAY", {"a@1969-12-30 23:00:00", "a@1970-01-02 23:00:00"}),
        ("TIMESTAMP_NTZ", "INTERVAL 1 DAY", {"a@1969-12-31 00:00:00", "a@1970-01-03 00:00:00"}),
        ("DATE", "INTERVAL 1 DAY", {"a@1969-12-31", "a@1970-01-03"}),
    ],
)
def test_bounds_have_the_type_of_the_event_time_and_ids_depend_on_no_time_zone(
    spark: SparkSession, kind: str, gap: str, ids: set[str]
) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW t AS SELECT 'a' AS k, CAST(s AS {kind}) AS t FROM VALUES ('1969-12-31'), ('1970-01-01'), ('1970-01-03') AS v(s)"
    )
    before, found = spark.conf.get("spark.sql.session.timeZone"), set()
    try:
        spark.conf.set("spark.sql.session.timeZone", "+01:00")
        df = spark.sql(
            f"SELECT * FROM SESSIONIZE(TABLE(SELECT k, CAST(s AS {kind}) AS t FROM VALUES ('a', '1969-12-31'), ('a', '1970-01-01'), ('a', '1970-01-03') AS v(k, s)) PARTITION BY k ORDER BY t, gap => {gap})"
        )
        assert [f.dataType.simpleString().upper() for f in df.schema] == ["STRING", kind, kind, kind, "STRING"]
        found = {r.session_id for r in df.collect()}
        fixed = spark.sql(
            "SELECT session_id FROM SESSIONIZE(TABLE(SELECT 'a' AS k, TIMESTAMP '2024-10-27 00:30:00 UTC' AS t) PARTITION BY k ORDER BY t, gap => INTERVAL 1 DAY)"
        )
        assert fixed.first().session_id == "a@2024-10-27 00:30:00"  # type: ignore[union-attr]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert found == ids


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("0.0D", "-0.0D", "1.0D"),
        ("double('NaN')", "double('NaN')", "0.0D"),
        ("collate('Ann', 'UTF8_LCASE')", "collate('ANN', 'UTF8_LCASE')", "collate('bob', 'UTF8_LCASE')"),
        ("struct('x', 0.0D)", "struct('x', -0.0D)", "struct('x', 1.0D)"),
        ("array(array(1), array(NULL))", "array(array(1), array(NULL))", "array(array(1, NULL))"),
        ("X'FF'", "X'FF'", "X'00FF'"),
        ("TIMESTAMP '2024-10-27 00:30:00 UTC'", "TIMESTAMP '2024-10-27 00:30:00 UTC'", "TIMESTAMP '2024-10-27 01:30:00 UTC'"),
    ],
)
def test_keys_that_group_by_counts_as_equal_are_one_key_with_one_id(spark: SparkSession, one: str, same: str, other: str) -> None:
    values = ", ".join(f"({key}, timestamp_seconds({at}))" for key, at in ((one, 0), (same, 5), (other, 3), (one, 9), (same, 30)))
    call = f"SESSIONIZE(TABLE(SELECT * FROM VALUES {values} AS v(k, t)) PARTITION BY k ORDER BY t, gap => INTERVAL 6 SECONDS)"
    found = spark.sql(f"SELECT unix_seconds(t) AS at, unix_seconds(session_end) AS b, session_id FROM {call}").collect()
    assert sorted((r.at, r.b) for r in found) == [(0, 9), (3, 3), (5, 9), (9, 9), (30, 30)]
    assert sorted(Counter(r.session_id for r in found).values()) == [1, 1, 3]


def test_ids_of_several_keys_cannot_be_confused(spark: SparkSession) -> None:
    pairs = [
        ("a|b", "c"),
        ("a", "b|c"),
        ("a\\", "|b"),
        ("a\\|", "b"),
        ("a", "\\|b"),
        ("", "|"),
        ("|", ""),
        ("a@1970-01-01 00:00:00", "b"),
        ("a", "1970-01-01 00:00:00@b"),
    ]
    df = spark.createDataFrame([(a, b, moment(0)) for a, b in pairs], "a STRING, b STRING, t TIMESTAMP")
    found = streamtime.sessionize(df, keys=["a", "b"], order_by=["t"], gap=seconds(1)).collect()
    assert len({r.session_id for r in found}) == len(pairs)
    alone = streamtime.sessionize(df, order_by=["t"], gap=seconds(1)).collect()
    assert {r.session_id for r in alone} == {"@1970-01-01 00:00:00"}


def test_empty_input_gives_empty_output_of_the_same_columns(spark: SparkSession) -> None:
    view(spark, [], DDL)
    for output in ("rows", "dropped", "all", "explain"):
        call = f"SESSIONIZE(TABLE(t) PARTITION BY k ORDER BY off, time => 't', gap => INTERVAL 1 SECOND, grace => INTERVAL 1 DAY, output => '{output}')"
        df = spark.sql(f"SELECT * FROM {call}")
        assert df.columns[:4] == ["k", "t", "off", "p"]
        assert df.collect() == []


@pytest.mark.usefixtures("many_rows")
def test_one_hot_key_in_one_session_over_many_batches(spark: SparkSession) -> None:
    spark.sql("SELECT 'hot' AS k, timestamp_seconds(pmod(xxhash64(id), 300000)) AS t, id FROM range(300000)").createOrReplaceTempView("t")
    for options in ("", ", grace => INTERVAL 10 DAYS"):
        call = f"SESSIONIZE(TABLE(t) PARTITION BY k ORDER BY id, time => 't', gap => INTERVAL 1 HOUR{options})"
        found = spark.sql(
            f"SELECT count(*), count(DISTINCT id), min(session_start) = (SELECT min(t) FROM t), min(session_end) = (SELECT max(t) FROM t), count(DISTINCT session_id) FROM {call}"
        )
        assert tuple(found.first() or ()) == (300_000, 300_000, True, True, 1)


def explanations(spark: SparkSession, times: list[float], **options: Any) -> list[str]:
    rows = [
        {"k": "a" if t is not None else None, "t": moment(round((t or 0) * 1_000_000), 1), "off": i, "p": 0} for i, t in enumerate(times)
    ]
    given = {"gap": seconds(10), "order_by": ["off"], "time": "t", "output": "explain"} | options
    return [r.explanation for r in streamtime.sessionize(view(spark, rows, DDL), keys=["k"], **given).orderBy("off").collect()]


def test_explanations_say_what_a_row_did_to_which_session(spark: SparkSession) -> None:
    at = "1970-01-01 00:00:"
    assert explanations(spark, [20, 25, 22, 15, 40, 30]) == [
        "opened a session: no live session of its key lay within 10 seconds of it",
        f"joined the session that began at {at}20 and moved its end from {at}20 to {at}25",
        f"joined the session that began at {at}20 and ends at {at}25; its bounds stay",
        f"joined the session that began at {at}20 and moved its start back to {at}15",
        "opened a session: no live session of its key lay within 10 seconds of it",
        f"merged two sessions into one: that which ended at {at}25 and that which began at {at}40; it began at {at}15 and ends at {at}40",
    ]
    late, advice = (
        f"late: its session would have ended at {at}05, and was closed once stream time passed {at}17",
        "A grace of 25 seconds would have let it in",
    )
    assert explanations(spark, [40, 5], grace=seconds(2))[1] == f"{late}; stream time is {at}40. {advice}"
    assert sessions_of(spark, [40, 5], grace=seconds(25))[1] == (5, 5)
    assert sessions_of(spark, [40, 5], grace=seconds(24))[1] == "late"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("ORDER BY t", "SESSIONIZE, `gap`: is required: the largest distance between neighbours in a session, included"),
        ("ORDER BY t, gap => INTERVAL 1 MONTH", "SESSIONIZE, `gap`: expected an interval of days to seconds"),
        ("ORDER BY t, gap => INTERVAL '-1' SECOND", "SESSIONIZE, `gap`: expected an interval of zero or more"),
        ("ORDER BY t, gap => INTERVAL 1 DAY, grase => INTERVAL 1 DAY", "SESSIONIZE, `grase`: no such option. Did you mean `grace`"),
        ("ORDER BY t, gap => INTERVAL 1 DAY, output => 'explained'", "expected one of 'rows', 'dropped', 'all', 'metrics', 'explain'"),
        ("ORDER BY off, gap => INTERVAL 1 DAY", "expected TIMESTAMP, TIMESTAMP_NTZ or DATE as event time, got INT"),
    ],
)
def test_wrong_calls_are_refused_when_they_are_analysed(spark: SparkSession, arguments: str, message: str) -> None:
    view(spark, [], DDL)
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"SELECT * FROM SESSIONIZE(TABLE(t) PARTITION BY k {arguments})")


def test_a_column_of_the_input_with_the_name_of_an_added_one_is_refused(spark: SparkSession) -> None:
    table = "TABLE(SELECT 'a' AS k, timestamp_seconds(1) AS t, 1 AS {}) PARTITION BY k ORDER BY t, gap => INTERVAL 1 DAY, output => '{}'"
    for name, output in (("session_id", "rows"), ("Session_End", "all"), ("explanation", "explain"), ("reason", "dropped")):
        with pytest.raises(AnalysisException, match=f"SESSIONIZE: the input already has a column `{name}`, which this call adds"):
            spark.sql(f"SELECT * FROM SESSIONIZE({table.format(name, output)})")
