"""What the columns of an output mean in a picture. `SHAPES` is the one table; a function that adds these columns is drawn by it.

A row comes as `DrawnRow`, with the added columns that are times; what is drawn is made of nothing else, and of the call's options.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from streamtime.pictures.picture import Arrow, Bar, Mark, Picture, moment, stacked
from streamtime.udfs.closing import of_sessions, of_time_windows


@dataclass(frozen=True)
class DrawnRow:
    """A row of an output: what and when it is, and what became of it: it was dropped if `outcome` is one of `DROPPED`."""

    number: int
    lane: str
    at: int | None
    outcome: str | None = None
    clock: int | None = None  # stream time when it came
    sentence: str = ""
    times: Mapping[str, int | None] = field(default_factory=dict)
    cells: tuple[str | None, ...] = ()
    deleted: bool = False
    has_key: bool = True


@dataclass(frozen=True)
class Version:
    """A row of the other side of a lookup."""

    lane: str
    at: int
    deleted: bool = False
    until: int | None = None  # where it ends although no other begins


@dataclass(frozen=True)
class Drawing:
    """What is drawn: the rows in processing order, the options of the call, and what it looked up, if it did."""

    title: str
    rows: Sequence[DrawnRow]
    options: Mapping[str, Any] = field(default_factory=dict)  # durations in microseconds
    in_time_order: bool = True  # rows come in the order of their event times
    versions: Sequence[Version] = ()
    notes: tuple[str, ...] = ()
    zone: str = "UTC"


class Drawn(NamedTuple):
    """What a shape adds to the rows."""

    bars: list[Bar]
    arrows: list[Arrow] = []  # noqa: RUF012 - never changed
    marks: list[Mark] = []  # noqa: RUF012


# a reason -> what a row did that was dropped for it
DROPPED = {
    "late": "came when what it belongs to was closed",
    "duplicate": "duplicates a row that was kept",
    "replaced": "was replaced by a newer row of its key",
    "overwritten": "was overwritten by a later row of the same time",
    "superseded": "came after a newer version of its key",
    "out_of_order": "came after a newer row of its key",
    "too_old": "is too old: further behind stream time than allowed",
    "refused": "is too old: further behind stream time than `grace`",
    "tombstone": "is a deletion, and so no result",
    "held": "was still held when the input ended",
    "no_match": "found nothing",
    "expired": "is beyond `retention`, or found nothing within it",
    "before_history": "lies before the history that there is",
    "null_key": "has a null in its key",
    "null_time": "has no time",
}
LEGEND = {
    "passed": "a row",
    "kept": "a kept row, and how long its duplicates are dropped",
    "window": "a window; pale: its grace",
    "session": "a session; pale: until when it takes rows",
    "version": "a version, while it is valid",
    "wait": "a row that is held, until it is decided",
    "released": "when it is released",
    "deletion": "a deletion",
    **{reason: f"{reason}: it {words}" for reason, words in DROPPED.items()},
}


def picture(given: Drawing) -> Picture:
    """The picture of these rows."""
    rows = grouped(given.rows)
    given = replace(given, rows=rows)
    lanes = tuple(dict.fromkeys([*sorted({r.lane for r in rows}), *sorted({v.lane for v in given.versions})]))
    drawn = _shape(rows)(given, {name: n for n, name in enumerate(lanes)})
    marks = [_mark(row, lanes.index(row.lane), drawn_at) for row in rows if (drawn_at := row.at) is not None]
    timeless = sum(row.at is None for row in rows)
    notes = (*given.notes, *([f"{timeless:,} row{'s have' if timeless > 1 else ' has'} no time, and no place here"] if timeless else []))
    all_marks = (*marks, *drawn.marks)
    bars = stacked(drawn.bars)
    arrows = [_landed(a, bars) for a in drawn.arrows]
    return Picture(given.title, lanes, all_marks, bars, tuple(arrows), _legend(all_marks, bars), notes, given.zone)


def grouped(rows: Sequence[DrawnRow]) -> list[DrawnRow]:
    """One for each row of the input, where an output has it once per window: its sentences together, dropped only if all dropped it."""
    groups: list[list[DrawnRow]] = []
    for row in rows:
        waiting = None
        if "window_start" in row.times:
            alike = itertools.takewhile(lambda g, row=row: _same(g[0], row), reversed(groups))  # type: ignore[misc]
            waiting = next((g for g in reversed([*alike]) if row.times not in [r.times for r in g]), None)
        if waiting is None:
            groups.append([row])
        else:
            waiting.append(row)
    return [_one(n, group) for n, group in enumerate(groups, 1)]


def _same(one: DrawnRow, other: DrawnRow) -> bool:
    return (one.lane, one.at, one.cells) == (other.lane, other.at, other.cells)


def _one(number: int, group: list[DrawnRow]) -> DrawnRow:
    lasting = next((r for r in group if r.outcome not in DROPPED), group[0])
    windows = [(r.times, r.outcome) for r in group] if len(group) > 1 else []
    times = {
        **lasting.times,
        **{f"{name}.{n}": t for n, (times, why) in enumerate(windows) if why not in DROPPED for name, t in times.items()},
    }
    return replace(lasting, number=number, times=times, sentence=" ".join(_ended(r.sentence) for r in group if r.sentence))


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."


def _mark(row: DrawnRow, lane: int, at: int) -> Mark:
    if row.deleted and row.outcome not in DROPPED:
        return Mark(lane, at, "deletion", "deletion", row.number)
    why = row.outcome if row.outcome in DROPPED else None
    return Mark(lane, at, why or "passed", row.outcome or "passed", row.number)


def _legend(marks: Sequence[Mark], bars: Sequence[Bar]) -> tuple[tuple[str, str], ...]:
    looks = {m.look for m in marks} | {b.look for b in bars}
    return tuple((look, words) for look, words in LEGEND.items() if look in looks)


def _landed(arrow: Arrow, bars: Sequence[Bar]) -> Arrow:
    """An arrow to a version ends where its bar is drawn."""
    if arrow.level is None:
        return arrow
    return replace(arrow, level=next((b.level for b in bars if b.lane == arrow.lane and b.start == arrow.to), 0))


# -- the shapes


def _kept(given: Drawing, lanes: Mapping[str, int]) -> Drawn:
    """A kept row drops what lies within `within` of it; an arrow leads from each duplicate to the kept row."""
    within, keep, refresh = given.options.get("within"), given.options.get("keep", "first"), given.options.get("refresh")
    bars: dict[tuple[int, int], Bar] = {}
    arrows = []
    for row in given.rows if keep != "last" else reversed(given.rows):
        kept, lane = row.times.get("kept_time"), lanes[row.lane]
        if row.at is None or not row.has_key or keep == "unique":
            continue
        if kept is not None:
            arrows.append(Arrow(lane, row.at, kept, row.number))
            bar = bars.get((lane, kept))
            if bar and refresh and row.at > kept and within is not None:
                bars[lane, row.at] = replace(bars.pop((lane, kept)), end=row.at + within)
        elif not _remembered(row, lane, bars, given.options):
            continue
        elif within is None:
            bars[lane, row.at] = Bar(lane, row.at, None, "kept", numbers=(row.number,))
        elif keep == "last":
            bars[lane, row.at] = Bar(lane, row.at - within, row.at, "kept", numbers=(row.number,))
        else:
            opens = None if given.in_time_order else row.at - within
            bars[lane, row.at] = Bar(lane, row.at, row.at + within, "kept", opens=opens, numbers=(row.number,))
    return Drawn(list(bars.values()), sorted(arrows, key=lambda a: a.number))


def _remembered(row: DrawnRow, lane: int, bars: Mapping[tuple[int, int], Bar], options: Mapping[str, Any]) -> bool:
    """Whether a row that passed is kept: not one that came late, and not a redelivered one, whose kept row is there."""
    assert row.at is not None
    within, keep, at_most = options.get("within"), options.get("keep", "first"), options.get("at_most")
    if within is None:
        return not any(of == lane for of, _ in bars)
    if keep == "first" and row.clock is not None and row.at < row.clock - within:
        return False
    now = row.at if row.clock is None else row.clock
    near = [bar for (of, kept), bar in bars.items() if of == lane and abs(kept - row.at) <= within and now - kept <= within]
    return keep == "last" or all(at_most is not None and row.at - bar.start > at_most for bar in near)


def _windows(given: Drawing, lanes: Mapping[str, int]) -> Drawn:
    """Windows with their grace; those of a row that all closed before it came are not drawn for it."""
    if given.options.get("gap") is not None:
        return _sessions(given, lanes, ("window_start", "window_end"))
    closing, spans = of_time_windows(given.options.get("grace") or 0), dict[tuple[int, int, int], tuple[int, ...]]()
    for row in given.rows:
        for start, end in bounds_of(row, "window_start", "window_end"):
            known = spans.setdefault((lanes[row.lane], start, end), ())
            spans[lanes[row.lane], start, end] = (*known, *([row.number] if row.outcome not in DROPPED else []))
    words = "from {} to {}"
    return Drawn(
        [
            Bar(lane, start, end, "window", closes=closing.end_of_grace(end), numbers=n, words=words.format(*written(given, start, end)))
            for (lane, start, end), n in spans.items()
        ]
    )


def bounds_of(row: DrawnRow, first: str, last: str) -> list[tuple[int, int]]:
    """Those of all its windows."""
    names = [name for name in row.times if name.partition(".")[0] == first]
    names = names[1:] if len(names) > 1 else names  # the first is one of the others once more
    pairs = [(row.times[name], row.times.get(name.replace(first, last))) for name in names]  # a DataFrame may have no end
    return [(start, end) for start, end in pairs if start is not None and end is not None]


def _sessions(given: Drawing, lanes: Mapping[str, int], names: tuple[str, str] = ("session_start", "session_end")) -> Drawn:
    """Sessions as they ended up, from what each row did to those that were live when it came."""
    grace = given.options.get("grace")
    closing = of_sessions(given.options.get("gap") or 0, grace)
    live: list[Bar] = []
    for row in given.rows:
        for start, end in bounds_of(row, *names) if row.outcome != "late" else ():
            lane, now = lanes[row.lane], row.clock
            taken = [
                b
                for b in live
                if b.lane == lane
                and b.end is not None
                and start <= b.start
                and b.end <= end
                # a session that is closed stays what it is
                and (grace is None or now is None or b.end >= closing.closed_before(now))
            ]
            live = [b for b in live if b not in taken]
            numbers = sorted({row.number, *(n for b in taken for n in b.numbers)})
            live.append(Bar(lane, start, end, "session", closes=closing.end_of_grace(end), numbers=tuple(numbers)))
    return Drawn([replace(b, words="from {} to {}".format(*written(given, b.start, b.end))) for b in live])


def _waits(given: Drawing, lanes: Mapping[str, int]) -> Drawn:
    """How long a row was held, and when it was released."""
    bars, released = [], []
    for row in given.rows:
        decided, came = row.times.get("decided_at"), row.clock
        if decided is None or came is None:
            continue
        lane = lanes[row.lane]
        if decided > came:
            bars.append(Bar(lane, came, decided, "wait", numbers=(row.number,)))
        if decided > came and row.outcome not in DROPPED:
            released.append(Mark(lane, decided, "released", "released", row.number))
    return Drawn(bars, [], released)


def _versions(given: Drawing, lanes: Mapping[str, int]) -> Drawn:
    """Versions as steps; where a key was deleted, there is none."""
    bars = []
    for row in given.rows:
        start, end = row.times.get("valid_from"), row.times.get("valid_to")
        if start is not None and not row.deleted:
            words = "valid from {} to {}".format(*written(given, start, end))
            bars.append(Bar(lanes[row.lane], start, end, "version", words=words, numbers=(row.number,)))
    return Drawn(bars)


def _lookups(given: Drawing, lanes: Mapping[str, int]) -> Drawn:
    """The versions of the other side as steps, and an arrow from each row to the one that it found."""
    begins: dict[str, dict[int, Version]] = {}
    for version in given.versions:
        begins.setdefault(version.lane, {})[version.at] = version
    for row in given.rows:
        since = row.times.get("match_at")
        if since is not None:
            begins.setdefault(row.lane, {}).setdefault(since, Version(row.lane, since))
    bars = []
    for lane, versions in begins.items():
        times = sorted(versions)
        for start, following in zip(times, [*times[1:], None], strict=True):
            ends = [end for end in (following, versions[start].until) if end is not None]
            if not versions[start].deleted:
                words = "valid from {} to {}".format(*written(given, start, min(ends, default=None)))
                bars.append(Bar(lanes[lane], start, min(ends, default=None), "version", words=words))
    arrows = [
        Arrow(lanes[row.lane], row.at, since, row.number, level=0)
        for row in given.rows
        if row.at is not None and (since := row.times.get("match_at")) is not None
    ]
    return Drawn(bars, arrows)


def _plain(_given: Drawing, _lanes: Mapping[str, int]) -> Drawn:
    return Drawn([])


Shape = Callable[[Drawing, Mapping[str, int]], Drawn]
SHAPES: tuple[tuple[str, Shape], ...] = (  # a column that an output adds, and what is drawn of it
    ("kept_time", _kept),
    ("session_start", _sessions),
    ("window_start", _windows),
    ("decided_at", _waits),
    ("valid_from", _versions),
    ("match_at", _lookups),
)
TIMES = ("kept_time", "session_start", "session_end", "window_start", "window_end", "decided_at", "valid_from", "valid_to")


def _shape(rows: Sequence[DrawnRow]) -> Shape:
    names = {name for row in rows for name in row.times}
    return next((shape for column, shape in SHAPES if column in names), _plain)


def written(given: Drawing, *times: int | None) -> list[str]:
    """Times as they are said."""
    return ["now" if t is None else moment(t, given.zone) for t in times]
