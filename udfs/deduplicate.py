"""The state transition of DEDUPLICATE (rules D1 to D8, D10) over Arrow batches, sorted by key and processing order.

One key's state is one number: the event time of its kept row. For a row with event time t, when stream time is s and the key's
kept row lies at k (rule numbers in brackets):

    live       = s - k <= within                 [D5]: by the row's own clock, where a key's rows follow several
    duplicate  = live and |t - k| <= within      [D1]
    stored     = not duplicate and t >= s - within   [D6]: then k becomes t

Where a key's rows follow one clock, stream time only rises. Then, while k is live, t <= s <= k + within, so only the lower bound
decides; and the first row with s > k + within ends its life. Hence each kept row has exactly one successor, which is found for all rows
at once; only the kept rows are then walked one by one.

With `refresh`, k is the largest time of the key so far, whoever passed: a row that passes by `at_most` [D10] lies past all that were kept.
So `at_most` changes neither which rows are alive nor which are near, and only cuts what would be one burst.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.state import Step

NONE = -1  # the number of no source record


@dataclass(frozen=True)
class RowsByKey:
    """Rows by key, each key's in processing order."""

    group: Ints
    times: Ints
    passed: Ints  # of a kept row the time at which it passed, from which duplicates that refresh moved it away; else the row's own
    stream_times: Ints
    records: Ints  # a number for each source record, or NONE

    def take(self, rows: Ints | Flags) -> RowsByKey:
        """Some of them."""
        return RowsByKey(self.group[rows], self.times[rows], self.passed[rows], self.stream_times[rows], self.records[rows])


@dataclass(frozen=True)
class Deduplicate:
    """Options, and which columns come in each batch: time, [stream time], [offsets..], [hash of the identity], identity columns.."""

    within: int
    refresh: bool = False
    at_most: int | None = None  # with refresh: how far past the row that passed a row is a duplicate
    unique: bool = False
    negate: bool = False  # keep => 'last': times are negated, rows come in reverse order
    has_stream_time: bool = False  # without it, rows come in event-time order and stream time is the row's own time
    own_clock: bool = False  # stream time runs within each key
    offsets: int = 0
    hashed: bool = False  # rows are sorted by the identity's hash first: rows of identities with one hash may mix

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """For each row the event time of the kept row that it duplicates; null where the row passes."""
        held = HeldBack() if self.unique else None
        keys: groups.GroupRuns[KeyMemory] = groups.GroupRuns(KeyMemory)
        like: pa.DataType | None = None
        for columns in batches:
            like = columns[0].type
            verdicts = self._batch(columns, keys)
            yield from (self._emit(v, like) for v in (held.feed(verdicts) if held else [verdicts]))
        if held and like is not None:
            yield from (self._emit(v, like) for v in held.finish())

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("duplicate",)

    @property
    def width(self) -> int:
        """How many numbers a stream keeps of a key: the kept row's time; where asked its offset, as two, and when it passed."""
        return 1 + (2 if self.offsets else 0) + (self.at_most is not None)

    def threshold(self, stream_time: int) -> int:
        """A kept row whose time lies below this has expired [D5]."""
        return int(groups.minus(np.array([stream_time]), self.within)[0])

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, stream_time: int) -> Step:
        """One micro-batch of a stream, whose stream time is the watermark under which it runs (rule C3).

        Rows come by group, in processing order; columns are the time and, where asked, the two of its offset (null: none). `held` is
        what is kept of some groups (`owner`), alive. Gives for each row the kept time, whether it is dropped, and what to keep from now on.
        """
        before, records_held = (held[-1], held[1:-1]) if self.at_most is not None else (held[0], held[1:])
        order = np.argsort(np.concatenate((owner, group)), kind="stable")  # a group's kept row stands before its rows
        key, is_new = np.concatenate((owner, group))[order], order >= len(owner)
        times, passed = (np.concatenate((of_held, groups.micros(columns[0])))[order] for of_held in (held[0], before))
        records = np.full(len(order), NONE)
        if self.offsets:
            has_offset = np.concatenate(((records_held != LOWEST).any(axis=0), groups.valid(columns[1:], len(group))))[order]
            offsets = np.stack([np.concatenate((h, groups.as_ints(c)))[order] for h, c in zip(records_held, columns[1:], strict=True)])
            if has_offset.any():
                records[has_offset] = np.unique(offsets[:, has_offset], axis=1, return_inverse=True)[1].ravel()
        duplicate, kept, at = self._under(stream_time, RowsByKey(key, times, passed, np.maximum(times, stream_time), records))
        duplicate &= ~redelivered(records, at)
        last = np.flatnonzero(groups.ends(key))
        last = last[at[last] >= 0]
        if not self.refresh:
            last = last[is_new[at[last]]]  # what was kept before and still is, is known
        stays = [times[at[last]]]
        if self.refresh:
            moves = duplicate & (at == at[last][np.searchsorted(key[last], key).clip(max=len(last) - 1)]) if len(last) else duplicate
            np.maximum.at(stays[0], np.searchsorted(key[last], key[moves]), times[moves])
        if self.offsets:
            stays += [np.where(has_offset[at[last]], o[at[last]], LOWEST) for o in offsets]
        if self.at_most is not None:
            stays.append(passed[at[last]])
        kept_time = groups.times(kept[is_new], ~duplicate[is_new], columns[0].type)
        return Step(duplicate[is_new].astype(np.int64), [kept_time], key[last], np.stack(stays))

    def _under(self, stream_time: int, rows: RowsByKey) -> tuple[Flags, Ints, Ints]:
        """As `_decide`, where stream time stays at the watermark: behind the rows, which it never is otherwise.

        The later of a row's time and the watermark decides the same, as long as it only rises within a key.
        """
        length = len(rows.times)
        falling = falling_groups(rows.group, rows.stream_times)
        duplicate, kept, at = np.zeros(length, bool), np.zeros(length, np.int64), np.full(length, -1, np.int64)
        for which in (np.flatnonzero(~falling), np.flatnonzero(falling)):
            if not len(which):
                continue
            some = rows.take(which)
            stored = some.times >= self.threshold(stream_time)
            if falling[which[0]]:
                decided = self._one_by_one(replace(some, stream_times=np.full(len(which), stream_time)), carried=False)
            elif self.refresh:
                decided = self._refreshed(some, stored, carried=False)
            else:
                decided = self._chained(some, stored)
            duplicate[which], kept[which], at[which] = decided[0], decided[1], np.where(decided[2] >= 0, which[decided[2]], -1)
        return duplicate, kept, at

    def _emit(self, verdicts: DuplicateVerdicts, like: pa.DataType) -> pa.Array:
        kept = ~verdicts.kept if self.negate else verdicts.kept
        return groups.times(kept, ~verdicts.dropped, like)

    def _batch(self, columns: tuple[pa.Array, ...], keys: groups.GroupRuns[KeyMemory]) -> DuplicateVerdicts:
        first = 1 + self.has_stream_time
        timed, offsets, runs = columns[:first], columns[first : first + self.offsets], columns[first + self.offsets :]
        length = len(columns[0])
        rows = np.flatnonzero(groups.valid((columns[0], *runs), length))
        verdicts = DuplicateVerdicts.passing(length)
        if not len(rows):
            return verdicts
        if len(rows) < length:  # rows without a time or with a null in their identity take no part [D4]
            timed, offsets, runs = (tuple(c.take(pa.array(rows)) for c in some) for some in (timed, offsets, runs))
        times, stream_times = groups.micros(timed[0]), groups.micros(timed[-1])
        if self.negate:
            times, stream_times = ~times, ~stream_times  # as far apart as negated, and the smallest number has one, too
        for part in keys.parts(runs[:1] if self.hashed else (), runs[self.hashed :], len(rows)):
            if part.rows is None:
                verdicts.put(rows, *self._decide(part.starts, times, stream_times, list(offsets), part.memory))
            else:
                some = [o.take(pa.array(part.rows)) for o in offsets]
                decided = self._decide(part.starts, times[part.rows], stream_times[part.rows], some, part.memory)
                verdicts.put(rows[part.rows], *decided)
        return verdicts

    def _decide(
        self, starts: Flags, times: Ints, stream_times: Ints, offsets: list[pa.Array], memory: KeyMemory
    ) -> tuple[Flags, Ints, Ints]:
        """Which rows are duplicates, the kept time of each, and the row at which that is, as in `DuplicateVerdicts`."""
        group = groups.numbered(starts)
        carried, passed = not starts[0] and memory.kept is not None, times
        if carried:  # the kept row of the batch before stands in front, as if it were the first row of this one
            assert memory.kept is not None
            group = np.concatenate(([0], group))
            times, passed = np.concatenate(([memory.kept], times)), np.concatenate(([memory.passed], times))
            stream_times = np.concatenate(([memory.largest if self.own_clock else memory.kept], stream_times))
            offsets = [pa.concat_arrays([before, now]) for before, now in zip(memory.offsets, offsets, strict=True)]
        if self.own_clock:
            stream_times = groups.running_max(group, stream_times)
        stored = times >= groups.minus(stream_times, self.within)
        if carried:
            stored[0] = True
        rows = RowsByKey(group, times, passed, stream_times, numbered_records(offsets, len(times)))
        if not self.own_clock and self.has_stream_time and groups.falls(group, stream_times).any():
            duplicate, kept, at = self._one_by_one(rows, carried)
        elif self.refresh:
            duplicate, kept, at = self._refreshed(rows, stored, carried)
        else:
            duplicate, kept, at = self._chained(rows, stored)
        duplicate &= ~redelivered(rows.records, at)
        last = int(at[-1])
        moved = times[last:][duplicate[last:]].tolist() if self.refresh and last >= 0 else []
        memory.remember(max([int(times[last]), *moved]) if last >= 0 else None, int(passed[last]), int(stream_times[-1]), offsets, last)
        cut = 1 if carried else 0
        return duplicate[cut:], kept[cut:], at[cut:] - cut

    def _chained(self, rows: RowsByKey, stored: Flags) -> tuple[Flags, Ints, Ints]:
        group, times, length = rows.group, rows.times, len(rows.times)
        index = np.arange(length)
        expiry = np.maximum(groups.search(group, rows.stream_times, groups.plus(times, self.within)), index + 1)
        upcoming = np.append(np.where(stored, index, length), length)  # the first row from here on that would be stored
        upcoming = np.minimum.accumulate(upcoming[::-1])[::-1]
        successor = upcoming[expiry].tolist()
        chain, row = [], int(upcoming[0])
        while row < length:
            chain.append(row)
            row = successor[row]
        at = np.full(length, -1, np.int64)
        at[chain] = chain
        at = np.maximum.accumulate(at)
        has = (at >= 0) & (group[at] == group)
        at = np.where(has, at, -1)
        kept = np.where(has, times[at], 0)
        duplicate = has & (at != index) & (index < expiry[at]) & (times >= groups.minus(kept, self.within))
        return duplicate, kept, at

    def _one_by_one(self, rows: RowsByKey, carried: bool) -> tuple[Flags, Ints, Ints]:
        # A key's rows follow several clocks (`clock_by` is not among the keys): stream time goes back, and nothing can be skipped.
        # Or what refreshes depends on which rows are redelivered, and that on which were kept.
        length = len(rows.times)
        duplicate, kept, at = np.zeros(length, bool), np.zeros(length, np.int64), np.full(length, -1, np.int64)
        key, k, where, longest = -1, None, -1, self.at_most
        source, since = rows.records.tolist(), rows.passed.tolist()
        for row, (g, t, s) in enumerate(zip(rows.group.tolist(), rows.times.tolist(), rows.stream_times.tolist(), strict=True)):
            if g != key:
                key, k, where = g, None, -1
            near = k is not None and s - k <= self.within and abs(t - k) <= self.within
            if k is not None and near and (longest is None or t - since[where] <= longest):
                duplicate[row], kept[row] = True, k
                again = source[row] != NONE and source[row] == source[where]
                k = max(k, t) if self.refresh and not again else k
            elif t >= s - self.within or (carried and row == 0):
                k, where = t, row
                kept[row] = k
            elif k is not None:
                kept[row] = k
            at[row] = where
        return duplicate, kept, at

    def _refreshed(self, rows: RowsByKey, stored: Flags, carried: bool) -> tuple[Flags, Ints, Ints]:
        duplicate, kept, at = self._all_refreshing(rows, stored)
        again = np.isin(rows.group, rows.group[duplicate & redelivered(rows.records, at)])  # a redelivered row refreshes nothing [D7]
        if again.any():
            which = np.flatnonzero(again)
            some = self._one_by_one(rows.take(which), carried and bool(again[0]))
            duplicate[which], kept[which], at[which] = some[0], some[1], np.where(some[2] >= 0, which[some[2]], -1)
        return duplicate, kept, at

    def _all_refreshing(self, rows: RowsByKey, stored: Flags) -> tuple[Flags, Ints, Ints]:
        # Every duplicate with a larger time moves k, so k is the largest time of the key so far: a late row that is not stored
        # lies below s - within, hence is neither larger than a live k nor live itself.
        group, times, index = rows.group, rows.times, np.arange(len(rows.times))
        largest = groups.running_max(group, times)
        has = np.zeros(len(times), bool)
        has[1:] = group[1:] == group[:-1]
        kept = np.where(has, np.roll(largest, 1), 0)
        duplicate = has & (rows.stream_times <= groups.plus(kept, self.within)) & (times >= groups.minus(kept, self.within))
        starts = stored & ~duplicate
        if self.at_most is not None:
            starts = self._cut(group, largest, rows.passed, starts, duplicate, self.at_most)
            duplicate &= ~starts
        at = np.maximum.accumulate(np.where(starts, index, -1))
        at = np.where((at >= 0) & (group[at] == group), at, -1)
        return duplicate, np.where(at == index, times, kept), at

    @staticmethod
    def _cut(group: Ints, largest: Ints, passed: Ints, starts: Flags, duplicate: Flags, at_most: int) -> Flags:
        """Where bursts begin, those included that a duplicate begins: the first more than `at_most` past the row that passed [D10]."""
        length = len(largest)
        beyond = groups.search(group, largest, groups.plus(passed, at_most))
        there = beyond.clip(max=length - 1)  # a larger time that is no duplicate came too late, and none follows it in its burst
        beyond = np.where((beyond < length) & (group[there] == group) & duplicate[there], beyond, length)
        upcoming = np.append(np.where(starts, np.arange(length), length), length)  # the first burst that begins from here on
        upcoming = np.minimum.accumulate(upcoming[::-1])[::-1]
        successor, row, cuts = np.minimum(beyond, upcoming[1:]).tolist(), int(upcoming[0]), list[int]()
        while row < length:
            cuts.append(row)
            row = successor[row]
        begins = np.zeros(length, bool)
        begins[cuts] = True
        return begins


@dataclass
class KeyMemory:
    """What is known of the key whose rows may go on in the next batch: constant in size."""

    kept: int | None = None
    passed: int = 0  # the time of the row that passed, which `kept` moves away from where duplicates refresh
    largest: int = 0
    offsets: tuple[pa.Array, ...] = ()

    def remember(self, kept: int | None, passed: int, largest: int, offsets: list[pa.Array], at: int) -> None:
        """Keep the state of the last row's key."""
        self.kept, self.passed, self.largest = kept, passed, largest
        self.offsets = tuple(o.slice(at, 1) for o in offsets) if kept is not None else ()


def falling_groups(group: Ints, values: Ints) -> Flags:
    """True for all rows of a group in which a value is smaller than the one before it."""
    return np.isin(group, group[1:][groups.falls(group, values)])


def numbered_records(offsets: list[pa.Array], length: int) -> Ints:
    """A number for each source record; a null offset is `NONE`, and like no other."""
    records = np.full(length, NONE)
    if offsets:
        known = groups.valid(offsets, length)
        codes = [groups.as_ints(o.dictionary_encode().indices)[known] for o in offsets]
        records[known] = codes[0] if len(codes) == 1 else np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
    return records


def redelivered(records: Ints, at: Ints) -> Flags:
    """Whether a row has the offset of its kept row [D7]."""
    again: Flags = (at >= 0) & (records != NONE) & (records == records[at])
    return again


@dataclass
class DuplicateVerdicts:
    """Per row: is it dropped, the kept time, and the row of this batch that was kept; below zero where that is none, and then
    a row that is dropped has it in an earlier batch."""

    dropped: Flags
    kept: Ints
    at: Ints

    @staticmethod
    def passing(length: int) -> DuplicateVerdicts:
        """All rows pass."""
        return DuplicateVerdicts(np.zeros(length, bool), np.zeros(length, np.int64), np.full(length, -1, np.int64))

    def put(self, rows: Ints, dropped: Flags, kept: Ints, at: Ints) -> None:
        """Fill in the rows that took part; `at` counts among them."""
        self.dropped[rows], self.kept[rows] = dropped, kept
        self.at[rows] = np.where(at >= 0, rows[np.maximum(at, 0)], at)

    def part(self, start: int, stop: int) -> DuplicateVerdicts:
        """Some of the rows."""
        return DuplicateVerdicts(self.dropped[start:stop], self.kept[start:stop], self.at[start:stop])


class HeldBack:
    """keep => 'unique' [D8]: a kept row passes only if it causes no drop, which may show in a later batch; it is held till then."""

    def __init__(self) -> None:
        self.waiting: list[DuplicateVerdicts] = []

    def feed(self, batch: DuplicateVerdicts) -> Iterator[DuplicateVerdicts]:
        """The verdicts that are now certain, in order."""
        index = np.arange(len(batch.at))
        caused = np.zeros(len(index), bool)
        caused[batch.at[batch.dropped & (batch.at >= 0)]] = True
        batch.dropped |= caused
        caused_earlier = bool((batch.dropped & (batch.at < 0)).any())
        if self.waiting:
            self.waiting[0].dropped[0] |= caused_earlier
            if not caused_earlier and not (batch.at >= 0).any():
                self.waiting.append(batch)
                return
            yield from self.finish()
        newest = int(np.max(np.where(batch.at == index, index, -1), initial=-1))
        if newest >= 0 and not batch.dropped[newest]:  # what this one causes may still come
            self.waiting.append(batch.part(newest, len(index)))
            batch = batch.part(0, newest)
        yield batch

    def finish(self) -> Iterator[DuplicateVerdicts]:
        """Everything that was held."""
        yield from self.waiting
        self.waiting = []
