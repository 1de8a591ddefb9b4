"""What became of each row that suppress took, in words for people: `output => 'explain'`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from streamtime.sql.call.binding import refuse_clash
from streamtime.sql.rows.columns import expression, named
from streamtime.sql.rows.typed import microseconds
from streamtime.sql.syntax.text import quoted
from streamtime.udfs.suppress.buffer import ARRIVED, DECIDED_AT, DECIDED_BY, DUE_AT, EMIT_REASON, OUTCOME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound
    from streamtime.sql.rows.frame import Frame
    from streamtime.udfs.suppress.until import Until


def explained(call: Bound, frame: Frame, until: Until) -> DataFrame:
    """Each row, and in words what became of it."""
    kind, due, at, came = frame.time.type, quoted(DUE_AT), quoted(DECIDED_AT), quoted(ARRIVED)
    decided, since = microseconds(at, kind), microseconds(due, kind)
    over = f"coalesce(try_subtract({decided}, {since}) / 1e6, {decided} / 1e6 - {since} / 1e6)"
    if until.corrected:
        was, will, missing = "its window ended", "its window ends", "no event time, no first ORDER BY value, or no end of its window"
    elif until.final:
        was, will, missing = "its window closed", "its window closes", "no event time, no first ORDER BY value, or no close"
    else:
        was, will, missing = "its wait was over", "its wait would be over", "no event time, or no first ORDER BY value"
    without_limit = {
        f"{quoted(OUTCOME)} = 'held'": "Buffered; held back at the end of the input: there was room, and no time limit.",
        f"{quoted(OUTCOME)} = 'replaced'": "Buffered; replaced at stream time {at} by a newer row of its key.",
        f"{quoted(EMIT_REASON)} = 'end'": "Buffered; released by the end of the input at stream time {at}.",
    }
    with_limit = {
        f"{quoted(OUTCOME)} = 'held'": f"Buffered; held back at the end of the input: {will} {{at_due}}, which stream time did not reach.",
        f"{quoted(OUTCOME)} = 'tombstone' AND {at} >= {due}": "Buffered; dropped at stream time {at}, "
        f"since {was} {{at_due}}: its newest change is a deletion.",
        f"{quoted(OUTCOME)} = 'tombstone'": "Buffered; dropped at the end of the input, "
        f"before {was} {{at_due}}: its newest change is a deletion.",
        f"{quoted(OUTCOME)} = 'replaced' AND {at} >= {due}": "Buffered; replaced at stream time {at} by a newer row "
        f"of its key, which came in the very step in which {was} {{at_due}}.",
        f"{quoted(OUTCOME)} = 'replaced'": f"Buffered; replaced at stream time {{at}} by a newer row of its key, before {was} {{at_due}}.",
        f"{quoted(EMIT_REASON)} = 'end'": f"Buffered; released by the end of the input at stream time {{at}}, before {was} {{at_due}}.",
    }
    sentences = {
        f"{quoted(OUTCOME)} = 'null_time'": f"Dropped: it has {missing}.",
        **(with_limit if until.limited else without_limit),
        f"{quoted(EMIT_REASON)} = 'full'": "Buffered; released early at stream time {at}: the buffer was full and its place the oldest.",
        f"{came} >= {due}": f"Passed at once: {was} {{at_due}}, and stream time was {{at}} when it came.",
        f"{at} = {due}": f"Buffered; released when stream time reached {{at}}, exactly when {was}.",
    }
    otherwise = f"Buffered; released when stream time reached {{at}}, {{over}} s after {was} {{at_due}}."
    pieces = {
        "at": f"{at}",
        "at_due": f"coalesce(concat('at ', {due}), 'beyond the end of TIMESTAMP')",
        "over": f"format_number({over}, '0.######')",
    }
    whens = " ".join(f"WHEN {when} THEN {_sentence(text, pieces)}" for when, text in sentences.items())
    explanation = expression(f"CASE {whens} ELSE {_sentence(otherwise, pieces)} END")
    shown = {
        "outcome": named(OUTCOME),
        "stream_time": F.when(frame.has_time, named(ARRIVED)),
        "decided_at": named(DECIDED_AT),
        "decided_by": named(DECIDED_BY),
        "explanation": explanation,
    }
    refuse_clash(call, frame.originals, tuple(shown))
    return frame.df.select(*frame.original(), *[c.alias(name) for name, c in shown.items()])


def _sentence(text: str, pieces: dict[str, str]) -> str:
    """A sentence with places for values, as SQL text."""
    parts = [pieces[part] if number % 2 else f"'{part}'" for number, part in enumerate(re.split(r"[{}]", text)) if part]
    return f"concat({', '.join(parts)})"
