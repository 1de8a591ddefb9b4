"""Lookups by order of arrival, without Spark, against the slow definition: any input, cut into batches anywhere.

Catches: a version that arrived later, a refused version that comes back, a tombstone passed over, an expired lookup that is answered,
a version lost where a batch ends, or called old there because of a row of another key; the ends of time.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from support.reference import as_of as slow

from streamtime.udfs.arrays import groups
from streamtime.udfs.as_of_join import EXPIRED, NO_MATCH, KnownAsOf

MOMENT = pa.timestamp("us")


@pytest.mark.parametrize("seed", range(300))
def test_each_row_sees_what_had_arrived(seed: int) -> None:
    random_ = random.Random(seed)
    count, spread = random_.choice([1, 2, 10, 60]), random_.choice([3, 10, 40])
    retention, exact = random_.choice([None, None, 0, 2, 10]), random_.choice([True, True, False])
    first = random_.choice([0, 0, groups.LOWEST, groups.HIGHEST - spread])
    rows = [
        {
            "k": random_.choice("aab"),
            "t": first + random_.randrange(spread),
            "o": o,
            "gone": random_.random() < 0.2,
            "right": random_.random() < 0.6,
        }
        for o in range(count)
    ]
    left, right = ([r for r in rows if r["right"] is side] for side in (False, True))
    found = {j.row["o"]: j for j in slow.known_as_of(left, right, retention=retention, exact=exact)}
    clock, sorted_rows = None, []
    for row in rows:
        if row["right"]:
            clock = row["t"] if clock is None else max(clock, row["t"])
        sorted_rows.append(row | {"clock": clock})
    sorted_rows.sort(key=lambda r: (r["k"], r["o"]))
    table = pa.table(
        [
            pa.array([r["right"] for r in sorted_rows]),
            pa.array([r["gone"] and r["right"] for r in sorted_rows]),
            pa.array([r["t"] for r in sorted_rows], MOMENT),
            pa.array([r["clock"] for r in sorted_rows], MOMENT),
            pa.array([r["k"] for r in sorted_rows]),
        ],
        list("abcde"),
    )
    size = random_.choice([1, 2, 3, 7, 100])
    batches = (tuple(b.columns) for b in table.to_batches(max_chunksize=size))
    numbers = [n for chunk in KnownAsOf(retention, exact).run(batches) for n in chunk.to_pylist()]
    by_number = {(r["k"], n): r["o"] for r, n in zip(sorted_rows, numbers, strict=True) if r["right"]}
    assert len(by_number) == len(right)
    for row, number in zip(sorted_rows, numbers, strict=True):
        if not row["right"]:
            expected = found[row["o"]]
            if expected.match is None:
                lost = expected.expired
                assert number == NO_MATCH if lost is None else by_number[row["k"], EXPIRED - number] == lost["o"], row
            else:
                assert by_number[row["k"], number] == expected.match["o"], row
