"""Columns may have any name: each function, behind each door, gives the rows that it gives where the same columns have tame names.

Catches: a name that reaches Spark unquoted, a name taken for a field or for one of ours, and a kernel that mixes names up.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udtf as make_udtf
from support.doors import LOCAL
from support.streams import Source

import streamtime
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.kinds import Choice, Text, Texts
from streamtime.sql.call.spec import Spec
from streamtime.sql.syntax.text import literal, quoted
from streamtime.sql.udtf import handler

SPECS = {s.name: s for s in FUNCTIONS}
ROLES = ("k", "g", "o", "ts", "v", "w", "gone", "off")
DDL = "k STRING, g STRING, o INT, ts TIMESTAMP, v INT, w TIMESTAMP, gone BOOLEAN, off INT"
Naming = dict[str, str]
TAME: Naming = {role: role for role in ROLES}
# every character at once, after what tells the roles apart; and names that could be taken for something else
WORST: Naming = {role: f"{role}`x.y z 'q' \"d\" \\ 😀 Äß {{b}} ;, -- /* :p ? * ()" for role in ROLES}
ODD = (
    "k`x", "k.x", "a b", "it's", 'say "x"', "😀", "Upper", "1k", "12", "1e3", "select", " ", "null", "x DESC", "`", "``", "0.sum", "a0",
    "streamtime", "__order", "_change", "r", "m", "span", "low", "high", "bucket", "data", "counts", "value", "item_0", "c0", "events", "rows",
)  # fmt: skip
SECOND = datetime.timedelta(seconds=1)
MINUTE = 60 * SECOND
Options = dict[str, Any]

# Of each function, calls that have all its options over columns, each in some call
KEYED: Options = {"keys": ["{k}"], "order_by": ["{o}", "{v}"], "time": "{ts}"}
COUNTED = KEYED | {"aggregates": "count(*) AS n, sum({v}) AS `to``t.al`, count({off}) AS {new}, collect_list({w}) AS ws, max({k}) AS top"}
CALLS: dict[str, list[Options]] = {
    "DEDUPLICATE": [
        KEYED | {"clock_by": ["{g}"], "within": 20 * SECOND, "offset": "{off}"},
        {"keys": ["{k}", "{g}"], "order_by": ["{ts}", "{o} DESC NULLS LAST"]},
    ],
    "DISTINCT_IN_WINDOW": [
        KEYED | {"clock_by": ["{g}"], "size": 20 * SECOND, "slide": 10 * SECOND},
        {"keys": ["{k}", "{g}"], "order_by": ["{ts}", "{o}"], "gap": 10 * SECOND},
    ],
    "SESSIONIZE": [KEYED | {"clock_by": ["{g}"], "gap": 10 * SECOND, "grace": SECOND}, KEYED | {"keys": ["{k}", "{g}"], "gap": 5 * SECOND}],
    "SESSION_UPDATES": [COUNTED | {"clock_by": ["{g}"], "gap": 10 * SECOND}, COUNTED | {"keys": ["{k}", "{g}"], "gap": 10 * SECOND}],
    "WINDOW_UPDATES": [
        COUNTED | {"clock_by": ["{g}"], "size": 20 * SECOND},
        COUNTED | {"difference": 10 * SECOND, "keys": ["{k}", "{g}"]},
        COUNTED | {"size": MINUTE, "slide": 20 * SECOND, "grace": 5 * SECOND},
    ],
    "SUPPRESS_UNTIL_CLOSE": [
        KEYED | {"clock_by": ["{g}"], "window_end": "{w}", "deleted": "{gone}"},
        KEYED | {"keys": ["{k}", "{w}"], "window_end": "{w}", "grace": SECOND},
    ],
    "SUPPRESS_UNTIL_TIME_LIMIT": [
        KEYED | {"clock_by": ["{g}"], "wait": 20 * SECOND, "deleted": "{gone}"},
        {"keys": ["{k}", "{g}"], "order_by": ["{ts}", "{o}"], "max_records": 3, "when_full": "emit_early"},
    ],
    "VERSIONS": [KEYED | {"clock_by": ["{g}"], "deleted": "{gone}", "grace": 20 * SECOND, "retention": MINUTE}, KEYED],
    "AS_OF_JOIN": [
        {"using": ["{k:name}", "{g:name}"], "match": "l.{ts} >= r.{ts}", "deleted": "{gone}", "join_type": "left"},
        {"on": "l.{k} = r.{k} AND r.{v} > 1", "match": "l.{ts} >= r.{ts}"},
        {"on": "l.{k} = r.{k} AND l.{v} >= r.{v}", "order_by": ["{ts}", "{o}"], "direction": "nearest"},
        {"keys": ["{k}", "{g}"], "order_by": ["{ts}", "{v}"], "arrival": "{o}", "clock_by": ["{g}"], "retention": MINUTE, "deleted": "{gone}"},
        {"keys": ["{k}"], "order_by": ["{ts}"], "arrival": "{o}", "grace": SECOND, "at_end": "hold"},
    ],
    "JOIN_CHANGES": [
        {"keys": ["{k}", "{g}"], "order_by": ["{o}"], "time": "{ts}", "deleted": "{gone}", "versioned": ["left", "right"],
         "retention": 20 * SECOND, "clock_by": ["{g}"], "join_type": "outer"},
        {"keys": ["{k}"], "order_by": ["{o}", "{g}"], "time": "{ts}", "join_type": "left"},
        {"keys": ["{k}", "{g}"], "order_by": ["{o}"], "time": "{ts}", "join_type": "left", "on": "l.{k}, {g}"},
    ],
    "FILTER_CHANGES": [
        KEYED | {"condition": "{v} > 0", "deleted": "{gone}", "clock_by": ["{g}"], "retention": 20 * SECOND, "versioned": True},
        KEYED | {"keys": ["{k}", "{g}"], "condition": "{v} > 0 AND {w} IS NOT NULL"},
    ],
    "AGGREGATE_CHANGES": [
        KEYED | {"group_by": ["{g}", "{w}"], "aggregates": COUNTED["aggregates"].replace("collect_list", "min"), "deleted": "{gone}",
                 "clock_by": ["{g}"], "retention": 20 * SECOND, "versioned": True},
        KEYED | {"keys": ["{k}", "{g}"], "group_by": ["{k}"], "aggregates": "avg({v}) AS {new}"},
    ],
}  # fmt: skip
NO_COLUMNS = {"FUNCTION_CATALOG"}
BY_TABLE = {"TABLE_HISTORY", "AS_OF_JOIN"}  # whose options name a table: test_histories
NAMED = {"ASSIGN_TASKS"}  # whose columns have names of ours: test_assign_tasks


def at(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime(2024, 1, 1) + seconds * SECOND


def rows() -> list[tuple[Any, ...]]:
    """Late rows, ties, and NULL in every role."""
    times = [0, 5, 5, 31, 12, 8, None, 40, 33, 33, 90, 61, 200, 14, 100]
    made = []
    for i, s in enumerate(times):
        closes = None if s is None or i == 8 else s // 10 * 10 + 10
        key, group = (None if i == 5 else "ab"[i % 2]), (None if i % 7 == 3 else "xy"[i % 3 == 0])
        made.append(
            (
                key,
                group,
                None if i == 13 else i,
                at(s),
                None if i == 4 else i % 4,
                at(closes),
                None if i == 1 else i % 5 == 2,
                i // 2 or None,
            )
        )
    return made


@dataclass(frozen=True)
class Case:
    """A call of a function, and the names of its columns."""

    spec: Spec
    options: Options
    naming: Naming
    first: bool = True  # of the calls of its function

    def texts(self) -> Options:
        """The options, with the names in."""
        names = {role: quoted(name) for role, name in self.naming.items()} | {"new": quoted(f"new {self.naming['v']}")}
        return {name: self._filled(value, names) for name, value in self.options.items()}

    def _filled(self, value: Any, names: Naming) -> Any:
        if isinstance(value, list):
            return [self._filled(v, names) for v in value]
        if not isinstance(value, str) or "{" not in value:
            return value
        for role, name in names.items():
            value = value.replace(f"{{{role}}}", name).replace(f"{{{role}:name}}", self.naming.get(role, ""))
        return value

    def sql(self, tables: Sequence[str], name: str = "", clauses: bool = True) -> str:
        """The call as SQL text."""
        texts = self.texts()
        arguments = [f"TABLE({t})" for t in tables]
        if clauses and "keys" in texts:
            arguments = [
                f"{a}{self._clause('PARTITION BY', texts, 'keys')}{self._clause('ORDER BY', texts, 'order_by')}" for a in arguments
            ]
            texts = {n: v for n, v in texts.items() if n not in ("keys", "order_by")}
        return f"SELECT * FROM {name or self.spec.name}({', '.join([*arguments, *(f'{n} => {_sql(v)}' for n, v in texts.items())])})"

    def _clause(self, words: str, texts: Options, option: str) -> str:
        return f" {words} ({', '.join(texts[option])})" if option in texts else ""

    def python(self, *frames: DataFrame) -> DataFrame:
        """The call through the Python API."""
        found: DataFrame = getattr(streamtime, self.spec.name.lower())(*frames, **self.texts())
        return found

    def __str__(self) -> str:
        return f"{self.spec.name} {self.options}"


def _sql(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY({', '.join(map(literal, value))})"
    if isinstance(value, datetime.timedelta):
        return f"INTERVAL {value // SECOND} SECONDS"
    return literal(value) if isinstance(value, str) else str(value)


def cases(naming: Naming) -> Iterator[Case]:
    """The first call of a function with each output that it has, the others with one; and emit => 'final'."""
    for name, calls in CALLS.items():
        spec = SPECS[name]
        for number, options in enumerate(calls):
            for word in [w for w in outputs(spec) if not number or w == "all"]:
                yield Case(spec, options | {"output": word}, naming, not number)
            if spec.option("emit"):
                yield Case(spec, options | {"emit": "final"}, naming, not number)
                if "clock_by" in options:
                    yield Case(spec, options | {"emit": "final", "at_end": "emit"}, naming, not number)


def outputs(spec: Spec) -> tuple[str, ...]:
    option = spec.option("output")
    assert option is not None
    assert isinstance(option.kind, Choice)
    return option.kind.words


def odd(number: int) -> Naming:
    """A naming of its own for each number: in turn, each name comes to each role."""
    return {role: ODD[(number + 5 * place) % len(ODD)] for place, role in enumerate(ROLES)}


def flat(case: Case, label: int, df: DataFrame) -> DataFrame:
    """Rows as text, by place. `decided_by` says names; only its values count."""
    places = [f"c{i}" for i in range(len(df.columns))]
    values = [
        f"map_values(from_json({p}, 'map<string,string>')) AS {p}" if n == "decided_by" else p
        for p, n in zip(places, df.columns, strict=True)
    ]
    return (
        df.toDF(*places).selectExpr(*values).selectExpr(f"{label} AS label", "to_json(struct(*), map('ignoreNullFields', 'false')) AS row")
    )


def answers(frames: Sequence[tuple[Case, DataFrame]], many: int = 16) -> list[Counter[str]]:
    """The rows of many results, from few queries."""
    found = [Counter[str]() for _ in frames]
    for start in range(0, len(frames), many):
        some = [flat(case, start + i, df) for i, (case, df) in enumerate(frames[start : start + many])]
        for row in functools.reduce(DataFrame.union, some).collect():
            found[row.label][row.row] += 1
    return found


def test_every_function_and_every_option_over_columns_is_there() -> None:
    assert set(CALLS) | NO_COLUMNS | BY_TABLE | NAMED == set(SPECS)
    for name, calls in CALLS.items():
        over_columns = {
            o.name for o in SPECS[name].options if isinstance(o.kind, Texts) or (isinstance(o.kind, Text) and o.kind.expression)
        }
        assert over_columns - {"at"} <= {option for call in calls for option in call}, name


# hundreds of plans over fifteen rows: to cut them into tasks and to plan them anew on the way takes longer than to run them
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[None]:
    """The rows under tame names, and under the worst; each has a table for the right side of a join. Every task costs, so few of them."""
    before = {name: spark.conf.get(name) for name in SMALL}
    for name, value in SMALL.items():
        spark.conf.set(name, value)
    data = spark.createDataFrame(rows(), DDL).coalesce(1)
    for name, naming in (("tame", TAME), ("worst", WORST), *((f"odd_{i}", odd(i)) for i in range(len(ODD)))):
        data.toDF(*naming.values()).createOrReplaceTempView(f"{name}_l")
        data.where("o % 3 <> 1").toDF(*naming.values()).createOrReplaceTempView(f"{name}_r")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


SIDES = {"JOIN_CHANGES": (("k", "g", "o", "ts", "v", "gone"), ("k", "g", "o", "ts", "w"))}  # what one name may not have twice


def tables(case: Case, name: str) -> list[str]:
    if case.spec.name in SIDES:
        return [
            f"SELECT {', '.join(quoted(case.naming[role]) for role in roles)} FROM {name}_{side}"
            for side, roles in zip("lr", SIDES[case.spec.name], strict=True)
        ]
    return [f"SELECT * FROM {name}_l l", f"SELECT * FROM {name}_r r"] if case.spec.tables == 2 else [f"{name}_l"]


def some(naming: Naming, thorough: bool) -> list[Case]:
    """The calls, or in a short run each third one."""
    return list(cases(naming))[:: 1 if thorough else 3]


@dataclass(frozen=True)
class Tame:
    """What the calls come to over tame names."""

    cases: list[Case]
    frames: list[DataFrame]
    answers: dict[str, Counter[str]]  # of the cases that are run

    def named(self, case: Case) -> list[str]:
        """The columns that the case must have."""
        new = case.naming | {"new v": f"new {case.naming['v']}"}
        columns = next(
            df.columns for c, df in zip(self.cases, self.frames, strict=True) if c.options == case.options and c.spec is case.spec
        )
        return [new.get(n, n) for n in columns]

    def differences(self, found: Sequence[tuple[Case, DataFrame]]) -> list[str]:
        """What is wrong with results: their columns, and the rows of those that are run."""
        wrong = [f"{case}: {df.columns}" for case, df in found if self.named(case) != df.columns]
        run = [(case, df) for case, df in found if str(case) in self.answers]
        for (case, _), rows in zip(run, answers(run), strict=True):
            if rows != self.answers[str(case)]:
                wrong.append(f"{case}: {self.answers[str(case)] - rows} became {rows - self.answers[str(case)]}")
        return wrong


@pytest.fixture(scope="module")
def tame(spark: SparkSession, views: None, thorough: bool) -> Tame:
    """Each call is analysed; of a function's first call, all outputs are run that are not a part of another."""
    asked = some(TAME, thorough)
    frames = [spark.sql(case.sql(tables(case, "tame"))) for case in asked]
    run = [
        (case, df) for case, df in zip(asked, frames, strict=True) if case.first and case.options.get("output") not in ("rows", "dropped")
    ]
    found = dict(zip([str(case) for case, _ in run], answers(run), strict=True))
    empty = [case for case, rows in found.items() if not rows]
    assert not [case for case in empty if "dropped" not in case], "no rows, so nothing would be compared"
    return Tame(asked, frames, found)


@pytest.mark.short("odd names")
def test_in_sql_any_name_gives_the_rows_of_tame_ones(spark: SparkSession, tame: Tame, thorough: bool) -> None:
    assert tame.differences([(case, spark.sql(case.sql(tables(case, "worst")))) for case in some(WORST, thorough)]) == []


def test_any_name_may_have_any_role(spark: SparkSession, tame: Tame, thorough: bool) -> None:
    """Other names in each call, through `query` and through the Python API in turn; few are run."""
    found = []
    for number, case in enumerate(some(TAME, thorough)):
        case, name = replace(case, naming=odd(number % len(ODD))), f"odd_{number % len(ODD)}"
        python = [spark.table(f"{name}_{side}").alias(side) for side in "lr"[: case.spec.tables]]
        if case.spec.name in SIDES:
            python = [spark.sql(table) for table in tables(case, name)]
        found.append((case, streamtime.query(spark, case.sql(tables(case, name))) if number % 2 else case.python(*python)))
    few = [case for case in tame.answers if "'output': 'all'" in case or "'emit': 'final'" in case]
    run = replace(tame, answers={case: tame.answers[case] for case in few})
    assert run.differences(found) == []


@pytest.mark.long("tests/sql/call/test_names.py::test_in_sql_any_name_gives_the_rows_of_tame_ones")
def test_in_a_python_udtf_any_name_gives_the_rows_of_tame_ones(spark: SparkSession, tame: Tame) -> None:
    for name in LOCAL:
        spark.udtf.register(f"named_{name}", make_udtf(handler.handler(SPECS[name]), useArrow=False))
    found = []
    for case in cases(WORST):
        if case.spec.name in LOCAL and case.first and case.options.get("output") not in ("metrics", "explain"):
            text = case.sql(tables(case, "worst"), f"named_{case.spec.name}", clauses=False)
            found.append((case, spark.sql(text)))
    assert tame.differences(found) == []
    for name in LOCAL:
        spark.sql(f"DROP TEMPORARY FUNCTION named_{name}")


NOT_ON_STREAMS = ("JOIN_CHANGES", "AGGREGATE_CHANGES", "FILTER_CHANGES", "VERSIONS", "TABLE_HISTORY", "FUNCTION_CATALOG")


@pytest.mark.long("tests/sql/call/test_names.py::test_in_sql_any_name_gives_the_rows_of_tame_ones")
def test_on_a_stream_any_name_gives_the_rows_of_tame_ones(spark: SparkSession, views: None, tmp_path: Path) -> None:
    """Rows and dropped rows of each function, in one query of two micro-batches: names go into the state and come back from it."""
    source = Source(spark, tmp_path, DDL)
    source.add(rows()[:9])
    source.add(rows()[9:])
    asked, parts = [], []
    for case in cases(WORST):
        options = {n: v for n, v in case.options.items() if n not in ("clock_by", "arrival", "retention")}
        if case.spec.name in NOT_ON_STREAMS or not case.first or options.get("output", "all") != "all" or "at_end" in options:
            continue
        asked.append(replace(case, options=options | ({"grace": SECOND} if case.spec.name == "AS_OF_JOIN" else {})))
    assert {case.spec.name for case in asked} == set(CALLS) - set(NOT_ON_STREAMS)
    for name, naming in (("tame", TAME), ("worst", WORST)):
        source.stream().toDF(*naming.values()).createOrReplaceTempView(f"streamed_{name}")
        for number, case in enumerate(asked):
            over = [f"SELECT * FROM streamed_{name} l", *tables(case, name)[1:]] if case.spec.tables == 2 else [f"streamed_{name}"]
            df = spark.sql(replace(case, naming=naming).sql(over))
            flat(case, 2 * number + (name == "worst"), df).createOrReplaceTempView(f"part_{name}_{number}")
            parts.append(f"SELECT * FROM part_{name}_{number}")
    found = [Counter[str]() for _ in parts]
    for row in source.run(" UNION ALL ".join(parts)):
        found[row.label][row.row] += 1
    for number, case in enumerate(asked):
        assert found[2 * number], case
        assert found[2 * number] == found[2 * number + 1], case


KEPT = "delta.enableChangeDataFeed = true, delta.columnMapping.mode = 'name'"
HISTORIES = (
    "SELECT * EXCEPT (valid_from, valid_to) FROM TABLE_HISTORY('{table}', keys => {keys})",
    "SELECT * EXCEPT (valid_from, valid_to) FROM TABLE_HISTORY('{table}', keys => {keys}, from => 2)",
    "SELECT * FROM events l JOIN {table} VERSION AS OF l.{o} AS r ON r.{k} = l.{k} AND r.{g} = l.{g}",
    "SELECT l.{k}, r.{v} FROM events l LEFT JOIN {table} VERSION AS OF {o} AS r USING ({k}, {g})",
    "SELECT l.{o}, r.{v} FROM events l JOIN {table} FOR SYSTEM_TIME AS OF l.{w} r ON r.{k} = l.{k} AND r.{g} = l.{g} AND r.{v} > 1",
    "SELECT l.{o}, {name}.{v} FROM events l JOIN {table} TIMESTAMP AS OF l.{w} USING ({k}, {g})",
    "SELECT l.{o}, r.* FROM events l LEFT JOIN {declared} FOR SYSTEM_TIME AS OF l.{ts} r ON l.{k} = r.{k} AND l.{g} = r.{g}",
    "SELECT * FROM events l JOIN {declared} TIMESTAMP AS OF {ts} r USING ({g}, {k})",
    "SELECT {o}, r.{v} FROM events l JOIN {declared} FOR SYSTEM_TIME AS OF l.{ts} r ON l.{k} = r.{k} AND l.{g} = r.{g} AND r.{v} < l.{o}",
)


@pytest.mark.long("tests/sql/call/test_names.py::test_in_sql_any_name_gives_the_rows_of_tame_ones")
def test_histories_of_tables_with_any_names(spark: SparkSession, views: None, schema: str) -> None:
    """By commit and by event time. Appended and overwritten: Delta's own UPDATE fails over a feed where a name has a backquote."""
    told: dict[tuple[str, str, str], tuple[list[str], Counter[str]]] = {}
    doors = {"sql": spark.sql, "query": functools.partial(streamtime.query, spark)}
    case = Case(SPECS["TABLE_HISTORY"], {}, TAME)
    for name, naming in (("tame", TAME), ("worst", WORST)):
        names = {role: quoted(column) for role, column in naming.items()}
        k, g, ts, v, gone = (names[role] for role in ("k", "g", "ts", "v", "gone"))
        names |= {"table": f"{schema}.{name}", "declared": f"{schema}.{name}_declared", "name": name, "keys": _sql([k, g])}
        spark.sql(f"CREATE TABLE {names['table']} ({k} STRING, {g} STRING, {v} INT) USING delta TBLPROPERTIES ({KEPT})")
        spark.sql(f"INSERT INTO {names['table']} VALUES ('a', 'x', 1), ('b', 'x', 20)")
        spark.sql(f"INSERT OVERWRITE {names['table']} VALUES ('a', 'x', 2)")
        spark.sql(f"INSERT INTO {names['table']} VALUES ('c', 'x', 3), (NULL, 'x', 4)")
        says = {"streamtime.key": f"{k}, {g}", "streamtime.time": ts, "streamtime.deleted": gone, "delta.columnMapping.mode": "name"}
        properties = ", ".join(f"{literal(p)} = {literal(value)}" for p, value in says.items())
        spark.sql(
            f"CREATE TABLE {names['declared']} USING delta TBLPROPERTIES ({properties}) AS "
            f"SELECT {k}, 'x' AS {g}, {ts}, {v}, {gone} FROM {name}_l WHERE {k} IS NOT NULL AND {ts} IS NOT NULL"
        )
        spark.sql(
            f"SELECT {k}, 'x' AS {g}, {names['o']}, {ts}, TIMESTAMP '2100-01-01' AS {names['w']} FROM {name}_l UNION ALL "
            "SELECT 'c', 'x', 3, NULL, timestamp_seconds(0)"
        ).createOrReplaceTempView("events")
        asked = [(text, door, ask(text.format(**names))) for text in HISTORIES for door, ask in doors.items()]
        for (text, door, df), found in zip(asked, answers([(case, df) for _, _, df in asked]), strict=True):
            told[name, text, door] = ([WORST.get(n, n) for n in df.columns] if name == "tame" else df.columns, found)
    for text in HISTORIES:
        assert told["tame", text, "sql"][1], text
    assert [key for key, value in told.items() if value != told["tame", key[1], "sql"]] == []


def test_a_name_is_no_field_and_a_field_no_name(spark: SparkSession) -> None:
    """`k.x` in backquotes is a column; k.x is a field, whatever columns there are; and an expression is no name, even where one is called so."""
    spark.sql(
        "SELECT id AS `s.x`, named_struct('x', id % 2) AS s, 0 AS `id + 1`, id, 7 AS `ts```, timestamp_seconds(id) AS ts FROM range(4)"
    ).createOrReplaceTempView("t")
    for key, kept in (("s.x", 2), ("`s.x`", 4), ("t.s.x", 2), ("t.`s.x`", 4), ("s", 2), ("id + 1", 4), ("`id + 1`", 1), ("`ts```", 1)):
        for call in (f"TABLE(t) PARTITION BY {key} ORDER BY ts", f"TABLE(t), keys => ARRAY({literal(key)}), order_by => ARRAY('ts')"):
            for ask in (spark.sql, lambda text: streamtime.query(spark, text)):
                assert ask(f"SELECT * FROM DEDUPLICATE({call})").count() == kept, call
    joined = "SELECT * FROM AS_OF_JOIN(TABLE(t) ORDER BY ts, TABLE(SELECT 7 AS `ts```, ts, 1 AS p FROM t) ORDER BY ts, using => ARRAY({}))"
    for name, found in (("ts`", 4), ("ts", None)):
        text = joined.format(literal(name)).replace(" ORDER BY ts", "").replace("using", "order_by => ARRAY('ts'), using")
        assert found is None or spark.sql(text).count() == found


CONDITIONS = (  # beside l.k = r.k, and how many rows match
    ("r.v > l.v", 9),
    ("r.s.x < 3 AND l.s.x > 0", 8),
    ("exists(array(r.v, l.v), s -> s > 7)", 2),
    ("(l.own = 'mine' OR r.v = 9) AND NOT r.v = 3 -- r.v", 9),
    ("r.`v` > l.`k` + 5", 4),
    ("l.v = 0 AND r.one = 1", 10),
)


def test_a_condition_names_columns_with_their_table_behind_each_door(spark: SparkSession) -> None:
    """Also where fields of structs follow, and beside names of lambdas, in comments and in quotes."""
    ts = "timestamp_seconds(id) AS ts"
    spark.sql(f"SELECT id % 2 AS k, 0 AS v, 'mine' AS own, named_struct('x', 1) AS s, {ts} FROM range(10)").createOrReplaceTempView("asks")
    spark.sql(f"SELECT id % 2 AS k, id AS v, 1 AS one, named_struct('x', id % 4) AS s, {ts} FROM range(10)").createOrReplaceTempView("told")
    left, right = spark.table("asks").alias("l"), spark.table("told").alias("r")
    found = []
    for number, (condition, _) in enumerate(CONDITIONS):
        on = f"l.k = r.k AND {condition}"
        text = f"SELECT * FROM AS_OF_JOIN(TABLE(SELECT * FROM asks l), TABLE(SELECT * FROM told r), order_by => ARRAY('ts'), on => {literal(on)})"
        doors = (spark.sql(text), streamtime.query(spark, text), streamtime.as_of_join(left, right, on=on, order_by=["ts"]))
        found += [df.toDF(*"abcdefghij").selectExpr(f"'{number} {door}' AS label") for door, df in enumerate(doors)]
    counts = Counter(row.label for row in functools.reduce(DataFrame.union, found).collect())
    assert counts == {f"{number} {door}": count for number, (_, count) in enumerate(CONDITIONS) for door in range(3)}
    with pytest.raises(streamtime.CallError, match=r"Spark cannot resolve `.*r.nothing > 1.*` over the two sides"):
        streamtime.as_of_join(left, right, on="l.k = r.k AND r.nothing > 1", order_by=["ts"])


RESERVED = "has a reserved name"


def test_a_column_with_a_name_that_calls_add_for_themselves_is_refused(spark: SparkSession, views: None, schema: str) -> None:
    spark.udtf.register("named_d", make_udtf(handler.handler(SPECS["DEDUPLICATE"]), useArrow=False))
    for name in ("__streamtime_0", "__StreamTime_stream_time"):
        spark.sql(f"SELECT k, g, o, ts, v, w, gone, off AS {name} FROM tame_l").createOrReplaceTempView("reserved_l")
        spark.table("reserved_l").createOrReplaceTempView("reserved_r")
        for case in cases(TAME):
            if case.first and case.options.get("output", "rows") == "rows":
                of = [f"SELECT * FROM reserved_{side}" for side in "lr"] if case.spec.name in SIDES else tables(case, "reserved")
                for ask in (spark.sql, lambda text: streamtime.query(spark, text)):
                    with pytest.raises(AnalysisException, match=f"{case.spec.name}.*column `{name}` {RESERVED}"):
                        ask(case.sql(of))
        with pytest.raises(AnalysisException, match=f"DEDUPLICATE: column `{name}` {RESERVED}"):
            spark.sql("SELECT * FROM named_d(TABLE(reserved_l), keys => ARRAY('k'), order_by => ARRAY('ts'))")
        text = (
            "SELECT * FROM WINDOW_UPDATES(TABLE(tame_l) PARTITION BY k ORDER BY ts, size => INTERVAL 1 DAY, aggregates => 'count(*) AS {}')"
        )
        with pytest.raises(AnalysisException, match=f"`aggregates`: `{name}` is a reserved name"):
            spark.sql(text.format(name))
        spark.sql(f"CREATE TABLE {schema}.of{name} ({name} INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
        with pytest.raises(AnalysisException, match=f"TABLE_HISTORY: the table .* has a column `{name}`, a reserved name"):
            spark.sql(f"SELECT * FROM TABLE_HISTORY('{schema}.of{name}', keys => ARRAY('{name}'))")
