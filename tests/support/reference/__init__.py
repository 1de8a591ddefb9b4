"""The slow, from-scratch meaning of each function: plain Python, row by row, written from the rules and from nothing else.

Each has a file of its own. Here is what they share: order, stream time, and what became of a row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass
class Judged:
    """A row and what became of it."""

    row: Row
    reason: str | None = None
    stream_time: int | None = None
    kept_time: int | None = None
    window: tuple[int, int] | None = None
    sign: int = 1  # -1: stream time falls (D8)

    @property
    def lateness(self) -> int | None:
        """How far the row lies behind stream time."""
        return None if self.stream_time is None else max((self.stream_time - self.row["t"]) * self.sign, 0)


def in_processing_order(rows: Sequence[Row], order: Sequence[str], descending: bool = False, reverse: bool = False) -> list[Row]:
    """C4: ORDER BY, then the remaining columns left to right, ascending, nulls first."""

    def compare(a: Row, b: Row) -> int:
        for i, column in enumerate([*order, *(c for c in a if c not in order)]):
            x, y = a[column], b[column]
            if x == y:
                continue
            sign = -1 if descending and i < len(order) else 1
            less = x is None or (y is not None and x < y)
            return -sign if less else sign
        return 0

    ordered = sorted(rows, key=functools.cmp_to_key(compare))
    return ordered[::-1] if reverse else ordered


def with_stream_time(
    rows: Sequence[Row], clock: Callable[[Row], Any], moves: Callable[[Row], bool], sign: int
) -> list[tuple[Row, int | None]]:
    """C3: the largest event time so far, the row at hand included, per clock."""
    clocks: dict[Any, int] = {}
    found = []
    for row in rows:
        if moves(row):
            clocks[clock(row)] = max(clocks.get(clock(row), row["t"] * sign), row["t"] * sign)
        found.append((row, clocks.get(clock(row))))
    return found


BEFORE = -(10**30)  # stream time before a stream has one


def known(clock: int | None) -> int | None:
    """Stream time as it is reported."""
    return None if clock == BEFORE else clock


def in_micro_batches(
    batches: Sequence[Sequence[Row]], order: Sequence[str], delay: int, step: int = 1, calls: Sequence[Sequence[str]] = ()
) -> list[tuple[Row, int]]:
    """C3 in a stream: each micro-batch runs under one watermark, the largest time of those before it less the delay, cut to `step`.

    A watermark that is not above zero is none yet, as Spark has it. C12: a row that takes no part does not move it, that is one with a null
    time, or with a null in the first ORDER BY column. `calls` are the columns for which this holds, of each call in the query: Spark's
    watermark is that of the call which is behind.
    """
    needed = [("t", *columns) for columns in calls or (order[:1],)]
    largest, found = [BEFORE] * len(needed), []
    for rows in batches:
        watermark = (min(largest) - delay) // step * step
        found += [(row, watermark if watermark > 0 else BEFORE) for row in in_processing_order(rows, order)]
        for i, columns in enumerate(needed):
            largest[i] = max([largest[i], *(r["t"] for r in rows if all(r[c] is not None for c in columns))])
    return found
