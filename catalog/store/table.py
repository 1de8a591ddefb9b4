"""VersionedTable: a Delta table with every version of its rows by event time, written exactly once, by many writers (rules V1 to V4, V7).

The Delta table has one row for each accepted put, tombstones included, so any Spark SQL reads it; `versions()`, or `VERSIONS` in SQL,
gives each row its end. A put is one transaction, a MERGE on key and time (`streamtime.store.puts`).
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.api import versions
from streamtime.session import DELTA
from streamtime.sparks import spark_version
from streamtime.sql.call.errors import CallError, did_you_mean, gist, listed, unlogged
from streamtime.sql.call.kinds import MICROSECOND
from streamtime.sql.call.remote import refuse_remote
from streamtime.sql.call.values import Sort
from streamtime.sql.rows.columns import direct, less, named, orderable
from streamtime.sql.rows.typed import char_type, ddl, microseconds, needs_mapping
from streamtime.sql.syntax.text import duration_in_words, literal, quoted
from streamtime.sql.syntax.tokens import Source
from streamtime.sql.tables.declaration import PREFIX, as_name, asked, declared, name_parts, read
from streamtime.store.fitting import as_stored, fitting
from streamtime.store.fitting import literal as literal_of
from streamtime.store.puts import Layout, Report, Values, batch_name, writer
from streamtime.udfs.versions import expired, gone, moved, refused

NAME = "VersionedTable"
DELETED = "_deleted"
QUERY = "sql.streaming.queryId"
NO_DELTA = (
    "In a new process (in a notebook: restart the kernel), use streamtime.session() before there is another session, or start your own "
    "session with spark.jars.packages = io.delta:delta-spark_{}_2.13:{}, "
    "spark.sql.extensions = io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog = org.apache.spark.sql.delta.catalog.DeltaCatalog."
)
Length = str | datetime.timedelta | None


class VersionedTable:
    """A Delta table that its properties declare as versioned: `VersionedTable(spark, 'db.prices')`.

    Raises CallError where the table is not there, is no Delta table, or declares no versions; the message says what to do.
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        refuse_remote(NAME, spark)
        self.spark = spark
        self.table = qualified(spark, table)
        with delta(spark):
            declaration = declared(spark, self.table, NAME)
        if declaration is None or not declaration.versioned:
            fix = f"Use ALTER TABLE {self.table} SET TBLPROPERTIES ('{PREFIX}key' = 'id', '{PREFIX}time' = 'ts'), or {NAME}.create."
            raise CallError(NAME, None, f"the table {self.table} does not declare that it is versioned", fix)
        with delta(spark):
            asked(self.table, NAME, lambda: DeltaTable.forName(spark, self.table))
        self._layout = Layout(declaration, spark.table(self.table).schema, declaration.mark)
        for name in self._layout.declaration.key:
            if kind := char_type(self._layout.schema[name]):
                problem = f"`{name}` is {kind.upper()}, whose values are stored with blanks, so no put would find them"
                raise CallError(NAME, "`key`", problem, "Make it STRING, or VARCHAR.")
        self._writer = writer(spark, self.table)
        counted = (*self._layout.declaration.key, self._layout.time.name)  # a null there is no error
        columns = [T.StructField(f.name, f.dataType, f.nullable or f.name in counted) for f in self._layout.schema]
        self._fitting = [fitting(column, NAME) for column in columns]

    @classmethod
    def create(
        cls, spark: SparkSession, table: str, schema: str | T.StructType, *, key: str | Sequence[str], time: str, retention: Length = None,
        grace: Length = None,
    ) -> VersionedTable:  # fmt: skip
        """Make a versioned table of these columns, and of `_deleted`, which marks tombstones.

        `schema` is DDL, such as `'product STRING, ts TIMESTAMP, price DOUBLE'`; `key` names one column or several, `time` the event time;
        `retention` and `grace` are lengths such as `'7 days'` or a `datetime.timedelta`, or None, which is unlimited.
        """
        given = cast(T.StructType, T.StructType.fromDDL(schema)) if isinstance(schema, str) else schema
        if any(name.lower() == DELETED for name in given.names):
            raise CallError(NAME, "`schema`", f"has a column `{DELETED}`, which is added to it", "Leave it out.")
        columns = T.StructType([*given.fields, T.StructField(DELETED, T.BooleanType())])
        keys = [key] if isinstance(key, str) else key
        properties = {"key": ", ".join(map(as_name, keys)), "time": as_name(time), "deleted": DELETED}
        for name, length in (("retention", retention), ("grace", grace)):
            if length is not None:
                properties[name] = length if isinstance(length, str) else duration_in_words(length // MICROSECOND)
        name, properties = qualified(spark, table), {PREFIX + p: value for p, value in properties.items()}
        read(name, properties, columns, NAME)
        if needs_mapping(columns):
            properties["delta.columnMapping.mode"] = "name"  # files cannot have such names
        settings = ", ".join(f"{literal(p)} = {literal(value)}" for p, value in properties.items())
        with delta(spark):
            spark.sql(f"CREATE TABLE {name} ({ddl(columns)}) USING delta TBLPROPERTIES ({settings})")
        try:
            return cls(spark, table)
        except BaseException:
            spark.sql(f"DROP TABLE IF EXISTS {name}")
            raise

    # -- writing

    def put(
        self,
        rows: DataFrame | Iterable[Mapping[str, Any] | Sequence[Any]],
        batch_id: str | int | None = None,
        *,
        app_id: str = "streamtime",
        order_by: Sequence[str] | None = None,
    ) -> Report:
        """Put versions, in one transaction (V2). With a `batch_id`, at most once: one that is there, of this `app_id`, is not repeated.

        `rows` are mappings from column to value, sequences in the order of the columns, or a DataFrame. They are put in their order, those
        of a DataFrame in that of `order_by`, such as `'off DESC'`, by default of the event time; a column of it may be there for the order
        alone. `'_deleted': True` in a row makes it a tombstone. A column that is not given is null. The report says what was accepted, and
        has each row that was not, with the reason.

        Raises CallError for rows that do not fit the table (numbers take its types, and nothing else is cast), TimeoutError if other
        writers do not let this one through.
        """
        batch = None if batch_id is None else (batch_name(app_id, batch_id), 0)
        return self._put(rows, batch, order_by)

    def writer(self, *, app_id: str | None = None, order_by: Sequence[str] | None = None) -> Callable[[DataFrame, int], None]:
        """What a stream needs to write here, exactly once: `stream.writeStream.foreachBatch(table.writer())`.

        A micro-batch is known by `app_id`, by default the id of the query, which its checkpoint keeps, and by its number.
        """

        def write(df: DataFrame, number: int) -> None:
            app = query_id(df.sparkSession, app_id, NAME, "Use writer(app_id='my query').")
            self._put(df, (f"stream:{app}", number), order_by)

        return write

    def delete(self, key: Any, at: Any, batch_id: str | int | None = None) -> Row | None:
        """Put a tombstone: from `at` until its next version, the key has none. What was valid then; None where it is too old (V4).

        `key` is the value of the key column, or a tuple of those of several. With a `batch_id`, at most once: a batch of that name may have
        many deletions, each known by its key and its time.
        """
        if self._layout.mark is None:
            fix = f"Add a BOOLEAN column and name it in the property `{PREFIX}deleted`."
            raise CallError(NAME, "delete", f"the table {self.table} has no column that marks tombstones", fix)
        row = dict(zip(self._layout.declaration.key, self._key(key), strict=True)) | {self._layout.time.name: at}
        if missing := [name for name, value in row.items() if value is None]:
            raise CallError(NAME, "delete", f"{listed(missing)} is null", "Give the key, and the time from which on there is none.")
        values = self._values(row | {self._layout.mark: True}, "delete")
        # of its own: many deletions may share a `batch_id`, with each other and with a put
        name = None if batch_id is None else json.dumps(["delete", str(batch_id), *row.values()], default=str)
        label = name or uuid.uuid4().hex
        report = self._writer.put_rows(self._layout, [values], None if name is None else (name, 0), label)
        if not report.accepted and not report.repeated:
            return None
        commits = DeltaTable.forName(self.spark, self.table).history().where(F.col("userMetadata") == label)
        commit = commits.select("version").first()  # of a batch that comes again, the log may have lost it
        return None if commit is None else self.get(key, at, version=commit.version - 1)

    def maintain(self, *, compact: bool = True) -> int:
        """Remove the versions that the retention ended (V3), in one transaction, and, with `compact`, merge small files. How many.

        Nothing else ever removes a row. Without a retention, none is removed.
        """
        removed = 0
        if self._layout.declaration.retention is not None:
            removed = self._remove_expired()
        if compact:
            DeltaTable.forName(self.spark, self.table).optimize().executeCompaction()
        return removed

    def _remove_expired(self) -> int:
        names = (*self._layout.declaration.key, self._layout.time.name)
        ended = self._ended(self._writer.session.table(self.table))
        with self._writer.turn():
            return self._writer.remove(self._layout, ended.where(self._gone).select(*map(quoted, names)))

    def _put(self, rows: Any, batch: tuple[str, int] | None, order_by: Sequence[str] | None) -> Report:
        if hasattr(rows, "sparkSession"):
            return self._put_frame(rows, batch, order_by)
        if order_by is not None:
            raise CallError(NAME, "`order_by`", "is for a DataFrame: rows are put in the order in which they are given", "Leave it out.")
        values = [self._values(row) for row in rows]
        if all(direct(self._layout.schema[k].dataType) for k in self._layout.declaration.key):
            return self._writer.put_rows(self._layout, values, batch)
        numbered = T.StructType([*self._layout.schema.fields, T.StructField("__order", T.LongType())])
        df = self.spark.createDataFrame([(*row, number) for number, row in enumerate(values)], numbered)
        return self._put_frame(df, batch, ["__order"])

    def _put_frame(self, df: DataFrame, batch: tuple[str, int] | None, order_by: Sequence[str] | None) -> Report:
        """As `VERSIONS` judges, and by the stream time of the table."""
        layout, grace = self._layout, self._layout.declaration.grace
        judged = self._judged(df, order_by or ()).persist()
        try:
            micros = F.expr(microseconds(quoted(layout.time.name), layout.time.dataType))
            reached = judged.where("reason IS NULL OR reason = 'overwritten'").agg(F.max(micros)).first()[0]  # type: ignore[index]
            judgements: list[DataFrame] = []

            def judge(clock: int | None) -> tuple[DataFrame | None, int | None]:
                past = F.coalesce(F.lit(refused(micros, clock, grace)), F.lit(False))
                final = F.when(past & F.coalesce(F.col("reason") == "overwritten", F.lit(True)), "too_old").otherwise(F.col("reason"))
                judgements[:] = [judged.withColumn("reason", final)]
                stored = judgements[0].where("reason IS NULL").select(*map(quoted, layout.schema.names))
                none = reached is None or refused(reached, clock, grace)  # the largest, and so all
                return (None if none else stored), (moved(clock, reached) if grace is not None else None)

            with self._writer.turn():
                repeated = self._writer.transact(layout, judge, batch)
            if repeated:
                return Report(0, repeated=True)
            counts = {r["reason"]: r["count"] for r in judgements[0].groupBy("reason").count().collect()}
            accepted = counts.pop(None, 0) + counts.pop("overwritten", 0)
            shown = [*(n for n in layout.schema.names if n != layout.mark), "reason"]
            dropped = judgements[0].where("reason <> 'overwritten'").select(*map(quoted, shown)).localCheckpoint() if counts else ()
            return Report(accepted, counts, rows=dropped)
        finally:
            judged.unpersist()

    def _judged(self, df: DataFrame, order_by: Sequence[str]) -> DataFrame:
        """The rows with the columns of the table, and `reason`, by the rows alone."""
        layout = self._layout
        given = {f.name.lower(): f for f in df.schema}
        order_by = [order_by] if isinstance(order_by, str) else order_by
        ordering = {token.name for text in order_by for token in Source(text).tokens}
        self._known(n for n in df.columns if n.lower() not in ordering)
        sorts = [Sort.parse(text) for text in order_by]
        columns = [self._column(given.get(f.name.lower()), f).alias(f"c{i}") for i, f in enumerate(layout.schema)]
        try:
            with unlogged():
                renamed = df.select(*columns, *[sort.expression.column().alias(f"o{i}") for i, sort in enumerate(sorts)])
        except AnalysisException as error:
            raise CallError(
                NAME, "`order_by`", f"Spark cannot resolve it: {gist(error)}", "Write it over the DataFrame's columns."
            ) from None
        directions = [("ASC" if s.ascending else "DESC") + (" NULLS FIRST" if s.nulls_first else " NULLS LAST") for s in sorts]
        place = {f.name: f"c{i}" for i, f in enumerate(layout.schema)}
        options = {
            "keys": [place[k] for k in layout.declaration.key],
            "order_by": [f"o{i} {way}" for i, way in enumerate(directions)] or [place[layout.time.name]],
            "time": place[layout.time.name],
            "output": "all",
        }
        versions = _versions(renamed, options, layout.declaration.grace)
        return versions.select(*[named(p).alias(n) for n, p in place.items()], "reason")

    def _column(self, given: T.StructField | None, stored: T.StructField) -> Column:
        if given is None:
            return F.lit(None).cast(stored.dataType)
        cast = as_stored(given, stored, self.table, NAME, "the DataFrame")
        return F.col(quoted(given.name)) if cast is None else cast

    # -- reading

    def get(self, key: Any, at: Any = None, *, version: int | None = None) -> Row | None:
        """What was valid at a time, or, without one, is valid now: the row with `valid_from` and `valid_to`, or None (V1, V3).

        `version` asks the table as it was after that commit.
        """
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        rows = self._of(key, reader.table(self.table), at)
        valid = F.col("__ends").isNull()
        if at is not None:
            valid = self._begun & (valid | ((F.col("__at") < F.col("__ends")) & ~self._expired))
        return next(iter(self._rows(rows.where(valid))), None)

    def history(self, key: Any, start: Any = None, end: Any = None) -> list[Row]:
        """The versions that were valid at some time from `start` to `end`, both included, newest first, without tombstones (V4)."""
        rows = self._of(key, self.spark.table(self.table), end)
        valid = ~self._gone
        if start is not None:
            valid &= F.col("valid_to") > literal_of(start, self._layout.time.dataType)
        if end is not None:
            valid &= ~self._expired
        return self._rows(rows.where((F.lit(True) if end is None else self._begun) & (F.col("__ends").isNull() | valid)))

    def versions(self) -> DataFrame:
        """Every version that the retention keeps, with `valid_from` and `valid_to`."""
        declaration = self._layout.declaration
        options: dict[str, Any] = {"keys": [quoted(k) for k in declaration.key], "order_by": [quoted(self._layout.time.name)]}
        options |= {"deleted": declaration.deleted} if declaration.deleted else {}
        answer = _versions(self.spark.table(self.table), options, retention=declaration.retention)
        return answer.drop(self._layout.mark) if self._layout.mark else answer

    @property
    def _begun(self) -> Column:
        """Whether a version had begun at `__at`."""
        return F.expr(f"{microseconds(quoted(self._layout.time.name), self._layout.time.dataType)} <= `__at`")

    @property
    def _expired(self) -> Column:
        """Whether a lookup at `__at` finds a current version only (V3)."""
        return F.lit(expired(F.col("__at"), "__clock", self._layout.declaration.retention, less))

    @property
    def _gone(self) -> Column:
        """Whether no lookup finds a version that ended at `__ends` (V3)."""
        return F.lit(gone(F.col("__ends"), "__clock", self._layout.declaration.retention, less))

    def _of(self, key: Any, df: DataFrame, at: Any) -> DataFrame:
        """The versions of a key, and in `__at` this time in microseconds."""
        kind = self._layout.time.dataType
        equal = F.lit(True)
        for name, value in zip(self._layout.declaration.key, self._key(key), strict=True):
            equal &= F.col(quoted(name)) == literal_of(value, self._layout.schema[name].dataType)
        rows = self._ended(df.where(equal), df).withColumn("__at", literal_of(at, kind))
        return rows.withColumn("__at", F.expr(microseconds("`__at`", kind)))

    def _ended(self, rows: DataFrame, whole: DataFrame | None = None) -> DataFrame:
        """With `valid_to`, the same as `__ends` in microseconds, and stream time as `__clock`."""
        layout = self._layout
        others = [quoted(f.name) for f in layout.schema if orderable(f.dataType)]
        in_time = Window.partitionBy(*map(quoted, layout.declaration.key)).orderBy(quoted(layout.time.name), *others)
        clock = (whole if whole is not None else rows).agg(layout.stream_time).scalar()
        ends = F.lead(F.col(quoted(layout.time.name))).over(in_time)
        ended = rows.withColumns({"valid_to": ends, "__clock": clock})
        return ended.withColumn("__ends", F.expr(microseconds("valid_to", layout.time.dataType)))

    def _rows(self, rows: DataFrame) -> list[Row]:
        """As they are shown, newest first."""
        layout, time = self._layout, F.col(quoted(self._layout.time.name))
        if layout.declaration.deleted:
            rows = rows.where(~F.coalesce(F.expr(layout.declaration.deleted), F.lit(False)))
        shown = [F.col(quoted(n)) for n in layout.schema.names if n != layout.mark]
        return rows.orderBy(time.desc()).select(*shown, time.alias("valid_from"), "valid_to").collect()

    # -- rows as they are given

    def _key(self, key: Any) -> tuple[Any, ...]:
        names = self._layout.declaration.key
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise CallError(NAME, "key", f"expected values of {listed(names)}, got {key!r}", "Give those of several columns as a tuple.")
        return values

    def _values(self, row: Mapping[str, Any] | Sequence[Any], argument: str = "put") -> Values:
        schema, mark = self._layout.schema, self._layout.mark
        names = [n for n in schema.names if n != mark]
        if isinstance(row, Row):
            row = row.asDict(recursive=False)
        if not isinstance(row, Mapping):
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(names):
                raise CallError(NAME, "put", f"expected rows of {listed(names)}, got {row!r}", "Give mappings, or sequences in that order.")
            row = dict(zip(names, row, strict=True))
        self._known(row)
        lower = {n.lower(): value for n, value in row.items()}
        return tuple(fitted(lower.get(n.lower()), argument) for n, fitted in zip(schema.names, self._fitting, strict=True))

    def _known(self, names: Iterable[str]) -> None:
        known = {n.lower() for n in self._layout.schema.names}
        for name in names:
            if name.lower() not in known:
                fix = did_you_mean(name, self._layout.schema.names) or f"The table has {listed(self._layout.schema.names)}."
                raise CallError(NAME, "put", f"no column `{name}` in the table {self.table}", fix)


def _versions(df: DataFrame, options: dict[str, Any], grace: int | None = None, retention: int | None = None) -> DataFrame:
    grace_, retention_ = (None if micros is None else micros * MICROSECOND for micros in (grace, retention))
    return versions(df, grace=grace_, retention=retention_, **options)


@contextmanager
def delta(spark: SparkSession, who: str = NAME) -> Iterator[None]:
    """Errors of a session without Delta Lake, or half set up for it, say what to do."""
    try:
        yield
    except Exception as error:
        if "DELTA_CONFIGURE_SPARK" not in str(error) and "data source: delta" not in str(error) and "JavaPackage" not in str(error):
            raise
        raise CallError(who, None, "this session has no Delta Lake", NO_DELTA.format(spark_version(spark.version).minor, DELTA)) from None


def query_id(spark: SparkSession, app_id: str | None, who: str, fix: str) -> str:
    """What a streaming query is known by, whose micro-batches count once."""
    identifier = app_id or spark.sparkContext.getLocalProperty(QUERY)
    if identifier is None:
        raise CallError(who, "`app_id`", "is missing: Spark does not say which query this is", fix)
    return identifier


def qualified(spark: SparkSession, table: str, who: str = NAME) -> str:
    """The table's full name: writers have sessions of their own, with other current schemas."""
    parts = name_parts(table, who)
    current = [spark.catalog.currentCatalog(), spark.catalog.currentDatabase()]
    return ".".join(map(quoted, [*current[: 3 - len(parts)], *parts]))
