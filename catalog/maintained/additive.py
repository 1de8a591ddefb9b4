"""Rows and totals that follow from those that are there and from what changes add to them, so that nothing else is computed again.

Of a join, the rows of one table that came and went, with how, meet the other tables in the place of all its rows: what the query makes
of them came, or went. Their keys say which of the rows that are there these are (`KeyedRows`). Of totals, no group is counted again
(`MaintainedTotals`).

The query is run as it is written, over the rows that came in the place of one of its tables, and over those that went. Of a join, the
changes of each table meet the tables before it as they are, and those behind it as they were; so each pair of rows counts once.

Where the totals that are there do not say enough, a group is in doubt, and is computed anew: its smallest value went; of a sum, more values
went than came, so that perhaps none is left, and the sum is NULL, unless its column has no NULL; rows went, and no count(*) says whether
any are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.maintained.nodes import Block, Leaf, Total, joined_by
from streamtime.maintained.snapshots import CAME
from streamtime.maintained.target import BROADCAST, OP, changed, difference, values_of
from streamtime.maintained.units import LARGE, Cut, Evaluation, together
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Span

COUNT = "streamtime_count"  # of rows with one key
EXACT = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DateType, T.TimestampType, T.TimestampNTZType)
NARROW, WIDE = 30, 37  # digits of a sum that is kept, and of one to which another is added: DECIMAL has 38


@dataclass(frozen=True)
class JudgedUnits:
    """The units that changes led to: of those that are known, which rows differ from those that are there, as `Target.put` takes them;
    those that are in doubt; and all of them. `twin` is a key, and how many rows have it, where two have one."""

    changes: DataFrame
    doubtful: Cut | None
    groups: Cut
    twin: tuple[Any, ...] | None = None


class KeyedRows:
    """A query whose rows have keys, between two commits of one table that its rows are made of, and of no other."""

    def __init__(self, evaluation: Evaluation, block: Block, alias: str, keys: Sequence[str]) -> None:
        self.evaluation, self.block, self.alias, self.query = evaluation, block, alias, evaluation.query
        self.keys = [next(i for i, c in enumerate(self.query.columns) if c.lower() == k.lower()) for k in keys]

    @classmethod
    def of(cls, evaluation: Evaluation, keys: Sequence[str]) -> KeyedRows | None:
        """None where rows that are there are not simply those before, less those that went, and those that came."""
        root, tables = evaluation.query.root, evaluation.tables
        if not isinstance(root, Block) or not root.adds_up:
            return None
        changed = [leaf for leaf in evaluation.query.leaves if tables[leaf.table].feed(evaluation.session) is not None]
        if len(changed) != 1:
            return None
        aliases = (a for a, s in root.sources.items() if isinstance(s, Leaf) and s.span == changed[0].span)
        alias = next((a for a in aliases if a in root.behind and a not in root.optional), None)
        return None if alias is None else cls(evaluation, root, alias, keys)

    def judged(self, target: DataFrame) -> JudgedUnits:
        """Which rows come, go, or are others, by their keys."""
        by_key = self._by_key().persist()
        self.evaluation.cached.append(by_key)
        count, most, inserted = by_key.agg(F.count("*"), F.max(COUNT), F.count_if(F.col(OP) == "inserted")).collect()[0]
        names = [self.query.columns[i] for i in self.keys]
        units = by_key.select(*[F.col(quoted(c)).alias(f"u{n}") for n, c in enumerate(names)])
        twins = by_key.where(f"{COUNT} > 1").select(*map(quoted, names), COUNT) if (most or 0) > 1 else None
        if twins is None and inserted:  # of a key that the table has already
            new = Cut(tuple(c.lower() for c in names), units.where(by_key[OP] == "inserted"), inserted)
            twins = new.keep(target).select(*map(quoted, names), F.lit(2))
        twin = next(iter(values_of(twins.limit(1))), None) if twins is not None else None
        changes = by_key.where(F.col(OP).isNotNull()).drop(COUNT)
        return JudgedUnits(changes, None, Cut(tuple(c.lower() for c in names), units, count), None if twin is None else tuple(twin))

    def _by_key(self) -> DataFrame:
        """For each key that changes led to, its row and how it differs, and how many rows came.

        Where the query shows all columns of the table that changed, a row that went is another one than what came: it is counted, not
        compared, so of it nothing is sent but its key. Spark sorts what it keeps the first row of, so rows are sent to their places first,
        and sorted once.
        """
        rows, shows_all = self._came_and_went(), self.shows_all
        columns = [F.col(f"c{i}") for i in range(len(self.query.columns))]
        came, row = F.col("came"), F.struct(*columns)
        if shows_all:
            rows = rows.select(*[c if i in self.keys else F.when(came, c).alias(f"c{i}") for i, c in enumerate(columns)], "came")
        keys = [F.col(f"c{i}") for i in self.keys]
        wanted = [F.first(F.when(came, row), ignorenulls=True).alias("new")]
        wanted += [] if shows_all else [F.first(F.when(~came, row), ignorenulls=True).alias("old")]
        counts = (F.count_if("came").alias("came"), F.count_if(~came).alias("went"))
        one = rows.repartition(*keys).groupBy(*[k.alias(f"k{n}") for n, k in enumerate(keys)]).agg(*counts, *wanted)
        made = T.StructType([T.StructField(f"c{i}", kind) for i, kind in enumerate(self.query.kinds)])
        gone, there = F.col("came") == 0, F.when(F.col("went") > 0, F.lit(True)).alias("there")
        shown = [F.col("new").getField(f"c{i}").alias(f"c{i}") for i in range(len(columns))]
        shown = [F.coalesce(c, f"k{self.keys.index(i)}").alias(f"c{i}") if i in self.keys else c for i, c in enumerate(shown)]
        if shows_all:
            both, how = one.select("came", there, *shown), changed(gone)
        else:
            old = [F.col("old").getField(f"c{i}").alias(f"o{i}") for i in range(len(columns))]
            both, how = one.select("came", there, *shown, *old), difference(made, gone)
        named = [c.alias(n) for c, n in zip(columns, self.query.columns, strict=True)]
        return both.select(*named, how.alias(OP), F.col("came").alias(COUNT))

    @property
    def shows_all(self) -> bool:
        """Whether the query shows all columns of the table that changed, as they are."""
        source = self.block.sources[self.alias]
        assert isinstance(source, Leaf)
        return {(self.alias, c.lower()) for c in source.columns} <= {item.plain for item in self.block.items}

    def _came_and_went(self) -> DataFrame:
        """What the query makes of the rows that changed, and for each whether it came or went."""
        session, tables = self.evaluation.session, self.evaluation.tables
        leaves = {leaf.span: self.evaluation.at(leaf, False) for leaf in self.query.leaves}
        source = self.block.sources[self.alias]
        assert isinstance(source, Leaf)
        rows = tables[source.table].net(session)
        assert rows is not None
        for other in self.block.optional:
            if (cut := self._looked_up(other, rows)) is not None:
                beside = self.block.sources[other]
                assert isinstance(beside, Leaf)
                leaves[beside.span] = cut.keep(leaves[beside.span])
        leaves[source.span] = F.broadcast(rows) if tables[source.table].changed <= BROADCAST else rows
        at = self.block.behind[self.alias]
        made = self.evaluation.run(None, leaves, {(at, at): f", {quoted(self.alias)}.{CAME} AS {OP} "}).drop(CAME)  # a star has it too
        return made.toDF(*[f"c{i}" for i in range(len(self.query.columns))], "came")

    def _looked_up(self, other: str, rows: DataFrame) -> Cut | None:
        """The keys that are needed of a large table on the null side: Spark sends the side that is kept whole to no other."""
        beside, pairs = self.block.sources[other], joined_by(self.block, self.alias, other, forward=True)
        if not isinstance(beside, Leaf) or not pairs or self.evaluation.tables[beside.table].size < LARGE:
            return None
        names = {c.lower(): c for c in rows.columns}
        keys = rows.select(*[F.col(quoted(names[a])).alias(f"u{i}") for i, (a, _) in enumerate(pairs)])
        return self.evaluation.counted(tuple(b for _, b in pairs), keys)


class MaintainedTotals:
    """A query of totals, between two commits of each table."""

    def __init__(self, evaluation: Evaluation, block: Block) -> None:
        self.evaluation, self.block, self.query = evaluation, block, evaluation.query
        assert block.grouped is not None
        self.keys = sorted(block.grouped)
        self.totals: dict[int, Total] = {i: item.total for i, item in enumerate(block.items) if item.total is not None}

    @property
    def exact(self) -> bool:
        """Whether what is added one by one is what is added at once; of DOUBLE it is not."""
        return all(_exact(total.kind, self.query.kinds[i]) for i, total in self.totals.items())

    def judged(self, target: DataFrame) -> JudgedUnits | None:
        """What changes make of the totals in the target; None where nothing changed."""
        added = self._added()
        if added is None:
            return None
        units = tuple(self.query.columns[i].lower() for i in self.keys)
        groups = Cut(units, added, added.count())
        met = self._met(groups, target, self._never_null(added)).persist()
        self.evaluation.cached.append(met)
        doubts = met.where("doubt").select(*[F.col(f"c{i}").alias(f"u{n}") for n, i in enumerate(self.keys)])
        known, columns = met.where("NOT doubt"), [F.col(f"c{i}").alias(c) for i, c in enumerate(self.query.columns)]
        return JudgedUnits(
            known.where(F.col(OP).isNotNull()).select(*columns, OP),
            Cut(units, doubts, doubts.count()),
            groups.of({u: u for u in units}),
        )

    # -- what changes add

    def _added(self) -> DataFrame | None:
        """For each group that changes led to: what came to each total, less what went."""
        tables, leaves = self.evaluation.tables, self.query.leaves
        texts: Mapping[Span, str] = {t.span: t.text for t in self.totals.values() if t.span is not None}
        pieces = []
        for place, leaf in enumerate(leaves):
            for came in (True, False):
                rows = tables[leaf.table].changes(self.evaluation.session, came)
                if rows is not None:
                    at = {other.span: self.evaluation.at(other, old=n > place) for n, other in enumerate(leaves)}
                    fresh = self.evaluation.run(self.block, at | {leaf.span: rows}, texts)
                    pieces.append(self._signed(fresh.toDF(*[f"c{i}" for i in range(len(fresh.columns))]), came))
        if not pieces:
            return None
        summed = [c for i, total in self.totals.items() for c in _summed(i, total.kind)]
        keys = [F.col(f"u{n}") for n in range(len(self.keys))]
        added = together(pieces).groupBy(*keys).agg(F.bool_or("went").alias("went"), *summed).persist()
        self.evaluation.cached.append(added)
        return added

    def _signed(self, df: DataFrame, came: bool) -> DataFrame:
        columns = [F.col(f"c{i}").alias(f"u{n}") for n, i in enumerate(self.keys)]

        def signed(column: Column) -> Column:
            return column if came else -column

        for i, total in self.totals.items():
            if total.kind == "sum":
                columns.append(signed(F.col(f"c{i}.total").cast(_decimal(self.query.kinds[i], NARROW))).alias(f"a{i}"))
                columns.append(signed(F.col(f"c{i}.count")).alias(f"n{i}"))
            elif total.kind in ("count", "rows"):
                columns.append(signed(F.col(f"c{i}")).alias(f"a{i}"))
            else:
                columns.append(F.when(F.lit(came), F.col(f"c{i}")).alias(f"a{i}"))
                columns.append(F.when(F.lit(not came), F.col(f"c{i}")).alias(f"w{i}"))
        return df.select(*columns, F.lit(not came).alias("went"))

    # -- what it makes of the totals that are there

    def _never_null(self, added: DataFrame) -> set[int]:
        """The sums that are NULL in no group that has rows: no row of the table has a NULL there. Asked only where values went, and the
        rows are counted; Delta mostly knows it of each file.
        """
        sums = {i: name for i, total in self.totals.items() if total.of_column for name in self.block.items[i].of}
        if not sums or not any(total.kind == "rows" for total in self.totals.values()):
            return set()
        if added.where(" OR ".join(f"n{i} < 0" for i in sums)).isEmpty():
            return set()
        leaves = {name: self.block.sources[name[0]] for name in sums.values()}
        present = {
            (alias, column)
            for (alias, column), leaf in leaves.items()
            if isinstance(leaf, Leaf) and self.evaluation.at(leaf, old=False).where(F.col(quoted(column)).isNull()).isEmpty()
        }
        return {i for i, name in sums.items() if name in present}

    def _met(self, groups: Cut, target: DataFrame, never_null: set[int]) -> DataFrame:
        """The new totals, with whether a group is in doubt, or gone, and how it differs from what is there."""
        there = target.select(*[F.col(quoted(c)).alias(f"o{i}") for i, c in enumerate(self.query.columns)], F.lit(True).alias("there"))
        same = F.lit(True)
        for n, i in enumerate(self.keys):
            same &= there[f"o{i}"].eqNullSafe(F.col(f"u{n}"))
        added = F.broadcast(groups.values) if groups.small else groups.values
        met = there.join(added, same, "right")  # null-safe
        counts = [i for i, total in self.totals.items() if total.kind == "rows"]
        left = F.coalesce(f"o{counts[0]}", F.lit(0)) + F.col(f"a{counts[0]}") if counts else None
        gone = left == 0 if left is not None else F.lit(False)
        doubt = left < 0 if left is not None else F.col("went")
        columns = {i: F.col(f"u{n}") for n, i in enumerate(self.keys)}
        for i, total in self.totals.items():
            columns[i], unknown = _new(i, total.kind, self.query.kinds[i], i in never_null)
            doubt |= unknown
        named = [columns[i].cast(kind).alias(f"c{i}") for i, kind in enumerate(self.query.kinds)]
        old = [F.col(f"o{i}") for i in range(len(named))]
        totals = met.select(*named, *old, "there", gone.alias("gone"), (doubt & ~gone).alias("doubt"))
        made = T.StructType([T.StructField(f"c{i}", kind) for i, kind in enumerate(self.query.kinds)])
        return totals.withColumn(OP, difference(made, F.col("gone"))).drop(*[f"o{i}" for i in range(len(named))], "there")


def _exact(total: str, kind: T.DataType) -> bool:
    if isinstance(kind, T.DecimalType):
        return total != "sum" or kind.precision <= NARROW
    return isinstance(kind, EXACT)


def _decimal(kind: T.DataType, digits: int) -> T.DecimalType:
    return T.DecimalType(digits, kind.scale if isinstance(kind, T.DecimalType) else 0)


def _summed(i: int, kind: str) -> list[Column]:
    """What a total's columns come to."""
    if kind in ("min", "max"):
        least = F.min if kind == "min" else F.max
        return [least(f"a{i}").alias(f"a{i}"), least(f"w{i}").alias(f"w{i}")]
    counted = [F.sum(f"n{i}").alias(f"n{i}")] if kind == "sum" else []
    return [F.sum(f"a{i}").alias(f"a{i}"), *counted]


def _new(i: int, total: str, kind: T.DataType, never_null: bool) -> tuple[Column, Column]:
    """A total's new value, and whether it is in doubt."""
    old, added = F.col(f"o{i}"), F.col(f"a{i}")
    if total in ("count", "rows"):
        return F.coalesce(old, F.lit(0)) + added, F.lit(False)
    if total == "sum":
        wide, zero = _decimal(kind, WIDE), F.lit(0).cast(_decimal(kind, WIDE))
        some, fits = old.isNotNull() | (F.col(f"n{i}") > 0), F.coalesce(old.cast(wide), zero) + F.coalesce(added.cast(wide), zero)
        new = F.when(some, fits.try_cast(kind))
        lost = F.lit(False) if never_null else F.col(f"n{i}") < 0
        return new, lost | (new.isNull() & some)
    went = F.col(f"w{i}")
    new = (F.least if total == "min" else F.greatest)(old, added)
    reached = (went <= new) if total == "min" else (went >= new)
    return new, went.isNotNull() & F.coalesce(reached, F.lit(True))
