"""The smallest and the largest of a group's values while values come and go, by Spark's own operators, against a list that is sorted anew."""

from __future__ import annotations

import math
import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamtime.sql.plain.extremes import Extreme, with_extremes

ASKED = {"least": Extreme("v", largest=False), "most": Extreme("v", largest=True), "most `w`": Extreme("w", largest=True)}
Row = tuple[str | None, int, bool, float | None, int | None]


def changes(seed: int) -> list[Row]:
    """Of each key values that come, several times the same one, and go; one key is NULL, of one nothing goes, of one nothing is left."""
    rng, rows = random.Random(seed), list[Row]()
    for key, count, goes in (("a", 70, 0.5), (None, 33, 0.4), ("", 17, 0.0), ("`", 1, 0.0)):
        there = list[tuple[float | None, int | None]]()
        for place in range(count):
            if there and rng.random() < goes:
                rows.append((key, place, False, *there.pop(rng.randrange(len(there)))))
            else:
                there.append((rng.choice([None, 0.0, -0.0, 1.5, -7.25, math.inf, 3.0]), rng.choice([None, 1, 2, -(2**62)])))
                rows.append((key, place, True, *there[-1]))
        if key == "a":
            rows += [(key, count + i, False, *one) for i, one in enumerate(there)]
    return rows


def test_each_change_has_the_best_of_what_is_there_then(spark: SparkSession) -> None:
    rows = changes(7)
    shuffled = random.Random(8).sample(rows, len(rows))
    df = spark.createDataFrame(shuffled, "k STRING, n INT, comes BOOLEAN, v DOUBLE, w BIGINT")
    told = with_extremes(df, ["k"], [F.col("n").asc()], "comes", ASKED).collect()
    there = dict[str | None, tuple[list[float], list[int]]]()
    expected = dict[tuple[str | None, int], tuple[float | int | None, ...]]()
    for key, place, comes, *values in rows:
        held = there.setdefault(key, ([], []))
        for some, value in zip(held, values, strict=True):
            if value is not None:
                (some.append if comes else some.remove)(value)  # type: ignore[arg-type]
        expected[key, place] = (min(held[0], default=None), max(held[0], default=None), max(held[1], default=None))
    assert len(told) == len(rows)
    assert {(r.k, r.n): (r["least"], r["most"], r["most `w`"]) for r in told} == expected
    assert sorted(map(repr, rows)) == sorted(repr(tuple(r)[:5]) for r in told)
