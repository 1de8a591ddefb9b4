"""The cases: calls, the plain SQL that they compile to, the tables that these read, and the rows that the calls give here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import rows
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from support import TESTS, nasty
from support.plain_calls import CALLS, STATEMENTS

import streamtime
from streamtime.shelf import FUNCTIONS
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Source
from streamtime.statements.calls import spoken

CONVERSATIONS = ("deduplicate", "distinct_in_window", "sessionize", "suppress", "updates", "versions", "as_of", "changes")
NAMES = {spec.name for spec in FUNCTIONS}
DOTTED = re.compile(r"\b[a-z_]\w*\.[a-z_]\w*\b")


@dataclass(frozen=True)
class Case:
    """A statement of one function. `tables` are names and the folders in which their rows lie."""

    function: str
    name: str
    statement: str
    text: str
    tables: dict[str, str]
    columns: str
    rows: list[list[str | None]]


class Bundle:
    """Collects cases, and writes the tables that they need into a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.cases: list[Case] = []
        self.refused: dict[str, list[str]] = {}  # by function: statements that have no plain SQL
        self.saved: dict[str, str] = {}  # of each view the folder that it is in

    def add(self, origin: str, statement: str) -> None:
        """A statement over the views that there are now."""
        function = next((t.word for t in Source(statement).tokens if t.word in NAMES), "AS_OF_JOIN")
        try:
            text = streamtime.compile(self.spark, statement)
        except AnalysisException as error:
            if "has no plain SQL" in str(error):
                self.refused.setdefault(function, []).append(statement)
            return
        if text == statement or any(self.spark.catalog.tableExists(name) for name in DOTTED.findall(statement)):
            return  # no call, or a table that other engines do not have
        df = self.spark.sql(statement)
        expected = rows.of_table(df.toDF(*[f"c{i}" for i in range(len(df.columns))]).toArrow())
        name = f"{origin} {len(self.cases) + 1}"
        self.cases.append(Case(function, name, statement, text, self._tables(statement), df.schema.simpleString(), expected))

    def forget(self, view: str) -> None:
        """It may have other rows now."""
        self.saved.pop(view.lower(), None)

    def write(self) -> None:
        """The cases, beside their tables; and how many statements of each function have no plain SQL."""
        (self.folder / "cases.json").write_text(json.dumps([asdict(case) for case in self.cases], indent=1), encoding="utf-8")
        counts = {function: len(statements) for function, statements in self.refused.items()}
        (self.folder / "refused.json").write_text(json.dumps(counts, indent=1), encoding="utf-8")

    def _tables(self, statement: str) -> dict[str, str]:
        names = set(read(Source(statement)))
        return {t.name: self._saved(t.name) for t in self.spark.catalog.listTables() if t.isTemporary and t.name in names}

    def _saved(self, view: str) -> str:
        if view not in self.saved:
            self.saved[view] = place = f"{view}_{sum(1 for _ in (self.folder / 'tables').glob('*')) + 1}"
            folder = self.folder / "tables" / place
            self.spark.table(view).coalesce(1).write.parquet(str(folder))
            fields = self.spark.table(view).schema.fields
            ddl = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in fields)
            folder.with_suffix(".ddl").write_text(ddl, encoding="utf-8")
            folder.with_suffix(".sql").write_text(values(self.spark, view), encoding="utf-8")
        return self.saved[view]


def read(source: Source) -> Iterator[str | None]:
    """The names that stand where a table does."""
    for i, token in enumerate(source.tokens):
        before = source.word(i - 1)
        if before in ("FROM", "JOIN", "TABLE") or (before == "(" and source.word(i - 2) == "TABLE"):
            yield token.name


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
            try:
                bundle.add(conversation, statement)
            except Exception as error:  # a conversation also shows what fails when it runs
                print(f"[{conversation}: left out, since it fails: {statement[:80]!r}: {str(error)[:80]!r}]", flush=True)
        return
    try:
        bundle.spark.sql(statement)
    except AnalysisException:
        return
    if "VIEW" in words:
        bundle.forget(Source(statement).tokens[words.index("VIEW") + 1].name or "")
