"""Sessions for the command line: a quiet local one, whose tables last as long as the user wants, or a Spark Connect server's."""

from __future__ import annotations

import importlib
import re
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECT_PACKAGES = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}
CONNECT_PORT = 15002
REACH = 5.0  # seconds to wait for a server; Spark's own client would try for minutes


class ConnectionFailed(Exception):
    """There is no session to be had; the message says why, and what to do."""


@dataclass(frozen=True)
class Connection:
    """A session and how statements are given to it."""

    spark: SparkSession
    sql: Callable[[str], DataFrame]
    remote: bool
    folder: Path | None = None  # to be removed in the end

    def alive(self) -> bool:
        """Whether the JVM of a local session still runs."""
        process = None if self.remote else getattr(self.spark.sparkContext._gateway, "proc", None)
        return process is None or process.poll() is None

    def close(self) -> None:
        """Stop the session; a local one's temporary tables go with it."""
        if self.alive():
            self.spark.stop()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def local(cores: str = "*", memory: str = "2g", settings: dict[str, str] | None = None, warehouse: Path | None = None) -> Connection:
    """A local session. Tables and views are kept in `warehouse`, or go when the session ends.

    Raises:
        JavaError, ConnectionFailed: with what to do.
    """
    from streamtime import java
    from streamtime.session import JVM_OPTIONS, delta_jars, in_place, jvm_option, lasting, session

    java.check()
    try:
        delta_jars()
        made = lasting(warehouse) if warehouse else {}
    except (OSError, RuntimeError) as error:
        raise ConnectionFailed(str(error)) from None
    folder = Path(tempfile.mkdtemp(prefix="streamtime-"))
    said = folder / "jvm.log"
    spark = None
    try:
        made = {"spark.sql.warehouse.dir": in_place(folder / "tables")} | made | (settings or {})
        derby = jvm_option("derby.stream.error.file", folder / "derby.log")
        made[JVM_OPTIONS] = f"{derby} {made.get(JVM_OPTIONS, '')}".strip()
        with java.stderr_into(said):
            spark = session(cores, memory, made)
            if warehouse:
                spark.sql("SHOW TABLES")  # the metastore opens at its first use
        spark.sparkContext.setLogLevel("OFF")  # a failed statement says so itself, once
    except Exception as error:
        if spark is not None:
            spark.stop()
        told = said.read_text(errors="replace") if said.exists() else ""
        raise ConnectionFailed(start_failure(error, told, warehouse)) from None
    finally:
        if spark is None:
            shutil.rmtree(folder, ignore_errors=True)
    return Connection(spark, spark.sql, remote=False, folder=folder)


def remote(url: str) -> Connection:
    """A session of a Spark Connect server, `sc://host:port`.

    Raises:
        ConnectionFailed: with what to do.
    """
    host, port = address(url)
    if missing := missing_connect_packages():
        raise ConnectionFailed(f"Spark Connect needs Python packages that are missing here: pip install {' '.join(missing)}")
    try:
        socket.create_connection((host, port), timeout=REACH).close()
    except (OSError, ValueError) as error:
        raise ConnectionFailed(
            f"no server answers at {host}:{port} ({error}). Is it running (sbin/start-connect-server.sh), and is the port right?"
        ) from None
    from pyspark.sql import SparkSession

    import streamtime
    from streamtime.shell.failures import readable

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        served = "server" in streamtime.register(spark).doors  # asks the server
    except Exception as error:
        said = readable(error)
        for parameter in url.split(";")[1:]:
            said = said.replace(parameter, masked(parameter))
        raise ConnectionFailed(f"the server at {masked(url)} gives no session: {said}") from None
    on_this_side: Callable[[str], DataFrame] = partial(streamtime.query, spark)
    return Connection(spark, spark.sql if served else on_this_side, remote=True)


def address(url: str) -> tuple[str, int]:
    """Host and port of `sc://host:port`, behind which parameters may stand.

    Raises:
        ConnectionFailed: it is written otherwise.
    """
    try:
        place = urlsplit(url)
        host, port = place.hostname if place.scheme == "sc" else None, place.port
    except ValueError:  # brackets, or a port that is none
        host = None
    if not host:
        raise ConnectionFailed(f"--remote is written sc://host:port, or sc://host:port/;token=.., not {masked(url)}")
    return host, port or CONNECT_PORT


def masked(url: str) -> str:
    """A server's address without the values of its parameters, one of which may be a token."""
    return re.sub(r"=[^;]*", "=..", url)


def missing_connect_packages() -> list[str]:
    """What pip has to install for a Spark Connect client."""
    return [package for module, package in CONNECT_PACKAGES.items() if not _importable(module)]


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def start_failure(error: Exception, said: str, warehouse: Path | None) -> str:
    """Why Spark does not start, for people; `said` is what its JVM wrote."""
    from streamtime.shell.failures import readable

    if warehouse and "Another instance of Derby" in f"{error}{said}":
        return f"the warehouse {warehouse} is in use by another session; a warehouse serves one at a time."
    last = [line for line in said.splitlines() if line.strip() and not line.startswith(("\tat ", "WARNING: Using incubator"))][-5:]
    return "\n".join([f"Spark does not start: {readable(error)}", *(f"  {line.strip()[:200]}" for line in last)])
