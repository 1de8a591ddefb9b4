"""How the tests' JVMs are set up: compiled quickly rather than well, since most of them are young; and a channel that is the test's alone."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark.sql.catalog import Catalog

# C1 alone leaves a JVM 48 MB for compiled code. The suite needs 80 after a third of its tests; when it is full, all that follows is interpreted
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=400m"
ROOM = "-Xmn800m"  # for plans, which are thrown away by the gigabyte: a JVM that is left to find that out collects them every few queries
ARCHIVE = Path(sys.prefix) / "spark.jsa"  # made by `archive`; a JVM that cannot use it starts without, and is to say nothing of it
JAVA_OPTIONS = f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else QUICK


def code_cache(spark: Any) -> str:
    """What the JVM says of its compiled code: how much there is, and how often it had to stop compiling."""
    return asked(spark, "compilerCodecache")


def answers_at_once(spark: Any) -> None:
    """The JVM sends the end of a long answer without waiting until its start was acknowledged, which takes 40 ms (Nagle's algorithm).

    Every error that PySpark shows is two such answers, since the JVM's stack is in them.
    """
    server = spark.sparkContext._gateway.java_gateway_server
    kind = server.getClass()
    while kind.getName() != "py4j.GatewayServer":
        kind = kind.getSuperclass()
    field = kind.getDeclaredField("connections")
    field.setAccessible(True)
    connections = field.get(server)
    for place in range(connections.size()):
        connections.get(place).getSocket().setTcpNoDelay(True)


def classes_are_found_once() -> None:
    """Py4J asks the JVM for each part of a class's name, and for each static method, whenever it is written; and a JVM looks through 280 jars."""

    def remembering(kind: type[Any], find: Any) -> None:
        def finds(at: Any, name: str) -> Any:
            found = find(at, name)
            if isinstance(found, JavaPackage | JavaClass | JavaMember):
                at.__dict__[name] = found
            return found

        kind.__getattr__ = finds  # type: ignore[attr-defined]

    for kind in (JVMView, JavaPackage, JavaClass):
        remembering(kind, kind.__getattr__)


# What Hadoop without its native library does by a process of its own for each file, and a process costs 4 ms of a core
JAVA_FILES = """
public class QuietFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission) {}
}
"""
MANAGER = "org.apache.spark.sql.execution.streaming.{}FileSystemBasedCheckpointFileManager"


def no_process_for_a_file(spark: Any) -> None:
    """Local files are written without `chmod`, and checkpoints of streams without `readlink`: of these, one test of a stream started 600.

    Tests with a process of their own have Spark as it is.
    """
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(JAVA_FILES)
    files = compiler.getClassLoader().loadClass("QuietFiles").getConstructor(gateway.new_array(jvm.Class, 0)).newInstance(None)
    here, settings = jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    files.initialize(here, settings)
    local = jvm.org.apache.hadoop.fs.LocalFileSystem(files)
    local.initialize(here, settings)
    cached = gateway.new_array(jvm.Class, 3)
    names = ("java.net.URI", "org.apache.hadoop.conf.Configuration", "org.apache.hadoop.fs.FileSystem")
    values = gateway.new_array(jvm.Object, 3)
    for place, (name, value) in enumerate(zip(names, (here, settings, local), strict=True)):
        cached[place], values[place] = jvm.Class.forName(name), value
    put = jvm.Class.forName(names[2]).getDeclaredMethod("addFileSystemForTesting", cached)
    put.setAccessible(True)
    put.invoke(None, values)
    package = "" if spark.version.startswith("4.0.") else "checkpointing."
    spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", MANAGER.format(package))


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}  # as Spark is


_compiling: dict[str, tuple[int, dict[str, str]]] = {}  # by session: who asks for it now, and its settings before
_counting = Lock()


@contextmanager
def compiled(spark: Any) -> Iterator[None]:
    """Plans are compiled meanwhile: until the last that asks for it is done, since several threads may."""
    session = spark._jsparkSession.sessionUUID()
    with _counting:
        asking, before = _compiling.get(session, (0, {}))
        if not asking:
            before = {name: spark.conf.get(name) for name in COMPILED}
            _set(spark, COMPILED)
        _compiling[session] = asking + 1, before
    try:
        yield
    finally:
        with _counting:
            asking, before = _compiling.pop(session)
            if asking > 1:
                _compiling[session] = asking - 1, before
            else:
                _set(spark, before)


def _set(spark: Any, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def catalogs_are_compiled(spark: Any) -> None:
    """What `spark.catalog` lists is read by code that Spark has compiled only: EXPRESSION_DECODING_FAILED without.

    It is read as it is listed, by the settings of the thread's active session, which may be another: `createDataFrame` leaves its own.
    """
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession

    def asked_compiled(ask: Any) -> Any:
        @functools.wraps(ask)
        def asks(catalog: Any, *arguments: Any, **options: Any) -> Any:
            sessions.setActiveSession(catalog._sparkSession._jsparkSession)
            with compiled(catalog._sparkSession):
                return ask(catalog, *arguments, **options)

        return asks

    for name, method in vars(Catalog).items():
        if callable(method) and not name.startswith("_"):
            setattr(Catalog, name, asked_compiled(method))


def instances(spark: Any, *classes: str) -> dict[str, int]:
    """How many objects of these classes are alive in the JVM, after it has collected what is not."""
    lines = (line.split() for line in asked(spark, "gcClassHistogram", ()).splitlines())
    found = {words[3]: int(words[1]) for words in lines if len(words) > 3 and words[1].isdigit()}
    return {name: found.get(name, 0) for name in classes}


def asked(spark: Any, question: str, *options: tuple[str, ...]) -> str:
    """What a diagnostic command of the JVM answers; some take options."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    texts = array(jvm.String, *["[Ljava.lang.String;" for _ in options])
    objects = array(jvm.Object, *[array(jvm.String, *option) for option in options])
    command = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    kinds = array(jvm.Class, command.getClass(), jvm.Class.forName("java.lang.String"), objects.getClass(), texts.getClass())
    ask = jvm.Class.forName("javax.management.MBeanServerConnection").getMethod(
        "invoke", kinds
    )  # Py4J sees no method of the hidden class behind
    beans = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    return str(ask.invoke(beans, array(jvm.Object, command, question, objects, texts)))


@contextmanager
def talking(script: Path, *arguments: str, **how: Any) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A Python program of the tests, and the lines that it says: to a pipe of its own, since a JVM also writes to stdout."""
    listening, saying = os.pipe()
    command = [sys.executable, str(script), str(saying), *arguments]
    try:
        process = subprocess.Popen(command, pass_fds=(saying,), text=True, **how)
    finally:
        os.close(saying)
    with os.fdopen(listening) as said, process:
        yield process, said


def say(channel: str, line: object) -> None:
    """One line to who listens, from within such a program."""
    os.write(int(channel), f"{line}\n".encode())
