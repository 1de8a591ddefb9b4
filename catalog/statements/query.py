"""query(): the functions in SQL text, for sessions whose analyzer cannot call them, such as Spark Connect clients.

Each call becomes a DataFrame, by the same plan functions as behind every other door, and `{..}` in its place in the text: `spark.sql` then
puts the DataFrame there as a temporary view for as long as it analyses the text. That is all that changes in a text, so whatever Spark
knows and this module does not (hints, pipes, new syntax) passes through.

Calls are found among tokens, not in a syntax tree: what must be known of a statement is little (where a call begins and ends, what its
arguments are, which WITH clauses reach it), Spark's lexer is small enough to follow exactly, and no second parser has to understand, or
print again, the rest of the text.

What Spark is asked on the way (the rows of a TABLE argument, constants that are no plain literals) is the statement itself with blanks in
place of the rest, so that positions in Spark's errors are those of the statement.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtime.shelf import SPECS
from streamtime.sparks import knows_asof_join
from streamtime.sql.call.binding import bind
from streamtime.sql.call.errors import CallError
from streamtime.sql.call.names import Names
from streamtime.sql.call.remote import is_remote
from streamtime.sql.call.spec import Bound, Spec
from streamtime.sql.call.values import Expression, Sort, Table, Value
from streamtime.sql.syntax import as_of_rewrite
from streamtime.sql.syntax.as_of_clauses import Refusal
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Span, Token, blank, is_script
from streamtime.sql.tables.classes import refuse_foreign
from streamtime.statements import constants, hints, qualifiers, views
from streamtime.statements.calls import Call, ExpressionText, Malformed, Statement, TableArgument, spoken

MENTIONED = re.compile("|".join(SPECS), re.IGNORECASE)
BEHIND = re.compile(r"\w+$|[`:)\]]$")  # a column, or what ends one
KEYWORDS = {  # behind which a colon is that of a parameter
    "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "ESCAPE", "HAVING", "ILIKE", "IN", "INTERVAL", "IS", "LIKE",
    "LIMIT", "NOT", "OFFSET", "ON", "OR", "RLIKE", "SELECT", "THEN", "VALUES", "WHEN", "WHERE",
}  # fmt: skip
VOLATILE = {"rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "tablesample"}
Args = dict[str, Any] | list[Any] | None


def query(spark: SparkSession, text: str, args: Args = None) -> DataFrame:
    """The result of a SQL text that calls the pack's functions, whether or not the session's server knows them.

        streamtime.query(spark, "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES)")

    Args:
        spark: any session: of Spark Connect, or with a JVM, registered or not.
        text: one statement, or several with semicolons between them. Each runs as by `spark.sql`; the last one's DataFrame is returned.
            Calls may stand wherever a table may: under aliases, in joins, subqueries, CTEs (also reading CTEs), nested in each other,
            in EXPLAIN, CTAS, INSERT, MERGE. A text without a call goes to `spark.sql` as it is.
        args: parameters, as of `spark.sql`: a dict for `:name`, a list for `?`.

    Raises:
        AnalysisException: a call is wrong (the message is that of the analyzer door), or Spark refuses the text. Positions count from
            the start of the statement; in what follows a call on the same line they are shifted.

    What the text may not contain, and what is refused in words:
        A call in a persistent view or function: these store their text, and only a driver in which the pack is registered can read it.
            After `SET streamtime.views = plain` a view stores plain SQL, which every session reads; over Spark Connect,
            `streamtime.compile` gives the text of such a view.
        A call in a GLOBAL TEMP view, or within BEGIN .. END. A TABLE argument that refers to the row of an outer query (`LATERAL`).
        Parameters in PARTITION BY or ORDER BY of a call; compute the expression in the TABLE argument.

    What differs from the analyzer door:
        A CTE that is read both by a call and by the rest of the text is computed for each. Without an alias, a call's columns are known
        by their plain names, and where it reads one table by that table's (`SELECT events.v`), but not by its schema's. A plan that
        CREATE TEMP VIEW or CACHE TABLE stores is made when the statement runs, and reads the tables that there were then.
        Around an AS OF join (of AS_OF_JOIN, or rewritten into it) columns are known by their tables too, as fields of structs. So an
        expression without a name is called `(o.k + 1)`, not `(k + 1)`, and ORDER BY behind HAVING takes the names of results only.
        Parameters cannot stand in the time or the condition of such a join, nor, AS OF a table's history, anything but keys.

    Temporary views: on a Connect server each analysis of the result makes those that it needs, and drops them; with a JVM they are dropped
    before `query` returns. So results are as lazy, and live as long, as those of `spark.sql`. Three exceptions stay until the session
    ends: what CREATE TEMP VIEW, CACHE TABLE or CREATE TEMPORARY FUNCTION refers to; and, over Connect, the rows of a TABLE argument that
    calls something like rand(), since a plan may read them several times.

    Over Connect a call takes two round trips for its input's schema; one more where the TABLE argument is a query or a CTE, one where keys,
    order or time are computed, one for suppress, which asks whether the rows are those of a versioned table, three where options are other
    than plain literals ('rows', true, 5, INTERVAL 10 MINUTES, ARRAY('k')). The statement itself takes one, as with `spark.sql`.
    """
    if ";" not in text and not MENTIONED.search(text) and not as_of_rewrite.mentioned(text):
        with hints.explained(text):
            return _sql(spark, text, args)
    given = iter(args) if isinstance(args, list) else None
    result: DataFrame | None = None
    for piece in spoken(text):
        view = None if is_remote(spark) else views.as_plain(spark, piece)
        run = Run(spark, Statement(with_calls(spark, piece) if view is None else view), args)
        if given is not None:
            run.positional = {t.start: value for t, value in zip((t for t in run.statement.tokens if t.text == "?"), given, strict=False)}
        with hints.explained(run.statement.text):
            result = run.result()
    assert result is not None
    return result


class Run:
    """One statement on its way through a session."""

    def __init__(self, spark: SparkSession, statement: Statement, args: Args) -> None:
        self.spark, self.statement, self.args = spark, statement, args
        self.positional: dict[int, Any] = {}
        self.frames: dict[Span, tuple[str, DataFrame | None]] = {}  # a call's span: the name in its place, and what it stands for
        self.columns: dict[Span, qualifiers.Columns] = {}  # of those that carry their tables along
        self.aliases: dict[Span, str] = {}  # of those whose columns are named with the table that they read
        self.inputs: dict[Span, DataFrame] = {}  # of TABLE arguments, by where they stand
        self.bounds: dict[Span, Bound] = {}  # of calls that are placed
        self.stored: list[str] = []  # views for what the statement stores

    def result(self) -> DataFrame:
        """Runs it."""
        whole = [(0, len(self.statement.text))]
        try:
            calls = self.statement.calls(SPECS)
        except Malformed:  # Spark's parser says what is wrong, before it looks for functions
            calls = []
        if not calls:
            return self.sql(self.statement.text, whole)
        store = self._store(calls[0])
        try:
            self.place(calls, lambda _, frame: store(frame))
            return self.read(whole)
        except AnalysisException as error:
            for name in self.stored:
                self.spark.catalog.dropTempView(name)
            if self.stored and error.getCondition() == "INVALID_TEMP_OBJ_REFERENCE":  # ALTER VIEW of one that lasts
                self._refuse(calls[0], _outlives(calls[0], "persistent view"))
            raise

    def place(self, calls: Sequence[Call], store: Callable[[Call, DataFrame], tuple[str, DataFrame | None]]) -> None:
        """Plans the calls, inner ones first; `store` says what stands in the place of each."""
        for call in calls:
            try:
                frame = self._frame(call)
                stars = self._stars(call, frame)
                self.frames[call.span] = store(call, frame)
            except CallError as error:
                self._refuse(call, error)
            self.frames |= {star: (text, None) for star, text in stars.items()}

    def _stars(self, call: Call, frame: DataFrame) -> dict[Span, str]:
        """What each `*` stands for that would show more than it does with the call in its place."""
        if call.span in self.columns:
            return qualifiers.stars(self.statement, call, self.columns[call.span], Names(self.spark))
        if (table := qualifiers.alias(self.statement, call)) is None:
            return {}
        self.aliases[call.span] = f" AS {quoted(table)}"
        return qualifiers.own_stars(self.statement, call, table, self.inputs[call.tables[0].inside], frame)

    def outermost(self, spans: Sequence[Span]) -> list[Span]:
        """What is placed in these pieces of the statement, without what lies in another."""
        inside = [s for s in sorted(self.frames) if any(a <= s[0] and s[1] <= b for a, b in spans)]
        return [s for s in inside if not any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in inside)]

    def read(self, spans: Sequence[Span]) -> DataFrame:
        """These pieces of the statement as a query, each where it stands, the rest blanked."""
        text, at = "", 0
        frames: dict[str, DataFrame] = {}
        outermost = [(span, self.frames[span]) for span in self.outermost(spans)]
        braces = any(frame is not None for _, (_, frame) in outermost)
        source = self.statement.text

        def escaped(piece: str) -> str:
            return piece.replace("{", "{{").replace("}", "}}") if braces else piece

        def unchanged(start: int, end: int) -> str:
            return escaped(source[start:end])

        for start, end in spans:
            text += blank(source[at:start])
            at = start
            for (first, last), (name, frame) in outermost:
                if start <= first < end:
                    text += unchanged(at, first) + (f"{{{name}}}" if frame is not None else escaped(name))
                    text += escaped(self.aliases.get((first, last), "")) + "\n" * source.count("\n", first, last)
                    at = last
                    if frame is not None:
                        frames[name] = frame
            text += unchanged(at, end)
            at = end
        return self.sql(text, spans, **frames)

    def sql(self, text: str, spans: Sequence[Span], **frames: DataFrame) -> DataFrame:
        """`spark.sql` with those parameters that occur in these pieces."""
        return _sql(self.spark, text, self._parameters(spans), **frames)

    def _parameters(self, spans: Sequence[Span]) -> Args:
        if not self.args:
            return self.args
        made = [t for span in spans for t in self.statement.within([span]) if not any(a <= t.start < b for a, b in self.frames)]
        if isinstance(self.args, dict):
            names = {t.text for t in made if is_named(self.statement.text, t)}
            return {name: value for name, value in self.args.items() if name in names} or None
        return [self.positional[t.start] for t in made if t.start in self.positional] or None

    # -- one call

    def _frame(self, call: Call) -> DataFrame:
        spec = SPECS[call.function.lower()]
        options = constants.values(self.statement, call, self.sql)
        try:
            tables = [Table(self.inputs.setdefault(r.inside, self._rows(call, r)), *self._clauses(call, r), r.name) for r in call.tables]
            for table in tables:
                refuse_foreign(table.df, spec.name)
            if spec.qualified and len(tables) == 2:
                return self._joined(call, spec, tables, options)
            self.bounds[call.span] = replace(self.bound(spec, tables, options), made_by=lambda: self.made_by(call.tables[0]))
            return spec.plan(self.bounds[call.span])
        except AnalysisException as error:
            if (error.getCondition() or "").startswith("TABLE_OR_VIEW_NOT_FOUND"):
                for rows in call.tables:
                    self.read(rows.query)  # the same error, with its position
            raise

    def made_by(self, rows: TableArgument) -> Bound | None:
        """The call in a TABLE argument, where the argument is SELECT * FROM it."""
        (inside, *others) = [span for span in self.outermost([rows.inside]) if span in self.bounds] or [rows.inside]
        around = [t.text.upper() for t in self.statement.within([rows.inside]) if not inside[0] <= t.start < inside[1]]
        return self.bounds.get(inside) if around == ["SELECT", "*", "FROM"] and not others else None

    def bound(self, spec: Spec, tables: Sequence[Table], options: Sequence[tuple[str | None, Value]]) -> Bound:
        """The call, checked."""
        return bind(spec, tables, options, self.spark)

    def _joined(self, call: Call, spec: Spec, tables: list[Table], options: list[tuple[str | None, Value]]) -> DataFrame:
        """A join with the tables that are named around it: its sides carry them along, or, where history replaces a side, its result."""
        given = {name: value.python for name, value in options}
        if given.get("output", "rows") != "rows" or not qualifiers.needed(self.statement, call, given.get("on")):
            return spec.plan(self.bound(spec, tables, options))
        using, known = given.get("using") or (), Names(self.spark)
        asked = [qualifiers.relations(self.statement, rows) for rows in call.tables]
        having = [qualifiers.columns(t.df, r, self.columns) for t, r in zip(tables, asked, strict=True)]
        if "history" in given:
            result = spec.plan(self.bound(spec, tables, options))
            result, self.columns[call.span] = qualifiers.with_tables(result, qualifiers.joined(having[0], having[1], using, known))
            return result
        apart = ((), using)  # columns of USING belong to the left side
        sides = [qualifiers.carried(t.df, h, a) for t, h, a in zip(tables, having, apart, strict=True)]
        self.columns[call.span] = qualifiers.joined(sides[0][1], sides[1][1], using, known)
        return spec.plan(self.bound(spec, [replace(t, df=df) for t, (df, _) in zip(tables, sides, strict=True)], options))

    def _rows(self, call: Call, rows: TableArgument) -> DataFrame:
        if rows.is_name:
            return self.spark.table(self.statement.text[slice(*rows.inside)])
        try:
            df = self.read(rows.query)
        except AnalysisException as error:
            if not call.in_subquery or not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
                raise
            name = (error.getMessageParameters() or {}).get("objectName", "a column")
            fix = "A TABLE argument cannot refer to the row of an outer query (LATERAL): join or filter outside of the call instead."
            raise CallError(call.function, "TABLE", f"no column {name} in its query", fix) from None
        if is_remote(self.spark) and any(t.name in VOLATILE for t in self.statement.within(rows.query)):
            name = _unique()  # Spark Connect analyses a DataFrame anew wherever it occurs: each would draw other numbers
            df.createTempView(name)
            return self.spark.table(name)
        return df

    def _clauses(self, call: Call, rows: TableArgument) -> tuple[tuple[Expression, ...], tuple[Sort, ...]]:
        keys = tuple(self._expression(call, "PARTITION BY", i) for i in rows.keys)
        return keys, tuple(Sort(self._expression(call, "ORDER BY", i), i.ascending, i.nulls_first) for i in rows.order)

    def _expression(self, call: Call, clause: str, item: ExpressionText) -> Expression:
        source = self.statement.text
        text = source[slice(*item.span)]
        if any(t.text == "?" or is_named(source, t) for t in self.statement.within([item.span])):
            raise CallError(call.function, clause, f"a parameter cannot stand here (`{text}`)", "Compute it in the TABLE argument.")
        return Expression(text, lambda: F.expr(blank(source[: item.span[0]]) + text))

    # -- what cannot be

    def _store(self, call: Call) -> Callable[[DataFrame], tuple[str, DataFrame | None]]:
        """How the statement gets at the frames: by a view for the moment or, where it stores its text, for the session."""
        words = self.statement.words(0, 8)
        if is_script(words):
            problem = "a call cannot stand in a script (BEGIN .. END)"
            self._refuse(call, CallError(call.function, None, problem, "Give its statements with semicolons between them."))
        creates = next((w for w in words if w in ("VIEW", "FUNCTION", "TABLE")), None) if words[0] == "CREATE" else None
        temporary = any(w in ("TEMP", "TEMPORARY") for w in words[: words.index(creates)]) if creates else False
        if creates in ("VIEW", "FUNCTION") and (not temporary or "GLOBAL" in words):
            self._refuse(call, _outlives(call, f"{'global temporary' if temporary else 'persistent'} {creates.lower()}"))
        if creates in ("VIEW", "FUNCTION") or words[0] in ("CACHE", "ALTER"):
            return self._stored
        return lambda frame: (f"f{len(self.frames)}", frame)

    def _stored(self, frame: DataFrame) -> tuple[str, None]:
        name = _unique()
        frame.createTempView(name)
        self.stored.append(name)
        return name, None

    def _refuse(self, call: Call, error: CallError) -> NoReturn:
        raise AnalysisException(f"{error}; {self.statement.position(call.start)}") from None


def _outlives(call: Call, what: str) -> CallError:
    """What is stored as text, for sessions that need not have the pack."""
    return CallError(
        call.function, None, f"a {what} stores its text, and a session that reads it does not know this call",
        "Create a TEMP VIEW or a table. Or a view of plain SQL, which every session reads: say SET streamtime.views = plain before; over "
        "Spark Connect, streamtime.compile gives its text. Or register the pack in the server's process.",
    )  # fmt: skip


def with_calls(spark: SparkSession, text: str) -> str:
    """The statement with its AS OF joins as calls."""
    try:
        made = as_of_rewrite.rewrite(text, asof=not knows_asof_join(spark.version)) if as_of_rewrite.mentioned(text) else None
    except Refusal as refusal:
        raise AnalysisException(f"{refusal}; {Statement(text).position(refusal.offset)}") from None
    return text if made is None else made.text


def _sql(spark: SparkSession, text: str, args: Args, **frames: DataFrame) -> DataFrame:
    named: dict[str, Any] = {**frames}
    return spark.sql(text, args=args, **named) if args else spark.sql(text, **named)


def _unique() -> str:
    return f"streamtime_{uuid.uuid4().hex}"


def is_named(source: str, token: Token) -> bool:
    """Whether it is the name of a parameter, `:name`. Right behind a column it is a field of a VARIANT; behind `::` a type."""
    if token.kind != "word" or source[token.start - 1 : token.start] != ":":
        return False
    behind = BEHIND.search(source[max(0, token.start - 40) : token.start - 1])
    return behind is None or behind[0].upper() in KEYWORDS
