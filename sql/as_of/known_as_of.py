"""Each left row beside the right version that was known when it arrived (rule J5): rows in order of arrival, judged by a kernel.

The kernel takes keys and times and says which right row of its key a left row sees, by number; a window over rows sorted by that number
then brings the right row itself to it. Payload never leaves the JVM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.as_of.lookup import BACKWARD, IS_RIGHT, MATCH, both, checked, meaning, next_right
from streamtime.sql.as_of.waiting import released
from streamtime.sql.plain import known
from streamtime.sql.rows import kernels
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import named, sorted_by
from streamtime.sql.rows.frame import PREFIX, Frame, Order, refs_of
from streamtime.sql.rows.scans import chosen
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.as_of_join import EXPIRED, KnownAsOf

if TYPE_CHECKING:
    from pyspark.sql import Column

    from streamtime.sql.as_of.sides import Sides
    from streamtime.sql.call.spec import Bound

ARRIVAL, NUMBER, DELETED, HELD, LAPSED = (f"{PREFIX}{n}" for n in ("arrival", "number", "deleted", "held", "lapsed"))


def known_as_of(call: Bound, sides: Sides, clocks: tuple[int, ...]) -> tuple[Frame, dict[str, str], Column]:
    """The left side's frame with MATCH, the right columns that are not in it but equal a left one, and why a row may not see its MATCH;
    null where it may.

    `clocks` are the numbers of the keys by which the clocks run.
    """
    arrived = sides.right.extras["arrival"][0].column.isNotNull()
    sides = replace(sides, right=chosen(sides.right, arrived))
    at, waits = sides.left.extras["arrival"][0].column, {}
    if call["grace"] is not None:
        sides, at, held = released(call, sides, clocks)
        waits[HELD] = (held, F.lit(False))
    deleted = sides.right.extras.get("deleted", ())
    gone = F.coalesce(deleted[0].column, F.lit(False)) if deleted else F.lit(False)
    joined = both(sides, {ARRIVAL: (at, sides.right.extras["arrival"][0].column), DELETED: (F.lit(False), gone)} | waits, ())
    frame, stream_time = joined.frame, F.lit(None).cast(T.TimestampType())
    places = [*waits, ARRIVAL, IS_RIGHT, frame.time.name]  # of equal arrivals, the left row does not know the right one
    arrivals = [Order(ref, True, True) for ref in refs_of(frame.df, places)]
    frame = replace(frame, order=(*arrivals, *joined.ties), source=None)  # of both sides
    if call["retention"] is not None:
        moves = F.when(named(IS_RIGHT), frame.time.column)
        clocks_of = tuple(frame.keys[i] for i in clocks)
        frame, stream_time = with_stream_time(frame, moves, clocks_of, movers=named(IS_RIGHT)), named(STREAM_TIME)
    frame, identity = frame.comparable(frame.keys)
    direction, exact = meaning(call, sides)
    if direction != BACKWARD:
        fix = "Write match => 'l.ts >= r.ts', or leave `arrival` out."
        raise call.refuse("`match`", "looks ahead, which does not go with `arrival`: what is known lies behind (J5)", fix)
    if frame.kernels:
        sorted_df = frame.by_key(identity, frame.sort())
        columns = [named(IS_RIGHT), named(DELETED), frame.time.column, stream_time, *map(named, identity)]
        df = kernels.with_column(sorted_df, NUMBER, KnownAsOf(call["retention"], exact), columns, T.LongType())
        expired = named(NUMBER) <= EXPIRED
        df = df.withColumns({LAPSED: expired, NUMBER: F.when(expired, EXPIRED - named(NUMBER)).otherwise(named(NUMBER))})
    else:
        df = known.with_known(frame, identity, known.CallFacts(IS_RIGHT, DELETED, call["retention"], exact), NUMBER, LAPSED)
    within = Window.partitionBy(*map(named, identity), named(NUMBER)).orderBy(
        sorted_by(quoted(IS_RIGHT), ascending=False, nulls_first=False)
    )
    seen = F.when(named(NUMBER) >= 0, next_right("lag", within))
    df = df.withColumn(MATCH, seen).where(~named(IS_RIGHT))
    df = df.withColumn(MATCH, checked(call, joined.frame.time, sides.right))
    hidden = F.when(named(LAPSED), "expired")
    hidden = F.when(named(HELD), "held").otherwise(hidden) if call["at_end"] == "hold" else hidden
    return sides.left.with_df(df), joined.shared, hidden
