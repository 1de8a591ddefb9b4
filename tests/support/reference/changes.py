"""JOIN_CHANGES, AGGREGATE_CHANGES and FILTER_CHANGES by the letter of their rules (J7, J9, V8), change by change, over rows of `nasty`.

A row has `t`, a time in microseconds, and `gone`, whether it deletes; its key is `k`, null where a part of it is. Slow, and written from the
rules alone: each group and each joined row is made anew after every change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from support.reference import Row, in_processing_order

Change = tuple[Any, ...]
INFINITY = float("inf")


def applied(
    rows: Sequence[Row],
    order: Sequence[str],
    *,
    versioned: bool,
    retention: int | None,
    clock_by: Sequence[str],
    newest_counts: bool = True,
) -> Iterator[tuple[Row, str | None]]:
    """Rows that are in processing order, and why one is ignored (C6, C12, V2); None where it applies."""
    clocks: dict[Any, int] = {}
    newest: dict[Any, int] = {}
    for row in rows:
        key, t, clock = row["k"], row["t"], tuple(row[c] for c in clock_by)
        if t is None or row[order[0]] is None:
            yield row, "null_time"
            continue
        if key is None:
            yield row, "null_key"
            continue
        clocks[clock] = max(clocks.get(clock, t), t)
        if versioned and retention is not None and t < clocks[clock] - retention:
            yield row, "too_old"
        elif versioned and newest_counts and t < newest.get(key, t):
            yield row, "out_of_order"
        else:
            newest[key] = max(t, newest.get(key, t))
            yield row, None


def filtered(
    rows: Sequence[Row], order: Sequence[str], passes: Callable[[Row], bool], *, descending: bool = False, **asked: Any
) -> tuple[list[Change], list[Change]]:
    """The changes: the row, 'upsert' or 'delete', its time, its number; and what was ignored: the row, and why."""
    made, ignored = list[Change](), list[Change]()
    there: set[Any] = set()
    numbers: Counter[Any] = Counter()
    for row, reason in applied(in_processing_order(rows, order, descending), order, newest_counts=False, **asked):
        if reason is not None:
            ignored.append((row, reason))
            continue
        passed = not row["gone"] and passes(row)
        if passed or asked["versioned"] or row["k"] in there:
            place = (row["k"], *(row[c] for c in order))
            made.append((row, "upsert" if passed else "delete", row["t"], numbers[place]))
            numbers[place] += 1
        (there.add if passed else there.discard)(row["k"])
    return made, ignored


def aggregated(
    rows: Sequence[Row], order: Sequence[str], by: Sequence[str], *, descending: bool = False, **asked: Any
) -> tuple[list[Change], list[Change]]:
    """The changes: the group, the row that caused it, the rows that are in the group then, type, time, number; and what was ignored."""
    made, ignored = list[Change](), list[Change]()
    table: dict[Any, Row] = {}
    reached: dict[Any, int] = {}
    numbers: Counter[Any] = Counter()

    def group(row: Row | None) -> Any:
        of = None if row is None or row["gone"] else tuple(row[c] for c in by)
        return None if of is None or None in of else of

    for row, reason in applied(in_processing_order(rows, order, descending), order, **asked):
        if reason is not None:
            ignored.append((row, reason))
            continue
        old, new = group(table.get(row["k"])), group(row)
        table[row["k"]] = row
        moved = old is not None and new is not None and old != new
        for of in dict.fromkeys(g for g in (old, new) if g is not None):
            reached[of] = max(row["t"], reached.get(of, row["t"]))
            place = (of, *(row[c] for c in order))
            members = [r for r in table.values() if group(r) == of]
            kind = "upsert" if members else "delete"
            made.append((of, row, members, kind, reached[of], 2 * numbers[place] + (moved and of == new)))
            numbers[place] += 1
    return made, ignored


def joined(
    left: Sequence[Row],
    right: Sequence[Row],
    order: Sequence[str],
    join: str,
    *,
    versioned: Sequence[str],
    retention: int | None,
    clock_by: Sequence[str],
    descending: bool = False,
) -> tuple[list[Change], list[Change]]:
    """The changes: the row that caused it, the rows of both sides (None: not there), type, time, number; and what was ignored, by side."""
    made, ignored = list[Change](), list[Change]()
    sides = {"left": left, "right": right}
    reasons = {
        (side, row["id"]): reason
        for side, rows in sides.items()
        for row, reason in applied(
            in_processing_order(rows, order, descending), order, versioned=side in versioned, retention=retention, clock_by=clock_by
        )
    }
    table: dict[Any, Row] = {}
    numbers: Counter[Any] = Counter()

    def at(key: Any, side: str) -> Row | None:
        row = table.get((key, side))
        return None if row is None or row["gone"] else row

    def is_there(key: Any) -> bool:
        one, other = at(key, "left") is not None, at(key, "right") is not None
        return {"inner": one and other, "left": one, "outer": one or other}[join]

    all_rows = [{c: row[c] for c in order} | {"side": side} | row for side, rows in sides.items() for row in rows]
    for row in in_processing_order(all_rows, order, descending):  # the side is the first column that breaks ties
        side, key = row["side"], row["k"]
        if (reason := reasons[side, row["id"]]) is not None:
            ignored.append((side, row, reason))
            continue
        before = is_there(key)
        table[key, side] = row
        other = at(key, "right" if side == "left" else "left")
        time = row["t"] if other is None else max(row["t"], other["t"])
        place = (key, *(row[c] for c in order))
        if is_there(key):
            made.append((row, at(key, "left"), at(key, "right"), "upsert", time, numbers[place]))
        elif before:
            made.append((row, None, None, "delete", time, numbers[place]))
        else:
            continue
        numbers[place] += 1
    return made, ignored


def summed(values: Sequence[float | None], nan: float) -> float | None:
    """An exact sum of few doubles; `nan` stands for NaN."""
    there = [v for v in values if v is not None]
    if not there:
        return None
    if nan in there or (INFINITY in there and -INFINITY in there):
        return nan
    return sum(there)
