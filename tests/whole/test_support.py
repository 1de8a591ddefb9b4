"""What the tests themselves stand on, where it once was wrong."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from support import ROOT, TESTS
from support.programs.jvm import COMPILED, INTERPRETED, compiled
from support.selected import stands_in


def test_plans_are_compiled_until_the_last_thread_that_asks_is_done_and_then_as_before() -> None:
    """Threads ask at once, and the first to ask is not the last to be done: once, what it had set stayed for all tests that followed."""
    settings = dict(INTERPRETED)
    conf = SimpleNamespace(get=settings.__getitem__, set=settings.__setitem__)
    spark: Any = SimpleNamespace(conf=conf, _jsparkSession=SimpleNamespace(sessionUUID=lambda: "of this test"))
    first, second = compiled(spark), compiled(spark)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings == COMPILED
    second.__exit__(None, None, None)
    assert settings == INTERPRETED


def test_each_long_test_names_what_is_short_of_the_same() -> None:
    """A file of tests, or one of its tests; or it is one case of several."""
    marked = [
        (path, said) for path in TESTS.rglob("test_*.py") for said in re.findall(r'pytest\.mark\.long\(\s*"([^"]*)"', path.read_text())
    ]
    for path, said in marked:
        file, _, name = said.partition("::")
        if "/" in said:
            assert f"def {name or 'test_'}" in (ROOT / file).read_text(), (path, said)
            assert not name or stands_in(said), (path, said)
        else:
            assert "the same" in said, (path, said)
    assert len(marked) > 10
