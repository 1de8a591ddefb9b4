"""What a table says of itself is data: its properties, the names of its columns, whoever wrote them."""

from __future__ import annotations

import base64
import datetime
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import streamtime
from streamtime import VersionedTable
from streamtime.sql.syntax.text import quoted
from streamtime.sql.tables.declaration import read
from streamtime.sql.tables.marks import DEEPEST, mark

SCHEMA = T.StructType().add("k", "string").add("ts", "timestamp").add("v", "integer").add("Gone", "boolean").add("a.b`c 'd", "string")
SCHEMA = SCHEMA.add("s", T.StructType().add("x y", "string").add("Off", "boolean")).add("or", "integer").add("date", "date")
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("gone", "`Gone`"),
        (" `GONE` -- a comment", "`Gone`"),
        ("NOT gone", "(NOT `Gone`)"),
        ("v IS NULL", "(`v` IS NULL)"),
        ("v is not null AND NOT (v = 1 OR v<>-2.5e3)", "((`v` IS NOT NULL) AND (NOT ((`v` = 1) OR (`v` <> -2.5e3))))"),
        ("v = 1 or v = 2 and v = 3", "((`v` = 1) OR ((`v` = 2) AND (`v` = 3)))"),
        ("k IN ('a', 'it''s', \"say \"\"so\"\"\")", "(`k` IN ('a', 'it\\'s', 'say \"so\"'))"),
        ("k NOT IN ('reflect(1)')", "(`k` NOT IN ('reflect(1)'))"),
        ("3 < v", "(`v` > 3)"),
        ("v == 1", "(`v` = 1)"),
        ("v != +.5", "(`v` <> .5)"),
        ("v <=> NULL", "(`v` <=> NULL)"),
        ("(v > 3) IS NOT TRUE", "((`v` > 3) IS NOT TRUE)"),
        ("gone = false", "(`Gone` = FALSE)"),
        ("ts >= TIMESTAMP '2024-01-01 00:00:00Z'", "(`ts` >= TIMESTAMP '2024-01-01 00:00:00Z')"),
        ("date < DATE '2024-01-01'", "(`date` < DATE '2024-01-01')"),
        ("`a.b``c 'd` = ''", "(`a.b``c 'd` = '')"),
        ("S.`X Y` = '/* no comment */'", "(`s`.`x y` = '/* no comment */')"),
        ("s.off", "`s`.`Off`"),
        ("`or` = 1", "(`or` = 1)"),
        ("k = '日本 \n 🙂'", "(`k` = '日本 \n 🙂')"),
    ],
)
def test_a_simple_condition_is_written_anew(text: str, sql: str) -> None:
    assert mark(text, SCHEMA) == (sql, "Gone" if sql == "`Gone`" else None)
    if "\\" not in sql:
        assert mark(sql, SCHEMA)[0] == sql  # its own text is one, too


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'exit', '1')",
        "java_method('java.lang.System', 'exit', '1')",
        "try_reflect('java.lang.System', 'exit', '1') IS NULL",
        "gone OR reflect('java.lang.System', 'setProperty', 'a', 'b') = 'x'",
        "k = reflect('java.lang.System', 'getProperty', 'user.name')",
        "k IN (reflect('a', 'b'))",
        "k IN (SELECT k FROM secrets)",
        "EXISTS (SELECT 1)",
        "(SELECT true)",
        "`reflect`('java.lang.System', 'exit', '1')",
        "reflect/**/('a', 'b')",
        "`gone`('a')",
        "gone; DROP TABLE t",
        "gone) OR (true",
        "gone OR",
        "(gone",
        "gone gone",
        "v + 1 = 2",
        "v = -v",
        "v = or",
        "1 = 1",
        "TRUE",
        "v = 1 = 2",
        "v",
        "NOT v",
        "v AND gone",
        "k = 'a' || 'b'",
        r"k = 'a\' OR reflect(1) OR \''",
        r"k = r'\'",
        "k = 'never ends",
        "k LIKE 'a%'",
        "v BETWEEN 1 AND 2",
        "CAST(v AS BOOLEAN)",
        "v::boolean",
        "CASE WHEN gone THEN true END",
        "v = 1L",
        "v = 0x10",
        "v = ?",
        "v = :x",
        "s.nothing",
        "s['x y'] = 'a'",
        "nothing",
        "k.k = 'a'",
        "k IN ()",
        "k IN ('a'",
        "k IN ('a' 'b')",
        "INTERVAL '1' DAY = v",
        "X'00' = k",
        "{v} = 1",
        "{{v}} = 1",
        "IDENTIFIER('v') = 1",
        "ts > current_timestamp",
        "date < DATE reflect('a', 'b')",
        "date < DATE 1",
        "v IS DISTINCT FROM 1",
        "",
        "-- nothing but a comment",
        "(" * (DEEPEST + 1) + "gone" + ")" * (DEEPEST + 1),
        "NOT " * 400 + "gone",
        " OR ".join(["gone"] * 1_000),
        "(" * 100_000,
        "\n".join(["reflect"] * 50),
    ],
)
def test_anything_else_is_refused_with_the_property_named(text: str) -> None:
    properties = {"streamtime.key": "k", "streamtime.time": "ts", "streamtime.deleted": text}
    with pytest.raises(streamtime.CallError) as caught:
        read("t", properties, SCHEMA)
    message = str(caught.value)
    assert message.startswith("versioned table, property `streamtime.deleted` of t: ")
    assert len(message) < 450
    assert "\n" not in message


@pytest.mark.parametrize(
    ("property_", "value"),
    [
        ("key", "reflect('java.lang.System', 'exit', '1')"),
        ("key", "`k` reflect `v`"),
        ("key", "k, , v"),
        ("key", "`k"),
        ("key", "x" * 1_000_000),
        ("time", "ts) OR reflect('a', 'b'"),
        ("time", "ts, ts"),
        ("time", "``"),
        ("retention", "1 day' OR reflect('a', 'b')"),
        ("retention", "INTERVAL '1' DAY + reflect('a', 'b')"),
        ("grace", "9" * 15 + " weeks"),
        ("grace", "1 dax\n" * 10_000),
        ("n" * 100_000 + "\n", "1"),
    ],
)
def test_keys_times_and_lengths_are_names_and_lengths_and_nothing_else(property_: str, value: str) -> None:
    properties = {"streamtime.key": "k", "streamtime.time": "ts", f"streamtime.{property_}": value}
    with pytest.raises(streamtime.CallError) as caught:
        read("t", properties, SCHEMA)
    message = str(caught.value)
    assert message.startswith("versioned table, property `streamtime.")
    assert len(message) < 450
    assert "\n" not in message


def test_reading_a_table_runs_nothing_that_it_says(spark: SparkSession, schema: str) -> None:
    """By each way of reading it: a join, clauses, TABLE_HISTORY, suppress, VersionedTable."""
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    attack = 'reflect("java.lang.System", "setProperty", "streamtime.owned", "yes") IS NULL'
    t = f"{schema}.evil"
    spark.sql(
        f"CREATE TABLE {t} (k STRING, ts TIMESTAMP, v INT) USING delta TBLPROPERTIES ('streamtime.key' = 'k', 'streamtime.time' = 'ts', "
        f"'streamtime.deleted' = '{attack}')"
    )
    spark.sql(f"INSERT INTO {t} VALUES ('a', TIMESTAMP '2024-01-01', 1)")
    left = "(SELECT 'a' AS k, TIMESTAMP '2024-01-02' AS ts)"
    clauses = "PARTITION BY k ORDER BY ts"
    for text in (
        f"SELECT * FROM {left} l JOIN {t} FOR SYSTEM_TIME AS OF l.ts r ON l.k = r.k",
        f"SELECT * FROM AS_OF_JOIN(TABLE{left} {clauses}, TABLE({t}) {clauses})",
        f"SELECT * FROM TABLE_HISTORY('{t}')",
        f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE({t}) {clauses}, wait => INTERVAL 1 DAY)",
    ):
        with pytest.raises(AnalysisException, match=r"property `streamtime.deleted` of .*evil.* got a call of reflect|no change data feed"):
            spark.sql(text).collect()
    with pytest.raises(streamtime.CallError, match=r"property `streamtime.deleted` of .*evil"):
        VersionedTable(spark, t)
    assert system.getProperty("streamtime.owned") is None
    closed = spark.table(t).withColumn("window_close", F.col("ts").alias("window_close", metadata={"streamtime.grace": "1 day'"}))
    closed.createOrReplaceTempView("odd_metadata")
    by_close = f"SELECT k, v FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM odd_metadata LIMIT 9) {clauses}, window_end => 'window_close')"
    assert spark.sql(by_close).schema.names == ["k", "v"]


def test_values_that_spark_hides_are_read_and_a_failure_leaves_no_table(
    spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "token STRING, `secret url` STRING, password TIMESTAMP, v INT"
    table = VersionedTable.create(spark, f"{schema}.hidden", columns, key=["token", "secret url"], time="password", grace="1 day")
    at = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    table.put([("a", "b", at, 1)])
    row = table.get(("a", "b"))
    assert row is not None
    assert row.v == 1
    joined = f"SELECT v FROM (SELECT 'a' AS token, 'b' AS u, now() AS ts) l JOIN {schema}.hidden FOR SYSTEM_TIME AS OF l.ts r"
    assert spark.sql(f"{joined} ON l.token = r.token AND u = `secret url`").collect() == [(1,)]
    monkeypatch.setattr(VersionedTable, "__init__", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        VersionedTable.create(spark, f"{schema}.half", columns, key="token", time="password")
    monkeypatch.undo()
    with pytest.raises(streamtime.CallError, match=r"`schema`: has a column `_deleted`, which is added to it"):
        VersionedTable.create(spark, f"{schema}.half", "k STRING, t TIMESTAMP, _Deleted BOOLEAN", key="k", time="t")
    assert not spark.catalog.tableExists(f"{schema}.half")
    VersionedTable.create(spark, f"{schema}.half", columns, key="token", time="password")  # nothing is in its way


ODD = ("k`x", "a.b", "t'x", 'say "so"', "🙂 Ünï", "Upper", "x y", "semi;,{}()=", "back\\slash", "_deleted too", "SELECT", "1", "%s", "a\tb")


def test_a_schema_loads_no_class_that_it_names(spark: SparkSession, tmp_path: Path) -> None:
    """As a Parquet file may say of itself. PySpark would import the module, or unpickle the class, as soon as anybody asks for the schema."""
    made = tmp_path / "made"

    class Bomb:
        def __reduce__(self) -> object:
            return os.mkdir, (str(made),)

    pickled = base64.b64encode(pickle.dumps(Bomb())).decode()
    udt = {"type": "udt", "pyClass": "os.nothing", "serializedClass": pickled, "sqlType": "integer"}
    inside = {"type": "array", "elementType": {"type": "struct", "fields": [field("y", udt)]}, "containsNull": True}
    jvm: Any = spark._jvm
    for number, kind in enumerate((udt, inside)):
        schema = {"type": "struct", "fields": [field("k", "string"), field("ts", "timestamp"), field("x", kind)]}
        parsed = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(schema))
        rows = spark._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), parsed)
        rows.write().parquet(str(tmp_path / f"{number}"))
        text = f"SELECT * FROM DEDUPLICATE(TABLE(parquet.`{tmp_path}/{number}`) PARTITION BY k ORDER BY ts, within => INTERVAL 1 DAY)"
        with pytest.raises(
            AnalysisException, match=r"DEDUPLICATE: column `x` has a type of the Python class os.nothing, which is not loaded"
        ):
            spark.sql(text)
        with pytest.raises(AnalysisException, match=r"has a type of the Python class os.nothing"):
            streamtime.query(spark, text)
        with pytest.raises(streamtime.CallError, match=r"has a type of the Python class os.nothing"):
            streamtime.deduplicate(spark.read.parquet(f"{tmp_path}/{number}"), keys=["k"], order_by=["ts"])
        assert spark.sql(text.replace("TABLE(", "TABLE(SELECT k, ts FROM ")).columns == ["k", "ts"]
    assert not made.exists()


def field(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def test_names_may_have_any_characters(spark: SparkSession, schema: str) -> None:
    """As keys, as time, as values, as fields of structs: nothing is raw SQL anywhere."""
    first, second, time, *rest = ODD
    fields = T.StructType([T.StructField(n, T.IntegerType()) for n in (*ODD[:4], ODD[7])])
    kinds: dict[str, T.DataType] = dict.fromkeys(ODD, T.StringType()) | {time: T.TimestampType(), "n": T.ArrayType(fields)}
    columns = T.StructType([T.StructField(n, k) for n, k in kinds.items()])
    days = [datetime.datetime(2024, 1, 1 + i, tzinfo=UTC) for i in range(4)]
    name = f"{schema}.odd"
    table = VersionedTable.create(spark, name, columns, key=[first, second], time=time, grace="100 days", retention="100 days")
    row = dict.fromkeys(rest, "r") | {first: "k", second: "v", time: days[0], "n": [tuple(range(5))]}
    assert table.put([row]).accepted == 1
    frame = spark.createDataFrame([tuple((row | {time: days[1]}).get(n) for n in columns.names)], columns)
    table.writer(app_id="a", order_by=[quoted(time), quoted(rest[0])])(frame, 1)
    key = ("k", "v")
    assert table.get(key)[rest[0]] == "r"  # type: ignore[index]
    assert table.get(key, days[0])["n"][0][ODD[3]] == 3  # type: ignore[index]
    assert table.delete(key, days[2])[first] == "k"  # type: ignore[index]
    assert table.get(key) is None
    assert [r[second] for r in table.history(key)] == ["v", "v"]
    assert table.versions().count() == 2
    assert VersionedTable(spark, name).maintain() == 0
    on = f"o.l = p.{quoted(first)} AND o.m = p.{quoted(second)}"
    asks = "(SELECT 'k' AS l, 'v' AS m, TIMESTAMP '2024-01-02 12:00:00Z' AS ts)"
    text = f"SELECT p.{quoted(time)} FROM {asks} o JOIN {name} FOR SYSTEM_TIME AS OF o.ts p ON {on}"
    assert [r[0] for r in spark.sql(text).collect()] == [days[1].replace(tzinfo=None)]
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    assert table.put([row | {time: days[3]}]).accepted == 1  # a row that is new
    with pytest.raises(streamtime.CallError, match=r"with its change data feed, Delta cannot change rows of .*: a name has a backquote"):
        table.put([row | {time: days[3]}])
    (found,) = spark.sql(f"SELECT * FROM TABLE_HISTORY('{name}', from => {version_of(spark, name)})").collect()
    assert (found[first], found[rest[-1]], found.to_version) == ("k", "r", None)


def version_of(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"DESCRIBE HISTORY {name}").first()["version"])  # type: ignore[index]
