"""FILTER_CHANGES as a Python UDTF: the columns of its changes, and what each change of the rows in memory does (rules C10, V8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from streamtime.sql.call.errors import of_other_type
from streamtime.sql.call.names import plain
from streamtime.sql.rows.changelog import CHANGE, MADE_ANEW, refuse_made_anew
from streamtime.sql.udtf.suppress import KIND
from streamtime.udfs.versions import refused

if TYPE_CHECKING:
    from streamtime.sql.call.in_memory import Columns
    from streamtime.sql.call.spec import Bound


@dataclass(frozen=True)
class Filtered:
    """A call, as far as its columns go."""

    fields: list[T.StructField]
    shown: list[tuple[int, bool]]  # the columns of the input that a change has, and whether a delete has them, too
    ordered: list[int]  # those that changes are numbered among
    time: T.DataType
    arguments: tuple[str, ...] = ()

    def changes(self, call: Bound, in_time_order: bool, rows: list[tuple[Any, ...]], columns: Columns) -> Iterator[tuple[Any, ...]]:
        """The changes; `rows` come in processing order."""
        there: dict[int, bool] = {}
        numbers: Counter[Any] = Counter()
        for row, (values, reason) in enumerate(zip(rows, too_old(call, in_time_order, columns), strict=True)):
            if reason is not None:
                continue
            key, passes = int(columns.keys[row]), columns.changes[row][KIND] == 0
            had = bool(call["versioned"]) or there.get(key, False)
            there[key] = passes
            if not passes and not had:
                continue
            place = (key, *(of_place(values[i]) for i in self.ordered))
            shown = (values[i] if passes or always else None for i, always in self.shown)
            yield (*shown, "upsert" if passes else "delete", int(columns.times[row]), numbers[place])
            numbers[place] += 1


def named_place(call: Bound, schema: T.StructType, role: str, text: str) -> int:
    """Where a column stands that a change has by its name. Raises CallError where it has none."""
    name = call.names.find(plain(text), schema.names)
    if name is None:
        fix = f"Name it in the TABLE argument: TABLE(SELECT *, {text} AS name FROM ..)."
        raise call.refuse(role, f"a change has this column, so it needs a name (`{text}`)", fix)
    refuse_made_anew(call, role, name)
    return schema.names.index(name)


def filtered_shape(call: Bound, schema: T.StructType, time: T.DataType) -> Filtered:
    """What the result looks like. Raises CallError for keys or an order without names, which a change could not have."""
    if not call.keys:
        raise call.no_key()
    asked = [("PARTITION BY", k.text) for k in call.keys] + [("ORDER BY", o.expression.text) for o in call.order]
    places = [named_place(call, schema, role, text) for role, text in asked]
    condition = call.names.find(plain(call["condition"]), schema.names)
    if condition is not None and not isinstance(schema[condition].dataType, T.BooleanType):
        problem = of_other_type("a condition", schema[condition].dataType.simpleString(), call["condition"])
        raise call.refuse("`condition`", problem, "Write it as 'value IS NULL'.")
    of_time = call.names.find(plain(call["time"]), schema.names) if call["time"] else None
    shared = {*places, *([schema.names.index(of_time)] if of_time is not None else [])}
    again = {i for i, name in enumerate(schema.names) if call.names.among(name, MADE_ANEW)}
    shown = [(i, i in shared) for i in range(len(schema)) if i not in again]
    fields = [T.StructField(schema[i].name, schema[i].dataType) for i, _ in shown]
    fields += [T.StructField(name, kind) for name, kind in zip(CHANGE, (T.StringType(), time, T.LongType()), strict=True)]
    return Filtered(fields, shown, [i for i in places[len(call.keys) :] if i not in again], time)


def too_old(call: Bound, in_time_order: bool, columns: Columns) -> list[str | None]:
    """Why changes are ignored."""
    retention = call["retention"] if call["versioned"] and not in_time_order else None
    reasons = list(columns.aside)
    for row, reason in enumerate(reasons):
        if reason is None and retention is not None and refused(int(columns.times[row]), int(columns.stream_time[row]), retention):
            reasons[row] = "too_old"
    return reasons


def of_place(value: Any) -> str:
    """What tells values of ORDER BY apart."""
    return repr(0.0 if isinstance(value, float) and value == 0 else value)
