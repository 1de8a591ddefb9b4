"""Calls of the pack in a query that is maintained: what each reads, and by which of its columns it can be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from sqlglot import expressions as exp

from streamtime.maintained.names import of_condition
from streamtime.maintained.nodes import Block, FunctionCall, Leaf, Node, Unreadable, in_text, kinds_of, leaves_of
from streamtime.shelf import SPECS
from streamtime.sql.call.kinds import Choice
from streamtime.sql.call.names import parts
from streamtime.sql.call.spec import FOLLOWS_CLOCK, Spec
from streamtime.sql.call.values import Sort
from streamtime.sql.syntax.tokens import Span
from streamtime.sql.tables.declaration import declared
from streamtime.statements import constants
from streamtime.statements.calls import Call as Written
from streamtime.statements.calls import Statement, TableArgument, With
from streamtime.statements.query import query

Given = Mapping[str, Any]


class CallReader:
    """Reads calls; what stands in their TABLE arguments is read by who reads queries."""

    def __init__(self, spark: SparkSession, text: str) -> None:
        self.spark, self.text, self.statement = spark, text, Statement(text)
        self.withs: list[With] = list(self.statement.withs())

    def is_cte(self, table: exp.Table) -> bool:
        """Whether a name is that of a CTE which can be seen there: a CTE does not see itself, unless RECURSIVE, nor those behind it."""
        name, at = table.name.lower(), table.this.meta["start"]
        return not table.args.get("db") and any(d.name.lower() == name for w in self.withs for d in w.seen(at))

    def node(self, spans: Sequence[Span]) -> Node:
        """What these pieces of the text are."""
        raise NotImplementedError

    def argument(self, rows: TableArgument) -> Leaf:
        """A TABLE argument that is a name."""
        raise NotImplementedError

    def kinds(self, node: Node) -> Mapping[str, str]:
        """The types of a node's columns, by their names in lower case."""
        raise NotImplementedError

    def call(self, call: Written) -> FunctionCall:
        """A call."""
        spec = SPECS[call.function.lower()]
        if not call.tables:
            raise Unreadable(f"{call.function} reads a table that it names in quotes")
        given = self.given(call, spec)
        if given.get("history"):
            raise Unreadable(f"{call.function} asks a table's history: write the join as ASOF JOIN .. MATCH_CONDITION (..)")
        inputs = tuple(self.argument(r) if r.is_name else self.node(r.query) for r in call.tables)
        self.refuse_declared(call.function, given, inputs)
        keys = tuple(self.keys(r, given, node) for r, node in zip(call.tables, inputs, strict=True))
        spans = tuple(self.statement.with_definitions(call.span, [call.span], self.withs))
        schema = query(self.spark, in_text(self.text, spans, {}, call.span)).schema
        why = self.why(call, spec, given)
        by = self.by(keys, inputs) & {c.lower() for c in schema.names}
        if why:
            clocks = {parts(c)[0].lower() for c in given.get("clock_by") or () if len(parts(c)) == 1}
            by = by & clocks if why == FOLLOWS_CLOCK else set()
        kinds = kinds_of(schema)
        sides = self.sides(call, inputs) if spec.qualified else {}
        return FunctionCall(call.function, spans, call.span, inputs, keys, tuple(schema.names), kinds, why, frozenset(by), sides)

    def given(self, call: Written, spec: Spec) -> dict[str, Any]:
        """The options, words in lower case."""
        options: dict[str, Any] = {}
        for name, value in constants.values(self.statement, call, lambda text, _: self.spark.sql(text)):
            option = spec.option(name or "")
            is_word = option is not None and isinstance(option.kind, Choice) and isinstance(value.python, str)
            options[(name or "").lower()] = value.python.lower() if is_word else value.python
        return options

    def why(self, call: Written, spec: Spec, given: Given) -> str:
        """Why a key's rows depend on more than the rows of that key; '' where they do not."""
        ordered = self.in_time_order(call, given)
        output = given.get("output") or "rows"
        if output == "metrics":
            return "metrics count the rows of all keys"
        why = spec.across_keys(given, ordered)
        return FOLLOWS_CLOCK if not why and output in ("dropped", "all", "explain") and not ordered else why

    def in_time_order(self, call: Written, given: Given) -> bool:
        """Whether the processing order is that of event time, so that nothing is late."""
        ordered = [r.order[0].ascending for r in call.tables if r.order]
        named = given.get("order_by") or ()
        return not given.get("time") and all(ordered) and all(Sort.parse(o).ascending for o in named[:1])

    def refuse_declared(self, function: str, given: Given, inputs: Sequence[Node]) -> None:
        """A table says itself which of its rows are deletions, and a part of it does not."""
        for leaf in {leaf.table: leaf for node in inputs for leaf in leaves_of(node)}.values():
            declaration = declared(self.spark, leaf.table)
            if declaration is not None and declaration.versioned and not given.get("deleted"):
                raise Unreadable(f"{leaf.table} declares which of its rows are deletions: say it to {function} with `deleted`")

    def by(self, keys: Sequence[Sequence[str | None]], inputs: Sequence[Node]) -> set[str]:
        """The keys that are columns which a part of each input can be told by."""
        units = {k.lower() for k in keys[0] if k is not None and k.lower() in inputs[0].units}
        if len(keys) == 1:
            return units
        if len(keys[0]) != len(keys[1]):
            return set()
        paired = {a.lower(): b.lower() for a, b in zip(keys[0], keys[1], strict=True) if a is not None and b is not None}
        one, other = self.kinds(inputs[0]), self.kinds(inputs[1])
        return {k for k in units if k in paired and paired[k] in inputs[1].units and one[k] == other[paired[k]]}

    def keys(self, rows: TableArgument, given: Given, node: Node) -> tuple[str | None, ...]:
        """The key columns of a TABLE argument; None for each that is an expression."""
        texts = [self.text[slice(*i.span)] for i in rows.keys] or list(given.get("keys") or ())
        if not texts and given.get("on"):
            return tuple(of_condition(str(given["on"]), node, self.aliases(rows)))
        texts = texts or list(given.get("using") or ())
        known, tables = {c.lower() for c in node.columns}, self.aliases(rows)
        names = [parts(t) for t in texts]
        return tuple(p[-1] if (len(p) == 1 or (len(p) == 2 and p[0].lower() in tables)) and p[-1].lower() in known else None for p in names)

    def aliases(self, rows: TableArgument) -> set[str]:
        """What the tables of a TABLE argument are called in it."""
        if rows.is_name:
            return {parts(self.text[slice(*rows.inside)])[-1].lower()}
        node = self.node(rows.query)
        return set(node.sources) if isinstance(node, Block) else set()

    def sides(self, call: Written, inputs: Sequence[Node]) -> dict[str, tuple[str, ...]]:
        """The tables of a join's sides, and their columns."""
        columns: dict[str, tuple[str, ...]] = {}
        for rows, node in zip(call.tables, inputs, strict=True):
            if isinstance(node, Block):
                columns |= {alias: below.columns for alias, below in node.sources.items()}
                for below in node.sources.values():
                    columns |= below.sides if isinstance(below, FunctionCall) else {}
            else:
                columns |= dict.fromkeys(self.aliases(rows), node.columns)
        return columns
