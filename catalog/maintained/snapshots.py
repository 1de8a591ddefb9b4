"""The tables of a query at the commits between which it is maintained: as they were, as they are, and what changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtime.sql.call.errors import CallError, NoHistory
from streamtime.sql.rows.columns import has_collation, has_floating, orderable
from streamtime.sql.rows.typed import AS_JSON
from streamtime.sql.syntax.text import quoted
from streamtime.sql.tables.change_data import AT, CHANGE, VERSION, change_data
from streamtime.sql.tables.commits import FEED, Log, log_of
from streamtime.sql.tables.declaration import asked, name_parts, properties_of

NAME = "maintain"
# Delta refuses what a table was at a commit older than a week, though all of its files are there. What is gone is known (`_vacuumed`)
AS_IT_WAS = {"spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false"}
ASKING = {
    **AS_IT_WAS,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
CAME = "streamtime_came"  # of a changed row: whether it came, or went


@dataclass
class ChangedTable:
    """A table between two commits. `before` is None where it is not known which rows were read last time."""

    name: str
    identity: str  # of the table itself: one that is dropped and made anew has another
    now: int
    size: int  # bytes
    columns: str = ""  # says whether they are those of last time
    has_feed: bool = False
    before: int | None = None
    why: str = ""  # why its changes since are not known
    changed: int = 0  # changed rows, each update as two
    _log: Log | None = field(default=None, repr=False)
    _feed: DataFrame | None = field(default=None, repr=False)

    @property
    def read(self) -> dict[str, Any]:
        """What the next run has to know of it."""
        return {"id": self.identity, "version": self.now, "columns": self.columns, "feed": self.has_feed}

    def log(self, session: Any, since: int | None = None) -> Log:
        """What its log says, at least of the commits since one at which it had a feed. Read once. Raises NoHistory."""
        if self._log is None:
            self._log = log_of(session, self.name, NAME, None if since is None else (since, self.now))
        return self._log

    def rows(self, session: Any, commit: int) -> DataFrame:
        """All rows, as they were after a commit."""
        as_it_was: DataFrame = session.read.option("versionAsOf", commit).table(self.name)
        return as_it_was

    def old(self, session: Any) -> DataFrame:
        """The rows that were read last time."""
        assert self.before is not None
        return self.rows(session, self.before)

    def feed(self, session: Any) -> DataFrame | None:
        """The rows that came and went since, with how; None where none did."""
        if self.before is None or self.before == self.now:
            return None
        if self._feed is None:
            rows = change_data(session, self.name, self.log(session).changes, self.before + 1, self.now, NAME).drop(VERSION, AT).persist()
            self._feed, self.changed = rows, rows.count()
        return self._feed if self.changed else None

    def changes(self, session: Any, came: bool) -> DataFrame | None:
        """The rows that came since, or those that went."""
        signed = self.signed(session)
        return None if signed is None else signed.where(F.col(CAME) == came).drop(CAME)

    def signed(self, session: Any) -> DataFrame | None:
        """The rows that came and went since, and for each whether it came."""
        feed = self.feed(session)
        return None if feed is None else feed.withColumn(CAME, F.col(CHANGE).isin("insert", "update_postimage")).drop(CHANGE)

    def net(self, session: Any) -> DataFrame | None:
        """The same without rows that came and went again between two commits. They are told apart by bits."""
        signed = self.signed(session)
        if signed is None or self.before is None or self.now == self.before + 1:
            return signed
        fields = [f for f in signed.schema.fields if f.name != CAME]
        plain = [f for f in fields if orderable(f.dataType)]
        other = [f for f in fields if not orderable(f.dataType) or has_collation(f.dataType) or has_floating(f.dataType)]
        by = [F.col(quoted(f.name)) for f in plain] + [F.to_json(F.struct(quoted(f.name)), AS_JSON) for f in other]
        more = F.sum(F.when(F.col(CAME), 1).otherwise(-1))
        row = F.first(F.struct(*[F.col(quoted(f.name)).alias(f"c{i}") for i, f in enumerate(fields)]))
        netted = signed.groupBy(*[c.alias(f"k{i}") for i, c in enumerate(by)]).agg(more.alias("more"), row.alias("row")).where("more <> 0")
        each = netted.select("row", (F.col("more") > 0).alias(CAME), F.explode(F.sequence(F.lit(1), F.abs("more"))))
        return each.select(*[F.col(f"row.c{i}").alias(f.name) for i, f in enumerate(fields)], CAME)

    def forget(self) -> None:
        """Free what was kept of the changes."""
        if self._feed is not None:
            self._feed.unpersist()
            self._feed = None


def table(session: Any, name: str, known: dict[str, Any] | None) -> ChangedTable:
    """A table as it is, and what is known of it from last time (`Table.read`).

    Raises CallError where it is no Delta table.
    """
    detail = asked(name, NAME, lambda: session.sql(f"DESCRIBE DETAIL {name}").select("format", "id", "sizeInBytes", "properties").first())
    if detail["format"] != "delta":
        raise CallError(NAME, None, f"{name} is not a Delta table, so it does not say what changed in it", "Keep it as a Delta table.")
    newest = session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").select("version").first()[0]
    changed = ChangedTable(name, detail["id"], newest, detail["sizeInBytes"])
    changed.columns = _columns(changed.rows(session, newest))
    told = (detail["properties"], properties_of(session, name, NAME))  # before and after it was asked for its newest commit
    changed.has_feed = all(properties.get(FEED, "").lower() == "true" for properties in told)
    if known is None:
        changed.why = f"{name} was not read before"
    elif known["id"] != changed.identity:
        changed.why = f"{name} is another table than last time"
    elif known["version"] > newest:
        changed.why = f"{name} has fewer commits than last time"
    elif known["version"] == newest:
        changed.before = newest
    else:
        changed.why = _unknown(session, changed, known)
        changed.before = None if changed.why else known["version"]
    return changed


def _columns(df: DataFrame) -> str:
    """Of the same columns the same short text."""
    return hashlib.sha256(df.schema.simpleString().encode()).hexdigest()[:16]


def _unknown(session: Any, table: ChangedTable, known: dict[str, Any]) -> str:
    """Why the changes since last time are not known; '' where they are."""
    before = known["version"]
    try:
        log = table.log(session, before if known.get("feed") else None)
    except NoHistory as error:
        return f"{error.problem}. {error.fix or ''}".strip()
    if log.start > before + 1 or before not in log.times:
        return f"the changes of {table.name} are known from commit {log.start} on only, since {log.why}; commit {before} was read last"
    columns = known.get("columns") or _columns(table.rows(session, before))  # where an older version of this pack wrote the commit
    if columns != table.columns or any(change.version > before for change in log.changes):
        return f"the columns of {table.name} are others than last time"
    return ""


def full_name(spark: SparkSession, name: str) -> str:
    """A table's name with its catalog and schema, each part quoted."""
    parts = name_parts(name, NAME)
    current = [spark.catalog.currentCatalog(), spark.catalog.currentDatabase()]
    return ".".join(map(quoted, [*current[: 3 - len(parts)], *parts]))


def own_session(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session with the settings of another, but for these, and its place in the catalog."""
    session = spark.newSession()
    for row in spark.sql("SET").collect():
        if row["key"].startswith("spark.sql.") and session.conf.isModifiable(row["key"]):
            session.conf.set(row["key"], row["value"])
    for name, value in (settings or {}).items():
        session.conf.set(name, value)
    session.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
    session.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    return session


def asking_session(spark: SparkSession) -> SparkSession:
    """A session that asks for what logs and catalogs say: few rows, whose plans take longer to be compiled than to be interpreted."""
    return own_session(spark, ASKING)
