"""Every function of windows over nasty input, against the slow definitions, many scenarios in a query. In batch and on a stream."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import reference, tasks
from support.inputs import nasty
from support.inputs.nasty import SECOND, interval
from support.reference import deduplicate as reference_deduplicate
from support.reference import updates as slow
from support.streams import Far

from streamtime.sql.rows import scans
from streamtime.sql.windows import release

AGGREGATES = "count(*) AS n_rows, sum(v) AS total, first(v) AS head, last(v) AS tail"
WINDOW, SESSION = ("window_start", "window_end"), ("session_start", "session_end")
Slow = Callable[[slow.Clocked, list[str]], slow.Outcome]


def updates(kind: str, length: int, slide: int, grace: int) -> tuple[str, tuple[str, str], str, Slow]:
    """A function, its bounds and options, and what it means."""
    if kind == "session":
        return "SESSION_UPDATES", SESSION, f"gap => {interval(length)}", lambda rows, by: slow.sessions(rows, by, length, grace)
    if kind == "sliding":
        options = f"difference => {interval(length)}"
        return "WINDOW_UPDATES", WINDOW, options, lambda rows, by: slow.sliding_windows(rows, by, length, grace)
    options = f"size => {interval(length)}, slide => {interval(slide)}"
    return "WINDOW_UPDATES", WINDOW, options, lambda rows, by: slow.time_windows(rows, by, length, slide, grace)


SHAPES = {
    "tumbling": ("time", 10 * SECOND, 10 * SECOND, 0),
    "tumbling with grace": ("time", 10 * SECOND, 10 * SECOND, 3 * SECOND + 1),
    "tumbling, long": ("time", 86_400 * SECOND, 86_400 * SECOND, 3_600 * SECOND),
    "hopping": ("time", 10 * SECOND, 4 * SECOND, SECOND),
    "hopping, odd": ("time", 7, 3, 2),
    "hopping, with much grace": ("time", 10 * SECOND, 4 * SECOND, 366_000 * 86_400 * SECOND),
    "sliding": ("sliding", 10 * SECOND, 0, SECOND),
    "session": ("session", 3 * SECOND, 0, SECOND),
}


def values(change: slow.Change) -> tuple[Any, ...]:
    assert change.values is not None
    return tuple(change.values[i] for i in (0, 2, 6, 7))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_final_row_leaves_at_the_first_stream_time_of_its_own_clock_that_reached_its_close(spark: SparkSession, shape: str) -> None:
    rows = nasty.scenarios(7, 200)
    nasty.view(spark, rows)
    keyed = [r | {"k": None if r["k"] is None else (r["s"], r["k"])} for r in rows]
    kind, length, slide, grace = SHAPES[shape]
    name, bounds, options, slowly = updates(kind, length, slide, grace)
    clock_by = ["s", "c"]
    clocked = slow.clocked(keyed, ["off"], clock_by)
    judged = slowly(clocked, ["off"])
    times = ", ".join(f"{nasty.micros(c)} AS {c}" for c in (*bounds, "window_close", "change_time", "emit_time"))
    found = spark.sql(
        f"SELECT s, k, c, off, {times}, change_seq, n_rows, total, head, tail, emit_reason FROM {name}(TABLE(nasty) "
        f"PARTITION BY (s, k) ORDER BY off, time => 't', {options}, grace => {interval(grace)}, clock_by => ARRAY('s', 'c'), "
        f"aggregates => '{AGGREGATES}', emit => 'final', at_end => 'emit')"
    ).collect()
    ends = {(row["s"], row["c"]): clock for row, clock in clocked if clock is not None}
    wanted = Counter(
        (
            *(c.row["s"], c.row["k"][1], c.row["c"], c.row["off"], c.start, c.end, c.close, c.time),
            *(ends[c.row["s"], c.row["c"]] if at is None else at, c.seq, *values(c), "end" if at is None else "close"),
        )
        for c, at in slow.final(judged, clocked, clock_by)
    )
    got = Counter(map(tuple, found))
    differ = sorted({g[0] for g in (got - wanted) | (wanted - got)})
    assert not differ, (
        differ,
        sorted(got - wanted, key=repr)[:9],
        sorted(wanted - got, key=repr)[:9],
        [r for r in rows if r["s"] == differ[0]],
    )
    assert len({r.emit_reason for r in found}) == 2 or grace > 10**15


@pytest.mark.parametrize("shape", ["tumbling", "hopping, with much grace", "sliding", "session"])
def test_final_rows_of_one_clock_over_ten_thousand_years_leave_in_time(
    spark: SparkSession, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where closes and stream times are cut into ranges, which many rows have."""
    monkeypatch.setattr(release, "WORTH_CUTTING", 2)
    rows = sorted((r for r in nasty.scenarios(11, 60) if r["t"] is not None), key=lambda r: r["t"] + r["id"] % 7 * SECOND)
    rows = [r | {"off": place} for place, r in enumerate(rows)]
    nasty.view(spark, rows)
    kind, length, slide, grace = SHAPES[shape]
    name, bounds, options, slowly = updates(kind, length, slide, grace)
    clocked = slow.clocked(rows, ["off"], [])
    times = ", ".join(f"{nasty.micros(c)} AS {c}" for c in (*bounds, "emit_time"))
    found = spark.sql(
        f"SELECT k, {times}, emit_reason FROM {name}(TABLE(nasty) PARTITION BY k ORDER BY off, time => 't', {options}, "
        f"grace => {interval(grace)}, aggregates => '{AGGREGATES}', emit => 'final', at_end => 'emit')"
    ).collect()
    last = clocked[-1][1]
    wanted = [(c.row["k"], c.start, c.end, at or last, "close" if at else "end") for c, at in slow.final(slowly(clocked, ["off"]), clocked)]
    assert Counter(map(tuple, found)) == Counter(wanted)


@pytest.mark.parametrize("bounds", ["SESSION_UPDATES gap", "WINDOW_UPDATES difference"])
def test_windows_that_stay_open_lie_in_all_tasks(spark: SparkSession, bounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They close above all stream times, and nothing is looked up for them."""
    monkeypatch.setattr(release, "WORTH_CUTTING", 2)
    monkeypatch.setattr(scans, "SMALL", 0)
    function, length = bounds.split()
    rows = "SELECT id AS n, id % 2000 AS k, timestamp_seconds(id) AS ts FROM range(4000)"
    call = (
        f"{function}(TABLE({rows}) PARTITION BY k ORDER BY n, time => 'ts', {length} => INTERVAL 1 SECOND, grace => INTERVAL 1 DAY, "
        "aggregates => 'count(*) AS c', emit => 'final', at_end => 'emit')"
    )
    by_task = tasks.rows_by_task(spark, call)
    assert sum(by_task) == 4000
    assert max(by_task) < 4000 * 3 / tasks.PARTITIONS


@pytest.mark.parametrize("few", [False, True])
def test_a_task_with_several_ranges_of_closes_takes_the_nearest_stream_time(
    spark: SparkSession, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that is in a range of another task: of a range's last rows, the next stream time is in the range above."""
    monkeypatch.setattr(release, "WORTH_CUTTING", 2)
    if not few:  # Spark sorts few
        monkeypatch.setattr(scans, "SMALL", 0)
    call = (
        "SESSION_UPDATES(TABLE(SELECT id AS k, timestamp_seconds(id * 10) AS ts FROM range(400)) PARTITION BY k ORDER BY ts, "
        "gap => INTERVAL 1 SECOND, aggregates => 'count(*) AS c', emit => 'final')"
    )
    with tasks.apart(spark):
        got = spark.sql(f"SELECT k, unix_seconds(emit_time) AS at FROM {call}").collect()
    assert Counter(map(tuple, got)) == Counter((k, k * 10 + 10) for k in range(399))


@pytest.mark.parametrize("bounds", ["SESSION_UPDATES gap", "WINDOW_UPDATES difference"])
def test_where_nobody_asks_for_emit_time_nothing_is_looked_up(spark: SparkSession, bounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the rows are the same: only those are there whose close has been reached."""
    monkeypatch.setattr(scans, "SMALL", 0)
    function, length = bounds.split()
    call = (
        f"{function}(TABLE(SELECT id % 7 AS k, timestamp_seconds(id) AS ts FROM range(100)) PARTITION BY k ORDER BY ts, "
        f"{length} => INTERVAL 2 SECONDS, aggregates => 'count(*) AS c', emit => 'final')"
    )
    every, some = spark.sql(f"SELECT * FROM {call}"), spark.sql(f"SELECT k, c, window_close FROM {call}")
    plans = [str(df._jdf.queryExecution().executedPlan().toString()) for df in (every, some)]
    assert ["nextstreamtime" in plan for plan in plans] == [True, False]
    assert "packer" not in plans[1]
    assert Counter(map(tuple, some.collect())) == Counter((r.k, r.c, r.window_close) for r in every.collect())
    assert 90 < some.count() < 100


@pytest.mark.parametrize("null", ["NULL", "CAST(NULL AS STRING)"])
def test_a_null_clock_is_a_clock_of_its_own(spark: SparkSession, null: str) -> None:
    spark.sql(
        f"SELECT * FROM VALUES (1, 'a', {null}, timestamp_seconds(5)), (2, 'b', {null}, timestamp_seconds(50)) AS t(o, k, c, ts)"
    ).createOrReplaceTempView("nasty")
    call = "TABLE(nasty) PARTITION BY k ORDER BY o, time => 'ts', aggregates => 'count(*) AS n', clock_by => ARRAY('c'), emit => 'final'"
    for function, length in (("WINDOW_UPDATES", "size"), ("WINDOW_UPDATES", "difference"), ("SESSION_UPDATES", "gap")):
        for at_end, wanted in (("hold", [("a", 50, "close")]), ("emit", [("a", 50, "close"), ("b", 50, "end")])):
            got = spark.sql(
                f"SELECT k, unix_seconds(emit_time), emit_reason FROM {function}({call}, {length} => INTERVAL 10 SECONDS, "
                f"at_end => '{at_end}') ORDER BY k"
            ).collect()
            assert list(map(tuple, got)) == wanted, (function, length)


def held(moment: int) -> int:
    """The moment, or the end of TIMESTAMP beyond which it lies."""
    return min(max(moment, nasty.LOWEST), nasty.HIGHEST)


def begins(start: int, slide: int) -> bool:
    """Of several windows that begin before the first moment there is the last one."""
    return start > nasty.LOWEST - slide


@pytest.fixture(scope="module")
def far(spark: SparkSession) -> list[nasty.Row]:
    """Scenarios at the ends of TIMESTAMP and in all years between; the very first microsecond stands for the second as stream time."""
    rows = nasty.scenarios(3, 120, moments=nasty.ENDS, low=-nasty.HIGHEST, high=nasty.HIGHEST)
    rows += [r | {"s": r["s"] + 1000, "id": r["id"] + len(rows)} for r in nasty.scenarios(4, 60)]
    nasty.view(spark, rows, name="far")
    return [r | {"k": None if r["k"] is None else (r["s"], r["k"])} for r in rows]


BY = "TABLE(far) PARTITION BY (s, k) ORDER BY off, time => 't', clock_by => ARRAY('s', 'c')"


@pytest.mark.parametrize("shape", ["tumbling with grace", "hopping", "sliding", "session"])
def test_windows_at_the_ends_of_timestamp_stand_at_its_ends(spark: SparkSession, far: list[nasty.Row], shape: str) -> None:
    kind, length, slide, grace = SHAPES[shape]
    name, bounds, options, slowly = updates(kind, length, slide, grace)
    clocked = slow.clocked(far, ["off"], ["s", "c"])
    judged = slowly(clocked, ["off"])
    call = f"{name}({BY}, {options}, grace => {interval(grace)}, aggregates => '{AGGREGATES}'"
    times = ", ".join(f"{nasty.micros(c)} AS {c}" for c in (*bounds, "window_close"))
    found = spark.sql(f"SELECT s, k, off, {times}, change_type, n_rows, total, head, tail FROM {call})").collect()
    nothing = (None,) * 4
    wanted = Counter(
        (
            *(c.row["s"], c.row["k"][1], c.row["off"], held(c.start), held(c.end), held(c.close)),
            *(("delete", *nothing) if c.values is None else ("upsert", *values(c))),
        )
        for c in judged.changes
        if kind != "time" or begins(c.start, slide)
    )
    got = Counter(map(tuple, found))
    assert got == wanted, (sorted(got - wanted, key=repr)[:5], sorted(wanted - got, key=repr)[:5])
    edges = ", ".join(nasty.micros(c) for c in bounds)
    dropped = Counter(map(tuple, spark.sql(f"SELECT id, reason, {edges} FROM {call}, output => 'dropped')").collect()))
    late = [(r["id"], "late", held(a), held(b)) for r, a, b in judged.late if kind != "time" or begins(a, slide)]
    assert dropped == Counter(late + [(r["id"], why, None, None) for r, why in judged.aside])
    said = spark.sql(f"SELECT explanation IS NULL FROM {call}, output => 'explain')").collect()
    assert {r[0] for r in said} == {False}


@pytest.mark.parametrize("order", ["off", "t"])
def test_first_rows_of_windows_and_sessions_at_the_ends_of_timestamp(spark: SparkSession, far: list[nasty.Row], order: str) -> None:
    call = f"DISTINCT_IN_WINDOW({BY.replace('off', order)}, "
    for size, slide, gap, grace in (
        (10 * SECOND, 10 * SECOND, None, 0),
        (10 * SECOND, 4 * SECOND, None, SECOND),
        (None, None, 3 * SECOND, SECOND),
    ):
        if gap is None:
            options = f"size => {interval(size)}, slide => {interval(slide)}"
            judged = reference_deduplicate.distinct_in_windows(far, order=[order], clock_by=["s", "c"], grace=grace, size=size, slide=slide)
        else:
            options = f"gap => {interval(gap)}"
            judged = reference_deduplicate.distinct_in_sessions(far, order=[order], clock_by=["s", "c"], grace=grace, gap=gap)
        text = f"SELECT id, reason, unix_micros(window_start), unix_micros(window_end), lateness FROM {call}{options}, grace => {interval(grace)}"
        found = spark.sql(f"{text}, output => 'all')").collect()
        wanted = Counter(
            (j.row["id"], j.reason, *((None, None) if j.window is None else map(held, j.window)))
            for j in judged
            if j.window is None or gap is not None or begins(j.window[0], slide)
        )
        assert Counter(tuple(r)[:4] for r in found) == wanted, options
        passed = spark.sql(f"{text.replace(', lateness', '').replace('reason', 'NULL')}, output => 'rows')").collect()
        assert Counter(map(tuple, passed)) == Counter(w for w in wanted.elements() if w[1] is None)


@pytest.mark.parametrize("kind", ["TIMESTAMP_NTZ", "DATE"])
def test_times_without_a_zone_fall_into_the_same_windows(spark: SparkSession, kind: str) -> None:
    day = 86_400 * SECOND
    rows = nasty.scenarios(5, 100, moments=(*nasty.ENDS, *nasty.MOMENTS) if kind != "DATE" else nasty.MOMENTS)
    rows = [r | {"t": r["t"] // day * day if r["t"] is not None and kind == "DATE" else r["t"]} for r in rows]
    zone = spark.conf.get("spark.sql.session.timeZone")
    found = {}
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        for type_ in ("TIMESTAMP", kind):
            nasty.view(spark, rows, type_)
            spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
            calls = [
                ("DISTINCT_IN_WINDOW", "window", f"size => {interval(7 * SECOND)}, slide => {interval(3 * SECOND)}", ""),
                (
                    "WINDOW_UPDATES",
                    "window",
                    f"size => {interval(day + 1)}, at_end => 'emit'",
                    "aggregates => 'count(*) AS n', emit => 'final', ",
                ),
                ("SESSION_UPDATES", "session", f"gap => {interval(3 * SECOND)}", "aggregates => 'count(*) AS n', emit => 'final', "),
            ]
            for name, bound, options, more in calls:
                plain = "TIMESTAMP" if type_ == "TIMESTAMP" else "TIMESTAMP_NTZ"
                edges = [nasty.micros(f"CAST({bound}_{edge} AS {plain})", plain) for edge in ("start", "end")]
                text = (
                    f"SELECT s, k, off, {', '.join(edges)}, {nasty.micros('emit_time', plain) if more else 'id'} FROM {name}(TABLE(nasty) "
                )
                text += f"PARTITION BY (s, k) ORDER BY off, time => 't', {more}{options}, grace => {interval(SECOND)}, clock_by => ARRAY('s', 'c'))"
                found[type_, name] = Counter(map(tuple, spark.sql(text).collect()))
                assert found[type_, name] == found["TIMESTAMP", name], name
            spark.conf.set("spark.sql.session.timeZone", "UTC")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.long("tests/sql/windows/test_final_windows.py::test_final_rows_of_one_clock_over_ten_thousand_years_leave_in_time")
def test_on_a_stream_from_year_1_to_the_last_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    later = [m for m in nasty.MOMENTS if m > 0]
    parts = [
        nasty.scenarios(8, 12, moments=nasty.MOMENTS),
        nasty.scenarios(9, 6, moments=later[-4:]),
        nasty.scenarios(10, 6, moments=nasty.ENDS[-3:], high=nasty.HIGHEST),
        nasty.scenarios(12, 2, moments=nasty.ENDS[-2:], high=nasty.HIGHEST),
        [{"k": "far", "t": nasty.HIGHEST, "v": 1}],
        [{"k": "far", "t": nasty.HIGHEST, "v": 1}],
    ]
    numbers = itertools.count()
    batches = [
        [{"k": r["k"] and r["k"][:1], "t": r["t"], "id": next(numbers), "v": r["v"], "batch": n} for r in part]
        for n, part in enumerate(parts)
    ]
    source = Far(spark, tmp_path, "k STRING, ts TIMESTAMP, id INT, v INT")
    for rows in batches:
        source.add([(r["k"], r["t"], r["id"], r["v"]) for r in rows])
    clocked = reference.in_micro_batches(batches, ["id"], 0, 1000, [["k"]])
    watermarks = sorted({clock for _, clock in clocked} | {nasty.HIGHEST // 1000 * 1000})
    given, by = "TABLE(events) PARTITION BY k ORDER BY id, time => 'ts'", f"grace => {interval(SECOND)}"
    texts, wanted = [], Counter[Any]()
    for shape in ("tumbling with grace", "sliding", "session"):
        kind, length, slide, _ = SHAPES[shape]
        name, bounds, options, slowly = updates(kind, length, slide, SECOND)
        columns = ", ".join(f"unix_micros({c})" for c in (*bounds, "emit_time"))
        more = f"aggregates => '{AGGREGATES}', emit => 'final'"
        texts.append(f"SELECT '{shape}' AS f, k, id, {columns}, CONCAT(n_rows, '') AS n FROM {name}({given}, {options}, {by}, {more})")
        for c, _ in slow.final(slowly(clocked, ["id"]), clocked):
            at = next((w for w in watermarks if w >= c.close and w > 0), None)
            if at is not None:
                wanted[shape, c.row["k"], c.row["id"], held(c.start), held(c.end), at, str(values(c)[0])] += 1
    for shape, options in (
        ("hops", f"size => {interval(9 * SECOND)}, slide => {interval(4 * SECOND)}"),
        ("gaps", f"gap => {interval(2 * SECOND)}"),
    ):
        call = f"DISTINCT_IN_WINDOW({given}, {options}, {by}, output => 'all')"
        texts.append(f"SELECT '{shape}', k, id, unix_micros(window_start), unix_micros(window_end), NULL, reason FROM {call}")
        judged = (
            reference_deduplicate.distinct_in_windows([], size=9 * SECOND, slide=4 * SECOND, grace=SECOND, order=["id"], clocked=clocked)
            if shape == "hops"
            else reference_deduplicate.distinct_in_sessions([], gap=2 * SECOND, grace=SECOND, order=["id"], clocked=clocked)
        )
        for j in judged:
            wanted[shape, j.row["k"], j.row["id"], *(map(held, j.window) if j.window else (None, None)), None, j.reason] += 1
    got = Counter(map(tuple, source.run(" UNION ALL ".join(texts))))
    assert got == wanted, (sorted(got - wanted, key=repr)[:9], sorted(wanted - got, key=repr)[:9])
