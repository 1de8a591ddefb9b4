"""maintain(): keeps a Delta table equal to a query, by its sources' change feeds.

The commits of the sources that were read are in the commit of the target that they led to, in its user metadata. So there is one truth of
what the target is made of, it changes in the same transaction as the rows do, and whoever kills a run kills all of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import ArithmeticException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.maintained import costs
from streamtime.maintained.additive import COUNT, JudgedUnits, KeyedRows, MaintainedTotals
from streamtime.maintained.nodes import Block, Query, Unreadable
from streamtime.maintained.reading import read
from streamtime.maintained.receipt import Last, Receipt, written
from streamtime.maintained.refusing import may_pass
from streamtime.maintained.snapshots import AS_IT_WAS, NAME, ChangedTable, asking_session, full_name, own_session, table
from streamtime.maintained.target import FEW, Target, nameable, settings_of, values_of
from streamtime.maintained.units import Cut, Evaluation, together, unfollowed, widest
from streamtime.sql.call.errors import CallError, did_you_mean, gist, listed
from streamtime.sql.call.names import Names
from streamtime.sql.call.remote import refuse_remote
from streamtime.sql.syntax.text import quoted
from streamtime.sql.tables.declaration import schema_of
from streamtime.statements.query import with_calls

POLICIES = ("auto", "incremental", "full")


def maintain(
    spark: SparkSession,
    target: str,
    sql: str,
    *,
    key: str | Sequence[str] | None = None,
    policy: str = "auto",
    explain: bool = False,
    shadow: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Receipt:
    """Make a Delta table what a query gives, and keep it so: each run computes anew what changes touched, and no more.

        streamtime.maintain(spark, "shop.revenue", "SELECT product, sum(amount) AS total FROM shop.orders GROUP BY product")

    The first run makes the table. Each one after it reads the change feeds of the query's tables since the run before, finds which groups,
    keys or rows they touched, computes these anew by the same query, and puts them in their places in one commit. The versions that were
    read stand in the same commit, so that each change counts exactly once, however often a run is killed or repeated.

    Args:
        spark: a session with Delta Lake, of this process.
        target: the name of a table. It is made by the first run; a table of other origin is not touched.
        sql: a SELECT over Delta tables: joins (inner, left, right), filters, GROUP BY, UNION ALL, CTEs, window functions, and the functions
            of this pack. Tables that are to be followed need a change feed (`delta.enableChangeDataFeed = true`).
        key: columns of the result that tell its rows apart, where the query does not say so itself (GROUP BY does). Rows that have their
            place are then updated rather than removed and inserted. By default what is computed anew are all rows with the touched values
            of GROUP BY, PARTITION BY, or the columns of a join.
        policy: 'auto' takes the cheaper way, by what runs before cost; 'incremental' is an error where only a full run is possible;
            'full' computes all.
        explain: say what a run would do, and do nothing.
        shadow: also compute the whole result, and count the rows in which the table differs from it.
        properties: table properties for the target, when it is made, such as {'delta.enableChangeDataFeed': 'true'}.

    Returns:
        Receipt: what was read, touched and written, which way and why, what it was expected to cost, and what it took. `print` shows it;
        `streamtime.receipts(spark, target)` has those of all runs.

    Raises:
        CallError: the target is no table of a maintained query; a source is no Delta table; `key` names no column, or two rows have one;
            with 'incremental', why this query, or these changes, cannot be followed.
        AnalysisException: what Spark says of the query.
    """
    refuse_remote(NAME, spark)
    if policy not in POLICIES:
        fix = did_you_mean(policy, POLICIES) or f"Write one of {listed(POLICIES)}."
        raise CallError(NAME, "`policy`", f"expected 'auto', 'incremental' or 'full', got '{policy}'", fix)
    keys = None if key is None else (key,) if isinstance(key, str) else tuple(key)
    if keys == ():
        raise CallError(NAME, "`key`", "expected a column at least, got none", "Leave it out, or name columns that tell rows apart.")
    run = _Run(spark, target, sql, keys, policy, dict(properties or {}))
    try:
        return run.explained() if explain else run.done(shadow)
    finally:
        run.close()


def receipts(spark: SparkSession, target: str) -> list[Receipt]:
    """What the runs of `maintain` did to a table, the newest first, as far back as its log goes."""
    return [last.receipt for last in Target(asking_session(spark), full_name(spark, target)).runs()]


@dataclass(frozen=True)
class _Plan:
    """What to do: the way, why, and for the incremental one the touched units."""

    way: str
    why: str
    cut: Cut | None = None
    touched: int | None = None
    judged: JudgedUnits | None = None
    predicted: dict[str, float] | None = None


class _Run:
    """One run, in a session of its own: it reads and writes with settings that are nobody else's."""

    def __init__(
        self, spark: SparkSession, target: str, text: str, key: tuple[str, ...] | None, policy: str, properties: dict[str, str]
    ) -> None:
        self.begun, self.started = time.monotonic(), time.time_ns() // 1000
        self.session = own_session(spark, AS_IT_WAS)
        self.text, self.key, self.policy, self.properties = text, key, policy, properties
        self.asking = asking_session(self.session)
        self.target = Target(self.session, full_name(spark, target), self.asking)
        self.onto = self.target.version
        self.settings = settings_of(self.session)
        self.tables: dict[str, ChangedTable] = {}
        self.last, self.lost = self._last()
        self.query: Query = read(self.session, with_calls(self.session, text), self._known)
        if not self.tables:
            raise CallError(NAME, None, "the query reads no table", "Name the Delta tables that it is made of in FROM.")
        if self.target.name in self.tables:
            raise CallError(NAME, None, f"the query reads its own target {self.target.name}", "Give the result a table of its own.")
        if twice := sorted({c for c in self.query.columns if [d.lower() for d in self.query.columns].count(c.lower()) > 1}):
            raise CallError(NAME, None, f"the result has two columns {listed(twice)}", "Give one of them another name.")
        self.evaluation = Evaluation(self.session, self.query, self.tables)
        self.units = self._units()
        self.setup = time.monotonic() - self.begun

    def close(self) -> None:
        if hasattr(self, "evaluation"):
            self.evaluation.close()

    # -- what is known

    def _known(self, text: str) -> tuple[str, T.StructType]:
        """A table of the query: its full name, its columns."""
        name = full_name(self.session, text)
        schema = schema_of(self.session, name, NAME)
        if name not in self.tables:
            self.tables[name] = table(self.asking, name, self.last.sources.get(name) if self.last else None)
        return name, schema

    def _last(self) -> tuple[Last | None, str]:
        """The run that made the target what it is; or why nobody knows."""
        if not self.target.there:
            return None, "The table is made."
        last, why = self.target.last()
        last = replace(last, costs=costs.learned(last.costs, last.receipt, FEW))
        units = [u.lower() for u in last.receipt.units]
        if not why and (last.text != self.text or (self.key is not None and units != [k.lower() for k in self.key])):
            why = "The query is another than last time."
        if not why and not last.settings.items() <= self.settings.items():  # those that were noted then
            why = "The session has another time zone, or other rules (ANSI), than last time."
        return (replace(last, sources={}) if why else last), why

    def _units(self) -> tuple[str, ...]:
        """The columns by which the result is cut; none where it cannot be."""
        columns = {c.lower(): c for c in self.query.columns}
        for name in self.key or ():
            if name.lower() not in columns:
                fix = did_you_mean(name, self.query.columns) or f"The result has {listed(self.query.columns)}."
                raise CallError(NAME, "`key`", f"no column `{name}` in the result", fix)
        root = self.query.root
        if root is None:
            return ()
        if Names(self.session).cased:
            self.query.why = "names of columns are told apart by their case (spark.sql.caseSensitive)"
            return ()
        if why := unfollowed(root):
            self.query.why = why
            return ()
        if self.key is not None:
            if missing := [k for k in self.key if k.lower() not in root.units]:
                self.query.why = f"its result cannot be cut by `{missing[0]}`"
                return ()
            return tuple(columns[k.lower()] for k in self.key)
        if not root.units:
            self.query.why = (
                self.query.why or getattr(root, "why", "") or "none of its columns says which rows of the tables a row is made of"
            )
            return ()
        picked = widest(root)
        return tuple(columns[c.lower()] for c in self.query.columns if c.lower() in picked)

    @property
    def unit_is_row(self) -> bool:
        """Whether a unit is one row."""
        root = self.query.root
        if self.key is not None:
            return True
        if not isinstance(root, Block) or root.grouped is None or root.spread:
            return False
        return root.whole and len(self.units) == len(root.grouped)

    # -- the way

    def _way(self) -> _Plan:
        """Which way, by the policy, by what is possible, and by what it costs."""
        reason = self.lost or next((f"{t.why[0].upper()}{t.why[1:]}." for t in self.tables.values() if t.why), "")
        if not reason and self.query.root is None:
            reason = f"The query cannot be followed: {self.query.why}."
        if not reason and not self.units:
            reason = f"The query cannot be followed: {self.query.why}."
        if not reason and self.policy != "full":
            if all(t.before == t.now for t in self.tables.values()):
                return _Plan("none", "No table has changed.")
            try:
                return self._incremental()
            except Unreadable as error:
                reason = f"The query cannot be followed: {error}."
            except PySparkException as error:
                if may_pass(error):
                    return self._instead(error)
                raise
        return self._whole(reason)

    def _instead(self, error: Exception) -> _Plan:
        """All anew, where a value that changed, or one beside it, is an error."""
        return self._whole(f"What changed cannot be computed by itself: {gist(error)}.")

    def _whole(self, reason: str) -> _Plan:
        """All anew, for a reason, or because it is asked for."""
        if self.policy == "incremental" and self.last is not None:
            raise CallError(NAME, "`policy`", f"'incremental' is not possible: {reason}", "Use policy='auto'.")
        return _Plan("full", reason or "policy='full' asks for it.", predicted=self._predicted(1.0, "many anew"))

    def _incremental(self) -> _Plan:
        assert self.query.root is not None
        judged = self._totals() or self._rows()
        cut = self._touched() if judged is None else judged.groups
        if cut is None:
            return _Plan("none", "The tables have new commits, and no row in them changed.", touched=0)
        touched = cut.count
        if touched == 0:
            return _Plan("none", "No change leads to a row of the result.", touched=0)
        known = self.last.costs if self.last else {}
        rows = int(known["rows"]) if "rows" in known else self.session.table(self.target.name).count()
        anew = judged is None or _doubtful(judged) > 0
        predicted = self._predicted(costs.share_of(touched, rows), costs.kind_of(touched, FEW, anew))
        why = f"{touched:,} values of {', '.join(self.units)} are touched"
        if self.policy == "auto" and predicted and predicted["full"] < predicted["incremental"]:
            why = f"{why}, and to compute all {rows:,} rows is expected to take less."
            return _Plan("full", why, predicted=predicted)
        return _Plan("incremental", f"{why}.", cut, touched, judged, predicted)

    def _touched(self) -> Cut | None:
        """The units that changes led to; None where no row of a table changed."""
        assert self.query.root is not None
        pieces = self.evaluation.touched(self.query.root, [u.lower() for u in self.units])
        if not pieces:
            return None
        kinds = dict(zip(self.query.columns, self.query.kinds, strict=True))
        typed = together(pieces).select(*[F.col(f"u{i}").cast(kinds[u]).alias(f"u{i}") for i, u in enumerate(self.units)])
        return self.evaluation.counted(tuple(u.lower() for u in self.units), typed)

    def _totals(self) -> JudgedUnits | None:
        """The new totals, where the query is one of totals that what changed can be added to."""
        root = self.query.root
        if not isinstance(root, Block) or not root.added:
            return None
        totals = MaintainedTotals(self.evaluation, root)
        if not totals.exact or [self.query.columns[i] for i in totals.keys] != list(self.units):
            return None
        try:
            return totals.judged(self.target.rows())
        except ArithmeticException:  # what came may have no sum, where all that is there has one
            return None

    def _rows(self) -> JudgedUnits | None:
        """The rows that come and go, where the query says them of those that changed."""
        rows = KeyedRows.of(self.evaluation, self.key) if self.key is not None else None
        judged = None if rows is None else rows.judged(self.target.rows())
        if judged is not None and judged.twin is not None:
            raise self._twin(*judged.twin)
        return judged

    def _predicted(self, share: float, kind: str) -> dict[str, float]:
        spent = time.monotonic() - self.begun
        return costs.predicted(self.last.costs if self.last else {}, self._size(), share, kind, self.setup, spent)

    def _size(self) -> float:
        return float(sum(t.size for t in self.tables.values()))

    def _receipt(self, plan: _Plan) -> Receipt:
        return Receipt(
            target=self.target.name,
            way=plan.way,
            why=plan.why,
            tables={n: (t.before, t.now) for n, t in self.tables.items()},
            changed={n: t.changed for n, t in self.tables.items() if t.changed},
            units=self.units,
            touched=None if plan.way == "full" else plan.touched,
            added=plan.touched - _doubtful(plan.judged) if plan.judged and plan.touched else 0,
            predicted=plan.predicted or {},
            decided=round(time.monotonic() - self.begun, 3),
            seconds=round(time.monotonic() - self.begun, 3),
            run=self.last.receipt.run + 1 if self.last else 1,
        )

    def explained(self) -> Receipt:
        """What would be done."""
        return self._receipt(self._way())

    # -- the work

    def done(self, shadow: bool) -> Receipt:
        """Do it."""
        plan = self._way()
        receipt = self._receipt(plan)
        if plan.way == "full":
            receipt = self._full(receipt)
        elif plan.way == "incremental":
            assert plan.cut is not None
            try:
                receipt = self._merge(receipt, plan.cut, plan.judged)
            except PySparkException as error:
                if not may_pass(error):
                    raise
                receipt = self._full(self._receipt(self._instead(error)))
        elif any(t.before != t.now for t in self.tables.values()):
            receipt = self.target.note(receipt, self._label(receipt))
        if shadow:
            self.evaluation.forget()
            receipt = replace(receipt, shadow=self._differs())
        return replace(receipt, seconds=round(time.monotonic() - self.begun, 3))

    def _label(self, receipt: Receipt) -> str:
        """What is said in the commit."""
        sources = {n: t.read for n, t in self.tables.items()}
        known = self.last.costs if self.last else {}
        return written(
            Last(
                self.text,
                sources,
                {**known, "size": self._size(), "setup": round(self.setup, 3)},
                receipt,
                self.onto,
                self.settings,
                self.target.made,
            ),
            self.started,
        )

    def _full(self, receipt: Receipt) -> Receipt:
        rows = self.evaluation.whole()
        if self.key is not None:
            self._refuse_twins(self._cached(rows))
        return self.target.overwrite(rows, receipt, self._label(receipt), self.properties)

    def _merge(self, receipt: Receipt, cut: Cut, judged: JudgedUnits | None) -> Receipt:
        units = cut.values.toDF(*self.units)
        few = cut.count <= FEW and all(nameable(f.dataType) for f in units.schema.fields)
        if not self.unit_is_row:
            replaced = self.target.replace_few if few else self.target.replace_units
            return replaced(units, self._computed(cut), receipt, self._label(receipt))
        pieces, doubtful = ([], cut) if judged is None else ([judged.changes], judged.doubtful)
        if doubtful is not None and (judged is None or doubtful.count):
            differing = self.target.differing(doubtful.values.toDF(*self.units), doubtful.small, self._computed(doubtful))
            pieces.append(self._cached(differing))
        return self.target.put(together(pieces), self.units, few, receipt, self._label)

    def _computed(self, cut: Cut) -> DataFrame:
        """The rows of some units, by the query."""
        assert self.query.root is not None
        rows = self.evaluation.rows(self.query.root, cut).toDF(*self.query.columns)
        if self.key is not None:
            self._refuse_twins(self._cached(rows))
        return rows

    def _cached(self, rows: DataFrame) -> DataFrame:
        """Computed once, while the run lasts."""
        self.evaluation.cached.append(rows.persist())
        return rows

    def _refuse_twins(self, rows: DataFrame) -> None:
        by_key = rows.groupBy(*map(quoted, self.key or ())).agg(F.count("*").alias(COUNT))
        for twin in values_of(by_key.where(f"{COUNT} > 1").limit(1)):
            raise self._twin(*twin)

    def _twin(self, *rows: Any) -> CallError:
        *values, count = rows
        shown = ", ".join(f"{k} = {v}" for k, v in zip(self.key or (), values, strict=True))
        return CallError(NAME, "`key`", f"the result has {count} rows with {shown}", "Name columns that tell its rows apart.")

    def _differs(self) -> int:
        """In how many rows the target differs from the result computed anew."""
        return self.target.differs(self.evaluation.whole().toDF(*self.query.columns))


def _doubtful(judged: JudgedUnits) -> int:
    return judged.doubtful.count if judged.doubtful is not None else 0
