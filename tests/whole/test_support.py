"""What the tests themselves stand on, where it once was wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.jvm import COMPILED, INTERPRETED, compiled


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
