"""SQL scripts: a text as its statements, each with the comment that stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer


@dataclass(frozen=True)
class Statement:
    """One statement of a script, as written, and the lines of its leading comment, without their dashes."""

    comment: tuple[str, ...]
    sql: str


def statements(text: str) -> Iterator[Statement]:
    """The statements of a SQL text. Semicolons in strings and comments do not end one."""
    start = 0
    for token in [*Tokenizer(dialect="spark").tokenize(text), None]:
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
