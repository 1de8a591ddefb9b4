"""Reference pages for a terminal, from the SPECs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from streamtime.describe import CLAUSES, wrapped
from streamtime.shelf import FUNCTIONS
from streamtime.shell.rendering import Result
from streamtime.sql.call.errors import did_you_mean
from streamtime.sql.call.spec import Spec

WIDEST = 120


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
    """The reference page of a function as plain text."""
    width = max(40, min(width, WIDEST))
    parts = [*_wrap(f"{spec.name}: {spec.summary}", width), "", _heading("Signature"), "", textwrap.indent(wrapped(spec), "  ")]
    if spec.options:
        parts += ["", _heading("Options"), ""]
        for option in spec.options:
            parts.append(f"  {option.name}  {option.kind.sql}, " + ("required" if option.required else _default(option.default_text)))
            parts += _wrap(option.help + ".", width, "      ")
    if spec.has_clauses:
        parts += ["", *_wrap(" ".join(CLAUSES.split()).replace("`", ""), width, "  ")]
    parts += ["", _heading("Columns"), ""]
    if spec.has_clauses:
        parts.append("  The input's columns, unchanged, then:")
    for output, columns in spec.adds.items():
        parts += _wrap(f"- output {output}: {columns}".replace("`", ""), width, "  ", "    ")
    parts += ["", *_semantics(spec.page.partition("\n")[2].strip(), width), "", _heading("Examples"), ""]
    for example in spec.examples:
        parts += [textwrap.indent(f"{statement};", "  ") + "\n" for statement in (example.setup, example.query) if statement]
    return "\n".join(parts).rstrip() + "\n"


def _semantics(markdown: str, width: int) -> list[str]:
    """The sections of the page: headings, lists and paragraphs of Markdown, filled to the width, without its marks."""
    lines: list[str] = []
    for block in markdown.split("\n\n"):
        if block.startswith("## "):
            lines += [_heading(block.removeprefix("## ")), ""]
        elif block.startswith("```"):
            lines += [*(f"  {line}" for line in block.splitlines() if not line.startswith("```")), ""]
        else:
            items = block.split("\n- ")
            for item in items:
                text = " ".join(item.removeprefix("- ").split()).replace("**", "")
                bullet = block.startswith("- ")
                lines += _wrap(("- " if bullet else "") + text, width, "  ", "    " if bullet else "  ")
            lines.append("")
    return lines[:-1]


def _default(text: str) -> str:
    return f"default: {text}" if text else "no default"


def _heading(text: str) -> str:
    return text.upper()


def _wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=first if rest is None else rest, break_long_words=False, break_on_hyphens=False
    )
