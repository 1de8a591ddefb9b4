"""The processing order, cut into ranges that tasks sort side by side, as many as there are tasks to do it.

A range is that of a row's first order value. Where the ranges lie is read off a sample; an input too small for one is a single range.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamtime.sql.rows.frame import Order

RANGE, BOUNDS, PART = f"{PREFIX}range", f"{PREFIX}bounds", f"{PREFIX}part"
FEWEST, MOST = 16, 256
PARTITIONS, DEFAULT, UNSET = "spark.sql.shuffle.partitions", 200, str(2**31 - 1)  # Spark wants a number for "nobody said"
AT_ONCE = 16  # one nested `if` over 15 bounds compiles well; 63 of them did not
SAMPLED_ROWS = 1_000  # a 1 % sample smaller than this is not worth cutting: one task sorts 100,000 rows at once
CUTTABLE = (T.IntegralType, T.FractionalType, T.TimestampType, T.TimestampNTZType, T.DateType)


@dataclass(frozen=True)
class Ranges:
    """How many ranges there are, of how many partitions."""

    count: int
    partitions: int

    @staticmethod
    def of(spark: SparkSession) -> Ranges:
        """As many as tasks of a shuffle."""
        partitions = _chosen(spark) or DEFAULT
        return Ranges(min(max(partitions, FEWEST), MOST), partitions)

    @property
    def apart(self) -> Column:
        """What to repartition by: one value for each range, spread evenly over the partitions."""
        return expression(f"get(array{even_labels(self.count, self.partitions)}, {quoted(RANGE)})")

    def aside(self, number: str) -> Column:
        """The same for rows that may lie anywhere, by a number that they differ in, as SQL text."""
        return expression(f"-1 - pmod({number}, {32 * self.partitions})")  # of as many values as partitions, some would fall together

    def ordered(self, df: DataFrame, first: Order) -> DataFrame:
        """With the range of each row in the order of values, going up; all 0 where the input is small or its order has no distances."""
        ref = first.ref
        if not isinstance(ref.type, CUTTABLE):
            return df.withColumn(RANGE, F.lit(0))
        steps = [i / self.count for i in range(1, self.count)]
        sample = df.where(F.pmod(F.xxhash64(ref.column), F.lit(100)) == 0)
        quantiles = F.percentile_approx(ref.column, steps, 20 * self.count)
        return self.cut(df, quoted(ref.name), sample.agg(F.when(F.count(F.lit(1)) >= SAMPLED_ROWS, quantiles).alias("bounds")).scalar())

    def cut(self, df: DataFrame, value: str, bounds: Column, above: bool = False) -> DataFrame:
        """With the number of bounds that a value, as SQL text, has reached, or with `above` lies above. An unknown one is never reached."""
        df = df.withColumn(BOUNDS, bounds)  # one column: a subquery in each of the comparisons would be planned as often

        def reaches(bound: str) -> str:
            return f"{value} {'>' if above else '>='} get({quoted(BOUNDS)}, {bound})"

        if self.count <= AT_ONCE:
            return df.withColumn(RANGE, expression(_nested(0, self.count - 1, lambda i: reaches(str(i - 1))))).drop(BOUNDS)
        part = _nested(0, (self.count - 1) // AT_ONCE, lambda i: reaches(str(i * AT_ONCE - 1)))
        within = _nested(0, AT_ONCE - 1, lambda i: reaches(f"{quoted(PART)} + {i - 1}"))
        df = df.withColumn(PART, expression(f"({part}) * {AT_ONCE}"))
        return df.withColumn(RANGE, expression(f"{quoted(PART)} + {within}")).drop(BOUNDS, PART)


def worth_spreading(spark: SparkSession) -> bool:
    """Whether there are tasks enough for two more shuffles to pay, where one task could do: as somebody chose, else as cores are there.

    On two cores, spreading takes two to four times longer (docs/scale.md).
    """
    chosen, context = _chosen(spark), SparkContext._active_spark_context
    return (chosen or (DEFAULT if context is None else context.defaultParallelism)) >= FEWEST


def _chosen(spark: SparkSession) -> int | None:
    """How many tasks somebody gave a shuffle. Databricks also knows 'auto'."""
    said = str(spark.conf.get(PARTITIONS, UNSET))
    return int(said) if said.isdigit() and said != UNSET else None


def _nested(low: int, high: int, reached: Callable[[int], str]) -> str:
    """SQL text for the largest number between two that is reached."""
    if low == high:
        return str(low)
    middle = (low + high + 1) // 2
    return f"if({reached(middle)}, {_nested(middle, high, reached)}, {_nested(low, middle - 1, reached)})"


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
