"""Suppress on a stream with a bounded buffer (rules S5, S6): all keys are one group, since one's rows may push out another's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints
from streamtime.udfs.arrays.ordering import By, one, ranks
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.suppress import decisions
from streamtime.udfs.suppress.decisions import Bounds, Rows
from streamtime.udfs.suppress.waiting import CAME, DELETED, DUE, PLACE, Waiting

SIZE = 4  # an entry, without its key, has its bytes too


@dataclass(frozen=True)
class Bounded(Waiting):
    """Rows come in processing order, whatever their keys; an entry is a held row, of which the one group has many."""

    function: str = ""
    keys: tuple[str, ...] = ()
    size: str = ""  # the column of a row's bytes
    bounds: Bounds = Bounds()  # noqa: RUF009 - it is frozen
    early: bool = False  # what is too much leaves early; else the query fails

    @property
    def width(self) -> int:
        """When a row is due, its place, its arrival, whether it is a deletion, its bytes."""
        return 5

    def take(self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries) -> Taken:
        """One micro-batch."""
        now, before, length = int(clock[0]), len(held), len(held) + len(group)
        named = list(dict.fromkeys([*self.columns, self.time, *self.keys]))
        parts = [pa.Table.from_batches([held.payload])] if held.payload is not None and before else []
        both = pa.concat_tables([*parts, rows.select(named)]).combine_chunks()
        numbers = np.concatenate((held.matrix, self._numbers(rows, now)), axis=1) if before else self._numbers(rows, now)
        stream, none = np.full(length, now), np.zeros(length, np.int64)
        rank, sizes = ranks(both, [By(k) for k in self.keys]), numbers[SIZE]
        taken = Rows(rank, none, none, stream, numbers[PLACE], numbers[DUE], before)
        if self.early:
            decided = decisions.emitting_early(taken, self.bounds, sizes, rank)
        else:
            decided = decisions.until_close(taken) if self.close is not None else decisions.until_time_limit(taken)
            count, size = (decisions.after_each(decided, amounts, before) for amounts in (np.ones(length, np.int64), sizes))
            decisions.refuse_full(self.function, self.bounds, count, size, stream[before:])
        numbers = np.stack([decided.due, decided.place, *numbers[CAME:]])
        came = np.flatnonzero(decided.outcome == decisions.RELEASED)
        came = came[np.lexsort((rank[came], decided.place[came], decided.at[came]))]
        gone, stays = decided.outcome == decisions.REPLACED, decided.outcome == decisions.HELD
        deleted = numbers[DELETED] == 1
        out = [
            self._let_go(both.take(pa.array(came)), deleted[came], numbers[CAME][came], now, decided.why[came] == decisions.FULL),
            self._replaced(both.filter(pa.array(gone)), numbers[CAME][gone]),
        ]
        since = np.where(numbers[DUE] > LOWEST, numbers[DUE], numbers[PLACE])[came]
        counts = self._counts(deleted[came], np.where(since < HIGHEST, groups.difference(now, since), 0) if now > LOWEST else came * 0)
        counts |= {"replaced_drop_total": int(gone.sum()), "suppression_buffer_entered_total": int(stays[before:].sum())}
        counts["suppression_buffer_left_total"] = before - int(stays[:before].sum())
        if not stays.any():  # nothing is held any more
            stays[-1], numbers[DUE] = True, LOWEST
        payload = only(both.filter(pa.array(stays)))
        kept = Entries(numbers[:, stays], payload)
        return Taken(pa.concat_tables(out), np.full(len(kept), group[0]), kept, counts)

    def _numbers(self, rows: pa.Table, now: int) -> Ints:
        length = rows.num_rows
        place = groups.micros(one(rows, self.time if self.close is None else self.close))
        if self.close is not None:
            place = due = groups.plus(place, self.after)
        elif self.wait == 0:
            due = np.full(length, LOWEST)  # without a wait nothing waits, however far the watermark is behind
        else:
            due = groups.plus(place, self.wait) if self.wait < HIGHEST else np.full(length, HIGHEST)
        deleted = groups.as_flags(one(rows, self.deleted)) if self.deleted is not None else np.zeros(length, bool)
        return np.stack([due, place, np.full(length, now), deleted.astype(np.int64), groups.as_ints(one(rows, self.size))])
