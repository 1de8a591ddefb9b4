"""compile(): what a text keeps of the statement around its calls, and what would not be plain SQL, or not the same, is refused in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from support.inputs import nasty
from support.inputs.plain_calls import SESSIONS, TWICE
from support.programs.plain_session import said

import streamtime
from streamtime.plain import tables
from streamtime.plain.hidden_calls import unordered
from streamtime.sql.call.values import Value
from streamtime.statements import calls, constants
from streamtime.statements.calls import Statement

CLICKS = {"clicks": "user_id STRING, ts TIMESTAMP, page STRING"}
SHOP = {"shop.clicks": CLICKS["clicks"]}
DEDUPLICATE = "DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts)"
WITHIN = DEDUPLICATE.replace("ts)", "ts, within => INTERVAL 1 MINUTE)")


def test_a_call_that_nobody_understands_runs_nothing(spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParseException, match="parentheses are missing around the provided TABLE argument `clicks`"):
        streamtime.compile(spark, f"SELECT * FROM {DEDUPLICATE.replace('(clicks)', ' clicks')}", tables=CLICKS)
    spark.sql(f"CREATE TABLE {schema}.written (x INT) USING parquet")
    spark.sql("SELECT 'u' AS user_id, TIMESTAMP '2020-01-01' AS ts, 'p' AS page").createOrReplaceTempView("clicks")
    monkeypatch.setattr(calls.Statement, "_items", lambda *_: (_ for _ in ()).throw(calls._Misplaced()))  # as of a grammar to come
    with pytest.raises(AnalysisException, match=r"^DEDUPLICATE: its arguments are not understood\. Write it as .*; line 1 pos \d+$"):
        streamtime.compile(spark, f"INSERT INTO {schema}.written SELECT 1 FROM {DEDUPLICATE}")
    assert spark.table(f"{schema}.written").count() == 0
    spark.catalog.dropTempView("clicks")


def test_a_semicolon_stands_behind_a_comment_that_ends_with_its_line(spark: SparkSession) -> None:
    assert streamtime.compile(spark, "SELECT 1 AS x -- first\n;\nSELECT 2 AS y") == "SELECT 1 AS x -- first\n;\nSELECT 2 AS y"


@pytest.fixture
def joined(spark: SparkSession) -> Iterator[str]:
    spark.sql("SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts, 5 AS v, named_struct('a', 1) AS info").createOrReplaceTempView("o")
    spark.sql("SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts, 7 AS price").createOrReplaceTempView("p")
    yield "o ASOF JOIN p MATCH_CONDITION (o.ts >= p.ts) ON o.k = p.k"
    spark.catalog.dropTempView("o")
    spark.catalog.dropTempView("p")


def test_around_a_join_stars_show_what_they_show_with_the_call(spark: SparkSession, joined: str) -> None:
    text = "SELECT * EXCEPT (o.k, p.ts), struct(* EXCEPT (p.k, p.ts)) AS s, to_json(struct(*)) AS j, o.* EXCEPT (v), count(*) OVER () AS n"
    text += f" FROM {joined} WHERE hash(*) IS NOT NULL"
    wanted = said(spark.sql(text))
    assert said(spark.sql(streamtime.compile(spark, text))) == said(streamtime.query(spark, text)) == wanted
    assert "o.k" not in wanted[0]


def test_a_name_with_a_schema_is_none_of_a_cte(spark: SparkSession) -> None:
    own = "WITH clicks AS (SELECT 1 AS x) SELECT * FROM {}, clicks"
    of_shop = DEDUPLICATE.replace("clicks", "shop.clicks")
    made = streamtime.compile(spark, own.format(of_shop), tables=SHOP)
    assert "FROM shop.clicks\n" in made
    assert made.endswith("\n), clicks")
    same = f"WITH clicks AS (SELECT * FROM shop.clicks) SELECT * FROM {DEDUPLICATE}"
    assert "FROM clicks\n" in streamtime.compile(spark, same, tables=SHOP, check=True)
    says = "`shop.clicks` and the CTE `clicks` end in one name, and one query reads both. Give the CTE another name"
    with pytest.raises(AnalysisException, match=says):
        streamtime.compile(spark, own.format(DEDUPLICATE.replace("clicks", "SELECT c.* FROM shop.clicks c, clicks")), tables=SHOP)
    with pytest.raises(ValueError, match=says):
        streamtime.compile(spark, own.format(of_shop), tables=SHOP, check=True)


def test_a_variable_in_an_option_is_said_as_it_was(spark: SparkSession) -> None:
    spark.createDataFrame([], CLICKS["clicks"]).createOrReplaceTempView("clicks")
    spark.sql("DECLARE OR REPLACE VARIABLE w = INTERVAL 5 MINUTES")
    made = streamtime.compile(spark, f"SELECT * FROM {WITHIN.replace('INTERVAL 1 MINUTE', 'w * 2')}")
    assert "\n     where w * 2 was INTERVAL '10' MINUTE */\n" in made
    spark.sql("DROP TEMPORARY VARIABLE w")
    spark.catalog.dropTempView("clicks")


def test_values_that_say_themselves_what_they_are() -> None:
    own = ("'all'", "5", "-5.0BD", "INTERVAL '1 02' DAY TO HOUR", "ARRAY(\"a\", 'b')", "TIMESTAMP '2024-01-01'", "true")
    assert all(map(constants.spelled_out, own))
    assert not any(map(constants.spelled_out, ("w", "session.w", "`w`", "w * 2", "current_date() - INTERVAL 1 DAY", "upper('a')")))
    values = streamtime.sql.call.kinds.MICROSECOND * 1_500_000, ["it's"], True, None, 7
    written = ["INTERVAL '1.500000' SECOND", r"ARRAY('it\'s')", "TRUE", "NULL", "7"]
    assert [constants.said(Value(v, "", "")) for v in values] == written


@pytest.mark.parametrize("order", ["ts", "off, time => 'ts'"])
def test_changes_of_rows_that_are_equal_in_all_columns_are_numbered_as_they_were_added_up(spark: SparkSession, order: str) -> None:
    """Each window that sorts such rows may give them an order of its own."""
    rows = "SELECT 'a' AS k, 1 AS off, TIMESTAMP '2024-01-01' AS ts FROM range(20) UNION ALL SELECT 'a', 0, TIMESTAMP '2024-01-01 00:00:05'"
    spark.sql(rows).createOrReplaceTempView("twins")
    options = "gap => INTERVAL 2 SECONDS, grace => INTERVAL 1 HOUR, aggregates => 'count(*) AS n'"
    call = f"SESSION_UPDATES(TABLE(twins) PARTITION BY k ORDER BY {order}, {options})"
    made = spark.sql(
        streamtime.compile(spark, f"SELECT n, change_type, change_seq FROM {call} WHERE session_start = TIMESTAMP '2024-01-01'")
    )
    assert sorted(map(tuple, made.collect())) == [(n, "upsert", n - 1) for n in range(1, 21)]
    spark.catalog.dropTempView("twins")


ELSEWHERE = (  # where a view may stand, too
    "TABLE {}",
    "SELECT 1 UNION ALL TABLE {}",
    "INSERT INTO t TABLE {}",
    "SELECT * FROM ({})",
    "SELECT * FROM range(1), ({} JOIN range(2))",
    "SELECT * FROM (TABLE {}) AS x",
)


def test_calls_that_compiling_does_not_see_are_refused(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.clicks ({CLICKS['clicks']}) USING parquet")
    spark.sql(f"CREATE VIEW {schema}.first AS SELECT * FROM {DEDUPLICATE.replace('clicks', f'{schema}.clicks')}")
    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(schema)
    spark.sql("CREATE VIEW above AS SELECT * FROM first")
    spark.catalog.setCurrentDatabase(before)
    anew = "Say SET streamtime.views = plain, and create the view anew"
    for text, says in (
        (f"SELECT *\nFROM {schema}.first", rf"view {schema}\.first stores a call of it\. {anew}.*; line 2 pos 5"),
        (f"SELECT * FROM {DEDUPLICATE.replace('clicks', f'{schema}.first')}", rf"view {schema}\.first stores a call of it"),
        *((text.format(f"{schema}.first"), rf"view {schema}\.first stores a call of it") for text in ELSEWHERE),
        (
            f"SELECT 1 FROM range(1), spark_catalog.{schema}.above",
            r"view first stores a call of it, and spark_catalog\..*\.above reads that",
        ),
        (f"EXECUTE IMMEDIATE 'SELECT * FROM ' || '{DEDUPLICATE}' USING 1", "it stands in a text for EXECUTE IMMEDIATE"),
        ("SELECT * FROM IDENTIFIER('system.builtin.deduplicate')(TABLE(x) ORDER BY ts)", "a call by IDENTIFIER"),
    ):
        with pytest.raises(AnalysisException, match=f"DEDUPLICATE: this call has no plain SQL: {says}"):
            streamtime.compile(spark, text)
    for text in (
        f"WITH first AS (SELECT 1) SELECT * FROM first, {schema}.clicks",
        f"CREATE TABLE {schema}.first (k STRING)",  # Spark says what is there
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "SELECT IDENTIFIER('a')",
    ):
        assert streamtime.compile(spark, text) == text
    given = streamtime.compile(spark, f"SELECT * FROM {schema}.first", tables={f"{schema}.first": CLICKS["clicks"]})
    assert given == f"SELECT * FROM {schema}.first"  # which is no view there


def test_columns_may_have_the_table_that_a_call_reads(spark: SparkSession) -> None:
    sessions = "SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 1 HOUR)"
    spark.sql("SELECT 'u' AS user_id, TIMESTAMP '2020-01-01' AS ts, 'p' AS page").createOrReplaceTempView("clicks")
    text = f"SELECT clicks.*, clicks.page AS again, session_id FROM {sessions} WHERE clicks.ts > TIMESTAMP '2019-01-01'"
    plain = streamtime.compile(spark, text)
    assert ") AS `clicks` WHERE clicks.ts" in plain
    assert said(spark.sql(plain)) == said(streamtime.query(spark, text)) == said(spark.sql(text))
    with pytest.raises(AnalysisException, match=r"SESSIONIZE, clicks\.\*: the call adds columns to those of the table"):
        streamtime.compile(spark, f"SELECT clicks.* EXCEPT (page) FROM {sessions}")
    spark.catalog.dropTempView("clicks")


class Warehouse:
    """A DB-API connection that describes a table in these rows."""

    def __init__(self, rows: list[tuple[str | None, str | None, str | None]]) -> None:
        self.rows = rows

    def cursor(self) -> Warehouse:
        return self

    def execute(self, statement: str) -> None: ...

    def fetchall(self) -> list[tuple[str | None, str | None, str | None]]:
        return self.rows

    def close(self) -> None: ...


@pytest.mark.parametrize("heading", ["# Partition Information", "# Detailed Table Information", "# Metadata Columns", "# Some other", ""])
def test_columns_that_a_warehouse_describes_end_at_a_heading_and_not_at_a_column_that_looks_like_one(heading: str) -> None:
    columns = {"id": "int", "#id": "string", "# Clustering Information": "int"}
    rows = [
        *((name, kind, None) for name, kind in columns.items()),
        (heading, "", ""),
        ("# col_name", "data_type", "comment"),
        ("id", "int", None),
    ]
    assert tables.described("t", ["t"], Warehouse(rows)) == columns  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT * FROM t LIMIT 3", "LIMIT without ORDER BY"),
        ("SELECT a, row_number() OVER (ORDER BY b) AS n FROM t LIMIT :n", "LIMIT without ORDER BY"),
        ("SELECT * FROM (SELECT * FROM t LIMIT 3) ORDER BY a", "LIMIT without ORDER BY"),
        ("SELECT * FROM t ORDER BY a UNION ALL SELECT * FROM t OFFSET 2", "OFFSET without ORDER BY"),
        ("SELECT * FROM t TABLESAMPLE (3 ROWS) REPEATABLE (1)", "TABLESAMPLE"),
        ("SELECT * FROM t TABLESAMPLE (3 PERCENT)", "TABLESAMPLE"),
        ("SELECT * FROM t TABLESAMPLE (3 PERCENT) REPEATABLE (1)", None),
        ("SELECT * FROM t ORDER BY a LIMIT 3 OFFSET 2", None),
        ("SELECT a FROM t UNION ALL SELECT b FROM t ORDER BY 1 LIMIT 3", None),
        ("SELECT * FROM (SELECT * FROM t ORDER BY a) LIMIT ?", None),
        ("SELECT limit, offset AS limit FROM t WHERE limit > 3 AND t.offset = 5 LIMIT ALL", None),
    ],
)
def test_what_takes_any_rows_is_found(query: str, what: str | None) -> None:
    assert (unordered(Statement(query), [(0, len(query))]) or (None,))[0] == what


def test_what_takes_any_rows_is_refused_where_plain_sql_reads_it_again(spark: SparkSession) -> None:
    cut = "SELECT * FROM clicks LIMIT 3"
    says = r"it needs its input 2 times, and LIMIT without ORDER BY may take other rows each time\. Add an ORDER BY"
    for call in (WITHIN.replace("clicks", cut), f"{WITHIN.replace('clicks', 'x')}, (SELECT 1)"):
        with pytest.raises(AnalysisException, match=says):
            streamtime.compile(spark, f"WITH x AS ({cut}) SELECT * FROM {call}", tables=CLICKS)
    for call in (DEDUPLICATE.replace("clicks", cut), WITHIN.replace("clicks", cut.replace("LIMIT", "ORDER BY ts LIMIT"))):
        assert "LIMIT 3" in streamtime.compile(spark, f"SELECT * FROM {call}", tables=CLICKS)


ARRIVAL = "TABLE(t) PARTITION BY (`last`, `items`, `one`, `session`) ORDER BY n, time => 'ts'"
FOLDS = [
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 1 HOUR)",
    f"DEDUPLICATE({ARRIVAL}, within => INTERVAL 1 HOUR, refresh => true, at_most => INTERVAL 2 HOURS)",
    f"SESSIONIZE({ARRIVAL}, gap => INTERVAL 1 HOUR, grace => INTERVAL 1 HOUR)",
    f"SUPPRESS_UNTIL_TIME_LIMIT({ARRIVAL}, wait => INTERVAL 5 MINUTES)",
]


@pytest.mark.parametrize("call", FOLDS)
def test_keys_may_have_the_names_of_what_a_plan_computes_beside_them(spark: SparkSession, call: str) -> None:
    columns = {"t": "`last` INT, items STRING, one STRING, session STRING, ts TIMESTAMP, n INT"}
    assert streamtime.compile(spark, f"SELECT * FROM {call}", tables=columns, check=True)


FULL = [
    ("SUPPRESS_UNTIL_TIME_LIMIT", "max_records", "wait => INTERVAL 1 HOUR, at_end => 'hold', output => 'rows'"),  # nothing comes out
    *(
        pytest.param(*case, marks=pytest.mark.long("the same of other outputs"))
        for case in (
            ("SUPPRESS_UNTIL_TIME_LIMIT", "max_bytes", "wait => INTERVAL 3 SECONDS, output => 'all'"),
            ("SUPPRESS_UNTIL_TIME_LIMIT", "max_records", "wait => INTERVAL 3 SECONDS, clock_by => ARRAY('s'), output => 'dropped'"),
            ("SUPPRESS_UNTIL_CLOSE", "max_bytes", "window_end => 't', grace => INTERVAL 2 SECONDS, output => 'explain'"),
        )
    ),
]


@pytest.mark.parametrize(("function", "bound", "options"), FULL)
def test_a_buffer_that_is_full_is_an_error_of_plain_sql_too(
    spark: SparkSession, function: str, bound: str, options: str, thorough: bool
) -> None:
    """At one less than the most that it held, and not at that; whatever comes out, and though few rows are asked for."""
    nasty.view(spark, nasty.scenarios(23, 40 if thorough else 9)).withMetadata("v", {"comment": "a value"}).createOrReplaceTempView("told")
    call = f"{function}(TABLE(told) PARTITION BY (s, k) ORDER BY off, time => 't', {options})"
    metrics = spark.sql("SELECT * FROM " + re.sub(r"output => '\w+'", "output => 'metrics'", call)).collect()
    name = f"suppression_buffer_{'count' if bound == 'max_records' else 'size'}_max"
    (most,) = {int(row.value) for row in metrics if row.metric == name}
    assert most > 1
    enough, less = (f"SELECT * FROM {call[:-1]}, {bound} => {at}, when_full => 'fail')" for at in (most, most - 1))
    few = ("WHERE k = 'nobody'", *(["", "LIMIT 1", "JOIN (SELECT 'nobody' AS k) USING (k)"] if thorough else []))
    nested = [f"SELECT * FROM DEDUPLICATE(TABLE({less}) PARTITION BY k ORDER BY t)"]
    texts = [streamtime.compile(spark, text) for text in (enough, *(f"{less} {more}" for more in few), *(nested if thorough else []))]
    plain, called = (spark.sql(text) for text in (texts[0], enough))
    assert said(plain) == said(called)
    assert [f.metadata for f in plain.schema] == [f.metadata for f in called.schema]
    for text in (*texts[1:], less):
        with pytest.raises(Exception, match=f"{function}, `{bound}`: the buffer is full: expected at most {most - 1} .*, got \\d+"):
            spark.sql(text).collect()


IN_HOURS = (
    "DISTINCT_IN_WINDOW(TABLE(clicks) PARTITION BY user_id ORDER BY page, time => 'ts', size => INTERVAL 1 HOUR)",
    "WINDOW_UPDATES(TABLE(clicks) PARTITION BY user_id ORDER BY page, time => 'ts', size => INTERVAL 1 HOUR, aggregates => 'count(*) AS n',"
    " emit => 'final')",
)


@pytest.mark.parametrize("call", IN_HOURS)
def test_what_a_call_has_in_each_task_plain_sql_has_too(spark: SparkSession, call: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # Spark then does it only where it is told to
    own.createDataFrame([], CLICKS["clicks"]).createOrReplaceTempView("clicks")
    text = streamtime.compile(own, f"SELECT * FROM {call}")
    assert re.search(r"SELECT /\*\+ BROADCAST\((\w+)\) \*/ \*\n +FROM \w+\n +LEFT OUTER JOIN \1 ON ", text)
    plan = own.sql(text)._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    assert "BroadcastHashJoin" in plan
    assert "SortMergeJoin" not in plan


def test_what_a_hint_names_is_not_read_for_that(spark: SparkSession) -> None:
    call = IN_HOURS[0].replace("clicks", "SELECT * FROM clicks LIMIT 3")
    with pytest.raises(AnalysisException, match="it needs its input 2 times"):
        streamtime.compile(spark, f"SELECT * FROM {call}", tables=CLICKS)


LEFT = (
    "SELECT * FROM VALUES ('a', 15, -9000), ('a', 15, 25), ('a', 15, 9000), ('a', 45, 9000), ('a', 15, NULL), "
    "(NULL, 16, 25), ('b', 253402300799, 9000), ('a', -62135596800, 9000) AS l(k, s, off)"
)
NO_PART = "UNION ALL SELECT * FROM VALUES (NULL, TIMESTAMP '9999-12-31', 12, 7), ('a', NULL, 13, 8) AS r(k, at, off, price)"
PRICE = "`prïce ``🍵`"


@pytest.mark.parametrize(
    ("right", "prices"),
    [
        (f"id AS off, id AS price FROM range(10, 42) {NO_PART}", (None, None, 15, None, 41)),
        (f"25 AS off, id AS price FROM range(10, 42) {NO_PART}", (None, None, None, None, 41)),
        (f"id AS off, id AS price FROM range(0) {NO_PART}", (None,) * 5),
        ("id AS off, id AS price FROM range(0)", (None,) * 5),
    ],
)
def test_left_rows_that_arrive_long_before_or_after_all_right_ones_meet_the_last_stream_time(
    spark: SparkSession, right: str, prices: tuple[int | None, ...]
) -> None:
    """Ranges of arrivals are cut for right rows: others may lie below the first or far above the last. What takes no part moves no clock."""
    left = f"TABLE(SELECT *, off AS came, timestamp_seconds(s) AS ts FROM ({LEFT})) PARTITION BY k ORDER BY ts"
    rows = f"SELECT 'a' AS k, timestamp_seconds(id) AS at, {right}"
    versions = f"TABLE(SELECT * EXCEPT (price), price AS {PRICE} FROM ({rows})) PARTITION BY k ORDER BY at"
    call = f"AS_OF_JOIN({left}, {versions}, arrival => 'off', retention => INTERVAL 20 SECONDS, join_type => 'left')"
    unknown, before, amid, after, later = prices
    expected = [
        (-62135596800, 9000, None),
        (15, None, unknown),
        (15, -9000, before),
        (15, 25, amid),
        (15, 9000, after),
        (16, 25, None),
        (45, 9000, later),
        (253402300799, 9000, None),
    ]
    for text in (asked := f"SELECT s, came, {PRICE} FROM {call}", streamtime.compile(spark, asked)):
        found = sorted(map(tuple, spark.sql(text).collect()), key=lambda row: (row[0], row[1] or -99999))
        assert found == expected


MANY = [f"c{i}" for i in range(12)]
TOTALS = f"aggregates => '{', '.join(f'max({c}) AS m_{c}' for c in MANY)}'"
WIDE = (
    "DISTINCT_IN_WINDOW(TABLE(wide) PARTITION BY k ORDER BY n, time => 'ts', size => INTERVAL 1 HOUR)",
    "DEDUPLICATE(TABLE(wide) PARTITION BY k ORDER BY n, time => 'ts', within => INTERVAL 1 HOUR)",
    "SESSIONIZE(TABLE(wide) PARTITION BY k ORDER BY n, time => 'ts', gap => INTERVAL 1 HOUR, grace => INTERVAL 1 HOUR)",
    *(
        f"WINDOW_UPDATES(TABLE(wide) PARTITION BY k ORDER BY {order}, size => INTERVAL 1 HOUR, {TOTALS}, emit => 'final', at_end => 'emit')"
        for order in ("n, time => 'ts'", "ts")
    ),
    f"SESSION_UPDATES(TABLE(wide) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 HOUR, {TOTALS}, emit => 'final', at_end => 'emit')",
    "AS_OF_JOIN(TABLE(wide) PARTITION BY k ORDER BY ts, TABLE(SELECT *, ts AS at FROM wide) PARTITION BY k ORDER BY at, arrival => 'n')",
)


@pytest.mark.parametrize("call", WIDE, ids=lambda call: call.partition("(")[0])
def test_no_condition_of_a_text_has_many_columns_in_it(spark: SparkSession, call: str) -> None:
    """Spark carries each condition through each renaming, and each step of a text is one, as many times as there are subsets of the columns:
    with 18 a plan took 20 seconds, and with each one more twice as long. What it takes for not deterministic it does not carry.
    """
    columns = ", ".join(["k INT, n BIGINT, ts TIMESTAMP", *(f"{c} INT" for c in MANY)])
    spark.createDataFrame([], columns).createOrReplaceTempView("wide")
    text = streamtime.compile(spark, f"SELECT * FROM {call}")
    plan = spark.sql(text)._jdf.queryExecution().withCachedData()  # as it is analysed, with each CTE in one place
    assert most_columns(plan) <= 8, text
    spark.catalog.dropTempView("wide")


def most_columns(plan: Any) -> int:
    """How many columns a condition has, of all that Spark carries."""
    own = 0
    if plan.nodeName() == "Filter" and plan.condition().deterministic():
        own = plan.condition().references().size()
    below = [plan.children(), plan.innerChildren()]
    return max([own, *(most_columns(nodes.apply(i)) for nodes in below for i in range(nodes.size()))])


UPDATES = (
    "WINDOW_UPDATES(TABLE(few) PARTITION BY (s, k) ORDER BY off, time => 't', "
    "size => INTERVAL 5 SECONDS, grace => INTERVAL 2 SECONDS, aggregates => 'count(*) AS n')"
)
TURNS = "spark.sql.analyzer.maxIterations"
CHAIN = (
    "SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT("
    f"TABLE(SELECT * FROM {UPDATES}) PARTITION BY (s, k, window_start) ORDER BY off, time => 'change_time', wait => INTERVAL 2 SECONDS)"
)


@pytest.fixture
def few(spark: SparkSession) -> Iterator[None]:
    nasty.view(spark, nasty.scenarios(5, 3), name="few")
    yield
    spark.conf.unset(TURNS)
    spark.catalog.dropTempView("few")


@pytest.mark.usefixtures("few")
def test_a_deep_text_can_be_analysed_or_is_refused(spark: SparkSession) -> None:
    """Spark's analyzer takes a turn or two for each CTE that others stand on, and has a hundred. A `*` in front of other columns is one."""
    shallow = "SELECT * FROM DEDUPLICATE(TABLE(few) PARTITION BY k ORDER BY t)"
    text = streamtime.compile(spark, shallow)
    assert "SELECT *, " in text
    inner = SESSIONS[4].replace("nasty", "few")
    above = f"SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM {inner}) PARTITION BY k ORDER BY change_time)"
    assert "SELECT *, " not in streamtime.compile(spark, above)  # as deep as the calls in it are together
    spark.conf.set(TURNS, "80")
    deep = streamtime.compile(spark, f"SELECT * FROM {SESSIONS[5]}".replace("nasty", "few"))
    assert f"under {TURNS} = 80" in deep
    spark.sql(deep)
    assert streamtime.compile(spark, shallow) == text
    spark.conf.set(TURNS, "60")
    through_a_cte = f"WITH updates AS (SELECT * FROM {UPDATES}) " + CHAIN.replace(f"SELECT * FROM {UPDATES}", "updates")
    says = r"^SUPPRESS_UNTIL_TIME_LIMIT: with the calls in it, .* too deep .* 60 turns .*\. Write an inner call into a table .*; line 1 pos \d+$"
    for chained in (CHAIN, through_a_cte):
        with pytest.raises(AnalysisException, match=says):
            streamtime.compile(spark, chained)


@pytest.mark.usefixtures("few")
@pytest.mark.long("the same of one call, and of two that are not as deep")
def test_a_deep_text_gives_what_its_calls_give(spark: SparkSession) -> None:
    found, wanted = (spark.sql(text).collect() for text in (streamtime.compile(spark, CHAIN), CHAIN))
    assert found
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("function", ["SESSION_UPDATES", "SESSIONIZE", "DISTINCT_IN_WINDOW"])
def test_a_key_of_sessions_may_be_given_twice(spark: SparkSession, function: str) -> None:
    more = ", aggregates => 'count(*) AS n'" if function == "SESSION_UPDATES" else ", output => 'all'"
    call = f"{function}({{}}, gap => INTERVAL 2 SECONDS, grace => INTERVAL 1 SECOND{more})"
    asked = f"SELECT * FROM {call.format(TWICE.replace('nasty', 'few'))}"
    assert spark.sql(streamtime.compile(spark, asked)).columns == spark.sql(asked).columns


def test_a_window_function_stands_in_the_expression_that_it_is_for(spark: SparkSession) -> None:
    spark.createDataFrame([], "k INT, ts TIMESTAMP, n INT").createOrReplaceTempView("few")
    call = "VERSIONS(TABLE(few) PARTITION BY k ORDER BY n, time => 'ts', grace => INTERVAL 1 SECOND)"
    text = streamtime.compile(spark, f"SELECT * FROM {call}")
    assert text.count("FROM (\n") == 1
    spark.catalog.dropTempView("few")
