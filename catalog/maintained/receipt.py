"""What a run of maintain() read, did and cost; kept in the commit that it made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MARK = "streamtime.maintain"


@dataclass(frozen=True)
class Receipt:
    """What one run of `maintain` did, or, with `explain=True`, would do.

    Attributes:
        target: the maintained table.
        way: 'full' (computed anew), 'incremental' (the touched units alone), 'none' (nothing changed), or 'repeated' (another run did it).
        why: why this way, in words.
        tables: for each table that the query reads: the commit that was read last time (None: none), and the one that is read now.
        changed: rows that came or went in these tables since; an update is two.
        units: the columns by whose values the result is cut.
        touched: how many of their values changes led to; None where the way is full.
        added: for how many of these the rows that changed say the new row, or what to add to the totals; the others were computed anew.
        removed, inserted: rows of the target. `updated`: rows that have their place.
        predicted: seconds that each way was thought to take, where that is known; those before the way was chosen are in both.
        decided: seconds until the way was chosen.
        seconds: what it took.
        shadow: with `shadow=True`, how many rows differed from the result computed anew; 0 is what it should be.
        run: how many runs there have been.
    """

    target: str
    way: str
    why: str
    tables: dict[str, tuple[int | None, int]]
    changed: dict[str, int] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    touched: int | None = None
    added: int = 0
    removed: int = 0
    inserted: int = 0
    updated: int = 0
    predicted: dict[str, float] = field(default_factory=dict)
    decided: float = 0.0
    seconds: float = 0.0
    shadow: int | None = None
    run: int = 0

    def wrote(self, counts: dict[str, int]) -> Receipt:
        """With the rows that were written."""
        return replace(self, removed=counts.get("removed", 0), inserted=counts.get("inserted", 0), updated=counts.get("updated", 0))

    @property
    def has_counts(self) -> bool:
        """Whether the rows that were written are known."""
        return bool(self.removed or self.inserted or self.updated)

    def __str__(self) -> str:
        """A few lines to read."""
        lines = [f"{self.target}: {self.way}. {self.why}"]
        for name, (before, now) in self.tables.items():
            since = f"commit {now}" if before is None else f"commits {before + 1} to {now}" if before < now else f"nothing since {before}"
            lines.append(f"  read {name}: {since}" + (f", {self.changed[name]:,} changed rows" if self.changed.get(name) else ""))
        if self.touched is not None:
            added = f"; {self.added:,} by adding what changed" if self.added else ""
            lines.append(f"  computed anew: {self.touched - self.added:,} values of {', '.join(self.units)}{added}")
        if self.way in ("full", "incremental"):
            counts = f"{self.inserted:,} inserted, {self.updated:,} updated, {self.removed:,} removed"
            lines.append(f"  wrote: {counts if self.has_counts else 'nothing'}")
        if self.predicted:
            lines.append("  expected: " + ", ".join(f"{way} {seconds:.1f} s" for way, seconds in self.predicted.items()))
        lines.append(f"  took {self.seconds:.1f} s")
        if self.shadow is not None:
            lines.append(f"  differs from the result computed anew in {self.shadow:,} rows")
        return "\n".join(lines)


@dataclass(frozen=True)
class Last:
    """What a commit of the target says of the run that made it: the query, each table's identity and commit, what is known of costs."""

    text: str
    sources: dict[str, dict[str, Any]]
    costs: dict[str, float]
    receipt: Receipt
    onto: int  # the commit of the target that the run began with; -1 where there was none
    settings: dict[str, str]  # of the session, in which the query has another result under others
    made: str = ""  # which table of this name it is: one that is made anew over the log of another has another


def written(last: Last, started: int) -> str:
    """What goes into the commit. `started` is when the run began, in microseconds since 1970."""
    return json.dumps({MARK: asdict(last) | {"started": started}})


def said(label: str | None, at: int, counts: dict[str, int]) -> Last | None:
    """What a commit says, which was made at that time (microseconds) and wrote so many rows; None where it is no commit of a run."""
    if label is None or MARK not in label:
        return None
    try:
        stored = json.loads(label)[MARK]
        fields = stored["receipt"] | {"units": tuple(stored["receipt"]["units"]), "seconds": round((at - stored["started"]) / 1e6, 3)}
        fields["tables"] = {name: tuple(commits) for name, commits in fields["tables"].items()}
        receipt = Receipt(**fields)
        receipt = receipt if receipt.has_counts else receipt.wrote(counts)
        of = (stored["text"], stored["sources"], stored["costs"], receipt, stored["onto"], stored["settings"])
        return Last(*of, stored.get("made", ""))
    except (ValueError, KeyError, TypeError):
        return None
