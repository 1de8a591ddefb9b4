"""The nearest in time among the first rows of a key to come, by Spark's own operators: a window has no frame for it, and no key is too hot.

The rows that can be found stand in blocks, in order of arrival: on level 0 one by one, on level 1 by twos, by fours, by eights .. The first
13 of them are a block of 8, one of 4, and one of 1, by the bits of 13; so whoever asks among them asks three blocks. A row stands in half a
block of each level, and a window over each block, sorted by time, answers all who ask it. That is n log n rows of a few columns, in no
array, and a hot key is worked on by many tasks.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.sql.rows.columns import expression, named, sorted_by
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

MOST, LEVEL, ASKED, BLOCK = (f"{PREFIX}{name}" for name in ("most", "level", "asked", "block"))


@dataclass(frozen=True)
class Question:
    """Names of columns: whether a row asks, and whether it can be found, never null; its time, as a BIGINT; how many came before it that
    can be found; and what is told of a row that is found, in which its time comes first.

    `later` looks for the next time, in place of the last; `equal` counts the same time.
    """

    asks: str
    stands: str
    at: str
    place: str
    told: str
    later: bool
    equal: bool


def answered(rows: DataFrame, identity: Sequence[str], question: Question, into: str) -> DataFrame:
    """The rows with the answer, null where none asks, or nothing is found. A row that asks has a key and a time. `identity` are columns."""
    keys, q = [*map(named, dict.fromkeys(identity))], question
    asks, place = named(q.asks), named(q.place)
    rows = rows.withColumn(MOST, F.max(F.when(asks, place)).over(Window.partitionBy(*keys)))
    taking_part = rows.where(asks | (named(q.stands) & (place < named(MOST))))
    stands = f"{quoted(q.stands)} AND {quoted(q.place)} < {quoted(MOST)}"
    role = f"if(bit_get({quoted(q.place)}, level) = 1, {quoted(q.asks)}, {stands})"
    levels = expression(f"filter(sequence(0, length(bin({quoted(MOST)})) - 1), level -> {role})")
    cut = taking_part.withColumn(LEVEL, F.explode(levels))
    cut = cut.withColumn(ASKED, expression(f"bit_get({quoted(q.place)}, {quoted(LEVEL)}) = 1"))
    cut = cut.withColumn(BLOCK, expression(f"shiftright({quoted(q.place)}, {quoted(LEVEL)}) - if({quoted(ASKED)}, 1, 0)"))
    order = [sorted_by(quoted(q.at), ascending=not q.later), sorted_by(quoted(ASKED), ascending=q.equal), place.asc()]
    within = Window.partitionBy(*keys, named(LEVEL), named(BLOCK)).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    answer = F.last(F.when(~named(ASKED), named(q.told)), ignorenulls=True).over(within)
    nearest = F.min if q.later else F.max
    by = [*dict.fromkeys(identity), q.at, q.place]
    told = cut.withColumn(into, answer).where(named(ASKED)).groupBy(*map(named, by)).agg(nearest(named(into)).alias(into))
    its = {name: f"{PREFIX}its_{name}" for name in by}
    same = functools.reduce(operator.and_, (named(mine) == named(other) for mine, other in its.items()))
    return rows.join(told.withColumnsRenamed(its), asks & same, "left")  # not null-safe on purpose: a row that asks has a key and a time
