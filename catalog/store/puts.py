"""How puts reach a versioned table: judged by the rule of grace (V2), and stored in one transaction, by one of many writers.

The rule holds under concurrency because judging and storing are one decision. Rows are judged by the stream time that this process knows;
the transaction compares it with the table's own, in a subquery, which Delta counts as a read of the table. Where another writer moved
stream time before, the transaction fails; where one does so meanwhile, Delta refuses the commit. Either way the rows are judged anew.

Writers in one process take turns, since Delta would let only one of them through at a time, and puts that wait share the next transaction.
"""

from __future__ import annotations

import json
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from delta import exceptions
from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.sql.tables.declaration import Declaration
from streamtime.udfs.versions import moved, refused

APP, VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
LABEL = "spark.databricks.delta.commitInfo.userMetadata"
COPIES = "spark.databricks.delta.merge.materializeSource"
MOVED = "streamtime: another writer moved stream time"
CONFLICTS = tuple(getattr(exceptions, name) for name in exceptions.__all__)
ATTEMPTS = 100
LONGEST = 2.0  # seconds between two attempts
GATHER = 0.02  # seconds that a put waits for others to come along
SHARED = 1_000  # puts in one transaction

Batch = tuple[str, int]  # an application, and which of its batches; Delta stores each at most once, and only in rising order
Result = TypeVar("Result")
Values = tuple[Any, ...]  # a row, in the order of the table's columns


@dataclass(frozen=True)
class Layout:
    """A versioned table: what it declares, its columns, and the one of them that marks tombstones, if one does."""

    declaration: Declaration
    schema: T.StructType
    mark: str | None

    @property
    def time(self) -> T.StructField:
        """The event time."""
        return self.schema[self.declaration.time or ""]

    @property
    def stream_time(self) -> Column:
        """Event time in microseconds, the largest of all rows."""
        return F.max(F.expr(microseconds(quoted(self.time.name), self.time.dataType)))


@dataclass(frozen=True)
class Report:
    """What became of the rows of a put.

    `accepted` rows are stored, but for those that a later row of the same put overwrote. `counts` says how many were not, by reason:
    `too_old`, `null_time`, `null_key`. `repeated`: this batch was stored before, and nothing was written.
    """

    accepted: int
    counts: dict[str, int] = field(default_factory=dict)
    repeated: bool = False
    rows: tuple[Row, ...] | DataFrame = field(default=(), repr=False)

    @property
    def dropped(self) -> list[Row]:
        """The rows that were not stored, each with its `reason` last."""
        return self.rows.collect() if isinstance(self.rows, DataFrame) else list(self.rows)


@dataclass(eq=False)
class Waiting:
    """Rows that wait for their turn."""

    layout: Layout
    rows: Sequence[Values]
    batch: Batch | None
    label: str | None = None  # by which its commit is found again, so that it is in none with others
    report: Report | None = None
    error: BaseException | None = None

    @property
    def may_share(self) -> bool:
        """Whether it may be in one commit with others."""
        return self.batch is None and self.label is None

    @property
    def done(self) -> bool:
        """Whether it had its turn."""
        return self.report is not None or self.error is not None


class Writer:
    """All that one process writes to one table."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark.newSession()  # Delta takes the name of a batch from the session's settings
        self.gate, self.busy = threading.Condition(), False
        self.waiting: list[Waiting] = []
        self.shared = False
        self.known: tuple[int | None] | None = None  # stream time, as far as this process knows

    def put_rows(self, layout: Layout, rows: Sequence[Values], batch: Batch | None, label: str | None = None) -> Report:
        """Store these rows, in this order."""
        mine = Waiting(layout, rows, batch, label)
        with self.gate:
            self.waiting.append(mine)
            self.gate.wait_for(lambda: mine.done or not self.busy)
            leads = not mine.done
            self.busy |= leads
        if leads:
            try:
                if self.shared and mine.may_share:  # who came along last time was just let go, and may be back
                    time.sleep(GATHER)
                self._store(self._group(mine))
            finally:
                self._let_go()
        if mine.error is not None:
            raise mine.error
        assert mine.report is not None
        return mine.report

    @contextmanager
    def turn(self) -> Iterator[None]:
        """No other thread of this process writes to the table meanwhile."""
        with self.gate:
            self.gate.wait_for(lambda: not self.busy)
            self.busy = True
        try:
            yield
        finally:
            self._let_go()

    def _let_go(self) -> None:
        with self.gate:
            self.busy = False
            self.gate.notify_all()

    def _group(self, mine: Waiting) -> list[Waiting]:
        with self.gate:
            group = [mine]
            if mine.may_share:
                group = [w for w in self.waiting if w.may_share and w.layout == mine.layout][:SHARED]
                group = group if mine in group else [mine]
                self.shared = len(group) > 1
            self.waiting = [w for w in self.waiting if w not in group]
        return group

    def _store(self, group: list[Waiting]) -> None:
        judged: list[Report] = []

        def judge(clock: int | None) -> tuple[DataFrame | None, int | None]:
            judged[:], accepted, reached = _judged(group, clock)
            layout = group[0].layout
            return (self.session.createDataFrame(accepted, layout.schema) if accepted else None), reached

        try:
            repeated = self.transact(group[0].layout, judge, group[0].batch, group[0].label, stays=True)
        except Exception as error:
            if len(group) > 1:  # one of them is wrong, and the others shall not fail with it
                for waiting in group:
                    self._store([waiting])
                return
            group[0].error = error
            return
        for waiting, report in zip(group, judged, strict=True):
            waiting.report = Report(0, repeated=True) if repeated else report

    def transact(
        self,
        layout: Layout,
        judge: Callable[[int | None], tuple[DataFrame | None, int | None]],
        batch: Batch | None,
        label: str | None = None,
        stays: bool = False,
    ) -> bool:
        """Store what `judge` makes of stream time, with the stream time that it leads to; None where nothing is left to store. Whether the
        batch was there before.

        `stays`: the rows are the same whenever they are read, so that Delta need not copy them first.
        """

        def once() -> bool:
            remembered = self.known is not None
            clock = self._clock(layout) if layout.declaration.grace is not None else None
            source, reached = judge(clock)
            if source is None and remembered:  # the rows that brought stream time there may be gone: a DELETE, a RESTORE, a DROP
                self.known = None
                return once()
            if source is None:
                return False
            if layout.declaration.grace is not None:
                source = source.where(self._unmoved(layout, clock))
            columns: dict[str, str | Column] = {quoted(n): f"s.{quoted(n)}" for n in layout.schema.names}  # by *, Delta quotes wrongly
            merge = self._merge(layout, source, batch, label, stays).whenMatchedUpdate(set=columns).whenNotMatchedInsert(values=columns)
            repeated = not merge.execute().collect() and batch is not None
            self.known = None if repeated or reached is None else (reached,)
            return repeated

        return self._again(layout, once)

    def remove(self, layout: Layout, source: DataFrame) -> int:
        """Remove the rows with these keys and times. How many there were."""

        def once() -> int:
            counts = self._merge(layout, source).whenMatchedDelete().execute().first()
            return 0 if counts is None else int(counts["num_deleted_rows"])

        return self._again(layout, once)

    def _again(self, layout: Layout, once: Callable[[], Result]) -> Result:
        """Until it is not in conflict with another writer."""
        for attempt in range(ATTEMPTS):
            try:
                return once()
            except CONFLICTS:
                pass
            except PySparkException as error:
                if error.getCondition() == "INVALID_ATTRIBUTE_NAME_SYNTAX":  # of Delta's own MERGE, which quotes such names wrongly there
                    problem = f"with its change data feed, Delta cannot change rows of {layout.declaration.table}: a name has a backquote"
                    fix = "Rename the column, or set delta.enableChangeDataFeed = false."
                    raise CallError("VersionedTable", None, problem, fix) from None
                if MOVED not in str(error):
                    raise
            self.known = None
            time.sleep(random.uniform(0, min(LONGEST, 0.05 * 2**attempt)))
        raise TimeoutError(f"{layout.declaration.table} could not be written in {ATTEMPTS} attempts: other writers were faster.")

    def _clock(self, layout: Layout) -> int | None:
        if self.known is None:
            self.known = (self.session.table(layout.declaration.table).agg(layout.stream_time).first()[0],)  # type: ignore[index]
        return self.known[0]

    def _unmoved(self, layout: Layout, clock: int | None) -> Column:
        now = self.session.table(layout.declaration.table).agg(layout.stream_time).scalar()
        return F.when(now.eqNullSafe(F.lit(clock).cast("long")), True).otherwise(F.raise_error(F.lit(MOVED)).cast("boolean"))

    def _merge(
        self, layout: Layout, source: DataFrame, batch: Batch | None = None, label: str | None = None, stays: bool = False
    ) -> DeltaMergeBuilder:
        settings = {APP: batch and batch[0], VERSION: batch and str(batch[1]), LABEL: label, COPIES: "none" if stays else None}
        for name, value in settings.items():
            self.session.conf.set(name, value) if value is not None else self.session.conf.unset(name)
        # not null-safe: neither a row that is put nor one to remove has a null here, and a `<=>` keeps Delta from skipping files
        same = " AND ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in (*layout.declaration.key, layout.time.name))
        return DeltaTable.forName(self.session, layout.declaration.table).alias("t").merge(source.alias("s"), same)


def _judged(group: Sequence[Waiting], clock: int | None) -> tuple[list[Report], list[Values], int | None]:
    """V2, put by put: what to report of each, the rows to store, and the stream time after them."""
    layout, grace = group[0].layout, group[0].layout.declaration.grace
    names = layout.schema.names
    at, time_type = names.index(layout.time.name), layout.time.dataType
    keys = [(names.index(k), layout.schema[k].dataType) for k in layout.declaration.key]
    shown = [i for i, name in enumerate(names) if name != layout.mark]
    as_row = Row(*[names[i] for i in shown], "reason")
    scale = 86_400_000_000 if isinstance(time_type, T.DateType) else 1
    accepted: dict[tuple[Any, ...], Values] = {}
    reports = []
    for waiting in group:
        dropped: list[Row] = []
        for row in waiting.rows:
            key = tuple(kind.toInternal(row[i]) for i, kind in keys)
            micros = 0 if row[at] is None else time_type.toInternal(row[at]) * scale
            reason = "null_time" if row[at] is None else "null_key" if None in key else None
            if reason is None and refused(micros, clock, grace):
                reason = "too_old"
            if reason is not None:
                dropped.append(as_row(*[row[i] for i in shown], reason))
                continue
            clock = moved(clock, micros)
            accepted[(*key, micros)] = row
        counts = dict(Counter(r.reason for r in dropped))
        reports.append(Report(len(waiting.rows) - len(dropped), counts, rows=tuple(dropped)))
    return reports, list(accepted.values()), clock if grace is not None else None


def batch_name(app_id: str, batch_id: str | int) -> str:
    """What Delta knows a batch of an application by."""
    # with another colon, two batches of two applications could have one name
    return f"{app_id}:{batch_id}" if ":" not in str(batch_id) else json.dumps([app_id, str(batch_id)])


_writers: weakref.WeakValueDictionary[tuple[str, str], Writer] = weakref.WeakValueDictionary()
_making = threading.Lock()


def writer(spark: SparkSession, table: str) -> Writer:
    """This process's writer of a table, given by its full name."""
    key = (spark.sparkContext.applicationId, table.lower())
    with _making:
        known = _writers.get(key)
        if known is None:
            known = _writers[key] = Writer(spark)
        return known
