"""The slow meaning of SESSIONIZE: row by row, from rules C3, C12, W2, W3 and W4 and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from support.reference import BEFORE, Row, in_processing_order, known, with_stream_time


@dataclass(eq=False)
class Session:
    """A session of one key; rows point at it, and it points at the session that it was merged into."""

    start: int
    end: int
    merged_into: Session | None = None
    closed: bool = False

    def final(self) -> Session:
        return self if self.merged_into is None else self.merged_into.final()


@dataclass
class Judged:
    """A row, what it did when it came, its session's bounds right after it, and the session that it ends up in."""

    row: Row
    outcome: str
    stream_time: int | None
    after: tuple[int, int] | None = None
    merged: int = 0
    before: tuple[int | None, int | None] = (None, None)  # the start of the last session that it found, and the end of the first
    session: Session | None = None

    @property
    def reason(self) -> str | None:
        return self.outcome if self.outcome in ("null_time", "null_key", "late") else None

    @property
    def final(self) -> tuple[int, int] | None:
        return None if self.session is None else (self.session.final().start, self.session.final().end)


def sessionize(
    rows: Sequence[Row],
    *,
    gap: int,
    grace: int | None,
    order: Sequence[str] = ("t",),
    clock_by: Sequence[str] = (),
    clocked: list[tuple[Row, int]] | None = None,
    closing_grace: int | None = None,
) -> list[Judged]:
    """The event time is column `t`, the key column `k`. `grace` None: no row is late and no session ever closes,
    unless `closing_grace` says when they do (a stream)."""
    sessions: dict[str, list[Session]] = {}
    judged: list[Judged] = []

    def takes_part(row: Row) -> bool:
        return row["t"] is not None and row[order[0]] is not None and row["k"] is not None

    exact = with_stream_time(in_processing_order(rows, order), lambda r: tuple(r[c] for c in clock_by), takes_part, 1)
    for row, clock in clocked or exact:
        if not takes_part(row):
            has_time = row["t"] is not None and row[order[0]] is not None
            judged.append(Judged(row, "null_key" if has_time else "null_time", None if not has_time or clock is None else known(clock)))
            continue
        assert clock is not None
        time, its = row["t"], sessions.setdefault(row["k"], [])
        closes_after = grace if grace is not None else closing_grace
        for one in its:
            if closes_after is not None and clock > one.end + gap + closes_after:
                one.closed = True  # for good
        joined = [s for s in its if not s.closed and s.merged_into is None and s.start - gap <= time <= s.end + gap]
        merged = Session(min([time, *(s.start for s in joined)]), max([time, *(s.end for s in joined)]))
        after = (merged.start, merged.end)
        if grace is not None and merged.end < clock - grace - gap:
            judged.append(Judged(row, "late", known(clock), after))
            continue
        for one in joined:
            one.merged_into = merged
        its.append(merged)
        outcome = ("opened", "joined", "merged")[min(len(joined), 2)]
        before = (max(s.start for s in joined), min(s.end for s in joined)) if joined else (None, None)
        judged.append(Judged(row, outcome, known(clock), after, len(joined), before, merged))
    assert all(j.stream_time != BEFORE for j in judged)
    return judged
