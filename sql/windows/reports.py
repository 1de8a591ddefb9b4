"""What became of the input's rows in windows and sessions: taken, or dropped for a reason (rules C6, W1, W3). In batch and on a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import LEFT_OUT
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.typed import microseconds, moment
from streamtime.sql.stream.buckets import STREAM_TIME
from streamtime.sql.stream.plan import KeyState, Needs, judged, verdict
from streamtime.sql.syntax.text import plus, quoted
from streamtime.sql.windows.explain import LATE, explained_sessions, explained_windows, stepped, steps
from streamtime.sql.windows.membership import END, START, clocked, closed, ending, moments, windowed
from streamtime.udfs.closing import of_last_sliding_window, of_time_windows
from streamtime.udfs.sessions.steps import SessionSteps
from streamtime.udfs.windows import FirstInWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

REASONS = (*LEFT_OUT, "late")
REPORTED = {"output": "dropped or all"}  # the state is that of rows, not of what they come to


def time_windows(call: Bound, frame: Frame, names: tuple[str, str]) -> DataFrame:
    """Rows, each once per window that contains it; with `difference` once, with the window that ends at it."""
    takes_part = frame.has_time & frame.has_key
    stream = frame.df.isStreaming
    stream_time = frame.time.name
    if not stream:
        frame, stream_time = clocked(frame, takes_part)
    if call["size"] is not None:
        frame, closing = windowed(frame, takes_part, call["size"], call["slide"] or call["size"]), of_time_windows(call["grace"])
    else:
        frame, closing = ending(frame, call["difference"]), of_last_sliding_window(call["difference"], call["grace"])
    if stream:
        until, kind, ahead = f"{END}_until", moments(frame), 0 if call["size"] is not None else call["difference"] + 1
        frame = frame.with_df(frame.df.withColumn(until, expression(moment(plus(microseconds(quoted(END), kind), ahead), kind))))
        options = {name: call[name] for name in ("size", "slide", "difference", "grace")} | REPORTED
        frame, keys = frame.comparable(frame.keys)
        state = KeyState([*keys, START], options, frame.left_out, LEFT_OUT)
        frame = judged(call, frame, FirstInWindow(call["grace"], duplicates=False), state, Needs(asked=[until], carried=[START, END]))
        return _reported(call, frame, verdict(call), named(STREAM_TIME), names)
    late = closed(frame, stream_time, closing)
    if call["output"] == "explain":
        frame, keys = frame.comparable(frame.keys)
        return explained_windows(call, frame, keys, named(stream_time), late, closing, names)
    reason = F.coalesce(frame.left_out, F.when(late, "late"))
    return _reported(call, frame, reason, named(stream_time), names)


def sessions(call: Bound, frame: Frame, names: tuple[str, str]) -> DataFrame:
    """Rows with their session as it stood right after them, or as it would have been."""
    takes_part, stream = frame.has_time & frame.has_key, frame.df.isStreaming
    frame, name = (frame, STREAM_TIME) if stream else clocked(frame, takes_part)
    stream_time = named(name)
    frame, identity = frame.comparable(frame.keys)
    time, kernel = F.when(takes_part, frame.time.column), SessionSteps(call["gap"], call["grace"])
    if call["output"] == "explain":
        return explained_sessions(call, frame, identity, time, stream_time, call["grace"])
    if stream:
        state = KeyState(identity, {name: call[name] for name in ("gap", "grace")} | REPORTED, frame.left_out, LEFT_OUT)
        frame = judged(call, frame, kernel, state, Needs(results=steps(frame)))
        return _reported(call, frame, verdict(call), stream_time, names)
    frame = stepped(frame, identity, time, stream_time, kernel)
    return _reported(call, frame, F.coalesce(frame.left_out, F.when(named(LATE), "late")), stream_time, names)


def _reported(call: Bound, frame: Frame, reason: Column, stream_time: Column, names: tuple[str, str]) -> DataFrame:
    takes_part = frame.has_time & frame.has_key
    bounds = {name: F.when(takes_part, named(edge)) for name, edge in zip(names, (START, END), strict=True)}
    return outcome(call, frame, reason, stream_time, REASONS, {}, bounds)
