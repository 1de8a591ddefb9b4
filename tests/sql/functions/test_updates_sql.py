"""WINDOW_UPDATES and SESSION_UPDATES in SQL: random input, shuffled, against the slow definition, and what Kafka Streams really gave."""

from __future__ import annotations

import datetime
import json
import random
import re
from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from support import TESTS
from support.inputs.updates_rows import some_rows
from support.reference import updates as slow
from support.streams import Source, at
from support.times import micros, moment, view

import streamtime

AGGREGATES = (
    "count(*) AS n_rows, count(v) AS n, sum(v) AS total, min(v) AS low, max(v) AS high, avg(v) AS mean, first(v) AS head, last(v) AS tail, "
    "collect_list(v) AS together"
)
NAMES = ("n_rows", "n", "total", "low", "high", "mean", "head", "tail", "together")


def interval(micros_: int) -> str:
    return f"INTERVAL '{micros_ / 1e6:.6f}' SECOND"


def plain(row: Any, bounds: tuple[str, str], order: str) -> tuple[Any, ...]:
    values = tuple(row[n] for n in NAMES) if row.change_type == "upsert" else None
    times = (micros(row[n]) for n in (*bounds, "window_close", "change_time"))
    return (row.k, micros(row.t) if order == "t" else row[order], *times, row.change_seq, repr(values))


def expected(change: slow.Change, order: str) -> tuple[Any, ...]:
    return (change.row["k"], change.row[order], change.start, change.end, change.close, change.time, change.seq, repr(change.values))


@pytest.mark.parametrize("seed", range(9))
def test_random_input_gives_what_the_slow_definition_says(spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    rows = [r | {"p": random_.randint(0, 1)} for r in some_rows(random_, random_.choice([0, 1, 40, 40]))]
    order, grace = random_.choice(["t", "off", "off"]), random_.choice([0, 0, 3, 12])
    clock_by = random_.choice([[], [], ["p"]]) if order == "off" else []
    clocked = slow.clocked(rows, [order], clock_by)
    length = random_.choice([1, 3, 5])
    if seed % 3 == 0:
        name, bounds, options = "SESSION_UPDATES", ("session_start", "session_end"), f"gap => {interval(length)}"
        judged = slow.sessions(clocked, [order], length, grace)
    elif seed % 3 == 1:
        name, bounds, options = "WINDOW_UPDATES", ("window_start", "window_end"), f"difference => {interval(length)}"
        judged = slow.sliding_windows(clocked, [order], length, grace)
    else:
        slide = random_.choice([length, 1])
        name, bounds = "WINDOW_UPDATES", ("window_start", "window_end")
        options = f"size => {interval(length)}, slide => {interval(slide)}"
        judged = slow.time_windows(clocked, [order], length, slide, grace)
    df = view(
        spark,
        [r | {"t": moment(r["t"], 1)} for r in random_.sample(rows, len(rows))],
        "k STRING, t TIMESTAMP, off INT, v INT, id INT, p INT",
    )
    df.repartition(random_.randint(1, 3)).createOrReplaceTempView("t")
    by = ", clock_by => ARRAY('p')" if clock_by else ""
    call = (
        f"SELECT * FROM {name}(TABLE(t) PARTITION BY k ORDER BY {order}, time => 't', {options}, grace => {interval(grace)}{by}, "
        f"aggregates => '{AGGREGATES}'"
    )
    got = [plain(r, bounds, order) for r in spark.sql(f"{call})").collect()]
    assert Counter(got) == Counter(expected(c, order) for c in judged.changes), call
    at_end = random_.choice(["hold", "emit"])
    finals = [
        (*plain(r, bounds, order), micros(r.emit_time) if r.emit_reason == "close" else None, r.emit_reason)
        for r in spark.sql(f"{call}, emit => 'final', at_end => '{at_end}')").collect()
    ]
    wanted = [
        (*expected(c, order), at, "close" if at is not None else "end")
        for c, at in slow.final(judged, clocked, clock_by)
        if at is not None or at_end == "emit"
    ]
    assert Counter(finals) == Counter(wanted), call
    dropped = Counter(
        (r.id, r.reason, micros(r[bounds[0]]), micros(r[bounds[1]])) for r in spark.sql(f"{call}, output => 'dropped')").collect()
    )
    late = [(r["id"], "late", start, end) for r, start, end in judged.late]
    assert dropped == Counter(late + [(r["id"], why, None, None) for r, why in judged.aside]), call
    every = Counter(r.id for r in spark.sql(f"{call}, output => 'all')").where("reason IS NULL").collect())
    gone = {r["id"] for r, *_ in [*judged.late, *judged.aside]} if "size" not in options else {r["id"] for r, _ in judged.aside}
    taken = {c.row["id"] for c in judged.changes} if "size" in options else {r["id"] for r in rows} - gone
    assert set(every) == taken, call


def cases() -> dict[str, list[dict[str, Any]]]:
    """What Kafka Streams gave, by the parameters of the window; without those where it leaves its own rule."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in ("kafka_session_window", "kafka_suppress_until_close"):
        for case in json.loads((TESTS / "cases" / f"{name}.json").read_text()):
            params = case["params"]
            suppressed = params.get("suppress") == "until_window_closes"
            if case.get("known_wart") or (suppressed and params["window_type"] in ("session", "sliding")):
                continue  # its suppress releases sessions and sliding windows one instant early
            kind = json.dumps(
                [params.get(p) for p in ("window_type", "gap_ms", "window_size_ms", "advance_ms", "time_difference_ms", "grace_ms")]
            )
            found.setdefault(f"{kind} {'final' if suppressed or params['emit'] == 'on_window_close' else 'updates'}", []).append(case)
    return found


CASES = cases()


@pytest.mark.parametrize("params", sorted(CASES))
def test_every_scenario_that_ran_on_kafka_streams_holds_exactly(spark: SparkSession, params: str) -> None:
    some = CASES[params]
    window, gap, size, slide, difference, grace = json.loads(params.rpartition(" ")[0])
    emit = params.rpartition(" ")[2]
    rows = [{"c": c["id"], "k": r["key"], "ts": moment(r["ts"], 1), "off": r["offset"], "v": r["value"]} for c in some for r in c["input"]]
    view(spark, rows, "c STRING, k STRING, ts TIMESTAMP, off INT, v STRING")
    options = {
        "session": f"gap => {interval(gap or 0)}",
        "sliding": f"difference => {interval(difference or 0)}",
        "tumbling": f"size => {interval(size or 0)}",
        "hopping": f"size => {interval(size or 0)}, slide => {interval(slide or 0)}",
    }[window]
    function = "SESSION_UPDATES" if window == "session" else "WINDOW_UPDATES"
    start, end = ("session_start", "session_end") if window == "session" else ("window_start", "window_end")
    wanted = "v IS NOT NULL" if window == "sliding" else "true"  # Kafka's sliding windows leave out rows without a value, its others do not
    got = spark.sql(
        f"SELECT * FROM {function}(TABLE(SELECT * FROM t WHERE {wanted}) PARTITION BY (c, k) ORDER BY off, "
        f"time => 'ts', clock_by => ARRAY('c'), {options}, grace => {interval(grace)}, aggregates => 'count(*) AS n', emit => '{emit}') "
        "ORDER BY off, change_seq"
    ).collect()
    lowest = {"session": -1, "sliding": 1}.get(window, 0)  # in Kafka no window begins before 0, and sliding ones begin otherwise there
    for case in some:
        ours = [r for r in got if r.c == case["id"] and micros(r[start]) >= lowest]
        theirs = [e for i, e in enumerate(case["expected"]) if e["window_start"] >= lowest and e not in case["expected"][max(i - 1, 0) : i]]
        if emit == "updates":
            assert [(r.off, r.k, micros(r[start]), micros(r[end]), r.n, micros(r.change_time)) for r in ours] == [
                (e["after"], e["key"], e["window_start"], e["window_end"], e["value"], e["ts"]) for e in theirs
            ], case["id"]
        else:
            clock, after = 0, {}
            for r in case["input"]:
                clock = max(clock, r["ts"]) if r["key"] is not None else clock
                after[r["offset"]] = clock
            assert Counter(
                (r.k, micros(r[start]), micros(r[end]), r.n, micros(r.change_time), micros(r.emit_time)) for r in ours
            ) == Counter((e["key"], e["window_start"], e["window_end"], e["value"], e["ts"], after[e["after"]]) for e in theirs), case["id"]


def test_one_column_may_be_asked_for_several_times(spark: SparkSession) -> None:
    """Each way of asking has an argument of its own type, and what is the same travels once."""
    rows = "(1, false, 2, 1.5D), (2, NULL, 3, NULL), (3, true, NULL, 2.5D)"
    given = f"TABLE(SELECT 'a' AS k, timestamp_seconds(s) AS t, b, n, x FROM VALUES {rows} AS r(s, b, n, x)) PARTITION BY k ORDER BY t"
    aggregates = {
        "count(b)": 2, "min(b)": False, "max(b)": True, "first(b)": False, "count(n)": 2, "sum(n)": 5, "avg(n)": 2.5, "max(n)": 3,
        "count(x)": 2, "sum(x)": 4.0, "avg(x)": 2.0, "min(x)": 1.5, "min(k)": "a", "max(k)": "a", "count(k)": 3,
    }  # fmt: skip
    text = ", ".join(f"{a} AS a{i}" for i, a in enumerate(aggregates))
    for emit in ("updates", "final', at_end => 'emit"):
        found = spark.sql(
            f"SELECT * FROM SESSION_UPDATES({given}, gap => INTERVAL 1 MINUTE, aggregates => '{text}', emit => '{emit}')"
            " WHERE change_type = 'upsert' ORDER BY change_time DESC LIMIT 1"
        ).collect()[0]
        assert [found[f"a{i}"] for i in range(len(aggregates))] == list(aggregates.values())


def test_a_sum_that_does_not_fit_fails_and_says_what_to_cast(spark: SparkSession) -> None:
    spark.sql(
        "SELECT 'a' AS k, TIMESTAMP '2024-05-01' + make_dt_interval(0, 0, id) AS ts, 9000000000000000000 AS v FROM range(3)"
    ).createOrReplaceTempView("t")
    call = "SELECT * FROM WINDOW_UPDATES(TABLE(t) PARTITION BY k ORDER BY ts, size => INTERVAL 1 DAY, aggregates => '{} AS total')"
    with pytest.raises(PythonException, match=r"sum\(\.\.\) AS total: the sum does not fit BIGINT; cast the argument to DECIMAL\(38\)"):
        spark.sql(call.format("sum(v)")).collect()
    assert [int(r.total) for r in spark.sql(call.format("sum(CAST(v AS DECIMAL(38)))")).collect()][-1] == 27 * 10**18


@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        ("count(*)", "expected a name after `count(*)`, got none. Add AS and a name: count(*) AS count."),
        ("median(v) AS m", "`median` is not one of those that merge: count(..), sum(..), avg(..), min(..), max(..)"),
        ("count(DISTINCT v) AS n", "DISTINCT does not merge"),
        (
            "sum(v + 1) FILTER (WHERE v > 0) AS n",
            "FILTER has no place here (`sum(v + 1) FILTER (WHERE v > 0) AS n`). "
            "Write the condition into the argument: sum(if(condition, v + 1, NULL)) AS sum.",
        ),
        (
            "count(*) filter (WHERE v > 0)",
            "FILTER has no place here (`count(*) filter (WHERE v > 0)`). "
            "Write the condition into the argument: count(if(condition, 1, NULL)) AS count.",
        ),
        ("sum(v) OVER () AS n", "OVER has no place here (`sum(v) OVER () AS n`). Leave it out: each window has totals of its own."),
        ("sum(k) AS n", "expected a number in `sum(k) AS n`, where the argument is STRING. Cast it: sum(CAST(k AS DOUBLE))."),
        ("sum(vv) AS n", "no column `vv` in the input. Did you mean `v`?"),
        ("sum(v AS n", "a parenthesis is not closed"),
        ("sum(v) AS n, ", "expected an aggregate before or after a comma, got nothing"),
        ("sum(v) AS n, max(v) AS N", "two aggregates are named `n`"),
        ("sum(v) AS k", "two columns of the result would be named `k`"),
        ("sum(v) AS change_seq", "two columns of the result would be named `change_seq`"),
        ("sum(v, 2) AS n", "expected one argument"),
        ("sum(*) AS n", "`sum(*)` has no meaning"),
        ("v", "expected function(argument) AS name, got `v`"),
        ("min(map(1, v)) AS n", "expected a type that can be ordered"),
        ("sum(max(v)) AS n", "an aggregate cannot stand here"),
    ],
)
def test_aggregates_that_cannot_be_meant_are_refused_when_the_query_is_analysed(spark: SparkSession, aggregates: str, message: str) -> None:
    view(spark, [], "k STRING, ts TIMESTAMP, v INT")
    with pytest.raises(AnalysisException, match=re.escape(f"SESSION_UPDATES, `aggregates`: {message}")):
        spark.sql(
            f"SELECT * FROM SESSION_UPDATES(TABLE(t) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => '{aggregates}')"
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("PARTITION BY upper(k) ORDER BY ts", "PARTITION BY: a change has this column, so it needs a name (`upper(k)`)"),
        ("PARTITION BY k ORDER BY date_trunc('day', ts)", "ORDER BY: a change has this column, so it needs a name"),
        ("PARTITION BY k ORDER BY ts, at_end => 'emit'", "`at_end`: goes with emit => 'final'"),
        ("PARTITION BY k ORDER BY ts, slide => INTERVAL 1 DAY", "`slide`: expected an interval of at most `size`"),
        ("PARTITION BY k ORDER BY ts, difference => INTERVAL 1 DAY", "expected either `size` or `difference`, got both"),
    ],
)
def test_calls_that_cannot_be_meant_are_refused_when_the_query_is_analysed(spark: SparkSession, call: str, message: str) -> None:
    view(spark, [], "k STRING, ts TIMESTAMP, v INT")
    with pytest.raises(AnalysisException, match=re.escape("WINDOW_UPDATES") + ",? ?.*" + re.escape(message)):
        spark.sql(f"SELECT * FROM WINDOW_UPDATES(TABLE(t) {call}, size => INTERVAL 1 HOUR, aggregates => 'count(*) AS n')")


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE"])
def test_final_rows_begin_with_key_and_window_whose_bounds_have_the_type_of_the_event_time(spark: SparkSession, kind: str) -> None:
    spark.sql(f"SELECT 'a' AS k, CAST('2024-05-01' AS {kind}) AS d, 1.5D AS v").createOrReplaceTempView("t")
    for call in ("WINDOW_UPDATES(.., size => INTERVAL 1 HOUR)", "SESSION_UPDATES(.., gap => INTERVAL 1 HOUR)"):
        text = call.replace(
            "..", "TABLE(t) PARTITION BY k ORDER BY d, aggregates => 'sum(v) AS s, max(d) AS latest', emit => 'final', at_end => 'emit'"
        )
        df = spark.sql(f"SELECT * FROM {text}")
        row = df.first()
        assert row is not None
        expected_type = "timestamp" if kind == "TIMESTAMP" else "timestamp_ntz"
        types = dict(df.dtypes)
        bounds = ("session_start", "session_end") if "SESSION" in call else ("window_start", "window_end")
        change = ("change_type", "change_time", "change_seq", "emit_time", "emit_reason")
        assert df.columns == ["k", *bounds, "s", "latest", "window_close", "d", *change]
        assert {types[c] for c in (*bounds, "window_close", "change_time", "emit_time")} == {expected_type}
        assert row.change_time == datetime.datetime(2024, 5, 1)
        assert types["latest"] == kind.lower()


def test_the_python_api_and_sql_say_the_same(spark: SparkSession) -> None:
    spark.sql("SELECT 'a' AS k, TIMESTAMP '2024-05-01' + make_dt_interval(0, 0, id) AS ts, id FROM range(5)").createOrReplaceTempView("t")
    sql = spark.sql(
        "SELECT * FROM SESSION_UPDATES(TABLE(t) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 MINUTE, aggregates => 'max(id) AS m')"
    )
    api = streamtime.session_updates(
        spark.table("t"), keys=["k"], order_by=["ts"], gap=datetime.timedelta(minutes=1), aggregates="max(id) AS m"
    )
    assert sql.collect() == api.collect()
    assert sql.schema == api.schema


@pytest.mark.parametrize("kind", ["TIMESTAMP_NTZ", "DATE"])
def test_final_rows_leave_at_the_same_moments_whatever_the_type_of_time(spark: SparkSession, kind: str) -> None:
    days = ", ".join(f"({n}, 'k{n % 3}', TIMESTAMP '2024-01-{1 + n * 7 % 29:02d}')" for n in range(40))
    spark.sql(f"SELECT * FROM VALUES {days} AS t(id, k, ts)").createOrReplaceTempView("days")

    def final(time: str) -> list[tuple[str, ...]]:
        rows = spark.sql(
            f"SELECT k, window_start, emit_time, n FROM WINDOW_UPDATES(TABLE(SELECT id, k, CAST(ts AS {time}) AS ts FROM days) "
            "PARTITION BY k ORDER BY id, time => 'ts', size => INTERVAL 2 DAYS, grace => INTERVAL 4 DAYS, "
            "aggregates => 'count(*) AS n', emit => 'final')"
        ).collect()
        return sorted(tuple(map(str, row)) for row in rows)

    assert len(final("TIMESTAMP")) > 3
    assert final(kind) == final("TIMESTAMP")


@pytest.mark.parametrize(
    "order",
    [
        "double('NaN')",
        pytest.param("array(CAST(id AS DOUBLE), double('NaN'))", marks=pytest.mark.long("the same of arrays")),
        pytest.param("named_struct('at', ts, 'n', off)", marks=pytest.mark.long("the same of structs")),
    ],
)
def test_rows_may_be_ordered_by_structs_arrays_and_nan(source: Source, order: str) -> None:
    """Changes of rows that are equal in it are numbered on: in batch, in a stream, and in plain SQL."""
    rows = [("a", at(1), 1, 0), ("a", at(1), 1, 0), ("b", at(2), 2, 1), ("b", at(2), 2, 1)]
    source.spark.createDataFrame(rows, source.ddl).createOrReplaceTempView("files")
    source.add(rows)
    call = f"{{}}(TABLE(SELECT *, {order} AS o FROM {{}}) PARTITION BY k ORDER BY o, time => 'ts', aggregates => 'count(*) AS n', {{}})"
    calls = [("WINDOW_UPDATES", "size => INTERVAL 1 MINUTE"), ("SESSION_UPDATES", "gap => INTERVAL 1 MINUTE")]
    parts = [f"SELECT '{name[0]}' AS f, k, n, change_seq FROM {call.format(name, '{}', option)}" for name, option in calls]
    union = " UNION ALL ".join(parts)
    found = Counter(map(tuple, source.spark.sql(union.format("files", "files")).collect()))
    assert found == Counter((f, k, n, n - 1) for f in "WS" for k in "ab" for n in (1, 2))
    assert Counter(map(tuple, source.run(union.format("events", "events")))) == found
    assert Counter(map(tuple, source.spark.sql(streamtime.compile(source.spark, union.format("files", "files"))).collect())) == found
    finals = [f"SELECT k, n FROM {call.format(name, 'files', o)}" for name, o in calls]
    at_end = " UNION ALL ".join(f.removesuffix(")") + ", emit => 'final', at_end => 'emit')" for f in finals)
    assert Counter(map(tuple, source.spark.sql(at_end).collect())) == Counter({("a", 2): 2, ("b", 2): 2})


def test_the_example_of_a_stream_that_counts_fewer_rows_than_batch(source: Source) -> None:
    call = "WINDOW_UPDATES(TABLE({}) PARTITION BY k ORDER BY ts, size => INTERVAL 1 MINUTE, {})"
    counted = "aggregates => 'count(*) AS n'"
    final = f"{counted}, emit => 'final'"
    at_end, waiting, late = f"{final}, at_end => 'emit'", f"{final}, grace => INTERVAL 5 MINUTES", f"{counted}, output => 'dropped'"
    calls = {
        "stream": f"SELECT n FROM {call.format('events', final)}",
        "waits": f"SELECT n FROM {call.format('events', waiting)}",
        "late": f"SELECT id AS n FROM {call.format('events', late)}",
    }
    rows = [("a", at(10), 1, 0), ("a", at(240), 2, 0), ("a", at(50), 3, 0)]
    for some in (rows[:2], rows[2:]):
        source.add(some)
    source.spark.createDataFrame(rows, source.ddl).createOrReplaceTempView("files")
    assert source.spark.sql(f"SELECT sum(n) FROM {call.format('files', at_end)}").collect() == [(3,)]
    source.add([("z", at(3000), 9, 0)])  # closes the windows
    source.add([("z", at(3001), 9, 0)])
    text = " UNION ALL ".join(f"SELECT '{name}' AS f, CAST(n AS BIGINT) AS n FROM ({one})" for name, one in calls.items())
    found = source.run(text)
    laid_out = source.spark.sql(f"SELECT * FROM {call.format('events', final)}").columns
    assert laid_out == source.spark.sql(f"SELECT * FROM {call.format('files', at_end)}").columns
    assert laid_out[:6] == ["k", "window_start", "window_end", "n", "window_close", "ts"]
    assert {name: sum(r.n for r in found if r.f == name) for name in calls} == {
        "stream": 2,
        "waits": 3,
        "late": 3,
    }  # of `late`, the row's number
    assert sum(o.asDict().get("late_drop_total", 0) for p in source.progress for o in p.observedMetrics.values()) == 2


def test_a_row_without_a_time_or_key_is_no_row_of_a_window_that_others_join(spark: SparkSession) -> None:
    """It has the window of 1970 where it stands."""
    rows = "('a', NULL, 1), ('a', TIMESTAMP '1970-01-01 00:00:01', 2), (NULL, TIMESTAMP '1970-01-01 00:00:01', 3), (NULL, NULL, 4)"
    table = f"SELECT col1 AS k, col2 AS ts, col3 AS n FROM VALUES {rows}"
    call = f"WINDOW_UPDATES(TABLE({table}) PARTITION BY k ORDER BY ts, size => INTERVAL 10 SECONDS, aggregates => 'count(*) AS c', output => 'explain')"
    found = spark.sql(f"SELECT n, outcome FROM {call} ORDER BY n").collect()
    assert [tuple(r) for r in found] == [(1, "null_time"), (2, "opened"), (3, "null_key"), (4, "null_time")]
