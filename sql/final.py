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
MOMENT, IS_CLOCK, FOUND = f"{PREFIX}moment", f"{PREFIX}is_clock", f"{PREFIX}found"


def emitted(call: Bound, rows: DataFrame, frame: Frame, clock: Column) -> DataFrame:
    """Final rows with `emit_time` and `emit_reason`; windows that never close are held back or leave at the end [C7]."""
    kind = rows.schema["window_close"].dataType
    clock_by = [c.name for c in frame.extras.get("clock_by", ())]
    clocks = frame.df.select(*map(named, clock_by), clock.cast(kind).alias(MOMENT)).distinct()
    both = rows.withColumns({MOMENT: named("window_close"), IS_CLOCK: F.lit(False)}).unionByName(
        clocks.withColumn(IS_CLOCK, F.lit(True)), allowMissingColumns=True
    )
    rising = F.when(named(IS_CLOCK), named(MOMENT))
    if clock_by:
        order = Window.partitionBy(*map(named, clock_by)).orderBy(named(MOMENT).desc(), named(IS_CLOCK).desc())
        found = F.last(rising, ignorenulls=True).over(order)
        last = F.max(rising).over(Window.partitionBy(*map(named, clock_by)))
    else:
        both, above = _cut(both, clocks)
        order = Window.partitionBy(named(RANGE)).orderBy(named(MOMENT).desc(), named(IS_CLOCK).desc())
        found = F.coalesce(F.last(rising, ignorenulls=True).over(order), F.get(above, named(RANGE)))
        last = clocks.agg(F.max(named(MOMENT))).scalar()
    made = both.withColumn(FOUND, found)
    if call["at_end"] == "emit":
        made = made.withColumn(EMIT_TIME, F.coalesce(named(FOUND), last)).where(~named(IS_CLOCK))
        reason = F.when(named(FOUND).isNull(), "end").otherwise("close")
    else:
        made = made.withColumn(EMIT_TIME, named(FOUND)).where(~named(IS_CLOCK) & named(FOUND).isNotNull())
        reason = F.lit("close")
    return made.select(*map(named, rows.columns), named(EMIT_TIME), reason.alias(EMIT_REASON))


def _cut(both: DataFrame, clocks: DataFrame) -> tuple[DataFrame, Column]:
    """All moments with their range, and an array: for each range, the smallest stream time in all ranges above it.

    The cut is used twice, so it must come out the same: it is even, between the smallest and the largest stream time.
    """
    number = microseconds(quoted(MOMENT), both.schema[MOMENT].dataType)
    in_numbers = clocks.select(expression(number).alias("m"))
    low, high, count = F.min("m").alias("low"), F.max("m").alias("high"), F.count(F.lit(1)).alias("count")
    span = in_numbers.agg(F.struct(low, high, count).alias("span")).scalar()
    cut = expression(f"least(greatest(floor(({number} - {SPAN}.low) / (({SPAN}.high - {SPAN}.low + 1) / {RANGES}D)), 0), {RANGES})")
    in_range = F.when(named(SPAN).getField("count") >= WORTH_CUTTING, cut.cast("int")).otherwise(F.lit(0))

    def ranged(df: DataFrame) -> DataFrame:
        return df.withColumn(SPAN, span).withColumn(RANGE, in_range).drop(SPAN)

    lowest = ranged(clocks).groupBy(named(RANGE).alias("r")).agg(F.min(named(MOMENT)).alias("m"))
    above = F.array(*[F.min(F.when(F.col("r") > i, F.col("m"))) for i in range(RANGES + 1)])
    return ranged(both), lowest.agg(above.alias("above")).scalar()
