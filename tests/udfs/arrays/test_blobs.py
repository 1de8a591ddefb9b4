"""Rows on their way: what is made ahead of its use comes in order, and no further ahead than asked; blobs as rows and as a column; keys as
numbers.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from streamtime.udfs import keys as keys_
from streamtime.udfs.arrays.blobs import Packer, ahead, encoded, in_one_form, only


def test_items_come_in_order_each_once() -> None:
    assert list(ahead(iter(range(1, 1000)), 8)) == list(range(1, 1000))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_fewer_items_than_may_be_ahead(count: int) -> None:
    assert list(ahead(iter(range(1, count + 1)), 8)) == list(range(1, count + 1))


def test_an_error_comes_where_its_item_would() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    coming = ahead(items(), 8)
    assert [next(coming), next(coming)] == [1, 2]
    with pytest.raises(ValueError, match="the third"):
        next(coming)


def test_no_more_than_asked_is_made_ahead_and_in_another_thread() -> None:
    made: list[int] = []
    threads: set[int] = set()

    def items() -> Iterator[int]:
        for number in range(1, 100):
            made.append(number)
            threads.add(threading.get_ident())
            yield number

    for used, _ in enumerate(ahead(items(), 3)):
        assert len(made) <= used + 1 + 3
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_what_is_not_wanted_any_more_is_not_made() -> None:
    made: list[threading.Thread] = []

    def items() -> Iterator[int]:
        for number in range(1, 1000):
            made.append(threading.current_thread())
            yield number

    coming = ahead(items(), 4)
    assert next(coming) == 1
    coming.close()  # type: ignore[attr-defined]
    assert len(made) <= 6
    assert not made[0].is_alive()


@pytest.mark.parametrize("seed", range(40))
def test_a_column_of_blobs_has_as_many_rows_as_came_in_and_says_what_blobs_say(seed: int) -> None:
    random_ = random.Random(seed)
    values = list(range(random_.choice([0, 1, 30, 500])))
    edges = sorted([0, len(values), *random_.choices(range(len(values) + 1), k=random_.randint(0, 6))])
    batches = [pa.array(values[start:stop], pa.int64()) for start, stop in itertools.pairwise(edges)]

    def blobs(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for start in range(0, table.num_rows, 7):
            data = encoded(table.slice(start, 7).combine_chunks())
            yield pa.RecordBatch.from_arrays([pa.array([start], pa.int64()), pa.array([data], pa.binary())], ["first", "data"])

    packer = Packer(blobs, rows=random_.choice([1, 10, 1000]), size=1 << 26)
    as_rows = list(packer.pack(pa.RecordBatch.from_arrays([b], ["v"]) for b in batches))
    as_column = list(replace(packer, names=("v",)).run((b,) for b in batches))
    assert sum(map(len, as_column)) == len(values)
    there = [s.as_py() for part in as_column for s in part if s.is_valid]
    assert there == [row for batch in as_rows for row in batch.to_pylist()]
    assert [v for blob in there for v in pa.ipc.open_stream(blob["data"]).read_all().column("v").to_pylist()] == values


INTEGERS = [None, 0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 255, 256]


@pytest.mark.parametrize("columns", [0, 1, 2, 3])
def test_two_numbers_tell_keys_apart_and_nulls_from_values_whatever_table_they_lie_in(columns: int) -> None:
    keys = list(itertools.product(INTEGERS, repeat=columns))
    arrays = [pa.array([k[i] for k in keys], pa.int64()) for i in range(columns)]
    found = list(zip(*(half.tolist() for half in keys_.halves(arrays, len(keys), "s")), strict=True))
    assert len(set(found)) == len(keys)
    alone = [keys_.halves([pa.array([v], pa.int64()) for v in key], 1, "s") for key in keys]
    assert [(int(first[0]), int(second[0])) for first, second in alone] == found


def test_keys_of_all_kinds_that_are_counted_have_two_numbers() -> None:
    kinds = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
    for kind in kinds:
        values = pa.array([0, 1, None], pa.int32() if kind == pa.date32() else pa.int64() if pa.types.is_temporal(kind) else pa.int8())
        first, second = keys_.halves([values.cast(kind)], 3, "s")
        assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == 3


class TooLong:
    """A table as pyarrow has it where a column has more than 2 GB, without the gigabytes: its chunks do not become one."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self.batches, self.num_rows = batches, sum(batch.num_rows for batch in batches)

    def combine_chunks(self) -> TooLong:
        return self

    def to_batches(self) -> list[pa.RecordBatch]:
        return [*self.batches]


def test_a_table_that_is_more_than_one_batch_is_an_error_and_no_row_is_lost() -> None:
    some = pa.record_batch({"text": ["a", "b"]})
    assert only(TooLong(some)) is some
    with pytest.raises(OverflowError, match="5 rows of one bucket of keys have more than 2 GB in one column"):
        only(TooLong(some, some, some.slice(1)))


def test_a_table_without_rows_is_one_batch_without_rows() -> None:
    empty = pa.table({"n": pa.array([], pa.int64()), "text": pa.array([], pa.string())})
    assert only(empty).num_rows == 0
    assert only(empty).schema == empty.schema


def test_moments_of_any_zone_are_those_of_utc_however_deep_they_lie() -> None:
    def kinds(zone: str) -> pa.Schema:
        moment = pa.timestamp("us", zone)
        fields = {"t": moment, "s": pa.struct([("a", moment), ("b", pa.int32())]), "l": pa.list_(moment), "m": pa.map_(pa.string(), moment)}
        return pa.schema({"n": pa.timestamp("us")} | fields | {"ls": pa.list_(pa.struct([("a", moment)]))})

    row = {"n": 1, "t": 2, "s": {"a": 3, "b": 4}, "l": [5, None], "m": [("x", 6)], "ls": [{"a": 7}, None]}
    here, there = (pa.Table.from_pylist([row, dict.fromkeys(row)], kinds(zone)) for zone in ("Europe/Berlin", "UTC"))
    assert in_one_form(here).schema == there.schema
    assert in_one_form(here).equals(there)
    assert in_one_form(here.to_batches()[0]).equals(there.to_batches()[0])
    assert in_one_form(there) is there


def test_what_may_be_null_is_no_other_type_however_deep_it_lies_and_a_variant_stays_one() -> None:
    def kinds(nullable: bool) -> pa.Schema:
        x = pa.field("x", pa.int64(), nullable=nullable)
        item = pa.field("element", pa.struct([x]), nullable=nullable)
        fields = {"s": pa.struct([x]), "l": pa.list_(item), "L": pa.large_list(item), "m": pa.map_(pa.string(), item.with_name("value"))}
        return pa.schema([pa.field(n, k, nullable=nullable) for n, k in ({"n": pa.int64()} | fields).items()])

    row = {"n": 1, "s": {"x": 2}, "l": [{"x": 3}], "L": [{"x": 4}, {"x": 5}], "m": [("a", {"x": 6})]}
    here, there = (pa.Table.from_pylist([row, row], kinds(nullable)) for nullable in (False, True))
    assert in_one_form(here).equals(there)
    assert in_one_form(here).schema == there.schema
    assert in_one_form(here.slice(1).to_batches()[0]).to_pylist() == there.slice(1).to_pylist()
    variant = pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, {"variant": "true"})])
    assert in_one_form(pa.table({"v": pa.nulls(1, variant)})).schema.field("v").type == variant
