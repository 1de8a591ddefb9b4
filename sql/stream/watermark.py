"""Which watermark a stream has: one of its own, or one that a call gives it; and the marks that tell what follows of it.

A stream has a watermark where its plan has one. Marks in the columns alone do not say so: a sink stores them with its table, and whoever
reads that table as a stream has the marks without a watermark. They decide only where the plan is not all there: of a name of WITH, Spark
shows a call the columns, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.rows.unread import source_text
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

WATERMARKED = f"{PREFIX}clocked"
WATERMARK = "spark.watermarkDelayMs"  # what Spark writes into the metadata of a column with a watermark
WATERMARKED_BELOW = "streamtime.clocked"  # what a function of the pack writes there: a watermark stands below
NODE = re.compile(r"^[ :|+~-]*EventTimeWatermark (?:[0-9a-f-]{36}, )?(.*?)#\d+", re.MULTILINE)
REFERENCE, DEFINITION = (re.compile(rf"^[ :|+~-]*CTERelation{kind} (\d+)", re.MULTILINE) for kind in ("Ref", "Def"))


def own_watermarks(plan: str | None, fields: Sequence[T.StructField]) -> list[str]:
    """The columns of the watermarks that stand in a plan, given as Spark writes it; where that is not all there, columns with marks."""
    inside = NODE.findall(plan or "")
    if inside or (plan is not None and set(REFERENCE.findall(plan)) <= set(DEFINITION.findall(plan))):
        return inside
    return [WATERMARKED if WATERMARKED_BELOW in f.metadata else f.name for f in with_marks(fields)]


def with_marks(fields: Sequence[T.StructField]) -> list[T.StructField]:
    """The columns that say of themselves that there is a watermark."""
    return [f for f in fields if not f.metadata.keys().isdisjoint((WATERMARK, WATERMARKED_BELOW))]


def has_watermark(frame: Frame) -> bool:
    """Whether the input has one already."""
    return bool(_own(frame))


def _own(frame: Frame) -> list[str]:
    return own_watermarks(source_text(frame.df if frame.source is None else frame.source), frame.df.schema.fields)


def watermarked(call: Bound, frame: Frame, moves: Column | None = None) -> DataFrame:
    """The input with a watermark: of the call's `watermark`, else its own, else one without delay on the event time.

    One that a call gives is moved by the rows for which `moves` is true, else by those that take part in windows (C12). A column beside
    the event time has it, so that the others keep theirs.
    """
    own = _own(frame)
    if own and call["watermark"] is not None:
        fix = "Spark wants one watermark only: leave out one of the two."
        raise call.refuse("`watermark`", f"the input has a watermark already{_on(own, frame)}", fix)
    is_timestamp = isinstance(frame.time.type, T.TimestampType)
    behind_a_call = any(WATERMARKED_BELOW in f.metadata for f in frame.df.schema.fields)
    if own and not is_timestamp and WATERMARKED not in own and not behind_a_call:
        fix = "Leave the input's watermark out, and say watermark => INTERVAL .. here."
        raise call.refuse("`time`", f"the input's watermark is a TIMESTAMP (`{own[0]}`), the event time is not (`{frame.time.text}`)", fix)
    if own:
        return frame.df
    moment = (
        frame.time.column if is_timestamp else expression(f"timestamp_micros({microseconds(quoted(frame.time.name), frame.time.type)})")
    )
    moves = frame.left_out.isNull() if moves is None else moves
    return frame.df.withColumn(WATERMARKED, F.when(moves, moment)).withWatermark(WATERMARKED, f"{_delay(call)} milliseconds")


def _on(own: Sequence[str], frame: Frame) -> str:
    """The column of the input's watermark, as people know it."""
    names = [name for name in (*own, *(f.name for f in with_marks(frame.df.schema.fields))) if not name.startswith(PREFIX)]
    return f", on `{names[0]}`" if names else ""


def _delay(call: Bound) -> int:
    """The watermark's delay in milliseconds, which is what Spark counts in; never less than asked."""
    return -(-(call["watermark"] or 0) // 1000)


def marked(call: Bound, field: T.StructField) -> T.StructField:
    """A column of event times, marked for what follows: there is a watermark, and a window aggregate may judge lateness by this column."""
    marks: dict[str, Any] = {WATERMARKED_BELOW: True}
    if call["watermark"] is not None and isinstance(field.dataType, T.TimestampType):
        marks |= {WATERMARK: _delay(call)}
    return T.StructField(field.name, field.dataType, field.nullable, (field.metadata or {}) | marks)


def behind_watermark(fields: Sequence[T.StructField]) -> list[T.StructField]:
    """Columns of rows that leave behind the watermark: a window aggregate that follows must refuse them, since it would lose them all."""
    first, *rest = map(unmarked, fields)
    return [T.StructField(first.name, first.dataType, first.nullable, first.metadata | {WATERMARKED_BELOW: True}), *rest]


def unmarked(field: T.StructField) -> T.StructField:
    """A column of rows that were held may lie behind the watermark: what follows must not take it for the event time (rule S8)."""
    left = {name: value for name, value in field.metadata.items() if name != WATERMARK}
    return T.StructField(field.name, field.dataType, field.nullable, left)


def mark_of_input(schema: T.StructType) -> dict[str, int]:
    """The mark of the input's own watermark; without one, none is waited for: `emit_time` never lies behind."""
    return {WATERMARK: next((f.metadata[WATERMARK] for f in schema.fields if WATERMARK in f.metadata), 0)}
