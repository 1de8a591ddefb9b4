"""Queries like those of TPC-H, over small tables whose values are nasty: keys that are NULL or lead nowhere, amounts that are NULL, a DOUBLE
that is -0.0 or NaN, ties, odd names, one hot key."""

from __future__ import annotations

from random import Random

TABLES = {
    "h_nations": "n INT, name STRING",
    "h_customers": "c INT, `seg ment` STRING, n INT",
    "h_orders": "o INT, c INT, day DATE, priority STRING",
    "h_lines": "o INT, s INT, qty INT, `prïce` DECIMAL(10, 2), discount DECIMAL(4, 2), flag STRING, shipped DATE, received DATE, score DOUBLE",
    "h_suppliers": "s INT, n INT",
}
REVENUE = "sum(l.`prïce` * (1 - l.discount))"
# As in `maintained.QUERIES`: the query, the columns that tell its rows apart, whether it can be followed
QUERIES: dict[str, tuple[str, str | None, bool]] = {
    "q1_pricing": (
        "SELECT flag, shipped > DATE '1998-06-01' AS late, sum(qty) AS qty, sum(`prïce`) AS base, sum(`prïce` * (1 - discount)) AS charged, "
        "avg(qty) AS mean, avg(`prïce`) AS `mean prïce`, avg(discount) AS less, count(*) AS n FROM {s}.h_lines "
        "WHERE shipped <= DATE '1998-12-01' - INTERVAL 30 DAYS GROUP BY flag, shipped > DATE '1998-06-01'",
        None,
        True,
    ),
    "q3_unshipped": (
        f"SELECT l.o, {REVENUE} AS revenue, o.day, o.priority FROM {{s}}.h_customers c JOIN {{s}}.h_orders o ON c.c = o.c "
        "JOIN {s}.h_lines l ON l.o = o.o WHERE c.`seg ment` = 'hot' AND o.day < DATE '1998-09-01' AND l.shipped > DATE '1998-03-01' "
        "GROUP BY l.o, o.day, o.priority",
        None,
        True,
    ),
    "q4_exists": (
        "SELECT b.priority, count(*) AS n FROM {s}.h_orders b WHERE EXISTS (SELECT 1 FROM {s}.h_lines l WHERE l.o = b.o "
        "AND l.shipped < l.received) GROUP BY b.priority",
        None,
        False,
    ),
    "q5_local": (
        f"SELECT n.name, {REVENUE} AS revenue FROM {{s}}.h_customers c JOIN {{s}}.h_orders o ON c.c = o.c JOIN {{s}}.h_lines l ON l.o = o.o "
        "JOIN {s}.h_suppliers s ON l.s = s.s AND c.n = s.n JOIN {s}.h_nations n ON s.n = n.n GROUP BY n.name",
        None,
        True,
    ),
    "q10_returned": (
        f"SELECT c.c, c.`seg ment`, n.name, {REVENUE} AS revenue, count(*) AS n, avg(l.qty) AS mean FROM {{s}}.h_customers c "
        "JOIN {s}.h_orders o ON c.c = o.c JOIN {s}.h_lines l ON l.o = o.o JOIN {s}.h_nations n ON c.n = n.n WHERE l.flag <> 'x' "
        "GROUP BY c.c, c.`seg ment`, n.name",
        None,
        True,
    ),
    "q12_modes": (
        "SELECT l.flag, sum(CASE WHEN o.priority = 'hot' THEN 1 ELSE 0 END) AS high, sum(CASE WHEN o.priority = 'hot' THEN NULL ELSE 1 END) "
        "AS low FROM {s}.h_orders o JOIN {s}.h_lines l ON o.o = l.o WHERE l.shipped < l.received GROUP BY l.flag",
        None,
        True,
    ),
    "q13_orders": (
        "SELECT found, count(*) AS customers FROM (SELECT c.c, count(o.o) AS found FROM {s}.h_customers c LEFT JOIN {s}.h_orders o "
        "ON c.c = o.c AND o.priority <> 'hot' GROUP BY c.c) AS counted GROUP BY found",
        None,
        True,
    ),
    "q18_large": (
        "SELECT c.c, o.o, o.day, sum(l.qty) AS qty FROM (SELECT o, sum(qty) AS qty FROM {s}.h_lines GROUP BY o HAVING sum(qty) > 10) big "
        "JOIN {s}.h_orders o ON o.o = big.o JOIN {s}.h_customers c ON c.c = o.c JOIN {s}.h_lines l ON l.o = o.o GROUP BY c.c, o.o, o.day",
        None,
        True,
    ),
    "scores": ("SELECT score, count(*) AS n, sum(qty) AS qty, max(score) AS most FROM {s}.h_lines GROUP BY score", None, True),
    "scored": (
        "SELECT l.score, l.o, l.qty, s.n, l.score * l.qty AS `w eight` FROM {s}.h_lines l LEFT JOIN {s}.h_suppliers s ON l.s = s.s "
        "WHERE l.qty IS NULL OR l.qty < 9",
        None,
        True,
    ),
}
WORDS = ["'a'", "'x'", "'hot'", "'hot'", "'hot'", "''", "NULL"]
DAYS = [
    "NULL",
    "DATE '0001-01-01'",
    "DATE '9999-12-31'",
    *[f"DATE '1998-{month:02d}-{day:02d}'" for month in (2, 6, 10) for day in (1, 1, 2)],
]
KEYS = {"h_nations": "n", "h_customers": "c", "h_orders": "o", "h_lines": "o", "h_suppliers": "s"}
CHANGES = {  # what an UPDATE sets
    "h_nations": ["name = 'x'", "n = {number}"],
    "h_customers": ["n = {number}", "`seg ment` = {word}", "c = {number}"],
    "h_orders": ["c = {number}", "day = {day}, priority = {word}", "o = {number}"],
    "h_lines": [
        "o = {number}", "s = {number}", "`prïce` = `prïce` - 0.01", "flag = {word}", "qty = NULL", "`prïce` = NULL", "score = -score",
        "shipped = {day}, received = {day}",
    ],
    "h_suppliers": ["n = {number}", "s = {number}"],
}  # fmt: skip


def row(table: str, random_: Random) -> str:
    """A row to insert."""

    def number() -> str:
        return random_.choice(["1", "1", "1", "2", "3", "4", "7", "NULL"])

    key = str(random_.randint(1, 9)) if random_.random() < 0.9 else "NULL"
    word, day = random_.choice(WORDS), random_.choice(DAYS)
    if table == "h_nations":
        return f"({number()}, {word})"
    if table == "h_customers":
        return f"({key}, {word}, {number()})"
    if table == "h_orders":
        return f"({key}, {number()}, {day}, {word})"
    if table == "h_suppliers":
        return f"({number()}, {number()})"
    price, discount = random_.choice(["NULL", "0.00", "-1.50", "99999999.99", "7.07"]), random_.choice(["NULL", "0.00", "0.07", "1.00"])
    score = random_.choice(["NULL", "-0.0D", "0.0D", "double('NaN')", "1.5D", "double('-Infinity')"])
    qty = random_.choice(["NULL", "-3", "0", "5", "8", "2147483647"])
    return f"({key}, {number()}, {qty}, {price}, {discount}, {word}, {day}, {random_.choice(DAYS)}, {score})"


def change(table: str, random_: Random) -> str:
    """What an UPDATE sets."""
    return random_.choice(CHANGES[table]).format(
        number=random_.choice(["1", "2", "3", "NULL"]), word=random_.choice(WORDS), day=random_.choice(DAYS)
    )
