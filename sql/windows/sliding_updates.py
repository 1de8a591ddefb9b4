"""WINDOW_UPDATES over sliding windows by Spark's own operators (rules W1, W5, W6, C10): where no kernel can run.

Each row stands once for each window that may ever be and has it, which its neighbours in time say; and once for the window that begins
right after it. In a window, a row that ends it, or after which it begins, calls it into being, as soon as rows are in it. What it came to
by then is an aggregate over its rows so far, in processing order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import minus, plus, quoted
from streamtime.sql.windows.membership import END, START, clocked, moments
from streamtime.sql.windows.release import emitted
from streamtime.sql.windows.window_updates import LATEST, NEXT, NUMBER, SEQ, laid_out, shared, states

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.windows.updates import Changing

AT, HORIZON, HALF, NEAR, WINDOW, ENDS, BEGUN, HAD, PLACE, OF = (
    f"{PREFIX}{name}" for name in ("at", "horizon", "half", "near", "window", "ends", "begun", "had", "place", "of_")
)


def plainly(call: Bound, changing: Changing) -> DataFrame:
    """The changes of a call in batch, or its final rows. Raises Unplain: an aggregate that only a kernel adds up."""
    frame, difference = changing.frame, call["difference"]
    takes_part = frame.has_time & frame.has_key
    frame, stream_time = clocked(frame, takes_part)
    frame = frame.only(takes_part)
    keys = [*map(named, dict.fromkeys(changing.identity))]
    at, now = (expression(microseconds(quoted(name), frame.time.type)) for name in (frame.time.name, stream_time))
    df = frame.df.withColumns({NUMBER: F.row_number().over(Window.partitionBy(*keys).orderBy(*frame.sort())), AT: at, HORIZON: now})
    if not frame.in_time_order:
        before = changing.updates.closing.closed_before(quoted(HORIZON), plus, minus)
        df = df.withColumn(HORIZON, expression(before))
        df = df.where(expression(f"{plus(quoted(AT), difference)} >= {quoted(HORIZON)}"))
    df = _in_windows(df, keys, difference)
    each = Window.partitionBy(*keys, named(START), named(END)).orderBy(named(NUMBER))
    so_far = each.rowsBetween(Window.unboundedPreceding, 0)
    inside = named(AT) >= named(START)
    arguments = {one.column: f"{OF}{i}" for i, (one, _) in enumerate(changing.updates.layout.aggregates)}  # '' of count(*)
    df = df.withColumns({of: F.when(inside, named(column) if column else F.lit(True)) for column, of in arguments.items()})
    df = df.withColumn(PLACE, F.when(inside, F.struct(named(AT).alias("at"), named(NUMBER).alias("number"))))
    aggregates = [replace(one, column=arguments[one.column]) for one, _ in changing.updates.layout.aggregates]
    made, results = states(df, changing, aggregates, named(PLACE), so_far, by_time=True)
    before = each.rowsBetween(Window.unboundedPreceding, -1)
    calls = ~inside | named(ENDS)  # into being
    made |= {name: F.coalesce(F.max(of).over(before), F.lit(False)) for name, of in ((BEGUN, calls), (HAD, inside))}
    df = df.withColumns(made | {LATEST: F.max(F.when(inside, named(frame.time.name))).over(so_far)})
    changes = F.when(inside, named(BEGUN) | named(ENDS)).otherwise(~named(BEGUN) & named(HAD))
    df = df.where(changes if frame.in_time_order else changes & (named(END) >= named(HORIZON)))
    rows, final = frame.with_df(df), call["emit"] == "final"
    same = [named(NUMBER)] if final else shared(changing)
    df = df.withColumn(SEQ, F.row_number().over(Window.partitionBy(*keys, *same).orderBy(*_turn())).cast("bigint") - 1)
    if final:
        df = df.withColumn(NEXT, F.lead(named(NUMBER)).over(each)).where(named(NEXT).isNull())
    kind = moments(frame)
    df = df.withColumns({edge: expression(moment(quoted(edge), kind)) for edge in (START, END)})
    made_rows = df.select(*laid_out(rows.with_df(df), changing, results))
    return emitted(call, made_rows, frame, named(stream_time), None) if final else made_rows


def _in_windows(df: DataFrame, keys: list[Column], difference: int) -> DataFrame:
    """Rows beside the bounds of a window each, and whether it `ENDS` at its row. A bound beyond the ends of BIGINT stands there.

    Times are counted in halves to find a row's neighbours, so that no sum is too large, and compared to the microsecond.
    """
    at, reach = quoted(AT), (difference + 1) // 2 + 1
    near = Window.partitionBy(*keys).orderBy(named(HALF)).rangeBetween(-reach, reach)
    df = df.withColumn(HALF, expression(f"shiftright({at}, 1)")).withColumn(NEAR, F.collect_set(named(AT)).over(near))
    ending = _windows(f"p >= {at} AND p <= {plus(at, difference)}", minus("p", difference), "p")
    begun = _windows(f"p < {at} AND p >= {minus(at, difference + 1)}", plus("p", 1), plus("p", difference + 1))
    after = f"named_struct('low', {plus(at, 1)}, 'high', {plus(at, difference + 1)})"
    some = f"exists({quoted(NEAR)}, p -> p > {at} AND p <= {plus(at, difference + 1)})"  # else it never has a row
    every = f"array_distinct(concat({ending}, {begun}, if({some}, array({after}), slice(array({after}), 1, 0))))"
    df = df.withColumn(WINDOW, F.explode(expression(every))).withColumns(
        {START: named(WINDOW).getField("low"), END: named(WINDOW).getField("high")}
    )
    ends = f"{quoted(END)} = {at} AND {quoted(START)} = {minus(at, difference)}"
    return df.withColumn(ENDS, expression(ends)).drop(HALF, NEAR, WINDOW)


def _windows(of: str, low: str, high: str) -> str:
    """SQL text for windows by the times `p` near a row."""
    return f"transform(filter({quoted(NEAR)}, p -> {of}), p -> named_struct('low', {low}, 'high', {high}))"


def _turn() -> list[Column]:
    """The order of a row's changes: of windows that were there, the latest first; then of one that began before it, that ends at it, that
    begins after it.
    """
    there, end, start = named(BEGUN) & named(HAD), named(END), named(START)
    fresh = F.when(named(ENDS), 1).when(named(AT) < start, 2).otherwise(0)
    latest_first = [F.when(there, edge).desc() for edge in (end, start)]
    return [named(NUMBER), there.desc(), *latest_first, fresh]
