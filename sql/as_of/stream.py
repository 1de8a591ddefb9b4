"""AS_OF_JOIN over a stream: left rows wait out their grace in the state, then look up what the right side's table holds by then (C5e).

A stream cannot be sorted, so the versions of the right side, which is no stream, become intervals between one version and the next, and
each left row is joined with the interval that its time falls into. Spark reads the right side anew with every micro-batch.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.as_of.both_streams import refuse
from streamtime.sql.as_of.lookup import AFTER, BACKWARD, BEFORE, FORWARD, MATCH, NEAREST, candidates, checked, meaning, nearest
from streamtime.sql.rows.columns import named, sorted_by
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.stream.plan import KeyState, Leaving, by_wall, is_stream, released
from streamtime.sql.stream.watermark import behind_watermark
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.grace import Grace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.as_of.sides import Sides
    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

FROM, TO, PREVIOUS = (f"{PREFIX}{n}" for n in ("from", "to", "previous"))


def over_stream(call: Bound) -> bool:
    """Whether the left side is a stream, or both are. Raises CallError for what a stream cannot have."""
    if call.tables[1].df.isStreaming:
        refuse(call)
        return is_stream(call)
    if not is_stream(call):
        return False
    for option in ("arrival", "retention", "at_end"):
        if call[option] is not None:
            fix = "Leave it out: rows see what the right side holds when their micro-batch runs."
            raise call.refuse(f"`{option}`", "is not possible on a stream (C5)", fix)
    if call["clock"] == "wall" and call["grace"] is None:
        fix = "Add grace => INTERVAL 5 MINUTES, or leave it out."
        raise call.refuse("`clock`", "needs `grace` where the right side is a table: without it no row waits", fix)
    return True


def looked_up_in_stream(call: Bound, sides: Sides) -> Frame:
    """The left side's frame with MATCH, a struct of all columns of the right side (rules J1, J4)."""
    left = sides.left if call["grace"] is None else _waited(call, sides.left)
    direction, exact = meaning(call, sides)
    right, deleted = candidates(call, sides.right, direction)
    # a null key has no versions (J3): these joins are not null-safe on purpose
    same = [key.column == named(name) for key, name in zip(left.keys, _key_names(right), strict=True)]
    inside = _inside(left.time.column, direction, exact)
    df = left.df.join(_intervals(call, right, direction), functools.reduce(operator.and_, [*same, inside]), "left_outer")
    if direction == NEAREST and not exact:
        df = df.withColumn(BEFORE, F.when(left.time.column == named(FROM), named(PREVIOUS)).otherwise(named(BEFORE)))
    df = df.withColumn(MATCH, F.when(_here(), nearest(left.time, right, direction)))
    return left.with_df(df.withColumn(MATCH, checked(call, left.time, right, deleted)))


def _here() -> Column:
    """True for every row, and no filter goes below it, so that the join stays an outer one.

    Where the right side has no rows, Spark's inner hash join may leave the stream unread, and the state of that micro-batch is never kept:
    STATE_STORE_COMMIT_VALIDATION_FAILED. It does so wherever it does not compile the plan, as with more than a hundred columns.
    """
    return F.spark_partition_id() >= 0


def _waited(call: Bound, frame: Frame) -> Frame:
    """The rows once their grace is over."""
    names, schema = frame.df.columns, frame.df.schema
    nobody = F.lit(None).cast("string")
    options = {"grace": call["grace"], "clock": None if call["clock"] == "event" else call["clock"]}
    state = KeyState([k.name for k in frame.keys], options, aside=nobody, reasons=())
    leaving = Leaving(names, behind_watermark([schema[name] for name in names]))
    return frame.with_df(released(call, frame, Grace(call["grace"], frame.time.name), state, leaving, wall=by_wall(call, frame.time)))


def _intervals(call: Bound, right: Frame, direction: str) -> DataFrame:
    """For each key the stretches of time between one version and the next, with the versions at both ends, and the one before."""
    df, keys = right.df, [k.column for k in right.keys]
    fields = df.columns
    _, *tied = right.sort(reverse=call["ties"] == "first")
    of_key = Window.partitionBy(*keys).orderBy(sorted_by(quoted(right.time.name)), *tied)
    next_time = F.lead(right.time.column).over(of_key)
    df = df.withColumn(TO, next_time).where(named(TO).isNull() | (named(TO) != right.time.column))  # the last of those with one time
    names = [k.alias(name) for k, name in zip(keys, _key_names(right), strict=True)]
    df = df.select(*names, right.time.column.alias(FROM), TO, F.struct(*map(named, fields)).alias(BEFORE))
    if direction == BACKWARD:
        return df
    in_order = Window.partitionBy(*map(named, _key_names(right))).orderBy(sorted_by(quoted(FROM)))
    df = df.withColumns({AFTER: F.lead(named(BEFORE)).over(in_order), PREVIOUS: F.lag(named(BEFORE)).over(in_order)})
    ends = (FROM, TO, BEFORE, AFTER, PREVIOUS)
    itself = F.struct(*map(named, ends))
    nothing = [F.lit(None).cast(df.schema[n].dataType).alias(n) for n in (FROM, BEFORE, PREVIOUS)]
    ahead = F.struct(nothing[0], named(FROM).alias(TO), nothing[1], named(BEFORE).alias(AFTER), nothing[2])
    stretches = F.when(named(PREVIOUS).isNull(), F.array(ahead, itself)).otherwise(F.array(itself))
    return df.select(*map(named, _key_names(right)), F.inline(stretches))


def _key_names(right: Frame) -> list[str]:
    return [f"{PREFIX}key_{i}" for i in range(len(right.keys))]


def _inside(time: Column, direction: str, exact: bool) -> Column:
    """Whether a time lies in a stretch: with its beginning or with its end, as it is the version there that an equal time is for.

    With both ends to choose from, it is the beginning: where an equal time does not count, the version before that one stands in for it.
    """
    begins, ends = named(FROM), named(TO)
    if direction != NEAREST and exact == (direction == FORWARD):
        return (begins.isNull() | (time > begins)) & (ends.isNull() | (time <= ends))
    return (begins.isNull() | (time >= begins)) & (ends.isNull() | (time < ends))
