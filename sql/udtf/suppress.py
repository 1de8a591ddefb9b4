"""Both functions of suppress as Python UDTFs: what they need of each row beside the usual, and their judge, with the kernel's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import types as T

from streamtime.sql.call.names import plain
from streamtime.sql.rows.changelog import deletions, preimages
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.suppress.batch import at_end, closing, refuse_versioned, size_of
from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, Ints
from streamtime.udfs.arrays.ordering import comparable
from streamtime.udfs.suppress import decisions

if TYPE_CHECKING:
    from streamtime.sql.call.in_memory import Columns
    from streamtime.sql.call.spec import Bound

CLOSES, KIND, SIZE, KEYS = range(4)  # of a change: when its window closes, what kind it is, its bytes; then its keys
DELETION, PREIMAGE = 1, 2


def change(call: Bound, schema: T.StructType, kind: T.DataType | None) -> str:
    """What suppress needs of a row, as one struct, in SQL text."""
    if "clock" in call.options:
        refuse_versioned(call, schema)
    if call.options.get("clock") == "wall":
        raise call.refuse("`clock`", "'wall' is possible on a stream only: in batch no time passes", "Leave it out.")
    columns = [(f.name, f.dataType) for f in schema.fields]
    no_change, deleted = preimages(call, columns), deletions(call, call["deleted"], columns)
    kinds = [f"WHEN {no_change} THEN {PREIMAGE}"] if no_change else []
    kinds += [f"WHEN {deleted} THEN {DELETION}"] if deleted else []
    closes = "NULL"
    if "window_end" in call.options:
        text, after = closing(call, schema)
        name = call.names.find(plain(text), schema.names)
        named = kind if name is None else schema[name].dataType
        closes = f"if(({text}) IS NULL, NULL, {microseconds(text, named or T.TimestampType())} + {after}L)"
    parts = [closes, f"CASE {' '.join(kinds)} ELSE 0 END" if kinds else "0", size_of(columns), *(k.text for k in call.keys)]
    return f"struct({', '.join(f'{part} AS c{i}' for i, part in enumerate(parts))})"


def needed(call: Bound, schema: T.StructType) -> list[str]:
    """Expressions that must not be null beside the times."""
    return [closing(call, schema)[0]] if "window_end" in call.options else []


def suppressed(call: Bound, columns: Columns) -> tuple[Ints, list[str | None], dict[str, list[Any]]]:
    """All rows at once: which come out, in the order of release; why not; when, and why then."""
    aside = np.array([bool(a) for a in columns.aside])
    taken = np.flatnonzero(~aside)
    taken = taken[np.argsort(columns.clocks[taken], kind="stable")]
    out: list[tuple[int, str | None, int | None, str | None]] = [(row, "null_time", None, None) for row in np.flatnonzero(aside).tolist()]
    if len(taken):
        out += _decided(call, columns, taken)
    emitted: dict[str, list[Any]] = {"emit_time": [at for _, _, at, _ in out], "emit_reason": [why for _, _, _, why in out]}
    return np.array([row for row, _, _, _ in out], np.int64), [reason for _, reason, _, _ in out], emitted


def _decided(call: Bound, columns: Columns, taken: Ints) -> Iterator[tuple[int, str | None, int | None, str | None]]:
    changes = [columns.changes[row] for row in taken.tolist()]
    closes = "window_end" in call.options
    wait = HIGHEST if closes or call["wait"] is None else call["wait"]
    times, stream, sizes = columns.times[taken], columns.stream_time[taken], np.array([c[SIZE] for c in changes], np.int64)
    place = np.array([c[CLOSES] for c in changes], np.int64) if closes else times
    due = place if closes else np.full(len(taken), HIGHEST) if wait == HIGHEST else groups.plus(times, wait)
    keys = [tuple(comparable(v) for v in c[KEYS:]) for c in changes]
    ranks = {key: number for number, key in enumerate(sorted(set(keys)))}
    rank = np.array([ranks[key] for key in keys])
    clock = np.unique(columns.clocks[taken], return_inverse=True)[1]
    rows = decisions.Rows(columns.keys[taken], np.zeros(len(taken), np.int64), clock, stream, place, due, 0)
    bounds = decisions.Bounds(call["max_records"], call["max_bytes"])
    if closes:
        decided = decisions.until_close(rows)
    elif call["when_full"] == "emit_early":
        decided = decisions.emitting_early(rows, bounds, sizes, rank)
    else:
        decided = decisions.until_time_limit(rows)
    if call["when_full"] == "fail":
        count, size = (decisions.after_each(decided, amounts, 0) for amounts in (np.ones(len(taken), np.int64), sizes))
        decisions.refuse_full(call.spec.name, bounds, count, size, stream)
    held = decided.outcome == decisions.HELD
    if at_end(call) == "emit":
        decided.outcome[held], decided.why[held] = decisions.RELEASED, decisions.END
    ended, reasons = decided.why == decisions.END, ("close" if closes else "time", "full", "end")
    for i in np.lexsort((rank, decided.place, 2 * decided.at - ended)).tolist():
        reason = decisions.OUTCOMES[decided.outcome[i]]
        if reason == "released" and closes and changes[i][KIND] == DELETION:
            reason = "tombstone"
        came = reason == "released"
        at = int(stream[min(decided.at[i] - ended[i], len(stream) - 1)]) if came else None
        yield int(taken[i]), None if came else reason, at, reasons[decided.why[i]] if came else None
