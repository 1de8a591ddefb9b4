"""DEDUPLICATE within an interval in event-time order, or its reverse, by Spark's own operators (rules D1, D2): where no kernel can run.

A row whose predecessor lies more than `within` before it is kept whatever came before: it opens a stretch. The times of other kept rows are
found apart, over keys and times alone: a chain through those that lie further from the row that opens the stretch. A mark for each of them
comes to the rows and sorts before those of its own time: the first row after it is kept. So rows are shuffled once, in sorted runs
(`streamtime.sql.rows.sorting`), and what is in arrays is 8 bytes for each time in a stretch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.plain.folds import Chain
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.sorting import HASH, coarse_number, sorted_runs
from streamtime.sql.syntax.text import plus, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

BEFORE, MARK, ROW, OPENED = (f"{PREFIX}{name}" for name in ("before", "mark", "row", "opened"))


def with_kept(
    rows: DataFrame,
    identity: Sequence[str],
    at: str,
    ties: Sequence[Column],
    within: int,
    into: tuple[str | None, str],
    told: dict[str, Column],
) -> DataFrame:
    """The rows with the time of the kept row that was kept last, if anybody asks, and whether a row is that; null where its own time is,
    `at`, a BIGINT.

    `ties` say which of a key's rows of one time is first. `told` are columns that every row gets of its kept row.
    """
    kept, itself = into
    marks = _further(rows.select(*map(named, identity), named(at)), identity, at, within)
    both = rows.withColumn(MARK, F.lit(False)).unionByName(marks.withColumn(MARK, F.lit(True)), allowMissingColumns=True)
    both, by = sorted_runs(both, identity, coarse_number(at))
    each = Window.partitionBy(*map(named, by)).orderBy(named(at).asc_nulls_first(), named(MARK).desc(), *ties)
    so_far = each.rowsBetween(Window.unboundedPreceding, 0)
    both = both.withColumns({BEFORE: F.lag(named(at)).over(each), itself: F.lag(named(MARK)).over(each)})
    both = both.withColumn(itself, expression(f"{quoted(at)} IS NOT NULL AND (coalesce({quoted(itself)}, false) OR {_opens(at, within)})"))
    both = both.withColumn(kept, F.max(F.when(named(itself), named(at))).over(so_far)) if kept else both
    its = {name: F.last(F.when(named(itself), F.struct(value.alias("of"))), ignorenulls=True).over(so_far) for name, value in told.items()}
    both = both.withColumns(its) if its else both
    return both.where(~named(MARK)).drop(MARK, BEFORE, HASH)


def _opens(at: str, within: int) -> str:
    return f"({quoted(BEFORE)} IS NULL OR {quoted(at)} > {plus(quoted(BEFORE), within)})"


def _further(times: DataFrame, identity: Sequence[str], at: str, within: int) -> DataFrame:
    """Keys and times of the kept rows that open no stretch.

    Rows without a time come first, and are left out behind the windows: a filter before these would compute the time once more.
    """
    times, by = sorted_runs(times, identity, coarse_number(at))
    each = Window.partitionBy(*map(named, by)).orderBy(named(at))  # Spark sorts once for all of them: equal times lie in one order
    times = times.withColumns({BEFORE: F.lag(named(at)).over(each), ROW: F.row_number().over(each)})
    opened = F.max(F.when(expression(_opens(at, within)), named(at))).over(each.rowsBetween(Window.unboundedPreceding, 0))
    times = times.withColumn(OPENED, opened).where(
        expression(f"{quoted(at)} > {plus(quoted(OPENED), within)} AND {quoted(at)} > {quoted(BEFORE)}")
    )
    return Chain(quoted(OPENED), ROW, at, at, within).taken(times, [*map(named, by), named(OPENED)]).drop(OPENED, HASH)
