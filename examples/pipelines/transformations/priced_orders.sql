-- Each order with the price that was valid at its own time.
CREATE MATERIALIZED VIEW priced_orders AS
SELECT o.order_id, o.ts, o.product, p.price
FROM orders_once o LEFT ASOF JOIN prices p MATCH_CONDITION (o.ts >= p.ts) ON o.product = p.product;
