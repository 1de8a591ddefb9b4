"""compile(): plain SQL gives what the calls give, in a process that cannot import the pack; and what has no plain SQL is refused in words."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import sqlglot
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from support import PROGRAMS, TESTS
from support.inputs import nasty
from support.inputs.plain_calls import CALLS, DAYS, DECLARED, EVENT, FAR, OVER_DELTA, STATEMENTS, STOCK, VIEWS, VISITED
from support.programs.plain_session import NOTEBOOK, Rows, said
from support.selected import selected

import streamtime
from streamtime.plain import databricks
from streamtime.session import delta_jars


@pytest.fixture(scope="module")
def compared(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, str], list[Rows]]]:
    """Of each statement: what its call gives here, what its plain SQL gives in a process without the pack, and that text. And what the
    notebook of plain SQL shows there."""
    folder = tmp_path_factory.mktemp("plain")
    rows = nasty.scenarios(17, 60)
    nasty.view(spark, rows).write.parquet(str(folder / "tables" / "nasty"))
    nasty.view(spark, rows, name="odd", names=nasty.ODD).write.parquet(str(folder / "tables" / "odd"))
    right = spark.sql("SELECT s, k, t AS at, v AS price, off FROM nasty WHERE id % 2 = 0")
    right.write.parquet(str(folder / "tables" / "prices"))
    for table in ("nasty", "odd", "prices"):
        spark.read.parquet(str(folder / "tables" / table)).createOrReplaceTempView(table)
    for name, commits in (("stock", STOCK), ("declared", DECLARED), ("visited", VISITED)):
        spark.catalog.dropTempView(name)  # another file's, which would stand in front of it
        for commit in commits:
            spark.sql(commit.format(folder / "tables" / name))
    asked = {*selected(request, "name"), *OVER_DELTA, "AS OF"}
    statements = {call: f"SELECT * FROM {call}" for call in CALLS} | STATEMENTS | OVER_DELTA
    statements = {name: text for name, text in statements.items() if name in asked}
    spark.conf.unset("streamtime.views")
    texts = {name: streamtime.compile(spark, text) for name, text in statements.items()}
    (folder / "views").write_bytes(pickle.dumps([spark.sql(f"SHOW CREATE TABLE {view}").head()[0] for view in VIEWS]))  # type: ignore[index]
    texts |= {view: f"SELECT * FROM {view}" for view in VIEWS}
    statements |= VIEWS
    (folder / "texts").write_bytes(pickle.dumps(texts))
    script = PROGRAMS / "plain_session.py"
    command = [sys.executable, str(script), str(folder), os.pathsep.join(map(str, delta_jars()))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as other:
        wanted = {name: said(spark.sql(text)) for name, text in statements.items()}
        log = other.communicate()[0]
        assert other.returncode == 0, log[-3000:]
    found, notebook = pickle.loads((folder / "found").read_bytes())
    yield wanted, found, texts, notebook
    for table in ("nasty", "odd", "prices"):
        spark.catalog.dropTempView(table)
    for view in VIEWS:
        spark.sql(f"DROP VIEW {view}")
    for table in ("stock", "declared", "visited"):
        spark.sql(f"DROP TABLE {table}")


def rounded(name: str, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Of metrics, whose DOUBLE sums depend on the order of rows in the last digit, as many digits as do not."""
    return [(*r[:2], f"{float(r[2]):.12g}" if r[2] else r[2], r[3]) for r in rows] if "metrics" in name else rows


@pytest.mark.parametrize("name", [*CALLS, *STATEMENTS, *OVER_DELTA])
def test_plain_sql_gives_what_the_call_gives_where_the_pack_is_not(compared: Any, name: str) -> None:
    wanted, found, texts, _ = compared
    assert found[name][0] == wanted[name][0]
    assert rounded(name, found[name][1]) == rounded(name, wanted[name][1]), texts[name]
    if "dropped" not in name:
        assert found[name][1]
    for dialect in ("spark", "databricks") if name != "a pipe" else ():  # which sqlglot does not know
        sqlglot.parse_one(texts[name], dialect=dialect)
    assert databricks.missing(texts[name]) == []


def test_a_view_is_read_where_the_pack_is_not_and_follows_its_table_when_it_is_made_anew(compared: Any) -> None:
    wanted, found, *_ = compared
    for view in VIEWS:
        assert found[view][:2] == wanted[view][:2], view
    assert ("page" in found["as_it_was"][0], "page" in found["refreshed"][0]) == (False, True)
    assert any(row[0] == "another" and row[2] for row in found["refreshed"][1])


@pytest.mark.parametrize("name", [*CALLS, *STATEMENTS])
def test_plain_sql_reads_its_input_at_most_twice_in_event_order_and_else_three_times(compared: Any, name: str) -> None:
    call, scans = STATEMENTS.get(name, name), compared[1][name][2]
    most = 2 if (EVENT in call or DAYS in call) and "arrival =>" not in call else 3
    for table in scans:
        assert scans[table] <= most * call.count(table), scans  # of JOIN_CHANGES both sides
    assert scans


def test_the_comment_says_what_tables_declare_of_themselves(compared: Any) -> None:
    texts = compared[2]
    versions = (
        "\n     where default.declared declares 'streamtime.key' = 's, k', 'streamtime.time' = 't', 'streamtime.deleted' = '`gone`' */\n"
    )
    assert all(versions in texts[name] for name in ("AS OF a versioned table", "its deletions"))
    assert "\n     where `stock` declares 'streamtime.key' = 'k' */\n" in texts["what a table held"]
    assert "\n     where " not in texts["AS OF commits"] + texts["AS OF"]


def test_a_history_across_a_column_that_was_renamed_is_refused(spark: SparkSession, compared: Any) -> None:
    with pytest.raises(
        AnalysisException, match=r"TABLE_HISTORY: this call has no plain SQL: it needs columns that were renamed or dropped since"
    ):
        streamtime.compile(spark, "SELECT * FROM TABLE_HISTORY('declared')")
    assert "table_changes('`default`.`declared`', 2, 2)" in streamtime.compile(spark, "SELECT * FROM TABLE_HISTORY('declared', from => 2)")


def test_the_notebook_of_plain_sql_shows_what_the_one_with_calls_does(compared: Any) -> None:
    """Each table that is stored in orders.ipynb, the last of which is pandas', with numbers before its rows."""
    stored = []
    for cell in nbformat.read(NOTEBOOK.with_name("orders.ipynb"), as_version=4).cells:
        for data in [output.data for output in cell.get("outputs", []) if "text/html" in output.data]:
            head, *lines = data["text/plain"].splitlines()
            rows = lines[1:-1] if cell.source.startswith("%%sql") else [line.partition(" ")[2] for line in lines]
            stored.append([line.split() for line in (head, *rows)])
    assert [[" ".join(map(str, row)).split() for row in table] for table in compared[3]] == stored
    assert len(stored) == 5


CLICKS = {"clicks": "user_id STRING, ts TIMESTAMP, page STRING"}
DEDUPLICATE = "DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts)"


def test_the_text_is_readable_and_always_the_same(spark: SparkSession) -> None:
    text = f"SELECT user_id, page -- the first of each\nFROM {DEDUPLICATE} AS d WHERE page <> :page"
    made = streamtime.compile(spark, text, tables=CLICKS)
    assert made == (TESTS / "golden" / "plain.txt").read_text().rstrip("\n")
    assert made == streamtime.compile(spark, text, tables=CLICKS)
    assert streamtime.compile(spark, "SELECT 1;\nSELECT '" + DEDUPLICATE + "';") == f"SELECT 1;\nSELECT '{DEDUPLICATE}'"


def test_for_databricks_the_text_is_the_same_and_what_its_manual_lacks_is_refused(spark: SparkSession) -> None:
    texts = [streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE}", tables=CLICKS, dialect=d) for d in ("spark", "databricks")]
    assert texts[0] == texts[1]
    collated = DEDUPLICATE.replace("clicks", "SELECT *, page COLLATE UTF8_LCASE AS p, monthname(ts) AS m FROM clicks").replace(
        "user_id", "p"
    )
    text = streamtime.compile(spark, f"SELECT * FROM {collated}", tables=CLICKS, dialect="databricks")  # who wrote it there knows
    assert (
        spark.sql(text.replace("FROM clicks", "FROM VALUES ('u', TIMESTAMP '2020-01-01', 'P') AS clicks(user_id, ts, page)")).count() == 1
    )
    with pytest.raises(AnalysisException, match="it needs `monthname`, which Databricks' SQL manual does not have"):
        streamtime.compile(
            spark, f"SELECT * FROM {DEDUPLICATE.replace('BY user_id', 'BY monthname(ts)')}", tables=CLICKS, dialect="databricks"
        )
    for key in (
        "ltrim(page)",
        "rtrim(page)",
        "map_concat(map(1, page))[1]",
        "translate(page, 'a', 'b')",
        "page RLIKE 'a'",
        "to_char(1, '9')",
    ):
        streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE.replace('BY user_id', f'BY {key}')}", tables=CLICKS, dialect="databricks")
    with pytest.raises(
        ValueError, match=r"compile, `dialect`: expected a dialect of SQL, got 'duckdb'. There are 'spark' and 'databricks'."
    ):
        streamtime.compile(spark, "SELECT 1", dialect="duckdb")


def test_tables_that_the_session_does_not_have_are_given_by_their_columns_and_leave_nothing(spark: SparkSession) -> None:
    spark.sql("SELECT 1 AS x").createOrReplaceTempView("clicks")
    before = {t.name for t in spark.catalog.listTables()}
    assert "`page`" in streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE}", tables=CLICKS)
    assert {t.name for t in spark.catalog.listTables()} == before
    assert spark.table("clicks").columns == ["x"]
    spark.catalog.dropTempView("clicks")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE}")


GOLDEN = TESTS / "golden" / "plain"
COLUMNS = {  # of tables that the golden texts read
    "visits": "who STRING, at TIMESTAMP, page STRING, n INT",
    "rates": "who STRING, since TIMESTAMP, rate DECIMAL(9,2), gone BOOLEAN",
}
VISITS = "TABLE(visits) PARTITION BY who ORDER BY at"
BY_N = "TABLE(visits) PARTITION BY who ORDER BY n, time => 'at'"
RATES = "TABLE(rates) PARTITION BY who ORDER BY since"
TEXTS = {  # one of each function, and what once followed the session's settings, or where rows lie
    "aggregate_changes": f"AGGREGATE_CHANGES({VISITS}, group_by => ARRAY('page'), aggregates => 'count(*) AS visitors')",
    "as_of_join": f"AS_OF_JOIN({VISITS}, {RATES}, deleted => 'gone')",
    "as_of_join_in_arrival_order": f"AS_OF_JOIN({VISITS}, {RATES}, arrival => 'length(who)', retention => INTERVAL 1 HOUR)",
    "deduplicate": f"DEDUPLICATE({VISITS}, within => INTERVAL 10 MINUTES)",
    "distinct_in_window": f"DISTINCT_IN_WINDOW({BY_N}, size => INTERVAL 1 HOUR)",
    "filter_changes": f"FILTER_CHANGES({VISITS}, condition => 'n > 0')",
    "join_changes": f"JOIN_CHANGES({VISITS}, {RATES}, deleted => 'gone')",
    "sessionize": f"SESSIONIZE({VISITS}, gap => INTERVAL 30 MINUTES)",
    "sessionize_late": f"SESSIONIZE({BY_N}, gap => INTERVAL 30 MINUTES, grace => INTERVAL 1 HOUR)",
    "session_updates": f"SESSION_UPDATES({VISITS}, gap => INTERVAL 30 MINUTES, aggregates => 'count(*) AS n', emit => 'final')",
    "suppress_until_close": f"SUPPRESS_UNTIL_CLOSE({VISITS}, window_end => 'at', grace => INTERVAL 1 HOUR)",
    "suppress_until_time_limit": f"SUPPRESS_UNTIL_TIME_LIMIT({VISITS}, wait => INTERVAL 5 MINUTES)",
    "versions": f"VERSIONS({RATES}, deleted => 'gone')",
    "window_updates": f"WINDOW_UPDATES({VISITS}, size => INTERVAL 1 HOUR, aggregates => 'count(*) AS n', emit => 'final')",
    "window_updates_sliding": f"WINDOW_UPDATES({VISITS}, difference => INTERVAL 1 HOUR, aggregates => 'count(*) AS n', emit => 'final')",
}


@pytest.fixture
def in_files(spark: SparkSession) -> Iterator[None]:
    """The tables, as such; and a session that shuffles into more partitions."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    for name, columns in COLUMNS.items():
        spark.catalog.dropTempView(name)  # of a test before, which would hide the table
        spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet")
    spark.conf.set("spark.sql.shuffle.partitions", "70")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))
    for name in COLUMNS:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.short("whether texts were made anew")
def test_each_function_has_a_text_that_stays_wherever_rows_lie_and_however_a_session_shuffles(
    spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    """STREAMTIME_GOLDEN=write makes the texts anew."""
    made = {name: streamtime.compile(spark, f"SELECT * FROM {call}", tables=COLUMNS) for name, call in TEXTS.items()}
    request.getfixturevalue("in_files")
    assert {name: streamtime.compile(spark, f"SELECT * FROM {call}") for name, call in TEXTS.items()} == made
    if os.environ.get("STREAMTIME_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        for name, text in made.items():
            (GOLDEN / f"{name}.txt").write_text(text + "\n")
    assert made == {path.stem: path.read_text().rstrip("\n") for path in GOLDEN.glob("*.txt")}


UNDER = [  # a setting, a value, and a statement whose rows follow it
    (
        "spark.sql.session.timeZone",
        "America/New_York",
        "SELECT * FROM SESSIONIZE(TABLE(SELECT id, k, CAST(t AS DATE) AS day FROM few) PARTITION BY k ORDER BY day, gap => INTERVAL 1 DAY)",
    ),
    (
        "spark.sql.ansi.enabled",
        "false",
        "SELECT * FROM VERSIONS(TABLE(few) PARTITION BY k ORDER BY t, deleted => 'CAST(x AS INT) = 1')",
    ),
    (
        "spark.sql.caseSensitive",
        "true",
        "SELECT id, k - K AS less FROM DEDUPLICATE(TABLE(SELECT id, k, id AS K, t FROM few) PARTITION BY k ORDER BY t)",
    ),
]


@pytest.mark.parametrize(("setting", "value", "text"), UNDER)
def test_a_text_of_another_setting_says_so_and_means_the_same_under_it(spark: SparkSession, setting: str, value: str, text: str) -> None:
    rows = "SELECT id, id % 2 AS k, timestamp_seconds(id * 40000) AS t, if(id = 3, '1', 'x') AS x FROM range(9)"
    spark.sql(rows).createOrReplaceTempView("few")
    usual = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        plain = streamtime.compile(spark, text)
        assert f"\n     under {setting} = {value} */\n" in plain
        found = said(spark.sql(plain))
        assert found == said(spark.sql(text))
    finally:
        spark.conf.set(setting, str(usual))
    try:  # what the comment is for
        other: Any = said(spark.sql(plain))
    except PySparkException as refused:
        other = refused
    assert other != found
    assert "under spark." not in streamtime.compile(spark, text.replace("k - K", "k").replace("id AS K, ", ""))
    spark.catalog.dropTempView("few")


def test_check_has_spark_plan_the_text_and_says_what_it_refuses(spark: SparkSession) -> None:
    text = f"SELECT nobody FROM {DEDUPLICATE}"
    assert "nobody" in streamtime.compile(spark, text, tables=CLICKS)
    with pytest.raises(AnalysisException, match=r"^compile: Spark refuses the plain text\.[\s\S]*`nobody`"):
        streamtime.compile(spark, text, tables=CLICKS, check=True)
    assert streamtime.compile(spark, text.replace("nobody", "page"), tables=CLICKS, check=True)


class Warehouse:
    """A DB-API connection to a server that speaks Spark SQL, which is this session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.asked = spark, list[str]()

    def cursor(self) -> Warehouse:
        return self

    def execute(self, statement: str) -> None:
        self.asked.append(statement)
        self.rows = [tuple(row) for row in self.spark.sql(statement).collect()]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def close(self) -> None:
        self.asked.append("closed")


def test_columns_come_by_name_from_a_json_file_or_from_a_warehouse(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    text = "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY `a b` ORDER BY ts)"
    wanted = streamtime.compile(spark, text, tables={"clicks": "`a b` STRING, ts TIMESTAMP, d DECIMAL(9,2), s STRUCT<xy: INT>"})
    named = {"a b": "STRING", "ts": "TIMESTAMP", "d": "DECIMAL(9,2)", "s": "STRUCT<xy: INT>"}
    assert streamtime.compile(spark, text, tables={"clicks": named}) == wanted
    (tmp_path / "columns.json").write_text(json.dumps({"clicks": named, "other": "k INT"}))
    assert streamtime.compile(spark, text, tables=tmp_path / "columns.json") == wanted
    assert streamtime.compile(spark, text, tables=str(tmp_path / "columns.json")) == wanted
    spark.sql(
        f"CREATE TABLE {schema}.clicks (`a b` STRING, ts TIMESTAMP, d DECIMAL(9,2), s STRUCT<xy: INT>, s2 INT) USING parquet PARTITIONED BY (s2)"
    )
    spark.sql(f"ALTER TABLE {schema}.clicks SET TBLPROPERTIES ('x' = 'y')")
    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(schema)
    try:
        warehouse = Warehouse(spark)
        described = streamtime.compile(spark, text, tables={"clicks": warehouse})
        assert warehouse.asked == ["DESCRIBE TABLE `clicks`", "closed"]
        assert described == streamtime.compile(spark, text, tables={"clicks": named | {"s2": "INT"}})
    finally:
        spark.catalog.setCurrentDatabase(before)


def test_beside_tables_that_are_given_the_sessions_views_and_settings_stay(spark: SparkSession) -> None:
    spark.sql("SELECT 'a' AS k, '2024-01-01' AS day, 1 AS v").createOrReplaceTempView("mine")
    text = "SELECT * FROM DEDUPLICATE(TABLE(SELECT CAST(day AS TIMESTAMP) AS ts, v FROM mine JOIN clicks ON k = user_id) PARTITION BY v ORDER BY ts)"
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert streamtime.compile(spark, text, tables=CLICKS) != ""
        cast = "SELECT * FROM VERSIONS(TABLE(clicks) PARTITION BY page ORDER BY ts, deleted => 'CAST(page AS INT) = 1')"
        quiet = streamtime.compile(spark, cast, tables=CLICKS)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.catalog.dropTempView("mine")
    spark.createDataFrame([], CLICKS["clicks"]).createOrReplaceTempView("clicks")
    assert streamtime.compile(spark, cast) == streamtime.compile(spark, cast, tables=CLICKS)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    assert streamtime.compile(spark, cast) == quiet
    spark.conf.unset("spark.sql.ansi.enabled")
    assert "page string)\n     under spark.sql.ansi.enabled = false */\n" in quiet
    spark.catalog.dropTempView("clicks")


LAYERS = {"bronze.clicks": "user_id STRING, ts TIMESTAMP, raw STRING", "main.silver.clicks": {"user_id": "STRING", "ts": "TIMESTAMP"}}


def test_two_tables_may_end_in_one_name_where_no_query_reads_both(spark: SparkSession) -> None:
    """As where each layer of a warehouse is a schema. Spark plans the text, too, with the columns that were given."""
    calls = [f"SELECT * FROM {DEDUPLICATE.replace('clicks', name)}" for name in ("bronze.clicks", "(SELECT * FROM main.silver.clicks)")]
    joined = "SELECT b.raw FROM AS_OF_JOIN(TABLE(main.silver.Clicks) PARTITION BY user_id ORDER BY ts, TABLE(SELECT user_id, ts AS at, raw "
    joined += "FROM `bronze`.clicks WHERE clicks.raw IS NOT NULL) PARTITION BY user_id ORDER BY at) AS b"
    for text in (*calls, joined):
        assert "clicks" in streamtime.compile(spark, text, tables=LAYERS, check=text != joined)
    bronze, silver, both = (streamtime.compile(spark, text, tables=LAYERS) for text in (*calls, joined))
    assert ("`raw`" in bronze, "`raw`" in silver) == (True, False)
    assert "FROM bronze.clicks\n" in bronze
    assert "FROM main.silver.clicks" in silver
    assert "FROM main.silver.Clicks" in both
    assert "FROM `bronze`.clicks WHERE clicks.raw IS NOT NULL" in both
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):  # a third one, which nobody gave
        streamtime.compile(spark, f"{calls[0]} UNION ALL SELECT * FROM {DEDUPLICATE}", tables=LAYERS)
    union = "SELECT user_id, ts FROM bronze.clicks UNION ALL SELECT * FROM main.silver.clicks"
    says = r"compile, `tables`: `bronze.clicks` and `main.silver.clicks` end in one name, and one query reads both"
    with pytest.raises(AnalysisException, match=f"{says}.*; line 1 pos 14"):
        streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE.replace('clicks', union)}", tables=LAYERS)
    with pytest.raises(ValueError, match=says):  # Spark plans a statement as a whole
        streamtime.compile(spark, joined, tables=LAYERS, check=True)


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"clicks": "user_id STRNG"}, "table `clicks`: Spark does not take its columns: "),
        (
            {"clicks": "user_id STRING ts TIMESTAMP"},
            "Give its columns as CREATE TABLE takes them: tables={'clicks': 'user_id STRING, ts TIMESTAMP'}.",
        ),
        ({"clicks": {}}, "table `clicks`: it should have names and types of columns"),
        ({"clicks": {"user_id": 1}}, "table `clicks`: it should have names and types of columns"),
        ({"clicks": 7}, "table `clicks`: a int is neither text, nor a mapping, nor a connection"),
        ({"shop.clicks": "k INT", "Clicks": "k INT"}, "`shop.clicks` and `Clicks` end in one name, `Clicks`"),
        ({"shop.clicks": "k INT", "Shop.Clicks": "k INT"}, "`shop.clicks` and `Shop.Clicks` end in one name, `Clicks`"),
        ({"my clicks": "k INT"}, "`my clicks` is no name of a table"),
        ("nowhere.json", "no JSON in nowhere.json: "),
    ],
)
def test_tables_that_are_none_are_refused_in_words(spark: SparkSession, tables: Any, says: str) -> None:
    with pytest.raises(ValueError, match=r"^compile, `tables`: ") as caught:
        streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE}", tables=tables)
    assert says in str(caught.value)


def test_a_file_without_an_object_and_a_warehouse_without_the_table_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ValueError, match="has tables in no object"):
        streamtime.compile(spark, "SELECT 1", tables=tmp_path / "list.json")
    warehouse = Warehouse(spark)
    with pytest.raises(ValueError, match=r"DESCRIBE TABLE `nowhere` fails: .*TABLE_OR_VIEW_NOT_FOUND"):
        streamtime.compile(spark, "SELECT 1", tables={"nowhere": warehouse})
    assert warehouse.asked[-1] == "closed"
    with pytest.raises(ValueError, match=r"DESCRIBE TABLE `main`.`no where` fails"):
        streamtime.compile(spark, "SELECT 1", tables={"main.`no where`": warehouse})


def test_tables_of_a_schema_keep_their_names_in_the_text(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.clicks AS SELECT id % 3 AS user_id, timestamp_seconds(id) AS ts, 'p' AS page FROM range(9)")
    named = f"SELECT d.user_id FROM DEDUPLICATE(TABLE({schema}.Clicks) PARTITION BY user_id ORDER BY ts) d JOIN {schema}.clicks ON d.ts = clicks.ts"
    asked = f"TABLE(SELECT c.*, {schema}.x.y, clicks.page AS other FROM {schema}.`clicks` JOIN {schema}.clicks c USING (ts) JOIN x AS {schema} ON true)"
    queried = f"SELECT * FROM DEDUPLICATE({asked} PARTITION BY user_id ORDER BY ts)"
    spark.sql("SELECT named_struct('y', 1) AS x").createOrReplaceTempView("x")
    columns = {f"{schema}.clicks": CLICKS["clicks"].replace("user_id STRING", "user_id BIGINT")}
    for text in (named, queried):
        made = streamtime.compile(spark, text, tables=columns)
        assert made.count(f"{schema}.") == text.count(f"{schema}.") + text.split("(", 1)[1].count(
            f"{schema}.", 0, text.index("PARTITION") - 20
        )
        assert said(spark.sql(made)) == said(spark.sql(text))
    spark.catalog.dropTempView("x")


@pytest.mark.parametrize(
    ("inside", "args"),
    [
        ("SELECT * FROM nasty WHERE v > :least AND s <> :s", {"least": 0, "s": 2}),
        ("SELECT *, CAST(:least AS INT) + v AS more FROM nasty LIMIT :most", {"least": 2, "most": 30}),
        ("SELECT * FROM nasty WHERE v > ?", [1]),
    ],
)
def test_parameters_of_a_table_argument_pass_through(spark: SparkSession, inside: str, args: Any) -> None:
    nasty.view(spark, nasty.scenarios(3, 9))
    ordered = inside.replace("FROM nasty LIMIT", "FROM (SELECT * FROM nasty ORDER BY id) LIMIT")
    text = f"SELECT * FROM DEDUPLICATE(TABLE({ordered}) PARTITION BY (s, k) ORDER BY t)"
    made = streamtime.compile(spark, text)
    assert said(spark.sql(made, args=args)) == said(spark.sql(text, args=args))
    assert spark.sql(made, args=args).count() > 3


def test_each_question_mark_has_its_own_value(spark: SparkSession) -> None:
    """Also where two TABLE arguments have one text."""
    nasty.view(spark, nasty.scenarios(3, 9))
    sides = ", ".join(["TABLE(SELECT * FROM nasty WHERE id % ? = 0) PARTITION BY k ORDER BY t"] * 2)
    text = f"SELECT ? AS first, count(*) AS n FROM AS_OF_JOIN({sides}) HAVING count(*) > ?"
    made, args = streamtime.compile(spark, text), ["x", 2, 3, 1]
    assert re.sub(r"/\*.*?\*/", "", made, flags=re.DOTALL).count("?") == len(args)
    assert said(spark.sql(made, args=args)) == said(spark.sql(text, args=args))
    assert said(spark.sql(made, args=args)) != said(spark.sql(text, args=["x", 3, 2, 1]))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            "DEDUPLICATE(TABLE(SELECT *, :x AS y FROM clicks) PARTITION BY user_id ORDER BY ts)",
            "TABLE: the type of column `y` is that of a parameter",
        ),
        (
            "DEDUPLICATE(TABLE(SELECT *, coalesce(?, 1) AS y FROM clicks) PARTITION BY user_id ORDER BY ts)",
            "Say the type: CAST(:day AS DATE).",
        ),
        (
            "DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => :w)",
            "`within`: a parameter cannot stand here. Write its value",
        ),
        ("DEDUPLICATE(TABLE(clicks) PARTITION BY :k ORDER BY ts)", "PARTITION BY: a parameter cannot stand here (`:k`)"),
        ("DEDUPLICATE(TABLE(SELECT * FROM clicks WHERE nobody = :k) PARTITION BY user_id ORDER BY ts)", "`nobody` cannot be resolved"),
    ],
)
def test_parameters_that_decide_what_a_call_is_are_refused(spark: SparkSession, call: str, says: str) -> None:
    with pytest.raises(AnalysisException) as refused:
        streamtime.compile(spark, f"SELECT * FROM {call}", tables=CLICKS)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            "SESSION_UPDATES(TABLE(clicks) PARTITION BY user_id ORDER BY page, time => 'ts', gap => INTERVAL 1 HOUR, "
            "aggregates => 'sum(CAST(page AS DECIMAL(38, 9))) AS total')",
            "needs a kernel for `total`, sum(..): sums of more than 28 digits are merged and divided otherwise by Spark.",
        ),
        (
            "WINDOW_UPDATES(TABLE(clicks) PARTITION BY user_id ORDER BY ts, size => INTERVAL 1 HOUR, "
            "aggregates => 'collect_list(map(page, 1)) AS pages')",
            "needs a kernel for `pages`, collect_list(..): rows are gathered in arrays that are sorted, and MAP<STRING,INT> has no order.",
        ),
        (
            "AGGREGATE_CHANGES(TABLE(clicks) PARTITION BY page ORDER BY ts, group_by => ARRAY('user_id'), "
            "aggregates => 'avg(CAST(page AS DOUBLE)) AS mean')",
            "`avg(CAST(page AS DOUBLE)) AS mean` cannot be taken back by Spark's own operators, which round a sum in the order that rows come in.",
        ),
        (
            "SUPPRESS_UNTIL_TIME_LIMIT(TABLE(clicks) PARTITION BY user_id ORDER BY ts, max_records => 9, when_full => 'emit_early')",
            "needs a kernel, which runs in Python",
        ),
        ("DEDUPLICATE(TABLE(flow) PARTITION BY value ORDER BY timestamp)", "needs state, on a stream"),
    ],
)
def test_what_has_no_plain_sql_is_refused_with_the_other_doors(spark: SparkSession, call: str, says: str) -> None:
    spark.readStream.format("rate").load().createOrReplaceTempView("flow")
    with pytest.raises(AnalysisException) as caught:
        streamtime.compile(spark, f"SELECT 1;\nSELECT *\nFROM {call}", tables=None if "flow" in call else CLICKS)
    message, function = str(caught.value), call.partition("(")[0]
    assert re.match(rf"{function}(, TABLE|, `aggregates`)?: this call has no plain SQL: ", message), message
    assert says in message
    assert re.search(
        "Run it where the pack is: spark.sql in a driver that registered it, or streamtime.query|run it where Python runs", message
    )
    assert "line 2 pos 5" in message
    spark.catalog.dropTempView("flow")


def test_wrong_calls_say_what_they_say_everywhere(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"PARTITION BY: no column `usr_id` in the input. Did you mean `user_id`\?"):
        streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE.replace('user_id', 'usr_id')}", tables=CLICKS)


NEVER_NULL = (
    "TABLE(SELECT id, id % 2 AS k, timestamp_seconds(id) AS ts, id / 7D AS d FROM range(9)) PARTITION BY id ORDER BY (k, id), time => 'ts'"
)


def test_what_is_never_null_is_so_in_plain_sql_of_least_values(spark: SparkSession) -> None:
    call = f"AGGREGATE_CHANGES({NEVER_NULL}, group_by => ARRAY('k'), aggregates => 'min(d) AS least, max(d) AS most')"
    plain = spark.sql(streamtime.compile(spark, f"SELECT * FROM {call}")).schema
    assert plain == spark.sql(f"SELECT * FROM {call}").schema
    assert {f.name for f in plain if not f.nullable} >= {"id", "change_type"}
    with pytest.raises(AnalysisException, match=r"Or run it where Python runs: a sum is rounded once there\."):
        streamtime.compile(spark, f"SELECT * FROM {call.replace('min(', 'sum(')}")


@pytest.mark.parametrize(
    "call",
    FAR,
)
def test_plain_sql_holds_to_the_ends_of_timestamp(spark: SparkSession, call: str) -> None:
    nasty.near_and_far(spark, 41)
    plain = said(spark.sql(streamtime.compile(spark, f"SELECT * FROM {call}")))
    wanted = said(spark.sql(f"SELECT * FROM {call}"))
    assert (plain[0], rounded(call, plain[1])) == (wanted[0], rounded(call, wanted[1]))
    assert len(plain[1]) > (15 if "metrics" in call else 50)


LATE = "TABLE(nasty) PARTITION BY k ORDER BY (off, id), time => 't'"


@pytest.mark.parametrize(
    "call",
    [
        f"DEDUPLICATE({LATE}, within => INTERVAL 2 SECONDS, output => 'all')",
        f"SESSIONIZE({LATE}, gap => INTERVAL 1 SECOND, grace => INTERVAL 1 SECOND, output => 'all')",
        f"WINDOW_UPDATES({LATE}, size => INTERVAL 2 SECONDS, slide => INTERVAL 1 SECOND, aggregates => 'count(*) AS n, sum(v) AS total')",
    ],
)
def test_plain_sql_of_one_clock_with_late_rows(spark: SparkSession, call: str) -> None:
    nasty.view(spark, nasty.drifting(5, 900, nasty.SECOND, far=False, late=5))
    plain = said(spark.sql(streamtime.compile(spark, f"SELECT * FROM {call}")))
    assert plain == said(spark.sql(f"SELECT * FROM {call}"))
    assert (len(plain[1]) == 900) is ("'all'" in call)


@pytest.mark.parametrize(
    ("grace", "rows"),
    [
        (  # a row is late, and lies within the session later; two sessions overlap, since the first was closed when the other came to it
            0,
            "30:8-30 10: 25:8-30 16:8-30 8:8-30 10:8-30 41:15-51 33:15-51 24:15-51 15:15-51 4: 51:15-51 62:62-62 62:62-62",
        ),
        (  # sessions that live side by side are merged by a row that the end of one, which came as the last, lets reach both
            30,
            "100:93-130 115:93-130 108:93-130 93:93-130 118:93-130 130:93-130 127:93-130 80: 171:165-171 100: 190:190-190 "
            "160:149-160 150:149-160 139: 149:149-160 211:211-211 165:165-171",
        ),
    ],
)
def test_plain_sql_of_one_clock_where_sessions_grow_backwards(spark: SparkSession, grace: int, rows: str) -> None:
    given = [(number, *row.split(":")) for number, row in enumerate(rows.split())]
    values = ", ".join(f"({number}, 1, timestamp_seconds({at}))" for number, at, _ in given)
    spark.sql(f"SELECT * FROM VALUES {values} AS t(off, k, ts)").createOrReplaceTempView("backwards")
    call = f"TABLE(backwards) PARTITION BY k ORDER BY off, time => 'ts', gap => INTERVAL 10 SECONDS, grace => INTERVAL {grace} SECONDS"
    text = f"SELECT off, unix_seconds(session_start), unix_seconds(session_end) FROM SESSIONIZE({call}, output => 'all') ORDER BY off"
    wanted = [(number, *(map(int, its.split("-")) if its else (None, None))) for number, _, its in given]
    assert [tuple(row) for row in spark.sql(text).collect()] == wanted
    assert [tuple(row) for row in spark.sql(streamtime.compile(spark, text)).collect()] == wanted


@pytest.mark.parametrize("call", [c for c in CALLS if "output" not in c or "all" in c][::9])
def test_plain_sql_of_no_rows_gives_none(spark: SparkSession, call: str) -> None:
    nasty.view(spark, [])
    spark.sql("SELECT s, k, t AS at, v AS price, off FROM nasty").createOrReplaceTempView("prices")
    assert spark.sql(streamtime.compile(spark, f"SELECT * FROM {call}")).collect() == []
