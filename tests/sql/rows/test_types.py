"""Columns of every kind: as payload they pass unchanged; as key they group exactly as Spark's own GROUP BY does."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

# two values of each type that differ, in SQL
VALUES = {
    "TINYINT": ("1Y", "2Y"),
    "BIGINT": ("1L", "9223372036854775807L"),
    "DOUBLE": ("0.1D", "-1.5D"),
    "FLOAT": ("0.1F", "-1.5F"),
    "DECIMAL(38,18)": ("1.000000000000000001", "1.000000000000000002"),
    "STRING": ("'a'", "'a '"),
    "CHAR(3)": ("'a'", "'b'"),
    "STRING COLLATE UTF8_LCASE": ("'a' COLLATE UTF8_LCASE", "'b' COLLATE UTF8_LCASE"),
    "BINARY": ("X'00'", "X'0000'"),
    "BOOLEAN": ("true", "false"),
    "DATE": ("DATE '1582-10-15'", "DATE '2024-02-29'"),
    "TIMESTAMP": ("TIMESTAMP '2024-10-27 00:30:00 UTC'", "TIMESTAMP '2024-10-27 01:30:00 UTC'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '2024-01-01 00:00:00.000001'"),
    "INTERVAL DAY TO SECOND": ("INTERVAL '1' DAY", "INTERVAL '1 00:00:01' DAY TO SECOND"),
    "INTERVAL YEAR TO MONTH": ("INTERVAL '1' YEAR", "INTERVAL '1-1' YEAR TO MONTH"),
    "ARRAY<INT>": ("array(1, NULL)", "array(1)"),
    "ARRAY<STRING>": ("array('a,b')", "array('a', 'b')"),
    "STRUCT<a: STRING, b: STRUCT<c: DOUBLE>>": ("struct('x', struct(1D))", "struct('x', struct(CAST(NULL AS DOUBLE)))"),
    "ARRAY<STRUCT<a: TIMESTAMP>>": ("array(struct(TIMESTAMP '2024-01-01'))", "array(struct(TIMESTAMP '2024-01-02'))"),
    "MAP<STRING, INT>": ("map('a', 1)", "map('b', 1)"),
    "VARIANT": ("parse_json('{\"a\": 1}')", "parse_json('[1]')"),
}
UNCOMPARABLE = ("MAP<STRING, INT>", "VARIANT")


def cast(kind: str, value: str) -> str:
    return value if "COLLATE" in kind or "CHAR" in kind else f"CAST({value} AS {kind})"


@pytest.mark.parametrize("kind", VALUES)
def test_any_column_passes_through_unchanged(spark: SparkSession, kind: str) -> None:
    one, two = (cast(kind, v) for v in VALUES[kind])
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW t AS SELECT id % 2 AS k, timestamp_seconds(id) AS ts, id, CASE id % 3 WHEN 0 THEN {one} WHEN 1 THEN {two} END AS c"
        " FROM range(12)"
    )
    for order, time in (("ts", ""), ("id", ", time => 'ts'")):
        call = f"DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY {order}{time}, within => INTERVAL 3 SECONDS)"
        got = spark.sql(f"SELECT * FROM {call}")
        assert got.schema == spark.table("t").schema
        shown = "string(c)" if kind not in UNCOMPARABLE else "to_json(struct(c))"
        found = {(r.k, r.at, r.c) for r in got.selectExpr("k", "unix_seconds(ts) AS at", f"{shown} AS c").collect()}
        expected = spark.sql(f"SELECT k, unix_seconds(ts) AS at, {shown} AS c FROM t WHERE (unix_seconds(ts) - k) % 4 = 0").collect()
        assert found == {(r.k, r.at, r.c) for r in expected}


@pytest.mark.parametrize("kind", [k for k in VALUES if k not in UNCOMPARABLE])
@pytest.mark.parametrize("within", ["", ", within => INTERVAL 1 DAY"])
def test_any_comparable_column_can_be_a_key(spark: SparkSession, kind: str, within: str) -> None:
    one, two = (cast(kind, v) for v in VALUES[kind])
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW t AS SELECT timestamp_seconds(id) AS ts, id, CASE id % 3 WHEN 0 THEN {one} WHEN 1 THEN {two} END AS c FROM range(30)"
    )
    got = sorted(r.id for r in spark.sql(f"SELECT id FROM DEDUPLICATE(TABLE(t) PARTITION BY c ORDER BY ts{within})").collect())
    assert got == [0, 1, *range(2, 30, 3)]  # the two values once each; rows with a null key all pass


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ("(0D), (-0D), (CAST('NaN' AS DOUBLE)), (CAST('NaN' AS DOUBLE)), (CAST('Infinity' AS DOUBLE))", 3),
        ("(struct(0F)), (struct(-0F)), (struct(CAST('NaN' AS FLOAT))), (struct(CAST('NaN' AS FLOAT)))", 2),
        ("('a' COLLATE UTF8_LCASE), ('A' COLLATE UTF8_LCASE), ('b' COLLATE UTF8_LCASE)", 2),
        ("(array('a' COLLATE UTF8_LCASE)), (array('A' COLLATE UTF8_LCASE))", 1),
        ("(array(0D)), (array(-0D)), (array(1D))", 2),
        ("(1.0), (1.00)", 1),
    ],
)
def test_equal_means_what_group_by_says(spark: SparkSession, values: str, groups: int) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW t AS SELECT c, TIMESTAMP '2024-01-01' AS ts FROM VALUES {values} AS v(c)")
    assert spark.sql("SELECT c FROM t GROUP BY c").count() == groups
    for within in ("", ", within => INTERVAL 1 DAY"):
        assert spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY c ORDER BY ts{within})").count() == groups


KEYED = (
    "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts)",
    "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => INTERVAL 1 DAY)",
    "DISTINCT_IN_WINDOW(TABLE(t) PARTITION BY k ORDER BY ts, size => INTERVAL 1 DAY)",
    "VERSIONS(TABLE(t) PARTITION BY k ORDER BY ts)",
    "VERSIONS(TABLE(t) PARTITION BY k ORDER BY ts, grace => INTERVAL 1 DAY, output => 'dropped')",
    "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY)",
    "AS_OF_JOIN(TABLE(SELECT collate('A', 'UTF8_LCASE') AS l, TIMESTAMP '2024-01-02' AS at) PARTITION BY l ORDER BY at, "
    "TABLE(t) PARTITION BY k ORDER BY ts)",
)


def test_of_rows_whose_keys_a_collation_calls_equal_always_the_same_one_is_first(spark: SparkSession) -> None:
    """However they are stored (C4)."""
    asked = " UNION ALL ".join(f"SELECT {number} AS call, k FROM {call}" for number, call in enumerate(KEYED))
    found = []
    for values in ("('a'), ('A'), ('B'), ('b')", "('b'), ('B'), ('A'), ('a')"):
        spark.sql(
            f"CREATE OR REPLACE TEMP VIEW t AS SELECT collate(k, 'UTF8_LCASE') AS k, TIMESTAMP '2024-01-01' AS ts FROM VALUES {values} AS v(k)"
        )
        found.append(sorted(map(tuple, spark.sql(asked).collect())))
    assert found[0] == found[1]
    assert {call for call, _ in found[0]} == set(range(len(KEYED)))


def test_names_nullability_and_metadata_stay(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("id AS `a key`", "timestamp_seconds(id) AS `Ts.x`", "1 AS n")
    df = df.withMetadata("n", {"comment": "kept"})
    df.createOrReplaceTempView("t")
    for call in ("within => INTERVAL 1 DAY", "keep => 'last'"):
        got = spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY `a key` ORDER BY `Ts.x`, {call})").schema
        assert got == df.schema
        assert got["n"].metadata == {"comment": "kept"}


def test_times_are_those_of_their_type_where_timestamp_means_another(spark: SparkSession) -> None:
    """In a session whose TIMESTAMP is TIMESTAMP_NTZ."""
    spark.sql("SELECT 'a' AS k, timestamp_seconds(id * 60) AS ts, id AS off FROM range(9)").createOrReplaceTempView("zoned")
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        for order in ("ts", "off, time => 'ts'"):
            call = f"DEDUPLICATE(TABLE(zoned) PARTITION BY k ORDER BY {order}, within => INTERVAL 3 MINUTES)"
            assert [r.off for r in spark.sql(f"SELECT off FROM {call} ORDER BY off").collect()] == [0, 4, 8]
        final = "WINDOW_UPDATES(TABLE(zoned) PARTITION BY k ORDER BY ts, size => INTERVAL 5 MINUTES, aggregates => 'count(*) AS n', emit => 'final')"
        assert [r.n for r in spark.sql(f"SELECT n FROM {final}").collect()] == [5]
    finally:
        spark.conf.unset("spark.sql.timestampType")
