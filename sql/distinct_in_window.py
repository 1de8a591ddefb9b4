"""Keeps the first row of each key in each window: tumbling, hopping or session windows.

## Semantics

- **D9** The first row of a key per window passes, with the window's bounds; every later one is dropped as `duplicate`.
  `size` gives tumbling windows, `size` and `slide` hopping ones, `gap` session windows.
- **W1** Windows `[window_start, window_end)` are aligned to the epoch. One accepts a row iff `window_end > stream time - grace`; at
  `stream time = window_end + grace` it is closed. A row in several hopping windows is judged, and returned, once per window.
- **W2** A session holds the rows of a key within `gap` of each other (a distance of exactly `gap` merges). `window_start` and
  `window_end` are its first and last event time, both inclusive, as they stood when the row passed: for a passed row, its own time.
- **W3** With `gap` a row is judged after merging with the live sessions of its key; it is `late` iff the merged end lies before stream
  time - `grace` - `gap`. A closed session is final: a later row never joins it.
- **W7** `grace` omitted is no grace at all.

Event time is the first `ORDER BY` expression unless `time` names another: `ORDER BY ts` says that rows are in event-time order, and
nothing is late.

## Nulls, ties, late rows, empty input

A row with a null time or a null first `ORDER BY` value is dropped as `null_time`, one with a null key as `null_key` (C12: this is a window
function; DEDUPLICATE passes such rows); neither moves stream time. Ties in `ORDER BY` are broken by the remaining columns, left to right,
ascending, nulls first (C4). Late rows are dropped as `late`. Empty input gives empty output.

## Guarantees

The result is a function of the set of input rows (C4). `rows` and `dropped` together are exactly the input, with hopping windows once per
window (C6). DATE counts as midnight; its windows' bounds are TIMESTAMP_NTZ.

## State and memory

Time windows, and sessions in event-time order, are Spark's own `window` and window functions. Sessions over late rows use a kernel that
keeps the live sessions of one key. Exact stream time, where `time` differs from `ORDER BY`, costs one more shuffle and sort.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql import kernels
from streamtime.sql.call import Expression
from streamtime.sql.clock import STREAM_TIME, with_stream_time
from streamtime.sql.columns import named
from streamtime.sql.frame import PREFIX, prepare
from streamtime.sql.outcome import outcome
from streamtime.sql.spec import COMMON, Duration, Example, Option, Spec
from streamtime.udfs.sessions import ASIDE, LATE, OPENED, FirstInSession

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call import Bound
    from streamtime.sql.frame import Frame

VERDICT, START, END = f"{PREFIX}verdict", f"{PREFIX}start", f"{PREFIX}end"
REASONS = ("null_time", "null_key", "late", "duplicate")


def plan(call: Bound) -> DataFrame:
    """DISTINCT_IN_WINDOW as a DataFrame."""
    _check(call)
    frame = prepare(call, clock_by=tuple(Expression.parse(c) for c in call["clock_by"] or ()))
    judged = frame.has_time & frame.has_key
    rows_only = call["output"] == "rows"
    if rows_only:
        frame = frame.with_df(frame.df.where(judged))
    clock = frame.time.column
    if not frame.in_time_order:
        frame = with_stream_time(frame, F.when(judged, frame.time.column), frame.extras.get("clock_by", ()))
        clock = named(STREAM_TIME)
    frame, names = frame.comparable(frame.keys)
    identity = [named(n) for n in names]
    if call["size"] is not None:
        frame = _time_windows(call, frame, judged, clock, identity)
    elif frame.in_time_order and identity:
        frame = _sessions_in_order(call, frame, judged, identity)
    else:
        frame = _sessions(call, frame, judged, clock, identity)
    verdict = named(VERDICT)
    if not rows_only:
        verdict = F.when(~frame.has_time, "null_time").when(~frame.has_key, "null_key").otherwise(verdict)
    bounds = {"window_start": F.when(judged, named(START)), "window_end": F.when(judged, named(END))}
    return outcome(call, frame, verdict, clock, REASONS, bounds, bounds)


def _check(call: Bound) -> None:
    size, slide, gap = call["size"], call["slide"], call["gap"]
    if (size is None) == (gap is None):
        came = "neither" if size is None else "both"
        raise call.refuse(
            None,
            f"expected either `size` (time windows) or `gap` (session windows), got {came}",
            "Add size => INTERVAL 10 MINUTES, or gap => ...",
        )
    if slide is not None and size is None:
        raise call.refuse("`slide`", "goes with `size`; sessions do not slide", "Leave it out.")
    if slide is not None and slide > size:
        raise call.refuse(
            "`slide`",
            "expected an interval of at most `size`, got a larger one",
            "Rows between the windows would be lost.",
        )


def _time_windows(call: Bound, frame: Frame, judged: Column, clock: Column, identity: list[Column]) -> Frame:
    size, slide = (f"{d} microseconds" for d in (call["size"], call["slide"] or call["size"]))
    kind = T.TimestampType() if isinstance(frame.time.type, T.TimestampType) else T.TimestampNTZType()
    epoch = F.timestamp_seconds(F.lit(0)) if isinstance(kind, T.TimestampType) else F.lit("1970-01-01").cast(kind)
    # window() loses rows without a time: they stand in one window of their own, that of the epoch
    moment = F.when(judged, frame.time.column.cast(kind)).otherwise(epoch)
    window = f"{PREFIX}window"
    df = frame.df.withColumn(window, F.window(moment, size, slide))
    df = df.withColumns({START: F.col(f"{window}.start"), END: F.col(f"{window}.end")}).drop(window)
    df = df.where(judged | (named(START) == epoch))
    late = F.lit(False)
    if not frame.in_time_order:
        late = named(END) + F.lit(datetime.timedelta(microseconds=call["grace"])) <= clock.cast(kind)
    if call["output"] == "rows":
        df, apart = df.where(~late), []
    else:
        apart = [judged, late]
    number = F.row_number().over(Window.partitionBy(*identity, named(START), *apart).orderBy(*frame.sort()))
    if call["output"] == "rows":
        return frame.with_df(df.withColumn(VERDICT, number).where(named(VERDICT) == 1).withColumn(VERDICT, F.lit(None)))
    return frame.with_df(df.withColumn(VERDICT, F.when(late, "late").when(number > 1, "duplicate")))


def _sessions_in_order(call: Bound, frame: Frame, judged: Column, identity: list[Column]) -> Frame:
    """Nothing is late and nothing merges two sessions: a gap to the row before opens one."""
    apart = [] if call["output"] == "rows" else [judged]
    order = Window.partitionBy(*identity, *apart).orderBy(*frame.sort())
    time, gap = frame.time.column, F.lit(datetime.timedelta(microseconds=call["gap"]))
    before = F.lag(time).over(order)
    kind = T.TimestampType() if isinstance(frame.time.type, T.TimestampType) else T.TimestampNTZType()
    opened = before.isNull() | (time.cast(kind) > before.cast(kind) + gap)
    df = frame.df.withColumn(START, F.when(opened, time))
    if call["output"] == "rows":
        return frame.with_df(df.where(named(START).isNotNull()).withColumns({END: time, VERDICT: F.lit(None)}))
    verdict = F.when(named(START).isNull(), "duplicate")
    start = F.last(named(START), ignorenulls=True).over(order)
    return frame.with_df(df.withColumns({VERDICT: verdict, END: time}).withColumn(START, start))


def _sessions(call: Bound, frame: Frame, judged: Column, clock: Column, identity: list[Column]) -> Frame:
    kind = frame.time.type
    returns = T.StructType().add("verdict", T.ByteType()).add("start", kind).add("end", kind)
    grouped = frame.df.repartition(*identity) if identity else frame.df.repartition(1)
    kernel = FirstInSession(call["gap"], call["grace"])
    time = F.when(judged, frame.time.column)
    ordered = grouped.sortWithinPartitions(*[i.asc_nulls_first() for i in identity], *frame.sort())
    df = kernels.with_column(ordered, VERDICT, kernel, [time, clock, *identity], returns)
    code = F.col(f"{VERDICT}.verdict")
    verdict = F.when(code == LATE, "late").when(~code.isin(OPENED, ASIDE), "duplicate")
    return frame.with_df(df.withColumns({START: F.col(f"{VERDICT}.start"), END: F.col(f"{VERDICT}.end")}).withColumn(VERDICT, verdict))


SPEC = Spec(
    name="DISTINCT_IN_WINDOW",
    summary="Keeps the first row of each key in each window: tumbling, hopping or session windows.",
    rules="C1-C9, C11, C12, D9, W1-W3, W7 (KIP-655, its dropped alternative)",
    page=__doc__,
    plan=plan,
    options=(
        Option("size", Duration(positive=True), "the length of a time window", default_text="none"),
        Option("slide", Duration(positive=True), "how far apart windows start, at most `size`", default_text="size"),
        Option("gap", Duration(), "the largest distance between neighbours in a session, included", default_text="none"),
        Option(
            "grace",
            Duration(),
            "how long past its end a window still accepts rows",
            default=0,
            default_text="INTERVAL 0 SECONDS",
        ),
        *COMMON,
    ),
    adds={
        "'rows'": "`window_start`, `window_end` (type of the event time; TIMESTAMP_NTZ where that is DATE and `size` is given)",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `null_key`, `late`, `duplicate`; null: passed), `stream_time` (type of the "
        "event time), `lateness` INTERVAL DAY TO SECOND, `window_start`, `window_end`",
        "'metrics'": "`name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns",
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW readings AS SELECT * FROM VALUES\n"
            "  ('a', TIMESTAMP '2024-05-01 10:01:00', 20.5),\n"
            "  ('a', TIMESTAMP '2024-05-01 10:04:00', 20.6),\n"
            "  ('a', TIMESTAMP '2024-05-01 10:12:00', 21.0),\n"
            "  ('b', TIMESTAMP '2024-05-01 10:09:00', 18.2) AS readings(sensor, ts, degrees)",
            "SELECT sensor, ts, window_start, window_end\n"
            "FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY ts, size => INTERVAL 10 MINUTES)\nORDER BY sensor, ts",
        ),
        Example(
            "",
            "SELECT sensor, ts, reason, window_start, window_end\n"
            "FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY ts, gap => INTERVAL 5 MINUTES, output => 'dropped')",
        ),
    ),
)
