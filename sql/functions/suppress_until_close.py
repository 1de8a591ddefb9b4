"""Keeps the last change of each key and window only, and lets it out when the window closes.

## In a picture

```text
window_end + grace: 10:10 + 2 minutes

         10:01   10:04        10:09   10:10   10:12   10:13
ann      n = 1   n = 2        n = 3   |grace~~|
         x       x            o.......|.......|.......> comes out: a row of 10:13 has moved stream time past 10:12
         each newer change replaces the one before it
```

## What it does

The input is a list of changes: a row with the key and window of an earlier one replaces it. `PARTITION BY` is that key, and must name
both, such as `PARTITION BY (user_id, window_start)` (S1). Changes are held back until their window closes. Then the newest one comes out,
once.

- **When a window closes** says the column `window_close`, which WINDOW_UPDATES and SESSION_UPDATES give. Other tables say it by
  `window_end`, an expression, and `grace`. For sessions, whose end is part of them, add `gap`: they close one microsecond after
  `window_end` plus `gap` plus `grace` (S2). If changes of one window say different things, the newest counts.
- **Stream time** decides: the largest event time seen so far, in rows of any key. The row that brings it to the close lets the result
  out. `clock_by` runs stream time apart for each value of some columns.
- **A result at once, corrected later**: with `until => 'end'` the count of 10:00 to 10:10 comes out when stream time reaches 10:10. A
  change of it that comes at 10:13 passes as it comes, with 10:13 as `emit_time` (S12). So readers need not wait for `grace`; they take the
  newest row of each key and window. The end is `window_end`, for sessions `gap` and a microsecond later. Deletions that come after the
  end pass, too, whether or not a result came before. One that is held when the end comes is dropped as `tombstone`: there is no result
  yet. `emit_reason` is `window_end` for all that comes out. `grace` is refused: give it to the call that makes the changes. Rows that are
  late there never come here. `window_end` is needed, since `window_close` has the grace in it. What holds back and bounds rows is as
  without it.
- **The result keeps its own time**: that of the newest change. `emit_time` is the stream time that let it out (S4). Of results that come
  out together, the one that closed first is first; then they come by key (S5).
- **Nothing comes out early**: `when_full` can be `'fail'` or `'spill'` only (S6). `max_records` and `max_bytes` bound what is held back:
  it is too much when there are more of them, which is looked at after each row. `'fail'` then ends the query, with an error that names
  the bound. `'spill'` keeps the rest in files.
- **Two final rows of a window**: suppose the call that makes the changes has a `grace` of ten minutes, and this one of two minutes. A
  change that comes five minutes after its window's end finds the final row gone, and comes out at once: nothing is late here (S7). So
  give this call a `grace` that is as large, or larger. Then a window has one final row. Where the input has the `window_close` of what
  made the changes, a smaller `grace` is refused, and so is an end of sessions whose `gap` and `grace` together are shorter.
- **Deletions** are rows that `deleted` marks; without it, those whose `change_type`, or Delta's `_change_type`, is `'delete'`. If the
  newest change is a deletion, it is dropped when its time comes, as `tombstone`. Rows of Delta's `update_preimage` are no changes, and
  are left out first (C10).
- **A versioned table** is refused: its past can change, so nothing of it is ever final (S9, V9).

Use `ORDER BY (offset, change_seq), time => 'change_time'` to take changes as they came. For each row, stream time moves first, then the
row replaces the one that is held, then what is due comes out. So a row that comes in the very step in which its window closes is still
the one that comes out.

## Nulls, ties, late rows, empty input

- **Null time**, null in the first `ORDER BY` expression, or a null close: dropped as `null_time` (C12). **A null key** is a key like any
  other.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **At the end of the input**, a window that is not closed is not final. Its row is kept back, and `output => 'dropped'` has it as `held`.
  `at_end => 'emit'` lets it out, with `emit_reason` `end` (C7).
- **Late rows**: see above (S7). **Empty input** gives an empty result.

`output => 'explain'` says of each row what became of it, when, and in `decided_by` which row's coming decided that.

## On a stream

The same call works where the table is a stream. Rows are held in RocksDB until they are due. What the watermark has made due comes out
first, whether or not new rows of its key come. Then the rows of the micro-batch are taken in their order.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **Final rows are those of batch**, if micro-batches arrive in processing order and no row is later than `grace`, once the watermark has
  passed (C5). `ORDER BY` decides within a micro-batch. Of two micro-batches, the later row of a key replaces the earlier one.
  With `until => 'end'` that is the last row of each key and window. The watermark lags behind, so fewer corrections come on their own;
  where the newest change is a deletion, the stream may have no row of that window, and batch a row and its deletion.
- **An idle stream** does not move stream time, so its last rows wait. `clock => 'wall'` takes the time of day as stream time instead
  (S10). Event time must then be a TIMESTAMP. Such a query never ends by itself: start it with a trigger of processing time, not
  `availableNow`. If the clock is set back, stream time stays where it was until the clock gets there again. Each bucket of keys remembers
  the latest time that it saw.
- **What follows** in the same query goes by `emit_time`: the rows' own times may lie behind the watermark (S8). While there is no
  watermark yet, it is the row's own time.
- **Bounds**: `when_full => 'fail'` brings all keys into one bucket, which one task works on. With `'spill'` the state holds the rows, on
  disk, whatever the bound.
- **Metrics** are in `observedMetrics` of the query's progress: drops, `suppression_emit_total`, `suppression_overtime_avg` and `_min`,
  and how many rows came into the buffer and left it (`suppression_buffer_entered_total`, `_left_total`). Their difference over all
  micro-batches is what it holds. A call that is planned [as one](#memory-and-state) with WINDOW_UPDATES shows the metrics of that call
  alone. With a `name` it has a buffer, and these.
- **Errors**: `clock_by`, `at_end => 'emit'`, `output => 'metrics'` and `'explain'`, keys and ORDER BY columns with a collation, columns
  of year-month intervals, and an option that is not what it was when the checkpoint was made.

## Guarantees

Each key and window that closed has one row. It has none if its newest change was a deletion. It has several if changes came after the
close (S7), and may have with `until => 'end'` (S12): then the newest counts. The result depends on the rows alone (C4). What comes out and
what is dropped are together exactly the input (C6). `emit_time` says in which order rows came out; those of one buffer also come in it, and
no table promises more.

## Related functions, and the same thing elsewhere

- WINDOW_UPDATES and SESSION_UPDATES with `emit => 'final'` do both in one call: you need this function after something else that makes
  changes.
- SUPPRESS_UNTIL_TIME_LIMIT lets the newest change through every so often, without waiting for a window.
- **Kafka Streams**: `suppress(Suppressed.untilWindowCloses(..))`. It lets sessions and sliding windows out one instant early, while they
  can still change, and may then send a second final result. This function does not.
- **Flink SQL**: window aggregates give final rows only; there is nothing that makes them of changes.
- **Plain Spark**: a window aggregate in append mode. For changes, `max_by(struct(*), change_time)` per key and window, without a notion
  of closed.

## Memory and state

**One with the call that makes the changes.** A call over `TABLE(SELECT * FROM WINDOW_UPDATES(..))` is planned with it as one: no change is
made that a newer one replaces, and no buffer holds any ([times](../speed.md#final-windows)). That is done where the rows are the same:

- WINDOW_UPDATES has `size`, no `clock_by` and no `output`; in batch, `ORDER BY` the event time;
- all of its changes come here: no WHERE, WITH or view stands between. Columns may be left out, if the statement does not go through
  `streamtime.query`;
- `PARTITION BY` has its keys and `window_start`, `ORDER BY` its columns and `change_seq`, `time` is `'change_time'`. Neither has a column
  with the name of one that the calls add, and `ORDER BY` none that is a FLOAT or DOUBLE or has a collation;
- no option of this call changes what comes out or when, but `at_end`;
- on a stream, this call has no `name`: the metrics of the buffer are then asked for, and only a buffer has them;
- in batch, WINDOW_UPDATES reads Parquet or ORC files, as they are or by `SELECT` and comparisons; or its windows do not overlap, it has one
  `ORDER BY` column, and its totals are the same in any order to the last digit: `count`, `sum` of integers and of decimals up to 28 digits,
  `min` and `max` of these, of times and BOOLEAN. Elsewhere the input would be computed twice.

In batch, `change_seq` is the dearest of the columns where totals are such: to number rows of one time, the rows of a key and window go to
one task, where else they are added up before. A query whose SELECT does not name it is faster. On a stream there is one state in place of
two. The two plans cannot read each other's checkpoints.

**Spread, from 16 tasks on.** Where `spark.sql.shuffle.partitions` is set to 16 or more, or nobody set it and Spark has 16 cores or more,
no task sees all rows: one shuffle puts stream time beside each row, one brings the rows of each key together, one finds the moment at
which each came out. The input is computed twice, what `ORDER BY` says three times. With fewer tasks one buffer is faster (two to four
times on two cores), and the input is computed once. Set it to 8 or to 200 to choose.

**One buffer.** The rows of a clock go through one task with fewer tasks; with `max_records` or `max_bytes`, since these bound one buffer;
with `clock_by` (clocks then run side by side); for `'metrics'`, which ask how full it was; and where the first `ORDER BY`
expression is no number, date or time. Rows are sorted where they are, in runs, which that task merges
(with `clock_by` Spark sorts them); they pass through a kernel which holds, beside 64 bytes of numbers for each row in the buffer, the
rows themselves. Rows are decided some hundred thousand at a time; other threads of that worker merge what comes next and gather what
comes out. `max_records` with `when_full => 'spill'` bounds what lies in memory. Columns that have no Arrow form (year-month intervals)
are refused.

On a stream: 48 bytes for each held row beside the row itself, rewritten a logarithmic number of times. The rows of a
bucket in one micro-batch lie in a Python worker's memory: `maxFilesPerTrigger` and the like bound it.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration, Text
from streamtime.sql.call.spec import CLOCK, FOLLOWS_CLOCK, Example, Local, Option, Spec
from streamtime.sql.rows.changelog import DELETED
from streamtime.sql.suppress.batch import (
    ADDS,
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
from streamtime.sql.suppress.in_one import in_one
from streamtime.sql.udtf import judges
from streamtime.sql.windows.updates import CLOSE
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
    if call["until"] == "end" and call["window_end"] is None:
        problem = f"'end' needs `window_end`: `{CLOSE}` has the grace in it, for which nothing waits (S12)"
        without = "" if call["grace"] is None else ", and leave grace out"
        raise call.refuse("`until`", problem, f"Add window_end => 'window_end' (for sessions also their gap){without}.")
    if call["until"] == "end" and call["grace"] is not None:
        problem = "does not go with until => 'end': nothing waits for it; what makes the changes says how long corrections come (S12)"
        raise call.refuse("`grace`", problem, "Leave one out.")
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
    until = Until(close=close.name, after=after, corrected=call["until"] == "end")
    finals = in_one(FUNCTION, call, frame, until)
    return planned(FUNCTION, call, frame, until) if finals is None else finals


SPEC = Spec(
    name="SUPPRESS_UNTIL_CLOSE",
    summary="Keeps the last change of each key and window only, and lets it out when the window closes.",
    rules="C1-C12, S1, S2, S4-S12, V9, W6 (KIP-328)",
    page=__doc__,
    plan=plan,
    across_keys=lambda _given, _in_time_order: FOLLOWS_CLOCK,
    local=Local(
        partial(judges.changes, FUNCTION),
        details=(),
        adds=EMITTED,
        of_all=EMITTED,
        texts=("emit_reason",),
        changes=True,
        suppression=FUNCTION,
    ),
    check=check,
    options=(
        Option("window_end", Text(), "the end of a row's window", default_text="none: the column `window_close` says when it closes"),
        Option("grace", Duration(), "how long past its end a window still accepts rows", default_text="INTERVAL 0 SECONDS"),
        Option(
            "until",
            Choice(words=("close", "end")),
            "what lets the first result out: 'close', after which there is none, or 'end': then each correction passes as it comes",
            default="close",
            default_text="'close'",
        ),
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
    clauses={
        "PARTITION BY (user_id, window_start)": "key and window together",
        "ORDER BY (offset, change_seq)": "the order in which changes came",
    },
    main={
        "window_end": "'window_end'",
        "grace": "INTERVAL 5 MINUTES",
        "time": "'change_time'",
        "at_end": "'emit'",
    },
    adds={
        k: v.format(
            "`close`, `end`; with until => 'end' `window_end`, `end`" if k == "'rows'" else "`null_time`, `replaced`, `tombstone`, `held`"
        )
        for k, v in ADDS.items()
    },
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
            "SELECT offset, user_id, n, emit_time, emit_reason\n"
            "FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (user_id, window_start) ORDER BY offset, time => 'change_time',\n"
            "       window_end => 'window_start + INTERVAL 5 MINUTES', until => 'end')\n"
            "ORDER BY offset",
            "A first result when a window of five minutes ends, and its corrections as they come:",
        ),
        Example(
            "",
            "SELECT offset, outcome, decided_by, explanation\n"
            "FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (user_id, window_start) ORDER BY offset, time => 'change_time',\n"
            "       window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES, output => 'explain')\n"
            "ORDER BY offset",
            "What became of each change, and which row decided it:",
        ),
    ),
)
