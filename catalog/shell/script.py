"""SQL scripts: a text as its statements, each with the comment that stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamtime.sql.syntax import tokens as lexer
from streamtime.sql.syntax.tokens import Source, Token, unclosed


@dataclass(frozen=True)
class CommentedStatement:
    """One statement of a script, as written, and the lines of its leading comment, without their dashes."""

    comment: tuple[str, ...]
    sql: str


class Unclosed(ValueError):
    """A string, a quoted name or a comment never ends: where it begins."""


def tokens(text: str) -> list[Token]:
    """The words and signs of a SQL text. Raises Unclosed where a string or a comment is not closed."""
    source, endless = Source(text), unclosed(text)
    if endless is not None:
        raise Unclosed(source.position(endless))
    return source.tokens


def finished(text: str) -> bool:
    """Whether a text ends with the semicolon of its last statement, comments aside."""
    try:
        words = tokens(text)
    except Unclosed:
        return False
    return bool(words) and words[-1].word == ";"


def statements(text: str) -> Iterator[CommentedStatement]:
    """The statements of a SQL text. Semicolons in strings and comments do not end one. Raises Unclosed."""
    tokens(text)
    for start, end in lexer.statements(text):
        lines = text[start:end].strip().splitlines()
        leading = 0
        while leading < len(lines) and (lines[leading].startswith("--") or not lines[leading].strip()):
            leading += 1
        sql = "\n".join(lines[leading:]).strip()
        if sql:
            yield CommentedStatement(tuple(line.removeprefix("--").removeprefix(" ") for line in lines[:leading]), sql)
