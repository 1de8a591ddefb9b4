"""Totals per window of time, such as per hour, that stay right when rows come late: as changes, or as final rows.

## In a picture

```text
size => INTERVAL 10 MINUTES, grace => INTERVAL 1 MINUTE

10:00                      10:10   10:11               10:20
|--------- window ---------|~grace~|                             a row of 10:10:00 is in the next one
| ann 10:01, 10:07         |       closed: final, n = 2
                           |------- next window: bob 10:12 ----|
                                                                 x ann 10:08 comes after that of 10:12: late
```

## What it does

Each row belongs to one or more windows. A window adds up its rows with `aggregates`, for each key apart.

- **Tumbling** windows follow each other: `size => INTERVAL 1 HOUR`. They begin at 1970-01-01 00:00 UTC and every `size` after it, so
  hours begin at full hours, days at midnight UTC, and seven days on a Thursday. The start is in the window, `window_end` is not: a row at
  10:10:00 is in the window that begins then (W1).
- **Hopping** windows overlap: `size => INTERVAL 1 HOUR, slide => INTERVAL 10 MINUTES` is the last hour, every ten minutes. A row is
  counted in each window that it lies in.
- **Sliding** windows have `difference` in place of `size`: all rows that lie no more than that apart. Both bounds are in the window. One
  ends at the time of each row. Another begins right after a row, if further rows lie in it (W5).
- **Changes or final rows**: with `emit => 'updates'`, each row gives a change for each of its windows: the totals so far. The newest
  change of a window replaces the ones before it. With `emit => 'final'` there is one row for each window, once it is closed (W6).
- **When a window closes**: when stream time reaches `window_end` plus `grace` (W1, W7). Stream time is the largest event time seen so
  far, in rows of any key. A row for a window that is closed is late, and not counted. Without `grace` a window closes at its end. A
  sliding window, whose end is part of it, closes one microsecond later. The column `window_close` says when.
- **The end of the input**: windows that are still open are not final, and `emit => 'final'` holds them back. `at_end => 'emit'` lets them
  out, with `emit_reason` `end` (C7).
- **Aggregates** are written as in SQL: `count(*)`, `count`, `sum`, `min`, `max`, `avg`, `first`, `last`, `collect_list`, each over one
  expression and with `AS` and a name. Types are those of Spark. `first`, `last` and `collect_list` go by event time; of equal times, by
  processing order. `collect_list` leaves nulls out, `first` and `last` do not. A sum that does not fit its type is an error that says
  what to cast.
- **Two orders**: `ORDER BY ts` takes rows by their time, so none is late. `ORDER BY offset, time => 'ts'` takes them as they arrived, and
  says exactly which ones were late.
- **Changes can be fed** into another function, with `ORDER BY (offset, change_seq), time => 'change_time'` (C10). `change_time` is the
  largest event time in the window so far. `change_seq` tells apart changes that have the same ORDER BY columns: a row that lies in three
  overlapping windows gives three changes, with 0, 1 and 2. It counts on over all rows of a key that have equal ORDER BY columns; on a
  stream, over those of one micro-batch. A final row has the number of its newest change among those of one input row. Keys and ORDER BY
  must be columns of the input, since the result has them.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: dropped as `null_time`. **Null key**: dropped as `null_key` (C12). Neither
  moves stream time.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **Late rows** are dropped as `late`, once for each closed window, with its bounds. With sliding windows once, if all windows of the row
  are closed.
- **Empty input** gives an empty result. A window without rows has no row: a missing hour is not an hour with zero.

`output => 'dropped'` lists what was not counted. `output => 'all'` has every input row once per window, with the reason if it was
dropped. `output => 'explain'` says of each row that it `opened` a window, `joined` one or was `late`, in a sentence.

## On a stream

The same call works where the table is a stream. The open windows of each key are kept in RocksDB until they close.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **Final rows are those of batch**, however the stream is cut, if no row is later than `grace` and once the watermark has passed the
  window (C5). Sums of DOUBLE can differ in their last digits, as the order of rows does; so can averages of BIGINTs that add up to
  more than 2^53, which a plain GROUP BY (below) gives exactly.
- **What follows** in the same query goes by `emit_time` with `emit => 'final'`, else by `change_time` (S8).
- **Errors**: `clock_by`, `at_end => 'emit'`, `output => 'metrics'` and `'explain'`, keys and ORDER BY columns with a collation.

### Equal numbers in batch and on a stream

Batch sorts the whole input, so with `ORDER BY ts` nothing is late. A stream takes rows as files bring them. A row is late if its window
closed before its micro-batch began. An example: `size` is a minute. One file has rows of 10:00:10 and 10:04:00, the next file one of
10:00:50. Batch counts three rows. The stream counts two: after the first file stream time is 10:04:00, and the minute of 10:00 is closed.

- **Where they are**: the same call with `output => 'dropped'` lists the late rows, with stream time and lateness. `late_drop_total` in
  `observedMetrics` of the query's progress counts them. Run one of these beside the call.
- **Wait longer**: `watermark => INTERVAL 5 MINUTES` closes every window five minutes later. Then the stream counts three. `grace` does
  so, too, and also says in batch what would be late, where `ORDER BY` is the order of arrival. Either must be as long as the largest
  lateness.
- **Read in order**: a stream reads files by the time they were written. With `trigger(availableNow=True)`, and files written in the order
  of event time, no row is late. Nor is one if a single micro-batch has all files, since stream time moves between micro-batches.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). Rows that were counted and rows that were dropped are
together the input (C6). With dates as event time, bounds and `change_time` are TIMESTAMP_NTZ.

## Related functions, and the same thing elsewhere

- SESSION_UPDATES does the same for sessions, which end after a pause. DISTINCT_IN_WINDOW keeps the first row of each window.
- SUPPRESS_UNTIL_CLOSE makes final rows out of any changes; after this function, `emit => 'final'` is shorter.
- **Kafka Streams**: `windowedBy(TimeWindows.ofSizeAndGrace(..)).aggregate(..)`, and `suppress(untilWindowCloses(..))` for final rows.
- **Flink SQL**: `GROUP BY window_start, window_end` over `TABLE(TUMBLE(..))` or `TABLE(HOP(..))`, which drops late rows, and counts them.
- **Plain Spark**: `GROUP BY k, window(ts, '10 minutes')`. In batch it counts every row, however late. On a stream, in append mode, it
  gives final rows. It has no changes and no report of late rows.

## Memory and state

A kernel in Python adds up the open windows of one key at a time, however many rows there are, and whatever one row changes;
`collect_list` keeps its values. Sliding windows take time: a row changes all windows that it lies in, and each is added up anew from the
event times in it. Final rows add up a window once, or a few times.

Final rows in batch are joined with the stream times that let them out. That computes the input twice, as does stream time where `time` is
not what `ORDER BY` begins with. Columns of Parquet or ORC files, behind nothing but views and comparisons, are read once more where that
is less work: in event-time order the times, for when windows close. Where the input is a relation of 1 MB at most, one task finds stream
time, and computes it once.

Final rows of tumbling windows are a plain GROUP BY where that gives the same to the last digit, or an exact average; in event-time order,
that computes its input once ([what it costs](../speed.md#final-windows)). For that, `ORDER BY` must be one column of fixed width (no text,
no DOUBLE), ascending. There must be no `clock_by`. Keys must be no DOUBLEs, arrays or structs. The aggregates must be `count`, `sum` and
`avg` of integers or of DECIMALs of up to 28 digits, or `min` and `max` of what has a fixed width. And rows must come in event-time order,
or windows must be ten minutes long or longer. A sum of DOUBLEs depends on the order of rows, so a kernel adds it up: cast to DECIMAL for
speed.

On a stream: one entry for each key and open window. Sliding windows also keep the totals of each key and event time.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtime.sql.call.kinds import Duration
from streamtime.sql.call.spec import Example, Local, Option, Spec, across_keys_of_updates
from streamtime.sql.udtf import judges
from streamtime.sql.windows import sliding_updates, updates, window_updates
from streamtime.sql.windows.membership import check_either, check_slide
from streamtime.sql.windows.reports import time_windows
from streamtime.sql.windows.updates import check as check_aggregates
from streamtime.udfs.updates.sliding_updates import SlidingUpdates
from streamtime.udfs.updates.updates import ChangeColumns, Updates
from streamtime.udfs.updates.window_updates import WindowUpdates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

BOUNDS = ("window_start", "window_end")


def check(call: Bound) -> None:
    """Options that do not go together."""
    check_aggregates(call)
    fix = "Add size => INTERVAL 10 MINUTES, or difference => INTERVAL 10 MINUTES for sliding windows."
    check_either(call, "size", "difference", "`size` or `difference`", fix)
    check_slide(call, "goes with `size`: windows with a `difference` begin and end where rows are")


def kernel(call: Bound, layout: ChangeColumns) -> Updates:
    """What adds up the windows."""
    if call["size"] is None:
        return SlidingUpdates(layout, call["difference"], call["grace"])
    return WindowUpdates(layout, call["size"], call["slide"] or call["size"], call["grace"])


def plan(call: Bound) -> DataFrame:
    """WINDOW_UPDATES as a DataFrame."""
    plainly = window_updates.plainly if call["size"] is not None else sliding_updates.plainly
    return updates.plan(call, BOUNDS, kernel, time_windows, ("size", "slide", "difference"), plainly)


SPEC = Spec(
    name="WINDOW_UPDATES",
    summary="Totals per window of time, such as per hour, that stay right when rows come late: as changes, or as final rows.",
    rules="C1-C12, W1, W5-W7, S2, S8 (KIP-328)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_of_updates,
    finals=updates.finals,
    local=Local(judges.windows, details=("window_start", "window_end"), updates=kernel, without_key="null_key"),
    check=check,
    options=(
        Option("size", Duration(positive=True), "the length of a window; this or `difference` must be given", default_text="none"),
        Option(
            "slide", Duration(positive=True), "how far apart windows start, at most `size`", default_text="`size`: windows do not overlap"
        ),
        Option(
            "difference",
            Duration(),
            "the largest distance between rows of a sliding window, included; in place of `size`",
            default_text="none: time windows",
        ),
        *updates.OPTIONS,
    ),
    clauses={
        "PARTITION BY customer": "the key: each one has its own totals",
        "ORDER BY ts": "the event time; of rows in order of arrival `ORDER BY offset, time => 'ts'`",
    },
    main={
        "size": "INTERVAL 1 HOUR",
        "aggregates": "'count(*) AS n'",
        "grace": "INTERVAL 5 MINUTES",
        "emit": "'final'",
        "at_end": "'emit'",
    },
    adds=updates.adds(BOUNDS, "'upsert'", "`opened`, `joined`, `late`"),
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:01:00', 20.00), (2, 'ann', TIMESTAMP '2024-05-01 10:07:00', 5.00),\n"
            "  (3, 'bob', TIMESTAMP '2024-05-01 10:12:00', 8.50),\n"
            "  (4, 'ann', TIMESTAMP '2024-05-01 10:08:00', 1.00) AS orders(id, customer, ts, amount)",
            "SELECT customer, window_start, n, total, emit_time, emit_reason\n"
            "FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts',\n"
            "                    size => INTERVAL 10 MINUTES, grace => INTERVAL 1 MINUTE, emit => 'final', at_end => 'emit',\n"
            "                    aggregates => 'count(*) AS n, sum(amount) AS total')\n"
            "ORDER BY customer, window_start",
        ),
        Example(
            "",
            "SELECT id, customer, ts, reason, stream_time\n"
            "FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts',\n"
            "                    size => INTERVAL 10 MINUTES, grace => INTERVAL 1 MINUTE, aggregates => 'count(*) AS n',\n"
            "                    output => 'dropped')",
            "The order with the number 4 came after the window closed, and is not in ann's total. Which rows were not counted, and why:",
        ),
        Example(
            "",
            "SELECT id, customer, window_start, n, total, change_time\n"
            "FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts',\n"
            "                    size => INTERVAL 10 MINUTES, grace => INTERVAL 5 MINUTES,\n"
            "                    aggregates => 'count(*) AS n, sum(amount) AS total')\n"
            "ORDER BY id",
            "With five minutes of grace it is counted. The changes, one for each row:",
        ),
    ),
)
