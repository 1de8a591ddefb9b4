"""Suppress over a stream: the same rules, with the watermark, or the clock on the wall, as stream time (rules C3, C5, S10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import named
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.stream.buckets import CLOCK, REASON
from streamtime.sql.stream.plan import WATERMARK, kept, marked, verdict
from streamtime.udfs.suppress.bounded import Bounded
from streamtime.udfs.suppress.buffer import BYTES, DELETED, EMIT_REASON, EMIT_TIME
from streamtime.udfs.suppress.decisions import Bounds
from streamtime.udfs.suppress.waiting import Waiting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

REASONS = ("null_time", "replaced", "tombstone")
COUNTS = (
    "replaced_drop_total",
    "tombstone_drop_total",
    "suppression_emit_total",
    "suppression_buffer_entered_total",
    "suppression_buffer_left_total",
    "suppression_overtime_sum",
    "suppression_overtime_min",
)


def streamed(
    call: Bound,
    frame: Frame,
    identity: list[str],
    has_time: Column,
    deleted: Column | None,
    size: Column,
    *,
    wait: int,
    close: str | None,
    after: int,
) -> DataFrame:
    """The call over a stream."""
    _refuse(call, frame)
    wanted, kind = call["output"], frame.time.type
    if deleted is not None:
        frame = frame.with_df(frame.df.withColumn(DELETED, deleted))
    columns = [c.name for c in frame.columns]
    others = [close] if close else []
    others += [DELETED] if deleted is not None else []
    bounded, kind_of = call["when_full"] in ("fail", "emit_early"), Waiting
    more: dict[str, Any] = {}
    if bounded:  # all rows are one group, in one bucket; with 'spill', the state store holds what is too much
        frame = frame.with_df(frame.df.withColumn(BYTES, size.cast("long")))
        keys = tuple(k.name for k in frame.keys)
        others, identity = [*others, *keys, BYTES], []
        bounds = Bounds(call["max_records"], call["max_bytes"])
        more = {"function": call.spec.name, "keys": keys, "size": BYTES, "bounds": bounds}
        kind_of, more["early"] = Bounded, call["when_full"] == "emit_early"
    needed = list(dict.fromkeys([*columns, frame.time.name, *(o.ref.name for o in frame.order), *others]))
    holder = kind_of(
        time=frame.time.name,
        columns=tuple(columns if wanted == "rows" else needed),
        reason=REASON,
        stream_time=CLOCK,
        emit_time=EMIT_TIME,
        emit_reason=EMIT_REASON,
        wait=wait,
        close=close,
        after=after,
        deleted=DELETED if deleted is not None else None,
        output=wanted,
        **more,
    )
    schema = frame.df.schema
    emit_time = marked(call, T.StructField(EMIT_TIME, kind, True, _watermarks(schema)))
    emitted = [emit_time, T.StructField(EMIT_REASON, T.StringType())]
    report = [T.StructField(REASON, T.StringType()), T.StructField(CLOCK, kind)]
    fields = {"rows": emitted, "dropped": [report[0], marked(call, report[1])], "all": [*report, *emitted]}[wanted]
    made = kept(
        call,
        frame,
        holder,
        identity,
        aside=F.when(~has_time, "null_time"),
        reasons=("null_time",),
        columns=needed,
        fields=[*(_unmarked(schema[name]) for name in holder.columns), *fields],
        results=[(f.name, f.dataType) for f in emitted] if wanted == "all" else (),
        counts=COUNTS,
        options={"wait": call.options.get("wait"), "window_end": call.options.get("window_end"), "clock": call["clock"]}
        | {name: call.options.get(name) for name in ("grace", "gap", "deleted")}
        | ({name: str(call[name]) for name in ("max_records", "max_bytes", "when_full")} if bounded else {}),
        wall=call["clock"] == "wall",
    )
    frame = frame.with_df(made)
    shown = {"emit_time": named(EMIT_TIME), "emit_reason": named(EMIT_REASON)} if wanted != "dropped" else {}
    timeless = F.coalesce(verdict(call) == "null_time", F.lit(False))  # it may be its close alone that is null
    return outcome(call, frame, verdict(call), F.when(~timeless, named(CLOCK)), REASONS, shown, shown)


def _refuse(call: Bound, frame: Frame) -> None:
    if call["at_end"] == "emit":
        raise call.refuse("`at_end`", "'emit' is not possible on a stream: it does not end", "Leave it out.")
    if call["clock"] == "wall" and not isinstance(frame.time.type, T.TimestampType):
        kind = frame.time.type.simpleString().upper()
        problem = f"'wall' needs a TIMESTAMP as event time, got {kind} (`{frame.time.text}`)"
        raise call.refuse("`clock`", problem, "Cast it in the TABLE argument.")


def _unmarked(field: T.StructField) -> T.StructField:
    """A column of rows that were held may lie behind the watermark: what follows must not take it for the event time (rule S8)."""
    left = {name: value for name, value in field.metadata.items() if name != WATERMARK}
    return T.StructField(field.name, field.dataType, field.nullable, left)


def _watermarks(schema: T.StructType) -> dict[str, int]:
    """The mark of the input's own watermark; without one, none is waited for: `emit_time` never lies behind."""
    return {WATERMARK: next((f.metadata[WATERMARK] for f in schema.fields if WATERMARK in f.metadata), 0)}
