-- SESSIONIZE, as a conversation
CREATE OR REPLACE TEMP VIEW clicks AS SELECT user_id, timestamp_seconds(s) AS ts, off FROM VALUES
  (NULL, 500, 0), ('ann', 20, 1), ('bob', 22, 2), ('ann', 41, 3), ('ann', 30, 4), ('bob', NULL, 5), ('bob', 90, 6), ('ann', 45, 7), ('ann', 52, 8), ('bob', 100, 9) AS v(user_id, s, off);
-- W2, W4: gaps and islands; a distance of exactly the gap joins
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 10 SECONDS) ORDER BY off;
SELECT off, session_id FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 11 SECONDS) ORDER BY off;
-- W7: without grace no row is late, whatever the processing order
SELECT off, session_id FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY off, time => 'ts', gap => INTERVAL 11 SECONDS) ORDER BY off;
-- W3: with grace, late rows; a closed session is final
SELECT off, reason, stream_time, lateness, session_id FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY off, time => 'ts', gap => INTERVAL 11 SECONDS, grace => INTERVAL 30 SECONDS, output => 'all') ORDER BY off;
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY off, time => 'ts', gap => INTERVAL 11 SECONDS, grace => INTERVAL 0 SECONDS, output => 'dropped') ORDER BY off;
-- what each row did when it came
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY off, time => 'ts', gap => INTERVAL 11 SECONDS, grace => INTERVAL 30 SECONDS, output => 'explain') ORDER BY off;
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY off, time => 'ts', gap => INTERVAL 11 SECONDS, grace => INTERVAL 30 SECONDS, output => 'metrics', name => 'clicks');
-- without keys; over dates; several keys
SELECT off, session_start, session_end, session_id FROM SESSIONIZE(TABLE(clicks) WITH SINGLE PARTITION ORDER BY ts, gap => INTERVAL 11 SECONDS) ORDER BY off;
SELECT * FROM SESSIONIZE(TABLE(SELECT * FROM VALUES ('a', DATE '2024-05-01'), ('a', DATE '2024-05-02'), ('a', DATE '2024-05-04') AS v(k, day)) PARTITION BY k ORDER BY day, gap => INTERVAL 1 DAY) ORDER BY day;
SELECT session_id FROM SESSIONIZE(TABLE(SELECT 'a|b' AS x, 7 AS y, TIMESTAMP_NTZ '2024-05-01 10:00:00.5' AS ts) PARTITION BY (x, y) ORDER BY ts, gap => INTERVAL 1 DAY);
-- sessions as a table of their own
SELECT session_id, count(*) AS clicks, max(session_end) - max(session_start) AS lasted FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 11 SECONDS) GROUP BY session_id ORDER BY session_id;
-- wrong calls
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id, gap => INTERVAL 1 DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY off, gap => INTERVAL 1 DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => '30 minutes');
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 1 MONTH);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL '-1' DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 1 DAY, grase => INTERVAL 1 DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 1 DAY, size => INTERVAL 1 DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY usr_id ORDER BY ts, gap => INTERVAL 1 DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY map(1, 2) ORDER BY ts, gap => INTERVAL 1 DAY);
SELECT * FROM SESSIONIZE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 1 DAY, output => 'explian');
SELECT * FROM SESSIONIZE(TABLE(SELECT *, 1 AS session_end FROM clicks) PARTITION BY user_id ORDER BY ts, gap => INTERVAL 1 DAY);
