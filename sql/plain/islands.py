"""SESSIONIZE by Spark's own operators (rules W2 to W4): where no kernel can run.

Rows of a key between gaps of event time, an island, are one session if none of them is later than `grace` when it comes: each then finds
alive whatever it connects to. The rows of any other island are folded in processing order, into sessions with the numbers of their rows.

What each row did when it came depends on the order of rows: where times never fall within an island, each goes on with the session of the
row before it, or opens one. The rows of islands in which times fall are folded into the steps that they are.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.plain.folds import AT_ONCE, collected, fold, let
from streamtime.sql.rows.clock import STREAM_TIME
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import minus, plus, quoted
from streamtime.udfs.closing import in_grace, of_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from streamtime.sql.rows.frame import Frame

AT, BEFORE, AFTER, SINCE, LATE, ROW, FIRST, LAST = (
    f"{PREFIX}{name}" for name in ("at", "before", "after", "since", "late", "row", "first", "last")
)
WAS_START, WAS_END, START, END, FOLDED, STANDS = (
    f"{PREFIX}{name}" for name in ("was_start", "was_end", "start", "end", "folded", "stands")
)
ONE = f"{PREFIX}one"
STEP = {ROW: "row", LATE: "late", WAS_START: "was_low", WAS_END: "was_high", START: "low", END: "high"}


@dataclass(frozen=True)
class Total:
    """What a session's rows come to, whose state stands in the column `name`; `columns` are those it takes. The rest is SQL text.

    `s` is a state, `one` a row, `at` its time; `a` and `b` are states, of which `a` is of earlier rows.
    """

    name: str
    columns: tuple[str, ...]
    kind: str  # the type of the state
    empty: str
    added: str
    merged: str
    running: Callable[[WindowSpec], Column]  # the state row by row, in the order of event time


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
    rows = _with_first(rows, keys, gap)
    island = Window.partitionBy(*keys, named(FIRST))
    late = expression(f"{quoted(AT)} < {in_grace(quoted(SINCE), grace, minus)}")
    return rows.withColumns({LAST: F.max(named(AT)).over(island), LATE: F.max(late).over(island)})


def _with_first(rows: DataFrame, keys: Sequence[Column], gap: int) -> DataFrame:
    """With the first time of each row's island."""
    rising = Window.partitionBy(*keys).orderBy(named(AT).asc_nulls_last())
    rows = rows.withColumn(BEFORE, F.lag(named(AT)).over(rising))
    opens = expression(f"{quoted(BEFORE)} IS NULL OR {quoted(AT)} > {plus(quoted(BEFORE), gap)}")
    first = F.max(F.when(opens, named(AT))).over(rising.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn(FIRST, F.when(named(AT).isNotNull(), first))


def _troubled(rows: DataFrame) -> DataFrame:
    """The same where a key's rows follow several clocks: what one of them closed stays closed, so that all rows of a key are folded."""
    none = F.lit(None).cast("BIGINT")
    return rows.withColumns({LAST: none, LATE: named(AT).isNotNull(), FIRST: F.when(named(AT).isNotNull(), F.lit(0).cast("BIGINT"))})


def _sessions(gap: int, grace: int) -> str:
    """SQL text for the sessions that rows make, with the numbers of their rows in arrays of arrays. Those that are closed are items."""
    at, since, row = (f"one.{quoted(name)}" for name in (AT, SINCE, ROW))
    closes = of_sessions(gap, grace).closed_before(since, plus, minus)
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


def with_steps(
    frame: Frame, identity: Sequence[str], gap: int, grace: int | None, totals: Sequence[Total] = (), final: bool = False
) -> Frame:
    """With what each row did to the sessions of its key: `LATE`, and as numbers the four times that `SessionSteps` gives.

    Rows have stream time beside them, unless they come in event-time order. Without `grace` no session closes. With the state of each
    total right after the row. With `final`, only rows that `STANDS` is true of count: those after which nothing came to their session.
    """
    keys, kind = [*map(named, identity)], frame.time.type
    takes_part, order = frame.has_time & frame.has_key, frame.sort()
    numbers = {AT: frame.time.name} | ({} if frame.in_time_order else {SINCE: STREAM_TIME})
    rows = frame.df.withColumns({n: F.when(takes_part, expression(microseconds(quoted(of), kind))) for n, of in numbers.items()})
    if frame.in_time_order:
        return frame.with_df(_risen(rows, keys, order, gap, None, totals))
    falls = not {c.name for c in frame.extras.get("clock_by", ())} <= {k.name for k in frame.keys}
    rows = _troubled(rows) if falls else _with_first(rows, keys, gap)
    island = Window.partitionBy(*keys, named(FIRST))
    each = island.orderBy(*order)
    rows = rows.withColumns({ROW: F.row_number().over(each), BEFORE: F.lag(named(AT)).over(each)})
    fell = named(AT).isNotNull() if falls else F.max(F.coalesce(named(AT) < named(BEFORE), F.lit(False))).over(island)
    rows = _risen(rows.withColumn(FOLDED, fell), [*keys, named(FIRST)], order, gap, grace, totals)
    columns = dict.fromkeys([ROW, SINCE, AT, *(c for t in totals for c in t.columns)])
    some = frame.with_df(rows).only(named(FOLDED)).df.groupBy(*keys, named(FIRST)).agg(collected(*columns))
    told = some.select(*keys, named(FIRST), F.explode(expression(_steps(gap, grace, totals, final))).alias(ONE))
    its = {name: f"{PREFIX}its_{name}" for name in (*identity, FIRST, *STEP, *(t.name for t in totals))}
    told = told.select(
        *[named(name).alias(its[name]) for name in (*identity, FIRST)],
        *[named(ONE).getField(field).alias(its[name]) for name, field in STEP.items()],
        *[named(ONE).getField(f"s{i}").alias(its[t.name]) for i, t in enumerate(totals)],
    )
    same = functools.reduce(operator.and_, (named(name) == named(its[name]) for name in (*identity, FIRST, ROW)))
    rows = rows.join(told, same, "left")  # not null-safe on purpose: a row with a null key or time takes no part
    found = [name for name in its if name not in (*identity, FIRST, ROW)]
    made = {name: F.when(named(FOLDED), named(its[name])).otherwise(named(name)) for name in found}
    made |= {STANDS: F.when(named(FOLDED), named(its[ROW]).isNotNull()).otherwise(named(STANDS))} if totals else {}
    return frame.with_df(rows.withColumns(made))


def _risen(
    rows: DataFrame, apart: Sequence[Column], order: Sequence[Column], gap: int, grace: int | None, totals: Sequence[Total]
) -> DataFrame:
    """Where times never fall: a row goes on with the session of the row before it that was not late, if that is near and not closed."""
    so_far = Window.partitionBy(*apart).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    closes = None if grace is None else expression(of_sessions(gap, grace).closed_before(quoted(SINCE), plus, minus))
    late = F.lit(False) if closes is None else F.coalesce(named(AT) < closes, F.lit(False))
    before = F.last(F.when(~late, named(AT)), ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, -1))
    near = ~late & (before >= expression(minus(quoted(AT), gap)))
    rows = rows.withColumns({LATE: late, WAS_END: F.when(near if closes is None else near & (before >= closes), before), END: named(AT)})
    opened = F.when(named(WAS_END).isNull() & ~named(LATE), named(AT))
    start = F.when(named(LATE) | named(AT).isNull(), named(AT)).otherwise(F.last(opened, ignorenulls=True).over(so_far))
    rows = rows.withColumn(START, start)
    session = Window.partitionBy(*apart, named(LATE), named(START)).orderBy(*order)
    made = {WAS_START: F.when(named(WAS_END).isNotNull(), named(START))}
    if totals:
        made |= {t.name: t.running(session.rowsBetween(Window.unboundedPreceding, 0)) for t in totals}
        made |= {STANDS: F.lead(named(AT)).over(session).isNull() & ~named(LATE)}
    return rows.withColumns(made)


def _steps(gap: int, grace: int | None, totals: Sequence[Total], final: bool) -> str:
    """SQL text for what rows do, one by one: a step for each, or with `final` the last step of each session.

    A live session is the last step taken in it. `near` are those that a row merges with: `a`, and where there are two, a later `b`.
    """
    at, since, row = (f"one.{quoted(name)}" for name in (AT, SINCE, ROW))
    closes = None if grace is None else of_sessions(gap, grace).closed_before(since, plus, minus)
    states = "".join(f", s{i}: {t.kind}" for i, t in enumerate(totals))
    numbers = ", ".join(f"{name}: BIGINT" for name in ("was_low", "was_high", "low", "high"))
    none = f"CAST(array() AS ARRAY<STRUCT<row: INT, late: BOOLEAN, {numbers}{states}>>)"
    touches = f"x.low <= {plus(at, gap)} AND x.high >= {minus(at, gap)}"
    live = f"filter(so_far.step.live, x -> x.high >= {closes})" if closes else "so_far.step.live"
    late = f"a IS NULL AND {at} < {closes}" if closes else "false"
    made = [f"'row', {row}, 'late', {late}, 'was_low', coalesce(b.low, a.low), 'was_high', a.high"]
    made.append(f"'low', least({at}, a.low), 'high', greatest({at}, a.high, b.high)")
    for i, t in enumerate(totals):
        begins = f"if(b IS NULL, coalesce(a.s{i}, {t.empty}), {let('a', f'a.s{i}', let('b', f'b.s{i}', t.merged))})"
        made.append(f"'s{i}', {let('s', begins, let('at', at, t.added))}")
    told = f"filter(so_far.step.live, x -> x.high < {closes})" if final else "array(it)"
    now = f"concat(filter(open, x -> NOT ({touches})), if(it.late, {none}, array(it)))"
    after = let("it", f"named_struct({', '.join(made)})", f"named_struct('live', {now}, 'told', {told})")
    turned = "get(near, 1).low < get(near, 0).low"
    first, second = (f"if({turned}, get(near, {x}), get(near, {y}))" for x, y in ((1, 0), (0, 1)))
    step = let("open", live, let("near", f"filter(open, x -> {touches})", let("a", first, let("b", second, after))))
    start = {"step": f"named_struct('live', {none}, 'told', {none})"}
    rest = "concat(so_far.step.told, so_far.step.live)" if final else "so_far.step.told"
    return fold(start, f"{step} AS step", "size(so_far.step.told) > 0", "so_far.step.told", none, rest)
