"""What a picture of time is, as data: lanes with marks, bars and arrows, over one axis. It knows no function, no Spark and no drawing.

Times are microseconds since 1970, as numbers, so that the years 1 and 294247 can be drawn.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
STEPS = (  # between ticks, that people count in
    *(n * 10**e for e in range(6) for n in (1, 2, 5)),
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 30, 91, 182, 365)),
    *(n * 10**e * 365 * DAY + n * 10**e * DAY // 4 for e in range(7) for n in (1, 2, 5)),
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
SHORT = {  # what Java has beside the names that Python knows too
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "Z": "UTC",
}  # fmt: skip
MARGIN = 0.03  # of the axis, at both ends


@dataclass(frozen=True)
class Mark:
    """A row where it lies in time. `look` says how it is drawn, `why` is the word for what became of it, `words` a sentence."""

    lane: int
    at: int
    look: str
    why: str
    number: int  # of the row in processing order, from 1
    words: str = ""


@dataclass(frozen=True)
class Bar:
    """A stretch of time. It is solid from `start` to `end` and pale from `opens` and until `closes`; an `end` of None is open."""

    lane: int
    start: int
    end: int | None
    look: str
    opens: int | None = None
    closes: int | None = None
    words: str = ""
    level: int = 0  # bars of a lane that overlap stand below each other
    numbers: tuple[int, ...] = ()  # of the rows that it is about


@dataclass(frozen=True)
class Arrow:
    """From a row to what it was compared with: another row, or the start of a bar on that level."""

    lane: int
    at: int
    to: int
    number: int
    level: int | None = None


@dataclass(frozen=True)
class Picture:
    """All that is drawn. `legend` has the words for each look that occurs; `notes` say what is not drawn."""

    title: str
    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    bars: tuple[Bar, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    zone: str = "UTC"

    @property
    def span(self) -> tuple[int, int]:
        """What the axis shows, its margins included."""
        times = [m.at for m in self.marks] + [a.to for a in self.arrows]
        times += [t for b in self.bars for t in (b.start, b.end, b.opens, b.closes) if t is not None]
        low, high = min(times, default=0), max(times, default=0)
        room = max(int((high - low) * MARGIN), 1) if high > low else SECOND
        return low - room, high + room

    @property
    def levels(self) -> tuple[int, ...]:
        """How many levels of bars each lane has."""
        return tuple(max((b.level + 1 for b in self.bars if b.lane == n), default=0) for n in range(len(self.lanes)))

    @property
    def caption(self) -> str:
        """From when to when, and in which time zone."""
        times = [m.at for m in self.marks]
        within = f", from {moment(min(times), self.zone)} to {moment(max(times), self.zone)}" if times else ""
        return f"times in {self.zone}{within}"

    def ticks(self, most: int) -> list[tuple[int, str]]:
        """At most so many places on the axis, and what stands there."""
        (low, high), zone = self.span, zone_of(self.zone)
        begin, end = (at + _ahead(at, zone) for at in (low, high))  # as clocks show it there, where days begin
        longer = max(high - low, end - begin)
        step = next((s for s in STEPS if longer // s < most), STEPS[-1])
        if step < HOUR:
            places = set(range(-(-low // step) * step, high + 1, step))
        else:
            shown = range(-(-begin // step) * step, end + 1, step)
            places = {at for at in (_in_utc(clock, zone) for clock in shown) if low <= at <= high}
        return [(at, moment(at, self.zone, step)) for at in sorted(places)]

    def as_json(self) -> dict[str, Any]:
        """For a page, with its ticks. JavaScript keeps whole numbers up to the year 2255; what lies beyond is a hair off."""
        return {**asdict(self), "caption": self.caption, "span": self.span, "levels": self.levels, "ticks": self.ticks(8)}


def stacked(bars: Iterable[Bar]) -> tuple[Bar, ...]:
    """The bars, those that overlap in a lane and look alike on levels of their own; each look below the one before it."""
    placed: list[Bar] = []
    ends: dict[tuple[int, str], list[float]] = {}
    for bar in sorted(bars, key=lambda b: (b.lane, b.look, b.start, -_until(b))):
        levels = ends.setdefault((bar.lane, bar.look), [])
        begins = bar.start if bar.opens is None else bar.opens
        level = next((n for n, end in enumerate(levels) if end <= begins), len(levels))
        levels[level : level + 1] = [_until(bar)]
        placed.append(replace(bar, level=level))
    below: dict[tuple[int, str], int] = {}
    for lane, look in ends:
        below[lane, look] = sum(len(other) for (of, known), other in ends.items() if of == lane and known < look)
    return tuple(replace(b, level=b.level + below[b.lane, b.look]) for b in placed)


def _until(bar: Bar) -> float:
    return float("inf") if bar.end is None else max(bar.end, bar.closes or bar.end)


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone as Spark names it: a place, an offset, or one of Java's short names; UTC where Python does not know it."""
    return _known(name) or datetime.UTC


def sayable(name: str) -> str:
    """The zone in which times are said: this one, or UTC where Python does not know it."""
    return name if _known(name) else "UTC"


def _known(name: str) -> datetime.tzinfo | None:
    try:
        if match := OFFSET.fullmatch(name):
            ahead = datetime.timedelta(hours=int(match[2]), minutes=int(match[3] or 0), seconds=int(match[4] or 0))
            return datetime.timezone(-ahead if match[1] == "-" else ahead)
        return ZoneInfo(SHORT.get(name, name))
    except (KeyError, ValueError, OSError):
        return None


def moment(at: int, zone: str = "UTC", step: int = 1) -> str:
    """A time as SQL writes it, as exact as `step` asks; its microseconds where Python knows no such year."""
    try:
        time = (EPOCH + datetime.timedelta(microseconds=at)).astimezone(zone_of(zone))
    except OverflowError:
        return f"{at:,} µs"
    day = f"{time.year:04}-{time.month:02}-{time.day:02}"
    if step >= DAY:
        return day
    clock = f"{time:%H:%M}" if step >= MINUTE and not time.second and not time.microsecond else f"{time:%H:%M:%S}"
    if time.microsecond:
        clock += f".{time.microsecond:06}".rstrip("0")
    if step == 1:
        return f"{day} {clock}"
    return f"{day} {clock}" if (time.hour, time.minute, time.second, time.microsecond) == (0, 0, 0, 0) else clock


def _ahead(at: int, zone: datetime.tzinfo) -> int:
    """How far clocks there are ahead of UTC at a time, in microseconds."""
    try:
        return _micros((EPOCH + datetime.timedelta(microseconds=at)).astimezone(zone).utcoffset())
    except OverflowError:
        return 0


def _in_utc(clock: int, zone: datetime.tzinfo) -> int:
    """The time at which clocks there show this: the first of two."""
    try:
        return clock - _micros((EPOCH + datetime.timedelta(microseconds=clock)).replace(tzinfo=zone).utcoffset())
    except OverflowError:
        return clock


def _micros(length: datetime.timedelta | None) -> int:
    return (length or datetime.timedelta()) // datetime.timedelta(microseconds=1)
