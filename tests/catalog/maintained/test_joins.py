"""Which units a change touched: never one too few, whatever has no partner on the null side of an outer join, and however a query names
its columns."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.inputs import maintained as cases

import streamtime

TABLES = {
    "trips": ("id INT, pickup STRING, dropoff STRING", "(1, 'A', 'A'), (2, 'B', 'A'), (3, NULL, 'B'), (4, 'C', NULL)"),
    "zones": ("id STRING, fee INT", "('A', 1), ('B', 2), (NULL, 3)"),
    "o": ("id INT, customer INT, country STRING", "(1, 1, 'de'), (2, 2, 'fr'), (5, 4, NULL)"),
    "c": ("id INT, country STRING, m INT", "(1, 'de', 1), (2, 'de', 7), (NULL, 'fr', 8)"),
    "b": ("m INT, n INT", "(1, 1), (NULL, 2)"),
    "z": ("id INT, n INT, v STRING", "(1, 1, 'x'), (2, 2, 'y'), (5, 5, 'w')"),
    "short": ("s CHAR(3), w INT", "('ab', 1), ('abc', 2)"),
    "nested": ("id INT, c STRUCT<country: STRING>, v INT", "(1, struct('us'), 10), (2, struct('fr'), 20)"),
    "nulls": ("k STRING, v INT", "('a', NULL), ('b', 1)"),
    "long": ("l CHAR(5), v VARCHAR(4)", "('ab', 'one'), ('abc', 'two')"),
}
QUERIES = {
    # both columns meet one column of the null side: in a row without a partner they differ
    "one_of_two": "SELECT t.pickup, count(*) AS n, count(z.id) AS within FROM {s}.trips t LEFT JOIN {s}.zones z ON z.id = t.dropoff AND z.id = t.pickup "
    "GROUP BY t.pickup",
    "other_table": "SELECT c.country, count(*) AS n, max(r.fee) AS fee FROM {s}.o JOIN {s}.c ON o.customer = c.id "
    "LEFT JOIN {s}.zones r ON r.id = o.country AND r.id = c.country GROUP BY c.country",
    # the null side joins the two others, and its name comes before theirs
    "way_round": "SELECT z.v, count(*) AS n FROM {s}.o JOIN {s}.c ON o.customer = c.id JOIN {s}.z ON o.id = z.id "
    "LEFT JOIN {s}.b ON c.m = b.m AND z.n = b.n GROUP BY z.v",
    # a field of a struct, which has the name of another table
    "field": "SELECT o.c.country AS c, avg(o.v) AS mean FROM {s}.nested AS o JOIN {s}.c ON o.id = c.id GROUP BY o.c.country",
    # asked apart from its table, such an expression is another one
    "padded": "SELECT o.s = 'ab' AS ab, avg(o.w) AS mean FROM {s}.short AS o GROUP BY 1",
    "two_of_count": "SELECT k, count(1, v) AS n FROM {s}.nulls GROUP BY k",
    # values that Spark makes of one length before it compares them
    "of_length": "SELECT s, count(*) AS n, max(v) AS v FROM {s}.short JOIN {s}.long ON s = l GROUP BY s",
}
CHANGES = [
    "INSERT INTO {s}.trips VALUES (9, 'A', 'B'), (10, NULL, 'A')",
    "INSERT INTO {s}.o VALUES (3, 1, 'fr')",
    "INSERT INTO {s}.c VALUES (4, 'it', 9)",
    "UPDATE {s}.long SET v = concat(v, '!')",
    "UPDATE {s}.nested SET v = v + 1",
    "UPDATE {s}.short SET w = w + 7",
    "INSERT INTO {s}.nulls VALUES ('a', NULL)",
]


WHOLE = {
    "field": "a column of `o.c.country AS c` was not found",
    "padded": "none of its columns says",
}  # those that are computed anew each time
TOUCHED = {
    "one_of_two": 2,
    "other_table": 2,
    "way_round": 1,
    "two_of_count": 1,
    "of_length": 2,
}  # how many values of GROUP BY the changes lead to
BY_VALUES = ("one_of_two", "two_of_count", "of_length")  # what is wrong leads to as many others: those that a short run has


@pytest.mark.short("what changes of a join lead to")
def test_what_changes_lead_to_is_computed_anew(spark: SparkSession, schema: str, thorough: bool) -> None:
    queries = {name: text for name, text in QUERIES.items() if thorough or name in BY_VALUES}
    read = {name for name in TABLES if any(f"{{s}}.{name} " in f"{text} " for text in queries.values())}
    for name, (columns, rows) in ((name, TABLES[name]) for name in TABLES if name in read):
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) {cases.FEED}")
        spark.sql(f"INSERT INTO {schema}.{name} VALUES {rows}")
    tables = {f"{schema}.m_{name}": text.format(s=schema) for name, text in queries.items()}
    for table, text in tables.items():
        streamtime.maintain(spark, table, text)
    for change in CHANGES:
        if change.split("{s}.")[1].split()[0] in read:
            spark.sql(change.format(s=schema))
    followed = {}
    for name, (table, text) in zip(queries, tables.items(), strict=True):
        receipt = streamtime.maintain(spark, table, text, policy="auto" if name in WHOLE else "incremental")
        assert receipt.way == ("full" if name in WHOLE else "incremental"), name
        assert WHOLE.get(name, "") in receipt.why
        assert receipt.touched == TOUCHED.get(name), name
        followed[table] = text
    assert cases.differences(spark, followed) == {}
