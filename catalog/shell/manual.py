"""Reference pages for a terminal, from the SPECs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from streamtime import describe
from streamtime.describe import ResultTable
from streamtime.shelf import FUNCTIONS
from streamtime.shell.rendering import Result
from streamtime.sql.call.errors import did_you_mean
from streamtime.sql.call.spec import Example, Option, Spec

WIDEST = 120
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


class Unknown(Exception):
    """There is no function of that name; the message says which are meant or there."""


def overview(specs: Sequence[Spec] = FUNCTIONS) -> Result:
    """Each function and its one sentence."""
    return Result(("function", "summary"), [(s.name, s.summary) for s in specs])


def listing(width: int = 80, specs: Sequence[Spec] = FUNCTIONS) -> str:
    """The same for a terminal."""
    indent = max(len(s.name) for s in specs) + 2
    return "\n".join(line for s in specs for line in _wrap(f"{s.name:<{indent}}{s.summary}", min(width, WIDEST), "", " " * indent))


def find(name: str, specs: Sequence[Spec] = FUNCTIONS) -> Spec:
    """The function of that name, whatever its case. Raises Unknown."""
    for spec in specs:
        if spec.name == name.upper():
            return spec
    known = [s.name for s in specs]
    raise Unknown(f"there is no function {name}. {did_you_mean(name, known) or 'There are ' + ', '.join(known) + '.'}")


def page(spec: Spec, width: int = 80) -> str:
    """The reference page of a function as plain text, its sections in their order."""
    width = max(40, min(width, WIDEST))
    first, *more = [_example(example, result, width) for example, result in describe.shown(spec)]
    texts = {heading: _text(text, width) for heading, text in describe.written(spec).items()}
    made = {describe.EXAMPLE: first, describe.DOES: "\n\n".join([texts[describe.DOES], *more])}
    made[describe.MAIN] = "\n".join(line for name, text in describe.mains(spec) for line in _item(name, text, width))
    made[describe.OPTIONS] = "\n".join(line for option in spec.options for line in _option(option, width))
    if spec.has_clauses:
        made[describe.OPTIONS] += "\n\n" + _text(describe.CLAUSES, width)
    made[describe.COLUMNS] = "\n".join(line for output, text in describe.columns(spec) for line in _item(output, text, width))
    sections = [f"{_heading(heading)}\n\n{text}" for heading, text in describe.ordered(spec, {**texts, **made})]
    return "\n\n".join(["\n".join(_wrap(f"{spec.name}: {spec.summary}", width)), *sections]) + "\n"


def _example(example: Example, result: ResultTable | None, width: int) -> str:
    said = [_text(example.says, width)] if example.says else []
    code = [textwrap.indent(describe.script(example), "  ")]
    shown = ["\n".join(f"  {line}" for line in describe.aligned(result))] if result else []
    return "\n\n".join([*said, *code, *shown])


def _option(option: Option, width: int) -> list[str]:
    given = "required" if option.required else f"default: {describe.default(option)}"
    return [f"  {option.name}  {option.kind.sql}, {given}", *_wrap(f"{option.help}. Values: {option.allowed}.", width, "      ")]


def _item(name: str, text: str, width: int) -> list[str]:
    return _wrap(f"{name}: {text}".replace("`", ""), width, "  ", "      ")


def _text(markdown: str, width: int) -> str:
    """Lists, paragraphs and code of Markdown, filled to the width, without its marks and the numbers of rules, which are links there."""
    lines: list[str] = []
    for block in markdown.split("\n\n"):
        if block.startswith(("```", "    ")):
            lines += [*(f"  {line}" for line in block.splitlines() if not line.startswith("```")), ""]
            continue
        for number, item in enumerate(block.split("\n- ")):
            text = _unmarked(" ".join(item.removeprefix("- ").split()))
            bullet = number > 0 or item.startswith("- ")
            lines += _wrap(("- " if bullet else "") + text, width, "  ", "    " if bullet else "  ")
        lines.append("")
    return "\n".join(lines[:-1])


def _unmarked(text: str) -> str:
    return LINK.sub(r"\1", describe.CITED.sub("", text)).replace("**", "")


def _heading(text: str) -> str:
    return text.upper()


def _wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=first if rest is None else rest, break_long_words=False, break_on_hyphens=False
    )
