"""Takes from an output what a picture needs: the first rows of each of the first keys, times as numbers, all else as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.pictures.meanings import TIMES, Drawing, DrawnRow
from streamtime.pictures.picture import sayable
from streamtime.sql.call.errors import listed
from streamtime.sql.rows.columns import TIMES as TIME_TYPES
from streamtime.sql.rows.columns import direct, named, orderable
from streamtime.sql.rows.typed import microseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamtime.sql.call.spec import Bound

ROWS, LANES = 40, 12  # of each key, and keys: more cannot be read
CELLS = 8  # columns of the input that a row is shown with
HIDDEN = "_picture_"  # of columns that go through the call beside the input's
WORDS = ("outcome", "reason", "explanation", "put_status")
ADDED: dict[str, Any] = dict.fromkeys(WORDS, T.StringType) | dict.fromkeys((*TIMES, "stream_time"), TIME_TYPES)  # by type
CUT = 120  # characters of a cell


@dataclass(frozen=True)
class Limits:
    """How much is drawn: rows of each key, keys, and which rows of the output, as a SQL condition."""

    rows: int = ROWS
    lanes: int = LANES
    where: str | None = None


USUAL = Limits()


def of_frame(
    df: DataFrame,
    keys: Sequence[str] = (),
    time: str | None = None,
    limits: Limits = USUAL,
    *,
    title: str = "",
    options: Mapping[str, Any] | None = None,
    inputs: int = 0,
) -> Drawing:
    """The rows of a DataFrame that is an output already. Its first `inputs` columns are none that an output adds, whatever their names."""
    if df.isStreaming:
        raise ValueError("plot: a stream has no end, so it is not drawn. Give a DataFrame of a table that holds rows of it.")
    for name in keys:
        if name not in df.columns:
            raise ValueError(f"plot, `keys`: no column `{name}`; there are {listed(df.columns)}.")
    times = [f.name for f in df.schema.fields if isinstance(f.dataType, TIME_TYPES)]
    own = [name for name in times if name not in (*TIMES, "stream_time")] or [name for name in times if name == "valid_from"]
    if time is None and len(own) != 1:
        what = f"there are {listed(own)}" if own else f"no column of {listed(df.columns)} is a time"
        raise ValueError(f"plot, `time`: expected one column with event times, and {what}. Name one: time='ts'.")
    if time is not None and time not in times:
        raise ValueError(f"plot, `time`: expected a column with times, one of {listed(times)}, got `{time}`.")
    moment = time or own[0]
    kinds = {f.name: f.dataType for f in df.schema.fields}
    hidden = key_columns(0, [(named(k), kinds[k]) for k in keys])
    hidden |= {f"{HIDDEN}0_time": named(moment), f"{HIDDEN}0_order_0": named(moment)}
    out = df.select("*", *[c.alias(n) for n, c in hidden.items()])
    rows, notes = collected(out, OutputColumns(None, out, inputs), limits)
    return Drawing(title, rows, dict(options or {}), notes=notes, zone=zone_of_session(df.sparkSession, kinds[moment]))


def key_columns(n: int, keys: Sequence[tuple[Column, T.DataType]]) -> dict[str, Column]:
    """Columns that go along: the key as texts; and the key itself, where several texts may be of equal keys."""
    texts = F.array(*[column.cast("string") for column, _ in keys]).cast("array<string>")
    several = not all(direct(kind) for _, kind in keys)
    return {f"{HIDDEN}{n}_key": texts} | ({f"{HIDDEN}{n}_told_{i}": column for i, (column, _) in enumerate(keys)} if several else {})


def zone_of_session(spark: SparkSession, kind: T.DataType) -> str:
    """The time zone in which times of this type are to be said: none where they have none."""
    return sayable(str(spark.conf.get("spark.sql.session.timeZone"))) if isinstance(kind, T.TimestampType) else "UTC"


class OutputColumns:
    """Where in an output is what: columns by their place, as names may be equal or odd. The first `inputs` are the input's."""

    def __init__(self, call: Bound | None, out: DataFrame, inputs: int, lookup: bool = False) -> None:
        fields = out.schema.fields
        self.types = [f.dataType for f in fields]
        self.sorts = [] if call is None else [(o.ascending, o.nulls_first) for o in call.order]
        self.hidden: dict[str, list[int]] = {}
        self.added: dict[str, int] = {}
        for i, f in enumerate(fields):
            if f.name.startswith(HIDDEN):
                name = f.name.removeprefix(HIDDEN).partition("_")[2]
                self.hidden.setdefault(name, []).append(i)
            elif i >= inputs and isinstance(f.dataType, ADDED.get(f.name, ())):
                self.added[f.name] = i
        if lookup:
            first, *others = self.hidden["time"]
            self.hidden["time"] = [first]
            if others:
                self.added["match_at"] = others[0]
            self.hidden["order_0"] = self.hidden["time"]
        skipped = {*self.added.values(), *(i for places in self.hidden.values() for i in places)}
        names = ("lateness", "side", "decided_by")
        self.cells = [i for i, f in enumerate(fields) if i not in skipped and not (i >= inputs and f.name in names)]
        self.names = [f.name for f in fields]

    def one(self, name: str) -> str:
        """A hidden column as SQL text: of two sides, that of the side which the row is from."""
        return f"coalesce({', '.join(f'c{i}' for i in self.hidden[name])})"

    def micros(self, i: int) -> str:
        """A time as a number."""
        return microseconds(f"c{i}", self.types[i])

    def order(self) -> list[Column]:
        """The processing order; ties as everywhere, by the other columns, and then by windows."""
        columns = []
        for n, name in enumerate(sorted((h for h in self.hidden if h.startswith("order_")), key=lambda h: int(h[6:]))):
            up, nulls_first = self.sorts[n] if n < len(self.sorts) else (True, True)
            column = F.expr(self.one(name))
            by = (column.asc_nulls_first if nulls_first else column.asc_nulls_last) if up else None
            columns.append(by() if by else column.desc_nulls_first() if nulls_first else column.desc_nulls_last())
        rest = [i for i in (*self.cells, *self.added.values()) if orderable(self.types[i])]
        return [*columns, *[named(f"c{i}").asc_nulls_first() for i in rest]]


def collected(out: DataFrame, places: OutputColumns, limits: Limits) -> tuple[list[DrawnRow], tuple[str, ...]]:
    """The first rows of each of the first keys, in processing order, and what is left out, in words."""
    if limits.where is not None:
        out = out.where(F.expr(limits.where))
    df = out.toDF(*[f"c{i}" for i in range(len(places.types))])
    added = places.added
    times = [name for name in (*TIMES, "match_at") if name in added]
    order = places.order()
    df = df.withColumn("key", F.expr(places.one("key")))
    told = [places.one(f"told_{i}") for i in range(len(places.hidden)) if f"told_{i}" in places.hidden]
    if told:  # equal keys have one lane, whose name is one of their texts
        alike = [Window.partitionBy(F.expr(key), F.expr(f"if({key} IS NULL, key[{i}], NULL)")) for i, key in enumerate(told)]
        df = df.withColumn("key", F.array(*[F.max(F.expr(f"key[{i}]")).over(equal) for i, equal in enumerate(alike)]))
    df = df.withColumn("rank", F.row_number().over(Window.partitionBy("key").orderBy(*order)))
    most = limits.lanes * (limits.rows + 1)
    df = df.where(F.col("rank") <= limits.rows + 1).orderBy("key", "rank").limit(most + 1).orderBy(*order)
    words = {name: f"c{added[name]}" if name in added else "CAST(NULL AS STRING)" for name in WORDS}
    cells = [f"left(CAST(c{i} AS STRING), {CUT})" for i in places.cells[:CELLS]]
    answers = df.selectExpr(
        "key",
        "rank",
        f"{places.micros(places.hidden['time'][0]) if len(places.hidden['time']) == 1 else _either(places)} AS at",
        f"{places.micros(added['stream_time']) if 'stream_time' in added else 'CAST(NULL AS BIGINT)'} AS clock",
        f"coalesce({words['outcome']}, {words['reason']}, nullif({words['put_status']}, 'current')) AS outcome",
        f"{words['explanation']} AS explanation",
        f"{places.one('deleted') if 'deleted' in places.hidden else 'false'} AS deleted",
        f"CAST(array({', '.join(places.micros(added[t]) for t in times)}) AS ARRAY<BIGINT>) AS times",
        f"CAST(array({', '.join(cells)}) AS ARRAY<STRING>) AS cells",
    ).collect()
    keys = sorted({tuple(row.key) for row in answers}, key=lambda key: [(part is not None, part or "") for part in key])
    drawn = keys[: limits.lanes]
    longer = sorted({lane_of(row.key) for row in answers if row["rank"] > limits.rows and tuple(row.key) in drawn})
    notes = [f"only the first {limits.rows} rows of each key are drawn; {_have(longer)} more"] if longer else []
    notes += [f"only the first {limits.lanes} keys are drawn; there are more"] if len(keys) > limits.lanes else []
    within_limits = [row for row in answers if row["rank"] <= limits.rows and tuple(row.key) in drawn]
    names = [places.names[i] for i in places.cells[:CELLS]]
    rows = [
        DrawnRow(
            number=n,
            lane=lane_of(row.key),
            at=row["at"],
            outcome=row.outcome,
            clock=row.clock,
            sentence=row.explanation or "",
            times=dict(zip(times, row.times, strict=True)),
            cells=tuple(f"{name}: {'NULL' if cell is None else cell}" for name, cell in zip(names, row.cells, strict=True)),
            deleted=bool(row.deleted),
            has_key=None not in row.key,
        )
        for n, row in enumerate(within_limits, 1)
    ]
    return rows, tuple(notes)


def _either(places: OutputColumns) -> str:
    return f"coalesce({', '.join(places.micros(i) for i in places.hidden['time'])})"


def _have(lanes: Sequence[str]) -> str:
    names = listed(lanes, 4).replace("`", "")
    return f"{names} {'have' if len(lanes) > 1 else 'has'}"


def lane_of(key: Sequence[str | None]) -> str:
    """What stands beside a lane."""
    return ", ".join("NULL" if part is None else part or "''" for part in key) if key else "all rows"
