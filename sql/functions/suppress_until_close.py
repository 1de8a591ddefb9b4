"""Lets one final result per key and window through, when the window closes.

## Semantics

- **S1** The input is a changelog: a row replaces the held row of its key, which is the `PARTITION BY`: key and window together.
  `deleted` marks tombstones; without it they are the rows whose `change_type`, or Delta's `_change_type`, is `'delete'`. Delta's
  `update_preimage` rows are no changes and are left out before anything else (C10).
- **S2** The held row comes out when stream time reaches its close: the column `window_close` of the input, or `window_end` + `grace`, or,
  with `gap`, one microsecond after `window_end` + `gap` + `grace` (sessions, whose end is inclusive). The close of the newest held row
  counts. A tombstone is dropped when its time comes. Nothing ever comes out early: `when_full` is `'fail'` or `'spill'`.
  Kafka's own suppress lets sessions and sliding windows out one instant earlier, while they can still change, and may then send a second
  "final" result; this function does not.
- **S4** A row keeps its own time, which is that of the newest change: neither stream time nor the window's end. `emit_time` is the stream
  time that released it.
- **S5** Of rows that come out together, the one that closed first comes first; then they come in the order of their keys.
- **S6** The buffer has no bound unless given; full is `count > max_records` or `bytes > max_bytes`, once per row, after what is due has
  come out. `'fail'` ends the query with an error that names the bound; `'spill'` keeps rows beyond it in files.
- **S7** Nothing is dropped as late: a change to a window that is closed comes out at once. So "one" holds iff the window function had no
  larger grace. Where the input carries `window_close` with the grace that made it, a smaller `grace` is refused.
- **S9** A versioned table is refused (V9).

The order of steps is Kafka's: a row moves stream time, then replaces the held row of its key, then what is due comes out. A row that
arrives in the very step in which its predecessor was due replaces it.

Stream time runs over all rows, or separately per value of `clock_by`, each with a buffer of its own. Event time is the first `ORDER BY`
expression unless `time` names another: `ORDER BY (offset, change_seq), time => 'change_time'` replays a changelog as it came.

## Nulls, ties, late rows, empty input

A row with a null time, a null first `ORDER BY` value or a null close is dropped as `null_time` (C12). A null key is a key like any other.
Ties in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4). Late rows: S7. Empty input gives empty
output. At the end of the input a window that is not closed is not final: its row is kept back, and reported as `held`; `at_end => 'emit'`
lets it out with `emit_reason` `end` (C7).

## On a stream

The same call over a streaming input holds rows in RocksDB until they are due. Stream time is the watermark under which a micro-batch runs
(C3): `watermark` sets its delay; without it the input's own counts, else one without delay. What the watermark has made due comes out
first, by timer, whether or not its keys see rows; then the micro-batch's rows come in processing order, and a row whose window is closed
comes out at once. Batch and stream give equal final results however the input is cut into micro-batches, if no row is later than `grace`,
once the watermark has passed (C5). `clock => 'wall'` takes the time of day as stream time instead, so that an idle stream releases its
last rows too; event time must then be a TIMESTAMP. `emit_time` is that stream time, and the column that carries the watermark for what
follows: the rows' own times may lie behind it (S8). `clock_by`, `at_end => 'emit'`, `output => 'metrics'` and `'explain'`, keys with a
collation and columns of year-month intervals are errors. `when_full => 'fail'` bring all keys into one bucket, which one task works on;
with `'spill'` the state store holds the rows, on disk, whatever the bound. Metrics are in `observedMetrics` of the query's progress:
drops, `suppression_emit_total`, `suppression_overtime_avg` and `_min`, and how many rows entered and left the buffer
(`suppression_buffer_entered_total`, `_left_total`), whose difference over all micro-batches is what it holds. An option changed on an old
checkpoint is an error that names it. Keys are told apart, whoever chose them.

With `clock => 'wall'` stream time never goes back: where the clock is set back, or another machine's is slower, stream time stays where it
was until the clock gets there again, and what is due by then comes out at once. Each bucket of keys keeps the latest time that it saw.
Such a query never ends by itself, since time always passes: start it with a trigger of processing time, not `availableNow`.

## Guarantees

One row for each key and window that closed, if S7 holds and the newest change is not a deletion. The result is a function of the set of
input rows (C4). `rows` and `dropped` together are exactly the input (C6). `emit_time` says in
which order rows were released; those of one buffer also come out in it, and no table promises more.

## State and memory

**Spread, from 16 tasks on.** Where `spark.sql.shuffle.partitions` is set to 16 or more, or nobody set it and Spark has 16 cores or more, no
task sees all rows: one shuffle puts stream time beside each row, one brings the rows of each key together, one finds the moment at which
each came out. The input is computed twice. With fewer tasks one buffer is faster (two to four times on two cores), and the input is
computed once. Set it to 8 or to 200 to choose.

**One buffer.** The rows of a clock go through one task with fewer tasks; with `max_records` or `max_bytes`, since these bound one
buffer; with `clock_by` (clocks then run side by side); for `'metrics'` and `'explain'`, which ask how full it was and which row released
which; and where the first `ORDER BY` expression is no number, date or time. Rows are sorted where they are, in runs, which that task merges
(with `clock_by` Spark sorts them); they pass through a kernel which holds, beside 64 bytes of numbers for each row in the buffer, the rows
themselves. Rows are decided some hundred thousand at a time; other threads of that worker merge what comes next and gather what comes out.
`max_records` with `when_full => 'spill'` bounds what lies in memory. Columns that have no Arrow form
(year-month intervals) are refused.

On a stream: 48 bytes for each held row beside the row itself, in 128 buckets, rewritten a logarithmic number of times. The rows of a
bucket in one micro-batch lie in a Python worker's memory: `maxFilesPerTrigger` and the like bound it.

A key is kept as two numbers: its own value where it is one or two integers, times or booleans, else what a secret of the state makes of
its SHA-256. Nobody who chooses keys can make two of them equal. Many of one bucket can be chosen, which costs time and memory only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration, Text
from streamtime.sql.call.spec import (
    FOLLOWS_CLOCK,
    Example,
    Local,
    Option,
    Spec,
)
from streamtime.sql.rows.changelog import DELETED
from streamtime.sql.suppress.batch import (
    ADDS,
    CLOCK,
    COMMON,
    EMITTED,
    FULL_HELP,
    MAX_BYTES,
    MAX_RECORDS,
    check_common,
    closing,
    planned,
    prepared,
)
from streamtime.sql.udtf import judges
from streamtime.sql.windows.changes import CLOSE
from streamtime.udfs.suppress.until import Suppression, Until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound


FUNCTION = Suppression(closes=True, early=False, at_end="hold", pinned=("window_end", "clock", "grace", "gap", "deleted"))


def check(call: Bound) -> None:
    """Options that do not go together."""
    check_common(FUNCTION, call)
    if call["when_full"] == "emit_early":
        problem = "'emit_early' is not possible: a result that comes out before its window closes is not final (S2)"
        raise call.refuse("`when_full`", problem, "Use 'fail' or 'spill', or SUPPRESS_UNTIL_TIME_LIMIT.")
    for option in ("grace", "gap"):
        if call[option] is not None and call["window_end"] is None:
            fix = f"Add window_end => 'window_end', or leave {option} out where the input has a column `{CLOSE}`."
            raise call.refuse(f"`{option}`", "needs `window_end`, to which it is added", fix)


def plan(call: Bound) -> DataFrame:
    """SUPPRESS_UNTIL_CLOSE as a DataFrame."""
    given, after = closing(call, call.tables[0].df.schema)
    frame = prepared(call, window_end=given)
    (close,) = frame.extras["window_end"]
    moments = type(frame.time.type), T.TimestampNTZType if isinstance(frame.time.type, T.DateType) else type(frame.time.type)
    if not isinstance(close.type, moments):
        kind, wanted = (t.simpleString().upper() for t in (close.type, frame.time.type))
        role = "`window_end`" if call["window_end"] is not None else f"`{CLOSE}`"
        raise call.refuse(role, f"expected {wanted}, the type of the event time, got {kind} (`{close.text}`)", "Cast one of them.")
    return planned(FUNCTION, call, frame, Until(close=close.name, after=after))


SPEC = Spec(
    name="SUPPRESS_UNTIL_CLOSE",
    summary="Lets one final result per key and window through, when the window closes.",
    rules="C1-C12, S1, S2, S4-S11, W6 (KIP-328)",
    page=__doc__,
    plan=plan,
    apart=lambda _given, _in_time_order: FOLLOWS_CLOCK,
    local=Local(partial(judges.changes, FUNCTION), details=(), adds=EMITTED, of_all=EMITTED, changes=True, suppression=FUNCTION),
    check=check,
    options=(
        Option("window_end", Text(), "the end of a row's window", default_text="none: the column `window_close` says when it closes"),
        Option("grace", Duration(), "how long past its end a window still accepts rows", default_text="INTERVAL 0 SECONDS"),
        Option("gap", Duration(), "for sessions: the largest distance between neighbours in one", default_text="none: time windows"),
        DELETED,
        MAX_RECORDS,
        MAX_BYTES,
        Option(
            "when_full",
            Choice(words=("fail", "spill", "emit_early")),
            f"{FULL_HELP}: 'fail', or 'spill' to files ('emit_early' is refused here)",
            default_text="none",
        ),
        Option(
            "at_end",
            Choice(words=("hold", "emit")),
            "in batch, what happens at the end of the input to rows that are still held",
            default_text="'hold'",
        ),
        CLOCK,
        *COMMON,
    ),
    adds={k: v.format("`close`, `end`" if k == "'rows'" else "`null_time`, `replaced`, `tombstone`, `held`") for k, v in ADDS.items()},
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW counts AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', 1, TIMESTAMP '2024-05-01 10:01:00'),\n"
            "  (2, 'ann', TIMESTAMP '2024-05-01 10:00:00', 2, TIMESTAMP '2024-05-01 10:04:00'),\n"
            "  (3, 'bob', TIMESTAMP '2024-05-01 10:10:00', 1, TIMESTAMP '2024-05-01 10:11:00'),\n"
            "  (4, 'ann', TIMESTAMP '2024-05-01 10:00:00', 3, TIMESTAMP '2024-05-01 10:09:00'),\n"
            "  (5, 'bob', TIMESTAMP '2024-05-01 10:10:00', 2, TIMESTAMP '2024-05-01 10:13:00')\n"
            "AS counts(offset, user_id, window_start, n, change_time)",
            "SELECT user_id, window_start, n, emit_time, emit_reason\n"
            "FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (user_id, window_start) ORDER BY offset, time => 'change_time',\n"
            "       window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES)",
        ),
        Example(
            "",
            "SELECT offset, outcome, decided_by, explanation\n"
            "FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (user_id, window_start) ORDER BY offset, time => 'change_time',\n"
            "       window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES, output => 'explain')\nORDER BY offset",
        ),
    ),
)
