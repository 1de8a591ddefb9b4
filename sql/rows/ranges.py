"""The processing order, cut into ranges that tasks sort side by side, as many as there are tasks to do it.

A range ends at a place in that order, not only at a value of its first expression: rows that are equal in that one, as all of a day's load
or of a partition, are cut by what sorts them next. Where ranges end is read off a sample; an input too small for one is a single range.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, has_collation
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.scans import straight_from_files
from streamtime.sql.syntax.text import let, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamtime.sql.rows.frame import Frame

RANGE, BOUNDS = f"{PREFIX}range", f"{PREFIX}bounds"
FEWEST, MOST = 16, 1024
PARTITIONS, DEFAULT, UNSET = "spark.sql.shuffle.partitions", 200, str(2**31 - 1)  # Spark wants a number for "nobody said"
AT_ONCE = 16  # one nested `if` over so many bounds compiles well; 63 of them did not
SAMPLED_ROWS = 1_000  # a 1 % sample smaller than this is not worth cutting: one task sorts 100,000 rows at once
EACH = 20  # sampled rows for each range
COLUMNS, CHARACTERS = 3, 32  # of the order that cuts: what cuts is read once more, and bounds stand in the plan
APART = (T.IntegralType, T.FractionalType, T.TimestampType, T.TimestampNTZType)  # of which rows seldom have the same
CUTTABLE = (*APART, T.DateType, T.StringType, T.BinaryType)


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
    def partition_label(self) -> Column:
        """What to repartition by: one value for each range, spread evenly over the partitions."""
        return expression(f"get(array{even_labels(self.count, self.partitions)}, {quoted(RANGE)})")

    def aside(self, number: str) -> Column:
        """The same for rows that may lie anywhere, by a number that they differ in, as SQL text."""
        return expression(f"-1 - pmod({number}, {32 * self.partitions})")  # of as many values as partitions, some would fall together

    def ordered(self, frame: Frame, rows: DataFrame) -> DataFrame:
        """These of the frame's rows with the range of each in the order of its first values, going up; all 0 where the input is small or
        its order cannot be cut.
        """
        by = cut_by(frame)
        if not by:
            return rows.withColumn(RANGE, F.lit(0))
        first, *more = by
        hashed = F.xxhash64(*[expression(text) for text, _ in _columns(frame)])  # rows differ in more than what cuts them
        following = "named_struct({})".format(", ".join(f"'c{i}', {text}" for i, text in enumerate(more))) if more else ""
        df = rows.withColumn(BOUNDS, self._bounds(frame.df, hashed, first, following))

        def reaches(bound: str) -> str:
            at, then = (f"get({quoted(BOUNDS)}.{field}, {bound})" for field in ("first", "next"))
            return f"{first} > {at} OR ({first} = {at} AND {following} >= {then})" if more else f"{first} >= {at}"

        return self._numbered(df, reaches).drop(BOUNDS)

    def _bounds(self, df: DataFrame, hashed: Column, first: str, following: str) -> Column:
        """Where ranges end, as two arrays: of first values, and of what sorts rows next. Null where the input is small.

        Of a hundredth of the rows, as many as `EACH` tells are picked, by chance but the same each time: in each of so many heaps by hash
        the one with the smallest.
        """
        fields = {"first": first} | ({"next": following} if following else {})
        place = F.struct(*[expression(text).alias(name) for name, text in fields.items()])
        sampled = df.where(expression(f"{first} IS NOT NULL") & (F.pmod(hashed, F.lit(100)) == 0))
        heap = F.pmod(F.shiftrightunsigned(hashed, 32), F.lit(EACH * self.count))
        picked = sampled.groupBy(heap).agg(
            F.min(F.struct(hashed.alias("hash"), place.alias("place"))).alias("one"), F.count("*").alias("rows")
        )
        at = f"CAST(i * size(places) DIV {self.count} AS INT)"
        arrays = ", ".join(f"'{name}', transform(sequence(1, {self.count - 1}), i -> get(places, {at}).{name})" for name in fields)
        # one expression over the aggregates: where one is named twice, Spark plans them as queries of their own, each time anew, and then
        # does not see that two parts of a plan are the same
        bounds = let("places", "sort_array(collect_list(one.place))", f"named_struct({arrays})")
        return picked.agg(expression(f"if(sum(rows) >= {SAMPLED_ROWS}, {bounds}, NULL)").alias("bounds")).scalar()

    def cut(self, df: DataFrame, value: str, bounds: Column, above: bool = False) -> DataFrame:
        """With the number of bounds that a value, as SQL text, has reached, or with `above` lies above. An unknown one is never reached."""
        df = df.withColumn(BOUNDS, bounds)  # one column: a subquery in each of the comparisons would be planned as often
        than = ">" if above else ">="
        return self._numbered(df, lambda bound: f"{value} {than} get({quoted(BOUNDS)}, {bound})").drop(BOUNDS)

    def _numbered(self, df: DataFrame, reaches: Callable[[str], str]) -> DataFrame:
        """With the number of bounds that a row reaches: digit by digit, the highest first."""
        step = 1
        while step * AT_ONCE < self.count:
            step *= AT_ONCE
        so_far, most, digits = "", (self.count - 1) // step, list[str]()
        while step:
            digit = _nested(0, most, lambda i: reaches(f"{so_far}{i * step - 1}"))  # noqa: B023
            digits.append(RANGE if step == 1 else f"{RANGE}_{step}")  # of its own: Spark may add a column of a name that is there
            df = df.withColumn(digits[-1], expression(f"{so_far}{step} * {digit}" if step > 1 else f"{so_far}{digit}"))
            so_far, most, step = f"{quoted(digits[-1])} + ", AT_ONCE - 1, step // AT_ONCE
        return df.drop(*digits[:-1])


def cut_by(frame: Frame) -> list[str]:
    """What sorts rows first, as SQL texts that compare as rows sort; none where the first cannot."""
    return [text for text, compares in _columns(frame) if compares]


def _columns(frame: Frame) -> list[tuple[str, bool]]:
    """The first columns of the order of rows, as SQL texts, and whether they still compare as rows sort: ORDER BY, and of what is read from
    files, what breaks ties. Of a text that does, its beginning; what sorts rows behind that no longer compares so.
    """
    up, compares, columns = frame.order[0].ascending, True, list[tuple[str, bool]]()
    for i, order in enumerate(frame.order):
        compares &= _cuttable(order.ref.type) and (i == 0 or (order.ascending == up and order.nulls_first == up))
        columns += [(quoted(order.ref.name), compares)] if _cuttable(order.ref.type) else []
    kinds = {c.name: c.type for c in frame.columns}
    compares &= up and frame.order[0].nulls_first
    often_tied = not isinstance(frame.order[0].ref.type, APART)  # to look at more columns makes all of it a fifth slower
    for name in frame.ties(within_key=False) if often_tied and straight_from_files(frame) else ():  # else they may be dear to compute again
        kind = kinds[name]
        compares &= _cuttable(kind)
        beginning = f"left({quoted(name)}, {CHARACTERS})" if isinstance(kind, T.StringType) else quoted(name)
        columns += [(beginning, compares)] if _cuttable(kind) else []
        compares &= not isinstance(kind, T.StringType | T.BinaryType)
    return columns[: max(COLUMNS, len(frame.order))]


def _cuttable(kind: T.DataType) -> bool:
    return isinstance(kind, CUTTABLE) and not has_collation(kind)


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
