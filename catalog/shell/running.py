"""Runs a query in a thread beside the terminal: Ctrl-C cancels the query and not the program, and a long one shows how far it is."""

from __future__ import annotations

import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 1.0  # seconds after which a query counts as long
BEAT = 0.2
ERASE = "\r\x1b[K"


class Cancelled(Exception):
    """The query was cancelled with Ctrl-C."""


class Runner:
    """One query at a time, in a thread of its own under a job group (or, over Spark Connect, a tag) by which it can be cancelled.

    In the main thread while a query runs: no exception comes from Ctrl-C, which could tear a reply of the JVM apart.
    """

    def __init__(self, spark: SparkSession, remote: bool, progress: Progress) -> None:
        self.spark, self.remote, self.progress = spark, remote, progress
        self.interrupts = 0

    def run(self, work: Callable[[], None]) -> None:
        """Do the work. Raises what it raises, or Cancelled after Ctrl-C. A second Ctrl-C no longer waits for the query to end."""
        tag = f"streamtime-{uuid.uuid4().hex}"
        raised: list[BaseException] = []

        def body() -> None:
            try:
                if self.remote:
                    self.spark.addTag(tag)
                else:
                    self.spark.sparkContext.setJobGroup(tag, "streamtime sql", interruptOnCancel=True)
                work()
            except BaseException as error:
                raised.append(error)

        thread = self._thread(body)
        self.interrupts = 0
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            self.progress.start(self.spark, tag, self.remote)
            thread.start()
            while thread.is_alive() and self.interrupts < 2:
                thread.join(BEAT)
                if self.interrupts:
                    self._cancel(tag)  # again and again: a query may be between two jobs
                elif thread.is_alive():
                    self.progress.show()
        finally:
            self.progress.hide()
            signal.signal(signal.SIGINT, before)
        if self.interrupts:
            raise Cancelled("still stopping in the background" if thread.is_alive() else "")
        if raised:
            raise raised[0]

    def _interrupted(self, *_: object) -> None:
        self.interrupts += 1

    def _thread(self, body: Callable[[], None]) -> threading.Thread:
        if self.remote:
            return threading.Thread(target=body, daemon=True)
        from pyspark import InheritableThread

        thread = InheritableThread(target=body, session=self.spark)
        thread.daemon = True
        return thread

    def _cancel(self, tag: str) -> None:
        if self.remote:
            self.spark.interruptTag(tag)
        else:
            self.spark.sparkContext.cancelJobGroup(tag)


class Progress:
    """One line on a terminal about a running query, from its second second until its end or its first output."""

    def __init__(self, out: TextIO = sys.stderr, wanted: bool | None = None) -> None:
        self.out = out
        self.wanted = out.isatty() if wanted is None else wanted
        self.lock = threading.Lock()
        self.shown = self.listens = False
        self.over = True

    def start(self, spark: SparkSession, tag: str, remote: bool) -> None:
        """A query begins."""
        self.spark, self.tag, self.remote = spark, tag, remote
        self.began = time.monotonic()
        self.over = False
        self.heard = ""
        if remote and self.wanted and not self.listens:
            spark.registerProgressHandler(self._hear)  # type: ignore[arg-type]  # any callable will do
            self.listens = True

    def show(self) -> None:
        """Write the line anew, if there is someone to read it and the query is long."""
        if not self.wanted or self.over or time.monotonic() - self.began < PATIENCE:
            return
        done = self.heard if self.remote else self._ask()
        text = ", ".join(part for part in ("running", done, f"{time.monotonic() - self.began:.0f} s") if part)
        with self.lock:
            if not self.over:
                self.write(text)
                self.shown = True

    def hide(self) -> None:
        """Erase the line for good."""
        with self.lock:
            self.over = True
            if self.shown:
                self.write("")
                self.shown = False

    def write(self, text: str) -> None:
        """Put this in the place of what was written before; no text erases it."""
        self.out.write(f"{ERASE}{text} (Ctrl-C cancels)" if text else ERASE)
        self.out.flush()

    def _ask(self) -> str:
        tracker = self.spark.sparkContext.statusTracker()
        ours = set(tracker.getJobIdsForGroup(self.tag))
        jobs = [info for job in tracker.getActiveJobsIds() if job in ours and (info := tracker.getJobInfo(job))]
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        return told([(s.numTasks, s.numCompletedTasks) if s else (0, 0) for s in stages])

    def _hear(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        self.heard = told([(stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()])


def told(stages: list[tuple[int, int]]) -> str:
    """How far these stages are; each is given as its tasks and how many of them are done. A stage that is yet to begin has none."""
    if not stages:
        return ""
    done = sum(1 for tasks, completed in stages if tasks and completed == tasks)
    tasks, completed = (sum(counts) for counts in zip(*stages, strict=True))
    return f"stages {done} of {len(stages)} done, tasks {completed:,} of {tasks:,}"
