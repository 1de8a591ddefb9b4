"""AS_OF_JOIN of two streams as a stream's workers do it, without Spark, against lookups in all that ever came: both sides cut into micro-batches
at random. Catches: a version forgotten before who needs it came, a row released twice or never, an answer that hangs on how state was packed.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from support.inputs.micro_batches import KEYS, MOMENT, STEP, MeetingStream, cut_up, moment

from streamtime.sql.stream.meeting import Meeting
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.as_of_stream import AsOf
from streamtime.udfs.state import LIVES_BY, Entries, Slices

FIRST = {"a": -(1 << 62), "b": 1 << 62, "c": 1 << 62, None: 1 << 61}
SECOND = {"a": 1, "b": 1, "c": 2, None: 0}
KINDS = {"t": MOMENT, "right": pa.bool_(), "l": pa.int64(), "r": pa.int64(), "gone": pa.bool_(), "version": pa.int64()}
Row = dict[str, Any]


def table(rows: list[Row]) -> pa.Table:
    made = {name: pa.array([r[name] for r in rows], kind) for name, kind in KINDS.items()}
    made |= {
        name: pa.array([of[r["k"]] for r in rows], pa.int64()) for name, of in {KEY_HASH: FIRST, KEYS[0]: FIRST, KEYS[1]: SECOND}.items()
    }
    return pa.table(made | {ASIDE: pa.array([-1] * len(rows), pa.int32())})


def meetings(**more: Any) -> AsOf:
    given = {
        "time": "t",
        "is_right": "right",
        "deleted": "gone",
        "left": ("l",),
        "right": ("r", "gone", "version"),
        "order": (By("version"),),
        "ties": (By("r"),),
    }
    return AsOf(**given | more)


def some_rows(rng: random.Random, disorder: int) -> list[Row]:
    rows = []
    for i in range(rng.randint(1, 90)):
        right = rng.random() < 0.5
        t = rng.choice([*[(100 + i // 2 + rng.randint(-disorder, disorder)) * STEP] * 40, -62_000_000_000_000_000])
        rows.append({
            "k": rng.choice("abc"), "t": t, "right": right, "l": None if right else i, "r": i if right else None,
            "gone": rng.choice([None, False, False, True]) if right else None, "version": rng.choice([None, 0, 1]) if right else None,
        })  # fmt: skip
        if not right and rng.random() < 0.1:
            rows[-1] |= {"t": None, "k": rng.choice([None, "a"])}
    return rows


def slow(batches: list[tuple[list[Row], int | None]], how: AsOf) -> list[Counter[Any]]:
    """All right rows are remembered; what leaves of each micro-batch."""
    versions: dict[tuple[str, int], Row] = {}
    waiting: list[Row] = []
    answer = []
    for some, watermark in batches:
        oldest = None if watermark is None else watermark - how.retention
        newest = {
            key: max([*(t for k, t in versions if k == key), *(r["t"] for r in some if r["right"] and r["k"] == key)], default=None)
            for key in "abc"
        }
        for row in some:
            if row["right"] and (oldest is None or row["t"] >= oldest or (how.wall and row["t"] == newest[row["k"]])):
                at = (row["k"], row["t"])
                both = sorted(
                    [row, *([versions[at]] if at in versions else [])], key=lambda r: (r["version"] is not None, r["version"] or 0, r["r"])
                )
                versions[at] = both[0 if how.first else -1]
        out: Counter[Any] = Counter()
        fresh = [row for row in some if not row["right"]]
        stays = []
        for is_new, row in [*((False, r) for r in waiting), *((True, r) for r in fresh)]:
            if row["t"] is None:
                out[row["l"], None, False] += 1
                continue
            if watermark is None or row["t"] > watermark - how.grace:
                stays.append(row)
                continue
            of_key = sorted((v for (k, _), v in versions.items() if k == row["k"]), key=lambda v: v["t"])
            before = [v for v in of_key if (v["t"] <= row["t"] if how.exact else v["t"] < row["t"])]
            found = before[-1] if before else None
            hidden = False
            if is_new and oldest is not None and row["t"] < oldest and (found is None or found is not of_key[-1]):
                ends = [*(v["t"] for v in of_key[1:]), *(v["t"] if v["gone"] else 10**18 for v in of_key[-1:])]
                hidden, found = any(end >= oldest for end in ends), None
            out[row["l"], None if found is None or found["gone"] else found["r"], hidden] += 1  # a deletion is no match
        waiting = stays
        answer.append(out)
    return answer


def clocked(rng: random.Random, batches: list[list[Row]]) -> list[tuple[list[Row], int | None]]:
    found: list[tuple[list[Row], int | None]] = []
    watermark: int | None = None
    for rows in batches:
        found.append((rows, watermark))
        if rng.random() < 0.7:
            watermark = max([watermark or 0, *(r["t"] for r in rows if r["t"] is not None)]) or None
    return [*found, ([], 10**6 * STEP)]


def streamed(batches: list[tuple[list[Row], int | None]], how: AsOf) -> tuple[list[Counter[Any]], MeetingStream]:
    stream = MeetingStream(Meeting("F", how, KEYS, {}, "t"))
    found = []
    for rows, watermark in batches:
        out = stream.run(table(rows), watermark or 0)
        assert all((r["r"] is not None) == r["has_version"] for r in out)
        found.append(Counter((r["l"], None if r["gone"] else r["r"], r["expired"]) for r in out))
    return found, stream


@pytest.mark.parametrize("seed", range(150))
def test_rows_meet_what_came_until_they_were_due(seed: int) -> None:
    rng = random.Random(seed)
    grace = rng.choice([0, 0, 3, 10]) * STEP
    how = meetings(grace=grace, retention=grace + rng.choice([0, 1, 5, 30]) * STEP, exact=rng.random() < 0.7, first=rng.random() < 0.3)
    batches = clocked(rng, cut_up(rng, some_rows(rng, rng.choice([2, 12]))))
    found, stream = streamed(batches, how)
    assert found == slow(batches, how)
    assert sum(map(sum, (c.values() for c in found))) == sum(not r["right"] for rows, _ in batches for r in rows)
    assert stream.counts["input_rows"] == sum(len(rows) for rows, _ in batches)


@pytest.mark.parametrize("seed", range(100))
def test_by_the_clock_on_the_wall_the_newest_version_is_never_too_old(seed: int) -> None:
    """However long it was on its way. A deletion that is forgotten is not known to be newer, so there is none here."""
    rng = random.Random(f"wall {seed}")
    how = meetings(grace=0, retention=rng.choice([0, 1, 5]) * STEP, exact=rng.random() < 0.7, first=rng.random() < 0.3, wall=True)
    rows = [row | ({"gone": False} if row["right"] else {}) for row in some_rows(rng, 12)]
    batches = clocked(rng, cut_up(rng, rows))
    found, stream = streamed(batches, how)
    assert found == slow(batches, how)
    plain, other = streamed(batches, dataclasses.replace(how, wall=False))
    assert stream.counts["right_too_old_total"] <= other.counts["right_too_old_total"]
    assert sum(map(sum, (c.values() for c in found))) == sum(map(sum, (c.values() for c in plain)))


def test_after_an_outage_longer_than_retention_rows_meet_the_version_that_came_during_it() -> None:
    stream = MeetingStream(Meeting("F", meetings(grace=5 * STEP, retention=60 * STEP, wall=True), KEYS, {}, "t", wall=True))
    right = {"k": "a", "t": 1000 * STEP, "right": True, "l": None, "r": 1, "gone": False, "version": 0}
    left = right | {"right": False, "r": None}
    stream.run(table([right]), 1001 * STEP)
    late = [right | {"t": t * STEP, "r": t} for t in (1050, 1040)] + [right | {"k": "b", "t": 1045 * STEP, "r": 3, "gone": True}]
    assert stream.run(table([*late, left | {"t": 1060 * STEP, "l": 1}]), 1200 * STEP)[0]["r"] == 1050
    stream.run(table([right | {"t": 1049 * STEP, "r": 4}]), 1200 * STEP)
    assert stream.run(table([left | {"t": 1201 * STEP, "l": 2}, left | {"k": "b", "t": 1201 * STEP, "l": 3}]), 1202 * STEP) == []
    assert {r["l"]: (r["r"], r["expired"]) for r in stream.run(table([]), 1210 * STEP)} == {2: (1050, False), 3: (None, False)}
    assert stream.counts["right_too_old_total"] == 2  # there was a newer one


@pytest.mark.parametrize("seed", range(60))
def test_the_result_is_that_of_complete_history_however_the_rows_are_cut(seed: int) -> None:
    """If no right row is later than `grace`, and no left row than `retention`, which lets deletions and old versions go."""
    rng = random.Random(f"cut {seed}")
    rows = [r for r in some_rows(rng, 4) if r["t"] is None or r["t"] > 0]
    how = meetings(grace=16 * STEP, retention=rng.choice([16, 20]) * STEP)
    results = []
    for _ in range(2):
        found, _ = streamed(clocked(rng, cut_up(rng, rows)), how)
        results.append(sum(found, Counter[Any]()))
    complete = sum(slow([(rows, None), ([], 10**6 * STEP)], how), Counter[Any]())
    assert results[0] == results[1] == complete


def test_state_keeps_the_newest_version_and_no_deletion() -> None:
    how = meetings(grace=STEP, retention=5 * STEP)
    stream = MeetingStream(Meeting("F", how, KEYS, {}, "t"))
    row = {"k": "a", "t": 10 * STEP, "right": True, "l": None, "r": 1, "gone": False, "version": 0}
    stream.run(table([row, row | {"t": 12 * STEP, "r": 2}]), 0)
    stream.run(table([]), 100 * STEP)
    assert [r["r"] for r in stream.run(table([row | {"t": 98 * STEP, "right": False, "l": 1, "r": None}]), 100 * STEP)] == [2]
    stream.run(table([row | {"t": 99 * STEP, "gone": True}]), 100 * STEP)
    assert stream.held()
    stream.run(table([]), 106 * STEP)
    assert not stream.held()
    assert stream.counts["right_too_old_total"] == 0
    assert stream.run(table([row]), 106 * STEP) == []
    assert (stream.counts["right_too_old_total"], stream.held()) == (1, False)


def test_what_is_dead_is_no_match_though_its_slice_lives() -> None:
    """`b` and `c` share a bucket. All of `b` is dead, the newest a deletion; the newest of `c` lives for ever."""
    stream = MeetingStream(Meeting("F", meetings(grace=0, retention=5 * STEP), KEYS, {}, "t"))
    right = {"k": "b", "t": 10 * STEP, "right": True, "l": None, "r": 1, "gone": False, "version": 0}
    left = right | {"t": 11 * STEP, "right": False, "r": None, "gone": None, "version": None}
    stream.run(table([right, right | {"t": 12 * STEP, "r": 2, "gone": True}, right | {"k": "c", "r": 3}]), 0)
    (found,) = stream.run(table([left | {"l": 1}]), 100 * STEP)
    assert (found["l"], found["r"], found["expired"]) == (1, None, False)
    assert [r["r"] for r in stream.run(table([left | {"l": 2, "k": "c"}]), 100 * STEP)] == [3]


def test_what_is_dead_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    put, written = Slices.put, list[int]()

    def counted(slices: Slices, entries: Entries, threshold: int) -> None:
        assert (entries.matrix[LIVES_BY] >= threshold).all()
        written.append(len(entries))
        put(slices, entries, threshold)

    monkeypatch.setattr(Slices, "put", counted)
    stream = MeetingStream(Meeting("F", meetings(grace=0, retention=5 * STEP), KEYS, {}, "t"))
    right = {"k": "c", "t": 0, "right": True, "l": None, "r": 1, "gone": False, "version": 0}
    for i in range(100, 120):
        stream.run(table([right | {"t": i * STEP, "r": i}]), (i - 1) * STEP)
    assert max(written) == 8


def test_the_clock_on_the_wall_lets_rows_go_and_stream_time_never_goes_back() -> None:
    stream = MeetingStream(Meeting("F", meetings(grace=5 * STEP, retention=50 * STEP), KEYS, {}, "t", wall=True))
    right = {"k": "a", "t": 100 * STEP, "right": True, "l": None, "r": 1, "gone": False, "version": 0}
    left = right | {"right": False, "l": 2, "r": None}
    assert stream.run(table([right, left]), 104 * STEP) == []  # the clock says 104
    assert [(r["l"], r["r"]) for r in stream.run(table([]), 105 * STEP)] == [(2, 1)]
    assert [r["l"] for r in stream.run(table([left | {"l": 3}]), 90 * STEP)] == [3]  # set back: it is 105 still
    assert stream.run(table([left | {"l": 4, "t": 101 * STEP}]), 90 * STEP) == []
    assert stream.run(table([]), 105 * STEP) == []
    assert [r["l"] for r in stream.run(table([]), 106 * STEP)] == [4]


def test_moments_are_micros() -> None:
    """The reference and the kernel speak of the same times, also before 1970."""
    assert (
        moment(table([{**dict.fromkeys(KINDS), "k": "a", "t": -62_000_000_000_000_000, "right": True}])["t"][0].as_py())
        == -62_000_000_000_000_000
    )
