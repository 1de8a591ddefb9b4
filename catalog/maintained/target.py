"""The table that is maintained: what its log says of the runs that made it, and how a run writes to it, each in one commit."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.maintained.receipt import MARK, Last, Receipt, said
from streamtime.maintained.snapshots import NAME
from streamtime.sql.call.errors import CallError
from streamtime.sql.rows.columns import has_collation, has_floating, orderable
from streamtime.sql.rows.typed import needs_mapping
from streamtime.sql.syntax.text import literal, quoted
from streamtime.sql.tables.declaration import asked

LABEL = "spark.databricks.delta.commitInfo.userMetadata"
APP, NUMBER = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
WITHOUT_ROWS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "UPGRADE PROTOCOL", "ANALYZE",
                "COMPUTE STATS", "ADD CONSTRAINT", "DROP CONSTRAINT", "CLUSTER BY", "REORG")  # fmt: skip
PROPERTIES = {"delta.enableDeletionVectors": "true"}  # a row that goes marks its file, and does not write it anew
ASKED = ("version", "operation", "operationMetrics", "userMetadata", "unix_micros(timestamp) AS at")
OP = "streamtime_op"  # of a row that is written: whether it is 'inserted', 'updated' or 'removed'
BROADCAST = 200_000  # rows that are sent to each task
RECENT = 20  # commits that are read at first: those since the last run are nearly always among them
FEW = 2_000  # units that a condition can name: it stands in the commit, and of 20,000 it took longer than a MERGE
FLOATING = (T.FloatType, T.DoubleType)
REPLACES = "spark.databricks.delta.replaceOn.dataframe.writer.enabled"  # a setting of those versions of Delta that know replaceOn
SETTINGS = (  # under others a query has another result
    "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.timestampType", "spark.sql.legacy.timeParserPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss", "spark.sql.ansi.doubleQuotedIdentifiers",
)  # fmt: skip
MORE = "streamtime_more"
OLD, NEW = "streamtime_old", "streamtime_new"  # rows by the names of no column
REPEATED = "Another run of maintain did it at the same time."


class Target:
    """The maintained table, by its full name."""

    def __init__(self, session: SparkSession, name: str, asking: SparkSession | None = None) -> None:
        self.session, self.name = session, name
        self.asking = asking or session  # of `asking_session`
        self.made = uuid.uuid4().hex[:12]  # which table of this name it is, where this run makes it; else `last` says it
        self.there = self.asking.catalog.tableExists(name)
        self.log = self.commits(RECENT) if self.there else []  # as it was when the run began
        self.version = int(self.log[0]["version"]) if self.there else -1  # its newest commit; -1 where it is not there

    # -- what its log says

    def commits(self, most: int | None = None) -> list[Any]:
        """Its commits, the newest first."""
        limit = "" if most is None else f" LIMIT {most}"
        rows: list[Any] = asked(
            self.name, NAME, lambda: self.asking.sql(f"DESCRIBE HISTORY {self.name}{limit}").selectExpr(*ASKED).collect()
        )
        return rows

    def runs(self) -> list[Last]:
        """What commits say of the runs that made them, the newest first."""
        return [last for row in self.commits() if (last := _said(row)) is not None]

    def last(self) -> tuple[Last, str]:
        """The newest run, with what was known of costs when rows were last written; and why the table is no longer what it made of it."""
        runs = [(row["version"], last) for row in self.log if (last := _said(row)) is not None]
        if not runs or self.log[-1]["version"] > runs[0][1].onto + 1:
            self.log = self.commits()
            runs = [(row["version"], last) for row in self.log if (last := _said(row)) is not None]
        if not runs:
            fix = "Give the result a name of its own, or drop that table."
            raise CallError(NAME, "`target`", f"{self.name} is there, and no run of maintain made it, or its log has forgotten it", fix)
        version, last = runs[0]
        self.made = last.made
        known = {number for number, _ in runs}
        for row in self.log:  # behind the run, and while it ran
            others = row["version"] > last.onto and row["version"] not in known
            if others and not row["operation"].startswith(WITHOUT_ROWS) and not self._is_comment(row["operation"], version):
                return last, f"Somebody else wrote to the table: commit {row['version']}, {row['operation']}."
        return last, ""

    def _is_comment(self, operation: str, version: int) -> bool:
        """Whether columns were changed in what is said of them alone, as dbt does after each run; by what they were at a commit."""
        if operation != "CHANGE COLUMN":
            return False
        now = self.asking.table(self.name)
        try:
            before = self.asking.read.option("versionAsOf", version).table(self.name)
        except AnalysisException:  # nobody knows any more
            return False
        return bool(before.schema.simpleString() == now.schema.simpleString())

    def rows(self) -> DataFrame:
        """All of its rows, as they were when the run began: another run may write meanwhile."""
        as_they_were: DataFrame = self.session.read.option("versionAsOf", self.version).table(self.name)
        return as_they_were

    @property
    def _application(self) -> str:
        """In whose name runs are counted in the log. That of a table that was there before may know of more runs."""
        return f"{MARK} {self.made}".strip()

    def differs(self, fresh: DataFrame) -> int:
        """In how many rows it differs from these."""
        ours, theirs = all_comparable(self.session.table(self.name)), all_comparable(fresh)
        both = theirs.withColumn(MORE, F.lit(1)).unionAll(ours.withColumn(MORE, F.lit(-1)))
        more = both.groupBy(*map(quoted, theirs.columns)).agg(F.abs(F.sum(MORE)).alias(MORE))
        return int(more.agg(F.coalesce(F.sum(MORE), F.lit(0))).collect()[0][0])

    # -- writing

    def overwrite(self, rows: DataFrame, receipt: Receipt, label: str, properties: Mapping[str, str]) -> Receipt:
        """Put these rows in the place of all that are there."""
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if not self.there:
            mapped = {"delta.columnMapping.mode": "name"} if needs_mapping(rows.schema) else {}  # files cannot have such names
            said = {name: value for name, value in properties.items() if name.lower().startswith("delta.")}
            more = self._setting({name: value for name, value in properties.items() if name not in said})  # the writer leaves them out
            writer.options(**PROPERTIES | mapped | said, userMetadata=label).saveAsTable(self.name)
            done = receipt.wrote(_counts(self.commits(1)[0]))
            if more:
                self.session.sql(more)
            return done
        if needs_mapping(rows.schema) and not needs_mapping(self.session.table(self.name).schema):
            self.session.sql(self._setting({"delta.columnMapping.mode": "name"}))
        return self._written(writer, receipt, label)

    def _setting(self, properties: Mapping[str, str]) -> str:
        """The statement that sets table properties; '' without any. Raises what Spark says of names that are its own."""
        if not properties:
            return ""
        said = ", ".join(f"{literal(name)} = {literal(str(value))}" for name, value in properties.items())
        statement = f"ALTER TABLE {self.name} SET TBLPROPERTIES ({said})"
        self.session._jsparkSession.sessionState().sqlParser().parsePlan(statement)
        return statement

    def _written(self, writer: DataFrameWriter, receipt: Receipt, label: str) -> Receipt:
        """Write, unless another run did meanwhile."""
        try:
            writer.options(userMetadata=label, txnAppId=self._application, txnVersion=str(receipt.run)).saveAsTable(self.name)
        except PySparkException as error:
            if not _is_repeated(error):
                raise
        for row in self.commits(RECENT):
            if row["userMetadata"] == label:
                return receipt if receipt.has_counts else receipt.wrote(_counts(row))
        return replace(receipt, way="repeated", why=REPEATED)

    def replace_few(self, units: DataFrame, fresh: DataFrame, receipt: Receipt, label: str) -> Receipt:
        """Put fresh rows in the place of all rows of some units, which a condition can name."""
        writer = fresh.write.format("delta").mode("overwrite").option("replaceWhere", one_of(units.schema, values_of(units)))
        return self._written(writer, receipt, label)

    def put(self, differing: DataFrame, units: Sequence[str], few: bool, receipt: Receipt, label: Callable[[Receipt], str]) -> Receipt:
        """Put rows that differ, as `differing` has them, in the places of those of their units: one row each. `few`: a condition can name
        the units. They are looked at several times.
        """
        keys = differing.select(*map(quoted, units), OP)
        named = values_of(keys) if few else []
        counted = named if few else differing.groupBy(OP).count().collect()
        counts = Counter(row[OP] for row in named) if few else Counter({row[OP]: row["count"] for row in counted})
        receipt = receipt.wrote(counts)
        if not counts:
            return self.note(receipt, label(receipt))
        rows = differing.where(f"{OP} <> 'removed'").drop(OP).coalesce(1 + counts.total() // BROADCAST)  # few rows are one file
        if set(counts) == {"inserted"}:
            return self._written(rows.write.format("delta").mode("append"), receipt, label(receipt))
        if few:  # Delta refuses rows that the condition does not name
            condition = one_of(T.StructType(keys.schema.fields[:-1]), [tuple(row)[:-1] for row in named])
            return self._written(rows.write.format("delta").mode("overwrite").option("replaceWhere", condition), receipt, label(receipt))
        if "removed" not in counts and self._replaces:
            same = " AND ".join(f"{OLD}.{quoted(c)} <=> {NEW}.{quoted(c)}" for c in units)
            source = F.broadcast(rows) if counts.total() <= BROADCAST else rows
            writer = source.alias(NEW).write.format("delta").mode("overwrite").option("replaceOn", same).option("targetAlias", OLD)
            return self._written(writer, receipt, label(receipt))
        return self._put_by_merge(differing, units, counts, receipt, label(receipt))

    @property
    def _replaces(self) -> bool:
        """Whether this Delta puts rows in the places of those that a condition matches, which looks once through the table. One that does
        not know that setting would put them in the place of the whole table.
        """
        try:
            return str(self.session.conf.get(REPLACES)).lower() == "true"
        except PySparkException:
            return False

    def _put_by_merge(self, differing: DataFrame, units: Sequence[str], counts: Counter[str], receipt: Receipt, label: str) -> Receipt:
        """Without rows to insert, a MERGE compares with few rows what is there, and sorts nothing."""
        names = [quoted(c) for c in differing.columns if c != OP]
        sets = ", ".join(f"t.{c} = s.{c}" for c in names)
        clauses = {
            "updated": f"WHEN MATCHED AND s.{OP} = 'updated' THEN UPDATE SET {sets}",
            "removed": f"WHEN MATCHED AND s.{OP} = 'removed' THEN DELETE",
            "inserted": _inserted(names),
        }
        source = F.broadcast(differing) if counts.total() <= BROADCAST else differing
        same = " AND ".join(f"t.{quoted(u)} <=> s.{quoted(u)}" for u in units)
        return self._merged(source, same, " ".join(text for kind, text in clauses.items() if counts[kind]), receipt, label)

    def differing(self, units: DataFrame, small: bool, fresh: DataFrame) -> DataFrame:
        """Of some units, the rows that come in, are others than before, or go, and which; of one that goes, the columns of its unit."""
        old = self.rows().select(*[F.col(quoted(c)).alias(f"o{i}") for i, c in enumerate(fresh.columns)], F.lit(True).alias("there"))
        made = fresh.select(*[F.col(quoted(c)).alias(f"c{i}") for i, c in enumerate(fresh.columns)], F.lit(True).alias("made"))
        places = [fresh.columns.index(c) for c in units.columns]
        ours = [f"o{i}" for i in places]
        old = old.join(F.broadcast(units) if small else units, _same(old, ours, units, units.columns), "left_semi")  # null-safe
        both = old.join(made, _same(old, ours, made, [f"c{i}" for i in places]), "full")  # null-safe
        gone = F.col("made").isNull()
        columns = [
            (F.when(gone, F.col(f"o{i}")).otherwise(F.col(f"c{i}")) if i in places else F.col(f"c{i}")).alias(c)
            for i, c in enumerate(fresh.columns)
        ]
        return both.select(*columns, difference(fresh.schema, gone).alias(OP)).where(F.col(OP).isNotNull())

    def replace_units(self, units: DataFrame, fresh: DataFrame, receipt: Receipt, label: str) -> Receipt:
        """Put fresh rows in the place of all rows of some units, however many. It looks four times through the table."""
        source = self._gone(units, fresh).unionAll(fresh.withColumn(OP, F.lit("inserted")))
        names = [quoted(c) for c in fresh.columns]
        same = " AND ".join([f"s.{OP} = 'removed'", *(f"t.{quoted(u)} <=> s.{quoted(u)}" for u in units.columns)])
        return self._merged(source, same, f"WHEN MATCHED THEN DELETE {_inserted(names)}", receipt, label)

    def _merged(self, source: DataFrame, same: str, clauses: str, receipt: Receipt, label: str) -> Receipt:
        """By a MERGE."""
        view = f"streamtime_{uuid.uuid4().hex}"
        source.createOrReplaceTempView(view)
        try:
            with self._labelled(label, receipt.run):
                rows = self.session.sql(f"MERGE INTO {self.name} t USING {view} s ON {same} {clauses}").collect()
        except PySparkException as error:
            if not _is_repeated(error):
                raise
            rows = []
        finally:
            self.session.catalog.dropTempView(view)
        if not rows:  # Delta has a commit of this number already
            return replace(receipt, way="repeated", why=REPEATED)
        counts = {name: int(rows[0][f"num_{metric}_rows"]) for name, metric in (
            ("removed", "deleted"), ("inserted", "inserted"), ("updated", "updated"))}  # fmt: skip
        return receipt.wrote(counts)

    def _gone(self, units: DataFrame, fresh: DataFrame) -> DataFrame:
        """The units whose rows go, as rows of the source. Those alone that the table has: a MERGE of Delta 4.4.0 whose source rows match
        nothing fails where one of them is for no clause ("Unexpected row").
        """
        there = self.rows().select(*[F.col(quoted(c)).alias(f"t{i}") for i, c in enumerate(units.columns)])
        gone = units.join(there, _same(units, units.columns, there, there.columns), "left_semi")  # null-safe
        empty = [F.col(quoted(f.name)) if f.name in units.columns else F.lit(None) for f in fresh.schema.fields]
        typed = [column.cast(f.dataType).alias(f.name) for column, f in zip(empty, fresh.schema.fields, strict=True)]
        return gone.select(*typed, F.lit("removed").alias(OP))

    def note(self, receipt: Receipt, label: str) -> Receipt:
        """A commit without rows, which says what was read. It counts as a run: of two at the same time, one gets through."""
        nothing = self.session.table(self.name).where("false").write.format("delta").mode("append")
        return self._written(nothing, receipt, label)

    @contextmanager
    def _labelled(self, label: str, number: int) -> Iterator[None]:
        """What is written has this label, and is written once."""
        settings = {LABEL: label, APP: self._application, NUMBER: str(number)}
        for name, value in settings.items():
            self.session.conf.set(name, value)
        try:
            yield
        finally:
            for name in settings:
                self.session.conf.unset(name)


def difference(schema: T.StructType, gone: Column) -> Column:
    """Whether a row was 'removed', 'inserted', 'updated', or is as it was (NULL), by its columns `c0`, .., and `o0`, .. of the row that is
    `there`."""
    differs = F.lit(False)
    for i, f in enumerate(schema.fields):
        differs |= F.expr(_other(f"o{i}", f"c{i}", f.dataType))
    return changed(gone, differs)


def changed(gone: Column, differs: Column | None = None) -> Column:
    """The same of a row that is another one than the row that is `there`, by this condition, or always."""
    there = F.col("there").isNotNull()
    return (
        F.when(gone & there, "removed")
        .when(gone, None)
        .when(~there, "inserted")
        .when(differs if differs is not None else F.lit(True), "updated")
    )


def _other(old: str, new: str, kind: T.DataType) -> str:
    """The condition that a value is another than before. Where `<=>` calls values equal that are not the same, it is always so: under a
    collation, and in what has a -0.0 within."""
    if isinstance(kind, FLOATING):
        return f"NOT (CAST({old} AS STRING) <=> CAST({new} AS STRING))"
    if not orderable(kind) or has_collation(kind) or has_floating(kind):
        return "true"
    return f"NOT ({old} <=> {new})"


def _inserted(names: Sequence[str]) -> str:
    return f"WHEN NOT MATCHED AND s.{OP} = 'inserted' THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{c}' for c in names)})"


def _same(one: DataFrame, names: Sequence[str], other: DataFrame, others: Sequence[str]) -> Column:
    same = F.lit(True)
    for a, b in zip(names, others, strict=True):
        same &= one[quoted(a)].eqNullSafe(other[quoted(b)])
    return same


def _is_repeated(error: PySparkException) -> bool:
    """Whether Delta has a commit of this number already."""
    return "ConcurrentTransaction" in str(error) or "CONCURRENT_TRANSACTION" in str(error)


def nameable(kind: T.DataType) -> bool:
    """Whether a condition can name values of a type, and finds the files that have them."""
    plain = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.DateType, T.BooleanType)
    return isinstance(kind, plain) or kind == T.StringType()


def one_of(schema: T.StructType, values: Sequence[Sequence[Any]]) -> str:
    """The condition that some columns have one of these values; null is a value like any other."""
    if len(schema.fields) > 1:
        ours = _struct([quoted(f.name) for f in schema.fields])
        theirs = [_struct([_value(v, f.dataType) for v, f in zip(row, schema.fields, strict=True)]) for row in values]
        return f"{ours} IN ({', '.join(theirs)})"
    (field,) = schema.fields
    column, known = quoted(field.name), [_value(row[0], field.dataType) for row in values if row[0] is not None]
    conditions = [f"({column} IS NOT NULL AND {column} IN ({', '.join(known)}))"] if known else []
    return " OR ".join([*conditions, f"{column} IS NULL"] if len(known) < len(values) else conditions)


def _struct(values: Sequence[str]) -> str:
    fields = [f"'{i}', {value}" for i, value in enumerate(values)]
    return f"named_struct({', '.join(fields)})"


def all_comparable(df: DataFrame) -> DataFrame:
    """With text in the place of what Spark cannot compare."""
    text = {f.name: F.to_json(F.struct(quoted(f.name))).alias(f.name) for f in df.schema.fields if not orderable(f.dataType)}
    return df.select(*[text.get(c, F.col(quoted(c))) for c in df.columns])


def values_of(df: DataFrame) -> list[Any]:
    """The rows, dates as text: Python's are of the years 1 to 9999."""
    far = {f.name for f in df.schema.fields if isinstance(f.dataType, T.DateType)}
    rows: list[Any] = df.select(*[F.col(quoted(c)).cast("string").alias(c) if c in far else F.col(quoted(c)) for c in df.columns]).collect()
    return rows


def _value(value: Any, kind: T.DataType) -> str:
    if isinstance(value, str) and isinstance(kind, T.StringType):
        return literal(value)
    if isinstance(kind, T.IntegerType | T.LongType) and value is not None and value > -(1 << 31):  # the least ones have no literals
        return f"{value}L" if isinstance(kind, T.LongType) else str(value)
    return f"CAST({'NULL' if value is None else literal(str(value))} AS {kind.simpleString()})"


def _said(row: Any) -> Last | None:
    """What a commit says of the run that made it."""
    return said(row["userMetadata"], row["at"], _counts(row))


def _counts(row: Any) -> dict[str, int]:
    """The rows that a commit wrote."""
    counts = row["operationMetrics"] or {}
    if row["operation"] == "MERGE":
        names = {"inserted": "numTargetRowsInserted", "updated": "numTargetRowsUpdated", "removed": "numTargetRowsDeleted"}
    else:
        names = {"inserted": "numOutputRows", "removed": "numDeletedRows"}
        counts = counts | {"numOutputRows": int(counts.get("numOutputRows") or 0) - int(counts.get("numCopiedRows") or 0)}
    return {name: int(counts.get(metric) or 0) for name, metric in names.items()}


def settings_of(session: SparkSession) -> dict[str, str]:
    """What a query's result hangs on beside its text and its tables."""
    return {name: str(session.conf.get(name)) for name in SETTINGS}
