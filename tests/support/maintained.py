"""Queries that are maintained over tables that change at random: what a table must be after each commit is what the query says of it anew."""

from __future__ import annotations

import random

from pyspark.sql import SparkSession

import streamtime
from streamtime import Receipt

FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
TABLES = {
    "orders": "id INT, `wh o` STRING, ts TIMESTAMP, item INT, v INT, d DECIMAL(10, 2)",
    "items": "item INT, kind STRING, `prïce 🍵` DOUBLE",
    "kinds": "kind STRING, name STRING",
    "prices": "item INT, ts TIMESTAMP, price INT, gone BOOLEAN",
}
WHO = ["'ann'", "'bob'", "'hot'", "'hot'", "'hot'", "''", "NULL"]
TIMES = [
    "NULL", "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'", "TIMESTAMP '2024-03-31 01:30:00'",
    *[f"TIMESTAMP '2024-01-01 10:{minute:02d}:00'" for minute in (0, 0, 3, 9, 10, 31, 59)],
]  # fmt: skip
# The query, columns of the result that tell its rows apart (None: it says so itself, or they are not), whether it can be followed
QUERIES: dict[str, tuple[str, str | None, bool]] = {
    "totals": ("SELECT `wh o`, count(*) AS n, sum(v) AS total, max(ts) AS last FROM {s}.orders GROUP BY `wh o`", None, True),
    "by_day": ("SELECT date(ts) AS day, `wh o` = 'hot' AS hot, min(d) AS least FROM {s}.orders WHERE v > 0 GROUP BY 1, 2", None, True),
    "filtered": ("SELECT *, v * 2 AS twice FROM {s}.orders AS o WHERE o.v > 2 OR `wh o` IS NULL", None, True),
    "joined": (
        "SELECT o.id, o.item, i.kind, i.`prïce 🍵` * o.v AS paid FROM {s}.orders o LEFT JOIN {s}.items i ON o.item = i.item",
        None,
        True,
    ),
    "star": (
        "SELECT k.name, o.`wh o` AS who, sum(o.v) AS v, count(i.item) AS n FROM {s}.orders o JOIN {s}.items AS i USING (item) "
        "LEFT JOIN {s}.kinds k ON i.kind = k.kind AND k.name <> 'x' GROUP BY k.name, o.`wh o`",
        None,
        True,
    ),
    "keyed": (
        "SELECT o.id, max(o.ts) AS ts, count(k.kind) AS n, collect_set(k.name) AS names FROM {s}.orders o "
        "LEFT JOIN {s}.items i ON i.item = o.item LEFT JOIN {s}.kinds k ON k.kind = i.kind GROUP BY o.id",
        "id",
        True,
    ),
    "ranked": (
        "SELECT * FROM (SELECT id, `wh o` AS w, row_number() OVER (PARTITION BY `wh o` ORDER BY ts, id, v, item, d) AS n FROM {s}.orders) r "
        "WHERE n <= 2",
        None,
        True,
    ),
    "both": ("SELECT item, v AS x FROM {s}.orders WHERE v < 3 UNION ALL SELECT item, 0 FROM {s}.items", None, True),
    "firsts": (
        "WITH c AS (SELECT id, `wh o` AS w, ts, item FROM {s}.orders WHERE v >= 0) SELECT i.kind, d.w, count(*) AS n FROM "
        "DEDUPLICATE(TABLE(c) PARTITION BY w ORDER BY (ts, id), within => INTERVAL 10 MINUTES) d JOIN {s}.items i ON d.item = i.item "
        "GROUP BY ALL",
        None,
        True,
    ),
    "sessions": (
        "SELECT `wh o` AS w, session_start, session_end, count(*) AS n FROM "
        "SESSIONIZE(TABLE({s}.orders) PARTITION BY `wh o` ORDER BY ts, gap => INTERVAL 10 MINUTES) GROUP BY `wh o`, session_start, session_end",
        None,
        True,
    ),
    "as_of": (
        "SELECT o.id, o.item, o.ts AS at, p.price FROM {s}.orders o LEFT ASOF JOIN {s}.prices p MATCH_CONDITION (o.ts >= p.ts) ON o.item = p.item",
        None,
        True,
    ),
    "versions": ("SELECT * FROM VERSIONS(TABLE({s}.prices) PARTITION BY item ORDER BY ts, deleted => 'gone')", None, True),
    "windows": (
        "SELECT w, window_start, n FROM WINDOW_UPDATES(TABLE(SELECT id, `wh o` AS w, ts FROM {s}.orders) PARTITION BY w ORDER BY (ts, id), "
        "size => INTERVAL 10 MINUTES, aggregates => 'count(*) AS n')",
        None,
        True,
    ),
    "final": (
        "SELECT * FROM WINDOW_UPDATES(TABLE(SELECT id, `wh o` AS w, ts FROM {s}.orders) PARTITION BY w ORDER BY (ts, id), "
        "size => INTERVAL 10 MINUTES, aggregates => 'count(*) AS n', emit => 'final')",
        None,
        False,
    ),
    "newest": ("SELECT id, ts FROM {s}.orders ORDER BY ts DESC, id LIMIT 3", None, False),
}


def made(spark: SparkSession, schema: str) -> None:
    """The tables, empty."""
    for name, columns in TABLES.items():
        odd = ", delta.columnMapping.mode = 'name'"
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) {FEED[:-1]}{odd})")


def commit(spark: SparkSession, schema: str, random_: random.Random) -> str:
    """One random commit to one of the tables. Gives what was done."""
    table = random_.choice(["orders"] * 4 + ["items", "items", "kinds", "prices"])
    full, key = f"{schema}.{table}", {"orders": "id", "items": "item", "kinds": "kind", "prices": "item"}[table]
    some = f"hash({key}, {random_.randint(0, 9)}) % 4 = 0" if random_.random() < 0.8 else f"{key} IS NULL"
    kind = random_.choices(["insert", "update", "move", "delete", "merge", "optimize"], [5, 3, 3, 2, 2, 1])[0]
    if kind == "insert":
        text = f"INSERT INTO {full} VALUES {', '.join(_row(table, random_) for _ in range(random_.choice([1, 2, 9])))}"
    elif kind == "delete":
        text = f"DELETE FROM {full} WHERE {some}"
    elif kind == "optimize":
        text = f"OPTIMIZE {full}"
    elif kind == "merge":
        names = [c.split("` ")[0] + "`" if c.startswith("`") else c.split(" ")[0] for c in TABLES[table].replace("(10, 2)", "").split(", ")]
        text = (
            f"MERGE INTO {full} t USING (SELECT * FROM VALUES {_row(table, random_)} AS s({', '.join(names)})) s ON t.{key} <=> s.{key} "
            f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    else:
        sets = {
            "orders": {"update": "v = v + 1", "move": f"`wh o` = {random_.choice(WHO)}, item = {random_.randint(0, 3)}"},
            "items": {"update": "`prïce 🍵` = -0.0", "move": f"kind = {random_.choice(WHO)}"},
            "kinds": {"update": "name = concat(name, 'x')", "move": f"kind = {random_.choice(WHO)}"},
            "prices": {"update": "price = price + 1", "move": f"ts = {random_.choice(TIMES)}, gone = NOT gone"},
        }[table][kind]
        text = f"UPDATE {full} SET {sets} WHERE {some}"
    spark.sql(text)
    return text


def _row(table: str, random_: random.Random) -> str:
    who, at, item = random_.choice(WHO), random_.choice(TIMES), random_.choice(["0", "1", "2", "NULL"])
    if table == "orders":
        return (
            f"({random_.randint(1, 40)}, {who}, {at}, {item}, {random_.choice(['NULL', '-1', '1', '3', '9'])}, {random_.randint(0, 9)}.50)"
        )
    if table == "items":
        return f"({item}, {random_.choice(WHO)}, {random_.choice(['1.5D', 'NULL', 'double(0.25)'])})"
    if table == "kinds":
        return f"({random_.choice(WHO)}, {random_.choice(WHO)})"
    return f"({item}, {at}, {random_.randint(1, 5)}, {random_.choice(['true', 'false', 'false', 'NULL'])})"


def maintained(spark: SparkSession, schema: str, name: str, policy: str = "auto") -> Receipt:
    """One run for a query."""
    text, key, _ = QUERIES[name]
    return streamtime.maintain(spark, f"{schema}.m_{name}", text.format(s=schema), key=key, policy=policy)


def differs(spark: SparkSession, schema: str, name: str) -> int:
    """In how many rows the maintained table differs from its query, as rows of text, so that all types can be compared."""
    fresh = streamtime.query(spark, QUERIES[name][0].format(s=schema))
    kept = spark.table(f"{schema}.m_{name}")
    assert [(f.name, f.dataType.simpleString()) for f in fresh.schema.fields] == [
        (f.name, f.dataType.simpleString()) for f in kept.schema.fields
    ]
    one, other = (df.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS row") for df in (fresh, kept))
    return one.exceptAll(other).count() + other.exceptAll(one).count()
