"""Finds visits: gives every row the start, end and id of its session, which ends where a key pauses for longer than `gap`.

## In a picture

```text
gap => INTERVAL 30 MINUTES

      10:00   10:20   10:40                            13:00
ann   o-------o-------o                                          one session: no pause is longer than 30 minutes
bob                    o . . . . . . . . . . . . . . . o         two sessions
```

## What it does

The rows of a key are in one session as long as each lies within `gap` of its neighbour in time. A distance of exactly `gap` still joins,
one microsecond more does not (W2). Every row stays, and gets three columns (W4):

- `session_start` and `session_end`: the times of the first and the last row of the session. Both are times of rows: the end is **not**
  the last row plus the gap.
- `session_id`: text made of the keys and the start, such as `ann@2024-05-01 10:00:00`, in UTC; several keys are joined by `|`. It depends
  on nothing else, so it can be joined across tables and runs, it sorts by time within a key, and no two sessions share one (but
  on a stream without `grace`, see below).

So a table of sessions is one `GROUP BY session_id` away, the first click of each session one `row_number() OVER (PARTITION BY session_id
ORDER BY ts)`. Rows of a session: `count(*) OVER (PARTITION BY session_id)`. The number of a session: `dense_rank() OVER (PARTITION BY
user_id ORDER BY session_start)`. A row that lies within `gap` of two sessions merges them: all their rows get the bounds of the one.

- **Without `grace`** no row is late. Sessions are found over the whole input, whatever the order of its rows.
- **With `grace`** rows are taken in the order of `ORDER BY`, as a running system would take them. A session is closed once stream time,
  the largest event time seen so far, is past `session_end` plus `gap` plus `grace`. A closed session is final: a later row does not join
  it. A row first joins the open sessions of its key that it can reach. It is late if the session that it would be in has then been closed
  already (W3). So a row that joins an open session is never late, however old it is.
- `grace => INTERVAL 0 SECONDS` is no patience at all; it is not the same as leaving `grace` out (W7).

`ORDER BY ts` takes rows by their time, so none is late. `ORDER BY offset, time => 'ts'` takes them as they arrived.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: dropped as `null_time`. **Null key**: dropped as `null_key` (C12). Neither
  moves stream time.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4). Rows of one key and time are
  always in one session, unless one of them is late.
- **Late rows**, with `grace`, are dropped as `late`. **Empty input** gives an empty result.

## On a stream

The same call works where the table is a stream. A row waits in RocksDB until its session is closed, since the end of the session is not
known before. Then all its rows leave, with the final bounds. So the last sessions of each key stay inside until later rows of any key
come.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **Sessions are those of batch**, however the stream is cut, if no row is later than `grace` and once the watermark has passed them (C5).
  The watermark lags behind, so a stream may accept a row that batch calls late, never the reverse.
- **Without `grace`** sessions close as with a grace of zero, yet no row is late. A row that comes after its session was closed is a
  session of its own, and leaves at once. If it has the same start, it has the same `session_id`. So `grace`, or a `watermark` with a
  delay, says how long a session waits.
- **What follows**: rows leave when their own time is long past, so what counts time after this takes them as late. Let SESSIONIZE be the
  last function with state. A window aggregate after it is refused by Spark.
- **Late rows** are reported at once by `output => 'dropped'` or `'all'`. `'dropped'` and `'explain'` hold no rows, only the bounds of
  open sessions.
- **Errors**: `clock_by`, `output => 'metrics'` (metrics are in `observedMetrics` of the query's progress), keys and ORDER BY columns with
  a collation, columns of year-month intervals, and an option that is not what it was when the checkpoint was made.

Fewer rows than in batch? They came late. The page of WINDOW_UPDATES says how to find them, and how to get equal numbers.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). What passes and what is dropped are together exactly the
input (C6). Keys that `GROUP BY` takes as equal (0.0 and -0.0, NaN and NaN, strings that a collation takes as equal) are one key with one
`session_id`; under a collation it shows the smallest of these strings. The order of the output is not guaranteed: add `ORDER BY`.

## Related functions, and the same thing elsewhere

- SESSION_UPDATES gives totals of sessions, a row for each session, rather than each row with its session.
- **Kafka Streams**: `windowedBy(SessionWindows.ofInactivityGapAndGrace(..))`, which only aggregates; rows do not learn their session.
- **Flink SQL**: `TABLE(SESSION(..))`, likewise by window functions, with windows that end at the last row plus the gap.
- **Plain Spark**: `session_window(ts, '30 minutes')` in `GROUP BY`: its end is the last row plus the gap, and it gives a row for each
  session. Row by row it takes `lag`, a running `sum`, and `min` and `max` over that, which is slower than this function.

## Memory and state

A row needs the end of its session, which lies ahead of it. A kernel in Python walks over the rows once, sorted by key and time; only keys
and times travel to it. Until their session has ended, rows wait in Spark, which spills them to disk, and as eight bytes or less each in
the kernel. So keys and sessions may be of any size. With `grace`, where `time` is not what `ORDER BY` begins with, stream time costs one
more shuffle and sort, and computes the input twice. Only rows that are later than `grace` make their session be taken row by row.

On a stream: each row that waits, and 40 bytes beside it; with `'dropped'` and `'explain'` 32 bytes for each open session.
The waiting rows of a key are written anew with each micro-batch that has rows of it, so a session that never ends grows dearer with each.
The rows of a bucket in one micro-batch, and those that wait for its keys, lie in the memory of a Python worker.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.spec import COMMON, GAP, METRICS, OUTPUT, Example, Local, Option, Spec, across_keys_unless_in_time_order
from streamtime.sql.plain import islands
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import direct, expression, named, sorted_by
from streamtime.sql.rows.frame import LEFT_OUT, PREFIX, prepare
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.scans import chosen
from streamtime.sql.rows.sorting import hash_of, prefix
from streamtime.sql.rows.typed import as_text
from streamtime.sql.stream.buckets import REASON
from streamtime.sql.stream.plan import KeyState, Leaving, Needs, is_stream, judged, released, verdict
from streamtime.sql.stream.watermark import behind_watermark
from streamtime.sql.syntax.text import named_by, quoted
from streamtime.sql.udtf import judges
from streamtime.sql.windows.explain import explained_in_stream, explained_sessions, steps
from streamtime.udfs.sessions.sessionize import Sessionize
from streamtime.udfs.sessions.steps import SessionSteps
from streamtime.udfs.sessions.waiting_rows import SessionRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

SESSION, START, END = (f"{PREFIX}session{edge}" for edge in ("", "_start", "_end"))
REASONS = (*LEFT_OUT, "late")


def plan(call: Bound) -> DataFrame:
    """SESSIONIZE as a DataFrame."""
    frame = prepare(call, clock_by=call.clock_by)
    if is_stream(call, explains=True):
        return _reported(call, frame) if call["output"] in ("dropped", "explain") else _waiting(call, frame)
    takes_part, wanted = frame.has_time & frame.has_key, call["output"]
    time = F.when(takes_part, frame.time.column)
    replayed = call["grace"] is not None and not frame.in_time_order
    stream_time = frame.time.column
    if replayed or (wanted != "rows" and not frame.in_time_order):
        frame, stream_time = with_stream_time(frame, time, frame.clocks), named(STREAM_TIME)
    if wanted == "rows":
        frame, time = chosen(frame, takes_part), frame.time.column
    frame, identity = frame.comparable(frame.keys)
    if wanted == "explain":
        return explained_sessions(call, frame, identity, time, stream_time, call["grace"])
    frame = (_sessions if call.kernels else _plainly)(call, frame, identity, time, replayed)
    reason = F.lit(None)
    if wanted != "rows":
        reason = frame.left_out.when(named(START).isNull(), "late")
    elif replayed:
        reason = F.when(named(START).isNull(), "late")
    adds = _bounds(frame, identity)
    return outcome(call, frame, reason, stream_time, REASONS, adds, adds if wanted == "all" else {})


def _sessions(call: Bound, frame: Frame, identity: Sequence[str], time: Column, replayed: bool) -> Frame:
    """With the final bounds of each row's session, from rows sorted by key and event time, or by key and processing order."""
    rising = STREAM_TIME if replayed else frame.time.name
    hashed = bool(identity) and not (replayed and frame.clocks)
    kernel = Sessionize(call["gap"], call["grace"] if replayed else 0, has_stream_time=replayed, hashed=hashed)
    keys = [named(i) for i in identity]
    columns = [time, *([named(STREAM_TIME)] if replayed else []), *([hash_of(identity)] if hashed else []), *keys]
    first = prefix(identity, rising, frame.time.type) if hashed else None
    order = frame.sort() if replayed else [sorted_by(quoted(frame.time.name))]
    ordered = frame.by_key(identity, order, first)
    returns = T.StructType().add("start", frame.time.type).add("end", frame.time.type)
    return _opened(frame, kernels.with_column(ordered, SESSION, kernel, columns, returns), {START: "start", END: "end"})


def _plainly(call: Bound, frame: Frame, identity: Sequence[str], time: Column, replayed: bool) -> Frame:
    """The same of Spark's own operators."""
    identity = list(dict.fromkeys(identity))
    if not replayed:
        return islands.with_bounds(frame, identity, None if call["output"] == "rows" else time, call["gap"], (START, END))
    return islands.with_final_bounds(frame, identity, STREAM_TIME, call["gap"], call["grace"], frame.several_clocks, (START, END))


def _opened(frame: Frame, df: DataFrame, columns: dict[str, str]) -> Frame:
    return frame.with_df(df.withColumns({name: F.col(f"{SESSION}.{field}") for name, field in columns.items()}))


def _waiting(call: Bound, frame: Frame) -> DataFrame:
    """On a stream, rows that leave once their session is closed."""
    frame, identity = frame.comparable(frame.keys)
    everything = call["output"] == "all"
    names = [*(c.name for c in frame.columns), *identity, frame.time.name, *(o.ref.name for o in frame.order)]
    names = list(dict.fromkeys(names))
    schema, kind = frame.df.schema, frame.time.type
    added = [T.StructField(REASON, T.StringType()), T.StructField(STREAM_TIME, kind)] if everything else []
    bounds = [T.StructField(name, kind) for name in (START, END)]
    fields = [*behind_watermark([schema[name] for name in names]), *added, *bounds]
    df = released(
        call,
        frame,
        SessionRows(call["gap"], call["grace"], frame.time.name, (START, END), (REASON, STREAM_TIME) if everything else ()),
        KeyState(identity, _pinned(call), frame.left_out, LEFT_OUT),
        Leaving(names, fields, results=[(f.name, f.dataType) for f in bounds]),
    )
    frame = frame.with_df(df)
    adds = _bounds(frame, identity)
    return outcome(call, frame, verdict(call), named(STREAM_TIME), REASONS, adds, adds)


def _reported(call: Bound, frame: Frame) -> DataFrame:
    """On a stream, what can be said of each row when it comes."""
    if call["output"] == "explain":
        return explained_in_stream(call, frame, call["grace"], _pinned(call))
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, _pinned(call), frame.left_out, LEFT_OUT)
    frame = judged(call, frame, SessionSteps(call["gap"], call["grace"], close=True), state, Needs(results=steps(frame)))
    return outcome(call, frame, verdict(call), named(STREAM_TIME), REASONS, {}, {})


def _pinned(call: Bound) -> dict[str, Any]:
    """What the state depends on: rows wait in it, with stream time or without, or only the bounds of live sessions are there."""
    output = call["output"] if call["output"] in ("rows", "all") else "dropped or explain"
    return {"gap": call["gap"], "grace": call["grace"], "output": output}


def _bounds(frame: Frame, identity: Sequence[str]) -> dict[str, Column]:
    """The columns that rows leave with. The id is the keys and the start as text, one to one."""
    start = quoted(START)
    if isinstance(frame.time.type, T.TimestampType):
        start = f"TIMESTAMP_NTZ '1970-01-01 00:00:00' + unix_micros({start}) * INTERVAL '0.000001' SECOND"
    pairs = zip(frame.keys, identity, strict=True)
    keys = [as_text(quoted(name), key.type) if direct(key.type) else quoted(name) for key, name in pairs]
    identifier = expression(f"concat({named_by(keys)}, '@', CAST({start} AS STRING))")
    return {"session_start": named(START), "session_end": named(END), "session_id": F.when(named(START).isNotNull(), identifier)}


WORDS = replace(
    OUTPUT,
    kind=Choice(words=("rows", "dropped", "all", "metrics", "explain")),
    help=f"{OUTPUT.help}; 'explain': every row, what it did when it came, and why",
)


def across_keys_of(given: Mapping[str, Any], in_time_order: bool) -> str:
    """Without grace no row is late."""
    return across_keys_unless_in_time_order(given, in_time_order or given.get("grace") is None)


SPEC = Spec(
    name="SESSIONIZE",
    summary="Finds visits: gives every row the start, end and id of its session, which ends where a key pauses for longer than `gap`.",
    rules="C1-C9, C11, C12, W2-W4, W7 (KIP-94)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_of,
    local=Local(
        judges.sessionize,
        details=(),
        adds=("session_start", "session_end"),
        of_all=("session_start", "session_end"),
        named="session_id",
        without_key="null_key",
    ),
    options=(
        GAP,
        Option(
            "grace",
            Duration(),
            "how long past its end and `gap` a session still accepts rows; without it, no row is late",
            default_text="none: no row is late",
        ),
        *(WORDS if o is OUTPUT else o for o in COMMON),
    ),
    clauses={
        "PARTITION BY user_id": "whose sessions these are",
        "ORDER BY ts": "the event time",
    },
    main={
        "gap": "INTERVAL 30 MINUTES",
        "output": "'explain'",
    },
    adds={
        "'rows'": "`session_start`, `session_end` (type of the event time, both inclusive), `session_id` STRING",
        "'dropped'": "`reason` STRING (`null_time`, `null_key`, `late`), `stream_time` (type of the event time), "
        "`lateness` DOUBLE (seconds)",
        "'all'": "those of `'dropped'`, null where the row passed, then those of `'rows'`, null where it did not",
        "'explain'": "`outcome` STRING (`opened`, `joined`, `merged`, `late`, `null_time`, `null_key`), `stream_time`, `session_start`, "
        "`session_end` (as they stood right after the row; of a late row, those of the session that it would have opened), "
        "`explanation` STRING",
        "'metrics'": METRICS,
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00'), (2, 'ann', TIMESTAMP '2024-05-01 10:40:00'),\n"
            "  (3, 'bob', TIMESTAMP '2024-05-01 10:41:00'), (4, 'ann', TIMESTAMP '2024-05-01 10:20:00'),\n"
            "  (5, 'bob', TIMESTAMP '2024-05-01 13:00:00') AS clicks(offset, user_id, ts)",
            "SELECT user_id, ts, session_start, session_end, session_id\n"
            "FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 30 MINUTES) ORDER BY user_id, ts",
        ),
        Example(
            "",
            "SELECT offset, outcome, session_start, session_end, explanation\n"
            "FROM SESSIONIZE(TABLE(SELECT * FROM clicks UNION ALL SELECT 6, 'ann', TIMESTAMP '2024-05-01 11:00:00')\n"
            "                PARTITION BY user_id ORDER BY offset, time => 'ts', gap => INTERVAL 30 MINUTES,\n"
            "                grace => INTERVAL 1 HOUR, output => 'explain')\n"
            "ORDER BY offset",
            "In the order of arrival, with an hour of grace, and with one more row that comes too late: what each row did when it came.",
        ),
    ),
)
