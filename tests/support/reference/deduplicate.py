"""The slow meaning of DEDUPLICATE and DISTINCT_IN_WINDOW: row by row, from rules C3, C4, C12, D1 to D10 and W1 to W3, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from support.reference import BEFORE, Judged, Row, in_processing_order, known, with_stream_time


def deduplicate(
    rows: Sequence[Row],
    *,
    within: int | None,
    order: Sequence[str] = ("t",),
    keys: Sequence[str] = ("k",),
    keep: str = "first",
    refresh: bool = False,
    at_most: int | None = None,
    offset: str | None = None,
    clock_by: Sequence[str] = (),
    descending: bool = False,
    clocked: list[tuple[Row, int]] | None = None,
) -> list[Judged]:
    """D1 to D8, D10. The event time is column `t`."""
    last = keep == "last"
    sign = -1 if last else 1
    far, longest = (10**30 if length is None else length for length in (within, at_most))
    judged: list[Judged] = []
    kept: dict[Any, tuple[int, Any, Judged, int]] = {}  # key -> (time, offset, the kept row, when that one passed)
    causes: set[int] = set()
    has_time = lambda r: r["t"] is not None and r[order[0]] is not None  # noqa: E731
    ordered = in_processing_order(rows, order, descending, reverse=last)
    for row, clock in clocked or with_stream_time(ordered, lambda r: tuple(r[c] for c in clock_by), has_time, sign):
        this = Judged(row, sign=sign)
        judged.append(this)
        if not has_time(row):
            this.reason = "null_time"
            continue
        assert clock is not None
        this.stream_time = None if clock == BEFORE else clock * sign
        key = tuple(row[k] for k in keys)
        if None in key:
            continue
        time = row["t"] * sign
        live = kept.get(key)
        if live is not None and clock - live[0] > far:
            live = None  # by this row's clock; where a key's rows follow several clocks, another may still see it
        if live is not None and abs(time - live[0]) <= far and time - live[3] <= longest:
            redelivered = offset is not None and row[offset] is not None and row[offset] == live[1]
            if not redelivered:
                this.reason, this.kept_time = "duplicate", live[0] * sign
                causes.add(id(live[2]))
            if refresh and not redelivered and time > live[0]:
                kept[key] = (time, *live[1:])
        elif time >= clock - far:
            kept[key] = (time, row[offset] if offset else None, this, time)
    if keep == "unique":
        for one in judged:
            if id(one) in causes:
                one.reason, one.kept_time = "duplicate", one.row["t"]
    return judged


def distinct_in_windows(
    rows: Sequence[Row],
    *,
    size: int,
    slide: int | None = None,
    grace: int = 0,
    order: Sequence[str] = ("t",),
    clock_by: Sequence[str] = (),
    clocked: list[tuple[Row, int]] | None = None,
) -> list[Judged]:
    """D9 with tumbling and hopping windows: W1."""
    slide = slide or size
    seen: set[Any] = set()
    judged: list[Judged] = []
    for row, clock in _taking_part(rows, order, clock_by, clocked, judged):
        start = (row["t"] - size) // slide * slide + slide  # the earliest window that contains the row
        while start <= row["t"]:
            identity = (row["k"], start)
            late = not start + size > clock - grace
            reason = "late" if late else "duplicate" if identity in seen else None
            if not late:
                seen.add(identity)
            judged.append(Judged(row, reason, known(clock), window=(start, start + size)))
            start += slide
    return judged


def distinct_in_sessions(
    rows: Sequence[Row],
    *,
    gap: int,
    grace: int = 0,
    order: Sequence[str] = ("t",),
    clock_by: Sequence[str] = (),
    clocked: list[tuple[Row, int]] | None = None,
) -> list[Judged]:
    """D9 with session windows: W2, W3."""
    sessions: dict[Any, list[list[int]]] = {}
    judged: list[Judged] = []
    for row, clock in _taking_part(rows, order, clock_by, clocked, judged):
        time = row["t"]
        live = sessions[row["k"]] = [s for s in sessions.get(row["k"], []) if not clock > s[1] + gap + grace]  # closed for good
        joined = [s for s in live if s[0] - gap <= time <= s[1] + gap]
        merged = [min([time, *(s[0] for s in joined)]), max([time, *(s[1] for s in joined)])]
        if merged[1] < clock - grace - gap:
            judged.append(Judged(row, "late", known(clock), window=(merged[0], merged[1])))
            continue
        sessions[row["k"]] = [s for s in live if s not in joined] + [merged]
        judged.append(Judged(row, "duplicate" if joined else None, known(clock), window=(merged[0], merged[1])))
    return judged


def _taking_part(
    rows: Sequence[Row], order: Sequence[str], clock_by: Sequence[str], clocked: list[tuple[Row, int]] | None, judged: list[Judged]
) -> Iterator[tuple[Row, int]]:
    """D9: rows with a time and a key, in order, each with stream time. The others are `judged` on the way (C12)."""
    has_time = lambda r: r["t"] is not None and r[order[0]] is not None  # noqa: E731
    moves = lambda r: has_time(r) and r["k"] is not None  # noqa: E731
    exact = with_stream_time(in_processing_order(rows, order), lambda r: tuple(r[c] for c in clock_by), moves, 1)
    for row, clock in clocked or exact:
        if not moves(row):
            judged.append(Judged(row, "null_key" if has_time(row) else "null_time", known(clock) if has_time(row) else None))
            continue
        assert clock is not None
        yield row, clock
