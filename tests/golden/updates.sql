-- WINDOW_UPDATES, SESSION_UPDATES and what may follow them, as a conversation
CREATE OR REPLACE TEMP VIEW orders AS SELECT id, customer, timestamp_seconds(s) AS ts, amount FROM VALUES
  (1, 'ann', 1, 20.0), (2, 'ann', 7, 5.0), (3, 'bob', 12, 8.5), (4, 'ann', 8, 1.0), (5, NULL, 50, 9.0), (6, 'bob', NULL, 9.0), (7, 'bob', 14, NULL), (8, 'ann', 23, 2.5) AS v(id, customer, s, amount);
-- W1, W5: one upsert for each row and window; a window accepts a row iff its end > stream time - grace
SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, grace => INTERVAL 3 SECONDS, aggregates => 'count(*) AS n, sum(amount) AS total') ORDER BY id;
SELECT id, window_start, n, change_seq FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, slide => INTERVAL 5 SECONDS, grace => INTERVAL 1 MINUTE, aggregates => 'count(*) AS n') ORDER BY id, change_seq;
SELECT id, window_start, window_end, n, window_close, change_seq FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', difference => INTERVAL 6 SECONDS, grace => INTERVAL 1 MINUTE, aggregates => 'count(*) AS n') ORDER BY id, change_seq;
-- all aggregates
SELECT id, n, m, s, a, lo, hi, f, l, c FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 1 MINUTE, aggregates => 'count(*) AS n, count(amount) m, sum(amount) AS s, avg(amount) AS a, min(amount) AS lo, max(concat(customer, id)) AS hi, first(id) AS f, last(id) AS l, collect_list(id) AS c') ORDER BY id;
-- W6: one final row for each window, when stream time reaches its close; what is open at the end is held, or leaves at the end
SELECT customer, window_start, n, window_close, emit_time, emit_reason FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, grace => INTERVAL 1 SECOND, aggregates => 'count(*) AS n', emit => 'final') ORDER BY 1, 2;
SELECT customer, window_start, n, emit_time, emit_reason FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, grace => INTERVAL 1 SECOND, aggregates => 'count(*) AS n', emit => 'final', at_end => 'emit') ORDER BY 1, 2;
-- the same in two calls
SELECT customer, window_start, n, emit_time, emit_reason FROM SUPPRESS_UNTIL_CLOSE(TABLE(SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, grace => INTERVAL 1 SECOND, aggregates => 'count(*) AS n')) PARTITION BY (customer, window_start) ORDER BY (id, change_seq), time => 'change_time', at_end => 'emit') ORDER BY 1, 2;
-- sessions: deletes of what is replaced, then the new session
SELECT id, session_start, session_end, n, window_close, change_type, change_time, change_seq FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', gap => INTERVAL 6 SECONDS, grace => INTERVAL 10 SECONDS, aggregates => 'count(*) AS n') ORDER BY id, change_seq;
SELECT customer, session_start, session_end, n, emit_time FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, gap => INTERVAL 6 SECONDS, aggregates => 'count(*) AS n', emit => 'final') ORDER BY 1, 2;
-- what came too late, and what every row did
SELECT id, reason, stream_time, lateness, window_start, window_end FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, aggregates => 'count(*) AS n', output => 'dropped') ORDER BY id;
SELECT id, outcome, stream_time, session_start, session_end, explanation FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', gap => INTERVAL 6 SECONDS, grace => INTERVAL 10 SECONDS, aggregates => 'count(*) AS n', output => 'explain') ORDER BY id;
SELECT id, outcome, explanation FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, aggregates => 'count(*) AS n', output => 'explain') ORDER BY id;
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', gap => INTERVAL 6 SECONDS, aggregates => 'count(*) AS n', output => 'metrics', name => 'orders');
-- wrong calls
SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, size => INTERVAL 1 DAY);
SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, aggregates => 'count(*) AS n');
SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, size => INTERVAL 1 DAY, slide => INTERVAL 2 DAYS, aggregates => 'count(*) AS n');
SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, size => INTERVAL 1 DAY, gap => INTERVAL 2 DAYS, aggregates => 'count(*) AS n');
SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY upper(customer) ORDER BY ts, size => INTERVAL 1 DAY, aggregates => 'count(*) AS n');
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, aggregates => 'count(*) AS n');
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => 'median(amount) AS n');
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => 'sum(amuont) AS n');
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => 'sum(customer) AS n');
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => 'sum(amount) AS window_close');
SELECT * FROM SESSION_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => 'count(*) AS n', emit => 'finale');
