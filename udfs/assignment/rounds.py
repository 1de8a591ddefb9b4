"""One round, and what it does to each copy; and the rounds that follow, until nothing changes (rules R2, R4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamtime.udfs.assignment.cluster import NONE, RUNNING, UNIT, UNKNOWN, Cluster, Copies, Rules
from streamtime.udfs.assignment.dealt import deal_stateless, dealt
from streamtime.udfs.assignment.movements import hand_over
from streamtime.udfs.assignment.reading import ACTIVE, STANDBY, WARMUP
from streamtime.udfs.assignment.sticky import sticky

KEEP, ASSIGN, REVOKE, WARM_UP, PROMOTE = "keep", "assign", "revoke", "warm_up", "promote"
Action = tuple[int, int, str, str]  # task, member, role, action


@dataclass(frozen=True)
class Round:
    """What was there, what is to be, and how many moves wait for a copy to catch up."""

    before: Cluster
    copies: Copies
    waiting: int

    def actions(self) -> Iterator[Action]:
        """One row for each copy and what becomes of it, task by task; where an owner stays as standby, it has two."""
        before, copies = self.before, self.copies
        for task, member in enumerate(copies.active):
            owner, held = before.owner[task], before.standbys[task]
            if member == owner:
                yield task, member, ACTIVE, KEEP
            else:
                yield task, member, ACTIVE, PROMOTE if member in held else ASSIGN
                if owner != NONE:
                    yield task, owner, ACTIVE, REVOKE
            now, warming = copies.standbys[task], copies.warming.get(task, ())
            for other in sorted(now):
                role = WARMUP if other in warming else STANDBY
                yield task, other, role, KEEP if other in held else WARM_UP if role == WARMUP else ASSIGN
            for other in sorted(held):
                if other not in now and other != member:
                    yield task, other, WARMUP if held[other] else STANDBY, REVOKE

    def after(self) -> Cluster:
        """What the next round finds, when all copies have caught up by then. A copy that was revoked is gone."""
        before, copies = self.before, self.copies
        lag = []
        for task, known in enumerate(before.lag):
            held = before.standbys[task].keys() | {before.owner[task]}
            left = {m: behind for m, behind in known.items() if m not in held}
            lag.append({**left, **dict.fromkeys(copies.standbys[task], 0), copies.active[task]: RUNNING})
        standbys = [{m: m in copies.warming.get(t, ()) for m in sorted(now)} for t, now in enumerate(copies.standbys)]
        return Cluster(
            before.stateful, before.cost, before.threads, before.tags, list(copies.active), standbys, lag, lags_known=before.lags_known
        )

    def why(self, action: Action, rules: Rules, names: Sequence[str]) -> str:
        """The reason for an action, in words."""
        task, member, role, what = action
        lag = self.before.lag_of(task, member)
        behind = "has its state" if lag in (RUNNING, 0) else "has no state yet" if lag == UNKNOWN else f"lags {lag:,} records"
        if role == ACTIVE and what == KEEP:
            return self._why_it_stays(task, rules, names)
        if role == ACTIVE and what == REVOKE:
            return f"{names[self.copies.active[task]]} takes over"
        if role == ACTIVE:
            return self._why_new(task, behind, lag, rules, names)
        if what == REVOKE:
            return "no longer needed"
        if role == WARMUP:
            return f"warms up to take over from {names[self.copies.active[task]]}: it {behind}"
        return "was active here, and stays as a standby" if member == self.before.owner[task] else f"a standby: it {behind}"

    def _why_it_stays(self, task: int, rules: Rules, names: Sequence[str]) -> str:
        heirs = [m for m in self.copies.warming.get(task, ()) if m != self.copies.active[task]]
        if heirs:
            lag = self.before.lag_of(task, heirs[0])
            behind = "has no state yet" if lag == UNKNOWN else f"lags {lag:,} records"
            return f"stays until {names[heirs[0]]} has caught up, which {behind} ({rules.acceptable_lag:,} are acceptable)"
        if task in self.copies.delayed:
            return f"is to move to {names[self.copies.delayed[task]]}, but all {rules.max_warmups} warm-ups are in use"
        return "stays where it was"

    def _why_new(self, task: int, behind: str, lag: int, rules: Rules, names: Sequence[str]) -> str:
        owner, stateful = self.before.owner[task], self.before.stateful[task]
        if owner != NONE:
            if not stateful:
                return f"moves from {names[owner]} for balance: it has no state to bring along"
            ready = rules.caught_up(lag) or not self.before.lags_known
            return f"takes over from {names[owner]}: it {'has caught up' if ready else behind}"
        why = "its owner is gone" if self.gone(task) else "a new task"
        if not stateful or not self.gone(task):
            return why
        return f"{why}; a cold start, since no member has its state" if self.cold(task) else f"{why}; this member {behind}"

    def gone(self, task: int) -> bool:
        """Whether the task had an owner that is no member any more."""
        return bool(self.before.gone) and self.before.gone[task]

    def cold(self, task: int) -> bool:
        """Whether a task that ran before starts where nothing of its state is."""
        before, member = self.before, self.copies.active[task]
        ran = self.gone(task) or before.owner[task] != NONE
        moved = member != before.owner[task]
        return before.stateful[task] and ran and moved and before.lags_known and before.lag_of(task, member) == UNKNOWN

    def metrics(self, rules: Rules) -> dict[str, tuple[float, str]]:
        """Numbers about the round, with their units."""
        before, copies = self.before, self.copies
        tasks, members = range(len(copies.active)), range(len(before.threads))
        done = list(self.actions())
        loads = [copies.active_load(m) / UNIT for m in members]
        living = [t for t in tasks if before.owner[t] != NONE]
        wanted = rules.standbys * sum(before.stateful)
        standbys = sum(len(copies.standbys[t]) - len(copies.warming.get(t, ())) for t in tasks)
        return {
            "moves": (sum(copies.active[t] != before.owner[t] for t in living), "tasks"),
            "recovered": (sum(self.gone(t) for t in tasks), "tasks"),
            "cold_starts": (sum(map(self.cold, tasks)), "tasks"),
            "promotions": (sum(a[3] == PROMOTE for a in done), "tasks"),
            "warm_ups": (sum(a[3] == WARM_UP for a in done), "copies"),
            "waiting": (self.waiting, "moves"),
            "standbys_missing": (max(wanted - standbys, 0), "copies"),
            "tasks_per_thread_max": (max(loads), "tasks"),
            "tasks_per_thread_min": (min(loads), "tasks"),
            "imbalance": (max(loads) - min(loads), "tasks per thread"),
            "stable": (float(self.waiting == 0), "1: no round needs to follow"),
        }


def planned(cluster: Cluster, rules: Rules) -> Round:
    """The next round."""
    copies = dealt(cluster, rules) if rules.available else sticky(cluster, rules)
    waiting = hand_over(copies, cluster, rules) if rules.warm else 0
    if rules.available:
        deal_stateless(copies)
    return Round(cluster, copies, waiting)


def simulated(cluster: Cluster, rules: Rules, most: int) -> Iterator[Round]:
    """The next rounds, so many at most; the last is one that changes something, unless it is the first."""
    for number in range(most):
        one = planned(cluster, rules)
        if number and all(action == KEEP for *_, action in one.actions()):
            return
        yield one
        cluster = one.after()
