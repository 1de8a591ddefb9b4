"""Scripts on the command line: statement after statement, until the first that fails."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from streamtime.shell.console import Console, Failed
from streamtime.shell.running import Cancelled
from streamtime.shell.script import Unclosed, statements, tokens

INTERRUPTED = 130


@dataclass(frozen=True)
class Placed:
    """A statement, the line of its text on which it begins, and the file that it is from, if from one."""

    sql: str
    line: int
    source: str


class UnreadableScript(Exception):
    """A script that cannot be split into statements."""


def split(text: str, source: str = "") -> list[Placed]:
    """The statements of a script with their places; comments alone are none.

    Raises:
        UnreadableScript: a string or a comment is not closed.
    """
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    try:
        return [Placed(s.sql, text.count("\n", 0, s.start) + 1, source) for s in statements(text) if tokens(s.sql)]
    except Unclosed as error:
        raise UnreadableScript(
            f"{source or 'the text'} cannot be split into statements, a quote or a comment is not closed: {error}"
        ) from None


def run(console: Console, script: Sequence[Placed]) -> int:
    """The exit code: 0, 1 if a statement failed, 130 if one was cancelled. The rest of the script is then not run."""
    for number, statement in enumerate(script, 1):
        try:
            console.answer(statement.sql)
        except (Failed, Cancelled) as problem:
            print(told(problem, script, number), file=sys.stderr)
            return INTERRUPTED if isinstance(problem, Cancelled) else 1
    return 0


def told(problem: Failed | Cancelled, script: Sequence[Placed], number: int) -> str:
    """Which statement of a script it was that did not go well, why, and how many are left."""
    statement, left = script[number - 1], len(script) - number
    if len(script) == 1 and not statement.source:
        return str(problem)
    place = f"{statement.source}, line {statement.line}" if statement.source else f"line {statement.line}"
    what = "cancelled" if isinstance(problem, Cancelled) else "failed"
    lines = [f"statement {number} of {len(script)}, {place} {what}:", str(problem), *([unrun(left)] if left else ())]
    return "\n".join(lines)


def unrun(left: int) -> str:
    """That so many statements are left, for people."""
    return f"{left} more statement{'s were' if left > 1 else ' was'} not run."
