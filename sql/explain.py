"""What each row did when it came, and why, in words for people: `output => 'explain'`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.outcome import refuse_clash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call import Bound
    from streamtime.sql.frame import Frame

NULL_TIME = "null_time: its event time or its first ORDER BY value is null, so it has no place in time"
NULL_KEY = "null_key: its key is null, so it belongs to no key and does not move stream time"
UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000), ("microsecond", 1))


def explained(
    call: Bound,
    frame: Frame,
    clock: Column,
    aside: Column,
    outcome: Column,
    bounds: dict[str, Column],
    sentences: dict[str, list[Column | str]],
) -> DataFrame:
    """Every input row, then `outcome`, `stream_time`, the bounds as they stood right after the row, and `explanation`.

    `aside` is why a row takes no part, or null; `outcome` and `bounds` are those of rows that do; `sentences` has the parts of the sentence
    for each outcome.
    """
    sentence = F.when(aside == "null_time", NULL_TIME).when(aside == "null_key", NULL_KEY)
    for word, parts in sentences.items():
        texts = [F.lit(p) if isinstance(p, str) else p.cast("string") for p in parts]
        sentence = sentence.when(outcome == word, F.concat(*texts))
    columns = {
        "outcome": F.coalesce(aside, outcome),
        "stream_time": F.when(frame.has_time, clock),
        **{name: F.when(aside.isNull(), bound) for name, bound in bounds.items()},
        "explanation": sentence,
    }
    refuse_clash(call, frame, tuple(columns))
    return frame.df.select(*frame.original(), *[c.alias(n) for n, c in columns.items()])


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
