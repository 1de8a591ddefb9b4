"""The calls of this pack's functions in a SQL statement: where they stand, what they are given, and what of the statement they read."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from streamtime.sql.syntax.tokens import Source, Span, statements, tokens

QUERIES = ("SELECT", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")  # what queries begin with, WITH and parentheses apart
CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "SET", "VALUES", "WITH", "WINDOW")  # those that have lists


class Malformed(Exception):
    """A call that Spark's grammar does not allow: Spark's parser says it best. `function` is its name, `start` where that stands."""

    def __init__(self, function: str, start: int) -> None:
        super().__init__(f"{function}: what stands between its parentheses are no arguments")
        self.function, self.start = function, start


class _Misplaced(Exception):
    """Text that is no argument where one is due."""


@dataclass(frozen=True)
class ExpressionText:
    """An expression of PARTITION BY or ORDER BY."""

    span: Span
    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True)
class TableArgument:
    """A TABLE argument. `query` are the pieces of the statement that, with all else blanked, are the query that reads its rows."""

    inside: Span
    query: tuple[Span, ...]
    is_name: bool
    keys: tuple[ExpressionText, ...]
    order: tuple[ExpressionText, ...]
    name: str | None = None  # as in `tasks => TABLE(..)`


@dataclass(frozen=True)
class Argument:
    """An option."""

    name: str | None
    span: Span


@dataclass(frozen=True)
class Call:
    """A call. `start` is where its name stands; `span` what a relation can stand in for, LATERAL included."""

    function: str
    start: int
    span: Span
    tables: tuple[TableArgument, ...]
    options: tuple[Argument, ...]
    in_subquery: bool


@dataclass(frozen=True)
class Definition:
    """A common table expression, as `name AS (..)`, and the comma before it."""

    name: str
    span: Span
    comma: Span | None


@dataclass(frozen=True)
class With:
    """A WITH clause: its definitions can be read from where each ends to the end of the scope."""

    head: Span
    definitions: tuple[Definition, ...]
    parentheses: tuple[Span, Span] | None
    end: int
    recursive: bool = False

    def seen(self, at: int) -> list[Definition]:
        """The definitions that can be read at a place: no one itself, unless it is RECURSIVE, and none that stands behind."""
        return [d for d in self.definitions if d.span[0 if self.recursive else 1] <= at < self.end]


class Statement(Source):
    """One SQL statement. At `qualified`, names start that had a schema before them, and so are none of a CTE."""

    qualified: Collection[int] = ()

    def calls(self, functions: Collection[str]) -> list[Call]:
        """The calls, each after those that it may read: nested ones and those in earlier definitions end before it. Raises Malformed."""
        calls_here = []
        withs = list(self.withs())
        for i, arguments in self.argument_lists(functions):
            first = self._qualified(i)
            assert first is not None
            if any(self._table_at(self.value_at(a)) for a in arguments) or self.reads_a_relation(first):
                try:
                    calls_here.append(self._call(first, i, arguments, withs))
                except _Misplaced:
                    raise Malformed((self.tokens[i].name or "").upper(), self.tokens[first].start) from None
        return sorted(calls_here, key=lambda c: c.span[1])

    def argument_lists(self, functions: Collection[str]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Where a name of these functions stands before a list in parentheses; and the arguments, whatever they are."""
        for i, token in enumerate(self.tokens):
            if token.name in functions and self.words(i + 1, 1) == ["("] and i + 1 in self.closing and self._qualified(i) is not None:
                yield i, self.split(i + 2, self.closing[i + 1])

    def table_end(self, start: int, end: int) -> int | None:
        """The token after `TABLE(..)` or `TABLE name`, if that stands here: where its clauses begin."""
        if not self._table_at((start, end)):
            return None
        return self.closing.get(start + 1, end) + 1 if self.word(start + 1) == "(" else self.name_end(start + 1)

    def _qualified(self, i: int) -> int | None:
        """Where a function's name starts, `system.builtin.` included; None where another schema stands before it."""
        for schema in ("builtin", "system"):
            if self.word(i - 1) != ".":
                break
            if i < 2 or self.tokens[i - 2].name != schema:
                return None
            i -= 2
        return None if self.word(i - 1) == "." else i

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """A list's items; an empty list has none."""
        commas = [i for i in self.level(start, end) if self.word(i) == ","]
        edges = [start - 1, *commas, end]
        return [(a + 1, b) for a, b in itertools.pairwise(edges)] if start < end else []

    def value_at(self, argument: tuple[int, int]) -> tuple[int, int]:
        """An argument without its name."""
        start, end = argument
        return (start + 2, end) if self.words(start + 1, 1) == ["=>"] and start + 1 < end else argument

    def _table_at(self, value: tuple[int, int]) -> bool:
        start, end = value
        after = self.tokens[start + 1] if start + 1 < end else None
        return self.word(start) == "TABLE" and after is not None and (after.word == "(" or after.name is not None)

    def reads_a_relation(self, i: int) -> bool:
        """Whether a table may stand at this token: after FROM, JOIN or LATERAL, also in parentheses and lists there."""
        before = self.word(i - 1)
        if before in ("FROM", "JOIN", "LATERAL"):
            return self.word(i - 2) != "DISTINCT"  # IS DISTINCT FROM compares
        if before == "(":
            return self.reads_a_relation(i - 1)
        if before != ",":
            return False
        around = self.around[i]
        clauses = [w for j in self.level(0 if around is None else around + 1, i) if (w := self.word(j)) in CLAUSES]
        return clauses[-1:] == ["FROM"]

    def _call(self, first: int, i: int, arguments: list[tuple[int, int]], withs: list[With]) -> Call:
        tables: list[TableArgument] = []
        options: list[Argument] = []
        open_list = False  # without parentheses, Spark's grammar takes what follows a clause for more of its items
        for argument in arguments:
            start, end = self.value_at(argument)
            named, is_table = start > argument[0], start < end and self._table_at((start, end))
            has_clauses = is_table and self.closing.get(start + 1, end) + 1 < end  # then it cannot be one more item
            if start >= end or (open_list and not named and not has_clauses):
                raise _Misplaced
            if is_table:
                rows, open_list = self._rows(start, end, withs)
                tables.append(replace(rows, name=self.tokens[argument[0]].spelled) if named else rows)
            else:
                name = self.tokens[argument[0]].spelled if named else None
                options.append(Argument(name, self.span(start, end)))
        close = self.closing[i + 1]
        lateral = self.word(first - 1) == "LATERAL"
        span = self.span(first - lateral, close + 1)
        in_subquery = lateral or self.around[i] is not None
        return Call((self.tokens[i].name or "").upper(), self.tokens[first].start, span, tuple(tables), tuple(options), in_subquery)

    def _rows(self, start: int, end: int, withs: list[With]) -> tuple[TableArgument, bool]:
        """A TABLE argument, and whether its last clause is a list without parentheses."""
        if self.word(start + 1) != "(":  # Spark's grammar has TABLE name, and its parser refuses it: write TABLE(name)
            raise _Misplaced
        close = self.closing[start + 1]
        first, last, rest = start + 2, close, close + 1
        if first >= last:
            raise _Misplaced
        is_name = all((t.name is not None) if n % 2 == 0 else t.text == "." for n, t in enumerate(self.tokens[first:last]))
        is_reference = is_name or (self.word(first) == "IDENTIFIER" and self.closing.get(first + 1) == last - 1)
        inside = self.span(first, last)
        read = [self.span(start, start + 1), inside] if is_reference else [self.span(start + 1, rest)]  # TABLE name, or (query)
        query = self.with_definitions(inside, read, withs)
        keys: tuple[ExpressionText, ...] = ()
        order: tuple[ExpressionText, ...] = ()
        open_list = False
        if rest < end:
            ordering = next((i for i in self.level(rest, end) if self.word(i) in ("ORDER", "SORT") and self.word(i + 1) == "BY"), end)
            if ordering == rest:  # which Spark's grammar has only behind WITH SINGLE PARTITION
                if any(self.word(i) in ("PARTITION", "DISTRIBUTE") for i in self.level(rest, end)):
                    raise _Misplaced
            elif self.words(rest, 3) != ["WITH", "SINGLE", "PARTITION"]:
                if self.word(rest) not in ("PARTITION", "DISTRIBUTE") or self.word(rest + 1) != "BY":
                    raise _Misplaced
                keys, open_list = self._items(rest + 2, ordering)
            elif ordering != rest + 3:
                raise _Misplaced
            if ordering < end:
                order, open_list = self._items(ordering + 2, end)
        return TableArgument(inside, tuple(query), is_name and len(query) == 2, keys, order), open_list

    def _items(self, start: int, end: int) -> tuple[tuple[ExpressionText, ...], bool]:
        in_parentheses = self.closing.get(start) == end - 1 and self.word(start) == "("
        items = self.split(start + 1, end - 1) if in_parentheses else [(start, end)]
        return tuple(self._item(*item) for item in items), not in_parentheses

    def _item(self, start: int, end: int) -> ExpressionText:
        nulls = direction = ""
        if end - start > 2 and self.word(end - 2) == "NULLS" and self.word(end - 1) in ("FIRST", "LAST"):
            end, nulls = end - 2, self.word(end - 1)
        if end - start > 1 and self.word(end - 1) in ("ASC", "DESC"):
            end, direction = end - 1, self.word(end - 1)
        if start >= end:
            raise _Misplaced
        ascending = direction != "DESC"
        return ExpressionText(self.span(start, end), ascending, nulls == "FIRST" if nulls else ascending)

    def withs(self) -> Iterator[With]:
        """The WITH clauses."""
        for i, token in enumerate(self.tokens):
            if token.word != "WITH":
                continue
            first = i + 2 if self.word(i + 1) == "RECURSIVE" else i + 1
            definitions: list[Definition] = []
            at = first
            while (end := self._definition_end(at)) is not None:
                comma = self.span(at - 1, at) if definitions else None
                definitions.append(Definition(self.tokens[at].name or "", self.span(at, end), comma))
                if self.words(end, 1) != [","]:
                    break
                at = end + 1
            if definitions:
                around = self.around[i]
                close = None if around is None else self.closing.get(around)
                recursive = self.word(first - 1) == "RECURSIVE"
                if around is None or close is None:
                    yield With(self.span(i, first), tuple(definitions), None, len(self.text), recursive)
                else:
                    pair = (self.span(around, around + 1), self.span(close, close + 1))
                    yield With(self.span(i, first), tuple(definitions), pair, self.tokens[close].start, recursive)

    def _definition_end(self, at: int) -> int | None:
        """The token after `name [(columns)] [MAX RECURSION LEVEL n] [AS] (query)`, or None where none stands."""
        if at >= len(self.tokens) or self.tokens[at].name is None:
            return None
        i = at + 1
        if (columns := self.closing.get(i)) and self._is_names(i + 1, columns):
            i = columns + 1
        if self.words(i, 3) == ["MAX", "RECURSION", "LEVEL"]:
            i += 4
        i += self.word(i) == "AS"
        return self.closing[i] + 1 if self.word(i) == "(" and i in self.closing else None

    def _is_names(self, start: int, end: int) -> bool:
        """Whether a list is of names alone, as that of columns: behind `name (SELECT 1)` a parenthesis may be the query that reads it."""
        return all((t.word == ",") if n % 2 else t.name is not None for n, t in enumerate(self.tokens[start:end]))

    def with_definitions(self, inside: Span, read: list[Span], withs: list[With]) -> list[Span]:
        """The query over these rows together with the definitions that it needs, each WITH in its own parentheses."""
        named = {t.name for t in self.within([inside]) if t.start not in self.qualified}
        query = list(read)
        for with_ in reversed([w for w in withs if w.head[0] < inside[0] < w.end]):
            needed: list[Definition] = []
            for definition in reversed(with_.definitions):
                if definition.span[1] <= inside[0] and definition.name in named:
                    needed.insert(0, definition)
                    named |= {t.name for t in self.within([definition.span]) if t.start not in self.qualified}
            if not needed:
                continue
            spans: list[Span] = [with_.head]
            for number, definition in enumerate(needed):
                spans += [definition.comma] if number and definition.comma else []
                spans.append(definition.span)
            query = spans + query
            if with_.parentheses:
                query = [with_.parentheses[0], *query, with_.parentheses[1]]
        return query


def spoken(text: str) -> list[str]:
    """The statements of a text that say anything, as written. A script (BEGIN .. END) is one."""
    pieces = [text[start:end].lstrip() if start else text[:end] for start, end in statements(text)]
    written = [p for p in pieces if tokens(p)]
    return [text] if len(written) == 1 else written or [text]


def is_query(text: str) -> bool:
    """Whether a text is one statement, and one that only reads: it can be analysed without being run."""
    statement = Statement(text)
    first = next((i for i in range(len(statement.tokens)) if statement.word(i) != "("), 0)
    ends = {w.head[0]: w.definitions[-1].span[1] for w in statement.withs()}
    while statement.word(first) == "WITH" and (end := ends.get(statement.tokens[first].start)) is not None:
        first = next((i for i, t in enumerate(statement.tokens) if t.start >= end and t.text != "("), len(statement.tokens))
    writes = (i for i in range(len(statement.tokens)) if statement.word(i) == "INSERT" and statement.around[i] is None)
    several = any(statement.word(i + 1) in ("INTO", "OVERWRITE") for i in writes)  # FROM t INSERT INTO ..
    return statement.word(first) in QUERIES and not several and len(spoken(text)) == 1


def as_script(pieces: Sequence[str]) -> str:
    """Statements with semicolons between them."""
    *first, last = (piece.strip() for piece in pieces)
    return "\n".join([*map(ended, first), last])


def ended(statement: str) -> str:
    """A statement with its semicolon, which stands on a line of its own where a comment ends the line before."""
    marked = f"{statement};"
    return marked if [t.end for t in tokens(marked)[-1:]] == [len(marked)] else f"{statement}\n;"
