"""WINDOW_UPDATES and SESSION_UPDATES as Python UDTFs: the columns of a change, and the kernel over rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from streamtime.sql.call.names import plain
from streamtime.sql.rows.columns import arrow_type
from streamtime.sql.syntax.text import quoted
from streamtime.sql.udtf.filtered import of_place
from streamtime.sql.windows.aggregates import ARGUMENT, Typed, parse, types
from streamtime.sql.windows.release import EMIT_REASON, EMIT_TIME
from streamtime.sql.windows.updates import behind_the_result, carried_columns, fields_of, final_order, moment
from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Ints
from streamtime.udfs.updates.aggregates import aggregate
from streamtime.udfs.updates.in_batch import Sorted
from streamtime.udfs.updates.updates import ChangeColumns, Updates

if TYPE_CHECKING:
    from streamtime.sql.call.in_memory import Columns
    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Ref

ROW, TIME, KEY, STREAM_TIME = "__row", "__time", "__key", "__stream_time"
NESTED = (T.ArrayType, T.MapType, T.StructType, T.VariantType)


@dataclass(frozen=True)
class Shape:
    """A call, as far as its columns go."""

    fields: list[T.StructField]
    places: list[int]  # where each of them is among what the kernel gives
    carried: list[int]  # the columns of a change that are the row's own
    ordered: list[int]  # those that changes are numbered among
    arguments: list[tuple[str, T.DataType]]  # what is added up, as SQL text
    aggregates: list[Typed]
    time: T.DataType


def argument_of(call: Bound, schema: T.StructType, role: str, text: str) -> Ref:
    """A column of the input. Raises CallError for an expression, whose type nobody knows here."""
    name = call.names.find(plain(text), schema.names)
    if name is None:
        fix = f"Name it in the TABLE argument: TABLE(SELECT *, {text} AS name FROM ..)."
        raise call.refuse(role, f"expected a column in a Python UDTF, got `{text}`", fix)
    return _named(name, schema[name].dataType, text)


def _named(name: str, kind: T.DataType, text: str) -> Ref:
    """A Ref itself would bring half of the package to the workers."""
    return cast("Ref", SimpleNamespace(name=name, type=kind, text=text))


def shape(call: Bound, schema: T.StructType, bounds: tuple[str, str], kind: T.DataType | None) -> Shape:
    """What the result looks like. Raises CallError for what a UDTF cannot know before it runs."""
    keys = [argument_of(call, schema, "PARTITION BY", k.text) for k in call.keys]
    order = [SimpleNamespace(ref=argument_of(call, schema, "ORDER BY", o.expression.text)) for o in call.order]
    clocks = tuple(argument_of(call, schema, "`clock_by`", c) for c in call["clock_by"] or ())
    columns = [_named(f.name, f.dataType, f.name) for f in schema]
    time = _named("", kind or T.TimestampType(), call["time"] or "")
    frame = cast("Frame", SimpleNamespace(columns=columns, keys=keys, order=order, time=time, clocks=clocks))
    names, ordered = carried_columns(call, frame)
    totals, arguments = [], []
    for number, one in enumerate(parse(call)):
        argument = argument_of(call, schema, ARGUMENT, one.argument) if one.argument else None
        result, cast_to = types(call, one, argument)
        column = f"a{number}" if argument else ""
        if argument:
            if isinstance(argument.type, NESTED) and one.function != "count":
                problem = f"`{one.text}` is over {argument.type.simpleString().upper()}, which a Python UDTF does not take"
                raise call.refuse(ARGUMENT, problem, "Use a field of it, or another door.")
            there = f"{quoted(argument.name)} IS NULL, NULL, true" if one.function == "count" else ""
            text = f"if({there})" if there else f"CAST({quoted(argument.name)} AS {cast_to.simpleString()})"
            arguments.append((text, cast_to))
        totals.append(Typed(aggregate(one.name, one.function, column), result))
    fields = fields_of(call, frame, schema, names, bounds, totals)
    if call["emit"] == "final":
        fields += [T.StructField(EMIT_TIME, moment(frame)), T.StructField(EMIT_REASON, T.StringType())]
    given = [f.name for f in fields]
    said = final_order(given, behind_the_result(frame, names)) if call["emit"] == "final" else given
    places = [given.index(name) for name in said]
    at = {f.name: i for i, f in enumerate(schema)}
    return Shape([fields[i] for i in places], places, [at[n] for n in names], [at[n] for n in ordered], arguments, totals, moment(frame))


def changed(
    call: Bound, shape_: Shape, kernel: Callable[[Bound, ChangeColumns], Updates], rows: list[tuple[Any, ...]], columns: Columns
) -> Iterator[tuple[Any, ...]]:
    """The changes, or final rows; `rows` come in processing order, the arguments of the aggregates last."""
    taken = np.array([i for i, aside in enumerate(columns.aside) if aside is None], np.int64)
    taken = taken[np.argsort(columns.keys[taken], kind="stable")]
    if not len(taken):
        return
    instant, final = arrow_type(shape_.time), call["emit"] == "final"
    layout = ChangeColumns(
        carried=(ROW,),
        ordered=("__order",),
        bounds=("__start", "__end"),
        aggregates=tuple((t.kernel, arrow_type(t.type) if t.kernel.function == "avg" else None) for t in shape_.aggregates),
        time=TIME,
        kind=instant,
        final=final,
    )
    run = Sorted(kernel(call, layout), (KEY,), STREAM_TIME, one_clock=not call["clock_by"]).run
    stream_times = _stream_times(taken, columns)
    for batch in run(iter(_as_table(shape_, rows, columns, taken, instant).to_batches())):
        closes = groups.micros(batch.column("window_close")).tolist()
        for values, close in zip(zip(*(c.to_pylist() for c in batch.columns), strict=True), closes, strict=True):
            row, *rest = values
            made = (*(rows[row][c] for c in shape_.carried), *(_bare(v, shape_.time) for v in rest))
            if not final:
                yield made
            elif released := _released(call, close, stream_times[int(columns.clocks[row])]):
                moment, reason = released
                made = (*made, shape_.time.fromInternal(moment), reason)
                yield tuple(made[i] for i in shape_.places)


def _as_table(shape_: Shape, rows: list[tuple[Any, ...]], columns: Columns, taken: Ints, instant: pa.DataType) -> pa.Table:
    """The rows at these places, as the kernel takes them."""
    order = [tuple(of_place(rows[i][c]) for c in shape_.ordered) for i in taken.tolist()]
    numbers = {o: n for n, o in enumerate(dict.fromkeys(order))}
    table = {
        ROW: pa.array(taken),
        "__order": pa.array([numbers[o] for o in order], pa.int64()),
        TIME: pa.array(columns.times[taken]).cast(instant),
        KEY: pa.array(columns.keys[taken]),
        STREAM_TIME: pa.array(columns.stream_time[taken]).cast(instant),
    }
    asked = [t.kernel.column for t in shape_.aggregates if t.kernel.column]
    for number, (column, (_, kind)) in enumerate(zip(asked, shape_.arguments, strict=True)):
        table[column] = pa.array([rows[i][-1][number] for i in taken.tolist()], _plain(kind))
    return pa.table(table)


def _stream_times(taken: Ints, columns: Columns) -> dict[int, Ints]:
    """The stream times that each clock went through, in rising order."""
    of_clock: dict[int, list[int]] = {}
    for i in taken.tolist():
        of_clock.setdefault(int(columns.clocks[i]), []).append(int(columns.stream_time[i]))
    return {clock: np.unique(times) for clock, times in of_clock.items()}


def _released(call: Bound, close: int, stream_times: Ints) -> tuple[int, str] | None:
    """When a final row leaves, and why; None where it stays."""
    at = int(np.searchsorted(stream_times, close))
    if at < len(stream_times):
        return int(stream_times[at]), "close"
    return (int(stream_times[-1]), "end") if call["at_end"] == "emit" else None


def _plain(kind: T.DataType) -> pa.DataType | None:
    """The Arrow type of Python values; None where pyarrow finds it by itself."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    plain: dict[type[T.DataType], pa.DataType] = {
        T.DoubleType: pa.float64(),
        T.LongType: pa.int64(),
        T.BooleanType: pa.bool_(),
        T.StringType: pa.string(),
        T.BinaryType: pa.binary(),
    }
    return plain.get(type(kind), pa.int64() if isinstance(kind, T.IntegralType) else None)


def _bare(value: Any, kind: T.DataType) -> Any:
    """A moment as Spark takes it from Python: in local time, where it is one."""
    if hasattr(value, "tzinfo") and value.tzinfo is not None and isinstance(kind, T.TimestampType):
        return value.astimezone().replace(tzinfo=None)
    return value
