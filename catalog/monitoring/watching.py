"""`streamtime.watch`: a listener that Spark tells of its streaming queries, and a thread that writes what it heard.

Spark waits for its listeners: so the listener only takes notes, and whatever goes wrong with them is a line in the log.
"""

from __future__ import annotations

import atexit
import datetime
import json
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from streamtime.monitoring import events
from streamtime.sql.call.errors import CallError, gist, listed
from streamtime.store.table import delta, qualified

NAME = "watch"
LOG = logging.getLogger("streamtime.streams")
MOST = 100_000  # events that wait for a table which cannot be written
TOLD = 10.0  # seconds in which Spark tells of what has happened


class Watch:
    """Watches the streaming queries of a session until it is closed, or its `with` block ends."""

    def __init__(self, spark: SparkSession, table: str | None, log: bool, every: float) -> None:
        self.spark, self.table, self.log, self.every = spark, table, log, every
        self.lost = 0  # events for which there was no room, or that could not be read
        self._id, self._commits = uuid.uuid4().hex, 0
        self._tried = 0  # of those that wait, how many a commit was tried of, of which nothing was heard
        self._news, self._writing = threading.Condition(), threading.Lock()
        self._waiting: list[events.Event] = []
        self._names: dict[str, str | None] = {}  # of the runs that go on
        self._urgent = self._closed = False
        self._complained: set[str] = set()  # of what, since it worked last
        self._listener = Listener(self)
        spark.streams.addListener(self._listener)
        self._thread = threading.Thread(target=self._write_on, name="streamtime-watch", daemon=True)
        if table is not None:
            self._thread.start()
        if table is not None or not isinstance(spark, SparkSession):
            _close_at_exit(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self) -> None:
        """Return once the table has all that has happened until now."""
        until = time.monotonic() + TOLD
        while time.monotonic() < until and self._names.keys() - self._active():  # Spark tells a moment later that a query has ended
            time.sleep(0.05)
        self._write()

    def close(self) -> None:
        """Write what is known, and watch no more."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
            self.spark.streams.removeListener(self._listener)
        except Exception as problem:  # Spark has stopped, or is gone
            LOG.error("watch: it could not be closed: %s", gist(problem))
        with self._news:
            self._news.notify()
        left = len(self._waiting) + self.lost
        if self.table is not None and left:
            LOG.error("watch: %d events are not in %s: close the watch before Spark stops", left, self.table)

    def heard(self, make: Callable[[], events.Event]) -> None:
        """Note an event. Whatever is wrong with it, the query goes on."""
        try:
            event = make()
            if event["event"] in ("started", "progress"):
                self._names[event["run_id"]] = event["query"]
            if self.log:
                level, text = events.line(event)
                LOG.log(level, "%s", text)
            if self.table is not None:
                self._note(event)
            if event["event"] in ("ended", "failed"):
                self._names.pop(event["run_id"], None)
        except Exception as problem:
            self.lost += 1
            self._complain("an event could not be read", problem)

    def name(self, run_id: str) -> str | None:
        """The name of the query, of which Spark does not tell again at its end."""
        return self._names.get(run_id)

    def _note(self, event: events.Event) -> None:
        with self._news:
            if len(self._waiting) >= MOST:
                self.lost += 1
                return
            self._waiting.append(event)
            if event["event"] in ("ended", "failed"):
                self._urgent = True
                self._news.notify()

    def _active(self) -> set[str]:
        return {str(query.runId) for query in self.spark.streams.active}

    def _write_on(self) -> None:
        while not self._closed:
            with self._news:
                if not self._urgent and not self._closed:
                    self._news.wait(self.every)
                self._urgent = False
            if not self._closed:
                self._write()

    def _write(self) -> None:
        """Append what waits, in one commit. What cannot be written now waits for the next one."""
        with self._writing:
            if not self._tried or self._appended():
                self._appended()

    def _appended(self) -> bool:
        """Whether all went well. What was tried before is tried as it was: Delta leaves out what it has of it."""
        if self.table is not None and (some := self._waiting[: self._tried or len(self._waiting)]):
            self._tried = len(some)
            try:
                rows = [tuple(event.get(name) for name in events.NAMES) for event in some]
                df = self.spark.createDataFrame(rows, self.spark.table(self.table).schema)
                once = {
                    "txnAppId": self._id,
                    "txnVersion": str(self._commits),
                }  # a commit that was made, and not heard of, is not made again
                df.write.format("delta").mode("append").options(**once).saveAsTable(self.table)
            except Exception as problem:
                self._complain(f"{self.table} cannot be written, which is tried again", problem)
                return False
            self._commits, self._tried = self._commits + 1, 0
            self._complained.clear()
            with self._news:
                del self._waiting[: len(some)]
        return True

    def _complain(self, what: str, problem: Exception) -> None:
        """Once, until it works again."""
        if what not in self._complained:
            self._complained.add(what)
            LOG.error("watch: %s: %s", what, gist(problem))


class Listener(StreamingQueryListener):
    """What Spark calls."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def onQueryStarted(self, event: Any) -> None:
        """A query starts."""
        self.watch.heard(lambda: events.started(str(event.id), str(event.runId), event.name, event.timestamp))

    def onQueryProgress(self, event: Any) -> None:
        """A micro-batch is done."""
        self.watch.heard(lambda: events.progressed(json.loads(event.progress.json)))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has come: nothing to note."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""
        run, now = str(event.runId), datetime.datetime.now(datetime.UTC)
        self.watch.heard(lambda: events.ended(str(event.id), run, self.watch.name(run), now, event.exception))


def _close_at_exit(watch: Watch) -> None:
    """Before Python waits for its threads: over Spark Connect, one of PySpark's own goes on as long as anybody listens."""
    known = weakref.ref(watch)

    def close() -> None:
        if (left := known()) is not None:
            left.close()

    getattr(threading, "_register_atexit", atexit.register)(close)


def watch(spark: SparkSession, table: str | None = None, *, log: bool = True, every: float = 10.0) -> Watch:
    """Watch the streaming queries of this session: those that start from now on, their micro-batches and their ends.

    With a `table`, which is made if it is not there, a Delta table has a row for each (`docs/monitoring.md`); new rows are appended every
    `every` seconds, and when a query ends. With `log`, each is a line of Python's logger `streamtime.streams`: a warning where rows were
    lost, an error where a query failed. The queries do not wait for it. Close it before Spark stops, or use `with`.

    Raises:
        CallError: the table is there and has other columns, or this session has no Delta Lake.
    """
    if table is not None:
        table = qualified(spark, table, NAME)
        with delta(spark, NAME):
            spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({events.COLUMNS}) USING delta")
        columns = spark.table(table).columns
        if columns != [*events.NAMES]:
            fix = "Name one that is not there yet: it is made."
            raise CallError(NAME, "`table`", f"{table} is no table of metrics: it has {listed(columns)}", fix)
    if every <= 0:
        raise CallError(NAME, "`every`", f"expected seconds, more than none, got {every}", None)
    return Watch(spark, table, log, every)
