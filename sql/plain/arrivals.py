"""DEDUPLICATE within an interval by Spark's own operators, for rows in any processing order (rules D1 to D8, D10): where no kernel can run.

A row can be kept only if it is no later than `within` when it comes: it is *early enough*. While stream time only rises in a key, such a
row is kept iff the kept row before it has expired. So only the first of those at each stream time counts, and stream time rises from kept
row to kept row. A row whose stream time has passed the largest time before it by more than `within` is kept in any case and begins a
segment. Of the rest, only rows that come after the segment's first one has expired are folded, into further kept rows; a running maximum
over these and all rows tells each row the kept one before it. No column of the input is in an array.

Where stream time may fall within a key (several clocks), or a refresh depends on what was redelivered or has a bound, every row of a key
is folded.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.plain import in_order
from streamtime.sql.plain.folds import COLLECTED, ONE, Chain, collected, fold
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import minus, plus, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from streamtime.sql.rows.frame import Frame

AT, NONE, SINCE, SOURCE, ROW, OWNER = (f"{PREFIX}{name}" for name in ("at", "none", "since", "source", "row", "owner"))
LARGEST, SEEN, FIRST, OPENS, FURTHER = (f"{PREFIX}{name}" for name in ("largest", "seen", "first", "opens", "further"))
KEPT_SINCE, KEPT_AT, KEPT_SOURCE = (f"{PREFIX}kept_{name}" for name in ("since", "at", "source"))
ITSELF = f"{PREFIX}itself"
NEAR_SINCE, NEAR_AT, NEAR_SOURCE = (f"{PREFIX}near_{name}" for name in ("since", "at", "source"))


@dataclass(frozen=True)
class Intervals:
    """What there is to know of a call: columns to compare, of the key and of the source record; options."""

    identity: Sequence[str]
    offset: Sequence[str]
    within: int
    keep: str
    refresh: bool
    falls: bool  # whether stream time may fall within a key
    at_most: int | None = None
    tells: bool = True  # whether anybody asks for the time of the kept row, or only whether there is one

    @property
    def reverse(self) -> bool:
        """Whether rows are taken from the last to the first, with negated times (rule D8)."""
        return self.keep == "last"


def with_kept(frame: Frame, clock: str, asked: Intervals, into: str) -> Frame:
    """The frame with the time of the kept row whose duplicate a row is, null where it passes. `clock` is the column of stream time."""
    keys = [*map(named, asked.identity)]  # alone, so that what follows finds rows where they are; those that take no part come last
    rows = frame.df.withColumn(AT, _number(frame, frame.time.name, asked))
    if frame.in_time_order and not asked.refresh:
        return frame.with_df(_told(frame, _in_order(frame.with_df(rows), asked), asked, into))
    rows = rows.withColumns({SINCE: _number(frame, clock, asked), SOURCE: _source(asked.offset)})
    rows = rows.withColumn(NONE, named(AT).isNull())  # a column, so that windows one after the other find rows sorted
    each = Window.partitionBy(*keys).orderBy(named(NONE), *frame.sort(reverse=asked.reverse))
    if asked.refresh and asked.at_most is None and not asked.offset and not asked.falls:
        rows = _refreshed(rows, each.rowsBetween(Window.unboundedPreceding, -1), asked)
    elif asked.refresh or asked.falls:
        rows = _folded(frame.with_df(rows.withColumn(ROW, F.when(named(AT).isNotNull(), F.row_number().over(each)))), asked)
    else:
        rows = _chained(frame.with_df(rows), each, asked)
    return frame.with_df(_told(frame, rows, asked, into))


def _told(frame: Frame, rows: DataFrame, asked: Intervals, into: str) -> DataFrame:
    """With the kept time as a time."""
    kept = f"~({quoted(KEPT_AT)})" if asked.reverse else quoted(KEPT_AT)
    return rows.withColumn(into, expression(event_time(kept, frame.time.type)))


def _in_order(frame: Frame, asked: Intervals) -> DataFrame:
    """Where no row is late: a row is kept, or a duplicate of the row that was kept last."""
    ties = frame.sort(reverse=asked.reverse)[1:]  # the first is the time
    told = {KEPT_SOURCE: _source(asked.offset)} if asked.offset else {}
    kept = KEPT_AT if asked.tells or asked.keep == "unique" else None
    rows = in_order.with_kept(frame.df, asked.identity, AT, ties, asked.within, (kept, ITSELF), told)
    passes = named(ITSELF)
    if asked.offset:
        passes |= F.coalesce(_source(asked.offset) == named(KEPT_SOURCE).getField("of"), F.lit(False))
    if not kept:
        return rows.withColumn(KEPT_AT, F.when(~passes, named(AT)))
    rows = rows.withColumn(OWNER, named(KEPT_AT)).withColumn(KEPT_AT, F.when(~passes, named(KEPT_AT)))
    return _unique(rows, [*map(named, asked.identity)]) if asked.keep == "unique" else rows


def _number(frame: Frame, time: str, asked: Intervals) -> Column:
    at = microseconds(quoted(time), frame.time.type)
    at = f"~({at})" if asked.reverse else at
    return F.when(frame.has_time & frame.has_key, expression(at))


def _source(offset: Sequence[str]) -> Column:
    """The source record of a row; null where it is not known, which is like no other."""
    known = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in offset) or "false"
    return F.when(expression(known), F.struct(*[named(name).alias(f"o{i}") for i, name in enumerate(offset)]) if offset else F.lit(0))


def _refreshed(rows: DataFrame, before: WindowSpec, asked: Intervals) -> DataFrame:
    """What is kept is the largest time before: a late row that is not remembered is smaller than a live one, and not live itself."""
    within = asked.within
    rows = rows.withColumn(LARGEST, F.max(named(AT)).over(before))
    alive = f"{quoted(SINCE)} <= {plus(quoted(LARGEST), within)} AND {quoted(AT)} >= {minus(quoted(LARGEST), within)}"
    rows = rows.withColumn(KEPT_AT, expression(f"if({alive}, {quoted(LARGEST)}, NULL)"))
    if asked.keep != "unique":
        return rows
    early = expression(f"{quoted(AT)} >= {minus(quoted(SINCE), within)}")
    return _unique(rows.withColumn(OWNER, F.coalesce(named(KEPT_AT), F.when(early, named(AT)))), [*map(named, asked.identity)])


def _chained(frame: Frame, each: WindowSpec, asked: Intervals) -> DataFrame:
    """Where stream time rises: rows that can be kept, those that are in any case, and what a fold adds to them."""
    within, keys = asked.within, [*map(named, asked.identity)]
    before, running = (each.rowsBetween(Window.unboundedPreceding, last) for last in (-1, 0))
    early = f"{quoted(AT)} >= {minus(quoted(SINCE), within)}"
    rows = frame.df.withColumns({to: F.max(F.when(expression(early), named(of))).over(before) for to, of in ((LARGEST, AT), (SEEN, SINCE))})
    first = f"({quoted(SEEN)} IS NULL OR {quoted(SEEN)} < {quoted(SINCE)})"
    rows = rows.withColumn(FIRST, expression(f"{early} AND {first}"))
    opens = expression(f"{quoted(FIRST)} AND ({quoted(LARGEST)} IS NULL OR {quoted(SINCE)} > {plus(quoted(LARGEST), within)})")
    rows = rows.withColumn(OPENS, opens)
    rows = rows.withColumns(_latest(OPENS, running, asked, (KEPT_SINCE, KEPT_AT, KEPT_SOURCE)))
    over = expression(f"{quoted(FIRST)} AND {quoted(SINCE)} > {plus(quoted(KEPT_AT), within)}")
    again = frame.with_df(rows.withColumn(ROW, F.row_number().over(each))).only(over).df
    chain = Chain(quoted(KEPT_AT), ROW, SINCE, AT, within, (SOURCE,) if asked.offset else ())
    taken = chain.taken(again, [*keys, named(KEPT_AT), named(KEPT_SINCE)])
    further = taken.drop(KEPT_AT, KEPT_SINCE).withColumn(FURTHER, F.lit(True))
    both = rows.withColumn(FURTHER, F.lit(False)).unionByName(further, allowMissingColumns=True)
    near = Window.partitionBy(*keys).orderBy(named(SINCE).asc_nulls_last()).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    rows = both.withColumns(_latest(FURTHER, near, asked, (NEAR_SINCE, NEAR_AT, NEAR_SOURCE))).where(~named(FURTHER))
    if asked.offset:
        newer = named(NEAR_SINCE) > named(KEPT_SINCE)
        rows = rows.withColumn(KEPT_SOURCE, F.when(newer, named(NEAR_SOURCE)).otherwise(named(KEPT_SOURCE)))
    rows = rows.withColumns({k: F.greatest(named(k), named(n)) for k, n in ((KEPT_SINCE, NEAR_SINCE), (KEPT_AT, NEAR_AT))})
    itself = f"({quoted(KEPT_SINCE)} = {quoted(SINCE)} AND {first})"  # or a late row before it, which none kept earlier reaches
    alive = f"{quoted(SINCE)} <= {plus(quoted(KEPT_AT), within)} AND {quoted(AT)} >= {minus(quoted(KEPT_AT), within)}"
    dropped = f"NOT {itself} AND {alive}"
    if asked.offset:
        dropped += f" AND NOT coalesce({quoted(SOURCE)} = {quoted(KEPT_SOURCE)}.{quoted(SOURCE)}, false)"
    if asked.keep == "unique":
        owner = expression(f"if(({dropped}) OR ({itself} AND {early}), {quoted(KEPT_SINCE)}, NULL)")
        rows = rows.withColumn(OWNER, owner)
    rows = rows.withColumn(KEPT_AT, expression(f"if({dropped}, {quoted(KEPT_AT)}, NULL)"))
    return _unique(rows, keys) if asked.keep == "unique" else rows


def _latest(of: str, over: WindowSpec, asked: Intervals, into: tuple[str, str, str]) -> dict[str, Column]:
    """Stream time and time of the last row of which this is true, both of which only rise; and where asked its source record."""
    since, at, source = into
    made = {name: F.max(F.when(named(of), named(value))).over(over) for name, value in ((since, SINCE), (at, AT))}
    if asked.offset:
        made[source] = F.last(F.when(named(of), F.struct(named(SOURCE))), ignorenulls=True).over(over)
    return made


def _folded(frame: Frame, asked: Intervals) -> DataFrame:
    """Row by row, as the rules say it: a key's rows are numbered, and each finds its verdict by number."""
    within, keys = asked.within, [*map(named, asked.identity)]
    rows = frame.df
    rows_of_keys = frame.only(named(AT).isNotNull()).df.groupBy(*keys).agg(collected(ROW, AT, SINCE, SOURCE))
    at, since, source, row = (f"one.{quoted(name)}" for name in (AT, SINCE, SOURCE, ROW))
    last, first = plus("so_far.at", within), minus("so_far.at", within)
    near = f"{at} BETWEEN {first} AND {last}"
    near += "" if asked.at_most is None else f" AND {at} <= {plus('so_far.passed', asked.at_most)}"
    alive = f"(so_far.at IS NOT NULL AND {since} <= {last} AND {near})"
    again = f"coalesce({source} = so_far.source, false)"
    early = f"{at} >= {minus(since, within)}"
    refreshed = f"if({again}, so_far.at, greatest(so_far.at, {at}))" if asked.refresh else "so_far.at"
    moved = ", ".join(
        (
            f"if({alive}, {refreshed}, if({early}, {at}, so_far.at)) AS at",
            *(
                f"if({alive} OR NOT {early}, so_far.{name}, {value}) AS {name}"
                for name, value in (("source", source), ("row", row), ("passed", at))
            ),
        )
    )
    verdict = f"struct({row} AS {quoted(ROW)}, so_far.at AS {quoted(KEPT_AT)}, so_far.row AS {quoted(OWNER)})"
    start = {"at": "CAST(NULL AS BIGINT)", "source": f"get({quoted(COLLECTED)}, -1).{quoted(SOURCE)}", "row": "CAST(NULL AS INT)"}
    start["passed"] = "CAST(NULL AS BIGINT)"
    unknown = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in ((ROW, "INT"), (KEPT_AT, "BIGINT"), (OWNER, "INT")))
    none = f"slice(array(struct({unknown})), 1, 0)"
    verdicts = fold(start, moved, f"{alive} AND NOT {again}", f"array({verdict})", none)
    its = {i: f"{PREFIX}its_{i}" for i in (*asked.identity, ROW)}
    told = rows_of_keys.select(*keys, F.explode(expression(verdicts)).alias(ONE)).select(*keys, f"{ONE}.*").withColumnsRenamed(its)
    same = functools.reduce(operator.and_, (named(mine) == named(other) for mine, other in its.items()))
    rows = rows.join(told, same, "left")  # not null-safe on purpose: a row with a null key or time is nobody's duplicate
    if asked.keep != "unique":
        return rows
    kept = named(AT).isNotNull() & named(OWNER).isNull()
    return _unique(rows.withColumn(OWNER, F.when(kept, named(ROW)).otherwise(named(OWNER))), keys)


def _unique(rows: DataFrame, keys: Sequence[Column]) -> DataFrame:
    """A kept row that drops another is dropped, too (rule D8): rows with the same `OWNER`."""
    several = named(OWNER).isNotNull() & (F.count(F.lit(1)).over(Window.partitionBy(*keys, named(OWNER))) > 1)
    return rows.withColumn(KEPT_AT, F.coalesce(named(KEPT_AT), F.when(several, named(AT))))
