"""The functions as Python UDTFs: for sessions where nothing but `spark.udtf.register` is at hand. Same SPECs, same kernels, much slower.

Spark calls `analyze` with the call's arguments, sorts the rows as it asks, hands them over one by one, and takes what `terminate` gives.
The rows of one group lie in a worker's memory at once: those of a key where rows come in event-time order, else all of the input.
Sent by value to wherever it runs, so nothing here may need an installed package but PySpark, NumPy and PyArrow.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, OrderingColumn, PartitioningColumn, SelectedColumn

from streamtime.sql.call.binding import bind, refuse_clash, refuse_reserved
from streamtime.sql.call.errors import EVENT_TIME, CallError, did_you_mean, not_constant, of_other_type
from streamtime.sql.call.in_memory import Columns
from streamtime.sql.call.names import Names, plain
from streamtime.sql.call.spec import Bound, Local, MadeChanges, Spec
from streamtime.sql.call.values import Table, Value
from streamtime.sql.rows.columns import has_collation, has_floating, orderable, sign_text, tie_text
from streamtime.sql.rows.typed import as_text, microseconds, time_text
from streamtime.sql.syntax.text import named_by, one_to_one, quoted
from streamtime.sql.udtf.suppress import KIND, PREIMAGE, change, needed
from streamtime.sql.udtf.told import told_apart
from streamtime.sql.udtf.updates import Shape, changed, shape
from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.worker import spare_the_collector
from streamtime.udfs.stream_time import StreamTime

CHANGE = "__streamtime_change"
NAMES = ("time", "has_key", "key", "clock", "offset", "named")
HELPERS = TIME, HAS_KEY, KEY, CLOCK, OFFSET, NAMED = tuple(f"__streamtime_{name}" for name in NAMES)


@dataclass
class Analyzed(AnalyzeResult):
    """What `analyze` found out, for the handler that sees the rows."""

    call: Bound | None = None
    time_type: T.DataType = field(default_factory=T.TimestampType)
    in_time_order: bool = False
    shape: Shape | None = None  # of changes, where the call makes them
    made: MadeChanges | None = None  # of those that it makes of changes


def bare(spec: Spec) -> Spec:
    """What is asked of a SPEC to bind a call, and nothing that a worker would have to import for it."""
    return dataclasses.replace(spec, plan=None, page="", examples=(), local=None)  # type: ignore[arg-type]


def handler(spec: Spec) -> type:
    """The UDTF class of a function."""
    assert spec.local is not None
    light, local = bare(spec), spec.local

    class Handler:
        @staticmethod
        def analyze(input: AnalyzeArgument, **options: AnalyzeArgument) -> AnalyzeResult:  # noqa: A002
            return analyzed(light, local, input, options)

        def __init__(self, result: Analyzed) -> None:
            spare_the_collector()
            self.result, self.rows = result, list[Any]()

        def eval(self, row: Any, **_options: Any) -> None:
            self.rows.append(tuple(row))

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            yield from answer(self.result, self.rows, local)

    Handler.__name__ = Handler.__qualname__ = spec.name.title().replace("_", "")
    return Handler


def hosted(spec: Spec, columns: str, options: dict[str, Value]) -> type:
    """The class of one call, for a catalog that asks for columns when a function is created; `columns` of the input, as JSON."""
    assert spec.local is not None
    local = spec.local
    result = planned(bare(spec), local, T.StructType.fromJson(json.loads(columns)), options)

    class Hosted:
        def __init__(self) -> None:
            spare_the_collector()
            self.rows = list[Any]()

        def eval(self, row: Any) -> None:
            self.rows.append(tuple(row))

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            yield from answer(result, self.rows, local)

    return Hosted


def analyzed(spec: Spec, local: Local, table: AnalyzeArgument, options: dict[str, AnalyzeArgument]) -> Analyzed:
    """Check the call, say what it returns, and how Spark must sort and group its rows."""
    if not table.isTable:
        raise CallError(spec.name, None, "expected a TABLE argument", f"Write it as {spec.name}(TABLE(t), ..).")
    if "order_by" not in {name.lower() for name in options}:
        fix = "As a Python UDTF, keys and order are options: keys => ARRAY('k'), order_by => ARRAY('ts')."
        raise CallError(spec.name, "`order_by`", "is missing", fix)
    assert isinstance(table.dataType, T.StructType)
    return planned(spec, local, table.dataType, {name: _value(spec, name, given) for name, given in options.items()})


def planned(spec: Spec, local: Local, schema: T.StructType, options: dict[str, Value]) -> Analyzed:
    """The same, where the options are known; keys and order are among them."""
    call = bind(spec, [Table(None)], list(options.items()))  # type: ignore[arg-type]
    if call["output"] == "metrics":
        raise call.refuse("`output`", "'metrics' is not possible in a Python UDTF", "Count the rows of output => 'dropped' by reason.")
    if call["output"] == "explain":
        raise call.refuse("`output`", "'explain' is not possible in a Python UDTF", "Look at the rows of output => 'all'.")
    refuse_reserved(call, schema.names)
    for expression in (*call.keys, *(o.expression for o in call.order)):
        _known(call, schema, expression.text)
    first = call.order[0]
    time = call["time"] or first.expression.text
    kind = _kind(schema, time)
    if kind is not None and not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        raise call.refuse("`time`", of_other_type(EVENT_TIME, kind.simpleString(), time))
    in_order = time == first.expression.text and first.ascending
    last = call.options.get("keep") == "last"
    ordering = [OrderingColumn(o.expression.text, o.ascending != last, o.nulls_first != last) for o in call.order]
    ordered = {plain(o.expression.text) for o in call.order}
    ties = [tie_text(f.name, f.dataType) for f in schema if orderable(f.dataType) and (f.name not in ordered or has_collation(f.dataType))]
    ties += [sign_text(f.name) for f in schema if f.name in ordered and has_floating(f.dataType)]
    ordering += [OrderingColumn(text, not last, not last) for text in ties]
    keys = [k.text for k in call.keys]
    apart = in_order and bool(keys) and not local.changes and not local.updates
    made = shape(call, schema, (local.details[0], local.details[1]), kind) if local.updates and call["output"] == "rows" else None
    others = local.makes(call, schema, kind or T.TimestampType()) if local.makes else None
    others = others if call["output"] == "rows" else None
    texts = [text for text, _ in made.arguments] if made else list(others.arguments) if others else []
    arguments = f"struct({', '.join(f'{text} AS a{i}' for i, text in enumerate(texts))})" if texts else "NULL"
    shown = made or others
    added = [] if shown else _added(call, local, kind or T.TimestampType())
    refuse_clash(call, schema.names, [f.name for f in added])
    return Analyzed(
        schema=T.StructType(shown.fields if shown else [*schema, *added]),
        withSinglePartition=not apart,
        partitionBy=[PartitioningColumn(_group(call, schema, k)) for k in keys] if apart else [],
        orderBy=ordering,
        select=[
            *(SelectedColumn(quoted(f.name)) for f in schema),
            *_helpers(call, schema, time, kind, local),
            *([SelectedColumn(arguments, "__streamtime_arguments")] if shown else []),
        ],
        call=call,
        time_type=kind or T.TimestampType(),
        in_time_order=in_order,
        shape=made,
        made=others,
    )


def _value(spec: Spec, name: str, given: AnalyzeArgument) -> Value:
    if given.isTable or not given.isConstantExpression:
        raise not_constant(spec.name, f"`{name}`")
    return Value(given.value, given.dataType.simpleString().upper(), repr(given.value))


def _known(call: Bound, schema: T.StructType, text: str) -> None:
    """A plain name must be a column; what is more than a name, Spark checks when it runs."""
    name = plain(text)
    if name is not None and call.names.find(name, schema.names) is None:
        raise call.refuse(None, f"no column `{name}` in the input", did_you_mean(name, [f.name for f in schema]))


def _kind(schema: T.StructType, text: str) -> T.DataType | None:
    name = Names().find(plain(text), schema.names)
    return None if name is None else schema[name].dataType


def _group(call: Bound, schema: T.StructType, key: str) -> str:
    """SQL text for a key whose values begin a group each. PySpark ends one where Python calls two keys unequal, as it does any two NaN."""
    kind = _kind(schema, key)
    return key if kind is not None and not has_floating(kind) else told_apart(call, schema, "PARTITION BY", key)


def _helpers(call: Bound, schema: T.StructType, time: str, kind: T.DataType | None, local: Local) -> list[SelectedColumn]:
    """The call's expressions: times in microseconds, keys, clocks and the offset as text, one to one; null where they are null."""
    asked = [call.order[0].expression.text, *(needed(local.suppression, call, schema) if local.changes else ())]
    absent = " OR ".join(f"({text}) IS NULL" for text in asked)
    keys = [k.text for k in call.keys]
    present = " AND ".join(f"({k}) IS NOT NULL" for k in keys) or "true"
    clocks, offset = call.options.get("clock_by") or (), call.options.get("offset")
    texts = {
        TIME: f"if({absent}, NULL, {microseconds(time, kind or T.TimestampType())})",
        HAS_KEY: present,
        KEY: one_to_one([told_apart(call, schema, "PARTITION BY", k) for k in keys]),
        CLOCK: one_to_one([told_apart(call, schema, "`clock_by`", c) for c in clocks]),
        OFFSET: told_apart(call, schema, "`offset`", offset) if offset else "CAST(NULL AS STRING)",
        NAMED: named_by([as_text(k, _kind(schema, k) or T.StringType()) for k in keys]),
    }
    if local.changes:
        texts = {CHANGE: change(local.suppression, call, schema, kind)} | texts
    return [SelectedColumn(text, alias) for alias, text in texts.items()]


def _added(call: Bound, local: Local, time: T.DataType) -> list[T.StructField]:
    shown = [T.StructField(name, T.StringType() if name in local.texts else time) for name in local.shown(call["output"])]
    if shown and local.named:
        shown.append(T.StructField(local.named, T.StringType()))
    if not local.reported(call["output"]):
        return shown
    report = [
        T.StructField("reason", T.StringType()),
        T.StructField("stream_time", time),
        T.StructField("lateness", T.DoubleType()),
    ]
    return [*report, *shown]


def answer(result: Analyzed, rows: list[tuple[Any, ...]], local: Local) -> Iterator[tuple[Any, ...]]:
    """The rows that the call asks for."""
    assert result.call is not None
    call, width = result.call, len(HELPERS) + (result.shape is not None or result.made is not None)
    changes = [()] * len(rows)
    if local.changes:
        rows = [row for row in rows if row[-width - 1][KIND] != PREIMAGE]
        changes = [row[-width - 1] for row in rows]
    if not rows:
        return
    helpers = {name: [row[i - width] for row in rows] for i, name in enumerate(HELPERS)}
    times, has_key = pa.array(helpers[TIME], pa.int64()), np.array(helpers[HAS_KEY], bool)
    has_time, clocks, offsets = groups.valid([times], len(rows)), _numbered(helpers[CLOCK]), pa.array(helpers[OFFSET], pa.string())
    micros = np.where(has_time, groups.as_ints(times), LOWEST)
    aside = [
        "null_time" if not t else local.without_key if not k else None for t, k in zip(has_time.tolist(), has_key.tolist(), strict=True)
    ]
    moves = has_time & has_key if local.without_key else has_time
    last = call.options.get("keep") == "last"
    stream = micros if result.in_time_order else _stream_time(micros, moves, clocks, last)
    columns = Columns(micros, _numbered(helpers[KEY]), stream, aside, offsets, clocks, changes)
    if result.shape is not None and local.updates is not None:
        yield from changed(call, result.shape, local.updates, rows, columns)
        return
    if result.made is not None:
        for *values, moment, number in result.made.changes(call, result.in_time_order, rows, columns):
            yield (*values, _moment(moment, result.time_type), number)
        return
    verdicts = local.judge(call, result.in_time_order, columns)
    details, wanted, is_reported = local.shown(call["output"]), local.wanted(call["output"]), local.reported(call["output"])
    for i, (row, reason) in enumerate(zip(verdicts.rows.tolist(), verdicts.reasons, strict=True)):
        if (reason is None) not in wanted:
            continue
        extra = [_moment(verdicts.details[d][i], result.time_type) for d in details]
        if details and local.named:
            extra.append(None if extra[0] is None else f"{rows[row][-1]}@{time_text(verdicts.details[details[0]][i], result.time_type)}")
        if is_reported:
            known = bool(has_time[row]) and int(stream[row]) not in (LOWEST, HIGHEST)
            behind = (int(micros[row]) - int(stream[row])) * (1 if last else -1)
            late = max(behind, 0) / 1e6 if known else None
            extra = [reason, _moment(int(stream[row]) if known else None, result.time_type), late, *extra]
        yield (*rows[row][: -width - local.changes], *extra)


def _numbered(values: list[str]) -> Ints:
    """A number for each value."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


def _stream_time(micros: Ints, moves: groups.Flags, clocks: Ints, last: bool) -> Ints:
    order = np.argsort(clocks, kind="stable")
    columns = (pa.array(micros[order], mask=~moves[order]), pa.array(clocks[order]))
    running = next(iter(StreamTime(earliest=last).run(iter([columns]))))
    latest = np.empty(len(micros), np.int64)
    latest[order] = running.fill_null(HIGHEST if last else LOWEST).to_numpy()
    return latest


def _moment(micros: Any, kind: T.DataType) -> Any:
    if micros is None or isinstance(micros, str):
        return micros
    return kind.fromInternal(micros // groups.MICROS_PER_DAY if isinstance(kind, T.DateType) else micros)
