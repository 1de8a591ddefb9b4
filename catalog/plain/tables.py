"""Columns of tables that a session does not have: as text, from a JSON file, or asked of a warehouse."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtime.sql.call.errors import CallError, gist
from streamtime.sql.call.names import parts
from streamtime.sql.syntax.text import quoted

EXAMPLE = "tables={'clicks': 'user_id STRING, ts TIMESTAMP'}"


class DbConnection(Protocol):
    """Of any DB-API driver (PEP 249) whose server speaks Spark SQL."""

    def cursor(self) -> Any:
        """A cursor that executes one statement."""


Columns = str | Mapping[str, str] | DbConnection
Tables = Mapping[str, Columns] | str | os.PathLike[str]


def with_tables(spark: SparkSession, tables: Tables) -> tuple[SparkSession, set[tuple[str, ...]]]:
    """A session like this one, with its settings and views, where each table is a view of these columns, without rows. Raises CallError.

    And the names in lower case of those that have a schema: their views have the last part alone, since a view has none.
    """
    spark, qualified, known = (
        SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession()),
        set[tuple[str, ...]](),
        dict[str, str](),
    )
    for name, columns in (tables if isinstance(tables, Mapping) else read(tables)).items():
        names = parts(name)
        if not names:
            fix = "Write it as in the statement: clicks, shop.clicks or main.shop.clicks; other characters go in backquotes."
            raise CallError("compile", "`tables`", f"`{name}` is no name of a table", fix)
        last = names[-1].lower()
        if last in known:
            fix = "Compile what reads one of them apart from what reads the other."
            raise CallError("compile", "`tables`", f"`{known[last]}` and `{name}` end in one name, `{names[-1]}`", fix)
        known[last] = name
        if len(names) > 1:
            qualified.add(tuple(n.lower() for n in names))
        try:
            spark.createDataFrame([], _ddl(name, names, columns)).createOrReplaceTempView(quoted(names[-1]))
        except PySparkException as error:
            raise _unclear(name, f"Spark does not take its columns: {gist(error)}") from None
    return spark, qualified


def read(path: str | os.PathLike[str]) -> Mapping[str, Columns]:
    """The tables of a JSON file. Raises CallError."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CallError("compile", "`tables`", f"no JSON in {os.fspath(path)}: {gist(error)}", f"Or give the columns: {EXAMPLE}.") from None
    if not isinstance(found, dict):
        fix = 'It should have an object: {"clicks": "user_id STRING, ts TIMESTAMP"}.'
        raise CallError("compile", "`tables`", f"{os.fspath(path)} has tables in no object", fix)
    return found


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
        if not column or column.startswith("#"):
            break
        columns[column] = kind
    return columns


def _unclear(name: str, problem: str) -> CallError:
    return CallError("compile", "`tables`", f"table `{name}`: {problem}", f"Give its columns as CREATE TABLE takes them: {EXAMPLE}.")
