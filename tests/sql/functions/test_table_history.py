"""TABLE_HISTORY: every operation of Delta, held against the table's own contents at each of its versions; ranges; errors in words."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import streamtime

OPERATIONS = (
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (NULL, 'no key')",
    "UPDATE {t} SET v = 'c' WHERE k = 1",
    "UPDATE {t} SET v = 'c' WHERE k = 1",  # to what it was
    "DELETE FROM {t} WHERE k = 2",
    "MERGE INTO {t} USING (SELECT 3 AS k, 'm' AS v UNION ALL SELECT 1, 'n') s ON {t}.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "INSERT OVERWRITE {t} VALUES (1, 'n'), (4, 'o')",  # one row stays as it was
    "RESTORE TABLE {t} TO VERSION AS OF 6",
    "ALTER TABLE {t} ADD COLUMN z INT",
    "INSERT INTO {t} VALUES (2, 'again', 5)",
    "OPTIMIZE {t}",
    "UPDATE {t} SET k = 7 WHERE k = 3",  # a row that changes its key
)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[str]:
    """Made as most tables are that get the feed later: empty when it is enabled."""
    few = {
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }
    before = {name: spark.conf.get(name, None) for name in few}
    for name, value in few.items():
        spark.conf.set(name, value)
    spark.sql("CREATE SCHEMA histories")
    spark.sql("CREATE TABLE histories.t (k INT, v STRING) USING delta")
    spark.sql("ALTER TABLE histories.t SET TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'k')")
    for operation in OPERATIONS:
        spark.sql(operation.format(t="histories.t"))
    yield "histories.t"
    spark.sql("DROP SCHEMA histories CASCADE")
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


Row = tuple[Any, ...]


def by_snapshots(spark: SparkSession, table: str, latest: int, columns: list[str]) -> set[Row]:
    """The slow definition: what the table shows at each version; a version of a key goes on as long as its row stays the same."""
    found, live = set(), {}
    for version in range(latest + 1):
        shown = spark.sql(f"SELECT * FROM {table} VERSION AS OF {version}")
        missing = [F.lit(None).alias(c) for c in columns if c not in shown.columns]
        rows = {r["k"]: tuple(r[c] for c in columns) for r in shown.select("*", *missing).collect() if r["k"] is not None}
        for key in [k for k, (row, _) in live.items() if rows.get(k) != row]:
            row, begins = live.pop(key)
            found.add((*row, begins, version))
        for key, row in rows.items():
            live.setdefault(key, (row, version))
    return found | {(*row, begins, None) for row, begins in live.values()}


def versions(df: Any, columns: list[str]) -> list[Row]:
    return [tuple(r[c] for c in (*columns, "from_version", "to_version")) for r in df.collect()]


def test_every_operation_of_delta(spark: SparkSession, table: str) -> None:
    expected = by_snapshots(spark, table, len(OPERATIONS) + 1, ["k", "v", "z"])
    assert len(expected) == 9
    df = spark.sql(f"SELECT * FROM TABLE_HISTORY('{table}')")
    assert df.columns == ["k", "v", "z", "valid_from", "valid_to", "from_version", "to_version"]
    assert sorted(map(str, versions(df, ["k", "v", "z"]))) == sorted(map(str, expected))
    at = {r.version: r.timestamp for r in spark.sql(f"DESCRIBE HISTORY {table}").collect()} | {None: None}
    assert all((r.valid_from, r.valid_to) == (at[r.from_version], at[r.to_version]) for r in df.collect())


def test_a_range_has_what_its_commits_began_or_ended(spark: SparkSession, table: str) -> None:
    whole = versions(spark.sql(f"SELECT * FROM TABLE_HISTORY('{table}')"), ["k", "v", "z"])
    for first, last in ((0, 12), (3, 6), (5, 5), (8, 12), (9, 9)):
        got = versions(spark.sql(f"SELECT * FROM TABLE_HISTORY('{table}', from => {first}, to => {last})"), ["k", "v", "z"])
        expected = []
        for *row, begins, ends in whole:
            began, ended = first <= begins <= last, ends is not None and first <= ends <= last
            if began or ended:
                expected.append((*row, begins if began else None, ends if ended else None))
        assert sorted(map(str, got)) == sorted(map(str, expected)), (first, last)


def test_times_name_commits_and_every_door_takes_them(spark: SparkSession, table: str) -> None:
    at = {r.version: r.at for r in spark.sql(f"DESCRIBE HISTORY {table}").selectExpr("version", "string(timestamp) AS at").collect()}
    expected = sorted(map(str, spark.sql(f"SELECT * FROM TABLE_HISTORY('{table}', from => 3, to => 6)").collect()))
    for first, last in ((f"'{at[3]}'", f"TIMESTAMP '{at[6]}'"), (f"TIMESTAMP '{at[2]}' + INTERVAL '0.000001' SECOND", "6")):
        text = f"SELECT * FROM TABLE_HISTORY('{table}', keys => ARRAY('K'), from => {first}, to => {last})"
        for got in (spark.sql(text), streamtime.query(spark, text)):
            assert sorted(map(str, got.collect())) == expected
    settings = {"spark.sql.session.timeZone": "America/St_Johns", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    before = {name: spark.conf.get(name) for name in settings}
    spark.conf.set("spark.sql.session.timeZone", settings["spark.sql.session.timeZone"])
    local = {r.version: r.at for r in spark.sql(f"DESCRIBE HISTORY {table}").selectExpr("version", "string(timestamp) AS at").collect()}
    text = f"SELECT * EXCEPT (valid_from, valid_to) FROM TABLE_HISTORY('{table}', from => {{}}, to => {{}})"
    numbered = sorted(map(str, spark.sql(text.format(3, 6)).collect()))
    try:  # a time without a zone is one of the session's
        for name, (first, last) in (
            ("", ("TIMESTAMP_NTZ '{}'", "TIMESTAMP_NTZ '{}'")),
            ("spark.sql.timestampType", ("TIMESTAMP '{}'", "'{}'")),
        ):
            spark.conf.set(name, settings[name]) if name else None
            zoneless = text.format(first.format(local[3]), last.format(local[6]))
            for got in (spark.sql(zoneless), streamtime.query(spark, zoneless)):
                assert sorted(map(str, got.collect())) == numbered, zoneless
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert sorted(map(str, streamtime.table_history(spark, table, keys=["k"], from_=3, to=6).collect())) == expected
    spark.sql(f"CREATE OR REPLACE TEMP VIEW known AS SELECT * FROM TABLE_HISTORY('{table}')")
    lookup = "SELECT v FROM known WHERE k = 1 AND from_version <= 4 AND (to_version IS NULL OR 4 < to_version)"
    assert [r.v for r in spark.sql(lookup).collect()] == ["c"]


def test_random_merges_with_deletion_vectors_equal_the_snapshots(spark: SparkSession, schema: str) -> None:
    random_ = random.Random(1)
    t = f"{schema}.t"
    spark.sql(
        f"CREATE TABLE {t} (k INT, v STRING) USING delta"
        f" TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)"
    )
    for _ in range(3):
        rows = ", ".join(f"({k}, '{random_.choice('xyz')}', {random_.random() < 0.3})" for k in random_.sample(range(6), 4))
        spark.sql(
            f"MERGE INTO {t} USING (SELECT * FROM VALUES {rows} AS s(k, v, gone)) s ON {t}.k = s.k WHEN MATCHED AND gone THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (k, v)"
        )
    got = versions(spark.sql(f"SELECT * FROM TABLE_HISTORY('{t}', keys => ARRAY('k'))"), ["k", "v"])
    assert sorted(map(str, got)) == sorted(map(str, by_snapshots(spark, t, 3, ["k", "v"])))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("'{t}', from => 99", r"`from`: `histories`.`t` has no commit 99: available are commits 1 \(\d+-\d\d-\d\d .* UTC\) to 12 "),
        ("'{t}', from => 5, to => 4", r"`to`: expected a commit not before `from` \(5\), got 4"),
        ("'{t}', from => 'soon'", r"`from`: expected the number of a commit, or a time, got 'soon'. Write it as '2024-05-01 10:00:00'"),
        ("'{t}', to => '1999-01-01'", r"`to`: there is no commit at or before '1999-01-01': the first is of "),
        ("'{t}', from => -1", r"`from`: expected the number of a commit, or a time, got -1 \(INT\)"),
        ("'{t}', keys => ARRAY('kk')", r"`keys`: no column `kk` in the table `histories`.`t`. Did you mean `k`\?"),
        ("'{t}', key => ARRAY('k')", r"`key`: no such option. Did you mean `keys`\?"),
        ("'{t}', '{t}'", r"expected named options \(name => value\), got 'histories.t' without a name"),
        ("'{t}', table => '{t}'", r"`table`: given twice"),
        ("", r"`table`: is required: the name of a Delta table, 'catalog.schema.table'. Write it as TABLE_HISTORY\('table'\)"),
        ("TABLE(VALUES (1))", r"expected no TABLE argument, got 1. Write it as TABLE_HISTORY\('table'\)"),
        ("'histories.nothing'", r"there is no table `histories`.`nothing`"),
        ("'histories..t'", r"expected the name of a table, got 'histories..t'. Write it as 'catalog.schema.table'"),
        ("'a.b.c.d'", r"expected the name of a table, got 'a.b.c.d'"),
        ("'plain'", r"`plain` is not a Delta table. Only Delta tables keep their history"),
        ("'some_view'", r"`some_view` is a view, and a view has no versions of its own. Name its table"),
    ],
)
def test_a_wrong_call_is_refused_in_words(spark: SparkSession, table: str, call: str, message: str) -> None:
    spark.sql("CREATE TABLE IF NOT EXISTS plain (k INT) USING parquet")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW some_view AS SELECT * FROM {table}")
    with pytest.raises(AnalysisException, match=r"^TABLE_HISTORY") as caught:
        spark.sql(f"SELECT * FROM TABLE_HISTORY({call.format(t=table)})")
    assert re.search(message, str(caught.value)), caught.value


def test_what_is_not_recorded_is_an_error_that_says_what_is(spark: SparkSession, table: str, schema: str) -> None:
    t = f"{schema}.late"
    spark.sql(f"CREATE TABLE {t} (k INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {t} VALUES (1, 'a')")
    text = f"SELECT * FROM TABLE_HISTORY('{t}', keys => ARRAY('k')"
    with pytest.raises(
        AnalysisException, match=r"has no change data feed.*Enable it with ALTER TABLE .* \(delta.enableChangeDataFeed = true\)"
    ):
        spark.sql(f"{text})")
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    with pytest.raises(
        AnalysisException, match=r"is not complete: available are commits 2 .* to 2 .*, since the change data feed was enabled there"
    ):
        spark.sql(f"{text})")
    with pytest.raises(AnalysisException, match=r"`from`: commit 1 of .* is not available: available are commits 2 "):
        spark.sql(f"{text}, from => 1)")
    with pytest.raises(
        AnalysisException, match=r"`keys`: is missing, and the table .* declares no key. Add keys => ARRAY\('id'\), or declare it"
    ):
        spark.sql(f"SELECT * FROM TABLE_HISTORY('{t}', from => 2)")
    spark.sql(f"UPDATE {t} SET v = 'b'")
    assert versions(spark.sql(f"{text}, from => 2)"), ["k", "v"]) == [(1, "a", None, 3), (1, "b", 3, None)]
    spark.sql(f"INSERT INTO {t} VALUES (2, 'x'), (2, 'y')")
    with pytest.raises(SparkRuntimeException, match=r"the commit 4 of .* wrote 2 rows of the key k = 2: one is expected"):
        spark.sql(f"SELECT count(*) FROM TABLE_HISTORY('{t}', keys => ARRAY('k'), from => 2)").collect()
    spark.sql(f"VACUUM {t} RETAIN 0 HOURS")
    with pytest.raises(
        AnalysisException, match=r"available are commits 5 .* to 6 .*, since files of older commits were vacuumed. Add from => 5"
    ):
        spark.sql(f"{text})")
    spark.sql(f"INSERT INTO {t} VALUES (3, 'z')")
    assert versions(spark.sql(f"{text}, from => 5)"), ["k", "v"]) == [(3, "z", 7, None)]
    spark.sql(f"ALTER TABLE {t} ADD COLUMN valid_to INT")
    with pytest.raises(AnalysisException, match=r"has a column `valid_to`, which this call adds. Rename it"):
        spark.sql(f"{text}, from => 5)")


def test_a_table_that_was_replaced_with_other_columns_begins_anew(spark: SparkSession, schema: str) -> None:
    t = f"{schema}.replaced"
    settings = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'k')"
    spark.sql(f"CREATE TABLE {t} (k STRING, a INT, b INT) {settings}")
    spark.sql(f"INSERT INTO {t} VALUES ('x', 1, 2), ('y', 3, 4)")
    spark.sql(f"CREATE OR REPLACE TABLE {t} {settings} AS SELECT 'x' AS k, 1 AS a, 2 AS b, 3 AS c")  # one column more
    assert versions(spark.sql(f"SELECT * FROM TABLE_HISTORY('{t}')"), ["k", "b", "c"])[:1] == [("x", 2, None, 1, 2)]
    spark.sql("SELECT 'x' AS k, 5 AS a").write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(t)
    text, lookup = (
        f"SELECT * FROM TABLE_HISTORY('{t}'",
        f"SELECT * FROM VALUES (1, 'x') AS e(n, k) JOIN {t} VERSION AS OF e.n p ON e.k = p.k",
    )
    for asked, problem in (
        (
            f"{text})",
            r"is not complete: available are commits 3 .* to 3 .*, since the table was replaced there, with other columns. Add from => 3",
        ),
        (f"{text}, to => 2)", "is not complete: available are commits 3 "),
        (f"{text}, from => 2)", "`from`: commit 2 of .* is not available"),
        (lookup, "`history`: the history of .* is not complete"),
    ):
        with pytest.raises(AnalysisException, match=problem):
            spark.sql(asked)
    assert versions(spark.sql(f"{text}, from => 3)"), ["k", "a"]) == [("x", 1, None, 3), ("x", 5, 3, None)]
    spark.sql(f"CREATE OR REPLACE TABLE {t} {settings} AS SELECT 'x' AS k, 'one' AS a")  # of another type
    with pytest.raises(
        AnalysisException, match=r"begins after its last commit \(4\): the table was replaced there, with other columns. Ask again"
    ):
        spark.sql(f"{text})")
    spark.sql(f"INSERT INTO {t} VALUES ('z', 'two')")
    assert versions(spark.sql(f"{text}, from => 5)"), ["k", "a"]) == [("z", "two", 5, None)]


RENAMES = (
    "INSERT INTO {t} VALUES ('a', 1, 'x'), ('b', 2, 'y')",
    "UPDATE {t} SET v = 3 WHERE k = 'a'",
    'ALTER TABLE {t} RENAME COLUMN v TO `the "v.alue`',
    'UPDATE {t} SET `the "v.alue` = 4 WHERE k = "a"',
    "ALTER TABLE {t} RENAME COLUMN k TO id",
    "ALTER TABLE {t} DROP COLUMN w",
    "DELETE FROM {t} WHERE id = 'b'",
    "ALTER TABLE {t} ADD COLUMN w INT",  # another one of that name
    'ALTER TABLE {t} RENAME COLUMN `the "v.alue` TO v',
    "INSERT INTO {t} VALUES ('c', 9, 7)",
    "ALTER TABLE {t} RENAME COLUMN w TO k",  # a name that another column had
)


def test_columns_that_were_renamed_and_dropped_are_the_same_columns(spark: SparkSession, schema: str) -> None:
    t, nested = f"{schema}.renamed", f"{schema}.nested"
    options = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, 'delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE {t} (k STRING, v INT, w STRING) {options}")
    for statement in RENAMES:
        spark.sql(statement.format(t=t))
    whole = spark.sql(f"SELECT * FROM TABLE_HISTORY('{t}', keys => ARRAY('id'))")
    assert whole.columns == ["id", "v", "k", "valid_from", "valid_to", "from_version", "to_version"]
    expected = [("a", 1, None, 1, 2), ("a", 3, None, 2, 4), ("a", 4, None, 4, None), ("b", 2, None, 1, 7), ("c", 9, 7, 10, None)]
    assert sorted(versions(whole, ["id", "v", "k"]), key=str) == sorted(expected, key=str)
    part = spark.sql(f"SELECT * FROM TABLE_HISTORY('{t}', keys => ARRAY('id'), from => 3, to => 7)")
    assert part.columns[:2] == ["id", 'the "v.alue']
    assert sorted(versions(part, part.columns[:2]), key=str) == [("a", 3, None, 4), ("a", 4, 4, None), ("b", 2, None, 7)]
    asked = f"SELECT n, p.id, v FROM asks o JOIN {t} VERSION AS OF o.n p"
    spark.createDataFrame([(n, id_) for n in (0, 1, 2, 4, 7, 10) for id_ in "ab"], "n INT, id STRING").createOrReplaceTempView("asks")
    found = sorted(tuple(r) for r in spark.sql(f"{asked} ON o.id = p.id").collect())
    assert found == [(1, "a", 1), (1, "b", 2), (2, "a", 3), (2, "b", 2), (4, "a", 4), (4, "b", 2), (7, "a", 4), (10, "a", 4)]
    spark.sql(f"CREATE TABLE {nested} (k STRING, s STRUCT<x: INT, y: INT>) {options}")
    spark.sql(f"ALTER TABLE {nested} RENAME COLUMN s.x TO z")
    message = (
        r"commit 1 of .*nested.* \(RENAME COLUMN `s`.`x`\) changed fields within a column.*to => 0\) and TABLE_HISTORY\(.., from => 1\)"
    )
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"SELECT * FROM TABLE_HISTORY('{nested}', keys => ARRAY('k'))")
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"SELECT * FROM asks JOIN {nested} VERSION AS OF asks.n p ON asks.id = p.k")
    assert spark.sql(f"SELECT * FROM TABLE_HISTORY('{nested}', keys => ARRAY('k'), from => 1)").collect() == []


def test_a_version_is_told_from_another_by_bits(spark: SparkSession, schema: str) -> None:
    """-0.0 is not 0.0, wherever it stands; NaN is NaN; of what cannot be compared, a microsecond makes another version."""
    t = f"{schema}.bits"
    columns = "k INT, d DOUBLE, s STRUCT<a: ARRAY<FLOAT>, ts: TIMESTAMP>, m MAP<STRING, TIMESTAMP>"
    spark.sql(f"CREATE TABLE {t} ({columns}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    at = "TIMESTAMP '2024-10-27 01:00:00.000001'"
    spark.sql(
        f"INSERT INTO {t} SELECT k, 0.0D, named_struct('a', array(float(0.0)), 'ts', {at}), map('x', {at}) FROM VALUES (1), (2), (3) v(k)"
    )
    spark.sql(f"INSERT INTO {t} VALUES (4, double('NaN'), NULL, NULL)")
    for change, some in (
        ("d = -0.0D", "k = 1"),
        ("s = named_struct('a', array(float('-0.0')), 'ts', s.ts)", "k = 2"),
        ("m = map('x', m['x'] + INTERVAL 1 MICROSECOND)", "k = 3"),
        ("d = double('NaN')", "k = 4"),
        ("d = d, s = s", "k < 4"),
    ):
        spark.sql(f"UPDATE {t} SET {change} WHERE {some}")
    found = spark.sql(f"SELECT k, string(d) AS d, from_version, to_version FROM TABLE_HISTORY('{t}', keys => ARRAY('k'))").collect()
    expected = [(1, "0.0", 1, 3), (1, "-0.0", 3, None), (2, "0.0", 1, 4), (2, "0.0", 4, None), (3, "0.0", 1, 5), (3, "0.0", 5, None)]
    assert sorted(map(tuple, found), key=str) == sorted([*expected, (4, "NaN", 2, None)], key=str)
