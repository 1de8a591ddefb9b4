"""Final rows of tumbling windows as a plain GROUP BY (rules W1, W5, W6): no kernel, and rows are added up before the shuffle.

Those of sessions, too, in event-time order, once it is clear which rows begin one.
Which rows came in time is a filter (`first_reach`), so what a window comes to is an aggregate of Spark's own over those that did. That
holds where an aggregate is the same whatever the order of rows, to the last digit: counts, sums that are exact, extremes. And where the
last row's ORDER BY column is the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import SUMMED_AS_BIGINT, expression, has_floating, named
from streamtime.sql.rows.frame import PREFIX, wanting_all, whole
from streamtime.sql.rows.scans import chosen, is_few, straight_from_files
from streamtime.sql.rows.sorting import HASH, coarse, sorted_runs
from streamtime.sql.rows.typed import collated, microseconds, moment
from streamtime.sql.syntax.text import HIGHEST, literal, minus, quoted
from streamtime.sql.windows.first_reach import RELEASE, STEP, in_time, stepped
from streamtime.sql.windows.membership import AT, END, START, close, instant
from streamtime.sql.windows.release import EMIT_REASON, EMIT_TIME, MOMENT, as_they_leave, emitted, released_by
from streamtime.udfs.closing import of_sessions, of_time_windows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Ref
    from streamtime.sql.windows.aggregates import WrittenAggregate
    from streamtime.udfs.closing import Closing

FIXED = (*SUMMED_AS_BIGINT, T.LongType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.DecimalType)
KEYS = (*FIXED, T.StringType, T.BinaryType)  # equal to themselves alone
ROOMY = 28  # digits: ten billion numbers of so many fit DECIMAL(38)
NEWEST, LATEST, LOW, LOW_LATER, TOTAL, RANK, TIES = (
    f"{PREFIX}{name}" for name in ("newest", "latest", "low", "low_later", "total_", "rank", "ties")
)
LOWEST = f"(-{HIGHEST}L - 1L)"  # the first moment, at which a window stands that begins before it
AFTER = 4  # columns of a change after its aggregates


def final_rows(call: Bound, frame: Frame, asked: Sequence[WrittenAggregate], fields: Sequence[T.StructField]) -> DataFrame | None:
    """The final rows of a call in batch, grouped. None: what it asks for depends on the order of rows, or is not for a filter to say."""
    sums = fitting(call, frame, asked, as_changes=call.last_changes)
    if sums is None:
        return None
    if call.options.get("gap") is not None:
        return _of_sessions(call, frame, sums, fields) if frame.in_time_order else None
    size, takes_part, again = call["size"], frame.has_time & frame.has_key, straight_from_files(frame)
    closing = of_time_windows(call["grace"])
    steps = size, closing.after_start(size)
    made = {NEWEST: F.max(frame.order[0].ref.column)} | ({} if frame.in_time_order else {LATEST: F.max(frame.time.column)})
    made |= {f"{TOTAL}{i}": total for i, total in enumerate(sums)}
    if not frame.in_time_order:
        rows = in_time(frame, takes_part, size, size, closing, again)
    elif frame.kernels:
        rows = stepped(chosen(frame, takes_part), size)
    else:  # where no kernel runs, no filter: it would compute the time once more
        rows = stepped(frame, size, takes_part)
        made = _of_some_step(made, asked)
    if rows is None:
        return None
    window_key = list(dict.fromkeys([*(k.name for k in frame.keys), STEP]))
    if call.last_changes:  # those of rows that are equal in key and ORDER BY are numbered; Spark drops this where nobody asks
        rows, window_key = _ranked(rows)
        made[TIES] = F.count(F.lit(1)) - F.max(named(RANK))  # how many stand beside the last
    groups = rows.df.groupBy(*map(named, window_key))

    def grouped(more: dict[str, Column]) -> DataFrame:
        return groups.agg(*[column.alias(name) for name, column in (made | more).items()])

    if frame.in_time_order:
        df, clocks = _with_clocks(call, frame, grouped, size, closing)
        if not frame.kernels:  # a condition of `STEP` alone would pass the aggregate
            df = df.where(F.when(named(NEWEST).isNotNull(), named(STEP)).isNotNull())
        return released_by(call, _laid_out(call, frame, df, closing, fields), clocks, {}, steps, few=is_few(frame.source))
    df = grouped({RELEASE: F.max(named(RELEASE))})  # all rows of a window have the same
    if call["at_end"] == "emit" and frame.kernels:  # a text keeps them by itself, since which rows take part is not deterministic there
        df = whole(df)
    clocks = df.select(instant(frame, named(LATEST)).alias(MOMENT))  # the largest time of all is never late
    finals = _laid_out(call, frame, df, closing, fields)
    return as_they_leave(call, finals, [f.name for f in fields], clocks, {})


def fitting(call: Bound, frame: Frame, asked: Sequence[WrittenAggregate], *, as_changes: bool) -> list[Column] | None:
    """What groups add up. None: what is asked for is not for a GROUP BY to say; `as_changes`, not to the last digit as changes have it."""
    rounded = any(one.function == "avg" for one in asked) or any(has_floating(ref.type) for ref in frame.extras.get("aggregates", ()))
    return totals(frame, asked) if _fits(call, frame) and not (as_changes and rounded) else None


def _ranked(rows: Frame) -> tuple[Frame, list[str]]:
    """Each row with its rank in its window, by ORDER BY; and the columns that a window's rows share. One shuffle is for rank and totals."""
    by, keys = rows.order[0].ref, [k.name for k in rows.keys]
    df, keys = sorted_runs(rows.df, keys, coarse(by.name, by.type)) if keys else (rows.df, keys)
    window_key = list(dict.fromkeys([*keys, STEP]))
    return rows.with_df(df.withColumn(RANK, F.rank().over(Window.partitionBy(*map(named, window_key)).orderBy(named(by.name))))), window_key


def _of_some_step(made: dict[str, Column], asked: Sequence[WrittenAggregate]) -> dict[str, Column]:
    """The same, but the group of rows that take no part, which has no step, adds nothing up: it could fail. A count cannot."""
    adds = {f"{TOTAL}{i}" for i, one in enumerate(asked) if one.function != "count"}
    return {name: F.when(named(STEP).isNotNull(), column) if name in adds else column for name, column in made.items()}


def _with_clocks(
    call: Bound, frame: Frame, grouped: Callable[[dict[str, Column]], DataFrame], size: int, closing: Closing
) -> tuple[DataFrame, DataFrame]:
    """Groups in event-time order, with the stream times at which windows close: of all rows, read once more, or of what groups know."""
    if straight_from_files(frame) or not (frame.kernels or call["at_end"] == "emit"):  # which asks for the last one, too
        takes_part, at = frame.has_time & frame.has_key, instant(frame, frame.time.column)  # no filter here, either
        times = frame.df.select(F.when(takes_part, at).alias(MOMENT))
        return grouped({}).withColumn(LATEST, named(NEWEST)), times
    firsts = _firsts(frame, size, closing)
    df = grouped({name: F.min(first) for name, first in firsts.items()})
    df = whole(df).withColumn(LATEST, named(NEWEST)) if frame.kernels else df.withColumn(LATEST, wanting_all(named(NEWEST), df))
    told = [instant(frame, named(n)) for n in (*firsts, *([LATEST] if call["at_end"] == "emit" else []))]
    if not frame.kernels:  # rows that take no part move no clock
        told = [F.when(named(STEP).isNotNull(), at) for at in told]
    return df, df.select((F.explode(F.array(*told)) if len(told) > 1 else told[0]).alias(MOMENT))


def _fits(call: Bound, frame: Frame) -> bool:
    """Whether windows do not overlap, one clock runs over all rows, and a group keeps keys and the ORDER BY column as they are."""
    by, size = frame.order[0], call.options.get("size")
    tumbling = call["slide"] in (None, size) if size is not None else call.options.get("gap") is not None
    ordered = len(frame.order) == 1 and by.ascending and isinstance(by.ref.type, FIXED)
    return tumbling and ordered and not call.clock_by and all(isinstance(k.type, KEYS) and not collated(k.type) for k in frame.keys)


def _firsts(frame: Frame, size: int, closing: Closing) -> dict[str, Column]:
    """Of a window's rows, those whose smallest can be the first stream time at or above a close: all, and those after a close within it."""
    time, rest = frame.time.column, closing.after % size
    if not rest:
        return {LOW: time}
    at = microseconds(quoted(frame.time.name), frame.time.type)
    return {LOW: time, LOW_LATER: F.when(expression(f"pmod({at}, {size}L) >= {rest}L"), time)}


def _of_sessions(call: Bound, frame: Frame, sums: Sequence[Column], fields: Sequence[T.StructField]) -> DataFrame:
    """The final rows of sessions in event-time order: none is late, and one begins where the row before is further away than the gap."""
    takes_part, keys = frame.has_time & frame.has_key, [named(k) for k in dict.fromkeys(k.name for k in frame.keys)]
    if straight_from_files(frame):
        taking = frame.with_df(frame.df.where(takes_part))
    else:
        needed = [*frame.keys, frame.order[0].ref, frame.time, *frame.extras.get("aggregates", ())]
        df = frame.only(takes_part).df.select(*map(named, dict.fromkeys(ref.name for ref in needed)))
        by_key = df.repartition(*keys) if keys else df.repartition(1)
        taking = frame.with_df(whole(by_key) if frame.kernels else by_key)
    rows = taking.df.withColumn(AT, expression(microseconds(quoted(frame.time.name), frame.time.type)))
    if keys:
        rows, by = sorted_runs(rows, [k.name for k in frame.keys], coarse(frame.time.name, frame.time.type))
        keys = [named(name) for name in dict.fromkeys(by)]
    by_time = Window.partitionBy(*keys).orderBy(named(AT))
    rows = rows.withColumn(LOW, F.lag(named(AT)).over(by_time))
    opens = named(LOW).isNull() | (named(LOW) < expression(minus(quoted(AT), call["gap"])))
    rows = rows.withColumn(START, F.max(F.when(opens, named(AT))).over(by_time.rowsBetween(Window.unboundedPreceding, 0)))
    made = {NEWEST: F.max(frame.order[0].ref.column), END: F.max(named(AT))} | {f"{TOTAL}{i}": total for i, total in enumerate(sums)}
    df = rows.groupBy(*keys, named(START)).agg(*[column.alias(name) for name, column in made.items()])
    kind, joined = fields[-AFTER].dataType, named(END) > named(START)  # a row that joined withdrew what stood before, as change 0
    start, end = (expression(moment(quoted(edge), kind)) for edge in (START, END))
    closes = close(quoted(END), of_sessions(call["gap"], call["grace"]), kind).alias("window_close")
    change = (named("window_close"), F.lit("upsert"), end, F.when(joined, F.lit(1)).otherwise(F.lit(0)).cast("bigint"))
    columns = _columns(frame, fields, df, (start, end), change)  # most of which need not be sorted with the others
    left = emitted(call, df.select(*[named(n) for n in df.columns if n != HASH], closes), taking, frame.time.column, None)
    return left.select(*columns, named(EMIT_TIME), named(EMIT_REASON))


def _laid_out(call: Bound, frame: Frame, grouped: DataFrame, closing: Closing, fields: Sequence[T.StructField]) -> DataFrame:
    """Groups with the columns of a change (rule C10), and when they leave."""
    size, kind = call["size"], fields[-AFTER].dataType
    at, ahead = quoted(AT), f"({size}L - pmod({quoted(AT)}, {size}L))"  # of a window that begins before the first moment, less
    df = grouped.withColumn(AT, expression(f"coalesce(try_multiply({quoted(STEP)}, {size}L), {LOWEST})"))
    df = df.withColumn(START, expression(moment(at, kind))).withColumn(END, expression(f"least({at}, {HIGHEST}L - {ahead}) + {ahead}"))
    seq = named(TIES) if call.last_changes else F.lit(0).cast("bigint")
    change = (close(quoted(END), closing, kind), F.lit("upsert"), instant(frame, named(LATEST)), seq)
    columns = _columns(frame, fields, grouped, (named(START), expression(moment(quoted(END), kind))), change)
    return df.select(*columns, *([instant(frame, named(RELEASE)).alias(RELEASE)] if RELEASE in grouped.columns else []))


def _columns(
    frame: Frame, fields: Sequence[T.StructField], grouped: DataFrame, bounds: Sequence[Column], change: Sequence[Column]
) -> list[Column]:
    """The columns of a change: those that it carries from its group, its bounds, what was added up, and those of the change itself."""
    keys = {k.name for k in frame.keys}
    count = sum(name.startswith(TOTAL) for name in grouped.columns)
    carried = fields[: -AFTER - count - 2]
    assert {f.name for f in carried} <= keys | {frame.order[0].ref.name}
    made = [named(f.name) if f.name in keys else _present(named(NEWEST), f) for f in carried]
    made += [*bounds, *(named(f"{TOTAL}{i}") for i in range(count)), *change]
    return [column.alias(f.name, metadata=f.metadata) for column, f in zip(made, fields, strict=True)]


def _present(column: Column, field: T.StructField) -> Column:
    """The column, said never to be null where its field is: no group is without a row."""
    if field.nullable:
        return column
    kind = field.dataType
    if isinstance(kind, T.DecimalType):
        some = f"0.{'0' * kind.scale}BD" if kind.scale else "0BD"  # as a literal: a cast of another number could be null
    elif isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        some = moment("0L", kind)
    else:
        some = "DATE '1970-01-01'" if isinstance(kind, T.DateType) else "false" if isinstance(kind, T.BooleanType) else "0Y"
    return F.coalesce(column, expression(some).cast(kind))


def totals(frame: Frame, asked: Sequence[WrittenAggregate]) -> list[Column] | None:
    """Spark's own aggregates, for those that come out the same whatever the order of rows. None: one does not."""
    refs = iter(frame.extras.get("aggregates", ()))
    columns = []
    for one in asked:
        total = _total(one, next(refs)) if one.argument else F.count(F.lit(1))
        if total is None:
            return None
        columns.append(total)
    return columns


def _total(one: WrittenAggregate, ref: Ref) -> Column | None:
    column, kind = ref.column, ref.type
    if one.function == "count":
        return F.count(column)
    if one.function in ("min", "max"):
        pick = F.min if one.function == "min" else F.max
        if isinstance(kind, (T.FloatType, T.DoubleType)):
            return pick(column + F.lit(0).cast(kind))  # of 0.0 and -0.0 always the same one
        return pick(column) if isinstance(kind, FIXED) else None
    if one.function not in ("sum", "avg"):
        return None
    if isinstance(kind, SUMMED_AS_BIGINT):
        return F.sum(column) if one.function == "sum" else F.sum(column).cast("double") / F.count(column)
    if isinstance(kind, T.DecimalType):
        return (F.sum(column) if one.function == "sum" else F.avg(column)) if kind.precision <= ROOMY else None
    return _of_longs(one, quoted(ref.name)) if isinstance(kind, T.LongType) else None


def _of_longs(one: WrittenAggregate, column: str) -> Column:
    """The sum or average of BIGINTs: upper and lower halves are added up apart, so that only what they come to can be too large."""
    high, low = f"sum(shiftright({column}, 32))", f"sum({column} & 4294967295L)"
    if one.function == "avg":
        return expression(f"(CAST({high} AS DOUBLE) * {2**32}L + CAST({low} AS DOUBLE)) / count({column})")
    above = f"({high} + shiftright({low}, 32))"
    problem = f"{one.function}(..) AS {one.name}: the sum does not fit BIGINT; cast the argument to DECIMAL(38)"
    fits = f"WHEN {above} BETWEEN -2147483648L AND 2147483647L THEN shiftleft({above}, 32) | ({low} & 4294967295L)"
    return expression(f"CASE WHEN {high} IS NULL THEN NULL {fits} ELSE raise_error({literal(problem)}) END")
