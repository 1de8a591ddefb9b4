"""Texts about functions, all derived from their SPECs: what DESCRIBE FUNCTION prints, and the Markdown reference pages.

A page has its sections in one order wherever it is read (`ordered`). What a person wrote of them is in the docstring of the function's
room; what its SPEC says is made here. The results of the examples are in results.json, so that they can be shown where no Spark is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypedDict

from streamtime.sql.call.spec import INSTEAD, Example, Option, Spec

EXAMPLE, MAIN, OPTIONS, COLUMNS = "Example", "The options that most people need", "All options", "The columns of the result"
PICTURE, DOES, NULLS, STREAM = "In a picture", "What it does", "Nulls, ties, late rows, empty input", "On a stream"
GUARANTEES, RELATED, MEMORY = "Guarantees", "Related functions, and the same thing elsewhere", "Memory and state"
WRITTEN = (PICTURE, DOES, NULLS, STREAM, GUARANTEES, RELATED, MEMORY)  # the sections of a docstring, of which a picture may be missing
ORDER = (EXAMPLE, PICTURE, MAIN, DOES, OPTIONS, COLUMNS, NULLS, STREAM, GUARANTEES, RELATED, MEMORY)
CLAUSES = (
    "`PARTITION BY` and `ORDER BY` may be given as `keys => ARRAY('k')` and `order_by => ARRAY('ts')` instead (C1). Without keys, all\n"
    "rows belong together: write `TABLE(t) ORDER BY ts`. (In Spark's own grammar that is `TABLE(t) WITH SINGLE PARTITION ORDER BY ts`.)"
)
RULE = re.compile(r"\b[CDWSVJR]\d{1,2}\b")
CITED = re.compile(rf" \((?:{RULE.pattern}(?:, )?)+\)")  # rules stand in parentheses, after what they are about
CODE = re.compile(r"(```.*?```|`[^`]*`)", re.DOTALL)


class ResultTable(TypedDict):
    """The result of an example, as text."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Description:
    """The parts that DESCRIBE FUNCTION EXTENDED prints."""

    usage: str
    arguments: str
    examples: str
    note: str


@cache
def results() -> dict[str, list[ResultTable]]:
    """What the examples of each function gave when the pages were written."""
    tables: dict[str, list[ResultTable]] = json.loads(files("streamtime").joinpath("results.json").read_text())
    return tables


def shown(spec: Spec) -> list[tuple[Example, ResultTable | None]]:
    """The examples, each with its result; None: the pages were not written since it came."""
    known = results().get(spec.name, [])
    return [(e, known[i] if i < len(known) else None) for i, e in enumerate(spec.examples)]


def statements(example: Example) -> list[str]:
    """What an example runs: what it sets up, and its query last."""
    return [s for s in (*example.setup.split(";\n\n"), example.query) if s]


def script(example: Example) -> str:
    """The same as one text: what is set up, a blank line, and the query."""
    *before, query = statements(example)
    return "".join(f"{s};\n" for s in before) + "\n" * bool(before) + f"{query};"


def written(spec: Spec) -> dict[str, str]:
    """The sections of the docstring, by heading."""
    _, *sections = re.split(r"^## ", spec.page, flags=re.MULTILINE)
    return {heading: text.strip() for heading, _, text in (s.partition("\n") for s in sections)}


def ordered(spec: Spec, made: Mapping[str, str]) -> list[tuple[str, str]]:
    """The sections of a page in their order: those that are written, and those that are made. Empty ones are left out."""
    texts = {**written(spec), **made}
    return [(heading, texts[heading]) for heading in ORDER if texts.get(heading)]


def default(option: Option) -> str:
    """What an option is where a call does not give it; of one that is required, that."""
    return "required" if option.required else option.default_text or "none"


def mains(spec: Spec) -> list[tuple[str, str]]:
    """The tables with names, clauses and options that most people need: how each is written, and what it is for."""
    options = {o.name: o for o in spec.options}
    over = list(spec.clauses.items()) + [(f"{name} => TABLE({name})", what) for name, what in spec.named.items()]
    return over + [(v if n in spec.positional else f"{n} => {v}", options[n].help) for n, v in spec.main.items()]


def columns(spec: Spec) -> list[tuple[str, str]]:
    """What columns each output has."""
    then = "the input's columns, then " if spec.has_clauses and spec.tables == 1 else ""

    def said(text: str) -> str:
        return text.removeprefix(INSTEAD) if text.startswith(INSTEAD) else "the input's columns" if text == "none" else then + text

    return [(o if o == "always" else f"output => {o}", said(text)) for o, text in spec.adds.items()]


def describe(spec: Spec) -> Description:
    """For Spark's function registry, in the layout that Spark prescribes."""
    lines = [f"* {o.name} - {o.kind.sql}, {_given(o)}: {o.help}. Values: {o.allowed}." for o in spec.options]
    arguments = "\n    Arguments:\n" + "".join(f"      {line}\n" for line in lines) + "  " if lines else ""
    examples = ["\n    Examples:\n"]
    for example, table in shown(spec):
        examples += [f"      > {' '.join(s.split())};\n" for s in statements(example)]
        examples += [f"       {line}\n" for line in aligned(table)] if table else []
    note = f"\n    Rules {spec.rules}: docs/semantics.md. All functions of the pack: SELECT * FROM FUNCTION_CATALOG().\n  "
    return Description(f"{spec.call} - {spec.summary}", arguments, "".join(examples) + "  ", note)


def _given(option: Option) -> str:
    return "required" if option.required else f"default {default(option)}"


def aligned(table: ResultTable) -> list[str]:
    """A table as lines of text."""
    lines = [table["columns"], *table["rows"]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table["columns"]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def page(spec: Spec, names: Sequence[str] = (), pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The Markdown reference page. `names` are those of all functions, which become links; of pictures, their paths and what they show."""
    first, *more = [_example(example, table) for example, table in shown(spec)]
    texts = written(spec)
    made = {EXAMPLE: first, MAIN: _listed(mains(spec)), DOES: "\n\n".join([texts[DOES], *more])}
    if pictures:
        made[PICTURE] = "\n\n".join([*(_drawn(spec, *picture) for picture in pictures), *filter(None, [texts.get(PICTURE)])])
    if spec.options:
        rows = [[f"`{o.name}`", o.kind.sql, o.allowed, _bold(o), o.help] for o in spec.options]
        made[OPTIONS] = _table(["option", "type", "allowed values", "default", "meaning"], rows)
        made[OPTIONS] += f"\n\n{CLAUSES}" if spec.has_clauses else ""
    made[COLUMNS] = _listed([(o.replace("', '", "'` and `'"), text) for o, text in columns(spec)])
    parts = [spec.summary, *(f"## {heading}\n\n{text}" for heading, text in ordered(spec, made))]
    parts += [f"Rules: {spec.rules}. This page is generated from `{spec.name.lower()}.py`; its examples are run by the tests."]
    others = [name for name in names if name != spec.name]
    return f"# {spec.name}\n\n" + linked("\n\n".join(parts), others) + "\n"


def _drawn(spec: Spec, path: str, caption: str) -> str:
    rows_of_it = path.removesuffix("svg") + "sql"
    return f"![{spec.name}]({path})\n\n{caption}. Drawn by [`streamtime.plot`](../pictures.md) from [rows of its own]({rows_of_it})."


def linked(markdown: str, names: Sequence[str] = ()) -> str:
    """The text of a page with each rule's code a link to the rule, and each of the functions' names one to its page; code is left alone."""
    links = re.compile("|".join([RULE.pattern, *(rf"\b{name}\b" for name in names)]))

    def link(match: re.Match[str]) -> str:
        to = f"../semantics.md#{match[0].lower()}" if RULE.fullmatch(match[0]) else f"{match[0].lower()}.md"
        return f"[{match[0]}]({to})"

    return "".join(p if i % 2 else links.sub(link, p) for i, p in enumerate(CODE.split(markdown)))


def _example(example: Example, table: ResultTable | None) -> str:
    return "\n\n".join(
        filter(None, [example.says, f"```sql\n{script(example)}\n```", _table(table["columns"], table["rows"]) if table else ""])
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _bold(option: Option) -> str:
    return "**required**" if option.required else default(option)


def _listed(items: list[tuple[str, str]]) -> str:
    return "\n".join(f"- `{name}`: {text}" if name != "always" else f"- {text}" for name, text in items)


def run_examples(specs: tuple[Spec, ...], run: Callable[[str], ResultTable]) -> dict[str, list[ResultTable]]:
    """What results.json holds: each example's result, of statements that are run in their order."""
    tables: dict[str, list[ResultTable]] = {}
    for spec in specs:
        for example in spec.examples:
            *before, query = statements(example)
            for statement in before:
                run(statement)
            tables.setdefault(spec.name, []).append(run(query))
    return tables
