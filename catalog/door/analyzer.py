"""The analyzer door: Spark's analyzer calls a plan function while it resolves a table function.

How a call runs: the analyzer hands over the arguments. A plan that is a chain of operators over its input goes back as just that chain
(`streamtime.door.planframe`). Otherwise the rows of a TABLE argument become a DataFrame over a CTE reference whose definition is empty for
now; the plan function builds on that; afterwards the empty definition is dropped and the real one put in its place. So a plan may use
its input several times, and Spark itself re-aliases, inlines and shares it. Errors leave as Spark's own AnalysisException.

A call that reads the result of another was analysed after it. It may take its place: `Bound.made_by` says which call made the input
(`streamtime.door.results`), and one plan is made for both; then the inner call's own plan is part of nothing.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession

from streamtime.describe import Description
from streamtime.door.callbacks import guard
from streamtime.door.inputs import Inputs, items
from streamtime.door.planframe import Nodes, Operator, PlanFrame
from streamtime.door.results import Results
from streamtime.shelf import FUNCTIONS
from streamtime.sparks import spark_version
from streamtime.sql.call.binding import bind
from streamtime.sql.call.errors import TOO_DEEP, CallError, not_computed, not_constant, too_deep, unlogged
from streamtime.sql.call.spec import Bound, Spec
from streamtime.sql.call.values import Expression, Origin, Sort, Table, Value
from streamtime.sql.tables.classes import refuse_foreign
from streamtime.version import VERSION

MOST_SESSIONS = 32
REPORT = "Please report it with this query."
FREE_TEXT = "_LEGACY_ERROR_TEMP_3102"  # Spark's error condition whose text is its one parameter, `msg`

JVM_CLASSES = {
    "dataset": "org.apache.spark.sql.classic.Dataset",
    "session": "org.apache.spark.sql.classic.SparkSession",
    "expressions": "org.apache.spark.sql.classic.ExpressionUtils",
    "info": "org.apache.spark.sql.catalyst.expressions.ExpressionInfo",
    "analysis_exception": "org.apache.spark.sql.AnalysisException",
    "star": "org.apache.spark.sql.catalyst.analysis.UnresolvedStar",
    "filter": "org.apache.spark.sql.catalyst.plans.logical.Filter",
    "project": "org.apache.spark.sql.catalyst.plans.logical.Project",
    "alias": "org.apache.spark.sql.catalyst.expressions.Alias",
    "known_not_null": "org.apache.spark.sql.catalyst.expressions.KnownNotNull",
    "repartition": "org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression",
    "together": "org.apache.spark.sql.catalyst.plans.logical.Repartition",
    "sort": "org.apache.spark.sql.catalyst.plans.logical.Sort",
    "option": "scala.Option",
    "map": "scala.collection.immutable.Map$",
    "python_utils": "org.apache.spark.api.python.PythonUtils",
}


REFUSAL = re.compile(rf"({'|'.join(s.name for s in FUNCTIONS)})[,:] ")


class CarriedError(Py4JJavaError):  # type: ignore[misc]
    """Carries a JVM exception from a callback to the analyzer."""

    def __init__(self, java_exception: Any) -> None:
        super().__init__("", java_exception)


class Builder:
    """A table function builder. `Function.call` may throw checked exceptions, so an AnalysisException passes through it intact."""

    class Java:
        """The Java interface of this Py4J proxy."""

        implements = ("org.apache.spark.api.java.function.Function",)

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build = build

    def call(self, arguments: Any) -> Any:
        """Seq[Expression] to LogicalPlan."""
        return self.build(arguments)

    def toString(self) -> str:
        """For logs and debuggers."""
        return "streamtime table function"


class DropPlaceholder:
    """scala.PartialFunction over plan nodes: removes the empty definitions that stood in for the inputs."""

    class Java:
        """The Java interface of this Py4J proxy."""

        implements = ("scala.PartialFunction",)

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = set(ids)

    def isDefinedAt(self, _node: Any) -> bool:
        """Every node may be asked about."""
        return True

    def apply(self, node: Any) -> Any:
        """The node without its placeholder."""
        if node.nodeName() == "WithCTE" and all(d.id() in self.ids for d in items(node.cteDefs())):
            return node.plan()
        return node

    def applyOrElse(self, node: Any, _default: Any) -> Any:
        """As `apply`."""
        return self.apply(node)

    def toString(self) -> str:
        """For logs and debuggers."""
        return "streamtime placeholder"


class QuietRefusals(logging.Filter):
    """A refused call is the caller's to read, not the log's: without this, Py4J and PySpark each log it with a page of traceback."""

    LOGGERS = ("py4j.clientserver", "SQLQueryContextLogger")

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a refusal."""
        error = record.exc_info[1] if record.exc_info else None
        return not (isinstance(error, CarriedError) or REFUSAL.match(record.getMessage()))

    def attach(self) -> None:
        """Start to listen."""
        PySparkLogger.getLogger("SQLQueryContextLogger")  # makes it, in PySpark's own class
        for name in self.LOGGERS:
            logging.getLogger(name).addFilter(self)

    def detach(self) -> None:
        """Leave no trace."""
        for name in self.LOGGERS:
            logging.getLogger(name).removeFilter(self)


@dataclass
class PlansRead:
    """What the plan of a call may read: plans of TABLE arguments by the numbers of their CTEs, and which of these it does."""

    plans: list[tuple[int, Any]] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    of_others: bool = False  # whether it may read the input of the call that made its own


class AnalyzerDoor:
    """Registers functions with Spark's registries: of the session at hand, and of every later session of this driver."""

    def __init__(self, spark: SparkSession) -> None:
        self.version = version = spark_version(spark.version)
        self.spark = spark
        context = spark.sparkContext
        self.gateway: Any = context._gateway
        self.jvm: Any = context._jvm
        guard(self.gateway)
        self.looked_up: dict[str, Any] = {}
        callbacks = self.gateway.callback_server_parameters  # type: ignore[union-attr]
        self.propagated = callbacks.propagate_java_exceptions
        callbacks.propagate_java_exceptions = True  # else a refusal arrives as a Python traceback
        self.quiet = QuietRefusals()
        self.quiet.attach()
        self.classes = {short: self._class(name) for short, name in JVM_CLASSES.items()}
        self.none = self.classes["option"].empty()
        convert = self._module("org.apache.spark.sql.classic.ColumnNodeToExpressionConverter").apply
        self.nodes = Nodes(self.classes, convert, self._seq, self.none)
        self.active, self.column = self.classes["session"].active, self.classes["expressions"].column
        self.inputs = Inputs(self.jvm, version)
        self.new_expression_id = self._module("org.apache.spark.sql.catalyst.expressions.NamedExpression").newExprId
        self.full_function_names = version.full_function_names
        self.sessions: dict[str, SparkSession] = {}
        self.results = Results()
        self.alive: dict[str, tuple[Any, Any]] = {}  # the JVM holds no strong reference to Python objects
        self.closed = False

    def _class(self, name: str) -> Any:
        """Looked up once: Py4J asks the JVM for each part of the name, and the JVM looks through all its jars."""
        if name not in self.looked_up:
            member: Any = self.jvm
            for part in name.split("."):
                member = getattr(member, part)
            self.looked_up[name] = member
        return self.looked_up[name]

    def _module(self, name: str) -> Any:
        return getattr(self._class(name + "$"), "MODULE$")

    def _seq(self, values: Sequence[Any]) -> Any:
        return self.classes["python_utils"].toSeq(list(values))

    def add(self, spec: Spec, description: Description) -> None:
        """Register a function in both registries."""
        builder = Builder(lambda arguments: self._build(spec, arguments))
        function = self._module("org.apache.spark.api.java.JavaPairRDD").toScalaFunction(builder)
        info = self.classes["info"](
            f"streamtime.{spec.name}", None, spec.name.lower(), description.usage, description.arguments, description.examples,
            description.note, "table_funcs", VERSION, "", "built-in",
        )  # fmt: skip
        self.alive[spec.name] = (builder, function)
        for registry in self._registries():
            registry.registerFunction(self._identifier(spec.name), info, function)

    def close(self) -> None:
        """Remove every function, and restore what registering changed."""
        for name in self.alive:
            for registry in self._registries():
                registry.dropFunction(self._identifier(name))
        self.gateway.callback_server_parameters.propagate_java_exceptions = self.propagated
        self.quiet.detach()
        self.results.clear()
        self.closed = True

    def has(self, spark: SparkSession, name: str) -> bool:
        """Whether that session's registry has our function."""
        entry = spark._jsparkSession.sessionState().tableFunctionRegistry().lookupFunction(self._identifier(name))
        return bool(entry.isDefined() and entry.get().getClassName() == f"streamtime.{name}")

    def join(self, spark: SparkSession, specs: Sequence[tuple[Spec, Description]]) -> None:
        """Register in a session that was opened before the pack was."""
        self.spark = spark
        for spec, description in specs:
            self.add(spec, description)

    def _registries(self) -> list[Any]:
        builtin = self._module("org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry").builtin()
        return [builtin, self.spark._jsparkSession.sessionState().tableFunctionRegistry()]

    def _identifier(self, name: str) -> Any:
        if not self.full_function_names:
            return self._class("org.apache.spark.sql.catalyst.FunctionIdentifier")(name.lower())
        registry = self._module("org.apache.spark.sql.catalyst.analysis.FunctionRegistry")
        return registry.builtinFunctionIdentifier(name.lower())

    # -- one call

    def _build(self, spec: Spec, arguments: Any) -> Any:
        try:
            if self.closed:  # a session that was opened in between still has the function: take it out there too
                self.active().sessionState().tableFunctionRegistry().dropFunction(self._identifier(spec.name))
                self.gateway.callback_server_parameters.propagate_java_exceptions = True
                raise CallError(spec.name, None, "streamtime was unregistered", "Call streamtime.register(spark).")
            return self._plan(spec, arguments)
        except CallError as error:
            raise CarriedError(self._analysis_exception(str(error))) from None
        except CapturedException as error:  # Spark's own, which PySpark turned into a Python one
            raise CarriedError(error._origin or self._analysis_exception(f"{spec.name}: {error}")) from None
        except Py4JJavaError as error:
            if too_deep(error):
                refused = CallError(spec.name, None, f"an expression {TOO_DEEP}", "Take it apart in the TABLE argument.")
                raise CarriedError(self._analysis_exception(str(refused))) from None
            raise CarriedError(error.java_exception) from None
        except Exception as error:
            logging.getLogger("streamtime").debug("%s failed", spec.name, exc_info=True)
            inside = CallError(spec.name, None, f"an error inside streamtime, {type(error).__name__}: {error}", REPORT)
            raise CarriedError(self._analysis_exception(str(inside))) from None

    def _analysis_exception(self, message: str) -> Any:
        no_context = self.gateway.new_array(self.jvm.org.apache.spark.QueryContext, 0)
        parameters = getattr(self.classes["map"], "MODULE$").empty().updated("msg", message)
        none, condition = self.none, self.classes["option"].apply(FREE_TEXT)
        return self.classes["analysis_exception"](message, none, none, none, condition, parameters, no_context)

    def _plan(self, spec: Spec, arguments: Any) -> Any:
        read = PlansRead()
        planned: Any = spec.plan(self._bound(spec, arguments, self._session(), read))
        if isinstance(planned, PlanFrame):
            if not read.used:  # a chain over the input: the analyzer resolves it as it is
                return self.results.remember(planned.on(planned.plan), spec, arguments)
            planned = planned.frame()
        result = planned._jdf.queryExecution().analyzed()
        plans = [(cte, plan) for cte, plan in read.plans if cte in read.used or not read.of_others]
        if not plans:
            return result
        result = result.transformDownWithSubqueries(DropPlaceholder([cte for cte, _ in plans]))
        return self.results.remember(self.inputs.defined(result, plans), spec, arguments)

    def _bound(self, spec: Spec, arguments: Any, session: SparkSession, read: PlansRead) -> Bound:
        """The call, checked."""
        tables: list[Table] = []
        inputs: list[Any] = []
        options: list[tuple[str | None, Value]] = []
        for argument in items(arguments):
            name, kind = None, argument.nodeName()
            if kind == "NamedArgumentExpression":
                name, argument = argument.key(), argument.value()
                kind = argument.nodeName()
            if kind == "FunctionTableSubqueryArgumentExpression":
                inputs.append(argument.plan())
                tables.append(self._table(session, argument, inputs[-1], read, name))
                refuse_foreign(tables[-1].df, spec.name)
            else:
                options.append((name, self._value(spec, name, argument)))
        call = bind(spec, tables, options, session, lambda df, origins, present: self._as_inputs(df, inputs, origins, present))
        return replace(call, made_by=lambda: self._made_by(inputs[0], session, read))

    def _made_by(self, plan: Any, session: SparkSession, read: PlansRead) -> Bound | None:
        """The call whose result a plan is, over the same input: a plan function may take that in place of the result."""
        made = self.results.call_of(plan)
        if made is None:
            return None
        read.of_others = True
        return self._bound(*made, session, read)

    def _as_inputs(self, df: DataFrame, inputs: Sequence[Any], origins: Sequence[Origin], present: bool) -> DataFrame:
        """With the qualifiers of input columns, and never null where they are not: of the first input, and of all where `present`."""
        plan: Any = cast(Any, df)._jdf.queryExecution().analyzed()
        sources = [list(items(i.output())) for i in inputs]
        columns = []
        for number, attribute in enumerate(items(plan.output())):
            if number < len(origins):
                table, number_there = origins[number]
                source = sources[table][number_there]
                known = not source.nullable() and attribute.nullable() and (present or not table)
                value = self.classes["known_not_null"](attribute) if known else attribute
                metadata = self.classes["option"].apply(attribute.metadata())
                new = self.new_expression_id()
                attribute = self.classes["alias"](value, attribute.name(), new, source.qualifier(), metadata, self._seq([]))
            columns.append(attribute)
        named = self.classes["project"](self._seq(columns), plan)
        return DataFrame(self.classes["dataset"].ofRows(df.sparkSession._jsparkSession, named), df.sparkSession)

    def _session(self) -> SparkSession:
        """The session that is analysing: each client of a server has its own."""
        return self.session_of(self.active())

    def session_of(self, active: Any) -> SparkSession:
        """A session of the JVM, as PySpark has it."""
        key = active.sessionUUID()
        session = self.sessions.get(key)
        if session is None:
            if len(self.sessions) >= MOST_SESSIONS:  # a server's sessions come and go, and must not be kept alive from here
                self.sessions.clear()  # maybe by another thread, right after this one's was put there
            session = self.sessions[key] = SparkSession(SparkContext._active_spark_context, active)  # type: ignore[arg-type]
        return session

    def _table(self, session: SparkSession, argument: Any, plan: Any, read: PlansRead, name: str | None) -> Table:
        cte = self.inputs.new_id()
        read.plans.append((cte, plan))

        def become(operators: Operator) -> DataFrame:
            read.used.add(cte)
            placeholder = self.inputs.empty(plan, cte)
            return DataFrame(self.classes["dataset"].ofRows(session._jsparkSession, operators(placeholder)), session)

        frame: Any = PlanFrame(session, plan, become, self.nodes)
        keys = tuple(self._expression(e) for e in items(argument.partitionByExpressions()))
        order = tuple(self._sort(e) for e in items(argument.orderByExpressions()))
        return Table(frame, keys, order, name)

    def _expression(self, expression: Any) -> Expression:
        return Expression(expression.sql(), lambda: Column(self.column(expression)))

    def _sort(self, order: Any) -> Sort:
        read = Sort.parse(order.sql())  # one call into the JVM in place of six
        expression = Expression(read.expression.text, lambda: Column(self.column(order.child())))
        return Sort(expression, read.ascending, read.nulls_first)

    def _value(self, spec: Spec, name: str | None, expression: Any) -> Value:
        text = expression.sql()
        argument = f"`{name}`" if name else None
        if not expression.foldable():
            if name is None and expression.nodeName() == "ScalarSubquery":
                raise CallError(spec.name, None, "expected a TABLE argument, got a query without TABLE", "Write TABLE(SELECT ..).")
            raise not_constant(spec.name, argument, text)
        try:
            with unlogged():
                value = expression.eval(None)
        except (CapturedException, Py4JJavaError) as error:
            raise not_computed(spec.name, argument, text, error) from None
        kind = expression.dataType()
        return Value(self._python(value, kind), kind.sql(), text)

    def _python(self, value: Any, kind: Any) -> Any:
        sql = kind.sql()
        if value is None or isinstance(value, bool):
            return value
        if sql == "STRING" or sql.startswith("STRING "):
            return value.toString()
        if sql.startswith("INTERVAL ") and "MONTH" not in sql and "YEAR" not in sql:
            return datetime.timedelta(microseconds=value)
        if sql.startswith("ARRAY<"):
            element = kind.elementType()
            if not element.sql().startswith("STRING"):
                return [object()] * value.numElements()
            return [None if value.isNullAt(i) else value.getUTF8String(i).toString() for i in range(value.numElements())]
        return value if isinstance(value, (int, float)) else str(value)
