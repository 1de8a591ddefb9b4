"""Keeps the first row of each key and drops its later duplicates: use it where one event can come more than once.

## In a picture

```text
      10:00     10:05     10:09 10:11
ann   o===================x==|  o========..     o passes, and stops its key for 10 minutes
bob             o========================..     x is dropped: it lies within 10 minutes of the kept row at 10:00
```

## What it does

Rows are looked at one by one, in the order of `ORDER BY`. The first row of a key passes: it is the **kept** row. A later row of the same
key is a duplicate exactly if its time lies within `within` of the kept row's time, before or after it, both ends included (D1). With
`within => INTERVAL 0 SECONDS` only rows of the very same time are duplicates. Without `within`, a key passes once, for ever.

- **Distance is measured from the kept row**, not from the last row that was dropped (D2). Of three rows nine minutes apart each, with ten
  minutes, the third passes again. `refresh => true` measures from the last duplicate instead: then a key that keeps coming passes once.
- **A burst that never pauses** need not be silent for ever: with `refresh => true`, `at_most => INTERVAL 1 HOUR` lets a row pass again that
  lies more than an hour past the row that passed, and counts anew from there (D10). A row exactly an hour past it is still a duplicate.
  `at_most` must be longer than `within`: a row up to `within` past the row that passed is a duplicate anyway (D1).
- **What a duplicate is** says `PARTITION BY` (D3). `PARTITION BY id` is one row for each id, `PARTITION BY (user_id, id)` one for each
  user and id, `PARTITION BY (user_id, day)` one for each user and day. Without it, all rows are duplicates of each other.
- **Which row is kept** says `keep` (D8). `'last'` is the same read backwards, from the end of the table. `'unique'` passes only rows that
  have no duplicate at all: the first of two is dropped, too.
- **When rows come out of order**: `ORDER BY ts` takes rows by their time, so none is late. `ORDER BY offset, time => 'ts'` takes them as
  they arrived. Stream time is then the largest time that was seen so far, in rows of any key. A kept row is forgotten once stream time is
  more than `within` past it (D5). A row that is older than that and finds no kept row passes, but is not remembered itself: of two such
  duplicates both pass (D6).
- **After a failed job**: leave `offset` out unless your source numbers its records and a job may read one twice. Then name that number,
  such as `'struct(partition, offset)'`: a row with the number of the kept row is that row read again, and passes again (D7). It does not
  find duplicates. A null number is never one that was read again.

## Nulls, ties, late rows, empty input

- **Null key**: the row always passes, and is a duplicate of nothing (D4). It does move stream time.
- **Null time**, or null in the first `ORDER BY` expression: dropped, with the reason `null_time` (C12).
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4). So the result is the same
  however the table is stored.
- **Late rows**: see above (D6). **Empty input** gives an empty result.

## On a stream

The same call works where the table is a stream: `TABLE(a_streaming_view)`, or `TABLE(SELECT * FROM STREAM t)`. The kept row of each key
is remembered from micro-batch to micro-batch, in RocksDB, until it is forgotten.

- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero. Where the input has one of its
  own, rows that a `WHERE` inside `TABLE(..)` removes do not move it.
- **Compared with batch**: the watermark lags behind, so a kept row may be remembered longer than in batch. If micro-batches come in the
  order of `ORDER BY`, and rows in the order of their times, the results are equal. If not, for each dropped row, a row of the same key
  passed that is no further away than `within` (C5).
- **Errors**: `keep => 'last'` and `'unique'` (a stream does not know what comes), `clock_by`, `output => 'metrics'` (metrics are in
  `observedMetrics` of the query's progress), keys, offsets and ORDER BY columns with a collation, columns of year-month intervals, and an
  option that is not what it was when the checkpoint was made.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). What passes and what is dropped are together exactly the
input (C6). The order of the output is not guaranteed: add `ORDER BY`.

## Related functions, and the same thing elsewhere

- DISTINCT_IN_WINDOW counts by fixed windows, such as once per calendar day; here the span begins at the kept row.
- SUPPRESS_UNTIL_TIME_LIMIT lets the newest row of each span through, rather than the first.
- **Kafka Streams**: the `deduplicate` of KIP-655, which is a proposal.
- **Flink SQL**: `ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) = 1`, which has no `within`; its state's time to live runs by the time of
  day.
- **Plain Spark**: `row_number() OVER (PARTITION BY k ORDER BY ts) = 1` is the same without `within`. `dropDuplicates` keeps any row of a
  key, not the first. On streams, `dropDuplicatesWithinWatermark` keeps any, too, and for a span that depends on how the stream is cut.

## Memory and state

Without `within` this is Spark's own `row_number() = 1`. With `within`, whether a row passes depends on which rows before it did, which no
window function can say. A kernel in Python walks over each key's rows, which Spark has sorted, and remembers one number, or two with
`at_most`. So a key of any size needs the same memory. Only keys and times travel to Python. Where `time` is not what `ORDER BY` begins
with, stream time costs one more shuffle and sort, and the input is computed twice.

On a stream: 24 bytes for each remembered key (16 more with `offset`, 8 more with `at_most`), each rewritten a logarithmic
number of times. Without `within`, keys are remembered for ever. The rows of a bucket in one micro-batch lie in the memory of a Python
worker: `maxFilesPerTrigger` and the like bound it.

A key is stored as two numbers: its own value, if it is one or two integers, times or booleans, else a hash with a secret. So nobody can
make up two keys that count as one; many that go to one task can be made up, which costs time and memory only ([more](../security.md#keys)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration, Flag, Text
from streamtime.sql.call.spec import COMMON, METRICS, Example, Local, Option, Spec, across_keys_unless_in_time_order
from streamtime.sql.call.values import Expression
from streamtime.sql.plain import arrivals
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import expression, named, remembered
from streamtime.sql.rows.frame import PREFIX, prepare
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.scans import chosen, may_be_read_again
from streamtime.sql.rows.sorting import hash_of, prefix, rising, sorted_runs
from streamtime.sql.stream.plan import KeyState, Needs, is_stream, judged, refuse_collated, verdict
from streamtime.sql.syntax.text import quoted
from streamtime.sql.udtf import judges
from streamtime.udfs.arrays.groups import HIGHEST
from streamtime.udfs.deduplicate import Deduplicate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

KEPT = f"{PREFIX}kept_time"
REASONS = ("null_time", "duplicate")
ALONE = f"{PREFIX}alone"


def check(call: Bound) -> None:
    """Options that do not go together."""
    keep = call["keep"]
    if call["refresh"] and call["within"] is None:
        raise call.refuse("`refresh`", "needs `within`: without it a kept row never expires", "Add within => INTERVAL 10 MINUTES.")
    if call["at_most"] is not None and not call["refresh"]:
        problem = "goes with refresh => true only: without it no duplicate prolongs the wait (D10)"
        raise call.refuse("`at_most`", problem, "Add refresh => true, or leave it out.")
    if call["at_most"] is not None and call["at_most"] <= call["within"]:
        problem = "must be longer than `within`: up to `within` past the row that passed, rows are duplicates anyway (D1, D10)"
        raise call.refuse("`at_most`", problem, "Make it longer, or leave it out.")
    if call["offset"] and keep != "first":
        raise call.refuse("`offset`", f"does not go with keep => '{keep}': redelivery (D7) is about the first row", "Leave one out.")


def plan(call: Bound) -> DataFrame:
    """DEDUPLICATE as a DataFrame."""
    offset = (Expression.parse(call["offset"]),) if call["offset"] else ()
    frame = prepare(call, clock_by=call.clock_by, offset=offset)
    if is_stream(call):
        return _streaming(call, frame)
    rows_only = call["output"] == "rows"
    time = frame.time.column if rows_only or frame.ordered_by_time else F.when(frame.has_time, frame.time.column)
    decided = _for_ever if call["within"] is None and frame.keys else _within
    frame, stream_time = decided(call, frame, time)
    reason = named(KEPT)
    if not rows_only:
        reason = F.when(~frame.has_time, "null_time").when(named(KEPT).isNotNull(), "duplicate")
    return outcome(call, frame, reason, stream_time, REASONS, {}, {"kept_time": named(KEPT)})


def _streaming(call: Bound, frame: Frame) -> DataFrame:
    """The same state transition, from micro-batch to micro-batch."""
    if call["keep"] != "first":
        fix = "A stream passes rows before it knows what follows: leave it out, or run the query in batch."
        raise call.refuse("`keep`", f"'{call['keep']}' is not possible on a stream (C5)", fix)
    for part in frame.extras.get("offset", ()):
        refuse_collated(call, "`offset`", "a column", part)
    frame, identity = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    within, refresh = HIGHEST if call["within"] is None else call["within"], bool(call["refresh"])
    frame = judged(
        call,
        frame,
        Deduplicate(within=within, refresh=refresh, at_most=call["at_most"], offsets=2 if offset else 0),
        KeyState(
            identity,
            options={n: call[n] for n in ("within", "refresh", "at_most", "offset")},
            aside=F.when(~frame.has_time, "null_time").when(~frame.has_key, ""),
            reasons=("null_time",),
        ),
        Needs(offset=offset, results=T.StructType().add(KEPT, frame.time.type)),
    )
    return outcome(call, frame, verdict(call), named(STREAM_TIME), REASONS, {}, {"kept_time": named(KEPT)})


def _within(call: Bound, frame: Frame, time: Column) -> tuple[Frame, Column]:
    """The kernel over rows sorted by key and processing order; where none may run, Spark's own operators."""
    if not call.kernels:
        return _plainly(call, frame, time)
    reverse, clock_by = call["keep"] == "last", frame.clocks
    clocked = not frame.in_time_order
    own_clock = clocked and call["output"] == "rows" and {c.name for c in clock_by} == {k.name for k in frame.keys}
    clocked = clocked and not own_clock
    if clocked:
        frame = with_stream_time(frame, F.when(frame.has_time, time), clock_by, reverse)
    if call["output"] == "rows":
        frame = frame.only(frame.has_time)
    frame, identity = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    unique = call["keep"] == "unique"  # its kernel holds rows back, in one order
    hashed = bool(identity) and not unique and not own_clock and (frame.in_time_order or not clock_by)
    kernel = Deduplicate(
        within=HIGHEST if call["within"] is None else call["within"],
        refresh=bool(call["refresh"]),
        at_most=call["at_most"],
        unique=unique,
        negate=reverse,
        has_stream_time=clocked,
        own_clock=own_clock,
        offsets=len(offset),
        hashed=hashed,
    )
    stream_time, keys = named(STREAM_TIME if clocked else frame.time.name), [named(i) for i in identity]
    columns = [
        time,
        *([stream_time] if clocked else []),
        *map(named, offset),
        *([hash_of(identity)] if hashed else []),
        *keys,
    ]
    first = prefix(identity, STREAM_TIME if clocked else frame.time.name, frame.time.type, reverse) if hashed else None
    ordered = frame.by_key(identity, frame.sort(reverse=reverse), first)
    return frame.with_df(kernels.with_column(ordered, KEPT, kernel, columns, frame.time.type)), stream_time


def _plainly(call: Bound, frame: Frame, time: Column) -> tuple[Frame, Column]:
    """The same by Spark's own operators, in any order."""
    stream_time, clock_by, falls = frame.time.name, frame.clocks, False
    if not frame.in_time_order:
        frame = with_stream_time(frame, F.when(frame.has_time, time), clock_by, call["keep"] == "last")
        stream_time, falls = STREAM_TIME, frame.several_clocks
    rows_only = call["output"] == "rows"
    if rows_only and not frame.in_time_order:
        frame = chosen(frame, frame.has_time)  # twice in what follows: no filter that Spark would keep all rows for
    frame, identity = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    within = HIGHEST if call["within"] is None else call["within"]
    key, refresh = [*dict.fromkeys(identity)], bool(call["refresh"])
    asked = arrivals.Intervals(key, offset, within, call["keep"], refresh, falls, call["at_most"], tells=not rows_only)
    frame = arrivals.with_kept(frame, stream_time, asked, KEPT)
    if rows_only and frame.in_time_order:  # behind the windows: before them, it would compute the event time once more
        frame = frame.with_df(frame.df.where(frame.has_time))
    return frame, named(stream_time)


def _for_ever(call: Bound, frame: Frame, time: Column) -> tuple[Frame, Column]:
    """A key passes once: Spark's own window functions say it all."""
    rows_only, reverse, stream_time = call["output"] == "rows", call["keep"] == "last", frame.time.column
    if rows_only:  # as `chosen`, which drops a column, and so ends the chain of operators that goes back to the analyzer as it is
        frame = frame.with_df(frame.df.where(frame.has_time)) if may_be_read_again(frame) else frame.only(frame.has_time)
    elif not frame.in_time_order:
        frame, stream_time = with_stream_time(frame, time, frame.clocks, reverse), named(STREAM_TIME)
    frame, names = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    identity = [named(n) for n in names]
    order = frame.sort(reverse=reverse)
    if rows_only and call["keep"] != "unique" and not frame.extras.get("offset"):
        # each row with a null identity stands alone; written so, Spark cuts each key to one row before the shuffle
        present = " AND ".join(f"{quoted(n)} IS NOT NULL" for n in names)
        df, by = frame.df.withColumn(ALONE, expression(f"if({present}, NULL, monotonically_increasing_id())")), names
        if frame.kernels and names:  # a text stays short
            df, by = sorted_runs(df, names, rising(frame.order[0], reverse))
        keys = [*map(named, by), named(ALONE)]

        def later() -> Column:
            return F.nullif(F.row_number().over(Window.partitionBy(*keys).orderBy(*order)), F.lit(1))

        return frame.with_df(df.withColumn(KEPT, remembered("later", [*keys, *order], later))), stream_time
    key = Window.partitionBy(*identity, *([] if rows_only else [frame.has_time]))
    ordered = key.orderBy(*order)
    is_duplicate = F.count(F.lit(1)).over(key) > 1 if call["keep"] == "unique" else F.row_number().over(ordered) > 1
    for same in map(named, offset):
        is_duplicate &= ~F.coalesce(F.first(same).over(ordered) == same, F.lit(False))
    kept = F.when(frame.has_key & frame.has_time & is_duplicate, F.first(time).over(ordered))
    return frame.with_df(frame.df.withColumn(KEPT, kept)), stream_time


def across_keys_of(given: Mapping[str, Any], in_time_order: bool) -> str:
    """For ever needs no stream time."""
    return across_keys_unless_in_time_order(given, in_time_order or given.get("within") is None)


SPEC = Spec(
    name="DEDUPLICATE",
    summary="Keeps the first row of each key and drops its later duplicates: use it where one event can come more than once.",
    rules="C1-C9, C11, C12, D1-D8, D10 (KIP-655)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_of,
    local=Local(judges.deduplicate, details=("kept_time",)),
    check=check,
    options=(
        Option(
            "within",
            Duration(),
            "how far in event time a duplicate may lie from the kept row, both ends included",
            default_text="for ever",
        ),
        Option(
            "keep",
            Choice(words=("first", "last", "unique")),
            "which one of several duplicates passes: the first, the last, or with 'unique' none of them",
            default="first",
            default_text="'first'",
        ),
        Option(
            "refresh",
            Flag(),
            "whether a duplicate that is dropped begins `within` anew",
            default=False,
            default_text="false",
        ),
        Option(
            "at_most",
            Duration(),
            "with `refresh`: how far past the row that passed a row may be dropped, longer than `within`",
            default_text="for ever",
        ),
        Option(
            "offset",
            Text(),
            "what tells apart the records of the source: one that is read again passes again",
            default_text="none",
        ),
        *COMMON,
    ),
    clauses={
        "PARTITION BY user_id": "what a duplicate is: rows that are equal in this",
        "ORDER BY ts": "the order in which rows are looked at, which says what the first one is",
    },
    main={
        "within": "INTERVAL 10 MINUTES",
        "keep": "'last'",
        "output": "'dropped'",
    },
    adds={
        "'rows'": "none",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `duplicate`; null: passed), `stream_time` (type of the event time), "
        "`lateness` DOUBLE (seconds), `kept_time` (type of the event time; the kept row that it duplicates)",
        "'metrics'": METRICS,
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES\n"
            "  ('ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),\n"
            "  ('ann', TIMESTAMP '2024-05-01 10:09:00', '/home'),\n"
            "  ('ann', TIMESTAMP '2024-05-01 10:11:00', '/cart'),\n"
            "  ('bob', TIMESTAMP '2024-05-01 10:05:00', '/home') AS clicks(user_id, ts, page)",
            "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES)\n"
            "ORDER BY user_id, ts",
        ),
        Example(
            "",
            "SELECT user_id, ts, reason, kept_time\nFROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts,\n"
            "                 within => INTERVAL 10 MINUTES, output => 'dropped')",
            "What was dropped, and which row it was a duplicate of:",
        ),
    ),
)
