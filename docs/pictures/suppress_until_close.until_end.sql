-- With `until => 'end'` a window's count comes out when the window ends; a change that comes later corrects it at once
CREATE OR REPLACE TEMP VIEW counts AS SELECT * FROM VALUES
  (1, 'ann', TIMESTAMP '2024-05-01 10:00:00', 1, TIMESTAMP '2024-05-01 10:01:00'),
  (2, 'ann', TIMESTAMP '2024-05-01 10:00:00', 2, TIMESTAMP '2024-05-01 10:06:00'),
  (3, 'bob', TIMESTAMP '2024-05-01 10:10:00', 1, TIMESTAMP '2024-05-01 10:11:00'),
  (4, 'ann', TIMESTAMP '2024-05-01 10:00:00', 3, TIMESTAMP '2024-05-01 10:09:00'),
  (5, 'bob', TIMESTAMP '2024-05-01 10:10:00', 2, TIMESTAMP '2024-05-01 10:13:00')
AS counts(offset, user_id, window_start, n, change_time);

SELECT * FROM SUPPRESS_UNTIL_CLOSE(TABLE(counts) PARTITION BY (user_id, window_start) ORDER BY offset, time => 'change_time',
                                   window_end => 'window_start + INTERVAL 10 MINUTES', until => 'end')
