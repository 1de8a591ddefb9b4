"""SESSIONIZE by Spark's own operators (rules W2 to W4): where no kernel can run.

Rows of a key between gaps of event time, an island, are one session if none of them is later than `grace` when it comes: each then finds
alive whatever it connects to. The rows of any other island are folded in processing order, into sessions with the numbers of their rows.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import minus, plus, quoted
from streamtime.sql.windows.folds import AT_ONCE, collected, fold, let

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame

AT, BEFORE, AFTER, SINCE, LATE, ROW, FIRST, LAST = (
    f"{PREFIX}{name}" for name in ("at", "before", "after", "since", "late", "row", "first", "last")
)


def with_bounds(frame: Frame, identity: Sequence[str], time: Column, gap: int, into: tuple[str, str]) -> Frame:
    """Where no row is late: a gap opens a session, and a gap ends it. Takes twice as long as the kernel."""
    df = frame.df.withColumn(AT, time)
    kind = frame.time.type
    each = Window.partitionBy(*map(named, identity))
    rising, falling = (each.orderBy(order(named(AT))) for order in (F.asc_nulls_last, F.desc_nulls_last))
    at, before, after = (microseconds(quoted(name), kind) for name in (AT, BEFORE, AFTER))
    df = df.withColumns({BEFORE: F.lag(named(AT)).over(rising), AFTER: F.lead(named(AT)).over(rising)})
    opens = F.when(named(BEFORE).isNull() | expression(f"{at} > {plus(before, gap)}"), named(AT))
    ends = F.when(named(AFTER).isNull() | expression(f"{after} > {plus(at, gap)}"), named(AT))
    df = df.withColumns({BEFORE: opens, AFTER: ends})
    so_far = Window.unboundedPreceding, Window.currentRow  # rows of one time together
    start, end = (
        F.when(named(AT).isNotNull(), F.last(named(name), ignorenulls=True).over(window.rangeBetween(*so_far)))
        for name, window in ((BEFORE, rising), (AFTER, falling))
    )
    return frame.with_df(df.withColumns(dict(zip(into, (start, end), strict=True))).drop(AT, BEFORE, AFTER))


def with_final_bounds(frame: Frame, identity: Sequence[str], clock: str, gap: int, grace: int, falls: bool, into: tuple[str, str]) -> Frame:
    """With late rows, whose bounds are null. `clock` is the column of stream time, which may fall within a key or not."""
    keys, kind = [*map(named, identity)], frame.time.type
    takes_part = frame.has_time & frame.has_key
    numbers = {AT: frame.time.name, SINCE: clock}
    rows = frame.df.withColumns({n: F.when(takes_part, expression(microseconds(quoted(of), kind))) for n, of in numbers.items()})
    rows = _troubled(rows) if falls else _islands(rows, keys, gap, grace)
    rows = rows.withColumn(ROW, F.row_number().over(Window.partitionBy(*keys, named(FIRST)).orderBy(*frame.sort())))
    some = frame.with_df(rows).only(named(LATE)).df.groupBy(*keys, named(FIRST)).agg(collected(ROW, SINCE, AT))
    its = {i: f"{PREFIX}its_{i}" for i in (*identity, FIRST, ROW)}
    sessions = some.select(*keys, named(FIRST), F.explode(expression(_sessions(gap, grace))).alias("session"))
    sessions = sessions.select(
        *keys, named(FIRST), *(F.col(f"session.{edge}").alias(f"{PREFIX}{edge}") for edge in ("low", "high", "rows"))
    )
    found = sessions.withColumn(ROW, F.explode(F.flatten(named(f"{PREFIX}rows")))).drop(f"{PREFIX}rows").withColumnsRenamed(its)
    same = functools.reduce(operator.and_, (named(mine) == named(other) for mine, other in its.items()))
    rows = rows.join(found, same, "left")  # not null-safe on purpose: a row with a null key or time is in no session
    edges = {
        name: expression(event_time(f"if({quoted(LATE)}, {quoted(PREFIX + edge)}, {quoted(island)})", kind))
        for name, edge, island in zip(into, ("low", "high"), (FIRST, LAST), strict=True)
    }
    return frame.with_df(rows.withColumns(edges))


def _islands(rows: DataFrame, keys: Sequence[Column], gap: int, grace: int) -> DataFrame:
    """With the first and last time of each row's island, and whether a row of it came too late to be sure of its session."""
    rising = Window.partitionBy(*keys).orderBy(named(AT).asc_nulls_last())
    rows = rows.withColumn(BEFORE, F.lag(named(AT)).over(rising))
    opens = expression(f"{quoted(BEFORE)} IS NULL OR {quoted(AT)} > {plus(quoted(BEFORE), gap)}")
    first = F.max(F.when(opens, named(AT))).over(rising.rowsBetween(Window.unboundedPreceding, 0))
    rows = rows.withColumn(FIRST, F.when(named(AT).isNotNull(), first))
    island = Window.partitionBy(*keys, named(FIRST))
    late = expression(f"{quoted(AT)} < {minus(quoted(SINCE), grace)}")
    return rows.withColumns({LAST: F.max(named(AT)).over(island), LATE: F.max(late).over(island)})


def _troubled(rows: DataFrame) -> DataFrame:
    """The same where a key's rows follow several clocks: what one of them closed stays closed, so that all rows of a key are folded."""
    none = F.lit(None).cast("BIGINT")
    return rows.withColumns({LAST: none, LATE: named(AT).isNotNull(), FIRST: F.when(named(AT).isNotNull(), F.lit(0).cast("BIGINT"))})


def _sessions(gap: int, grace: int) -> str:
    """SQL text for the sessions that rows make, with the numbers of their rows in arrays of arrays. Those that are closed are items."""
    at, since, row = (f"one.{quoted(name)}" for name in (AT, SINCE, ROW))
    closes = minus(minus(since, gap), grace)
    none = "slice(array(struct(0L AS low, 0L AS high, array(array(0)) AS rows)), 1, 0)"
    touches = f"x.high >= {closes} AND x.low <= {plus(at, gap)} AND x.high >= {minus(at, gap)}"
    numbers = f"array(array({row}))"
    longer = f"concat(slice(r, 1, size(r) - 1), array(concat(element_at(r, -1), array({row}))))"
    rows = let("r", "flatten(near.rows)", f"if(size(element_at(r, -1)) < {AT_ONCE}, {longer}, concat(r, {numbers}))")
    merged = f"named_struct('low', least({at}, array_min(near.low)), 'high', greatest({at}, array_max(near.high)), 'rows', {rows})"
    alone = f"named_struct('low', {at}, 'high', {at}, 'rows', {numbers})"
    its = f"CASE WHEN size(near) > 0 THEN array({merged}) WHEN {at} >= {closes} THEN array({alone}) ELSE {none} END"
    others = f"filter(so_far.live, x -> x.high >= {closes} AND NOT ({touches}))"
    moved = f"concat({others}, {let('near', f'filter(so_far.live, x -> {touches})', its)}) AS live"
    closed = f"x -> x.high < {closes}"
    return fold({"live": none}, moved, f"exists(so_far.live, {closed})", f"filter(so_far.live, {closed})", none, "so_far.live")
