"""Suppress over a stream: the same rules, with the watermark, or the clock on the wall, as stream time (rules C3, C5, S10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import named
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.stream.buckets import REASON, STREAM_TIME
from streamtime.sql.stream.plan import KeyState, Leaving, by_wall, refuse_at_end, released, verdict
from streamtime.sql.stream.watermark import mark_of_input, marked, unmarked
from streamtime.udfs.suppress.bounded import BoundedBuffer
from streamtime.udfs.suppress.buffer import BYTES, DELETED, EMIT_REASON, EMIT_TIME
from streamtime.udfs.suppress.decisions import Bounds
from streamtime.udfs.suppress.until import Suppression, Until
from streamtime.udfs.suppress.waiting import StreamBuffer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.suppress.changelog import Changelog

REASONS = ("null_time", "replaced", "tombstone")


def streamed(function: Suppression, call: Bound, changelog: Changelog, until: Until) -> DataFrame:
    """The call over a stream."""
    refuse_at_end(call)
    wall = by_wall(call, changelog.frame.time)
    bounded = bounds(call).fail or bounds(call).early  # with 'spill', the state store holds what is too much
    frame, holder, sent = _buffer(call, changelog, until, bounded)
    identity = [] if bounded else changelog.identity  # all rows are one group then, in one bucket
    aside = F.when(~changelog.has_time, "null_time")
    state = KeyState(identity, _pinned(function, call, until, bounded), aside, reasons=("null_time",))
    left = released(call, frame, holder, state, _leaving(call, frame, holder, sent), wall=wall)
    frame = frame.with_df(left)
    shown = {"emit_time": named(EMIT_TIME), "emit_reason": named(EMIT_REASON)} if call["output"] != "dropped" else {}
    timeless = F.coalesce(verdict(call) == "null_time", F.lit(False))  # it may be its close alone that is null
    return outcome(call, frame, verdict(call), F.when(~timeless, named(STREAM_TIME)), REASONS, shown, shown)


def bounds(call: Bound) -> Bounds:
    """How much the buffer may hold."""
    return Bounds(call["max_records"], call["max_bytes"], call["when_full"])


def _buffer(call: Bound, changelog: Changelog, until: Until, bounded: bool) -> tuple[Frame, StreamBuffer, list[str]]:
    """The rows with what the buffer must know of each, the buffer, and the columns that travel to it."""
    frame, deleted = changelog.frame, changelog.deleted
    columns, keys = [c.name for c in frame.columns], tuple(k.name for k in frame.keys)
    helpers = {} if deleted is None else {DELETED: deleted}
    others = [*([until.close] if until.close else []), *helpers]  # this order is that of old checkpoints
    if bounded:
        helpers[BYTES] = changelog.size.cast("long")
        others += [*keys, BYTES]
    sent = list(dict.fromkeys([*columns, frame.time.name, *(o.ref.name for o in frame.order), *others]))
    waiting = StreamBuffer(
        until=until,
        time=frame.time.name,
        columns=tuple(columns if call["output"] == "rows" else sent),
        reason=REASON,
        stream_time=STREAM_TIME,
        emit_time=EMIT_TIME,
        emit_reason=EMIT_REASON,
        deleted=DELETED if deleted is not None else None,
        output=call["output"],
    )
    if bounded:
        waiting = BoundedBuffer(**vars(waiting), function=call.spec.name, keys=keys, size=BYTES, bounds=bounds(call))
    return (frame.with_df(frame.df.withColumns(helpers)) if helpers else frame), waiting, sent


def _leaving(call: Bound, frame: Frame, holder: StreamBuffer, sent: list[str]) -> Leaving:
    """What leaves the buffer. Spark must know how far it lies behind: `emit_time` never does, the rows' own times may (rule S8)."""
    schema, kind = frame.df.schema, frame.time.type
    emit_time = marked(call, T.StructField(EMIT_TIME, kind, True, mark_of_input(schema)))
    emitted = [emit_time, T.StructField(EMIT_REASON, T.StringType())]
    report = [T.StructField(REASON, T.StringType()), T.StructField(STREAM_TIME, kind)]
    made = {"rows": emitted, "dropped": [report[0], marked(call, report[1])], "all": [*report, *emitted]}[call["output"]]
    results = [(f.name, f.dataType) for f in emitted] if call["output"] == "all" else []
    return Leaving(sent, [*(unmarked(schema[name]) for name in holder.columns), *made], results)


def _pinned(function: Suppression, call: Bound, until: Until, bounded: bool) -> dict[str, Any]:
    """What the state depends on."""
    pinned = {name: call[name] for name in function.pinned} | ({"until": "end"} if until.corrected else {})
    pinned |= {"output": "rows" if call["output"] == "rows" else "dropped or all"}
    return pinned | ({name: str(call[name]) for name in ("max_records", "max_bytes", "when_full")} if bounded else {})
