"""The slow meaning of AS_OF_JOIN: plain Python, row by row, written from the rules J1 to J6 and V1 to V3 and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reference import in_processing_order

Row = dict[str, Any]


@dataclass
class Joined:
    """A left row, the right row that it found, and why it found none."""

    row: Row
    match: Row | None = None
    reason: str | None = None


def as_of_join(
    left: Sequence[Row],
    right: Sequence[Row],
    *,
    direction: str = "backward",
    tolerance: int | None = None,
    exact: bool = True,
    ties: str = "last",
    order: Sequence[str] = ("t",),
) -> list[Joined]:
    """J1 to J4, J6: against complete history. Rows have k, t; a right row with `gone` is a tombstone."""
    versions: dict[Any, list[Row]] = {}
    for row in in_processing_order([r for r in right if r["t"] is not None and r["k"] is not None], order):
        versions.setdefault(row["k"], []).append(row)
    found = []
    for row in left:
        if row["t"] is None or row["k"] is None:
            found.append(Joined(row, None, "null_time" if row["t"] is None else "null_key"))
            continue
        history = versions.get(row["k"], [])
        alive = [v for v in history if not v["gone"]]
        before = [v for v in (history if direction == "backward" else alive) if v["t"] < row["t"] or (exact and v["t"] == row["t"])]
        after = [v for v in alive if v["t"] > row["t"] or (exact and v["t"] == row["t"])]
        choices = {"backward": [before], "forward": [after], "nearest": [before, after]}[direction]
        best: Row | None = None
        for side in choices:
            if side:
                at = (max if side is before else min)(v["t"] for v in side)
                tied = [v for v in side if v["t"] == at]
                candidate = tied[-1] if ties == "last" else tied[0]
                if best is None or abs(candidate["t"] - row["t"]) < abs(best["t"] - row["t"]):
                    best = candidate
        if best is not None and (best["gone"] or (tolerance is not None and abs(row["t"] - best["t"]) > tolerance)):
            best = None
        found.append(Joined(row, best, None if best else "no_match"))
    return found


class Store:
    """A versioned table (V1 to V3): what was put, by key and time."""

    def __init__(self, retention: int | None) -> None:
        self.retention = retention
        self.versions: dict[Any, dict[int, Row]] = {}
        self.clock: int | None = None

    def put(self, row: Row) -> None:
        """V2, with a grace of the retention."""
        if self.retention is not None and self.clock is not None and row["t"] < self.clock - self.retention:
            return
        self.clock = row["t"] if self.clock is None else max(self.clock, row["t"])
        self.versions.setdefault(row["k"], {})[row["t"]] = row

    def get(self, key: Any, t: int, exact: bool) -> tuple[Row | None, str | None]:
        """V1, V3."""
        history = self.versions.get(key, {})
        valid = [at for at in history if at < t or (exact and at == t)]
        if not valid or history[max(valid)]["gone"]:
            return None, "no_match"
        expired = self.retention is not None and self.clock is not None and t < self.clock - self.retention
        if expired and max(valid) != max(history):
            return None, "expired"
        return history[max(valid)], None


def known_as_of(
    left: Sequence[Row],
    right: Sequence[Row],
    *,
    retention: int | None = None,
    grace: int | None = None,
    at_end: str = "emit",
    exact: bool = True,
    clock_by: bool = False,
) -> list[Joined]:
    """J5: row by row in order of arrival `o`; of equal arrivals the left row comes first. `clock_by`: clocks run per key."""
    stores: dict[Any, Store] = {}
    clocks: dict[Any, int] = {}
    waiting: list[Joined] = []
    found = []

    def look_up(joined: Joined) -> None:
        row = joined.row
        store = stores.setdefault(row["k"] if clock_by else None, Store(retention))
        joined.match, joined.reason = store.get(row["k"], row["t"], exact)

    arrivals = [(r["o"], 0, r) for r in left] + [(r["o"], 1, r) for r in in_processing_order(right, ["o"]) if r["o"] is not None]
    for _, is_right, row in sorted(arrivals, key=lambda a: (a[0] is not None, a[0] or 0, a[1])):
        clock = row["k"] if clock_by else None
        if is_right:
            if row["t"] is not None and row["k"] is not None:
                stores.setdefault(clock, Store(retention)).put(row)
            continue
        joined = Joined(row)
        found.append(joined)
        if row["t"] is None or row["k"] is None or row["o"] is None:
            joined.reason = "null_time" if row["t"] is None else "null_key" if row["k"] is None else "no_match"
            if row["t"] is None or row["o"] is None:
                continue  # of those that can match nothing, only a row with a time moves the clock
        if grace is None:
            if not joined.reason:
                look_up(joined)
            continue
        clocks[clock] = max(clocks.get(clock, row["t"]), row["t"])
        waiting += [] if joined.reason else [joined]
        for other in [w for w in waiting if (w.row["k"] if clock_by else None) == clock and w.row["t"] <= clocks[clock] - grace]:
            waiting.remove(other)
            look_up(other)
    for joined in waiting:
        if at_end == "hold":
            joined.reason = "held"
        else:
            look_up(joined)
    return found
