"""Checks each thing that streamtime needs by itself, and says what works, what does not, and what to do."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamtime.shell.connection import Connection, ConnectionFailed, local, masked, missing_connect_packages, remote
from streamtime.shell.failures import readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_PYTHON = (3, 11)
MODULES = {"delta-spark": "delta", "protobuf": "google.protobuf"}  # of packages that are not called as what they install
CALL = "SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2020-01-01' AS ts) PARTITION BY k ORDER BY ts)"
INSTALL = "Install the pack again, with what it requires: pip install --force-reinstall, then the folder of its clone, or its wheel."
MARKS = {"ok": "ok      ", "failed": "FAILED  ", "missing": "optional", "skipped": "skipped "}


@dataclass(frozen=True)
class Finding:
    """What a check found. `state` is ok, failed, missing (optional, and not there) or skipped (it needs something that failed)."""

    name: str
    state: str
    says: str
    todo: str = ""


class Problem(Exception):
    """What is wrong, and what to do."""

    def __init__(self, says: str, todo: str) -> None:
        self.says, self.todo = says, todo
        super().__init__(says)


def examine(url: str | None = None, form: str = "table") -> int:
    """Print the findings as they come; the exit code is 0 if all that is required works."""
    findings = []
    for finding in check_all(url):
        findings.append(finding)
        if form == "json":
            print(json.dumps(asdict(finding), ensure_ascii=False), flush=True)
            continue
        first, *more = finding.says.splitlines() or [""]
        print(f"{MARKS[finding.state]}  {finding.name:<17}  {first}")
        for line in more:
            print(f"{'':29}{line}")
        if finding.todo:
            print(f"{'':29}-> {finding.todo}", flush=True)
    failed = [f.name for f in findings if f.state == "failed"]
    if form != "json":
        print(f"\nNot in order: {', '.join(failed)}." if failed else "\nAll that is required works.")
    return 1 if failed else 0


def check_all(url: str | None = None) -> Iterator[Finding]:
    """All checks, the cheap ones first. What needs a session is skipped where none starts."""
    yield check("Python", python)
    yield check("Java", java)
    yield check("streamtime", lambda: installed("streamtime"))
    yield check("pyspark", pyspark)
    for package, wanted in requirements().items():
        yield check(package, lambda package=package, wanted=wanted: required(package, wanted))  # type: ignore[misc]
    yield check("cache folder", cache)
    yield check("Delta jars", jars)
    opened: list[Connection] = []
    session = check("local session", lambda: start(opened))
    yield session
    try:
        for name, probe, optional in LOCAL:
            if opened:
                yield check(name, lambda probe=probe: probe(opened[0].spark), optional)  # type: ignore[misc]
            else:
                yield Finding(name, "skipped", "needs a local session")
    finally:
        for connection in opened:
            connection.close()
    packages = check("Connect client", connect_client, optional=url is None)
    yield packages
    if url:
        yield check("Connect server", lambda: server(url))


def check(name: str, probe: Callable[[], str], optional: bool = False) -> Finding:
    """Run one check. Whatever it raises becomes its finding."""
    bad = "missing" if optional else "failed"
    try:
        return Finding(name, "ok", probe())
    except Problem as problem:
        return Finding(name, bad, problem.says, problem.todo)
    except Exception as error:
        return Finding(name, bad, readable(error))


def python() -> str:
    """The Python that runs this."""
    if sys.version_info < OLDEST_PYTHON:
        raise Problem(f"{platform.python_version()} is too old", "Install Python 3.11 or later.")
    return f"{platform.python_version()} ({sys.executable})"


def java() -> str:
    """The Java that Spark would use."""
    from streamtime.java import JavaError, check

    try:
        return f"Java {check()} ({os.environ.get('JAVA_HOME') or 'from the PATH'})"
    except JavaError as error:
        says, _, todo = str(error).partition(". ")
        raise Problem(says, todo) from None


def pyspark() -> str:
    """PySpark is one that the pack knows, and starts its own Spark."""
    from streamtime.sparks import SPARKS

    known = [spark.minor for spark in SPARKS]
    version = installed("pyspark")
    if ".".join(version.split(".")[:2]) not in known:
        raise Problem(f"{version} is not known; known is Spark {', '.join(known)}", f"pip install 'pyspark~={known[-1]}.0'")
    home = os.environ.get("SPARK_HOME")
    if home and not list(Path(home, "jars").glob(f"spark-core_*-{version}*.jar")):
        raise Problem(f"{version}, but SPARK_HOME is {home}, which is not Spark {version}", "Unset SPARK_HOME.")
    return version


def requirements() -> dict[str, str]:
    """What the pack requires beside PySpark, by name: the requirement."""
    try:
        required = importlib.metadata.requires("streamtime") or ()
    except importlib.metadata.PackageNotFoundError:  # which has a line of its own
        required = ()
    by_name = {re.split(r"[^\w.-]", r, maxsplit=1)[0]: r for r in required if ";" not in r}
    return {name: requirement for name, requirement in by_name.items() if name != "pyspark"}


def required(package: str, wanted: str) -> str:
    """A Python package is there, in a version that the pack allows, and can be imported."""
    version = installed(package)
    if not satisfies(version, wanted):
        raise Problem(f"{version}, where {wanted} is needed", f"pip install '{wanted}'")
    try:
        importlib.import_module(MODULES.get(package, package))
    except Exception as error:
        raise Problem(f"{version} cannot be imported: {readable(error)}", f"pip install --force-reinstall '{wanted}'") from None
    return version


def installed(package: str) -> str:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise Problem("is not installed", INSTALL) from None


def satisfies(version: str, requirement: str) -> bool:
    """Whether a version such as 2.2.3 satisfies a requirement such as "pandas<3,>=2.2", as far as numbers go."""
    have = _numbers(version)
    for sign, number in re.findall(r"(==|>=|<|!=|~=)\s*([\w.]+)", requirement):
        want = _numbers(number)
        length = max(len(have), len(want))
        a, b = (tuple((*n, *[0] * length)[:length]) for n in (have, want))
        holds = {"==": a == b, ">=": a >= b, "<": a < b, "!=": a != b, "~=": a >= b and have[: len(want) - 1] == want[:-1]}
        if not holds[sign]:
            return False
    return True


def cache() -> str:
    """The folder for jars and settings can be written to."""
    from streamtime.session import cache_folder

    try:
        folder = cache_folder()
        with tempfile.NamedTemporaryFile(dir=folder):
            return str(folder)
    except OSError as error:
        raise Problem(f"cannot be written to: {error}", "Set STREAMTIME_CACHE to a folder that can.") from None


def jars() -> str:
    """Delta's jars are in the cache, or can be fetched now."""
    from streamtime.java import JavaError, check
    from streamtime.session import delta_jars

    try:
        return ", ".join(jar.name for jar in delta_jars())
    except RuntimeError as error:
        try:
            check()
        except JavaError:
            raise Problem("not in the cache, and fetching them needs Java", "Install Java first.") from None
        says, _, todo = str(error).partition(". ")
        raise Problem(says, todo) from None


def start(opened: list[Connection]) -> str:
    """A local session starts; it is put into `opened`."""
    from streamtime.java import JavaError

    try:
        opened.append(local(cores="2"))
    except (ConnectionFailed, JavaError) as error:
        raise Problem(
            str(error).partition(". ")[0], "Mend what is marked FAILED above; otherwise Spark's words say what is wrong."
        ) from None
    return f"Spark {opened[0].spark.version}"


def door(spark: SparkSession) -> str:
    """A call of a function goes through Spark's analyzer and gives its row."""
    rows = spark.sql(CALL).collect()
    if len(rows) != 1:
        raise Problem(f"DEDUPLICATE over one row gave {len(rows)} rows", "Please report it.")
    return "DEDUPLICATE over one row gives one row"


def workers(spark: SparkSession) -> str:
    """A function's kernel runs in a Python worker."""
    from streamtime.workers import FIX, lacks

    python = spark.sparkContext.pythonExec
    if problem := lacks(python):
        raise Problem(problem, FIX)
    spark.sql(f"{CALL.removesuffix(')')}, within => INTERVAL 1 DAY)").collect()
    return f"{python} runs a function"


def delta(spark: SparkSession) -> str:
    """A Delta table can be written and read."""
    with tempfile.TemporaryDirectory() as folder:
        spark.range(3).write.format("delta").save(f"{folder}/t")
        count = spark.read.format("delta").load(f"{folder}/t").count()
    if count != 3:
        raise Problem(f"3 rows written, {count} read", "Please report it.")
    return "a table was written and read"


def state(spark: SparkSession) -> str:
    """A streaming query can keep its state in RocksDB."""
    from streamtime.sql.stream.plan import PROVIDER, ROCKSDB

    with tempfile.TemporaryDirectory() as folder:
        before = spark.conf.get(PROVIDER, None)
        spark.range(3).write.parquet(f"{folder}/in")
        spark.conf.set(PROVIDER, ROCKSDB)
        try:
            stream = spark.readStream.schema("id BIGINT").parquet(f"{folder}/in").dropDuplicates(["id"])
            query = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/state").trigger(availableNow=True).start()
            query.awaitTermination(60)
            query.stop()
        finally:
            if before is None:
                spark.conf.unset(PROVIDER)
            else:
                spark.conf.set(PROVIDER, before)
    return f"RocksDB works; it is used with {PROVIDER}={ROCKSDB}"


def connect_client() -> str:
    """The packages of a Spark Connect client."""
    if missing := missing_connect_packages():
        raise Problem(f"not installed: {', '.join(missing)}", f"For --remote: pip install {' '.join(missing)}")
    return "its packages are there"


def server(url: str) -> str:
    """A Spark Connect server answers, and knows the functions."""
    try:
        connection = remote(url)
    except ConnectionFailed as error:
        raise Problem(str(error), "") from None
    try:
        connection.sql(CALL).collect()
        return f"{masked(url)}, Spark {connection.spark.version}, knows the functions"
    finally:
        connection.close()


LOCAL: tuple[tuple[str, Callable[[SparkSession], str], bool], ...] = (
    ("functions in SQL", door, False),
    ("Python workers", workers, False),
    ("Delta table", delta, False),
    ("streaming state", state, True),
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:4])
