"""JOIN .. AS OF over Delta tables: by event time where a table declares that it is versioned, by commit where not."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession

import streamtime

EVENTS = "(SELECT col1 AS n, col2 AS k, CAST(col3 AS TIMESTAMP) AS ts FROM VALUES (1, 'a', '2024-01-01'), (2, 'a', '2024-01-03'), (3, 'b', '2024-01-09'))"


def declared(spark: SparkSession, name: str) -> str:
    """A table that declares its versions: a at 2 and 4 January, b at 5, deleted at 7."""
    spark.sql(
        f"CREATE TABLE {name} (k STRING, ts TIMESTAMP, price INT, gone BOOLEAN) USING delta TBLPROPERTIES "
        "('streamtime.key' = 'k', 'streamtime.time' = 'ts', 'streamtime.deleted' = 'gone')"
    )
    rows = "('a', '2024-01-02', 1, false), ('a', '2024-01-04', 2, false), ('b', '2024-01-05', 3, false), ('b', '2024-01-07', NULL, true)"
    spark.sql(f"INSERT INTO {name} SELECT col1, CAST(col2 AS TIMESTAMP), col3, col4 FROM VALUES {rows}")
    return name


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[str]:
    """A schema with tables that no test changes."""
    spark.sql("CREATE SCHEMA as_of_history")
    yield "as_of_history"
    spark.sql("DROP SCHEMA as_of_history CASCADE")


@pytest.fixture(scope="module")
def prices(spark: SparkSession, tables: str) -> str:
    return declared(spark, f"{tables}.prices")


@pytest.fixture(scope="module")
def stock(spark: SparkSession, tables: str) -> str:
    """A plain table with a feed: version 1 inserts a and b, 2 changes a, 3 deletes b, 4 inserts b again."""
    name = f"{tables}.stock"
    spark.sql(f"CREATE TABLE {name} (k STRING, n INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for statement in (
        "INSERT INTO {} VALUES ('a', 1), ('b', 10)", "UPDATE {} SET n = 2 WHERE k = 'a'", "DELETE FROM {} WHERE k = 'b'", "INSERT INTO {} VALUES ('b', 11)",
    ):  # fmt: skip
        spark.sql(statement.format(name))
    return name


def asked(spark: SparkSession, text: str) -> list[tuple[object, ...]]:
    return [tuple(r) for r in spark.sql(text).collect()]


def test_a_versioned_table_is_looked_up_by_event_time(spark: SparkSession, schema: str) -> None:
    prices = declared(spark, f"{schema}.prices")
    for as_of in ("FOR SYSTEM_TIME AS OF e.ts p", "TIMESTAMP AS OF ts AS p"):
        found = asked(spark, f"SELECT e.n, p.price FROM {EVENTS} e LEFT JOIN {prices} {as_of} ON e.k = p.k ORDER BY n")
        assert found == [(1, None), (2, 1), (3, None)]
    spark.sql(f"INSERT INTO {prices} VALUES ('a', TIMESTAMP '2024-01-01', 0, false)")
    inner = f"SELECT n, price FROM {EVENTS} e JOIN {prices} FOR SYSTEM_TIME AS OF e.ts USING (k) ORDER BY n"
    assert asked(spark, inner) == [(1, 0), (2, 1)]


def test_versions_pass_through_views_and_end_at_joins(spark: SparkSession, prices: str, schema: str) -> None:
    spark.sql(f"CREATE VIEW {schema}.dear AS SELECT k, ts, gone, price * 100 AS cents FROM {prices}")
    text = f"SELECT n, cents FROM {EVENTS} e JOIN {{}} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k ORDER BY n"
    assert asked(spark, text.format(f"{schema}.dear")) == [(2, 100)]
    spark.sql(f"CREATE VIEW {schema}.both AS SELECT l.k, l.ts, l.gone, 1 AS cents FROM {prices} l JOIN {prices} r ON l.k = r.k")
    with pytest.raises(AnalysisException, match="is a view, and a view has no versions of its own"):
        spark.sql(text.format(f"{schema}.both"))


def test_a_versioned_table_by_clauses_has_its_tombstones(spark: SparkSession, prices: str, schema: str) -> None:
    text = f"SELECT n, price FROM AS_OF_JOIN(TABLE{EVENTS} PARTITION BY k ORDER BY ts, TABLE({{}}) PARTITION BY k ORDER BY ts) ORDER BY n"
    assert asked(spark, text.format(f"SELECT * FROM {prices} WHERE k < 'c'")) == [(2, 1)]
    copied = f"SELECT k, ts, max(price) AS price FROM {prices} GROUP BY ALL"
    assert asked(spark, text.format(copied)) == [(2, 1), (3, None)]  # an aggregate is no table of versions (V8)
    with pytest.raises(AnalysisException, match="`deleted` of the right side: no column `gone`"):
        spark.sql(text.format(f"SELECT k, ts, price FROM {prices}"))


def test_any_other_table_is_looked_up_by_commit(spark: SparkSession, stock: str) -> None:
    times = {r.version: r.timestamp for r in spark.sql(f"DESCRIBE HISTORY {stock}").collect()}
    asks = [(v, k, v, times[v] + datetime.timedelta(milliseconds=ms)) for v in times for k in "ab" for ms in (-1, 0)]
    spark.createDataFrame(asks, "n INT, k STRING, v INT, ts TIMESTAMP").createOrReplaceTempView("asks")
    after = {(1, "a"): 1, (1, "b"): 10, (2, "a"): 2, (2, "b"): 10, (3, "a"): 2, (3, "b"): None, (4, "a"): 2, (4, "b"): 11}
    expected = sorted((v, k, at == times[v], after.get((v, k)) if at == times[v] else after.get((v - 1, k))) for v, k, _, at in asks)
    text = f"SELECT a.n, a.k, ts, s.n FROM asks a LEFT JOIN {stock} FOR SYSTEM_TIME AS OF a.ts s ON a.k = s.k"
    assert sorted(((v, k, at == times[v], n) for v, k, at, n in asked(spark, text)), key=str) == sorted(expected, key=str)
    text = f"SELECT DISTINCT a.v, a.k, s.n FROM asks a LEFT JOIN {stock} VERSION AS OF a.v s ON s.k = a.k"
    assert sorted(asked(spark, text), key=str) == sorted(((v, k, after.get((v, k))) for v in times for k in "ab"), key=str)


def test_conditions_beside_the_key_apply_after_the_version_is_picked(spark: SparkSession, prices: str) -> None:
    text = f"SELECT n, price FROM {EVENTS} e {{}} JOIN {prices} FOR SYSTEM_TIME AS OF e.ts + INTERVAL 1 DAY p ON e.k = p.k AND price > e.n ORDER BY n"
    assert asked(spark, text.format("")) == []
    assert asked(spark, text.format("LEFT")) == [(1, None), (2, None), (3, None)]
    assert asked(spark, text.format("").replace("> e.n", "= e.n")) == [(1, 1), (2, 2)]


def test_a_column_of_the_table_may_be_compared_with_a_constant(spark: SparkSession, stock: str, tables: str) -> None:
    """It is part of the key where it says which row is meant; what is said of the left side, or computed, is a condition like any other."""
    text = f"SELECT e.n, s.n FROM {EVENTS} e LEFT JOIN {stock} VERSION AS OF e.n s ON e.k = s.k AND {{}} ORDER BY e.n"
    assert asked(spark, text.format("s.n = 2")) == [(1, None), (2, 2), (3, None)]
    assert asked(spark, text.format("e.n = 1 AND length(s.k) = 1")) == [(1, 1), (2, None), (3, None)]
    spark.sql(
        f"CREATE TABLE {tables}.rates (k STRING, currency STRING, ts TIMESTAMP, price INT) USING delta "
        "TBLPROPERTIES ('streamtime.key' = 'k, currency', 'streamtime.time' = 'ts')"
    )
    spark.sql(f"INSERT INTO {tables}.rates VALUES ('a', 'EUR', TIMESTAMP '2024-01-01', 1), ('a', 'USD', TIMESTAMP '2024-01-02', 2)")
    text = f"SELECT n, price FROM {EVENTS} e JOIN {tables}.rates FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k AND p.currency = 'EUR' AND {{}} ORDER BY n"
    assert asked(spark, text.format("p.price = 1")) == [(1, 1), (2, 1)]
    assert asked(spark, text.format("e.n = 2")) == [(2, 1)]


def test_several_joins_in_one_query_and_in_a_view(spark: SparkSession, prices: str, stock: str, schema: str) -> None:
    text = (
        f"SELECT e.n, p.price, s.n AS stock FROM {EVENTS} e JOIN {prices} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k "
        f"LEFT JOIN {stock} VERSION AS OF e.n s ON s.k = p.k"
    )
    assert asked(spark, text) == [(2, 1, 2)]
    spark.sql(f"CREATE VIEW {schema}.seen AS {text}")
    assert asked(spark, f"SELECT * FROM {schema}.seen") == [(2, 1, 2)]


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("JOIN {prices} FOR SYSTEM_TIME AS OF e.ts p ON e.n = p.price", "kept by `k`, and `k` is not compared"),
        ("JOIN {prices} VERSION AS OF e.n p ON e.k = p.k", "counts commits, and .*prices.* is versioned by event time"),
        (
            "LEFT JOIN {plain} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k",
            r"`history`: the table .* has no change data feed.*Write LEFT ASOF JOIN \S+\.plain p MATCH_CONDITION \(e.ts >= p.ts\) ON e.k = p.k"
            r", over any table; or, in Delta, declare its versions: ALTER TABLE \S+\.plain SET TBLPROPERTIES "
            r"\('streamtime.key' = 'k', 'streamtime.time' = 'ts'\)",
        ),
        ("JOIN {plain} VERSION AS OF e.n p ON e.k = p.k", "AS_OF_JOIN, `history`: .*delta.enableChangeDataFeed"),
        (
            "JOIN files FOR SYSTEM_TIME AS OF e.ts ON e.k = files.`the k`",
            r"`files` is a view.*Write ASOF JOIN files MATCH_CONDITION \(e.ts >= files.`at o'clock`\) ON e.k = files.`the k`, .*"
            r"'streamtime.key' = '`the k`', 'streamtime.time' = '`at o\\'clock`'",
        ),
        (
            "JOIN files AS `f.``x` FOR SYSTEM_TIME AS OF e.ts ON e.k = `f.``x`.`k.``x`",
            r"Write ASOF JOIN files `f.``x` MATCH_CONDITION \(e.ts >= `f.``x`.`at o'clock`\) ON e.k = `f.``x`.`k.``x`, .*'`k.``x`'",
        ),
        (
            "JOIN {csv} FOR SYSTEM_TIME AS OF e.ts USING (k)",
            r"is not a Delta table. Write ASOF JOIN \S+csv MATCH_CONDITION \(e.ts >= csv.day\) USING \(k\)",
        ),
        ("JOIN {stock} FOR SYSTEM_TIME AS OF e.ts p ON lower(e.k) = lower(p.k)", "expected a column of .*stock as key"),
        ("JOIN {stock} FOR SYSTEM_TIME AS OF e.ts p ON k = p.k", "`k` is ambiguous"),
        ("JOIN {stock} FOR SYSTEM_TIME AS OF e.nothing p ON e.k = p.k", r"AS OF \(`at`\): no column `e.nothing`"),
        ("JOIN {stock} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.kk", "`on`: no column `p.kk` on either side. Did you mean `k`"),
        (
            "JOIN {stock} FOR SYSTEM_TIME AS OF CAST(e.ts AS DATE) p ON e.k = p.k",
            "`at`.*: the times have different types.*declares no event time.*or declare its own: ALTER TABLE .*stock SET TBLPROPERTIES",
        ),
        (
            "JOIN {stock} FOR SYSTEM_TIME AS OF e.n p ON e.k = p.k",
            "expected TIMESTAMP, TIMESTAMP_NTZ or DATE .*Name a time of the left side",
        ),
        *(
            (
                f"JOIN {{stock}} VERSION AS OF {at} p ON e.k = p.k",
                rf"VERSION AS OF: expected the number of a commit, got {kind} .*Use TIMESTAMP AS OF",
            )
            for at, kind in (("e.ts", "TIMESTAMP"), ("e.n / 1", "DOUBLE"), ("e.n > 1", "BOOLEAN"), ("e.k", "STRING"))
        ),
    ],
)
def test_what_cannot_be_looked_up_is_said_in_words(
    spark: SparkSession, prices: str, stock: str, tables: str, join: str, message: str
) -> None:
    spark.sql(f"CREATE TABLE IF NOT EXISTS {tables}.plain (k STRING, n INT) USING delta")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {tables}.csv (k STRING, day DATE) USING csv")
    spark.sql("SELECT 'a' AS `the k`, now() AS `at o'clock`, 'a' AS `k.``x`").createOrReplaceTempView("files")
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"SELECT * FROM {EVENTS} e {join.format(prices=prices, stock=stock, plain=tables + '.plain', csv=tables + '.csv')}")


@pytest.mark.parametrize("name", ["prices", "stock", "free"])
def test_a_query_of_with_has_no_history(spark: SparkSession, prices: str, stock: str, tables: str, name: str) -> None:
    """Though a table has its name, which it reads; that table is another one by its full name, whatever the query is called."""
    of = f"{tables}.{'stock' if name == 'stock' else 'prices'}"
    text = f"WITH {name.upper()} AS (SELECT * FROM {of} WHERE k = 'b') SELECT e.n FROM {EVENTS} e LEFT JOIN {{}} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k"
    current = spark.catalog.currentDatabase()
    spark.sql(f"USE {tables}")
    try:
        for run in (spark.sql, lambda text: streamtime.query(spark, text)):
            with pytest.raises(
                (AnalysisException, streamtime.CallError), match=rf"`history`: `?{name}`? is a query of WITH here, not a table. Write ASOF"
            ):
                run(text.format(f"`{name}`" if name == "free" else name)).collect()
            assert run(text.format(of)).count() == 3
        by_price = text.replace("SELECT e.n FROM", "SELECT e.n, p.price FROM").format(f"{tables}.prices")
        assert sorted(map(tuple, streamtime.query(spark, by_price).collect())) == [(1, None), (2, 1), (3, None)]
    finally:
        spark.sql(f"USE {current}")


def test_a_time_before_the_first_commit_has_a_reason_of_its_own(spark: SparkSession, stock: str) -> None:
    call = f"AS_OF_JOIN(TABLE{EVENTS}, TABLE({stock}), using => ARRAY('k'), history => '{stock}', at => '{{}}', output => 'dropped' {{}})"
    before = [(n, "before_history") for n in (1, 2, 3)]
    cases = (("ts", "", before), ("n - 3", ", unit => 'version'", [*before[:2], (3, "no_match")]), ("ts + INTERVAL 1000000 DAYS", "", []))
    for at, unit, expected in cases:
        assert asked(spark, f"SELECT n, reason FROM {call.format(at, unit)} ORDER BY n") == expected, at


def test_rows_that_a_commit_wrote_together_lead_to_event_times(spark: SparkSession, schema: str) -> None:
    t = f"{schema}.loads"
    spark.sql(f"CREATE TABLE {t} (k STRING, at TIMESTAMP, price INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"INSERT INTO {t} VALUES ('a', TIMESTAMP '2024-01-01', 1), ('a', TIMESTAMP '2024-01-02', 2)")
    joined = spark.sql(f"SELECT n, price FROM {EVENTS} e JOIN {t} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k")
    message = (
        r"wrote 2 rows of the key k = a: one is expected. The times of its commits are asked, since it declares no event time. "
        rf"Write ASOF JOIN {t} p MATCH_CONDITION \(e.ts >= p.at\) ON e.k = p.k, over any table; or, in Delta, declare its versions: (.*)\."
    )
    with pytest.raises(SparkRuntimeException, match=message) as caught:
        joined.collect()
    found = re.search(message, str(caught.value))
    assert found is not None
    spark.sql(found[1])
    again = f"SELECT n, price FROM {EVENTS} e JOIN {t} FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k ORDER BY n"
    assert asked(spark, again) == [(1, 1), (2, 2)]
    written = f"SELECT n, price FROM {EVENTS} e ASOF JOIN {t} p MATCH_CONDITION (e.ts >= p.at) ON e.k = p.k ORDER BY n"
    assert asked(spark, written) == [(1, 1), (2, 2)]
