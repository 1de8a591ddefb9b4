"""The buffer of suppress against its slow definition, without Spark.

Random changelogs with ties, equal times, late rows, deletions, colliding hashes, cut into random batches and chunks. Catches: a row released
one step early or late, a place that moves, state lost between chunks, parts of the buffer that are copied or spilled wrongly.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.inputs.suppress_calls import options_of, some_rows
from support.reference.suppress import Fate, Full
from support.reference.suppress import Suppress as Reference

from streamtime.udfs.arrays import groups
from streamtime.udfs.suppress import buffer, decisions, parts
from streamtime.udfs.suppress.buffer import ARRIVED, ASIDE, BYTES, DECIDED_AT, DECIDED_BY, DELETED, EMIT_REASON, EMIT_TIME, ORDER, OUTCOME
from streamtime.udfs.suppress.until import Until

MOMENT = pa.timestamp("us")
RESULTS = (OUTCOME, ARRIVED, EMIT_TIME, EMIT_REASON, DECIDED_AT, DECIDED_BY)


def call_of(options: dict[str, Any], output: str, **changes: Any) -> buffer.Suppress:
    wait = options.get("wait")
    given: dict[str, Any] = {
        "function": "F", "time": "t", "keys": ("k",), "told": ("first", "second"), "clocks": tuple(options["clock_by"]), "columns": ("id", "k"),
        "results": RESULTS if output != "rows" else (EMIT_TIME, EMIT_REASON), "at_end": options["at_end"], "output": output,
        "until": Until(groups.HIGHEST if wait is None else wait, "close" if options["closes"] else None, corrected=options.get("corrected", False)),
        "bounds": decisions.Bounds(options.get("max_records"), options.get("max_bytes"), options.get("when_full")),
    }  # fmt: skip
    return buffer.Suppress(**given | changes)


def batches(random_: random.Random, rows: list[dict[str, Any]], clock_by: list[str]) -> list[pa.RecordBatch]:
    """As Spark sends them: by clock, then in processing order; hashes of some keys share a half, or nearly all of it."""
    rows = sorted(rows, key=lambda r: [(r[c] is not None, r[c] or 0 if c == "p" else r[c] or "") for c in clock_by])
    kinds = random_.choice([lambda i: i, lambda i: i // 2, lambda i: -(i << 50), lambda i: 5])
    table = pa.table(
        {
            "id": pa.array([r["id"] for r in rows], pa.int64()),
            "k": pa.array([r["k"] for r in rows], pa.string()),
            "p": pa.array([r["p"] for r in rows], pa.int32()),
            "t": pa.array([r["t"] for r in rows], MOMENT),
            "close": pa.array([r["close"] for r in rows], MOMENT),
            "first": pa.array([kinds(ord(r["k"] or "_") - 100) for r in rows], pa.int64()),
            "second": pa.array([ord(r["k"] or "_") for r in rows], pa.int64()),
            DELETED: pa.array([r["deleted"] for r in rows], pa.bool_()),
            BYTES: pa.array([r["size"] for r in rows], pa.int64()),
            ORDER: pa.array([str(r["id"]) for r in rows], pa.string()),
        }
    )
    return table.to_batches(max_chunksize=random_.choice([1, 3, 7, 100]))


def with_aside(batch: pa.RecordBatch, closes: bool) -> pa.RecordBatch:
    missing = [t is None or (closes and c is None) for t, c in zip(batch["t"].to_pylist(), batch["close"].to_pylist(), strict=True)]
    return batch.append_column(ASIDE, pa.array(missing, pa.bool_()))


def as_row(fate: Fate) -> tuple[Any, ...]:
    by = None if fate.decided_by is None else str(fate.decided_by["id"])
    return (fate.row["id"], fate.outcome, fate.stream_time, fate.emit_time, fate.emit_reason, fate.decided_at, by)


def numbers(value: Any) -> Any:
    return int((np.datetime64(value, "us") - np.datetime64(0, "us")).astype(int)) if hasattr(value, "year") else value


@pytest.mark.parametrize("seed", range(160))
def test_the_buffer_decides_as_the_slow_definition_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    rows, options = some_rows(random_, random_.choice([0, 1, 5, 40, 200])), options_of(random_)
    monkeypatch.setattr(buffer, "halves", lambda keys, *_: tuple(map(groups.as_ints, keys)))  # halves as they are given
    monkeypatch.setattr(buffer, "FEWEST_ROWS", random_.choice([1, 2, 10, 1000]))
    monkeypatch.setattr(parts, "MOST_PARTS", random_.choice([1, 3]))
    monkeypatch.setattr(decisions, "ROUNDS", random_.choice([1, 2, 16]))
    reference = Reference(**options)
    sent = [with_aside(b, options["closes"]) for b in batches(random_, rows, options["clock_by"])]
    run = call_of(options, "all").run(iter(sent))
    try:
        fates = reference.run(rows)
    except Full:
        with pytest.raises(decisions.BufferFull, match=r"F, `max_(records|bytes)`: the buffer is full: expected at most"):
            list(run)
        return
    found = [tuple(map(numbers, list(r.values())[:1] + list(r.values())[2:])) for b in run for r in b.to_pylist()]
    assert sorted(found) == sorted(map(as_row, fates)), options
    # released rows come in the order of release
    kept = [b.filter(pa.array([not a for a in b[ASIDE].to_pylist()])) for b in sent]
    released = [r["id"] for b in call_of(options, "rows").run(iter(kept)) for r in b.to_pylist()]
    assert released == [f.row["id"] for f in fates if f.outcome == "released"], options


@pytest.mark.parametrize("seed", range(110))
def test_the_metrics_count_what_the_slow_definition_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    rows, options = some_rows(random_, random_.choice([0, 1, 40])), options_of(random_)
    monkeypatch.setattr(buffer, "halves", lambda keys, *_: tuple(map(groups.as_ints, keys)))  # halves as they are given
    monkeypatch.setattr(buffer, "FEWEST_ROWS", random_.choice([1, 10]))
    reference = Reference(**options)
    sent = [with_aside(b, options["closes"]) for b in batches(random_, rows, options["clock_by"])]
    run = call_of(options, "metrics").run(iter(sent))
    try:
        fates = reference.run(rows)
    except Full:
        with pytest.raises(decisions.BufferFull):
            list(run)
        return
    (got,) = [r for b in run for r in b.to_pylist()]
    for outcome in decisions.OUTCOMES:
        assert got[f"{outcome}_total"] == sum(f.outcome == outcome for f in fates)
    late = [f.stream_time - f.row["t"] for f in fates if f.stream_time is not None]
    assert (got["rows"], got["late_sum"], got["late_max"]) == (len(late), sum(late), max(late, default=0))
    assert (got["count_max"], got["count_sum"]) == (max(reference.counts, default=0), sum(reference.counts))
    assert (got["size_max"], got["size_sum"]) == (max(reference.sizes, default=0), sum(reference.sizes))
    held = [f for f in fates if f.outcome == "held"]
    assert (got["count_current"], got["size_current"]) == (len(held), sum(f.row["size"] for f in held))
    over = reference.overtimes
    assert (got["overtime_min"], got["overtime_sum"], got["overtimes"]) == (min(over, default=None), sum(over), len(over))
