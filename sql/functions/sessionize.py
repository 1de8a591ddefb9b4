"""Gives every row the final bounds and the id of its session: rows of a key with no gap larger than `gap` between them.

## Semantics

- **W2** A session holds the rows of a key that lie within `gap` of each other in event time: a distance of exactly `gap` joins, one
  microsecond more does not. `session_start` and `session_end` are its first and last event time, **both inclusive**, of the type of the
  event time. (Spark's `session_window` ends at the last event time plus the gap.)
- **W4** Every row leaves with the **final** bounds of the session that it ends up in, however its key's sessions grew and merged later.
  `session_id` is a STRING made of the keys and the session's start alone, such as `ann@2024-05-01 10:00:00`: the keys, joined by `|`, then
  `@` and the start, in UTC. So it joins across tables and runs, sorts by time within a key, can be read, and no two sessions share one.
- **W3** With `grace`, rows are judged in processing order. A row first merges with the live sessions of its key, and is `late` iff the
  merged session ends before stream time - `grace` - `gap`; equality is still accepted. A session is closed once stream time has passed
  `session_end + gap + grace`. A closed session is final: a later row never joins it and is judged by itself, so it may open a new session
  less than `gap` after the closed one.
- **W7** `grace` omitted: no row is late and no session closes before the input ends. Sessions are then plain gaps and islands over event
  time, whatever the processing order. `grace => INTERVAL 0 SECONDS` is no grace at all.

Event time is the first `ORDER BY` expression unless `time` names another: `ORDER BY ts` says that rows are in event-time order, and
nothing is late. `ORDER BY offset, time => 'ts'` replays arrival order, and lateness is exact, record by record.

`output => 'explain'` says of every row what it did when it came, in processing order: it `opened` a session, `joined` one, `merged`
several into one, or was `late`, `null_time` or `null_key`; the bounds of its session as they stood right after it; and why, in a sentence.

## Nulls, ties, late rows, empty input

A row with a null time or a null first `ORDER BY` value is dropped as `null_time`, one with a null key as `null_key`; neither moves stream
time (C12). Ties in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4); rows of one key with equal
times are always in one session, unless one of them is late. Late rows are dropped as `late`. Empty input gives empty output.

## On a stream

The same call over a streaming input keeps rows in RocksDB until their session is closed, which is when stream time has passed
`session_end + gap + grace`; then they leave, with its final bounds. Stream time is the watermark under which a micro-batch runs (C3):
`watermark` sets its delay; without it the input's own counts, else one without delay. Late rows are reported at once, by
`output => 'dropped'` or `'all'`; `'dropped'` and `'explain'` hold no rows, only the bounds of live sessions.

- **C5** If no row is later than `grace`, the final sessions are those of batch, however the input is cut into micro-batches, once the
  watermark has passed them. The last sessions stay in the state until later rows come. The watermark lags exact stream time, so a stream
  may accept a row that batch calls late, never the reverse.
- Without `grace`, sessions close as with a grace of zero, yet no row is late: one that comes after its session closed is a session of its
  own, and leaves at once; where it begins with the closed one, it has the same `session_id`. So `grace`, or a `watermark` with a delay, is
  how long a session waits for rows that come late.
- Rows leave behind the watermark, since their session is over. What counts time by it takes them as late, so let SESSIONIZE be the last
  function with state in a stream: a window aggregate that follows is refused by Spark, for want of a watermark, and loses nothing.

`clock_by`, `output => 'metrics'`, keys with a collation and columns of year-month intervals are errors. Metrics are in `observedMetrics`
of the query's progress. An option changed on an old checkpoint is an error that names it. Keys are told apart, whoever chose them.

Fewer rows than in batch? They came late: a row is late where its window or session closed before its micro-batch began. The page of
WINDOW_UPDATES shows where late rows are (`output => 'dropped'`), and how to get equal numbers (`watermark`, `grace`, the order of files).

## Guarantees

The result is a function of the set of input rows: not of files, partitions or cores (C4). `rows` and `dropped` together are exactly the
input (C6). Keys that `GROUP BY` counts as equal (0.0 and -0.0, NaN and NaN, strings under a collation) are one key and share a
`session_id`; under a collation it shows the least of the strings that count as equal. No guarantee is made about the order of output rows.

## State and memory

A row needs the end of its session, which lies ahead of it: the SQL idiom takes `lag`, a running sum and a second pass over each session.
Here a kernel walks the rows, sorted by key and time, once; only key and times travel to it. Rows wait in Spark, which spills them to disk,
until their session has ended, and as eight bytes or less each in the kernel: a key of any size, and a session without end, can be had.

With `grace`, where `time` differs from `ORDER BY`, exact stream time costs one more shuffle and sort, and computes the input twice. Only
rows that are later than `grace` make their session be taken row by row.

On a stream: each row that waits, and 40 bytes beside it, in 128 buckets; with `'dropped'` and `'explain'` 32 bytes for each live session. A
key's waiting rows are written anew with each micro-batch that has rows of it: a session that never ends grows dearer with each. The rows
of a bucket in one micro-batch, and those that wait for its keys, lie in a Python worker's memory.

A key is kept as two numbers: its own value where it is one or two integers, times or booleans, else what a secret of the state makes of
its SHA-256. Nobody who chooses keys can make two of them equal. Many of one bucket can be chosen, which costs time and memory only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.spec import (
    COMMON,
    GAP,
    OUTPUT,
    Example,
    Local,
    Option,
    Spec,
    apart_in_time_order,
)
from streamtime.sql.plain import islands
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import direct, expression, named, sorted_by
from streamtime.sql.rows.frame import LEFT_OUT, PREFIX, prepare
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.sorting import hash_of, prefix
from streamtime.sql.rows.typed import as_text
from streamtime.sql.stream.buckets import CLOCK, REASON
from streamtime.sql.stream.plan import KeyState, Leaving, Needs, is_stream, judged, released, unclocked, verdict
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
    clock = frame.time.column
    if replayed or (wanted != "rows" and not frame.in_time_order):
        frame, clock = with_stream_time(frame, time, frame.extras.get("clock_by", ())), named(STREAM_TIME)
    if wanted == "rows":
        frame, time = frame.only(takes_part), frame.time.column
    frame, identity = frame.comparable(frame.keys)
    if wanted == "explain":
        return explained_sessions(call, frame, identity, time, clock, call["grace"])
    frame = (_sessions if call.kernels else _plainly)(call, frame, identity, time, replayed)
    reason = F.lit(None)
    if wanted != "rows":
        reason = frame.left_out.when(named(START).isNull(), "late")
    elif replayed:
        reason = F.when(named(START).isNull(), "late")
    adds = _bounds(frame, identity)
    return outcome(call, frame, reason, clock, REASONS, adds, adds if wanted == "all" else {})


def _sessions(call: Bound, frame: Frame, identity: Sequence[str], time: Column, replayed: bool) -> Frame:
    """With the final bounds of each row's session, from rows sorted by key and event time, or by key and processing order."""
    rising = STREAM_TIME if replayed else frame.time.name
    hashed = bool(identity) and not (replayed and frame.extras.get("clock_by"))
    kernel = Sessionize(call["gap"], call["grace"] if replayed else 0, has_stream_time=replayed, hashed=hashed)
    keys = [named(i) for i in identity]
    columns = [time, *([named(STREAM_TIME)] if replayed else []), *([hash_of(identity)] if hashed else []), *keys]
    first = [prefix(identity, rising, frame.time.type)] if hashed else []
    order = frame.sort() if replayed else [sorted_by(quoted(frame.time.name))]
    ordered = frame.by_key(identity, order, first)
    returns = T.StructType().add("start", frame.time.type).add("end", frame.time.type)
    return _opened(frame, kernels.with_column(ordered, SESSION, kernel, columns, returns), {START: "start", END: "end"})


def _plainly(call: Bound, frame: Frame, identity: Sequence[str], time: Column, replayed: bool) -> Frame:
    """The same of Spark's own operators."""
    identity = list(dict.fromkeys(identity))
    if not replayed:
        return islands.with_bounds(frame, identity, time, call["gap"], (START, END))
    falls = not {c.name for c in frame.extras.get("clock_by", ())} <= {k.name for k in frame.keys}
    return islands.with_final_bounds(frame, identity, STREAM_TIME, call["gap"], call["grace"], falls, (START, END))


def _opened(frame: Frame, df: DataFrame, columns: dict[str, str]) -> Frame:
    return frame.with_df(df.withColumns({name: F.col(f"{SESSION}.{field}") for name, field in columns.items()}))


def _waiting(call: Bound, frame: Frame) -> DataFrame:
    """On a stream, rows that leave once their session is closed."""
    frame, identity = frame.comparable(frame.keys)
    everything = call["output"] == "all"
    names = [*(c.name for c in frame.columns), *identity, frame.time.name, *(o.ref.name for o in frame.order)]
    names = list(dict.fromkeys(names))
    schema, kind = frame.df.schema, frame.time.type
    added = [T.StructField(REASON, T.StringType()), T.StructField(CLOCK, kind)] if everything else []
    bounds = [T.StructField(name, kind) for name in (START, END)]
    fields = [*unclocked([schema[name] for name in names]), *added, *bounds]
    df = released(
        call,
        frame,
        SessionRows(call["gap"], call["grace"], frame.time.name, (START, END), (REASON, CLOCK) if everything else ()),
        KeyState(identity, _pinned(call), frame.left_out, LEFT_OUT),
        Leaving(names, fields, results=[(f.name, f.dataType) for f in bounds]),
    )
    frame = frame.with_df(df)
    adds = _bounds(frame, identity)
    return outcome(call, frame, verdict(call), named(CLOCK), REASONS, adds, adds)


def _reported(call: Bound, frame: Frame) -> DataFrame:
    """On a stream, what can be said of each row when it comes."""
    if call["output"] == "explain":
        return explained_in_stream(call, frame, call["grace"], _pinned(call))
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, _pinned(call), frame.left_out, LEFT_OUT)
    frame = judged(call, frame, SessionSteps(call["gap"], call["grace"], close=True), state, Needs(results=steps(frame)))
    return outcome(call, frame, verdict(call), named(CLOCK), REASONS, {}, {})


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


def apart_of(given: Mapping[str, Any], in_time_order: bool) -> str:
    """Without grace no row is late."""
    return apart_in_time_order(given, in_time_order or given.get("grace") is None)


SPEC = Spec(
    name="SESSIONIZE",
    summary="Gives every row the final bounds and the id of its session: rows of a key with no gap larger than `gap` between them.",
    rules="C1-C9, C11, C12, W2-W4, W7 (KIP-94)",
    page=__doc__,
    plan=plan,
    apart=apart_of,
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
    adds={
        "'rows'": "`session_start`, `session_end` (type of the event time, both inclusive), `session_id` STRING",
        "'dropped'": "`reason` STRING (`null_time`, `null_key`, `late`), `stream_time` (type of the event time), "
        "`lateness` DOUBLE (seconds)",
        "'all'": "those of `'dropped'`, null where the row passed, then those of `'rows'`, null where it did not",
        "'explain'": "`outcome` STRING (`opened`, `joined`, `merged`, `late`, `null_time`, `null_key`), `stream_time`, `session_start`, "
        "`session_end` (as they stood right after the row; of a late row, those of the session that it would have opened), "
        "`explanation` STRING",
        "'metrics'": "`name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns",
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),\n"
            "  (2, 'ann', TIMESTAMP '2024-05-01 10:40:00', '/cart'),\n"
            "  (3, 'bob', TIMESTAMP '2024-05-01 10:41:00', '/home'),\n"
            "  (4, 'ann', TIMESTAMP '2024-05-01 10:20:00', '/shop'),\n"
            "  (5, 'bob', TIMESTAMP '2024-05-01 13:00:00', '/cart'),\n"
            "  (6, 'ann', TIMESTAMP '2024-05-01 11:00:00', '/paid') AS clicks(offset, user_id, ts, page)",
            "SELECT user_id, ts, page, session_start, session_end, session_id\n"
            "FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 30 MINUTES)\nORDER BY user_id, ts",
        ),
        Example(
            "",
            "SELECT offset, outcome, session_start, session_end, explanation\n"
            "FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY offset, time => 'ts', gap => INTERVAL 30 MINUTES,\n"
            "                grace => INTERVAL 1 HOUR, output => 'explain')\nORDER BY offset",
        ),
    ),
)
