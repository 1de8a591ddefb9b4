"""An analysed plan of Spark's as SQL text: a CTE for each operator, but for windows and filters, which stand in the next one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from streamtime.plain import names
from streamtime.plain.ctes import Ctes
from streamtime.plain.expressions import ExpressionPrinter, Unprintable
from streamtime.plain.trees import Node, Operator
from streamtime.sql.syntax.text import literal, quoted, unquoted

THE_SAME = re.compile(r"SELECT \* FROM (\w+)")
KERNELS = ("MapInArrow", "MapInPandas", "ArrowEvalPython", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas")
FEED = "DeltaCDFRelation"
OWN_CATALOG = "`spark_catalog`."  # a name that no other engine has

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
        self.ctes = Ctes(free, self._taken)  # of the last query

    def query(self, df: DataFrame, result: str = "result", below: int = 0) -> str:
        """A DataFrame as a query, WITH .. SELECT .., of lines that are indented; its last CTE is the `result`. `below` is how many CTEs
        stand on one another in its sources. Raises Unprintable."""
        self.ctes.begin()
        plan = last = self._trees.operator(df._jdf.queryExecution().analyzed())
        while last.leaves_out:
            last = last.child
        name = self._relation(last)
        own = [(self._names[i], name) for i, name in plan.output]
        columns = ", ".join(quoted(n) if n == name else f"{quoted(n)} AS {quoted(name)}" for n, name in own)
        return self.ctes.query(columns, name, result, below)

    # -- operators

    def _relation(self, plan: Operator) -> str:
        """The name of the CTE that has the rows of an operator."""
        if plan.kind in ("SubqueryAlias", "View", "ResolvedHint", "UnresolvedHint"):
            return self._relation(plan.child)
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
        return same[1] if same else self.ctes.named(body, role)

    def _wider(self, plan: Operator) -> Operator:
        """The child, or what it only leaves columns out of: each CTE that a text is deep takes the analyzer one of its hundred turns."""
        child = plan.child
        while child.leaves_out and not self._folds(child):
            child = child.child
        return child

    def _folds(self, plan: Operator) -> bool:
        """Whether it leaves columns out of a projection over window functions, which then can stand in what is left."""
        return plan.child.kind == "Project" and not plan.child.leaves_out and self._windowed(plan) is not None

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
        columns = self._fresh(plan.output, ())
        return self.ctes.input(cte, self.sources[cte], columns, own)

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

    def _fresh(self, columns: Iterable[tuple[int, str]], taken: Sequence[str]) -> list[str]:
        """Names for new columns, none of them taken."""
        used, made = {t.lower() for t in taken}, []
        for place, own in columns:
            name, number = self._names.get(place, own), 1  # an operator that is said twice has one name for a column
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
        if windowed := self._windowed(plan):
            return self._in_one(plan, *windowed)
        child = self._wider(plan)
        inside = self._inside(child)
        body = f"SELECT {self._listed(plan.listed, child)} FROM {inside.text}"
        return body, self._role(plan, inside)

    def _windowed(self, plan: Operator) -> tuple[list[Node], Operator] | None:
        """What a projection over window functions lists, and the operator of these, where each is there once, and in no lambda function: it
        can stand in the expression that it is for."""
        each, child = plan.listed, self._wider(plan)
        if child.kind == "Project" and plan.leaves_out:
            made = {e.id: e for e in child.listed}
            each, child = [made[e.id] for e in each], self._wider(child)
        if child.kind != "Window":
            return None
        windows = {e.id for e in child.listed}
        times = Counter(i for e in each for i in _columns_in(e) if i in windows)
        return (each, child) if all(n == 1 for n in times.values()) else None

    def _in_one(self, plan: Operator, each: Sequence[Node], window: Operator) -> Made:
        """One SELECT: as deep as the rows below it."""
        below = self._wider(window)
        inside = self._inside(below)
        windows = {e.id: e for e in window.listed}
        self._in_it = {i: self._expression(e.children[0]) for i, e in windows.items()}
        body = f"SELECT {self._listed([windows.get(e.id, e) for e in each], below)} FROM {inside.text}"
        self._in_it = {}
        return body, self._role(plan, inside)

    def _role(self, plan: Operator, inside: Inside) -> str:
        made = {i: name for i, name in plan.output if i not in inside.columns}
        told = [self._names[i] for i, name in made.items() if not names.OWN.fullmatch(name)]
        return names.rows_with(told) if told else "with_arguments" if made else inside.where

    def _aggregate(self, plan: Operator) -> Made:
        inside = self._inside(self._wider(plan))
        by = self._list(plan.jvm.groupingExpressions())
        columns = self._listed(plan.listed, None)
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
        child, wider = plan.child, self._wider(plan)
        inside = self._inside(wider)
        columns = self._columns(child)
        front = self.ctes.every(columns) if columns == self._columns(wider) else ", ".join(map(quoted, columns))
        return f"SELECT {front}, {self._listed(plan.listed, None, columns)} FROM {inside.text}", inside

    def _listed(self, each: Sequence[Node], child: Operator | None, taken: Sequence[str] = ()) -> str:
        """A SELECT list; all columns of the child in one, where they stand in front."""
        passed = [e for e in each if e.kind == "AttributeReference"]
        made = [e for e in each if e.kind != "AttributeReference"]
        texts = {e.id: self._expression(e.children[0]) for e in made}  # before their names are known
        self._fresh([(e.id, names.readable(e)) for e in made], [*taken, *(self._names[e.id] for e in passed)])
        parts = []
        for e in each:
            name, text = quoted(self._names[e.id]), texts.get(e.id)
            parts.append(name if text is None or text == name else f"{text} AS {name}")
        front = self._columns(child) if child is not None else []
        if front and parts[: len(front)] == [*map(quoted, front)]:
            more = parts[len(front) :]
            parts = [self.ctes.every(front) if more else "*", *more]
        return ", ".join(parts)

    def _rows(self, plan: Operator) -> Made:
        """A filter with a CTE of its own, which may leave columns out, too."""
        child = plan.child
        if not child.leaves_out:
            return self._filter(plan)
        source, condition = self._relation(self._wider(plan)), self._trees.expression(plan.jvm.condition())
        columns = ", ".join(map(quoted, self._columns(child)))
        return f"SELECT {columns} FROM {source} WHERE {self._expression(condition)}", names.rows_where(condition, self._named)

    def _filter(self, plan: Operator) -> Made:
        source, condition = self._relation(plan.child), self._trees.expression(plan.jvm.condition())
        return f"SELECT * FROM {source} WHERE {self._expression(condition)}", names.rows_where(condition, self._named)

    def _sort(self, plan: Operator) -> Made:
        by = "ORDER" if getattr(plan.jvm, "global")() else "SORT"
        source = self._relation(plan.child)
        return f"SELECT * FROM {source} {by} BY {', '.join(self._list(plan.jvm.order()))}", "sorted"

    def _spread_by(self, plan: Operator) -> Made:
        source, by = self._relation(plan.child), self._list(plan.jvm.partitionExpressions())
        return (f"SELECT * FROM {source} DISTRIBUTE BY {', '.join(by)}" if by else f"SELECT * FROM {source}"), "spread"

    def _spread(self, plan: Operator) -> Made:
        return f"SELECT /*+ REPARTITION({plan.jvm.numPartitions()}) */ * FROM {self._relation(plan.child)}", "spread"

    def _deduplicate(self, plan: Operator) -> Made:
        source = self._relation(plan.child)
        if plan.jvm.keys().length() != len(plan.output):
            raise Unprintable("dropDuplicates of some columns")
        return f"SELECT DISTINCT * FROM {source}", "different"

    def _distinct(self, plan: Operator) -> Made:
        return f"SELECT DISTINCT * FROM {self._relation(plan.child)}", "different"

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
            right = self.ctes.named(f"SELECT {renamed} FROM {right}", "renamed")
        condition = plan.jvm.condition()
        on = f" ON {self._expression(self._trees.expression(condition.get()))}" if condition.isDefined() else ""
        kind, made = plan.jvm.joinType().sql(), [self._names[i] for i, _ in plan.output if i not in _ids(one)]
        role = names.rows_with(made) if made else "not_there" if "ANTI" in kind else "also_there"
        small = ", ".join(name for side, name in ((one, left), (other, right)) if _is_small(side))
        hint = f" /*+ BROADCAST({small}) */" if small else ""
        return f"SELECT{hint} * FROM {left} {kind} JOIN {right}{on}", role

    def _generate(self, plan: Operator) -> Made:
        child = plan.child
        source = self._relation(child)
        text = self._expression(self._trees.expression(plan.jvm.generator()))
        made = self._trees.expressions(plan.jvm.generatorOutput())
        columns = self._fresh([(e.id, e.name) for e in made], self._columns(child))
        outer, each = "OUTER " if plan.jvm.outer() else "", self.ctes.nameless("each")
        own = "`" in "".join(columns) and columns == list(plan.jvm.generator().elementSchema().fieldNames())
        called = "" if own else f" AS {', '.join(map(quoted, columns))}"  # there, Sparks before 4.2 keep both backticks that stand for one
        body = f"SELECT * FROM {source} LATERAL VIEW {outer}{text} {each}{called}"
        return body, names.rows_for_each(columns)


def _is_small(plan: Operator) -> bool:
    """Whether each task is to have all rows of a join's side."""
    return plan.kind == "ResolvedHint" and "strategy=broadcast)" in plan.jvm.hints().toString()


def _columns_in(e: Node) -> Iterator[int]:
    """The columns that an expression has in it, as often as it says them; twice in a lambda function, or in what is said again."""
    if e.kind == "AttributeReference":
        yield e.id
    for child in e.children:
        yield from (i for _ in range(2 if child.kind in ("LambdaFunction", "CommonExpressionDef") else 1) for i in _columns_in(child))


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
