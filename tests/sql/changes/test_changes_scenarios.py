"""The functions of changelogs against their slow definitions: hundreds of nasty scenarios in a query for each set of options.

Orders go down, have several columns, or are the event time; keys, groups and orders are NULL, NaN and both zeros; times are of years 1 to
9999 and at the ends of TIMESTAMP; every other set of options reads columns with odd names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.inputs import nasty
from support.inputs.nasty import DAY, HIGHEST, NAN, SECOND, interval
from support.reference import changes as slow

pytestmark = [
    pytest.mark.usefixtures("as_users_in_all"),
    pytest.mark.short("random rows of every nastiness, judged by the slow definition"),
]

OPTIONS = (  # versioned, retention, keys, order, clock_by
    (False, None, ["s", "k"], ["off"], []),
    (True, None, ["s", "k"], ["off DESC"], []),
    (True, 2 * SECOND, ["s", "k"], ["off", "v"], ["s", "c"]),
    (False, None, ["s", "v"], ["d DESC", "off DESC"], []),
    (True, 0, ["s", "d"], ["v", "d"], ["s"]),
    (True, HIGHEST, ["s", "k", "c"], ["t"], []),
    (False, None, ["s", "k"], ["t DESC"], []),
    (True, 3_000_000 * DAY, ["s", "v"], ["u", "off"], ["s", "c"]),
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[nasty.Row]:
    return nasty.near_and_far(spark, 83)


class Asked:
    """One set of options, as a call and as the slow definitions take it."""

    def __init__(self, rows: Sequence[nasty.Row], number: int, of_keys: bool = False) -> None:
        versioned, retention, self.keys, order, clock_by = OPTIONS[number]
        self.table, self.names = ("odd", nasty.Names(nasty.ODD)) if number % 2 else ("nasty", nasty.Names({}))
        self.order, self.descending = [o.removesuffix(" DESC") for o in order], order[0].endswith(" DESC")
        self.clauses = self.names.clauses(self.keys, order, self.table)
        clock_by = clock_by if not of_keys else [c for c in clock_by if c in self.keys]
        text = f", clock_by => {self.names.options([f'{{{c}}}' for c in clock_by])}" if clock_by else ""
        self.text = text + f", time => {self.names.option('{t}')}, deleted => {self.names.option('{gone}')}"
        self.retention = "" if retention is None else f", retention => {interval(retention)}"
        self.clocked = {"clock_by": clock_by, "retention": None if order == ["t"] else retention}  # in event-time order nothing is old
        self.versioned = versioned
        self.rows = nasty.meant(rows, self.keys)

    def column(self, name: str) -> str:
        """A column of the result, with a number for a time that Python may not know."""
        text = self.names.quoted[name]
        return f"unix_micros({text})" if name in ("t", "u") else text


def compared(got: Sequence[Any], wanted: Sequence[Any], text: str) -> None:
    """Whether both are the same rows; of the first scenario in which they are not, which. A scenario's number comes first."""
    one, other = (Counter(tuple(NAN if v != v else v for v in row) for row in side) for side in (got, wanted))
    assert sum(other.values()) > 100
    if one != other:
        differ = (one - other) | (other - one)
        first = min(row[0] for row in differ)
        shown = {
            which: sorted(map(repr, (r for r in side if r[0] == first))) for which, side in (("got", one - other), ("wanted", other - one))
        }
        raise AssertionError("\n".join([f"{len(differ)} rows differ", text, *(f"{w}: {r}" for w, some in shown.items() for r in some)]))


def carried(row: nasty.Row, columns: Sequence[str]) -> list[Any]:
    return [row["name" if c == "k" else c] for c in columns]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_filtered(spark: SparkSession, rows: list[nasty.Row], number: int) -> None:
    asked = Asked(rows, number)
    text = f"FILTER_CHANGES({asked.clauses}{asked.text}{asked.retention}, condition => {asked.names.option('{v} % 2 = 0')}"
    text += ", versioned => true" if asked.versioned else ""
    shown = ", ".join(map(asked.column, ("s", "v", "id")))
    of_order = ", ".join(map(asked.column, asked.order))
    got = spark.sql(f"SELECT {shown}, {of_order}, change_type, unix_micros(change_time), change_seq FROM {text})").collect()
    made, ignored = slow.filtered(
        asked.rows, asked.order, lambda r: r["v"] is not None and r["v"] % 2 == 0, descending=asked.descending,
        versioned=asked.versioned, **asked.clocked,
    )  # fmt: skip
    wanted = []
    for row, kind, time, seq in made:
        known = {*asked.keys, *asked.order, "t"} if kind == "delete" else set(nasty.COLUMNS)
        three = [row[c] if c in known else None for c in ("s", "v", "id")]
        wanted.append((*three, *carried(row, asked.order), kind, time, seq))
    compared(got, wanted, text)
    of_ignored(spark, f"{text}, output => 'dropped')", asked, ignored)


def of_ignored(spark: SparkSession, text: str, asked: Asked, ignored: Sequence[Any]) -> None:
    got = spark.sql(f"SELECT {asked.column('s')}, {asked.column('id')}, reason FROM {text}").collect()
    compared(got, [(row["s"], row["id"], reason) for row, reason in ignored], text)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_aggregated(spark: SparkSession, rows: list[nasty.Row], number: int) -> None:
    asked = Asked(rows, number)
    by = (["s", "v"], ["s", "d"], ["s", "c", "d"], ["s", "k"])[number % 4]
    totals = "count(*) AS a, count({v}) AS b, sum({v}) AS e, min({v}) AS low, max({d}) AS high, sum({d}) AS total, min({k}) AS word"
    text = f"AGGREGATE_CHANGES({asked.clauses}{asked.text}{asked.retention}, group_by => {asked.names.options([f'{{{c}}}' for c in by])}"
    text += f", aggregates => {asked.names.option(totals)}" + (", versioned => true" if asked.versioned else "")
    columns = list(dict.fromkeys([*by, *asked.order]))
    shown = ", ".join(map(asked.column, columns))
    got = spark.sql(
        f"SELECT {shown}, a, b, e, low, high, total, word, change_type, unix_micros(change_time), change_seq FROM {text})"
    ).collect()
    made, ignored = slow.aggregated(
        asked.rows, asked.order, [*by[:-1], "name"] if by[-1] == "k" else by, descending=asked.descending, versioned=asked.versioned,
        **asked.clocked,
    )  # fmt: skip
    wanted = []
    for group, row, members, kind, time, seq in made:
        first = dict(zip(by, group, strict=True))
        of = [first.get(c, carried(row, [c])[0]) for c in columns]
        v, d, k = ([m[c] for m in members] for c in ("v", "d", "name"))
        numbers = [x for x in v if x is not None]
        totals_of = (
            len(members), len(numbers), sum(numbers) if numbers else None, min(numbers, default=None),
            max((x for x in d if x is not None), default=None), slow.summed(d, NAN), min((w for w in k if w is not None), default=None),
        )  # fmt: skip
        wanted.append((*of, *(totals_of if members else (None,) * len(totals_of)), kind, time, seq))
    compared(got, wanted, text)
    of_ignored(spark, f"{text}, output => 'dropped')", asked, ignored)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_joined(spark: SparkSession, rows: list[nasty.Row], number: int) -> None:
    asked = Asked(rows, number, of_keys=True)
    join, versioned = (
        ("inner", "left", "outer")[number % 3],
        (("left", "right"), ("right",), ("left",))[number % 3] if asked.versioned else (),
    )
    common = list(dict.fromkeys([*asked.keys, *asked.order, *asked.clocked["clock_by"], "t"]))
    sides = []
    for side, rest in (("left", 0), ("right", 1)):
        columns = ", ".join(asked.names.quoted[c] for c in [*common, "gone"])
        mine = f"SELECT {columns}, {asked.names.sql('{id}')} AS {side}_id FROM {asked.table} WHERE {asked.names.sql('{id}')} % 2 = {rest}"
        sides.append(asked.clauses.replace(f"TABLE({asked.table})", f"TABLE({mine})"))
    text = f"JOIN_CHANGES({', '.join(sides)}{asked.text}, join_type => '{join}'"
    text += f", versioned => ARRAY({', '.join(map(repr, versioned))}){asked.retention}" if versioned else ""
    columns = list(dict.fromkeys(["s", *asked.keys, *asked.order]))
    columns = [c for c in columns if c != "t"]
    shown = ", ".join(map(asked.column, columns))
    got = spark.sql(f"SELECT {shown}, left_id, right_id, change_type, unix_micros(change_time), change_seq FROM {text})").collect()
    given = [
        {c: r["name" if c == "k" else c] for c in common} | {"k": r["k"], "gone": r["gone"], "id": r["id"], "t": r["t"]} for r in asked.rows
    ]
    names = {r["id"]: r["name"] for r in asked.rows}
    left, right = ([r for r in given if r["id"] % 2 == rest] for rest in (0, 1))
    made, ignored = slow.joined(left, right, asked.order, join, versioned=versioned, descending=asked.descending, **asked.clocked)
    wanted = [
        (
            *(names[row["id"]] if c == "k" else row[c] for c in columns),
            *(None if r is None else r["id"] for r in (one, other)),
            kind,
            time,
            seq,
        )
        for row, one, other, kind, time, seq in made
    ]
    compared(got, wanted, text)
    dropped = spark.sql(
        f"SELECT {asked.column('s')}, side, coalesce(left_id, right_id), reason FROM {text}, output => 'dropped')"
    ).collect()
    compared(dropped, [(row["s"], side, row["id"], reason) for side, row, reason in ignored], text)
