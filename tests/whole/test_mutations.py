"""`python3 run.py mutations` breaks rules on purpose; here only: that each can still be broken, and what the last runs said."""

from __future__ import annotations

import re
from pathlib import Path

import mutations
import pytest
from support import ROOT
from support.short_run import takes

RULES = {m.rule: m for m in mutations.MUTATIONS}
RECORDS = mutations.records()


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda m: m.rule)
def test_a_rule_that_is_broken_on_purpose_stands_where_it_is_said_to(mutation: mutations.Mutation, tmp_path: Path) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.text != mutation.broken
    for test in mutation.tests.split(" -k ")[0].split():
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text()


def test_each_has_a_name_of_its_own() -> None:
    assert len(RULES) == len(mutations.MUTATIONS)


def test_records_are_of_rules_that_stand_and_none_was_not_caught() -> None:
    assert RECORDS.keys() <= RULES.keys()
    assert [rule for rule, record in RECORDS.items() if record.caught is None] == []


def test_contributing_says_how_many_were_caught() -> None:
    said = re.search(r"(\d+) were caught, none was not", (ROOT / "CONTRIBUTING.md").read_text())
    assert said is not None
    assert int(said[1]) == len(RECORDS)


def test_contributing_says_how_many_only_the_long_tests_catch() -> None:
    said = re.search(r"of these at most (\d+) by tests that a short run leaves out", (ROOT / "CONTRIBUTING.md").read_text())
    assert said is not None
    assert int(said[1]) == sum(not record.short or not takes(record.caught or "") for record in RECORDS.values())


def test_what_was_never_run_comes_first_then_what_changed_since_then_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mutations, "RECORDS", tmp_path / "records.json")
    mutations.RECORDS.write_text('{"a rule that is gone": {"caught": "t", "date": "2020-01-01", "commit": "c", "file": "f"}}')
    never, changed, known = mutations.MUTATIONS[2], mutations.MUTATIONS[1], mutations.MUTATIONS[0]
    mutations.add(known, "tests/a.py::test")
    mutations.add(changed, None)
    monkeypatch.setattr(mutations, "digest", lambda m: "another" if m is changed else mutations.records()[m.rule].file)
    assert mutations.records().keys() == {known.rule, changed.rule}
    assert mutations.older_first([known, changed, never]) == [never, changed, known]
    text = mutations.summary()
    assert text.startswith(f"Of {len(RULES)} rules 1 were caught, 1 were not caught, {len(RULES) - 2} were not yet run; 1 were run before")
    assert text.endswith(f"\nNot caught: {changed.rule}")


@pytest.mark.parametrize("whole", [None, "tests/a.py::test"])
def test_a_test_that_fails_whatever_is_broken_has_caught_nothing(monkeypatch: pytest.MonkeyPatch, whole: str | None) -> None:
    mutation = mutations.MUTATIONS[0]
    package = mutation.file.removeprefix("catalog/")

    def failing(folder: str, *_: object) -> str | None:
        return "tests/a.py::test" if mutation.broken in (Path(folder) / "streamtime" / package).read_text() else whole

    monkeypatch.setattr(mutations, "failing", failing)
    monkeypatch.setattr(mutations, "records", dict)
    if whole:
        with pytest.raises(mutations.DidNotRunError, match=r"tests/a\.py::test fails by itself where no rule is broken"):
            mutations.caught(mutation)
    else:
        assert mutations.caught(mutation) == ("tests/a.py::test", True)


def test_what_starts_a_session_takes_longer_than_what_starts_none() -> None:
    by_rule = {m.rule: mutations.cost(m) for m in mutations.MUTATIONS}
    assert (
        by_rule["C3: stream time goes on from batch to batch"]
        < 20
        < by_rule["W1: a row is late for its own window's close, not the next one's"]
    )
