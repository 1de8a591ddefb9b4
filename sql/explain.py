"""What each row did when it came, and why, in words for people: `output => 'explain'`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql import kernels
from streamtime.sql.columns import named, sorted_by
from streamtime.sql.frame import PREFIX
from streamtime.sql.outcome import lateness, refuse_clash
from streamtime.sql.text import quoted
from streamtime.sql.windows import END, START, moments
from streamtime.udfs.groups import HIGHEST
from streamtime.udfs.sessionize import SessionSteps

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call import Bound
    from streamtime.sql.frame import Frame

NULL_TIME = "null_time: its event time or its first ORDER BY value is null, so it has no place in time"
NULL_KEY = "null_key: its key is null, so it belongs to no key and does not move stream time"
SESSION, NUMBER = f"{PREFIX}session", f"{PREFIX}number"
SECONDS = " seconds ahead of the row"
UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000), ("microsecond", 1))


def explained(
    call: Bound, frame: Frame, clock: Column, outcome: Column, bounds: dict[str, Column], sentences: dict[str, list[Column | str]]
) -> DataFrame:
    """Every input row, then `outcome`, `stream_time`, the bounds as they stood right after the row, and `explanation`.

    `outcome` and `bounds` are those of rows that take part; `sentences` has the parts of the sentence for each outcome.
    """
    takes_part = frame.has_time & frame.has_key
    sentence = F.when(~frame.has_time, NULL_TIME).when(~frame.has_key, NULL_KEY)
    for word, parts in sentences.items():
        texts = [F.lit(p) if isinstance(p, str) else p.cast("string") for p in parts]
        sentence = sentence.when(outcome == word, F.concat(*texts))
    columns = {
        "outcome": F.when(~frame.has_time, "null_time").when(~frame.has_key, "null_key").otherwise(outcome),
        "stream_time": F.when(frame.has_time, clock),
        **{name: F.when(takes_part, bound) for name, bound in bounds.items()},
        "explanation": sentence,
    }
    refuse_clash(call, frame, tuple(columns))
    return frame.df.select(*frame.original(), *[c.alias(n) for n, c in columns.items()])


def explained_sessions(call: Bound, frame: Frame, identity: Sequence[str], time: Column, clock: Column, grace: int | None) -> DataFrame:
    """What each row did to the sessions of its key, in processing order; without `grace` no session closes."""
    gap = call["gap"]
    moment = frame.time.type
    edges = ("was_start", "was_end", "start", "end")
    returns = T.StructType([T.StructField("outcome", T.StringType()), T.StructField("found", T.IntegerType())])
    returns = T.StructType([*returns, *(T.StructField(edge, moment) for edge in edges)])
    keys = [named(i) for i in identity]
    grouped = frame.df.repartition(*keys) if keys else frame.df.repartition(1)
    ordered = grouped.sortWithinPartitions(*[sorted_by(quoted(i)) for i in identity], *frame.sort())
    df = kernels.with_column(ordered, SESSION, SessionSteps(gap, HIGHEST if grace is None else grace), [time, clock, *keys], returns)
    outcome, found, was_start, was_end, start, end = (F.col(f"{SESSION}.{f}") for f in returns.names)
    frame = frame.with_df(df)
    moved = (
        F.when(start < was_start, F.concat(F.lit(" and moved its start back to "), start.cast("string")))
        .when(end > was_end, F.concat(F.lit(" and moved its end from "), was_end.cast("string"), F.lit(" to "), end.cast("string")))
        .otherwise(F.concat(F.lit(" and ends at "), end.cast("string"), F.lit("; its bounds stay")))
    )
    short = F.ceil(lateness(frame, clock) - F.lit(gap / 1e6)).cast("long")
    sentences: dict[str, list[Column | str]] = {
        "opened": [f"opened a session: no live session of its key lay within {in_words(gap)} of it"],
        "joined": ["joined the session that began at ", was_start, moved],
        "merged": ["merged ", found, " sessions into one, which began at ", start, " and ends at ", end],
    }
    if grace is not None:
        closed = later(end, gap + grace)
        sentences["late"] = ["late: its session would have ended at ", end, ", and was closed once stream time passed ", closed]
        sentences["late"] += ["; stream time is ", clock, ". A grace of ", short, " seconds would have let it in"]
    return explained(call, frame, clock, outcome, {"session_start": start, "session_end": end}, sentences)


def explained_windows(
    call: Bound, frame: Frame, identity: Sequence[str], clock: Column, late: Column, lasts: int, names: tuple[str, str]
) -> DataFrame:
    """What each row did to a window: rows stand there once per window, `START` and `END`, which closes `lasts` after its end."""
    order = Window.partitionBy(*map(named, identity), named(START), late).orderBy(*frame.sort())
    frame = frame.with_df(frame.df.withColumn(NUMBER, F.row_number().over(order)))
    window = F.concat(F.lit("the window from "), named(START).cast("string"), F.lit(" to "), named(END).cast("string"))
    outcome = F.when(late, "late").when(named(NUMBER) == 1, "opened").otherwise("joined")
    behind, closes = lateness(frame, clock), later(named(END).cast(moments(frame)), lasts)
    sentences: dict[str, list[Column | str]] = {
        "opened": ["opened ", window, ": it is the first row of its key there"],
        "joined": ["joined ", window, " as row ", named(NUMBER), " of its key"],
        "late": ["late: ", window, " was closed once stream time reached ", closes, "; stream time is ", clock, ", ", behind, SECONDS],
    }
    return explained(call, frame, clock, outcome, dict(zip(names, (named(START), named(END)), strict=True)), sentences)


def in_words(micros: int) -> str:
    """A duration for people: `1 hour 30 minutes`."""
    parts = []
    for unit, size in UNITS:
        count, micros = divmod(micros, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts) or "0 seconds"


def later(moment: Column, micros: int) -> Column:
    """That much later; of a date, counted from its midnight."""
    return moment + F.lit(datetime.timedelta(microseconds=micros))
