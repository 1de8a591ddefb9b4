"""SQL scripts: a text as its statements, each with the comment that stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType


@dataclass(frozen=True)
class Statement:
    """One statement of a script, as written, and the lines of its leading comment, without their dashes."""

    comment: tuple[str, ...]
    sql: str


def tokens(text: str) -> list[Token]:
    """The words and signs of a SQL text as Spark reads it. Raises TokenError where a string or a comment is not closed."""
    return Dialect.get_or_raise("spark").tokenize(text)


def finished(text: str) -> bool:
    """Whether a text ends with the semicolon of its last statement, comments aside."""
    try:
        found = tokens(text)
    except TokenError:
        return False
    return bool(found) and found[-1].token_type is TokenType.SEMICOLON


def statements(text: str) -> Iterator[Statement]:
    """The statements of a SQL text. Semicolons in strings and comments do not end one."""
    start = 0
    for token in [*tokens(text), None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            continue
        lines = text[start : token.start if token else None].strip().splitlines()
        leading = 0
        while leading < len(lines) and (lines[leading].startswith("--") or not lines[leading].strip()):
            leading += 1
        sql = "\n".join(lines[leading:]).strip()
        if sql:
            yield Statement(tuple(line.removeprefix("--").removeprefix(" ") for line in lines[:leading]), sql)
        start = token.end + 1 if token else len(text)
