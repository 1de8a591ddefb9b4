"""AS_OF_JOIN with streams on both sides (C5e): one union of both, by key, into one state, where left rows wait for versions that come.

One union has one watermark, that of the side which is ahead: a right side where nothing happens does not hold the join up. A side that has
a watermark of its own keeps it; where both have, Spark's clock is that of the side which is behind. By the clock on the wall (S10) no side
holds the join up, both of them idle included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.as_of.lookup import BACKWARD, MATCH, checked, meaning, refuse_longer_than_retention
from streamtime.sql.rows.columns import must_travel, named
from streamtime.sql.rows.frame import PREFIX, Frame, Ref
from streamtime.sql.stream.plan import KeyState, Leaving, by_wall, met, refuse_collated
from streamtime.sql.stream.watermark import behind_watermark, has_watermark, watermarked
from streamtime.udfs.arrays.ordering import By
from streamtime.udfs.as_of_stream import AsOf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.as_of.sides import Sides
    from streamtime.sql.call.spec import Bound

TIME, IS_RIGHT, HAS_VERSION, EXPIRED = (f"{PREFIX}{n}" for n in ("at", "is_right", "has_version", "expired"))


def refuse(call: Bound) -> None:
    """Raise CallError for what does not go with a stream on the right side."""
    if not call.tables[0].df.isStreaming:
        fix = "Read it as a stream, too: spark.readStream, or STREAM(name) in SQL."
        raise call.refuse("TABLE", "the right side is a stream, and the left side is none", fix)
    if call["retention"] is None:
        problem = "is missing: the right side is a stream, whose versions are held in the state, and this says for how long"
        raise call.refuse("`retention`", problem, "Add retention => INTERVAL 1 HOUR: how old a left row may be when it comes.")
    refuse_longer_than_retention(call)
    if call["ties"] == "error":
        fix = "Say ties => 'last' or 'first'."
        raise call.refuse("`ties`", "'error' is not possible where the right side is a stream: equal times may come later", fix)
    for option in ("arrival", "at_end"):
        if call[option] is not None:
            raise call.refuse(f"`{option}`", "is not possible on a stream (C5)", "Leave it out: rows wait for `grace`.")


def looked_up_in_streams(call: Bound, sides: Sides) -> tuple[Frame, Column]:
    """The left side's frame with MATCH, a struct of all columns of the right side, and why a row has none; null: there is none."""
    direction, exact = meaning(call, sides)
    if direction != BACKWARD:
        fix = "Look back; or write the right side into a Delta table, and join with the table."
        raise call.refuse("`direction`", f"'{direction}' is not possible where the right side is a stream: what comes is not known", fix)
    left, right = sides.left, sides.right
    for item in right.order[1:]:
        refuse_collated(call, "ORDER BY", "a column", item.ref)
    right = right.with_df(right.df.where(right.has_time & right.has_key))
    frame, names = _together(call, left, right)
    of_right = dict(zip(right.df.columns, names[1], strict=True))
    deleted = next((r.name for r in right.extras.get("deleted", ())), None)
    meeter = AsOf(
        time=TIME,
        is_right=IS_RIGHT,
        deleted=of_right[deleted] if deleted else None,
        left=tuple(names[0]),
        right=tuple(names[1]),
        order=tuple(By(of_right[o.ref.name], o.ascending, o.nulls_first) for o in right.order[1:]),
        ties=tuple(replace(by, name=of_right[by.name]) for by in right.ties_by()),
        grace=call["grace"] or 0,
        retention=call["retention"],
        exact=exact,
        first=call["ties"] == "first",
        wall=call["clock"] == "wall",
        has_version=HAS_VERSION,
        expired=EXPIRED,
    )
    options = {"grace": call["grace"], "retention": call["retention"], "ties": call["ties"] or "last"}
    options |= {} if call["clock"] == "event" else {"clock": call["clock"]}
    options |= {
        f"columns of the {side} side": ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in of.df.schema)
        for side, of in (("left", left), ("right", right))
    }
    frame, identity = frame.comparable(frame.keys)
    state = KeyState(identity, options, F.lit(None).cast("string"), ())
    fields = [_renamed(f, n) for f, n in zip(left.df.schema, names[0], strict=True)]
    fields += [T.StructField(n, f.dataType) for f, n in zip(right.df.schema, names[1], strict=True)]
    fields += [T.StructField(HAS_VERSION, T.BooleanType()), T.StructField(EXPIRED, T.BooleanType())]
    leaving = Leaving([c.name for c in frame.columns], behind_watermark(fields))
    df = met(call, frame, meeter, state, leaving, wall=by_wall(call, left.time))
    match = F.when(named(HAS_VERSION), F.struct(*(named(n).alias(o) for o, n in of_right.items())))
    lefts = [named(n).alias(o) for o, n in zip(left.df.columns, names[0], strict=True)]
    joined = left.with_df(df.select(*lefts, match.alias(MATCH), EXPIRED))
    version = checked(call, left.time, right, (deleted,) if deleted else ())
    return joined.with_df(joined.df.withColumn(MATCH, version)), F.when(named(EXPIRED), "expired")


def _renamed(field: T.StructField, name: str) -> T.StructField:
    return T.StructField(name, field.dataType, field.nullable, field.metadata)


def _together(call: Bound, left: Frame, right: Frame) -> tuple[Frame, tuple[list[str], list[str]]]:
    """The union: keys and times once, all columns of either side, null on rows of the other; and the names of those columns."""
    sides = left, right
    keys = [f"{PREFIX}k{i}" for i in range(len(left.keys))]
    names = [f"{PREFIX}l{i}" for i in range(len(left.df.columns))], [f"{PREFIX}r{i}" for i in range(len(right.df.columns))]
    has = [has_watermark(side) for side in sides]
    rows: list[DataFrame] = []
    for place, side in enumerate(sides):
        for column, original in zip(side.columns, side.originals, strict=True):
            what = f"column `{original}` of the {('left', 'right')[place]} side"
            must_travel(call, None, what, column.type, "to Python on a stream")
        own = call if all(has) or not has[place] else replace(call, options=call.options | {"watermark": None})
        df = watermarked(own, side) if has[place] or (any(has) and call["watermark"] is not None) else side.df
        picked = [k.column.alias(n) for k, n in zip(side.keys, keys, strict=True)]
        for other, of_side in enumerate(sides):
            for field, name in zip(of_side.df.schema, names[other], strict=True):
                picked.append((named(field.name) if other == place else F.lit(None).cast(field.dataType)).alias(name))
        time = side.time.column if place else F.when(side.has_key, side.time.column)  # without a key nothing is to be waited for
        rows.append(df.select(*picked, time.alias(TIME), F.lit(bool(place)).alias(IS_RIGHT)))
    df = rows[0].unionAll(rows[1])
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema}
    of_keys = tuple(Ref(n, refs[n].type, k.text) for n, k in zip(keys, left.keys, strict=True))
    frame = Frame(df, tuple(refs.values()), tuple(refs), of_keys, (), replace(refs[TIME], text=left.time.text), {}, call.kernels)
    return (frame if any(has) else frame.with_df(watermarked(call, frame, frame.time.column.isNotNull()))), names
