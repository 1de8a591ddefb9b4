"""Which tests a short run takes; and what a fixture of a whole file prepares: only what the tests that were selected will look at."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import mutations
import pytest

from support import ROOT, TESTS

SLOW: dict[str, int] = json.loads((TESTS / "seconds.json").read_text())["slow"]  # the seconds of each test of more than one
CAUGHT = frozenset(record.caught for record in mutations.records().values() if record.short)
AFFORDED = 8  # seconds for a function of which no case is quick
LARGE = {60: 16, 20: 9, 5: 4}  # of more cases than so many, so manyeth ones are short
MANY, HALF = 50, 2  # the same of seeds that do not ask Spark
IS_SLOW, SAME = "it is slow, and no broken rule needs it", "the same of other cases"


def left_out(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, str]]:
    """The tests that a short run does without, and why. It takes each that caught a rule broken on purpose, however slow, and all of Kafka's
    cases. Of the others it takes those that are quick, or that are marked; of a large family of cases that ask Spark each fourth one, of a
    very large one each ninth or sixteenth; of many seeds that do not ask Spark, each second; and of a family that is slow its quickest case.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in families.values():
        out = {item: why for item in cases if (why := _why(item))}
        slow = [item for item, why in out.items() if why == IS_SLOW and SLOW[item.nodeid] <= AFFORDED]
        if slow and len(out) == len(cases) > 1:
            del out[min(slow, key=lambda item: SLOW[item.nodeid])]
        yield from out.items()


def _why(item: pytest.Item) -> str | None:
    call: Any = getattr(item, "callspec", None)
    if item.nodeid in CAUGHT or (call and "case" in call.params):
        return None
    if call:
        cases = math.prod(len(mark.args[1]) for mark in item.iter_markers("parametrize"))
        if {"spark", "compared", "connect"} & {*getattr(item, "fixturenames", ())}:
            each = next((each for family, each in LARGE.items() if cases > family), 1)
        else:
            each = HALF if cases > MANY and all(isinstance(value, int) for value in call.params.values()) else 1
        if sum(call.indices.values()) % each:
            return SAME
    return IS_SLOW if item.nodeid in SLOW and not item.get_closest_marker("short") else None


def is_marked(test: str, mark: str) -> bool:
    """Whether a test, or its whole file, is marked so; by its text, since only few of all tests may be collected."""
    path, _, name = test.partition("::")
    marks: list[ast.expr] = []
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name.partition("[")[0]:
            marks += node.decorator_list
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks += node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return any(ast.unparse(one).startswith(f"pytest.mark.{mark}(") for one in marks)


def stands_in(test: str) -> bool:
    """Whether a short run takes this function, or a case of it."""
    known = [name for name in SLOW if name.partition("[")[0] == test]
    if is_marked(test, "long"):
        return False
    quick = not known or (min(SLOW[name] for name in known) <= AFFORDED and "[" in known[0])
    return quick or is_marked(test, "short") or any((name or "").partition("[")[0] == test for name in CAUGHT)


def selected(request: pytest.FixtureRequest, parameter: str) -> set[Any]:
    """The values of this parameter in the selected tests that use the fixture."""
    used = (item for item in request.session.items if isinstance(item, pytest.Function) and request.fixturename in item.fixturenames)
    return {item.callspec.params[parameter] for item in used if hasattr(item, "callspec") and parameter in item.callspec.params}
