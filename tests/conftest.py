"""One Spark session for the whole run; each test gets a clean log and a schema of its own where it asks for one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf as make_udtf
from support import TESTS, as_plain
from support.doors import LOCAL
from support.programs.jvm import (
    INTERPRETED,
    JAVA_OPTIONS,
    ROOM,
    answers_at_once,
    catalogs_are_compiled,
    classes_are_found_once,
    code_cache,
    compiled,
    no_process_for_a_file,
)
from support.short_run import left_out
from support.streams import Source

from streamtime.shelf import FUNCTIONS
from streamtime.sql.udtf import handler

os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)  # for every JVM that a test starts: most live for seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plain", action="store_true", help="run calls as the plain SQL that they compile to, where there is one")
    parser.addoption("--few", action="store_true", help="go round no more often than a short run does")
    parser.addoption("--plain-bundle", metavar="FOLDER", help="keep that plain SQL, its tables and what the calls give there")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item, why in left_out(items):
        item.add_marker(pytest.mark.long(why))


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
    """What a test takes by itself is told apart: the first to ask for a fixture is not slow for that, nor is the last."""
    if call.when == "call":
        item.user_properties.append(("own", f"{call.duration:.2f}"))


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether long tests run, too: where they are left out, what goes round goes round less often."""
    return request.config.getoption("-m") != "not long" and not request.config.getoption("--few")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--plain") or config.getoption("--plain-bundle"):
        counts, reasons = as_plain.COUNTS, as_plain.REASONS.most_common(12)
        terminalreporter.write_line(f"As plain SQL: {counts['plain']} statements. As they are, for want of it: {counts['as is']}.")
        for reason, times in reasons:
            terminalreporter.write_line(f"{times:6} {reason}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    import streamtime

    folder = tmp_path_factory.mktemp("spark")
    classes_are_found_once()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)  # of the JVM, and of workers
        session = streamtime.session(
            cores=2,
            memory="4g",
            settings={
                "spark.sql.shuffle.partitions": "3",
                # a plan over a few rows takes longer to be compiled than to be interpreted: a third of the CPU of all tests. `as_users` compiles
                **INTERPRETED,
                "spark.python.daemon.module": "support.programs.warm_daemon",
                # as it is; but where nobody says so, code that is interpreted asks the environment for each value of each row
                "spark.sql.types.framework.enabled": "false",
                "spark.databricks.delta.snapshotPartitions": "1",
                "spark.databricks.delta.writeChecksumFile.enabled": "false",  # beside each commit, from one query more
                "spark.sql.ui.explainMode": "simple",  # plans are described for a UI that is not there, each time they change
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder),
                # a micro-batch changes a few rows, and keeping these takes less than keeping all of RocksDB, or than counting them anew
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
                "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
                "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {ROOM} -Dlog4j2.configurationFile=file:{_log_settings(folder)}",
            },
        )
    answers_at_once(session)
    no_process_for_a_file(session)
    catalogs_are_compiled(session)
    if request.config.getoption("--plain"):
        as_plain.calls_as_plain_sql(session)
    bundled = request.config.getoption("--plain-bundle")
    kept = as_plain.Kept(session, Path(bundled).resolve()) if bundled else None
    yield session
    if kept:
        kept.write()
    said = code_cache(session)
    session.stop()
    assert "stopped_count=0" in said, f"The JVM ran out of room for compiled code, and interpreted what followed:\n{said}"


def _log_settings(folder: Path) -> Path:
    from streamtime.session import LOG4J

    path = folder / "log4j2.properties"
    path.write_text(LOG4J)
    return path


@pytest.fixture(scope="module")
def as_users(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Spark compiles plans as it does where nobody told it not to; but not to keep cases, where each would be compiled twice."""
    with nullcontext() if request.config.getoption("--plain-bundle") else compiled(spark):
        yield


@pytest.fixture(scope="module")
def as_users_in_all(request: pytest.FixtureRequest, thorough: bool) -> None:
    """The same where all tests run, and where a file is named; a short run interprets these plans, too, for a third less CPU."""
    if thorough:
        request.getfixturevalue("as_users")


@pytest.fixture
def many_rows(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """As `as_users`, for one test: where there are many rows, interpreted plans take ten times as long as to compile them."""
    with nullcontext() if request.config.getoption("--plain-bundle") else compiled(spark):
        yield


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE SCHEMA {name}")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[Source]:
    """State in two partitions: a partition more is a state store and a Python worker more in every micro-batch."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield Source(spark, tmp_path)
    spark.conf.set("spark.sql.shuffle.partitions", before)
    spark.catalog.dropTempView("events")
    spark.catalog.dropTempView("marked")


@pytest.fixture(scope="module")
def udtfs(spark: SparkSession) -> Iterator[None]:
    """Under names of their own, beside the analyzer door's."""
    for spec in FUNCTIONS:
        if spec.name in LOCAL:
            spark.udtf.register(f"py_{spec.name}", make_udtf(handler.handler(spec), useArrow=False))
    yield
    for name in LOCAL:
        spark.sql(f"DROP TEMPORARY FUNCTION py_{name}")
