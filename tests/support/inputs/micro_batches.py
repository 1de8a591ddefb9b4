"""A holder or transition of a stream without Spark: its state, its micro-batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from support import reference

from streamtime.sql.stream import packing
from streamtime.sql.stream.buckets import Hold, Holding, Judge, Judging
from streamtime.sql.stream.meeting import Meet, Meeting
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.state import Index

MOMENT = pa.timestamp("us")


KEYS = ("first", "second")  # what tells keys apart


STEP = 1000  # a watermark has milliseconds


class Handle:
    """What Spark gives a stateful function, for one bucket, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.timers: set[int] = set()

    def getValueState(self, name: str, _schema: Any) -> Any:
        values = self.values

        class Value:
            def get(self) -> Any:
                return values.get(name)

            def update(self, value: Any) -> None:
                values[name] = value

            def clear(self) -> None:
                values.pop(name, None)

        return Value()

    def getMapState(self, name: str, _key: Any, _schema: Any) -> Any:
        slots: dict[Any, Any] = self.values.setdefault(name, {})

        class Map:
            def getValue(self, key: Any) -> Any:
                return slots[key]

            def updateValue(self, key: Any, value: Any) -> None:
                assert key not in slots
                slots[key] = value

            def removeKey(self, key: Any) -> None:
                del slots[key]

        return Map()

    def registerTimer(self, at: int) -> None:
        self.timers.add(at)


class Times:
    def __init__(self, watermark: int) -> None:
        self.watermark = watermark

    def getCurrentWatermarkInMs(self) -> int:
        return max(self.watermark // 1000, 0)

    def getCurrentProcessingTimeInMs(self) -> int:
        return self.getCurrentWatermarkInMs()  # the same moment, for who asks for the clock on the wall


class Stream:
    """A streaming query: each micro-batch runs in new objects, as after a restart; only what was saved remains."""

    def __init__(self, plan: Judging) -> None:
        self.plan = plan
        self.handles: dict[int, Handle] = {}

    def run(self, rows: pa.Table, watermark: int, pieces: int = 1) -> list[dict[str, Any]]:
        size = -(-rows.num_rows // pieces) or 1
        blobs: dict[int, list[bytes]] = {}
        for at in range(0, rows.num_rows, size):
            for packed in packing.packer().pack(iter(rows.slice(at, size).to_batches(max_chunksize=7))):
                for row in packed.to_pylist():
                    blobs.setdefault(row["bucket"], []).append(row["data"])
        found = []
        for bucket, data in blobs.items():
            judge = self._judge(bucket)
            for pdf in judge.handleInputRows((bucket,), iter([pd.DataFrame({"data": data})]), Times(watermark)):
                packed = pa.RecordBatch.from_pandas(pdf[["data"]])
                found += [row for batch in packing.unpack(iter([packed])) for row in batch.to_pylist()]
        for bucket, handle in self.handles.items():
            for at in sorted(t for t in handle.timers if t <= watermark // 1000):
                assert not list(self._judge(bucket).handleExpiredTimer((bucket,), Times(watermark), None))
                handle.timers.discard(at)
        return found

    def count(self, number: int) -> None:
        """What a micro-batch says beside its rows: how many buckets there are."""
        rows = iter([pd.DataFrame({"data": [str(number).encode()] * 3})])
        assert not list(self._judge(packing.NO_KEYS).handleInputRows((packing.NO_KEYS,), rows, Times(0)))

    def _judge(self, bucket: int) -> Judge:
        judge = Judge(self.plan)
        judge.init(self.handles.setdefault(bucket, Handle()))
        return judge

    def held(self) -> int:
        found = [h.values["index"][0] for h in self.handles.values() if "index" in h.values]
        slots = sum(len(h.values["slices"]) for h in self.handles.values())
        indexes = [Index.load(blob) for blob in found]
        assert slots == sum(len(i.slices) for i in indexes)  # nothing is left behind that no index knows
        return sum(s.rows for i in indexes for s in i.slices)


class HoldingStream:
    """A streaming query of a function that holds things back; only what was saved remains from micro-batch to micro-batch."""

    def __init__(self, plan: Holding) -> None:
        self.plan = plan
        self.handles: dict[int, Handle] = {}
        self.counts: Counter[str] = Counter()

    def run(self, rows: pa.Table, watermark: int) -> list[dict[str, Any]]:
        blobs: dict[int, list[bytes]] = {}
        for packed in packing.packer().pack(iter(rows.to_batches(max_chunksize=7))):
            for row in packed.to_pylist():
                blobs.setdefault(row["bucket"], []).append(row["data"])
        found = []
        for bucket, data in blobs.items():
            found += self._rows(self._hold(bucket).handleInputRows((bucket,), iter([pd.DataFrame({"data": data})]), Times(watermark)))
        for bucket, handle in self.handles.items():
            for at in sorted(t for t in handle.timers if t <= watermark // 1000):
                found += self._rows(self._hold(bucket).handleExpiredTimer((bucket,), Times(watermark), None))
                handle.timers.discard(at)
        return found

    def _rows(self, results: Iterator[pd.DataFrame]) -> list[dict[str, Any]]:
        found = []
        for pdf in results:
            for counts in pdf["counts"]:
                self.counts.update(dict(zip(self.plan.counts, counts, strict=True)))
            packed = pa.RecordBatch.from_pydict({"data": pa.array(pdf["data"], pa.binary())})
            found += [row for batch in packing.unpack(iter([packed])) for row in batch.to_pylist()]
        return found

    def _hold(self, bucket: int) -> Any:
        hold = Hold(self.plan)
        hold.init(self.handles.setdefault(bucket, Handle()))
        return hold

    def held(self) -> bool:
        return any("index" in h.values or h.values.get("slices") for h in self.handles.values())


class MeetingStream(HoldingStream):
    """The same of a function whose held rows meet what else is held of their key."""

    def __init__(self, plan: Meeting) -> None:
        super().__init__(plan)  # type: ignore[arg-type]

    def _hold(self, bucket: int) -> Any:
        meet = Meet(self.plan)  # type: ignore[arg-type]
        meet.init(self.handles.setdefault(bucket, Handle()))
        return meet


def plan(transition: Any, **changes: Any) -> Judging:
    given = {
        "function": "F", "transition": transition, "keys": KEYS, "options": {"within": "10"}, "roles": ("t",), "order": (By("t"),), "ties": (By("id"),),
        "aside": ("null_time",), "results": (), "output": "all",
    }  # fmt: skip
    return Judging(**given | changes)


def table(rows: list[reference.Row], spread: int = 1 << 62) -> pa.Table:
    """Rows with hashes of their keys: half of it is shared by several keys."""
    place = {None: 5, "a": -spread, "b": spread, "c": spread, "d": spread + 1}
    second = {None: 0, "a": 1, "b": 1, "c": 2, "d": 1}
    aside = [1 if r["t"] is None else 0 if r["k"] is None else -1 for r in rows]
    columns = {
        "k": pa.array([r["k"] for r in rows], pa.string()),
        "t": pa.array([r["t"] for r in rows], MOMENT),
        "id": pa.array([r["id"] for r in rows], pa.int64()),
        KEY_HASH: pa.array([place[r["k"]] for r in rows], pa.int64()),
        KEYS[0]: pa.array([place[r["k"]] for r in rows], pa.int64()),
        KEYS[1]: pa.array([second[r["k"]] for r in rows], pa.int64()),
        ASIDE: pa.array(aside, pa.int32()),
    }
    if rows and "off" in rows[0]:
        columns["off"] = pa.array([r["off"] for r in rows], pa.int64())
    return pa.table(columns)


def cut_up(random_: random.Random, rows: list[reference.Row]) -> list[list[reference.Row]]:
    batches, at = [], 0
    while at < len(rows):
        step = random_.choice([1, 1, 2, 3, 8, 20])
        batches.append(rows[at : at + step])
        at += step
    return batches


def some_stream(random_: random.Random) -> list[list[reference.Row]]:
    """Times rise, with disorder; in thousands, so that a watermark meets them exactly."""
    rows = []
    for i in range(random_.randint(1, 60)):
        time = (i // random_.choice([1, 2]) + random_.randint(-8, 8)) * STEP
        rows.append(
            {
                "k": random_.choice([None, "a", "b", "c", "d", "d"]),
                "t": random_.choice([None, *([time] * 15)]),
                "id": i,
                "off": random_.choice([None, i, random_.randint(0, 3)]),
            }
        )
    return cut_up(random_, rows)


def moment(value: Any) -> int | None:
    return None if value is None else int((np.datetime64(value, "us") - np.datetime64(0, "us")).astype(int))
