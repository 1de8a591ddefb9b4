"""Functions that emit changes, over a task's rows in batch: what a key's windows have come to goes on from one batch to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import gathered
from streamtime.udfs.arrays.groups import Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.state import Entries
from streamtime.udfs.updates.updates import END, Updates, so_far

CHUNK = 1 << 16


def empty() -> Entries:
    """No windows."""
    return Entries(np.zeros((3, 0), np.int64))


@dataclass
class WindowMemory:
    """What a key's windows have come to where a batch ended, and how many changes its last row's ORDER BY values have had."""

    carried: Entries = field(default_factory=empty)
    before: int = 0
    ties: groups.Boundaries = field(default_factory=groups.Boundaries)


@dataclass(frozen=True)
class Sorted:
    """Runs a function over a task's rows in batch, sorted by key and processing order. What a key's windows have come to is carried on."""

    updates: Updates
    identity: tuple[str, ...]
    stream_time: str
    one_clock: bool = True  # whether all rows of a key have the same clock
    hashed: str = ""  # the column of the identity's hash, where rows are sorted by it first: rows of identities with one hash may mix
    wanted: tuple[str, ...] = ()  # the columns of final rows that leave, where it is not all

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of rows in; changes, or final rows without the moment that they leave, out."""
        keys: groups.GroupRuns[WindowMemory] = groups.GroupRuns(WindowMemory)
        for rows in (table.combine_chunks() for table in gathered(batches, CHUNK)):
            over = list[Entries]()
            for _, _, changes in self.judged(rows, keys, over):
                yield from changes.to_batches()
            yield from self._final(over)
        yield from self._final([memory.carried for memory in keys.memories.values()])

    def judged(
        self, rows: pa.Table, keys: groups.GroupRuns[WindowMemory], over: list[Entries]
    ) -> Iterator[tuple[Ints | range, Ints, pa.Table]]:
        """The changes of a batch, in parts: the rows of each (a range, where parts come in order), which of these caused the changes, and
        the changes.

        Windows to which no more rows come are added to `over`.
        """
        hashes = [one(rows, self.hashed)] if self.hashed else []
        handed_out = {id(memory): memory for memory in keys.memories.values()}
        for part in keys.parts(hashes, [one(rows, name) for name in self.identity], rows.num_rows):
            handed_out[id(part.memory)] = part.memory
            some = rows if part.rows is None else rows.take(pa.array(part.rows)).combine_chunks()
            tied = part.memory.ties.starts([one(some, n) for n in self.updates.layout.ordered], some.num_rows)
            tied |= part.starts | self.updates.layout.of_one_row
            at = 0
            while at < some.num_rows:
                caused_by, changes, taken = self._part(some.slice(at), part.starts[at:], tied[at:], part.memory, over)
                yield range(at, at + taken) if part.rows is None else part.rows[at : at + taken], caused_by, changes
                at += taken
        stay = {id(memory) for memory in keys.memories.values()}
        over += [memory.carried for number, memory in handed_out.items() if number not in stay]

    def _part(self, rows: pa.Table, starts: Flags, tied: Flags, memory: WindowMemory, over: list[Entries]) -> tuple[Ints, pa.Table, int]:
        carried = memory.carried
        group = groups.numbered(starts)
        stream_times = groups.micros(one(rows, self.stream_time))
        if starts[0]:
            over.append(carried)
            carried = empty()
        before, owner = 0 if tied[0] else memory.before, np.zeros(len(carried), np.int64)
        last_only = not self.updates.layout.final
        done, caused_by, taken = self.updates.changes(rows, group, stream_times, owner, carried, before, last_only)
        memory.before = so_far(tied[:taken], caused_by, before)
        group, stream_times = group[:taken], stream_times[:taken]
        last = int(group[-1])
        closed = done.groups < 0
        whose = np.where(closed, ~done.groups, done.groups)
        ours = whose == last
        untouched = last == 0 and not ours.any()
        over.append(done.entries.take(~ours | closed))
        if last and not (whose == 0).any():
            over.append(carried)
        carried = carried if untouched else done.entries.take(ours & ~closed)
        open_still = carried.matrix[END] >= self.updates.threshold(int(stream_times[group == last].max()))
        if not open_still.all() and self.one_clock:
            over.append(carried.take(~open_still))
            carried = carried.take(open_still)
        memory.carried = carried
        return caused_by, done.out, taken

    def _final(self, over: list[Entries]) -> Iterator[pa.RecordBatch]:
        if self.updates.layout.final:
            for entries in (some for some in over if len(some)):
                if rows := self.updates.release(entries, None):  # not all that is carried on is a window
                    yield from (rows.select(list(self.wanted)) if self.wanted else rows).to_batches()


@dataclass(frozen=True)
class PerRow:
    """The same as a column: of each row the list of its changes, without the columns that the row has itself."""

    sorted: Sorted
    columns: tuple[str, ...]  # names of what comes in each batch
    made: tuple[str, ...]  # and of what a change has

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """As many lists as rows."""
        keys: groups.GroupRuns[WindowMemory] = groups.GroupRuns(WindowMemory)
        for table in gathered((pa.RecordBatch.from_arrays(list(b), list(self.columns)) for b in batches), CHUNK):
            rows, apart = table.combine_chunks(), list[tuple[Ints, pa.Table]]()
            for of, caused_by, changes in self.sorted.judged(rows, keys, []):
                if isinstance(of, range):
                    yield self._lists(caused_by, changes, len(of))
                else:
                    apart.append((of[caused_by], changes))
            if apart:
                caused_by = np.concatenate([by for by, _ in apart])
                changes = pa.concat_tables([some for _, some in apart]).take(pa.array(np.argsort(caused_by, kind="stable")))
                yield self._lists(np.sort(caused_by), changes.combine_chunks(), rows.num_rows)

    def _lists(self, caused_by: Ints, changes: pa.Table, rows: int) -> pa.Array:
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(np.bincount(caused_by, minlength=rows), out=offsets[1:])
        structs = pa.StructArray.from_arrays([one(changes, n) for n in self.made], list(self.made))
        return pa.ListArray.from_arrays(pa.array(offsets), structs)
