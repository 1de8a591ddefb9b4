-- AS OF joins, as a conversation: orders, and what was valid at their time
CREATE SCHEMA tea_shop;
CREATE OR REPLACE TEMP VIEW orders AS SELECT id, item, timestamp_seconds(t) AS ts, v, off FROM VALUES
  (1, 'tea', 100, 2, 4), (2, 'tea', 120, 3, 8), (3, 'jam', 120, 3, 5), (4, 'rum', 90, 2, 3), (5, NULL, 100, 2, 6), (6, 'tea', NULL, 2, 7) AS o(id, item, t, v, off);
-- a table that declares that it is versioned: by event time
CREATE TABLE tea_shop.prices (item STRING, since TIMESTAMP, price INT, gone BOOLEAN, off INT) USING delta
  TBLPROPERTIES ('streamtime.key' = 'item', 'streamtime.time' = 'since', 'streamtime.deleted' = 'gone');
INSERT INTO tea_shop.prices SELECT item, timestamp_seconds(t), price, gone, off FROM VALUES
  ('tea', 90, 3, false, 1), ('tea', 110, 4, false, 9), ('jam', 50, 7, false, 2), ('jam', 115, NULL, true, 4), ('tea', 95, 5, false, 5) AS p(item, t, price, gone, off);
-- J1: the version that was valid; an inner join drops the rest, jam's tombstone among it, and a left join keeps it
SELECT o.id, p.* FROM orders o JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.item ORDER BY id;
SELECT id, price, ts - since AS age FROM orders o LEFT JOIN tea_shop.prices TIMESTAMP AS OF o.ts p ON o.item = p.item ORDER BY id;
-- further predicates apply after the version is picked: no older version takes its place
SELECT id, price FROM orders o LEFT JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.item AND p.price < 5 ORDER BY id;
SELECT id, item, price FROM orders JOIN tea_shop.prices FOR SYSTEM_TIME AS OF ts - INTERVAL 10 SECONDS USING (item) ORDER BY id;
-- the same as a function, which takes options, and knows the tombstones of a declared table; what found nothing, and why
SELECT id, p.since, p.price FROM AS_OF_JOIN(TABLE(SELECT * FROM orders o) PARTITION BY item ORDER BY ts, TABLE(SELECT * FROM tea_shop.prices p) PARTITION BY item ORDER BY since) ORDER BY id;
SELECT id, item, reason FROM AS_OF_JOIN(TABLE(orders), TABLE(tea_shop.prices), using => ARRAY('item'), match => 'ts >= since', tolerance => INTERVAL 5 SECONDS, output => 'dropped') ORDER BY id;
-- J5: known as of. The price of 5 came after the order of id 1, and that of 4 after both
SELECT id, price FROM AS_OF_JOIN(TABLE(orders) PARTITION BY item ORDER BY ts, TABLE(tea_shop.prices) PARTITION BY item ORDER BY since, arrival => 'off') ORDER BY id;
-- Spark 4.3's words; the right side may be a query. Without its tombstone, jam's old price lives on (V8)
SELECT id, price FROM orders o ASOF JOIN (SELECT * FROM tea_shop.prices WHERE NOT gone) p MATCH_CONDITION (o.ts > p.since) ON o.item = p.item ORDER BY id;
-- any other Delta table with a change feed: by commit. Two AS OF joins in one FROM
CREATE TABLE tea_shop.stock USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS SELECT * FROM VALUES ('tea', 10), ('jam', 2) AS s(item, amount);
UPDATE tea_shop.stock SET amount = 8 WHERE item = 'tea';
DELETE FROM tea_shop.stock WHERE item = 'jam';
SELECT o.id, o.v, p.price, s.amount FROM orders o LEFT JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.item
  LEFT JOIN tea_shop.stock VERSION AS OF o.v - 2 s ON s.item = o.item ORDER BY id;
-- a constant is time travel, and Delta's
SELECT o.id, s.amount FROM orders o JOIN tea_shop.stock VERSION AS OF 1 s ON s.item = o.item ORDER BY id;
-- what cannot be, in words
SELECT * FROM orders o RIGHT JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.item;
SELECT * FROM orders o JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.tz p ON o.item = p.item;
SELECT * FROM orders o JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON item = p.item;
SELECT * FROM orders o JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON o.id = p.price;
SELECT * FROM orders o JOIN tea_shop.prices VERSION AS OF o.v p ON o.item = p.item;
SELECT * FROM orders o JOIN tea_shop.prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.itm;
CREATE TABLE tea_shop.rates USING delta AS SELECT 'tea' AS item, 1 AS rate;
SELECT * FROM orders o JOIN tea_shop.rates FOR SYSTEM_TIME AS OF o.ts r ON o.item = r.item;
DROP SCHEMA tea_shop CASCADE;
