"""A DataFrame that is not analysed yet: the operators that a plan function applies, kept until the analyzer takes them as they are.

Each operation on a DataFrame has Spark analyse the plan so far, which costs more than a small query. A plan that is a chain over its one
input needs none of that: its operators go back to the analyzer unresolved, which resolves them with the rest of the query. Whatever is
more than such a chain (a join, an aggregate, a question about columns that the chain made) turns it into a DataFrame first.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamtime.sql.rows.columns import lasts

Operator = Callable[[Any], Any]  # a logical plan around a logical plan


class PlanFrame:
    """The part of a DataFrame's interface that plan functions use; anything else is asked of the DataFrame that it becomes."""

    def __init__(
        self, session: SparkSession, plan: Any, become: Callable[[Operator], DataFrame], nodes: Nodes, chain: tuple[Operator, ...] = ()
    ) -> None:
        self._session, self._plan, self._become, self._nodes, self._chain = session, plan, become, nodes, chain
        self._frame: DataFrame | None = None
        self._schema: StructType | None = None

    def on(self, plan: Any) -> Any:
        """The operators, applied to a logical plan."""
        for operator in self._chain:
            plan = operator(plan)
        return plan

    @property
    def plan(self) -> Any:
        """The input's plan."""
        return self._plan

    @property
    def plan_text(self) -> str | None:
        """The plan, as Spark writes it; None where the operators are not analysed yet."""
        return None if self._chain else str(self._plan.toString())

    def frame(self) -> DataFrame:
        """The DataFrame that this stands for."""
        if self._frame is None:
            self._frame = self._become(self.on)
        return self._frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frame(), name)

    @property
    def sparkSession(self) -> SparkSession:
        """As of a DataFrame."""
        return self._session

    @property
    def isStreaming(self) -> bool:
        """As of a DataFrame."""
        return bool(self._plan.isStreaming())

    @property
    def schema(self) -> StructType:
        """As of a DataFrame."""
        if self._chain:
            return self.frame().schema
        if self._schema is None:
            self._schema = StructType.fromJson(json.loads(self.schema_json))
        return self._schema

    @functools.cached_property
    def schema_json(self) -> str:
        """The schema of the input, as Spark writes it."""
        return str(self._plan.schema().json())

    @property
    def columns(self) -> list[str]:
        """As of a DataFrame."""
        return self.schema.names

    def where(self, condition: Column) -> PlanFrame:
        """As of a DataFrame."""
        predicate = self._nodes.expression(condition)
        return self._and(lambda plan: self._nodes.filter(predicate, plan))

    def withColumn(self, name: str, column: Column) -> PlanFrame | DataFrame:
        """As of a DataFrame, for a name that is new."""
        if not name.startswith("__streamtime_") or self._frame is not None:
            return self.frame().withColumn(name, column)
        projected = self._nodes.with_all(column.alias(name))
        return self._and(lambda plan: self._nodes.project(projected, plan))

    def select(self, *columns: Any) -> PlanFrame | DataFrame:
        """As of a DataFrame."""
        if not all(isinstance(c, Column) for c in columns):
            return self.frame().select(*columns)
        projected = self._nodes.expressions(columns)
        return self._and(lambda plan: self._nodes.project(projected, plan))

    def repartition(self, *columns: Any) -> PlanFrame | DataFrame:
        """As of a DataFrame."""
        if isinstance(columns[0], int) and columns == (1,):
            return self._and(self._nodes.together)
        if not all(isinstance(c, Column) for c in columns):
            return self.frame().repartition(*columns)
        by = self._nodes.expressions(columns)
        return self._and(lambda plan: self._nodes.repartition(by, plan))

    def sortWithinPartitions(self, *orders: Column) -> PlanFrame:
        """As of a DataFrame; every column must say its direction."""
        by = self._nodes.expressions(orders)
        return self._and(lambda plan: self._nodes.sort(by, plan))

    def _and(self, operator: Operator) -> PlanFrame:
        return PlanFrame(self._session, self._plan, self._become, self._nodes, (*self._chain, operator))


class Nodes:
    """Makes logical operators. What it makes of a column that lasts is kept with it: plans use the same columns again and again."""

    def __init__(self, classes: dict[str, Any], convert: Any, sequence: Callable[[list[Any]], Any], none: Any) -> None:
        self._classes, self._convert, self._sequence, self._none = classes, convert, sequence, none
        self._made: dict[int, tuple[Column, Any]] = {}
        self._sequences: dict[tuple[int, ...], tuple[list[Column], Any]] = {}

    def expression(self, column: Column) -> Any:
        """A column as an unresolved expression."""
        known = self._made.get(id(column))
        if known is not None and known[0] is column:
            return known[1]
        made = self._convert(cast(Any, column)._jc.node())
        if lasts(column):
            if len(self._made) > 4096:
                self._made.clear()
            self._made[id(column)] = (column, made)
        return made

    def expressions(self, columns: Sequence[Column]) -> Any:
        """Columns as a sequence of unresolved expressions."""
        key = tuple(map(id, columns))
        known = self._sequences.get(key)
        if known is not None:
            return known[1]
        made = self._sequence([self.expression(c) for c in columns])
        if all(map(lasts, columns)):
            if len(self._sequences) > 1024:
                self._sequences.clear()
            self._sequences[key] = (list(columns), made)
        return made

    def with_all(self, column: Column) -> Any:
        """All columns and one more."""
        return self._sequence([self.star(), self._convert(cast(Any, column)._jc.node())])

    def star(self) -> Any:
        """All columns."""
        return self._classes["star"](self._none)

    def filter(self, predicate: Any, plan: Any) -> Any:
        """WHERE."""
        return self._classes["filter"](predicate, plan)

    def project(self, columns: Any, plan: Any) -> Any:
        """SELECT."""
        return self._classes["project"](columns, plan)

    def repartition(self, by: Any, plan: Any) -> Any:
        """DISTRIBUTE BY."""
        return self._classes["repartition"](by, plan, self._none, self._none)

    def together(self, plan: Any) -> Any:
        """All rows in one task."""
        return self._classes["together"](1, True, plan)

    def sort(self, by: Any, plan: Any) -> Any:
        """SORT BY."""
        return self._classes["sort"](by, False, plan, self._none)
