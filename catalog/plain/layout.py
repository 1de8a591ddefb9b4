"""The text of a query on lines that people can read: only blanks and the ends of lines are changed.

A clause has a line of its own. What is longer than a line is cut where it parts: at commas, before AND, at the branches of a CASE, else
inside of its longest parentheses.
"""

from __future__ import annotations

import itertools

from streamtime.plain.parentheses import Brackets

WIDTH = 120
SHORT = 40  # items up to that share a line
JOINS = ("JOIN", "OUTER", "SEMI", "ANTI")
FOLLOWED = {  # what a clause begins with, and what must follow for it to be one
    **dict.fromkeys(("GROUP", "SORT", "DISTRIBUTE", "ORDER"), ("BY",)),
    **dict.fromkeys(("LEFT", "RIGHT", "FULL", "INNER", "CROSS"), JOINS),
    "LATERAL": ("VIEW",),
}
IN_WINDOWS = ("PARTITION", "ORDER", "ROWS", "RANGE")


def laid_out(text: str, indent: int) -> str:
    """A query, on lines that begin so far from the left."""
    layout = _Layout(text)
    return "\n".join(layout.query(0, len(layout.tokens), indent))


class _Layout(Brackets):
    """Stretches of tokens, as lines."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.gaps = [self.gap(i) for i in range(len(self.tokens))]
        self.widths = [0, *itertools.accumulate(len(gap) + len(t.text) for gap, t in zip(self.gaps, self.tokens, strict=True))]

    def query(self, start: int, end: int, indent: int) -> list[str]:
        """A SELECT, or several with UNION ALL between them."""
        cuts = [i for i in self.level(start, end) if i > start and self._begins_clause(i)]
        lines = list[str]()
        for first, last in itertools.pairwise([start, *cuts, end]):
            word = self.keyword(first)
            if word == "SELECT":
                lines += self._select(first, last, indent)
            elif word == "FROM" and self.keyword(first + 1) == "(" and self.keyword(first + 2) == "SELECT":
                close = self.closing[first + 1]
                lines.append(" " * indent + "FROM (")
                lines += [*self.query(first + 2, close, indent + 2), *self._lines(close, last, indent)]
            else:
                lines += self._lines(first, last, indent)
        return lines

    def _begins_clause(self, i: int) -> bool:
        word, after, before = self.keyword(i), self.keyword(i + 1), self.keyword(i - 1)
        if word == "JOIN":
            return before not in (*JOINS, "LEFT", "RIGHT", "FULL", "INNER", "CROSS")
        return word in ("FROM", "WHERE", "UNION") or (word == "SELECT" and before != "(") or after in FOLLOWED.get(word, ())

    def _select(self, start: int, end: int, indent: int) -> list[str]:
        if self._fits(start, end, indent):
            return self._flat(start, end, indent)
        first = start + (2 if self.keyword(start + 1) == "DISTINCT" else 1)
        hint = self.gaps[first].rstrip()
        lines = self._flat(start, first, indent)
        lines[0] += hint
        return lines + self._list(first, end, indent + 2)

    def _list(self, start: int, end: int, indent: int) -> list[str]:
        """What commas part, an item a line; short ones share lines."""
        cuts = [i + 1 for i in self.level(start, end) if self.keyword(i) == ","]
        lines, is_open = list[str](), False  # the last line may take another short one
        for first, last in itertools.pairwise([start, *cuts, end]):
            is_short = self._width(first, last) <= SHORT and not any(i in self.closing for i in range(first, last))
            text = self._text(first, last)
            if is_short and is_open and len(lines[-1]) + 1 + len(text) <= WIDTH:
                lines[-1] += f" {text}"
            else:
                lines += self._lines(first, last, indent)
            is_open = is_short
        return lines

    def _lines(self, start: int, end: int, indent: int) -> list[str]:
        """A stretch on one line if that is long enough; else its parts, all but the first further to the right."""
        if self._fits(start, end, indent):
            return self._flat(start, end, indent)
        words = {i: self.keyword(i) for i in self.level(start, end)}
        for part in ("THEN", ",", "OR", "AND"):
            cuts = [i + (part == ",") for i, word in words.items() if word == part]
            if cuts := [i for i in cuts if start < i < end]:
                first, *rest = itertools.pairwise([start, *cuts, end])
                return [*self._lines(*first, indent), *(line for each in rest for line in self._lines(*each, indent + 2))]
        groups = [(self._width(i, close), i) for i in words if i < (close := self.closing.get(i, -1)) < end]
        width, opened = max(groups, default=(0, start))
        if width <= SHORT // 2:
            return self._flat(start, end, indent)
        close = self.closing[opened]
        inside = self._branches if self.keyword(opened) == "CASE" else self._inside
        return [*self._lines(start, opened + 1, indent), *inside(opened + 1, close, indent + 2), *self._lines(close, end, indent)]

    def _branches(self, start: int, end: int, indent: int) -> list[str]:
        """What stands between CASE and END."""
        cuts = [i for i in self.level(start, end) if i > start and self.keyword(i) in ("WHEN", "ELSE")]
        return [line for part in itertools.pairwise([start, *cuts, end]) for line in self._lines(*part, indent)]

    def _inside(self, start: int, end: int, indent: int) -> list[str]:
        """What stands between parentheses."""
        if self.keyword(start) == "SELECT":
            return self.query(start, end, indent)
        cuts = [i for i in self.level(start, end) if self.keyword(i) in IN_WINDOWS and i > start]
        if self.keyword(start) in IN_WINDOWS:
            return [line for part in itertools.pairwise([start, *cuts, end]) for line in self._lines(*part, indent)]
        return self._list(start, end, indent)

    def _width(self, start: int, end: int) -> int:
        return self.widths[end] - self.widths[start] - len(self.gaps[start])

    def _fits(self, start: int, end: int, indent: int) -> bool:
        return indent + self._width(start, end) <= WIDTH

    def _text(self, start: int, end: int) -> str:
        """On one line."""
        return "".join(gap + t.text for gap, t in zip(self.gaps[start:end], self.tokens[start:end], strict=True))[len(self.gaps[start]) :]

    def _flat(self, start: int, end: int, indent: int) -> list[str]:
        return [" " * indent + self._text(start, end)]
