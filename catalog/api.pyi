"""Written by `python3 run.py pages` from the SPECs; not by hand."""

import datetime
from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

__all__ = [  # noqa: RUF022 - as on the shelf
    "deduplicate",
    "distinct_in_window",
    "sessionize",
    "session_updates",
    "window_updates",
    "suppress_until_close",
    "suppress_until_time_limit",
    "as_of_join",
    "join_changes",
    "aggregate_changes",
    "filter_changes",
    "versions",
    "table_history",
    "assign_tasks",
]

def deduplicate(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    within: datetime.timedelta | None = None,
    keep: Literal["first", "last", "unique"] = "first",
    refresh: bool = False,
    offset: str | None = None,
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Keeps the first row of each key and drops its later duplicates within an interval of event time.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        within: how far in event time a duplicate may lie from the kept row, both ends included. Default: for ever.
        keep: which row of a group of duplicates passes; 'unique': none. Default: 'first'.
        refresh: whether a dropped duplicate with a larger time extends the kept row's. Default: False.
        offset: what identifies a source record: a redelivered one passes again. Default: no redelivery.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts.
            Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': none.
            'dropped', 'all': `reason` STRING (`null_time`, `duplicate`; null: passed), `stream_time` (type of the event
                time), `lateness` DOUBLE (seconds), `kept_time` (type of the event time; the kept row that it
                duplicates).
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def distinct_in_window(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    size: datetime.timedelta | None = None,
    slide: datetime.timedelta | None = None,
    gap: datetime.timedelta | None = None,
    grace: datetime.timedelta = datetime.timedelta(0),
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Keeps the first row of each key in each window: tumbling, hopping or session windows.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        size: the length of a time window. Default: none.
        slide: how far apart windows start, at most `size`. Default: size.
        gap: the largest distance between neighbours in a session, included. Default: none.
        grace: how long past its end a window still accepts rows. Default: timedelta(0).
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts.
            Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': `window_start`, `window_end` (type of the event time; TIMESTAMP_NTZ where that is DATE and `size` is
                given).
            'dropped', 'all': `reason` STRING (`null_time`, `null_key`, `late`, `duplicate`; null: passed),
                `stream_time` (type of the event time), `lateness` DOUBLE (seconds), `window_start`, `window_end`.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def sessionize(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    gap: datetime.timedelta,
    grace: datetime.timedelta | None = None,
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics", "explain"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Gives every row the final bounds and the id of its session: rows of a key with no gap larger than `gap` between them.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        gap: the largest distance between neighbours in a session, included.
        grace: how long past its end and `gap` a session still accepts rows; without it, no row is late. Default: none:
            no row is late.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts;
            'explain': every row, what it did when it came, and why. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': `session_start`, `session_end` (type of the event time, both inclusive), `session_id` STRING.
            'dropped': `reason` STRING (`null_time`, `null_key`, `late`), `stream_time` (type of the event time),
                `lateness` DOUBLE (seconds).
            'all': those of `'dropped'`, null where the row passed, then those of `'rows'`, null where it did not.
            'explain': `outcome` STRING (`opened`, `joined`, `merged`, `late`, `null_time`, `null_key`), `stream_time`,
                `session_start`, `session_end` (as they stood right after the row; of a late row, those of the session
                that it would have opened), `explanation` STRING.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def session_updates(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    gap: datetime.timedelta,
    grace: datetime.timedelta = datetime.timedelta(0),
    aggregates: str,
    emit: Literal["updates", "final"] = "updates",
    at_end: Literal["hold", "emit"] = "hold",
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics", "explain"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Aggregates over sessions, as the changelog that a session table emits, or as one final row for each session.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        gap: the largest distance between neighbours in a session, included.
        grace: how long past its end a window still accepts rows. Default: timedelta(0).
        aggregates: what to compute, each with AS and a name: count, sum, avg, min, max, first, last, collect_list.
        emit: 'updates': a change for each row; 'final': one row for each window, once it is closed, as
            suppress_until_close gives it. Default: 'updates'.
        at_end: with emit="final", in batch: what happens to windows that are open when the input ends. Default: 'hold'.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': the changes; 'dropped': input rows that came late or have no time or key; 'all': every input
            row, with a reason where it was dropped; 'metrics': counts; 'explain': every input row, and what it did to
            its window. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': in place of the input's columns: keys, `clock_by` and ORDER BY columns, `session_start`,
                `session_end` (type of the event time; TIMESTAMP_NTZ where that is DATE), the aggregates, `window_close`
                (as the bounds), `change_type` STRING ('upsert', 'delete'), `change_time` (as the bounds), `change_seq`
                BIGINT; with emit => 'final' also `emit_time` (as the bounds), `emit_reason` STRING (`close`, `end`).
            'dropped', 'all': `reason` STRING (`null_time`, `null_key`, `late`; null: taken), `stream_time` (type of the
                event time), `lateness` DOUBLE (seconds), `session_start`, `session_end`.
            'explain': `outcome` STRING (`opened`, `joined`, `merged`, `late`, `null_time`, `null_key`), `stream_time`,
                `session_start`, `session_end`, `explanation` STRING.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def window_updates(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    size: datetime.timedelta | None = None,
    slide: datetime.timedelta | None = None,
    difference: datetime.timedelta | None = None,
    grace: datetime.timedelta = datetime.timedelta(0),
    aggregates: str,
    emit: Literal["updates", "final"] = "updates",
    at_end: Literal["hold", "emit"] = "hold",
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics", "explain"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Aggregates over tumbling, hopping or sliding windows: a change for each row, or one final row for each window.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        size: the length of a window. Default: none.
        slide: how far apart windows start, at most `size`. Default: size.
        difference: the largest distance between rows of a sliding window, included. Default: none.
        grace: how long past its end a window still accepts rows. Default: timedelta(0).
        aggregates: what to compute, each with AS and a name: count, sum, avg, min, max, first, last, collect_list.
        emit: 'updates': a change for each row; 'final': one row for each window, once it is closed, as
            suppress_until_close gives it. Default: 'updates'.
        at_end: with emit="final", in batch: what happens to windows that are open when the input ends. Default: 'hold'.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': the changes; 'dropped': input rows that came late or have no time or key; 'all': every input
            row, with a reason where it was dropped; 'metrics': counts; 'explain': every input row, and what it did to
            its window. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': in place of the input's columns: keys, `clock_by` and ORDER BY columns, `window_start`, `window_end`
                (type of the event time; TIMESTAMP_NTZ where that is DATE), the aggregates, `window_close` (as the
                bounds), `change_type` STRING ('upsert'), `change_time` (as the bounds), `change_seq` BIGINT; with emit
                => 'final' also `emit_time` (as the bounds), `emit_reason` STRING (`close`, `end`).
            'dropped', 'all': `reason` STRING (`null_time`, `null_key`, `late`; null: taken), `stream_time` (type of the
                event time), `lateness` DOUBLE (seconds), `window_start`, `window_end`.
            'explain': `outcome` STRING (`opened`, `joined`, `late`, `null_time`, `null_key`), `stream_time`,
                `window_start`, `window_end`, `explanation` STRING.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def suppress_until_close(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    window_end: str | None = None,
    grace: datetime.timedelta | None = None,
    gap: datetime.timedelta | None = None,
    deleted: str | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: Literal["fail", "spill", "emit_early"] | None = None,
    at_end: Literal["hold", "emit"] | None = None,
    clock: Literal["event", "wall"] = "event",
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics", "explain"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Lets one final result per key and window through, when the window closes.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        window_end: the end of a row's window. Default: none: the column `window_close` says when it closes.
        grace: how long past its end a window still accepts rows. Default: timedelta(0).
        gap: for sessions: the largest distance between neighbours in one. Default: none: time windows.
        deleted: marks tombstones: changes that delete their key. Default: change_type = 'delete' or _change_type =
            'delete', where such a column exists.
        max_records: how many rows the buffer may hold. Default: no bound.
        max_bytes: how many bytes the rows in the buffer may have: 8 for each column of fixed width, else the length in
            UTF-8 or binary. Default: no bound.
        when_full: what happens when the buffer holds more than its bound; required with one: 'fail', or 'spill' to
            files ('emit_early' is refused here). Default: none.
        at_end: in batch, what happens at the end of the input to rows that are still held. Default: 'hold'.
        clock: on a stream, what stream time is: 'event', the watermark, or 'wall', the time of day, by which an idle
            stream releases too. Default: 'event'.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': what comes out; 'dropped': what does not, and why; 'all': both, with a reason; 'metrics':
            counts; 'explain': each row, and what became of it, when, and which row decided that. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': `emit_time` (type of the event time: the stream time that released the row), `emit_reason` STRING
                (`close`, `end`).
            'dropped': `reason` STRING (`null_time`, `replaced`, `tombstone`, `held`), `stream_time` (type of the event
                time; when the row came), `lateness` DOUBLE (seconds).
            'all': `reason` (null: it came out), `stream_time`, `lateness`, `emit_time`, `emit_reason`.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.
            'explain': `outcome` STRING (`released`, `replaced`, `tombstone`, `held`, `null_time`), `stream_time` (when
                the row came), `decided_at` (stream time when that was decided; null: it never was), `decided_by` STRING
                (the `ORDER BY` values of the row whose arrival decided it, as JSON; null: the end of the input),
                `explanation` STRING.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def suppress_until_time_limit(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    wait: datetime.timedelta | None = None,
    restart_timer: bool = False,
    deleted: str | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: Literal["fail", "spill", "emit_early"] | None = None,
    at_end: Literal["hold", "emit"] | None = None,
    clock: Literal["event", "wall"] = "event",
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics", "explain"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Lets at most one change per key through in each interval of event time: the newest, once the interval is over.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        wait: how long a key waits for further changes, from its first held one. Default: none: a bound is needed.
        restart_timer: refused: see S3. Default: False.
        deleted: marks tombstones: changes that delete their key. Default: change_type = 'delete' or _change_type =
            'delete', where such a column exists.
        max_records: how many rows the buffer may hold. Default: no bound.
        max_bytes: how many bytes the rows in the buffer may have: 8 for each column of fixed width, else the length in
            UTF-8 or binary. Default: no bound.
        when_full: what happens when the buffer holds more than its bound; required with one: 'emit_early' lets the
            oldest out, 'fail' ends the query, 'spill' writes to files. Default: none.
        at_end: in batch, what happens at the end of the input to rows that are still held. Default: 'emit'.
        clock: on a stream, what stream time is: 'event', the watermark, or 'wall', the time of day, by which an idle
            stream releases too. Default: 'event'.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': what comes out; 'dropped': what does not, and why; 'all': both, with a reason; 'metrics':
            counts; 'explain': each row, and what became of it, when, and which row decided that. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': `emit_time` (type of the event time: the stream time that released the row), `emit_reason` STRING
                (`time`, `full`, `end`).
            'dropped': `reason` STRING (`null_time`, `replaced`, `held`), `stream_time` (type of the event time; when
                the row came), `lateness` DOUBLE (seconds).
            'all': `reason` (null: it came out), `stream_time`, `lateness`, `emit_time`, `emit_reason`.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.
            'explain': `outcome` STRING (`released`, `replaced`, `tombstone`, `held`, `null_time`), `stream_time` (when
                the row came), `decided_at` (stream time when that was decided; null: it never was), `decided_by` STRING
                (the `ORDER BY` values of the row whose arrival decided it, as JSON; null: the end of the input),
                `explanation` STRING.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def as_of_join(
    left: DataFrame,
    right: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    join_type: Literal["inner", "left"] = "inner",
    on: str | None = None,
    using: str | Sequence[str] | None = None,
    match: str | None = None,
    history: str | None = None,
    at: str | None = None,
    unit: Literal["timestamp", "version"] | None = None,
    direction: Literal["backward", "forward", "nearest"] | None = None,
    tolerance: datetime.timedelta | None = None,
    allow_exact: bool | None = None,
    ties: Literal["last", "first", "error"] | None = None,
    deleted: str | None = None,
    arrival: str | None = None,
    retention: datetime.timedelta | None = None,
    grace: datetime.timedelta | None = None,
    at_end: Literal["hold", "emit"] | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Joins each row with the version of another table's row that was valid at its own time.

    Args:
        left: the rows of the left side.
        right: the rows of the right side.
        keys: the keys. Default: none.
        order_by: the processing order. Default: none.
        join_type: 'inner': a row without a match is dropped; 'left': it stays, with nulls. Default: 'inner'.
        on: the condition of the join, in place of keys: equalities of the sides are the keys, the rest filters what was
            picked. Default: none.
        using: names of key columns that both sides have; the result has them once, and first. Default: none.
        match: the comparison of the times, in place of order_by: 'l.ts >= r.ts' looks back, '<=' ahead; '>' and '<'
            leave equal times out. Default: none.
        history: the name of the right side's Delta table, to look up in its history: by event time where it declares
            that it is versioned, else by commit. Default: none.
        at: with `history`: the time to look up, over the left side's columns. Default: none.
        unit: with `history`: whether `at` is a time or the number of a commit. Default: 'timestamp'.
        direction: where to look for a match: at or before the row's time, at or after it, or the nearer of both.
            Default: 'backward'.
        tolerance: how far a match may lie from the row's time, included. Default: any distance.
        allow_exact: whether a right row of the very same time matches. Default: True.
        ties: which of several right rows with one key and time counts; 'error' fails the query where a match depends on
            it. Default: 'last'.
        deleted: true for right rows that delete their key: from then on nothing matches. Default: none.
        arrival: an expression that both sides have, in one common order: only versions that had arrived before the row
            count. Default: none.
        retention: with `arrival`: how far the right side's history reaches back from its stream time; older right rows
            never existed. Default: unlimited.
        grace: with `arrival`: how long a left row waits, on the left side's clock, before it is looked up. Default:
            none: at once.
        at_end: with `grace`: what happens to rows that wait when the input ends. Default: 'emit'.
        clock_by: with `arrival`: runs the clocks separately per value of these, which are among the left keys. Default:
            one clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: the input's own, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts.
            Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': the right side's columns, after the left side's; those of `using` once, and first.
            'dropped': after the left side's columns: `reason` STRING (`null_time`, `null_key`, `no_match`, `expired`,
                `held`, `before_history`), `stream_time` (the row's own time), `lateness` DOUBLE (seconds).
            'all': those of `'rows'`, null where there is no match, then those of `'dropped'`, null where the row
                passed.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def join_changes(
    left: DataFrame,
    right: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    join_type: Literal["inner", "left", "outer"] = "inner",
    on: str | None = None,
    time: str | None = None,
    versioned: str | Sequence[str] | None = None,
    retention: datetime.timedelta | None = None,
    deleted: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    output: Literal["rows", "dropped", "all", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Joins two changelogs: what each change does to the joined table, as a changelog.

    Args:
        left: the rows of the left side.
        right: the rows of the right side.
        keys: the keys. Default: none.
        order_by: the processing order.
        join_type: 'inner': rows that both sides have; 'left': all of the left side; 'outer': all of both. Default:
            'inner'.
        on: the left side's columns that name a row of the right side (a foreign key), where the sides have keys of
            their own. Default: none: both sides have one key.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        versioned: sides whose changes can come out of order, and are ignored then: 'left', 'right'. Default: none:
            changes apply as they come.
        retention: with `versioned`: how far behind stream time a change may come. Default: unlimited.
        deleted: marks tombstones: changes that delete their key. Default: change_type = 'delete' or _change_type =
            'delete', where such a column exists.
        clock_by: with `retention`: runs stream time separately per value of these, which are among the left keys.
            Default: one clock for the whole input.
        output: 'rows': the changes of the join; 'dropped': changes that were ignored, and why; 'all': every change,
            with a reason where it was; 'explain': every change, and what it did; 'metrics': counts. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': in place of the inputs' columns: keys and ORDER BY columns, the left side's other columns, the right
                side's, `change_type` STRING (`upsert`, `delete`), `change_time` (type of the event time), `change_seq`
                BIGINT.
            'dropped', 'all': the same without `change_*`, with the time before the left side's columns, then `side`
                STRING (`left`, `right`), `reason` STRING (`null_time`, `null_key`, `too_old`, `out_of_order`; null:
                applied), `stream_time` (type of the event time), `lateness` DOUBLE (seconds).
            'explain': the columns of 'all' up to `side`, then `outcome` STRING (`joined`, `alone`, `withdrew`, `waits`,
                `nothing`, or a reason), `stream_time`, `explanation` STRING.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the inputs' columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def aggregate_changes(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    group_by: str | Sequence[str],
    aggregates: str,
    time: str | None = None,
    versioned: bool = False,
    retention: datetime.timedelta | None = None,
    deleted: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    output: Literal["rows", "dropped", "all", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Keeps totals of a changelog: counts, sums, averages, smallest and largest values per group, as a changelog.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        group_by: the columns by which rows are added up.
        aggregates: what to compute, each with AS and a name: count, sum, avg, min, max.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        versioned: changes can come out of order, and are ignored then. Default: False.
        retention: with `versioned`: how far behind stream time a change may come. Default: unlimited.
        deleted: marks tombstones: changes that delete their key. Default: change_type = 'delete' or _change_type =
            'delete', where such a column exists.
        clock_by: with `retention`: runs stream time separately per value of these. Default: one clock for the whole
            input.
        output: 'rows': the changes of the groups; 'dropped': changes that were ignored, and why; 'all': every change,
            with a reason where it was; 'explain': every change, and what it did; 'metrics': counts. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': in place of the input's columns: `group_by`, `clock_by` and ORDER BY columns, the aggregates (types
                as Spark's), `change_type` STRING (`upsert`, `delete`), `change_time` (type of the event time),
                `change_seq` BIGINT.
            'dropped', 'all': `reason` STRING (`null_time`, `null_key`, `too_old`, `out_of_order`; null: applied),
                `stream_time` (type of the event time), `lateness` DOUBLE (seconds).
            'explain': `outcome` STRING (`added`, `changed`, `moved`, `removed`, `no_group`, `nothing`, or a reason),
                `stream_time`, `explanation` STRING.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def filter_changes(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    condition: str,
    time: str | None = None,
    versioned: bool = False,
    retention: datetime.timedelta | None = None,
    deleted: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    output: Literal["rows", "dropped", "all", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Filters the table that a changelog describes, as a changelog: a row that no longer passes is deleted.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        condition: what a row must be to stay.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        versioned: changes can come out of order, and their times count: all that do not pass leave as deletes. Default:
            False.
        retention: with `versioned`: how far behind stream time a change may come. Default: unlimited.
        deleted: marks tombstones: changes that delete their key. Default: change_type = 'delete' or _change_type =
            'delete', where such a column exists.
        clock_by: with `retention`: runs stream time separately per value of these. Default: one clock for the whole
            input.
        output: 'rows': the changes; 'dropped': changes that were ignored, and why; 'all': every change, with a reason
            where it was; 'explain': every change, and what it did; 'metrics': counts. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': `change_type` STRING (`upsert`, `delete`), `change_time` (type of the event time), `change_seq`
                BIGINT.
            'dropped', 'all': `reason` STRING (`null_time`, `null_key`, `too_old`; null: applied), `stream_time` (type
                of the event time), `lateness` DOUBLE (seconds).
            'explain': `outcome` STRING (`passed`, `withdrew`, `nothing`, or a reason), `stream_time`, `explanation`
                STRING.
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def versions(
    df: DataFrame,
    *,
    keys: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
    retention: datetime.timedelta | None = None,
    grace: datetime.timedelta | None = None,
    deleted: str | None = None,
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    output: Literal["rows", "dropped", "all", "metrics", "puts"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """The versions of each key that a changelog describes: from when to when each row was the valid one.

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        retention: how far back before the last stream time versions are kept. Default: unlimited.
        grace: how far behind stream time a row may come and still be a version. Default: unlimited.
        deleted: marks tombstones: changes that delete their key. Default: change_type = 'delete' or _change_type =
            'delete', where such a column exists.
        time: event time: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: runs stream time separately per value of these, as in a topic with partitions. Default: one clock for
            the whole input.
        output: 'rows': the versions; 'dropped': rows that are none, and why; 'all': both, with a reason; 'metrics':
            counts; 'puts': each row, and what it was told when it came. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        The input's columns, unchanged, then, as `output` says:
            'rows': `valid_from`, `valid_to` (type of the event time; null: valid until now).
            'dropped': `reason` STRING (`null_time`, `null_key`, `too_old`, `overwritten`, `expired`), `stream_time`
                (type of the event time; when the row came), `lateness` DOUBLE (seconds).
            'all': `reason` (null: a version, or a tombstone), `stream_time`, `lateness`, `valid_from`, `valid_to`.
            'puts': `valid_to` (type of the event time), `put_status` STRING (`current`, `superseded`, `refused`).
            'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING, in place of the input's columns.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def table_history(
    spark: SparkSession,
    table: str,
    *,
    from_: int | str | datetime.date | None = None,
    to: int | str | datetime.date | None = None,
    keys: str | Sequence[str] | None = None,
) -> DataFrame:
    """The versions of each key of a Delta table by commit: which row was the key's, from which commit to which.

    Args:
        spark: the session.
        table: the name of a Delta table, 'catalog.schema.table'.
        from_: the first commit of a range, by number or by time. Default: the first commit.
        to: the last commit of a range, by number or by time, included. Default: the last commit.
        keys: the columns by which rows are told apart. Default: the table's property `streamtime.key`.

    Returns:
        The table's columns, then `valid_from` TIMESTAMP, `valid_to` TIMESTAMP (of the commits; null: current),
            `from_version` BIGINT, `to_version` BIGINT.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """

def assign_tasks(
    tasks: DataFrame,
    members: DataFrame,
    current: DataFrame | None = None,
    *,
    strategy: Literal["sticky", "high_availability"] = "sticky",
    standbys: int = 0,
    acceptable_lag: int = 10000,
    max_warmups: int = 2,
    handover: Literal["warm", "immediate"] = "warm",
    preserve_active: bool = False,
    tags: str | Sequence[str] | None = None,
    rounds: int = 1,
    output: Literal["rows", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Says which worker runs which task: shards, tenants or streaming queries over members, with as few moves as may be.

    Args:
        tasks: the tasks, with `task`, and maybe `stateful`, `cost`.
        members: who can run them, with `member`, and maybe `threads`, `alive`, columns that `tags` names.
        current: who has what now, with `task`, `member`, and maybe `role`, `lag`; none: nothing runs yet.
        strategy: 'sticky': tasks stay where they are, as far as members stay balanced; 'high_availability': they are
            dealt by their names. Default: 'sticky'.
        standbys: how many standbys each task with state has. Default: 0.
        acceptable_lag: by how many records a copy may lag and still take over at once. Default: 10000.
        max_warmups: how many warm-ups may run at a time. Default: 2.
        handover: 'warm': a task waits where it is until its new member has caught up; 'immediate': it moves at once.
            Default: 'warm'.
        preserve_active: tasks never leave a member that is alive. Default: False.
        tags: columns of `members`, such as a zone or a rack: copies of a task lie apart by them. Default: none.
        rounds: how many rounds to plan, if that many change anything. Default: 1.
        output: 'rows': the plan; 'explain': with the reason for each row; 'metrics': numbers for each round. Default:
            'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        `task` (as in `tasks`), `member` (as in `members`), `role` STRING (`active`, `standby`, `warmup`), `action`
            STRING (`keep`, `assign`, `revoke`, `warm_up`, `promote`), `round` INT.
        The same, then `lag` BIGINT (records; null: not known), `why` STRING.
        `name` STRING, `round` INT, `metric` STRING, `value` DOUBLE, `unit` STRING.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """
