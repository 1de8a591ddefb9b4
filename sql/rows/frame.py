"""The input of a function, made ready: its keys, processing order and event time resolved to columns (rules C1, C2, C4, C8, C11, C12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamtime.sql.call.binding import refuse_reserved
from streamtime.sql.call.errors import EVENT_TIME, TOO_DEEP, CallError, did_you_mean, gist, listed, of_other_type, too_deep, unlogged
from streamtime.sql.call.names import RESERVED, parts, plain
from streamtime.sql.call.values import Expression
from streamtime.sql.rows import unread
from streamtime.sql.rows.columns import (
    TIMES,
    direct,
    equality,
    expression,
    has_collation,
    has_floating,
    hash_of_all,
    named,
    orderable,
    sign_text,
    sorted_by,
    tie_break,
    tie_value,
)
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.arrays.ordering import By

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import Column, DataFrame

    from streamtime.sql.call.spec import Bound

PREFIX = RESERVED
HERE = f"{PREFIX}here"
LEFT_OUT = ("null_time", "null_key")  # what `Frame.left_out` says


@dataclass(frozen=True)
class Ref:
    """A column of the prepared frame, by name, with its type and how the user wrote it."""

    name: str
    type: T.DataType
    text: str

    @property
    def column(self) -> Column:
        """The column."""
        return named(self.name)


def refs_of(df: DataFrame, names: Iterable[str]) -> list[Ref]:
    """Columns of a DataFrame, as it names them."""
    schema = df.schema
    return [Ref(name, schema[name].dataType, name) for name in names]


def whole(df: DataFrame) -> DataFrame:
    """The same rows; used twice, they are computed once: for Spark to see that, both uses must ask for all columns.

    Not for a text: Spark shuffles all that is not deterministic and stands in two places, to keep it (`wanting_all`).
    """
    either = expression(f"spark_partition_id() >= 0 OR {hash_of_all(df.schema)} = 0")
    return df.withColumn(HERE, either).where(named(HERE)).drop(HERE)


def wanting_all(column: Column, df: DataFrame) -> Column:
    """A column of these rows for which Spark must have all of them, as far as it knows: where rows are used twice, for all columns and for
    this one, it then sees that what is below the last shuffle is the same. No filter: Spark carries a condition over n columns through each
    renaming, in 2^n forms.
    """
    return F.when(expression(f"{hash_of_all(df.schema)} >= {-(2**31)}"), column)


def presorted(df: DataFrame, by: Column) -> DataFrame:
    """The rows sorted by one number in the tasks that have them, which Spark does without a comparator and with all cores: what sorts them
    behind a shuffle, by it first, merges these runs. Spark removes a sort that another one follows, but none below such a condition.
    """
    return df.sortWithinPartitions(by).where(expression("spark_partition_id() >= 0"))


@dataclass(frozen=True)
class Order:
    """One item of the processing order."""

    ref: Ref
    ascending: bool
    nulls_first: bool

    def sort(self, reverse: bool = False) -> Column:
        """The sort expression, or its exact reverse."""
        return sorted_by(quoted(self.ref.name), self.ascending != reverse, self.nulls_first != reverse)


@dataclass(frozen=True)
class Frame:
    """The prepared input. `df` has the input's columns, renamed only where two had one name, then helper columns."""

    df: DataFrame
    columns: tuple[Ref, ...]
    originals: tuple[str, ...]
    keys: tuple[Ref, ...]
    order: tuple[Order, ...]
    time: Ref
    extras: dict[str, tuple[Ref, ...]]
    kernels: bool = True  # whether Python may run over its rows
    source: Any = None  # the rows as they came, to ask where from
    together: bool = False  # whether one task has all rows

    @property
    def ordered_by_time(self) -> bool:
        """Whether the first ORDER BY expression is the event time, up or down."""
        return self.order[0].ref.name == self.time.name

    @property
    def in_time_order(self) -> bool:
        """Whether rows are processed in event-time order, so that nothing can be late (rule C2)."""
        return self.ordered_by_time and self.order[0].ascending

    @property
    def has_time(self) -> Column:
        """Whether a row has a place in time: neither its time nor its first order column is null (rule C12)."""
        return _all_present(dict.fromkeys((self.time.name, self.order[0].ref.name)))

    @property
    def has_key(self) -> Column:
        """Whether no key is null."""
        return _all_present(k.name for k in self.keys)

    @property
    def left_out(self) -> Column:
        """Why a row takes no part in windows and sessions; null where it does (rule C12)."""
        return F.when(~self.has_time, "null_time").when(~self.has_key, "null_key")

    @property
    def clocks(self) -> tuple[Ref, ...]:
        """The columns of `clock_by`: rows that agree in them follow one clock."""
        return self.extras.get("clock_by", ())

    @property
    def several_clocks(self) -> bool:
        """Whether the rows of a key may follow several clocks, so that stream time may fall among them."""
        return not {c.name for c in self.clocks} <= {k.name for k in self.keys}

    def by_key(self, identity: Sequence[str], order: Sequence[Column], first: Column | None = None) -> DataFrame:
        """The rows of each key together in one task, sorted by `first`, a number, key, and this order. `identity` are column names."""
        keys, rows = [named(i) for i in identity], self.df
        if not self.together:
            rows = rows if first is None else presorted(rows, first)
            rows = rows.repartition(*keys) if keys else rows.repartition(1)
        return rows.sortWithinPartitions(*([] if first is None else [first]), *[sorted_by(quoted(i)) for i in identity], *order)

    def sort(self, *, within_key: bool = True, reverse: bool = False) -> list[Column]:
        """The total order of rows: ORDER BY, then every other orderable column (rule C4); `reverse` turns all of it round."""
        return [o.sort(reverse) for o in self.order] + self.tie_breaks(within_key, reverse)

    def tie_breaks(self, within_key: bool = True, reverse: bool = False) -> list[Column]:
        """The part of that order behind ORDER BY."""
        kinds = {c.name: c.type for c in self.columns}
        signs = [sorted_by(text, not reverse, not reverse) for text in self.signs()]
        return [tie_break(n, kinds[n], reverse) for n in self.ties(within_key)] + signs

    def sort_key(self) -> Column | None:
        """The place of a row in the total order, as a value that compares as rows sort; None: its order goes down, or has nulls last."""
        if not all(o.ascending and o.nulls_first for o in self.order):
            return None
        kinds = {c.name: c.type for c in self.columns}
        by = [*(o.ref.column for o in self.order), *(tie_value(n, kinds[n]) for n in self.ties(within_key=False))]
        by += map(expression, self.signs())
        return F.struct(*[c.alias(f"c{i}") for i, c in enumerate(by)])

    def ties(self, within_key: bool = True) -> list[str]:
        """The columns that decide between rows that are equal in ORDER BY. Strings may differ that a collation calls equal there, or in a
        key.
        """
        equal = [*(o.ref for o in self.order), *(self.keys if within_key else ())]
        done = {r.name for r in equal if not has_collation(r.type)}
        return [c.name for c in self.columns if c.name not in done and orderable(c.type)]

    def signs(self) -> list[str]:
        """What decides last, as SQL text: both zeros are equal in ORDER BY."""
        return [sign_text(name) for name in self._with_zeros()]

    def _with_zeros(self) -> list[str]:
        own = {c.name for c in self.columns}
        return [o.ref.name for o in self.order if o.ref.name in own and has_floating(o.ref.type)]

    def ties_by(self, within_key: bool = True) -> tuple[By, ...]:
        """The same tie-breaks for what sorts rows itself."""
        return *(By(n) for n in self.ties(within_key)), *(By(n, zeros=True) for n in self._with_zeros())

    def original(self) -> list[Column]:
        """The input's columns under their own names."""
        pairs = zip(self.columns, self.originals, strict=True)
        return [c.column if c.name == name else c.column.alias(name) for c, name in pairs]

    def comparable(self, refs: Sequence[Ref]) -> tuple[Frame, list[str]]:
        """The frame with these columns in a form that a kernel can compare for equality, each computed once, and their names."""
        computed = {r.name: f"{PREFIX}equal_{r.name}" for r in refs if not direct(r.type)}
        missing = {n: equality(r.name, r.type) for r in refs if (n := computed.get(r.name)) and n not in self.df.columns}
        shuffled = any(has_collation(r.type) for r in refs if computed.get(r.name) in missing)  # rows go where equal values are
        frame = replace(self, df=self.df.withColumns(missing), together=self.together and not shuffled) if missing else self
        return frame, [computed.get(r.name, r.name) for r in refs]

    def with_df(self, df: DataFrame) -> Frame:
        """The same frame over other rows."""
        return replace(self, df=df)

    def only(self, condition: Column) -> Frame:
        """The rows of which this is true, for a kernel.

        A plain filter would move below whatever computes the input's columns, which then were computed twice: for it, and for what is
        left. This one stays, since Spark takes it for not deterministic; and so does what users filter by, as above every kernel.
        """
        here = expression("spark_partition_id() >= 0")
        return self.with_df(self.df.withColumn(HERE, here & condition).where(named(HERE)))


def _all_present(names: Iterable[str]) -> Column:
    return expression(" AND ".join(f"{quoted(n)} IS NOT NULL" for n in names) or "true")


def prepare(call: Bound, **extras: tuple[Expression, ...]) -> Frame:
    """Resolve the call's expressions over its one input. Raises CallError for whatever cannot be meant."""
    originals, names = _unique(call)
    wanted: list[tuple[str, Expression]] = [("PARTITION BY", k) for k in call.keys]
    wanted += [("ORDER BY", o.expression) for o in call.order]
    wanted += [("`time`", Expression.parse(call["time"]))] if call["time"] else []
    for role, given in extras.items():
        wanted += [(f"`{role}`", e) for e in given]
    limited = unread.limited(call.tables[0].source) if call.kernels else ""  # then the parts of a plan that read it must see the same rows
    its = call.tables[0].df  # what is asked of it may be computed below a LIMIT that comes last, or above it: so that one is cut off first
    df, refs = _resolve(call, its.repartition(1) if limited == "in all" else its, names, wanted)
    if limited:
        df = whole(df if limited == "in all" else df.repartition(expression(hash_of_all(df.schema))))
    columns = tuple(Ref(f.name, f.dataType, f.name) for f in df.schema.fields[: len(originals)])
    return _roles(call, df, columns, originals, refs)


def _roles(call: Bound, df: DataFrame, columns: tuple[Ref, ...], originals: tuple[str, ...], refs: list[tuple[str, Ref]]) -> Frame:
    keys = tuple(r for role, r in refs if role == "PARTITION BY")
    ordered = [r for role, r in refs if role == "ORDER BY"]
    order = tuple(Order(r, o.ascending, o.nulls_first) for r, o in zip(ordered, call.order, strict=True))
    times = [r for role, r in refs if role == "`time`"]
    time = times[0] if times else order[0].ref
    for role, ref in refs:
        if role not in ("ORDER BY", "`time`", "`aggregates`") and not orderable(ref.type):
            raise call.refuse(role, f"values of type {_sql(ref.type)} cannot be compared (`{ref.text}`)", "Use a field of it.")
        if role == "ORDER BY" and not orderable(ref.type):
            raise call.refuse(role, f"values of type {_sql(ref.type)} cannot be ordered (`{ref.text}`)", "Use a field of it.")
    if not isinstance(time.type, TIMES):
        problem = of_other_type(EVENT_TIME, time.type.simpleString(), time.text)
        raise call.refuse("`time`" if times else "ORDER BY", problem, _as_time(time, bool(times)))
    extras: dict[str, tuple[Ref, ...]] = {}
    for role, ref in refs:
        if role.startswith("`") and role != "`time`":
            extras[role[1:-1]] = (*extras.get(role[1:-1], ()), ref)
    return Frame(df, columns, originals, keys, order, time, extras, call.kernels, call.tables[0].source)


def different_types(call: Bound, role: str, one: Ref, other: Ref, what: str = "") -> CallError:
    """The error to raise where two columns that are compared have types that cannot be."""
    kinds = f"`{one.text}` ({_sql(one.type)}) and `{other.text}` ({_sql(other.type)})"
    return call.refuse(role, f"{what}{kinds} have different types", "Cast one of them.")


def _as_time(ref: Ref, named_so: bool) -> str:
    """How to come to an event time from a column of another type."""
    another = "time => 'ts'"
    if isinstance(ref.type, T.StringType):
        cast = f"Cast it, here or in the TABLE argument: to_timestamp({ref.text})"
        return f"{cast}." if named_so else f"{cast}; or name another column: {another}."
    if isinstance(ref.type, T.IntegralType):
        convert = f"onvert it, here or in the TABLE argument: timestamp_millis({ref.text}), or timestamp_seconds({ref.text})."
        return f"C{convert}" if named_so else f"Name the event time: {another}; or, if this is it, c{convert}"
    return f"Name a column of one of these types: {another}."


def _unique(call: Bound) -> tuple[tuple[str, ...], list[str]]:
    """The names that the input's columns came with, and distinct ones for the frame."""
    names = call.tables[0].df.columns
    refuse_reserved(call, names)
    twice = call.names.twice(names)
    return tuple(names), [n if n not in twice else f"{PREFIX}input_{i}" for i, n in enumerate(names)]


def _resolve(
    call: Bound, df: DataFrame, columns: list[str], wanted: list[tuple[str, Expression]]
) -> tuple[DataFrame, list[tuple[str, Ref]]]:
    """Each expression as a column of the frame: itself where it is one, a helper column where it is computed."""
    originals = df.columns
    names: list[str] = []
    helpers: dict[str, Expression] = {}
    for role, asked in wanted:
        name = plain(asked.text)
        places = call.names.among(name, originals)
        if len(places) > 1:
            raise ambiguous(call, role, name or "")
        if places:
            names.append(columns[places[0]])
            continue
        same = next((h for h, e in helpers.items() if e.text == asked.text), None)
        helper = same or f"{PREFIX}{len(helpers)}"
        helpers[helper] = asked
        names.append(helper)
    if helpers:
        df = _add(call, df, helpers, wanted, names)  # before columns are renamed: an expression may tell equal names apart by their tables
    if columns != originals:
        df = df.toDF(*columns, *helpers)
    schema = df.schema
    return df, [(role, Ref(n, schema[n].dataType, e.text)) for (role, e), n in zip(wanted, names, strict=True)]


def _add(call: Bound, df: DataFrame, helpers: dict[str, Expression], wanted: list[tuple[str, Expression]], names: list[str]) -> DataFrame:
    # coalesce() of one thing is that thing, but a generator such as explode() inside it is refused, not run
    try:
        with unlogged():
            added = df.select("*", *[F.coalesce(e.column()).alias(h) for h, e in helpers.items()])
            added.schema  # noqa: B018 - over Spark Connect, what is wrong shows only when this is asked
            return added
    except (AnalysisException, Py4JJavaError) as error:
        if not isinstance(error, AnalysisException) and not too_deep(error):
            raise
        for helper, wrong in helpers.items():
            _try(call, df, wanted[names.index(helper)][0], wrong)
        raise


def _try(call: Bound, df: DataFrame, role: str, expression: Expression) -> None:
    try:
        with unlogged():
            df.select("*", F.coalesce(expression.column())).schema  # noqa: B018 - as above
    except Py4JJavaError as error:
        if not too_deep(error):
            raise
        raise call.refuse(role, f"`{expression.text}` {TOO_DEEP}", "Compute it in the TABLE argument, step by step.") from None
    except AnalysisException as error:
        condition = error.getCondition() or ""
        parameters = error.getMessageParameters() or {}
        known = list(dict.fromkeys(call.tables[0].df.columns))
        said = parts(parameters.get("objectName", expression.text)) or [expression.text]
        if condition.startswith("AMBIGUOUS") or len(call.names.among(said[0], call.tables[0].df.columns)) > 1:
            raise ambiguous(call, role, ".".join(said)) from None
        if condition.startswith("UNRESOLVED_COLUMN"):
            fix = did_you_mean(said[-1], known) or f"The input has {listed(known)}."
            raise CallError(call.spec.name, role, f"no column `{'.'.join(said)}` in the input", fix) from None
        if condition == "MISSING_GROUP_BY":
            problem = f"an aggregate cannot stand here (`{expression.text}`)"
            raise CallError(call.spec.name, role, problem, "Compute it in the TABLE argument.") from None
        if condition.startswith("UNSUPPORTED_GENERATOR"):
            problem = f"several rows for each cannot stand here (`{expression.text}`)"
            raise CallError(call.spec.name, role, problem, "Compute it in the TABLE argument.") from None
        if condition == "UNRESOLVED_ROUTINE":
            name = ".".join(parts(parameters.get("routineName", "")) or [expression.text])
            raise CallError(call.spec.name, role, f"Spark has no function `{name}` (`{expression.text}`)", "Check its spelling.") from None
        if condition == "PARSE_SYNTAX_ERROR":
            why = gist(error).removeprefix("[PARSE_SYNTAX_ERROR] ").partition(" SQLSTATE")[0]
            raise CallError(call.spec.name, role, f"`{expression.text}` is not a SQL expression: {why}") from None
        raise CallError(call.spec.name, role, f"Spark cannot resolve `{expression.text}` over the input: {gist(error)}") from None


def ambiguous(call: Bound, role: str, name: str) -> CallError:
    """What is said where a name stands for several columns."""
    return call.refuse(role, f"column `{name}` is ambiguous", "Give the columns different names in the TABLE argument.")


def _sql(kind: T.DataType) -> str:
    return kind.simpleString().upper()
