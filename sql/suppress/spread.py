"""Suppress without one buffer: rows spread by key, with stream time before each beside it (rules S1 to S4, S7, C7). In batch, unbounded.

The fate of a row hangs on its key's rows and one thing more: whether stream time had reached its due time before the key's next row came.
So stream time is put beside each row first, by tasks that sort ranges of the processing order; then rows go to their keys, where the next
row is looked at. What is left is when a row came out: the first stream time at or above its due time. Due times and the times at which
stream time moved are sorted together, in the same ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain import places
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import BEFORE, with_time_before
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.ranges import CUTTABLE, worth_spreading
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import HIGHEST, plus, quoted
from streamtime.udfs.suppress.buffer import ARRIVED, EMIT_REASON, EMIT_TIME, OUTCOME
from streamtime.udfs.suppress.places import Places

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.rows.ranges import Ranges
    from streamtime.sql.suppress.changelog import Changelog
    from streamtime.udfs.suppress.until import Until

AT, NEXT, TAKEN, OWN, DUE, LAST, CAME, MOMENT, ROW, FOUND, APART = (
    f"{PREFIX}{name}" for name in ("at", "next", "taken", "own", "due", "last", "came", "moment", "row", "found", "apart")
)


def spreads(call: Bound, frame: Frame) -> bool:
    """Whether a call needs no one buffer, and there are tasks enough for it to pay, or no kernel may run that has a buffer."""
    bounded = call["max_records"] is not None or call["max_bytes"] is not None
    if bounded or frame.extras.get("clock_by") or call["output"] not in ("rows", "dropped", "all"):
        return False
    if not frame.kernels:
        return True
    return isinstance(frame.order[0].ref.type, CUTTABLE) and worth_spreading(frame.df.sparkSession)


def spread(call: Bound, changelog: Changelog, until: Until, at_end: str) -> DataFrame:
    """The rows that the output asks for, with what became of them."""
    frame = changelog.frame
    moves = F.when(changelog.has_time, expression(microseconds(quoted(frame.time.name), frame.time.type)))
    rows, ranges, starts = with_time_before(frame, moves)
    rows = rows.withColumns({AT: moves, TAKEN: changelog.has_time})
    placed = _placed(call, changelog, until, rows.where(named(TAKEN)) if call["output"] == "rows" else rows)
    decided = _decided(changelog, until, at_end, placed.withColumn(LAST, F.get(starts, F.lit(ranges.count))))
    columns = list(dict.fromkeys([*(c.name for c in frame.columns), frame.time.name, frame.order[0].ref.name]))
    if call["output"] == "dropped":
        rows = decided.where(named(OUTCOME) != "released").withColumn(EMIT_TIME, F.lit(None).cast("bigint"))
    else:
        rows = _timed(decided, ranges, starts, [*columns, OUTCOME, ARRIVED, EMIT_REASON, CAME], call["output"] == "all")
    times = {name: expression(event_time(quoted(name), frame.time.type)).alias(name) for name in (ARRIVED, EMIT_TIME)}
    return rows.select(*map(named, columns), named(OUTCOME), named(EMIT_REASON), *times.values())


def _placed(call: Bound, changelog: Changelog, until: Until, rows: DataFrame) -> DataFrame:
    """The rows of each key together and in order, with the stream time before the next one, and when each is due."""
    frame, apart = changelog.frame, [] if call["output"] == "rows" else [TAKEN]
    key = [named(c) for c in (*changelog.identity, *apart)]
    following = F.lead(named(BEFORE)).over(Window.partitionBy(*key).orderBy(*frame.sort()))
    if until.close is not None:
        close = microseconds(quoted(until.close), rows.schema[until.close].dataType)
        return rows.withColumns({NEXT: following, DUE: expression(plus(close, until.after))})
    own = plus(quoted(AT), until.wait) if until.wait else f"least({quoted(AT)}, {HIGHEST - 1}L)"
    rows = rows.withColumns({NEXT: following, OWN: expression(own)})
    if not frame.kernels:
        return places.with_due(rows, [*changelog.identity, *apart], frame.sort(), BEFORE, OWN, DUE)
    return kernels.with_column(rows, DUE, Places(), [named(BEFORE), named(OWN), *key], T.LongType())


def _decided(changelog: Changelog, until: Until, at_end: str, rows: DataFrame) -> DataFrame:
    """The rows with their outcome, and with the moment in `CAME` where they came out as they arrived, or at the end."""
    reached, due = F.coalesce(named(NEXT), named(LAST)), named(DUE)
    released = (due < HIGHEST) & (reached >= due)
    ended = ~released & named(NEXT).isNull() & F.lit(at_end == "emit")
    passed = F.lit("released")
    if until.final and changelog.deleted is not None:
        passed = F.when(changelog.deleted, "tombstone").otherwise("released")
    fate = F.when(~named(TAKEN), "null_time").when(released | ended, passed)
    outcome = fate.when(named(NEXT).isNotNull(), "replaced").otherwise("held")
    arrived = F.greatest(named(BEFORE), named(AT))
    rows = rows.withColumns({OUTCOME: outcome, ARRIVED: F.when(named(TAKEN), arrived)})
    why = F.when(ended, "end").otherwise(until.reasons[0])
    came = F.when(ended, named(LAST)).when(named(ARRIVED) >= due, named(ARRIVED))
    out = named(OUTCOME) == "released"
    return rows.withColumns({EMIT_REASON: F.when(out, why), CAME: F.when(out, came)})


def _timed(rows: DataFrame, ranges: Ranges, starts: Column, columns: list[str], every: bool) -> DataFrame:
    """The rows that came out, or every row, with the moment at which that was: the first stream time at or above when they were due."""
    out = named(OUTCOME) == "released"
    late = out & named(CAME).isNull()
    row = F.struct(*map(named, columns))
    moved = named(TAKEN) & (named(BEFORE).isNull() | (named(AT) > named(BEFORE)))
    one = F.struct(F.when(late, named(DUE)).otherwise(named(ARRIVED)).alias(MOMENT), row.alias(ROW))
    other = F.struct(named(AT).alias(MOMENT), F.when(F.lit(False), row).alias(ROW))
    both = F.array(F.when(moved, other), F.when(F.lit(every) | out, one))
    moments = rows.select(F.explode(both).alias(ROW)).where(named(ROW).isNotNull()).select(f"{ROW}.*")
    bounds = F.slice(starts, 2, ranges.count - 1)
    moments = ranges.cut(moments, quoted(MOMENT), bounds, above=True).withColumn(APART, ranges.apart)
    is_row = named(ROW).isNotNull()
    falling = Window.partitionBy(named(APART)).orderBy(named(MOMENT).desc(), is_row).rowsBetween(Window.unboundedPreceding, 0)
    found = F.last(F.when(~is_row, named(MOMENT)), ignorenulls=True).over(falling)
    no_null = F.array_compact(F.array(named(ROW)))  # Spark then knows that there is a row, and which of its columns are never null
    made = moments.withColumn(FOUND, found).select(named(FOUND), F.inline(no_null))
    return made.withColumn(EMIT_TIME, F.when(out, F.coalesce(named(CAME), named(FOUND))))
