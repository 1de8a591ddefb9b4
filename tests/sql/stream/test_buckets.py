"""What a stream's workers do, without Spark: rows packed by bucket, judged with state that lives from micro-batch to micro-batch.

Random streams, cut at random, against the slow definition. Catches: state lost or resurrected, order within a micro-batch, expiry off by one,
keys whose hashes share a half, slices merged wrongly, timers never set.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from support import TESTS, reference
from support.bare import said_without_the_pack
from support.inputs.micro_batches import KEYS, MOMENT, STEP, Stream, moment, plan, some_stream, table
from support.reference import deduplicate as reference_deduplicate

from streamtime.sql.rows import kernels
from streamtime.sql.rows.frame import LEFT_OUT
from streamtime.sql.stream import buckets, checkpoint, meeting, packing
from streamtime.sql.stream.buckets import REASON, STREAM_TIME
from streamtime.sql.stream.checkpoint import StateError
from streamtime.sql.stream.packing import ASIDE, KEY_HASH
from streamtime.udfs.arrays import groups
from streamtime.udfs.arrays.ordering import By, ordinals, sorted_rows
from streamtime.udfs.deduplicate import Deduplicate
from streamtime.udfs.sessions.rules import FirstInSession
from streamtime.udfs.state import Entries, Index, Slices
from streamtime.udfs.windows import FirstInWindow


def replay(
    stream: Stream, batches: list[list[reference.Row]], delay: int, random_: random.Random, row_of: Any = table
) -> list[dict[str, Any]]:
    found, largest = [], reference.BEFORE
    for rows in batches:
        shuffled = random_.sample(rows, len(rows))
        found += stream.run(row_of(shuffled), max(largest - delay, 0), pieces=random_.choice([1, 1, 3]))
        largest = max([largest, *(r["t"] for r in rows if r["t"] is not None)])
    return found


@pytest.mark.parametrize("seed", range(200))
def test_a_stream_is_judged_as_the_slow_definition_says(seed: int) -> None:
    random_ = random.Random(seed)
    batches = some_stream(random_)
    within, refresh, delay = random_.choice([0, STEP, 3 * STEP, 10 * STEP, None]), random_.random() < 0.4, random_.choice([0, 0, 4 * STEP])
    order = random_.choice([["t"], ["id"]])
    offset = "off" if random_.random() < 0.4 else None
    bounded = refresh and within is not None and random_.random() < 0.6
    at_most = within + random_.choice([1, 2, 9]) * STEP if bounded and within is not None else None
    expected = reference_deduplicate.deduplicate(
        [],
        within=within,
        refresh=refresh,
        at_most=at_most,
        offset=offset,
        order=order,
        clocked=reference.in_micro_batches(batches, order, delay, STEP),
    )
    far = groups.HIGHEST if within is None else within
    transition = Deduplicate(within=far, refresh=refresh, at_most=at_most, offsets=2 if offset else 0)
    other = By("id") if order == ["t"] else By("t")
    stream = Stream(plan(transition, results=("kept",), order=(By(order[0]),), ties=(other,), offset=("off",) if offset else ()))
    got = {r["id"]: (r[REASON], moment(r["kept"]), moment(r[STREAM_TIME])) for r in replay(stream, batches, delay, random_)}
    times = {r["id"]: r["t"] for rows in batches for r in rows}
    for one in expected:
        reason, kept, clock = got[one.row["id"]]
        assert (reason, kept) == (one.reason, one.kept_time), (one, within, refresh, at_most, delay, order)
        assert clock == one.stream_time or times[one.row["id"]] is None


@pytest.mark.parametrize("seed", range(200))
def test_windows_in_a_stream_are_judged_as_the_slow_definition_says(seed: int) -> None:
    random_ = random.Random(seed)
    batches = some_stream(random_)
    size, grace, delay = random_.choice([3, 10]) * STEP, random_.choice([0, 2]) * STEP, random_.choice([0, 4]) * STEP
    expected = reference_deduplicate.distinct_in_windows(
        [], size=size, grace=grace, clocked=reference.in_micro_batches(batches, ["t"], delay, STEP)
    )

    def windowed(rows: list[reference.Row]) -> pa.Table:
        ends = [None if r["t"] is None else r["t"] // size * size + size for r in rows]
        aside = [1 if r["t"] is None else 2 if r["k"] is None else -1 for r in rows]
        starts = np.array([0 if e is None else e - size for e in ends])
        base = table(rows)
        by_window = pa.array(groups.as_ints(base.column(KEYS[1]).combine_chunks()) * 10_000_000 + starts)
        made = base.drop_columns([KEYS[1], ASIDE]).append_column(KEYS[1], by_window).append_column(ASIDE, pa.array(aside, pa.int32()))
        return made.append_column("end", pa.array(ends, MOMENT))

    stream = Stream(plan(FirstInWindow(grace), roles=("t", "end"), aside=LEFT_OUT))
    got = {r["id"]: r[REASON] for r in replay(stream, batches, delay, random_, windowed)}
    assert got == {j.row["id"]: j.reason for j in expected}


@pytest.mark.parametrize("seed", range(200))
def test_sessions_in_a_stream_are_judged_as_the_slow_definition_says(seed: int) -> None:
    random_ = random.Random(seed)
    batches = some_stream(random_)
    gap, grace, delay = random_.choice([0, 2, 5]) * STEP, random_.choice([0, 3]) * STEP, random_.choice([0, 4]) * STEP
    expected = reference_deduplicate.distinct_in_sessions(
        [], gap=gap, grace=grace, clocked=reference.in_micro_batches(batches, ["t"], delay, STEP)
    )

    def sessions(rows: list[reference.Row]) -> pa.Table:
        aside = [1 if r["t"] is None else 2 if r["k"] is None else -1 for r in rows]
        return table(rows).drop_columns([ASIDE]).append_column(ASIDE, pa.array(aside, pa.int32()))

    stream = Stream(plan(FirstInSession(gap, grace), aside=LEFT_OUT, results=("start", "end")))
    got = {r["id"]: (r[REASON], moment(r["start"]), moment(r["end"])) for r in replay(stream, batches, delay, random_, sessions)}
    assert got == {j.row["id"]: (j.reason, *(j.window if j.reason not in LEFT_OUT and j.window else (None, None))) for j in expected}


def test_expired_state_is_dropped_by_its_timer_though_its_bucket_sees_no_more_rows() -> None:
    stream = Stream(plan(Deduplicate(within=10 * STEP), results=("kept",)))
    stream.run(table([{"k": k, "t": STEP * i, "id": i} for i, k in enumerate("abcd")]), 0)
    assert stream.held() == 4
    far = [{"k": "a", "t": 100 * STEP, "id": 9}]
    stream.run(table(far), 12 * STEP)  # a is touched; the others live by 1, 2 and 3 thousand, ten thousand after which they die
    stream.run(table([]), 100 * STEP)
    assert stream.held() == 1
    stream.run(table([]), 110 * STEP)
    assert stream.held() == 1  # |t - kept| <= within: it lives still
    stream.run(table([]), 111 * STEP)
    assert stream.held() == 0


def test_state_is_refused_when_an_option_changed_and_the_error_says_which() -> None:
    stream = Stream(plan(Deduplicate(within=10 * STEP), results=("kept",), options={"within": "0:00:10", "refresh": "false"}))
    stream.run(table([{"k": "a", "t": 0, "id": 0}]), 0)
    stream.plan = plan(Deduplicate(within=20 * STEP), results=("kept",), options={"within": "0:00:20", "refresh": "false"})
    with pytest.raises(StateError, match=r"F: the query's checkpoint was written with other options: within was 0:00:10 and is 0:00:20\."):
        stream.run(table([{"k": "a", "t": 0, "id": 0}]), 0)


@pytest.mark.parametrize(
    ("partitions", "number"), [(1, 16), (8, 16), (9, 32), (64, 128), (65, 256), (200, 512), (2048, 4096), (10_000, 4096)]
)
def test_there_are_two_buckets_and_more_for_each_partition_of_the_state_and_a_power_of_two(partitions: int, number: int) -> None:
    assert packing.for_partitions(partitions) == number


@pytest.mark.parametrize("number", [1, 2, 16, 256, 4096])
def test_each_row_is_in_the_bucket_of_its_keys_upper_bits_and_the_first_blob_says_how_many_there_are(number: int) -> None:
    places = [-(2**63), 2**63 - 1, -1, 0, 1, *(random.Random(number).randrange(-(2**63), 2**63) for _ in range(500))]
    rows = pa.table({KEY_HASH: pa.array(places, pa.int64())})
    packed = [row for batch in packing.packer(number).pack(iter(rows.to_batches(max_chunksize=100))) for row in batch.to_pylist()]
    found = {row["bucket"]: pa.ipc.open_stream(row["data"]).read_all().column(KEY_HASH).to_pylist() for row in packed}
    assert sorted(place for rows in found.values() for place in rows) == sorted(places)
    names = packing.ids(number)
    assert all(names[(place % 2**64) * number >> 64] == bucket for bucket, rows in found.items() for place in rows)
    assert [row["buckets"] for row in packed] == [str(number).encode(), *[None] * (len(packed) - 1)]


def test_what_runs_on_workers_needs_no_package_of_ours_and_is_there_soon() -> None:
    """A blob of rows is made where `streamtime` cannot be imported; pandas, which takes a second, is not until rows leave."""
    kernels.ship_by_value(packing, checkpoint, buckets, meeting)
    judge = buckets.Judge(plan(Deduplicate(within=10 * STEP), results=("kept",)))
    blobs = [cloudpickle.dumps(made) for made in (packing.packer(16), packing.unpack, judge, buckets.Hold, meeting.Meet)]
    script = (
        "import pyarrow as pa\n"
        "packer, unpack, judge, *_ = map(pickle.loads, given)\n"
        "print('pandas' in sys.modules, end=' ')\n"
        f"(batch,) = packer.pack(iter(pa.table({{{KEY_HASH!r}: [1, 2, 3]}}).to_batches()))\n"
        "print(sum(rows.num_rows for rows in unpack(iter([batch]))), type(judge).__name__)\n"
    )
    assert said_without_the_pack(script, blobs) == "False 3 Judge\n"


def test_a_checkpoint_of_another_form_is_refused_though_the_number_of_buckets_is_the_same() -> None:
    """Its buckets have other names: what they hold would be lost without a word."""
    stream = Stream(plan(Deduplicate(within=10 * STEP), results=("kept",)))
    stream.count(256)
    stream.plan = plan(Deduplicate(within=10 * STEP), results=("kept",), options={buckets.STATE: buckets.STATE_FORM})
    with pytest.raises(StateError, match=r"F: the query's checkpoint was written by another version of streamtime"):
        stream.count(256)


def test_a_checkpoint_with_another_number_of_buckets_is_refused_with_what_to_say() -> None:
    stream = Stream(plan(Deduplicate(within=10 * STEP), results=("kept",)))
    stream.count(256)
    stream.count(256)
    with pytest.raises(
        StateError, match=r"F: the query's checkpoint was written with 256 buckets of keys, and this run has 1024\. Run SET s"
    ):
        stream.count(1024)


def test_slices_stay_few_and_hold_each_key_once_or_so() -> None:
    """Ten thousand keys, a hundred at a time, most of them new: what a key was is found, and each is rewritten a few times only."""

    class Store(dict[int, bytes]):
        written = 0

        def get(self, slot: int) -> bytes:  # type: ignore[override]
            return self[slot]

        def put(self, slot: int, blob: bytes) -> None:
            Store.written += len(blob)
            self[slot] = blob

        def delete(self, slot: int) -> None:
            del self[slot]

    store, index, truth = Store(), Index(), dict[int, int]()
    random_ = np.random.default_rng(3)
    for number in range(200):
        slices = Slices(store, Index.load(index.dump()), 3)
        keys = np.unique(random_.integers(0, 10_000, 100))
        position, entries = slices.find(np.stack((keys, -keys)))
        assert {int(keys[p]): int(e) for p, e in zip(position, entries.matrix[2], strict=True)} == {
            k: truth[k] for k in keys.tolist() if k in truth
        }
        slices.put(Entries(np.stack((keys, -keys, np.full(len(keys), number)))), groups.LOWEST)
        slices.save()
        truth |= dict.fromkeys(keys.tolist(), number)
        index = slices.index
    assert len(index.slices) <= 10
    assert slices.rows < 2 * len(truth)
    assert Store.written < 15 * 24 * 200 * 100


@pytest.mark.parametrize("seed", range(150))
def test_what_is_held_is_released_once_when_it_is_due_unless_it_was_replaced(seed: int) -> None:
    """Entries with payload; a key's entries are replaced as a whole, by none as well; after a restart nothing is known but what was saved."""

    class Store(dict[int, bytes]):
        def get(self, slot: int) -> bytes:  # type: ignore[override]
            return self[slot]

        def put(self, slot: int, blob: bytes) -> None:
            self[slot] = blob

        def delete(self, slot: int) -> None:
            del self[slot]

    random_ = random.Random(seed)
    store, index, truth, clock, released = Store(), Index(), dict[int, list[tuple[int, str]]](), 0, list[tuple[int, int, str]]()
    expected = list[tuple[int, int, str]]()
    for number in range(40):
        slices = Slices(store, Index.load(index.dump()), 3)
        clock += random_.choice([0, 0, 1, 5])
        due = slices.due(clock)
        assert due.payload is not None or not len(due)
        names = due.payload.column("name").to_pylist() if due.payload else []
        released += [(number, int(k), n) for k, n in zip(due.matrix[0], names, strict=True)]
        expected += [(number, k, n) for k, held in truth.items() for at, n in held if at < clock]
        truth = {k: [(at, n) for at, n in held if at >= clock] for k, held in truth.items()}
        chosen = sorted(random_.sample(range(12), random_.choice([0, 1, 4])))
        distinct = np.array([chosen, [-k for k in chosen]], np.int64).reshape(2, -1)
        owner, held = buckets.live(slices, distinct, clock)
        assert held.payload is not None or not len(held)
        known = held.payload.column("name").to_pylist() if held.payload else []
        assert Counter((chosen[o], n) for o, n in zip(owner, known, strict=True)) == Counter(
            (k, n) for k in chosen for _, n in truth.get(k, [])
        )
        entries = list[tuple[int, int, int, str]]()
        for k in chosen:
            truth[k] = [(clock + random_.randint(0, 9), f"{number}.{i}") for i in range(random_.choice([0, 1, 1, 3]))]
            entries += [(k, -k, at, n) for at, n in truth[k]] or [(k, -k, groups.LOWEST, "")]
        matrix = np.array([e[:3] for e in entries], np.int64).reshape(-1, 3).T
        payload = pa.RecordBatch.from_pydict({"name": pa.array([e[3] for e in entries], pa.string())})
        slices.put(Entries(matrix, payload), clock)
        slices.save()
        index = slices.index
        lowest = min((s.lowest for s in index.slices), default=10**9)
        assert lowest <= min((at for held in truth.values() for at, _ in held), default=10**9)
    assert Counter(released) == Counter(expected)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_rows_are_sorted_as_spark_sorts_them(ascending: bool, nulls_first: bool) -> None:
    by = By("v", ascending, nulls_first)
    columns: Iterator[list[Any]] = iter(
        [
            [3, -1, 2**62, -(2**62)],
            [0.5, -1.0, float("inf")],
            ["a", "", "ä", "b", "aa"],
            [b"\xff", b"\x00", b""],
            [False, True],
            [[1], [1, None], [], [None], [1, 2], [2]],
            [{"x": None, "y": 9}, {"x": 1, "y": 1}, {"x": 1, "y": 2}],
        ]
    )
    for values in columns:
        rows = [*values, None]
        got = [rows[i] for i in sorted_rows([], [by], [], pa.table({"v": pa.array(rows)}))]
        present = [v for v in got if v is not None]
        assert (got[0] if nulls_first else got[-1]) is None
        in_order = {
            3: [-(2**62), -1, 3, 2**62],
            0.5: [-1.0, 0.5, float("inf")],
            "a": ["", "a", "aa", "b", "ä"],
            b"\xff": [b"", b"\x00", b"\xff"],
        }
        if isinstance(values[0], list):
            expected = [[], [None], [1], [1, None], [1, 2], [2]]
        else:
            expected = values if isinstance(values[0], (dict, bool)) else in_order[values[0]]
        assert present == (expected if ascending else expected[::-1])
    assert ordinals(pa.array([float("nan"), float("inf"), -0.0, 0.0])).tolist() == [2, 1, 0, 0]


def test_times_beyond_the_years_that_python_knows_are_ordered_inside_structs_and_arrays_too() -> None:
    moment = pa.timestamp("us", "UTC")
    window = pa.struct([("start", moment), ("more", pa.list_(pa.date32()))])
    last = groups.HIGHEST
    rows = [
        {"start": last, "more": None},
        None,
        {"start": -last, "more": [2**30]},
        {"start": last, "more": [None]},
        {"start": None, "more": []},
    ]
    assert ordinals(pa.array(rows, window)).tolist() == [3, 0, 2, 4, 1]


def test_hashes_that_share_a_half_are_different_keys() -> None:
    stream = Stream(plan(Deduplicate(within=10 * STEP), results=("kept",)))
    rows = [{"k": k, "t": t * STEP, "id": i} for i, (k, t) in enumerate([("b", 1), ("c", 2), ("b", 3), ("c", 4), ("d", 5)])]
    assert Counter(r[REASON] for r in stream.run(table(rows), 0)) == {None: 3, "duplicate": 2}
    assert Counter(r[REASON] for r in stream.run(table(rows), 0)) == {"duplicate": 5}


CASES = [c for c in json.loads((TESTS / "cases" / "deduplicate.json").read_text()) if "check" not in c["expected"][0]]


@pytest.mark.parametrize("case", CASES, ids=[c["id"].removeprefix("deduplicate.") for c in CASES])
def test_every_case_holds_where_each_record_is_a_micro_batch(case: dict[str, Any]) -> None:
    """Then the watermark is the stream time before the record, which judges as Kafka's does, the record itself included."""
    identity: dict[str, Callable[[dict[str, Any]], Any]] = {
        "id = key": lambda r: r["key"],
        "id = null": lambda r: None,
        "id = value": lambda r: r["value"],
        "id = key|value": lambda r: f"{r['key']}|{r['value']}",
    }
    of = (lambda r: r["key"]) if case["params"]["mode"] == "by_key" else identity[case["params"]["id_selector"]]
    names: dict[Any, int] = {}
    stream = Stream(plan(Deduplicate(within=case["params"]["interval_ms"] * 1000), results=("kept",), output="rows"))
    passed, watermark = [], 0
    for number, row in enumerate(case["input"]):
        parts = (row["key"], of(row))
        here = pa.table(
            {
                "t": pa.array([row["ts"] * 1000], MOMENT),
                "id": pa.array([number + 1]),
                KEY_HASH: pa.array([names.setdefault(parts, len(names))]),
                KEYS[0]: pa.array([names[parts]]),
                KEYS[1]: pa.array([7]),
                ASIDE: pa.array([0 if None in parts else -1], pa.int32()),
            }
        )
        passed += [r["id"] for r in stream.run(here, watermark)]
        watermark = max(watermark, row["ts"] * 1000)
    assert passed == [e["after"] for e in case["expected"]]
