"""The rows of one group in memory, as numbers, and what is decided of them: for Python UDTFs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamtime.udfs.arrays.groups import Ints


@dataclass(frozen=True)
class Columns:
    """The rows of one group, in processing order, as numbers. A row's `reason` is set where it takes no part; '' passes."""

    times: Ints
    keys: Ints
    stream_time: Ints
    aside: list[str | None]
    offsets: pa.Array
    clocks: Ints
    changes: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Verdicts:
    """Which input rows come out, in which order, why not, and what else is known of them (in microseconds, null where masked)."""

    rows: Ints
    reasons: list[str | None]
    details: dict[str, list[Any]]
