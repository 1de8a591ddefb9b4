"""When final rows leave, in batch (rules S2, W6): the first stream time that reaches a window's close, looked up for all windows at once.

Stream time only rises, so that is the smallest value it ever had at or above the close. Closes and stream times are cut into ranges that
tasks sort side by side; where a range has none, the next one's smallest holds.
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
MOMENT, ROW, FOUND, LAST = f"{PREFIX}moment", f"{PREFIX}row", f"{PREFIX}found", f"{PREFIX}last"


def emitted(call: Bound, rows: DataFrame, frame: Frame, clock: Column) -> DataFrame:
    """Final rows with `emit_time` and `emit_reason`; windows that never close are held back or leave at the end [C7]."""
    kind = rows.schema["window_close"].dataType
    clock_by = [c.name for c in frame.extras.get("clock_by", ())]
    clocks = frame.df.select(*map(named, clock_by), clock.cast(kind).alias(MOMENT))
    finals = rows.select(*map(named, clock_by), named("window_close").alias(MOMENT), F.struct(*map(named, rows.columns)).alias(ROW))
    both = clocks.withColumn(ROW, F.lit(None).cast(finals.schema[ROW].dataType)).unionByName(finals)
    is_clock = named(ROW).isNull()
    latest = F.max(F.when(is_clock, named(MOMENT)))
    apart: list[Column] = [named(c) for c in clock_by]
    if clock_by:
        above, last = F.lit(None), latest.over(Window.partitionBy(*apart))
    else:
        both, above = _cut(both, clocks)
        apart, last = [named(RANGE)], clocks.agg(F.max(named(MOMENT))).scalar()
    falling = Window.partitionBy(*apart).orderBy(named(MOMENT).desc(), named(ROW).isNull().desc()).rowsBetween(Window.unboundedPreceding, 0)
    found = F.last(F.when(is_clock, named(MOMENT)), ignorenulls=True).over(falling)
    made = both.withColumns({FOUND: F.coalesce(found, above), **({LAST: last} if clock_by else {})}).where(~is_clock)
    if call["at_end"] == "emit":
        emit, reason = F.coalesce(named(FOUND), named(LAST) if clock_by else last), F.when(named(FOUND).isNull(), "end").otherwise("close")
    else:
        made, emit, reason = made.where(named(FOUND).isNotNull()), named(FOUND), F.lit("close")
    return made.select(*[named(ROW).getField(c).alias(c) for c in rows.columns], emit.alias(EMIT_TIME), reason.alias(EMIT_REASON))


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
