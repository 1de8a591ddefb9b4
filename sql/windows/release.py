"""When final rows leave, in batch (rules S2, W6): the first stream time that reaches a window's close, looked up for all windows at once.

Stream time only rises, so that is the smallest value it ever had at or above the close. Time windows close at even steps: a small table has
the answer for each step, and windows are joined to it. Sessions and sliding windows close anywhere: closes are cut into ranges that tasks
sort side by side, and stream times come to them in sorted pieces; few, or where no kernel runs, both are sorted together. Where a range has
no stream time above a close, the next one's smallest holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import expression, hash_of_all, named, together
from streamtime.sql.rows.frame import PREFIX, whole
from streamtime.sql.rows.ranges import FEWEST, RANGE, Ranges
from streamtime.sql.rows.scans import is_few, straight_from_files
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import HIGHEST, floor_div, quoted
from streamtime.sql.windows.first_reach import FIRST, MOST_STEPS, REACHED, RELEASE, STEP, filled, newest_closed
from streamtime.sql.windows.membership import instant
from streamtime.udfs.arrays.blobs import Packer
from streamtime.udfs.release import AT_ONCE, NUMBER, RANGES, SIZE, TIMES, NextStreamTime, Pieces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

EMIT_TIME, EMIT_REASON = "emit_time", "emit_reason"
WORTH_CUTTING = 100_000  # stream times; fewer are sorted by one task
SPAN, APART = f"{PREFIX}span", f"{PREFIX}apart"
MOMENT, ROW, LAST, CLOCK, ROWS = (f"{PREFIX}{name}" for name in ("moment", "row", "last", "clock", "rows"))
GRAIN = 5  # of two times, counted in so many powers of two of microseconds, the distance is a BIGINT
PIECES = T.StructType().add(RANGES, T.ArrayType(T.IntegerType())).add(NUMBER, T.LongType()).add(TIMES, T.BinaryType())
MINUTE = 60_000_000  # steps this far apart are few enough for any task to hold those of decades


def emitted(call: Bound, rows: DataFrame, frame: Frame, stream_time: Column, steps: tuple[int, int] | None) -> DataFrame:
    """Final rows with `emit_time` and `emit_reason`; windows that never close are held back or leave at the end [C7].

    `steps` is how far apart windows close, and how long after their start, where that is the same for all.
    """
    known = [c.name for c in frame.clocks if not isinstance(c.type, T.NullType)]  # a join never finds a VOID, not by <=>
    clock_by = {f"{CLOCK}_{i}": name for i, name in enumerate(dict.fromkeys(known))}
    at = instant(frame, stream_time).alias(MOMENT)
    clocks = frame.df.select(*[named(name).alias(its) for its, name in clock_by.items()], at)
    if not _even(steps) and not clock_by and frame.kernels and not (frame.in_time_order and straight_from_files(frame)):
        clocks = whole(clocks.groupBy(named(MOMENT)).agg(F.count(F.lit(1)).alias(ROWS)))  # they are asked for several times
    return released_by(call, rows, clocks, clock_by, steps, few=is_few(frame.source))


def released_by(
    call: Bound, rows: DataFrame, clocks: DataFrame, clock_by: dict[str, str], steps: tuple[int, int] | None, *, few: bool = False
) -> DataFrame:
    """The same; `clocks` are the stream times as `MOMENT`, at least those at which windows close; with `at_end => 'emit'` the last.

    Of few rows, Spark sorts all: a worker would take longer to start.
    """
    if steps is None or not _even(steps):
        if not clock_by:
            return _from_ranges(call, rows, clocks, call.kernels and not few)
        made = _sorted_by_clock(rows, clocks, clock_by)
    else:
        made = _joined_to(rows, clocks, clock_by, *steps)
    return as_they_leave(call, made, rows.columns, clocks, clock_by)


def _even(steps: tuple[int, int] | None) -> bool:
    """Whether windows close at even steps, and few of these lie between a window's start and its close."""
    return steps is not None and -(-steps[1] // steps[0]) <= MOST_STEPS


def as_they_leave(call: Bound, made: DataFrame, columns: Sequence[str], clocks: DataFrame, clock_by: dict[str, str]) -> DataFrame:
    """Final rows with `RELEASE`, the stream time that released each, as they leave: those without are held back, or leave at the end."""
    if call["at_end"] == "emit":
        last = clocks.groupBy(*map(named, clock_by)).agg(F.max(named(MOMENT)).alias(LAST))
        made = made.join(F.broadcast(last), together(clock_by), "left")
        emit, reason = F.coalesce(named(RELEASE), named(LAST)), F.when(named(RELEASE).isNull(), "end").otherwise("close")
    else:
        made, emit, reason = made.where(named(RELEASE).isNotNull()), named(RELEASE), F.lit("close")
    return _left(made, columns, emit, reason)


def _left(made: DataFrame, columns: Sequence[str], emit: Column, reason: Column) -> DataFrame:
    return made.select(*map(named, columns), emit.alias(EMIT_TIME), reason.alias(EMIT_REASON))


def _joined_to(rows: DataFrame, clocks: DataFrame, clock_by: dict[str, str], slide: int, after: int) -> DataFrame:
    """Windows with the smallest stream time at or above their close, by the number of their step.

    A step without stream times takes the next one that has some. That is looked for only as far as a window can be closed after its rows.
    """
    kind, its = rows.schema["window_close"].dataType, [named(clock) for clock in clock_by]
    reached = newest_closed(microseconds(quoted(MOMENT), kind), slide, after)
    by_step = clocks.groupBy(*its, reached.alias(STEP)).agg(F.min(named(MOMENT)).alias(FIRST))
    # a condition of `STEP` alone would pass the aggregate, and compute the time once more
    by_step = by_step.where(F.when(named(FIRST).isNotNull(), named(STEP)).isNotNull())
    table = filled(by_step, its, slide, after).withColumnRenamed(FIRST, RELEASE)
    stepped = rows.withColumn(STEP, expression(floor_div(microseconds("window_start", kind), slide)))
    made = stepped.join(F.broadcast(table) if slide >= MINUTE else table, together(clock_by | {REACHED: STEP}), "left")
    return made.drop(*clock_by)


def _sorted_by_clock(rows: DataFrame, clocks: DataFrame, clock_by: dict[str, str]) -> DataFrame:
    """Windows with the smallest stream time at or above their close, where clocks run apart."""
    its = [named(name).alias(clock) for clock, name in clock_by.items()]
    both = _together(rows, clocks, its)
    made = both.withColumn(RELEASE, F.when(_closes(both), _next_stream_time([named(c) for c in clock_by])))
    return _windows(made, rows.columns)


def _from_ranges(call: Bound, rows: DataFrame, clocks: DataFrame, by_kernel: bool) -> DataFrame:
    """Final rows as they leave, where one clock runs over all rows and windows close anywhere."""
    number = f"shiftright({microseconds(quoted(MOMENT), rows.schema['window_close'].dataType)}, {GRAIN})"
    span = _span(clocks, number)
    rows = rows.withColumn(SPAN, span).withColumn(MOMENT, named("window_close"))
    closed = _closes(rows) & (named(MOMENT) <= named(SPAN).getField("last"))
    held = call["at_end"] != "emit"  # what never closes is then not even sorted, nor are stream times where nobody asks for `emit_time`
    rows = (rows.where(closed) if held else rows).drop(SPAN, MOMENT)
    ranges = Ranges.of(rows.sparkSession) if call.kernels else Ranges(FEWEST, FEWEST)
    cut = EvenCut(replace(ranges, count=ranges.count + 1), span, number)  # the last is of what lies above all stream times
    both = (_merged_with_times if by_kernel else _sorted_with_times)(rows, clocks, cut)
    if held:
        made = _windows(both, rows.columns)
        return _left(made, rows.columns, named(RELEASE), F.lit("close"))
    both = both.withColumn(SPAN, span).withColumn(RELEASE, F.when(closed, named(RELEASE)))
    return as_they_leave(call, _windows(both, rows.columns), rows.columns, clocks, {})


def _merged_with_times(rows: DataFrame, clocks: DataFrame, cut: EvenCut) -> DataFrame:
    """Windows with the smallest stream time at or above their close: these come to them sorted already, in pieces."""
    kind = rows.schema["window_close"].dataType
    at = microseconds(quoted(MOMENT), kind)
    times = cut.ranged(clocks).select(named(RANGE), expression(at).alias(NUMBER))
    pieces = kernels.packed(times, Packer(Pieces(), AT_ONCE, SIZE), PIECES)
    finals = _finals(rows, [])
    closes = cut.with_partition_label(cut.ranged(finals), rows).withColumn(NUMBER, expression(f"greatest({at}, -{HIGHEST}L) - 1L"))
    both = pieces.select(F.explode(RANGES).alias(RANGE), NUMBER, TIMES).withColumn(APART, cut.ranges.partition_label).drop(RANGE)
    both = both.withColumn(ROW, F.lit(None).cast(finals.schema[ROW].dataType)).withColumn(MOMENT, F.lit(None).cast(kind))
    both = both.unionByName(closes.drop(RANGE).withColumn(TIMES, F.lit(None).cast("binary")))
    both = both.repartition(named(APART)).sortWithinPartitions(named(NUMBER).desc())
    close = F.when(named(TIMES).isNull(), named(NUMBER) + 1)
    both = kernels.with_column(both, RELEASE, NextStreamTime(), [named(TIMES), close], T.LongType())
    return both.withColumn(RELEASE, expression(moment(quoted(RELEASE), kind)))


def _sorted_with_times(rows: DataFrame, clocks: DataFrame, cut: EvenCut) -> DataFrame:
    """The same, and stream times, by Spark's own operators."""
    both = cut.ranged(_together(rows, clocks, []))
    reached = _next_stream_time([named(APART)])
    return cut.with_partition_label(both, rows).withColumn(RELEASE, F.coalesce(reached, F.get(cut.above(clocks), named(RANGE))))


def _together(rows: DataFrame, clocks: DataFrame, its: Sequence[Column]) -> DataFrame:
    """Stream times, and windows with their close as `MOMENT` and with all that they have as `ROW`."""
    finals = _finals(rows, its)
    return clocks.drop(ROWS).withColumn(ROW, F.lit(None).cast(finals.schema[ROW].dataType)).unionByName(finals)


def _finals(rows: DataFrame, its: Sequence[Column]) -> DataFrame:
    return rows.select(*its, named("window_close").alias(MOMENT), F.struct(*map(named, rows.columns)).alias(ROW))


def _windows(both: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Of these, the windows."""
    windows = both.where(named(ROW).isNotNull())
    return windows.select(*[named(ROW).getField(c).alias(c) for c in columns], named(RELEASE))


def _closes(df: DataFrame) -> Column:
    """Whether a window closes at `MOMENT`: else it does so after all times."""
    return expression(f"{quoted(MOMENT)} < {moment(f'{HIGHEST}L', df.schema[MOMENT].dataType)}")


def _next_stream_time(divided_by: Sequence[Column]) -> Column:
    """The smallest stream time at or above a moment, of those with the same values, by Spark's own operators."""
    is_time = named(ROW).isNull()
    falling = Window.partitionBy(*divided_by).orderBy(named(MOMENT).desc(), is_time.desc()).rowsBetween(Window.unboundedPreceding, 0)
    return F.last(F.when(is_time, named(MOMENT)), ignorenulls=True).over(falling)


def _span(clocks: DataFrame, number: str) -> Column:
    """The smallest and the largest stream time by number, the largest as it is, and how many rows have one."""
    count = F.sum(named(ROWS)) if ROWS in clocks.columns else F.count(named(MOMENT))  # so many windows may there be
    made = {"low": F.min(expression(number)), "high": F.max(expression(number)), "last": F.max(named(MOMENT)), "count": count}
    return clocks.agg(F.struct(*[column.alias(name) for name, column in made.items()]).alias("span")).scalar()


@dataclass(frozen=True)
class EvenCut:
    """How moments are cut into ranges that tasks look at side by side.

    The cut is used several times, so it must come out the same: it is even, between the smallest and the largest stream time. Both may lie
    at the ends of BIGINT, so it counts in 32 microseconds, of which any two are a BIGINT apart.
    """

    ranges: Ranges  # the last is of what lies above all stream times
    span: Column
    number: str  # of a moment, as SQL text

    def ranged(self, df: DataFrame) -> DataFrame:
        """With the range of each moment."""
        width = f"(({SPAN}.high - {SPAN}.low) DIV {self.ranges.count - 1} + 1)"
        cut = expression(f"least(greatest(({self.number} - {SPAN}.low) DIV {width}, 0), {self.ranges.count - 1})")
        in_range = F.when(named(SPAN).getField("count") >= WORTH_CUTTING, cut.cast("int")).otherwise(F.lit(0))
        return df.withColumn(SPAN, self.span).withColumn(RANGE, in_range).drop(SPAN)

    def with_partition_label(self, both: DataFrame, rows: DataFrame) -> DataFrame:
        """With what they are repartitioned by: one value for each range but the last. Nothing is looked up for what lies there, which is
        much where windows stay open long.
        """
        anywhere = self.ranges.aside(hash_of_all(rows.schema, quoted(ROW)))
        never = named(RANGE) == self.ranges.count - 1
        return both.withColumn(APART, F.when(never, anywhere).otherwise(self.ranges.partition_label))

    def above(self, clocks: DataFrame) -> Column:
        """For each range the smallest stream time in all ranges above it."""
        lowest = self.ranged(clocks).groupBy(named(RANGE).alias("r")).agg(F.min(named(MOMENT)).alias("m"))
        above = "array_min(transform(filter(every, one -> one.r > turn), one -> one.m))"
        every = lowest.agg(F.collect_list(F.struct("r", "m")).alias("every"))
        return every.select(expression(f"transform(sequence(0, {self.ranges.count - 1}), turn -> {above})").alias("above")).scalar()
