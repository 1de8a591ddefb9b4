"""WINDOW_UPDATES over time windows by Spark's own operators (rules W1, W5, W6, C10): where no kernel can run.

Each row stands once for each window that takes it. What a window came to by then is an aggregate over its rows so far, in processing order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain.totals import total
from streamtime.sql.rows.columns import expression, has_collation, named, orderable
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import plus, quoted
from streamtime.sql.windows.membership import END, START, clocked, closed, moments, windowed
from streamtime.sql.windows.release import emitted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.windows.changes import Changing
    from streamtime.udfs.updates.aggregates import Aggregate

NUMBER, STATE, LATEST, SEQ, NEXT = (f"{PREFIX}{name}" for name in ("number", "state_", "latest", "seq", "next"))


def plainly(call: Bound, changing: Changing) -> DataFrame | None:
    """The changes of a call in batch, or its final rows. None: sliding windows, or an aggregate that only a kernel adds up."""
    if call["size"] is None:
        return None
    frame, size, slide = changing.frame, call["size"], call["slide"] or call["size"]
    takes_part = frame.has_time & frame.has_key
    frame, clock = clocked(frame, takes_part)
    frame = frame.only(takes_part)
    keys = [*map(named, dict.fromkeys(changing.identity))]
    number = F.row_number().over(Window.partitionBy(*keys).orderBy(*frame.sort()))
    rows = windowed(frame.with_df(frame.df.withColumn(NUMBER, number)), F.lit(True), size, slide)
    rows = rows.with_df(rows.df.where(~closed(rows, clock, call["grace"])))
    each = Window.partitionBy(*keys, named(START)).orderBy(named(NUMBER))
    states = _states(rows, changing, each.rowsBetween(Window.unboundedPreceding, 0))
    if states is None:
        return None
    made, results = states
    final = call["emit"] == "final"
    same = [named(NUMBER)] if final else _shared(rows, changing)  # a final row's number is among the changes of one row
    seq = F.row_number().over(Window.partitionBy(*keys, *same).orderBy(named(NUMBER), named(START))).cast("bigint") - 1
    made |= {LATEST: F.max(rows.time.column).over(each.rowsBetween(Window.unboundedPreceding, 0)), SEQ: seq}
    if not final:
        return rows.df.withColumns(made).select(*_laid_out(call, rows, changing, results))
    df = rows.df.withColumns(made | {NEXT: F.lead(named(NUMBER)).over(each)})
    finals = df.where(named(NEXT).isNull()).select(*_laid_out(call, rows, changing, results))
    return emitted(call, finals, frame, named(clock), (slide, size + call["grace"]))


def _states(rows: Frame, changing: Changing, so_far: WindowSpec) -> tuple[dict[str, Column], dict[str, str]] | None:
    """Of each aggregate the column in which it is added up, and SQL text for its result. None: one that only a kernel adds up."""
    kinds = {field.name: field.dataType for field in changing.fields}
    states: dict[str, Column] = {}
    results: dict[str, str] = {}
    for i, (one, _) in enumerate(changing.updates.layout.aggregates):
        kind, state = rows.df.schema[one.column].dataType if one.column else T.LongType(), f"{STATE}{i}"
        if one.function in ("first", "last", "collect_list"):
            if one.function == "collect_list" and (not orderable(kind) or has_collation(kind)):
                return None
            states[state], results[one.name] = _by_time(rows, one, so_far), quoted(state)
            if one.function == "collect_list":
                results[one.name] = f"transform(array_sort({quoted(state)}), y -> y.value)"
            continue
        added = total(state, one, kind, kinds[one.name], rising=True)
        if added is None:
            return None
        states[state], results[one.name] = added[0].running(so_far), added[1]
    return states, results


def _by_time(rows: Frame, one: Aggregate, so_far: WindowSpec) -> Column:
    """What is taken in the order of event times, of equal ones in processing order. A null is first or last like any other value."""
    value = named(one.column)
    place = rows.time.column.alias("at"), named(NUMBER).alias("number")
    if one.function == "collect_list":
        return F.collect_list(F.when(value.isNotNull(), F.struct(*place, value.alias("value")))).over(so_far)
    return (F.min_by if one.function == "first" else F.max_by)(value, F.struct(*place)).over(so_far)


def _shared(rows: Frame, changing: Changing) -> list[Column]:
    """What is the same of a key's changes that are numbered together: the ORDER BY columns; no NaN is the same as another."""
    same = []
    for name in changing.updates.layout.ordered:
        same.append(named(name))
        if isinstance(rows.df.schema[name].dataType, (T.FloatType, T.DoubleType)):
            same.append(F.when(F.isnan(named(name)), named(NUMBER)))
    return same


def _laid_out(call: Bound, rows: Frame, changing: Changing, results: dict[str, str]) -> list[Column]:
    """The columns of a change (rule C10)."""
    kind, bounds = moments(rows), changing.updates.layout.bounds
    closes = moment(plus(microseconds(quoted(END), kind), call["grace"]), kind)
    latest = expression(moment(microseconds(quoted(LATEST), rows.time.type), kind)) if rows.time.type != kind else named(LATEST)
    made = dict(zip(bounds, (named(START), named(END)), strict=True)) | {name: expression(text) for name, text in results.items()}
    made |= {"window_close": expression(closes), "change_type": F.lit("upsert"), "change_time": latest, "change_seq": named(SEQ)}
    return [made.get(f.name, named(f.name)).alias(f.name, metadata=f.metadata) for f in changing.fields]
