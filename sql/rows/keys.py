"""The columns by which a kernel tells keys apart (`streamtime.udfs.keys`): integers, times and booleans as they are, anything else as a
digest that nobody can make equal for two keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import as_text
from streamtime.sql.syntax.text import one_to_one, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

COUNTED = (T.BooleanType, T.IntegralType, T.DateType, T.TimestampType, T.TimestampNTZType)


def told_apart(identity: Sequence[str], schema: T.StructType, role: str = "key") -> dict[str, Column]:
    """The columns, by name, beside all others. `identity` are names of columns that compare as `columns.equality` has them."""
    if counted(identity, schema):
        return {f"{PREFIX}{role}_{i}": named(name) for i, name in enumerate(identity)}
    return {f"{PREFIX}{role}_0": digest(identity, schema)}


def counted(identity: Sequence[str], schema: T.StructType) -> bool:
    """Whether the kernel takes these columns as they are."""
    return all(isinstance(schema[name].dataType, COUNTED) for name in identity)


def digest(identity: Sequence[str], schema: T.StructType) -> Column:
    """The digest of these columns."""
    text = one_to_one([as_text(quoted(name), schema[name].dataType) for name in identity])
    return expression(f"unhex(sha2({text}, 256))")
