"""The planner against the rules: Kafka's own cases, a slow definition, brute force for the fewest moves, and what always holds."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from support.inputs.assignments import CASES, LONGEST, STICKY, Step, Tables, carried_out, having, of_case, plan, run, some
from support.reference.assignment import planned

HASHED = "assignor.071"  # which of a member's tasks go when it has too many: in Kafka by hash codes, here those that come last by name


def counts(found: dict[Any, set[Any]], members: Any) -> dict[Any, int]:
    return {m: len(found.get(m, ())) for m in members}


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_a_case_of_kafka(case: dict[str, Any]) -> None:
    tables, rules = of_case(case)
    steps = plan(tables, rules)
    members, active, others = tables.members, having(steps, "active"), having(steps, "standby", "warmup")
    tasks, copies = counts(active, members), counts(others, members)
    (expected,) = case["expected"]
    for what, value in expected.items():
        match what:
            case "active" | "standby" if case["id"] == HASHED:
                found = active if what == "active" else others
                assert Counter(len(t) for t in value.values()) == Counter(counts(found, members).values())
            case "active":
                assert {m: active.get(m, set()) for m in value} == {m: set(t) for m, t in value.items()}
            case "standby":
                assert {m: others.get(m, set()) for m in value} == {m: set(t) for m, t in value.items()}
            case "active_count":
                assert {m: tasks[m] for m in value} == value
            case "standby_count":
                assert {m: copies[m] for m in value} == value
            case "assigned_count":
                assert {m: tasks[m] + copies[m] for m in value} == value
            case "min_active_count":
                assert all(tasks[m] >= least for m, least in value.items())
            case "min_standby_count":
                assert all(copies[m] >= least for m, least in value.items())
            case "max_active_count":
                assert max(tasks.values()) <= value
            case "active_count_any_of":
                assert tasks in value
            case "active_contains":
                assert all(set(t) <= active[m] for m, t in value.items())
            case "active_not_contains":
                assert not any(set(t) & active[m] for m, t in value.items())
            case "all_active":
                assert sorted(t for found in active.values() for t in found) == sorted(value)
            case "all_standby":
                assert sorted(t for found in others.values() for t in found) == sorted(value)
            case "balanced_active":
                assert max(tasks.values()) - min(tasks.values()) <= 1
            case "one_of_unchanged":
                assert any(active[m] == set(t) for m, t in value.items())
            case "followup_rebalance":
                (waiting,) = [r["value"] for r in run(tables, rules, output="metrics") if r["metric"] == "waiting"]
                assert (waiting > 0) == value
            case "after":
                assert value == 1
            case _:
                raise AssertionError(f"a case expects {what}")


@pytest.mark.parametrize("part", range(10))
def test_a_round_is_that_of_the_slow_definition(part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        compare(seed)


def compare(seed: int) -> None:
    tables, rules = some(random.Random(seed))
    steps, expected = plan(tables, rules, seed=seed), planned(tables, rules)
    copies = [s for s in steps if s.action != "revoke"]
    assert {s.task: s.member for s in copies if s.role == "active"} == expected.active
    standbys = {(s.task, s.member) for s in copies if s.role != "active"}
    assert standbys == {(t, m) for t, members in expected.standbys.items() for m in members}
    assert {(s.task, s.member) for s in copies if s.role == "warmup"} == {w for w in expected.warming if w in standbys}


@pytest.mark.parametrize("part", range(20))
def test_what_always_holds_over_rounds_until_nothing_changes(part: int) -> None:
    for seed in range(part * 50, part * 50 + 50):
        go_on(seed)


def go_on(seed: int) -> None:
    random_ = random.Random(seed)
    tables, rules = some(random_)
    for _ in range(200):
        steps = plan(tables, rules, seed=random_.randrange(10))
        check(tables, rules, steps)
        if all(s.action == "keep" for s in steps):
            break
        tables = carried_out(tables, steps)
    else:
        raise AssertionError(f"{seed}: it goes on for ever")
    owners = {s.task: s.member for s in steps if s.role == "active"}
    spare = min(rules.standbys, len(tables.members) - 1)
    for task, stateful in tables.tasks.items():
        assert task in owners
        standbys = [s for s in steps if s.task == task and s.role == "standby"]
        assert len(standbys) == (0 if stateful is False else spare)


def check(tables: Tables, rules: Any, steps: list[Step]) -> None:
    """One round, by what it says of each copy."""
    before = {(t, m): role for t, m, role, _ in tables.current if role is not None}
    lag = {(t, m): 0 if role == "active" and not lag else lag for t, m, role, lag in tables.current}
    after = [s for s in steps if s.action != "revoke"]
    assert Counter(s.task for s in after if s.role == "active") == Counter(list(tables.tasks))  # exactly one owner
    assert max(Counter((s.task, s.member) for s in after).values(), default=1) == 1  # never two copies on a member
    assert all(s.member in tables.members for s in after)
    assert sum(s.role == "warmup" for s in after) <= rules.max_warmups
    gone = {(s.task, s.member) for s in steps if s.action == "revoke" and (s.task, s.member) not in {(a.task, a.member) for a in after}}
    assert gone == before.keys() - {(a.task, a.member) for a in after}  # all that is left out is revoked, and nothing else
    for s in steps:
        was = before.get((s.task, s.member))
        if s.action == "keep":
            assert (was == "active") == (s.role == "active")
            assert was is not None
        if s.action == "promote":
            assert s.role == "active"
            assert was in ("standby", "warmup")
        if s.action in ("assign", "warm_up"):
            assert was is None or (was == "active" and s.role != "active")
        if s.role != "active":
            assert tables.tasks.get(s.task) is not False or s.action == "revoke"
        alive = s.task in tables.tasks and s.member in tables.members
        if rules.warm and tables.lags and (s.role, s.action) == ("active", "revoke") and alive and tables.tasks[s.task] is not False:
            heir = next(a.member for a in after if a.task == s.task and a.role == "active")
            behind = lag.get((s.task, heir))
            assert rules.acceptable_lag == LONGEST or (behind is not None and behind <= rules.acceptable_lag)


# -- the fewest moves


def fewest_moves(owners: dict[str, str | None], members: list[str]) -> int:
    """By trying all plans in which no two members differ by more than one task."""
    best = len(owners)
    for tried in itertools.product(members, repeat=len(owners)):
        load = Counter(tried)
        if max(load[m] for m in members) - min(load[m] for m in members) <= 1:
            best = min(best, sum(owner not in (None, m) for m, owner in zip(tried, owners.values(), strict=True)))
    return best


@pytest.mark.parametrize("seed", range(150))
def test_sticky_is_balanced_with_the_fewest_moves(seed: int) -> None:
    random_ = random.Random(seed)
    members = [f"m{i}" for i in range(random_.choice([1, 2, 3]))]
    owners = {f"t{i}": random_.choice([*members, *members, members[0], None]) for i in range(random_.choice([1, 2, 4, 6, 7]))}
    current = [(t, m, "active", 0) for t, m in owners.items() if m is not None]
    tables = Tables(dict.fromkeys(owners, True), dict.fromkeys(members, 1), current)
    active = having(plan(tables, replace(STICKY, warm=False)), "active")
    load = counts(active, members)
    assert max(load.values()) - min(load.values()) <= 1
    moved = sum(t not in active.get(owner, ()) for t, owner in owners.items() if owner is not None)
    assert moved == fewest_moves(owners, members)


def settled(tasks: int, members: int, standbys: int = 0) -> Tables:
    tables = Tables({f"t{i:04}": True for i in range(tasks)}, {f"m{i:03}": 1 for i in range(members)})
    return carried_out(tables, plan(tables, replace(STICKY, standbys=standbys)))


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_member_that_leaves_moves_its_tasks_only(standbys: int) -> None:
    tables = settled(500, 20, standbys)
    left = replace(tables, members={m: n for m, n in tables.members.items() if m != "m007"})
    own = {t for t, m, *_ in tables.current if m == "m007"}
    steps = plan(left, replace(STICKY, standbys=standbys))
    assert {s.task for s in steps if s.action != "keep"} == own
    owners = {s.task for s in steps if s.role == "active" and s.action in ("assign", "promote")}
    assert owners == {t for t, m, role, _ in tables.current if (m, role) == ("m007", "active")}
    if standbys:
        assert all(s.action == "promote" for s in steps if s.task in owners and s.role == "active" and s.action != "revoke")


def test_a_member_that_joins_takes_no_more_than_its_share() -> None:
    tables = settled(500, 20)
    joined = replace(tables, members={**tables.members, "new": 1})
    rounds = plan(joined, STICKY, rounds=1_000)
    moves = [s for s in rounds if s.action in ("assign", "promote")]
    assert {s.member for s in moves} == {"new"}
    assert 0 < len(moves) <= -(-500 // 21)
    assert not [s for s in rounds if s.role == "active" and s.action == "assign"]  # no cold start


@pytest.mark.parametrize("seed", range(60))
def test_a_member_that_joins_takes_its_share_where_costs_differ(seed: int) -> None:
    """Never is it left idle, hardly more than a share moves at all, and after it has what it takes, nothing does."""
    random_ = random.Random(seed)
    members = [f"m{i}" for i in range(random_.choice([1, 2, 4, 10]))]
    cost: dict[str, float | None] = {
        f"t{i:03}": random_.choice([1.0, 1.5, 2.0, 3.0]) for i in range(random_.choice([2, 5, 10]) * len(members))
    }
    tables = Tables(dict.fromkeys(cost, True), dict.fromkeys(members, 1), cost=cost)
    tables = carried_out(tables, plan(tables))
    assert {s.action for s in plan(tables)} == {"keep"}
    joined = replace(tables, members={**tables.members, "new": 1})
    steps = plan(joined, replace(STICKY, warm=False))
    load = {m: sum(cost[t] or 0 for t in tasks) for m, tasks in having(steps, "active").items()}
    fair, dearest = sum(load.values()) / len(joined.members), max(c or 0 for c in cost.values())
    assert load.keys() == joined.members.keys()
    assert load["new"] <= fair + dearest / 2
    assert sum(cost[s.task] or 0 for s in steps if s.action == "assign") <= fair + dearest / 2
    assert {s.action for s in plan(carried_out(joined, steps))} == {"keep"}


@pytest.mark.parametrize("members", [2, 3, 5])
def test_a_member_that_comes_back_with_its_state_has_its_tasks_at_once(members: int) -> None:
    """A rolling bounce: no warm-ups, no cold start, and what the others had all along does not move."""
    tables = settled(members * 4, members)
    before = having(plan(tables), "active")
    gone = carried_out(replace(tables, members={m: 1 for m in tables.members if m != "m001"}), plan(tables))
    left = plan(gone)
    on_disk = [(t, "m001", None, 9_999) for t in before["m001"]]
    back = carried_out(replace(tables, members=tables.members), left)
    after = plan(replace(back, current=[*back.current, *on_disk]))
    assert having(after, "active") == before
    assert not [s for s in after if s.action == "warm_up"]
    behind = plan(replace(back, current=[*back.current, *((t, m, r, 10_001) for t, m, r, _ in on_disk)]))
    assert [s.action for s in behind].count("warm_up") == 2


def test_a_task_dearer_than_others_counts_for_more() -> None:
    tables = Tables({"big": True, **{f"t{i}": True for i in range(4)}}, {"m1": 1, "m2": 1}, cost={"big": 4.0})
    active = having(plan(tables), "active")
    assert active == {"m1": {"big"}, "m2": {"t0", "t1", "t2", "t3"}}


def test_copies_lie_in_different_zones_as_long_as_there_are_enough() -> None:
    zones = {f"m{i}": ("abc"[i % 3],) for i in range(6)}
    for available in (False, True):
        tables = Tables({f"t{i}": True for i in range(12)}, dict.fromkeys(zones, 1), tags=zones)
        steps = plan(tables, replace(STICKY, available=available, standbys=2))
        for task in tables.tasks:
            assert len({zones[s.member] for s in steps if s.task == task}) == 3
        two = replace(tables, tags={m: ("a" if m < "m3" else "b",) for m in zones})
        steps = plan(two, replace(STICKY, available=available, standbys=2))
        for task in tables.tasks:
            found = [two.tags[s.member] for s in steps if s.task == task]
            assert len(found) == 3
            assert len(set(found)) == 2


@pytest.mark.parametrize("seed", range(100))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    tables, rules = some(random.Random(seed))
    for output in ("rows", "explain", "metrics"):
        found = [run(tables, rules, 5, output, seed=s) for s in (1, 2, 3)]
        assert found[0] == found[1] == found[2]
