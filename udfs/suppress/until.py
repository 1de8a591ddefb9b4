"""Until when rows are held (rules S2, S3): until a time limit, or until their window closes; and what a function of suppress is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.groups import HIGHEST, Flags, Ints
from streamtime.udfs.arrays.ordering import one
from streamtime.udfs.suppress.decisions import Bounds, BufferedChanges, Decided, emitting_early, until_close, until_time_limit


@dataclass(frozen=True)
class Suppression:
    """A function of suppress, for what both have in common."""

    closes: bool  # rows are held until their window closes; else until a time limit
    early: bool  # whether a full buffer may let rows out before their time
    at_end: str  # what becomes of held rows at the end of the input, where the call does not say
    pinned: tuple[str, ...]  # the options that its state on a stream depends on


@dataclass(frozen=True)
class Until:
    """Until `wait` has passed since the row's own time; with `close`, until `after` has passed since the time in that column."""

    wait: int = 0  # HIGHEST: no limit of time
    close: str | None = None
    after: int = 0
    corrected: bool = False  # `close` is the end of a window: what comes after that corrects its result [S12]

    @property
    def final(self) -> bool:
        """Whether what comes out is final: then a deletion is dropped when its time comes [S2]."""
        return self.close is not None

    @property
    def limited(self) -> bool:
        """Whether a held row is due at some time."""
        return self.final or self.wait < HIGHEST

    @property
    def reasons(self) -> tuple[str, str, str]:
        """Why a row comes out, as people read it: it was due, the buffer full, the input at its end."""
        return ("time" if self.close is None else "window_end" if self.corrected else "close"), "full", "end"

    def dropped(self, deleted: Flags, arrived: Ints, due: Ints) -> Flags:
        """Which deletions are dropped when their time comes [S2]: none that came when it had, and corrects a result [S12]."""
        if not self.final:
            return np.zeros(len(deleted), bool)
        return deleted & ((arrived < due) | (due == HIGHEST)) if self.corrected else deleted

    def places(self, rows: pa.Table, time: str) -> tuple[Ints, Ints]:
        """How old the place is that each row takes, were nothing held of its key, and when that is due."""
        place = groups.micros(one(rows, time if self.close is None else self.close))
        if self.close is None:
            return place, self.due(place)
        closes = groups.plus(place, self.after)
        return closes, closes

    def due(self, times: Ints) -> Ints:
        """When places of these times are due, where rows wait for a time limit."""
        if self.wait == 0:  # nothing waits, at the end of TIMESTAMP neither
            return np.minimum(times, HIGHEST - 1)
        return groups.plus(times, self.wait) if self.wait < HIGHEST else np.full(len(times), HIGHEST)

    def decided(self, rows: BufferedChanges, bounds: Bounds, sizes: Ints, rank: Callable[[], Ints]) -> Decided:
        """What becomes of each row; `rank` numbers the keys in their own order."""
        if self.close is not None:
            return until_close(rows)
        if bounds.early:
            return emitting_early(rows, bounds, sizes, rank())
        return until_time_limit(rows)
