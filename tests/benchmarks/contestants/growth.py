"""What a server may hold after a block of `load.py`: no more than the most that it held at any time before, and a little. The first block
warms up, and is not judged: a leak grows in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

IDLE = 75  # seconds after a block in which Spark's pools let go of threads that had nothing to do
# how much more, of 16 clients: one thread that each of them leaves behind is too many
LIMITS = {
    "sessions": 0,
    "threads of the JVM": 15,
    "heap, MB": 24,
    "classes, MB": 6,
    "threads of Python": 15,
    "memory of Python, MB": 12,
    "processes": 0,
}
LEFT = "sessions"  # of which there is none after any block
Held = Mapping[str, Mapping[str, int]]  # when, to what there was


def growth(held: Held) -> dict[str, int]:
    """By how much a figure rose at the most, in a block after the first, above all that it was before."""
    lines = list(held.values())
    return {
        figure: max(
            (line[figure] - max(before[figure] for before in lines[:at]) for at, line in islice(enumerate(lines), 2, None)), default=0
        )
        for figure in LIMITS
    }


def beyond(held: Held) -> list[str]:
    """What is over its limit, in words."""
    left = [f"{line[LEFT]} {LEFT} {when}" for when, line in islice(held.items(), 1, None) if line[LEFT]]
    grown = growth(held)
    return left + [f"{figure}: grew by {grown[figure]}, allowed are {most}" for figure, most in LIMITS.items() if grown[figure] > most]
