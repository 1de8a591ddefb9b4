"""What is killed: calls over a stream of events. In the joins stands what only a stream needs, `WAITS`."""

WAITS = ", grace => INTERVAL 90 SECONDS, retention => INTERVAL 120 SECONDS"
LEFT = "TABLE(SELECT k, id, ts, id AS l FROM events WHERE id % 2 = 0) PARTITION BY k"
RIGHT = "SELECT k AS rk, id AS r, id % 5 = 1 AS gone"
CALLS = {
    "deduplicate": "DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, within => INTERVAL 30 SECONDS, output => 'all')",
    "suppress": "SUPPRESS_UNTIL_CLOSE(TABLE(SELECT *, date_trunc('MINUTE', ts) AS minute FROM events) PARTITION BY (k, minute) "
    "ORDER BY id, time => 'ts', window_end => 'minute + INTERVAL 1 MINUTE', grace => INTERVAL 80 SECONDS)",
    "joins": f"(SELECT 'changes' AS what, k, id, l, r FROM JOIN_CHANGES({LEFT} ORDER BY id,"
    f" TABLE({RIGHT}, id, ts FROM events WHERE id % 2 = 1) PARTITION BY rk ORDER BY id, time => 'ts', deleted => 'gone', join_type => 'outer')"
    f" UNION ALL SELECT 'as of', k, id, l, r FROM AS_OF_JOIN({LEFT} ORDER BY ts,"
    f" TABLE({RIGHT}, ts AS since FROM events WHERE id % 2 = 1) PARTITION BY rk ORDER BY since, deleted => 'gone', join_type => 'left'{{}}))",
}
