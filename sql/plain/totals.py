"""Aggregates by Spark's own operators, each with the state of the kernel's (rule W5): so far within a window, or folded and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain.islands import AT, SessionTotal
from streamtime.sql.rows.columns import has_collation, named, orderable
from streamtime.sql.rows.typed import type_text
from streamtime.sql.syntax.text import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column
    from pyspark.sql.window import WindowSpec

    from streamtime.udfs.updates.aggregates import Aggregate

FEW = 28  # digits: sums of so many merge and divide as the kernel's do


class Unplain(ValueError):
    """An aggregate that only a kernel adds up, and why."""

    def __init__(self, one: Aggregate, why: str) -> None:
        super().__init__(f"it needs a kernel for `{one.name}`, {one.function}(..): {why}")


def total(name: str, one: Aggregate, kind: T.DataType, result: T.DataType, rising: bool) -> tuple[SessionTotal, str]:
    """An aggregate, and SQL text for its result from its state. Raises Unplain: it cannot be told with Spark's own operators."""
    x, state = f"one.{quoted(one.column)}", quoted(name)
    if not rising and one.column:
        sortable(one, kind)
    columns = (one.column,) if one.column else ()
    if one.function == "count":
        added = f"if({x} IS NULL, s, s + 1L)" if one.column else "s + 1L"
        return SessionTotal(
            name, columns, "BIGINT", "0L", added, "a + b", _running(F.count(named(one.column) if one.column else F.lit(1)))
        ), state
    if one.function in ("sum", "avg"):
        return _sum(name, one, kind, result, rising)
    of = type_text(kind)
    if one.function in ("min", "max"):
        pick, best = ("least", F.min) if one.function == "min" else ("greatest", F.max)
        return SessionTotal(
            name, columns, of, f"CAST(NULL AS {of})", f"{pick}(s, {x})", f"{pick}(a, b)", _running(best(named(one.column)))
        ), state
    pair, value = f"STRUCT<at: BIGINT, value: {of}>", F.struct(named(AT).alias("at"), named(one.column).alias("value"))
    if one.function == "collect_list":
        placed = f"filter(s, y -> y.at <= at), array(named_struct('at', at, 'value', {x})), filter(s, y -> y.at > at)"
        added = f"if({x} IS NULL, s, concat({placed}))"
        gathered = _running(F.collect_list(F.when(named(one.column).isNotNull(), value)))
        total = SessionTotal(name, columns, f"ARRAY<{pair}>", f"CAST(array() AS ARRAY<{pair}>)", added, "concat(a, b)", gathered)
        return total, f"transform({state}, y -> y.value)"
    first = one.function == "first"
    newer = "at < s.at" if first else "at >= s.at"
    added = f"if(s.at IS NULL OR {newer}, named_struct('at', at, 'value', {x}), s)"
    running = _running(F.first(value) if first else F.last(value))
    return SessionTotal(name, columns, pair, f"CAST(NULL AS {pair})", added, "a" if first else "b", running), f"{state}.value"


def sortable(one: Aggregate, kind: T.DataType) -> None:
    """Raises Unplain where its values cannot be gathered in an array that is sorted."""
    if not orderable(kind):
        raise Unplain(one, f"rows are gathered in arrays that are sorted, and {kind.simpleString().upper()} has no order")
    if has_collation(kind):
        raise Unplain(one, "rows are gathered in arrays that are sorted, where texts that a collation takes for equal would change places")


def _running(function: Column) -> Callable[[WindowSpec], Column]:
    return lambda window: function.over(window)


def _sum(name: str, one: Aggregate, kind: T.DataType, result: T.DataType, rising: bool) -> tuple[SessionTotal, str]:
    """A sum, or an average: of how many values it is, and what they come to."""
    x, state, column, of = f"one.{quoted(one.column)}", quoted(name), named(one.column), type_text(kind)
    decimal = isinstance(kind, T.DecimalType)
    if isinstance(kind, T.DecimalType) and kind.precision > FEW and not (rising and one.function == "sum"):
        why = f"sums of more than {FEW} digits are merged and divided otherwise by Spark"
        raise Unplain(one, f"{why}. Or cast its argument to {FEW - 10} digits")
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

    total = SessionTotal(name, (one.column,), pair, f"CAST(named_struct('n', 0L, 'total', {zero}) AS {pair})", added, merged, running)
    value = f"{state}.total" if isinstance(kind, T.DoubleType) else fits(f"{state}.total")
    if one.function == "avg":
        value = f"{value} / CAST({state}.n AS {'DECIMAL(10,0)' if decimal else 'DOUBLE'})"
    return total, f"if({state}.n = 0L, NULL, CAST({value} AS {type_text(result)}))"


def _of_longs(column: Column, window: WindowSpec) -> Column:
    """A sum of BIGINTs so far, null where it does not fit: upper and lower halves are added up apart."""
    mask = F.lit(2**32 - 1).cast("bigint")
    high, low = F.sum(F.shiftright(column, 32)).over(window), F.sum(column.bitwiseAND(mask)).over(window)
    above = high + F.shiftright(low, 32)
    return F.when(above.between(-(2**31), 2**31 - 1), F.shiftleft(above, 32).bitwiseOR(low.bitwiseAND(mask)))
