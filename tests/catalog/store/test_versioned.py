"""VersionedTable: the slow store on random puts, many writers at once, batches that come twice, writers that are killed, streams."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from support.reference.versions import Store
from support.times import micros, moment

import streamtime
from streamtime import VersionedTable

DDL = "k STRING, t TIMESTAMP, v STRING"


def table_of(spark: SparkSession, schema: str, name: str = "t", **lengths: Any) -> VersionedTable:
    return VersionedTable.create(spark, f"{schema}.{name}", DDL, key="k", time="t", **lengths)


def length(micros_: int | None) -> datetime.timedelta | None:
    return None if micros_ is None else datetime.timedelta(microseconds=micros_)


def contents(spark: SparkSession, table: VersionedTable) -> list[tuple[Any, ...]]:
    return sorted((r.k, micros(r.t), r.v, bool(r["_deleted"])) for r in spark.table(table.table).collect())


def of_store(store: Store) -> list[tuple[Any, ...]]:
    return sorted((k, t, v, v is None) for k, by_time in store.versions.items() for t, v in by_time.items())


def shown(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else (row.v, micros(row.valid_from), row.valid_to and micros(row.valid_to))


def some_puts(random_: random.Random, count: int) -> list[tuple[str, Any, int]]:
    return [
        (random_.choice("ab"), random_.choice([None, *[f"v{i}"] * 4]), i * 30 // count + random_.randint(-9, 9) + 100) for i in range(count)
    ]


def row_of(key: str, value: Any, at: int) -> dict[str, Any]:
    return {"k": key, "v": value, "t": moment(at, 1)} | ({"_deleted": True} if value is None else {})


@pytest.mark.short("puts and lookups in random order")
def test_random_puts_and_lookups_equal_the_slow_store(spark: SparkSession, schema: str) -> None:
    random_ = random.Random(7)
    grace, retention = 5, 8
    store, table = Store(retention, grace), table_of(spark, schema, grace=length(grace), retention=length(retention))
    for kind in ("rows", "frame"):
        puts = some_puts(random_, 12)
        told = [store.put(*p)[0] for p in puts]
        rows = [row_of(*p) for p in puts]
        if kind == "rows":
            report = table.put(rows)
        else:
            given = [("_deleted" in r, r["t"], i, r["v"], r["k"]) for i, r in enumerate(rows)]
            df = spark.createDataFrame(given, "_deleted BOOLEAN, t TIMESTAMP, i INT, v STRING, k STRING")
            report = table.put(df.orderBy("v").repartition(3), order_by=["i"])
        refused = [p for p, status in zip(puts, told, strict=True) if status == "refused"]
        assert (report.accepted, report.counts) == (12 - len(refused), {"too_old": len(refused)} if refused else {})
        assert sorted(map(str, ((r.k, r.v, micros(r.t)) for r in report.dropped))) == sorted(map(str, refused))
    assert contents(spark, table) == of_store(store)
    for _ in range(3):
        key, at = random_.choice("ab"), random_.randint(85, 140)
        assert shown(table.get(key, moment(at, 1))) == store.get(key, at), (key, at)
        low, high = sorted((random_.randint(85, 140), at))
        assert [shown(r) for r in table.history(key, moment(low, 1), moment(high, 1))] == store.history(key, low, high)
    assert [shown(table.get(k)) for k in "ab"] == [store.get(k) for k in "ab"]
    assert shown(table.delete("a", moment(store.stream_time, 1))) == store.delete("a", store.stream_time)
    oldest = store.stream_time - retention
    live = [(k, *v) for k in "ab" for v in store.all(k) if v[2] is None or v[2] > oldest]
    got = sorted((r.k, r.v, micros(r.valid_from), r.valid_to and micros(r.valid_to)) for r in table.versions().collect())
    assert got == sorted((k, v, a, b) for k, v, a, b in live if v is not None)
    before = len(contents(spark, table))
    assert table.maintain(compact=False) == before - len(live)
    assert contents(spark, table) == sorted((k, a, v, v is None) for k, v, a, _ in live)


def test_nulls_and_rows_that_do_not_fit(spark: SparkSession, schema: str) -> None:
    table = table_of(spark, schema)
    report = table.put([("a", None, "x"), (None, moment(1), "y"), ["a", moment(1), None], Row(k="b", t=moment(2), v="z")])
    assert (report.accepted, report.counts) == (2, {"null_time": 1, "null_key": 1})
    assert [(r.v, r.reason) for r in report.dropped] == [("x", "null_time"), ("y", "null_key")]
    frame = table.put(spark.createDataFrame([("a", None, "x"), (None, moment(1), "y")], DDL))
    assert (frame.accepted, frame.counts) == (0, {"null_time": 1, "null_key": 1})
    assert shown(table.get("a")) == (None, 1000, None)  # a null value is a row like any other
    for rows, message in (
        ([{"k": "a", "tt": 1}], r"put: no column `tt` in the table .* Did you mean `t`\?"),
        ([("a", moment(1))], r"put: expected rows of `k`, `t`, `v`, got \('a', "),
        (["a"], r"put: expected rows of `k`, `t`, `v`, got 'a'"),
        (spark.range(1), r"put: no column `id` in the table"),
    ):
        with pytest.raises(streamtime.CallError, match=message):
            table.put(rows)
    with pytest.raises(streamtime.CallError, match=r"`order_by`: is for a DataFrame"):
        table.put([("a", moment(1), "x")], order_by=["t"])
    with pytest.raises(streamtime.CallError, match=r"key: expected values of `k`, got \('a', 'b'\)"):
        table.get(("a", "b"))
    spark.sql(f"CREATE TABLE {schema}.plain (k STRING, t TIMESTAMP) USING delta")
    with pytest.raises(streamtime.CallError, match=r"does not declare that it is versioned. Use ALTER TABLE .* or VersionedTable.create"):
        VersionedTable(spark, f"{schema}.plain")
    spark.sql(f"ALTER TABLE {schema}.plain SET TBLPROPERTIES ('streamtime.key' = 'k', 'streamtime.time' = 't')")
    declared_in_sql = VersionedTable(spark, f"{schema}.plain")
    assert declared_in_sql.put([("a", moment(1))]).accepted == 1
    with pytest.raises(streamtime.CallError, match=r"delete: the table .* has no column that marks tombstones. Add a BOOLEAN column"):
        declared_in_sql.delete("a", moment(2))
    with pytest.raises(streamtime.CallError, match=r"property `streamtime.key` of .*: no column `kk`"):
        VersionedTable.create(spark, f"{schema}.wrong", DDL, key="kk", time="t")


def test_a_batch_that_comes_again_changes_nothing(spark: SparkSession, schema: str) -> None:
    table = table_of(spark, schema)
    assert table.put([row_of("a", "1", 5)], batch_id="x").accepted == 1
    table.put([row_of("a", "2", 5)], batch_id=7)
    for again in (table, VersionedTable(spark, f"{schema}.t")):
        report = again.put([row_of("a", "1", 5)], batch_id="x")
        assert (report.accepted, report.repeated) == (0, True)
    assert table.put([row_of("a", "3", 6)], batch_id="x", app_id="another").accepted == 1
    assert contents(spark, table) == [("a", 5, "2", False), ("a", 6, "3", False)]


def test_a_writer_that_is_killed_and_tries_again_does_not_double(spark: SparkSession, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before its commit, or after it and before it heard of it."""
    from delta.tables import DeltaMergeBuilder

    table, execute = table_of(spark, schema), DeltaMergeBuilder.execute
    for number, commits in enumerate((False, True)):

        def killed(self: Any, commits: bool = commits) -> Any:
            if commits:
                execute(self).collect()
            raise KeyboardInterrupt

        monkeypatch.setattr(DeltaMergeBuilder, "execute", killed)
        with contextlib.suppress(KeyboardInterrupt):
            table.put([row_of("a", str(number), number)], batch_id=number)
        monkeypatch.setattr(DeltaMergeBuilder, "execute", execute)
        table.put([row_of("a", "later", number)]) if commits else None  # what another writer put since, a repeated batch would undo
        assert table.put([row_of("a", str(number), number)], batch_id=number).repeated == commits
    assert contents(spark, table) == [("a", 0, "0", False), ("a", 1, "later", False)]


def test_many_writers_at_once_lose_nothing_and_double_nothing(spark: SparkSession, schema: str) -> None:
    """STREAMTIME_PUTS=200 for the long run. Without a grace, the end is that of all puts one after the other."""
    writers, count = 8, int(os.environ.get("STREAMTIME_PUTS", "4"))
    table, store = table_of(spark, schema), Store()

    def work(writer: int) -> int:
        mine = VersionedTable(spark, f"{schema}.t")
        return sum(mine.put([row_of(f"k{(writer + i) % 5}", f"{writer}:{i}", 1000 * i + writer)]).accepted for i in range(count))

    started = time.monotonic()
    with ThreadPoolExecutor(writers) as pool:
        assert sum(pool.map(work, range(writers))) == writers * count
    print(f"{writers} x {count} puts: {time.monotonic() - started:.0f} s")
    for writer in range(writers):
        for i in range(count):
            store.put(f"k{(writer + i) % 5}", f"{writer}:{i}", 1000 * i + writer)
    assert contents(spark, table) == of_store(store)


def test_what_another_process_put_counts_though_a_writer_remembers_less(spark: SparkSession, schema: str) -> None:
    from streamtime.store.puts import Writer

    table_of(spark, schema, grace=length(2))
    mine, other = VersionedTable(spark, f"{schema}.t"), VersionedTable(spark, f"{schema}.t")
    mine._writer, other._writer = Writer(spark), Writer(spark)
    puts = [(mine, "first", 1), (other, "far", 900), (mine, "too old", 2)]
    assert [table.put([row_of("k", value, at)]).counts for table, value, at in puts] == [{}, {}, {"too_old": 1}]


@pytest.mark.long("tests/udfs/test_versioned_store.py")
def test_writers_that_do_not_know_of_each_other_judge_by_one_stream_time(spark: SparkSession, schema: str) -> None:
    """As from several processes: each has a turn and a memory of its own. The commits, one after the other, are puts under the rule."""
    from streamtime.store.puts import Writer

    created = table_of(spark, schema, grace=length(2))
    spark.sql(f"ALTER TABLE {schema}.t SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    told: list[tuple[str, str]] = []

    def work(writer: int) -> None:
        mine = VersionedTable(spark, f"{schema}.t")
        mine._writer = Writer(spark)
        for i in range(3):
            at = i * 3 + writer
            report = mine.put([row_of("k", f"{writer}:{i}", at)])
            told.append((f"{writer}:{i}", "accepted" if report.accepted else "refused"))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    feed = (
        spark.read.option("readChangeFeed", "true")
        .option("startingVersion", 1)
        .table(f"{schema}.t")
        .where("_change_type <> 'update_preimage'")
    )
    commits = [(micros(r.t), r.v) for r in feed.orderBy("_commit_version").collect()]
    assert {v for _, v in commits} == {v for v, status in told if status == "accepted"}
    reached = None
    for at, value in commits:
        assert reached is None or at >= reached - 2, (commits, value)
        reached = at if reached is None else max(reached, at)
    for value, status in told:
        writer, i = map(int, value.split(":"))
        assert status == "accepted" or i * 3 + writer < reached - 2
    assert created.get("k") is not None


def test_a_stream_writes_each_micro_batch_once(spark: SparkSession, schema: str, tmp_path: Any) -> None:
    table = table_of(spark, schema)
    source = f"{schema}.source"
    spark.sql(f"CREATE TABLE {source} (k STRING, t TIMESTAMP, v STRING, off INT) USING delta")

    def run(write: Any) -> None:
        stream = spark.readStream.table(source).writeStream.foreachBatch(write)
        query = stream.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start()
        query.awaitTermination(120)

    spark.sql(f"INSERT INTO {source} VALUES ('a', timestamp_micros(5), 'new', 2), ('a', timestamp_micros(5), 'old', 1)")
    write = table.writer(order_by=["off"])

    def failing(df: Any, number: int) -> None:
        write(df, number)
        raise RuntimeError("killed after the commit")

    with pytest.raises(Exception, match="killed after the commit"):
        run(failing)
    table.put([row_of("a", "since", 5)])
    run(write)  # the same micro-batch again
    assert contents(spark, table) == [("a", 5, "since", False)]
    spark.sql(f"INSERT INTO {source} VALUES ('b', timestamp_micros(6), 'next', 3)")
    run(write)
    assert contents(spark, table) == [("a", 5, "since", False), ("b", 6, "next", False)]


def test_a_table_of_days_keeps_what_is_current(spark: SparkSession, schema: str) -> None:
    """A DATE that is null, as the end of what is current, was the smallest number once: all current versions were removed."""
    month = datetime.timedelta(days=30)
    table = VersionedTable.create(spark, f"{schema}.days", "k STRING, t DATE, v STRING", key="k", time="t", retention=month)
    days = [datetime.date(2024, m, 1) for m in (1, 3, 6)]
    table.put([{"k": "a", "t": day, "v": str(day)} for day in days] + [{"k": "b", "t": days[2], "v": "b"}])
    for _ in range(2):
        assert [r and (r.v, r.valid_to) for r in (table.get("a"), table.get("a", datetime.date(2024, 7, 1)), table.get("b"))] == [
            ("2024-06-01", None),
            ("2024-06-01", None),
            ("b", None),
        ]
        assert table.history("a")[0].v == "2024-06-01"
        table.maintain()
    assert sorted(r.v for r in spark.table(table.table).collect() if r.t == days[2]) == ["2024-06-01", "b"]
