"""Filters a table that is known by its changes: a row that no longer passes is deleted, which a WHERE would miss.

## In a picture

```text
condition => 'amount > 0'

offset     1         2          3          4
change     tea 5     milk 0     tea 0      milk 9
result     tea 5     nothing    tea gone   milk 9         with WHERE amount > 0, there were still 5 of tea
```

## What it does

A row that passes `condition` leaves as an `upsert`. One that does not, or that is a deletion, leaves as a `delete` if a row of its key
was there before; else nothing leaves (V8). The key is `PARTITION BY`. A null is no pass.

- **What is wrong with WHERE?** When a row changes so that it no longer passes, that change is left out, and what it was before lives on.
- **When this is not needed**: where the next function takes `deleted`, `deleted => '(amount > 0) IS NOT TRUE'` does the same there.
- **Deletions** are rows that `deleted` marks; without it those whose `change_type`, or Delta's `_change_type`, is `'delete'`. Rows of
  Delta's `update_preimage` are no changes, and are left out first.
- **Changes out of order**: without `versioned`, changes apply as they come. `versioned => true` says that they can come out of order, and
  that who reads the result looks at their times. Then a row that does not pass always leaves as a `delete`, for an older one may come
  later. Order and times stay as they are, so the result is versioned as the input was. With `retention`, a change that is older than
  stream time, the largest time so far, less `retention` is ignored as `too_old`.
- **The columns** (C10): those of the input, `change_type`, `change_time` (the row's event time) and `change_seq` (0, 1, .. over the
  changes of a key that share the ORDER BY columns). Of a delete, all columns of the input are null but keys, ORDER BY columns and the
  event time. `change_*` columns of the input, and those that Delta adds to a change feed, are made anew or left out.

Event time is the first `ORDER BY` expression unless `time` names another.

`output => 'dropped'` has the input rows that were ignored, `'all'` all of them with the reason. `output => 'explain'` says in a sentence
what each did: it `passed`, `withdrew` the row of its key, or changed `nothing`.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: ignored as `null_time`. **Null key**: ignored as `null_key` (C12).
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **Late rows**: see above, changes out of order. **Empty input** gives an empty result.

## On a stream

```text
condition => 'amount > 0'

what comes                what leaves at once
micro-batch 1: tea 5      tea 5, an upsert
micro-batch 2: milk 0     nothing: milk was not there
micro-batch 3: tea 0      a delete of tea
```

The same call works where the table is a stream of changes. Spark reads a stream in micro-batches: some new rows at a time. Each change
leaves with the micro-batch that brought it. Nothing waits.

- **In which order**: the changes of one micro-batch are taken in the order of `ORDER BY`, micro-batches as they come. If they come in that
  order, too, the result is that of batch (C5).
- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **What is remembered**: which keys have a row that passes, 64 bytes for each. Without that, nobody would know whether a row that does
  not pass must be deleted. With `versioned` all that do not pass leave as deletes, so nobody asks. A key is then remembered only until
  stream time has passed its change (and `retention`): so long, another change of the same place may come, whose `change_seq` goes on.
- **What follows**: another call in the same query can take the result, as in batch. A window aggregate of Spark cannot, and says so:
  `change_time` may lie behind the watermark.
- **Metrics** are in `observedMetrics` of the query's progress.
- **Errors**: `clock_by`, `output => 'metrics'`, keys and ORDER BY columns with a collation, columns of year-month intervals, and an
  option that is not what it was when the checkpoint was made: the error names it.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). Its last change of each key says whether the key's last row
passes.

## Related functions, and the same thing elsewhere

- AGGREGATE_CHANGES and JOIN_CHANGES take the result. [Changelogs](../changelogs.md) shows them together.
- **Kafka Streams**: `KTable.filter`, which also deletes rows that never were.
- **Flink SQL**: `WHERE` over an updating table does the same.
- **Plain Spark**: `WHERE` over the newest row of each key, which says how things are, not what changed.

## Memory and state

Spark's own windows over each key, in one shuffle and one sort, which spill to disk; no Python. `retention`, and outputs other than
`'rows'`, cost another shuffle and sort for stream time, where `time` is not the first ORDER BY expression: then the changes are
computed twice, else once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.call.kinds import Flag, Text
from streamtime.sql.call.spec import KEYS, METRICS, NAME, ORDER_BY, TIME, WATERMARK, Example, Local, Option, Spec, across_keys_with
from streamtime.sql.call.values import Expression
from streamtime.sql.changes.given import ALIVE, CLOCK, OLD, changes_of, counted, of_order, refuse_computed
from streamtime.sql.changes.options import CLOCKS, RETENTION, output, refuse_retention
from streamtime.sql.changes.runs import Runs, in_runs
from streamtime.sql.changes.stream import filtered, over_streams
from streamtime.sql.rows.changelog import DELETED, MADE_ANEW, change_columns, refuse_no_condition
from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import PREFIX, prepare
from streamtime.sql.rows.outcome import explained, outcome
from streamtime.sql.udtf import judges
from streamtime.sql.udtf.filtered import filtered_shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

REASONS = ("null_time", "null_key", "too_old")
PASSES, HAD, TYPE = (f"{PREFIX}{n}" for n in ("passes", "had", "type"))
CONDITION = Option("condition", Text(), "what a row must be to stay", required=True, example="'k IS NOT NULL'")
VERSIONED = Option(
    "versioned", Flag(), "changes can come out of order, and their times count: all that do not pass leave as deletes", default=False,
    default_text="false",
)  # fmt: skip


def check(call: Bound) -> None:
    """Options that do not go together."""
    refuse_retention(call, "V8", "true")


def plan(call: Bound) -> DataFrame:
    """FILTER_CHANGES as a DataFrame."""
    streaming = over_streams(call)
    marks = {"deleted": (Expression.parse(call["deleted"]),)} if call["deleted"] else {}
    frame = prepare(call, condition=(Expression.parse(call["condition"]),), clock_by=call.clock_by, **marks)
    refuse_no_condition(call, "condition", frame.extras["condition"][0])
    refuse_computed(call, frame, [("PARTITION BY", k) for k in frame.keys] + [("ORDER BY", r) for r in of_order(frame.order)])
    frame = changes_of(call, frame, bool(call["versioned"]), frame.clocks)
    applies = frame.left_out.isNull() & ~named(OLD)
    passes = applies & named(ALIVE) & F.coalesce(frame.extras["condition"][0].column, F.lit(False))
    df = frame.df.withColumn(PASSES, passes)
    if streaming:
        return filtered(call, frame.with_df(df), PASSES, REASONS, partial(_explained, call))
    runs = in_runs(df, frame.keys, frame.order, frame.tie_breaks())
    last = F.last(F.when(applies, named(PASSES)), ignorenulls=True).over(runs.each().rowsBetween(Window.unboundedPreceding, -1))
    df = runs.df.withColumn(HAD, F.lit(True) if call["versioned"] else F.coalesce(last, F.lit(False)))
    frame = frame.with_df(df.withColumn(TYPE, F.when(applies, F.when(named(PASSES), "upsert").when(named(HAD), "delete"))))
    if call["output"] == "rows":
        return _changes(call, frame, runs)
    reason = F.coalesce(frame.left_out, F.when(named(OLD), "too_old"))
    return _explained(call, frame, reason) if call["output"] == "explain" else outcome(call, frame, reason, named(CLOCK), REASONS, {}, {})


def _changes(call: Bound, frame: Frame, runs: Runs) -> DataFrame:
    shared = {r.name for r in (*frame.keys, *of_order(frame.order), frame.time)}
    shown = [(c, o) for c, o in zip(frame.columns, frame.originals, strict=True) if not call.names.among(o, MADE_ANEW)]
    columns = [(c.column if c.name in shared else F.when(named(PASSES), c.column)).alias(o) for c, o in shown]
    number = F.row_number().over(runs.each_place(counted(call, frame, [r.name for r in of_order(frame.order)])))
    return frame.df.where(named(TYPE).isNotNull()).select(*columns, *change_columns(named(TYPE), frame.time.column, number - 1))


def _explained(call: Bound, frame: Frame, reason: Column) -> DataFrame:
    did = F.when(named(PASSES), "passed").when(named(HAD), "withdrew").otherwise("nothing")
    why = F.when(named(ALIVE), "it does not pass").otherwise("it is a deletion")
    sentences: dict[str, list[Column | str]] = {
        "passed": ["Upsert: it passes."],
        "withdrew": ["Delete: ", why, "."],
        "nothing": ["No change: ", why, ", and no row of its key was there."],
        "too_old": ["Ignored: older than `retention` allows, as stream time is ", named(CLOCK), "."],
    }
    return explained(call, frame, named(CLOCK), frame.left_out, F.coalesce(reason, did), {}, sentences)


SPEC = Spec(
    name="FILTER_CHANGES",
    summary="Filters a table that is known by its changes: a row that no longer passes is deleted, which a WHERE would miss.",
    rules="C1, C3-C6, C8-C12, V8 (KIP-914)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_with("retention"),
    check=check,
    local=Local(judges.filter_changes, details=(), changes=True, makes=filtered_shape, without_key="null_key"),
    options=(CONDITION, KEYS, ORDER_BY, TIME, VERSIONED, RETENTION, DELETED, CLOCKS, WATERMARK, output("the changes"), NAME),
    clauses={
        "PARTITION BY product": "the key of a row, which says what a change replaces",
        "ORDER BY offset": "the order in which changes came",
    },
    main={
        "condition": "'amount > 0'",
        "time": "'ts'",
    },
    adds={
        "'rows'": "`change_type` STRING (`upsert`, `delete`), `change_time` (type of the event time), `change_seq` BIGINT",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `null_key`, `too_old`; null: applied), `stream_time` (type of the event time), "
        "`lateness` DOUBLE (seconds)",
        "'explain'": "`outcome` STRING (`passed`, `withdrew`, `nothing`, or a reason), `stream_time`, `explanation` STRING",
        "'metrics'": METRICS,
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW stock AS SELECT * FROM VALUES\n"
            "  (1, 'tea', TIMESTAMP '2024-05-01 09:00:00', 5), (2, 'milk', TIMESTAMP '2024-05-01 09:05:00', 0),\n"
            "  (3, 'tea', TIMESTAMP '2024-05-01 09:10:00', 0), (4, 'milk', TIMESTAMP '2024-05-01 09:20:00', 9)\n"
            "  AS stock(offset, product, ts, amount)",
            "SELECT offset, product, amount, change_type FROM FILTER_CHANGES(\n"
            "  TABLE(stock) PARTITION BY product ORDER BY offset, time => 'ts', condition => 'amount > 0')\n"
            "ORDER BY offset",
        ),
        Example(
            "",
            "SELECT offset, product, outcome, explanation FROM FILTER_CHANGES(\n"
            "  TABLE(stock) PARTITION BY product ORDER BY offset, time => 'ts', condition => 'amount > 0', output => 'explain')\n"
            "ORDER BY offset",
            "What each change did:",
        ),
    ),
)
