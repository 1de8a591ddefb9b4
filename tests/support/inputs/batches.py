"""Rows cut into batches at random."""

from __future__ import annotations

import random

import pyarrow as pa

MOMENT = pa.timestamp("us")


def cut(random_: random.Random, columns: list[pa.Array]) -> list[tuple[pa.Array, ...]]:
    """The columns as batches of random lengths, some of them empty."""
    length, batches, at = len(columns[0]), [], 0
    while at < length:
        step = random_.choice([0, 1, 1, 2, 3, 7, length])
        batches.append(tuple(c.slice(at, step) for c in columns))
        at += step
    return batches
