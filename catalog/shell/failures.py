"""Errors of statements as people read them: what is wrong and where, without plans and stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_LINES = 12
AROUND = 100  # a long line is shown this far around the place
POSITION = re.compile(r"\(?line (\d+), ?(?:pos|position) (\d+)\)?|; line (\d+) pos (\d+)")
STACK = re.compile(r"^\s+at \S+\(.*\)\s*$|^\s*\.\.\. \d+ more$|^Driver stacktrace:.*$")
TASK = re.compile(r"\(\S+ executor \S+\): (?:[a-z][\w.$]*(?:Exception|Error): )?")
PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*): (.+)$")
JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
# What only says that something else went wrong
WRAPPER = re.compile(r"\[TASK_WRITE_FAILED\]|\[FAILED_EXECUTE_UDF\]|^Exception thrown in awaitResult|^Job aborted\W*$|^Writing job aborted")
TRACEBACK = "Traceback (most recent call last):"


def readable(error: BaseException, sql: str = "") -> str:
    """A few lines about an error; with the line of `sql` and a mark where Spark says the place."""
    messages = list(_messages(error))
    told = next((m for m in messages if not WRAPPER.search(m)), messages[-1])
    lines = _lines(told)
    deeper = messages[messages.index(told) + 1 :]
    if deeper and (because := _lines(deeper[-1])) and because[0] not in "\n".join(lines):
        lines += [f"because: {because[0]}", *because[1:]]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f".. and {len(lines) - MOST_LINES} more lines"]
    lines += getattr(error, "__notes__", [])
    return "\n".join([*(lines or [type(error).__name__]), *_place(told, sql)])


def _lines(message: str) -> list[str]:
    """What a message says, without the query's plan and the stack."""
    text = message.split("\nJVM stacktrace:")[0].split("\n== SQL")[0].split("\n== DataFrame")[0].split(";\n")[0]
    if (task := list(TASK.finditer(text))) and "stage failure" in text:
        text = text[task[-1].end() :]
    if TRACEBACK in text:
        text = _python(text)
    text = JAVA_CLASS.sub("", text.strip())
    return [line.rstrip() for line in text.splitlines() if line.strip() and not STACK.match(line)]


def _messages(error: BaseException) -> Iterator[str]:
    """What an error and the causes of it say, the innermost last."""
    from py4j.protocol import Py4JJavaError

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, Py4JJavaError):  # one that PySpark has no class for; its str() holds the whole stack
            yield str(seen.java_exception.getMessage() or seen.java_exception.toString())
        else:
            yield str(seen) or type(seen).__name__
        cause = getattr(seen, "_cause", None)
        seen = cause if isinstance(cause, BaseException) else None


def _python(text: str) -> str:
    """The last line of a Python traceback: what the function that failed says."""
    before, _, traceback = text.partition(TRACEBACK)
    said = [m[0] for line in traceback.splitlines() if (m := PYTHON_ERROR.match(line.strip()))]
    return f"{before.strip().splitlines()[0] if before.strip() else 'In Python:'}\n{said[-1] if said else traceback.strip()}"


def _place(text: str, sql: str) -> list[str]:
    place = POSITION.search(text)
    if not place:
        return []
    number, column = (int(place[1]), int(place[2])) if place[1] else (int(place[3]), int(place[4]))
    if "position" in place[0]:  # which counts from 1, where `pos` counts from 0
        column -= 1
    source = sql.split("\n")  # lines end so in Spark's errors, and nowhere else
    if not 0 < number <= len(source) or column > len(source[number - 1]):
        return []
    line, start = re.sub(r"\s", " ", source[number - 1].rstrip("\r")), 0
    if len(line) > AROUND:
        start = max(0, min(column - AROUND // 2, len(line) - AROUND))
        line = line[start : start + AROUND]
    return [f"  {line}", f"  {' ' * (column - start)}^"]
