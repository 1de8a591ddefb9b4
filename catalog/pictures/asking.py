"""Asks a call of a SQL text what became of its rows: once more, with the output that says most, and cut to what a picture can show."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.pictures.meanings import DROPPED, Drawing, DrawnRow, Version
from streamtime.pictures.seeing import HIDDEN, USUAL, Limits, OutputColumns, collected, of_frame, zone_of_session
from streamtime.shelf import SPECS
from streamtime.sql.as_of.sides import sides
from streamtime.sql.call.errors import CallError, listed
from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.names import plain
from streamtime.sql.call.values import Expression, Value
from streamtime.sql.rows.changelog import deletions
from streamtime.sql.rows.columns import resolves
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import in_words, quoted
from streamtime.statements.calls import Call, Malformed, Statement, spoken
from streamtime.statements.query import Run, query, with_calls

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamtime.sql.call.spec import Bound, Spec
    from streamtime.sql.call.values import Table

OUTPUTS = ("explain", "all")  # what says most, first


@dataclass(frozen=True)
class Setting:
    """An option that is a duration: as it is in the call, in microseconds, and whether it may be left out, or be zero."""

    name: str
    value: int | None
    help: str
    without: str  # what holds without it; '' where it is required
    positive: bool


class Asked(Run):
    """A statement one of whose calls is drawn: the last one that is written, or the n-th."""

    def __init__(
        self, spark: SparkSession, text: str, number: int | None = None, durations: Mapping[str, int | None] | None = None
    ) -> None:
        super().__init__(spark, Statement(with_calls(spark, text)), None)
        self.durations = dict(durations or {})
        try:
            calls = self.statement.calls(SPECS)
        except Malformed:
            self.sql(self.statement.text, [(0, len(self.statement.text))])  # Spark's parser says what is wrong
            raise
        written = sorted(calls, key=lambda c: c.start)
        if not written:
            raise ValueError(f"plot: expected a call of {listed(s.upper() for s in SPECS)}, got a text without one.")
        if number is not None and not 0 < number <= len(written):
            raise ValueError(f"plot, `call`: expected a number from 1 to {len(written)}, the calls in the text, got {number}.")
        self.target = calls[-1] if number is None else written[number - 1]
        self.before = calls[: calls.index(self.target)]
        self.which = "" if len(calls) == 1 else f", call {written.index(self.target) + 1} of {len(calls)}"
        self.bound_call: Bound | None = None
        self.asking = False

    @property
    def spec(self) -> Spec:
        """Of the call that is drawn."""
        return SPECS[self.target.function.lower()]

    def output(self) -> tuple[Bound, DataFrame]:
        """The call, and its rows in the output that says most."""
        self.place(self.before, lambda _, frame: (f"f{len(self.frames)}", frame))
        try:
            frame = self._frame(self.target)
        except CallError as error:
            self._refuse(self.target, error)
        assert self.bound_call is not None
        return self.bound_call, frame

    def _frame(self, call: Call) -> DataFrame:
        self.asking = call is self.target
        return super()._frame(call)

    def _joined(self, call: Call, spec: Spec, tables: list[Table], options: list[tuple[str | None, Value]]) -> DataFrame:
        if self.asking:  # nothing around it names its columns
            return spec.plan(self.bound(spec, tables, options))
        return super()._joined(call, spec, tables, options)

    def bound(self, spec: Spec, tables: Sequence[Table], options: Sequence[tuple[str | None, Value]]) -> Bound:
        """The call, checked; the one that is drawn goes on with other durations, hidden columns, and another output."""
        if not self.asking:
            return super().bound(spec, tables, options)
        if any(t.df.isStreaming for t in tables):
            raise CallError(spec.name, "TABLE", "a stream has no end, so it is not drawn", "Draw a table that holds rows of it.")
        given = [(n, v) for n, v in options if (n or "").lower() not in ("output", *self.durations)]
        given += [(n, _duration(micros)) for n, micros in self.durations.items() if micros is not None]
        self.bound_call = super().bound(spec, tables, given)
        word = _output(self.bound_call)
        given += [("output", Value(word, "STRING", f"'{word}'"))] if word else []
        return super().bound(spec, _with_hidden(self.bound_call), given)


def settings(call: Bound) -> list[Setting]:
    """The options of the call that are durations, which a picture can be tried with."""
    return [
        Setting(o.name, call[o.name], o.help, "" if o.required else o.default_text or "none", o.kind.positive)
        for o in call.spec.options
        if isinstance(o.kind, Duration) and o.name != "watermark"
    ]


def asked(asking: Asked, limits: Limits = USUAL) -> Drawing:
    """The rows of the call that is drawn, and what became of them."""
    call, frame = asking.output()
    spec, zone = call.spec, zone_of_session(asking.spark, frame)
    title = f"{spec.name}{_durations(call)}{asking.which}"
    if spec.named or (not spec.tables and "valid_from" not in frame.columns):
        raise call.refuse(None, "has no times to draw", "Draw a call whose rows have an event time.")
    if not spec.tables:  # rows that say from when to when they were valid
        return of_frame(frame, frame.columns[:1], "valid_from", limits, title=title)
    has_input = len(spec.inputs) == 1
    inputs = len(_with_hidden(call)[0].df.columns) if has_input else 0
    rows, notes = collected(frame, OutputColumns(call, frame, inputs, _is_lookup(call)), limits)
    given = Drawing(title, rows, call.options, _in_time_order(call), notes=notes, zone=zone)
    if not _is_lookup(call):
        return given
    versions = _versions(call, given, limits)
    rows_drawn = [replace(r, times={"match_at": _valid(r, versions)}) for r in rows] if call["history"] else rows
    return replace(given, rows=rows_drawn, versions=versions)


def last_statement(spark: SparkSession, text: str) -> str:
    """Runs the statements of a text but the last, which is given back: it is what is drawn."""
    *before, last = spoken(text)
    for statement in before:
        query(spark, statement)
    return last


# -- the call


def _output(call: Bound) -> str | None:
    option = call.spec.option("output")
    words = option.kind.words if option is not None and isinstance(option.kind, Choice) else ()
    return next((w for w in OUTPUTS if w in words), None)


def _duration(micros: int) -> Value:
    return Value(datetime.timedelta(microseconds=micros), "INTERVAL DAY TO SECOND", in_words(micros))


def _durations(call: Bound) -> str:
    given = [f"{s.name} {in_words(s.value)}" for s in settings(call) if s.value is not None]
    return f": {', '.join(given)}" if given else ""


def _is_lookup(call: Bound) -> bool:
    return call.spec.option("match") is not None


def _in_time_order(call: Bound) -> bool:
    first = call.order[0] if call.order else None
    return _is_lookup(call) or call["time"] is None or (first is not None and plain(call["time"]) == plain(first.expression.text))


def _with_hidden(call: Bound) -> list[Table]:
    """The tables with the key, the time and the order of each row beside its columns: they come out as they went in."""
    if _is_lookup(call):
        if call["history"] and call["unit"] == "version":
            raise call.refuse("`unit`", "numbers of commits are no times to draw", "Draw a lookup by time, or TABLE_HISTORY.")
        both = sides(call)
        left = _hidden(0, [Expression.parse(k.text) for k in both.left.keys], Expression.parse(both.left.time.text))
        # of a table's history, no row comes out with the time of its version
        right = {} if call["history"] else {f"{HIDDEN}1_time": F.expr(both.right.time.text)}
        return [_added(t, columns) for t, columns in zip(call.tables, (left, right), strict=True)]
    if call.spec.named:
        return list(call.tables)
    tables = []
    for n, table in enumerate(call.tables):
        keys = table.partition_by or [Expression.parse(k) for k in call["keys"] or ()]
        order = table.order_by or call.order
        time = Expression.parse(call["time"]) if call["time"] else order[0].expression
        hidden = _hidden(n, keys, time) | {f"{HIDDEN}{n}_order_{i}": o.expression.column() for i, o in enumerate(order)}
        if call.spec.option("deleted") is not None:
            columns = [(f.name, f.dataType) for f in table.df.schema.fields]
            deleted = deletions(call, f"({call['deleted']})" if call["deleted"] else None, columns)
            if deleted and resolves(table.df, deleted):  # of two sides, perhaps only one has such a column
                hidden[f"{HIDDEN}{n}_deleted"] = F.expr(deleted)
        tables.append(_added(table, hidden))
    return tables


def _hidden(n: int, keys: Sequence[Expression], time: Expression) -> dict[str, Column]:
    texts = [k.column().cast("string") for k in keys]
    return {f"{HIDDEN}{n}_key": F.array(*texts).cast("array<string>"), f"{HIDDEN}{n}_time": time.column()}


def _added(table: Table, columns: dict[str, Column]) -> Table:
    return replace(table, df=table.df.select("*", *[c.alias(name) for name, c in columns.items()]))


def _valid(row: DrawnRow, versions: Sequence[Version]) -> int | None:
    """When the version began that the row found in a table's history, which no output says: the newest that had begun."""
    begun = [v for v in versions if row.at is not None and v.lane == row.lane and v.at <= row.at and row.outcome not in DROPPED]
    newest = max(begun, key=lambda v: v.at, default=None)
    over = newest is None or newest.deleted or (newest.until is not None and row.at is not None and newest.until <= row.at)
    return None if newest is None or over else newest.at


def _versions(call: Bound, given: Drawing, limits: Limits) -> tuple[Version, ...]:
    """The other side's rows of the keys that are drawn, near the times that are."""
    times = [r.at for r in given.rows if r.at is not None]
    if not times:
        return ()
    right, left = sides(call).right, sides(call).left
    same = [f"CAST(CAST({quoted(r.name)} AS {own.type.simpleString()}) AS STRING)" for own, r in zip(left.keys, right.keys, strict=True)]
    marks = {name: quoted(refs[0].name) for name, refs in right.extras.items() if refs}
    time, kind = right.time, right.time.type
    df = right.df.selectExpr(
        f"CAST(array({', '.join(same)}) AS ARRAY<STRING>) AS key",
        f"{microseconds(quoted(time.name), kind)} AS at",
        f"coalesce({marks.get('deleted', 'false')}, false) AS deleted",
        f"{microseconds(marks['until'], kind) if 'until' in marks else 'CAST(NULL AS BIGINT)'} AS until",
    )
    room = max(max(times) - min(times), 1)
    low, high = max(min(times) - 4 * room, -(2**63)), min(max(times) + room, 2**63 - 1)
    # as `lane_of` says it
    shown = F.expr("array_join(transform(key, part -> CASE WHEN part = '' THEN repeat(chr(39), 2) ELSE coalesce(part, 'NULL') END), ', ')")
    df = df.where(F.col("at").between(low, high)).withColumn("lane", F.when(F.size("key") > 0, shown).otherwise("all rows"))
    df = df.where(F.col("lane").isin(sorted({row.lane for row in given.rows})))
    nearest = Window.partitionBy("lane").orderBy(F.abs(F.try_subtract(F.col("at"), F.lit(max(times)))))
    df = df.withColumn("rank", F.row_number().over(nearest)).where(F.col("rank") <= limits.rows)
    return tuple(
        Version(row.lane, row["at"], row.deleted, row.until) for row in df.orderBy("lane", "at").limit(limits.rows * limits.lanes).collect()
    )
