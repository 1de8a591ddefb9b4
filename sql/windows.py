"""Rows in windows and sessions, judged one by one: which are late, which open a window (rules W1 to W3). In batch and on a stream."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql import kernels
from streamtime.sql.clock import STREAM_TIME, with_stream_time
from streamtime.sql.columns import named
from streamtime.sql.frame import PREFIX
from streamtime.udfs.sessions import ASIDE, LATE, OPENED, FirstInSession

if TYPE_CHECKING:
    from pyspark.sql import Column

    from streamtime.sql.frame import Frame

VERDICT, START, END = f"{PREFIX}verdict", f"{PREFIX}start", f"{PREFIX}end"


def moments(frame: Frame) -> T.DataType:
    """The type of a time window's bounds."""
    return T.TimestampType() if isinstance(frame.time.type, T.TimestampType) else T.TimestampNTZType()


def clocked(frame: Frame, takes_part: Column) -> tuple[Frame, Column]:
    """The frame with stream time beside each row, and where that stands; rows that take no part do not move it."""
    if frame.in_time_order:
        return frame, frame.time.column
    moves = F.when(takes_part, frame.time.column)
    return with_stream_time(frame, moves, frame.extras.get("clock_by", ())), named(STREAM_TIME)


def windowed(frame: Frame, takes_part: Column, size: int, slide: int) -> Frame:
    """Each row once per window that contains it, with the window's bounds; a row that takes no part once."""
    lengths = [f"{d} microseconds" for d in (size, slide)]
    kind = moments(frame)
    epoch = F.timestamp_seconds(F.lit(0)) if isinstance(kind, T.TimestampType) else F.lit("1970-01-01").cast(kind)
    # window() loses rows without a time: they stand in one window of their own, that of the epoch
    moment = F.when(takes_part, frame.time.column.cast(kind)).otherwise(epoch)
    window = f"{PREFIX}window"
    df = frame.df.withColumn(window, F.window(moment, *lengths))
    df = df.withColumns({START: F.col(f"{window}.start"), END: F.col(f"{window}.end")}).drop(window)
    return frame.with_df(df.where(takes_part | (named(START) == epoch)))


def closed(frame: Frame, clock: Column, grace: int) -> Column:
    """Whether a row's window no longer accepts it: its end <= stream time - grace [W1]."""
    if frame.in_time_order:
        return F.lit(False)
    return named(END) + F.lit(datetime.timedelta(microseconds=grace)) <= clock.cast(moments(frame))


def in_sessions(frame: Frame, takes_part: Column, clock: Column, identity: list[str], gap: int, grace: int) -> Frame:
    """Each row with its session's bounds right after it, and in `VERDICT` what it did: null (opened one), 'duplicate', or 'late'."""
    kind = frame.time.type
    returns = T.StructType().add("verdict", T.ByteType()).add("start", kind).add("end", kind)
    time = F.when(takes_part, frame.time.column)
    columns = [time, clock, *map(named, identity)]
    df = kernels.with_column(frame.by_key(identity, frame.sort()), VERDICT, FirstInSession(gap, grace), columns, returns)
    code = F.col(f"{VERDICT}.verdict")
    verdict = F.when(code == LATE, "late").when(~code.isin(OPENED, ASIDE), "duplicate")
    return frame.with_df(df.withColumns({START: F.col(f"{VERDICT}.start"), END: F.col(f"{VERDICT}.end")}).withColumn(VERDICT, verdict))
