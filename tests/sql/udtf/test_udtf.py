"""The UDTF door: the same calls as through the analyzer door give the same rows; what it cannot do, it says."""

from __future__ import annotations

import random
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import SparkSession
from support.doors import LOCAL
from support.inputs.deduplicate_calls import CASES, options_of, some_rows, sql_of
from support.inputs.suppress_calls import DDL
from support.inputs.suppress_calls import options_of as suppress_options
from support.inputs.suppress_calls import some_rows as changes
from support.inputs.suppress_calls import sql_of as suppress_sql
from support.times import moment, view

import streamtime
from streamtime.shelf import FUNCTIONS


def test_every_function_over_a_table_has_one() -> None:
    assert {s.name for s in FUNCTIONS if s.tables == 1} == LOCAL


def both(spark: SparkSession, text: str) -> None:
    """The same call through both doors."""
    direct = spark.sql(text)
    through = spark.sql(
        re.sub(
            r"(DEDUPLICATE|DISTINCT_IN_WINDOW|SESSIONIZE|SESSION_UPDATES|WINDOW_UPDATES|SUPPRESS_UNTIL_CLOSE|SUPPRESS_UNTIL_TIME_LIMIT|VERSIONS|FILTER_CHANGES|AGGREGATE_CHANGES)\(",
            r"py_\1(",
            text,
        )
    )
    named = [[(f.name, f.dataType.simpleString()) for f in df.schema] for df in (through, direct)]
    assert named[0] == named[1]  # a UDTF says more of what can be null in an array
    assert Counter(map(repr, through.collect())) == Counter(map(repr, direct.collect())), text


def as_options(text: str) -> str:
    """PARTITION BY and ORDER BY as the options that a Python UDTF can see."""
    found = re.search(r" PARTITION BY k ORDER BY \(([^)]*)\)", text)
    assert found
    order = ", ".join(f"'{o.strip()}'" for o in found[1].split(","))
    return text.replace(found[0], f", keys => ARRAY('k'), order_by => ARRAY({order})")


@pytest.mark.parametrize("seed", [*range(8), 17, 24, 27, 35])  # the last four keep the last of many rows
def test_deduplicate(spark: SparkSession, udtfs: None, seed: int) -> None:
    random_ = random.Random(seed)
    rows, options = some_rows(random_, random_.choice([1, 8, 60])), options_of(random_)
    view(spark, [r | {"t": moment(r["t"], 1)} for r in rows], "k STRING, t TIMESTAMP, off INT, p INT")
    both(spark, as_options(sql_of(options, random_.choice(["rows", "dropped", "all"]))))


AGGREGATES = (
    "count(*) AS n, count(off) AS m, sum(off) AS total, avg(off) AS mean, min(k) AS low, max(t) AS high, first(off) AS head, "
    "last(p) AS tail, collect_list(off) AS together, sum(CAST(off AS DECIMAL(5, 1))) AS exact"
)


@pytest.mark.parametrize("seed", range(7))
def test_updates(spark: SparkSession, udtfs: None, seed: int) -> None:
    random_ = random.Random(seed)
    view(spark, [r | {"t": moment(r["t"], 1)} for r in some_rows(random_, 40)], "k STRING, t TIMESTAMP, off INT, p INT")
    call = random_.choice(
        [
            "SESSION_UPDATES(.., gap => {3}{more})", "WINDOW_UPDATES(.., size => {10}{more})",
            "WINDOW_UPDATES(.., size => {10}, slide => {4}{more})", "WINDOW_UPDATES(.., difference => {3}{more})",
        ]
    )  # fmt: skip
    for micros_ in (10, 4, 3):
        call = call.replace(f"{{{micros_}}}", f"INTERVAL '{micros_ / 1e6:.6f}' SECOND")
    more = random_.choice(["", ", grace => INTERVAL '0.000005' SECOND"])
    more += random_.choice(["", ", emit => 'final'", ", emit => 'final', at_end => 'emit'", ", output => 'dropped'", ", output => 'all'"])
    more += random_.choice(["", ", clock_by => ARRAY('p')"])
    aggregates = AGGREGATES.replace(", sum(CAST(off AS DECIMAL(5, 1))) AS exact", "")
    order = random_.choice(["t", "off"])
    table = f"TABLE(t), keys => ARRAY('k'), order_by => ARRAY('{order}'), time => 't', aggregates => '{aggregates}'"
    both(spark, f"SELECT * FROM {call.replace('..', table).replace('{more}', more)}")


def test_an_aggregate_over_an_expression_needs_a_column_in_a_udtf(spark: SparkSession, udtfs: None) -> None:
    view(spark, [], "k STRING, t TIMESTAMP, off INT, p INT")
    message = "WINDOW_UPDATES, `aggregates`: expected a column in a Python UDTF, got `CAST(off AS DECIMAL(5, 1))`. Name it in the TABLE"
    table = f"TABLE(t), keys => ARRAY('k'), order_by => ARRAY('t'), aggregates => '{AGGREGATES}'"
    with pytest.raises(AnalysisException, match=re.escape(message)):
        spark.sql(f"SELECT * FROM py_WINDOW_UPDATES({table}, size => INTERVAL 1 DAY)")


@pytest.mark.parametrize("seed", range(6))
def test_filter_changes(spark: SparkSession, udtfs: None, seed: int) -> None:
    """With columns that a change makes anew, ties, a deletion, and a row that is no change."""
    random_ = random.Random(seed)
    kinds = ["insert", "insert", "delete", "update_preimage", None]
    rows = [
        r | {"t": moment(r["t"], 1), "change_seq": random_.randint(0, 2), "_change_type": random_.choice(kinds)}
        for r in some_rows(random_, 60)
    ]
    view(spark, rows, "k STRING, t TIMESTAMP, off INT, p INT, change_seq INT, _change_type STRING")
    order = random_.choice(["'t'", "'off'", "'off', 'change_seq'", "'change_seq', 'off DESC'"])
    more = random_.choice(["", ", versioned => true", ", versioned => true, retention => INTERVAL '0.000004' SECOND"])
    more += random_.choice(["", ", clock_by => ARRAY('p')", ", deleted => 'p = 1'"]) if seed else ""
    table = f"TABLE(t), keys => ARRAY('k'), order_by => ARRAY({order}), time => 't', condition => 'off % 2 = 0'"
    for output in ("rows", "all") if seed else ("dropped",):
        both(spark, f"SELECT * FROM FILTER_CHANGES({table}{more}, output => '{output}')")


TAKEN_BACK = (
    "count(*) AS n, count(p) AS m, sum(off) AS total, avg(off) AS mean, sum(d) AS dear, avg(d) AS cheap, sum(x) AS y, avg(x) AS z, min(x) AS low, "
    "max(t) AS high, min(s) AS first, max(off) AS top, avg(e) AS fine, sum(e) AS wide"
)
GROUPS = ("'g'", "'x'", "'s'", "'p', 's'", "'off', 'd'", "'t'")


@pytest.mark.parametrize("seed", range(8))
def test_aggregate_changes(spark: SparkSession, udtfs: None, seed: int) -> None:
    """Groups by any type, rows that move, in groups that have NULL, NaN or -0.0; nulls and odd numbers to add up, averages that
    Spark rounds twice."""
    random_ = random.Random(seed)
    kinds = ["insert", "insert", "insert", "delete", "update_preimage", None]
    odd = ["1.5", "NaN", "-0.0", "0.0", "Infinity", "1e300", "-2.5", None]
    rows = []
    for r in some_rows(random_, random_.choice([1, 90]) if seed else 0):
        x = random_.choice(odd)
        rows.append(
            r
            | {"t": moment(r["t"], 1), "change_seq": random_.randint(0, 2), "_change_type": random_.choice(kinds)}
            | {"g": random_.choice(["a", "b", "", None]), "c": random_.choice(["A", "a", "b"]), "x": None if x is None else float(x)}
            | {
                "d": random_.choice([None, Decimal("0.01"), Decimal("-99999.99"), Decimal("3.33")]),
                "s": random_.choice(["", "é", None, "z"]),
            }
            | {"e": random_.choice([None, Decimal("1"), Decimal("-12345678901234567890.123456"), Decimal("0.000001")])}
        )
    types = (
        "change_seq INT, _change_type STRING, g STRING, c STRING COLLATE UTF8_LCASE, x DOUBLE, d DECIMAL(7,2), s STRING, e DECIMAL(30,6)"
    )
    view(spark, rows, f"k STRING, t TIMESTAMP, off INT, p INT, {types}")
    order = random_.choice(["'t'", "'off'", "'off', 'change_seq'", "'change_seq', 'off DESC'"])
    by = GROUPS[seed % len(GROUPS)]
    more = random_.choice(["", ", versioned => true", ", versioned => true, retention => INTERVAL '0.000004' SECOND"])
    more += random_.choice(["", ", clock_by => ARRAY('p')", ", deleted => 'p = 1'"])
    table = f"TABLE(t), keys => ARRAY('k'), order_by => ARRAY({order}), time => 't', group_by => ARRAY({by})"
    for output in ("rows", "all" if seed % 2 else "dropped"):
        both(spark, f"SELECT * FROM AGGREGATE_CHANGES({table}, aggregates => '{TAKEN_BACK}'{more}, output => '{output}')")


@pytest.mark.long("tests/sql/rows/test_keys.py")
def test_keys_that_are_expressions_or_have_a_collation(spark: SparkSession, udtfs: None) -> None:
    """Keys that differ by a microsecond, or by the sign of a zero; those with a collation, which nothing here compares, are refused."""
    rows = [
        {"k": k, "t": moment(t, 1), "x": x, "off": i}
        for i, (k, t, x) in enumerate([("a", 1, -0.0), ("A", 2, 0.0), ("a", 2, 0.5), ("b", 1, 0.0)])
    ]
    view(spark, rows, "k STRING, t TIMESTAMP, x DOUBLE, off INT")
    for key in (
        "t + INTERVAL 0 SECONDS",
        "x * 1",
        "CAST(x AS FLOAT)",
        "struct(x, k)",
        "upper(k)",
        'array(struct(x, 1D, "-0.0\\\\\\", -0.0"))',
    ):
        both(spark, f"SELECT * FROM DEDUPLICATE(TABLE(t), keys => ARRAY('{key}'), order_by => ARRAY('off'), time => 't')")
    collated = "SELECT collate(k, 'UTF8_LCASE') AS k, named_struct('k', collate(k, 'UNICODE_CI')) AS s, t FROM t"
    problem = "a Python UDTF cannot compare values with a collation ({0}). Use collate({0}, 'UTF8_BINARY'), or lower({0}), in the TABLE"
    for given, role, name in (
        ("keys => ARRAY('k')", "PARTITION BY", "k"),
        ("keys => ARRAY('s')", "PARTITION BY", "s"),
        ("keys => ARRAY('t'), clock_by => ARRAY('k')", "`clock_by`", "k"),
    ):
        message = f"{role}: {problem.format(name)}".replace(f"({name}).", f"(`{name}`).")
        with pytest.raises(AnalysisException, match=re.escape(message)):
            spark.sql(f"SELECT * FROM py_SESSIONIZE(TABLE({collated}), order_by => ARRAY('t'), gap => INTERVAL 1 DAY, {given})")
    text = f"SELECT * FROM py_DEDUPLICATE(TABLE({collated}), keys => ARRAY('concat(k, k)'), order_by => ARRAY('t'))"
    with pytest.raises(PySparkException, match=re.escape("cannot compare values with a collation (`concat(k, k)`)")):
        spark.sql(text).collect()


def test_a_sum_that_does_not_fit_is_an_error_of_a_udtf_too(spark: SparkSession, udtfs: None) -> None:
    view(spark, [{"k": k, "n": (1 << 63) - 1} for k in "ab"], "k STRING, n BIGINT")
    call = "AGGREGATE_CHANGES(TABLE(SELECT *, TIMESTAMP '2024-01-01' AS t FROM t), keys => ARRAY('k'), order_by => ARRAY('t'), "
    call += "group_by => ARRAY('t'), aggregates => '{}(n) AS v')"
    both(spark, f"SELECT * FROM {call.format('avg')}")
    with pytest.raises(PythonException, match=re.escape("`sum(n) AS v` does not fit BIGINT; cast the argument to DECIMAL(38)")):
        spark.sql(f"SELECT * FROM py_{call.format('sum')}").collect()


@pytest.mark.long("tests/sql/changes/test_aggregate_changes.py")
def test_what_aggregate_changes_cannot_take_back_or_name_is_refused_as_elsewhere(spark: SparkSession, udtfs: None) -> None:
    view(spark, [], "k STRING, t TIMESTAMP, off INT, p INT, a ARRAY<INT>")
    sums = ", aggregates => 'sum(p) AS s'"
    for given, message in {
        f"keys => ARRAY('k'), group_by => ARRAY('upper(k)'){sums}": "`group_by`: a change has this column, so it needs a name (`upper(k)`)",
        f"keys => ARRAY('k'), group_by => ARRAY('p', 'k'), clock_by => ARRAY('p + 1'){sums}": "`clock_by`: a change has this column, so it needs",
        f"group_by => ARRAY('p'){sums}": "PARTITION BY: is missing: the key by which a change replaces a row",
        "keys => ARRAY('k'), group_by => ARRAY('p'), aggregates => 'first(p) AS f'": "`first(p) AS f` cannot be taken back: count(..), sum(..)",
        "keys => ARRAY('k'), group_by => ARRAY('p'), aggregates => 'max(a) AS m'": "`max(a) AS m` of ARRAY<INT> is not possible",
        "keys => ARRAY('k'), group_by => ARRAY('p'), aggregates => 'sum(k) AS m'": "expected a number in `sum(k) AS m`",
        "keys => ARRAY('k'), group_by => ARRAY('p'), aggregates => 'sum(p) AS p'": "the result would have two columns `p`",
    }.items():
        for name in ("AGGREGATE_CHANGES", "py_AGGREGATE_CHANGES"):
            with pytest.raises(AnalysisException, match=re.escape(message)):
                spark.sql(f"SELECT * FROM {name}(TABLE(t), order_by => ARRAY('t'), {given})")


@pytest.mark.long("tests/sql/changes/test_filter_changes.py")
def test_what_filter_changes_needs_a_name_for_is_refused_as_elsewhere(spark: SparkSession, udtfs: None) -> None:
    view(spark, [], "k STRING, t TIMESTAMP, off INT, p INT")
    for given, message in {
        "keys => ARRAY('upper(k)'), condition => 'p = 1'": "PARTITION BY: a change has this column, so it needs a name (`upper(k)`)",
        "keys => ARRAY('k'), condition => 'p'": "`condition`: expected a condition, got INT (`p`)",
        "condition => 'p = 1'": "PARTITION BY: is missing: the key by which a change replaces a row",
    }.items():
        for name in ("FILTER_CHANGES", "py_FILTER_CHANGES"):
            with pytest.raises(AnalysisException, match=re.escape(message)):
                spark.sql(f"SELECT * FROM {name}(TABLE(t), order_by => ARRAY('t'), {given})")


@pytest.mark.parametrize("seed", range(8))
def test_distinct_in_window(spark: SparkSession, udtfs: None, seed: int) -> None:
    random_ = random.Random(seed)
    rows = some_rows(random_, 40)
    view(spark, [r | {"t": moment(r["t"], 1)} for r in rows], "k STRING, t TIMESTAMP, off INT, p INT")
    window = random_.choice(["size => {}10{}", "size => {}10{}, slide => {}4{}", "gap => {}3{}", "gap => {}3{}, grace => {}5{}"])
    for number in (10, 5, 4, 3):
        window = window.replace(f"{{}}{number}{{}}", f"INTERVAL '{number / 1e6:.6f}' SECOND")
    order = random_.choice(["t", "off"])
    output = random_.choice(["rows", "dropped", "all"])
    both(
        spark,
        f"SELECT * FROM DISTINCT_IN_WINDOW(TABLE(t), keys => ARRAY('k'), order_by => ARRAY('{order}'), time => 't', {window}, output => '{output}')",
    )


@pytest.mark.parametrize("seed", range(8))
def test_sessionize(spark: SparkSession, udtfs: None, seed: int) -> None:
    random_ = random.Random(seed)
    rows = [r | {"k2": random_.choice([r["k"], "|", "\\|"])} for r in some_rows(random_, 40)]
    view(spark, [r | {"t": moment(r["t"], 1)} for r in rows], "k STRING, t TIMESTAMP, off INT, p INT, k2 STRING")
    options = random_.choice(["", ", grace => INTERVAL '0.000005' SECOND"])
    order, output = random_.choice(["t", "off"]), random_.choice(["rows", "dropped", "all"])
    table = f"TABLE(t), keys => ARRAY('k', 'k2'), order_by => ARRAY('{order}'), time => 't'"
    both(spark, f"SELECT * FROM SESSIONIZE({table}, gap => INTERVAL '0.000003' SECOND{options}, output => '{output}')")


@pytest.mark.parametrize("seed", range(8))
def test_suppress(spark: SparkSession, udtfs: None, seed: int) -> None:
    random_ = random.Random(seed)
    rows, options = changes(random_, random_.choice([0, 1, 40])), suppress_options(random_)
    if options.get("when_full") == "fail":
        options["when_full"] = "spill"
    if options.get("max_bytes") is not None:
        options["max_bytes"] *= 10
    view(spark, [r | {"t": moment(r["t"], 1), "close": moment(r["close"], 1)} for r in rows], DDL)
    text = suppress_sql(options, random_.choice(["rows", "dropped", "all"]))
    both(spark, text.replace(" PARTITION BY k ORDER BY id", ", keys => ARRAY('k'), order_by => ARRAY('id')"))


@pytest.mark.parametrize("seed", range(6))
def test_versions(spark: SparkSession, udtfs: None, seed: int) -> None:
    random_ = random.Random(seed)
    rows = [r | {"t": moment(r["t"], 1), "gone": random_.random() < 0.2} for r in some_rows(random_, random_.choice([0, 1, 40]))]
    view(spark, rows, "k STRING, t TIMESTAMP, off INT, p INT, gone BOOLEAN")
    options = random_.choice(["", ", grace => INTERVAL '0.000005' SECOND"])
    options += random_.choice(["", ", retention => INTERVAL '0.000007' SECOND"]) + random_.choice(["", ", clock_by => ARRAY('p')"])
    order, output = random_.choice(["t", "off", "off"]), random_.choice(["rows", "dropped", "all", "puts"])
    table = f"TABLE(t), keys => ARRAY('k'), order_by => ARRAY('{order}'), time => 't', deleted => 'gone'"
    both(spark, f"SELECT * FROM VERSIONS({table}{options}, output => '{output}')")


@pytest.mark.long("tests/sql/functions/test_suppress.py")
def test_a_full_buffer_and_wrong_calls_of_suppress(spark: SparkSession, udtfs: None) -> None:
    view(spark, [{"k": "a", "t": moment(1, 1)}, {"k": "b", "t": moment(2, 1)}], "k STRING, t TIMESTAMP")
    call = "SELECT * FROM py_SUPPRESS_UNTIL_{}(TABLE(t), keys => ARRAY('k'), order_by => ARRAY('t'), {})"
    with pytest.raises(
        PythonException,
        match=r"`max_records`: the buffer is full: expected at most 1 rows, got 2 at stream time 1970-01-01 00:00:00\.000002",
    ):
        spark.sql(call.format("TIME_LIMIT", "max_records => 1, when_full => 'fail'")).collect()
    for function, options, message in (
        ("TIME_LIMIT", "wait => INTERVAL 1 DAY, output => 'explain'", "'explain' is not possible in a Python UDTF"),
        ("TIME_LIMIT", "wait => INTERVAL 1 DAY, clock => 'wall'", "`clock`: 'wall' is possible on a stream only"),
        ("TIME_LIMIT", "max_records => 1", "`max_records`: needs `when_full`"),
        ("CLOSE", "at_end => 'emit'", "`window_end`: is missing, and the input has no column `window_close`"),
        ("CLOSE", "grace => INTERVAL 1 DAY", "`grace`: needs `window_end`, to which it is added"),
    ):
        with pytest.raises(AnalysisException, match=re.escape(message)):
            spark.sql(call.format(function, options))


@pytest.mark.parametrize("descending", [False, True])
def test_ties_are_broken_by_columns_of_any_type_that_can_be_ordered(spark: SparkSession, udtfs: None, descending: bool) -> None:
    """By arrays, structs, and strings whose collation calls them equal, however the rows are stored."""
    rows = ["('k1', array(2), struct('x'), 'a')", "('k1', array(1), struct('x'), 'a')", "('k2', array(1), struct('y'), 'a')"]
    rows += ["('k2', array(1), struct('x'), 'a')", "('k3', NULL, struct('x'), 'b')", "('k3', NULL, struct('x'), 'B')"]
    values = ", ".join(reversed(rows) if descending else rows)
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW t AS SELECT k, TIMESTAMP '2024-01-01' AS t, a, s, collate(c, 'UTF8_LCASE') AS c, map(k, c) AS m "
        f"FROM VALUES {values} AS v(k, a, s, c)"
    )
    both(spark, "SELECT k, a, s, collate(c, 'UTF8_BINARY') AS c FROM DEDUPLICATE(TABLE(t), keys => ARRAY('k'), order_by => ARRAY('t'))")


def test_every_case(spark: SparkSession, udtfs: None) -> None:
    identity = {"id = key": "key", "id = null": "CAST(NULL AS STRING)", "id = value": "value", "id = key|value": "concat(key, '|', value)"}
    for case in CASES:
        view(
            spark,
            [r | {"n": i + 1, "ts": moment(r["ts"])} for i, r in enumerate(case["input"])],
            "key STRING, value STRING, ts TIMESTAMP, n INT",
        )
        keys = ["key"] if case["params"]["mode"] == "by_key" else ["key", identity[case["params"]["id_selector"]]]
        array = ", ".join(f'"{k}"' for k in keys)
        within = f"INTERVAL {case['params']['interval_ms'] / 1000} SECONDS"
        got = spark.sql(
            f"SELECT n FROM py_DEDUPLICATE(TABLE(t), keys => ARRAY({array}), order_by => ARRAY('n'), time => 'ts', within => {within})"
        )
        assert sorted(r.n for r in got.collect()) == [e["after"] for e in case["expected"]], case["id"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("TABLE(t) PARTITION BY k ORDER BY t", "`order_by`: is missing. As a Python UDTF, keys and order are options"),
        ("TABLE(t), order_by => ARRAY('t'), withn => 1", "`withn`: no such option. Did you mean `within`"),
        ("TABLE(t), order_by => ARRAY('tt')", "no column `tt` in the input. Did you mean `t`"),
        ("TABLE(t), order_by => ARRAY('p')", "`time`: expected TIMESTAMP, TIMESTAMP_NTZ or DATE as event time, got INT"),
        ("TABLE(t), order_by => ARRAY('t'), output => 'metrics'", "'metrics' is not possible in a Python UDTF"),
        ("TABLE(t), keys => ARRAY('k'), order_by => ARRAY('t'), within => INTERVAL '-1' SECOND", "expected an interval of zero or more"),
    ],
)
def test_wrong_calls_are_refused_when_they_are_analysed(spark: SparkSession, udtfs: None, arguments: str, message: str) -> None:
    view(spark, [], "k STRING, t TIMESTAMP, off INT, p INT")
    with pytest.raises(AnalysisException, match=re.escape(message)):
        spark.sql(f"SELECT * FROM py_DEDUPLICATE({arguments})")


@pytest.mark.long("tests/sql/call/test_names.py")
def test_a_column_that_the_call_adds_is_refused_as_elsewhere(spark: SparkSession, udtfs: None) -> None:
    view(spark, [], "k STRING, t TIMESTAMP, Reason STRING, session_id INT, valid_to INT")
    for call, taken in (
        ("DEDUPLICATE(.., output => 'all')", "Reason"),
        ("DISTINCT_IN_WINDOW(.., size => INTERVAL 1 DAY, output => 'dropped')", "Reason"),
        ("SESSIONIZE(.., gap => INTERVAL 1 DAY)", "session_id"),
        ("VERSIONS(..)", "valid_to"),
        ("VERSIONS(.., output => 'puts')", "valid_to"),
    ):
        message = (
            f"{call.partition('(')[0]}: the input already has a column `{taken}`, which this call adds. Rename it in the TABLE argument."
        )
        text = call.replace("..", "TABLE(t), keys => ARRAY('k'), order_by => ARRAY('t')")
        for door in ("", "py_"):
            with pytest.raises(AnalysisException, match=re.escape(message)):
                spark.sql(f"SELECT * FROM {door}{text}")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("DEDUPLICATE(.., refresh => true)", "DEDUPLICATE, `refresh`: needs `within`"),
        ("DEDUPLICATE(.., offset => 'off', keep => 'last')", "DEDUPLICATE, `offset`: does not go with keep => 'last'"),
        (
            "SESSIONIZE(..)",
            "SESSIONIZE, `gap`: is required: the largest distance between neighbours in a session, included. Add gap => INTERVAL",
        ),
        ("DISTINCT_IN_WINDOW(..)", "DISTINCT_IN_WINDOW: expected either `size` (time windows) or `gap` (session windows), got neither"),
        ("DISTINCT_IN_WINDOW(.., gap => INTERVAL 1 DAY, slide => INTERVAL 1 DAY)", "DISTINCT_IN_WINDOW, `slide`: goes with `size`"),
        (
            "DISTINCT_IN_WINDOW(.., size => INTERVAL 1 DAY, slide => INTERVAL 2 DAYS)",
            "DISTINCT_IN_WINDOW, `slide`: expected an interval of at most",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused_through_both_doors(spark: SparkSession, udtfs: None, call: str, message: str) -> None:
    view(spark, [], "k STRING, t TIMESTAMP, off INT, p INT")
    text = call.replace("..", "TABLE(t), keys => ARRAY('k'), order_by => ARRAY('t')")
    for door in ("", "py_"):
        with pytest.raises(AnalysisException, match=re.escape(message)):
            spark.sql(f"SELECT * FROM {door}{text}")


def test_times_and_keys_of_other_types(spark: SparkSession, udtfs: None) -> None:
    rows: list[tuple[Any, ...]] = [
        (1, [1, None], 0.0),
        (2, [1], -0.0),
        (2, [1, None], 0.0),
        (3, [None, 1], float("nan")),
        (4, [1], float("nan")),
    ]
    spark.createDataFrame(rows, "d INT, a ARRAY<INT>, f DOUBLE").selectExpr(
        "a",
        "f",
        "1 AS one",
        "date_add(DATE '2024-01-01', d) AS day",
        "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' + make_dt_interval(d) AS ntz",
    ).createOrReplaceTempView("t")
    both(spark, "SELECT * FROM DEDUPLICATE(TABLE(t), keys => ARRAY('array(f)'), order_by => ARRAY('day'), output => 'all')")
    for keys in ("'a'", "'f'", "'a', 'f'"):
        for time in ("day", "ntz"):
            both(
                spark,
                f"SELECT * FROM DEDUPLICATE(TABLE(t), keys => ARRAY({keys}), order_by => ARRAY('{time}'), within => INTERVAL 1 DAY, output => 'all')",
            )
            both(
                spark,
                f"SELECT * FROM SESSIONIZE(TABLE(t), keys => ARRAY({keys}), order_by => ARRAY('{time}'), gap => INTERVAL 1 DAY, output => 'all')",
            )
    clauses = (
        "TABLE(t), keys => ARRAY('one'), order_by => ARRAY('f'), time => 'day', size => INTERVAL 30 DAYS, aggregates => 'count(*) AS n'"
    )
    both(spark, f"SELECT n, change_seq FROM WINDOW_UPDATES({clauses})")  # 0.0 and -0.0 are numbered together, and so is NaN


def test_register_says_that_this_door_is_open_and_what_it_is_not(spark: SparkSession) -> None:
    other = spark.newSession()
    registration = streamtime.register(other, door="udtf")
    assert registration.doors == ("udtf", "query", "python")
    assert "docs/udtf.md" in str(registration)
    with pytest.raises(ValueError, match="expected door='udtf', or none"):
        streamtime.register(other, door="back")
    for name in LOCAL:
        other.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")
