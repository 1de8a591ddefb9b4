"""When final rows leave, in batch (rules S2, W6): the first stream time that reaches a window's close, looked up for all windows at once.

Stream time only rises, so that is the smallest value it ever had at or above the close. Time windows close at even steps: a small table has
the answer for each step, and windows are joined to it. Sessions and sliding windows close anywhere: closes and stream times are cut into
ranges that tasks sort side by side; where a range has no stream time above a close, the next one's smallest holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, hash_of_all, named, together
from streamtime.sql.rows.frame import HERE, PREFIX
from streamtime.sql.rows.ranges import FEWEST, RANGE, Ranges
from streamtime.sql.rows.scans import straight_from_files
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import HIGHEST, floor_div, quoted
from streamtime.sql.windows.first_reach import FIRST, MOST_STEPS, REACHED, RELEASE, STEP, filled, newest_closed
from streamtime.sql.windows.membership import instant

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

EMIT_TIME, EMIT_REASON = "emit_time", "emit_reason"
WORTH_CUTTING = 100_000  # stream times; fewer are sorted by one task
SPAN, APART = f"{PREFIX}span", f"{PREFIX}apart"
MOMENT, ROW, LAST, CLOCK, TIMES = (f"{PREFIX}{name}" for name in ("moment", "row", "last", "clock", "times"))
MINUTE = 60_000_000  # steps this far apart are few enough for any task to hold those of decades


def emitted(call: Bound, rows: DataFrame, frame: Frame, stream_time: Column, steps: tuple[int, int] | None) -> DataFrame:
    """Final rows with `emit_time` and `emit_reason`; windows that never close are held back or leave at the end [C7].

    `steps` is how far apart windows close, and how long after their start, where that is the same for all.
    """
    known = [c.name for c in frame.clocks if not isinstance(c.type, T.NullType)]  # a join never finds a VOID, not by <=>
    clock_by = {f"{CLOCK}_{i}": name for i, name in enumerate(dict.fromkeys(known))}
    at = instant(frame, stream_time).alias(MOMENT)
    clocks = frame.df.select(*[named(name).alias(its) for its, name in clock_by.items()], at)
    if steps is None and not clock_by and frame.kernels and not (frame.in_time_order and straight_from_files(frame)):
        clocks = whole(clocks.groupBy(named(MOMENT)).agg(F.count(F.lit(1)).alias(TIMES)))  # they are asked for several times
    return released_by(call, rows, clocks, clock_by, steps)


def whole(df: DataFrame, *, once: bool = True) -> DataFrame:
    """The same rows; used twice, they are computed once: for Spark to see that, both uses must ask for all columns.

    Not `once`: in a text, Spark shuffles all that is not deterministic and stands in two places, to keep it. There it sees for itself that
    what is below the last shuffle is the same, and what is above that is computed twice.
    """
    hashed = hash_of_all(df.schema)
    either = expression(f"spark_partition_id() >= 0 OR {hashed} = 0" if once else f"{hashed} >= {-(2**31)}")
    return df.withColumn(HERE, either).where(named(HERE)).drop(HERE)


def released_by(call: Bound, rows: DataFrame, clocks: DataFrame, clock_by: dict[str, str], steps: tuple[int, int] | None) -> DataFrame:
    """The same; `clocks` are the stream times as `MOMENT`, at least those at which windows close, and the last."""
    even = steps is not None and -(-steps[1] // steps[0]) <= MOST_STEPS
    made = _joined_to(rows, clocks, clock_by, *steps) if steps is not None and even else _sorted_in(rows, clocks, clock_by, call.kernels)
    return as_they_leave(call, made, rows.columns, clocks, clock_by)


def as_they_leave(call: Bound, made: DataFrame, columns: Sequence[str], clocks: DataFrame, clock_by: dict[str, str]) -> DataFrame:
    """Final rows with `RELEASE`, the stream time that released each, as they leave: those without are held back, or leave at the end."""
    if call["at_end"] == "emit":
        last = clocks.groupBy(*map(named, clock_by)).agg(F.max(named(MOMENT)).alias(LAST))
        made = made.join(F.broadcast(last), together(clock_by), "left")
        emit, reason = F.coalesce(named(RELEASE), named(LAST)), F.when(named(RELEASE).isNull(), "end").otherwise("close")
    else:
        made, emit, reason = made.where(named(RELEASE).isNotNull()), named(RELEASE), F.lit("close")
    return made.select(*map(named, columns), emit.alias(EMIT_TIME), reason.alias(EMIT_REASON))


def _joined_to(rows: DataFrame, clocks: DataFrame, clock_by: dict[str, str], slide: int, after: int) -> DataFrame:
    """Windows with the smallest stream time at or above their close, by the number of their step.

    A step without stream times takes the next one that has some. That is looked for only as far as a window can be closed after its rows.
    """
    kind, its = rows.schema["window_close"].dataType, [named(clock) for clock in clock_by]
    reached = newest_closed(microseconds(quoted(MOMENT), kind), slide, after)
    by_step = clocks.groupBy(*its, reached.alias(STEP)).agg(F.min(named(MOMENT)).alias(FIRST)).where(named(STEP).isNotNull())
    table = filled(by_step, its, slide, after).withColumnRenamed(FIRST, RELEASE)
    stepped = rows.withColumn(STEP, expression(floor_div(microseconds("window_start", kind), slide)))
    made = stepped.join(F.broadcast(table) if slide >= MINUTE else table, together(clock_by | {REACHED: STEP}), "left")
    return made.drop(*clock_by)


def _sorted_in(rows: DataFrame, clocks: DataFrame, clock_by: dict[str, str], kernels: bool) -> DataFrame:
    """Windows with the smallest stream time at or above their close, from both sorted together."""
    its = [named(name).alias(clock) for clock, name in clock_by.items()]
    finals = rows.select(*its, named("window_close").alias(MOMENT), F.struct(*map(named, rows.columns)).alias(ROW))
    both = clocks.drop(TIMES).withColumn(ROW, F.lit(None).cast(finals.schema[ROW].dataType)).unionByName(finals)
    is_clock, apart, above = named(ROW).isNull(), [named(c) for c in clock_by], F.lit(None)
    if not clock_by:
        both, above = _cut(both, clocks, kernels)
        apart = [named(APART)]
    falling = Window.partitionBy(*apart).orderBy(named(MOMENT).desc(), named(ROW).isNull().desc()).rowsBetween(Window.unboundedPreceding, 0)
    latest = F.last(F.when(is_clock, named(MOMENT)), ignorenulls=True).over(falling)
    closes = expression(f"{quoted(MOMENT)} < {moment(f'{HIGHEST}L', rows.schema['window_close'].dataType)}")  # else after all times
    made = both.withColumn(RELEASE, F.when(closes, F.coalesce(latest, above))).where(~is_clock)
    return made.select(*[named(ROW).getField(c).alias(c) for c in rows.columns], named(RELEASE))


def _cut(both: DataFrame, clocks: DataFrame, kernels: bool) -> tuple[DataFrame, Column]:
    """All moments with their range, and for each range the smallest stream time in all ranges above it.

    The cut is used twice, so it must come out the same: it is even, between the smallest and the largest stream time. Both may lie at the
    ends of BIGINT, so it counts in 32 microseconds, of which any two are a BIGINT apart.
    """
    number = f"shiftright({microseconds(quoted(MOMENT), both.schema[MOMENT].dataType)}, 5)"
    low, high = F.min(expression(number)), F.max(expression(number))
    count = F.sum(named(TIMES)) if TIMES in clocks.columns else F.count(expression(number))  # of rows: so many windows may there be
    span = clocks.agg(F.struct(low.alias("low"), high.alias("high"), count.alias("count")).alias("span")).scalar()
    ranges = Ranges.of(both.sparkSession) if kernels else Ranges(FEWEST, FEWEST)
    ranges = replace(ranges, count=ranges.count + 1)  # the last is of what lies above all stream times
    width = f"(({SPAN}.high - {SPAN}.low) DIV {ranges.count - 1} + 1)"
    cut = expression(f"least(greatest(({number} - {SPAN}.low) DIV {width}, 0), {ranges.count - 1})")
    in_range = F.when(named(SPAN).getField("count") >= WORTH_CUTTING, cut.cast("int")).otherwise(F.lit(0))

    def ranged(df: DataFrame) -> DataFrame:
        return df.withColumn(SPAN, span).withColumn(RANGE, in_range).drop(SPAN)

    lowest = ranged(clocks).groupBy(named(RANGE).alias("r")).agg(F.min(named(MOMENT)).alias("m"))
    above = "array_min(transform(filter(every, one -> one.r > turn), one -> one.m))"
    together = lowest.agg(F.collect_list(F.struct("r", "m")).alias("every"))
    by_range = together.select(expression(f"transform(sequence(0, {ranges.count - 1}), turn -> {above})").alias("above")).scalar()
    never = named(RANGE) == ranges.count - 1  # nothing is looked up for these, which are many where windows stay open long
    anywhere = ranges.aside(hash_of_all(both.select(f"{quoted(ROW)}.*").schema, quoted(ROW)))
    return ranged(both).withColumn(APART, F.when(never, anywhere).otherwise(ranges.apart)), F.get(by_range, named(RANGE))
