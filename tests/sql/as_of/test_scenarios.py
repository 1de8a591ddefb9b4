"""AS_OF_JOIN against the slow definition: hundreds of small scenarios in one query, each of them in several orders of its rows.

A scenario's number is one of its keys and the clock. Times, arrivals and what rows are ordered by are often equal, often null, and lie
in any year.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.inputs import nasty
from support.reference import as_of as slow

from streamtime.sql.as_of import lookup, waiting
from streamtime.sql.rows import scans

pytestmark = [
    pytest.mark.usefixtures("as_users_in_all"),
    pytest.mark.short("random rows of every nastiness, judged by the slow definition"),
]

SECOND = 1_000_000
FIRST, LAST = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1  # the years 1 to 9999
LEFT = {"s": "INT", "k": "STRING", "t": "BIGINT", "o": "INT", "a": "INT"}
RIGHT = {"c": "INT", "s": "INT", "k": "STRING", "n": "INT", "t": "BIGINT", "o": "INT", "gone": "BOOLEAN", "b": "STRING"}
COPIES = 3  # of each scenario, with its rows in another order
Rows = list[dict[str, Any]]


def scenario(random_: random.Random, number: int) -> tuple[Rows, Rows]:
    """A few rows of both sides that have much in common."""
    step = random_.choice([1, SECOND // 2, SECOND, SECOND])
    origin = random_.choice([0, 0, 0, FIRST, LAST - 12 * step, -3 * step, 2**53 - step])
    times = [None, *[origin + i * step for i in range(random_.choice([1, 3, 8, 12]))] * 4]
    if random_.random() < 0.1:
        times += [FIRST, LAST, -1]
    arrivals = [None, *range(random_.choice([1, 2, 6, 12]))] * 2 + [0]
    keys = [None, *"aaaab"]

    def row(columns: dict[str, str], **more: Any) -> dict[str, Any]:
        s = None if random_.random() < 0.03 else number
        shared = {"s": s, "k": random_.choice(keys), "t": random_.choice(times), "o": random_.choice(arrivals)}
        return {name: (shared | more)[name] for name in columns}

    small = [None, 0, 1]
    left = [row(LEFT, a=random_.choice(small)) for _ in range(random_.choice([0, 1, 4, 6]))]
    right = [
        row(
            RIGHT, c=random_.choice(small), n=random_.choice(small), gone=random_.choice([None, False, False, True]), b=random_.choice("xy")
        )
        for _ in range(random_.choice([0, 1, 3, 8]))
    ]
    return left, right


def view(spark: SparkSession, random_: random.Random, rows: Rows, types: dict[str, str], name: str) -> DataFrame:
    """The rows in any order, over any number of files, with times that are such."""
    shuffled = [tuple(r.values()) for r in random_.sample(rows, len(rows))]
    df = spark.createDataFrame(shuffled, ", ".join(f"{n} {t}" for n, t in types.items()))
    df = df.coalesce(random_.randint(1, 3)).withColumn("t", F.timestamp_micros("t"))
    df.createOrReplaceTempView(name)
    return df


@dataclass
class Config:
    """The options of one query."""

    order: list[slow.By] = field(default_factory=list)
    slow: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    def call(self, **more: str) -> str:
        keys = "PARTITION BY (s, k)"
        order = ", ".join(["t", *(_written(b) for b in self.order)])
        options = ", ".join(f"{name} => {value}" for name, value in (self.options | more).items())
        return f"AS_OF_JOIN(TABLE(l) {keys} ORDER BY t, TABLE(r) {keys} ORDER BY ({order}), deleted => 'gone', {options})"


def _written(by: slow.By) -> str:
    if isinstance(by, str):
        return by
    name, up, nulls_first = by
    return f"{name} {'ASC' if up else 'DESC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def interval(micros: int) -> str:
    return f"INTERVAL '{micros / 1e6:.6f}' SECOND"


ORDERS: list[list[slow.By]] = [[], ["o"], ["n"], [("n", False, True)], [("c", False, False), "n"], [("b", True, True), ("n", True, False)]]


def random_config(random_: random.Random, seed: int) -> Config:
    """With and without `arrival`, in turn."""
    config = Config(ORDERS[seed % len(ORDERS)])
    exact, tolerance = random_.random() < 0.7, random_.choice([None, None, 0, 3 * SECOND])
    config.slow = {"exact": exact, "tolerance": tolerance}
    config.options = {"allow_exact": str(exact)} | ({"tolerance": interval(tolerance)} if tolerance is not None else {})
    if seed % 3 == 2:
        direction, ties = random_.choice(["backward", "forward", "nearest"]), random_.choice(["last", "first"])
        config.slow |= {"direction": direction, "ties": ties}
        config.options |= {"direction": f"'{direction}'", "ties": f"'{ties}'"}
        return config
    durations = [0, 1, SECOND, 2 * SECOND, 5 * SECOND, 106_000_000 * 86_400 * SECOND]
    retention, grace = random_.choice([None, *durations]), random_.choice([None, *durations])
    grace = min(grace, retention) if grace is not None and retention is not None else grace
    config.options["arrival"] = "'o'"
    config.slow |= {"retention": retention, "grace": grace}
    config.options |= {n: interval(d) for n, d in (("retention", retention), ("grace", grace)) if d is not None}
    if grace is not None:
        config.slow["at_end"] = random_.choice(["emit", "hold"])
        config.options["at_end"] = f"'{config.slow['at_end']}'"
    return config


def with_clock(config: Config, clock_by: str) -> None:
    """The clock runs for each scenario, for each of its keys, or over everything."""
    if "arrival" in config.options:
        by = {"scenario": "s", "key": "sk", "all": ""}[clock_by]
        config.slow["clock_by"] = lambda row: tuple(row["key"][i] for i in range(len(by)))
        if by:
            config.options["clock_by"] = f"ARRAY({', '.join(repr(c) for c in by)})"


def expected(config: Config, left: Rows, right: Rows) -> list[slow.Joined]:
    sides = [
        [r | {"k": None if None in (r["s"], r["k"]) else (r["s"], r["k"]), "key": (r["s"], r["k"])} for r in rows] for rows in (left, right)
    ]
    join = slow.known_as_of if "arrival" in config.options else slow.as_of_join
    found = join(*sides, order=["t", *config.order], **config.slow)
    for joined, row in zip(found, left, strict=True):
        joined.row = row
        if joined.match is not None:
            joined.match = {n: joined.match["key"][1] if n == "k" else joined.match[n] for n in RIGHT}
    return found


def as_counted(found: list[slow.Joined]) -> Counter[Any]:
    nothing = dict.fromkeys(RIGHT)
    return Counter((*j.row.values(), *(j.match or nothing).values(), j.reason) for j in found)


def answers(spark: SparkSession, config: Config) -> dict[str, Counter[Any]]:
    """All outputs of a call, in one query."""
    names = [f"l_{n}" for n in LEFT] + [f"r_{n}" for n in RIGHT]
    columns = ", ".join(names)
    numbers = ", ".join(f"unix_micros({n}) AS {n}" if n in ("l_t", "r_t") else n for n in names)
    nulls = ", ".join(["NULL"] * len(RIGHT))
    parts = [
        f"SELECT 'all' AS what, {numbers}, reason FROM {config.call(output=repr('all'))} AS t({columns}, reason, x, y)",
        f"SELECT 'rows', {numbers}, NULL FROM {config.call()} AS t({columns})",
        f"SELECT 'left', {numbers}, NULL FROM {config.call(join_type=repr('left'))} AS t({columns})",
        f"SELECT 'dropped', s, k, unix_micros(t), o, a, {nulls}, reason FROM {config.call(output=repr('dropped'))}",
    ]
    found: dict[str, Counter[Any]] = {name: Counter() for name in ("all", "rows", "left", "dropped")}
    for what, *row in spark.sql(" UNION ALL ".join(parts)).collect():
        found[what][tuple(row)] += 1
    return found


def compare(spark: SparkSession, config: Config, found: list[slow.Joined]) -> None:
    got = answers(spark, config)
    kept = [slow.Joined(j.row, j.match) for j in found if j.reason != "held"]
    wanted = {
        "all": as_counted(found),
        "rows": as_counted([slow.Joined(j.row, j.match) for j in found if j.match]),
        "left": as_counted(kept),
        "dropped": as_counted([j for j in found if not j.match]),
    }
    for name, rows in wanted.items():
        assert not (rows - got[name]), f"{config.call()}\n{name}, expected and not there: {list(rows - got[name])[:3]}"
        assert not (got[name] - rows), f"{config.call()}\n{name}, there and not expected: {list(got[name] - rows)[:3]}"


@pytest.mark.parametrize("seed", range(12))
def test_hundreds_of_scenarios_in_any_order_of_rows_equal_the_slow_definition(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(lookup, "MOST_NARROW", (lookup.MOST_NARROW, 0)[seed % 2])  # wide rows take another way
    random_ = random.Random(seed)
    config = random_config(random_, seed)
    clock_by = ("scenario", "key", "scenario", "all")[seed % 4]
    with_clock(config, clock_by)
    left: Rows = []
    right: Rows = []
    for number in range(30 if clock_by == "all" else 150):
        rows = scenario(random_, number)
        for copy in range(1 if clock_by == "all" else COPIES):
            for side, part in zip((left, right), rows, strict=True):
                side += [r | {"s": None if r["s"] is None else number * COPIES + copy} for r in random_.sample(part, len(part))]
    view(spark, random_, left, LEFT, "l")
    view(spark, random_, right, RIGHT, "r")
    compare(spark, config, expected(config, left, right))


def test_right_rows_of_equal_arrival_are_taken_in_the_order_of_their_times(spark: SparkSession) -> None:
    """Three rows in each of their six orders, with a column before the time that says otherwise: the last time leaves the first expired."""
    rights = [("c", 0, 1), ("b", 3, 2), ("a", 10, 3)]
    rows = [(number, c, t, 1, o) for number, order in enumerate(itertools.permutations(rights)) for c, t, o in order]
    df = spark.createDataFrame(rows, "k INT, c STRING, t BIGINT, o INT, n INT").coalesce(1)
    df.withColumn("t", F.timestamp_seconds("t")).createOrReplaceTempView("r")
    left = spark.createDataFrame([(k, t, 2) for k in range(6) for t in (1, 4, 8, 11)], "k INT, t BIGINT, o INT")
    left.withColumn("t", F.timestamp_seconds("t")).createOrReplaceTempView("l")
    for order in ("t", "(t, n)", "(t, n DESC)"):
        for clock in ("", ", clock_by => ARRAY('k')"):
            call = (
                f"AS_OF_JOIN(TABLE(l) PARTITION BY k ORDER BY t, TABLE(r) PARTITION BY k ORDER BY {order}, output => 'all', arrival => 'o', "
                f"retention => INTERVAL 5 SECONDS{clock})"
            )
            found = spark.sql(
                f"SELECT k, unix_seconds(l.t) AS t, n, reason FROM {call} AS l(k, t, o, k2, c, t2, o2, n, reason, x, y)"
            ).collect()
            assert {(r.t, r.n, r.reason) for r in found} == {(1, None, "expired"), (4, None, "expired"), (8, 2, None), (11, 3, None)}
            assert len(found) == 24


def test_a_row_without_an_arrival_has_seen_nothing_with_or_without_grace(spark: SparkSession) -> None:
    left = "SELECT * FROM VALUES ('a', timestamp_seconds(5), NULL, 1), ('a', timestamp_seconds(50), 9, 2) AS l(k, t, o, n)"
    right = "SELECT * FROM VALUES ('a', timestamp_seconds(1), 1, 20) AS r(k, t, o, p)"
    call = (
        f"AS_OF_JOIN(TABLE({left}) PARTITION BY k ORDER BY t, TABLE({right}) PARTITION BY k ORDER BY t, arrival => 'o', join_type => 'left'"
    )
    for grace in (
        "",
        ", grace => INTERVAL 10 SECONDS",
        ", grace => INTERVAL 106751990 DAYS",
        ", grace => INTERVAL 46 SECONDS, at_end => 'hold'",
    ):
        rows = spark.sql(f"SELECT n, p FROM {call}{grace}) ORDER BY n").collect()
        assert [tuple(r) for r in rows] == [(1, None)] + ([] if "hold" in grace else [(2, 20)])


def test_expired_are_only_rows_that_nothing_but_retention_kept_from_a_match(spark: SparkSession) -> None:
    left = "SELECT * FROM VALUES ('a', timestamp_seconds(5), 9) AS l(k, t, o)"
    right = "SELECT * FROM VALUES ('a', timestamp_seconds(1), 1, 20), ('a', timestamp_seconds(90), 2, 30) AS r(k, t, o, p)"
    call = f"AS_OF_JOIN(TABLE({left}), TABLE({right}), arrival => 'o', retention => INTERVAL 10 SECONDS, output => 'dropped', order_by => ARRAY('t'), "
    for more, reason in (
        ("on => 'l.k = r.k'", "expired"),
        ("on => 'l.k = r.k AND p > 10'", "expired"),
        ("on => 'l.k = r.k AND p > 20'", "no_match"),
        ("on => 'l.k = r.k', tolerance => INTERVAL 4 SECONDS", "expired"),
        ("on => 'l.k = r.k', tolerance => INTERVAL 3 SECONDS", "no_match"),
    ):
        assert [r.reason for r in spark.sql(f"SELECT reason FROM {call}{more})").collect()] == [reason]


KEYS = ("s", "k", "d")
NASTY = [  # what is written, and what it means
    ("", {}),
    (
        ", direction => 'forward', allow_exact => false, ties => 'first', tolerance => INTERVAL 3 SECONDS",
        {"direction": "forward", "exact": False, "ties": "first", "tolerance": 3 * SECOND},
    ),
    (", direction => 'nearest'", {"direction": "nearest"}),
    (
        ", arrival => 'off', clock_by => ARRAY('s'), retention => INTERVAL 9 SECONDS, grace => INTERVAL 1 SECOND, at_end => 'hold'",
        {"retention": 9 * SECOND, "grace": SECOND, "at_end": "hold", "clock_by": lambda row: row["s"]},
    ),
    (", arrival => 'off', clock_by => ARRAY('s'), allow_exact => false", {"exact": False, "clock_by": lambda row: row["s"]}),
]


@pytest.mark.parametrize(("options", "means"), NASTY)
def test_rows_as_bad_as_it_gets_under_odd_names(spark: SparkSession, options: str, means: dict[str, Any]) -> None:
    """Half of the rows look up the other half: NaN and two zeros in a key, a hot key, days on which clocks change, the ends of TIMESTAMP."""
    look_up(spark, options, means)


@pytest.mark.parametrize("seconds", [0, 1, 40 * 86_400, 106_751_990 * 86_400])
def test_rows_of_one_clock_wait_in_as_many_tasks_as_there_are(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    monkeypatch.setattr(scans, "SMALL", 0)
    monkeypatch.setattr(waiting, "worth_spreading", lambda _: True)
    options = f", arrival => 'off', grace => INTERVAL {seconds} SECONDS, at_end => 'hold'"
    assert "hashpartitioning(__streamtime_apart" in look_up(
        spark, options, {"grace": seconds * SECOND, "at_end": "hold"}, 60 if seconds < 2 else 0
    )


def look_up(spark: SparkSession, options: str, means: dict[str, Any], least: int = 60) -> str:
    """Nasty rows by a call, and by the slow definition, in which so many find one at least. Gives the plan."""
    rows = nasty.scenarios(23, 120)
    far = nasty.scenarios(24, 60, moments=nasty.ENDS, low=-nasty.HIGHEST, high=nasty.HIGHEST)
    rows += [r | {"s": r["s"] + 1000, "id": r["id"] + len(rows)} for r in far]
    sides = [[r for r in rows if r["id"] % 2 == odd] for odd in (1, 0)]
    odd = nasty.ODD | {"off": "off", "s": "s"}  # both sides call their arrival and their clock the same
    nasty.view(spark, sides[0])
    nasty.view(spark, sides[1], name="odd", names=odd)
    names = nasty.Names(odd)
    inputs = f"{nasty.Names({}).clauses(KEYS, ['t'])}, {names.clauses(KEYS, ['t', 'id'], 'odd')}"
    text = f"AS_OF_JOIN({inputs}, deleted => {names.option('{gone}')}, output => 'all'{options})"
    answer = spark.sql(f"SELECT j.id, j.{names.quoted['id']}, reason FROM {text} AS j")
    found = Counter(tuple(r) for r in answer.collect())
    left, right = ([r | {"o": r["off"]} for r in nasty.meant(side, KEYS)] for side in sides)
    join = slow.known_as_of if "arrival" in options else slow.as_of_join
    meant = join(left, right, order=("t", "id"), **means)
    wanted = Counter((j.row["id"], j.match["id"] if j.match else None, j.reason) for j in meant)
    assert found == wanted, (text, sorted((found - wanted) | (wanted - found), key=str)[:9])
    assert sum(1 for j in meant if j.match) > least
    assert {r["d"] for r in left if r["d"] is not None} >= {nasty.NAN, 0.0}
    return str(answer._jdf.queryExecution().executedPlan().toString())
