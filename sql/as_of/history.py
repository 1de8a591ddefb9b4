"""The right side as a table whose history is asked: by event time where it declares that it is versioned, else by commit (J1, V6, V7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.call.errors import CallError, NoHistory, listed, of_other_type
from streamtime.sql.call.names import parts, pieces, plain
from streamtime.sql.call.values import Expression, Sort
from streamtime.sql.rows.columns import TIMES, resolved
from streamtime.sql.syntax.text import literal, quoted
from streamtime.sql.syntax.tokens import Source
from streamtime.sql.tables.commits import ADDED, history
from streamtime.sql.tables.declaration import PREFIX, as_name, reads_with, versioned_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from streamtime.sql.as_of.keys import KeyPair
    from streamtime.sql.call.spec import Bound
    from streamtime.sql.syntax.conditions import Conjunct
    from streamtime.sql.tables.declaration import Declaration

TIMESTAMP, VERSION = "timestamp", "version"


@dataclass(frozen=True)
class Past:
    """What stands in for the right side: its rows, the times of both sides, and, as SQL, what marks deletions and where a row ends.

    `keys` and `others` are what the condition comes to. `begins` is the time, or number, of the first commit, where commits are asked.
    """

    frame: DataFrame
    times: tuple[Sort, Sort]
    keys: list[KeyPair]
    others: list[Conjunct]
    deleted: str | None = None
    until: str | None = None
    begins: int | None = None


def past(call: Bound, keys: list[KeyPair], others: list[Conjunct], at: Expression) -> Past:
    """The history of the right side's table. Raises CallError where there is none, or the join does not fit its key."""
    frame, unit = call.tables[1].df, call["unit"] or TIMESTAMP
    declaration = versioned_source(call.tables[1].source, call.spec.name)
    if declaration is not None:
        call.depends_on(declaration.said)
        return _by_event_time(call, declaration, keys, others, at)
    if reads_with(call.tables[1].source, call["history"]):
        fix = "Write ASOF JOIN .. MATCH_CONDITION, or name the table with its schema."
        raise call.refuse("`history`", f"{call['history']} is a query of WITH here, not a table", fix)
    kind = resolved(call.tables[0].df, at.text) if unit == VERSION else None
    if kind is not None and not isinstance(kind, T.IntegralType):
        problem = of_other_type("the number of a commit", kind.simpleString(), at.text)
        raise call.refuse("VERSION AS OF", problem, "Use TIMESTAMP AS OF with a time; CAST another number AS BIGINT.")
    if call.tables[0].df.isStreaming:
        fix = f"Declare its versions, and a stream sees its newest rows: {declaring(call, [column(k.right.text) for k in keys])}."
        raise call.refuse("`history`", f"the commits of {call['history']} are read when the query is analysed, and a stream goes on", fix)
    names = []
    for key in keys:
        name = call.names.find(plain(key.right.text), frame.columns)
        if name is None:
            fix = "A table's history is kept by columns: join on one of them, or declare the table's key (streamtime.key)."
            raise call.refuse("`on`", f"expected a column of {call['history']} as key, got `{key.right.text}`", fix)
        names.append(name)
    if not names:
        raise call.refuse("`on`", f"no key to look up in {call['history']}", "Add an equality with a column of it.")
    by_its_own = _by_its_own(call, names) if unit == TIMESTAMP else None
    fix = "The times of its commits are asked, since it declares no event time. "
    fix = fix + by_its_own if by_its_own else "Join on all the columns that tell rows apart."
    try:
        versions = history(call.session, call["history"], [quoted(n) for n in names], fix=fix)
    except NoHistory as error:
        if by_its_own and " is a view" in error.problem:  # which declares nothing of its own
            by_its_own = by_its_own.replace(
                "declare its versions: ALTER TABLE " + call["history"], "declare its table's versions: ALTER TABLE .."
            )
        raise call.refuse("`history`", error.problem, by_its_own or error.fix) from None
    except CallError as error:
        raise call.refuse("`history`", error.problem, error.fix) from None
    rows = versions.rows
    if unit == TIMESTAMP:
        times = Sort(at), Sort(Expression.parse("valid_from"))
        return Past(rows, times, keys, others, until="valid_to", begins=versions.began)
    if call["tolerance"] is not None:
        raise call.refuse("`tolerance`", "is a length of time, and versions are counted", "Leave it out.")
    numbers = [f"timestamp_micros(CAST({text} AS BIGINT))" for text in (at.text, "from_version", "to_version")]  # in their order
    left, right = (Sort(Expression.parse(n)) for n in numbers[:2])
    return Past(rows, (left, right), keys, others, until=numbers[2], begins=versions.first)


def declaring(call: Bound, keys: Sequence[str]) -> str:
    """The statement that makes the right side's table a versioned one by these columns, as far as it can be known."""
    properties = {"key": ", ".join(map(as_name, keys)) or "id", "time": as_name(_time(call, keys))}
    settings = ", ".join(f"{literal(PREFIX + p)} = {literal(value)}" for p, value in properties.items())
    return f"ALTER TABLE {call['history']} SET TBLPROPERTIES ({settings})"


def column(text: str) -> str:
    """The column that SQL text names, whatever table it names before it; other text as it is."""
    return (parts(text) or [text])[-1]


def _time(call: Bound, keys: Sequence[str]) -> str:
    """The column of the right side that is likely its event time."""
    fields = call.tables[1].df.schema
    return next((f.name for f in fields if isinstance(f.dataType, TIMES) and call.names.find(f.name, list(keys)) is None), "ts")


def _by_its_own(call: Bound, keys: Sequence[str]) -> str:
    """The two ways to find what was valid at a time by the right side's own event time, to copy."""
    table = call["history"]
    mentioned, asking = _tables(call["on"] or ""), _tables(call["at"])
    own = (pieces(table) or [table.rpartition(".")[2]])[-1]
    name = next((m for m in mentioned if m not in asking), own)
    alias = "" if name == own else f" {name}"
    on = f"ON {call['on']}" if call["on"] else f"USING ({', '.join(map(as_name, call['using'] or keys))})"
    join = "LEFT ASOF JOIN" if call["join_type"] == "left" else "ASOF JOIN"
    match = f"{join} {table}{alias} MATCH_CONDITION ({call['at']} >= {name}.{as_name(_time(call, keys))}) {on}"
    return f"Write {match}, over any table; or, in Delta, declare its versions: {declaring(call, keys)}."


def _tables(text: str) -> list[str]:
    """The names with a dot behind them, as written."""
    source = Source(text)
    return [t.text for i, t in enumerate(source.tokens) if t.name is not None and source.word(i + 1) == "."]


def tombstones(call: Bound) -> str | None:
    """What marks deletions in the right side's rows, where they are those of a table that declares it (V7, V8)."""
    declaration = versioned_source(call.tables[1].source, call.spec.name)
    if declaration is None:
        return None
    call.depends_on(declaration.said)
    return declaration.deleted


def table_columns(names: tuple[str, ...]) -> int:
    """How many of the columns of a history are the table's own."""
    return len(names) - len(ADDED)


def _by_event_time(call: Bound, declaration: Declaration, keys: list[KeyPair], others: list[Conjunct], at: Expression) -> Past:
    if call["unit"] == VERSION:
        fix = f"Use TIMESTAMP AS OF with a time. Commits are read by TABLE_HISTORY('{declaration.table}')."
        raise call.refuse(
            "VERSION AS OF", f"counts commits, and {declaration.table} is versioned by event time (`{declaration.time}`)", fix
        )
    compared = [plain(key.right.text) or "" for key in keys]
    missing = [k for k in declaration.key if call.names.find(k, compared) is None]
    if missing:
        problem = f"the versions of {declaration.table} are kept by {listed(declaration.key)}, and {listed(missing)} is not compared"
        raise call.refuse("`on`", problem, "Add an equality for it (V7); conditions on other columns apply after a version is picked.")
    own = [keys[call.names.among(k, compared)[-1]] for k in declaration.key]
    rest = [key for key in keys if key not in own]
    if any(key.written is None for key in rest):
        raise call.refuse("`using`", f"{listed(k.right.text for k in rest)} is no part of the key of {declaration.table}", "Use ON.")
    assert declaration.time is not None
    time = Sort(Expression.parse(quoted(declaration.time)))
    others = [*others, *(key.written for key in rest if key.written)]
    return Past(call.tables[1].df, (Sort(at), time), own, others, deleted=declaration.deleted)
