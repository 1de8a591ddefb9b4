"""Pictures as data, and as text: no Spark here."""

from __future__ import annotations

import json
import re
import sys

import pytest
from wcwidth import wcswidth

from streamtime.pictures import terminal
from streamtime.pictures.drawing import drawn
from streamtime.pictures.gallery import svg
from streamtime.pictures.meanings import Drawing, DrawnRow, Version, grouped, picture
from streamtime.pictures.picture import DAY, HOUR, MINUTE, SECOND, Bar, Mark, Picture, moment, sayable, stacked
from streamtime.pictures.sentences import said

NOON = 1_714_564_800 * SECOND  # 2024-05-01 12:00
ODD = "O'Hara $x$\n\x1b[31m 東京 \U0001f600"
HIGHEST, LOWEST = 2**63 - 1, -(2**63)


def row(
    number: int, minutes: float | None, outcome: str | None = None, *, lane: str = "a", clock: float | None = None, **times: float | None
) -> DrawnRow:
    at, now = (None if t is None else NOON + int(t * MINUTE) for t in (minutes, minutes if clock is None else clock))
    found = {name: None if t is None else NOON + int(t * MINUTE) for name, t in times.items()}
    return DrawnRow(number, lane, at, outcome, now, times=found, cells=(f"id: {number}",))


def bars(given: Drawing) -> list[tuple[float, float | None]]:
    """From when to when, in minutes after noon."""
    found = [((b.start - NOON) / MINUTE, None if b.end is None else (b.end - NOON) / MINUTE) for b in picture(given).bars]
    return sorted(found, key=lambda bar: (bar[0], bar[1] or float("inf")))


# -- the axis


@pytest.mark.parametrize(
    ("low", "high", "zone", "first", "most"),
    [
        (NOON, NOON + HOUR, "UTC", "12:00", 8),
        (NOON, NOON + 9 * DAY, "UTC", "2024-05-03", 8),
        (NOON, NOON + 2 * DAY, "Asia/Kolkata", "2024-05-02 00:00", 8),  # an offset of half an hour: ticks are on the hour there
        (NOON, NOON + 7, "UTC", "12:00:00", 9),
        (NOON, NOON, "UTC", "11:59:59", 9),
        (-(10**9), 0, "UTC", "23:45", 8),
        (LOWEST, HIGHEST, "UTC", "-", 4),
    ],
)
def test_ticks_stand_where_people_count(low: int, high: int, zone: str, first: str, most: int) -> None:
    shown = Picture("", ("a",), (Mark(0, low, "passed", "", 1), Mark(0, high, "passed", "", 2)), zone=zone)
    ticks = shown.ticks(most)
    assert 0 < len(ticks) <= most
    assert [at for at, _ in ticks] == sorted({at for at, _ in ticks})
    assert all(shown.span[0] <= at <= shown.span[1] for at, _ in ticks)
    assert ticks[0][1].startswith(first)


@pytest.mark.parametrize(
    ("start", "zone", "hours"),
    [
        (1_729_893_600, "Europe/Berlin", 96),  # from 2024-10-26 00:00 there, over the end of summer time
        (1_711_753_200, "Europe/Berlin", 96),  # from 2024-03-30 00:00, over its begin
        (1_711_753_200, "Europe/Berlin", 40),
        (1_729_893_600, "Europe/Berlin", 40),
        (1_536_000_000, "America/Sao_Paulo", 24 * 200),  # where no clock shows midnight that day
        (1_711_753_200, "UTC", 96),
    ],
)
@pytest.mark.parametrize("most", [3, 5, 9])
def test_each_tick_says_the_day_and_the_hour_on_which_it_stands(start: int, zone: str, hours: int, most: int) -> None:
    low, high = start * SECOND, (start + hours * 3600) * SECOND
    shown = Picture("", ("a",), (Mark(0, low, "passed", "", 1), Mark(0, high, "passed", "", 2)), zone=zone)
    ticks = shown.ticks(most)
    assert 0 < len(ticks) <= most
    assert [at for at, _ in ticks] == sorted({at for at, _ in ticks})
    texts = [moment(at, zone) for at, _ in ticks]
    assert all(words in text for (_, words), text in zip(ticks, texts, strict=True))
    clocks = [text[11:] for text in texts if len(ticks[0][1]) == 10]
    assert {*clocks} <= {"00:00:00", "01:00:00"}, "a day begins at midnight, or where no clock shows it, an hour later"
    assert clocks.count("01:00:00") <= (zone == "America/Sao_Paulo")


def test_a_zone_that_python_does_not_know_is_not_said() -> None:
    for name, same in {
        "PST": "America/Los_Angeles",
        "IST": "Asia/Kolkata",
        "CST": "America/Chicago",
        "Z": "UTC",
        "GMT+5": "+05:00",
    }.items():
        assert (sayable(name), moment(NOON, name)) == (name, moment(NOON, same))
    assert moment(NOON, "+05:30:15") == moment(NOON, "GMT+053015") == "2024-05-01 17:30:15"
    for name in ("nowhere/there", "+99:00", "", "../etc"):
        assert (sayable(name), moment(NOON, name)) == ("UTC", moment(NOON)), name


def test_a_moment_is_written_as_sql_writes_it() -> None:
    assert moment(NOON) == "2024-05-01 12:00:00"
    assert moment(NOON + 1500) == "2024-05-01 12:00:00.0015"
    assert moment(NOON, "GMT+02:00") == moment(NOON, "+02:00") == moment(NOON, "Europe/Berlin") == "2024-05-01 14:00:00"
    assert moment(NOON, "nowhere/there") == moment(NOON)
    assert moment(HIGHEST) == "9,223,372,036,854,775,807 µs"
    assert moment(-62_135_596_800 * SECOND, "America/New_York").endswith("µs")  # a year before the first


def test_bars_that_overlap_stand_below_each_other_and_looks_apart() -> None:
    made = stacked(
        [
            Bar(0, 0, 10, "window", closes=12),
            Bar(0, 10, 20, "window"),
            Bar(0, 12, 15, "window"),
            Bar(0, 0, None, "kept"),
            Bar(1, 5, 6, "kept"),
        ]
    )
    assert [(b.lane, b.look, b.start, b.level) for b in made] == [
        (0, "kept", 0, 0),
        (0, "window", 0, 1),
        (0, "window", 10, 2),
        (0, "window", 12, 1),
        (1, "kept", 5, 0),
    ]
    assert Picture("", ("a", "b"), (), made).levels == (3, 1)


# -- what outputs mean


def test_a_duplicate_points_to_the_kept_row_and_a_late_row_is_not_kept() -> None:
    rows = [
        row(1, 0, kept_time=None),
        row(2, 10, "duplicate", kept_time=0),
        row(3, 11, kept_time=None),
        row(4, -15, kept_time=None, clock=11),  # late, so it passes and is not remembered (D6)
        row(5, 5, lane="b", kept_time=None, clock=11),
        DrawnRow(6, "NULL", NOON, clock=NOON, times={"kept_time": None}, has_key=False),
    ]
    given = Drawing("", rows, {"within": 10 * MINUTE}, in_time_order=False)
    made = picture(given)
    assert [(a.at, a.to, a.number) for a in made.arrows] == [(NOON + 10 * MINUTE, NOON, 2)]
    assert bars(given) == [(0, 10), (5, 15), (11, 21)]
    assert {b.opens for b in made.bars} == {b.start - 10 * MINUTE for b in made.bars}, "compared in both directions"
    sentences = said(rows, given)
    assert "10 minutes after the kept row of 2024-05-01 12:00:00, and `within` is 10 minutes" in sentences[1]
    assert "null in its key" in sentences[5]


def test_a_duplicate_that_refreshes_moves_the_kept_row_and_for_ever_has_no_end() -> None:
    rows = [row(1, 0, kept_time=None), row(2, 6, "duplicate", kept_time=0), row(3, 12, "duplicate", kept_time=6)]
    assert bars(Drawing("", rows, {"within": 10 * MINUTE, "refresh": True})) == [(0, 22)]
    assert bars(Drawing("", rows, {"within": None})) == [(0, None)]
    cut = Drawing("", [*rows[:2], row(3, 12, kept_time=None)], {"within": 10 * MINUTE, "refresh": True, "at_most": 11 * MINUTE})
    assert bars(cut) == [(0, 16), (12, 22)], "a row that passes by `at_most` begins a bar, though one is near"
    assert said(cut.rows, cut)[2].endswith("`within` is 10 minutes, `at_most` 11 minutes.")
    last = [row(1, 0, "duplicate", kept_time=6), row(2, 6, kept_time=None)]
    assert bars(Drawing("", last, {"within": 10 * MINUTE, "keep": "last"})) == [(-4, 6)]
    assert bars(Drawing("", last, {"within": 10 * MINUTE, "keep": "unique"})) == []


def test_sessions_end_up_merged_and_a_closed_one_stays_what_it_is() -> None:
    rows = [
        row(1, 0, "opened", session_start=0, session_end=0),
        row(2, 40, "opened", session_start=40, session_end=40),
        row(3, 20, "merged", session_start=0, session_end=40, clock=40),
        row(4, 200, "opened", session_start=200, session_end=200),
        row(5, 30, "late", session_start=30, session_end=30, clock=200),
        row(6, 0, "null_key", session_start=None, session_end=None),
        row(7, -5, "opened", session_start=-5, session_end=50, clock=200),  # covers one that was closed by then
    ]
    given = Drawing("", rows, {"gap": 30 * MINUTE, "grace": 20 * MINUTE})
    assert bars(given) == [(-5, 50), (0, 40), (200, 200)]
    assert {b.closes for b in picture(given).bars if b.start == NOON} == {NOON + 90 * MINUTE}
    assert bars(Drawing("", rows, {"gap": 30 * MINUTE, "grace": None})) == [(-5, 50), (200, 200)], "without grace, nothing closes"
    assert [m.look for m in picture(given).marks].count("late") == 1


def test_a_row_in_several_windows_is_one_row_and_late_only_where_all_are_closed() -> None:
    def twice(number: int, minutes: float, first: str, second: str) -> list[DrawnRow]:
        made = row(number, minutes, first, window_start=-5, window_end=5)
        return [made, row(number, minutes, second, window_start=0, window_end=10)]

    rows = [*twice(1, 1, "late", "opened"), *twice(2, 2, "late", "late"), *twice(2, 2, "late", "late")]
    assert [(r.number, r.outcome) for r in grouped(rows)] == [(1, "opened"), (2, "late"), (3, "late")], "two equal rows are two"
    made = picture(Drawing("", rows, {"size": 10 * MINUTE, "grace": MINUTE}))
    assert [(b.start, b.numbers) for b in made.bars] == [(NOON - 5 * MINUTE, ()), (NOON, (1,))]
    assert {b.closes - (b.end or 0) for b in made.bars if b.closes} == {MINUTE}


def test_rows_are_held_until_they_are_decided() -> None:
    rows = [
        row(1, 0, "replaced", decided_at=2),
        row(2, 2, "released", decided_at=5),
        row(3, 9, "released", decided_at=9),
        row(4, None, "null_time"),
    ]
    made = picture(Drawing("", rows))
    assert [(b.start, b.end) for b in made.bars] == [(NOON, NOON + 2 * MINUTE), (NOON + 2 * MINUTE, NOON + 5 * MINUTE)]
    assert [(m.look, m.at) for m in made.marks if m.look == "released"] == [("released", NOON + 5 * MINUTE)], (
        "one that passed at once was not held"
    )
    assert "1 row has no time, and no place here" in made.notes


def test_versions_are_steps_with_gaps_where_a_key_was_deleted_and_lookups_are_arrows() -> None:
    versions = [Version("a", NOON), Version("a", NOON + 10 * MINUTE, deleted=True), Version("a", NOON + 20 * MINUTE), Version("b", NOON)]
    rows = [row(1, 5, match_at=0), row(2, 15, "no_match", match_at=None), row(3, 25, match_at=20), row(4, 1, lane="c", match_at=0)]
    given = Drawing("", rows, versions=versions)
    made = picture(given)
    assert made.lanes == ("a", "c", "b")
    assert bars(given) == [(0, 10), (0, None), (0, None), (20, None)]
    assert [(a.number, a.to) for a in made.arrows] == [(1, NOON), (3, NOON + 20 * MINUTE), (4, NOON)]
    assert said(rows, given)[:2] == ["Finds the version of 2024-05-01 12:00:00, 5 minutes before it.", "Dropped: it found nothing."]
    stored = [row(1, 0, valid_from=0, valid_to=10), row(2, 3, "too_old", valid_from=None, valid_to=None)]
    assert bars(Drawing("", stored)) == [(0, 10)]


def test_words_that_nobody_drew_before_have_a_sign_too_and_the_picture_is_json() -> None:
    made = picture(Drawing("t", [row(1, 0, "too_old"), row(2, 1, "withdrew"), row(3, 2)]))
    assert [m.look for m in made.marks] == ["too_old", "passed", "passed"]
    assert dict(made.legend).keys() == {"passed", "too_old"}
    sent = json.loads(json.dumps(made.as_json()))
    assert sent["marks"][1]["why"] == "withdrew"
    assert len(sent["ticks"]) > 1


# -- text

NASTY = Drawing(
    "a title",
    [
        *(row(n, n / 100, lane="hot", kept_time=None) for n in range(1, 60)),
        row(60, 3, "duplicate", lane=ODD, kept_time=0),
        row(61, 60 * 24 * 365 * 900, lane="NULL", kept_time=None),
        row(62, None, "null_time", kept_time=None),
    ],
    {"within": 10 * MINUTE},
    notes=("only the first 40 rows of each key are drawn",),
)


@pytest.mark.parametrize("width", [1, 40, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_text_keeps_to_its_width_whatever_the_rows_are(width: int, ascii_only: bool) -> None:
    made = picture(NASTY)
    said_ = list(zip(NASTY.rows, said(NASTY.rows, NASTY), strict=True))
    lines = terminal.lines(made, said_, width, ascii_only=ascii_only)
    assert max(wcswidth(line) for line in lines) <= max(width, 40)
    assert min(wcswidth(line) for line in lines) >= 0, "nothing steers the terminal"
    text = "\n".join(lines)
    assert "only the first 40 rows" in text.replace("\n  ", " ")
    assert "1 row has no time" in text.replace("\n  ", " ")
    assert any("+" in line for line in lines if line.startswith("hot")), "many rows in one column are counted"
    if ascii_only:
        assert text.isascii()


def test_text_shows_bars_with_their_tails() -> None:
    given = Drawing(
        "w",
        [row(1, 0, "opened", session_start=0, session_end=0), row(2, 10, "joined", session_start=0, session_end=10)],
        {"gap": 10 * MINUTE},
    )
    lines = terminal.lines(picture(given), [], 60)
    bar = next(line for line in lines if "┣" in line)
    assert re.fullmatch(r"   +┣━{10,}┫╌{10,}", bar)
    assert sum(line.count("●") for line in lines) == 3, "two rows, and the legend"


# -- the figure


def test_the_same_picture_is_the_same_file_on_a_background_of_its_own() -> None:
    made = picture(NASTY)
    text = svg(made)
    assert text == svg(made)
    assert "<dc:date>" not in text
    assert "fill: #ffffff" in text, "dark pages do not show through"
    assert text.count('<g id="duplicate ') == 1
    assert re.search(r"<text[^>]*>O'Hara \$x\$", text), "a name is no formula"
    assert "東京" in text, "text is text, and not outlines"
    assert "only the first 40 rows" in text


def test_without_matplotlib_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"in a clone, pip install '\.\[plot\]'"):
        drawn(picture(NASTY))
