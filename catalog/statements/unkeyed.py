"""Calls whose rows have an order and no keys, `F(TABLE(t) ORDER BY ts)`: Spark's grammar wants WITH SINGLE PARTITION before ORDER BY.

Text in, text out, by tokens, as with AS OF joins; and only where Spark's parser has refused a text. What is stored (a view) has the words.
"""

from __future__ import annotations

from collections.abc import Collection

from streamtime.sql.syntax.as_of_rewrite import Rewritten
from streamtime.sql.syntax.tokens import Span, blank
from streamtime.statements.calls import Statement

WORDS = "WITH SINGLE PARTITION "


def with_single_partition(text: str, plain: str, functions: Collection[str]) -> Rewritten | None:
    """The text with the words, and `plain` with blanks in place of such ORDER BY clauses; None where there are none."""
    clauses = _clauses(text, functions)
    if not clauses:
        return None
    for start, _ in reversed(clauses):
        text = text[:start] + WORDS + text[start:]
    for start, end in _clauses(plain, functions):
        plain = plain[:start] + blank(plain[start:end]) + plain[end:]
    return Rewritten(text, plain)


def _clauses(text: str, functions: Collection[str]) -> list[Span]:
    """Where ORDER BY follows right upon TABLE(..), in the calls of these functions; each to the end of its argument."""
    source = Statement(text)
    clauses = []
    for _, arguments in source.argument_lists(functions):
        for argument in arguments:
            start, end = source.value_at(argument)
            after = source.table_end(start, end)
            if after is None or source.words(after, 2) not in (["ORDER", "BY"], ["SORT", "BY"]) or after + 2 >= end:
                continue
            if not any(source.word(i) in ("PARTITION", "DISTRIBUTE") for i in source.level(after, end)):
                clauses.append(source.span(after, end))
    return sorted(clauses)
