"""What CTEs are called: after what they hold, and as nothing else that the statement, or its rows, have."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from support.programs.plain_session import said

import streamtime
from streamtime.plain import names

CTE = re.compile(r"^    (\w+)(?: \(.*\))? AS \($", re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (names.rows_with(["__streamtime_kept_time"]), "with_kept_time"),
        (names.rows_with(["page", "__streamtime_Row", "__streamtime_before"]), "with_row_and_before"),
        (names.rows_with(["a", "b", "c"]), "with_a_and_b_and_more"),
        (names.rows_with(["a b", "🙂", "1st"]), "with_more"),
        (names.rows_with(["x" * 30, "y" * 30]), f"with_{'x' * 30}_and_more"),
        (names.groups_by(["who", "a b"]), "by_who_and_more"),
        (names.groups_by([]), "of_all"),
        (names.groups_by(["(`n` + 1)"]), "by_key"),
        (names.rows_for_each(["__streamtime_reached"]), "for_each_reached"),
        (names.input_of("main.shop.`Clicks`"), "clicks_input"),
        (names.input_of("`a b`"), "input"),
        (names.input_of("(SELECT 1)"), "input"),
        (names.input_of("clicks VERSION AS OF 3"), "input"),
    ],
)
def test_a_name_is_an_identifier_that_says_what_is_held(name: str, expected: str) -> None:
    assert name == expected


def test_a_name_is_nobody_elses(spark: SparkSession) -> None:
    """A struct of the CTE's name, of which a field is named as a column, would be that column."""
    rows = "SELECT id AS k, timestamp_seconds(id) AS t, named_struct('k', id % 2) AS q_input, named_struct('k', 7) AS with_kept_time FROM range(9)"
    spark.sql(rows).createOrReplaceTempView("q")
    text = "SELECT * FROM DEDUPLICATE(TABLE(q) PARTITION BY q_input.k ORDER BY t) WHERE CAST(k AS STRING) <> 'with_alone'"
    plain = streamtime.compile(spark, text)
    made = CTE.findall(plain)
    assert made[0] == "q_input_2"
    assert {"with_kept_time_2", "with_alone_2", "deduplicate_rows"} <= {*made}
    assert len({*made}) == len(made)
    assert said(spark.sql(plain)) == said(spark.sql(text))
    spark.catalog.dropTempView("q")


def test_the_same_steps_of_two_calls_have_names_of_their_own(spark: SparkSession) -> None:
    call = "DEDUPLICATE(TABLE({}) PARTITION BY k ORDER BY t)"
    text = f"SELECT * FROM {call.format('SELECT * FROM ' + call.format('q'))}"
    plain = streamtime.compile(spark, text, tables={"q": "k INT, t TIMESTAMP"})
    made = CTE.findall(plain)
    assert len({*made}) == len(made) > 6
