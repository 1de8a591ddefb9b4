"""SESSIONIZE over real streams: micro-batches cut and queries restarted at random, against the slow definition and against batch."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from support import reference
from support.reference import sessionize as reference_sessionize
from support.streams import DDL, SECOND, Source, at, ids, micros, random_batches, replay

CALL = "SELECT * FROM SESSIONIZE(TABLE(events) PARTITION BY k ORDER BY id, time => 'ts', gap => INTERVAL 3 SECONDS{})"
FAR = {"k": "far", "t": 10**6 * SECOND, "id": 1000, "off": None}  # the watermark passes all others


GRACES = {"": None, ", grace => INTERVAL 4 SECONDS": 4, ", grace => INTERVAL 0 SECONDS": 0}


@pytest.mark.long("tests/sql/stream/test_session_streams.py::test_a_stream_cut_anyhow_ends_with_the_sessions_of_batch")
def test_rows_leave_with_final_bounds_and_late_ones_are_reported(source: Source) -> None:
    """All calls in one query."""
    random_ = random.Random("calls")
    batches = [*random_batches(random_, 8), [FAR], [FAR | {"id": 1001}]]
    clocked = reference.in_micro_batches(batches, ["id"], 0, 1000, [["k"]])
    told = [CALL.format(f"{options}, output => 'all', name => 'm{i}'") for i, options in enumerate(GRACES)]
    rows = replay(
        source, batches, " UNION ALL ".join(t.replace("SELECT *", f"SELECT {i} AS call, *", 1) for i, t in enumerate(told)), random_
    )
    for i, (options, grace) in enumerate(GRACES.items()):
        lasts = None if grace is None else grace * SECOND
        judged = reference_sessionize.sessionize([], gap=3 * SECOND, grace=lasts, closing_grace=0, clocked=clocked)
        found = [r for r in rows if r.call == i]
        expected = {j.row["id"]: (j.reason, *(j.final or (None, None)), j.stream_time) for j in judged if j.row["k"] != "far"}
        got = {r.id: (r.reason, micros(r.session_start), micros(r.session_end), micros(r.stream_time) if r.ts else None) for r in found}
        assert got == expected, options
        assert len(found) == len(expected)
        assert {r.session_id for r in found} == {f"{r.k}@{r.session_start}" if r.session_start else None for r in found}
        observed = [p.observedMetrics[f"m{i}"] for p in source.progress]
        assert sum(o.late_drop_total for o in observed) == sum(j.reason == "late" for j in judged)
        assert sum(o.input_rows for o in observed) == 62


@pytest.mark.short("batch and stream, row for row")
def test_a_stream_cut_anyhow_ends_with_the_sessions_of_batch(spark: SparkSession, source: Source) -> None:
    """C5 (a): no row is later than grace."""
    random_ = random.Random(5)
    rows = [r for b in random_batches(random_, 3) for r in b]
    cuts = sorted(random_.sample(range(60), 3))
    batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True)] + [[FAR], [FAR | {"id": 1001}]]
    options = ", grace => INTERVAL 6 SECONDS"
    in_stream = replay(source, batches, CALL.format(options), random_)
    spark.read.schema(DDL).parquet(str(source.folder / "in")).createOrReplaceTempView("events")
    in_batch = [r for r in spark.sql(CALL.format(options)).collect() if r.k != "far"]
    assert 0 < len(in_batch) == sum(r["t"] is not None and r["k"] is not None for r in rows)
    assert Counter(in_stream) == Counter(in_batch)


def test_what_is_late_and_what_each_row_did_is_said_at_once(source: Source) -> None:
    source.add([("a", at(0), 1, 0), ("a", at(2), 2, 0), ("b", at(100), 3, 0), ("a", at(8), 4, 0)])
    source.add([("a", at(5), 5, 0), ("b", at(98), 6, 0), (None, at(99), 7, 0), ("b", None, 8, 0)])
    rows = source.run(CALL.format(", grace => INTERVAL 1 SECOND, output => 'explain'"))
    said = {r.id: (r.outcome, r.session_start, r.session_end) for r in rows}
    assert said == {
        1: ("opened", at(0), at(0)), 2: ("joined", at(0), at(2)), 3: ("opened", at(100), at(100)), 4: ("opened", at(8), at(8)),
        5: ("late", at(5), at(5)), 6: ("joined", at(98), at(100)), 7: ("null_key", None, None), 8: ("null_time", None, None),
    }  # fmt: skip
    late = next(r.explanation for r in rows if r.id == 5)
    assert late == (
        "late: its session would have ended at 2024-01-01 00:00:05, and was closed once stream time passed 2024-01-01 00:00:09; "
        "stream time is 2024-01-01 00:01:40. A grace of 92 seconds would have let it in"
    )


def test_dropped_rows_alone(source: Source) -> None:
    source.add([("a", at(0), 1, 0), ("b", at(100), 2, 0), (None, at(900), 6, 0)])  # which does not move stream time (C12)
    source.add([("a", at(5), 3, 0), (None, at(99), 4, 0), ("b", at(101), 5, 0)])
    rows = source.run(CALL.format(", grace => INTERVAL 1 SECOND, output => 'dropped'"))
    assert {(r.id, r.reason, r.lateness) for r in rows} == {(3, "late", 95.0), (4, "null_key", 1.0), (6, "null_key", None)}
    assert rows[0].asDict().keys() == {"k", "ts", "id", "off", "reason", "stream_time", "lateness"}


def test_without_grace_a_row_that_comes_after_its_session_closed_is_one_of_its_own(source: Source) -> None:
    source.add([("a", at(0), 1, 0), ("b", at(100), 2, 0)])
    source.add([("a", at(1), 3, 0)])
    found = {r.id: (r.session_start, r.session_end) for r in source.run(CALL.format(""))}
    assert found == {1: (at(0), at(0)), 3: (at(1), at(1))}
    source.add([("b", at(200), 4, 0)])
    source.add([("a", at(2), 5, 0)])
    explained = source.run(CALL.format(""))
    assert ids(explained) == [1, 2, 3, 5]


def test_without_grace_sessions_close_yet_no_row_is_late_as_each_rows_sentence_says(source: Source) -> None:
    source.add([("a", at(0), 1, 0), ("b", at(100), 2, 0)])
    source.add([("a", at(1), 3, 0), ("a", at(2), 4, 0)])
    rows = source.run(CALL.format(", output => 'explain'"))
    assert {r.id: (r.outcome, r.session_start, r.session_end) for r in rows} == {
        1: ("opened", at(0), at(0)), 2: ("opened", at(100), at(100)), 3: ("opened", at(1), at(1)), 4: ("opened", at(2), at(2)),
    }  # fmt: skip
    assert {r.id for r in rows if "final at once" in r.explanation} == {3, 4}


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP_NTZ"])
def test_event_times_without_a_zone(source: Source, kind: str) -> None:
    for days in ([0, 1], [3], [40], [80]):
        source.add([("a", at(day * 86_400), day, 0) for day in days])
    table = f"SELECT k, id, CAST(ts AS {kind}) AS ts FROM events"
    call = f"SESSIONIZE(TABLE({table}) PARTITION BY (k, id < 99) ORDER BY ts, gap => INTERVAL 1 DAY, grace => INTERVAL 1 DAY, output => '{{}}')"
    found = {
        (r.id, str(r.session_start)[:10], r.session_id.replace(" 00:00:00", "")) for r in source.run(f"SELECT * FROM {call.format('rows')}")
    }
    assert found == {(i, f"2024-{d}", f"a|true@2024-{d}") for i, d in ((0, "01-01"), (1, "01-01"), (3, "01-04"), (40, "02-10"))}


def test_a_window_aggregate_that_follows_is_refused_and_does_not_lose_rows(spark: SparkSession, source: Source) -> None:
    source.add([("a", at(0), 1, 0)])
    source.run(CALL.format(""))
    inner = CALL.format("").replace("events", "marked")
    with pytest.raises(AnalysisException, match=r"(?s)watermark"):
        spark.sql(f"SELECT window.start, count(*) AS n FROM ({inner}) GROUP BY window(ts, '10 seconds')").writeStream.format("noop").start()


def test_a_checkpoint_of_another_output_is_an_error_that_names_it(source: Source) -> None:
    source.add([("a", at(0), 1, 0)])
    source.run(CALL.format(""))
    source.add([("a", at(1), 2, 0)])
    with pytest.raises(StreamingQueryException, match="written with other options: output was rows and is all"):
        source.run(CALL.format(", output => 'all'"))
    with pytest.raises(StreamingQueryException, match="output was rows and is dropped or explain"):
        source.run(CALL.format(", output => 'dropped'"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (", clock_by => ARRAY('off')", "`clock_by`: is not possible on a stream"),
        (", output => 'metrics'", "'metrics' is not possible on a stream"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(spark: SparkSession, source: Source, options: str, message: str) -> None:
    source.stream().createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match=message):
        spark.sql(CALL.format(options))


def test_every_column_travels(spark: SparkSession, source: Source) -> None:
    columns: dict[str, Any] = {
        "i": "CAST(NULL AS INT)", "d": "1.50BD", "f": "double('NaN')", "day": "DATE '0001-01-01'", "ntz": "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'",
        "bin": "X'00FF'", "dur": "INTERVAL '1' DAY", "arr": "ARRAY(1, NULL)", "m": "MAP('x', 1.5D)", "st": "NAMED_STRUCT('p', CAST(NULL AS INT), 'q', ARRAY('z'))",
    }  # fmt: skip
    table = f"SELECT *, {', '.join(f'{v} AS {n}' for n, v in columns.items())} FROM events"
    source.add([("a", at(0), 1, 0)])
    source.add([("a", at(1), 2, 0)])
    source.add([("b", at(100), 3, 0)])
    source.add([("b", at(200), 4, 0)])
    text = CALL.format("").replace("TABLE(events)", f"TABLE({table})")
    found = source.run(text)
    spark.read.schema(DDL).parquet(str(source.folder / "in")).createOrReplaceTempView("events")
    in_batch = [r for r in spark.sql(text).collect() if r.id < 4]
    assert sorted(map(repr, found)) == sorted(map(repr, in_batch))
