"""Where each task should be by rule R1: where it was, as long as members stay balanced."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from streamtime.udfs.assignment.cluster import NONE, UNIT, Apart, Cluster, Copies, Lightest, Rules


def sticky(cluster: Cluster, rules: Rules) -> Copies:
    """Active tasks, then standbys."""
    made = _actives(cluster, rules, by_name=True)
    if not rules.preserve and made.moves() > _fewest_moves(cluster):
        made = _actives(cluster, rules, by_name=False)
    apart = Apart(cluster)
    for task, stateful in enumerate(cluster.stateful):
        if stateful and rules.standbys:
            made.replicate(task, rules.standbys, apart)
    return made.copies


def _actives(cluster: Cluster, rules: Rules, by_name: bool) -> _Made:
    made = _Made(cluster)
    active, cost, tasks, threads = made.copies.active, made.copies.active_cost, range(len(cluster.stateful)), cluster.threads
    per_thread = sum(cluster.cost) // (sum(threads) * UNIT) * UNIT
    heirs = _Heirs(cluster, rules, per_thread)
    for task in sorted(tasks, key=lambda t: bool(heirs.of(t))):  # those that were active, up to each quota
        owner = cluster.owner[task]
        if owner != NONE and (rules.preserve or cost[owner] < threads[owner] * per_thread):
            made.activate(owner, task)
    for task in tasks:  # those whose state lies elsewhere, first as a standby
        if active[task] == NONE:
            held = (m for m in (*sorted(cluster.standbys[task]), *heirs.of(task)) if cost[m] < threads[m] * per_thread)
            if (member := next(held, NONE)) != NONE:
                made.activate(member, task)
    rest = [t for t in tasks if active[t] == NONE]
    for task in rest if by_name else _in_turn(made, rest, per_thread):
        made.activate(made.find(task, set(), None), task)
    return made


class _Heirs:
    """Members below their quota that could take a task over at once. Owners of too many give such tasks away before others."""

    def __init__(self, cluster: Cluster, rules: Rules, per_thread: int) -> None:
        owned = [0] * len(cluster.threads)
        for task, owner in enumerate(cluster.owner):
            if owner != NONE:
                owned[owner] += cluster.cost[task]
        self.cluster, self.rules = cluster, rules
        below = (m for m, cost in enumerate(owned) if cost < cluster.threads[m] * per_thread)
        self.short = set(below) if rules.warm and not rules.preserve else set[int]()

    def of(self, task: int) -> list[int]:
        """Those that have caught up, by their names."""
        if not self.short:
            return []
        copies, lags = self.cluster.standbys[task], self.cluster.lag[task]
        ready = [m for m, lag in lags.items() if self.rules.caught_up(lag)] if self.cluster.lags_known else copies
        return sorted(m for m in ready if m in self.short)


def _fewest_moves(cluster: Cluster) -> float:
    """Of plans in which no member has two tasks more than another; where members or tasks differ, there is no such number."""
    if len(set(cluster.threads)) > 1 or len(set(cluster.cost)) > 1:
        return UNBOUNDED
    owned = Counter(owner for owner in cluster.owner if owner != NONE)
    each, over = divmod(len(cluster.owner), len(cluster.threads))
    return sum(max(n - each, 0) for n in owned.values()) - min(over, sum(n > each for n in owned.values()))


def _in_turn(made: _Made, rest: list[int], per_thread: int) -> Iterator[int]:
    """Another order than by name, in which the fewest move: new tasks for members below their quota, those with an owner, other new ones.

    Of the tasks with an owner those go first whose owner has most others that are left, since these cannot stay anyway.
    """
    cluster, left, ranked = made.cluster, list[int](), list[tuple[int, int]]()
    turn: dict[int, int] = {}
    for task in rest:
        owner = cluster.owner[task]
        if owner == NONE:
            left.append(task)
        else:
            turn[owner] = turn.get(owner, 0) + 1
            ranked.append((-turn[owner], task))
    room = sum(max(t * per_thread - c, 0) for t, c in zip(cluster.threads, made.copies.active_cost, strict=True))
    early = next((n for n, cost in enumerate(itertools.accumulate(cluster.cost[t] for t in left)) if cost > room), len(left))
    yield from left[:early]
    yield from (task for _, task in sorted(ranked))
    yield from left[early:]


class _Made:
    """Copies, and the members by their load."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.copies = cluster, Copies(cluster)
        self.lightest = Lightest(len(cluster.threads), self._weight)

    def _weight(self, member: int) -> tuple[float, float]:
        """By load, and of equal loads the larger member; one without a task comes first, however large."""
        load = self.copies.load(member)
        return (load, -self.cluster.threads[member] if load else -UNBOUNDED)

    def activate(self, member: int, task: int) -> None:
        self.copies.activate(member, task)
        self.lightest.touch(member)

    def moves(self) -> int:
        """How many tasks leave an owner that is alive."""
        return sum(owner not in (NONE, member) for owner, member in zip(self.cluster.owner, self.copies.active, strict=True))

    def replicate(self, task: int, wanted: int, apart: Apart) -> None:
        """Standbys on members without a copy, on different tags where there are such."""
        holders = [self.copies.active[task]]
        for _ in range(wanted):
            if len(holders) == len(self.cluster.threads):
                return
            taken = set(holders) | (apart.taken(holders) if apart else set())
            if len(taken) == len(self.cluster.threads):
                taken = set(holders)
            member = self.find(task, taken, holders)
            self.copies.add(member, task)
            self.lightest.touch(member)
            holders.append(member)

    def find(self, task: int, without: set[int], holders: list[int] | None) -> int:
        """Who had it, unless it is full and another has more room; else the one with most room."""
        if len(without) == len(self.cluster.threads) - 1:
            return next(m for m in range(len(self.cluster.threads)) if m not in without)
        before = self._most_room([m for m in sorted(self.cluster.standbys[task]) if m not in without], task, holders)
        owner = self.cluster.owner[task]
        previous = before if owner == NONE or owner in without else owner
        if previous != NONE and not self._full(previous):
            return previous
        if previous != NONE and before != NONE and not self._full(before):
            return before
        if holders is not None:  # pairs of tasks that are together already are avoided; before standbys there are none
            found = self.lightest.pick(lambda m: m not in without and (not self.copies.cost[m] or self._new_pair(m, task, holders)))
            if found != NONE:
                return found
        return self.lightest.pick(lambda m: m not in without)

    def _full(self, member: int) -> bool:
        """At capacity, while another has more room."""
        copies = self.copies
        if copies.cost[member] < self.cluster.threads[member] * UNIT:
            return False
        other = self.lightest.pick(lambda _: True)
        return self._weight(other) < self._weight(member)

    def _most_room(self, members: list[int], task: int, holders: list[int] | None) -> int:
        """Of a few members; one with a new pair is preferred."""
        new = [m for m in members if holders is None or not self.copies.cost[m] or self._new_pair(m, task, holders)]
        return min(new or members, key=lambda m: (self._weight(m), m), default=NONE)

    def _new_pair(self, member: int, task: int, holders: Iterable[int]) -> bool:
        """Whether a member has a task that no holder of this one has."""
        copies, holding = self.copies, set(holders)
        return any(
            copies.active[other] not in holding and holding.isdisjoint(copies.standbys[other])
            for tasks in (copies.actives[member], copies.others[member])
            for other in tasks
        )


UNBOUNDED = float("inf")
