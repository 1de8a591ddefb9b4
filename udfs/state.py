"""The state of many keys as a few sorted slices: what a streaming query keeps between micro-batches.

A state store that is asked key by key, from Python, answers some ten thousand times a second. So keys are gathered into buckets, and the
state of a bucket lies in the store as slices: matrices of 64-bit integers, sorted by key, newest first. A micro-batch adds one slice;
slices of like size are merged, so that each entry is rewritten a logarithmic number of times; a slice whose entries are all dead is
dropped whole. A key is two numbers (`streamtime.udfs.keys`).

An entry is (key, key, lives by, further values..), all numbers, and where a function asks for it a row of an Arrow table, its payload. It
is dead once `lives by` lies below a threshold that rises with stream time; some functions release an entry when it dies. The newest slice
that has a key speaks for it; older ones may still hold what it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtime.udfs.arrays.blobs import encoded, in_one_form
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Ints

Matrix = npt.NDArray[np.int64]  # one row per field of an entry, one column per entry
KEY = 2  # fields that make the key
LIVES_BY = 2


@dataclass(frozen=True)
class Entries:
    """Entries: their numbers, one column each, and their payload, one row each."""

    matrix: Matrix
    payload: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return int(self.matrix.shape[1])

    def take(self, which: Any) -> Entries:
        """Some of them: by position, or by a flag for each."""
        at = np.flatnonzero(which) if np.asarray(which).dtype == bool else which
        return Entries(self.matrix[:, at], None if self.payload is None else self.payload.take(pa.array(at, pa.int64())))

    def without_keys(self) -> Entries:
        """What a function sees of them."""
        return Entries(self.matrix[KEY:], self.payload)

    def dump(self) -> bytes:
        """For the store."""
        numbers = np.ascontiguousarray(self.matrix, "<i8").tobytes()
        return numbers if self.payload is None else numbers + encoded(self.payload)

    @staticmethod
    def load(blob: bytes, width: int, rows: int) -> Entries:
        """From the store."""
        size = width * rows * 8
        matrix = np.frombuffer(blob, "<i8", width * rows).reshape(width, rows)
        if size == len(blob):
            return Entries(matrix)
        (payload,) = pa.ipc.open_stream(pa.py_buffer(blob).slice(size))
        return Entries(matrix, in_one_form(payload))

    @staticmethod
    def join(parts: Sequence[Entries], width: int) -> Entries:
        """All of them, in order."""
        filled = [p for p in parts if len(p)]
        if len(filled) <= 1:
            return filled[0] if filled else Entries(np.zeros((width, 0), np.int64), parts[0].payload if parts else None)
        payloads = [p.payload for p in filled if p.payload is not None]
        return Entries(np.concatenate([p.matrix for p in filled], axis=1), pa.concat_batches(payloads) if payloads else None)


def waiting(held: Entries, owner: Ints, rows: pa.Table, group: Ints, matrix: Matrix) -> tuple[Ints, Entries]:
    """Rows that stay, with those held: whose each entry is, rising, and the entries. `matrix` has the numbers of both, held ones first."""
    tables = [rows]
    if held.payload is not None and len(owner):
        tables.insert(0, pa.Table.from_batches([held.payload]).cast(rows.schema))
    whose = np.concatenate((owner, group))
    order = np.argsort(whose, kind="stable")
    payload = pa.concat_tables(tables).take(pa.array(order)).combine_chunks().to_batches()
    return whose[order], Entries(matrix[:, order], payload[0] if len(order) else None)


@dataclass(frozen=True)
class Step:
    """What a micro-batch comes to: of each row why it is dropped and further times; of the state what is new."""

    reasons: Ints  # 0: it passes; 1, 2, ..: the first, the second of the transition's reasons
    results: list[pa.Array]
    groups: Ints  # whose entries are new, rising
    entries: Matrix  # those entries, without their keys


class Transition(Protocol):
    """The state transition of a function: what it holds of a key, and what a micro-batch does to it."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it drops rows."""

    @property
    def width(self) -> int:
        """How many numbers an entry has besides its key; the first is what it lives by."""

    def threshold(self, stream_time: int) -> int:
        """An entry that lives by less is dead."""

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, stream_time: int) -> Step:
        """Judge rows that come by group, each group's in processing order, with the live entries held of some groups (`owner`, rising)."""


@dataclass(frozen=True)
class Taken:
    """What a micro-batch comes to where a function holds things back: rows that leave at once, and what is held from now on."""

    out: pa.Table
    groups: Ints  # whose entries are new, rising; they replace all that were held of it; one that lives by LOWEST says: nothing any more
    entries: Entries  # those entries, without their keys
    counts: dict[str, float] = field(default_factory=dict)


class Holder(Protocol):
    """The state transition of a function that holds rows, or results of them, until they are due: an entry is released when it dies."""

    @property
    def counts(self) -> tuple[str, ...]:
        """The numbers of its own that it gives, by name."""

    @property
    def width(self) -> int:
        """How many numbers an entry has besides its key; the first is what it lives by."""

    def threshold(self, stream_time: int) -> int:
        """An entry that lives by less is due."""

    def take(self, rows: pa.Table, group: Ints, stream_times: Ints, owner: Ints, held: Entries) -> Taken:
        """Take rows that come by group, each group's in processing order, at these stream times (LOWEST: none yet), with the entries
        held of some groups (`owner`, rising). What was due before the first row has been released."""

    def release(self, due: Entries, stream_time: int) -> pa.Table:
        """Entries that are due, as rows of the output. `due` comes without keys."""


@dataclass(frozen=True)
class Seconds:
    """A metric in seconds, of two of the numbers that a holder gives: microseconds of something, and how many of it there were."""

    name: str
    of: str
    among: str
    least: bool = False  # the number is the smallest of all, and so is the metric; else it is their sum, and the metric their mean


@runtime_checkable
class Counting(Protocol):
    """A holder that counts what it releases."""

    @property
    def seconds(self) -> tuple[Seconds, ...]:
        """The metrics that are made of its numbers, where they are more than sums."""

    def counted(self, due: Entries, stream_time: int) -> dict[str, float]:
        """The numbers of a release."""


@runtime_checkable
class HoldingRows(Protocol):
    """A holder that holds rows as they came, and nothing that it made of them."""

    def held_columns(self, columns: Sequence[str]) -> Sequence[str]:
        """The columns of a row that is held, of those of a row that comes."""


class Meeter(Protocol):
    """The state transition of a function whose held rows, when they are due, meet what else is held of their key."""

    @property
    def counts(self) -> tuple[str, ...]:
        """The numbers of its own that it gives, by name."""

    @property
    def width(self) -> int:
        """How many numbers an entry has besides its key; the first is what it lives by."""

    def threshold(self, stream_time: int) -> int:
        """An entry that lives by less is due, or dead."""

    def meet(self, rows: pa.Table | None, group: Ints, stream_time: int, owner: Ints, held: Entries, of_due: Ints, due: Entries) -> Taken:
        """Take rows that come by group, with what is held of these groups and of those that have something due (`owner`, rising; what is
        dead may still be among it), and let go what is due (of groups `of_due`). The new entries replace all of their group.
        """


class Store(Protocol):
    """Where the blobs of one bucket lie."""

    def get(self, slot: int) -> bytes:
        """A blob."""

    def put(self, slot: int, blob: bytes) -> None:
        """Write a blob."""

    def delete(self, slot: int) -> None:
        """Remove a blob."""


@dataclass
class Slice:
    """A slice, in memory or still in the store."""

    slot: int
    rows: int
    highest: int  # the largest `lives by` in it
    lowest: int = LOWEST  # the smallest that is not released yet
    entries: Entries | None = None


@dataclass
class Index:
    """What is known of a bucket without reading its slices."""

    options: dict[str, Any] = field(default_factory=dict)
    next_slot: int = 0
    timer: int | None = None
    secret: str = ""  # keys are told apart with it, and nobody who sends keys knows it
    clock: int = LOWEST  # the latest stream time, where that is the time of day: it never goes back
    released: int = LOWEST + 1  # what lives by less has been released; what lives by LOWEST only hides what its key had
    slices: list[Slice] = field(default_factory=list)  # newest first

    @staticmethod
    def load(blob: bytes | None) -> Index:
        """From the store; nothing there is an empty bucket."""
        if blob is None:
            return Index()
        fields = json.loads(blob)
        return Index(**fields | {"slices": [Slice(*s) for s in fields["slices"]]})

    def rung(self, stream_time: int) -> None:
        """A timer whose time has come is none any more."""
        if self.timer is not None and self.timer * 1000 <= stream_time:
            self.timer = None

    def dump(self) -> bytes:
        """For the store."""
        fields = {k: v for k, v in vars(self).items() if k != "slices"}
        return json.dumps(fields | {"slices": [(s.slot, s.rows, s.highest, s.lowest) for s in self.slices]}).encode()


class Slices:
    """The entries of one bucket."""

    def __init__(self, store: Store, index: Index, width: int, read: Callable[[Entries], Entries] = lambda held: held) -> None:
        self.store, self.index, self.width = store, index, width
        self.read = read  # what is made of entries that come from the store
        self.stale: list[int] = []  # slots to delete when the changes are saved

    def find(self, keys: Matrix) -> tuple[Ints, Entries]:
        """The newest entries of these distinct keys: for each entry the position of its key, and the entry itself."""
        there = np.zeros(keys.shape[1], bool)
        positions, parts = [], []
        for one in self.index.slices:
            entries = self._read(one)
            position, at = _matches(entries.matrix, keys, ~there)
            there[position] = True
            positions.append(position)
            parts.append(entries.take(at))
        if not positions:
            return np.zeros(0, np.int64), Entries.join([], self.width)
        return np.concatenate(positions), Entries.join(parts, self.width)

    def due(self, threshold: int) -> Entries:
        """Entries that die with this threshold, each once."""
        parts = []
        for age, one in enumerate(self.index.slices):
            if one.lowest >= threshold:
                continue
            entries = self._read(one)
            lives_by = entries.matrix[LIVES_BY]
            dying = entries.take((lives_by >= self.index.released) & (lives_by < threshold))
            for newer in self.index.slices[:age]:
                if len(dying):
                    distinct = dying.matrix[:KEY, key_starts(dying.matrix)]
                    hidden, _ = _matches(self._read(newer).matrix, distinct, np.ones(distinct.shape[1], bool))
                    of = np.cumsum(key_starts(dying.matrix)) - 1
                    dying = dying.take(~np.isin(of, hidden))
            parts.append(dying)
            one.lowest = int(lives_by[lives_by >= threshold].min(initial=HIGHEST))
        self.index.released = max(threshold, self.index.released)
        return Entries.join(parts, self.width)

    def put(self, entries: Entries, threshold: int) -> None:
        """New entries, sorted by key; they replace all that was known of their keys. What lives by less than `threshold` is dead."""
        slices = self.index.slices
        if len(entries):
            slices.insert(0, _slice(entries, threshold))
        self.expire(threshold)
        while len(slices) > 1 and slices[1].rows <= 2 * slices[0].rows:
            newer, older = slices[0], slices[1]
            merged = _newest(self._read(newer), self._read(older), self.width)
            if len(slices) == 2:  # with nothing older behind it, a dead entry has nothing left to hide
                merged = merged.take(merged.matrix[LIVES_BY] >= threshold)
            self._forget(older)
            self._forget(newer)
            slices[:2] = [_slice(merged, threshold)]
        self.expire(threshold)

    def expire(self, threshold: int) -> None:
        """Drop slices that are dead as a whole, oldest first: a newer one may hide entries of an older one that is not."""
        slices = self.index.slices
        while slices and slices[-1].highest < threshold:
            self._forget(slices.pop())

    def save(self) -> None:
        """Write what changed; the index itself is the caller's to write."""
        for slot in self.stale:
            self.store.delete(slot)
        self.stale = []
        for one in self.index.slices:
            if one.slot < 0:
                assert one.entries is not None
                one.slot, self.index.next_slot = self.index.next_slot, self.index.next_slot + 1
                self.store.put(one.slot, one.entries.dump())

    @property
    def rows(self) -> int:
        """How many entries are held, dead ones included."""
        return sum(s.rows for s in self.index.slices)

    def _read(self, one: Slice) -> Entries:
        if one.entries is None:
            one.entries = self.read(Entries.load(self.store.get(one.slot), self.width, one.rows))
        return one.entries

    def _forget(self, one: Slice) -> None:
        if one.slot >= 0:
            self.stale.append(one.slot)


def _slice(entries: Entries, threshold: int) -> Slice:
    lives_by = entries.matrix[LIVES_BY]
    lowest = int(lives_by[lives_by >= threshold].min(initial=HIGHEST))
    return Slice(-1, len(entries), int(lives_by.max(initial=LOWEST)), lowest, entries)


def _matches(matrix: Matrix, keys: Matrix, wanted: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Where the wanted ones of these distinct keys stand in a slice: positions among the keys, and in the slice."""
    low = np.searchsorted(matrix[0], keys[0], side="left")
    high = np.searchsorted(matrix[0], keys[0], side="right")
    lengths = np.where(wanted, high - low, 0)
    position = np.repeat(np.arange(keys.shape[1]), lengths)
    at = np.repeat(low - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(len(position))
    same = matrix[1][at] == keys[1][position]
    return position[same], at[same]


def _newest(newer: Entries, older: Entries, width: int) -> Entries:
    """Both slices as one, sorted by key; of a key that both have, only the newer one's entries."""
    both = Entries.join([newer, older], width)
    age = np.repeat([0, 1], [len(newer), len(older)])
    order = np.lexsort((age, both.matrix[1], both.matrix[0]))
    matrix, age = both.matrix[:, order], age[order]
    starts = key_starts(matrix)
    return both.take(order[age == age[starts][np.cumsum(starts) - 1]])


def key_starts(entries: Matrix) -> npt.NDArray[np.bool_]:
    """True where another key begins."""
    starts = np.ones(entries.shape[1], bool)
    starts[1:] = (entries[0, 1:] != entries[0, :-1]) | (entries[1, 1:] != entries[1, :-1])
    return starts


def grouped(keys: Matrix) -> tuple[Ints, Matrix]:
    """For rows sorted by key: their group numbers, and the distinct keys."""
    starts = key_starts(keys)
    return np.cumsum(starts) - 1, keys[:, starts]
