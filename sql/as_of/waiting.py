"""When left rows that wait for `grace` are looked up (rule J5): once a left row that is as far ahead has arrived.

A row is let go as soon as the largest left time reaches its own time and `grace`, and it is a left row that brings it there: so it is the
first to arrive of all left rows whose time is that large. Rows that wait and rows that let go are sorted together by time, down.

Where clocks run apart, each has its task. Of one clock, times are cut into ranges that tasks sort side by side: to each range's own first
arrival comes that of all ranges above. Both are read off a small table, of the first arrival in each step of time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named, sorted_by
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.ranges import RANGE, Ranges, worth_spreading
from streamtime.sql.rows.scans import chosen, is_few
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import floor_div, let, plus, quoted
from streamtime.udfs.closing import of_waiting_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.as_of.sides import Sides
    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

RELEASE, WAITS, LIMIT, STEP, FIRST, ROWS, BEFORE, ALL, SPAN, APART, BOTH = (
    f"{PREFIX}{n}" for n in ("release", "waits", "limit", "step", "first", "rows", "before", "all", "span", "apart", "both")
)
STEPS, SHORTEST = 16, 1_000_000  # of `grace`; a step has a second at least, so that decades are some million of them


@dataclass(frozen=True)
class _Waiting:
    """The left rows: by which columns their clocks run, their times in microseconds, as SQL text, and which of them let others go."""

    frame: Frame
    clocks: list[str]
    at: str
    grace: int

    @property
    def arrival(self) -> Column:
        return self.frame.extras["arrival"][0].column

    @property
    def lets_go(self) -> Column:
        return self.frame.time.column.isNotNull() & self.arrival.isNotNull()


def released(call: Bound, sides: Sides, clocks: tuple[int, ...]) -> tuple[Sides, Column, Column]:
    """When each left row is looked up: the first arrival of a left row that is `grace` or more ahead of it, its own included; and whether
    none came before the input ended. A row without an arrival is looked up before anything has arrived.

    `clocks` are the numbers of the keys by which the clocks run.
    """
    left = sides.left
    at = microseconds(quoted(left.time.name), left.time.type)
    frame, identity = left.comparable([left.keys[i] for i in clocks])
    waiting, names = _Waiting(frame, identity, at, call["grace"]), left.df.columns
    spreads = frame.kernels and not identity and worth_spreading(frame.df.sparkSession) and not is_few(frame.source)
    df = _in_ranges(waiting) if spreads else _by_clock(waiting)
    leaves = expression(f"{at} <= {of_waiting_rows(call['grace']).last_to_close}")
    df = df.where(~named(WAITS)).withColumn(RELEASE, F.when(leaves, named(RELEASE)))
    waits = named(RELEASE).isNull() & waiting.lets_go & left.has_key
    let_go = F.when(waiting.arrival.isNotNull(), F.greatest(named(RELEASE), waiting.arrival))
    df = df.withColumns({WAITS: waits, RELEASE: let_go}).select(*map(named, names), named(WAITS), named(RELEASE))
    return replace(sides, left=left.with_df(df)), named(RELEASE), named(WAITS)


def _by_clock(waiting: _Waiting) -> DataFrame:
    """Rows that wait with `RELEASE`, and beside them those that let go; a task for each clock."""
    return _both(waiting).withColumn(RELEASE, _first_above(waiting.clocks))


def _in_ranges(waiting: _Waiting) -> DataFrame:
    """The same of one clock, by as many tasks as there are."""
    ranges = Ranges.of(waiting.frame.df.sparkSession)
    ranged = ranges.cut(_both(waiting).withColumn(SPAN, _span(waiting, ranges)), quoted(LIMIT), named(SPAN).getField("bounds"))
    ranged = ranged.withColumns({FIRST: F.get(named(SPAN).getField("above"), named(RANGE)), APART: ranges.partition_label}).drop(
        SPAN, RANGE
    )
    return ranged.withColumn(RELEASE, F.least(_first_above([APART]), named(FIRST))).drop(FIRST, APART)


def _first_above(divided_by: list[str]) -> Column:
    """The first arrival of a row that lets go at a row's limit or above."""
    down = Window.partitionBy(*map(named, divided_by)).orderBy(
        sorted_by(quoted(LIMIT), ascending=False, nulls_first=False), sorted_by(quoted(WAITS), ascending=False, nulls_first=False)
    )
    return F.min(named(RELEASE)).over(down.rowsBetween(Window.unboundedPreceding, 0))


def _both(waiting: _Waiting) -> DataFrame:
    """Each row as one that waits, with the time that lets it go as `LIMIT`; and once more, if it lets others go, with its own time as that
    and when it came. Those have no other columns, and `WAITS` for a mark. Rows are computed once for both.
    """
    frame = waiting.frame
    limit = expression(of_waiting_rows(waiting.grace).close(waiting.at, plus))
    came = F.lit(None).cast(frame.extras["arrival"][0].type)
    one = [limit.alias(LIMIT), came.alias(RELEASE), F.lit(False).alias(WAITS)]
    other = [expression(waiting.at).alias(LIMIT), waiting.arrival.alias(RELEASE), F.lit(True).alias(WAITS)]
    turns = F.array_compact(F.array(F.struct(*one), F.when(waiting.lets_go, F.struct(*other))))
    rows = frame.df.withColumn(BOTH, F.explode(turns))
    is_row, kinds = ~named(BOTH).getField(WAITS), frame.df.schema
    columns = [named(n) if n in waiting.clocks else F.when(is_row, named(n)).alias(n, metadata=kinds[n].metadata) for n in kinds.names]
    return rows.select(*columns, f"{BOTH}.*")


def _span(waiting: _Waiting, ranges: Ranges) -> Column:
    """Where ranges of times end, each with as many rows, as whole steps are; and for each, the first arrival of a row above it."""
    width = max(waiting.grace // STEPS, SHORTEST)
    moving = chosen(waiting.frame, waiting.lets_go).df.select(
        expression(floor_div(waiting.at, width)).alias(STEP), waiting.arrival.alias(FIRST)
    )
    steps = moving.groupBy(STEP).agg(F.min(FIRST).alias(FIRST), F.count("*").alias(ROWS))
    so_far = {BEFORE: F.sum(ROWS).over(Window.orderBy(STEP)) - named(ROWS), ALL: F.sum(ROWS).over(Window.partitionBy())}
    part = expression(f"{quoted(BEFORE)} * {ranges.count} DIV {quoted(ALL)}").alias(RANGE)
    cut = steps.withColumns(so_far).groupBy(part).agg(F.min(STEP).alias(STEP), F.min(FIRST).alias(FIRST))
    bounds = f"transform(slice(steps, 2, {ranges.count}), one -> one.{quoted(STEP)} * {width})"
    above = f"array_min(transform(slice(steps, turn + 1, {ranges.count}), one -> one.{quoted(FIRST)}))"
    arrays = f"named_struct('bounds', {bounds}, 'above', transform(sequence(1, size(steps)), turn -> {above}))"
    span = let("steps", f"sort_array(collect_list(struct({quoted(STEP)}, {quoted(FIRST)})))", f"if(size(steps) > 0, {arrays}, NULL)")
    return cut.agg(expression(span).alias("span")).scalar()  # one expression over the aggregate, as in `Ranges`
