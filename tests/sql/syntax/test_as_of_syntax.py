"""AS OF joins in SQL text (rule J1): what is rewritten into what, what stays as it is, what is refused; and the parser that does it."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

import streamtime
from streamtime.door.parser import MENTIONED as OURS
from streamtime.door.registration import _doors
from streamtime.sparks import spark_version
from streamtime.sql.syntax.as_of_clauses import Refusal
from streamtime.sql.syntax.as_of_rewrite import raw_literal, rewrite
from streamtime.sql.syntax.conditions import Conjunct, split
from streamtime.sql.syntax.expressions import has_columns, value_end
from streamtime.sql.syntax.tokens import Source


def call(left: str, right: str, rest: str) -> str:
    return f"AS_OF_JOIN(TABLE(SELECT * FROM {left}), TABLE(SELECT * FROM {right}), {rest})"


P = call("orders o", "prices AS p", "at => 'o.ts', on => 'o.k = p.k', join_type => 'inner', history => 'prices', unit => 'timestamp'")
JOIN = "orders o JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON o.k = p.k"
MATCHED = "MATCH_CONDITION (t.ts >= q.ts)"

REWRITTEN = {
    f"SELECT * FROM {JOIN}": f"SELECT * FROM {P}",
    "FROM orders o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k SELECT 1": f"FROM {P} SELECT 1",
    "from orders o inner join prices timestamp as of o.ts p on o.k = p.k": f"from {P}",
    "FROM orders o JOIN prices p FOR SYSTEM_TIME AS OF o.ts ON o.k = p.k": f"FROM {P}",
    "FROM orders o JOIN prices AS p TIMESTAMP AS OF o.ts ON o.k = p.k": f"FROM {P}",
    # the time: any expression that Spark's grammar allows there, of any column of the left side
    "FROM o JOIN a.b.`c d` VERSION AS OF v USING (k, `l m`) WHERE x": "FROM "
    + call("o", "a.b.`c d`", "at => 'v', using => ARRAY('k', 'l m'), join_type => 'inner', history => 'a.b.`c d`', unit => 'version'")
    + " WHERE x",
    "FROM o LEFT OUTER JOIN p FOR SYSTEM_VERSION AS OF o.v ON o.k = p.k;": "FROM "
    + call("o", "p", "at => 'o.v', on => 'o.k = p.k', join_type => 'left', history => 'p', unit => 'version'")
    + ";",
    "FROM o JOIN p TIMESTAMP AS OF date_trunc('DAY', o.ts) - INTERVAL '1' DAY AS q ON q.k = o.k": "FROM "
    + call("o", "p AS q", """at => r"date_trunc('DAY', o.ts) - INTERVAL '1' DAY", on => 'q.k = o.k', join_type => 'inner', history => 'p', unit => 'timestamp'"""),
    "FROM o JOIN p TIMESTAMP AS OF CASE WHEN o.a THEN o.b ELSE (SELECT 1) END + 1 q(a, b) ON a = k": "FROM "
    + call("o", "p AS q(a, b)", "at => 'CASE WHEN o.a THEN o.b ELSE (SELECT 1) END + 1', on => 'a = k', join_type => 'inner', history => 'p', unit => 'timestamp'"),
    # the condition ends where a clause, a join, a comma or the text does
    **{
        f"SELECT * FROM {JOIN}{tail}": f"SELECT * FROM {P}{tail}"
        for tail in (
            " WHERE p.x > 3", " GROUP BY 1", "\nORDER BY k", " LIMIT 3", " OFFSET 1", " UNION ALL SELECT 1", " LATERAL VIEW explode(a) x AS y", ", y",
            " LEFT JOIN y ON y.k = o.k", " CROSS JOIN y", " NATURAL JOIN y", " |> WHERE k = 1 /* AS OF */", " -- FOR SYSTEM_TIME AS OF o.ts", ";",
            " WINDOW w AS (ORDER BY k)", " JOIN q TIMESTAMP AS OF '2024-01-01' USING (k)", " LEFT ANTI JOIN q ON q.k = o.k", " PIVOT (sum(x) FOR k IN (1))",
        )
    },
    "FROM o JOIN p VERSION AS OF o.v ON LEFT(o.k, 2) = p.left AND p.offset > limit AND CASE WHEN o.x THEN 1 ELSE 2 END = 1": "FROM "
    + call("o", "p", "at => 'o.v', on => 'LEFT(o.k, 2) = p.left AND p.offset > limit AND CASE WHEN o.x THEN 1 ELSE 2 END = 1', join_type => 'inner', history => 'p', unit => 'version'"),
    # the left side is whatever stands there
    f"SELECT * FROM x, {JOIN}": f"SELECT * FROM x, {P}",
    f"SELECT * FROM ({JOIN}) JOIN z": f"SELECT * FROM ({P}) JOIN z",
    f"WITH c AS (SELECT * FROM {JOIN}) INSERT INTO t SELECT * FROM c": f"WITH c AS (SELECT * FROM {P}) INSERT INTO t SELECT * FROM c",
    f"CREATE VIEW v AS SELECT * FROM {JOIN}": f"CREATE VIEW v AS SELECT * FROM {P}",
    f"MERGE INTO t USING (SELECT * FROM {JOIN}) s ON t.k = s.k WHEN MATCHED THEN DELETE": f"MERGE INTO t USING (SELECT * FROM {P}) s ON t.k = s.k WHEN MATCHED THEN DELETE",
    f"SELECT * FROM {JOIN} WHERE EXISTS (SELECT 1 FROM {JOIN} WHERE 1 = 1)": f"SELECT * FROM {P} WHERE EXISTS (SELECT 1 FROM {P} WHERE 1 = 1)",
    f"SELECT * FROM {JOIN} JOIN b FOR SYSTEM_TIME AS OF o.ts ON b.k = o.k JOIN c VERSION AS OF b.v ON c.k = b.k": "SELECT * FROM "
    + call(
        call(P, "b", "at => 'o.ts', on => 'b.k = o.k', join_type => 'inner', history => 'b', unit => 'timestamp'"),
        "c", "at => 'b.v', on => 'c.k = b.k', join_type => 'inner', history => 'c', unit => 'version'",
    ),
    f"SELECT * FROM (SELECT * FROM {JOIN}) l JOIN y ON y.k = l.k LEFT JOIN b FOR SYSTEM_TIME AS OF l.ts ON b.k = l.k": "SELECT * FROM "
    + call(f"(SELECT * FROM {P}) l JOIN y ON y.k = l.k", "b", "at => 'l.ts', on => 'b.k = l.k', join_type => 'left', history => 'b', unit => 'timestamp'"),
    "FROM o JOIN LATERAL (SELECT o.n * 2 AS d) x ON true LEFT JOIN LATERAL f(o.n) JOIN p VERSION AS OF o.v USING (k)": "FROM "
    + call("o JOIN LATERAL (SELECT o.n * 2 AS d) x ON true LEFT JOIN LATERAL f(o.n)", "p", "at => 'o.v', using => ARRAY('k'), join_type => 'inner', history => 'p', unit => 'version'"),
    f"FROM t CROSS JOIN LATERAL (SELECT t.n) x ASOF JOIN q {MATCHED} USING (s) JOIN LATERAL (SELECT t.n) y": "FROM "
    + call("t CROSS JOIN LATERAL (SELECT t.n) x", "q", "match => 't.ts >= q.ts', using => ARRAY('s'), join_type => 'inner'")
    + " JOIN LATERAL (SELECT t.n) y",
    "FROM VALUES (1, 2), (3, 4) AS o(k, ts) JOIN p VERSION AS OF o.ts USING (k)": "FROM "
    + call("VALUES (1, 2), (3, 4) AS o(k, ts)", "p", "at => 'o.ts', using => ARRAY('k'), join_type => 'inner', history => 'p', unit => 'version'"),
    "FROM STREAM o JOIN p VERSION AS OF o.v USING (k)": "FROM "
    + call("STREAM o", "p", "at => 'o.v', using => ARRAY('k'), join_type => 'inner', history => 'p', unit => 'version'"),
    # a constant beside ours is Delta's
    "FROM t JOIN p TIMESTAMP AS OF current_date() - 1 ON t.k = p.k JOIN q VERSION AS OF t.v USING (k)": "FROM "
    + call("t JOIN p TIMESTAMP AS OF current_date() - 1 ON t.k = p.k", "q", "at => 't.v', using => ARRAY('k'), join_type => 'inner', history => 'q', unit => 'version'"),
    "SELECT version AS of, a.timestamp AS of FROM o JOIN p VERSION AS OF v USING (k)": "SELECT version AS of, a.timestamp AS of FROM "
    + call("o", "p", "at => 'v', using => ARRAY('k'), join_type => 'inner', history => 'p', unit => 'version'"),
    # comments and line ends
    "FROM orders o -- left\n  JOIN prices /* right */ FOR SYSTEM_TIME AS OF o.ts p\n  ON o.k = p.k -- end\nWHERE x": "FROM "
    + call("orders o -- left\n  ", "prices AS p", "at => 'o.ts', on => 'o.k = p.k', join_type => 'inner', history => 'prices', unit => 'timestamp'")[:-1]
    + "\n) -- end\nWHERE x",
    # Spark 4.3's own
    f"FROM trades t ASOF JOIN quotes q {MATCHED} ON t.s = q.s": "FROM "
    + call("trades t", "quotes q", "match => 't.ts >= q.ts', on => 't.s = q.s', join_type => 'inner'"),
    f"FROM trades t LEFT ASOF JOIN (SELECT * FROM quotes) AS q {MATCHED} USING (s) WHERE x": "FROM "
    + call("trades t", "(SELECT * FROM quotes) AS q", "match => 't.ts >= q.ts', using => ARRAY('s'), join_type => 'left'")
    + " WHERE x",
    f"FROM t INNER ASOF JOIN q {MATCHED} LEFT OUTER ASOF JOIN r MATCH_CONDITION ((t.ts, t.n) < (r.ts, r.n)) LIMIT 1": "FROM "
    + call(call("t", "q", "match => 't.ts >= q.ts', join_type => 'inner'"), "r", "match => '(t.ts, t.n) < (r.ts, r.n)', join_type => 'left'")
    + " LIMIT 1",
}  # fmt: skip


@pytest.mark.parametrize("text", REWRITTEN)
def test_a_join_becomes_a_call(text: str) -> None:
    made = rewrite(text)
    assert made is not None
    assert made.text == REWRITTEN[text]
    assert len(made.plain) == len(text)
    assert rewrite(made.plain) is None
    assert rewrite(made.text) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t TIMESTAMP AS OF '2024-01-01'",
        "SELECT * FROM t FOR SYSTEM_TIME AS OF current_date() - INTERVAL 1 DAY AS x JOIN u VERSION AS OF 3 USING (k)",
        "SELECT * FROM t JOIN u TIMESTAMP AS OF date_sub(CAST('2024-01-01' AS DATE), 1) ON t.k = u.k",
        "SELECT * FROM t JOIN u TIMESTAMP AS OF '2024-01-01'::TIMESTAMP + INTERVAL '1 2' DAY TO HOUR u ON t.k = u.k",
        "SELECT * FROM t JOIN u TIMESTAMP AS OF timestampadd(DAY, -1, current_timestamp()) ON t.k = u.k",
        "SELECT * FROM t JOIN u TIMESTAMP AS OF timestampadd(MINUTE, -1, now()) u ON t.k = u.k JOIN w VERSION AS OF '3' ON 1 = 1",
        "SELECT * FROM t JOIN u TIMESTAMP AS OF :since u ON t.k = u.k",
        "SELECT * FROM t JOIN u VERSION AS OF ? ON t.k = u.k",
        "SELECT 'x JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON 1' FROM t",
        "SELECT 1 /* FROM o JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON 1 = 1 */ -- FROM o JOIN prices FOR SYSTEM_TIME AS OF o.ts ON 1 = 1",
        "SELECT `FROM o JOIN p FOR SYSTEM_TIME AS OF o.ts` FROM t",
        "SELECT asof.v FROM l asof JOIN r ON asof.k = r.k",
        "SELECT version AS of, k FROM t JOIN u ON u.version = t.timestamp",
        "SELECT * FROM t JOIN u FOR SYSTEM_TIME AS OF",
        "SELECT * FROM t JOIN u VERSION AS OF t.v TABLESAMPLE (3 ROWS) ON t.k = u.k",
        "",
    ],
)
def test_text_that_is_not_ours_is_left_alone(text: str) -> None:
    assert rewrite(text) is None


def test_asof_join_is_left_to_a_spark_that_knows_it() -> None:
    assert rewrite(f"FROM t ASOF JOIN q {MATCHED}", asof=False) is None
    both = rewrite(f"SELECT * FROM {JOIN} ASOF JOIN q {MATCHED}", asof=False)
    assert both is not None
    assert both.text == f"SELECT * FROM {P} ASOF JOIN q {MATCHED}"


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("FROM o RIGHT JOIN p TIMESTAMP AS OF o.ts ON o.k = p.k", r"AS_OF_JOIN, RIGHT JOIN: it keeps right rows .* Write LEFT JOIN", "RIGHT"),
        ("FROM o FULL OUTER JOIN p TIMESTAMP AS OF o.ts ON o.k = p.k", r"FULL OUTER JOIN: it keeps right rows .* Write LEFT JOIN\.", "FULL"),
        ("FROM o CROSS JOIN p TIMESTAMP AS OF o.ts", r"CROSS JOIN: a version is looked up by a key. Write JOIN .. ON", "CROSS"),
        ("FROM o NATURAL LEFT JOIN p TIMESTAMP AS OF o.ts", r"NATURAL LEFT JOIN: .* Write JOIN .. USING", "NATURAL"),
        ("FROM o LEFT SEMI JOIN p TIMESTAMP AS OF o.ts USING (k)", r"LEFT SEMI JOIN: .* Write JOIN, and select the columns of the left side", "LEFT"),
        ("FROM o ANTI JOIN p TIMESTAMP AS OF o.ts USING (k)", r"ANTI JOIN: .* Write LEFT JOIN, .* WHERE the right key IS NULL", "ANTI"),
        ("FROM o, p TIMESTAMP AS OF o.ts WHERE o.k = p.k", r"AS OF: a comma has no condition .* Write JOIN .. ON", "TIMESTAMP"),
        ("FROM x WHERE EXISTS (SELECT 1 FROM p FOR SYSTEM_TIME AS OF x.ts)", r"AS OF: there is no left side before it", "FOR"),
        ("FROM o JOIN p TIMESTAMP AS OF o.ts WHERE x", r"JOIN: there is no condition. Add ON with the key of the versions, or USING", "JOIN"),
        ("FROM o JOIN (SELECT 1) TIMESTAMP AS OF o.ts p ON o.k = p.k", r"AS OF: its right side is a query, not a table. Name a table or a view", "(SELECT"),
        ("FROM o JOIN IDENTIFIER(:t) VERSION AS OF o.v p ON o.k = p.k", r"its right side is a query, not a table", "IDENTIFIER"),
        ("FROM o JOIN LATERAL p VERSION AS OF o.v ON o.k = p.k", r"its right side is a query, not a table", "LATERAL"),
        ("FROM x, LATERAL (SELECT 1) o JOIN p VERSION AS OF o.v USING (k)", r"LATERAL: what it refers to is not part of the left side", "JOIN"),
        ("FROM o |> JOIN p VERSION AS OF o.v USING (k)", r"JOIN: a join after \|> has no left side in the text. Write it into FROM", "JOIN"),
        (f"FROM t ASOF LEFT JOIN q {MATCHED}", r"ASOF JOIN: expected LEFT before ASOF. Write LEFT ASOF JOIN", "ASOF"),
        (f"FROM t FULL ASOF JOIN q {MATCHED}", r"FULL JOIN: .* Write LEFT ASOF JOIN", "FULL"),
        ("FROM o JOIN p VERSION AS OF o.v ON o.k = p.k AND p.x > :min", r"AS OF: the parameter `:min` cannot stand in the time or the condition", ":min"),
        ("FROM o JOIN p VERSION AS OF o.v ON o.k = p.k AND p.x > ?", r"the parameter `\?` cannot stand .* \(SELECT \*, \? AS x FROM", "?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words_with_the_fix(text: str, message: str, at: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        rewrite(text)
    assert text[refused.value.offset :].startswith(at)


def test_parameters_are_filled_in_where_text_becomes_a_string() -> None:
    text = "FROM (SELECT * FROM t WHERE a = :a) l JOIN p VERSION AS OF l.v + :n ON l.k = p.k AND p.s = :s AND l.j:n::int = 1 WHERE b = :n"
    made = rewrite(text, {"n": "5", "s": "'it\\'s'"}.get)
    assert made is not None
    assert "WHERE a = :a) l)" in made.text
    assert """at => 'l.v + 5', on => r"l.k = p.k AND p.s = 'it\\'s' AND l.j:n::int = 1\"""" in made.text
    assert made.text.endswith("WHERE b = :n")


@pytest.mark.parametrize("text", ["a", "it's", 'it\'s "so"', "\\d", "'\\d'", "\"'\\", "'", "''", "a\nb", "r'x'"])
def test_a_literal_reads_as_the_text(spark: SparkSession, text: str) -> None:
    settings = ("spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.legacy.consecutiveStringLiterals.enabled")
    for setting in ("", *settings):
        if setting:
            spark.conf.set(setting, "true")
        try:
            assert spark.sql(f"SELECT {raw_literal(text)}").first()[0] == text
        finally:
            if setting:
                spark.conf.unset(setting)


def test_joins_in_random_surroundings() -> None:
    """The same pieces, put together by hand."""
    noise = [" ", "\n", " /* JOIN x FOR SYSTEM_TIME AS OF y.ts ON 1 */ ", " -- ON a JOIN b VERSION AS OF c\n"]
    lefts = [
        "o",
        "a.b AS o",
        "(SELECT ')' AS x, 1 FROM u) o",
        "u JOIN o ON u.k = o.k",
        "u NATURAL JOIN o",
        "range(3) AS o(k)",
        "t VERSION AS OF 3 o",
    ]
    rights = ["p", "c.`JOIN`", "a.b.`x ``y`"]
    times = [
        "o.ts",
        "ts",
        "o.a.b",
        "o.m['x)']",
        "cast(o.ts AS TIMESTAMP)",
        "o.ts + INTERVAL 1 DAY",
        "-o.x * 2",
        "coalesce(o.a, now())",
        "o.ts::DATE",
    ]
    conditions = [
        "o.k = p.k",
        "o.k = q.k AND (p.x > 3 OR p.s IN ('a', ',', ')'))",
        "o.k = k2 AND o.t BETWEEN a AND b",
        "NOT exists(SELECT 1 FROM w WHERE w.k = o.k)",
    ]
    tails = [
        "",
        " WHERE o.x = 'JOIN'",
        " JOIN y USING (k)",
        ", y",
        " GROUP BY o.k HAVING count(*) > 1",
        " QUALIFY 1 = 1",
        " EXCEPT SELECT 1",
        " |> LIMIT 3",
    ]
    heads = [
        "SELECT * FROM ",
        "WITH c AS (SELECT 1) SELECT 'FROM', \"x\" FROM ",
        "SELECT extract(YEAR FROM d), a IS DISTINCT FROM b FROM ",
        "INSERT INTO t TABLE u FROM y, ",
    ]
    chosen = random.Random(7)
    for _ in range(3000):
        one: Callable[[list[str]], str] = chosen.choice
        left, right, time, condition, tail, head = map(one, (lefts, rights, times, conditions, tails, heads))
        word, unit = one(list({"VERSION": "", "SYSTEM_VERSION": "", "TIMESTAMP": "", "SYSTEM_TIME": ""})), ""
        unit = "version" if "VERSION" in word else "timestamp"
        alias, kind = one(["", "p", "`p q`"]), one(["", "INNER", "LEFT", "left outer"])
        gap = one(noise)
        period = f"{one(['', 'FOR '])}{word}{one(noise)}AS{one(noise)}OF {time}"
        item = one([f"{right}{gap}{period} {alias}", f"{right} {alias} {period}"]) if alias else f"{right}{gap}{period}"
        using = one([True, False])
        criteria = "USING (k, l)" if using else f"ON{one(noise)}{condition}"
        text = f"{head}{left} {kind} JOIN{one(noise)}{item}{one(noise)}{criteria}{tail}"
        made = rewrite(text)
        assert made is not None, text
        given = "using => ARRAY('k', 'l')" if using else f"on => {raw_literal(condition)}"
        expected = call(
            left, right + (f" AS {alias}" if alias else ""),
            f"at => {raw_literal(time)}, {given}, join_type => '{'left' if 'left' in kind.lower() else 'inner'}', history => {raw_literal(right)}, unit => '{unit}'",
        )  # fmt: skip
        lines = text.count("\n")
        assert made.text.count("\n") == lines, text
        assert made.text.replace("\n", "") == f"{head}{expected}{tail}".replace("\n", ""), text


def test_no_text_breaks_it() -> None:
    words = [
        "SELECT",
        "*",
        "FROM",
        "o",
        "p",
        "JOIN",
        "LEFT",
        "RIGHT",
        "ASOF",
        "ON",
        "USING",
        "(",
        ")",
        "(",
        ")",
        ",",
        "FOR",
        "SYSTEM_TIME",
        "TIMESTAMP",
        "VERSION",
        "AS",
        "OF",
        "o",
        ".",
        "ts",
        "k",
        "=",
        ">=",
        "AND",
        "OR",
        "NOT",
        "BETWEEN",
        "CASE",
        "WHEN",
        "END",
        "'x'",
        '"y"',
        "`z`",
        "1",
        "1.5",
        "INTERVAL",
        "DAY",
        "[",
        "]",
        "::",
        ":",
        "?",
        "--",
        "VALUES",
        "LATERAL",
        "WITH",
        "UNION",
        "|>",
        ";",
        "=>",
        "r'a'",
        "CAST",
        "STRUCT",
        "<",
        ">",
        "WHERE",
        "IS",
        "DISTINCT",
        "'",
        '"',
        "`",
        "/*",
        "*/",
        "TO",
    ]
    pieces = [
        "JOIN p FOR SYSTEM_TIME AS OF o . ts",
        "FROM o",
        "ON o . k = p . k",
        "JOIN p VERSION AS OF v q USING ( k )",
        "ASOF JOIN r MATCH_CONDITION ( a > b )",
    ]
    chosen = random.Random(3)
    found = 0
    for _ in range(4000):
        text = chosen.choice([" ", ""]).join(
            chosen.choice(words if chosen.random() < 0.6 else pieces) for _ in range(chosen.randint(1, 25))
        )
        split(text)
        with suppress(Refusal):
            found += rewrite(text) is not None
    assert found > 100


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    rows = ", ".join(f"(TIMESTAMP '2024-01-01', {i}, '(')" for i in range(3_000))
    deep = f"{'(' * 3_000}1{')' * 3_000}"
    began = time.perf_counter()
    for text in (
        f"INSERT INTO t VALUES {rows} OF",
        f"SELECT {deep} AS x FROM {JOIN}",
        f"SELECT 1 FROM VALUES {rows} AS o(ts, k) JOIN p VERSION AS OF o.k USING (k)",
    ):
        rewrite(text)
        split(text)
    assert time.perf_counter() - began < 20  # quadratic would be minutes


@pytest.mark.parametrize(
    ("text", "end", "columns"),
    [
        ("o.ts p", "o.ts", True),
        ("ts AS p", "ts", True),
        ("day", "day", True),
        ("`INTERVAL` ON", "`INTERVAL`", True),
        ("current_date() - 1 ON", "current_date() - 1", False),
        ("INTERVAL 1 DAY 2 HOURS p", "INTERVAL 1 DAY 2 HOURS", False),
        ("INTERVAL '1 2' DAY TO HOUR p", "INTERVAL '1 2' DAY TO HOUR", False),
        ("DATE '2024-01-01' + INTERVAL 1.5 SECONDS p", "DATE '2024-01-01' + INTERVAL 1.5 SECONDS", False),
        ("CAST('a' AS MAP<STRING, INT>)['x'] p", "CAST('a' AS MAP<STRING, INT>)['x']", False),
        ("'2024' '-01-01'::ARRAY<STRUCT<a: INT>> p", "'2024' '-01-01'::ARRAY<STRUCT<a: INT>>", False),
        ("extract(DAY FROM o.ts) p", "extract(DAY FROM o.ts)", True),
        ("date_add(DAY, 1, now()) p", "date_add(DAY, 1, now())", False),
        ("a.b.f(3) p", "a.b.f(3)", False),
        ("f(x) p", "f(x)", True),
        ("CASE WHEN true THEN now() END p", "CASE WHEN true THEN now() END", False),
        ("- (x) || y COLLATE UTF8_BINARY p", "- (x) || y COLLATE UTF8_BINARY", True),
        ("o.j:a.b[0] p", "o.j:a.b[0]", True),
        ("* p", "", False),
    ],
)
def test_where_an_expression_ends_and_whether_it_has_columns(text: str, end: str, columns: bool) -> None:
    source = Source(text)
    stop = value_end(source, 0)
    assert source.slice(0, stop) == end
    assert has_columns(source, 0, stop) == columns


@pytest.mark.parametrize(
    ("on", "conjuncts"),
    [
        ("o.k = p.k AND p.x > 3", [("o.k = p.k", "o.k", "=", "p.k"), ("p.x > 3", "p.x", ">", "3")]),
        ("(a <=> b AND c==d) AND (e=f OR g=h)", [("a <=> b", "a", "<=>", "b"), ("c==d", "c", "=", "d"), ("(e=f OR g=h)", "", "", "")]),
        ("a BETWEEN 1 AND 2 and b<=c", [("a BETWEEN 1 AND 2", "", "", ""), ("b<=c", "b", "<=", "c")]),
        ("NOT a = b AND x", [("NOT a = b", "", "", ""), ("x", "", "", "")]),
        ("CASE WHEN a=1 AND b THEN c END = p.k", [("CASE WHEN a=1 AND b THEN c END = p.k", "CASE WHEN a=1 AND b THEN c END", "=", "p.k")]),
        ("a = 'x AND y' -- AND z\n AND b !> c /* AND */", [("a = 'x AND y'", "a", "=", "'x AND y'"), ("b !> c", "b", "<=", "c")]),
        ("a = 1 OR b = 2 AND c = 3", [("a = 1 OR b = 2 AND c = 3", "", "", "")]),
        ("((a.k)) = (b.k)", [("((a.k)) = (b.k)", "((a.k))", "=", "(b.k)")]),
        ("(a, b) < (c, d) AND p.end = o.and", [("(a, b) < (c, d)", "(a, b)", "<", "(c, d)"), ("p.end = o.and", "p.end", "=", "o.and")]),
        ("a = b = c AND a <> b AND a IS NULL", [("a = b = c", "", "", ""), ("a <> b", "", "", ""), ("a IS NULL", "", "", "")]),
        ("exists(SELECT 1 WHERE a = b AND c) AND (SELECT 1) = a", [("exists(SELECT 1 WHERE a = b AND c)", "", "", ""), ("(SELECT 1) = a", "(SELECT 1)", "=", "a")]),
        ("filter(a, x -> x = 1) = b", [("filter(a, x -> x = 1) = b", "filter(a, x -> x = 1)", "=", "b")]),
        (" ", []),
    ],
)  # fmt: skip
def test_a_condition_is_split_into_its_conjuncts(on: str, conjuncts: list[tuple[str, str, str, str]]) -> None:
    assert split(on) == [Conjunct(*c) for c in conjuncts]
    for one in split(on):
        assert one.mirrored.mirrored.operator == one.operator


# -- the parser


@pytest.fixture
def parse(spark: SparkSession) -> Callable[..., str]:
    def parsed(text: str, session: SparkSession = spark, method: str = "parsePlan") -> str:
        plan = getattr(session._jsparkSession.sessionState().sqlParser(), method)(text).toString()
        return re.sub(r"#\d+", "", plan)

    return parsed


@pytest.mark.parametrize("method", ["parsePlan", "parseQuery"])
def test_sparks_parser_takes_the_text_for_the_call(parse: Callable[..., str], method: str) -> None:
    version = JOIN.replace("SYSTEM_TIME AS OF o.ts", "VERSION AS OF o.v")
    asof = f"trades t LEFT ASOF JOIN quotes q {MATCHED} USING (s)"
    for text in (JOIN, version, JOIN.replace(" p ON", " ON").replace("prices", "prices p"), asof, f"a NATURAL JOIN {JOIN} CROSS JOIN b"):
        made = rewrite(f"SELECT * FROM {text}")
        assert made is not None
        assert parse(f"SELECT * FROM {text}", method=method) == parse(made.text, method=method)


def test_every_session_has_it_and_unregister_takes_it_out(spark: SparkSession, parse: Callable[..., str]) -> None:
    text = f"SELECT * FROM {JOIN}"
    between = spark.newSession()
    assert "AS_OF_JOIN" in parse(text, between)
    extensions = spark._jsparkSession.extensions()
    streamtime.unregister(spark)
    try:
        for session in (spark, between, spark.newSession()):
            with pytest.raises(ParseException, match="timestamp expression cannot refer to any columns"):
                parse(text, session)
        assert "streamtime" not in str(spark._jsparkSession.sessionState().sqlParser().getClass())
        assert "Proxy" not in spark.newSession()._jsparkSession.sessionState().sqlParser().getClass().getName()
        assert extensions.equals(between._jsparkSession.extensions())
    finally:
        streamtime.register(spark)
    streamtime.register(between)  # as a session that was open before
    for session in (spark, between, spark.newSession()):
        assert "AS_OF_JOIN" in parse(text, session)


def of(text: str, spark: SparkSession) -> tuple[str, str | None, str]:
    with pytest.raises(ParseException) as error:
        spark.sql(text)
    return type(error.value).__name__, error.value.getCondition(), str(error.value)


def test_what_is_not_ours_keeps_sparks_error(spark: SparkSession) -> None:
    texts = [
        "SELEC 1",
        "SELECT 1\nFROM t VERSION AS OF 1 x OF",
        "SELECT * FROM t JOIN u VERSION AS OF t.v TABLESAMPLE (3 ROWS) ON t.k = u.k",
        "SELECT * FROM t TIMESTAMP AS OF current_date",
        "MERGE INTO t USING u TIMESTAMP AS OF t.ts ON t.k = u.k WHEN MATCHED THEN DELETE",
        "SELECT 1 FROM l ASOF JOIN r ON l.k = r.k WHERE )",
    ]
    ours = [of(text, spark) for text in texts]
    streamtime.unregister(spark)
    try:
        assert [of(text, spark) for text in texts] == ours
    finally:
        streamtime.register(spark)


def test_another_error_in_the_text_is_said_at_its_place(spark: SparkSession) -> None:
    for text in (
        "SELECT *\nFROM orders o JOIN prices VERSION AS OF o.v p ON o.k = p.k\nGROUP nonsense",
        f"SELECT *\nFROM t ASOF JOIN q {MATCHED} ON t.k = q.k\nGROUP nonsense",
    ):
        name, condition, message = of(text, spark)
        assert (name, condition) == ("ParseException", "PARSE_SYNTAX_ERROR")
        assert "near 'nonsense'" in message or "near 'GROUP'" in message
        assert "(line 3, pos" in message


def test_a_refusal_is_a_parse_error_with_its_place_and_silent(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="py4j.clientserver"):
        _, _, message = of("SELECT *\nFROM orders o RIGHT JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON o.k = p.k", spark)
    assert "AS_OF_JOIN, RIGHT JOIN: it keeps right rows that no left row asked for" in message
    assert "(line 2, pos 14)" in message
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.fixture
def asked(spark: SparkSession) -> Iterator[list[str]]:
    """The texts for which Python is asked."""
    door = _doors[id(spark.sparkContext._gateway)][1]
    texts: list[str] = []

    class Failing:
        class Java:
            implements = ("java.util.function.BiFunction",)

        def apply(self, text: str, parameters: Any) -> Any:
            texts.append(text)
            raise RuntimeError("Python is about to end")

    door.parsers.open(OURS, failing := Failing())
    yield texts
    door.parsers.open(OURS, door.rewrite)
    del failing


def test_python_is_asked_only_where_spark_fails_and_need_not_answer(
    spark: SparkSession, asked: list[str], parse: Callable[..., str]
) -> None:
    parse("SELECT * FROM t TIMESTAMP AS OF '2024-01-01'")
    parse("SELECT asof.v FROM l asof JOIN r ON asof.k = r.k")
    with pytest.raises(ParseException):
        parse("SELEC 1")
    assert not asked
    logging.getLogger("py4j.clientserver").disabled = True
    try:
        with pytest.raises(ParseException, match="timestamp expression cannot refer to any columns"):
            parse(f"SELECT * FROM {JOIN}")
    finally:
        logging.getLogger("py4j.clientserver").disabled = False
    assert asked == [f"SELECT * FROM {JOIN}"]


# -- with AS_OF_JOIN


@pytest.fixture
def sides(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW lefts AS SELECT k, timestamp_seconds(s) AS ts, v"
        " FROM VALUES (1, 5, 'a'), (1, 10, 'b'), (2, 5, 'c'), (NULL, 5, 'n'), (1, NULL, 'z'), (3, 1, 'q') AS t(k, s, v)"
    )
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW rights AS SELECT k, timestamp_seconds(s) AS ts, p"
        " FROM VALUES (1, 1, 10), (1, 5, 20), (1, 8, 30), (2, 9, 40), (NULL, 1, 50), (1, NULL, 60) AS t(k, s, p)"
    )


FOUND = "lefts l {} rights r MATCH_CONDITION ({}) {}"
KEYS = "ON l.k = r.k"


@pytest.mark.parametrize(
    ("join", "match", "criteria", "expected"),
    [
        ("ASOF JOIN", "l.ts >= r.ts", KEYS, {"a": 20, "b": 30}),
        ("INNER ASOF JOIN", "r.ts <= l.ts", "USING (k)", {"a": 20, "b": 30}),
        ("LEFT ASOF JOIN", "l.ts >= r.ts", KEYS, {"a": 20, "b": 30, "c": None, "n": None, "q": None, "z": None}),
        ("LEFT OUTER ASOF JOIN", "l.ts > r.ts", "USING (k)", {"a": 10, "b": 30, "c": None, "n": None, "q": None, "z": None}),
        ("LEFT ASOF JOIN", "l.ts <= r.ts", KEYS, {"a": 20, "b": None, "c": 40, "n": None, "q": None, "z": None}),
        ("ASOF JOIN", "l.ts < r.ts", KEYS, {"a": 30, "c": 40}),
        ("LEFT ASOF JOIN", "l.ts >= r.ts", "", {"a": 20, "b": 40, "c": 20, "n": 20, "q": 10, "z": None}),
    ],
)
def test_asof_join_gives_what_spark_4_3_gives(
    spark: SparkSession, sides: None, join: str, match: str, criteria: str, expected: dict[str, int | None]
) -> None:
    """What pyspark 4.3.0 gave for these texts, with spark.sql.join.asofJoin.enabled."""
    text = f"SELECT l.v, r.p FROM {FOUND.format(join, match, criteria)}"
    assert dict(spark.sql(text).collect()) == expected


def test_joins_stand_wherever_a_table_may(spark: SparkSession, sides: None, schema: str) -> None:
    join = FOUND.format("ASOF JOIN", "l.ts >= r.ts", KEYS)

    def run(text: str) -> list[tuple[object, ...]]:
        return sorted(tuple(r) for r in spark.sql(text).collect())

    twice = f"{join} LEFT ASOF JOIN rights x MATCH_CONDITION (l.ts < x.ts) ON l.k = x.k"
    assert run(f"SELECT l.v, r.p, x.p FROM {twice}") == [("a", 20, 30), ("b", 30, None)]
    assert spark.sql(f"SELECT * FROM {twice}").columns == ["k", "ts", "v", "k", "ts", "p", "k", "ts", "p"]
    assert run(f"SELECT r.*, l.v FROM {join} WHERE r.p > 20")[0][2:] == (30, "b")
    assert run(f"SELECT v FROM lefts o WHERE EXISTS (SELECT 1 FROM {join} WHERE l.v = o.v)") == [("a",), ("b",)]
    assert run(f"SELECT x.v, y.n FROM lefts x JOIN (SELECT l.k, count(*) AS n FROM {join} GROUP BY l.k) y ON x.k = y.k AND x.v = 'a'") == [
        ("a", 2)
    ]
    spark.sql(f"CREATE TEMP VIEW kept AS SELECT l.v, r.p FROM {join}")
    spark.sql(f"CREATE TABLE {schema}.t USING delta AS SELECT l.v, r.p FROM {join}")
    spark.sql(f"INSERT INTO {schema}.t SELECT l.v, r.p FROM {join}")
    spark.sql(f"MERGE INTO {schema}.t USING (SELECT l.v FROM {join} WHERE r.p = 20) s ON t.v = s.v WHEN MATCHED THEN DELETE")
    assert run("SELECT * FROM kept") == [("a", 20), ("b", 30)]
    assert run(f"SELECT * FROM {schema}.t") == [("b", 30), ("b", 30)]
    assert "UnresolvedTableValuedFunction [AS_OF_JOIN]" in str(run(f"EXPLAIN EXTENDED SELECT * FROM {join}"))
    spark.sql("DROP VIEW kept")


def test_a_view_stores_the_call(spark: SparkSession, schema: str) -> None:
    for name in ("l", "r"):
        spark.sql(f"CREATE TABLE {schema}.{name} USING delta AS SELECT 1 AS k, timestamp_seconds(id) AS ts, id AS {name} FROM range(3)")
    join = f"{schema}.l AS l ASOF JOIN {schema}.r AS r MATCH_CONDITION (l.ts > r.ts) USING (k)"
    spark.sql(f"CREATE VIEW {schema}.v AS SELECT l.l, r.r FROM {join}")
    stored = spark.sql(f"SHOW CREATE TABLE {schema}.v").first()[0]
    assert "AS_OF_JOIN(TABLE(SELECT * FROM" in stored
    assert "ASOF JOIN" not in stored
    assert sorted(tuple(r) for r in spark.newSession().table(f"{schema}.v").collect()) == [(1, 0), (2, 1)]


def test_as_of_a_tables_history_behind_both_doors(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.p (k INT, price INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"INSERT INTO {schema}.p VALUES (1, 10), (2, 20)")
    spark.sql(f"UPDATE {schema}.p SET price = 11 WHERE k = 1")
    spark.sql("CREATE OR REPLACE TEMP VIEW asking AS SELECT * FROM VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 2, 'c'), (3, 2, 'd') AS t(k, v, n)")
    join = f"asking o LEFT JOIN {schema}.p VERSION AS OF o.v AS p ON o.k = p.k"
    for text, expected in (
        (f"SELECT o.n, p.price, p.k FROM {join}", [("a", 10, 1), ("b", 11, 1), ("c", 20, 2), ("d", None, None)]),
        (
            f"SELECT o.n, p.price, q.price FROM {join} JOIN {schema}.p VERSION AS OF 1 AS q ON q.k = o.k",
            [("a", 10, 10), ("b", 11, 10), ("c", 20, 20)],
        ),
    ):
        for run in (spark.sql, lambda t: streamtime.query(spark, t)):
            assert sorted(tuple(r) for r in run(text).collect()) == expected


def test_parameters_by_name(spark: SparkSession, sides: None) -> None:
    text = f"SELECT v FROM {FOUND.format('ASOF JOIN', 'l.ts >= r.ts', KEYS)} AND r.p > :p AND l.v <> :v WHERE :p > 1 AND v IN ('a', :w)"
    if not spark_version(spark.version).early_parameters:
        with pytest.raises(ParseException, match="the parameter `:p` cannot stand in the time or the condition"):
            spark.sql(text, args={"p": 15, "v": "a", "w": "b"})
        return
    assert [r.v for r in spark.sql(text, args={"p": 15, "v": 'it\'s \\ "x"', "w": "b"}).orderBy("v").collect()] == ["a", "b"]
    assert [r.v for r in spark.sql(text, args={"p": 15, "v": "a", "w": "b"}).collect()] == ["b"]


def test_many_sessions_at_once(spark: SparkSession, parse: Callable[..., str]) -> None:
    def work(number: int) -> str:
        text = JOIN.replace("prices", f"prices_{number}")
        return parse(f"SELECT * FROM {text}", spark.newSession() if number % 2 else spark)

    with ThreadPoolExecutor(6) as pool:
        for number, plan in enumerate(pool.map(work, range(12))):
            assert f"prices_{number}" in plan
            assert "AS_OF_JOIN" in plan
