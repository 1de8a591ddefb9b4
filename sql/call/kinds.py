"""The types of options: what SQL and Python give, and the value that a plan uses (rule C8)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from streamtime.sql.call.errors import did_you_mean

if TYPE_CHECKING:
    from streamtime.sql.call.values import Value


MICROSECOND = datetime.timedelta(microseconds=1)


class Refused(Exception):
    """What a kind says of a value it does not take: (what was expected, how to fix it)."""


@dataclass(frozen=True)
class Kind:
    """The type of an option: its SQL type for people, its type in Python, and `read`, from a constant to the value a plan uses."""

    sql: str
    python: ClassVar[Any] = object

    @property
    def allowed(self) -> str:
        """The values that it takes, as a page lists them."""
        raise NotImplementedError

    def read(self, value: Value) -> Any:
        """The value a plan uses. Raises Refused(expected, fix)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Duration(Kind):
    """A day-time interval, read as whole microseconds."""

    sql: str = "INTERVAL DAY TO SECOND"
    python = datetime.timedelta
    positive: bool = False

    @property
    def allowed(self) -> str:
        """The values, as a page lists them."""
        return f"{'above zero' if self.positive else 'zero or more'}; days, hours, minutes, seconds"

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

    @property
    def allowed(self) -> str:
        """The values, as a page lists them."""
        return "a whole number, zero or more"

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

    @property
    def allowed(self) -> str:
        """The values, as a page lists them."""
        return ", ".join(f"'{w}'" for w in self.words)

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

    @property
    def allowed(self) -> str:
        """The values, as a page lists them."""
        return "true, false"

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

    @property
    def allowed(self) -> str:
        """The values, as a page lists them."""
        return "SQL over columns, in quotes" if self.expression else "any text"

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

    @property
    def allowed(self) -> str:
        """The values, as a page lists them."""
        return "an array of SQL over columns, each in quotes"

    def read(self, value: Value) -> tuple[str, ...]:
        """The texts."""
        items = value.python
        if isinstance(items, str):
            raise Refused("an array of SQL expressions in quotes", f"Write it as ARRAY('{items}').")
        if not isinstance(items, (list, tuple)) or not items or not all(isinstance(i, str) and i.strip() for i in items):
            raise Refused("an array of SQL expressions in quotes", "Write it as ARRAY('k').")
        return tuple(items)
