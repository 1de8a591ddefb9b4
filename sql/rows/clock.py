"""Stream time as a column (rule C3): exact record by record, whatever the files, partitions and cores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import TIMES, expression, named, sorted_by
from streamtime.sql.rows.frame import PREFIX, presorted
from streamtime.sql.rows.ranges import EACH, FEWEST, RANGE, Ranges
from streamtime.sql.rows.scans import is_few
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.stream_time import StreamTime, TimeBefore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame, Ref

STREAM_TIME, BEFORE, SPAN, MOVES, DRAWN = (f"{PREFIX}{name}" for name in ("stream_time", "before", "span", "moves", "drawn"))
PRIME = 2**31 - 1


def with_stream_time(frame: Frame, moves: Column, clock_by: tuple[Ref, ...], reverse: bool = False, movers: Column | None = None) -> Frame:
    """The frame with stream time beside each row, the row itself included; null where no time was seen yet.

    `moves` is the event time with which a row moves the clock (null: it does not). With `reverse`, rows are taken in reverse
    processing order and stream time is the smallest time so far (rule D8). `movers` is true of all rows that move it, where few do: the
    others are then not read for where it stands at the start of each range; and where no kernel runs, not for where ranges lie.

    In processing order, stream time is a running maximum over the whole input. The order is cut into ranges that tasks sort side by
    side; to each range's own maximum comes the maximum of the ranges before it. Bounds and maxima are aggregates over two columns.
    Few rows are sorted by one task, where they stay.
    """
    if clock_by:
        frame, names = frame.comparable(clock_by)
        clocks, order = [named(n) for n in names], frame.sort(within_key=False, reverse=reverse)
        if not frame.kernels:
            return frame.with_df(frame.df.withColumn(STREAM_TIME, _so_far(frame, moves, clocks, reverse, 0)))
        sorted_df = frame.df.repartition(*clocks).sortWithinPartitions(*[c.asc_nulls_first() for c in clocks], *order)
        return frame.with_df(kernels.with_column(sorted_df, STREAM_TIME, StreamTime(reverse), [moves, *clocks], frame.time.type))
    if frame.kernels and is_few(frame.source):
        ordered = frame.df.repartition(1).sortWithinPartitions(*frame.sort(within_key=False, reverse=reverse))
        running = kernels.with_column(ordered, STREAM_TIME, StreamTime(reverse), [moves], frame.time.type)
        return replace(frame, df=running, together=True)
    clocked = _in_ranges(frame, moves, reverse, movers)
    extreme = F.least if reverse else F.greatest
    reached = extreme(moves, clocked.at_start)  # what the ranges before have seen; both functions skip nulls
    if frame.kernels:
        running = kernels.with_column(clocked.rows, STREAM_TIME, StreamTime(reverse), [reached], frame.time.type)
    else:
        running = clocked.rows.withColumn(STREAM_TIME, _so_far(frame, reached, [named(RANGE)], reverse, 0))
    return frame.with_df(running.drop(RANGE))


def _so_far(frame: Frame, moves: Column, clocks: Sequence[Column], reverse: bool, last: int) -> Column:
    """The extreme of the times so far, by Spark's own operators, for where no kernel may run; `last` is 0, or -1 without the row itself."""
    order = Window.partitionBy(*clocks).orderBy(*frame.sort(within_key=False, reverse=reverse))
    return (F.min if reverse else F.max)(moves).over(order.rowsBetween(Window.unboundedPreceding, last))


def with_time_before_by(frame: Frame, moves: Column, clocks: Sequence[str]) -> tuple[DataFrame, Column]:
    """The same by Spark's own operators for clocks that run apart, by values of these columns; and what a clock comes to in the end."""
    its_clock = [named(n) for n in clocks]
    rows = frame.df.withColumn(BEFORE, _so_far(frame, moves, its_clock, reverse=False, last=-1))
    return rows, F.max(moves).over(Window.partitionBy(*its_clock))


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
    by_time = frame.in_time_order and not frame.kernels
    clocked = _in_ranges_of_time(frame, moves) if by_time else _in_ranges(frame, moves, reverse=False)
    if frame.kernels:
        rows = kernels.with_column(clocked.rows, BEFORE, TimeBefore(), [moves, clocked.at_start], T.LongType())
    else:
        before = _so_far(frame, moves, [named(RANGE)], reverse=False, last=-1)
        rows = clocked.rows.withColumn(BEFORE, F.greatest(before, clocked.at_start))
    return rows.drop(RANGE), clocked.ranges, clocked.starts


def _in_ranges(frame: Frame, moves: Column, reverse: bool, movers: Column | None = None) -> Clocked:
    """For a kernel as many ranges as tasks, sorted; else a few even ones, which a window sorts."""
    ranges = Ranges.of(frame.df.sparkSession) if frame.kernels else Ranges(FEWEST, FEWEST)
    moving = frame.df if movers is None else frame.df.where(movers)

    def in_ranges(rows: DataFrame) -> DataFrame:
        return ranges.ordered(frame, rows) if frame.kernels else _even(frame, rows, moving, ranges.count)

    ranged = in_ranges(frame.df)
    ascending = frame.order[0].ascending != reverse
    starts = _starts(ranged if moving is frame.df else in_ranges(moving), moves, ascending, reverse, ranges.count)
    turn = named(RANGE) if ascending else F.lit(ranges.count - 1) - named(RANGE)
    turn = turn if moving is frame.df else F.greatest(F.least(turn, F.lit(ranges.count)), F.lit(0)).cast("int")
    number = _number(frame)
    by = None if number is None else sorted_by(number, ascending=ascending)  # one number, fast; the sort behind the shuffle merges
    if frame.kernels:
        ranged = ranged if by is None else presorted(ranged, by)
        ranged = ranged.repartition(ranges.partition_label).sortWithinPartitions(*frame.sort(within_key=False, reverse=reverse))
    elif by is not None:
        ranged = ranged.sortWithinPartitions(by)
    return Clocked(ranged, ranges, starts, F.get(starts, turn))


def _even(frame: Frame, rows: DataFrame, moving: DataFrame, count: int) -> DataFrame:
    """With the range of each row's first order value, between the smallest and the largest of `moving`: whoever computes them gets the same
    ones. Where these are not all rows, others may lie below or above: in further ranges, as many as it takes.
    """
    number = _number(frame)
    if number is None:
        return rows.withColumn(RANGE, F.lit(0))
    half = f"shiftright({number}, 1)"  # of which any two are a BIGINT apart
    ends = F.struct(F.min(expression(half)).alias("low"), F.max(expression(half)).alias("high"))
    low, high = (f"{quoted(SPAN)}.{end}" for end in ("low", "high"))
    at = f"coalesce(({half} - {low}) DIV (({high} - {low}) DIV {count} + 1), 0)"
    ranged = rows.withColumn(SPAN, moving.agg(ends.alias("span")).scalar())
    return ranged.withColumn(RANGE, expression(f"CAST({at} AS INT)" if moving is frame.df else at)).drop(SPAN)


def _number(frame: Frame) -> str | None:
    """The first order value as a BIGINT, as SQL text, where it is like one."""
    first = frame.order[0].ref
    if isinstance(first.type, TIMES):
        return microseconds(quoted(first.name), first.type)
    return f"CAST({quoted(first.name)} AS BIGINT)" if isinstance(first.type, T.IntegralType) else None


def _in_ranges_of_time(frame: Frame, moves: Column) -> Clocked:
    """A few ranges of rows in the order of time. One look at the input cuts them: where one begins behind a time, stream time stands there.

    Of the times that move the clock some are picked, by chance but the same each time: in each of so many heaps the one with the smallest
    number, of numbers that look drawn.
    """
    ranges = Ranges(FEWEST, FEWEST)
    times = frame.df.select(moves.alias(MOVES))  # of null, too, in a heap that no list takes: a filter would compute it once more
    times = times.withColumn(DRAWN, expression(f"pmod(pmod({quoted(MOVES)}, {PRIME}) * 48271, {PRIME})"))
    one = F.min(F.struct(named(DRAWN).alias("drawn"), named(MOVES).alias("at"))).alias("one")
    heaps = times.groupBy((named(DRAWN) % (EACH * ranges.count)).alias("heap")).agg(one, F.max(named(MOVES)).alias("last"))
    places = heaps.agg(F.sort_array(F.collect_list("one.at")).alias("places"), F.max("last").alias("last"))
    place = f"get(places, CAST(turn * size(places) DIV {ranges.count} AS INT))"
    each = f"CASE turn WHEN 0 THEN NULL WHEN {ranges.count} THEN last ELSE {place} END"
    starts = places.select(expression(f"transform(sequence(0, {ranges.count}), turn -> {each})").alias("starts")).scalar()
    own = microseconds(quoted(frame.time.name), frame.time.type)
    ranged = ranges.cut(frame.df, own, F.slice(starts, 2, ranges.count - 1), above=True)
    return Clocked(ranged, ranges, starts, F.get(starts, named(RANGE)))


def _starts(ranged: DataFrame, moves: Column, ascending: bool, reverse: bool, count: int) -> Column:
    """An array: the extreme of the times in all ranges before the first in processing order, before the second, .. and in all."""
    extreme = F.min if reverse else F.max
    own = ranged.groupBy(named(RANGE).alias("r")).agg(extreme(moves).alias("m"))
    before = "own.r < turn" if ascending else f"own.r > {count - 1} - turn"
    seen = f"array_{'min' if reverse else 'max'}(transform(filter(every, own -> {before}), own -> own.m))"
    together = own.agg(F.collect_list(F.struct("r", "m")).alias("every"))
    return together.select(expression(f"transform(sequence(0, {count}), turn -> {seen})").alias("starts")).scalar()
