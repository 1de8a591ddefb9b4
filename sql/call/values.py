"""What a call is made of, as every door delivers it: constants, expressions over the input, ORDER BY items, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Callable

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
        direction = DIRECTION.search(text)
        if not direction:
            return Sort(Expression.parse(text))
        ascending = (direction[1] or "ASC").upper() == "ASC"
        nulls = (direction[2] or direction[3] or ("FIRST" if ascending else "LAST")).upper()
        return Sort(Expression.parse(text[: direction.start()]), ascending, nulls == "FIRST")


@dataclass(frozen=True)
class Table:
    """A TABLE argument: the rows, and the clauses that stood with it."""

    df: DataFrame
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[Sort, ...] = ()
    name: str | None = None  # as in `tasks => TABLE(..)`
    stands_for: DataFrame | None = None  # rows that `df` has the columns of, and nothing else

    @property
    def source(self) -> DataFrame:
        """The rows, to ask where they come from."""
        return self.df if self.stands_for is None else self.stands_for


Origin = tuple[int, int]  # of a column: the number of the table that it comes from, and its own there
