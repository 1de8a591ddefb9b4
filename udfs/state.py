"""The state of many keys as a few sorted slices: what a streaming query keeps between micro-batches.

A state store that is asked key by key, from Python, answers some ten thousand times a second. So keys are gathered into buckets, and the
state of a bucket lies in the store as slices: matrices of 64-bit integers, sorted by key, newest first. A micro-batch adds one slice;
slices of like size are merged, so that each entry is rewritten a logarithmic number of times; a slice whose entries are all dead is
dropped whole. A key is a hash of 128 bits.

An entry is (key, key, lives by, further values..). It is dead once `lives by` lies below a threshold that rises with stream time. The
newest slice that has a key speaks for it; older ones may still hold what it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtime.udfs.groups import LOWEST, Ints

Matrix = npt.NDArray[np.int64]  # one row per field of an entry, one column per entry
KEY = 2  # fields that make the key
LIVES_BY = 2


@dataclass(frozen=True)
class Step:
    """What a micro-batch comes to: of each row why it is dropped (0: it passes) and further times; of the state what is new."""

    reasons: Ints
    results: list[pa.Array]
    groups: Ints  # whose entries are new, rising
    entries: Matrix  # those entries, without their keys


class Transition(Protocol):
    """The state transition of a function: what it keeps of a key, and what a micro-batch does to it."""

    @property
    def width(self) -> int:
        """How many numbers an entry has besides its key; the first is what it lives by."""

    def threshold(self, watermark: int) -> int:
        """An entry that lives by less is dead."""

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, watermark: int) -> Step:
        """Judge rows that come by group, each group's in processing order, with the live entries held of some groups (`owner`, rising)."""


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
    matrix: Matrix | None = None


@dataclass
class Index:
    """What is known of a bucket without reading its slices."""

    options: dict[str, Any] = field(default_factory=dict)
    next_slot: int = 0
    timer: int | None = None
    slices: list[Slice] = field(default_factory=list)  # newest first

    @staticmethod
    def load(blob: bytes | None) -> Index:
        """From the store; nothing there is an empty bucket."""
        if blob is None:
            return Index()
        fields = json.loads(blob)
        return Index(**fields | {"slices": [Slice(*s) for s in fields["slices"]]})

    def dump(self) -> bytes:
        """For the store."""
        fields = {k: v for k, v in asdict(self).items() if k != "slices"}
        return json.dumps(fields | {"slices": [(s.slot, s.rows, s.highest) for s in self.slices]}).encode()


class Slices:
    """The entries of one bucket."""

    def __init__(self, store: Store, index: Index, width: int) -> None:
        self.store, self.index, self.width = store, index, width
        self.stale: list[int] = []  # slots to delete when the changes are saved

    def find(self, keys: Matrix) -> tuple[Ints, Matrix]:
        """The newest entries of these distinct keys: for each entry the position of its key, and the entry itself."""
        count = keys.shape[1]
        found = np.zeros(count, bool)
        positions, entries = [], []
        for one in self.index.slices:
            matrix = self._read(one)
            low = np.searchsorted(matrix[0], keys[0], side="left")
            high = np.searchsorted(matrix[0], keys[0], side="right")
            lengths = np.where(found, 0, high - low)
            position = np.repeat(np.arange(count), lengths)
            at = np.repeat(low - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(len(position))
            same = matrix[1][at] == keys[1][position]
            position, at = position[same], at[same]
            found[position] = True
            positions.append(position)
            entries.append(matrix[:, at])
        if not positions:
            return np.zeros(0, np.int64), np.zeros((self.width, 0), np.int64)
        return np.concatenate(positions), np.concatenate(entries, axis=1)

    def put(self, entries: Matrix, threshold: int) -> None:
        """New entries, sorted by key; they replace all that was known of their keys. What lives by less than `threshold` is dead."""
        slices = self.index.slices
        if entries.shape[1]:
            slices.insert(0, Slice(-1, entries.shape[1], int(entries[LIVES_BY].max()), entries))
        self.expire(threshold)
        while len(slices) > 1 and slices[1].rows <= 2 * slices[0].rows:
            newer, older = slices[0], slices[1]
            merged = _newest(self._read(newer), self._read(older))
            if len(slices) == 2:  # with nothing older behind it, a dead entry has nothing left to hide
                merged = merged[:, merged[LIVES_BY] >= threshold]
            self._forget(older)
            self._forget(newer)
            slices[:2] = [Slice(-1, merged.shape[1], int(merged[LIVES_BY].max(initial=LOWEST)), merged)]
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
                assert one.matrix is not None
                one.slot, self.index.next_slot = self.index.next_slot, self.index.next_slot + 1
                self.store.put(one.slot, np.ascontiguousarray(one.matrix, "<i8").tobytes())

    @property
    def rows(self) -> int:
        """How many entries are held, dead ones included."""
        return sum(s.rows for s in self.index.slices)

    def _read(self, one: Slice) -> Matrix:
        if one.matrix is None:
            one.matrix = np.frombuffer(self.store.get(one.slot), "<i8").reshape(self.width, one.rows)
        return one.matrix

    def _forget(self, one: Slice) -> None:
        if one.slot >= 0:
            self.stale.append(one.slot)


def _newest(newer: Matrix, older: Matrix) -> Matrix:
    """Both slices as one, sorted by key; of a key that both have, only the newer one's entries."""
    both = np.concatenate((newer, older), axis=1)
    age = np.repeat([0, 1], [newer.shape[1], older.shape[1]])
    order = np.lexsort((age, both[1], both[0]))
    both, age = both[:, order], age[order]
    starts = key_starts(both)
    return both[:, age == age[starts][np.cumsum(starts) - 1]]


def key_starts(entries: Matrix) -> npt.NDArray[np.bool_]:
    """True where another key begins."""
    starts = np.ones(entries.shape[1], bool)
    starts[1:] = (entries[0, 1:] != entries[0, :-1]) | (entries[1, 1:] != entries[1, :-1])
    return starts


def grouped(keys: Matrix) -> tuple[Ints, Matrix]:
    """For rows sorted by key: their group numbers, and the distinct keys."""
    starts = key_starts(keys)
    return np.cumsum(starts) - 1, keys[:, starts]
