"""query(): calls found and replaced in text, then the same answers as the analyzer door's, with a JVM at hand and over Spark Connect."""

from __future__ import annotations

import ast
import datetime
import pickle
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from support import PROGRAMS, TESTS
from support.doors import STANDS
from support.inputs.deduplicate_calls import CASES as DUPLICATES
from support.inputs.deduplicate_calls import options_of, some_rows, sql_of
from support.pages.golden import of_any_spark
from support.programs.connect_client import CALL, EVENTS, answer
from support.programs.jvm import talking
from support.selected import selected
from support.tasks import sorts

import streamtime
from streamtime.shelf import SPECS
from streamtime.shell.script import statements as conversation
from streamtime.sql.call.errors import CallError
from streamtime.sql.call.names import Names
from streamtime.sql.syntax.tokens import tokens
from streamtime.statements import qualifiers
from streamtime.statements.calls import Malformed, Statement, as_script, spoken
from streamtime.statements.constants import literal

DOORS = STANDS
GOLDEN = (TESTS / "golden" / "wrong_calls.out").read_text()
SETUP, *WRONG = (
    s.sql for s in conversation((TESTS / "golden" / "wrong_calls.sql").read_text()) if "wrong_" not in s.sql
)  # tables need Delta
# Without a JVM nothing prints an expression as the analyzer has resolved it: these messages show it as it was written
WORDED = {
    "within => make_interval(0, 1)": "got make_interval(0, 1, 0, 0, 0, 0, 0.000000) (INTERVAL)",
    "within => 1/0": "`within`: 1/0 cannot be computed: [DIVIDE_BY_ZERO] Division by zero.",
    "PARTITION BY count(*)": "an aggregate cannot stand here (`count(*)`)",
    "DEDUPLICATE((SELECT * FROM t), keys": "(SELECT * FROM t) cannot be computed",
    # what the parser in the server's driver refuses
    "RIGHT ASOF JOIN": "AS_OF_JOIN, RIGHT JOIN: it keeps right rows that no left row asked for",
    "AS OF a.ts b": "AS_OF_JOIN, JOIN: there is no condition. Add ON",
    # a value, or what is no TABLE argument, is read by the client, or by Spark without the call around it
    "within => 10 MINUTES": "Syntax error at or near 'LIMIT'",
    "ORDER BY ts within =>": "`ts within => INTERVAL 10 MINUTES` is not a SQL expression",
    "DEDUPLICATE(t PARTITION": "Syntax error at or near 'BY'",
    "DEDUPLICATE((SELECT * FROM t) PARTITION": "Syntax error at or near 'BY'",
    "DEDUPLICATE(SELECT * FROM t)": "with name `SELECT` cannot be resolved",
    "SELECT DEDUPLICATE(": "cannot be resolved",
    "LATERAL": "DEDUPLICATE, TABLE: no column `o`.`user_id` in its query. A TABLE argument cannot refer to the row of an outer query",
}


# -- finding calls


def found(text: str) -> list[str]:
    statement = Statement(text)
    return [text[slice(*c.span)] for c in statement.calls(SPECS)]


F1, F2 = "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts)", "FUNCTION_CATALOG()"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"SELECT * FROM {F1}", [F1]),
        (f"SELECT '{F1}', \"{F1}\", `{F1}`, r'\\', '\\'{F1}', 'it''s {F1}' FROM t", []),
        (f"SELECT 1 -- FROM {F1}\n/* /* nested */ FROM {F1} */ FROM {F2} -- {F1}", [F2]),
        (f"SELECT /*+ BROADCAST(d) */ * FROM {F2} d", [F2]),
        (f"FROM {F1} |> WHERE k = 1 |> SELECT v", [F1]),
        ("select * from deduplicate (table(t) order by ts)", ["deduplicate (table(t) order by ts)"]),
        ("select * from deduplicate (table (t) with single partition order by ts) d", ["deduplicate (table (t) with single partition order by ts)"]),
        ("SELECT * FROM `Deduplicate`(TABLE(t) PARTITION BY k ORDER BY ts)", ["`Deduplicate`(TABLE(t) PARTITION BY k ORDER BY ts)"]),
        (f"SELECT * FROM system.builtin.{F1}, builtin . {F2}", [f"system.builtin.{F1}", f"builtin . {F2}"]),
        (f"SELECT * FROM mine.{F1}, x.builtin.{F1}", []),
        ("SELECT deduplicate, t.function_catalog AS deduplicate FROM deduplicate AS function_catalog(deduplicate)", []),
        ("SELECT deduplicate(x), y IS DISTINCT FROM deduplicate(y) FROM t", []),
        ("WITH deduplicate(a) AS (SELECT 1), function_catalog(b) AS (SELECT 2) SELECT * FROM deduplicate", []),
        ("INSERT INTO deduplicate(k) VALUES (1)", []),
        ("CREATE FUNCTION deduplicate(x INT) RETURNS INT RETURN x", []),
        (f"SELECT a, max(b) FROM x JOIN y ON x.i = y.i, {F2}", [F2]),
        (f"SELECT * FROM ({F2}) JOIN LATERAL {F1} ON true", [F2, f"LATERAL {F1}"]),
        (f"SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM {F1}) PARTITION BY (f(k, 1), x[1]) ORDER BY ts)", [F1, ...]),
        (f"SELECT '{{}}' FROM {F1} WHERE EXISTS (SELECT 1 FROM {F2})", [F1, F2]),
        ("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts", []),
        ("SELECT * FROM DEDUPLICATE TABLE(t))", []),
        ("SELECT 'open FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts)", [F1]),  # Spark's parser refuses the rest
        ("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k, v ORDER BY ts)", Malformed),
        ("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, v)", Malformed),
        ("SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts, within => )", Malformed),
        ("SELECT * FROM DEDUPLICATE(TABLE() PARTITION BY k ORDER BY ts)", Malformed),
        ("SELECT * FROM DEDUPLICATE(TABLE(t) k ORDER BY ts)", Malformed),
        ("SELECT * FROM DEDUPLICATE(TABLE t PARTITION BY k ORDER BY ts)", Malformed),  # Spark's parser asks for parentheses
    ],
)  # fmt: skip
def test_calls_are_found_where_a_table_may_stand_and_nowhere_else(text: str, calls: list[Any] | type[Exception]) -> None:
    if isinstance(calls, type):
        with pytest.raises(calls):
            found(text)
        return
    got = found(text)
    assert len(got) == len(calls)
    assert all(expected in (..., call) for call, expected in zip(got, calls, strict=True)), got


def test_what_a_call_is_given() -> None:
    text = "SELECT * FROM DEDUPLICATE(input => TABLE (a.`b c`) DISTRIBUTE BY (k, f(x, 1) /* , */) SORT BY (ts DESC, v ASC NULLS LAST, (w)), `keep` => 'last' -- newest\n, x => ARRAY('a', 'b'))"
    (call,) = Statement(text).calls(SPECS)
    (rows,) = call.tables
    assert rows.is_name
    assert text[slice(*rows.inside)] == "a.`b c`"
    assert [text[slice(*k.span)] for k in rows.keys] == ["k", "f(x, 1)"]
    assert [(text[slice(*o.span)], o.ascending, o.nulls_first) for o in rows.order] == [
        ("ts", False, False),
        ("v", True, False),
        ("(w)", True, True),
    ]
    assert [(o.name, text[slice(*o.span)]) for o in call.options] == [("keep", "'last'"), ("x", "ARRAY('a', 'b')")]


def test_a_second_table_may_follow_a_clause_without_parentheses() -> None:
    text = "SELECT * FROM AS_OF_JOIN(TABLE(l) PARTITION BY k ORDER BY ts, TABLE(SELECT 1) PARTITION BY k, j ORDER BY ts, x => 1)"
    with pytest.raises(Malformed):
        Statement(text).calls(SPECS)
    text = text.replace("k, j", "(k, j)")
    (call,) = Statement(text).calls(SPECS)
    assert [[text[slice(*k.span)] for k in rows.keys] for rows in call.tables] == [["k"], ["k", "j"]]
    assert [o.name for o in call.options] == ["x"]
    with pytest.raises(Malformed):  # an item of ORDER BY, as Spark reads it
        Statement("SELECT * FROM AS_OF_JOIN(TABLE(l) PARTITION BY k ORDER BY ts, TABLE(r), x => 1)").calls(SPECS)


def queries(text: str) -> list[str]:
    """The queries of TABLE arguments, without their blanks."""
    statement = Statement(text)
    return [" ".join(" ".join(text[slice(*s)] for s in r.query).split()) for c in statement.calls(SPECS) for r in c.tables]


def test_rows_come_with_the_definitions_that_they_need() -> None:
    call = "DEDUPLICATE(TABLE({}) PARTITION BY k ORDER BY ts)"
    assert queries(f"WITH a AS (SELECT 1), b (k) AS (SELECT * FROM a), c AS (SELECT 3) SELECT * FROM {call.format('b')}") == [
        "WITH a AS (SELECT 1) , b (k) AS (SELECT * FROM a) TABLE b"
    ]
    assert queries(f"WITH a AS (SELECT 1), b AS (SELECT * FROM {call.format('a')}), c AS (SELECT 1) SELECT 1") == [
        "WITH a AS (SELECT 1) TABLE a"
    ]
    nested = f"WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM {call.format('SELECT * FROM b')}) x JOIN a"
    assert queries(nested) == ["WITH a AS (SELECT 1) ( WITH b AS (SELECT * FROM a) (SELECT * FROM b) )"]
    assert queries(f"SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN {call.format('a')}") == ["TABLE a"]  # out of its scope
    assert queries(f"WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1) SELECT * FROM {call.format('r')}") == [
        "WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1) TABLE r"
    ]
    assert queries(f"INSERT INTO t WITH a (SELECT 1) SELECT * FROM {call.format('SELECT * FROM A')}") == [
        "WITH a (SELECT 1) (SELECT * FROM A)"
    ]


@pytest.mark.parametrize(
    "definition",
    [
        "a AS (SELECT 1)", "a (SELECT 1)", "a (TABLE x)", "a (k, `k)`) AS (SELECT 1)", "a (k) (SELECT 1)",
        "a (k) MAX RECURSION LEVEL 9 AS (SELECT 1)", "a MAX RECURSION LEVEL 9 (SELECT 1)",
    ],
)  # fmt: skip
def test_behind_the_definitions_a_query_may_stand_in_parentheses(definition: str) -> None:
    query = "(SELECT * FROM DEDUPLICATE(TABLE(a) PARTITION BY k ORDER BY ts) LIMIT 1) UNION ALL (SELECT * FROM a)"
    assert queries(f"WITH RECURSIVE {definition} {query}") == [f"WITH RECURSIVE {definition} TABLE a"]
    assert queries(f"(WITH z AS (SELECT 2), {definition} {query})") == [f"( WITH {definition} TABLE a )"]


def written(text: str, columns: str = "o.k o.v p.k p.info") -> str:
    """A statement around J(..), whose columns are these, with each `*` that would show more written out; without quotes."""
    text = text.replace("J(..)", "AS_OF_JOIN(TABLE(o) PARTITION BY k ORDER BY ts, TABLE(p) PARTITION BY k ORDER BY ts)")
    statement = Statement(text)
    (call,) = statement.calls(SPECS)
    having = [*(qualifiers.Column(*c.split(".")) for c in columns.split()), *(qualifiers.Column(t, t, whole=True) for t in "op")]
    stars = qualifiers.stars(statement, call, tuple(having), Names())
    for (start, end), made in sorted(({call.span: "J(..)"} | stars).items(), reverse=True):
        text = text[:start] + made + text[end:]
    return text.replace("`", "")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT *, o.v * p.k FROM J(..)", "SELECT o.k, o.v, p.k, p.info, o.v * p.k FROM J(..)"),
        ("SELECT * EXCEPT (V, o.k), 1 AS v FROM J(..)", "SELECT p.k, p.info, 1 AS v FROM J(..)"),
        ("SELECT to_json(struct(*)), count(*) FROM J(..)", "SELECT to_json(struct(o.k, o.v, p.k, p.info)), count(*) FROM J(..)"),
        ("SELECT struct(1, * EXCEPT (info, o.k, o.v)) FROM J(..)", "SELECT struct(1, p.k) FROM J(..)"),
        ("SELECT 1 FROM J(..) WHERE hash(*) > 0 UNION SELECT hash(*) FROM o", "SELECT 1 FROM J(..) WHERE hash(o.k, o.v, p.k, p.info) > 0 UNION SELECT hash(*) FROM o"),
        ("SELECT * EXCEPT (q.z, y, o.v) FROM J(..) JOIN t AS q ON EXISTS (SELECT * FROM o)", "SELECT o.k, p.k, p.info, q.* EXCEPT (z, y) FROM J(..) JOIN t AS q ON EXISTS (SELECT * FROM o)"),
        ("SELECT a IS DISTINCT FROM b, * FROM J(..)", "SELECT a IS DISTINCT FROM b, o.k, o.v, p.k, p.info FROM J(..)"),
        ("SELECT * EXCEPT (k) FROM J(..)", "`k` is not one column of one table"),
        ("SELECT * EXCEPT (info.x) FROM J(..)", "`info.x` is not one column of one table"),
        ("SELECT struct(*) FROM J(..) JOIN (SELECT 1)", "the columns beside those of the call are not known"),
    ],
)  # fmt: skip
def test_around_a_join_a_star_shows_the_columns_and_not_the_tables(text: str, made: str) -> None:
    if made.startswith("SELECT"):
        assert written(text) == made
        return
    with pytest.raises(CallError) as refused:
        written(text)
    assert made in str(refused.value)


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("SELECT t.v FROM {}", "t"),
        ("FROM {} |> WHERE T.v > 1", "t"),
        ("SELECT v FROM (SELECT * FROM x), {} WHERE EXISTS (SELECT 1 FROM y WHERE y.k = t.k)", "t"),
        ("SELECT v FROM {}", None),
        ("SELECT t.v FROM {} AS d", None),
        ("SELECT t.v FROM {} JOIN t USING (k)", None),  # it is that one's
        ("SELECT (SELECT max(v) FROM {} WHERE k = t.k) FROM t", None),  # it is the outer one's
        ("SELECT (SELECT max(v) FROM {} WHERE k = t.k) FROM u", "t"),
        ("SELECT t.v FROM {} TABLESAMPLE (3 ROWS)", None),  # an alias stands behind that
        ("MERGE INTO t USING {} ON t.k = k WHEN MATCHED THEN DELETE", None),
    ],
)
def test_a_calls_columns_have_the_table_that_it_reads_where_the_query_says_so(text: str, alias: str | None) -> None:
    for table, inside in (("t", "s.t"), ("t", "SELECT * FROM x AS t WHERE k > 1"), (None, "SELECT k FROM t")):
        statement = Statement(text.format(f"DEDUPLICATE(TABLE({inside}) PARTITION BY k ORDER BY ts)"))
        (call,) = statement.calls(SPECS)
        assert qualifiers.alias(statement, call) == (alias if table else None), statement.text


def test_statements_are_cut_at_semicolons_but_not_in_strings_comments_and_scripts() -> None:
    assert spoken("SELECT ';' /* ; */; -- ;\n ; SELECT 2 ;") == ["SELECT ';' /* ; */", "SELECT 2 "]
    for whole in ("SELECT 1;", "BEGIN SELECT 1; SELECT 2; END", "", " ; "):
        assert spoken(whole) == [whole]
    assert as_script(["SELECT 1 -- one; two\n", " SELECT 2 /* -- */", "SELECT '--'", "SELECT 4 --"]) == (
        "SELECT 1 -- one; two\n;\nSELECT 2 /* -- */;\nSELECT '--';\nSELECT 4 --"
    )


def test_tokens_are_those_of_sparks_lexer() -> None:
    text = "a_1 `b``c` 'd''e\\'' \"f\\\"\" r'\\' => |> :: :p ? $$ ; $$ /*+ hint(x) */ é"
    assert [(t.kind, t.text) for t in tokens(text)] == [
        ("word", "a_1"), ("quoted", "`b``c`"), ("string", "'d''e\\''"), ("string", '"f\\""'), ("string", "r'\\'"), ("sign", "=>"), ("sign", "|>"),
        ("sign", "::"), ("sign", ":"), ("word", "p"), ("sign", "?"), ("string", "$$ ; $$"), ("word", "é"),
    ]  # fmt: skip
    assert " ".join(t.text for t in tokens("a<=>b<=c!=d->e||f<>g=-1")) == "a <=> b <= c != d -> e || f <> g = - 1"
    assert tokens("/* never /* closed */ SELECT") == []


def test_plain_literals_need_no_round_trip() -> None:
    seconds = datetime.timedelta(seconds=1)
    for text, python in (
        ("'a'", "a"),
        ("12", 12),
        ("TRUE", True),
        ("null", None),
        ("ARRAY('a', 'b')", ["a", "b"]),
        ("INTERVAL 90 seconds", 90 * seconds),
    ):
        value = literal(text)
        assert value is not None
        assert value.python == python
    for text in (
        "'a\\n'",
        "'a' 'b'",
        '"a"',
        "-1",
        "1.5",
        "INTERVAL 1 MONTH",
        "INTERVAL '1:00' MINUTE TO SECOND",
        "ARRAY(1)",
        "INTERVAL 0.5 SECONDS",
        ":p",
    ):
        assert literal(text) is None


# -- with a JVM at hand


@pytest.fixture
def events(spark: SparkSession) -> None:
    spark.sql(EVENTS)


ASOF = "events e LEFT ASOF JOIN events f MATCH_CONDITION (e.ts > f.ts) ON e.k = f.k AND f.v <> 'z'"
SIZE = "size => INTERVAL 10 SECONDS"
TEXTS = [
    f"SELECT e.k, f.v AS before, *, 1 AS one FROM {ASOF} WHERE e.v > 'a' AND '*' = '*'",
    f"SELECT g.v, f.ts, e.* FROM {ASOF} JOIN events d ON d.v = e.v ASOF JOIN events g MATCH_CONDITION (e.ts <= g.ts) ON d.k = g.k WHERE d.k = 1",
    f"WITH c AS (SELECT e.k, max(f.v) AS m FROM {ASOF} GROUP BY e.k) SELECT c.m, x.* FROM c JOIN events x ON x.k = c.k",
    *(f"WITH m AS (SELECT 1 AS member, 2 AS threads UNION ALL SELECT k + 1, k FROM events WHERE v < 'c'), t AS (SELECT v AS task, k AS cost FROM events)"
      f" SELECT * FROM ASSIGN_TASKS(members => TABLE(SELECT DISTINCT * FROM m), tasks => TABLE(t), current => TABLE(SELECT v AS task, k + 7 AS member,"
      f" 'active' AS role FROM events WHERE k = 2), standbys => 1, rounds => 2, output => '{output}') WHERE round < 3"
      for output in ("rows", "explain", "metrics")),
    f"SELECT v, '{{x}}' AS j /* {{ {F1} */ FROM {CALL} AS d",
    f"FROM {CALL} |> WHERE k = 1 |> SELECT v",
    f"WITH d AS (SELECT * FROM {CALL}), x AS (SELECT * FROM DEDUPLICATE(TABLE(d) PARTITION BY k ORDER BY ts)) SELECT v FROM x JOIN d USING (v)",
    f"WITH a AS (SELECT * FROM events) SELECT * FROM (WITH b AS (SELECT * FROM a WHERE k = 1), a AS (SELECT * FROM b) SELECT * FROM {CALL.replace('events', 'a')})",
    f"WITH events AS (SELECT * FROM events WHERE k = 1) (SELECT v FROM {CALL} LIMIT 9) UNION ALL (SELECT v FROM events WHERE v = 'b')",
    f"SELECT (SELECT max(v) FROM {CALL}), x.v FROM events x LEFT JOIN {CALL} y ON x.v = y.v",
    f"WITH odd AS (SELECT *, v AS `{{x}}`, k AS `{{f0}}`, v AS `a``}}` FROM events) SELECT e.v, *, '{{f0}}' FROM {ASOF.replace('events e', 'odd e')}",
    "SELECT * FROM FUNCTION_CATALOG()",
    f"WITH odd AS (SELECT *, v AS `{{x}}`, k AS `{{f0}}` FROM events) SELECT odd.* FROM {CALL.replace('events', 'odd')[:-1]}, output => 'all') WHERE odd.k = 1",
    f"SELECT x.d, *, f.v AS before FROM {ASOF.replace('LEFT', 'JOIN LATERAL (SELECT e.k * 2 AS d) x ON true JOIN LATERAL explode(array(1, 2)) y LEFT')}",
    "SELECT count(*) FROM events, LATERAL FUNCTION_CATALOG()",
    f"SELECT * FROM {CALL.replace('10 SECONDS', chr(39) + '0:05' + chr(39) + ' MINUTE TO SECOND * 2')}",
    "SELECT * FROM DEDUPLICATE(TABLE (events) DISTRIBUTE BY k SORT BY ts, output => concat('al', 'l') -- both\n)",
    "SELECT * FROM DEDUPLICATE(TABLE(IDENTIFIER('events')) PARTITION BY events.k + 1 ORDER BY (v DESC, ts), time => \"ts\", output => 'all')",
    "SELECT sum(int(reason IS NULL)), count(DISTINCT r) FROM DEDUPLICATE(TABLE(SELECT id % 3 AS k, timestamp_seconds(id) AS ts, rand() AS r"
    " FROM range(30)) PARTITION BY k ORDER BY r, time => 'ts', output => 'all')",
    *(f"SELECT * FROM DISTINCT_IN_WINDOW(TABLE(events) PARTITION BY k ORDER BY {order}')"
      for order in ("ts, size => INTERVAL 10 SECONDS, output => 'rows", "v, time => 'ts', size => INTERVAL 10 SECONDS, output => 'all",
                    "ts, gap => INTERVAL 5 SECONDS, output => 'dropped", "v, time => 'ts', gap => INTERVAL 5 SECONDS, output => 'metrics")),
    *(f"SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY {order}', name => 'n')"
      for order in ("ts, within => INTERVAL 9 SECONDS, output => 'all", "ts, output => 'dropped", "ts, output => 'rows",
                    "v DESC, time => 'ts', within => INTERVAL 9 SECONDS, output => 'metrics")),
    *(f"SELECT * FROM SESSIONIZE(TABLE(events) PARTITION BY k ORDER BY ts, gap => INTERVAL 5 SECONDS, output => '{output}')"
      for output in ("rows", "all", "explain")),
    *(f"SELECT * FROM {function}(TABLE(events) PARTITION BY k ORDER BY {order}, aggregates => 'count(*) AS n, max(v) AS high', {more})"
      for function, order in (("SESSION_UPDATES", "v, time => 'ts', gap => INTERVAL 5 SECONDS"), ("WINDOW_UPDATES", f"ts, {SIZE}"))
      for more in ("emit => 'updates'", "emit => 'final', at_end => 'emit'", "output => 'explain'")),
    *(f"SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(events) PARTITION BY k ORDER BY ts, wait => INTERVAL 5 SECONDS, output => '{output}')"
      for output in ("rows", "all", "metrics")),
    "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM WINDOW_UPDATES(TABLE(events) PARTITION BY k ORDER BY ts,"
    f" {SIZE}, aggregates => 'count(*) AS n')) PARTITION BY (k, window_start) ORDER BY change_time, at_end => 'emit')",
    "SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM WINDOW_UPDATES(TABLE(events) PARTITION BY k ORDER BY ts,"
    f" {SIZE}, aggregates => 'count(*) AS n')) PARTITION BY (k, window_start) ORDER BY (ts, change_seq), time => 'change_time')",  # one plan
    "SELECT * FROM VERSIONS(TABLE(events) PARTITION BY k ORDER BY v, time => 'ts', output => 'all')",
    *(f"SELECT * FROM AS_OF_JOIN(TABLE(events) PARTITION BY k ORDER BY ts, TABLE(SELECT k, ts, v AS w, v FROM events) PARTITION BY k ORDER BY ts,"
      f" {more})" for more in ("allow_exact => false", "arrival => 'v', output => 'all'", "direction => 'nearest', join_type => 'left'")),
    "SELECT * FROM SESSION_UPDATES(TABLE(SELECT k, ts, v FROM SESSIONIZE(TABLE(SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY (k, v)"
    " ORDER BY v, time => 'ts')) PARTITION BY k ORDER BY v, time => 'ts', gap => INTERVAL 5 SECONDS)) PARTITION BY k ORDER BY v, time => 'ts',"
    " gap => INTERVAL 5 SECONDS, aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit')",  # a deep plan
]  # fmt: skip


ANALYZER: dict[str, tuple[str, list[str]]] = {}  # asked once, for both kinds of sessions


def analyzer(spark: SparkSession, text: str) -> tuple[str, list[str]]:
    if text not in ANALYZER:
        spark.sql(EVENTS)
        ANALYZER[text] = answer(spark.sql, text)
    return ANALYZER[text]


@pytest.mark.parametrize("text", TEXTS)
def test_the_answer_is_the_analyzer_doors(spark: SparkSession, events: None, text: str) -> None:
    assert answer(lambda t: streamtime.query(spark, t), text) == analyzer(spark, text)


def test_it_needs_no_registration_and_leaves_no_view(spark: SparkSession, events: None) -> None:
    views = [r.viewName for r in spark.sql("SHOW VIEWS").collect()]
    streamtime.unregister(spark)
    try:
        for text, expected in DOORS:
            assert sorted(r[0] for r in streamtime.query(spark, text).collect()) == expected, text
    finally:
        streamtime.register(spark)
    assert [r.viewName for r in spark.sql("SHOW VIEWS").collect()] == views


def test_statements_that_write(spark: SparkSession, events: None, schema: str) -> None:
    def run(text: str) -> list[str]:
        return sorted(str(r[0]) for r in streamtime.query(spark, text).collect())

    call = CALL
    run(f"CREATE TABLE {schema}.out USING delta AS SELECT * FROM {call}")
    run(f"INSERT INTO {schema}.out WITH r AS (SELECT * FROM events) SELECT * FROM {CALL.replace('events', 'r')} WHERE k = 2")
    run(f"MERGE INTO {schema}.out t USING (SELECT * FROM {call}) s ON t.v = s.v WHEN MATCHED THEN UPDATE SET v = upper(s.v)")
    assert run(f"SELECT v FROM {schema}.out") == ["A", "C", "D", "D"]
    assert run(f"CREATE TEMP VIEW query_view AS SELECT * FROM {call} WHERE k = 1; SELECT v FROM query_view") == ["a", "c"]
    assert run(f"CACHE TABLE query_cached AS SELECT * FROM {call}; SELECT v FROM query_cached") == ["a", "c", "d"]
    assert "deduplicate(" in run(f"EXPLAIN SELECT * FROM {call}")[0]
    run("DROP VIEW query_view; UNCACHE TABLE query_cached; DROP VIEW query_cached")
    for kept in [r.viewName for r in spark.sql("SHOW VIEWS").collect() if r.viewName.startswith("streamtime_")]:
        spark.sql(f"DROP VIEW {kept}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"CREATE VIEW v AS SELECT * FROM {CALL}", "Or a view of plain SQL, which every session reads: say SET streamtime.views = plain before;"),
        (f"CREATE OR REPLACE VIEW v AS SELECT * FROM {CALL}", "DEDUPLICATE: a persistent view stores its text, and a session that reads it does not"),
        (f"CREATE GLOBAL TEMPORARY VIEW v AS SELECT * FROM {CALL}", "DEDUPLICATE: a global temporary view stores its text"),
        (f"CREATE FUNCTION f() RETURNS INT RETURN SELECT count(*) FROM {CALL}", "DEDUPLICATE: a persistent function stores its text"),
        (f"BEGIN SELECT * FROM {CALL}; END", r"DEDUPLICATE: a call cannot stand in a script \(BEGIN .. END\)"),
        (CALL.join(("SELECT * FROM ", "")).replace("BY k", "BY k % :n"), r"DEDUPLICATE, PARTITION BY: a parameter cannot stand here \(`k % :n`\)"),
        ("SELECT *\nFROM t,\n  DEDUPLICATE(\n  TABLE(events) PARTITION BY k ORDER BY ts, kep => 1)", r"Did you mean `keep`\?; line 3 pos 2"),
        ("SELECT *\nFROM DEDUPLICATE(\n  TABLE(SELECT nope FROM events) PARTITION BY k ORDER BY ts)", r"`nope` cannot be resolved(.|\n)*line 3 pos 15"),
        ("SELECT *\nFROM DEDUPLICATE(TABLE(events)\n PARTITION BY nope(k) ORDER BY ts)", r"PARTITION BY: Spark has no function `nope` \(`nope\(k\)`\)"),
        ("SELECT *\nFROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts,\n within => nope(1))", r"`nope`(.|\n)*line 3 pos 11"),
        (f"SELECT v FROM events e WHERE EXISTS (SELECT 1 FROM {CALL.replace('events', 'SELECT * FROM events i WHERE i.k = e.k')})", "no column `e`.`k`"),
    ],
)  # fmt: skip
def test_what_is_refused(spark: SparkSession, events: None, text: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        streamtime.query(spark, text, {"n": 1})


def test_what_is_no_call_goes_to_spark_as_it_is(spark: SparkSession) -> None:
    assert streamtime.query(spark, "SELECT 'DEDUPLICATE(TABLE(x))' AS a, :p AS b; ", {"p": 1}).first() == ("DEDUPLICATE(TABLE(x))", 1)
    for text in (
        "SELEC * FROM DEDUPLICATE",
        "SELECT * FROM DEDUPLICATE(TABLE(t)",
        "SELECT 'open DEDUPLICATE(",
        "SELECT 1; SELECT 'open",
        "",
    ):
        with pytest.raises(ParseException):
            streamtime.query(spark, text)


def test_parameters_go_where_they_stand(spark: SparkSession, events: None) -> None:
    within = datetime.timedelta(seconds=10)
    text = "WITH e AS (SELECT * FROM events WHERE k = {}) SELECT v, {} FROM DEDUPLICATE(TABLE(SELECT * FROM e WHERE k <= {}) PARTITION BY k ORDER BY ts, output => {}, within => {}) WHERE v < {}"
    expected = [("a", "x")]
    args: list[Any] = [1, "x", 2, "rows", within, "c"]
    got = streamtime.query(spark, f"SELECT ?; {text.format(*'?' * 6)}", [0, *args]).collect()
    assert [tuple(r) for r in got] == expected
    got = streamtime.query(spark, text.format(*(f":p{i}" for i in range(6))), {f"p{i}": a for i, a in enumerate(args)}).collect()
    assert [tuple(r) for r in got] == expected


# -- over Spark Connect


class Connect(NamedTuple):
    answers: dict[str, tuple[str, list[str]]]
    seen: dict[str, Any]
    registered: dict[str, Any]
    expected: dict[str, tuple[str, list[str]]]


def case_call(number: int) -> str:
    case = DUPLICATES[number]
    rows = ", ".join(
        f"({'NULL' if r['key'] is None else repr(r['key'])}, {r['value']!r}, timestamp_millis({r['ts']}), {n})"
        for n, r in enumerate(case["input"], 1)
    )
    identity = {"id = key": "key", "id = null": "CAST(NULL AS STRING)", "id = value": "value", "id = key|value": "concat(key, '|', value)"}
    keys = "key" if case["params"]["mode"] == "by_key" else f"(key, {identity[case['params']['id_selector']]})"
    interval = f"INTERVAL {case['params']['interval_ms'] / 1000} SECONDS"
    table = f"SELECT CAST(key AS STRING) AS key, value, ts, n FROM VALUES {rows} AS t(key, value, ts, n)"
    return (
        f"SELECT {number} AS number, n FROM DEDUPLICATE(TABLE({table}) PARTITION BY {keys} ORDER BY n, time => 'ts', within => {interval})"
    )


CASES = [" UNION ALL ".join(case_call(number) for number in range(n, n + 8)) for n in range(0, 24, 8)]  # a query costs more than a case


def random_text(seed: int) -> str:
    random_ = random.Random(seed)
    rows = some_rows(random_, 30)
    values = ", ".join(
        "({}, {}, {}, {})".format(*(("NULL" if r[c] is None else repr(r[c])) for c in ("k", "t", "off", "p"))) for r in rows
    )  # fmt: skip
    text = sql_of(options_of(random_), "all")
    return f"{text.replace('TABLE(t)', f'TABLE(SELECT k, timestamp_micros(t) AS t, off, p FROM VALUES {values} AS v(k, t, off, p))')}"


BIG = (  # large enough that stream time is cut into ranges
    "SELECT count(*), sum(hash(*)) FROM DEDUPLICATE(TABLE(SELECT id % 1000 AS k, id AS off, timestamp_seconds(id DIV 9 - hash(id) % 500) AS ts"
    " FROM range(120000)) PARTITION BY k ORDER BY off, time => 'ts', within => INTERVAL 30 MINUTES, output => 'all')"
)


RANDOM = [random_text(seed) for seed in range(6)]


def ended(process: subprocess.Popen[bytes]) -> int:
    """How it ended; one that does not is killed, since leaving a `with` waits for it."""
    try:
        return process.wait(900)
    finally:
        process.kill()


@pytest.fixture(scope="module")
def connect(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Connect]:
    folder = tmp_path_factory.mktemp("connect")
    chosen = selected(request, "text")
    compared = [text for text in (*TEXTS, *RANDOM, BIG) if text in chosen]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    asked = [EVENTS, *(t for t, _ in DOORS if t in chosen), *compared, *CASES]
    asked += [f"SELECT 1; CREATE OR REPLACE TEMP VIEW tv AS SELECT * FROM {CALL} WHERE k = 1; SELECT v FROM tv", SETUP, *WRONG]
    (folder / "asked").write_bytes(pickle.dumps(asked))

    def client(name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(PROGRAMS / "connect_client.py"), port, str(folder / name), str(folder / f"{name}.out")]
        )

    with (
        (folder / "log").open("wb") as log,
        talking(PROGRAMS / "connect_server.py", port, str(folder), stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder) as (
            server,
            said,
        ),
    ):
        try:
            assert server.stdin is not None
            assert said.readline() == "ready\n", (folder / "log").read_text()[-2000:]
            with client("asked") as first:
                expected = {text: analyzer(spark, text) for text in compared}
                assert ended(first) == 0
            answers, seen = pickle.loads((folder / "asked.out").read_bytes())
            server.stdin.write("register\n")
            server.stdin.flush()
            assert said.readline() == "registered\n", (folder / "log").read_text()[-2000:]
            (folder / "none").write_bytes(pickle.dumps([]))
            with client("none") as second:
                assert ended(second) == 0
            registered = pickle.loads((folder / "none.out").read_bytes())[1]
            yield Connect(answers, seen, registered, expected)
        finally:
            server.stdin.close()  # type: ignore[union-attr]
            server.wait(60)


@pytest.mark.parametrize(("text", "expected"), DOORS)
@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_a_call_stands_wherever_a_table_may(connect: Connect, text: str, expected: list[str]) -> None:
    assert connect.answers[text][1] == [repr((v,)) for v in expected]


@pytest.mark.parametrize("text", [*TEXTS, *RANDOM, BIG])
@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_the_answer_is_the_analyzer_doors(connect: Connect, text: str) -> None:
    assert connect.answers[text] == connect.expected[text]


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_the_pages_lines_have_an_answer(connect: Connect, registered: bool) -> None:
    doors, install = (connect.registered if registered else connect.seen)["pages"]
    assert ("Doors: server, query, python." in doors) is registered
    assert install.startswith(doors)
    assert "|  1|2026-01-01|" in install


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_registering_asks_the_servers_workers_what_they_lack(connect: Connect) -> None:
    assert connect.seen["workers that have all"] == connect.registered["workers that have all"] == []
    lacks, broken = connect.seen["workers that lack"]  # and no tag and no thread is left
    assert lacks.startswith(
        f"streamtime: Spark's workers run `{sys.executable}`, which has no numpy_of_the_moon. Functions with a kernel fail"
    )
    assert "Who runs the server installs NumPy and PyArrow" in lacks
    assert broken.startswith("streamtime: the server's workers cannot run Python: ZeroDivisionError: division by zero. ")


@pytest.mark.long("tests/sql/rows/test_sorting.py::test_rows_are_sorted_on_both_sides_of_a_shuffle")
def test_over_connect_too_rows_are_sorted_on_both_sides_of_a_shuffle(connect: Connect) -> None:
    assert sorts(connect.seen["plan"]) == ["Sort", "Exchange", "Sort"]


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_a_call_is_drawn(connect: Connect) -> None:
    title, _, lane, bars, *_ = connect.seen["picture"]
    assert title == "DEDUPLICATE: within 10 seconds"
    assert (lane[0], lane.count("●"), lane.count("×"), bars.count("┣")) == ("1", 2, 1, 2)


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_the_cells_of_a_notebook_have_an_answer(connect: Connect, registered: bool) -> None:
    *shown, wrong = (connect.registered if registered else connect.seen)["cells"]
    assert shown == ["v\n---\na\nc\nd\n3 rows", "v\n---\na\nc\n2 rows", "", "3"]
    said, line, mark = wrong.splitlines()
    assert said == "DEDUPLICATE, `withn`: no such option. Did you mean `within`?; line 1 pos 14"
    assert line[mark.index("^") :].startswith("DEDUPLICATE(")


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_every_case(connect: Connect) -> None:
    rows = sorted(ast.literal_eval(row) for text in CASES for row in connect.answers[text][1])
    assert rows == [(number, e["after"]) for number, case in enumerate(DUPLICATES) for e in case["expected"]]


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_wrong_calls_are_refused_in_the_same_words(connect: Connect, spark: SparkSession) -> None:
    same = str if spark.version.startswith("4.2.") else of_any_spark  # other Sparks word their own errors otherwise
    golden = same(GOLDEN)
    answers = {text: connect.answers[text] for text in WRONG}
    different = {text: a for text, a in answers.items() if same(f"{text};\n{a[0]}: {a[1][0]}\n").rstrip("\n") not in golden}
    for part, words in WORDED.items():
        (text,) = [t for t in different if part in t]
        assert words in different.pop(text)[1][0]
    for text, (kind, (message, *_)) in different.items():  # where Spark's parser wrapper adds a hint, query() has it as a note
        spark_says = re.split(r" SQLSTATE|\n", message)[0]
        assert same(f"{text};\n{kind}: {spark_says}") in golden
        assert not re.match(rf"({'|'.join(SPECS)})[,:] ", message, re.IGNORECASE)


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_a_connect_session_says_which_doors_are_open(connect: Connect, spark: SparkSession) -> None:
    assert connect.seen["doors"] == ("query", "python")
    assert (
        f"are not registered in this session's server (Spark {spark.version}). Doors: query, python. Use streamtime.query(spark"
        in connect.seen["registration"]
    )
    assert connect.seen["in the server"][0] == "AnalysisException"
    assert connect.registered["doors"] == ("server", "query", "python")
    assert "are registered in this session's server" in connect.registered["registration"]
    assert connect.registered["in the server"][1] == ["('a',)", "('c',)", "('d',)"]


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_results_are_lazy_and_leave_no_view(connect: Connect) -> None:
    assert connect.seen["derived"] == 2
    assert connect.seen["views"] == ["events"]
    assert connect.seen["parameters"][1] == ["('a',)", "('c',)"]
    assert connect.answers[f"SELECT 1; CREATE OR REPLACE TEMP VIEW tv AS SELECT * FROM {CALL} WHERE k = 1; SELECT v FROM tv"][1] == [
        "('a',)",
        "('c',)",
    ]


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_a_call_takes_few_round_trips(connect: Connect, spark: SparkSession) -> None:
    types = int(spark.version < "4.1")  # there, kernels run as pandas functions, which asks for the types of columns
    assert connect.seen["trips"] == {"plain": 3 + types, "no call": 1, "constant": 6 + types, "computed key": 4 + types}


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_the_python_api_over_connect(connect: Connect, spark: SparkSession, events: None) -> None:
    for output, got in connect.seen["python"].items():
        assert got == answer(spark.sql, f"SELECT * FROM {CALL[:-1]}, output => '{output}')")
    assert got[0].startswith("struct<name:string")
    assert len(connect.seen["windows"][1]) == 3
    assert connect.seen["{'keys': ['nope']}"] == "deduplicate, `keys`: no column `nope` in the input. The input has `k`, `ts`, `v`."
    assert connect.seen["{'keys': ['k +']}"].startswith(
        "deduplicate, `keys`: `k +` is not a SQL expression: Syntax error at or near end of input"
    )
    assert "an aggregate cannot stand here (`sum(k)`)" in connect.seen["{'keys': ['sum(k)']}"]


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_python_udtfs_run_in_a_server_without_the_pack(connect: Connect) -> None:
    assert connect.seen["udtf doors"] == ("udtf", "query", "python")
    assert connect.seen["udtf"] == ("struct<v:string>", ["('a',)", "('c',)", "('d',)"])
    assert connect.seen["udtf gone"][0] == "AnalysisException"


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_over_connect_a_call_over_a_stream(connect: Connect, spark: SparkSession) -> None:
    if spark.version < "4.1":
        assert "Spark Connect before Spark 4.1 has no functions with state" in str(connect.seen["stream"])
        return
    assert connect.seen["stream"] == [("a", None), ("b", "duplicate"), ("c", None), ("d", None)]
