"""What a Delta table says of itself in its properties: that it is versioned, by which key and time, and for how long (rule V7).

    ALTER TABLE prices SET TBLPROPERTIES (
        'streamtime.key' = 'product', 'streamtime.time' = 'ts', 'streamtime.retention' = '30 days', 'streamtime.grace' = '1 day')

`streamtime.key` names one column or several (`'shop, product'`), `streamtime.time` the event time. `streamtime.retention` and
`streamtime.grace` are unlimited where they are missing. `streamtime.deleted` is a simple condition that marks tombstones, such as the name
of a BOOLEAN column. A table with a key alone is not versioned: `TABLE_HISTORY` takes the key from there.

What a table says is data, whoever wrote it: nothing of it becomes SQL that is not parsed here, and written anew
(`streamtime.sql.tables.marks`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from streamtime.sql.call.errors import CallError, NoHistory, did_you_mean, echoed, gist, listed, unlogged
from streamtime.sql.call.names import plain
from streamtime.sql.rows.columns import TIMES
from streamtime.sql.rows.unread import plan_text
from streamtime.sql.syntax.text import UNITS, literal, quoted, unquoted
from streamtime.sql.tables.classes import refuse_foreign
from streamtime.sql.tables.marks import NoMark, mark

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import types as T

PREFIX = "streamtime."
PROPERTIES = ("key", "time", "retention", "grace", "deleted")
LENGTHS = dict(UNITS) | {"millisecond": 1_000, "week": 7 * dict(UNITS)["day"]}
PIECE = re.compile(r"'?([0-9]{1,15})'?\s+([a-z]+?)s?\b\s*")
THROUGH = re.compile(r"^ *(\+- )?(SubqueryAlias|View|Project|Filter)\b")
READS = re.compile(r"^ *(\+- )?(Relation [^\s\[]+\[|RelationV2\[)")  # the change data feed of a table has no name there
READS_WITH = re.compile(r"^ *(\+- )?CTERelationRef\b")
ALIAS = re.compile(r"^ *(?:\+- )?SubqueryAlias (.+)$")
NAMED = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,\s](?:[^`,]*[^`,\s])?))\s*(?:,|$)")
OWN_CATALOG = "spark_catalog."  # a name that no other engine has
REDACTED = "*********(redacted)"  # what SHOW TBLPROPERTIES has for a value, or of a name, such as `token`, `url` or `secret`
MOST = 60  # the characters that are shown of a property
FARTHEST = 1 << 62  # microseconds: no sum of it with a time overflows
PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([\w$-]+))\s*")


@dataclass(frozen=True)
class Declaration:
    """A table's key columns, its event time (None: a key alone is declared), retention and grace in microseconds (None: unlimited).

    `deleted` is SQL that was made here, `mark` the BOOLEAN column where it is no more than one.
    """

    table: str
    key: tuple[str, ...]
    time: str | None = None
    retention: int | None = None
    grace: int | None = None
    deleted: str | None = None
    mark: str | None = None

    @property
    def versioned(self) -> bool:
        """Whether the table is a versioned one."""
        return self.time is not None

    @property
    def said(self) -> str:
        """What plans follow of it, in words."""
        told = {"key": ", ".join(map(as_name, self.key)), "time": as_name(self.time) if self.time else None, "deleted": self.deleted}
        said = ", ".join(f"{literal(PREFIX + name)} = {literal(text)}" for name, text in told.items() if text)
        return f"{self.table.removeprefix(OWN_CATALOG)} declares {said}"


def declared(session: Any, table: str, function: str = "versioned table") -> Declaration | None:
    """What the table declares; None where it has no such properties. Raises CallError in the name of `function`."""
    name = table_name(table, function)
    properties = properties_of(session, name, function)
    if not any(p.startswith(PREFIX) for p in properties):
        return None
    return read(name, properties, schema_of(session, name, function), function)


def versioned_source(df: Any, function: str = "versioned table") -> Declaration | None:
    """The declaration of the versioned table that the rows come from, if nothing but filters, projections and views lie between (V8).

    None after an aggregation, a join or anything else, over a copy, and where the plan cannot be read (in a Python UDTF; beyond a CTE).
    Raises CallError where the table's declaration makes no sense.
    """
    plan = plan_text(df)
    table = None if plan is None else source_table(plan)
    if table is None:
        return None
    try:
        name = table_name(table, function)  # the plan is text too
        properties = properties_of(df.sparkSession, name, function)
    except CallError:  # a table of another kind, which has no properties
        return None
    if PREFIX + "time" not in properties:
        return None
    return read(table, properties, schema_of(df.sparkSession, name, function), function)


def source_table(plan: str) -> str | None:
    """The table at the end of an analysed plan, as Spark writes it, that has no other nodes than those which keep versions."""
    return _named(plan, READS)


def reads_with(df: Any, name: str) -> bool:
    """Whether the rows are those of a query of WITH that has this name."""
    named = _named(plan_text(df) or "", READS_WITH)
    return named is not None and unquoted(named).lower() == unquoted(name.strip()).lower()


def _named(plan: str, leaf: re.Pattern[str]) -> str | None:
    """What the leaf of a plan is called, if it is one of these, and nothing above it makes rows of its own."""
    lines = plan.strip().splitlines() or [""]
    if lines[0] == "WithCTE":  # what is defined stands first, and what reads it last
        lines = [line[3:] for line in lines[[line[:3] for line in lines].index("+- ") :]]
    if not all(THROUGH.match(line) for line in lines[:-1]) or not leaf.match(lines[-1]):
        return None
    alias = ALIAS.match(lines[-2]) if len(lines) > 1 else None
    return alias[1].strip() if alias else None


def table_name(text: str, function: str) -> str:
    """A table's name with each part quoted, whatever characters it has; CallError for what is no name."""
    return ".".join(map(quoted, name_parts(text, function)))


def name_parts(text: str, function: str) -> list[str]:
    """The parts of a table's name; CallError for what is no name."""
    parts, at = [], 0
    while (match := PART.match(text, at)) is not None:
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
        if at == len(text) and len(parts) <= 3:
            return parts
        if text[at : at + 1] != ".":
            break
        at += 1
    raise CallError(function, None, f"expected the name of a table, got '{text}'", "Write it as 'catalog.schema.table'.")


def properties_of(session: Any, name: str, function: str) -> dict[str, str]:
    """The properties of a table."""
    rows = asked(name, function, lambda: session.sql(f"SHOW TBLPROPERTIES {name}").collect())
    shown = {r[0]: r[1] for r in rows}
    if any(value == REDACTED for p, value in shown.items() if p.startswith(PREFIX)):  # this other question has Delta read all of its log
        (row,) = asked(name, function, lambda: session.sql(f"DESCRIBE DETAIL {name}").select("properties").collect())
        shown |= row.properties
    return shown


def schema_of(session: Any, name: str, function: str) -> T.StructType:
    """The columns of a table."""
    df = asked(name, function, lambda: session.table(name))
    refuse_foreign(df, function)
    schema: T.StructType = asked(name, function, lambda: df.schema)
    return schema


def asked(name: str, function: str, question: Any) -> Any:
    """The answer to a question about a table; CallError where there is no such table, or it is none that can answer."""
    try:
        with unlogged():
            return question()
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith("DELTA_CONFIGURE_SPARK"):  # of the session, and says itself what to do
            raise
        if condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")):
            raise CallError(function, None, f"there is no table {name}", "Name it with its schema, as SHOW TABLES does.") from None
        if condition.startswith("EXPECT_TABLE_NOT_VIEW"):
            raise no_table(name, function) from None
        if condition.startswith(("DELTA_", "UNSUPPORTED_FEATURE", "NOT_A_")) or "Delta" in str(error):
            raise NoHistory(function, None, f"{name} is not a Delta table", "Only Delta tables keep their history.") from None
        raise CallError(function, None, f"{name} cannot be read: {gist(error)}") from None


def no_table(name: str, function: str) -> NoHistory:
    """What is said where a view stands and a table should."""
    return NoHistory(function, None, f"{name} is a view, and a view has no versions of its own", "Name its table.")


def read(table: str, properties: dict[str, str], schema: T.StructType, function: str = "versioned table") -> Declaration | None:
    """The declaration that these properties make, over these columns."""
    given = {p.removeprefix(PREFIX): value for p, value in properties.items() if p.startswith(PREFIX)}
    known = {f.name.lower(): f for f in schema.fields}

    def wrong(name: str, problem: str, fix: str | None = None) -> CallError:
        return CallError(function, f"property `{PREFIX}{echoed(name, MOST)}` of {table}", problem, fix)

    def column(name: str, text: str) -> T.StructField:
        known_name = known.get(text.lower())
        if known_name is None:
            names = [f.name for f in schema.fields]
            raise wrong(
                name, f"no column `{echoed(text, MOST)}` in the table", did_you_mean(text, names) or f"The table has {listed(names)}."
            )
        return known_name

    for name in given:
        if name not in PROPERTIES:
            raise wrong(name, "no such property", did_you_mean(name, PROPERTIES) or f"There are {listed(PREFIX + p for p in PROPERTIES)}.")
    if "key" not in given:
        (first, *_) = given
        raise wrong(first, f"`{PREFIX}key` is missing", f"Add it with ALTER TABLE {table} SET TBLPROPERTIES ('{PREFIX}key' = 'id').")
    key = tuple(column("key", part).name for part in columns(given["key"]))
    if not key:
        raise wrong("key", f"expected names of columns, got '{echoed(given['key'], MOST)}'", "Write it as 'id', or 'shop, product'.")
    if "time" not in given and (rest := next((p for p in ("retention", "grace") if p in given), None)):
        raise wrong(rest, f"needs `{PREFIX}time`", f"Add it with ALTER TABLE {table} SET TBLPROPERTIES ('{PREFIX}time' = 'ts').")
    time = None
    if "time" in given:
        names = columns(given["time"])
        if len(names) != 1:
            raise wrong("time", f"expected the name of a column, got '{echoed(given['time'], MOST)}'", "Write it as 'ts'.")
        field = column("time", names[0])
        if not isinstance(field.dataType, TIMES):
            kind = field.dataType.simpleString().upper()
            raise wrong("time", f"expected a column of TIMESTAMP, TIMESTAMP_NTZ or DATE, got {kind} (`{field.name}`)")
        time = field.name
    durations: dict[str, int | None] = {"retention": None, "grace": None}
    for name in durations:
        if name in given:
            try:
                durations[name] = duration(given[name])
            except ValueError as error:
                raise wrong(name, f"expected an interval of days to seconds, got '{echoed(given[name], MOST)}'", str(error)) from None
    deleted = alone = None
    if "deleted" in given:
        try:
            deleted, alone = mark(given["deleted"], schema)
        except NoMark as error:
            raise wrong("deleted", error.problem, error.fix) from None
    return Declaration(table, key, time, durations["retention"], durations["grace"], deleted, alone)


def columns(text: str) -> list[str]:
    """The names in a list with commas; names with commas or backquotes in backquotes. None of them for what is no such list."""
    names, at = [], 0
    while at < len(text):
        match = NAMED.match(text, at)
        if match is None:
            return []
        names.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
    return names


def as_name(name: str) -> str:
    """A name as a property, or as SQL, in backquotes only where it needs them: the reverse of `columns`."""
    return name if re.fullmatch(r"\w+", name, re.ASCII) and plain(name) == name else quoted(name)


def duration(text: str) -> int:
    """Microseconds of an interval such as `7 days`, `INTERVAL 12 HOURS` or `1 hour 30 minutes`.

    Raises ValueError, which says the fix.
    """
    rest = re.sub(r"^interval\s+", "", text.strip().lower())
    total, at = 0, 0
    while at < len(rest):
        piece = PIECE.match(rest, at)
        unit = piece[2] if piece else ""
        if unit in ("month", "year"):
            raise ValueError("Months and years have no fixed length: say it in days.")
        if piece is None or unit not in LENGTHS:
            raise ValueError("Write it as '7 days' or '1 hour 30 minutes'.")
        total += int(piece[1]) * LENGTHS[unit]
        at = piece.end()
    if not rest:
        raise ValueError("Write it as '7 days'.")
    if total > FARTHEST:
        raise ValueError("It is longer than time itself: leave it out.")
    return total
