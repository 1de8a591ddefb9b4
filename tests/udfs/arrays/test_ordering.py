"""Numbers that compare as Spark compares the values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamtime.udfs.arrays.ordering import By, ordinals, sorted_rows


def test_a_struct_whose_fields_are_never_null_may_be_null_itself() -> None:
    """As one that Spark made of constants: where it is null, so are its fields."""
    values = pa.array([2, 1, None, 2], pa.int32())
    for _ in range(2):
        values = pa.StructArray.from_arrays([values], fields=[pa.field("a", values.type, nullable=False)], mask=pc.is_null(values))
        numbers = ordinals(values)
        assert numbers[0] == numbers[3] > numbers[1]


def test_both_zeros_are_equal_until_all_else_is() -> None:
    """Then -0.0 comes first, as in Spark's text for it; NaN has no sign, and a null has nothing to tell."""
    nan, other = float("nan"), np.copysign(float("nan"), -1)
    plain = pa.array([0.0, 1.0, -0.0, None, nan, other])
    lists = pa.array([[1.0, 0.0], [nan, 0.0], [1.0, -0.0], None, [1.0, None], [other, -0.0]])
    structs = pa.StructArray.from_arrays([lists], ["of"])
    table = pa.table({"plain": plain, "lists": lists, "structs": structs, "row": [5, 4, 3, 2, 1, 0]})
    for name, order in {"plain": [3, 2, 0, 1, 5, 4], "lists": [3, 4, 2, 0, 5, 1], "structs": [3, 4, 2, 0, 5, 1]}.items():
        assert sorted_rows([], [By(name)], [By(name, zeros=True), By("row")], table).tolist() == order
