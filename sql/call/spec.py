"""What a function says about itself, as data. Everything that describes a function is derived from its SPEC."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from streamtime.sql.errors import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.binding import Bound, Value

MICROSECOND = datetime.timedelta(microseconds=1)


class Refused(Exception):
    """What a kind says of a value it does not take: (what was expected, how to fix it)."""


@dataclass(frozen=True)
class Kind:
    """The type of an option: its SQL type for people, its type in Python, and `read`, from a constant to the value a plan uses."""

    sql: str
    python: ClassVar[Any] = object

    def read(self, value: Value) -> Any:
        """The value a plan uses. Raises Refused(expected, fix)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Duration(Kind):
    """A day-time interval, read as whole microseconds."""

    sql: str = "INTERVAL DAY TO SECOND"
    python = datetime.timedelta
    positive: bool = False

    def read(self, value: Value) -> int:
        """Microseconds."""
        if "MONTH" in value.type or "YEAR" in value.type or value.type == "INTERVAL":
            raise Refused("an interval of days to seconds", "Months and years have no fixed length: say it in days.")
        if not isinstance(value.python, datetime.timedelta):
            raise Refused("an interval", "Write it as INTERVAL 10 MINUTES.")
        micros = value.python // MICROSECOND
        if micros < 0 or (self.positive and micros == 0):
            raise Refused("an interval above zero" if self.positive else "an interval of zero or more", "")
        return micros


@dataclass(frozen=True)
class Count(Kind):
    """A whole number, not negative."""

    sql: str = "BIGINT"
    python = int

    def read(self, value: Value) -> int:
        """The number."""
        if type(value.python) is not int or value.python < 0:
            raise Refused("a whole number of zero or more", "")
        return value.python


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words."""

    sql: str = "STRING"
    python = str
    words: tuple[str, ...] = ()

    def read(self, value: Value) -> str:
        """The word, in lower case."""
        expected = "one of " + ", ".join(f"'{w}'" for w in self.words)
        if not isinstance(value.python, str):
            raise Refused(expected, "")
        word = value.python.lower()
        if word not in self.words:
            raise Refused(expected, (did_you_mean(word, self.words) or "").replace("`", "'"))
        return word


@dataclass(frozen=True)
class Flag(Kind):
    """True or false."""

    sql: str = "BOOLEAN"
    python = bool

    def read(self, value: Value) -> bool:
        """The flag."""
        if not isinstance(value.python, bool):
            raise Refused("true or false", "Write it without quotes." if str(value.python).lower() in ("true", "false") else "")
        return value.python


@dataclass(frozen=True)
class Text(Kind):
    """A string; where `expression` is set, a SQL expression over the input's columns."""

    sql: str = "STRING"
    python = str
    expression: bool = True

    def read(self, value: Value) -> str:
        """The text."""
        if not isinstance(value.python, str) or not value.python.strip():
            what = "a SQL expression in quotes" if self.expression else "a string"
            raise Refused(what, "Write it as 'ts'." if self.expression else "")
        return value.python


@dataclass(frozen=True)
class Texts(Kind):
    """Several SQL expressions over the input's columns."""

    sql: str = "ARRAY<STRING>"
    python = str | Sequence[str]

    def read(self, value: Value) -> tuple[str, ...]:
        """The texts."""
        items = value.python
        if isinstance(items, str):
            raise Refused("an array of SQL expressions in quotes", f"Write it as ARRAY('{items}').")
        if not isinstance(items, (list, tuple)) or not items or not all(isinstance(i, str) and i.strip() for i in items):
            raise Refused("an array of SQL expressions in quotes", "Write it as ARRAY('k').")
        return tuple(items)


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


@dataclass(frozen=True)
class Example:
    """An example of a reference page: what it sets up, the query, and what the page says of the result."""

    setup: str
    query: str


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
    ordered: bool = True  # whether each TABLE argument must say its processing order
    adds: dict[str, str] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()

    @property
    def signature(self) -> str:
        """The call, as a page shows it."""
        return f"{self.name}({', '.join(self.leading + [f'[{o}]' for o in self.following])})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """What a page calls the TABLE arguments."""
        return ("left", "right") if self.tables == 2 else ("input",) * self.tables

    @property
    def leading(self) -> list[str]:
        """What a call begins with: its tables, and the options without a name."""
        return [f"TABLE({name}) PARTITION BY keys ORDER BY order" for name in self.inputs] + [f"'{name}'" for name in self.positional]

    @property
    def following(self) -> list[str]:
        """The options that have a name, each with its default, without those that stand for a clause of a table."""
        named = [o for o in self.options if o.name not in self.positional and not (self.tables and o.name in CLAUSE_OPTIONS)]
        return [f"{o.name} => {o.default_text or o.kind.sql}" for o in named]

    def option(self, name: str) -> Option | None:
        """The option of that name, whatever its case."""
        return next((o for o in self.options if o.name == name.lower()), None)


CLAUSE_OPTIONS = ("keys", "order_by")

KEYS = Option("keys", Texts(), "the keys, where the PARTITION BY clause cannot be written", default_text="the PARTITION BY clause")
ORDER_BY = Option(
    "order_by",
    Texts(),
    "the processing order, where the ORDER BY clause cannot be written",
    default_text="the ORDER BY clause",
    example="ARRAY('ts')",
)
TIME = Option("time", Text(), "event time: TIMESTAMP, TIMESTAMP_NTZ or DATE", default_text="the first ORDER BY expression")
CLOCK_BY = Option(
    "clock_by",
    Texts(),
    "runs stream time separately per value of these, as in a topic with partitions",
    default_text="one clock for the whole input",
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
    default_text="the input's own, else INTERVAL 0 SECONDS",
)
COMMON = (KEYS, ORDER_BY, TIME, CLOCK_BY, WATERMARK, OUTPUT, NAME)
