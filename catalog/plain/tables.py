"""Columns of tables that a session does not have: as text, from a JSON file, or asked of a warehouse."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamtime.sql.call.errors import CallError, gist
from streamtime.sql.call.names import parts
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Span, blank
from streamtime.statements.calls import Statement

HEADING = re.compile(r"# [A-Z].*")  # such as `# Partition Information`, which has no type; a column may be called `#id`
EXAMPLE = "tables={'clicks': 'user_id STRING, ts TIMESTAMP'}"


class DbConnection(Protocol):
    """Of any DB-API driver (PEP 249) whose server speaks Spark SQL."""

    def cursor(self) -> Any:
        """A cursor that executes one statement."""


Columns = str | Mapping[str, str] | DbConnection
Tables = Mapping[str, Columns] | str | os.PathLike[str]


@dataclass(frozen=True)
class Given:
    """A session in which tables of these columns stand as views, without rows; and where a statement names them.

    A view has no schema: it has the last part of its table's name. Of tables that end in one name, a view is there while a piece of the
    statement is read that names one of them.
    """

    session: SparkSession
    qualified: frozenset[tuple[str, ...]] = frozenset()  # names with a schema, in lower case
    apart: Mapping[tuple[str, ...], DataFrame] = field(default_factory=dict)  # of these, those that end as another does

    def named_in(self, statement: Statement) -> tuple[dict[int, tuple[int, tuple[str, ...]]], str]:
        """Where the last part of such a name begins: where the name does, and which it is. And the text with blanks for the schemas."""
        places, text, at = dict[int, tuple[int, tuple[str, ...]]](), statement.text, 0
        while at < len(statement.tokens):
            end = statement.name_end(at) if statement.tokens[at].name is not None else at + 1
            own = tuple(t.name for t in statement.tokens[at:end:2])
            known = max((q for q in self.qualified if own[: len(q)] == q), key=len, default=())
            if known:
                first, last = statement.tokens[at], statement.tokens[at + 2 * len(known) - 2]
                places[last.start] = first.start, known
                text = text[: first.start] + blank(text[first.start : last.start]) + text[last.start :]
            at = end
        return places, text

    def refuse_ctes(self, statement: Statement, places: Mapping[int, tuple[int, tuple[str, ...]]], spans: Sequence[Span]) -> None:
        """Raises CallError where a CTE in these pieces would stand in front of the view of a table."""
        held = [w for w in statement.withs() if places]
        for at, (_, name) in places.items():
            for with_ in held:
                for d in with_.seen(at) if any(start <= at < end for start, end in spans) else ():
                    if d.name == name[-1] and any(start <= d.span[0] < end for start, end in spans):
                        problem = f"`{'.'.join(name)}` and the CTE `{d.name}` end in one name, and one query reads both"
                        fix = "Give the CTE another name; or compile where the session's catalog has the table."
                        raise CallError("compile", "`tables`", problem, fix)

    def show(self, names: Iterable[tuple[str, ...]]) -> None:
        """Have a view of each of these tables, for what is read next. Raises CallError if two of them would have one view."""
        views = dict[str, tuple[str, ...]]()
        for name in names:
            other = views.setdefault(name[-1], name)
            if other != name:
                both = " and ".join(f"`{'.'.join(n)}`" for n in sorted((other, name)))
                fix = "Give each of them a call of its own; or compile where the session's catalog has them."
                raise CallError("compile", "`tables`", f"{both} end in one name, and one query reads both", fix)
        for name in self.apart:
            self.session.catalog.dropTempView(name[-1])
        for name in self.apart.keys() & views.values():
            self.apart[name].createOrReplaceTempView(quoted(name[-1]))


def with_tables(spark: SparkSession, tables: Tables | None) -> Given:
    """A session like this one, with its settings and views, in which there are also these tables. Raises CallError."""
    if not tables:
        return Given(spark)
    spark, known = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession()), dict[tuple[str, ...], str]()
    ends, frames = dict[str, list[tuple[str, ...]]](), dict[tuple[str, ...], DataFrame]()
    for name, columns in (tables if isinstance(tables, Mapping) else read(tables)).items():
        names = parts(name)
        if not names:
            fix = "Write it as in the statement: clicks, shop.clicks or main.shop.clicks; other characters go in backquotes."
            raise CallError("compile", "`tables`", f"`{name}` is no name of a table", fix)
        lower = tuple(n.lower() for n in names)
        others = ends.setdefault(lower[-1], [])
        same = next((o for o in others if min(len(o), len(lower)) == 1 or o == lower), None)
        if same is not None:
            fix = "Give both their schemas, as in shop.clicks, and write them so in the statement."
            raise CallError("compile", "`tables`", f"`{known[same]}` and `{name}` end in one name, `{names[-1]}`", fix)
        known[lower] = name
        others.append(lower)
        try:
            frames[lower] = spark.createDataFrame([], _ddl(name, names, columns))
            frames[lower].createOrReplaceTempView(quoted(names[-1]))
        except PySparkException as error:
            raise _unclear(name, f"Spark does not take its columns: {gist(error)}") from None
    apart = {name: df for name, df in frames.items() if len(ends[name[-1]]) > 1}
    given = Given(spark, frozenset(name for name in frames if len(name) > 1), apart)
    given.show(())
    return given


def read(path: str | os.PathLike[str]) -> Mapping[str, Columns]:
    """The tables of a JSON file. Raises CallError."""
    try:
        tables = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CallError("compile", "`tables`", f"no JSON in {os.fspath(path)}: {gist(error)}", f"Or give the columns: {EXAMPLE}.") from None
    if not isinstance(tables, dict):
        fix = 'It should have an object: {"clicks": "user_id STRING, ts TIMESTAMP"}.'
        raise CallError("compile", "`tables`", f"{os.fspath(path)} has tables in no object", fix)
    return tables


def _ddl(name: str, names: list[str], columns: Columns) -> str:
    """As CREATE TABLE takes them."""
    if isinstance(columns, str):
        return columns
    if not isinstance(columns, Mapping):
        columns = described(name, names, columns)
    if not columns or not all(isinstance(kind, str) for kind in columns.values()):
        raise _unclear(name, "it should have names and types of columns")
    return ", ".join(f"{quoted(column)} {kind}" for column, kind in columns.items())


def described(name: str, names: list[str], connection: Any) -> dict[str, str]:
    """The columns of a table, as DESCRIBE says them before an empty line or a heading. Raises CallError."""
    if not callable(getattr(connection, "cursor", None)):
        raise _unclear(name, f"a {type(connection).__name__} is neither text, nor a mapping, nor a connection")
    cursor, table = connection.cursor(), ".".join(map(quoted, names))
    try:
        cursor.execute(f"DESCRIBE TABLE {table}")
        rows: Iterable[tuple[Any, ...]] = cursor.fetchall()
    except Exception as error:  # every driver has its own
        raise CallError("compile", "`tables`", f"DESCRIBE TABLE {table} fails: {gist(error)}") from error
    finally:
        cursor.close()
    columns = dict[str, str]()
    for column, kind, *_ in rows:
        if not column or (not (kind or "").strip() and HEADING.fullmatch(column)):
            break
        columns[column] = kind
    return columns


def _unclear(name: str, problem: str) -> CallError:
    return CallError("compile", "`tables`", f"table `{name}`: {problem}", f"Give its columns as CREATE TABLE takes them: {EXAMPLE}.")
