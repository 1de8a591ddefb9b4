"""How to get there without a cold start (rules R2, R3): a task waits where it is until its new owner has caught up."""

from __future__ import annotations

from streamtime.udfs.assignment.cluster import NONE, UNKNOWN, Cluster, Copies, Rules


def hand_over(copies: Copies, cluster: Cluster, rules: Rules) -> int:
    """Moves active tasks and standbys from members that lag to those that lag less, and leaves warm-ups; how many are on their way."""
    if not cluster.lags_known or rules.acceptable_lag >= UNKNOWN:
        return 0
    return _Movements(copies, cluster, rules).run()


class _Movements:
    def __init__(self, copies: Copies, cluster: Cluster, rules: Rules) -> None:
        self.copies, self.cluster, self.rules = copies, cluster, rules
        self.warmups = rules.max_warmups

    def run(self) -> int:
        """Active tasks first, then standbys."""
        copies = self.copies
        actives = [(*self._rank(task, member), task, member) for task, member in enumerate(copies.active) if self._waits(task, member)]
        moved = sum(self._move_active(task, member) for *_, task, member in sorted(actives))
        standbys = [
            (*self._rank(task, member), task, member)
            for task, members in enumerate(copies.standbys)
            for member in members - copies.warming.get(task, set())
            if self._lags(task, member)
        ]
        return moved + sum(self._move_standby(task, member) for *_, task, member in sorted(standbys))

    def _rank(self, task: int, member: int) -> tuple[int, int]:
        """What goes first: a copy that is being warmed already, then a task that few can take."""
        held = not self.rules.available and member in self.cluster.standbys[task]
        return (0 if held else 1, len(self._caught_up(task)))

    def _caught_up(self, task: int) -> list[int]:
        lag = self.cluster.lag[task]
        return [m for m in sorted(lag) if self.rules.caught_up(lag[m])]

    def _lags(self, task: int, member: int) -> bool:
        """Not caught up, while another lags less."""
        lag = self.cluster.lag_of(task, member)
        return not self.rules.caught_up(lag) and self.cluster.least_lag(task) < lag

    def _waits(self, task: int, member: int) -> bool:
        """.. or while the task has an owner, which keeps it until then (R2)."""
        if member == NONE or not self.cluster.stateful[task]:
            return False
        if self._lags(task, member):
            return True
        return self.cluster.owner[task] not in (NONE, member) and not self.rules.caught_up(self.cluster.lag_of(task, member))

    def _lightest(self, members: list[int]) -> int:
        return min(members, key=lambda m: (self.copies.load(m), m), default=NONE)

    def _stand_in(self, task: int, destination: int) -> int:
        """Who runs the task until its new owner has caught up."""
        cluster, copies = self.cluster, self.copies
        owner, caught_up = cluster.owner[task], self._caught_up(task)
        if not self.rules.available and (owner in caught_up or (owner not in (NONE, destination) and not caught_up)):
            return owner
        if (stand_in := self._lightest([m for m in caught_up if m in copies.standbys[task]])) != NONE:
            return stand_in
        if (stand_in := self._lightest(caught_up)) != NONE:
            return stand_in
        return owner if owner != NONE else next(cluster.by_lag(task))

    def _move_active(self, task: int, destination: int) -> bool:
        copies, source = self.copies, self._stand_in(task, destination)
        if source == destination:
            return False
        swapped = source in copies.standbys[task]
        if swapped:
            copies.remove(source, task)
        copies.deactivate(task)
        copies.activate(source, task)
        if swapped:
            copies.add(destination, task)
        elif self._warm():
            copies.add(destination, task, warming=True)
        else:
            copies.delayed[task] = destination
        return True

    def _move_standby(self, task: int, destination: int) -> bool:
        copies = self.copies
        source = self._lightest([m for m in self._caught_up(task) if not copies.holds(m, task)])
        if source == NONE:
            lags, lag = self.cluster.lag[task], self.cluster.lag_of(task, destination)
            nearer = (m for m in lags if (lags[m], m) < (lag, destination) and not copies.holds(m, task))
            source = min(nearer, key=lambda m: (lags[m], m), default=NONE)
            if source == NONE and lag == UNKNOWN:
                source = next((m for m in range(destination) if m not in lags and not copies.holds(m, task)), NONE)
        if source == NONE:
            return False
        copies.add(source, task)
        if self._warm():
            copies.warm(destination, task)
        else:
            copies.remove(destination, task)
        return True

    def _warm(self) -> bool:
        """Takes one of the warm-ups that are free."""
        self.warmups -= 1
        return self.warmups >= 0
