"""session() without Spark: whose session it is, and the settings that it is made with, wherever the folders are."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaPackage
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streamtime.server import settings
from streamtime.server.options import Options
from streamtime.session import CLASS_PATH, JVM_OPTIONS, delta_jars, in_place, lasting, session
from streamtime.shell import connection

sessions = importlib.import_module("streamtime.session")  # by its name it is the function
WAREHOUSE = "spark.sql.warehouse.dir"


class Started(Exception):
    """Spark would start now."""


class Builder:
    """Notes what a session would be made with."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.python_path: list[str] = []  # of Spark

    def master(self, _: str) -> Builder:
        return self

    def config(self, key: str, value: str) -> Builder:
        self.made[key] = value
        return self

    def getOrCreate(self) -> SparkSession:
        self.python_path = os.environ["PYTHONPATH"].split(os.pathsep)
        raise Started


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """In a process where no Spark runs."""
    made = Builder()
    jars = delta_jars()
    for module in (sessions, settings):
        monkeypatch.setattr(module, "delta_jars", lambda: jars)
    monkeypatch.setattr(sessions.java, "check", lambda: 17)
    monkeypatch.setattr(SparkSession, "builder", made)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    return made


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of somebody whose name has blanks, and more, in it; what is temporary is in it, too."""
    home = tmp_path / "Jane 'J' Doe %41"
    (home / "tmp").mkdir(parents=True)
    monkeypatch.setenv("STREAMTIME_CACHE", str(home / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    return home


def test_a_session_of_another_thread_is_used_as_it_is(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(sessions, "register", asked.append)
    runs = SimpleNamespace(_sc=SimpleNamespace(_jsc=object()))
    monkeypatch.setattr(SparkSession, "_instantiatedSession", runs)
    assert session(settings={"spark.sql.session.timeZone": "Asia/Tokyo"}) is runs  # type: ignore[comparison-overlap]
    assert (asked, builder.made) == ([runs], {})
    runs._sc._jsc = None  # it was stopped
    with pytest.raises(Started):
        session()
    assert builder.made["spark.sql.session.timeZone"] == "UTC"


def test_a_jvm_that_runs_without_delta_lake_says_where_to_go(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    without = SimpleNamespace(DeltaSparkSessionExtension=JavaPackage("io.delta.sql.DeltaSparkSessionExtension", None))
    jvm = SimpleNamespace(io=SimpleNamespace(delta=SimpleNamespace(sql=without)))
    for name, value in (("_gateway", object()), ("_jvm", jvm), ("_ensure_initialized", lambda: None)):
        monkeypatch.setattr(SparkContext, name, value)
    with pytest.raises(RuntimeError, match=r"without Delta Lake.* in a new process \(in a notebook: restart the kernel\)"):
        session()
    without.DeltaSparkSessionExtension = object()
    jvm.System = SimpleNamespace(getenv=lambda _: None)
    with pytest.raises(Started):
        session()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Spark's, after the one of `session` was imported from where it is."""
    from pyspark import daemon

    monkeypatch.setattr(daemon, "worker", daemon.worker)
    monkeypatch.syspath_prepend(str(sessions.quiet_daemon()))
    yield daemon
    sys.modules.pop(sessions.DAEMON_MODULE, None)


def test_a_worker_to_which_nobody_listens_ends_without_a_word_and_what_else_goes_wrong_is_told(daemon: ModuleType) -> None:
    went: list[Exception] = [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "Connection reset by peer")]

    def talk(sock: object, authenticated: bool) -> int:
        if authenticated:
            raise went.pop(0)
        return 0

    daemon.worker = talk  # type: ignore[attr-defined]
    importlib.import_module(sessions.DAEMON_MODULE)
    assert [daemon.worker(None, False), daemon.worker(None, True)] == [0, 1]
    with pytest.raises(ConnectionResetError):
        daemon.worker(None, True)


def test_spark_is_started_where_its_workers_find_that_daemon(builder: Builder, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, mine = "spark.python.daemon.module", str(odd / "mine")
    here = sessions.spark_version(pyspark.__version__)
    monkeypatch.setattr(sessions, "spark_version", lambda _: replace(here, python_sockets=False))
    with pytest.raises(Started):
        session()
    assert module not in builder.made  # workers of Spark 4.0 have TCP sockets, and end without a word
    monkeypatch.setattr(sessions, "spark_version", lambda _: replace(here, python_sockets=True))
    for before in (None, mine):
        monkeypatch.delenv("PYTHONPATH", raising=False) if before is None else monkeypatch.setenv("PYTHONPATH", before)
        with pytest.raises(Started):
            session()
        assert builder.python_path == [*filter(None, [before]), str(odd / "cache" / "python")]
        assert (odd / "cache" / "python" / f"{builder.made.pop(module)}.py").read_text() == sessions.DAEMON
        assert os.environ.get("PYTHONPATH") == before
    with pytest.raises(Started):
        session(settings={module: "my.own"})
    assert builder.made.pop(module) == "my.own"
    monkeypatch.setenv("STREAMTIME_CACHE", str(odd / f"a{os.pathsep}b"))
    with pytest.raises(Started):
        session()
    assert module not in builder.made


def test_a_jvm_that_was_started_without_it_has_sparks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    path: list[str | None] = [None, "/elsewhere", os.pathsep.join(["/elsewhere", "/modules"])]
    jvm = SimpleNamespace(System=SimpleNamespace(getenv=lambda _: path.pop(0)))
    monkeypatch.setattr(SparkContext, "_gateway", object())
    monkeypatch.setattr(SparkContext, "_jvm", jvm)
    assert [sessions.workers_find(Path("/modules")) for _ in range(3)] == [False, False, True]


def options(text: str) -> list[str]:
    """As Spark's launcher parts them, which knows quotes as a shell does."""
    return shlex.split(text)


def test_folders_with_blanks_are_one_word_each(builder: Builder, odd: Path) -> None:
    log = f"-Dlog4j2.configurationFile={(odd / 'cache' / 'log4j2.properties').as_uri()}"
    with pytest.raises(Started):
        session(settings={JVM_OPTIONS: "-Dmine='a b' -Xss4m"})
    assert options(builder.made[JVM_OPTIONS]) == [log, "-Dmine=a b", "-Xss4m"]
    with pytest.raises(connection.ConnectionFailed):
        connection.local(settings={JVM_OPTIONS: "-Dmine=1"})
    first, derby, mine = options(builder.made[JVM_OPTIONS])
    assert (first, mine) == (log, "-Dmine=1")
    assert derby.startswith(f"-Dderby.stream.error.file={odd / 'tmp'}{os.sep}streamtime-")
    served = settings.of(Options(settings={JVM_OPTIONS: "-Dmine=1"}), odd, odd / "spark.log", odd / "classes")[JVM_OPTIONS]
    assert options(served) == [
        f"-Dlog4j2.configurationFile={(odd / 'log4j2.properties').as_uri()}",
        f"-Dderby.stream.error.file={odd / 'derby.log'}",
        "-Dmine=1",
    ]


def test_a_class_path_that_is_given_stands_behind_deltas_jars(builder: Builder) -> None:
    for started in (session, lambda settings: connection.local(settings=settings)):
        with pytest.raises((Started, connection.ConnectionFailed)):
            started(settings={CLASS_PATH: "/opt/x.jar:/opt/y.jar"})
        assert builder.made[CLASS_PATH].split(os.pathsep) == [*map(str, delta_jars()), "/opt/x.jar", "/opt/y.jar"]


def test_tables_are_on_this_machine_whatever_the_default_file_system_is(builder: Builder, odd: Path) -> None:
    """Hadoop's paths are no URIs: what stands in them stands in the names of folders."""
    assert in_place(Path("/a b/%20")) == "file:///a b/%20"
    assert lasting(odd / "w")[WAREHOUSE] == f"file://{odd}/w/tables"
    with pytest.raises(connection.ConnectionFailed):
        connection.local()
    assert builder.made[WAREHOUSE].startswith(f"file://{odd}/tmp/streamtime-")
    for made, place in (
        (Options(), f"file://{odd}/tables"),
        (Options(warehouse=odd / "w"), f"file://{odd}/w/tables"),
        (Options(warehouse=odd / "w", master="local[3]"), f"file://{odd}/w/tables"),
        (Options(warehouse=odd / "w", master="yarn", settings={"spark.driver.host": "10.0.0.5"}), f"{odd}/w/tables"),
        (Options(warehouse=odd / "w", settings={WAREHOUSE: "hdfs:///w"}), "hdfs:///w"),
    ):
        assert settings.of(made, odd, odd / "spark.log", odd / "classes")[WAREHOUSE] == place


def test_a_warehouse_that_cannot_be_made_leaves_nothing_behind(builder: Builder, odd: Path) -> None:
    (odd / "file").touch()
    with pytest.raises(connection.ConnectionFailed, match="file"):
        connection.local(warehouse=odd / "file" / "w")
    assert list((odd / "tmp").iterdir()) == []
    assert builder.made == {}
