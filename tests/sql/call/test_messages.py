"""What a person reads when a call is wrong: short, on one line, in words, and with a fix that works where it is pasted (rule C8)."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import streamtime
from streamtime.shelf import FUNCTIONS
from streamtime.shell.rendering import CONTROLS
from streamtime.sql.call.errors import MOST, CallError, echoed

CLAUSES = "PARTITION BY k ORDER BY ts"


@pytest.fixture(autouse=True)
def events(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW events AS SELECT k, timestamp_seconds(s) AS ts, string(s) AS text, s AS number, true AS flag"
        " FROM VALUES ('a', 0), ('a', 5), ('b', NULL) AS e(k, s)"
    )


def refused(spark: SparkSession, sql: str, door: str = "spark") -> str:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql) if door == "spark" else streamtime.query(spark, sql)
    return str(caught.value)


# -- what is echoed


def test_a_short_text_is_echoed_as_it_is() -> None:
    for text in ("", "`withn`", "expected an interval, got '10 minutes' (STRING)", "x" * MOST, "東京 🚀 é"):
        assert echoed(text) == text


def test_a_long_text_keeps_its_ends_and_says_how_much_is_left_out() -> None:
    for count in (MOST + 1, 2 * MOST, 1_000_000):
        shown = echoed(f"expected a word, got '{'x' * count}' (STRING)")
        assert len(shown) < MOST + 40
        assert shown.startswith("expected a word, got 'xxx")
        assert shown.endswith("xxx' (STRING)")
        assert re.search(r" \.\. [\d,]+ characters \.\. ", shown)


def test_an_error_is_one_line_and_steers_no_terminal() -> None:
    error = CallError("F", "`a\nb`", "got 'x\r\n\t\x1b[31m\x00\x85\u2028\u202e'", "Write\nit so.")
    assert str(error) == r"F, `a\nb`: got 'x\r\n\t\x1b[31m\x00\x85\u2028\u202e'. Write\nit so."
    assert not set(str(error)) & {chr(code) for code in CONTROLS}
    assert len(str(CallError("F", f"`{'o' * 10**6}`", "p" * 10**6, "f" * 10**6))) < 3 * MOST


@pytest.mark.parametrize("door", ["spark", "query"])
def test_a_million_characters_in_an_option_are_one_short_line(spark: SparkSession, door: str) -> None:
    long = "x" * 1_000_000
    for option in (f"keep => '{long}'", f"time => '{long}'", f"{long} => 1", f"keep => 'first', name => ARRAY('{long}\n')"):
        said = refused(spark, f"SELECT * FROM DEDUPLICATE(TABLE(events) {CLAUSES}, {option})", door)
        assert said.startswith("DEDUPLICATE, ")
        assert len(said) < 1000
        assert "\n" not in said


def deep(inside: str, count: int = 2000) -> str:
    return "(" * count + inside + ")" * count


@pytest.mark.parametrize("door", ["spark", "query"])
def test_an_option_that_is_nested_too_deeply_is_one_line(spark: SparkSession, door: str) -> None:
    for option in (f"time => '{deep('ts')}'", f"clock_by => ARRAY('{'abs(' * 2000}k{')' * 2000}')"):
        said = refused(spark, f"SELECT * FROM DEDUPLICATE(TABLE(events) {CLAUSES}, {option})", door)
        assert "is nested too deeply for Spark's parser" in said
        assert said.startswith(f"DEDUPLICATE, `{option.split()[0]}`: ")
        assert "\n" not in said
        assert len(said) < 1000
    joined = f"AS_OF_JOIN(TABLE(events) ORDER BY ts, TABLE(events) ORDER BY ts, on => '{deep('k = k')}')".replace(" ORDER BY ts", "")
    assert "\n" not in refused(spark, f"SELECT * FROM {joined}", door)


def test_an_option_that_is_nested_too_deeply_is_one_line_in_python(spark: SparkSession) -> None:
    with pytest.raises(CallError, match="is nested too deeply for Spark's parser") as caught:
        streamtime.deduplicate(spark.table("events"), keys=["k"], order_by=["ts"], time=deep("ts"))
    assert len(str(caught.value)) < 1000


# -- fixes


def test_each_required_option_says_how_to_write_it_and_that_works(spark: SparkSession) -> None:
    asked = 0
    for spec in FUNCTIONS:
        required = [o for o in spec.options if o.required]
        for option in required:
            others = ", ".join(f"{o.name} => {o.example}" for o in required if o is not option)
            call = f"SELECT * FROM {spec.name}({', '.join([f'TABLE(events) {CLAUSES}'] * spec.tables)}{{}})"
            sep = ", " if spec.tables else ""
            if option.name in spec.positional:
                assert option.example
                assert f"Write it as {spec.name}({option.example})" in refused(spark, call.format(sep + others if others else ""))
                continue
            more = [others] * bool(others) + ["size => INTERVAL 1 DAY"] * (spec.name == "WINDOW_UPDATES")
            for wrong in ([], [f"{option.name} => NULL"]):
                said = refused(spark, call.format("".join(f", {m}" for m in [*more, *wrong])))
                fix = re.search(r"(?:Add|Write) (.+?)\.; line", said)
                assert fix, said
                assert spark.sql(call.format("".join(f", {m}" for m in [*more, fix[1]]))).columns
                asked += 1
    assert asked >= 6


def test_an_event_time_of_another_type_says_how_to_convert_it_and_that_works(spark: SparkSession) -> None:
    call = "SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY {})"
    for wrong, fix in (
        ("text", "Cast it, here or in the TABLE argument: to_timestamp(text); or name another column: time => 'ts'."),
        (
            "number",
            "Name the event time: time => 'ts'; or, if this is it, convert it, here or in the TABLE argument: timestamp_millis(number), or"
            " timestamp_seconds(number).",
        ),
        ("flag", "Name a column of one of these types: time => 'ts'."),
    ):
        assert fix in refused(spark, call.format(wrong))
        assert spark.sql(call.format(f"{wrong}, time => 'ts'")).columns
        for converted in re.findall(r"\w+\(\w+\)", fix):
            assert spark.sql(call.format(converted)).columns
    assert "argument: to_timestamp(text).;" in refused(spark, call.format("ts, time => 'text'"))
    assert spark.sql(call.format("ts, time => 'to_timestamp(text)'")).columns


def test_tables_are_counted_in_words(spark: SparkSession) -> None:
    assert refused(spark, "SELECT * FROM AS_OF_JOIN(TABLE(events))").startswith("AS_OF_JOIN: expected 2 TABLE arguments, got 1. ")
    assert refused(spark, "SELECT * FROM VERSIONS()").startswith("VERSIONS: expected 1 TABLE argument, got none. ")
    assert refused(spark, "SELECT * FROM TABLE_HISTORY(TABLE(events))").startswith("TABLE_HISTORY: expected no TABLE argument, got 1. ")
