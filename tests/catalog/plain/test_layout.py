"""The text of a query, laid out: lines and blanks change, and parentheses go that say nothing; Spark reads the same from it."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtime.plain.layout import WIDTH, laid_out
from streamtime.plain.parentheses import without_needless
from streamtime.sql.syntax.tokens import tokens


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("((`a`) = 1)", "`a` = 1"),
        ("(IF(((`a` + 1) > `b`), (NOT `c`), (`d` IS NULL)))", "IF(`a` + 1 > `b`, NOT `c`, `d` IS NULL)"),
        ("((`a` AND `b`) AND (NOT `c`))", "`a` AND `b` AND NOT `c`"),
        ("(get(`a`, 0)).`b`", "get(`a`, 0).`b`"),
        ("CASE WHEN (`a` IS NOT NULL) THEN (`b` % 2) END", "CASE WHEN `a` IS NOT NULL THEN `b` % 2 END"),
        ("((`a`)).`b`", "(`a`).`b`"),
        ("((f((`a`)))).`b`", "f(`a`).`b`"),
        ("NOT(`a`)", "NOT `a`"),
        ("(x -> (`x` > 1))", "(x -> `x` > 1)"),
    ],
)
def test_parentheses_that_say_nothing_go(text: str, left: str) -> None:
    assert without_needless(f"SELECT {text} AS `x` FROM t WHERE ({text})") == f"SELECT {left} AS `x` FROM t WHERE {left}"


@pytest.mark.parametrize(
    "text",
    [
        "`a` - (`b` - 1)",
        "`a` * (`b` + 1)",
        "(`a` OR `b`) AND `c`",
        "`a` OR (`b` AND `c`)",
        "`a` AND (`b` AND `c`)",
        "NOT (`a` = `b`)",
        "(NOT `a`) = `b`",
        "(`a` = `b`) = `c`",
        "(`a` = `b`) IS NULL",
        "- (1)",
        "`a` BETWEEN `b` AND (`c` = `d`)",
        "`a` IN (1)",
        "`a` IN ((SELECT 1))",
        "count((`a`, `b`))",
        "(`a`).`b`",
        "`a`[(`b` = 1)]",
        "f(x'1F', r'\\')",
        "(`a` || `b`).`c`",
        "f((SELECT 1))",
        "(DATE '2020-01-01') + 1",
        "`a` = (`b` LIKE `c`)",
        "(`a`, `b`) -> 1",
        "'(((' || 'x'",
        "`((a))`",
        "CAST(`a` AS DECIMAL(9,2))",
    ],
)
def test_parentheses_that_say_something_or_might_stay(text: str) -> None:
    assert without_needless(f"SELECT {text} FROM t") == f"SELECT {text} FROM t"


def expression(rows: random.Random, depth: int) -> str:
    """Any, with each operator in parentheses, as Spark prints it."""
    if depth == 0:
        return rows.choice(["`a`", "`b`.`c`", "1", "-1", "2L", "'[x'", "NULL", "true", "1.5BD", "`case`", "(`a`)", "x'1F'"])
    one, two, three = (expression(rows, rows.randrange(depth)) for _ in range(3))
    return rows.choice(
        [
            *(f"({one} {sign} {two})" for sign in ("AND", "OR", "=", "<=>", "<", "+", "-", "*", "div", "%", "||", "&")),
            *(f"({one} AND {two})", f"({one} OR {two})", f"(NOT {one})", f"(NOT {one})", f"({one} IS NULL)", f"({one} IS NOT NULL)"),
            *(f"(- {one})", f"(({one}))", f"({one} IN ({two}, {three}))", f"({one} LIKE {two})", f"({one} BETWEEN {two} AND {three})"),
            *(f"f({one}, ({two}))", f"(get({one}, 0)).`c`", f"({one}).`d`", f"{one}[({two})]", f"array(({one}))[0]"),
            *(f"CASE WHEN ({one}) THEN {two} ELSE ({three}) END", f"(CASE ({one}) WHEN {two} THEN {three} END)"),
            f"transform(g(({one})), `x` -> ({two}))",
            f"aggregate(`a`, {one}, (`x`, `y`) -> ({two}), `z` -> {three})",
            f"CAST(({one}) AS STRUCT<a: DECIMAL(9,2), b: ARRAY<STRUCT<c: INT>>>)",
            f"(max(({one})) FILTER (WHERE ({two})) OVER (PARTITION BY ({one}), {two} ORDER BY ({three}) DESC NULLS LAST"
            " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW))",
            f"(SELECT ({one}) AS `e` FROM u WHERE ({two} IS NULL))",  # WHERE (`a`) would be a name for u and its columns
            f"(extract(SECOND FROM ({one})))",
            f"(TIMESTAMP_NTZ '1970-01-01 00:00:00' + (INTERVAL '00.000001' SECOND * {one}))",
        ]
    )


def query(rows: random.Random) -> str:
    one, two, three, four = (expression(rows, 5) for _ in range(4))
    plain = f"SELECT *, {one} AS `x`, `a`, {two} AS `y` FROM (SELECT DISTINCT *, {three} AS `z` FROM t) LEFT OUTER JOIN u ON {four}"
    return rows.choice(
        [
            f"{plain} WHERE {three}",
            f"{plain} UNION ALL SELECT {one} FROM u SORT BY ({two}) ASC NULLS FIRST",
            f"SELECT /*+ REPARTITION(3) */ {one} FROM t WHERE {two} GROUP BY ({one}), {three}",
            f"SELECT * FROM t LATERAL VIEW explode({one}) e AS `left` DISTRIBUTE BY {two}",
        ]
    )


def test_spark_reads_the_same_from_what_is_laid_out(spark: SparkSession) -> None:
    """Random queries: a tree of Spark's parser shows where parentheses and keywords are."""
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    rows, fields = random.Random(7), spark.conf.get("spark.sql.debug.maxToStringFields")
    spark.conf.set("spark.sql.debug.maxToStringFields", "10000")
    try:
        for _ in range(60):
            text = query(rows)
            made = laid_out(without_needless(text), 6)
            assert tree(parser, made) == tree(parser, text), f"{text}\n\n{made}"
            assert [t.text for t in tokens(made) if t.text not in "()"] == [t.text for t in tokens(text) if t.text not in "()"]
            assert laid_out(without_needless(made), 6) == made
    finally:
        spark.conf.set("spark.sql.debug.maxToStringFields", str(fields))


def tree(parser: Any, text: str) -> str:
    """What the parser reads. A chain of ANDs or ORs it makes into a balanced tree, where they are four or more."""
    said, groups = re.sub(r"#\d+", "", parser.parsePlan(text).toString()), list[str]()
    while group := re.search(r"\(([^()]*)\)", said):
        sign = next((sign for sign in (" AND ", " OR ") if sign in group[1]), None)
        parts = group[1].split(sign)
        chained = {f"<{i}>": inner for i, inner in enumerate(groups) if sign and sign in inner}
        groups.append((sign or "").join(chained.get(part, part) for part in parts))
        said = f"{said[: group.start()]}<{len(groups) - 1}>{said[group.end() :]}"
    for i, inner in reversed([*enumerate(groups)]):
        said = said.replace(f"<{i}>", f"({inner})")
    return said


def test_a_query_on_lines() -> None:
    text = (
        "SELECT /*+ REPARTITION(3) */ *, CASE WHEN `a` IS NULL AND `b` THEN named_struct('one', `an_argument`, 'other', `another_argument`)"
        " ELSE `c` END AS `d`, `e`, `f` FROM (SELECT *, lag(`a`, 1, NULL) OVER (PARTITION BY `a_very_long_name` ORDER BY `another_long_name`"
        " ASC NULLS FIRST, `b` ASC NULLS FIRST) AS `before` FROM t WHERE `a` > 0) LEFT OUTER JOIN u ON `a` <=> `b` WHERE `a` UNION ALL"
        " SELECT left(`a`, 1) FROM t GROUP BY `a`"
    )
    assert laid_out(text, 2) == "\n".join(
        (
            "  SELECT /*+ REPARTITION(3) */",
            "    *,",
            "    CASE",
            "      WHEN `a` IS NULL AND `b` THEN named_struct('one', `an_argument`, 'other', `another_argument`)",
            "      ELSE `c`",
            "    END AS `d`,",
            "    `e`, `f`",
            "  FROM (",
            "    SELECT",
            "      *,",
            "      lag(`a`, 1, NULL) OVER (",
            "        PARTITION BY `a_very_long_name`",
            "        ORDER BY `another_long_name` ASC NULLS FIRST, `b` ASC NULLS FIRST",
            "      ) AS `before`",
            "    FROM t",
            "    WHERE `a` > 0",
            "  )",
            "  LEFT OUTER JOIN u ON `a` <=> `b`",
            "  WHERE `a`",
            "  UNION ALL",
            "  SELECT left(`a`, 1)",
            "  FROM t",
            "  GROUP BY `a`",
        )
    )


def test_lines_are_as_long_as_a_reader_likes_where_they_can_be_cut() -> None:
    rows = random.Random(3)
    names = [f"`{'n' * rows.randrange(1, 30)}`" for _ in range(300)]
    text = f"SELECT {', '.join(f'f({a}, {b}) AS {a}' if len(a) > 20 else a for a, b in itertools.pairwise(names))} FROM t WHERE "
    lines = laid_out(text + " AND ".join(f"{n} IS NULL" for n in names), 6).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) < 600
