"""A picture of time as lines of text, fitted to the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamtime.pictures.meanings import DROPPED
from streamtime.sql.call.errors import echoed
from streamtime.widths import displayed, fitted

if TYPE_CHECKING:
    from streamtime.pictures.meanings import DrawnRow
    from streamtime.pictures.picture import Bar, Mark, Picture

NARROWEST = 40
LANE, TICK = 24, 12  # columns: the most that a lane's name takes, and what a tick needs
MOST = 20  # sentences
# look -> sign, and what stands for it where only ASCII can be written
SIGNS = {
    "passed": ("●", "o"),
    "released": ("◆", "#"),
    "deletion": ("✖", "X"),
    "duplicate": ("×", "x"),
    "late": ("▽", "v"),
    "replaced": ("○", "c"),
    "overwritten": ("○", "c"),
    "superseded": ("○", "c"),
    "out_of_order": ("◁", "<"),
    "held": ("□", "h"),
}
OTHER = ("?", "?")
SOLID, FAINT, START, END, OPEN = ("━", "="), ("╌", "."), ("┣", "["), ("┫", "]"), ("▶", ">")


def lines(picture: Picture, rows: Sequence[tuple[DrawnRow, str]], width: int, *, ascii_only: bool = False) -> list[str]:
    """The picture, its legend, and a sentence for each row that was dropped."""
    width = max(width, NARROWEST)
    plain = 1 if ascii_only else 0
    names = [fitted(echoed(_ascii(lane) if ascii_only else lane), min(LANE, width // 3)) for lane in picture.lanes]
    beside = max((displayed(name) for name in names), default=0) + 2
    room = width - beside
    low, high = picture.span

    def column(at: int) -> int:
        return min(max((at - low) * (room - 1) // (high - low), 0), room - 1)

    said = [picture.title, ""]
    many = False
    for n, name in enumerate(names):
        cells, crowded = _marks([m for m in picture.marks if m.lane == n], column, room, plain)
        many |= crowded
        said.append(f"{name}{' ' * (beside - displayed(name))}{cells}")
        bars = [[b for b in picture.bars if (b.lane, b.level) == (n, level)] for level in range(picture.levels[n])]
        said += [" " * beside + _bars(level, column, room, plain) for level in bars]
    said += _axis(picture, beside, room, column)
    legend = [f"{_sign(look, plain)} {words}" for look, words in picture.legend]
    legend += ["2 to 9: that many rows; +: more"] if many else []
    said += ["", *(line for entry in legend for line in _wrapped(entry, width, "  "))]
    for note in (picture.caption, *picture.notes):
        said += _wrapped(note, width, "  ")
    dropped = [(row, sentence) for row, sentence in rows if row.outcome in DROPPED]
    if dropped:
        said.append("")
    for row, sentence in dropped[:MOST]:
        sign = _sign(row.outcome or "", plain)
        text = echoed(f"{sign} {row.lane}  {', '.join(c or '' for c in row.cells)}: {sentence}", 12 * width)
        said += _wrapped(text, width, "    ")
    if len(dropped) > MOST:
        said.append(f".. and {len(dropped) - MOST:,} more rows that were dropped")
    return [(_ascii(line) if ascii_only else line).rstrip() for line in said]


def _ascii(text: str) -> str:
    """Text that every terminal can write, with a question mark for each character that it may not know."""
    return text.replace("…", "~").replace("µ", "u").encode("ascii", "replace").decode()


def _sign(look: str, plain: int) -> str:
    if look in ("kept", "window", "session", "version", "wait"):
        return START[plain] + SOLID[plain] + END[plain]
    return SIGNS.get(look, OTHER)[plain]


def _marks(marks: Sequence[Mark], column: Column, room: int, plain: int) -> tuple[str, bool]:
    """A line of signs; where several rows share a column, how many they are."""
    cells: dict[int, list[str]] = {}
    for mark in marks:
        cells.setdefault(column(mark.at), []).append(_sign(mark.look, plain))
    line = [" "] * room
    for at, signs in cells.items():
        line[at] = signs[0] if len(signs) == 1 else str(len(signs)) if len(signs) < 10 else "+"
    return "".join(line), any(len(signs) > 1 for signs in cells.values())


def _bars(bars: Sequence[Bar], column: Column, room: int, plain: int) -> str:
    line = [" "] * room
    for bar in bars:
        last = room - 1 if bar.end is None else column(bar.end)
        if bar.opens is not None:
            line[column(bar.opens) : column(bar.start)] = FAINT[plain] * (column(bar.start) - column(bar.opens))
        if bar.end is not None and bar.closes is not None:
            line[last : column(bar.closes) + 1] = FAINT[plain] * (column(bar.closes) + 1 - last)
        first = column(bar.start)
        line[first : last + 1] = SOLID[plain] * (last + 1 - first)
        line[last] = OPEN[plain] if bar.end is None else END[plain]
        line[first] = START[plain]
    return "".join(line)


def _axis(picture: Picture, beside: int, room: int, column: Column) -> list[str]:
    ruler, words = ["-"] * room, [" "] * (room + TICK)
    free = 0
    for at, text in picture.ticks(max(room // TICK, 2)):
        place = column(at)
        ruler[place] = "+"
        start = max(min(place - len(text) // 2, room - len(text)), 0)
        if start >= free:
            words[start : start + len(text)] = text
            free = start + len(text) + 1
    return [" " * beside + "".join(ruler), " " * beside + "".join(words)]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """Lines of words that take no more columns than that; textwrap would count characters."""
    lines, line = [], ""
    for word in text.split(" "):
        while displayed(f"{line} {word}" if line.strip() else line + word) > width:
            if line.strip():
                lines.append(line)
            else:  # a word that is longer than a line
                head = fitted(word, width - len(line))[:-1]
                lines.append(line + head)
                word = word[len(head) :]
            line = indent
        line = f"{line} {word}" if line.strip() else line + word
    return [*lines, line]


if TYPE_CHECKING:
    from collections.abc import Callable

    Column = Callable[[int], int]
