"""Shows what a Delta table held, row by row: which row was the key's, from which commit to which.

## In a picture

```text
commit     1                2                3
tea        |---- 10 --------|---- 8 ---------------->     UPDATE: a new version
rum        |---- 2 --------------------------|            DELETE: it ends
```

## What it does

A version of a key begins with the commit that wrote its row, and ends with the commit that changed or removed it (V6). `valid_from` and
`valid_to` are the times of these commits, `from_version` and `to_version` their numbers. The end is out, and null where the row is the
current one.

- **At a time**: what the table held at `t` are the rows with `valid_from <= t AND (valid_to IS NULL OR t < valid_to)`.
- **At a version**: what it held at version 5 are the rows with `from_version <= 5 AND (to_version IS NULL OR 5 < to_version)`. These are
  the rows of `SELECT .. VERSION AS OF 5`. Do not give `from` for either: rows that began before it have a null there, and would be left
  out.
- **The feed must be on**: `ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = true)`. History begins there.
- **Keys** tell rows apart: `keys => ARRAY('id')`, or what the table declares in its property `streamtime.key` (V7); else it is an error.
  A row that is written while an older row of its key is there takes its place. Two rows of a key that one commit wrote are an error when
  the query runs, which names the key and the version.
- **What ends a version**: INSERT, UPDATE, DELETE, MERGE, overwrites and RESTORE begin and end versions. A commit that leaves a row as it
  was ends nothing, though files were written anew: OPTIMIZE, an UPDATE to equal values, the rows of an INSERT OVERWRITE or a RESTORE that
  were there before.
- **A range of commits**: `from` and `to` are numbers of commits, both included, or times: the first commit at or after `from`, the last
  at or before `to`. A time without a zone is one of the session's. The result then has every version that a commit of the range began or
  ended. One that began before has a null `valid_from` and `from_version`. One that did not end in the range has a null `valid_to` and
  `to_version`. So the next range holds what is needed to bring the result of those before it up to date.
- **What is no longer there**: VACUUM removes the files of older commits, and log retention their entries. A range that is not there in
  full is an error when the query is analysed, which says which range is there. Without `from`, the history must be complete.
- **Columns that changed**: the columns are those that the table has now; with column mapping (`delta.columnMapping.mode`), those that it
  had at the end of the range. One that was added later is null in older versions. Columns that were renamed or dropped within the range
  stay the columns that they were. (Delta reads such a range in pieces only, and the log says what each was called.) Where fields inside a
  column were renamed or dropped, it is an error that says by which commit, and what can be read. Where the table was replaced, overwritten
  or restored with a column less, or of another type, history begins there: Delta reads nothing of before. That files were vacuumed is read
  from the table's log, which has it where Delta logs VACUUM.

## Nulls, ties, late rows, empty input

There is no event time, so nothing is late and there are no ties. Rows with a null key are left out (C12). Null values are values like any
other. A table without rows in the range gives none.

## On a stream

Batch only: the table is read up to its newest version. To follow it, call again with `from` one past the last `to`.

## Guarantees

The result depends on what the table held, not on its files. The versions of a key do not overlap. The newest version is fixed when the
query is analysed.

## Related functions, and the same thing elsewhere

- VERSIONS does the same by event time: when things happened, rather than when they were written. A price that was entered on Tuesday for
  Monday begins on Monday there, on Tuesday here.
- AS_OF_JOIN with `history` looks rows up in this history.
- **Delta and plain Spark**: `SELECT * FROM t VERSION AS OF 5` gives the whole table at one version; `table_changes('t', 1, 5)` gives the
  changes, which this function makes into from and to.
- **Kafka Streams** and **Flink SQL** have nothing of the kind: they keep event time.

## Memory and state

One aggregate by key and commit and one window function by key over the same shuffle; both spill. The analysis reads the table's log once
(`DESCRIBE HISTORY`), and the query only the change data of the range.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.call.kinds import Kind, Refused, Text, Texts
from streamtime.sql.call.spec import Example, Option, Spec
from streamtime.sql.rows.typed import moment
from streamtime.sql.syntax.text import literal
from streamtime.sql.tables.commits import NAME, Moment, history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.call.values import Value

ANALYZED = {  # numbers, as Catalyst holds them; what has no zone is a time of the session's, whatever it takes TIMESTAMP for
    "TIMESTAMP": "timestamp_micros({})",
    "TIMESTAMP_NTZ": f"CAST({moment('{}L', T.TimestampNTZType())} AS TIMESTAMP_LTZ)",
    "DATE": "CAST(date_from_unix_date({}) AS TIMESTAMP_LTZ)",
}


@dataclass(frozen=True)
class Commit(Kind):
    """The number of a commit, or a time; read as the number, or as SQL text of the time."""

    sql: str = "BIGINT or TIMESTAMP"
    python = int | str | datetime.date

    @property
    def allowed(self) -> str:
        """The values that it takes, as a page lists them."""
        return "a number of a commit, zero or more; or a time"

    def read(self, value: Value) -> Moment:
        """The number, or the text."""
        given, is_time = value.python, value.type.startswith(("TIMESTAMP", "DATE", "datetime", "date"))
        if type(given) is int and not is_time and given >= 0:
            return given
        if isinstance(given, datetime.datetime) and value.type == "TIMESTAMP_NTZ":
            given = str(given)
        if isinstance(given, datetime.datetime):
            return f"timestamp_micros({T.TimestampType().toInternal(given)})"
        if (isinstance(given, str) and given.strip()) or isinstance(given, datetime.date):
            return f"try_cast({literal(str(given))} AS TIMESTAMP_LTZ)"
        if type(given) is int and value.type in ANALYZED:
            return ANALYZED[value.type].format(given)
        raise Refused("the number of a commit, or a time", "Write it as 3, or as '2024-05-01 10:00:00'.")


def plan(call: Bound) -> DataFrame:
    """TABLE_HISTORY as a DataFrame."""
    versions = history(call.session, call["table"], call["keys"], call["from"], call["to"])
    if versions.declaration is not None:
        call.depends_on(versions.declaration.said)
    return versions.rows


SPEC = Spec(
    name=NAME,
    summary="Shows what a Delta table held, row by row: which row was the key's, from which commit to which.",
    rules="C5, C8, C12, V1, V6, V7 (KIP-914)",
    page=__doc__,
    plan=plan,
    tables=0,
    positional=("table",),
    options=(
        Option(
            "table",
            Text(expression=False),
            "the name of a Delta table, 'catalog.schema.table'",
            required=True,
            example="'table'",
            values="a name in quotes",
        ),
        Option("from", Commit(), "the first commit of a range, by number or by time", default_text="the first commit"),
        Option("to", Commit(), "the last commit of a range, by number or by time, included", default_text="the last commit"),
        Option(
            "keys",
            Texts(),
            "the columns by which rows are told apart",
            default_text="the table's property `streamtime.key`",
            values="an array of names of columns",
        ),
    ),
    main={
        "table": "'shop.prices'",
        "keys": "ARRAY('item')",
        "from": "3",
    },
    adds={
        "always": "the table's columns, then `valid_from` TIMESTAMP, `valid_to` TIMESTAMP (of the commits; null: current), "
        "`from_version` BIGINT, `to_version` BIGINT"
    },
    examples=(
        Example(
            "DROP TABLE IF EXISTS stock;\n"
            "\n"
            "CREATE TABLE stock (item STRING, amount INT) USING delta\n"
            "  TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'item');\n"
            "\n"
            "INSERT INTO stock VALUES ('tea', 10), ('rum', 2);\n"
            "\n"
            "UPDATE stock SET amount = 8 WHERE item = 'tea';\n"
            "\n"
            "DELETE FROM stock WHERE item = 'rum'",
            "SELECT item, amount, from_version, to_version FROM TABLE_HISTORY('stock') ORDER BY item, from_version",
        ),
        Example(
            "",
            "SELECT item, amount, from_version, to_version FROM TABLE_HISTORY('stock', from => 3, to => 3)",
            "What the last commit alone did: it ended a version that had begun before it.",
        ),
    ),
)
