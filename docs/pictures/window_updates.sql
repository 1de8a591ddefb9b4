-- Windows of ten minutes that begin every five: each order is in two; the last one comes when one of its windows is closed
CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
  (1, 'ann', TIMESTAMP '2024-05-01 10:01:00', 20.00),
  (2, 'ann', TIMESTAMP '2024-05-01 10:07:00', 5.00),
  (3, 'bob', TIMESTAMP '2024-05-01 10:13:00', 8.50),
  (4, 'ann', TIMESTAMP '2024-05-01 10:08:00', 1.00),
  (5, 'ann', TIMESTAMP '2024-05-01 10:02:00', 9.00) AS orders(id, customer, ts, amount);

SELECT * FROM WINDOW_UPDATES(TABLE(orders) PARTITION BY customer ORDER BY id, time => 'ts', size => INTERVAL 10 MINUTES,
                             slide => INTERVAL 5 MINUTES, grace => INTERVAL 2 MINUTES, aggregates => 'sum(amount) AS total')
