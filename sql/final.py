"""When final rows leave, in batch (rules S2, W6): the first stream time that reaches a window's close, looked up for all windows at once.

Stream time only rises, so that is the smallest value it ever had at or above the close. Time windows close at even steps: a small table has
the answer for each step, and windows are joined to it. Sessions and sliding windows close anywhere: closes and stream times are cut into
ranges that tasks sort side by side; where a range has no stream time above a close, the next one's smallest holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.columns import expression, named
from streamtime.sql.frame import PREFIX
from streamtime.sql.text import microseconds, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call import Bound
    from streamtime.sql.frame import Frame

EMIT_TIME, EMIT_REASON = "emit_time", "emit_reason"
RANGES = 16
WORTH_CUTTING = 100_000  # stream times; fewer are sorted by one task
RANGE, SPAN = f"{PREFIX}range", f"{PREFIX}span"
MOMENT, ROW, FOUND, LAST, STEP, BEFORE = (f"{PREFIX}{name}" for name in ("moment", "row", "found", "last", "step", "before"))
MINUTE = 60_000_000  # steps this far apart are few enough for any task to hold those of decades


def emitted(call: Bound, rows: DataFrame, frame: Frame, clock: Column, steps: tuple[int, int] | None) -> DataFrame:
    """Final rows with `emit_time` and `emit_reason`; windows that never close are held back or leave at the end [C7].

    `steps` is how far apart windows close, and how long after their start, where that is the same for all.
    """
    clock_by = [c.name for c in frame.extras.get("clock_by", ())]
    clocks = frame.df.select(*map(named, clock_by), clock.cast(rows.schema["window_close"].dataType).alias(MOMENT))
    made = _sorted_in(rows, clocks, clock_by) if steps is None else _joined_to(rows, clocks, clock_by, *steps)
    if call["at_end"] == "emit":
        last = clocks.groupBy(*map(named, clock_by)).agg(F.max(named(MOMENT)).alias(LAST))
        made = made.join(F.broadcast(last), clock_by or None, "left" if clock_by else "cross")
        emit, reason = F.coalesce(named(FOUND), named(LAST)), F.when(named(FOUND).isNull(), "end").otherwise("close")
    else:
        made, emit, reason = made.where(named(FOUND).isNotNull()), named(FOUND), F.lit("close")
    return made.select(*map(named, rows.columns), emit.alias(EMIT_TIME), reason.alias(EMIT_REASON))


def _joined_to(rows: DataFrame, clocks: DataFrame, clock_by: list[str], slide: int, after: int) -> DataFrame:
    """Windows with the smallest stream time at or above their close, by the number of their step.

    A step without stream times takes the next one that has some. That is looked for only as far as a window can be closed after its rows.
    """
    kind = rows.schema["window_close"].dataType
    reached = expression(f"CAST(floor(({microseconds(quoted(MOMENT), kind)} - {after}L) / {slide}D) AS BIGINT)")
    by_step = clocks.groupBy(*map(named, clock_by), reached.alias(STEP)).agg(F.min(named(MOMENT)).alias(FOUND))
    before = F.lag(named(STEP)).over(Window.partitionBy(*map(named, clock_by)).orderBy(named(STEP)))
    farthest = -(-after // slide)
    gap = F.sequence(F.coalesce(named(BEFORE) + 1, named(STEP)), F.least(named(STEP), F.coalesce(named(BEFORE), named(STEP)) + farthest))
    table = by_step.withColumn(BEFORE, before).select(*map(named, clock_by), F.explode(gap).alias(STEP), named(FOUND))
    start = microseconds("window_start", kind)
    stepped = rows.withColumn(STEP, expression(f"CAST({start} / {slide}D AS BIGINT)"))
    return stepped.join(F.broadcast(table) if slide >= MINUTE else table, [*clock_by, STEP], "left")


def _sorted_in(rows: DataFrame, clocks: DataFrame, clock_by: list[str]) -> DataFrame:
    """Windows with the smallest stream time at or above their close, from both sorted together."""
    finals = rows.select(*map(named, clock_by), named("window_close").alias(MOMENT), F.struct(*map(named, rows.columns)).alias(ROW))
    both = clocks.withColumn(ROW, F.lit(None).cast(finals.schema[ROW].dataType)).unionByName(finals)
    is_clock, apart, above = named(ROW).isNull(), [named(c) for c in clock_by], F.lit(None)
    if not clock_by:
        both, above = _cut(both, clocks)
        apart = [named(RANGE)]
    falling = Window.partitionBy(*apart).orderBy(named(MOMENT).desc(), named(ROW).isNull().desc()).rowsBetween(Window.unboundedPreceding, 0)
    found = F.last(F.when(is_clock, named(MOMENT)), ignorenulls=True).over(falling)
    made = both.withColumn(FOUND, F.coalesce(found, above)).where(~is_clock)
    return made.select(*[named(ROW).getField(c).alias(c) for c in rows.columns], named(FOUND))


def _cut(both: DataFrame, clocks: DataFrame) -> tuple[DataFrame, Column]:
    """All moments with their range, and for each range the smallest stream time in all ranges above it.

    The cut is used twice, so it must come out the same: it is even, between the smallest and the largest stream time.
    """
    number = microseconds(quoted(MOMENT), both.schema[MOMENT].dataType)
    low, high, count = (f(expression(number)) for f in (F.min, F.max, F.count))
    span = clocks.agg(F.struct(low.alias("low"), high.alias("high"), count.alias("count")).alias("span")).scalar()
    cut = expression(f"least(greatest(floor(({number} - {SPAN}.low) / (({SPAN}.high - {SPAN}.low + 1) / {RANGES}D)), 0), {RANGES})")
    in_range = F.when(named(SPAN).getField("count") >= WORTH_CUTTING, cut.cast("int")).otherwise(F.lit(0))

    def ranged(df: DataFrame) -> DataFrame:
        return df.withColumn(SPAN, span).withColumn(RANGE, in_range).drop(SPAN)

    lowest = ranged(clocks).groupBy(named(RANGE).alias("r")).agg(F.min(named(MOMENT)).alias("m"))
    above = F.array(*[F.min(F.when(F.col("r") > i, F.col("m"))) for i in range(RANGES + 1)])
    return ranged(both), F.get(lowest.agg(above.alias("above")).scalar(), named(RANGE))
