"""An IPython shell in this process, as a notebook is one: cells in, and what is shown."""

from __future__ import annotations

from typing import Any

from IPython.core.completer import provisionalcompleter
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from streamtime.notebook.answer import Answer


class Notebook:
    """A shell with these names, and what it displays. There is one at a time: `close` it."""

    def __init__(self, **names: Any) -> None:
        quiet = Config()
        quiet.HistoryManager.enabled = False
        quiet.IPCompleter.use_jedi = False  # seconds, for Python's own names
        InteractiveShell.clear_instance()
        self.shell = InteractiveShell.instance(config=quiet, user_ns=names)
        self.shell.display_pub = CapturingDisplayPublisher()

    def close(self) -> None:
        InteractiveShell.clear_instance()

    def run(self, cell: str) -> ExecutionResult:
        return self.shell.run_cell(cell)

    def answer(self, cell: str) -> Answer:
        found = self.run(cell)
        found.raise_error()
        assert isinstance(found.result, Answer)
        return found.result

    def rows(self, cell: str) -> list[Any]:
        return list(self.answer(cell).result.rows)

    def displayed(self) -> list[str]:
        return [text for text in self.all_displayed() if text and not text.startswith("running")]

    def all_displayed(self) -> list[str]:
        """With the progress of queries that took long."""
        shown = [output["data"]["text/plain"] for output in self.shell.display_pub.outputs]
        self.shell.display_pub.outputs.clear()
        return shown

    def shown(self, cell: str) -> str:
        """What stands below the cell, as text: what it displays, and its result or its error."""
        found = self.run(cell)
        error = found.error_before_exec or found.error_in_exec
        last = (
            "\n".join(error._render_traceback_())
            if hasattr(error, "_render_traceback_")
            else repr(found.result)
            if found.result is not None
            else ""
        )
        if error and not last:
            raise error
        return "\n\n".join([*self.displayed(), *([last] if last else [])])

    def completed(self, cell: str) -> list[str]:
        """What Tab offers at the bar, each with the text around it that it does not replace."""
        at = cell.index("|")
        code = cell.replace("|", "")
        with provisionalcompleter():
            return [code[: c.start] + c.text for c in self.shell.Completer.completions(code, at)]
