"""SQL text as statements, and what of it never ends."""

from __future__ import annotations

import pytest

from streamtime.sql.syntax.tokens import statements, unclosed


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT 'open", 7),
        ('SELECT 1 AS x, "open;', 15),
        ("SELECT `open", 7),
        ("SELECT 1 /* /* one */", 9),
        ("SELECT 'it\\'s', \"\"\"\", `a``b` /* /* */ */ -- it's", None),
        ("SELECT r'\\', 'closed' /**/", None),
        ("", None),
    ],
)
def test_strings_names_and_comments_that_never_end_are_found(text: str, at: int | None) -> None:
    assert unclosed(text) == at


def test_statements_lie_between_semicolons() -> None:
    text = "a; 'b;' /* ; */; -- ;\n"
    assert [text[start:end] for start, end in statements(text)] == ["a", " 'b;' /* ; */", " -- ;\n"]
