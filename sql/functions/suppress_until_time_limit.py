"""Lets at most one change per key through in each interval of event time: the newest, once the interval is over.

## Semantics

- **S1** The input is a changelog: a row replaces the held row of its key, the `PARTITION BY`. `deleted` marks tombstones; without it they
  are the rows whose `change_type`, or Delta's `_change_type`, is `'delete'`. Here they are forwarded like any other change: the mark makes
  no difference. Delta's `update_preimage` rows are no changes and are left out before anything else (C10).
- **S3** The newest row of a key comes out when stream time - the first held time of the key reaches `wait`. A newer row replaces value and
  time, but keeps the place of its key: the timer does not restart, so no key waits for ever. `wait => INTERVAL 0 SECONDS` lets everything
  through. Without `wait` there is no limit of time, and a bound must be given. `restart_timer => true`, which KIP-328 rejected, is refused.
  Four of the KIP's example tables re-time a place; Kafka's code, and this function, do not.
- **S4** A row keeps its own time, which is that of the newest change. `emit_time` is the stream time that released it.
- **S5** Of rows that come out together, the one with the oldest place comes first; then they come in the order of their keys.
- **S6** The buffer has no bound unless given; full is `count > max_records` or `bytes > max_bytes`, once per row, after what is due has
  come out. `'emit_early'` then lets out the oldest places until it is not over; a row larger than the buffer goes straight through.
  `'fail'` ends the query with an error that names the bound; `'spill'` keeps rows beyond it in files, and lets nothing out early.
- **S7** Nothing is dropped as late: a change that is older than the wait comes out at once, unless its key holds a place.
- **S9** A versioned table is refused (V9).

The order of steps is Kafka's: a row moves stream time, then replaces the held row of its key, then what is due comes out, then what is too
much. A row that arrives in the very step in which its key was due replaces the held one.

Stream time runs over all rows, or separately per value of `clock_by`, each with a buffer of its own. Event time is the first `ORDER BY`
expression unless `time` names another: `ORDER BY offset, time => 'ts'` replays the order of arrival.

## Nulls, ties, late rows, empty input

A row with a null time or a null first `ORDER BY` value is dropped as `null_time` (C12). A null key is a key like any other. Ties in
`ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4). Late rows: S7. Empty input gives empty output.
At the end of the input what is still held comes out, with `emit_reason` `end`; `at_end => 'hold'` keeps it back, reported as `held` (C7).

## On a stream

The same call over a streaming input holds rows in RocksDB until they are due. Stream time is the watermark under which a micro-batch runs
(C3): `watermark` sets its delay; without it the input's own counts, else one without delay. What the watermark has made due comes out
first, by timer, whether or not its keys see rows; then the micro-batch's rows come in processing order. `wait => INTERVAL 0 SECONDS` lets
everything through, however far the watermark is behind. Of each key the last row is the same as in batch, and none leaves before its wait
(C5). `clock => 'wall'` takes the time of day as stream time instead, so that an idle stream releases its last rows too; event time must
then be a TIMESTAMP. `emit_time` is that stream time, and the column that carries the watermark for what follows: the rows' own times may
lie behind it (S8). `clock_by`, `at_end => 'emit'`, `output => 'metrics'` and `'explain'`, keys with a collation and columns of year-month
intervals are errors. `when_full => 'fail'` and `'emit_early'` bring all keys into one bucket, which one task works on; with `'spill'` the
state store holds the rows, on disk, whatever the bound. Metrics are in `observedMetrics` of the query's progress: drops,
`suppression_emit_total`, `suppression_overtime_avg` and `_min`, and how many rows entered and left the buffer
(`suppression_buffer_entered_total`, `_left_total`), whose difference over all micro-batches is what it holds. An option changed on an old
checkpoint is an error that names it. Keys are told apart, whoever chose them.

With `clock => 'wall'` stream time never goes back: where the clock is set back, or another machine's is slower, stream time stays where it
was until the clock gets there again, and what is due by then comes out at once. Each bucket of keys keeps the latest time that it saw.
Such a query never ends by itself, since time always passes: start it with a trigger of processing time, not `availableNow`.

## Guarantees

The last row of each key comes out, and with `at_end => 'hold'` or without `'emit_early'` none before its wait. The result is a function
of the set of input rows (C4). `rows` and `dropped` together are exactly the input (C6). `emit_time` says in
which order rows were released; those of one buffer also come out in it, and no table promises more.

## State and memory

**Spread, from 16 tasks on.** Where `spark.sql.shuffle.partitions` is set to 16 or more, or nobody set it and Spark has 16 cores or more, no
task sees all rows: one shuffle puts stream time beside each row, one brings the rows of each key together, one finds the moment at which
each came out. The input is computed twice. With fewer tasks one buffer is faster (two to four times on two cores), and the input is
computed once. Set it to 8 or to 200 to choose.

**One buffer.** The rows of a clock go through one task with fewer tasks; with `max_records` or `max_bytes`, since these bound one buffer;
with `clock_by` (clocks then run side by side); for `'metrics'` and `'explain'`, which ask how full it was and which row released which;
and where the first `ORDER BY` expression is no number, date or time. Rows are sorted where they are, in runs, which that task merges
(with `clock_by` Spark sorts them); they pass through a kernel which holds, beside 64 bytes of numbers for each row in the buffer, the
rows themselves. Rows are decided some hundred thousand at a time; other threads of that worker merge what comes next and gather what
comes out. With `'emit_early'` they are decided one by one, some hundred thousand in a second. `max_records` with `when_full => 'spill'`
bounds what lies in memory. Columns that have no Arrow form (year-month intervals) are refused.

On a stream: 48 bytes for each held row beside the row itself, in 128 buckets, rewritten a logarithmic number of times. The rows of a
bucket in one micro-batch lie in a Python worker's memory: `maxFilesPerTrigger` and the like bound it.

A key is kept as two numbers: its own value where it is one or two integers, times or booleans, else what a secret of the state makes of
its SHA-256. Nobody who chooses keys can make two of them equal. Many of one bucket can be chosen, which costs time and memory only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamtime.sql.call.kinds import Choice, Duration, Flag
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
    summary="Lets at most one change per key through in each interval of event time: the newest, once the interval is over.",
    rules="C1-C12, S1, S3-S10 (KIP-328)",
    page=__doc__,
    plan=plan,
    apart=lambda _given, _in_time_order: FOLLOWS_CLOCK,
    local=Local(partial(judges.changes, FUNCTION), details=(), adds=EMITTED, of_all=EMITTED, changes=True, suppression=FUNCTION),
    check=check,
    options=(
        Option(
            "wait", Duration(), "how long a key waits for further changes, from its first held one", default_text="none: a bound is needed"
        ),
        Option("restart_timer", Flag(), "refused: see S3", default=False, default_text="false"),
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
    adds={k: v.format("`time`, `full`, `end`" if k == "'rows'" else "`null_time`, `replaced`, `held`") for k, v in ADDS.items()},
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
            "       output => 'explain')\nORDER BY offset",
        ),
    ),
)
