"""Numbers that compare as Spark compares the values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamtime.udfs.arrays.ordering import ordinals


def test_a_struct_whose_fields_are_never_null_may_be_null_itself() -> None:
    """As one that Spark made of constants: where it is null, so are its fields."""
    values = pa.array([2, 1, None, 2], pa.int32())
    for _ in range(2):
        values = pa.StructArray.from_arrays([values], fields=[pa.field("a", values.type, nullable=False)], mask=pc.is_null(values))
        numbers = ordinals(values)
        assert numbers[0] == numbers[3] > numbers[1]
