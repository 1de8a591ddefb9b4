"""SESSION_UPDATES (rules W2, W3, W5, W6): sessions that open, grow and merge, row by row; keys whose times never fall all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.closing import Closing, of_sessions
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.updates.chains import Chains, chained
from streamtime.udfs.updates.updates import DELETE, END, START, UPSERT, ChangeColumns, Sums, Updates, Windows, accumulated, numbered


def places(gone: Ints, item: Ints, rows: int) -> Ints:
    """Where changes stand once they are in the order of their rows: first those of `gone`, then those of `item`; both rise."""
    before = np.cumsum(np.bincount(gone, minlength=rows))  # deletes up to each row
    upserts = np.arange(len(item)) + before[item]
    deletes = np.arange(len(gone)) + np.searchsorted(item, gone)
    return np.concatenate((deletes, upserts))


@dataclass(frozen=True)
class SessionUpdates(Updates):
    """Sessions, both bounds inclusive."""

    changed_at_end: ClassVar[bool] = True

    layout: ChangeColumns
    gap: int
    grace: int

    @property
    def closing(self) -> Closing:
        """When a session closes [W3]."""
        return of_sessions(self.gap, self.grace)

    def changes(
        self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries, before: int = 0, last_only: bool = False
    ) -> tuple[Taken, Ints, int]:
        """For each row a delete of every session that it merges with, then the new session."""
        times = groups.micros(one(rows, self.layout.time))
        done = chained(group, times, stream_times, owner, held.matrix[[END, START]], self.gap, self.grace)
        item = np.flatnonzero(~done.late)
        states = self.layout.states(held.payload, len(held), rows)
        sums = accumulated(self.layout, rows, item, done.chain[item], done.parents, states, every=not self.layout.final)
        caused_by = np.concatenate((done.gone, item))
        place = places(done.gone, item, rows.num_rows)  # deletes come first
        order = np.empty(len(place), np.int64)
        order[place] = np.arange(len(place))
        caused_by = caused_by[order]
        seq = numbered(self.layout, rows, group, caused_by, before)
        out = pa.table({})
        if not self.layout.final:
            out = self._changes(rows, done, item, sums, order, caused_by, seq)
        asked = done.group >= (group[-1] if last_only else 0)
        entries = self._entries(rows, held, done, item, sums, seq[place[len(done.gone) :]], asked)
        whose = np.where(done.closed, ~done.group, done.group)
        return Taken(out, whose[asked], entries, {"late_drop_total": int(done.late.sum())}), caused_by, rows.num_rows

    def _changes(self, rows: pa.Table, done: Chains, item: Ints, sums: Sums, order: Ints, caused_by: Ints, seq: Ints) -> pa.Table:
        deletes = len(done.gone)
        start, end = (
            np.concatenate((done.gone_start, done.start[item]))[order],
            np.concatenate((done.gone_end, done.end[item]))[order],
        )
        kind = np.repeat([DELETE, UPSERT], [deletes, len(item)])[order]
        of = pa.array(order - deletes, mask=order < deletes)  # deletes have null aggregates
        results = [a.result(s, result).take(of) for (a, result), s in zip(self.layout.aggregates, sums.per_item, strict=True)]
        at = pa.array(caused_by)
        carried = {n: one(rows, n).take(at) for n in self.layout.carried}
        return self.layout.table(carried, Windows(start, end, self.close(end), kind, end), results, pa.array(seq), None)

    def _entries(self, rows: pa.Table, held: Entries, done: Chains, item: Ints, sums: Sums, seq: Ints, asked: Flags) -> Entries:
        """The sessions of groups that are asked for, closed ones among them: whoever asked drops or releases them."""
        content, (end, start) = done.content[asked], done.bounds[:, asked]
        is_chain = content >= 0
        matrix = np.stack((end, start, end))
        chains = content[is_chain]
        last = np.zeros(int(done.chain.max(initial=-1)) + 1, np.int64)
        last[done.chain[item]] = np.arange(len(item))  # the last one stays
        new = Entries(matrix[:, is_chain], self.layout.payload(sums.of(chains), rows, item[last[chains]], seq[last[chains]]))
        if is_chain.all():
            return new
        both = Entries.join([new, Entries(matrix[:, ~is_chain], held.take(~content[~is_chain]).payload)], 3)
        back = np.empty(len(is_chain), np.int64)
        back[np.concatenate((np.flatnonzero(is_chain), np.flatnonzero(~is_chain)))] = np.arange(len(is_chain))
        return both.take(back)
