"""A function of the pack as a Python function, made from its SPEC: over DataFrames, with its options as keyword arguments."""

from __future__ import annotations

import datetime
import inspect
import json
import re
import textwrap
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from streamtime.describe import CITED, aligned, columns, ordered, script, shown
from streamtime.describe import default as default_of
from streamtime.python.in_python import called, in_python, inputs, said, spelled, written
from streamtime.sql.call.binding import bind
from streamtime.sql.call.errors import CallError, did_you_mean
from streamtime.sql.call.kinds import MICROSECOND, Choice, Duration, Texts
from streamtime.sql.call.remote import is_remote
from streamtime.sql.call.spec import CLAUSE_OPTIONS, Option, Spec
from streamtime.sql.call.values import Table, Value
from streamtime.sql.syntax.tokens import Source
from streamtime.sql.tables.classes import refuse_foreign

Parameter = inspect.Parameter
ATTOSECONDS = {
    "W": 604_800 * 10**18, "D": 86_400 * 10**18, "h": 3_600 * 10**18, "m": 60 * 10**18, "s": 10**18, "ms": 10**15, "us": 10**12,
    "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1,
}  # fmt: skip
MONTHS = {"M": "MONTH", "Y": "YEAR"}  # as types of SQL have them
RETURNS = {True: "By `output`:", False: "A DataFrame:"}


def table_function(spec: Spec) -> Callable[..., DataFrame]:
    """The function. Options are those of the SQL call; a wrong call raises CallError at once."""

    def function(*given: Any, **options: Any) -> DataFrame:
        try:
            over, leading, named = _over(spec, given, options)
            values = [*((None, v) for v in leading), *((_names(spec).get(n, n), v) for n, v in named.items())]
            read = [(n, _value(spec, n, v)) for n, v in values if v is not None]
            tables = [Table(df, name=name) for name, df in zip(inputs(spec), over, strict=True) if df is not None] if spec.tables else []
            for table in tables:
                refuse_foreign(table.df, spec.name)
            return spec.plan(bind(spec, tables, read, over[0].sparkSession if spec.tables else over[0]))
        except CallError as error:
            raise said(spec, error) from None

    function.__name__ = function.__qualname__ = spec.name.lower()
    function.__module__ = "streamtime"
    page = "\n\n".join(f"## {heading}\n\n{CITED.sub('', text)}" for heading, text in ordered(spec, {}))
    function.__doc__ = f"{documented(spec)}\n\nThe page of {spec.name}, in the words of SQL\n\n{page}\n"
    function.__signature__ = signature(spec)  # type: ignore[attr-defined]
    return function


def signature(spec: Spec) -> inspect.Signature:
    """The signature: what a function is over, then its options."""
    place, kind = Parameter.POSITIONAL_OR_KEYWORD, DataFrame if spec.tables else SparkSession
    over = [Parameter(n, place, annotation=kind) for n in inputs(spec)]
    for number in range(len(over) - spec.optional, len(over)):
        over[number] = over[number].replace(default=None, annotation=kind | None)
    return inspect.Signature([*over, *(_parameter(spec, o) for o in _options(spec))], return_annotation=DataFrame)


def documented(spec: Spec) -> str:
    """The docstring: the sentence, an example, each option, and the columns of the result."""
    what = {0: "the session", 1: "the rows, in batch or as a stream"}.get(spec.tables)
    lines = [f"{n}: {spec.named.get(n) or what or f'the rows of the {n} side'}." for n in inputs(spec)]
    for option in _options(spec):
        text, default = in_python(option.help), in_python(default_of(option))
        if _is_clause(spec, option):
            text, default = text.partition(", where ")[0], "none"
        lines.append(f"{spelled(option.name)}: {text}.{'' if _required(spec, option) else f' Default: {default}.'}")
    given = [f"{output.removeprefix('output => ')}: {text}." for output, text in columns(spec)]
    first, result = shown(spec)[0]
    example = [called(spec), "", "In SQL:", "", *script(first).splitlines()]
    example += ["", *aligned(result)] if result else []
    parts = [spec.summary, "Example:\n" + textwrap.indent("\n".join(example), "    ")]
    parts += [f"Args:\n{_indented(lines)}", f"Returns:\n{_indented([RETURNS[bool(spec.option('output'))], *given])}"]
    return "\n\n".join([*parts, "Raises:\n" + _indented(["CallError: at once, where the call is wrong; it says what to write instead."])])


def _indented(lines: list[str]) -> str:
    def wrapped(line: str) -> str:
        further = " " * (len(line) - len(line.lstrip()) + 8)
        return textwrap.fill(line, 116, initial_indent="    ", subsequent_indent=further)

    return "\n".join(map(wrapped, lines))


def _options(spec: Spec) -> list[Option]:
    """The options, as Python lists them: those that may stand without a name, those for which SQL has clauses, the others."""
    return sorted(spec.options, key=lambda o: (o.name not in spec.positional, not _is_clause(spec, o)))


def _is_clause(spec: Spec, option: Option) -> bool:
    return spec.has_clauses and option.name in CLAUSE_OPTIONS


def _required(spec: Spec, option: Option) -> bool:
    return option.required or (option.name == "order_by" and bool(spec.tables) and spec.ordered)


def _parameter(spec: Spec, option: Option) -> Parameter:
    place = Parameter.POSITIONAL_OR_KEYWORD if option.name in spec.positional else Parameter.KEYWORD_ONLY
    kind, default = option.kind, option.default
    if isinstance(kind, Duration) and default is not None:
        default = default * MICROSECOND
    given: Any = Literal[kind.words] if isinstance(kind, Choice) else kind.python
    if _required(spec, option):
        return Parameter(spelled(option.name), place, annotation=given)
    return Parameter(spelled(option.name), place, default=default, annotation=given | None if default is None else given)


def _names(spec: Spec) -> dict[str, str]:
    return {spelled(o.name): o.name for o in spec.options}


def _over(spec: Spec, given: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], tuple[Any, ...], dict[str, Any]]:
    """What the function is over; options without a name; options with one."""
    names, leading = inputs(spec), given[len(inputs(spec)) :]
    over = dict(zip(names, given, strict=False))
    twice = next((n for n in names if n in over and n in options), None)
    if twice:
        raise CallError(spec.name, f"`{twice}`", "given twice", "Leave one out.")
    over |= {n: options[n] for n in names if n in options}
    named = {n: v for n, v in options.items() if n not in names}
    for name in names:
        if name not in over:
            meant = next((n for n in named if n not in _names(spec) and did_you_mean(n, [name])), None)
            if meant:
                raise CallError(spec.name, f"`{meant}`", "no such option", did_you_mean(meant, [name]))
        if over.get(name) is None and name in spec.named and name not in spec.required:
            continue
        _check_over(spec, name, over.get(name))
    if spec.tables and any(isinstance(v, DataFrame) for v in leading):
        raise CallError(spec.name, None, f"expected {spec.tables} DataFrame{'s' * (spec.tables > 1)}, got {len(given)}", written(spec))
    return [over.get(name) for name in names], leading, named


def _check_over(spec: Spec, name: str, value: Any) -> None:
    """That a function is over DataFrames of Spark, or in a session of it."""
    if isinstance(value, DataFrame) if spec.tables else isinstance(value, SparkSession) or is_remote(value):
        return
    came, fix = f"{_shown(value)} ({_type(value)})", written(spec)
    if value is None:
        came = "none"
    elif spec.tables and isinstance(value, str):
        fix = f"{name} is a DataFrame: that of a table or view is spark.table({value!r})."
    elif spec.tables and isinstance(value, pd.DataFrame):
        came, fix = "one of pandas", f"spark.createDataFrame({name}) makes one of Spark."
    raise CallError(spec.name, f"`{name}`", f"expected a {'Spark DataFrame' if spec.tables else 'Spark session'}, got {came}", fix)


def _value(spec: Spec, name: str | None, given: Any) -> Value:
    option = spec.option(name) if name else None
    if option is None or not isinstance(option.kind, Texts) or not isinstance(given, str):
        return Value(_plain(given), _type(given), _shown(given))
    several = _between_commas(given)
    if len(several) > 1:
        fix = f"Write it as {spelled(option.name)}={json.dumps(several, ensure_ascii=False)}."
        raise CallError(spec.name, f"`{option.name}`", f"expected one SQL expression in a string, got {given!r}", fix)
    return Value([given], _type(given), _shown(given))


def _between_commas(text: str) -> list[str]:
    source = Source(text)
    commas = [source.tokens[i].start for i in source.level(0, len(source.tokens)) if source.word(i) == ","]
    return [text[start + 1 : end].strip() for start, end in pairwise([-1, *commas, len(text)])]


def _plain(given: Any) -> Any:
    """A number, a flag or a length of time of NumPy as Python's own."""
    match given:
        case np.timedelta64():
            return _length(given)
        case np.integer() | np.bool_():
            return given.item()
        case _:
            return given


def _length(given: np.timedelta64) -> Any:
    """As Python's own, in whole microseconds. As it is where that has none: NaT, without a unit, months, more than Python counts."""
    unit, count = np.datetime_data(given.dtype)
    if np.isnat(given) or unit not in ATTOSECONDS:
        return given
    try:  # NumPy would divide modulo 2**64
        return datetime.timedelta(microseconds=int(given.astype(np.int64)) * count * ATTOSECONDS[unit] // ATTOSECONDS["us"])
    except OverflowError:
        return given


def _type(given: Any) -> str:
    kind = type(given).__name__
    if isinstance(given, np.timedelta64) and (unit := np.datetime_data(given.dtype)[0]) in MONTHS:
        return f"{kind} of {MONTHS[unit]}"
    others = sorted({type(i).__name__ for i in given} - {"str"}) if isinstance(given, (list, tuple)) else []
    return f"{kind} of {', '.join(others)}" if others else kind


def _shown(given: Any) -> str:
    """What a person gave, without the address at which it lies."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(given))
