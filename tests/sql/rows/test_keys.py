"""Keys that were made to collide are told apart, by every function, in batch, as a Python UDTF and on a stream; what a secret seed is worth."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.inputs.micro_batches import Handle, Times, plan, table
from support.streams import Source, at

from streamtime.sql.stream.buckets import STATE, STATE_FORM, Judge
from streamtime.sql.stream.checkpoint import StateError
from streamtime.sql.syntax.text import one_to_one
from streamtime.udfs import keys
from streamtime.udfs.deduplicate import Deduplicate

# xxHash64 takes 8 bytes at a time: hash = rotate(hash ^ mix(bytes), 27) * P1 + P4. The first 8 bytes of these two differ so that bit 36 of
# the mix does, hence the top bit of the hash and no other, whatever the seed; the second 8 so that the top bit of the mix does, and undo it
ONE, TWO = "rlj8d24yzäsux1a", "Rykп~ƅzäs$ľw"
SAME = {"ONE": ONE, "TWO": TWO, "other": "an other one"}


def test_strings_that_collide_under_one_seed_of_xxhash64_collide_under_all_so_a_secret_seed_would_not_help(spark: SparkSession) -> None:
    assert ONE != TWO
    seeds = [0, 7, *(random.Random(1).getrandbits(63) for _ in range(50))]
    equal = " AND ".join(f"xxhash64({seed}L, '{ONE}') = xxhash64({seed}L, '{TWO}')" for seed in seeds)
    assert spark.sql(f"SELECT {equal} AS equal, sha2('{ONE}', 256) = sha2('{TWO}', 256) AS digests").collect() == [(True, False)]


FUNCTIONS = {
    "DEDUPLICATE": "DEDUPLICATE({}, within => INTERVAL 9 SECONDS{})",
    "for ever": "DEDUPLICATE({}{})",
    "windows": "DISTINCT_IN_WINDOW({}, size => INTERVAL 20 SECONDS{})",
    "sessions": "DISTINCT_IN_WINDOW({}, gap => INTERVAL 9 SECONDS{})",
    "SESSIONIZE": "SESSIONIZE({}, gap => INTERVAL 9 SECONDS, grace => INTERVAL 0 SECONDS{})",
    "WINDOW_UPDATES": "WINDOW_UPDATES({}, size => INTERVAL 20 SECONDS, aggregates => 'count(*) AS n, max(id) AS last'{})",
    "SESSION_UPDATES": "SESSION_UPDATES({}, gap => INTERVAL 9 SECONDS, aggregates => 'count(*) AS n, max(id) AS last'{})",
    "CLOSE": "SUPPRESS_UNTIL_CLOSE({}, window_end => 'ts + INTERVAL 20 SECONDS'{})",
    "LIMIT": "SUPPRESS_UNTIL_TIME_LIMIT({}, wait => INTERVAL 20 SECONDS{})",
    "early": "SUPPRESS_UNTIL_TIME_LIMIT({}, wait => INTERVAL 20 SECONDS, max_records => 1000, when_full => 'emit_early'{})",
}
REPORTED = ("DEDUPLICATE", "windows", "sessions", "SESSIONIZE", "WINDOW_UPDATES", "SESSION_UPDATES", "LIMIT")
REPORTS = {f"{name}, all": FUNCTIONS[name].replace("{})", "{}, output => 'all')") for name in REPORTED}
IN_BATCH = FUNCTIONS | REPORTS | {"VERSIONS": "VERSIONS({}, grace => INTERVAL 1 DAY{})"}
FIRST = "!"  # the first row of each moment moves stream time, as a key of its own
ROWS = [(second, number) for number, second in enumerate([0, 3, 12, 15, 16, 40, 41, 47])]


def every_call(calls: dict[str, str], view: str, keyed: str = " PARTITION BY k ORDER BY ts", more: str = "") -> str:
    parts = [f"SELECT '{n}' AS f, k, to_json(struct(*)) AS row FROM {c.format(f'TABLE({view}){keyed}', more)}" for n, c in calls.items()]
    return " UNION ALL ".join(parts)


def check_alike(rows: list[Any], calls: dict[str, str]) -> None:
    """Each key has its rows, and each key's rows are those of the others."""
    found = {name: Counter[tuple[str, str]]() for name in SAME}
    for row in (r for r in rows if r.k != FIRST):
        name = next(n for n, k in SAME.items() if k == row.k)
        told = json.loads(row.row)
        told.pop("k")
        told.pop("session_id", None)
        found[name][row.f, json.dumps(told)] += 1
    assert found["ONE"] == found["TWO"] == found["other"]
    assert {f for f, _ in found["ONE"]} == set(calls)


def test_keys_that_collide_are_told_apart_in_batch(spark: SparkSession) -> None:
    rows = [(k, at(second), number) for second, number in ROWS for k in (FIRST, *SAME.values())]
    spark.createDataFrame(rows, "k STRING, ts TIMESTAMP, id INT").createOrReplaceTempView("colliding")
    check_alike(spark.sql(every_call(IN_BATCH, "colliding")).collect(), IN_BATCH)


def test_keys_that_collide_are_told_apart_by_python_udtfs(spark: SparkSession, udtfs: None) -> None:
    rows = [(k, at(second), number) for second, number in ROWS for k in (FIRST, *SAME.values())]
    spark.createDataFrame(rows, "k STRING, ts TIMESTAMP, id INT").createOrReplaceTempView("colliding")
    calls = {n: re.sub(r"^(\w+)\(", r"py_\1(", c) for n, c in IN_BATCH.items()}
    options = ", keys => ARRAY('k'), order_by => ARRAY('id'), time => 'ts'"
    check_alike(spark.sql(every_call(calls, "colliding", "", options)).collect(), calls)


@pytest.mark.long("tests/sql/stream/test_buckets.py")
def test_keys_that_collide_are_told_apart_on_a_stream(source: Source) -> None:
    calls = {name: call for name, call in FUNCTIONS.items() if name != "for ever"} | {"SESSIONIZE, all": REPORTS["SESSIONIZE, all"]}
    for part in (ROWS[:4], ROWS[4:]):
        source.add([(k, at(second), number, number) for second, number in part for k in SAME.values()])
    source.add([(FIRST, at(1000), 99, 99)])  # what is held leaves
    check_alike(source.run(every_call(calls, "events")), calls)


def test_offsets_that_collide_are_no_redelivery(spark: SparkSession, source: Source, udtfs: None) -> None:
    call = "DEDUPLICATE(TABLE({}), within => INTERVAL 9 SECONDS, keys => ARRAY('id'), order_by => ARRAY('ts'), offset => 'k')"
    rows = [(ONE, at(0), 1, 0), (TWO, at(1), 1, 1), (ONE, at(2), 1, 2)]
    source.add(rows[:1])
    source.add(rows[1:])
    stream = source.run(f"SELECT off FROM {call.format('events')}")
    spark.createDataFrame(rows, source.ddl).createOrReplaceTempView("records")
    for found in (stream, *(spark.sql(f"SELECT off FROM {door}{call.format('records')}").collect() for door in ("", "py_"))):
        assert sorted(r.off for r in found) == [0, 2]


def unmixed(value: int) -> int:
    """The inverse of `keys._mixed`."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, None)):
        found = value
        for _ in range(64 // shift):
            found = value ^ found >> shift
        value = found if factor is None else found * pow(factor, -1, 2**64) % 2**64
    return value


def mixed(value: int) -> int:
    return int(keys._mixed(np.array([value % 2**64], np.uint64))[0])


def numbers(*columns: list[int | None], secret: str = "s") -> list[tuple[int, int]]:
    arrays = [pa.array([None if v is None else (v + 2**63) % 2**64 - 2**63 for v in c], pa.int64()) for c in columns]
    first, second = keys.halves(arrays, len(columns[0]), secret)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def test_integers_that_collided_without_a_secret_are_told_apart() -> None:
    assert unmixed(mixed(12345)) == 12345
    null = mixed(mixed(1))  # what a null counted as
    assert len(set(numbers([None, null]))) == 2
    a, b, c = 5, 6, 7  # once mixed(mixed(mixed(a) + b) + c) and mixed(c) + b
    other_b = mixed(c) + b - mixed(c + 1)
    other_a = unmixed((unmixed((mixed(mixed(a) + b) + c - c - 1) % 2**64) - other_b) % 2**64)
    assert mixed(mixed(other_a) + other_b) + c + 1 == mixed(mixed(a) + b) + c
    assert len(set(numbers([a, other_a], [b, other_b], [c, c + 1]))) == 2


def test_numbers_of_keys_hold_in_any_batch_and_nowhere_but_under_their_secret() -> None:
    columns = [[1, 1, None, 2, None], [1, None, 1, 2, None], [3, 3, 3, None, None]]
    whole = numbers(*columns)
    assert len(set(whole)) == 5
    assert [numbers(*([v] for v in row))[0] for row in zip(*columns, strict=True)] == whole
    assert not set(whole) & set(numbers(*columns, secret="t"))
    one, two = numbers([1, None], [2, 2]), numbers([1, None], [2, 2], secret="t")
    assert one[0] == two[0]  # surely told apart, so no secret is needed
    assert one[1] != two[1]


def test_digests_are_taken_apart_as_a_whole_and_wherever_their_column_begins() -> None:
    digests = [bytes(range(32)), bytes([1, *range(1, 32)]), bytes([*range(31), 0]), bytes(32), None]
    column = pa.array([b"", *digests], pa.binary()).slice(1)
    first, second = keys.halves([column], 5, "s")
    assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == 5


def test_text_of_several_keys_is_one_to_one(spark: SparkSession) -> None:
    parts = [None, "", "-", "=", ":", "1:", "1:-", "a", "é", "0:=", "-=", "2:é"]
    rows = [(a, b, c) for a in parts for b in parts for c in parts]
    view = spark.createDataFrame(rows, "a STRING, b STRING, c STRING")
    assert view.selectExpr(f"{one_to_one(['a', 'b', 'c'])} AS t").distinct().count() == len(rows)


def test_a_checkpoint_that_told_keys_apart_in_the_old_way_is_refused_with_what_to_do() -> None:
    handle = Handle()
    options = {STATE: "1", "within": "10"}
    old = {"options": options, "next_slot": 0, "timer": None, "released": 0, "slices": []}
    handle.values["index"] = (json.dumps(old).encode(),)
    judge = Judge(plan(Deduplicate(within=10), options=options | {STATE: STATE_FORM}))
    judge.init(handle)
    with pytest.raises(
        StateError, match=r"F: the query's checkpoint was written by another version .* Start the query with a new checkpoint"
    ):
        list(judge.handleInputRows((0,), iter([pd.DataFrame({"data": [b""]})]), Times(0)))


def test_each_bucket_has_a_secret_of_its_own_that_stays(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        handle = Handle()
        for _ in range(2):
            judge = Judge(plan(Deduplicate(within=10), output="rows", results=("kept_time",)))
            judge.init(handle)
            data = pa.BufferOutputStream()
            rows = table([{"k": "a", "t": 5000, "id": 1}])
            with pa.ipc.new_stream(data, rows.schema) as writer:
                writer.write(rows)
            list(judge.handleInputRows((0,), iter([pd.DataFrame({"data": [data.getvalue().to_pybytes()]})]), Times(0)))
            found.append(json.loads(handle.values["index"][0])["secret"])
    assert found[0] == found[1] != found[2] == found[3]
    assert len(found[0]) == 32
