"""The structure of a query, as far as it matters for what changes lead to: tables, calls, blocks of SELECT, unions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import types as T

from streamtime.sql.rows.typed import char_type
from streamtime.sql.syntax.tokens import Span, blank

COMPARABLE = {  # types, as Spark writes them, of which a unit can be made
    "string", "varchar", "char", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp",
    "timestamp_ntz", "binary",
}  # fmt: skip
Name = tuple[str, str]  # an alias and a column, in lower case


class Unreadable(Exception):
    """Why the structure of a query is of no use here, in words."""


@dataclass(frozen=True)
class Leaf:
    """A table where it stands in the text."""

    table: str  # the full name, quoted
    span: Span
    alias: str
    is_named: bool  # whether an alias follows in the text
    is_argument: bool  # whether it is all of a TABLE argument
    columns: tuple[str, ...]
    kinds: Mapping[str, str]  # the types of columns, by their names in lower case

    @property
    def units(self) -> frozenset[str]:
        """The columns by which its rows can be told apart."""
        return frozenset(name for name, kind in self.kinds.items() if comparable(kind))


@dataclass(frozen=True)
class FunctionCall:
    """A call of one of our functions. `keys` are, for each TABLE argument, its PARTITION BY columns, or None for one that is more."""

    function: str
    spans: tuple[Span, ...]  # the pieces of the text that are needed for its rows: the definitions that it reads, and the call
    written: Span
    inputs: tuple[Node, ...]
    keys: tuple[tuple[str | None, ...], ...]
    columns: tuple[str, ...]
    kinds: Mapping[str, str]
    why: str  # why a key's rows depend on more than the rows of that key; '' where they do not
    cut_by: frozenset[str]  # the key columns by whose values the call can be cut
    sides: dict[str, tuple[str, ...]]  # of a join, the tables by whose names its columns are known around it, and the columns of each

    @property
    def units(self) -> frozenset[str]:
        """The columns by whose values the call can be cut."""
        return self.cut_by


@dataclass(frozen=True)
class Total:
    """An aggregate that what changes can be added to: `count`, `sum`, `min`, `max`; `rows` is count(*).

    A sum is NULL where no value is there, so what stands in its place counts them too: `text`, in a place of the query's. `of_column`:
    it is a sum of a column as it is.
    """

    kind: str
    span: Span | None = None
    text: str = ""
    of_column: bool = False


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result. `of` are the columns that it is made of, `plain` the one that it is, `text` how it is written."""

    name: str
    of: frozenset[Name]
    plain: Name | None
    text: str
    fixed: bool  # whether equal rows give equal values
    total: Total | None = None


@dataclass(frozen=True)
class Equality:
    """An equality of two columns in a join. Where `outer`, the first is of the side that is kept whole.

    `same`: they have one type. Else equal ones are not the same value: 1 = '01'.
    """

    one: Name
    other: Name
    outer: bool
    same: bool


@dataclass(frozen=True)
class Block:
    """A SELECT with its FROM."""

    spans: tuple[Span, ...]
    sources: dict[str, Node]  # by alias
    optional: frozenset[str]  # the sources whose rows may be missing: the null side of an outer join
    edges: tuple[Equality, ...]
    items: tuple[ResultColumn, ...]
    columns: tuple[str, ...]
    grouped: frozenset[int] | None  # the items that are group keys; None: no groups
    whole: bool  # whether these are all of the group keys
    units: frozenset[str]
    filtered: bool = False  # whether groups are left out, by HAVING, or rows put in order
    spread: bool = False  # whether an item makes several rows of one, as explode() does
    behind: Mapping[str, int] = field(default_factory=dict)  # for each table in FROM, where the FROM that it stands in begins in the text

    @property
    def added(self) -> bool:
        """Whether each row is a group of joined tables, and all else in it are totals that what changes can be added to."""
        if self.grouped is None or not self.whole or self.filtered or self.optional or len(self.units) != len(self.grouped):
            return False
        totals = all(i.total is not None for n, i in enumerate(self.items) if n not in self.grouped)
        return totals and all(isinstance(s, Leaf) for s in self.sources.values())

    @property
    def adds_up(self) -> bool:
        """Whether the rows are those of a join, each made of one row of each source: then those that a source's change makes come to those
        that were there. A source on the null side of an outer join is not such a one."""
        return self.grouped is None and not self.filtered


@dataclass(frozen=True)
class Union:
    """Queries one below the other."""

    spans: tuple[Span, ...]
    parts: tuple[Node, ...]
    columns: tuple[str, ...]

    @property
    def units(self) -> frozenset[str]:
        """The columns that every part can be cut by."""
        places = [{i for i, c in enumerate(p.columns) if c.lower() in p.units} for p in self.parts]
        return frozenset(self.columns[i].lower() for i in set.intersection(*places))


Node = Leaf | FunctionCall | Block | Union


def comparable(kind: str) -> bool:
    """Whether values of a type can be told apart, byte for byte."""
    return kind.partition("(")[0] in COMPARABLE


def kinds_of(schema: T.StructType) -> dict[str, str]:
    """The types of columns, by their names in lower case. A CHAR is one of its length: Spark makes two of other lengths equal by blanks."""
    return {f.name.lower(): char_type(f) or f.dataType.simpleString() for f in schema.fields}


def leaves_of(node: Node) -> list[Leaf]:
    """The tables below a node, each once."""
    if isinstance(node, Leaf):
        return [node]
    below = node.inputs if isinstance(node, FunctionCall) else node.parts if isinstance(node, Union) else tuple(node.sources.values())
    return list({leaf.span: leaf for b in below for leaf in leaves_of(b)}.values())


def reached(node: Block, start: Name) -> set[Name]:
    """The columns that have the value of one, wherever their rows are. Along an outer join, from the side that is kept whole to the other
    one only: of two columns that meet the same one of a null side, rows without a partner there have both, and they differ."""
    same, fresh = {start}, [start]
    while fresh:
        here = fresh.pop()
        for edge in (e for e in node.edges if e.same):
            ways = [(edge.one, edge.other)] + ([] if edge.outer else [(edge.other, edge.one)])
            for a, b in ways:
                if a == here and b not in same:
                    same.add(b)
                    fresh.append(b)
    return same


def own_column(node: Block, name: Name, alias: str) -> str | None:
    """The column of a source that equals another one, in all rows of the result that a row of this source is in."""
    return name[1] if name[0] == alias else next((c for a, c in sorted(reached(node, name)) if a == alias), None)


def joined_by(node: Block, one: str, other: str, forward: bool = False) -> list[tuple[str, str]]:
    """The columns by which two sources are joined directly. `forward`: as of `reached`."""
    pairs = []
    for edge in node.edges:
        if (edge.one[0], edge.other[0]) == (one, other):
            pairs.append((edge.one[1], edge.other[1]))
        elif (edge.other[0], edge.one[0]) == (one, other) and not (edge.outer and forward):
            pairs.append((edge.other[1], edge.one[1]))
    return pairs


def way_to(node: Block, start: set[str], goals: set[str]) -> list[tuple[str, str]] | None:
    """The shortest way along joins from some sources to one of others, in steps; None where there is none. A way that went to the null side
    of an outer join does not come back from one: rows without a partner there would be lost on it."""
    ways: dict[str, list[tuple[str, str]]] = {a: [] for a in start}
    to_null_side: dict[str, bool] = dict.fromkeys(start, False)
    fresh = sorted(start)
    while fresh:
        here = fresh.pop(0)
        if here in goals:
            return ways[here]
        beside: dict[str, bool] = {}
        for e in node.edges:
            if e.one[0] == here:
                beside[e.other[0]] = beside.get(e.other[0], True) and e.outer
            elif e.other[0] == here and not (e.outer and to_null_side[here]):
                beside[e.one[0]] = False
        for there in sorted(beside.keys() - ways.keys()):
            ways[there], to_null_side[there] = [*ways[here], (here, there)], to_null_side[here] or beside[there]
            fresh.append(there)
    return None


@dataclass
class Query:
    """A query as it is read."""

    text: str
    leaves: list[Leaf] = field(default_factory=list)
    root: Node | None = None
    why: str = ""  # why there is no root
    columns: tuple[str, ...] = ()
    kinds: tuple[T.DataType, ...] = ()  # of these


def in_text(text: str, spans: Sequence[Span], places: Mapping[Span, str], call: Span | None = None) -> str:
    """Pieces of a text, each where it stands, the rest blank, with other text in some places. A call becomes a query for its rows."""
    made, at = "", 0
    for start, end in spans:
        made, at = made + blank(text[at:start]), start
        if call is not None and start == call[0]:
            made += "SELECT * FROM "
        for span in sorted(places):
            if start <= span[0] < end:
                made, at = made + text[at : span[0]] + places[span], span[1]
        made, at = made + text[at:end], end
    return made
