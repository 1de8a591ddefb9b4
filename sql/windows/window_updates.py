"""WINDOW_UPDATES over time windows by Spark's own operators (rules W1, W5, W6, C10): where no kernel can run.

Each row stands once for each window that takes it. What a window came to by then is an aggregate over its rows so far, in processing order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain.totals import sortable, total
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.syntax.text import let, quoted
from streamtime.sql.windows.membership import END, START, clocked, close, closed, moments, windowed
from streamtime.sql.windows.release import emitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.windows.updates import Changing
    from streamtime.udfs.updates.aggregates import Aggregate

NUMBER, STATE, LATEST, SEQ, NEXT = (f"{PREFIX}{name}" for name in ("number", "state_", "latest", "seq", "next"))


def plainly(call: Bound, changing: Changing) -> DataFrame:
    """The changes of a call in batch, or its final rows. Raises Unplain: an aggregate that only a kernel adds up."""
    frame, size, slide = changing.frame, call["size"], call["slide"] or call["size"]
    takes_part = frame.has_time & frame.has_key
    frame, stream_time = clocked(frame, takes_part)
    frame = frame.only(takes_part)
    keys = [*map(named, dict.fromkeys(changing.identity))]
    number = F.row_number().over(Window.partitionBy(*keys).orderBy(*frame.sort()))
    rows = windowed(frame.with_df(frame.df.withColumn(NUMBER, number)), F.lit(True), size, slide)
    rows = rows.with_df(rows.df.where(~closed(rows, stream_time, changing.updates.closing)))
    each = Window.partitionBy(*keys, named(START)).orderBy(named(NUMBER))
    place = F.struct(rows.time.column.alias("at"), named(NUMBER).alias("number"))
    aggregates = [one for one, _ in changing.updates.layout.aggregates]
    made, results = states(rows.df, changing, aggregates, place, each.rowsBetween(Window.unboundedPreceding, 0))
    final = call["emit"] == "final"
    same = [named(NUMBER)] if final else shared(changing)  # a final row's number is among the changes of one row
    seq = F.row_number().over(Window.partitionBy(*keys, *same).orderBy(named(NUMBER), named(START))).cast("bigint") - 1
    made |= {LATEST: F.max(rows.time.column).over(each.rowsBetween(Window.unboundedPreceding, 0)), SEQ: seq}
    if not final:
        return rows.df.withColumns(made).select(*laid_out(rows, changing, results))
    df = rows.df.withColumns(made | {NEXT: F.lead(named(NUMBER)).over(each)})
    finals = df.where(named(NEXT).isNull()).select(*laid_out(rows, changing, results))
    return emitted(call, finals, frame, named(stream_time), (slide, changing.updates.closing.after_start(size)))


def states(
    rows: DataFrame, changing: Changing, aggregates: Sequence[Aggregate], place: Column, so_far: WindowSpec, by_time: bool = False
) -> tuple[dict[str, Column], dict[str, str]]:
    """Of each aggregate the column in which it is added up, and SQL text for its result. Raises Unplain: one that only a kernel adds up.

    `place` is a row's event time and number, null where it is in no window. DOUBLEs are added up in the order of numbers; with `by_time`,
    those of one time first, and then what they come to.
    """
    kinds = {field.name: field.dataType for field in changing.fields}
    made: dict[str, Column] = {}
    results: dict[str, str] = {}
    for i, one in enumerate(aggregates):
        kind, state = rows.schema[one.column].dataType if one.column else T.LongType(), f"{STATE}{i}"
        value, text = named(one.column), quoted(state)
        sums_by_time = by_time and one.function in ("sum", "avg") and isinstance(kind, T.DoubleType)
        if sums_by_time or one.function == "collect_list":
            sortable(one, kind)
            made[state] = F.collect_list(F.when(value.isNotNull(), F.struct(place.alias("place"), value.alias("value")))).over(so_far)
            results[one.name] = _sum_by_time(text, one.function) if sums_by_time else f"transform(array_sort({text}), y -> y.value)"
        elif one.function in ("first", "last"):  # a null is first or last like any other value
            made[state], results[one.name] = (F.min_by if one.function == "first" else F.max_by)(value, place).over(so_far), text
        else:
            running, results[one.name] = total(state, one, kind, kinds[one.name], rising=True)
            made[state] = running.running(so_far)
    return made, results


def _sum_by_time(gathered: str, function: str) -> str:
    """SQL text for a sum, or an average, of DOUBLEs, in the order in which the kernel adds them up."""
    both = "coalesce(s.before + s.here, s.here)"
    start = "named_struct('before', CAST(NULL AS DOUBLE), 'here', CAST(NULL AS DOUBLE), 'at', get(sorted, -1).place.at)"
    same = "named_struct('before', s.before, 'here', s.here + x.value, 'at', s.at)"
    other = f"named_struct('before', {both}, 'here', CAST(0 AS DOUBLE) + x.value, 'at', x.place.at)"
    text = f"aggregate(sorted, {start}, (s, x) -> if(s.at = x.place.at, {same}, {other}), s -> {both})"
    text = f"{text} / CAST(size(sorted) AS DOUBLE)" if function == "avg" else text
    return let("sorted", f"array_sort({gathered})", f"if(size(sorted) = 0, NULL, {text})")


def shared(changing: Changing) -> list[Column]:
    """What is the same of a key's changes that are numbered together: the ORDER BY columns, of which NaN equals itself."""
    return [*map(named, changing.updates.layout.ordered)]


def laid_out(rows: Frame, changing: Changing, results: dict[str, str]) -> list[Column]:
    """The columns of a change (rule C10)."""
    kind, bounds = moments(rows), changing.updates.layout.bounds
    closes = close(microseconds(quoted(END), kind), changing.updates.closing, kind)
    latest = expression(moment(microseconds(quoted(LATEST), rows.time.type), kind)) if rows.time.type != kind else named(LATEST)
    made = dict(zip(bounds, (named(START), named(END)), strict=True)) | {name: expression(text) for name, text in results.items()}
    made |= {"window_close": closes, "change_type": F.lit("upsert"), "change_time": latest, "change_seq": named(SEQ)}
    return [made.get(f.name, named(f.name)).alias(f.name, metadata=f.metadata) for f in changing.fields]
