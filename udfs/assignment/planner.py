"""ASSIGN_TASKS as a kernel: the three tables in, as rows of one; the plan out. What is wrong with them is a row, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamtime.udfs.assignment.cluster import UNKNOWN, Rules
from streamtime.udfs.assignment.reading import Read, Wrong
from streamtime.udfs.assignment.rounds import REVOKE, Round, simulated

PROBLEM = "problem"
PIECE = 8192  # rows that are sent at once
COLUMNS = {
    "rows": ("task", "member", "role", "action", "round"),
    "explain": ("task", "member", "role", "action", "round", "lag", "why"),
    "metrics": ("name", "round", "metric", "value", "unit"),
}
TYPES = {"round": pa.int32(), "lag": pa.int64(), "value": pa.float64()}


@dataclass(frozen=True)
class Planner:
    """Makes the plan. `name` labels metrics and errors; `given` says which optional columns there are."""

    rules: Rules
    rounds: int
    output: str
    function: str
    name: str
    given: frozenset[str]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows in, the plan out; a problem comes alone."""
        table = pa.Table.from_batches(batches)
        try:
            read = Read(table, self.given)
        except Wrong as wrong:
            where, problem, fix = wrong.args
            yield self._batch({PROBLEM: [f"{self.function}, {where}: {problem} {fix}"]}, table)
            return
        for number, one in enumerate(simulated(read.cluster, self.rules, self.rounds), 1):
            columns = self._metrics(one) if self.output == "metrics" else self._copies(read, one, number)
            rows = len(next(iter(columns.values())))
            batch = self._batch({**columns, "round": [number] * rows}, table)
            yield from (batch.slice(start, PIECE) for start in range(0, rows, PIECE))

    def _metrics(self, one: Round) -> dict[str, Any]:
        numbers = one.metrics(self.rules)
        values, units = zip(*numbers.values(), strict=True)
        return {"name": [self.name] * len(numbers), "metric": list(numbers), "value": list(map(float, values)), "unit": list(units)}

    def _copies(self, read: Read, one: Round, number: int) -> dict[str, Any]:
        actions = list(one.actions())
        columns: dict[str, Any] = {}
        if self.output == "explain":
            names = list(map(str, read.members.to_pylist()))
            columns["why"] = [one.why(action, self.rules, names) for action in actions]
            lags = [one.before.lag_of(task, member) for task, member, *_ in actions]
            columns["lag"] = [None if lag == UNKNOWN else max(lag, 0) for lag in lags]
        for task, member, role, why in read.left_over if number == 1 else ():
            actions.append((task, member, role, REVOKE))
            for column, value in (("why", why), ("lag", None)) if columns else ():
                columns[column].append(value)
        tasks, members, roles, what = zip(*actions, strict=True) if actions else ((), (), (), ())
        columns["task"] = read.tasks.take(pa.array(tasks, pa.int64()))
        columns["member"] = read.members.take(pa.array(members, pa.int64()))
        return {**columns, "role": roles, "action": what}

    def _batch(self, columns: dict[str, Any], table: pa.Table) -> pa.RecordBatch:
        """With all columns of the output, null where none are given."""
        rows = len(next(iter(columns.values())))
        types = {**TYPES, "task": table.schema.field("task").type, "member": table.schema.field("member").type}
        names = [*COLUMNS[self.output], PROBLEM]
        arrays = [columns.get(n, pa.nulls(rows, types.get(n, pa.string()))) for n in names]
        made = [a if isinstance(a, pa.Array) else pa.array(a, types.get(n, pa.string())) for a, n in zip(arrays, names, strict=True)]
        return pa.RecordBatch.from_arrays(made, names)
