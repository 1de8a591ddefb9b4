"""The processing order in ranges: they go up with it, and no value that many rows have makes one range of them."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamtime.sql.rows import ranges
from streamtime.sql.rows.frame import Frame, Order, Ref
from streamtime.sql.rows.ranges import RANGE, Ranges, cut_by

ROWS = (
    "SELECT id AS n, 'one' AS same, id % 3 AS part, format_string('2024-01-%05d', id) AS text, collate('x', 'UTF8_LCASE') AS folded, if(id % 50 = 0,"
    " NULL, date_add(DATE '0001-01-01', CAST(id DIV 700 AS INT))) AS day, if(id % 9 = 0, double('NaN'), id / 2) AS real, array(id) AS list"
    " FROM range(3000)"
)


def frame_of(spark: SparkSession, *order: str) -> Frame:
    """Rows in an order that is written as in SQL."""
    df = spark.sql(ROWS).withColumn("shuffled", F.xxhash64("n")).orderBy("shuffled").drop("shuffled")
    refs = {f.name: Ref(f.name, f.dataType, f.name) for f in df.schema.fields}
    items = []
    for text in order:
        name, _, way = text.partition(" ")
        up = not way.startswith("DESC")
        items.append(Order(refs[name], up, "NULLS" not in way and up))
    return Frame(df, tuple(refs.values()), tuple(refs), (), tuple(items), refs["day"], {})


@pytest.mark.parametrize(
    "order",
    [
        ("n",), ("text",), ("part", "n"), ("same",), ("day",), ("day DESC",), ("day", "text"), ("day DESC", "n DESC"), ("real",),
        ("part", "n DESC"), ("day NULLS LAST",),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("count", [16, 100])
def test_ranges_go_up_with_the_order_and_cut_what_many_rows_have_in_common(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...], count: int
) -> None:
    monkeypatch.setattr(ranges, "SAMPLED_ROWS", 10)
    monkeypatch.setattr(ranges, "straight_from_files", lambda _: True)
    frame = frame_of(spark, *order)
    ranged = Ranges(count, 3).ordered(frame, frame.df)
    assert ranged.columns == [*frame.df.columns, RANGE]
    first = frame.order[0].ref.name
    rows = [r for r in ranged.sort(*frame.sort(within_key=False)).select(RANGE, first).collect() if r[1] is not None]
    numbers = [r[0] if frame.order[0].ascending else -r[0] for r in rows]
    assert numbers == sorted(numbers)
    coarse = order in (("part", "n DESC"), ("day NULLS LAST",), ("day DESC",))  # whose first values alone can cut
    assert max(Counter(numbers).values()) < len(rows) / (2 if coarse else 4)
    assert set(map(abs, numbers)) <= set(range(count))


def test_what_cannot_cut_is_one_range_and_few_rows_are(spark: SparkSession) -> None:
    for order in ("n", "folded", "list"):
        frame = frame_of(spark, order)
        numbers = {r[0] for r in Ranges(16, 3).ordered(frame, frame.df).select(RANGE).distinct().collect()}
        assert numbers == {0}


def test_what_cuts_stops_where_values_do_not_compare_as_rows_sort(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut_by(frame_of(spark, "n")) == ["`n`"]  # what breaks ties may be dear to compute
    monkeypatch.setattr(ranges, "straight_from_files", lambda _: True)
    assert cut_by(frame_of(spark, "n")) == ["`n`"]
    assert cut_by(frame_of(spark, "day")) == ["`day`", "`n`", "left(`same`, 32)"]
    assert cut_by(frame_of(spark, "same", "part", "n")) == ["`same`", "`part`", "`n`"]
    assert cut_by(frame_of(spark, "part", "n DESC")) == ["`part`"]
    assert cut_by(frame_of(spark, "part DESC", "n DESC")) == ["`part`", "`n`"]
    assert cut_by(frame_of(spark, "part", "folded", "n")) == ["`part`"]
    assert cut_by(frame_of(spark, "folded")) == cut_by(frame_of(spark, "list")) == []
