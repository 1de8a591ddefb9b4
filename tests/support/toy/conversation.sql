-- Every second row of each key
CREATE OR REPLACE TEMP VIEW beats AS SELECT IF(id = 5, NULL, IF(id % 3 = 0, 'a', '')) AS k, timestamp_seconds(id DIV 4) AS ts, id FROM range(9);
SELECT id, k FROM EVERY_NTH(TABLE(beats) PARTITION BY k ORDER BY ts, n => 2) ORDER BY id;
SELECT id, reason FROM EVERY_NTH(TABLE(beats) PARTITION BY k ORDER BY ts, n => 2, output => 'dropped') ORDER BY id;
-- an option that is required has no default
SELECT * FROM EVERY_NTH(TABLE(beats) PARTITION BY k ORDER BY ts);
SELECT * FROM EVERY_NTH(TABLE(beats) PARTITION BY k ORDER BY ts, n => 0);
