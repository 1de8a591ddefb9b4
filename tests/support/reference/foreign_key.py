"""JOIN_CHANGES with `on` by the letter of J8, Kafka's cases, and random changelogs."""

from __future__ import annotations

import json
import random
from typing import Any

from support import TESTS

CASES = json.loads((TESTS / "cases" / "kafka_fk_join.json").read_text()) + [
    case for case in json.loads((TESTS / "cases" / "table_table_join.json").read_text()) if case["params"]["join"].startswith("fk_")
]
Row = tuple[
    str, str | None, int | None, int | None, str | None, str | None, bool
]  # side, key, place, time in ms, value, foreign key, deleted


def place(row: Row) -> Any:
    """By ORDER BY, the left side first, then the remaining columns in their order, nulls first: key, time, value, foreign key, `gone`."""
    side, k, n, t, v, fk, gone = row
    return n, side, (k or "").encode(), t, v is not None, v or "", fk is not None, (fk or "").encode(), gone


def slow(
    rows: list[Row], join: str, versioned: tuple[str, ...], retention: int | None, told: list[tuple[Any, ...]] | None = None
) -> list[tuple[Any, ...]]:
    """One scenario by the letter of J8, change by change. `told` gets each row, what became of it, and what its sentence has to say."""
    lefts: dict[str, tuple[int, str | None, str | None]] = {}
    rights: dict[str, tuple[int, str | None]] = {}
    newest: dict[Any, int] = {}
    clock: dict[str, int] = {}
    emitted: list[tuple[Any, ...]] = []
    told = [] if told is None else told
    told += [(row, "null_time" if None in row[2:4] else "null_key", "") for row in rows if None in row[1:4]]

    def joined(k: str) -> tuple[Any, ...] | None:
        if k not in lefts:
            return None
        _, v, fk = lefts[k]
        match = rights.get(fk) if fk is not None else None
        return (v, fk, match[1] if match else None) if match or join == "left" else None

    def emit(n: int, k: str, before: Any, times: list[int]) -> None:
        after = joined(k)
        if after is not None or before is not None:
            seq = sum(change[:2] == (n, k) for change in emitted)
            values = (*after, "upsert") if after is not None else (None, None, None, "delete")
            emitted.append((n, k, seq, *values, max(times)))

    for side, k, n, t, v, fk, gone in sorted((row for row in rows if None not in row[1:4]), key=place):
        if side in versioned:
            if retention is not None and side in clock and t < clock[side] - retention:
                told.append(((side, k, n, t, v, fk, gone), "too_old", ""))
                continue
            clock[side] = max(t, clock.get(side, t))
            if t < newest.get((side, k), t):
                told.append(((side, k, n, t, v, fk, gone), "out_of_order", newest[side, k]))
                continue
            newest[side, k] = t
        if side == "left":
            before, named = joined(k), lefts[k][2] if k in lefts else None
            old = rights.get(named) if named is not None else None
            lefts.pop(k, None)
            if not gone:
                lefts[k] = (t, v, fk)
            match = old if gone else rights.get(fk) if fk is not None else None
            emit(n, k, before, [t, *([match[0]] if match else [])])
            after, waits = joined(k), "names no row" if fk is None else "that it names"
            did = "alone" if after else "withdrew" if before else "nothing" if gone else "waits"
            did = "joined" if after and match else did
            told.append(((side, k, n, t, v, fk, gone), did, {"joined": match and match[0], "waits": waits}.get(did, "")))
        else:
            touched = [key for key, row in lefts.items() if row[2] == k]
            was = {key: joined(key) for key in touched}
            rights.pop(k, None)
            if not gone:
                rights[k] = (t, v)
            for key in touched:
                emit(n, key, was[key], [t, lefts[key][0]])
            emits = [key for key in touched if was[key] or joined(key)]
            did = ("joined" if not gone else "alone" if join == "left" else "withdrew") if emits else "nothing" if gone else "waits"
            told.append(((side, k, n, t, v, fk, gone), did, f": {len(emits)}." if emits else ""))
    return sorted(emitted, key=lambda c: c[:3])


def of_case(case: dict[str, Any]) -> tuple[list[Row], str, tuple[str, ...], int | None]:
    asked, rows = case["params"], []
    for n, i in enumerate(case["input"], 1):
        value, fk = i["value"], None
        if i["side"] == "left" and value is not None and asked["foreign_key"] != "always null":
            fk = value.partition("|")[2]
            fk = None if fk == "returnNull" else fk
        rows.append((i["side"], i["key"], n, i.get("ts", n), value, fk, value is None))
    versioned = tuple(side for side in ("left", "right") if asked.get(f"{side}_versioned"))
    return rows, asked["join"].removeprefix("fk_"), versioned, asked.get("history_retention_ms")


def drawn(rng: random.Random) -> list[Row]:
    """Changes of few keys that name few others, far years, nulls in each role, and ties of both kinds."""
    times = [*range(0, 40, 5), -62_000_000_000_000, 253_000_000_000_000]
    rows: list[Row] = []
    n = 0
    for i in range(rng.randrange(0, 30)):
        n += rng.choice((0, 1, 1, 1))
        side = rng.choice(("left", "right"))
        keys = (None, "", "a", "a", "b", "c") if side == "left" else (None, "", "x", "x", "x", "y'`\\")
        t = None if rng.random() < 0.1 else rng.choice(times[:8] if rng.random() < 0.95 else times)
        fk = rng.choice((None, "", "x", "x", "y'`\\", "z")) if side == "left" else None
        rows.append((side, rng.choice(keys), None if rng.random() < 0.05 else n, t, f"{side[0]}{i}", fk, rng.random() < 0.25))
    return rows
