"""The three tables as a cluster, and all that can be wrong with their rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamtime.udfs.assignment.cluster import NONE, RUNNING, UNIT, Cluster

TASK, MEMBER, COPY = 0, 1, 2  # which table a row comes from
NOTHING = -1  # a row that is there so that there is one
ACTIVE, STANDBY, WARMUP = ROLES = ("active", "standby", "warmup")
SHOWN = 5  # rows in an error
LEAVE_OUT = "Leave such rows out."


class Wrong(Exception):
    """Rows that cannot be planned for: (the table, what is wrong, how to mend it)."""


class Read:
    """The tables as a Cluster; `tasks` and `members` are the names of numbers, those that are gone after those that are there.

    `given` are the optional columns that there are. `left_over` are copies of tasks, or on members, that are gone: task, member, role, why.
    """

    def __init__(self, rows: pa.Table, given: frozenset[str]) -> None:
        tasks, members, copies = (rows.filter(pc.equal(rows["kind"], kind)) for kind in (TASK, MEMBER, COPY))
        tasks, members = _named(tasks, "task", "tasks"), _named(members, "member", "members")
        listed = members["member"]
        if "alive" in given:
            members = members.filter(pc.fill_null(members["alive"], True))
        if not members.num_rows:
            raise Wrong("members", f"there is no member{' that is alive' if len(listed) else ''}.", "Tasks need someone to run them.")
        fix = "It says how many tasks a member runs at a time; leave the column out where that is one."
        few = pc.less(pc.fill_null(members["threads"], 0), 1)
        _refuse(members, few, "members", "`threads` must be 1 or more", fix, ("member", "threads"))
        cost = pc.fill_null(tasks["cost"], float("nan"))
        fix = "It says how much load a task is; leave the column out where all are alike."
        good = pc.and_(pc.greater(cost, 0.0), pc.is_finite(cost))
        _refuse(tasks, pc.invert(good), "tasks", "`cost` must be a number above zero", fix, ("task", "cost"))
        self.tasks, self.members = _array(tasks["task"]), _array(members["member"])
        self.left_over: list[tuple[int, int, str, str]] = []
        count, mean = tasks.num_rows, pc.mean(cost).as_py() or 1.0
        self.cluster = Cluster(
            stateful=pc.fill_null(tasks["stateful"], True).to_pylist(),
            cost=[max(round(c / mean * UNIT), 1) for c in cost.to_pylist()],
            threads=members["threads"].to_pylist(),
            tags=[tuple(tags or ()) for tags in members["tags"].to_pylist()],
            owner=[NONE] * count,
            standbys=[{} for _ in range(count)],
            lag=[{} for _ in range(count)],
            gone=[False] * count,
            lags_known="lag" in given,
        )
        _check(copies, _array(listed) if "alive" in given else None, self.members)
        self._place(copies)

    def _place(self, copies: pa.Table) -> None:
        cluster = self.cluster
        count, living = len(cluster.stateful), len(cluster.threads)
        self.tasks, tasks = _numbered(self.tasks, _array(copies["task"]))
        self.members, members = _numbered(self.members, _array(copies["member"]))
        roles, lags = copies["role"].to_pylist(), copies["lag"].to_pylist()
        for task, member, role, lag in zip(tasks, members, roles, lags, strict=True):
            if task >= count or member >= living:
                if role is not None:
                    self.left_over.append((task, member, role, "the task is gone" if task >= count else "the member is gone"))
                if role == ACTIVE and task < count:
                    cluster.gone[task] = True
                continue
            if role == ACTIVE:
                cluster.owner[task] = member
            elif role is not None:
                cluster.standbys[task][member] = role == WARMUP
            if role == ACTIVE and not lag:
                cluster.lag[task][member] = RUNNING
            elif lag is not None:
                cluster.lag[task][member] = lag
        cluster.gone = [gone and owner == NONE for gone, owner in zip(cluster.gone, cluster.owner, strict=True)]
        self.left_over.sort()


def _check(copies: pa.Table, listed: pa.Array | None, living: pa.Array) -> None:
    copy = ("task", "member")
    for column in copy:
        _refuse(copies, pc.is_null(copies[column]), "current", f"`{column}` is null", LEAVE_OUT, copy)
    problem = f"`role` must be one of {', '.join(map(repr, ROLES))}, or null"
    known = pc.is_in(copies["role"], value_set=pa.array([*ROLES, None]))
    _refuse(copies, pc.invert(known), "current", problem, "Null is for state that lies there while no copy runs.", (*copy, "role"))
    fix = "It says how many records a copy has still to read; null where that is not known."
    _refuse(copies, pc.less(pc.fill_null(copies["lag"], 0), 0), "current", "`lag` is negative", fix, (*copy, "lag"))
    if listed is not None:
        unknown = pc.invert(pc.is_in(copies["member"], value_set=listed))
        _refuse(copies, unknown, "current", "a member is unknown", "List it in `members`, with alive => false if it is gone.", copy)
    _refuse_twice(copies, copy, "current", "a copy is listed twice", "Keep one row of each task and member.")
    active = copies.filter(pc.fill_null(pc.equal(copies["role"], ACTIVE), False))
    active = active.filter(pc.is_in(active["member"], value_set=living))
    if active.num_rows:
        owners = active.group_by("task").aggregate([("member", "count_distinct"), ("member", "list")])
        wrong = pc.greater(owners["member_count_distinct"], 1)
        owners = owners.append_column("members", owners["member_list"])
        _refuse(owners, wrong, "current", "a task is assigned twice", "Only one copy of a task can be 'active'.", ("task", "members"))


def _named(rows: pa.Table, column: str, where: str) -> pa.Table:
    """In order of the names, each of which there must be once."""
    _refuse(rows, pc.is_null(rows[column]), where, f"`{column}` is null", LEAVE_OUT, (column,))
    _refuse_twice(rows, (column,), where, f"a {column} is listed twice", "Keep one row of each.")
    return rows.take(pc.sort_indices(rows, [(column, "ascending")]))


def _refuse_twice(rows: pa.Table, columns: Sequence[str], where: str, problem: str, fix: str) -> None:
    if rows.num_rows:
        counted = rows.select(list(columns)).group_by(list(columns)).aggregate([([], "count_all")])
        if counted.num_rows < rows.num_rows:
            _refuse(counted, pc.greater(counted["count_all"], 1), where, problem, fix, columns)


def _refuse(rows: pa.Table, wrong: pa.ChunkedArray, where: str, problem: str, fix: str, columns: Sequence[str]) -> None:
    """An error with the first of the rows that are wrong."""
    refused = rows.filter(wrong)
    if refused.num_rows:
        refused = refused.take(pc.sort_indices(refused, [(c, "ascending") for c in columns if not pa.types.is_list(refused[c].type)]))
        shown = [", ".join(f"{c} {_said(v)}" for c, v in row.items()) for row in refused.select(list(columns)).slice(0, SHOWN).to_pylist()]
        more = f" and {refused.num_rows - SHOWN:,} more" if refused.num_rows > SHOWN else ""
        raise Wrong(where, f"{problem}: {'; '.join(shown)}{more}.", fix)


def _said(value: object) -> str:
    if isinstance(value, list):
        return " and ".join(sorted(map(_said, value)))
    return "null" if value is None else repr(value) if isinstance(value, str) else str(value)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _numbered(known: pa.Array, names: pa.Array) -> tuple[pa.Array, list[int]]:
    """The names that are known, with those that are not after them; and the number of each name."""
    new = names.filter(pc.invert(pc.is_in(names, value_set=known))).unique()
    every = pa.concat_arrays([known, new.take(pc.sort_indices(new))])
    return every, pc.index_in(names, value_set=every).to_pylist()
