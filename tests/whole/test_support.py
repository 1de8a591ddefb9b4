"""What the tests themselves stand on, where it once was wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support import ROOT, TESTS, short_run
from support.programs.jvm import COMPILED, INTERPRETED, compiled
from support.short_run import left_out, stands_in


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


def item(name: str, cases: int = 0, number: int = 0, marks: tuple[str, ...] = (), fixture: str = "spark", **params: Any) -> Any:
    """What pytest collects; one of so many cases, where there are several."""

    def of(mark: str) -> Iterator[Any]:
        yield from [SimpleNamespace(args=("n", range(cases)))] if mark == "parametrize" else []

    found = SimpleNamespace(nodeid=name, fixturenames=[fixture], iter_markers=of, get_closest_marker=lambda mark: mark in marks or None)
    if cases or params:
        found.callspec = SimpleNamespace(params={"n": number} | params, indices={"n": number})
    return found


def test_a_short_run_takes_what_is_quick_or_caught_a_rule_and_one_case_of_each_family(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"caught": 4, "caught 3": 12, "too dear": 13, "slow": 1, "marked": 30, "kafka[0]": 9}
    slow |= {"family[0]": 6, "family[1]": 3, "dear[0]": 9, "dear[1]": 10, "half[0]": 3}
    monkeypatch.setattr(short_run, "SLOW", slow)
    monkeypatch.setattr(short_run, "CAUGHT", Counter({"caught": 1, "caught 3": 3, "too dear": 3}))
    alone = [item(name) for name in ("quick", "caught", "caught 3", "too dear", "slow")]
    alone += [item("marked", marks=("short",)), item("kafka[0]", 2, 0, case="k")]
    families = [item(f"{name}[{case}]", 2, case) for name in ("family", "dear", "half") for case in range(2)]
    large = [item(f"large[{case}]", 8, case) for case in range(8)]
    seeds = [item(f"seeds[{seed}]", 60, seed, fixture="tmp_path") for seed in range(60)]
    assert [one.nodeid for one, _ in left_out(seeds)] == [f"seeds[{seed}]" for seed in range(60) if seed % 4]
    assert [one.nodeid for one, _ in left_out([*alone, *families, *large])] == [
        "too dear", "slow", "family[0]", "dear[0]", "dear[1]", "half[0]", *(f"large[{case}]" for case in range(8) if case not in (0, 4)),
    ]  # fmt: skip
