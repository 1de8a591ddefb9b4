"""The slow meaning of EVERY_NTH: row by row, from the page alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from support.reference import Judged, Row, in_processing_order


def every_nth(rows: Sequence[Row], order: Sequence[str], n: int) -> list[Judged]:
    """C4: rows of a key are counted in processing order."""
    counts: Counter[Any] = Counter()
    judged = []
    for row in in_processing_order(rows, order):
        reason = "null_time" if row["t"] is None else "null_key" if row["k"] is None else None
        if reason is None:
            counts[row["k"]] += 1
            reason = None if counts[row["k"]] % n == 0 else "passed_over"
        judged.append(Judged(row, reason))
    return judged
