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
    at_most: datetime.timedelta | None = None,
    offset: str | None = None,
    time: str | None = None,
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Keeps the first row of each key and drops its later duplicates: use it where one event can come more than once.

    Example:
        streamtime.deduplicate(df, keys=["k"], order_by=["ts"], within=timedelta(minutes=10))

        In SQL:

        CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES
          ('ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),
          ('ann', TIMESTAMP '2024-05-01 10:09:00', '/home'),
          ('ann', TIMESTAMP '2024-05-01 10:11:00', '/cart'),
          ('bob', TIMESTAMP '2024-05-01 10:05:00', '/home') AS clicks(user_id, ts, page);

        SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES)
        ORDER BY user_id, ts;

        user_id  ts                   page
        ann      2024-05-01 10:00:00  /home
        ann      2024-05-01 10:11:00  /cart
        bob      2024-05-01 10:05:00  /home

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        within: how far in event time a duplicate may lie from the kept row, both ends included. Default: for ever.
        keep: which one of several duplicates passes: the first, the last, or with 'unique' none of them. Default:
            'first'.
        refresh: whether a duplicate that is dropped begins `within` anew. Default: False.
        at_most: with `refresh`: how far past the row that passed a row may be dropped, longer than `within`. Default:
            for ever.
        offset: what tells apart the records of the source: one that is read again passes again. Default: none.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts.
            Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns.
        'dropped', 'all': the input's columns, then `reason` STRING (`null_time`, `duplicate`; null: passed),
            `stream_time` (type of the event time), `lateness` DOUBLE (seconds), `kept_time` (type of the event time;
            the kept row that it duplicates).
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    """Keeps the first row of each key in each window of time, such as once per hour, per day or per visit.

    Example:
        streamtime.distinct_in_window(df, keys=["k"], order_by=["ts"], size=timedelta(hours=1))

        In SQL:

        CREATE OR REPLACE TEMP VIEW readings AS SELECT * FROM VALUES
          ('a', TIMESTAMP '2024-05-01 10:01:00', 20.5),
          ('a', TIMESTAMP '2024-05-01 10:04:00', 20.6),
          ('a', TIMESTAMP '2024-05-01 10:12:00', 21.0),
          ('b', TIMESTAMP '2024-05-01 10:09:00', 18.2) AS readings(sensor, ts, degrees);

        SELECT sensor, ts, window_start, window_end
        FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY ts, size => INTERVAL 10 MINUTES)
        ORDER BY sensor, ts;

        sensor  ts                   window_start         window_end
        a       2024-05-01 10:01:00  2024-05-01 10:00:00  2024-05-01 10:10:00
        a       2024-05-01 10:12:00  2024-05-01 10:10:00  2024-05-01 10:20:00
        b       2024-05-01 10:09:00  2024-05-01 10:00:00  2024-05-01 10:10:00

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        size: the length of a time window; this or `gap` must be given. Default: none.
        slide: how far apart windows start, at most `size`. Default: `size`: windows do not overlap.
        gap: the longest pause within a visit, included; in place of `size`. Default: none: time windows.
        grace: how long past its end a window still accepts rows; a visit, past its end and `gap`. Default:
            timedelta(0).
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts.
            Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns, then `window_start`, `window_end` (type of the event time; TIMESTAMP_NTZ where that
            is DATE and `size` is given).
        'dropped', 'all': the input's columns, then `reason` STRING (`null_time`, `null_key`, `late`, `duplicate`; null:
            passed), `stream_time` (type of the event time), `lateness` DOUBLE (seconds), `window_start`, `window_end`.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    """Finds visits: gives every row the start, end and id of its session, which ends where a key pauses for longer than `gap`.

    Example:
        streamtime.sessionize(df, keys=["k"], order_by=["ts"], gap=timedelta(minutes=30))

        In SQL:

        CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES
          (1, 'ann', TIMESTAMP '2024-05-01 10:00:00'), (2, 'ann', TIMESTAMP '2024-05-01 10:40:00'),
          (3, 'bob', TIMESTAMP '2024-05-01 10:41:00'), (4, 'ann', TIMESTAMP '2024-05-01 10:20:00'),
          (5, 'bob', TIMESTAMP '2024-05-01 13:00:00') AS clicks(offset, user_id, ts);

        SELECT user_id, ts, session_start, session_end, session_id
        FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 30 MINUTES) ORDER BY user_id, ts;

        user_id  ts                   session_start        session_end          session_id
        ann      2024-05-01 10:00:00  2024-05-01 10:00:00  2024-05-01 10:40:00  ann@2024-05-01 10:00:00
        ann      2024-05-01 10:20:00  2024-05-01 10:00:00  2024-05-01 10:40:00  ann@2024-05-01 10:00:00
        ann      2024-05-01 10:40:00  2024-05-01 10:00:00  2024-05-01 10:40:00  ann@2024-05-01 10:00:00
        bob      2024-05-01 10:41:00  2024-05-01 10:41:00  2024-05-01 10:41:00  bob@2024-05-01 10:41:00
        bob      2024-05-01 13:00:00  2024-05-01 13:00:00  2024-05-01 13:00:00  bob@2024-05-01 13:00:00

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        gap: the largest distance between neighbours in a session, included.
        grace: how long past its end and `gap` a session still accepts rows; without it, no row is late. Default: none:
            no row is late.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts;
            'explain': every row, what it did when it came, and why. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns, then `session_start`, `session_end` (type of the event time, both inclusive),
            `session_id` STRING.
        'dropped': the input's columns, then `reason` STRING (`null_time`, `null_key`, `late`), `stream_time` (type of
            the event time), `lateness` DOUBLE (seconds).
        'all': the input's columns, then those of `'dropped'`, null where the row passed, then those of `'rows'`, null
            where it did not.
        'explain': the input's columns, then `outcome` STRING (`opened`, `joined`, `merged`, `late`, `null_time`,
            `null_key`), `stream_time`, `session_start`, `session_end` (as they stood right after the row; of a late
            row, those of the session that it would have opened), `explanation` STRING.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    """Totals per session, such as per visit: a row for each session once it is over, or a change whenever a row comes.

    Example:
        streamtime.session_updates(df, keys=["k"], order_by=["ts"], gap=timedelta(minutes=30), aggregates="count(*) AS n")

        In SQL:

        CREATE OR REPLACE TEMP VIEW views AS SELECT * FROM VALUES
          (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),
          (2, 'ann', TIMESTAMP '2024-05-01 10:40:00', '/cart'),
          (3, 'ann', TIMESTAMP '2024-05-01 10:20:00', '/shoes'),
          (4, 'bob', TIMESTAMP '2024-05-01 12:00:00', '/home') AS views(id, visitor, ts, page);

        SELECT visitor, session_start, session_end, n, emit_time, emit_reason
        FROM SESSION_UPDATES(TABLE(views) PARTITION BY visitor ORDER BY ts, gap => INTERVAL 30 MINUTES,
                             aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit')
        ORDER BY visitor;

        visitor  session_start        session_end          n  emit_time            emit_reason
        ann      2024-05-01 10:00:00  2024-05-01 10:40:00  3  2024-05-01 12:00:00  close
        bob      2024-05-01 12:00:00  2024-05-01 12:00:00  1  2024-05-01 12:00:00  end

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        gap: the largest distance between neighbours in a session, included.
        grace: how long past its end and `gap` a session still accepts rows. Default: timedelta(0).
        aggregates: what to compute, each with AS and a name: count, sum, avg, min, max, first, last, collect_list.
        emit: 'updates': a change for each row; 'final': one row for each window or session, once it is closed, as
            suppress_until_close gives it. Default: 'updates'.
        at_end: with emit="final", in batch: what happens to windows and sessions that are open when the input ends.
            Default: 'hold'.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': the changes; 'dropped': input rows that came late or have no time or key; 'all': every input
            row, with a reason where it was dropped; 'metrics': counts; 'explain': every input row, and what it did to
            its window or session. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': keys, `clock_by` and ORDER BY columns, `session_start`, `session_end` (type of the event time;
            TIMESTAMP_NTZ where that is DATE), the aggregates, `window_close` (as the bounds), `change_type` STRING
            ('upsert', 'delete'), `change_time` (as the bounds), `change_seq` BIGINT.
        'rows', emit => 'final': keys, `clock_by` columns, `session_start`, `session_end`, the aggregates,
            `window_close`, the ORDER BY columns of the last row, `change_type`, `change_time`, `change_seq`,
            `emit_time` (as the bounds), `emit_reason` STRING (`close`, `end`).
        'dropped', 'all': the input's columns, then `reason` STRING (`null_time`, `null_key`, `late`; null: taken),
            `stream_time` (type of the event time), `lateness` DOUBLE (seconds), `session_start`, `session_end`.
        'explain': the input's columns, then `outcome` STRING (`opened`, `joined`, `merged`, `late`, `null_time`,
            `null_key`), `stream_time`, `session_start`, `session_end`, `explanation` STRING.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    """Totals per window of time, such as per hour, that stay right when rows come late: as changes, or as final rows.

    Example:
        streamtime.window_updates(df, keys=["k"], order_by=["ts"], size=timedelta(hours=1), aggregates="count(*) AS n")

        In SQL:

        CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
          (1, 'ann', TIMESTAMP '2024-05-01 10:01:00', 20.00), (2, 'ann', TIMESTAMP '2024-05-01 10:07:00', 5.00),
          (3, 'bob', TIMESTAMP '2024-05-01 10:12:00', 8.50),
          (4, 'ann', TIMESTAMP '2024-05-01 10:08:00', 1.00) AS orders(id, customer, ts, amount);

        SELECT customer, window_start, n, total, emit_time, emit_reason
        FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts',
                            size => INTERVAL 10 MINUTES, grace => INTERVAL 1 MINUTE, emit => 'final', at_end => 'emit',
                            aggregates => 'count(*) AS n, sum(amount) AS total')
        ORDER BY customer, window_start;

        customer  window_start         n  total  emit_time            emit_reason
        ann       2024-05-01 10:00:00  2  25.00  2024-05-01 10:12:00  close
        bob       2024-05-01 10:10:00  1  8.50   2024-05-01 10:12:00  end

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        size: the length of a window; this or `difference` must be given. Default: none.
        slide: how far apart windows start, at most `size`. Default: `size`: windows do not overlap.
        difference: the largest distance between rows of a sliding window, included; in place of `size`. Default: none:
            time windows.
        grace: how long past its end a window still accepts rows. Default: timedelta(0).
        aggregates: what to compute, each with AS and a name: count, sum, avg, min, max, first, last, collect_list.
        emit: 'updates': a change for each row; 'final': one row for each window or session, once it is closed, as
            suppress_until_close gives it. Default: 'updates'.
        at_end: with emit="final", in batch: what happens to windows and sessions that are open when the input ends.
            Default: 'hold'.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': the changes; 'dropped': input rows that came late or have no time or key; 'all': every input
            row, with a reason where it was dropped; 'metrics': counts; 'explain': every input row, and what it did to
            its window or session. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': keys, `clock_by` and ORDER BY columns, `window_start`, `window_end` (type of the event time;
            TIMESTAMP_NTZ where that is DATE), the aggregates, `window_close` (as the bounds), `change_type` STRING
            ('upsert'), `change_time` (as the bounds), `change_seq` BIGINT.
        'rows', emit => 'final': keys, `clock_by` columns, `window_start`, `window_end`, the aggregates, `window_close`,
            the ORDER BY columns of the last row, `change_type`, `change_time`, `change_seq`, `emit_time` (as the
            bounds), `emit_reason` STRING (`close`, `end`).
        'dropped', 'all': the input's columns, then `reason` STRING (`null_time`, `null_key`, `late`; null: taken),
            `stream_time` (type of the event time), `lateness` DOUBLE (seconds), `window_start`, `window_end`.
        'explain': the input's columns, then `outcome` STRING (`opened`, `joined`, `late`, `null_time`, `null_key`),
            `stream_time`, `window_start`, `window_end`, `explanation` STRING.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    until: Literal["close", "end"] = "close",
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
    """Keeps the last change of each key and window only, and lets it out when the window closes.

    Example:
        streamtime.suppress_until_close(df, keys=["k"], order_by=["ts"], window_end="window_end")

        In SQL:

        CREATE OR REPLACE TEMP VIEW counts AS SELECT * FROM VALUES
          (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', 1, TIMESTAMP '2024-05-01 10:01:00'),
          (2, 'ann', TIMESTAMP '2024-05-01 10:00:00', 2, TIMESTAMP '2024-05-01 10:04:00'),
          (3, 'bob', TIMESTAMP '2024-05-01 10:10:00', 1, TIMESTAMP '2024-05-01 10:11:00'),
          (4, 'ann', TIMESTAMP '2024-05-01 10:00:00', 3, TIMESTAMP '2024-05-01 10:09:00'),
          (5, 'bob', TIMESTAMP '2024-05-01 10:10:00', 2, TIMESTAMP '2024-05-01 10:13:00')
        AS counts(offset, user_id, window_start, n, change_time);

        SELECT user_id, window_start, n, emit_time, emit_reason
        FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (user_id, window_start) ORDER BY offset, time => 'change_time',
               window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES);

        user_id  window_start         n  emit_time            emit_reason
        ann      2024-05-01 10:00:00  3  2024-05-01 10:13:00  close

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        window_end: the end of a row's window. Default: none: the column `window_close` says when it closes.
        grace: how long past its end a window still accepts rows. Default: timedelta(0).
        until: what lets the first result out: 'close', after which there is none, or 'end': then each correction passes
            as it comes. Default: 'close'.
        gap: for sessions: the largest distance between neighbours in one. Default: none: time windows.
        deleted: marks deletions (tombstones): changes that remove the row of their key. Default: change_type = 'delete'
            or _change_type = 'delete', where such a column exists.
        max_records: how many rows the buffer may hold. Default: no bound.
        max_bytes: how many bytes the rows in the buffer may have: 8 for each column of fixed width, else the length in
            UTF-8 or binary. Default: no bound.
        when_full: what happens when the buffer holds more than its bound; required with one: 'fail', or 'spill' to
            files ('emit_early' is refused here). Default: none.
        at_end: in batch, what happens at the end of the input to rows that are still held. Default: 'hold'.
        clock: on a stream, what stream time is: 'event', the watermark, or 'wall', the time of day, by which an idle
            stream releases too. Default: 'event'.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': what comes out; 'dropped': what does not, and why; 'all': both, with a reason; 'metrics':
            counts; 'explain': each row, and what became of it, when, and which row decided that. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns, then `emit_time` (type of the event time: the stream time that released the row),
            `emit_reason` STRING (`close`, `end`; with until => 'end' `window_end`, `end`).
        'dropped': the input's columns, then `reason` STRING (`null_time`, `replaced`, `tombstone`, `held`),
            `stream_time` (type of the event time; when the row came), `lateness` DOUBLE (seconds).
        'all': the input's columns, then `reason` (null: it came out), `stream_time`, `lateness`, `emit_time`,
            `emit_reason`.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.
        'explain': the input's columns, then `outcome` STRING (`released`, `replaced`, `tombstone`, `held`,
            `null_time`), `stream_time` (when the row came), `decided_at` (stream time when that was decided; null: it
            never was), `decided_by` STRING (the `ORDER BY` values of the row whose arrival decided it, as JSON; null:
            the end of the input), `explanation` STRING.

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
    """Lets at most one change per key through in each span of event time: the newest, where a key changes too often.

    Example:
        streamtime.suppress_until_time_limit(df, keys=["k"], order_by=["ts"], wait=timedelta(minutes=5))

        In SQL:

        CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
          (1, 'gold', 61.0, TIMESTAMP '2024-05-01 10:00:00'),
          (2, 'gold', 61.5, TIMESTAMP '2024-05-01 10:02:00'),
          (3, 'iron',  7.1, TIMESTAMP '2024-05-01 10:03:00'),
          (4, 'gold', 61.2, TIMESTAMP '2024-05-01 10:04:00'),
          (5, 'iron',  7.0, TIMESTAMP '2024-05-01 10:06:00')
        AS prices(offset, item, price, ts);

        SELECT item, price, ts, emit_time, emit_reason
        FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(prices) PARTITION BY item ORDER BY offset, time => 'ts', wait => INTERVAL 5 MINUTES);

        item  price  ts                   emit_time            emit_reason
        gold  61.2   2024-05-01 10:04:00  2024-05-01 10:06:00  time
        iron  7.0    2024-05-01 10:06:00  2024-05-01 10:06:00  end

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        wait: how long a key waits for further changes, from its first held one. Default: none: a bound is needed.
        restart_timer: refused: a wait does not restart. Default: False.
        deleted: marks deletions (tombstones): changes that remove the row of their key. Default: change_type = 'delete'
            or _change_type = 'delete', where such a column exists.
        max_records: how many rows the buffer may hold. Default: no bound.
        max_bytes: how many bytes the rows in the buffer may have: 8 for each column of fixed width, else the length in
            UTF-8 or binary. Default: no bound.
        when_full: what happens when the buffer holds more than its bound; required with one: 'emit_early' lets the
            oldest out, 'fail' ends the query, 'spill' writes to files. Default: none.
        at_end: in batch, what happens at the end of the input to rows that are still held. Default: 'emit'.
        clock: on a stream, what stream time is: 'event', the watermark, or 'wall', the time of day, by which an idle
            stream releases too. Default: 'event'.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': what comes out; 'dropped': what does not, and why; 'all': both, with a reason; 'metrics':
            counts; 'explain': each row, and what became of it, when, and which row decided that. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns, then `emit_time` (type of the event time: the stream time that released the row),
            `emit_reason` STRING (`time`, `full`, `end`).
        'dropped': the input's columns, then `reason` STRING (`null_time`, `replaced`, `held`), `stream_time` (type of
            the event time; when the row came), `lateness` DOUBLE (seconds).
        'all': the input's columns, then `reason` (null: it came out), `stream_time`, `lateness`, `emit_time`,
            `emit_reason`.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.
        'explain': the input's columns, then `outcome` STRING (`released`, `replaced`, `held`, `null_time`),
            `stream_time` (when the row came), `decided_at` (stream time when that was decided; null: it never was),
            `decided_by` STRING (the `ORDER BY` values of the row whose arrival decided it, as JSON; null: the end of
            the input), `explanation` STRING.

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
    clock: Literal["event", "wall"] = "event",
    clock_by: str | Sequence[str] | None = None,
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Joins each row with what another table said at the row's own time: use it for the price when the order came.

    Example:
        streamtime.as_of_join(left, right, keys=["k"], order_by=["ts"], join_type="left")

        In SQL:

        CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
          ('tea', TIMESTAMP '2024-05-01 09:00:00', 2.50), ('tea', TIMESTAMP '2024-05-01 12:00:00', 2.80),
          ('jam', TIMESTAMP '2024-05-01 13:00:00', 4.00) AS prices(item, since, price);
        CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
          (1, 'tea', TIMESTAMP '2024-05-01 10:00:00'), (2, 'tea', TIMESTAMP '2024-05-01 12:00:00'),
          (3, 'jam', TIMESTAMP '2024-05-01 12:00:00') AS orders(id, item, ts);

        SELECT id, ts, since, price FROM AS_OF_JOIN(TABLE(orders) PARTITION BY item ORDER BY ts,
          TABLE(prices) PARTITION BY item ORDER BY since, join_type => 'left') ORDER BY id;

        id  ts                   since                price
        1   2024-05-01 10:00:00  2024-05-01 09:00:00  2.50
        2   2024-05-01 12:00:00  2024-05-01 12:00:00  2.80
        3   2024-05-01 12:00:00  NULL                 NULL

    Args:
        left: the rows of the left side.
        right: the rows of the right side.
        keys: the keys. Default: none.
        order_by: the processing order. Default: none.
        join_type: 'inner': a row without a match is dropped; 'left': it stays, with nulls. Default: 'inner'.
        on: the condition of the join, in place of keys: equalities of the sides are the keys, the rest filters what was
            picked, or, with `match`, what can be picked. Default: none.
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
        arrival: an expression that both sides have, in one common order: a version counts only if it arrived before the
            row. Default: none.
        retention: with `arrival`, or of two streams: how far the right side's history reaches back from stream time;
            older rows never existed. Default: unlimited; of two streams it is required.
        grace: with `arrival`: how long a left row waits, on the left side's clock, before it is looked up; on a stream,
            on the watermark. Default: none: at once.
        at_end: with `grace`: what happens to rows that wait when the input ends. Default: 'emit'.
        clock: on a stream, what rows wait by: 'event', the watermark, or 'wall', the time of day, even if both are
            idle. Default: 'event'.
        clock_by: with `arrival`: runs the clocks separately per value of these, which are among the left keys. Default:
            one clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts.
            Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the left side's columns, then the right side's; those of `using` once, and first.
        'dropped': the left side's columns, then `reason` STRING (`null_time`, `null_key`, `no_match`, `expired`,
            `held`, `before_history`), `stream_time` (the row's own time), `lateness` DOUBLE (seconds).
        'all': the columns of `'rows'`, null where there is no match, then those of `'dropped'`, null where the row
            passed.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Joins two tables that are known by their changes, and keeps the join up to date: what each change does to it.

    Example:
        streamtime.join_changes(left, right, keys=["k"], order_by=["ts"], join_type="left")

        In SQL:

        CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
          (1, 'tea', TIMESTAMP '2024-05-01 09:00:00', 3), (2, 'tea', TIMESTAMP '2024-05-01 09:10:00', 5),
          (5, 'tea', TIMESTAMP '2024-05-01 09:20:00', NULL) AS orders(offset, product, ts, amount);
        CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
          (0, 'tea', TIMESTAMP '2024-05-01 08:00:00', 2.50),
          (3, 'tea', TIMESTAMP '2024-05-01 09:15:00', 2.80) AS prices(offset, product, ts, price);

        SELECT offset, product, amount, price, change_type FROM JOIN_CHANGES(TABLE(orders) PARTITION BY product ORDER BY offset,
          TABLE(prices) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'amount IS NULL') ORDER BY offset;

        offset  product  amount  price  change_type
        1       tea      3       2.50   upsert
        2       tea      5       2.50   upsert
        3       tea      5       2.80   upsert
        5       tea      NULL    NULL   delete

    Args:
        left: the rows of the left side.
        right: the rows of the right side.
        keys: the keys. Default: none.
        order_by: the processing order.
        join_type: 'inner': rows that both sides have; 'left': all of the left side; 'outer': all of both. Default:
            'inner'.
        on: the left side's columns that name a row of the right side (a foreign key), where the sides have keys of
            their own. Default: none: both sides have one key.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        versioned: sides where the newest time counts: changes that come out of order are ignored there. Default: none:
            changes apply as they come.
        retention: with `versioned`: how far behind stream time a change may come. Default: unlimited.
        deleted: marks deletions (tombstones): changes that remove the row of their key. Default: change_type = 'delete'
            or _change_type = 'delete', where such a column exists.
        clock_by: with `retention`: runs stream time separately per value of these, which are among the left keys.
            Default: one clock for the whole input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': the changes of the join; 'dropped': changes that were ignored, and why; 'all': every change,
            with a reason where it was; 'explain': every change, and what it did; 'metrics': counts. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': keys and ORDER BY columns, the left side's other columns, the right side's, `change_type` STRING
            (`upsert`, `delete`), `change_time` (type of the event time), `change_seq` BIGINT.
        'dropped', 'all': the same without `change_*`, with the time before the left side's columns, then `side` STRING
            (`left`, `right`), `reason` STRING (`null_time`, `null_key`, `too_old`, `out_of_order`; null: applied),
            `stream_time` (type of the event time), `lateness` DOUBLE (seconds).
        'explain': the columns of 'all' up to `side`, then `outcome` STRING (`joined`, `alone`, `withdrew`, `waits`,
            `nothing`, or a reason), `stream_time`, `explanation` STRING.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Keeps totals of a table that is known by its changes: what each change does to the counts and sums of its groups.

    Example:
        streamtime.aggregate_changes(df, keys=["k"], order_by=["ts"], group_by=["grade"], aggregates="count(*) AS n, sum(amount) AS total")

        In SQL:

        CREATE OR REPLACE TEMP VIEW accounts AS SELECT * FROM VALUES
          (1, 'ann', TIMESTAMP '2024-05-01 09:00:00', 'gold', 10), (2, 'bob', TIMESTAMP '2024-05-01 09:10:00', 'gold', 5),
          (3, 'ann', TIMESTAMP '2024-05-01 09:20:00', 'blue', 10), (4, 'bob', TIMESTAMP '2024-05-01 09:30:00', NULL, NULL)
          AS accounts(offset, name, ts, grade, amount);

        SELECT offset, grade, n, total, change_type, change_seq FROM AGGREGATE_CHANGES(
          TABLE(accounts) PARTITION BY name ORDER BY offset, time => 'ts', deleted => 'amount IS NULL',
          group_by => ARRAY('grade'), aggregates => 'count(*) AS n, sum(amount) AS total') ORDER BY offset, change_seq;

        offset  grade  n     total  change_type  change_seq
        1       gold   1     10     upsert       0
        2       gold   2     15     upsert       0
        3       gold   1     5      upsert       0
        3       blue   1     10     upsert       1
        4       gold   NULL  NULL   delete       0

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        group_by: the columns by which rows are added up.
        aggregates: what to compute, each with AS and a name: count, sum, avg, min, max.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        versioned: changes can come out of order, and are ignored then. Default: False.
        retention: with `versioned`: how far behind stream time a change may come. Default: unlimited.
        deleted: marks deletions (tombstones): changes that remove the row of their key. Default: change_type = 'delete'
            or _change_type = 'delete', where such a column exists.
        clock_by: with `retention`: runs stream time separately per value of these. Default: one clock for the whole
            input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': the changes of the groups; 'dropped': changes that were ignored, and why; 'all': every change,
            with a reason where it was; 'explain': every change, and what it did; 'metrics': counts. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': `group_by`, `clock_by` and ORDER BY columns, the aggregates (types as Spark's), `change_type` STRING
            (`upsert`, `delete`), `change_time` (type of the event time), `change_seq` BIGINT.
        'dropped', 'all': the input's columns, then `reason` STRING (`null_time`, `null_key`, `too_old`, `out_of_order`;
            null: applied), `stream_time` (type of the event time), `lateness` DOUBLE (seconds).
        'explain': the input's columns, then `outcome` STRING (`added`, `changed`, `moved`, `removed`, `no_group`,
            `nothing`, or a reason), `stream_time`, `explanation` STRING.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    watermark: datetime.timedelta | None = None,
    output: Literal["rows", "dropped", "all", "explain", "metrics"] = "rows",
    name: str | None = None,
) -> DataFrame:
    """Filters a table that is known by its changes: a row that no longer passes is deleted, which a WHERE would miss.

    Example:
        streamtime.filter_changes(df, keys=["k"], order_by=["ts"], condition="amount > 0")

        In SQL:

        CREATE OR REPLACE TEMP VIEW stock AS SELECT * FROM VALUES
          (1, 'tea', TIMESTAMP '2024-05-01 09:00:00', 5), (2, 'milk', TIMESTAMP '2024-05-01 09:05:00', 0),
          (3, 'tea', TIMESTAMP '2024-05-01 09:10:00', 0), (4, 'milk', TIMESTAMP '2024-05-01 09:20:00', 9)
          AS stock(offset, product, ts, amount);

        SELECT offset, product, amount, change_type FROM FILTER_CHANGES(
          TABLE(stock) PARTITION BY product ORDER BY offset, time => 'ts', condition => 'amount > 0')
        ORDER BY offset;

        offset  product  amount  change_type
        1       tea      5       upsert
        3       tea      NULL    delete
        4       milk     9       upsert

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        condition: what a row must be to stay.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        versioned: changes can come out of order, and their times count: all that do not pass leave as deletes. Default:
            False.
        retention: with `versioned`: how far behind stream time a change may come. Default: unlimited.
        deleted: marks deletions (tombstones): changes that remove the row of their key. Default: change_type = 'delete'
            or _change_type = 'delete', where such a column exists.
        clock_by: with `retention`: runs stream time separately per value of these. Default: one clock for the whole
            input.
        watermark: on a stream, how long to wait for late rows: stream time lags the largest event time by this; in
            batch it does nothing. Default: that which the input has, else timedelta(0).
        output: 'rows': the changes; 'dropped': changes that were ignored, and why; 'all': every change, with a reason
            where it was; 'explain': every change, and what it did; 'metrics': counts. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns, then `change_type` STRING (`upsert`, `delete`), `change_time` (type of the event
            time), `change_seq` BIGINT.
        'dropped', 'all': the input's columns, then `reason` STRING (`null_time`, `null_key`, `too_old`; null: applied),
            `stream_time` (type of the event time), `lateness` DOUBLE (seconds).
        'explain': the input's columns, then `outcome` STRING (`passed`, `withdrew`, `nothing`, or a reason),
            `stream_time`, `explanation` STRING.
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    """Makes a history out of a list of changes: from when to when each row was valid, to ask what held at a time.

    Example:
        streamtime.versions(df, keys=["k"], order_by=["ts"], time="ts")

        In SQL:

        CREATE OR REPLACE TEMP VIEW price_changes AS SELECT * FROM VALUES
          (1, 'tea', TIMESTAMP '2024-05-01 10:00:00', 4.00), (2, 'tea', TIMESTAMP '2024-05-01 12:00:00', 5.00),
          (3, 'tea', TIMESTAMP '2024-05-01 11:00:00', 4.50), (4, 'rum', TIMESTAMP '2024-05-01 11:30:00', 9.00),
          (5, 'rum', TIMESTAMP '2024-05-01 13:00:00', NULL) AS price_changes(offset, product, ts, price);

        SELECT product, price, valid_from, valid_to
        FROM VERSIONS(TABLE(price_changes) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'price IS NULL')
        ORDER BY product, valid_from;

        product  price  valid_from           valid_to
        rum      9.00   2024-05-01 11:30:00  2024-05-01 13:00:00
        tea      4.00   2024-05-01 10:00:00  2024-05-01 11:00:00
        tea      4.50   2024-05-01 11:00:00  2024-05-01 12:00:00
        tea      5.00   2024-05-01 12:00:00  NULL

    Args:
        df: the rows, in batch or as a stream.
        keys: the keys. Default: none.
        order_by: the processing order.
        retention: how far back before the last stream time versions are kept. Default: unlimited.
        grace: how far behind stream time a row may come and still be a version. Default: unlimited.
        deleted: marks deletions (tombstones): changes that remove the row of their key. Default: change_type = 'delete'
            or _change_type = 'delete', where such a column exists.
        time: event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE. Default: the first order_by expression.
        clock_by: each value of these has a stream time of its own, such as each partition of a source. Default: one
            clock for the whole input.
        output: 'rows': the versions; 'dropped': rows that are none, and why; 'all': both, with a reason; 'metrics':
            counts; 'puts': each row, and what it was told when it came. Default: 'rows'.
        name: a label for the metrics. Default: none.

    Returns:
        By `output`:
        'rows': the input's columns, then `valid_from`, `valid_to` (type of the event time; null: valid until now).
        'dropped': the input's columns, then `reason` STRING (`null_time`, `null_key`, `too_old`, `overwritten`,
            `expired`), `stream_time` (type of the event time; when the row came), `lateness` DOUBLE (seconds).
        'all': the input's columns, then `reason` (null: a version, or a tombstone), `stream_time`, `lateness`,
            `valid_from`, `valid_to`.
        'puts': the input's columns, then `valid_to` (type of the event time), `put_status` STRING (`current`,
            `superseded`, `refused`).
        'metrics': `name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING.

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
    """Shows what a Delta table held, row by row: which row was the key's, from which commit to which.

    Example:
        streamtime.table_history(spark, "table")

        In SQL:

        DROP TABLE IF EXISTS stock;
        CREATE TABLE stock (item STRING, amount INT) USING delta
          TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'item');
        INSERT INTO stock VALUES ('tea', 10), ('rum', 2);
        UPDATE stock SET amount = 8 WHERE item = 'tea';
        DELETE FROM stock WHERE item = 'rum';

        SELECT item, amount, from_version, to_version FROM TABLE_HISTORY('stock') ORDER BY item, from_version;

        item  amount  from_version  to_version
        rum   2       1             3
        tea   10      1             2
        tea   8       2             NULL

    Args:
        spark: the session.
        table: the name of a Delta table, 'catalog.schema.table'.
        from_: the first commit of a range, by number or by time. Default: the first commit.
        to: the last commit of a range, by number or by time, included. Default: the last commit.
        keys: the columns by which rows are told apart. Default: the table's property `streamtime.key`.

    Returns:
        A DataFrame:
        always: the table's columns, then `valid_from` TIMESTAMP, `valid_to` TIMESTAMP (of the commits; null: current),
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
    """Says which worker runs which task: shares out shards, tenants or streaming queries over members, with few moves.

    Example:
        streamtime.assign_tasks(tasks, members, strategy="sticky")

        In SQL:

        CREATE OR REPLACE TEMP VIEW runs AS SELECT * FROM VALUES
          ('a', 'm1', 'active', 0), ('b', 'm1', 'active', 0), ('c', 'm1', 'active', 0), ('d', 'm1', 'active', 0),
          ('d', 'm2', 'standby', 12) AS runs(task, member, role, lag);

        SELECT task, member, role, action, why FROM ASSIGN_TASKS(output => 'explain', current => TABLE(runs),
          tasks => TABLE(SELECT DISTINCT task FROM runs), members => TABLE(VALUES ('m1'), ('m2') AS workers(member)))
        ORDER BY task, member;

        task  member  role    action   why
        a     m1      active  keep     stays where it was
        b     m1      active  keep     stays where it was
        c     m1      active  keep     stays until m2 has caught up, which has no state yet (10,000 are acceptable)
        c     m2      warmup  warm_up  warms up to take over from m1: it has no state yet
        d     m1      active  revoke   m2 takes over
        d     m2      active  promote  takes over from m1: it has caught up

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
        By `output`:
        'rows': `task` (as in `tasks`), `member` (as in `members`), `role` STRING (`active`, `standby`, `warmup`),
            `action` STRING (`keep`, `assign`, `revoke`, `warm_up`, `promote`), `round` INT.
        'explain': the same, then `lag` BIGINT (records; null: not known), `why` STRING.
        'metrics': `name` STRING, `round` INT, `metric` STRING, `value` DOUBLE, `unit` STRING.

    Raises:
        CallError: at once, where the call is wrong; it says what to write instead.
    """
