"""Which source of a SELECT a column belongs to, which columns its groups are made of, and what its items are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from streamtime.maintained.nodes import FunctionCall, Name, Node, ResultColumn, Total, Unreadable
from streamtime.sql.syntax.tokens import Source, Span

SPREADING = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}


class Sources:
    """Which source a column belongs to."""

    def __init__(self, sources: dict[str, Node], using: Sequence[str]) -> None:
        self.sources, self.using = sources, using
        self.known = {alias: lower(node.columns) for alias, node in sources.items()}

    def of(self, column: exp.Expr) -> Name | None:
        """The source's alias and the column's name."""
        if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
            return None
        if column.args.get("db"):  # or a field of a struct
            return None
        name, table = column.name.lower(), column.table.lower()
        if table in self.known:
            return (table, name) if name in self.known[table] else None
        if table:
            return next((reached for alias in self.sources if (reached := self.of_side(alias, table, name)) is not None), None)
        owners = [alias for alias, columns in self.known.items() if name in columns]
        return (owners[0], name) if len(owners) == 1 or (owners and name in self.using) else None

    def is_said(self, column: exp.Column) -> bool:
        """Whether a column's text means the same where each source is a struct under its alias, beside what one source alone has."""
        name, table = column.name.lower(), column.table.lower()
        return table in self.known if table else name not in self.using and name not in self.known

    def of_side(self, alias: str, table: str, name: str) -> Name | None:
        """A column of a table that a join has as a side. A later side's column of a name that is there twice has a name of its own."""
        node = self.sources[alias]
        if not isinstance(node, FunctionCall) or name not in lower(node.sides.get(table, ())):
            return None
        first = next(side for side, columns in node.sides.items() if name in lower(columns))
        return (alias, name) if first == table else (alias, f"{table}.{name}")

    def equal(self, condition: exp.Expr | None) -> Iterator[tuple[Name, Name]]:
        """The columns that are equal wherever a condition holds."""
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition] if condition is not None else []:
            part = part.unnest()
            if isinstance(part, exp.EQ):
                one, other = self.of(part.left), self.of(part.right)
                if one is not None and other is not None:
                    yield one, other

    def shown(self, alias: str, name: str) -> str:
        """How a column is spelled in a result. One of a later side has its table's name before it, to tell it apart."""
        spelled = {c.lower(): c for c in self.sources[alias].columns}
        return spelled[name] if name in spelled else spelled[name.partition(".")[2]]

    def star(self, alias: str | None) -> Iterator[Name]:
        """The columns of a star, in Spark's order: those of USING first."""
        if alias is not None and alias not in self.known:
            for source, node in self.sources.items():
                if isinstance(node, FunctionCall) and alias in node.sides:
                    reached = [self.of_side(source, alias, c.lower()) for c in node.sides[alias]]
                    yield from (n for n in reached if n is not None)
                    return
        if alias is not None:
            if alias not in self.known:
                raise Unreadable(f"`{alias}.*` names no source")
            yield from ((alias, c.lower()) for c in self.sources[alias].columns)
            return
        first = dict.fromkeys(self.using)
        for name in first:
            yield next((a, name) for a, columns in self.known.items() if name in columns)
        for a, node in self.sources.items():
            yield from ((a, c.lower()) for c in node.columns if c.lower() not in first)


def of_condition(text: str, node: Node, aliases: set[str]) -> Iterator[str | None]:
    """The columns of one side in the equalities of a condition."""
    try:
        condition = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError:
        return
    known = {c.lower() for c in node.columns}
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        part = part.unnest()
        if isinstance(part, exp.EQ) and isinstance(part.left, exp.Column) and isinstance(part.right, exp.Column):
            mine = [c for c in (part.left, part.right) if c.table.lower() in aliases and not c.args.get("db") and c.name.lower() in known]
            if len(mine) == 1:
                yield mine[0].name


def own(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of these kinds that are the block's own: not those of queries in it."""
    for node in tree.walk(prune=lambda n: n is not tree and isinstance(n, exp.Query)):
        if node is not tree and isinstance(node, kinds):
            yield node


def spread(tree: exp.Select) -> bool:
    """Whether an item makes several rows of one."""
    unknown = (call.name.lower() for call in own(tree, exp.Anonymous))
    return any(own(tree, exp.UDTF)) or any(name in SPREADING for name in unknown)


def groups(tree: exp.Select, items: Sequence[ResultColumn], names: Sources) -> tuple[frozenset[int] | None, bool]:
    """The items that are group keys, and whether these are all of them."""
    group = tree.args.get("group")
    totals = any(a.find_ancestor(exp.Window) is None for a in own(tree, exp.AggFunc))
    if group is None:
        if totals:
            raise Unreadable("one total over all rows: whatever changes, all of them count")
        return None, True
    if any(group.args.get(a) for a in ("grouping_sets", "cube", "rollup", "totals")):
        raise Unreadable("GROUPING SETS, ROLLUP and CUBE are not understood")
    bare = [e.this if isinstance(e, exp.Alias) else e for e in tree.expressions]
    if len(bare) != len(items):
        raise Unreadable("a star beside GROUP BY is not understood")
    if group.args.get("all"):
        return frozenset(i for i, e in enumerate(bare) if not any(e.find_all(exp.AggFunc))), True
    grouped: set[int] = set()
    whole = True
    for key in group.expressions:
        if isinstance(key, exp.Literal) and key.is_int:
            places = {int(key.this) - 1}
        elif isinstance(key, exp.Column) and (of := names.of(key)) is not None:
            places = {i for i, item in enumerate(items) if item.plain == of}
        else:
            places = {i for i, e in enumerate(bare) if e == key}
            if isinstance(key, exp.Column) and not key.table:
                places |= {i for i, item in enumerate(items) if item.name.lower() == key.name.lower()}
        grouped |= places
        whole = whole and bool(places)
    return frozenset(grouped), whole


def total(item: exp.Expr, source: Source) -> Total | None:
    """What an item is, without its alias, where it is an aggregate that what changes can be added to."""
    if isinstance(item, exp.Count) and isinstance(item.this, exp.Star | exp.Literal) and not item.expressions:
        return Total("rows")
    if not isinstance(item, exp.Count | exp.Sum | exp.Min | exp.Max) or not any(item.find_all(exp.Column)):
        return None
    first, last = written(item, source)
    called = source.word(first) == item.key.upper() and source.word(first + 1) == "(" and source.closing.get(first + 1) == last - 1
    if not called or source.word(first + 2) in ("DISTINCT", "ALL"):
        return None
    if not isinstance(item, exp.Sum):
        return Total(item.key)
    values = source.slice(first + 2, last - 1)
    text = f"named_struct('total', {source.slice(first, last)}, 'count', count({values}))"
    return Total("sum", source.span(first, last), text, isinstance(item.this, exp.Column))


def written(expression: exp.Expr, source: Source) -> Span:
    """Where an item of SELECT is written, without its alias: its first token, and the one behind its last."""
    places = [i.meta["start"] for i in expression.find_all(exp.Identifier) if "start" in i.meta]
    at = next(i for i, t in enumerate(source.tokens) if t.start <= min(places) < t.end)
    while True:
        around = source.around[at]
        first = 0 if around is None else around + 1
        last = len(source.tokens) if around is None else source.closing.get(around, len(source.tokens))
        level = list(source.level(first, last))
        before = [i for i in level if i <= at and source.word(i) == "SELECT"]
        if before:
            break
        if around is None:
            raise Unreadable("an item of SELECT was not found in the text")
        at = around
    start = max(i for i in level if i <= at and (i == before[-1] or (source.word(i) == "," and i > before[-1]))) + 1
    ends = (i for i in level if i > at and (source.word(i) == "," or (source.word(i) == "FROM" and source.word(i - 1) != "DISTINCT")))
    end = next(ends, last)
    if source.word(start) in ("DISTINCT", "ALL"):
        start += 1
    if isinstance(expression.parent, exp.Alias):
        end -= 2 if source.word(end - 2) == "AS" else 1
    return start, end


def begins(offset: int, source: Source) -> int | None:
    """Where the FROM begins that a table stands in, which is written there; None where it stands in parentheses of its own."""
    at = next(i for i, t in enumerate(source.tokens) if t.start <= offset < t.end)
    around = source.around[at]
    level = list(source.level(0 if around is None else around + 1, at))
    selects = [i for i in level if source.word(i) == "SELECT"]
    froms = (i for i in level if source.word(i) == "FROM" and source.word(i - 1) not in ("DISTINCT", "."))
    own = [i for i in froms if selects and i > selects[-1]]
    return source.tokens[own[0]].start if own else None


def lower(names: Sequence[str]) -> set[str]:
    """Names to compare with."""
    return {n.lower() for n in names}
