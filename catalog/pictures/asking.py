"""Asks a call of a SQL text what became of its rows: once more, with the output that says most, and cut to what a picture can show."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from streamtime.pictures.meanings import DROPPED, Drawing, DrawnRow, Version
from streamtime.pictures.seeing import HIDDEN, USUAL, Limits, OutputColumns, collected, key_columns, of_frame, zone_of_session
from streamtime.shelf import SPECS
from streamtime.sql.as_of.sides import sides
from streamtime.sql.call.errors import CallError, listed
from streamtime.sql.call.kinds import Choice, Duration
from streamtime.sql.call.names import plain
from streamtime.sql.call.values import Expression, Value
from streamtime.sql.rows.changelog import deletions
from streamtime.sql.rows.columns import direct, resolves
from streamtime.sql.rows.outcome import REPORT
from streamtime.sql.rows.typed import microseconds, type_text
from streamtime.sql.syntax.text import duration_in_words, literal, quoted
from streamtime.sql.tables.declaration import declared
from streamtime.statements.calls import Call, Malformed, Statement, spoken
from streamtime.statements.query import Args, Run, is_named, query, with_calls

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamtime.sql.as_of.sides import Sides
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
        self,
        spark: SparkSession,
        text: str,
        number: int | None = None,
        durations: Mapping[str, int | None] | None = None,
        args: Args = None,
    ) -> None:
        super().__init__(spark, Statement(with_calls(spark, text)), args)
        if isinstance(args, list):
            self.positional = dict(zip(_marks(self.statement), args, strict=False))
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
    spec = call.spec
    title = f"{spec.name}{_durations(call)}{asking.which}"
    if spec.named or (not spec.tables and "valid_from" not in frame.columns):
        raise call.refuse(None, "has no times to draw", "Draw a call whose rows have an event time.")
    if not spec.tables:  # rows that say from when to when they were valid
        return of_frame(frame, _keys_of_history(call, frame.columns), "valid_from", limits, title=title, inputs=len(frame.columns) - 4)
    places = OutputColumns(call, frame, _of_inputs(call, frame.columns), _is_lookup(call))
    rows, notes = collected(frame, places, limits)
    zone = zone_of_session(asking.spark, places.types[places.hidden["time"][0]])
    given = Drawing(title, rows, call.options, _in_time_order(call), notes=notes, zone=zone)
    if not _is_lookup(call):
        return given
    versions = _versions(call, given, limits)
    rows_drawn = [replace(r, times={"match_at": _valid(r, versions)}) for r in rows] if call["history"] else rows
    return replace(given, rows=rows_drawn, versions=versions)


def last_statement(spark: SparkSession, text: str, args: Args = None) -> tuple[str, Args]:
    """Runs the statements of a text but the last, which is given back, with its parameters: it is what is drawn."""
    *before, last = spoken(text)
    for written in before:
        statement = Statement(written)
        if isinstance(args, list):
            count = len(_marks(statement))
            own, args = args[:count], args[count:]
            query(spark, written, own or None)
        else:
            names = {t.text for t in statement.tokens if is_named(written, t)}
            query(spark, written, {name: value for name, value in (args or {}).items() if name in names} or None)
    return last, args


def _marks(statement: Statement) -> list[int]:
    """Where its parameters without a name stand."""
    return [t.start for t in statement.tokens if t.text == "?"]


# -- the call


def _output(call: Bound) -> str | None:
    option = call.spec.option("output")
    words = option.kind.words if option is not None and isinstance(option.kind, Choice) else ()
    return next((w for w in OUTPUTS if w in words), None)


def _duration(micros: int) -> Value:
    return Value(datetime.timedelta(microseconds=micros), "INTERVAL DAY TO SECOND", duration_in_words(micros))


def _durations(call: Bound) -> str:
    given = [f"{s.name} {duration_in_words(s.value)}" for s in settings(call) if s.value is not None]
    return f": {', '.join(given)}" if given else ""


def _is_lookup(call: Bound) -> bool:
    return call.spec.option("match") is not None


def _of_inputs(call: Bound, columns: Sequence[str]) -> int:
    """How many columns of the output are the inputs', whatever their names: up to the last that went along, or a lookup's report."""
    if _is_lookup(call):
        return len(columns) - len(REPORT)
    return 1 + max(i for i, name in enumerate(columns) if name.startswith(HIDDEN))


def _keys_of_history(call: Bound, columns: Sequence[str]) -> list[str]:
    """The key of a table whose history is drawn, as its columns are spelled: what the call says, or the table declares."""
    declaration = None if call["keys"] else declared(call.session, call["table"], call.spec.name)
    keys = [plain(k) for k in call["keys"] or ()] if declaration is None else declaration.key
    return [name for key in keys if (name := call.names.find(key, columns)) is not None]


def _in_time_order(call: Bound) -> bool:
    first = call.order[0] if call.order else None
    if _is_lookup(call) or call["time"] is None or first is None:
        return _is_lookup(call) or call["time"] is None
    time, order = plain(call["time"]), plain(first.expression.text)
    same = call["time"].strip() == first.expression.text.strip() if time is None or order is None else call.names.same(time, order)
    return same and first.ascending


def _with_hidden(call: Bound) -> list[Table]:
    """The tables with the key, the time and the order of each row beside its columns: they come out as they went in."""
    if _is_lookup(call):
        if call["history"] and call["unit"] == "version":
            raise call.refuse("`unit`", "numbers of commits are no times to draw", "Draw a lookup by time, or TABLE_HISTORY.")
        both = sides(call)
        left = _hidden(call.tables[0], 0, [Expression.parse(k.text) for k in both.left.keys], Expression.parse(both.left.time.text))
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
        hidden = _hidden(table, n, keys, time) | {f"{HIDDEN}{n}_order_{i}": o.expression.column() for i, o in enumerate(order)}
        if call.spec.option("deleted") is not None:
            columns = [(f.name, f.dataType) for f in table.df.schema.fields]
            deleted = deletions(call, f"({call['deleted']})" if call["deleted"] else None, columns)
            if deleted and resolves(table.df, deleted):  # of two sides, perhaps only one has such a column
                hidden[f"{HIDDEN}{n}_deleted"] = F.expr(deleted)
        tables.append(_added(table, hidden))
    return tables


def _hidden(table: Table, n: int, keys: Sequence[Expression], time: Expression) -> dict[str, Column]:
    columns = [k.column() for k in keys]
    kinds = [f.dataType for f in table.df.select(*columns).schema] if columns else []
    return key_columns(n, list(zip(columns, kinds, strict=True))) | {f"{HIDDEN}{n}_time": time.column()}


def _added(table: Table, columns: dict[str, Column]) -> Table:
    return replace(table, df=table.df.select("*", *[c.alias(name) for name, c in columns.items()]))


def _valid(row: DrawnRow, versions: Sequence[Version]) -> int | None:
    """When the version began that the row found in a table's history, which no output says: the newest that had begun."""
    begun = [v for v in versions if row.at is not None and v.lane == row.lane and v.at <= row.at and row.outcome not in DROPPED]
    newest = max(begun, key=lambda v: v.at, default=None)
    over = newest is None or newest.deleted or (newest.until is not None and row.at is not None and newest.until <= row.at)
    return None if newest is None or over else newest.at


def _versions(call: Bound, given: Drawing, limits: Limits) -> tuple[Version, ...]:
    """Versions of the keys that are drawn: those that were the newest at a row's time, or were found, and some that lie near."""
    asked_at: dict[str, set[int]] = {}
    for row in given.rows:
        asked_at.setdefault(row.lane, set()).update(t for t in (row.at, row.times.get("match_at")) if t is not None)
    times = [r.at for r in given.rows if r.at is not None]
    if not times:
        return ()
    both = sides(call)
    marks = {name: quoted(refs[0].name) for name, refs in both.right.extras.items() if refs}
    time, kind = both.right.time, both.right.time.type
    df = _with_lanes(both).selectExpr(
        "lane",
        f"{microseconds(quoted(time.name), kind)} AS at",
        f"coalesce({marks.get('deleted', 'false')}, false) AS deleted",
        f"{microseconds(marks['until'], kind) if 'until' in marks else 'CAST(NULL AS BIGINT)'} AS until",
    )
    # of several at one time one, which is no deletion
    df = (
        df.where(F.col("lane").isin(sorted(asked_at)))
        .groupBy("lane", "at")
        .agg(F.min("deleted").alias("deleted"), F.max("until").alias("until"))
    )
    df = df.withColumn("next", F.lead("at").over(Window.partitionBy("lane").orderBy("at")))
    lanes = ", ".join(f"{literal(lane)}, array({', '.join(f'{t}L' for t in sorted(at))})" for lane, at in asked_at.items() if at)
    needed = F.expr(f"coalesce(exists(try_element_at(map({lanes}), lane), t -> at <= t AND (next IS NULL OR t < next)), false)")
    room = max(max(times) - min(times), 1)
    low, high = max(min(times) - 4 * room, -(2**63)), min(max(times) + room, 2**63 - 1)
    df = df.withColumns({"needed": needed, "near": F.col("at").between(low, high)})
    away = F.abs(F.try_subtract(F.col("at"), F.lit(max(times))))
    df = df.withColumn("rank", F.row_number().over(Window.partitionBy("lane").orderBy(F.col("near").desc(), away.asc_nulls_last())))
    df = df.where(F.col("needed") | (F.col("near") & (F.col("rank") <= limits.rows)))
    ends = F.least("until", "next")  # also where the next one is not drawn
    return tuple(Version(*row) for row in df.select("lane", "at", "deleted", ends).orderBy("lane", "at").collect())


def _with_lanes(both: Sides) -> DataFrame:
    """The rows of the right side with their lane, which is named after the left side's key."""
    df, texts = both.right.df, []
    for i, (own, other) in enumerate(zip(both.left.keys, both.right.keys, strict=True)):
        key = F.expr(f"CAST({quoted(other.name)} AS {type_text(own.type)})")
        texts.append(key.cast("string").alias(f"{HIDDEN}text_{i}"))
        if not direct(own.type):
            one, text = f"{HIDDEN}told_{i}", f"{HIDDEN}text_{i}"
            told = both.left.df.select(own.column.alias(one), own.column.cast("string").alias(text))
            df = df.join(told.groupBy(one).agg(F.max(text).alias(text)), key.eqNullSafe(F.col(quoted(one))), "left")
            texts[i] = F.col(quoted(text))
    # as `lane_of` says it
    shown = "transform(key, part -> CASE WHEN part = '' THEN repeat(chr(39), 2) ELSE coalesce(part, 'NULL') END)"
    lane = F.expr(f"if(size(key) > 0, array_join({shown}, ', '), 'all rows')")
    return df.withColumn("key", F.array(*texts).cast("array<string>")).withColumn("lane", lane)
