"""SUPPRESS_UNTIL_CLOSE of all changes that a call made, planned as one with that call (rules S2, W6, C10).

Of a window's changes one comes out, the last; so the others need not be made. That holds where rows come in event-time order: what moves
stream time to a window's close comes after all of its changes, whatever ties there are, and each window has one result. It also holds on a
stream, in any order: the watermark, by which both calls go, moves between micro-batches, and what it closes leaves before more is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtime.sql.rows.changelog import CHANGE
from streamtime.sql.rows.columns import named
from streamtime.sql.stream.plan import is_stream
from streamtime.sql.suppress.batch import EMITTED, at_end
from streamtime.sql.windows.updates import CLOSE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamtime.sql.call.spec import Bound, Finals
    from streamtime.sql.rows.frame import Frame
    from streamtime.udfs.suppress.until import Suppression, Until

_, TIME, NUMBER = CHANGE
START, END = "window_start", "window_end"
ON_A_STREAM = ("watermark", "name")  # another stream time than the changes have; and who names a buffer's metrics wants one
LEFT_TO_THE_CALL = ("clock_by", "deleted", "max_records", "max_bytes", "window_end")  # what decides otherwise than the call's own columns


def in_one(function: Suppression, call: Bound, frame: Frame, until: Until) -> DataFrame | None:
    """What comes out, planned with the call that made the changes. None: it is not known which did, or more is asked for than its last."""
    if not _asks_for_the_last(call, frame, until) or (is_stream(call) and _wants_a_buffer(call, at_end(function, call))):
        return None
    made_by = call.made_by()
    finals = None if made_by is None or made_by.spec.finals is None else made_by.spec.finals(made_by)
    if finals is None or not _has_all_of_a_window(frame, finals):
        return None
    return finals.plan(at_end(function, call)).select(*(named(c.name) for c in frame.columns), *map(named, EMITTED))


def _wants_a_buffer(call: Bound, at_its_end: str) -> bool:
    """Whether on a stream something is asked for that only a buffer of its own has, or refuses."""
    return call["clock"] != "event" or at_its_end == "emit" or any(call[o] is not None for o in ON_A_STREAM)


def _asks_for_the_last(call: Bound, frame: Frame, until: Until) -> bool:
    """Whether a window's changes come out when `window_close` says, once, and as they are."""
    columns = [c.name for c in frame.columns]
    own = until.close == CLOSE and frame.time.name == TIME and not call.names.find("_change_type", columns)
    own &= columns == list(frame.originals)  # none twice
    return own and call["output"] == "rows" and all(call[o] is None for o in LEFT_TO_THE_CALL)  # `until` goes with `window_end`


def _has_all_of_a_window(frame: Frame, finals: Finals) -> bool:
    """Whether a key is one key of the call and one window of it, whose changes are taken in the order in which they came."""
    keys, order = {k.name for k in frame.keys}, [(o.ref.name, o.ascending, o.nulls_first) for o in frame.order]
    return finals.keys | {START} <= keys <= finals.keys | {START, END, CLOSE} and order == [*finals.order, (NUMBER, True, True)]
