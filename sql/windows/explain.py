"""What each row did when it came, and why, in words for people: `output => 'explain'`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.plain import islands
from streamtime.sql.rows import kernels
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.frame import LEFT_OUT, PREFIX
from streamtime.sql.rows.outcome import explained, lateness
from streamtime.sql.rows.typed import event_time, microseconds, moment
from streamtime.sql.stream.buckets import REASON, STREAM_TIME
from streamtime.sql.stream.plan import KeyState, Needs, judged
from streamtime.sql.syntax.text import HIGHEST, duration_in_words, floor_div, plus, quoted
from streamtime.sql.windows.membership import END, START, close, moments
from streamtime.udfs.closing import of_sessions
from streamtime.udfs.sessions.steps import EDGES, SessionSteps

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.udfs.closing import Closing

SESSION, LATE, NUMBER, NOW, END_THEN = (f"{PREFIX}{name}" for name in ("session", "late", "number", "now", EDGES[-1]))
SECONDS = " seconds ahead of the row"


def explained_sessions(
    call: Bound, frame: Frame, identity: Sequence[str], time: Column, stream_time: Column, grace: int | None
) -> DataFrame:
    """What each row did to the sessions of its key, in processing order; without `grace` no session closes."""
    frame = stepped(frame, identity, time, stream_time, SessionSteps(call["gap"], grace))
    return _in_sentences(call, frame, stream_time, frame.left_out, named(LATE), grace)


def stepped(frame: Frame, identity: Sequence[str], time: Column, stream_time: Column, kernel: SessionSteps) -> Frame:
    """With what each row did to the sessions of its key: `LATE`, and the times of `steps`. A row with a null `time` takes no part."""
    if not frame.kernels:
        rows = islands.with_steps(frame, identity, kernel.gap, kernel.grace)
        return rows.with_df(rows.df.withColumns({f.name: expression(event_time(quoted(f.name), f.dataType)) for f in steps(frame)}))
    returns = T.StructType([T.StructField("late", T.BooleanType()), *(T.StructField(edge, frame.time.type) for edge in EDGES)])
    columns = [time, stream_time, *map(named, identity)]
    df = kernels.with_column(frame.by_key(identity, frame.sort()), SESSION, kernel, columns, returns)
    return frame.with_df(df.withColumns({f"{PREFIX}{field}": F.col(f"{SESSION}.{field}") for field in returns.names}))


def explained_in_stream(call: Bound, frame: Frame, grace: int | None, options: dict[str, Any]) -> DataFrame:
    """The same over a stream, said of each row when it comes; without `grace` sessions close, yet no row is late."""
    frame, identity = frame.comparable(frame.keys)
    frame = judged(
        replace(call, options=call.options | {"output": "all"}),
        frame,
        SessionSteps(call["gap"], grace, close=True),
        KeyState(identity, options, frame.left_out, LEFT_OUT),
        Needs(results=steps(frame)),
    )
    left_out = F.when(named(REASON) != "late", named(REASON))
    return _in_sentences(call, frame, named(STREAM_TIME), left_out, F.coalesce(named(REASON) == "late", F.lit(False)), grace)


def steps(frame: Frame) -> T.StructType:
    """The columns that `SessionSteps` gives."""
    return T.StructType([T.StructField(f"{PREFIX}{edge}", frame.time.type) for edge in EDGES])


def _in_sentences(call: Bound, frame: Frame, stream_time: Column, left_out: Column, late: Column, grace: int | None) -> DataFrame:
    gap, kind = call["gap"], frame.time.type
    frame = frame.with_df(frame.df.withColumn(NOW, stream_time))
    was_start, was_end, start, end = (named(f.name) for f in steps(frame))
    word = F.when(late, "late").when(was_start.isNull(), "opened").when(was_start > was_end, "merged").otherwise("joined")
    moved = (
        F.when(start < was_start, F.concat(F.lit(" and moved its start back to "), start.cast("string")))
        .when(end > was_end, F.concat(F.lit(" and moved its end from "), was_end.cast("string"), F.lit(" to "), end.cast("string")))
        .otherwise(F.concat(F.lit(" and ends at "), end.cast("string"), F.lit("; its bounds stay")))
    )
    closes = expression(moment(of_sessions(gap, grace).end_of_grace(microseconds(quoted(END_THEN), kind), plus), kind))
    sentences: dict[str, list[Column | str]] = {
        "opened": [f"opened a session: no live session of its key lay within {duration_in_words(gap)} of it"],
        "joined": ["joined the session that began at ", was_start, moved],
        "merged": ["merged two sessions into one: that which ended at ", was_end, " and that which began at ", was_start],
    }
    sentences["merged"] += ["; it began at ", start, " and ends at ", end]
    if grace is not None:
        behind = f"coalesce(try_subtract({microseconds(quoted(NOW), kind)}, {microseconds(quoted(frame.time.name), kind)}), {HIGHEST}L)"
        short = expression(f"-{floor_div(f'{gap}L - {behind}', 1_000_000)}")
        sentences["late"] = ["late: its session would have ended at ", end, ", and was closed once stream time passed ", closes]
        sentences["late"] += ["; stream time is ", stream_time, ". A grace of ", short, " seconds would have let it in"]
    elif frame.df.isStreaming:
        final = F.concat(F.lit("; stream time had passed "), closes.cast("string"), F.lit(", so it is final at once"))
        sentences["opened"].append(F.when(stream_time > closes, final).otherwise(""))
    return explained(call, frame, stream_time, left_out, word, {"session_start": start, "session_end": end}, sentences)


def explained_windows(
    call: Bound, frame: Frame, identity: Sequence[str], stream_time: Column, late: Column, closing: Closing, names: tuple[str, str]
) -> DataFrame:
    """What each row did to a window: rows stand there once per window, `START` and `END`."""
    takes_part = frame.has_time & frame.has_key  # a row that does not stands in a window, too
    order = Window.partitionBy(*map(named, identity), named(START), late, takes_part).orderBy(*frame.sort())
    frame = frame.with_df(frame.df.withColumn(NUMBER, F.row_number().over(order)))
    window = F.concat(F.lit("the window from "), named(START).cast("string"), F.lit(" to "), named(END).cast("string"))
    outcome = F.when(late, "late").when(named(NUMBER) == 1, "opened").otherwise("joined")
    behind, kind = lateness(frame, stream_time), moments(frame)
    closes = close(microseconds(quoted(END), kind), closing, kind)
    sentences: dict[str, list[Column | str]] = {
        "opened": ["opened ", window, ": it is the first row of its key there"],
        "joined": ["joined ", window, " as row ", named(NUMBER), " of its key"],
        "late": [
            "late: ",
            window,
            " was closed once stream time reached ",
            closes,
            "; stream time is ",
            stream_time,
            ", ",
            behind,
            SECONDS,
        ],
    }
    return explained(
        call, frame, stream_time, frame.left_out, outcome, dict(zip(names, (named(START), named(END)), strict=True)), sentences
    )
