"""What the functions over changelogs share of their options."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.spec import CLOCK_BY, Option

if TYPE_CHECKING:
    from streamtime.sql.call.spec import Bound

RETENTION = Option("retention", Duration(), "with `versioned`: how far behind stream time a change may come", default_text="unlimited")
CLOCKS = replace(CLOCK_BY, help="with `retention`: runs stream time separately per value of these")


def output(rows: str) -> Option:
    """The option `output`, where these are the rows that leave."""
    return Option(
        "output",
        Choice(words=("rows", "dropped", "all", "explain", "metrics")),
        f"'rows': {rows}; 'dropped': changes that were ignored, and why; 'all': every change, with a reason where it was; "
        "'explain': every change, and what it did; 'metrics': counts",
        default="rows",
        default_text="'rows'",
    )


def refuse_retention(call: Bound, rule: str, versioned: str) -> None:
    """`retention` is that of versioned input."""
    if call["retention"] is not None and not call["versioned"]:
        problem = f"needs `versioned`: without it changes apply as they come ({rule})"
        raise call.refuse("`retention`", problem, f"Add versioned => {versioned}.")
