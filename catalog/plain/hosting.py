"""Statements for Databricks, which has not the pack: plain SQL, and for calls that need a kernel functions that Unity Catalog hosts.

Such a function is a Python class over the kernel (`streamtime.sql.udtf`). Unity Catalog asks for its columns when it is created, so there
is one for each call: for these columns, these options.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from streamtime.plain.compiling import QUERY, Compiling
from streamtime.plain.expressions import Unprintable
from streamtime.plain.tables import Given, Tables, with_tables
from streamtime.sql.call.errors import CallError
from streamtime.sql.call.spec import Bound, Spec
from streamtime.sql.call.values import Table, Value
from streamtime.sql.syntax.text import literal, quoted
from streamtime.sql.udtf.handler import Analyzed, bare, planned
from streamtime.statements.calls import Call, ended, spoken
from streamtime.statements.query import Run, with_calls
from streamtime.version import VERSION

SCHEMA = "main.streamtime"
WHEEL = f"/Volumes/main/streamtime/wheels/streamtime-{VERSION}-py3-none-any.whl"
HEAD = f"""\
-- For Databricks, made by streamtime {VERSION}. Not run on Databricks: its statements run on Apache Spark, where tests compare them with
-- the calls that they were.
"""
HOSTED = """\
CREATE OR REPLACE FUNCTION {name}(input TABLE)
RETURNS TABLE ({columns})
LANGUAGE PYTHON
HANDLER 'Hosted'
ENVIRONMENT (dependencies = {wheel}, environment_version = 'None')
AS $$
import datetime, decimal

from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.values import Value
from streamtime.sql.udtf.handler import hosted

SPEC = next(spec for spec in FUNCTIONS if spec.name == {function!r})
COLUMNS = {json}
OPTIONS = {options}


class Hosted(hosted(SPEC, COLUMNS, OPTIONS)):
    pass
$$"""


def exported(spark: SparkSession, text: str, *, schema: str = SCHEMA, wheel: str = WHEEL, tables: Tables | None = None) -> str:
    """A script for Databricks that does what this one does, in which the pack's functions are called.

    Args:
        spark: a session with a JVM, and with the tables, unless `tables` has their columns.
        text: statements with calls. Each becomes plain SQL (`streamtime.compile`). A call that needs a kernel becomes a call of a Python
            function, which a statement before it creates.
        schema: where these functions are created, as catalog.schema.
        wheel: where the pack's wheel lies, which they need: a file in a volume.
        tables: columns of tables, as `streamtime.compile` takes them.

    Raises:
        AnalysisException: a call is wrong, or neither plain SQL nor such a function can be it: a stream, say, or `output => 'metrics'`.
        ValueError: `tables` has something else than columns.
    """
    given = with_tables(spark, tables)
    made = list[str]()
    for piece in spoken(text):
        one = _Exporting(given, with_calls(given.session, piece), schema, wheel, len(made))
        statement = one.text().strip()
        made += [*one.functions, statement]
    return HEAD + "\n" + "\n\n".join(map(ended, made)) + "\n"


class _Exporting(Compiling):
    """One statement, whose calls need not be plain SQL."""

    def __init__(self, given: Given, text: str, schema: str, wheel: str, before: int) -> None:
        super().__init__(given, text, "databricks")
        self.schema, self.wheel, self.before = schema, wheel, before  # the last is how many statements the script has already
        self.functions = list[str]()  # statements that create them
        self.arguments: tuple[Spec, Sequence[Table], Sequence[tuple[str | None, Value]]] | None = None

    def bound(self, spec: Spec, tables: Sequence[Table], options: Sequence[tuple[str | None, Value]]) -> Bound:
        """As plain SQL; what was given is kept for a function that is hosted."""
        self.arguments = spec, tables, options
        return super().bound(spec, tables, options)

    def _frame(self, call: Call) -> DataFrame:
        self.arguments = None
        try:
            return super()._frame(call)
        except CallError as refused:
            return self._hosted(call, refused)

    def _commented(self, call: Call, df: DataFrame) -> str:
        if call.span in self.compiled:
            return self.compiled[call.span]
        try:
            return super()._commented(call, df)
        except Unprintable as reason:
            self._hosted(call, CallError(call.function.upper(), None, f"this call has no plain SQL: it needs {reason}"))
            return self.compiled[call.span]

    def _hosted(self, call: Call, refused: CallError) -> DataFrame:
        """The call's result, and in `compiled` a call of a function that gives it."""
        if self.arguments is None or self.arguments[0].local is None:
            raise refused
        spec, (table,), options = self.arguments
        result = spec.plan(Run.bound(self, spec, [table], options))  # what is wrong with it otherwise, is said here
        assert spec.local is not None
        named = dict(zip(spec.positional, (v for n, v in options if n is None), strict=False)) | {n.lower(): v for n, v in options if n}
        clauses = {
            "keys": [k.text for k in table.partition_by],
            "order_by": [_sorted(o.expression.text, o.ascending, o.nulls_first) for o in table.order_by],
        }
        named |= {name: Value(texts, "ARRAY<STRING>", repr(texts)) for name, texts in clauses.items() if texts}
        analysis = planned(bare(spec), spec.local, table.df.schema, named)
        name = f"{self.schema}.{spec.name.lower()}_{self.before + len(self.functions) + 1}"
        self.functions.append(
            HOSTED.format(
                name=name,
                columns=_columns(result),
                wheel=literal(f'["{self.wheel}"]'),
                function=spec.name,
                json=_without_dollars(table.df.schema.json()),
                options=_without_dollars(named),
            )
        )
        (rows,) = call.tables
        start, end = rows.inside
        read = self.argument(start, end)
        self.compiled[call.span] = f"{name}(TABLE({_selected(analysis, read)}) {_clauses(analysis)})"
        return result


def _columns(df: DataFrame) -> str:
    """As CREATE FUNCTION takes them: fields of structs are quoted, and anything may be null."""
    fields = df._jdf.schema().fields()
    return ", ".join(f"{quoted(str(f.name()))} {f.dataType().asNullable().sql()}" for f in fields)


def _without_dollars(value: object) -> str:
    """As Python has it; two dollars would end the body."""
    return repr(value).replace("$", "\\x24")


def _sorted(text: str, ascending: bool, nulls_first: bool) -> str:
    return f"{text} {'ASC' if ascending else 'DESC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _selected(analysis: Analyzed, read: str) -> str:
    """What goes in: the input's columns, and behind them what the kernel asks of each row."""
    columns = ", ".join(f"{c.name} AS {quoted(c.alias)}" if c.alias else c.name for c in analysis.select)
    return f"SELECT {columns} FROM {f'({read})' if QUERY.match(read) else read}"


def _clauses(analysis: Analyzed) -> str:
    keys = ", ".join(c.name for c in analysis.partitionBy)
    order = ", ".join(_sorted(c.name, c.ascending, bool(c.overrideNullsFirst)) for c in analysis.orderBy)
    return f"{f'PARTITION BY ({keys})' if keys else 'WITH SINGLE PARTITION'} ORDER BY ({order})"
