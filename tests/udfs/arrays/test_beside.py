"""A kernel's result beside its rows: whatever it takes ahead, each batch keeps its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from streamtime.udfs.arrays.beside import Beside


@dataclass(frozen=True)
class Doubled:
    ahead: int = 1
    lost: int = 0

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        held: list[pa.Array] = []
        for number, text in batches:
            assert text.type == pa.string()
            held.append(pa.array([2 * n.as_py() for n in number]))
            if len(held) >= self.ahead:
                yield held.pop(0)
        yield from held[self.lost :]


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"kept.": [f"row {n}" for n in numbers], "of_0": [*numbers], "of_1": [str(n) for n in numbers]})


@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_each_batch_gets_its_own_results(ahead: int) -> None:
    found = [*Beside(Doubled(ahead), "twice", 2).run(iter([batch(1, 2), batch(3), batch(4, 5, 6)]))]
    assert [b.schema.names for b in found] == [["kept.", "twice"]] * 3
    rows = [row for b in found for row in b.to_pylist()]
    assert rows == [{"kept.": f"row {n}", "twice": 2 * n} for n in range(1, 7)]


def test_rows_are_not_lost_without_a_word() -> None:
    with pytest.raises(AssertionError, match="fewer batches"):
        list(Beside(Doubled(9, lost=1), "twice", 2).run(iter([batch(1), batch(2)])))
