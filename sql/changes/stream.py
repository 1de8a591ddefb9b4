"""Functions over changelogs on streams (rules J7, V8, C5d): the last row of each key is in the state, micro-batches are taken as they come.

Each side has a watermark of its own, and Spark's clock for the query is the one that is furthest behind, so stream time never runs ahead of
a side. Then both sides are one union, whose rows come together by key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.changes.given import ALIVE, CLOCK, REASONS, counted, of_order, refuse_two_of_a_name, refuse_unpaired
from streamtime.sql.changes.join import SIDE, SIDES, check_order, check_types, prepared, shown_of, side_of
from streamtime.sql.rows.changelog import CHANGE, MADE_ANEW, change_columns
from streamtime.sql.rows.columns import must_travel, named
from streamtime.sql.rows.frame import PREFIX, Frame, Order, Ref, refs_of
from streamtime.sql.rows.outcome import outcome
from streamtime.sql.stream import plan
from streamtime.sql.stream.buckets import REASON, STREAM_TIME
from streamtime.sql.stream.plan import KeyState, Leaving, released, verdict
from streamtime.sql.stream.watermark import behind_watermark, has_watermark, watermarked
from streamtime.udfs.changes.joined import JoinedChanges, Reported
from streamtime.udfs.changes.latest import LogColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.changes.join import Side

    Explain = Callable[[Frame, Column], DataFrame]  # of the changes, and why one is ignored

TIME, PLACE, SIDE_NAME = f"{PREFIX}time", f"{PREFIX}of_order", f"{PREFIX}side_name"
HAD, HAS, SAME, OTHER, NEWEST = (f"{PREFIX}{n}" for n in ("had", "has", "same", "other_time", "newest"))  # of a change that is explained
MADE = TYPE, AT, SEQ = f"{PREFIX}type", f"{PREFIX}at", f"{PREFIX}seq"
AS_THEY_ARE = ("null_time", "null_key")  # why a change takes no part


def over_streams(call: Bound) -> bool:
    """Whether the call is over streams. Raises CallError for what they cannot have."""
    streaming = [table.df.isStreaming for table in call.tables]
    if any(streaming) and not all(streaming):
        place = SIDES[streaming.index(False)]
        fix = "Read it as a stream, too: spark.readStream, or STREAM(name) in SQL."
        raise call.refuse("TABLE", f"the {place} side is no stream, and the other is: changes of both must come", fix)
    return plan.is_stream(call, explains=True)


@dataclass(frozen=True)
class Changes:
    """What goes to the state: a frame whose columns travel, the columns of the result in it, and of these those of a side's row."""

    frame: Frame
    shown: list[tuple[str, str]]  # in the frame, and as the result has them
    own: tuple[list[str], ...]


@dataclass(frozen=True)
class Telling:
    """What says what each change did. It is told of the row of its key before it, and what its group has of other rows."""

    explain: Explain
    group_by: Sequence[str] = ()  # what groups are told apart by
    before: Sequence[tuple[str, str]] = ()  # columns of the row before, by the names that they are told by


def released_changes(
    call: Bound,
    changes: Changes,
    log: LogColumns,
    options: dict[str, Any],
    reasons: Sequence[str],
    aside: Column | None = None,
    telling: Telling | None = None,
    **kernel: Any,
) -> DataFrame:
    """The output that the call asks for. `aside` is why a change takes no part, where that is more than what all of the frame's keys say;
    `kernel` are the fields of `JoinedChanges` that only this function has.
    """
    frame = changes.frame
    frame, identity = frame.comparable(frame.keys)
    names, schema = [c.name for c in frame.columns], frame.df.schema
    time = frame.time.type
    flag = T.BooleanType()
    told = {HAD: flag, HAS: flag, SAME: flag, OTHER: time, NEWEST: time} if call["output"] == "explain" else {}
    group_by = telling.group_by if telling else ()
    were = list(telling.before) if telling and told else []
    reports = call["output"] != "rows"
    dropped = call["output"] == "dropped"
    report = Reported(tuple(names), REASON, STREAM_TIME, dropped, tuple(told), tuple(group_by), tuple(were)) if reports else None
    mine = {name for of_side in changes.own for name in of_side}
    carried = [n for n, _ in changes.shown if n not in mine]
    holder = JoinedChanges(log=log, carried=tuple(carried), own=tuple(map(tuple, changes.own)), made=MADE, report=report, **kernel)
    columns = {n: f"{o} {schema[n].dataType.simpleString()}" for n, o in changes.shown if n in mine}
    pinned = options | {"columns": ", ".join(columns.values())}
    state = KeyState(identity, pinned, frame.left_out if aside is None else aside, AS_THEY_ARE)
    fields = [schema[n] for n in (names if report else [*carried, *(n for of_side in changes.own for n in of_side)])]
    fields += (
        [T.StructField(REASON, T.StringType()), T.StructField(STREAM_TIME, time), *(T.StructField(n, k) for n, k in told.items())]
        if report
        else [T.StructField(TYPE, T.StringType()), T.StructField(AT, time), T.StructField(SEQ, T.LongType())]
    )
    fields += [T.StructField(n, schema[of].dataType) for of, n in were]
    fields = behind_watermark([T.StructField(f.name, f.dataType, True, f.metadata) for f in fields])
    df = released(call, frame, holder, state, Leaving(names, fields, [*told.items(), *((n, of) for of, n in were)]), is_watermarked=True)
    if report:
        refs = {c.name: c for c in frame.columns}
        shown = tuple(refs[n] for n, _ in changes.shown)
        reported = Frame(df, shown, tuple(o for _, o in changes.shown), frame.keys, frame.order, frame.time, {}, call.kernels)
        if telling is not None and told:
            return telling.explain(reported.with_df(df.withColumn(CLOCK, named(STREAM_TIME))), verdict(call))
        return outcome(call, reported, verdict(call), named(STREAM_TIME), reasons, {}, {})
    return df.select(*(named(n).alias(o) for n, o in changes.shown), *change_columns(*map(named, MADE)))


def joined(call: Bound, explain: Explain) -> DataFrame:
    """JOIN_CHANGES."""
    frames = prepared(call, 0), prepared(call, 1)
    refuse_unpaired(call, "keys", frames[0].keys, frames[1].keys)
    check_types(call, "PARTITION BY", frames[0].keys, frames[1].keys)
    check_order(call, *frames)
    for frame in frames:
        plan.refuse_collations(call, frame)
    both = side_of(call, 0, frames[0], ()), side_of(call, 1, frames[1], ())
    changes = _together(call, both)
    versioned = tuple(side.versioned for side in both)
    log = LogColumns(
        TIME, ALIVE, PLACE, SIDE, tuple(n for of_side in changes.own for n in of_side), versioned, versioned, call["retention"]
    )
    options = {"join_type": call["join_type"], "retention": call["retention"], "deleted": call["deleted"]}
    options["versioned"] = ", ".join(name for name, side in zip(SIDES, both, strict=True) if side.versioned) or None
    return released_changes(call, changes, log, options, REASONS, telling=Telling(explain), join_type=call["join_type"])


def clocked_sides(call: Bound, both: tuple[Side, Side]) -> list[DataFrame]:
    """The rows of both sides, with a watermark. The option is for a side that has none."""
    has = [has_watermark(side.frame) for side in both]
    own = replace(call, options=call.options | {"watermark": None})
    return [watermarked(own if mine and not all(has) else call, side.frame) for mine, side in zip(has, both, strict=True)]


def _together(call: Bound, both: tuple[Side, Side]) -> Changes:
    """The union: keys and ORDER BY columns once; then all other columns of either side, which are null on rows of the other."""
    left = both[0].frame
    keys, ordered = [f"{PREFIX}k{i}" for i in range(len(left.keys))], [f"{PREFIX}o{i}" for i in range(len(left.order))]
    others = [_others(side.frame) for side in both]
    names = [[f"{PREFIX}{side}_{i}" for i in range(len(of_side))] for side, of_side in zip(SIDES, others, strict=True)]
    rows: list[DataFrame] = []
    for place, (side, df) in enumerate(zip(both, clocked_sides(call, both), strict=True)):
        frame = side.frame
        picked = [r.column.alias(n) for r, n in zip((*frame.keys, *of_order(frame.order)), [*keys, *ordered], strict=True)]
        for other, (mine, called) in enumerate(zip(others, names, strict=True)):
            picked += [(r.column if other == place else F.lit(None).cast(r.type)).alias(n) for r, n in zip(mine, called, strict=True)]
        marks = {SIDE: F.lit(place).cast("tinyint"), SIDE_NAME: F.lit(SIDES[place]), ALIVE: named(ALIVE), TIME: frame.time.column}
        rows.append(df.select(*picked, *(column.alias(n) for n, column in marks.items())))
        for name, original in side.own:
            must_travel(
                call, None, f"column `{original}` of the {SIDES[place]} side", frame.df.schema[name].dataType, "to Python on a stream"
            )
    df = rows[0].unionAll(rows[1])
    df = df.withColumn(PLACE, F.xxhash64(F.lit(0), *map(named, counted(call, left, ordered))))
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    order = [Order(refs[n], o.ascending, o.nulls_first) for n, o in zip(ordered, left.order, strict=True)]
    order.append(Order(refs[SIDE], True, True))
    frame = Frame(df, tuple(refs.values()), tuple(refs), tuple(refs[n] for n in keys), tuple(order), refs[TIME], {}, call.kernels)
    of_name = [{r.name: n for r, n in zip(mine, called, strict=True)} for mine, called in zip(others, names, strict=True)]
    own = tuple([of_name[place][name] for name, _ in side.own] for place, side in enumerate(both))
    shown = shown_of(call, both, [*keys, *ordered], own, TIME, SIDE_NAME)
    refuse_two_of_a_name(call, [o for _, o in shown])
    return Changes(frame, shown, own)


def _others(frame: Frame) -> list[Ref]:
    """The columns of a side that are neither keys nor in ORDER BY."""
    done = {r.name for r in (*frame.keys, *of_order(frame.order))}
    return [c for c in frame.columns if c.name not in done]


def filtered(call: Bound, frame: Frame, passes: str, reasons: Sequence[str], explain: Explain) -> DataFrame:
    """FILTER_CHANGES; `passes` is the column that says whether a row does."""
    plan.refuse_collations(call, frame)
    frame = frame.with_df(watermarked(call, frame))
    place = F.xxhash64(F.lit(0), *counted(call, frame, [r.column for r in of_order(frame.order)]))
    df = frame.df.withColumns({PLACE: place, TIME: frame.time.column})
    sent = [*(c.name for c in frame.columns), TIME, passes, PLACE, *([ALIVE] if call["output"] == "explain" else [])]
    columns = tuple(refs_of(df, sent))
    given = list(zip((c.name for c in frame.columns), frame.originals, strict=True))
    shown = [(n, o) for n, o in given if call["output"] != "rows" or not call.names.among(o, MADE_ANEW)]
    shared = {r.name for r in (*frame.keys, *of_order(frame.order), frame.time)}
    sent_frame = Frame(df, columns, tuple(sent), frame.keys, frame.order, columns[sent.index(TIME)], {}, call.kernels)
    versioned = bool(call["versioned"])
    log = LogColumns(TIME, passes, PLACE, None, (), (versioned,), (False,), call["retention"], passing=versioned)
    options = {"versioned": versioned, "retention": call["retention"], "condition": call["condition"], "deleted": call["deleted"]}
    sent_changes = Changes(sent_frame, shown, ([],))
    made = released_changes(call, sent_changes, log, options, reasons, telling=Telling(explain), join_type="left", always=versioned)
    if call["output"] != "rows":
        return made
    names = [f"{PREFIX}shown_{i}" for i in range(len(shown))]  # two columns may have one name
    made, upsert = made.toDF(*names, *CHANGE), named("change_type") == "upsert"
    told = [(named(c) if n in shared else F.when(upsert, named(c))).alias(o) for c, (n, o) in zip(names, shown, strict=True)]
    return made.select(*told, *map(named, CHANGE))
