"""The kernels against their slow definitions, without Spark. Catches: state lost between batches, off-by-one bounds, overflow."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support import reference
from support.inputs.batches import MOMENT, cut
from support.reference import deduplicate as reference_deduplicate

from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.worker import spare_the_collector
from streamtime.udfs.deduplicate import Deduplicate
from streamtime.udfs.sessions.rules import FirstInSession
from streamtime.udfs.stream_time import StreamTime, TimeBefore


def some_rows(random_: random.Random, count: int, spread: int, places: Sequence[int] = (0,)) -> list[reference.Row]:
    """Few times and few keys, so that ties, equal times and boundaries come up often."""
    return [
        {
            "k": random_.choice([None, "a", "b", "c", "d"]),
            "t": random_.choice([None, *([random_.randint(-5, spread) + random_.choice(places)] * 12)]),
            "off": random_.choice([None, i, i, random_.randint(0, 5)]),
            "p": random_.randint(0, 2),
            "id": i,
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("seed", range(400))
def test_the_kernel_equals_the_slow_definition(seed: int) -> None:
    random_ = random.Random(seed)
    ends = [groups.LOWEST + 5, groups.HIGHEST - 40]  # of what a BIGINT holds
    places = random_.choice([[0], [0], ends[:1], ends[1:], [*ends, 0]])
    rows = some_rows(random_, random_.randint(0, 40), random_.choice([10, 40]), places)
    clock_by = random_.choice([[], ["p"], ["k"]])
    options = {
        "within": random_.choice([0, 1, 3, 10]),
        "keep": random_.choice(["first", "first", "last", "unique"]),
        "refresh": random_.random() < 0.3,
        "order": random_.choice([["t"], ["id"], ["p", "id"]]),
        "clock_by": clock_by,
    }
    if options["keep"] == "first" and random_.random() < 0.4:
        options["offset"] = "off"
    if options["refresh"] and random_.random() < 0.6:
        options["at_most"] = options["within"] + random_.choice([1, 2, 8, 30])
    expected = reference_deduplicate.deduplicate(rows, **options)
    in_order = options["order"] == ["t"]
    own_clock = not in_order and clock_by == ["k"]
    hashed = options["keep"] != "unique" and random_.random() < 0.5
    hashes = {None: 0, "a": 0, "b": 1, "c": 1, "d": random_.randint(1, 2)}  # some keys share a hash, and their rows mix
    expected.sort(key=lambda j: hashes[j.row["k"]] if hashed else (j.row["k"] is not None, j.row["k"] or ""))  # stable
    kernel = Deduplicate(
        hashed=hashed,
        within=options["within"],
        refresh=options["refresh"],
        at_most=options.get("at_most"),
        unique=options["keep"] == "unique",
        negate=options["keep"] == "last",
        has_stream_time=not in_order and not own_clock,
        own_clock=own_clock,
        offsets=1 if "offset" in options else 0,
    )
    columns = [pa.array([j.row["t"] for j in expected], MOMENT)]
    if kernel.has_stream_time:
        columns.append(pa.array([j.stream_time for j in expected], MOMENT))
    if kernel.offsets:
        columns.append(pa.array([j.row["off"] for j in expected], pa.int64()))
    if hashed:
        columns.append(pa.array([hashes[j.row["k"]] for j in expected], pa.int32()))
    columns.append(pa.array([j.row["k"] for j in expected], pa.string()))
    result = list(kernel.run(iter(cut(random_, columns))))
    got = [v for batch in result for v in batch.cast(pa.int64()).to_pylist()]
    assert got == [j.kept_time for j in expected], options


@pytest.mark.parametrize("seed", range(100))
def test_a_micro_batch_at_the_ends_of_a_bigint_equals_the_slow_definition(seed: int) -> None:
    """All of one key, with state from the micro-batch before."""
    random_ = random.Random(seed)
    ends = [groups.LOWEST, groups.LOWEST + 3, groups.LOWEST + 9, 0, groups.HIGHEST - 9, groups.HIGHEST - 3, groups.HIGHEST]
    rows = [{"k": "a", "t": random_.choice(ends), "off": random_.choice([None, 1]), "id": i} for i in range(random_.randint(2, 12))]
    within, refresh = random_.choice([0, 3, 6, groups.HIGHEST]), random_.random() < 0.5
    at_most = (
        min(within + random_.choice([1, 6]), groups.HIGHEST) if refresh and within < groups.HIGHEST and random_.random() < 0.6 else None
    )
    offset = "off" if random_.random() < 0.4 else None
    kernel = Deduplicate(within=within, refresh=refresh, at_most=at_most, offsets=2 if offset else 0)
    cut_at, watermark = random_.randint(1, len(rows)), random_.choice([reference.BEFORE, 5000, groups.HIGHEST])
    clocked = [(row, reference.BEFORE if i < cut_at else watermark) for i, row in enumerate(rows)]
    owner, held, got = np.zeros(0, np.int64), np.zeros((kernel.width, 0), np.int64), list[int]()
    for some, mark in ((rows[:cut_at], groups.LOWEST), (rows[cut_at:], groups.LOWEST if watermark == reference.BEFORE else watermark)):
        alive = held[0] >= kernel.threshold(mark)
        offsets = [pa.array([r["off"] for r in some], pa.int64())] * kernel.offsets
        columns = [pa.array([r["t"] for r in some], MOMENT), *offsets]
        step = kernel.step(np.zeros(len(some), np.int64), columns, owner[alive], held[:, alive], mark)
        got += step.reasons.tolist()
        owner, held = (step.groups, step.entries) if len(step.groups) else (owner[alive], held[:, alive])
    judged = reference_deduplicate.deduplicate([], within=within, refresh=refresh, at_most=at_most, offset=offset, clocked=clocked)
    assert got == [int(j.reason == "duplicate") for j in judged], (within, refresh, at_most, offset)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_redelivered_row_passes_and_leaves_the_kept_time_where_it_is_though_duplicates_refresh(size: int) -> None:
    # within 10: 3 is the record of 0 again and passes; 8 is a duplicate, and refreshes; 19 is one of 8's time, and 12, redelivered, was not
    times, records = [0, 3, 8, 12, 19, 30, 39, 41], [1, 1, 2, 1, 4, 5, 5, 6]
    kernel = Deduplicate(within=10, refresh=True, offsets=1)
    columns = [pa.array(times, MOMENT), pa.array(records, pa.int64()), pa.array(["k"] * len(times))]
    batches = [tuple(c.slice(at, size) for c in columns) for at in range(0, len(times), size)]
    got = [v for batch in kernel.run(iter(batches)) for v in batch.cast(pa.int64()).to_pylist()]
    rows = [{"k": "k", "t": t, "off": r, "id": i} for i, (t, r) in enumerate(zip(times, records, strict=True))]
    expected = [j.kept_time for j in reference_deduplicate.deduplicate(rows, within=10, refresh=True, offset="off")]
    assert got == expected == [None, None, 0, None, None, None, None, None]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("times", "clocks", "expected"),
    [
        (
            [0, 3, 6, 9, 12, 15, 18, 30],
            None,
            [None, 0, 3, 6, None, 12, 15, None],
        ),  # 9 is 9 past the row that passed, 12 more; 30 a new burst
        ([0, 9, 9, 10, 19, 19, 20], None, [None, None, 9, 9, None, 19, 19]),  # ties of a cut are duplicates of what it keeps
        ([0, 4, 8, 7, 12, 11, 3, 2], [0, 4, 8, 8, 12, 12, 12, 12], [None, 0, 4, 8, None, 12, None, None]),  # 11 lies before, and is near
        ([0, 60, 3, 62, 66, 65, 70], [0, 100, 100, 100, 100, 100, 100], [None] * 7),  # too late to be kept, however large
        ([0, 4, 10], [0, 4, 10], [None, 0, None]),  # alive, and past `at_most` at once
    ],
)
def test_a_burst_that_never_pauses_passes_again(size: int, times: list[int], clocks: list[int] | None, expected: list[int | None]) -> None:
    kernel = Deduplicate(within=6 if clocks else 5, refresh=True, at_most=9, has_stream_time=clocks is not None)
    columns = [pa.array(times, MOMENT), *([pa.array(clocks, MOMENT)] if clocks else []), pa.array(["k"] * len(times))]
    batches = [tuple(c.slice(at, size) for c in columns) for at in range(0, len(times), size)]
    got = [v for batch in kernel.run(iter(batches)) for v in batch.cast(pa.int64()).to_pylist()]
    assert got == expected


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_burst_passes_again_where_rows_are_decided_one_by_one(size: int) -> None:
    def kept(kernel: Deduplicate, *columns: pa.Array) -> list[int | None]:
        keyed = [*columns, pa.array(["k"] * len(columns[0]))]
        batches = [tuple(c.slice(at, size) for c in keyed) for at in range(0, len(keyed[0]), size)]
        return [v for batch in kernel.run(iter(batches)) for v in batch.cast(pa.int64()).to_pylist()]

    times, records = [0, 3, 6, 8, 9, 10, 11], [1, 2, 1, 3, 4, 5, 6]  # 6 is the record of 0 again
    redelivered = Deduplicate(within=5, refresh=True, at_most=9, offsets=1)
    assert kept(redelivered, pa.array(times, MOMENT), pa.array(records, pa.int64())) == [None, 0, None, 3, 8, None, 10]
    times, stream = [0, 3, 4, 8, 10, 11], [0, 5, 4, 8, 10, 11]  # of several clocks
    clocks = Deduplicate(within=5, refresh=True, at_most=9, has_stream_time=True)
    assert kept(clocks, pa.array(times, MOMENT), pa.array(stream, MOMENT)) == [None, 0, 3, 4, None, 10]


def test_one_long_burst_is_cut_across_batches() -> None:
    times = np.arange(100_000, dtype=np.int64) * 10
    batches = [(pa.array(times[i : i + 999]).cast(MOMENT), pa.array(["k"] * len(times[i : i + 999]))) for i in range(0, len(times), 999)]
    for at_most, every in ((11, 2), (19, 2), (20, 3), (999_980, 99_999), (999_990, 100_000), (groups.HIGHEST, 100_000)):
        kept = pa.concat_arrays(list(Deduplicate(within=10, refresh=True, at_most=at_most).run(iter(batches))))
        passed = np.flatnonzero(groups.as_ints(kept.is_null()))
        assert passed.tolist() == list(range(0, 100_000, every)), at_most


@pytest.mark.parametrize("seed", range(100))
def test_stream_time_is_the_running_maximum_per_clock(seed: int) -> None:
    random_ = random.Random(seed)
    rows = sorted(some_rows(random_, random_.randint(1, 40), 50), key=lambda r: r["p"])
    sign = random_.choice([1, -1])
    expected = reference.with_stream_time(rows, lambda r: r["p"], lambda r: r["t"] is not None, sign)
    columns = [pa.array([r["t"] for r in rows], MOMENT), pa.array([r["p"] for r in rows])]
    result = StreamTime(earliest=sign < 0).run(iter(cut(random_, columns)))
    got = [v for batch in result for v in batch.cast(pa.int64()).to_pylist()]
    assert got == [None if s is None else s * sign for _, s in expected]


@pytest.mark.parametrize("earliest", [False, True])
def test_stream_time_is_exact_at_both_ends_of_time(earliest: bool) -> None:
    times = [None, 1 - 2**63, -(2**63), None, 2**63 - 2, 2**63 - 1, None]
    times = times[::-1] if earliest else times
    columns = [pa.array(times, pa.int64()).cast(MOMENT), pa.array(["k"] * len(times))]
    got = [
        v
        for b in StreamTime(earliest).run(iter([tuple(c.slice(at, 2) for c in columns) for at in range(0, 7, 2)]))
        for v in b.cast(pa.int64()).to_pylist()
    ]
    low, high = 1 - 2**63, 2**63 - 1
    assert got == (
        [None, high, high - 1, high - 1, -high - 1, -high - 1, -high - 1] if earliest else [None, low, low, low, high - 1, high, high]
    )


@pytest.mark.parametrize("seed", range(200))
def test_sessions_equal_the_slow_definition(seed: int) -> None:
    random_ = random.Random(seed)
    rows = some_rows(random_, random_.randint(0, 40), random_.choice([15, 60]))
    gap, grace = random_.choice([0, 2, 5]), random_.choice([0, 0, 3, 20])
    expected = reference_deduplicate.distinct_in_sessions(rows, gap=gap, grace=grace, order=["id"])
    expected.sort(key=lambda j: (j.row["k"] is not None, j.row["k"] or ""))
    columns = [
        pa.array([j.row["t"] for j in expected], MOMENT),
        pa.array([j.stream_time for j in expected], MOMENT),
        pa.array([j.row["k"] for j in expected], pa.string()),
    ]
    batches = [b for b in cut(random_, columns) if len(b[0])]
    got = [v for batch in FirstInSession(gap, grace).run(iter(batches)) for v in batch.to_pylist()]
    words = {0: None, 1: "duplicate", 2: "late", 3: "aside"}
    aside = ("null_time", "null_key")
    assert [words[g["verdict"]] for g in got] == ["aside" if j.reason in aside else j.reason for j in expected]
    bounds = [None if j.reason in aside else j.window for j in expected]
    epoch = np.datetime64(0, "us")
    as_micros = [
        None if g["start"] is None else tuple(int((np.datetime64(g[e], "us") - epoch).astype(int)) for e in ("start", "end")) for g in got
    ]
    assert as_micros == bounds


def test_one_long_chain_is_walked_across_batches() -> None:
    times = np.arange(100_000, dtype=np.int64) * 10
    batches = [(pa.array(times[i : i + 999]).cast(MOMENT), pa.array(["k"] * len(times[i : i + 999]))) for i in range(0, len(times), 999)]
    kept = pa.concat_arrays(list(Deduplicate(within=9).run(iter(batches))))
    assert kept.null_count == len(times)  # each is more than 9 after the one before
    kept = pa.concat_arrays(list(Deduplicate(within=10).run(iter(batches))))
    assert kept.null_count == len(times) // 2


def test_search_and_running_max_agree_with_loops_however_far_values_spread() -> None:
    random_ = np.random.default_rng(7)
    for top in (10, 2**40, 2**62):
        group = np.sort(random_.integers(0, 20, 500))
        group = np.cumsum(np.append(0, np.diff(group) > 0)).astype(np.int64)
        values = random_.integers(-top, top, 500)
        running = groups.running_max(group, values)
        targets = groups.plus(values, int(top // 3))
        found = groups.search(group, running, targets)
        for i in range(500):
            same = np.flatnonzero(group == group[i])
            assert running[i] == values[same[same <= i]].max()
            assert found[i] == same[0] + int((running[same] <= targets[i]).sum())


def test_durations_saturate_instead_of_wrapping_round() -> None:
    edge = np.array([groups.LOWEST + 1, -1, 0, 1, groups.HIGHEST - 1])
    assert groups.plus(edge, groups.HIGHEST).tolist() == [
        0,
        groups.HIGHEST - 1,
        groups.HIGHEST,
        groups.HIGHEST,
        groups.HIGHEST,
    ]
    assert groups.minus(edge, groups.HIGHEST).tolist() == [
        groups.LOWEST,
        groups.LOWEST,
        -groups.HIGHEST,
        1 - groups.HIGHEST,
        -1,
    ]


def test_kernels_import_no_spark() -> None:
    probe = (
        "import sys, importlib.util, pathlib\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('pyspark', 'py4j'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import types; pkg = types.ModuleType('streamtime'); pkg.__path__ = []; sys.modules['streamtime'] = pkg\n"
        "sub = types.ModuleType('streamtime.udfs'); sub.__path__ = [sys.argv[1]]; sys.modules['streamtime.udfs'] = sub\n"
        "import importlib\n"
        "for f in sorted(pathlib.Path(sys.argv[1]).rglob('*.py')):\n"
        "    if f.stem != '__init__': importlib.import_module('.'.join(('streamtime.udfs', *f.relative_to(sys.argv[1]).with_suffix('').parts)))\n"
    )
    folder = str(Path(groups.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", probe, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", range(40))
def test_stream_time_before_a_row_is_that_of_the_rows_before_it(seed: int) -> None:
    random_ = random.Random(seed)
    rows = some_rows(random_, random_.randint(1, 40), 50)
    earlier = random_.choice([None, 20])
    exact = [s for _, s in reference.with_stream_time(rows, lambda _: "one", lambda r: r["t"] is not None, 1)]
    before = [None, *exact[:-1]]
    expected = before if earlier is None else [earlier if b is None else max(b, earlier) for b in before]
    columns = [pa.array([r["t"] for r in rows], pa.int64()), pa.array([earlier] * len(rows), pa.int64())]
    assert [v for batch in TimeBefore().run(iter(cut(random_, columns))) for v in batch.to_pylist()] == expected


@pytest.mark.parametrize(("reused", "frozen", "times"), [(True, 0, 1), (True, 9, 0), (False, 0, 0)])
def test_only_a_worker_that_is_used_again_is_frozen_and_once(
    monkeypatch: pytest.MonkeyPatch, reused: bool, frozen: int, times: int
) -> None:
    done = list[None]()
    monkeypatch.setattr("gc.freeze", lambda: done.append(None))
    monkeypatch.setattr("gc.get_freeze_count", lambda: frozen)
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    if reused:
        monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    spare_the_collector()
    assert len(done) == times
