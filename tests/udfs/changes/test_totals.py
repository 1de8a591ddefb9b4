"""AGGREGATE_CHANGES as a stream's workers do it, without Spark: both states, one behind the other, against groups that are added up anew after
each change. Catches: a value that is not taken back, a group that is not forgotten, state that does not come back as it was."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from support.inputs.micro_batches import KEYS, MOMENT, STEP, HoldingStream, cut_up, moment

from streamtime.sql.stream.buckets import Holding
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.changes.latest import LogColumns
from streamtime.udfs.changes.replaced import Replaced
from streamtime.udfs.changes.totals import ColumnTotal, Totals

HUGE, ODD = 10**17, [0.1, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")]
Row = dict[str, Any]
CARRIED = ("n", "t", "id")
PART = ("g", "whole", "real", "text", "when")
FIRST = Replaced(LogColumns("t", "alive", "n", None, PART, (False,), (False,)), CARRIED, PART, ("g",), ("comes", "last", "moved", "row"))
ASKED = (("whole", "sum"), ("whole", "min"), ("real", "sum"), ("real", "max"), ("text", "max"), ("when", "min"), ("text", "count"))
AGGREGATES = tuple(ColumnTotal(f"{function} {column}", f"rows of {function} {column}", column, function) for column, function in ASKED)
SECOND = Totals("t", "n", "comes", "last", "moved", AGGREGATES, ("g", "n", "id"), ("rows", "at", "seq"))
NAMES = [k.name if k.function != "count" else k.counted for k in AGGREGATES]


def table(rows: list[Row], key: str, more: dict[str, pa.DataType]) -> pa.Table:
    kinds = {
        "n": pa.int64(),
        "t": MOMENT,
        "id": pa.int64(),
        "g": pa.int64(),
        "whole": pa.int64(),
        "real": pa.float64(),
        "text": pa.string(),
        "when": MOMENT,
    }
    made = {name: pa.array([r[name] for r in rows], kind) for name, kind in (kinds | more).items()}
    number = pa.array([r[key] for r in rows], pa.int64())
    return pa.table(made | dict.fromkeys((KEY_HASH, *KEYS), number) | {ASIDE: pa.array([-1] * len(rows), pa.int32())})


def some_changes(rng: random.Random) -> list[Row]:
    rows, n = [], 0
    for i in range(rng.randint(1, 60)):
        n += rng.choice([0, 1, 1])
        group = rng.choice([None, 1, 1, 2, 3])
        rows.append({
            "k": rng.randint(0, 4), "n": n, "t": (i + rng.randint(-5, 5)) * STEP, "id": i, "g": group, "alive": group is not None and rng.random() < 0.8,
            "whole": rng.choice([None, 1, 2, -HUGE, HUGE]), "real": rng.choice([None, 1.5, *ODD]), "text": rng.choice([None, "", "a", "ä", "\U0001f600"]),
            "when": rng.choice([None, 0, STEP, -62_000_000_000_000_000]),
        })  # fmt: skip
    return rows


def added_up(rows: list[Row], column: str, function: str) -> Any:
    values = [r[column] for r in rows if r[column] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function != "sum":
        return {"min": min, "max": max}[function](values, key=lambda v: (v != v, 0 if v != v else v) if isinstance(v, float) else v)
    if column == "whole":
        return sum(values)
    finite = [v for v in values if v - v == 0]
    if len(finite) < len(values):
        return sum(v for v in values if v - v != 0)
    exact = sum(map(Fraction, finite))
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def slow(rows: list[Row]) -> list[tuple[Any, ...]]:
    table_: dict[int, Row] = {}
    clock: dict[int, int] = {}
    number: Counter[tuple[int, int]] = Counter()
    answer = []
    for row in sorted(rows, key=lambda r: (r["n"], r["id"])):
        before = table_.pop(row["k"], None)
        if row["alive"]:
            table_[row["k"]] = row
        touched = [before["g"]] if before and not (row["alive"] and before["g"] == row["g"]) else []
        moved = bool(touched) and row["alive"]
        for group in [*touched, *([row["g"]] if row["alive"] else [])]:
            inside = [r for r in table_.values() if r["g"] == group]
            clock[group] = max(row["t"], clock.get(group, row["t"]))
            seq = 2 * number[group, row["n"]] + (moved and group == row["g"])
            number[group, row["n"]] += 1
            answer.append((row["id"], group, len(inside), clock[group], seq, *(str(added_up(inside, *asked)) for asked in ASKED)))
    return answer


@pytest.mark.parametrize("seed", range(60))
def test_groups_come_to_what_their_rows_do_after_each_change(seed: int) -> None:
    rng = random.Random(seed)
    rows = some_changes(rng)
    first = HoldingStream(Holding("F", FIRST, KEYS, {}, "t", (By("n"),), (By("id"),), (), (), "rows"))
    second = HoldingStream(Holding("F", SECOND, KEYS, {}, "t", (By("n"),), (By("id"), By("row"), By("comes")), (), (), "rows"))
    flags = {"comes": pa.bool_(), "last": pa.bool_(), "moved": pa.bool_(), "row": pa.int64()}
    found = []
    for some in cut_up(rng, rows):
        parts = first.run(table(some, "k", {"alive": pa.bool_()}), 0)
        parts = [p | {name: moment(p[name]) for name in ("t", "when")} for p in parts]
        found += second.run(table(parts, "g", flags), 0)

    def shown(row: Row) -> list[str]:
        values = [moment(row[name]) if name.endswith("when") else row[name] for name in NAMES]
        return [str(v) for v in values]

    got = Counter((r["id"], r["g"], r["rows"], moment(r["at"]), r["seq"], *shown(r)) for r in found)
    assert got == Counter(slow(rows))


def test_a_group_without_rows_leaves_the_state() -> None:
    first, second = (HoldingStream(Holding("F", h, KEYS, {}, "t", (By("n"),), (), (), (), "rows")) for h in (FIRST, SECOND))
    flags = {"comes": pa.bool_(), "last": pa.bool_(), "moved": pa.bool_(), "row": pa.int64()}
    row = {"k": 1, "n": 1, "t": 5 * STEP, "id": 1, "g": 1, "alive": True, "whole": 1, "real": 1.0, "text": "a", "when": 0}
    for some in ([row], [row | {"n": 2, "alive": False}], []):
        parts = [
            p | {name: moment(p[name]) for name in ("t", "when")} for p in first.run(table(some, "k", {"alive": pa.bool_()}), 7 * STEP)
        ]
        assert bool(parts) == bool(some)
        second.run(table(parts, "g", flags), 7 * STEP)
    assert not first.held()
    assert not second.held()


def test_a_sum_of_too_many_digits_is_an_error() -> None:
    with pytest.raises(OverflowError, match=r"AGGREGATE_CHANGES: a sum of `x` has more than 38 digits\. Cast the argument to DOUBLE\."):
        ColumnTotal("s", "n", "x", "sum").results([10**38], pa.int64())
