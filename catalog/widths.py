"""Text in a terminal: how many columns it takes there, and what of it fits into some."""

from __future__ import annotations

from wcwidth import wcswidth, wcwidth


def displayed(text: str) -> int:
    """The columns that a text takes in a terminal; wide characters take two."""
    width = wcswidth(text)
    return width if width >= 0 else len(text)


def fitted(text: str, most: int) -> str:
    """A text, or as much of its beginning as fits into so many columns, with … behind it."""
    if displayed(text) <= most:
        return text
    shown, used = "", 0
    for character in text:
        used += max(wcwidth(character), 0)
        if used > most - 1:
            break
        shown += character
    return shown + "…"
