"""An analysed plan of Spark's as SQL text: a CTE for each operator, but for windows and filters, which stand in the next one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from streamtime.plain.expressions import ExpressionPrinter, Unprintable
from streamtime.plain.trees import Operator
from streamtime.sql.syntax.text import literal, quoted
from streamtime.sql.syntax.tokens import Source

THE_SAME = re.compile(r"SELECT \* FROM (\w+)")
KERNELS = ("MapInArrow", "MapInPandas", "ArrowEvalPython", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas")
FEED = "DeltaCDFRelation"
OWN_CATALOG = "`spark_catalog`."  # a name that no other engine has


class Printer(ExpressionPrinter):
    """Prints analysed plans. Equal operators are one CTE. Columns keep their names, and get a number where two would share one.

    `free` says whether nothing in the statement has a name yet. `sources` are what CTE references stand for, by their ids: a name, or a
    query in parentheses. `local`: in this session TIMESTAMP is a type without a time zone.
    """

    def __init__(self, gateway: Any, free: Callable[[str], bool], local: bool = False) -> None:
        super().__init__(gateway, free, local)
        self.sources: dict[int, str] = {}
        self.made = ""  # of the last query, without its sources
        self._ctes: dict[str, tuple[str, str]] = {}  # a body: the CTE's name, and the columns in its head
        self._inputs: dict[int, str] = {}  # a source: the CTE's name
        self._last = ""  # the CTE that has the query's rows
        self._counts: dict[str, int] = {}

    def query(self, df: DataFrame) -> str:
        """A DataFrame as a query, WITH .. SELECT .., of lines that are indented. Raises Unprintable."""
        self._ctes, self._inputs = {}, {}
        plan = self._trees.operator(df._jdf.queryExecution().analyzed())
        self._last = self._relation(plan)
        own = [(self._names[i], name) for i, name in plan.output]
        columns = ", ".join(quoted(n) if n == name else f"{quoted(n)} AS {quoted(name)}" for n, name in own)
        ctes = ",\n".join(f"    {name}{head} AS (\n      {body}\n    )" for body, (name, head) in self._ctes.items())
        self.made = "\n".join(body for body, (name, _) in self._ctes.items() if not name.startswith("input"))
        return f"  WITH\n{ctes}\n  SELECT {columns}\n  FROM {self._last}"

    def readings(self, source: int) -> int:
        """How often the last query computes a source, as Spark does it: a CTE is put in wherever it is named."""
        times = {self._last: 1}
        for body, (name, _) in reversed(self._ctes.items()):
            for token in Source(body).tokens if name not in self._inputs.values() else ():
                times[token.text] = times.get(token.text, 0) + times.get(name, 0)
        return times.get(self._inputs.get(source, ""), 0)

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
        role, printer = OPERATORS[plan.kind]
        body = printer(self, plan)
        same = THE_SAME.fullmatch(body)
        return same[1] if same else self._cte(body, role)

    def _child(self, plan: Operator) -> Operator:
        return self._trees.operator(plan.jvm.child())

    def _wider(self, plan: Operator) -> Operator:
        """The child, or what it only leaves columns out of: each CTE that a text is deep takes the analyzer one of its hundred turns."""
        child = self._child(plan)
        while child.kind == "Project" and all(e.kind == "AttributeReference" for e in self._trees.expressions(child.jvm.projectList())):
            child = self._child(child)
        return child

    def _inside(self, plan: Operator) -> str:
        """What has the rows of an operator, behind FROM: windows and filters without a CTE of their own, for the same reason."""
        if plan.kind == "Filter":
            return self._filter(plan).removeprefix("SELECT * FROM ")
        return f"({self._window(plan)})" if plan.kind == "Window" else self._relation(plan)

    def _source(self, plan: Operator) -> str:
        text, names = self.sources[plan.jvm.cteId()], [name for _, name in plan.output]
        columns = self._fresh(plan.output, ())
        if columns != names:  # two have one name
            made = self._cte(f"SELECT * FROM {text}", "input", f" ({', '.join(map(quoted, columns))})")
        else:
            made = self._cte(f"SELECT {', '.join(map(quoted, columns))} FROM {text}", "input")
        self._inputs[plan.jvm.cteId()] = made
        return made

    def _changes(self, plan: Operator) -> str:
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
        return f"SELECT {columns} FROM table_changes({', '.join([literal(name), *(str(b.get()) for b in bounds)])})"

    def _cte(self, body: str, role: str, head: str = "") -> str:
        if body not in self._ctes:
            self._ctes[body] = (self._name(role), head)
        return self._ctes[body][0]

    def _name(self, role: str) -> str:
        """A name for a CTE that nothing in the statement has: it would stand in front of the user's own table."""
        while True:
            self._counts[role] = self._counts.get(role, 0) + 1
            name = f"{role}_{self._counts[role]}"
            if self._free(name):
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

    def _project(self, plan: Operator) -> str:
        child = self._wider(plan)
        source = self._inside(child)
        return f"SELECT {self._listed(plan.jvm.projectList(), child)} FROM {source}"

    def _aggregate(self, plan: Operator) -> str:
        source = self._inside(self._wider(plan))
        by = ", ".join(self._list(plan.jvm.groupingExpressions()))
        return f"SELECT {self._listed(plan.jvm.aggregateExpressions(), None)} FROM {source}" + (f" GROUP BY {by}" if by else "")

    def _window(self, plan: Operator) -> str:
        child, wider = self._child(plan), self._wider(plan)
        source = self._inside(wider)
        columns = self._columns(child)
        front = "*" if columns == self._columns(wider) else ", ".join(map(quoted, columns))
        return f"SELECT {front}, {self._listed(plan.jvm.windowExpressions(), None, columns)} FROM {source}"

    def _listed(self, expressions: Any, child: Operator | None, taken: Sequence[str] = ()) -> str:
        """A SELECT list; `*` for all columns of the child in front, where they are."""
        each = list({e.id: e for e in self._trees.expressions(expressions)}.values())  # Spark repeats windows' columns
        passed = [e for e in each if e.kind == "AttributeReference"]
        made = [e for e in each if e.kind != "AttributeReference"]
        texts = {e.id: self._expression(e.children[0]) for e in made}  # before their names are known
        self._fresh([(e.id, e.name) for e in made], [*taken, *(self._names[e.id] for e in passed)])
        parts = []
        for e in each:
            name, text = quoted(self._names[e.id]), texts.get(e.id)
            parts.append(name if text is None or text == name else f"{text} AS {name}")
        front = [quoted(n) for n in self._columns(child)] if child is not None else []
        return ", ".join(["*", *parts[len(front) :]] if front and parts[: len(front)] == front else parts)

    def _filter(self, plan: Operator) -> str:
        source = self._relation(self._child(plan))
        return f"SELECT * FROM {source} WHERE {self._expression(self._trees.expression(plan.jvm.condition()))}"

    def _sort(self, plan: Operator) -> str:
        by = "ORDER" if getattr(plan.jvm, "global")() else "SORT"
        source = self._relation(self._child(plan))
        return f"SELECT * FROM {source} {by} BY {', '.join(self._list(plan.jvm.order()))}"

    def _spread_by(self, plan: Operator) -> str:
        source, by = self._relation(self._child(plan)), self._list(plan.jvm.partitionExpressions())
        return f"SELECT * FROM {source} DISTRIBUTE BY {', '.join(by)}" if by else f"SELECT * FROM {source}"

    def _spread(self, plan: Operator) -> str:
        return f"SELECT /*+ REPARTITION({plan.jvm.numPartitions()}) */ * FROM {self._relation(self._child(plan))}"

    def _deduplicate(self, plan: Operator) -> str:
        source = self._relation(self._child(plan))
        if plan.jvm.keys().length() != len(plan.output):
            raise Unprintable("dropDuplicates of some columns")
        return f"SELECT DISTINCT * FROM {source}"

    def _distinct(self, plan: Operator) -> str:
        return f"SELECT DISTINCT * FROM {self._relation(self._child(plan))}"

    def _union(self, plan: Operator) -> str:
        parts, children = [], plan.jvm.children()
        for child in (self._trees.operator(children.apply(i)) for i in range(children.length())):
            source = self._relation(child)
            parts.append((source, [quoted(self._names[i]) for i, _ in child.output]))
        self._fresh([(i, name) for i, name in plan.output if i not in self._names], ())
        return " UNION ALL ".join(f"SELECT {', '.join(columns)} FROM {source}" for source, columns in parts)

    def _join(self, plan: Operator) -> str:
        one, other = self._trees.operator(plan.jvm.left()), self._trees.operator(plan.jvm.right())
        left = self._relation(one)
        mine, right = self._columns(one), self._relation(other)
        theirs = self._columns(other)
        if {n.lower() for n in mine} & {n.lower() for n in theirs}:
            self._fresh(other.output, mine)
            now = self._columns(other)
            renamed = ", ".join(f"{quoted(a)} AS {quoted(b)}" for a, b in zip(theirs, now, strict=True))
            right = self._cte(f"SELECT {renamed} FROM {right}", "columns")
        condition = plan.jvm.condition()
        on = f" ON {self._expression(self._trees.expression(condition.get()))}" if condition.isDefined() else ""
        return f"SELECT * FROM {left} {plan.jvm.joinType().sql()} JOIN {right}{on}"

    def _generate(self, plan: Operator) -> str:
        child = self._child(plan)
        source = self._relation(child)
        text = self._expression(self._trees.expression(plan.jvm.generator()))
        made = self._trees.expressions(plan.jvm.generatorOutput())
        names = self._fresh([(e.id, e.name) for e in made], self._columns(child))
        outer = "OUTER " if plan.jvm.outer() else ""
        return f"SELECT * FROM {source} LATERAL VIEW {outer}{text} {self._name('each')} AS {', '.join(map(quoted, names))}"


OPERATORS: dict[str, tuple[str, Callable[[Printer, Operator], str]]] = {  # what their CTEs are called, and who prints them
    "Project": ("columns", Printer._project),
    "Filter": ("rows", Printer._filter),
    "Window": ("beside", Printer._window),
    "Aggregate": ("groups", Printer._aggregate),
    "Join": ("joined", Printer._join),
    "Union": ("both", Printer._union),
    "Generate": ("several", Printer._generate),
    "Sort": ("sorted", Printer._sort),
    "RepartitionByExpression": ("spread", Printer._spread_by),
    "Repartition": ("spread", Printer._spread),
    "Deduplicate": ("different", Printer._deduplicate),
    "Distinct": ("different", Printer._distinct),
    "LogicalRelation": ("changes", Printer._changes),
}
