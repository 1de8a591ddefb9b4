"""The life of the server: start, say that it is ready, serve until it is told to stop, let queries end, stop."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamtime import java
from streamtime.server import health, passwords, settings
from streamtime.server.doors import Doors, forget_environment
from streamtime.server.ledger import Ledger, log
from streamtime.server.options import TOKEN, CannotServe, Options, check, loopback, secret, token
from streamtime.server.ready import ReadyFile
from streamtime.session import session

TOLD = 3.0  # seconds in which clients hear that their queries were cancelled
FETCHED = 0.5  # .. and JDBC's fetch the last rows
JVM = "jvm.log"


class NotStarted(Exception):
    """Spark does not start: `error` says why, and `said` holds what its JVM wrote."""

    def __init__(self, error: Exception, said: str) -> None:
        super().__init__(str(error))
        self.error, self.said = error, said


class Stop:
    """Set by SIGTERM and SIGINT; `now` by a second one, which ends the grace of running queries."""

    def __init__(self) -> None:
        self.asked, self.now, self.by = threading.Event(), threading.Event(), ""

    def listen(self) -> None:
        """From now on. To be repeated once Spark has started, since PySpark takes SIGINT for itself."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)

    def _told(self, number: int, _: object) -> None:
        (self.now if self.asked.is_set() else self.asked).set()
        self.by = signal.Signals(number).name


def serve(options: Options) -> int:
    """Serve until SIGTERM or SIGINT; gives the exit code: 0 after a stop that was asked for, 1 if Spark died.

    Raises:
        CannotServe, JavaError: it cannot be started like this.
        NotStarted: Spark does not start.
    """
    check(options)
    java.check()
    known = passwords.users(secret(options.passwords, "--passwords"), str(options.passwords)) if options.passwords else None
    keystore = secret(options.keystore_password_file, "--tls-password-file") if options.keystore_password_file else ""
    shown = token(options)
    _make_folders(options)
    began, stop, ledger, ready = time.monotonic(), Stop(), Ledger(), ReadyFile(options.ready_file)
    ready.claim()
    stop.listen()
    state: dict[str, Any] = {"status": "starting"}
    with _folder() as folder, _answering(options, lambda: _health(state, ledger)) as health_port:
        log("starting", master=options.master or f"local[{options.cores}]", warehouse=options.warehouse or "none")
        if shown:
            os.environ[TOKEN] = shown
        doors = _spark(options, folder)
        try:
            stop.listen()
            doors.listen()
            watcher = threading.Thread(target=_watch, args=(doors, ledger), name="streamtime-events", daemon=True)
            watcher.start()
            ports: dict[str, int | None] = {"connect": None, "thrift": None, "health": health_port}
            if options.thrift_port is not None:
                ports["thrift"] = doors.open_thrift(options, keystore, lambda u, p: _refusal(known, stop, u, p))
            if options.connect_port is not None:
                ports["connect"] = doors.open_connect(options, shown)
            state |= {"status": "serving", "spark": doors.spark.version, "since": time.monotonic()}
            _say_ready(options, ports, ready, time.monotonic() - began)
            while not stop.asked.wait(0.5):
                if not doors.alive():
                    state["status"] = "failed"
                    log("failed", error="Spark's JVM is gone", last=_last(folder / JVM), spark_log=_spark_log(options, folder))
                    return 1
            state["status"] = "stopping"
            _end(options, doors, ledger, stop)
            return 0
        finally:
            if doors.alive():
                doors.close()
            ready.remove()
            if stop.asked.is_set():
                log("stopped", seconds=f"{time.monotonic() - began:.0f}", failed_queries=ledger.failed)


def _spark(options: Options, folder: Path) -> Doors:
    """A session, its catalog open, and no door."""
    forget_environment()
    said, spark_log, classes = folder / JVM, _spark_log(options, folder), folder / "classes"
    classes.mkdir()
    known = spark_log.stat().st_size if spark_log.exists() else 0
    spark = None
    try:
        with java.stderr_into(said):
            spark = session(options.cores, options.memory, settings.of(options, folder, spark_log, classes))
            if options.warehouse:
                spark.sql("SHOW TABLES")  # the metastore opens at its first use
    except Exception as error:
        if spark is not None:
            spark.stop()
        raise NotStarted(error, _read(said) + _read(spark_log)[known:]) from error
    return Doors(spark, classes)


def _end(options: Options, doors: Doors, ledger: Ledger, stop: Stop) -> None:
    """Let running queries end, for as long as they are granted; then cancel them."""
    log("stopping", by=stop.by, running=len(ledger.running), grace=options.grace)
    doors.shut_connect()
    until = time.monotonic() + options.grace
    while not ledger.idle(0.2) and time.monotonic() < until and not stop.now.is_set() and doors.alive():
        pass
    left, streams = len(ledger.running), len(doors.streams())
    if left or streams:
        log("cancelling", queries=left, streams=streams)
        doors.cancel()
        ledger.idle(TOLD)
    time.sleep(FETCHED)


def _watch(doors: Doors, ledger: Ledger) -> None:
    """Log what Spark tells, until it tells nothing more."""
    while True:
        try:
            event = doors.next_event()
        except Exception:  # the JVM goes
            return
        if event is not None and (said := ledger.told(event)) is not None:
            words, facts = said
            more = {"sessions": len(ledger.sessions)} if words.startswith("session") else {}
            log(words, **facts, **more)


def _refusal(known: dict[str, str] | None, stop: Stop, user: str, password: str) -> str | None:
    """Why somebody may not come in over JDBC; None if they may."""
    if stop.asked.is_set():
        return "the server is stopping"
    if known is None or passwords.right(known, user, password):
        return None
    log("login refused", door="thrift", user=user)
    time.sleep(1)  # trying many takes long
    return "the user or the password is wrong"


def _say_ready(options: Options, ports: dict[str, int | None], ready: ReadyFile, seconds: float) -> None:
    host, tls = options.host, ";ssl=true" if options.keystore else ""
    written = f"[{host}]" if ":" in host else host
    places = {
        "connect": f"sc://{written}:{ports['connect']}" if ports["connect"] is not None else "off",
        "thrift": f"jdbc:hive2://{written}:{ports['thrift']}/{tls}" if ports["thrift"] is not None else "off",
        "health": f"http://{options.health_host}:{ports['health']}/health" if ports["health"] is not None else "off",
    }
    if ports["connect"] is not None and not loopback(host):
        log("note", says="Spark Connect has no TLS of its own: put a proxy that has it before this port, or the token travels as it is")
    log("ready", **places, pid=os.getpid(), seconds=f"{seconds:.1f}")
    ready.write({"pid": os.getpid(), "host": host, **{f"{door}_port": port for door, port in ports.items()}, **places})


def _health(state: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    facts = {key: value for key, value in state.items() if key != "since"}
    if "since" in state:
        facts["seconds"] = round(time.monotonic() - state["since"])
    return facts | {
        "sessions": {door: ledger.count(door) for door in ("connect", "thrift")},
        "running": len(ledger.running),
        "failed": ledger.failed,
    }


def _last(path: Path) -> str | None:
    """The last line that the JVM wrote to its standard error."""
    lines = [line for line in _read(path).splitlines() if line.strip()]
    return lines[-1] if lines else None


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _spark_log(options: Options, folder: Path) -> Path:
    return (options.spark_log or (options.warehouse or folder) / "spark.log").expanduser().absolute()


def _make_folders(options: Options) -> None:
    """Those that are written to. Raises CannotServe."""
    log = options.spark_log.parent if options.spark_log else None
    for option, folder in (("--warehouse", options.warehouse), ("--spark-log", log)):
        if folder is None:
            continue
        try:
            place = folder.expanduser()
            place.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
        except OSError as error:
            raise CannotServe(f"{option}: the folder {folder} cannot be written to: {error}") from None


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="streamtime-serve-"))
    except OSError as error:
        raise CannotServe(f"TMPDIR: no temporary folder can be made: {error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _answering(options: Options, state: Any) -> Iterator[int | None]:
    if options.health_port is None:
        yield None
        return
    try:
        server = health.start(options.health_host, options.health_port, state)
    except OSError as error:
        raise CannotServe(f"--health-port: {options.health_host}:{options.health_port} cannot be had: {error}") from None
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
