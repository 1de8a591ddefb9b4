"""The first of two steps on a stream, by the key of rows: what each change takes out of a group, and what it puts into one (rule J9).

AGGREGATE_CHANGES adds that up by group; a join by a foreign key sends it to the key that it refers to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtime.udfs.arrays.groups import Ints
from streamtime.udfs.changes.latest import Latest, held_after, same_group, seen
from streamtime.udfs.state import Entries, Taken


@dataclass(frozen=True)
class Replaced(Latest):
    """A `Holder`. A row is alive where it is in a group."""

    carried: tuple[str, ...]  # the columns of the change
    part: tuple[str, ...]  # the columns of the row that goes or comes
    group_by: tuple[str, ...]  # those of them that tell groups apart
    made: tuple[str, str, str, str]  # the names of whether it comes, is the last of its group, came from another, and its number

    def take(self, rows: pa.Table, group: Ints, clock: Ints, owner: Ints, held: Entries) -> Taken:
        """The changes of a micro-batch."""
        state = seen(self.log, rows, group, int(clock[0]), owner, held)
        at = len(owner) + np.arange(len(group))
        has, had = state.applied & state.there(at), state.applied & state.there(state.before[0])
        same = has & had & same_group(state, self.group_by)
        row = np.concatenate((np.flatnonzero(had), np.flatnonzero(has)))
        comes = np.repeat([False, True], [int(had.sum()), int(has.sum())])
        order = np.lexsort((comes, row))
        row, comes = row[order], comes[order]
        source = np.where(comes, at[row], state.before[0][row])
        out = rows.select(list(self.carried)).take(pa.array(row))
        for name, column in zip(self.part, state.pool(self.part).take(pa.array(source)).columns, strict=True):
            out = out.append_column(name, column)
        moved = (has & had & ~same)[row]
        for name, made in zip(self.made, (comes, comes | ~same[row], moved, row), strict=True):
            out = out.append_column(name, pa.array(made))
        nothing = np.zeros(len(group), np.int64)  # numbers are those of the groups' changes
        return Taken(out, *held_after(self.log, state, nothing, nothing), self.ignored(state))
