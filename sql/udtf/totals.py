"""AGGREGATE_CHANGES as a Python UDTF: the columns of its changes, and what each change of the rows in memory does to groups (rule J9).

What is added up and taken back are the bags of a stream's state; what they come to gets the types that Spark's own aggregates have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as T

from streamtime.sql.changes.aggregate import asked_of, refuse_uncomparable
from streamtime.sql.rows.changelog import CHANGE, MADE_ANEW
from streamtime.sql.rows.columns import arrow_type
from streamtime.sql.syntax.text import one_to_one, quoted
from streamtime.sql.udtf.filtered import named_place, of_place, too_old
from streamtime.sql.udtf.suppress import KIND
from streamtime.sql.udtf.told import told_apart
from streamtime.sql.udtf.updates import argument_of
from streamtime.sql.windows.aggregates import ARGUMENT, types
from streamtime.udfs.arrays import groups
from streamtime.udfs.changes.totals import EXACT, ColumnTotal
from streamtime.udfs.updates.aggregates import half_up

if TYPE_CHECKING:
    from streamtime.sql.call.in_memory import Columns
    from streamtime.sql.call.spec import Bound

COUNT_DIGITS, MOST_DIGITS = 20, 38  # of a count that is divided by, and of any DECIMAL
FLOATING = (T.FloatType, T.DoubleType)


@dataclass(frozen=True)
class TypedTotal:
    """One aggregate: what is known of a group for it (`of_column`; None: count(*)), the type of its values, and of what it comes to."""

    function: str
    text: str
    of_column: ColumnTotal | None
    given: T.DataType
    type: T.DataType


@dataclass
class GroupSoFar:
    """What is known of a group so far: its rows, the largest time of its changes, how many changes it had at one place of ORDER BY."""

    bags: list[Any]
    counts: list[int]
    rows: int = 0
    time: int | None = None
    place: Any = None
    number: int = -1


@dataclass(frozen=True)
class GroupedChanges:
    """A call, as far as its columns go."""

    fields: list[T.StructField]
    shown: list[tuple[int, bool]]  # the columns of the input that a change has, and whether they are its group's
    ordered: list[int]  # those that changes are numbered among
    totals: list[TypedTotal]
    arguments: tuple[str, ...]  # what is added up, as SQL text, behind what tells groups apart

    def changes(self, call: Bound, in_time_order: bool, rows: list[tuple[Any, ...]], columns: Columns) -> Iterator[tuple[Any, ...]]:
        """The changes of the groups; `rows` come in processing order, the arguments of the aggregates last."""
        before: dict[int, tuple[int, Any]] = {}
        known: dict[str, GroupSoFar] = {}
        made: list[tuple[list[Any], int, tuple[Any, ...]]] = []
        states: list[list[tuple[int, Any]]] = [[] for _ in self.totals]
        values = [self._read(rows, i) for i in range(len(self.totals))]
        for row, reason in enumerate(ignored(call, in_time_order, columns)):
            if reason is not None:
                continue
            key = int(columns.keys[row])
            was, of_old = before.pop(key, (row, None))
            of_new = rows[row][-1][0] if columns.changes[row][KIND] == 0 else None
            if of_new is not None:
                before[key] = (row, of_new)
            moved = of_old is not None and of_new is not None and of_old != of_new
            for comes, whose, of in ((False, was, of_old), (True, row, of_new)):
                if of is None:
                    continue
                group = known.setdefault(of, self._empty())
                self._add(group, comes, [v[whose] for v in values])
                time = int(columns.times[row])
                group.time = time if group.time is None else max(group.time, time)
                if not comes and of_old == of_new:
                    continue  # its other half follows
                place = tuple(of_place(rows[row][i]) for i in self.ordered)
                group.number = group.number + 1 if place == group.place else 0
                group.place = place
                carried = [rows[whose if of_group else row][i] for i, of_group in self.shown]
                made.append((carried, group.rows, (group.time, 2 * group.number + (moved and comes))))
                for some, bag, count in zip(states, group.bags, group.counts, strict=True):
                    some.append((count, bag.result() if bag is not None else None))
        results = [self._results(total, some) for total, some in zip(self.totals, states, strict=True)]
        for i, (carried, there, (at, seq)) in enumerate(made):
            totals = (None if not there else there if t.of_column is None else r[i] for t, r in zip(self.totals, results, strict=True))
            yield (*carried, *totals, "upsert" if there else "delete", at, seq)

    def _empty(self) -> GroupSoFar:
        return GroupSoFar(
            [t.of_column.empty(_arrow(t.given)) if t.of_column is not None else None for t in self.totals], [0] * len(self.totals)
        )

    def _add(self, group: GroupSoFar, comes: bool, values: Sequence[Any]) -> None:
        """One row more, or one less."""
        sign = 1 if comes else -1
        group.rows += sign
        for i, (bag, value) in enumerate(zip(group.bags, values, strict=True)):
            if bag is not None and value is not None:
                (bag.put if comes else bag.take)(value)
                group.counts[i] += sign

    def _read(self, rows: list[tuple[Any, ...]], number: int) -> list[Any]:
        """Of each row the value that an aggregate adds up."""
        total = self.totals[number]
        if total.of_column is None:
            return [None] * len(rows)
        place = 1 + sum(t.of_column is not None for t in self.totals[:number])
        return total.of_column.read(pa.array([row[-1][place] for row in rows], _arrow(total.given)))

    def _results(self, total: TypedTotal, states: list[tuple[int, Any]]) -> list[Any]:
        """What an aggregate comes to, change by change."""
        if total.of_column is None or total.function == "count":
            return [count for count, _ in states]
        if total.function in ("min", "max"):
            column = total.of_column.results([state for _, state in states], _arrow(total.given))
            values: list[Any] = column.to_pylist()
            return values
        return [_number(total, count, state) if count else None for count, state in states]


def totals_shape(call: Bound, schema: T.StructType, time: T.DataType) -> GroupedChanges:
    """What the result looks like. Raises CallError for what is no column, which a change could not have, and what cannot be taken back."""
    asked = asked_of(call)
    if not call.keys:
        raise call.no_key()
    by = [named_place(call, schema, "`group_by`", text) for text in call["group_by"]]
    clocks = [named_place(call, schema, "`clock_by`", text) for text in call["clock_by"] or ()]
    order = [named_place(call, schema, "ORDER BY", o.expression.text) for o in call.order]
    totals, arguments = [], []
    for number, one in enumerate(asked):
        argument = argument_of(call, schema, ARGUMENT, one.argument) if one.argument else None
        kind, _ = types(call, one, argument)
        refuse_uncomparable(call, one, argument)
        of_column: ColumnTotal | None = None
        given: T.DataType = T.LongType()
        if argument is not None:
            function = "sum" if one.function == "avg" else one.function
            of_column, given = ColumnTotal(f"s{number}", f"n{number}", argument.name, function), _given(one.function, argument.type)
            counted = f"if({quoted(argument.name)} IS NULL, NULL, true)"
            arguments.append(counted if function == "count" else f"CAST({quoted(argument.name)} AS {given.simpleString()})")
        totals.append(TypedTotal(one.function, one.text, of_column, given, kind))
    shown = {schema[i].name: (i, of_group) for i, of_group in [*((i, False) for i in (*clocks, *order)), *((i, True) for i in by)]}
    names = [n for n in dict.fromkeys(schema[i].name for i in (*by, *clocks, *order)) if not call.names.among(n, MADE_ANEW)]
    made = [T.StructField(name, kind) for name, kind in zip(CHANGE, (T.StringType(), time, T.LongType()), strict=True)]
    added = [T.StructField(one.name, total.type) for one, total in zip(asked, totals, strict=True)]
    fields = [T.StructField(n, schema[n].dataType) for n in names] + added + made
    if twice := call.names.twice([f.name for f in fields]):
        raise call.refuse(None, f"the result would have two columns `{twice[0]}`", "Rename one of them.")
    ordered = [i for i in order if not call.names.among(schema[i].name, MADE_ANEW)]
    group = one_to_one([told_apart(call, schema, "`group_by`", text) for text in call["group_by"]])
    absent = " OR ".join(f"{quoted(schema[i].name)} IS NULL" for i in by) or "false"
    return GroupedChanges(fields, [shown[n] for n in names], ordered, totals, (f"if({absent}, NULL, {group})", *arguments))


def ignored(call: Bound, in_time_order: bool, columns: Columns) -> list[str | None]:
    """Why changes are ignored."""
    reasons = too_old(call, in_time_order, columns)
    newest: dict[int, int] = {}
    for row, reason in enumerate(reasons):
        if reason is None and call["versioned"]:
            key, time = int(columns.keys[row]), int(columns.times[row])
            if time < newest.setdefault(key, time):
                reasons[row] = "out_of_order"
            newest[key] = max(newest[key], time)
    return reasons


def _given(function: str, kind: T.DataType) -> T.DataType:
    """The type of values as they are added up."""
    if function == "count":
        return T.BooleanType()
    if isinstance(kind, T.IntegralType):
        return T.LongType()
    return T.DoubleType() if isinstance(kind, FLOATING) else kind


def _arrow(kind: T.DataType) -> pa.DataType:
    """The Arrow form of values as Python has them: a TIMESTAMP is in local time."""
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return pa.timestamp("us")
    return pa.binary() if isinstance(kind, T.BinaryType) else arrow_type(kind)


def _number(total: TypedTotal, count: int, state: Any) -> Any:
    """A sum or an average of what is there, as Spark's own is typed and rounded. Raises OverflowError where it does not fit."""
    if isinstance(total.type, T.DoubleType):
        return float(state) / (count if total.function == "avg" else 1)
    scale = total.given.scale if isinstance(total.given, T.DecimalType) else 0
    if total.function == "avg":
        wide = _quotient(min(MOST_DIGITS, total.given.precision + 10), scale)  # type: ignore[attr-defined]
        state, scale = half_up(state * 10 ** (wide - scale), count), wide
        state, scale = half_up(state * 10**total.type.scale, 10**wide), total.type.scale  # type: ignore[attr-defined]
    is_decimal = isinstance(total.type, T.DecimalType)
    least, most = (-(10**total.type.precision) + 1, 10**total.type.precision) if is_decimal else (groups.LOWEST, groups.HIGHEST + 1)  # type: ignore[attr-defined]
    if not least <= state < most:
        fix = "cast the argument to a smaller DECIMAL" if is_decimal else "cast the argument to DECIMAL(38)"
        raise OverflowError(f"`{total.text}` does not fit {total.type.simpleString().upper()}; {fix}")
    return Decimal(state).scaleb(-scale, EXACT) if is_decimal else state


def _quotient(precision: int, scale: int) -> int:
    """The scale of what Spark divides, a DECIMAL of these digits by a count, before it is cast."""
    wide = max(6, scale + COUNT_DIGITS + 1)
    digits = precision - scale + wide
    return wide if digits <= MOST_DIGITS else max(MOST_DIGITS - (digits - wide), min(wide, 6))
