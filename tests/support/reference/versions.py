"""The slow meaning of versioned tables: put by put, from rules V1 to V5 and C12 and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support.reference import Row, in_processing_order

Version = tuple[Any, int, int | None]  # value, valid_from, valid_to


@dataclass
class Store:
    """A versioned table in memory. A value of None is a tombstone."""

    retention: int | None = None
    grace: int | None = None
    stream_time: int | None = None
    versions: dict[Any, dict[int, Any]] = field(default_factory=dict)

    def put(self, key: Any, value: Any, time: int) -> tuple[str, int | None]:
        """V2: the status of the put, and when it ends as far as is known."""
        if self.stream_time is not None and self.grace is not None and time < self.stream_time - self.grace:
            return "refused", None
        self.stream_time = time if self.stream_time is None else max(self.stream_time, time)
        self.versions.setdefault(key, {})[time] = value
        later = [t for t in self.versions[key] if t > time]
        return ("superseded", min(later)) if later else ("current", None)

    def delete(self, key: Any, time: int) -> Version | None:
        """V4: what was valid then."""
        before = self.get(key, time)
        return None if self.put(key, None, time)[0] == "refused" else before

    def all(self, key: Any) -> list[Version]:
        """V1: every version, tombstones included, oldest first."""
        times = sorted(self.versions.get(key, {}))
        return [(self.versions[key][t], t, later) for t, later in zip(times, [*times[1:], None], strict=False)]

    def get(self, key: Any, at: int | None = None) -> Version | None:
        """V1, V3. Without a time, the current version."""
        for value, begins, ends in self.all(key):
            if (at is None and ends is None) or (at is not None and begins <= at and (ends is None or at < ends)):
                expired = ends is not None and self.retention is not None and at < self.stream_time - self.retention
                return None if value is None or expired else (value, begins, ends)
        return None

    def history(self, key: Any, low: int, high: int) -> list[Version]:
        """V4: the versions that are valid at some time from low to high, newest first, without those that no lookup finds (V3)."""
        oldest = low if self.retention is None or self.stream_time is None else max(low, self.stream_time - self.retention)
        found = [v for v in self.all(key) if v[0] is not None and v[1] <= high and (v[2] is None or v[2] > oldest <= high)]
        return found[::-1]


@dataclass
class Judged:
    """A row of a changelog, and what became of it."""

    row: Row
    reason: str | None
    stream_time: int | None
    status: str
    told: int | None
    valid_to: int | None = None
    tombstone: bool = False


def versions(
    rows: Sequence[Row], *, order: Sequence[str], grace: int | None, retention: int | None, deleted: str, clock_by: Sequence[str] = ()
) -> list[Judged]:
    """VERSIONS over rows with a key `k` and a time `t`; `deleted` is a column of flags."""
    clocks: dict[Any, Store] = {}
    found: list[Judged] = []
    accepted: dict[Any, dict[int, Judged]] = {}
    told: dict[Any, Store] = {}
    for row in in_processing_order(rows, order):
        store = clocks.setdefault(tuple(row[c] for c in clock_by), Store(retention, grace))
        absent = row["t"] is None or row[order[0]] is None
        if absent or row["k"] is None:
            found.append(Judged(row, "null_time" if absent else "null_key", store.stream_time, "refused", None))
            continue
        if store.put(row["k"], row, row["t"])[0] == "refused":
            found.append(Judged(row, "too_old", store.stream_time, "refused", None))
            continue
        status, until = told.setdefault(row["k"], Store()).put(row["k"], row, row["t"])
        judged = Judged(row, None, store.stream_time, status, until, tombstone=bool(row[deleted]))
        before = accepted.setdefault(row["k"], {}).get(row["t"])
        if before is not None:
            before.reason = "overwritten"
        accepted[row["k"]][row["t"]] = judged
        found.append(judged)
    for of_key in accepted.values():
        for time, judged in of_key.items():
            judged.valid_to = min((t for t in of_key if t > time), default=None)
            last = clocks[tuple(judged.row[c] for c in clock_by)].stream_time
            if retention is not None and judged.valid_to is not None and judged.valid_to <= last - retention:
                judged.reason = "expired"
    return found
