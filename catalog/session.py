"""session(): a local Spark session with Delta Lake ready, quiet, and quick on small data."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

import pyspark
from py4j.java_gateway import JavaPackage
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streamtime import java
from streamtime.door.registration import register
from streamtime.sparks import spark_version
from streamtime.sql.stream.plan import PROVIDER, ROCKSDB

DELTA = "4.4.0"
CLASS_PATH, JVM_OPTIONS = "spark.driver.extraClassPath", "spark.driver.extraJavaOptions"
# Where pyspark itself prints or warns on the way up, a reader learns nothing
LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = off
"""
# Spark's own prints a traceback whenever a worker that had nothing to do for a minute, or of whose rows no more are asked for, is left
DAEMON_MODULE = "streamtime_daemon"
DAEMON = """\
from pyspark import daemon

talk = daemon.worker


def worker(*arguments):
    try:
        return talk(*arguments)
    except BrokenPipeError:  # nobody listens any more
        return 1


daemon.worker = worker
if __name__ == "__main__":
    daemon.manager()
"""
# Resolves from Maven Central alone: a half-filled local Maven repository cannot get in the way
IVY = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}/ivy"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def session(cores: int | str = "*", memory: str = "2g", settings: dict[str, str] | None = None) -> SparkSession:
    """A local session with Delta Lake and this pack's functions, for notebooks, tests and examples.

    `cores` as in `local[cores]`; `memory` of the driver; `settings` are Spark settings that replace those made here, or, as options of the
    JVM and its class path, add to them. The first call on a machine fetches Delta's jars (10 MB) into a cache folder. The time zone is UTC
    (`spark.sql.session.timeZone`), and shuffles have as many partitions as there are cores, at least 4 (`spark.sql.shuffle.partitions`). If
    this process has a session already, that one is used, as it is.

    Raises:
        JavaError: no Java 17 or later; the message says what to do.
        RuntimeError: Delta's jars could not be fetched, or Spark runs in this process already, without them.
    """
    running = _running()
    if running is not None:
        register(running)
        return running
    java.check()
    _require_delta()
    spark_has = spark_version(pyspark.__version__)
    folder, modules = cache_folder(), quiet_daemon()
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG4J)
    given = dict(settings or {})
    made = {
        "spark.app.name": "streamtime",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        CLASS_PATH: os.pathsep.join(filter(None, [*map(str, delta_jars()), given.pop(CLASS_PATH, "")])),
        JVM_OPTIONS: f"{jvm_option('log4j2.configurationFile', log4j.as_uri())} {given.pop(JVM_OPTIONS, '')}".strip(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions_for(cores)),
        "spark.sql.session.timeZone": "UTC",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # call sites cost a millisecond per column expression
        "spark.databricks.delta.snapshotPartitions": "2",
        PROVIDER: ROCKSDB,  # functions over a stream keep their state in it
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    if spark_has.python_sockets:
        made["spark.python.unix.domain.socket.enabled"] = "true"  # 40 ms less per task that calls Python
        if workers_find(modules):
            made["spark.python.daemon.module"] = DAEMON_MODULE
    if spark_has.early_parameters:  # which Delta 4.4.0's parser does not pass on; this lets the analyzer bind them, as before Spark 4.1
        made["spark.sql.legacy.parameterSubstitution.constantsOnly"] = "true"
    made |= given
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever `python3` is first on the PATH
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in made.items():
        builder = builder.config(key, value)
    with python_path(modules):  # of the JVM, whose workers have it, too
        spark = builder.getOrCreate()
    register(spark)
    return spark


def _running() -> SparkSession | None:
    """The session of this thread, or else that of the process, which other threads do not see as theirs."""
    active, made = SparkSession.getActiveSession(), SparkSession._instantiatedSession
    return active if active is not None else made if made is not None and made._sc._jsc is not None else None


def _require_delta() -> None:
    """Where a JVM runs already, it must have Delta Lake: the class path of one that runs stays as it is."""
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    if jvm is not None and isinstance(jvm.io.delta.sql.DeltaSparkSessionExtension, JavaPackage):
        raise RuntimeError(
            "Spark runs in this process already, without Delta Lake, which it cannot be given any more. Call streamtime.session() in a new "
            "process (in a notebook: restart the kernel), before there is any other session."
        )


def quiet_daemon() -> Path:
    """The folder with DAEMON's module. Another process may read it just now."""
    module = cache_folder() / "python" / f"{DAEMON_MODULE}.py"
    if not module.exists() or module.read_text() != DAEMON:
        module.parent.mkdir(exist_ok=True)
        fresh = module.with_name(f"{os.getpid()}.part")
        fresh.write_text(DAEMON)
        fresh.replace(module)
    return module.parent


def workers_find(modules: Path) -> bool:
    """Whether Python workers will look for modules in a folder: a JVM that runs has the environment with which it was started."""
    if os.pathsep in str(modules):  # which no path of folders can say
        return False
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return True
    jvm: Any = SparkContext._jvm
    return str(modules) in (jvm.System.getenv("PYTHONPATH") or "").split(os.pathsep)


@contextmanager
def python_path(modules: Path) -> Iterator[None]:
    """What is started meanwhile looks for Python modules in this folder, too."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [before, str(modules)]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def jvm_option(name: str, value: object) -> str:
    """A property among the options of a JVM, which Spark parts at blanks that are not quoted."""
    return shlex.quote(f"-D{name}={value}")


def in_place(path: Path) -> str:
    """A path of this machine, for Spark, whatever its default file system is. Hadoop reads no %20 as a blank."""
    return unquote(path.absolute().as_uri())


def partitions_for(cores: int | str) -> int:
    """How many partitions a shuffle has: a task for each core. Few, where there are few cores: small data is quick then."""
    count = re.match(r"\d+", str(cores))
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(4, int(count[0]) if count else here)


def lasting(warehouse: Path) -> dict[str, str]:
    """Settings of a session whose tables and views last, in that folder, which is made. One process at a time can use it."""
    warehouse = warehouse.expanduser().resolve()
    warehouse.mkdir(parents=True, exist_ok=True)
    return {
        "spark.sql.warehouse.dir": in_place(warehouse / "tables"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={warehouse / 'metastore'};create=true",
    }


def cache_folder() -> Path:
    """Where jars and settings are kept between runs: $STREAMTIME_CACHE, or the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("STREAMTIME_CACHE") or Path(base) / "streamtime")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def delta_jars() -> list[Path]:
    """Delta's two jars for the Spark at hand, fetched with Spark's own Ivy if they are not in the cache."""
    minor = spark_version(pyspark.__version__).minor
    jars = [cache_folder() / f"delta-{DELTA}" / f"{name}-{DELTA}.jar" for name in (f"delta-spark_{minor}_2.13", "delta-storage")]
    if not all(jar.exists() for jar in jars):
        print(f"streamtime: fetching Delta Lake {DELTA} for Spark {minor} (10 MB, once) ..", file=sys.stderr, flush=True)
        _fetch(jars)
    return jars


def _fetch(jars: list[Path]) -> None:
    ivy = cache_folder() / "ivysettings.xml"
    ivy.write_text(IVY.format(cache=escape(str(cache_folder()))), encoding="utf-8")
    own = os.environ.get("STREAMTIME_IVY_SETTINGS", "")
    # spark-submit resolves the packages before it notices that it has nothing to run
    spark_home = Path(str(importlib.metadata.distribution("pyspark").locate_file("pyspark")))
    coordinates = [f"io.delta:{jar.name.removesuffix(f'-{DELTA}.jar')}:{DELTA}" for jar in jars]
    command = [
        str(spark_home / "bin" / ("spark-submit.cmd" if os.name == "nt" else "spark-submit")),
        "--conf", f"spark.jars.ivySettings={own if own.startswith('file:') else Path(own or ivy).absolute().as_uri()}",
        "--conf", f"spark.jars.ivy={cache_folder() / 'ivy'}",
        "--packages", ",".join(coordinates),
        "--exclude-packages", "org.apache.spark:*,org.apache.hadoop:*,io.unitycatalog:*,org.antlr:*,io.delta:delta-kernel-api,"
        "io.delta:delta-kernel-defaults,io.delta:delta-kernel-unitycatalog,org.roaringbitmap:*,com.fasterxml.jackson.core:*,"
        "com.fasterxml.jackson.datatype:*,org.slf4j:*,org.apache.parquet:*,com.github.luben:*,org.xerial.snappy:*,io.airlift:*",
        "--class", "org.apache.hadoop.util.VersionInfo", "--master", "local[1]", "spark-internal",
    ]  # fmt: skip
    environment = os.environ | {"SPARK_HOME": str(spark_home)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    jars[0].parent.mkdir(parents=True, exist_ok=True)
    for jar in jars:
        cached = sorted((cache_folder() / "ivy").rglob(f"*{jar.name}"))
        if not cached:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise RuntimeError(
                f"Delta's jar {jar.name} could not be fetched from Maven Central. Behind a mirror, set STREAMTIME_IVY_SETTINGS to an Ivy "
                f"settings file that names it; or put {' and '.join(j.name for j in jars)} into {jar.parent}. Ivy said:\n{said}"
            )
        partial = jar.with_name(f"{jar.name}.part")
        partial.write_bytes(cached[0].read_bytes())
        partial.replace(jar)
