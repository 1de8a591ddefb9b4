"""Texts about functions, all derived from their SPECs: what DESCRIBE FUNCTION prints, and the Markdown reference pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamtime.sql.call.spec import Spec

CLAUSES = (
    "`PARTITION BY` and `ORDER BY` may be given as `keys => ARRAY('k')` and `order_by => ARRAY('ts')` instead (C1). Without keys the\n"
    "whole input is one: `TABLE(t) ORDER BY ts`, which Spark's own grammar has as `TABLE(t) WITH SINGLE PARTITION ORDER BY ts`, or\n"
    "`TABLE(t), order_by => ARRAY('ts')`."
)


@dataclass(frozen=True)
class Description:
    """The parts that DESCRIBE FUNCTION EXTENDED prints."""

    usage: str
    arguments: str
    examples: str
    note: str


def describe(spec: Spec) -> Description:
    """For Spark's function registry, in the layout that Spark prescribes."""
    lines = [f"* {o.name} - {o.kind.sql}, default {o.default_text or 'none'}: {o.help}." for o in spec.options]
    arguments = "\n    Arguments:\n" + "".join(f"      {line}\n" for line in lines) + "  " if lines else ""
    queries = [q.replace("\n", " ") for e in spec.examples for q in (e.setup, e.query) if q]
    examples = "\n    Examples:\n" + "".join(f"      > {' '.join(q.split())};\n" for q in queries) + "  "
    note = f"\n    Rules {spec.rules}. All functions of the pack: SELECT * FROM FUNCTION_CATALOG().\n  "
    return Description(f"{spec.signature} - {spec.summary}", arguments, examples, note)


def page(spec: Spec, run: Callable[[str], str]) -> str:
    """The Markdown reference page. `run` executes a query and returns its result as a Markdown table ('' for a statement)."""
    summary, _, semantics = spec.page.partition("\n")
    parts = [f"# {spec.name}", summary, "## Signature", f"```sql\n{wrapped(spec)}\n```"]
    if spec.options:
        rows = [f"| `{o.name}` | {o.kind.sql} | {_cell(o.default_text or 'none')} | {_cell(o.help)} |" for o in spec.options]
        parts += ["| option | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows)]
    if spec.has_clauses:
        parts += [CLAUSES]
    parts += ["## Columns"]
    before = "The input's columns, unchanged, then:\n\n" if spec.has_clauses else ""
    parts += [before + "\n".join(f"- output {output}: {columns}" for output, columns in spec.adds.items())]
    parts += [semantics.strip(), "## Examples"]
    for example in spec.examples:
        for statement in filter(None, example.setup.split(";\n\n")):
            run(statement)
        statements = ";\n\n".join(s for s in (example.setup, example.query) if s)
        parts += [f"```sql\n{statements};\n```", run(example.query)]
    parts += [f"Rules: {spec.rules}. This page is generated from `{spec.name.lower()}.py`; its examples are run by the tests."]
    return "\n\n".join(parts) + "\n"


def wrapped(spec: Spec) -> str:
    """The signature over several lines."""
    if not spec.leading:
        return f"{spec.name}()"
    return f"{spec.name}(\n    {', '.join(spec.leading)}\n" + "\n".join(f"    [, {o}]" for o in spec.following) + "\n)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
