"""`streamtime.expectations`: each sentence holds of what keeps it and names what breaks it, with the SQL of the dbt package's tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtime import CallError, expectations
from streamtime.expectations import every_row_accounted_for, no_duplicates_within, one_final_row_per_window, versions_do_not_overlap

KEY = "`kéy {1}`"  # braces are Great Expectations', too
CLICKS = f"""VALUES
  ('a', TIMESTAMP '2024-01-01 10:00:00', 1), ('a', TIMESTAMP '2024-01-01 10:05:00', 2), ('a', TIMESTAMP '2024-01-01 10:10:00.000001', 3),
  (NULL, TIMESTAMP '2024-01-01 10:00:00', 4), (NULL, TIMESTAMP '2024-01-01 10:00:00', 5), ('b', NULL, 6), ('a', TIMESTAMP '0001-01-01 00:00:00', 7),
  ('a', TIMESTAMP '9999-12-31 23:59:59', 8) AS clicks({KEY}, ts, id)"""
ONCE = f"DEDUPLICATE(TABLE(clicks) PARTITION BY {KEY} ORDER BY ts, within => INTERVAL 10 MINUTES)"
WINDOWS = "VALUES (1, 'a', 0, 10), (2, 'a', 10, 20), (3, NULL, 0, 10) AS w(n, k, window_start, window_end)"
VERSIONS = "VALUES ('a', 1, 3), ('a', 3, NULL), (NULL, 1, 2), ('b', 1, 2), ('b', 5, NULL) AS v(k, valid_from, valid_to)"


def test_what_holds_holds_and_what_does_not_is_counted(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.sql(f"USE {schema}")
    tables = {
        "clicks": CLICKS,
        "once": f"SELECT * FROM {ONCE}",
        "twice": f"SELECT * FROM {ONCE} UNION ALL SELECT * FROM clicks WHERE id IN (2, 4)",
        "none": "SELECT * FROM clicks WHERE false",
        "windows": WINDOWS,
        "corrected": f"SELECT * FROM ({WINDOWS}) UNION ALL SELECT 4, NULL, 0, 10",
        "versions": VERSIONS,
        "overlap": f"SELECT * FROM ({VERSIONS}) UNION ALL SELECT 'b', 1, 4 UNION ALL SELECT 'c', 2, 2 UNION ALL SELECT 'd', NULL, 2",
    }
    for name, query in tables.items():
        spark.sql(f"CREATE TEMP VIEW {name} AS {query}")
    of_call = expectations.of_call(spark, f"SELECT * FROM {ONCE};")
    windows, versions = one_final_row_per_window("k"), versions_do_not_overlap("k")
    expected = {
        **dict.fromkeys(("once", "twice", "none"), of_call),
        **{name: [windows, one_final_row_per_window(["k", "n"])] for name in ("windows", "corrected")},
        **{name: [versions] for name in ("versions", "overlap")},
        "clicks": [no_duplicates_within("nothing", "ts")],
    }
    kept = spark.table("once").count()
    assert kept > 3
    spark.sql("CREATE TEMP VIEW tmp_view AS SELECT 'mine' AS v")  # as Great Expectations calls one of its own
    for table, one in {"Tmp_View": windows, "once": every_row_accounted_for("`tmp_view`", "v", "dropped")}.items():
        with pytest.raises(CallError, match=f"what is expected of {table} reads `tmp_view`, .* Give yours another name"):
            expectations.validate(spark, {table: [one]})
    found = expectations.validate(spark, expected, tmp_path)
    assert spark.table("tmp_view").collect() == [("mine",)]
    assert [(f.table, f.holds, f.unexpected) for f in found] == [
        ("once", True, 0), ("once", True, 0),
        ("twice", False, 2), ("twice", False, 2),
        ("none", True, 0), ("none", False, kept),
        ("windows", True, 0), ("windows", True, 0), ("corrected", False, 1), ("corrected", True, 0),
        ("versions", True, 0), ("overlap", False, 3), ("clicks", False, None),
    ]  # fmt: skip
    assert {f.says for f in found if f.table == "once"} == {
        f"no two rows of {KEY} lie within 10 minutes",
        "each row of clicks came out or was dropped, and no other did",
    }
    assert "each nothing has one row: " in found[-1].says
    assert "UNRESOLVED_COLUMN" in found[-1].says
    index = (tmp_path / "index.html").read_text()
    assert all(name in index for name in expected)


INNER = "TABLE(SELECT * FROM clicks) PARTITION BY id ORDER BY ts"
ASKED = {
    f"DEDUPLICATE({INNER})": ["each id has one row", "each row of the input came out or was dropped, and no other did"],
    f"DEDUPLICATE({INNER}, keep => 'last')": ["each row of the input came out or was dropped, and no other did"],
    f"DEDUPLICATE({INNER.replace('ORDER BY ts', 'ORDER BY id')}, time => 'ts', within => INTERVAL '1' DAY)": [
        "each row of the input came out or was dropped, and no other did"
    ],
    "DEDUPLICATE(TABLE(clicks), keys => ARRAY('id'), order_by => ARRAY('ts DESC'), KEEP => 'FIRST')": [
        "each row of clicks came out or was dropped, and no other did"
    ],
    f"SESSIONIZE({INNER}, gap => INTERVAL 1 HOUR)": ["each row of the input came out or was dropped, and no other did"],
    f"DISTINCT_IN_WINDOW({INNER}, size => INTERVAL 1 HOUR)": [
        "each window of id has one row", "each row of the input came out or was dropped, and no other did"
    ],
    f"SELECT * FROM WINDOW_UPDATES({INNER}, size => INTERVAL 1 HOUR, aggregates => 'count(*) AS n', emit => 'final')": ["each window of id has one row"],
    f"SESSION_UPDATES({INNER}, gap => INTERVAL 1 HOUR, aggregates => 'count(*) AS n', emit => 'final')": ["each window of id has one row"],
    f"DISTINCT_IN_WINDOW({INNER}, size => INTERVAL 1 HOUR, slide => INTERVAL 10 MINUTES)": ["each window of id has one row"],
    f"DEDUPLICATE({INNER}, offset => 'id')": ["each row of the input came out or was dropped, and no other did"],
    f"SUPPRESS_UNTIL_CLOSE({INNER}, window_end => 'ts')": ["each window of id has one row"],
    f"VERSIONS({INNER})": ["the versions of each id do not overlap"],
    "VERSIONS(TABLE(clicks) ORDER BY clicks.ts)": ["the versions do not overlap"],
    f"DEDUPLICATE(TABLE(clicks) PARTITION BY (clicks.{KEY}, id + 1) ORDER BY clicks.ts, OUTPUT => 'rows')": [
        f"each {KEY}, id + 1 has one row", "each row of clicks came out or was dropped, and no other did"
    ],
    "DEDUPLICATE(TABLE(SELECT id, ts, map(1, 2) AS m FROM clicks) ORDER BY ts, within => INTERVAL 1 HOUR)": [
        "no two rows lie within 1 hour", "each row of the input came out or was dropped, and no other did"
    ],
    "DEDUPLICATE(TABLE(SELECT id, ts, id = 1 AS uuid FROM clicks) ORDER BY ts)": [
        "there is one row", "each row of the input came out or was dropped, and no other did"
    ],
    **{
        f"DEDUPLICATE(TABLE(SELECT id, ts, {new} FROM clicks) PARTITION BY id ORDER BY ts)": ["each id has one row"]
        for new in ("Current_Timestamp AS now", "uuid() AS `a b`", "rand( ) > 0.5 AS a", "localtimestamp() AS l", "now() AS n")
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def clicked(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.sql(f"CREATE TEMP VIEW clicks AS {CLICKS}")
    return session


@pytest.mark.parametrize("text", ASKED)
def test_a_call_says_what_must_hold_of_its_result(clicked: SparkSession, text: str) -> None:
    expected = expectations.of_call(clicked, text)
    assert [e.description for e in expected] == ASKED[text]
    call = text.removeprefix("SELECT * FROM ")
    for e in expected:  # each can be asked of the result, and holds
        assert clicked.sql(e.unexpected_rows_query.format(batch=f"(SELECT * FROM {call})")).collect() == [], e.description


WRONG = {
    "": "expected one call of the pack",
    "SELECT 1": "expected one call of the pack",
    f"SELECT id FROM DEDUPLICATE({INNER})": "expected one call of the pack",
    f"SELECT * FROM DEDUPLICATE({INNER}) WHERE id > 1": "expected one call of the pack",
    f"DEDUPLICATE({INNER}, output => 'dropped')": "nothing is known that must hold of this call of DEDUPLICATE",
    f"SUPPRESS_UNTIL_CLOSE({INNER}, window_end => 'ts', UNTIL => 'END')": "nothing is known that must hold of this call of SUPPRESS_UNTIL_CLOSE",
    "DEDUPLICATE(TABLE(clicks) PARTITION BY id)": "ORDER BY: is missing",
    "DEDUPLICATE(TABLE(clicks) PARTITION BY id, ts ORDER BY ts)": "expectations: The table function call includes a table argument with an invalid partitioning",
    "SELECT * FROM DEDUPLICATE(TABLE clicks)": "expectations: [",
    f"DEDUPLICATE({INNER}, keep => NULL)": "DEDUPLICATE, `keep`: expected a constant",
    f"DEDUPLICATE({INNER}, output => 5)": "DEDUPLICATE, `output`: expected one of",
    f"DEDUPLICATE({INNER}, within => nix)": "expectations: [UNRESOLVED_COLUMN",
    "DEDUPLICATE(TABLE(SELECT *, uuid() AS u FROM clicks) PARTITION BY id ORDER BY ts DESC)": "nothing is known that must hold",
    f"WINDOW_UPDATES({INNER}, size => INTERVAL 1 HOUR, aggregates => 'count(*) AS n')": "nothing is known that must hold of this call of WINDOW_UPDATES",
}


def test_of_anything_but_one_call_that_is_known_an_error_says_why_nothing_must_hold(clicked: SparkSession) -> None:
    for text, problem in WRONG.items():
        with pytest.raises(CallError, match=re.escape(problem)):
            expectations.of_call(clicked, text)


def test_names_with_braces_are_no_parameters() -> None:
    made = every_row_accounted_for("t", KEY, ["(SELECT 1)", "d"])
    assert made.unexpected_rows_query.format(batch="batch").count(KEY) == 4
    assert "'1 hour'" in no_duplicates_within(KEY, "ts", "1 hour").unexpected_rows_query


@pytest.mark.parametrize("kind", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE"])
def test_a_day_has_24_hours_whatever_the_clocks_do(spark: SparkSession, kind: str) -> None:
    """Moments and days that lie a microsecond more than a day apart, or a day, over the end of summer time in Berlin, and at both ends of time."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    for last, against in (("2024-10-27 12:00:00", 1), ("2024-10-27 12:00:00.000001", 0)):
        zone, times = ("Z" if kind == "TIMESTAMP_LTZ" else ""), ["2024-10-26 12:00:00", last, "0001-01-03 00:00:00", "9999-12-31 00:00:00"]
        if kind == "DATE":
            times, against = [t[:10] for t in times], 1
        rows = ", ".join(f"('a', {kind} '{t}{zone}')" for t in times)
        expected = no_duplicates_within("k", "ts", "1 day")
        found = spark.sql(expected.unexpected_rows_query.format(batch=f"(VALUES {rows} AS v(k, ts))")).collect()
        assert len(found) == against, (last, found)
