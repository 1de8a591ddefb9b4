"""SET streamtime.views = plain: persistent views store plain SQL, which sessions without the pack read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import streamtime
from streamtime.statements import views
from streamtime.statements.views import is_persistent


@pytest.fixture
def clicks(spark: SparkSession, schema: str) -> Iterator[str]:
    spark.sql(f"CREATE TABLE {schema}.clicks AS SELECT id % 3 AS user_id, timestamp_seconds(id) AS ts, id AS page FROM range(9)")
    spark.sql("SET streamtime.views = plain")
    yield schema
    spark.conf.unset("streamtime.views")


def first(schema: str, keys: str = "user_id") -> str:
    return f"DEDUPLICATE(TABLE({schema}.clicks) PARTITION BY {keys} ORDER BY ts)"


def stored(spark: SparkSession, view: str) -> str:
    return str(spark.sql(f"SHOW CREATE TABLE {view}").collect()[0][0])


@pytest.fixture(params=["spark.sql", "streamtime.query"])
def run(spark: SparkSession, request: pytest.FixtureRequest) -> Callable[[str], object]:
    return spark.sql if request.param == "spark.sql" else lambda text: streamtime.query(spark, text)


def test_views_that_store_plain_sql_are_read_where_the_pack_is_not(spark: SparkSession, clicks: str, run: Callable[[str], object]) -> None:
    run(f"CREATE OR REPLACE VIEW {clicks}.made (who, page) COMMENT 'first' AS SELECT user_id, page -- of each\nFROM {first(clicks)}")
    run(f"-- each\nCREATE VIEW IF NOT EXISTS {clicks}.altered AS SELECT 1 AS one")
    run(f"ALTER VIEW {clicks}.altered AS SELECT * FROM {first(clicks)} WHERE page = 1")
    joined = f"SELECT o.page, p.page AS other FROM {clicks}.clicks o ASOF JOIN {clicks}.clicks p MATCH_CONDITION (o.ts > p.ts) ON o.user_id = p.user_id"
    run(f"CREATE VIEW {clicks}.joined AS {joined}")
    assert "row_number()" in stored(spark, f"{clicks}.made")
    assert "-- of each" in stored(spark, f"{clicks}.made")
    streamtime.unregister(spark)
    try:
        other = spark.newSession()
        assert {tuple(r) for r in other.table(f"{clicks}.made").collect()} == {(0, 0), (1, 1), (2, 2)}
        assert other.table(f"{clicks}.made").columns == ["who", "page"]
        assert other.table(f"{clicks}.altered").collect()[0]["page"] == 1
        assert other.table(f"{clicks}.joined").count() == 6
    finally:
        streamtime.register(spark)


def test_without_the_setting_a_view_stores_the_call(spark: SparkSession, clicks: str) -> None:
    spark.sql("SET streamtime.views = calls")
    spark.sql(f"CREATE VIEW {clicks}.called AS SELECT * FROM {first(clicks)}")
    assert first(clicks) in stored(spark, f"{clicks}.called")
    spark.sql("CREATE TEMP VIEW passing AS SELECT 1")
    before = [r.viewName for r in spark.sql("SHOW VIEWS").collect()]
    for begin in (f"CREATE VIEW {clicks}.refused AS", f"ALTER VIEW {clicks}.called AS", f"/* l */ ALTER VIEW {clicks}.`called`"):
        with pytest.raises(AnalysisException, match=r"a persistent view stores its text.* SET streamtime.views = plain.*; line 1 pos \d\d"):
            streamtime.query(spark, f"{begin} SELECT * FROM {first(clicks)}")
    with pytest.raises(AnalysisException, match="nowhere"):
        streamtime.query(spark, f"ALTER VIEW {clicks}.nowhere AS SELECT * FROM {first(clicks)}")
    assert [r.viewName for r in spark.sql("SHOW VIEWS").collect()] == before
    assert first(clicks) in stored(spark, f"{clicks}.called")
    streamtime.query(spark, f"ALTER VIEW passing AS SELECT * FROM {first(clicks)}")
    assert spark.table("passing").count() == 3
    for name in {r.viewName for r in spark.sql("SHOW VIEWS").collect()} - {*before} | {"passing"}:
        spark.catalog.dropTempView(name)


def test_whatever_goes_wrong_no_view_stores_a_call_unlike_what_is_asked_for(
    spark: SparkSession, clicks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deep(*_: object) -> str:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(views, "as_plain", deep)
    with pytest.raises(
        AnalysisException, match=r"streamtime\.views = plain: this view has no plain SQL\. maximum recursion depth exceeded"
    ):
        spark.sql(f"CREATE VIEW {clicks}.called AS SELECT * FROM {first(clicks)}")
    assert not spark.catalog.tableExists(f"{clicks}.called")


def test_what_is_no_view_that_lasts_is_left_alone(spark: SparkSession, clicks: str) -> None:
    spark.sql(f"CREATE TEMP VIEW passing AS SELECT * FROM {first(clicks)}")
    assert spark.table("passing").count() == 3
    assert spark.sql(f"SELECT 'CREATE VIEW' AS a, * FROM {first(clicks)}").count() == 3
    spark.sql(f"CREATE TABLE {clicks}.t AS SELECT * FROM {first(clicks)}")
    spark.sql(f"CREATE VIEW {clicks}.no_call AS SELECT 1 AS x, 'DEDUPLICATE' AS y")
    assert "SELECT 1 AS x, 'DEDUPLICATE' AS y" in stored(spark, f"{clicks}.no_call")
    spark.catalog.dropTempView("passing")


def test_a_view_that_a_script_makes_is_refused_where_it_would_store_a_call(
    spark: SparkSession, clicks: str, run: Callable[[str], object], request: pytest.FixtureRequest
) -> None:
    spark.conf.set("spark.sql.scripting.enabled", "true")  # as it is, but on Spark 4.0
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.scripting.enabled"))
    joined = f"{clicks}.clicks o ASOF JOIN {clicks}.clicks p MATCH_CONDITION (o.ts > p.ts) ON o.user_id = p.user_id"
    for what in (first(clicks), joined):
        with pytest.raises(
            AnalysisException, match=r"a view that a script \(BEGIN .. END\) makes would store its call, not plain.*(line 2,? pos 2)"
        ):
            run(f"BEGIN SELECT 1;\n  CREATE OR REPLACE VIEW {clicks}.v AS SELECT * FROM {what}; END")
    spark.sql(f"BEGIN CREATE VIEW {clicks}.made AS SELECT 1 AS x; CREATE TEMP VIEW passing AS SELECT * FROM {first(clicks)}; END")
    assert spark.table("passing").count() == 3
    spark.catalog.dropTempView("passing")


def test_a_long_comment_hides_no_view(spark: SparkSession, clicks: str) -> None:
    spark.sql(f"CREATE /* {'x' * 99}\n */ VIEW {clicks}.v AS SELECT * FROM {first(clicks)}")
    assert "row_number()" in stored(spark, f"{clicks}.v")


@pytest.mark.parametrize(
    ("words", "lasts"),
    [
        ("CREATE VIEW v AS", True),
        ("CREATE OR REPLACE VIEW v", True),
        ("ALTER VIEW v AS SELECT", True),
        ("CREATE TEMPORARY VIEW v", False),
        ("CREATE OR REPLACE TEMP VIEW v", False),
        ("CREATE GLOBAL TEMPORARY VIEW v", False),
        ("CREATE TABLE view AS SELECT", False),
        ("SELECT 1", False),
    ],
)
def test_which_views_last(words: str, lasts: bool) -> None:
    assert is_persistent(words.upper().split()) is lasts


def test_what_cannot_be_stored_is_said_at_its_place(spark: SparkSession, clicks: str, run: Callable[[str], object]) -> None:
    bounded = (
        f"SUPPRESS_UNTIL_TIME_LIMIT(TABLE({clicks}.clicks) PARTITION BY user_id ORDER BY ts, max_records => 9, when_full => 'emit_early')"
    )
    with pytest.raises(AnalysisException) as refused:
        run(f"CREATE VIEW {clicks}.v AS SELECT *\nFROM {bounded}")
    assert "this call has no plain SQL: it needs a kernel, which runs in Python." in str(refused.value)
    assert "After SET streamtime.views = calls a view stores the call." in str(refused.value)
    assert "line 2" in str(refused.value)
    with pytest.raises(AnalysisException, match=r"no column `usr_id` in the input. Did you mean `user_id`\?"):
        run(f"CREATE VIEW {clicks}.v AS SELECT * FROM {first(clicks, 'usr_id')}")
    spark.sql("SET streamtime.views = paln")
    with pytest.raises(
        AnalysisException, match=r"streamtime.views: expected 'calls' or 'plain', got 'paln'. Write: SET streamtime.views = plain."
    ):
        run(f"CREATE VIEW {clicks}.v AS SELECT * FROM {first(clicks)}")
