"""`type: streamtime` in a profile: dbt-spark, whose statements may call the functions, whoever runs them.

`method: session` runs them in this process, in a session that the pack made. With any other method they run in a server: where that has the
pack, as they are; where it does not, as plain SQL, compiled here on their way (`streamtime.dbt.compiled`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.base.meta import available
from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.spark import SparkAdapter, SparkConnectionManager, SparkCredentials
from dbt.adapters.spark.connections import SparkConnectionMethod, SparkConnectionWrapper
from dbt.flags import get_flags
from dbt_common.exceptions import DbtRuntimeError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtime.dbt.compiled import Server
from streamtime.maintained.maintaining import maintain
from streamtime.session import JVM_OPTIONS, jvm_option, lasting, session
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.errors import CallError

NAMES = "|".join(["versioned table", *(s.name for s in FUNCTIONS)])
OURS = re.compile(rf"\b(?:{NAMES})(?:, [^\n]+?)?: [^\n]*?; line \d+ pos \d+")
STRING_TIME = re.compile(r"(?:as event time|a column of TIMESTAMP, TIMESTAMP_NTZ or DATE), got STRING\b")
SEED = " A seed's column gets its type in dbt_project.yml, seeds: {+column_types: {ts: timestamp}}; then build with --full-refresh."


@dataclass
class Credentials(SparkCredentials):
    """What a profile says. `warehouse`, `cores` and `memory` are of `method: session`; all else is dbt-spark's."""

    host: str | None = None  # needs none there
    warehouse: str = "warehouse"  # the folder that keeps tables and views, in the project's unless it is absolute
    cores: str = "*"
    memory: str = "2g"

    def __post_init__(self) -> None:
        if self.method == SparkConnectionMethod.SESSION:
            self.host = self.host or "this process"
        super().__post_init__()

    @property
    def type(self) -> str:
        """The adapter's name."""
        return "streamtime"


class Connections(SparkConnectionManager):
    """Opens connections for threads of dbt."""

    TYPE = "streamtime"
    starting = threading.Lock()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """With a session, or a server that may not have the pack, behind it."""
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials: Credentials = connection.credentials
        if credentials.method == SparkConnectionMethod.SESSION:
            with cls.starting:
                _start(credentials)
        opened = super().open(connection)
        if credentials.method != SparkConnectionMethod.SESSION:
            opened.handle = Remote(opened.handle)
        return opened

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """What a wrong call says is shown as it is, without what the way to here wrapped around it."""
        try:
            with super().exception_handler(sql):
                yield
        except DbtRuntimeError as error:
            raise DbtRuntimeError(said(str(error.msg))) from None


class StreamtimeAdapter(SparkAdapter):
    """dbt-spark's, but for its connections. dbt finds the version by this class's name."""

    ConnectionManager = Connections

    @available
    def maintain(
        self, target: str, sql: str, key: str | list[str] | None, policy: str, properties: dict[str, str], explain: bool = False
    ) -> str:
        """One run of `streamtime.maintain`, for the materialization of that name: what its receipt says. Or what a run would do."""
        if self.config.credentials.method != SparkConnectionMethod.SESSION:
            raise DbtRuntimeError(f"materialized='maintained' needs `method: session`; {target} is built through a server.")
        try:
            spark = SparkSession.builder.getOrCreate()
            return str(maintain(spark, target, sql, key=key, policy=policy, properties=properties, explain=explain))
        except (CallError, AnalysisException) as error:
            raise DbtRuntimeError(str(error)) from None


class Remote(SparkConnectionWrapper):
    """A connection to a server: what it is asked goes there as that server understands it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.server = inner, Server(inner.handle)

    def cursor(self) -> Remote:
        """Itself, as dbt-spark's are."""
        self.inner.cursor()
        return self

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        """One statement. One with bindings inserts the rows of a seed."""
        self.inner.execute(self.server.understands(sql) if bindings is None else sql, bindings)

    def fetchall(self) -> Any:
        """The rows."""
        return self.inner.fetchall()

    def fetchone(self) -> Any:
        """The next row."""
        return self.inner._cursor.fetchone()

    def cancel(self) -> None:
        """The statement that runs."""
        self.inner.cancel()

    def close(self) -> None:
        """The connection."""
        self.inner.close()

    def rollback(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: Spark has no transactions over several statements."""

    @property
    def description(self) -> Any:
        """Of the result's columns."""
        return self.inner.description


def said(message: str) -> str:
    """The one line of a wrong call, wherever it comes from; with what a seed needs, where a time is a STRING."""
    match = OURS.search(message)
    line = match[0] if match else message
    return line + SEED if STRING_TIME.search(line) else line


def _start(credentials: Credentials) -> None:
    """The session that dbt-spark's `getOrCreate` will find. The first connection makes it, or what runs dbt in its own process did."""
    folder = Path(get_flags().PROJECT_DIR, credentials.warehouse).expanduser().resolve()
    log = {JVM_OPTIONS: jvm_option("derby.stream.error.file", folder / "derby.log")}
    session(credentials.cores, credentials.memory, lasting(folder) | log | credentials.server_side_parameters)


PLUGIN = AdapterPlugin(
    adapter=StreamtimeAdapter, credentials=Credentials, include_path=str(Path(__file__).parent / "included"), dependencies=["spark"]
)
