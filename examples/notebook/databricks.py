# Databricks notebook source
# MAGIC %md
# MAGIC **Not run on Databricks**: made of `orders.sql`, whose statements run on Apache Spark. `%sql` knows the functions where the doors that the next cell prints have `analyzer` or `server` among them.
# MAGIC Elsewhere, give each text to `streamtime.query(spark, "..")`, or take `databricks_plain.py`.

# COMMAND ----------

# MAGIC %pip install --no-deps /Volumes/main/default/wheels/streamtime-0.1.0-py3-none-any.whl

# COMMAND ----------

# MAGIC %pip install 'sqlglot>=30,<31' 'jinja2>=3.1' 'pandas>=2.2,<3' 'prompt_toolkit>=3.0.48' 'tabulate>=0.9' 'wcwidth>=0.2.13'

# COMMAND ----------

import streamtime

print(streamtime.register(spark))

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
# MAGIC SELECT * FROM DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES)

# COMMAND ----------

# MAGIC %md
# MAGIC Nothing is lost silently: `output => 'dropped'` says what did not pass, and why.

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT id, ts, reason, kept_time
# MAGIC FROM DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES, output => 'dropped')

# COMMAND ----------

# MAGIC %md
# MAGIC The same as a picture: a lane for each key, and an arrow from the duplicate to the row that was kept.

# COMMAND ----------

displayHTML(streamtime.plot(spark, """
SELECT * FROM DEDUPLICATE(TABLE(orders) PARTITION BY id ORDER BY ts, within => INTERVAL 10 MINUTES)
""")._repr_svg_())

# COMMAND ----------

# MAGIC %md
# MAGIC ## How many every ten minutes, for good?
# MAGIC
# MAGIC Rows come in the order of `offset`; their time is `ts`. A window waits five minutes more for rows that are late. Then its count is
# MAGIC final, and is said once.

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT product, window_start, n, emit_time
# MAGIC FROM WINDOW_UPDATES(TABLE(once) PARTITION BY product ORDER BY offset, time => 'ts', size => INTERVAL 10 MINUTES,
# MAGIC                     grace => INTERVAL 5 MINUTES, aggregates => 'count(*) AS n', emit => 'final')
# MAGIC ORDER BY window_start, product

# COMMAND ----------

# MAGIC %md
# MAGIC And o4? It came after its window had closed, at 10:15. In the picture, the pale tail of a window is its grace.

# COMMAND ----------

displayHTML(streamtime.plot(spark, """
SELECT * FROM WINDOW_UPDATES(TABLE(once) PARTITION BY product ORDER BY offset, time => 'ts', size => INTERVAL 10 MINUTES,
                             grace => INTERVAL 5 MINUTES, aggregates => 'count(*) AS n')
""")._repr_svg_())

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
# MAGIC FROM AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
# MAGIC ORDER BY id

# COMMAND ----------

displayHTML(streamtime.plot(spark, """
SELECT * FROM AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
""")._repr_svg_())

# COMMAND ----------

# MAGIC %md
# MAGIC ## On in Python
# MAGIC
# MAGIC `revenue <<` puts a result into a variable: a DataFrame of Spark, which goes on from here.

# COMMAND ----------

revenue = spark.sql("""
SELECT once.product, sum(price) AS revenue
FROM AS_OF_JOIN(TABLE(once) PARTITION BY product ORDER BY ts, TABLE(prices) PARTITION BY product ORDER BY since)
GROUP BY once.product ORDER BY once.product
""")
display(revenue)
