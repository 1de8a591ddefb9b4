"""The reference page of what stands beside the functions in Python: signatures and docstrings, as they are in the code."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import streamtime
from streamtime import api
from streamtime.describe import linked

HEAD = """# Python

What `import streamtime` has beside the functions. Each function is there, too, over DataFrames: `streamtime.deduplicate(df, ..)`, with the
arguments that [its page](README.md) has, or `help(streamtime.deduplicate)`.
"""
SECTION = re.compile(r"^(\w[^\n]*):\n((?:    .*\n?)+)", re.MULTILINE)
ENTRIES = ("Args", "Attributes", "Raises")  # sections whose entries have names
MORE = re.compile(r"\n {4,}")  # where an entry goes on in the next line
INNER = ("Receipt.wrote", "Receipt.has_counts", "Watch.heard", "Watch.name")  # for the pack itself


def reference() -> str:
    """The page, as Markdown."""
    names = [name for name in streamtime.__all__ if name not in api.__all__]
    thing = {name: getattr(streamtime, name) for name in names}
    calls = [name for name in names if not inspect.isclass(thing[name])]
    parts = [HEAD]
    for name in [*calls, *(name for name in names if name not in calls)]:
        parts += _of(name, thing[name])
    return "\n".join(parts)


def _of(name: str, thing: Any) -> Iterator[str]:
    node = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    yield f"## {name}\n"
    if isinstance(node, ast.FunctionDef):
        yield f"`streamtime.{_signature(node, 0)}`\n"
    yield _docs(thing)
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and f"{name}.{method.name}" not in INNER:
            bound = [d.id for d in method.decorator_list if isinstance(d, ast.Name)]
            said = method.name if "property" in bound else _signature(method, 0 if "staticmethod" in bound else 1)
            yield f"`.{said}`\n"
            yield _docs(getattr(thing, method.name))


def _signature(node: ast.FunctionDef, first: int) -> str:
    """`name(arguments) -> type`, without the first ones."""
    node.args.args = node.args.args[first:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def _docs(thing: Any) -> str:
    text = inspect.getdoc(thing.fget if isinstance(thing, property) else thing) or ""
    return linked(SECTION.sub(_section, f"{text}\n"))


def _section(match: re.Match[str]) -> str:
    text = textwrap.dedent(match[2])
    if match[1] not in ENTRIES:
        return f"{match[1]}:\n\n{text}"
    entries = MORE.sub(" ", "\n" + text).strip().splitlines()
    return f"{match[1]}:\n\n" + "".join(f"- `{entry.partition(':')[0]}`:{entry.partition(':')[2]}\n" for entry in entries)
