"""SESSIONIZE by Spark's own operators (rules W2 to W4): where no kernel can run.

Where no row is late, a gap opens a session. Else rows are looked at in processing order. A row that comes in time (its own time is not
closed yet) is never late, so the last session of a key ends at the largest time of those, and lives until stream time closes that. A row
that comes when nothing lives, or further than a gap behind that end, starts a new last session; it is late if its own time is closed, too.
A row that lies before the start of the last session may lengthen it, merge it with another, make one of its own or be late: only from
those rows and from the starts sessions are folded, over as long as something lives, and each tells what became of it. Any other row is in
the last session, and has its start's bounds.

What each row did when it came depends on the order of rows. Where times never fall within an island, the rows between two gaps, each goes
on with the session of the row before it, or opens one. The rows of islands in which times fall are folded into the steps that they are.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.plain.folds import AT_ONCE, ONE, collected, fold
from streamtime.sql.rows.clock import STREAM_TIME
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.sorting import HASH, coarse, coarse_number, sorted_runs
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import let, minus, plus, quoted
from streamtime.udfs.closing import of_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from streamtime.sql.rows.frame import Frame

AT, BEFORE, SINCE, LATE, ROW, FIRST = (f"{PREFIX}{name}" for name in ("at", "before", "since", "late", "row", "first"))
WAS_START, WAS_END, START, END, FOLDED, STANDS = (
    f"{PREFIX}{name}" for name in ("was_start", "was_end", "start", "end", "folded", "stands")
)
LARGEST, LIVES, STARTS, BELOW, OWNER, SPELL, FALLS, FELL, FALLING, FURTHEST, LOW, HIGH = (
    f"{PREFIX}{name}"
    for name in ("largest", "lives", "starts", "below", "owner", "spell", "falls", "fell", "falling", "furthest", "low", "high")
)
STEP = {ROW: "row", LATE: "late", WAS_START: "was_low", WAS_END: "was_high", START: "low", END: "high"}


@dataclass(frozen=True)
class SessionTotal:
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


def with_bounds(frame: Frame, identity: Sequence[str], time: Column | None, gap: int, into: tuple[str, str]) -> Frame:
    """Where no row is late: a gap opens a session. `time` is null where a row takes no part; None: all rows do."""
    start, end = into
    kind, its = frame.time.type, frame.time.name if time is None else AT
    df, by = sorted_runs(frame.df if time is None else frame.df.withColumn(its, time), identity, coarse(its, kind))
    keys = [*map(named, by)]
    by_time = Window.partitionBy(*keys).orderBy(named(its).asc_nulls_first())
    at, before = (microseconds(quoted(name), kind) for name in (its, BEFORE))
    df = df.withColumn(BEFORE, F.lag(named(its)).over(by_time))
    opens = F.when(named(BEFORE).isNull() | expression(f"{at} > {plus(before, gap)}"), named(its))
    df = df.withColumn(start, F.max(opens).over(by_time.rowsBetween(Window.unboundedPreceding, 0)))
    df = df.withColumn(end, F.max(named(its)).over(Window.partitionBy(*keys, named(start))))  # for which rows lie in order already
    return frame.with_df(df.drop(AT, BEFORE, HASH))


def with_final_bounds(
    frame: Frame, identity: Sequence[str], clock: str, gap: int, grace: int, several: bool, into: tuple[str, str]
) -> Frame:
    """With late rows, whose bounds are null. `clock` is the column of stream time, which may fall within a key of `several` clocks."""
    kind, takes_part = frame.time.type, frame.has_time & frame.has_key
    numbers = {AT: frame.time.name, SINCE: clock}
    rows = frame.df.withColumns({n: F.when(takes_part, expression(microseconds(quoted(of), kind))) for n, of in numbers.items()})
    rows, by = sorted_runs(rows, identity, "0L" if several else coarse_number(SINCE))
    keys = [*map(named, by)]
    each = Window.partitionBy(*keys).orderBy(*frame.sort())
    rows = _alone(rows, each) if several else _owned(rows, each, gap, grace)
    told = _told(frame.with_df(rows), by, gap, grace, several)
    alone = F.when(~named(BELOW), named(AT))
    rows = rows.withColumns({LOW: alone, HIGH: alone, STANDS: F.lit(True)})
    both = rows.unionByName(told.withColumn(STANDS, F.lit(False)), allowMissingColumns=True)
    its = Window.partitionBy(*keys, named(OWNER))
    both = both.withColumns({LOW: F.min(named(LOW)).over(its), HIGH: F.max(named(HIGH)).over(its)}).where(named(STANDS))
    edges = {
        name: F.when(named(OWNER).isNotNull(), expression(event_time(quoted(edge), kind)))
        for name, edge in zip(into, (LOW, HIGH), strict=True)
    }
    return frame.with_df(both.withColumns(edges))


def _owned(rows: DataFrame, each: WindowSpec, gap: int, grace: int) -> DataFrame:
    """With the number of the row whose session a row is in, `OWNER`: itself where it starts one, or lies `BELOW` the start of the last
    session. It is null where a row comes late when nothing lives. `SPELL` is the number of the row at which something began to live. At
    it `FALLS` is false; it is true of a row that lies before the end of a live session. `FELL` tells whether such a row has come in the
    spell so far, `FALLING` whether one is yet to come. In a spell without, nothing lies below.
    """
    closes = of_sessions(gap, grace).closed_before(quoted(SINCE), plus, minus)
    so_far, before = (each.rowsBetween(Window.unboundedPreceding, last) for last in (0, -1))
    early = expression(f"{quoted(AT)} >= {closes}")
    rows = rows.withColumns({LARGEST: F.max(F.when(early, named(AT))).over(before), ROW: F.row_number().over(each)})
    lives = expression(f"coalesce({quoted(LARGEST)} >= {closes}, false)")
    starts = early & (~named(LIVES) | expression(f"{quoted(AT)} > {plus(quoted(LARGEST), gap)}"))
    rows = rows.withColumn(LIVES, lives).withColumn(STARTS, F.coalesce(starts, F.lit(False)))
    opens = named(STARTS) & ~named(LIVES)
    rows = rows.withColumn(FALLS, F.when(opens, False).when(named(LIVES) & (named(AT) < named(LARGEST)), True))
    start = {
        FIRST: F.last(F.when(named(STARTS), named(AT)), ignorenulls=True),
        OWNER: F.max(F.when(named(STARTS), named(ROW))),
        SPELL: F.max(F.when(opens, named(ROW))),
        FELL: F.last(named(FALLS), ignorenulls=True),
    }
    falling = F.coalesce(expression(f"lead({quoted(FALLS)}) IGNORE NULLS").over(each), F.lit(False))
    rows = rows.withColumns({name: value.over(so_far) for name, value in start.items()} | {FALLING: falling})
    rows = rows.withColumn(BELOW, F.coalesce(named(LIVES) & (named(AT) < named(FIRST)), F.lit(False)))
    owner = F.when(named(BELOW), named(ROW)).when(named(LIVES) | named(STARTS), named(OWNER))
    return rows.withColumn(OWNER, F.when(named(AT).isNotNull(), owner))


def _alone(rows: DataFrame, each: WindowSpec) -> DataFrame:
    """The same where a key's rows follow several clocks: what one of them closed stays closed, so that all rows of a key are folded."""
    rows = rows.withColumns({ROW: F.row_number().over(each), LARGEST: F.lit(None).cast("BIGINT"), STARTS: F.lit(False)})
    part = named(AT).isNotNull()
    return rows.withColumns({BELOW: part, OWNER: F.when(part, named(ROW)), SPELL: F.lit(0)})


def _told(frame: Frame, identity: Sequence[str], gap: int, grace: int, several: bool) -> DataFrame:
    """Keys, `OWNER`, `LOW` and `HIGH` of the sessions that rows make together, for each of the rows that these are folded from."""
    keys = [*map(named, identity)]
    if several:
        spells = frame.only(named(BELOW)).df.groupBy(*keys, named(SPELL)).agg(collected(ROW, SINCE, AT, LARGEST))
    else:  # all starts of a spell in which times fall; and rows after which none falls tell what its last session ends at
        made = named(BELOW) | named(STARTS) & (named(FELL) | named(FALLING))
        some = frame.only(made | named(FELL) & ~named(FALLING)).df.groupBy(*keys, named(SPELL))
        furthest = F.max(F.greatest(named(LARGEST), F.when(named(OWNER).isNotNull(), named(AT)))).alias(FURTHEST)
        spells = some.agg(collected(ROW, SINCE, AT, LARGEST, where=made), furthest, F.max(named(BELOW)).alias(FOLDED)).where(named(FOLDED))
    sessions = spells.select(*keys, F.explode(expression(_sessions(gap, grace, several))).alias(ONE))
    edges = [named(ONE).getField(field).alias(edge) for field, edge in (("low", LOW), ("high", HIGH))]
    return sessions.select(*keys, *edges, F.explode(F.flatten(named(ONE).getField("rows"))).alias(OWNER))


def _sessions(gap: int, grace: int, several: bool) -> str:
    """SQL text for the sessions that rows make, with the numbers of their rows in arrays of arrays. Those that are closed are items.

    Unless a key follows `several` clocks, the last session lives for as long as rows are folded, and ends at `LARGEST`, which rows between
    these have taken it to: in what is folded, its end is behind, and is set when another becomes the last one, or nothing is left.
    """
    at, since, row, largest = (f"one.{quoted(name)}" for name in (AT, SINCE, ROW, LARGEST))
    closes = of_sessions(gap, grace).closed_before(since, plus, minus)
    none = "slice(array(struct(0L AS low, 0L AS high, array(array(0)) AS rows)), 1, 0)"
    last = "x.high = array_max(so_far.live.high)"
    closed = f"(x.high < {closes}{'' if several else f' AND NOT {last}'})"
    touches = f"NOT {closed} AND x.low <= {plus(at, gap)} AND x.high >= {minus(at, gap)}"

    def ended(live: str, largest: str) -> str:
        longer = f"struct(x.low AS low, greatest(x.high, {largest}) AS high, x.rows AS rows)"
        return live if several else f"transform({live}, x -> if({last}, {longer}, x))"

    numbers = f"array(array({row}))"
    longer = f"concat(slice(r, 1, size(r) - 1), array(concat(element_at(r, -1), array({row}))))"
    rows = let("r", "flatten(near.rows)", f"if(size(element_at(r, -1)) < {AT_ONCE}, {longer}, concat(r, {numbers}))")
    merged = f"named_struct('low', least({at}, array_min(near.low)), 'high', greatest({at}, array_max(near.high)), 'rows', {rows})"
    alone = f"named_struct('low', {at}, 'high', {at}, 'rows', {numbers})"
    its = f"CASE WHEN size(near) > 0 THEN array({merged}) WHEN {at} >= {closes} THEN array({alone}) ELSE {none} END"
    others = ended(f"filter(so_far.live, x -> NOT {closed} AND NOT ({touches}))", largest)
    moved = f"concat({others}, {let('near', f'filter(so_far.live, x -> {touches})', its)}) AS live"
    some, them = f"exists(so_far.live, x -> {closed})", f"filter(so_far.live, x -> {closed})"
    return fold({"live": none}, moved, some, them, none, ended("so_far.live", quoted(FURTHEST)))


def _with_first(rows: DataFrame, rising: WindowSpec, gap: int) -> DataFrame:
    """With the first time of each row's island. `rising` has the key's rows in order of time, those without one first."""
    rows = rows.withColumn(BEFORE, F.lag(named(AT)).over(rising))
    # of equal times the first one opens: Spark sorts once for both windows, which have one specification, so that it is the same for both
    opens = expression(f"{quoted(BEFORE)} IS NULL OR {quoted(AT)} > {plus(quoted(BEFORE), gap)}")
    return rows.withColumn(FIRST, F.max(F.when(opens, named(AT))).over(rising.rowsBetween(Window.unboundedPreceding, 0)))


def with_steps(
    frame: Frame, identity: Sequence[str], gap: int, grace: int | None, totals: Sequence[SessionTotal] = (), final: bool = False
) -> Frame:
    """With what each row did to the sessions of its key: `LATE`, and as numbers the four times that `SessionSteps` gives; and with `ROW`,
    the one order of rows that are equal in all columns: each window that sorts by these would give them another.

    Rows have stream time beside them, unless they come in event-time order. Without `grace` no session closes. With the state of each
    total right after the row. With `final`, only rows that `STANDS` is true of count: those after which nothing came to their session.
    """
    identity = list(dict.fromkeys(identity))  # a key may be given twice
    keys, kind = [*map(named, identity)], frame.time.type
    takes_part, order = frame.has_time & frame.has_key, frame.sort()
    numbers = {AT: frame.time.name} | ({} if frame.in_time_order else {SINCE: STREAM_TIME})
    rows = frame.df.withColumns({n: F.when(takes_part, expression(microseconds(quoted(of), kind))) for n, of in numbers.items()})
    if frame.in_time_order:
        rows = rows.withColumn(ROW, F.row_number().over(Window.partitionBy(*keys).orderBy(*order)))
        return frame.with_df(_risen(rows, keys, order, gap, None, totals))
    several = frame.several_clocks
    rising = Window.partitionBy(*keys).orderBy(named(AT).asc_nulls_first())
    first = F.when(named(AT).isNotNull(), F.lit(0).cast("BIGINT"))  # what one clock closed stays closed: all rows of a key are folded
    rows = rows.withColumn(FIRST, first) if several else _with_first(rows, rising, gap)
    island = Window.partitionBy(*keys, named(FIRST))
    each = island.orderBy(*order)
    rows = rows.withColumns({ROW: F.row_number().over(each), BEFORE: F.lag(named(AT)).over(each)})
    fell = named(AT).isNotNull() if several else F.max(F.coalesce(named(AT) < named(BEFORE), F.lit(False))).over(island)
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
    columns_told = [name for name in its if name not in (*identity, FIRST, ROW)]
    made = {name: F.when(named(FOLDED), named(its[name])).otherwise(named(name)) for name in columns_told}
    made |= {STANDS: F.when(named(FOLDED), named(its[ROW]).isNotNull()).otherwise(named(STANDS))} if totals else {}
    return frame.with_df(rows.withColumns(made))


def _risen(
    rows: DataFrame, island: Sequence[Column], order: Sequence[Column], gap: int, grace: int | None, totals: Sequence[SessionTotal]
) -> DataFrame:
    """Where times never fall: a row goes on with the session of the row before it that was not late, if that is near and not closed. `ROW`
    numbers the rows of an `island` in this order.
    """
    so_far = Window.partitionBy(*island).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    closes = None if grace is None else expression(of_sessions(gap, grace).closed_before(quoted(SINCE), plus, minus))
    late = F.lit(False) if closes is None else F.coalesce(named(AT) < closes, F.lit(False))
    before = F.last(F.when(~late, named(AT)), ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, -1))
    near = ~late & (before >= expression(minus(quoted(AT), gap)))
    rows = rows.withColumns({LATE: late, WAS_END: F.when(near if closes is None else near & (before >= closes), before), END: named(AT)})
    opened = F.when(named(WAS_END).isNull() & ~named(LATE), named(AT))
    start = F.when(named(LATE) | named(AT).isNull(), named(AT)).otherwise(F.last(opened, ignorenulls=True).over(so_far))
    rows = rows.withColumn(START, start)
    session = Window.partitionBy(*island, named(LATE), named(START)).orderBy(named(ROW))
    made = {WAS_START: F.when(named(WAS_END).isNotNull(), named(START))}
    if totals:
        made |= {t.name: t.running(session.rowsBetween(Window.unboundedPreceding, 0)) for t in totals}
        made |= {STANDS: F.lead(named(AT)).over(session).isNull() & ~named(LATE)}
    return rows.withColumns(made)


def _steps(gap: int, grace: int | None, totals: Sequence[SessionTotal], final: bool) -> str:
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
