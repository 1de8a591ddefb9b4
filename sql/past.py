"""The right side as a table whose history is asked: by event time where it declares that it is versioned, else by commit (J1, V6, V7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamtime.sql.call import Expression, Sort
from streamtime.sql.declared import versioned_source
from streamtime.sql.errors import CallError, listed
from streamtime.sql.table_history import ADDED, history
from streamtime.sql.text import quoted, unquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call import Bound
    from streamtime.sql.conditions import Conjunct
    from streamtime.sql.declared import Declaration
    from streamtime.sql.sides import Key

TIMESTAMP, VERSION = "timestamp", "version"


@dataclass(frozen=True)
class Past:
    """What stands in for the right side: its rows, the times of both sides, and, as SQL, what marks deletions and where a row ends.

    `keys` and `others` are what the condition comes to.
    """

    frame: DataFrame
    times: tuple[Sort, Sort]
    keys: list[Key]
    others: list[Conjunct]
    deleted: str | None = None
    until: str | None = None


def past(call: Bound, keys: list[Key], others: list[Conjunct], at: Expression) -> Past:
    """The history of the right side's table. Raises CallError where there is none, or the join does not fit its key."""
    frame, unit = call.tables[1].frame, call["unit"] or TIMESTAMP
    declaration = versioned_source(frame, call.spec.name)
    if declaration is not None:
        return _by_event_time(call, declaration, keys, others, at)
    if call.tables[0].frame.isStreaming:
        fix = "Declare it as versioned (streamtime.key, streamtime.time): a stream then sees its newest rows."
        raise call.refuse("`history`", f"the commits of {call['history']} are read when the query is analysed, and a stream goes on", fix)
    columns = {c.lower(): c for c in frame.columns}
    names = []
    for key in keys:
        name = columns.get(unquoted(key.right.text).lower())
        if name is None:
            fix = "A table's history is kept by columns: join on one of them, or declare the table's key (streamtime.key)."
            raise call.refuse("`on`", f"expected a column of {call['history']} as key, got `{key.right.text}`", fix)
        names.append(name)
    if not names:
        raise call.refuse("`on`", f"no key to look up in {call['history']}", "Add an equality with a column of it.")
    try:
        rows = history(call.session, call["history"], names, apart="Join on all the columns that tell rows apart.")
    except CallError as error:
        raise call.refuse("`history`", error.problem, error.fix) from None
    if unit == TIMESTAMP:
        return Past(rows, (Sort(at), Sort(Expression.parse("valid_from"))), keys, others, until="valid_to")
    if call["tolerance"] is not None:
        raise call.refuse("`tolerance`", "is a length of time, and versions are counted", "Leave it out.")
    numbers = [f"timestamp_micros(CAST({text} AS BIGINT))" for text in (at.text, "from_version", "to_version")]  # in their order
    left, right = (Sort(Expression.parse(n)) for n in numbers[:2])
    return Past(rows, (left, right), keys, others, until=numbers[2])


def tombstones(call: Bound) -> str | None:
    """What marks deletions in the right side's rows, where they are those of a table that declares it (V7, V8)."""
    declaration = versioned_source(call.tables[1].frame, call.spec.name)
    return declaration.deleted if declaration is not None else None


def table_columns(names: tuple[str, ...]) -> int:
    """How many of the columns of a history are the table's own."""
    return len(names) - len(ADDED)


def _by_event_time(call: Bound, declaration: Declaration, keys: list[Key], others: list[Conjunct], at: Expression) -> Past:
    if call["unit"] == VERSION:
        fix = f"Use TIMESTAMP AS OF with a time. Commits are read by TABLE_HISTORY('{declaration.table}')."
        raise call.refuse(
            "VERSION AS OF", f"counts commits, and {declaration.table} is versioned by event time (`{declaration.time}`)", fix
        )
    by_name = {unquoted(key.right.text).lower(): key for key in keys}
    missing = [k for k in declaration.key if k.lower() not in by_name]
    if missing:
        problem = f"the versions of {declaration.table} are kept by {listed(declaration.key)}, and {listed(missing)} is not compared"
        raise call.refuse("`on`", problem, "Add an equality for it (V7); conditions on other columns apply after a version is picked.")
    own = [by_name[k.lower()] for k in declaration.key]
    rest = [key for key in keys if key not in own]
    if any(key.written is None for key in rest):
        raise call.refuse("`using`", f"{listed(k.right.text for k in rest)} is no part of the key of {declaration.table}", "Use ON.")
    assert declaration.time is not None
    time = Sort(Expression.parse(quoted(declaration.time)))
    others = [*others, *(key.written for key in rest if key.written)]
    return Past(call.tables[1].frame, (Sort(at), time), own, others, deleted=declaration.deleted)
