"""When a row that waits is due, by Spark's own operators (rule S3): where no kernel can run.

A row takes a place if stream time before it has reached what the place of its key is due at; until then, later rows replace it and are due
when it is. A row before which stream time has reached all that earlier rows could be due at takes one in any case, and begins a stretch. Of
a stretch, the rows that come after its first place is due are folded into further places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.plain.folds import COLLECTED, ONE, collected, fold
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import HIGHEST, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

ROW, LARGEST, SURE, STRETCH, FIRST, TAKES, FURTHER = (
    f"{PREFIX}{name}" for name in ("row", "largest", "sure", "stretch", "first_due", "takes", "further")
)


def with_due(rows: DataFrame, keys: Sequence[str], sort: Sequence[Column], before: str, own: str, into: str) -> DataFrame:
    """The rows with the column `into`. `before` is the stream time before a row, `own` when it would be due in a place of its own."""
    key = [*map(named, dict.fromkeys(keys))]
    each = Window.partitionBy(*key).orderBy(*sort)
    so_far = each.rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.withColumns(
        {ROW: F.row_number().over(each), LARGEST: F.max(named(own)).over(each.rowsBetween(Window.unboundedPreceding, -1))}
    )
    passed = (named(before) >= named(LARGEST)) & (named(LARGEST) < HIGHEST)  # where that is due, nothing ever is
    rows = rows.withColumn(SURE, named(LARGEST).isNull() | F.coalesce(passed, F.lit(False)))
    first = {STRETCH: F.max(F.when(named(SURE), named(ROW))), FIRST: F.last(F.when(named(SURE), named(own)), ignorenulls=True)}
    rows = rows.withColumns({name: column.over(so_far) for name, column in first.items()})
    again = rows.where(~named(SURE) & (named(before) >= named(FIRST)))
    stretches = again.groupBy(*key, named(STRETCH), named(FIRST)).agg(collected(ROW, before, own))
    reached = f"one.{quoted(before)} >= so_far.due AND so_far.due < {HIGHEST}L"
    moved = f"if({reached}, one.{quoted(own)}, so_far.due) AS due"
    takers = fold({"due": quoted(FIRST)}, moved, reached, "array(one)", f"slice({quoted(COLLECTED)}, 1, 0)")
    further = stretches.select(*key, F.explode(expression(takers)).alias(ONE))
    further = further.select(*key, named(ONE).getField(ROW).alias(ROW), named(ONE).getField(own).alias(TAKES), F.lit(True).alias(FURTHER))
    both = rows.withColumns({TAKES: F.when(named(SURE), named(own)), FURTHER: F.lit(False)}).unionByName(further, allowMissingColumns=True)
    placed = Window.partitionBy(*key).orderBy(named(ROW), named(FURTHER).desc()).rowsBetween(Window.unboundedPreceding, 0)
    due = F.last(named(TAKES), ignorenulls=True).over(placed)
    return both.withColumn(into, due).where(~named(FURTHER)).drop(ROW, LARGEST, SURE, STRETCH, FIRST, TAKES, FURTHER)
