"""Keeps totals of a table that is known by its changes: what each change does to the counts and sums of its groups.

## In a picture

```text
offset     1            2             3             4
change     ann: gold    bob: gold     ann: blue     bob deleted
gold       1            2             1             deleted: nobody is left
blue                                  1
```

## What it does

The input says, change by change, what rows a table has. `PARTITION BY` is the key of a row, `group_by` the columns by which rows are
added up (J9). A change takes the row that it replaces out of its group, and puts its own into one.

- **What comes out**: if both are the same group, one change. If not, two: that of the old group first. A group without rows leaves as a
  `delete`, its totals null.
- **Why not GROUP BY over the changes?** It would count a row once for each of its changes.
- **Aggregates** are written as in SQL: `count(*)`, `count(x)`, `sum`, `avg`, `min` and `max`, with `AS` and a name. Nulls count as in
  `GROUP BY`. Nothing that was taken back leaves a trace: a sum of DOUBLE is exact, rounded once, and `min` and `max` of -0.0 are 0.0. (An
  average of DECIMAL with more than 24 digits can differ from Spark's in its last four.) Others, such as `first(x)`, cannot be taken back
  and are an error.
- **Only some rows**: `deleted => '(amount > 0) IS NOT TRUE'` leaves out rows that are not wanted, those with a null too. A `WHERE` on the
  input would leave in what a row was before (V8).
- **Deletions** are rows that `deleted` marks; without it those whose `change_type`, or Delta's `_change_type`, is `'delete'`. Rows of
  Delta's `update_preimage` are no changes, and are left out first.
- **Changes out of order**: without `versioned`, changes apply as they come, older ones too. With `versioned => true` the newest time
  counts: a change that is older than the newest one of its key, a deletion included, is ignored as `out_of_order`. With `retention`, one
  that is older than stream time, the largest time so far, less `retention` is ignored as `too_old`.
- **The columns** (C10): `group_by`, `clock_by` and ORDER BY columns of the row that caused the change, the totals, `change_type`,
  `change_time` (the largest time of the group's changes so far) and `change_seq`, which orders the changes of one row, and those of a
  group that share the ORDER BY columns: 0, and 1 for the new group of a row that moved. To feed it into the next function, write `ORDER
  BY (offset, change_seq), time => 'change_time'`.

Event time is the first `ORDER BY` expression unless `time` names another.

`output => 'dropped'` has the input rows that were ignored, `'all'` all of them with the reason. `output => 'explain'` says in a sentence
what each did: its row was `added`, `changed` within its group, `moved` to another, `removed`, is in `no_group`, or `nothing` changed.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: ignored as `null_time`. **Null key**: ignored as `null_key` (C12). A row with
  a null in `group_by` is in no group.
- **Ties** in `ORDER BY` are broken by the remaining columns, left to right, ascending, nulls first (C4).
- **Late rows**: see above, changes out of order. **Empty input** gives an empty result.

## On a stream

```text
what comes                               what leaves at once
micro-batch 1: order 7 in Rome           Rome n = 1
micro-batch 2: order 8 in Rome           Rome n = 2
micro-batch 3: order 7 now in Oslo       Rome n = 1, Oslo n = 1
```

The same call works where the table is a stream of changes. Spark reads a stream in micro-batches: some new rows at a time. The changes
of groups leave with the micro-batch that brought them. Nothing waits.

- **In which order**: the changes of one micro-batch are taken in the order of `ORDER BY`, micro-batches as they come. If they come in
  that order, too, the result is that of batch (C5); only `change_time` of a group that is forgotten and comes back may lie before that of
  its deletion.
- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay (C3). `watermark => INTERVAL 5 MINUTES` sets the
  delay. Without it, the watermark that the input already has counts; if it has none, the delay is zero.
- **What is remembered of a key**: its row, and so its group and what is added up of it, as long as the row is there. A deletion is
  forgotten once stream time has passed it; with `versioned`, once it has passed it by `retention`; without `retention`, never.
- **What is remembered of a group**: an exact sum; for `min` and `max`, each value with how often it is there. All of these are written
  anew with each micro-batch that changes the group. A group without rows is forgotten once stream time has passed its `change_time`.
- **Numbers go on**: `change_seq` counts a group's changes of one place on, if they come in several micro-batches.
- **What follows**: another call in the same query can take the result, as in batch. A window aggregate of Spark cannot, and says so:
  `change_time` may lie behind the watermark.
- **Metrics** are in `observedMetrics` of the query's progress. Those of the groups stand under the call's name with `_groups` behind it.
- **Errors**: `clock_by`, `output => 'metrics'`, keys, groups and ORDER BY columns with a collation, columns of year-month intervals, and
  an option that is not what it was when the checkpoint was made: the error names it.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). The last change of each group is its row of `GROUP BY` over
the table as it is in the end.

## Related functions, and the same thing elsewhere

- WINDOW_UPDATES adds up rows that never change, by windows of time. FILTER_CHANGES and JOIN_CHANGES make the changes that this takes.
  [Changelogs](../changelogs.md) shows them together.
- **Kafka Streams**: `KTable.groupBy(..).aggregate(..)` with an adder and a subtractor. For a group without rows it sends 0, not a
  deletion.
- **Flink SQL**: `GROUP BY` over an updating table.
- **Plain Spark**: `GROUP BY` over the newest row of each key, which says how things are, not what changed.

## Memory and state

Two shuffles and sorts, by key and by group, that spill to disk, and Spark's own windows. `min`, `max`, and `sum` and `avg` of FLOAT and
DOUBLE run in Python, which holds the distinct values of one group at a time. All changes of a group are in one task. The changes are
computed once; twice with `retention` and for outputs other than `'rows'`, where `time` is not the first ORDER BY expression.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.call.kinds import Flag, Text, Texts
from streamtime.sql.call.spec import INSTEAD, KEYS, METRICS, NAME, ORDER_BY, TIME, WATERMARK, Example, Local, Option, Spec
from streamtime.sql.changes.aggregate import APPLIED, HAD, HAS, KNOWN, NEWEST, SAME, changes, given, judged
from streamtime.sql.changes.given import ALIVE, CLOCK, OLD, REASONS
from streamtime.sql.changes.options import CLOCKS, RETENTION, output, refuse_retention
from streamtime.sql.changes.stream import over_streams
from streamtime.sql.changes.stream_totals import totals
from streamtime.sql.rows.changelog import DELETED
from streamtime.sql.rows.columns import named
from streamtime.sql.rows.outcome import explained, outcome
from streamtime.sql.udtf import judges
from streamtime.sql.udtf.totals import totals_shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

GROUP_BY = Option("group_by", Texts(), "the columns by which rows are added up", required=True, example="ARRAY('k')")
AGGREGATES = Option(
    "aggregates",
    Text(),
    f"what to compute, each with AS and a name: {', '.join(KNOWN)}",
    required=True,
    example="'count(*) AS n'",
    values="aggregates as in SQL, in quotes, with commas",
)
VERSIONED = Option("versioned", Flag(), "changes can come out of order, and are ignored then", default=False, default_text="false")


def check(call: Bound) -> None:
    """Options that do not go together."""
    refuse_retention(call, "J9", "true")


def plan(call: Bound) -> DataFrame:
    """AGGREGATE_CHANGES as a DataFrame."""
    if over_streams(call):
        return totals(call, given(call), partial(_explained, call))
    seen = judged(call)
    frame = seen.frame
    if call["output"] == "rows":
        return changes(call, seen)
    reason = F.coalesce(frame.left_out, F.when(named(OLD), "too_old").when(~named(APPLIED), "out_of_order"))
    if call["output"] == "explain":
        return _explained(call, frame, reason)
    return outcome(call, frame, reason, named(CLOCK), REASONS, {}, {})


def _explained(call: Bound, frame: Frame, reason: Column) -> DataFrame:
    did = F.when(named(SAME), "changed").when(named(HAD) & named(HAS), "moved").when(named(HAS), "added").when(named(HAD), "removed")
    did = did.when(named(ALIVE), "no_group").otherwise("nothing")
    sentences: dict[str, list[Column | str]] = {
        "added": ["Its row was put into its group."],
        "changed": ["Its row replaced the old one in the same group."],
        "moved": ["The old row was taken out of its group, and the new one put into another."],
        "removed": ["The old row was taken out of its group; ",
                    F.when(named(ALIVE), "the new one has a null in `group_by`, so it is in none.").otherwise("this is a deletion.")],
        "no_group": ["No change: it has a null in `group_by`, so it is in no group; nor was the row that it replaces, if any."],
        "nothing": ["No change: a deletion, and no row of this key was in a group."],
        "too_old": ["Ignored: older than `retention` allows, as stream time is ", named(CLOCK), "."],
        "out_of_order": ["Ignored: a newer change of this key, of ", named(NEWEST), ", came before it."],
    }  # fmt: skip
    return explained(call, frame, named(CLOCK), frame.left_out, F.coalesce(reason, did), {}, sentences)


SPEC = Spec(
    name="AGGREGATE_CHANGES",
    summary="Keeps totals of a table that is known by its changes: what each change does to the counts and sums of its groups.",
    rules="C1, C3-C6, C8-C12, J9, V8, V9 (KIP-914)",
    page=__doc__,
    plan=plan,
    check=check,
    options=(
        *(GROUP_BY, AGGREGATES, KEYS, ORDER_BY, TIME, VERSIONED, RETENTION, DELETED, CLOCKS, WATERMARK),
        *(output("the changes of the groups"), NAME),
    ),
    clauses={
        "PARTITION BY name": "the key of a row, which says what a change replaces",
        "ORDER BY offset": "the order in which changes came",
    },
    main={
        "group_by": "ARRAY('grade')",
        "aggregates": "'count(*) AS n, sum(amount) AS total'",
        "time": "'ts'",
        "deleted": "'amount IS NULL'",
    },
    adds={
        "'rows'": f"{INSTEAD}`group_by`, `clock_by` and ORDER BY columns, the aggregates (types as Spark's), "
        "`change_type` STRING (`upsert`, `delete`), `change_time` (type of the event time), `change_seq` BIGINT",
        "'dropped', 'all'": "`reason` STRING (`null_time`, `null_key`, `too_old`, `out_of_order`; null: applied), `stream_time` (type of "
        "the event time), `lateness` DOUBLE (seconds)",
        "'explain'": "`outcome` STRING (`added`, `changed`, `moved`, `removed`, `no_group`, `nothing`, or a reason), `stream_time`, "
        "`explanation` STRING",
        "'metrics'": METRICS,
    },
    local=Local(judges.aggregate_changes, details=(), changes=True, makes=totals_shape, without_key="null_key"),
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW accounts AS SELECT * FROM VALUES\n"
            "  (1, 'ann', TIMESTAMP '2024-05-01 09:00:00', 'gold', 10), (2, 'bob', TIMESTAMP '2024-05-01 09:10:00', 'gold', 5),\n"
            "  (3, 'ann', TIMESTAMP '2024-05-01 09:20:00', 'blue', 10), (4, 'bob', TIMESTAMP '2024-05-01 09:30:00', NULL, NULL)\n"
            "  AS accounts(offset, name, ts, grade, amount)",
            "SELECT offset, grade, n, total, change_type, change_seq FROM AGGREGATE_CHANGES(\n"
            "  TABLE(accounts) PARTITION BY name ORDER BY offset, time => 'ts', deleted => 'amount IS NULL',\n"
            "  group_by => ARRAY('grade'), aggregates => 'count(*) AS n, sum(amount) AS total') ORDER BY offset, change_seq",
        ),
        Example(
            "",
            "SELECT offset, name, outcome, explanation FROM AGGREGATE_CHANGES(\n"
            "  TABLE(accounts) PARTITION BY name ORDER BY offset, time => 'ts', deleted => 'amount IS NULL',\n"
            "  group_by => ARRAY('grade'), aggregates => 'count(*) AS n', output => 'explain')\n"
            "ORDER BY offset",
            "What each change did:",
        ),
    ),
)
