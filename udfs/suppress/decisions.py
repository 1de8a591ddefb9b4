"""The decisions of suppress (rules S1 to S7) over rows in processing order: who replaces whom, and which row releases which.

A row is held from its arrival on. Kafka's order of steps decides: a row moves stream time, replaces the held row of its key, then what is
due at this stream time is released, then, where the buffer is bounded, what is too much. So a row that replaces another in the very step
in which that one was due wins.

Stream time never falls within a clock: the row that releases another is the first one at which stream time reaches the other's due time,
found for all rows at once. A row is replaced iff the next row of its key comes no later than that. For UNTIL_CLOSE the due time is the
row's own; for UNTIL_TIME_LIMIT that of the row which took the key's place in the buffer, so places are walked one after another. Only an
early release (`when_full => 'emit_early'`) makes keys depend on each other, and is decided row by row.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Flags, Ints

RELEASED, REPLACED, TOMBSTONE, HELD, NULL_TIME = range(5)  # what became of a row
OUTCOMES = ("released", "replaced", "tombstone", "held", "null_time")
DUE, FULL, END = range(3)  # why it was released
ROUNDS = 16  # walked for all keys at once; what is left then are a few keys with many places


@dataclass(frozen=True)
class BufferedChanges:
    """Changes in processing order, those held from before first: as numbers."""

    first: Ints  # the two numbers of the key
    second: Ints
    clock: Ints  # numbers of clocks, rising; rows held from before belong to the first
    stream_times: Ints  # stream time, the row included
    place: Ints  # how old a place is that the row takes; where it held one before, that one
    due: Ints  # when that place is due; HIGHEST: never, as what would be due beyond the end of TIMESTAMP
    new: int  # the first row that was not held before

    @property
    def stop(self) -> Ints:
        """For each row the end of its clock."""
        ends = np.append(np.flatnonzero(np.diff(self.clock)) + 1, len(self.clock))
        return ends[self.clock]


@dataclass(frozen=True)
class Decided:
    """Of each row: the row that decides its fate (replaces or releases it; the end of its clock: none did), and how."""

    at: Ints
    outcome: Ints  # RELEASED, REPLACED or HELD
    why: Ints  # DUE or FULL, where released
    place: Ints  # how old its place is
    due: Ints  # and when that is due


@dataclass(frozen=True)
class Bounds:
    """How much the buffer may hold, and what happens when it holds more."""

    records: int | None = None
    bytes: int | None = None
    when_full: str | None = None

    @property
    def fail(self) -> bool:
        """The query ends."""
        return self.when_full == "fail"

    @property
    def spill(self) -> bool:
        """What is too much lies in files, or on a stream in the state store, which is on disk."""
        return self.when_full == "spill"

    @property
    def early(self) -> bool:
        """The oldest places leave before their time."""
        return self.when_full == "emit_early"

    def over(self, count: int, size: int) -> bool:
        """Whether that is too much: more than the bound [S6]."""
        return (self.records is not None and count > self.records) or (self.bytes is not None and size > self.bytes)


def until_close(rows: BufferedChanges) -> Decided:
    """Each row is due at the close of its own window [S2]."""
    order, group = by_key(rows)
    return _decided(rows, order, group, released_by(rows), rows.place, rows.due)


def until_time_limit(rows: BufferedChanges) -> Decided:
    """A row that replaces another takes over its place, and the time at which that is due [S3]."""
    order, group = by_key(rows)
    by = released_by(rows)
    taker = taking_places(group, _successor(order, group, by[order]))
    place = np.empty(len(order), np.int64)
    place[order] = order[np.maximum.accumulate(np.where(taker, np.arange(len(order)), 0))]
    return _decided(rows, order, group, by[place], rows.place[place], rows.due[place])


def _successor(order: Ints, group: Ints, by: Ints) -> Ints:
    """For each row, ordered by key, the first one after the row that releases it, were it to take a place: the next one but where that
    replaces it.
    """
    successor = np.arange(1, len(order) + 1)
    behind = np.flatnonzero((group[1:] == group[:-1]) & (order[1:] <= by[:-1]))
    width = len(order) + 1
    successor[behind] = np.searchsorted(group * width + order, group[behind] * width + by[behind], side="right")
    return successor


def _decided(rows: BufferedChanges, order: Ints, group: Ints, by: Ints, place: Ints, due: Ints) -> Decided:
    stop, following_row = rows.stop, following(order, group)
    replaced = following_row <= by
    outcome = np.where(replaced, REPLACED, np.where(by < stop, RELEASED, HELD))
    return Decided(np.where(replaced, following_row, by), outcome, np.full(len(order), DUE), place, due)


def released_by(rows: BufferedChanges) -> Ints:
    """For each row the first one, itself included, at which stream time reaches its due time; the end of its clock: none."""
    index, never = np.arange(len(rows.stream_times)), rows.due == HIGHEST
    if not len(index) or not rows.clock[-1]:
        by = np.searchsorted(rows.stream_times, rows.due, side="left")
    else:
        by = groups.search(rows.clock, rows.stream_times, groups.minus(rows.due, 1))
    return np.where(never, rows.stop, np.maximum(by, index)) if never.any() else np.maximum(by, index)


def by_key(rows: BufferedChanges) -> tuple[Ints, Ints]:
    """The rows ordered by key, those of a key in processing order, and for each of these the number of its key."""
    first, second, clock = rows.first, rows.second, rows.clock
    length = len(first)
    bits = max(length - 1, 1).bit_length()
    several = length > 0 and bool(clock[-1])
    if not several:  # one number of the hash's upper bits and the row sorts much faster than rows by a key
        mixed = np.sort(first >> bits << bits | np.arange(length))
        order = mixed & ((1 << bits) - 1)
        starts = np.append(True, mixed[1:] >> bits != mixed[:-1] >> bits)[:length]
        alike = np.flatnonzero(~starts)
        before, after = order[alike - 1], order[alike]
        mixes = ((first[before] != first[after]) | (second[before] != second[after])).any()
    if several or mixes:
        order = np.lexsort((second, first, clock)) if several else np.lexsort((second, first))
        starts = _starts(order, first, second, clock)
    return order, np.cumsum(starts) - 1


def _starts(order: Ints, *columns: Ints) -> Flags:
    starts = np.zeros(len(order), bool)
    starts[:1] = True
    for column in columns:
        sorted_column = column[order]
        starts[1:] |= sorted_column[1:] != sorted_column[:-1]
    return starts


def following(order: Ints, group: Ints) -> Ints:
    """For each row the next one of its key; beyond all rows: none."""
    next_times = np.full(len(order), HIGHEST)
    same = group[1:] == group[:-1]
    next_times[order[:-1][same]] = order[1:][same]
    return next_times


def taking_places(group: Ints, successor: Ints) -> Flags:
    """Which rows, ordered by key, take a place: the first of each key, and the successor of each that does."""
    length = len(group)
    taker = np.zeros(length, bool)
    current = np.flatnonzero(_starts(np.arange(length), group))
    for _ in range(ROUNDS):
        taker[current] = True
        upcoming = successor[current]
        inside = upcoming < length
        inside[inside] = group[upcoming[inside]] == group[current[inside]]
        current = upcoming[inside]
        if not len(current):
            return taker
    ends = np.searchsorted(group, group[current], side="right").tolist()
    hops = successor.tolist()
    chain: list[int] = []
    for row, end in zip(current.tolist(), ends, strict=True):
        while row < end:
            chain.append(row)
            row = hops[row]
    taker[chain] = True
    return taker


def emitting_early(rows: BufferedChanges, bounds: Bounds, sizes: Ints, rank: Ints) -> Decided:
    """UNTIL_TIME_LIMIT with a bounded buffer that releases its oldest places when it is over: row by row [S5, S6].

    `rank` numbers the keys in their own order, which decides between places of one age.
    """
    order, numbers = by_key(rows)
    group = np.empty(len(order), np.int64)
    group[order] = numbers
    stop = rows.stop
    at, outcome, why = stop.copy(), np.full(len(order), HELD), np.full(len(order), DUE)
    place, due = rows.place.copy(), rows.due.copy()
    places: list[tuple[int, int, int, int]] = []
    newest: dict[int, int] = {}
    held, clock = 0, 0

    def release(row: int, reason: int) -> int:
        key = heapq.heappop(places)[3]
        gone = newest.pop(key)
        at[gone], outcome[gone], why[gone] = row, RELEASED, reason
        return int(size_of[gone])

    size_of = sizes.tolist()
    columns = (group, rows.clock, rows.stream_times, rank, rows.place, rows.due)
    for row, (key, number, stream_time, ranked, old, due_at) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if number != clock:
            places, newest, held, clock = [], {}, 0, number
        before = newest.get(key)
        if before is None:
            heapq.heappush(places, (old, ranked, due_at, key))
        else:
            at[before], outcome[before] = row, REPLACED
            place[row], due[row] = place[before], due[before]
            held -= size_of[before]
        newest[key] = row
        held += size_of[row]
        if row < rows.new:
            continue
        while places and places[0][2] <= stream_time and places[0][2] < HIGHEST:
            held -= release(row, DUE)
        while bounds.over(len(newest), held):
            held -= release(row, FULL)
    return Decided(at, outcome, why, place, due)


class BufferFull(RuntimeError):
    """The buffer holds more than it may (`when_full => 'fail'`)."""


def enforce(function: str, bounds: Bounds, rows: BufferedChanges, decided: Decided, sizes: Ints) -> None:
    """Raises where the buffer holds more than it may after a row, and that ends the query."""
    if not bounds.fail:
        return
    (count, size), stream_times = fullness(rows, decided, sizes), rows.stream_times[rows.new :]
    for option, bound, values, unit in (("max_records", bounds.records, count, "rows"), ("max_bytes", bounds.bytes, size, "bytes")):
        over = np.flatnonzero(values > bound) if bound is not None else np.zeros(0, np.int64)
        if len(over):
            row = int(over[0])
            known = stream_times[row] > LOWEST
            moment = str(np.datetime64(int(stream_times[row]), "us")).replace("T", " ").removesuffix(".000000") if known else "unknown"
            raise BufferFull(
                f"{function}, `{option}`: the buffer is full: expected at most {bound} {unit}, got {values[row]} at stream time {moment}. "
                f"Raise {option}, or let the buffer go on otherwise: when_full => 'spill'."
            )


def fullness(rows: BufferedChanges, decided: Decided, sizes: Ints) -> tuple[Ints, Ints]:
    """How many rows the buffer holds once each new row is done with, and how many bytes."""
    return after_each(decided, np.ones(len(sizes), np.int64), rows.new), after_each(decided, sizes, rows.new)


def after_each(decided: Decided, amounts: Ints, new: int) -> Ints:
    """How much the buffer holds once each new row is done with: rows (amounts of 1) or bytes."""
    change = np.zeros(len(amounts) + 1, np.int64)
    change[:-1] += amounts
    np.subtract.at(change, decided.at, amounts)
    return np.cumsum(change)[new:-1]
