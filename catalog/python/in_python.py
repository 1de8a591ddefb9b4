"""What is said of a call, as Python writes it: not `within => INTERVAL 10 MINUTES`, but `within=timedelta(minutes=10)`.

Functions say what is wrong, and what their options mean, in the words of SQL; for who called from Python all of it is turned here. What
stands in backticks or quotes is what a person wrote, and stays.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.errors import CallError

if TYPE_CHECKING:
    from streamtime.sql.call.spec import Option, Spec

WORDS = {
    "an interval": "a timedelta",
    "an array of SQL expressions in quotes": "a SQL expression as a string, or a list of them",
    "a SQL expression in quotes": "a SQL expression as a string",
    "true or false": "True or False",
    "PARTITION BY": "keys",
    "ORDER BY": "order_by",
    "TABLE argument": "DataFrame",
    "name => value": "name=value",
    **{f.name: f.name.lower() for f in FUNCTIONS},
}
INTERVAL = r"INTERVAL(?: \d+ [A-Z]+| DAY TO SECOND| \.\.)"
ARRAY = r"ARRAY\((?:[^()]|\([^()]*\))*\)"
PIECES = {
    "string": r"(?<=Write it as )'[^']*'",
    "said": r"""`[^`]*`|(?<!\w)'[^']*'|(?<!\w)"[^"]*\"""",
    "order": rf"ORDER BY (?P<by>\w+)(?P<why> \([^()]*\))? after (?:each )?TABLE\(\.\.\)(?:, or order_by => {ARRAY})?",
    "query": r"TABLE\(SELECT \*, (?P<added>.+?) FROM \.\.\)",
    "option": rf"(?!name => value)(?P<name>\w+) => (?P<value>{INTERVAL}|{ARRAY}|'[^']*'|\w+|\.+)",
    "alone": rf"(?:(?<=Write it as )|(?<=else )|^)(?:{INTERVAL}|{ARRAY})|^(?:true|false)$",
    "word": rf"(?<!\w)(?:{'|'.join(re.escape(w) for w in sorted(WORDS, key=len, reverse=True))})(?!\w)",
}
PIECE = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PIECES.items()))
EXAMPLE = re.compile(r"^Write it as (timedelta\(.*\)|\[.*\]|\".*\")\.$")
CLAUSES = {"PARTITION BY": "`keys`", "ORDER BY": "`order_by`", "TABLE": "the DataFrame"}


def spelled(option: str) -> str:
    """The name of an option in Python: `from_` for `from`, which is a word of the language."""
    return f"{option}_" if keyword.iskeyword(option) else option


def in_python(text: str) -> str:
    """The text, with what is written in SQL written in Python."""
    return PIECE.sub(_turned, text)


def said(spec: Spec, error: CallError) -> CallError:
    """The error of a call, for who called the Python function."""
    argument = error.argument and CLAUSES.get(error.argument, in_python(error.argument))
    fix = written(spec) if error.fix and error.fix.startswith(f"Write it as {spec.name}(") else in_python(error.fix or "")
    option = spec.option((error.argument or "").strip("`"))
    if option is not None and error.problem.startswith("expected "):
        fix = EXAMPLE.sub(lambda match: f"Write it as {_example(option, match[1])}.", fix)
    return CallError(spec.name.lower(), argument, in_python(error.problem), fix or None)


def _example(option: Option, value: str) -> str:
    return in_python(f"{option.name} => {option.example}") if option.example else f"{spelled(option.name)}={value}"


def inputs(spec: Spec) -> tuple[str, ...]:
    """The names of what a function is over: one DataFrame, two, or a session."""
    return {0: ("spark",), 1: ("df",)}.get(spec.tables, spec.inputs)


def written(spec: Spec) -> str:
    """How a call is written: with what it is over, and what it cannot do without."""
    required = {o.name: o.example for o in spec.options if o.required and o.name not in spec.positional}
    return f"Write it as {_call(spec, required)}."


def called(spec: Spec) -> str:
    """A short call."""
    return f"streamtime.{_call(spec, spec.needed)}"


def _call(spec: Spec, options: Mapping[str, str]) -> str:
    clauses = ['keys=["k"]', 'order_by=["ts"]'] if spec.has_clauses else []
    leading = [*(spec.required if spec.named else inputs(spec)), *map(json.dumps, spec.positional)]
    return f"{spec.name.lower()}({', '.join([*leading, *clauses, *(in_python(f'{n} => {v}') for n, v in options.items())])})"


def _turned(piece: re.Match[str]) -> str:
    text = piece[0]
    match piece.lastgroup:
        case "said":
            return f"`{spelled(text[1:-1])}`" if text[0] == "`" else text
        case "order":
            return f'order_by=["{piece["by"]}"]{piece["why"] or ""}'
        case "query":
            return f'df.selectExpr("*", "{piece["added"]}")'
        case "option":
            return f"{spelled(piece['name'])}={_literal(piece['value'])}"
        case "alone" | "string":
            return _literal(text)
        case _:
            return WORDS[text]


def _literal(text: str) -> str:
    kind, _, rest = text.partition(" ")
    if kind == "INTERVAL":
        number, _, unit = rest.partition(" ")
        given = f"{unit.lower().removesuffix('s')}s={number}" if number.isdigit() else number.replace("DAY", "..")
        return f"timedelta({'0' if number == '0' else given})"
    if text.startswith("ARRAY("):
        return f"[{text[6:-1].replace(chr(39), chr(34))}]"
    return text.capitalize() if text in ("true", "false") else text.replace("'", '"')
