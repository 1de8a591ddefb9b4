"""An analysed plan of Spark's as SQL text: a CTE for each operator, but for windows and filters, which stand in the next one.

Most expressions print themselves, around the text of their children. Those that print what no parser takes, or what means something else in
another session, are here, each in a method.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from streamtime.plain.trees import Node, Operator, Trees
from streamtime.sql.syntax.text import literal, quoted

THE_SAME = re.compile(r"SELECT \* FROM (\w+)")
LOWEST = -(2**63)
TRANSPARENT = ("Alias", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero")
NOT_SQL = ("TryEval", "StaticInvoke", "Invoke", "PythonUDF", "ScalaUDF", "NewInstance", "PythonUDAF", "OuterReference")
KERNELS = ("MapInArrow", "MapInPandas", "ArrowEvalPython", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas")
PARTS = {  # of a time or an interval, whose names are no functions
    "SecondWithFraction": "SECOND",
    **{f"ExtractANSIInterval{unit}s": unit.upper() for unit in ("Year", "Month", "Day", "Hour", "Minute", "Second")},
}
FEED = "DeltaCDFRelation"
OWN_CATALOG = "`spark_catalog`."  # a name that no other engine has
PRECEDING = re.compile(r"-(\d+)L? FOLLOWING")
TRYING = {"Add": "try_add", "Subtract": "try_subtract", "Multiply": "try_multiply", "Divide": "try_divide", "Remainder": "try_mod"}


class Unprintable(Exception):
    """What SQL has no words for."""


class Printer:
    """Prints analysed plans. Equal operators are one CTE. Columns keep their names, and get a number where two would share one.

    `free` says whether nothing in the statement has a name yet. `sources` are what CTE references stand for, by their ids: a name, or a
    query in parentheses.
    """

    def __init__(self, gateway: Any, free: Callable[[str], bool]) -> None:
        self.sources: dict[int, str] = {}
        self.made = ""  # of the last query, without its sources
        self._free = free
        self._trees = Trees(gateway)
        self._names: dict[int, str] = {}  # of attributes, by expression id
        self._common: dict[str, str] = {}  # expressions that others refer to
        self._depth = 0  # of lambda functions around what is printed
        self._ctes: dict[str, tuple[str, str]] = {}  # a body: the CTE's name, and the columns in its head
        self._counts: dict[str, int] = {}

    def query(self, df: DataFrame) -> str:
        """A DataFrame as a query, WITH .. SELECT .., of lines that are indented. Raises Unprintable."""
        self._ctes = {}
        plan = self._trees.operator(df._jdf.queryExecution().analyzed())
        last = self._relation(plan)
        own = [(self._names[i], name) for i, name in plan.output]
        columns = ", ".join(quoted(n) if n == name else f"{quoted(n)} AS {quoted(name)}" for n, name in own)
        ctes = ",\n".join(f"    {name}{head} AS (\n      {body}\n    )" for body, (name, head) in self._ctes.items())
        self.made = "\n".join(body for body, (name, _) in self._ctes.items() if not name.startswith("input"))
        return f"  WITH\n{ctes}\n  SELECT {columns}\n  FROM {last}"

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
            return self._cte(f"SELECT * FROM {text}", "input", f" ({', '.join(map(quoted, columns))})")
        return self._cte(f"SELECT {', '.join(map(quoted, columns))} FROM {text}", "input")

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
        return made

    def _columns(self, plan: Operator) -> list[str]:
        return list(dict.fromkeys(self._names[i] for i, _ in plan.output))

    def _list(self, seq: Any) -> list[str]:
        return [self._expression(e) for e in self._trees.expressions(seq)]

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

    # -- expressions

    def _expression(self, e: Node) -> str:
        if e.kind == "AttributeReference":
            if e.id not in self._names:
                raise Unprintable(f"column {e.name} of elsewhere")
            return quoted(self._names[e.id])
        if e.kind in NOT_SQL:
            raise Unprintable("a kernel, which runs in Python" if e.kind == "PythonUDF" else f"{e.jvm.prettyName()}, which runs in the JVM")
        if e.stands_for:  # its parameters may be older than what the analyzer made of its replacement, as with nullif()
            try:
                return self._expression(e.children[0])
            except Unprintable:
                return f"{e.jvm.prettyName()}({', '.join(self._list(e.jvm.parameters()))})"
        if e.kind in EXPRESSIONS:
            return EXPRESSIONS[e.kind](self, e)
        if e.kind in TRANSPARENT:
            return self._expression(e.children[0])
        texts = [self._expression(child) for child in e.children]
        if e.kind in TRYING and e.tries:  # prints itself as the operator that fails
            return f"{TRYING[e.kind]}({', '.join(texts)})"
        return e.sql(*texts)

    def _constant(self, e: Node) -> str:
        if e.value is None:
            return "NULL" if e.type == "VOID" else f"CAST(NULL AS {e.type})"
        if e.type == "STRING":
            return literal(e.value)
        if e.type == "BIGINT" and int(e.value) == LOWEST:  # few parsers read it
            return f"({LOWEST + 1}L - 1L)"
        if e.type == "TIMESTAMP":  # its text would mean another moment in another time zone
            return f"timestamp_micros({e.value}L)"
        return e.sql()

    def _cast(self, e: Node) -> str:
        inner = self._expression(e.children[0])
        return inner if e.type == "VOID" else f"{'TRY_' if e.tries else ''}CAST({inner} AS {e.type})"

    def _raise_error(self, e: Node) -> str:
        parameters = e.children[1]
        texts = [self._expression(c) for c in parameters.children] if parameters.kind == "CreateMap" else []
        if len(texts) != 2:
            raise Unprintable("raise_error with parameters")
        return f"raise_error({texts[1]})"

    def _part(self, e: Node) -> str:
        return f"extract({PARTS[e.kind]} FROM {self._expression(e.children[0])})"

    def _to_json(self, e: Node) -> str:
        options, given = e.jvm.options().iterator(), list[str]()  # which are no children
        while options.hasNext():
            pair = options.next()
            given += [literal(str(pair._1())), literal(str(pair._2()))]
        return f"to_json({self._expression(e.children[0])}" + (f", map({', '.join(given)}))" if given else ")")

    def _collate(self, e: Node) -> str:
        inner, collation = e.children  # as a function it is Spark's alone
        return f"({self._expression(inner)} COLLATE {collation.sql()})"

    def _named_struct(self, e: Node) -> str:
        return f"named_struct({', '.join(self._expression(c) for c in e.children)})"

    def _field(self, e: Node) -> str:
        inner = self._expression(e.children[0])
        inner = inner if e.children[0].kind in ("AttributeReference", "NamedLambdaVariable", "GetStructField") else f"({inner})"
        return f"{inner}.{quoted(e.name)}"

    def _lambda(self, e: Node) -> str:
        self._depth += 1
        function, *arguments = e.children
        for argument in arguments:
            name = f"{argument.name}_{self._depth}"
            while not self._free(name):  # a column of the user's
                name += "_"
            self._names[argument.id] = name
        names = [self._variable(a) for a in arguments]
        head = names[0] if len(names) == 1 else f"({', '.join(names)})"  # in parentheses, one is no list
        text = f"{head} -> {self._expression(function)}"
        self._depth -= 1
        return text

    def _variable(self, e: Node) -> str:
        return quoted(self._names[e.id])

    def _with(self, e: Node) -> str:
        child, *definitions = e.children
        self._common |= {str(d.jvm.id().toString()): self._expression(d.children[0]) for d in definitions}
        return self._expression(child)

    def _reference(self, e: Node) -> str:
        return f"({self._common[str(e.jvm.id().toString())]})"

    def _subquery(self, e: Node) -> str:
        return f"(SELECT * FROM {self._relation(self._trees.operator(e.jvm.plan()))})"

    def _aggregated(self, e: Node) -> str:
        function, *only = e.children
        text = self._expression(function)
        if function.kind in ("First", "Last") and function.jvm.ignoreNulls():
            text = f"{text[:-1]}, true)"  # else lost
        if e.jvm.isDistinct():
            text = text.replace("(", "(DISTINCT ", 1)
        return text + (f" FILTER (WHERE {self._expression(only[0])})" if only else "")

    def _over(self, e: Node) -> str:
        function, spec = e.children
        *keys, frame = spec.children
        offset = function.kind in ("Lag", "Lead")
        if offset:  # prints itself with a negative offset and a frame, which no parser takes
            texts = [self._expression(child) for child in function.children]
            text = f"{function.kind.lower()}({', '.join(texts)})" + (" IGNORE NULLS" if function.jvm.ignoreNulls() else "")
        else:
            text = self._expression(function)
        by = [self._expression(k) for k in keys if k.kind != "SortOrder"]
        order = [self._expression(k) for k in keys if k.kind == "SortOrder"]
        parts = [f"PARTITION BY {', '.join(by)}"] * bool(by) + [f"ORDER BY {', '.join(order)}"] * bool(order)
        rows = [] if offset else [PRECEDING.sub(r"\1 PRECEDING", frame.sql())]
        return f"{text} OVER ({' '.join([*parts, *rows])})"


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
EXPRESSIONS: dict[str, Callable[[Printer, Node], str]] = {
    "Literal": Printer._constant,
    "Cast": Printer._cast,
    "RaiseError": Printer._raise_error,
    "Collate": Printer._collate,
    "CreateNamedStruct": Printer._named_struct,
    "GetStructField": Printer._field,
    "LambdaFunction": Printer._lambda,
    "NamedLambdaVariable": Printer._variable,
    "With": Printer._with,
    "CommonExpressionRef": Printer._reference,
    "StructsToJson": Printer._to_json,
    "ScalarSubquery": Printer._subquery,
    "AggregateExpression": Printer._aggregated,
    "WindowExpression": Printer._over,
    **dict.fromkeys(PARTS, Printer._part),
}
