"""Functions over streams, end to end: the same SQL, micro-batches cut and queries restarted at random, against batch and the slow definition."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from support import reference
from support.reference import deduplicate as reference_deduplicate
from support.streams import DDL, SECOND, Source, at, ids, micros, random_batches, replay

from streamtime.sql.stream import packing
from streamtime.sql.stream.watermark import WATERMARK, WATERMARKED_BELOW

CALL = "DEDUPLICATE(TABLE({}) PARTITION BY k ORDER BY ts, within => INTERVAL 10 SECONDS{})"
FINAL = (
    "SELECT k, n FROM WINDOW_UPDATES(TABLE(stored) PARTITION BY k ORDER BY id, time => 'ts', size => INTERVAL 10 SECONDS, "
    "watermark => INTERVAL 2 SECONDS, aggregates => 'count(*) AS n', emit => 'final')"
)


KEPT: dict[str, dict[str, Any]] = {
    "within => INTERVAL 10 SECONDS": {"within": 10 * SECOND},
    "within => INTERVAL 4 SECONDS, watermark => INTERVAL 0 SECONDS, refresh => true": {"within": 4 * SECOND, "refresh": True},
    "within => INTERVAL 3 SECONDS, refresh => true, at_most => INTERVAL 5 SECONDS, offset => 'off'": {
        "within": 3 * SECOND, "refresh": True, "at_most": 5 * SECOND, "offset": "off",
    },
    "offset => 'CAST(off AS STRING)'": {"within": None, "offset": "off"},  # text travels as a digest
}  # fmt: skip


@pytest.mark.short("a stream that is cut and restarted at random")
def test_deduplicate_over_a_stream_cut_and_restarted_at_random(source: Source, thorough: bool) -> None:
    """All calls in one query, in short each third; whose watermark comes late has a query of its own below."""
    random_ = random.Random("calls again")  # in which kept rows have offsets, and have none
    kept = KEPT if thorough else dict([*KEPT.items()][::3])
    batches = random_batches(random_, 12)
    call = (
        "SELECT {} AS call, * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY id, time => 'ts', {}, output => 'all', name => 'm{}')"
    )
    text = " UNION ALL ".join(call.format(i, options, i) for i, options in enumerate(kept))
    rows = replay(source, batches, text, random_)
    for i, (options, meaning) in enumerate(kept.items()):
        got = {r.id: (r.reason, micros(r.kept_time), micros(r.stream_time) if r.ts else None) for r in rows if r.call == i}
        clocked = reference.in_micro_batches(batches, ["id"], 0, 1000)
        expected = reference_deduplicate.deduplicate([], **meaning, order=["id"], clocked=clocked)
        assert got == {j.row["id"]: (j.reason, j.kept_time, j.stream_time) for j in expected}, options
        observed = [p.observedMetrics[f"m{i}"] for p in source.progress]
        assert sum(o.input_rows for o in observed) == 60
        assert sum(o.duplicate_drop_total for o in observed) == sum(j.reason == "duplicate" for j in expected)
        assert sum(o.null_time_drop_total for o in observed) == sum(j.reason == "null_time" for j in expected)


def test_a_watermark_that_comes_late_lets_rows_live_longer(source: Source) -> None:
    random_ = random.Random("late")
    batches = random_batches(random_, 12)
    options = "within => INTERVAL 4 SECONDS, watermark => INTERVAL 3 SECONDS, refresh => true"
    text = f"SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY id, time => 'ts', {options}, output => 'all')"
    got = {r.id: (r.reason, micros(r.kept_time), micros(r.stream_time) if r.ts else None) for r in replay(source, batches, text, random_)}
    clocked = reference.in_micro_batches(batches, ["id"], 3 * SECOND, 1000)
    expected = reference_deduplicate.deduplicate([], within=4 * SECOND, refresh=True, order=["id"], clocked=clocked)
    assert got == {j.row["id"]: (j.reason, j.kept_time, j.stream_time) for j in expected}


def test_distinct_in_window_over_a_stream_cut_and_restarted_at_random(source: Source, thorough: bool) -> None:
    random_ = random.Random("windows")
    batches = random_batches(random_, 8)
    clocked = reference.in_micro_batches(batches, ["id"], 0, 1000, [["k"]])
    meanings = {
        "size => INTERVAL 7 SECONDS, grace => INTERVAL 2 SECONDS": reference_deduplicate.distinct_in_windows(
            [], size=7 * SECOND, slide=7 * SECOND, grace=2 * SECOND, clocked=clocked
        ),
        "size => INTERVAL 6 SECONDS, slide => INTERVAL 3 SECONDS": reference_deduplicate.distinct_in_windows(
            [], size=6 * SECOND, slide=3 * SECOND, grace=0, clocked=clocked
        ),
        "gap => INTERVAL 2 SECONDS": reference_deduplicate.distinct_in_sessions([], gap=2 * SECOND, clocked=clocked),
    }
    meanings = dict(list(meanings.items())[: None if thorough else 1])
    call = "SELECT {} AS call, * FROM DISTINCT_IN_WINDOW(TABLE(events) PARTITION BY k ORDER BY id, time => 'ts', {}, output => 'all')"
    found = replay(source, batches, " UNION ALL ".join(call.format(i, options) for i, options in enumerate(meanings)), random_)
    for i, (options, expected) in enumerate(meanings.items()):
        got = Counter((r.id, r.reason, micros(r.window_start), micros(r.window_end)) for r in found if r.call == i)
        assert got == Counter((j.row["id"], j.reason, *(j.window or (None, None))) for j in expected), options


@pytest.mark.parametrize(
    "call", ["DEDUPLICATE({} ORDER BY ts, within => INTERVAL 6 SECONDS)", "DISTINCT_IN_WINDOW({} ORDER BY ts, gap => INTERVAL 2 SECONDS)"]
)
def test_batch_and_stream_agree_where_micro_batches_arrive_in_processing_order(spark: SparkSession, source: Source, call: str) -> None:
    random_ = random.Random(call)
    rows = [r for b in random_batches(random_, 0) for r in b if r["t"] is not None]
    text = f"SELECT * FROM {call.format('TABLE(events) PARTITION BY k')}"
    found = replay(source, [rows[:7], rows[7:9], rows[9:40], rows[40:]], text, random_)
    spark.read.schema(DDL).parquet(str(source.folder / "in")).createOrReplaceTempView("events")
    assert ids(found) == ids(spark.sql(text).collect())
    assert 0 < len(found) < len(rows)


def test_the_forms_in_which_a_stream_can_stand(spark: SparkSession, schema: str, tmp_path: Path, thorough: bool) -> None:
    spark.sql(f"CREATE TABLE {schema}.raw (k STRING, ts TIMESTAMP, id INT) USING delta")
    spark.sql(
        f"INSERT INTO {schema}.raw VALUES ('a', TIMESTAMP '2024-01-01 00:00:00', 1), ('a', TIMESTAMP '2024-01-01 00:00:05', 2), ('b', TIMESTAMP '2024-01-01 00:00:06', 3)"
    )
    spark.readStream.table(f"{schema}.raw").createOrReplaceTempView("ticks")
    stream = (
        f"SELECT * FROM STREAM {schema}.raw" if spark.version > "4.1" else "SELECT * FROM ticks"
    )  # STREAM came with Spark 4.1, as did ..
    twice = CALL.format(f"SELECT * FROM {CALL.format('ticks', '')}", "")
    forms = {
        "view": f"SELECT * FROM {CALL.format('ticks', '')}",
        "stream": f"SELECT * FROM {CALL.format(stream, '')} WHERE id < 99",
        "cte": f"WITH s AS ({stream}) SELECT d.id FROM {CALL.format('s', '')} AS d",
        "watermark": f"SELECT id FROM {CALL.format(f'{stream} WATERMARK ts DELAY OF INTERVAL 5 SECONDS', '')}",
        "options": "SELECT id FROM DEDUPLICATE(TABLE(ticks), keys => ARRAY('k'), order_by => ARRAY('ts'), within => INTERVAL 10 SECONDS)",
        "twice": f"SELECT id FROM {twice}",
        "union": f"SELECT id FROM {CALL.format('ticks', '')} UNION ALL SELECT id FROM {CALL.format('ticks', '')}",
        "single": "SELECT id FROM DEDUPLICATE(TABLE(ticks) WITH SINGLE PARTITION ORDER BY ts, within => INTERVAL 5 SECONDS)",
        "join": f"SELECT d.id FROM {CALL.format('ticks', '')} d JOIN {schema}.raw r ON d.id = r.id",
    }
    if spark.version < "4.1":
        del forms["watermark"]  # .. this clause
    expected = {"union": [1, 1, 3, 3]}
    for name, text in forms.items() if thorough else [*forms.items()][::3]:
        query = spark.sql(text).writeStream.format("memory").queryName("form").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()
        assert ids(spark.table("form").collect()) == expected.get(name, [1, 3]), name


@pytest.mark.parametrize("given", [pytest.param("by the input", marks=pytest.mark.long("the same with Spark's own")), "by the call"])
def test_an_aggregate_by_window_can_follow(source: Source, given: str) -> None:
    call = CALL.format("marked", "")
    if given == "by the call":
        call = CALL.format("events", ", watermark => INTERVAL 2 SECONDS")
    text = f"SELECT window.start, count(*) AS n FROM {call} GROUP BY window(ts, '10 seconds')"
    for rows in (
        [("a", at(0), 1, 0), ("a", at(5), 2, 0), ("b", at(7), 3, 0)],
        [("a", at(11), 4, 0)],
        [("c", at(13), 5, 0)],
        [("c", at(30), 6, 0)],
    ):
        source.add(rows)
    assert Counter((r.start, r.n) for r in source.run(text)) == {(at(0), 2): 1, (at(10), 2): 1}


def test_late_rows_are_reported_with_how_late_they_are(source: Source) -> None:
    source.add([("a", at(0), 1, 0), ("b", at(100), 2, 0)])
    source.add([("a", at(60), 3, 0), ("b", at(95), 4, 0), (None, None, 5, 0)])
    text = "SELECT * FROM DISTINCT_IN_WINDOW(TABLE(events) PARTITION BY k ORDER BY ts, size => INTERVAL 10 SECONDS, output => 'dropped', name => 'mine')"
    late = {r.id: (r.reason, r.stream_time, r.lateness) for r in source.run(text)}
    assert late == {3: ("late", at(100), 40.0), 4: ("late", at(100), 5.0), 5: ("null_time", None, None)}
    observed = source.progress[1].observedMetrics["mine"]
    assert (observed.late_drop_total, observed.record_lateness_max, observed.record_lateness_avg) == (2, 40.0, 22.5)


def test_every_type_travels_unharmed(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    spark.sql(
        f"""CREATE TABLE {schema}.types USING parquet AS SELECT * FROM VALUES
        ('a', TIMESTAMP '2024-01-01 00:00:00.000001', 1Y, 2S, CAST(NULL AS INT), 9007199254740993L, FLOAT('NaN'), CAST(NULL AS DOUBLE), true, 1.50BD,
         DATE '0001-01-01', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999', X'00FF', INTERVAL '1' DAY, ARRAY(1, NULL), MAP('x', 1.5D), NAMED_STRUCT('p', CAST(NULL AS INT), 'q', ARRAY('z'))),
        ('b', TIMESTAMP '1969-12-31 23:59:59.999999', NULL, NULL, 3, NULL, FLOAT('-0.0'), DOUBLE('NaN'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS t(k, ts, i1, i2, i4, i8, f4, f8, b, d, dt, ntz, bin, dur, arr, m, st)"""
    )
    spark.readStream.table(f"{schema}.types").createOrReplaceTempView("typed")
    df = spark.sql(f"SELECT * FROM {CALL.format('typed', '')}")
    plain = T.StructType([T.StructField(f.name, f.dataType, f.nullable) for f in df.schema])  # a mark on `ts` says that it has a clock
    assert plain == spark.table(f"{schema}.types").schema
    df.writeStream.format("memory").queryName("out").option("checkpointLocation", str(tmp_path)).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(map(repr, spark.table("out").collect())) == sorted(map(repr, spark.table(f"{schema}.types").collect()))


@pytest.mark.parametrize(
    ("zone", "kind"),
    [
        ("America/New_York", "DATE"),
        ("Asia/Tokyo", "TIMESTAMP_NTZ"),
        pytest.param("Asia/Tokyo", "DATE", marks=pytest.mark.long("the same east of it")),
        pytest.param("America/New_York", "TIMESTAMP_NTZ", marks=pytest.mark.long("the same west of it")),
    ],
)
def test_event_time_without_a_zone_is_the_same_in_every_zone(spark: SparkSession, source: Source, kind: str, zone: str) -> None:
    for day in (0, 1, 2, 1, 3):
        source.add([("a", at(day * 86_400), day, 0)])
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        day = (
            f"CAST(CAST(to_utc_timestamp(ts, '{zone}') AS TIMESTAMP_NTZ) AS {kind})"
            if kind == "DATE"
            else "TIMESTAMP_NTZ '2024-01-01' + make_interval(0, 0, 0, id)"
        )
        call = "DEDUPLICATE(TABLE(days) PARTITION BY k ORDER BY day, within => INTERVAL 0 DAYS, output => 'all')"
        rows = source.run(f"WITH days AS (SELECT k, id, {day} AS day FROM events) SELECT * FROM {call}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    as_date: Callable[[Any], Any] = lambda v: v.date() if isinstance(v, datetime.datetime) else v  # noqa: E731
    first = as_date(rows[0].day)
    assert [((as_date(r.day) - first).days, r.reason) for r in rows] == [(0, None), (1, None), (2, None), (1, None), (3, None)]
    assert [None if r.stream_time is None else (as_date(r.stream_time) - first).days for r in rows] == [None, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("keep => 'last'", "DEDUPLICATE, `keep`: 'last' is not possible on a stream"),
        ("clock_by => ARRAY('off')", "DEDUPLICATE, `clock_by`: is not possible on a stream: its one clock is the watermark"),
        ("output => 'metrics'", "DEDUPLICATE, `output`: 'metrics' is not possible on a stream. Read them from observedMetrics"),
        ("watermark => INTERVAL 1 MONTH", "DEDUPLICATE, `watermark`: expected an interval of days to seconds"),
    ],
)
def test_what_a_stream_cannot_have_is_refused_when_the_query_is_analysed(
    spark: SparkSession, source: Source, options: str, message: str
) -> None:
    source.stream().createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, {options})")


def test_a_second_watermark_is_refused_before_spark_refuses_it(spark: SparkSession, source: Source) -> None:
    source.stream().withWatermark("ts", "5 seconds").createOrReplaceTempView("marked")
    marked = "SELECT *, CAST(ts AS DATE) AS day FROM marked"
    with pytest.raises(AnalysisException, match="`watermark`: the input has a watermark already, on `ts`"):
        spark.sql(f"SELECT * FROM {CALL.format(marked, ', watermark => INTERVAL 1 SECOND')}")
    with pytest.raises(AnalysisException, match=r"the input's watermark is a TIMESTAMP \(`ts`\), the event time is not \(`day`\)"):
        spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE({marked}) PARTITION BY k ORDER BY day, within => INTERVAL 1 DAY)")
    behind_a_call = f"SELECT *, CAST(ts AS TIMESTAMP_NTZ) AS local FROM {CALL.format('marked', '')}"  # which judged by that watermark
    spark.sql(f"SELECT * FROM DEDUPLICATE(TABLE({behind_a_call}) PARTITION BY k ORDER BY local, within => INTERVAL 1 DAY)")


def test_marks_that_a_table_stored_are_no_watermark(spark: SparkSession, schema: str, source: Source) -> None:
    """The table of one stream keeps its columns' marks; the next stream over it has no watermark of its own, and may be given one."""
    for row in [("a", at(0), 0, 0), ("a", at(1), 1, 0), ("b", at(100), 2, 0)]:
        source.add([row])
    source.stream().createOrReplaceTempView("events")
    for step, text in enumerate((f"SELECT k, ts, id FROM {CALL.format('events', ', watermark => INTERVAL 1 SECOND')}", FINAL)):
        if step:
            spark.readStream.option("maxFilesPerTrigger", 1).table(f"{schema}.step0").createOrReplaceTempView("stored")
        writer = spark.sql(text).writeStream.option("checkpointLocation", str(source.folder / f"checkpoint{step}"))
        writer.format("delta").trigger(availableNow=True).toTable(f"{schema}.step{step}").awaitTermination()
    assert spark.table(f"{schema}.step0").schema["ts"].metadata == {WATERMARK: 1000, WATERMARKED_BELOW: True}
    assert [(r.k, r.n) for r in spark.table(f"{schema}.step1").collect()] == [("a", 1)]  # the other a is a duplicate


def test_columns_that_cannot_travel_are_refused_by_name(spark: SparkSession, source: Source) -> None:
    source.stream().createOrReplaceTempView("events")
    with pytest.raises(AnalysisException, match=r"column `age` has type INTERVAL YEAR, which cannot travel to Python on a stream"):
        spark.sql(
            f"SELECT * FROM {CALL.format('SELECT *, make_ym_interval(id) AS age FROM events'.replace('make_ym_interval(id)', 'CAST(id AS INTERVAL YEAR)'), '')}"
        )
    with pytest.raises(AnalysisException, match="a key with a collation is not possible on a stream"):
        spark.sql(f"SELECT * FROM {CALL.format('SELECT collate(k, `UNICODE_CI`) AS k, ts FROM events'.replace('`', chr(39)), '')}")


def test_a_session_without_the_right_state_store_is_told_which_setting_to_make(spark: SparkSession, source: Source) -> None:
    source.stream().createOrReplaceTempView("events")
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    try:
        spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
        with pytest.raises(
            AnalysisException,
            match=f"needs the RocksDB state store. Run SET {name} = .*RocksDBStateStoreProvider first; streamtime.session",
        ):
            spark.sql(f"SELECT * FROM {CALL.format('events', '')}")
    finally:
        spark.conf.set(name, before)


def test_spark_sends_as_many_buckets_to_each_partition(spark: SparkSession) -> None:
    """Whatever the number of partitions is; and none is called as the bucket of no key."""
    names = packing.ids(packing.MOST).tolist()
    assert packing.NO_KEYS not in names
    df = spark.createDataFrame([(n,) for n in names], "bucket INT")
    assert [r.h for r in df.selectExpr("hash(bucket) AS h").collect()] == list(range(packing.MOST))
    few = df.limit(64).repartition(6, "bucket").selectExpr("spark_partition_id() AS p").groupBy("p").count()
    assert sorted(r["count"] for r in few.collect()) == [10, 10, 11, 11, 11, 11]


def test_a_query_keeps_the_buckets_that_it_was_started_with(source: Source, spark: SparkSession) -> None:
    """Though the session's number of partitions is another one by then; what asks for another number of buckets is refused."""
    call = f"SELECT * FROM {CALL.format('events', '')}"
    keys = [f"k{i}" for i in range(40)]  # with four times as many buckets, most would lie where no state is
    source.add([(k, at(0), i, 0) for i, k in enumerate(keys)])
    source.run(call)
    source.add([(k, at(1), 100 + i, 0) for i, k in enumerate(keys)])
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    assert ids(source.run(call)) == list(range(40))
    source.add([("new", at(2), 200, 0)])
    spark.conf.set("streamtime.buckets", "256")
    try:
        with pytest.raises(
            StreamingQueryException, match=r"with 16 buckets of keys, and this run has 256\. Run SET streamtime.buckets = 16 "
        ):
            source.run(call)
        spark.conf.set("streamtime.buckets", "17")
        with pytest.raises(
            AnalysisException, match=r"`streamtime.buckets`: expected a power of two up to 4096, got '17'. Write: SET stream"
        ):
            source.run(call)
        spark.conf.set("streamtime.buckets", "16")
        assert ids(source.run(call)) == [*range(40), 200]
    finally:
        spark.conf.unset("streamtime.buckets")


def test_an_option_changed_on_an_old_checkpoint_is_an_error_that_names_it(source: Source) -> None:
    source.add([("a", at(0), 1, 0)])
    source.run(f"SELECT * FROM {CALL.format('events', '')}")
    source.add([("a", at(15), 2, 0)])
    changed = "DEDUPLICATE(TABLE(events) PARTITION BY k ORDER BY ts, within => INTERVAL 20 SECONDS)"
    with pytest.raises(
        StreamingQueryException,
        match=r"DEDUPLICATE: the query's checkpoint was written with other options: within was 0:00:10 and is 0:00:20",
    ):
        source.run(f"SELECT * FROM {changed}")
    assert ids(source.run(f"SELECT * FROM {CALL.format('events', '')}")) == [1, 2]  # as it was, it goes on
