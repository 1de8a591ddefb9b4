"""What a function returns: rows, dropped rows with their reason, both, metrics, or what each row did (rule C6, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.binding import refuse_clash
from streamtime.sql.rows.columns import expression
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import HIGHEST

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame

REPORT = ("reason", "stream_time", "lateness")
RATE = "rows per second of event time"
NULL_TIME = "null_time: its event time or its first ORDER BY value is null, so it has no place in time"
NULL_KEY = "null_key: its key is null, so it belongs to no key and does not move stream time"


def outcome(
    call: Bound,
    frame: Frame,
    reason: Column,
    stream_time: Column,
    reasons: Sequence[str],
    adds: dict[str, Column],
    details: dict[str, Column],
) -> DataFrame:
    """The output that the call asks for, from judged rows.

    `reason` is null where a row passes; `reasons` are those that can occur; `adds` are columns of passed rows, `details` of reported ones.
    """
    wanted = call["output"]
    if wanted == "metrics":
        return _metrics(call, frame, reason, stream_time, reasons)
    added = adds if wanted == "rows" else {r: F.lit(None) for r in REPORT} | details
    refuse_clash(call, frame.originals, tuple(added))
    columns = frame.original()
    if wanted == "rows":
        return frame.df.where(reason.isNull()).select(*columns, *[c.alias(n) for n, c in adds.items()])
    known = F.when(frame.has_time, stream_time)
    report = {"reason": reason, "stream_time": known, "lateness": lateness(frame, stream_time, _falls(call))} | details
    rows = frame.df if wanted == "all" else frame.df.where(reason.isNotNull())
    return rows.select(*columns, *[c.alias(n) for n, c in report.items()])


def explained(
    call: Bound,
    frame: Frame,
    stream_time: Column,
    left_out: Column,
    outcome: Column,
    bounds: dict[str, Column],
    sentences: dict[str, list[Column | str]],
) -> DataFrame:
    """`output => 'explain'`: every input row, then `outcome`, `stream_time`, the bounds right after the row, and `explanation`.

    `left_out` is why a row takes no part, or null; `outcome` and `bounds` are those of rows that do; `sentences` has the parts of the
    sentence for each outcome.
    """
    sentence = F.when(left_out == "null_time", NULL_TIME).when(left_out == "null_key", NULL_KEY)
    for word, parts in sentences.items():
        texts = [F.lit(p) if isinstance(p, str) else p.cast("string") for p in parts]
        sentence = sentence.when(outcome == word, F.concat(*texts))
    columns = {
        "outcome": F.coalesce(left_out, outcome),
        "stream_time": F.when(frame.has_time, stream_time),
        **{name: F.when(left_out.isNull(), bound) for name, bound in bounds.items()},
        "explanation": sentence,
    }
    refuse_clash(call, frame.originals, tuple(columns))
    return frame.df.select(*frame.original(), *[c.alias(n) for n, c in columns.items()])


def lateness(frame: Frame, stream_time: Column, falls: bool = False) -> Column:
    """How far a row lies behind stream time, in seconds; 0 where it does not. A number, since Delta has no intervals.

    `falls` says that stream time is the smallest time so far (rule D8).
    """
    later, earlier = (frame.time.column, stream_time) if falls else (stream_time, frame.time.column)
    if isinstance(frame.time.type, T.DateType):
        late = F.datediff(later, earlier) * 86_400.0
    elif isinstance(frame.time.type, T.TimestampType):
        now, then = F.unix_micros(later), F.unix_micros(earlier)
        late = F.coalesce(F.try_subtract(now, then) / 1e6, now / 1e6 - then / 1e6)
    else:  # no function counts its microseconds without asking for a time zone
        between = F.try_subtract(later, earlier)
        sizes = (("DAY", 86_400), ("HOUR", 3_600), ("MINUTE", 60), ("SECOND", 1))
        days, hours, minutes, seconds = (F.extract(F.lit(unit), between).cast("double") * size for unit, size in sizes)
        late = days + hours + minutes + seconds
    return F.when(frame.has_time, F.when(late <= 0, 0.0).otherwise(late))


def _falls(call: Bound) -> bool:
    return call.options.get("keep") == "last"


def _metrics(call: Bound, frame: Frame, reason: Column, stream_time: Column, reasons: Sequence[str]) -> DataFrame:
    seconds = lateness(frame, stream_time, _falls(call))
    low, high = F.min(F.when(frame.has_time, frame.time.column)), F.max(F.when(frame.has_time, frame.time.column))
    one = frame.df.agg(
        *[F.count_if(reason == r).alias(f"{r}_total") for r in reasons],
        F.avg(seconds).alias("late_avg"),
        F.max(seconds).alias("late_max"),
        low.alias("low"),
        high.alias("high"),
    )
    highest, lowest = (expression(microseconds(name, frame.time.type)) for name in ("high", "low"))
    span = F.when(highest >= lowest, F.coalesce(F.try_subtract(highest, lowest), F.lit(HIGHEST)))  # null where no row has a time
    return metrics(call, one.withColumn("span", span / 1e6), reasons, ("late_avg", "late_max"))


def metrics(
    call: Bound, counted: DataFrame, reasons: Sequence[str], late: tuple[str, str], more: Sequence[tuple[str, str, str]] = ()
) -> DataFrame:
    """The metrics of section 8, from one row of counts: the `_total` of each reason, and the `span` of event time in seconds.

    `late` are the average and the largest lateness, in seconds; `more` are the function's own metrics, with their units. All is SQL text.
    """
    rows: list[tuple[str, str, str]] = []
    for reason in reasons:
        rows.append((f"{reason}_drop_total", f"{reason}_total", "rows"))
        rows.append((f"{reason}_drop_rate", f"{reason}_total / nullif(span, 0)", RATE))
    rows += [("record_lateness_avg", late[0], "seconds"), ("record_lateness_max", late[1], "seconds"), *more]
    entries = [f"struct('{metric}' AS metric, CAST({value} AS DOUBLE) AS value, '{unit}' AS unit)" for metric, value, unit in rows]
    label = F.lit(call["name"] or call.spec.name).alias("name")
    return counted.select(label, expression(f"inline(array({', '.join(entries)}))"))
