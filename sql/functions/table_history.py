"""The versions of each key of a Delta table by commit: which row was the key's, from which commit to which.

## Semantics

- **V6** A version of a key begins with the commit that wrote its row and ends with the commit that changed or removed it: `valid_from` and
  `valid_to` are the times of these commits, `from_version` and `to_version` their numbers, the end exclusive; null: current. A lookup at a
  time t finds the row with `valid_from <= t` and `valid_to` null or larger; at a table version v that with `from_version <= v` and
  `to_version` null or larger, which is the row that `SELECT .. VERSION AS OF v` shows.
- **Commits** INSERT, UPDATE, DELETE, MERGE, overwrites and RESTORE begin and end versions. A commit that leaves a key's row as it was ends
  nothing, though files were rewritten: OPTIMIZE, an UPDATE to equal values, the rows of an INSERT OVERWRITE or a RESTORE that were there
  before. A column that was added later is null in older versions; the columns are those of the table at the end of the range. Columns that
  were renamed or dropped within it stay the columns that they were: Delta reads such a range in pieces only, and the log says what each was
  called. Where fields within a column were renamed or dropped, it is an error that says by which commit, and what can be read.
- **Keys** are columns of the table: `keys => ARRAY('id')`, or what the table declares in its property `streamtime.key` (V7); else it is
  an error. A row that is written while an older row of its key is still there takes its place; two rows of a key written by one commit are
  an error when the query runs, which names the key and the version. A deletion ends the version of its key. Rows with a null key are left
  out (C12).
- **Ranges** `from` and `to` are numbers of commits, both included, or times: the first commit at or after `from`, the last at or before
  `to`. The result then has every version that a commit of the range began or ended; one that began before has a null `valid_from` and
  `from_version`, one that did not end in the range a null `valid_to` and `to_version`. So each next range holds what is needed to bring
  the result of the ranges before it up to date. Without `from`, the history must be complete.
- **What is available** The feed must be enabled, `ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = true)`, and begins there.
  VACUUM removes the files of older commits, and log retention their entries. A range that is not there in full is an error, when the
  query is analysed, that says which is. (That files were vacuumed is read from the table's log, which has it where Delta logs VACUUM.)

## Nulls, ties, late rows, empty input

There is no event time, hence nothing is late. Null values are values like any other. A table without rows in the range gives none.

## Guarantees

The result is a function of the contents that the table had, not of its files. The versions of a key do not overlap. The table must not be a
stream; its newest version is fixed when the query is analysed.

## State and memory

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
from streamtime.sql.syntax.text import literal
from streamtime.sql.tables.commits import NAME, Moment, history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.call.values import Value

ANALYZED = {"TIMESTAMP": "timestamp_micros({})", "DATE": "CAST(date_from_unix_date({}) AS TIMESTAMP)"}  # numbers, as Catalyst holds them


@dataclass(frozen=True)
class Commit(Kind):
    """The number of a commit, or a time; read as the number, or as SQL text of the time."""

    sql: str = "BIGINT or TIMESTAMP"
    python = int | str | datetime.date

    def read(self, value: Value) -> Moment:
        """The number, or the text."""
        given, is_time = value.python, value.type.startswith(("TIMESTAMP", "DATE", "datetime", "date"))
        if type(given) is int and not is_time and given >= 0:
            return given
        if isinstance(given, datetime.datetime):
            return f"timestamp_micros({T.TimestampType().toInternal(given)})"
        if (isinstance(given, str) and given.strip()) or isinstance(given, datetime.date):
            return f"try_cast({literal(str(given))} AS TIMESTAMP)"
        if type(given) is int and value.type in ANALYZED:
            return ANALYZED[value.type].format(given)
        raise Refused("the number of a commit, or a time", "Write it as 3, or as '2024-05-01 10:00:00'.")


def plan(call: Bound) -> DataFrame:
    """TABLE_HISTORY as a DataFrame."""
    return history(call.session, call["table"], call["keys"], call["from"], call["to"]).rows


SPEC = Spec(
    name=NAME,
    summary="The versions of each key of a Delta table by commit: which row was the key's, from which commit to which.",
    rules="C5, C8, C12, V1, V6, V7 (KIP-914)",
    page=__doc__,
    plan=plan,
    tables=0,
    positional=("table",),
    options=(
        Option("table", Text(expression=False), "the name of a Delta table, 'catalog.schema.table'", required=True, example="'table'"),
        Option("from", Commit(), "the first commit of a range, by number or by time", default_text="the first commit"),
        Option("to", Commit(), "the last commit of a range, by number or by time, included", default_text="the last commit"),
        Option("keys", Texts(), "the columns by which rows are told apart", default_text="the table's property `streamtime.key`"),
    ),
    adds={
        "always": "the table's columns, then `valid_from` TIMESTAMP, `valid_to` TIMESTAMP (of the commits; null: current), "
        "`from_version` BIGINT, `to_version` BIGINT"
    },
    examples=(
        Example(
            "DROP TABLE IF EXISTS stock;\n\n"
            "CREATE TABLE stock (item STRING, amount INT) USING delta\n"
            "  TBLPROPERTIES (delta.enableChangeDataFeed = true, 'streamtime.key' = 'item');\n\n"
            "INSERT INTO stock VALUES ('tea', 10), ('rum', 2);\n\n"
            "UPDATE stock SET amount = 8 WHERE item = 'tea';\n\n"
            "DELETE FROM stock WHERE item = 'rum'",
            "SELECT item, amount, from_version, to_version, valid_to IS NULL AS is_current FROM TABLE_HISTORY('stock')\n"
            "ORDER BY item, from_version",
        ),
        Example("", "SELECT item, amount, from_version, to_version FROM TABLE_HISTORY('stock', from => 3, to => 3)"),
    ),
)
