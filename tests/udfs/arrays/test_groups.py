"""Where groups begin, in rows that come in batches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa

from streamtime.udfs.arrays import groups


def test_a_null_equals_a_null_and_nothing_else() -> None:
    values = [None, "", "a"]
    for left, right in itertools.product(values, values):
        assert groups.differs(pa.array([left], pa.string()), pa.array([right], pa.string())).tolist() == [left is not right], (left, right)


def test_structs_arrays_and_nan_differ_as_their_values_do() -> None:
    kind = pa.struct([("a", pa.list_(pa.struct([("x", pa.float64()), ("s", pa.string())]))), ("b", pa.int64())])
    items: list[Any] = [None, {"x": None, "s": "u"}, {"x": math.nan, "s": None}, {"x": 1.0, "s": "u"}, {"x": 1.0, "s": "v"}]
    lists: list[Any] = [None, [], *([i] for i in items), [items[2], items[3]], [items[2], items[4]], [items[2], None]]
    values = [None, *({"a": a, "b": b} for a in lists for b in (None, 1))]
    pairs = list(itertools.product(range(len(values)), repeat=2))
    left, right = (pa.array([values[p[i]] for p in [(0, 1), *pairs]], kind).slice(1) for i in (0, 1))
    assert groups.differs(left, right).tolist() == [a != b for a, b in pairs]
    assert groups.differs(left.slice(0, 0), right.slice(0, 0)).tolist() == []
    floats = pa.array([math.nan, math.nan, math.nan, 0.0, None]), pa.array([math.nan, 1.0, None, -0.0, None])
    assert groups.differs(*floats).tolist() == [False, True, True, False, False]


def test_a_group_goes_on_over_batches_also_one_of_nulls() -> None:
    rows = [(None, 1), (None, 1), (None, None), (None, None), ("a", None), ("a", None), ("a", 0)]
    for cut in range(len(rows) + 1):
        boundaries, starts = groups.Boundaries(), list[bool]()
        for part in (rows[:cut], rows[cut:]):
            if part:
                columns = [pa.array([r[0] for r in part], pa.string()), pa.array([r[1] for r in part], pa.int64())]
                starts += boundaries.starts(columns, len(part)).tolist()
        assert starts == [True, False, True, False, True, False, True], cut
