-- VERSIONS and TABLE_HISTORY, as a conversation
CREATE OR REPLACE TEMP VIEW changes AS SELECT off, k, timestamp_seconds(s) AS ts, v FROM VALUES
  (0, 'a', 10, 'x'), (1, 'b', 12, 'y'), (2, 'a', 30, 'z'), (3, 'a', 20, 'w'), (4, 'a', 20, 'w again'), (5, 'b', 40, NULL), (6, 'a', 5, 'old'), (7, NULL, 50, 'n'), (8, 'b', NULL, 'n') AS c(off, k, s, v);
-- V1, V2: an out-of-order row ends where the next version begins; the same key and time overwrites
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts') ORDER BY off;
-- V5: a tombstone ends a version and is none
SELECT off, k, v, valid_to FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts', deleted => 'v IS NULL') ORDER BY off;
-- what did not make it, and why
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts', deleted => 'v IS NULL', grace => INTERVAL 20 SECONDS, output => 'dropped') ORDER BY off;
SELECT off, reason, valid_from, valid_to FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts', retention => INTERVAL 15 SECONDS, output => 'all') ORDER BY off;
-- what each row was told when it came
SELECT off, k, valid_to, put_status FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts', grace => INTERVAL 20 SECONDS, output => 'puts') ORDER BY off;
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts', grace => INTERVAL 20 SECONDS, output => 'metrics', name => 'prices');
-- V8: a WHERE on the changelog lets an old version live on; deleted => 'NOT (..)' does not; a WHERE afterwards filters the table
SELECT off, v, valid_to FROM VERSIONS(TABLE(SELECT * FROM changes WHERE v < 'z') PARTITION BY k ORDER BY ts) WHERE k = 'a' ORDER BY off;
SELECT off, v, valid_to FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY ts, deleted => 'NOT (v < "z")') WHERE k = 'a' ORDER BY off;
SELECT off, v, valid_to FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY ts) WHERE k = 'a' AND v < 'z' ORDER BY off;
-- what was valid at a time
SELECT k, v FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off, time => 'ts', deleted => 'v IS NULL') WHERE valid_from <= timestamp_seconds(25) AND coalesce(timestamp_seconds(25) < valid_to, true) ORDER BY k;
-- wrong calls
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k);
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY off);
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY ts, retention => INTERVAL 1 MONTH);
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY ts, graze => INTERVAL 1 DAY);
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY ts, deleted => 'v');
SELECT * FROM VERSIONS(TABLE(changes) PARTITION BY k ORDER BY ts, output => 'put');
SELECT * FROM VERSIONS(TABLE(SELECT *, 1 AS valid_from FROM changes) PARTITION BY k ORDER BY ts);
SELECT * FROM TABLE_HISTORY();
SELECT * FROM TABLE_HISTORY('changes');
SELECT * FROM TABLE_HISTORY('no.such_table');
SELECT * FROM TABLE_HISTORY('no such table');
SELECT * FROM TABLE_HISTORY('t', 'k');
SELECT * FROM TABLE_HISTORY('t', keys => 'k');
SELECT * FROM TABLE_HISTORY('t', form => 1);
SELECT * FROM TABLE_HISTORY(t);
SELECT * FROM TABLE_HISTORY(TABLE(changes));
