-- KIP-328, "Buffer Eviction Behavior": each of its tables as a conversation. Time is in minutes of an hour.

-- Offset order is maintained when a key is updated, regardless of timestamp.
CREATE OR REPLACE TEMP VIEW t AS SELECT offset, k, v, make_timestamp(2024, 5, 1, 10, ts, 0) AS ts FROM VALUES
  (0, 'A', 'x', 1), (1, 'A', 'w', 0) AS t(offset, k, v, ts);
SELECT offset, k, v, ts, emit_time, emit_reason FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset, time => 'ts',
  max_records => 2, when_full => 'emit_early');

-- A key limit of 2, without late events: the KIP and this function agree.
CREATE OR REPLACE TEMP VIEW t AS SELECT offset, k, v, make_timestamp(2024, 5, 1, 10, ts, 0) AS ts FROM VALUES
  (0, 'A', 'w', 0), (1, 'A', 'x', 1), (2, 'B', 'y', 2), (3, 'C', 'z', 3) AS t(offset, k, v, ts);
SELECT offset, k, v, emit_time, emit_reason FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset, time => 'ts',
  max_records => 2, when_full => 'emit_early') ORDER BY emit_time, offset;

-- "Emit after 2ms". The KIP's table lets A out with the last row, since it moves the place of a key that is updated. Kafka's code does not,
-- and rule S3 follows it: the timer does not restart, so A comes out when stream time reaches 2.
SELECT offset, outcome, decided_at, decided_by, explanation FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset,
  time => 'ts', wait => INTERVAL 2 MINUTES, at_end => 'hold', output => 'explain') ORDER BY offset;

-- The same with late events. The KIP's table lets (A, x) out at once, its new time being old enough; by S3 it takes over the place of (A, w).
CREATE OR REPLACE TEMP VIEW t AS SELECT offset, k, v, make_timestamp(2024, 5, 1, 10, ts, 0) AS ts FROM VALUES
  (0, 'A', 'w', 3), (1, 'A', 'x', 1), (2, 'B', 'y', 1) AS t(offset, k, v, ts);
SELECT offset, outcome, decided_at, decided_by, explanation FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset,
  time => 'ts', wait => INTERVAL 2 MINUTES, at_end => 'hold', output => 'explain') ORDER BY offset;

-- A key limit of 2 with a late event. In the KIP's table C is the oldest and comes out. By S3 the place of A is that of (A, w), of the same
-- age as C's; ties go by key (S5), so A comes out.
CREATE OR REPLACE TEMP VIEW t AS SELECT offset, k, v, make_timestamp(2024, 5, 1, 10, ts, 0) AS ts FROM VALUES
  (0, 'A', 'w', 0), (1, 'A', 'x', 1), (2, 'B', 'y', 2), (3, 'C', 'z', 0) AS t(offset, k, v, ts);
SELECT offset, outcome, decided_at, decided_by, explanation FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset,
  time => 'ts', max_records => 2, when_full => 'emit_early', at_end => 'hold', output => 'explain') ORDER BY offset;

-- A limit of bytes. A row here has 8 bytes for the offset, 8 for the time, 1 for the key; a value of n characters has n. The KIP's limit of
-- 3 leaves room for two rows of one character, or for one of three: here that is 37 = 2 * 17 + 3.
CREATE OR REPLACE TEMP VIEW t AS SELECT offset, k, v, make_timestamp(2024, 5, 1, 10, ts, 0) AS ts FROM VALUES
  (0, 'A', 'x', 0), (1, 'B', 'y', 1), (2, 'C', repeat('z', 20), 2), (3, 'D', repeat('z', 21), 3) AS t(offset, k, v, ts);
-- Big rows push several out, and one that does not fit at all goes straight through.
SELECT offset, k, emit_time, emit_reason FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset, time => 'ts',
  max_bytes => 37, when_full => 'emit_early') ORDER BY emit_time, offset;

-- A bound that may not be passed.
SELECT count(*) AS n FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset, time => 'ts', wait => INTERVAL 1 DAY,
  max_records => 4, when_full => 'fail');
SELECT count(*) AS n FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY offset, time => 'ts', wait => INTERVAL 1 DAY,
  max_records => 1, when_full => 'spill');

-- Final results: windows of 10 minutes, 2 minutes of grace. The last change of ann's window came late, and counts.
CREATE OR REPLACE TEMP VIEW counts AS SELECT offset, k, make_timestamp(2024, 5, 1, 10, s, 0) AS window_start, n,
    make_timestamp(2024, 5, 1, 10, ts, 0) AS ts, deleted FROM VALUES
  (1, 'ann', 0, 1, 1, false), (2, 'ann', 0, 2, 8, false), (3, 'bob', 10, 1, 11, false), (4, 'ann', 0, 3, 9, false),
  (5, 'eve', 0, 1, 5, true), (6, 'bob', 10, 2, 12, false), (7, 'ann', 0, 4, 9, false), (8, NULL, 20, 1, 30, false),
  (9, 'bob', NULL, 1, 30, false) AS t(offset, k, s, n, ts, deleted);
SELECT offset, k, n, emit_time, emit_reason FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (k, window_start) ORDER BY offset,
  time => 'ts', window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES, deleted => 'deleted')
  ORDER BY emit_time, offset;
SELECT offset, k, outcome, decided_by, explanation FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (k, window_start) ORDER BY offset,
  time => 'ts', window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES, deleted => 'deleted',
  output => 'explain') ORDER BY offset;
SELECT offset, k, reason, stream_time, lateness, emit_time, emit_reason FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (k, window_start)
  ORDER BY offset, time => 'ts', window_end => 'window_start + INTERVAL 10 MINUTES', deleted => 'deleted', at_end => 'emit',
  output => 'all') ORDER BY offset;
SELECT metric, value, unit FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (k, window_start) ORDER BY offset, time => 'ts',
  window_end => 'window_start + INTERVAL 10 MINUTES', grace => INTERVAL 2 MINUTES, deleted => 'deleted', output => 'metrics');

-- S12: a result when the window ends, and its corrections; a deletion that was held is dropped, one that comes later corrects
CREATE OR REPLACE TEMP VIEW corrected AS SELECT * FROM counts UNION ALL
  SELECT offset + 10, k, window_start, NULL, ts, true FROM counts WHERE `offset` IN (4, 8);
SELECT offset, k, n, deleted, reason, emit_time, emit_reason FROM SUPPRESS_UNTIL_CLOSE(TABLE(corrected) PARTITION BY (k, window_start)
  ORDER BY offset, time => 'ts', window_end => 'window_start + INTERVAL 10 MINUTES', until => 'end', deleted => 'deleted', output => 'all')
  ORDER BY offset;
SELECT offset, k, outcome, decided_by, explanation FROM SUPPRESS_UNTIL_CLOSE(TABLE(corrected) PARTITION BY (k, window_start)
  ORDER BY offset, time => 'ts', window_end => 'window_start + INTERVAL 10 MINUTES', until => 'end', deleted => 'deleted', at_end => 'emit',
  output => 'explain') ORDER BY offset;
SELECT metric, value, unit FROM SUPPRESS_UNTIL_CLOSE(TABLE(corrected) PARTITION BY (k, window_start) ORDER BY offset, time => 'ts',
  window_end => 'window_start + INTERVAL 10 MINUTES', until => 'end', deleted => 'deleted', output => 'metrics');
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, until => 'end');
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, window_end => 'ts', until => 'end', grace => INTERVAL 1 DAY);
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, window_end => 'ts', until => 'start');
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, window_end => 'ts', until => 'end', max_records => 10, when_full => 'emit_early');

-- A column `window_close` says it all.
SELECT k, n, emit_time FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT *, window_start + INTERVAL 12 MINUTES AS window_close FROM counts)
  PARTITION BY (k, window_start) ORDER BY offset, time => 'ts') ORDER BY emit_time, offset;

-- What cannot be meant.
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts);
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, restart_timer => true);
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, max_records => 10);
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, when_full => 'fail');
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, max_records => -1, when_full => 'fail');
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, max_bytes => 1.5, when_full => 'fail');
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, clock => 'wall');
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY, deleted => 'k');
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(SELECT *, ts AS emit_time FROM t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY);
SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(SELECT *, INTERVAL 1 YEAR AS y FROM t) PARTITION BY k ORDER BY ts, wait => INTERVAL 1 DAY);
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts);
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, grace => INTERVAL 1 DAY);
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, gap => INTERVAL 1 DAY);
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, window_end => 'offset');
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, window_end => 'ts', max_records => 10);
SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY k ORDER BY ts, window_end => 'ts', max_records => 10, when_full => 'emit_early');
