"""What cannot be planned for is said with the rows, once, and nothing else comes out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from support.inputs.assignments import STICKY, Tables, run, some

from streamtime.udfs.assignment.planner import PROBLEM
from streamtime.udfs.assignment.reading import COPY, MEMBER, TASK


def said(tables: Tables, name: Any = None) -> str:
    found = {seed: run(tables, seed=seed, name=name) for seed in range(4)}
    assert len({str(rows) for rows in found.values()}) == 1, "the order of rows does not matter"
    (row,) = found[0]
    assert [c for c, v in row.items() if v is not None] == [PROBLEM]
    return str(row[PROBLEM])


GOOD = {"tasks": {"a": True, "b": True}, "members": {"m1": 1, "m2": 1}}
WRONG = {
    "no member": (Tables({"a": True}, {}), "members: there is no member. Tasks need someone to run them."),
    "none alive": (Tables({"a": True}, {"m": 1}, alive={"m": False}), "members: there is no member that is alive."),
    "two owners": (
        Tables(**GOOD, current=[("a", "m2", "active", 0), ("a", "m1", "active", None), ("b", "m1", "active", 0)]),
        "current: a task is assigned twice: task 'a', members 'm1' and 'm2'. Only one copy of a task can be 'active'.",
    ),
    "a copy twice": (
        Tables(**GOOD, current=[("a", "m1", "standby", 0), ("a", "m1", "active", 0)]),
        "current: a copy is listed twice: task 'a', member 'm1'. Keep one row of each task and member.",
    ),
    "unknown member": (
        Tables(**GOOD, current=[("a", "m1", "active", 0), ("b", "m3", "active", 0)], alive={}),
        "current: a member is unknown: task 'b', member 'm3'. List it in `members`, with alive => false if it is gone.",
    ),
    "negative lag": (
        Tables(**GOOD, current=[("a", "m1", "standby", -1), ("b", "m1", None, -(2**63))]),
        f"current: `lag` is negative: task 'a', member 'm1', lag -1; task 'b', member 'm1', lag {-(2**63)}. It says how many",
    ),
    "a role that is none": (
        Tables(**GOOD, current=[("a", "m1", "Active", 0)]),
        "current: `role` must be one of 'active', 'standby', 'warmup', or null: task 'a', member 'm1', role 'Active'.",
    ),
    "null task": (Tables({None: True, "a": True}, {"m": 1}), "tasks: `task` is null: task null."),
    "null member": (Tables({"a": True}, {None: 1, "m": 1}), "members: `member` is null: member null."),
    "null task of a copy": (Tables(**GOOD, current=[(None, "m1", "active", 0)]), "current: `task` is null: task null, member 'm1'."),
    "null member of a copy": (Tables(**GOOD, current=[("a", None, "active", 0)]), "current: `member` is null: task 'a', member null."),
    "task twice": (
        Tables(**GOOD, more=[{"kind": TASK, "task": "b", "stateful": False, "cost": 2.0}]),
        "tasks: a task is listed twice: task 'b'. Keep one row of each.",
    ),
    "member twice": (
        Tables(**GOOD, more=[{"kind": MEMBER, "member": "m1", "threads": 2, "alive": True, "tags": []}]),
        "members: a member is listed twice: member 'm1'.",
    ),
    "no threads": (
        Tables({"a": True}, {"m1": 0, "m2": None, "m3": -1}),
        "member 'm1', threads 0; member 'm2', threads null; member 'm3', threads -1.",
    ),
    "no cost": (
        Tables({"a": True, "b": True, "c": True, "d": True}, {"m": 1}, cost={"a": 0.0, "b": None, "c": float("inf"), "d": -1.0}),
        "tasks: `cost` must be a number above zero: task 'a', cost 0.0; task 'b', cost null; task 'c', cost inf;",
    ),
    "nan": (Tables({"a": True}, {"m": 1}, cost={"a": float("nan")}), "task 'a', cost n"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_rows(name: str) -> None:
    tables, expected = WRONG[name]
    message = said(tables)
    assert message.startswith("ASSIGN_TASKS, ")
    assert expected in message


def test_of_many_rows_a_few_are_shown_and_the_others_counted() -> None:
    current = [(f"t{i:05}", "m1", "standby", -i) for i in range(1, 12_346)]
    message = said(Tables(**GOOD, current=current))
    assert "task 't00001', member 'm1', lag -1; " in message
    assert message.count("lag -") < 10
    assert " and 12,3" in message
    assert " more. It says" in message


def test_numbers_as_names_are_shown_as_numbers() -> None:
    assert "task 7, member 1" in said(Tables({7: True}, {1: 1}, [(7, 1, "active", -3)]), pa.int64())


def test_a_wrong_row_among_many_right_ones_is_always_found() -> None:
    for seed in range(300):
        random_ = random.Random(seed)
        tables, rules = some(random_)
        bad = random_.choice(
            [
                {"kind": TASK, "task": None, "stateful": True, "cost": 1.0},
                {"kind": TASK, "task": "new", "stateful": None, "cost": -1.0},
                {"kind": MEMBER, "member": None, "threads": 1, "alive": True, "tags": []},
                {"kind": MEMBER, "member": "new", "threads": 0, "alive": None, "tags": [None]},
                {"kind": COPY, "task": "new", "member": "new", "role": "owner", "lag": None},
                {"kind": COPY, "task": "new", "member": "new", "role": None, "lag": -5},
                {"kind": COPY, "task": None, "member": "new", "role": None, "lag": 5},
            ]
        )
        rows = run(Tables(**{**vars(tables), "more": [bad]}), rules, seed=seed)
        assert len(rows) == 1
        assert rows[0][PROBLEM], (seed, bad)


def test_a_dead_owner_beside_a_living_one_is_no_second_owner() -> None:
    """It may have been counted out late: who is alive has the task."""
    tables = Tables({"a": True}, {"m1": 1}, [("a", "m1", "active", 0), ("a", "gone", "active", 0)])
    rows = run(tables, STICKY)
    assert [(r["member"], r["action"]) for r in rows] == [("m1", "keep"), ("gone", "revoke")]
