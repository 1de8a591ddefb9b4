"""`python3 run.py mutations` breaks rules on purpose; here only: that each can still be broken."""

from __future__ import annotations

from pathlib import Path

import mutations
import pytest
from support import ROOT


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda m: m.rule)
def test_a_rule_that_is_broken_on_purpose_stands_where_it_is_said_to(mutation: mutations.Mutation, tmp_path: Path) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.text) == 1
    assert mutation.text != mutation.broken
    for test in mutation.tests.split(" -k ")[0].split():
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text()


def test_there_are_forty_of_them() -> None:
    assert len({m.rule for m in mutations.MUTATIONS}) == len(mutations.MUTATIONS) >= 40
