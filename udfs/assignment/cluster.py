"""Tasks, members, and which member has a copy of which task; and an assignment while it is being made.

Tasks and members are numbers here, in the order of their names. Nothing is asked of them but to be equal or smaller (rule R5).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

NONE = -1  # no member
RUNNING = -1  # the lag of a copy that runs as the active one: below every lag
UNIT = 2**20  # the cost of a task, on average; costs are whole numbers, so that sums of them are exact
UNKNOWN = 2**63 - 1  # the lag of a member that is not known to have any state: above every other lag


@dataclass
class Cluster:
    """What is there before a round. `owner` is a living member or NONE; `gone` are owners that are no members any more."""

    stateful: list[bool]
    cost: list[int]  # of each task, in parts of which UNIT is the average
    threads: list[int]  # of each member
    tags: list[tuple[str | None, ...]]  # of each member
    owner: list[int]
    standbys: list[dict[int, bool]]  # of each task: the members that hold a copy, and whether it is a warm-up
    lag: list[dict[int, int]]  # of each task: by how many records each member that has state of it lags
    gone: list[bool] = field(default_factory=list)  # of each task: whether it had an owner that is gone
    lags_known: bool = True

    def lag_of(self, task: int, member: int) -> int:
        """By how much a member lags."""
        return self.lag[task].get(member, UNKNOWN)

    def by_lag(self, task: int) -> Iterator[int]:
        """All members, those that lag least first."""
        known = self.lag[task]
        yield from sorted((m for m in known if known[m] < UNKNOWN), key=lambda m: (known[m], m))
        yield from (m for m in range(len(self.threads)) if known.get(m, UNKNOWN) == UNKNOWN)

    def least_lag(self, task: int) -> int:
        """Of all members."""
        return min(self.lag[task].values(), default=UNKNOWN)


@dataclass(frozen=True)
class Rules:
    """What a plan is asked for."""

    available: bool  # R3, 'high_availability'; else R1, 'sticky'
    standbys: int
    acceptable_lag: int
    max_warmups: int
    warm: bool = True  # whether a task waits for its new owner to catch up (R2)
    preserve: bool = False  # whether active tasks never move for balance

    def caught_up(self, lag: int) -> bool:
        """Whether a member with that lag can take over at once."""
        return lag <= self.acceptable_lag


class Copies:
    """An assignment in the making: at most one active copy of a task, standbys elsewhere; and the load of each member."""

    def __init__(self, cluster: Cluster) -> None:
        members = len(cluster.threads)
        self.cluster = cluster
        self.active = [NONE] * len(cluster.stateful)
        self.standbys: list[set[int]] = [set() for _ in cluster.stateful]
        self.warming: dict[int, set[int]] = {}  # of these standbys, those that are warm-ups
        self.delayed: dict[int, int] = {}  # tasks that are to move, and where to, once a warm-up is free
        self.actives: list[set[int]] = [set() for _ in range(members)]  # the tasks of each member
        self.others: list[set[int]] = [set() for _ in range(members)]
        self.cost, self.active_cost = [0] * members, [0] * members

    def holders(self, task: int) -> set[int]:
        """The members with a copy."""
        owner = self.active[task]
        return self.standbys[task] if owner == NONE else self.standbys[task] | {owner}

    def holds(self, member: int, task: int) -> bool:
        """Whether a member has a copy."""
        return self.active[task] == member or member in self.standbys[task]

    def load(self, member: int) -> float:
        """Copies per thread."""
        return self.cost[member] / self.cluster.threads[member]

    def active_load(self, member: int) -> float:
        """Active tasks per thread."""
        return self.active_cost[member] / self.cluster.threads[member]

    def activate(self, member: int, task: int) -> None:
        """Makes a member the owner of a task without one, of which it has no copy."""
        self.active[task] = member
        self.actives[member].add(task)
        self.cost[member] += self.cluster.cost[task]
        self.active_cost[member] += self.cluster.cost[task]

    def deactivate(self, task: int) -> None:
        """Takes a task from its owner."""
        member, self.active[task] = self.active[task], NONE
        self.actives[member].discard(task)
        self.cost[member] -= self.cluster.cost[task]
        self.active_cost[member] -= self.cluster.cost[task]

    def add(self, member: int, task: int, warming: bool = False) -> None:
        """Gives a member a standby copy."""
        self.standbys[task].add(member)
        self.others[member].add(task)
        self.cost[member] += self.cluster.cost[task]
        if warming:
            self.warm(member, task)

    def warm(self, member: int, task: int) -> None:
        """Calls a standby copy a warm-up."""
        self.warming.setdefault(task, set()).add(member)

    def remove(self, member: int, task: int) -> None:
        """Takes a standby copy from a member."""
        self.standbys[task].discard(member)
        self.others[member].discard(task)
        self.cost[member] -= self.cluster.cost[task]


class Lightest:
    """The members by a weight, the lightest first. Who changes a member's weight says so by `touch`."""

    def __init__(self, members: int, weight: Callable[[int], tuple[float, ...]]) -> None:
        self.weight = weight
        self.heap = [(weight(m), m) for m in range(members)]
        heapq.heapify(self.heap)

    def touch(self, *members: int) -> None:
        """Weighs members again."""
        for m in members:
            heapq.heappush(self.heap, (self.weight(m), m))

    def pick(self, fits: Callable[[int], bool]) -> int:
        """The lightest member that fits, of equal ones the first; NONE where none does."""
        seen: dict[int, tuple[tuple[float, ...], int]] = {}
        lightest = NONE
        while self.heap:
            weighed = heapq.heappop(self.heap)
            weight, member = weighed
            if member in seen or weight != self.weight(member):
                continue  # weighed before it changed
            seen[member] = weighed
            if fits(member):
                lightest = member
                break
        for weighed in seen.values():
            heapq.heappush(self.heap, weighed)
        return lightest


class Apart:
    """Keeps the copies of a task on members with different tags, as far as there are enough of each."""

    def __init__(self, cluster: Cluster) -> None:
        self.tags = cluster.tags
        self.values = [len({t[i] for t in self.tags}) for i in range(len(self.tags[0]) if self.tags else 0)]
        self.having: dict[tuple[int, str | None], set[int]] = {}
        for member, tags in enumerate(self.tags):
            for place, value in enumerate(tags):
                self.having.setdefault((place, value), set()).add(member)

    def __bool__(self) -> bool:
        return bool(self.values)

    def taken(self, holders: Iterable[int]) -> set[int]:
        """The members that share a tag with one that holds a copy. A tag whose values are all in use no longer counts."""
        used: set[tuple[int, str | None]] = set()
        for count, member in enumerate(holders, 1):
            for place, value in enumerate(self.tags[member]):
                if self.values[place] <= count:
                    used = {u for u in used if u[0] != place}
                else:
                    used.add((place, value))
        return set().union(*(self.having[u] for u in used))

    def alike(self, one: int, other: int) -> bool:
        """Whether two members have the same tags."""
        return self.tags[one] == self.tags[other]
