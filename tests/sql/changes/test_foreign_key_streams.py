"""JOIN_CHANGES with `on` on real streams: Kafka's cases and random changelogs by the letter of J8, change by change, cut into micro-batches at
random, and stopped and started again; what batch gives; reports; what is refused."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.reference.foreign_key import CASES, Row, drawn, of_case, place, slow
from support.streams import Source, at

EPOCH = datetime(1970, 1, 1)
DDL = "scenario STRING, side STRING, k STRING, n BIGINT, ts TIMESTAMP, v STRING, fk STRING, gone BOOLEAN"
JOIN = (
    "JOIN_CHANGES(TABLE(SELECT scenario, k, CAST(n AS INT) AS n, ts, v AS l, fk, gone FROM {0} WHERE side = 'left')"
    " PARTITION BY (scenario, k) ORDER BY n,"
    " TABLE(SELECT scenario, k AS id, n, ts, v AS `r.``v`, gone FROM {0} WHERE side = 'right') PARTITION BY (scenario, id) ORDER BY n,"
    " on => 'l.scenario, fk', time => 'ts', deleted => 'gone'{1})"
)
WAIT = ", watermark => INTERVAL 1 HOUR"


def scenarios_of(join: str, versioned: tuple[str, ...]) -> dict[str, list[Row]]:
    """Kafka's cases, and random ones, whose times are near: no deletion is forgotten while another change of its place may come."""
    rng = random.Random(f"{join} {versioned}")
    given = {case["id"]: rows for case in CASES for rows, *asked in [of_case(case)] if tuple(asked[:2]) == (join, versioned)}
    assert given
    for i in range(60):
        given[f"random {i}"] = [(*row[:3], row[3] if row[3] is None else abs(row[3]) % 40, *row[4:]) for row in drawn(rng)]
    return given


KINDS: list[tuple[str, tuple[str, ...]]] = [
    ("inner", ()), ("left", ()), ("inner", ("left",)), ("left", ("right",)), ("inner", ("left", "right")), ("left", ("left", "right")),
]  # fmt: skip


@pytest.mark.short("a stream of changes by a foreign key")
def test_a_stream_gives_each_change_as_defined(spark: SparkSession, source: Source, thorough: bool) -> None:
    """All kinds of joins in one query, each over scenarios of its own; in short one of them."""
    kinds = dict(enumerate(KINDS) if thorough else [*enumerate(KINDS)][-1:])
    source.ddl = DDL
    scenarios = {f"{kind} {name}": rows for kind, of in kinds.items() for name, rows in scenarios_of(*of).items()}
    rows = sorted(
        ((name, row) for name, changes in scenarios.items() for row in changes if None not in row[1:4]), key=lambda r: place(r[1])
    )
    rng = random.Random(7)
    rows += [(name, row) for name, changes in scenarios.items() for row in changes if None in row[1:4]]
    given = [(name, row[0], row[1], row[2], row[3] and EPOCH + timedelta(milliseconds=row[3]), *row[4:]) for name, row in rows]
    given = [(*r[:4], EPOCH if row[3] == 0 else r[4], *r[5:]) for r, (_, row) in zip(given, rows, strict=True)]

    def joined(kind: int, join: str, versioned: tuple[str, ...]) -> str:
        more = f", join_type => '{join}'" + (f", versioned => ARRAY({', '.join(map(repr, versioned))})" if versioned else "")
        text = JOIN.format("events", more + WAIT).replace(" WHERE ", f" WHERE scenario LIKE '{kind} %' AND ")
        return f"SELECT * FROM {text}"

    text = " UNION ALL ".join(joined(kind, *of) for kind, of in kinds.items())
    cuts = sorted(rng.sample(range(1, len(given)), 3))
    for number, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(given)], strict=True)):
        source.add(rng.sample(given[a:b], b - a))
        if number == 1:
            source.run(text)
    found = defaultdict(list)
    for r in source.run(text):
        found[r.scenario].append(
            (r.n, r.k, r.change_seq, r.l, r.fk, r["r.`v"], r.change_type, (r.change_time - EPOCH) // timedelta(milliseconds=1))
        )
    for name, changes in scenarios.items():
        assert sorted(found[name], key=lambda c: c[:3]) == slow(changes, *KINDS[int(name[0])], None), name
    assert sum(map(len, found.values())) > 100 * len(kinds)


def some_rows(seed: int) -> list[tuple[Any, ...]]:
    """Times out of order, nulls in each role."""
    rng = random.Random(seed)
    rows = []
    for n in range(60):
        side = rng.choice(["left", "right"])
        key, fk = (
            (rng.choice([None, "a", "b", "ä'`"]), rng.choice([None, "x", "y"])) if side == "left" else (rng.choice([None, "x", "y"]), None)
        )
        ts = rng.choice([None, *[at(1000 + n + rng.randint(-20, 9))] * 15])
        rows.append(("s", side, key, n, ts, f"{n}", fk, rng.random() < 0.2))
    return rows


def test_every_change_is_reported_as_in_batch(spark: SparkSession, source: Source) -> None:
    """But for stream time, the watermark."""
    source.ddl = DDL
    rows = some_rows(3)
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")
    more = ", versioned => ARRAY('left', 'right'), output => 'all'"
    expected = spark.sql(f"SELECT * FROM {JOIN.format('batch', more)}").drop("stream_time", "lateness")
    for a, b in ((0, 9), (9, 31), (31, 60)):
        source.add(rows[a:b])
    got = source.run(f"SELECT * EXCEPT (stream_time, lateness) FROM {JOIN.format('events', more + WAIT)}")
    assert list(got[0].asDict()) == expected.columns
    assert Counter(map(str, got)) == Counter(map(str, expected.collect()))
    assert {r.reason for r in got} == {None, "null_time", "null_key", "out_of_order"}


@pytest.mark.long("tests/sql/changes/test_join_changes_by_foreign_key.py::test_every_change_is_told_in_words")
@pytest.mark.parametrize("join", [pytest.param("inner", marks=pytest.mark.long("tests/sql/changes/test_foreign_key_streams.py")), "left"])
def test_every_change_is_told_in_words_as_in_batch(spark: SparkSession, source: Source, join: str) -> None:
    """But for stream time. Three micro-batches and a start anew; rows of one left key go from one right row to another, and back."""
    source.ddl = DDL
    rows = [(f"s{i}", *row[1:]) for i in range(8) for row in some_rows(40 + i)]
    rows = sorted(rows, key=lambda row: (row[3], row[0]))
    rows += [("ties", "left", "a", 900, at(1), text, name, False) for name in ("x", "y", None) for text in ("v", "w", "w")]
    rows += [("ties", "right", name, 900, at(1), "v", None, False) for name in ("x", "x", "y")]
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")
    more = f", join_type => '{join}', versioned => ARRAY('right'), output => 'explain'"
    expected = spark.sql(f"SELECT * FROM {JOIN.format('batch', more)}").drop("stream_time")
    text = f"SELECT * EXCEPT (stream_time) FROM {JOIN.format('events', more + WAIT)}"
    for number, (a, b) in enumerate(((0, 90), (90, 91), (91, 300), (300, len(rows)))):
        source.add(random.Random(number).sample(rows[a:b], b - a))
        if number == 2:
            source.run(text)
    got = source.run(text)
    assert list(got[0].asDict()) == expected.columns
    assert Counter(map(str, got)) == Counter(map(str, expected.collect()))
    words = {"joined", "withdrew", "waits", "nothing", "out_of_order", "null_time", "null_key"} | ({"alone"} if join == "left" else set())
    assert {row.outcome for row in got} == words


@pytest.mark.parametrize("output", ["explain", "all"])
@pytest.mark.long("tests/sql/changes/test_foreign_key_streams.py::test_a_stream_gives_each_change_as_defined")
def test_keys_of_other_types_and_an_order_that_changes_make_anew_are_told_of(spark: SparkSession, source: Source, output: str) -> None:
    """By TIMESTAMPs and INTs, with DATEs as event times, beside rows of no time and of no key; the order of a join's own changes."""
    source.ddl = DDL
    sides = (
        "TABLE(SELECT k, CAST(n AS INT) AS n, 0 AS change_seq, CAST(ts AS DATE) AS day, v AS l, CAST(fk AS TIMESTAMP) AS of, n % 3 AS part,"
        " gone FROM {0} WHERE side = 'left') PARTITION BY k ORDER BY (n, change_seq),"
        " TABLE(SELECT CAST(k AS TIMESTAMP) AS id, n % 2 AS half, n, 0 AS change_seq, CAST(ts AS DATE) AS day, v AS r, gone FROM {0}"
        " WHERE side = 'right') PARTITION BY (id, half) ORDER BY (n, change_seq), on => 'of, part', time => 'day', deleted => 'gone'"
    )
    moments = ["2024-05-01 10:00:00", "1066-10-14 00:00:00", "2999-12-31 23:59:59.999999"]
    rng = random.Random(5)
    rows: list[tuple[Any, ...]] = []
    for n in range(80):
        side = rng.choice(["left", "right"])
        ts = rng.choice([None, *[at(n * 86_400)] * 9])
        key = rng.choice([None, "a", "b"]) if side == "left" else rng.choice([None, *moments])
        rows.append(("s", side, key, n, ts, f"{n}", rng.choice([None, *moments]), rng.random() < 0.2))
    spark.createDataFrame(rows, DDL).createOrReplaceTempView("batch")
    spark.conf.set("streamtime.buckets", "1")  # rows that pass lie beside others
    try:
        more = f", output => '{output}'"
        wanted = spark.sql(f"SELECT * FROM JOIN_CHANGES({sides.format('batch')}{more})").drop("stream_time", "lateness")
        for a, b in ((0, 30), (30, 80)):
            source.add(rows[a:b])
        left_out = "stream_time" if output == "explain" else "stream_time, lateness"
        wait = ", watermark => INTERVAL 100 DAYS"
        got = source.run(f"SELECT * EXCEPT ({left_out}) FROM JOIN_CHANGES({sides.format('events')}{more}{wait})")
        assert Counter(map(str, got)) == Counter(map(str, wanted.collect()))
    finally:
        spark.conf.unset("streamtime.buckets")


@pytest.mark.long("tests/udfs/changes/test_references.py")
def test_retention_counts_from_the_watermark_and_a_result_is_a_side_again(spark: SparkSession, source: Source) -> None:
    """The join by the foreign key, its rows filtered: four states. What is ignored is counted for each side."""
    source.ddl = DDL
    join = JOIN.format("events", ", versioned => ARRAY('left', 'right'), retention => INTERVAL 5 SECONDS, name => 'both'")
    text = (
        f"SELECT * FROM FILTER_CHANGES(TABLE({join}) PARTITION BY (scenario, k) ORDER BY (n, change_seq), time => 'change_time',"
        " condition => '`r.``v` <> \"cheap\"')"
    ).replace("TABLE(JOIN", "TABLE(SELECT * FROM JOIN")
    source.add([("s", "right", "x", 1, at(1), "dear", None, False), ("s", "left", "a", 2, at(2), "l", "x", False)])
    source.add([("s", "left", "b", 3, at(90), "l", "x", False), ("s", "right", "y", 4, at(90), "cheap", None, False)])
    source.run(text)
    source.add([("s", "left", "a", 5, at(84), "l", "y", False), ("s", "right", "x", 6, at(84), "gone", None, True)])
    source.add([("s", "left", "a", 7, at(86), "m", "y", False), ("s", "right", "x", 8, at(86), "r", None, True)])
    found = sorted((r.n, r.k, r.l, r["r.`v"], r.change_type) for r in source.run(text))
    assert found == [
        (2, "a", "l", "dear", "upsert"),
        (3, "b", "l", "dear", "upsert"),
        (7, "a", None, None, "delete"),  # it names what is cheap now
        (8, "b", None, None, "delete"),
    ]
    for label in ("both", "both_right"):
        counts = [p.observedMetrics[label].too_old_drop_total for p in source.progress if label in p.observedMetrics]
        assert sum(counts) == 1, label


WRONG = {
    ", join_type => 'outer'": "'outer' is not possible with `on`",
    ", clock_by => ARRAY('scenario')": "`clock_by`: is not possible on a stream",
}


def test_what_a_stream_cannot_have_is_refused(spark: SparkSession, source: Source) -> None:
    source.ddl = DDL
    source.stream().createOrReplaceTempView("events")
    for more, message in WRONG.items():
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"SELECT * FROM {JOIN.format('events', more)}")
    lower = (
        JOIN.format("events", "")
        .replace("fk, gone", "collate(fk, 'UTF8_LCASE') AS fk, gone")
        .replace("k AS id", "collate(k, 'UTF8_LCASE') AS id")
    )
    with pytest.raises(AnalysisException, match=r"a key with a collation is not possible on a stream \(`id`\)"):
        spark.sql(f"SELECT * FROM {lower}")
