"""The slow, from-scratch meaning of a round of ASSIGN_TASKS: rules R1 to R3 over dictionaries and sets, each choice by a scan of all members."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from streamtime.udfs.assignment.cluster import UNIT, Rules
from support.inputs.assignments import LONGEST, Tables

Pair = frozenset[Any]


@dataclass
class Plan:
    """Who has what, while it is being made."""

    tables: Tables
    rules: Rules
    active: dict[Any, Any] = field(default_factory=dict)
    standbys: dict[Any, set[Any]] = field(default_factory=dict)
    warming: set[tuple[Any, Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        tables = self.tables
        self.members, self.tasks = sorted(tables.members), sorted(tables.tasks)
        self.standbys = {t: set() for t in self.tasks}
        mean = sum(tables.cost.get(t, 1.0) for t in self.tasks) / max(len(self.tasks), 1)
        self.cost = {t: round(tables.cost.get(t, 1.0) / mean * UNIT) for t in self.tasks}
        known = [row for row in tables.current if row[0] in tables.tasks and row[1] in tables.members]
        self.owner = {t: m for t, m, role, _ in known if role == "active"}
        self.held = {t: sorted(m for t2, m, role, _ in known if t2 == t and role in ("standby", "warmup")) for t in self.tasks}
        self.lags = {(t, m): -1 if role == "active" and not lag else LONGEST if lag is None else lag for t, m, role, lag in known}
        self.pairs: set[Pair] = set()

    # -- what is asked of a member

    def stateful(self, task: Any) -> bool:
        return self.tables.tasks[task] is not False

    def having(self, member: Any) -> set[Any]:
        return self.actives(member) | {t for t in self.tasks if member in self.standbys[t]}

    def actives(self, member: Any) -> set[Any]:
        return {t for t, m in self.active.items() if m == member}

    def weight(self, tasks: set[Any]) -> int:
        return sum(self.cost[t] for t in sorted(tasks))

    def load(self, member: Any) -> float:
        return self.weight(self.having(member)) / self.tables.members[member]

    def lag(self, task: Any, member: Any) -> int:
        return self.lags.get((task, member), LONGEST)

    def caught_up(self, task: Any, member: Any) -> bool:
        return not self.tables.lags or self.lag(task, member) <= self.rules.acceptable_lag

    # -- R1

    def sticky(self) -> None:
        self.place_actives(by_name=True)
        counts = [list(self.owner.values()).count(m) for m in self.members]
        alike = len(set(self.cost.values())) <= 1 and len(set(self.tables.members.values())) == 1
        each, over = divmod(len(self.tasks), len(self.members))
        fewest = sum(max(n - each, 0) for n in counts) - min(over, sum(n > each for n in counts))
        if alike and not self.rules.preserve and sum(self.active[t] != m for t, m in self.owner.items()) > fewest:
            self.active, self.pairs = {}, set()
            self.place_actives(by_name=False)
        for t in filter(self.stateful, self.tasks):
            for _ in range(self.rules.standbys):
                free = [m for m in self.members if t not in self.having(m)]
                apart = [m for m in free if m not in self.taken(t)]
                if free:
                    self.place(t, self.find(t, apart or free), False)

    def even_out(self, heirs: Any) -> None:
        """Where costs differ: from the one furthest above its share to the one furthest below."""
        threads = self.tables.members
        share = {m: Fraction(self.weight(set(self.tasks)) * threads[m], sum(threads.values())) for m in self.members}
        givers = self.members
        while givers:
            above = {m: self.weight(self.actives(m)) - share[m] for m in self.members}
            giver, taker = max(givers, key=lambda m: above[m]), min(self.members, key=lambda m: above[m])
            fit = [t for t in self.tasks if t in self.actives(giver) and above[giver] - self.cost[t] >= above[taker] + self.cost[t]]
            if not fit:
                givers = [m for m in givers if m != giver]
                continue
            fit = [t for t in fit if taker in heirs(t)] or fit
            off = {t: abs(above[giver] - self.cost[t]) for t in fit}
            best = [t for t in fit if off[t] == min(off.values())]
            self.active[best[-1]] = taker
            self.pairs = {frozenset((t, other)) for t in self.tasks for other in self.having(self.active[t]) - {t}}
            assert self.weight(self.actives(giver)) - share[giver] < above[giver]

    def place_actives(self, by_name: bool) -> None:
        threads, differ = self.tables.members, len(set(self.cost.values())) > 1
        step = 1 if differ else UNIT
        each = sum(self.cost.values()) // step // sum(threads.values()) * step

        def within(m: Any, t: Any) -> bool:
            return self.weight(self.actives(m) | {t}) <= threads[m] * each

        def heirs(t: Any) -> list[Any]:
            owned = {m: {t for t in self.tasks if self.owner.get(t) == m} for m in self.members}
            short = [m for m in self.members if self.weight(owned[m]) < threads[m] * each]
            if self.rules.preserve or not self.rules.warm:
                return []
            if not self.tables.lags:
                return [m for m in short if m in self.held[t]]
            return [m for m in short if self.lag(t, m) < LONGEST and self.lag(t, m) <= self.rules.acceptable_lag]

        for t in sorted(self.tasks, key=lambda t: (heirs(t) != [], t)):
            if t in self.owner and (self.rules.preserve or differ or within(self.owner[t], t)):
                self.place(t, self.owner[t], True)
        for t in self.tasks:
            m = next((m for m in self.held[t] + heirs(t) if within(m, t)), None)
            if t not in self.active and m is not None:
                self.place(t, m, True)
        rest = sorted((t for t in self.tasks if t not in self.active), key=lambda t: (-self.cost[t], t))
        if not by_name:
            new = [t for t in rest if t not in self.owner]
            owned = [t for t in rest if t in self.owner]
            turn = {t: [o for o in owned if self.owner[o] == self.owner[t]].index(t) for t in owned}
            room = sum(max(each - self.weight(self.actives(m)), 0) for m in self.members) // UNIT
            rest = new[:room] + sorted(owned, key=lambda t: (-turn[t], t)) + new[room:]
        for t in rest:
            self.place(t, self.find(t, self.members), True)
        if differ and not self.rules.preserve:
            self.even_out(heirs)

    def place(self, task: Any, member: Any, active: bool) -> None:
        self.pairs |= {frozenset((task, other)) for other in self.having(member)}
        if active:
            self.active[task] = member
        else:
            self.standbys[task].add(member)
            self.order = [*getattr(self, "order", []), (task, member)]

    def find(self, task: Any, members: list[Any]) -> Any:
        if len(members) == 1:
            return members[0]
        standby = self.roomiest(task, [m for m in self.held[task] if m in members])
        previous = self.owner.get(task) if self.owner.get(task) in members else standby
        if previous is not None and not self.full(previous):
            return previous
        if previous is not None and standby is not None and not self.full(standby):
            return standby
        return self.roomiest(task, members)

    def room(self, member: Any) -> tuple[float, float]:
        return (self.load(member), -self.tables.members[member])

    def full(self, member: Any) -> bool:
        at_capacity = self.weight(self.having(member)) >= self.tables.members[member] * UNIT
        return at_capacity and any(self.room(m) < self.room(member) for m in self.members)

    def roomiest(self, task: Any, members: list[Any]) -> Any:
        idle = [m for m in members if not self.having(m)]
        if idle:
            return idle[0]
        new = [m for m in members if any(frozenset((task, other)) not in self.pairs for other in self.having(m))]
        return min(new or members, key=self.room, default=None)

    def taken(self, task: Any) -> set[Any]:
        """The members that share a tag with a copy, where a tag still counts."""
        tags = self.tables.tags
        holders = [self.active[task], *(m for t, m in getattr(self, "order", []) if t == task)]
        found: set[Any] = set()
        for place in range(len(next(iter(tags.values()), ()))):
            values = {tags[m][place] for m in self.members}
            since = max((n for n in range(len(holders)) if len(values) <= n + 1), default=-1)
            used = {tags[m][place] for m in holders[since + 1 :]}
            found |= {m for m in self.members if tags[m][place] in used}
        return found

    # -- R3

    def available(self) -> None:
        for turn, t in enumerate(filter(self.stateful, self.tasks)):
            self.active[t] = self.members[turn % len(self.members)]
        self.even(self.actives, self.move_active, apart=False)
        if self.rules.standbys:
            self.replicate()
            self.even(lambda m: {t for t in self.tasks if m in self.standbys[t]}, self.move_standby, apart=True)

    def replicate(self) -> None:
        missing = dict.fromkeys(filter(self.stateful, self.tasks), self.rules.standbys)
        for anywhere in (False, True):
            for t in missing:
                while missing[t]:
                    free = [m for m in self.members if t not in self.having(m) and (anywhere or m not in self.taken(t))]
                    if not free:
                        break
                    self.place(t, min(free, key=self.load), False)
                    missing[t] -= 1

    def even(self, tasks_of: Any, move: Any, apart: bool) -> None:
        moved = True
        while moved:
            moved = False
            for source in self.members:
                for to in [m for m in self.members if m != source]:
                    if apart and self.tables.tags.get(source) != self.tables.tags.get(to):
                        continue
                    for t in sorted(tasks_of(source)):
                        if t not in self.having(to) and self.helps(source, to, self.cost[t]):
                            move(t, source, to)
                            moved = True

    def helps(self, source: Any, to: Any, cost: float) -> bool:
        n = self.tables.members
        one, other = self.weight(self.having(source)), self.weight(self.having(to))
        before, after = one / n[source] - other / n[to], (one - cost) / n[source] - (other + cost) / n[to]
        return before > 0 and 0 <= after < before

    def move_active(self, task: Any, _source: Any, to: Any) -> None:
        self.active[task] = to

    def move_standby(self, task: Any, source: Any, to: Any) -> None:
        self.standbys[task] = (self.standbys[task] - {source}) | {to}

    def stateless(self) -> None:
        for t in [t for t in self.tasks if not self.stateful(t)]:
            self.active[t] = min(self.members, key=lambda m: self.weight(self.actives(m)) / self.tables.members[m])

    # -- R2

    def hand_over(self) -> None:
        left, rules = self.rules.max_warmups, self.rules
        if not self.tables.lags or rules.acceptable_lag == LONGEST:
            return

        def rank(t: Any, m: Any) -> tuple[Any, ...]:
            held = not rules.available and m in self.held[t]
            return (not held, sum(self.caught_up(t, m) for m in self.members), t, m)

        def lags(t: Any, m: Any) -> bool:
            return not self.caught_up(t, m) and any(self.lag(t, o) < self.lag(t, m) for o in self.members)

        waiting = [
            (t, m)
            for t, m in self.active.items()
            if self.stateful(t) and not self.caught_up(t, m) and (lags(t, m) or self.owner.get(t, m) != m)
        ]
        for t, m in sorted(waiting, key=lambda x: rank(*x)):
            ready = [o for o in self.members if self.caught_up(t, o)]
            owner = self.owner.get(t)
            ranked = sorted(self.members, key=lambda o: (self.lag(t, o), o))
            swaps = [o for o in ready if o in self.standbys[t]]
            if not rules.available and owner is not None and (owner in ready or (owner != m and not ready)):
                source = owner
            elif ready:
                source = min(swaps or ready, key=lambda o: (self.load(o), o))
            else:
                source = owner if owner is not None else ranked[0]
            if source == m:
                continue
            self.active[t] = source
            if source in self.standbys[t]:
                self.standbys[t] = (self.standbys[t] - {source}) | {m}
            else:
                left -= 1
                if left >= 0:
                    self.standbys[t].add(m)
                    self.warming.add((t, m))
        moving = [(t, m) for t in self.tasks for m in self.standbys[t] if (t, m) not in self.warming and lags(t, m)]
        for t, m in sorted(moving, key=lambda x: rank(*x)):
            free = [o for o in self.members if t not in self.having(o)]
            ready = [o for o in free if self.caught_up(t, o)]
            nearer = [o for o in free if (self.lag(t, o), o) < (self.lag(t, m), m)]
            if ready or nearer:
                source = min(ready, key=lambda o: (self.load(o), o)) if ready else min(nearer, key=lambda o: (self.lag(t, o), o))
                self.standbys[t].add(source)
                left -= 1
                if left >= 0:
                    self.warming.add((t, m))
                else:
                    self.standbys[t].discard(m)


def planned(tables: Tables, rules: Rules) -> Plan:
    """The next round."""
    made = Plan(tables, rules)
    if rules.available:
        made.available()
    else:
        made.sticky()
    if rules.warm:
        made.hand_over()
    if rules.available:
        made.stateless()
    return made
