"""What each row did to the sessions of its key when it came, row by row: for `output => 'explain'`, and for what is late in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays.groups import LOWEST, Flags, Ints
from streamtime.udfs.sessions.rules import LATE, RowByRow, edge
from streamtime.udfs.state import Step

EDGES = ("was_start", "was_end", "start", "end")


@dataclass(frozen=True)
class SessionSteps(RowByRow):
    """Of each row four times.

    `start` and `end` are its session's bounds right after it; `was_start` and `was_end` those that the session which it joined had before,
    null where it joined none. Of a row that merged two (there are never more within `gap` of it), `was_end` is the end of the earlier one
    and `was_start` the start of the later one: the wrong way round.

    Without `grace`, no row is late; `close` says whether sessions then close all the same, as they do in a stream.
    """

    close: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a row is dropped."""
        return ("late",)

    def oldest_ends(self, stream_times: Ints) -> Ints:
        """A session that ends before this is closed when the row comes."""
        return super().oldest_ends(stream_times) if self.grace is not None or self.close else np.full(len(stream_times), LOWEST)

    def step(self, group: Ints, columns: Sequence[pa.Array], owner: Ints, held: Ints, stream_time: int) -> Step:
        """One micro-batch of a stream (`streamtime.udfs.state.Transition`); columns are the time alone."""
        steps, entries = self.judged(group, columns[0], owner, held, stream_time)
        return Step(self._late(steps).astype(np.int64), self._times(steps, columns[0].type), entries[0], entries[1:])

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Per row a struct of `late` and the four times."""
        for steps, like in self.steps(batches):
            yield pa.StructArray.from_arrays([pa.array(self._late(steps)), *self._times(steps, like)], ["late", *EDGES])

    def _late(self, steps: Ints) -> Flags:
        late: Flags = steps[0] == LATE
        return late if self.grace is not None else np.zeros(len(late), bool)

    def _times(self, steps: Ints, like: pa.DataType) -> list[pa.Array]:
        _, start, end, was_start, was_end = steps
        return [edge(moments, like) for moments in (was_start, was_end, start, end)]
