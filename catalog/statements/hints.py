"""What to write instead, where Spark refuses a text that calls a function of the pack: one sentence, to stand behind Spark's own.

Judged by tokens alone, and only for texts that Spark has refused. Where the text gives no clue, there is no hint.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from streamtime.shelf import SPECS
from streamtime.sql.call.errors import TOO_DEEP, CallError, did_you_mean, echoed
from streamtime.sql.call.errors import too_deep as out_of_stack
from streamtime.sql.call.names import parts
from streamtime.sql.call.spec import Spec
from streamtime.sql.syntax.expressions import UNIT
from streamtime.sql.syntax.tokens import offset
from streamtime.statements.calls import Statement

NAMES = re.compile(rf"\b(?:{'|'.join(SPECS)})\b", re.IGNORECASE)
ASOF = re.compile(r"\bASOF\s+JOIN\b|\bFOR\s+SYSTEM_TIME\s+AS\s+OF\b", re.IGNORECASE)
CLAUSE_WORDS = ("PARTITION", "DISTRIBUTE", "ORDER", "SORT", "WITH")
CONSTANTS = ("INTERVAL", "TRUE", "FALSE", "NULL", "DATE", "TIMESTAMP", "ARRAY")
UNREGISTERED = "If it is the pack's: call streamtime.register(spark) once in the driver, or use streamtime.query(spark, text)"
LATERAL = (
    "A TABLE argument, and a LATERAL subquery around a call, cannot refer to the row of an outer query: join or filter outside of the call"
)
ASOF_FORM = (
    "Write it as l [LEFT] ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k, or as l JOIN t FOR SYSTEM_TIME AS OF l.ts ON l.k = t.k"
)
PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
SHOWN = 60  # the characters of a name or value that are repeated


def of_syntax(text: str, offset: int) -> str | None:
    """For a text that Spark's grammar refuses at this place."""
    source = Statement(text)
    for name, opening, end in reversed(list(_calls(source))):
        if source.tokens[name].start <= offset and (end >= len(source.tokens) or offset <= source.tokens[end].start):
            return _of_call(source, SPECS[source.tokens[name].name or ""], name, opening, end)
    asof = next((m for m in ASOF.finditer(text) if m.start() <= offset <= m.end()), None)
    return ASOF_FORM if asof else None


def too_deep(text: str) -> tuple[str, int]:
    """For a text that took more of the JVM's stack than there is: what to say, and where it is deepest."""
    match = NAMES.search(text)
    depth = deepest = at = 0
    for token in Statement(text).tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth > deepest:
            deepest, at = depth, token.start
    name = match[0].upper() if match else "AS_OF_JOIN"
    return str(CallError(name, None, f"the statement {TOO_DEEP}", "Take it apart, with WITH or views.")), at


def of_clauses(text: str) -> str | None:
    """For a text in which, Spark says, a clause of a table argument has more than one item without parentheses."""
    source = Statement(text)
    for name, opening, end in _calls(source):
        if end < len(source.tokens) and (hint := _loose(source, SPECS[source.tokens[name].name or ""], opening, end)):
            return hint
    return None


def of_analysis(condition: str, parameters: dict[str, str], text: str) -> str | None:
    """For a text that parses and that Spark's analyzer refuses with this condition."""
    if condition == "UNRESOLVABLE_TABLE_VALUED_FUNCTION":
        name = (parts(parameters.get("name", "")) or [""])[-1]
        if name.lower() in SPECS:
            return UNREGISTERED
        return (did_you_mean(name, [s.name for s in SPECS.values()]) or "").rstrip("?").replace("`", "") + "?" if _near(name) else None
    if not NAMES.search(text):
        return None
    if condition.endswith("NON_DETERMINISTIC_LATERAL_SUBQUERIES"):
        return LATERAL
    if condition.startswith("UNRESOLVED_COLUMN"):
        return _of_column(text, parameters.get("objectName", ""))
    return None


def _near(name: str) -> bool:
    return did_you_mean(name, SPECS) is not None


def _of_column(text: str, column: str) -> str | None:
    """For a bare column among the arguments of a call; or, with its table before it, in the query of a TABLE argument."""
    source = Statement(text)
    said = [p.lower() for p in parts(column)] or [""]
    for name, opening, end in _calls(source):
        spec = SPECS[source.tokens[name].name or ""]
        if end >= len(source.tokens):
            continue
        for argument in source.split(opening + 1, end):
            start, stop = source.value_at(argument)
            inside = [t.name for t in source.tokens[start:stop]]
            after = source.table_end(start, stop)
            if after is not None:
                if len(said) > 1 and any(inside[i : i + 3 : 2] == said[-2:] for i in range(len(inside))) and _in_subquery(source, name):
                    return LATERAL
                continue
            if said[-1] not in inside:
                continue
            written = _shown(source, start, stop)
            if start > argument[0]:
                return f"Options are constants, and SQL over columns goes in quotes: {source.tokens[argument[0]].text} => '{written}'"
            return _unnamed(source, spec, argument) or (f"A table is given as TABLE({written})" if stop == start + 1 else None)
    return None


def _in_subquery(source: Statement, i: int) -> bool:
    return source.around[i] is not None or source.word(i - 1) == "LATERAL"


def _calls(source: Statement) -> list[tuple[int, int, int]]:
    """Where names of the pack stand before a parenthesis: the name, the parenthesis, and where that is closed, or the end of the text."""
    calls = []
    for i, token in enumerate(source.tokens):
        if token.name in SPECS and source.word(i + 1) == "(" and source.word(i - 1) != ".":
            calls.append((i, i + 1, source.closing.get(i + 1, len(source.tokens))))
    return calls


def _of_call(source: Statement, spec: Spec, name: int, opening: int, end: int) -> str | None:
    if hint := _never(source, spec, name, opening, end):
        return hint
    if not source.reads_a_relation(name):
        return None
    more = [f"{spec.options[0].name} => .."] if spec.options and spec.tables else []
    return f"Write it as {spec.name}({', '.join(spec.leading + more)})" if spec.leading else None


def _never(source: Statement, spec: Spec, name: int, opening: int, end: int) -> str | None:
    """For what no call can be, whatever Spark says of it."""
    if not source.reads_a_relation(name):
        return f"{spec.name} gives a table: call it in FROM" if _is_call(source, opening, end) else None
    arguments = source.split(opening + 1, end)
    if spec.tables and arguments and (hint := _no_table(source, spec, arguments[0])):
        return hint
    for argument in arguments:
        if hint := _of_argument(source, spec, argument):
            return hint
    return f"The parenthesis after {spec.name} is not closed" if end >= len(source.tokens) else _loose(source, spec, opening, end)


def _is_call(source: Statement, opening: int, end: int) -> bool:
    """Whether it is more than a name before a parenthesis, such as that of a table in CREATE TABLE."""
    inside = [source.word(i) for i in source.level(opening + 1, end)]
    return "=>" in inside or any(pair == ("TABLE", "(") for pair in itertools.pairwise(inside))


def _no_table(source: Statement, spec: Spec, argument: tuple[int, int]) -> str | None:
    """For a first argument that is no TABLE(..)."""
    start, end = argument
    stop = next((i for i in source.level(start, end) if source.word(i) in CLAUSE_WORDS and i > start), end)
    if source.word(start) == "TABLE" or start >= stop or source.word(start + 1) == "=>":
        return None
    clauses = f" {source.slice(stop, end)}" if stop < end else ""
    if source.word(start) == "(" and source.closing.get(start) == stop - 1:
        return f"A query is given as TABLE(SELECT ..): {spec.name}(TABLE{_shown(source, start, stop)}{echoed(clauses, SHOWN)})"
    if source.word(start) in ("SELECT", "WITH", "FROM", "VALUES"):
        return f"A query is given as TABLE(..): {spec.name}(TABLE({_shown(source, start, end)}))"
    if source.name_end(start) == stop and source.tokens[start].name is not None:
        return f"A table is given as TABLE(..): {spec.name}(TABLE({_shown(source, start, stop)}){echoed(clauses, SHOWN)})"
    return None


def _of_argument(source: Statement, spec: Spec, argument: tuple[int, int]) -> str | None:
    """For one argument that Spark's grammar may stumble over."""
    start, end = argument
    after = source.table_end(start, end)
    arrow = next((i for i in source.level(start, end) if source.word(i) == "=>"), None)
    if arrow is not None and arrow - 1 > start and source.tokens[arrow - 1].name is not None:
        return f"A comma is missing before {_shown(source, arrow - 1, arrow)} =>"
    if after is not None:
        words = [source.word(i) for i in source.level(after, end)]
        if "ORDER" in words and "PARTITION" in words and words.index("ORDER") < words.index("PARTITION"):
            return "PARTITION BY stands before ORDER BY"
        if words[:1] == ["BY"] or words[:1] == ["KEY"]:
            return f"Keys and order follow the table: {spec.name}({spec.leading[0]})"
        return None
    start, end = source.value_at(argument)
    if start > argument[0] and source.tokens[start].text[:1].isdigit() and UNIT.fullmatch(source.word(end - 1)) and end - start == 2:
        return f"An interval is written INTERVAL {_shown(source, start, end)}"
    return _unnamed(source, spec, argument)


def _loose(source: Statement, spec: Spec, opening: int, end: int) -> str | None:
    """For what follows the clauses of a table argument and is no option with a name."""
    arguments = source.split(opening + 1, end)
    clause: tuple[int, int] | None = None
    for number, argument in enumerate(arguments):
        start, stop = source.value_at(argument)
        after = source.table_end(start, stop)
        if after is not None and after < stop:
            clause = (after, stop)
        elif clause is not None and start == argument[0]:
            if after is not None and spec.tables == 1:
                return f"{spec.name} takes one TABLE argument"
            by = max(i for i in source.level(*clause) if source.word(i) == "BY" or i == clause[0])
            if after is not None:
                return (
                    f"Give each TABLE(..) its clauses, or put the list before it in parentheses: BY ({_shown(source, by + 1, clause[1])})"
                )
            if hint := _unnamed(source, spec, argument):
                return hint
            last = next((a for a, b in arguments[number + 1 :] if b > a and source.value_at((a, b))[0] > a), end + 1) - 1
            order = next((i for i in source.level(start, last) if source.words(i, 2) in (["ORDER", "BY"], ["SORT", "BY"])), last)
            listed = f"{_shown(source, by - 1, by + 1)} ({_shown(source, by + 1, order)})"
            return f"Several expressions stand in parentheses: {listed}; options are written as name => value"
        else:
            clause = None
    return None


def _unnamed(source: Statement, spec: Spec, argument: tuple[int, int]) -> str | None:
    """For `within = ..`, `within: ..`, or a constant without a name."""
    start, end = argument
    if end - start > 2 and source.tokens[start].name is not None and source.word(start + 1) in ("=", "==", ":", ":="):
        name = source.tokens[start].name or ""
        option = spec.option(name)
        if option is not None or did_you_mean(name, [o.name for o in spec.options]):
            return f"Options are written as name => value: {option.name if option else name} => {_shown(source, start + 2, end)}"
    if start < end and (
        source.word(start) in CONSTANTS or source.tokens[start].kind == "string" or source.tokens[start].text[:1].isdigit()
    ):
        names = [o.name for o in spec.options if o.name not in spec.positional]
        wanted = "within" if "within" in names else next((o.name for o in spec.options if o.required), names[0] if names else "name")
        example = source.slice(start, end) if source.word(start) == "INTERVAL" else ".."
        return f"Options are written as name => value, such as {wanted} => {echoed(example, SHOWN)}"
    return None


def _shown(source: Statement, start: int, end: int) -> str:
    return echoed(re.sub(r"\s+", " ", source.slice(start, end)), SHOWN)


@contextmanager
def explained(text: str) -> Iterator[None]:
    """Puts a note to what Spark says of a text where there is a hint; an AnalysisException in place of pages about the JVM's stack."""
    try:
        yield
    except AnalysisException as error:
        explain(error, text)
        raise
    except Py4JJavaError as error:
        if not (out_of_stack(error) and (NAMES.search(text) or ASOF.search(text))):
            raise
        message, at = too_deep(text)
        raise AnalysisException(f"{message}; {Statement(text).position(at)}") from None


def explain(error: Exception, text: str) -> None:
    """Put a note to PySpark's error about a text, where there is a hint for it that it does not have."""
    condition = (error.getCondition() if isinstance(error, PySparkException) else None) or ""
    hint: str | None = None
    if condition == "PARSE_SYNTAX_ERROR" and (place := PLACE.search(str(error))):
        hint = of_syntax(text, offset(text, int(place[1]), int(place[2])))
    elif condition and isinstance(error, PySparkException):
        hint = of_analysis(condition, error.getMessageParameters() or {}, text)
    if hint is None and isinstance(error, AnalysisException) and NAMES.search(text):
        source = Statement(text)
        hints = (_never(source, SPECS[source.tokens[call[0]].name or ""], *call) for call in _calls(source))
        hint = next((h for h in hints if h), None)
    if hint is not None and hint not in str(error):
        error.add_note(f"{hint}{'' if hint.endswith('?') else '.'}")
