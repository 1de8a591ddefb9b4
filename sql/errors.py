"""Errors of a call (rule C8): the function, the argument, what was expected, what came, and the fix."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger


class CallError(ValueError):
    """A call of a function is wrong. Raised when the query is analysed, never while it runs.

    `function` is the SQL name, `argument` the option or clause at fault (or None for the call as a whole).
    """

    def __init__(self, function: str, argument: str | None, problem: str, fix: str | None = None) -> None:
        self.function, self.argument, self.problem, self.fix = function, argument, problem, fix
        where = f"{function}, {argument}" if argument else function
        super().__init__(f"{where}: {problem}{'' if problem.endswith(('.', '?')) else '.'}{' ' + fix if fix else ''}")


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The closest known name as a question, or None when nothing is close."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"Did you mean `{by_lower[close[0]]}`?" if close else None


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names as one readable list, cut where it would no longer be read."""
    names = list(names)
    more = len(names) - most
    return ", ".join(f"`{n}`" for n in names[:most]) + (f" and {more} more" if more > 0 else "")


def gist(error: Exception, most: int = 160) -> str:
    """The first line of an error that says something, cut to a readable length."""
    line = next((text.strip() for text in str(error).splitlines() if text.strip()), type(error).__name__)
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " .."


@contextmanager
def unlogged() -> Iterator[None]:
    """Keeps PySpark from logging the errors of this thread, where asking Spark for an error is how a call is checked."""
    thread = threading.get_ident()

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [PySparkLogger.getLogger(n) for n in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    for logger in loggers:
        logger.addFilter(elsewhere)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(elsewhere)
