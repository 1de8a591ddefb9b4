"""Queries that are maintained over tables that change at random: what a table must be after each commit is what the query says of it anew."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.inputs import tpch

import streamtime
from streamtime import Receipt

FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
TABLES = {
    "orders": "id INT, `wh o` STRING, ts TIMESTAMP, item INT, v INT, d DECIMAL(10, 2)",
    "items": "item INT, kind STRING, `prïce 🍵` DOUBLE",
    "kinds": "kind STRING, name STRING",
    "prices": "item INT, ts TIMESTAMP, price INT, gone BOOLEAN",
    "visits": "id BIGINT, item INT, v DOUBLE",  # the one whose key no two rows have
}
KEYS = {"orders": "id", "items": "item", "kinds": "kind", "prices": "item", "visits": "id"} | tpch.KEYS
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
    "kept": (
        "SELECT * FROM DEDUPLICATE(TABLE({s}.orders) PARTITION BY `wh o` ORDER BY (ts, id, v, item, d), within => INTERVAL 10 MINUTES)",
        None,
        True,
    ),
    "final_by_key": (
        "SELECT * FROM WINDOW_UPDATES(TABLE(SELECT id, `wh o` AS w, ts FROM {s}.orders) PARTITION BY w ORDER BY (ts, id), "
        "size => INTERVAL 10 MINUTES, aggregates => 'count(*) AS n, max(id) AS last', emit => 'final', clock_by => ARRAY('w'))",
        None,
        True,
    ),
    "as_of_call": (
        "SELECT `wh o` AS w, j.item, count(*) AS n, count(price) AS priced, max(price) AS most FROM AS_OF_JOIN(TABLE({s}.orders) PARTITION BY "
        "item ORDER BY ts, TABLE(SELECT item AS thing, ts AS since, price, gone FROM {s}.prices) PARTITION BY thing ORDER BY (since, price), "
        "deleted => 'gone', join_type => 'left') AS j GROUP BY `wh o`, j.item",
        None,
        True,
    ),
    "visited": (
        "SELECT i.kind IS DISTINCT FROM 'hot' AS cold, x.*, i.n FROM {s}.visits AS x LEFT JOIN (SELECT item, count(*) AS n, max(kind) AS kind "
        "FROM {s}.items GROUP BY item) AS i ON x.item = i.item",
        "id",
        True,
    ),
    "visiting": (
        "SELECT id, v * n AS paid FROM {s}.visits JOIN (SELECT item AS thing, count(*) AS n FROM {s}.orders GROUP BY item) AS o ON "
        "item = thing WHERE v <> 1 OR n > 1",
        "id",
        True,
    ),
} | tpch.QUERIES


def made(spark: SparkSession, schema: str, tables: Mapping[str, str] = TABLES) -> None:
    """The tables, empty."""
    for name, columns in tables.items():
        odd = ", delta.columnMapping.mode = 'name'"
        spark.sql(f"CREATE TABLE {schema}.{name} ({columns}) {FEED[:-1]}{odd})")


def reads(query: str, table: str) -> bool:
    """Whether a query reads a table."""
    return re.search(rf"\{{s\}}\.{table}\b", QUERIES[query][0]) is not None


def commit(spark: SparkSession, schema: str, random_: random.Random, table: str | None = None) -> str:
    """One random commit, to one of the tables of orders where none is given. Gives what was done."""
    text = drawn(schema, random_, table or random_.choice(["orders"] * 4 + ["items", "items", "kinds", "prices"]))
    spark.sql(text)
    return text


def drawn(schema: str, random_: random.Random, table: str) -> str:
    """A random statement that makes a commit of a table."""
    full, key = f"{schema}.{table}", KEYS[table]
    some = f"hash({key}, {random_.randint(0, 9)}) % 4 = 0" if random_.random() < 0.8 else f"{key} IS NULL"
    kind = random_.choices(["insert", "update", "move", "delete", "merge", "optimize"], [5, 3, 3, 2, 2, 1])[0]
    if kind == "insert":
        return f"INSERT INTO {full} VALUES {', '.join(_row(table, random_) for _ in range(random_.choice([1, 2, 9])))}"
    if kind == "delete":
        return f"DELETE FROM {full} WHERE {some}"
    if kind == "optimize":
        return f"OPTIMIZE {full}"
    if kind == "merge":
        columns = re.sub(r"\(\d+, \d+\)", "", (TABLES | tpch.TABLES)[table]).split(", ")
        names = [re.sub(r" [A-Z]+$", "", column) for column in columns]
        return (
            f"MERGE INTO {full} t USING (SELECT * FROM VALUES {_row(table, random_)} AS s({', '.join(names)})) s ON t.{key} <=> s.{key} "
            f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    if table in tpch.TABLES:
        return f"UPDATE {full} SET {tpch.change(table, random_)} WHERE {some}"
    sets = {
        "orders": {"update": "v = v + 1", "move": f"`wh o` = {random_.choice(WHO)}, item = {random_.randint(0, 3)}"},
        "items": {"update": "`prïce 🍵` = -0.0", "move": f"kind = {random_.choice(WHO)}"},
        "kinds": {"update": "name = concat(name, 'x')", "move": f"kind = {random_.choice(WHO)}"},
        "visits": {"update": "v = -v", "move": f"item = {random_.randint(0, 3)}, id = id + {random_.getrandbits(40)}"},
        "prices": {"update": "price = price + 1", "move": f"ts = {random_.choice(TIMES)}, gone = NOT gone"},
    }[table][kind]
    return f"UPDATE {full} SET {sets} WHERE {some}"


def _row(table: str, random_: random.Random) -> str:
    if table in tpch.TABLES:
        return tpch.row(table, random_)
    who, at, item = random_.choice(WHO), random_.choice(TIMES), random_.choice(["0", "1", "2", "NULL"])
    if table == "orders":
        return (
            f"({random_.randint(1, 40)}, {who}, {at}, {item}, {random_.choice(['NULL', '-1', '1', '3', '9'])}, {random_.randint(0, 9)}.50)"
        )
    if table == "items":
        return f"({item}, {random_.choice(WHO)}, {random_.choice(['1.5D', 'NULL', 'double(0.25)'])})"
    if table == "visits":
        return f"({random_.getrandbits(40)}, {item}, {random_.choice(['0.0D', '1', 'NULL', '2.5D'])})"
    if table == "kinds":
        return f"({random_.choice(WHO)}, {random_.choice(WHO)})"
    return f"({item}, {at}, {random_.randint(1, 5)}, {random_.choice(['true', 'false', 'false', 'NULL'])})"


def maintained(spark: SparkSession, schema: str, name: str, policy: str = "auto") -> Receipt:
    """One run for a query."""
    text, key, _ = QUERIES[name]
    return streamtime.maintain(spark, f"{schema}.m_{name}", text.format(s=schema), key=key, policy=policy)


def differs(spark: SparkSession, schema: str, *names: str) -> dict[str, int]:
    """How many rows of maintained tables are others than their queries say, by table, where any are."""
    return differences(spark, {f"{schema}.m_{name}": QUERIES[name][0].format(s=schema) for name in names})


def differences(spark: SparkSession, tables: Mapping[str, str]) -> dict[str, int]:
    """The same of tables and their queries. All of them by one query, over rows as text: so all types can be compared, and -0.0 is not 0.0."""
    signed = []
    for name, text in tables.items():
        fresh, kept = streamtime.query(spark, text), spark.table(name)
        kinds = [[(f.name, f.dataType.simpleString()) for f in df.schema.fields] for df in (fresh, kept)]
        assert kinds[0] == kinds[1], (name, kinds)
        row = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
        signed += [df.selectExpr(f"'{name}' AS name", row, f"{sign} AS sign") for df, sign in ((fresh, 1), (kept, -1))]
    sides = reduce(lambda one, other: one.unionAll(other), signed)
    others = sides.groupBy("name", "row").agg(F.abs(F.sum("sign")).alias("others")).groupBy("name").agg(F.sum("others").alias("others"))
    return {row.name: row.others for row in others.where("others > 0").collect()}
