"""The picture of who has what: it shows each copy in its round, and docs/assignment.svg is that of the golden conversation."""

from __future__ import annotations

import os
import re
import sys

import pytest
from pyspark.sql import SparkSession
from support import ROOT, TESTS

import streamtime
from streamtime.pictures.rounds import Cell, drawn, lines, of_history

SVG = ROOT / "docs" / "assignment.svg"
NAME = re.compile(r'<g id="(\S+) (\d+) (\S+) (active|standby|warmup)"')
PLAN = "task STRING, member STRING, role STRING, action STRING, round INT"


def shown(svg: str) -> set[Cell]:
    return {Cell(task, int(at), member, role) for task, at, member, role in NAME.findall(svg)}


def test_the_picture_in_the_docs_is_that_of_the_conversation() -> None:
    said = (TESTS / "golden" / "assign.out").read_text()
    answer = said.split("TABLE_HISTORY('fleet.assignment') ORDER BY task, from_version, member;\n")[1].split("\n\n")[0]
    rows = [line.split(" | ") for line in answer.splitlines()[1:]]
    cells = of_history([(t, m, r, int(begins), None if ends == "NULL" else int(ends)) for t, m, r, begins, ends in rows])
    assert {c.role for c in cells} == {"active", "standby", "warmup"}
    for at in {c.at for c in cells}:
        assert sorted(c.task for c in cells if c.at == at and c.role == "active") == [f"s{n}" for n in range(1, 7)], (
            "never two owners, never none"
        )
    if os.environ.get("STREAMTIME_GOLDEN") == "write":
        drawn(cells, "commit", "Who has which shard").savefig(SVG, bbox_inches="tight", metadata={"Date": None})
    assert shown(SVG.read_text()) == set(cells)


def test_rounds_of_a_plan(spark: SparkSession) -> None:
    rows = [
        ("a", "m1", "active", "keep", 1),
        ("a", "m2", "warmup", "warm_up", 1),
        ("a", "m1", "active", "revoke", 2),
        ("a", "m2", "active", "promote", 2),
    ]
    figure = streamtime.plot(spark.createDataFrame(rows, PLAN), title="one task")
    svg = figure._repr_svg_()  # type: ignore[attr-defined]  # what a notebook asks for
    assert shown(svg) == {Cell("a", 1, "m1", "active"), Cell("a", 1, "m2", "warmup"), Cell("a", 2, "m2", "active")}
    some = streamtime.plot(spark.createDataFrame(rows, PLAN), where="round = 1 AND role = 'active'")
    assert shown(some._repr_svg_()) == {Cell("a", 1, "m1", "active")}  # type: ignore[attr-defined]
    with pytest.raises(
        ValueError, match=r"plot, `keys`: is of no use for a plan of tasks, which is drawn by its own columns\. Leave it out\."
    ):
        streamtime.plot(spark.createDataFrame(rows, PLAN), keys="task")


def test_rounds_as_text() -> None:
    cells = [
        Cell("a", 1, "m1", "active"),
        Cell("a", 1, "m2", "warmup"),
        Cell("a", 2, "m2", "active"),
        Cell("\u6771\x1b", 2, "m1", "standby"),
    ]
    assert lines(cells, "round", 80) == [
        "round   1       2",
        "a       m1 ~m2  m2",
        "\u6771\\x1b          +m1",
        "",
        "a name: the owner; +: standby; ~: warm-up",
    ]
    assert lines(cells, "round", 16)[-1] == "1 more columns are not drawn: there is no room"


def test_of_many_tasks_those_that_change_are_drawn(spark: SparkSession) -> None:
    rows = [(f"t{n:03}", "m2" if (n, at) == (77, 2) else "m1", "active", "keep", at) for n in range(200) for at in (1, 2)]
    svg = streamtime.plot(spark.createDataFrame(rows, PLAN))._repr_svg_()  # type: ignore[attr-defined]
    assert shown(svg) == {Cell("t077", 1, "m1", "active"), Cell("t077", 2, "m2", "active")}
    assert len(drawn([Cell(f"t{n:03}", n % 2, "m1", "active") for n in range(200)], "round").axes[0].get_yticks()) == 60


def test_what_cannot_be_drawn(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"no column of `x` is a time"):
        streamtime.plot(spark.sql("SELECT 1 AS x"))
    with pytest.raises(ValueError, match="no rows to draw"):
        streamtime.plot(spark.createDataFrame([], PLAN))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"in a clone, pip install '\.\[plot\]'"):
        drawn([Cell("a", 1, "m", "active")], "round")
