"""What may come next in a SQL text: keywords, functions, tables, and inside of a call the options of that function and their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from streamtime.script import tokens
from streamtime.shelf import FUNCTIONS
from streamtime.sql.spec import Choice, Flag, Option, Spec

WORD = re.compile(r"[A-Za-z_][\w.]*$")
VALUE = re.compile(r"(\w+)\s*=>\s*('?\w*)$")
OPEN, CLOSED = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class Candidate:
    """A text that may stand in place of the last `replaces` characters, and what it is."""

    text: str
    replaces: int
    meaning: str = ""


@dataclass
class Vocabulary:
    """The names that are known in a session; the pack's functions always are."""

    keywords: Sequence[str] = ()
    functions: Sequence[str] = ()
    tables: Sequence[str] = ()
    commands: Sequence[str] = ()
    specs: Sequence[Spec] = field(default=FUNCTIONS)

    def complete(self, text: str) -> list[Candidate]:
        """The candidates after `text`, the likeliest first."""
        value, word = VALUE.search(text), WORD.search(text)
        begun = word[0] if word else ""
        before = _tokens(text[: value.start(2)] if value else text[: len(text) - len(begun)])
        if before is None:  # in a string or a comment
            return []
        call = _call(before)
        spec = next((s for s in self.specs if call and s.name == call[0].upper()), None)
        option = spec.option(value[1]) if spec and value else None
        if option and value:
            return list(_values(option, value[2]))
        found = list(_options(spec, call[1], begun)) if spec and call else []
        if found and before[-1].token_type is TokenType.COMMA:  # an option, or a column, which nobody knows here
            return found
        if text.strip() == begun and begun:
            found += _matching(self.commands, begun, "command")
        if begun:
            found += _matching(self.tables, begun, "table or view")
            found += [Candidate(f"{s.name}(", len(begun), "table function") for s in self.specs if s.name.startswith(begun.upper())]
            found += _matching(self.keywords, begun, "keyword")
            found += _matching(self.functions, begun, "function")
        elif before and before[-1].text.upper() in ("FROM", "JOIN", "INTO", "TABLE", "UPDATE"):
            found += _matching(self.tables, "", "table or view")
        return found


def _tokens(text: str) -> list[Token] | None:
    if re.search(r"--[^\n]*$", text):
        return None
    try:
        return tokens(text)
    except TokenError:
        return None


def _call(before: Sequence[Token]) -> tuple[str, list[str]] | None:
    """The innermost call that is still open: its function, and the names of the options that it has already."""
    open_calls: list[tuple[str, list[str]]] = []
    for previous, token, following in zip([None, *before], before, [*before[1:], None], strict=False):
        if token.token_type is TokenType.SEMICOLON:
            open_calls = []
        elif token.token_type in OPEN:
            open_calls.append((previous.text if previous else "", []))
        elif token.token_type in CLOSED and open_calls:
            open_calls.pop()
        elif open_calls and following and following.text == "=>":
            open_calls[-1][1].append(token.text.lower())
    return open_calls[-1] if open_calls else None


def _options(spec: Spec, given: Iterable[str], begun: str) -> Iterator[Candidate]:
    for option in spec.options:
        if option.name.startswith(begun.lower()) and option.name not in given:
            yield Candidate(f"{option.name} => ", len(begun), f"{option.kind.sql}: {option.help}")


def _values(option: Option, begun: str) -> Iterator[Candidate]:
    words: Sequence[str] = ()
    if isinstance(option.kind, Choice):
        words = [f"'{word}'" for word in option.kind.words]
    elif isinstance(option.kind, Flag):
        words = ("true", "false")
    for word in words:
        if word.startswith(begun.lower()) or word.startswith(f"'{begun.lower()}"):
            yield Candidate(word, len(begun), option.name)


def _matching(names: Iterable[str], begun: str, meaning: str) -> list[Candidate]:
    """Names in the case in which the user began to write, as long as it is clear."""
    lower = begun.islower() and meaning in ("keyword", "function")
    return [Candidate(n.lower() if lower else n, len(begun), meaning) for n in sorted(names) if n.lower().startswith(begun.lower())]
