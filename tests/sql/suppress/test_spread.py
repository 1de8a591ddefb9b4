"""Suppress over many tasks, against the slow definition of one buffer."""

from __future__ import annotations

import datetime
import json
import random
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support import tasks
from support.inputs import nasty
from support.inputs.nasty import HIGHEST, SECOND, interval
from support.reference.suppress import Fate, Suppress

import streamtime
from streamtime.sql.rows import ranges
from streamtime.udfs.suppress.places import Places

OPTIONS: tuple[dict[str, Any], ...] = (
    {"wait": 4 * SECOND, "keys": ["k"], "order": ["off"]},
    {"wait": 0, "keys": ["k", "d"], "order": ["d", "off"], "at_end": "hold"},
    {"wait": 60 * SECOND, "keys": ["v"], "order": ["off DESC"]},
    {"wait": HIGHEST, "keys": ["k"], "order": ["t"]},
    {"wait": 3, "keys": [], "order": ["off"]},
    {"closes": 0, "keys": ["k"], "order": ["off"]},
    {"closes": SECOND, "keys": ["k", "u"], "order": ["off DESC"], "at_end": "emit"},
    {"closes": 1, "keys": ["d"], "order": ["t", "off"], "deleted": False},
    {"closes": HIGHEST, "keys": ["k"], "order": ["off"], "at_end": "emit"},
    {"closes": 0, "keys": [], "order": ["off"], "deleted": False},
    {"closes": 0, "keys": ["k"], "order": ["off"], "until": "end"},
    {"closes": 0, "keys": ["k", "d"], "order": ["d", "off"], "until": "end", "at_end": "emit"},
    {"closes": 0, "keys": [], "order": ["off DESC"], "until": "end"},
)
IN_TIME: tuple[tuple[str, dict[str, Any]], ...] = (
    ("TIMESTAMP", {"closes": SECOND, "keys": ["k"], "order": ["t"]}),
    ("TIMESTAMP_NTZ", {"wait": 2 * SECOND, "keys": ["k", "d"], "order": ["t", "off"]}),
    ("DATE", {"closes": 0, "keys": ["v"], "order": ["t"], "until": "end", "at_end": "emit"}),
    ("TIMESTAMP", {"wait": 0, "keys": [], "order": ["t"]}),
)
DAY = 86_400 * SECOND
KINDS = {12: "TIMESTAMP_NTZ", 1: "TIMESTAMP_NTZ", 2: "DATE", 5: "DATE", 6: "TIMESTAMP_NTZ"}  # of event time, by place in OPTIONS


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tasks are enough to spread, and 300 rows to be cut into ranges."""
    monkeypatch.setattr(ranges, "FEWEST", 3)
    monkeypatch.setattr(ranges, "SAMPLED_ROWS", 3)


def text_of(options: dict[str, Any], names: nasty.Names) -> str:
    clauses = names.clauses(options["keys"], options["order"])
    parts = [clauses if options["keys"] else clauses.replace("PARTITION BY () ", ""), f"time => {names.option('{t}')}"]
    if "closes" in options:
        parts += [f"window_end => {names.option('{u}')}"]
        parts += ["until => 'end'"] if "until" in options else [f"grace => {interval(options['closes'])}"]
    else:
        parts.append(f"wait => {interval(options['wait'])}")
    parts += [f"at_end => '{options['at_end']}'"] if "at_end" in options else []
    parts += [f"deleted => {names.option('{gone}')}"] if options.get("deleted", True) else []
    return f"SUPPRESS_UNTIL_{'CLOSE' if 'closes' in options else 'TIME_LIMIT'}({', '.join(parts)}, output => 'OUT')"


def fates_of(rows: list[nasty.Row], options: dict[str, Any]) -> list[Fate]:
    closes, order = "closes" in options, [o.removesuffix(" DESC") for o in options["order"]]
    given = nasty.meant(rows)
    for row in given:
        row["close"] = None if row["u"] is None or not closes else row["u"] + options["closes"]
        row["deleted"] = bool(row["gone"])
        if order != options["order"] and row["off"] is not None:
            row["off"] = -row["off"]
    at_end = options.get("at_end", "hold" if closes else "emit")
    made = Suppress(
        wait=options.get("wait"),
        closes=closes,
        corrected="until" in options,
        deleted=options.get("deleted", True),
        order=order,
        keys=options["keys"],
        at_end=at_end,
    )
    return made.run(given)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_the_same_rows_come_out_at_the_same_stream_time_for_the_same_reason(spark: SparkSession, number: int) -> None:
    options, kind = OPTIONS[number], KINDS.get(number, "TIMESTAMP")
    rows, _, names = nasty.drifted(spark, number, 400, kind, number in (3, 8, 11))
    if kind == "DATE":
        options = options | {n: options[n] // SECOND * DAY for n in ("wait", "closes") if options.get(n, 0) >= SECOND}
    text, row_id = text_of(options, names), names.sql("{id}")
    outputs = ("all", ("rows", "dropped")[number % 2])
    explained = (
        f"SELECT 'explain', {row_id}, outcome, {nasty.micros('decided_at', kind)}, decided_by, {nasty.micros('stream_time', kind)} "
        f"FROM {text.replace('OUT', 'explain')} WHERE explanation IS NOT NULL"
    )
    parts = [
        f"SELECT '{output}', {row_id}, {'NULL' if output == 'rows' else 'reason'}, {nasty.micros('emit_time', kind) if output != 'dropped' else 'NULL'}, "
        f"{'emit_reason' if output != 'dropped' else 'NULL'}, {nasty.micros('stream_time', kind) if output != 'rows' else 'NULL'} "
        f"FROM {text.replace('OUT', output)}"
        for output in outputs
    ]
    got = Counter(tuple(r) for r in spark.sql(" UNION ALL ".join(parts)).collect())
    got += Counter((*r[:4], told(r[4] and list(json.loads(r[4]).values())), r[5]) for r in spark.sql(explained).collect())
    shown = {row["id"]: row for row in rows}
    wanted = Counter[Any]()
    for f in fates_of(rows, options):
        reason = None if f.outcome == "released" else f.outcome
        by = f.decided_by and [shown[f.decided_by["id"]][o.removesuffix(" DESC")] for o in options["order"]]
        wanted["explain", f.row["id"], f.outcome, f.decided_at, told(by), f.stream_time] += 1
        wanted["all", f.row["id"], reason, f.emit_time, f.emit_reason, f.stream_time] += 1
        if reason is None and "rows" in outputs:
            wanted["rows", f.row["id"], None, f.emit_time, f.emit_reason, None] += 1
        elif reason is not None and "dropped" in outputs:
            wanted["dropped", f.row["id"], reason, None, None, f.stream_time] += 1
    nasty.compare(got, wanted, rows, text)


@pytest.mark.parametrize("number", range(len(IN_TIME)))
def test_plain_ranges_in_event_order_begin_where_stream_time_stands(spark: SparkSession, number: int) -> None:
    kind, options = IN_TIME[number]
    rows, _, names = nasty.drifted(spark, number, 400, kind, number == 1)
    if kind == "DATE":
        options = options | {n: options[n] // SECOND * DAY for n in ("wait", "closes") if options.get(n, 0) >= SECOND}
    times = ", ".join(nasty.micros(name, kind) for name in ("emit_time", "stream_time"))
    query = f"SELECT 'all', {names.sql('{id}')}, reason, emit_reason, {times} FROM {text_of(options, names).replace('OUT', 'all')}"
    got = Counter(tuple(r) for r in spark.sql(streamtime.compile(spark, query)).collect())
    fates = fates_of(rows, options)
    wanted = Counter(
        ("all", f.row["id"], None if f.outcome == "released" else f.outcome, f.emit_reason, f.emit_time, f.stream_time) for f in fates
    )
    nasty.compare(got, wanted, rows, query)


def test_plain_ranges_of_no_rows_are_empty(spark: SparkSession) -> None:
    nasty.view(spark, [])
    for _, options in IN_TIME:
        query = f"SELECT * FROM {text_of(options, nasty.Names({})).replace('OUT', 'all')}"
        assert spark.sql(streamtime.compile(spark, query)).collect() == []


TIME = re.compile(r"([+-]?\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{6})Z")


def number_of(value: Any) -> Any:
    """A time's microseconds, of any year; other values as they are."""
    match = TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    year, month, day, hour, minute, second, rest = map(int, match.groups())
    since = datetime.date(year % 400 + 400, month, day) - datetime.date(1970, 1, 1)
    days = since.days + (year // 400 - 1) * 146_097
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * SECOND + rest


def told(values: list[Any] | None) -> str | None:
    """Numbers as text that does not depend on how a language writes them."""
    numbers = None if values is None else map(number_of, values)
    return (
        None if numbers is None else " ".join("none" if v is None else str(v) if type(v) is int else f"{float(v) + 0.0:g}" for v in numbers)
    )


@pytest.mark.parametrize("number", [0, 5])
def test_empty_input_gives_empty_output(spark: SparkSession, number: int) -> None:
    nasty.view(spark, [])
    assert spark.sql(f"SELECT * FROM {text_of(OPTIONS[number], nasty.Names({})).replace('OUT', 'all')}").collect() == []


@pytest.mark.parametrize(
    ("output", "more", "one"),
    [
        ("rows", "", False),
        ("all", "", False),
        ("rows", "max_records => 9, when_full => 'spill', ", True),
        ("explain", "", False),
        ("metrics", "", True),
    ],
)
def test_no_task_sees_all_rows_but_where_there_is_one_buffer(spark: SparkSession, output: str, more: str, one: bool) -> None:
    nasty.view(spark, [])
    text = text_of(OPTIONS[0], nasty.Names({})).replace("output => 'OUT'", f"{more}output => '{output}'")
    (plan,) = spark.sql(f"EXPLAIN SELECT * FROM {text}").head()  # type: ignore[misc]
    path = [line for line in plan.splitlines() if not line.partition("+-")[0].strip()]  # without subqueries, whose lines begin with a colon
    assert len(path) > 9
    assert any("SinglePartition" in line or "REPARTITION_BY_NUM" in line for line in path) == one


@pytest.mark.parametrize("output", ["rows", "all", "explain"])
def test_rows_that_leave_as_they_come_lie_in_all_tasks(spark: SparkSession, output: str) -> None:
    """One row of a far year, and stream time stands: nothing is looked up for the rows behind it, whose stream time is one."""
    rows = "SELECT id AS n, id % 500 AS k, IF(id = 0, TIMESTAMP '2099-01-01 00:00:00', timestamp_seconds(id)) AS ts, map('a', id) AS m FROM range(4000)"
    call = (
        f"SUPPRESS_UNTIL_TIME_LIMIT(TABLE({rows}) PARTITION BY k ORDER BY n, time => 'ts', wait => INTERVAL 1 MINUTE, output => '{output}')"
    )
    by_task = tasks.rows_by_task(spark, call)
    assert sum(by_task) == (4000 if output != "rows" else 3993)  # those of the far row's key wait for a minute behind it
    assert max(by_task) < 4000 * 3 / tasks.PARTITIONS


def test_types_nullability_and_metadata_of_the_input_are_kept(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT 1 AS k, TIMESTAMP_NTZ '2024-01-01 00:00:00' AS ts, CAST(1.5 AS DECIMAL(20, 3)) AS d, map('a', 1) AS `m.m`, CAST(NULL AS FLOAT) AS f, "
        "named_struct('x', array(1)) AS `s``s`, DATE '2024-01-01' AS day, INTERVAL 1 DAY AS i, array(named_struct('y', 1)) AS a, '' AS text"
    ).withMetadata("d", {"note": "kept"})
    wait, options = datetime.timedelta(0), {"keys": ["k"], "order_by": ["ts"]}
    for got in (
        streamtime.suppress_until_time_limit(df, wait=wait, **options),
        streamtime.suppress_until_time_limit(df, wait=wait, output="all", **options),
        streamtime.suppress_until_close(df, window_end="ts", at_end="emit", output="dropped", **options),
    ):
        for mine, theirs in zip(got.schema.fields, df.schema.fields, strict=False):
            assert (mine.name, mine.dataType, mine.nullable, mine.metadata) == (
                theirs.name,
                theirs.dataType,
                theirs.nullable,
                theirs.metadata,
            )
    assert streamtime.suppress_until_time_limit(df, wait=wait, **options).drop("emit_time", "emit_reason").collect() == df.collect()


def test_without_a_limit_of_time_nothing_is_due_whenever_its_time_is(spark: SparkSession) -> None:
    rows = "SELECT n % 2 AS k, timestamp_seconds(n * 100000000) AS ts FROM VALUES (-9), (-5), (-2), (0), (3) AS t(n)"
    call = (
        f"SUPPRESS_UNTIL_TIME_LIMIT(TABLE({rows}) PARTITION BY k ORDER BY ts, max_records => 9, when_full => 'spill', output => 'metrics')"
    )
    query = f"SELECT metric, value FROM {call}"
    by_kernel, by_spark = (dict(spark.sql(text).collect()) for text in (query, streamtime.compile(spark, query)))
    assert by_spark == by_kernel
    assert {value for metric, value in by_spark.items() if "overtime" in metric} == {None}


def test_a_key_goes_on_from_batch_to_batch() -> None:
    """Its place too: the third row comes before that is due, the fourth takes a new one."""
    batches = [([None, 5], [10, 15]), ([9], [13]), ([10, 11], [17, 19])]
    arrays = ((pa.array(before, pa.int64()), pa.array(due, pa.int64()), pa.array(["a"] * len(due))) for before, due in batches)
    assert [due for batch in Places().run(arrays) for due in batch.to_pylist()] == [10, 10, 10, 17, 17]


@pytest.mark.parametrize(
    ("partitions", "few", "spread"), [("3", 3, True), ("3", 4, False), (None, 3, False), (None, 2, True), ("16", 16, True)]
)
def test_it_spreads_where_somebody_asked_for_many_tasks_or_there_are_many_cores(
    spark: SparkSession, partitions: str | None, few: int, spread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests have two cores."""
    monkeypatch.setattr(ranges, "FEWEST", few)
    before = spark.conf.get(ranges.PARTITIONS)
    try:
        spark.conf.unset(ranges.PARTITIONS) if partitions is None else spark.conf.set(ranges.PARTITIONS, partitions)
        assert ranges.worth_spreading(spark) == spread
        assert ranges.Ranges.of(spark).partitions == int(partitions or 200)
    finally:
        spark.conf.set(ranges.PARTITIONS, before)


@pytest.mark.parametrize("before", [None, -HIGHEST, HIGHEST])
@pytest.mark.parametrize("due", [-HIGHEST, 0, HIGHEST - 1, HIGHEST])
def test_a_row_alone_takes_a_place_whenever_it_comes(before: int | None, due: int) -> None:
    (found,) = Places().run(iter([(pa.array([before], pa.int64()), pa.array([due]), pa.array(["a"]))]))
    assert found.to_pylist() == [due]


@pytest.mark.parametrize("seed", range(100))
def test_places_are_taken_one_after_another(seed: int) -> None:
    random_ = random.Random(seed)
    ends = [-HIGHEST, 1 - HIGHEST, HIGHEST - 1, HIGHEST]
    keys, befores, dues, wanted = list[str](), list[int | None](), list[int](), list[int]()
    for key in random_.choice(["", "a", "abc"]):
        moments = sorted(random_.choice([*range(20), *(ends if seed % 2 else [])]) for _ in range(random_.randint(1, 12)))
        place = None
        for number, before in enumerate(moments):
            due = max(min(before + random_.randint(-2, 6), HIGHEST), -HIGHEST - 1)
            keys, befores, dues = [*keys, key], [*befores, None if number == 0 and random_.random() < 0.5 else before], [*dues, due]
            place = due if place is None or (place < HIGHEST and before >= place) else place
            wanted.append(place)
    size = random_.choice([1, 2, 50])
    columns = [pa.array(befores, pa.int64()), pa.array(dues, pa.int64()), pa.array(keys, pa.string())]
    batches = [tuple(c.slice(at, size) for c in columns) for at in range(0, len(keys), size)]
    assert [due for batch in Places().run(iter(batches)) for due in batch.to_pylist()] == wanted
