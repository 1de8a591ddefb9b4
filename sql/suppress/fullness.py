"""What the metrics of suppress count where no kernel has a buffer (section 8): how full it was after each row, and how late rows came out.

A row enters the buffer when it comes, and leaves it with the row that replaces it, or with the first one that brings stream time to when it
is due. So that row need not be known: a leave stands before the first row of that stream time, or of a later one. Stream time never falls,
so that rows in its order are in their own; what is held after a row is a sum over what stands before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import HIGHEST
from streamtime.udfs.arrays.groups import LOWEST
from streamtime.udfs.suppress.buffer import ARRIVED, BYTES, OUTCOME
from streamtime.udfs.suppress.decisions import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.suppress.changelog import Changelog

IS_ROW, WAS, MOMENT, NEXT, COUNT, SIZE, OVER = (f"{PREFIX}{name}" for name in ("is_row", "was", "moment", "next", "count", "size", "over"))
WENT = ("released", "tombstone")


def counts(changelog: Changelog, decided: DataFrame, clocks: Sequence[str], at: str, due: str, came: str) -> DataFrame:
    """One row: the counts of `udfs/suppress/counts.py`, of rows with their outcome.

    `at`, `due` and `came` are columns: a row's time, null where it takes no part; when it is due; and the moment at which it went, where
    that is known without a look at the rows after it.
    """
    frame, apart = changelog.frame, [named(c) for c in clocks]
    takes_part, went = named(at).isNotNull(), named(OUTCOME).isin(*WENT)
    key = Window.partitionBy(*map(named, changelog.identity), *apart, named(at).isNull()).orderBy(*frame.sort())
    replaces = F.lag(named(OUTCOME)).over(key) == "replaced"
    rows = decided.withColumn(BYTES, changelog.size)
    rows = rows.withColumn(WAS, F.when(replaces, F.lag(named(BYTES)).over(key)))
    yes, no = F.lit(True), F.lit(False)
    twice = F.when(went & named(came).isNull(), F.array(yes, no)).otherwise(F.array(yes))  # a row that leaves later stands twice
    rows = rows.withColumn(IS_ROW, F.explode(twice))
    at_once = went & (named(due) < HIGHEST) & (named(ARRIVED) >= named(due))

    def change(amount: Column, was: Column) -> Column:
        came_in = F.when(at_once, 0).otherwise(amount) - F.coalesce(was, F.lit(0))
        return F.when(~takes_part, 0).when(named(IS_ROW), came_in).otherwise(-amount).cast("bigint")

    rows = rows.withColumn(MOMENT, F.when(named(IS_ROW), named(ARRIVED)).otherwise(named(due)))
    rows = rows.withColumns({COUNT: change(F.lit(1), F.when(named(WAS).isNotNull(), 1)), SIZE: change(named(BYTES), named(WAS))})
    clock = Window.partitionBy(*apart)
    rising = clock.orderBy(named(MOMENT), named(IS_ROW), *frame.sort(within_key=False)).rowsBetween(Window.unboundedPreceding, 0)
    falling = clock.orderBy(named(MOMENT).desc(), named(IS_ROW).desc()).rowsBetween(Window.unboundedPreceding, 0)
    following = F.last(F.when(named(IS_ROW), named(MOMENT)), ignorenulls=True).over(falling)
    rows = rows.withColumns({COUNT: F.sum(named(COUNT)).over(rising), SIZE: F.sum(named(SIZE)).over(rising), NEXT: following})
    left = F.coalesce(named(came), F.when(~named(IS_ROW), named(NEXT)))
    came_out = (named(OUTCOME) == "released") & (named(due) < HIGHEST)
    return _summed(rows.withColumn(OVER, F.when(came_out, _after(left, named(due)))), at)


def unless_full(call: Bound, made: DataFrame, counted: DataFrame) -> DataFrame:
    """The result; an error where the buffer held more than it may (rule S6). `counted` is one row, of `counts`.

    The error stands before the rows in a union. So it is raised though nothing comes out; and what asks for a few rows alone asks for it,
    too. It stands in each column: of a row of nulls, a condition on the result would leave nothing, the error included. What the columns
    are is said first, by a part without rows, since a union takes that from its first.
    """
    errors: list[tuple[Column, Column]] = []
    for option, held, unit in (("max_records", "count_max", "rows"), ("max_bytes", "size_max", "bytes")):
        if (bound := call[option]) is not None:
            problem = f"{call.spec.name}, `{option}`: the buffer is full: expected at most {bound} {unit}, got "
            fix = f". Raise {option}, or let the buffer go on otherwise: when_full => 'spill'."
            error = F.raise_error(F.concat(F.lit(problem), named(held).cast("string"), F.lit(fix)))
            errors.append((named(held) > bound, error))

    def error_or(value: Column, kind: T.DataType) -> Column:
        for over, error in reversed(errors):
            value = F.when(over, error.cast(kind)).otherwise(value)
        return value

    never = named("count_max") < 0  # a literal could be taken out of its place behind the bounds
    columns = [error_or(F.lit(None).cast(f.dataType), f.dataType).alias(f.name) for f in made.schema.fields]
    return made.where(F.lit(False)).union(counted.where(error_or(never, T.BooleanType())).select(*columns)).union(made)


def _after(moment: Column, other: Column) -> Column:
    """Microseconds from the other to the moment; it stops at the ends of BIGINT."""
    return F.coalesce(F.try_subtract(moment, other), F.when(moment < 0, LOWEST).when(moment >= 0, HIGHEST))


def _summed(rows: DataFrame, at: str) -> DataFrame:
    itself, buffered = named(IS_ROW), named(IS_ROW) & named(at).isNotNull()
    late = F.when(buffered, _after(named(ARRIVED), named(at)))
    sums = {f"{outcome}_total": F.count_if(itself & (named(OUTCOME) == outcome)) for outcome in OUTCOMES}
    sums |= {"rows": F.count_if(buffered), "late_sum": F.sum(late.cast("double")), "late_max": F.max(late)}
    sums |= {"low": F.min(named(at)), "high": F.max(named(at))}
    for name, held, amount in (("count", COUNT, F.lit(1)), ("size", SIZE, named(BYTES))):
        of_row = F.when(buffered, named(held))
        sums[f"{name}_current"] = F.sum(F.when(itself & (named(OUTCOME) == "held"), amount))
        sums |= {f"{name}_max": F.max(of_row), f"{name}_sum": F.sum(of_row)}
    over = named(OVER)
    sums |= {"overtime_min": F.min(over), "overtime_sum": F.sum(over.cast("double")), "overtimes": F.count(over)}
    return rows.agg(*(column.alias(name) for name, column in sums.items()))
