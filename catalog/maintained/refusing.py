"""What no query that is maintained may have: another answer to the same rows, other rows than a table's, names that hang on where it is."""

from __future__ import annotations

import re

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    PySparkException,
    SparkRuntimeException,
    SparkUpgradeException,
)
from pyspark.sql import SparkSession
from sqlglot import expressions as exp

from streamtime.maintained.nodes import Unreadable
from streamtime.maintained.snapshots import NAME
from streamtime.sql.call.errors import CallError
from streamtime.sql.syntax.tokens import Source, Token
from streamtime.statements.calls import is_query

CHANGING = {  # what gives another answer to the same rows
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "tablesample", "now", "current_date",
    "current_timestamp", "current_time", "localtimestamp", "curdate", "unix_timestamp", "input_file_name", "spark_partition_id",
    "current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "current_path",
    "input_file_block_start", "input_file_block_length", "reflect", "java_method", "try_reflect",
}  # fmt: skip
OF_VALUES = (  # errors of a row, which the query may leave out
    ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, IllegalArgumentException, NumberFormatException,
    SparkRuntimeException, SparkUpgradeException,
)  # fmt: skip
TIMES = {"date", "timestamp", "timestamp_ltz", "timestamp_ntz"}
DAYS = ("now", "today", "tomorrow", "yesterday")  # in literals of these types
DAY = re.compile(rf"\s*({'|'.join(DAYS)})(\s+\S+)?\s*", re.IGNORECASE)  # as a text, which is cast where a time stands beside it
BUILTIN = "builtin"
VARIABLE = re.compile(r"\$\{[^}]+\}")
LOST = (  # errors of what logs no longer know, or whose files are gone
    "DELTA_MISSING_CHANGE_DATA", "DELTA_CHANGE_DATA_FEED", "DELTA_UNSUPPORTED_TIME_TRAVEL", "DELTA_VERSION_NOT_FOUND",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
)  # fmt: skip


def refuse_what_runs(spark: SparkSession, text: str) -> None:
    """A statement that writes, which to read would be to run; and what Spark puts into a text before it reads it. Raises CallError."""
    if not is_query(text):
        raise CallError(NAME, "`sql`", "expected one query", "Give the SELECT alone: maintain makes the table, and writes its rows.")
    if (variable := VARIABLE.search(text)) and spark.conf.get("spark.sql.variable.substitute") == "true":
        problem = f"the query has {variable[0]}, which may be another text next time"
        raise CallError(NAME, "`sql`", problem, "Write the value itself.")


def refuse_unsteady(spark: SparkSession, source: Source) -> None:
    """What gives another answer to the same rows, or may come to mean something else. Raises Unreadable."""
    refuse_changing(source)
    refuse_functions(spark, source)


def refuse_changing(source: Source) -> None:
    """What gives another answer to the same rows. Raises Unreadable."""
    for i, token in enumerate(source.tokens):
        behind = source.tokens[i + 1].text if i + 1 < len(source.tokens) else ""
        if token.kind == "string":
            _refuse_in(token)
        if token.name is None or (behind != "(" and (token.kind != "word" or source.is_field(i))):
            continue
        if token.name in TIMES and behind[:1] in ("'", '"') and behind[1:].strip().lower().startswith(DAYS):
            raise Unreadable(f"`{token.text} {behind}` is another moment each time it is asked")
        if token.name not in CHANGING:
            continue
        called = behind == "(" and (token.name != "unix_timestamp" or source.closing.get(i + 1) == i + 2)
        alone = token.name != "current_path" and source.word(i - 1) != "AS"
        if called or (alone and token.name.startswith(("current_", "localtimestamp", "session_user"))):
            raise Unreadable(f"`{token.name}` gives another answer each time it is asked")


def _refuse_in(text: Token) -> None:
    """A day that is another tomorrow; and in options, which are texts, the same as in a query. Raises Unreadable."""
    inside = text.text.lstrip("rR")[1:-1]
    if DAY.fullmatch(inside):
        raise Unreadable(f"{text.text} may be another moment each time it is asked")
    if "(" in inside:
        refuse_changing(Source(inside))


def refuse_functions(spark: SparkSession, source: Source) -> None:
    """Functions of the catalog, which may be replaced, and read tables that the query does not name. Raises Unreadable."""
    called = [i for i, t in enumerate(source.tokens) if t.name is not None and source.word(i + 1) == "("]
    parts = [(source.tokens[i - 2].name, source.tokens[i].name) for i in called if source.is_field(i)]
    of_schemas = [f"{schema}.{name}" for schema, name in parts if schema != BUILTIN]
    named = (row[0].rpartition(".") for row in spark.sql("SHOW USER FUNCTIONS").collect())
    made = {name.lower() for schema, _, name in named if schema}  # those without one are of the session: ours
    of_schemas += sorted({source.tokens[i].name or "" for i in called} & made)
    if of_schemas:
        raise Unreadable(f"`{of_schemas[0]}` is a function of a schema, which may become another one")


def may_pass(error: Exception) -> bool:
    """Whether all may be computed anew where what changed is an error: of values that the query leaves out, of what logs have lost, or of
    queries that were made of this one, which Spark has understood."""
    condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
    of_spark = isinstance(error, AnalysisException) and not condition.startswith("DELTA_")
    return condition.startswith(LOST) or of_spark or isinstance(error, OF_VALUES)


def refuse_other_rows(table: exp.Table) -> None:
    """A table as it was once, or a part of it by chance. Raises CallError."""
    if table.args.get("version") or table.args.get("when") or table.args.get("sample"):
        problem = f"the query reads {table.name} as it was at another time, or a sample of it"
        raise CallError(NAME, None, problem, "Make a table of these rows, and read that.")


def refuse_long_names(tree: exp.Expr) -> None:
    """Columns with the schema of their table before them: other rows may stand in a table's place. Raises CallError."""
    tables = {(table.db.lower(), table.name.lower()) for table in tree.find_all(exp.Table) if table.db and not table.alias}
    for column in tree.find_all(exp.Column):
        if (column.db.lower(), column.table.lower()) in tables:
            short = f"{column.table}.{column.name}"
            raise CallError(NAME, None, f"a column has the schema of its table before it, {column.db}.{short}", f"Write {short}.")


def refuse_places(tree: exp.Expr) -> None:
    """Rows that are picked by their place among all. Raises Unreadable."""
    for word in ("limit", "offset", "fetch"):
        if tree.args.get(word) is not None:
            raise Unreadable(f"{word.upper()} picks rows by their place among all rows")
