"""What must hold of a call's result, in Great Expectations: the same four sentences, in the same SQL, as the tests of the dbt package.

from streamtime import expectations
expectations.validate(spark, {"pages": expectations.of_call(spark, text)}, docs="build/pages")
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from pyspark.errors import AnalysisException

from streamtime.shelf import SPECS
from streamtime.sql.call.errors import MOST, CallError, gist
from streamtime.sql.call.kinds import MICROSECOND
from streamtime.sql.call.names import parts
from streamtime.sql.call.values import Sort
from streamtime.sql.rows.columns import orderable, resolves
from streamtime.sql.syntax.text import duration_in_words, quoted
from streamtime.statements import constants
from streamtime.statements.calls import Call, Malformed, Statement, TableArgument
from streamtime.statements.query import VOLATILE, query

if TYPE_CHECKING:
    from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
    from great_expectations.expectations.expectation import Expectation
    from pyspark.sql import DataFrame, SparkSession

NAME = "expectations"
Columns = str | Sequence[str]  # as SQL has them, in backquotes where a name needs these
WORDS = ("emit", "keep", "output", "until")
THEIRS = "tmp_view"  # where Great Expectations puts the rows that a query asks
READS_THEIRS = re.compile(rf"\b{THEIRS}\b", re.IGNORECASE)
BATCH = "\0"  # stands for the batch until the braces of names are doubled, as Great Expectations wants them
WINDOWS = (("window_start", "window_end"), ("session_start", "session_end"))
ONE_FOR_EACH_WINDOW = ("DISTINCT_IN_WINDOW", "SUPPRESS_UNTIL_CLOSE")
PASSES_ROWS = ("DEDUPLICATE", "DISTINCT_IN_WINDOW", "SESSIONIZE")  # each row of the input, or not
BARE = ("current_timestamp", "current_date", "current_time", "tablesample")  # which need no parentheses
OF_NOW = (*BARE, "localtimestamp", "now", "curdate", "unix_timestamp")
SITE: Any = {"class_name": "SiteBuilder", "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"}}


def no_duplicates_within(keys: Columns, time: str, within: str | None = None) -> UnexpectedRowsExpectation:
    """No row comes too soon after an earlier one with the same keys: within `10 minutes`, say; without `within`, at all."""
    of = f" of {_listed(keys)}" if keys else ""
    says = f"no two rows{of} lie within {within}" if within else f"each {_listed(keys)} has one row" if keys else "there is one row"
    return _made("no_duplicates_within", says, keys=keys, time=time, within=within)


def one_final_row_per_window(
    keys: Columns = (), window_start: str | None = "window_start", window_end: str = "window_end"
) -> UnexpectedRowsExpectation:
    """No window, or session, has more than one row: a final answer is never corrected. `window_start` None: its end tells it."""
    says = f"each window of {_listed(keys)} has one row" if keys else "each window has one row"
    return _made("one_final_row_per_window", says, keys=keys, window_start=window_start, window_end=window_end)


def versions_do_not_overlap(keys: Columns, valid_from: str = "valid_from", valid_to: str = "valid_to") -> UnexpectedRowsExpectation:
    """Each version of a key ends before the next one begins; the last one may be open."""
    says = f"the versions of each {_listed(keys)} do not overlap" if keys else "the versions do not overlap"
    return _made("versions_do_not_overlap", says, keys=keys, valid_from=valid_from, valid_to=valid_to)


def every_row_accounted_for(of: str, columns: Columns, dropped: Columns = ()) -> UnexpectedRowsExpectation:
    """What went in came out or was dropped, each row as often. `of` and `dropped` are tables, or queries in parentheses."""
    says = f"each row of {of if _is_name(of) else 'the input'} came out or was dropped, and no other did"
    return _made("every_row_accounted_for", says, of=of, columns=columns, dropped=dropped)


def of_call(spark: SparkSession, text: str) -> list[UnexpectedRowsExpectation]:
    """What must hold of a table that was made by `SELECT * FROM` this call.

    Raises:
        CallError: the text is no such call, or there is nothing to expect of it.
    """
    statement = Statement(text.strip().rstrip(";"))
    try:
        calls = statement.calls(SPECS)
    except Malformed:  # Spark's parser says what is wrong
        _asked(spark, f"{'SELECT * FROM ' if statement.tokens[0].name in SPECS else ''}{statement.text}")
        calls = []
    around = [statement.text[: c.span[0]] + statement.text[c.span[1] :] for c in calls if c.tables]
    if [text.upper().split() for text in around] not in ([[]], [["SELECT", "*", "FROM"]]):
        fix = "Write SELECT * FROM DEDUPLICATE(..), say, with nothing around it; give the rest of a query a view of its own."
        raise CallError(NAME, None, "expected one call of the pack", fix)
    call = calls[0]
    with _refusals_in_words():
        values = constants.values(statement, call, lambda sql, _: spark.sql(sql))
    python = {(name or "").lower(): value.python for name, value in values}
    given = {name: value.lower() if name in WORDS and isinstance(value, str) else value for name, value in python.items()}
    expected = _of(spark, statement, call, given)
    if not expected:
        fix = "Give the call that made the rows, without `output`; what is yours to expect, say with the functions of this module."
        raise CallError(NAME, None, f"nothing is known that must hold of this call of {call.function.upper()}", fix)
    return expected


def _of(spark: SparkSession, statement: Statement, call: Call, given: Mapping[str, Any]) -> list[UnexpectedRowsExpectation]:
    function, rows = call.function.upper(), call.tables[0]
    made = _asked(spark, f"SELECT * FROM {statement.text[slice(*call.span)]}")
    if given.get("output", "rows") != "rows":
        return []
    written = [statement.text[slice(*item.span)] for item in rows.keys] or list(given.get("keys") or ())
    keys = [name for name in (_column(made, text) for text in written) if name is not None]
    if len(keys) < len(written):  # by a key that the result does not have
        return []
    expected = []
    if function == "VERSIONS":
        expected.append(versions_do_not_overlap(keys))
    if (function in ONE_FOR_EACH_WINDOW and given.get("until") != "end") or given.get("emit") == "final":
        windows = [pair for pair in WINDOWS if set(pair) <= set(made.columns)]
        if windows:
            expected.append(one_final_row_per_window(keys, *windows[0]))
        elif end := _column(made, given.get("window_end") or ""):
            expected.append(one_final_row_per_window(keys, None, end))
    order = [(statement.text[slice(*item.span)], item.ascending) for item in rows.order]
    order += [(item.expression.text, item.ascending) for item in map(Sort.parse, given.get("order_by") or ())]
    first = given.get("keep", "first") == "first" and not {"time", "offset"} & set(given)
    if function == "DEDUPLICATE" and first and order[0][1] and (time := _column(made, order[0][0])):
        within = given.get("within")
        expected.append(no_duplicates_within(keys, time, None if within is None else duration_in_words(within // MICROSECOND)))
    passes = function in PASSES_ROWS and given.get("slide") is None  # a row is in several windows that overlap
    if passes and not _differs(statement, rows):
        inside = statement.text[slice(*rows.inside)]
        source = inside if rows.is_name else f"({inside})"
        compared = [f.name for f in spark.sql(f"SELECT * FROM {source}").schema if orderable(f.dataType) and f.name in made.columns]
        if compared:
            expected.append(every_row_accounted_for(source, [*map(quoted, compared)], f"(SELECT * FROM {_dropped(statement, call)})"))
    return expected


def _asked(spark: SparkSession, text: str) -> DataFrame:
    with _refusals_in_words():
        return query(spark, text)


@contextmanager
def _refusals_in_words() -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        raise CallError(NAME, None, gist(error, MOST)) from None


def _differs(statement: Statement, rows: TableArgument) -> bool:
    """Whether a query may give other rows when it is asked again: by chance, or by the time of day."""
    inside = [t for t in statement.within([rows.inside]) if not rows.is_name]
    called = {one.name for one, after in pairwise(inside) if after.text == "("}
    return bool(called & {*VOLATILE, *OF_NOW} or {t.name for t in inside} & {*BARE})


def _column(made: DataFrame, text: str) -> str | None:
    """What the result has of an expression over the input: the same, or the column that it names or is called; None if it has neither."""
    for candidate in (text, quoted(text), quoted((parts(text) or [text])[-1])):
        if resolves(made, candidate):
            return candidate
    return None


def _dropped(statement: Statement, call: Call) -> str:
    """The call, as it reports dropped rows."""
    start, end = call.start, call.span[1] - 1
    for option in call.options:
        if (option.name or "").lower() == "output":
            return f"{statement.text[start : option.span[0]]}'dropped'{statement.text[option.span[1] : end + 1]}"
    return f"{statement.text[start:end]}, output => 'dropped')"


@dataclass(frozen=True)
class Checked:
    """An expectation, and whether it holds: of which table, in words, and how many rows are against it, where it counts them."""

    table: str
    says: str
    holds: bool
    unexpected: int | None


def validate(spark: SparkSession, expected: Mapping[str, Sequence[Expectation]], docs: str | Path | None = None) -> list[Checked]:
    """Whether tables are what is expected of them. `docs`: a folder whose `index.html` says so, too (Great Expectations' Data Docs).

    Raises:
        CallError: something is expected of a table `tmp_view`, or by one: Great Expectations takes that name for its own meanwhile.
    """
    for table, expectations in expected.items():
        if any(READS_THEIRS.search(text) for text in (table, *(getattr(e, "unexpected_rows_query", "") for e in expectations))):
            problem = f"what is expected of {table} reads `{THEIRS}`, a name that Great Expectations takes for rows of its own"
            raise CallError(NAME, None, problem, "Give yours another name.")
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings(), _view_put_back(spark):
        warnings.simplefilter("ignore")
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig

        logging.getLogger("great_expectations").setLevel(logging.ERROR)
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        if docs is not None:
            store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(Path(docs).resolve())}
            for name in list(context.list_data_docs_sites()):
                context.delete_data_docs_site(name)
            site: Any = {**SITE, "store_backend": store}
            context.add_data_docs_site("streamtime", site)
        source, checked = context.data_sources.add_spark("spark"), []
        source.get_execution_engine().spark = spark  # where views of this session are; it takes the first one of the process
        for table, expectations in expected.items():
            suite = context.suites.add(gx.ExpectationSuite(name=table, expectations=[*map(copy, expectations)]))
            batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("all")
            definition = context.validation_definitions.add(gx.ValidationDefinition(name=table, data=batch, suite=suite))
            results = definition.run(batch_parameters={"dataframe": spark.table(table)}).results
            checked += [_checked(table, result) for result in results]
        if docs is not None:
            context.build_data_docs()
    return checked


@contextmanager
def _view_put_back(spark: SparkSession) -> Iterator[None]:
    """A temporary view of the session that has the name which Great Expectations takes, and leaves behind, is there again afterwards."""
    there = [view for view in spark.sql(f"SHOW VIEWS LIKE '{THEIRS}'").collect() if view.isTemporary]
    mine = spark.table(THEIRS) if there else None
    try:
        yield
    finally:
        spark.catalog.dropTempView(THEIRS)
        if mine is not None:
            mine.createTempView(THEIRS)


def _checked(table: str, result: Any) -> Checked:
    told, count = result.expectation_config, result.result.get("observed_value")
    column = told.kwargs.get("column")
    says = told.description or told.type + (f" ({column})" if column else "")
    raised = [e for e in (result.exception_info, *result.exception_info.values()) if isinstance(e, dict) and e.get("raised_exception")]
    says += "".join(f": {gist(Exception(e.get('exception_message')))}" for e in raised[:1])
    is_query = told.type == "unexpected_rows_expectation"
    return Checked(table, says, bool(result.success), count if is_query and isinstance(count, int) else None)


def _made(name: str, says: str, **given: Any) -> UnexpectedRowsExpectation:
    """One of the dbt package's tests. Great Expectations puts its batch where that has the model."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
    except ModuleNotFoundError as problem:
        fix = "In a clone, pip install '.[expectations]'."
        raise CallError(NAME, None, f"Great Expectations is not installed here ({problem})", fix) from None
    query = getattr(_test(name), name)(model=BATCH, **given).strip()
    query = f"SELECT to_json(struct(*)) AS unexpected FROM (\n  {query}\n)"  # rows go to Python, which has not all years
    query = query.replace("{", "{{").replace("}", "}}").replace(BATCH, "{batch}")
    return UnexpectedRowsExpectation(unexpected_rows_query=query, description=says)


@cache
def _test(name: str) -> Any:
    text = files("streamtime").joinpath(f"dbt/package/macros/tests/{name}.sql").read_text()
    macro = re.sub(r"\{% (end)?test\b", lambda tag: f"{{% {tag[1] or ''}macro", text)
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(macro).module


def _listed(keys: Columns) -> str:
    return keys if isinstance(keys, str) else ", ".join(keys)


def _is_name(relation: str) -> bool:
    return not relation.lstrip().startswith("(")
