"""What became of the input's rows in windows and sessions: taken, or dropped for a reason (rules C6, W1, W3). In batch and on a stream."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.buckets import CLOCK
from streamtime.sql.columns import named
from streamtime.sql.explain import LATE, explained_sessions, explained_windows, stepped, steps
from streamtime.sql.outcome import outcome
from streamtime.sql.streaming import judged, verdict
from streamtime.sql.windows import END, START, clocked, closed, moments, windowed
from streamtime.udfs.session_steps import SessionSteps
from streamtime.udfs.windows import FirstInWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call import Bound
    from streamtime.sql.frame import Frame

REASONS = ("null_time", "null_key", "late")


def time_windows(call: Bound, frame: Frame, names: tuple[str, str]) -> DataFrame:
    """Rows, each once per window that contains it; with `difference` once, with the window that ends at it."""
    takes_part = frame.has_time & frame.has_key
    stream = frame.df.isStreaming
    clock = frame.time.column
    if not stream:
        frame, clock = clocked(frame, takes_part)
    if call["size"] is not None:
        frame, lasts = windowed(frame, takes_part, call["size"], call["slide"] or call["size"]), 0
    else:  # a row is late when the last window that could hold it is closed
        kind, lasts = moments(frame), call["difference"] + 1
        end = frame.time.column.cast(kind)
        frame = frame.with_df(frame.df.withColumns({END: end, START: end - F.lit(datetime.timedelta(microseconds=call["difference"]))}))
    if stream:
        until = f"{END}_until"
        frame = frame.with_df(frame.df.withColumn(until, named(END) + F.lit(datetime.timedelta(microseconds=lasts))))
        options = {name: call[name] for name in ("size", "slide", "difference", "grace")}
        identity = [*(k.column for k in frame.keys), named(START)]
        frame = judged(
            call, frame, FirstInWindow(call["grace"], duplicates=False), identity, aside=frame.left_out, reasons=REASONS, asked=[until],
            carried=[START, END], results=T.StructType(), options=options,
        )  # fmt: skip
        return _reported(call, frame, verdict(call), named(CLOCK), names)
    late = closed(frame, clock, call["grace"] + lasts)
    if call["output"] == "explain":
        frame, keys = frame.comparable(frame.keys)
        return explained_windows(call, frame, keys, clock, late, call["grace"] + lasts, names)
    reason = F.coalesce(frame.left_out, F.when(late, "late"))
    return _reported(call, frame, reason, clock, names)


def sessions(call: Bound, frame: Frame, names: tuple[str, str]) -> DataFrame:
    """Rows with their session as it stood right after them, or as it would have been."""
    takes_part, clock, stream = frame.has_time & frame.has_key, named(CLOCK), frame.df.isStreaming
    if not stream:
        frame, clock = clocked(frame, takes_part)
    frame, identity = frame.comparable(frame.keys)
    time, kernel = F.when(takes_part, frame.time.column), SessionSteps(call["gap"], call["grace"])
    if call["output"] == "explain":
        return explained_sessions(call, frame, identity, time, clock, call["grace"])
    if stream:
        frame = judged(
            call, frame, kernel, [named(i) for i in identity], aside=frame.left_out, reasons=REASONS, results=steps(frame),
            options={name: call[name] for name in ("gap", "grace")},
        )  # fmt: skip
        return _reported(call, frame, verdict(call), clock, names)
    frame = stepped(frame, identity, time, clock, kernel)
    return _reported(call, frame, F.coalesce(frame.left_out, F.when(named(LATE), "late")), clock, names)


def _reported(call: Bound, frame: Frame, reason: Column, clock: Column, names: tuple[str, str]) -> DataFrame:
    takes_part = frame.has_time & frame.has_key
    bounds = {name: F.when(takes_part, named(edge)) for name, edge in zip(names, (START, END), strict=True)}
    return outcome(call, frame, reason, clock, REASONS, {}, bounds)
