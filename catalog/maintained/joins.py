"""What the joins of a query say of its sources: which columns have the same value, and which way leads from one source to another."""

from __future__ import annotations

from streamtime.maintained.nodes import Block, Name


def reached(node: Block, start: Name) -> set[Name]:
    """The columns that have the value of one, wherever their rows are. Along an outer join, from the side that is kept whole to the other
    one only: of two columns that meet the same one of a null side, rows without a partner there have both, and they differ."""
    found, fresh = {start}, [start]
    while fresh:
        here = fresh.pop()
        for edge in (e for e in node.edges if e.same):
            ways = [(edge.one, edge.other)] + ([] if edge.outer else [(edge.other, edge.one)])
            for a, b in ways:
                if a == here and b not in found:
                    found.add(b)
                    fresh.append(b)
    return found


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
