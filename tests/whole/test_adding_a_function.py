"""CONTRIBUTING's steps, followed with a toy function in a copy of the package: a page, a kernel, a line on the shelf, a test."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, TESTS
from support.jvm import talking

TOY = TESTS / "support" / "toy"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("toy")
    package = folder / "streamtime"
    for source, inside in (("catalog", "."), ("sql", "sql"), ("udfs", "udfs")):
        shutil.copytree(ROOT / source, package / inside, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOY / "page.py", package / "sql" / "functions" / "every_nth.py")
    shutil.copy(TOY / "kernel.py", package / "udfs" / "every_nth.py")
    shelf = package / "shelf.py"
    text = shelf.read_text().replace("    deduplicate,\n", "    deduplicate,\n    every_nth,\n", 1)
    shelf.write_text(text.replace("    deduplicate.SPEC,\n", "    deduplicate.SPEC,\n    every_nth.SPEC,\n", 1))
    with talking(TOY / "program.py", env=os.environ | {"PYTHONPATH": str(folder)}, cwd=folder) as (_, said):
        answer: dict[str, Any] = json.loads(said.readline())
    return answer


def every_third() -> list[int]:
    """From the page alone: rows 0 to 39 in order, three keys in turn, every fourth row without one."""
    passed, counts = [], dict.fromkeys(range(3), 0)
    for number in range(40):
        if number % 4 != 3:
            counts[number % 4] += 1
            passed += [number] if counts[number % 4] % 3 == 0 else []
    return passed


@pytest.mark.parametrize("door", ["sql", "query", "python", "stream", "udtf"])
def test_the_function_gives_its_rows_through_every_door(found: dict[str, Any], door: str) -> None:
    assert found[door] == every_third()


def test_what_it_drops_has_a_reason(found: dict[str, Any]) -> None:
    assert found["dropped"] == [["null_key", 10], ["passed_over", 21]]


def test_help_pages_and_errors_know_it(found: dict[str, Any]) -> None:
    assert found["catalog"] == ["input", "keys", "order_by", "n", "time", "clock_by", "watermark", "output", "name"]
    assert found["help"]
    assert found["page"]
    assert found["wrong"].startswith("EVERY_NTH, `n`: is required")


def test_contributing_names_the_files_that_were_added() -> None:
    said = Path(ROOT / "CONTRIBUTING.md").read_text()
    for file in ("sql/functions/<name>.py", "udfs/<name>.py", "catalog/shelf.py"):
        assert file in said
