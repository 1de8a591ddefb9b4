"""Streams from year 1 to the last microsecond of TIMESTAMP, with keys that are NaN, two zeros and times, against the slow definitions."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from support import reference
from support.inputs import nasty
from support.inputs.nasty import HIGHEST, SECOND, interval
from support.reference import deduplicate as reference_deduplicate
from support.reference import sessionize as reference_sessionize
from support.reference.suppress import Suppress
from support.streams import Far

DDL = "k STRING, d DOUBLE, ts TIMESTAMP, u TIMESTAMP, v INT, gone BOOLEAN, id INT"
COLUMNS = ["k", "d", "t", "u", "v", "gone", "id"]
LAST = HIGHEST // 1000 * 1000  # watermarks are whole milliseconds
Batches = list[list[nasty.Row]]


def micro_batches() -> Batches:
    """Stream time goes from none at all, as Spark has none before 1970, through some centuries to the end."""
    old, new = [m for m in nasty.MOMENTS if m <= 0], [m for m in nasty.MOMENTS if m > 0]
    parts = [
        nasty.scenarios(61, 6, moments=(*nasty.ENDS[:3], *old), low=-HIGHEST),
        nasty.scenarios(62, 14, moments=new[:6]),
        nasty.scenarios(63, 5, moments=(*old, *new[:7])),
        nasty.scenarios(64, 6, moments=new[5:]),
        nasty.scenarios(65, 8, moments=nasty.ENDS[-3:], high=HIGHEST),
        [dict.fromkeys(COLUMNS) | {"k": "far", "t": HIGHEST, "u": HIGHEST, "v": 1, "d": 1.0}],
    ]
    numbers = itertools.count()
    return [[{c: next(numbers) if c == "id" else r[c] for c in COLUMNS} for r in part] for part in parts]


CALLS = [
    ["v"],
    ["id"],
    ["d"],
    ["id", "u"],
    ["v", "k"],
    ["id", "d"],
]  # where a null takes a row out: the first ORDER BY column, a close, keys


def clocked(batches: Batches, order: list[str]) -> list[tuple[nasty.Row, int]]:
    return reference.in_micro_batches([nasty.meant(b) for b in batches], order, 0, 1000, CALLS)


def suppressed(batches: Batches, order: list[str], **options: Any) -> Counter[Any]:
    """What suppress says of each row that it does not hold."""
    after = options.pop("after", None)
    under, more = [], Counter[Any]()
    for batch in batches:
        rows = nasty.meant(batch)
        for row in rows:
            row |= {"deleted": bool(row["gone"]), "close": None if row["u"] is None else row["u"] + (after or 0), "size": 0}
        under.append(rows)
    marks = {row["id"]: mark for row, mark in clocked(batches, order)}
    slow = Suppress(closes=after is not None, order=order, watermarked=True, deleted=True, **options)
    for f in slow.stream([*((rows, marks[rows[0]["id"]]) for rows in under), ([], LAST)]):
        reason = None if f.outcome == "released" else f.outcome
        emitted = (None, None) if f.emit_time is None else (reference.known(f.emit_time), f.emit_reason)
        more[f.row["id"], reason, reference.known(f.stream_time), *emitted] += 1
    return more


def test_deduplicate_suppress_and_sessionize_from_year_1_to_the_last_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    batches, source = micro_batches(), Far(spark, tmp_path, DDL)
    for rows in batches:
        source.add([tuple(r.values()) for r in rows])
    texts, wanted = [], Counter[Any]()

    def asked(name: str, call: str, columns: str) -> None:
        texts.append(f"SELECT '{name}' AS f, id, reason, {columns} FROM {call}, output => 'all')")

    def due(name: str, rows: Counter[Any]) -> None:
        for row, count in rows.items():
            wanted[name, *row] += count

    given = "TABLE(events) PARTITION BY ({}) ORDER BY {}, time => 'ts'"
    for name, keys, order, options, meaning in (
        ("refreshed", ["d"], ["v"], f"within => {interval(3 * SECOND)}, refresh => true", {"within": 3 * SECOND, "refresh": True}),
        ("redelivered", ["k", "t"], ["id"], "offset => 'v'", {"within": None, "offset": "v"}),
        ("long", ["k", "d"], ["d"], f"within => {interval(HIGHEST)}", {"within": HIGHEST}),
    ):
        call = f"DEDUPLICATE({given.format(', '.join(keys).replace('t', 'ts'), order[0])}, {options}"
        asked(name, call, "unix_micros(stream_time) AS came, unix_micros(kept_time) AS a, CAST(NULL AS STRING) AS b")
        for j in reference_deduplicate.deduplicate([], **meaning, keys=keys, order=order, clocked=clocked(batches, order)):
            wanted[name, j.row["id"], j.reason, j.stream_time, j.kept_time, None] += 1
    emitted = "unix_micros(stream_time), unix_micros(emit_time), emit_reason"
    deleted = "deleted => 'gone'"
    limit, close = (f"SUPPRESS_UNTIL_{name}({given}, {{}}, {deleted}" for name in ("TIME_LIMIT", "CLOSE"))
    asked("limit", limit.format("d", "v", f"wait => {interval(3 * SECOND)}"), emitted)
    due("limit", suppressed(batches, ["v"], wait=3 * SECOND, keys=["d"]))
    asked("no wait", limit.format("k", "d", f"wait => {interval(0)}"), emitted)
    due("no wait", suppressed(batches, ["d"], wait=0, keys=["k"]))
    bounds = f"wait => {interval(86_400 * SECOND)}, max_records => 5, when_full => 'emit_early'"
    asked("bounded", limit.format("k, d, ts", "id", bounds), emitted)
    due("bounded", suppressed(batches, ["id"], wait=86_400 * SECOND, keys=["k", "d", "t"], max_records=5, when_full="emit_early"))
    lasts = f"window_end => 'u', grace => {interval(SECOND)}, gap => {interval(SECOND)}"
    asked("close", close.format("k, d", "id", lasts), emitted)
    due("close", suppressed(batches, ["id"], after=2 * SECOND + 1, keys=["k", "d"]))
    for name, keys, order, grace in (("sessions", ["k"], ["v"], SECOND), ("no grace", ["d"], ["id"], None)):
        options = f"gap => {interval(2 * SECOND)}" + ("" if grace is None else f", grace => {interval(grace)}")
        call = f"SESSIONIZE({given.format(', '.join(keys), order[0])}, {options}"
        asked(name, call, "unix_micros(stream_time), unix_micros(session_start), CAST(unix_micros(session_end) AS STRING)")
        under = clocked(batches, order)
        rows = [(row, clock) for (_, clock), row in zip(under, nasty.meant([r for r, _ in under], keys), strict=True)]
        for j in reference_sessionize.sessionize([], gap=2 * SECOND, grace=grace, closing_grace=0, order=order, clocked=rows):
            if j.final is None or j.final[1] + 2 * SECOND + (grace or 0) < LAST:
                wanted[name, j.row["id"], j.reason, j.stream_time, *(j.final or (None, None))] += 1
    wanted = Counter({row: count for row, count in wanted.items() if row[2] != "held"})
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        spark.conf.set("spark.sql.shuffle.partitions", "1")  # so many functions in a query have state in each of them
        found = source.run(" UNION ALL ".join(texts))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    got = Counter((*r[:5], int(r.b) if r.b is not None and r.b.lstrip("-").isdigit() else r.b) for r in found)
    all_rows = [r | {"s": n} for n, b in enumerate(batches) for r in b]
    for name in {row[0] for row in wanted}:
        one = [Counter({r: n for r, n in rows.items() if r[0] == name}) for rows in (got, wanted)]
        nasty.compare(*one, all_rows, name)
    assert got == wanted
