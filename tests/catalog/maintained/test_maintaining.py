"""maintain: a table equals its query after each commit, whichever way was taken; what cannot be followed is said; receipts are true."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from support.inputs import maintained as cases

import streamtime
from streamtime import CallError
from streamtime.maintained import command, costs, maintaining, refusing, snapshots
from streamtime.maintained import target as target_
from streamtime.maintained.receipt import Last, Receipt, said, written
from streamtime.maintained.target import Target
from streamtime.shell import cli
from streamtime.statements.calls import is_query

HERE = ("by_day", "star", "keyed", "joined", "firsts", "windows", "ranked", "both", "as_of")  # the others have `run.py sweep`


def test_a_maintained_table_is_what_its_query_says_after_random_commits(spark: SparkSession, schema: str, thorough: bool) -> None:
    """Joins, groups, unions, windows and calls, over NULLs, ties, far years, odd names, a hot key, tables that are empty at first."""
    random_, names = random.Random(5), HERE if thorough else HERE[2:5]
    cases.made(spark, schema)
    for _ in range(4 if thorough else 2):
        cases.commit(spark, schema, random_)
    for name in names:
        assert cases.maintained(spark, schema, name).way == "full"
    done = [cases.commit(spark, schema, random_) for _ in range(6)]
    ways = [cases.maintained(spark, schema, name, "incremental").way for name in names]
    assert cases.differs(spark, schema, *names) == {}, done
    assert set(ways) <= {"incremental", "none"}
    assert ways.count("incremental") > len(names) * 5 // len(HERE), done


def test_what_a_run_did_is_in_the_log_and_is_said_before_it_is_done(spark: SparkSession, schema: str) -> None:
    source, target = f"{schema}.o", f"{schema}.m"
    text = f"SELECT k, sum(v) AS total FROM {source} GROUP BY k"
    spark.sql(f"CREATE TABLE {source} (k STRING, v INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {source} VALUES ('a', 1), ('b', 2), (NULL, 3)")
    told = streamtime.maintain(spark, target, text, explain=True)
    assert (told.way, spark.catalog.tableExists(target)) == ("full", False)
    streamtime.maintain(spark, target, text)
    assert streamtime.maintain(spark, target, text).way == "none"
    spark.sql(f"UPDATE {source} SET v = 9 WHERE k IS NULL")
    spark.sql(f"DELETE FROM {source} WHERE k = 'a'")
    before = spark.sql(f"DESCRIBE HISTORY {target}").count()
    told = streamtime.maintain(spark, target, text, policy="incremental", explain=True)
    assert (told.way, told.touched, list(told.changed.values())) == ("incremental", 2, [3])
    assert spark.sql(f"DESCRIBE HISTORY {target}").count() == before
    done = streamtime.maintain(spark, target, text, policy="incremental", shadow=True)
    assert (done.way, done.touched, done.updated, done.removed, done.inserted, done.shadow) == ("incremental", 2, 1, 1, 0, 0)
    assert sorted(map(str, spark.table(target).collect())) == ["Row(k='b', total=2)", "Row(k=None, total=9)"]
    newest, first = streamtime.receipts(spark, target)
    assert (newest.updated, newest.removed, newest.run, first.inserted, first.run) == (1, 1, 2, 3, 1)
    (name,) = newest.tables
    assert newest.tables[name] == (1, 3)
    assert "computed anew: 2 values of k" in str(newest)
    # somebody else writes to it; the query changes: in both cases all is computed anew, and the reason is said
    spark.sql(f"DELETE FROM {target} WHERE k = 'b'")
    assert "Somebody else wrote to the table" in streamtime.maintain(spark, target, text, shadow=True).why
    with pytest.raises(CallError, match="'incremental' is not possible: The query is another than last time"):
        streamtime.maintain(spark, target, text + " HAVING sum(v) > 1", policy="incremental")
    other = streamtime.maintain(spark, target, text.replace("sum(v)", "max(v)"))
    assert (other.way, other.why) == ("full", "The query is another than last time.")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT count(*) AS n FROM {s}.t", "one total over all rows"),
        ("WITH t AS (SELECT * FROM {s}.t), u AS (SELECT * FROM t) SELECT k FROM u ORDER BY k LIMIT 1", "LIMIT picks rows by their place"),
        ("SELECT k FROM {s}.t WHERE k IN (SELECT k FROM {s}.u)", "a subquery outside of FROM reads another table: write it as a join"),
        ("SELECT t.k FROM {s}.t t FULL JOIN {s}.u u ON t.k = u.k", "FULL JOIN is not understood"),
        ("SELECT t.k FROM {s}.t t JOIN {s}.u u ON t.k < u.k", "the join with `u` has no equality of columns in ON"),
        ("SELECT k FROM {s}.t UNION SELECT k FROM {s}.u", "UNION without ALL compares rows of both sides"),
        (
            "SELECT k, count(*) AS n FROM {s}.t WHERE ts > current_timestamp() GROUP BY k",
            "`current_timestamp` gives another answer each time",
        ),
        ("SELECT t.v FROM {s}.t RIGHT JOIN {s}.u USING (k)", "USING beside a RIGHT JOIN"),
        ("(SELECT k FROM {s}.t ORDER BY k) LIMIT 1", "LIMIT picks rows by their place"),
        ("WITH RECURSIVE r(n) AS (SELECT k FROM {s}.t UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", "WITH RECURSIVE is not"),
        ("SELECT * FROM DEDUPLICATE(TABLE({s}.t) PARTITION BY k ORDER BY ts, output => 'METRICS')", "metrics count the rows of all keys"),
        (
            "SELECT * FROM VERSIONS(TABLE({s}.t) PARTITION BY k ORDER BY v, time => 'ts', output => 'all')",
            "it follows stream time, which runs over the rows of all keys",
        ),
        (
            "SELECT * FROM WINDOW_UPDATES(TABLE({s}.t) PARTITION BY k ORDER BY ts, size => INTERVAL 1 DAY, aggregates => 'count(*) AS n', "
            "emit => 'FINAL')",
            "it follows stream time, which runs over the rows of all keys",
        ),
        (
            "SELECT * FROM DEDUPLICATE(TABLE({s}.t) PARTITION BY k ORDER BY v, time => 'ts', within => INTERVAL 1 DAY)",
            "it follows stream time, which runs over the rows of all keys",
        ),
        ("SELECT k FROM {s}.t WHERE ts >= 'yesterday'", "'yesterday' may be another moment each time"),
        ("SELECT k FROM {s}.t WHERE ts >= CAST(r' Today UTC' AS TIMESTAMP)", "r' Today UTC' may be another moment each time"),
        ("SELECT k FROM {s}.t WHERE ts > system.builtin.now()", "`now` gives another answer each time"),
        ("SELECT k FROM {s}.t WHERE ts > `now`()", "`now` gives another answer each time"),
        (
            "SELECT * FROM FILTER_CHANGES(TABLE({s}.t) PARTITION BY k ORDER BY ts, condition => 'ts < now()')",
            "`now` gives another answer each time",
        ),
        ("SELECT k, {s}.rate(v) AS v FROM {s}.t", "`followed.rate` is a function of a schema, which may become another one"),
        (
            "SELECT window(ts, '5 minutes') AS w, count(*) AS n FROM {s}.t GROUP BY window(ts, '5 minutes')",
            "which rows of the tables a row is made of",
        ),
        ("SELECT k, session_user AS who FROM {s}.t", "`session_user` gives another answer"),
        ("SELECT k FROM {s}.t WHERE ts >= TIMESTAMP ' Yesterday'", "TIMESTAMP ' Yesterday'` is another moment each time"),
        ("SELECT * FROM {s}.plain", "has no change data feed"),
    ],
)
def test_what_cannot_be_followed_is_said_and_computed_anew(spark: SparkSession, shared: str, text: str, reason: str) -> None:
    if "RECURSIVE" in text and spark.version < "4.1":  # which has none
        return
    target, query = f"{shared}.m", text.format(s=shared)
    spark.sql(f"DROP TABLE IF EXISTS {target}")
    streamtime.maintain(spark, target, query)
    if "plain" in query:
        spark.sql(f"INSERT INTO {shared}.plain VALUES (2)")
    with pytest.raises(CallError, match=re.escape(reason)):
        streamtime.maintain(spark, target, query, policy="incremental")
    receipt = streamtime.maintain(spark, target, query, explain=True)
    assert receipt.way == "full"
    assert reason in receipt.why


@pytest.fixture(scope="module")
def shared(spark: SparkSession) -> str:
    spark.sql("DROP SCHEMA IF EXISTS followed CASCADE")
    spark.sql("CREATE SCHEMA followed")
    for name in ("t", "u"):
        spark.sql(f"CREATE TABLE followed.{name} (k INT, ts TIMESTAMP, v INT) {cases.FEED}")
        spark.sql(f"INSERT INTO followed.{name} VALUES (1, TIMESTAMP '2024-01-01', 1)")
    spark.sql("CREATE FUNCTION followed.rate(v INT) RETURNS INT RETURN v * 2")
    spark.sql("CREATE TABLE followed.plain USING delta AS SELECT 1 AS k")
    spark.sql("CREATE TABLE followed.files USING parquet AS SELECT 1 AS k")
    return "followed"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("SELECT * FROM {s}.files", {}, "is not a Delta table, so it does not say what changed in it"),
        ("SELECT 1 AS k", {}, "the query reads no table"),
        ("SELECT k, v AS K FROM {s}.t", {}, "the result has two columns"),
        (
            "SELECT k FROM {s}.t",
            {"policy": "incremantal"},
            "maintain, `policy`: expected 'auto', 'incremental' or 'full', got 'incremantal'. Did you",
        ),
        ("SELECT k FROM {s}.t", {"key": "kk"}, "maintain, `key`: no column `kk` in the result. Did you mean `k`?"),
        ("SELECT k FROM {s}.t UNION ALL SELECT k FROM {s}.u", {"key": "k"}, "maintain, `key`: the result has 2 rows with k = 1"),
        ("SELECT k FROM {s}.t", {"key": []}, "maintain, `key`: expected a column at least, got none. Leave it out, or name"),
        ("SELECT k FROM {s}.t", {"target": "{s}.u"}, "is there, and no run of maintain made it"),
        ("SELECT k FROM {s}.nowhere", {}, "nowhere"),
    ],
)
def test_a_wrong_call_makes_nothing(spark: SparkSession, shared: str, text: str, options: dict[str, Any], message: str) -> None:
    given = {k: v.format(s=shared) if isinstance(v, str) else v for k, v in options.items()}
    target = given.pop("target", f"{shared}.wrong")
    with pytest.raises(Exception, match=re.escape(message)):
        streamtime.maintain(spark, target, text.format(s=shared), **given)
    assert not spark.catalog.tableExists(f"{shared}.wrong")


WRITES = [
    "CREATE TABLE {s}.wrong AS SELECT k FROM {s}.t", "INSERT INTO {s}.u VALUES (9, NULL, 9)", "WITH c AS (SELECT * FROM {s}.t) INSERT INTO {s}.u SELECT * FROM c",
    "FROM {s}.t INSERT INTO {s}.u SELECT *", "SELECT k FROM {s}.t; DELETE FROM {s}.u", "DROP TABLE {s}.u", "WITH c AS (SELECT 1) DELETE FROM {s}.u",
    "BEGIN DELETE FROM {s}.u; END", "DELETE FROM {s}.u", "", "EXPLAIN SELECT k FROM {s}.t", "(WITH c AS (SELECT 1 AS k) SELECT * FROM c); SELECT 1",
]  # fmt: skip


@pytest.mark.parametrize("explain", [True, False])
def test_a_text_that_writes_is_refused_and_not_run(spark: SparkSession, shared: str, explain: bool) -> None:
    before = spark.table(f"{shared}.u").collect()
    for text in WRITES:
        with pytest.raises(CallError, match=r"maintain, `sql`: expected one query\. Give the SELECT alone"):
            streamtime.maintain(spark, f"{shared}.wrong", text.format(s=shared), explain=explain)
    assert not spark.catalog.tableExists(f"{shared}.wrong")
    assert spark.table(f"{shared}.u").collect() == before
    for query in (
        "(SELECT 1 AS insert)",
        "WITH c AS (SELECT 1 AS k) (SELECT * FROM c)",
        "FROM range(2)",
        "TABLE t;",
        "VALUES (1)",
        "-- x\n((VALUES (1)))",
    ):
        assert is_query(query), query


def test_variables_are_refused_and_properties_of_any_name_are_kept(spark: SparkSession, schema: str) -> None:
    """A table gets columns with odd names later, too."""
    spark.sql(f"CREATE TABLE {schema}.t (k INT, v INT) {cases.FEED}")
    with pytest.raises(CallError, match=re.escape("maintain, `sql`: the query has ${region}, which may be another text next time")):
        streamtime.maintain(spark, f"{schema}.m", f"SELECT k FROM {schema}.t WHERE v = '${{region}}'")
    spark.sql(f"INSERT INTO {schema}.t VALUES (2, 1)")
    text = f"SELECT k, count(*) AS n FROM {schema}.t GROUP BY k"
    with pytest.raises(PySparkException, match="owner is a reserved table property"):
        streamtime.maintain(spark, f"{schema}.m", text, properties={"owner": "shop"})
    assert not spark.catalog.tableExists(f"{schema}.m")
    properties = {"streamtime.key": "k", "delta.deletedFileRetentionDuration": "interval 30 days"}
    assert streamtime.maintain(spark, f"{schema}.m", text, properties=properties).inserted == 1
    found = dict(map(tuple, spark.sql(f"SHOW TBLPROPERTIES {schema}.m").collect()))
    assert {name: found.get(name) for name in properties} == properties
    text = f"SELECT k, count(*) FROM {schema}.t GROUP BY k"
    assert streamtime.maintain(spark, f"{schema}.m", text).way == "full"
    spark.sql(f"INSERT INTO {schema}.t VALUES (1, 1)")
    assert streamtime.maintain(spark, f"{schema}.m", text, policy="incremental").way == "incremental"
    assert sorted(tuple(row) for row in spark.table(f"{schema}.m").collect()) == [(1, 1), (2, 1)]


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_what_a_review_found(spark: SparkSession, schema: str) -> None:
    """Equal values of two types; an expression without a table's name over a join; a write while a run was computing; another time zone."""
    for name, columns, rows in (
        ("a", "id INT, x INT, ts TIMESTAMP", "(1, 5, TIMESTAMP '2024-01-01 10:00:00')"),
        ("b", "id STRING, v INT, m MAP<STRING, INT>", "('01', 7, map('a', 1))"),
    ):
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) {cases.FEED}")
        spark.sql(f"INSERT INTO {schema}.{name} VALUES {rows}")
    texts = {
        "t1": f"SELECT b.id, a.x FROM {schema}.a AS a JOIN {schema}.b AS b ON a.id = b.id",
        "t2": f"SELECT date(ts) AS day, sum(v) AS v FROM {schema}.a AS a JOIN {schema}.b AS b ON a.id = b.id GROUP BY 1",
        "t3": f"SELECT a.x, b.m FROM {schema}.a AS a JOIN {schema}.b AS b ON a.id = b.id",
    }
    for target, text in texts.items():
        streamtime.maintain(spark, f"{schema}.{target}", text)
    spark.sql(f"UPDATE {schema}.a SET x = 6")
    spark.sql(f"UPDATE {schema}.b SET v = 8, m = map('b', 2)")
    for target, text in texts.items():
        done = streamtime.maintain(spark, f"{schema}.{target}", text, policy="incremental", shadow=True)
        assert (done.way, done.shadow) == ("incremental", 0), (target, done)
    begun = Target(spark, snapshots.full_name(spark, f"{schema}.t1"))
    (last, why), commits = begun.last(), begun.commits()
    assert (why, last.onto) == ("", commits[0]["version"] - 1)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert "another time zone" in streamtime.maintain(spark, f"{schema}.t2", texts["t2"]).why
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


LOOKED = (
    "SELECT c.y, count(*) AS found, count(b.n) AS partners FROM DEDUPLICATE(TABLE({s}.c) PARTITION BY y ORDER BY (ts, id), within => INTERVAL 1 DAY) AS c "
    "JOIN (SELECT id, z, x FROM {s}.a) AS s ON s.z = c.z LEFT JOIN {s}.b AS b ON s.x = b.x AND c.y = b.y GROUP BY c.y"
)


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_what_random_queries_found(spark: SparkSession, schema: str) -> None:
    """Several rows of one group; -0.0 in the place of 0.0; a column with a dot under *; rows that have no partner on the null side; tables
    that WHERE joins."""
    for name, columns, rows in (
        (
            "a",
            "id INT, z INT, x INT, `do.t` STRING, w DOUBLE",
            "(1, 1, 1, 'p', 0.0), (2, 1, 2, 'q', double('NaN')), (3, NULL, 1, NULL, NULL)",
        ),
        ("b", "x INT, y INT, n STRING", "(1, 7, 'p'), (1, 8, 'q')"),
        (
            "c",
            "y INT, z INT, ts TIMESTAMP, id INT",
            "(7, 1, TIMESTAMP '2024-01-01', 1), (8, 1, TIMESTAMP '2024-01-01', 2), (9, 1, NULL, 3)",
        ),
    ):
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) {cases.FEED[:-1]}, delta.columnMapping.mode = 'name')")
        spark.sql(f"INSERT INTO {schema}.{name} VALUES {rows}")
    texts = {
        "spread": ("SELECT z, explode(array_sort(collect_set(x))) AS x FROM {s}.a GROUP BY z", None),
        "zero": ("SELECT id, w FROM {s}.a", "id"),
        "star": ("SELECT * FROM {s}.a AS `a.a`", None),
        "looked": (LOOKED, None),
        "where": (
            "SELECT b.n, count(1) AS found, sum(c.id) AS ids FROM {s}.a, {s}.b, {s}.c WHERE a.x = b.x AND b.y = c.y GROUP BY b.n",
            None,
        ),
    }
    for name, (text, key) in texts.items():
        streamtime.maintain(spark, f"{schema}.{name}", text.format(s=schema), key=key)
    spark.sql(f"INSERT INTO {schema}.a VALUES (4, 1, 9, 'r', 0.5)")
    spark.sql(f"UPDATE {schema}.a SET w = -w, x = x + 1 WHERE id IN (1, 3)")
    spark.sql(f"UPDATE {schema}.c SET ts = ts + INTERVAL 1 HOUR")
    for name, (text, key) in texts.items():
        done = streamtime.maintain(spark, f"{schema}.{name}", text.format(s=schema), key=key, policy="incremental")
        assert done.way == "incremental", done
    assert cases.differences(spark, {f"{schema}.{name}": text.format(s=schema) for name, (text, _) in texts.items()}) == {}


def test_a_run_that_breaks_off_before_its_commit_did_nothing(spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = f"{schema}.o", f"{schema}.m"
    text = f"SELECT k, count(*) AS n FROM {source} GROUP BY k"
    spark.sql(f"CREATE TABLE {source} (k STRING) {cases.FEED}")
    spark.sql(f"INSERT INTO {source} VALUES ('a')")
    streamtime.maintain(spark, target, text)
    spark.sql(f"INSERT INTO {source} VALUES ('a'), ('b')")
    with monkeypatch.context() as patch:
        patch.setattr("streamtime.maintained.target.Target._written", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            streamtime.maintain(spark, target, text, policy="incremental")
    assert not [v for v in spark.catalog.listTables() if v.name.startswith("streamtime_")]
    done = streamtime.maintain(spark, target, text, policy="incremental", shadow=True)
    assert (done.way, done.touched, done.shadow) == ("incremental", 2, 0)


def test_the_command_says_what_it_did_and_asks_for_a_warehouse(
    spark: SparkSession, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sql(f"CREATE TABLE {schema}.o (k STRING) {cases.FEED}")
    given = cli.parser().parse_args(["maintain", f"{schema}.m", "q.sql", "--key", "k", "--format", "json"])
    said_ = json.loads(command.run(given, spark, f"SELECT k FROM {schema}.o;\n"))
    assert (said_["way"], said_["units"], said_["inserted"]) == ("full", ["k"], 0)
    assert cli.main(["maintain", "m", str(__file__)]) == 1
    assert "`--warehouse` is missing" in capsys.readouterr().err


def expected(known: dict[str, float], share: float, kind: str, setup: float = 1.0, spent: float = 0.0) -> float:
    return costs.predicted(known, 1e9, share, kind, setup, spent)["incremental"]


def test_the_cheaper_way_is_the_one_that_runs_before_say() -> None:
    known = {"full_seconds": 100.0, "full_size": 1e9}
    few = costs.predicted(known, 1e9, 0.001, "few", 1.0, 3.0)
    many = costs.predicted(known, 1e9, 0.9, "many anew", 1.0, 3.0)
    assert few["incremental"] < 15 < few["full"] == 103  # what is spent is spent either way
    assert many["incremental"] > many["full"]
    assert costs.predicted({}, 1e9, 0.1, "few", 1.0, 0.0) == {}
    assert costs.predicted(known, 2e9, 0.0, "few", 1.0, 0.0)["full"] == 200
    assert [costs.kind_of(*of) for of in ((3, 9, False), (9, 9, True), (10, 9, False), (10, 9, True))] == [
        "few", "few anew", "many", "many anew",
    ]  # fmt: skip


def ran(touched: int, seconds: float, added: int | None = None, decided: float = 0.0) -> Receipt:
    added = touched if added is None else added
    return Receipt("t", "incremental", "", {}, touched=touched, added=added, updated=touched, seconds=seconds, decided=decided)


def test_what_a_run_took_says_most_of_what_less_is_known_of() -> None:
    """A run that changed few rows, and took long, does not make rows dear; one that changed many does not make small runs dear."""
    known = {"full_seconds": 100.0, "full_size": 1e9, "size": 1e9, "rows": 1e6, "setup": 1.0}
    after = known
    for _ in range(4):
        after = costs.learned(after, ran(1, 33.0, decided=3.0), 2000)
    assert expected(after, 0.0, "few") == pytest.approx(30, rel=0.1)
    assert expected(after, 0.001, "few") - expected(after, 0.0, "few") == pytest.approx(0.25, rel=0.1)
    assert expected(after, 0.0, "few anew") == expected(known, 0.0, "few anew")  # of another kind
    for touched, seconds in ((3_000, 20.0), (400_000, 220.0), (3_000, 20.0), (400_000, 220.0)):
        after = costs.learned(after, ran(touched, seconds), 2000)
    assert expected(after, 0.003, "many") == pytest.approx(20, rel=0.25)
    assert expected(after, 0.4, "many") == pytest.approx(220, rel=0.15)
    assert expected(after, 0.0, "few") == pytest.approx(30, rel=0.1)
    for _ in range(9):  # what was another time is forgotten
        after = costs.learned(after, ran(1, 3.0), 2000)
    assert expected(after, 0.0, "few") == pytest.approx(3, rel=0.2)
    slow, busy = costs.learned(after, ran(1, 9.0), 2000), costs.learned(after | {"setup": 9.0}, ran(1, 9.0), 2000)
    assert expected(busy, 0.0, "few") < expected(slow, 0.0, "few")  # its beginning was slow, too
    assert expected(after, 0.0, "few", setup=8.0, spent=9.0) > 9 + expected(after, 0.0, "few")
    assert costs.learned(after, Receipt("t", "none", "", {}, seconds=1.0), 2000) == after
    full = costs.learned(after, Receipt("t", "full", "", {}, inserted=7, seconds=5.0, decided=2.0), 2000)
    assert (full["full_seconds"], full["rows"]) == (3, 7)
    assert costs.learned({"size": 1e9}, ran(1, 3.0), 2000) == {"size": 1e9}  # of a run before costs were known


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_names_times_and_values_that_were_overlooked(spark: SparkSession, schema: str) -> None:
    """Found by a reader: columns by the names of ours, days beyond Python's years, values that only the rows left out have."""
    columns = "count BIGINT, came STRING, day DATE, v INT"
    spark.sql(f"CREATE TABLE {schema}.t ({columns}) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.t VALUES (1, 'a', DATE '2024-01-01', 1), (2, 'b', NULL, 2)")
    queries: dict[str, tuple[str, str | None]] = {
        "ours": (f"SELECT count, came, v FROM {schema}.t", "count"),
        "days": (f"SELECT day, count(*) AS n, avg(v) AS mean FROM {schema}.t GROUP BY day", None),
        "far": (f"SELECT day, count(*) AS n FROM {schema}.t GROUP BY day", None),
    }
    for name, (text, key) in queries.items():
        streamtime.maintain(spark, f"{schema}.{name}", text, key=key)
    spark.sql(f"INSERT INTO {schema}.t VALUES (3, NULL, DATE '+10000-01-01', 1), (4, 'came', DATE '-0044-03-15', 2), (5, 'x', NULL, 3)")
    for name, (text, key) in queries.items():
        done = streamtime.maintain(spark, f"{schema}.{name}", text, key=key, policy="incremental", shadow=True)
        assert (done.way, done.touched, done.shadow) == ("incremental", 3, 0), name
    spark.sql(f"INSERT INTO {schema}.t VALUES (5, 'twin', NULL, 3)")
    with pytest.raises(CallError, match="the result has 2 rows with count = 5"):
        streamtime.maintain(spark, f"{schema}.ours", *queries["ours"][:1], key="count")
    spark.sql(f"INSERT INTO {schema}.t VALUES (8, 'twin', DATE '+10000-01-01', 3)")
    with pytest.raises(CallError, match=r"the result has 2 rows with day = \+10000-01-01"):
        streamtime.maintain(spark, f"{schema}.by_day", f"SELECT day, v FROM {schema}.t WHERE day > DATE '9999-12-31'", key="day")
    divided = f"SELECT 100 / v AS part, avg(count) AS mean FROM {schema}.t WHERE v <> 0 GROUP BY 100 / v"
    streamtime.maintain(spark, f"{schema}.divided", divided)
    spark.sql(f"INSERT INTO {schema}.t VALUES (6, 'y', NULL, 0), (7, 'z', NULL, 1)")
    done = streamtime.maintain(spark, f"{schema}.divided", divided, shadow=True)
    assert (done.way, done.shadow) == ("full", 0)
    assert "What changed cannot be computed by itself" in done.why
    joined = (  # the row with 0 is left out by a condition over both tables, and is none of those that changed
        f"SELECT 100 / a.v AS part, avg(b.v) AS mean FROM {schema}.t AS a JOIN {schema}.t AS b ON a.count = b.count AND a.v > b.v - 1 "
        f"WHERE a.v + b.v > 0 GROUP BY 100 / a.v"
    )
    streamtime.maintain(spark, f"{schema}.joined", joined)
    spark.sql(f"UPDATE {schema}.t SET v = 4 WHERE count = 7")
    done = streamtime.maintain(spark, f"{schema}.joined", joined, shadow=True)
    assert done.shadow == 0, str(done)


@pytest.mark.long("tests/catalog/maintained/test_joins.py")
def test_expressions_that_do_not_say_where_a_row_is_made_of(spark: SparkSession, schema: str) -> None:
    """Names that only the whole text knows, types that cannot be told apart, names that Spark gives itself; and comments by others."""
    spark.sql(f"CREATE TABLE {schema}.a (k INT, ts TIMESTAMP, v INT) {cases.FEED}")
    spark.sql(f"CREATE TABLE {schema}.b (k INT, ts TIMESTAMP, w INT) {cases.FEED}")
    for name in "ab":
        spark.sql(f"INSERT INTO {schema}.{name} VALUES (1, TIMESTAMP '2024-01-01', 1), (12, TIMESTAMP '2024-01-01', 2), (NULL, NULL, NULL)")
    queries = {
        "as_of": "SELECT date(o.ts) AS day, sum(o.v * p.w) AS n FROM {s}.a o ASOF JOIN {s}.b p MATCH_CONDITION (o.ts >= p.ts) ON o.k = p.k "
        "GROUP BY 1",
        "using": "SELECT k % 10 AS bucket, avg(b.w) AS w FROM {s}.a AS a JOIN {s}.b AS b USING (k) GROUP BY 1",
        "maps": "SELECT a.v, map('a', b.w) AS m FROM {s}.a AS a JOIN {s}.b AS b ON a.k = b.k",
        "unnamed": "SELECT a.v, s.m FROM {s}.a AS a JOIN (SELECT k, w AS m, w + 1 FROM {s}.b) AS s ON a.k = s.k",
    }
    texts = {f"{schema}.{name}": text.format(s=schema) for name, text in queries.items()}
    for target, text in texts.items():
        streamtime.maintain(spark, target, text)
    spark.sql(f"USE {schema}")
    try:  # a CTE does not see itself
        assert list(streamtime.maintain(spark, "cte", "WITH b AS (SELECT * FROM b) SELECT w FROM b ORDER BY w LIMIT 1").tables) == [
            snapshots.full_name(spark, f"{schema}.b")
        ]
    finally:
        spark.sql("USE default")
    spark.sql(f"ALTER TABLE {schema}.unnamed ALTER COLUMN v COMMENT 'what dbt says of it after each run'")
    spark.sql(f"UPDATE {schema}.b SET w = 7, ts = TIMESTAMP '2023-12-31' WHERE k = 1")
    for target, text in list(texts.items())[:2]:
        with pytest.raises(CallError, match="'incremental' is not possible: The query cannot be followed: none of its columns says"):
            streamtime.maintain(spark, target, text, policy="incremental")
    for target, text in list(texts.items())[2:]:
        done = streamtime.maintain(spark, target, text, policy="incremental", shadow=True)
        assert (done.way, done.shadow) == ("incremental", 0), (target, done)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT {s}.t.k FROM {s}.t", "a column has the schema of its table before it, .*t.k. Write t.k."),
        ("SELECT k FROM {s}.t VERSION AS OF 0", "reads t as it was at another time, or a sample of it. Make a table"),
        ("SELECT k, count(*) AS n FROM {s}.t GROUP BY k |> WHERE n > 1", r"\|> is not understood: write it as SELECT"),
        ("SELECT k FROM {s}.t TABLESAMPLE (50 PERCENT)", "reads t as it was at another time, or a sample of it. Make a table"),
    ],
)
def test_a_query_that_no_other_rows_may_stand_in_for_is_refused(spark: SparkSession, shared: str, text: str, message: str) -> None:
    with pytest.raises(CallError, match=message):
        streamtime.maintain(spark, f"{shared}.refused", text.format(s=shared))
    assert not spark.catalog.tableExists(f"{shared}.refused")


def test_the_receipt_says_in_how_many_rows_a_table_differs(spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (k INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.t VALUES (1), (1), (2), (NULL)")
    text = f"SELECT k, count(*) AS n FROM {schema}.t GROUP BY k"
    streamtime.maintain(spark, f"{schema}.m", text)
    spark.sql(f"DELETE FROM {schema}.m WHERE k = 1")
    spark.sql(f"INSERT INTO {schema}.m VALUES (3, 1)")
    monkeypatch.setattr(target_, "WITHOUT_ROWS", ("",))  # nobody notices who else wrote
    assert streamtime.maintain(spark, f"{schema}.m", text, shadow=True).shadow == 2


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_of_two_runs_at_the_same_time_one_writes(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (k INT, v INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.t VALUES (1, 1), (2, 2)")
    for name, text, key in (("sums", "SELECT k, sum(v) AS v FROM {}.t GROUP BY k", None), ("rows", "SELECT k, v FROM {}.t", "k")):
        query, table = text.format(schema), f"{schema}.{name}"
        streamtime.maintain(spark, table, query, key=key)
        spark.sql(f"INSERT INTO {schema}.t SELECT max(k) + 1, 1 FROM {schema}.t")
        slow = maintaining._Run(spark, table, query, (key,) if key else None, "incremental", {})
        quick = streamtime.maintain(spark, table, query, key=key)
        try:
            late = slow.done(shadow=True)
        finally:
            slow.close()
        assert (quick.way != "repeated", late.way, late.shadow) == (True, "repeated", 0), name


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("ALTER TABLE {} SET TBLPROPERTIES ('x' = '1')", marks=pytest.mark.long("the same with rows")),
        "UPDATE {} SET note = 'x' WHERE k = 1",
    ],
)
def test_a_run_that_finds_nothing_leaves_nothing_out_of_what_another_did_meanwhile(spark: SparkSession, schema: str, change: str) -> None:
    """Its note counts as a run, so it is not written: what the other one added must not be added again."""
    source, target, text = f"{schema}.t", f"{schema}.m", f"SELECT k, count(*) AS n FROM {schema}.t GROUP BY k"
    spark.sql(f"CREATE TABLE {source} (k INT, note STRING) {cases.FEED}")
    spark.sql(f"INSERT INTO {source} VALUES (1, ''), (2, '')")
    streamtime.maintain(spark, target, text)
    spark.sql(change.format(source))
    slow = maintaining._Run(spark, target, text, None, "incremental", {})
    try:
        spark.sql(f"INSERT INTO {source} VALUES (1, '')")
        assert streamtime.maintain(spark, target, text, policy="incremental").way == "incremental"
        assert slow.done(shadow=False).way == "repeated"
    finally:
        slow.close()
    spark.sql(f"INSERT INTO {source} VALUES (1, '')")
    done = streamtime.maintain(spark, target, text, policy="incremental", shadow=True)
    assert (done.way, done.shadow, done.run) == ("incremental", 0, 3)
    spark.sql(change.format(source).replace("x", "y"))
    assert streamtime.maintain(spark, target, text).run == 4
    assert "Somebody else" not in streamtime.maintain(spark, target, text).why


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_tables_that_change_seldom_are_read_as_they_were_and_what_is_lost_is_computed_anew(
    spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta refuses a commit older than `deletedFileRetentionDuration` as past, though its files are all there."""
    for name, columns in (("a", "k INT, v INT"), ("b", "k INT, name STRING")):
        spark.sql(
            f"CREATE TABLE {schema}.{name} ({columns}) {cases.FEED[:-1]}, 'delta.deletedFileRetentionDuration' = 'interval 1 second')"
        )
    spark.sql(f"INSERT INTO {schema}.a VALUES (1, 1), (2, 2), (NULL, 3)")
    spark.sql(f"INSERT INTO {schema}.b VALUES (1, 'x'), (2, 'y')")
    text = f"SELECT b.name, sum(a.v) AS v, count(*) AS n FROM {schema}.a JOIN {schema}.b ON a.k = b.k GROUP BY b.name"
    streamtime.maintain(spark, f"{schema}.m", text)
    time.sleep(2)
    spark.sql(f"INSERT INTO {schema}.a VALUES (1, 5)")
    spark.sql(f"UPDATE {schema}.b SET name = 'z' WHERE k = 2")
    done = streamtime.maintain(spark, f"{schema}.m", text, policy="incremental", shadow=True)
    assert (done.way, done.shadow) == ("incremental", 0)

    class Lost(PySparkException):
        def getCondition(self) -> str:
            return condition

    def fails(_: object) -> None:
        raise Lost("its files are gone")

    monkeypatch.setattr(maintaining._Run, "_incremental", fails)
    spark.sql(f"INSERT INTO {schema}.a VALUES (2, 7)")
    condition = "DELTA_ANYTHING_ELSE"
    with pytest.raises(Lost):
        streamtime.maintain(spark, f"{schema}.m", text)
    condition = "DELTA_MISSING_CHANGE_DATA"
    done = streamtime.maintain(spark, f"{schema}.m", text, shadow=True)
    assert (done.way, done.shadow) == ("full", 0)
    assert "What changed cannot be computed by itself: [DELTA_MISSING_CHANGE_DATA] its files are gone" in done.why


def test_errors_of_queries_that_were_made_of_the_users_make_all_anew_and_those_of_writing_do_not() -> None:
    class Said(AnalysisException):
        def getCondition(self) -> str:
            return str(self.args[0])

    said = {word: refusing.may_pass(Said(word)) for word in ("UNRESOLVED_COLUMN", "DELTA_VERSION_NOT_FOUND", "DELTA_CONCURRENT_APPEND")}
    assert said == {"UNRESOLVED_COLUMN": True, "DELTA_VERSION_NOT_FOUND": True, "DELTA_CONCURRENT_APPEND": False}


def test_other_rules_make_all_anew_but_none_that_a_run_before_did_not_note(
    spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that an older version of the pack keeps goes on."""
    spark.sql(f"CREATE TABLE {schema}.t (k INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.t VALUES (1), (NULL)")
    text = f"SELECT k, count(*) AS n FROM {schema}.t GROUP BY k"
    with monkeypatch.context() as before:
        before.setattr(target_, "SETTINGS", target_.SETTINGS[:2])
        streamtime.maintain(spark, f"{schema}.m", text)
    spark.sql(f"INSERT INTO {schema}.t VALUES (1)")
    done = streamtime.maintain(spark, f"{schema}.m", text, policy="incremental", shadow=True)
    assert (done.way, done.shadow) == ("incremental", 0)
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        done = streamtime.maintain(spark, f"{schema}.m", text)
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")
    assert (done.way, "or other rules" in done.why) == ("full", True)


@pytest.mark.long("tests/catalog/maintained/test_joins.py")
def test_what_looks_like_a_key_and_is_none(spark: SparkSession, schema: str) -> None:
    """any(x) is a total, which sqlglot does not know as one; IS DISTINCT FROM has a FROM that no table follows."""
    spark.sql(f"CREATE TABLE {schema}.t (k INT, v INT, flag BOOLEAN) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.t VALUES (1, 1, true), (1, 2, false), (2, NULL, NULL)")
    queries = {
        "some": f"SELECT k, any(flag) AS f, count(*) AS n FROM {schema}.t GROUP BY ALL",
        "apart": f"SELECT v IS DISTINCT FROM k AS d, v, k FROM {schema}.t",
        "means": f"SELECT v IS NOT DISTINCT FROM k AS d, avg(v) AS m FROM {schema}.t GROUP BY 1",
    }
    for name, text in queries.items():
        streamtime.maintain(spark, f"{schema}.{name}", text)
    spark.sql(f"INSERT INTO {schema}.t VALUES (1, 3, false), (3, 3, NULL)")
    for name, text in queries.items():
        done = streamtime.maintain(spark, f"{schema}.{name}", text, policy="incremental", shadow=True)
        assert (done.way, done.shadow) == ("incremental", 0), name


def test_auto_takes_the_way_that_is_expected_to_take_less(spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (k INT) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.t VALUES (1), (2)")
    text = f"SELECT k, count(*) AS n FROM {schema}.t GROUP BY k"
    streamtime.maintain(spark, f"{schema}.m", text)
    for way, expected in (("full", {"incremental": 2.0, "full": 1.0}), ("incremental", {"incremental": 1.0, "full": 2.0})):
        spark.sql(f"INSERT INTO {schema}.t VALUES (1), (3)")
        monkeypatch.setattr(costs, "predicted", lambda *_, e=expected: e)
        done = streamtime.maintain(spark, f"{schema}.m", text, shadow=True)
        assert (done.way, done.predicted, done.shadow) == (way, expected, 0)
        assert way == "incremental" or done.why == "2 values of k are touched, and to compute all 2 rows is expected to take less."


def test_rows_that_stayed_are_not_counted_as_written(spark: SparkSession, schema: str) -> None:
    """Delta counts the rows of a file in which some were replaced as put out; no receipt does."""
    spark.sql(f"CREATE TABLE {schema}.c (k INT, ts TIMESTAMP) {cases.FEED}")
    spark.sql(f"INSERT INTO {schema}.c SELECT id, TIMESTAMP '2024-01-01' FROM range(50)")
    text = f"SELECT * FROM DEDUPLICATE(TABLE({schema}.c) PARTITION BY k ORDER BY ts)"
    streamtime.maintain(spark, f"{schema}.m", text)
    spark.sql(f"UPDATE {schema}.c SET ts = TIMESTAMP '2024-01-02' WHERE k = 7")
    done = streamtime.maintain(spark, f"{schema}.m", text, policy="incremental", shadow=True)
    assert (done.way, done.touched, done.inserted, done.removed, done.shadow) == ("incremental", 1, 1, 1, 0)
    (newest, _) = streamtime.receipts(spark, f"{schema}.m")
    assert (newest.inserted, newest.removed) == (1, 1)


def test_a_full_run_that_looks_for_two_rows_of_one_key_computes_its_query_once_and_leaves_nothing_behind(
    spark: SparkSession, schema: str
) -> None:
    source, target, rows = f"{schema}.t", f"{schema}.m", 20_000
    spark.sql(f"CREATE TABLE {source} {cases.FEED} AS SELECT id, id % 7 AS v FROM range({rows})")
    text = f"SELECT id, v FROM {source} WHERE v < 6"
    before, held = _records_read(spark), _held(spark)
    streamtime.maintain(spark, target, text, key="id")
    assert rows <= sum(read for stage, read in _records_read(spark).items() if stage not in before) < 1.5 * rows
    assert _held(spark) == held
    spark.sql(f"INSERT INTO {source} VALUES (8, 1)")
    with pytest.raises(CallError, match="the result has 2 rows with id = 8"):
        streamtime.maintain(spark, target, text, key="id", policy="full")
    assert (_held(spark), spark.table(target).where("id = 8").count()) == (held, 1)


def _records_read(spark: SparkSession) -> dict[int, int]:
    """By each stage that Spark remembers."""
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    context.listenerBus().waitUntilEmpty()
    jvm: Any = spark._jvm
    nothing, none = jvm.java.util.ArrayList(), spark.sparkContext._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]
    stages = context.statusStore().stageList(nothing, False, False, none, nothing)
    return {stage.stageId(): stage.inputRecords() for stage in map(stages.apply, range(stages.size()))}


def _held(spark: SparkSession) -> int:
    """How many results Spark keeps."""
    manager: Any = spark._jsparkSession.sharedState().cacheManager()
    return int(manager.numCachedEntries()) if spark.version > "4.1" else int(not manager.isEmpty())


@pytest.mark.long("tests/catalog/maintained/test_additive.py::test_what_changes_are_added_to_is_what_all_rows_give")
def test_a_table_that_is_made_anew_over_an_old_log_is_kept_up_to_date(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    """A catalog that forgot a table, as that of a session does, leaves its files there: the runs of long ago are none of the new table's."""
    spark.sql(f"CREATE TABLE {schema}.v (id INT, v INT) {cases.FEED}")
    text, target = f"SELECT id, v FROM {schema}.v WHERE v > 0", f"{schema}.m"
    for number in range(4):
        spark.sql(f"INSERT INTO {schema}.v VALUES ({number}, 1)")
        streamtime.maintain(spark, target, text, key="id")
    place = Path(urlparse(spark.sql(f"DESCRIBE DETAIL {target}").first().location).path)  # type: ignore[union-attr]
    shutil.copytree(place, tmp_path / "kept")
    spark.sql(f"DROP TABLE {target}")
    shutil.copytree(tmp_path / "kept", place)
    assert streamtime.maintain(spark, target, text, key="id").why == "The table is made."
    for number in range(10, 13):
        spark.sql(f"INSERT INTO {schema}.v VALUES ({number}, 1)")
        done = streamtime.maintain(spark, target, text, key="id", policy="incremental", shadow=True)
        assert (done.way, done.inserted, done.shadow) == ("incremental", 1, 0), str(done)


def test_what_is_in_a_commit_comes_back_and_other_labels_are_none() -> None:
    receipt = Receipt("t", "full", "why", {"a": (None, 3)}, {"a": 2}, ("k",), None, run=4)
    label = written(Last("SELECT 1", {"a": {"id": "x", "version": 3}}, {"size": 5.0}, receipt, 7, {"zone": "UTC"}), 100_000_000)
    last = said(label, 102_500_000, {"inserted": 7})
    assert last is not None
    assert (last.text, last.sources["a"]["version"], last.costs) == ("SELECT 1", 3, {"size": 5.0})
    assert (last.onto, last.settings) == (7, {"zone": "UTC"})
    assert (last.receipt.tables, last.receipt.inserted, last.receipt.seconds, last.receipt.run) == ({"a": (None, 3)}, 7, 2.5, 4)
    assert [said(text, 0, {}) for text in (None, "", "a label", '{"streamtime.maintain": 1}')] == [None] * 4


def test_a_receipt_says_what_was_written_and_of_a_run_that_was_only_explained_nothing() -> None:
    explained = Receipt(
        "t", "incremental", "1 values of k are touched.", {"a": (2, 3)}, {"a": 2}, ("k",), 1, predicted={"incremental": 2.0}
    )
    assert "\n  wrote: nothing\n  expected: incremental 2.0 s\n" in str(explained)
    assert "\n  wrote: 0 inserted, 1 updated, 0 removed\n" in str(replace(explained, updated=1))
