"""Clusters for the planner of tasks: from plain rows, from the cases of Kafka's assignors, and at random; and plans as plain rows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
from support import TESTS

from streamtime.udfs.assignment.cluster import Rules
from streamtime.udfs.assignment.planner import PROBLEM, Planner
from streamtime.udfs.assignment.reading import COPY, MEMBER, NOTHING, TASK

LONGEST = 2**63 - 1
STICKY = Rules(available=False, standbys=0, acceptable_lag=10_000, max_warmups=2)
FIELDS = ("kind", "task", "member", "stateful", "cost", "threads", "alive", "role", "lag", "tags")


class Step(NamedTuple):
    """A row of a plan."""

    task: Any
    member: Any
    role: str
    action: str
    round: int


@dataclass(frozen=True)
class Tables:
    """The tables of a call: `tasks` {task: stateful}, `members` {member: threads}, `current` (task, member, role, lag)."""

    tasks: dict[Any, bool | None]
    members: dict[Any, int | None]
    current: Sequence[tuple[Any, Any, str | None, int | None]] = ()
    cost: dict[Any, float | None] = field(default_factory=dict)
    tags: dict[Any, tuple[str | None, ...]] = field(default_factory=dict)
    alive: dict[Any, bool | None] | None = None
    lags: bool = True
    more: Sequence[dict[str, Any]] = ()  # rows as they are, for what a dictionary cannot hold

    def rows(self, name: pa.DataType) -> pa.Table:
        """As the kernel reads them."""
        rows: list[dict[str, Any]] = [{"kind": NOTHING}]
        rows += [{"kind": TASK, "task": t, "stateful": s, "cost": self.cost.get(t, 1.0)} for t, s in self.tasks.items()]
        rows += [
            {"kind": MEMBER, "member": m, "threads": n, "alive": (self.alive or {}).get(m, True), "tags": list(self.tags.get(m, ()))}
            for m, n in self.members.items()
        ]
        rows += [{"kind": COPY, "task": t, "member": m, "role": r, "lag": lag} for t, m, r, lag in self.current]
        rows += self.more
        kinds = (pa.int32(), name, name, pa.bool_(), pa.float64(), pa.int64(), pa.bool_(), pa.string(), pa.int64(), pa.list_(pa.string()))
        return pa.table({f: pa.array([row.get(f) for row in rows], kind) for f, kind in zip(FIELDS, kinds, strict=True)})


def run(
    tables: Tables, rules: Rules = STICKY, rounds: int = 1, output: str = "rows", seed: int | None = None, name: Any = None
) -> list[dict[str, Any]]:
    """The plan, or the one row of a problem; `seed` shuffles the rows that go in."""
    given = frozenset([*(["lag"] if tables.lags else []), *(["alive"] if tables.alive is not None else [])])
    table = tables.rows(name or pa.string())
    if seed is not None:
        order = list(range(table.num_rows))
        random.Random(seed).shuffle(order)
        table = table.take(order)
    planner = Planner(rules, rounds, output, "ASSIGN_TASKS", "label", given)
    batches = list(planner.run(iter(table.to_batches(max_chunksize=7))))
    return [row for batch in batches for row in batch.to_pylist()]


def plan(tables: Tables, rules: Rules = STICKY, rounds: int = 1, seed: int | None = None) -> list[Step]:
    """The plan of tables that are right."""
    rows = run(tables, rules, rounds, seed=seed)
    assert not [r for r in rows if r[PROBLEM]], rows
    return [Step(*(r[f] for f in Step._fields)) for r in rows]


def carried_out(tables: Tables, steps: Iterable[Step], lag: int | None = 0) -> Tables:
    """The tables after a round, with that lag of all copies that are not active."""
    current = [(s.task, s.member, s.role, None if s.role == "active" else lag) for s in steps if s.action != "revoke"]
    return replace(tables, current=current)


def having(steps: Iterable[Step], *roles: str) -> dict[Any, set[Any]]:
    """The tasks of each member, in these roles."""
    found: dict[Any, set[Any]] = {}
    for s in steps:
        if s.action != "revoke" and s.role in roles:
            found.setdefault(s.member, set()).add(s.task)
    return found


# -- cases of Kafka

CASES = [case for name in ("assignor", "kafka_assignor") for case in json.loads((TESTS / "cases" / f"{name}.json").read_text())]


def of_case(case: dict[str, Any]) -> tuple[Tables, Rules]:
    """A case's cluster. Kafka's sticky assignor does not wait; and where a case has no lags, nothing is known of state."""
    given, asked = case["input"][0], case["params"]
    current = []
    for client in given["clients"]:
        roles = dict.fromkeys(client["prev_standby"], "standby") | dict.fromkeys(client["prev_active"], "active")
        lags = {t: None if lag == LONGEST else lag for t, lag in client["lags"].items()}
        current += [(t, client["client"], roles.get(t), lags.get(t)) for t in sorted({*roles, *lags})]
    tables = Tables(
        {t: t in given["stateful"] for t in given["tasks"]},
        {c["client"]: c["threads"] for c in given["clients"]},
        current,
        lags=any(c["lags"] for c in given["clients"]),
    )
    available = asked["assignor"] == "high_availability"
    preserve = asked["assignor"] == "sticky_must_preserve_active"
    lag, warmups = asked.get("acceptable_recovery_lag", 10_000), asked.get("max_warmup_replicas", 2)
    return tables, Rules(available, asked["num_standby_replicas"], lag, warmups, warm=available, preserve=preserve)


# -- at random


def some(random_: random.Random) -> tuple[Tables, Rules]:
    """A cluster in some state that it may have come into: members that are gone, tasks that are new, copies that lag."""
    members = [f"m{i}" for i in range(random_.choice([1, 2, 3, 4, 6]))]
    gone = [f"x{i}" for i in range(random_.choice([0, 0, 1, 2]))]
    tasks = [f"t{i:02}" for i in range(random_.choice([0, 1, 2, 3, 5, 8, 13, 30]))]
    current: list[tuple[str, str, str | None, int | None]] = []
    for task in [*tasks, "removed"]:
        owner = random_.choice([*members, *members, *gone, None])
        for member in [*members, *gone]:
            lag = random_.choice([None, 0, 5, 10, 11, 5_000])
            if member == owner:
                current.append((task, member, "active", None if random_.random() < 0.8 else lag))
            elif random_.random() < 0.4:
                current.append((task, member, random_.choice(["standby", "standby", "warmup", None]), lag))
    ragged = random_.choice([0, 0, 1, 2])
    tables = Tables(
        {t: random_.choice([True, True, True, False, None]) for t in tasks},
        {m: random_.choice([1, 1, 2, 5]) for m in members},
        current,
        cost={t: random_.choice([0.5, 1.0, 2.0]) for t in tasks} if random_.random() < 0.3 else {},
        tags={m: tuple(random_.choice(["a", "b", "c", None]) for _ in range(ragged)) for m in members},
        lags=random_.random() < 0.9,
    )
    if random_.random() < 0.2:
        tables = replace(tables, cost={t: random_.choice([0.001, 1.0, 1.1, 7.3, 400.0]) for t in tasks})
    rules = Rules(
        available=random_.random() < 0.5,
        standbys=random_.choice([0, 0, 1, 2]),
        acceptable_lag=random_.choice([0, 10, 10, LONGEST]),
        max_warmups=random_.choice([0, 1, 2, 5]),
        warm=random_.random() < 0.85,
        preserve=random_.random() < 0.1,
    )
    return tables, rules
