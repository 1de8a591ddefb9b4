-- ASSIGN_TASKS, as a conversation: the plan as a Delta table, each round a commit
CREATE SCHEMA fleet;
CREATE TABLE fleet.shards USING delta AS SELECT * FROM VALUES ('s1'), ('s2'), ('s3'), ('s4'), ('s5'), ('s6') AS s(task);
CREATE TABLE fleet.workers USING delta AS SELECT * FROM VALUES ('w1', true), ('w2', true) AS w(member, alive);
CREATE TABLE fleet.progress (task STRING, member STRING, lag BIGINT) USING delta;
CREATE TABLE fleet.assignment (task STRING, member STRING, role STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'task, member');
-- state that lies somewhere without a copy that runs has no role
CREATE OR REPLACE TEMP VIEW running AS SELECT task, member, role, lag FROM fleet.assignment FULL JOIN fleet.progress USING (task, member);
-- The first round: all is dealt
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
SELECT member, array_join(array_sort(collect_list(task)), ' ') AS runs FROM fleet.assignment WHERE role = 'active' GROUP BY member ORDER BY member;
-- New member, scale up with state: the shards that it is to have stay where they are while it warms up
INSERT INTO fleet.workers VALUES ('w3', true);
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
-- Stop-the-world avoided: none of the six stops
SELECT action, count(*) AS shards FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0) WHERE role = 'active' GROUP BY action ORDER BY action;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0) WHERE action <> 'revoke';
-- half way: one of them lags by more than 10,000 records, and so waits; the other is promoted
MERGE INTO fleet.progress p USING (SELECT task, member, row_number() OVER (ORDER BY task) * 9000 AS lag FROM fleet.assignment WHERE role = 'warmup') w ON p.task = w.task AND p.member = w.member WHEN NOT MATCHED THEN INSERT *;
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0) WHERE action <> 'revoke';
-- Learner promotion: the other has caught up, too
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
SELECT member, array_join(array_sort(collect_list(task)), ' ') AS runs FROM fleet.assignment WHERE role = 'active' GROUP BY member ORDER BY member;
-- and nothing more follows
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, rounds => 3, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
-- Lost member, without standbys: its shards start at once, cold, and nothing else moves
UPDATE fleet.workers SET alive = false WHERE member = 'w2';
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0, rounds => 1, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 0) WHERE action <> 'revoke';
DELETE FROM fleet.progress WHERE member = 'w2';
UPDATE fleet.workers SET alive = true WHERE member = 'w2';
-- With a standby of each shard on another worker: it comes back with nothing
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, rounds => 9, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
SELECT member, array_join(array_sort(collect_list(task)), ' ') AS runs FROM fleet.assignment WHERE role = 'active' GROUP BY member ORDER BY member;
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, rounds => 1, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
-- Lost member, with standbys: they take over, nothing starts cold
UPDATE fleet.workers SET alive = false WHERE member = 'w1';
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, rounds => 1, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1) WHERE action <> 'revoke';
-- Rolling bounce: it comes back with its state on disk, a little behind, and has its shards at once
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment UNION ALL SELECT task, 'w1', 400 FROM fleet.assignment VERSION AS OF 8 WHERE member = 'w1';
UPDATE fleet.workers SET alive = true WHERE member = 'w1';
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, rounds => 1, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
SELECT member, array_join(array_sort(collect_list(task)), ' ') AS runs FROM fleet.assignment WHERE role = 'active' GROUP BY member ORDER BY member;
-- Scale down: its standbys take over, the others keep what they have
UPDATE fleet.workers SET alive = false WHERE member = 'w3';
SELECT task, member, role, action, lag, why FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, output => 'explain') WHERE action <> 'keep' ORDER BY task, role, action, member;
SELECT round, metric, value FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1, rounds => 1, output => 'metrics') WHERE metric IN ('moves', 'recovered', 'cold_starts', 'waiting', 'imbalance', 'stable') ORDER BY round, metric;
INSERT OVERWRITE fleet.assignment SELECT task, member, role FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => 1) WHERE action <> 'revoke';
INSERT OVERWRITE fleet.progress SELECT task, member, 0 FROM fleet.assignment WHERE true;
SELECT member, array_join(array_sort(collect_list(task)), ' ') AS runs FROM fleet.assignment WHERE role = 'active' GROUP BY member ORDER BY member;
-- The history: who owned shard s6, from commit to commit?
SELECT task, member, role, from_version, to_version FROM TABLE_HISTORY('fleet.assignment') WHERE task = 's6' ORDER BY from_version, member;
-- Who had s6 after each commit that changed that?
CREATE OR REPLACE TEMP VIEW questions AS SELECT DISTINCT from_version AS n, task, valid_from + INTERVAL 1 MILLISECOND AS at FROM TABLE_HISTORY('fleet.assignment') WHERE task = 's6';
SELECT q.n, q.task, a.member FROM questions q LEFT JOIN fleet.assignment FOR SYSTEM_TIME AS OF q.at a ON a.task = q.task AND a.role = 'active' ORDER BY n, task;
-- Who owned which shard when it was asked? An AS OF join by time, here 1 ms after the commits 4 and 9
CREATE OR REPLACE TEMP VIEW questions AS SELECT DISTINCT from_version AS n, s.task, valid_from + INTERVAL 1 MILLISECOND AS at FROM TABLE_HISTORY('fleet.assignment') h CROSS JOIN VALUES ('s1'), ('s6') AS s(task) WHERE from_version IN (4, 9);
SELECT q.n, q.task, a.member FROM questions q LEFT JOIN fleet.assignment FOR SYSTEM_TIME AS OF q.at a ON a.task = q.task AND a.role = 'active' ORDER BY n, task;
CREATE OR REPLACE TEMP VIEW owners AS SELECT * FROM TABLE_HISTORY('fleet.assignment') WHERE role = 'active';
SELECT q.n, q.task, o.member FROM questions q LEFT JOIN owners o ON o.task = q.task AND o.valid_from <= q.at AND coalesce(q.at < o.valid_to, true) ORDER BY n, task;
SELECT q.n, q.task, o.member FROM AS_OF_JOIN(TABLE(SELECT * FROM questions q) PARTITION BY task ORDER BY at, TABLE(SELECT * FROM owners o) PARTITION BY task ORDER BY valid_from) ORDER BY q.n, q.task;
-- all of it, which docs/assignment.svg draws
SELECT task, member, role, from_version, to_version FROM TABLE_HISTORY('fleet.assignment') ORDER BY task, from_version, member;
-- what is wrong with a call is said when it is analysed
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards));
SELECT * FROM ASSIGN_TASKS(members => TABLE(fleet.workers), tasks => TABLE(fleet.shards), current => TABLE(running), current => TABLE(running));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), curent => TABLE(running));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), TABLE(running), TABLE(running));
SELECT * FROM ASSIGN_TASKS(TABLE(fleet.shards), TABLE(fleet.workers), tasks => TABLE(running));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), strategy => 'stiky');
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), standbys => -1);
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), rounds => 0);
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), acceptable_lag => INTERVAL 1 MINUTE);
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), tags => ARRAY('zone'));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), strategy => 'high_availability', handover => 'immediate');
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), strategy => 'high_availability', preserve_active => true);
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), output => 'changes');
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(running), max_warmup => 1);
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.workers), members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT 1 AS task), members => TABLE(fleet.workers), current => TABLE(running));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT map(1, 2) AS task), members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT 1.5D AS task), members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT *, 'high' AS cost FROM fleet.shards), members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(SELECT *, '2' AS threads FROM fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(SELECT member, 1 AS alive FROM fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(SELECT task, member, 1.5 AS lag FROM running));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers), current => TABLE(SELECT task FROM running));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(SELECT *, 's7' AS Task FROM fleet.shards), members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards) PARTITION BY task, members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shards), members => TABLE(fleet.workers) ORDER BY member);
SELECT * FROM ASSIGN_TASKS(tasks => TABLE(fleet.shard), members => TABLE(fleet.workers));
SELECT * FROM ASSIGN_TASKS();
SELECT * FROM ASSIGN_TASKS('sticky');
DROP SCHEMA fleet CASCADE;
