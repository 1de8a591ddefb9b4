"""SESSIONIZE on a stream, without Spark: rows that wait in the state, released once, with final bounds, however the input is cut.

Catches: rows lost or released twice, sessions closed too early or extended after their close, bounds that are not final, timers not set.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from support import reference
from support.inputs.micro_batches import KEYS, STEP, HoldingStream, Stream, cut_up, moment, plan, table
from support.reference import sessionize as reference_sessionize

from streamtime.sql.stream.buckets import REASON, STREAM_TIME, Holding
from streamtime.sql.stream.packing import ASIDE
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.sessions.steps import EDGES, SessionSteps
from streamtime.udfs.sessions.waiting_rows import SessionRows

KIND = pa.timestamp("us")
REASONS = ("null_time", "null_key")


class Waiting(HoldingStream):
    """A streaming query of which nothing but what was saved remains from micro-batch to micro-batch."""

    def __init__(self, gap: int, grace: int | None, order: str) -> None:
        plan = Holding(
            function="F", keys=KEYS, holder=SessionRows(gap, grace, "t", ("start", "end"), (REASON, STREAM_TIME)), options={"gap": str(gap)}, time="t",
            order=(By(order),), ties=(By("id"), By("t")), aside=REASONS, results=(("start", KIND), ("end", KIND)),
            output="all",
        )  # fmt: skip
        super().__init__(plan)


def given(rows: list[reference.Row]) -> pa.Table:
    aside = [1 if r["t"] is None else 2 if r["k"] is None else -1 for r in rows]
    return table(rows).drop_columns([ASIDE]).append_column(ASIDE, pa.array(aside, pa.int32()))


def some_batches(random_: random.Random, disorder: int) -> list[list[reference.Row]]:
    rows, pace = [], random_.choice([1, 2])
    for i in range(random_.randint(1, 60)):
        time = (i // pace + random_.randint(-disorder, disorder)) * STEP
        rows.append({"k": random_.choice([None, *"abcdd"]), "t": random_.choice([None, *[time] * 15]), "id": i})
    return cut_up(random_, rows)


def largest(rows: list[reference.Row], before: int) -> int:
    return max([before, *(r["t"] for r in rows if r["t"] is not None)])


@pytest.mark.parametrize("seed", range(110))
def test_rows_leave_with_the_bounds_that_the_slow_definition_says(seed: int) -> None:
    random_ = random.Random(seed)
    batches, order = some_batches(random_, random_.choice([0, 3, 8])), random_.choice(["t", "id"])
    gap, grace, delay = random_.choice([0, 2, 5]) * STEP, random_.choice([None, 0, 3 * STEP]), random_.choice([0, 0, 4]) * STEP
    clocked = reference.in_micro_batches(batches, [order], delay, STEP)
    expected = reference_sessionize.sessionize([], gap=gap, grace=grace, clocked=clocked, closing_grace=0)
    stream, seen, got = Waiting(gap, grace, order), reference.BEFORE, {}
    for rows in [*batches, [], []]:
        watermark = max(seen - delay, 0)
        for row in stream.run(given(random_.sample(rows, len(rows))), watermark):
            assert row["id"] not in got
            got[row["id"]] = (row[REASON], moment(row["start"]), moment(row["end"]), moment(row[STREAM_TIME]))
            if row[REASON] is None:  # it left because its session was closed, or is one of its own that came too late
                assert moment(row["end"]) < watermark - gap - (grace or 0)
        seen = largest(rows, seen)
        if rows == [] and seen < 10**9:
            seen = 10**9  # the watermark passes all
    assert {i: g[:3] for i, g in got.items()} == {j.row["id"]: (j.reason, *(j.final or (None, None))) for j in expected}
    assert all(got[j.row["id"]][3] == j.stream_time for j in expected if j.row["t"] is not None)
    assert stream.counts["late_drop_total"] == sum(j.reason == "late" for j in expected)
    assert not stream.held()


@pytest.mark.parametrize("seed", range(150))
def test_however_the_input_is_cut_the_sessions_are_those_of_batch_if_no_row_is_later_than_grace(seed: int) -> None:
    """C5 (a)."""
    random_ = random.Random(seed)
    gap, grace = random_.choice([0, 2, 5]) * STEP, random_.choice([0, 2, 6])
    rows = [r for b in some_batches(random_, grace // 2) for r in b]
    in_batch = reference_sessionize.sessionize(rows, gap=gap, grace=grace * STEP, order=["id"])
    finals = {j.row["id"]: (j.reason, *(j.final or (None, None))) for j in in_batch}
    assert not any(j.reason == "late" for j in in_batch)
    for _ in range(2):
        stream, seen, got = Waiting(gap, grace * STEP, random_.choice(["t", "id"])), 0, Counter[Any]()
        for batch in [*cut_up(random_, rows), []]:
            seen = seen if batch else 10**9
            got.update((r["id"], r[REASON], moment(r["start"]), moment(r["end"])) for r in stream.run(given(batch), seen))
            seen = largest(batch, seen)
        assert got == Counter((i, *f) for i, f in finals.items())


@pytest.mark.parametrize("seed", range(110))
def test_what_each_row_did_is_said_when_it_comes(seed: int) -> None:
    random_ = random.Random(seed)
    batches = some_batches(random_, random_.choice([0, 3, 8]))
    gap, grace, delay = random_.choice([0, 2, 5]) * STEP, random_.choice([None, 0, 3 * STEP]), random_.choice([0, 4]) * STEP
    clocked = reference.in_micro_batches(batches, ["t"], delay, STEP)
    expected = reference_sessionize.sessionize([], gap=gap, grace=grace, clocked=clocked, closing_grace=0)
    stream = Stream(plan(SessionSteps(gap, grace, close=True), aside=REASONS, results=EDGES))
    seen, got = reference.BEFORE, {}
    for rows in batches:
        for r in stream.run(given(random_.sample(rows, len(rows))), max(seen - delay, 0)):
            got[r["id"]] = (r[REASON], *(moment(r[edge]) for edge in EDGES))
        seen = largest(rows, seen)
    assert got == {j.row["id"]: (j.reason, *j.before, *(j.after or (None, None))) for j in expected}


def test_a_session_closes_when_the_watermark_has_passed_its_end_and_gap_and_grace_and_no_earlier() -> None:
    stream = Waiting(5 * STEP, 2 * STEP, "t")
    assert stream.run(given([{"k": "a", "t": 10 * STEP, "id": 0}]), 0) == []
    assert stream.run(given([]), 17 * STEP) == []
    assert [r["id"] for r in stream.run(given([]), 18 * STEP)] == [0]
    assert not stream.held()


def test_a_row_at_the_close_joins_and_one_that_comes_later_is_late_or_without_grace_a_session_of_its_own() -> None:
    for grace, after in ((0, ("late", None, None)), (None, (None, 11 * STEP, 11 * STEP))):
        stream = Waiting(5 * STEP, grace, "t")
        stream.run(given([{"k": "a", "t": 10 * STEP, "id": 0}]), 0)
        stream.run(given([{"k": "a", "t": 12 * STEP, "id": 1}]), 15 * STEP)
        assert [(r["id"], moment(r["end"])) for r in stream.run(given([]), 18 * STEP)] == [(0, 12 * STEP), (1, 12 * STEP)]
        (row,) = stream.run(given([{"k": "a", "t": 11 * STEP, "id": 2}]), 18 * STEP)
        assert (row[REASON], moment(row["start"]), moment(row["end"])) == after
