-- Four clicks of one user: two are duplicates, one comes late and is compared in both directions
CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES
  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),
  (2, 'ann', TIMESTAMP '2024-05-01 10:09:00', '/home'),
  (3, 'bob', TIMESTAMP '2024-05-01 10:12:00', '/home'),
  (4, 'ann', TIMESTAMP '2024-05-01 10:14:00', '/cart'),
  (5, 'ann', TIMESTAMP '2024-05-01 10:12:00', '/cart') AS clicks(offset, user_id, ts, page);

SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY offset, time => 'ts', within => INTERVAL 10 MINUTES)
