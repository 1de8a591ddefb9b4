"""Suppress without one buffer: rows spread by key, with stream time before each beside it (rules S1 to S4, S7, C7). In batch, unbounded.

The fate of a row hangs on its key's rows and one thing more: whether stream time had reached its due time before the key's next row came.
So stream time is put beside each row first, by tasks that sort ranges of the processing order; then rows go to their keys, where the next
row is looked at. What is left is when a row came out: the first stream time at or above its due time. Due times and the times at which
stream time moved are sorted together, in the same ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain import places
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import BEFORE, with_time_before, with_time_before_by
from streamtime.sql.rows.columns import expression, hash_of_all, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.ranges import cut_by, worth_spreading
from streamtime.sql.rows.typed import AS_JSON, event_time, microseconds
from streamtime.sql.suppress.fullness import WENT, counts
from streamtime.sql.syntax.text import HIGHEST, literal, plus, quoted
from streamtime.udfs.suppress.buffer import ARRIVED, DECIDED_AT, DECIDED_BY, DUE_AT, EMIT_REASON, EMIT_TIME, OUTCOME
from streamtime.udfs.suppress.places import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.sql.rows.ranges import Ranges
    from streamtime.sql.suppress.changelog import Changelog
    from streamtime.udfs.suppress.until import Until

AT, NEXT, TAKEN, OWN, DUE, LAST, CAME, MOMENT, ROW, RELEASE, APART = (
    f"{PREFIX}{name}" for name in ("at", "next", "taken", "own", "due", "last", "came", "moment", "row", "release", "apart")
)
ASIDE = f"{PREFIX}aside"
BY, NEXT_AT, NEXT_BY = (f"{PREFIX}{name}" for name in ("by", "next_at", "next_by"))  # for 'explain'


@dataclass(frozen=True)
class TimedRanges:
    """Ranges of the processing order, and stream time at the start of each, then after all."""

    ranges: Ranges
    starts: Column


def spreads(call: Bound, frame: Frame) -> bool:
    """Whether a call needs no one buffer, and there are tasks enough for it to pay, or no kernel may run that has a buffer."""
    bounded = call["max_records"] is not None or call["max_bytes"] is not None
    if not frame.kernels and call["when_full"] != "emit_early":
        return True  # a buffer that spills holds what one without a bound does, and so does one that may not be full until it is
    if bounded:
        return False
    return call["output"] != "metrics" and not frame.clocks and bool(cut_by(frame)) and worth_spreading(frame.df.sparkSession)


def spread(call: Bound, changelog: Changelog, until: Until, at_end: str, clocks: Sequence[str]) -> DataFrame:
    """The rows that the output asks for, with what became of them; or their counts. Clocks run apart by values of the columns `clocks`."""
    frame = changelog.frame
    moves = F.when(changelog.has_time, expression(microseconds(quoted(frame.time.name), frame.time.type)))
    if clocks:
        (rows, last), cut = with_time_before_by(frame, moves, clocks), None
    else:
        rows, ranges, starts = with_time_before(frame, moves)
        last, cut = F.get(starts, F.lit(ranges.count)), TimedRanges(ranges, starts)
    rows = rows.withColumns({AT: moves, TAKEN: changelog.has_time, LAST: last})
    if call["output"] == "explain":
        return _explained(call, changelog, until, at_end, rows.withColumn(BY, as_json(frame)), cut or clocks)
    placed = _placed(call, changelog, until, rows.where(named(TAKEN)) if call["output"] == "rows" else rows, clocks)
    decided = _decided(changelog, until, at_end, placed)
    if call["output"] == "metrics":
        return counts(changelog, decided, clocks, AT, DUE, CAME)
    columns = list(dict.fromkeys([*(c.name for c in frame.columns), frame.time.name, frame.order[0].ref.name]))
    if call["output"] == "dropped":
        rows = decided.where(named(OUTCOME) != "released").withColumn(EMIT_TIME, F.lit(None).cast("bigint"))
    else:
        rows = _timed(decided, cut or clocks, [*columns, OUTCOME, ARRIVED, EMIT_REASON, CAME], call["output"] == "all")
        rows = rows.withColumn(EMIT_TIME, F.when(named(OUTCOME) == "released", _when()))
    times = {name: expression(event_time(quoted(name), frame.time.type)).alias(name) for name in (ARRIVED, EMIT_TIME)}
    return rows.select(*map(named, columns), named(OUTCOME), named(EMIT_REASON), *times.values())


def as_json(frame: Frame) -> Column:
    """What says which row it was: its ORDER BY values."""
    fields = ", ".join(f"{literal(o.ref.text)}, {quoted(o.ref.name)}" for o in frame.order)
    options = ", ".join(f"{literal(k)}, {literal(v)}" for k, v in ({"ignoreNullFields": "false"} | AS_JSON).items())
    return expression(f"to_json(named_struct({fields}), map({options}))")


def _explained(
    call: Bound, changelog: Changelog, until: Until, at_end: str, rows: DataFrame, divided: TimedRanges | Sequence[str]
) -> DataFrame:
    """Every row, with what became of it, and whose coming decided that: its own, the next of its key, or who moved stream time."""
    frame = changelog.frame
    clocks = [] if isinstance(divided, TimedRanges) else divided
    key = [named(c) for c in (*changelog.identity, *clocks, TAKEN)]
    following = Window.partitionBy(*key).orderBy(*frame.sort())
    rows = rows.withColumns(
        {NEXT_AT: F.lead(F.greatest(named(BEFORE), named(AT))).over(following), NEXT_BY: F.lead(named(BY)).over(following)}
    )
    decided = _decided(changelog, until, at_end, _placed(call, changelog, until, rows, clocks))
    columns = list(dict.fromkeys([*(c.name for c in frame.columns), frame.time.name, frame.order[0].ref.name]))
    rows = _timed(decided, divided, [*columns, OUTCOME, ARRIVED, EMIT_REASON, CAME, DUE, BY, NEXT_AT, NEXT_BY], every=True)
    went, replaced, later = named(OUTCOME).isin(*WENT), named(OUTCOME) == "replaced", named(CAME).isNull()
    at_once = (named(ARRIVED) >= named(DUE)) & (named(DUE) < HIGHEST)
    decided_by = F.when(replaced, named(NEXT_BY)).when(went & later, named(RELEASE).getField(BY))
    decided_by = decided_by.when((went & at_once) | (named(OUTCOME) == "null_time"), named(BY))
    moments = {ARRIVED: named(ARRIVED), DECIDED_AT: F.when(went, _when()).when(replaced, named(NEXT_AT))}
    moments[DUE_AT] = F.when(named(DUE) < HIGHEST, named(DUE))
    rows = rows.withColumns({**moments, DECIDED_BY: decided_by})
    times = [expression(event_time(quoted(name), frame.time.type)).alias(name) for name in moments]
    return rows.select(*map(named, columns), named(OUTCOME), named(EMIT_REASON), named(DECIDED_BY), *times)


def _when() -> Column:
    """The moment at which a row went."""
    return F.coalesce(named(CAME), named(RELEASE).getField(MOMENT))


def _placed(call: Bound, changelog: Changelog, until: Until, rows: DataFrame, clocks: Sequence[str]) -> DataFrame:
    """The rows of each key together and in order, with the stream time before the next one, and when each is due."""
    frame, beside_key = changelog.frame, [*clocks, *([] if call["output"] == "rows" else [TAKEN])]
    key = [named(c) for c in (*changelog.identity, *beside_key)]
    following = F.lead(named(BEFORE)).over(Window.partitionBy(*key).orderBy(*frame.sort()))
    # of exact copies either may be first: here, or where stream time was counted
    following = F.when(following.isNotNull(), F.greatest(following, named(BEFORE), named(AT)))
    if until.close is not None:
        close = microseconds(quoted(until.close), rows.schema[until.close].dataType)
        return rows.withColumns({NEXT: following, DUE: expression(plus(close, until.after))})
    limited = plus(quoted(AT), until.wait) if until.wait else f"least({quoted(AT)}, {HIGHEST - 1}L)"
    own = limited if until.limited else f"if({quoted(AT)} IS NULL, NULL, {HIGHEST}L)"
    rows = rows.withColumns({NEXT: following, OWN: expression(own)})
    if not frame.kernels:
        return places.with_due(rows, [*changelog.identity, *beside_key], frame.sort(), BEFORE, OWN, DUE)
    return kernels.with_column(rows, DUE, Places(), [named(BEFORE), named(OWN), *key], T.LongType())


def _decided(changelog: Changelog, until: Until, at_end: str, rows: DataFrame) -> DataFrame:
    """The rows with their outcome, and with the moment in `CAME` where they went as they arrived, or at the end."""
    reached, due = F.coalesce(named(NEXT), named(LAST)), named(DUE)
    released = (due < HIGHEST) & (reached >= due)
    ended = ~released & named(NEXT).isNull() & F.lit(at_end == "emit")
    arrived = F.greatest(named(BEFORE), named(AT))
    passed = F.lit("released")
    if until.final and changelog.deleted is not None:
        corrects = (arrived >= due) & (due < HIGHEST) if until.corrected else F.lit(False)
        passed = F.when(changelog.deleted & ~corrects, "tombstone").otherwise("released")
    fate = F.when(~named(TAKEN), "null_time").when(released | ended, passed)
    outcome = fate.when(named(NEXT).isNotNull(), "replaced").otherwise("held")
    rows = rows.withColumns({OUTCOME: outcome, ARRIVED: F.when(named(TAKEN), arrived)})
    why = F.when(ended, "end").otherwise(until.reasons[0])
    came = F.when(ended, named(LAST)).when(named(ARRIVED) >= due, named(ARRIVED))
    out, went = named(OUTCOME) == "released", named(OUTCOME).isin(*WENT)
    return rows.withColumns({EMIT_REASON: F.when(out, why), CAME: F.when(went, came)})


def _timed(rows: DataFrame, divided: TimedRanges | Sequence[str], columns: list[str], every: bool) -> DataFrame:
    """The rows that came out, or every row, with `RELEASE`: the first stream time at or above when they were due, and who moved it there.

    `divided` is how moments are divided among tasks: in ranges of time, or by these columns of clocks.
    """
    out = named(OUTCOME) == "released"
    late = named(OUTCOME).isin(*WENT) & named(CAME).isNull()
    by = [named(BY)] if BY in columns else []
    row = F.struct(*map(named, columns))
    moved = named(TAKEN) & (named(BEFORE).isNull() | (named(AT) > named(BEFORE)))
    clocks = [] if isinstance(divided, TimedRanges) else [named(c).alias(f"{APART}_{i}") for i, c in enumerate(divided)]
    anywhere = F.lit(None).cast("int")  # where nothing is looked up for a row
    if isinstance(divided, TimedRanges):
        anywhere = F.when(~late, divided.ranges.aside(hash_of_all(rows.select(*map(named, columns)).schema)))
    one = F.struct(F.when(late, named(DUE)).otherwise(named(ARRIVED)).alias(MOMENT), row.alias(ROW), *clocks, *by, anywhere.alias(ASIDE))
    other = F.struct(named(AT).alias(MOMENT), F.when(F.lit(False), row).alias(ROW), *clocks, *by, F.lit(None).cast("int").alias(ASIDE))
    both = F.array(F.when(moved, other), F.when(F.lit(every) | out, one))
    moments = rows.select(F.explode(both).alias(ROW)).where(named(ROW).isNotNull()).select(f"{ROW}.*")
    if isinstance(divided, TimedRanges):
        bounds = F.slice(divided.starts, 2, divided.ranges.count - 1)
        moments = divided.ranges.cut(moments, quoted(MOMENT), bounds, above=True).withColumn(
            APART, F.coalesce(named(ASIDE), divided.ranges.partition_label)
        )
    is_row = named(ROW).isNotNull()
    together = [named(name) for name in moments.columns if name.startswith(APART)]
    falling = Window.partitionBy(*together).orderBy(named(MOMENT).desc(), is_row).rowsBetween(Window.unboundedPreceding, 0)
    moment = F.last(F.when(~is_row, F.struct(named(MOMENT), *by)), ignorenulls=True).over(falling)
    no_null = F.array_compact(F.array(named(ROW)))  # Spark then knows that there is a row, and which of its columns are never null
    return moments.withColumn(RELEASE, moment).select(named(RELEASE), F.inline(no_null))
