"""Two changelogs in one order, and what the joined table is before and after each change (rule J7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.as_of.sides import clock_keys
from streamtime.sql.call.errors import CallError, unlogged
from streamtime.sql.call.values import Expression
from streamtime.sql.changes.given import ALIVE, CLOCK, MADE_ANEW, OLD, changes_of, is_newest, names_of, of_order, refuse_computed
from streamtime.sql.rows.columns import expression, named, tie_value
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref, prepare
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from streamtime.sql.call.spec import Bound

SIDES = ("left", "right")
SIDE, TIME, OF_ROW = (f"{PREFIX}{n}" for n in ("side", "time", "of_row"))
NEWEST, APPLIED, NOW, BEFORE = (f"{PREFIX}{n}" for n in ("newest", "applied", "now", "before"))
NUMBERS = (T.NumericType,)


@dataclass(frozen=True)
class Side:
    """One changelog: its rows with whether they are alive, and whether they came too late."""

    frame: Frame
    own: tuple[tuple[str, str], ...]  # the columns that only this side has: in the frame, and as they came
    versioned: bool


@dataclass(frozen=True)
class Joined:
    """All changes in one frame, whose columns are those of the result, with what each changed."""

    frame: Frame
    own: tuple[list[str], list[str]]  # the left side's columns in the frame, and the right side's
    keys: list[str]
    ordered: list[str]  # the ORDER BY columns, without a `change_seq` that is made anew (C10)


def changes(call: Bound) -> Joined:
    """The changes of both sides, each with NOW and BEFORE: what is there of either side after it, and before."""
    frames = prepared(call, 0), prepared(call, 1)
    if len(frames[0].keys) != len(frames[1].keys):
        problem = f"the left side has {len(frames[0].keys)} keys, the right side {len(frames[1].keys)}"
        raise call.refuse(None, problem, "The n-th of the left side goes with the n-th of the right side.")
    check_types(call, "PARTITION BY", frames[0].keys, frames[1].keys)
    check_order(call, *frames)
    clocks = clock_keys(call, frames[0])
    both = side_of(call, 0, frames[0], clocks), side_of(call, 1, frames[1], clocks)
    joined = _together(call, both)
    frame = joined.frame
    keys = [named(k) for k in joined.keys]
    order = Window.partitionBy(*keys).orderBy(*(o.sort() for o in frame.order))
    before, now = (order.rowsBetween(Window.unboundedPreceding, last) for last in (-1, 0))
    df = applied(frame, both, before)
    states = {NOW: (now, joined.own), BEFORE: (before, ([], []))}
    df = df.withColumns({name: F.struct(*_states(span, own)) for name, (span, own) in states.items()})
    return replace(joined, frame=frame.with_df(df))


def applied(frame: Frame, both: tuple[Side, Side], before: WindowSpec) -> DataFrame:
    """The changes, with whether they apply (`APPLIED`); `before` are those of the same key before one."""
    accepted = named(TIME).isNotNull() & ~named(OLD)
    newest = F.lit(None).cast(frame.time.type)
    for name, side in zip(SIDES, both, strict=True):
        if side.versioned:
            largest = F.max(F.when(accepted & (named(SIDE) == name), named(TIME))).over(before)
            newest = F.when(named(SIDE) == name, largest).otherwise(newest)
    df = frame.df.withColumn(NEWEST, newest)
    return df.withColumn(APPLIED, accepted & is_newest(named(TIME), named(NEWEST)))


def _states(span: WindowSpec, own: tuple[list[str], list[str]]) -> list[Column]:
    """The last row of each side that was applied."""
    found = []
    for side, columns in zip(SIDES, own, strict=True):
        row = F.struct(named(ALIVE), named(TIME), *map(named, columns))
        found.append(F.last(F.when(named(APPLIED) & (named(SIDE) == side), row), ignorenulls=True).over(span).alias(side))
    return found


def there(state: str, side: str) -> Column:
    """Whether a side has a row."""
    return F.coalesce(expression(f"{quoted(state)}.{side}.{quoted(ALIVE)}"), F.lit(False))


def time_of(side: str) -> Column:
    """The time of the row that a side has now; null where it has none."""
    return F.when(there(NOW, side), expression(f"{quoted(NOW)}.{side}.{quoted(TIME)}"))


def value(side: str, name: str) -> Column:
    """A column of the row that a side has now; null where it has none."""
    return F.when(there(NOW, side), expression(f"{quoted(NOW)}.{side}.{quoted(name)}"))


def prepared(call: Bound, place: int, **more: tuple[Expression, ...]) -> Frame:
    """One side, prepared."""
    alone = replace(call, tables=(call.tables[place],))
    marks = more | ({"deleted": (Expression.parse(call["deleted"]),)} if call["deleted"] and resolves(call, place) else {})
    with _told_of(place):
        frame = prepare(alone, **marks)
        refuse_computed(alone, frame, [("PARTITION BY", k) for k in frame.keys] + [("ORDER BY", r) for r in of_order(frame.order)])
    return frame


@contextmanager
def _told_of(place: int) -> Iterator[None]:
    """What is wrong with a side says which one it is."""
    try:
        yield
    except CallError as error:
        argument = f"{error.argument} of the {SIDES[place]} side" if error.argument else SIDES[place]
        raise CallError(error.function, argument, error.problem, error.fix) from None


def side_of(call: Bound, place: int, frame: Frame, clocks: tuple[int, ...]) -> Side:
    """One side, its changes judged."""
    versioned = SIDES[place] in (call["versioned"] or ())
    with _told_of(place):
        frame = changes_of(call, frame, versioned, tuple(frame.keys[i] for i in clocks))
    elsewhere = {r.name for r in (*frame.keys, *of_order(frame.order), frame.time, *frame.extras.get("deleted", ()))}
    own = [(c.name, o) for c, o in zip(frame.columns, frame.originals, strict=True) if c.name not in elsewhere]
    return Side(frame, tuple(pair for pair in own if not call.names.among(pair[1], MADE_ANEW)), versioned)


def resolves(call: Bound, place: int) -> bool:
    """Whether a side has the columns that `deleted` names."""
    try:
        with unlogged():
            call.tables[place].df.select(Expression.parse(call["deleted"]).column().alias(ALIVE)).schema  # noqa: B018 - over Spark Connect, errors show only when asked
    except AnalysisException:
        return False
    return True


def comparable(one: T.DataType, other: T.DataType) -> bool:
    """Whether columns of these types are compared, and can be one column."""
    return one == other or (isinstance(one, NUMBERS) and isinstance(other, NUMBERS))


def check_types(call: Bound, role: str, left: Sequence[Ref], right: Sequence[Ref]) -> None:
    """Columns of both sides that are compared."""
    for a, b in zip(left, right, strict=True):
        if not comparable(a.type, b.type):
            kinds = f"`{a.text}` ({a.type.simpleString().upper()}) and `{b.text}` ({b.type.simpleString().upper()})"
            raise call.refuse(role, f"{kinds} have different types", "Cast one of them.")


def check_order(call: Bound, left: Frame, right: Frame) -> None:
    """Whether the rows of both sides have one order, and times of one type."""
    if len(left.order) != len(right.order):
        problem = f"the left side has {len(left.order)} ORDER BY items, the right side {len(right.order)}"
        raise call.refuse(None, problem, "The n-th of the left side goes with the n-th of the right side.")
    check_types(call, "`time`" if call["time"] else "ORDER BY", [left.time], [right.time])
    check_types(call, "ORDER BY", of_order(left.order), of_order(right.order))
    for first, other in zip(left.order, right.order, strict=True):
        if (first.ascending, first.nulls_first) != (other.ascending, other.nulls_first):
            raise call.refuse("ORDER BY", f"`{first.ref.text}` and `{other.ref.text}` go in different directions", "There is one order.")


def _together(call: Bound, both: tuple[Side, ...]) -> Joined:
    """The union: keys and ORDER BY columns once, named as on the left; then the columns of either side; then what is known of a row."""
    left = both[0].frame
    keys, ordered = [f"{PREFIX}k{i}" for i in range(len(left.keys))], [f"{PREFIX}o{i}" for i in range(len(left.order))]
    own = tuple([f"{PREFIX}{side}_{i}" for i in range(len(b.own))] for side, b in zip(SIDES, both, strict=True))
    ties = [f"{PREFIX}{side}_ties" for side in SIDES]
    rows: list[DataFrame] = []
    for place, side in enumerate(both):
        frame = side.frame
        kinds = {c.name: c.type for c in frame.columns}
        picked = [r.column.alias(n) for r, n in zip((*frame.keys, *of_order(frame.order)), [*keys, *ordered], strict=True)]
        for other, names in enumerate(own):
            for name, (column, _) in zip(names, both[other].own, strict=True):
                kind = both[other].frame.df.schema[column].dataType
                picked.append((named(column) if other == place else F.lit(None).cast(kind)).alias(name))
        for other, name in enumerate(ties):
            mine = [tie_value(n, kinds[n]) for n in frame.ties()] if other == place else []
            picked.append((F.struct(*mine) if mine else F.lit(None)).alias(name))
        takes_part = F.when(frame.has_time & frame.has_key, frame.time.column)
        flags = {SIDE: F.lit(SIDES[place]), TIME: takes_part, ALIVE: named(ALIVE), OLD: named(OLD), CLOCK: named(CLOCK)}
        df = frame.df if call["output"] != "rows" else frame.df.where(frame.has_time & frame.has_key)
        rows.append(df.select(*picked, *[c.alias(n) for n, c in flags.items()], frame.time.column.alias(OF_ROW)))
    df = rows[0].unionAll(rows[1])
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    order = [Order(refs[n], o.ascending, o.nulls_first) for n, o in zip(ordered, left.order, strict=True)]
    order += [Order(refs[n], True, True) for n in (SIDE, *ties) if n == SIDE or isinstance(refs[n].type, T.StructType)]
    shown = _shown(call, both, keys, ordered, own)
    frame = Frame(
        df,
        tuple(refs[n] for n, _ in shown),
        tuple(o for _, o in shown),
        tuple(refs[n] for n in keys),
        tuple(order),
        refs[OF_ROW],
        {},
        call.kernels,
    )
    again = [o for o in names_of(left, of_order(left.order)) if call.names.among(o, MADE_ANEW)]
    counted = [n for n, o in zip(ordered, names_of(left, of_order(left.order)), strict=True) if o not in again]
    return Joined(frame, own, keys, counted)  # type: ignore[arg-type]


def _shown(call: Bound, both: tuple[Side, ...], keys: list[str], ordered: list[str], own: tuple[list[str], ...]) -> list[tuple[str, str]]:
    """The columns of the result, in the frame and as they are called there, each once."""
    left = both[0].frame
    shared = dict(zip(names_of(left, (*left.keys, *of_order(left.order))), [*keys, *ordered], strict=True))
    if call["output"] != "rows" and left.time.name in {c.name for c in left.columns}:
        shared.setdefault(names_of(left, (left.time,))[0], OF_ROW)
    shown = [(n, o) for o, n in shared.items() if not call.names.among(o, MADE_ANEW)]
    shown += [(n, o) for names, side in zip(own, both, strict=True) for n, (_, o) in zip(names, side.own, strict=True)]
    shown += [(SIDE, "side")] if call["output"] in ("dropped", "all", "explain") else []
    if twice := call.names.twice([o for _, o in shown]):
        raise call.refuse(None, f"the result would have two columns `{twice[0]}`", "Give one of them another name in its side's query.")
    return shown
