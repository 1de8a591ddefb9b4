"""The slow, from-scratch meaning of WINDOW_UPDATES and SESSION_UPDATES: plain Python, row by row, from rules W1 to W6 and C10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from support.reference import Row, in_processing_order, with_stream_time

Clocked = list[tuple[Row, int | None]]


@dataclass
class Change:
    row: Row
    start: int
    end: int
    values: tuple[Any, ...] | None  # None: a delete
    time: int
    close: int
    seq: int = 0
    nth: int = 0  # among the changes of its row, which is what a final row's change_seq counts
    session: int = 0  # tells a session from a later one with its bounds: one of a key's clocks may have closed it, and another opened that


@dataclass
class Outcome:
    changes: list[Change] = field(default_factory=list)
    late: list[tuple[Row, int, int]] = field(default_factory=list)
    aside: list[tuple[Row, str]] = field(default_factory=list)


def values(members: Sequence[tuple[int, int, Any]]) -> tuple[Any, ...]:
    """count(*), count(v), sum(v), min(v), max(v), avg(v), first(v), last(v), collect_list(v) over (time, number, value)."""
    in_time = [v for _, _, v in sorted(members, key=lambda m: m[:2])]
    there = [v for v in in_time if v is not None]
    some = bool(there)
    return (
        len(members), len(there), sum(there) if some else None, min(there) if some else None, max(there) if some else None,
        sum(there) / len(there) if some else None, in_time[0], in_time[-1], there,
    )  # fmt: skip


def clocked(rows: Sequence[Row], order: Sequence[str], clock_by: Sequence[str]) -> Clocked:
    return with_stream_time(in_processing_order(rows, order), lambda r: tuple(r[c] for c in clock_by), lambda r: takes_part(r, order), 1)


def takes_part(row: Row, order: Sequence[str]) -> bool:
    return row["t"] is not None and row[order[0]] is not None and row["k"] is not None


def played(rows: Clocked, order: Sequence[str], take: Callable[[Row, int, int, Outcome], list[Change]]) -> Outcome:
    """Row by row; change_seq counts a key's changes that share the ORDER BY columns, on a stream those of one micro-batch."""
    found = Outcome()
    seqs: dict[Any, int] = {}
    for number, (row, clock) in enumerate(rows):
        if not takes_part(row, order):
            found.aside.append((row, "null_time" if row["t"] is None or row[order[0]] is None else "null_key"))
            continue
        assert clock is not None
        for nth, change in enumerate(take(row, clock, number, found)):
            change.nth = nth
            shared = (row["k"], *(row[o] for o in order), row.get("batch"))
            change.seq = seqs[shared] = seqs.get(shared, -1) + 1
            found.changes.append(change)
    return found


def time_windows(rows: Clocked, order: Sequence[str], size: int, slide: int, grace: int) -> Outcome:
    members: dict[Any, list[tuple[int, int, Any]]] = {}

    def take(row: Row, clock: int, number: int, found: Outcome) -> list[Change]:
        changes, start = [], (row["t"] - size) // slide * slide + slide
        while start <= row["t"]:
            if start + size > clock - grace:
                inside = members.setdefault((row["k"], start), [])
                inside.append((row["t"], number, row["v"]))
                changes.append(Change(row, start, start + size, values(inside), max(m[0] for m in inside), start + size + grace))
            else:
                found.late.append((row, start, start + size))
            start += slide
        return changes

    return played(rows, order, take)


def sliding_windows(rows: Clocked, order: Sequence[str], difference: int, grace: int) -> Outcome:
    """Windows [start, start + difference]: one that ends at each row, and one that begins right after each, if rows lie in it.

    In Kafka's order: windows that were there, the latest first; then that after the row before, that which ends at the row, that after it.
    """
    members: dict[Any, list[tuple[int, int, Any]]] = {}

    def take(row: Row, clock: int, number: int, found: Outcome) -> list[Change]:
        time, horizon = row["t"], clock - grace
        if time + difference < horizon:
            found.late.append((row, time - difference, time))
            return []
        inside = members.setdefault(row["k"], [])
        old = {m[0] for m in inside}
        there = {end for p in old for end in (p, p + 1 + difference) if any(end - difference <= q <= end for q in old)}
        inside.append((time, number, row["v"]))
        previous = max((p for p in old if p < time), default=None)
        new = [] if previous is None else [previous + 1 + difference]
        new += [time, time + 1 + difference]
        changes = []
        for end in [*sorted(there, reverse=True), *dict.fromkeys(e for e in new if e not in there)]:
            held = [m for m in inside if end - difference <= m[0] <= end]
            touched = end - difference <= time <= end or end not in there
            if held and touched and end >= horizon:
                changes.append(Change(row, end - difference, end, values(held), max(m[0] for m in held), end + grace + 1))
        return changes

    return played(rows, order, take)


def sessions(rows: Clocked, order: Sequence[str], gap: int, grace: int) -> Outcome:
    live: dict[Any, list[tuple[int, int, int, list[tuple[int, int, Any]]]]] = {}  # end, start, which session it is, members

    def take(row: Row, clock: int, number: int, found: Outcome) -> list[Change]:
        time = row["t"]
        here = [s for s in live.get(row["k"], []) if not clock > s[0] + gap + grace]
        near = sorted((s for s in here if s[1] - gap <= time <= s[0] + gap), key=lambda s: s[:2])
        start, end = min([time, *(s[1] for s in near)]), max([time, *(s[0] for s in near)])
        live[row["k"]] = here
        if end < clock - grace - gap:
            found.late.append((row, start, end))
            return []
        inside = [m for s in near for m in s[3]] + [(time, number, row["v"])]
        session = next((s[2] for s in near if s[:2] == (end, start)), number)
        live[row["k"]] = [s for s in here if s not in near] + [(end, start, session, inside)]
        gone = [Change(row, s[1], s[0], None, s[0], s[0] + gap + grace + 1, session=s[2]) for s in near if (start, end) != (time, time)]
        return [*gone, Change(row, start, end, values(inside), end, end + gap + grace + 1, session=session)]

    return played(rows, order, take)


def final(found: Outcome, rows: Clocked, clock_by: Sequence[str] = ()) -> list[tuple[Change, int | None]]:
    """SUPPRESS_UNTIL_CLOSE of the changes: the last upsert of a window that was not deleted, and the stream time that released it."""
    last: dict[Any, Change] = {}
    for change in found.changes:
        last[change.row["k"], change.start, change.end, change.session] = change
    clocks: dict[Any, list[int]] = {}
    for row, clock in rows:
        if clock is not None:
            clocks.setdefault(tuple(row[c] for c in clock_by), []).append(clock)
    upserts = [replace(c, seq=c.nth) for c in last.values() if c.values is not None]
    return [(c, min((at for at in clocks[tuple(c.row[b] for b in clock_by)] if at >= c.close), default=None)) for c in upserts]
