"""Which parts of a result changes touched, and the result of these parts alone.

A result is cut into units by the values of some of its columns: a group of GROUP BY, a key of a call, a key of a join. The rows of a unit
depend on those rows of the tables alone that lead to its values. So two questions are answered here, both going down the query:

- `touched`: the units that rows lead to which came or went. Rows that went are followed through the other tables as they were, rows that
  came through the tables as they are. It may name too many units, never too few: conditions are left out on the way.
- `rows`: the rows of some units, by the user's own text over the tables cut to the rows that may lead there. It may read too many rows of a
  table, never too few: what does not belong to a unit is removed at the end.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamtime.maintained.nodes import (
    Block,
    FunctionCall,
    Leaf,
    Node,
    Query,
    Union,
    Unreadable,
    in_text,
    joined_by,
    leaves_of,
    own_column,
    reached,
    way_to,
)
from streamtime.maintained.snapshots import ChangedTable
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Span
from streamtime.statements.query import query

SMALL = 2_000_000  # units that fit into every task
LARGE = 64 << 20  # bytes of a table that is worth a look-up of the keys that are needed of it


@dataclass(frozen=True)
class Cut:
    """Units: the columns of a node by which it is cut, in lower case, and their values, in columns `u0`, `u1`, .."""

    columns: tuple[str, ...]
    values: DataFrame
    count: int  # how many there are, or more

    @property
    def small(self) -> bool:
        """Whether they fit into every task."""
        return self.count < SMALL

    def of(self, picked: Mapping[str, str]) -> Cut:
        """The same by some of the columns alone, which have other names there."""
        places = [i for i, c in enumerate(self.columns) if c in picked]
        values = self.values.select(*[F.col(f"u{i}").alias(f"u{n}") for n, i in enumerate(places)])
        values = values.distinct() if len(places) < len(self.columns) else values
        return Cut(tuple(picked[self.columns[i]] for i in places), values, self.count)

    def keep(self, df: DataFrame, columns: Sequence[Column] | None = None) -> DataFrame:
        """The rows of a frame that belong to the units; null is a value like any other."""
        units = F.broadcast(self.values) if self.small else self.values
        spelled = {c.lower(): c for c in df.columns}
        given = columns if columns is not None else [df[quoted(spelled[c])] for c in self.columns]
        same = F.lit(True)
        for i, column in enumerate(given):
            same &= column.eqNullSafe(units[f"u{i}"])
        return df.join(units, same, "left_semi")


@dataclass
class Evaluation:
    """A query over its tables, between two commits of each. Temporary views are made in `session`, and dropped by `close`."""

    session: Any
    query: Query
    tables: dict[str, ChangedTable]
    views: list[str] = field(default_factory=list)
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Free what is cached, then drop the views: while something is cached that reads a view, Spark plans it anew as the view goes."""
        self.forget()
        for name in self.views:
            self.session.catalog.dropTempView(name)

    def forget(self) -> None:
        """Free what is cached: what is computed from here on is computed of the tables.

        What was cached last goes first: it may read what was cached before, and Spark plans anew what is cached of what goes.
        """
        while self.cached:
            self.cached.pop().unpersist()
        for table in self.tables.values():
            table.forget()

    # -- the rows of units

    def whole(self) -> DataFrame:
        """The result, of the tables as they are."""
        return self.run(None, {leaf.span: self.at(leaf, False) for leaf in self.query.leaves})

    def rows(self, node: Node, cut: Cut | None, old: bool = False) -> DataFrame:
        """The rows of a node: all, or those of some units; of the tables as they were, or as they are."""
        if isinstance(node, Leaf):
            df = self.at(node, old)
            return df if cut is None else cut.keep(df)
        cuts: dict[Span, Cut | DataFrame | None] = {}
        self._push(node, cut, cuts, old)
        leaves = {}
        for leaf in leaves_of(node):
            of_leaf = cuts.get(leaf.span)
            leaves[leaf.span] = of_leaf if isinstance(of_leaf, DataFrame) else self.rows(leaf, of_leaf, old)
        df = self.run(node, leaves)
        return df if cut is None else cut.keep(df)

    def _push(self, node: Node, cut: Cut | None, cuts: dict[Span, Cut | DataFrame | None], old: bool) -> None:
        """What the tables below a node are cut by. A table that is read twice is not cut, unless both ask for the same."""
        if isinstance(node, Leaf):
            cuts[node.span] = cut if node.span not in cuts or cuts[node.span] is cut else None
        elif isinstance(node, Union):
            for part in node.parts:
                names = dict(zip((c.lower() for c in node.columns), (c.lower() for c in part.columns), strict=True))
                self._push(part, None if cut is None else cut.of({c: names[c] for c in cut.columns}), cuts, old)
        elif isinstance(node, FunctionCall):
            for place, below in enumerate(node.inputs):
                names = _through(node, place) if cut is not None else {}
                picked = {c: names[c] for c in (cut.columns if cut else ()) if c in names}
                self._push(below, cut.of(picked) if cut is not None and picked else None, cuts, old)
        else:
            self._push_block(node, cut, cuts, old)

    def _push_block(self, node: Block, cut: Cut | None, cuts: dict[Span, Cut | DataFrame | None], old: bool) -> None:
        if cut is None:
            for below in node.sources.values():
                self._push(below, None, cuts, old)
            return
        given: dict[str, Cut] = {}
        computed = set[str]()
        for alias, below in node.sources.items():
            picked = {}
            for name in cut.columns:
                item = _item(node, name)
                same = reached(node, item.plain) if item.plain is not None else set()
                column = next((c for a, c in sorted(same) if a == alias and c in below.units), None)
                if column is not None:
                    picked[name] = column
            if picked:
                given[alias] = cut.of(picked)
                self._push(below, given[alias], cuts, old)
            elif isinstance(below, Leaf) and (texts := _computed(node, cut, alias)):
                cuts[below.span] = self._by_text(below, cut, texts, old) if below.span not in cuts else None
                computed.add(alias)
        for alias, below in node.sources.items():
            if alias not in given and alias not in computed:
                self._push(below, self._looked_up(node, alias, given, old), cuts, old)

    def _by_text(self, leaf: Leaf, cut: Cut, texts: dict[str, str], old: bool) -> DataFrame:
        """A table cut by expressions over its columns."""
        part = cut.of({name: name for name in texts})
        df = self.at(leaf, old).alias(leaf.alias)
        return part.keep(df, [F.expr(texts[name]) for name in part.columns])

    def _looked_up(self, node: Block, alias: str, given: dict[str, Cut], old: bool) -> Cut | None:
        """The keys that a source is joined by, as the rows of a table beside it have them, which is cut already."""
        below = node.sources[alias]
        if sum(self.tables[leaf.table].size for leaf in leaves_of(below)) < LARGE and isinstance(below, Leaf):
            return None
        for beside, cut in given.items():
            other = node.sources[beside]
            pairs = joined_by(node, beside, alias, forward=True)
            if isinstance(other, Leaf) and pairs and all(b in below.units for _, b in pairs):
                names = {c.lower(): c for c in other.columns}
                keys = cut.keep(self.at(other, old)).select(*[F.col(quoted(names[a])).alias(f"u{i}") for i, (a, _) in enumerate(pairs)])
                return self.counted(tuple(b for _, b in pairs), keys)
        return None

    def counted(self, columns: tuple[str, ...], values: DataFrame) -> Cut:
        """Units, each once, computed."""
        distinct = values.distinct().persist()
        self.cached.append(distinct)
        return Cut(columns, distinct, distinct.count())

    # -- the units that changes touched

    def touched(self, node: Node, columns: Sequence[str]) -> list[DataFrame]:
        """The units of a node by these columns that changes led to, in pieces. Raises Unreadable where nobody can say."""
        if isinstance(node, Leaf):
            sides = [self.tables[node.table].changes(self.session, came) for came in (False, True)]
            return [_named(df, [_spelled(node.columns, c) for c in columns]) for df in sides if df is not None]
        if isinstance(node, Union):
            at = {c.lower(): i for i, c in enumerate(node.columns)}
            return [df for p in node.parts for df in self.touched(p, [p.columns[at[c]].lower() for c in columns])]
        if isinstance(node, FunctionCall):
            if not set(columns) <= node.units:
                raise Unreadable(f"{node.function} cannot be cut by {', '.join(columns)}: {node.why or 'it is cut by its own keys'}")
            ways = [_through(node, place) for place in range(len(node.inputs))]
            return [df for below, way in zip(node.inputs, ways, strict=True) for df in self.touched(below, [way[c] for c in columns])]
        return [df for alias in node.sources if self._changed(node.sources[alias]) for df in self._through_source(node, alias, columns)]

    def _changed(self, node: Node) -> bool:
        return any(self.tables[leaf.table].feed(self.session) is not None for leaf in leaves_of(node))

    def _through_source(self, node: Block, alias: str, columns: Sequence[str]) -> list[DataFrame]:
        """The units of a block that changes of one of its sources led to."""
        items = [_item(node, c) for c in columns]
        below = node.sources[alias]
        direct = [own_column(node, item.plain, alias) if item.plain is not None else None for item in items]
        if all(c is not None and c in below.units for c in direct):
            return self.touched(below, [str(c) for c in direct])
        pieces = []
        for old in (True, False):
            for df in self._came_or_went(below, old):
                frames, needed = {alias: df}, {a for item in items for a, _ in item.of}
                pieces.append(self._joined(node, frames, needed, items, old))
        return pieces

    def _came_or_went(self, node: Node, old: bool) -> list[DataFrame]:
        """Rows of a source that went (`old`) or came. Of one that is no table, all rows of the units that changes touched."""
        if isinstance(node, Leaf):
            changes = self.tables[node.table].changes(self.session, not old)
            return [] if changes is None else [changes]
        columns = tuple(sorted(node.units))
        if not columns:
            raise Unreadable(
                node.why if isinstance(node, FunctionCall) and node.why else "a query in FROM cannot be cut by any of its columns"
            )
        pieces = self.touched(node, columns)
        if not pieces:
            return []
        return [self.rows(node, self.counted(columns, together(pieces)), old)]

    def _joined(self, node: Block, frames: dict[str, DataFrame], needed: set[str], items: Sequence[Any], old: bool) -> DataFrame:
        """The units that some rows of a source lead to, by way of the equalities of the joins alone."""
        (start,) = frames
        marked = {start: _marked(frames[start], start)}
        df = marked[start]
        while missing := needed - set(marked):
            way = way_to(node, set(marked), missing)
            if way is None:
                raise Unreadable(f"no equality of columns leads from `{start}` to {', '.join(sorted(missing))}")
            for here, there in way:
                other = _marked(self.rows(node.sources[there], None, old), there)
                same = F.lit(True)
                for a, b in joined_by(node, here, there):
                    same &= F.col(quoted(f"{here}.{a}")) == F.col(quoted(f"{there}.{b}"))
                # not null-safe, as the user's own join is not
                df, marked[there] = df.join(other, same), other
        if all(item.plain is not None for item in items):
            return df.select(*[F.col(quoted(".".join(item.plain))).alias(f"u{i}") for i, item in enumerate(items)])
        return self._computed_units(node, df, set(marked), items)

    def _computed_units(self, node: Block, df: DataFrame, aliases: Collection[str], items: Sequence[Any]) -> DataFrame:
        """Expressions over several sources, each a struct under its alias, so that names mean what they mean in the text; and so do
        names alone of columns that one source has."""
        own = {alias: [c for c in df.columns if c.startswith(f"{alias}.")] for alias in aliases}
        plain = [(n, n[len(alias) + 1 :]) for alias, names in own.items() for n in names]
        once = Counter(p for _, p in plain)
        alone = [F.col(quoted(n)).alias(p) for n, p in plain if once[p] == 1 and p not in aliases]
        structs = [F.struct(*[F.col(quoted(n)).alias(n[len(alias) + 1 :]) for n in names]).alias(alias) for alias, names in own.items()]
        texts = [item.text if item.plain is None else ".".join(map(quoted, item.plain)) for item in items]
        return df.select(*structs, *alone).select(*[F.expr(t).alias(f"u{i}") for i, t in enumerate(texts)])

    # -- text

    def at(self, leaf: Leaf, old: bool) -> DataFrame:
        """A table as it was, or as it is."""
        table = self.tables[leaf.table]
        return table.old(self.session) if old else table.rows(self.session, table.now)

    def run(self, node: Node | None, leaves: Mapping[Span, DataFrame], texts: Mapping[Span, str] | None = None) -> DataFrame:
        """A node's part of the text, or all of it, as a query, with these rows in the places of its tables, and other text in some."""
        known = {leaf.span: leaf for leaf in self.query.leaves}
        places = {span: _in_place(known[span], self._view(df)) for span, df in leaves.items()} | dict(texts or {})
        whole = [(0, len(self.query.text))]
        written = node.written if isinstance(node, FunctionCall) else None
        spans = whole if node is None or isinstance(node, Leaf) else node.spans
        return query(self.session, in_text(self.query.text, spans, places, written))

    def _view(self, df: DataFrame) -> str:
        name = f"streamtime_{uuid.uuid4().hex}"
        df.createOrReplaceTempView(name)
        self.views.append(name)
        return name


def unfollowed(node: Node) -> str:
    """Why changes cannot be followed up to a node; '' where they can."""
    below = (
        () if isinstance(node, Leaf) else node.inputs if isinstance(node, FunctionCall) else node.parts if isinstance(node, Union) else None
    )
    for source in node.sources.values() if isinstance(node, Block) else below or ():
        if not source.units:
            why = source.why if isinstance(source, FunctionCall) else ""
            return why or "a query in FROM cannot be cut by any of its columns"
        if why := unfollowed(source):
            return why
    return ""


def _in_place(leaf: Leaf, view: str) -> str:
    if leaf.is_argument:
        return f"SELECT * FROM {view} AS {quoted(leaf.alias)}"
    return view if leaf.is_named else f"{view} AS {quoted(leaf.alias)}"


def _item(node: Block, name: str) -> Any:
    return next(i for i in node.items if i.name.lower() == name)


def _spelled(names: Sequence[str], name: str) -> str:
    return next(n for n in names if n.lower() == name)


def _named(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    return df.select(*[F.col(quoted(c)).alias(f"u{i}") for i, c in enumerate(columns)])


def _marked(df: DataFrame, alias: str) -> DataFrame:
    """The columns of a source under names that no other source has; of two that have one name, the first has it."""
    seen: dict[str, int] = {}
    names = []
    for name in (f"{alias}.{c.lower()}" for c in df.columns):
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return df.toDF(*names)


def together(pieces: Sequence[DataFrame]) -> DataFrame:
    """Pieces of units as one."""
    df = pieces[0]
    for piece in pieces[1:]:
        df = df.unionAll(piece)
    return df


def _through(node: FunctionCall, place: int) -> dict[str, str]:
    """The columns that a call can be cut by, and what they are called in one of its inputs."""
    first = [k and k.lower() for k in node.keys[0]]
    there = [k and k.lower() for k in node.keys[place]]
    return {a: b for a, b in zip(first, there, strict=True) if a is not None and b is not None and a in node.units}


def _computed(node: Block, cut: Cut, alias: str) -> dict[str, str]:
    """The units that are expressions over one source alone, and how they are written."""
    items = {name: _item(node, name) for name in cut.columns}
    return {n: i.text for n, i in items.items() if i.plain is None and i.text and {a for a, _ in i.of} == {alias}}


def widest(root: Node) -> set[str]:
    """Of the columns that a result can be cut by, those to cut by: those that reach most of its tables, else all of them."""
    if not isinstance(root, Block) or root.grouped is not None:
        return set(root.units)
    reach: dict[str, set[str]] = {}
    for item in root.items:
        name = item.name.lower()
        if name in root.units and item.plain is not None:
            same = reached(root, item.plain)
            reach[name] = {a for a, c in same if c in root.sources[a].units}
    everywhere = {n for n, sources in reach.items() if len(sources) == len(root.sources)}
    return everywhere or set(root.units)
