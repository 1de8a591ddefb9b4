"""VERSIONS against the slow definition: hundreds of nasty scenarios in a query for each set of options."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.inputs import nasty
from support.inputs.nasty import HIGHEST, SECOND, interval
from support.reference import versions as slow

pytestmark = [
    pytest.mark.usefixtures("as_users_in_all"),
    pytest.mark.short("random rows of every nastiness, judged by the slow definition"),
]

OPTIONS = (  # grace, retention, keys, order, clock_by
    (None, None, ["s", "k"], ["off"], ["s", "c"]),
    (SECOND, None, ["s", "k"], ["off"], ["s", "c"]),
    (0, 3 * SECOND, ["s", "d"], ["off"], ["s"]),
    (2, 1, ["s", "k"], ["d", "off"], ["s", "c"]),
    (None, 0, ["s", "v", "d"], ["t"], ["s"]),
    (366_000 * 86_400 * SECOND, HIGHEST, ["s", "k"], ["off DESC"], []),
    (HIGHEST, 366_000 * 86_400 * SECOND, ["s", "v"], ["off"], []),
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[nasty.Row]:
    return nasty.near_and_far(spark, 41)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_nasty_rows_equal_the_slow_definition_and_nothing_is_lost(spark: SparkSession, rows: list[nasty.Row], number: int) -> None:
    grace, retention, keys, order, clock_by = OPTIONS[number]
    table, names = ("odd", nasty.Names(nasty.ODD)) if number % 2 else ("nasty", nasty.Names({}))
    text = f"VERSIONS({names.clauses(keys, order, table)}, time => {names.option('{t}')}, deleted => {names.option('{gone}')}"
    text += "".join(f", {name} => {interval(v)}" for name, v in (("grace", grace), ("retention", retention)) if v is not None)
    text += f", clock_by => {names.options([f'{{{c}}}' for c in clock_by])}" if clock_by else ""
    row_id, bounds, report = names.sql("{id}"), "unix_micros(valid_from), unix_micros(valid_to)", "unix_micros(stream_time), lateness"
    found = spark.sql(
        f"SELECT 'all', {row_id}, reason, {bounds}, {report} FROM {text}, output => 'all') UNION ALL "
        f"SELECT 'rows', {row_id}, NULL, {bounds}, NULL, NULL FROM {text}) UNION ALL "
        f"SELECT 'dropped', {row_id}, reason, NULL, NULL, {report} FROM {text}, output => 'dropped') UNION ALL "
        f"SELECT 'puts', {row_id}, put_status, NULL, unix_micros(valid_to), NULL, NULL FROM {text}, output => 'puts')"
    ).collect()
    given, plain = nasty.meant(rows, keys), [o.removesuffix(" DESC") for o in order]
    if plain != order:  # as numbers that rise
        given = [r | {"off": None if r["off"] is None else -r["off"]} for r in given]
    wanted = Counter[Any]()
    for j in slow.versions(given, order=plain, grace=grace, retention=retention, deleted="gone", clock_by=clock_by):
        at = None if j.reason == "null_time" else j.row["t"] if order == ["t"] else j.stream_time  # in event-time order, rows are on time
        report_of = at, None if at is None else nasty.about(max(at - j.row["t"], 0) / 1e6)
        valid = (j.row["t"], j.valid_to) if j.reason is None else (None, None)
        wanted["all", j.row["id"], j.reason, *valid, *report_of] += 1
        wanted["puts", j.row["id"], j.status, None, j.told, None, None] += 1
        if j.reason is not None:
            wanted["dropped", j.row["id"], j.reason, None, None, *report_of] += 1
        elif not j.tombstone:
            wanted["rows", j.row["id"], None, *valid, None, None] += 1
    nasty.compare(Counter((*r[:6], nasty.about(r[6])) for r in found), wanted, rows, text)
    if number == 1:
        nasty.counted(spark, f"{text}, output => 'metrics')", wanted)
