"""Joins two tables that are known by their changes, and keeps the join up to date: what each change does to it.

## In a picture

```text
offset          0         1         2         3         5
orders                    tea 3     tea 5               tea cancelled
prices          tea 2.50                      tea 2.80
the join                  3, 2.50   5, 2.50   5, 2.80   deleted
```

## What it does

Each side is a table, told by its changes: a row replaces the row of its key on its side, a deletion removes it. Changes of both sides are
taken in one order: by `ORDER BY`, whose first expression on the left goes with the first on the right, and so on. Of equal ones the left
row is first (J7).

- **What comes out**: if the join has a row for the key after a change, that row leaves as an `upsert`. If it had one before and has none
  now, a `delete` leaves. Else nothing does. So the last change of each key is its row of the join as both tables are in the end.
- **Which rows the join has**: `join_type => 'inner'` has those that both sides have, `'left'` all of the left side, `'outer'` all of
  both.
- **The other side is taken as it is now**, never as of a time: that is AS_OF_JOIN.
- **Foreign keys**: `on => 'l.product_id'` names the columns of the left side that name the key of a right row, several with commas.
  `PARTITION BY` of the left side is then its own key. The join has one row for each left key; a change on the right changes all left rows
  that name it. A left row that names another one now withdraws its old match. A null names nothing. `join_type` is `'inner'` or `'left'`
  (J8).
- **Changes out of order**: without `versioned`, changes apply as they come, older ones too. `versioned => ARRAY('left', 'right')` names
  sides where the newest time counts. There, a change that is older than the newest one of its key, a deletion included, is ignored as
  `out_of_order`. One of equal time replaces. With `retention`, one that is older than stream time less `retention` is ignored as
  `too_old`. Stream time is the largest time of that side so far.
- **Deletions** are rows that `deleted` marks; without it those whose `change_type`, or Delta's `_change_type`, is `'delete'`. `deleted`
  is looked at on each side that has its columns. Rows of Delta's `update_preimage` are no changes, and are left out first.
- **The columns** (C10): keys and ORDER BY columns of the row that caused the change, named as on the left, the left side's other columns,
  the right side's, `change_type`, `change_time` (the larger of the row's time and that of the other side's row, if there is one) and
  `change_seq` (0, 1, .. over the changes of a key that share the ORDER BY columns). Of a delete, the columns of both sides are null. Left
  out are: the column of `time`, for `change_time`; a column that is all of `deleted`; `change_*` columns of the inputs, and those that
  Delta adds to a change feed. Other columns of one name are an error: rename one of them.
- **Joins of joins**: a result can be a side again, with `ORDER BY (offset, change_seq), time => 'change_time'`. The other side then needs
  `0 AS change_seq`, and its time as `change_time`.

Event time is the first `ORDER BY` expression unless `time` names another, which both sides must have.

`output => 'dropped'` has the changes that were ignored, `'all'` all of them: key, ORDER BY columns, the time, the columns of both sides,
those of the other side null, then `side` and the reason. `output => 'explain'` says in a sentence what each change did. It `joined`;
stands `alone` (its row has no match, or lost it); `withdrew` the join's row; `waits` for the other side; changed `nothing`; or was
ignored, and why. With `on` these have the right side's keys, too, and a change of the right side tells how many left rows it changed.

## Nulls, ties, late rows, empty input

- **Null time**, or null in the first `ORDER BY` expression: ignored as `null_time`. **Null key**: ignored as `null_key` (C12).
- **Ties** in `ORDER BY` are broken by the side, left first, then by the remaining columns, left to right, ascending, nulls first (C4).
- **Late rows**: see above, changes out of order. **Empty input**: both sides empty give an empty result; if one is, an inner join is
  empty.

## On a stream

```text
what comes                            what leaves at once
micro-batch 1: an order of 3 tea      nothing, with an inner join: tea has no price yet
micro-batch 2: tea costs 2.50         3 tea at 2.50
micro-batch 3: the order is of 5      5 tea at 2.50
```

The same call works where both tables are streams of changes. A table as it stands cannot be a side: read its change feed as a stream.
Spark reads streams in micro-batches: some new rows at a time. Each change leaves with the micro-batch that brought it. Nothing waits.

- **In which order**: the changes of one micro-batch are taken in the order of `ORDER BY`, micro-batches as they come. If they come in that
  order, too, the result is that of batch (C5). If not, a change applies when it comes; of a versioned side it may then be dropped as
  `out_of_order` or `too_old`.
- **Stream time** is the watermark: how far all earlier micro-batches came, less a delay. There is one for both sides, that of the side
  that is further behind. So no change is `too_old` because the other side is ahead. `watermark => INTERVAL 5 MINUTES` sets the delay of
  sides that have no watermark of their own.
- **What is remembered**: each key's row of either side, in RocksDB, as long as the row is there, whatever `retention` is. So the state
  grows with the number of keys. A deletion is forgotten once stream time has passed it; on a versioned side, once it has passed it by
  `retention`; without `retention`, never, since an older change may always come.
- **Numbers go on**: `change_seq` counts a key's changes of one place on, if they come in several micro-batches.
- **With `on`**, rows go by the left key, then by the key that they name, then by the left key again: three states, where a call without it
  has one. The first has what each left row names; the second the right rows, and for each the keys of the left rows that name it; the
  third the left rows. So a right row that many name is one large group in the second: each micro-batch that touches it writes the keys
  of all that name it anew.
- **What follows**: another call in the same query can take the result as a side, as in batch. A window aggregate of Spark cannot, and
  says so: `change_time` may lie behind the watermark.
- **Metrics** are in `observedMetrics` of the query's progress. With `on`, those of the right side are under the name with `_right`
  behind it.
- **Reports**: the outputs work as in batch. `'dropped'` and `'all'` have one state, `'explain'` with `on` three, as the changes have. What
  is ignored is counted under the name itself, of both sides.
- **Errors**: `clock_by`, `output => 'metrics'`, keys and ORDER BY columns with a collation, columns of year-month intervals, an option,
  which the error names, or columns that are not what they were when the checkpoint was made.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). Its last change of each key is the row of a join of both
tables as they are in the end. Changes that gave a change, changes that did not, and ignored ones are together the input.

## Related functions, and the same thing elsewhere

- AS_OF_JOIN joins each row with the other side as it was at the row's time. AGGREGATE_CHANGES and FILTER_CHANGES take the result.
  [Changelogs](../changelogs.md) shows them together.
- **Kafka Streams**: a join of two KTables, by key or by foreign key, versioned as by KIP-914. Kafka also deletes rows that never were.
  And it gives a change of a foreign-key join by the right side the time of its row alone, so that who takes the newest time could miss
  it.
- **Flink SQL**: a regular join of two updating tables.
- **Plain Spark**: a join of two snapshots, which says how things are, not what changed. Joins of streams in Spark do not know updates.

## Memory and state

Spark's own windows over each key, in one shuffle; no Python. Changes are sorted before it and merged behind it, both of which spill to
disk. With `on`, both sides are shuffled by their keys, joined, and the result by the left key; each pair of a left row and a right row of
one name is looked at; `'explain'` brings what each change did back to its row by one more join. Where `time` is not the first ORDER BY
expression, `retention` costs another shuffle and sort of each versioned side for its stream time, and so do the outputs other than
`'rows'`: then the changes are computed twice, else once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.call.errors import did_you_mean
from streamtime.sql.call.kinds import Choice, Text, Texts
from streamtime.sql.call.spec import FOLLOWS_CLOCK, INSTEAD, KEYS, METRICS, NAME, ORDER_BY, TIME, WATERMARK, Example, Option, Spec
from streamtime.sql.changes import foreign
from streamtime.sql.changes.foreign_stream import by_foreign_key
from streamtime.sql.changes.foreign_stream_told import reported
from streamtime.sql.changes.foreign_told import told
from streamtime.sql.changes.given import ALIVE, CLOCK, OLD, REASONS
from streamtime.sql.changes.join import APPLIED, NEWEST, SIDES, Joined, changes, has_deleted
from streamtime.sql.changes.join import TIME as OF_CHANGE
from streamtime.sql.changes.options import CLOCKS, RETENTION, output, refuse_retention
from streamtime.sql.changes.stream import HAD, HAS, OTHER, SIDE_NAME, over_streams
from streamtime.sql.changes.stream import joined as on_streams
from streamtime.sql.rows.changelog import DELETED, change_columns
from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.outcome import explained, outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

TYPE, AT = f"{PREFIX}type", f"{PREFIX}at"
JOIN_TYPE = Option(
    "join_type",
    Choice(words=("inner", "left", "outer")),
    "'inner': rows that both sides have; 'left': all of the left side; 'outer': all of both",
    default="inner",
    default_text="'inner'",
)
ON = Option(
    "on",
    Text(),
    "the left side's columns that name a row of the right side (a foreign key), where the sides have keys of their own",
    default_text="none: both sides have one key",
)
VERSIONED = Option(
    "versioned",
    Texts(),
    "sides where the newest time counts: changes that come out of order are ignored there",
    default_text="none: changes apply as they come",
    values="an array of 'left', 'right', or both",
)
CLOCKS_OF_BOTH = replace(CLOCKS, help=f"{CLOCKS.help}, which are among the left keys")


def check(call: Bound) -> None:
    """Options that do not go together."""
    for side in call["versioned"] or ():
        if side not in SIDES:
            fix = did_you_mean(side, SIDES) or "Write it as versioned => ARRAY('left', 'right')."
            raise call.refuse("`versioned`", f"expected 'left' or 'right', got '{side}'", fix)
    refuse_retention(call, "J7", "ARRAY('left')")
    if call["on"] and call["join_type"] == "outer":
        raise call.refuse(
            "`join_type`", "'outer' is not possible with `on`: its rows have the left side's key (J8)", "Write 'inner' or 'left'."
        )


def plan(call: Bound) -> DataFrame:
    """JOIN_CHANGES as a DataFrame."""
    streaming = over_streams(call)
    if call["deleted"] and not any(has_deleted(call, place) for place in (0, 1)):
        raise call.refuse("`deleted`", f"Spark cannot resolve `{call['deleted']}` over any side", "Name a column that a side has.")
    if streaming:
        return _by_foreign_key_on_streams(call) if call["on"] else on_streams(call, partial(_explained_on_streams, call))
    if call["on"]:
        return _by_foreign_key(call)
    joined = changes(call)
    frame = joined.frame
    if call["output"] == "rows":
        return _changed(call, joined)
    ordered = F.when(named(OLD), "too_old").when(~named(APPLIED), "out_of_order")
    reason = F.coalesce(frame.left_out, ordered)
    if call["output"] == "explain":
        return _explained(call, joined, reason)
    return outcome(call, frame, reason, named(CLOCK), REASONS, {}, {})


def _by_foreign_key_on_streams(call: Bound) -> DataFrame:
    return by_foreign_key(call) if call["output"] == "rows" else reported(call)


def _by_foreign_key(call: Bound) -> DataFrame:
    both = foreign.judged(call)
    if call["output"] == "rows":
        return foreign.changes(call, both)
    left_out = F.when(~both.frame.has_time, "null_time").when(named(OF_CHANGE).isNull(), "null_key")
    ignored = F.when(named(OLD), "too_old").when(~named(APPLIED), "out_of_order")
    if call["output"] == "explain":
        return told(call, both, left_out, ignored)
    return outcome(call, both.frame, F.coalesce(left_out, ignored), named(CLOCK), REASONS, {}, {})


def _explained(call: Bound, joined: Joined, reason: Column) -> DataFrame:
    has, had = (_present(call, joined, now=now) for now in (True, False))
    other, time = F.when(joined.of(0), SIDES[1]).otherwise(SIDES[0]), _time_of_other(joined)
    return _told(call, joined.frame, reason, has, had, joined.alive(), other, time)


def _explained_on_streams(call: Bound, frame: Frame, reason: Column) -> DataFrame:
    other = F.when(named(SIDE_NAME) == SIDES[0], SIDES[1]).otherwise(SIDES[0])
    return _told(call, frame, reason, named(HAS), named(HAD), named(ALIVE), other, named(OTHER))


def _told(call: Bound, frame: Frame, reason: Column, has: Column, had: Column, alive: Column, other: Column, time: Column) -> DataFrame:
    """What each change did to the join, which `has` a row then, and `had` one before; `time` is that of the row of the `other` side."""
    did = F.when(has & alive & time.isNotNull(), "joined").when(has, "alone").when(had, "withdrew")
    did = did.when(alive, "waits").otherwise("nothing")
    sentences: dict[str, list[Column | str]] = {
        "joined": ["Upsert: its row and that of the ", other, " side, of ", time, ", are the row of the join now."],
        "alone": [F.when(alive, "Upsert: its row stands without one of the ").otherwise("Upsert: it leaves alone the row of the "),
                  other, " side."],
        "withdrew": ["Delete: the join had a row of this key, and has none now."],
        "waits": ["No change: the ", other, " side has no row of this key."],
        "nothing": ["No change: a deletion, and the join had no row of this key."],
        "too_old": ["Ignored: older than `retention` allows, as stream time of its side is ", named(CLOCK), "."],
        "out_of_order": ["Ignored: a newer change of this key and side, of ", named(NEWEST), ", came before it."],
    }  # fmt: skip
    return explained(call, frame, named(CLOCK), frame.left_out, F.coalesce(reason, did), {}, sentences)


def _present(call: Bound, joined: Joined, *, now: bool) -> Column:
    """Whether the join has a row, after a change or before it."""
    left, right = (joined.there(place, now=now) for place in (0, 1))
    return {"inner": left & right, "left": left, "outer": left | right}[call["join_type"]]


def _time_of_other(joined: Joined) -> Column:
    return F.when(joined.of(0), joined.time_of(1)).otherwise(joined.time_of(0))


def _changed(call: Bound, joined: Joined) -> DataFrame:
    frame, own = joined.frame, joined.own
    kind = F.when(_present(call, joined, now=True), "upsert").when(_present(call, joined, now=False), "delete")
    made = frame.df.withColumns({TYPE: kind, AT: F.greatest(joined.time(), _time_of_other(joined))})
    made = made.where(named(APPLIED) & named(TYPE).isNotNull())
    upsert = named(TYPE) == "upsert"
    columns = [
        (_value(joined, upsert, *own[c.name]) if c.name in own else c.column).alias(original)
        for c, original in zip(frame.columns, frame.originals, strict=True)
    ]
    seq = F.row_number().over(joined.runs.each_place(joined.ordered)) - 1
    return made.select(*columns, *change_columns(named(TYPE), named(AT), seq))


def _value(joined: Joined, upsert: Column, place: int, field: str) -> Column:
    return F.when(upsert & joined.there(place, now=True), joined.now(place, field))


def across_keys_of(given: Mapping[str, Any], _in_time_order: bool) -> str:
    """By key, unless it forgets, or a row of the right side is in many rows."""
    if given.get("on") is not None:
        return "a change of the right side changes rows of many keys"
    return FOLLOWS_CLOCK if given.get("retention") is not None else ""


SPEC = Spec(
    name="JOIN_CHANGES",
    summary="Joins two tables that are known by their changes, and keeps the join up to date: what each change does to it.",
    rules="C1, C3-C6, C8-C12, J7, J8, V9 (KIP-914)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_of,
    check=check,
    tables=2,
    options=(
        *(JOIN_TYPE, ON, KEYS, ORDER_BY, TIME, VERSIONED, RETENTION, DELETED, CLOCKS_OF_BOTH, WATERMARK),
        *(output("the changes of the join"), NAME),
    ),
    clauses={
        "PARTITION BY product": "on each side: the key of its rows",
        "ORDER BY offset": "on each side: the order in which changes came, one for both",
    },
    main={
        "join_type": "'left'",
        "time": "'ts'",
        "deleted": "'amount IS NULL'",
        "versioned": "ARRAY('left', 'right')",
    },
    adds={
        "'rows'": f"{INSTEAD}keys and ORDER BY columns, the left side's other columns, the right side's, "
        "`change_type` STRING (`upsert`, `delete`), `change_time` (type of the event time), `change_seq` BIGINT",
        "'dropped', 'all'": "the same without `change_*`, with the time before the left side's columns, then `side` STRING (`left`, "
        "`right`), `reason` STRING (`null_time`, `null_key`, `too_old`, `out_of_order`; null: applied), `stream_time` (type of the event "
        "time), `lateness` DOUBLE (seconds)",
        "'explain'": "the columns of 'all' up to `side`, then `outcome` STRING (`joined`, `alone`, `withdrew`, `waits`, `nothing`, or a "
        "reason), `stream_time`, `explanation` STRING",
        "'metrics'": METRICS,
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES\n"
            "  (1, 'tea', TIMESTAMP '2024-05-01 09:00:00', 3), (2, 'tea', TIMESTAMP '2024-05-01 09:10:00', 5),\n"
            "  (5, 'tea', TIMESTAMP '2024-05-01 09:20:00', NULL) AS orders(offset, product, ts, amount);\n"
            "\n"
            "CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES\n"
            "  (0, 'tea', TIMESTAMP '2024-05-01 08:00:00', 2.50),\n"
            "  (3, 'tea', TIMESTAMP '2024-05-01 09:15:00', 2.80) AS prices(offset, product, ts, price)",
            "SELECT offset, product, amount, price, change_type FROM JOIN_CHANGES(TABLE(orders) PARTITION BY product ORDER BY offset,\n"
            "  TABLE(prices) PARTITION BY product ORDER BY offset, time => 'ts', deleted => 'amount IS NULL') ORDER BY offset",
        ),
        Example(
            "",
            "SELECT offset, side, outcome, explanation FROM JOIN_CHANGES(TABLE(orders) PARTITION BY product ORDER BY offset,\n"
            "  TABLE(SELECT * FROM prices UNION ALL SELECT 4, 'tea', TIMESTAMP '2024-05-01 08:30:00', 2.60)\n"
            "    PARTITION BY product ORDER BY offset,\n"
            "  time => 'ts', versioned => ARRAY('right'), deleted => 'amount IS NULL', output => 'explain') ORDER BY offset",
            "Number 4 is a price that comes late. Prices are a side whose newest time counts. What each change did:",
        ),
        Example(
            "CREATE OR REPLACE TEMP VIEW lines AS SELECT offset, line, timestamp_seconds(offset) AS ts, product FROM VALUES\n"
            "  (2, 'a', 'tea'), (3, 'b', 'tea'), (5, 'a', 'milk'), (6, 'c', NULL) AS t(offset, line, product);\n"
            "\n"
            "CREATE OR REPLACE TEMP VIEW goods AS SELECT offset, id, timestamp_seconds(offset) AS ts, name FROM VALUES\n"
            "  (1, 'tea', 'black'), (4, 'tea', 'green'), (7, 'tea', NULL) AS t(offset, id, name)",
            "SELECT offset, side, line, id, outcome, explanation FROM JOIN_CHANGES(TABLE(lines) PARTITION BY line ORDER BY offset,\n"
            "  TABLE(goods) PARTITION BY id ORDER BY offset, on => 'l.product', time => 'ts', deleted => 'name IS NULL',\n"
            "  output => 'explain') ORDER BY offset",
            "A foreign key: lines name a product. A change of a product changes all lines that name it:",
        ),
    ),
)
