"""APPLY_CHANGES as text: a changelog merged into a table, the newest row of each key or its whole history (`apply_changes.sql`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from streamtime.sql.syntax.text import quoted

TEMPLATE = "apply_changes.sql"


@dataclass(frozen=True)
class Applied:
    """What is applied to what. Columns are names, without quotes; `target`, `deletions` and `source` are SQL."""

    target: str
    deletions: str
    source: str
    columns: Sequence[str]
    keys: Sequence[str]
    sequence: Sequence[str]
    ties: Sequence[str]
    deleted: str = "false"
    skipped: str = "false"
    scd: int = 1

    @property
    def remember(self) -> str:
        """The first statement: remembers what was deleted, so that an older change that comes later does not bring it back."""
        made: str = _template().streamtime_remember_deletions(**self._given("deletions"), scd=self.scd)
        return made

    @property
    def merge(self) -> str:
        """The second statement: merges the changes into the table."""
        template = _template()
        macro = template.streamtime_apply_newest if self.scd == 1 else template.streamtime_apply_history
        made: str = macro(**self._given("target", "deletions"), ties=[quoted(c) for c in self.ties])
        return made

    def _given(self, *tables: str) -> dict[str, Any]:
        lists = {name: [quoted(c) for c in getattr(self, name)] for name in ("columns", "keys", "sequence")}
        return {name: getattr(self, name) for name in (*tables, "source", "deleted", "skipped")} | lists


@cache
def _template() -> Any:
    text = files("streamtime.sql.tables").joinpath(TEMPLATE).read_text()
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text).module
