"""What the functions decide over the rows of one group in memory: the same kernels, for Python UDTFs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streamtime.sql.call.in_memory import Columns, Verdicts
from streamtime.sql.call.spec import Bound
from streamtime.sql.udtf.filtered import too_old
from streamtime.sql.udtf.suppress import suppressed
from streamtime.sql.udtf.totals import ignored
from streamtime.sql.udtf.versions import versioned
from streamtime.udfs.arrays.groups import HIGHEST
from streamtime.udfs.closing import of_last_sliding_window, of_sessions, of_time_windows
from streamtime.udfs.deduplicate import Deduplicate
from streamtime.udfs.sessions import rules
from streamtime.udfs.sessions.sessionize import Sessionize
from streamtime.udfs.suppress.until import Suppression


def deduplicate(call: Bound, in_time_order: bool, columns: Columns) -> Verdicts:
    """DEDUPLICATE, with its kernel."""
    order = np.argsort(columns.keys, kind="stable")
    within = HIGHEST if call["within"] is None else call["within"]
    clocked = not in_time_order
    kernel = Deduplicate(
        within=within, refresh=bool(call["refresh"]), at_most=call["at_most"],
        unique=call["keep"] == "unique", negate=call["keep"] == "last",
        has_stream_time=clocked, offsets=1 if call["offset"] else 0,
    )  # fmt: skip
    aside = np.array([a is not None for a in columns.aside])
    given = [pa.array(columns.times[order], mask=aside[order])]
    given += [pa.array(columns.stream_time[order])] if clocked else []
    given += [columns.offsets.take(pa.array(order))] if call["offset"] else []
    kept: list[int | None] = [None] * len(order)
    kept_times = [v for batch in kernel.run(iter([(*given, pa.array(columns.keys[order]))])) for v in batch.to_pylist()]
    for row, value in zip(order.tolist(), kept_times, strict=True):
        kept[row] = value
    reasons = [a or (None if k is None else "duplicate") for a, k in zip(columns.aside, kept, strict=True)]
    return Verdicts(np.arange(len(order)), reasons, {"kept_time": kept})


def distinct_in_window(call: Bound, _in_time_order: bool, columns: Columns) -> Verdicts:
    """DISTINCT_IN_WINDOW: sessions with their kernel, time windows one by one."""
    rows, reasons, starts, ends = list[int](), list[str | None](), list[int | None](), list[int | None]()
    live: dict[int, rules.Sessions] = {}
    gap, grace = call["gap"], call["grace"]
    seen: set[tuple[int, int]] = set()
    taken = zip(columns.times.tolist(), columns.keys.tolist(), columns.stream_time.tolist(), columns.aside, strict=True)
    for row, (time, key, stream_time, aside) in enumerate(taken):
        if aside is not None:
            judged: list[tuple[str | None, int | None, int | None]] = [(aside, None, None)]
        elif gap is not None:
            known = live.setdefault(key, rules.Sessions(gap))
            session = known.take(time, time, of_sessions(gap, grace).closed_before(stream_time))
            judged = [("duplicate" if known.near else None, *session[:2]) if session else ("late", time, time)]
        else:
            judged = list(_in_windows(call, key, time, stream_time, seen))
        for reason, low, high in judged:
            rows.append(row)
            reasons.append(reason)
            starts.append(low)
            ends.append(high)
    return Verdicts(np.array(rows), reasons, {"window_start": starts, "window_end": ends})


def _in_windows(call: Bound, key: int, time: int, stream_time: int, seen: set[tuple[int, int]]) -> Iterator[tuple[str | None, int, int]]:
    size, slide = call["size"], call["slide"] or call["size"]
    before = of_time_windows(call["grace"]).closed_before(stream_time)
    start = (time - size) // slide * slide + slide  # the earliest window that contains the row
    while start <= time:
        late = start + size < before
        yield "late" if late else "duplicate" if (key, start) in seen else None, start, start + size
        if not late:
            seen.add((key, start))
        start += slide


def sessionize(call: Bound, _in_time_order: bool, columns: Columns) -> Verdicts:
    """SESSIONIZE, with its kernel."""
    order = np.argsort(columns.keys, kind="stable")
    aside = np.array([a is not None for a in columns.aside])
    kernel = Sessionize(call["gap"], HIGHEST if call["grace"] is None else call["grace"], has_stream_time=True)
    given = (
        pa.array(columns.times[order], mask=aside[order]),
        pa.array(columns.stream_time[order]),
        pa.array(columns.keys[order]),
    )
    (sessions,) = kernel.run(iter([given]))
    back = pa.array(np.argsort(order))
    start, end = (sessions.field(edge).take(back).to_pylist() for edge in ("start", "end"))
    reasons = [a or ("late" if s is None else None) for a, s in zip(columns.aside, start, strict=True)]
    return Verdicts(np.arange(len(order)), reasons, {"session_start": start, "session_end": end})


def changes(function: Suppression, call: Bound, _in_time_order: bool, columns: Columns) -> Verdicts:
    """Both functions of suppress, with their kernel."""
    return Verdicts(*suppressed(function, call, columns))


def filter_changes(call: Bound, in_time_order: bool, columns: Columns) -> Verdicts:
    """Which changes FILTER_CHANGES ignores, and why."""
    return Verdicts(np.arange(len(columns.aside)), too_old(call, in_time_order, columns), {})


def aggregate_changes(call: Bound, in_time_order: bool, columns: Columns) -> Verdicts:
    """Which changes AGGREGATE_CHANGES ignores, and why."""
    return Verdicts(np.arange(len(columns.aside)), ignored(call, in_time_order, columns), {})


def versions(call: Bound, _in_time_order: bool, columns: Columns) -> Verdicts:
    """VERSIONS, by the times of each key."""
    return Verdicts(*versioned(call, columns))


def sessions(call: Bound, in_time_order: bool, columns: Columns) -> Verdicts:
    """Which rows sessions take."""
    return _taken(call, in_time_order, columns, ("session_start", "session_end"))


def _taken(call: Bound, in_time_order: bool, columns: Columns, names: tuple[str, str]) -> Verdicts:
    """As DISTINCT_IN_WINDOW, where a row that is not the first of its window is taken too."""
    sized = dataclasses.replace(call, options={"size": None, "slide": None, "gap": None} | call.options)
    distinct = distinct_in_window(sized, in_time_order, columns)
    reasons = [None if r == "duplicate" else r for r in distinct.reasons]
    return Verdicts(distinct.rows, reasons, dict(zip(names, distinct.details.values(), strict=True)))


def windows(call: Bound, in_time_order: bool, columns: Columns) -> Verdicts:
    """Which rows windows take; in sliding windows, a row is late when the last window that could hold it is closed."""
    if call["difference"] is None:
        return _taken(call, in_time_order, columns, BOUNDS)
    late = columns.times < of_last_sliding_window(call["difference"], call["grace"]).closed_before(columns.stream_time)
    reasons = [a or ("late" if is_late else None) for a, is_late in zip(columns.aside, late.tolist(), strict=True)]
    times = [None if a else t for a, t in zip(columns.aside, columns.times.tolist(), strict=True)]
    starts = [None if t is None else t - call["difference"] for t in times]
    return Verdicts(np.arange(len(times)), reasons, {"window_start": starts, "window_end": times})


BOUNDS = ("window_start", "window_end")
