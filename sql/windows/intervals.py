"""DEDUPLICATE within an interval by Spark's own operators, for rows in event-time order (rules D1, D2, D4, D8): where no kernel can run.

A gap of more than `within` begins a segment of a key, and its first row is kept. Only the times that lie further than `within` from that
are folded, into those of further kept rows. These are more than `within` apart, so a cell of that length has one at most, and a row's kept
one is in its own cell or the one before: an equi-join finds it, and no column of the input is in an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import HIGHEST, floor_div, plus, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame

AT, BEFORE, OPENS, SEGMENT, CELL, KEPT_CELL, NEAR, EARLIER, KEPT_AT = (
    f"{PREFIX}{name}" for name in ("at", "before", "opens", "segment", "cell", "kept_cell", "near", "earlier", "kept_at")
)
AT_ONCE = 1000  # times in one array while they are folded: to append to a long one copies it


def with_kept(frame: Frame, identity: Sequence[str], within: int, *, keep: str, refresh: bool, into: str) -> Frame:
    """The frame with the time of the kept row whose duplicate a row is, null where it passes. `identity` are columns to compare."""
    reverse, kind = keep == "last", frame.time.type
    at = microseconds(quoted(frame.time.name), kind)
    at = f"-greatest({at}, -{HIGHEST}L)" if reverse else at
    keys, sort = [named(i) for i in identity], frame.sort(reverse=reverse)
    rows = frame.df.withColumn(AT, F.when(frame.has_time & frame.has_key, expression(at)))
    if refresh:
        rows = _segments(rows, keys, sort, within).withColumn(KEPT_AT, F.when(named(OPENS).isNull(), named(BEFORE)))
    else:
        times = frame.with_df(rows).only(named(AT).isNotNull()).df.select(*keys, named(AT))
        cells = _cells(_segments(times, keys, [named(AT).asc()], within), identity, within)
        rows = _segments(rows, keys, sort, within).withColumn(CELL, expression(_cell(AT, within)))
        same = named(CELL) == named(KEPT_CELL)
        for key in identity:
            same &= named(key) == named(f"{PREFIX}its_{key}")
        rows = rows.join(cells, same, "left")  # not null-safe on purpose: a row with a null key or time is nobody's duplicate
        near = f"greatest({quoted(SEGMENT)}, if({quoted(NEAR)} <= {quoted(AT)}, {quoted(NEAR)}, NULL), {quoted(EARLIER)})"
        itself = f"{near} = {quoted(AT)} AND ({quoted(BEFORE)} IS NULL OR {quoted(BEFORE)} < {quoted(AT)})"
        rows = rows.withColumn(KEPT_AT, expression(f"if({itself}, NULL, {near})"))
    if keep == "unique":
        group = Window.partitionBy(*keys, F.coalesce(named(KEPT_AT), named(AT)))
        several = named(AT).isNotNull() & (F.count(F.lit(1)).over(group) > 1)
        rows = rows.withColumn(KEPT_AT, F.when(several, F.coalesce(named(KEPT_AT), named(AT))))
    kept = f"-{quoted(KEPT_AT)}" if reverse else quoted(KEPT_AT)
    return frame.with_df(rows.withColumn(into, expression(event_time(kept, kind))))


def _segments(rows: DataFrame, keys: Sequence[Column], order: Sequence[Column], within: int) -> DataFrame:
    """With the time of the row before in its key, and the time of the first row of its segment: `OPENS` in that row, `SEGMENT` in all."""
    each = Window.partitionBy(*keys, named(AT).isNull()).orderBy(*order)
    rows = rows.withColumn(BEFORE, F.lag(named(AT)).over(each))
    opens = expression(f"{quoted(BEFORE)} IS NULL OR {quoted(AT)} > {plus(quoted(BEFORE), within)}")
    rows = rows.withColumn(OPENS, F.when(opens, named(AT)))
    return rows.withColumn(SEGMENT, F.max(named(OPENS)).over(each.rowsBetween(Window.unboundedPreceding, 0)))


def _cells(times: DataFrame, identity: Sequence[str], within: int) -> DataFrame:
    """Kept rows but the first of each segment, by key and cell: the one in the cell, `NEAR`, and the one in the cell before, `EARLIER`."""
    far = times.where(expression(f"{quoted(AT)} > {plus(quoted(SEGMENT), within)}"))
    none = "CAST(array() AS ARRAY<BIGINT>)"
    start = f"named_struct('last', {quoted(SEGMENT)}, 'done', CAST(array() AS ARRAY<ARRAY<BIGINT>>), 'now', {none})"
    kept = f"if(size(so_far.now) < {AT_ONCE}, {{}}, {{}})"
    more = "named_struct('last', one, 'done', so_far.done, 'now', concat(so_far.now, array(one)))"
    full = "named_struct('last', one, 'done', concat(so_far.done, array(so_far.now)), 'now', array(one))"
    step = f"(so_far, one) -> if(one <= {plus('so_far.last', within)}, so_far, {kept.format(more, full)})"
    fold = f"aggregate(sort_array(times), {start}, {step}, so_far -> flatten(concat(so_far.done, array(so_far.now))))"
    found = far.groupBy(*map(named, identity), named(SEGMENT)).agg(F.collect_set(named(AT)).alias("times"))
    names = {key: f"{PREFIX}its_{key}" for key in identity}
    kept_rows = found.select(*[named(key).alias(name) for key, name in names.items()], F.explode(expression(fold)).alias(KEPT_AT))
    both = kept_rows.select("*", F.explode(expression("array(0L, 1L)")).alias("further"))
    both = both.withColumn(KEPT_CELL, expression(f"{_cell(KEPT_AT, within)} + further"))
    its = {NEAR: "further = 0", EARLIER: "further = 1"}
    picked = [F.max(F.when(expression(where), named(KEPT_AT))).alias(name) for name, where in its.items()]
    return both.groupBy(*map(named, names.values()), named(KEPT_CELL)).agg(*picked)


def _cell(at: str, within: int) -> str:
    return floor_div(quoted(at), max(within, 1))
