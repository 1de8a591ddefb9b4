"""Aggregates over sessions, as the changelog that a session table emits, or as one final row for each session.

## Semantics

- **W2** A session holds the rows of a key within `gap` of each other: a distance of exactly `gap` merges, one microsecond more does not.
  `session_start` and `session_end` are its first and last event time, both inclusive. (Spark's `session_window` ends at the last row plus
  the gap.)
- **W3** A row is judged after merging with the live sessions of its key: an old row that joins a live session is accepted however old it
  is. It is `late` iff the merged end lies before stream time - `grace` - `gap`. A session is closed when stream time > end + `gap` +
  `grace`, and is final then: a later row never joins it, and may begin a new session less than `gap` after it. (Kafka hides a session one
  instant earlier at its default retention, and merges into closed ones at a longer one.)
- **W5** Each accepted row gives a delete for every live session that it merges with, in order of (`session_end`, `session_start`), with
  the old bounds, null aggregates, and the old end as `change_time`; then the new session as an upsert, with its end as `change_time`.
  There is no delete where the new session is exactly the row's own time; a row inside a session deletes and upserts the same bounds.
- **Aggregates** are SQL text: `count(*)`, `count`, `sum`, `min`, `max`, `avg`, `first`, `last`, `collect_list`, each of one expression
  over the input and with AS and a name. Types are those of Spark. `first`, `last` and `collect_list` go by event time, ties by processing
  order; `collect_list` leaves nulls out, `first` and `last` do not. A sum that does not fit fails with what to cast.
- **W6** `window_close` is the first instant at which the result is final: one microsecond after `session_end + gap + grace`. `emit =>
  'final'` gives one row for each session when stream time reaches it, as SUPPRESS_UNTIL_CLOSE would from the changes (Kafka's suppress
  emits sessions one instant early, and can then emit a second final row): `emit_time` is the stream time that released it. Sessions still
  open at the end of a batch are held back, or leave with `emit_reason` 'end' where `at_end => 'emit'` (C7).
- **W7** `grace` omitted is no grace at all: the `late` report says what it costs.
- **C10** The result has the keys, `clock_by` and ORDER BY columns of the row that caused the change, the bounds, the aggregates,
  `window_close`, `change_type`, `change_time`, `change_seq`. The latter counts the changes of one key that share the ORDER BY columns,
  from 0; on a stream, those of one micro-batch; in final rows, those of one input row. Keys and ORDER BY must be columns of the input.

Event time is the first `ORDER BY` expression unless `time` names another: `ORDER BY ts` says that rows are in event-time order, and
nothing is late.

## Nulls, ties, late rows, empty input

A row with a null time or a null first `ORDER BY` value is dropped as `null_time`, one with a null key as `null_key` (C12); neither moves
stream time. Ties in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4). Late rows are reported
with the bounds that their session would have had. Empty input gives empty output.

`output => 'all'` has every input row, `reason` null where a session took it, with that session's bounds right after it. `output =>
'explain'` says what each row did: `opened` a session, `joined` one, `merged` several, or was `late`.

## On a stream

The same call over a streaming input keeps each key's live sessions in RocksDB until they close. Stream time is the watermark under which
a micro-batch runs (C3): `watermark` sets its delay; without it the input's own counts, else one without delay. Final results are equal
however the input is cut into micro-batches, if no row is later than `grace`, once the watermark has passed (C5); sums of DOUBLE may
differ in their last digits, as the order of rows does. `clock_by`, `at_end => 'emit'`, `output => 'metrics'` or `'explain'`, and keys
with a collation are errors. With `emit => 'final'`, `emit_time` is the column that a following stateful function or window sees (S8);
else it is `change_time`.

Fewer rows than in batch? They came late: a row is late where its window or session closed before its micro-batch began. The page of
WINDOW_UPDATES shows where late rows are (`output => 'dropped'`), and how to get equal numbers (`watermark`, `grace`, the order of files).

## Guarantees

The result is a function of the set of input rows (C4). Late, null and accepted rows together are the input (C6). With dates as event
time, bounds and `change_time` are TIMESTAMP_NTZ.

## State and memory

A kernel adds up the live sessions of one key at a time, whatever the number of rows; `collect_list` keeps its values. Keys whose times
never fall are added up all at once, others row by row. Final rows in batch are joined with stream time by a second, smaller sort. On a
stream, state is one entry for each live session, in 128 buckets.

A key is kept as two numbers: its own value where it is one or two integers, times or booleans, else what a secret of the state makes of
its SHA-256. Nobody who chooses keys can make two of them equal. Many of one bucket can be chosen, which costs time and memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtime.sql.call.spec import (
    GAP,
    Example,
    Local,
    Spec,
    apart_of_updates,
)
from streamtime.sql.udtf import judges
from streamtime.sql.windows import changes, session_changes
from streamtime.sql.windows.reports import sessions
from streamtime.udfs.updates.changes import ChangeColumns, Updates
from streamtime.udfs.updates.session_updates import SessionUpdates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

BOUNDS = ("session_start", "session_end")


def kernel(call: Bound, layout: ChangeColumns) -> Updates:
    """What adds up the sessions."""
    return SessionUpdates(layout, call["gap"], call["grace"])


def plan(call: Bound) -> DataFrame:
    """SESSION_UPDATES as a DataFrame."""
    return changes.plan(call, BOUNDS, kernel, sessions, ("gap",), session_changes.plainly)


SPEC = Spec(
    name="SESSION_UPDATES",
    summary="Aggregates over sessions, as the changelog that a session table emits, or as one final row for each session.",
    rules="C1-C12, W2, W3, W5-W7, S2 (KIP-94, KIP-328)",
    page=__doc__,
    plan=plan,
    apart=apart_of_updates,
    local=Local(judges.sessions, details=("session_start", "session_end"), updates=kernel, without_key="null_key"),
    check=changes.check,
    options=(
        GAP,
        *changes.OPTIONS,
    ),
    adds=changes.adds(BOUNDS, "'upsert', 'delete'", "`opened`, `joined`, `merged`, `late`"),
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW views AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),\n"
            "  (2, 'ann', TIMESTAMP '2024-05-01 10:40:00', '/cart'),\n"
            "  (3, 'ann', TIMESTAMP '2024-05-01 10:20:00', '/shoes') AS views(id, visitor, ts, page)",
            "SELECT id, session_start, session_end, pages, change_type, change_time, change_seq\n"
            "FROM SESSION_UPDATES(TABLE(views) PARTITION BY visitor ORDER BY id, time => 'ts',\n"
            "                     gap => INTERVAL 30 MINUTES, aggregates => 'collect_list(page) AS pages')\n"
            "ORDER BY id, change_seq",
        ),
        Example(
            "",
            "SELECT visitor, session_start, session_end, n, emit_time, emit_reason\n"
            "FROM SESSION_UPDATES(TABLE(views) PARTITION BY visitor ORDER BY ts, gap => INTERVAL 30 MINUTES,\n"
            "                     aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit')",
        ),
    ),
)
