"""What no query that is maintained may have: another answer to the same rows, other rows than a table's, names that hang on where it is."""

from __future__ import annotations

from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    SparkRuntimeException,
    SparkUpgradeException,
)
from sqlglot import expressions as exp

from streamtime.maintained.nodes import Unreadable
from streamtime.maintained.snapshots import NAME
from streamtime.sql.call.errors import CallError
from streamtime.sql.syntax.tokens import Source

CHANGING = {  # what gives another answer to the same rows
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "tablesample", "now", "current_date",
    "current_timestamp", "current_time", "localtimestamp", "curdate", "unix_timestamp", "input_file_name", "spark_partition_id",
    "current_user", "user", "session_user", "current_catalog", "current_database", "current_schema",
}  # fmt: skip
OF_VALUES = (  # errors of a row, which the query may leave out
    ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, IllegalArgumentException, NumberFormatException,
    SparkRuntimeException, SparkUpgradeException,
)  # fmt: skip
TIMES = {"date", "timestamp", "timestamp_ltz", "timestamp_ntz"}
DAYS = ("now", "today", "tomorrow", "yesterday")  # in literals of these types


def refuse_changing(source: Source) -> None:
    """What gives another answer to the same rows. Raises Unreadable."""
    for i, token in enumerate(source.tokens):
        if token.kind != "word" or source.is_field(i):
            continue
        behind = source.tokens[i + 1].text if i + 1 < len(source.tokens) else ""
        if token.name in TIMES and behind[:1] in ("'", '"') and behind[1:].strip().lower().startswith(DAYS):
            raise Unreadable(f"`{token.text} {behind}` is another moment each time it is asked")
        if token.name not in CHANGING:
            continue
        called = behind == "(" and (token.name != "unix_timestamp" or source.closing.get(i + 1) == i + 2)
        if called or token.name.startswith(("current_", "localtimestamp")):
            raise Unreadable(f"`{token.text}` gives another answer each time it is asked")


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
