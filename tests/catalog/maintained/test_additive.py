"""Totals to which changes are added are those that the query gives; where they do not say enough, a group is computed anew. Conditions
that name units find them, whatever the values are."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from support.inputs import maintained as cases

import streamtime
from streamtime import CallError
from streamtime.maintained import target
from streamtime.maintained.additive import MaintainedTotals
from streamtime.maintained.target import nameable, one_of

JOINED = (
    "SELECT d.`na me` AS who, count(*) AS n, count(f.v) AS some, sum(f.v) AS total, sum(v + b) AS more, sum(amount) AS `su m`, "
    "min(v) AS least, max(ts) AS last FROM {s}.f AS f JOIN {s}.d AS d ON f.g = d.g WHERE v IS NULL OR v < 100 GROUP BY d.`na me`"
)
WITHOUT_ROWS = "SELECT k, v > 2 AS high, sum(v) AS total, max(amount) AS most FROM {s}.f GROUP BY k, 2"
COMMITS = [  # what is done between two runs, and how many groups of JOINED are in doubt then
    (  # values change, NULLs come and go, a group comes, rows that are filtered out change, a row is there between two commits only
        [
            "UPDATE {s}.f SET v = v + 1, amount = amount - 0.01 WHERE k = 'hot'",
            "UPDATE {s}.f SET v = 500 WHERE k = 'ann'",
            "INSERT INTO {s}.f VALUES ('new', 7, -5, 9, 1.00, TIMESTAMP '0001-01-01'), ('gone', 1, -99, 1, 0.00, NULL)",
            "INSERT INTO {s}.d VALUES (7, 'seven'), (2, 'two again')",
            "DELETE FROM {s}.f WHERE k = 'gone'",
        ],
        1,
    ),
    (  # both sides at once: keys move, names move, a group vanishes, the last value of a group becomes NULL
        [
            "UPDATE {s}.f SET g = 2 WHERE k = 'bob'",
            "UPDATE {s}.d SET `na me` = NULL WHERE g = 3",
            "DELETE FROM {s}.d WHERE g = 7",
            "UPDATE {s}.f SET v = NULL WHERE g = 4",
        ],
        1,
    ),
    (  # it returns; the newest row of two groups goes; one side has the same row twice
        [
            "INSERT INTO {s}.d VALUES (7, 'seven'), (1, 'one')",
            "DELETE FROM {s}.f WHERE ts = TIMESTAMP '9999-12-31 23:59:59.999999'",
            "MERGE INTO {s}.f t USING (SELECT 'hot' AS k) s ON t.k = s.k WHEN MATCHED AND t.v > 3 THEN UPDATE SET v = v - 3",
        ],
        2,
    ),
    (  # the least value of a group goes and another comes, so that nothing else about it is in doubt
        ["UPDATE {s}.f SET v = 5 WHERE k = 'low'", "INSERT INTO {s}.f VALUES ('new', 2, 1, 1, 1.00, NULL)"],
        1,
    ),
]
AT_ONCE = (  # the same in a few: both sides have a new key, rows come and go in between, a group has its name no more, another its least value
    [
        "INSERT INTO {s}.f VALUES ('new', 7, -5, 9, 1.00, TIMESTAMP '0001-01-01'), ('gone', 1, -99, 1, 0.00, NULL)",
        "INSERT INTO {s}.d VALUES (7, 'seven'), (2, 'two again')",
        "UPDATE {s}.d SET `na me` = NULL WHERE g = 3",
        "UPDATE {s}.f SET v = if(k = 'low', 5, NULL) WHERE k IN ('low', 'gone')",
    ],
    1,
)


@pytest.mark.short("totals that changes are added to")
def test_what_changes_are_added_to_is_what_all_rows_give(spark: SparkSession, schema: str, thorough: bool) -> None:
    spark.sql(f"CREATE TABLE {schema}.f (k STRING, g INT, v INT, b BIGINT, amount DECIMAL(12, 2), ts TIMESTAMP) {cases.FEED}")
    spark.sql(f"CREATE TABLE {schema}.d (g INT, `na me` STRING) {cases.FEED[:-1]}, delta.columnMapping.mode = 'name')")
    spark.sql(
        f"INSERT INTO {schema}.f SELECT * FROM VALUES ('ann', 1, 1, 5000000000, 1.10, TIMESTAMP '2024-01-01'), ('bob', 1, NULL, 1, NULL, NULL), "
        "(NULL, 2, NULL, NULL, 2.50, TIMESTAMP '9999-12-31 23:59:59.999999'), ('', 2, 7, 7, -3.00, NULL), (NULL, NULL, 3, 3, 3.00, NULL), "
        "('cyd', 4, 2, 2, 2.00, NULL), ('low', 1, -70, 0, 0, NULL), ('dee', 3, NULL, NULL, NULL, NULL), "
        "('least', 1, -50, 0, 0, TIMESTAMP '9999-12-31 23:59:59.999998'), ('least', 2, -50, 0, 0, TIMESTAMP '9999-12-31 23:59:59.999998') UNION ALL "
        "SELECT 'hot', cast(id % 3 AS INT), cast(id AS INT), id, cast(id AS DECIMAL(12, 2)), timestamp_seconds(id) FROM range(40)"
    )
    spark.sql(f"INSERT INTO {schema}.d VALUES (1, 'one'), (2, 'two'), (2, 'two'), (3, 'three'), (4, 'four'), (NULL, 'none')")
    streamtime.maintain(spark, f"{schema}.m", JOINED.format(s=schema))
    for texts, doubts in COMMITS if thorough else [AT_ONCE]:
        for text in texts:
            spark.sql(text.format(s=schema))
        done = streamtime.maintain(spark, f"{schema}.m", JOINED.format(s=schema), policy="incremental", shadow=True)
        assert (done.way, done.shadow) == ("incremental", 0), (texts, done)
        assert done.touched is not None
        assert done.added == done.touched - doubts > 0, (texts, done)


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_without_a_count_of_rows_groups_that_lost_one_are_computed_anew(
    spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE TABLE {schema}.f (k STRING, v INT, amount DECIMAL(38, 2)) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.f VALUES ('a', 1, 1), ('a', 9, 2), (NULL, 1, 1), ('b', NULL, NULL), ('c', 1, 1)")
    text = WITHOUT_ROWS.format(s=schema)
    streamtime.maintain(spark, f"{schema}.m", text, properties={"delta.enableChangeDataFeed": "true"})
    seen = []
    for commit in ("INSERT INTO {s}.f VALUES ('a', 2, 5), (NULL, NULL, 1), ('d', 1, 1)", "DELETE FROM {s}.f WHERE k = 'c' OR v = 9"):
        spark.sql(commit.format(s=schema))
        done = streamtime.maintain(spark, f"{schema}.m", text, policy="incremental", shadow=True)
        assert done.shadow == 0, done
        seen.append((done.touched, done.added, done.inserted, done.updated, done.removed))
    assert seen == [(3, 3, 2, 1, 0), (2, 0, 0, 0, 2)]
    assert streamtime.receipts(spark, f"{schema}.m")[1].updated == 1
    properties = dict(map(tuple, spark.sql(f"SHOW TBLPROPERTIES {schema}.m").collect()))
    assert (properties["delta.enableChangeDataFeed"], properties["delta.enableDeletionVectors"]) == ("true", "true")

    def overflows(totals: MaintainedTotals, target: DataFrame) -> None:
        raise ArithmeticException("what came is too large for a sum")

    monkeypatch.setattr(MaintainedTotals, "judged", overflows)
    spark.sql(f"INSERT INTO {schema}.f VALUES ('a', 3, 5)")
    done = streamtime.maintain(spark, f"{schema}.m", text, policy="incremental", shadow=True)
    assert (done.shadow, done.touched, done.added, done.inserted) == (0, 1, 0, 1)


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_of_a_column_without_null_a_sum_is_known_when_rows_went(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.f (id INT, g STRING, v INT) {cases.FEED}")
    spark.sql(f"CREATE TABLE {schema}.d (g STRING, w INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.f VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3), (4, 'c', 4), (5, 'c', 5), (6, NULL, 6)")
    spark.sql(f"INSERT INTO {schema}.d VALUES ('a', 1), ('b', 1), ('c', 1)")
    text = f"SELECT f.g, count(*) AS n, sum(f.v) AS v, sum(w) AS w, sum(f.v + w) AS both FROM {schema}.f JOIN {schema}.d ON f.g = d.g GROUP BY f.g"
    only = text.replace(", sum(f.v + w) AS both", "")
    streamtime.maintain(spark, f"{schema}.both", text)
    streamtime.maintain(spark, f"{schema}.only", only)

    def seen(commit: str) -> list[tuple[int | None, int]]:
        spark.sql(commit.format(s=schema))
        runs = [
            streamtime.maintain(spark, f"{schema}.{name}", query, policy="incremental", shadow=True)
            for name, query in (("only", only), ("both", text))
        ]
        assert [run.shadow for run in runs] == [0, 0], commit
        return [(run.touched, run.added) for run in runs]

    assert seen("DELETE FROM {s}.f WHERE id IN (1, 3)") == [(2, 2), (2, 1)]  # of an expression nobody knows it; 'b' is gone, and so known
    assert seen("INSERT INTO {s}.f VALUES (7, 'a', NULL)") == [(1, 1), (1, 1)]
    assert seen("DELETE FROM {s}.f WHERE id = 2") == [(1, 0), (1, 0)]  # NULL alone is left
    assert seen("UPDATE {s}.f SET v = 7 WHERE id = 7") == [(1, 1), (1, 1)]
    assert seen("DELETE FROM {s}.f WHERE id = 4") == [(1, 1), (1, 0)]


UNITS = [
    (T.StringType(), ["", "it's", "back\\slash", '`q` "x"', "ümlaut 🍵", "\n", None], ["its", "it"]),
    (T.LongType(), [-(2**63), 2**63 - 1, 0, -1, None], [1]),
    (T.IntegerType(), [-(2**31), 2**31 - 1, 0], [None, 5]),
    (T.ByteType(), [-128, None], [127]),
    (T.DecimalType(38, 10), [Decimal("0E-10"), Decimal("-9999999999999999999999999999.9999999999"), None], [Decimal("0.0000000001")]),
    (T.DateType(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1582, 10, 4), None], [datetime.date(1582, 10, 15)]),
    (T.BooleanType(), [True], [False, None]),
]


def test_a_condition_names_units_whatever_they_are(spark: SparkSession) -> None:
    """One row for each value, and pairs of values, of which some are null."""
    name = "o`dd na.me"
    found = None
    for kind, given, others in UNITS:
        assert nameable(kind)
        schema = T.StructType([T.StructField(name, kind), T.StructField("b", T.IntegerType())])
        df = spark.createDataFrame([(value, b) for value in given + others for b in (1, None)], schema)
        single = one_of(T.StructType(schema.fields[:1]), [(value,) for value in given])
        pairs = one_of(schema, [(value, 1 if i % 2 else None) for i, value in enumerate(given)])
        counted = df.selectExpr(
            f"'{kind.simpleString()}' AS kind", f"count_if({single}) AS one", f"count_if({pairs}) AS two", "count(*) AS n"
        )
        found = counted if found is None else found.unionAll(counted)
    assert found is not None
    assert sorted(tuple(row) for row in found.collect()) == sorted(
        (kind.simpleString(), 2 * len(given), len(given), 2 * len(given + others)) for kind, given, others in UNITS
    )


@pytest.mark.parametrize("kind", [T.DoubleType(), T.TimestampType(), T.BinaryType(), T.StringType("UTF8_LCASE")])
def test_of_other_types_none_is_named(kind: T.DataType) -> None:
    """A DOUBLE is -0.0 or NaN, a TIMESTAMP is written in a time zone, a collation calls several values one."""
    assert not nameable(kind)


KEYED = {  # with `key => 'id'`; which of their tables are followed row by row; how the keys that are written are said
    "inner": (
        "SELECT f.id, v, d.name FROM {s}.d AS d JOIN {s}.f f ON d.name IS DISTINCT FROM 'z' AND f.g = d.g WHERE v IS NULL OR v < 9",
        "fd",
        "by name",
    ),
    "left": ("SELECT d.name IS DISTINCT FROM 'x' AS other, x.* FROM {s}.f AS x LEFT JOIN {s}.d AS d ON x.g = d.g", "f", "by keys"),
    "star": ("WITH c AS (SELECT 1 AS one) SELECT *, v * 2 AS twice -- FROM nowhere\nFROM {s}.f ", "f", "by a MERGE"),
}
SAID = {"by name": (2000, target.REPLACES), "by keys": (0, target.REPLACES), "by a MERGE": (0, "spark.no.such.setting")}
CHANGES = {  # what is done between two runs, to which table, so that all ways of writing are taken
    "updated": ("f", ["UPDATE {s}.f SET v = coalesce(-v, 7) WHERE NOT id <=> 2"]),
    "removed": ("f", ["DELETE FROM {s}.f WHERE id IN (3, 8) OR id IS NULL"]),
    "inserted": ("f", ["INSERT INTO {s}.f VALUES (NULL, 2, double('NaN'), 'null'), (10, 3, 1, ''), (11, NULL, NULL, NULL)"]),
    "all three": (
        "f",
        [
            "UPDATE {s}.f SET id = id + 100 WHERE id IN (1, 4)",
            "INSERT INTO {s}.f VALUES (1, 2, 0.0, 'again')",
            "UPDATE {s}.f SET v = 99, g = 1 WHERE id = 5",
        ],
    ),
    "other rows without a key's row": ("f", ["INSERT INTO {s}.f VALUES (2, NULL, NULL, 'joins nothing')", "DELETE FROM {s}.f WHERE `wh at` LIKE 'j%'"]),
    "several commits": ("f", ["UPDATE {s}.f SET v = 5 WHERE id IN (6, 7)", "UPDATE {s}.f SET v = 0.0D WHERE id = 6", "UPDATE {s}.f SET v = -7 WHERE id = 7"]),
    "not shown": ("f", ["UPDATE {s}.f SET `wh at` = concat(`wh at`, '!') WHERE id = 7"]),
    "the other side": ("d", ["UPDATE {s}.d SET name = concat(name, 'x') WHERE g < 3", "DELETE FROM {s}.d WHERE g = 3", "INSERT INTO {s}.d VALUES (9, 'nine')"]),
}  # fmt: skip


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_rows_that_changes_lead_to_are_put_in_their_places(spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed meets the other tables, and nothing else is computed again; by conditions that name keys, and by none."""
    spark.sql(f"CREATE TABLE {schema}.f (id INT, g INT, v DOUBLE, `wh at` STRING) {cases.FEED[:-1]}, delta.columnMapping.mode = 'name')")
    spark.sql(f"CREATE TABLE {schema}.d (g INT, name STRING) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.f SELECT id, id % 4, IF(id % 3 = 0, 0.0D, id), concat('w', id) FROM range(1, 10)")
    spark.sql(f"INSERT INTO {schema}.f VALUES (NULL, 1, NULL, NULL)")
    spark.sql(f"INSERT INTO {schema}.d VALUES (1, 'one'), (2, NULL), (3, 'x'), (0, 'z')")
    tables = {f"{schema}.{name}": text.format(s=schema) for name, (text, _, _) in KEYED.items()}
    for name, text in tables.items():
        streamtime.maintain(spark, name, text, key="id")
    ways = set()
    for what, (table, statements) in CHANGES.items():
        for statement in statements:
            spark.sql(statement.format(s=schema))
        for name, (_, followed, said) in KEYED.items():
            few, setting = SAID[said]
            monkeypatch.setattr("streamtime.maintained.maintaining.FEW", few)
            monkeypatch.setattr(target, "REPLACES", setting)
            done = streamtime.maintain(spark, f"{schema}.{name}", tables[f"{schema}.{name}"], key="id", policy="incremental")
            assert done.way in ("incremental", "none"), (what, done)
            if done.way == "incremental" and table in followed:
                assert done.added == done.touched, (what, done)
            if what == "not shown":  # by the query that does not show all columns of the table
                assert done.updated == (name != "inner"), done
            ways |= {(said, *(kind for kind in ("inserted", "updated", "removed") if getattr(done, kind)))}
        assert cases.differences(spark, tables) == {}, what
    each = [("inserted",), ("updated",), ("removed",), ("inserted", "updated", "removed")]
    assert ways >= {(said, *kinds) for said in SAID for kinds in each}, ways


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_a_key_that_two_rows_come_to_have_is_refused(spark: SparkSession, schema: str) -> None:
    """Whether both come at once, or one was there before; and what is refused is not written."""
    spark.sql(f"CREATE TABLE {schema}.f (id INT, v INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.f VALUES (1, 1), (NULL, 2)")
    for text in ("SELECT * FROM {s}.f WHERE v > 0", "SELECT f.id, f.v + 0 AS v FROM {s}.f f WHERE f.v > 0"):
        streamtime.maintain(spark, f"{schema}.m", text.format(s=schema), key="id")
        for rows, twin in (("(1, 9)", "id = 1"), ("(NULL, 9)", "id = None"), ("(5, 9), (5, 9)", "id = 5")):
            spark.sql(f"INSERT INTO {schema}.f VALUES {rows}")
            with pytest.raises(CallError, match=f"the result has 2 rows with {twin}"):
                streamtime.maintain(spark, f"{schema}.m", text.format(s=schema), key="id", policy="incremental")
            spark.sql(f"DELETE FROM {schema}.f WHERE v = 9")
        assert streamtime.maintain(spark, f"{schema}.m", text.format(s=schema), key="id", shadow=True).shadow == 0
