"""Which source of a SELECT a column belongs to, and which columns its groups are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import expressions as exp

from streamtime.maintain.nodes import Item, Name, Node, Unreadable


class Names:
    """Which source a column belongs to."""

    def __init__(self, sources: dict[str, Node], using: Sequence[str]) -> None:
        self.sources, self.using = sources, using
        self.known = {alias: lower(node.columns) for alias, node in sources.items()}

    def of(self, column: exp.Expr) -> Name | None:
        """The source's alias and the column's name."""
        if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
            return None
        name, table = column.name.lower(), column.table.lower()
        if table:
            return (table, name) if name in self.known.get(table, ()) else None
        owners = [alias for alias, columns in self.known.items() if name in columns]
        return (owners[0], name) if len(owners) == 1 or (owners and name in self.using) else None

    def star(self, alias: str | None) -> Iterator[Name]:
        """The columns of a star, in Spark's order: those of USING first."""
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


def own(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of these kinds that are the block's own: not those of queries in it."""
    for node in tree.walk(prune=lambda n: n is not tree and isinstance(n, exp.Query)):
        if node is not tree and isinstance(node, kinds):
            yield node


def groups(tree: exp.Select, items: Sequence[Item], names: Names) -> tuple[frozenset[int] | None, bool]:
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
    found: set[int] = set()
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
        found |= places
        whole = whole and bool(places)
    return frozenset(found), whole


def lower(names: Sequence[str]) -> set[str]:
    """Names to compare with."""
    return {n.lower() for n in names}
