"""Stream time as a column (rule C3): exact record by record, whatever the files, partitions and cores."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.stream_time import StreamTime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame, Ref

STREAM_TIME = f"{PREFIX}stream_time"
BOUNDS = f"{PREFIX}bounds"
RANGE = f"{PREFIX}range"
RANGES = 16  # one nested `if` over 15 boundaries compiles well; 63 of them did not
SAMPLED_ROWS = 1_000  # a 1 % sample smaller than this is not worth cutting: one task sorts 100,000 rows at once
CUTTABLE = (T.IntegralType, T.FractionalType, T.TimestampType, T.TimestampNTZType, T.DateType)


def with_stream_time(frame: Frame, moves: Column, clock_by: tuple[Ref, ...], reverse: bool = False) -> Frame:
    """The frame with stream time beside each row, the row itself included; null where no time was seen yet.

    `moves` is the event time with which a row moves the clock (null: it does not). With `reverse`, rows are taken in reverse
    processing order and stream time is the smallest time so far (rule D8).

    In processing order, stream time is a running maximum over the whole input. The order is cut into ranges that tasks sort side by
    side; to each range's own maximum comes the maximum of the ranges before it. Bounds and maxima are aggregates over two columns.
    """
    order = frame.sort(within_key=False, reverse=reverse)
    if clock_by:
        frame, names = frame.comparable(clock_by)
        clocks = [named(n) for n in names]
        sorted_df = frame.df.repartition(*clocks).sortWithinPartitions(*[c.asc_nulls_first() for c in clocks], *order)
        return frame.with_df(kernels.with_column(sorted_df, STREAM_TIME, StreamTime(reverse), [moves, *clocks], frame.time.type))
    first = frame.order[0].ref
    ranged = _ranged(frame.df, first) if isinstance(first.type, CUTTABLE) else frame.df.withColumn(RANGE, F.lit(0))
    before = _before(ranged, moves, frame.order[0].ascending != reverse, reverse)
    partitions = int(frame.df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    spread = expression(f"get(array{even_labels(RANGES, partitions)}, {quoted(RANGE)})")
    sorted_df = ranged.repartition(spread).sortWithinPartitions(*order)
    extreme = F.least if reverse else F.greatest
    reached = extreme(moves, F.get(before, named(RANGE)))  # what the ranges before have seen; both functions skip nulls
    running = kernels.with_column(sorted_df, STREAM_TIME, StreamTime(reverse), [reached], frame.time.type)
    return frame.with_df(running.drop(RANGE))


@functools.cache
def even_labels(count: int, partitions: int) -> tuple[int, ...]:
    """Integers that Spark's hash partitioning spreads evenly; 0 to 15 themselves may fall onto few partitions."""
    labels: list[int] = []
    load = [0] * partitions
    candidate = 0
    while len(labels) < count:
        target = _murmur3(candidate) % partitions
        if load[target] == min(load):
            load[target] += 1
            labels.append(candidate)
        candidate += 1
    return tuple(labels)


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's `hash` of an INT."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (32 - by)) & mask

    k = rotated(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotated(seed ^ k, 13) * 5 + 0xE6546B64 & mask) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _ranged(df: DataFrame, ref: Ref) -> DataFrame:
    """With the range that a row's first order value falls into: 0 to RANGES - 1 going up, all 0 where the input is small."""
    steps = [i / RANGES for i in range(1, RANGES)]
    sample = df.where(F.pmod(F.xxhash64(ref.column), F.lit(100)) == 0)
    bounds = sample.agg(F.when(F.count(F.lit(1)) >= SAMPLED_ROWS, F.percentile_approx(ref.column, steps, 200)).alias("bounds")).scalar()

    def cut(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2  # an unknown bound compares as null, hence goes to range 0
        return f"if({value} >= get({quoted(BOUNDS)}, {middle}), {cut(middle + 1, high)}, {cut(low, middle)})"

    value = quoted(ref.name)
    # one column for the bounds: the subquery in each of the 15 comparisons would be planned 15 times
    return df.withColumn(BOUNDS, bounds).withColumn(RANGE, expression(cut(0, RANGES - 1))).drop(BOUNDS)


def _before(ranged: DataFrame, moves: Column, ascending: bool, reverse: bool) -> Column:
    """An array: for each range, the extreme of the times in all ranges before it in processing order."""
    extreme = F.min if reverse else F.max
    maxima = ranged.groupBy(named(RANGE).alias("r")).agg(extreme(moves).alias("m"))
    extremes = [f"{'min' if reverse else 'max'}(if(r {'<' if ascending else '>'} {i}, m, null))" for i in range(RANGES)]
    return maxima.agg(expression(f"array({', '.join(extremes)})").alias("before")).scalar()
