"""The first stream time at or above each close, against a search through all. Catches: a stream time with the number of a close, runs of equal
ones, what is carried over batches, tasks without stream times, and the ends of BIGINT."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from streamtime.udfs.arrays.groups import HIGHEST, LOWEST
from streamtime.udfs.release import NextStreamTime

FAR = (LOWEST, LOWEST + 1, LOWEST + 2, -1, 0, 1, HIGHEST - 1, HIGHEST)


def run(numbered: list[tuple[int, bool]], length: int) -> list[int | None]:
    """What each close gets, of rows (number, whether it is a stream time), in batches of so many rows."""
    parts = [numbered[at : at + length] for at in range(0, len(numbered), length)]
    batches = [
        (
            pa.array([n if is_time else None for n, is_time in part], pa.int64()),
            pa.array([None if is_time else n + 1 for n, is_time in part], pa.int64()),
        )
        for part in parts
    ]
    made = [value for batch in NextStreamTime().run(iter(batches)) for value in batch.to_pylist()]
    return [value for value, (_, is_time) in zip(made, numbered, strict=True) if not is_time]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_each_close_gets_the_smallest_at_or_above_it(seed: int, length: int) -> None:
    chance = random.Random(seed)
    values = FAR if seed % 4 == 3 else range(chance.choice([3, 10, 100]))
    times = [chance.choice(values) for _ in range(chance.randrange(60))]
    closes = [max(chance.choice(values), LOWEST + 1) for _ in range(60)]
    numbered = [(t, True) for t in times] + [(c - 1, False) for c in closes]
    chance.shuffle(numbered)  # rows of one number in any order
    numbered.sort(key=lambda row: -row[0])
    wanted = [min((t for t in times if t > number), default=None) for number, is_time in numbered if not is_time]
    assert run(numbered, length) == wanted


def test_no_rows_and_no_stream_times() -> None:
    assert run([], 1) == []
    assert run([(5, False), (4, False)], 1) == [None, None]
    nothing = pa.array([], pa.int64())
    assert [batch.to_pylist() for batch in NextStreamTime().run(iter([(nothing, nothing)]))] == [[]]
