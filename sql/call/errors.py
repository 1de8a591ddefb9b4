"""Errors of a call (rule C8): the function, the argument, what was expected, what came, and the fix."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

# What is shown is one line, and must not steer a terminal or turn its text around
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: "\\t", 10: "\\n", 13: "\\r"}
TURNING = {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
MOST = 400  # the characters of a problem or a fix; more are no longer read
TOO_DEEP = "is nested too deeply for Spark's parser"


def echoed(text: str, most: int = MOST) -> str:
    """Text with something of the user's in it, as an error shows it: one line; short ones as they are, long ones without their middle."""
    if len(text) > most:
        head, tail = most * 2 // 3, most // 4
        text = f"{text[:head]} .. {len(text) - head - tail:,} characters .. {text[-tail:]}"
    return text.translate(CONTROLS | TURNING)


class CallError(ValueError):
    """A call of a function is wrong. Raised when the query is analysed, never while it runs.

    `function` is its name as the caller writes it, `argument` the option or clause at fault (or None for the call as a whole).
    """

    def __init__(self, function: str, argument: str | None, problem: str, fix: str | None = None) -> None:
        argument = None if argument is None else echoed(argument, 120)
        problem, fix = echoed(problem), None if fix is None else echoed(fix)
        self.function, self.argument, self.problem, self.fix = function, argument, problem, fix
        where = f"{function}, {argument}" if argument else function
        super().__init__(f"{where}: {problem}{'' if problem.endswith(('.', '?')) else '.'}{' ' + fix if fix else ''}")


class NoHistory(CallError):
    """A table keeps no history that could be asked."""


DOORS = (  # of a call that has no plain SQL
    "Run it where the pack is: spark.sql in a driver that registered it, or streamtime.query over Spark Connect."
)
EVENT_TIME = "TIMESTAMP, TIMESTAMP_NTZ or DATE as event time"


def of_other_type(expected: str, came: str, text: str) -> str:
    """The problem of an expression that is not what it is asked to be; `came` is the name of its type."""
    return f"expected {expected}, got {came.upper()} (`{text}`)"


def not_constant(function: str, argument: str | None, text: str | None = None) -> CallError:
    """An option that is no constant."""
    came = "" if text is None else f", got {text}"
    return CallError(function, argument, f"expected a constant{came}", "Options are constants; SQL over columns goes in quotes.")


def not_computed(function: str, argument: str | None, text: str, error: Exception) -> CallError:
    """A constant that cannot be computed."""
    return CallError(function, argument, f"{text} cannot be computed: {gist(error)}")


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The closest known name as a question, or None when nothing is close."""
    if len(name) > MOST:
        return None
    spellings: dict[str, list[str]] = {}
    for k in known:
        spellings.setdefault(k.lower(), []).append(k)
    close = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.6)
    if not close:
        return None
    likeliest = max(spellings[close[0]], key=lambda k: difflib.SequenceMatcher(None, name, k).ratio())
    return f"Did you mean `{likeliest}`?"


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names as one readable list, cut where it would no longer be read."""
    names = list(names)
    more = len(names) - most
    return ", ".join(f"`{n}`" for n in names[:most]) + (f" and {more} more" if more > 0 else "")


def gist(error: Exception, most: int = 160) -> str:
    """The first line of an error that says something, cut to a readable length."""
    line = next((text.strip() for text in str(error).splitlines() if text.strip()), type(error).__name__)
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " .."


def too_deep(error: BaseException) -> bool:
    """Whether the JVM's stack was too small for an expression."""
    thrown = getattr(error, "java_exception", None)
    return thrown is not None and thrown.getClass().getSimpleName() == "StackOverflowError"


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
