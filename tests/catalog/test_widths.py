"""What fits into some columns of a terminal, whatever the letters are."""

from __future__ import annotations

import pytest

from streamtime.widths import displayed, fitted


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("", 0, ""),
        ("a", 0, "…"),  # no room for that either
        ("東京都", 6, "東京都"),
        ("東京都", 5, "東京…"),
        ("東京都", 4, "東…"),  # half a letter is none
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),  # accents take no column
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
        ("a\x1bb", 3, "a\x1bb"),  # what steers a terminal has no width, and is counted as a letter
    ],
)
def test_a_text_is_cut_where_it_no_longer_fits(text: str, most: int, expected: str) -> None:
    assert fitted(text, most) == expected
    assert displayed(expected) <= max(most, 1)
