-- At most one change of each key in five minutes: the newest, five minutes after the first that waits
CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
  (1, 'gold', TIMESTAMP '2024-05-01 10:00:00', 70.1),
  (2, 'gold', TIMESTAMP '2024-05-01 10:02:00', 70.4),
  (3, 'iron', TIMESTAMP '2024-05-01 10:03:00', 0.9),
  (4, 'gold', TIMESTAMP '2024-05-01 10:04:00', 70.2),
  (5, 'iron', TIMESTAMP '2024-05-01 10:06:00', 1.0),
  (6, 'gold', TIMESTAMP '2024-05-01 10:09:00', 70.9) AS prices(offset, metal, ts, price);

SELECT * FROM SUPPRESS_UNTIL_TIME_LIMIT(TABLE(prices) PARTITION BY metal ORDER BY offset, time => 'ts', wait => INTERVAL 5 MINUTES)
