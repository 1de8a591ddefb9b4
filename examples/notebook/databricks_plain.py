# Databricks notebook source
# MAGIC %md
# MAGIC **Not run on Databricks**: made of `orders.sql`, whose statements run on Apache Spark. Each statement is compiled by `streamtime.compile`: it needs nothing of streamtime where it runs.

# COMMAND ----------

# MAGIC %md
# MAGIC # Late, twice, and at which price
# MAGIC
# MAGIC Six orders, in the order in which they came. The third one is the first one, sent again. The fifth one was on its way for a while.

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES
# MAGIC   (1, 'o1', 'tea',  TIMESTAMP '2024-05-01 10:01:00'),
# MAGIC   (2, 'o2', 'milk', TIMESTAMP '2024-05-01 10:04:00'),
# MAGIC   (3, 'o1', 'tea',  TIMESTAMP '2024-05-01 10:06:00'),
# MAGIC   (4, 'o3', 'tea',  TIMESTAMP '2024-05-01 10:16:00'),
# MAGIC   (5, 'o4', 'milk', TIMESTAMP '2024-05-01 10:09:00'),
# MAGIC   (6, 'o5', 'tea',  TIMESTAMP '2024-05-01 10:25:00') AS orders(offset, id, product, ts)

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT * FROM orders ORDER BY offset

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which rows came twice?
# MAGIC
# MAGIC `DEDUPLICATE` keeps the first row of each key, and drops what comes again within ten minutes.

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMP VIEW once AS
# MAGIC SELECT * FROM (
# MAGIC   /* streamtime 0.1.0: DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES)
# MAGIC      over (offset int, id string, product string, ts timestamp) */
# MAGIC   WITH
# MAGIC     orders_input AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`
# MAGIC       FROM orders
# MAGIC     ),
# MAGIC     with_at AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         CASE
# MAGIC           WHEN `ts` IS NOT NULL AND `id` IS NOT NULL THEN unix_micros(CAST(`ts` AS TIMESTAMP))
# MAGIC         END AS `__streamtime_at`
# MAGIC       FROM orders_input
# MAGIC     ),
# MAGIC     with_mark AS (
# MAGIC       SELECT *, false AS `__streamtime_mark`
# MAGIC       FROM with_at
# MAGIC     ),
# MAGIC     with_hash AS (
# MAGIC       SELECT `id`, `__streamtime_at`, hash(`id`) AS `__streamtime_hash`
# MAGIC       FROM with_at
# MAGIC     ),
# MAGIC     sorted AS (
# MAGIC       SELECT *
# MAGIC       FROM with_hash
# MAGIC       SORT BY shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(
# MAGIC         greatest(shiftright(`__streamtime_at`, 21) + 2147483648L, 0L),
# MAGIC         4294967295L
# MAGIC       ) ASC NULLS FIRST
# MAGIC     ),
# MAGIC     with_before_and_row AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         CASE
# MAGIC           WHEN `__streamtime_before` IS NULL
# MAGIC             OR `__streamtime_at` > least(`__streamtime_before`, 9223372036254775807L) + 600000000L
# MAGIC             THEN `__streamtime_at`
# MAGIC         END AS `__streamtime_argument`
# MAGIC       FROM (
# MAGIC         SELECT
# MAGIC           *,
# MAGIC           lag(`__streamtime_at`, 1, NULL) OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST
# MAGIC           ) AS `__streamtime_before`,
# MAGIC           row_number() OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST
# MAGIC             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
# MAGIC           ) AS `__streamtime_row`
# MAGIC         FROM sorted
# MAGIC       )
# MAGIC     ),
# MAGIC     with_opened AS (
# MAGIC       SELECT
# MAGIC         `id`, `__streamtime_at`, `__streamtime_hash`, `__streamtime_before`, `__streamtime_row`,
# MAGIC         max(`__streamtime_argument`) OVER (
# MAGIC           PARTITION BY `__streamtime_hash`, `id`
# MAGIC           ORDER BY `__streamtime_at` ASC NULLS FIRST
# MAGIC           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
# MAGIC         ) AS `__streamtime_opened`
# MAGIC       FROM with_before_and_row
# MAGIC     ),
# MAGIC     by_hash_and_id_and_more AS (
# MAGIC       SELECT
# MAGIC         `__streamtime_hash`, `id`, `__streamtime_opened`,
# MAGIC         CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT) AS `__streamtime_chunk`,
# MAGIC         max(`__streamtime_at`) AS `__streamtime_last`,
# MAGIC         collect_list(`__streamtime_at`) AS `__streamtime_items`
# MAGIC       FROM with_opened
# MAGIC       WHERE `__streamtime_at` > least(`__streamtime_opened`, 9223372036254775807L) + 600000000L
# MAGIC         AND `__streamtime_at` > `__streamtime_before`
# MAGIC       GROUP BY `__streamtime_hash`,
# MAGIC         `id`,
# MAGIC         `__streamtime_opened`,
# MAGIC         CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT)
# MAGIC     ),
# MAGIC     by_hash_and_id_and_more_2 AS (
# MAGIC       SELECT
# MAGIC         `__streamtime_hash`, `id`, `__streamtime_opened`,
# MAGIC         collect_list(
# MAGIC           named_struct('last', `__streamtime_last`, 'items', `__streamtime_items`)
# MAGIC         ) AS `__streamtime_collected`
# MAGIC       FROM by_hash_and_id_and_more
# MAGIC       GROUP BY `__streamtime_hash`, `id`, `__streamtime_opened`
# MAGIC     ),
# MAGIC     for_each_one AS (
# MAGIC       SELECT *
# MAGIC       FROM by_hash_and_id_and_more_2
# MAGIC       LATERAL VIEW explode(
# MAGIC         flatten(
# MAGIC           aggregate(
# MAGIC             sort_array(`__streamtime_collected`, true),
# MAGIC             named_struct(
# MAGIC               'reach',
# MAGIC               least(`__streamtime_opened`, 9223372036254775807L) + 600000000L,
# MAGIC               'taken',
# MAGIC               slice(array(slice(get(`__streamtime_collected`, 0).`items`, 1, 0)), 1, 0)
# MAGIC             ),
# MAGIC             (`so_far_1`, `chunk_1`) -> IF(
# MAGIC               `chunk_1`.`last` > `so_far_1`.`reach`,
# MAGIC               transform(
# MAGIC                 array(
# MAGIC                   aggregate(
# MAGIC                     sort_array(`chunk_1`.`items`, true),
# MAGIC                     named_struct(
# MAGIC                       'reach', `so_far_1`.`reach`, 'taken',
# MAGIC                       slice(get(`__streamtime_collected`, 0).`items`, 1, 0)
# MAGIC                     ),
# MAGIC                     (`now_2`, `one_2`) -> IF(
# MAGIC                       `one_2` > `now_2`.`reach`,
# MAGIC                       named_struct(
# MAGIC                         'reach',
# MAGIC                         least(`one_2`, 9223372036254775807L) + 600000000L,
# MAGIC                         'taken',
# MAGIC                         concat(`now_2`.`taken`, array(`one_2`))
# MAGIC                       ),
# MAGIC                       `now_2`
# MAGIC                     ),
# MAGIC                     `id_2` -> `id_2`
# MAGIC                   )
# MAGIC                 ),
# MAGIC                 `then_2` -> named_struct(
# MAGIC                   'reach', `then_2`.`reach`, 'taken',
# MAGIC                   concat(`so_far_1`.`taken`, array(`then_2`.`taken`))
# MAGIC                 )
# MAGIC               )[0],
# MAGIC               `so_far_1`
# MAGIC             ),
# MAGIC             `id_1` -> `id_1`
# MAGIC           ).`taken`
# MAGIC         )
# MAGIC       ) each AS `__streamtime_one`
# MAGIC     ),
# MAGIC     with_at_2 AS (
# MAGIC       SELECT `__streamtime_hash`, `id`, `__streamtime_opened`, `__streamtime_one` AS `__streamtime_at`
# MAGIC       FROM for_each_one
# MAGIC     ),
# MAGIC     with_mark_2 AS (
# MAGIC       SELECT `id`, `__streamtime_at`, true AS `__streamtime_mark`
# MAGIC       FROM with_at_2
# MAGIC     ),
# MAGIC     with_offset_and_product_and_more AS (
# MAGIC       SELECT
# MAGIC         CAST(NULL AS INT) AS `offset`,
# MAGIC         `id`,
# MAGIC         CAST(NULL AS STRING) AS `product`,
# MAGIC         CAST(NULL AS TIMESTAMP) AS `ts`,
# MAGIC         `__streamtime_at`, `__streamtime_mark`
# MAGIC       FROM with_mark_2
# MAGIC     ),
# MAGIC     united AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`
# MAGIC       FROM with_mark
# MAGIC       UNION ALL
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`
# MAGIC       FROM with_offset_and_product_and_more
# MAGIC     ),
# MAGIC     with_hash_2 AS (
# MAGIC       SELECT *, hash(`id`) AS `__streamtime_hash`
# MAGIC       FROM united
# MAGIC     ),
# MAGIC     sorted_2 AS (
# MAGIC       SELECT *
# MAGIC       FROM with_hash_2
# MAGIC       SORT BY shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(
# MAGIC         greatest(shiftright(`__streamtime_at`, 21) + 2147483648L, 0L),
# MAGIC         4294967295L
# MAGIC       ) ASC NULLS FIRST
# MAGIC     ),
# MAGIC     with_before_and_itself AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_hash`,
# MAGIC         `__streamtime_before`,
# MAGIC         `__streamtime_at` IS NOT NULL
# MAGIC           AND (
# MAGIC             coalesce(`__streamtime_itself`, false)
# MAGIC               OR (
# MAGIC                 `__streamtime_before` IS NULL
# MAGIC                   OR `__streamtime_at` > least(`__streamtime_before`, 9223372036254775807L) + 600000000L
# MAGIC               )
# MAGIC           ) AS `__streamtime_itself`
# MAGIC       FROM (
# MAGIC         SELECT
# MAGIC           *,
# MAGIC           lag(`__streamtime_at`, 1, NULL) OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST,
# MAGIC               `__streamtime_mark` DESC NULLS LAST,
# MAGIC               `offset` ASC NULLS FIRST,
# MAGIC               `product` ASC NULLS FIRST
# MAGIC           ) AS `__streamtime_before`,
# MAGIC           lag(`__streamtime_mark`, 1, NULL) OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST,
# MAGIC               `__streamtime_mark` DESC NULLS LAST,
# MAGIC               `offset` ASC NULLS FIRST,
# MAGIC               `product` ASC NULLS FIRST
# MAGIC           ) AS `__streamtime_itself`
# MAGIC         FROM sorted_2
# MAGIC       )
# MAGIC     ),
# MAGIC     with_kept_at AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`,
# MAGIC         CASE WHEN NOT `__streamtime_itself` THEN `__streamtime_at` END AS `__streamtime_kept_at`
# MAGIC       FROM with_before_and_itself
# MAGIC       WHERE NOT `__streamtime_mark`
# MAGIC     ),
# MAGIC     with_kept_time AS (
# MAGIC       SELECT *, timestamp_micros(`__streamtime_kept_at`) AS `__streamtime_kept_time`
# MAGIC       FROM with_kept_at
# MAGIC     ),
# MAGIC     where_ts AS (
# MAGIC       SELECT *
# MAGIC       FROM with_kept_time
# MAGIC       WHERE `ts` IS NOT NULL
# MAGIC     ),
# MAGIC     deduplicate_rows AS (
# MAGIC       SELECT *
# MAGIC       FROM where_ts
# MAGIC       WHERE `__streamtime_kept_time` IS NULL
# MAGIC     )
# MAGIC   SELECT `offset`, `id`, `product`, `ts`
# MAGIC   FROM deduplicate_rows
# MAGIC )

# COMMAND ----------

# MAGIC %md
# MAGIC Nothing is lost silently: `output => 'dropped'` says what did not pass, and why.

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT id, ts, reason, kept_time
# MAGIC FROM (
# MAGIC   /* streamtime 0.1.0: DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES, output => 'dropped')
# MAGIC      over (offset int, id string, product string, ts timestamp) */
# MAGIC   WITH
# MAGIC     orders_input AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`
# MAGIC       FROM orders
# MAGIC     ),
# MAGIC     with_at AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`,
# MAGIC         CASE
# MAGIC           WHEN `ts` IS NOT NULL AND `id` IS NOT NULL THEN unix_micros(CAST(`ts` AS TIMESTAMP))
# MAGIC         END AS `__streamtime_at`
# MAGIC       FROM orders_input
# MAGIC     ),
# MAGIC     with_mark AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, false AS `__streamtime_mark`
# MAGIC       FROM with_at
# MAGIC     ),
# MAGIC     with_hash AS (
# MAGIC       SELECT `id`, `__streamtime_at`, hash(`id`) AS `__streamtime_hash`
# MAGIC       FROM with_at
# MAGIC     ),
# MAGIC     sorted AS (
# MAGIC       SELECT *
# MAGIC       FROM with_hash
# MAGIC       SORT BY shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(
# MAGIC         greatest(shiftright(`__streamtime_at`, 21) + 2147483648L, 0L),
# MAGIC         4294967295L
# MAGIC       ) ASC NULLS FIRST
# MAGIC     ),
# MAGIC     with_before_and_row AS (
# MAGIC       SELECT
# MAGIC         `id`, `__streamtime_at`, `__streamtime_hash`, `__streamtime_before`, `__streamtime_row`,
# MAGIC         CASE
# MAGIC           WHEN `__streamtime_before` IS NULL
# MAGIC             OR `__streamtime_at` > least(`__streamtime_before`, 9223372036254775807L) + 600000000L
# MAGIC             THEN `__streamtime_at`
# MAGIC         END AS `__streamtime_argument`
# MAGIC       FROM (
# MAGIC         SELECT
# MAGIC           `id`, `__streamtime_at`, `__streamtime_hash`,
# MAGIC           lag(`__streamtime_at`, 1, NULL) OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST
# MAGIC           ) AS `__streamtime_before`,
# MAGIC           row_number() OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST
# MAGIC             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
# MAGIC           ) AS `__streamtime_row`
# MAGIC         FROM sorted
# MAGIC       )
# MAGIC     ),
# MAGIC     with_opened AS (
# MAGIC       SELECT
# MAGIC         `id`, `__streamtime_at`, `__streamtime_hash`, `__streamtime_before`, `__streamtime_row`,
# MAGIC         max(`__streamtime_argument`) OVER (
# MAGIC           PARTITION BY `__streamtime_hash`, `id`
# MAGIC           ORDER BY `__streamtime_at` ASC NULLS FIRST
# MAGIC           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
# MAGIC         ) AS `__streamtime_opened`
# MAGIC       FROM with_before_and_row
# MAGIC     ),
# MAGIC     by_hash_and_id_and_more AS (
# MAGIC       SELECT
# MAGIC         `__streamtime_hash`, `id`, `__streamtime_opened`,
# MAGIC         CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT) AS `__streamtime_chunk`,
# MAGIC         max(`__streamtime_at`) AS `__streamtime_last`,
# MAGIC         collect_list(`__streamtime_at`) AS `__streamtime_items`
# MAGIC       FROM with_opened
# MAGIC       WHERE `__streamtime_at` > least(`__streamtime_opened`, 9223372036254775807L) + 600000000L
# MAGIC         AND `__streamtime_at` > `__streamtime_before`
# MAGIC       GROUP BY `__streamtime_hash`,
# MAGIC         `id`,
# MAGIC         `__streamtime_opened`,
# MAGIC         CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT)
# MAGIC     ),
# MAGIC     by_hash_and_id_and_more_2 AS (
# MAGIC       SELECT
# MAGIC         `__streamtime_hash`, `id`, `__streamtime_opened`,
# MAGIC         collect_list(
# MAGIC           named_struct('last', `__streamtime_last`, 'items', `__streamtime_items`)
# MAGIC         ) AS `__streamtime_collected`
# MAGIC       FROM by_hash_and_id_and_more
# MAGIC       GROUP BY `__streamtime_hash`, `id`, `__streamtime_opened`
# MAGIC     ),
# MAGIC     for_each_one AS (
# MAGIC       SELECT *
# MAGIC       FROM by_hash_and_id_and_more_2
# MAGIC       LATERAL VIEW explode(
# MAGIC         flatten(
# MAGIC           aggregate(
# MAGIC             sort_array(`__streamtime_collected`, true),
# MAGIC             named_struct(
# MAGIC               'reach',
# MAGIC               least(`__streamtime_opened`, 9223372036254775807L) + 600000000L,
# MAGIC               'taken',
# MAGIC               slice(array(slice(get(`__streamtime_collected`, 0).`items`, 1, 0)), 1, 0)
# MAGIC             ),
# MAGIC             (`so_far_1`, `chunk_1`) -> IF(
# MAGIC               `chunk_1`.`last` > `so_far_1`.`reach`,
# MAGIC               transform(
# MAGIC                 array(
# MAGIC                   aggregate(
# MAGIC                     sort_array(`chunk_1`.`items`, true),
# MAGIC                     named_struct(
# MAGIC                       'reach', `so_far_1`.`reach`, 'taken',
# MAGIC                       slice(get(`__streamtime_collected`, 0).`items`, 1, 0)
# MAGIC                     ),
# MAGIC                     (`now_2`, `one_2`) -> IF(
# MAGIC                       `one_2` > `now_2`.`reach`,
# MAGIC                       named_struct(
# MAGIC                         'reach',
# MAGIC                         least(`one_2`, 9223372036254775807L) + 600000000L,
# MAGIC                         'taken',
# MAGIC                         concat(`now_2`.`taken`, array(`one_2`))
# MAGIC                       ),
# MAGIC                       `now_2`
# MAGIC                     ),
# MAGIC                     `id_2` -> `id_2`
# MAGIC                   )
# MAGIC                 ),
# MAGIC                 `then_2` -> named_struct(
# MAGIC                   'reach', `then_2`.`reach`, 'taken',
# MAGIC                   concat(`so_far_1`.`taken`, array(`then_2`.`taken`))
# MAGIC                 )
# MAGIC               )[0],
# MAGIC               `so_far_1`
# MAGIC             ),
# MAGIC             `id_1` -> `id_1`
# MAGIC           ).`taken`
# MAGIC         )
# MAGIC       ) each AS `__streamtime_one`
# MAGIC     ),
# MAGIC     with_at_2 AS (
# MAGIC       SELECT `__streamtime_hash`, `id`, `__streamtime_opened`, `__streamtime_one` AS `__streamtime_at`
# MAGIC       FROM for_each_one
# MAGIC     ),
# MAGIC     with_mark_2 AS (
# MAGIC       SELECT `id`, `__streamtime_at`, true AS `__streamtime_mark`
# MAGIC       FROM with_at_2
# MAGIC     ),
# MAGIC     with_offset_and_product_and_more AS (
# MAGIC       SELECT
# MAGIC         CAST(NULL AS INT) AS `offset`,
# MAGIC         `id`,
# MAGIC         CAST(NULL AS STRING) AS `product`,
# MAGIC         CAST(NULL AS TIMESTAMP) AS `ts`,
# MAGIC         `__streamtime_at`, `__streamtime_mark`
# MAGIC       FROM with_mark_2
# MAGIC     ),
# MAGIC     united AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`
# MAGIC       FROM with_mark
# MAGIC       UNION ALL
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`
# MAGIC       FROM with_offset_and_product_and_more
# MAGIC     ),
# MAGIC     with_hash_2 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, hash(`id`) AS `__streamtime_hash`
# MAGIC       FROM united
# MAGIC     ),
# MAGIC     sorted_2 AS (
# MAGIC       SELECT *
# MAGIC       FROM with_hash_2
# MAGIC       SORT BY shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(
# MAGIC         greatest(shiftright(`__streamtime_at`, 21) + 2147483648L, 0L),
# MAGIC         4294967295L
# MAGIC       ) ASC NULLS FIRST
# MAGIC     ),
# MAGIC     with_before_and_itself AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_hash`,
# MAGIC         `__streamtime_before`,
# MAGIC         `__streamtime_at` IS NOT NULL
# MAGIC           AND (
# MAGIC             coalesce(`__streamtime_itself`, false)
# MAGIC               OR (
# MAGIC                 `__streamtime_before` IS NULL
# MAGIC                   OR `__streamtime_at` > least(`__streamtime_before`, 9223372036254775807L) + 600000000L
# MAGIC               )
# MAGIC           ) AS `__streamtime_itself`
# MAGIC       FROM (
# MAGIC         SELECT
# MAGIC           `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_hash`,
# MAGIC           lag(`__streamtime_at`, 1, NULL) OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST,
# MAGIC               `__streamtime_mark` DESC NULLS LAST,
# MAGIC               `offset` ASC NULLS FIRST,
# MAGIC               `product` ASC NULLS FIRST
# MAGIC           ) AS `__streamtime_before`,
# MAGIC           lag(`__streamtime_mark`, 1, NULL) OVER (
# MAGIC             PARTITION BY `__streamtime_hash`, `id`
# MAGIC             ORDER BY `__streamtime_at` ASC NULLS FIRST,
# MAGIC               `__streamtime_mark` DESC NULLS LAST,
# MAGIC               `offset` ASC NULLS FIRST,
# MAGIC               `product` ASC NULLS FIRST
# MAGIC           ) AS `__streamtime_itself`
# MAGIC         FROM sorted_2
# MAGIC       )
# MAGIC     ),
# MAGIC     with_arguments AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_hash`,
# MAGIC         `__streamtime_before`, `__streamtime_itself`,
# MAGIC         CASE WHEN `__streamtime_itself` THEN `__streamtime_at` END AS `__streamtime_argument`
# MAGIC       FROM with_before_and_itself
# MAGIC     ),
# MAGIC     with_kept_at AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_hash`,
# MAGIC         `__streamtime_before`, `__streamtime_itself`,
# MAGIC         max(`__streamtime_argument`) OVER (
# MAGIC           PARTITION BY `__streamtime_hash`, `id`
# MAGIC           ORDER BY `__streamtime_at` ASC NULLS FIRST,
# MAGIC             `__streamtime_mark` DESC NULLS LAST,
# MAGIC             `offset` ASC NULLS FIRST,
# MAGIC             `product` ASC NULLS FIRST
# MAGIC           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
# MAGIC         ) AS `__streamtime_kept_at`
# MAGIC       FROM with_arguments
# MAGIC     ),
# MAGIC     with_owner AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`, `__streamtime_kept_at`,
# MAGIC         `__streamtime_kept_at` AS `__streamtime_owner`
# MAGIC       FROM with_kept_at
# MAGIC       WHERE NOT `__streamtime_mark`
# MAGIC     ),
# MAGIC     with_kept_at_2 AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`,
# MAGIC         CASE WHEN NOT `__streamtime_itself` THEN `__streamtime_kept_at` END AS `__streamtime_kept_at`,
# MAGIC         `__streamtime_owner`
# MAGIC       FROM with_owner
# MAGIC     ),
# MAGIC     with_kept_time AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`, `__streamtime_kept_at`,
# MAGIC         `__streamtime_owner`,
# MAGIC         timestamp_micros(`__streamtime_kept_at`) AS `__streamtime_kept_time`
# MAGIC       FROM with_kept_at_2
# MAGIC     ),
# MAGIC     deduplicate_dropped AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`,
# MAGIC         CASE
# MAGIC           WHEN NOT (`ts` IS NOT NULL) THEN 'null_time'
# MAGIC           WHEN `__streamtime_kept_time` IS NOT NULL THEN 'duplicate'
# MAGIC         END AS `reason`,
# MAGIC         CASE WHEN `ts` IS NOT NULL THEN `ts` END AS `stream_time`,
# MAGIC         CASE
# MAGIC           WHEN `ts` IS NOT NULL
# MAGIC             THEN CASE
# MAGIC               WHEN coalesce(
# MAGIC                 CAST(try_subtract(unix_micros(`ts`), unix_micros(`ts`)) AS DOUBLE) / CAST(1000000.0D AS DOUBLE),
# MAGIC                 (CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)) - (
# MAGIC                   CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)
# MAGIC                 )
# MAGIC               ) <= CAST(0 AS DOUBLE)
# MAGIC                 THEN 0.0D
# MAGIC               ELSE coalesce(
# MAGIC                 CAST(try_subtract(unix_micros(`ts`), unix_micros(`ts`)) AS DOUBLE) / CAST(1000000.0D AS DOUBLE),
# MAGIC                 (CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)) - (
# MAGIC                   CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)
# MAGIC                 )
# MAGIC               )
# MAGIC             END
# MAGIC         END AS `lateness`,
# MAGIC         `__streamtime_kept_time` AS `kept_time`
# MAGIC       FROM with_kept_time
# MAGIC       WHERE CASE
# MAGIC         WHEN NOT (`ts` IS NOT NULL) THEN 'null_time'
# MAGIC         WHEN `__streamtime_kept_time` IS NOT NULL THEN 'duplicate'
# MAGIC       END IS NOT NULL
# MAGIC     )
# MAGIC   SELECT `offset`, `id`, `product`, `ts`, `reason`, `stream_time`, `lateness`, `kept_time`
# MAGIC   FROM deduplicate_dropped
# MAGIC )

# COMMAND ----------

# MAGIC %md
# MAGIC The same as a picture: a lane for each key, and an arrow from the duplicate to the row that was kept.

# COMMAND ----------

# MAGIC %md
# MAGIC ## How many every ten minutes, for good?
# MAGIC
# MAGIC Rows come in the order of `offset`; their time is `ts`. A window waits five minutes more for rows that are late. Then its count is
# MAGIC final, and is said once.

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT product, window_start, n, emit_time
# MAGIC FROM (
# MAGIC   /* streamtime 0.1.0: WINDOW_UPDATES(TABLE(once) PARTITION BY product ORDER BY offset, time => 'ts', size => INTERVAL 10 MINUTES, grace => INTERVAL 5 MINUTES, aggregates => 'count(*) AS n', emit => 'final')
# MAGIC      over (offset int, id string, product string, ts timestamp) */
# MAGIC   WITH
# MAGIC     once_input AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`
# MAGIC       FROM once
# MAGIC     ),
# MAGIC     with_here AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         SPARK_PARTITION_ID() >= 0
# MAGIC           AND (`ts` IS NOT NULL AND `offset` IS NOT NULL AND `product` IS NOT NULL) AS `__streamtime_here`
# MAGIC       FROM once_input
# MAGIC     ),
# MAGIC     with_at AS (
# MAGIC       SELECT *, unix_micros(CAST(`ts` AS TIMESTAMP)) AS `__streamtime_at`
# MAGIC       FROM with_here
# MAGIC       WHERE `__streamtime_here`
# MAGIC     ),
# MAGIC     with_step AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         (`__streamtime_at` div 600000000L) - CAST(
# MAGIC           `__streamtime_at` % 600000000L < CAST(0 AS BIGINT) AS BIGINT
# MAGIC         ) AS `__streamtime_step`
# MAGIC       FROM with_at
# MAGIC     ),
# MAGIC     fewer_columns AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_here`, `__streamtime_step`
# MAGIC       FROM with_step
# MAGIC     ),
# MAGIC     by_step AS (
# MAGIC       SELECT
# MAGIC         CASE
# MAGIC           WHEN `ts` IS NOT NULL AND `offset` IS NOT NULL AND `product` IS NOT NULL
# MAGIC             THEN try_subtract(
# MAGIC               (unix_micros(CAST(`ts` AS TIMESTAMP)) div 600000000L) - CAST(
# MAGIC                 unix_micros(CAST(`ts` AS TIMESTAMP)) % 600000000L < CAST(0 AS BIGINT) AS BIGINT
# MAGIC               ),
# MAGIC               1L + CAST(pmod(unix_micros(CAST(`ts` AS TIMESTAMP)), 600000000L) < 300000000L AS BIGINT)
# MAGIC             )
# MAGIC         END AS `__streamtime_step`,
# MAGIC         min(
# MAGIC           CASE
# MAGIC             WHEN `ts` IS NOT NULL AND `offset` IS NOT NULL AND `product` IS NOT NULL
# MAGIC               THEN named_struct(
# MAGIC                 '__streamtime_place',
# MAGIC                 named_struct('c0', `offset`, 'c1', `id`, 'c2', `product`, 'c3', `ts`),
# MAGIC                 '__streamtime_release', `ts`
# MAGIC               )
# MAGIC           END
# MAGIC         ) AS `__streamtime_first`
# MAGIC       FROM once_input
# MAGIC       GROUP BY CASE
# MAGIC         WHEN `ts` IS NOT NULL AND `offset` IS NOT NULL AND `product` IS NOT NULL
# MAGIC           THEN try_subtract(
# MAGIC             (unix_micros(CAST(`ts` AS TIMESTAMP)) div 600000000L) - CAST(
# MAGIC               unix_micros(CAST(`ts` AS TIMESTAMP)) % 600000000L < CAST(0 AS BIGINT) AS BIGINT
# MAGIC             ),
# MAGIC             1L + CAST(pmod(unix_micros(CAST(`ts` AS TIMESTAMP)), 600000000L) < 300000000L AS BIGINT)
# MAGIC           )
# MAGIC       END
# MAGIC     ),
# MAGIC     with_first_2_and_before AS (
# MAGIC       SELECT
# MAGIC         `__streamtime_step`, `__streamtime_first_2`,
# MAGIC         lag(`__streamtime_step`, 1, NULL) OVER (ORDER BY `__streamtime_step` ASC NULLS FIRST) AS `__streamtime_before`
# MAGIC       FROM (
# MAGIC         SELECT
# MAGIC           *,
# MAGIC           min(`__streamtime_first`) OVER (
# MAGIC             ORDER BY `__streamtime_step` DESC NULLS LAST
# MAGIC             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
# MAGIC           ) AS `__streamtime_first_2`
# MAGIC         FROM by_step
# MAGIC       )
# MAGIC     ),
# MAGIC     for_each_reached AS (
# MAGIC       SELECT *
# MAGIC       FROM with_first_2_and_before
# MAGIC       LATERAL VIEW explode(
# MAGIC         sequence(
# MAGIC           coalesce(`__streamtime_before` + CAST(1 AS BIGINT), `__streamtime_step`),
# MAGIC           least(`__streamtime_step`, coalesce(`__streamtime_before`, `__streamtime_step`) + CAST(2 AS BIGINT))
# MAGIC         )
# MAGIC       ) each AS `__streamtime_reached`
# MAGIC     ),
# MAGIC     with_least_and_place_and_more AS (
# MAGIC       SELECT
# MAGIC         `__streamtime_reached`,
# MAGIC         `__streamtime_first_2`.`__streamtime_place`.`c0` AS `__streamtime_least`,
# MAGIC         `__streamtime_first_2`.`__streamtime_place` AS `__streamtime_place`,
# MAGIC         `__streamtime_first_2`.`__streamtime_release` AS `__streamtime_release`
# MAGIC       FROM for_each_reached
# MAGIC     ),
# MAGIC     with_reached_and_least_and_more AS (
# MAGIC       SELECT /*+ BROADCAST(with_least_and_place_and_more) */ *
# MAGIC       FROM fewer_columns
# MAGIC       LEFT OUTER JOIN with_least_and_place_and_more ON `__streamtime_reached` = `__streamtime_step`
# MAGIC     ),
# MAGIC     with_at_2 AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`, `__streamtime_here`, `__streamtime_step`, `__streamtime_release`,
# MAGIC         coalesce(CASE WHEN true THEN unix_micros(CAST(`ts` AS TIMESTAMP)) END, CAST(0 AS BIGINT)) AS `__streamtime_at`
# MAGIC       FROM with_reached_and_least_and_more
# MAGIC       WHERE `__streamtime_least` IS NULL
# MAGIC         OR `offset` < `__streamtime_least`
# MAGIC         OR (
# MAGIC           `offset` = `__streamtime_least`
# MAGIC             AND named_struct('c0', `offset`, 'c1', `id`, 'c2', `product`, 'c3', `ts`) < `__streamtime_place`
# MAGIC         )
# MAGIC         OR `__streamtime_step` >= 15372286728L
# MAGIC     ),
# MAGIC     with_into AS (
# MAGIC       SELECT *, pmod(`__streamtime_at`, 600000000L) AS `__streamtime_into`
# MAGIC       FROM with_at_2
# MAGIC     ),
# MAGIC     with_start_and_end AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         timestamp_micros(
# MAGIC           `__streamtime_at` - least(`__streamtime_into`, least(`__streamtime_at`, -1L) & 9223372036854775807L)
# MAGIC         ) AS `__streamtime_start`,
# MAGIC         timestamp_micros(
# MAGIC           least(
# MAGIC             `__streamtime_at`,
# MAGIC             9223372036854775807L - (600000000L - `__streamtime_into`)
# MAGIC           ) + (600000000L - `__streamtime_into`)
# MAGIC         ) AS `__streamtime_end`
# MAGIC       FROM with_into
# MAGIC     ),
# MAGIC     by_product_and_step AS (
# MAGIC       SELECT
# MAGIC         `product`, `__streamtime_step`,
# MAGIC         max(`offset`) AS `__streamtime_newest`,
# MAGIC         max(`ts`) AS `__streamtime_latest`,
# MAGIC         count(1) AS `__streamtime_total_0`,
# MAGIC         max(`__streamtime_release`) AS `__streamtime_release`
# MAGIC       FROM with_start_and_end
# MAGIC       GROUP BY `product`, `__streamtime_step`
# MAGIC     ),
# MAGIC     with_at_3 AS (
# MAGIC       SELECT *, coalesce(try_multiply(`__streamtime_step`, 600000000L), -9223372036854775807L - 1L) AS `__streamtime_at`
# MAGIC       FROM by_product_and_step
# MAGIC     ),
# MAGIC     with_start AS (
# MAGIC       SELECT *, timestamp_micros(`__streamtime_at`) AS `__streamtime_start`
# MAGIC       FROM with_at_3
# MAGIC     ),
# MAGIC     with_end AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         least(
# MAGIC           `__streamtime_at`,
# MAGIC           9223372036854775807L - (600000000L - pmod(`__streamtime_at`, 600000000L))
# MAGIC         ) + (600000000L - pmod(`__streamtime_at`, 600000000L)) AS `__streamtime_end`
# MAGIC       FROM with_start
# MAGIC     ),
# MAGIC     with_release AS (
# MAGIC       SELECT
# MAGIC         `product`,
# MAGIC         coalesce(`__streamtime_newest`, CAST(0Y AS INT)) AS `offset`,
# MAGIC         `__streamtime_start` AS `window_start`,
# MAGIC         timestamp_micros(`__streamtime_end`) AS `window_end`,
# MAGIC         `__streamtime_total_0` AS `n`,
# MAGIC         timestamp_micros(least(`__streamtime_end`, 9223372036554775807L) + 300000000L) AS `window_close`,
# MAGIC         'upsert' AS `change_type`,
# MAGIC         CAST(`__streamtime_latest` AS TIMESTAMP) AS `change_time`,
# MAGIC         CAST(0 AS BIGINT) AS `change_seq`,
# MAGIC         CAST(`__streamtime_release` AS TIMESTAMP) AS `__streamtime_release`
# MAGIC       FROM with_end
# MAGIC     ),
# MAGIC     window_updates_rows AS (
# MAGIC       SELECT
# MAGIC         `product`, `offset`, `window_start`, `window_end`, `n`, `window_close`, `change_type`, `change_time`,
# MAGIC         `change_seq`, `__streamtime_release` AS `emit_time`, 'close' AS `emit_reason`
# MAGIC       FROM with_release
# MAGIC       WHERE `__streamtime_release` IS NOT NULL
# MAGIC     )
# MAGIC   SELECT
# MAGIC     `product`, `window_start`, `window_end`, `n`, `window_close`, `offset`, `change_type`, `change_time`, `change_seq`,
# MAGIC     `emit_time`, `emit_reason`
# MAGIC   FROM window_updates_rows
# MAGIC )
# MAGIC ORDER BY window_start, product

# COMMAND ----------

# MAGIC %md
# MAGIC And o4? It came after its window had closed, at 10:15. In the picture, the pale tail of a window is its grace.

# COMMAND ----------

# MAGIC %md
# MAGIC ## What was the price when the order came?
# MAGIC
# MAGIC Prices have versions. Each order takes the one that was valid at its own time.

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
# MAGIC   ('tea',  TIMESTAMP '2024-05-01 10:00:00', 1.00), ('tea', TIMESTAMP '2024-05-01 10:12:00', 1.20),
# MAGIC   ('milk', TIMESTAMP '2024-05-01 10:00:00', 0.80) AS prices(product, since, price)

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT id, ts, since, price
# MAGIC FROM (
# MAGIC   /* streamtime 0.1.0: AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
# MAGIC      over (offset int, id string, product string, ts timestamp, product string, since timestamp, price decimal(3,2)) */
# MAGIC   WITH
# MAGIC     once_input AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`
# MAGIC       FROM once
# MAGIC     ),
# MAGIC     with_is_right_and_right AS (
# MAGIC       SELECT
# MAGIC         *, false AS `__streamtime_is_right`,
# MAGIC         CAST(NULL AS STRUCT<since: TIMESTAMP NOT NULL, price: DECIMAL(3,2) NOT NULL>) AS `__streamtime_right`
# MAGIC       FROM once_input
# MAGIC     ),
# MAGIC     prices_input AS (
# MAGIC       SELECT `product`, `since`, `price`
# MAGIC       FROM prices
# MAGIC     ),
# MAGIC     where_since_and_product AS (
# MAGIC       SELECT *
# MAGIC       FROM prices_input
# MAGIC       WHERE `since` IS NOT NULL AND `product` IS NOT NULL
# MAGIC     ),
# MAGIC     with_is_right_and_right_2 AS (
# MAGIC       SELECT
# MAGIC         CAST(NULL AS INT) AS `offset`,
# MAGIC         CAST(NULL AS STRING) AS `id`,
# MAGIC         `product`, `since` AS `ts`, true AS `__streamtime_is_right`,
# MAGIC         named_struct('since', `since`, 'price', `price`) AS `__streamtime_right`
# MAGIC       FROM where_since_and_product
# MAGIC       WHERE `since` IS NOT NULL AND `product` IS NOT NULL
# MAGIC     ),
# MAGIC     united AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_is_right`, `__streamtime_right`
# MAGIC       FROM with_is_right_and_right
# MAGIC       UNION ALL
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_is_right`, `__streamtime_right`
# MAGIC       FROM with_is_right_and_right_2
# MAGIC     ),
# MAGIC     with_hash AS (
# MAGIC       SELECT *, hash(`product`) AS `__streamtime_hash`
# MAGIC       FROM united
# MAGIC     ),
# MAGIC     sorted AS (
# MAGIC       SELECT *
# MAGIC       FROM with_hash
# MAGIC       SORT BY shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(
# MAGIC         greatest(unix_seconds(`ts`) + CAST(631152000 AS BIGINT), 0L),
# MAGIC         4294967295L
# MAGIC       ) ASC NULLS FIRST
# MAGIC     ),
# MAGIC     with_before AS (
# MAGIC       SELECT
# MAGIC         *,
# MAGIC         lag(`__streamtime_right`, 1, NULL) IGNORE NULLS OVER (
# MAGIC           PARTITION BY `__streamtime_hash`, `product`
# MAGIC           ORDER BY `ts` ASC NULLS FIRST, `__streamtime_is_right` DESC NULLS LAST, `__streamtime_right` ASC NULLS FIRST
# MAGIC         ) AS `__streamtime_before`
# MAGIC       FROM sorted
# MAGIC     ),
# MAGIC     with_match AS (
# MAGIC       SELECT *, `__streamtime_before` AS `__streamtime_match`
# MAGIC       FROM with_before
# MAGIC       WHERE NOT `__streamtime_is_right`
# MAGIC     ),
# MAGIC     as_of_join_rows AS (
# MAGIC       SELECT
# MAGIC         `offset`, `id`, `product`, `ts`,
# MAGIC         CASE WHEN `__streamtime_match` IS NOT NULL THEN `product` END AS `product_2`,
# MAGIC         `__streamtime_match`.`since` AS `since`, `__streamtime_match`.`price` AS `price`
# MAGIC       FROM with_match
# MAGIC       WHERE `__streamtime_match` IS NOT NULL
# MAGIC     )
# MAGIC   SELECT `offset`, `id`, `product`, `ts`, `product_2` AS `product`, `since`, `price`
# MAGIC   FROM as_of_join_rows
# MAGIC )
# MAGIC ORDER BY id

# COMMAND ----------

# MAGIC %md
# MAGIC ## On in Python
# MAGIC
# MAGIC `revenue <<` puts a result into a variable: a DataFrame of Spark, which goes on from here.

# COMMAND ----------

revenue = spark.sql("""
SELECT once.product, sum(price) AS revenue
FROM (
  /* streamtime 0.1.0: AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
     over (offset int, id string, product string, ts timestamp, product string, since timestamp, price decimal(3,2)) */
  WITH
    once_input AS (
      SELECT `offset`, `id`, `product`, `ts`
      FROM once
    ),
    with_once AS (
      SELECT *, named_struct('offset', `offset`, 'id', `id`, 'product', `product`, 'ts', `ts`) AS `once`
      FROM once_input
    ),
    with_is_right_and_right AS (
      SELECT
        *, false AS `__streamtime_is_right`,
        CAST(
          NULL AS STRUCT<
            since: TIMESTAMP NOT NULL,
            price: DECIMAL(3,2) NOT NULL,
            prices: STRUCT<product: STRING NOT NULL, since: TIMESTAMP NOT NULL, price: DECIMAL(3,2) NOT NULL> NOT NULL
          >
        ) AS `__streamtime_right`
      FROM with_once
    ),
    prices_input AS (
      SELECT `product`, `since`, `price`
      FROM prices
    ),
    with_prices AS (
      SELECT *, named_struct('product', `product`, 'since', `since`, 'price', `price`) AS `prices`
      FROM prices_input
    ),
    where_since_and_product AS (
      SELECT *
      FROM with_prices
      WHERE `since` IS NOT NULL AND `product` IS NOT NULL
    ),
    with_is_right_and_right_2 AS (
      SELECT
        CAST(NULL AS INT) AS `offset`,
        CAST(NULL AS STRING) AS `id`,
        `product`, `since` AS `ts`,
        CAST(
          NULL AS STRUCT<offset: INT NOT NULL, id: STRING NOT NULL, product: STRING NOT NULL, ts: TIMESTAMP NOT NULL>
        ) AS `once`,
        true AS `__streamtime_is_right`,
        named_struct('since', `since`, 'price', `price`, 'prices', `prices`) AS `__streamtime_right`
      FROM where_since_and_product
      WHERE `since` IS NOT NULL AND `product` IS NOT NULL
    ),
    united AS (
      SELECT `offset`, `id`, `product`, `ts`, `once`, `__streamtime_is_right`, `__streamtime_right`
      FROM with_is_right_and_right
      UNION ALL
      SELECT `offset`, `id`, `product`, `ts`, `once`, `__streamtime_is_right`, `__streamtime_right`
      FROM with_is_right_and_right_2
    ),
    with_hash AS (
      SELECT *, hash(`product`) AS `__streamtime_hash`
      FROM united
    ),
    sorted AS (
      SELECT *
      FROM with_hash
      SORT BY shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(
        greatest(unix_seconds(`ts`) + CAST(631152000 AS BIGINT), 0L),
        4294967295L
      ) ASC NULLS FIRST
    ),
    with_before AS (
      SELECT
        *,
        lag(`__streamtime_right`, 1, NULL) IGNORE NULLS OVER (
          PARTITION BY `__streamtime_hash`, `product`
          ORDER BY `ts` ASC NULLS FIRST, `__streamtime_is_right` DESC NULLS LAST, `__streamtime_right` ASC NULLS FIRST
        ) AS `__streamtime_before`
      FROM sorted
    ),
    with_match AS (
      SELECT *, `__streamtime_before` AS `__streamtime_match`
      FROM with_before
      WHERE NOT `__streamtime_is_right`
    ),
    as_of_join_rows AS (
      SELECT
        `offset`, `id`, `product`, `ts`, `once`,
        CASE WHEN `__streamtime_match` IS NOT NULL THEN `product` END AS `product_2`,
        `__streamtime_match`.`since` AS `since`, `__streamtime_match`.`price` AS `price`,
        `__streamtime_match`.`prices` AS `prices`
      FROM with_match
      WHERE `__streamtime_match` IS NOT NULL
    )
  SELECT `offset`, `id`, `product`, `ts`, `once`, `product_2` AS `product`, `since`, `price`, `prices`
  FROM as_of_join_rows
)
GROUP BY once.product ORDER BY once.product
""")
display(revenue)
