"""The slow meaning of AS_OF_JOIN: plain Python, row by row, written from the rules J1 to J6 and V1 to V3 and from nothing else.

Rows have a key `k` (None where a part of it is null) and a time `t`; right rows that delete their key have `gone`; arrivals are in `o`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
By = str | tuple[str, bool, bool]  # a column; or with whether it goes up, and whether nulls come first


@dataclass
class Joined:
    """A left row, the right row that it found, and why it found none: with `expired`, the one that retention hid."""

    row: Row
    match: Row | None = None
    reason: str | None = None
    expired: Row | None = None


def in_order(rows: Iterable[Row], order: Sequence[By]) -> list[Row]:
    """C4: by these columns, then by the remaining ones, left to right, ascending, nulls first."""
    by = [(b, True, True) if isinstance(b, str) else b for b in order]

    def compare(a: Row, b: Row) -> int:
        named = [name for name, _, _ in by]
        for name, up, nulls_first in [*by, *((n, True, True) for n in a if n not in named)]:
            x, y = a[name], b[name]
            if x == y:
                continue
            if x is None or y is None:
                return -1 if (x is None) == nulls_first else 1
            return -1 if (x < y) == up else 1
        return 0

    return sorted(rows, key=functools.cmp_to_key(compare))


def without_place(row: Row) -> str | None:
    """J3, C12: why a left row cannot match anything."""
    return "null_time" if row["t"] is None else "null_key" if row["k"] is None else None


def as_of_join(
    left: Sequence[Row],
    right: Sequence[Row],
    *,
    direction: str = "backward",
    tolerance: int | None = None,
    exact: bool = True,
    ties: str = "last",
    order: Sequence[By] = ("t",),
) -> list[Joined]:
    """J1 to J4, J6: against complete history. `order` is the right side's ORDER BY, its time first."""
    history: dict[Any, dict[int, list[Row]]] = {}  # of a key: the rows of each time, in order
    for row in in_order([r for r in right if without_place(r) is None], order):
        if direction == "backward" or not row["gone"]:  # the others skip tombstones
            history.setdefault(row["k"], {}).setdefault(row["t"], []).append(row)
    found = []
    for row in left:
        joined = Joined(row, None, without_place(row))
        found.append(joined)
        if joined.reason:
            continue
        t, times = row["t"], history.get(row["k"], {})
        behind = [at for at in times if at < t or (exact and at == t)] if direction != "forward" else []
        ahead = [at for at in times if at > t or (exact and at == t)] if direction != "backward" else []
        candidates = [*([max(behind)] if behind else []), *([min(ahead)] if ahead else [])]
        if candidates:
            at = min(candidates, key=lambda c: abs(c - t))  # the first of equals, which lies behind
            joined.match = times[at][-1 if ties == "last" else 0]
            if joined.match["gone"] or (tolerance is not None and abs(t - at) > tolerance):
                joined.match = None
        joined.reason = None if joined.match else "no_match"
    return found


class Store:
    """A versioned table that refuses what is older than its stream time less `retention` (V1 to V3, J5)."""

    def __init__(self, retention: int | None) -> None:
        self.retention = retention
        self.stream_time: int | None = None
        self.versions: dict[Any, dict[int, Row]] = {}

    def too_old(self, t: int) -> bool:
        return self.retention is not None and self.stream_time is not None and t < self.stream_time - self.retention

    def put(self, row: Row) -> None:
        """V2: an equal key and time overwrites."""
        if not self.too_old(row["t"]):
            self.stream_time = row["t"] if self.stream_time is None else max(self.stream_time, row["t"])
            self.versions.setdefault(row["k"], {})[row["t"]] = row

    def look_up(self, joined: Joined, exact: bool, tolerance: int | None) -> None:
        """V1, V3, J2: `expired` only where nothing but retention hid a match."""
        t, versions = joined.row["t"], self.versions.get(joined.row["k"], {})
        at = max((v for v in versions if v < t or (exact and v == t)), default=None)
        joined.reason = "no_match"
        if at is None or versions[at]["gone"] or (tolerance is not None and t - at > tolerance):
            return
        if self.too_old(t) and at != max(versions):  # the current version never expires
            joined.reason, joined.expired = "expired", versions[at]
        else:
            joined.match, joined.reason = versions[at], None


def known_as_of(
    left: Sequence[Row],
    right: Sequence[Row],
    *,
    retention: int | None = None,
    grace: int | None = None,
    at_end: str = "emit",
    exact: bool = True,
    tolerance: int | None = None,
    clock_by: bool | Callable[[Row], Any] = False,
    order: Sequence[By] = ("t",),
) -> list[Joined]:
    """J5: one record after the other. `clock_by`: clocks run per key, or per what it says of a row."""
    clock_of = clock_by if callable(clock_by) else (lambda row: row["k"] if clock_by else None)
    stores: dict[Any, Store] = {}
    buffers: dict[Any, list[Joined]] = {}
    clocks: dict[Any, int] = {}
    found = [Joined(row, None, without_place(row)) for row in left]
    arriving = [j for j in found if j.row["o"] is not None]

    def look_up(joined: Joined) -> None:
        stores.setdefault(clock_of(joined.row), Store(retention)).look_up(joined, exact, tolerance)

    puts = in_order([r for r in right if r["o"] is not None and without_place(r) is None], ["o", *order])
    for at in sorted({j.row["o"] for j in arriving} | {r["o"] for r in puts}):
        for joined in (j for j in arriving if j.row["o"] == at):  # before the right rows of that arrival: those have not arrived before it
            clock, t = clock_of(joined.row), joined.row["t"]
            if grace is None:
                if joined.reason is None:
                    look_up(joined)
            elif t is not None:
                clocks[clock] = max(clocks.get(clock, t), t)
                waiting = buffers.setdefault(clock, [])
                if joined.reason is None:
                    waiting.append(joined)
                for due in [w for w in waiting if w.row["t"] <= clocks[clock] - grace]:
                    waiting.remove(due)
                    look_up(due)
        for row in (r for r in puts if r["o"] == at):
            stores.setdefault(clock_of(row), Store(retention)).put(row)
    for joined in (w for waiting in buffers.values() for w in waiting):
        if at_end == "hold":
            joined.reason = "held"
        else:
            look_up(joined)
    for joined in found:  # a null arrival has seen nothing
        if joined.row["o"] is None and joined.reason is None:
            joined.reason = "no_match"
    return found
