-- DISTINCT_IN_WINDOW, as a conversation
CREATE OR REPLACE TEMP VIEW readings AS SELECT sensor, timestamp_seconds(s) AS ts, off FROM VALUES
  (NULL, 100, 0), ('a', 4, 1), ('a', 5, 2), ('a', 23, 3), ('a', 22, 4), ('a', 34, 5), ('a', 7, 6), ('b', 29, 7), ('b', NULL, 8) AS v(sensor, s, off);
-- D9, W1: tumbling windows, in event-time order
SELECT * FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY ts, size => INTERVAL 10 SECONDS) ORDER BY off;
-- in arrival order: late rows; C12: a null key does not move stream time
SELECT * FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY off, time => 'ts', size => INTERVAL 10 SECONDS, output => 'all') ORDER BY off;
-- W7: grace
SELECT off, reason FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY off, time => 'ts', size => INTERVAL 10 SECONDS, grace => INTERVAL 25 SECONDS, output => 'all') ORDER BY off;
-- W1: hopping windows: once per window
SELECT off, reason, window_start FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY ts, size => INTERVAL 10 SECONDS, slide => INTERVAL 5 SECONDS, output => 'all') ORDER BY off, window_start;
-- W2: sessions; a distance of exactly the gap merges
SELECT * FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY ts, gap => INTERVAL 11 SECONDS) ORDER BY off;
SELECT off, reason, window_start, window_end FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY off, time => 'ts', gap => INTERVAL 10 SECONDS, output => 'all') ORDER BY off;
SELECT * FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY off, time => 'ts', size => INTERVAL 10 SECONDS, output => 'metrics');
