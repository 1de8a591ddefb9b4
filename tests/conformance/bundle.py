"""The cases: calls, the plain SQL that they compile to, the tables that these read, and the rows that the calls give here."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import rows
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from support import TESTS
from support.inputs import nasty
from support.inputs.plain_calls import CALLS, STATEMENTS

import streamtime
from streamtime.plain.compiling import SETTINGS
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.errors import gist
from streamtime.sql.call.names import parts
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Source
from streamtime.statements.calls import spoken

CONVERSATIONS = ("deduplicate", "distinct_in_window", "sessionize", "suppress", "updates", "versions", "as_of", "changes")
NAMES = {spec.name for spec in FUNCTIONS}
COMMITTED = "_delta_log"


@dataclass(frozen=True)
class Case:
    """A statement of one function. `tables` are names and the folders in which their rows lie; `settings` those of the session that are
    not the usual ones."""

    function: str
    name: str
    statement: str
    text: str
    tables: dict[str, str]
    columns: str
    names: list[str]  # of these columns
    rows: list[list[str | None]] | None  # None: the call fails when it runs, and so should its plain SQL
    settings: dict[str, str] = field(default_factory=dict)


class Bundle:
    """Collects cases, and writes the tables that they need into a folder."""

    def __init__(self, spark: SparkSession, folder: Path, *, anywhere: bool = True) -> None:
        self.spark, self.folder = spark, folder
        self.anywhere = anywhere  # where there is no Delta, and no Parquet: tables as SQL text, too
        self.cases: list[Case] = []
        self.refused: list[dict[str, str]] = []  # statements that have no plain SQL: their function, where they are from, what they are
        self.saved: dict[tuple[str, object], str] = {}  # of each table, as it was: the folder that it is in
        self.known: set[tuple[str, ...]] = set()  # texts, with the tables that they read
        (folder / "tables").mkdir(parents=True, exist_ok=True)

    def add(self, origin: str, statement: str) -> None:
        """A statement over the tables and views that there are now. Its rows are those of the call."""
        function = function_of(statement)
        try:
            text = streamtime.compile(self.spark, statement)
        except AnalysisException as error:
            if "has no plain SQL" in str(error):
                self.refused.append({"function": function, "origin": origin, "statement": statement, "why": str(error)})
                return
            try:
                self.spark.sql(statement)
            except PySparkException:
                return  # the call is wrong, too
            text = f"{statement} /* not compiled: {gist(error).replace('*/', '* /')} */"  # a case that no engine passes
        if text == statement:
            return  # no call
        tables = self._tables(text)
        if self.anywhere and any((self.folder / "tables" / place / COMMITTED).exists() for place in tables.values()):
            return
        settings = {name: now for name, usual in SETTINGS.items() if (now := self.spark.conf.get(name)) != usual}
        key = (text, *map(str, sorted((tables | settings).items())))
        if key in self.known:
            return
        self.known.add(key)
        df = self.spark.sql(statement)
        expected: list[list[str | None]] | None
        try:
            expected = rows.of_table(df.toDF(*[f"c{i}" for i in range(len(df.columns))]).toArrow())
        except PySparkException:
            expected = None
        name = f"{origin} {len(self.cases) + 1}"
        self.cases.append(Case(function, name, statement, text, tables, df.schema.simpleString(), df.columns, expected, settings))

    def write(self) -> None:
        """The cases, beside their tables; and the statements that have no plain SQL."""
        (self.folder / "cases.json").write_text(json.dumps([asdict(case) for case in self.cases], indent=1), encoding="utf-8")
        (self.folder / "refused.json").write_text(json.dumps(self.refused, indent=1), encoding="utf-8")

    def _tables(self, text: str) -> dict[str, str]:
        """What a text reads, and where it is saved."""
        catalog, found = self.spark._jsparkSession.sessionState().catalog(), {}
        for names in dict.fromkeys(read(Source(text))):
            table = ".".join(map(quoted, names))
            if len(names) == 1 and catalog.getTempView(names[0]).isDefined():
                found[table] = self._saved(table)
            elif self.spark.catalog.tableExists(table):
                location = self._location(table)
                found[table] = self._copied(table, location) if location is not None else self._saved(table)
        return found

    def _location(self, table: str) -> Path | None:
        """Of a Delta table."""
        said = {row.col_name: row.data_type for row in self.spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
        place = said.get("Location", "").removeprefix("file:")
        return Path(place) if (Path(place) / COMMITTED).exists() and place else None

    def _place(self, table: str) -> str:
        last = "".join(c if c.isascii() and c.isalnum() else "_" for c in parts(table)[-1])
        return f"{last}_{len(self.saved) + 1}"

    def _copied(self, table: str, location: Path) -> str:
        """A Delta table with its commits, and the times at which they were made."""
        key = (table, tuple(sorted(commit.name for commit in (location / COMMITTED).glob("*.json"))), str(location))
        if key not in self.saved:
            place = self._place(table)
            shutil.copytree(location, self.folder / "tables" / place)
            self.saved[key] = place
        return self.saved[key]

    def _saved(self, table: str) -> str:
        """The rows of a view. Two that have the same plan have the same rows."""
        df = self.spark.table(table)
        key = (table, df.semanticHash())
        if key not in self.saved:
            place = self._place(table)
            folder = self.folder / "tables" / place
            df.coalesce(1).write.parquet(str(folder))
            ddl = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in df.schema.fields)
            folder.with_suffix(".ddl").write_text(ddl, encoding="utf-8")
            if self.anywhere:
                folder.with_suffix(".sql").write_text(values(self.spark, table), encoding="utf-8")
            self.saved[key] = place
        return self.saved[key]


def function_of(statement: str) -> str:
    """The function that a statement calls first; or a join AS OF, by its words."""
    words = [t.word for t in Source(statement).tokens]
    return next((word for word in words if word in NAMES), "AS_OF_JOIN" if "ASOF" in words else "AS OF")


def read(source: Source) -> Iterator[tuple[str, ...]]:
    """The names that stand where a table does, and those in TABLE_CHANGES('name', ..)."""
    for i, token in enumerate(source.tokens):
        before = source.word(i - 1)
        if token.kind == "string" and before == "(" and source.word(i - 2) == "TABLE_CHANGES":
            yield tuple(parts(token.text[1:-1]))
        elif token.name is not None and (before in ("FROM", "JOIN", "TABLE") or (before == "(" and source.word(i - 2) == "TABLE")):
            yield tuple(t.spelled or "" for t in source.tokens[i : source.name_end(i) : 2])


def values(spark: SparkSession, view: str) -> str:
    """A query that gives the rows of a view anywhere: SELECT .. FROM VALUES."""
    fields = spark.table(view).schema.fields
    numbers = [f"CAST({_number(quoted(f.name), f.dataType)} AS STRING)" for f in fields]
    found = spark.sql(f"SELECT array({', '.join(numbers)}) AS row FROM {view}").collect()
    names = ", ".join(f"c{i}" for i in range(len(fields)))
    back = ", ".join(f"{_back(f'c{i}', f.dataType)} AS {quoted(f.name)}" for i, f in enumerate(fields))
    lines = ",\n  ".join("(" + ", ".join("CAST(NULL AS STRING)" if v is None else _text(v) for v in row[0]) + ")" for row in found)
    nothing = f"SELECT {', '.join(f'CAST(NULL AS STRING) AS c{i}' for i in range(len(fields)))} WHERE false"
    return f"SELECT {back} FROM (VALUES\n  {lines}) AS v({names})" if found else f"SELECT {back} FROM ({nothing}) AS v"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _number(column: str, kind: T.DataType) -> str:
    return f"unix_micros({column})" if isinstance(kind, T.TimestampType) else column


def _back(column: str, kind: T.DataType) -> str:
    if isinstance(kind, T.TimestampType):
        return f"timestamp_micros(CAST({column} AS BIGINT))"
    return f"CAST({column} AS {kind.simpleString()})"


def made(spark: SparkSession, folder: Path, only: str = "") -> Bundle:
    """All cases: rows as bad as they get, and the conversations of the tests, which follow the rules one by one."""
    bundle = Bundle(spark, folder)
    some = nasty.scenarios(17, 60)
    nasty.view(spark, some)
    nasty.view(spark, some, name="odd", names=nasty.ODD)
    spark.sql("SELECT s, k, t AS at, v AS price, off FROM nasty WHERE id % 2 = 0").createOrReplaceTempView("prices")
    for statement in [f"SELECT * FROM {call}" for call in CALLS] + [*STATEMENTS.values()]:
        if only in statement:
            bundle.add("nasty", statement)
    for view in ("nasty", "odd", "prices"):
        spark.catalog.dropTempView(view)
    for conversation in CONVERSATIONS:
        for statement in spoken((TESTS / "golden" / f"{conversation}.sql").read_text(encoding="utf-8")):
            _spoken(bundle, conversation, statement.strip(), only)
    bundle.write()
    return bundle


def _spoken(bundle: Bundle, conversation: str, statement: str, only: str) -> None:
    words = [t.word for t in Source(statement).tokens]
    if not words:
        return
    if words[0] in ("SELECT", "WITH", "FROM"):
        if only in statement:
            bundle.add(conversation, statement)
        return
    with contextlib.suppress(AnalysisException):
        bundle.spark.sql(statement)
