"""Input as bad as it gets, and small: many scenarios in one table, so that one query judges them all.

A scenario is some rows with a number `s`, which belongs into the key and into `clock_by`, so that no scenario sees another. It has NULL in
every role, equal times, equal arrivals, times that run backwards, single microseconds, years 1 to 9999, and days on which clocks change.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

SECOND = 1_000_000
EPOCH = datetime.datetime(1970, 1, 1)


def at(text: str) -> int:
    """A moment as microseconds since 1970."""
    return (datetime.datetime.fromisoformat(text) - EPOCH) // datetime.timedelta(microseconds=1)


FIRST, LAST = at("0001-01-01T00:00:00"), at("9999-12-31T23:59:59.999999")
LOWEST, HIGHEST = -(2**63), 2**63 - 1  # what TIMESTAMP holds beyond the years that Python knows
MOMENTS = (
    *(at(day) for day in ("0001-01-02", "0044-03-15", "1582-10-14", "1600-02-29", "1683-12-31")),
    *(at(day) for day in ("1883-11-18T17:00:00", "1901-12-13T20:45:52", "1969-12-31T23:59:50", "1970-01-01", "2001-09-09T01:46:40")),
    *(at(day) for day in ("2024-03-31T00:59:58", "2024-03-31T02:00:00", "2024-10-27T00:59:58", "2024-10-27T02:30:00")),
    *(at(day) for day in ("2038-01-19T03:14:08", "2255-06-05T23:47:34", "2262-04-11T23:47:16", "2300-01-01", "9999-12-31T23:00:00")),
)
ENDS = (LOWEST, LOWEST + 9 * SECOND, LOWEST + 10**9, FIRST, -1, LAST, HIGHEST - 10**9, HIGHEST - 9 * SECOND, HIGHEST)  # of TIMESTAMP
KEYS = (None, "", "a", "a", "b", "O'Hara | \\ `x` \U0001f600")
CLOCKS = (None, None, "x", "")


def scenarios(seed: int, count: int, most: int = 14, moments: Sequence[int] = MOMENTS, low: int = FIRST, high: int = LAST) -> list[Row]:
    """Rows of that many scenarios; every tenth is empty."""
    random_ = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        some = [random_.choice(moments) for _ in range(random_.choice([1, 1, 1, 2]))]
        unit = random_.choice([1, 3, SECOND // 3, SECOND, SECOND, 5 * SECOND, 3_600 * SECOND])
        clocks = random_.choice([CLOCKS, [None], ["x", None]])
        arrivals = random_.choice([1, 1, 2, 5])
        for place in range(0 if number % 10 == 9 else random_.randint(1, most)):
            moment = random_.choice(some) + unit * random_.randint(-3, 12) + random_.choice([0, 0, 0, 1, -1])
            rows.append(
                {
                    "s": number,
                    "k": random_.choice(KEYS),
                    "c": random_.choice(clocks),
                    "off": None if random_.random() < 0.05 else place - place % arrivals,
                    "t": None if random_.random() < 0.05 else min(max(moment, low), high),
                    "v": random_.choice([None, *range(-3, 9)]),
                    "id": len(rows),
                }
            )
    return rows


def view(spark: SparkSession, rows: Sequence[Row], kind: str = "TIMESTAMP", name: str = "nasty") -> DataFrame:
    """The rows as a view, in no order, with `t` as event time of that type and `micros` as the number that it was made of."""
    moment = {
        "TIMESTAMP": "timestamp_micros(micros)",
        "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1970-01-01' + micros * INTERVAL '0.000001' SECOND",
        "DATE": "date_from_unix_date(CAST(micros DIV 86400000000 - CAST(micros % 86400000000 < 0 AS BIGINT) AS INT))",
    }[kind]
    shuffled = random.Random(0).sample(list(rows), len(rows))
    given = [tuple(r[c] for c in ("s", "k", "c", "off", "t", "v", "id")) for r in shuffled]
    df = spark.createDataFrame(given, "s INT, k STRING, c STRING, off INT, micros BIGINT, v INT, id INT")
    df = df.selectExpr("s", "k", "c", "off", f"{moment} AS t", "v", "id")
    df.createOrReplaceTempView(name)
    return df


def micros(column: str, kind: str = "TIMESTAMP") -> str:
    """SQL text for a time as a number, which needs no `datetime`: that ends with the year 9999."""
    if kind == "TIMESTAMP":
        return f"unix_micros({column})"
    apart = f"({column} - TIMESTAMP_NTZ '1970-01-01')"
    fields = f"extract(DAY FROM {apart}) * 86400L + extract(HOUR FROM {apart}) * 3600 + extract(MINUTE FROM {apart}) * 60"
    return f"(({fields}) * 1000000 + CAST(extract(SECOND FROM {apart}) * 1000000 AS BIGINT))"


def interval(length: int) -> str:
    """A duration in microseconds as SQL text, by integers alone."""
    return f"INTERVAL '{length // SECOND}.{length % SECOND:06d}' SECOND"
