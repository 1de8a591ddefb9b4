"""AGGREGATE_CHANGES on a stream (rules J9, C5d): two states, one behind the other, as batch shuffles twice.

The first has the last row of each key, and says of each change what goes from a group and what comes to one. The second has what each group
comes to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.changes.aggregate import ROWS, SUM, result
from streamtime.sql.changes.given import ALIVE, REASONS, counted, of_order, refuse_two_of_a_name, shown_once
from streamtime.sql.changes.stream import AS_THEY_ARE, AT, PLACE, SEQ, TIME, Changes, Telling, released_changes
from streamtime.sql.rows.changelog import CHANGE, MADE_ANEW, change_columns
from streamtime.sql.rows.columns import expression, must_travel, named, orderable
from streamtime.sql.rows.frame import PREFIX, Frame, Ref, refs_of
from streamtime.sql.stream.plan import KeyState, Leaving, refuse_collated, refuse_collations, released
from streamtime.sql.stream.watermark import behind_watermark, watermarked
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.changes.latest import LogColumns
from streamtime.udfs.changes.replaced import Replaced
from streamtime.udfs.changes.totals import ColumnTotal, Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.changes.aggregate import Judged
    from streamtime.sql.changes.stream import Explain

INSIDE = f"{PREFIX}inside"
FLAGS = COMES, LAST, MOVED, NUMBER = tuple(f"{PREFIX}{n}" for n in ("comes", "last", "moved", "number"))


def totals(call: Bound, seen: Judged, explain: Explain) -> DataFrame:
    """The output that the call asks for."""
    frame = _with_parts(call, seen)
    versioned = (bool(call["versioned"]),)
    held = _parts(seen)
    log = LogColumns(TIME, INSIDE, PLACE, None, tuple(held), versioned, versioned, call["retention"])
    options = {n: call[n] for n in ("versioned", "retention", "deleted", "aggregates")} | {"group_by": ", ".join(call["group_by"])}
    options["types"] = _types(seen, frame.df.schema)
    if call["output"] != "rows":
        shown = list(zip((c.name for c in seen.frame.columns), seen.frame.originals, strict=True))
        changes, groups = Changes(frame, shown, ([],)), _equal(seen)
        return released_changes(call, changes, log, options, REASONS, telling=Telling(explain, groups), join_type="left")
    schema = frame.df.schema
    carried = [c.name for c in seen.frame.columns if orderable(c.type)] + [TIME, PLACE]
    holder = Replaced(log, tuple(carried), tuple(held), tuple(_equal(seen)), FLAGS)  # type: ignore[arg-type]
    fields = [schema[n] for n in (*carried, *held)]
    fields += [T.StructField(n, T.BooleanType()) for n in (COMES, LAST, MOVED)] + [T.StructField(NUMBER, T.LongType())]
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, options, frame.left_out, AS_THEY_ARE)
    leaving = Leaving(
        [c.name for c in frame.columns], behind_watermark([T.StructField(f.name, f.dataType, True, f.metadata) for f in fields])
    )
    return _of_groups(call, seen, released(call, frame, holder, state, leaving, is_watermarked=True), carried)


def _groups(seen: Judged) -> list[str]:
    return [f"{PREFIX}group_{i}" for i in range(len(seen.groups))]


def _equal(seen: Judged) -> list[str]:
    return [f"{PREFIX}equal_group_{i}" for i in range(len(seen.groups))]


def _arguments(seen: Judged) -> list[str]:
    return [f"{PREFIX}argument_{one.name}" for one, ref in zip(seen.asked, seen.given, strict=True) if ref is not None]


def _parts(seen: Judged) -> list[str]:
    """The columns of a row that goes or comes: those of its group, what tells groups apart, and what is added up."""
    return [*_groups(seen), *_equal(seen), *_arguments(seen)]


def _types(seen: Judged, schema: T.StructType) -> str:
    """The columns of both states, with their types, in words."""
    added = [(one, ref) for one, ref in zip(seen.asked, seen.given, strict=True) if ref is not None]
    refs = [
        *zip(_groups(seen), seen.groups, strict=True),
        *((n, r) for n, (o, r) in zip(_arguments(seen), added, strict=True) if o.function != "count"),
    ]
    return ", ".join(dict.fromkeys(f"{ref.text} {schema[name].dataType.simpleString()}" for name, ref in refs))


def _with_parts(call: Bound, seen: Judged) -> Frame:
    """The changes with these columns."""
    frame = seen.frame
    refuse_collations(call, frame)
    for ref in seen.groups:
        refuse_collated(call, "`group_by`", "a column", ref)
        must_travel(call, "`group_by`", f"column `{ref.text}`", ref.type, "to Python on a stream")
    frame, equal = frame.comparable(seen.groups)
    frame = frame.with_df(watermarked(call, frame))
    place = F.xxhash64(F.lit(0), *counted(call, frame, [r.column for r in of_order(frame.order)]))
    inside = " AND ".join([quoted(ALIVE), *(f"{quoted(g.name)} IS NOT NULL" for g in seen.groups)])
    made = dict(zip(_groups(seen), (g.column for g in seen.groups), strict=True)) | dict(zip(_equal(seen), map(named, equal), strict=True))
    given = [(one, ref) for one, ref in zip(seen.asked, seen.given, strict=True) if ref is not None]
    for name, (one, ref) in zip(_arguments(seen), given, strict=True):
        inexact = one.function in ("sum", "avg") and isinstance(ref.type, (T.FloatType, T.DoubleType))
        made[name] = (
            ref.column.cast("double") if inexact else F.when(ref.column.isNotNull(), True) if one.function == "count" else ref.column
        )
    df = frame.df.withColumns(made | {PLACE: place, TIME: frame.time.column, INSIDE: expression(inside)})
    sent = [*(c.name for c in frame.columns), TIME, INSIDE, PLACE, *made, *([ALIVE] if call["output"] == "explain" else [])]
    columns = tuple(refs_of(df, sent))
    return Frame(df, columns, tuple(sent), frame.keys, frame.order, columns[sent.index(TIME)], {}, call.kernels)


def _of_groups(call: Bound, seen: Judged, parts: DataFrame, carried: list[str]) -> DataFrame:
    """What the groups come to, change by change."""
    schema = parts.schema
    groups, ordered = _groups(seen), [o.ref.name for o in seen.frame.order]
    columns = tuple(refs_of(parts, (*carried, NUMBER, COMES, LAST, MOVED, *groups, *_arguments(seen))))
    keys = tuple(Ref(n, ref.type, ref.text) for n, ref in zip(groups, seen.groups, strict=True))
    time = columns[carried.index(TIME)]
    frame = Frame(parts, columns, tuple(c.name for c in columns), keys, seen.frame.order, time, {}, call.kernels)
    given = [(one, ref) for one, ref in zip(seen.asked, seen.given, strict=True) if ref is not None]
    totals, made = [], [T.StructField(ROWS, T.LongType()), T.StructField(AT, time.type), T.StructField(SEQ, T.LongType())]
    for name, (one, ref) in zip(_arguments(seen), given, strict=True):
        function = "sum" if one.function == "avg" else one.function
        totals.append(ColumnTotal(f"{SUM}_{one.name}", f"{ROWS}_{one.name}", name, function))
        made.append(T.StructField(f"{ROWS}_{one.name}", T.LongType()))
        if function != "count":
            made.append(T.StructField(f"{SUM}_{one.name}", _sum(ref.type) if function == "sum" else ref.type))
    shown = shown_once(seen.frame, (*seen.groups, *of_order(seen.frame.order)), [*groups, *ordered])
    holder = Totals(TIME, PLACE, COMES, LAST, MOVED, tuple(totals), tuple(dict.fromkeys(shown.values())), (ROWS, AT, SEQ))
    pinned = {"aggregates": call["aggregates"], "types": _types(seen, schema)}
    state = KeyState(_equal(seen), pinned, F.lit(None).cast("string"), ())
    fields = behind_watermark([*(T.StructField(n, schema[n].dataType) for n in dict.fromkeys(shown.values())), *made])
    sent = [*(c.name for c in columns), *_equal(seen)]
    df = released(call, frame, holder, state, Leaving(sent, fields), is_watermarked=True, step="groups")
    names = [(n, o) for o, n in shown.items() if not call.names.among(o, MADE_ANEW)]
    refuse_two_of_a_name(call, [*(o for _, o in names), *(a.name for a in seen.asked), *CHANGE], "Rename one of them.")
    there = named(ROWS) > 0
    values = [F.when(there, result(call, one, ref)).alias(one.name) for one, ref in zip(seen.asked, seen.given, strict=True)]
    change = change_columns(F.when(there, "upsert").otherwise("delete"), named(AT), named(SEQ))
    return df.select(*(named(n).alias(o) for n, o in names), *values, *change)


def _sum(kind: T.DataType) -> T.DataType:
    """The type of a sum as it is kept: exact."""
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return T.DoubleType()
    return T.DecimalType(38, kind.scale if isinstance(kind, T.DecimalType) else 0)
