-- The first reading of each sensor in each ten minutes; one comes when its window is closed
CREATE OR REPLACE TEMP VIEW readings AS SELECT * FROM VALUES
  (1, 'a', TIMESTAMP '2024-05-01 10:01:00', 20.5),
  (2, 'a', TIMESTAMP '2024-05-01 10:04:00', 20.6),
  (3, 'b', TIMESTAMP '2024-05-01 10:08:00', 18.2),
  (4, 'a', TIMESTAMP '2024-05-01 10:14:00', 21.0),
  (5, 'b', TIMESTAMP '2024-05-01 10:09:00', 18.3) AS readings(offset, sensor, ts, degrees);

SELECT * FROM DISTINCT_IN_WINDOW(TABLE(readings) PARTITION BY sensor ORDER BY offset, time => 'ts',
                                 size => INTERVAL 10 MINUTES, grace => INTERVAL 2 MINUTES)
