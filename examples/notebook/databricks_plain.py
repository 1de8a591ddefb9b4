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
# MAGIC     input_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts` FROM orders
# MAGIC     ),
# MAGIC     columns_1 AS (
# MAGIC       SELECT *, CASE WHEN ((`ts` IS NOT NULL) AND (`id` IS NOT NULL)) THEN unix_micros(CAST(`ts` AS TIMESTAMP)) END AS `__streamtime_at` FROM input_1
# MAGIC     ),
# MAGIC     columns_2 AS (
# MAGIC       SELECT *, false AS `__streamtime_mark` FROM columns_1
# MAGIC     ),
# MAGIC     columns_3 AS (
# MAGIC       SELECT *, CASE WHEN ((`__streamtime_before` IS NULL) OR (`__streamtime_at` > (least(`__streamtime_before`, 9223372036254775807L) + 600000000L))) THEN `__streamtime_at` END AS `_w0` FROM (SELECT `id`, `__streamtime_at`, lag(`__streamtime_at`, 1, NULL) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST) AS `__streamtime_before`, row_number() OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_row` FROM columns_1)
# MAGIC     ),
# MAGIC     columns_4 AS (
# MAGIC       SELECT `id`, `__streamtime_at`, `__streamtime_before`, `__streamtime_row`, `__streamtime_opened` FROM (SELECT *, max(`_w0`) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_opened` FROM columns_3)
# MAGIC     ),
# MAGIC     groups_1 AS (
# MAGIC       SELECT `id`, `__streamtime_opened`, (CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT)) AS `__streamtime_chunk`, max(`__streamtime_at`) AS `__streamtime_last`, collect_list(`__streamtime_at`) AS `__streamtime_items` FROM columns_4 WHERE ((`__streamtime_at` > (least(`__streamtime_opened`, 9223372036254775807L) + 600000000L)) AND (`__streamtime_at` > `__streamtime_before`)) GROUP BY `id`, `__streamtime_opened`, (CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT))
# MAGIC     ),
# MAGIC     groups_2 AS (
# MAGIC       SELECT `id`, `__streamtime_opened`, collect_list(named_struct('last', `__streamtime_last`, 'items', `__streamtime_items`)) AS `__streamtime_found` FROM groups_1 GROUP BY `id`, `__streamtime_opened`
# MAGIC     ),
# MAGIC     several_1 AS (
# MAGIC       SELECT * FROM groups_2 LATERAL VIEW explode(flatten((aggregate(sort_array(`__streamtime_found`, true), named_struct('reach', (least(`__streamtime_opened`, 9223372036254775807L) + 600000000L), 'taken', slice(array(slice((get(`__streamtime_found`, 0)).`items`, 1, 0)), 1, 0)), (`so_far_1`, `chunk_1`) -> (IF((`chunk_1`.`last` > `so_far_1`.`reach`), transform(array(aggregate(sort_array(`chunk_1`.`items`, true), named_struct('reach', `so_far_1`.`reach`, 'taken', slice((get(`__streamtime_found`, 0)).`items`, 1, 0)), (`now_2`, `one_2`) -> (IF((`one_2` > `now_2`.`reach`), named_struct('reach', (least(`one_2`, 9223372036254775807L) + 600000000L), 'taken', concat(`now_2`.`taken`, array(`one_2`))), `now_2`)), `id_2` -> `id_2`)), `then_2` -> named_struct('reach', `then_2`.`reach`, 'taken', concat(`so_far_1`.`taken`, array(`then_2`.`taken`))))[0], `so_far_1`)), `id_1` -> `id_1`)).`taken`)) each_1 AS `__streamtime_one`
# MAGIC     ),
# MAGIC     columns_5 AS (
# MAGIC       SELECT `id`, `__streamtime_opened`, `__streamtime_one` AS `__streamtime_at` FROM several_1
# MAGIC     ),
# MAGIC     columns_6 AS (
# MAGIC       SELECT `id`, `__streamtime_at`, true AS `__streamtime_mark` FROM columns_5
# MAGIC     ),
# MAGIC     columns_7 AS (
# MAGIC       SELECT CAST(NULL AS INT) AS `offset`, `id`, CAST(NULL AS STRING) AS `product`, CAST(NULL AS TIMESTAMP) AS `ts`, `__streamtime_at`, `__streamtime_mark` FROM columns_6
# MAGIC     ),
# MAGIC     both_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark` FROM columns_2 UNION ALL SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark` FROM columns_7
# MAGIC     ),
# MAGIC     columns_8 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_before`, ((`__streamtime_at` IS NOT NULL) AND (coalesce(`__streamtime_itself`, false) OR ((`__streamtime_before` IS NULL) OR (`__streamtime_at` > (least(`__streamtime_before`, 9223372036254775807L) + 600000000L))))) AS `__streamtime_itself` FROM (SELECT *, lag(`__streamtime_at`, 1, NULL) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST, `__streamtime_mark` DESC NULLS LAST, `offset` ASC NULLS FIRST, `product` ASC NULLS FIRST) AS `__streamtime_before`, lag(`__streamtime_mark`, 1, NULL) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST, `__streamtime_mark` DESC NULLS LAST, `offset` ASC NULLS FIRST, `product` ASC NULLS FIRST) AS `__streamtime_itself` FROM both_1)
# MAGIC     ),
# MAGIC     columns_9 AS (
# MAGIC       SELECT *, CASE WHEN `__streamtime_itself` THEN `__streamtime_at` END AS `_w0` FROM columns_8
# MAGIC     ),
# MAGIC     columns_10 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_before`, `__streamtime_itself`, `__streamtime_kept_at` FROM (SELECT *, max(`_w0`) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST, `__streamtime_mark` DESC NULLS LAST, `offset` ASC NULLS FIRST, `product` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_kept_at` FROM columns_9)
# MAGIC     ),
# MAGIC     columns_11 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`, `__streamtime_kept_at`, `__streamtime_kept_at` AS `__streamtime_owner` FROM columns_10 WHERE (NOT `__streamtime_mark`)
# MAGIC     ),
# MAGIC     columns_12 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`, CASE WHEN (NOT `__streamtime_itself`) THEN `__streamtime_kept_at` END AS `__streamtime_kept_at`, `__streamtime_owner` FROM columns_11
# MAGIC     ),
# MAGIC     columns_13 AS (
# MAGIC       SELECT *, timestamp_micros(`__streamtime_kept_at`) AS `__streamtime_kept_time` FROM columns_12
# MAGIC     ),
# MAGIC     rows_1 AS (
# MAGIC       SELECT * FROM columns_13 WHERE (`ts` IS NOT NULL)
# MAGIC     ),
# MAGIC     columns_14 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts` FROM rows_1 WHERE (`__streamtime_kept_time` IS NULL)
# MAGIC     )
# MAGIC   SELECT `offset`, `id`, `product`, `ts`
# MAGIC   FROM columns_14
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
# MAGIC     input_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts` FROM orders
# MAGIC     ),
# MAGIC     columns_1 AS (
# MAGIC       SELECT *, CASE WHEN ((`ts` IS NOT NULL) AND (`id` IS NOT NULL)) THEN unix_micros(CAST(`ts` AS TIMESTAMP)) END AS `__streamtime_at` FROM input_1
# MAGIC     ),
# MAGIC     columns_2 AS (
# MAGIC       SELECT *, false AS `__streamtime_mark` FROM columns_1
# MAGIC     ),
# MAGIC     columns_3 AS (
# MAGIC       SELECT *, CASE WHEN ((`__streamtime_before` IS NULL) OR (`__streamtime_at` > (least(`__streamtime_before`, 9223372036254775807L) + 600000000L))) THEN `__streamtime_at` END AS `_w0` FROM (SELECT `id`, `__streamtime_at`, lag(`__streamtime_at`, 1, NULL) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST) AS `__streamtime_before`, row_number() OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_row` FROM columns_1)
# MAGIC     ),
# MAGIC     columns_4 AS (
# MAGIC       SELECT `id`, `__streamtime_at`, `__streamtime_before`, `__streamtime_row`, `__streamtime_opened` FROM (SELECT *, max(`_w0`) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_opened` FROM columns_3)
# MAGIC     ),
# MAGIC     groups_1 AS (
# MAGIC       SELECT `id`, `__streamtime_opened`, (CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT)) AS `__streamtime_chunk`, max(`__streamtime_at`) AS `__streamtime_last`, collect_list(`__streamtime_at`) AS `__streamtime_items` FROM columns_4 WHERE ((`__streamtime_at` > (least(`__streamtime_opened`, 9223372036254775807L) + 600000000L)) AND (`__streamtime_at` > `__streamtime_before`)) GROUP BY `id`, `__streamtime_opened`, (CAST(`__streamtime_row` AS BIGINT) div CAST(1000 AS BIGINT))
# MAGIC     ),
# MAGIC     groups_2 AS (
# MAGIC       SELECT `id`, `__streamtime_opened`, collect_list(named_struct('last', `__streamtime_last`, 'items', `__streamtime_items`)) AS `__streamtime_found` FROM groups_1 GROUP BY `id`, `__streamtime_opened`
# MAGIC     ),
# MAGIC     several_1 AS (
# MAGIC       SELECT * FROM groups_2 LATERAL VIEW explode(flatten((aggregate(sort_array(`__streamtime_found`, true), named_struct('reach', (least(`__streamtime_opened`, 9223372036254775807L) + 600000000L), 'taken', slice(array(slice((get(`__streamtime_found`, 0)).`items`, 1, 0)), 1, 0)), (`so_far_1`, `chunk_1`) -> (IF((`chunk_1`.`last` > `so_far_1`.`reach`), transform(array(aggregate(sort_array(`chunk_1`.`items`, true), named_struct('reach', `so_far_1`.`reach`, 'taken', slice((get(`__streamtime_found`, 0)).`items`, 1, 0)), (`now_2`, `one_2`) -> (IF((`one_2` > `now_2`.`reach`), named_struct('reach', (least(`one_2`, 9223372036254775807L) + 600000000L), 'taken', concat(`now_2`.`taken`, array(`one_2`))), `now_2`)), `id_2` -> `id_2`)), `then_2` -> named_struct('reach', `then_2`.`reach`, 'taken', concat(`so_far_1`.`taken`, array(`then_2`.`taken`))))[0], `so_far_1`)), `id_1` -> `id_1`)).`taken`)) each_1 AS `__streamtime_one`
# MAGIC     ),
# MAGIC     columns_5 AS (
# MAGIC       SELECT `id`, `__streamtime_opened`, `__streamtime_one` AS `__streamtime_at` FROM several_1
# MAGIC     ),
# MAGIC     columns_6 AS (
# MAGIC       SELECT `id`, `__streamtime_at`, true AS `__streamtime_mark` FROM columns_5
# MAGIC     ),
# MAGIC     columns_7 AS (
# MAGIC       SELECT CAST(NULL AS INT) AS `offset`, `id`, CAST(NULL AS STRING) AS `product`, CAST(NULL AS TIMESTAMP) AS `ts`, `__streamtime_at`, `__streamtime_mark` FROM columns_6
# MAGIC     ),
# MAGIC     both_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark` FROM columns_2 UNION ALL SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark` FROM columns_7
# MAGIC     ),
# MAGIC     columns_8 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_before`, ((`__streamtime_at` IS NOT NULL) AND (coalesce(`__streamtime_itself`, false) OR ((`__streamtime_before` IS NULL) OR (`__streamtime_at` > (least(`__streamtime_before`, 9223372036254775807L) + 600000000L))))) AS `__streamtime_itself` FROM (SELECT *, lag(`__streamtime_at`, 1, NULL) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST, `__streamtime_mark` DESC NULLS LAST, `offset` ASC NULLS FIRST, `product` ASC NULLS FIRST) AS `__streamtime_before`, lag(`__streamtime_mark`, 1, NULL) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST, `__streamtime_mark` DESC NULLS LAST, `offset` ASC NULLS FIRST, `product` ASC NULLS FIRST) AS `__streamtime_itself` FROM both_1)
# MAGIC     ),
# MAGIC     columns_9 AS (
# MAGIC       SELECT *, CASE WHEN `__streamtime_itself` THEN `__streamtime_at` END AS `_w0` FROM columns_8
# MAGIC     ),
# MAGIC     columns_10 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_mark`, `__streamtime_before`, `__streamtime_itself`, `__streamtime_kept_at` FROM (SELECT *, max(`_w0`) OVER (PARTITION BY `id` ORDER BY `__streamtime_at` ASC NULLS FIRST, `__streamtime_mark` DESC NULLS LAST, `offset` ASC NULLS FIRST, `product` ASC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_kept_at` FROM columns_9)
# MAGIC     ),
# MAGIC     columns_11 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`, `__streamtime_kept_at`, `__streamtime_kept_at` AS `__streamtime_owner` FROM columns_10 WHERE (NOT `__streamtime_mark`)
# MAGIC     ),
# MAGIC     columns_12 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_at`, `__streamtime_itself`, CASE WHEN (NOT `__streamtime_itself`) THEN `__streamtime_kept_at` END AS `__streamtime_kept_at`, `__streamtime_owner` FROM columns_11
# MAGIC     ),
# MAGIC     columns_13 AS (
# MAGIC       SELECT *, timestamp_micros(`__streamtime_kept_at`) AS `__streamtime_kept_time` FROM columns_12
# MAGIC     ),
# MAGIC     columns_14 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, CASE WHEN (NOT (`ts` IS NOT NULL)) THEN 'null_time' WHEN (`__streamtime_kept_time` IS NOT NULL) THEN 'duplicate' END AS `reason`, CASE WHEN (`ts` IS NOT NULL) THEN `ts` END AS `stream_time`, CASE WHEN (`ts` IS NOT NULL) THEN CASE WHEN (coalesce((CAST(try_subtract(unix_micros(`ts`), unix_micros(`ts`)) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)), ((CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)) - (CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)))) <= CAST(0 AS DOUBLE)) THEN 0.0D ELSE coalesce((CAST(try_subtract(unix_micros(`ts`), unix_micros(`ts`)) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)), ((CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)) - (CAST(unix_micros(`ts`) AS DOUBLE) / CAST(1000000.0D AS DOUBLE)))) END END AS `lateness`, `__streamtime_kept_time` AS `kept_time` FROM columns_13 WHERE (CASE WHEN (NOT (`ts` IS NOT NULL)) THEN 'null_time' WHEN (`__streamtime_kept_time` IS NOT NULL) THEN 'duplicate' END IS NOT NULL)
# MAGIC     )
# MAGIC   SELECT `offset`, `id`, `product`, `ts`, `reason`, `stream_time`, `lateness`, `kept_time`
# MAGIC   FROM columns_14
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
# MAGIC     input_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts` FROM once
# MAGIC     ),
# MAGIC     columns_1 AS (
# MAGIC       SELECT *, ((SPARK_PARTITION_ID() >= 0) AND (((`ts` IS NOT NULL) AND (`offset` IS NOT NULL)) AND (`product` IS NOT NULL))) AS `__streamtime_here` FROM input_1
# MAGIC     ),
# MAGIC     columns_2 AS (
# MAGIC       SELECT *, unix_micros(CAST(`ts` AS TIMESTAMP)) AS `__streamtime_at` FROM columns_1 WHERE `__streamtime_here`
# MAGIC     ),
# MAGIC     columns_3 AS (
# MAGIC       SELECT *, ((`__streamtime_at` div 600000000L) - CAST(((`__streamtime_at` % 600000000L) < CAST(0 AS BIGINT)) AS BIGINT)) AS `__streamtime_step` FROM columns_2
# MAGIC     ),
# MAGIC     columns_4 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_here`, `__streamtime_step` FROM columns_3
# MAGIC     ),
# MAGIC     groups_1 AS (
# MAGIC       SELECT CASE WHEN (((`ts` IS NOT NULL) AND (`offset` IS NOT NULL)) AND (`product` IS NOT NULL)) THEN try_subtract(((unix_micros(CAST(`ts` AS TIMESTAMP)) div 600000000L) - CAST(((unix_micros(CAST(`ts` AS TIMESTAMP)) % 600000000L) < CAST(0 AS BIGINT)) AS BIGINT)), (1L + CAST((pmod(unix_micros(CAST(`ts` AS TIMESTAMP)), 600000000L) < 300000000L) AS BIGINT))) END AS `__streamtime_step`, min(CASE WHEN (((`ts` IS NOT NULL) AND (`offset` IS NOT NULL)) AND (`product` IS NOT NULL)) THEN named_struct('__streamtime_place', named_struct('c0', `offset`, 'c1', `id`, 'c2', `product`, 'c3', `ts`), '__streamtime_found', `ts`) END) AS `__streamtime_first` FROM input_1 GROUP BY CASE WHEN (((`ts` IS NOT NULL) AND (`offset` IS NOT NULL)) AND (`product` IS NOT NULL)) THEN try_subtract(((unix_micros(CAST(`ts` AS TIMESTAMP)) div 600000000L) - CAST(((unix_micros(CAST(`ts` AS TIMESTAMP)) % 600000000L) < CAST(0 AS BIGINT)) AS BIGINT)), (1L + CAST((pmod(unix_micros(CAST(`ts` AS TIMESTAMP)), 600000000L) < 300000000L) AS BIGINT))) END
# MAGIC     ),
# MAGIC     columns_5 AS (
# MAGIC       SELECT * FROM (SELECT `__streamtime_step`, `__streamtime_first_2`, lag(`__streamtime_step`, 1, NULL) OVER (ORDER BY `__streamtime_step` ASC NULLS FIRST) AS `__streamtime_before` FROM (SELECT *, min(`__streamtime_first`) OVER (ORDER BY `__streamtime_step` DESC NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `__streamtime_first_2` FROM groups_1))
# MAGIC     ),
# MAGIC     several_1 AS (
# MAGIC       SELECT * FROM columns_5 LATERAL VIEW explode(sequence(coalesce((`__streamtime_before` + CAST(1 AS BIGINT)), `__streamtime_step`), least(`__streamtime_step`, (coalesce(`__streamtime_before`, `__streamtime_step`) + CAST(2 AS BIGINT))))) each_1 AS `__streamtime_reached`
# MAGIC     ),
# MAGIC     columns_6 AS (
# MAGIC       SELECT `__streamtime_reached`, `__streamtime_first_2`.`__streamtime_place`.`c0` AS `__streamtime_least`, `__streamtime_first_2`.`__streamtime_place` AS `__streamtime_place`, `__streamtime_first_2`.`__streamtime_found` AS `__streamtime_found` FROM several_1
# MAGIC     ),
# MAGIC     joined_1 AS (
# MAGIC       SELECT * FROM columns_4 LEFT OUTER JOIN columns_6 ON (`__streamtime_reached` = `__streamtime_step`)
# MAGIC     ),
# MAGIC     columns_7 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_here`, `__streamtime_step`, `__streamtime_found`, coalesce(CASE WHEN true THEN unix_micros(CAST(`ts` AS TIMESTAMP)) END, CAST(0 AS BIGINT)) AS `__streamtime_at` FROM joined_1 WHERE ((((`__streamtime_least` IS NULL) OR (`offset` < `__streamtime_least`)) OR ((`offset` = `__streamtime_least`) AND (named_struct('c0', `offset`, 'c1', `id`, 'c2', `product`, 'c3', `ts`) < `__streamtime_place`))) OR (`__streamtime_step` >= 15372286728L))
# MAGIC     ),
# MAGIC     columns_8 AS (
# MAGIC       SELECT *, pmod(`__streamtime_at`, 600000000L) AS `__streamtime_into` FROM columns_7
# MAGIC     ),
# MAGIC     columns_9 AS (
# MAGIC       SELECT *, timestamp_micros((`__streamtime_at` - least(`__streamtime_into`, (least(`__streamtime_at`, -1L) & 9223372036854775807L)))) AS `__streamtime_start`, timestamp_micros((least(`__streamtime_at`, (9223372036854775807L - (600000000L - `__streamtime_into`))) + (600000000L - `__streamtime_into`))) AS `__streamtime_end` FROM columns_8
# MAGIC     ),
# MAGIC     groups_2 AS (
# MAGIC       SELECT `product`, `__streamtime_step`, max(`offset`) AS `__streamtime_last`, max(`ts`) AS `__streamtime_latest`, count(1) AS `__streamtime_total_0`, max(`__streamtime_found`) AS `__streamtime_found` FROM columns_9 GROUP BY `product`, `__streamtime_step`
# MAGIC     ),
# MAGIC     columns_10 AS (
# MAGIC       SELECT *, coalesce(try_multiply(`__streamtime_step`, 600000000L), (-9223372036854775807L - 1L)) AS `__streamtime_at` FROM groups_2
# MAGIC     ),
# MAGIC     columns_11 AS (
# MAGIC       SELECT *, timestamp_micros(`__streamtime_at`) AS `__streamtime_start` FROM columns_10
# MAGIC     ),
# MAGIC     columns_12 AS (
# MAGIC       SELECT *, (least(`__streamtime_at`, (9223372036854775807L - (600000000L - pmod(`__streamtime_at`, 600000000L)))) + (600000000L - pmod(`__streamtime_at`, 600000000L))) AS `__streamtime_end` FROM columns_11
# MAGIC     ),
# MAGIC     columns_13 AS (
# MAGIC       SELECT `product`, coalesce(`__streamtime_last`, CAST(0Y AS INT)) AS `offset`, `__streamtime_start` AS `window_start`, timestamp_micros(`__streamtime_end`) AS `window_end`, `__streamtime_total_0` AS `n`, timestamp_micros((least(`__streamtime_end`, 9223372036554775807L) + 300000000L)) AS `window_close`, 'upsert' AS `change_type`, CAST(`__streamtime_latest` AS TIMESTAMP) AS `change_time`, CAST(0 AS BIGINT) AS `change_seq`, CAST(`__streamtime_found` AS TIMESTAMP) AS `__streamtime_found` FROM columns_12
# MAGIC     ),
# MAGIC     columns_14 AS (
# MAGIC       SELECT `product`, `offset`, `window_start`, `window_end`, `n`, `window_close`, `change_type`, `change_time`, `change_seq`, `__streamtime_found` AS `emit_time`, 'close' AS `emit_reason` FROM columns_13 WHERE (`__streamtime_found` IS NOT NULL)
# MAGIC     ),
# MAGIC     columns_15 AS (
# MAGIC       SELECT `product`, `window_start`, `window_end`, `n`, `window_close`, `offset`, `change_type`, `change_time`, `change_seq`, `emit_time`, `emit_reason` FROM columns_14
# MAGIC     )
# MAGIC   SELECT `product`, `window_start`, `window_end`, `n`, `window_close`, `offset`, `change_type`, `change_time`, `change_seq`, `emit_time`, `emit_reason`
# MAGIC   FROM columns_15
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
# MAGIC     input_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts` FROM once
# MAGIC     ),
# MAGIC     columns_1 AS (
# MAGIC       SELECT *, false AS `__streamtime_is_right`, CAST(NULL AS STRUCT<since: TIMESTAMP NOT NULL, price: DECIMAL(3,2) NOT NULL>) AS `__streamtime_right` FROM input_1
# MAGIC     ),
# MAGIC     input_2 AS (
# MAGIC       SELECT `product`, `since`, `price` FROM prices
# MAGIC     ),
# MAGIC     rows_1 AS (
# MAGIC       SELECT * FROM input_2 WHERE ((`since` IS NOT NULL) AND (`product` IS NOT NULL))
# MAGIC     ),
# MAGIC     columns_2 AS (
# MAGIC       SELECT CAST(NULL AS INT) AS `offset`, CAST(NULL AS STRING) AS `id`, `product`, `since` AS `ts`, true AS `__streamtime_is_right`, named_struct('since', `since`, 'price', `price`) AS `__streamtime_right` FROM rows_1 WHERE ((`since` IS NOT NULL) AND (`product` IS NOT NULL))
# MAGIC     ),
# MAGIC     both_1 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, `__streamtime_is_right`, `__streamtime_right` FROM columns_1 UNION ALL SELECT `offset`, `id`, `product`, `ts`, `__streamtime_is_right`, `__streamtime_right` FROM columns_2
# MAGIC     ),
# MAGIC     columns_3 AS (
# MAGIC       SELECT *, hash(`product`) AS `__streamtime_hash` FROM both_1
# MAGIC     ),
# MAGIC     sorted_1 AS (
# MAGIC       SELECT * FROM columns_3 SORT BY (shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(greatest((unix_seconds(`ts`) + CAST(631152000 AS BIGINT)), 0L), 4294967295L)) ASC NULLS FIRST
# MAGIC     ),
# MAGIC     spread_1 AS (
# MAGIC       SELECT * FROM sorted_1 DISTRIBUTE BY `product`
# MAGIC     ),
# MAGIC     columns_4 AS (
# MAGIC       SELECT * FROM (SELECT *, lag(`__streamtime_right`, 1, NULL) IGNORE NULLS OVER (PARTITION BY `__streamtime_hash`, `product` ORDER BY `ts` ASC NULLS FIRST, `__streamtime_is_right` DESC NULLS LAST, `__streamtime_right` ASC NULLS FIRST) AS `__streamtime_before` FROM spread_1)
# MAGIC     ),
# MAGIC     columns_5 AS (
# MAGIC       SELECT *, `__streamtime_before` AS `__streamtime_match` FROM columns_4 WHERE (NOT `__streamtime_is_right`)
# MAGIC     ),
# MAGIC     columns_6 AS (
# MAGIC       SELECT `offset`, `id`, `product`, `ts`, CASE WHEN (`__streamtime_match` IS NOT NULL) THEN `product` END AS `product_2`, `__streamtime_match`.`since` AS `since`, `__streamtime_match`.`price` AS `price` FROM columns_5 WHERE (`__streamtime_match` IS NOT NULL)
# MAGIC     )
# MAGIC   SELECT `offset`, `id`, `product`, `ts`, `product_2` AS `product`, `since`, `price`
# MAGIC   FROM columns_6
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
    input_1 AS (
      SELECT `offset`, `id`, `product`, `ts` FROM once
    ),
    columns_1 AS (
      SELECT *, named_struct('offset', `offset`, 'id', `id`, 'product', `product`, 'ts', `ts`) AS `once` FROM input_1
    ),
    columns_2 AS (
      SELECT *, false AS `__streamtime_is_right`, CAST(NULL AS STRUCT<since: TIMESTAMP NOT NULL, price: DECIMAL(3,2) NOT NULL, prices: STRUCT<product: STRING NOT NULL, since: TIMESTAMP NOT NULL, price: DECIMAL(3,2) NOT NULL> NOT NULL>) AS `__streamtime_right` FROM columns_1
    ),
    input_2 AS (
      SELECT `product`, `since`, `price` FROM prices
    ),
    columns_3 AS (
      SELECT *, named_struct('product', `product`, 'since', `since`, 'price', `price`) AS `prices` FROM input_2
    ),
    rows_1 AS (
      SELECT * FROM columns_3 WHERE ((`since` IS NOT NULL) AND (`product` IS NOT NULL))
    ),
    columns_4 AS (
      SELECT CAST(NULL AS INT) AS `offset`, CAST(NULL AS STRING) AS `id`, `product`, `since` AS `ts`, CAST(NULL AS STRUCT<offset: INT NOT NULL, id: STRING NOT NULL, product: STRING NOT NULL, ts: TIMESTAMP NOT NULL>) AS `once`, true AS `__streamtime_is_right`, named_struct('since', `since`, 'price', `price`, 'prices', `prices`) AS `__streamtime_right` FROM rows_1 WHERE ((`since` IS NOT NULL) AND (`product` IS NOT NULL))
    ),
    both_1 AS (
      SELECT `offset`, `id`, `product`, `ts`, `once`, `__streamtime_is_right`, `__streamtime_right` FROM columns_2 UNION ALL SELECT `offset`, `id`, `product`, `ts`, `once`, `__streamtime_is_right`, `__streamtime_right` FROM columns_4
    ),
    columns_5 AS (
      SELECT *, hash(`product`) AS `__streamtime_hash` FROM both_1
    ),
    sorted_1 AS (
      SELECT * FROM columns_5 SORT BY (shiftleft(CAST(`__streamtime_hash` AS BIGINT), 32) + least(greatest((unix_seconds(`ts`) + CAST(631152000 AS BIGINT)), 0L), 4294967295L)) ASC NULLS FIRST
    ),
    spread_1 AS (
      SELECT * FROM sorted_1 DISTRIBUTE BY `product`
    ),
    columns_6 AS (
      SELECT * FROM (SELECT *, lag(`__streamtime_right`, 1, NULL) IGNORE NULLS OVER (PARTITION BY `__streamtime_hash`, `product` ORDER BY `ts` ASC NULLS FIRST, `__streamtime_is_right` DESC NULLS LAST, `__streamtime_right` ASC NULLS FIRST) AS `__streamtime_before` FROM spread_1)
    ),
    columns_7 AS (
      SELECT *, `__streamtime_before` AS `__streamtime_match` FROM columns_6 WHERE (NOT `__streamtime_is_right`)
    ),
    columns_8 AS (
      SELECT `offset`, `id`, `product`, `ts`, `once`, CASE WHEN (`__streamtime_match` IS NOT NULL) THEN `product` END AS `product_2`, `__streamtime_match`.`since` AS `since`, `__streamtime_match`.`price` AS `price`, `__streamtime_match`.`prices` AS `prices` FROM columns_7 WHERE (`__streamtime_match` IS NOT NULL)
    )
  SELECT `offset`, `id`, `product`, `ts`, `once`, `product_2` AS `product`, `since`, `price`, `prices`
  FROM columns_8
)
GROUP BY once.product ORDER BY once.product
""")
display(revenue)
