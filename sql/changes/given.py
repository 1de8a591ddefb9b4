"""A changelog as it is given: which rows are changes, which of them delete, and which come too late (rules C8, C10, V2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.rows.changelog import MADE_ANEW, deletions, preimages, refuse_made_anew, refuse_no_condition, refuse_unnamed, typed
from streamtime.sql.rows.clock import STREAM_TIME, with_stream_time
from streamtime.sql.rows.columns import expression, less, named
from streamtime.sql.rows.frame import PREFIX
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.versions import refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from pyspark.sql import Column

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Order, Ref

    Named = TypeVar("Named", str, Column)

ALIVE, OLD, CLOCK = (f"{PREFIX}{n}" for n in ("alive", "too_old", "clock"))
REASONS = ("null_time", "null_key", "too_old", "out_of_order")


def changes_of(call: Bound, frame: Frame, versioned: bool, clocks: tuple[Ref, ...]) -> Frame:
    """The rows that are changes, with whether one leaves a row (`ALIVE`), stream time (`CLOCK`), and whether it came too late (`OLD`)."""
    columns, given = typed(frame), frame.extras.get("deleted", ())
    if given:
        refuse_no_condition(call, "deleted", given[0])
    if (none := preimages(call, columns)) is not None:
        frame = frame.with_df(frame.df.where(~expression(none)))
    gone = deletions(call, quoted(given[0].name) if given else None, columns)
    frame = frame.with_df(frame.df.withColumn(ALIVE, ~expression(gone) if gone else F.lit(True)))
    return _judged(call, frame, versioned and call["retention"] is not None, clocks)


def _judged(call: Bound, frame: Frame, bounded: bool, clocks: tuple[Ref, ...]) -> Frame:
    if frame.in_time_order or frame.df.isStreaming or not (bounded or call["output"] != "rows"):  # on a stream, the state judges
        return frame.with_df(frame.df.withColumns({CLOCK: frame.time.column, OLD: F.lit(False)}))
    moves = F.when(frame.has_time & frame.has_key, frame.time.column)  # one that is too old would not move it
    frame = with_stream_time(frame, moves, clocks)
    late = F.lit(False)
    if bounded:
        time, clock = (microseconds(quoted(name), frame.time.type) for name in (frame.time.name, STREAM_TIME))
        late = F.coalesce(refused(expression(time), clock, call["retention"], less), F.lit(False))
    return frame.with_df(frame.df.withColumns({CLOCK: named(STREAM_TIME), OLD: late}))


def refuse_computed(call: Bound, frame: Frame, refs: Sequence[tuple[str, Ref]]) -> None:
    """A change has these columns by their names (C10). `refs` are columns and what the call asks them to be."""
    for role, ref in refs:
        refuse_unnamed(call, role, ref, frame.columns)
        refuse_made_anew(call, role, names_of(frame, [ref])[0])
    if not frame.keys:
        raise call.no_key()


def refuse_two_of_a_name(call: Bound, names: Sequence[str], fix: str = "Give one of them another name in its side's query.") -> None:
    """Whether the columns of a result have names of their own."""
    if twice := call.names.twice(names):
        raise call.refuse(None, f"the result would have two columns `{twice[0]}`", fix)


def refuse_unpaired(call: Bound, what: str, left: Sequence[object], right: Sequence[object]) -> None:
    """Whether both sides have as many of something as the other."""
    if len(left) != len(right):
        problem = f"the left side has {len(left)} {what}, the right side {len(right)}"
        raise call.refuse(None, problem, "The n-th of the left side goes with the n-th of the right side.")


def of_order(order: Sequence[Order]) -> tuple[Ref, ...]:
    """The columns of ORDER BY."""
    return tuple(o.ref for o in order)


def names_of(frame: Frame, refs: Sequence[Ref]) -> list[str]:
    """The names that columns came with."""
    return [frame.originals[[c.name for c in frame.columns].index(r.name)] for r in refs]


def shown_once(frame: Frame, refs: Sequence[Ref], columns: Sequence[str]) -> dict[str, str]:
    """The columns that stand for these, by the names that they came with: of two that are one, the first."""
    shown: dict[str, str] = {}
    for original, column in zip(names_of(frame, refs), columns, strict=True):
        shown.setdefault(original, column)
    return shown


def counted(call: Bound, frame: Frame, ordered: Sequence[Named]) -> list[Named]:
    """Of what stands for the columns of ORDER BY, all but a `change_seq` that is made anew: changes at one place are numbered (C10)."""
    originals = names_of(frame, of_order(frame.order))
    return [column for column, original in zip(ordered, originals, strict=True) if not call.names.among(original, MADE_ANEW)]


def is_newest(time: Column, newest: Column) -> Column:
    """Whether no change of a newer time came before."""
    return F.coalesce(time >= newest, F.lit(True))
