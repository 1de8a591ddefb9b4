"""What a query reads, and how: its tables, where each stands in the text, and which columns of which source its rows are made of.

Calls are found as `streamtime.query` finds them, and stand as names for sqlglot, which reads the structure of the rest. Nothing is ever
printed from it: what runs is the user's text, with other tables in the places of its tables. A query whose structure is not understood
has `why`; it can still be run as a whole, since its tables are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlglot
from pyspark.sql import SparkSession
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from streamtime.maintained.calls import CallReader
from streamtime.maintained.names import Sources, begins, groups, lower, own, spread, total, written
from streamtime.maintained.nodes import (
    Block,
    Equality,
    FunctionCall,
    Leaf,
    Name,
    Node,
    Query,
    ResultColumn,
    Union,
    Unreadable,
    comparable,
    in_text,
    kinds_of,
    leaves_of,
)  # fmt: skip
from streamtime.maintained.refusing import refuse_long_names, refuse_other_rows, refuse_places, refuse_unsteady, refuse_what_runs
from streamtime.shelf import SPECS
from streamtime.sql.call.errors import CallError
from streamtime.sql.call.names import parts
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Span
from streamtime.statements.calls import Call as Written
from streamtime.statements.calls import Malformed, TableArgument
from streamtime.statements.query import query

WINDOW, UNKNOWN = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE), "w1nd0w"  # as long, and no word that sqlglot knows


def read(spark: SparkSession, text: str, table_of: Callable[[str], tuple[str, Any]]) -> Query:
    """The query as it is read. `table_of` gives a table's full name and its schema, or raises.

    Raises what Spark says of a query that is wrong, and CallError.
    """
    refuse_what_runs(spark, text)
    reader = _Reader(spark, text, table_of)
    schema = query(spark, text).schema
    read_query = Query(text, columns=tuple(schema.names), kinds=tuple(f.dataType for f in schema.fields))
    try:
        refuse_unsteady(spark, reader.statement)
        root = reader.node([(0, len(text))])
        reader.all_leaves()
        if unread := set(reader.leaves) - {leaf.span for leaf in leaves_of(root)}:
            raise Unreadable(f"it is not clear how it reads {reader.leaves[min(unread)].table}")
        if len(root.columns) != len(read_query.columns):
            raise Unreadable("its columns could not be counted")
        read_query.root = root
    except Unreadable as error:
        read_query.why = str(error)
    try:
        read_query.leaves = reader.all_leaves()
    except Unreadable as error:
        raise CallError("maintain", None, f"the tables of the query could not be found: {error}") from None
    return read_query


class _Reader(CallReader):
    def __init__(self, spark: SparkSession, text: str, table_of: Callable[[str], tuple[str, Any]]) -> None:
        super().__init__(spark, text)
        self.table_of = table_of
        try:
            self.calls = self.statement.calls(SPECS)
        except Malformed:  # Spark says what is wrong with it
            self.calls = []
        self.leaves: dict[Span, Leaf] = {}
        self.nodes: dict[tuple[Span, ...], Node] = {}
        self.types: dict[tuple[Span, ...], dict[str, str]] = {}

    def kinds(self, node: Node) -> Mapping[str, str]:
        """The types of a node's columns, by their names in lower case."""
        if isinstance(node, Leaf | FunctionCall):
            return node.kinds
        if node.spans not in self.types:
            schema = query(self.spark, in_text(self.text, node.spans, {})).schema
            self.types[node.spans] = kinds_of(schema)
        return self.types[node.spans]

    # -- text

    def piece(self, spans: Sequence[Span]) -> str:
        """These pieces of the text, each in its place, the rest blank; calls as names of the same length."""
        characters = [" "] * len(self.text)
        for start, end in spans:
            characters[start:end] = self.text[start:end]
        inside = [c for c in self.calls if any(a <= c.span[0] and c.span[1] <= b for a, b in spans)]
        for call in inside:
            if not any(o is not call and o.span[0] <= call.span[0] and call.span[1] <= o.span[1] for o in inside):
                start, end = call.span
                characters[start:end] = _placeholder(call).ljust(end - start)
        return "".join(characters)

    def parsed(self, spans: Sequence[Span]) -> exp.Expr:
        """Their structure."""
        text = self.piece(spans)
        if any(t.text == "|>" for t in self.statement.tokens):  # sqlglot makes one SELECT of several
            raise Unreadable("|> is not understood: write it as SELECT")
        for start, end in spans:
            if self.text[start:end].upper() == "TABLE":  # of a CTE, which sqlglot does not know as a query; nothing behind it has a place
                text = text[:start] + "SELECT * FROM " + text[end:]
        try:
            return sqlglot.parse_one(text, dialect="spark")
        except SqlglotError as error:
            try:  # it does not know `window(` behind GROUP BY
                return sqlglot.parse_one(WINDOW.sub(UNKNOWN, text), dialect="spark")
            except SqlglotError:
                raise Unreadable("its text could not be read by sqlglot") from error

    def all_leaves(self) -> list[Leaf]:
        """Every table of the text, also where the structure is not understood."""
        arguments = [rows for call in self.calls for rows in call.tables]
        for spans in [[(0, len(self.text))], *([r.inside] for r in arguments if not r.is_name)]:
            tree = self.parsed(spans)
            for table in tree.find_all(exp.Table):
                if isinstance(table.this, exp.Identifier) and not self.is_cte(table) and _call_of(table, self.calls) is None:
                    self.leaf(table)
                    refuse_other_rows(table)
            refuse_long_names(tree)
        for rows in arguments:
            if rows.is_name:
                self.argument(rows)
        return [self.leaves[span] for span in sorted(self.leaves)]

    # -- nodes

    def node(self, spans: Sequence[Span]) -> Node:
        """What these pieces of the text are."""
        key = tuple(spans)
        if key not in self.nodes:
            self.nodes[key] = self.with_units(self.tree(self.parsed(spans), key, {}))
        return self.nodes[key]

    def tree(self, tree: exp.Expr, spans: tuple[Span, ...], ctes: dict[str, exp.CTE]) -> Node:
        while isinstance(tree, exp.Subquery) and not tree.alias and not tree.args.get("joins"):
            refuse_places(tree)
            ctes = ctes | _defined(tree)
            tree = tree.this
        refuse_places(tree)
        ctes = ctes | _defined(tree)
        if isinstance(tree, exp.Union):
            return self.union(tree, spans, ctes)
        if not isinstance(tree, exp.Select):
            raise Unreadable(f"{tree.key.upper()} is not understood")
        return self.block(tree, spans, ctes)

    def with_units(self, node: Node) -> Node:
        """The same, with the units alone that can be told apart, and that Spark knows by these names: of expressions it has its own."""
        first = node.parts[0] if isinstance(node, Union) else node
        if isinstance(first, Union):
            first = self.with_units(first)
        elif isinstance(first, Block) and any(item.plain is None and item.name.lower() in first.units for item in first.items):
            kinds = self.kinds(node)
            first = replace(first, units=frozenset(u for u in first.units if comparable(kinds.get(u, ""))))
        return replace(node, parts=(first, *node.parts[1:])) if isinstance(node, Union) else first

    def union(self, tree: exp.Union, spans: tuple[Span, ...], ctes: dict[str, exp.CTE]) -> Union:
        if tree.args.get("distinct"):
            raise Unreadable("UNION without ALL compares rows of both sides")
        nodes = [self.tree(side, spans, ctes) for side in (tree.left, tree.right)]
        if len(nodes[0].columns) != len(nodes[1].columns):
            raise Unreadable("the sides of UNION ALL have different columns")
        return Union(spans, tuple(nodes), nodes[0].columns)

    def block(self, tree: exp.Select, spans: tuple[Span, ...], ctes: dict[str, exp.CTE]) -> Block:
        for part in ("laterals", "pivots", "qualify", "connect", "match", "sample", "cluster", "distribute"):
            if tree.args.get(part):
                raise Unreadable(f"{part.upper()} is not understood")
        sources, optional, edges, using = self.sources(tree, spans, ctes)
        for subquery in own(tree, exp.Query):
            if not isinstance(subquery.parent, exp.From | exp.Join | exp.CTE):
                raise Unreadable("a subquery outside of FROM reads another table: write it as a join")
        names = Sources(sources, using)
        items = list(self.items(tree, names))
        grouped, whole = groups(tree, items, names)
        units = {i.name.lower() for n, i in enumerate(items) if i.fixed and i.of and not any(a in optional for a, _ in i.of) and (
            grouped is None or n in grouped)}  # fmt: skip
        for window in own(tree, exp.Window):
            by = {names.of(c) for c in window.args.get("partition_by") or () if isinstance(c, exp.Column)}
            units = {i.name.lower() for i in items if i.name.lower() in units and i.plain in by}
        columns = tuple(i.name for i in items)
        twice = {c.lower() for c in columns if [d.lower() for d in columns].count(c.lower()) > 1}
        left_out = any(tree.args.get(a) is not None for a in ("having", "order", "sort", "distinct")) or any(own(tree, exp.Window))
        return Block(
            spans,
            sources,
            frozenset(optional),
            tuple(edges),
            tuple(items),
            columns,
            grouped,
            whole,
            frozenset(units - twice),
            left_out,
            spread(tree),
            {a: at for a, s in sources.items() if isinstance(s, Leaf) and (at := begins(s.span[0], self.statement)) is not None},
        )

    def sources(
        self, tree: exp.Select, spans: tuple[Span, ...], ctes: dict[str, exp.CTE]
    ) -> tuple[dict[str, Node], set[str], list[Equality], list[str]]:
        start = tree.args.get("from_")
        if start is None:
            raise Unreadable("a SELECT without FROM has no table to follow")
        sources: dict[str, Node] = {}
        optional: set[str] = set()
        edges: list[Equality] = []
        using: list[str] = []
        has_star = any(isinstance(e, exp.Star) or (isinstance(e, exp.Column) and isinstance(e.this, exp.Star)) for e in tree.expressions)
        turned, crossed = False, list[str]()
        self.source(start.this, sources, spans, ctes)
        joins = [*(start.this.args.get("joins") or ()), *(tree.args.get("joins") or ())]
        for join in joins:
            before = list(sources)
            self.source(join.this, sources, spans, ctes)
            (added,) = [a for a in sources if a not in before]
            side, kind = (join.side or "").upper(), (join.kind or "").upper()
            if side == "FULL" or kind in ("SEMI", "ANTI") or join.method or side in ("SEMI", "ANTI"):
                raise Unreadable(f"{' '.join(filter(None, (join.method, side, kind)))} JOIN is not understood")
            if join.args.get("using") and (side == "RIGHT" or turned or (using and has_star)):
                raise Unreadable("USING beside a RIGHT JOIN, or two of them beside *, is not understood: write ON")
            turned = turned or side == "RIGHT"
            if side == "LEFT":
                optional.add(added)
            if side == "RIGHT":
                optional.update(before)
            pairs = list(self.equalities(join, sources, before, added, using))
            if not pairs and kind != "CROSS":
                raise Unreadable(f"the join with `{added}` has no equality of columns in ON")
            crossed += [added] if kind == "CROSS" else []
            turned_pairs = pairs if side != "RIGHT" else [pair[::-1] for pair in pairs]
            edges += [self.edge(one, other, side in ("LEFT", "RIGHT"), sources) for one, other in turned_pairs]
        edges += self.filtered(tree, sources, using)
        for alias in crossed:
            if not any(alias in (edge.one[0], edge.other[0]) for edge in edges):
                raise Unreadable(f"no equality of columns, in ON or WHERE, joins `{alias}` with what stands before it")
        return sources, optional, edges, using

    def filtered(self, tree: exp.Select, sources: dict[str, Node], using: list[str]) -> Iterator[Equality]:
        """The equalities of WHERE. They hold in all rows of the result, so of outer joins too they say which rows meet."""
        names, where = Sources(sources, using), tree.args.get("where")
        for one, other in names.equal(where.this) if where is not None else ():
            if one[0] != other[0]:
                yield self.edge(one, other, False, sources)

    def kind(self, names: Sources, name: Name) -> str:
        return self.kinds(names.sources[name[0]]).get(name[1], "")

    def edge(self, one: Name, other: Name, outer: bool, sources: dict[str, Node]) -> Equality:
        same = self.kinds(sources[one[0]]).get(one[1]) == self.kinds(sources[other[0]]).get(other[1])
        return Equality(one, other, outer, same)

    def equalities(
        self, join: exp.Join, sources: dict[str, Node], before: list[str], added: str, using: list[str]
    ) -> Iterator[tuple[Name, Name]]:
        """The equalities of a join, the columns of what stands before it first."""
        for identifier in join.args.get("using") or ():
            name = identifier.name.lower()
            owner = next((a for a in before if name in lower(sources[a].columns)), None)
            if owner is None:
                raise Unreadable(f"USING ({name}) names a column that no source has")
            using.append(name)
            yield (owner, name), (added, name)
        for one, other in Sources(sources, using).equal(join.args.get("on")):
            if (one[0] == added) != (other[0] == added):
                yield (other, one) if one[0] == added else (one, other)

    def source(self, relation: exp.Expr, sources: dict[str, Node], spans: tuple[Span, ...], ctes: dict[str, exp.CTE]) -> None:
        alias = relation.alias_or_name.lower()
        if relation.args.get("alias") is not None and relation.args["alias"].columns:
            raise Unreadable("an alias with names of columns is not understood")
        if relation.args.get("pivots") or relation.args.get("sample") or relation.args.get("version") or relation.args.get("when"):
            raise Unreadable("PIVOT, TABLESAMPLE and time travel are not understood")
        if relation.args.get("joins") and sources:
            raise Unreadable("a join within a join is not understood")
        node: Node
        if isinstance(relation, exp.Table) and (call := _call_of(relation, self.calls)) is not None:
            node = self.call(call)
        elif isinstance(relation, exp.Table) and not relation.args.get("db") and relation.name.lower() in ctes:
            definition = ctes[relation.name.lower()]
            known = {n: c for n, c in ctes.items() if _place(c) < _place(definition)}  # those that stand before it
            node = self.with_units(self.tree(definition.this, self.inside(definition.args["alias"].this, after=True), known))
        elif isinstance(relation, exp.Table) and isinstance(relation.this, exp.Identifier):
            node = self.leaf(relation)
        elif isinstance(relation, exp.Subquery) and not relation.args.get("joins"):
            if not alias:
                raise Unreadable("a query in FROM has no alias")
            node = self.with_units(self.tree(relation.this, self.inside(relation.args["alias"].this, after=False), ctes))
        else:
            raise Unreadable(f"a source of FROM is not understood ({relation.key})")
        if not alias or alias in sources:
            raise Unreadable(f"a source of FROM has no name of its own (`{alias}`)")
        sources[alias] = node

    def inside(self, alias: exp.Identifier, after: bool) -> tuple[Span, ...]:
        """The query in the parentheses behind the name of a CTE, or before an alias, with the definitions that it reads."""
        source = self.statement
        at = next(i for i, t in enumerate(source.tokens) if t.start == alias.meta["start"])
        if after:
            opening = next(i for i in range(at + 1, len(source.tokens)) if source.word(i) == "(")
        else:
            closing = at - 2 if source.word(at - 1) == "AS" else at - 1
            opening = next(i for i, end in source.closing.items() if end == closing)
        span = source.span(opening + 1, source.closing[opening])
        return tuple(source.with_definitions(span, [span], self.withs))

    def items(self, tree: exp.Select, names: Sources) -> Iterator[ResultColumn]:
        for expression in tree.expressions:
            if isinstance(expression, exp.Star) or (isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)):
                star = expression if isinstance(expression, exp.Star) else expression.this
                if any(star.args.get(a) for a in ("except_", "except", "replace", "rename")):
                    raise Unreadable("* EXCEPT is not understood")
                for alias, column in names.star(expression.table.lower() if isinstance(expression, exp.Column) else None):
                    shown = names.shown(alias, column)
                    fixed = comparable(self.kind(names, (alias, column)))
                    yield ResultColumn(shown, frozenset({(alias, column)}), (alias, column), quoted(shown), fixed)
                continue
            bare = expression.this if isinstance(expression, exp.Alias) else expression
            columns = [names.of(c) for c in bare.find_all(exp.Column)]
            if None in columns:
                raise Unreadable(f"a column of `{expression.sql('spark')}` was not found")
            plain = names.of(bare) if isinstance(bare, exp.Column) else None
            # what sqlglot does not know may be an aggregate, or make several rows; any(x) is one to Spark, and no AggFunc
            fixed = not any(bare.find_all(exp.AggFunc, exp.Any, exp.Window, exp.Query, exp.UDTF, exp.Anonymous))
            if plain is not None:
                fixed = comparable(self.kind(names, plain))
            elif fixed:  # Spark compares a CHAR with blanks at its end where it is a column, and not where it is a field
                fixed = all(names.is_said(c) for c in bare.find_all(exp.Column))
                fixed = fixed and not any(self.kind(names, c).startswith("char(") for c in columns if c is not None)
            text = self.statement.slice(*written(bare, self.statement)) if fixed and plain is None and columns else ""
            yield ResultColumn(expression.alias_or_name, frozenset(filter(None, columns)), plain, text, fixed, total(bare, self.statement))

    # -- tables and calls

    def leaf(self, table: exp.Table, argument: bool = False) -> Leaf:
        identifiers = [i for i in (table.args.get("catalog"), table.args.get("db"), table.this) if i is not None]
        span = (identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1)
        if span not in self.leaves:
            self.leaves[span] = self.table(self.text[slice(*span)], span, table.alias_or_name, bool(table.alias), argument)
        return self.leaves[span]

    def argument(self, rows: TableArgument) -> Leaf:
        """A TABLE argument that is a name."""
        if rows.inside not in self.leaves:
            text = self.text[slice(*rows.inside)]
            self.leaves[rows.inside] = self.table(text, rows.inside, parts(text)[-1], False, True)
        return self.leaves[rows.inside]

    def table(self, text: str, span: Span, alias: str, is_named: bool, argument: bool) -> Leaf:
        table, schema = self.table_of(text)
        kinds = kinds_of(schema)
        return Leaf(table, span, alias, is_named, argument, tuple(schema.names), kinds)


def _place(definition: exp.CTE) -> int:
    place: int = definition.args["alias"].this.meta["start"]
    return place


def _placeholder(call: Written) -> str:
    return f"__c{call.span[0]}"


def _call_of(table: exp.Table, calls: Sequence[Written]) -> Written | None:
    return next((c for c in calls if table.name == _placeholder(c)), None)


def _defined(tree: exp.Expr) -> dict[str, exp.CTE]:
    clause = tree.args.get("with_")
    if clause is None:
        return {}
    if clause.args.get("recursive"):
        raise Unreadable("WITH RECURSIVE is not understood")
    if any(c.args["alias"].columns for c in clause.expressions):
        raise Unreadable("a CTE with names of columns is not understood")
    return {c.alias.lower(): c for c in clause.expressions}
