"""DEDUPLICATE against the slow definition: hundreds of nasty scenarios in a query for each set of options. In batch and on a stream."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import reference
from support.inputs import nasty
from support.inputs.nasty import HIGHEST, SECOND, interval
from support.reference import deduplicate as reference_deduplicate

pytestmark = [
    pytest.mark.usefixtures("as_users_in_all"),
    pytest.mark.short("random rows of every nastiness, judged by the slow definition"),
]

LENGTHS = (0, 1, SECOND, 3 * SECOND, 86_400 * SECOND, 366_000 * 86_400 * SECOND, HIGHEST)
KEYS = (["s", "k"], ["s", "d"], ["s", "t"], ["d", "s", "k"])
ORDERS = (["off"], ["t"], ["off DESC"], ["d", "off"], ["t DESC"])


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[nasty.Row]:
    """From year 1 to 9999, and at the ends of TIMESTAMP. Times are turned round in reverse order: the very first has no opposite."""
    rows = nasty.scenarios(21, 150)
    rows += [
        r | {"s": r["s"] + 1000, "id": r["id"] + len(rows)} for r in nasty.scenarios(22, 60, moments=nasty.ENDS, low=-HIGHEST, high=HIGHEST)
    ]
    nasty.view(spark, rows)
    nasty.view(spark, rows, name="odd", names=nasty.ODD)
    return rows


def options_of(random_: random.Random, seed: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        "within": LENGTHS[seed] if seed < len(LENGTHS) else None,
        "keep": ("first", "last", "first", "unique")[seed % 4],
        "order": ORDERS[seed % len(ORDERS)],
        "keys": KEYS[seed * 3 % len(KEYS)],
        "clock_by": (["s", "c"], [], ["s"], ["s", "k"])[(seed + seed // 4) % 4],
    }
    options["refresh"] = options["within"] is not None and random_.random() < 0.5
    bounded = options["refresh"] and options["within"] < HIGHEST and seed % 5
    options["at_most"] = min(options["within"] + random_.choice([1, SECOND]), HIGHEST) if bounded else None
    options["offset"] = random_.choice([None, "v", "struct(c, v)"]) if options["keep"] == "first" else None
    return options


def text_of(options: dict[str, Any], names: nasty.Names, table: str) -> str:
    parts = [names.clauses(options["keys"], options["order"], table), f"time => {names.option('{t}')}", f"keep => '{options['keep']}'"]
    if options["within"] is not None:
        parts.append(f"within => {interval(options['within'])}")
    if options["refresh"]:
        parts.append("refresh => true")
    if options["at_most"] is not None:
        parts.append(f"at_most => {interval(options['at_most'])}")
    if options["offset"]:
        parts.append(f"offset => {names.option('struct({c}, {v})' if 'struct' in options['offset'] else '{v}')}")
    if options["clock_by"]:
        parts.append(f"clock_by => {names.options([f'{{{c}}}' for c in options['clock_by']])}")
    return f"DEDUPLICATE({', '.join(parts)}, output => 'OUT')"


def judged_of(rows: list[nasty.Row], options: dict[str, Any]) -> list[reference.Judged]:
    given = [r | {"struct(c, v)": (r["c"], r["v"])} for r in nasty.meant(rows)]
    order = [o.removesuffix(" DESC") for o in options["order"]]
    return reference_deduplicate.deduplicate(given, **options | {"order": order}, descending=order != options["order"])


@pytest.mark.parametrize("seed", range(8))
def test_nasty_rows_equal_the_slow_definition_and_nothing_is_lost(spark: SparkSession, rows: list[nasty.Row], seed: int) -> None:
    options = options_of(random.Random(seed), seed)
    table, names = ("odd", nasty.Names(nasty.ODD)) if seed % 2 else ("nasty", nasty.Names({}))
    text, number = text_of(options, names, table), names.sql("{id}")
    report = f"reason, unix_micros(stream_time), unix_micros(kept_time), lateness FROM {text}"
    found = spark.sql(
        f"SELECT 'all', {number}, {report.replace('OUT', 'all')} UNION ALL SELECT 'dropped', {number}, {report.replace('OUT', 'dropped')} "
        f"UNION ALL SELECT 'rows', {number}, NULL, NULL, NULL, NULL FROM {text.replace('OUT', 'rows')}"
    ).collect()
    wanted = Counter[Any]()
    for j in judged_of(rows, options):
        late = None if j.reason == "null_time" else nasty.about((j.lateness or 0) / 1e6)
        wanted["all", j.row["id"], j.reason, j.stream_time, j.kept_time, late] += 1
        if j.reason is None:
            wanted["rows", j.row["id"], None, None, None, None] += 1
        else:
            wanted["dropped", j.row["id"], j.reason, j.stream_time, j.kept_time, late] += 1
    nasty.compare(Counter((*r[:-1], nasty.about(r[-1])) for r in found), wanted, rows, text)
    if seed in (0, 3):
        nasty.counted(spark, text.replace("OUT", "metrics"), wanted)
