"""Analysed expressions of Spark's as SQL text.

Most print themselves, around the text of their children. Those that print what no parser takes, or what means something else, in this or
another session, are here, each in a method. One that has more to it than its children, and is not here, has no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from streamtime.plain.trees import Node, Operator, Trees
from streamtime.sql.syntax.text import literal, quoted

LOWEST = -(2**63)
TRANSPARENT = ("Alias", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "SQLScalarFunction")
NOT_SQL = ("TryEval", "StaticInvoke", "Invoke", "PythonUDF", "ScalaUDF", "NewInstance", "PythonUDAF", "OuterReference")
QUERIES = ("Exists", "ListQuery", "InSubquery", "LateralSubquery")
OPEN = (  # print themselves without parentheses
    "Like", "TimeAdd", "TimeAddInterval", "TimestampAddInterval", "TimestampAddYMInterval", "DateAddInterval", "DateAddYMInterval",
    "SubtractTimes",
)  # fmt: skip
WITH_OPTIONS = {"StructsToJson": "to_json", "StructsToCsv": "to_csv", "StructsToXml": "to_xml"}
WITH_OPTIONS |= {"SchemaOfJson": "schema_of_json", "SchemaOfCsv": "schema_of_csv", "SchemaOfXml": "schema_of_xml"}
PRECISE = {("TIMESTAMP", "BIGINT"): "unix_micros", ("BIGINT", "TIMESTAMP"): "timestamp_micros"}  # what `window` is made of
BACKSLASH = "\\"  # escapes in patterns, where nothing else is said
WITH_SCHEMA = {"JsonToStructs": "from_json", "CsvToStructs": "from_csv", "XmlToStructs": "from_xml"}
PATTERNS = {"LikeAll": "LIKE ALL", "LikeAny": "LIKE ANY", "NotLikeAll": "NOT LIKE ALL", "NotLikeAny": "NOT LIKE ANY"}
TYPED = ("ParseToTimestamp", "MakeTimestamp")  # say by their names which type they give
ANY_ZONE = re.compile(r"(?<![\w`])TIMESTAMP(?![\w`:])")  # and no field of that name
PARTS = {  # of a time or an interval, whose names are no functions
    "SecondWithFraction": "SECOND",
    "YearOfWeek": "YEAROFWEEK",
    **{f"ExtractANSIInterval{unit}s": unit.upper() for unit in ("Year", "Month", "Day", "Hour", "Minute", "Second")},
}
PRECEDING = re.compile(r"-(\d+)L? FOLLOWING")
TRYING = {"Add": "try_add", "Subtract": "try_subtract", "Multiply": "try_multiply", "Divide": "try_divide", "Remainder": "try_mod"}


class Unprintable(Exception):
    """What SQL has no words for."""


class ExpressionPrinter:
    """Prints expressions. Columns keep their names, and get a number where two would share one.

    `free` says whether nothing in the statement has a name yet. `local`: in this session TIMESTAMP is a type without a time zone.
    """

    def __init__(self, gateway: Any, free: Callable[[str], bool], local: bool = False) -> None:
        self._free, self._local = free, local
        self._trees = Trees(gateway)
        self._names: dict[int, str] = {}  # of attributes, by expression id
        self._in_it: dict[int, str] = {}  # window functions that stand where their columns would, by the columns' ids
        self._taken: set[str] = set()  # names of columns, in lower case
        self._common: dict[str, str] = {}  # expressions that others refer to
        self._depth = 0  # of lambda functions around what is printed

    def _relation(self, plan: Operator) -> str:
        """The name of what has the rows of an operator."""
        raise NotImplementedError

    def _list(self, seq: Any) -> list[str]:
        return [self._expression(e) for e in self._trees.expressions(seq)]

    def _expression(self, e: Node) -> str:
        if e.kind == "AttributeReference":
            if e.id in self._in_it:
                return self._in_it[e.id]
            if e.id not in self._names:
                raise Unprintable(f"column {e.name} of elsewhere")
            return quoted(self._names[e.id])
        if e.kind in NOT_SQL:
            raise Unprintable("a kernel, which runs in Python" if e.kind == "PythonUDF" else f"{e.jvm.prettyName()}, which runs in the JVM")
        if e.kind == "VariableReference":
            raise Unprintable("a session variable in an expression; write its value there, or give it as an option's whole value")
        if e.kind in QUERIES:
            raise Unprintable("a subquery in an option")
        if e.stands_for:
            return self._replaced(e)
        if e.kind in EXPRESSIONS:
            return EXPRESSIONS[e.kind](self, e)
        if e.kind in TRANSPARENT:
            return self._expression(e.children[0])
        if e.more and e.kind not in TYPED:
            raise Unprintable(f"{e.jvm.prettyName()}(), which does not say all that it does")
        texts = [self._expression(child) for child in e.children]
        if e.kind in TRYING and e.tries:  # prints itself as the operator that fails
            return f"{TRYING[e.kind]}({', '.join(texts)})"
        return f"({e.sql(*texts)})" if e.kind in OPEN else e.sql(*texts)

    def _replaced(self, e: Node) -> str:
        """A function that stands for another expression, which prints as it is; but where the function gives NULL, that does not say so."""
        function, (meant,) = str(e.jvm.prettyName()), e.children
        if meant.tries or not function.startswith("try_"):
            try:
                return self._expression(meant)
            except Unprintable:
                pass
        parameters = self._trees.expressions(e.jvm.parameters())
        if any(p.kind.startswith("Unresolved") for p in parameters):  # they may be older than what the analyzer made of its meaning
            raise Unprintable(f"{function}(), whose arguments are not known any more")
        return f"{function}({', '.join(map(self._expression, parameters))})"

    def _type(self, e: Node) -> str:
        return self._zoned(e.type)

    def _zoned(self, kind: str) -> str:
        """A type's text, which means the same where TIMESTAMP has no time zone."""
        return ANY_ZONE.sub("TIMESTAMP_LTZ", kind) if self._local else kind

    def _constant(self, e: Node) -> str:
        if e.value is None:
            return "NULL" if e.type == "VOID" else f"CAST(NULL AS {self._type(e)})"
        if e.type == "STRING":
            return literal(e.value)
        if e.type == "BIGINT" and int(e.value) == LOWEST:  # few parsers read it
            return f"({LOWEST + 1}L - 1L)"
        if e.type == "TIMESTAMP":  # its text would mean another moment in another time zone
            return f"timestamp_micros({e.value}L)"
        return e.sql()

    def _cast(self, e: Node) -> str:
        inner = self._expression(e.children[0])
        return inner if e.type == "VOID" else f"{'TRY_' if e.tries else ''}CAST({inner} AS {self._type(e)})"

    def _raise_error(self, e: Node) -> str:
        parameters = e.children[1]
        texts = [self._expression(c) for c in parameters.children] if parameters.kind == "CreateMap" else []
        if len(texts) != 2:
            raise Unprintable("raise_error with parameters")
        return f"raise_error({texts[1]})"

    def _part(self, e: Node) -> str:
        return f"extract({PARTS[e.kind]} FROM {self._expression(e.children[0])})"

    def _with_options(self, e: Node) -> str:
        return f"{WITH_OPTIONS[e.kind]}({', '.join([self._expression(e.children[0]), *_options(e)])})"

    def _with_schema(self, e: Node) -> str:
        schema = literal(self._zoned(str(e.jvm.schema().sql())))
        return f"{WITH_SCHEMA[e.kind]}({', '.join([self._expression(e.children[0]), schema, *_options(e)])})"

    def _precise(self, e: Node) -> str:
        kinds = str(e.jvm.fromType().sql()), str(e.jvm.toType().sql())
        if kinds not in PRECISE or self._local:
            raise Unprintable("window() of a time without a time zone")
        return f"{PRECISE[kinds]}({self._expression(e.children[0])})"

    def _item(self, e: Node) -> str:
        """Spark 4.0 prints both as the operator, which fails where there is no such item."""
        items, place = map(self._expression, e.children)
        return e.sql(items, place) if e.jvm.failOnError() else f"get({items}, {place})"

    def _variant_get(self, e: Node) -> str:
        texts = [*map(self._expression, e.children), literal(self._zoned(str(e.jvm.targetType().sql())))]
        return f"{'' if e.jvm.failOnError() else 'try_'}variant_get({', '.join(texts)})"

    def _ilike(self, e: Node) -> str:
        (text, pattern), escape = map(self._expression, e.children), str(e.jvm.escapeChar())
        return f"({text} ILIKE {pattern}{'' if escape == BACKSLASH else f' ESCAPE {literal(escape)}'})"

    def _like_some(self, e: Node) -> str:
        patterns = e.jvm.patterns()
        texts = [patterns.apply(i) for i in range(patterns.length())]
        said = ", ".join("NULL" if text is None else literal(str(text.toString())) for text in texts)
        return f"({self._expression(e.children[0])} {PATTERNS[e.kind]} ({said}))"

    def _collate(self, e: Node) -> str:
        inner, collation = e.children  # as a function it is Spark's alone
        return f"({self._expression(inner)} COLLATE {collation.sql()})"

    def _named_struct(self, e: Node) -> str:
        return f"named_struct({', '.join(self._expression(c) for c in e.children)})"

    def _field(self, e: Node) -> str:
        inner = self._expression(e.children[0])
        alone = (
            e.children[0].kind in ("AttributeReference", "NamedLambdaVariable", "GetStructField") and e.children[0].id not in self._in_it
        )
        inner = inner if alone else f"({inner})"
        return f"{inner}.{quoted(e.name)}"

    def _lambda(self, e: Node) -> str:
        self._depth += 1
        function, *arguments = e.children
        for argument in arguments:
            name = f"{argument.name}_{self._depth}"
            while not self._free(name) or name.lower() in self._taken:  # a column of the user's
                name += "_"
            self._names[argument.id] = name
        names = [self._variable(a) for a in arguments]
        head = names[0] if len(names) == 1 else f"({', '.join(names)})"  # in parentheses, one is no list
        try:
            return f"{head} -> {self._expression(function)}"
        finally:
            self._depth -= 1

    def _variable(self, e: Node) -> str:
        return quoted(self._names[e.id])

    def _with(self, e: Node) -> str:
        child, *definitions = e.children
        self._common |= {str(d.jvm.id().toString()): self._expression(d.children[0]) for d in definitions}
        return self._expression(child)

    def _reference(self, e: Node) -> str:
        return f"({self._common[str(e.jvm.id().toString())]})"

    def _subquery(self, e: Node) -> str:
        around, self._in_it = self._in_it, {}
        name = self._relation(self._trees.operator(e.jvm.plan()))
        self._in_it = around
        return f"(SELECT * FROM {name})"

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


def _options(e: Node) -> list[str]:
    """The options of a function, which are no children, as its last argument; none where it has none."""
    options, given = e.jvm.options().iterator(), list[str]()
    while options.hasNext():
        pair = options.next()
        given += [literal(str(pair._1())), literal(str(pair._2()))]
    return [f"map({', '.join(given)})"] if given else []


EXPRESSIONS: dict[str, Callable[[ExpressionPrinter, Node], str]] = {
    "Literal": ExpressionPrinter._constant,
    "Cast": ExpressionPrinter._cast,
    "RaiseError": ExpressionPrinter._raise_error,
    "Collate": ExpressionPrinter._collate,
    "CreateNamedStruct": ExpressionPrinter._named_struct,
    "GetStructField": ExpressionPrinter._field,
    "LambdaFunction": ExpressionPrinter._lambda,
    "NamedLambdaVariable": ExpressionPrinter._variable,
    "With": ExpressionPrinter._with,
    "CommonExpressionRef": ExpressionPrinter._reference,
    "PreciseTimestampConversion": ExpressionPrinter._precise,
    "GetArrayItem": ExpressionPrinter._item,
    "VariantGet": ExpressionPrinter._variant_get,
    "ILike": ExpressionPrinter._ilike,
    **dict.fromkeys(WITH_OPTIONS, ExpressionPrinter._with_options),
    **dict.fromkeys(WITH_SCHEMA, ExpressionPrinter._with_schema),
    **dict.fromkeys(PATTERNS, ExpressionPrinter._like_some),
    "ScalarSubquery": ExpressionPrinter._subquery,
    "AggregateExpression": ExpressionPrinter._aggregated,
    "WindowExpression": ExpressionPrinter._over,
    **dict.fromkeys(PARTS, ExpressionPrinter._part),
}
