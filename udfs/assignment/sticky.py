"""Where each task should be by rule R1: where it was, as long as members stay balanced."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from streamtime.udfs.assignment.cluster import NONE, UNIT, Apart, Cluster, Copies, Lightest, Rules


def sticky(cluster: Cluster, rules: Rules) -> Copies:
    """Active tasks, then standbys."""
    if _differ(cluster.cost):
        made = _by_cost(cluster, rules)
    else:
        made = _by_number(cluster, rules, by_name=True)
        if not rules.preserve and made.moves() > _fewest_moves(cluster):
            made = _by_number(cluster, rules, by_name=False)
    apart = Apart(cluster)
    for task, stateful in enumerate(cluster.stateful):
        if stateful and rules.standbys:
            made.replicate(task, rules.standbys, apart)
    return made.copies


def _by_number(cluster: Cluster, rules: Rules, by_name: bool) -> _Made:
    """Where all tasks cost the same: each member keeps tasks up to its quota."""
    made, quota = _Made(cluster), _quotas(cluster, UNIT)
    load, cost, tasks = made.copies.active_cost, cluster.cost, range(len(cluster.stateful))
    heirs = _Heirs(cluster, rules, quota)
    for task in sorted(tasks, key=lambda t: bool(heirs.of(t))):
        owner = cluster.owner[task]
        if owner != NONE and (rules.preserve or load[owner] + cost[task] <= quota[owner]):
            made.activate(owner, task)
    rest = _hand_on(made, heirs, quota)
    for task in rest if by_name else _in_turn(made, rest, quota):
        made.activate(made.find(task, set(), None), task)
    return made


def _by_cost(cluster: Cluster, rules: Rules) -> _Made:
    """Where costs differ: all stay, tasks without an owner go where there is room, the dearest first, and then loads are evened out."""
    made, quota = _Made(cluster), _quotas(cluster, 1)
    heirs = _Heirs(cluster, rules, quota)
    for task, owner in enumerate(cluster.owner):
        if owner != NONE:
            made.activate(owner, task)
    for task in sorted(_hand_on(made, heirs, quota), key=lambda t: -cluster.cost[t]):
        made.activate(made.find(task, set(), None), task)
    if not rules.preserve:
        _even(made, heirs)
    return made


def _hand_on(made: _Made, heirs: _Heirs, quota: list[int]) -> list[int]:
    """Tasks whose state lies elsewhere go there, first to a standby, within its quota; the rest."""
    load, cost, rest = made.copies.active_cost, made.cluster.cost, list[int]()
    for task, owner in enumerate(made.copies.active):
        if owner != NONE:
            continue
        ready = (*sorted(made.cluster.standbys[task]), *heirs.of(task))
        if (member := next((m for m in ready if load[m] + cost[task] <= quota[m]), NONE)) != NONE:
            made.activate(member, task)
        else:
            rest.append(task)
    return rest


def _even(made: _Made, heirs: _Heirs) -> None:
    """From the member that is furthest above its share to the one furthest below, as long as it has not less than that one then.

    First the tasks that can be taken over at once, then that which brings the giver nearest to its share, then the last by name.
    """
    copies, cost = made.copies, made.cluster.cost
    total, threads = sum(cost), sum(made.cluster.threads)

    def above(member: int) -> int:
        return copies.active_cost[member] * threads - total * made.cluster.threads[member]

    def suits(task: int) -> tuple[bool, int, int]:
        less = above(giver) - cost[task] * threads
        return (taker not in heirs.of(task), abs(less), -task)

    most, least = (Lightest(len(made.cluster.threads), lambda m, sign=sign: (sign * above(m),)) for sign in (-1, 1))  # type: ignore[misc]
    done = set[int]()
    while (giver := most.pick(lambda m: m not in done)) != NONE:
        taker = least.pick(lambda _: True)
        gap = above(giver) - above(taker)
        task = min((t for t in copies.actives[giver] if 2 * cost[t] * threads <= gap), key=suits, default=NONE)
        if task == NONE:
            done.add(giver)  # nor later: the one furthest below only comes nearer
        else:
            copies.deactivate(task)
            copies.activate(taker, task)
            for order in (most, least, made.lightest):
                order.touch(giver, taker)


def _quotas(cluster: Cluster, step: int) -> list[int]:
    """What each member may keep: as much for each of its threads, a multiple of a step."""
    per_thread = sum(cluster.cost) // (sum(cluster.threads) * step) * step
    return [threads * per_thread for threads in cluster.threads]


def _differ(values: list[int]) -> bool:
    return len(set(values)) > 1


class _Heirs:
    """Members below their quota that could take a task over at once. Owners of too many give such tasks away before others."""

    def __init__(self, cluster: Cluster, rules: Rules, quota: list[int]) -> None:
        owned = [0] * len(cluster.threads)
        for task, owner in enumerate(cluster.owner):
            if owner != NONE:
                owned[owner] += cluster.cost[task]
        self.cluster, self.rules = cluster, rules
        below = {m for m, cost in enumerate(owned) if cost < quota[m]}
        self.short = below if rules.warm and not rules.preserve else set[int]()

    def of(self, task: int) -> list[int]:
        """Those that have caught up, by their names."""
        if not self.short:
            return []
        copies, lags = self.cluster.standbys[task], self.cluster.lag[task]
        ready = [m for m, lag in lags.items() if self.rules.caught_up(lag)] if self.cluster.lags_known else copies
        return sorted(m for m in ready if m in self.short)


def _fewest_moves(cluster: Cluster) -> float:
    """Of plans in which no member has two tasks more than another; where members differ, there is no such number."""
    if _differ(cluster.threads):
        return UNBOUNDED
    owned = Counter(owner for owner in cluster.owner if owner != NONE)
    each, over = divmod(len(cluster.owner), len(cluster.threads))
    return sum(max(n - each, 0) for n in owned.values()) - min(over, sum(n > each for n in owned.values()))


def _in_turn(made: _Made, rest: list[int], quota: list[int]) -> Iterator[int]:
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
    room = sum(max(most - load, 0) for most, load in zip(quota, made.copies.active_cost, strict=True))
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
            member = self.lightest.pick(lambda m: m not in without and (not self.copies.cost[m] or self._new_pair(m, task, holders)))
            if member != NONE:
                return member
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
