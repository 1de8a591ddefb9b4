"""The commits of a Delta table: which are there, and the versions of each key that its change data feed tells (rule V6)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError, NoHistory, did_you_mean, listed
from streamtime.sql.call.names import Names, is_reserved, plain
from streamtime.sql.rows.columns import expression, has_collation, has_floating, named, orderable
from streamtime.sql.rows.typed import AS_JSON
from streamtime.sql.syntax.text import quoted
from streamtime.sql.tables.change_data import AT, CHANGE, MAY_CHANGE, VERSION, Change, change_data, replaced
from streamtime.sql.tables.declaration import asked, declared, no_table, properties_of, table_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.tables.declaration import Declaration


NAME = "TABLE_HISTORY"


FEED = "delta.enableChangeDataFeed"


ADDED = ("valid_from", "valid_to", "from_version", "to_version")


WITHOUT_ROWS = (
    "CREATE TABLE",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "ADD COLUMNS",
    "CHANGE COLUMN",
    "UPGRADE PROTOCOL",
    "ADD CONSTRAINT",
)


Moment = int | str  # the number of a commit, or SQL text of a time


@dataclass(frozen=True)
class Log:
    """What a table's log says: its commits, and from which on change data is there, and why not from earlier on."""

    times: dict[int, int]
    start: int
    complete: bool
    why: str
    changes: tuple[Change, ...]

    @property
    def latest(self) -> int:
        """The newest commit."""
        return max(self.times)


@dataclass(frozen=True)
class History:
    """Versions by commit, and the commit that they begin with: its number, and its time in microseconds.

    `declaration` is what the table says of its key, where that was asked.
    """

    rows: DataFrame
    first: int
    began: int
    declaration: Declaration | None = None


def history(
    session: Any,
    table: str,
    keys: Sequence[str] | None = None,
    first: Moment | None = None,
    last: Moment | None = None,
    fix: str = "Name the columns that tell rows apart: keys => ARRAY(..).",
) -> History:
    """The versions of a Delta table by commit, as a DataFrame that is not run yet.

    `keys` are columns, as SQL names them (None: those that the table declares); `first` and `last` are commits, both included;
    `fix` is what to do where a key has several rows. Raises CallError.
    """
    name = table_name(table, NAME)
    log = log_of(session, name)
    start, end = _range(session, name, log, first, last)
    feed = change_data(session, name, log.changes, start, end, NAME)
    columns = [f for f in feed.schema.fields if f.name not in (CHANGE, VERSION, AT)]
    if reserved := [f.name for f in columns if is_reserved(f.name)]:
        raise CallError(NAME, None, f"the table {name} has a column {listed(reserved)}, a reserved name", "Rename it in the table.")
    if taken := [f.name for f in columns if Names(session).among(f.name, ADDED)]:
        raise CallError(NAME, None, f"the table {name} has a column {listed(taken)}, which this call adds", "Rename it in the table.")
    declaration = _declaration(session, name) if keys is None else None
    keys = [quoted(k) for k in declaration.key] if declaration is not None else keys or ()
    rows = _versions(name, feed, columns, _keys(session, name, columns, keys), not (log.complete and start == log.start), fix)
    return History(rows, start, log.times[start], declaration)


def _versions(name: str, feed: DataFrame, columns: list[T.StructField], keys: list[str], partial: bool, fix: str) -> DataFrame:
    kinds = {f.name: f.dataType for f in columns}
    is_old, row = F.col(CHANGE).isin("delete", "update_preimage"), F.struct(*[named(f.name) for f in columns])
    one = F.min if all(orderable(k) for k in kinds.values()) else lambda c: F.first(c, ignorenulls=True)
    ids = [f"__streamtime_key_{i}" for i in range(len(keys))]
    by_key = [named(i) for i in ids]
    present = feed.where(" AND ".join(f"{quoted(k)} IS NOT NULL" for k in keys))
    commits = (
        present.select("*", *[named(k).alias(i) for k, i in zip(keys, ids, strict=True)])
        .repartition(*by_key)  # for the aggregate and for the window
        .groupBy(*by_key, VERSION, AT)
        .agg(
            F.count_if(~is_old).alias("written"),
            F.count_if(is_old).alias("removed"),
            one(F.when(~is_old, row)).alias("new"),
            one(F.when(is_old, row)).alias("old"),
        )
    )
    shown = F.concat_ws(", ", *[F.concat(F.lit(f"{k} = "), i.cast("string")) for k, i in zip(keys, by_key, strict=True)])
    problem = F.concat(
        F.lit(f"{NAME}: the commit "), F.col(VERSION).cast("string"), F.lit(f" of {name} wrote "), F.col("written").cast("string"),
        F.lit(" rows of the key "), shown, F.lit(f": one is expected. {fix}"),
    )  # fmt: skip
    equal = F.lit(True)
    for f in columns:
        equal &= _same(f"old.{quoted(f.name)}", f"new.{quoted(f.name)}", f.dataType)
    unchanged = (F.col("removed") == 1) & equal
    changes = commits.where(
        F.when(F.col("written") > 1, F.raise_error(problem).cast("boolean")).otherwise((F.col("written") == 0) | ~unchanged)
    )
    in_time = Window.partitionBy(*by_key).orderBy(F.col(VERSION).asc())
    changes = changes.withColumns({"next": F.lead(VERSION).over(in_time), "ends": F.lead(AT).over(in_time)})
    bounds = (F.col(AT), F.col("ends"), F.col(VERSION), F.col("next"))
    if not partial:
        picked = [F.col(f"new.{quoted(f.name)}").alias(f.name, metadata=f.metadata) for f in columns]
        return changes.where(F.col("written") == 1).select(*picked, *[b.alias(n) for b, n in zip(bounds, ADDED, strict=True)])
    none = (F.lit(None).cast("timestamp"), F.col(AT), F.lit(None).cast("long"), F.col(VERSION))

    def version(of: str, ends: Sequence[Column]) -> Column:
        return F.struct(named(of).alias("row"), *[b.alias(n) for b, n in zip(ends, ADDED, strict=True)])

    changes = changes.withColumn("number", F.row_number().over(in_time))
    ended = F.when((F.col("number") == 1) & (F.col("removed") > 0), version("old", none))
    began = F.when(F.col("written") == 1, version("new", bounds))
    versions = changes.select(F.explode(F.array_compact(F.array(ended, began))).alias("v"))
    picked = [F.col(f"v.row.{quoted(f.name)}").alias(f.name, metadata=f.metadata) for f in columns]
    return versions.select(*picked, *[F.col(f"v.{n}") for n in ADDED])


def _same(old: str, new: str, kind: T.DataType) -> Column:
    """Whether two values are the same, to the byte: a collation calls others equal, and so are 0.0 and -0.0. Their JSON tells these apart;
    what cannot be compared goes by it alone."""
    compared = [expression(old).eqNullSafe(expression(new))] if orderable(kind) else []
    if not orderable(kind) or has_collation(kind) or has_floating(kind):
        one, other = (F.to_json(F.struct(expression(value).alias("v")), AS_JSON) for value in (old, new))
        compared.append(one.eqNullSafe(other))
    return reduce(and_, compared)


def _declaration(session: Any, name: str) -> Declaration:
    declaration = declared(session, name, NAME)
    if declaration is None:
        fix = f"Add keys => ARRAY('id'), or declare it: ALTER TABLE {name} SET TBLPROPERTIES ('streamtime.key' = 'id')."
        raise CallError(NAME, "`keys`", f"is missing, and the table {name} declares no key", fix)
    return declaration


def _keys(session: Any, name: str, columns: list[T.StructField], given: Sequence[str]) -> list[str]:
    known = {f.name: f for f in columns}
    keys = []
    for text in given:
        field = known.get(Names(session).find(plain(text), [*known]) or "")
        if field is None:
            fix = did_you_mean(text, known) or f"The table has {listed(known)}."
            raise CallError(NAME, "`keys`", f"no column `{text}` in the table {name}", fix)
        if not orderable(field.dataType):
            kind = field.dataType.simpleString().upper()
            raise CallError(NAME, "`keys`", f"values of type {kind} cannot be compared (`{text}`)")
        keys.append(field.name)
    return keys


def log_of(session: Any, name: str, function: str = NAME, known: tuple[int, int] | None = None) -> Log:
    """Reads the table's log. Raises NoHistory, in the name of `function`, where there is no feed.

    `known`: a commit at which the feed was enabled, and the newest one. Only those from the first on are read, if they are there.
    """
    rows: list[Any] = []
    if known is not None:
        since, newest = known
        commits = asked(name, function, lambda: _described(session, name, newest - since + 1))
        rows = sorted((r for r in commits if r.version >= since), key=lambda r: r.version)
    if known is None or not rows or rows[0].version > known[0]:
        rows = sorted(asked(name, function, lambda: _described(session, name)), key=lambda r: r.version)
    if properties_of(session, name, function).get(FEED, "").lower() != "true":
        fix = f"Enable it with ALTER TABLE {name} SET TBLPROPERTIES ({FEED} = true); history begins there."
        raise NoHistory(function, None, f"the table {name} has no change data feed, so its history is not recorded", fix)
    times = {r.version: r.at for r in rows}
    start, why = _enabled(rows), "the change data feed was enabled there"
    complete = rows[0].version == 0 and all(r.operation in WITHOUT_ROWS for r in rows if r.version < start)
    if rows[0].version > 0 and start == rows[0].version:
        why = "the log of older commits is gone"
    if (oldest := _vacuumed(rows)) is not None and oldest > start:
        start, complete, why = oldest, False, "files of older commits were vacuumed"
    if (anew := replaced(session, name, [r for r in rows if r.version >= start])) is not None:
        start, complete, why = anew, False, "the table was replaced there, with other columns"
    changes = tuple(Change(r.version, r.at, r.operation, r.given or {}) for r in rows if r.operation in MAY_CHANGE)
    return Log(times, start, complete, why, changes)


def _described(session: Any, name: str, most: int | None = None) -> list[Any]:
    """The commits, or the newest. DESCRIBE HISTORY is Delta's: where there is no Delta, Spark looks for a table that is called HISTORY."""
    asks = ("version", "unix_micros(timestamp) AS at", "operation", "operationParameters AS given", "operationMetrics AS counts")
    limit = "" if most is None else f" LIMIT {most}"
    try:
        rows: list[Any] = session.sql(f"DESCRIBE HISTORY {name}{limit}").selectExpr(*asks).collect()
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith(("TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_COLUMN")):
            raise
        if session.catalog.getTable(name).tableType in ("TEMPORARY", "VIEW"):  # an error where there is no such table
            raise no_table(name, NAME) from None
        raise NoHistory(
            NAME, None, f"{name} has no history: this session has no Delta Lake", "Only Delta tables keep their history."
        ) from None
    return rows


def _enabled(rows: Sequence[Any]) -> int:
    """The commit since which the feed has been enabled."""
    since, enabled = int(rows[0].version), True
    for r in rows:
        properties = (r.given or {}).get("properties") or ""
        if r.operation.startswith(("CREATE", "REPLACE")) or (FEED in properties and r.operation == "SET TBLPROPERTIES"):
            enables = FEED in properties and str(json.loads(properties).get(FEED)).lower() == "true"
        elif FEED in properties and r.operation == "UNSET TBLPROPERTIES":
            enables = False
        else:
            continue
        since, enabled = since if enabled else r.version, enables
    return since


def _vacuumed(rows: Sequence[Any]) -> int | None:
    """The first commit whose files no VACUUM has removed; None where none was removed."""
    horizon, since, retention = None, 0, 0
    for r in rows:
        given, counts = r.given or {}, r.counts or {}
        if r.operation == "VACUUM START":
            since, retention = r.at, int(given.get("specifiedRetentionMillis") or given.get("defaultRetentionMillis") or 0)
        elif r.operation == "VACUUM END" and int(counts.get("numDeletedFiles") or 0) > 0:
            horizon = max(horizon or 0, since - retention * 1000)
    return None if horizon is None else min((r.version for r in rows if r.at >= horizon), default=rows[-1].version)


def _range(session: Any, name: str, log: Log, first: Moment | None, last: Moment | None) -> tuple[int, int]:
    if log.start not in log.times:
        problem = f"the history of {name} begins after its last commit ({log.latest}): the table was replaced there, with other columns"
        raise CallError(NAME, None, problem, "Ask again when there is another commit.")
    available = f"available are commits {log.start} ({_text(log.times[log.start])}) to {log.latest} ({_text(log.times[log.latest])})"
    start, end = (_number(session, log, m, i == 0) if m is not None else None for i, m in enumerate((first, last)))
    if start is None and not log.complete:
        problem = f"the history of {name} is not complete: {available}, since {log.why}"
        raise CallError(NAME, None, problem, f"Add from => {log.start} to see what changed since.")
    start = log.start if start is None or (log.complete and start < log.start) else start
    end = log.latest if end is None else end
    if start < log.start:
        raise CallError(NAME, "`from`", f"commit {start} of {name} is not available: {available}, since {log.why}")
    for option, value in (("`from`", start), ("`to`", end)):
        if value > log.latest:
            raise CallError(NAME, option, f"{name} has no commit {value}: {available}")
    if start > end:
        raise CallError(NAME, "`to`", f"expected a commit not before `from` ({start}), got {end}: {available}")
    return start, end


def _number(session: Any, log: Log, moment: Moment, is_first: bool) -> int:
    """The commit of a moment: the first at or after it, or the last at or before it."""
    if isinstance(moment, int):
        return moment
    option = "`from`" if is_first else "`to`"
    at = session.sql(f"SELECT unix_micros({moment})").first()[0]
    if at is None:
        raise CallError(
            NAME, option, f"expected the number of a commit, or a time, got {_written(moment)}", "Write it as '2024-05-01 10:00:00'."
        )
    if is_first:
        return min((v for v, time in log.times.items() if time >= at), default=log.latest + 1)
    number = max((v for v, time in log.times.items() if time <= at), default=None)
    if number is None:
        raise CallError(
            NAME, option, f"there is no commit at or before {_written(moment)}: the first is of {_text(min(log.times.values()))}"
        )
    return number


def _written(moment: str) -> str:
    return moment.removeprefix("try_cast(").removesuffix(" AS TIMESTAMP_LTZ)")


def _text(micros: int) -> str:
    return f"{datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S} UTC"
