"""JOIN_CHANGES by a foreign key as a stream's workers do it, without Spark, against the letter of J8: three states, one behind the other, over
random changelogs of both sides, cut into micro-batches at random.

Catches: a left row that its old foreign key still tells of, one that is told of twice, a deletion that is forgotten too early, numbers of
changes that start again in the next micro-batch, a group that is held when nothing is left of it.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from support.inputs.micro_batches import KEYS, MOMENT, STEP, HoldingStream, cut_up, moment

from streamtime.sql.stream.buckets import HALVES, Holding
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.changes.latest import LogColumns
from streamtime.udfs.changes.references import Marks, References
from streamtime.udfs.changes.referring import Referring
from streamtime.udfs.changes.replaced import Replaced

Row = dict[str, Any]
TEXT, NUMBER, FLAG = pa.string(), pa.int64(), pa.bool_()
SIDE = {"id": NUMBER, "n": NUMBER, "t": MOMENT, "alive": FLAG}
LEFT = SIDE | {"k": TEXT, "v": TEXT, "fk": TEXT}
FLAGS = ("comes", "last", "moved", "number")
NUMBERS = {None: 1, "a": -(1 << 62), "b": 1 << 62, "c": 1 << 62, "x": 7, "y": 1 << 61, "z": 1 << 61}
SECOND = {None: 0, "a": 1, "b": 1, "c": 2, "x": 1, "y": 1, "z": 2}  # half of the first number is shared by two keys
BOTH = {"k": TEXT, "id": NUMBER, "n": NUMBER, "t": MOMENT, "v": TEXT, "w": TEXT}
AT_RIGHT = BOTH | {"fk": TEXT, "right": FLAG, "alive": FLAG, "comes": FLAG, "silent": FLAG, "names": FLAG, "number": NUMBER}
TOLD = BOTH | {"right": FLAG, "there": FLAG, "match": FLAG, "match_time": MOMENT, "event": NUMBER}


def table(rows: list[Row], kinds: dict[str, pa.DataType], key: str, told: str | None = None) -> pa.Table:
    made = {name: pa.array([r[name] for r in rows], kind) for name, kind in kinds.items()}
    made |= {name: pa.array([NUMBERS[r[key]] for r in rows], NUMBER) for name in (KEY_HASH, KEYS[0])}
    made |= {KEYS[1]: pa.array([SECOND[r[key]] for r in rows], NUMBER)}
    if told:
        made |= {"told_0": pa.array([NUMBERS[r[told]] for r in rows], NUMBER), "told_1": pa.array([SECOND[r[told]] for r in rows], NUMBER)}
    return pa.table(made | {ASIDE: pa.array([-1] * len(rows), pa.int32())})


class Joining:
    """The three states."""

    def __init__(self, join: str, versioned: tuple[bool, bool], retention: int | None) -> None:
        logs = [LogColumns("t", "alive", "n", None, held, (v,), (v,), retention) for held, v in zip((("fk",), ()), versioned, strict=True)]
        parts = Replaced(logs[0], ("k", "id", "n", "t", "v"), ("fk",), ("fk",), FLAGS)
        marks = Marks("right", "comes", "silent", "names", "number", HALVES)
        matches = References(logs[1], marks, ("id", "n", "t", "v", "right"), ("k",), ("w",), ("there", "match", "match_time", "event"))
        joined = Referring("right", "t", "n", "there", "match", "match_time", ("id", "k", "n"), ("v",), ("w",), ("type", "at", "seq"), join)
        by_n = (By("n"), By("right"))
        self.parts = HoldingStream(Holding("F", parts, KEYS, {}, "t", (By("n"),), (By("t"), By("id")), (), (), "rows"))
        self.matches = HoldingStream(
            Holding(
                "F", matches, KEYS, {}, "t", (*by_n, By("number"), By("comes")), (By("t"), By("id")), (), (), "rows",
                row_identity=("told_0", "told_1"),
            )
        )  # fmt: skip
        self.joined = HoldingStream(Holding("F", joined, KEYS, {}, "t", (*by_n, By("event")), (), (), (), "rows"))

    def run(self, rows: list[Row], watermark: int | None) -> list[Row]:
        left = [r for r in rows if r["side"] == "left"]
        parts = [r for r in self.parts.run(table(left, LEFT, "k"), watermark or 0) if r["last"]]
        mine = [
            r | {"right": False, "alive": r["comes"], "silent": r["moved"] and not r["comes"], "names": r["fk"] is not None, "w": None}
            for r in parts
        ]
        of_right = {"k": None, "v": None, "right": True, "comes": False, "silent": True, "names": True, "number": 0}
        mine += [r | of_right | {"fk": r["k"], "w": r["v"]} for r in rows if r["side"] == "right"]
        told = self.matches.run(table(mine, AT_RIGHT, "fk", "k"), watermark or 0)
        return self.joined.run(table(told, TOLD, "k"), watermark or 0)

    def held(self) -> list[bool]:
        return [stream.held() for stream in (self.parts, self.matches, self.joined)]


def some_changes(rng: random.Random) -> list[list[Row]]:
    """Places rise, with ties; times rise, with disorder, and lie far off now and then; a null names nothing."""
    rows, n = [], 0
    for i in range(rng.randint(1, 70)):
        n += rng.choice([0, 1, 1])
        side = rng.choice(["left", "left", "right"])
        t = rng.choice([*[(i // 2 + rng.randint(-8, 8)) * STEP] * 40, -62_000_000_000_000_000, 253_000_000_000_000_000])
        key, fk = (rng.choice("abc"), rng.choice([None, "x", "x", "y", "z"])) if side == "left" else (rng.choice("xyz"), None)
        value = None if rng.random() < 0.1 else f"{i}"
        rows.append({"side": side, "k": key, "n": n, "t": t, "v": value, "fk": fk, "alive": rng.random() < 0.7, "id": i})
    return cut_up(rng, rows)


def slow(batches: list[tuple[list[Row], int | None]], join: str, versioned: tuple[bool, bool], retention: int | None) -> list[list[Any]]:
    """Change by change; what leaves of each micro-batch, and what is ignored."""
    rows: dict[tuple[str, str], Row] = {}  # the last change of a side that applied
    met: dict[str, bool] = {}  # left rows that the join has
    left: dict[str, tuple[int, int]] = {}  # the place of a key's last change that left, and how many left there
    gone: dict[str, int] = {}  # when what is known of a left key was deleted
    ordered = dict(zip(("left", "right"), versioned, strict=True))
    answer = []

    def there(side: str, key: str | None) -> Row | None:
        row = rows.get((side, key)) if key is not None else None
        return row if row and row["alive"] else None

    def emit(k: str, cause: Row, time: int, out: list[Any]) -> None:
        row = there("left", k)
        match = there("right", row["fk"]) if row else None
        has = row is not None and (join == "left" or match is not None)
        if has or met.get(k):
            seq = left[k][1] if k in left and left[k][0] == cause["n"] else 0
            left[k] = (cause["n"], seq + 1)
            values = (row["v"], match["v"] if match else None) if has and row else (None, None)
            out.append((cause["id"], k, cause["n"], *values, "upsert" if has else "delete", time, seq))
        met[k] = has
        gone.pop(k, None)
        if row is None:
            gone[k] = cause["t"]

    for some, watermark in batches:
        oldest = None if watermark is None else watermark - (retention or 0)
        for key in [key for key, row in rows.items() if oldest is not None and row["t"] < oldest]:
            if not rows[key]["alive"] and not (ordered[key[0]] and retention is None):
                del rows[key]
        left = {k: v for k, v in left.items() if watermark is None or gone.get(k, watermark) >= watermark}
        out: list[Any] = []
        for row in sorted(some, key=lambda r: (r["n"], r["side"], r["t"], r["id"])):
            side, k, t = row["side"], row["k"], row["t"]
            if ordered[side] and retention is not None and oldest is not None and t < oldest:
                out.append((row["id"], "too_old"))
            elif ordered[side] and (side, k) in rows and t < rows[side, k]["t"]:
                out.append((row["id"], "out_of_order"))
            elif side == "right":
                rows[side, k] = row
                for name in "abc":
                    if (one := there("left", name)) and one["fk"] == k:
                        emit(name, row, max(t, one["t"]), out)
            else:
                before = there("left", k)
                match = there("right", before["fk"]) if before else None
                rows[side, k] = row
                match = there("right", row["fk"]) if row["alive"] else match
                if before or row["alive"]:
                    emit(k, row, max(t, match["t"]) if match else t, out)
        answer.append(out)
    return answer


@pytest.mark.parametrize("seed", range(200))
def test_changes_of_a_stream_are_joined_by_a_foreign_key_as_defined(seed: int) -> None:
    rng = random.Random(seed)
    join, versioned = ("inner", "left")[seed % 2], (rng.random() < 0.5, rng.random() < 0.5)
    retention = rng.choice([None, 0, 3 * STEP, 12 * STEP]) if any(versioned) else None
    watermark, largest, batches = None, 0, []
    for rows in some_changes(rng):
        batches.append((rows, watermark))
        largest = max([largest, *(r["t"] for r in rows if r["t"] < 10**15)])
        if rng.random() < 0.7 and largest > 0:
            watermark = max(watermark or 0, (largest - rng.choice([0, 0, 5 * STEP])) // STEP * STEP) or None
    stream = Joining(join, versioned, retention)
    expected = slow(batches, join, versioned, retention)
    for (rows, now), meant in zip(batches, expected, strict=True):
        found = [(r["id"], r["k"], r["n"], r["v"], r["w"], r["type"], moment(r["at"]), r["seq"]) for r in stream.run(rows, now)]
        assert Counter(found) == Counter(m for m in meant if len(m) > 2)
    ignored = Counter(m[1] for meant in expected for m in meant if len(m) == 2)
    counts = stream.parts.counts + stream.matches.counts
    assert {n.removesuffix("_drop_total"): v for n, v in counts.items() if n in stream.matches.plan.holder.counts and v} == ignored


def change(side: str, n: int, t: int, **more: Any) -> Row:
    return {"side": side, "n": n, "t": t, "k": "a" if side == "left" else "x", "v": "1", "fk": "x", "alive": True, "id": n} | more


def test_what_is_deleted_leaves_all_three_states() -> None:
    for versioned, retention in (((False, False), None), ((True, True), 5 * STEP)):
        stream = Joining("left", versioned, retention)
        rows = [change("left", 1, STEP), change("left", 2, STEP, k="b", fk=None), change("right", 3, STEP)]
        assert len(stream.run(rows, None)) == 3
        stream.run([], 90 * STEP)
        assert stream.held() == [True] * 3
        gone = [change("left", 4, 91 * STEP, alive=False), change("left", 5, 91 * STEP, k="b", alive=False)]
        found = stream.run([*gone, change("right", 6, 91 * STEP, alive=False)], 90 * STEP)
        assert [r["type"] for r in found] == ["delete"] * 2
        stream.run([], 99 * STEP)
        assert stream.held() == [False] * 3


def test_nothing_is_held_of_a_row_that_names_nothing_but_the_row() -> None:
    stream = Joining("left", (False, False), None)
    assert len(stream.run([change("left", 1, 1, fk=None)], None)) == 1
    assert stream.held() == [True, False, True]


def test_a_left_row_that_names_another_is_told_of_once() -> None:
    """It is not withdrawn first; its old match tells of it no more, and the new one does."""
    stream = Joining("inner", (False, False), None)
    stream.run([change("right", 1, 1), change("right", 2, 2, k="y", v="2"), change("left", 3, 3)], None)
    (moved,) = stream.run([change("left", 4, 4, fk="y")], None)
    assert (moved["type"], moved["w"]) == ("upsert", "2")
    assert stream.run([change("right", 5, 5)], None) == []
    (told,) = stream.run([change("right", 6, 6, k="y", v="3")], None)
    assert told["w"] == "3"
    (lost,) = stream.run([change("left", 7, 7, fk="z")], None)
    assert (lost["type"], moment(lost["at"])) == ("delete", 7)


def test_no_rows() -> None:
    assert Joining("inner", (False, False), None).run([], None) == []
