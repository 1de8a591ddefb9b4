"""Rows on their way: what is made ahead of its use comes in order, and no further ahead than asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamtime.udfs.blobs import ahead


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
