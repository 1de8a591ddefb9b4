"""A changelog as what comes to groups of rows and goes from them, and what the groups come to (rule J9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.values import Expression
from streamtime.sql.changes.given import (
    ALIVE,
    OLD,
    changes_of,
    is_newest,
    of_order,
    refuse_computed,
    refuse_two_of_a_name,
    shown_once,
)
from streamtime.sql.changes.runs import in_runs, last_before
from streamtime.sql.plain.extremes import Extreme, with_extremes
from streamtime.sql.rows import kernels
from streamtime.sql.rows.changelog import CHANGE, MADE_ANEW, change_columns
from streamtime.sql.rows.columns import SUMMED_AS_BIGINT, expression, named, tie_value
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref, prepare, refs_of
from streamtime.sql.rows.sorting import LOWER_HALF
from streamtime.sql.syntax.text import quoted
from streamtime.sql.windows.aggregates import ARGUMENT, WrittenAggregate, arguments, parse, types
from streamtime.udfs.taken_back import TakenBack

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from streamtime.sql.call.spec import Bound

KNOWN = ("count", "sum", "avg", "min", "max")
CALLED = ", ".join(f"{k}(..)" for k in KNOWN)
NEWEST, APPLIED, BEFORE, ROW, HAD, HAS, SAME = (f"{PREFIX}{n}" for n in ("newest", "applied", "before", "row", "had", "has", "same"))
PART, COMES, LAST, MOVED, ROWS, SUM = (f"{PREFIX}{n}" for n in ("part", "comes", "last", "moved", "rows", "sum"))
AT, NUMBER = f"{PREFIX}at", f"{PREFIX}number"
COMPARED = (T.NumericType, T.StringType, T.BinaryType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)


@dataclass(frozen=True)
class Judged:
    """The changes, with what each did: whether its row was in a group (`HAD`), is in one now (`HAS`), and whether that is the `SAME`."""

    frame: Frame
    groups: tuple[Ref, ...]
    asked: list[WrittenAggregate]
    given: list[Ref | None]  # the column that each aggregate is of; None: count(*)


def judged(call: Bound) -> Judged:
    """Each change, and the row that it replaces."""
    seen = given(call)
    return replace(seen, frame=_replacing(call, seen.frame, seen.groups, [r for r in seen.given if r is not None]))


def asked_of(call: Bound) -> list[WrittenAggregate]:
    """The aggregates that the call asks for. Raises CallError for those that cannot be taken back."""
    asked = parse(call, f"those that can be taken back: {CALLED}")
    for one in asked:
        if one.function not in KNOWN:
            problem = f"`{one.text}` cannot be taken back: {CALLED} can"
            raise call.refuse(ARGUMENT, problem, "Compute it with GROUP BY from the table itself.")
    return asked


def refuse_uncomparable(call: Bound, one: WrittenAggregate, ref: Ref | None) -> None:
    """Whether a smallest or largest value is of a type that has one here."""
    if ref is not None and one.function in ("min", "max") and not isinstance(ref.type, COMPARED):
        raise call.refuse(ARGUMENT, f"`{one.text}` of {ref.type.simpleString().upper()} is not possible", "Use a field of it.")


def given(call: Bound) -> Judged:
    """The changes as they are given."""
    asked = asked_of(call)
    marks = {"deleted": (Expression.parse(call["deleted"]),)} if call["deleted"] else {}
    groups = tuple(Expression.parse(g) for g in call["group_by"])
    frame = prepare(call, group_by=groups, clock_by=call.clock_by, aggregates=arguments(asked), **marks)
    by = frame.extras["group_by"]
    refs = [("`group_by`", r) for r in by] + [("`clock_by`", r) for r in frame.clocks]
    refuse_computed(call, frame, refs + [("ORDER BY", r) for r in of_order(frame.order)])
    columns = iter(frame.extras.get("aggregates", ()))
    of = [next(columns) if one.argument else None for one in asked]
    for one, ref in zip(asked, of, strict=True):
        types(call, one, ref)
        refuse_uncomparable(call, one, ref)
        if not call.kernels and one.function in ("sum", "avg") and needs_kernel(one, ref):
            reason = f"`{one.text}` cannot be taken back by Spark's own operators, which round a sum in the order that rows come in"
            raise call.unplain(ARGUMENT, reason, "Cast the argument to DECIMAL. Or run it where Python runs: a sum is rounded once there.")
    frame = changes_of(call, frame, bool(call["versioned"]), frame.clocks)
    return Judged(frame, by, asked, of)


def needs_kernel(one: WrittenAggregate, ref: Ref | None) -> bool:
    """Whether Spark's windows cannot take it back: they can what adds up exactly."""
    inexact = ref is not None and isinstance(ref.type, (T.FloatType, T.DoubleType))
    return one.function in ("min", "max") or (one.function in ("sum", "avg") and inexact)


def _replacing(call: Bound, frame: Frame, groups: tuple[Ref, ...], given: list[Ref]) -> Frame:
    runs = in_runs(frame.df, frame.keys, frame.order, frame.tie_breaks())
    key = runs.each()
    before = key.rowsBetween(Window.unboundedPreceding, -1)
    accepted = frame.left_out.isNull() & ~named(OLD)
    newest = F.max(F.when(accepted, frame.time.column)).over(before) if call["versioned"] else F.lit(None).cast(frame.time.type)
    df = runs.df.withColumn(NEWEST, newest)
    df = df.withColumn(APPLIED, accepted & is_newest(frame.time.column, named(NEWEST)))
    row = f"struct({', '.join(quoted(n) for n in (ALIVE, *(r.name for r in dict.fromkeys((*groups, *given)))))})"
    last = last_before(f"if({quoted(APPLIED)}, {row}, NULL)", runs)
    df = df.withColumns({BEFORE: last, ROW: F.row_number().over(key)})
    here = expression(" AND ".join([quoted(ALIVE), *(f"{quoted(g.name)} IS NOT NULL" for g in groups)]))
    was = [f"{quoted(BEFORE)}.{quoted(g.name)}" for g in groups]
    there = expression(" AND ".join([f"coalesce({quoted(BEFORE)}.{quoted(ALIVE)}, false)", *(f"{w} IS NOT NULL" for w in was)]))
    same = expression(" AND ".join(f"{quoted(g.name)} IS NOT DISTINCT FROM {w}" for g, w in zip(groups, was, strict=True)))
    df = df.withColumns({HAS: named(APPLIED) & here, HAD: named(APPLIED) & there})
    return frame.with_df(df.withColumn(SAME, named(HAD) & named(HAS) & same))


def changes(call: Bound, judged: Judged) -> DataFrame:
    """The changes of the groups."""
    frame, shown = _parts(call, judged)
    frame, identity = frame.comparable(frame.keys)
    kinds = dict(zip((one.name for one in judged.asked), zip(judged.asked, judged.given, strict=True), strict=True))
    df = frame.df
    hard = {name: (one, ref) for name, (one, ref) in kinds.items() if ref is not None and needs_kernel(one, ref)}
    if hard and not call.kernels:
        extremes = {f"{SUM}_{name}": Extreme(_argument(ref), one.function == "max") for name, (one, ref) in hard.items()}
        frame = frame.with_df(with_extremes(frame.df, identity, frame.sort(), COMES, extremes))
    runs = in_runs(frame.df, refs_of(frame.df, identity), frame.order)
    so_far = runs.each().rowsBetween(Window.unboundedPreceding, 0)
    sign = F.when(named(COMES), 1).otherwise(-1)
    counted = {
        f"{ROWS}_{name}": F.sum(F.when(named(_argument(ref)).isNotNull(), sign).otherwise(0)).over(so_far)
        for name, (_, ref) in kinds.items()
        if ref is not None
    }
    sums = {
        f"{SUM}_{name}": _exact(_argument(ref), ref.type, so_far, averaged=one.function == "avg")
        for name, (one, ref) in kinds.items()
        if ref is not None and one.function in ("sum", "avg") and name not in hard
    }
    df = runs.df.withColumns({ROWS: F.sum(sign).over(so_far), AT: F.max(frame.time.column).over(so_far), **counted, **sums})
    again = _again(call, shown)
    places = [o.ref.name for o in frame.order if o.ref.name not in again]
    same_place = runs.each_place(places)
    number = F.sum(F.when(named(LAST), 1).otherwise(0)).over(same_place.rowsBetween(Window.unboundedPreceding, 0)) - 1
    df = df.withColumn(NUMBER, number)
    df = runs.sorted_again(df, places) if hard and call.kernels else df
    for name, (one, ref) in hard.items() if call.kernels else ():  # no window comes after them: Spark forgets how their rows are shuffled
        function, kind = ("sum", T.DoubleType()) if one.function in ("sum", "avg") else (one.function, ref.type)
        columns = [named(COMES), named(_argument(ref)).cast(kind), *map(named, identity)]
        df = kernels.with_column(df, f"{SUM}_{name}", TakenBack(function), columns, kind)
    df = df.where(named(LAST))
    there = named(ROWS) > 0
    values = [F.when(there, result(call, one, ref)).alias(name) for name, (one, ref) in kinds.items()]
    seq = 2 * named(NUMBER) + F.when(named(MOVED) & named(COMES), 1).otherwise(0)
    change = change_columns(F.when(there, "upsert").otherwise("delete"), named(AT), seq)
    shown = [(n, o) for n, o in shown if not call.names.among(o, MADE_ANEW)]
    refuse_two_of_a_name(call, [*(o for _, o in shown), *kinds, *CHANGE], "Rename one of them.")
    return df.select(*(named(n).alias(o) for n, o in shown), *values, *change)


def _again(call: Bound, shown: list[tuple[str, str]]) -> list[str]:
    """The ORDER BY columns that are made anew (C10), and those that only break ties."""
    return [n for n, o in shown if call.names.among(o, MADE_ANEW)] + [f"{PREFIX}ties", ROW, COMES]


def _argument(ref: Ref) -> str:
    return f"{PREFIX}of_{ref.name}"


def _parts(call: Bound, judged: Judged) -> tuple[Frame, list[tuple[str, str]]]:
    """One row for what goes from a group, one for what comes to one, and the columns that the result has of the changes, by their names."""
    frame, groups = judged.frame, judged.groups
    given = list(dict.fromkeys(r for r in judged.given if r is not None))
    carried = dict.fromkeys((*frame.clocks, *of_order(frame.order)))
    copied = {r: f"{PREFIX}of_order_{i}" for i, r in enumerate(carried)}
    by = {g: f"{PREFIX}group_{i}" for i, g in enumerate(groups)}

    def part(comes: bool) -> Column:
        source = "" if comes else f"{quoted(BEFORE)}."
        fields = [expression(f"{source}{quoted(r.name)}").alias(n) for r, n in [*by.items(), *((r, _argument(r)) for r in given)]]
        return F.when(named(HAS if comes else HAD), F.struct(F.lit(comes).alias(COMES), *fields))

    kinds = {c.name: c.type for c in frame.columns}
    ties = [tie_value(n, kinds[n]) for n in frame.ties(within_key=False)]
    df = frame.df.select(
        *(r.column.alias(n) for r, n in copied.items()),
        frame.time.column.alias(f"{PREFIX}of_row"),
        (F.struct(*ties) if ties else F.lit(0)).alias(f"{PREFIX}ties"),
        named(ROW),
        named(SAME),
        (named(HAD) & named(HAS) & ~named(SAME)).alias(MOVED),
        F.explode(F.array(part(False), part(True))).alias(PART),
    ).where(named(PART).isNotNull())
    fields = [COMES, *by.values(), *map(_argument, given)]
    df = df.select("*", *(expression(f"{quoted(PART)}.{quoted(f)}").alias(f) for f in fields))
    df = df.withColumn(LAST, named(COMES) | ~named(SAME)).drop(PART)
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    order = [Order(refs[copied[o.ref]], o.ascending, o.nulls_first) for o in frame.order]
    order += [Order(refs[n], True, True) for n in (f"{PREFIX}ties", ROW, COMES)]
    parts = Frame(df, (), (), tuple(refs[n] for n in by.values()), tuple(order), refs[f"{PREFIX}of_row"], {}, call.kernels)
    names = [*by.items(), *copied.items()]
    shown = shown_once(frame, [r for r, _ in names], [n for _, n in names])
    return parts, [(n, o) for o, n in shown.items()]


def _exact(value: str, kind: T.DataType, so_far: WindowSpec, *, averaged: bool) -> Column:
    """The sum of what is there, of a type that can be taken back. That of BIGINTs is two, of their upper and lower halves, so that only
    what they come to can be too large; where it is averaged, even that may be.
    """

    def summed(part: Column) -> Column:
        return F.sum(F.when(named(COMES), part).otherwise(-part)).over(so_far)

    if isinstance(kind, SUMMED_AS_BIGINT):
        return summed(named(value).cast("bigint"))
    if not isinstance(kind, T.LongType) or averaged:
        return summed(named(value).cast(kind if isinstance(kind, T.DecimalType) else T.DecimalType(20, 0)))
    low = summed(named(value).bitwiseAND(F.lit(LOWER_HALF)))
    high = summed(F.shiftright(named(value), 32)) + F.shiftright(low, 32)
    low = low.bitwiseAND(F.lit(LOWER_HALF))
    whole = (high.cast("decimal(20,0)") * F.lit(LOWER_HALF + 1) + low).cast("bigint")  # an error, as its sum is in Spark
    return F.when(high.between(-(2**31), 2**31 - 1), F.shiftleft(high, 32).bitwiseOR(low)).otherwise(whole)


def result(call: Bound, one: WrittenAggregate, ref: Ref | None) -> Column:
    """An aggregate, of the group's number of rows, that of its values, and what they come to."""
    kind, cast = types(call, one, ref)
    if ref is None:
        return named(ROWS)
    count, total = named(f"{ROWS}_{one.name}"), named(f"{SUM}_{one.name}")
    if one.function == "count":
        return count
    if one.function in ("min", "max"):
        return total
    if one.function == "avg":
        total = total.cast(cast) / (count.cast("decimal(20,0)") if isinstance(kind, T.DecimalType) else count)
    return F.when(count > 0, total.cast(kind))
