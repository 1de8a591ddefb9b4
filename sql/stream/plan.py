"""Functions over a stream: rows are brought together by key as in batch, judged with the state of their bucket, and reported the same way.

The work of a micro-batch: pack rows into blobs by bucket of keys (`packing`), shuffle the blobs, `transformWithState` over them with
RocksDB (`buckets.Judge`, around a `Transition` from `streamtime.udfs`), unpack. Stream time is the query's watermark (C3).
"""

from __future__ import annotations

import datetime
import functools
import itertools
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import arrow_type, has_collation, must_travel, named, nullable
from streamtime.sql.rows.keys import told_apart
from streamtime.sql.rows.typed import collated
from streamtime.sql.stream import buckets, checkpoint, meeting, packing
from streamtime.sql.stream.buckets import REASON, STATE, STATE_FORM, STREAM_TIME, Hold, Holding, Judge, Judging
from streamtime.sql.stream.checkpoint import AS_WRITTEN, LETTERS
from streamtime.sql.stream.meeting import Meet, Meeting
from streamtime.sql.stream.packing import ASIDE, KEY_HASH, MOST, NO_KEYS, PACKED, SETTING, TAKES_PART, packer, unpack
from streamtime.sql.stream.watermark import WATERMARKED_BELOW, marked, watermarked
from streamtime.udfs.arrays.ordering import By

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Ref
    from streamtime.udfs.state import Holder, Meeter, Seconds, Transition

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TIME_MODE = {False: "EventTime", True: "ProcessingTime"}  # of timers, by whether stream time is the time of day
_numbers = itertools.count(1)


def is_stream(call: Bound, explains: bool = False) -> bool:
    """Whether the call is over a stream. Raises CallError for what a stream cannot have (rules C3, C5, C6); `explains`: it can explain."""
    if not call.tables[0].df.isStreaming:
        return False
    if call["clock_by"]:
        raise call.refuse("`clock_by`", "is not possible on a stream: its one clock is the watermark (C3)", "Leave it out.")
    if call["output"] == "metrics":
        fix = "Read them from observedMetrics in the query's progress, where every call over a stream puts them; `name` labels them."
        raise call.refuse("`output`", "'metrics' is not possible on a stream", fix)
    if call["output"] == "explain" and not explains:
        raise call.refuse("`output`", "'explain' is not possible on a stream", "Run the call in batch, over the rows that you ask about.")
    provider = call.session.conf.get(PROVIDER, "") if call.session is not None else ROCKSDB
    if "RocksDB" not in provider:
        fix = f"Run SET {PROVIDER} = {ROCKSDB} first; streamtime.session() does."
        raise call.refuse(None, "on a stream, its state needs the RocksDB state store", fix)
    return True


def refuse_collated(call: Bound, role: str, what: str, ref: Ref) -> None:
    """The state compares byte by byte."""
    if has_collation(ref.type):
        plain = re.sub(r" collate \w+", "", ref.type.simpleString()).upper()
        fix = f"Use collate({ref.text}, 'UTF8_BINARY'), or lower({ref.text})" if collated(ref.type) else f"Use CAST({ref.text} AS {plain})"
        raise call.refuse(role, f"{what} with a collation is not possible on a stream (`{ref.text}`)", f"{fix}, in the TABLE argument.")


def refuse_collations(call: Bound, frame: Frame) -> None:
    """Neither keys nor the processing order can have one."""
    for key in frame.keys:
        refuse_collated(call, "PARTITION BY", "a key", key)
    for item in frame.order:
        refuse_collated(call, "ORDER BY", "a column", item.ref)


def by_wall(call: Bound, time: Ref) -> bool:
    """Whether stream time is the time of day (rule S10). Raises CallError where the event time is no moment."""
    if call["clock"] == "wall" and not isinstance(time.type, T.TimestampType):
        problem = f"'wall' needs a TIMESTAMP as event time, got {time.type.simpleString().upper()} (`{time.text}`)"
        raise call.refuse("`clock`", problem, "Cast it in the TABLE argument.")
    return bool(call["clock"] == "wall")


def refuse_at_end(call: Bound) -> None:
    """Raise CallError where rows are to leave at the end of a stream (C7)."""
    if call["at_end"] == "emit":
        raise call.refuse("`at_end`", "'emit' is not possible on a stream: it does not end", "Leave it out.")


@dataclass(frozen=True)
class KeyState:
    """Whose the state is, which rows never reach it, and for which options alone it is valid."""

    identity: Sequence[str]  # the columns that tell keys apart, comparable
    options: dict[str, Any]  # those that pin a checkpoint, beside the keys and the event time
    aside: Column  # null where a row takes part; else the reason for which it is dropped, or '' if it passes
    reasons: Sequence[str]  # those that `aside` may say


@dataclass(frozen=True)
class Needs:
    """What a transition needs of a row beside its event time, what is needed after it, and what it gives."""

    asked: Sequence[str] = ()
    carried: Sequence[str] = ()  # needed afterwards, beside the input's columns
    offset: Sequence[str] = ()  # those of a source record, comparable
    results: T.StructType = T.StructType()  # noqa: RUF009 - nobody adds to it


@dataclass(frozen=True)
class Leaving:
    """What travels to a holder, beside the event time and the processing order, and what leaves it."""

    columns: Sequence[str]
    fields: Sequence[T.StructField]  # of the rows that leave
    results: Sequence[tuple[str, T.DataType | str]] = ()  # those of them that are null in a row that never came to the holder; with their
    # type, or the name of a column that has it
    passing: Sequence[str] = ()  # those of them that such a row has, where it leaves beside what the holder lets go


def judged(call: Bound, frame: Frame, transition: Transition, state: KeyState, needs: Needs = Needs()) -> Frame:
    """The frame with its rows judged: those that the output asks for, with `REASON` and `STREAM_TIME` where rows are reported."""
    told = told_apart(state.identity, frame.df.schema)
    offsets = told_apart(needs.offset, frame.df.schema, "offset") if needs.offset else {}
    known = functools.reduce(operator.and_, [named(n).isNotNull() for n in needs.offset], F.lit(True))
    offsets = {name: F.when(known, column) for name, column in offsets.items()}  # a digest is never null: a null offset is none (D7)
    sent = [*(c.name for c in frame.columns), *needs.asked, *needs.carried]
    packed, schema = _packed(call, frame, state, told | offsets, sent)
    plan = Judging(
        function=call.spec.name,
        transition=transition,
        keys=tuple(told),
        offset=tuple(offsets),
        options=_pinned(frame, state.options),
        roles=(frame.time.name, *needs.asked),
        order=tuple(By(o.ref.name, o.ascending, o.nulls_first) for o in frame.order),
        ties=frame.ties_by(),
        aside=tuple(state.reasons),
        results=tuple(needs.results.names),
        output=call["output"],
    )
    blobs = _run(call, frame, packed, Judge(plan), plan.counts, "EventTime")
    made = [] if call["output"] == "rows" else [T.StructField(REASON, T.StringType()), T.StructField(STREAM_TIME, frame.time.type)]
    return frame.with_df(_unpacked(blobs, [*schema, *made, *needs.results]))


def released(
    call: Bound,
    frame: Frame,
    holder: Holder,
    state: KeyState,
    leaving: Leaving,
    *,
    wall: bool = False,
    is_watermarked: bool = False,
    step: str = "",
    row_identity: Sequence[str] = (),
) -> DataFrame:
    """What a function that holds rows, or results of them, lets go.

    In a report, rows that never came to it have `REASON` and `STREAM_TIME`. `is_watermarked`: the rows have been given their watermark.
    `step` names one of several within a call. `row_identity` are columns, comparable, that tell rows of one key apart.
    """
    told = told_apart(state.identity, frame.df.schema)
    of_rows = told_apart(row_identity, frame.df.schema, "row") if row_identity else {}
    packed, sent = _packed(call, frame, state, told | of_rows, leaving.columns, is_watermarked)
    plan = Holding(
        function=call.spec.name,
        holder=holder,
        keys=tuple(told),
        options=_pinned(frame, state.options),
        time=frame.time.name,
        order=tuple(By(o.ref.name, o.ascending, o.nulls_first) for o in frame.order),
        ties=frame.ties_by(),
        aside=tuple(state.reasons),
        results=tuple((name, kind if isinstance(kind, str) else arrow_type(kind)) for name, kind in leaving.results),
        output=call["output"],
        wall=wall,
        row_identity=tuple(of_rows),
        passing=tuple(leaving.passing),
        columns=tuple(f.name for f in sent),
    )
    blobs = _run(call, frame, packed, Hold(plan), plan.counts, TIME_MODE[wall], step, plan.seconds)
    return _unpacked(blobs, leaving.fields)


def met(call: Bound, frame: Frame, meeter: Meeter, state: KeyState, leaving: Leaving, *, wall: bool = False) -> DataFrame:
    """What leaves a function whose held rows meet what else is held of their key. Rows have been given their watermark."""
    told = told_apart(state.identity, frame.df.schema)
    packed, _ = _packed(call, frame, state, told, leaving.columns, is_watermarked=True)
    plan = Meeting(call.spec.name, meeter, tuple(told), _pinned(frame, state.options), frame.time.name, wall)
    blobs = _run(call, frame, packed, Meet(plan), plan.counts, TIME_MODE[wall])
    return _unpacked(blobs, leaving.fields)


def _run(
    call: Bound,
    frame: Frame,
    packed: DataFrame,
    processor: Judge | Hold | Meet,
    counts: Sequence[str],
    mode: str,
    step: str = "",
    seconds: Sequence[Seconds] = (),
) -> DataFrame:
    """The blobs that come out, with the metrics observed on the way."""
    kernels.ship_by_value(packing, checkpoint, buckets, meeting)
    grouped = packed.groupBy("bucket")
    if not hasattr(grouped, "transformWithStateInPandas"):
        fix = "Use Spark 4.1 or later, or run the stream in the process of the server."
        raise call.refuse(None, "Spark Connect before Spark 4.1 has no functions with state", fix)
    schema = (
        T.StructType().add("data", T.BinaryType()).add("counts", T.ArrayType(T.DoubleType()))
    )  # a sum of microseconds over many rows is no BIGINT
    blobs = grouped.transformWithStateInPandas(processor, schema, "Append", mode)
    label = call["name"] or f"{call.spec.name.lower()}_{next(_numbers)}"
    return blobs.observe(f"{label}_{step}" if step else label, F.lit(_said(call, frame)).alias("call"), *_observed(counts, seconds)).select(
        "data"
    )


def _unpacked(blobs: DataFrame, fields: Sequence[T.StructField]) -> DataFrame:
    """Rows again. What was held may have come when there were nulls in it, so there may be some in what leaves."""
    schema = T.StructType([T.StructField(f.name, nullable(f.dataType), f.nullable, f.metadata) for f in fields])
    return kernels.mapped(blobs, unpack, schema)


def _said(call: Bound, frame: Frame) -> str:
    """The call as people know it, the same after every restart: its function, keys and order."""
    keys, order = ([ref.text for ref in refs] for refs in (frame.keys, [o.ref for o in frame.order]))
    clauses = {"PARTITION BY": keys, "ORDER BY": order}
    written = [f"{name} ({', '.join(texts)})" if len(texts) > 1 else f"{name} {texts[0]}" for name, texts in clauses.items() if texts]
    return f"{call.spec.name}({' '.join(written)})"


def verdict(call: Bound) -> Column:
    """Why a judged row is dropped; null where it passes."""
    return F.lit(None) if call["output"] == "rows" else named(REASON)


def _packed(
    call: Bound, frame: Frame, state: KeyState, told: dict[str, Column], columns: Sequence[str], is_watermarked: bool = False
) -> tuple[DataFrame, list[T.StructField]]:
    """Blobs of rows, by bucket; and the columns that the rows will have when they are unpacked. `told` tells keys apart."""
    refuse_collations(call, frame)
    # what is dropped before it is judged does not move stream time (C12); what passes without a key does (D4)
    df = frame.df if is_watermarked else watermarked(call, frame, F.coalesce(state.aside, F.lit("")) == "")
    sent = list(dict.fromkeys([*columns, frame.time.name, *(o.ref.name for o in frame.order), *frame.ties()]))
    code = F.coalesce(*(F.when(state.aside == reason, i) for i, reason in enumerate(("", *state.reasons))), F.lit(TAKES_PART))
    order_columns = [*(o.ref.name for o in frame.order), *frame.ties()]
    alone = F.xxhash64(frame.time.column, *map(named, order_columns), F.lit(1))  # rows aside belong to no key: they are spread evenly
    hashed = F.when(code != TAKES_PART, alone).otherwise(F.xxhash64(F.lit(0), *map(named, state.identity)))
    rows = df.withColumns({ASIDE: code.cast("int"), KEY_HASH: hashed} | told).select(*map(named, sent), KEY_HASH, *told, ASIDE)
    schema = [f for f in rows.schema.fields if f.name in sent]
    for field in schema:
        must_travel(call, None, f"column `{field.name}`", field.dataType, "to Python on a stream")
    kernels.ship_by_value(packing)
    return _with_number(kernels.packed(rows, packer(_asked(call)), PACKED)), [_marked(call, frame, f) for f in schema]


def _with_number(packed: DataFrame) -> DataFrame:
    """The blobs of each bucket, and for the bucket of no key how many buckets there are."""
    number = F.when(F.col("buckets").isNotNull(), F.struct(F.lit(NO_KEYS).alias("bucket"), F.col("buckets").alias("data")))
    return packed.select(F.inline(F.array_compact(F.array(F.struct("bucket", "data"), number))))


def _asked(call: Bound) -> int | None:
    """How many buckets the session asks for, if it does."""
    text = call.session.conf.get(SETTING, "") if call.session is not None else ""
    if not text:
        return None
    if text not in {str(1 << bits) for bits in range(MOST.bit_length())}:
        problem = f"expected a power of two up to {MOST}, got {text!r}"
        raise call.refuse(f"`{SETTING}`", problem, f"Write: SET {SETTING} = 256. Or leave it out: RESET {SETTING}.")
    return int(text)


def _marked(call: Bound, frame: Frame, field: T.StructField) -> T.StructField:
    """A function that follows must know that there is a watermark, and a window aggregate what is late, as after withWatermark."""
    names = [c.name for c in frame.columns]
    if field.name != (frame.time.name if frame.time.name in names else names[0]):
        return field
    if isinstance(field.dataType, type(frame.time.type)) and field.name == frame.time.name:
        return marked(call, field)
    return T.StructField(field.name, field.dataType, field.nullable, field.metadata | {WATERMARKED_BELOW: True})


def _pinned(frame: Frame, options: dict[str, Any]) -> dict[str, str]:
    """What the state depends on, in words."""
    shown = {name: _option_in_words(value) for name, value in options.items() if value is not None}
    keys = ", ".join(f"{k.text} {k.type.simpleString()}" for k in frame.keys)
    time = f"{frame.time.text} {frame.time.type.simpleString()}"
    return {STATE: STATE_FORM, LETTERS: AS_WRITTEN, "PARTITION BY": keys, "event time": time, **shown}


def _option_in_words(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(datetime.timedelta(microseconds=value)) if isinstance(value, int) else str(value)


def _observed(counts: Sequence[str], seconds: Sequence[Seconds]) -> list[Column]:
    """The metrics of section 8, as the query's progress shows them."""
    at = {name: F.col("counts")[i] for i, name in enumerate(counts)}
    totals = [
        F.coalesce(F.sum(at[name]), F.lit(0)).cast("long").alias(name) for name in counts if name == "input_rows" or name.endswith("_total")
    ]
    late = [
        (F.try_divide(F.sum(at["lateness_sum"]), F.sum(at["timed_rows"])) / 1e6).alias("record_lateness_avg"),
        (F.max(at["lateness_max"]) / 1e6).alias("record_lateness_max"),
    ]
    for one in seconds:
        of, among = at[one.of], at[one.among]
        value = F.min(F.when(among > 0, of)) if one.least else F.sum(of) / F.nullif(F.sum(among), F.lit(0))
        late.append((value / 1e6).alias(one.name))
    return [*totals, *late]
