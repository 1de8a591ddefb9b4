"""Option values of a call in SQL text: plain literals are read here; other constants are computed by Spark, all of a call in one query."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from streamtime.sql.call.errors import not_computed, not_constant, unlogged
from streamtime.sql.call.values import Value
from streamtime.sql.syntax.text import UNITS
from streamtime.sql.syntax.text import literal as quoted_text
from streamtime.sql.syntax.tokens import Span, blank, tokens
from streamtime.statements.calls import Argument, Call, Statement

STRING = re.compile(r"'([^'\\]*)'")
RAW = re.compile(r"""[rR](?:'([^']*)'|"([^"]*)")""")
INTEGER = re.compile(r"\d{1,9}")
STRINGS = re.compile(r"ARRAY\s*\(\s*'[^'\\]*'(?:\s*,\s*'[^'\\]*')*\s*\)", re.IGNORECASE)
INTERVAL = re.compile(r"INTERVAL\s+(\d{1,9}|'\d{1,9}')\s+(DAY|HOUR|MINUTE|SECOND)S?", re.IGNORECASE)
WORDS = {"true": Value(True, "BOOLEAN", "true"), "false": Value(False, "BOOLEAN", "false"), "null": Value(None, "VOID", "NULL")}
COLLECTED = (
    T.BooleanType, T.StringType, T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType, T.DayTimeIntervalType, T.NullType
)  # fmt: skip
UNIT = r"YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND"
SPELLED = re.compile(rf"INTERVAL|({UNIT})S?|TO|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|DATE|ARRAY|\d\w*", re.IGNORECASE)
VARIABLE = re.compile(r"(?:[\w.]|`[^`]*`)+")
NOT_CONSTANT = "INVALID_LIMIT_LIKE_EXPRESSION.IS_UNFOLDABLE"

Run = Callable[[str, Sequence[Span]], DataFrame]  # a query, and the pieces of the statement in it, whose parameters it needs


def values(statement: Statement, call: Call, run: Run) -> list[tuple[str | None, Value]]:
    """The options of a call, as the analyzer door would read them. Raises CallError, or Spark's own error."""
    known = [literal(statement.text[slice(*g.span)]) for g in call.options]
    asked = [g for g, value in zip(call.options, known, strict=True) if value is None]
    computed = iter(_computed(statement, call, asked, run) if asked else [])
    return [(g.name, next(computed) if value is None else value) for g, value in zip(call.options, known, strict=True)]


def literal(text: str) -> Value | None:
    """The value of a plain literal; None for anything that Spark should read."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if match := STRING.fullmatch(text):
        return Value(match[1], "STRING", f"'{match[1]}'")
    if match := RAW.fullmatch(text):
        value = match[1] or match[2] or ""
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return Value(value, "STRING", f"'{escaped}'")
    if INTEGER.fullmatch(text):
        return Value(int(text), "INT", str(int(text)))
    if match := INTERVAL.fullmatch(text):
        number, unit = int(match[1].strip("'")), match[2].upper()
        length = datetime.timedelta(**{f"{unit.lower()}s": number})
        return Value(length, f"INTERVAL {unit}", f"INTERVAL '{number if unit == 'DAY' else f'{number:02d}'}' {unit}")
    if STRINGS.fullmatch(text):
        items = STRING.findall(text)
        written = ", ".join(f"'{i}'" for i in items)
        return Value(items, "ARRAY<STRING>", f"array({written})")
    return None


def spelled_out(text: str) -> bool:
    """Whether a value says itself what it is: it has constants, and no variable, function or parameter."""
    return literal(text) is not None or all(t.kind != "quoted" and (t.kind != "word" or SPELLED.fullmatch(t.text)) for t in tokens(text))


def said(value: Value) -> str:
    """A value as SQL."""
    python = value.python
    if isinstance(python, datetime.timedelta):
        micros = python // datetime.timedelta(microseconds=1)
        unit, size = next(((unit, size) for unit, size in UNITS if size > 1 and micros % size == 0), UNITS[-2])
        return f"INTERVAL '{micros // size if micros % size == 0 else f'{micros / size:.6f}'}' {unit.upper()}"
    if isinstance(python, list):
        return f"ARRAY({', '.join(said(Value(item, value.type, '')) for item in python)})"
    if isinstance(python, bool) or python is None:
        return str(python).upper().replace("NONE", "NULL")
    return quoted_text(python) if isinstance(python, str) else str(python)


def _computed(statement: Statement, call: Call, asked: Sequence[Argument], run: Run) -> list[Value]:
    """Constants as Spark computes them. LIMIT alone asks whether something is foldable, and computes it while it is analysed."""
    spans = [g.span for g in asked]
    query = _in_place(statement.text, call.start, spans)
    texts = [statement.text[slice(*span)] for span in spans]
    tested = " OR ".join(f"({text}\n) IS NULL" for text in texts)  # a value may end in a comment
    try:
        with unlogged():
            df = run(f"{query}\nLIMIT if({tested}, 1, 1)", [*spans, *spans])
    except PySparkException as error:
        if len(asked) > 1:  # one of them is wrong, and is the one to name
            return [_computed(statement, call, [g], run)[0] for g in asked]
        if not (error.getCondition() == NOT_CONSTANT and VARIABLE.fullmatch(texts[0])):
            raise _refusal(call, asked[0], texts[0], error, lambda: run(query, spans)) from None
        df = run(query, spans)  # there are no columns here, so it is a session variable
    kinds = [f.dataType for f in df.schema.fields]
    collected = [i for i, kind in enumerate(kinds) if _collected(kind)]
    names = [f"c{i}" for i in range(len(kinds))]
    row = df.toDF(*names).select(*[names[i] for i in collected]).collect()[0] if collected else ()
    values: dict[int, Any] = dict(zip(collected, row, strict=True))
    written = [_written(text, name, kind) for text, name, kind in zip(texts, df.columns, kinds, strict=True)]
    return [Value(values.get(i, object()), kind.simpleString().upper(), written[i]) for i, kind in enumerate(kinds)]


def _in_place(text: str, start: int, spans: Sequence[Span]) -> str:
    """SELECT of these pieces, each where it stands in the statement, so that positions in Spark's errors are those of the statement."""
    query = blank(text[:start]) + "SELECT "
    for number, (first, last) in enumerate(spans):
        query += "," if number else ""
        query += blank(text[len(query) : first]) + text[first:last]
    return query


def _refusal(call: Call, given: Argument, text: str, error: PySparkException, again: Callable[[], object]) -> Exception:
    argument = f"`{given.name}`" if given.name else None
    condition = error.getCondition() or ""
    if condition == NOT_CONSTANT:
        return not_constant(call.function, argument, text)
    if condition.startswith(("UNRESOLVED_", "PARSE_", "DATATYPE_MISMATCH")):
        again()  # without LIMIT: the same error, at the place in the statement
        return error
    return not_computed(call.function, argument, text, error)


def _collected(kind: T.DataType) -> bool:
    return _collected(kind.elementType) if isinstance(kind, T.ArrayType) else isinstance(kind, COLLECTED)


def _written(text: str, name: str, kind: T.DataType) -> str:
    """As an error shows it: as Spark writes it where Spark has a form of its own."""
    if isinstance(kind, T.DecimalType) and re.fullmatch(r"\d*\.\d+|\d+\.", text):
        return f"{text}BD"
    if isinstance(kind, T.StringType) and text[:1] in "'\"":
        escaped = name.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return name
