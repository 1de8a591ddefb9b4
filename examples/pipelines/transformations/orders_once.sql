-- Orders come more than once: keep the first within a day. State lives on between runs, so a duplicate in tomorrow's run is one, too.
CREATE STREAMING TABLE orders_once AS
SELECT * FROM DEDUPLICATE(
  TABLE(SELECT * FROM STREAM raw_orders) PARTITION BY order_id ORDER BY ts,
  within => INTERVAL 1 DAY, watermark => INTERVAL 1 HOUR);
