"""What was known of a key's versions when a row came, by Spark's own operators (rules J5, V1, V2): where no kernel can run.

Two windows answer most rows: the newest version so far is the one that a row looks up where it is old enough, and the newest version there
ever is that is old enough is it where it had arrived. What is left open is asked of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.plain.blocks import Question, answered
from streamtime.sql.rows.clock import STREAM_TIME
from streamtime.sql.rows.columns import expression, less, named, orderable, sorted_by
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import event_time, microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.versions import expired, refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.rows.frame import Frame

AT, TAKEN, PLACE, VERSION, NEWEST, LAST, OPEN, ANSWER = (
    f"{PREFIX}{name}" for name in ("at", "taken", "place", "version", "newest", "last", "open", "answer")
)


@dataclass(frozen=True)
class CallFacts:
    """What there is to know of a call: the columns that say whether a row is a right one, and whether it deletes its key; options."""

    right: str
    deleted: str
    retention: int | None
    exact: bool


def with_known(frame: Frame, identity: Sequence[str], asked: CallFacts, number: str, lapsed: str) -> DataFrame:
    """The rows with `number`: of a version its own within its key, of a left row that of the version it sees, null where there is none.

    And with `lapsed`: whether it would see that one, but for `retention`.
    """
    keys = [*map(named, dict.fromkeys(identity))]
    time, clock = (microseconds(quoted(name), frame.time.type) for name in (frame.time.name, STREAM_TIME))
    in_order = [*frame.sort(), *_others(frame, identity)]
    before = Window.partitionBy(*keys).orderBy(*in_order).rowsBetween(Window.unboundedPreceding, -1)
    right = named(asked.right)
    rows = frame.df.withColumn(AT, expression(time))
    rows = rows.withColumn(TAKEN, right & ~_true(refused(named(AT), clock, asked.retention, less)))
    rows = rows.withColumn(PLACE, F.count(F.when(named(TAKEN), True)).over(before))
    version = F.struct(named(AT).alias("at"), named(PLACE).alias("place"), named(asked.deleted).alias("gone"))
    rows = rows.withColumn(VERSION, F.when(named(TAKEN), version))
    rows = rows.withColumn(NEWEST, F.max(named(VERSION)).over(before))
    in_time = [sorted_by(quoted(AT)), sorted_by(quoted(asked.right), ascending=not asked.exact), named(PLACE).asc()]
    up_to = Window.partitionBy(*keys).orderBy(*in_time).rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.withColumn(LAST, F.last(named(VERSION), ignorenulls=True).over(up_to))
    newest, ahead = named(NEWEST).getField("at"), named(LAST).getField("place") >= named(PLACE)
    too_new = newest > named(AT) if asked.exact else newest >= named(AT)
    rows = rows.withColumn(OPEN, _true(~right & too_new & ahead))
    rows = answered(rows, identity, Question(OPEN, TAKEN, AT, PLACE, VERSION, later=False, equal=asked.exact), ANSWER)
    right_version = F.when(~too_new, named(NEWEST)).when(~ahead, named(LAST)).otherwise(named(ANSWER))
    rows = rows.withColumn(ANSWER, F.when(~right, right_version))
    at, place, gone = (named(ANSWER).getField(name) for name in ("at", "place", "gone"))
    late = _true(expired(named(AT), clock, asked.retention, less))
    seen = F.when(right, F.when(named(TAKEN), named(PLACE))).otherwise(F.when(~gone, place))
    return rows.withColumns({number: seen, lapsed: _true(late & (at < newest) & ~gone)})


def with_next(frame: Frame, identity: Sequence[str], accepted: Column, into: str) -> DataFrame:
    """The rows with the time at which the next version begins of those that its key had when it came; null for the newest, and others."""
    before = Window.partitionBy(*map(named, dict.fromkeys(identity))).orderBy(*frame.sort()).rowsBetween(Window.unboundedPreceding, -1)
    kind = frame.time.type
    rows = frame.df.withColumn(AT, F.when(accepted, expression(microseconds(quoted(frame.time.name), kind))))
    rows = rows.withColumns({TAKEN: named(AT).isNotNull(), PLACE: F.count(named(AT)).over(before), NEWEST: F.max(named(AT)).over(before)})
    rows = rows.withColumn(OPEN, _true(named(NEWEST) > named(AT)))
    rows = answered(rows, identity, Question(OPEN, TAKEN, AT, PLACE, AT, later=True, equal=False), ANSWER)
    return rows.withColumn(into, expression(event_time(quoted(ANSWER), kind)))


def _others(frame: Frame, identity: Sequence[str]) -> list[Column]:
    """The rest of the order: all other columns. So Spark has them wherever it has the order, and blocks are asked of the rows that there
    are; without the left side's, it would shuffle all rows once more.
    """
    done = {*identity, *(o.ref.name for o in frame.order)}
    return [sorted_by(quoted(f.name)) for f in frame.df.schema if f.name not in done and orderable(f.dataType)]


def _true(condition: Column | bool) -> Column:
    return F.coalesce(F.lit(condition), F.lit(False))
