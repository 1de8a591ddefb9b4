"""When windows close, W1, W3 and W6, of which this is the one place.

A window takes rows until stream time reaches its close; from then on it is closed, and final. It closes some time after its end: a time
window by `grace`; a session by its `gap` and `grace`. The end of a session or of a sliding window is part of it, so one closes once stream
time has passed that, one microsecond later. A row that waits on a stream leaves as a time window closes that ends at its time (J5, C5).

Ends and stream times are microseconds: numbers, NumPy arrays, or SQL text, for which `plus` and `minus` are those of
`streamtime.sql.syntax.text`. Sums stop at the ends of BIGINT, and a window that ends at the last microsecond never closes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST

Sum = Callable[[Any, int], Any]  # a time, and a duration that is added to it or taken from it


def plus(time: Any, duration: int) -> Any:
    """A time and a duration, of a number or of a NumPy array."""
    if isinstance(time, np.ndarray):
        return groups.plus(time, duration)
    return min(time + duration, HIGHEST)


def minus(time: Any, duration: int) -> Any:
    """A time less a duration, of a number or of a NumPy array."""
    if isinstance(time, np.ndarray):
        return groups.minus(time, duration)
    return max(time - duration, LOWEST)


@dataclass(frozen=True)
class Closing:
    """How windows of one kind close."""

    patience: int  # how long past its end one takes rows
    end_inside: bool  # whether its end is part of it

    @property
    def after(self) -> int:
        """How long after its end one closes [W6]."""
        return self.patience + self.end_inside

    def after_start(self, size: int) -> int:
        """How long after its start one of this size closes."""
        return size + self.after

    def close(self, end: Any, plus: Sum = plus) -> Any:
        """The first stream time at which one with this end is closed [W6]."""
        return plus(end, self.after)

    @property
    def last_to_close(self) -> int:
        """What ends after this never closes: that would be beyond the last moment of TIMESTAMP."""
        return HIGHEST - self.after

    def end_of_grace(self, end: Any, plus: Sum = plus) -> Any:
        """How long rows may still come: at this stream time one closes whose end is not part of it, right after it one whose end is."""
        return plus(end, self.patience)

    def closed_before(self, stream_time: Any, plus: Sum = plus, minus: Sum = minus) -> Any:
        """One that ends before this is closed [W1, W3]."""
        edge = minus(stream_time, self.patience)
        return edge if self.end_inside else plus(edge, 1)


def of_time_windows(grace: int) -> Closing:
    """Windows `[start, end)`: one takes a row iff its end > stream time - grace [W1]."""
    return Closing(grace, end_inside=False)


def of_sliding_windows(grace: int) -> Closing:
    """Windows `[start, end]`: one is closed iff its end < stream time - grace [W5]."""
    return Closing(grace, end_inside=True)


def of_sessions(gap: int, grace: int | None) -> Closing:
    """Sessions, both of whose bounds are rows: one is closed iff stream time > its end + gap + grace [W3]. Without grace, as with none."""
    return Closing(gap + (grace or 0), end_inside=True)


def of_last_sliding_window(difference: int, grace: int) -> Closing:
    """The last sliding window that can have a row, which ends `difference` later: counted from the row's own time."""
    return Closing(difference + grace, end_inside=True)


def of_waiting_rows(grace: int) -> Closing:
    """Rows that wait: one leaves iff its time <= stream time - grace [J5]."""
    return Closing(grace, end_inside=False)


def in_grace(stream_time: Any, grace: int, minus: Sum = minus) -> Any:
    """The oldest time that a row may have that is not later than `grace`."""
    return minus(stream_time, grace)
