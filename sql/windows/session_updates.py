"""SESSION_UPDATES by Spark's own operators (rules W5, W6, C10): where no kernel can run.

What each row did to the sessions of its key says which changes it caused. Aggregates have states, which windows give where times never
fall, and a fold elsewhere, where sessions merge: they are added up in the kernel's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain.islands import AT, END, LATE, ROW, STANDS, START, WAS_END, WAS_START, with_steps
from streamtime.sql.plain.totals import total
from streamtime.sql.rows.changelog import CHANGE
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import moment
from streamtime.sql.syntax.text import quoted
from streamtime.sql.windows.membership import clocked, close
from streamtime.sql.windows.release import emitted
from streamtime.sql.windows.updates import CLOSE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.windows.updates import Changing

STATE, CAUSED, COUNT, TURN, ONE = (f"{PREFIX}{name}" for name in ("state_", "caused", "count", "turn", "change"))
BEGINS, SO_FAR, SINCE = (f"{PREFIX}{name}" for name in ("begins", "so_far", "since"))
AFTER = (CLOSE, *CHANGE)  # columns of a change after its aggregates


def plainly(call: Bound, changing: Changing) -> DataFrame:
    """The changes of a call in batch, or its final rows. Raises Unplain: an aggregate that only a kernel adds up."""
    layout, final = changing.updates.layout, call["emit"] == "final"
    fields = {f.name: f for f in changing.fields}
    schema = changing.frame.df.schema
    totals, results = [], {}
    for i, (one, _) in enumerate(layout.aggregates):
        kind = schema[one.column].dataType if one.column else T.LongType()
        made = total(f"{STATE}{i}", one, kind, fields[one.name].dataType, rising=changing.frame.in_time_order)
        totals.append(made[0])
        results[one.name] = made[1]
    frame = changing.frame
    takes_part = frame.has_time & frame.has_key
    frame, stream_time = clocked(frame, takes_part)
    frame = frame.only(takes_part)
    steps = with_steps(frame, changing.identity, call["gap"], call["grace"], totals, final)
    if final:
        change, seq = (quoted(START), quoted(END), "false"), F.size(_caused()).cast("bigint") - 1
        return emitted(call, _laid_out(steps.df.where(named(STANDS)), changing, results, change, seq), frame, named(stream_time), None)
    change = f"{quoted(ONE)}.low", f"{quoted(ONE)}.high", f"{quoted(ONE)}.gone"
    seq = named(SO_FAR) - named(SINCE) + named(TURN)
    return _laid_out(_numbered(steps, changing), changing, results, change, seq)


def _caused() -> Column:
    """The changes of a row: a delete of each session that it merges with, unless the new one is the row's time alone; then an upsert."""
    low, high, was_low, was_high, at = map(quoted, (START, END, WAS_START, WAS_END, AT))
    item = "named_struct('low', {}, 'high', {}, 'gone', {})".format
    upsert = item(low, high, "false")
    merged = f"WHEN {was_low} > {was_high} THEN array({item(low, was_high, 'true')}, {item(was_low, high, 'true')}, {upsert})"
    alone = f"WHEN {was_low} IS NULL OR ({low} = {at} AND {high} = {at}) THEN array({upsert})"
    return expression(f"CASE WHEN {quoted(LATE)} THEN NULL {alone} {merged} ELSE array({item(was_low, was_high, 'true')}, {upsert}) END")


def _numbered(frame: Frame, changing: Changing) -> DataFrame:
    """A row for each change, with how many there were before its row, and before the key's rows that share the ORDER BY columns."""
    each = Window.partitionBy(*map(named, changing.identity)).orderBy(*frame.sort(), named(ROW))
    rows = frame.df.withColumns({CAUSED: _caused(), COUNT: F.greatest(F.size(_caused()), F.lit(0))})
    begins = F.row_number().over(each) == 1
    for name in changing.updates.layout.ordered:
        begins = begins | ~named(name).eqNullSafe(F.lag(named(name)).over(each))
    before = each.rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumns({BEGINS: begins, SO_FAR: F.coalesce(F.sum(named(COUNT)).over(before), F.lit(0).cast("bigint"))})
    since = F.last(F.when(named(BEGINS), named(SO_FAR)), ignorenulls=True).over(each.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn(SINCE, since).where(~named(LATE)).select("*", F.posexplode(named(CAUSED)).alias(TURN, ONE))


def _laid_out(rows: DataFrame, changing: Changing, results: dict[str, str], change: Sequence[str], seq: Column) -> DataFrame:
    """The columns of a change (rule C10); `change` is SQL text for its bounds, and whether it is a delete."""
    fields, bounds, (low, high, gone) = changing.fields, changing.updates.layout.bounds, change
    kind = fields[-len(AFTER)].dataType
    made = {bounds[0]: expression(moment(low, kind)), bounds[1]: expression(moment(high, kind))}
    for name, text in results.items():
        made[name] = F.when(~expression(gone), expression(text))
    made["window_close"] = close(high, changing.updates.closing, kind)
    made["change_type"] = F.when(expression(gone), "delete").otherwise("upsert")
    made |= {"change_time": made[bounds[1]], "change_seq": seq}
    return rows.select(*[made.get(f.name, named(f.name)).alias(f.name, metadata=f.metadata) for f in fields])
