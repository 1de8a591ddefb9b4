"""Suppress on a stream with a bounded buffer (rules S5, S6): all keys are one group, since one's rows may push out another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.ordering import By, one, ranks
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.suppress import decisions
from streamtime.udfs.suppress.decisions import Bounds, BufferedChanges
from streamtime.udfs.suppress.waiting import CAME, DELETED, DUE, PLACE, StreamBuffer

SIZE = 4  # an entry, without its key, has its bytes too


@dataclass(frozen=True)
class BoundedBuffer(StreamBuffer):
    """Changes come in processing order, whatever their keys; an entry is a held row, of which the one group has many."""

    function: str = ""
    keys: tuple[str, ...] = ()
    size: str = ""  # the column of a row's bytes
    bounds: Bounds = Bounds()  # noqa: RUF009 - it is frozen

    @property
    def width(self) -> int:
        """When a row is due, its place, its arrival, whether it is a deletion, its bytes."""
        return 5

    def held_columns(self, columns: Sequence[str]) -> Sequence[str]:
        """Those that come out, the event time and the keys."""
        return list(dict.fromkeys([*self.columns, self.time, *self.keys]))

    def take(self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries) -> Taken:
        """One micro-batch: rows are buffered, decided, held against the bounds, and what is due or too much leaves."""
        now = int(stream_times[0])
        both, numbers = self._buffered(rows, now, held)
        rank, none = ranks(both, [By(k) for k in self.keys]), np.zeros(both.num_rows, np.int64)
        taken = BufferedChanges(rank, none, none, np.full(both.num_rows, now), numbers[PLACE], numbers[DUE], len(held))
        decided = self.until.decided(taken, self.bounds, numbers[SIZE], lambda: rank)
        decisions.enforce(self.function, self.bounds, taken, decided, numbers[SIZE])
        numbers = np.stack([decided.due, decided.place, *numbers[CAME:]])
        out, counts = self._emitted(both, numbers, rank, decided, now)
        stays = decided.outcome == decisions.HELD
        counts["suppression_buffer_entered_total"] = int(stays[len(held) :].sum())
        counts["suppression_buffer_left_total"] = len(held) - int(stays[: len(held)].sum())
        if not stays.any():  # nothing is held any more
            stays[-1], numbers[DUE] = True, LOWEST
        entries = Entries(numbers[:, stays], only(both.filter(pa.array(stays))))
        return Taken(out, np.full(len(entries), group[0]), entries, counts)

    def _buffered(self, rows: pa.Table, now: int, held: Entries) -> tuple[pa.Table, Ints]:
        """The rows that are held, then those that come; and the numbers of their entries."""
        place, due = self.until.places(rows, self.time)
        if not self.until.final and self.until.wait == 0:
            due = np.full(len(place), LOWEST)  # without a wait nothing waits, however far the watermark is behind
        deleted = groups.as_flags(one(rows, self.deleted)) if self.deleted is not None else np.zeros(len(place), bool)
        numbers = np.stack([due, place, np.full(len(place), now), deleted.astype(np.int64), groups.as_ints(one(rows, self.size))])
        rows = rows.select(self.held_columns(rows.schema.names))
        if held.payload is not None and len(held):
            rows, numbers = pa.concat_tables([pa.Table.from_batches([held.payload]), rows]), np.concatenate((held.matrix, numbers), axis=1)
        return rows.combine_chunks(), numbers

    def _emitted(
        self, rows: pa.Table, numbers: Ints, rank: Ints, decided: decisions.Decided, now: int
    ) -> tuple[pa.Table, dict[str, float]]:
        """What leaves, in the order of release, and what was replaced; and how many that are."""
        came = np.flatnonzero(decided.outcome == decisions.RELEASED)
        came = came[np.lexsort((rank[came], decided.place[came], decided.at[came]))]
        gone, deleted, arrived = decided.outcome == decisions.REPLACED, numbers[DELETED] == 1, numbers[CAME]
        early = decided.why[came] == decisions.FULL
        drops = self.until.dropped(deleted[came], arrived[came], numbers[DUE][came])
        left = self._let_go(rows.take(pa.array(came)), drops, arrived[came], now, early)
        replaced = self._replaced(rows.filter(pa.array(gone)), arrived[gone])
        since = np.where(numbers[DUE] > LOWEST, numbers[DUE], numbers[PLACE])[came]
        over = np.where(since < HIGHEST, groups.difference(now, since), 0) if now > LOWEST else came * 0
        return pa.concat_tables([left, replaced]), self._counts(drops, over) | {"replaced_drop_total": int(gone.sum())}
