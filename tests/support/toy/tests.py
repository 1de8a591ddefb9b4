"""EVERY_NTH against its slow meaning: the kernel, cut into random batches, and the function, over rows that are shuffled."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.inputs.batches import cut
from support.reference import Row
from support.reference.every_nth import every_nth

from streamtime.udfs.every_nth import EveryNth

KEYS = ("a", "", "b`", None)


def rows(seed: int) -> list[Row]:
    """Times tie, and are null; so are keys."""
    rng = random.Random(seed)
    return [{"k": rng.choice(KEYS), "t": rng.choice([None, 0, 5, 5, -(10**15)]), "id": i} for i in range(rng.choice([0, 1, 60]))]


@pytest.mark.parametrize("seed", range(30))
def test_the_kernel_counts_the_rows_of_a_key_wherever_batches_end(seed: int) -> None:
    given = [r for r in rows(seed) if r["k"] is not None and r["t"] is not None]
    given.sort(key=lambda r: (r["k"], r["t"], r["id"]))
    batches = cut(random.Random(seed), [pa.array([r["k"] for r in given], pa.string())])
    places = [place for batch in EveryNth(3).run(iter(batches)) for place in batch.to_pylist()]
    passed = {r["id"] for r, place in zip(given, places, strict=True) if place % 3 == 0}
    assert passed == {j.row["id"] for j in every_nth(given, ["t"], 3) if j.reason is None}


def test_the_function_says_of_each_row_what_the_slow_meaning_does(spark: SparkSession) -> None:
    given = [r for r in rows(5) for _ in range(2)]
    given = [r | {"id": i} for i, r in enumerate(given)]
    assert len(given) == 120
    random.Random(3).shuffle(given)
    schema = "k STRING, t BIGINT, id INT"
    spark.createDataFrame([tuple(r.values()) for r in given], schema).createOrReplaceTempView("numbers")
    text = "SELECT id, reason FROM EVERY_NTH(TABLE(SELECT k, timestamp_micros(t) AS ts, id FROM numbers) PARTITION BY k ORDER BY ts, n => 3, output => 'all')"
    assert {r.id: r.reason for r in spark.sql(text).collect()} == {j.row["id"]: j.reason for j in every_nth(given, ["t"], 3)}
