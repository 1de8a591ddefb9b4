"""Whether a checkpoint belongs to the query as it is now: its options, and the columns of the rows that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type

from streamtime.udfs.state import Entries

GO_BACK = "Go back to what it was, or start the query with a new checkpoint location."
ABSENT = "not given"
OUTPUT = "output"  # among the options: with another one, the state is another, too
LETTERS, AS_WRITTEN = "letters", "as written"  # .. and that these are those of the call: older versions made all of them small
LATER = (LETTERS, OUTPUT, "types")  # options that checkpoints of older versions may lack


class StateError(RuntimeError):
    """A checkpoint does not belong to the query as it is now."""


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed, in words."""
    names = sorted(before.keys() | now.keys())
    pairs = [(name, before.get(name, ABSENT), now.get(name, ABSENT)) for name in names]
    return [f"{name} was {was} and is {is_now}" for name, was, is_now in pairs if was != is_now]


def refuse_changed(function: str, what: str, changed: Sequence[str]) -> None:
    """Raise StateError for what has changed, if anything has."""
    if changed:
        raise StateError(f"{function}: the query's checkpoint was written with other {what}: {'; '.join(changed)}. {GO_BACK}")


def agreed(function: str, before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The options that the state has from now on. Raises StateError where it was made with others, and names these."""
    if LETTERS not in before:
        small = {name: now[name] for name, was in before.items() if name in now and was == now[name].lower()}
        before = {name: now[name] for name in LATER if name in now} | dict(before) | small
    if OUTPUT in before and OUTPUT in now and before[OUTPUT] != now[OUTPUT]:  # what else differs follows from it
        before, now = {OUTPUT: before[OUTPUT]}, {OUTPUT: now[OUTPUT]}
    refuse_changed(function, "options", differences(before, now))
    return dict(now)


def fitting(function: str, held: Entries, columns: Sequence[str], rows: pa.Schema | None) -> Entries:
    """Held rows with their columns in the order in which they come now; `rows` is the schema of those that come, if any do.

    `columns` are those of a held row, none where more is held than columns of rows. Raises StateError for other ones, or of other types.
    """
    if held.payload is None or not columns:
        return held
    schema = held.payload.schema
    here = {} if rows is None else {f.name: type_in_words(f.type) for f in rows}
    was = {f.name: type_in_words(f.type) for f in schema}
    now = {n: here.get(n, was.get(n, "there")) for n in columns}
    refuse_changed(function, "columns", differences(was, now))
    return replace(held, payload=held.payload.select(list(columns))) if list(columns) != schema.names else held


def type_in_words(kind: pa.DataType) -> str:
    """An Arrow type as Spark calls it; several are one to Spark."""
    try:
        return from_arrow_type(kind).simpleString()
    except (PySparkException, TypeError):
        return str(kind)
