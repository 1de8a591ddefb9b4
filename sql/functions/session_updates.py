"""Totals per session, such as per visit: a row for each session once it is over, or a change whenever a row comes.

## In a picture

```text
ORDER BY id, gap => INTERVAL 30 MINUTES, grace => INTERVAL 1 HOUR

row 1   10:00 o                              upsert 10:00 - 10:00   n = 1
row 2         o                10:40 o       upsert 10:40 - 10:40   n = 1
row 3         o----- 10:20 o --------o       delete 10:00 - 10:00
                                             delete 10:40 - 10:40
                                             upsert 10:00 - 10:40   n = 3: the row has joined both
```

## What it does

The rows of a key are in one session as long as each lies within `gap` of its neighbour in time. A distance of exactly `gap` still joins,
one microsecond more does not. `session_start` and `session_end` are the times of its first and its last row (W2). `aggregates` are
computed over its rows.

- **Changes or final rows**: with `emit => 'final'` there is one row for each session, once it is closed (W6). With `emit => 'updates'`
  each row gives the changes that it makes: a session that grows or merges gets new bounds, so what was said of it before is withdrawn by
  a `delete`, and the new one follows as an `upsert` (W5). A delete has the old bounds and null totals. There is none where the new
  session is nothing but the row itself.
- **Apply changes in order**: by the ORDER BY columns, and those of one row by `change_seq` (C10). `change_time` is the end of the session
  that the change is about.
- **When a session closes**: once stream time, the largest event time seen so far, is past `session_end` plus `gap` plus `grace`. It is
  final then: a later row never joins it, and may begin a new session less than `gap` after it (W3). `window_close` is that moment: the
  first at which the result is final.
- **Late rows**: a row first joins the open sessions of its key that it can reach. It is `late` if the session that it would be in has
  been closed by then. So a row that joins an open session is never late, however old it is. Without `grace` there is no patience beyond
  `gap` (W7).
- **The end of the input**: sessions that are still open are not final, and `emit => 'final'` holds them back. `at_end => 'emit'` lets
  them out, with `emit_reason` `end` (C7).
- **Aggregates** are written as in SQL: `count(*)`, `count`, `sum`, `min`, `max`, `avg`, `first`, `last`, `collect_list`, each over one
  expression and with `AS` and a name. Types are those of Spark. `first`, `last` and `collect_list` go by event time; of equal times, by
  processing order. `collect_list` leaves nulls out, `first` and `last` do not. A sum that does not fit its type is an error that says
  what to cast.
- **Two orders**: `ORDER BY ts` takes rows by their time, so none is late. `ORDER BY offset, time => 'ts'` takes them as they arrived, and
  says exactly which ones were late. Keys and ORDER BY must be columns of the input, since the result has them.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: dropped as `null_time`. **Null key**: dropped as `null_key` (C12). Neither
  moves stream time.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **Late rows** are dropped as `late`, with the bounds that their session would have had. **Empty input** gives an empty result.

`output => 'dropped'` lists what was not counted. `output => 'all'` has every input row, with the bounds of its session right after it,
and the reason if it was dropped. `output => 'explain'` says of each row that it `opened` a session, `joined` one, `merged` several or was
`late`, in a sentence.

## On a stream

The same call works where the table is a stream. The open sessions of each key are kept in RocksDB until they close.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **Final rows are those of batch**, however the stream is cut, if no row is later than `grace` and once the watermark has passed the
  session (C5). Sums of DOUBLE can differ in their last digits, as the order of rows does; so can averages of BIGINTs that add up to
  more than 2^53.
- **What follows** in the same query goes by `emit_time` with `emit => 'final'`, else by `change_time` (S8).
- **Errors**: `clock_by`, `at_end => 'emit'`, `output => 'metrics'` and `'explain'`, keys and ORDER BY columns with a collation.

Fewer rows than in batch? They came late. The page of WINDOW_UPDATES says how to find them, and how to get equal numbers.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). Rows that were counted and rows that were dropped are
together the input (C6). With dates as event time, bounds and `change_time` are TIMESTAMP_NTZ.

## Related functions, and the same thing elsewhere

- SESSIONIZE keeps each row, and says which session it is in. WINDOW_UPDATES does the same as this for windows of fixed length.
- SUPPRESS_UNTIL_CLOSE makes final rows out of any changes; after this function, `emit => 'final'` is shorter.
- **Kafka Streams**: `windowedBy(SessionWindows.ofInactivityGapAndGrace(..)).aggregate(..)`. Its `suppress` lets a session out one instant
  early, while it can still change, and may then send a second final row. It hides a session one instant early at its default retention,
  and lets rows join closed ones at a longer one. This function does neither.
- **Flink SQL**: `GROUP BY window_start, window_end` over `TABLE(SESSION(..))`, whose windows end at the last row plus the gap.
- **Plain Spark**: `GROUP BY k, session_window(ts, '30 minutes')`, whose end is the last row plus the gap too. It has no changes and no
  report of late rows.

## Memory and state

A kernel adds up the live sessions of one key at a time, whatever the number of rows; `collect_list` keeps its values. Keys whose times
never fall are added up all at once, others row by row. Final rows in batch are sorted by when they close, to find `emit_time`. That
computes the input twice, as does stream time where `time` is not what `ORDER BY` begins with; else it is computed once. With one clock and
`at_end => 'hold'`, nothing is looked up where a query does not ask for `emit_time`, which is faster. On a stream, state is one entry for
each live session.

Final rows in event-time order are added up without a kernel, and compute their input once, where `lag` and GROUP BY give the same to the
last digit: with `ORDER BY ts` alone, no `clock_by`, and keys and aggregates as in grouped final rows of WINDOW_UPDATES.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamtime.sql.call.spec import GAP, Example, Local, Spec, across_keys_of_updates
from streamtime.sql.udtf import judges
from streamtime.sql.windows import session_updates, updates
from streamtime.sql.windows.reports import sessions
from streamtime.udfs.updates.session_updates import SessionUpdates
from streamtime.udfs.updates.updates import ChangeColumns, Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

BOUNDS = ("session_start", "session_end")


def kernel(call: Bound, layout: ChangeColumns) -> Updates:
    """What adds up the sessions."""
    return SessionUpdates(layout, call["gap"], call["grace"])


def plan(call: Bound) -> DataFrame:
    """SESSION_UPDATES as a DataFrame."""
    return updates.plan(call, BOUNDS, kernel, sessions, ("gap",), session_updates.plainly)


GRACE = "how long past its end and `gap` a session still accepts rows"

SPEC = Spec(
    name="SESSION_UPDATES",
    summary="Totals per session, such as per visit: a row for each session once it is over, or a change whenever a row comes.",
    rules="C1-C12, W2, W3, W5-W7, S2, S8 (KIP-94, KIP-328)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_of_updates,
    local=Local(judges.sessions, details=("session_start", "session_end"), updates=kernel, without_key="null_key"),
    check=updates.check,
    options=(
        GAP,
        *(replace(o, help=GRACE) if o is updates.GRACE else o for o in updates.OPTIONS),
    ),
    clauses={
        "PARTITION BY visitor": "whose sessions these are",
        "ORDER BY ts": "the event time",
    },
    main={
        "gap": "INTERVAL 30 MINUTES",
        "aggregates": "'count(*) AS n'",
        "emit": "'final'",
        "at_end": "'emit'",
    },
    adds=updates.adds(BOUNDS, "'upsert', 'delete'", "`opened`, `joined`, `merged`, `late`"),
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW views AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),\n"
            "  (2, 'ann', TIMESTAMP '2024-05-01 10:40:00', '/cart'),\n"
            "  (3, 'ann', TIMESTAMP '2024-05-01 10:20:00', '/shoes'),\n"
            "  (4, 'bob', TIMESTAMP '2024-05-01 12:00:00', '/home') AS views(id, visitor, ts, page)",
            "SELECT visitor, session_start, session_end, n, emit_time, emit_reason\n"
            "FROM SESSION_UPDATES(TABLE(views) PARTITION BY visitor ORDER BY ts, gap => INTERVAL 30 MINUTES,\n"
            "                     aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit')\n"
            "ORDER BY visitor",
        ),
        Example(
            "",
            "SELECT id, session_start, session_end, pages, change_type, change_time, change_seq\n"
            "FROM SESSION_UPDATES(TABLE(views) PARTITION BY visitor ORDER BY id, time => 'ts',\n"
            "                     gap => INTERVAL 30 MINUTES, grace => INTERVAL 1 HOUR, aggregates => 'collect_list(page) AS pages')\n"
            "ORDER BY id, change_seq",
            "In the order of arrival, with an hour of grace, every change. Row 3 joins the sessions of rows 1 and 2, which are withdrawn:",
        ),
    ),
)
