"""CONTRIBUTING's steps, followed with a toy function in a copy of the house: questions, a page, its slow meaning, a kernel, two lines on the
shelf, one for its reason, a file of tests and a conversation."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, TESTS
from support.programs.jvm import talking

TOY = TESTS / "support" / "toy"


PLACES = {  # a file of the toy, and where CONTRIBUTING says that it goes
    "page.py": "streamtime/sql/functions/every_nth.py",
    "kernel.py": "streamtime/udfs/every_nth.py",
    "reference.py": "tests/support/reference/every_nth.py",
    "tests.py": "tests/sql/functions/test_every_nth.py",
    "conversation.sql": "tests/golden/every_nth.sql",
    "conversation.out": "tests/golden/every_nth.out",
}
LINES = {  # a file, a line of it, and what is written below
    "streamtime/shelf.py": [("    deduplicate,\n", "    every_nth,\n"), ("    deduplicate.SPEC,\n", "    every_nth.SPEC,\n")],
    "streamtime/pictures/meanings.py": [("DROPPED = {\n", '    "passed_over": "is not the n-th of its key",\n')],
}
HOUSE = ("tests/support", "tests/pages/test_questions.py", "tests/pages/questions.md", "tests/whole/test_golden.py", "docs/semantics.md")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("toy")
    without = shutil.ignore_patterns("__pycache__")
    for source, inside in (("catalog", "."), ("sql", "sql"), ("udfs", "udfs")):
        shutil.copytree(ROOT / source, folder / "streamtime" / inside, dirs_exist_ok=True, ignore=without)
    for name in HOUSE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copy if (ROOT / name).is_file() else partial(shutil.copytree, ignore=without))(ROOT / name, folder / name)
    for name, place in PLACES.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOY / name, folder / place)
    for name, lines in LINES.items():
        text = (folder / name).read_text()
        for above, line in lines:
            assert above in text
            text = text.replace(above, above + line, 1)
        (folder / name).write_text(text)
    with (folder / "tests/pages/questions.md").open("a") as questions:
        questions.write((TOY / "questions.md").read_text())
    paths = os.pathsep.join([str(folder), str(folder / "tests")])
    with talking(TOY / "program.py", env=os.environ | {"PYTHONPATH": paths}, cwd=folder) as (_, said):
        answer: dict[str, Any] = json.loads(said.readline())
    if os.environ.get("STREAMTIME_GOLDEN") == "write":
        shutil.copy(folder / PLACES["conversation.out"], TOY / "conversation.out")
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
def test_the_function_gives_its_rows_through_every_door(told: dict[str, Any], door: str) -> None:
    assert told[door] == every_third()


def test_what_it_drops_has_a_reason(told: dict[str, Any]) -> None:
    assert told["dropped"] == [["null_key", 10], ["passed_over", 21]]


def test_help_pages_and_errors_know_it(told: dict[str, Any]) -> None:
    assert told["catalog"] == ["input", "keys", "order_by", "n", "time", "clock_by", "watermark", "output", "name"]
    assert told["help"]
    assert told["page"]
    assert told["wrong"].startswith("EVERY_NTH, `n`: is required")


def test_its_own_tests_hold_and_those_of_all_pages_and_conversations(told: dict[str, Any]) -> None:
    assert [said for said in told["tests"].values() if said != "passed"] == []
    names = {name.partition("::")[2].partition("[")[0] for name in told["tests"]}
    assert names == {
        "test_the_kernel_counts_the_rows_of_a_key_wherever_batches_end",
        "test_the_function_says_of_each_row_what_the_slow_meaning_does",
        "test_conversation",
        "test_a_page_begins_with_a_sentence_and_an_example_with_its_result_within_25_lines",
        "test_the_sections_of_a_page_stand_in_their_order",
        "test_each_function_has_ten_questions_whose_answers_name_what_the_page_says",
        "test_no_questions_are_asked_of_what_is_not_there",
        "test_each_code_of_a_rule_is_a_link_to_the_rule_and_no_link_within_docs_is_broken",
        "test_the_rules_that_a_page_cites_are_those_of_its_function",
        "test_each_reason_that_code_gives_stands_in_the_table_of_reasons",
    }


def test_contributing_names_the_files_that_were_added_or_got_a_line() -> None:
    said = Path(ROOT / "CONTRIBUTING.md").read_text().partition("## The house")[0]
    for place in (*PLACES.values(), *LINES, "tests/pages/questions.md"):
        file = place.replace("streamtime/sql/", "sql/").replace("streamtime/udfs/", "udfs/").replace("streamtime/", "catalog/")
        assert file.replace("every_nth", "<name>") in said, file
