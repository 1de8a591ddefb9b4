"""Ties in ORDER BY are broken by all that rows differ in, so that shuffling the input never changes the output (rule C4)."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

import streamtime

# of two rows that differ in one value, which is equal where they are compared: the value, as SQL over `s` and `x`; key; ORDER BY
LCASE = "collate(s, 'UTF8_LCASE')"
DIFFERENT = {
    "a collated string in ORDER BY": (LCASE, "k", "(ts, v)"),
    "one in a struct in ORDER BY": (f"named_struct('v', {LCASE})", "k", "(ts, v DESC)"),
    "one in an array": (f"array({LCASE}, NULL)", "k", "(ts)"),
    "one in a key": (f"named_struct('v', array({LCASE}))", "(k, v)", "(ts)"),
    "both zeros in ORDER BY": ("x", "k", "(ts, v)"),
    "one in an array in ORDER BY": ("array(x)", "k", "(ts, v)"),
}
CALLS = {
    "DEDUPLICATE": "DEDUPLICATE({0})",
    "keep": "DEDUPLICATE({0}, keep => 'last')",
    "AS_OF_JOIN": "AS_OF_JOIN({0}, {0})",
    "arrival": "AS_OF_JOIN({0}, {0}, arrival => 'ts', join_type => 'left')",
    "SUPPRESS": "SUPPRESS_UNTIL_TIME_LIMIT({0}, time => 'ts', max_records => 1, when_full => 'spill')",
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_shuffling_rows_that_differ_in_one_value_changes_nothing(spark: SparkSession, what: str) -> None:
    value, key, order = DIFFERENT[what]
    given = "SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts, {} AS v FROM VALUES {} AS t(s, x)"
    rows = ["('A', 0D)", "('a', -0D)", "('A', -0D)", "('a', 0D)"]
    orders = [given.format(value, ", ".join(rows[i] for i in some)) for some in ((0, 1, 2, 3), (1, 0, 3, 2), (3, 2, 1, 0))]
    parts = []
    for (name, call), (n, text) in itertools.product(CALLS.items(), enumerate(orders)):
        table = f"TABLE({text}) PARTITION BY {key} ORDER BY {order}"
        parts.append(f"SELECT '{name}' AS f, {n} AS n, to_json(struct(*)) AS row FROM {call.format(table)}")
    found: dict[Any, Counter[Any]] = {}
    for r in spark.sql(" UNION ALL ".join(parts)).collect():
        found.setdefault(r.f, Counter())[r.n, r.row] += 1
    assert found.keys() == CALLS.keys()
    for name, answers in found.items():
        first, *others = (Counter({row: count for (n, row), count in answers.items() if n == number}) for number in range(len(orders)))
        assert all(other == first for other in others), (name, answers)


def test_changes_of_keys_that_a_collation_calls_equal_come_in_one_order(spark: SparkSession) -> None:
    rows = ["('A')", "('a')", "('B')", "('b')"]
    left = "SELECT collate(s, 'UTF8_LCASE') AS k, TIMESTAMP '2024-01-01' AS ts, 'one' AS v FROM VALUES {} AS t(s)"
    right = "SELECT collate('a', 'UTF8_LCASE') AS k, TIMESTAMP '2024-01-01' AS ts, 'other' AS w"
    call = f"JOIN_CHANGES(TABLE({left}) PARTITION BY k ORDER BY ts, TABLE({right}) PARTITION BY k ORDER BY ts, join_type => 'left')"
    texts = [f"SELECT {n} AS n, k, v, w, change_seq FROM {call.format(', '.join(some))}" for n, some in enumerate((rows, rows[::-1]))]
    found = spark.sql(" UNION ALL ".join(texts)).collect()
    first, other = ({tuple(r)[1:] for r in found if r.n == n} for n in (0, 1))
    assert first == other
    assert {r[0] for r in first} == set("AaBb")


@pytest.mark.parametrize("kind", ["ARRAY<STRING COLLATE UTF8_LCASE>", "ARRAY<STRING>"])
def test_a_buffer_takes_ties_as_the_plan_of_sparks_operators_does(spark: SparkSession, kind: str) -> None:
    """As text, where a collation is in a column: an array's end comes after its comma."""
    rows = f"SELECT 'a' AS k, TIMESTAMP '2024-01-01' AS ts, CAST(v AS {kind}) AS v FROM VALUES (array('a')), (array('a', 'b')) AS t(v)"
    options = "time => 'ts', max_records => 1, when_full => 'spill'"
    query = f"SELECT v FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE({rows}) PARTITION BY k ORDER BY ts, {options})"
    assert spark.sql(query).collect() == spark.sql(streamtime.compile(spark, query)).collect()
