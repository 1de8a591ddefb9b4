"""SESSION_UPDATES by Spark's own operators (rules W5, W6, C10): where no kernel can run.

What each row did to the sessions of its key says which changes it caused. Aggregates have states, which windows give where times never
fall, and a fold elsewhere, where sessions merge: they are added up in the kernel's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, has_collation, named, orderable
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import moment
from streamtime.sql.syntax.text import literal, plus, quoted
from streamtime.sql.windows.islands import AT, END, LATE, STANDS, START, WAS_END, WAS_START, Total, with_steps
from streamtime.sql.windows.membership import clocked
from streamtime.sql.windows.release import emitted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.windows.changes import Changing
    from streamtime.udfs.updates.aggregates import Aggregate

STATE, CAUSED, COUNT, TURN, CHANGE = (f"{PREFIX}{name}" for name in ("state_", "caused", "count", "turn", "change"))
BEGINS, SO_FAR, SINCE = (f"{PREFIX}{name}" for name in ("begins", "so_far", "since"))
AFTER = ("window_close", "change_type", "change_time", "change_seq")  # columns of a change after its aggregates
FEW = 28  # digits: sums of so many merge and divide as the kernel's do


def plainly(call: Bound, changing: Changing) -> DataFrame | None:
    """The changes of a call in batch, or its final rows. None: an aggregate that only a kernel adds up."""
    layout, final = changing.updates.layout, call["emit"] == "final"
    fields = {f.name: f for f in changing.fields}
    schema = changing.frame.df.schema
    totals, results = [], {}
    for i, (one, _) in enumerate(layout.aggregates):
        kind = schema[one.column].dataType if one.column else T.LongType()
        made = _total(f"{STATE}{i}", one, kind, fields[one.name].dataType, rising=changing.frame.in_time_order)
        if made is None:
            return None
        totals.append(made[0])
        results[one.name] = made[1]
    frame = changing.frame
    takes_part = frame.has_time & frame.has_key
    frame, clock = clocked(frame, takes_part)
    frame = frame.only(takes_part)
    steps = with_steps(frame, changing.identity, call["gap"], call["grace"], totals, final)
    if final:
        change, seq = (quoted(START), quoted(END), "false"), F.size(_caused()).cast("bigint") - 1
        return emitted(call, _laid_out(call, steps.df.where(named(STANDS)), changing, results, change, seq), frame, named(clock), None)
    change, seq = tuple(f"{quoted(CHANGE)}.{field}" for field in ("low", "high", "gone")), named(SO_FAR) - named(SINCE) + named(TURN)
    return _laid_out(call, _numbered(steps, changing), changing, results, change, seq)


def _caused() -> Column:
    """The changes of a row: a delete of each session that it merges with, unless the new one is the row's time alone; then an upsert."""
    low, high, was_low, was_high, at = map(quoted, (START, END, WAS_START, WAS_END, AT))
    item = "named_struct('low', {}, 'high', {}, 'gone', {})".format
    upsert = item(low, high, "false")
    merged = f"WHEN {was_low} > {was_high} THEN array({item(low, was_high, 'true')}, {item(was_low, high, 'true')}, {upsert})"
    alone = f"WHEN {was_low} IS NULL OR ({low} = {at} AND {high} = {at}) THEN array({upsert})"
    return expression(f"CASE WHEN {quoted(LATE)} THEN NULL {alone} {merged} ELSE array({item(was_low, was_high, 'true')}, {upsert}) END")


def _numbered(frame: Frame, changing: Changing) -> DataFrame:
    """A row for each change, with how many there were before its row, and before the key's rows that share the ORDER BY columns."""
    each = Window.partitionBy(*map(named, changing.identity)).orderBy(*frame.sort())
    rows = frame.df.withColumns({CAUSED: _caused(), COUNT: F.greatest(F.size(_caused()), F.lit(0))})
    begins = F.row_number().over(each) == 1
    for name in changing.updates.layout.ordered:
        begins = begins | ~named(name).eqNullSafe(F.lag(named(name)).over(each))
        if isinstance(frame.df.schema[name].dataType, (T.FloatType, T.DoubleType)):
            begins = begins | F.coalesce(F.isnan(named(name)), F.lit(False))  # of which no two are one
    before = each.rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumns({BEGINS: begins, SO_FAR: F.coalesce(F.sum(named(COUNT)).over(before), F.lit(0).cast("bigint"))})
    since = F.last(F.when(named(BEGINS), named(SO_FAR)), ignorenulls=True).over(each.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn(SINCE, since).where(~named(LATE)).select("*", F.posexplode(named(CAUSED)).alias(TURN, CHANGE))


def _laid_out(call: Bound, rows: DataFrame, changing: Changing, results: dict[str, str], change: Sequence[str], seq: Column) -> DataFrame:
    """The columns of a change (rule C10); `change` is SQL text for its bounds, and whether it is a delete."""
    fields, bounds, (low, high, gone) = changing.fields, changing.updates.layout.bounds, change
    kind = fields[-len(AFTER)].dataType
    made = {bounds[0]: expression(moment(low, kind)), bounds[1]: expression(moment(high, kind))}
    for name, text in results.items():
        made[name] = F.when(~expression(gone), expression(text))
    made["window_close"] = expression(moment(plus(high, call["gap"] + call["grace"] + 1), kind))
    made["change_type"] = F.when(expression(gone), "delete").otherwise("upsert")
    made |= {"change_time": made[bounds[1]], "change_seq": seq}
    return rows.select(*[made.get(f.name, named(f.name)).alias(f.name, metadata=f.metadata) for f in fields])


def _total(name: str, one: Aggregate, kind: T.DataType, result: T.DataType, rising: bool) -> tuple[Total, str] | None:
    """An aggregate, and SQL text for its result from its state. None: it cannot be told with Spark's own operators."""
    x, state = f"one.{quoted(one.column)}", quoted(name)
    if not rising and one.column and (not orderable(kind) or has_collation(kind)):
        return None
    columns = (one.column,) if one.column else ()
    if one.function == "count":
        added = f"if({x} IS NULL, s, s + 1L)" if one.column else "s + 1L"
        return Total(name, columns, "BIGINT", "0L", added, "a + b", _running(F.count(named(one.column) if one.column else F.lit(1)))), state
    if one.function in ("sum", "avg"):
        return _sum(name, one, kind, result, rising)
    of = kind.simpleString()
    if one.function in ("min", "max"):
        pick, best = ("least", F.min) if one.function == "min" else ("greatest", F.max)
        return Total(name, columns, of, f"CAST(NULL AS {of})", f"{pick}(s, {x})", f"{pick}(a, b)", _running(best(named(one.column)))), state
    pair, value = f"STRUCT<at: BIGINT, value: {of}>", F.struct(named(AT).alias("at"), named(one.column).alias("value"))
    if one.function == "collect_list":
        placed = f"filter(s, y -> y.at <= at), array(named_struct('at', at, 'value', {x})), filter(s, y -> y.at > at)"
        added = f"if({x} IS NULL, s, concat({placed}))"
        gathered = _running(F.collect_list(F.when(named(one.column).isNotNull(), value)))
        total = Total(name, columns, f"ARRAY<{pair}>", f"CAST(array() AS ARRAY<{pair}>)", added, "concat(a, b)", gathered)
        return total, f"transform({state}, y -> y.value)"
    first = one.function == "first"
    newer = "at < s.at" if first else "at >= s.at"
    added = f"if(s.at IS NULL OR {newer}, named_struct('at', at, 'value', {x}), s)"
    running = _running(F.first(value) if first else F.last(value))
    return Total(name, columns, pair, f"CAST(NULL AS {pair})", added, "a" if first else "b", running), f"{state}.value"


def _running(function: Column) -> Callable[[WindowSpec], Column]:
    return lambda window: function.over(window)


def _sum(name: str, one: Aggregate, kind: T.DataType, result: T.DataType, rising: bool) -> tuple[Total, str] | None:
    """A sum, or an average: of how many values it is, and what they come to."""
    x, state, column, of = f"one.{quoted(one.column)}", quoted(name), named(one.column), kind.simpleString()
    decimal = isinstance(kind, T.DecimalType)
    if isinstance(kind, T.DecimalType) and kind.precision > FEW and not (rising and one.function == "sum"):
        return None
    problem = "the result has more than {} digits; cast the argument to a smaller DECIMAL".format(getattr(kind, "precision", ""))
    problem = problem if decimal else "the sum does not fit BIGINT; cast the argument to DECIMAL(38)"
    wrong = f"CAST(raise_error({literal(f'{one.function}(..) AS {one.name}: {problem}')}) AS {of})"

    def fits(text: str) -> str:
        return f"coalesce({text}, {wrong})"

    def add(left: str, right: str) -> str:
        if isinstance(kind, T.DoubleType):
            return f"{left} + {right}"
        return fits(f"try_cast({left} + {right} AS {of})" if decimal else f"try_add({left}, {right})")

    added = f"if({x} IS NULL, s, named_struct('n', s.n + 1L, 'total', {add('s.total', x)}))"
    merged = f"named_struct('n', a.n + b.n, 'total', {add('a.total', 'b.total')})"
    zero = f"CAST(0 AS {of})"
    pair = f"STRUCT<n: BIGINT, total: {of}>"

    def running(window: WindowSpec) -> Column:
        n = F.count(column).over(window)
        if isinstance(kind, T.DoubleType):
            total = F.sum(column).over(window)
        elif decimal:
            total = F.try_sum(column).over(window).try_cast(of)
        else:
            total = _of_longs(column, window)
        return F.struct(n.alias("n"), total.alias("total"))

    total = Total(name, (one.column,), pair, f"CAST(named_struct('n', 0L, 'total', {zero}) AS {pair})", added, merged, running)
    value = f"{state}.total" if isinstance(kind, T.DoubleType) else fits(f"{state}.total")
    if one.function == "avg":
        value = f"{value} / CAST({state}.n AS {'DECIMAL(10,0)' if decimal else 'DOUBLE'})"
    return total, f"if({state}.n = 0L, NULL, CAST({value} AS {result.simpleString()}))"


def _of_longs(column: Column, window: WindowSpec) -> Column:
    """A sum of BIGINTs so far, null where it does not fit: upper and lower halves are added up apart."""
    mask = F.lit(2**32 - 1).cast("bigint")
    high, low = F.sum(F.shiftright(column, 32)).over(window), F.sum(column.bitwiseAND(mask)).over(window)
    above = high + F.shiftright(low, 32)
    return F.when(above.between(-(2**31), 2**31 - 1), F.shiftleft(above, 32).bitwiseOR(low.bitwiseAND(mask)))
