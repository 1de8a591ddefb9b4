"""Suppress on a stream (rules S1 to S8): rows that wait for stream time, which stays the same within a micro-batch.

What was due has left before the rows of a micro-batch come (`streamtime.udfs.state.Holder`). Then, key by key and in processing order, a
row that is due at once passes; any other replaces the held row of its key. An entry is the held row, and as numbers when it is due, since
when its key has a place, the stream time at which the row came, and whether it is a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.state import Entries, Seconds, Taken
from streamtime.udfs.suppress.until import Until

DUE, PLACE, CAME, DELETED = range(4)  # an entry, without its key

COUNTS = (
    "replaced_drop_total",
    "tombstone_drop_total",
    "suppression_emit_total",
    "suppression_buffer_entered_total",
    "suppression_buffer_left_total",
    "suppression_overtime_sum",
    "suppression_overtime_min",
)
SECONDS = (
    Seconds("suppression_overtime_avg", "suppression_overtime_sum", "suppression_emit_total"),
    Seconds("suppression_overtime_min", "suppression_overtime_min", "suppression_emit_total", least=True),
)


@dataclass(frozen=True)
class StreamBuffer:
    """Until when rows wait, and which columns there are."""

    until: Until
    time: str
    columns: tuple[str, ...]  # of rows that come out, in order
    reason: str  # the names of what is added to them
    stream_time: str
    emit_time: str
    emit_reason: str
    deleted: str | None = None  # the column that marks deletions
    output: str = "rows"

    @property
    def counts(self) -> tuple[str, ...]:
        """What becomes of rows, and what the buffer holds."""
        return COUNTS

    @property
    def seconds(self) -> tuple[Seconds, ...]:
        """How late rows came out."""
        return SECONDS

    @property
    def width(self) -> int:
        """When a row is due, its place, its arrival, whether it is a deletion."""
        return 4

    def threshold(self, stream_time: int) -> int:
        """A row is due when stream time reaches its time."""
        return stream_time + 1

    def held_columns(self, columns: Sequence[str]) -> Sequence[str]:
        """Those that come out, and the event time."""
        return list(dict.fromkeys([*self.columns, self.time]))

    def take(self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries) -> Taken:
        """One micro-batch: each row passes, is held, or is replaced by the next of its key; what was held of these keys is replaced."""
        length, now = len(group), int(stream_times[0])
        last = groups.ends(group)
        deleted = groups.as_flags(one(rows, self.deleted)) if self.deleted is not None else np.zeros(length, bool)
        passes, place, due = self._placed(rows, group, now, owner, held)
        stays, replaced = last & ~passes, ~last & ~passes
        leaves = last & passes & np.isin(group, owner)  # nothing is held of its key any more
        numbers = np.stack([np.where(leaves, LOWEST, due), place, np.full(length, now), deleted])[:, stays | leaves].astype(np.int64)
        payload = rows.filter(pa.array(stays | leaves)).select(self.held_columns(rows.schema.names))
        at_once = np.full(int(passes.sum()), now)
        drops = self.until.dropped(deleted[passes], at_once, due[passes])
        out = [self._let_go(rows.filter(pa.array(passes)), drops, at_once, now)]
        out.append(self._replaced(rows.filter(pa.array(replaced)), np.full(int(replaced.sum()), now)))
        if held.payload is not None:
            out.append(self._replaced(pa.Table.from_batches([held.payload]), held.matrix[CAME]))
        counts = self._counts(drops, np.maximum(groups.difference(now, due[passes]), 0) if now > LOWEST else due[passes] * 0)
        counts |= {"replaced_drop_total": int(replaced.sum()) + len(owner), "suppression_buffer_entered_total": int(stays.sum())}
        counts["suppression_buffer_left_total"] = len(owner)
        return Taken(pa.concat_tables(out), group[stays | leaves], Entries(numbers, only(payload)), counts)

    def release(self, due: Entries, stream_time: int) -> pa.Table:
        """Rows whose time has come."""
        assert due.payload is not None
        return self._let_go(pa.Table.from_batches([due.payload]), self._dropped(due), due.matrix[CAME], stream_time)

    def counted(self, due: Entries, stream_time: int) -> dict[str, float]:
        """The numbers of a release."""
        counts = self._counts(self._dropped(due), groups.difference(stream_time, due.matrix[DUE]))
        return counts | {"suppression_buffer_left_total": len(due)}

    def _dropped(self, held: Entries) -> Flags:
        return self.until.dropped(held.matrix[DELETED] == 1, held.matrix[CAME], held.matrix[DUE])

    def _placed(self, rows: pa.Table, group: Ints, now: int, owner: Ints, held: Entries) -> tuple[Flags, Ints, Ints]:
        """Which rows pass at once; since when the others' keys have a place, and when that is due."""
        index = np.arange(len(group))
        place, due = (numbers.copy() for numbers in self.until.places(rows, self.time))
        if self.until.final:
            return due <= now, place, due
        if self.until.wait == 0:
            return np.ones(len(group), bool), place, due
        has_place = np.isin(group, owner)
        starts = np.flatnonzero(groups.begins(group))
        number = np.searchsorted(starts, index, side="right") - 1
        takers = np.minimum.reduceat(np.where(has_place | (due <= now), len(group), index), starts)[number]  # of each key the first
        behind = (index >= takers) & ~has_place
        place[behind], due[behind] = place[takers[behind]], due[takers[behind]]
        if len(owner):
            entry = np.searchsorted(owner, group[has_place])
            place[has_place], due[has_place] = held.matrix[PLACE][entry], held.matrix[DUE][entry]
        return ~has_place & ~behind, place, due

    def _let_go(self, rows: pa.Table, drops: Flags, came: Ints, now: int, early: Flags | None = None) -> pa.Table:
        """Rows that come out, and deletions that do not, as the output wants them; `early` before they were due."""
        early = np.zeros(len(drops), bool) if early is None else early
        if self.output != "all":
            wanted = drops == (self.output == "dropped")
            rows, drops, came, early = rows.filter(pa.array(wanted)), drops[wanted], came[wanted], early[wanted]
        reason = pa.array([None, "tombstone"], pa.string()).take(pa.array(drops.astype(np.int64)))
        own = one(rows, self.time)
        emitted = own.take(pa.array(np.arange(len(drops)), mask=drops))  # before there is a stream time; what follows goes by it [S8]
        if now > LOWEST:
            emitted = groups.times(np.full(len(drops), now), drops, own.type)
        why = pa.array(self.until.reasons).take(pa.array(early.astype(np.int64), mask=drops))
        return self._with(rows, reason, came, emitted, why)

    def _replaced(self, rows: pa.Table, came: Ints) -> pa.Table:
        if self.output == "rows":
            rows, came = rows.slice(0, 0), came[:0]
        count = len(came)
        nothing = pa.nulls(count, rows.schema.field(self.time).type)
        return self._with(rows, pa.array(["replaced"] * count, pa.string()), came, nothing, pa.nulls(count, pa.string()))

    def _with(self, rows: pa.Table, reason: pa.Array, came: Ints, emitted: pa.Array, why: pa.Array) -> pa.Table:
        kind = rows.schema.field(self.time).type
        rows = rows.select(list(self.columns))
        if self.output != "rows":
            rows = rows.append_column(self.reason, reason).append_column(self.stream_time, groups.times(came, came == LOWEST, kind))
        if self.output != "dropped":
            rows = rows.append_column(self.emit_time, emitted).append_column(self.emit_reason, why)
        return rows

    def _counts(self, drops: Flags, over: Ints) -> dict[str, float]:
        over = over[~drops]
        counts: dict[str, float] = {"tombstone_drop_total": int(drops.sum()), "suppression_emit_total": len(over)}
        if len(over):
            counts |= {"suppression_overtime_sum": float(over.sum(dtype=np.float64)), "suppression_overtime_min": int(over.min())}
        return counts
