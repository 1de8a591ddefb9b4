"""Lists the functions of this pack and their arguments: help in SQL, where no web page is at hand.

## What it does

There is one row for each argument of each function: the TABLE arguments first, then the options. A function without arguments has one row
with a null `argument`. `allowed` lists the values that an option takes, `required` is true where it must be given, `default` says what
holds then. The function takes no arguments itself: filter its rows, such as by `WHERE function = 'DEDUPLICATE'`, or find out which
functions have an option by `WHERE argument = 'grace'`.

The rows come from the same data that binds the calls, so they cannot be out of date. `DESCRIBE FUNCTION EXTENDED deduplicate` says the
same of one function, with examples.

## Nulls, ties, late rows, empty input

There is no input.

## On a stream

Batch only: it is a small table.

## Guarantees

Rows are the same in every session. Their order is by `function` and `position` only if you ask for it with `ORDER BY`.

## Related functions, and the same thing elsewhere

- **Plain Spark**: `SHOW FUNCTIONS` and `DESCRIBE FUNCTION EXTENDED`, which know these functions, too. In a terminal: `streamtime
  functions`.

## Memory and state

None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from streamtime.sql.call.spec import Example, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound

SCHEMA = (
    "function STRING, argument STRING, position INT, type STRING, allowed STRING, required BOOLEAN, default STRING, description STRING, "
    "rules STRING"
)
Row = tuple[str, str | None, int, str | None, str | None, bool | None, str | None, str, str]


def rows(specs: Sequence[Spec]) -> list[Row]:
    """The rows of FUNCTION_CATALOG."""
    arguments: list[Row] = []
    for s in specs:
        clauses = " PARTITION BY .. ORDER BY .." if s.has_clauses else ""
        tables: list[Row] = [
            (
                s.name,
                name,
                i,
                "TABLE",
                f"TABLE(relation or query){clauses}",
                name in s.required,
                None,
                s.named.get(name, "the rows"),
                s.rules,
            )
            for i, name in enumerate(s.inputs)
        ]
        options: list[Row] = [
            (s.name, o.name, s.tables + i, o.kind.sql, o.allowed, o.required, o.default_text or None, o.help, s.rules)
            for i, o in enumerate(s.options)
        ]
        arguments += tables + options or [(s.name, None, 0, None, None, None, None, s.summary, s.rules)]
    return arguments


def spec(shelf: Callable[[], Sequence[Spec]]) -> Spec:
    """The SPEC, over the functions on that shelf."""

    def plan(call: Bound) -> DataFrame:
        """FUNCTION_CATALOG as a DataFrame."""
        import pyarrow as pa

        columns = [pa.array(c) for c in zip(*rows(shelf()), strict=True)]
        names = [field.split()[0] for field in SCHEMA.split(", ")]
        frame: DataFrame = call.session.createDataFrame(pa.table(columns, names=names), SCHEMA)
        return frame

    return Spec(
        name="FUNCTION_CATALOG",
        summary="Lists the functions of this pack and their arguments: help in SQL, where no web page is at hand.",
        rules="C8",
        page=__doc__,
        plan=plan,
        tables=0,
        adds={"always": ", ".join(f"`{f.split()[0]}` {f.split()[1]}" for f in SCHEMA.split(", "))},
        examples=(
            Example(
                "",
                "SELECT argument, type, allowed, required, default FROM FUNCTION_CATALOG()\n"
                "WHERE function = 'DEDUPLICATE' AND position < 6 ORDER BY position",
            ),
        ),
    )
