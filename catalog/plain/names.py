"""What the CTEs of a text are called: after what they hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from streamtime.plain.trees import Node
from streamtime.sql.call.names import RESERVED, parts

OWN = re.compile(r"_w(e?)\d+")  # columns that Spark's analyzer makes, of a window function's value or its argument
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
WORD = re.compile(r"[a-z][a-z0-9_]*")
LONG = 40
NEGATED = {"Not": "not_", "IsNull": "no_"}


def readable(e: Node) -> str:
    """The name of an expression that has one; of what the analyzer made of windows, which function it is the value or an argument of."""
    own = OWN.fullmatch(e.name)
    if own is None:
        return e.name
    function = e
    while own[1] and function.kind in ("Alias", "WindowExpression", "AggregateExpression"):
        function = function.children[0]
    return f"{RESERVED}{CAPITAL.sub('_', function.kind).lower() if own[1] else 'argument'}"


def rows_with(columns: Sequence[str]) -> str:
    """Rows by the columns that they are the first to have: the pack's, or, if there are none of it, the user's."""
    return _after("with", [c for c in columns if c.startswith(RESERVED)] or columns) or "with_more"


def groups_by(columns: Sequence[str]) -> str:
    """Groups by their keys, columns or other expressions."""
    return (_after("by", columns) or "by_key") if columns else "of_all"


def rows_for_each(columns: Sequence[str]) -> str:
    """Rows that were made of one, by what each has of its own."""
    return _after("for_each", columns) or "for_each_item"


def rows_where(condition: Node, name: Callable[[Node], str]) -> str:
    """Rows that hold a condition, of which `name` says a column's."""
    return _after("where", _said(condition, name)) or "some_rows"


def input_of(text: str) -> str:
    """The rows of a TABLE argument: a table, or a query."""
    *_, table = ["", *parts(text)]
    return f"{table.lower()}_input" if WORD.fullmatch(table.lower()) else "input"


def changes_of(table: str) -> str:
    """What was written into a table."""
    return f"{table.lower()}_changes" if WORD.fullmatch(table.lower()) else "changes"


def _said(e: Node, name: Callable[[Node], str]) -> list[str]:
    """A condition in words, which AND parts; of what has no few words, its columns."""
    if e.kind == "AttributeReference":
        return _words([name(e)])
    words = [word for child in e.children for word in _said(child, name)]
    if e.kind in NEGATED and len(words) == 1:
        return [NEGATED[e.kind] + words[0]]
    return list(dict.fromkeys(words))


def _after(what: str, columns: Sequence[str]) -> str:
    """A name after columns, or words; none where none of them is a word."""
    words = _words(columns)
    if not words:
        return ""
    told = words[:2] if len("_and_".join(words[:2])) <= LONG else words[:1]
    return "_and_".join([f"{what}_{told[0]}", *told[1:], *["more"] * (len(told) < len(columns))])


def _words(columns: Iterable[str]) -> list[str]:
    """Columns without the pack's prefix, as far as an identifier without quotes may have them."""
    words = (column.lower().removeprefix(RESERVED) for column in columns)
    return list(dict.fromkeys(word for word in words if WORD.fullmatch(word)))
