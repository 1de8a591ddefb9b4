"""What a picture asks of a call: which columns are the output's own, which versions a lookup needs, whose lane a row is in, and what goes along."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import streamtime
from streamtime.pictures.asking import Asked, asked, last_statement
from streamtime.pictures.plotting import pictured
from streamtime.pictures.seeing import Limits, of_frame

DAY = 86_400_000_000


def test_a_lookup_knows_versions_that_are_old_or_many(spark: SparkSession, schema: str) -> None:
    """Rows of one hour; their version began years before, and a hundred others came after it, and after them."""
    spark.sql(f"CREATE TABLE {schema}.p (k STRING, ts TIMESTAMP, gone BOOLEAN) USING delta TBLPROPERTIES "
              "('streamtime.key' = 'k', 'streamtime.time' = 'ts', 'streamtime.deleted' = 'gone')")  # fmt: skip
    later = "SELECT 'a', timestamp_seconds(86400 * 9000 + id), false FROM range(100)"
    spark.sql(f"INSERT INTO {schema}.p VALUES ('a', timestamp_seconds(5), false), ('b', timestamp_seconds(5), true) UNION ALL {later}")
    events = (
        "(SELECT k, timestamp_seconds(86400L * n + 50) AS ts FROM VALUES ('a', 8000), ('a', 9000), ('a', 9001), ('b', 8000) AS e(k, n)) e"
    )
    for join in (
        f"LEFT JOIN {schema}.p FOR SYSTEM_TIME AS OF e.ts p ON e.k = p.k",
        f"LEFT ASOF JOIN {schema}.p p MATCH_CONDITION (e.ts >= p.ts) ON e.k = p.k",
    ):
        given = asked(Asked(spark, f"SELECT * FROM {events} {join}"), Limits(rows=3))
        matches = [(r.lane, None if r.times["match_at"] is None else r.times["match_at"] // 1_000_000) for r in given.rows]
        assert sorted(matches, key=str) == [("a", 5), ("a", 86400 * 9000 + 50), ("a", 86400 * 9000 + 99), ("b", None)], join
        drawn = {v.at // 1_000_000: v for v in given.versions if v.lane == "a"}
        assert {5, 86400 * 9000 + 50, 86400 * 9000 + 99} <= drawn.keys(), join
        assert drawn[86400 * 9000 + 50].until == (86400 * 9000 + 51) * 1_000_000, "it ends where the next begins, drawn or not"
        assert len(drawn) <= 6


WORDS = "kept_time, session_start, window_start, decided_at, valid_from, stream_time, reason"


def test_columns_of_an_input_are_none_of_the_output_whatever_their_names(spark: SparkSession) -> None:
    rows = f"TABLE(SELECT * FROM VALUES (1, TIMESTAMP '2024-05-01 10:00:00', 7{', NULL' * 7}) AS v(k, ts, outcome, {WORDS}))"
    lookup = f"AS_OF_JOIN({rows} PARTITION BY k ORDER BY ts, {rows} PARTITION BY k ORDER BY ts)"
    (row,) = asked(Asked(spark, f"SELECT * FROM {lookup}")).rows
    assert (row.outcome, row.times) == (None, {"match_at": row.at})
    one, other = (f"TABLE(SELECT 1 AS {k}, TIMESTAMP '2024-05-01 10:00:00' AS ts, {n} AS {name}) PARTITION BY {k} ORDER BY ts"
                  for k, n, name in (("a", "DATE '2024-01-01'", "kept_time"), ("b", "TIMESTAMP '2024-01-01 00:00:00'", "window_start")))  # fmt: skip
    given = asked(Asked(spark, f"SELECT * FROM JOIN_CHANGES({one}, {other})"))
    assert {name for r in given.rows for name in r.times} == set()
    assert all(isinstance(r.outcome, str) for r in given.rows)
    df = spark.sql("SELECT TIMESTAMP '2024-05-01 10:00:00' AS ts, 5 AS outcome, 'x' AS window_start, 1 AS stream_time")
    (row,) = of_frame(df).rows
    assert (row.outcome, row.clock, row.times, len(row.cells)) == (None, None, {}, 4)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"])
def test_the_zone_is_that_of_the_event_time_alone(spark: SparkSession, kind: str) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "PST")
    df = spark.sql(f"SELECT {kind} '2024-05-01' AS ts, TIMESTAMP_LTZ '2024-01-01 00:00:00' AS seen")
    df.createOrReplaceTempView("t")
    call = "SELECT * FROM DEDUPLICATE(TABLE(t) PARTITION BY seen ORDER BY ts)"
    zone = "PST" if kind == "TIMESTAMP_LTZ" else "UTC"
    for given in (of_frame(df, time="ts"), asked(Asked(spark, call))):
        assert (given.zone, given.rows[0].at) == (zone, 1_714_521_600_000_000 + (7 * 3_600_000_000 if zone == "PST" else 0))


def test_a_history_has_a_lane_for_each_key_and_no_windows(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.h (n INT, `k 1` STRING, window_start TIMESTAMP, k2 INT) USING delta TBLPROPERTIES "
              "(delta.enableChangeDataFeed = true, delta.columnMapping.mode = 'name', 'streamtime.key' = '`k 1`, K2')")  # fmt: skip
    spark.sql(f"INSERT INTO {schema}.h VALUES (1, 'a', TIMESTAMP '2024-01-01 00:00:00', 5), (1, 'b', NULL, 5)")
    given = asked(Asked(spark, f"SELECT * FROM TABLE_HISTORY('{schema}.h')"))
    assert {r.lane for r in given.rows} == {"a, 5", "b, 5"}
    assert {name for r in given.rows for name in r.times} == {"valid_from", "valid_to"}
    given = asked(Asked(spark, f"SELECT * FROM TABLE_HISTORY('{schema}.h', keys => ARRAY('`K 1`'))"))
    assert {r.lane for r in given.rows} == {"a", "b"}


def test_equal_keys_have_one_lane(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW names AS SELECT collate(k, 'UTF8_LCASE') AS k, d, timestamp_seconds(n) AS ts FROM VALUES "
              "('Ann', 0.0D, 1), ('ann', -0.0D, 2), ('bob', double('NaN'), 3), (NULL, NULL, 4) AS v(k, d, n)")  # fmt: skip
    rows = "TABLE(names) PARTITION BY (k, d) ORDER BY ts"
    given = asked(Asked(spark, f"SELECT * FROM DEDUPLICATE({rows})"))
    assert Counter(r.lane for r in given.rows) == {"ann, 0.0": 2, "bob, NaN": 1, "NULL, NULL": 1}
    assert Counter(r.lane for r in of_frame(spark.table("names"), ["k", "d"]).rows) == Counter(r.lane for r in given.rows)
    given = asked(
        Asked(
            spark, f"SELECT * FROM AS_OF_JOIN({rows}, TABLE(SELECT * FROM names WHERE d = 0 OR k = 'BOB') PARTITION BY (k, d) ORDER BY ts)"
        )
    )
    assert Counter(v.lane for v in given.versions) == {"ann, 0.0": 2, "bob, NaN": 1}


@pytest.mark.parametrize(("mark", "args"), [(":{}", {"who": "b", "n": 3, "other": 1}), ("?", [3, "b", timedelta(minutes=1)])])
def test_parameters_go_along(spark: SparkSession, mark: str, args: Any) -> None:
    if isinstance(args, dict):
        args = args | {"within": timedelta(minutes=1)}
    n, who, within = (mark.format(name) for name in ("n", "who", "within"))
    text = f"""SELECT {n};
        SELECT * FROM DEDUPLICATE(TABLE(SELECT {who} AS k, timestamp_seconds(30 * id) AS ts FROM range(3)) PARTITION BY k ORDER BY ts, within => {within})"""
    last, rest = last_statement(spark, text, args)
    given = asked(Asked(spark, last, args=rest))
    assert [(r.lane, r.outcome) for r in given.rows] == [("b", None), ("b", "duplicate"), ("b", "duplicate")]
    assert given.title.startswith("DEDUPLICATE: within 1 minute")


def test_arguments_that_do_not_fit_are_said(spark: SparkSession) -> None:
    df = spark.sql("SELECT 1 AS user_id, TIMESTAMP '2024-05-01 10:00:00' AS ts, TIMESTAMP '2024-05-01 10:00:00' AS window_start")
    assert streamtime.plot(df, keys="user_id", time="ts", options={"grace": timedelta(minutes=1), "keep": "last", "gap": None})
    call = "SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, current_timestamp() AS ts) PARTITION BY k ORDER BY ts)"
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (df, {"rows": 0}, "plot, `rows`: expected a whole number above zero, got 0."),
        (df, {"lanes": True}, "plot, `lanes`: expected a whole number above zero, got True."),
        (df, {"options": {"within": "1"}}, "plot, `options`: expected a timedelta or microseconds for `within`, got '1'."),
        (df, {"options": {"graze": 1}}, "plot, `options`: Did you mean `grace`?, got `graze`."),
        (df, {"call": 1}, "plot, `call`: goes with a text, not with a DataFrame. Leave it out."),
        (df, {"args": {"a": 1}}, "plot, `args`: goes with a text"),
        (spark, {"text": call, "keys": "k"}, "plot, `keys`: goes with a DataFrame: a text has a call, which says it. Leave it out."),
        (spark, {"text": call, "time": "ts"}, "plot, `time`: goes with a DataFrame"),
        (spark, {"text": call, "options": {"within": 1}}, "plot, `options`: goes with a DataFrame"),
    ]
    for source, given, said in wrong:
        with pytest.raises(ValueError, match=rf"^{said.replace('?', '.').replace('(', '.')}"):
            streamtime.plot(source, **given)


def test_a_field_that_is_time_and_order_is_one(spark: SparkSession) -> None:
    made = {
        order: pictured(spark, f"SELECT * FROM DEDUPLICATE(TABLE(SELECT struct(id AS n, timestamp_seconds(id) AS ts) AS m FROM range(2)) ORDER BY {order}, "
                               "time => 'm.ts', within => INTERVAL 1 SECOND)").picture
        for order in ("m.n", "m.ts", "m.ts DESC")
    }  # fmt: skip
    pale = {order: any(b.opens is not None for b in p.bars) for order, p in made.items()}
    assert pale == {"m.n": True, "m.ts": False, "m.ts DESC": True}
