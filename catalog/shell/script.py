"""SQL scripts: a text as its statements, each with the comment that stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamtime.sql.syntax import tokens as lexer
from streamtime.sql.syntax.tokens import Source, Token, unclosed


@dataclass(frozen=True)
class CommentedStatement:
    """One statement of a script, as written, where it starts there, and the lines of its leading comment, without their dashes."""

    comment: tuple[str, ...]
    sql: str
    start: int


class Unclosed(ValueError):
    """A string, a quoted name or a comment never ends: where it begins."""


def tokens(text: str) -> list[Token]:
    """The words and signs of a SQL text. Raises Unclosed where a string or a comment is not closed."""
    source, endless = Source(text), unclosed(text)
    if endless is not None:
        raise Unclosed(source.position(endless))
    return source.tokens


def finished(text: str) -> bool:
    """Whether a text ends with the semicolon of its last statement, comments aside, and not with one in a script (BEGIN .. END)."""
    done, rest = halves(text)
    return bool(done) and unclosed(text) is None and not tokens(rest)


def halves(text: str) -> tuple[str, str]:
    """A text up to the last semicolon that ends a statement, and what stands behind it: one that is not finished, or comments."""
    begins, _ = lexer.statements(text[: unclosed(text)])[-1]
    return text[:begins], text[begins:]


def statements(text: str) -> Iterator[CommentedStatement]:
    """The statements of a SQL text. Semicolons in strings and comments do not end one. Raises Unclosed."""
    tokens(text)
    for start, end in lexer.statements(text):
        at = lexer.said_from(text, start, end)
        if sql := text[at:end].rstrip():
            lines = [line.strip() for line in text[start:at].split("\n")]
            yield CommentedStatement(tuple(line.removeprefix("--").removeprefix(" ") for line in lines if line), sql, at)
