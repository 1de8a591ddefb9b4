"""apply_changes(): a changelog merged into a Delta table, in any order of arrival, each batch once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError, did_you_mean, gist, listed, of_other_type, unlogged
from streamtime.sql.call.remote import refuse_remote
from streamtime.sql.rows.changelog import CHANGE, MADE_ANEW
from streamtime.sql.rows.columns import orderable
from streamtime.sql.rows.typed import ddl, needs_mapping
from streamtime.sql.syntax.text import quoted
from streamtime.sql.tables.applied import Applied
from streamtime.statements.calls import is_query
from streamtime.statements.query import query
from streamtime.store.fitting import as_stored
from streamtime.store.puts import APP, CONFLICTS, VERSION, batch_name
from streamtime.store.table import qualified, query_id

NAME = "apply_changes"
BOUNDS = ("valid_from", "valid_to")
ANEW, GONE = "__streamtime_anew", "__streamtime_gone"
ATTEMPTS = 20
INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)  # each fits into those behind it
PAUSE = 0.5  # seconds until a table that another writer is making should be there


@dataclass(frozen=True)
class ApplyReport:
    """What became of a batch of changes.

    `changes` were read; `inserted`, `updated` and `deleted` are rows of the table; `counts` are changes that could not be applied, by
    reason: `null_key`, `null_sequence`. `repeated`: this batch was applied before, and nothing was written.
    """

    changes: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    repeated: bool = False


def apply_changes(
    spark: SparkSession,
    target: str,
    changes: DataFrame | str,
    *,
    keys: str | Sequence[str],
    sequence_by: str | Sequence[str],
    deleted: str | None = None,
    scd: int = 1,
    batch_id: str | int | None = None,
    app_id: str = "streamtime",
) -> ApplyReport:
    """Merge a changelog into a Delta table: the newest row of each key, or, with `scd=2`, all versions with `valid_from` and `valid_to`.

        streamtime.apply_changes(spark, "shop.customers", feed, keys="id", sequence_by="updated_at", deleted="op = 'D'", batch_id="file 17")

    Changes may come in any order and more than once: whatever the order, the table is the same in the end. A change is newer if its
    `sequence_by` is larger; of equal ones a deletion wins, then the largest values of the other columns. The table is made by the first
    call. Beside it stands `<target>__deleted`, which remembers deleted keys, so that an older change that comes late brings none back.

    Args:
        spark: a session with Delta Lake, of this process.
        target: the name of a table.
        changes: a DataFrame, or a query (also with calls of this pack): a row for each insert, update or deletion. Delta's own change feed
            and what JOIN_CHANGES, AGGREGATE_CHANGES and FILTER_CHANGES give are changes.
        keys: columns that tell rows of the table apart. A change with a null there is counted as `null_key`, and not applied.
        sequence_by: columns that order the changes of a key, such as a time or an offset; one only with `scd=2`. A null: `null_sequence`.
        deleted: a condition that marks deletions, as SQL; by default `change_type`, or Delta's `_change_type`, is 'delete'.
        scd: 1 keeps one row for each key; 2 keeps history: rows valid from `valid_from` on, until before `valid_to` (null: still valid).
        batch_id: a name for this batch. A batch that comes again, of the same `app_id`, is not applied again. It must have the same
            changes: what is deleted in it is remembered each time.

    Columns that only the changes have are added to the table; those that only the table has keep their values, so what a table has in
    columns that some batches lack may depend on the order in which they came. What only tells of a change is no column of the table: the
    `change_type` that marks deletions, with `change_time` and `change_seq` where all three are there, and Delta's own. In a change feed of
    Delta, a deletion of a row that the same commit writes anew is none, and a row that an update gave another key is deleted by its old
    one.

    Raises:
        CallError: a column that is not there, a condition that Spark does not understand, a table that does not fit, a column
            of another type than it has there. Numbers take the table's type; one that does not fit is an error when the batch is applied.
    """
    refuse_remote(NAME, spark)
    applier = _Applier(spark, target, changes, _listed(keys), _listed(sequence_by), deleted, scd)
    return applier.applied(None if batch_id is None else (batch_name(app_id, batch_id), 0))


def changes_writer(
    target: str,
    *,
    keys: str | Sequence[str],
    sequence_by: str | Sequence[str],
    deleted: str | None = None,
    scd: int = 1,
    app_id: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """What a stream of changes needs: `changes.writeStream.foreachBatch(streamtime.changes_writer("shop.customers", keys="id", ..))`.

    The options are those of `apply_changes`. Each micro-batch is applied once, known by the query's id, which its checkpoint keeps.
    """

    def write(df: DataFrame, number: int) -> None:
        spark = df.sparkSession
        app = query_id(spark, app_id, NAME, "Add app_id='my query'.")
        applier = _Applier(spark, target, df, _listed(keys), _listed(sequence_by), deleted, scd)
        applier.applied((f"stream:{app}", number))

    return write


class _Applier:
    """One batch on its way into a table, in a session of its own: Delta takes the name of a batch from the session's settings."""

    def __init__(
        self,
        spark: SparkSession,
        target: str,
        changes: DataFrame | str,
        keys: list[str],
        sequence: list[str],
        deleted: str | None,
        scd: int,
    ) -> None:
        if scd not in (1, 2):
            raise CallError(NAME, "`scd`", f"expected 1 or 2, got {scd!r}", "1 keeps the newest row of a key, 2 all of its versions.")
        for option, names in (("`keys`", keys), ("`sequence_by`", sequence)):
            if not names:
                raise CallError(
                    NAME, option, "expected a column at least, got none", "Name the columns that tell rows apart, and order changes."
                )
        if scd == 2 and len(sequence) != 1:
            raise CallError(NAME, "`sequence_by`", f"expected one column with scd=2, got {listed(sequence)}", "It gives `valid_from`.")
        self.spark, self.scd = spark, scd
        self.target = qualified(spark, target)
        self.deletions = f"{self.target[:-1]}__deleted`"
        if isinstance(changes, str) and not is_query(changes):
            raise CallError(NAME, "`changes`", "expected a DataFrame or one query, got another text", "Give the SELECT alone.")
        self.df = query(spark, changes) if isinstance(changes, str) else changes
        if self.df.isStreaming:
            fix = "Use stream.writeStream.foreachBatch(streamtime.changes_writer(..))."
            raise CallError(NAME, "`changes`", "is a stream", fix)
        self.keys = [self._column("`keys`", k) for k in keys]
        self.sequence = [self._column("`sequence_by`", c) for c in sequence]
        if deleted is None and {"_change_type", "_commit_version"} <= {c.lower() for c in self.df.columns}:
            self.df = self._rewritten()
        if both := [c for c in self.sequence if c in self.keys]:
            raise CallError(NAME, "`sequence_by`", f"{listed(both)} is a key", "Changes of a key are ordered by another column.")
        marks = self._mark(deleted)
        data = [f for f in self.df.schema.fields if f.name.lower() not in (GONE, *marks) or f.name in (*self.keys, *self.sequence)]
        self.schema = T.StructType(data)
        for name in (*self.keys, *self.sequence):
            if not orderable(self.schema[name].dataType):
                raise CallError(NAME, "`keys`" if name in self.keys else "`sequence_by`", f"values of `{name}` cannot be compared")
        if scd == 2 and (taken := [f.name for f in data if f.name.lower() in BOUNDS]):
            raise CallError(NAME, "`changes`", f"has a column {listed(taken)}, which scd=2 adds", "Leave it out, or rename it.")

    def applied(self, batch: tuple[str, int] | None) -> ApplyReport:
        """Merge it."""
        self._make()
        df = self.df.persist()
        view = f"streamtime_{uuid4().hex}"
        session = self.spark.newSession()
        try:
            for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone"):
                session.conf.set(name, self.spark.conf.get(name) or "")
            df.createGlobalTempView(view)
            changes, dropped = self._counted(df)
            work = Applied(
                self.target, self.deletions, f"global_temp.{view}", self.schema.names, self.keys, self.sequence, self._ties(),
                quoted(GONE), f"{quoted('_change_type')} = 'update_preimage'" if "_change_type" in df.columns else "false", self.scd,
            )  # fmt: skip
            self._retried(session, lambda: session.sql(work.remember))
            before = self._commits(session)
            with _named(session, batch):
                rows = self._retried(session, lambda: session.sql(work.merge).collect())
            if batch is not None and not rows:
                again = self._deleted_meanwhile(work)
                self._retried(session, lambda: session.sql(again.merge))
                return ApplyReport(changes, counts=dropped, repeated=True)
            while (after := self._commits(session)) != before:  # another writer deleted keys meanwhile, which this one may not have seen
                before = after
                self._retried(session, lambda: session.sql(work.merge))
            (counts,) = rows
            inserted, updated, removed = (int(counts[f"num_{name}_rows"]) for name in ("inserted", "updated", "deleted"))
            return ApplyReport(changes, inserted, updated, removed, dropped)
        finally:
            self.spark.catalog.dropGlobalTempView(view)
            df.unpersist()

    def _deleted_meanwhile(self, work: Applied) -> Applied:
        """What a batch that was applied and then broke off may have missed: other writers deleted its keys. Its rows as they are now."""
        names, same = ", ".join(f"h.{quoted(c)}" for c in work.columns), " AND ".join(f"h.{quoted(k)} = c.{quoted(k)}" for k in self.keys)
        rows = f"(SELECT {names} FROM {self.target} AS h LEFT SEMI JOIN {work.source} AS c ON {same})"
        return replace(work, source=rows, deleted="false", skipped="false")

    def _counted(self, df: DataFrame) -> tuple[int, dict[str, int]]:
        null = [F.lit(False) for _ in range(2)]
        for place, names in enumerate((self.keys, self.sequence)):
            for name in names:
                null[place] = null[place] | F.col(quoted(name)).isNull()
        key, order = F.count_if(null[0]), F.count_if(null[1] & ~null[0])
        (row,) = df.agg(F.count("*").alias("n"), key.alias("null_key"), order.alias("null_sequence")).collect()
        return row["n"], {name: row[name] for name in ("null_key", "null_sequence") if row[name]}

    def _commits(self, session: SparkSession) -> int:
        """How often deletions were remembered."""
        newest: int = session.sql(f"DESCRIBE HISTORY {self.deletions} LIMIT 1").collect()[0]["version"]
        return newest

    def _retried(self, session: SparkSession, work: Callable[[], Any]) -> Any:
        """Until it is not in conflict with another writer."""
        for _ in range(ATTEMPTS - 1):
            try:
                return work()
            except CONFLICTS:
                continue
        return work()

    def _rewritten(self) -> DataFrame:
        """A change feed without the deletions of rows that their commit writes anew, as INSERT OVERWRITE and some MERGE do; and with those
        of rows that an update gave another key, of which it only says what they were."""
        kind, of_commit = F.col("_change_type"), Window.partitionBy(*map(quoted, self.keys), "_commit_version")
        written = F.max(kind.isin("insert", "update_postimage")).over(of_commit)
        fed = self.df.withColumn(ANEW, written).where(~F.col(ANEW) | (kind != "delete"))
        moved = ~F.col(ANEW) & (kind == "update_preimage")
        return fed.withColumn("_change_type", F.when(moved, "delete").otherwise(kind)).drop(ANEW)

    # -- columns and tables

    def _column(self, option: str, name: str) -> str:
        known = {c.lower(): c for c in self.df.columns}
        if name.lower() not in known:
            fix = did_you_mean(name, self.df.columns) or f"The changes have {listed(self.df.columns)}."
            raise CallError(NAME, option, f"no column `{name}` in the changes", fix)
        return known[name.lower()]

    def _mark(self, condition: str | None) -> set[str]:
        """Mark deletions, in this session, which knows all that the condition names; and say which columns only tell what a change is."""
        kinds = {f.name.lower(): f.dataType for f in self.df.schema.fields}
        marks = {c for c in MADE_ANEW if c in kinds and (c not in CHANGE or set(CHANGE) <= kinds.keys())}  # one alone is a column of theirs
        if condition is None:
            kind = next((c for c in ("change_type", "_change_type") if isinstance(kinds.get(c), T.StringType)), None)
            self.df = self.df.withColumn(GONE, F.col(quoted(kind)) == "delete" if kind else F.lit(False))
            return marks | ({kind} if kind else set())
        try:
            with unlogged():
                self.df = self.df.withColumn(GONE, F.expr(condition))
        except AnalysisException as error:
            raise CallError(NAME, "`deleted`", f"Spark cannot resolve it: {gist(error)}", "Write a condition over the columns.") from None
        marked = self.df.schema[GONE].dataType
        if not isinstance(marked, T.BooleanType):
            fix = "Write it as op = 'D'."
            raise CallError(NAME, "`deleted`", of_other_type("a condition", marked.simpleString(), condition), fix)
        return marks

    def _ties(self) -> list[str]:
        rest = [f for f in self.schema.fields if f.name not in (*self.keys, *self.sequence)]
        return sorted((f.name for f in rest if orderable(f.dataType)), key=str.lower)  # whatever the order of a batch's columns

    def _make(self) -> None:
        """The tables, where they are not there; columns that the table does not have yet."""
        bounds = [T.StructField(b, self.schema[self.sequence[0]].dataType) for b in BOUNDS] if self.scd == 2 else []
        self._there(self.target, [*self.schema.fields, *bounds])
        there = self.spark.table(self.target).schema.fields
        has = {f.name.lower() for f in there}
        if missing := [b for b in BOUNDS if self.scd == 2 and b not in has]:
            problem = f"the table {self.target} has no column {listed(missing)}, so it keeps no history"
            raise CallError(NAME, "`scd`", problem, "Use scd=1, or another table.")
        if self.scd == 1 and all(b in has for b in BOUNDS) and not all(b in self.schema.names for b in BOUNDS):
            raise CallError(NAME, "`scd`", f"the table {self.target} keeps history, and 1 has one row for a key", "Use scd=2.")
        if missing := [k for k in (*self.keys, *self.sequence) if k.lower() not in has]:
            raise CallError(NAME, "`target`", f"the table {self.target} has no column {listed(missing)}", "It must have keys and sequence.")
        self._fit(there)
        kinds = {f.name.lower(): f.dataType for f in there}
        remembered = [T.StructField(c, kinds[c.lower()]) for c in (*self.keys, *self.sequence)]
        self._there(self.deletions, remembered)
        self._widened(self.deletions, remembered)
        if self.scd == 2:
            self._widened(self.target, [T.StructField(b, remembered[-1].dataType) for b in BOUNDS])
        if added := [f for f in self.schema.fields if f.name.lower() not in has]:
            columns = T.StructType([T.StructField(f.name, f.dataType) for f in added])
            if needs_mapping(columns):
                self._map_names()
            self.spark.sql(f"ALTER TABLE {self.target} ADD COLUMNS ({ddl(columns)})")

    def _there(self, name: str, fields: Sequence[T.StructField]) -> None:
        """Make a table, where it is not there."""
        if not self.spark.catalog.tableExists(name):
            columns = T.StructType([T.StructField(f.name, f.dataType) for f in fields])
            mapped = " TBLPROPERTIES (delta.columnMapping.mode = 'name')" if needs_mapping(columns) else ""
            self._created(name, f"CREATE TABLE IF NOT EXISTS {name} ({ddl(columns)}) USING delta{mapped}")

    def _widened(self, name: str, wanted: Sequence[T.StructField]) -> None:
        """Give columns of numbers that follow others the types of those, where they became wider."""
        there = {f.name.lower(): f.dataType for f in self.spark.table(name).schema.fields}
        for of in wanted:
            if _narrower(there[of.name.lower()], of.dataType):
                self.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (delta.enableTypeWidening = true)")
                self.spark.sql(f"ALTER TABLE {name} ALTER COLUMN {quoted(of.name)} TYPE {of.dataType.simpleString()}")

    def _fit(self, there: Sequence[T.StructField]) -> None:
        """Give numbers the types that they have in the table; one that does not fit is an error. Raises CallError for other types."""
        given = {f.name.lower(): f for f in self.schema.fields}
        cast: dict[str, Column] = {}
        for stored in there:
            of = given.get(stored.name.lower())
            if of is None:
                continue
            if (column := as_stored(of, stored, self.target, NAME, "`changes`")) is not None:
                cast[of.name] = column
        if cast:
            self.df = self.df.withColumns(cast)
            self.schema = T.StructType([self.df.schema[name] for name in self.schema.names])

    def _map_names(self) -> None:
        """Let the table have columns whose names no file can have; one that is mapped already stays as it is."""
        properties = self.spark.sql(f"DESCRIBE DETAIL {self.target}").select("properties").collect()[0][0]
        if properties.get("delta.columnMapping.mode", "none") == "none":
            self.spark.sql(f"ALTER TABLE {self.target} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")

    def _created(self, name: str, statement: str) -> None:
        """Made by this writer, or meanwhile by another: Delta finds its folder before the catalog has its name, and refuses."""
        for attempt in range(ATTEMPTS):
            try:
                self.spark.sql(statement)
                return
            except PySparkException as error:
                meanwhile = isinstance(error, CONFLICTS) or error.getCondition() == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
                if not meanwhile or attempt == ATTEMPTS - 1:
                    raise
            time.sleep(PAUSE)


def _narrower(stored: T.DataType, wanted: T.DataType) -> bool:
    """Whether some numbers of the other type do not fit into this one, and Delta knows how to make it wider."""
    if isinstance(stored, T.IntegralType) and isinstance(wanted, T.IntegralType):
        return INTEGERS.index(type(stored)) < INTEGERS.index(type(wanted))
    if isinstance(stored, T.DecimalType) and isinstance(wanted, T.DecimalType):
        more = wanted.precision - stored.precision, wanted.scale - stored.scale
        return more != (0, 0) and more[0] >= more[1] >= 0
    if isinstance(stored, T.IntegralType) and isinstance(wanted, T.DecimalType):
        return wanted.precision - wanted.scale >= (20 if isinstance(stored, T.LongType) else 10)
    return isinstance(wanted, T.DoubleType) and isinstance(stored, T.FloatType | T.ByteType | T.ShortType | T.IntegerType)


@contextmanager
def _named(session: SparkSession, batch: tuple[str, int] | None) -> Iterator[None]:
    """What is written is this batch."""
    if batch is not None:
        session.conf.set(APP, batch[0])
        session.conf.set(VERSION, str(batch[1]))
    try:
        yield
    finally:
        session.conf.unset(APP)
        session.conf.unset(VERSION)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
