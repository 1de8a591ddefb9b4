"""An input as a changelog (rules C10, S1, V5): which rows delete their key, and which are no changes at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from streamtime.sql.call.errors import of_other_type
from streamtime.sql.call.kinds import Text
from streamtime.sql.call.spec import Option
from streamtime.sql.call.values import Expression
from streamtime.sql.rows.columns import expression
from streamtime.sql.rows.frame import prepare
from streamtime.sql.syntax.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame, Ref

DELETED = Option(
    "deleted",
    Text(),
    "marks deletions (tombstones): changes that remove the row of their key",
    default_text="change_type = 'delete' or _change_type = 'delete', where such a column exists",
)
# columns of a change that a function over changes makes anew, or leaves out (C10)
CHANGE = ("change_type", "change_time", "change_seq")
SHOWN = ("PARTITION BY", "`group_by`")  # what a call asks columns to be that a change then has
MADE_ANEW = (*CHANGE, "_change_type", "_commit_version", "_commit_timestamp")


def change_columns(kind: Column, at: Column, seq: Column) -> list[Column]:
    """The columns that say what a change is: upsert or delete, its time, and its place among the changes of one place in the order."""
    return [made.alias(name) for made, name in zip((kind, at, seq.cast("bigint")), CHANGE, strict=True)]


def changelog(call: Bound, **extras: tuple[Expression, ...]) -> Frame:
    """The prepared input, without the rows that are no changes."""
    if call["deleted"]:
        extras["deleted"] = (Expression.parse(call["deleted"]),)
    frame = prepare(call, clock_by=call.clock_by, **extras)
    for ref in frame.extras.get("deleted", ()):
        refuse_no_condition(call, "deleted", ref)
    no_changes = preimages(call, typed(frame))
    return frame if no_changes is None else frame.with_df(frame.df.where(~expression(no_changes)))


def refuse_no_condition(call: Bound, option: str, given: Ref) -> None:
    """Whether the option says yes or no of a row."""
    if not isinstance(given.type, (T.BooleanType, T.NullType)):
        raise call.refuse(
            f"`{option}`", of_other_type("a condition", given.type.simpleString(), given.text), "Write it as 'value IS NULL'."
        )


def refuse_unnamed(call: Bound, role: str, ref: Ref, columns: Sequence[Ref]) -> None:
    """A change has this column by its name (C10), so it is one of the input's `columns`; `role` is what the call asks it to be."""
    if ref.name not in {c.name for c in columns}:
        fix = f"Name it in the TABLE argument: TABLE(SELECT *, {ref.text} AS name FROM ..)."
        raise call.refuse(role, f"a change has this column, so it needs a name (`{ref.text}`)", fix)


def refuse_made_anew(call: Bound, role: str, name: str) -> None:
    """Keys and groups are columns of the changes, so they cannot have the name of one that is made anew (C9, C10)."""
    if role in SHOWN and call.names.among(name, MADE_ANEW):
        fix = f"Rename it in the TABLE argument: TABLE(SELECT *, {quoted(name)} AS name FROM ..)."
        raise call.refuse(role, f"`{name}` is a column that tells of a change, which is made anew or left out", fix)


def typed(frame: Frame) -> list[tuple[str, T.DataType]]:
    """The input's columns and their types."""
    return [(c.name, c.type) for c in frame.columns]


def tombstones(call: Bound, frame: Frame) -> str | None:
    """Whether a row of the input deletes its key, as SQL text; None: none does."""
    given = frame.extras.get("deleted", ())
    return deletions(call, quoted(given[0].name) if given else None, typed(frame))


def deletions(call: Bound, given: str | None, columns: Sequence[tuple[str, T.DataType]]) -> str | None:
    """The same over these columns; `given` is what the call says of it."""
    if given is not None:
        return f"coalesce({given}, false)"
    names = [n for n in (_text_column(call, columns, "change_type"), _text_column(call, columns, "_change_type")) if n is not None]
    return " OR ".join(f"coalesce({quoted(n)} = 'delete', false)" for n in names) or None


def preimages(call: Bound, columns: Sequence[tuple[str, T.DataType]]) -> str | None:
    """Whether a row says what another was before an update, as Delta does, and is no change, as SQL text; None: none does."""
    name = _text_column(call, columns, "_change_type")
    return None if name is None else f"coalesce({quoted(name)} = 'update_preimage', false)"


def _text_column(call: Bound, columns: Sequence[tuple[str, T.DataType]], name: str) -> str | None:
    return next((c for c, kind in columns if isinstance(kind, T.StringType) and call.names.same(c, name)), None)
