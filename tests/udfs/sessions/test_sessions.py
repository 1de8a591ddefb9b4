"""Sessions without Spark: many keys at once against the slow definition. Catches: batches cut within a session, closing off by one, merges lost."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.inputs.batches import MOMENT, cut
from support.reference import Row
from support.reference import sessionize as reference_sessionize

from streamtime.udfs.arrays import groups
from streamtime.udfs.sessions.sessionize import Sessionize
from streamtime.udfs.sessions.steps import SessionSteps


def micros(at: Any) -> int | None:
    return None if at is None else int((np.datetime64(at, "us") - np.datetime64(0, "us")).astype(int))


def bounds(results: Iterable[pa.StructArray]) -> list[tuple[int, int] | None]:
    """The kernel's answer in microseconds, row by row."""
    found: list[tuple[int, int] | None] = []
    for batch in results:
        starts, ends = (batch.field(edge).cast(pa.int64()).to_pylist() for edge in ("start", "end"))
        found += [None if s is None else (s, e) for s, e in zip(starts, ends, strict=True)]
    return found


def some_rows(random_: random.Random) -> list[Row]:
    """Rows of a few keys, some in event-time order for a while, some far behind."""
    rows, spread = [], random_.choice([8, 30, 100])
    disorder = random_.choice([0, 1, 5, spread])
    for i in range(random_.randint(1, 60)):
        time = i * spread // 30 + random_.randint(-disorder, disorder)
        rows.append({"k": random_.choice("aaabbc"), "t": time, "p": random_.randint(0, 1), "id": i})
    return rows


@pytest.mark.parametrize("seed", range(300))
def test_many_keys_at_once_equal_the_slow_definition(seed: int) -> None:
    random_ = random.Random(seed)
    rows, gap = some_rows(random_), random_.choice([0, 1, 2, 5])
    grace, clock_by = random_.choice([None, 0, 1, 4, 20]), random_.choice([[], [], ["k"], ["p"]])
    expected = reference_sessionize.sessionize(rows, gap=gap, grace=grace, order=["id"], clock_by=clock_by)
    expected.sort(key=lambda j: j.row["k"])  # stable
    hashed = random_.random() < 0.3 and clock_by != ["p"]
    hashes = {"a": 0, "b": 0, "c": random_.randint(0, 1)}  # some keys share a hash, and their rows mix
    if hashed:
        expected.sort(key=lambda j: (hashes[j.row["k"]], j.stream_time))
    columns = [pa.array([j.row["t"] for j in expected], MOMENT), pa.array([j.stream_time for j in expected], MOMENT)]
    columns += [pa.array([hashes[j.row["k"]] for j in expected], pa.int32())] if hashed else []
    columns.append(pa.array([j.row["k"] for j in expected], pa.string()))
    kernel = Sessionize(gap, groups.HIGHEST if grace is None else grace, has_stream_time=True, hashed=hashed)
    assert bounds(kernel.run(iter(cut(random_, columns)))) == [j.final for j in expected], (gap, grace, clock_by, hashed)


@pytest.mark.parametrize("seed", range(300))
def test_rows_in_event_time_order_need_no_clock(seed: int) -> None:
    random_ = random.Random(seed)
    rows, gap = some_rows(random_), random_.choice([0, 1, 2, 5])
    expected = reference_sessionize.sessionize(rows, gap=gap, grace=None)
    expected.sort(key=lambda j: j.row["k"])
    columns = [pa.array([j.row["t"] for j in expected], MOMENT), pa.array([j.row["k"] for j in expected])]
    assert bounds(Sessionize(gap).run(iter(cut(random_, columns)))) == [j.final for j in expected]


@pytest.mark.parametrize("seed", range(300))
def test_what_each_row_did_when_it_came(seed: int) -> None:
    random_ = random.Random(seed)
    rows, gap, grace = some_rows(random_), random_.choice([0, 1, 5]), random_.choice([None, 0, 1, 4, 20])
    expected = reference_sessionize.sessionize(rows, gap=gap, grace=grace, order=["id"])
    expected.sort(key=lambda j: j.row["k"])
    columns = [pa.array([j.row["t"] for j in expected], MOMENT), pa.array([j.stream_time for j in expected], MOMENT)]
    columns.append(pa.array([j.row["k"] for j in expected]))
    got = [step for batch in SessionSteps(gap, grace).run(iter(cut(random_, columns))) for step in batch.to_pylist()]
    assert [outcome(g) for g in got] == [j.outcome for j in expected]
    assert [(micros(g["start"]), micros(g["end"])) for g in got] == [j.after for j in expected]
    assert all(j.merged <= 2 for j in expected)
    before = [(micros(g["was_start"]), micros(g["was_end"])) for g in got]
    assert before == [j.before for j in expected]


def outcome(step: dict[str, Any]) -> str:
    if step["late"] or step["was_start"] is None:
        return "late" if step["late"] else "opened"
    return "merged" if step["was_start"] > step["was_end"] else "joined"


def test_rows_wait_for_the_end_of_their_session_and_no_longer() -> None:
    def batches() -> Iterator[tuple[pa.Array, ...]]:
        for number, times in enumerate(([0, 1], [2, 3], [90, 91], [92], [200])):
            taken.append(number)
            yield pa.array(times, MOMENT), pa.array(["k"] * len(times))

    taken: list[int] = []
    results = Sessionize(10).run(batches())
    assert bounds([next(results)]) == [(0, 3)] * 2
    assert taken == [0, 1, 2]
    assert bounds([next(results)]) == [(0, 3)] * 2
    assert bounds([next(results)]) == [(90, 92)] * 2
    assert taken == [0, 1, 2, 3, 4]
    assert bounds(results) == [(90, 92), (200, 200)]


def test_one_session_without_end_needs_next_to_nothing_for_each_row() -> None:
    count, size = 2_000_000, 10_000
    batches = ((pa.array(np.arange(at, at + size), MOMENT), pa.array(["k"] * size)) for at in range(0, count, size))
    tracemalloc.start()
    results = Sessionize(1).run(batches)
    assert bounds([next(results).slice(0, 1)]) == [(0, count - 1)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < count + 2_000_000


def test_durations_without_end_do_not_wrap_round() -> None:
    far = groups.HIGHEST // 2
    columns = [pa.array([-far, far, 0], MOMENT), pa.array([far, far, far], MOMENT), pa.array(["k"] * 3)]
    for grace in (groups.HIGHEST, groups.HIGHEST - 1):
        assert bounds(Sessionize(groups.HIGHEST, grace, has_stream_time=True).run(iter([tuple(columns)]))) == [(-far, far)] * 3
