-- From when to when each price was valid; one change comes too late, and one deletes its key
CREATE OR REPLACE TEMP VIEW price_changes AS SELECT * FROM VALUES
  (1, 'tea', TIMESTAMP '2024-05-01 10:00:00', 4.00),
  (2, 'tea', TIMESTAMP '2024-05-01 12:00:00', 5.00),
  (3, 'tea', TIMESTAMP '2024-05-01 11:15:00', 4.50),
  (4, 'rum', TIMESTAMP '2024-05-01 11:30:00', 9.00),
  (5, 'tea', TIMESTAMP '2024-05-01 10:30:00', 4.20),
  (6, 'rum', TIMESTAMP '2024-05-01 13:00:00', NULL) AS price_changes(offset, product, ts, price);

SELECT * FROM VERSIONS(TABLE(price_changes) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'price IS NULL',
                       grace => INTERVAL 1 HOUR)
