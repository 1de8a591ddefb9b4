"""Aggregates over tumbling, hopping or sliding windows: a change for each row, or one final row for each window.

## Semantics

- **W1** `size` gives tumbling windows `[window_start, window_end)`, aligned to the epoch; with `slide` they are hopping. A window accepts
  a row iff `window_end > stream time - grace`; at `stream time = window_end + grace` it is closed. A row in several hopping windows is
  judged, and counted, in each.
- **W5** Each row gives one upsert for every open window that it lies in: the aggregates over the window's rows so far. `change_time` is
  the largest event time in the window so far. `difference` in place of `size` gives sliding windows, both bounds inclusive: one ends at
  each row's event time, one begins one microsecond after it if rows lie in it. They are closed iff `window_end < stream time - grace`. A
  row also calls into being the sliding window that begins right after it, which is then an upsert, too.
- **Aggregates** are SQL text: `count(*)`, `count`, `sum`, `min`, `max`, `avg`, `first`, `last`, `collect_list`, each of one expression
  over the input and with AS and a name. Types are those of Spark. `first`, `last` and `collect_list` go by event time, ties by processing
  order; `collect_list` leaves nulls out, `first` and `last` do not. A sum that does not fit fails with what to cast.
- **W6** `window_close` is the first instant at which the result is final: `window_end + grace`; of a sliding window one microsecond
  later. `emit => 'final'` gives one row for each window when stream time reaches it, as SUPPRESS_UNTIL_CLOSE would from the changes:
  `emit_time` is the stream time that released it. Windows still open at the end of a batch are held back, or leave with `emit_reason`
  'end' where `at_end => 'emit'` (C7).
- **W7** `grace` omitted is no grace at all: the `late` report says what it costs.
- **C10** The result has the keys, `clock_by` and ORDER BY columns of the row that caused the change, the bounds, the aggregates,
  `window_close`, `change_type`, `change_time`, `change_seq`. The latter counts the changes of one key that share the ORDER BY columns,
  from 0; on a stream, those of one micro-batch; in final rows, those of one input row. Keys and ORDER BY must be columns of the input.

Event time is the first `ORDER BY` expression unless `time` names another: `ORDER BY ts` says that rows are in event-time order, and
nothing is late.

## Nulls, ties, late rows, empty input

A row with a null time or a null first `ORDER BY` value is dropped as `null_time`, one with a null key as `null_key` (C12); neither moves
stream time. Ties in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4). A row is `late` once per
closed window, with its bounds; in sliding windows once, when all of its windows are closed. Empty input gives empty output.

`output => 'all'` has every input row once per window, `reason` null where the window took it. `output => 'explain'` says what each row
did: `opened` a window, `joined` one, or was `late`.

## On a stream

The same call over a streaming input keeps each key's open windows in RocksDB until they close. Stream time is the watermark under which a
micro-batch runs (C3): `watermark` sets its delay; without it the input's own counts, else one without delay. Final results are equal
however the input is cut into micro-batches, if no row is later than `grace`, once the watermark has passed (C5); sums of DOUBLE may
differ in their last digits, as the order of rows does. `clock_by`, `at_end => 'emit'`, `output => 'metrics'` or `'explain'`, and keys
with a collation are errors. With `emit => 'final'`, `emit_time` is the column that a following stateful function or window sees (S8);
else it is `change_time`.

## Equal numbers in batch and on a stream

Batch sorts the whole input, so with `ORDER BY ts` nothing is late. A stream takes rows as files bring them: a row is late where its window
closed before its micro-batch began. One file has rows of 10:00:10 and 10:04:00, the next one of 10:00:50, and `size` is a minute: batch
counts three rows, the stream two, since after the first file stream time is 10:04:00. Where such rows are, and how to get equal numbers:

- **Where they are**: the same call with `output => 'dropped'` gives the late rows, with stream time and lateness, `'all'` every row with
  its reason; `late_drop_total` in `observedMetrics` of the query's progress counts them. Run one of these beside the call.
- **Wait longer**: `watermark => INTERVAL 5 MINUTES` closes every window five minutes later; then the stream counts three. `grace` does so
  too, and says in batch what would be late where `ORDER BY` is the order of arrival. Either must be as long as the largest lateness.
- **Read in order**: a stream reads files by the time they were written. With `trigger(availableNow=True)` and files that were written in
  order of event time no row is late; one micro-batch of all files has no late row either, since stream time moves between micro-batches.

## Guarantees

The result is a function of the set of input rows (C4). Late, null and accepted rows together are the input (C6). With dates as event
time, bounds and `change_time` are TIMESTAMP_NTZ.

## State and memory

A kernel adds up the open windows of one key at a time, whatever the number of rows; `collect_list` keeps its values. Final rows in batch
are joined with the stream times that released them. That, or stream time where `time` differs from `ORDER BY`, computes the input twice.

Final rows of tumbling windows are a plain GROUP BY, at its price, where that gives the same to the last digit: `ORDER BY` is one column of
a fixed width (no text, no DOUBLE), upwards; there is no `clock_by`; keys are no DOUBLEs, arrays or structs; aggregates are `count`, `sum`
and `avg` of integers or of DECIMALs of up to 28 digits, `min` and `max` of what has a fixed width; and rows come in event-time order, or
windows are ten minutes long or longer. A sum of DOUBLEs depends on the order of rows, so a kernel adds it up: cast it to DECIMAL for speed.

On a stream, state is one entry for each key and open window, in 128 buckets; sliding windows also keep what rows of one key and event time
come to.

A key is kept as two numbers: its own value where it is one or two integers, times or booleans, else what a secret of the state makes of
its SHA-256. Nobody who chooses keys can make two of them equal. Many of one bucket can be chosen, which costs time and memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtime.sql.call.kinds import Duration
from streamtime.sql.call.spec import (
    Example,
    Local,
    Option,
    Spec,
    apart_of_updates,
)
from streamtime.sql.udtf import judges
from streamtime.sql.windows import changes, window_changes
from streamtime.sql.windows.changes import check as check_aggregates
from streamtime.sql.windows.membership import check_slide
from streamtime.sql.windows.reports import time_windows
from streamtime.udfs.updates.changes import ChangeColumns, Updates
from streamtime.udfs.updates.sliding_updates import SlidingUpdates
from streamtime.udfs.updates.window_updates import WindowUpdates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

BOUNDS = ("window_start", "window_end")


def check(call: Bound) -> None:
    """Options that do not go together."""
    check_aggregates(call)
    size, difference = call["size"], call["difference"]
    if (size is None) == (difference is None):
        came, fix = "both", "Leave one out."
        if size is None:
            came, fix = "neither", "Add size => INTERVAL 10 MINUTES, or difference => INTERVAL 10 MINUTES for sliding windows."
        raise call.refuse(None, f"expected either `size` or `difference`, got {came}", fix)
    check_slide(call, "goes with `size`: windows with a `difference` begin and end where rows are")


def kernel(call: Bound, layout: ChangeColumns) -> Updates:
    """What adds up the windows."""
    if call["size"] is None:
        return SlidingUpdates(layout, call["difference"], call["grace"])
    return WindowUpdates(layout, call["size"], call["slide"] or call["size"], call["grace"])


def plan(call: Bound) -> DataFrame:
    """WINDOW_UPDATES as a DataFrame."""
    return changes.plan(call, BOUNDS, kernel, time_windows, ("size", "slide", "difference"), window_changes.plainly)


SPEC = Spec(
    name="WINDOW_UPDATES",
    summary="Aggregates over tumbling, hopping or sliding windows: a change for each row, or one final row for each window.",
    rules="C1-C12, W1, W5-W7, S2 (KIP-328)",
    page=__doc__,
    plan=plan,
    apart=apart_of_updates,
    local=Local(judges.windows, details=("window_start", "window_end"), updates=kernel, without_key="null_key"),
    check=check,
    options=(
        Option("size", Duration(positive=True), "the length of a window", default_text="none"),
        Option("slide", Duration(positive=True), "how far apart windows start, at most `size`", default_text="size"),
        Option("difference", Duration(), "the largest distance between rows of a sliding window, included", default_text="none"),
        *changes.OPTIONS,
    ),
    adds=changes.adds(BOUNDS, "'upsert'", "`opened`, `joined`, `late`"),
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:01:00', 20.00),\n"
            "  (2, 'ann', TIMESTAMP '2024-05-01 10:07:00', 5.00),\n"
            "  (3, 'bob', TIMESTAMP '2024-05-01 10:12:00', 8.50),\n"
            "  (4, 'ann', TIMESTAMP '2024-05-01 10:08:00', 1.00) AS orders(id, customer, ts, amount)",
            "SELECT id, customer, window_start, n, total, change_time\n"
            "FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts',\n"
            "                    size => INTERVAL 10 MINUTES, grace => INTERVAL 5 MINUTES,\n"
            "                    aggregates => 'count(*) AS n, sum(amount) AS total')\n"
            "ORDER BY id",
        ),
        Example(
            "",
            "SELECT customer, window_start, window_close, n, total, emit_time, emit_reason\n"
            "FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts',\n"
            "                    size => INTERVAL 10 MINUTES, grace => INTERVAL 1 MINUTE, emit => 'final', at_end => 'emit',\n"
            "                    aggregates => 'count(*) AS n, sum(amount) AS total')\n"
            "ORDER BY customer, window_start",
        ),
    ),
)
