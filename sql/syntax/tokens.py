"""SQL text cut as Spark's own lexer cuts it: words, quoted names, strings and signs, each with its place. Comments and hints are blanks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Span = tuple[int, int]  # offsets into a text

LEXER = re.compile(
    r"""
      (?P<blank>  \s+ | --(?:\\\n|[^\r\n])* )
    | (?P<comment>/\*)
    | (?P<string> [rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<quoted> `(?:[^`]|``)*` )
    | (?P<word>   \w+ )
    | (?P<sign>   => | \|> | :: | <=> | <= | >= | <> | != | !< | !> | == | -> | \|\| | . )
    """,
    re.DOTALL | re.VERBOSE,
)
BEFORE = (";", ":", "BEGIN", "ATOMIC", "THEN", "ELSE", "DO", "LOOP", "REPEAT")  # behind these a statement of a script begins
ENDED = {"IF", "CASE", "WHILE", "LOOP", "REPEAT", "FOR"}  # these stand behind their END
COMMENT = re.compile(r"/\*(?!\+)|\*/")


class Token(NamedTuple):
    """A piece of SQL text: `kind` is word, quoted, string or sign; `name` is what it names, in lower case."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def spelled(self) -> str | None:
        """The identifier, without its quotes; None for anything else."""
        if self.kind == "word":
            return self.text
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else None

    @property
    def name(self) -> str | None:
        """The same in lower case."""
        return None if self.spelled is None else self.spelled.lower()

    @property
    def word(self) -> str:
        """A word in upper case, to compare with keywords; a sign as it is; nothing for a string or a quoted name."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


class Source:
    """A SQL text, its tokens, and what its parentheses hold together: `closing` is where each ends, `around` in which each token stands."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, tokens(text)
        self.closing: dict[int, int] = {}
        self.around: list[int | None] = []
        opened: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.word in (")", "]") and opened:
                self.closing[opened.pop()] = i
            self.around.append(opened[-1] if opened else None)
            if token.word in ("(", "["):
                opened.append(i)

    def word(self, i: int) -> str:
        """A token to compare with keywords; nothing before the first one and after the last."""
        return self.tokens[i].word if 0 <= i < len(self.tokens) else ""

    def is_field(self, i: int) -> bool:
        """Whether it is a name after a dot, whatever word it is."""
        return self.word(i - 1) == "."

    def name_end(self, i: int) -> int:
        """The token after a name of one or more parts that starts here."""
        while self.word(i + 1) == "." and i + 2 < len(self.tokens) and self.tokens[i + 2].name is not None:
            i += 2
        return i + 1

    def words(self, start: int, count: int) -> list[str]:
        """Some tokens from there on, to compare with keywords."""
        return [t.word for t in self.tokens[start : start + count]]

    def level(self, start: int, end: int) -> Iterator[int]:
        """The tokens of a stretch that stand in none of its parentheses."""
        i = start
        while i < end:
            yield i
            i = self.closing.get(i, i) + 1

    def span(self, start: int, end: int) -> Span:
        """From token to token, without blanks and comments at the ends."""
        return self.tokens[start].start, self.tokens[end - 1].end

    def slice(self, start: int, end: int) -> str:
        """The text from token to token, as written."""
        return self.text[slice(*self.span(start, end))] if start < end else ""

    def within(self, spans: Sequence[Span]) -> Iterator[Token]:
        """The tokens that lie in these spans."""
        return (t for t in self.tokens if any(start <= t.start < end for start, end in spans))

    def position(self, offset: int) -> str:
        """A place, as Spark's errors say it."""
        line, column = line_and_position(self.text, offset)
        return f"line {line} pos {column}"


def line_and_position(text: str, offset: int) -> tuple[int, int]:
    """The line, counted from 1, and the position in it, counted from 0, as Spark's errors have them."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset) - 1


def offset(text: str, line: int, position: int) -> int:
    """Where that place is in the text."""
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at + position


def blank(text: str) -> str:
    """As many blanks, line ends kept."""
    return re.sub(r"[^\r\n]", " ", text)


def tokens(text: str) -> list[Token]:
    """The tokens of a text. What never ends (a string, a comment) is left to Spark to refuse."""
    return [Token(kind, text[start:end], start, end) for kind, start, end in _pieces(text) if kind not in ("blank", "comment")]


def unclosed(text: str) -> int | None:
    """Where a string, a quoted name or a comment begins that never ends; None where all end."""
    endless = (start for kind, start, end in _pieces(text) if (kind == "sign" and text[start] in "'\"`") or end > len(text))
    return next(endless, None)


def statements(text: str) -> list[Span]:
    """Where the statements of a text stand: what lies between semicolons, blanks and comments included. A script (BEGIN .. END) is one."""
    cut = tokens(text)
    words = [t.word for t in cut]
    edges, depth, first = [-1], 0, 0
    for i, word in enumerate(words):
        before = words[i - 1] if i else ""
        if word == "BEGIN":
            within = depth > 0 and (before in BEFORE or "HANDLER" in words[first:i])
            if within or (i - first in (0, 2) and is_script(words[first : i + 2])):
                depth, first = depth + 1, i + 1
        elif word == "END" and before in (";", "BEGIN", "ATOMIC") and not {*words[i + 1 : i + 2]} & ENDED:
            depth = max(depth - 1, 0)
        elif word == ";":
            first = i + 1
            edges += [] if depth else [cut[i].start]
    return [(before + 1, end) for before, end in itertools.pairwise([*edges, len(text)])]


def is_script(words: Sequence[str]) -> bool:
    """Whether a statement of these words is a script, BEGIN .. END, which may have a label. BEGIN; begins a transaction, elsewhere."""
    begins = 2 if words[1:2] == [":"] else 0
    return words[begins : begins + 1] == ["BEGIN"] and words[begins + 1 : begins + 2] not in ([";"], ["TRANSACTION"])


def said_from(text: str, start: int, end: int) -> int:
    """Where a stretch says something, behind blanks and comments of a line; its end, if nowhere."""
    return next((at for kind, at, _ in _pieces(text[:end], start) if kind != "blank"), end)


def _pieces(text: str, at: int = 0) -> Iterator[tuple[str, int, int]]:
    """All of a text from there on, cut: kinds and places. A comment that never ends goes on beyond the end."""
    while at < len(text):
        match = LEXER.match(text, at)
        assert match is not None
        kind = match.lastgroup or ""
        end = _after_comment(text, at) if kind == "comment" else match.end()
        yield kind, at, end
        at = end


def _after_comment(text: str, start: int) -> int:
    """Where a comment ends that starts here. Comments nest."""
    depth = 1
    for mark in COMMENT.finditer(text, start + 2):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return len(text) + 1
