"""What a function says about itself, as data, and a call bound to it. Everything that describes a function is derived from its SPEC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from streamtime.sql.call.errors import DOORS, CallError
from streamtime.sql.call.in_memory import Columns, Verdicts
from streamtime.sql.call.kinds import Choice, Duration, Kind, Text, Texts
from streamtime.sql.call.names import Names
from streamtime.sql.call.values import Expression, Origin, Sort, Table
from streamtime.udfs.suppress.until import Suppression
from streamtime.udfs.updates.updates import ChangeColumns, Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T


@dataclass(frozen=True)
class Option:
    """One named option of a function."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    default_text: str = ""
    required: bool = False
    example: str = ""  # a value, as SQL; each option that is required has one
    values: str = ""  # those that it takes, where its kind does not say it

    @property
    def allowed(self) -> str:
        """The values that it takes, as a page lists them."""
        return self.values or self.kind.allowed


@dataclass(frozen=True)
class Example:
    """An example of a reference page: what it sets up, the query, and what the page says before it."""

    setup: str
    query: str
    says: str = ""


class MadeChanges(Protocol):
    """The changes that a call makes of changes, over rows in memory."""

    @property
    def fields(self) -> list[T.StructField]:
        """The columns of a change; the last two are `change_time` and `change_seq`."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What it needs of a row beside its columns, as SQL text."""

    def changes(self, call: Bound, in_time_order: bool, rows: list[tuple[Any, ...]], columns: Columns) -> Iterator[tuple[Any, ...]]:
        """The changes of rows in processing order, what it needs beside their columns last; times in microseconds."""


@dataclass(frozen=True)
class Local:
    """A function over rows in memory, as a Python UDTF: `judge` decides; `adds` are columns of passed rows, `details` of reported ones."""

    judge: Callable[[Bound, bool, Columns], Verdicts]
    details: tuple[str, ...]
    adds: tuple[str, ...] = ()
    of_all: tuple[str, ...] | None = None  # what output => 'all' shows; None: the details
    of_every_row: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # outputs of every row, with these columns, and no report
    texts: tuple[str, ...] = ()  # those of these columns that are text; the others are event times
    named: str = ""  # a text of the keys and the first of the columns that are added, last of them
    changes: bool = False  # it takes changes (`streamtime.sql.udtf.suppress`), those of all keys together
    suppression: Suppression | None = None  # .. and holds them back
    updates: Callable[[Bound, ChangeColumns], Updates] | None = None  # it makes changes of rows (`streamtime.sql.udtf.updates`)
    makes: Callable[[Bound, T.StructType, T.DataType], MadeChanges] | None = None  # it makes changes of changes
    without_key: str = ""  # why a row with a null key is dropped; such a row does not move stream time. '': it passes, and does

    def shown(self, output: str) -> tuple[str, ...]:
        """The columns that come last, by the call's output."""
        if output in self.of_every_row:
            return self.of_every_row[output]
        if output == "rows":
            return self.adds
        return self.details if output == "dropped" or self.of_all is None else self.of_all

    def wanted(self, output: str) -> tuple[bool, ...]:
        """Whether the rows of an output passed: all of them, or none, or either."""
        return (True, False) if output == "all" or output in self.of_every_row else (output == "rows",)

    def reported(self, output: str) -> bool:
        """Whether the rows of an output have reason, stream time and lateness."""
        return output != "rows" and output not in self.of_every_row


@dataclass(frozen=True)
class Finals:
    """The last changes of a call's windows, planned without the others: once it is known that all that is asked for are these."""

    keys: frozenset[str]  # the columns that tell windows of one start apart
    order: tuple[tuple[str, bool, bool], ...]  # in which changes come: columns, whether ascending, whether nulls come first
    plan: Callable[[str], DataFrame]  # by `at_end`; the columns of a change, with `emit_time` and `emit_reason`


@dataclass(frozen=True)
class Spec:
    """A function: its name, one sentence, its options, the columns it adds, its rules, and its plan."""

    name: str
    summary: str
    rules: str
    page: str
    plan: Callable[[Bound], DataFrame]
    check: Callable[[Bound], None] | None = None  # what is wrong with options together; behind every door, before the plan
    options: tuple[Option, ...] = ()
    positional: tuple[str, ...] = ()  # options that may stand without a name, first and in this order
    tables: int = 1
    # TABLE arguments that have names, and what each is; such have no clauses
    named: dict[str, str] = field(default_factory=dict)
    optional: int = 0  # how many of these, at the end, may be left out
    qualified: bool = False  # whether the result's columns can be named by the sides' tables, as those of a join
    ordered: bool = True  # whether each TABLE argument must say its processing order
    # what most people need: the clauses of a call and what each is for; names of options, each with a value
    clauses: dict[str, str] = field(default_factory=dict)
    main: dict[str, str] = field(default_factory=dict)
    adds: dict[str, str] = field(default_factory=dict)  # by output, the columns after the input's, or in place of them
    examples: tuple[Example, ...] = ()
    local: Local | None = None  # as a Python UDTF; None: it cannot be one
    # Why the rows of a key depend on other rows than the key's own, by the options that are given and whether rows come in the order of
    # event time; '' where they do not. What is maintained is cut by keys.
    across_keys: Callable[[Mapping[str, Any], bool], str] = lambda _given, _in_time_order: (
        "its rows depend on more than the rows of their key"
    )
    # Of what makes changes of windows: those that are the last ones, planned without the others; None: this call's cannot be.
    finals: Callable[[Bound], Finals | None] | None = None

    @property
    def call(self) -> str:
        """A short call, which can be run as it stands: what it cannot do without, and the option that it is about."""
        return f"{self.name}({', '.join(self.leading + [f'{name} => {value}' for name, value in self.needed.items()])})"

    @property
    def needed(self) -> dict[str, str]:
        """The options of a short call that have names, each with a value."""
        about = next(iter(self.main), None)
        named = [o for o in self.options if o.name not in self.positional and (o.required or o.name == about)]
        return {o.name: self.main.get(o.name, o.example) for o in named}

    @property
    def inputs(self) -> tuple[str, ...]:
        """What a page calls the TABLE arguments."""
        return tuple(self.named) or (("left", "right") if self.tables == 2 else ("input",) * self.tables)

    @property
    def required(self) -> tuple[str, ...]:
        """Those that cannot be left out."""
        return self.inputs[: self.tables - self.optional]

    @property
    def has_clauses(self) -> bool:
        """Whether its TABLE arguments take PARTITION BY and ORDER BY, and its result begins with their columns."""
        return bool(self.tables and not self.named)

    @property
    def leading(self) -> list[str]:
        """What a call begins with: its tables, and the options without a name."""
        if self.named:
            return [f"{name} => TABLE({name})" for name in self.required]
        return [f"TABLE({name}) PARTITION BY keys ORDER BY order" for name in self.inputs] + [f"'{name}'" for name in self.positional]

    def option(self, name: str) -> Option | None:
        """The option of that name, whatever its case."""
        return next((o for o in self.options if o.name == name.lower()), None)


def nobody_asks(_said: str) -> None:
    """What `Bound.depends_on` does where nobody keeps the plan for another day."""


def as_they_are(df: DataFrame, _origins: Sequence[Origin], _present: bool) -> DataFrame:
    """What `Bound.as_inputs` does where no door to the JVM is."""
    return df


@dataclass(frozen=True)
class Bound:
    """A call whose options are known, typed and complete.

    `as_inputs(df, origins, present)` gives the first columns of a result the qualifiers of the input columns that they come from, so that
    `o.k` can be said around the call, and their nullability: of the first table, and of the others where `present`. Only a door to the
    JVM can; elsewhere it gives `df`.
    """

    spec: Spec
    tables: tuple[Table, ...]
    options: dict[str, Any] = field(default_factory=dict)
    session: Any = None
    as_inputs: Callable[[DataFrame, Sequence[Origin], bool], DataFrame] = as_they_are
    names: Names = field(default_factory=Names)  # when two names of columns are the same
    kernels: bool = (
        True  # whether Python may run where the result does; if not, a plan of Spark's own operators is taken where there is one
    )
    depends_on: Callable[[str], None] = nobody_asks  # told what a table declares of itself, in words, where the plan follows that
    made_by: Callable[[], Bound | None] = lambda: None  # the call of which the first table has all rows, where a door can tell
    last_changes: bool = False  # whether final rows are to be the last changes of their windows, `change_seq` included

    def __getitem__(self, option: str) -> Any:
        """The value of an option, its default where the call did not give it."""
        return self.options[option]

    def refuse(self, argument: str | None, problem: str, fix: str | None = None) -> CallError:
        """The error to raise for something that only the plan can know."""
        return CallError(self.spec.name, argument, problem, fix)

    def no_key(self) -> CallError:
        """The error to raise where a changelog has no key."""
        return self.refuse("PARTITION BY", "is missing: the key by which a change replaces a row", "Name the columns of the key.")

    def unplain(self, argument: str | None, reason: str, fix: str = DOORS) -> CallError:
        """The error to raise where no kernel may run, and Spark's own operators cannot do what it does."""
        return self.refuse(argument, f"this call has no plain SQL: {reason}", fix)

    @property
    def keys(self) -> tuple[Expression, ...]:
        """The key expressions, from the clause or the option."""
        return self.tables[0].partition_by or tuple(Expression.parse(k) for k in self["keys"] or ())

    @property
    def order(self) -> tuple[Sort, ...]:
        """The ORDER BY items, from the clause or the option."""
        return self.tables[0].order_by or tuple(Sort.parse(o) for o in self["order_by"] or ())

    @property
    def clock_by(self) -> tuple[Expression, ...]:
        """The expressions by whose values stream time runs separately."""
        return tuple(Expression.parse(c) for c in self["clock_by"] or ())


FOLLOWS_CLOCK = "it follows stream time, which runs over the rows of all keys"  # of `Spec.across_keys`; with `clock_by`, those of a clock


def across_keys_unless_in_time_order(_given: Mapping[str, Any], in_time_order: bool) -> str:
    """Of functions that ask stream time for what is late."""
    return "" if in_time_order else FOLLOWS_CLOCK


def across_keys_with(*options: str) -> Callable[[Mapping[str, Any], bool], str]:
    """Of functions that ask stream time for the sake of these options alone."""
    return lambda given, _in_time_order: FOLLOWS_CLOCK if any(given.get(o) is not None for o in options) else ""


def across_keys_of_updates(given: Mapping[str, Any], in_time_order: bool) -> str:
    """Of functions whose windows close by stream time where only final rows leave."""
    return FOLLOWS_CLOCK if given.get("emit") == "final" else across_keys_unless_in_time_order(given, in_time_order)


CLAUSE_OPTIONS = ("keys", "order_by")
INSTEAD = "in place of the input's columns: "  # how what SPECs say of an output begins, where the columns of the input are not in it
METRICS = f"{INSTEAD}`name` STRING, `metric` STRING, `value` DOUBLE, `unit` STRING"

KEYS = Option("keys", Texts(), "the keys, where the PARTITION BY clause cannot be written", default_text="the PARTITION BY clause")
ORDER_BY = Option(
    "order_by",
    Texts(),
    "the processing order, where the ORDER BY clause cannot be written",
    default_text="the ORDER BY clause",
    example="ARRAY('ts')",
)
TIME = Option(
    "time", Text(), "event time, when a row happened: TIMESTAMP, TIMESTAMP_NTZ or DATE", default_text="the first ORDER BY expression"
)
CLOCK_BY = Option(
    "clock_by",
    Texts(),
    "each value of these has a stream time of its own, such as each partition of a source",
    default_text="one clock for the whole input",
)
GAP = Option(
    "gap",
    Duration(),
    "the largest distance between neighbours in a session, included",
    required=True,
    example="INTERVAL 30 MINUTES",
)
OUTPUT = Option(
    "output",
    Choice(words=("rows", "dropped", "all", "metrics")),
    "'rows': what passed; 'dropped': what did not, and why; 'all': both, with a reason; 'metrics': counts",
    default="rows",
    default_text="'rows'",
)
NAME = Option("name", Text(expression=False), "a label for the metrics", default_text="none")
WATERMARK = Option(
    "watermark",
    Duration(),
    "on a stream, how long to wait for late rows: stream time lags the largest event time by this; in batch it does nothing",
    default_text="that which the input has, else INTERVAL 0 SECONDS",
)
CLOCK = Option(
    "clock",
    Choice(words=("event", "wall")),
    "on a stream, what stream time is: 'event', the watermark, or 'wall', the time of day, by which an idle stream releases too",
    default="event",
    default_text="'event'",
)
COMMON = (KEYS, ORDER_BY, TIME, CLOCK_BY, WATERMARK, OUTPUT, NAME)


def refuse_wall(call: Bound) -> None:
    """In batch, stream time is no time of day (rule S10)."""
    if call["clock"] == "wall":
        raise call.refuse("`clock`", "'wall' is possible on a stream only: in batch no time passes", "Leave it out.")
