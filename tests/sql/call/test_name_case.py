"""Names that differ in case are what the session says: one name as a rule, different ones where `spark.sql.caseSensitive` is true."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import streamtime
from streamtime.sql.call.names import Names, parts, plain

T = """SELECT id % 2 AS k, id % 3 AS K, timestamp_seconds(id) AS ts, id AS v, -id AS V, id = 4 AS gone, id = 5 AS Gone,
  'delete' AS Change_Type, timestamp_seconds(0) AS Window_Close, 'mine' AS Reason FROM range(6)"""
# what is computed, from what, and what it is: in a session that is case sensitive
DIFFERENT = (
    ("count(*)", "DEDUPLICATE(TABLE(t) PARTITION BY k ORDER BY ts)", "2"),
    ("count(*)", "DEDUPLICATE(TABLE(t) PARTITION BY K ORDER BY ts, within => INTERVAL 1 DAY)", "3"),
    ("count(*)", "DEDUPLICATE(TABLE(t), keys => ARRAY('k', 'K'), order_by => ARRAY('v'), time => 'ts')", "6"),
    ("count(DISTINCT Reason || reason)", "DEDUPLICATE(TABLE(t) PARTITION BY K ORDER BY ts, output => 'dropped')", "1"),
    ("max(s) - max(S)", "WINDOW_UPDATES(TABLE(t) PARTITION BY K ORDER BY ts, clock_by => ARRAY('k'), size => INTERVAL 1 DAY, "
     "aggregates => 'sum(v) AS s, sum(V) AS S, count(*) AS Window_Start', emit => 'final', at_end => 'emit')", "10"),
    ("max(s) - max(S)", "SESSION_UPDATES(TABLE(t) PARTITION BY (k, K) ORDER BY ts, gap => INTERVAL 1 DAY, aggregates => 'sum(v) AS s, sum(V) AS S')", "5"),
    ("count(*)", "SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY v ORDER BY ts, window_end => 'ts', deleted => 'Gone')", "5"),
    ("max(v)", "SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY v ORDER BY ts, window_end => 'ts', deleted => 'gone')", "5"),
    ("count(*)", "SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY v ORDER BY ts, window_end => 'ts')", "6"),
    ("count(*)", "VERSIONS(TABLE(t) PARTITION BY v ORDER BY ts)", "6"),
    ("sum(V)", "AS_OF_JOIN(TABLE(t), TABLE(SELECT k, Kk AS K, ts, V AS vv FROM u), using => ARRAY('K'), order_by => ARRAY('ts'))", "-15"),
    ("sum(l.v * r.V)", "AS_OF_JOIN(TABLE(SELECT * FROM t l), TABLE(SELECT * FROM u r), on => 'l.K = r.Kk', match => 'l.ts >= r.ts')", "55"),
    ("sum(L.v * l.V)", "AS_OF_JOIN(TABLE(SELECT * FROM t L), TABLE(SELECT * FROM u l), on => 'L.K = l.Kk AND L.v >= l.V', order_by => ARRAY('ts'))", "55"),
)  # fmt: skip
# and what is refused there
REFUSED = (
    ("DEDUPLICATE(TABLE(t) PARTITION BY TS ORDER BY ts)", "no column `TS` in the input. Did you mean `ts`"),
    ("DEDUPLICATE(TABLE(t) PARTITION BY KK ORDER BY ts)", "no column `KK` in the input. Did you mean `K`"),
    ("DEDUPLICATE(TABLE(t), order_by => ARRAY('Ts'))", "no column `Ts` in the input. Did you mean `ts`"),
    ("AS_OF_JOIN(TABLE(t), TABLE(u), using => ARRAY('K'), order_by => ARRAY('ts'))", "no column `K` in the input"),
    ("SUPPRESS_UNTIL_CLOSE(TABLE(t) PARTITION BY v ORDER BY ts)", "the input has no column `window_close`"),
    ("AS_OF_JOIN(TABLE(t) PARTITION BY k ORDER BY (ts, v), TABLE(u) PARTITION BY k ORDER BY (ts, V), arrival => 'ts', clock_by => ARRAY('K'), retention => INTERVAL 1 DAY)",
     "`K` is not among the left side's keys"),
)  # fmt: skip
# what a session that is not says to names that differ in case, as ever
SAME = (
    ("DEDUPLICATE(TABLE(SELECT k, v AS K, ts FROM u) PARTITION BY k ORDER BY ts)", "column `k` is ambiguous"),
    ("DEDUPLICATE(TABLE(SELECT k, ts, Reason FROM u) PARTITION BY K ORDER BY TS, output => 'all')", "already has a column `Reason`, which this call adds"),
    ("WINDOW_UPDATES(TABLE(u) PARTITION BY K ORDER BY TS, size => INTERVAL 1 DAY, aggregates => 'sum(v) AS s, sum(V) AS S')", "two aggregates are named `s`"),
    ("WINDOW_UPDATES(TABLE(u) PARTITION BY K ORDER BY TS, size => INTERVAL 1 DAY, aggregates => 'sum(v) AS Window_Start')",
     "two columns of the result would be named `window_start`"),
)  # fmt: skip
FOUND = (
    ("count(*)", "DEDUPLICATE(TABLE(u), keys => ARRAY('K'), order_by => ARRAY('Ts'))", "2"),
    ("count(*)", "SUPPRESS_UNTIL_CLOSE(TABLE(u) PARTITION BY v ORDER BY ts, deleted => 'GONE')", "0"),
    (
        "sum(l.v)",
        "AS_OF_JOIN(TABLE(SELECT * FROM u l), TABLE(SELECT k AS K, TS FROM u), using => ARRAY('K'), order_by => ARRAY('TS'))",
        "15",
    ),
)


def ask(text: str) -> str:
    return f"SELECT * FROM {text}"


@pytest.fixture(scope="module")
def cased(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.sql(T).createOrReplaceTempView("t")
    session.sql("SELECT k, K AS Kk, ts, v AS V FROM t").createOrReplaceTempView("u")
    return session


@pytest.fixture(scope="module")
def uncased(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.sql(
        "SELECT id % 2 AS k, timestamp_seconds(id) AS ts, id AS v, id = 4 AS gone, 'delete' AS Change_Type, timestamp_seconds(9) AS Window_Close,"
        " 'mine' AS Reason FROM range(6)"
    ).createOrReplaceTempView("u")
    return session


def numbers(calls: tuple[tuple[str, str, str], ...]) -> str:
    return " UNION ALL ".join(f"SELECT {i} AS number, string({value}) AS found FROM {call}" for i, (value, call, _) in enumerate(calls))


def test_in_a_session_that_is_case_sensitive_names_that_differ_in_case_are_different(cased: SparkSession) -> None:
    for run in (cased.sql, lambda text: streamtime.query(cased, text)):
        found = dict(run(numbers(DIFFERENT)).collect())
        assert found == {i: expected for i, (_, _, expected) in enumerate(DIFFERENT)}
        for call, message in REFUSED:
            with pytest.raises(AnalysisException, match=re.escape(message)):
                run(ask(call))
    t, u = cased.table("t"), cased.table("u")
    assert streamtime.deduplicate(t, keys=["K"], order_by=["ts"]).count() == 3
    assert streamtime.as_of_join(t, u, on="K = Kk", match="t.ts >= u.ts").columns == [*t.columns, *u.columns]
    with pytest.raises(streamtime.CallError, match=r"no column `TS` in the input\. Did you mean `ts`"):
        streamtime.versions(t, keys=["k"], order_by=["TS"])


def test_in_any_other_session_they_are_one_name(uncased: SparkSession) -> None:
    for run in (uncased.sql, lambda text: streamtime.query(uncased, text)):
        found = dict(run(numbers(FOUND)).collect())
        assert found == {i: expected for i, (_, _, expected) in enumerate(FOUND)}
        for call, message in SAME:
            with pytest.raises(AnalysisException, match=re.escape(message)):
                run(ask(call))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("k", ["k"]), ("`k`", ["k"]), ("k.x", ["k", "x"]), ("`k.x`", ["k.x"]), ("`k`.`x`", ["k", "x"]), (" `a``b` ", ["a`b"]), ("1k", ["1k"]),
        ("` `", [" "]), ("t . `a.b``c`", ["t", "a.b`c"]), ("`a``", []), ("`a`b`", []), ("``", []), ("", []), ("a b", []), ("k + 1", []),
        ("1", []), ("1e3", []), ("2L", []), ("f(x)", []), (".k", []), ("k.", []),
    ],
)  # fmt: skip
def test_what_sql_text_names(text: str, names: list[str]) -> None:
    assert parts(text) == names
    assert plain(text) == (names[0] if len(names) == 1 else None)


class Session:
    """Counts how often it is asked."""

    def __init__(self, cased: str) -> None:
        self.conf, self.cased, self.asked = self, cased, 0

    def get(self, name: str, default: str) -> str:
        self.asked += 1
        assert name == "spark.sql.caseSensitive"
        return self.cased


def test_the_session_is_asked_only_where_it_matters_and_once() -> None:
    session = Session("true")
    names = Names(session)
    assert names.same("k", "k")
    assert not names.same("k", "l")
    assert names.twice(["a", "b", "b"]) == ["b", "b"]
    assert names.find("a", ["A", "a"]) == "a"
    assert session.asked == 0
    assert not names.same("k", "K")
    assert names.find("k", ["K"]) is None
    assert names.twice(["a", "A"]) == []
    assert session.asked == 1
    other = Names(Session("false"))
    assert other.find("k", ["K"]) == "K"
    assert other.among("k", ["K", "k", "l"]) == [0, 1]
    assert other.twice(["a", "b", "A"]) == ["a", "A"]
    assert Names().same("k", "K")
