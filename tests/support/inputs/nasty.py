"""Input as bad as it gets, and small: many scenarios in one table, so that one query judges them all.

A scenario is some rows with a number `s`, which belongs into the key and into `clock_by`, so that no scenario sees another. It has NULL in
every role, equal times, equal arrivals, times that run backwards, single microseconds, years 1 to 9999, days on which clocks change, NaN and
two zeros as keys, and here and there a hot key.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamtime.sql.syntax.text import literal, quoted

Row = dict[str, Any]

SECOND, DAY = 1_000_000, 86_400_000_000
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
DOUBLES = (None, 0.0, -0.0, -0.0, float("nan"), float("nan"), 1.5, float("-inf"))  # 0.0 is -0.0 and NaN is NaN, as GROUP BY has them
NAN = 1e300  # stands for NaN in a slow definition: greater than all others, and equal to itself
HOT = 25  # every so many scenarios there is one whose rows are many, and nearly all of one key
COLUMNS = {
    "s": "INT", "k": "STRING", "c": "STRING", "off": "INT", "t": "BIGINT", "v": "INT", "d": "DOUBLE", "u": "BIGINT", "gone": "BOOLEAN", "id": "INT",
}  # fmt: skip
ODD = {
    "s": "s`s",
    "k": "k.k",
    "c": "c c",
    "off": "o'f\"f",
    "t": "t.`\U0001f551",
    "v": "{v}",
    "d": " D\\n",
    "u": "`",
    "gone": "*",
    "id": "i-d",
}


def scenarios(seed: int, count: int, most: int = 14, moments: Sequence[int] = MOMENTS, low: int = FIRST, high: int = LAST) -> list[Row]:
    """Rows of that many scenarios; every tenth is empty."""
    random_, more = random.Random(seed), random.Random(-1 - seed)
    rows: list[Row] = []
    for number in range(count):
        some = [random_.choice(moments) for _ in range(random_.choice([1, 1, 1, 2]))]
        unit = random_.choice([1, 3, SECOND // 3, SECOND, SECOND, 5 * SECOND, 3_600 * SECOND])
        clocks = random_.choice([CLOCKS, [None], ["x", None]])
        arrivals = random_.choice([1, 1, 2, 5])
        hot = number % HOT == HOT // 2
        for place in range(0 if number % 10 == 9 else 60 + number % 7 if hot else random_.randint(1, most)):
            moment = random_.choice(some) + unit * random_.randint(-3, 12) + random_.choice([0, 0, 0, 1, -1])
            row = {
                "s": number,
                "k": random_.choice(KEYS),
                "c": random_.choice(clocks),
                "off": None if random_.random() < 0.05 else place - place % arrivals,
                "t": None if random_.random() < 0.05 else min(max(moment, low), high),
                "v": random_.choice([None, *range(-3, 9)]),
            }
            if hot and more.random() < 0.95:
                row["k"] = "a"
            row["d"] = more.choice(DOUBLES)
            end = moment + unit * more.choice([-2, 0, 1, 1, 2, 5]) + more.choice([0, 0, 1])
            row["u"] = None if more.random() < 0.05 else min(max(end, low), high)
            row["gone"] = more.choice([None, False, False, True])
            rows.append(row | {"id": len(rows)})
    return rows


def drifting(seed: int, count: int, unit: int, far: bool, late: int | None = None) -> list[Row]:
    """Rows of one clock that goes on, some of them late, in every role sometimes null; with `far`, to the last moment there is."""
    random_ = random.Random(seed)
    late = random_.choice([0, 5, 40]) if late is None else late
    speed, keys = random_.choice([1, 3]), random_.choice(["ab", "abcdefgh"])
    start = HIGHEST - unit * (count // speed) if far else at("2024-03-10 01:59:00")
    start -= start % unit if unit > 1 and not far else 0
    rows = []
    for place in range(count):
        t = min(start + unit * (place // speed + random_.randint(-late, late)), HIGHEST)
        end = min(t + unit * random_.randint(-3, 9), HIGHEST)
        rows.append(
            {
                "s": 0,
                "k": random_.choice([None, *keys, "a", "a"]),
                "c": None,
                "off": None if random_.random() < 0.05 else place - place % random_.choice([1, 1, 4]),
                "t": None if random_.random() < 0.05 else t,
                "v": random_.choice([None, *range(-3, 9)]),
                "d": random_.choice(DOUBLES),
                "u": None if random_.random() < 0.05 else end,
                "gone": random_.choice([None, False, False, True]),
                "id": place,
            }
        )
    return rows


def meant(rows: Sequence[Row], keys: Sequence[str] = ()) -> list[Row]:
    """The rows for a slow definition, in which NaN is equal to itself. With `keys`, these are one key, `k`, and the column is `name`."""
    known = [r | {"d": NAN if r["d"] != r["d"] else r["d"]} for r in rows]
    if not keys:
        return known
    identities = [tuple(r[k] for k in keys) for r in known]
    as_one = [None if None in i else i for i in identities]
    return [{"name" if c == "k" else c: v for c, v in r.items()} | {"k": k} for r, k in zip(known, as_one, strict=True)]


def view(
    spark: SparkSession, rows: Sequence[Row], kind: str = "TIMESTAMP", name: str = "nasty", names: Mapping[str, str] = {}
) -> DataFrame:
    """The rows as a view, in no order, with `t` as event time of that type, and `u` as another. `names` are what else columns are called."""
    moment = {
        "TIMESTAMP": "timestamp_micros({})",
        "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1970-01-01' + {} * INTERVAL '0.000001' SECOND",
        "DATE": "date_from_unix_date(CAST({0} DIV 86400000000 - CAST({0} % 86400000000 < 0 AS BIGINT) AS INT))",
    }[kind]
    shuffled = random.Random(0).sample(list(rows), len(rows))
    df = spark.createDataFrame([tuple(r[c] for c in COLUMNS) for r in shuffled], ", ".join(map(" ".join, COLUMNS.items())))
    df = df.selectExpr(*[f"{moment.format(c)} AS {c}" if c in ("t", "u") else c for c in COLUMNS])
    df = df.toDF(*[names.get(c, c) for c in COLUMNS])
    df.createOrReplaceTempView(name)
    return df


def drifted(
    spark: SparkSession, seed: int, count: int, kind: str = "TIMESTAMP", far: bool = False, late: int | None = None
) -> tuple[list[Row], int, Names]:
    """Drifting rows as the view `nasty`, every other time under odd names; the unit of their times, a second or a day; and their names."""
    unit = DAY if kind == "DATE" else SECOND
    rows = drifting(seed, count, unit, far, late)
    odd = ODD if seed % 2 else {}
    view(spark, rows, kind, names=odd)
    return rows, unit, Names(odd)


def in_files(spark: SparkSession, folder: Path, name: str = "nasty") -> None:
    """The same view, whose rows are in files now: few of them, which may be read again."""
    spark.table(name).repartition(3).write.parquet(str(folder / name))
    spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)


class Names:
    """What columns are called, in SQL text with their plain names in braces."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.quoted = {c: quoted(names.get(c, c)) for c in COLUMNS}

    def sql(self, text: str) -> str:
        """As SQL."""
        return text.format_map(self.quoted)

    def option(self, text: str) -> str:
        """As SQL in a string."""
        return literal(self.sql(text))

    def options(self, texts: Sequence[str]) -> str:
        """As an array of such strings."""
        return f"ARRAY({', '.join(map(self.option, texts))})"

    def clauses(self, keys: Sequence[str], order: Sequence[str], table: str = "nasty") -> str:
        """A table with its keys and its processing order."""
        by = ", ".join(f"{{{o.split()[0]}}}{o[len(o.split()[0]) :]}" for o in order)
        return self.sql(f"TABLE({table}) PARTITION BY ({', '.join(f'{{{k}}}' for k in keys)}) ORDER BY ({by})")


def about(seconds: float | None) -> str | None:
    """A number that people read, to ten digits."""
    return None if seconds is None else f"{seconds:.10g}"


def compare(got: Counter[Any], wanted: Counter[Any], rows: Sequence[Row], text: str) -> None:
    """Both say the same of each row, which is known by what comes second, its number; else what differs, and all rows of that scenario."""
    if got == wanted:
        return
    differ = sorted((got - wanted) | (wanted - got), key=lambda r: r[1])
    scenario = {r["id"]: r["s"] for r in rows}[differ[0][1]]
    of = [r for r in rows if r["s"] == scenario]
    ids = {r["id"] for r in of}
    listed = [
        "",
        text,
        *of,
        "got:",
        *(r for r in differ if r in got and r[1] in ids),
        "wanted:",
        *(r for r in differ if r in wanted and r[1] in ids),
    ]
    raise AssertionError("\n".join(map(str, [f"{len({r[1] for r in differ})} rows differ", *listed])))


def counted(spark: SparkSession, text: str, wanted: Counter[Any]) -> None:
    """The metrics of a call count each reason as its dropped rows do, and are numbers at the ends of TIMESTAMP too."""
    reasons = Counter(row[2] for row in wanted.elements() if row[0] == "dropped")
    found = {r.metric: r.value for r in spark.sql(f"SELECT metric, value FROM {text}").collect()}
    totals = {m.removesuffix("_drop_total"): v for m, v in found.items() if m.endswith("_drop_total")}
    assert totals == {reason: float(reasons[reason]) for reason in totals}
    assert set(reasons) <= set(totals)
    assert found["record_lateness_max"] >= found["record_lateness_avg"] > 0


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


def near_and_far(spark: SparkSession, seed: int) -> list[Row]:
    """Rows of ordinary times and of the ends of TIMESTAMP, as the view `nasty`, and under odd names as `odd`."""
    rows = scenarios(seed, 150)
    far = scenarios(seed + 1, 60, moments=ENDS, low=-HIGHEST, high=HIGHEST)
    rows += [r | {"s": r["s"] + 1000, "id": r["id"] + len(rows)} for r in far]
    view(spark, rows)
    view(spark, rows, name="odd", names=ODD)
    return rows
