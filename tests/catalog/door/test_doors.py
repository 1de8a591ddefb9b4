"""The analyzer door in every place where SQL takes a table, and what register() and unregister() do."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession
from support.doors import CALL, STANDS

import streamtime
from streamtime.door import registration
from streamtime.shelf import FUNCTIONS


@pytest.fixture(autouse=True)
def events(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW events AS SELECT k, timestamp_seconds(s) AS ts, v FROM VALUES (1, 0, 'a'), (1, 5, 'b'), (1, 20, 'c'), (2, 3, 'd')"
        " AS e(k, s, v)"
    )


def values(spark: SparkSession, text: str) -> list[str]:
    return sorted(r[0] for r in spark.sql(text).collect())


@pytest.mark.parametrize(("text", "expected"), STANDS)
def test_a_call_stands_wherever_a_table_may(spark: SparkSession, text: str, expected: list[str]) -> None:
    assert values(spark, text) == expected


@pytest.mark.short("calls inside of other statements")
def test_views_tables_and_statements(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.raw USING delta AS SELECT * FROM events")
    call = CALL.format(f"{schema}.raw")
    spark.sql(f"CREATE VIEW {schema}.clean AS SELECT * FROM {call}")
    spark.sql(f"CREATE TEMP VIEW clean_temp AS SELECT * FROM {call}")
    spark.sql(f"CREATE TABLE {schema}.ctas USING delta AS SELECT * FROM {call}")
    spark.sql(f"CREATE TABLE {schema}.target USING delta AS SELECT * FROM events WHERE v = 'a'")
    spark.sql(f"INSERT INTO {schema}.ctas SELECT * FROM {call} WHERE k = 2")
    spark.sql(f"MERGE INTO {schema}.target t USING (SELECT * FROM {call}) s ON t.v = s.v WHEN NOT MATCHED THEN INSERT *")
    spark.sql(f"INSERT INTO {schema}.raw SELECT 3, timestamp_seconds(9), 'e'")  # a view reads what is there when it is read
    assert values(spark, f"SELECT v FROM {schema}.clean") == ["a", "c", "d", "e"]
    assert values(spark, "SELECT v FROM clean_temp") == ["a", "c", "d", "e"]
    assert values(spark, f"SELECT v FROM {schema}.ctas") == ["a", "c", "d", "d"]
    assert values(spark, f"SELECT v FROM {schema}.target") == ["a", "c", "d"]
    spark.sql("DROP VIEW clean_temp")


def test_explain_cache_and_describe(spark: SparkSession) -> None:
    plan = spark.sql(f"EXPLAIN SELECT * FROM {CALL.format('events')}").first()[0]
    assert "deduplicate(" in plan
    assert plan.count("Exchange") == 1
    spark.sql(f"CACHE TABLE cached AS SELECT * FROM {CALL.format('events')}")
    assert spark.table("cached").count() == 3
    spark.sql("UNCACHE TABLE cached")
    described = "\n".join(r[0] for r in spark.sql("DESCRIBE FUNCTION EXTENDED deduplicate").collect())
    for word in (
        "Keeps the first row of each key",
        "within - INTERVAL DAY TO SECOND",
        "TABLE(clicks) PARTITION BY user_id",
        "KIP-655",
        f"Since: {streamtime.__version__}",
    ):
        assert word in described
    assert spark.sql("SHOW FUNCTIONS LIKE 'deduplicate'").count() == 1


def test_the_package_shows_its_public_names_alone() -> None:
    shown = dir(streamtime)
    assert {n for n in shown if not n.startswith("__")} == set(streamtime.__all__)
    assert {"__version__", "__doc__", "__all__", "__file__"} <= set(shown)


def test_a_chain_over_the_input_goes_back_to_the_analyzer_as_it_is(spark: SparkSession) -> None:
    def analyzed(text: str) -> str:
        return str(spark.sql(text)._jdf.queryExecution().analyzed().toString())

    from streamtime.sql.rows.kernels import arrow_udf

    asks_types = arrow_udf is None  # without Arrow functions (Spark 4.0), a kernel's columns are converted, each by its type
    assert ("WithCTE" in analyzed(f"SELECT * FROM {CALL.format('events')}")) == asks_types
    assert "WithCTE" not in analyzed("SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts)")
    twice = "SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY v, time => 'ts', within => INTERVAL 1 DAY)"
    assert "WithCTE" in analyzed(twice)  # the input is read for the bounds, for the maxima, and for the rows


def test_parameters_fill_options_and_rows(spark: SparkSession) -> None:
    call = (
        "SELECT v FROM DEDUPLICATE(TABLE(SELECT * FROM events WHERE k = :k) PARTITION BY k ORDER BY ts, within => :within, output => :out)"
    )
    import datetime

    got = spark.sql(call, args={"k": 1, "within": datetime.timedelta(seconds=10), "out": "rows"}).collect()
    assert sorted(r.v for r in got) == ["a", "c"]


def test_where_a_key_passes_once_spark_cuts_each_key_to_one_row_before_the_shuffle(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.t (k INT NOT NULL, ts TIMESTAMP) USING parquet")
    plan = spark.sql(f"EXPLAIN SELECT * FROM DEDUPLICATE(TABLE({schema}.t) PARTITION BY k ORDER BY ts)").first()[0]
    assert plan.index("WindowGroupLimit") < plan.rindex("Exchange") < plan.rindex("WindowGroupLimit")


def test_every_session_has_the_functions(spark: SparkSession) -> None:
    other = spark.newSession()
    other.sql("CREATE OR REPLACE TEMP VIEW events AS SELECT 1 AS k, TIMESTAMP '2024-01-01' AS ts, 'other' AS v")
    assert values(other, f"SELECT v FROM {CALL.format('events')}") == ["other"]
    assert values(spark, f"SELECT v FROM {CALL.format('events')}") == ["a", "c", "d"]


def test_sessions_and_threads_at_once(spark: SparkSession) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        session = spark.newSession()
        session.sql(f"CREATE OR REPLACE TEMP VIEW mine AS SELECT {number} AS k, timestamp_seconds(id) AS ts, id FROM range({number + 5})")
        for _ in range(3):
            got = session.sql(f"SELECT * FROM {CALL.format('mine')}").collect()
            if [(r.k, r.id) for r in got] != [(number, 0)] and number < 6:
                wrong.append(f"{number}: {got}")
            try:
                session.sql("SELECT * FROM DEDUPLICATE(TABLE(mine) PARTITION BY nope ORDER BY ts)")
                wrong.append("no error")
            except AnalysisException as error:
                if "no column `nope`" not in str(error):
                    wrong.append(str(error))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert not wrong


def test_register_is_idempotent_and_says_what_it_did(spark: SparkSession) -> None:
    again = streamtime.register(spark)
    assert again.already
    assert again.doors == ("analyzer", "query", "python")
    assert again.functions == tuple(spec.name for spec in FUNCTIONS)
    assert {"DEDUPLICATE", "AS_OF_JOIN", "FUNCTION_CATALOG"} < set(again.functions)
    assert "FUNCTION_CATALOG()" in str(again)


class Forgetful(dict[str, SparkSession]):
    """As another thread leaves it that has just seen too many sessions."""

    def __setitem__(self, key: str, value: SparkSession) -> None:
        return


def test_sessions_that_another_thread_forgets_are_made_anew(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    analyzer, _ = registration._doors[id(spark.sparkContext._gateway)]
    monkeypatch.setattr(analyzer, "sessions", Forgetful())
    assert values(spark, f"SELECT v FROM {CALL.format('events')}") == ["a", "c", "d"]


def test_unregister_leaves_nothing_behind(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    between = spark.newSession()
    between.sql("SELECT 1").collect()  # opens its registry
    gateway = spark.sparkContext._gateway
    filters = {name: len(logging.getLogger(name).filters) for name in ("py4j.clientserver", "SQLQueryContextLogger")}
    streamtime.unregister(spark)
    try:
        assert not gateway.python_parameters.propagate_java_exceptions
        assert all(len(logging.getLogger(n).filters) == count - 1 for n, count in filters.items())
        for session in (spark, spark.newSession()):
            assert session.sql("SHOW FUNCTIONS LIKE 'deduplicate'").count() == 0
            with pytest.raises(AnalysisException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
                session.sql("SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2024-01-01' AS ts) PARTITION BY k ORDER BY ts)")
        with pytest.raises(AnalysisException, match="streamtime was unregistered"):
            between.sql("SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2024-01-01' AS ts) PARTITION BY k ORDER BY ts)")
        assert between.sql("SHOW FUNCTIONS LIKE 'deduplicate'").count() == 0
        gateway.python_parameters.propagate_java_exceptions = False
        streamtime.unregister(spark)  # twice is no error
    finally:
        assert not streamtime.register(spark).already

    def stopped(_: SparkSession) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:  # whoever breaks off in one session leaves the others theirs
        patched.setattr(registration, "_self_test", stopped)
        with pytest.raises(KeyboardInterrupt):
            streamtime.register(between)
    streamtime.register(between)
    assert between.sql("SHOW FUNCTIONS LIKE 'deduplicate'").count() == 1
    assert values(spark, f"SELECT v FROM {CALL.format('events')}") == ["a", "c", "d"]
    assert spark.newSession().sql("SHOW FUNCTIONS LIKE 'deduplicate'").count() == 1


def test_a_spark_it_does_not_know_is_named(spark: SparkSession) -> None:
    class Other:
        version = "5.1.2"

    from streamtime.door.analyzer import AnalyzerDoor

    with pytest.raises(streamtime.UnsupportedSparkError, match=r"knows how in Spark 4\.0, 4\.1, 4\.2; this session runs Spark 5\.1\.2"):
        AnalyzerDoor(Other())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a Spark session, got builtins\.str"):
        streamtime.register("spark")  # type: ignore[arg-type]


def test_registering_changes_no_setting(spark: SparkSession) -> None:
    before = dict(spark.sql("SET").collect())
    streamtime.unregister(spark)
    streamtime.register(spark)
    assert dict(spark.sql("SET").collect()) == before


def test_importing_starts_nothing_and_foreach_batch_errors_stay_readable(spark: SparkSession, tmp_path: object) -> None:
    probe = "import streamtime, pyspark, threading; print(pyspark.SparkContext._gateway, threading.active_count())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "1"]
    assert threading.active_count() >= 1

    def failing(df: object, _number: int) -> None:
        spark.sql("SELECT * FROM no_such_table")

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = stream.writeStream.foreachBatch(failing).option("checkpointLocation", f"{tmp_path}/c").start()
    with pytest.raises(Exception, match="no_such_table"):
        query.awaitTermination(60)


def test_the_input_is_computed_once_where_it_is_not_deterministic(spark: SparkSession) -> None:
    text = "SELECT * FROM DEDUPLICATE(TABLE(SELECT id % 3 AS k, timestamp_seconds(id) AS ts, rand() AS r FROM range(30)) PARTITION BY k ORDER BY r,"
    got = spark.sql(f"{text} time => 'ts', output => 'all')").collect()
    assert len(got) == 30
    assert sum(r.reason is None for r in got) == 3


def test_a_script_that_spark_refuses_is_refused_in_sparks_words(spark: SparkSession) -> None:
    """That is a checked exception, which nobody may throw through the interface of a parser, if it is a proxy."""
    for told in ("", "DECLARE y INT DEFAULT (SELECT count(*) FROM DEDUPLICATE(TABLE(t) ORDER BY ts)); "):
        with pytest.raises(IllegalArgumentException, match=r"INVALID_VARIABLE_DECLARATION|SQL_SCRIPTING"):
            spark.sql(f"BEGIN {told}SELECT 1; DECLARE x INT; END")
