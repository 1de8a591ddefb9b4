"""Both functions of suppress as Python UDTFs: what they need of each row beside the usual, and their judge, with the kernel's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import types as T

from streamtime.sql.call.names import plain
from streamtime.sql.call.spec import refuse_wall
from streamtime.sql.rows.changelog import deletions, preimages
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.suppress.batch import at_end, closing, refuse_versioned, size_of
from streamtime.sql.syntax.text import plus
from streamtime.udfs.arrays.groups import HIGHEST, Ints
from streamtime.udfs.arrays.ordering import comparable
from streamtime.udfs.suppress import decisions
from streamtime.udfs.suppress.until import Until

if TYPE_CHECKING:
    from streamtime.sql.call.in_memory import Columns
    from streamtime.sql.call.spec import Bound
    from streamtime.udfs.suppress.until import Suppression

CLOSES, KIND, SIZE, KEYS = range(4)  # of a change: when its window closes, what kind it is, its bytes; then its keys
DELETION, PREIMAGE, FAILS = 1, 2, 3


def change(function: Suppression | None, call: Bound, schema: T.StructType, kind: T.DataType | None) -> str:
    """What suppress needs of a row, as one struct, in SQL text."""
    if function is not None:
        refuse_versioned(call, schema)
        refuse_wall(call)
    columns = [(f.name, f.dataType) for f in schema.fields]
    no_change, deleted = preimages(call, columns), deletions(call, call["deleted"], columns)
    kinds = [f"WHEN {no_change} THEN {PREIMAGE}"] if no_change else []
    kinds += [f"WHEN {deleted} THEN {DELETION}"] if deleted else []
    kinds += [f"WHEN NOT coalesce(({call['condition']}), false) THEN {FAILS}"] if "condition" in call.options else []
    closes = "NULL"
    if function is not None and function.closes:
        text, after = closing(call, schema)
        name = call.names.find(plain(text), schema.names)
        named = kind if name is None else schema[name].dataType
        closes = f"if(({text}) IS NULL, NULL, {plus(microseconds(text, named or T.TimestampType()), after)})"
    parts = [closes, f"CASE {' '.join(kinds)} ELSE 0 END" if kinds else "0", size_of(columns), *(k.text for k in call.keys)]
    return f"struct({', '.join(f'{part} AS c{i}' for i, part in enumerate(parts))})"


def needed(function: Suppression | None, call: Bound, schema: T.StructType) -> list[str]:
    """Expressions that must not be null beside the times."""
    return [closing(call, schema)[0]] if function is not None and function.closes else []


def suppressed(function: Suppression, call: Bound, columns: Columns) -> tuple[Ints, list[str | None], dict[str, list[Any]]]:
    """All rows at once: which come out, in the order of release; why not; when, and why then."""
    aside = np.array([bool(a) for a in columns.aside])
    taken = np.flatnonzero(~aside)
    taken = taken[np.argsort(columns.clocks[taken], kind="stable")]
    out: list[tuple[int, str | None, int | None, str | None]] = [(row, "null_time", None, None) for row in np.flatnonzero(aside).tolist()]
    if len(taken):
        out += _decided(function, call, columns, taken)
    emitted: dict[str, list[Any]] = {"emit_time": [at for _, _, at, _ in out], "emit_reason": [why for _, _, _, why in out]}
    return np.array([row for row, _, _, _ in out], np.int64), [reason for _, reason, _, _ in out], emitted


def _decided(function: Suppression, call: Bound, columns: Columns, taken: Ints) -> Iterator[tuple[int, str | None, int | None, str | None]]:
    changes = [columns.changes[row] for row in taken.tolist()]
    wait = HIGHEST if function.closes or call["wait"] is None else call["wait"]
    times, stream_times, sizes = columns.times[taken], columns.stream_time[taken], np.array([c[SIZE] for c in changes], np.int64)
    until = Until(wait, "window_end" if function.closes else None, corrected=function.closes and call["until"] == "end")
    place = np.array([c[CLOSES] for c in changes], np.int64) if function.closes else times
    due = place if function.closes else until.due(times)
    keys = [tuple(comparable(v) for v in c[KEYS:]) for c in changes]
    ranks = {key: number for number, key in enumerate(sorted(set(keys)))}
    rank = np.array([ranks[key] for key in keys])
    clock = np.unique(columns.clocks[taken], return_inverse=True)[1]
    rows = decisions.BufferedChanges(columns.keys[taken], np.zeros(len(taken), np.int64), clock, stream_times, place, due, 0)
    bounds = decisions.Bounds(call["max_records"], call["max_bytes"], call["when_full"])
    decided = until.decided(rows, bounds, sizes, lambda: rank)
    decisions.enforce(call.spec.name, bounds, rows, decided, sizes)
    held = decided.outcome == decisions.HELD
    if at_end(function, call) == "emit":
        decided.outcome[held], decided.why[held] = decisions.RELEASED, decisions.END
    ended = decided.why == decisions.END
    drops = until.dropped(np.array([c[KIND] == DELETION for c in changes], bool), stream_times, decided.due)
    for i in np.lexsort((rank, decided.place, 2 * decided.at - ended)).tolist():
        reason = decisions.OUTCOMES[decided.outcome[i]]
        if reason == "released" and drops[i]:
            reason = "tombstone"
        came = reason == "released"
        at = int(stream_times[min(decided.at[i] - ended[i], len(stream_times) - 1)]) if came else None
        yield int(taken[i]), None if came else reason, at, until.reasons[decided.why[i]] if came else None
