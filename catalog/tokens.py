"""SQL text cut as Spark's own lexer cuts it: words, quoted names, strings and signs, each with its place. Comments and hints are blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LEXER = re.compile(
    r"""
      (?P<blank>  \s+ | --(?:\\\n|[^\r\n])* )
    | (?P<comment>/\*)
    | (?P<string> [rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<quoted> `(?:[^`]|``)*` )
    | (?P<word>   \w+ )
    | (?P<sign>   => | \|> | :: | . )
    """,
    re.DOTALL | re.VERBOSE,
)
COMMENT = re.compile(r"/\*(?!\+)|\*/")


class Token(NamedTuple):
    """A piece of SQL text: `kind` is word, quoted, string or sign; `name` is what it names, in lower case."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def name(self) -> str | None:
        """The identifier, without its quotes; None for anything else."""
        if self.kind == "word":
            return self.text.lower()
        return self.text[1:-1].replace("``", "`").lower() if self.kind == "quoted" else None

    @property
    def word(self) -> str:
        """A word in upper case, to compare with keywords; a sign as it is; nothing for a string or a quoted name."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


def tokens(text: str) -> list[Token]:
    """The tokens of a text. What never ends (a string, a comment) is left to Spark to refuse."""
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = LEXER.match(text, at)
        assert found is not None
        kind = found.lastgroup or ""
        at = _after_comment(text, at) if kind == "comment" else found.end()
        if kind not in ("blank", "comment"):
            yield Token(kind, found.group(), found.start(), found.end())


def _after_comment(text: str, start: int) -> int:
    """Where a comment ends that starts here. Comments nest."""
    depth = 1
    for mark in COMMENT.finditer(text, start + 2):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)
