"""What the two functions of suppress share: their options, how rows come to the buffer, and what is made of its decisions.

A buffer without bounds is divided by key, once each row has stream time beside it (`spread`). One with bounds is one buffer: the rows of a
clock go through one task, sorted in processing order, and through one kernel, which holds and releases them
(`streamtime.udfs.suppress.buffer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Count
from streamtime.sql.call.names import plain
from streamtime.sql.call.spec import CLOCK_BY, KEYS, METRICS, NAME, ORDER_BY, TIME, WATERMARK, Option, refuse_wall
from streamtime.sql.call.values import Expression
from streamtime.sql.rows import kernels
from streamtime.sql.rows.changelog import changelog, tombstones, typed
from streamtime.sql.rows.columns import expression, has_collation, must_travel, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.keys import counted, digest
from streamtime.sql.rows.outcome import RATE, metrics, outcome
from streamtime.sql.rows.typed import collated
from streamtime.sql.stream.plan import is_stream
from streamtime.sql.suppress.changelog import Changelog
from streamtime.sql.suppress.explain import explained
from streamtime.sql.suppress.fullness import unless_full
from streamtime.sql.suppress.spread import as_json, spread, spreads
from streamtime.sql.suppress.stream import bounds, streamed
from streamtime.sql.syntax.text import HIGHEST, quoted
from streamtime.sql.tables.declaration import versioned_source
from streamtime.sql.windows.updates import AFTER_KEY, CLOSE, GRACE_KEY
from streamtime.udfs.arrays.blobs import Packer
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.closing import of_sessions, of_time_windows
from streamtime.udfs.suppress import buffer, counts
from streamtime.udfs.suppress.buffer import ARRIVED, DECIDED_AT, DECIDED_BY, DUE_AT, EMIT_REASON, EMIT_TIME, OUTCOME, Suppress
from streamtime.udfs.suppress.merging import DATA, FIRST, RUN_BYTES, RUN_ROWS, Merging
from streamtime.udfs.suppress.until import Suppression, Until

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.errors import CallError
    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

ENDS = ("window_end", "session_end")  # of windows and of sessions, as functions call them
EMITTED = ("emit_time", "emit_reason")  # the columns that rows leave with
VERSIONED = "streamtime.versioned"  # in the metadata of a column: the input is a versioned table
REASONS = ("null_time", "replaced", "tombstone", "held")
MAX_RECORDS = Option("max_records", Count(), "how many rows the buffer may hold", default_text="no bound")
MAX_BYTES = Option(
    "max_bytes",
    Count(),
    "how many bytes the rows in the buffer may have: 8 for each column of fixed width, else the length in UTF-8 or binary",
    default_text="no bound",
)
FULL_HELP = "what happens when the buffer holds more than its bound; required with one"
OUTPUT = Option(
    "output",
    Choice(words=("rows", "dropped", "all", "metrics", "explain")),
    "'rows': what comes out; 'dropped': what does not, and why; 'all': both, with a reason; 'metrics': counts; "
    "'explain': each row, and what became of it, when, and which row decided that",
    default="rows",
    default_text="'rows'",
)
DIGEST = f"{PREFIX}digest"  # of the key
NUMBERED = (T.BooleanType, T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType, T.BinaryType)
BLOBS = T.StructType().add(FIRST, T.LongType()).add(DATA, T.BinaryType())
COUNTS = T.StructType([T.StructField(n, T.DoubleType() if n in counts.FLOATS else T.LongType()) for n in counts.COUNTED])
COMMON = (KEYS, ORDER_BY, TIME, CLOCK_BY, WATERMARK, OUTPUT, NAME)
EXPLAINED = "`outcome` STRING (`released`, `replaced`, `tombstone`, `held`, `null_time`), `stream_time` (when the row came), `decided_at` "
ADDS = {
    "'rows'": "`emit_time` (type of the event time: the stream time that released the row), `emit_reason` STRING ({})",
    "'dropped'": "`reason` STRING ({}), `stream_time` (type of the event time; when the row came), `lateness` DOUBLE (seconds)",
    "'all'": "`reason` (null: it came out), `stream_time`, `lateness`, `emit_time`, `emit_reason`",
    "'metrics'": METRICS,
    "'explain'": EXPLAINED
    + "(stream time when that was decided; null: it never was), `decided_by` STRING (the `ORDER BY` values of the row "
    "whose arrival decided it, as JSON; null: the end of the input), `explanation` STRING",
}


def check_common(function: Suppression, call: Bound) -> None:
    """A bound says what happens when the buffer is full; without one it cannot be."""
    bounded = call["max_records"] is not None or call["max_bytes"] is not None
    if bounded and call["when_full"] is None:
        bound = "`max_records`" if call["max_records"] is not None else "`max_bytes`"
        words = next(o.kind.words for o in call.spec.options if o.name == "when_full" and isinstance(o.kind, Choice))
        wanted = ", ".join(f"when_full => '{w}'" for w in words if w != "emit_early" or function.early)
        raise call.refuse(bound, "needs `when_full`: what happens when the buffer holds more", f"Add one of {wanted}.")
    if not bounded and call["when_full"] is not None:
        raise call.refuse("`when_full`", "needs a bound: the buffer is never full", "Add max_records => 100000, or leave it out.")


def prepared(call: Bound, **times: str) -> Frame:
    """The input, with the expressions that suppress takes resolved. `times` are expressions of event times."""
    refuse_versioned(call, call.tables[0].df.schema)
    source = versioned_source(call.tables[0].source, call.spec.name)
    if source is not None:
        raise _versioned(call, f"the table {source.table} is declared versioned")
    if call["clock"] == "wall" and not is_stream(call):
        refuse_wall(call)
    extras = {name: (Expression.parse(text),) for name, text in times.items()}
    return changelog(call, **extras)


def refuse_versioned(call: Bound, schema: T.StructType) -> None:
    """A versioned table cannot be suppressed (rules S9, V9)."""
    column = next((f.name for f in schema.fields if VERSIONED in f.metadata), None)
    if column is not None:
        raise _versioned(call, f"the input is a versioned table (`{column}` says so)")


def _versioned(call: Bound, what: str) -> CallError:
    fix = "Suppress the changelog before it becomes a versioned table, or query its versions as they are."
    return call.refuse(None, f"{what}, and suppress cannot honour versions (S9, V9)", fix)


def closing(call: Bound, schema: T.StructType) -> tuple[str, int]:
    """An expression of a time, and how long after it a window closes, in microseconds (rules S2, S7, W6)."""
    given, grace, gap = next((f for f in schema.fields if call.names.same(f.name, CLOSE)), None), call["grace"] or 0, call["gap"]
    if call["window_end"] is None:
        if given is None:
            fix = "Add window_end => 'window_end' and the grace of the window function (for sessions also its gap)."
            raise call.refuse("`window_end`", f"is missing, and the input has no column `{CLOSE}`: when a window closes is not known", fix)
        return quoted(given.name), 0
    after, end = (of_time_windows(grace) if gap is None else of_sessions(gap, grace)).after, plain(call["window_end"])
    there = end is None or call.names.among(end, [f.name for f in schema.fields])  # else it is refused for that
    if given is not None and there and not (end is not None and call.names.same(end, CLOSE)):
        _refuse_earlier(call, given, grace, after, end)
    return call["window_end"], after


def _refuse_earlier(call: Bound, given: T.StructField, grace: int, after: int, end: str | None) -> None:
    """Where the function that made the windows lets them change for longer (rule S7); with until => 'end', where its sessions do (S12)."""
    made, closes = (given.metadata.get(key) for key in (GRACE_KEY, AFTER_KEY))
    if type(made) is not int:  # anybody can write into the metadata of a column
        return
    name, fix = f"`{given.name}`", f"Leave window_end, grace and gap out: `{given.name}` is used then."
    corrected = call["until"] == "end"
    if corrected:  # what comes in the function's own grace corrects it
        grace, after = made, after + made
    if grace < made:
        given_grace = f"{grace / 1e6:g} s is" if call["grace"] is not None else "is missing, and so 0 s:"
        problem = f"{given_grace} less than the {made / 1e6:g} s that made {name}: a window could change after it came out (S7)"
        raise call.refuse("`grace`", problem, fix)
    if type(closes) is not int or after >= closes or not call.names.among(end, ENDS):
        return
    if closes > made + 1:
        came, gap = "is missing" if call["gap"] is None else f"{call['gap'] / 1e6:g} s is too short", (closes - made - 1) / 1e6
        problem = f"{came}: one of {gap:g} s made {name}, and a session could change after it came out (S7)"
        if corrected:
            problem = f"{came}: one of {gap:g} s made {name}, and before that a session has not ended (S12)"
            fix = f"Write gap => INTERVAL {gap:.6f}".rstrip("0").rstrip(".") + " SECONDS."  # every digit of a long one
        raise call.refuse("`gap`", problem, fix)
    if not corrected:
        problem = f"these windows close a microsecond after their end and `grace`, as {name} says: one could change after it came out (S7)"
        raise call.refuse("`window_end`", problem, fix)


def planned(function: Suppression, call: Bound, frame: Frame, until: Until) -> DataFrame:
    """The call as a DataFrame."""
    if is_stream(call):
        return streamed(function, call, _changelog(call, frame, until), until)
    spreading = spreads(call, frame)
    if call["output"] == "rows" and not spreading:
        frame = frame.only(frame.has_time)  # a close may be dear to compute: the kernel leaves out what has none
    frame, clocks = frame.comparable(frame.clocks)
    changes = _changelog(call, frame, until)
    if spreading:
        _travelling(call, changes.frame.df, [c.name for c in frame.columns])
        made = _made(call, changes, until, spread(call, changes, until, at_end(function, call), clocks))
        if call["when_full"] != "fail":
            return made
        asked = replace(call, options=call.options | {"output": "metrics"})
        return unless_full(call, made, spread(asked, changes, until, at_end(function, call), clocks))
    kernel = _kernel(function, call, changes, until, clocks)
    return _made(call, changes, until, _decided(changes, kernel, _gathered(call, changes, kernel)))


def _made(call: Bound, changes: Changelog, until: Until, decided: DataFrame) -> DataFrame:
    """The output that the call asks for, of rows with what became of them, or of what the metrics are made of."""
    if call["output"] == "metrics":
        return _metrics(call, decided)
    frame = changes.frame.with_df(decided)
    return explained(call, frame, until) if call["output"] == "explain" else _reported(call, frame)


def at_end(function: Suppression, call: Bound) -> str:
    """What happens to rows that are held when the input ends (rule C7)."""
    return str(call["at_end"] or function.at_end)


def _changelog(call: Bound, frame: Frame, until: Until) -> Changelog:
    """The rows of the input as the buffer sees them."""
    has_time = frame.has_time if until.close is None else frame.has_time & named(until.close).isNotNull()
    frame, identity = frame.comparable(frame.keys)
    marks = tombstones(call, frame)
    return Changelog(frame, identity, has_time, None if marks is None else expression(marks), expression(size_of(typed(frame))))


def _kernel(function: Suppression, call: Bound, changelog: Changelog, until: Until, clocks: Sequence[str]) -> Suppress:
    """The call, as the buffer sees it."""
    frame, identity = changelog.frame, changelog.identity
    columns = [c.name for c in frame.columns]
    if call["output"] != "rows":
        columns = list(dict.fromkeys([*columns, frame.time.name, frame.order[0].ref.name]))
    return Suppress(
        function=call.spec.name,
        until=until,
        time=frame.time.name,
        keys=tuple(dict.fromkeys(k.name for k in frame.keys)),
        told=tuple(dict.fromkeys(identity)) if counted(identity, frame.df.schema) else (DIGEST,),
        clocks=tuple(clocks),
        columns=tuple(columns),
        results=tuple(_results(call["output"], frame.time.type)),
        bounds=bounds(call),
        at_end=at_end(function, call),
        output=call["output"],
        merging=None if clocks else _merging(frame),
    )


def _gathered(call: Bound, changelog: Changelog, kernel: Suppress) -> DataFrame:
    """The rows, with the columns that the kernel needs. Where it does not merge them, those of a clock are in one task and in order."""
    frame, merging = changelog.frame, kernel.merging
    rows, clocks = frame.df, [named(c) for c in kernel.clocks]
    if merging is None:
        together = rows.repartition(*clocks) if clocks else rows.repartition(1)
        rows = together.sortWithinPartitions(*[c.asc_nulls_first() for c in clocks], *frame.sort(within_key=False))
    order = [by.name for by in merging.order] if merging else []
    close = [kernel.until.close] if kernel.until.close else []
    needed = dict.fromkeys([*kernel.columns, *kernel.keys, kernel.time, *order, *kernel.clocks, *close])
    rows = rows.select(*map(named, needed), *[c.alias(name) for name, c in _helpers(call, changelog, kernel).items()])
    _travelling(call, rows, rows.columns)
    return rows


def _travelling(call: Bound, rows: DataFrame, columns: Sequence[str]) -> None:
    """Columns must have an Arrow form, whichever way the rows take."""
    for field in rows.schema.fields:
        if field.name in columns:
            must_travel(call, None, f"column `{field.name}`", field.dataType, "to the buffer")


def _decided(changelog: Changelog, kernel: Suppress, rows: DataFrame) -> DataFrame:
    """The rows that the output asks for, with what became of them; or what the metrics are made of."""
    fields = [f for f in rows.schema.fields if f.name in kernel.columns]
    made = [T.StructField(name, kind) for name, kind in _results(kernel.output, changelog.frame.time.type).items()]
    schema = COUNTS if kernel.output == "metrics" else T.StructType([*fields, *made])
    if kernel.merging is None:
        return kernels.mapped(rows, kernel.run, schema)
    blobs = kernels.packed(rows, Packer(kernel.merging, RUN_ROWS, RUN_BYTES), BLOBS)
    return kernels.mapped(blobs.repartition(1).sortWithinPartitions(FIRST), kernel.run_merged, schema)


def _reported(call: Bound, frame: Frame) -> DataFrame:
    """What comes out, or what does not, or both."""
    emitted = {"emit_time": named(EMIT_TIME), "emit_reason": named(EMIT_REASON)} if call["output"] != "dropped" else {}
    reason = F.nullif(named(OUTCOME), F.lit("released")) if call["output"] != "rows" else F.lit(None)
    return outcome(call, frame, reason, named(ARRIVED), REASONS, emitted, emitted)


def _merging(frame: Frame) -> Merging | None:
    """The processing order, where rows can be sorted by many tasks and merged by one; None: Spark sorts them in one."""
    kinds, ties = {c.name: c.type for c in frame.columns}, frame.ties_by(within_key=False)
    in_values = any(has_collation(kinds[by.name]) and not collated(kinds[by.name]) for by in ties)  # Spark has text for these
    if in_values or not isinstance(frame.order[0].ref.type, NUMBERED) or any(has_collation(o.ref.type) for o in frame.order):
        return None
    order = tuple(By(o.ref.name, o.ascending, o.nulls_first) for o in frame.order)
    return Merging(order, ties)


def _helpers(call: Bound, changelog: Changelog, kernel: Suppress) -> dict[str, Column]:
    """Columns that the kernel needs beside those of the input."""
    helpers: dict[str, Column] = {}
    if changelog.deleted is not None:
        helpers[buffer.DELETED] = changelog.deleted
    if call["max_bytes"] is not None or call["output"] == "metrics":
        helpers[buffer.BYTES] = changelog.size
    if call["output"] != "rows":
        helpers[buffer.ASIDE] = ~changelog.has_time
    if call["output"] == "explain":
        helpers[buffer.ORDER] = as_json(changelog.frame)
    if DIGEST in kernel.told:
        helpers[DIGEST] = digest(changelog.identity, changelog.frame.df.schema)
    return helpers


def size_of(columns: Sequence[tuple[str, T.DataType]]) -> str:
    """The bytes of a row, as SQL text (rule S6)."""
    return " + ".join(_size(name, kind) for name, kind in columns) or "0L"


def _size(name: str, kind: T.DataType) -> str:
    """The bytes of a column (rule S6): 8 where its width is fixed, else the length; what is nested counts as its JSON does."""
    column = quoted(name)
    if isinstance(kind, (T.StringType, T.BinaryType)):
        return f"coalesce(octet_length({column}), 0)"
    if isinstance(kind, (T.StructType, T.ArrayType, T.MapType)):
        return f"coalesce(octet_length(to_json(struct({column}))), 0)"
    if isinstance(kind, T.VariantType):
        return f"coalesce(octet_length(CAST({column} AS STRING)), 0)"
    return "8"


def _results(wanted: str, kind: T.DataType) -> dict[str, T.DataType]:
    """The columns that the kernel adds for an output."""
    text = T.StringType()
    emitted: dict[str, T.DataType] = {EMIT_TIME: kind, EMIT_REASON: text}
    judged: dict[str, T.DataType] = {OUTCOME: text, ARRIVED: kind}
    decided: dict[str, T.DataType] = {DECIDED_AT: kind, DECIDED_BY: text, DUE_AT: kind}
    chosen = {"rows": emitted, "dropped": judged, "all": judged | emitted, "explain": judged | decided | {EMIT_REASON: text}}
    return chosen.get(wanted, {})


def _metrics(call: Bound, counted: DataFrame) -> DataFrame:
    """The metrics of section 8, from the counts of all tasks."""
    sums = [n for n in COUNTS.names if n not in ("late_max", "low", "high", "overtime_min")]
    one = counted.agg(
        *[F.coalesce(F.sum(n), F.lit(0)).cast("double").alias(n) for n in sums if not n.endswith("_max")],
        *[F.max(n).cast("double").alias(n) for n in ("count_max", "size_max")],
        F.max("late_max").alias("late_max"),
        F.min("overtime_min").alias("overtime_min"),
        (F.coalesce(F.try_subtract(F.max("high"), F.min("low")), F.when(F.max("high") >= F.min("low"), HIGHEST)) / 1e6).alias("span"),
    )
    rows: list[tuple[str, str, str]] = []
    for name, unit in (("count", "rows"), ("size", "bytes")):
        rows.append((f"suppression_buffer_{name}_current", f"{name}_current", unit))
        rows.append((f"suppression_buffer_{name}_avg", f"{name}_sum / nullif(rows, 0)", unit))
        rows.append((f"suppression_buffer_{name}_max", f"coalesce({name}_max, 0)", unit))
    rows += [
        ("suppression_emit_total", "released_total", "rows"),
        ("suppression_emit_rate", "released_total / nullif(span, 0)", RATE),
        ("suppression_overtime_min", "overtime_min / 1e6", "seconds"),
        ("suppression_overtime_avg", "overtime_sum / nullif(overtimes, 0) / 1e6", "seconds"),
    ]
    return metrics(call, one, REASONS, ("late_sum / nullif(rows, 0) / 1e6", "if(rows > 0, late_max / 1e6, NULL)"), rows)
