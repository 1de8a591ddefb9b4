"""What the page asks for: a call with some of its durations changed, as a picture, as SQL, and row by row. Knows no HTTP."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamtime.pictures.asking import Asked, Setting, asked, last_statement, settings
from streamtime.pictures.meanings import DROPPED
from streamtime.pictures.picture import DAY, HOUR, MINUTE, SECOND, moment
from streamtime.pictures.plotting import told
from streamtime.pictures.seeing import Limits
from streamtime.sql.syntax.text import duration_in_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamtime.statements.calls import Call, Statement

STOPS = (
    *(0, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND),
    *(n * MINUTE for n in (1, 2, 3, 5, 10, 15, 20, 30, 45)),
    *(n * HOUR for n in (1, 2, 3, 4, 6, 12)),
    *(n * DAY for n in (1, 2, 3, 7, 14, 30, 90, 365)),
)
Durations = Mapping[str, int | None]  # an option, and microseconds; None: it is left out


@dataclass
class Study:
    """A statement whose last call is looked at. Each setting is asked once; one at a time, as Spark has enough to do."""

    spark: SparkSession
    text: str
    call: int | None = None
    limits: Limits = field(default_factory=Limits)
    answers: dict[frozenset[tuple[str, int | None]], dict[str, Any]] = field(default_factory=dict)
    asking: threading.Lock = field(default_factory=threading.Lock)
    calls: int = 0  # how often Spark was asked

    @classmethod
    def of(cls, spark: SparkSession, text: str, call: int | None = None, limits: Limits | None = None) -> Study:
        """Of the last statement of a text; the others run first. Raises what is wrong with it."""
        return cls(spark, last_statement(spark, text)[0], call, limits or Limits())

    def answer(self, durations: Durations) -> dict[str, Any]:
        """The picture of this setting, as JSON has it. Raises ValueError, or Spark's own errors."""
        key = frozenset(durations.items())
        with self.asking:
            if key not in self.answers:
                self.answers[key] = self._answer(durations)
            return self.answers[key]

    def _answer(self, durations: Durations) -> dict[str, Any]:
        asking = Asked(self.spark, self.text, self.call, durations)
        self.calls += 1
        given = asked(asking, self.limits)
        picture, rows = told(given)
        assert asking.bound_call is not None
        low, high = picture.span
        return {
            "sql": as_sql(asking.statement, asking.target, durations),
            "settings": [_slider(setting, high - low) for setting in settings(asking.bound_call)],
            "picture": picture.as_json(),
            "rows": [
                {
                    "number": row.number,
                    "lane": row.lane,
                    "at": "no time" if row.at is None else moment(row.at, given.zone),
                    "clock": row.clock,
                    "outcome": row.outcome or "passed",
                    "dropped": row.outcome in DROPPED,
                    "cells": list(row.cells),
                    "sentence": sentence,
                }
                for row, sentence in rows
            ],
        }

    def progress(self) -> dict[str, int]:
        """How many tasks of Spark's present work are done; nothing over Spark Connect, which does not say."""
        context = getattr(self.spark, "_sc", None)
        if context is None:
            return {}
        tracker = context.statusTracker()
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
        return {"done": sum(s.numCompletedTasks for s in stages), "of": sum(s.numTasks for s in stages)}


def as_sql(statement: Statement, call: Call, durations: Durations) -> str:
    """The statement with these durations in its call."""
    edits: list[tuple[int, int, str]] = []
    given = {(g.name or "").lower(): g.span for g in call.options}
    for name, micros in durations.items():
        span = given.get(name)
        if span is None:
            if micros is not None:
                edits.append((call.span[1] - 1, call.span[1] - 1, f", {name} => {interval(micros)}"))
        elif micros is not None:
            edits.append((*span, interval(micros)))
        else:
            first = next(i for i, token in enumerate(statement.tokens) if token.start == span[0])
            edits.append((statement.tokens[first - 3].start, span[1], ""))  # from the comma before its name
    text = statement.text
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    return text.strip()


def interval(micros: int) -> str:
    """A duration as SQL has it."""
    return f"INTERVAL {duration_in_words(micros).replace(',', '').upper()}"


def _slider(setting: Setting, span: int) -> dict[str, Any]:
    """Where the option can be put: some stops that people think in, up to what the picture spans, and where it is."""
    most = max(span, setting.value or 0)
    last = next((stop for stop in STOPS if stop >= most), STOPS[-1])
    times = {stop for stop in STOPS if stop <= last and (stop or not setting.positive)} | {setting.value}
    stops = [{"micros": micros, "words": duration_in_words(micros)} for micros in sorted(t for t in times if t is not None)]
    if setting.without or setting.value is None:
        stops.insert(0, {"micros": None, "words": f"left out: {setting.without or 'none'}"})
    place = next(n for n, stop in enumerate(stops) if stop["micros"] == setting.value)
    return {"name": setting.name, "help": setting.help, "stops": stops, "place": place}
