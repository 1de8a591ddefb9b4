"""Stream time as a column (rule C3): exact record by record, whatever the files, partitions and cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from streamtime.sql import kernels
from streamtime.sql.columns import named
from streamtime.sql.frame import PREFIX
from streamtime.udfs.stream_time import StreamTime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.frame import Frame, Ref

STREAM_TIME = f"{PREFIX}stream_time"
RANGE = f"{PREFIX}range"
RANGES = 16  # one nested `if` over 15 boundaries compiles well; 63 of them did not
SAMPLED_ROWS = 1_000  # a 1 % sample smaller than this is not worth cutting: one task sorts 100,000 rows at once
CUTTABLE = (T.IntegralType, T.FractionalType, T.TimestampType, T.TimestampNTZType, T.DateType)


def stream_time() -> Column:
    """The column that `with_stream_time` adds."""
    return named(STREAM_TIME)


def with_stream_time(frame: Frame, moves: Column, clock_by: tuple[Ref, ...], reverse: bool = False) -> Frame:
    """The frame with stream time beside each row, the row itself included; null where no time was seen yet.

    `moves` is the event time with which a row moves the clock (null: it does not). With `reverse`, rows are taken in reverse
    processing order and stream time is the smallest time so far (rule D8).

    In processing order, stream time is a running maximum over the whole input. The order is cut into ranges that tasks sort side by
    side; to each range's own maximum comes the maximum of the ranges before it. Bounds and maxima are aggregates over two columns.
    """
    order = frame.sort(within_key=False, reverse=reverse)
    if clock_by:
        clocks = [frame.comparable(c) for c in clock_by]
        sorted_df = frame.df.repartition(*clocks).sortWithinPartitions(*clocks, *order)
        running = kernels.apply(StreamTime(earliest=reverse), [moves, *clocks], frame.time.type)
        return frame.with_df(sorted_df.withColumn(STREAM_TIME, running))
    first = frame.order[0].ref
    ranged = frame.df.withColumn(RANGE, _range(frame.df, first) if isinstance(first.type, CUTTABLE) else F.lit(0))
    ascending = frame.order[0].ascending != reverse
    before = _before(ranged, moves, ascending, reverse)
    sorted_df = ranged.repartition(named(RANGE)).sortWithinPartitions(*order)
    local = kernels.apply(StreamTime(earliest=reverse), [moves], frame.time.type)
    extreme = F.least if reverse else F.greatest
    return frame.with_df(
        sorted_df.withColumn(STREAM_TIME, local)
        .withColumn(STREAM_TIME, extreme(stream_time(), F.get(before, named(RANGE))))
        .drop(RANGE)
    )


def _range(df: DataFrame, ref: Ref) -> Column:
    """The range that a row's first order value falls into: 0 to RANGES - 1 going up, all 0 where the input is small."""
    steps = [i / RANGES for i in range(1, RANGES)]
    sample = df.where(F.pmod(F.xxhash64(ref.column), F.lit(100)) == 0)
    bounds = sample.agg(
        F.when(F.count(F.lit(1)) >= SAMPLED_ROWS, F.percentile_approx(ref.column, steps, 200)).alias("bounds")
    ).scalar()

    def cut(low: int, high: int) -> Column:
        if low == high:
            return F.lit(low)
        middle = (low + high) // 2  # an unknown bound compares as null, hence goes to range 0
        return F.when(ref.column >= F.get(bounds, F.lit(middle)), cut(middle + 1, high)).otherwise(cut(low, middle))

    return cut(0, RANGES - 1)


def _before(ranged: DataFrame, moves: Column, ascending: bool, reverse: bool) -> Column:
    """An array: for each range, the extreme of the times in all ranges before it in processing order."""
    extreme = F.min if reverse else F.max
    maxima = ranged.groupBy(named(RANGE).alias("r")).agg(extreme(moves).alias("m"))
    is_before = [F.col("r") < i if ascending else F.col("r") > i for i in range(RANGES)]
    return maxima.agg(F.array(*[extreme(F.when(b, F.col("m"))) for b in is_before]).alias("before")).scalar()
