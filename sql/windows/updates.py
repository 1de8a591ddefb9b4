"""What SESSION_UPDATES and WINDOW_UPDATES share: their options, the columns of a change (rule C10), the plan around the kernel (W5, W6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration, Text
from streamtime.sql.call.spec import COMMON, INSTEAD, METRICS, OUTPUT, Finals, Option
from streamtime.sql.plain.totals import Unplain
from streamtime.sql.rows import kernels
from streamtime.sql.rows.changelog import CHANGE, refuse_unnamed
from streamtime.sql.rows.columns import arrow_type, expression, has_collation, has_floating, must_travel, named
from streamtime.sql.rows.frame import LEFT_OUT, PREFIX, prepare
from streamtime.sql.rows.scans import straight_from_files
from streamtime.sql.rows.sorting import HASH, hash_of, prefix
from streamtime.sql.stream.plan import KeyState, Leaving, is_stream, refuse_at_end, released
from streamtime.sql.stream.watermark import mark_of_input, marked, unmarked
from streamtime.sql.syntax.text import HIGHEST, quoted
from streamtime.sql.windows.aggregates import ARGUMENT, Typed, WrittenAggregate, arguments, held, parse, typed
from streamtime.sql.windows.grouped import final_rows, fitting
from streamtime.sql.windows.membership import clocked, close
from streamtime.sql.windows.release import EMIT_REASON, EMIT_TIME, emitted
from streamtime.udfs.closing import of_sessions, of_sliding_windows, of_time_windows
from streamtime.udfs.updates.aggregates import KINDS
from streamtime.udfs.updates.in_batch import PerRow, Sorted
from streamtime.udfs.updates.updates import DELETED, ChangeColumns, Updates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Ref
    from streamtime.udfs.closing import Closing

CLOSE = "window_close"
CHANGES = f"{PREFIX}changes"
GRACE_KEY = "streamtime.grace"  # in the metadata of `window_close`: how long after its end a result may still change, in microseconds
AFTER_KEY = "streamtime.after"  # .. and how long after its end it is final: with a session's gap, and where its end is part of it
GRACE = Option("grace", Duration(), "how long past its end a window still accepts rows", default=0, default_text="INTERVAL 0 SECONDS")
AGGREGATES = Option(
    "aggregates",
    Text(),
    f"what to compute, each with AS and a name: {', '.join(KINDS)}",
    required=True,
    example="'count(*) AS n'",
    values="aggregates as in SQL, in quotes, with commas",
)
EMIT = Option(
    "emit",
    Choice(words=("updates", "final")),
    "'updates': a change for each row; 'final': one row for each window or session, once it is closed, as SUPPRESS_UNTIL_CLOSE gives it",
    default="updates",
    default_text="'updates'",
)
AT_END = Option(
    "at_end",
    Choice(words=("hold", "emit")),
    "with emit => 'final', in batch: what happens to windows and sessions that are open when the input ends",
    default="hold",
    default_text="'hold'",
)
REPORTS = Option(
    "output",
    Choice(words=("rows", "dropped", "all", "metrics", "explain")),
    "'rows': the changes; 'dropped': input rows that came late or have no time or key; 'all': every input row, with a reason where it was "
    "dropped; 'metrics': counts; 'explain': every input row, and what it did to its window or session",
    default="rows",
    default_text="'rows'",
)
OPTIONS = (GRACE, AGGREGATES, EMIT, AT_END, *(REPORTS if o is OUTPUT else o for o in COMMON))


def adds(bounds: tuple[str, str], types: str, outcomes: str) -> dict[str, str]:
    """What a page says of the columns."""
    start, end = bounds
    return {
        "'rows'": f"{INSTEAD}keys, `clock_by` and ORDER BY columns, `{start}`, `{end}` (type of the event time; "
        f"TIMESTAMP_NTZ where that is DATE), the aggregates, `window_close` (as the bounds), `change_type` STRING ({types}), "
        "`change_time` (as the bounds), `change_seq` BIGINT",
        "'rows', emit => 'final'": f"{INSTEAD}keys, `clock_by` columns, `{start}`, `{end}`, the aggregates, `window_close`, the ORDER BY "
        "columns of the last row, `change_type`, `change_time`, `change_seq`, `emit_time` (as the bounds), `emit_reason` STRING "
        "(`close`, `end`)",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `null_key`, `late`; null: taken), `stream_time` (type of the event time), "
        f"`lateness` DOUBLE (seconds), `{start}`, `{end}`",
        "'explain'": f"`outcome` STRING ({outcomes}, `null_time`, `null_key`), `stream_time`, `{start}`, `{end}`, `explanation` STRING",
        "'metrics'": METRICS,
    }


def check(call: Bound) -> None:
    """Options that do not go together."""
    parse(call)
    if call["at_end"] == "emit" and call["emit"] == "updates":
        raise call.refuse("`at_end`", "goes with emit => 'final': updates leave at once", "Leave it out.")


@dataclass(frozen=True)
class Changing:
    """A call as its four exits need it: rows with keys that can be compared, the kernel, and the columns that go in and come out."""

    frame: Frame
    identity: list[str]
    updates: Updates
    carried: list[str]  # the columns of a row that its changes have
    needed: list[str]  # the columns that the kernel takes beside clock and keys
    fields: list[T.StructField]  # of a change
    types: str | None  # of what the state on a stream has, in words


def plan(
    call: Bound,
    bounds: tuple[str, str],
    kernel: Callable[[Bound, ChangeColumns], Updates],
    report: Callable[[Bound, Frame, tuple[str, str]], DataFrame],
    options: Sequence[str],
    plainly: Callable[[Bound, Changing], DataFrame],
) -> DataFrame:
    """The changes of a call, or its final rows, or a report of its input rows. `plainly` is the plan of Spark's own operators."""
    asked = parse(call)
    frame = prepare(
        call,
        clock_by=call.clock_by,
        aggregates=arguments(asked),
    )
    stream = is_stream(call)
    carried, ordered = carried_columns(call, frame)
    frame, aggregates = typed(call, frame, asked)
    fields = fields_of(call, frame, frame.df.schema, carried, bounds, aggregates)
    if call["output"] != "rows":
        return report(call, frame, bounds)
    later = behind_the_result(frame, carried)
    if call["emit"] == "final" and not stream and (grouped := final_rows(call, frame, asked, fields)) is not None:
        return _laid_out(grouped, later)
    beside = not stream and call["emit"] != "final" and kernels.arrow_udf is not None
    layout = ChangeColumns(
        carried=() if beside else tuple(carried),
        ordered=tuple(ordered),
        bounds=bounds,
        aggregates=tuple((t.kernel, arrow_type(t.type) if t.kernel.function == "avg" else None) for t in aggregates),
        time=frame.time.name,
        kind=arrow_type(frame.time.type),
        final=call["emit"] == "final",
        beside=beside,
        last_changes=call.last_changes,
    )
    needed = [*(ordered if beside else carried), frame.time.name, *(t.kernel.column for t in aggregates if t.kernel.column)]
    frame, identity = frame.comparable(frame.keys)
    changing = Changing(frame, identity, kernel(call, layout), carried, needed, fields, _types(call, frame, asked))
    if stream:
        made = _streaming(call, changing, options)
    elif call.kernels:
        made = _in_batch(call, changing)
    else:
        try:
            made = plainly(call, changing)
        except Unplain as reason:
            raise call.unplain(ARGUMENT, str(reason)) from None
    return _laid_out(made, later) if call["emit"] == "final" else made


def finals(call: Bound) -> Finals | None:
    """A call's last changes, where rows come in event-time order, or on a stream: what closes a window then comes after all of its changes
    (W6, C10).

    In batch, when they leave is asked of all rows: of files once more, else of groups; where a kernel makes them, the input would be
    computed twice.
    """
    if call["size"] is None or call["output"] != "rows" or call["emit"] != "updates" or call.clock_by:
        return None
    asked = parse(call)
    frame = prepare(call, aggregates=arguments(asked))
    order = tuple((o.ref.name, o.ascending, o.nulls_first) for o in frame.order)
    ordered = [o.ref for o in frame.order]
    own = [*(r.name for r in (*frame.keys, *ordered)), *(one.name for one in asked)]
    clash = any(call.names.among(name, (*CHANGE, EMIT_TIME, EMIT_REASON)) for name in own)
    plainly = not clash and not any(has_floating(r.type) or has_collation(r.type) for r in ordered)
    if not plainly or not (is_stream(call) or (frame.in_time_order and _once(call, frame, asked))):
        return None

    def plan(at_end: str) -> DataFrame:
        return call.spec.plan(replace(call, options=call.options | {"emit": "final", "at_end": at_end}, last_changes=True))

    return Finals(frozenset(k.name for k in frame.keys), order, plan)


def _once(call: Bound, frame: Frame, asked: list[WrittenAggregate]) -> bool:
    """Whether last changes, and when they leave, take no more than the input's files read again."""
    return straight_from_files(frame) or fitting(call, frame, asked, as_changes=True) is not None


def behind_the_result(frame: Frame, carried: Sequence[str]) -> list[str]:
    """Of the input's columns, those that only say which row was a window's last: in final rows they stand behind the result."""
    first = {r.name for r in (*frame.keys, *frame.clocks)}
    return [name for name in carried if name not in first]


def final_order(names: Sequence[str], later: Sequence[str]) -> list[str]:
    """The columns of final rows: keys, window and what it comes to, so that a report reads as one; then these; then those of a change."""
    end = names.index(CLOSE) + 1
    return [*(n for n in names[:end] if n not in later), *later, *names[end:]]


def _laid_out(finals: DataFrame, later: Sequence[str]) -> DataFrame:
    return finals.select(*map(named, final_order(finals.columns, later)))


def _in_batch(call: Bound, changing: Changing) -> DataFrame:
    """Rows sorted by key and processing order, through the kernel: changes beside their rows, changes alone, or final rows."""
    frame, identity, layout = changing.frame, changing.identity, changing.updates.layout
    takes_part = frame.has_time & frame.has_key
    frame, stream_time = clocked(frame, takes_part)
    frame = frame.only(takes_part)
    hashed = bool(identity) and (frame.in_time_order or not frame.clocks)
    computed = _computed(changing, F.lit("upsert")) if layout.final else {}
    fields = [f for f in changing.fields if f.name not in computed]
    wanted = tuple(f.name for f in fields) if computed else ()
    run = Sorted(changing.updates, tuple(identity), stream_time, not frame.several_clocks, HASH if hashed else "", wanted)
    rows = frame.by_key(identity, frame.sort(), prefix(identity, stream_time, frame.time.type) if hashed else None)
    taken = {name: named(name) for name in dict.fromkeys([*changing.needed, stream_time, *identity])}
    taken |= {HASH: hash_of(identity)} if hashed else {}
    if layout.beside:
        return _beside(rows, PerRow(run, tuple(taken), ()), list(taken.values()), changing)
    made = kernels.mapped(rows.select(*[c.alias(name) for name, c in taken.items()]), run.run, T.StructType(fields))
    if not layout.final:
        return made
    made = made.select(*[_of(f, computed) for f in changing.fields])
    return emitted(call, made, frame, named(stream_time), steps(call, changing.updates.closing))


def _computed(changing: Changing, change_type: Column) -> dict[str, Column]:
    """The columns of a change that Spark computes of its others, which need not travel."""
    updates, end = changing.updates, quoted(changing.updates.layout.bounds[1])
    computed = {"change_type": change_type}
    if updates.changed_at_end:
        computed["change_time"] = expression(end)
    if isinstance(changing.fields[-1 - len(CHANGE)].dataType, T.TimestampType):
        computed[CLOSE] = close(f"unix_micros({end})", updates.closing, T.TimestampType())
    return computed


def _of(field: T.StructField, computed: dict[str, Column]) -> Column:
    """A column of a change."""
    if field.name not in computed and field.name != CLOSE:
        return named(field.name)
    return computed.get(field.name, named(field.name)).alias(field.name, metadata=field.metadata)  # `window_close` carries its grace


def _beside(rows: DataFrame, kernel: PerRow, columns: list[Column], changing: Changing) -> DataFrame:
    """The changes of each row, which give it their columns; its own never leave the JVM, and what follows from these is computed there."""
    fields, carried = changing.fields, changing.carried
    computed = _computed(changing, F.when(named(DELETED), "delete").otherwise("upsert"))
    made = T.StructType([T.StructField(f.name, f.dataType) for f in fields[len(carried) :] if f.name not in computed])
    made = made.add(DELETED, T.BooleanType())
    df = kernels.with_column(rows, CHANGES, replace(kernel, made=tuple(made.names)), columns, T.ArrayType(made))
    flat = df.select(*map(named, carried), F.inline(named(CHANGES)).alias(*made.names))
    return flat.select(*[_of(f, computed) for f in fields])


def steps(call: Bound, closing: Closing) -> tuple[int, int] | None:
    """How far apart windows close, and how long after their start, where that is the same for all."""
    size = call.options.get("size")
    return None if size is None else (call["slide"] or size, closing.after_start(size))


def _streaming(call: Bound, changing: Changing, options: Sequence[str]) -> DataFrame:
    """The changes of each micro-batch as it comes, or final rows once the watermark has passed their close."""
    frame, fields = changing.frame, changing.fields
    refuse_at_end(call)
    if call["emit"] == "final":
        emit_time = marked(call, T.StructField(EMIT_TIME, moment(frame), True, mark_of_input(frame.df.schema)))
        fields = [*map(unmarked, fields), emit_time, T.StructField(EMIT_REASON, T.StringType())]
    else:
        fields = [marked(call, f) if f.name == "change_time" else f for f in fields]
    pinned = {name: call[name] for name in (*options, "grace", "aggregates", "emit")} | {"types": changing.types, "output": "rows"}
    pinned |= {"last changes": True} if call.last_changes else {}  # whose numbers go on
    state = KeyState(changing.identity, pinned, frame.left_out, LEFT_OUT)
    return released(call, frame, changing.updates, state, Leaving(changing.needed, fields))


def _types(call: Bound, frame: Frame, asked: list[WrittenAggregate]) -> str | None:
    """The arguments of aggregates; and where the last row of a window is held, its ORDER BY columns. The time is pinned in any case."""
    ordered = [o.ref for o in frame.order if o.ref.name != frame.time.name] if call["emit"] == "final" else []
    return ", ".join([*held(call, frame, asked), *(f"{r.text} {r.type.simpleString()}" for r in ordered)]) or None


def moment(frame: Frame) -> T.DataType:
    """The type of a change's times: a window may end within a day, so dates become timestamps without a time zone."""
    return T.TimestampNTZType() if isinstance(frame.time.type, T.DateType) else frame.time.type


def carried_columns(call: Bound, frame: Frame) -> tuple[list[str], list[str]]:
    """The input's columns that a change has: keys, clock_by and ORDER BY columns; and the latter alone. change_* columns are made anew."""
    ordered = [("ORDER BY", o.ref) for o in frame.order]
    roles: list[tuple[str, Ref]] = [("PARTITION BY", k) for k in frame.keys]
    roles += [("`clock_by`", c) for c in frame.clocks] + ordered
    for role, ref in roles:
        refuse_unnamed(call, role, ref, frame.columns)
        must_travel(call, role, f"`{ref.text}`", ref.type, fix="Cast it in the TABLE argument.")
    names = list(dict.fromkeys(r.name for _, r in roles if not call.names.among(r.name, CHANGE)))
    return names, list(dict.fromkeys(r.name for _, r in ordered if not call.names.among(r.name, CHANGE)))


def closing_of(call: Bound) -> Closing:
    """When what the call makes is closed."""
    if (gap := call.options.get("gap")) is not None:
        return of_sessions(gap, call["grace"])
    return (of_time_windows if call.options.get("difference") is None else of_sliding_windows)(call["grace"])


def fields_of(
    call: Bound, frame: Frame, schema: T.StructType, carried: list[str], bounds: tuple[str, str], typed: Sequence[Typed]
) -> list[T.StructField]:
    """The columns of a change, as the kernel returns them. Raises CallError where two have one name."""
    kind = moment(frame)
    added = [T.StructField(b, kind) for b in bounds]
    added += [T.StructField(t.kernel.name, t.type) for t in typed]
    added += [T.StructField(CLOSE, kind, True, {GRACE_KEY: call["grace"], AFTER_KEY: min(closing_of(call).after, HIGHEST)})]
    added += [T.StructField(name, of) for name, of in zip(CHANGE, (T.StringType(), kind, T.LongType()), strict=True)]
    names = [*carried, *(f.name for f in added), *([EMIT_TIME, EMIT_REASON] if call["emit"] == "final" else [])]
    if twice := call.names.twice(names):
        where = ARGUMENT if call.names.among(twice[0], [t.kernel.name for t in typed]) else None
        raise call.refuse(
            where, f"two columns of the result would be named `{twice[0]}`", "Rename one, in `aggregates` or in the TABLE argument."
        )
    return [*(schema[n] for n in carried), *added]
