"""Lets at most one change per key through in each span of event time: the newest, where a key changes too often.

## In a picture

```text
wait => INTERVAL 5 MINUTES

         10:00   10:02   10:04   10:05   10:06
gold     61.0 -- 61.5 -- 61.2 ---| wait is over: 61.2 comes out with the next row of any key, at 10:06
         the wait runs from the first change; newer ones replace the value and do not restart it
```

## What it does

The input is a list of changes: a row replaces the one of its key that is held, the key being `PARTITION BY` (S1). The first change of a
key begins to wait. Once stream time is `wait` past it, the newest change of the key comes out. The next change begins a new wait (S3).

- **The wait does not restart**: a newer change takes the place of the one that waits, which keeps its turn. So a key that changes all the
  time still comes out every `wait`. `restart_timer => true`, by which it would not, is refused. `wait => INTERVAL 0 SECONDS` lets
  everything through.
- **Stream time** is the largest event time seen so far, in rows of any key: not the time of day. `clock_by` runs it apart for each value
  of some columns, each with a buffer of its own.
- **A row keeps its own time**: that of the newest change. `emit_time` is the stream time that let it out (S4). Of rows that come out
  together, the one that waited longest is first; then they come by key (S5).
- **Bounds**: `max_records` and `max_bytes` bound what is held back (S6). Without `wait` there is no limit of time, and one of these must
  be given. It is too much when there are more of them, which is looked at after each row. `when_full` says what happens then.
  `'emit_early'` lets out what waited longest, until it fits; a row that is larger than the whole buffer goes straight through. `'fail'`
  ends the query, with an error that names the bound. `'spill'` keeps the rest in files, and lets nothing out early.
- **Deletions** come out like any other change. `deleted` marks them, or `change_type`, or Delta's `_change_type`; here the mark makes no
  difference. Rows of Delta's `update_preimage` are no changes, and are left out first (C10).
- **Nothing is late here**: a change that is older than the wait comes out at once, unless its key waits already (S7).
- **A versioned table** is refused, since its past can change (S9, V9).

`ORDER BY offset, time => 'ts'` takes changes as they arrived. For each row, stream time moves first, then the row replaces the one that
is held, then what is due comes out, then what is too much. So a row that comes in the very step in which its key is due is the one that
comes out.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: dropped as `null_time` (C12). **A null key** is a key like any other.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **At the end of the input** what still waits comes out, with `emit_reason` `end`. `at_end => 'hold'` keeps it back, and `output =>
  'dropped'` has it as `held` (C7).
- **Late rows**: see above (S7). **Empty input** gives an empty result.

`output => 'dropped'` has the changes that were `replaced` by newer ones. `output => 'explain'` says of each row what became of it, when,
and in `decided_by` which row's coming decided that.

## On a stream

The same call works where the table is a stream. Rows are held in RocksDB until they are due. What the watermark has made due comes out
first, whether or not new rows of its key come. Then the rows of the micro-batch are taken in their order.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero. `wait => INTERVAL 0 SECONDS` lets
  everything through, however far the watermark is behind.
- **Compared with batch**: the last row of each key is the same, if micro-batches arrive in processing order, and none comes out before its
  wait is over (C5). `ORDER BY` decides within a micro-batch. Of two micro-batches, the later row of a key replaces the earlier one.
- **An idle stream** does not move stream time, so its last rows wait. `clock => 'wall'` takes the time of day as stream time instead
  (S10). Event time must then be a TIMESTAMP. Such a query never ends by itself: start it with a trigger of processing time, not
  `availableNow`. If the clock is set back, stream time stays where it was until the clock gets there again. Each bucket of keys remembers
  the latest time that it saw.
- **What follows** in the same query goes by `emit_time`: the rows' own times may lie behind the watermark (S8). While there is no
  watermark yet, it is the row's own time.
- **Bounds**: `when_full => 'fail'` and `'emit_early'` bring all keys into one bucket, which one task works on. With `'spill'` the state
  holds the rows, on disk, whatever the bound.
- **Metrics** are in `observedMetrics` of the query's progress: drops, `suppression_emit_total`, `suppression_overtime_avg` and `_min`,
  and how many rows came into the buffer and left it (`suppression_buffer_entered_total`, `_left_total`). Their difference over all
  micro-batches is what it holds.
- **Errors**: `clock_by`, `at_end => 'emit'`, `output => 'metrics'` and `'explain'`, keys and ORDER BY columns with a collation, columns
  of year-month intervals, and an option that is not what it was when the checkpoint was made.

## Guarantees

The last row of each key comes out. With `at_end => 'hold'`, and without `'emit_early'`, none does before its wait is over. The result
depends on the rows alone (C4). What comes out and what is dropped are together exactly the input (C6). `emit_time` says in which order
rows came out; those of one buffer also come in it, and no table promises more.

## Related functions, and the same thing elsewhere

- SUPPRESS_UNTIL_CLOSE lets one final row per window through, when the window closes.
- DEDUPLICATE lets the first row of each span through and drops the rest; this lets the newest through at its end.
- **Kafka Streams**: `suppress(Suppressed.untilTimeLimit(..))`. The order of steps is Kafka's. Four tables of examples in KIP-328 restart
  the wait; Kafka's code, and this function, do not.
- **Flink SQL**: nothing of its own; its settings for mini-batches and for late firing come near.
- **Plain Spark**: nothing of its own; a trigger of processing time and `foreachBatch` come near.

## Memory and state

**Spread, from 16 tasks on.** Where `spark.sql.shuffle.partitions` is set to 16 or more, or nobody set it and Spark has 16 cores or more,
no task sees all rows: one shuffle puts stream time beside each row, one brings the rows of each key together, one finds the moment at
which each came out. The input is computed twice, what `ORDER BY` says three times. With fewer tasks one buffer is faster (two to four
times on two cores), and the input is computed once. Set it to 8 or to 200 to choose.

**One buffer.** The rows of a clock go through one task with fewer tasks; with `max_records` or `max_bytes`, since these bound one buffer;
with `clock_by` (clocks then run side by side); for `'metrics'`, which ask how full it was; and where the first `ORDER BY`
expression is no number, date or time. Rows are sorted where they are, in runs, which that task merges
(with `clock_by` Spark sorts them); they pass through a kernel which holds, beside 64 bytes of numbers for each row in the buffer, the
rows themselves. Rows are decided some hundred thousand at a time; other threads of that worker merge what comes next and gather what
comes out. With `'emit_early'` they are decided one by one, some hundred thousand in a second. `max_records` with `when_full => 'spill'`
bounds what lies in memory. Columns that have no Arrow form (year-month intervals) are refused.

On a stream: 48 bytes for each held row beside the row itself, rewritten a logarithmic number of times. The rows of a
bucket in one micro-batch lie in a Python worker's memory: `maxFilesPerTrigger` and the like bound it.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamtime.sql.call.kinds import Choice, Duration, Flag
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
    planned,
    prepared,
)
from streamtime.sql.udtf import judges
from streamtime.udfs.arrays.groups import HIGHEST
from streamtime.udfs.suppress.until import Suppression, Until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound


FUNCTION = Suppression(closes=False, early=True, at_end="emit", pinned=("wait", "clock", "deleted"))


def check(call: Bound) -> None:
    """Options that do not go together."""
    check_common(FUNCTION, call)
    if call["restart_timer"]:
        problem = "a timer that restarts with each change would hold a key back for ever that changes more often than `wait` (S3)"
        raise call.refuse("`restart_timer`", problem, "Leave it out: a key comes out `wait` after its first held change.")
    if call["wait"] is None and call["max_records"] is None and call["max_bytes"] is None:
        raise call.refuse("`wait`", "is required where no bound is given: nothing would ever come out", "Add wait => INTERVAL 5 MINUTES.")


def plan(call: Bound) -> DataFrame:
    """SUPPRESS_UNTIL_TIME_LIMIT as a DataFrame."""
    return planned(FUNCTION, call, prepared(call), Until(wait=HIGHEST if call["wait"] is None else call["wait"]))


SPEC = Spec(
    name="SUPPRESS_UNTIL_TIME_LIMIT",
    summary="Lets at most one change per key through in each span of event time: the newest, where a key changes too often.",
    rules="C1-C12, S1, S3-S10, V9 (KIP-328)",
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
        Option(
            "wait", Duration(), "how long a key waits for further changes, from its first held one", default_text="none: a bound is needed"
        ),
        Option("restart_timer", Flag(), "refused: a wait does not restart", default=False, default_text="false"),
        DELETED,
        MAX_RECORDS,
        MAX_BYTES,
        Option(
            "when_full",
            Choice(words=("emit_early", "fail", "spill")),
            f"{FULL_HELP}: 'emit_early' lets the oldest out, 'fail' ends the query, 'spill' writes to files",
            default_text="none",
        ),
        Option(
            "at_end",
            Choice(words=("emit", "hold")),
            "in batch, what happens at the end of the input to rows that are still held",
            default_text="'emit'",
        ),
        CLOCK,
        *COMMON,
    ),
    clauses={
        "PARTITION BY item": "the key: each one comes out at most once per `wait`",
        "ORDER BY offset": "the order in which changes came",
    },
    main={
        "wait": "INTERVAL 5 MINUTES",
        "time": "'ts'",
    },
    adds={
        k: v.format("`time`, `full`, `end`" if k == "'rows'" else "`null_time`, `replaced`, `held`").replace("`tombstone`, ", "")
        for k, v in ADDS.items()  # deletions pass, so that none is left out as one (S3)
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES\n"
            "  (1, 'gold', 61.0, TIMESTAMP '2024-05-01 10:00:00'),\n"
            "  (2, 'gold', 61.5, TIMESTAMP '2024-05-01 10:02:00'),\n"
            "  (3, 'iron',  7.1, TIMESTAMP '2024-05-01 10:03:00'),\n"
            "  (4, 'gold', 61.2, TIMESTAMP '2024-05-01 10:04:00'),\n"
            "  (5, 'iron',  7.0, TIMESTAMP '2024-05-01 10:06:00')\n"
            "AS prices(offset, item, price, ts)",
            "SELECT item, price, ts, emit_time, emit_reason\n"
            "FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(prices) PARTITION BY item ORDER BY offset, time => 'ts', wait => INTERVAL 5 MINUTES)",
        ),
        Example(
            "",
            "SELECT offset, item, outcome, decided_by, explanation\n"
            "FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(prices) PARTITION BY item ORDER BY offset, time => 'ts', wait => INTERVAL 5 MINUTES,\n"
            "       output => 'explain')\n"
            "ORDER BY offset",
            "What became of each change, and which row decided it:",
        ),
    ),
)
