"""JOIN_CHANGES by a foreign key on streams (rules J8, C5d): three states, one behind the other.

The first is by the left side's key, and says of each change which key of the right side its row names no more, and which it names now. The
second is by the key of the right side: it answers left rows with the right row, and tells all that name it of its changes. The third is by
the left side's key again: it has the left row and whether it is joined, so that what comes to it is an upsert, a delete, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.changes.foreign import sides
from streamtime.sql.changes.given import ALIVE, counted, of_order, refuse_two_of_a_name
from streamtime.sql.changes.join import SIDES, shown_of
from streamtime.sql.changes.stream import AS_THEY_ARE, MADE, PLACE, TIME, clocked_sides
from streamtime.sql.rows.changelog import change_columns
from streamtime.sql.rows.columns import expression, must_travel, named
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref, refs_of
from streamtime.sql.stream.buckets import HALVES
from streamtime.sql.stream.plan import KeyState, Leaving, released
from streamtime.sql.stream.watermark import behind_watermark
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.changes.latest import LogColumns
from streamtime.udfs.changes.references import Marks, References
from streamtime.udfs.changes.referring import Referring
from streamtime.udfs.changes.replaced import Replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.changes.join import Side

COMES, LAST, MOVED, NUMBER = (f"{PREFIX}{n}" for n in ("comes", "last", "moved", "number"))
OF_RIGHT, SILENT, NAMES, APART = (f"{PREFIX}{n}" for n in ("of_right", "silent", "names", "apart"))
THERE, MATCH, MATCH_TIME, EVENT = (f"{PREFIX}{n}" for n in ("there", "match", "match_time", "event"))


@dataclass(frozen=True)
class TravelNames:
    """What the columns are called on their way; those of the input are as the result has them."""

    key: list[str]  # of the left side
    on: list[str]  # the key of the right side, and what the left side names
    ordered: list[str]
    left: list[str]  # the columns that a side has alone
    right: list[str]
    ties: list[str]  # all columns of the right side that may decide between its changes, `right` among them


def streams_by_key(call: Bound) -> tuple[tuple[Side, Side], dict[str, Any]]:
    """Both sides, and the options that pin a checkpoint."""
    both = sides(call)
    versioned = ", ".join(name for name, side in zip(SIDES, both, strict=True) if side.versioned) or None
    for name, side in zip(SIDES, both, strict=True):
        for column, original in side.own:
            kind = side.frame.df.schema[column].dataType
            must_travel(call, None, f"column `{original}` of the {name} side", kind, "to Python on a stream")
    return both, {n: call[n] for n in ("join_type", "on", "retention", "deleted")} | {"versioned": versioned}


def by_foreign_key(call: Bound) -> DataFrame:
    """The changes of JOIN_CHANGES with `on`."""
    both, options = streams_by_key(call)
    names = _names(both)
    shown = shown_of(call, both, [*names.key, *names.ordered], (names.left, names.right))
    refuse_two_of_a_name(call, [o for _, o in shown])
    columns = {n: f"{o} {side.frame.df.schema[column].dataType.simpleString()}" for n, o, side, column in _own(both, names)}
    options |= {"columns": ", ".join(columns.values())}
    left, right = clocked_sides(call, both)
    parts = _parts(call, both[0], left, names, options)
    events = _events(call, both, _united(call, both, names, parts, right), names, options)
    changes = _changes(call, both, events, names, options)
    return changes.select(*(named(n).alias(o) for n, o in shown), *change_columns(*map(named, MADE)))


def _own(both: tuple[Side, Side], names: TravelNames) -> Iterable[tuple[str, str, Side, str]]:
    for side, mine in zip(both, (names.left, names.right), strict=True):
        for n, (column, original) in zip(mine, side.own, strict=True):
            yield n, original, side, column


def _names(both: tuple[Side, Side]) -> TravelNames:
    left, right = both
    own = [[f"{PREFIX}{name}_{i}" for i in range(len(side.own))] for name, side in zip(SIDES, both, strict=True)]
    of = {column: n for (column, _), n in zip(right.own, own[1], strict=True)}
    return TravelNames(
        key=[f"{PREFIX}left_key_{i}" for i in range(len(left.frame.keys))],
        on=[f"{PREFIX}on_{i}" for i in range(len(right.frame.keys))],
        ordered=[f"{PREFIX}o{i}" for i in range(len(left.frame.order))],
        left=own[0],
        right=own[1],
        ties=[of.get(n, f"{PREFIX}tie_{i}") for i, n in enumerate(_others(right.frame))],
    )


def _others(frame: Frame) -> list[str]:
    """The columns of a side that are neither keys nor in ORDER BY."""
    done = {r.name for r in (*frame.keys, *of_order(frame.order))}
    return [c.name for c in frame.columns if c.name not in done]


def _parts(call: Bound, side: Side, df: DataFrame, names: TravelNames, options: dict[str, Any]) -> DataFrame:
    """The first state: what comes to a key of the right side, and what goes from it."""
    frame, on = side.frame.with_df(df).comparable(side.frame.extras["on"])
    equal = [f"{PREFIX}equal_on_{i}" for i in range(len(on))]
    made = dict(zip(names.on, (r.column for r in side.frame.extras["on"]), strict=True)) | dict(zip(equal, map(named, on), strict=True))
    df = frame.df.withColumns(made | {TIME: frame.time.column})
    sent = [*(c.name for c in frame.columns), TIME, ALIVE, *made]
    columns = tuple(refs_of(df, sent))
    frame = Frame(df, columns, tuple(sent), frame.keys, frame.order, columns[sent.index(TIME)], {}, call.kernels)
    carried = list(dict.fromkeys([*(r.name for r in (*frame.keys, *of_order(frame.order))), *(c for c, _ in side.own), TIME]))
    versioned = (side.versioned,)
    log = LogColumns(TIME, ALIVE, "", None, tuple(made), versioned, versioned, call["retention"])
    holder = Replaced(log, tuple(carried), tuple(made), tuple(equal), (COMES, LAST, MOVED, NUMBER))
    fields = [*fields_of(df.schema, [*carried, *made]), *flags(COMES, LAST, MOVED), T.StructField(NUMBER, T.LongType())]
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, options, frame.left_out, AS_THEY_ARE)
    parts = released(call, frame, holder, state, Leaving(sent, behind_watermark(fields)), is_watermarked=True)
    return parts.where(named(LAST))  # a row that goes and comes back to where it was only comes


def _united(call: Bound, both: tuple[Side, Side], names: TravelNames, parts: DataFrame, right: DataFrame) -> DataFrame:
    """Parts of the left side, and changes of the right one."""
    sides = [(both[0], parts), (both[1], right)]
    rows = []
    for place, (side, df) in enumerate(sides):
        picked = [r.column.alias(n) for r, n in zip(of_order(side.frame.order), names.ordered, strict=True)]
        keys = [r.name for r in both[1].frame.keys] if place else names.on
        picked += [named(k).alias(n) for k, n in zip(keys, names.on, strict=True)]
        given = [(0, r.name, n) for r, n in zip(both[0].frame.keys, names.key, strict=True)]
        given += [(0, column, n) for (column, _), n in zip(both[0].own, names.left, strict=True)]
        given += [(1, column, n) for column, n in zip(_others(both[1].frame), names.ties, strict=True)]
        for of, column, name in given:
            empty = F.lit(None).cast(both[of].frame.df.schema[column].dataType)
            picked.append((named(column) if of == place else empty).alias(name))
        no, yes = F.lit(False), F.lit(True)
        named_all, spread = names_and_apart(names.on, [r.name for r in both[0].frame.keys]) if not place else (yes, F.lit(0))
        marks = {
            TIME: named(TIME) if not place else side.frame.time.column,
            ALIVE: named(COMES) if not place else named(ALIVE),
            OF_RIGHT: yes if place else no,
            COMES: no if place else named(COMES),
            SILENT: yes if place else named(MOVED) & ~named(COMES),
            NAMES: named_all,
            NUMBER: F.lit(0).cast("bigint") if place else named(NUMBER),
            APART: spread.cast("bigint"),
        }
        rows.append(df.select(*picked, *(column.alias(n) for n, column in marks.items())))
    ordered = counted(call, both[0].frame, names.ordered)
    return rows[0].unionAll(rows[1]).withColumn(PLACE, F.xxhash64(F.lit(0), *map(named, ordered)))


def _events(call: Bound, both: tuple[Side, Side], df: DataFrame, names: TravelNames, options: dict[str, Any]) -> DataFrame:
    """The second state: each left row that a change touches, with what it names then."""
    texts = dict(zip(names.on, (r.text for r in both[1].frame.keys), strict=True))
    frame = keyed(call, both, df, [*names.on, APART], [*names.ordered, OF_RIGHT, NUMBER, COMES], [*names.ties, *df.columns], texts)
    frame, row_identity = frame.comparable(refs_of(df, names.key))
    carried = [*names.ordered, OF_RIGHT, *names.left, TIME, PLACE]
    versioned = (both[1].versioned,)
    log = LogColumns(TIME, ALIVE, PLACE, None, (), versioned, versioned, call["retention"])
    marks = Marks(OF_RIGHT, COMES, SILENT, NAMES, NUMBER, HALVES)
    holder = References(log, marks, tuple(carried), tuple(names.key), tuple(names.right), (THERE, MATCH, MATCH_TIME, EVENT))
    fields = [*fields_of(df.schema, [*carried, *names.key, *names.right]), *flags(THERE, MATCH)]
    fields += [T.StructField(MATCH_TIME, frame.time.type), T.StructField(EVENT, T.LongType())]
    no_key = expression(" OR ".join(f"{quoted(n)} IS NULL" for n in names.on))
    aside = F.when(named(OF_RIGHT), F.when(~frame.has_time, "null_time").when(no_key, "null_key"))
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, options, aside, AS_THEY_ARE)
    leaving = Leaving([c.name for c in frame.columns], behind_watermark(fields))
    return released(call, frame, holder, state, leaving, is_watermarked=True, step="right", row_identity=row_identity)


def _changes(call: Bound, both: tuple[Side, Side], df: DataFrame, names: TravelNames, options: dict[str, Any]) -> DataFrame:
    """The third state: what they do to the join."""
    texts = dict(zip(names.key, (r.text for r in both[0].frame.keys), strict=True))
    frame = keyed(call, both, df, names.key, [*names.ordered, OF_RIGHT, EVENT], df.columns, texts)
    carried = [*names.key, *names.ordered]
    holder = Referring(
        OF_RIGHT, TIME, PLACE, THERE, MATCH, MATCH_TIME, tuple(carried), tuple(names.left), tuple(names.right), MADE, call["join_type"]
    )
    fields = [*fields_of(df.schema, [*carried, *names.left, *names.right])]
    fields += [T.StructField(n, kind) for n, kind in zip(MADE, (T.StringType(), frame.time.type, T.LongType()), strict=True)]
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, options, F.lit(None).cast("string"), ())
    leaving = Leaving([c.name for c in frame.columns], behind_watermark(fields))
    return released(call, frame, holder, state, leaving, is_watermarked=True, step="join")


def names_and_apart(on: Sequence[str], keys: Sequence[str]) -> tuple[Column, Column]:
    """Whether a left row names a right row, and a number by which those that name none are spread: they would else be one large group."""
    names = expression(" AND ".join(f"{quoted(n)} IS NOT NULL" for n in on))
    return names, F.when(names, 0).otherwise(F.xxhash64(*map(named, keys)))


def keyed(
    call: Bound,
    both: tuple[Side, Side],
    df: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    columns: Sequence[str],
    texts: dict[str, str],
) -> Frame:
    """These rows, by these keys and in this order. `texts` are names as people wrote them."""
    texts = texts | dict(zip((f"{PREFIX}o{i}" for i in range(len(order))), (r.text for r in of_order(both[0].frame.order)), strict=False))
    refs = {f.name: Ref(f.name, f.dataType, texts.get(f.name, f.name)) for f in df.schema}
    all_of_them = tuple(refs[n] for n in dict.fromkeys(columns))
    ordered = tuple(Order(refs[n], True, True) for n in order)
    names = tuple(c.name for c in all_of_them)
    return Frame(df, all_of_them, names, tuple(refs[k] for k in keys), ordered, refs[TIME], {}, call.kernels)


def fields_of(schema: T.StructType, names: Sequence[str]) -> list[T.StructField]:
    """These columns, which may be null."""
    return [T.StructField(n, schema[n].dataType, True, schema[n].metadata) for n in names]


def flags(*names: str) -> list[T.StructField]:
    """Columns that say yes or no."""
    return [T.StructField(n, T.BooleanType()) for n in names]
