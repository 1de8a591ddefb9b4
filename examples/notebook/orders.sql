-- # Late, twice, and at which price
--
-- Six orders, in the order in which they came. The third one is the first one, sent again. The fifth one was on its way for a while.
CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
  (1, 'o1', 'tea',  TIMESTAMP '2024-05-01 10:01:00'),
  (2, 'o2', 'milk', TIMESTAMP '2024-05-01 10:04:00'),
  (3, 'o1', 'tea',  TIMESTAMP '2024-05-01 10:06:00'),
  (4, 'o3', 'tea',  TIMESTAMP '2024-05-01 10:16:00'),
  (5, 'o4', 'milk', TIMESTAMP '2024-05-01 10:09:00'),
  (6, 'o5', 'tea',  TIMESTAMP '2024-05-01 10:25:00') AS orders(offset, id, product, ts);

SELECT * FROM orders ORDER BY offset;

-- ## Which rows came twice?
--
-- `DEDUPLICATE` keeps the first row of each key, and drops what comes again within ten minutes.
CREATE OR REPLACE TEMP VIEW once AS
SELECT * FROM DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES);

-- Nothing is lost silently: `output => 'dropped'` says what did not pass, and why.
SELECT id, ts, reason, kept_time
FROM DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES, output => 'dropped');

-- The same as a picture: a lane for each key, and an arrow from the duplicate to the row that was kept.
-- %%sql --plot
SELECT * FROM DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES);

-- ## How many every ten minutes, for good?
--
-- Rows come in the order of `offset`; their time is `ts`. A window waits five minutes more for rows that are late. Then its count is
-- final, and is said once.
SELECT product, window_start, n, emit_time
FROM WINDOW_UPDATES(TABLE(once) PARTITION BY product ORDER BY offset, time => 'ts', size => INTERVAL 10 MINUTES,
                    grace => INTERVAL 5 MINUTES, aggregates => 'count(*) AS n', emit => 'final')
ORDER BY window_start, product;

-- And o4? It came after its window had closed, at 10:15. In the picture, the pale tail of a window is its grace.
-- %%sql --plot
SELECT * FROM WINDOW_UPDATES(TABLE(once) PARTITION BY product ORDER BY offset, time => 'ts', size => INTERVAL 10 MINUTES,
                             grace => INTERVAL 5 MINUTES, aggregates => 'count(*) AS n');

-- ## What was the price when the order came?
--
-- Prices have versions. Each order takes the one that was valid at its own time.
CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
  ('tea',  TIMESTAMP '2024-05-01 10:00:00', 1.00), ('tea', TIMESTAMP '2024-05-01 10:12:00', 1.20),
  ('milk', TIMESTAMP '2024-05-01 10:00:00', 0.80) AS prices(product, since, price);

SELECT id, ts, since, price
FROM AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
ORDER BY id;

-- %%sql --plot
SELECT * FROM AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since);

-- ## On in Python
--
-- `revenue <<` puts a result into a variable: a DataFrame of Spark, which goes on from here.
-- %%sql revenue <<
SELECT once.product, sum(price) AS revenue
FROM AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
GROUP BY once.product ORDER BY once.product;
