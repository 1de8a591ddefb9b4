"""session() without Spark: whose session it is, and the settings that it is made with, wherever the folders are."""

from __future__ import annotations

import importlib
import os
import shlex
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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

    def master(self, _: str) -> Builder:
        return self

    def config(self, key: str, value: str) -> Builder:
        self.made[key] = value
        return self

    def getOrCreate(self) -> SparkSession:
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
    with pytest.raises(Started):
        session()


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
