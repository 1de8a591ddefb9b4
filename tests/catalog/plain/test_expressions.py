"""Expressions of a call in its plain SQL mean there what they mean in the call, whatever Spark would print; or they are refused in words."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import streamtime
from streamtime.plain import databricks, expressions

ROWS = r"""SELECT * FROM VALUES
    (1, 'deleted', TIMESTAMP '2024-01-01 10:00:00', TIMESTAMP '2024-01-01 09:30:00', array(1, 2), '{"at":"2024-01-01 00:00:00","n":3}', 5),
    (1, 'del%', TIMESTAMP '2024-01-01 12:00:00', TIMESTAMP '2024-01-01 10:30:00', array(1, 5), '{"at":"2024-12-30 00:00:00","n":4}', 1),
    (2, 'a\\b', TIMESTAMP '2024-12-30 12:00:00', TIMESTAMP '2024-01-02 09:30:00', array(3), '2024-03-01 04:05:06', 2),
    (3, NULL, TIMESTAMP '2024-12-31 12:00:00', NULL, NULL, NULL, NULL)
    AS t(k, status, ts, started, xs, body, x_1)"""
CONDITIONS = [
    # operators that print themselves without parentheses
    "ts - (started + INTERVAL 1 HOUR) > INTERVAL 0 HOUR",
    "ts - (started - INTERVAL 1 HOUR) > INTERVAL 2 HOUR",
    "ts - (started + INTERVAL 1 MONTH) > INTERVAL 0 HOUR",
    "date_diff(DATE(ts), DATE(started) + INTERVAL 2 DAY) > 0",
    "(status LIKE 'del%') IS TRUE",
    "(status ILIKE 'DEL%') IS NOT TRUE",
    "NOT (status LIKE 'del!%' ESCAPE '!')",
    "(status LIKE 'a%') = (k = 2)",
    # a variable by the name of a column
    "exists(xs, x -> x > x_1)",
    "aggregate(transform(xs, x -> x + x_1), 0, (x, y) -> x + y) > 8",
    # options, schemas, patterns, types
    "to_csv(struct(k, status), map('sep', ';')) = '1;deleted'",
    "to_json(struct(ts), map('timestampFormat', 'yyyy')) = '{\"ts\":\"2024\"}'",
    "to_xml(struct(k), map('rowTag', 'row')) LIKE '<row>%'",
    "from_json(body, 'at TIMESTAMP, n INT').n = 3",
    "from_json(body, 'MAP<STRING, STRING>')['n'] = '3'",
    "from_json(body, 'at TIMESTAMP, `o dd` INT', map('timestampFormat', 'yyyy-MM-dd HH:mm:ss')).at > started",
    "from_csv('1;x', 'a INT, b STRING', map('sep', ';')).a = k",
    "variant_get(try_parse_json(body), '$.n', 'int') = 3",
    "try_variant_get(try_parse_json(body), '$.at', 'date') IS NULL",
    """schema_of_json('{"a": 01}', map('allowNumericLeadingZeros', 'true')) = 'STRUCT<a: BIGINT>'""",
    "schema_of_csv('1;a', map('sep', ';')) LIKE '%_c1%'",
    "schema_of_xml('<row><a>1</a></row>', map('rowTag', 'row')) = 'STRUCT<a: BIGINT>'",
    "status ILIKE 'DEL!%' ESCAPE '!'",
    "status LIKE ANY ('a%', 'de%')",
    "status LIKE ALL ('%d%', 'de%')",
    "status NOT LIKE ANY ('a%', 'de%')",
    "status NOT LIKE ALL ('x%', 'dele%')",
    r"status LIKE ANY ('a\\\\\\\\%')",
    # NULL where others fail
    "try_element_at(xs, 2) = 2",
    "try_to_timestamp(body) IS NULL",
    "try_to_timestamp(body, 'yyyy-MM-dd HH:mm:ss') > started",
    "try_make_timestamp(2024, k, 31, 0, 0, 0) IS NULL",
    "try_cast(body AS TIMESTAMP) IS NULL",
    "try_divide(k, x_1 - 5) IS NULL",
    # parts of times, and times of text
    "extract(YEAROFWEEK FROM ts) = 2025",
    "extract(DAYOFWEEK_ISO FROM ts) = 1",
    "extract(SECOND FROM started) = 0 AND extract(MINUTE FROM ts - started) = 30",
    "date_part('QUARTER', ts) = 4",
    "to_timestamp('2024-06', 'yyyy-MM') < ts",
    "to_date('2024-06', 'yyyy-MM') < ts",
    "unix_timestamp(ts) - unix_timestamp(started) > 5000",
    "make_timestamp(2024, 6, k, 0, 0, 0) < ts",
    "date_trunc('MONTH', ts) = date_trunc('MONTH', started)",
    "timestampdiff(HOUR, started, ts) > 1",
    "timestampadd(HOUR, 1, started) > ts",
    "date_format(from_utc_timestamp(ts, 'Asia/Tokyo'), 'HH') = '21'",
    # and what else stands in conditions
    "status RLIKE '^del'",
    r"regexp_extract(status, '(.)\\\\\\\\(.)', 2) = 'b'",
    "split(status, 'l')[0] = 'de'",
    "nullif(k, 1) IS NULL",
    "k BETWEEN x_1 - 1 AND x_1 + 1",
    "CASE WHEN k = 1 THEN status WHEN k = 2 THEN body END IS NOT NULL",
    "filter(xs, x -> x > 1)[0] = element_at(map(1, 2), 1)",
    "ceil(k / 2) = 1 AND round(2.5BD * k, 0) > 2",
    "ltrim('0', concat('00', k)) = '1' AND overlay(status PLACING 'x' FROM 1) LIKE 'x%'",
    "named_struct('a', k).a IN (1, 3) AND struct(k, status) <> struct(1, 'del%')",
]
TOGETHER = 5  # conditions that are asked in one query
CALL = "FILTER_CHANGES(TABLE(told) PARTITION BY k ORDER BY ts, condition => '{}')"


@pytest.fixture(scope="module", autouse=True)
def told(spark: SparkSession) -> None:
    spark.sql(ROWS).createOrReplaceTempView("told")


def _call(condition: str) -> str:
    return CALL.format(condition.replace("'", r"\'"))


@pytest.mark.parametrize("start", range(0, len(CONDITIONS), TOGETHER))
def test_an_expression_means_the_same_in_plain_sql(spark: SparkSession, start: int) -> None:
    some = range(start, min(start + TOGETHER, len(CONDITIONS)))
    text = " UNION ALL ".join(f"SELECT {i} AS nr, * FROM {_call(CONDITIONS[i])}" for i in some)
    called, plain = (sorted(map(str, spark.sql(one).collect())) for one in (text, streamtime.compile(spark, text)))
    assert plain == called
    kept = {i for i in some if any(f"nr={i}," in row for row in called)}
    assert kept == set(some), [CONDITIONS[i] for i in some if i not in kept]  # a condition that keeps nothing compares nothing


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("EXISTS (SELECT 1 FROM told)", "it needs a subquery in an option"),
        ("k IN (SELECT k FROM told)", "it needs a subquery in an option"),
    ],
)
def test_what_sql_has_no_words_for_is_refused(spark: SparkSession, condition: str, reason: str) -> None:
    with pytest.raises(AnalysisException, match=reason):
        streamtime.compile(spark, f"SELECT * FROM {_call(condition)}")


def test_a_function_of_the_session_is_what_it_says(spark: SparkSession) -> None:
    """Its parameter has the name of a column, which is not its argument."""
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION other(k INT) RETURNS INT RETURN k * 2 + length('k')")
    text = f"SELECT * FROM {_call('other(x_1) > 4')}"
    made = streamtime.compile(spark, text)
    called = sorted(map(str, spark.sql(text).collect()))
    spark.sql("DROP TEMPORARY FUNCTION other")
    assert sorted(map(str, spark.sql(made).collect())) == called
    assert called


def test_a_function_of_the_session_may_name_its_parameter_as_a_variable_is_called(spark: SparkSession) -> None:
    """The parameter becomes a column, which nothing in the statement mentions."""
    spark.sql("SELECT k, ts, xs, x_1 - 1 AS least FROM told").createOrReplaceTempView("fewer")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION beyond(a ARRAY<INT>, x_1 INT) RETURNS BOOLEAN RETURN exists(a, x -> x > x_1)")
    text = "SELECT * FROM FILTER_CHANGES(TABLE(fewer) PARTITION BY k ORDER BY ts, condition => 'beyond(xs, least)')"
    made = streamtime.compile(spark, text)
    called = sorted(map(str, spark.sql(text).collect()))
    spark.sql("DROP TEMPORARY FUNCTION beyond")
    assert sorted(map(str, spark.sql(made).collect())) == called
    assert called


def test_a_variable_within_an_expression_is_refused(spark: SparkSession) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 1")
    with pytest.raises(AnalysisException, match="it needs a session variable in an expression; write its value there"):
        streamtime.compile(spark, f"SELECT * FROM {_call('x_1 > least')}")
    spark.sql("DROP TEMPORARY VARIABLE least")


def test_a_function_with_options_that_nobody_prints_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(expressions.EXPRESSIONS, "StructsToJson")  # as a function of a later Spark
    call = _call("to_json(struct(k), map('pretty', 'true')) = body")
    with pytest.raises(AnalysisException, match=r"to_json\(\), which does not say all that it does"):
        streamtime.compile(spark, f"SELECT * FROM {call}")


@pytest.mark.parametrize("key", ["window(ts, '1 day')", "(k, window(ts, '2 hours', '2 hours', '1 hour').start)"])
def test_a_key_may_be_a_window_of_sparks_own(spark: SparkSession, key: str) -> None:
    text = f"SELECT * FROM DEDUPLICATE(TABLE(told) PARTITION BY {key} ORDER BY (ts, k), within => INTERVAL 1 DAY)"
    called, plain = (sorted(map(str, spark.sql(one).collect())) for one in (text, streamtime.compile(spark, text)))
    assert plain == called
    assert len(called) == 3 + key.startswith("(")


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ("window(CAST(ts AS TIMESTAMP_NTZ), '5 hours')", "of a time without a time zone"),
        ("window(ts, '5 hours', '1 hour')", "Expand"),
    ],
)
def test_other_windows_are_refused(spark: SparkSession, window: str, reason: str) -> None:
    with pytest.raises(AnalysisException, match=reason):
        streamtime.compile(spark, f"SELECT * FROM DEDUPLICATE(TABLE(told) PARTITION BY {window} ORDER BY ts, within => INTERVAL 1 DAY)")


def test_where_timestamp_is_a_local_type_here_the_text_says_which_one_it_means(spark: SparkSession) -> None:
    condition = "CAST(body AS TIMESTAMP_LTZ) IS NULL OR from_json(body, 'at TIMESTAMP_LTZ').at IS NULL"
    text = f"SELECT * FROM {_call(condition)}"
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        comment, _, plain = streamtime.compile(spark, text).partition("*/")
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert "under spark.sql.timestampType = TIMESTAMP_NTZ" in comment
    usual = streamtime.compile(spark, text).partition("*/")[2]
    for kind in ("CAST(`body` AS {})", "STRUCT<at: {}>"):
        assert kind.format("TIMESTAMP_LTZ") in plain
        assert kind.format("TIMESTAMP") in usual


def test_where_backslashes_are_read_as_they_stand_a_text_that_has_some_is_refused(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        with pytest.raises(AnalysisException, match="escapedStringLiterals"):
            streamtime.compile(
                spark, "SELECT * FROM FILTER_CHANGES(TABLE(told) PARTITION BY k ORDER BY ts, condition => \"status RLIKE '\\d'\")"
            )
        assert streamtime.compile(spark, f"SELECT * FROM {CALL.format('k = 1')}")
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_a_field_of_a_variant_is_no_parameter(spark: SparkSession) -> None:
    if spark.version < "4.1":  # which has no such syntax
        return
    rows = "TABLE(SELECT k, ts, v:n::INT AS n FROM (SELECT *, try_parse_json(body) AS v FROM told)) PARTITION BY k ORDER BY ts"
    text = f"SELECT * FROM FILTER_CHANGES({rows}, condition => 'n > 3')"
    called, plain = (sorted(map(str, spark.sql(one).collect())) for one in (text, streamtime.compile(spark, text)))
    assert plain == called != []


def test_a_colon_behind_a_keyword_is_that_of_a_parameter(spark: SparkSession) -> None:
    text = "SELECT * FROM FILTER_CHANGES(TABLE(SELECT * FROM told WHERE k BETWEEN:low AND:high) PARTITION BY k ORDER BY ts, condition => 'true')"
    rows = streamtime.query(spark, text, {"low": 2, "high": 3}).collect()
    assert sorted(row.k for row in rows) == [2, 3]


def test_totals_of_structs_whose_fields_have_odd_names(spark: SparkSession) -> None:
    rows = "TABLE(SELECT k, ts, x_1, named_struct('unit-price', k) AS s FROM told) PARTITION BY k ORDER BY x_1, time => 'ts'"
    text = f"SELECT * FROM SESSION_UPDATES({rows}, gap => INTERVAL 1 DAY, aggregates => 'first(s) AS one, min(s) AS least, max(s) AS most')"
    called, plain = (sorted(map(str, spark.sql(one).collect())) for one in (text, streamtime.compile(spark, text)))
    assert plain == called != []


def test_a_field_called_as_a_type_keeps_its_name_where_types_are_said_with_their_zone() -> None:
    kinds = "STRUCT<TIMESTAMP: INT, `TIMESTAMP`: DATE, at: TIMESTAMP, also: ARRAY<TIMESTAMP>, n: TIMESTAMP_NTZ>"
    told = "STRUCT<TIMESTAMP: INT, `TIMESTAMP`: DATE, at: TIMESTAMP_LTZ, also: ARRAY<TIMESTAMP_LTZ>, n: TIMESTAMP_NTZ>"
    assert expressions.ANY_ZONE.sub("TIMESTAMP_LTZ", kinds) == told


def test_functions_with_a_page_in_the_manual_are_not_missed() -> None:
    assert databricks.missing("SELECT log(2, x), try_parse_json(body), nobody_has(1)") == ["nobody_has"]
