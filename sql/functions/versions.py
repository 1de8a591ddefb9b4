"""The versions of each key that a changelog describes: from when to when each row was the valid one.

## Semantics

- **V1** A version is valid from its own event time until that of the key's next version: `[valid_from, valid_to)`, with `valid_to` null
  where it is the current one. What was valid at a time t is the row with `valid_from <= t` and `valid_to` null or larger; where there is
  none, the key did not exist, or was deleted.
- **V2** Each row of the input puts a version, in processing order. It is refused, as `too_old`, iff its time lies before stream time -
  `grace`; equality is still accepted. Stream time is the largest time among the accepted rows of all keys. A row with the key and the
  time of an earlier one replaces it, which is then `overwritten`, a deletion or not. A row that comes out of order ends where the next
  version begins, be that a deletion or not. (Kafka forgets a deletion that ended nothing.)
- **V3** With `retention`, a version that ended at or before the last stream time - `retention` is left out, as `expired`: no lookup at
  stream time - `retention` or later would find it. A current version never expires.
- **V5** Rows that `deleted` marks are tombstones: they end a version and are none. Without it they are the rows whose `change_type`, or
  Delta's `_change_type`, is `'delete'`. Delta's `update_preimage` rows are no changes and are left out before anything else (C10).
  `grace` and `retention` omitted are unlimited.
- **V8** A WHERE on a changelog does not filter the table that it describes: where a key's newest row fails the predicate, the row before
  it becomes the current one, and lives on. Write `deleted => 'NOT (predicate)'`, by which a row that fails the predicate deletes its key
  (`'(predicate) IS NOT TRUE'` where it can be null), or put the WHERE on the result of this call.

Event time is the first `ORDER BY` expression unless `time` names another: `ORDER BY ts` says that rows are in event-time order, and
nothing is too old; `ORDER BY arrival, time => 'ts'` replays arrival order.

`output => 'puts'` says what each row was told when it came: `put_status` is `current` (the newest version of its key), `superseded` (a
newer one was known, which begins at `valid_to`) or `refused`.

## Nulls, ties, late rows, empty input

A row with a null time or a null first `ORDER BY` value is dropped as `null_time`, one with a null key as `null_key`; neither moves stream
time (C12), and both are `refused` puts. A null value is a row like any other. Ties in `ORDER BY` are broken by the remaining columns, left
to right, ascending, nulls first (C4): the last of them wins. Empty input gives empty output.

`output => 'all'` has every row, `reason` null where it is a version or a tombstone, with its bounds.

## On a stream

Batch only: the end of a version lies in the future of its row (C5). A streaming input is an error.

## Guarantees

The result is a function of the set of input rows (C4). The versions of a key do not overlap. Rows, tombstones and dropped rows together
are the input.

## State and memory

One window function over each key, sorted by time, gives both bounds, and spills to disk. Stream time costs one more shuffle and sort,
where `time` differs from `ORDER BY` and `grace` or the output needs it. The event time is computed twice: for stream time, or by a filter,
which moves below it together with your own filters. `'puts'` is a kernel, since a window function cannot look for the
next larger time among the rows that came before: it holds the times of one key, 8 bytes for each of its versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.spec import (
    CLOCK_BY,
    KEYS,
    NAME,
    ORDER_BY,
    TIME,
    Example,
    Local,
    Option,
    Spec,
    apart_without,
)
from streamtime.sql.rows import kernels
from streamtime.sql.rows.changelog import DELETED, changelog, tombstones
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import expression, less, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.outcome import outcome, refuse_clash
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
    frame, clock, too_old = _judged(call, frame, takes_part, needed=wanted in ("dropped", "all", "metrics"))
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
    return outcome(call, frame, reason, clock, REASONS, bounds, shown)


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
    frame = with_stream_time(frame, moves, frame.extras.get("clock_by", ()))
    if call["grace"] is None:
        return frame, named(STREAM_TIME), F.lit(False)
    time, clock = (microseconds(quoted(name), frame.time.type) for name in (frame.time.name, STREAM_TIME))
    return frame, named(STREAM_TIME), F.coalesce(refused(expression(time), clock, call["grace"], less), F.lit(False))


def _until(call: Bound, frame: Frame, accepted: Column) -> Frame:
    """With the time of the next put of the key, in order of time: that of the row itself where it is overwritten."""
    takes_all = call["output"] == "rows"
    df = frame.df.where(accepted) if takes_all else frame.df.withColumn(ACCEPTED, accepted)
    keys = [k.column for k in frame.keys] + ([] if takes_all else [named(ACCEPTED)])
    in_time = Window.partitionBy(*keys).orderBy(frame.time.column.asc(), *frame.sort())
    following = F.lead(frame.time.column).over(in_time)
    df = df.withColumn(UNTIL, following if takes_all else F.when(named(ACCEPTED), following))
    if call["retention"] is None:
        return frame.with_df(df)
    moves = expression(microseconds(quoted(frame.time.name), frame.time.type))
    moves = moves if takes_all else F.when(named(ACCEPTED), moves)
    clocks = [c.column for c in frame.extras.get("clock_by", ())]
    return frame.with_df(df.withColumn(FINAL, F.max(moves).over(Window.partitionBy(*clocks)) if clocks else df.agg(F.max(moves)).scalar()))


def _expired(call: Bound, frame: Frame) -> Column:
    if call["retention"] is None:
        return F.lit(False)
    until = expression(microseconds(quoted(UNTIL), frame.time.type))
    return F.coalesce(gone(until, quoted(FINAL), call["retention"], less), F.lit(False))


def _puts(call: Bound, frame: Frame, accepted: Column) -> DataFrame:
    """Each row with what it was told."""
    frame, identity = frame.comparable(frame.keys)
    columns = [F.when(accepted, frame.time.column), *map(named, identity)]
    df = kernels.with_column(frame.by_key(identity, frame.sort()), UNTIL, Puts(), columns, frame.time.type)
    status = F.when(~accepted, "refused").when(named(UNTIL).isNull(), "current").otherwise("superseded")
    refuse_clash(call, frame, ("valid_to", "put_status"))
    return df.select(*frame.original(), named(UNTIL).alias("valid_to"), status.alias("put_status"))


SPEC = Spec(
    name="VERSIONS",
    summary="The versions of each key that a changelog describes: from when to when each row was the valid one.",
    rules="C1-C4, C6, C8-C12, V1-V3, V5, V8 (KIP-889, KIP-914)",
    page=__doc__,
    plan=plan,
    apart=apart_without("retention", "grace"),
    local=Local(
        judges.versions,
        details=(),
        adds=("valid_from", "valid_to"),
        of_all=("valid_from", "valid_to"),
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
    adds={
        "'rows'": "`valid_from`, `valid_to` (type of the event time; null: valid until now)",
        "'dropped'": "`reason` STRING (`null_time`, `null_key`, `too_old`, `overwritten`, `expired`), `stream_time` (type of the event "
        "time; when the row came), `lateness` DOUBLE (seconds)",
        "'all'": "`reason` (null: a version, or a tombstone), `stream_time`, `lateness`, `valid_from`, `valid_to`",
        "'puts'": "`valid_to` (type of the event time), `put_status` STRING (`current`, `superseded`, `refused`)",
        "'metrics'": "`name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns",
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW price_changes AS SELECT * FROM VALUES\n"
            "  (1, 'tea', TIMESTAMP '2024-05-01 10:00:00', 4.00),\n"
            "  (2, 'tea', TIMESTAMP '2024-05-01 12:00:00', 5.00),\n"
            "  (3, 'tea', TIMESTAMP '2024-05-01 11:00:00', 4.50),\n"
            "  (4, 'rum', TIMESTAMP '2024-05-01 11:30:00', 9.00),\n"
            "  (5, 'rum', TIMESTAMP '2024-05-01 13:00:00', NULL) AS price_changes(offset, product, ts, price)",
            "SELECT product, price, valid_from, valid_to\n"
            "FROM VERSIONS(TABLE(price_changes) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'price IS NULL')\n"
            "ORDER BY product, valid_from",
        ),
        Example(
            "",
            "SELECT offset, product, ts, valid_to, put_status\n"
            "FROM VERSIONS(TABLE(price_changes) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'price IS NULL',\n"
            "              grace => INTERVAL 30 MINUTES, output => 'puts')\nORDER BY offset",
        ),
    ),
)
