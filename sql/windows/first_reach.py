"""Late rows of time windows, without sorting by arrival (rules C3, C4, W1): the first-reach table.

A window is closed for a row iff the row that first brought stream time to its close came before, or is that row. Windows close at even
steps, so these first rows are few, one for each step: the smallest in processing order of all rows whose time reaches it or a later one.
Then what is late is a filter, and no row is sorted or shuffled for stream time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import HERE, PREFIX
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import HIGHEST, floor_div, quoted
from streamtime.sql.windows.membership import AT, END, START, moments, windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame
    from streamtime.udfs.closing import Closing

STEP, FIRST, BEFORE, REACHED, PLACE, RELEASE = (f"{PREFIX}{name}" for name in ("step", "first", "before", "reached", "place", "release"))
LEAST = f"{PREFIX}least"
NUMBERS = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)  # the least of these is found without a sort
FEW_STEPS = 600_000_000  # steps this far apart are so few, over decades, that a driver can hold a row for each
MOST_CARRIED = 8  # columns in a condition that moves: a few hundred forms of it
MOST_STEPS = 10_000  # between a window's start and its close, for each of which a row may stand in the table


def newest_closed(at: str, slide: int, after: int) -> Column:
    """The number of the last window that is closed at a moment, where windows start every `slide` and close `after` that. Null: none."""
    whole, rest = divmod(after, slide)
    if not rest:
        return expression(f"try_subtract({floor_div(at, slide)}, {whole}L)")
    return expression(f"try_subtract({floor_div(at, slide)}, {whole}L + CAST(pmod({at}, {slide}L) < {rest}L AS BIGINT))")


def filled(by_step: DataFrame, clocks: list[Column], slide: int, after: int) -> DataFrame:
    """A table by steps, with rows for the steps between: each takes what the next step with a row has, as `REACHED`.

    That goes only as far back as a window can be closed after its rows.
    """
    before = F.lag(named(STEP)).over(Window.partitionBy(*clocks).orderBy(named(STEP)))
    farthest = -(-after // slide)
    gap = F.sequence(F.coalesce(named(BEFORE) + 1, named(STEP)), F.least(named(STEP), F.coalesce(named(BEFORE), named(STEP)) + farthest))
    return by_step.withColumn(BEFORE, before).select(*clocks, F.explode(gap).alias(REACHED), named(FIRST))


def is_few(slide: int, after: int) -> bool:
    """Whether a step's first row can stand in a table that every task has."""
    return slide >= FEW_STEPS and -(-after // slide) <= MOST_STEPS


def in_time(frame: Frame, takes_part: Column, size: int, slide: int, closing: Closing, again: bool) -> Frame | None:
    """Each row that takes part, once for each window that was open when it came; `RELEASE` is the stream time that closed the window.

    None: the order of rows is not that of their values, or there are too many windows. `again`: its input may be read once more.
    """
    key, after = frame.sort_key(), closing.after_start(size)
    if key is None or not is_few(slide, after):
        return None
    by_step = _firsts(frame, takes_part, key, slide, after, again)
    falling = Window.orderBy(named(STEP).desc()).rowsBetween(Window.unboundedPreceding, 0)
    first = by_step.withColumn(FIRST, F.min(named(FIRST)).over(falling))  # what reaches no step comes last, and has no gap to fill
    place = named(FIRST).getField(PLACE)
    table = filled(first, [], slide, after).select(
        named(REACHED), place.getField("c0").alias(LEAST), place.alias(PLACE), named(FIRST).getField(RELEASE).alias(RELEASE)
    )
    taking = frame.with_df(frame.df.where(takes_part)) if again else frame.only(takes_part)
    if slide == size:
        rows, never = stepped(taking, size).df, named(STEP) >= -((size - HIGHEST) // size)
    else:
        rows, kind = windowed(taking, takes_part, size, slide).df, moments(frame)
        rows = rows.withColumn(STEP, expression(floor_div(microseconds(quoted(START), kind), slide)))
        never = expression(f"{quoted(END)} >= {moment(f'{HIGHEST}L', kind)}")
    # not null-safe on purpose: each row that takes part has a step, and what reaches no step has no row in the table
    joined = rows.join(F.broadcast(table), named(REACHED) == named(STEP), "left")
    by = frame.order[0].ref.column  # nearly always says it: whole sort keys are made and compared only where it is the same
    came = named(LEAST).isNull() | (by < named(LEAST)) | ((by == named(LEAST)) & (key < named(PLACE))) | never
    # `came` has all columns in it. What users filter by moves below it; but Spark also carries it through each step of a text, in 2^n forms
    narrow = frame.kernels or len(frame.columns) <= MOST_CARRIED
    came_in_time = joined.where(came) if narrow else frame.with_df(joined.drop(HERE)).only(came).df.drop(HERE)
    of_rows = frame.with_df(came_in_time.drop(REACHED, LEAST, PLACE))
    return windowed(of_rows, F.lit(True), size, slide) if slide == size else of_rows  # bounds of those that are left, if anybody asks


def stepped(frame: Frame, size: int, takes_part: Column | None = None) -> Frame:
    """Each row with the number of its window in `STEP`, where windows do not overlap: null for those that take no part."""
    step = expression(floor_div(quoted(AT), size))
    df = frame.df.withColumn(AT, expression(microseconds(quoted(frame.time.name), frame.time.type)))
    return frame.with_df(df.withColumn(STEP, step if takes_part is None else F.when(takes_part, step)).drop(AT))


def _firsts(frame: Frame, takes_part: Column, key: Column, slide: int, after: int, again: bool) -> DataFrame:
    """For each step, as `FIRST`, the row in processing order that was the first of those whose time reaches it and no later one.

    Spark sorts all rows by their steps to find the least of whole sort keys. Of numbers it finds the least as it reads; where the input
    may be read again, that leaves only those rows to be sorted, which have the least ORDER BY value of their step.
    """
    reached = newest_closed(microseconds(quoted(frame.time.name), frame.time.type), slide, after)
    lowest = F.min(F.when(takes_part, F.struct(key.alias(PLACE), frame.time.column.alias(RELEASE)))).alias(FIRST)
    if not (again and isinstance(frame.order[0].ref.type, NUMBERS)):
        return frame.df.groupBy(F.when(takes_part, reached).alias(STEP)).agg(lowest)
    by, rows = frame.order[0].ref.column, frame.df.where(takes_part).withColumn(STEP, reached)
    least = rows.groupBy(named(STEP).alias(AT)).agg(F.min(by).alias(LEAST))
    # not null-safe on purpose: what reaches no step has no row in the table; and one number as a join's key is fastest
    few = rows.join(F.broadcast(least), (named(STEP) == named(AT)) & (by <= named(LEAST)))
    return few.groupBy(named(STEP)).agg(lowest)
