-- Sessions that open, grow and merge, as their rows come
CREATE OR REPLACE TEMP VIEW views AS SELECT * FROM VALUES
  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', '/home'),
  (2, 'ann', TIMESTAMP '2024-05-01 10:40:00', '/cart'),
  (3, 'ann', TIMESTAMP '2024-05-01 10:25:00', '/shoes'),
  (4, 'bob', TIMESTAMP '2024-05-01 11:30:00', '/home') AS views(id, visitor, ts, page);

SELECT * FROM SESSION_UPDATES(TABLE(views) PARTITION BY visitor ORDER BY id, time => 'ts',
                              gap => INTERVAL 30 MINUTES, grace => INTERVAL 10 MINUTES, aggregates => 'count(*) AS n')
