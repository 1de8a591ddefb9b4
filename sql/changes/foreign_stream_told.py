"""What each change of a join by a foreign key did, on streams (rules C6, J8): one row for each change, ignored ones too.

Which are ignored hangs on those of the same side and key alone: one state, which is enough for `'dropped'` and `'all'`. `'explain'` has
two more behind it, as the changes themselves have (`foreign_stream`). By the key of the right side: what a left row meets there, and how
many left rows name a right row that changes, which is all that a change of the right side did. By the left key again: what a change of
the left side made of the row that the join had. A change that needs nothing more to be told passes by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.changes.foreign import TIES, together
from streamtime.sql.changes.foreign_stream import (
    APART,
    COMES,
    EVENT,
    MATCH,
    MATCH_TIME,
    NAMES,
    NUMBER,
    OF_RIGHT,
    SILENT,
    THERE,
    fields_of,
    keyed,
    names_and_apart,
    streams_by_key,
)
from streamtime.sql.changes.foreign_told import MANY, MET, explained_rows
from streamtime.sql.changes.given import ALIVE, REASONS
from streamtime.sql.changes.join import OF_ROW, SIDE, SIDES
from streamtime.sql.changes.join import TIME as TAKES_PART
from streamtime.sql.changes.stream import AS_THEY_ARE, HAD, HAS, MADE, PLACE, SAME, TIME, Changes, Telling, clocked_sides, released_changes
from streamtime.sql.rows.columns import named
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref, refs_of
from streamtime.sql.stream.buckets import HALVES
from streamtime.sql.stream.plan import KeyState, Leaving, released
from streamtime.sql.stream.watermark import behind_watermark
from streamtime.udfs.changes.latest import LogColumns
from streamtime.udfs.changes.references import Marks, References
from streamtime.udfs.changes.referring import Referring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.changes.foreign import Both
    from streamtime.sql.changes.join import Side

OF_SIDE, WHY, PART, PASSES = (f"{PREFIX}{n}" for n in ("of_side", "why", "part", "passes"))
HAS_ROW, HAD_ROW = (f"{PREFIX}{n}" for n in ("has_row", "had_row"))
COMING, GOING, RIGHT, ASIDE = "comes", "goes", "right", "aside"


@dataclass(frozen=True)
class ToldChanges:
    """Changes on their way through the states, and the names of their columns."""

    call: Bound  # it asks for no report: what the states let go are rows
    both: tuple[Side, Side]
    one: Both
    ties: list[str]
    options: dict[str, Any]

    @property
    def on(self) -> list[str]:
        """What a left row names, or a right row is."""
        return [f"{PREFIX}named_{i}" for i in range(len(self.one.foreign))]

    @property
    def whose(self) -> list[str]:
        """The key of the left row that is touched."""
        return [f"{PREFIX}whose_{i}" for i in range(len(self.one.keys[0]))]

    @property
    def before(self) -> list[str]:
        """What the left row named before."""
        return [f"{PREFIX}before_{i}" for i in range(len(self.one.foreign))]

    def keyed(self, df: DataFrame, keys: Sequence[str], texts: Sequence[Ref], order: Sequence[str] = ()) -> Frame:
        """These rows by these keys, in the order in which the first state took them; then in this one, then by ties."""
        named_so = dict(zip(keys, (r.text for r in texts), strict=False))
        return keyed(self.call, self.both, df, keys, [*self.order, *order], [*self.ties, *df.columns], named_so)

    @property
    def order(self) -> list[str]:
        """In which order the first state took them, but for ties."""
        return [*self.one.ordered, OF_SIDE]


def reported(call: Bound) -> DataFrame:
    """The changes with the reason why they are ignored, or with what they did."""
    given, options = streams_by_key(call)
    left, right = (replace(side, frame=side.frame.with_df(df)) for side, df in zip(given, clocked_sides(call, given), strict=True))
    one = together(call, (left, right))
    df = one.frame.df.withColumns({OF_SIDE: (named(SIDE) == SIDES[1]).cast("tinyint"), PLACE: F.lit(0).cast("bigint")})
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    ties = [n for n in TIES if not isinstance(refs[n].type, T.NullType)]
    keys = [OF_SIDE, *one.keys[0], *one.keys[1]]
    columns = tuple(
        refs[n] for n in dict.fromkeys([*ties, *(c.name for c in one.frame.columns), *one.ordered, OF_ROW, ALIVE, OF_SIDE, PLACE])
    )
    ordered = (*one.frame.order, Order(refs[OF_SIDE], True, True))
    frame = Frame(df, columns, tuple(c.name for c in columns), tuple(refs[k] for k in keys), ordered, refs[OF_ROW], {}, call.kernels)
    versioned = tuple(side.versioned for side in given)
    log = LogColumns(OF_ROW, ALIVE, PLACE, OF_SIDE, (), versioned, versioned, call["retention"])
    shown = list(zip((c.name for c in one.frame.columns), one.frame.originals, strict=True))
    aside = F.when(~frame.has_time, "null_time").when(named(TAKES_PART).isNull(), "null_key")
    if call["output"] != "explain":
        return released_changes(call, Changes(frame, shown, ([], [])), log, options, REASONS, aside=aside, join_type=call["join_type"])
    options |= {"columns of `on`": ", ".join(refs[n].type.simpleString() for n in one.foreign)}
    told = ToldChanges(replace(call, options=call.options | {"output": "rows"}), given, one, ties, options)
    frame, equal = frame.comparable([refs[n] for n in one.foreign])
    more = refs_of(frame.df, dict.fromkeys([*one.keys[0], *one.keys[1], *one.foreign, *equal]))
    columns = tuple({c.name: c for c in (*columns, *more)}.values())
    frame = replace(frame, columns=columns, originals=tuple(c.name for c in columns))
    held = tuple(dict.fromkeys([*one.foreign, *equal]))
    return released_changes(
        call,
        Changes(frame, shown, ([], [])),
        replace(log, held=held),
        options,
        REASONS,
        aside=aside,
        telling=Telling(partial(_explained, call, told), equal, list(zip(one.foreign, told.before, strict=True))),
        join_type="outer",  # of a key of either side: whether its own row is there
    )


def _explained(call: Bound, told: ToldChanges, frame: Frame, reason: Column) -> DataFrame:
    """What each change did; `reason` is why it is ignored."""
    rows = _judged(told, _met(told, _parts(told, frame.df.withColumn(WHY, reason))))
    right = named(SIDE) == SIDES[1]
    by_right = F.when(named(ALIVE), "joined").when(F.lit(call["join_type"] == "left"), "alone").when(named(HAD), "withdrew")
    by_left = F.when(named(HAS_ROW) & named(MATCH), "joined").when(named(HAS_ROW), "alone").when(named(HAD_ROW), "withdrew")
    did = F.when(right, F.when(named(MANY) > 0, by_right)).otherwise(by_left)
    aside = F.when(named(WHY).isin(*AS_THEY_ARE), named(WHY))
    return explained_rows(call, told.one, frame.with_df(rows), aside, F.when(aside.isNull(), named(WHY)), did)


def _parts(told: ToldChanges, df: DataFrame) -> DataFrame:
    """What goes on of each change: a left row that comes to what it names, and goes from what it named; a right row; a row that is told."""
    right, counts = named(SIDE) == SIDES[1], named(WHY).isNull()
    left = ~right & counts
    parts = {
        COMING: left & named(HAS),
        GOING: left & named(HAD) & ~named(SAME),
        RIGHT: right & counts,
        ASIDE: ~counts | (~right & ~named(HAD) & ~named(HAS)),
    }
    kinds = F.array_compact(F.array(*(F.when(condition, kind) for kind, condition in parts.items())))
    df = df.withColumn(PART, F.explode(kinds))
    part, is_right = named(PART), named(PART) == RIGHT
    names = zip(told.one.keys[1], told.one.foreign, told.before, strict=True)
    on = [F.when(is_right, named(key)).when(part == COMING, named(now)).when(part == GOING, named(was)) for key, now, was in names]
    df = df.withColumns(dict(zip(told.on, on, strict=True)))
    some, spread = names_and_apart(told.on, told.one.keys[0])
    marks = {
        OF_RIGHT: is_right,
        COMES: part == COMING,
        SILENT: is_right | ((part == GOING) & named(HAS)),
        NAMES: some,
        NUMBER: F.lit(0).cast("bigint"),
        APART: spread.cast("bigint"),
        PASSES: part == ASIDE,
        TIME: named(OF_ROW),
    }
    return df.withColumns(marks | dict(zip(told.whose, map(named, told.one.keys[0]), strict=True)))


def _met(told: ToldChanges, df: DataFrame) -> DataFrame:
    """By the right side's key: what left rows meet, and how many a right row has."""
    frame = told.keyed(df, [*told.on, APART], told.both[1].frame.keys)
    frame, row_identity = frame.comparable(refs_of(df, told.whose))
    carried = [c.name for c in frame.columns if c.name not in told.whose]
    by_right = (*told.order, OF_RIGHT, PASSES, PLACE, TIME)  # what the next state needs of a change of the right side
    log = LogColumns(TIME, ALIVE, PLACE, None, (), (False,), (False,))
    marks = Marks(OF_RIGHT, COMES, SILENT, NAMES, NUMBER, HALVES)
    holder = References(log, marks, tuple(carried), tuple(told.whose), (), (THERE, MATCH, MATCH_TIME, EVENT), MANY, by_right)
    time = frame.time.type
    made = {THERE: T.BooleanType(), MATCH: T.BooleanType(), MATCH_TIME: time, EVENT: T.LongType(), MANY: T.LongType()}
    return _passed(told, frame, holder, [*carried, *told.whose], made, "right", row_identity)


def _judged(told: ToldChanges, df: DataFrame) -> DataFrame:
    """By the left key: what a change of the left side made of the join's row. A change of the right side passes: it is told."""
    df = df.withColumn(PASSES, named(PASSES) | named(MANY).isNotNull())
    frame = told.keyed(df, told.whose, told.both[0].frame.keys, [EVENT])  # that of the right side, which has no other columns there
    carried = [c.name for c in frame.columns]
    holder = Referring(
        OF_RIGHT, TIME, PLACE, THERE, MATCH, MATCH_TIME, tuple(carried), (), (), MADE, told.call["join_type"], (HAS_ROW, HAD_ROW, MET)
    )
    made = {HAS_ROW: T.BooleanType(), HAD_ROW: T.BooleanType(), MET: frame.time.type}
    return _passed(told, frame, holder, carried, made, "join")


def _passed(
    told: ToldChanges,
    frame: Frame,
    holder: References | Referring,
    columns: Sequence[str],
    made: dict[str, T.DataType],
    step: str,
    row_identity: Sequence[str] = (),
) -> DataFrame:
    """What a holder lets go, and rows that pass it, of which nothing is made."""
    fields = [*fields_of(frame.df.schema, columns), *(T.StructField(n, kind) for n, kind in made.items())]
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, told.options, F.when(named(PASSES), ""), ())
    leaving = Leaving([c.name for c in frame.columns], behind_watermark(fields), list(made.items()), columns)
    return released(told.call, frame, holder, state, leaving, is_watermarked=True, step=step, row_identity=row_identity)
