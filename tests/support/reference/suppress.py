"""The slow, from-scratch meaning of suppress: plain Python, row by row, written from the rules and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.reference import BEFORE, Row, in_processing_order

END = 2**63 - 1  # of TIMESTAMP: it stands for all moments beyond it, which stream time never reaches


@dataclass
class Fate:
    """A row and what became of it."""

    row: Row
    outcome: str
    stream_time: int | None = None
    emit_time: int | None = None
    emit_reason: str | None = None
    decided_at: int | None = None
    decided_by: Row | None = None
    place: int | None = None


class Full(Exception):
    """`when_full => 'fail'`."""


@dataclass
class Place:
    """A key's place in the buffer, and the row that is held there."""

    since: int
    due: int
    fate: Fate


def sort_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Nulls first, ascending."""
    return tuple((k is not None, k) if k is not None else (False, 0) for k in key)


class Suppress:
    """S1 to S7, S12 and C7, with the metrics of section 8. The event time is column `t`; `size` is a row's bytes."""

    def __init__(
        self,
        *,
        wait: int | None = None,
        closes: bool = False,
        corrected: bool = False,
        deleted: bool = True,
        order: Sequence[str] = ("id",),
        keys: Sequence[str] = ("k",),
        clock_by: Sequence[str] = (),
        max_records: int | None = None,
        max_bytes: int | None = None,
        when_full: str | None = None,
        at_end: str = "emit",
        watermarked: bool = False,
    ) -> None:
        self.wait, self.closes, self.keys, self.order, self.clock_by = wait, closes, keys, order, clock_by
        self.max_records, self.max_bytes, self.when_full, self.at_end = max_records, max_bytes, when_full, at_end
        self.deleted, self.watermarked = deleted, watermarked
        self.corrected, self.reason = corrected, ("window_end" if corrected else "close") if closes else "time"
        self.fates: list[Fate] = []
        self.counts: list[int] = []
        self.sizes: list[int] = []
        self.overtimes: list[int] = []

    def run(self, rows: Sequence[Row]) -> list[Fate]:
        """All rows, each once, in the order in which they were decided."""
        ordered = in_processing_order(rows, self.order)
        clocks = sorted({tuple(r[c] for c in self.clock_by) for r in ordered}, key=sort_key)
        for clock in clocks:
            self.buffer: dict[Any, Place] = {}
            self.stream_time: int | None = None
            for row in ordered:
                if tuple(r for r in (row[c] for c in self.clock_by)) == clock:
                    self.process(row)
            self.end()
        return self.fates

    def stream(self, batches: Sequence[tuple[Sequence[Row], int]]) -> list[Fate]:
        """Micro-batches, each under a watermark, which is its stream time (C3): what is due leaves first, then its rows come."""
        self.buffer = {}
        for rows, watermark in batches:
            self.stream_time = watermark
            self.release_due(None)
            for row in in_processing_order(rows, self.order):
                self.process(row)
        return self.fates

    def process(self, row: Row) -> None:
        if row["t"] is None or row[self.order[0]] is None or (self.closes and row["close"] is None):
            self.fates.append(Fate(row, "null_time", decided_by=row))
            return
        if not self.watermarked:
            self.stream_time = row["t"] if self.stream_time is None else max(self.stream_time, row["t"])
        self.put(row)
        self.release_due(row)
        while self.over():
            if self.when_full == "fail":
                raise Full
            if self.when_full == "spill":
                break
            self.release(self.oldest_first()[0][0], "full", row)
        self.counts.append(len(self.buffer))
        self.sizes.append(self.bytes())

    def release_due(self, by: Row | None) -> None:
        assert self.stream_time is not None
        for key, place in self.oldest_first():
            if (
                place.due <= min(self.stream_time, END - 1) or self.wait == 0
            ):  # without a wait nothing waits, however far the watermark is behind
                self.release(key, self.reason, by)

    def put(self, row: Row) -> None:
        key = tuple(row[k] for k in self.keys)
        fate = Fate(row, "held", self.stream_time)
        before = self.buffer.get(key)
        if before is not None:
            before.fate.outcome, before.fate.decided_at, before.fate.decided_by = "replaced", self.stream_time, row
            before.fate.place = before.since
            self.fates.append(before.fate)
        if self.closes:
            self.buffer[key] = Place(row["close"], row["close"], fate)
        elif before is not None:
            before.fate = fate
        else:
            self.buffer[key] = Place(row["t"], row["t"] + (10**30 if self.wait is None else self.wait), fate)

    def release(self, key: Any, reason: str, by: Row | None) -> None:
        place = self.buffer.pop(key)
        fate = place.fate
        fate.decided_at, fate.decided_by, fate.place = self.stream_time, by, place.since
        assert fate.stream_time is not None
        corrects = self.corrected and fate.stream_time >= place.due < END
        if self.closes and self.deleted and fate.row["deleted"] and not corrects:
            fate.outcome = "tombstone"
        else:
            now = fate.row["t"] if self.stream_time == BEFORE else self.stream_time  # what follows goes by it [S8]
            fate.outcome, fate.emit_time, fate.emit_reason = "released", now, reason
            if place.due < 10**29:
                assert self.stream_time is not None
                self.overtimes.append(self.stream_time - place.due)
        self.fates.append(fate)

    def end(self) -> None:
        for key, place in self.oldest_first():
            if self.at_end == "emit":
                self.release(key, "end", None)
            else:
                self.fates.append(place.fate)

    def oldest_first(self) -> list[tuple[Any, Place]]:
        return sorted(self.buffer.items(), key=lambda item: (item[1].since, sort_key(item[0])))

    def bytes(self) -> int:
        return sum(p.fate.row.get("size", 0) for p in self.buffer.values())

    def over(self) -> bool:
        too_many = self.max_records is not None and len(self.buffer) > self.max_records
        return too_many or (self.max_bytes is not None and self.bytes() > self.max_bytes)
