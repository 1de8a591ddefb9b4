"""Calls that compiling does not see, in views and in texts, so that plain SQL would keep them; and what would not be the same twice.

Both are found in a statement's tokens, and refused in words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtime.shelf import SPECS
from streamtime.sql.call.errors import CallError
from streamtime.sql.call.names import parts
from streamtime.sql.syntax.expressions import complete
from streamtime.sql.syntax.text import quoted
from streamtime.sql.syntax.tokens import Span
from streamtime.statements.calls import Malformed, Statement
from streamtime.statements.query import MENTIONED, with_calls

QUERY_FOLLOWS = ("", "(", "AS", "EXPLAIN", "UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT")
NO_COUNT = ("ALL", "AS", "FROM", "AND", "OR", "ASC", "DESC", ",", ")", ".", "=", "")  # behind a column that is called so


def refuse_what_stays(spark: SparkSession, statement: Statement, given: Collection[int]) -> None:
    """Raises AnalysisException where a statement has a call that compiling does not see. At `given`, tables start that are no views."""
    for i, token in enumerate(statement.tokens):
        words = statement.words(i, 3)
        if words[:2] == ["EXECUTE", "IMMEDIATE"] and (called := _called_in_texts(statement, i + 2)):
            fix = "Compile that text: streamtime.compile(spark, text), and execute what it gives."
            raise _refused(statement, i, called, "it stands in a text for EXECUTE IMMEDIATE, which stays as it is", fix)
        if words[:2] == ["IDENTIFIER", "("] and (called := _called_by_name(statement, i)):
            raise _refused(statement, i, called, "a call by IDENTIFIER(..) stays as it is", f"Write the name: {called}(TABLE(..) ..).")
        if token.name is None or token.start in given or not _names_a_relation(statement, i):
            continue
        name = statement.slice(i, statement.name_end(i))
        if view := _with_a_call(spark, name, [d.name for w in statement.withs() for d in w.definitions]):
            problem = f"view {view[0]} stores a call of it" + ("" if view[0] == name else f", and {name} reads that")
            fix = "Say SET streamtime.views = plain, and create the view anew: then it stores plain SQL, which every session reads."
            raise _refused(statement, i, view[1], problem, fix)


def unordered(statement: Statement, spans: Sequence[Span]) -> tuple[str, str] | None:
    """What in these pieces of a statement may take other rows each time, and how to have the same: LIMIT without an order, or a sample."""
    for i, token in enumerate(statement.tokens):
        if not any(start <= token.start < end for start, end in spans) or statement.is_field(i):
            continue
        if token.word == "TABLESAMPLE" and statement.word(i + 1) == "(" and not _repeats(statement, i + 1):
            return "TABLESAMPLE", "Take so many PERCENT, REPEATABLE with a seed"
        cuts = token.word in ("LIMIT", "OFFSET") and complete(statement, i - 1) and statement.word(i + 1) not in NO_COUNT
        if cuts and not _ordered(statement, i):
            return f"{token.word} without ORDER BY", "Add an ORDER BY that leaves no ties"
    return None


def _repeats(statement: Statement, opening: int) -> bool:
    """Whether a sample is the same each time. One of so many rows is a LIMIT."""
    close = statement.closing.get(opening, opening)
    return statement.word(close + 1) == "REPEATABLE" and statement.word(close - 1) != "ROWS"


def _ordered(statement: Statement, limit: int) -> bool:
    """Whether the query that a LIMIT ends has an order: its own, or that of the query that it reads."""
    around = statement.around[limit]
    level = list(statement.level(0 if around is None else around + 1, limit))
    begins = next((n for n in reversed(range(len(level))) if statement.word(level[n]) == "SELECT"), 0)
    if any(_orders(statement, i) for i in level[begins:]):
        return True
    read = [i + 1 for i in level[begins:] if statement.word(i) == "FROM" and statement.word(i + 1) == "("]
    return any(_orders(statement, j) for i in read for j in statement.level(i + 1, statement.closing.get(i, i)))


def _orders(statement: Statement, i: int) -> bool:
    return statement.word(i) in ("ORDER", "SORT") and statement.word(i + 1) == "BY"


def _called_in_texts(statement: Statement, start: int) -> str | None:
    """The function that the string right there calls, or several with || between them."""
    text = ""
    for token in statement.tokens[start:]:
        if token.kind != "string" and token.word != "||":
            break
        text += token.text[1:-1].replace("''", "'").replace("\\'", "'") if token.kind == "string" else ""
    return _called(Statement(text))


def _called_by_name(statement: Statement, i: int) -> str | None:
    """The function that IDENTIFIER('..')(..) calls."""
    close = statement.closing.get(i + 1, i)
    token = statement.tokens[i + 2] if close == i + 3 and statement.word(close + 1) == "(" else None
    name = (parts(token.text[1:-1]) or [""])[-1].lower() if token is not None and token.kind == "string" else ""
    return SPECS[name].name if name in SPECS else None


def _called(statement: Statement) -> str | None:
    """The function that a statement calls first."""
    try:
        calls = statement.calls(SPECS)
    except Malformed as call:
        return call.function
    return calls[0].function if calls else None


def _names_a_relation(statement: Statement, i: int) -> bool:
    """Whether a table, a view or a CTE is named here, and no function is called."""
    if statement.is_field(i) or statement.word(statement.name_end(i)) == "(":
        return False
    before = statement.words(max(i - 3, 0), min(i, 3))
    argument = before[-2:] == ["TABLE", "("] and before[:1] in (["("], [","], ["=>"])
    return argument or before[-1:] == ["USING"] or statement.reads_a_relation(i) or _is_read_whole(statement, before)


def _is_read_whole(statement: Statement, before: Sequence[str]) -> bool:
    """Whether the word before is the query TABLE, and not the end of CREATE TABLE, say."""
    *first, last = ["", "", *before]
    inserted = statement.word(0) == "INSERT" and first[-1] not in ("INTO", "OVERWRITE")
    return last == "TABLE" and (inserted or first[-1] in QUERY_FOLLOWS)


def _with_a_call(spark: SparkSession, name: str, ctes: Collection[str], around: str = "") -> tuple[str, str] | None:
    """The persistent view that stores a call, this one or one that it reads, and the function. `around` is the schema of a view's text."""
    *schema, last = parts(name) or [""]
    if schema[:1] == ["spark_catalog"]:
        schema = schema[1:]
    if not last or len(schema) > 1 or (not schema and last.lower() in ctes):
        return None
    state: Any = spark._jsparkSession.sessionState()
    known, parser = state.catalog(), state.sqlParser()
    own = ".".join(map(quoted, [*schema, last]))
    try:
        view = parser.parseTableIdentifier(own)
        if not schema and known.isTempView(view):
            return None
        view = parser.parseTableIdentifier(own if schema or not around else f"{quoted(around)}.{own}")
        stored = known.getTableMetadata(view) if known.tableExists(view) else None
        if stored is None or stored.tableType().name() != "VIEW" or stored.viewText().isEmpty():
            return None
        read = Statement(with_calls(spark, str(stored.viewText().get())))
    except AnalysisException:  # of another catalog, or none: Spark says so where it is read
        return None
    if MENTIONED.search(read.text) and (called := _called(read)):
        return name, called
    inside = [d.name for w in read.withs() for d in w.definitions]
    of = stored.viewCatalogAndNamespace()
    schema_of = str(of.last()) if of.nonEmpty() else ""
    return next(_views_in(spark, read, inside, schema_of), None)


def _views_in(spark: SparkSession, read: Statement, ctes: Collection[str], schema: str) -> Iterator[tuple[str, str]]:
    for i, token in enumerate(read.tokens):
        if token.name is not None and _names_a_relation(read, i):
            view = _with_a_call(spark, read.slice(i, read.name_end(i)), ctes, schema)
            if view is not None:
                yield view


def _refused(statement: Statement, i: int, function: str, problem: str, fix: str) -> AnalysisException:
    error = CallError(function, None, f"this call has no plain SQL: {problem}", fix)
    return AnalysisException(f"{error}; {statement.position(statement.tokens[i].start)}")
