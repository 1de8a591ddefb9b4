"""Qualified names around a join in `query()`: `o.k` and `p.k`, where the join has become one view that has columns, but no tables.

Each side carries its tables along as struct columns, under the tables' names: Spark then reads `o.k` as the field of a struct, and calls
the result `k`, as it would have. A `*` that would show these columns is written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtime.sql.call.errors import CallError
from streamtime.sql.call.names import Names
from streamtime.sql.rows.columns import expression
from streamtime.sql.syntax.as_of_clauses import ENDS, item
from streamtime.sql.syntax.conditions import split
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Source, Span
from streamtime.statements.calls import Call, Statement, TableArgument

ENDS_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "|>", ";")


@dataclass(frozen=True)
class Column:
    """A column of a view: the table that it came from, if that is known, and whether it stands for the whole of a table."""

    table: str | None
    name: str
    whole: bool = False

    @property
    def text(self) -> str:
        """As SQL names it."""
        return f"{quoted(self.table)}.{quoted(self.name)}" if self.table else quoted(self.name)


Columns = tuple[Column, ...]


def needed(statement: Statement, call: Call, on: str | None) -> bool:
    """Whether anything beside the keys of a join names its tables."""
    after = next((i for i, t in enumerate(statement.tokens) if t.start >= call.span[1]), len(statement.tokens))
    if statement.word(after) == "AS" or (
        after < len(statement.tokens) and statement.tokens[after].name and statement.word(after) not in ENDS
    ):
        return False  # its alias has taken their place
    names = {name.lower() for rows in call.tables for name, _ in relations(statement, rows) if name}
    tokens = [(i, t) for i, t in enumerate(statement.tokens) if not call.span[0] <= t.start < call.span[1]]
    if any(t.name in names and statement.word(i + 1) == "." for i, t in tokens):
        return True
    return any(c.operator != "=" or "." not in c.left or "." not in c.right for c in split(on or ""))


def relations(statement: Statement, rows: TableArgument) -> list[tuple[str | None, Span]]:
    """The tables that a TABLE argument reads whole, by the names that qualify their columns, and where they stand."""
    inside = [i for i, t in enumerate(statement.tokens) if rows.inside[0] <= t.start < rows.inside[1]]
    if rows.is_name or statement.name_end(inside[0]) > inside[-1]:  # which may be that of a CTE
        return [(statement.tokens[inside[-1]].spelled, rows.inside)]
    if statement.words(inside[0], 3) != ["SELECT", "*", "FROM"]:
        return []
    return beside(statement, inside[0] + 2, inside[-1] + 1)


def beside(source: Source, start: int, end: int) -> list[tuple[str | None, Span]]:
    """The relations of a FROM that starts at this token: the names that qualify their columns, and where they stand."""
    relations = []
    for i in source.level(start, end):
        if source.word(i) in ("JOIN", ",") or _begins_from(source, i):
            at = item(source, i + 1)
            name = source.tokens[at.after - 1].spelled if at.named and not at.alias else None
            if at.alias:
                name = next(t.spelled for t in source.within([at.alias]))
            relations.append((name, source.span(at.start, at.after)))
        elif i > start and source.word(i) in ENDS_FROM:
            break
    return relations


def _begins_from(source: Source, i: int) -> bool:
    return source.word(i) == "FROM" and source.word(i - 1) != "DISTINCT"  # IS DISTINCT FROM compares


def alias(statement: Statement, call: Call) -> str | None:
    """The name of the table that a call reads, where the query around it names columns with that, and nothing else there has it.

    In Spark's analyzer, columns that only pass through a call are still those of their table.
    """
    names = [name for rows in call.tables for name, _ in relations(statement, rows) if name]
    if len(call.tables) != 1 or len(names) != 1:
        return None
    first = next(i for i, t in enumerate(statement.tokens) if t.start == call.span[0])
    around = statement.around[first]
    start, end = (0, len(statement.tokens)) if around is None else (around + 1, statement.closing[around])
    begins = [i for i in statement.level(start, first + 1) if _begins_from(statement, i)]
    after = next((i for i in range(first, end) if statement.tokens[i].start >= call.span[1]), end)
    if not begins or statement.word(after) in ("TABLESAMPLE", "WITH", "WATERMARK"):
        return None
    beside_it = beside(statement, begins[-1], end)
    named = [*beside_it, *(of for at in _around(statement, around) for of in _of_level(statement, at))]  # what a subquery may mean
    if (None, call.span) not in beside_it or any(name and name.lower() == names[0].lower() for name, _ in named):
        return None
    return names[0] if any(_qualifies(statement, i, names[0], call) for i in range(start, end)) else None


def _around(statement: Statement, opening: int | None) -> Iterator[int | None]:
    """The parentheses around a pair of them, from the inside; None: the statement itself."""
    while opening is not None:
        opening = statement.around[opening]
        yield opening


def _of_level(statement: Statement, opening: int | None) -> Iterator[tuple[str | None, Span]]:
    """The relations of each FROM right within these parentheses."""
    start, end = (0, len(statement.tokens)) if opening is None else (opening + 1, statement.closing[opening])
    for i in statement.level(start, end):
        if _begins_from(statement, i):
            yield from beside(statement, i, end)


def _qualifies(statement: Statement, i: int, table: str, call: Call) -> bool:
    """Whether it is a table before its column, outside of the call."""
    token = statement.tokens[i]
    outside = not call.span[0] <= token.start < call.span[1]
    return outside and token.name == table.lower() and statement.word(i + 1) == "." != statement.word(i - 1)


def own_stars(statement: Statement, call: Call, table: str, given: DataFrame, made: DataFrame) -> dict[Span, str]:
    """What `table.*` stands for where a call adds columns to those `given`: these alone. Raises CallError where it cannot be written."""
    first = next(i for i, t in enumerate(statement.tokens) if t.start == call.span[0])
    around = statement.around[first]
    start, end = (0, len(statement.tokens)) if around is None else (around + 1, statement.closing[around])
    selects = [i for i in statement.level(start, first) if statement.word(i) == "SELECT"]
    written = set(_expressions(statement, selects[-1] + 1, end, call)) if selects else set()
    ends = next((i for i in statement.level(first, end) if statement.word(i) == "SELECT"), end)  # that of a UNION
    begins = selects[-1] if selects else start
    stars = [i for i in range(begins, ends) if _qualifies(statement, i, table, call) and statement.word(i + 2) == "*"]
    if not stars or given.columns == made.columns:
        return {}
    for i in stars:
        if i not in written or statement.word(i + 3) == "EXCEPT":
            raise CallError(call.function, f"{table}.*", "the call adds columns to those of the table", "Name the columns.")
    passed = ", ".join(f"{quoted(table)}.{quoted(name)}" for name in given.columns if name in made.columns)
    return {statement.span(i, i + 3): passed for i in stars}


def columns(df: DataFrame, tables: Sequence[tuple[str | None, Span]], known: Mapping[Span, Columns]) -> Columns:
    """The columns of a side, given those of other calls; without tables where USING or a query has mixed them."""
    names, shown = df.columns, list[Column]()
    for table, span in tables:
        if span in known:
            shown += known[span]
        elif table is not None:
            shown += [Column(table, n) for n in (names if len(tables) == 1 else df.select(f"{quoted(table)}.*").columns)]
    same = Names(df.sparkSession).same
    matching = len(shown) == len(names) and all(same(c.name, n) for c, n in zip(shown, names, strict=True))
    return tuple(shown) if matching else tuple(Column(None, n) for n in names)


def with_tables(df: DataFrame, having: Columns) -> tuple[DataFrame, Columns]:
    """A result with the tables of its columns as struct columns, and what its columns are then."""
    plain = [f"c{i}" for i in range(len(having))]  # equal names are told apart by their places
    named = [(F.col(quoted(p)).alias(c.name), c) for p, c in zip(plain, having, strict=True)]
    new = _new(having, Names(df.sparkSession))
    structs = [F.struct(*[ref for ref, c in named if c.table == t and not c.whole]).alias(t) for t in new]
    return df.toDF(*plain).select(*[ref for ref, _ in named], *structs), (*having, *[Column(t, t, whole=True) for t in new])


def carried(df: DataFrame, having: Columns, apart: Sequence[str]) -> tuple[DataFrame, Columns]:
    """A side with its tables as struct columns, without the columns `apart`; and what its columns are then."""
    known = Names(df.sparkSession)
    inner = [c for c in having if not known.among(c.name, apart)]
    fields = {t: [expression(c.text).alias(c.name) for c in inner if c.table == t] for t in _new(having, known)}
    structs = [F.struct(*inside).alias(t) for t, inside in fields.items() if inside]
    made = [Column(t, t, whole=True) for t, inside in fields.items() if inside]
    return (df.select("*", *structs) if structs else df), (*having, *made)


def _new(having: Columns, known: Names) -> list[str]:
    """The tables that no column stands for yet, and none is called."""
    taken = [c.name for c in having]
    return [t for t in dict.fromkeys(c.table for c in having if not c.whole) if t is not None and not known.among(t, taken)]


def joined(left: Columns, right: Columns, using: Sequence[str], known: Names) -> Columns:
    """The columns of a join: those of USING first and once, then the rest of the left side, then of the right."""
    first = [next(c for c in left if known.same(c.name, u)) for u in using]
    return (*first, *[c for c in left if c not in first], *[c for c in right if not known.among(c.name, using)])


def stars(statement: Statement, call: Call, columns: Columns, known: Names) -> dict[Span, str]:
    """What each `*` stands for that would show the tables as well as the columns. Raises CallError where that is not known."""
    first = next(i for i, t in enumerate(statement.tokens) if t.start == call.span[0])
    around = statement.around[first]
    start = 0 if around is None else around + 1
    level = list(statement.level(start, first + 1))
    selects = [i for i in level if statement.word(i) == "SELECT"]
    if not selects:
        raise CallError(call.function, "SELECT", "columns named with their table need a SELECT before FROM", "Write SELECT * FROM ..")
    if selects[-1] == start and around is not None and statement.word(around - 1) == "TABLE" and statement.word(selects[-1] + 1) == "*":
        return {}  # the left side of a join that was rewritten
    end = len(statement.tokens) if around is None else statement.closing[around]
    bare = [i for i in _expressions(statement, selects[-1] + 1, end, call) if _is_star(statement, i)]
    if not bare:
        return {}
    list_end = next((i for i in level if i > selects[-1] and _begins_from(statement, i)), first)
    tables = beside(statement, list_end, end)
    mixed = any(statement.word(i) in ("USING", "NATURAL") for i in statement.level(list_end, end))
    if any(span != call.span and (table is None or mixed) for table, span in tables):
        fix = "Name them, or give every relation an alias."
        raise CallError(call.function, "*", "the columns beside those of the call are not known", fix)
    made = dict[Span, str]()
    for i in bare:
        after, left_out = _left_out(statement, i)
        made[statement.span(i, after)] = _written(call, columns, tables, left_out, known)
    return made


def _expressions(statement: Statement, start: int, end: int, call: Call) -> Iterator[int]:
    """The tokens of a SELECT from there on, those of its functions included, without those of relations and of other queries."""
    for i in statement.level(start, end):
        if statement.word(i) in ("SELECT", "|>", ";"):  # that of a UNION
            return
        yield i
        outside = not call.span[0] <= statement.tokens[i].start < call.span[1]
        if i in statement.closing and outside and statement.word(i + 1) not in ("SELECT", "FROM", "WITH", "VALUES", "TABLE"):
            yield from _expressions(statement, i + 1, statement.closing[i], call)


def _is_star(statement: Statement, i: int) -> bool:
    """Whether it is a `*` that stands for columns: no product, none of a table, not that of count(*)."""
    before, after = statement.word(i - 1), statement.word(i + 1)
    if statement.word(i) != "*" or before not in ("SELECT", "DISTINCT", "ALL", ",", "(") or after not in ("FROM", "EXCEPT", ",", ")"):
        return False
    return (before, after, statement.word(i - 2)) != ("(", ")", "COUNT")


def _left_out(statement: Statement, star: int) -> tuple[int, list[list[str]]]:
    """The token after a `*` and its EXCEPT (..), and the names in that."""
    if statement.words(star + 1, 2) != ["EXCEPT", "("] or star + 2 not in statement.closing:
        return star + 1, []
    close = statement.closing[star + 2]
    items = statement.split(star + 3, close)
    names = [[t.spelled for t in statement.tokens[a:b:2] if t.spelled is not None] for a, b in items]
    return close + 1, names


def _written(
    call: Call, columns: Columns, tables: Sequence[tuple[str | None, Span]], left_out: Sequence[Sequence[str]], known: Names
) -> str:
    """All columns of a FROM but those left out, as a list. Raises CallError where one of these is not known."""
    shown = [c for c in columns if not c.whole]
    others = {table: list[str]() for table, span in tables if span != call.span and table is not None}
    for path in left_out:
        at = [c for c in shown if known.same(c.name, path[-1]) and (len(path) == 1 or known.same(c.table or "", path[-2]))]
        theirs = [t for t in others if len(path) == 2 and known.same(t, path[0])] or [t for t in others if len(path) == 1]
        if len(at) == 1 and len(path) < 3:
            shown.remove(at[0])
        elif not at and len(theirs) == 1:
            others[theirs[0]].append(quoted(path[-1]))
        else:
            problem = f"`{'.'.join(path)}` is not one column of one table"
            raise CallError(call.function, "* EXCEPT", problem, "Give its table before it; a field of a struct cannot stand here.")
    texts = list[str]()
    for table, span in tables:
        if span == call.span:
            texts += [c.text for c in shown]
        elif table is not None:
            without = f" EXCEPT ({', '.join(others[table])})" if others[table] else ""
            texts.append(f"{quoted(table)}.*{without}")
    return ", ".join(texts)
