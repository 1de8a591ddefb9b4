"""What a put takes, in which order, and by which stream time: tables that others changed, zones, batches that share a name, rows that do not fit."""

from __future__ import annotations

import datetime
import decimal
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from support.times import micros, moment

from streamtime import CallError, VersionedTable
from streamtime.store.fitting import fitting
from streamtime.store.puts import batch_name

DDL = "k STRING, t TIMESTAMP, v STRING"
YEAR = 365 * 86_400_000_000


def table_of(spark: SparkSession, schema: str, ddl: str = DDL, **options: Any) -> VersionedTable:
    return VersionedTable.create(spark, f"{schema}.t", ddl, **{"key": "k", "time": "t"} | options)


@pytest.mark.parametrize("way", ["rows", "frame"])
def test_stream_time_is_what_the_table_has_though_its_newest_rows_are_gone(spark: SparkSession, schema: str, way: str) -> None:
    table = table_of(spark, schema, grace="1 day")
    table.put([("a", moment(80 * YEAR, 1), "a typo")])
    if way == "rows":
        spark.sql(f"DROP TABLE {table.table}")
        table_of(spark, schema, grace="1 day")
    else:
        spark.sql(f"RESTORE {table.table} TO VERSION AS OF 0")
    rows = [("a", moment(5 * YEAR, 1), "right")]
    assert table.put(rows if way == "rows" else spark.createDataFrame(rows, DDL)).accepted == 1
    assert [micros(row.t) for row in spark.table(table.table).collect()] == [5 * YEAR]
    late = [("a", moment(4 * YEAR, 1), "late")]
    assert table.put(late if way == "rows" else spark.createDataFrame(late, DDL)).counts == {"too_old": 1}


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python is in a zone with a gap in spring, whatever the session's is."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_lookup_finds_the_time_that_was_put_whatever_the_zones(spark: SparkSession, schema: str, berlin: None) -> None:
    table = table_of(spark, schema, "k TIMESTAMP_NTZ, t TIMESTAMP_NTZ, v STRING")
    first, gap = datetime.datetime(1, 1, 1, 0, 30), datetime.datetime(2024, 3, 31, 2, 30, 0, 1)  # which no clock of Berlin shows
    before, after = (gap + datetime.timedelta(microseconds=d) for d in (-1, 1))
    table.put([(gap, first, "first"), (gap, gap, "in the gap"), (gap, after, "after it")])
    aware = gap.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=5)))  # what is stored has no zone
    values = [row and row.v for row in (table.get(key, at) for key, at in ((gap, before), (gap, gap), (aware, aware), (gap, after)))]
    assert values == ["first", "in the gap", "in the gap", "after it"]
    assert [row.v for row in table.history(gap, gap, gap)] == ["in the gap"]
    was = table.delete(gap, after)
    assert (was and was.v) == "after it"


def test_many_deletions_share_the_name_of_a_batch(spark: SparkSession, schema: str) -> None:
    table = table_of(spark, schema)
    table.put([(k, moment(1), k) for k in "abc"], batch_id="file 17")
    for _ in range(2):
        assert [row and row.v for row in (table.delete(k, moment(2), batch_id="file 17") for k in "ab")] == ["a", "b"]
    assert spark.table(table.table).where("_deleted").count() == 2
    assert table.get("a") is None
    for key, at, problem in ((None, moment(3), "`k` is null"), ("c", None, "`t` is null")):
        with pytest.raises(CallError, match=f"delete: {problem}. Give the key, and the time"):
            table.delete(key, at)


def test_a_deletion_among_puts_of_other_threads_says_what_was_there(spark: SparkSession, schema: str) -> None:
    table = table_of(spark, schema)
    table.put([("a", moment(1), "first"), ("b", moment(1), "second")])
    writer = table._writer
    with writer.gate:
        writer.busy = True  # somebody writes, and both wait
    with ThreadPoolExecutor(2) as pool:
        put = pool.submit(table.put, [("c", moment(1), "third")])
        deleted = pool.submit(table.delete, "b", moment(2))
        until = time.monotonic() + 60
        while len(writer.waiting) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        writer._let_go()
        was = deleted.result()
        assert put.result().accepted == 1
    assert (was and was.v) == "second"
    assert [row and row.v for row in map(table.get, "abc")] == ["first", None, "third"]


def test_batches_of_two_applications_have_two_names() -> None:
    assert batch_name("a", "b:c") != batch_name("a:b", "c") == "a:b:c"


def test_rows_of_a_frame_go_in_the_order_that_is_said(spark: SparkSession, schema: str) -> None:
    table = table_of(spark, schema)
    rows = [("a", moment(1), "low", 1, None), ("a", moment(1), "high", 2, 1), ("a", moment(1), "none", None, 0)]
    df = spark.createDataFrame(rows, f"{DDL}, off INT, p INT").repartition(3)
    won = []
    for order_by in ("OFF desc", ["off"], ["struct(p, off) DESC"]):
        nulls = 0 if "p" in order_by[0] else 1  # in the first of the order
        assert table.put(df.drop("p") if nulls else df, order_by=order_by).counts.get("null_time", 0) == nulls
        row = table.get("a")
        won.append(row and row.v)
    assert won == ["low", "high", "low"]
    with pytest.raises(CallError, match=r"`order_by`: Spark cannot resolve it: .*of_f.* Write it over the DataFrame's columns"):
        table.put(df.drop("p"), order_by=["off", "of_f"])
    assert table.put(df.drop("t", "off", "p")).counts == {"null_time": 3}


AT = datetime.datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [("DOUBLE", 3, 3.0), ("FLOAT", -1, -1.0), ("DECIMAL(9,2)", 3, decimal.Decimal(3)), ("BINARY", bytearray(b"x"), b"x"), ("INT", 3, 3),
     ("DATE", AT, AT), ("STRING", "3", "3"), ("ARRAY<INT>", [1, None], [1, None]), ("VARIANT", 1, 1), ("BIGINT", None, None)],
)  # fmt: skip
@pytest.mark.usefixtures("spark")
def test_values_that_fit(kind: str, given: Any, kept: Any) -> None:
    fitted = fitting(T.StructField("v", T.DataType.fromDDL(kind)), "X")(given, "put")
    assert (fitted, type(fitted)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [("TIMESTAMP", "2024-01-01", "expected TIMESTAMP for `v`, got '2024-01-01' (str). Give it as datetime.datetime."),
     ("TIMESTAMP", AT.date(), "got datetime.date(2024, 1, 1) (date). Give it as datetime.datetime."),
     ("TIMESTAMP_NTZ", 3, "expected TIMESTAMP_NTZ for `v`, got 3 (int). Give it as datetime.datetime."),
     ("STRING", ["a"], "expected STRING for `v`, got ['a'] (list). Give it as str."),
     ("STRING", 3, "expected STRING for `v`, got 3 (int). Give it as str."),
     ("BOOLEAN", 1, "expected BOOLEAN for `v`, got 1 (int). Give it as bool."),
     ("DOUBLE", True, "expected DOUBLE for `v`, got True (bool). Give it as float."),
     ("DOUBLE", 10**400, "(int). Give it as float."),
     ("DECIMAL(9,2)", 1.5, "expected DECIMAL(9,2) for `v`, got 1.5 (float). Give it as decimal.Decimal."),
     ("INT", 1 << 31, "expected INT for `v`, got 2147483648 (int)."),
     ("ARRAY<INT>", [1, "x"], "expected ARRAY<INT> for `v`, got [1, 'x'] (list)."),
     ("BIGINT NOT NULL", None, "`v` is NOT NULL, and got None. Give it a value.")],
)  # fmt: skip
@pytest.mark.usefixtures("spark")
def test_values_that_do_not_fit(kind: str, given: Any, said: str) -> None:
    (field,) = T.StructType.fromDDL(f"v {kind}")
    with pytest.raises(CallError, match=rf"^X, put: .*{re.escape(said)}$"):
        fitting(field, "X")(given, "put")


def test_rows_that_do_not_fit_are_refused_in_words(spark: SparkSession, schema: str) -> None:
    table = table_of(spark, schema, "k INT, t TIMESTAMP, v DOUBLE, s STRUCT<a: INT, b: INT>")
    assert table.put([(1, AT, 2, (1, 2)), {"k": 2, "t": AT, "v": 2.5}]).accepted == 2
    with pytest.raises(CallError, match=r"VersionedTable, put: expected TIMESTAMP for `t`, got '2024-01-01' \(str\)"):
        table.put([(1, "2024-01-01", 2, None)])
    with pytest.raises(CallError, match=r"VersionedTable, delete: expected INT for `k`, got \['a'\] \(list\)"):
        table.delete(["a"], AT)
    for frame, problem in {
        "SELECT 1.7D AS k": "has `k` as DOUBLE, and the table .* as INT",
        "SELECT 'abc' AS k": "has `k` as STRING, and the table .* as INT",
        "SELECT 1 AS k, '2024-01-01' AS t": "has `t` as STRING, and the table .* as TIMESTAMP",
        "SELECT 1 AS k, named_struct('b', 1, 'a', 2) AS s": "has `s` as STRUCT<B:INT,A:INT>, and the table .* as STRUCT<A:INT,B:INT>",
    }.items():
        with pytest.raises(CallError, match=f"VersionedTable, the DataFrame: {problem}. Cast it"):
            table.put(spark.sql(frame))
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Exception, match=r"a value of `k` \(BIGINT\) does not fit into INT, which .* has"):
            table.put(spark.sql("SELECT 4294967297 AS k, TIMESTAMP '2024-01-02' AS t"))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(ansi))
    assert table.put(spark.sql("SELECT 3L AS k, TIMESTAMP '2024-01-02' AS t, 7 AS v, NULL AS s")).accepted == 1
    assert {(row.k, row.v) for row in spark.table(table.table).collect()} == {(1, 2.0), (2, 2.5), (3, 7.0)}


def test_a_key_of_char_is_refused_since_what_is_stored_is_padded(spark: SparkSession, schema: str) -> None:
    with pytest.raises(
        CallError, match=r"`key`: `k` is CHAR\(5\), whose values are stored with blanks, so no put would find them. .* STRING"
    ):
        table_of(spark, schema, "k CHAR(5), t TIMESTAMP, v CHAR(3)")
    table = table_of(spark, schema, "k VARCHAR(5), t TIMESTAMP, v CHAR(3)")
    for value in ("one", "two"):
        table.put([("ab", AT, value)])
    assert [row.v for row in spark.table(table.table).collect()] == ["two"]
