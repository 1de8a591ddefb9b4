"""Sorted runs merged in one task, without Spark, against sorting everything at once. Catches: rows that come before their time, lost blobs."""

from __future__ import annotations

import decimal
import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

from streamtime.udfs.arrays.blobs import Packer
from streamtime.udfs.arrays.ordering import By, one, sorted_rows
from streamtime.udfs.suppress import merging
from streamtime.udfs.suppress.merging import DATA, FIRST, Merging

SOME: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [*range(-50, 50), 2**62, -(2**62)]),
    "byte": (pa.int8(), [-128, 0, 1, 127]),
    "time": (pa.timestamp("us", "UTC"), [*range(-40, 40)]),
    "day": (pa.date32(), [*range(-9, 9)]),
    "flag": (pa.bool_(), [True, False]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, float("inf"), float("-inf"), float("nan")]),
    "float": (pa.float32(), [0.0, 0.1, -0.1, float("nan")]),
    "decimal": (
        pa.decimal128(38, 3),
        [decimal.Decimal(n) / 8 for n in range(-20, 20)] + [decimal.Decimal(10**30), decimal.Decimal(10**30 + 1)],
    ),
    "text": (pa.string(), ["", "a", "b", "ab", "abcdefgh", "abcdefghi", "abcdefghj", "ä", "\x00", "é"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff", b"\xff\xff", b"a"]),
}


@pytest.mark.parametrize("seed", range(120))
def test_merged_runs_are_the_rows_in_processing_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    monkeypatch.setattr(merging, "BLOB_ROWS", random_.choice([1, 3, 16]))
    monkeypatch.setattr(merging, "FEWEST_ROWS", random_.choice([1, 10, 50]))
    kind, values = SOME[random_.choice(list(SOME))]
    count = random_.choice([0, 1, 30, 200])
    table = pa.table(
        {
            "first": pa.array([random_.choice([None, *values, *values]) for _ in range(count)], kind),
            "second": pa.array([random_.randint(0, 3) for _ in range(count)], pa.int32()),
            "id": pa.array(range(count), pa.int64()),
        }
    )
    order = (By("first", random_.random() < 0.7, random_.random() < 0.5), By("second", random_.random() < 0.5))
    call = Merging(order, (By("id"),))
    packer = Packer(call, random_.choice([5, 40, 1000]), merging.RUN_BYTES)
    blobs: list[pa.RecordBatch] = []
    edges = sorted([0, count, *(random_.randint(0, count) for _ in range(random_.randint(0, 4)))])
    for start, stop in itertools.pairwise(edges):
        blobs += packer.pack(iter(table.slice(start, stop - start).to_batches(max_chunksize=7)))
    blobs.sort(key=lambda b: b.column(FIRST)[0].as_py())
    assert all(b.schema.names == [FIRST, DATA] for b in blobs)
    got = [i for merged in call.merge(iter(blobs)) for i in merged.column("id").to_pylist()]
    assert got == table.column("id").take(pa.array(sorted_rows([], order, [By("id")], table))).to_pylist() if count else got == []


@pytest.mark.parametrize("name", list(SOME))
@pytest.mark.parametrize("ascending", [True, False])
def test_a_rows_number_never_falls_where_the_order_rises(name: str, ascending: bool) -> None:
    kind, values = SOME[name]
    table = pa.table({"v": pa.array([*values, None], kind)})
    by = By("v", ascending)
    ordered = table.take(pa.array(sorted_rows([], [by], [], table)))
    numbers = merging.number(one(ordered, "v"), by)
    assert (numbers[1:] >= numbers[:-1]).all()
