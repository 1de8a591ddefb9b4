"""When windows close, against the sentences of the rules. Catches: one microsecond, sums past the ends of BIGINT, arrays and SQL text that say
otherwise than numbers, and an end, a close and a stream time that do not go together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from streamtime.sql.syntax import text
from streamtime.udfs import closing as rule
from streamtime.udfs.arrays.groups import HIGHEST, LOWEST
from streamtime.udfs.closing import Closing

DAY = 86_400_000_000
TIMES = [LOWEST, LOWEST + 1, LOWEST + 7, -DAY, -7, -1, 0, 1, 2, 3, 10, 11, DAY, HIGHEST - 7, HIGHEST - 1, HIGHEST]
DURATIONS = [0, 1, 2, 7, DAY, HIGHEST - 1, HIGHEST]
SENTENCES: dict[str, tuple[Callable[[int, int], Closing], Callable[[int, int, int, int], bool]]] = {  # of numbers of any size
    "W1": (lambda grace, _: rule.of_time_windows(grace), lambda end, now, grace, _: not end > now - grace),
    "W5": (lambda grace, _: rule.of_sliding_windows(grace), lambda end, now, grace, _: end < now - grace),
    "W3": (rule.of_sessions, lambda end, now, gap, grace: now > end + gap + grace),
    "W3 without grace": (lambda gap, _: rule.of_sessions(gap, None), lambda end, now, gap, _: now > end + gap),
    "W5 of a row": (rule.of_last_sliding_window, lambda at, now, difference, grace: at + difference < now - grace),
    "J5": (lambda grace, _: rule.of_waiting_rows(grace), lambda at, now, grace, _: at <= now - grace),
}
every_kind = pytest.mark.parametrize("kind", SENTENCES)


def cases(kind: str) -> Iterator[tuple[Closing, int, int]]:
    """How windows of a kind close, and the durations that say so."""
    for first, second in itertools.product(DURATIONS, DURATIONS):
        yield SENTENCES[kind][0](first, second), first, second


@every_kind
def test_a_window_is_closed_when_the_rule_says_so(kind: str) -> None:
    for closing, first, second in cases(kind):
        for end, now in itertools.product(TIMES, TIMES):
            if closing.end_inside or LOWEST < end < HIGHEST:  # no time window ends at the first moment: it has one before its end
                expected = SENTENCES[kind][1](end, now, first, second)
                assert (end < closing.closed_before(now)) == expected, (end, now, first, second)


@every_kind
def test_what_ends_after_all_times_never_closes(kind: str) -> None:
    for closing, _, _ in cases(kind):
        assert not [now for now in TIMES if closing.closed_before(now) > HIGHEST]


@every_kind
def test_a_window_is_closed_from_its_close_on(kind: str) -> None:
    for closing, _, _ in cases(kind):
        for end in TIMES[1:]:
            close = closing.close(end)
            assert close == min(end + closing.after, HIGHEST)
            assert closing.end_of_grace(end) == min(end + closing.patience, HIGHEST)
            if close < HIGHEST:
                assert end < closing.closed_before(close)
                assert not end < closing.closed_before(close - 1)


@every_kind
def test_arrays_and_sql_text_say_what_numbers_say(kind: str) -> None:
    def value(sql: str) -> int:  # Python reads these sums as SQL does
        return int(eval(sql.replace("L", ""), {"__builtins__": {}}, {"least": min, "greatest": max}))

    times = np.array(TIMES, np.int64)
    for closing, _, _ in cases(kind):
        for say in (closing.close, closing.end_of_grace):
            assert say(times).tolist() == [say(t) for t in TIMES] == [value(say(str(t), text.plus)) for t in TIMES]
        numbers = [closing.closed_before(t) for t in TIMES]
        assert closing.closed_before(times).tolist() == numbers
        assert [value(closing.closed_before(str(t), text.plus, text.minus)) for t in TIMES] == numbers


def test_how_long_after_its_start_a_window_closes() -> None:
    assert rule.of_time_windows(5).after_start(10) == 15
    assert rule.of_sliding_windows(5).after_start(10) == 16
    assert rule.of_sessions(3, 5).after == 9
