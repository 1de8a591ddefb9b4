"""SESSIONIZE against the slow definition: hundreds of nasty scenarios in a query for each set of options."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.inputs import nasty
from support.inputs.nasty import HIGHEST, SECOND, interval
from support.reference import sessionize as slow

pytestmark = [
    pytest.mark.usefixtures("as_users_in_all"),
    pytest.mark.short("random rows of every nastiness, judged by the slow definition"),
]

OPTIONS = (  # gap, grace, keys, order, clock_by
    (3 * SECOND, None, ["s", "k"], ["off"], ["s", "c"]),
    (3 * SECOND, 0, ["s", "k"], ["off"], ["s", "c"]),
    (0, SECOND, ["s", "d"], ["off"], ["s"]),
    (1, 2, ["s", "k"], ["d", "off"], ["s", "c"]),
    (3 * SECOND, 0, ["s", "t"], ["off"], []),
    (5 * SECOND, SECOND, ["s", "k", "d"], ["t"], ["s"]),
    (2 * SECOND, 2 * SECOND, ["s"], ["off DESC"], ["s", "c"]),
    (366_000 * 86_400 * SECOND, HIGHEST, ["s", "k"], ["off"], []),
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[nasty.Row]:
    return nasty.near_and_far(spark, 31)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_nasty_rows_equal_the_slow_definition_and_nothing_is_lost(spark: SparkSession, rows: list[nasty.Row], number: int) -> None:
    gap, grace, keys, order, clock_by = OPTIONS[number]
    table, names = ("odd", nasty.Names(nasty.ODD)) if number % 2 else ("nasty", nasty.Names({}))
    text = f"SESSIONIZE({names.clauses(keys, order, table)}, time => {names.option('{t}')}, gap => {interval(gap)}"
    text += "" if grace is None else f", grace => {interval(grace)}"
    text += f", clock_by => {names.options([f'{{{c}}}' for c in clock_by])}" if clock_by else ""
    bounds, row_id = "unix_micros(session_start), unix_micros(session_end)", names.sql("{id}")
    found = spark.sql(
        f"SELECT 'all' AS f, {row_id}, reason, {bounds}, unix_micros(stream_time), lateness, session_id FROM {text}, output => 'all') UNION ALL "
        f"SELECT 'rows', {row_id}, NULL, {bounds}, NULL, NULL, session_id FROM {text}) UNION ALL "
        f"SELECT 'dropped', {row_id}, reason, NULL, NULL, unix_micros(stream_time), lateness, NULL FROM {text}, output => 'dropped') UNION ALL "
        f"SELECT 'explain', {row_id}, outcome, {bounds}, unix_micros(stream_time), NULL, nvl2(explanation, 'said', '') "
        f"FROM {text}, output => 'explain')"
    ).collect()
    down = order[0].endswith("DESC")
    given = nasty.meant(rows, keys)
    if down:  # as numbers that rise; nulls of a descending order come last, and have no time there
        given = [r | {"off": None if r["off"] is None else -r["off"]} for r in given]
    judged = slow.sessionize(given, gap=gap, grace=grace, order=[o.removesuffix(" DESC") for o in order], clock_by=clock_by)
    wanted = Counter[Any]()
    for j in judged:
        at = j.row["t"] if order == ["t"] and j.reason == "null_key" else j.stream_time  # rows in event-time order are on time
        late = None if at is None else nasty.about(max(at - j.row["t"], 0) / 1e6)
        final, after = j.final or (None, None), j.after or (None, None)
        wanted["all", j.row["id"], j.reason, *final, at, late] += 1
        wanted["explain", j.row["id"], j.outcome, *after, at, None] += 1
        if j.reason is None:
            wanted["rows", j.row["id"], None, *final, None, None] += 1
        else:
            wanted["dropped", j.row["id"], j.reason, None, None, at, late] += 1
    nasty.compare(Counter((*r[:6], nasty.about(r[6])) for r in found), wanted, rows, text)
    if number == 1:
        nasty.counted(spark, f"{text}, output => 'metrics')", wanted)
    assert {r.session_id for r in found if r.f == "explain"} == {"said"}
    key_of = {r["id"]: r["k"] for r in given}
    ids = {(key_of[r[1]], r[3]): r.session_id for r in found if r.f == "rows"}
    assert all(r.session_id == ids.get((key_of[r[1]], r[3])) for r in found if r.f in ("rows", "all"))
    assert len(set(ids.values())) == len(ids)
