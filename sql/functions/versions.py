"""Makes a history out of a list of changes: from when to when each row was valid, to ask what held at a time.

## In a picture

```text
changes of tea, as they came:   10:00 4.00    12:00 5.00    11:00 4.50 (late)

        10:00         11:00         12:00
tea     |---- 4.00 ---|---- 4.50 ---|---- 5.00 --->         each ends where the next one begins
rum                      11:30 |---- 9.00 ----|  13:00      deleted then: nothing is valid
```

## What it does

Each row is a version of its key, valid from its own time until that of the key's next version. `valid_from` is in, `valid_to` is out, and
null where the version is the current one (V1). So what was valid at a time `t` is the row with `valid_from <= t AND (valid_to IS NULL OR
t < valid_to)`. If there is none, the key did not exist then, or had been deleted.

- **Changes that come late** are placed where their time belongs. `ORDER BY` is the order in which changes came, `time` when they hold:
  `ORDER BY offset, time => 'ts'`. With `ORDER BY ts` both are the same.
- **Two changes of one key and time**: the later one counts, and the other is dropped as `overwritten`, whether one of them is a deletion
  or not (V2).
- **Deletions** end a version and begin none (V5). `deleted => 'price IS NULL'` says which rows they are. Without it they are the rows
  whose `change_type`, or Delta's `_change_type`, is `'delete'`. Rows of Delta's `update_preimage` are no changes, and are left out first
  (C10).
- **How late a change may come** says `grace`: one that is older than stream time less `grace` is refused, as `too_old`. Stream time is
  the largest time of the rows that were accepted so far, of all keys (V2). Without `grace`, every change is accepted.
- **How much history is kept** says `retention`: a version that ended at or before the last stream time less `retention` is left out, as
  `expired`. A current version never is (V3). Without it, all is kept.
- **No WHERE on the input** (V8). If a key's newest row fails the condition, the row before it would become the current one and live on.
  Say `deleted => 'NOT (predicate)'`, by which a row that fails deletes its key (`'(predicate) IS NOT TRUE'` where it can be null). Or put
  the WHERE on the result.

`output => 'puts'` says of each row what it was told when it came: `current` (the newest version of its key), `superseded` (a newer one
was known, which begins at `valid_to`), or `refused`.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: dropped as `null_time`. **Null key**: dropped as `null_key`. Neither moves
  stream time (C12), and both are `refused` puts. A null value is a value like any other.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4): the last of them counts.
- **Late rows**: see above (V2). **Empty input** gives an empty result.

`output => 'all'` has every row; `reason` is null if it is a version or a deletion.

## On a stream

Batch only: the end of a version lies in the future of its row (C5). A streaming input is an error. To keep a history up to date from a
stream, write into a versioned table: [versioned tables](../versioned.md).

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). The versions of a key do not overlap. Versions, deletions
and dropped rows are together the input.

## Related functions, and the same thing elsewhere

- TABLE_HISTORY makes the same out of a Delta table's commits. AS_OF_JOIN looks the versions up for you. In data warehouses this is SCD2,
  a slowly changing dimension of type 2.
- **Kafka Streams**: a versioned state store (KIP-889). It forgets a deletion that ended nothing; this function does not.
- **Flink SQL**: a versioned table, which has no `valid_to` that could be read.
- **Plain Spark**: `lead(ts) OVER (PARTITION BY k ORDER BY ts)`, with what is said above of equal times, deletions and late rows written
  by hand. dbt has snapshots.

## Memory and state

One window function over each key, sorted by time, gives both bounds, and spills to disk. Stream time costs one more shuffle and sort,
where `time` differs from `ORDER BY` and `grace` or the output needs it. The event time is computed once, and once more for stream time or
`retention`. Of Parquet or ORC files, behind nothing but views and comparisons, your own filters move down to them. `'puts'` is a kernel,
since a window function cannot look for the next larger time among the rows that came before: it holds the times of one key, 8 bytes for
each of its versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.call.binding import refuse_clash
from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.spec import CLOCK_BY, KEYS, METRICS, NAME, ORDER_BY, TIME, Example, Local, Option, Spec, across_keys_with
from streamtime.sql.changes.runs import in_runs
from streamtime.sql.plain import known
from streamtime.sql.rows import kernels
from streamtime.sql.rows.changelog import DELETED, changelog, tombstones
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import expression, less, named
from streamtime.sql.rows.frame import PREFIX, Order
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.rows.scans import chosen
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.sql.udtf import judges
from streamtime.udfs.versions import Puts, gone, refused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

UNTIL, FINAL, ACCEPTED, TOMBSTONE = (f"{PREFIX}{name}" for name in ("until", "final", "accepted", "tombstone"))
REASONS = ("null_time", "null_key", "too_old", "overwritten", "expired")
OUTPUT = Option(
    "output",
    Choice(words=("rows", "dropped", "all", "metrics", "puts")),
    "'rows': the versions; 'dropped': rows that are none, and why; 'all': both, with a reason; 'metrics': counts; "
    "'puts': each row, and what it was told when it came",
    default="rows",
    default_text="'rows'",
)


def plan(call: Bound) -> DataFrame:
    """VERSIONS as a DataFrame."""
    if call.tables[0].df.isStreaming:
        fix = "Write the stream into a versioned table, or read its table in batch."
        raise call.refuse(None, "is not possible on a stream: when a version ends is not known when its row comes (C5)", fix)
    frame = _changes(call)
    wanted, takes_part = call["output"], frame.has_time & frame.has_key
    frame, stream_time, too_old = _judged(call, frame, takes_part, needed=wanted in ("dropped", "all", "metrics"))
    if wanted == "puts":
        return _puts(call, frame, takes_part & ~too_old)
    frame = _until(call, frame, takes_part & ~too_old)
    overwritten, expired = named(UNTIL) == frame.time.column, _expired(call, frame)
    reason = F.coalesce(
        frame.left_out, F.when(too_old, "too_old"), F.when(overwritten, "overwritten"), F.when(expired, "expired")
    )  # fmt: skip
    if wanted == "rows":
        reason = F.when(overwritten | expired | named(TOMBSTONE), "")
    bounds = {"valid_from": frame.time.column, "valid_to": named(UNTIL)}
    shown = {name: F.when(reason.isNull(), bound) for name, bound in bounds.items()} if wanted == "all" else {}
    return outcome(call, frame, reason, stream_time, REASONS, bounds, shown)


def _changes(call: Bound) -> Frame:
    """The input without what is no change, and whether each row is a tombstone."""
    frame = changelog(call)
    return frame.with_df(frame.df.withColumn(TOMBSTONE, expression(tombstones(call, frame) or "false")))


def _judged(call: Bound, frame: Frame, takes_part: Column, needed: bool) -> tuple[Frame, Column, Column]:
    """Stream time, where it is asked for, and whether a row is too old (V2)."""
    if frame.in_time_order or (not needed and call["grace"] is None):
        return frame, frame.time.column, F.lit(False)
    # a refused row lies behind stream time: it would not move it
    moves = F.when(takes_part, frame.time.column)
    frame = with_stream_time(frame, moves, frame.clocks)
    if call["grace"] is None:
        return frame, named(STREAM_TIME), F.lit(False)
    time, stream_time = (microseconds(quoted(name), frame.time.type) for name in (frame.time.name, STREAM_TIME))
    return frame, named(STREAM_TIME), F.coalesce(refused(expression(time), stream_time, call["grace"], less), F.lit(False))


def _until(call: Bound, frame: Frame, accepted: Column) -> Frame:
    """With the time of the next put of the key, in order of time: that of the row itself where it is overwritten."""
    takes_all, time = call["output"] == "rows", frame.time.column
    late = call["grace"] is not None and not frame.in_time_order
    behind = takes_all and not (frame.kernels or late)  # in plain SQL, a filter below the window would compute the time once more
    if not takes_all:
        frame, accepted = frame.with_df(frame.df.withColumn(ACCEPTED, accepted)), named(ACCEPTED)
    elif not behind:
        frame = chosen(frame, accepted)
    df, moves = frame.df, expression(microseconds(quoted(frame.time.name), frame.time.type))
    moves = F.when(accepted, moves) if behind or not takes_all else moves
    runs = in_runs(df, frame.keys, [Order(frame.time, ascending=True, nulls_first=True)], frame.sort())
    following = F.lead(time).over(runs.each() if takes_all else runs.each(ACCEPTED))
    made = runs.df.withColumn(UNTIL, following if takes_all else F.when(accepted, following))
    made = made.where(accepted) if behind else made
    if call["retention"] is None:
        return frame.with_df(made)
    clocks = [c.column for c in frame.clocks]
    final = F.max(moves).over(Window.partitionBy(*clocks)) if clocks else df.agg(F.max(moves)).scalar()  # of what is below the windows
    return frame.with_df(made.withColumn(FINAL, final))


def _expired(call: Bound, frame: Frame) -> Column:
    if call["retention"] is None:
        return F.lit(False)
    until = expression(microseconds(quoted(UNTIL), frame.time.type))
    return F.coalesce(gone(until, quoted(FINAL), call["retention"], less), F.lit(False))


def _puts(call: Bound, frame: Frame, accepted: Column) -> DataFrame:
    """Each row with what it was told."""
    frame, identity = frame.comparable(frame.keys)
    if frame.kernels:
        columns = [F.when(accepted, frame.time.column), *map(named, identity)]
        df = kernels.with_column(frame.by_key(identity, frame.sort()), UNTIL, Puts(), columns, frame.time.type)
    else:
        df = known.with_next(frame, identity, accepted, UNTIL)
    status = F.when(~accepted, "refused").when(named(UNTIL).isNull(), "current").otherwise("superseded")
    refuse_clash(call, frame.originals, ("valid_to", "put_status"))
    return df.select(*frame.original(), named(UNTIL).alias("valid_to"), status.alias("put_status"))


SPEC = Spec(
    name="VERSIONS",
    summary="Makes a history out of a list of changes: from when to when each row was valid, to ask what held at a time.",
    rules="C1-C6, C8-C12, V1-V3, V5, V8 (KIP-889, KIP-914)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_with("retention", "grace"),
    local=Local(
        judges.versions,
        details=(),
        adds=("valid_from", "valid_to"),
        of_all=("valid_from", "valid_to"),
        of_every_row={"puts": ("valid_to", "put_status")},
        texts=("put_status",),
        changes=True,
        without_key="null_key",
    ),
    options=(
        Option("retention", Duration(), "how far back before the last stream time versions are kept", default_text="unlimited"),
        Option("grace", Duration(), "how far behind stream time a row may come and still be a version", default_text="unlimited"),
        DELETED,
        KEYS,
        ORDER_BY,
        TIME,
        CLOCK_BY,
        OUTPUT,
        NAME,
    ),
    clauses={
        "PARTITION BY product": "the key: whose versions these are",
        "ORDER BY offset": "the order in which changes came",
    },
    main={
        "time": "'ts'",
        "deleted": "'price IS NULL'",
    },
    adds={
        "'rows'": "`valid_from`, `valid_to` (type of the event time; null: valid until now)",
        "'dropped'": "`reason` STRING (`null_time`, `null_key`, `too_old`, `overwritten`, `expired`), `stream_time` (type of the event "
        "time; when the row came), `lateness` DOUBLE (seconds)",
        "'all'": "`reason` (null: a version, or a tombstone), `stream_time`, `lateness`, `valid_from`, `valid_to`",
        "'puts'": "`valid_to` (type of the event time), `put_status` STRING (`current`, `superseded`, `refused`)",
        "'metrics'": METRICS,
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW price_changes AS SELECT * FROM VALUES\n"
            "  (1, 'tea', TIMESTAMP '2024-05-01 10:00:00', 4.00), (2, 'tea', TIMESTAMP '2024-05-01 12:00:00', 5.00),\n"
            "  (3, 'tea', TIMESTAMP '2024-05-01 11:00:00', 4.50), (4, 'rum', TIMESTAMP '2024-05-01 11:30:00', 9.00),\n"
            "  (5, 'rum', TIMESTAMP '2024-05-01 13:00:00', NULL) AS price_changes(offset, product, ts, price)",
            "SELECT product, price, valid_from, valid_to\n"
            "FROM VERSIONS(TABLE(price_changes) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'price IS NULL')\n"
            "ORDER BY product, valid_from",
        ),
        Example(
            "",
            "SELECT offset, product, ts, valid_to, put_status\n"
            "FROM VERSIONS(TABLE(price_changes) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'price IS NULL',\n"
            "              grace => INTERVAL 30 MINUTES, output => 'puts')\n"
            "ORDER BY offset",
            "With half an hour of grace, change 3 comes too late. What each change was told when it came:",
        ),
    ),
)
