"""Each left row beside the right version that it looks up: both sides in one shuffle, sorted by key and time, and one window over them.

A window needs its rows sorted by key and time, where Spark calls a comparator for nearly every comparison of rows of a key. So the rows are
sorted before the shuffle, by one number that holds the key's hash and the time (`streamtime.sql.rows.sorting`), which Spark does without a
comparator, and with all cores however hot a key is. The window divides by the hash first and then by the key, so that its own sort finds as
many runs as there were tasks, in order but for times that are nearly equal, and merges them. A second sort behind the shuffle would hold
every row a second time. Where rows have many columns, the left side's are packed into one struct, as the right side's are, so that no row
is as wide as both sides.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.rows.columns import direct, expression, has_collation, named, orderable, sorted_by, tie_text
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref
from streamtime.sql.rows.scans import chosen
from streamtime.sql.rows.sorting import coarse, sorted_runs
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, WindowSpec

    from streamtime.sql.as_of.sides import Sides
    from streamtime.sql.call.spec import Bound

IS_RIGHT, LEFT, RIGHT, BEFORE, AFTER, MATCH, TIED = (
    f"{PREFIX}{n}" for n in ("is_right", "left", "right", "before", "after", "match", "tied")
)
BACKWARD, FORWARD, NEAREST = "backward", "forward", "nearest"
MOST_NARROW = 12  # columns: of the left side beside key and time, and all of the right side
TIES_FIX = "Say ties => 'last' or 'first', or make the times differ."


@dataclass(frozen=True)
class BothSides:
    """Both sides as one: left rows under their own names, right rows in the struct RIGHT; keys and times in columns that both fill.

    `shared` are right columns that equal left ones in every match; `ties` orders right rows of one key and time.
    """

    frame: Frame
    shared: dict[str, str]
    ties: tuple[Order, ...]


def field(struct: str, name: str) -> Column:
    """A field of a struct column."""
    return expression(f"{quoted(struct)}.{quoted(name)}")


def both(sides: Sides, extra: dict[str, tuple[Column, Column]], keep: tuple[str, ...]) -> BothSides:
    """The union. `extra` are further columns, of left rows and of right ones; `keep` are fields that the struct must have."""
    left, right = sides.left, sides.right
    right_df, schema = chosen(right, right.has_time & right.has_key).df, left.df.schema
    filled: dict[str, Column] = {}
    made: dict[str, tuple[Column, Column]] = dict(extra)
    shared: dict[str, str] = {}
    keys: list[Ref] = []
    for i, (a, b) in enumerate(zip(left.keys, right.keys, strict=True)):
        if a.type == b.type and a.name not in filled:
            filled[a.name] = b.column
            keys.append(a)
            if direct(a.type):
                shared.setdefault(b.name, a.name)
        else:
            made[f"{PREFIX}key_{i}"] = (a.column, b.column)
            keys.append(Ref(f"{PREFIX}key_{i}", a.type, a.text))
    time = left.time
    if time.name in filled:
        time = Ref(f"{PREFIX}time", time.type, time.text)
        made[time.name] = (left.time.column, right.time.column)
    else:
        filled[time.name] = right.time.column
    fields = [c.name for c in right.columns if c.name not in shared]
    fields += [n for n in dict.fromkeys((right.time.name, *keep)) if n not in fields]
    ties = []
    for i, (text, ascending, nulls_first) in enumerate(_ties(right, fields)):
        name = RIGHT if text == RIGHT else f"{PREFIX}tie_{i}"
        if name != RIGHT:
            made[name] = (F.lit(None), expression(text))
        ties.append(Order(Ref(name, T.NullType(), text), ascending, nulls_first))
    rights = [filled[n].alias(n) if n in filled else F.lit(None).cast(schema[n].dataType).alias(n) for n in left.df.columns]
    rights += [b.alias(n) for n, (_, b) in made.items()]
    right_rows = right_df.select(*rights, F.lit(True).alias(IS_RIGHT), F.struct(*map(named, fields)).alias(RIGHT))
    nothing = F.lit(None).cast(right_rows.schema[RIGHT].dataType)
    lefts = [*map(named, left.df.columns), *[a.alias(n) for n, (a, _) in made.items()]]
    left_rows = left.df.select(*lefts, F.lit(False).alias(IS_RIGHT), nothing.alias(RIGHT))
    frame = Frame(left_rows.unionAll(right_rows), (), (), tuple(keys), (Order(time, True, True),), time, {}, left.kernels)
    return BothSides(frame, shared, tuple(ties))


def _ties(right: Frame, fields: list[str]) -> list[tuple[str, bool, bool]]:
    """As SQL text, ascending, nulls first: ORDER BY after the time, then the remaining columns (rule C4).

    The struct of a row says it where it compares its fields just so: its time is equal then, and its other fields are the rest.
    """
    kinds = {f.name: f.dataType for f in right.df.schema}
    if len(right.order) == 1 and all(orderable(kinds[f]) and not has_collation(kinds[f]) for f in fields):
        return [(RIGHT, True, True)]
    ordered = [(quoted(o.ref.name), o.ascending, o.nulls_first) for o in right.order[1:]]
    rest = [*(tie_text(n, kinds[n]) for n in right.ties()), *right.signs()]
    return ordered + [(text, True, True) for text in rest]


def candidates(call: Bound, right: Frame, direction: str) -> tuple[Frame, tuple[str, ...]]:
    """The right rows that can be found, with TIED where `ties` asks for it, and the flags of rows that delete their key."""
    deleted = tuple(r.name for r in right.extras.get("deleted", ()))
    df = chosen(right, right.has_time & right.has_key).df
    if deleted and direction != BACKWARD:
        df = df.where(~F.coalesce(named(deleted[0]), F.lit(False)))
    if call["ties"] == "error":
        together = Window.partitionBy(*[k.column for k in right.keys], right.time.column)
        df = df.withColumn(TIED, F.count(F.lit(1)).over(together) > 1)
    return right.with_df(df), deleted


def looked_up(call: Bound, sides: Sides) -> tuple[Frame, dict[str, str]]:
    """The left side's frame with MATCH, and the right columns that are not in it but equal a left one (rules J1, J4)."""
    direction, exact = meaning(call, sides)
    right, deleted = candidates(call, sides.right, direction)
    keep = (*deleted, *(r.name for r in right.extras.get("until", ())), *([TIED] if call["ties"] == "error" else []))
    joined = both(replace(sides, right=right), {}, keep)
    frame, identity = joined.frame.comparable(joined.frame.keys)
    rising = frame.time.name
    ahead = direction == FORWARD
    order = _order(joined, rising, rights_first=exact != ahead, reverse=(call["ties"] == "first") != ahead)
    at_hand = {IS_RIGHT, RIGHT, rising, *identity, *(key.name for key in frame.keys), *(tie.ref.name for tie in joined.ties)}
    payload = [name for name in frame.df.columns if name not in at_hand]
    wide = bool(payload) and len(payload) + len(right.columns) > MOST_NARROW
    frame = _packed(frame, payload) if wide else frame
    df, by = sorted_runs(frame.df, identity, coarse(rising, frame.time.type))
    each = Window.partitionBy(*map(named, by))
    if direction != FORWARD:
        df = df.withColumn(BEFORE, next_right("lag", each.orderBy(*order)))
    if direction != BACKWARD:
        if direction == NEAREST:  # the first of equal times stands next to what comes before it, the last of them is asked for
            order = _order(joined, rising, True, reverse=call["ties"] != "first")
        df = df.withColumn(AFTER, next_right("lead", each.orderBy(*order)))
    df = df.where(~named(IS_RIGHT))
    if wide:
        df = df.select(*[named(n) for n in df.columns if n != LEFT], *[field(LEFT, n).alias(n) for n in payload])
    df = df.withColumn(MATCH, nearest(joined.frame.time, right, direction))
    return sides.left.with_df(df.withColumn(MATCH, checked(call, joined.frame.time, right, deleted))), joined.shared


def next_right(function: str, within: WindowSpec) -> Column:
    """The right row that stands next to a row, before ('lag') or after it ('lead'). `last` would copy it twice for every row, they once."""
    return expression(f"{function}({quoted(RIGHT)}) IGNORE NULLS").over(within)


def _packed(frame: Frame, columns: list[str]) -> Frame:
    """These columns as one, LEFT, null on right rows, where each would take as much room as on left ones."""
    others = [named(n) for n in frame.df.columns if n not in columns]
    return frame.with_df(frame.df.select(*others, F.when(~named(IS_RIGHT), F.struct(*map(named, columns))).alias(LEFT)))


def checked(call: Bound, time: Ref, right: Frame, deleted: tuple[str, ...] = ()) -> Column:
    """MATCH where it counts: within `tolerance`, still valid, not `deleted` (flags in it), and alone where `ties` asks for it."""
    good = []
    if call["tolerance"] is not None:
        good.append(_distance(time, MATCH, right) <= call["tolerance"])
    ends = [field(MATCH, until.name) for until in right.extras.get("until", ())]
    good += [end.isNull() | (time.column < end) for end in ends]
    depends = functools.reduce(operator.and_, good, field(MATCH, TIED)) if call["ties"] == "error" else None
    good += [~F.coalesce(field(MATCH, flag), F.lit(False)) for flag in deleted]
    version = F.when(functools.reduce(operator.and_, good), named(MATCH)) if good else named(MATCH)
    if depends is None:
        return version
    at = field(MATCH, right.time.name).cast("string")
    message = F.concat(F.lit(f"{call.spec.name}, `ties`: the right side has several rows of one key at "), at, F.lit(f". {TIES_FIX}"))
    return F.when(depends, F.raise_error(message)).otherwise(version)


def meaning(call: Bound, sides: Sides) -> tuple[str, bool]:
    """Where to look, and whether an equal time counts."""
    direction = call["direction"] or (FORWARD if sides.forward else BACKWARD)
    exact = sides.exact if sides.exact is not None else call["allow_exact"] is not False
    return direction, exact


def refuse_longer_than_retention(call: Bound) -> None:
    """A row must not wait longer than what it waits for is there."""
    grace, retention = call["grace"], call["retention"]
    if grace is not None and retention is not None and grace > retention:
        raise call.refuse("`grace`", "is longer than `retention`: rows would wait until their version has expired", "Make it no longer.")


def _order(joined: BothSides, rising: str, rights_first: bool, reverse: bool) -> list[Column]:
    sides_at_once = sorted_by(quoted(IS_RIGHT), ascending=not rights_first, nulls_first=not rights_first)
    return [sorted_by(quoted(rising)), sides_at_once, *[t.sort(reverse) for t in joined.ties]]


def _distance(time: Ref, struct: str, right: Frame) -> Column:
    """How far apart a left row and a right one are, in microseconds."""
    other = f"{quoted(struct)}.{quoted(right.time.name)}"
    return expression(f"abs({microseconds(quoted(time.name), time.type)} - {microseconds(other, right.time.type)})")


def nearest(time: Ref, right: Frame, direction: str) -> Column:
    """What stands before or after a left row, or the nearer of both; nothing for a row without a time."""
    if direction == BACKWARD:
        return named(BEFORE)
    if direction == FORWARD:
        return F.when(time.column.isNotNull(), named(AFTER))
    nearer = named(BEFORE).isNull() | (_distance(time, AFTER, right) < _distance(time, BEFORE, right))
    either = F.when(named(AFTER).isNotNull() & nearer, named(AFTER)).otherwise(named(BEFORE))
    return F.when(time.column.isNotNull(), either)
