"""Keeps the first row of each key and drops its later duplicates within an interval of event time.

## Semantics

- **D1** A later row of the same key is a duplicate iff its event time lies within `within` of the **kept** row's, before or after,
  both ends included. `within => INTERVAL 0 SECONDS` drops equal times only; without `within`, a key passes once for ever.
- **D2** A dropped duplicate does not move or extend the kept row's time; `refresh => true` makes one with a larger time do so.
- **D3** What identifies a duplicate is the `PARTITION BY`: a key, a key and an id (`PARTITION BY (key, id)`), or an id over the whole
  table (`PARTITION BY id`). Without it, all rows are one identity.
- **D5** A kept row expires when stream time has passed it by more than `within`. Stream time is the largest event time seen so far over
  **all** keys; `clock_by` runs it separately per value.
- **D6** A late row (older than stream time - `within`) with no live kept row passes but is not remembered: two late duplicates both pass.
- **D7** `offset` names what identifies a source record: a row with the offset of the kept row is a redelivery and passes again. A null
  offset is always deduplicated. Over several partitions use `offset => 'struct(partition, offset)'`. Such a row leaves the kept time where
  it is, also with `refresh`.
- **D8** `keep => 'last'` keeps the last row instead: the rules over the rows in reverse order with negated times, so that `stream_time`
  is then the smallest event time from the row on. `keep => 'unique'` keeps rows that neither are dropped nor cause a drop; where a row
  causes one, its `kept_time` is its own time.

Event time is the first `ORDER BY` expression unless `time` names another: `ORDER BY ts` says that rows are in event-time order, and
nothing is late (D5 and D6 do not show). `ORDER BY offset, time => 'ts'` replays arrival order, and lateness is exact, record by record.

## Nulls, ties, late rows, empty input

A row with a null in its identity always passes, is never remembered, and does advance stream time (D4). A row with a null time or a null
first `ORDER BY` value is dropped as `null_time` (C12). Ties in `ORDER BY` are broken by the remaining columns, left to right, ascending,
nulls first (C4). Late rows: D6. Empty input gives empty output.

## On a stream

The same call over a streaming input (`TABLE(a_streaming_view)`, `TABLE(SELECT * FROM STREAM t)`) keeps each key's kept row in RocksDB and
drops it when it expires. Stream time is the watermark under which a micro-batch runs (C3): `watermark` sets its delay; without it the
input's own counts, else one without delay. The watermark lags exact stream time, so a kept row may live longer than in batch; where
micro-batches arrive in processing order and rows in event-time order, batch and stream agree, and every dropped row has a passed one
within `within` (C5). With an input's own watermark, a filter inside `TABLE(..)` slides below it. `keep => 'last'` and `'unique'`,
`clock_by`, `output => 'metrics'`, keys with a collation and columns of year-month intervals are errors. Metrics are in `observedMetrics`
of the query's progress. An option changed on an old checkpoint is an error that names it. Keys are told apart, whoever chose them.

## Guarantees

The result is a function of the set of input rows: not of files, partitions or cores (C4). `rows` and `dropped` together are exactly the
input (C6). No guarantee is made about the order of output rows.

## State and memory

Without `within`: Spark's own `row_number() = 1`. With `within`, a row's fate depends on the fate of the rows before it, which no window
function expresses: a kernel walks each key's rows, sorted by Spark, with one number of state; a key of any size needs constant memory.
Only key and times travel to it. Exact stream time, where `time` differs from `ORDER BY`, costs one more shuffle and sort,
and computes the input twice.

On a stream: 24 bytes for each key that lives (40 with `offset`), in 128 buckets, rewritten a logarithmic number of times; without
`within`, keys live for ever. The rows of a bucket in one micro-batch lie in a Python worker's memory: `maxFilesPerTrigger` and the like
bound it.

A key is kept as two numbers: its own value where it is one or two integers, times or booleans, else what a secret of the state makes of
its SHA-256. Nobody who chooses keys can make two of them equal. Many of one bucket can be chosen, which costs time and memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.kinds import Choice, Duration, Flag, Text
from streamtime.sql.call.spec import (
    COMMON,
    Example,
    Local,
    Option,
    Spec,
    apart_in_time_order,
)
from streamtime.sql.call.values import Expression
from streamtime.sql.plain import arrivals
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import expression, named, remembered
from streamtime.sql.rows.frame import PREFIX, prepare
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.sorting import hash_of, prefix
from streamtime.sql.stream.buckets import CLOCK
from streamtime.sql.stream.plan import KeyState, Needs, is_stream, judged, verdict
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
    frame, clock = decided(call, frame, time)
    reason = named(KEPT)
    if not rows_only:
        reason = F.when(~frame.has_time, "null_time").when(named(KEPT).isNotNull(), "duplicate")
    return outcome(call, frame, reason, clock, REASONS, {}, {"kept_time": named(KEPT)})


def _streaming(call: Bound, frame: Frame) -> DataFrame:
    """The same state transition, from micro-batch to micro-batch."""
    if call["keep"] != "first":
        fix = "A stream passes rows before it knows what follows: leave it out, or run the query in batch."
        raise call.refuse("`keep`", f"'{call['keep']}' is not possible on a stream (C5)", fix)
    frame, identity = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    within, refresh = HIGHEST if call["within"] is None else call["within"], bool(call["refresh"])
    frame = judged(
        call,
        frame,
        Deduplicate(within=within, refresh=refresh, offsets=2 if offset else 0),
        KeyState(
            identity,
            options={"within": call["within"], "refresh": refresh, "offset": call["offset"]},
            aside=F.when(~frame.has_time, "null_time").when(~frame.has_key, ""),
            reasons=("null_time",),
        ),
        Needs(offset=offset, results=T.StructType().add(KEPT, frame.time.type)),
    )
    return outcome(call, frame, verdict(call), named(CLOCK), REASONS, {}, {"kept_time": named(KEPT)})


def _within(call: Bound, frame: Frame, time: Column) -> tuple[Frame, Column]:
    """The kernel over rows sorted by key and processing order; where none may run, Spark's own operators."""
    if not call.kernels:
        return _plainly(call, frame, time)
    reverse, clock_by = call["keep"] == "last", frame.extras.get("clock_by", ())
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
        unique=unique,
        negate=reverse,
        has_stream_time=clocked,
        own_clock=own_clock,
        offsets=len(offset),
        hashed=hashed,
    )
    clock, keys = named(STREAM_TIME if clocked else frame.time.name), [named(i) for i in identity]
    columns = [
        time,
        *([clock] if clocked else []),
        *map(named, offset),
        *([hash_of(identity)] if hashed else []),
        *keys,
    ]
    first = [prefix(identity, STREAM_TIME if clocked else frame.time.name, frame.time.type, reverse)] if hashed else []
    ordered = frame.by_key(identity, frame.sort(reverse=reverse), first)
    return frame.with_df(kernels.with_column(ordered, KEPT, kernel, columns, frame.time.type)), clock


def _plainly(call: Bound, frame: Frame, time: Column) -> tuple[Frame, Column]:
    """The same by Spark's own operators, in any order."""
    clock, clock_by, falls = frame.time.name, frame.extras.get("clock_by", ()), False
    if not frame.in_time_order:
        frame = with_stream_time(frame, F.when(frame.has_time, time), clock_by, call["keep"] == "last")
        clock, falls = STREAM_TIME, not {c.name for c in clock_by} <= {k.name for k in frame.keys}
    if call["output"] == "rows":
        frame = frame.with_df(frame.df.where(frame.has_time)) if frame.in_time_order else frame.only(frame.has_time)
    frame, identity = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    within = HIGHEST if call["within"] is None else call["within"]
    asked = arrivals.Intervals([*dict.fromkeys(identity)], offset, within, call["keep"], bool(call["refresh"]), falls)
    return arrivals.with_kept(frame, clock, asked, KEPT), named(clock)


def _for_ever(call: Bound, frame: Frame, time: Column) -> tuple[Frame, Column]:
    """A key passes once: Spark's own window functions say it all."""
    rows_only, reverse, clock = call["output"] == "rows", call["keep"] == "last", frame.time.column
    if rows_only:
        frame = frame.with_df(frame.df.where(frame.has_time))
    elif not frame.in_time_order:
        frame, clock = with_stream_time(frame, time, frame.extras.get("clock_by", ()), reverse), named(STREAM_TIME)
    frame, names = frame.comparable(frame.keys)
    frame, offset = frame.comparable(frame.extras.get("offset", ()))
    identity = [named(n) for n in names]
    order = frame.sort(reverse=reverse)
    if rows_only and call["keep"] != "unique" and not frame.extras.get("offset"):
        # each row with a null identity stands alone; written so, Spark cuts each key to one row before the shuffle
        present = " AND ".join(f"{quoted(n)} IS NOT NULL" for n in names)
        df = frame.df.withColumn(ALONE, expression(f"if({present}, NULL, monotonically_increasing_id())"))
        keys = [*identity, named(ALONE)]

        def later() -> Column:
            return F.nullif(F.row_number().over(Window.partitionBy(*keys).orderBy(*order)), F.lit(1))

        return frame.with_df(df.withColumn(KEPT, remembered("later", [*keys, *order], later))), clock
    key = Window.partitionBy(*identity, *([] if rows_only else [frame.has_time]))
    ordered = key.orderBy(*order)
    is_duplicate = F.count(F.lit(1)).over(key) > 1 if call["keep"] == "unique" else F.row_number().over(ordered) > 1
    for same in map(named, offset):
        is_duplicate &= ~F.coalesce(F.first(same).over(ordered) == same, F.lit(False))
    kept = F.when(frame.has_key & frame.has_time & is_duplicate, F.first(time).over(ordered))
    return frame.with_df(frame.df.withColumn(KEPT, kept)), clock


def apart_of(given: Mapping[str, Any], in_time_order: bool) -> str:
    """For ever needs no stream time."""
    return apart_in_time_order(given, in_time_order or given.get("within") is None)


SPEC = Spec(
    name="DEDUPLICATE",
    summary="Keeps the first row of each key and drops its later duplicates within an interval of event time.",
    rules="C1-C9, C11, C12, D1-D8 (KIP-655)",
    page=__doc__,
    plan=plan,
    apart=apart_of,
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
            "which row of a group of duplicates passes; 'unique': none",
            default="first",
            default_text="'first'",
        ),
        Option(
            "refresh",
            Flag(),
            "whether a dropped duplicate with a larger time extends the kept row's",
            default=False,
            default_text="false",
        ),
        Option(
            "offset",
            Text(),
            "what identifies a source record: a redelivered one passes again",
            default_text="no redelivery",
        ),
        *COMMON,
    ),
    adds={
        "'rows'": "none",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `duplicate`; null: passed), `stream_time` (type of the event time), "
        "`lateness` DOUBLE (seconds), `kept_time` (type of the event time; the kept row that it duplicates)",
        "'metrics'": "`name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns",
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES\n"
            "  ('ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),\n"
            "  ('ann', TIMESTAMP '2024-05-01 10:09:00', '/home'),\n"
            "  ('ann', TIMESTAMP '2024-05-01 10:11:00', '/cart'),\n"
            "  ('bob', TIMESTAMP '2024-05-01 10:05:00', '/home') AS clicks(user_id, ts, page)",
            "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES) ORDER BY user_id, ts",
        ),
        Example(
            "",
            "SELECT user_id, ts, reason, kept_time\nFROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts,\n"
            "                 within => INTERVAL 10 MINUTES, output => 'dropped')",
        ),
    ),
)
