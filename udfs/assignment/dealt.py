"""Where each task should be by rule R3: dealt round by round, then evened out over threads. Who had it before does not count."""

from __future__ import annotations

from collections.abc import Callable

from streamtime.udfs.assignment.cluster import NONE, UNIT, Apart, Cluster, Copies, Lightest, Rules


def dealt(cluster: Cluster, rules: Rules) -> Copies:
    """Stateful tasks and their standbys; those without state come last of all, in `deal_stateless`."""
    copies, members = Copies(cluster), len(cluster.threads)
    tasks = [t for t in range(len(cluster.stateful)) if cluster.stateful[t]]
    for turn, task in enumerate(tasks):
        copies.activate(turn % members, task)
    _even(copies, copies.actives, _move_active, lambda *_: True)
    if rules.standbys:
        apart = Apart(cluster)
        _replicate(copies, tasks, rules.standbys, apart)
        _even(copies, copies.others, _move_standby, apart.alike if apart else lambda *_: True)
    return copies


def deal_stateless(copies: Copies) -> None:
    """Each task without state to the member with the fewest active tasks per thread."""
    lightest = Lightest(len(copies.actives), lambda m: (copies.active_load(m),))
    for task, stateful in enumerate(copies.cluster.stateful):
        if not stateful:
            member = lightest.pick(lambda _: True)
            copies.activate(member, task)
            lightest.touch(member)


def _replicate(copies: Copies, tasks: list[int], wanted: int, apart: Apart) -> None:
    """Standbys on the least loaded members; with tags first those that lie apart, then, for what is missing, any."""
    lightest = Lightest(len(copies.actives), lambda m: (copies.load(m),))
    missing = dict.fromkeys(tasks, wanted)
    for task in tasks if apart else ():
        holders = [copies.active[task]]
        while missing[task]:
            taken = apart.taken(holders)
            member = lightest.pick(lambda m, task=task, taken=taken: m not in taken and not copies.holds(m, task))  # type: ignore[misc]
            if member == NONE:
                break
            copies.add(member, task)
            lightest.touch(member)
            holders.append(member)
            missing[task] -= 1
    for task in tasks:
        for _ in range(missing[task]):
            member = lightest.pick(lambda m, task=task: not copies.holds(m, task))  # type: ignore[misc]
            if member == NONE:
                break
            copies.add(member, task)
            lightest.touch(member)


def _move_active(copies: Copies, task: int, _source: int, destination: int) -> None:
    copies.deactivate(task)
    copies.activate(destination, task)


def _move_standby(copies: Copies, task: int, source: int, destination: int) -> None:
    copies.remove(source, task)
    copies.add(destination, task)


def _even(
    copies: Copies,
    tasks_of: list[set[int]],
    move: Callable[[Copies, int, int, int], None],
    allowed: Callable[[int, int], bool],
) -> None:
    """Moves tasks from each member to each other one as long as that makes their loads more alike."""
    cluster, cost, threads = copies.cluster, copies.cost, copies.cluster.threads
    members = range(len(threads))
    smallest = min(cluster.cost, default=UNIT)

    def helps(source: int, destination: int, weight: int) -> bool:
        before = cost[source] / threads[source] - cost[destination] / threads[destination]
        after = (cost[source] - weight) / threads[source] - (cost[destination] + weight) / threads[destination]
        return before > 0 and 0 <= after < before

    moved = True
    while moved:
        moved = False
        for source in members:
            if not tasks_of[source]:
                continue
            load, less = cost[source] / threads[source], (cost[source] - smallest) / threads[source]
            lighter = [d for d in members if cost[d] / threads[d] < load and (cost[d] + smallest) / threads[d] <= less]
            for destination in lighter:  # no other member gets to be one as the source grows lighter
                if not allowed(source, destination):
                    continue
                for task in sorted(tasks_of[source]) if helps(source, destination, smallest) else ():
                    if not helps(source, destination, smallest):
                        break
                    if not copies.holds(destination, task) and helps(source, destination, cluster.cost[task]):
                        move(copies, task, source, destination)
                        moved = True
