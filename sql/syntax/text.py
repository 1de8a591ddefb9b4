"""Pieces of SQL text. Imports nothing of the pack: it travels to where Python UDTFs run."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIGHEST = 2**63 - 1
UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000), ("microsecond", 1))


def quoted(name: str) -> str:
    """A column name as a SQL identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(identifier: str) -> str:
    """The name that an identifier stands for, quoted or not; other text as it is."""
    text = identifier.strip()
    return text[1:-1].replace("``", "`") if len(text) > 2 and text[0] == text[-1] == "`" else text


def named_parts(path: str) -> list[str]:
    """The names in a path with dots, as Spark writes it."""
    return [(a or b).replace("``", "`") for a, b in re.findall(r"`((?:[^`]|``)+)`|([^`.]+)", path)]


def literal(text: str) -> str:
    """A string as a SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def floor_div(number: str, by: int) -> str:
    """SQL text for how many whole times an integer has another in it, rounded down. `/` would go through DOUBLE, which has 53 bits."""
    return f"(({number}) DIV {by}L - CAST(({number}) % {by}L < 0 AS BIGINT))"


def let(name: str, value: str, text: str) -> str:
    """SQL text in which a name stands for a value that is computed once."""
    return f"transform(array({value}), {name} -> {text})[0]"


def plus(number: str, duration: int) -> str:
    """SQL text for a BIGINT and a duration, which is not negative; it stops at the largest BIGINT."""
    if duration > HIGHEST:  # two durations together
        return plus(plus(number, HIGHEST), duration - HIGHEST)
    return f"(least({number}, {HIGHEST - duration}L) + {duration}L)"


def minus(number: str, duration: int) -> str:
    """SQL text for a BIGINT less a duration, which is not negative; it stops at the smallest BIGINT."""
    if duration > HIGHEST:
        return minus(minus(number, HIGHEST), duration - HIGHEST)
    return f"(greatest({number}, {-HIGHEST - 1 + duration}L) - {duration}L)"


def named_by(keys: Sequence[str]) -> str:
    """SQL text for several strings as one, one to one: a `|` stands between them, and behind a backslash within all but the last."""
    if not keys:
        return "''"
    *first, last = keys
    escaped = [rf"replace(replace({key}, r'\', r'\\'), '|', r'\|')" for key in first]
    return " || '|' || ".join([*escaped, last])


def one_to_one(values: Sequence[str]) -> str:
    """SQL text for several strings as one, one to one and never null: each but the last behind its length, a null as what is no length."""
    if not values:
        return "''"
    *first, last = values
    parts = [f"coalesce(concat(octet_length({value}), ':', {value}), '-')" for value in first]
    parts.append(f"coalesce(concat('=', {last}), '-')")
    return f"concat({', '.join(parts)})"


def duration_in_words(micros: int) -> str:
    """A duration for people: `1 hour 30 minutes`."""
    parts = []
    for unit, size in UNITS:
        count, micros = divmod(micros, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts) or "0 seconds"
