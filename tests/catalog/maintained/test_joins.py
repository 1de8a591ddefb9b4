"""Which units a change touched, by way of joins: never one too few, whatever has no partner on the null side of an outer join."""

from __future__ import annotations

from pyspark.sql import SparkSession
from support import maintained as cases

import streamtime

TABLES = {
    "trips": ("id INT, pickup STRING, dropoff STRING", "(1, 'A', 'A'), (2, 'B', 'A'), (3, NULL, 'B'), (4, 'C', NULL)"),
    "zones": ("id STRING, fee INT", "('A', 1), ('B', 2), (NULL, 3)"),
    "o": ("id INT, customer INT, country STRING", "(1, 1, 'de'), (2, 2, 'fr'), (5, 4, NULL)"),
    "c": ("id INT, country STRING, m INT", "(1, 'de', 1), (2, 'de', 7), (NULL, 'fr', 8)"),
    "b": ("m INT, n INT", "(1, 1), (NULL, 2)"),
    "z": ("id INT, n INT, v STRING", "(1, 1, 'x'), (2, 2, 'y'), (5, 5, 'w')"),
    "short": ("s CHAR(3), w INT", "('ab', 1), ('abc', 2)"),
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
    # values that Spark makes of one length before it compares them
    "of_length": "SELECT s, count(*) AS n, max(v) AS v FROM {s}.short JOIN {s}.long ON s = l GROUP BY s",
}
CHANGES = [
    "INSERT INTO {s}.trips VALUES (9, 'A', 'B'), (10, NULL, 'A')",
    "INSERT INTO {s}.o VALUES (3, 1, 'fr')",
    "INSERT INTO {s}.c VALUES (4, 'it', 9)",
    "UPDATE {s}.long SET v = concat(v, '!')",
]


def test_rows_without_a_partner_on_the_null_side_lead_to_their_own_units(spark: SparkSession, schema: str) -> None:
    for name, (columns, rows) in TABLES.items():
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) {cases.FEED}")
        spark.sql(f"INSERT INTO {schema}.{name} VALUES {rows}")
    tables = {f"{schema}.m_{name}": text.format(s=schema) for name, text in QUERIES.items()}
    for table, text in tables.items():
        streamtime.maintain(spark, table, text)
    for change in CHANGES:
        spark.sql(change.format(s=schema))
    ways = {table: streamtime.maintain(spark, table, text, policy="incremental").way for table, text in tables.items()}
    assert set(ways.values()) == {"incremental"}
    assert cases.differences(spark, tables) == {}
