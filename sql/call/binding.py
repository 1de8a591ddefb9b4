"""A call, as every door delivers it, and its binding to a SPEC: all that can be wrong with options is said here (rules C1, C8)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from streamtime.sql.call.names import Names
from streamtime.sql.call.spec import Refused, Spec
from streamtime.sql.errors import CallError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

DIRECTION = re.compile(r"\s+(ASC|DESC)(?:\s+NULLS\s+(FIRST|LAST))?\s*$|\s+NULLS\s+(FIRST|LAST)\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Value:
    """A constant that came as an option: its Python value, its SQL type, and how it was written."""

    python: Any
    type: str
    text: str


@dataclass(frozen=True)
class Expression:
    """A SQL expression over the input: its text for people, and the column that Spark resolves."""

    text: str
    column: Callable[[], Column]

    @staticmethod
    def parse(text: str) -> Expression:
        """From SQL text."""
        return Expression(text.strip(), lambda: F.expr(text))


@dataclass(frozen=True)
class Sort:
    """One ORDER BY item."""

    expression: Expression
    ascending: bool = True
    nulls_first: bool = True

    @staticmethod
    def parse(text: str) -> Sort:
        """From SQL text such as `ts DESC NULLS LAST`; nulls come first going up and last going down, as in Spark."""
        found = DIRECTION.search(text)
        if not found:
            return Sort(Expression.parse(text))
        ascending = (found[1] or "ASC").upper() == "ASC"
        nulls = (found[2] or found[3] or ("FIRST" if ascending else "LAST")).upper()
        return Sort(Expression.parse(text[: found.start()]), ascending, nulls == "FIRST")


@dataclass(frozen=True)
class Table:
    """A TABLE argument: the rows, and the clauses that stood with it."""

    frame: DataFrame
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[Sort, ...] = ()


def _as_they_are(df: DataFrame, _places: Sequence[Place], _present: bool) -> DataFrame:
    return df


Place = tuple[int, int]  # of a column: the number of its table, and its own


@dataclass(frozen=True)
class Bound:
    """A call whose options are known, typed and complete.

    `as_inputs(df, places, present)` gives the first columns of a result the qualifiers of the input columns that they come from, so that
    `o.k` can be said around the call, and their nullability: of the first table, and of the others where `present`. Only a door to the
    JVM can; elsewhere it gives `df`.
    """

    spec: Spec
    tables: tuple[Table, ...]
    options: dict[str, Any] = field(default_factory=dict)
    session: Any = None
    as_inputs: Callable[[DataFrame, Sequence[Place], bool], DataFrame] = _as_they_are
    names: Names = field(default_factory=Names)  # when two names of columns are the same

    def __getitem__(self, option: str) -> Any:
        """The value of an option, its default where the call did not give it."""
        return self.options[option]

    def refuse(self, argument: str | None, problem: str, fix: str | None = None) -> CallError:
        """The error to raise for something that only the plan can know."""
        return CallError(self.spec.name, argument, problem, fix)

    @property
    def keys(self) -> tuple[Expression, ...]:
        """The key expressions, from the clause or the option."""
        return self.tables[0].partition_by or tuple(Expression.parse(k) for k in self["keys"] or ())

    @property
    def order(self) -> tuple[Sort, ...]:
        """The ORDER BY items, from the clause or the option."""
        return self.tables[0].order_by or tuple(Sort.parse(o) for o in self["order_by"] or ())


def bind(
    spec: Spec,
    tables: Sequence[Table],
    options: Sequence[tuple[str | None, Value]],
    session: Any = None,
    as_inputs: Callable[[DataFrame, Sequence[Place], bool], DataFrame] = _as_they_are,
) -> Bound:
    """Check the call against the SPEC. Raises CallError."""
    if len(tables) != spec.tables:
        fix = f"Write it as {spec.name}({', '.join(spec.leading)})." if spec.leading else None
        expected = f"expected {spec.tables or 'no'} TABLE argument{'s' * (spec.tables > 1)}, got {len(tables) or 'none'}"
        raise CallError(spec.name, None, expected, fix)
    given: dict[str, Any] = {}
    places = iter(spec.positional)
    for written, value in options:
        name = written or next(places, None)
        if name is None:
            fix = f"Options are: {listed(o.name for o in spec.options)}." if spec.options else f"Write {spec.name}(): it takes none."
            raise CallError(spec.name, None, f"expected named options (name => value), got {value.text} without a name", fix)
        option = spec.option(name)
        if option is None:
            known = [o.name for o in spec.options]
            fix = did_you_mean(name, known) or (f"Options are: {listed(known)}." if known else f"Write {spec.name}(): it takes none.")
            raise CallError(spec.name, f"`{name}`", "no such option", fix)
        if option.name in given:
            raise CallError(spec.name, f"`{option.name}`", "given twice", "Leave one out.")
        given[option.name] = _read(spec, option.name, value)
    for option in spec.options:
        if option.required and given.get(option.name) is None:
            leads = option.name in spec.positional
            fix = f"Write it as {spec.name}({', '.join(spec.leading)})." if leads else f"Add {option.name} => {option.example}."
            raise CallError(spec.name, f"`{option.name}`", f"is required: {option.help}", fix)
    for table in tables:
        _check_clauses(spec, table, given)
    known_options = {o.name: given.get(o.name, o.default) for o in spec.options}
    bound = Bound(spec, tuple(tables), known_options, session, as_inputs, Names(session))
    if spec.check is not None:
        spec.check(bound)
    return bound


def _read(spec: Spec, name: str, value: Value) -> Any:
    option = spec.option(name)
    assert option is not None
    try:
        if value.python is None and value.type != "INTERVAL":
            instead = f"Write {name} => {option.example}." if option.required else "Leave the option out for its default."
            raise Refused(f"a constant {option.kind.sql}", instead)
        return option.kind.read(value)
    except Refused as refused:
        expected, fix = refused.args
        raise CallError(spec.name, f"`{name}`", f"expected {expected}, got {value.text} ({value.type})", fix or None) from None


def _check_clauses(spec: Spec, table: Table, given: dict[str, Any]) -> None:
    for option, clause, written in (
        ("keys", "PARTITION BY", table.partition_by),
        ("order_by", "ORDER BY", table.order_by),
    ):
        if written and given.get(option):
            raise CallError(spec.name, f"`{option}`", f"given both as {clause} and as an option", "Leave one out.")
    if spec.ordered and not table.order_by and not given.get("order_by"):
        fix = "Add ORDER BY ts (the event time, if nothing is late) after TABLE(..), or order_by => ARRAY('ts')."
        raise CallError(spec.name, "ORDER BY", "is missing: the processing order has no default", fix)
