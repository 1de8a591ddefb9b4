"""What a table's property may say of its rows: a simple condition, which marks tombstones.

    streamtime.deleted = 'gone'
    streamtime.deleted = "status IN ('sold out', 'withdrawn') OR price IS NULL"

A property is data: whoever can write to a table can set it, and whoever reads the table would run it. So it is parsed here, all of it, and
what Spark gets is written anew from the parse: names of columns that the table has, literals, and the words and signs of `GRAMMAR`.
There are no functions, no subqueries, no casts and no parameters in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.call.errors import did_you_mean, listed
from streamtime.sql.syntax.text import literal, quoted
from streamtime.sql.syntax.tokens import Source, Token

if TYPE_CHECKING:
    from collections.abc import Callable

GRAMMAR = "a BOOLEAN column, or comparisons (=, <>, <, <=, >, >=, IS NULL, IN) of columns with literals, with AND, OR, NOT"
EXAMPLE = "Write it as 'gone', or \"status = 'sold' OR price IS NULL\"."
OPERATORS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
CONSTANTS = ("NULL", "TRUE", "FALSE")
NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
STRING = re.compile(r"'(?:[^'\\]|'')*'|\"(?:[^\"\\]|\"\")*\"")
LONGEST, DEEPEST = 2_000, 20


class NoMark(ValueError):
    """A text is no such condition: what is wrong, and the fix."""

    def __init__(self, problem: str, fix: str = EXAMPLE) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


def mark(text: str, schema: T.StructType) -> tuple[str, str | None]:
    """The condition as SQL that is safe to run over these columns; and the column, where it is the name of one. Raises NoMark."""
    if len(text) > LONGEST:
        raise NoMark(f"expected at most {LONGEST:,} characters, got {len(text):,}")
    return _Parser(text, schema).whole()


class _Parser:
    """Recursive descent, a method for each rule: all of it is in `GRAMMAR`."""

    def __init__(self, text: str, schema: T.StructType) -> None:
        self.source, self.schema, self.at, self.depth = Source(text), schema, 0, 0

    def whole(self) -> tuple[str, str | None]:
        """The text from end to end."""
        condition = self._any()
        if self.at < len(self.source.tokens):
            raise self._unexpected()
        alone = next((f.name for f in self.schema if quoted(f.name) == condition), None)
        return condition, alone

    def _any(self) -> str:
        return self._chain("OR", lambda: self._chain("AND", self._one))

    def _chain(self, word: str, part: Callable[[], str]) -> str:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"

    def _one(self) -> str:
        if self.depth >= DEEPEST:
            raise NoMark(f"is nested deeper than {DEEPEST} times")
        self.depth += 1
        if self._took("NOT"):
            condition = f"(NOT {self._one()})"
        elif self._took("("):
            condition = self._any()
            if not self._took(")"):
                raise self._unexpected()
            condition = self._is(condition) or condition
        else:
            condition = self._comparison()
        self.depth -= 1
        return condition

    def _comparison(self) -> str:
        if (value := self._literal()) is not None:
            operator = OPERATORS.get(self._word())
            if operator is None:
                raise self._unexpected()
            self.at += 1
            column, _ = self._column()
            return f"({column} {MIRRORED.get(operator, operator)} {value})"
        start = self.at
        column, kind = self._column()
        if (operator := OPERATORS.get(self._word())) is not None:
            self.at += 1
            if (value := self._literal()) is None:
                raise self._unexpected()
            return f"({column} {operator} {value})"
        if (condition := self._is(column)) is not None:
            return condition
        negated = self._took("NOT")
        if self._took("IN"):
            return f"({column} {'NOT ' if negated else ''}IN ({', '.join(self._list())}))"
        if negated:
            raise self._unexpected()
        if not isinstance(kind, T.BooleanType):
            written = self.source.slice(start, self.at)[:80]
            raise NoMark(f"expected a BOOLEAN column, got {kind.simpleString().upper()[:80]} (`{written}`)", "Compare it with a literal.")
        return column

    def _is(self, value: str) -> str | None:
        if not self._took("IS"):
            return None
        negated = "NOT " if self._took("NOT") else ""
        constant = next((c for c in CONSTANTS if self._took(c)), None)
        if constant is None:
            raise self._unexpected()
        return f"({value} IS {negated}{constant})"

    def _list(self) -> list[str]:
        values: list[str] = []
        while self._took("," if values else "("):
            if (value := self._literal()) is None:
                raise self._unexpected()
            values.append(value)
        if not values or not self._took(")"):
            raise self._unexpected()
        return values

    def _literal(self) -> str | None:
        """A literal, written anew; None where none stands here."""
        word, following = self._word(), self.source.tokens[self.at + 1 : self.at + 2]
        if word in CONSTANTS:
            self.at += 1
            return word
        if word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and following and following[0].kind == "string":
            self.at += 1
            return f"{word} {self._literal()}"
        token = self._token()
        if token is not None and token.kind == "string":
            if not STRING.fullmatch(token.text):
                raise NoMark("a string with a backslash or a prefix cannot stand there", "Write it as 'text'.")
            self.at += 1
            quote = token.text[0]
            return literal(token.text[1:-1].replace(quote * 2, quote))
        return self._number()

    def _number(self) -> str | None:
        start, sign = self.at, ""
        if self._word() in ("-", "+"):
            sign = "-" if self._word() == "-" else ""
            self.at += 1
        token = self._token()
        match = NUMBER.match(self.source.text, token.start) if token is not None else None
        if match is None:
            self.at = start
            return None
        while (token := self._token()) is not None and token.start < match.end():
            self.at += 1
        return sign + match[0]

    def _column(self) -> tuple[str, T.DataType]:
        """A column of the table or a field of one, quoted, and its type."""
        kind: T.DataType = self.schema
        parts: list[str] = []
        while not parts or self._took("."):
            token = self._token()
            if token is None or token.kind not in ("word", "quoted") or self.source.word(self.at + 1) == "(":
                raise self._unexpected()
            name = token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")
            fields = {f.name.lower(): f for f in kind.fields} if isinstance(kind, T.StructType) else {}
            if name.lower() not in fields:
                known = [f.name for f in fields.values()]
                fix = did_you_mean(name, known) or (f"There are {listed(known)}." if known else "")
                raise NoMark(f"no column `{'.'.join([*parts, name])[:80]}` in the table", fix)
            kind = fields[name.lower()].dataType
            parts.append(fields[name.lower()].name)
            self.at += 1
        return ".".join(map(quoted, parts)), kind

    def _token(self) -> Token | None:
        return self.source.tokens[self.at] if self.at < len(self.source.tokens) else None

    def _word(self) -> str:
        return self.source.word(self.at)

    def _took(self, word: str) -> bool:
        """Whether this word or sign stands here; if so, it is behind us."""
        same = self._word() == word
        self.at += same
        return same

    def _unexpected(self) -> NoMark:
        """What stands here does not belong there."""
        token = self._token()
        if token is None:
            return NoMark(f"ends too early: expected {GRAMMAR}")
        is_call = token.kind in ("word", "quoted") and self.source.word(self.at + 1) == "("
        got = f"a call of {token.text[:40]}" if is_call else f"'{' '.join(self.source.text[token.start :].split())[:40]}'"
        return NoMark(f"expected {GRAMMAR}, got {got}")
