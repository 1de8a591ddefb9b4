"""What a table declares in its properties, and what keeps its versions: filters, projections and views (rules V7 to V9)."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import streamtime
from streamtime.sql.syntax.text import duration_in_words
from streamtime.sql.tables.declaration import (
    Declaration,
    columns,
    declared,
    duration,
    name_parts,
    read,
    source_table,
    versioned_source,
)

SCHEMA = T.StructType().add("k", "string").add("a, b", "integer").add("ts", "timestamp").add("v", "integer").add("gone", "boolean")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7 days", 604_800),
        ("INTERVAL 12 HOURS", 43_200),
        ("interval '5' minute", 300),
        ("1 hour 30 minutes", 5_400),
        ("2 weeks", 1_209_600),
        ("0 seconds", 0),
        ("250 milliseconds", 0.25),
        ("1 microsecond", 1e-6),
    ],
)
def test_a_length_is_read_as_it_is_written(text: str, seconds: float) -> None:
    assert duration(text) == round(seconds * 1e6)
    assert duration(duration_in_words(duration(text))) == duration(text)


@pytest.mark.parametrize("text", ["", "1 month", "INTERVAL 2 YEARS", "7", "days", "-1 day", "7 dayz", "1 day and 2 hours"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Write it as|Months and years have no fixed length"):
        duration(text)


def test_names_of_columns_and_tables() -> None:
    assert columns("k") == ["k"]
    assert columns("a, `b, c`,d") == ["a", "b, c", "d"]
    assert name_parts("cat.`my.schema`.`t``x`", "F") == ["cat", "my.schema", "t`x"]
    for text in ("", "a..b", "a b", "a.", ".a", "a.b.c.d", "a; DROP TABLE b"):
        with pytest.raises(streamtime.CallError, match="expected the name of a table"):
            name_parts(text, "F")


def properties(**given: str) -> dict[str, str]:
    return {"delta.minReaderVersion": "1"} | {f"streamtime.{n}": v for n, v in given.items()}


def test_a_declaration() -> None:
    given = properties(key="K, `a, b`", time="TS", retention="7 days", grace="1 hour", deleted="gone")
    assert read("t", given, SCHEMA) == Declaration("t", ("k", "a, b"), "ts", 604_800_000_000, 3_600_000_000, "`gone`", "gone")
    alone = read("t", properties(key="k"), SCHEMA)
    assert alone == Declaration("t", ("k",))
    assert not alone.versioned


def test_a_declaration_in_words_has_what_plans_follow() -> None:
    given = properties(key="K, `a, b`", time="TS", retention="7 days", deleted="v = 1")
    declaration = read("spark_catalog.db.t", given, SCHEMA)
    assert declaration is not None
    said = "db.t declares 'streamtime.key' = 'k, `a, b`', 'streamtime.time' = 'ts', 'streamtime.deleted' = "
    assert declaration.said == f"{said}'{declaration.deleted}'"
    assert Declaration("t", ("k",)).said == "t declares 'streamtime.key' = 'k'"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"key": "kk", "time": "ts"}, "property `streamtime.key` of t: no column `kk` in the table. Did you mean `k`?"),
        ({"key": " , ", "time": "ts"}, "property `streamtime.key` of t: expected names of columns, got ' , '"),
        (
            {"key": "k", "time": "v"},
            "property `streamtime.time` of t: expected a column of TIMESTAMP, TIMESTAMP_NTZ or DATE, got INT (`v`)",
        ),
        ({"key": "k", "time": "at"}, "property `streamtime.time` of t: no column `at` in the table. The table has `k`"),
        ({"time": "ts"}, "property `streamtime.time` of t: `streamtime.key` is missing. Add it with ALTER TABLE t SET TBLPROPERTIES"),
        ({"key": "k", "retention": "7 days"}, "property `streamtime.retention` of t: needs `streamtime.time`"),
        (
            {"key": "k", "time": "ts", "retention": "1 month"},
            "property `streamtime.retention` of t: expected an interval of days to seconds, got '1 month'. Months and years have no fixed length",
        ),
        ({"key": "k", "time": "ts", "graze": "7 days"}, "property `streamtime.graze` of t: no such property. Did you mean `grace`?"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused_in_words(given: dict[str, str], message: str) -> None:
    with pytest.raises(streamtime.CallError, match=re.escape(message)):
        read("t", properties(**given), SCHEMA)


def test_the_text_of_a_plan_says_where_rows_come_from() -> None:
    table = "SubqueryAlias spark_catalog.db.t\n   +- Relation spark_catalog.db.t[k#1] parquet"
    assert source_table(f"Filter (v#1 > 0)\n+- {table}") == "spark_catalog.db.t"
    assert source_table("SubqueryAlias spark_catalog.db.`a.b`\n+- Relation spark_catalog.db.a.b[k#1] parquet") == "spark_catalog.db.`a.b`"
    assert source_table(f"Aggregate [k#1], [k#1]\n+- {table}") is None
    assert source_table(f"Join Inner\n:- {table}\n+- {table}") is None
    assert source_table("SubqueryAlias db.t\n+- Relation [k#1,_change_type#2] DeltaCDFRelation(..)") is None
    assert source_table("OneRowRelation") is None


def test_versions_pass_through_filter_projection_and_views_and_end_there(spark: SparkSession, schema: str) -> None:
    t = f"{schema}.t"
    spark.sql(
        f"CREATE TABLE {t} (k STRING, ts TIMESTAMP, v INT) USING delta"
        " TBLPROPERTIES ('streamtime.key' = 'k', 'streamtime.time' = 'ts', 'streamtime.grace' = '1 day', delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"CREATE TABLE {schema}.copied USING delta AS SELECT * FROM {t}")
    spark.sql(f"CREATE VIEW {schema}.shown AS SELECT ts, k AS id FROM {t} WHERE v > 0")
    spark.table(f"{schema}.shown").where("id <> 'x'").createOrReplaceTempView("shown_again")
    declaration = declared(spark, t)
    assert declaration is not None
    assert (declaration.key, declaration.time, declaration.grace, declaration.retention) == (("k",), "ts", 86_400_000_000, None)
    assert declared(spark, f"{schema}.copied") is None
    keeps = (t, f"(SELECT ts, k FROM {t} WHERE v > 1)", f"{schema}.shown", "shown_again", f"(SELECT * FROM (SELECT * FROM {t} AS a) AS b)")
    for text in keeps:
        found = versioned_source(spark.sql(f"SELECT * FROM {text}"))
        assert found is not None, text
        assert found.key == ("k",)
    ends = (
        f"SELECT k, max(ts) AS ts FROM {t} GROUP BY k",
        f"SELECT a.* FROM {t} a JOIN {t} b USING (k)",
        f"SELECT * FROM {schema}.copied",
        f"SELECT * FROM table_changes('{t}', 0)",
        f"SELECT * FROM {t} UNION ALL SELECT * FROM {t}",
        "SELECT 1",
    )
    for text in ends:
        assert versioned_source(spark.sql(text)) is None, text

    def suppress(rows: str) -> str:
        return f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE({rows}) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY)"

    message = r"SUPPRESS_UNTIL_TIME_LIMIT: the table .*`?t`? is declared versioned, and suppress cannot honour versions \(S9, V9\)"
    runs: tuple[Any, ...] = (spark.sql, lambda text: streamtime.query(spark, text))
    for run in runs:
        with pytest.raises(AnalysisException, match=message):
            run(suppress(t))
        with pytest.raises(AnalysisException, match=message):
            run(suppress("SELECT id AS k, ts FROM shown_again WHERE id <> 'y'"))
        assert run(suppress(ends[0])).columns == ["k", "ts", "emit_time", "emit_reason"]
    with pytest.raises(streamtime.CallError, match=message.replace("SUPPRESS_UNTIL_TIME_LIMIT", "suppress_until_time_limit")):
        streamtime.suppress_until_time_limit(spark.table(t), keys=["k"], order_by=["ts"], wait=datetime.timedelta(days=1))
    with pytest.raises(streamtime.CallError, match=r"there is no table `nothing`"):
        declared(spark, "nothing")
