"""Conditions of joins, as text: `split('o.k = p.k AND p.x > 3')` gives the conjuncts, each with its two sides where it is a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamtime.sql.syntax.tokens import Source

OPERATORS = {"=": "=", "==": "=", "<=>": "<=>", ">=": ">=", "!<": ">=", ">": ">", "<=": "<=", "!>": "<=", "<": "<"}
OTHERS = ("<>", "!=")
PREDICATES = ("NOT", "!", "BETWEEN", "IN", "LIKE", "RLIKE", "ILIKE", "REGEXP", "IS", "EXISTS")  # they bind less tightly than comparisons
MIRRORED = {"=": "=", "<=>": "<=>", ">=": "<=", ">": "<", "<=": ">=", "<": ">"}


@dataclass(frozen=True)
class Conjunct:
    """A condition that must hold with all others. `operator` is =, <=>, >=, >, <= or <, with the texts at its sides; or ''."""

    text: str
    left: str = ""
    operator: str = ""
    right: str = ""

    @property
    def mirrored(self) -> Conjunct:
        """The same comparison with its sides exchanged."""
        return Conjunct(self.text, self.right, MIRRORED.get(self.operator, ""), self.left)


def split(on: str) -> list[Conjunct]:
    """The conjuncts of a condition: what stands between its outermost ANDs, also in parentheses around them. A text of blanks has none."""
    source = Source(on)
    return list(_conjuncts(source, 0, len(source.tokens)))


def comparison(text: str) -> Conjunct:
    """A text as one conjunct, whatever ANDs it has."""
    source = Source(text)
    return _conjunct(source, 0, len(source.tokens))


def _conjuncts(source: Source, start: int, end: int) -> Iterator[Conjunct]:
    whole = start, end
    start, end = _bared(source, start, end)
    level = list(_outside_case(source, start, end))
    if any(source.word(i) == "OR" and not source.is_field(i) for i in level):
        yield _conjunct(source, *whole)
        return
    first, between = start, False
    for i in level:
        if source.is_field(i):
            continue
        if source.word(i) == "BETWEEN":
            between = True
        elif source.word(i) == "AND" and between:
            between = False
        elif source.word(i) == "AND":
            yield from _part(source, first, i)
            first = i + 1
    yield from _part(source, first, end)


def _part(source: Source, start: int, end: int) -> Iterator[Conjunct]:
    if start >= end:
        return
    if _bared(source, start, end) != (start, end):
        yield from _conjuncts(source, start, end)
    else:
        yield _conjunct(source, start, end)


def _conjunct(source: Source, start: int, end: int) -> Conjunct:
    text = source.slice(start, end)
    start, end = _bared(source, start, end)
    level = [i for i in _outside_case(source, start, end) if not source.is_field(i)]
    if any(source.word(i) in (*PREDICATES, "AND", "OR") for i in level):
        return Conjunct(text)
    compared = [i for i in level if source.word(i) in OPERATORS or source.word(i) in OTHERS]
    if len(compared) != 1 or source.word(compared[0]) in OTHERS or not start < compared[0] < end - 1:
        return Conjunct(text)
    at = compared[0]
    return Conjunct(text, source.slice(start, at), OPERATORS[source.word(at)], source.slice(at + 1, end))


def _bared(source: Source, start: int, end: int) -> tuple[int, int]:
    """Without parentheses around all of it, unless they hold a list or a query."""
    while source.word(start) == "(" and source.closing.get(start) == end - 1 and end - start > 2:
        inside = [source.word(i) for i in source.level(start + 1, end - 1)]
        if "," in inside or inside[0] in ("SELECT", "WITH", "VALUES", "FROM", "TABLE"):
            break
        start, end = start + 1, end - 1
    return start, end


def _outside_case(source: Source, start: int, end: int) -> Iterator[int]:
    """The tokens in none of the parentheses, and in no CASE .. END."""
    depth = 0
    for i in source.level(start, end):
        word = "" if source.is_field(i) else source.word(i)
        depth += word == "CASE"
        if not depth:
            yield i
        depth -= word == "END" and depth > 0
