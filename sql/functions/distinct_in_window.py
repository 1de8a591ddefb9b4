"""Keeps the first row of each key in each window of time, such as once per hour, per day or per visit.

## In a picture

```text
size => INTERVAL 10 MINUTES

      10:00                     10:10                     10:20
      |                         |                         |
a     |  o 10:01   x 10:04      |    o 10:12              |      o passes   x dropped: the window has its first row
b     |              o 10:09    |                         |
```

## What it does

The first row of a key in each window passes, with the bounds of the window. Every later one is dropped as `duplicate` (D9). Rows are
taken in the order of `ORDER BY`.

- **Fixed windows**: `size => INTERVAL 1 HOUR`. They begin at 1970-01-01 00:00 UTC and every `size` after it, so hours begin at full
  hours, days at midnight UTC. The start is in the window, `window_end` is not: a row at 11:00:00 is in the window that begins then (W1).
- **Overlapping windows**: `slide => INTERVAL 10 MINUTES` beside `size` begins one every ten minutes. A row lies in several of them, is
  judged in each, and comes back once for each window that it is the first of.
- **Visits**: with `gap => INTERVAL 30 MINUTES` in place of `size`, rows of 10:00, 10:20 and 10:50 are one visit: each follows the one
  before within `gap`, that distance included (W2). The row of 10:00 passes. Its `window_start` and `window_end` are both 10:00: the
  bounds of a visit are those that it has when the row is judged, and a row that passes is the first of its visit. SESSIONIZE gives the
  bounds of the whole visit.
- **When a window closes**: when stream time, the largest event time seen so far, reaches `window_end` plus `grace` (W1). A row for a
  closed window is dropped as `late`. A visit is closed when stream time is past its end plus `gap` plus `grace`; a later row never joins
  it (W3). Without `grace` there is no patience (W7).
- **Two orders**: `ORDER BY ts` takes rows by their time, so none is late. `ORDER BY offset, time => 'ts'` takes them as they arrived.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: dropped as `null_time`. **Null key**: dropped as `null_key` (C12);
  DEDUPLICATE lets such rows pass. Neither moves stream time.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **Late rows** are dropped as `late`. **Empty input** gives an empty result.

## On a stream

The same call works where the table is a stream. One entry for each key and open window, or open visit, is kept in RocksDB until it
closes.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **Compared with batch**: a stream may accept a row that batch calls late, never the reverse. If micro-batches come in the order of
  `ORDER BY`, and rows in that of event time, the results are equal (C5).
- **Errors**: `clock_by`, `output => 'metrics'` (metrics are in `observedMetrics` of the query's progress), keys and ORDER BY columns with
  a collation, columns of year-month intervals, and an option that is not what it was when the checkpoint was made.

Fewer rows than in batch? They came late: a row is late if its window closed before its micro-batch began. `output => 'dropped'` lists
such rows, and `watermark` waits longer. The page of WINDOW_UPDATES says more.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). What passes and what is dropped are together exactly the
input, with overlapping windows once per window (C6). A DATE counts as midnight; the bounds of its windows are TIMESTAMP_NTZ.

## Related functions, and the same thing elsewhere

- DEDUPLICATE begins the span at the kept row, not by the clock. WINDOW_UPDATES gives totals of the same windows. SESSIONIZE keeps every
  row of a visit.
- **Kafka Streams**: what KIP-655 first proposed, and then dropped.
- **Flink SQL**: `ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER BY ts) = 1` over `TABLE(TUMBLE(..))`.
- **Plain Spark**: `row_number() OVER (PARTITION BY k, window(ts, '1 hour') ORDER BY ts) = 1`, which knows no lateness.

## Memory and state

Time windows, and sessions in event-time order, are Spark's own `window` and window functions. Sessions over late rows use a kernel that
keeps the live sessions of one key. Exact stream time, where `time` differs from `ORDER BY`, costs one more shuffle and sort, but for
`rows` of windows that start ten minutes apart or more, without `clock_by`, ordered upwards: there a small table, which says what row
first brought stream time to each close, takes its place. The event time is computed once in event-time order, else twice. Of Parquet or
ORC files, behind nothing but views and comparisons, two columns are read once more, and your own filters move down to them.

On a stream: 24 bytes for each key and open window, 32 for each live session. The rows of a bucket in one micro-batch lie
in a Python worker's memory: `maxFilesPerTrigger` and the like bound it.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Duration
from streamtime.sql.call.spec import COMMON, METRICS, Example, Local, Option, Spec, across_keys_unless_in_time_order
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import LEFT_OUT, PREFIX, prepare
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.scans import chosen, straight_from_files
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.stream.buckets import STREAM_TIME
from streamtime.sql.stream.plan import KeyState, Needs, is_stream, judged, verdict
from streamtime.sql.syntax.text import plus, quoted
from streamtime.sql.udtf import judges
from streamtime.sql.windows.first_reach import in_time
from streamtime.sql.windows.membership import END, START, VERDICT, check_either, check_slide, clocked, closed, in_sessions, windowed
from streamtime.udfs.closing import of_time_windows
from streamtime.udfs.sessions.rules import FirstInSession
from streamtime.udfs.windows import FirstInWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.udfs.state import Transition

BEFORE = f"{PREFIX}before"
REASONS = (*LEFT_OUT, "late", "duplicate")


def check(call: Bound) -> None:
    """Options that do not go together."""
    fix = "Add size => INTERVAL 10 MINUTES, or gap => INTERVAL 30 MINUTES."
    check_either(call, "size", "gap", "`size` (time windows) or `gap` (session windows)", fix)
    check_slide(call, "goes with `size`; sessions do not slide")


def plan(call: Bound) -> DataFrame:
    """DISTINCT_IN_WINDOW as a DataFrame."""
    frame = prepare(call, clock_by=call.clock_by)
    takes_part = frame.has_time & frame.has_key
    if is_stream(call):
        return _streaming(call, frame)
    rows_only = call["output"] == "rows"
    if rows_only and call["size"] is not None and not frame.in_time_order and not call.clock_by:
        again = straight_from_files(frame)
        fresh = in_time(frame, takes_part, call["size"], call["slide"] or call["size"], of_time_windows(call["grace"]), again)
        if fresh is not None:
            fresh, names = fresh.comparable(fresh.keys)
            window = {"window_start": named(START), "window_end": named(END)}
            return outcome(call, _first(fresh, [named(n) for n in names]), named(VERDICT), frame.time.column, REASONS, window, {})
    frame, stream_time = clocked(frame, takes_part)
    if rows_only:
        frame = chosen(frame, takes_part)
    frame, names = frame.comparable(frame.keys)
    identity = [named(n) for n in names]
    if call["size"] is not None:
        frame = _time_windows(call, frame, takes_part, stream_time, identity)
    elif frame.in_time_order and identity:
        frame = _sessions_in_order(call, frame, takes_part, identity)
    else:
        frame = in_sessions(frame, takes_part, named(stream_time), names, call["gap"], call["grace"])
    verdict = named(VERDICT)
    if not rows_only:
        verdict = F.coalesce(frame.left_out, verdict)
    bounds = {"window_start": F.when(takes_part, named(START)), "window_end": F.when(takes_part, named(END))}
    return outcome(call, frame, verdict, named(stream_time), REASONS, bounds, bounds)


def _first(frame: Frame, identity: list[Column]) -> Frame:
    """The first row of each key and window, of rows that came in time."""
    number = F.row_number().over(Window.partitionBy(*identity, named(START)).orderBy(*frame.sort()))
    return frame.with_df(frame.df.withColumn(VERDICT, number).where(named(VERDICT) == 1).withColumn(VERDICT, F.lit(None)))


def _streaming(call: Bound, frame: Frame) -> DataFrame:
    """The first row of a key and window, from micro-batch to micro-batch."""
    frame, identity = frame.comparable(frame.keys)
    takes_part = frame.has_time & frame.has_key
    transition: Transition
    if call["size"] is not None:
        frame = windowed(frame, takes_part, call["size"], call["slide"] or call["size"])
        identity, transition, needs = [*identity, START], FirstInWindow(call["grace"]), Needs(asked=[END], carried=[START])
    else:
        transition = FirstInSession(call["gap"], call["grace"])
        needs = Needs(results=T.StructType().add(START, frame.time.type).add(END, frame.time.type))
    options = {name: call[name] for name in ("size", "slide", "gap", "grace")}
    frame = judged(call, frame, transition, KeyState(identity, options, frame.left_out, LEFT_OUT), needs)
    judged_rows = F.coalesce(~verdict(call).isin("null_time", "null_key"), F.lit(True))
    bounds = {"window_start": F.when(judged_rows, named(START)), "window_end": F.when(judged_rows, named(END))}
    return outcome(call, frame, verdict(call), named(STREAM_TIME), REASONS, bounds, bounds)


def _time_windows(call: Bound, frame: Frame, takes_part: Column, stream_time: str, identity: list[Column]) -> Frame:
    df = windowed(frame, takes_part, call["size"], call["slide"] or call["size"]).df
    late = closed(frame, stream_time, of_time_windows(call["grace"]))
    if call["output"] == "rows":
        return _first(frame.with_df(df.where(~late)), identity)
    number = F.row_number().over(Window.partitionBy(*identity, named(START), takes_part, late).orderBy(*frame.sort()))
    return frame.with_df(df.withColumn(VERDICT, F.when(late, "late").when(number > 1, "duplicate")))


def _sessions_in_order(call: Bound, frame: Frame, takes_part: Column, identity: list[Column]) -> Frame:
    """Nothing is late and nothing merges two sessions: a gap to the row before opens one."""
    apart = [] if call["output"] == "rows" else [takes_part]
    order = Window.partitionBy(*identity, *apart).orderBy(*frame.sort())
    time = frame.time.column
    at, before = (microseconds(quoted(name), frame.time.type) for name in (frame.time.name, BEFORE))
    opened = named(BEFORE).isNull() | expression(f"{at} > {plus(before, call['gap'])}")
    df = frame.df.withColumn(BEFORE, F.lag(time).over(order)).withColumn(START, F.when(opened, time))
    if call["output"] == "rows":
        return frame.with_df(df.where(named(START).isNotNull()).withColumns({END: time, VERDICT: F.lit(None)}))
    verdict = F.when(named(START).isNull(), "duplicate")
    start = F.last(named(START), ignorenulls=True).over(order)
    return frame.with_df(df.withColumns({VERDICT: verdict, END: time}).withColumn(START, start))


SPEC = Spec(
    name="DISTINCT_IN_WINDOW",
    summary="Keeps the first row of each key in each window of time, such as once per hour, per day or per visit.",
    rules="C1-C9, C11, C12, D9, W1-W3, W7 (KIP-655, its dropped alternative)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_unless_in_time_order,
    local=Local(
        judges.distinct_in_window, details=("window_start", "window_end"), adds=("window_start", "window_end"), without_key="null_key"
    ),
    check=check,
    options=(
        Option("size", Duration(positive=True), "the length of a time window; this or `gap` must be given", default_text="none"),
        Option(
            "slide", Duration(positive=True), "how far apart windows start, at most `size`", default_text="`size`: windows do not overlap"
        ),
        Option("gap", Duration(), "the longest pause within a visit, included; in place of `size`", default_text="none: time windows"),
        Option(
            "grace",
            Duration(),
            "how long past its end a window still accepts rows; a visit, past its end and `gap`",
            default=0,
            default_text="INTERVAL 0 SECONDS",
        ),
        *COMMON,
    ),
    clauses={
        "PARTITION BY sensor": "the key: each one passes once per window",
        "ORDER BY ts": "the order in which rows are looked at, which says what the first one is",
    },
    main={
        "size": "INTERVAL 1 HOUR",
        "grace": "INTERVAL 5 MINUTES",
        "output": "'dropped'",
    },
    adds={
        "'rows'": "`window_start`, `window_end` (type of the event time; TIMESTAMP_NTZ where that is DATE and `size` is given)",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `null_key`, `late`, `duplicate`; null: passed), `stream_time` (type of the "
        "event time), `lateness` DOUBLE (seconds), `window_start`, `window_end`",
        "'metrics'": METRICS,
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
            "By visits that end after a pause of five minutes, what was dropped:",
        ),
    ),
)
