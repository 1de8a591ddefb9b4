"""JOIN_CHANGES and FILTER_CHANGES as a stream's workers do them, without Spark, against the letter of J7 and V8: random changelogs of both
sides, cut into micro-batches at random.

Catches: state that forgets a row or a deletion too early, that keeps one for ever, a change judged under the wrong watermark, numbers of
changes that start again in the next micro-batch.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from support.inputs.micro_batches import KEYS, MOMENT, STEP, HoldingStream, cut_up, moment

from streamtime.sql.stream.buckets import REASON, STREAM_TIME, Holding
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.changes.joined import JoinedChanges, Reported
from streamtime.udfs.changes.latest import LogColumns

FIRST = {"a": -(1 << 62), "b": 1 << 62, "c": 1 << 62, "d": 1 << 61}
SECOND = {"a": 1, "b": 1, "c": 2, "d": 1}  # half of the first number is shared by two keys
COLUMNS = ("k", "n", "t", "l", "r", "side", "alive", "id")
Row = dict[str, Any]


def table(rows: list[Row]) -> pa.Table:
    kinds = {
        "k": pa.string(),
        "n": pa.int64(),
        "t": MOMENT,
        "l": pa.string(),
        "r": pa.string(),
        "side": pa.int8(),
        "alive": pa.bool_(),
        "id": pa.int64(),
    }
    made = {name: pa.array([r[name] for r in rows], kind) for name, kind in kinds.items()}
    numbers = {KEY_HASH: FIRST, KEYS[0]: FIRST, KEYS[1]: SECOND}
    made |= {name: pa.array([of[r["k"]] for r in rows], pa.int64()) for name, of in numbers.items()}
    return pa.table(made | {ASIDE: pa.array([-1] * len(rows), pa.int32())})


def some_changes(rng: random.Random, sides: int) -> list[list[Row]]:
    """Places rise, with ties; times rise, with disorder, and lie far off now and then."""
    rows, n = [], 0
    for i in range(rng.randint(1, 70)):
        n += rng.choice([0, 1, 1])
        side = rng.randrange(sides)
        t = rng.choice([*[(i // 2 + rng.randint(-8, 8)) * STEP] * 40, -62_000_000_000_000_000, 253_000_000_000_000_000])
        alive = rng.random() < 0.6
        value = None if rng.random() < 0.1 else f"{i}"
        rows.append(
            {
                "k": rng.choice("abcd"),
                "n": n,
                "t": t,
                "l": None if side else value,
                "r": value if side else None,
                "side": side,
                "alive": alive,
                "id": i,
            }
        )
    return cut_up(rng, rows)


def slow(
    batches: list[tuple[list[Row], int | None]], join: str, versioned: list[bool], retention: int | None, always: bool
) -> list[list[Any]]:
    """Change by change; what leaves of each micro-batch, and what is ignored."""
    rows: dict[tuple[int, str], Row] = {}  # the last change of a side that applied
    left: dict[str, tuple[int, int]] = {}  # the place of a key's last change that left, and how many left there
    answer = []

    def there(k: str) -> bool:
        have = [(side, k) in rows and rows[side, k]["alive"] for side in range(len(versioned))]
        return have[0] if join == "left" else all(have) if join == "inner" else any(have)

    for some, watermark in batches:
        oldest = None if watermark is None else watermark - (retention or 0)
        for key in [key for key, row in rows.items() if oldest is not None and row["t"] < oldest]:
            if not rows[key]["alive"] and not (versioned[key[0]] and retention is None):
                del rows[key]
        left = {k: v for k, v in left.items() if any((side, k) in rows for side in range(len(versioned)))}
        out = []
        for row in sorted(some, key=lambda r: (r["n"], r["side"], r["t"], r["id"])):
            k, side, t = row["k"], row["side"], row["t"]
            if versioned[side] and retention is not None and oldest is not None and t < oldest:
                out.append((row["id"], "too_old"))
            elif versioned[side] and (side, k) in rows and t < rows[side, k]["t"]:
                out.append((row["id"], "out_of_order"))
            else:
                had = there(k)
                rows[side, k] = row
                other = rows.get((1 - side, k))
                if there(k) or had or always:
                    seq = left[k][1] if k in left and left[k][0] == row["n"] else 0
                    left[k] = (row["n"], seq + 1)
                    values = [
                        rows[s, k][name] if there(k) and (s, k) in rows and rows[s, k]["alive"] else None for s, name in enumerate("lr")
                    ]
                    at = max(t, other["t"]) if other and other["alive"] else t
                    out.append((row["id"], k, row["n"], *values, "upsert" if there(k) else "delete", at, seq))
        answer.append(out)
    return answer


def holder(join: str, versioned: list[bool], retention: int | None, output: str = "rows", **more: Any) -> JoinedChanges:
    log = LogColumns("t", "alive", "n", "side", ("l", "r"), tuple(versioned), tuple(versioned), retention)
    report = None if output == "rows" else Reported(COLUMNS, REASON, STREAM_TIME, output == "dropped")
    return JoinedChanges(
        **{
            "log": log,
            "carried": ("id", "k", "n"),
            "own": (("l",), ("r",)),
            "made": ("type", "at", "seq"),
            "join_type": join,
            "report": report,
        }
        | more
    )


def streamed(plan: JoinedChanges, output: str = "rows") -> HoldingStream:
    return HoldingStream(Holding("F", plan, KEYS, {}, "t", (By("n"), By("side")), (By("t"), By("id")), ("null_time",), (), output))


def clocked(rng: random.Random, batches: list[list[Row]]) -> list[tuple[list[Row], int | None]]:
    """Each micro-batch with the watermark under which it runs: it never falls, and lies behind what came before."""
    found: list[tuple[list[Row], int | None]] = []
    watermark = None
    for i, rows in enumerate(batches):
        found.append((rows, watermark))
        largest = max((r["t"] for some in batches[: i + 1] for r in some if r["t"] < 10**15), default=0)
        if rng.random() < 0.7 and largest > 0:
            watermark = max(watermark or 0, (largest - rng.choice([0, 0, 5 * STEP])) // STEP * STEP) or None
    return found


@pytest.mark.parametrize("seed", range(150))
def test_changes_of_a_stream_are_joined_as_defined(seed: int) -> None:
    rng = random.Random(seed)
    join = ("inner", "left", "outer")[seed % 3]
    versioned = [rng.random() < 0.5, rng.random() < 0.5]
    retention = rng.choice([None, 0, 3 * STEP, 12 * STEP]) if any(versioned) else None
    batches = clocked(rng, some_changes(rng, 2))
    expected = slow(batches, join, versioned, retention, False)
    stream = streamed(holder(join, versioned, retention))
    for (rows, watermark), meant in zip(batches, expected, strict=True):
        found = [
            (r["id"], r["k"], r["n"], r["l"], r["r"], r["type"], moment(r["at"]), r["seq"]) for r in stream.run(table(rows), watermark or 0)
        ]
        assert Counter(found) == Counter(m for m in meant if len(m) > 2)
    ignored = Counter(m[1] for meant in expected for m in meant if len(m) == 2)
    assert {n.removesuffix("_drop_total"): v for n, v in stream.counts.items() if n in stream.plan.holder.counts and v} == ignored


@pytest.mark.parametrize("output", ["dropped", "all"])
@pytest.mark.parametrize("seed", range(10))
def test_every_change_is_reported_with_the_reason_and_the_watermark(seed: int, output: str) -> None:
    rng = random.Random(f"report {seed}")
    batches = clocked(rng, some_changes(rng, 2))
    expected = slow(batches, "outer", [True, True], 3 * STEP, False)
    stream = streamed(holder("outer", [True, True], 3 * STEP, output), output)
    for (rows, watermark), meant in zip(batches, expected, strict=True):
        reasons = {m[0]: m[1] for m in meant if len(m) == 2}
        found = Counter((r["id"], r["l"], r["r"], r[REASON], moment(r[STREAM_TIME])) for r in stream.run(table(rows), watermark or 0))
        told = [r for r in rows if output == "all" or r["id"] in reasons]
        assert found == Counter((r["id"], r["l"], r["r"], reasons.get(r["id"]), watermark) for r in told)


@pytest.mark.parametrize("seed", range(30))
def test_what_a_change_did_is_told_with_what_it_met(seed: int) -> None:
    """Against the changes that come out of the same rows, and the rows of both sides before each of them."""
    rng = random.Random(f"told {seed}")
    join, versioned = ("inner", "left", "outer")[seed % 3], [rng.random() < 0.7, rng.random() < 0.7]
    batches = [(rows, None) for rows in cut_up(rng, [row for rows in some_changes(rng, 2) for row in rows])]
    report = Reported(COLUMNS, REASON, STREAM_TIME, False, ("had", "has", "same", "other", "newest"))
    stream = streamed(holder(join, versioned, None, "all", report=report), "all")
    last: dict[tuple[str, int], Row] = {}
    for (rows, _), meant in zip(batches, slow(batches, join, versioned, None, False), strict=True):
        made = {m[0]: m[1:] for m in meant}
        told = {r["id"]: r for r in stream.run(table(rows), 0)}
        for row in sorted(rows, key=lambda r: (r["n"], r["side"], r["t"], r["id"])):
            one, (mine, other) = told[row["id"]], (last.get((row["k"], side)) for side in (row["side"], 1 - row["side"]))
            assert one["newest"] is None if mine is None else moment(one["newest"]) == mine["t"]
            assert moment(one["other"]) == (other["t"] if other and other["alive"] else None)
            what = made.get(row["id"], ())
            if what == ("out_of_order",):
                continue
            last[row["k"], row["side"]] = row
            assert one["has"] == ("upsert" in what)
            assert one["had"] or "delete" not in what
            assert not (one["had"] and not what)


@pytest.mark.parametrize("seed", range(60))
def test_a_filter_on_a_stream_deletes_what_was_there(seed: int) -> None:
    rng = random.Random(f"filter {seed}")
    versioned, retention = seed % 2 == 1, rng.choice([None, 0, 4 * STEP])
    batches = clocked(rng, some_changes(rng, 1))
    log = LogColumns("t", "alive", "n", None, (), (versioned,), (False,), retention, passing=versioned)
    stream = streamed(holder("left", [False], None, log=log, own=((),), always=versioned, carried=("id", "k", "n", "l")))
    expected = slow_filter(batches, versioned, retention)
    for (rows, watermark), meant in zip(batches, expected, strict=True):
        found = [(r["id"], r["type"], moment(r["at"])) for r in stream.run(table(rows), watermark or 0)]
        assert Counter(found) == Counter(meant)
    gone = 253_100_000_000_000_000
    stream.run(table([]), gone)
    rows = [{"k": k, "n": 10**6, "t": gone, "l": None, "r": None, "side": 0, "alive": False, "id": 0} for k in "abcd"]
    stream.run(table(rows), gone)
    stream.run(table([]), gone + (retention or 0) + 2 * STEP)
    assert not stream.held()


def slow_filter(batches: list[tuple[list[Row], int | None]], versioned: bool, retention: int | None) -> list[list[Any]]:
    there: set[str] = set()
    answer = []
    for some, watermark in batches:
        out = []
        for row in sorted(some, key=lambda r: (r["n"], r["t"], r["id"])):
            if versioned and retention is not None and watermark is not None and row["t"] < watermark - retention:
                continue
            if row["alive"] or versioned or row["k"] in there:
                out.append((row["id"], "upsert" if row["alive"] else "delete", row["t"]))
            (there.add if row["alive"] else there.discard)(row["k"])
        answer.append(out)
    return answer


@pytest.mark.parametrize("retention", [None, 5 * STEP])
def test_deleted_keys_leave_the_state(retention: int | None) -> None:
    """A deletion is held until stream time has passed it, on a versioned side by `retention`; without one, for ever."""
    for versioned in ([False, False], [True, True]):
        stream = streamed(holder("outer", versioned, retention if versioned[0] else None))
        row = {"k": "a", "n": 1, "t": 10 * STEP, "l": "x", "r": None, "side": 0, "alive": True, "id": 1}
        stream.run(table([row, row | {"side": 1, "l": None, "r": "y"}]), 0)
        stream.run(table([]), 100 * STEP)
        assert stream.held()
        gone = [row | {"n": 2, "alive": False, "l": None, "t": 100 * STEP, "side": side} for side in (0, 1)]
        stream.run(table(gone), 100 * STEP)
        assert stream.held()
        stream.run(table([]), 106 * STEP)
        assert stream.held() == (versioned[0] and retention is None)


def test_no_rows() -> None:
    assert streamed(holder("inner", [False, False], None)).run(table([]), 0) == []
