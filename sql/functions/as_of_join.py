"""Joins each row with what another table said at the row's own time: use it for the price when the order came.

## In a picture

```text
tea prices    09:00 2.50 ------------------> 12:00 2.80 ------------->
orders                   10:00 |                   | 12:00
                               2.50                2.80
an order looks back to the newest price of its product that is not newer than itself
```

## What it does

The right side holds versions: a row says what holds from its time on, until the next row of its key. Each left row gets the right row of
its key with the largest time at or before its own (J1). If there is none, `join_type => 'inner'` drops the row, and `'left'` keeps it
with nulls. The result has the columns of the left side, then those of the right side, as any join.

Before you use this function, look at the two shorter ways to write it. The first one is for any table. The second one is for a Delta
table that declares its versions ([versioned tables](../versioned.md)):

```text
FROM orders o LEFT ASOF JOIN prices p MATCH_CONDITION (o.ts >= p.since) ON o.item = p.item
FROM orders o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts p ON o.item = p.item
```

Over a Delta table with a change feed that declares nothing, the second one asks what the table held by the times of its **commits**: an
order that is older than its first commit finds nothing.

In the form of a function there are four ways to say what is joined:

- **By clauses**: `AS_OF_JOIN(TABLE(l) PARTITION BY k ORDER BY ts, TABLE(r) PARTITION BY k ORDER BY ts)`. The first `PARTITION BY`
  expression of the left side goes with the first of the right, and so on. The first `ORDER BY` expression of each side is its time.
- **By a condition**: `on => 'l.k = r.k AND r.price > 0', match => 'l.ts >= r.ts'`, with aliases that are given inside `TABLE(SELECT *
  FROM orders l)`. Equalities of the two sides are the keys; one with a constant is a condition like any other. With `match`, the rest of
  the condition says which right rows can be found, as in Spark's own ASOF JOIN. With `ORDER BY` or `history` it is looked at **after** a
  version was found: then an inner join drops the row, a left join nulls the right side.
- **By a table's history**: `history => 'prices', at => 'l.ts'`, which is what `FOR SYSTEM_TIME AS OF` becomes. A Delta table that
  declares that it is versioned is looked up in its event time; any other in the times of its commits, as TABLE_HISTORY reads them. `unit
  => 'version'` says that `at` is the number of a commit.
- **By names**: `using => ARRAY('k')`, or `keys` and `order_by`, where both sides have columns of the same names. With `using` the result
  has them once.

What counts as a match (J4):

- `direction => 'forward'` looks for the first right row at or after the left row's time; `'nearest'` for the nearer of both, and for the
  earlier one if they are equally near.
- `tolerance => INTERVAL 1 DAY` says how far a match may lie, that distance included. `allow_exact => false` leaves out right rows of the
  very same time.
- `ties` says which of several right rows of one key and time counts: the `'last'` or the `'first'` by the right side's further `ORDER BY`
  expressions, then its remaining columns. `'error'` fails the query where a match depends on it.
- `deleted => 'price IS NULL'` marks right rows that delete their key: looking back, a row that comes upon one finds nothing; `'forward'`
  and `'nearest'` pass over them. A right side that is a versioned table (with filters, projections and views over it) has them marked as
  the table declares (`streamtime.deleted`).

**What is known now, or what was known then?** Without `arrival`, the join looks at all of the right side: a price that was recorded a day
late counts for the orders of that day (J6). With `arrival => 'offset'`, an expression that both sides have in one common order, only
right rows that had arrived **before** the left row count (J5). That is what was known at that moment, so a training set does not leak the
future. Of right rows of one time the later arrival counts. With `arrival` there are also:

- `retention`: the right side forgets. A right row that is older than its stream time (the largest right time so far) less `retention`
  never existed, and a lookup that is older than that finds the current version or none.
- `grace`: a left row waits until the largest left time is `grace` past its own, and sees what has arrived before the row that lets it go.
  `at_end` says what becomes of rows that still wait when the input ends. `clock_by` runs both clocks apart for values of some keys.

## Nulls, ties, late rows, empty input

- **Null key or null time on the left** never matches: an inner join drops the row (`null_key`, `null_time`), a left join keeps it (J3).
  On the right, such a row is no version.
- **Keys** are compared as `=` does: their types must be equal, or both numbers, and so must the parts of structs and arrays, whatever
  fields are called. The same holds of `arrival`. Times must be of one type.
- **Late rows**: none without `arrival`. A null `arrival` on the left has seen nothing; on the right it never arrived.
- **Rows that are dropped** for other reasons (J2): `no_match`; `expired`, if only `retention` hid a match; `held`, with `at_end =>
  'hold'`; `before_history`, if a table is looked up by its commits, and the time lies before the first of them.
- **Empty input**: on the left it gives an empty result, on the right no match.

## On a stream

The left side may be a stream, the right side a table: each micro-batch is joined with what the table holds by then, so a versioned Delta
table that other queries write into gives each micro-batch its newest history. With `grace` a left row waits in the state until the
watermark has reached its time and `grace` (C5), and looks up what is there then. If no right row comes later than that, the result is
that of batch. `arrival`, `retention`, `at_end`, `clock_by` and `output => 'metrics'` are errors.

**Both sides** may be streams. A left row waits until the watermark has reached its time and `grace`, and meets the versions that have
come by then. If no right row is later than `grace`, the result is that of batch once the watermark has passed, however the rows are cut
(C5). `retention`, required there, says how far back versions reach: the state has each key's newest version, older ones for so long after
they ended, and rows that wait. A left row that comes later is `expired`, unless its version is the newest. The watermark is one for both
sides, so an idle side holds nothing up ([more](../as_of.md#two-streams)). `'forward'`, `'nearest'`, `ties => 'error'` and right ORDER BY
columns with a collation are errors there. Rows that have waited leave behind the watermark: a window aggregate that follows is refused by
Spark.

**Idle streams**: where both sides fall silent, the watermark stands still, and the last rows wait. `clock => 'wall'` takes the time of
day as stream time instead (S10): a row leaves once the clock has passed its time by `grace`. A right row that is older than `retention`
by that clock still counts if nothing newer of its key is known. Event time must then be a TIMESTAMP. Such a query never ends by itself:
start it with a trigger of processing time, not `availableNow`. Rows of long ago do not wait, so it is not for a stream that is read again
from its beginning. With a table on the right it needs `grace`.

## Guarantees

The result depends on the rows alone, not on files, partitions or cores (C4). With an inner join, the rows that pass and those that are
dropped are together exactly the left rows (C6). Left columns keep name, type, nullability and metadata (C9). Around the call, `l.k` and
`r.k` can be said if the alias was given inside `TABLE(..)` and the call has none of its own; over Spark Connect they cannot. There is no
Python UDTF: Spark's take one TABLE argument.

## Related functions, and the same thing elsewhere

- VERSIONS gives each right row its `valid_from` and `valid_to`, for joins that you write yourself. TABLE_HISTORY does so by commit.
- JOIN_CHANGES joins two lists of changes, each change with the other side as it is now, rather than as it was.
- **Kafka Streams**: a join of a stream with a versioned table, by KIP-914; `grace` is that of KIP-923.
- **Flink SQL**: `JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON ..`, the same words, on streams.
- **Plain Spark**: from Spark 4.3 on `ASOF JOIN`. Before, `LEFT JOIN LATERAL (SELECT .. WHERE p.ts <= o.ts ORDER BY p.ts DESC LIMIT 1)`,
  or `lead` and a join by an interval.
- **DuckDB**: `ASOF JOIN`. **Polars** and **pandas**: `join_asof`, `merge_asof`.

## Memory and state

Both sides are sorted by all cores, go through one shuffle and are merged by key and time; a window then carries the newest right row
along. No key is too hot: one right row is held at a time, and Spark spills what does not fit into memory of a key's rows. `'nearest'` may
sort once more. Each side is computed once; with `retention` or `grace` twice, or more often. With `arrival` a kernel takes keys, times and
arrivals (17 bytes of memory for each version of the key at hand) and says which right row each left row sees; `retention` needs exact
stream time, one more shuffle; `grace` orders the left side's times, in one task per value of `clock_by`, and without it in as many as
there are. On a stream without `grace` there is no state; the right side is read and sorted with every micro-batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from streamtime.sql.as_of.both_streams import looked_up_in_streams
from streamtime.sql.as_of.known_as_of import known_as_of
from streamtime.sql.as_of.lookup import BACKWARD, MATCH, field, looked_up, refuse_longer_than_retention
from streamtime.sql.as_of.options import OPTIONS
from streamtime.sql.as_of.sides import Sides, clock_keys, sides, without_tables
from streamtime.sql.as_of.stream import looked_up_in_stream, over_stream
from streamtime.sql.call.errors import gist, unlogged
from streamtime.sql.call.spec import METRICS, Example, Spec, across_keys_with, refuse_wall
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.outcome import REPORT, lateness, outcome
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.call.values import Origin
    from streamtime.sql.rows.frame import Frame

REASONS = ("null_time", "null_key", "no_match", "expired", "held")
BEFORE = "before_history"  # a time before the first commit, where commits are asked
FLAG, WHY = f"{PREFIX}flag", f"{PREFIX}why"
NEEDS_ARRIVAL = {
    "retention": "what was retained depends on what had arrived",
    "grace": "in batch, what a row waits for is what arrives after it",
    "clock_by": "clocks run in order of arrival",
    "at_end": "rows wait for what arrives after them",
}


def check(call: Bound) -> None:
    """Options that do not go together."""
    if not call.tables[0].df.isStreaming:
        refuse_wall(call)
    if not call["arrival"]:
        for name, why in {} if call.tables[0].df.isStreaming else NEEDS_ARRIVAL.items():
            if call[name] is not None:
                fix = "Add arrival => 'offset', an expression that both sides have."
                raise call.refuse(f"`{name}`", f"needs `arrival`: {why} (J5)", fix)
        return
    if call["direction"] not in (None, BACKWARD):
        problem = f"'{call['direction']}' does not go with `arrival`: what is known lies behind (J5)"
        raise call.refuse("`direction`", problem, "Leave one out.")
    if call["ties"] not in (None, "last"):
        problem = f"'{call['ties']}' does not go with `arrival`: of equal times the later arrival wins (J5)"
        raise call.refuse("`ties`", problem, "Leave one out.")
    refuse_longer_than_retention(call)
    if call["at_end"] and call["grace"] is None:
        raise call.refuse("`at_end`", "needs `grace`: without it no row waits", "Leave it out, or add grace => INTERVAL 5 MINUTES.")


def plan(call: Bound) -> DataFrame:
    """AS_OF_JOIN as a DataFrame."""
    streaming = over_stream(call)
    both = sides(call)
    shared: dict[str, str] = {}
    why = hidden = F.lit(None).cast("string")
    if streaming and call.tables[1].df.isStreaming:
        left, why = looked_up_in_streams(call, both)
    elif streaming:
        left = looked_up_in_stream(call, both)
    elif call["arrival"]:
        left, shared, hidden = known_as_of(call, both, clock_keys(call, both.left))
    else:
        left, shared = looked_up(call, both)
        if both.begins is not None:
            why = F.when(expression(f"{microseconds(quoted(left.time.name), left.time.type)} < {both.begins}L"), BEFORE)
    rights = _right_columns(both, shared)
    if both.rest:
        left = _where(call, both, left, rights)
    if call["arrival"]:  # a row that would have found nothing anyway did not lose it to `retention` (J2)
        df = left.df.withColumn(WHY, F.when(named(MATCH).isNotNull() | (hidden == "held"), hidden))
        left, why = left.with_df(df.withColumn(MATCH, F.when(hidden.isNull(), named(MATCH)))), named(WHY)
    return _outcome(call, both, left, rights, why)


def _where(call: Bound, both: Sides, left: Frame, rights: list[Column]) -> Frame:
    """With MATCH only where the rest of ON holds, which reads the columns of both sides by their own names (rule J1)."""
    names = left.df.columns
    inside = [named(n).alias(f"{PREFIX}inside_{i}") for i, n in enumerate(names)]
    columns = left.original(), rights
    origins = [(side, i) for side in (0, 1) for i in range(len(columns[side]))]

    def flagged(rest: str, others: dict[Origin, str]) -> DataFrame:
        copies = [columns[side][i].alias(name) for (side, i), name in others.items()]
        both_sides = call.as_inputs(left.df.select(*columns[0], *columns[1], *inside, *copies), origins, False)
        with unlogged():
            judged = both_sides.select("*", expression(rest).alias(FLAG)).drop(*others.values())
            judged.schema  # noqa: B018 - over Spark Connect, what is wrong shows only when this is asked
        return judged

    try:
        judged = flagged(both.rest, {})
    except AnalysisException as error:
        try:
            judged = flagged(*without_tables(call, both))
        except AnalysisException:
            raise call.refuse("`on`", f"Spark cannot resolve `{both.rest}` over the two sides: {gist(error)}") from None
    outside = [f"{PREFIX}out_{i}" for i in range(len(origins))]
    df = judged.toDF(*outside, *names, FLAG).drop(*outside)
    return left.with_df(df.withColumn(MATCH, F.when(named(FLAG), named(MATCH))))


def _right_columns(both: Sides, shared: dict[str, str]) -> list[Column]:
    """The right side's columns in a match, null where there is none."""
    matched, columns = named(MATCH).isNotNull(), both.right.columns
    values = [F.when(matched, named(shared[c.name])) if c.name in shared else field(MATCH, c.name) for c in columns]
    return [value.alias(name) for value, name in zip(values, both.right.originals, strict=True)]


def _outcome(call: Bound, both: Sides, left: Frame, rights: list[Column], why: Column) -> DataFrame:
    """The output that the call asks for (rules C6, J1 to J3)."""
    wanted, inner = call["output"], call["join_type"] != "left"
    matched = named(MATCH).isNotNull()
    reason, stream_time = F.lit(None).cast("string"), left.time.column
    if inner:
        reason = F.when(~matched, F.coalesce(left.left_out, why, F.lit("no_match")))
    elif call["at_end"] == "hold":
        reason = F.when(why == "held", why)
    if wanted in ("dropped", "metrics"):
        reasons = REASONS if both.begins is None else (*REASONS, BEFORE)
        return outcome(call, left, reason, stream_time, reasons, {}, {})
    first = [call.names.among(u, left.originals)[0] for u in both.using]
    order: list[Origin] = [(0, i) for i in first + [i for i in range(len(left.originals)) if i not in first]]
    order += [(1, i) for i, n in enumerate(both.right.originals) if not call.names.among(n, both.using)]
    columns = left.original(), rights
    picked = [columns[table][i] for table, i in order]
    if wanted == "all":
        report = {"reason": reason, "stream_time": F.when(left.has_time, stream_time), "lateness": lateness(left, stream_time)}
        return call.as_inputs(left.df.select(*picked, *[report[n].alias(n) for n in REPORT]), order, False)
    rows = left.df.where(matched) if inner else left.df
    if not inner and call["at_end"] == "hold":
        rows = rows.where(reason.isNull())
    return call.as_inputs(rows.select(*picked), order, inner)


SPEC = Spec(
    name="AS_OF_JOIN",
    summary="Joins each row with what another table said at the row's own time: use it for the price when the order came.",
    rules="C1, C4-C9, C11, C12, J1-J6, S10 (KIP-914)",
    page=__doc__,
    plan=plan,
    across_keys=across_keys_with("arrival", "retention", "grace"),
    check=check,
    tables=2,
    qualified=True,
    ordered=False,
    options=OPTIONS,
    clauses={
        "PARTITION BY item": "on each side: the key, by which rows belong together",
        "ORDER BY ts": "on each side: the time",
    },
    main={
        "join_type": "'left'",
        "tolerance": "INTERVAL 1 DAY",
        "arrival": "'offset'",
    },
    adds={
        "'rows'": "the left side's columns, then the right side's; those of `using` once, and first",
        "'dropped'": "the left side's columns, then `reason` STRING (`null_time`, `null_key`, `no_match`, `expired`, `held`, "
        "`before_history`), `stream_time` (the row's own time), `lateness` DOUBLE (seconds)",
        "'all'": "the columns of `'rows'`, null where there is no match, then those of `'dropped'`, null where the row passed",
        "'metrics'": METRICS,
    },
    examples=(
        Example(
            "CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES\n"
            "  ('tea', TIMESTAMP '2024-05-01 09:00:00', 2.50), ('tea', TIMESTAMP '2024-05-01 12:00:00', 2.80),\n"
            "  ('jam', TIMESTAMP '2024-05-01 13:00:00', 4.00) AS prices(item, since, price);\n"
            "\n"
            "CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM VALUES\n"
            "  (1, 'tea', TIMESTAMP '2024-05-01 10:00:00'), (2, 'tea', TIMESTAMP '2024-05-01 12:00:00'),\n"
            "  (3, 'jam', TIMESTAMP '2024-05-01 12:00:00') AS orders(id, item, ts)",
            "SELECT id, ts, since, price FROM AS_OF_JOIN(TABLE(orders) PARTITION BY item ORDER BY ts,\n"
            "  TABLE(prices) PARTITION BY item ORDER BY since, join_type => 'left') ORDER BY id",
        ),
        Example(
            "",
            "SELECT id, ts, since, price\n"
            "FROM orders o LEFT ASOF JOIN prices p MATCH_CONDITION (o.ts >= p.since) ON o.item = p.item ORDER BY id",
            "The same as a join:",
        ),
        Example(
            "",
            "SELECT p.item, p.since, before.price AS before, p.price\n"
            "FROM AS_OF_JOIN(TABLE(SELECT * FROM prices p), TABLE(SELECT * FROM prices before),\n"
            "                on => 'p.item = before.item AND before.price < p.price', order_by => ARRAY('since'),\n"
            "                allow_exact => false)",
            "By a condition. Each price with the one before it, if that was lower:",
        ),
    ),
)
