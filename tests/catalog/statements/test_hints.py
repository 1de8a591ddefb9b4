"""Calls that Spark's grammar refuses: what is made to work, and what to write instead, behind Spark's own error."""

from __future__ import annotations

import logging
import re

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import streamtime
from streamtime.shelf import FUNCTIONS
from streamtime.statements import hints
from streamtime.statements.unkeyed import WORDS, with_single_partition

SPECS = {s.name.lower() for s in FUNCTIONS}
O = "PARTITION BY k ORDER BY ts"  # noqa: E741
COUNTED = "size => INTERVAL 1 DAY, aggregates => 'count(*) AS n'"


@pytest.fixture(autouse=True)
def events(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW events AS SELECT k, timestamp_seconds(s) AS ts, v FROM VALUES"
        " ('a', 0, 1), ('a', 5, 2), ('b', 9, 3), (NULL, 7, NULL) AS e(k, s, v)"
    )


# -- an order without keys


def rewritten(text: str) -> str | None:
    made = with_single_partition(text, text, SPECS)
    if made is None:
        return None
    assert len(made.plain) == len(text)
    assert made.plain.count("\n") == text.count("\n") == made.text.count("\n")
    assert made.text.replace(WORDS, "") == text
    return made.text.replace(WORDS, "#")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM VERSIONS(TABLE(t) ORDER BY ts)", "FROM VERSIONS(TABLE(t) #ORDER BY ts)"),
        ("FROM versions(TABLE t sort by (ts, v) , time => 'x')", "FROM versions(TABLE t #sort by (ts, v) , time => 'x')"),
        ("FROM system.builtin.`Versions`(TABLE a.`b)`.c\nORDER BY ts)", "FROM system.builtin.`Versions`(TABLE a.`b)`.c\n#ORDER BY ts)"),
        (
            "FROM VERSIONS(TABLE(SELECT * FROM VERSIONS(TABLE(t) ORDER BY x)) ORDER BY y)",
            "FROM VERSIONS(TABLE(SELECT * FROM VERSIONS(TABLE(t) #ORDER BY x)) #ORDER BY y)",
        ),
        (
            "FROM AS_OF_JOIN(TABLE(l) ORDER BY a, TABLE(r) /* , ) */ ORDER BY b)",
            "FROM AS_OF_JOIN(TABLE(l) #ORDER BY a, TABLE(r) /* , ) */ #ORDER BY b)",
        ),
        ("FROM VERSIONS(input => TABLE(t) ORDER BY ts)", "FROM VERSIONS(input => TABLE(t) #ORDER BY ts)"),
        ("FROM VERSIONS(TABLE(SELECT * FROM t ORDER BY ts) ORDER BY ts)", "FROM VERSIONS(TABLE(SELECT * FROM t ORDER BY ts) #ORDER BY ts)"),
        ("FROM VERSIONS(TABLE(t) PARTITION BY k ORDER BY ts)", None),
        ("FROM VERSIONS(TABLE(t) WITH SINGLE PARTITION ORDER BY ts)", None),
        ("FROM VERSIONS(TABLE(SELECT * FROM t ORDER BY ts), order_by => ARRAY('ts'))", None),
        ("FROM their(TABLE(t) ORDER BY ts)", None),
        ("FROM other.versions(TABLE(t) ORDER BY ts)", None),
        ("SELECT 'VERSIONS(TABLE(t) ORDER BY ts)' -- VERSIONS(TABLE(t) ORDER BY ts)", None),
        ("FROM VERSIONS(TABLE(t) ORDER BY ts", None),
        ("FROM VERSIONS(TABLE(t) ORDER BY)", None),
    ],
)
def test_the_words_are_put_before_order_by_in_calls_of_the_pack_alone(text: str, expected: str | None) -> None:
    assert rewritten(text) == expected


def test_rows_with_an_order_and_no_keys_run_wherever_a_table_may_stand(spark: SparkSession, schema: str) -> None:
    call = f"WINDOW_UPDATES(TABLE(events) ORDER BY ts, {COUNTED})"
    wrapped = "DEDUPLICATE(TABLE(SELECT v, ts FROM DEDUPLICATE(TABLE(events) ORDER BY (ts, v), within => INTERVAL 3 SECONDS)) ORDER BY ts)"
    expected = spark.sql(f"SELECT n FROM {call.replace('ORDER', WORDS + 'ORDER')}").collect()
    assert len(expected) == 4
    for door in (spark.sql, lambda text: streamtime.query(spark, text)):
        assert door(f"SELECT n FROM {call}").collect() == expected
        assert door(f"WITH e AS (SELECT * FROM {call}) SELECT x.n FROM e x").collect() == expected
        assert [r.v for r in door(f"SELECT v FROM {wrapped}").collect()] == [1]
        joined = f"SELECT l.n FROM {call} l ASOF JOIN events r MATCH_CONDITION (l.ts >= r.ts)"
        assert sorted(r.n for r in door(joined).collect()) == sorted(r.n for r in expected)
    spark.sql(f"CREATE TABLE {schema}.kept USING delta AS SELECT * FROM events")
    spark.sql(f"CREATE VIEW {schema}.counted AS SELECT n FROM {call.replace('TABLE(events)', f'TABLE({schema}.kept)')}")
    stored = spark.sql(f"SHOW CREATE TABLE {schema}.counted").first()[0]
    assert f"{WORDS}ORDER BY ts" in stored
    streamtime.unregister(spark)
    try:
        assert streamtime.query(spark, f"SELECT n FROM {call}").collect() == expected
        with pytest.raises(AnalysisException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):  # and not a syntax error
            spark.table(f"{schema}.counted")
    finally:
        streamtime.register(spark)
    assert spark.table(f"{schema}.counted").collect() == expected


# -- what to write instead

SYNTAX = [
    (f"DEDUPLICATE(events {O})", f"A table is given as TABLE(..): DEDUPLICATE(TABLE(events) {O})"),
    ("DEDUPLICATE(a.`b c` ORDER BY ts)", "A table is given as TABLE(..): DEDUPLICATE(TABLE(a.`b c`) ORDER BY ts)"),
    (f"DEDUPLICATE((SELECT * FROM events) {O})", f"A query is given as TABLE(SELECT ..): DEDUPLICATE(TABLE(SELECT * FROM events) {O})"),
    ("DEDUPLICATE(SELECT * FROM events)", "A query is given as TABLE(..): DEDUPLICATE(TABLE(SELECT * FROM events))"),
    (f"DEDUPLICATE(TABLE(events) {O}, INTERVAL 10 MINUTES)", "Options are written as name => value, such as within => INTERVAL 10 MINUTES"),
    (f"SESSIONIZE(TABLE(events) {O}, INTERVAL 10 MINUTES)", "Options are written as name => value, such as gap => INTERVAL 10 MINUTES"),
    (f"DEDUPLICATE(TABLE(events) {O}, 'last')", "Options are written as name => value, such as within => .."),
    (f"DEDUPLICATE(TABLE(events) {O}, within = INTERVAL 1 DAY)", "Options are written as name => value: within => INTERVAL 1 DAY"),
    ("DEDUPLICATE(TABLE(events) PARTITION BY k, keep = 'last')", "Options are written as name => value: keep => 'last'"),
    (f"DEDUPLICATE(TABLE(events) {O}, within: INTERVAL 1 DAY)", "Options are written as name => value: within => INTERVAL 1 DAY"),
    (f"DEDUPLICATE(TABLE(events) {O}, within => 10 MINUTES)", "An interval is written INTERVAL 10 MINUTES"),
    (f"DEDUPLICATE(TABLE(events) {O} within => INTERVAL 1 DAY)", "A comma is missing before within =>"),
    (f"DEDUPLICATE(TABLE(events) {O}, v, keep => 'last')", "Several expressions stand in parentheses: ORDER BY (ts, v); options"),
    ("DEDUPLICATE(TABLE(events) PARTITION BY k, v ORDER BY ts)", "Several expressions stand in parentheses: PARTITION BY (k, v); options"),
    (f"DEDUPLICATE(TABLE(events) {O}, TABLE(events))", "DEDUPLICATE takes one TABLE argument"),
    (f"AS_OF_JOIN(TABLE(events) {O}, TABLE(events))", "Give each TABLE(..) its clauses, or put the list before it in parentheses: BY (ts)"),
    ("DEDUPLICATE(TABLE(events) ORDER BY ts PARTITION BY k)", "PARTITION BY stands before ORDER BY"),
    (f"DEDUPLICATE(TABLE(events) {O}, within => INTERVAL 1 DAY", "The parenthesis after DEDUPLICATE is not closed"),
    (f"events e WHERE e.v IN (DEDUPLICATE(TABLE(events) {O}), 1)", "DEDUPLICATE gives a table: call it in FROM"),
    ("events l ASOF JOIN events r ON l.k = r.k", "Write it as l [LEFT] ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k"),
]


def told(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def framed(message: str) -> list[str]:
    """Where Spark says the error is."""
    return [line for line in message.splitlines() if line.startswith(("== SQL", "--", "  "))] + re.findall(r"line \d+, pos \d+", message)


def test_a_hint_stands_behind_sparks_error_with_the_same_condition_and_place(spark: SparkSession) -> None:
    found = []
    for text, hint in SYNTAX:
        with pytest.raises(ParseException) as caught:
            spark.sql(f"SELECT *\nFROM {text}")
        elsewhere = spark.version < "4.2" and " IN (" in text  # earlier Sparks say a place that is none of the call's
        assert (hint in str(caught.value)) != elsewhere
        found.append((caught.value.getCondition(), framed(str(caught.value))))
    streamtime.unregister(spark)
    try:
        for (text, hint), (condition, place) in zip(SYNTAX, found, strict=True):
            with pytest.raises(ParseException) as caught:
                spark.sql(f"SELECT *\nFROM {text}")
            assert hint not in str(caught.value)
            assert (caught.value.getCondition(), framed(str(caught.value))) == (condition, place)
            with pytest.raises(AnalysisException) as caught:
                streamtime.query(spark, f"SELECT *\nFROM {text}")
            assert hint in told(caught.value)
    finally:
        streamtime.register(spark)


def test_a_text_that_is_not_about_a_call_keeps_sparks_error(spark: SparkSession) -> None:
    texts = [
        f"SELEC * FROM DEDUPLICATE(TABLE(events) {O})",
        f"SELECT * FROM DEDUPLICATE(TABLE(events) {O}) GROUP nonsense",
        "SELECT * FROM their(events ORDER BY ts)",
        "SELECT deduplicate FROM t WHERE (",
        "CREATE TABLE versions (a INT b INT)",
        "INSERT INTO versions (a b) SELECT 1",
        "WITH versions (a b) AS (SELECT 1) SELECT * FROM versions",
        "SELECT versions(a b) FROM t",
        f"SELECT * FROM their(TABLE(events) {O}, 1)",
    ]

    def said(text: str) -> str:
        with pytest.raises(ParseException) as caught:
            spark.sql(text)
        return str(caught.value)

    ours = [said(text) for text in texts]
    streamtime.unregister(spark)
    try:
        assert [said(text) for text in texts] == ours
    finally:
        streamtime.register(spark)


def test_a_statement_that_is_nested_too_deeply_is_one_line(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    deep = f"SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM events WHERE {'(' * 3000}true{')' * 3000}) {O})"
    for door in (spark.sql, lambda text: streamtime.query(spark, text)):
        with caplog.at_level(logging.ERROR, logger="py4j.clientserver"), pytest.raises(AnalysisException) as caught:
            door(deep)
        assert "DEDUPLICATE: the statement is nested too deeply for Spark's parser. Take it apart, with WITH or views." in str(caught.value)
        assert len(str(caught.value)) < 2 * len(deep)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


ANALYSIS = [
    (f"SELECT * FROM DEDUPE(TABLE(events) {O})", "Did you mean DEDUPLICATE?"),
    (f"SELECT * FROM SESSIONISE(TABLE(events) {O})", "Did you mean SESSIONIZE?"),
    ("SELECT * FROM DEDUPLICATE(events, within => INTERVAL 1 DAY)", "A table is given as TABLE(events)."),
    ("SELECT * FROM DEDUPLICATE(TABLE(events), within = INTERVAL 1 DAY)", "name => value: within => INTERVAL 1 DAY."),
    (f"SELECT * FROM DEDUPLICATE(TABLE(events) {O}, offset => v)", "SQL over columns goes in quotes: offset => 'v'."),
    (
        f"SELECT * FROM events o, LATERAL (SELECT * FROM SESSIONIZE(TABLE(events) {O}, gap => INTERVAL 1 DAY) d WHERE d.k = o.k)",
        "join or filter outside of the call.",
    ),
    (
        f"SELECT * FROM events o, LATERAL DEDUPLICATE(TABLE(SELECT * FROM events i WHERE i.k = o.k) {O})",
        "join or filter outside of the call.",
    ),
]


def test_an_analysis_error_has_a_note_where_the_pack_runs_the_text(spark: SparkSession) -> None:
    for text, hint in ANALYSIS:
        with pytest.raises(AnalysisException) as caught:
            spark.sql(text)
        hints.explain(caught.value, text)  # as the shell does
        assert any(hint in note for note in caught.value.__notes__), text
        with pytest.raises(AnalysisException) as caught:
            streamtime.query(spark, text)
        assert hint.rstrip(".") in told(caught.value), text
    streamtime.unregister(spark)
    try:
        with pytest.raises(AnalysisException) as caught:
            spark.sql(f"SELECT * FROM deduplicate(TABLE(events) {O})")
    finally:
        streamtime.register(spark)
    hints.explain(caught.value, "")
    assert any("call streamtime.register(spark) once" in note for note in caught.value.__notes__)
    for other in ("SELECT * FROM nosuch(1)", "SELECT nosuch FROM events", "SELECT * FROM range(nosuch)"):
        with pytest.raises(AnalysisException) as caught:
            streamtime.query(spark, other)
        assert not getattr(caught.value, "__notes__", [])
