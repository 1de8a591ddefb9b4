"""Two changelogs joined by a foreign key: a row of the left side names the row of the right side that it goes with (rule J8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlglot
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sqlglot.errors import SqlglotError

from streamtime.sql.as_of.sides import clock_keys
from streamtime.sql.call.names import plain
from streamtime.sql.call.values import Expression
from streamtime.sql.changes.given import ALIVE, CLOCK, OLD, names_of, of_order, refuse_two_of_a_name
from streamtime.sql.changes.join import (
    APPLIED,
    OF_ROW,
    SIDE,
    SIDES,
    TIME,
    TOLD,
    applied,
    check_order,
    check_types,
    of_one_type,
    prepared,
    shown_of,
    side_of,
)
from streamtime.sql.rows.changelog import change_columns
from streamtime.sql.rows.columns import expression, named, tie_value
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref
from streamtime.sql.syntax.text import quoted
from streamtime.sql.windows.aggregates import items

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.changes.join import Side

EQUAL, PLACE, END, RANK, MATCH, HAS, HAD, BEFORE = (
    f"{PREFIX}{n}" for n in ("equal", "place", "end", "rank", "match", "has", "had", "time_before")
)
TIES = [f"{PREFIX}{side}_ties" for side in SIDES]
LEFT_TIME, RIGHT_TIME, AT, TYPE, BY_RIGHT, SALT = (f"{PREFIX}{n}" for n in ("left_time", "right_time", "at", "type", "by_right", "salt"))
SPREAD = 4096  # over how many tasks rows that name nothing are spread at most


@dataclass(frozen=True)
class Both:
    """The changes of both sides in one frame, and the names of its columns."""

    frame: Frame
    keys: tuple[list[str], list[str]]  # of the left side, and of the right side
    foreign: list[str]
    ordered: list[str]
    own: tuple[list[str], list[str]]


def foreign_key(call: Bound) -> tuple[Expression, ...]:
    """What `on` names: columns of the left side, with or without `l.` before them."""
    known = call.tables[0].df.columns
    columns, text = [], call["on"]
    try:
        parts = [text[some[0].start : some[-1].end + 1] for some in items(sqlglot.tokenize(text, dialect="spark")) if some]
    except SqlglotError:
        parts = [text]
    for part in parts:
        short = part.removeprefix("l.")
        columns.append(Expression.parse(short if call.names.find(plain(short), known) else part))
    return tuple(columns)


def sides(call: Bound) -> tuple[Side, Side]:
    """Both sides, and what goes with what."""
    frames = prepared(call, 0, on=foreign_key(call)), prepared(call, 1)
    foreign = frames[0].extras["on"]
    if len(foreign) != len(frames[1].keys):
        problem = f"names {len(foreign)} columns, and the key of the right side has {len(frames[1].keys)}"
        raise call.refuse("`on`", problem, "The n-th goes with the n-th.")
    check_types(call, "`on`", foreign, frames[1].keys)
    check_order(call, *frames)
    if not all(o.ascending and o.nulls_first for o in frames[0].order):
        raise call.refuse("ORDER BY", "goes up, with nulls first, where `on` is given", "Leave out DESC and NULLS.")
    clocks = clock_keys(call, frames[0])
    if any(c >= len(frames[1].keys) for c in clocks):
        raise call.refuse(
            "`clock_by`", "is not among the first keys of both sides (J5)", "Name a key that stands at one place on both sides."
        )
    return side_of(call, 0, frames[0], clocks), side_of(call, 1, frames[1], clocks)


def judged(call: Bound) -> Both:
    """The changes of both sides, and which of them apply."""
    both = sides(call)
    one = together(call, both)
    df, columns = one.frame.df, (SIDE, *one.keys[0], *one.keys[1])
    df = df.withColumn(EQUAL, F.struct(*map(named, one.ordered), (named(SIDE) == SIDES[1]).alias("second"), *map(named, TIES)))
    in_order = Window.partitionBy(*map(named, columns)).orderBy(named(EQUAL))
    before, accepted = in_order.rowsBetween(Window.unboundedPreceding, -1), named(TIME).isNotNull() & ~named(OLD)
    df = applied(df, both, before, accepted, [F.when(named(SIDE) == side, named(TIME)) for side in SIDES])
    df = df.withColumn(PLACE, F.struct(named(EQUAL), F.row_number().over(in_order).alias("copy")))
    return replace(one, frame=one.frame.with_df(df))


def together(call: Bound, both: tuple[Side, Side]) -> Both:
    """The union of both sides."""
    left = both[0].frame
    keys = tuple([f"{PREFIX}{side}_key_{i}" for i in range(len(b.frame.keys))] for side, b in zip(SIDES, both, strict=True))
    foreign = [f"{PREFIX}on_{i}" for i in range(len(left.extras["on"]))]
    ordered = [f"{PREFIX}o{i}" for i in range(len(left.order))]
    own = tuple([f"{PREFIX}{side}_{i}" for i in range(len(b.own))] for side, b in zip(SIDES, both, strict=True))
    rows: list[DataFrame] = []
    for place, side in enumerate(both):
        frame = side.frame
        kinds = {c.name: c.type for c in frame.columns}
        picked = [r.column.alias(n) for r, n in zip(of_order(frame.order), ordered, strict=True)]
        for other, one in enumerate(both):
            given = [*((r.name, n) for r, n in zip(one.frame.keys, keys[other], strict=True))]
            given += [(column, n) for (column, _), n in zip(one.own, own[other], strict=True)]
            given += [(r.name, n) for r, n in zip(left.extras["on"], foreign, strict=True)] if other == 0 else []
            for column, name in given:
                empty = F.lit(None).cast(one.frame.df.schema[column].dataType)
                picked.append((named(column) if other == place else empty).alias(name))
            mine = [tie_value(n, kinds[n]) for n in frame.ties()] if other == place else []
            picked.append((F.struct(*mine) if mine else F.lit(None)).alias(TIES[other]))
        takes_part = F.when(frame.has_time & frame.has_key, frame.time.column)
        flags = {SIDE: F.lit(SIDES[place]), TIME: takes_part, ALIVE: named(ALIVE), OLD: named(OLD), CLOCK: named(CLOCK)}
        df = frame.df if call["output"] != "rows" else frame.df.where(frame.has_key)  # by time, what computes it would run twice
        rows.append(df.select(*picked, *[c.alias(n) for n, c in flags.items()], frame.time.column.alias(OF_ROW)))
    df = rows[0].unionAll(rows[1])
    shown = shown_of(call, both, [*keys[0], *ordered], own)
    if call["output"] in TOLD:
        shown, of_either = _with_right_keys(call, both, shown, keys[1], df.schema)
        df = df.withColumns({n: F.coalesce(*map(named, pair)) for n, pair in of_either.items()})
    refuse_two_of_a_name(call, [o for _, o in shown])
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    columns, originals = tuple(refs[n] for n, _ in shown), tuple(o for _, o in shown)
    order = tuple(Order(refs[n], True, True) for n in ordered)
    frame = Frame(df, columns, originals, (), order, refs[OF_ROW], {}, call.kernels)
    return Both(frame, keys, foreign, ordered, own)  # type: ignore[arg-type]


def _with_right_keys(
    call: Bound, both: tuple[Side, Side], shown: list[tuple[str, str]], keys: list[str], schema: T.StructType
) -> tuple[list[tuple[str, str]], dict[str, tuple[str, str]]]:
    """The columns where rows of both sides are told of: the right side's keys, too, before its other columns.

    One that is called as a column of the left side is told of in that column, which then is of either side: the pairs by their new names.
    """
    right, end = both[1].frame, len(shown) - len(both[1].own) - 1
    of_left, more, of_either = shown[:end], [], {}
    of_right = {f"{PREFIX}o{i}": o.ref.name for i, o in enumerate(right.order)} | {OF_ROW: right.time.name}  # what they are of right rows
    for name, key, original in zip(keys, right.keys, names_of(right, right.keys), strict=True):
        place = next(iter(call.names.among(original, [o for _, o in of_left])), None)
        column, called = of_left[place] if place is not None else (name, original)
        if place is None or of_right.get(column, key.name) != key.name or not of_one_type(schema[column].dataType, key.type):
            more.append((name, original))
        elif column not in of_right:
            of_left[place] = (f"{name}_or_left", called)
            of_either[f"{name}_or_left"] = (column, name)
    return [*of_left, *more, *shown[end:]], of_either


def changes(call: Bound, both: Both) -> DataFrame:
    """What each change does to the rows of the join, of which there is one at most for each key of the left side."""
    keys = [named(k) for k in both.keys[0]]
    late = F.when(~named(ALIVE), named(BEFORE))  # what a deletion withdraws
    events = (
        touched(call, both)
        .withColumns(
            {
                TYPE: F.when(named(HAS), "upsert").when(named(HAD), "delete"),
                AT: F.greatest(named(LEFT_TIME), named(RIGHT_TIME), late),
            }
        )
        .where(named(TYPE).isNotNull())
    )
    columns = list(zip(both.frame.columns, both.frame.originals, strict=True))
    number = F.row_number().over(Window.partitionBy(*keys, *map(named, both.ordered)).orderBy(named(PLACE), named(RANK)))
    upsert = named(TYPE) == "upsert"
    there = {**dict.fromkeys(both.own[0], upsert), **dict.fromkeys(both.own[1], upsert & named(MATCH))}
    shown = [(F.when(there[c.name], c.column) if c.name in there else c.column).alias(o) for c, o in columns]
    return events.select(*shown, *change_columns(named(TYPE), named(AT), number - 1))


def touched(call: Bound, both: Both) -> DataFrame:
    """Each left row that a change touches, its own or one that names it: whether the join has a row of it then (`HAS`), and had one before
    (`HAD`), which met a row of that time (`BEFORE`).
    """
    events = _events(both)
    by_key = Window.partitionBy(*map(named, both.keys[0])).orderBy(named(PLACE), named(RANK))
    events = events.withColumn(END, F.lead(named(PLACE)).over(by_key)).where(named(END).isNull() | (named(END) != named(PLACE)))
    events = events.withColumn(HAS, named(ALIVE) & (named(MATCH) if call["join_type"] == "inner" else F.lit(True)))
    met = F.when(named(MATCH), named(RIGHT_TIME))
    return events.withColumns({HAD: F.lag(named(HAS), 1, False).over(by_key), BEFORE: F.lag(met).over(by_key)})


def _versions(both: Both, place: int) -> DataFrame:
    """The changes of a side that apply, each with the place of the one that ends it. Those of the right side are shuffled as the join
    is: by `SALT`, too.
    """
    rows = both.frame.df.where((named(SIDE) == SIDES[place]) & named(APPLIED))
    keys = [*map(named, both.keys[place])]
    if place == 1:
        rows = rows.withColumn(SALT, F.pmod(F.hash(*keys), F.lit(1)))  # Spark would fold a constant, and shuffle by the keys alone
        keys.append(named(SALT))
    return rows.withColumn(END, F.lead(named(PLACE)).over(Window.partitionBy(*keys).orderBy(named(PLACE))))


def _events(both: Both) -> DataFrame:
    """Each change of the left side alone, as long as it meets nothing; then with each state of the row that it names, as long as both last:
    from the later one's place on. Left rows that name nothing are spread over all tasks of the join, where they meet nothing.
    """
    twice = _versions(both, 0).withColumn(RANK, F.explode(F.array(F.lit(0), F.lit(1))))
    left = twice.where(named(ALIVE) | (named(RANK) == 0)).withColumns(
        {f: F.when((named(RANK) == 1) & named(ALIVE), named(f)) for f in both.foreign}
    )
    names_nothing = F.lit(False)
    for f in both.foreign:
        names_nothing |= named(f).isNull()
    anywhere = 1 + F.pmod(F.hash(*map(named, both.keys[0])), F.lit(SPREAD))
    left = left.withColumn(SALT, F.when(names_nothing, anywhere).otherwise(0))
    left, right = left.alias("l"), _versions(both, 1).alias("r")

    def of(side: str, name: str) -> Column:
        return expression(f"{side}.{quoted(name)}")

    same = [of("l", f) == of("r", k) for f, k in zip(both.foreign, both.keys[1], strict=True)]
    same.append(of("l", SALT) == of("r", SALT))
    lasts = [of(a, END).isNull() | (of(b, PLACE) < of(a, END)) for a, b in (("l", "r"), ("r", "l"))]
    # not null-safe: a null names nothing (J8)
    met = left.join(right, [*same, *lasts], "left").where((of("l", RANK) == 0) | of("r", PLACE).isNotNull())
    match = F.coalesce(of("r", ALIVE), F.lit(False))
    by_right = F.coalesce(of("r", PLACE) > of("l", PLACE), F.lit(False))
    later = [F.when(by_right, of("r", n)).otherwise(of("l", n)).alias(n) for n in (*both.ordered, PLACE)]
    return met.select(
        *(of("l", k) for k in both.keys[0]),
        *(of("r", k) for k in both.keys[1]),
        *later,
        *(of("l", n) for n in both.own[0]),
        *(of("r", n) for n in both.own[1]),
        of("l", ALIVE),
        of("l", RANK),
        of("l", TIME).alias(LEFT_TIME),
        match.alias(MATCH),
        by_right.alias(BY_RIGHT),
        F.when(by_right | match, of("r", TIME)).alias(RIGHT_TIME),
    )
