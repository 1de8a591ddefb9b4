"""Where groups begin, in rows that come in batches."""

from __future__ import annotations

import itertools

import pyarrow as pa

from streamtime.udfs.arrays import groups


def test_a_null_equals_a_null_and_nothing_else() -> None:
    values = [None, "", "a"]
    for left, right in itertools.product(values, values):
        assert groups.differs(pa.array([left], pa.string()), pa.array([right], pa.string())).tolist() == [left is not right], (left, right)


def test_a_group_goes_on_over_batches_also_one_of_nulls() -> None:
    rows = [(None, 1), (None, 1), (None, None), (None, None), ("a", None), ("a", None), ("a", 0)]
    for cut in range(len(rows) + 1):
        boundaries, starts = groups.Boundaries(), list[bool]()
        for part in (rows[:cut], rows[cut:]):
            if part:
                columns = [pa.array([r[0] for r in part], pa.string()), pa.array([r[1] for r in part], pa.int64())]
                starts += boundaries.starts(columns, len(part)).tolist()
        assert starts == [True, False, True, False, True, False, True], cut
