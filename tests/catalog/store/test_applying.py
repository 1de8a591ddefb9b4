"""apply_changes: hundreds of histories in any order of arrival, against what they mean; batches that come twice; columns that come; bad input."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import streamtime
from streamtime import CallError
from streamtime.sql.tables.applied import Applied
from streamtime.store import applying

Change = tuple[Any, ...]  # key, odd key, sequence, value, op
DDL = "k INT, `o dd` STRING, seq INT, v DOUBLE, op STRING"
NAMES = {"keys": ["k", "o dd"], "sequence_by": "seq", "deleted": "op = 'D'"}


def histories(random_: random.Random, count: int) -> list[Change]:
    """Changes of many keys: some of equal sequence, deletions first and last, NaN, -0.0, nulls; some come twice."""
    found: list[Change] = []
    for key in range(count):
        for _ in range(random_.choice([1, 2, 3, 6])):
            value = random_.choice([None, 1.5, float("nan"), -0.0, 7.0])
            found.append((key, random_.choice(["", "é`"]), random_.randint(0, 4), value, random_.choice(["U", "U", "D"])))
    found += random_.sample(found, len(found) // 5)
    return [*found, (None, "x", 1, 1.0, "U"), (1, None, 1, 1.0, "D"), (1, "x", None, 1.0, "U")]


def rank(change: Change) -> tuple[Any, ...]:
    """Of two changes of a key the larger one wins; NaN is larger than any number, null smaller, as Spark orders them."""
    _, _, at, value, op = change
    kind = 0 if value is None else 2 if value != value else 1
    return (at, op == "D", kind, value if kind == 1 else 0.0, op or "")


def meant(changes: list[Change]) -> tuple[set[str], set[str]]:
    """What the table is with one row for each key, and with its history: slowly, from what the words say."""
    keys: dict[Any, dict[int, Change]] = {}
    for change in changes:
        if None in change[:3]:
            continue
        at = keys.setdefault(change[:2], {})
        at[change[2]] = max([c for c in (at.get(change[2]), change) if c is not None], key=rank)
    newest, history = set(), set()
    for at in keys.values():
        times = sorted(at)
        if at[times[-1]][4] != "D":
            newest.add(shown(at[times[-1]]))
        for begins, ends in zip(times, [*times[1:], None], strict=True):
            if at[begins][4] != "D":
                history.add(shown((*at[begins], begins, ends)))
    return newest, history


def shown(row: Any) -> str:
    return str(tuple("0.0" if v == 0.0 and isinstance(v, float) else str(v) for v in row))


@pytest.mark.short("changes in any order")
def test_any_order_of_arrival_gives_one_table(spark: SparkSession, schema: str, thorough: bool) -> None:
    random_ = random.Random(20)
    changes = histories(random_, 150)
    newest, history = meant(changes)
    assert len(history) > len(newest) > 50
    for order, cuts in enumerate((2, 3) if thorough else (2,)):
        random_.shuffle(changes)
        edges = sorted(random_.sample(range(1, len(changes)), cuts - 1))
        batches = [changes[a:b] for a, b in zip([0, *edges], [*edges, len(changes)], strict=True)]
        for scd, expected in ((1, newest), (2, history)):
            table = f"{schema}.t{scd}_{order}"
            reports = [
                streamtime.apply_changes(spark, table, spark.createDataFrame(b, DDL), scd=scd, batch_id=n, **NAMES)
                for n, b in enumerate(batches)
            ]
            assert sum(r.changes for r in reports) == len(changes)
            assert sum(r.counts.get("null_key", 0) for r in reports) == 2
            assert sum(r.counts.get("null_sequence", 0) for r in reports) == 1
            found = [shown(r) for r in spark.table(table).collect()]
            assert len(found) == len(set(found))
            assert set(found) == expected, (scd, order)
        again = streamtime.apply_changes(spark, table, spark.createDataFrame(batches[0], DDL), scd=2, batch_id=0, **NAMES)
        assert again.repeated


@pytest.mark.long("tests/catalog/store/test_applying.py::test_any_order_of_arrival_gives_one_table")
def test_without_a_batch_id_the_same_changes_change_nothing(spark: SparkSession, schema: str) -> None:
    table, text = f"{schema}.t", "SELECT 1 AS k, 5 AS seq, 'a' AS v, 'insert' AS change_type"
    first = streamtime.apply_changes(spark, table, text, keys="k", sequence_by="seq")
    assert (first.inserted, first.updated, first.deleted, first.repeated) == (1, 0, 0, False)
    again = streamtime.apply_changes(spark, table, text, keys="k", sequence_by="seq")
    assert (again.inserted, again.updated, again.deleted) == (0, 0, 0)
    gone = streamtime.apply_changes(
        spark, table, "SELECT 1 AS k, 6 AS seq, NULL AS v, 'delete' AS change_type", keys="k", sequence_by="seq"
    )
    assert gone.deleted == 1
    late = streamtime.apply_changes(spark, table, text, keys="k", sequence_by="seq")
    assert late.inserted == 0
    assert spark.table(table).columns == ["k", "seq", "v"]


@pytest.mark.short("a batch that comes again")
@pytest.mark.parametrize("scd", [1, pytest.param(2, marks=pytest.mark.long("the same with history"))])
def test_a_batch_that_comes_again_writes_nothing_but_what_was_deleted_meanwhile(spark: SparkSession, schema: str, scd: int) -> None:
    """A row that somebody deleted by hand stays away; and a key that another writer deleted while the batch broke off goes."""
    table, options = f"{schema}.t", {"keys": "id", "sequence_by": "at", "scd": scd}
    batch = "SELECT * FROM VALUES (1, 10), (2, 10), (3, 10) AS v(id, at)"
    streamtime.apply_changes(spark, table, batch, batch_id=1, **options)
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"INSERT INTO {table}__deleted VALUES (2, 11), (3, 9)")
    again = streamtime.apply_changes(spark, table, batch + " UNION ALL SELECT 4, 12", batch_id=1, **options)
    assert again.repeated
    left = [tuple(row) for row in spark.sql(f"SELECT id, at FROM {table} {'WHERE valid_to IS NULL' if scd == 2 else ''}").collect()]
    assert left == [(3, 10)]


def test_numbers_take_the_tables_type_and_what_would_be_cut_off_is_refused(spark: SparkSession, schema: str) -> None:
    table, options = f"{schema}.t", {"keys": "id", "sequence_by": "at"}
    streamtime.apply_changes(spark, table, "SELECT 1 AS id, 1 AS at, 10 AS price, 1.5BD AS d, DATE '2024-01-01' AS day", **options)
    for column in ("10.75D AS price", "10.75BD AS price", "1.25BD AS d", "1.5D AS d", "TIMESTAMP '2024-01-01 10:00:00' AS day", "'x' AS d"):
        with pytest.raises(CallError, match=f"has `{column.split()[-1]}` as .*, and the table .* as .*. Cast it"):
            streamtime.apply_changes(spark, table, f"SELECT 1 AS id, 2 AS at, {column}", **options)
    for scd, name in ((1, table), (2, f"{schema}.all")):
        if scd == 2:
            streamtime.apply_changes(spark, name, "SELECT 1 AS id, 1 AS at, 10 AS price, 1.5BD AS d", scd=2, **options)
        streamtime.apply_changes(spark, name, "SELECT 1L AS id, 2L AS at, 11L AS price, 2 AS d", scd=scd, **options)
        streamtime.apply_changes(spark, name, "SELECT 2L AS id, 2L AS at, NULL AS price, 3 AS d", scd=scd, **options)
        rows = spark.sql(f"SELECT id, at, price, d FROM {name} WHERE at = 2 ORDER BY id").collect()
        assert str(rows) == "[Row(id=1, at=2, price=11, d=Decimal('2.0')), Row(id=2, at=2, price=None, d=Decimal('3.0'))]"
        with pytest.raises(SparkRuntimeException, match=r"a value of `price` \(BIGINT\) does not fit into INT"):
            streamtime.apply_changes(spark, name, "SELECT 3 AS id, 3 AS at, 3000000000 AS price", scd=scd, **options)
        assert spark.table(name).where("at = 3").isEmpty()


SCD = [pytest.param(1, marks=pytest.mark.long("the same with history")), 2]


@pytest.mark.parametrize("scd", SCD)
def test_what_stands_beside_a_table_gets_wider_with_it(spark: SparkSession, schema: str, scd: int) -> None:
    """The table of deletions has the table's types, not those of the first batch; they and the bounds follow when it is made wider."""
    target, options = f"{schema}.people", {"keys": "id", "sequence_by": "at", "deleted": "name IS NULL", "scd": scd}
    bounds = ", valid_from INT, valid_to INT" if scd == 2 else ""
    spark.sql(f"CREATE TABLE {target} (id BIGINT, name STRING, at INT{bounds}) USING delta TBLPROPERTIES (delta.enableTypeWidening = true)")
    small = "SELECT 1 AS id, 'Ann' AS name, 10 AS at UNION ALL SELECT 2, NULL, 10"
    streamtime.apply_changes(spark, target, small, **options)  # type: ignore[arg-type]
    spark.sql(f"ALTER TABLE {target} ALTER COLUMN at TYPE BIGINT")
    far = "SELECT 3000000000 AS id, CAST(NULL AS STRING) AS name, 4000000000 AS at UNION ALL SELECT 3, 'Bob', 4000000000"
    streamtime.apply_changes(spark, target, far, **options)  # type: ignore[arg-type]
    assert {row.id for row in spark.table(target).collect()} == {1, 3}
    assert {(row.id, row.at) for row in spark.table(f"{target}__deleted").collect()} == {(2, 10), (3000000000, 4000000000)}
    if scd == 2:
        assert {row.valid_from for row in spark.table(target).collect()} == {10, 4000000000}


def test_batches_of_two_applications_have_two_names(spark: SparkSession, schema: str) -> None:
    options = {"keys": "id", "sequence_by": "at"}
    for number, (app_id, batch_id) in enumerate([("a", "b:c"), ("a:b", "c"), ("a:b", "c")]):
        rows = f"SELECT {number} AS id, 1 AS at"
        done = streamtime.apply_changes(spark, f"{schema}.t", rows, batch_id=batch_id, app_id=app_id, **options)  # type: ignore[arg-type]
        assert done.repeated == (number == 2)


def test_a_column_by_the_name_of_one_of_a_changelogs_stays_where_deletions_are_marked_otherwise(spark: SparkSession, schema: str) -> None:
    changes = "SELECT 1 AS id, 5 AS lsn, 'U' AS op, TIMESTAMP '2024-01-01' AS change_time"
    streamtime.apply_changes(spark, f"{schema}.t", changes, keys="id", sequence_by="lsn", deleted="op = 'D'")
    assert spark.table(f"{schema}.t").columns == ["id", "lsn", "op", "change_time"]
    streamtime.apply_changes(spark, f"{schema}.u", changes.replace("'U' AS op", "7 AS change_type"), keys="id", sequence_by="lsn")
    assert spark.table(f"{schema}.u").columns == ["id", "lsn", "change_type", "change_time"]
    streamtime.apply_changes(spark, f"{schema}.v", changes.replace("'U' AS op", "'delete' AS change_type"), keys="id", sequence_by="lsn")
    assert (spark.table(f"{schema}.v").columns, spark.table(f"{schema}.v").count()) == (["id", "lsn", "change_time"], 0)


def test_deletions_are_marked_by_all_that_the_session_knows(spark: SparkSession, schema: str) -> None:
    """The merge runs in a session of its own, without this one's functions and ways of reading a text."""
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION is_gone(op STRING) RETURNS BOOLEAN RETURN op = 'D'")
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        for number, deleted in enumerate(("is_gone(op)", "\"op\" = 'D'")):
            changes = "SELECT * FROM VALUES (1, 1, 'I'), (1, 2, 'D'), (2, 1, 'I') AS c(id, lsn, op)"
            streamtime.apply_changes(spark, f"{schema}.t{number}", changes, keys="id", sequence_by="lsn", deleted=deleted)
            assert [tuple(row) for row in spark.table(f"{schema}.t{number}").collect()] == [(2, 1, "I")]
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
        spark.sql("DROP TEMPORARY FUNCTION is_gone")


def test_columns_that_come_are_added_and_those_that_only_the_table_has_keep_their_values(spark: SparkSession, schema: str) -> None:
    table = f"{schema}.t"
    streamtime.apply_changes(spark, table, "SELECT 1 AS k, 1 AS seq, 'a' AS v", keys="k", sequence_by="seq")
    streamtime.apply_changes(spark, table, "SELECT 1 AS k, 2 AS seq, 7 AS n", keys="k", sequence_by="seq")
    streamtime.apply_changes(spark, table, "SELECT 1 AS k, 3 AS seq, 8 AS `o dd, {name}`", keys="k", sequence_by="seq")
    assert [tuple(r) for r in spark.table(table).collect()] == [(1, 3, "a", 7, 8)]


def test_a_change_feed_is_a_changelog(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.s (k INT, v STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"INSERT INTO {schema}.s VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"UPDATE {schema}.s SET v = 'z' WHERE k = 1")
    spark.sql(f"DELETE FROM {schema}.s WHERE k = 2")
    text = f"SELECT *, _commit_version AS seq FROM table_changes('{schema}.s', 0)"
    streamtime.apply_changes(spark, f"{schema}.t", text, keys="k", sequence_by="seq", scd=2)
    rows = spark.sql(f"SELECT k, v, valid_from, valid_to FROM {schema}.t ORDER BY k, valid_from").collect()
    assert [tuple(r) for r in rows] == [(1, "a", 1, 2), (1, "z", 2, None), (2, "b", 1, 3), (3, "c", 1, None)]
    spark.sql(f"INSERT OVERWRITE {schema}.s VALUES (1, 'y'), (4, 'd')")  # a deletion and an insert of key 1, in one commit
    newest = f"SELECT *, _commit_version AS seq FROM table_changes('{schema}.s', 4)"
    streamtime.apply_changes(spark, f"{schema}.t", newest, keys="k", sequence_by="seq", scd=2)
    rows = spark.sql(f"SELECT k, v FROM {schema}.t WHERE valid_to IS NULL ORDER BY k").collect()
    assert [tuple(r) for r in rows] == [(1, "y"), (4, "d")]
    spark.sql(f"UPDATE {schema}.s SET k = CASE k WHEN 1 THEN 4 ELSE 5 END, v = concat(v, v)")  # 1 is 4 now, 4 is 5, and nothing is 1
    moved = f"SELECT *, _commit_version AS seq FROM table_changes('{schema}.s', 5)"
    streamtime.apply_changes(spark, f"{schema}.t", moved, keys="k", sequence_by="seq", scd=2)
    rows = spark.sql(f"SELECT k, v FROM {schema}.t WHERE valid_to IS NULL ORDER BY k").collect()
    assert [tuple(r) for r in rows] == [(4, "yy"), (5, "dd")]
    with pytest.raises(CallError, match="keeps history, and 1 has one row for a key"):
        streamtime.apply_changes(spark, f"{schema}.t", text, keys="k", sequence_by="seq")


def test_an_option_that_the_writer_of_a_stream_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="delete"):
        streamtime.changes_writer("t", keys="id", sequence_by="at", delete="op = 'D'")  # type: ignore[call-arg]


def streamed(spark: SparkSession, folder: Path, name: str, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """A stream over the files of a folder, one a micro-batch, started; after a failure it goes on from its checkpoint."""
    stream = spark.readStream.schema(DDL).option("maxFilesPerTrigger", "1").parquet(str(folder / name))
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / f"{name} checkpoint"))
    return writer.trigger(availableNow=True).start()


def files(spark: SparkSession, folder: Path, changes: list[Change], count: int) -> None:
    folder.mkdir()
    for number in range(count):
        path = folder / f"{number}.parquet"
        pq.write_table(spark.createDataFrame(changes[number::count], DDL).toArrow(), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The batches that streams apply: number, whether it was applied before."""
    found: list[tuple[int, bool]] = []
    whole = applying._Applier.applied

    def told(applier: Any, batch: tuple[str, int]) -> Any:
        report = whole(applier, batch)
        found.append((batch[1], report.repeated))
        return report

    monkeypatch.setattr(applying._Applier, "applied", told)
    return found


@pytest.mark.parametrize("scd", SCD)
def test_a_micro_batch_that_breaks_off_comes_again_and_counts_once(
    spark: SparkSession, schema: str, tmp_path: Path, reports: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch, scd: int
) -> None:
    """Broken off after deletions were remembered and before they were merged; and after all was done, before Spark knew."""
    changes = histories(random.Random(scd), 30)
    files(spark, tmp_path / "in", changes, 3)
    write, breaks = streamtime.changes_writer(f"{schema}.t", scd=scd, **NAMES), {"within": 0, "behind": 1}
    commits = applying._Applier._commits

    def within(applier: Any, session: SparkSession) -> int:
        if breaks.pop("within", None) is not None:
            raise RuntimeError("killed before the merge")
        return commits(applier, session)

    def behind(df: DataFrame, number: int) -> None:
        write(df, number)
        if breaks.get("behind") == number:
            del breaks["behind"]
            raise RuntimeError("killed after the merge")

    monkeypatch.setattr(applying._Applier, "_commits", within)
    for message in ("killed before the merge", "killed after the merge"):
        with pytest.raises(StreamingQueryException, match=message):
            streamed(spark, tmp_path, "in", behind).awaitTermination()
    streamed(spark, tmp_path, "in", behind).awaitTermination()
    assert reports == [(0, False), (1, False), (1, True), (2, False)]
    found = [shown(row) for row in spark.table(f"{schema}.t").collect()]
    assert len(found) == len(set(found))
    assert set(found) == meant(changes)[scd - 1]


@pytest.mark.parametrize("scd", SCD)
@pytest.mark.long("tests/catalog/store/test_applying.py::test_a_batch_that_comes_again_writes_nothing_but_what_was_deleted_meanwhile")
def test_two_streams_at_once_make_one_table_of_their_changes(
    spark: SparkSession, schema: str, tmp_path: Path, reports: list[tuple[int, bool]], scd: int
) -> None:
    """Batches of the same numbers, of the same keys, into a table that is not there yet."""
    changes = histories(random.Random(7 + scd), 30)
    files(spark, tmp_path / "one", changes[::2], 2)
    files(spark, tmp_path / "other", changes[1::2], 2)
    write = streamtime.changes_writer(f"{schema}.t", scd=scd, **NAMES)
    for query in [streamed(spark, tmp_path, name, write) for name in ("one", "other")]:
        query.awaitTermination()
    assert sorted(reports) == [(0, False), (0, False), (1, False), (1, False)]
    found = [shown(row) for row in spark.table(f"{schema}.t").collect()]
    assert len(found) == len(set(found))
    assert set(found) == meant(changes)[scd - 1]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"keys": "kk"}, "apply_changes, `keys`: no column `kk` in the changes. Did you mean `k`?"),
    ({"sequence_by": "nothing"}, "apply_changes, `sequence_by`: no column `nothing` in the changes. The changes have `k`, `seq`, `v`."),
    ({"sequence_by": "m"}, "no column `m`"),
    ({"deleted": "v"}, "apply_changes, `deleted`: expected a condition, got STRING (`v`). Write it as op = 'D'."),
    ({"deleted": "w = 1"}, "apply_changes, `deleted`: Spark cannot resolve it"),
    ({"scd": 3}, "apply_changes, `scd`: expected 1 or 2, got 3."),
    ({"scd": 2, "sequence_by": ["seq", "v"]}, "expected one column with scd=2, got `seq`, `v`"),
    ({"keys": []}, "apply_changes, `keys`: expected a column at least, got none."),
    ({"sequence_by": []}, "apply_changes, `sequence_by`: expected a column at least, got none."),
    ({"sequence_by": ["seq", "K"]}, "apply_changes, `sequence_by`: `k` is a key. Changes of a key are ordered by another column."),
]


def test_what_is_wrong_is_said_before_anything_is_made(spark: SparkSession, schema: str) -> None:
    for options, message in WRONG:
        given: dict[str, Any] = {"keys": "k", "sequence_by": "seq"} | options
        with pytest.raises(CallError, match=re.escape(message)):
            streamtime.apply_changes(spark, f"{schema}.t", "SELECT 1 AS k, 1 AS seq, 'a' AS v", **given)
    with pytest.raises(CallError, match="apply_changes, `changes`: expected a DataFrame or one query, got another text"):
        streamtime.apply_changes(spark, f"{schema}.t", f"CREATE TABLE {schema}.t AS SELECT 1 AS k, 1 AS seq", keys="k", sequence_by="seq")
    assert not spark.catalog.tableExists(f"{schema}.t")


def test_the_text_is_plain_sql_that_a_person_can_read() -> None:
    text = Applied("s.t", "s.t__deleted", "s.feed", ["k", "at", "v"], ["k"], ["at"], ["v"], "op = 'D'", scd=2).merge
    assert "lead(`at`) OVER (PARTITION BY `k` ORDER BY `at`) AS `__ends`" in text
    assert "WHEN NOT MATCHED AND NOT s.`__gone` THEN INSERT (`k`, `at`, `v`, valid_from, valid_to)" in text
    assert "{" not in text
