"""An analysed plan of Spark's as SQL text: a CTE for each operator.

Most expressions print themselves, around the text of their children. Those that print what no parser takes, or what means something else in
another session, are here, each in a method.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from streamtime.door.analyzer import items
from streamtime.sql.syntax.text import literal, quoted

CATALYST = "org.apache.spark.sql.catalyst.expressions."
THE_SAME = re.compile(r"SELECT \* FROM (\w+)")
TRANSPARENT = ("Alias", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero")
NOT_SQL = ("TryEval", "StaticInvoke", "Invoke", "PythonUDF", "ScalaUDF", "NewInstance", "PythonUDAF", "OuterReference")
TRYING = {"Add": "try_add", "Subtract": "try_subtract", "Multiply": "try_multiply", "Divide": "try_divide", "Remainder": "try_mod"}


class Unprintable(Exception):
    """What SQL has no words for."""


class Printer:
    """Prints analysed plans. Equal operators are one CTE. Columns keep their names, and get a number where two would share one.

    `free` says whether nothing in the statement has a name yet. `sources` are what CTE references stand for, by their ids: a name, or a
    query in parentheses.
    """

    def __init__(self, jvm: Any, free: Callable[[str], bool]) -> None:
        self.sources: dict[int, str] = {}
        self._free = free
        self._names: dict[int, str] = {}  # of attributes, by expression id
        self._common: dict[str, str] = {}  # expressions that others refer to
        self._depth = 0  # of lambda functions around what is printed
        self._ctes: dict[str, tuple[str, str]] = {}  # a body: the CTE's name, and the columns in its head
        self._counts: dict[str, int] = {}
        self._inherits = jvm.java.lang.Class.forName(CATALYST + "InheritAnalysisRules")
        self._seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._pretty = jvm.org.apache.spark.sql.catalyst.expressions.PrettyAttribute

    def query(self, df: DataFrame) -> str:
        """A DataFrame as a query, WITH .. SELECT .., of lines that are indented. Raises Unprintable."""
        self._ctes = {}
        plan: Any = df._jdf.queryExecution().analyzed()
        last = self._relation(plan)
        own = [(self._names[a.exprId().id()], a.name()) for a in items(plan.output())]
        columns = ", ".join(quoted(n) if n == name else f"{quoted(n)} AS {quoted(name)}" for n, name in own)
        ctes = ",\n".join(f"    {name}{head} AS (\n      {body}\n    )" for body, (name, head) in self._ctes.items())
        return f"  WITH\n{ctes}\n  SELECT {columns}\n  FROM {last}"

    # -- operators

    def _relation(self, plan: Any) -> str:
        """The name of the CTE that has the rows of an operator."""
        kind = plan.nodeName()
        if kind in ("SubqueryAlias", "View", "ResolvedHint", "UnresolvedHint"):
            return self._relation(plan.child())
        if kind == "WithCTE":
            return self._relation(plan.plan())
        if kind == "CTERelationRef":
            return self._source(plan)
        if kind not in OPERATORS:
            raise Unprintable(f"an operator, {kind}, that SQL cannot say")
        role, printer = OPERATORS[kind]
        body = printer(self, plan)
        same = THE_SAME.fullmatch(body)
        return same[1] if same else self._cte(body, role)

    def _source(self, plan: Any) -> str:
        text, names = self.sources[plan.cteId()], [a.name() for a in items(plan.output())]
        columns = self._fresh(items(plan.output()), ())
        if columns != names:  # two have one name
            return self._cte(f"SELECT * FROM {text}", "input", f" ({', '.join(map(quoted, columns))})")
        return self._cte(f"SELECT {', '.join(map(quoted, columns))} FROM {text}", "input")

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

    def _fresh(self, attributes: Iterator[Any] | Sequence[Any], taken: Sequence[str]) -> list[str]:
        """Names for new attributes, none of them taken."""
        used, made = {t.lower() for t in taken}, []
        for attribute in attributes:
            name, number = attribute.name(), 1
            while name.lower() in used:
                number += 1
                name = f"{attribute.name()}_{number}"
            used.add(name.lower())
            self._names[attribute.exprId().id()] = name
            made.append(name)
        return made

    def _columns(self, plan: Any) -> list[str]:
        return list(dict.fromkeys(self._names[a.exprId().id()] for a in items(plan.output())))

    def _project(self, plan: Any) -> str:
        source = self._relation(plan.child())
        return f"SELECT {self._listed(plan.projectList(), plan.child())} FROM {source}"

    def _aggregate(self, plan: Any) -> str:
        source = self._relation(plan.child())
        by = ", ".join(self._expression(e) for e in items(plan.groupingExpressions()))
        return f"SELECT {self._listed(plan.aggregateExpressions(), None)} FROM {source}" + (f" GROUP BY {by}" if by else "")

    def _window(self, plan: Any) -> str:
        source = self._relation(plan.child())
        return f"SELECT *, {self._listed(plan.windowExpressions(), None, self._columns(plan.child()))} FROM {source}"

    def _listed(self, expressions: Any, child: Any, taken: Sequence[str] = ()) -> str:
        """A SELECT list; `*` for all columns of the child in front, where they are."""
        each = list({e.exprId().id(): e for e in items(expressions)}.values())  # Spark repeats windows' columns
        kept = [e for e in each if e.nodeName() == "AttributeReference"]
        made = [e for e in each if e.nodeName() != "AttributeReference"]
        texts = {e.exprId().id(): self._expression(e.child()) for e in made}  # before their names are known
        self._fresh(made, [*taken, *(self._names[e.exprId().id()] for e in kept)])
        parts = []
        for e in each:
            name, text = quoted(self._names[e.exprId().id()]), texts.get(e.exprId().id())
            parts.append(name if text is None or text == name else f"{text} AS {name}")
        front = [quoted(n) for n in self._columns(child)] if child is not None else []
        return ", ".join(["*", *parts[len(front) :]] if front and parts[: len(front)] == front else parts)

    def _filter(self, plan: Any) -> str:
        return f"SELECT * FROM {self._relation(plan.child())} WHERE {self._expression(plan.condition())}"

    def _sort(self, plan: Any) -> str:
        by = "ORDER" if getattr(plan, "global")() else "SORT"
        source = self._relation(plan.child())
        return f"SELECT * FROM {source} {by} BY {', '.join(self._expression(o) for o in items(plan.order()))}"

    def _spread_by(self, plan: Any) -> str:
        source, by = self._relation(plan.child()), [self._expression(e) for e in items(plan.partitionExpressions())]
        return f"SELECT * FROM {source} DISTRIBUTE BY {', '.join(by)}" if by else f"SELECT * FROM {source}"

    def _spread(self, plan: Any) -> str:
        return f"SELECT /*+ REPARTITION({plan.numPartitions()}) */ * FROM {self._relation(plan.child())}"

    def _deduplicate(self, plan: Any) -> str:
        source = self._relation(plan.child())
        if plan.keys().length() != plan.output().length():
            raise Unprintable("dropDuplicates of some columns")
        return f"SELECT DISTINCT * FROM {source}"

    def _distinct(self, plan: Any) -> str:
        return f"SELECT DISTINCT * FROM {self._relation(plan.child())}"

    def _union(self, plan: Any) -> str:
        parts = []
        for child in items(plan.children()):
            source = self._relation(child)
            parts.append((source, [quoted(self._names[a.exprId().id()]) for a in items(child.output())]))
        self._fresh([a for a in items(plan.output()) if a.exprId().id() not in self._names], ())
        return " UNION ALL ".join(f"SELECT {', '.join(columns)} FROM {source}" for source, columns in parts)

    def _join(self, plan: Any) -> str:
        left = self._relation(plan.left())
        mine, right = self._columns(plan.left()), self._relation(plan.right())
        theirs, others = self._columns(plan.right()), list(items(plan.right().output()))
        if {n.lower() for n in mine} & {n.lower() for n in theirs}:
            self._fresh(others, mine)
            now = self._columns(plan.right())
            renamed = ", ".join(f"{quoted(a)} AS {quoted(b)}" for a, b in zip(theirs, now, strict=True))
            right = self._cte(f"SELECT {renamed} FROM {right}", "columns")
        on = f" ON {self._expression(plan.condition().get())}" if plan.condition().isDefined() else ""
        return f"SELECT * FROM {left} {plan.joinType().sql()} JOIN {right}{on}"

    def _generate(self, plan: Any) -> str:
        source = self._relation(plan.child())
        text = self._expression(plan.generator())
        names = self._fresh(items(plan.generatorOutput()), self._columns(plan.child()))
        outer = "OUTER " if plan.outer() else ""
        return f"SELECT * FROM {source} LATERAL VIEW {outer}{text} {self._name('each')} AS {', '.join(map(quoted, names))}"

    # -- expressions

    def _expression(self, e: Any) -> str:
        kind = e.getClass().getSimpleName()
        if kind == "AttributeReference":
            name = self._names.get(e.exprId().id())
            if name is None:
                raise Unprintable(f"column {e.name()} of elsewhere")
            return quoted(name)
        if kind in NOT_SQL:
            raise Unprintable("a kernel, which runs in Python" if kind == "PythonUDF" else f"{e.prettyName()}, which runs in the JVM")
        if self._inherits.isInstance(e):  # its parameters may be older than what the analyzer made of its replacement, as with nullif()
            try:
                return self._expression(e.replacement())
            except Unprintable:
                return f"{e.prettyName()}({', '.join(self._expression(p) for p in items(e.parameters()))})"
        if kind in EXPRESSIONS:
            return EXPRESSIONS[kind](self, e)
        if kind in TRANSPARENT:
            return self._expression(e.child())
        if kind in TRYING and e.evalMode().toString() == "TRY":  # prints itself as the operator that fails
            return f"{TRYING[kind]}({', '.join(self._expression(c) for c in items(e.children()))})"
        children = list(items(e.children()))
        if not children:
            return str(e.sql())
        raw = [self._pretty(self._expression(c), c.dataType()) if c.resolved() else c for c in children]
        return str(e.withNewChildren(self._seq(raw)).sql())

    def _constant(self, e: Any) -> str:
        kind = e.dataType().sql()
        if e.value() is None:
            return "NULL" if kind == "VOID" else f"CAST(NULL AS {kind})"
        if kind == "STRING":
            return literal(e.value().toString())
        if kind == "TIMESTAMP":  # its text would mean another moment in another time zone
            return f"timestamp_micros({e.value()}L)"
        return str(e.sql())

    def _cast(self, e: Any) -> str:
        if e.dataType().sql() == "VOID":
            return self._expression(e.child())
        trying = "TRY_" if e.evalMode().toString() == "TRY" else ""
        return f"{trying}CAST({self._expression(e.child())} AS {e.dataType().sql()})"

    def _raise_error(self, e: Any) -> str:
        parameters = e.errorParms()
        texts = [self._expression(c) for c in items(parameters.children())] if parameters.nodeName() == "CreateMap" else []
        if len(texts) != 2:
            raise Unprintable("raise_error with parameters")
        return f"raise_error({texts[1]})"

    def _named_struct(self, e: Any) -> str:
        return f"named_struct({', '.join(self._expression(c) for c in items(e.children()))})"

    def _field(self, e: Any) -> str:
        inner = self._expression(e.child())
        inner = inner if e.child().nodeName() in ("AttributeReference", "NamedLambdaVariable", "GetStructField") else f"({inner})"
        return f"{inner}.{quoted(e.extractFieldName())}"

    def _lambda(self, e: Any) -> str:
        self._depth += 1
        for argument in items(e.arguments()):
            name = f"{argument.name()}_{self._depth}"
            while not self._free(name):  # a column of the user's
                name += "_"
            self._names[argument.exprId().id()] = name
        arguments = [self._variable(a) for a in items(e.arguments())]
        head = arguments[0] if len(arguments) == 1 else f"({', '.join(arguments)})"  # in parentheses, one is no list
        text = f"{head} -> {self._expression(e.function())}"
        self._depth -= 1
        return text

    def _variable(self, e: Any) -> str:
        return quoted(self._names[e.exprId().id()])

    def _with(self, e: Any) -> str:
        self._common |= {str(d.id().toString()): self._expression(d.child()) for d in items(e.defs())}
        return self._expression(e.child())

    def _reference(self, e: Any) -> str:
        return f"({self._common[str(e.id().toString())]})"

    def _subquery(self, e: Any) -> str:
        return f"(SELECT * FROM {self._relation(e.plan())})"

    def _aggregated(self, e: Any) -> str:
        function = e.aggregateFunction()
        text, kind = self._expression(function), function.getClass().getSimpleName()
        if kind in ("First", "Last") and function.ignoreNulls():
            text = f"{text[:-1]}, true)"  # else lost
        if e.isDistinct():
            text = text.replace("(", "(DISTINCT ", 1)
        return text + (f" FILTER (WHERE {self._expression(e.filter().get())})" if e.filter().isDefined() else "")

    def _over(self, e: Any) -> str:
        spec, function = e.windowSpec(), e.windowFunction()
        kind = function.getClass().getSimpleName()
        offset = kind in ("Lag", "Lead")
        if offset:  # prints itself with a negative offset and a frame, which no parser takes
            parts = [function.input(), function.inputOffset() if kind == "Lag" else function.offset(), function.default()]
            text = f"{kind.lower()}({', '.join(self._expression(p) for p in parts)})" + (" IGNORE NULLS" if function.ignoreNulls() else "")
        else:
            text = self._expression(function)
        by = [self._expression(p) for p in items(spec.partitionSpec())]
        order = [self._expression(o) for o in items(spec.orderSpec())]
        frame = [] if offset else [spec.frameSpecification().sql()]
        parts = [f"PARTITION BY {', '.join(by)}"] * bool(by) + [f"ORDER BY {', '.join(order)}"] * bool(order) + frame
        return f"{text} OVER ({' '.join(parts)})"


OPERATORS: dict[str, tuple[str, Callable[[Printer, Any], str]]] = {  # what their CTEs are called, and who prints them
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
}
EXPRESSIONS: dict[str, Callable[[Printer, Any], str]] = {
    "Literal": Printer._constant,
    "Cast": Printer._cast,
    "RaiseError": Printer._raise_error,
    "CreateNamedStruct": Printer._named_struct,
    "GetStructField": Printer._field,
    "LambdaFunction": Printer._lambda,
    "NamedLambdaVariable": Printer._variable,
    "With": Printer._with,
    "CommonExpressionRef": Printer._reference,
    "ScalarSubquery": Printer._subquery,
    "AggregateExpression": Printer._aggregated,
    "WindowExpression": Printer._over,
}
