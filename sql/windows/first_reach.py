"""Late rows of time windows, without sorting by arrival (rules C3, C4, W1): the first-reach table.

A window is closed for a row iff the row that first brought stream time to its close came before, or is that row. Windows close at even
steps, so these first rows are few, one for each step: the smallest in processing order of all rows whose time reaches it or a later one.
Then what is late is a filter, and no row is sorted or shuffled for stream time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import HIGHEST, floor_div, quoted
from streamtime.sql.windows.membership import END, START, moments, windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame

STEP, FIRST, BEFORE, REACHED, PLACE, FOUND = (f"{PREFIX}{name}" for name in ("step", "first", "before", "reached", "place", "found"))
FEW_STEPS = 600_000_000  # steps this far apart are so few, over decades, that a driver can hold a row for each
MOST_STEPS = 10_000  # between a window's start and its close, for each of which a row may stand in the table


def newest_closed(at: str, slide: int, after: int) -> Column:
    """The number of the last window that is closed at a moment, where windows start every `slide` and close `after` that. Null: none."""
    whole, rest = divmod(after, slide)
    return expression(f"try_subtract({floor_div(at, slide)}, {whole}L + CAST(pmod({at}, {slide}L) < {rest}L AS BIGINT))")


def filled(by_step: DataFrame, apart: list[Column], slide: int, after: int) -> DataFrame:
    """A table by steps, with rows for the steps between: each takes what the next step with a row has, as `REACHED`.

    That goes only as far back as a window can be closed after its rows.
    """
    before = F.lag(named(STEP)).over(Window.partitionBy(*apart).orderBy(named(STEP)))
    farthest = -(-after // slide)
    gap = F.sequence(F.coalesce(named(BEFORE) + 1, named(STEP)), F.least(named(STEP), F.coalesce(named(BEFORE), named(STEP)) + farthest))
    return by_step.withColumn(BEFORE, before).select(*apart, F.explode(gap).alias(REACHED), named(FIRST))


def is_few(slide: int, after: int) -> bool:
    """Whether a step's first row can stand in a table that every task has."""
    return slide >= FEW_STEPS and -(-after // slide) <= MOST_STEPS


def in_time(frame: Frame, takes_part: Column, size: int, slide: int, grace: int) -> Frame | None:
    """Each row that takes part, once for each window that was open when it came; `FOUND` is the stream time that closed the window.

    None: the order of rows is not that of their values, or there are too many windows.
    """
    place = frame.place()
    if place is None or not is_few(slide, size + grace):
        return None
    time = frame.time.column
    reached = newest_closed(microseconds(quoted(frame.time.name), frame.time.type), slide, size + grace)
    lowest = F.min(F.when(takes_part, F.struct(place.alias(PLACE), time.alias(FOUND))))
    by_step = frame.df.groupBy(F.when(takes_part, reached).alias(STEP)).agg(lowest.alias(FIRST))
    falling = Window.orderBy(named(STEP).desc()).rowsBetween(Window.unboundedPreceding, 0)
    first = by_step.withColumn(FIRST, F.min(named(FIRST)).over(falling))  # what reaches no step comes last, and has no gap to fill
    rows = windowed(frame.only(takes_part), takes_part, size, slide).df
    kind = moments(frame)
    rows = rows.withColumns({STEP: expression(floor_div(microseconds(quoted(START), kind), slide)), PLACE: place})
    # not null-safe on purpose: each row that takes part has a step, and what reaches no step has no row in the table
    joined = rows.join(F.broadcast(filled(first, [], slide, size + grace)), named(REACHED) == named(STEP), "left")
    never = expression(f"{quoted(END)} >= {moment(f'{HIGHEST}L', kind)}")
    came = named(FIRST).isNull() | (named(PLACE) < named(FIRST).getField(PLACE)) | never
    return frame.with_df(joined.where(came).withColumn(FOUND, named(FIRST).getField(FOUND)).drop(STEP, FIRST, REACHED, PLACE))
