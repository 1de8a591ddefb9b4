"""Where rows come from: few rows go through one task, columns of files may be read again, and what is computed is not computed again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.inputs import nasty

from streamtime.sql.rows import scans

ARRIVAL = "TABLE(nasty) PARTITION BY k ORDER BY off, time => 't'"
CALLS = (
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 SECONDS)",
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 6 SECONDS, keep => 'last', output => 'all')",
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 4 SECONDS, grace => INTERVAL 2 SECONDS, output => 'all')",
    f"SESSION_UPDATES({ARRIVAL}, gap => INTERVAL 4 SECONDS, aggregates => 'sum(v) AS s')",
    f"SESSION_UPDATES({ARRIVAL}, gap => INTERVAL 4 SECONDS, aggregates => 'sum(v) AS s', emit => 'final', at_end => 'emit')",
    f"WINDOW_UPDATES({ARRIVAL}, size => INTERVAL 9 SECONDS, slide => INTERVAL 4 SECONDS, aggregates => 'sum(v) AS s')",
    f"WINDOW_UPDATES({ARRIVAL}, difference => INTERVAL 9 SECONDS, aggregates => 'sum(v) AS s', output => 'all')",
    f"DISTINCT_IN_WINDOW({ARRIVAL}, gap => INTERVAL 4 SECONDS, output => 'all')",
    f"VERSIONS({ARRIVAL}, grace => INTERVAL 2 SECONDS, output => 'all')",
    "DEDUPLICATE(TABLE(nasty) PARTITION BY n ORDER BY off, time => 't', within => INTERVAL 6 SECONDS)",
)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows with a key under a collation, too."""
    nasty.view(spark, nasty.drifting(17, 700, nasty.SECOND, False, late=20))
    spark.sql("SELECT *, collate(k, 'UTF8_LCASE') AS n FROM nasty").createOrReplaceTempView("nasty")
    nasty.in_files(spark, tmp_path_factory.mktemp("files"))


def executed(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("call", CALLS)
def test_few_rows_in_one_task_give_what_ranges_of_many_give(spark: SparkSession, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) FROM {call}"  # Python has no years before the first
    few = spark.sql(text)
    assert "Exchange SinglePartition, REPARTITION_BY_NUM" in executed(few)
    assert "Subquery" not in executed(few) or "emit => 'final'" in call
    monkeypatch.setattr(scans, "SMALL", 0)
    many = spark.sql(text)
    assert "Subquery" in executed(many)
    found = Counter(few.collect())
    assert len(found) > 50
    assert found == Counter(many.collect())


def test_few_rows_stay_together_where_offsets_have_a_collation(spark: SparkSession) -> None:
    """What makes offsets comparable sends each row to where its offset is."""
    rows = ", ".join(f"({i}, 'a', timestamp_seconds({i}), '{chr(97 + i)}')" for i in range(9))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        found = spark.sql(
            f"SELECT n FROM DEDUPLICATE(TABLE(SELECT * FROM VALUES {rows} AS v(n, k, ts, o)) PARTITION BY k ORDER BY n, time => 'ts', "
            "within => INTERVAL 1 HOUR, offset => \"collate(o, 'UTF8_LCASE')\")"
        ).collect()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert [row.n for row in found] == [0]


RELATION = "Relation spark_catalog.default.t[k#1,ts#2,off#3L,... 12 more fields] parquet"
PLANS: dict[str, bool] = {
    RELATION: True,
    f"SubqueryAlias t\n+- {RELATION}": True,
    f"Project [k#1, ts#2 AS at#9]\n+- Filter (isnotnull(k#1) AND (off#3L > cast(5 as bigint)))\n   +- View (`x y`, [k#1])\n      +- {RELATION}": True,
    f"Filter NOT off#3L IN (1,2)\n+- {RELATION}": True,
    RELATION.replace("parquet", "json"): False,
    RELATION.replace("parquet", "JDBCRelation(t) [numPartitions=1]"): False,
    "LocalRelation [k#1, ts#2]": False,
    f"Project [k#1, looked_at(unix_micros(ts#2))#7 AS ts#9]\n+- {RELATION}": False,
    f"Project [k#1, from_json(StructField(a,LongType,true), v#2, Some(UTC)) AS ts#9]\n+- {RELATION}": False,
    f"Project [k#1, ... 12 more fields]\n+- {RELATION}": False,
    f"Filter (rand(5) < 0.5)\n+- {RELATION}": False,
    f"Filter (off#3L > scalar-subquery#7 [])\n:  +- Aggregate [max(off#8L) AS m#9L]\n:     +- {RELATION}\n+- {RELATION}": False,
    f"Generate explode(a#1), false, [b#2]\n+- {RELATION}": False,
    f"Aggregate [k#1], [k#1, max(ts#2) AS ts#9]\n+- {RELATION}": False,
    f"Join Inner\n:- {RELATION}\n+- {RELATION}": False,
    "": False,
}


@pytest.mark.parametrize("plan", PLANS)
def test_only_columns_of_files_behind_views_and_comparisons_are_read_again(plan: str) -> None:
    assert scans.is_plain(plan) == PLANS[plan]


@pytest.mark.parametrize(
    ("rows", "few"),
    [
        ("SELECT * FROM VALUES (1, 2)", True),
        ("SELECT id % 4 AS k FROM range(9) WHERE id > 3", True),
        ("SELECT id FROM range(1000000)", False),
        ("SELECT explode(sequence(1, 9)) AS id", False),  # who knows how many
        ("SELECT a.id FROM range(9) AS a, range(9) AS b", False),
        ("SELECT id, count(*) AS n FROM range(9) GROUP BY id", False),
    ],
)
def test_a_small_relation_has_few_rows_where_nothing_makes_more_of_them(spark: SparkSession, rows: str, few: bool) -> None:
    assert scans.is_few(spark.sql(rows)) == few


def test_a_table_of_delta_has_few_rows_where_its_log_says_so(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE ten USING delta AS SELECT id, timestamp_seconds(id) AS ts, id % 3 AS k FROM range(10)")
    spark.sql("CREATE TABLE many USING delta AS SELECT id, uuid() AS k FROM range(40000)")
    spark.sql("INSERT INTO ten VALUES (11, TIMESTAMP '2024-01-01', 2)")
    assert scans.is_few(spark.table("ten"))
    assert scans.is_few(spark.sql("SELECT k FROM ten VERSION AS OF 0 WHERE id > 2"))
    assert not scans.is_few(spark.table("many"))
    call = "DEDUPLICATE(TABLE(ten) PARTITION BY k ORDER BY id, time => 'ts', within => INTERVAL 1 SECOND)"
    assert "Exchange SinglePartition, REPARTITION_BY_NUM" in executed(spark.sql(f"SELECT * FROM {call}"))
    spark.sql("DROP TABLE ten")
    spark.sql("DROP TABLE many")


@pytest.mark.usefixtures("files")
def test_of_a_role_that_is_computed_files_are_not_read_again(spark: SparkSession) -> None:
    call = "DISTINCT_IN_WINDOW(TABLE(nasty) PARTITION BY {} ORDER BY {}, time => '{}', size => INTERVAL 10 MINUTES)"
    for roles, number in (
        (("k", "off", "t"), 3),
        (("upper(k)", "off", "t"), 2),
        (("k", "off + 1", "t"), 2),
        (("k", "off", "t + INTERVAL 1 DAY"), 2),
    ):
        assert executed(spark.sql(f"SELECT * FROM {call.format(*roles)}")).count("FileScan") == number, roles


def test_where_no_plan_is_nothing_is_known() -> None:
    nothing: Any = object()
    assert not scans.is_few(nothing)
    assert not scans.is_few(None)
