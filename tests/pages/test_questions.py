"""The reference pages as an analyst reads them: what comes first, what is linked, and the ten questions that each must answer."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import walk_packages

import pytest
from support import ROOT

from streamtime import sql
from streamtime.describe import CITED, CODE, ORDER, PICTURE, RULE, WRITTEN, written
from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.spec import Spec
from streamtime.sql.functions.as_of_join import BEFORE

REFERENCE = ROOT / "docs" / "reference"
SEMANTICS = (ROOT / "docs" / "semantics.md").read_text()
PAGES = {s.name: (REFERENCE / f"{s.name.lower()}.md").read_text() for s in FUNCTIONS}
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
QUESTION = re.compile(r"(\d+)\. ([^?]+\?) (.+)")
NAMES = [s.name for s in FUNCTIONS]


def questions() -> dict[str, list[tuple[str, str, str]]]:
    _, *parts = re.split(r"^## ", (ROOT / "tests" / "pages" / "questions.md").read_text(), flags=re.MULTILINE)
    found = {}
    for part in parts:
        name, *lines = part.splitlines()
        found[name] = [m.groups() for line in lines if (m := QUESTION.fullmatch(line))]
    return found  # type: ignore[return-value]


def without_code(markdown: str) -> str:
    return "".join(piece for i, piece in enumerate(CODE.split(markdown)) if i % 2 == 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_begins_with_a_sentence_and_an_example_with_its_result_within_25_lines(name: str) -> None:
    title, _, sentence, _, heading, *rest = PAGES[name].splitlines()[:25]
    assert title == f"# {name}"
    assert sentence.endswith(".")
    assert heading == "## Example"
    assert "```sql" in rest
    result = rest[rest.index("```") + 2 :] if "```" in rest else []
    assert len(result) >= 3, "the query ends within 25 lines, and a table of at least one row follows"
    assert "" in result, "which ends there, too"


@pytest.mark.parametrize("spec", FUNCTIONS, ids=NAMES)
def test_the_sections_of_a_page_stand_in_their_order(spec: object) -> None:
    name = spec.name  # type: ignore[attr-defined]
    headings = re.findall(r"^## (.+)$", PAGES[name], re.MULTILINE)
    missing = set(ORDER) - set(headings)
    assert headings == [h for h in ORDER if h not in missing]
    assert missing <= ({PICTURE, ORDER[2], ORDER[4]} if name == "FUNCTION_CATALOG" else set()), missing
    assert set(written(spec)) >= set(WRITTEN) - {PICTURE}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_each_function_has_ten_questions_whose_answers_name_what_the_page_says(name: str) -> None:
    asked = questions()[name]
    assert [int(number) for number, *_ in asked] == list(range(1, 11))
    page = PAGES[name].replace("\n  ", " ").replace("\n", " ")
    for _, question, answer in asked:
        for phrase in re.findall(r"`([^`]+)`", answer):
            assert phrase.lower() in page.lower(), f"{question} {phrase}"


def test_no_questions_are_asked_of_what_is_not_there() -> None:
    assert sorted(questions()) == sorted(NAMES)


@pytest.mark.parametrize("path", sorted([*(ROOT / "docs").glob("*.md"), *REFERENCE.glob("*.md")]), ids=lambda p: p.name)
def test_each_code_of_a_rule_is_a_link_to_the_rule_and_no_link_within_docs_is_broken(path: object) -> None:
    text = without_code(path.read_text())  # type: ignore[attr-defined]
    if path.name != "semantics.md":  # type: ignore[attr-defined]
        assert not RULE.findall(LINK.sub("", text)), "a code without a link"
    for said, target in LINK.findall(text):
        file, _, anchor = target.partition("#")
        if "//" in target:
            continue
        to = (path.parent / file) if file else path  # type: ignore[attr-defined]
        assert to.exists(), target
        if RULE.fullmatch(said):
            assert (to.name, anchor) == ("semantics.md", said.lower())
            assert f"\n### {said}\n" in SEMANTICS


def test_every_rule_is_one_heading_and_codes_follow_each_other() -> None:
    codes = re.findall(r"^### (.+)$", SEMANTICS, re.MULTILINE)
    for letter in "CDWSVJR":
        of_it = [c for c in codes if c[0] == letter]
        assert of_it == [f"{letter}{n}" for n in range(1, len(of_it) + 1)]
    assert set(RULE.findall(SEMANTICS)) <= set(codes)
    cited = {code for spec in FUNCTIONS for code in RULE.findall(spec.page + spec.rules)}
    assert cited <= set(codes)


@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda s: s.name)
def test_the_rules_that_a_page_cites_are_those_of_its_function(spec: Spec) -> None:
    """`rules` of a SPEC are what FUNCTION_CATALOG and DESCRIBE show."""
    named = set()
    for letter, first, last in re.findall(r"\b([A-Z])(\d+)(?:-[A-Z](\d+))?\b", spec.rules.partition(" (")[0]):
        named |= {f"{letter}{n}" for n in range(int(first), int(last or first) + 1)}
    assert set(RULE.findall(" ".join(CITED.findall(spec.page)))) <= named


def test_each_reason_that_code_gives_stands_in_the_table_of_reasons() -> None:
    modules = [import_module(m.name) for m in walk_packages(sql.__path__, f"{sql.__name__}.")]
    given = {BEFORE, *(reason for module in modules for reason in getattr(module, "REASONS", ()))}
    _, table = (REFERENCE / "README.md").read_text().split("## Why a row is dropped")
    assert len(given) > 10
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == given
