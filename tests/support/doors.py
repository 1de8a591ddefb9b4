"""Doors that a test opens for itself, and what stands behind all of them."""

from __future__ import annotations

from streamtime.shelf import FUNCTIONS

LOCAL = {s.name for s in FUNCTIONS if s.local is not None}
CALL = "DEDUPLICATE(TABLE({}) PARTITION BY k ORDER BY ts, within => INTERVAL 10 SECONDS)"


STANDS = [
    (f"SELECT v FROM {CALL.format('events')}", ["a", "c", "d"]),
    (f"SELECT d.v FROM {CALL.format('events')} AS d WHERE d.k = 1", ["a", "c"]),
    (f"WITH e AS (SELECT * FROM events) SELECT v FROM {CALL.format('e')}", ["a", "c", "d"]),
    (
        f"WITH e AS (SELECT * FROM events) SELECT a.v FROM {CALL.format('e')} a JOIN {CALL.format('e')} b USING (k, ts)",
        ["a", "c", "d"],
    ),
    (
        f"WITH d AS (SELECT * FROM {CALL.format('events')}) SELECT x.v FROM d x JOIN d y ON x.k = y.k",
        ["a", "a", "c", "c", "d"],
    ),
    (f"SELECT v FROM {CALL.format('SELECT * FROM ' + CALL.format('events'))}", ["a", "c", "d"]),
    (f"SELECT e.v FROM events e JOIN {CALL.format('events')} d ON e.k = d.k AND e.ts = d.ts", ["a", "c", "d"]),
    (
        f"SELECT v FROM events e WHERE EXISTS (SELECT 1 FROM {CALL.format('events')} d WHERE d.v = e.v)",
        ["a", "c", "d"],
    ),
    (f"SELECT v FROM events WHERE v NOT IN (SELECT v FROM {CALL.format('events')})", ["b"]),
    (f"SELECT string((SELECT count(*) FROM {CALL.format('events')}))", ["3"]),
    (
        f"SELECT v FROM {CALL.format('SELECT * FROM events WHERE k = 2')} UNION ALL SELECT v FROM {CALL.format('events')}",
        list("acdd"),
    ),
    (f"SELECT max(v) FROM {CALL.format('events')} GROUP BY k HAVING count(*) > 1", ["c"]),
    (
        "SELECT v FROM DEDUPLICATE(TABLE(events) WITH SINGLE PARTITION ORDER BY ts, within => INTERVAL 3 SECONDS)",
        ["a", "b", "c"],
    ),
    ("SELECT v FROM DEDUPLICATE(TABLE(events) WITH SINGLE PARTITION ORDER BY ts)", ["a"]),
    ("SELECT v FROM DEDUPLICATE(TABLE(events) PARTITION BY (k, v) ORDER BY (ts, v))", ["a", "b", "c", "d"]),
    (
        "SELECT v FROM DEDUPLICATE(TABLE(events) PARTITION BY k % 1 ORDER BY ts DESC, time => 'ts', within => INTERVAL 1 MINUTE)",
        ["c"],
    ),
    (
        "SELECT v FROM DEDUPLICATE(TABLE(events), keys => ARRAY('k'), order_by => ARRAY('ts DESC NULLS LAST'), time => 'ts')",
        ["c", "d"],
    ),
]
