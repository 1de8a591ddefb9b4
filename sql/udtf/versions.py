"""VERSIONS as a Python UDTF: its judge over the rows in memory."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from streamtime.sql.udtf.suppress import DELETION, KIND
from streamtime.udfs.versions import Times, gone, moved, refused

if TYPE_CHECKING:
    from streamtime.sql.call.in_memory import Columns
    from streamtime.sql.call.spec import Bound
    from streamtime.udfs.arrays.groups import Ints


def versioned(call: Bound, columns: Columns) -> tuple[Ints, list[str | None], dict[str, list[Any]]]:
    """All rows at once: which are versions, when they end, and what each was told when it came."""
    count, grace, retention = len(columns.aside), call["grace"], call["retention"]
    times, clocks, keys = columns.times.tolist(), columns.clocks.tolist(), columns.keys.tolist()
    reasons = list(columns.aside)
    known: dict[int, Times] = defaultdict(Times)
    newest: dict[tuple[int, int], int] = {}
    final: dict[int, int | None] = {}
    until: list[Any] = [None] * count
    status = ["refused"] * count
    for row, (time, clock, key) in enumerate(zip(times, clocks, keys, strict=True)):
        if reasons[row] is None and refused(time, int(columns.stream_time[row]), grace):
            reasons[row] = "too_old"
        if reasons[row] is not None:
            continue
        until[row] = known[key].put(time)
        status[row] = "current" if until[row] is None else "superseded"
        final[clock] = moved(final.get(clock), time)
        if (before := newest.get((key, time))) is not None:
            reasons[before] = "overwritten"
        newest[key, time] = row
    if call["output"] == "puts":
        return np.arange(count), reasons, {"valid_to": until, "put_status": status}
    following = {(key, time): known[key].put(time) for key, time in newest}
    begins: list[Any] = [None] * count
    ends: list[Any] = [None] * count
    for (key, time), row in newest.items():
        end = following[key, time]
        if gone(end, final[clocks[row]], retention):
            reasons[row] = "expired"
        else:
            begins[row], ends[row] = time, end
    tombstones = call["output"] == "rows"
    shown = [r for r in range(count) if not (tombstones and columns.changes[r][KIND] == DELETION)]
    picked = [reasons[r] for r in shown]
    return np.array(shown, np.int64), picked, {"valid_from": [begins[r] for r in shown], "valid_to": [ends[r] for r in shown]}
