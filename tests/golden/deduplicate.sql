-- DEDUPLICATE, as a conversation: what a call returns, by rule. A null comes first, then bounds, then late rows.
CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES
  ('ann', TIMESTAMP '2024-05-01 10:00:00', 1), ('ann', TIMESTAMP '2024-05-01 10:10:00', 2),
  ('ann', TIMESTAMP '2024-05-01 10:11:00', 3), ('bob', TIMESTAMP '2024-05-01 10:05:00', 4),
  (NULL, TIMESTAMP '2024-05-01 10:05:00', 5), (NULL, TIMESTAMP '2024-05-01 10:05:00', 6), ('eve', NULL, 7) AS v(who, ts, n);
-- D1: both ends are included; D4: a null key always passes; C12: a null time is dropped
SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES) ORDER BY n;
-- C6: what did not pass, and why
SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES, output => 'dropped') ORDER BY n;
-- C6: both at once
SELECT n, reason, kept_time FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES, output => 'all') ORDER BY n;
-- without within: once for ever
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts) ORDER BY n;
-- D8
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES, keep => 'last') ORDER BY n;
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES, keep => 'unique') ORDER BY n;
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, keep => 'unique') ORDER BY n;
-- D2: a duplicate moves the kept time only if asked to
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES, refresh => true) ORDER BY n;
-- D10: a burst that never pauses passes again, more than `at_most` past the row that passed; a distance of exactly that is a duplicate still
CREATE OR REPLACE TEMP VIEW storm AS SELECT 'web' AS host, timestamp_seconds(1714557600 + 240 * id) AS ts, id AS n FROM range(9);
SELECT n, reason, kept_time FROM DEDUPLICATE(TABLE(storm) PARTITION BY host ORDER BY ts, within => INTERVAL 5 MINUTES, refresh => true, at_most => INTERVAL 12 MINUTES, output => 'all') ORDER BY n;
SELECT n FROM DEDUPLICATE(TABLE(storm) PARTITION BY host ORDER BY ts, within => INTERVAL 5 MINUTES, refresh => true, at_most => INTERVAL 12 MINUTES, keep => 'last') ORDER BY n;
SELECT n FROM DEDUPLICATE(TABLE(storm) PARTITION BY host ORDER BY ts, within => INTERVAL 5 MINUTES, refresh => true, at_most => INTERVAL 12 MINUTES, keep => 'unique') ORDER BY n;
-- D1 with an interval of zero: equal times only
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY ts, within => INTERVAL 0 SECONDS) ORDER BY n;
-- D3: by id over the whole table, and by key and id
SELECT n FROM DEDUPLICATE(TABLE(clicks) PARTITION BY (who, n) ORDER BY ts) ORDER BY n;
SELECT n FROM DEDUPLICATE(TABLE(clicks) WITH SINGLE PARTITION ORDER BY ts, within => INTERVAL 4 MINUTES) ORDER BY n;
-- C2, D5, D6: arrival order. Example 3 of KIP-655: the kept row has expired when the late one comes
CREATE OR REPLACE TEMP VIEW arrivals AS SELECT k, timestamp_seconds(s) AS ts, off FROM VALUES
  ('k1', 10, 1), ('k2', 21, 2), ('k1', 9, 3), ('k1', 9, 4), ('k2', 13, 5) AS v(k, s, off);
SELECT * FROM DEDUPLICATE(TABLE(arrivals) PARTITION BY k ORDER BY off, time => 'ts', within => INTERVAL 10 SECONDS, output => 'all') ORDER BY off;
-- C3: a clock per key
SELECT off, reason FROM DEDUPLICATE(TABLE(arrivals) PARTITION BY k ORDER BY off, time => 'ts', within => INTERVAL 10 SECONDS, clock_by => ARRAY('k'), output => 'all') ORDER BY off;
-- D7: redelivery
CREATE OR REPLACE TEMP VIEW redelivered AS SELECT k, timestamp_seconds(s) AS ts, off FROM VALUES ('a', 1, 1), ('a', 1, 1), ('a', 2, 2), ('a', 3, NULL) AS v(k, s, off);
SELECT * FROM DEDUPLICATE(TABLE(redelivered) PARTITION BY k ORDER BY ts, within => INTERVAL 1 MINUTE, offset => 'off');
SELECT * FROM DEDUPLICATE(TABLE(redelivered) PARTITION BY k ORDER BY ts, offset => 'off');
-- C1: the clauses as options
SELECT n FROM DEDUPLICATE(TABLE(clicks), keys => ARRAY('upper(who)'), order_by => ARRAY('ts', 'n DESC'), within => INTERVAL 10 MINUTES) ORDER BY n;
-- C9: duplicate column names, quoted names, and columns of their own kind stay as they are
SELECT * FROM DEDUPLICATE(TABLE(SELECT who, who, ts AS `at the time`, n FROM clicks) PARTITION BY n ORDER BY `at the time`, within => INTERVAL 1 DAY) WHERE n = 1;
-- empty input
SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM clicks WHERE false) PARTITION BY who ORDER BY ts, within => INTERVAL 10 MINUTES);
SELECT * FROM DEDUPLICATE(TABLE(SELECT * FROM clicks WHERE false) PARTITION BY who ORDER BY n, time => 'ts', within => INTERVAL 10 MINUTES, output => 'metrics');
-- section 8
SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY who ORDER BY n, time => 'ts', within => INTERVAL 10 MINUTES, output => 'metrics', name => 'clicks');
-- C11: dates, and timestamps without a time zone
SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, d FROM VALUES (DATE '2024-01-01'), (DATE '2024-01-03'), (DATE '2024-01-04') AS v(d)) PARTITION BY k ORDER BY d, within => INTERVAL 2 DAYS, output => 'all') ORDER BY d;
SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, t FROM VALUES (TIMESTAMP_NTZ '2024-10-27 02:30:00'), (TIMESTAMP_NTZ '2024-10-27 03:30:00') AS v(t)) PARTITION BY k ORDER BY t, within => INTERVAL 59 MINUTES, output => 'all') ORDER BY t;
