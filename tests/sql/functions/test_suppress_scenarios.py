"""Suppress against the slow definition: hundreds of nasty scenarios in a query for each set of options."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.inputs import nasty
from support.inputs.nasty import HIGHEST, SECOND, interval
from support.reference.suppress import Fate, Suppress

pytestmark = [
    pytest.mark.usefixtures("as_users_in_all"),
    pytest.mark.short("random rows of every nastiness, judged by the slow definition"),
]

FOR_EVER = 366_000 * 86_400 * SECOND
LIMITS: tuple[dict[str, Any], ...] = (
    {"wait": 3 * SECOND, "keys": ["s", "k"], "order": ["off"], "clock_by": ["s", "c"]},
    {"wait": 0, "keys": ["s", "d"], "order": ["d", "off"], "clock_by": ["s"]},
    {"wait": 2, "keys": ["s", "k"], "order": ["off"], "clock_by": ["s", "c"], "max_records": 2, "when_full": "emit_early"},
    {"wait": FOR_EVER, "keys": ["d", "t"], "order": ["off"], "clock_by": ["s"], "max_bytes": 250, "when_full": "emit_early"},
    {"wait": 5 * SECOND, "keys": ["s", "k", "d"], "order": ["t"], "clock_by": [], "max_records": 3, "when_full": "spill", "at_end": "hold"},
    {"wait": SECOND, "keys": ["s", "v"], "order": ["off DESC"], "clock_by": [], "deleted": False},
    {"wait": None, "keys": ["d", "s"], "order": ["d", "off"], "clock_by": [], "max_records": 9, "when_full": "emit_early"},
)
CLOSES: tuple[dict[str, Any], ...] = (
    {"grace": 0, "gap": None, "keys": ["s", "k"], "order": ["off"], "clock_by": ["s", "c"]},
    {"grace": SECOND, "gap": 2 * SECOND, "keys": ["s", "d"], "order": ["off"], "clock_by": ["s"], "at_end": "emit"},
    {"grace": 1, "gap": None, "keys": ["s", "k", "u"], "order": ["d", "off"], "clock_by": []},
    {"grace": FOR_EVER, "gap": 0, "keys": ["s", "t"], "order": ["t"], "clock_by": ["s"], "max_records": 1, "when_full": "spill"},
    {"grace": None, "gap": None, "keys": ["s", "k"], "order": ["off"], "clock_by": ["s", "c"], "until": "end", "at_end": "emit"},
    {"grace": None, "gap": 0, "keys": ["s", "k"], "order": ["d", "off"], "clock_by": [], "until": "end"},
    {
        "grace": None,
        "gap": SECOND,
        "keys": ["s", "d"],
        "order": ["off"],
        "clock_by": ["s"],
        "until": "end",
        "max_records": 2,
        "when_full": "spill",
    },
    {"grace": HIGHEST, "gap": HIGHEST, "keys": ["s", "v"], "order": ["off"], "clock_by": [], "at_end": "emit", "deleted": False},
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[nasty.Row]:
    rows = nasty.scenarios(51, 150)
    far = nasty.scenarios(52, 60, moments=nasty.ENDS, low=-HIGHEST, high=HIGHEST)
    rows += [r | {"s": r["s"] + 1000, "id": r["id"] + len(rows)} for r in far]
    nasty.view(spark, rows)
    nasty.view(spark, rows, name="odd", names=nasty.ODD)
    return rows


def text_of(options: dict[str, Any], names: nasty.Names, table: str) -> str:
    parts = [names.clauses(options["keys"], options["order"], table), f"time => {names.option('{t}')}"]
    if "grace" in options:
        parts += [f"window_end => {names.option('{u}')}"]
    parts += [f"{n} => {interval(options[n])}" for n in ("wait", "grace", "gap") if options.get(n) is not None]
    parts += [f"{n} => {options[n]}" for n in ("max_records", "max_bytes") if n in options]
    parts += [f"{n} => '{options[n]}'" for n in ("when_full", "at_end", "until") if n in options]
    if options.get("deleted", True):
        parts.append(f"deleted => {names.option('{gone}')}")
    if options["clock_by"]:
        parts.append(f"clock_by => {names.options([f'{{{c}}}' for c in options['clock_by']])}")
    function = "SUPPRESS_UNTIL_CLOSE" if "grace" in options else "SUPPRESS_UNTIL_TIME_LIMIT"
    return f"{function}({', '.join(parts)}, output => 'OUT')"


def fates_of(rows: list[nasty.Row], options: dict[str, Any]) -> list[Fate]:
    closes, order = "grace" in options, [o.removesuffix(" DESC") for o in options["order"]]
    after = 0 if not closes else (options["grace"] or 0) + (0 if options["gap"] is None else options["gap"] + 1)
    given = nasty.meant(rows)
    for row in given:
        row["close"] = None if row["u"] is None else row["u"] + after
        row["deleted"] = bool(row["gone"])
        row["size"] = 8 * 8 + sum(len(row[c].encode()) for c in ("k", "c") if row[c] is not None)
        if order != options["order"] and row["off"] is not None:  # as numbers that rise
            row["off"] = -row["off"]
    more = {n: options[n] for n in ("max_records", "max_bytes", "when_full") if n in options}
    return Suppress(
        wait=options.get("wait"), closes=closes, deleted=options.get("deleted", True), order=order, keys=options["keys"],
        clock_by=options["clock_by"], corrected="until" in options, at_end=options.get("at_end", "hold" if closes else "emit"), **more,
    ).run(given)  # fmt: skip


@pytest.mark.parametrize("number", range(len(LIMITS) + len(CLOSES)))
def test_nasty_rows_equal_the_slow_definition_and_nothing_is_lost(spark: SparkSession, rows: list[nasty.Row], number: int) -> None:
    options = (*LIMITS, *CLOSES)[number]
    table, names = ("odd", nasty.Names(nasty.ODD)) if number % 2 else ("nasty", nasty.Names({}))
    text, row_id = text_of(options, names, table), names.sql("{id}")
    emitted, came = "unix_micros(emit_time), emit_reason", "unix_micros(stream_time)"
    parts = [
        f"SELECT 'all', {row_id} AS id, reason, {emitted}, {came}, lateness, NULL AS said FROM {text.replace('OUT', 'all')}",
        f"SELECT 'rows', {row_id}, NULL, {emitted}, NULL, NULL, NULL FROM {text.replace('OUT', 'rows')}",
        f"SELECT 'dropped', {row_id}, reason, NULL, NULL, {came}, lateness, NULL FROM {text.replace('OUT', 'dropped')}",
        f"SELECT 'explain', {row_id}, outcome, unix_micros(decided_at), decided_by, {came}, NULL, explanation FROM {text.replace('OUT', 'explain')}",
    ]
    found = spark.sql(" UNION ALL ".join(parts)).collect()
    wanted = Counter[Any]()
    shown = {r["id"]: r for r in rows}
    for f in fates_of(rows, options):
        late = None if f.stream_time is None else nasty.about(max(f.stream_time - f.row["t"], 0) / 1e6)
        reason = None if f.outcome == "released" else f.outcome
        by = None if f.decided_by is None else [shown[f.decided_by["id"]][o.removesuffix(" DESC")] for o in options["order"]]
        wanted["all", f.row["id"], reason, f.emit_time, f.emit_reason, f.stream_time, late] += 1
        wanted["explain", f.row["id"], f.outcome, f.decided_at, None if "t" in options["order"] else told(by), f.stream_time, None] += 1
        if reason is None:
            wanted["rows", f.row["id"], None, f.emit_time, f.emit_reason, None, None] += 1
        else:
            wanted["dropped", f.row["id"], reason, None, None, f.stream_time, late] += 1
    assert all(r.said for r in found if r[0] == "explain")
    got = Counter((*r[:4], by_of(r, options), r[5], nasty.about(r[6])) for r in found)
    nasty.compare(got, wanted, rows, text)
    if number in (0, 8, 11):
        nasty.counted(spark, text.replace("OUT", "metrics"), wanted)


def told(values: list[Any] | None) -> str | None:
    """Numbers as text that does not depend on how a language writes them."""
    return None if values is None else " ".join("none" if v is None else f"{float(v) + 0.0:g}" for v in values)


def by_of(row: Any, options: dict[str, Any]) -> str | None:
    if row[0] != "explain":
        return row[4]
    if row[4] is None or "t" in options["order"]:  # text of a time, which Python does not read
        return None
    return told([float(v) if isinstance(v, str) else v for v in json.loads(row[4]).values()])
