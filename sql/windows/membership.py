"""Rows in windows and sessions, judged one by one: which are late, which open a window (rules W1 to W3). Bounds are the same on a stream,
where `udfs/windows.py` says which rows are late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain import islands
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import LAST_DAY, event_time, microseconds, moment
from streamtime.sql.syntax.text import HIGHEST, minus, plus, quoted
from streamtime.udfs.sessions.rules import ASIDE, LATE, OPENED, FirstInSession

if TYPE_CHECKING:
    from pyspark.sql import Column

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.udfs.closing import Closing

VERDICT, START, END, AT, INTO = (f"{PREFIX}{name}" for name in ("verdict", "start", "end", "at", "into"))


def check_either(call: Bound, first: str, second: str, between: str, fix: str) -> None:
    """One of two options is given; `between` says what they are, `fix` what to add where neither is."""
    if (call[first] is None) == (call[second] is None):
        came, fix = ("neither", fix) if call[first] is None else ("both", "Leave one out.")
        raise call.refuse(None, f"expected either {between}, got {came}", fix)


def check_slide(call: Bound, without: str) -> None:
    """A slide goes with a size and is no longer; `without` says why there is none without."""
    if call["slide"] is None:
        return
    if call["size"] is None:
        raise call.refuse("`slide`", without, "Leave it out.")
    if call["slide"] > call["size"]:
        fix = "Make it no longer: rows between the windows would be lost."
        raise call.refuse("`slide`", "expected an interval of at most `size`, got a larger one", fix)


def moments(frame: Frame) -> T.DataType:
    """The type of a time window's bounds."""
    return T.TimestampType() if isinstance(frame.time.type, T.TimestampType) else T.TimestampNTZType()


def clocked(frame: Frame, takes_part: Column) -> tuple[Frame, str]:
    """The frame with stream time beside each row, and the column where that stands; rows that take no part do not move it."""
    if frame.in_time_order:
        return frame, frame.time.name
    moves = F.when(takes_part, frame.time.column)
    return with_stream_time(frame, moves, frame.clocks), STREAM_TIME


def windowed(frame: Frame, takes_part: Column, size: int, slide: int) -> Frame:
    """Each row once per window that contains it, with the window's bounds; a row that takes no part once.

    A bound beyond the ends of TIMESTAMP stands there. Of several windows that begin before its first moment there is the last one.
    """
    kind, at, into = moments(frame), quoted(AT), quoted(INTO)
    df = frame.df.withColumn(AT, F.coalesce(F.when(takes_part, expression(_at(frame))), F.lit(0).cast("bigint")))
    room = f"(least({at}, -1L) & {HIGHEST}L)"  # how far the row lies from the first moment, or more than any window is long
    if slide == size:
        df = df.withColumn(INTO, expression(f"pmod({at}, {slide}L)"))
    else:
        every = F.explode(expression(f"sequence(pmod({at}, {slide}L), least({plus(room, slide)}, {size - 1}L), {slide}L)"))
        df = df.withColumn(INTO, every).where(takes_part | (named(INTO) < slide))
    ahead = f"({size}L - {into})"
    start, end = f"{at} - least({into}, {room})", f"least({at}, {HIGHEST}L - {ahead}) + {ahead}"
    return frame.with_df(df.withColumns({START: expression(moment(start, kind)), END: expression(moment(f"({end})", kind))}).drop(AT, INTO))


def ending(frame: Frame, difference: int) -> Frame:
    """Each row with the sliding window that ends at it."""
    kind, at = moments(frame), _at(frame)
    return frame.with_df(
        frame.df.withColumns({END: instant(frame, frame.time.column), START: expression(moment(minus(at, difference), kind))})
    )


def instant(frame: Frame, time: Column) -> Column:
    """An event time as what a bound is. A DATE goes further than any TIMESTAMP, and stands at its end."""
    if isinstance(frame.time.type, T.DateType):
        day = F.greatest(F.least(F.unix_date(time), F.lit(LAST_DAY)), F.lit(-LAST_DAY))
        time = F.when(time.isNotNull(), F.date_from_unix_date(day))
    return time.cast(moments(frame))


def _at(frame: Frame) -> str:
    return microseconds(quoted(frame.time.name), frame.time.type)


def closed(frame: Frame, stream_time: str, closing: Closing) -> Column:
    """Whether a row's window, which ends at `END`, no longer accepts it [W1]."""
    if frame.in_time_order:
        return F.lit(False)
    before = closing.closed_before(microseconds(quoted(stream_time), frame.time.type), plus, minus)
    return named(END) < expression(moment(before, moments(frame)))  # to make numbers of ends again takes long for a TIMESTAMP_NTZ


def close(end: str, closing: Closing, kind: T.DataType) -> Column:
    """When a window is final whose end is this, SQL text for microseconds [W6]."""
    return expression(moment(closing.close(end, plus), kind))


def in_sessions(frame: Frame, takes_part: Column, stream_time: Column, identity: list[str], gap: int, grace: int) -> Frame:
    """Each row with its session's bounds right after it, and in `VERDICT` what it did: null (opened one), 'duplicate', or 'late'."""
    kind = frame.time.type
    if not frame.kernels:
        rows = islands.with_steps(frame, identity, gap, grace).df
        bounds = {edge: expression(event_time(quoted(edge), kind)) for edge in (START, END)}
        did = F.when(named(islands.LATE), "late").when(named(islands.WAS_END).isNotNull(), "duplicate")
        return frame.with_df(rows.withColumns(bounds | {VERDICT: did}))
    returns = T.StructType().add("verdict", T.ByteType()).add("start", kind).add("end", kind)
    time = F.when(takes_part, frame.time.column)
    columns = [time, stream_time, *map(named, identity)]
    df = kernels.with_column(frame.by_key(identity, frame.sort()), VERDICT, FirstInSession(gap, grace), columns, returns)
    code = F.col(f"{VERDICT}.verdict")
    verdict = F.when(code == LATE, "late").when(~code.isin(OPENED, ASIDE), "duplicate")
    return frame.with_df(df.withColumns({START: F.col(f"{VERDICT}.start"), END: F.col(f"{VERDICT}.end")}).withColumn(VERDICT, verdict))
