"""How far a query is, below its cell in a notebook."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from streamtime.shell.running import Progress


class Line:
    """One line of text, which a display can replace."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """As it is."""
        return self.text


class Displayed(Progress):
    """The same line as on a terminal, in a display of its own, which is empty in the end."""

    def __init__(self) -> None:
        super().__init__(wanted=True)
        self.handle: Any = None

    def write(self, text: str) -> None:
        """Put this in the place of what was written before; no text erases it."""
        line = Line(f"{text} (the stop button cancels)" if text else "")
        if self.handle is None:
            self.handle = display(line, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self.handle.update(line)
