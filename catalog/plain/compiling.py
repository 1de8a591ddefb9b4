"""compile(): a statement with calls as one of plain Spark SQL, which needs no pack, no Python and no JAR where it runs.

Calls are found as `query` finds them, and the rest of the text stays as it is. What a plan function builds over the columns of its TABLE
argument is printed, an operator at a time (`streamtime.plain.printer`): so there is one truth for all doors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType

from streamtime.door.inputs import Inputs
from streamtime.plain import databricks
from streamtime.plain.ctes import DEEP
from streamtime.plain.expressions import Unprintable
from streamtime.plain.hidden_calls import refuse_what_stays, unordered
from streamtime.plain.printer import Printer
from streamtime.plain.tables import Given, Tables, with_tables
from streamtime.shelf import SPECS
from streamtime.sparks import spark_version
from streamtime.sql.call.errors import DOORS, CallError, listed
from streamtime.sql.call.remote import is_remote
from streamtime.sql.call.spec import Bound, Spec
from streamtime.sql.call.values import Table, Value
from streamtime.sql.syntax.tokens import Span
from streamtime.statements import constants, views
from streamtime.statements.calls import Call, Malformed, Statement, TableArgument, as_script, spoken
from streamtime.statements.query import Run, is_named, with_calls
from streamtime.version import VERSION

WORDS = re.compile(r"\w+")
QUERY = re.compile(r"\s*(\(|(SELECT|WITH|FROM|VALUES|TABLE|MAP|REDUCE)\b)", re.IGNORECASE)
DIALECTS = ("spark", "databricks")
SETTINGS = {  # that a text means something else in, and how they are said of themselves
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
TURNS = "spark.sql.analyzer.maxIterations"
DOUBTFUL = 0.42  # CTEs that stand on one another, for each of these turns: of a text with more, Spark's analyzer is asked
PROBES = (None, 1, "1")  # values of parameters in a TABLE argument, whose columns are asked for


def compile(  # noqa: A001 - a verb that users guess
    spark: SparkSession, text: str, *, dialect: str = "spark", tables: Tables | None = None, check: bool = False
) -> str:
    """A SQL text without the pack's functions that gives what this one gives: for SQL warehouses, BI tools, dbt, other people's sessions.

        streamtime.compile(spark, "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts)")

    Args:
        spark: a session with a JVM. Nothing is read: what must be known of the tables are their columns, which the session's catalog has.
        text: one statement, or several with semicolons between them. What is not a call stays as it is, parameters included. Those in a
            TABLE argument pass through, too, where no column's type depends on them; options and keys are no parameters.
        dialect: 'spark', or 'databricks': the text is the same, and a function that Databricks' manual lacks is refused. Such a function
            can only come from an expression of the call.
        tables: columns of tables that this session does not have, as CREATE TABLE takes them: `{"clicks": "user_id STRING, ts TIMESTAMP"}`.
            Or by name: `{"shop.clicks": {"user_id": "STRING", "ts": "TIMESTAMP"}}`; or a DB-API connection, which is asked: `{"clicks":
            connection}` runs DESCRIBE TABLE. Or the path of a JSON file with such an object. They stand in front of the session's own,
            for this text alone. Names are those of the text, with their schemas. Two may end in the same name, as `bronze.clicks`
            and `silver.clicks`, where no TABLE argument reads both.
        check: have Spark plan the plain text, too, in this session with these tables. Needs values for parameters, so there may be none.

    Returns:
        The text, each call a subquery in its place: WITH and a CTE for each step, below a comment that has the call and its columns. The
        same text over the same columns gives the same result, letter by letter. Columns and their types are those of today: compile
        again when they change.

    What can be compiled is what Spark's own operators do, which is nearly all: docs/plain.md has the table. A table's history, by
    TABLE_HISTORY or AS OF its commits, is that of the day: the text names the commits. The session in which the text runs should have the
    time zone and the ANSI mode of this one.

    Raises:
        AnalysisException: a call is wrong, as behind every door; or it needs a kernel, or a stream, which plain SQL has not; or the text
            would have a call all the same, in a view that it reads, say. The message says what, and which other doors there are.
            With `check`, Spark refuses the plain text.
        ValueError: there is no such dialect; or `tables` has something else than columns. The message says of which table, and what it
            should be.
    """
    if is_remote(spark):
        fix = "Compile in a local session, with the columns of the tables: streamtime.compile(spark, text, tables={'t': 'k STRING, ..'})."
        raise CallError("compile", "`spark`", "expected a session with a JVM, got one of Spark Connect", fix)
    if dialect not in DIALECTS:
        fix = f"There are {' and '.join(map(repr, DIALECTS))}."
        raise CallError("compile", "`dialect`", f"expected a dialect of SQL, got {dialect!r}", fix)
    given = with_tables(spark, tables)
    pieces = [Compiling(given, with_calls(given.session, piece), dialect).text() for piece in spoken(text)]
    for piece in pieces if check else ():
        rows = given.session.sql(f"EXPLAIN {_shown(given, piece)}").collect()
        plan = "\n".join(row[0] for row in rows)  # an error is a row for each of its lines
        if plan.startswith("Error occurred during query planning"):
            raise AnalysisException(f"compile: Spark refuses the plain text. {plan}")
    return pieces[0] if len(pieces) == 1 else as_script(pieces)


views.compilers.append(compile)


def _shown(given: Given, text: str) -> str:
    """A text that names the given tables' views, which are there. Raises CallError."""
    places, unqualified = given.named_in(Statement(text))
    given.refuse_ctes(Statement(unqualified), places, [(0, len(text))])
    given.show(name for _, name in places.values())
    return unqualified


class Compiling(Run):
    """One statement."""

    def __init__(self, given: Given, text: str, dialect: str) -> None:
        spark, self.written, self.dialect, self.tables = given.session, text, dialect, given
        self.places, unqualified = given.named_in(Statement(text))
        statement = Statement(unqualified)
        statement.qualified = self.places.keys()
        super().__init__(spark, statement, None)
        self.open = [t for t in statement.tokens if t.text == "?" or is_named(text, t)]  # parameters
        gateway: Any = spark.sparkContext._gateway
        jvm: Any = gateway.jvm
        words = {t.name for t in statement.tokens}
        strings = " ".join(t.text for t in statement.tokens if t.kind == "string")  # IDENTIFIER('a.b') is a table
        words |= {*WORDS.findall(strings.lower())}
        local = str(spark.conf.get("spark.sql.timestampType")).upper() == "TIMESTAMP_NTZ"
        self.printer = Printer(gateway, lambda name: name not in words, local)
        self.references, self.dataset = Inputs(jvm, spark_version(spark.version)), getattr(jvm, "org.apache.spark.sql.classic.Dataset")
        self.sources: list[DataFrame] = []  # those of the call at hand
        self.ids: list[int] = []  # .. and what stands for them in its plan
        self.call: Call | None = None
        self.gives = ""  # what it gives, in a word or two
        self.declarations: list[str] = []  # what it follows of what tables declare of themselves
        self.compiled: dict[Span, str] = {}  # calls
        self.depths: dict[Span, int] = {}  # .. and how many CTEs stand on one another in each

    def text(self) -> str:
        """Without its calls."""
        whole = (0, len(self.statement.text))
        refuse_what_stays(self.spark, self.statement, self.places.keys())
        try:
            calls = self.statement.calls(SPECS)
        except Malformed as unclear:
            state: Any = self.spark._jsparkSession.sessionState()
            state.sqlParser().parsePlan(self.written)  # Spark's parser says what is wrong, and runs nothing
            fix = "Write it as on the function's page: TABLE(..), its clauses, then options as name => value."
            error = CallError(unclear.function, None, "its arguments are not understood", fix)
            raise AnalysisException(f"{error}; {self.statement.position(unclear.start)}") from None
        for call in calls:
            for option in (o for o in call.options if self._parameters_in([o.span])):
                fix = "Write its value: what a call becomes depends on it."
                self._refuse(call, CallError(call.function, f"`{option.name}`", "a parameter cannot stand here", fix))
        self.place(calls, self._placed)
        made = self._rendered(whole)
        turns = int(str(self.spark.conf.get(TURNS)))
        if sum(self.depths.values()) > DOUBTFUL * turns:  # calls stand on one another through CTEs of the statement, too
            self._refuse_too_deep(made, turns)
        return made

    def _refuse_too_deep(self, made: str, turns: int) -> None:
        """Raises AnalysisException if Spark's analyzer runs out of turns. What else is wrong with the text is for others to find. With a
        parameter in a TABLE argument it ends sooner: nothing above that is looked at."""
        state: Any = self.spark._jsparkSession.sessionState()
        try:
            state.analyzer().execute(state.sqlParser().parsePlan(_shown(self.tables, made)))
        except Exception as error:  # the JVM's are of many kinds
            if TURNS not in str(error):
                return
        else:
            return
        call = next(c for c in self.statement.calls(SPECS) if self.depths.get(c.span) == max(self.depths.values()))
        problem = f"with the calls in it, its plain SQL is too deep for Spark's analyzer, which stops after {turns} turns ({TURNS})"
        self._refuse(call, CallError(call.function.upper(), None, problem, "Write an inner call into a table of its own, and read that."))

    def _placed(self, call: Call, df: DataFrame) -> tuple[str, DataFrame]:
        try:
            self.compiled[call.span] = self._commented(call, df)
        except Unprintable as reason:
            raise CallError(call.function.upper(), None, f"this call has no plain SQL: it needs {reason}", DOORS) from None
        return f"f{len(self.frames)}", df

    def bound(self, spec: Spec, tables: Sequence[Table], options: Sequence[tuple[str | None, Value]]) -> Bound:
        """The call, for a place without Python. What an option was that is not spelled out, but a variable, is said."""
        for given, (_, value) in zip(self.call.options if self.call else (), options, strict=True):
            if not constants.spelled_out(text := " ".join(self.statement.text[slice(*given.span)].split())):
                self.declarations.append(f"{text} was {constants.said(value)}")
        tables = [replace(table, stands_for=source) for table, source in zip(tables, self.sources, strict=True)]
        bound = super().bound(spec, tables, options)
        self.gives = f"{spec.name.lower()}_{bound.options.get('output') or 'rows'}"
        return replace(bound, kernels=False, depends_on=self.declarations.append)

    def made_by(self, rows: TableArgument) -> None:
        """Each call has a text of its own, below what it was, with its own input in it."""

    def _frame(self, call: Call) -> DataFrame:
        self.sources, self.declarations, self.ids, self.call = [], [], [], call
        return super()._frame(call)

    def _commented(self, call: Call, df: DataFrame) -> str:
        """The query that a call is, below what it was."""
        start, end = call.span
        below = max((depth for inner, depth in self.depths.items() if start < inner[0] and inner[1] < end), default=0)
        query = self.printer.query(df, self.gives, below)
        self.depths[call.span] = self.printer.ctes.depth
        if self.dialect == "databricks" and (unknown := databricks.missing(self.printer.ctes.made)):
            raise Unprintable(f"{listed(unknown)}, which Databricks' SQL manual does not have")
        if "\\" in self.printer.ctes.made and str(self.spark.conf.get("spark.sql.parser.escapedStringLiterals")).lower() == "true":
            raise Unprintable("spark.sql.parser.escapedStringLiterals = false, to say a backslash as other sessions read it")
        for rows, times in zip(call.tables, map(self.printer.ctes.readings, self.ids), strict=True):
            if times > 1 and (taken := unordered(self.statement, rows.query)):
                what, fix = taken
                raise Unprintable(
                    f"its input {times} times, and {what} may take other rows each time. {fix}, or write it into a table first"
                )
        said = " ".join(self.written[slice(*call.span)].split())
        inputs = [f"{f.name} {f.dataType.simpleString()}" for rows in call.tables for f in self.inputs[rows.inside].schema]
        beside = "".join(f"\n     where {declared}" for declared in self.declarations)
        under = SETTINGS | ({TURNS: "100"} if self.printer.ctes.depth > DEEP else {})
        settings = [f"{name} = {now}" for name, usual in under.items() if (now := self.spark.conf.get(name)) != usual]
        beside += f"\n     under {', '.join(settings)}" if settings else ""
        comment = f"streamtime {VERSION}: {said}\n     over ({', '.join(inputs)}){beside}".replace("/*", "/ *").replace("*/", "* /")
        return f"(\n  /* {comment} */\n{query}\n)"

    def sql(self, text: str, spans: Sequence[Span], **frames: DataFrame) -> DataFrame:
        """As ever, where the given tables that stand in these pieces are views."""
        self._show(spans)
        return super().sql(text, spans, **frames)

    def _show(self, spans: Sequence[Span]) -> None:
        self.tables.refuse_ctes(self.statement, self.places, spans)
        self.tables.show(name for at, (_, name) in self.places.items() if any(start <= at < end for start, end in spans))

    def argument(self, start: int, end: int) -> str:
        """What is in a TABLE argument, with the schema of a name that it begins with."""
        return self._rendered((self.places[start][0] if start in self.places else start, end)).strip()

    def _rendered(self, span: Span) -> str:
        """A piece of the statement, with the outermost calls in it compiled."""
        made, at = "", span[0]
        for start, end in self.outermost([span]):
            compiled = self.compiled.get((start, end), self.frames[start, end][0])
            made += self.written[at:start] + compiled + self.aliases.get((start, end), "")
            at = end
        return made + self.written[at : span[1]]

    def _rows(self, call: Call, rows: TableArgument) -> DataFrame:
        """The columns of a TABLE argument without its rows: a reference to a CTE, whose text is the argument's."""
        df = self._read(call, rows)
        self.sources.append(df)
        plan: Any = df._jdf.queryExecution().analyzed()
        if plan.isStreaming():
            raise CallError(call.function.upper(), "TABLE", "this call has no plain SQL: it needs state, on a stream", DOORS)
        start, end = rows.inside
        text, cte = self.argument(start, end), self.references.new_id()
        self.ids.append(cte)
        self.printer.sources[cte] = f"(\n        {text}\n      )" if QUERY.match(text) else text
        return DataFrame(self.dataset.ofRows(self.spark._jsparkSession, self.references.empty(plan, cte)), self.spark)

    def _read(self, call: Call, rows: TableArgument) -> DataFrame:
        """What a TABLE argument comes to. Where there are parameters, for values of several types, which may change no column's type."""
        self._show([rows.inside])
        if not (named := self._parameters_in(rows.query)):
            return super()._rows(call, rows)
        frames, refused = list[DataFrame](), list[AnalysisException]()
        for value in PROBES:
            self.args = dict.fromkeys(named, value) if named[0] != "?" else [value for t in self.open]
            self.positional = {t.start: value for t in self.open if t.text == "?"}
            try:
                frames.append(super()._rows(call, rows))
            except AnalysisException as error:
                refused.append(error)
        self.args = None
        if not frames:
            raise refused[0]
        kinds = [[(f.name, f.dataType) for f in df.schema] for df in frames]
        for one, *others in zip(*kinds, strict=True):
            if one[1] == NullType() or any(other != one for other in others):
                problem = f"the type of column `{one[0]}` is that of a parameter, which is not known"
                raise CallError(call.function, "TABLE", problem, "Say the type: CAST(:day AS DATE).")
        return frames[0]

    def _parameters_in(self, spans: Sequence[Span]) -> list[str]:
        """The names of parameters in pieces of the statement, `?` where they have none."""
        return [t.text for t in self.open if any(start <= t.start < end for start, end in spans)]
