"""Two changelogs in one order, and what the joined table is before and after each change (rule J7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.as_of.sides import clock_keys
from streamtime.sql.call.errors import CallError
from streamtime.sql.call.values import Expression
from streamtime.sql.changes.given import (
    ALIVE,
    CLOCK,
    OLD,
    changes_of,
    counted,
    is_newest,
    names_of,
    of_order,
    refuse_computed,
    refuse_two_of_a_name,
    refuse_unpaired,
    shown_once,
)
from streamtime.sql.changes.runs import Runs, in_runs, last_before
from streamtime.sql.rows.changelog import MADE_ANEW
from streamtime.sql.rows.columns import expression, has_collation, named, orderable, resolves, tie_value
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref, different_types, prepare
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, WindowSpec

    from streamtime.sql.call.spec import Bound

SIDES = ("left", "right")
SIDE, TIME, OF_ROW = (f"{PREFIX}{n}" for n in ("side", "time", "of_row"))
NEWEST, APPLIED, ACCEPTED = (f"{PREFIX}{n}" for n in ("newest", "applied", "accepted"))
TOLD = ("dropped", "all", "explain")  # outputs with rows of both sides: they say whose each is
ROWS, LAST = (tuple(f"{PREFIX}{word}_{side}" for side in SIDES) for word in ("row", "last"))
NUMBERS = (T.NumericType,)


@dataclass(frozen=True)
class Side:
    """One changelog: its rows with whether they are alive, and whether they came too late."""

    frame: Frame
    own: tuple[tuple[str, str], ...]  # the columns that only this side has: in the frame, and as they came
    versioned: bool


@dataclass(frozen=True)
class Joined:
    """All changes in one frame, whose columns are those of the result. A row has a struct for either side, of which it fills its own
    (`ROWS`), and those of the last changes before it that applied (`LAST`).
    """

    frame: Frame
    own: dict[str, tuple[int, str]]  # the columns of the frame that one side has: which side, and the field of its struct
    times: tuple[str, str]  # the field that is the time, of either side
    ordered: list[str]  # the ORDER BY columns, without a `change_seq` that is made anew (C10)
    runs: Runs

    def of(self, place: int) -> Column:
        """Whether a change is one of this side."""
        return named(ROWS[place]).isNotNull()

    def before(self, place: int, field: str) -> Column:
        """What a side's row was before the change."""
        return expression(f"{quoted(LAST[place])}.{quoted(field)}")

    def here(self, place: int, field: str) -> Column:
        """What the change says; null where it is one of the other side."""
        return expression(f"{quoted(ROWS[place])}.{quoted(field)}")

    def now(self, place: int, field: str) -> Column:
        """What a side's row is after a change that applies."""
        return F.when(self.of(place), self.here(place, field)).otherwise(self.before(place, field))

    def alive(self) -> Column:
        """Whether a change leaves a row."""
        return F.coalesce(*(self.here(place, ALIVE) for place in (0, 1)))

    def time(self) -> Column:
        """The time of a change."""
        return F.coalesce(*(self.here(place, self.times[place]) for place in (0, 1)))

    def there(self, place: int, *, now: bool) -> Column:
        """Whether a side has a row, after the change or before it."""
        return F.coalesce(self.now(place, ALIVE) if now else self.before(place, ALIVE), F.lit(False))

    def time_of(self, place: int) -> Column:
        """The time of the row that a side has now; null where it has none."""
        return F.when(self.there(place, now=True), self.now(place, self.times[place]))


def changes(call: Bound) -> Joined:
    """The changes of both sides, each with the last ones of either side before it."""
    frames = prepared(call, 0), prepared(call, 1)
    refuse_unpaired(call, "keys", frames[0].keys, frames[1].keys)
    check_types(call, "PARTITION BY", frames[0].keys, frames[1].keys)
    check_order(call, *frames)
    clocks = clock_keys(call, frames[0])
    both = side_of(call, 0, frames[0], clocks), side_of(call, 1, frames[1], clocks)
    joined = _together(call, both)
    before = joined.runs.each().rowsBetween(Window.unboundedPreceding, -1)
    accepted = joined.of(0) | joined.of(1) if call["output"] == "rows" else named(ACCEPTED)
    times = [joined.here(place, field) for place, field in enumerate(joined.times)]
    df = applied(joined.runs.df, both, before, accepted, times)
    counts = call["output"] == "rows" and not call["versioned"]  # all of them
    rows = [quoted(row) if counts else f"if({quoted(APPLIED)}, {quoted(row)}, NULL)" for row in ROWS]
    df = df.withColumns({last: last_before(row, joined.runs) for last, row in zip(LAST, rows, strict=True)})
    if call["output"] != "rows":
        df = df.withColumns({name: joined.here(*place) for name, place in joined.own.items()})
        df = df.withColumn(SIDE, F.when(joined.of(0), SIDES[0]).otherwise(SIDES[1]))
    return replace(joined, frame=joined.frame.with_df(df))


def applied(df: DataFrame, both: tuple[Side, Side], before: WindowSpec, accepted: Column, times: Sequence[Column]) -> DataFrame:
    """The changes, with whether they apply (`APPLIED`). `before` are those of its key before one; `times` that of a change, by sides."""
    newest = F.lit(None).cast(both[0].frame.time.type)
    for side, time in zip(both, times, strict=True):
        if side.versioned:
            largest = F.max(F.when(accepted, time)).over(before)
            newest = F.when(time.isNotNull(), largest).otherwise(newest)
    df = df.withColumn(NEWEST, newest)
    return df.withColumn(APPLIED, accepted & is_newest(F.coalesce(*times), named(NEWEST)))


def prepared(call: Bound, place: int, **more: tuple[Expression, ...]) -> Frame:
    """One side, prepared."""
    alone = replace(call, tables=(call.tables[place],))
    marks = more | ({"deleted": (Expression.parse(call["deleted"]),)} if call["deleted"] and has_deleted(call, place) else {})
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


def has_deleted(call: Bound, place: int) -> bool:
    """Whether a side has the columns that `deleted` names."""
    return resolves(call.tables[place].df, Expression.parse(call["deleted"]).text)


def of_one_type(one: T.DataType, other: T.DataType) -> bool:
    """Whether columns of these types are compared, and can be one column, whatever may be null in them."""
    return one.simpleString() == other.simpleString() or (isinstance(one, NUMBERS) and isinstance(other, NUMBERS))


def check_types(call: Bound, role: str, left: Sequence[Ref], right: Sequence[Ref]) -> None:
    """Columns of both sides that are compared."""
    for a, b in zip(left, right, strict=True):
        if not of_one_type(a.type, b.type):
            raise different_types(call, role, a, b)


def check_order(call: Bound, left: Frame, right: Frame) -> None:
    """Whether the rows of both sides have one order, and times of one type."""
    refuse_unpaired(call, "ORDER BY items", left.order, right.order)
    check_types(call, "`time`" if call["time"] else "ORDER BY", [left.time], [right.time])
    check_types(call, "ORDER BY", of_order(left.order), of_order(right.order))
    for first, other in zip(left.order, right.order, strict=True):
        if (first.ascending, first.nulls_first) != (other.ascending, other.nulls_first):
            raise call.refuse("ORDER BY", f"`{first.ref.text}` and `{other.ref.text}` go in different directions", "There is one order.")


def _together(call: Bound, both: tuple[Side, Side]) -> Joined:
    """The union: keys and ORDER BY columns once, named as on the left; a struct of all other columns for either side; what is known of a
    change. Where only changes that apply are asked for, others are left out.
    """
    left = both[0].frame
    keys, ordered = [f"{PREFIX}k{i}" for i in range(len(left.keys))], [f"{PREFIX}o{i}" for i in range(len(left.order))]
    rows: list[DataFrame] = []
    ties, times = [], []
    own: dict[str, tuple[int, str]] = {}
    for place, side in enumerate(both):
        frame = side.frame
        fields = _fields(frame)
        own |= {f"{PREFIX}{SIDES[place]}_{i}": (place, fields[column]) for i, (column, _) in enumerate(side.own)}
        times.append(fields.get(frame.time.name, TIME))
        struct = [named(column).alias(field) for column, field in fields.items()]
        struct += [frame.time.column.alias(TIME)] if frame.time.name not in fields else []
        picked = [r.column.alias(n) for r, n in zip((*frame.keys, *of_order(frame.order)), [*keys, *ordered], strict=True)]
        row = F.struct(*struct, named(ALIVE))
        kinds = {c.name: c.type for c in frame.columns}
        accepted = frame.has_time & ~named(OLD)  # a filter by it would move below what computes the time, which then were computed twice
        picked.append((F.when(accepted, row) if call["output"] == "rows" else row).alias(ROWS[place]))
        if all(orderable(kinds[n]) and not has_collation(kinds[n]) for n in fields) and set(frame.ties()) <= set(fields):
            ties.append(ROWS[place])
        else:
            ties.append(f"{PREFIX}{SIDES[place]}_ties")
            picked.append(F.struct(*(tie_value(n, kinds[n]) for n in frame.ties()), F.lit(True)).alias(ties[place]))
        if call["output"] == "rows":
            rows.append(frame.df.where(frame.has_key).select(*picked))
        else:
            flags = {ACCEPTED: accepted & frame.has_key, OLD: named(OLD), CLOCK: named(CLOCK), OF_ROW: frame.time.column}
            rows.append(frame.df.select(*picked, *[c.alias(n) for n, c in flags.items()]))
    df = rows[0].unionByName(rows[1], allowMissingColumns=True)
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    refs |= {n: Ref(n, refs[ROWS[place]].type[field].dataType, n) for n, (place, field) in own.items()}  # type: ignore[index]
    refs |= {SIDE: Ref(SIDE, T.StringType(), SIDE)}
    order = [Order(refs[n], o.ascending, o.nulls_first) for n, o in zip(ordered, left.order, strict=True)]
    order += [Order(refs[ties[0]], True, False), Order(refs[ties[1]], True, True)]  # the left side first: right rows have none of it
    names = tuple([n for n, (of, _) in own.items() if of == place] for place in (0, 1))
    shown = shown_of(call, both, [*keys, *ordered], names)
    refuse_two_of_a_name(call, [o for _, o in shown])
    frame = Frame(
        df,
        tuple(refs[n] for n, _ in shown),
        tuple(o for _, o in shown),
        tuple(refs[n] for n in keys),
        tuple(order),
        refs.get(OF_ROW, left.time),
        {},
        call.kernels,
    )
    return Joined(frame, own, (times[0], times[1]), counted(call, left, ordered), in_runs(df, frame.keys, order))


def _fields(frame: Frame) -> dict[str, str]:
    """The fields of a side's struct, by the columns that they are: in the order in which they break ties (C4)."""
    done = {r.name for r in (*frame.keys, *of_order(frame.order))}
    return {c.name: f"c{i}" for i, c in enumerate(c for c in frame.columns if c.name not in done)}


def shown_of(
    call: Bound, both: tuple[Side, ...], shared: Sequence[str], own: Sequence[Sequence[str]], time: str = OF_ROW, side: str = SIDE
) -> list[tuple[str, str]]:
    """The columns of the result, in the frame and as they are called there, each once.

    In the frame, the left side's keys and order are `shared`, the other columns of the sides `own`; `time` and `side` tell of a row.
    """
    left, told = both[0].frame, call["output"] in TOLD
    called = shown_once(left, (*left.keys, *of_order(left.order)), shared)
    if told and left.time.name in {c.name for c in left.columns}:
        called.setdefault(names_of(left, (left.time,))[0], time)
    shown = [(n, o) for o, n in called.items() if not call.names.among(o, MADE_ANEW)]
    shown += [(n, o) for names, of_side in zip(own, both, strict=True) for n, (_, o) in zip(names, of_side.own, strict=True)]
    return [*shown, (side, "side")] if told else shown
