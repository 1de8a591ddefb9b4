"""The smallest or largest of a group's values while values come and go, by Spark's own operators (rule J9): where no kernel can run.

A value is there from the change that brings its first copy to the one that takes its last. Such a stretch of changes is cut into blocks of
1, 2, 4, 8 .. changes, at most two of a size. Each change asks the blocks that it lies in, one of each size. The best value of each block,
and then of each change, is a window: that is n log n rows of a few columns, in no array, and no join, so that the input is computed once.
Where nothing ever goes from a group, its best value so far is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

STEP, STEPS, GOES, OF, COPIES, SINCE, LAST, ENDS, LEVEL, NUMBER, BLOCK, ROW = (
    f"{PREFIX}{name}" for name in ("step", "steps", "goes", "of", "copies", "since", "last", "ends", "level", "number", "block", "row")
)
VALUE, BEST = f"{PREFIX}value_", f"{PREFIX}best_"


@dataclass(frozen=True)
class Extreme:
    """The smallest value of a column, or the largest."""

    column: str
    largest: bool

    def of(self, column: str, window: WindowSpec) -> Column:
        """It, of another column."""
        return (F.max if self.largest else F.min)(named(column)).over(window)


def with_extremes(rows: DataFrame, identity: Sequence[str], order: Sequence[Column], comes: str, asked: Mapping[str, Extreme]) -> DataFrame:
    """The rows with the values that are asked for, by name, as they are right after each row; null where there are none.

    A row brings the values of its columns, or takes them: `comes` says which.
    """
    keys, columns = [*map(named, dict.fromkeys(identity))], rows.columns
    values = {column: f"{VALUE}{i}" for i, column in enumerate(dict.fromkeys(one.column for one in asked.values()))}
    best = {f"{BEST}{i}": (one, values[one.column]) for i, one in enumerate(asked.values())}
    rows = rows.withColumns({value: _of_one_zero(named(c), rows.schema[c].dataType) for c, value in values.items()})
    group = Window.partitionBy(*keys)
    each = group.orderBy(*order)
    so_far = each.rowsBetween(Window.unboundedPreceding, 0)
    numbers = {STEP: F.row_number().over(each) - 1, STEPS: F.count(F.lit(1)).over(group), GOES: F.max(~named(comes)).over(group)}
    rows = rows.withColumns(numbers | {name: one.of(value, so_far) for name, (one, value) in best.items()})
    cut = _cut(_with_stretches(rows, keys, comes, [*values.values()], [*best], columns))
    in_block = Window.partitionBy(*keys, named(LEVEL), named(NUMBER))
    extremes = {name: F.when(named(GOES), one.of(value, in_block)).otherwise(named(name)) for name, (one, value) in best.items()}
    change = Window.partitionBy(*keys, named(STEP))
    told = cut.withColumns(extremes).where(named(OF).isNull()).withColumns({name: one.of(name, change) for name, (one, _) in best.items()})
    row = F.inline(F.array_compact(F.array(named(ROW))))  # which leaves out those of values, and knows that a row is none of them
    return told.select(row, *(named(b).alias(name) for b, name in zip(best, asked, strict=True)))


def _of_one_zero(value: Column, kind: T.DataType) -> Column:
    """A number of which 0.0 and -0.0 are one value, as they are in a group."""
    return value + F.lit(0.0).cast(kind) if isinstance(kind, (T.FloatType, T.DoubleType)) else value


def _with_stretches(
    rows: DataFrame, keys: Sequence[Column], comes: str, values: Sequence[str], best: Sequence[str], columns: Sequence[str]
) -> DataFrame:
    """Each row, and beside it one for each of its values, `OF` which it is: all others are null in it.

    Of a value whose stretch ends with a row, or that has no later one: since when it is there, and up to which change it is.
    """
    every = F.array(F.lit(None).cast("INT"), *map(F.lit, range(len(values))))
    rows = rows.select(*keys, comes, STEP, STEPS, GOES, *values, *best, F.struct(*map(named, columns)).alias(ROW), _each(every).alias(OF))
    its = [F.when(named(OF) == i, named(value)).alias(value) for i, value in enumerate(values)]
    rows = rows.select(*keys, *map(named, (comes, STEP, STEPS, GOES, OF, *best)), *its, F.when(named(OF).isNull(), named(ROW)).alias(ROW))
    rows = rows.where(named(OF).isNull() | F.coalesce(*(F.when(named(v).isNotNull(), True) for v in values), F.lit(False)))
    same = Window.partitionBy(*keys, named(OF), *map(named, values)).orderBy(named(STEP))
    so_far = same.rowsBetween(Window.unboundedPreceding, 0)
    count = F.sum(F.when(named(comes), 1).otherwise(-1)).over(so_far)
    rows = rows.withColumns({COPIES: count, LAST: F.lead(named(STEP)).over(same).isNull()})
    first = F.when(named(comes) & (named(COPIES) == 1), named(STEP))
    end = F.when(~named(comes) & (named(COPIES) == 0), named(STEP)).when(named(LAST) & (named(COPIES) > 0), named(STEPS))
    return rows.withColumns({SINCE: F.last(first, ignorenulls=True).over(so_far), ENDS: end})


def _each(every: Column) -> Column:
    return F.explode(F.when(named(GOES), every).otherwise(F.slice(every, 1, 1)))


def _cut(rows: DataFrame) -> DataFrame:
    """Blocks: those that a row asks, one of each size, and those of a stretch. A block of level 3 has 8 changes."""
    levels = f"sequence(0, if({quoted(GOES)}, length(bin({quoted(STEPS)})), 0))"
    since, ends = quoted(SINCE), quoted(ENDS)
    first, end = f"shiftright({since} + shiftleft(1L, level) - 1L, level)", f"shiftright({ends}, level)"  # those that lie within, whole
    ours = f"{first} < {end} AND {{}} % 2 = 1"  # a block whose neighbour lies within, too, is half of a larger one that does
    none = f"slice(array({_block('0L', '0')}), 1, 0)"
    each = [f"if({ours.format(edge)}, array({_block(number)}), {none})" for edge, number in ((first, first), (end, f"{end} - 1L"))]
    cut = f"if({ends} IS NULL, {none}, flatten(transform({levels}, level -> concat({', '.join(each)}))))"
    asked = f"transform({levels}, level -> {_block(f'CAST(shiftright({quoted(STEP)}, level) AS BIGINT)')})"
    rows = rows.withColumn(BLOCK, F.explode(expression(f"if({quoted(OF)} IS NULL, {asked}, {cut})")))
    level = named(BLOCK).getField("level")
    row = F.when(level == 0, named(ROW))  # of a value it is null
    return rows.withColumns({LEVEL: level, NUMBER: named(BLOCK).getField("number"), ROW: row})


def _block(number: str, level: str = "level") -> str:
    return f"named_struct('level', {level}, 'number', {number})"
