"""AS_OF_JOIN with a stream on its right side, too (rules J1 to J4, V2, V3, C5e): versions come while rows wait for them.

A left row waits until stream time has reached its time and `grace`. Then it meets the versions of its key. A version is held while it is
the newest of its key, and for `retention` after the next one begins; a deletion is a version, too, but one without a value, so the newest
is held no longer than others. What is looked up by then is the same, however the rows were cut into micro-batches, if no right row came
later than `grace`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.blobs import only
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST, Flags, Ints
from streamtime.udfs.arrays.ordering import By, one, sorted_rows
from streamtime.udfs.closing import of_waiting_rows
from streamtime.udfs.state import Entries, Taken
from streamtime.udfs.versions import expired, refused

KIND, TIME = 1, 2  # an entry, behind what it lives by
WAITS, VERSION = 0, 1


@dataclass(frozen=True)
class AsOf:
    """A `Meeter`: what comes in is rows of both sides, what leaves is left rows beside the columns of their version."""

    time: str  # null of a left row that can have no match: it does not wait
    is_right: str
    deleted: str | None
    left: tuple[str, ...]
    right: tuple[str, ...]
    order: tuple[By, ...]  # of versions of one time, behind which come ..
    ties: tuple[By, ...]  # .. these
    grace: int
    retention: int
    exact: bool = True  # whether a version of the very same time counts
    first: bool = False  # of versions of one time the first counts, not the last
    wall: bool = False  # stream time is the time of day, which goes on while nothing comes
    has_version: str = "has_version"  # the names of what is added: whether there is a version, and whether `retention` hid it
    expired: str = "expired"

    @property
    def counts(self) -> tuple[str, ...]:
        """Right rows that were older than `retention`, and left rows that came after their time was over."""
        return ("right_too_old_total", "left_late_total")

    @property
    def width(self) -> int:
        """What an entry lives by, which kind it is, its time."""
        return 3

    def threshold(self, stream_time: int) -> int:
        """A row leaves when stream time has reached its time and `grace`."""
        return int(of_waiting_rows(self.grace).closed_before(stream_time))

    def meet(self, rows: pa.Table | None, group: Ints, stream_time: int, owner: Ints, held: Entries, of_due: Ints, due: Entries) -> Taken:
        """Rows of a micro-batch (`group`), all that is held of their keys and of those of rows that are due (`owner`), and the rows that
        are due (`of_due`). Entries that are held may be dead; of waiting ones, those that are not due come.

        A row that is due may meet a version that has died since it came. A row that comes now may not: whether such a version is still
        there hangs on what else is held.
        """
        if rows is None:
            example = due.payload if due.payload is not None else held.payload
            if example is None:
                return Taken(pa.table({}), group, Entries(np.zeros((self.width, 0), np.int64)))
            rows = pa.Table.from_batches([example]).slice(0, 0)
            rows = rows.append_column(self.time, pa.array([], pa.timestamp("us"))).append_column(self.is_right, pa.array([], pa.bool_()))
        waited = due.matrix[KIND] == WAITS  # versions only die
        of_due, due = of_due[waited], due.take(waited)
        column = one(rows, self.time)
        timed = groups.valid([column], len(column))
        moments = np.where(timed, groups.micros(column), LOWEST)
        right = groups.as_flags(one(rows, self.is_right))
        reached = None if stream_time == LOWEST else stream_time
        old = right & refused(moments, reached, self.retention)  # which is its grace as well
        if self.wall:  # the current version never expires [V3], how long ever the way was on which it came
            old &= ~_newest(group, moments, right, owner, held)
        over = ~right & (~timed | (moments < self.threshold(stream_time)))
        came = np.flatnonzero(right & ~old)
        batch = Batch(rows, group, moments, owner, held)
        versions = self._versions(batch, came)
        out = _with(rows, np.flatnonzero(over), due, self.left)
        of = np.concatenate((group[over], of_due))
        at = np.concatenate((np.where(timed, moments, LOWEST)[over], due.matrix[TIME]))
        none = np.concatenate((~timed[over], np.zeros(len(of_due), bool)))
        matches = np.where(none, -1, versions.at(of, at, self.exact))
        late = np.concatenate((timed[over] & expired(moments[over], reached, self.retention), np.zeros(len(of_due), bool)))
        newest = np.zeros(len(of), bool)
        newest[matches >= 0] = versions.is_last[matches[matches >= 0]]
        alive = self._until(versions) >= self.threshold(stream_time)
        matches = np.where(late & ~newest, -1, matches)
        hidden = late & ~newest & np.isin(of, versions.group[alive])
        matched = versions.rows.take(pa.array(matches, mask=matches < 0))
        for name in self.right:
            out = out.append_column(name, matched.column(name))
        out = out.append_column(self.has_version, pa.array(matches >= 0)).append_column(self.expired, pa.array(hidden))
        counts: dict[str, float] = {"right_too_old_total": int(old.sum()), "left_late_total": int((over & timed).sum())}
        stays = np.flatnonzero(~right & ~over)
        return Taken(out, *self._held_now(batch, stays, came, versions, self.threshold(stream_time)), counts)

    def _versions(self, batch: Batch, came: Ints) -> VersionRows:
        """All versions of these keys, those that `came` and those that are held, sorted by key and time; of those of one time the one that
        counts."""
        held = batch.held
        known = np.flatnonzero(held.matrix[KIND] == VERSION)
        table = _with(batch.rows, came, held.take(known), self.right)
        group = np.concatenate((batch.group[came], batch.owner[known]))
        moments = np.concatenate((batch.moments[came], held.matrix[TIME][known]))
        order = sorted_rows([group, moments], self.order, self.ties, table)
        group, moments = group[order], moments[order]
        same = (group[1:] == group[:-1]) & (moments[1:] == moments[:-1])
        counts = np.append(True, ~same) if self.first else np.append(~same, True)
        counts = counts[: len(group)]
        order, group, moments = order[counts], group[counts], moments[counts]
        is_last = groups.ends(group)
        return VersionRows(group, moments, is_last, table.take(pa.array(order)))

    def _held_now(self, batch: Batch, stays: Ints, came: Ints, versions: VersionRows, threshold: int) -> tuple[Ints, Entries]:
        """What is held from now on of keys that have a new version, or one more row that waits."""
        group, owner, held = batch.group, batch.owner, batch.held
        changed = np.unique(np.concatenate((group[stays], group[came])))
        waits = (held.matrix[KIND] == WAITS) & (held.matrix[0] >= threshold)
        waiting = np.flatnonzero(waits & np.isin(owner, changed))
        until = self._until(versions)
        lasting = np.flatnonzero(np.isin(versions.group, changed) & (until >= threshold))
        whose = np.concatenate((group[stays], owner[waiting], versions.group[lasting]))
        time = np.concatenate((batch.moments[stays], held.matrix[TIME][waiting], versions.time[lasting]))
        kind = np.repeat([WAITS, VERSION], [len(stays) + len(waiting), len(lasting)])
        lives_by = np.where(kind == WAITS, time, np.append(np.zeros(len(time) - len(lasting), np.int64), until[lasting]))
        lefts = _with(batch.rows, stays, held.take(waiting), (*self.left, *self.right))
        rights = versions.rows.take(pa.array(lasting))
        for name in self.left:
            rights = rights.append_column(name, pa.nulls(len(lasting), lefts.schema.field(name).type))
        payload = pa.concat_tables([lefts, rights.select(lefts.schema.names)])
        order = np.argsort(whose, kind="stable")
        matrix = np.stack((lives_by, kind, time)).astype(np.int64)
        return whose[order], Entries(matrix[:, order], only(payload.take(pa.array(order))))

    def _until(self, versions: VersionRows) -> Ints:
        """What versions live by, on the scale of rows that wait: the time of the next one, or of a deletion its own, and `retention`."""
        count = len(versions.group)
        ends = np.append(versions.time[1:], HIGHEST)[:count]
        gone = np.zeros(count, bool)
        if self.deleted is not None:
            gone = groups.as_flags(one(versions.rows, self.deleted).fill_null(False))
        ends = np.where(versions.is_last, np.where(gone, versions.time, HIGHEST), ends)
        return groups.plus(ends, self.retention - self.grace + 1)


@dataclass(frozen=True)
class Batch:
    """The rows of a micro-batch, of each its key and its time; and all that is held of these keys, with the key that owns it."""

    rows: pa.Table
    group: Ints
    moments: Ints
    owner: Ints
    held: Entries


@dataclass(frozen=True)
class VersionRows:
    """Versions, sorted by key and time."""

    group: Ints
    time: Ints
    is_last: Flags  # whether it is the newest of its key
    rows: pa.Table

    def at(self, group: Ints, time: Ints, exact: bool) -> Ints:
        """For each lookup the version that is valid then, or -1."""
        count = len(self.group)
        is_version = np.arange(count + len(group)) < count
        both, times = np.concatenate((self.group, group)), np.concatenate((self.time, time))
        order = np.lexsort((is_version != exact, times, both))
        newest = np.maximum.accumulate(np.where(is_version[order], order, -1))
        places = np.full(len(both), -1)
        places[order] = newest
        places = places[count:]
        if not count:
            return places
        mine: Ints = np.where((places >= 0) & (self.group[places] == group), places, -1)
        return mine


def _newest(group: Ints, moments: Ints, right: Flags, owner: Ints, held: Entries) -> Flags:
    """Whether a row of the right side is the newest version of its key, of all that are known."""
    known = held.matrix[KIND] == VERSION
    whose, times = np.concatenate((group[right], owner[known])), np.concatenate((moments[right], held.matrix[TIME][known]))
    newest = np.full(int(whose.max(initial=-1)) + 1, LOWEST)
    np.maximum.at(newest, whose, times)
    flags = np.zeros(len(group), bool)
    flags[right] = moments[right] == newest[group[right]]
    return flags


def _with(rows: pa.Table, which: Ints, held: Entries, columns: Sequence[str]) -> pa.Table:
    """Some of the rows, then what is held, of these columns."""
    some = rows.select(list(columns)).take(pa.array(which))
    if held.payload is None or not len(held):
        return some
    return pa.concat_tables([some, pa.Table.from_batches([held.payload]).select(list(columns)).cast(some.schema)])
