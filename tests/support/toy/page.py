"""Keeps every n-th row of each key.

## In a picture

```text
n => 3

ann   x  x  o  x  x  o        o passes   x passed over: its number is no multiple of 3
bob   x  x
```

## What it does

The rows of a key are counted in processing order, from 1. A row passes where its number is a multiple of `n` (C4).

## Nulls, ties, late rows, empty input

A null key or a null time is dropped with a reason; where both are null, it is `null_time`. Ties are broken by the remaining columns. Nothing is late. No rows give no rows.

## On a stream

The counts go on from micro-batch to micro-batch.

## Guarantees

The result depends on the rows alone.

## Related functions, and the same thing elsewhere

- **Plain Spark**: `row_number() OVER (PARTITION BY k ORDER BY ts) % n = 0`.

## Memory and state

A number for each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.in_memory import Columns, Verdicts
from streamtime.sql.call.kinds import Count
from streamtime.sql.call.spec import COMMON, Example, Local, Option, Spec
from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import LEFT_OUT, PREFIX, prepare
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.stream.buckets import STREAM_TIME
from streamtime.sql.stream.plan import KeyState, is_stream, judged, verdict
from streamtime.udfs.every_nth import EveryNth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

REASONS = (*LEFT_OUT, "passed_over")
PLACE, TAKES_PART = f"{PREFIX}place", f"{PREFIX}takes_part"


def plan(call: Bound) -> DataFrame:
    """EVERY_NTH as a DataFrame."""
    if call["n"] == 0:
        raise call.refuse("`n`", "no row is the 0th of its key", "Write 1 to keep all of them.")
    frame = prepare(call)
    frame, names = frame.comparable(frame.keys)
    kernel = EveryNth(call["n"])
    if is_stream(call):
        frame = judged(call, frame, kernel, KeyState(names, {"n": call["n"]}, frame.left_out, LEFT_OUT))
        return outcome(call, frame, verdict(call), named(STREAM_TIME), REASONS, {}, {})
    frame = frame.with_df(frame.df.withColumn(TAKES_PART, frame.left_out.isNull()))
    group = [*names, TAKES_PART]
    ordered = frame.by_key(group, frame.sort())
    frame = frame.with_df(kernels.with_column(ordered, PLACE, kernel, [named(name) for name in group], T.LongType()))
    reason = F.coalesce(frame.left_out, F.when(named(PLACE) % call["n"] != 0, "passed_over"))
    return outcome(call, frame, reason, frame.time.column, REASONS, {}, {})


def judge(call: Bound, _in_time_order: bool, columns: Columns) -> Verdicts:
    """The same over rows in memory, for Python UDTFs."""
    counts: dict[int, int] = {}
    reasons = list(columns.aside)
    for row, key in enumerate(columns.keys.tolist()):
        if reasons[row] is None:
            counts[key] = counts.get(key, 0) + 1
            reasons[row] = None if counts[key] % call["n"] == 0 else "passed_over"
    return Verdicts(np.arange(len(reasons)), reasons, {})


SPEC = Spec(
    name="EVERY_NTH",
    summary="Keeps every n-th row of each key.",
    rules="C4, C6",
    page=__doc__,
    plan=plan,
    local=Local(judge, details=(), without_key="null_key"),
    options=(
        COMMON[0],
        COMMON[1],
        Option("n", Count(), "which rows pass: 3 keeps the third, the sixth, ..", required=True, example="3"),
        *COMMON[2:],
    ),
    clauses={"PARTITION BY k": "whose rows are counted", "ORDER BY ts": "the order in which they are"},
    main={"n": "3"},
    adds={"'rows'": "none"},
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW beats AS SELECT 'a' AS k, timestamp_seconds(id) AS ts, id FROM range(6)",
            "SELECT id FROM EVERY_NTH(TABLE(beats) PARTITION BY k ORDER BY ts, n => 3) ORDER BY id",
        ),
    ),
)
