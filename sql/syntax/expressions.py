"""Where an expression ends in SQL text, and what it refers to, by its tokens alone."""

from __future__ import annotations

import re

from streamtime.sql.syntax.conditions import OPERATORS, OTHERS, PREDICATES
from streamtime.sql.syntax.tokens import Source

SIGNS = ("+", "-", "~")
BINARY = ("+", "-", "*", "/", "%", "DIV", "||", "&", "|", "^", *OPERATORS, *OTHERS)
# After these, an operand is yet to come
AWAITING = (
    *PREDICATES,
    "AND",
    "OR",
    "DIV",
    "ON",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "DISTINCT",
    "FROM",
    "ESCAPE",
    "WHERE",
    "HAVING",
    "BY",
    "SELECT",
)
# Words that are no columns, where they stand alone
WORDS = (
    *AWAITING,
    "END",
    "NULL",
    "TRUE",
    "FALSE",
    "INTERVAL",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "CURRENT_TIME",
    "LOCALTIMESTAMP",
    "TO",
    "COLLATE",
)
UNIT = re.compile(r"(?:NANO|MICRO|MILLI)?SECONDS?|MINUTES?|HOURS?|DAYS?|WEEKS?|MONTHS?|QUARTERS?|YEARS?|DAYOFYEAR|DAYOFWEEK|DOW|DOY")


def is_parameter(source: Source, i: int) -> bool:
    """Whether it is the name in `:name`. The path into a variant, `column:name`, has an operand right before its colon."""
    if source.word(i - 1) != ":" or source.tokens[i].name is None:
        return False
    return not complete(source, i - 2) or source.tokens[i - 2].end < source.tokens[i - 1].start


def complete(source: Source, i: int) -> bool:
    """Whether an operand ends with this token, so that an operator or the end of the expression comes next."""
    if i < 0:
        return False
    token = source.tokens[i]
    if token.kind == "sign":
        return token.text in (")", "]", "?")
    return token.kind != "word" or source.is_field(i) or token.word not in AWAITING


def value_end(source: Source, i: int) -> int:
    """The token after a value expression (no AND, OR, NOT outside of parentheses) that starts here; the same token where none does."""
    end = i
    while True:
        while source.word(i) in SIGNS:
            i += 1
        after = _operand(source, i)
        if after == i:
            return end
        end = after
        if source.word(end) not in BINARY:
            return end
        i = end + 1


def has_columns(source: Source, start: int, end: int) -> bool:
    """Whether a value expression refers to a column: to a name that is no function, type, unit of time, parameter or constant."""
    i = start
    while i < end:
        token = source.tokens[i]
        if source.word(i) in ("AS", "::"):  # a type follows
            i = min(source.closing.get(source.around[i] or -1, end) if source.word(i) == "AS" else _type(source, i + 1), end)
        elif token.name is None or token.text[0].isdigit() or is_parameter(source, i):
            i += 1
        else:
            after = source.name_end(i)
            if source.word(after) != "(" and not _is_no_column(source, i, after):
                return True
            i = after
    return False


def _is_no_column(source: Source, i: int, after: int) -> bool:
    if after > i + 1 or source.tokens[i].kind == "quoted":
        return False
    if source.word(i) in WORDS or (after < len(source.tokens) and source.tokens[after].kind == "string"):
        return True
    if UNIT.fullmatch(source.word(i)) is None:
        return False
    before = source.tokens[i - 1] if i else None  # INTERVAL 1 DAY, date_add(DAY, 1, x), extract(DAY FROM x)
    counted = before is not None and (before.kind == "string" or before.text[:1].isdigit() or before.word == "TO")
    return counted or (source.word(i - 1) == "(" and source.word(after) in (",", "FROM"))


def _operand(source: Source, i: int) -> int:
    if i >= len(source.tokens):
        return i
    token, word = source.tokens[i], source.word(i)
    if word == "(":
        after = source.closing.get(i, i - 1) + 1
    elif word == "CASE":
        after = _case(source, i)
    elif word == "INTERVAL" and (after := _interval(source, i + 1)) > i + 1:
        pass
    elif word == ":" and i + 1 < len(source.tokens) and source.tokens[i + 1].name is not None:
        after = i + 2
    elif word == "?":
        after = i + 1
    elif token.kind == "sign":
        return i
    else:
        after = i + 1
        while after < len(source.tokens) and source.tokens[after].kind == "string" and token.kind in ("word", "string"):
            after += 1  # DATE '2024-01-01', 'one' 'string'
    return _suffixes(source, after)


def _suffixes(source: Source, i: int) -> int:
    while True:
        word = source.word(i)
        if word in ("(", "["):
            after = source.closing.get(i, i - 1) + 1
        elif word in (".", ":", "COLLATE") and i + 1 < len(source.tokens) and source.tokens[i + 1].name is not None:
            after = i + 2
        elif word == "::":
            after = _type(source, i + 1)
        else:
            return i
        if after <= i:
            return i
        i = after


def _type(source: Source, i: int) -> int:
    """The token after a type, such as DECIMAL(10, 2) or MAP<STRING, INT>."""
    i = min(i + 1, len(source.tokens))
    if source.word(i) == "(":
        return source.closing.get(i, i) + 1
    depth = 0
    while source.word(i) in ("<", "<>", ">") or depth > 0:
        depth += {"<": 1, ">": -1}.get(source.word(i), 0)
        i += 1
        if depth == 0 or i >= len(source.tokens):
            break
    return i


def _case(source: Source, i: int) -> int:
    depth = 0
    for at in source.level(i, len(source.tokens)):
        if not source.is_field(at):
            depth += {"CASE": 1, "END": -1}.get(source.word(at), 0)
        if not depth:
            return at + 1
    return i


def _interval(source: Source, i: int) -> int:
    """The token after the amounts and units of an interval; the same token where none stands."""
    while True:
        at = i + (source.word(i) in ("+", "-"))
        if at >= len(source.tokens) or not (source.tokens[at].kind == "string" or source.tokens[at].text[:1].isdigit()):
            return i
        after = at + 1
        while source.word(after) == "." and source.word(after + 1).isdigit():
            after += 2
        if UNIT.fullmatch(source.word(after)):
            after += 1
            if source.word(after) == "TO" and UNIT.fullmatch(source.word(after + 1)):
                after += 2
        elif source.tokens[at].kind != "string":
            return i
        i = after
