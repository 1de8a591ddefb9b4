"""Which tests a short run takes, by what they took and what they caught."""

from __future__ import annotations

import ast
import functools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import mutations
import pytest

from support import ROOT, TESTS

SLOW: dict[str, int] = json.loads((TESTS / "seconds.json").read_text())["slow"]  # the seconds of each test of more than one
CAUGHT = Counter(record.caught for record in mutations.records().values() if record.caught and record.short)  # how many rules each test
AFFORDED = 4  # seconds for a function of which no case is quick
A_RULE = 4  # seconds for each rule that a test caught
LARGE = {60: 16, 20: 9, 5: 4}  # of more cases than so many, so manyeth ones are short
MANY, EACH = 50, 4  # the same of seeds that do not ask Spark
IS_SLOW, SAME = "it is slow for the broken rules that need it", "the same of other cases"


def left_out(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, str]]:
    """The tests that a short run does without, and why. It takes each that caught a rule broken on purpose, if it is quick for what it caught,
    and all of Kafka's cases. Of the others it takes those that are quick, or that are marked; of a large family of cases that ask Spark each
    fourth one, of a very large one each ninth or sixteenth; of many seeds that do not ask Spark, each fourth; and of a family that is slow
    its quickest case.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in families.values():
        out = [(item, why) for item in cases if (why := _why(item))]
        stays = _quickest(item.nodeid for item, why in out if why == IS_SLOW) if len(out) == len(cases) > 1 else None
        yield from ((item, why) for item, why in out if item.nodeid != stays)


def _quickest(slow: Iterable[str]) -> str | None:
    """Of the slow cases of one function that which stays, if any is quick enough."""
    return min((name for name in slow if SLOW[name] <= AFFORDED), key=SLOW.__getitem__, default=None)


def is_worth_it(test: str) -> bool:
    """Whether what this test caught is worth its time."""
    return test in CAUGHT and SLOW.get(test, 0) <= A_RULE * CAUGHT[test]


def takes(test: str) -> bool:
    """Whether a short run is sure to take this test, which caught a rule; it may also take it as the quickest of its family."""
    return not is_marked(test, "long") and (is_worth_it(test) or is_marked(test, "short"))


def _why(item: pytest.Item) -> str | None:
    call: Any = getattr(item, "callspec", None)
    if is_worth_it(item.nodeid) or (call and "case" in call.params):
        return None
    if call:
        cases = math.prod(len(mark.args[1]) for mark in item.iter_markers("parametrize"))
        if {"spark", "compared", "connect"} & {*getattr(item, "fixturenames", ())}:
            each = next((each for family, each in LARGE.items() if cases > family), 1)
        else:
            each = EACH if cases > MANY and all(isinstance(value, int) for value in call.params.values()) else 1
        if sum(call.indices.values()) % each:
            return SAME
    return IS_SLOW if item.nodeid in SLOW and not item.get_closest_marker("short") else None


@functools.cache
def _parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def is_marked(test: str, mark: str) -> bool:
    """Whether a test, or its whole file, is marked so; by its text, since only few of all tests may be collected."""
    path, _, name = test.partition("::")
    marks: list[ast.expr] = []
    for node in _parsed(path).body:
        if isinstance(node, ast.FunctionDef) and node.name == name.partition("[")[0]:
            marks += node.decorator_list
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks += node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return any(ast.unparse(one).startswith(f"pytest.mark.{mark}(") for one in marks)


def stands_in(test: str) -> bool:
    """Whether a short run takes this function, or a case of it."""
    cases = [name for name in SLOW if name.partition("[")[0] == test]
    quick = not cases or ("[" in cases[0] and _quickest(cases) is not None)
    caught = any(name.partition("[")[0] == test and is_worth_it(name) for name in CAUGHT)
    return not is_marked(test, "long") and (quick or caught or is_marked(test, "short"))
