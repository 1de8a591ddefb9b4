"""ASSIGN_TASKS through Spark: it is the kernel's plan, from tables of any kind, and what is wrong is said when it can be."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.inputs.assignments import Tables, run, some

import streamtime
from streamtime.sql.call.errors import CallError


def frames(spark: SparkSession, tables: Tables) -> dict[str, DataFrame]:
    tasks = [(t, s, tables.cost.get(t, 1.0)) for t, s in tables.tasks.items()]
    members = [(m, n, (tables.tags.get(m) or (None,))[0]) for m, n in tables.members.items()]
    current = spark.createDataFrame(list(tables.current), "task STRING, member STRING, role STRING, lag BIGINT")
    return {
        "tasks": spark.createDataFrame(tasks, "task STRING, stateful BOOLEAN, cost DOUBLE"),
        "members": spark.createDataFrame(members, "member STRING, threads INT, zone STRING"),
        "current": current if tables.lags else current.drop("lag"),
    }


def found(df: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in df.collect())


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_plan_of_the_kernel(spark: SparkSession, seed: int) -> None:
    tables, rules = some(random.Random(seed * 7))
    rules = replace(rules, preserve=rules.preserve and not rules.available)  # goes with 'sticky' only
    given = frames(spark, tables)
    options: dict[str, Any] = {"strategy": "high_availability"} if rules.available else {"handover": "warm" if rules.warm else "immediate"}
    options |= {"standbys": rules.standbys, "acceptable_lag": rules.acceptable_lag, "max_warmups": rules.max_warmups}
    options |= {"preserve_active": True} if rules.preserve else {}
    tags = {m: (tables.tags.get(m) or (None,))[:1] for m in tables.members}
    plain = Tables(**{**vars(tables), "tags": tags})
    for output in ("rows", "explain", "metrics"):
        expected = Counter(tuple(row.values())[:-1] for row in run(plain, rules, 4, output))
        got = streamtime.assign_tasks(**given, **options, tags=["zone"], rounds=4, output=output, name="label")
        assert found(got) == expected, output


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[SparkSession]:
    """Three tasks on one of two members; the other has state of one."""
    spark.createDataFrame([("a",), ("b",), ("c",)], "task STRING").createOrReplaceTempView("tasks")
    spark.createDataFrame([("m1",), ("m2",)], "member STRING").createOrReplaceTempView("members")
    rows = [(t, "m1", "active", None) for t in "abc"] + [("c", "m2", "standby", 12)]
    spark.createDataFrame(rows, "task STRING, member STRING, role STRING, lag INT").createOrReplaceTempView("current")
    yield spark
    for name in ("tasks", "members", "current"):
        spark.catalog.dropTempView(name)


PLAN = Counter(
    [
        ("a", "m1", "active", "keep", 1),
        ("b", "m1", "active", "keep", 1),
        ("c", "m1", "active", "revoke", 1),
        ("c", "m2", "active", "promote", 1),
    ]
)
CALL = "SELECT * FROM ASSIGN_TASKS(tasks => TABLE(tasks), members => TABLE(members), current => TABLE(current))"
ALIKE = {
    "names of any case": CALL.replace("current =>", "CURRENT =>").replace("tasks =>", "Tasks =>").replace("ASSIGN", "assign"),
    "another order": "SELECT * FROM ASSIGN_TASKS(current => TABLE(current), members => TABLE(members), tasks => TABLE(tasks))",
    "places": "SELECT * FROM ASSIGN_TASKS(TABLE(tasks), TABLE(members), TABLE(current))",
    "places and a name": "SELECT * FROM ASSIGN_TASKS(TABLE(tasks), current => TABLE(current), members => TABLE(members))",
    "queries": "SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT DISTINCT task FROM current), members => TABLE(SELECT DISTINCT member "
    "FROM current), current => TABLE(SELECT *, 1 AS more FROM current))",
    "CTEs": "WITH t AS (SELECT 'a' AS Task UNION ALL SELECT 'c' UNION ALL SELECT 'b'), cur AS (SELECT member, task AS TASK, lag, role FROM "
    "current) SELECT * FROM ASSIGN_TASKS(tasks => TABLE(t), members => TABLE(members), current => TABLE(cur))",
    "options between": "SELECT * FROM ASSIGN_TASKS(tasks => TABLE(tasks), standbys => 0, members => TABLE(members), tags => ARRAY('member'), "
    "current => TABLE(current), rounds => 1)",
}


@pytest.mark.parametrize("case", ALIKE)
def test_ways_to_write_one_call(views: SparkSession, case: str) -> None:
    assert found(views.sql(ALIKE[case])) == PLAN
    assert found(streamtime.query(views, ALIKE[case])) == PLAN


def test_in_the_middle_of_a_query(views: SparkSession) -> None:
    inner = CALL.replace("SELECT * FROM ", "")
    per_member = f"SELECT p.member, count(*) AS n FROM {inner} AS p JOIN tasks USING (task) WHERE p.action <> 'revoke' GROUP BY 1"
    assert found(views.sql(per_member)) == Counter([("m1", 2), ("m2", 1)])
    views.sql(f"CREATE OR REPLACE TEMP VIEW planned AS {CALL}")
    again = "SELECT * FROM ASSIGN_TASKS(TABLE(tasks), TABLE(members), TABLE(SELECT * FROM planned WHERE action <> 'revoke'))"
    assert {r.action for r in views.sql(again).collect()} == {"keep"}


def test_delta_tables(views: SparkSession, schema: str) -> None:
    for name in ("tasks", "members", "current"):
        views.sql(f"CREATE TABLE {schema}.{name} USING delta AS SELECT * FROM {name}")
    call = CALL
    for name in ("tasks", "members", "current"):
        call = call.replace(f"TABLE({name})", f"TABLE({schema}.{name})")
    assert found(views.sql(call)) == PLAN
    views.sql(f"DELETE FROM {schema}.members WHERE member = 'm1'")
    assert {(r.task, r.member, r.action) for r in views.sql(call).collect() if r.action != "revoke"} == {
        ("a", "m2", "assign"),
        ("b", "m2", "assign"),
        ("c", "m2", "promote"),
    }


def test_without_a_current_table_all_is_dealt(views: SparkSession) -> None:
    rows = views.sql("SELECT * FROM ASSIGN_TASKS(tasks => TABLE(tasks), members => TABLE(members))").collect()
    assert {(r.task, r.role, r.action) for r in rows} == {(t, "active", "assign") for t in "abc"}
    assert sorted(Counter(r.member for r in rows).values()) == [1, 2]


NAMES: dict[str, tuple[str, list[Any]]] = {
    "BIGINT": ("BIGINT", [-(2**63), 0, 2**63 - 1]),
    "TINYINT": ("TINYINT", [-128, 0, 127]),
    "DECIMAL": ("DECIMAL(38,2)", [Decimal("-0.01"), Decimal("0.00"), Decimal("999999999999999999999999999999999999.99")]),
    "DATE": ("DATE", [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ", [datetime.datetime(1, 1, 1), datetime.datetime(1970, 1, 1), datetime.datetime(9999, 12, 31)]),
    "BINARY": ("BINARY", [b"", b"\x00", b"\xff\xfe"]),
    "STRING": ("STRING", ["", " ", "ä'\"`\n%s{}"]),
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_of_any_type_come_back_as_they_were(spark: SparkSession, kind: str) -> None:
    ddl, values = NAMES[kind]
    tasks = spark.createDataFrame([(v,) for v in values], f"task {ddl}")
    members = spark.createDataFrame([(v,) for v in values], f"member {ddl}")
    current = spark.createDataFrame([(v, values[0]) for v in values], f"task {ddl}, member {ddl}")
    made = streamtime.assign_tasks(tasks, members, current, output="explain")
    assert [f.dataType for f in made.schema][:2] == [tasks.schema[0].dataType] * 2
    rows = [r for r in made.collect() if r.action != "revoke"]
    assert {r.task for r in rows} == set(values) == {r.member for r in rows}
    assert next(r.member for r in rows if r.task == values[0]) == values[0]


def test_types_of_the_other_columns(views: SparkSession) -> None:
    views.sql("CREATE OR REPLACE TEMP VIEW typed AS SELECT task, CAST(1.5 AS DECIMAL(5,1)) AS cost, NULL AS stateful FROM tasks")
    views.sql("CREATE OR REPLACE TEMP VIEW sized AS SELECT member, CAST(1 AS TINYINT) AS threads, NULL AS alive FROM members")
    views.sql("CREATE OR REPLACE TEMP VIEW lags AS SELECT task, member, role, CAST(lag AS SMALLINT) AS lag FROM current")
    call = "SELECT * FROM ASSIGN_TASKS(TABLE(typed), TABLE(sized), TABLE(lags))"
    assert found(views.sql(call)) == PLAN


def test_odd_columns_and_odd_tables(views: SparkSession) -> None:
    """Columns that are not its own may be called as they like, even as those that it makes; tags may be of any type."""
    views.sql("CREATE OR REPLACE TEMP VIEW `odd tasks` AS SELECT *, 1 AS kind, 2 AS tags, 3 AS problem, map(1, 2) AS `a.b` FROM tasks")
    views.sql("CREATE OR REPLACE TEMP VIEW `odd members` AS SELECT *, 1 AS task, length(member) AS `zone``s.x` FROM members")
    views.sql("CREATE OR REPLACE TEMP VIEW `odd current` AS SELECT *, 1 AS action, 2 AS round, 3 AS alive FROM current")
    call = "SELECT * FROM ASSIGN_TASKS(TABLE(`odd tasks`), TABLE(`odd members`), TABLE(`odd current`), tags => ARRAY('zone`s.x'))"
    assert found(views.sql(call)) == PLAN


def test_no_rows(views: SparkSession) -> None:
    none = "SELECT * FROM ASSIGN_TASKS(TABLE(SELECT * FROM tasks WHERE false), TABLE(members), TABLE(SELECT * FROM current WHERE false){})"
    assert views.sql(none.format("")).collect() == []
    metrics = {r.metric: r.value for r in views.sql(none.format(", output => 'metrics', rounds => 3")).collect()}
    assert metrics["moves"] == metrics["waiting"] == 0
    assert metrics["stable"] == 1
    left = "SELECT * FROM ASSIGN_TASKS(TABLE(SELECT * FROM tasks WHERE false), TABLE(members), TABLE(current))"
    assert {r.action for r in views.sql(left).collect()} == {"revoke"}


ROWS_SAID = {
    "members => TABLE(SELECT * FROM members WHERE false)": "members: there is no member",
    "current => TABLE(SELECT task, member, 'active' AS role FROM current)": "a task is assigned twice: task 'c', members 'm1' and 'm2'",
    "current => TABLE(SELECT task, member, role, lag - 13 AS lag FROM current)": "`lag` is negative: task 'c', member 'm2', lag -1",
    "current => TABLE(SELECT * FROM current UNION ALL SELECT * FROM current)": "a copy is listed twice: task 'a', member 'm1'",
    "members => TABLE(SELECT member, true AS alive FROM members WHERE member = 'm1')": "a member is unknown: task 'c', member 'm2'",
    "tasks => TABLE(SELECT task, 0 AS cost FROM tasks)": "`cost` must be a number above zero: task 'a', cost 0.0",
    "members => TABLE(SELECT member, 0 AS threads FROM members)": "`threads` must be 1 or more: member 'm1', threads 0",
    "tasks => TABLE(SELECT nullif(task, 'b') AS task FROM tasks)": "`task` is null: task null",
    "members => TABLE(SELECT * FROM members UNION ALL SELECT 'm2')": "a member is listed twice: member 'm2'",
    "current => TABLE(SELECT task, member, 'leader' AS role FROM current)": "`role` must be one of",
}


@pytest.mark.parametrize("instead", ROWS_SAID)
def test_what_is_wrong_in_the_rows_stops_the_query(views: SparkSession, instead: str) -> None:
    """Whatever is done with the plan: its columns left out, its rows counted."""
    name = instead.split(" =>", maxsplit=1)[0]
    call = CALL.replace(f"{name} => TABLE({name})", instead)
    for asked in (call.replace("*", "count(*)", 1), f"{call} WHERE task = 'none'"):
        with pytest.raises(PySparkException) as caught:
            views.sql(asked).collect()
        assert "ASSIGN_TASKS, " in str(caught.value), asked
        assert ROWS_SAID[instead] in str(caught.value)


def test_names_under_a_collation_are_refused_since_they_are_compared_by_bytes(views: SparkSession) -> None:
    call = "SELECT * FROM ASSIGN_TASKS(TABLE(tasks), members => TABLE(SELECT {} AS member FROM members))"
    with pytest.raises(
        AnalysisException, match=r"`members`: `member` is STRING COLLATE UTF8_LCASE, and names .* Write member COLLATE UTF8_BINARY"
    ):
        views.sql(call.format("member COLLATE UTF8_LCASE"))
    assert views.sql(call.format("lower(member COLLATE UTF8_LCASE) COLLATE UTF8_BINARY")).columns


def test_a_stream_is_refused(views: SparkSession) -> None:
    stream = views.readStream.format("rate").load().selectExpr("string(value) AS task")
    with pytest.raises(CallError, match=r"assign_tasks, `tasks`: is a stream: .* Plan in foreachBatch"):
        streamtime.assign_tasks(stream, views.table("members"))
    stream.createOrReplaceTempView("stream")
    with pytest.raises(AnalysisException, match=r"ASSIGN_TASKS, `members`: is a stream"):
        views.sql("SELECT * FROM ASSIGN_TASKS(TABLE(tasks), members => TABLE(SELECT task AS member FROM stream))")
