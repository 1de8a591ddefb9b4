"""The first stream time at or above each close, against a search through all. Catches: a stream time with the number of a close, equal ones,
pieces of several tasks that overlap, what is carried over batches, ranges and tasks without stream times, and the ends of BIGINT."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from streamtime.udfs.arrays.groups import HIGHEST, LOWEST
from streamtime.udfs.release import NUMBER, RANGES, TIMES, NextStreamTime, Pieces

FAR = (LOWEST, LOWEST + 1, LOWEST + 2, -1, 0, 1, HIGHEST - 1, HIGHEST)
Row = tuple[int, bytes | None]  # the number to sort by, and a piece of stream times, or none: then it is a close


def run(rows: Sequence[Row], length: int) -> list[int | None]:
    """What each close gets, of rows in batches of so many."""
    parts = [rows[at : at + length] for at in range(0, len(rows), length)]
    batches = [
        (pa.array([p for _, p in part], pa.binary()), pa.array([n + 1 if p is None else None for n, p in part], pa.int64()))
        for part in parts
    ]
    made = [value for batch in NextStreamTime().run(iter(batches)) for value in batch.to_pylist()]
    return [value for value, (_, piece) in zip(made, rows, strict=True) if piece is None]


def pieces(times: Sequence[int | None], of: Sequence[int | None], each: int) -> Iterator[tuple[list[int], int, bytes]]:
    """What a task makes of its stream times, and of the range of each."""
    (made,) = Pieces(each)(pa.table({"range": pa.array(of, pa.int32()), "time": pa.array(times, pa.int64())}))
    yield from zip(*(made.column(name).to_pylist() for name in (RANGES, NUMBER, TIMES)), strict=True)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_each_close_gets_the_smallest_at_or_above_it(seed: int, length: int) -> None:
    chance = random.Random(seed)
    values = FAR if seed % 4 == 3 else range(chance.choice([3, 10, 100]))
    times = [chance.choice(values) for _ in range(chance.randrange(60))]
    ends = sorted(chance.choices(values, k=chance.randrange(5)))  # of ranges

    def of(value: int) -> int:
        return sum(end <= value for end in ends)

    tasks = chance.randint(1, 4)
    made = [
        piece
        for t in range(tasks)
        for piece in pieces([*times[t::tasks], None], [*map(of, times[t::tasks]), None], chance.choice([1, 3, 50]))
    ]
    closes = [max(chance.choice(values), LOWEST + 1) for _ in range(60)]
    together = chance.choice([1, 2, 9])  # ranges in a task
    for task in range(9):
        rows: list[Row] = [(c - 1, None) for c in closes if of(c) % together == task % together]
        rows += [(number, piece) for its, number, piece in made for i in its if i % together == task % together]
        chance.shuffle(rows)  # rows of one number in any order
        rows.sort(key=lambda row: -row[0])
        wanted = [min((t for t in times if t > number), default=None) for number, piece in rows if piece is None]
        assert run(rows, length) == wanted


@pytest.mark.parametrize("tasks", [1, 4])
def test_what_nothing_asks_for_any_more_is_not_held(tasks: int) -> None:
    """Else a task would hold all of its stream times, where few windows close. Seen by what it looks through, which is all that it holds:
    a batch's pieces, and of each task that sent some the one that lies across the batch's end."""
    times = np.arange(100_000, dtype=np.int64)
    made = [piece for t in range(tasks) for piece in pieces(times[t::tasks].tolist(), [0] * len(times[t::tasks]), 100)]
    made.sort(key=lambda piece: -piece[1])
    seen: list[int] = []
    search = np.searchsorted

    def counted(held: np.ndarray[tuple[int], np.dtype[np.int64]], *args: object, **more: object) -> object:
        seen.append(len(held))
        return search(held, *args, **more)  # type: ignore[call-overload]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "searchsorted", counted)
        run([(number, piece) for _, number, piece in made], 10)
    assert max(seen) <= (10 + tasks) * 100


def test_a_piece_is_sorted_has_each_time_once_and_no_more_than_it_may() -> None:
    assert [(its, number, np.frombuffer(piece, np.int64).tolist()) for its, number, piece in pieces([5, 3, 5, None, 4, 9], [1, 1, 1, None, 1, 3], 2)] == [
        ([0, 1], 3, [3]),  # range 0 has no times, so what closes there waits for the first of range 1
        ([1], 5, [4, 5]),
        ([1, 2, 3], 9, [9]),
    ]  # fmt: skip


def test_no_rows_and_no_stream_times() -> None:
    assert run([], 1) == []
    assert run([(5, None), (4, None)], 1) == [None, None]
    assert list(pieces([None], [None], 1)) == []
    nothing = pa.array([], pa.binary()), pa.array([], pa.int64())
    assert [batch.to_pylist() for batch in NextStreamTime().run(iter([nothing]))] == [[]]
