"""Stream time as a column (rule C3): exact record by record, whatever the files, partitions and cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import TIMES, expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.ranges import FEWEST, RANGE, Ranges
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.stream_time import StreamTime, TimeBefore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame, Ref

STREAM_TIME, BEFORE, SPAN = f"{PREFIX}stream_time", f"{PREFIX}before", f"{PREFIX}span"


def with_stream_time(frame: Frame, moves: Column, clock_by: tuple[Ref, ...], reverse: bool = False) -> Frame:
    """The frame with stream time beside each row, the row itself included; null where no time was seen yet.

    `moves` is the event time with which a row moves the clock (null: it does not). With `reverse`, rows are taken in reverse
    processing order and stream time is the smallest time so far (rule D8).

    In processing order, stream time is a running maximum over the whole input. The order is cut into ranges that tasks sort side by
    side; to each range's own maximum comes the maximum of the ranges before it. Bounds and maxima are aggregates over two columns.
    """
    if not frame.kernels:
        return _by_windows(frame, moves, clock_by, reverse)
    if clock_by:
        frame, names = frame.comparable(clock_by)
        clocks, order = [named(n) for n in names], frame.sort(within_key=False, reverse=reverse)
        sorted_df = frame.df.repartition(*clocks).sortWithinPartitions(*[c.asc_nulls_first() for c in clocks], *order)
        return frame.with_df(kernels.with_column(sorted_df, STREAM_TIME, StreamTime(reverse), [moves, *clocks], frame.time.type))
    clocked = _in_ranges(frame, moves, reverse)
    extreme = F.least if reverse else F.greatest
    reached = extreme(moves, clocked.at_start)  # what the ranges before have seen; both functions skip nulls
    running = kernels.with_column(clocked.rows, STREAM_TIME, StreamTime(reverse), [reached], frame.time.type)
    return frame.with_df(running.drop(RANGE))


def _by_windows(frame: Frame, moves: Column, clock_by: tuple[Ref, ...], reverse: bool) -> Frame:
    """The same of Spark's own operators: a running maximum for each clock, or for each of a few ranges of even length."""
    if clock_by:
        frame, names = frame.comparable(clock_by)
        df, apart, reached = frame.df, [named(n) for n in names], moves
    else:
        df, ascending = _in_even_ranges(frame), frame.order[0].ascending != reverse
        starts = _starts(df, moves, ascending, reverse, FEWEST)
        turn = named(RANGE) if ascending else F.lit(FEWEST - 1) - named(RANGE)
        apart, reached = [named(RANGE)], (F.least if reverse else F.greatest)(moves, F.get(starts, turn))
    so_far = Window.partitionBy(*apart).orderBy(*frame.sort(within_key=False, reverse=reverse)).rowsBetween(Window.unboundedPreceding, 0)
    return frame.with_df(df.withColumn(STREAM_TIME, (F.min if reverse else F.max)(reached).over(so_far)).drop(RANGE))


def _before_by_windows(frame: Frame, moves: Column) -> tuple[DataFrame, Ranges, Column]:
    df, ascending = _in_even_ranges(frame), frame.order[0].ascending
    starts = _starts(df, moves, ascending, False, FEWEST)
    at_start = F.get(starts, named(RANGE) if ascending else F.lit(FEWEST - 1) - named(RANGE))
    so_far = Window.partitionBy(named(RANGE)).orderBy(*frame.sort(within_key=False)).rowsBetween(Window.unboundedPreceding, -1)
    before = F.greatest(F.max(moves).over(so_far), at_start)
    return df.withColumn(BEFORE, before).drop(RANGE), Ranges(FEWEST, FEWEST), starts


def _in_even_ranges(frame: Frame) -> DataFrame:
    """With the range of each row's first order value, between the smallest and the largest: whoever computes them gets the same ones."""
    first = frame.order[0].ref
    if isinstance(first.type, TIMES):
        number = microseconds(quoted(first.name), first.type)
    elif isinstance(first.type, T.IntegralType):
        number = f"CAST({quoted(first.name)} AS BIGINT)"
    else:
        return frame.df.withColumn(RANGE, F.lit(0))
    half = f"shiftright({number}, 1)"  # of which any two are a BIGINT apart
    ends = F.struct(F.min(expression(half)).alias("low"), F.max(expression(half)).alias("high"))
    low, high = (f"{quoted(SPAN)}.{end}" for end in ("low", "high"))
    at = f"({half} - {low}) DIV (({high} - {low}) DIV {FEWEST} + 1)"
    df = frame.df.withColumn(SPAN, frame.df.agg(ends.alias("span")).scalar())
    return df.withColumn(RANGE, expression(f"CAST(coalesce({at}, 0) AS INT)")).drop(SPAN)


@dataclass(frozen=True)
class Clocked:
    """Rows in processing order, cut into ranges, and where stream time stood at the start of each."""

    rows: DataFrame
    ranges: Ranges
    starts: Column  # an array: stream time at the start of each range, in processing order, then that after all
    at_start: Column  # that of a row's own range


def with_time_before(frame: Frame, moves: Column) -> tuple[DataFrame, Ranges, Column]:
    """The rows with stream time before each as `BEFORE`, the row itself left out; null where no time was seen yet.

    `moves` is a BIGINT, and so is that. With the ranges, and stream time at the start of each in processing order, then after all.
    """
    if not frame.kernels:
        return _before_by_windows(frame, moves)
    clocked = _in_ranges(frame, moves, reverse=False)
    rows = kernels.with_column(clocked.rows, BEFORE, TimeBefore(), [moves, clocked.at_start], T.LongType())
    return rows.drop(RANGE), clocked.ranges, clocked.starts


def _in_ranges(frame: Frame, moves: Column, reverse: bool) -> Clocked:
    ranges = Ranges.of(frame.df.sparkSession)
    ranged, ascending = ranges.ordered(frame.df, frame.order[0]), frame.order[0].ascending != reverse
    starts = _starts(ranged, moves, ascending, reverse, ranges.count)
    rows = ranged.repartition(ranges.apart).sortWithinPartitions(*frame.sort(within_key=False, reverse=reverse))
    turn = named(RANGE) if ascending else F.lit(ranges.count - 1) - named(RANGE)
    return Clocked(rows, ranges, starts, F.get(starts, turn))


def _starts(ranged: DataFrame, moves: Column, ascending: bool, reverse: bool, count: int) -> Column:
    """An array: the extreme of the times in all ranges before the first in processing order, before the second, .. and in all."""
    extreme = F.min if reverse else F.max
    own = ranged.groupBy(named(RANGE).alias("r")).agg(extreme(moves).alias("m"))
    before = "own.r < turn" if ascending else f"own.r > {count - 1} - turn"
    seen = f"array_{'min' if reverse else 'max'}(transform(filter(all, own -> {before}), own -> own.m))"
    together = own.agg(F.collect_list(F.struct("r", "m")).alias("all"))
    return together.select(expression(f"transform(sequence(0, {count}), turn -> {seen})").alias("starts")).scalar()
