"""Statements on their way to a server that does not have the pack: compiled here to plain SQL, for the columns that the server says."""

from __future__ import annotations

import re
import tempfile
import threading
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtime.plain import compiling
from streamtime.plain.compiling import compile as compile_
from streamtime.plain.tables import Columns, DbConnection, described
from streamtime.session import session
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.errors import unlogged
from streamtime.sql.call.names import parts
from streamtime.sql.syntax import as_of_rewrite
from streamtime.sql.syntax.as_of_clauses import Refusal

CALL = re.compile(rf"\b(?:{'|'.join(s.name for s in FUNCTIONS)})\s*\(", re.IGNORECASE)
PACK = "SHOW FUNCTIONS LIKE 'function_catalog'"  # a name that is nobody else's; DESCRIBE FUNCTION fails for one that there is not
SETTINGS = tuple(compiling.SETTINGS)  # what the meaning of a text hangs on
_compiling = threading.RLock()


class Server:
    """A server behind a DB-API connection; what it says of itself is asked once, when the first call goes there."""

    def __init__(self, connection: DbConnection) -> None:
        self.connection = connection
        self.has_pack: bool | None = None
        self.spark: SparkSession | None = None

    def understands(self, text: str) -> str:
        """The statement as this server can run it. Raises AnalysisException where a call is wrong, or has no plain SQL."""
        if not calls(text):
            return text
        if self.has_pack is None:
            self.has_pack = bool(self._asked(PACK))
        if self.has_pack:
            return text
        with _compiling:
            if self.spark is None:
                self.spark = self._twin()
            return plain(self.spark, text, self.connection)

    def _twin(self) -> SparkSession:
        """A session here with the settings of the one there."""
        own = session(1, "1g", {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "streamtime-nothing"))})
        spark = SparkSession(own.sparkContext, own._jsparkSession.newSession())
        for name in SETTINGS:
            ((_, value, *_),) = self._asked(f"SET {name}")
            if value != "<undefined>":
                spark.conf.set(name, value)
        return spark

    def _asked(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement)
            return list(cursor.fetchall())
        finally:
            cursor.close()


def calls(text: str) -> bool:
    """Whether there may be a call in it, or an AS OF join."""
    if CALL.search(text):
        return True
    try:
        return as_of_rewrite.rewrite(text) is not None
    except Refusal:
        return True


def plain(spark: SparkSession, text: str, connection: DbConnection) -> str:
    """A statement as plain SQL. Which tables its calls read, Spark says by missing them; the connection says their columns."""
    tables = dict[str, Columns]()
    while True:
        try:
            with unlogged():
                return compile_(spark, text, tables=tables)
        except AnalysisException as error:
            name = _missing(error)
            if name is None or name in tables:
                raise
            tables[name] = described(name, parts(name), connection)


def _missing(error: AnalysisException) -> str | None:
    """The table that there is not, as Spark quotes it."""
    if not (error.getCondition() or "").startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return None
    return (error.getMessageParameters() or {}).get("relationName")
