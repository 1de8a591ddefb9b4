SELECT user_id, page -- the first of each
FROM (
  /* streamtime 0.1.0: DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts)
     over (user_id string, ts timestamp, page string) */
  WITH
    input_1 AS (
      SELECT `user_id`, `ts`, `page` FROM clicks
    ),
    rows_1 AS (
      SELECT * FROM input_1 WHERE (`ts` IS NOT NULL)
    ),
    columns_1 AS (
      SELECT *, (IF((`user_id` IS NOT NULL), CAST(NULL AS BIGINT), monotonically_increasing_id())) AS `__streamtime_alone` FROM rows_1
    ),
    beside_1 AS (
      SELECT *, row_number() OVER (PARTITION BY `user_id`, `__streamtime_alone` ORDER BY `ts` ASC NULLS FIRST, `page` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_we0` FROM columns_1
    ),
    columns_2 AS (
      SELECT *, (IF(((`_we0`) = 1), NULL, (`_we0`))) AS `__streamtime_kept_time` FROM beside_1
    ),
    columns_3 AS (
      SELECT `user_id`, `ts`, `page`, `__streamtime_alone`, `__streamtime_kept_time` FROM columns_2
    ),
    rows_2 AS (
      SELECT * FROM columns_3 WHERE (`__streamtime_kept_time` IS NULL)
    ),
    columns_4 AS (
      SELECT `user_id`, `ts`, `page` FROM rows_2
    )
  SELECT `user_id`, `ts`, `page`
  FROM columns_4
) AS d WHERE page <> :page
