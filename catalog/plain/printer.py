"""An analysed plan of Spark's as SQL text: a CTE for each operator, but for windows and filters, which stand in the next one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from streamtime.plain import names
from streamtime.plain.expressions import ExpressionPrinter, Unprintable
from streamtime.plain.layout import laid_out
from streamtime.plain.parentheses import without_needless
from streamtime.plain.trees import Node, Operator
from streamtime.sql.call.names import RESERVED
from streamtime.sql.syntax.text import literal, quoted, unquoted
from streamtime.sql.syntax.tokens import Source

THE_SAME = re.compile(r"SELECT \* FROM (\w+)")
KERNELS = ("MapInArrow", "MapInPandas", "ArrowEvalPython", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas")
FEED = "DeltaCDFRelation"
OWN_CATALOG = "`spark_catalog`."  # a name that no other engine has
NAMELESS = re.compile(rf"{RESERVED}(?:cte|text)_\d+")  # what stands for a name, until all columns are known, and for a text of the user's
HINT = re.compile(rf"/\*\+ BROADCAST\((?:(?:, )?{NAMELESS.pattern})+\) \*/")  # the names in it are no tokens

Made = tuple[str, str]  # a query, and what its CTE is to be called


@dataclass(frozen=True)
class Inside:
    """What stands behind FROM, without a CTE of its own, and which columns it begins with; if it is a filter, what that is called."""

    text: str
    columns: frozenset[int]
    where: str = "fewer_columns"


class Printer(ExpressionPrinter):
    """Prints analysed plans. Equal operators are one CTE. Columns keep their names, and get a number where two would share one.

    `free` says whether nothing in the statement has a name yet. `sources` are what CTE references stand for, by their ids: a name, or a
    query in parentheses. `local`: in this session TIMESTAMP is a type without a time zone.
    """

    def __init__(self, gateway: Any, free: Callable[[str], bool], local: bool = False) -> None:
        super().__init__(gateway, free, local)
        self.sources: dict[int, str] = {}
        self.made = ""  # of the last query, without its sources
        self._ctes: dict[str, tuple[str, str]] = {}  # a body: what stands for the CTE's name, and the columns in its head
        self._inputs: dict[int, str] = {}  # a source: what stands for the CTE's name
        self._last = ""  # .. of the CTE that has the query's rows
        self._texts: dict[str, str] = {}  # of sources, by what stands for them
        self._roles: dict[str, str] = {}  # what stands for a name: what that should be
        self._used: set[str] = set()  # names of CTEs

    def query(self, df: DataFrame, result: str = "result") -> str:
        """A DataFrame as a query, WITH .. SELECT .., of lines that are indented; its last CTE is the `result`. Raises Unprintable."""
        self._ctes, self._inputs, self._roles = {}, {}, {}
        plan = last = self._trees.operator(df._jdf.queryExecution().analyzed())
        while self._leaves_out(last):
            last = self._child(last)
        self._last = self._relation(last)
        if self._last == [*self._roles][-1] and self._last not in self._inputs.values():
            self._roles[self._last] = result
        named = {each: self._name(role) for each, role in self._roles.items()}
        own = [(self._names[i], name) for i, name in plan.output]
        columns = ", ".join(quoted(n) if n == name else f"{quoted(n)} AS {quoted(name)}" for n, name in own)
        texts = [f"    {named[name]}{head} AS (\n{self._said(body, named, 6)}\n    )" for body, (name, head) in self._ctes.items()]
        self.made = "\n".join(body for body, (name, _) in self._ctes.items() if name not in self._inputs.values())
        return "\n".join(("  WITH", ",\n".join(texts), self._said(f"SELECT {columns} FROM {self._last}", named, 2)))

    def readings(self, source: int) -> int:
        """How often the last query computes a source, as Spark does it: a CTE is put in wherever it is named."""
        times = Counter({self._last: 1})
        for body, (name, _) in reversed(self._ctes.items()):
            for other in NAMELESS.findall(HINT.sub("", body)):
                times[other] += times[name]
        return times[self._inputs.get(source, "")]

    def _said(self, body: str, named: dict[str, str], indent: int) -> str:
        """A query with the names of CTEs, on lines, and with a user's text as it is."""
        at, said = 0, ""
        body = HINT.sub(lambda hint: NAMELESS.sub(lambda name: named[name[0]], hint[0]), body)
        for token in (t for t in Source(body).tokens if t.kind == "word" and t.text in named):
            said, at = said + body[at : token.start] + named[token.text], token.end
        lines = laid_out(without_needless(said + body[at:]), indent)
        return next((lines.removesuffix(each) + text for each, text in self._texts.items() if lines.endswith(each)), lines)

    # -- operators

    def _relation(self, plan: Operator) -> str:
        """The name of the CTE that has the rows of an operator."""
        if plan.kind in ("SubqueryAlias", "View", "ResolvedHint", "UnresolvedHint"):
            return self._relation(self._child(plan))
        if plan.kind == "WithCTE":
            return self._relation(self._trees.operator(plan.jvm.plan()))
        if plan.kind == "CTERelationRef":
            return self._source(plan)
        if plan.kind in KERNELS:
            raise Unprintable("a kernel, which runs in Python")
        if plan.kind not in OPERATORS:
            raise Unprintable(f"an operator, {plan.kind}, that SQL cannot say")
        body, role = OPERATORS[plan.kind](self, plan)
        same = THE_SAME.fullmatch(body)
        return same[1] if same else self._cte(body, role)

    def _child(self, plan: Operator) -> Operator:
        return self._trees.operator(plan.jvm.child())

    def _wider(self, plan: Operator) -> Operator:
        """The child, or what it only leaves columns out of: each CTE that a text is deep takes the analyzer one of its hundred turns."""
        child = self._child(plan)
        while self._leaves_out(child):
            child = self._child(child)
        return child

    def _leaves_out(self, plan: Operator) -> bool:
        """Whether it only leaves columns out."""
        return plan.kind == "Project" and all(e.kind == "AttributeReference" for e in self._trees.expressions(plan.jvm.projectList()))

    def _inside(self, plan: Operator) -> Inside:
        """What has the rows of an operator, behind FROM: windows and filters without a CTE of their own, for the same reason."""
        if plan.kind == "Filter":
            body, where = self._filter(plan)
            return Inside(body.removeprefix("SELECT * FROM "), _ids(plan), where)
        if plan.kind == "Window":
            body, inside = self._windows(plan)
            return Inside(f"({body})", inside.columns, inside.where)
        return Inside(self._relation(plan), _ids(plan))

    def _source(self, plan: Operator) -> str:
        cte, own = plan.jvm.cteId(), [name for _, name in plan.output]
        text, stands = self.sources[cte], f"{RESERVED}text_{cte}"
        if any(token.text == "?" for token in Source(text).tokens):  # each has a value of its own, by its place
            if stands not in self._texts and cte < max(self._inputs, default=0):
                raise Unprintable("a `?` of one TABLE argument in front of another's; give parameters names, :day")
        else:
            stands = next((each for each, other in self._texts.items() if other == text), stands)
        self._texts[stands] = text
        columns, role = self._fresh(plan.output, ()), names.input_of(text)
        if columns != own:  # two have one name
            made = self._cte(f"SELECT * FROM {stands}", role, f" ({', '.join(map(quoted, columns))})")
        else:
            made = self._cte(f"SELECT {', '.join(map(quoted, columns))} FROM {stands}", role)
        self._inputs[cte] = made
        return made

    def _changes(self, plan: Operator) -> Made:
        """A table's change data feed, of the commits that were there when the call was planned."""
        relation = plan.jvm.relation()
        if relation.getClass().getSimpleName() != FEED:
            raise Unprintable("a table that is in no TABLE argument")
        table, bounds = relation.catalogTableOpt(), (relation.startingVersion(), relation.endingVersion())
        if table.isEmpty():
            raise Unprintable("a name for the table, which a path is not")
        now = relation.snapshotWithSchemaMode().snapshot().schema()
        if list(now.fieldNames()) != [name for _, name in plan.output][: now.length()]:
            raise Unprintable("columns that were renamed or dropped since, and table_changes() has those of today")
        name = str(table.get().identifier().quotedString()).removeprefix(OWN_CATALOG)
        columns = ", ".join(map(quoted, self._fresh(plan.output, ())))
        body = f"SELECT {columns} FROM table_changes({', '.join([literal(name), *(str(b.get()) for b in bounds)])})"
        return body, names.changes_of(str(table.get().identifier().table()))

    def _cte(self, body: str, role: str, head: str = "") -> str:
        if body not in self._ctes:
            self._ctes[body] = (self._nameless(role), head)
        return self._ctes[body][0]

    def _nameless(self, role: str) -> str:
        """What stands for a name: which one is free is known when all columns are."""
        each = f"{RESERVED}cte_{len(self._roles)}"
        self._roles[each] = role
        return each

    def _name(self, role: str) -> str:
        """A name that nothing in the statement has, nor a column: it would stand in front of the user's own table, or of a struct."""
        name, number = role, 1
        while not self._free(name) or name in self._used or name in self._taken:
            number += 1
            name = f"{role}_{number}"
        self._used.add(name)
        return name

    def _fresh(self, columns: Iterable[tuple[int, str]], taken: Sequence[str]) -> list[str]:
        """Names for new columns, none of them taken."""
        used, made = {t.lower() for t in taken}, []
        for place, own in columns:
            name, number = own, 1
            while name.lower() in used:
                number += 1
                name = f"{own}_{number}"
            used.add(name.lower())
            self._names[place] = name
            made.append(name)
        self._taken |= {name.lower() for name in made}
        return made

    def _columns(self, plan: Operator) -> list[str]:
        return list(dict.fromkeys(self._names[i] for i, _ in plan.output))

    def _project(self, plan: Operator) -> Made:
        child = self._wider(plan)
        inside = self._inside(child)
        body = f"SELECT {self._listed(plan.jvm.projectList(), child)} FROM {inside.text}"
        return body, self._role(plan, inside)

    def _role(self, plan: Operator, inside: Inside) -> str:
        made = {i: name for i, name in plan.output if i not in inside.columns}
        told = [self._names[i] for i, name in made.items() if not names.OWN.fullmatch(name)]
        return names.rows_with(told) if told else "with_arguments" if made else inside.where

    def _aggregate(self, plan: Operator) -> Made:
        inside = self._inside(self._wider(plan))
        by = self._list(plan.jvm.groupingExpressions())
        columns = self._listed(plan.jvm.aggregateExpressions(), None)
        keys = [(re.findall(rf"{re.escape(key)} AS (`\w+`)", columns) or [key])[0] for key in by]  # a column that it is, else itself
        role = names.groups_by([unquoted(key) for key in keys])
        return f"SELECT {columns} FROM {inside.text}" + (f" GROUP BY {', '.join(by)}" if by else ""), role

    def _named(self, e: Node) -> str:
        """The name of a column; nothing for another expression."""
        return self._names[e.id] if e.kind == "AttributeReference" else ""

    def _window(self, plan: Operator) -> Made:
        body, inside = self._windows(plan)
        return body, self._role(plan, inside)

    def _windows(self, plan: Operator) -> tuple[str, Inside]:
        child, wider = self._child(plan), self._wider(plan)
        inside = self._inside(wider)
        columns = self._columns(child)
        front = "*" if columns == self._columns(wider) else ", ".join(map(quoted, columns))
        return f"SELECT {front}, {self._listed(plan.jvm.windowExpressions(), None, columns)} FROM {inside.text}", inside

    def _listed(self, expressions: Any, child: Operator | None, taken: Sequence[str] = ()) -> str:
        """A SELECT list; `*` for all columns of the child in front, where they are."""
        each = list({e.id: e for e in self._trees.expressions(expressions)}.values())  # Spark repeats windows' columns
        passed = [e for e in each if e.kind == "AttributeReference"]
        made = [e for e in each if e.kind != "AttributeReference"]
        texts = {e.id: self._expression(e.children[0]) for e in made}  # before their names are known
        self._fresh([(e.id, names.readable(e)) for e in made], [*taken, *(self._names[e.id] for e in passed)])
        parts = []
        for e in each:
            name, text = quoted(self._names[e.id]), texts.get(e.id)
            parts.append(name if text is None or text == name else f"{text} AS {name}")
        front = [quoted(n) for n in self._columns(child)] if child is not None else []
        return ", ".join(["*", *parts[len(front) :]] if front and parts[: len(front)] == front else parts)

    def _rows(self, plan: Operator) -> Made:
        """A filter with a CTE of its own, which may leave columns out, too."""
        child = self._child(plan)
        if not self._leaves_out(child):
            return self._filter(plan)
        source, condition = self._relation(self._wider(plan)), self._trees.expression(plan.jvm.condition())
        columns = ", ".join(map(quoted, self._columns(child)))
        return f"SELECT {columns} FROM {source} WHERE {self._expression(condition)}", names.rows_where(condition, self._named)

    def _filter(self, plan: Operator) -> Made:
        source, condition = self._relation(self._child(plan)), self._trees.expression(plan.jvm.condition())
        return f"SELECT * FROM {source} WHERE {self._expression(condition)}", names.rows_where(condition, self._named)

    def _sort(self, plan: Operator) -> Made:
        by = "ORDER" if getattr(plan.jvm, "global")() else "SORT"
        source = self._relation(self._child(plan))
        return f"SELECT * FROM {source} {by} BY {', '.join(self._list(plan.jvm.order()))}", "sorted"

    def _spread_by(self, plan: Operator) -> Made:
        source, by = self._relation(self._child(plan)), self._list(plan.jvm.partitionExpressions())
        return (f"SELECT * FROM {source} DISTRIBUTE BY {', '.join(by)}" if by else f"SELECT * FROM {source}"), "spread"

    def _spread(self, plan: Operator) -> Made:
        return f"SELECT /*+ REPARTITION({plan.jvm.numPartitions()}) */ * FROM {self._relation(self._child(plan))}", "spread"

    def _deduplicate(self, plan: Operator) -> Made:
        source = self._relation(self._child(plan))
        if plan.jvm.keys().length() != len(plan.output):
            raise Unprintable("dropDuplicates of some columns")
        return f"SELECT DISTINCT * FROM {source}", "different"

    def _distinct(self, plan: Operator) -> Made:
        return f"SELECT DISTINCT * FROM {self._relation(self._child(plan))}", "different"

    def _union(self, plan: Operator) -> Made:
        parts, children = [], plan.jvm.children()
        for child in (self._trees.operator(children.apply(i)) for i in range(children.length())):
            source = self._relation(child)
            parts.append((source, [quoted(self._names[i]) for i, _ in child.output]))
        self._fresh([(i, name) for i, name in plan.output if i not in self._names], ())
        return " UNION ALL ".join(f"SELECT {', '.join(columns)} FROM {source}" for source, columns in parts), "united"

    def _join(self, plan: Operator) -> Made:
        one, other = self._trees.operator(plan.jvm.left()), self._trees.operator(plan.jvm.right())
        left = self._relation(one)
        mine, right = self._columns(one), self._relation(other)
        theirs = self._columns(other)
        if {n.lower() for n in mine} & {n.lower() for n in theirs}:
            self._fresh(other.output, mine)
            now = self._columns(other)
            renamed = ", ".join(f"{quoted(a)} AS {quoted(b)}" for a, b in zip(theirs, now, strict=True))
            right = self._cte(f"SELECT {renamed} FROM {right}", "renamed")
        condition = plan.jvm.condition()
        on = f" ON {self._expression(self._trees.expression(condition.get()))}" if condition.isDefined() else ""
        kind, made = plan.jvm.joinType().sql(), [self._names[i] for i, _ in plan.output if i not in _ids(one)]
        role = names.rows_with(made) if made else "not_there" if "ANTI" in kind else "also_there"
        small = ", ".join(name for side, name in ((one, left), (other, right)) if _is_small(side))
        hint = f" /*+ BROADCAST({small}) */" if small else ""
        return f"SELECT{hint} * FROM {left} {kind} JOIN {right}{on}", role

    def _generate(self, plan: Operator) -> Made:
        child = self._child(plan)
        source = self._relation(child)
        text = self._expression(self._trees.expression(plan.jvm.generator()))
        made = self._trees.expressions(plan.jvm.generatorOutput())
        columns = self._fresh([(e.id, e.name) for e in made], self._columns(child))
        outer, each = "OUTER " if plan.jvm.outer() else "", self._nameless("each")
        own = "`" in "".join(columns) and columns == list(plan.jvm.generator().elementSchema().fieldNames())
        called = "" if own else f" AS {', '.join(map(quoted, columns))}"  # there, Sparks before 4.2 keep both backticks that stand for one
        body = f"SELECT * FROM {source} LATERAL VIEW {outer}{text} {each}{called}"
        return body, names.rows_for_each(columns)


def _is_small(plan: Operator) -> bool:
    """Whether each task is to have all rows of a join's side."""
    return plan.kind == "ResolvedHint" and "strategy=broadcast)" in plan.jvm.hints().toString()


def _ids(plan: Operator) -> frozenset[int]:
    return frozenset(i for i, _ in plan.output)


OPERATORS: dict[str, Callable[[Printer, Operator], Made]] = {
    "Project": Printer._project,
    "Filter": Printer._rows,
    "Window": Printer._window,
    "Aggregate": Printer._aggregate,
    "Join": Printer._join,
    "Union": Printer._union,
    "Generate": Printer._generate,
    "Sort": Printer._sort,
    "RepartitionByExpression": Printer._spread_by,
    "Repartition": Printer._spread,
    "Deduplicate": Printer._deduplicate,
    "Distinct": Printer._distinct,
    "LogicalRelation": Printer._changes,
}
