"""SESSIONIZE on a stream: rows wait in the state until their session is closed, then leave with its final bounds (rules W3, W4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import of_sessions
from streamtime.udfs.sessions.rules import judge
from streamtime.udfs.state import Entries, Taken, waiting


@dataclass(frozen=True)
class SessionRows:
    """An entry is a row that waits: its session's end, by which it lives, its session's start, and stream time when it came.

    Without `grace` sessions close as with none, and a row that comes after its session closed is one of its own, which leaves at once.
    """

    gap: int
    grace: int | None
    time: str  # the event time
    edges: tuple[str, str]  # names for the bounds of a session
    report: tuple[str, ...] = ()  # names for the reason and stream time, where late rows are returned as well

    @property
    def counts(self) -> tuple[str, ...]:
        """How many rows came after their session closed."""
        return ("late_drop_total",)

    @property
    def width(self) -> int:
        """The three numbers."""
        return 3

    def threshold(self, stream_time: int) -> int:
        """A session that ends before this is closed [W3]."""
        return int(of_sessions(self.gap, self.grace).closed_before(stream_time))

    def held_columns(self, columns: Sequence[str]) -> Sequence[str]:
        """All of them."""
        return columns

    def take(self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries) -> Taken:
        """One micro-batch of a stream (`streamtime.udfs.state.Holder`)."""
        times = groups.micros(one(rows, self.time))
        ends, starts, came = held.matrix
        order = np.lexsort((starts, owner))
        first = np.ones(len(order), bool)
        first[1:] = (owner[order][1:] != owner[order][:-1]) | (starts[order][1:] != starts[order][:-1])
        number, at = np.empty(len(order), np.int64), order[first]
        number[order] = np.cumsum(first) - 1
        judged = judge(self.gap, self.grace or 0, group, times, stream_times, np.stack((starts[at], ends[at])), owner[at])
        stay, late = np.flatnonzero(~judged.late), np.flatnonzero(judged.late)
        session = np.concatenate((judged.carried[number], judged.session[stay]))
        matrix = np.stack((judged.ends[session], judged.starts[session], np.concatenate((came, stream_times[stay]))))
        whose, entries = waiting(held, owner, rows.take(pa.array(stay)), group[stay], matrix)
        return Taken(self._out(rows, times, stream_times, late), whose, entries, self._counts(late))

    def release(self, due: Entries, _clock: int) -> pa.Table:
        """Rows of closed sessions."""
        assert due.payload is not None
        ends, starts, came = due.matrix
        return self._with(pa.Table.from_batches([due.payload]), None, came, starts, ends, np.zeros(len(ends), bool))

    def _out(self, rows: pa.Table, times: Ints, stream_times: Ints, late: Ints) -> pa.Table:
        """Late rows; without `grace` there are none, and these are sessions of their own."""
        if self.grace is not None and not self.report:
            late = late[:0]
        dropped = np.full(len(late), self.grace is not None)
        return self._with(
            rows.take(pa.array(late)), "late" if self.grace is not None else None, stream_times[late], times[late], times[late], dropped
        )

    def _with(self, table: pa.Table, reason: str | None, came: Ints, starts: Ints, ends: Ints, none: groups.Flags) -> pa.Table:
        like = table.schema.field(self.time).type
        if self.report:
            columns = pa.array([reason] * len(came), pa.string()), groups.times(came, came == LOWEST, like)
            for name, column in zip(self.report, columns, strict=True):
                table = table.append_column(name, column)
        for name, edge in zip(self.edges, (starts, ends), strict=True):
            table = table.append_column(name, groups.times(edge, none, like))
        return table

    def _counts(self, late: Ints) -> dict[str, float]:
        return {"late_drop_total": len(late) if self.grace is not None else 0}
