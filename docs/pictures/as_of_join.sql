-- Each order with the price that was valid when it was made
CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
  (1, 'tea', TIMESTAMP '2024-05-01 10:00:00'),
  (2, 'jam', TIMESTAMP '2024-05-01 11:00:00'),
  (3, 'tea', TIMESTAMP '2024-05-01 12:00:00'),
  (4, 'tea', TIMESTAMP '2024-05-01 13:30:00'),
  (5, 'jam', TIMESTAMP '2024-05-01 14:00:00') AS orders(id, item, ts);

CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
  ('tea', TIMESTAMP '2024-05-01 09:00:00', 2.50),
  ('tea', TIMESTAMP '2024-05-01 12:00:00', 2.80),
  ('jam', TIMESTAMP '2024-05-01 12:30:00', 4.00) AS prices(item, since, price);

SELECT * FROM AS_OF_JOIN(TABLE(orders) PARTITION BY item ORDER BY ts, TABLE(prices) PARTITION BY item ORDER BY since)
