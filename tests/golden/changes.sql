-- JOIN_CHANGES, AGGREGATE_CHANGES and FILTER_CHANGES, as a conversation. First KIP-914: A and B are changelogs of one key, `n` is when a change came, `ts` its time
CREATE OR REPLACE TEMP VIEW a AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, a FROM VALUES (1, 0, 'a0'), (2, 4, 'a4') AS t(n, s, a);
CREATE OR REPLACE TEMP VIEW b AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, b FROM VALUES (3, 2, 'b2'), (4, 1, 'b1') AS t(n, s, b);
-- as they come: the old b1 takes the place of b2
SELECT n, a, b, change_time FROM JOIN_CHANGES(TABLE(a) PARTITION BY k ORDER BY n, TABLE(b) PARTITION BY k ORDER BY n, time => 'ts') ORDER BY n;
-- versioned: the last row is the join of the newest of both
SELECT n, a, b, change_time FROM JOIN_CHANGES(TABLE(a) PARTITION BY k ORDER BY n, TABLE(b) PARTITION BY k ORDER BY n, time => 'ts', versioned => ARRAY('left', 'right')) ORDER BY n;
SELECT n, side, outcome, explanation FROM JOIN_CHANGES(TABLE(a) PARTITION BY k ORDER BY n, TABLE(b) PARTITION BY k ORDER BY n, time => 'ts', versioned => ARRAY('left', 'right'), output => 'explain') ORDER BY n;
-- many changes of one side
CREATE OR REPLACE TEMP VIEW a AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, a FROM VALUES (1, 0, 'a0'), (2, 5, 'a5'), (6, 1, 'a1') AS t(n, s, a);
CREATE OR REPLACE TEMP VIEW b AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, b FROM VALUES (3, 2, 'b2'), (4, 3, 'b3'), (5, 4, 'b4') AS t(n, s, b);
SELECT n, a, b, change_time FROM JOIN_CHANGES(TABLE(a) PARTITION BY k ORDER BY n, TABLE(b) PARTITION BY k ORDER BY n, time => 'ts', versioned => ARRAY('left', 'right')) ORDER BY n;
-- an older result stays as it was, and is no longer right: AS_OF_JOIN corrects history
CREATE OR REPLACE TEMP VIEW a AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, a FROM VALUES (1, 0, 'a0'), (3, 5, 'a5'), (4, 1, 'a1') AS t(n, s, a);
CREATE OR REPLACE TEMP VIEW b AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, b FROM VALUES (2, 2, 'b2') AS t(n, s, b);
SELECT n, a, b, change_time FROM JOIN_CHANGES(TABLE(a) PARTITION BY k ORDER BY n, TABLE(b) PARTITION BY k ORDER BY n, time => 'ts', versioned => ARRAY('left', 'right')) ORDER BY n;
SELECT b, a FROM AS_OF_JOIN(TABLE(SELECT k, ts, b FROM b) PARTITION BY k ORDER BY ts, TABLE(SELECT k, ts AS at, a FROM a) PARTITION BY k ORDER BY at) ORDER BY b;
-- totals of a table, as they come and versioned
CREATE OR REPLACE TEMP VIEW v AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, v, v AS g FROM VALUES (1, 1, 'v1'), (2, 10, 'v2'), (3, 5, 'v3') AS t(n, s, v);
SELECT n, v, rows, change_type FROM AGGREGATE_CHANGES(TABLE(v) PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('v'), aggregates => 'count(*) AS rows') ORDER BY n, change_seq;
SELECT n, v, rows, change_type FROM AGGREGATE_CHANGES(TABLE(v) PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('v'), aggregates => 'count(*) AS rows', versioned => true) ORDER BY n, change_seq;
SELECT n, outcome, explanation FROM AGGREGATE_CHANGES(TABLE(v) PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('v'), aggregates => 'count(*) AS rows', versioned => true, output => 'explain') ORDER BY n;
-- a filter: what fails it is a deletion (V8); a WHERE would keep v1
SELECT n, rows, change_type FROM AGGREGATE_CHANGES(TABLE(SELECT *, 'all' AS every FROM v) PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('every'), aggregates => 'count(*) AS rows', deleted => 'NOT (v = "v1")') ORDER BY n, change_seq;
SELECT n, rows, change_type FROM AGGREGATE_CHANGES(TABLE(SELECT *, 'all' AS every FROM v WHERE v = 'v1') PARTITION BY k ORDER BY n, time => 'ts', group_by => ARRAY('every'), aggregates => 'count(*) AS rows') ORDER BY n, change_seq;
-- KIP-914's filter: as they come, the second deletion is left out, and who takes the newest time sees v2, which was over by then
CREATE OR REPLACE TEMP VIEW f AS SELECT n, 'k' AS k, timestamp_seconds(s) AS ts, v FROM VALUES (1, 1, 'v1'), (2, 2, 'x'), (3, 4, 'x'), (4, 3, 'v2') AS t(n, s, v);
SELECT n, v, change_type, change_time FROM FILTER_CHANGES(TABLE(f) PARTITION BY k ORDER BY n, time => 'ts', condition => 'v LIKE "v%"') ORDER BY n;
SELECT max_by(change_type, change_time) AS newest FROM FILTER_CHANGES(TABLE(f) PARTITION BY k ORDER BY n, time => 'ts', condition => 'v LIKE "v%"');
-- versioned: no deletion is left out
SELECT n, v, change_type, change_time FROM FILTER_CHANGES(TABLE(f) PARTITION BY k ORDER BY n, time => 'ts', condition => 'v LIKE "v%"', versioned => true) ORDER BY n;
SELECT max_by(change_type, change_time) AS newest FROM FILTER_CHANGES(TABLE(f) PARTITION BY k ORDER BY n, time => 'ts', condition => 'v LIKE "v%"', versioned => true);
-- a report: how many people buy in each town, and for how much, kept as orders and moves come in
CREATE OR REPLACE TEMP VIEW orders AS SELECT offset, name, timestamp_seconds(s) AS ts, amount FROM VALUES (1, 'ann', 10, 12), (2, 'bob', 20, 30), (5, 'ann', 50, 20), (7, 'bob', 70, NULL) AS t(offset, name, s, amount);
CREATE OR REPLACE TEMP VIEW towns AS SELECT offset, name, timestamp_seconds(s) AS ts, town FROM VALUES (3, 'ann', 5, 'Rome'), (4, 'bob', 5, 'Rome'), (6, 'ann', 60, 'Oslo') AS t(offset, name, s, town);
CREATE OR REPLACE TEMP VIEW bought AS SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, TABLE(towns) PARTITION BY name ORDER BY offset, time => 'ts', deleted => 'amount IS NULL');
SELECT offset, name, amount, town, change_type FROM bought ORDER BY offset;
SELECT offset, town, people, total, change_type FROM AGGREGATE_CHANGES(TABLE(bought) PARTITION BY name ORDER BY (offset, change_seq), time => 'change_time', group_by => ARRAY('town'), aggregates => 'count(*) AS people, sum(amount) AS total') ORDER BY offset, change_seq;
-- a foreign key: lines name a product, so a change of a product changes all lines that name it
CREATE OR REPLACE TEMP VIEW lines AS SELECT n, id AS line, timestamp_seconds(n) AS ts, product, product = -1 AS gone FROM VALUES (2, 'a', 7), (3, 'b', 7), (5, 'a', 8), (6, 'c', NULL), (9, 'b', -1) AS t(n, id, product);
CREATE OR REPLACE TEMP VIEW goods AS SELECT n, id AS product, timestamp_seconds(s) AS ts, name, name IS NULL AS gone FROM VALUES (1, 7, 1, 'tea'), (4, 7, 4, 'green tea'), (7, 7, 2, 'old tea'), (8, 7, 8, NULL), (10, 9, 10, NULL) AS t(n, id, s, name);
SELECT n, line, product, name, change_type FROM JOIN_CHANGES(TABLE(lines) PARTITION BY line ORDER BY n, TABLE(goods) PARTITION BY product ORDER BY n, on => 'product', time => 'ts', versioned => ARRAY('right'), join_type => 'left', deleted => 'gone') ORDER BY n, line;
SELECT n, side, line, product, outcome, explanation FROM JOIN_CHANGES(TABLE(lines) PARTITION BY line ORDER BY n, TABLE(goods) PARTITION BY product ORDER BY n, on => 'product', time => 'ts', versioned => ARRAY('right'), join_type => 'left', deleted => 'gone', output => 'explain') ORDER BY n;
SELECT n, side, line, product, outcome, explanation FROM JOIN_CHANGES(TABLE(lines) PARTITION BY line ORDER BY n, TABLE(goods) PARTITION BY product ORDER BY n, on => 'product', time => 'ts', versioned => ARRAY('right'), deleted => 'gone', output => 'explain') ORDER BY n;
-- wrong calls
SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset);
SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, TABLE(towns) PARTITION BY name ORDER BY offset);
SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, TABLE(towns) PARTITION BY town ORDER BY ts, time => 'ts');
SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, TABLE(towns) ORDER BY offset, time => 'ts');
SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, TABLE(orders) PARTITION BY name ORDER BY offset, time => 'ts');
SELECT * FROM JOIN_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, TABLE(towns) PARTITION BY name ORDER BY offset, time => 'ts', versioned => ARRAY('rigth'));
SELECT * FROM AGGREGATE_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, time => 'ts', group_by => ARRAY('amount'));
SELECT * FROM AGGREGATE_CHANGES(TABLE(orders) ORDER BY offset, time => 'ts', group_by => ARRAY('amount'), aggregates => 'count(*) AS n');
SELECT * FROM AGGREGATE_CHANGES(TABLE(orders) PARTITION BY name ORDER BY offset, time => 'ts', group_by => ARRAY('amount'), aggregates => 'collect_list(name) AS n');
