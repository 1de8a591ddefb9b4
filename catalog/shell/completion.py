"""What may come next in a SQL text: keywords, functions, tables and their columns, and inside of a call its options and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamtime.shelf import FUNCTIONS
from streamtime.shell.script import Unclosed, tokens
from streamtime.sql.call.errors import unlogged
from streamtime.sql.call.kinds import Choice, Flag, Text, Texts
from streamtime.sql.call.spec import Option, Spec
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Source, Token, statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORD = re.compile(r"[A-Za-z_][\w.]*$")
VALUE = re.compile(r"(\w+)\s*=>\s*('?\w*)$")
RELATION = ("FROM", "JOIN", "INTO", "TABLE", "UPDATE")
# After these a column may come
OPERAND = (
    "SELECT",
    "DISTINCT",
    "WHERE",
    "BY",
    "ON",
    "AND",
    "OR",
    "NOT",
    "HAVING",
    "WHEN",
    "THEN",
    "ELSE",
    "=",
    "<",
    ">",
    "+",
    "-",
    "*",
    "/",
)
NO_ALIAS = (*RELATION, *OPERAND, "USING", "LEFT", "RIGHT", "INNER", "CROSS", "FULL", "ASOF", "ANTI", "SEMI", "GROUP", "ORDER", "PARTITION")


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
    columns: Callable[[str], Sequence[str]] = lambda _table: ()  # the columns of a table; none where it is not known

    def complete(self, text: str, rest: str = "") -> list[Candidate]:
        """The candidates after `text`, the likeliest first. `rest` is what stands behind the cursor."""
        value, word = VALUE.search(text), WORD.search(text)
        begun = word[0] if word else ""
        before = _tokens(text[: value.start(2)] if value else text[: len(text) - len(begun)])
        if before is None:  # in a string or a comment
            return []
        call = _call(before)
        spec = next((s for s in self.specs if call and s.name == call[0].upper()), None)
        option = spec.option(value[1]) if spec and value else None
        if option and value:
            return list(_values(option, value[2], self._columns(text, rest, "") if value[2] else []))
        last = before[-1].word if before else ""
        offered = list(_options(spec, call[1], begun)) if spec and call and last not in OPERAND else []
        columns = self._columns(text, rest, begun) if begun or last in OPERAND or last in (",", "(") else []
        if offered and last == ",":
            return offered + columns
        offered += columns
        if text.strip() == begun and begun:
            offered += _matching(self.commands, begun, "command")
        if begun:
            offered += _matching(self.tables, begun, "table or view")
            offered += [Candidate(f"{s.name}(", len(begun), "table function") for s in self.specs if s.name.startswith(begun.upper())]
            offered += _matching(self.keywords, begun, "keyword")
            offered += _matching(self.functions, begun, "function")
        elif last in RELATION:
            offered += _matching(self.tables, "", "table or view")
        return offered

    def _columns(self, text: str, rest: str, begun: str) -> list[Candidate]:
        """The columns of the tables in the statement around the cursor; behind `alias.`, of that one."""
        qualifier, _, name = begun.rpartition(".")
        named = relations(text, rest)
        wanted = [named[qualifier.lower()]] if qualifier.lower() in named else [] if qualifier else dict.fromkeys(named.values())
        offered = dict.fromkeys(c for table in wanted for c in self.columns(table) if c.lower().startswith(name.lower()))
        return [Candidate(c if c.isidentifier() else quoted(c), len(name), "column") for c in offered]


class Learned:
    """What a session knows, as a vocabulary's names. What cannot be had is not offered."""

    def __init__(self, spark: SparkSession, vocabulary: Vocabulary) -> None:
        self.spark, self.vocabulary = spark, vocabulary
        self.known: dict[str, list[str]] = {}

    def learn(self, *what: str) -> None:
        """Ask for `tables`, which statements make, and for `functions` and `keywords`; these take Spark seconds, the first time."""
        try:
            if "tables" in what:
                self.vocabulary.tables = self._names("SHOW TABLES", "tableName")
            if "functions" in what:
                self.vocabulary.functions = [n for n in self._names("SHOW FUNCTIONS", "function") if n.isidentifier()]
            if "keywords" in what:
                self.vocabulary.keywords = self._names("SELECT keyword FROM sql_keywords()", "keyword")
        except Exception:
            return

    def columns(self, table: str) -> list[str]:
        """Asked for once, until `forget`."""
        if table not in self.known:
            try:
                with unlogged():
                    self.known[table] = self.spark.table(table).columns
            except Exception:
                self.known[table] = []
        return self.known[table]

    def forget(self) -> None:
        """A statement may have changed the columns of tables."""
        self.known = {}

    def _names(self, sql: str, column: str) -> list[str]:
        return [row[column] for row in self.spark.sql(sql).collect()]


def relations(text: str, rest: str = "") -> dict[str, str]:
    """The tables that the statement at the end of `text` names, by their names and aliases in lower case."""
    source = Source(text + rest)
    start, end = next((start, end) for start, end in statements(text + rest) if start <= len(text) <= end)
    named: dict[str, str] = {}
    for i, token in enumerate(source.tokens):
        if not start <= token.start < end or source.word(i) not in RELATION or source.is_field(i):
            continue
        i += 2 if source.word(i) == "TABLE" and source.word(i + 1) == "(" else 1
        if i >= len(source.tokens) or source.tokens[i].name is None or source.tokens[i].start <= len(text) <= source.tokens[i].end:
            continue
        after = source.name_end(i)
        if source.word(after) == "(" or source.word(i) in NO_ALIAS:
            continue
        table = source.slice(i, after)
        alias = after + (source.word(after) == "AS")
        if alias < len(source.tokens) and (name := source.tokens[alias].name) and source.word(alias) not in NO_ALIAS:
            named.setdefault(name, table)
        named.setdefault(source.tokens[after - 1].name or "", table)
    return named


def _tokens(text: str) -> list[Token] | None:
    if re.search(r"--[^\n]*$", text):
        return None
    try:
        return tokens(text)
    except Unclosed:
        return None


def _call(before: Sequence[Token]) -> tuple[str, list[str]] | None:
    """The innermost call that is still open: its function, and the names of the options that it has already."""
    open_calls: list[tuple[str, list[str]]] = []
    for previous, token, following in zip([None, *before], before, [*before[1:], None], strict=False):
        if token.word == ";":
            open_calls = []
        elif token.word in ("(", "["):
            open_calls.append(((previous.spelled if previous else None) or "", []))
        elif token.word in (")", "]") and open_calls:
            open_calls.pop()
        elif open_calls and following and following.word == "=>" and token.name:
            open_calls[-1][1].append(token.name)
    return open_calls[-1] if open_calls else None


def _options(spec: Spec, given: Iterable[str], begun: str) -> Iterator[Candidate]:
    for option in spec.options:
        if option.name.startswith(begun.lower()) and option.name not in given:
            yield Candidate(f"{option.name} => ", len(begun), f"{option.kind.sql}: {option.help}")


def _values(option: Option, begun: str, columns: Sequence[Candidate]) -> Iterator[Candidate]:
    words: Sequence[str] = ()
    if (isinstance(option.kind, Text) and option.kind.expression) or isinstance(option.kind, Texts):
        words = [f"'{c.text}'" for c in columns]
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
