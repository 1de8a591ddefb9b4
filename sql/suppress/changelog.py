"""The rows that come to the buffer of suppress, and what it must know of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from streamtime.sql.rows.frame import Frame


@dataclass(frozen=True)
class Changelog:
    """Rows, the columns that tell their keys apart, and expressions over them."""

    frame: Frame
    identity: list[str]
    has_time: Column  # whether a row has a place in time; without, it never comes to the buffer
    deleted: Column | None  # whether a row is a tombstone; None: none is
    size: Column  # the bytes of a row
