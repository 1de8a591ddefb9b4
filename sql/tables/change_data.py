"""Reads the change data feed of a Delta table across commits that renamed or dropped columns.

Delta refuses to read such a range in one piece, and reads the pieces between these commits. What a column was called in each piece is
in the log: going back from the end of the range, a RENAME COLUMN gives a column its older name, and a column that has the name of one that
was dropped, or renamed away, is a newer one: it is null before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError
from streamtime.sql.rows.columns import named
from streamtime.sql.syntax.text import named_parts, quoted
from streamtime.sql.tables.classes import refuse_foreign
from streamtime.sql.tables.declaration import asked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHANGE, VERSION, AT = "_change_type", "_commit_version", "_commit_timestamp"
RENAME, DROP = "RENAME COLUMN", "DROP COLUMNS"
MAY_CHANGE = (RENAME, DROP)
ANEW = ("CREATE OR REPLACE TABLE", "REPLACE TABLE", "RESTORE")


@dataclass(frozen=True)
class Change:
    """A commit that changed columns: its number, its time in microseconds, the operation and its parameters, as the log has them."""

    version: int
    at: int
    operation: str
    given: dict[str, str]

    @property
    def renamed(self) -> tuple[list[str], list[str]] | None:
        """The path of a column before and after."""
        if self.operation != RENAME:
            return None
        return named_parts(self.given["oldColumnPath"]), named_parts(self.given["newColumnPath"])

    @property
    def dropped(self) -> list[list[str]]:
        """The paths of columns that went."""
        return [named_parts(path) for path in json.loads(self.given["columns"])] if self.operation == DROP else []

    @property
    def nested(self) -> bool:
        """Whether it was about fields of structs: these are not told apart here."""
        return any(len(path) != 1 for path in (*(self.renamed or ()), *self.dropped))


def replaced(session: Any, name: str, rows: Sequence[Any]) -> int | None:
    """The first commit of these that can be read after the last one that gave the table columns which older rows do not have in that type;
    None where there is none. Delta reads changes with the columns of now, and refuses those of before it.

    What Delta says no more of, as of commits older than its files are kept for sure, it is asked for when the feed is read.
    """
    anew = [r.version for r in rows[1:] if r.operation.startswith(ANEW) or (r.given or {}).get("canOverwriteSchema") == "true"]
    oldest = _columns(session, name, anew[0] - 1) if anew else None
    if not anew or (oldest is not None and _goes_on(oldest, session.table(name).schema)):
        return None
    for version in reversed(anew):
        before, after = (_columns(session, name, v) for v in (version - 1, version))
        if before is None or after is None:
            return None
        if not _goes_on(before, after):
            kinds = {f.name.lower(): f.dataType.simpleString() for f in before.fields}
            readable = all(kinds.get(f.name.lower()) in (None, f.dataType.simpleString()) for f in after.fields)
            return int(version) if readable else int(version) + 1  # it removed rows whose files have the old types
    return None


def _columns(session: Any, name: str, version: int) -> T.StructType | None:
    try:
        columns: T.StructType = session.read.option("versionAsOf", version).table(name).schema
    except PySparkException:
        return None
    return columns


def _goes_on(before: T.StructType, after: T.StructType) -> bool:
    """Whether each column is there afterwards, with its type, and may still be null if it could."""
    now = {f.name.lower(): f for f in after.fields}
    pairs = [(f, now.get(f.name.lower())) for f in before.fields]
    return all(n and f.dataType.simpleString() == n.dataType.simpleString() and n.nullable >= f.nullable for f, n in pairs)


def change_data(session: Any, name: str, changes: Sequence[Change], start: int, end: int, function: str) -> DataFrame:
    """The feed of these commits, both included, with the columns that the table has at the end. Raises CallError."""
    cuts = [c for c in changes if start < c.version <= end]
    piece = _piece(session, name, cuts[-1].version if cuts else start, end, function)
    if not cuts:
        return piece
    fields = [f for f in piece.schema.fields if f.name not in (CHANGE, VERSION, AT)]
    called: list[str | None] = [f.name for f in fields]
    pieces = [piece]
    for i, cut in reversed(list(enumerate(cuts))):
        if cut.nested:
            raise _unreadable(name, cut, function)
        called = [_before(cut, n) for n in called]
        older = _piece(session, name, cuts[i - 1].version if i else start, cut.version - 1, function)
        known = {f.name.lower(): f for f in older.schema.fields}
        columns = [
            _column(name, cut, f, known.get(n.lower()) if n is not None else None, function) for f, n in zip(fields, called, strict=True)
        ]
        pieces.append(older.select(*columns, CHANGE, VERSION, AT))
    feed = pieces[0]
    for older in pieces[1:]:
        feed = feed.union(older)
    return feed


def _piece(session: Any, name: str, start: int, end: int, function: str) -> DataFrame:
    reader = session.read.option("readChangeFeed", "true").option("startingVersion", start).option("endingVersion", end)
    rows: DataFrame = asked(name, function, lambda: reader.table(name))
    refuse_foreign(rows, function)
    return rows


def _before(cut: Change, name: str | None) -> str | None:
    """What a column was called before; None where it was not there."""
    if name is None:
        return None
    if cut.renamed is not None:
        (old,), (new,) = cut.renamed
        return old if name.lower() == new.lower() else None if name.lower() == old.lower() else name
    return None if any(name.lower() == path[0].lower() for path in cut.dropped) else name


def _column(table: str, cut: Change, field: T.StructField, older: T.StructField | None, function: str) -> Column:
    """A column of an older piece, under the name and type that it has now."""
    if older is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    column = named(older.name)
    if older.dataType.simpleString() != field.dataType.simpleString():
        if not isinstance(field.dataType, T.AtomicType) or not isinstance(older.dataType, T.AtomicType):
            raise _unreadable(table, cut, function)
        column = column.cast(field.dataType)  # Delta only ever widens a type
    return column.alias(field.name)


def _unreadable(table: str, cut: Change, function: str) -> CallError:
    paths = [cut.renamed[0]] if cut.renamed else cut.dropped
    what = ", ".join(".".join(map(quoted, path)) for path in paths)
    problem = (
        f"commit {cut.version} of {table} ({cut.operation} {what}) changed fields within a column: its history cannot be read across it"
    )
    fix = f"The commits before and after can be: TABLE_HISTORY(.., to => {cut.version - 1}) and TABLE_HISTORY(.., from => {cut.version})."
    return CallError(function, None, problem, fix)
