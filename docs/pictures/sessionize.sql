-- The row at 10:20 joins two sessions into one; that at 11:00 comes when its session is closed
CREATE OR REPLACE TEMP VIEW views AS SELECT * FROM VALUES
  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),
  (2, 'ann', TIMESTAMP '2024-05-01 10:40:00', '/cart'),
  (3, 'bob', TIMESTAMP '2024-05-01 10:45:00', '/home'),
  (4, 'ann', TIMESTAMP '2024-05-01 10:20:00', '/shop'),
  (5, 'bob', TIMESTAMP '2024-05-01 12:15:00', '/cart'),
  (6, 'ann', TIMESTAMP '2024-05-01 11:00:00', '/paid') AS views(offset, user_id, ts, page);

SELECT * FROM SESSIONIZE(TABLE(views) PARTITION BY user_id ORDER BY offset, time => 'ts',
                         gap => INTERVAL 30 MINUTES, grace => INTERVAL 30 MINUTES)
