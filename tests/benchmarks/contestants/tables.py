"""Stored results as the tables of docs/: nobody copies a number by hand. `python -m contestants.tables peers`, in this folder's parent, prints
those of peers.json; tests/whole/test_stored.py compares the pages with them.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from .in_spark import FLOOR, OURS

Stored = dict[str, Any]
SUITES = {
    "batch": "In batch, time as a multiple of the bare shuffle + sort",
    "stream": "On a stream, rows a second, with start and end of the query",
}


def table(*lines: list[str]) -> str:
    head, *rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows]).replace("|  |", "| |")


def peers(stored: Stored) -> str:
    """What `peers.py` found, and what each contestant cannot say."""
    parts = [one_suite(suite, stored[suite]) for suite in SUITES if suite in stored]
    cannot = [[name, line] for name, lines in stored["cannot"].items() for line in lines]
    return "\n\n".join([*parts, table(["", "what it cannot say"], *cannot)])


def one_suite(suite: str, by_keys: dict[str, Stored]) -> str:
    shapes = list(by_keys.values())
    rows = [["bare shuffle + sort", *map(floors, shapes)]] if suite == "batch" else []
    for question, found in shapes[0]["questions"].items():
        for name in (n for n in found["seconds"] if n != FLOOR):
            line = [f"{question}: {name}", *[cell(suite, shape, question, name) for shape in shapes]]
            rows.append([f"**{text}**" if name == OURS else text for text in line])
    head = ["", *[f"{int(shape.partition(' ')[0]):,} keys" for shape in by_keys]]
    return f"{SUITES[suite]}: {how(shapes[0])}.\n\n" + table(head, *rows)


def floors(shape: Stored) -> str:
    seconds = [found["median_seconds"][FLOOR] for found in shape["questions"].values()]
    return f"1 ({min(seconds):.1f} to {max(seconds):.1f} s)"


def how(shape: Stored) -> str:
    machine, load = shape["machine"], shape["load_average_before"]
    busy = f" and other work (load {load:.0f})" if machine["shared"] else ""
    return (
        f"{shape['rows']:,} rows, {shape['cores']} cores, medians of {shape['rounds']} interleaved rounds, {shape['date']}, "
        f"on a machine with {machine['cpus']} cores{busy}"
    )


def cell(suite: str, shape: Stored, question: str, name: str) -> str:
    found = shape["questions"].get(question, {"median_seconds": {}, "left_out": {}})
    if name not in found["median_seconds"]:
        return str(found["left_out"].get(name, "not run"))
    took = found["median_seconds"][name]
    return f"{took / found['median_seconds'][FLOOR]:.2f}" if suite == "batch" else f"{shape['rows'] / took:,.0f}"


def spread(stored: Stored) -> str:
    """What `spread.py` found."""
    head = ["call", f"limit, of {stored['partitions']}", "share of the largest task", "input computed"]
    calls = stored["calls"].items()
    return table(head, *[[name, f"{one['limit']:.0f}", f"{one['largest']:.1%}", f"{one['evaluations']:.0f} x"] for name, one in calls])


def maintained(stored: Stored) -> str:
    """What `maintain.py` found: CPU seconds, how many times less that is than the bare query, where they cost the same, and `auto`."""
    sizes = {int(size): found for size, found in stored.items() if size.isdigit()}
    rates = list(dict.fromkeys(rate for found in sizes.values() for of in found.values() for rate in of["rates"]))
    head = ["rows, query", "the bare query", *["one row" if rate == "one" else f"{float(rate):.2%}" for rate in rates], "costs the same at"]
    rows = []
    for size, found in sorted(sizes.items(), reverse=True):
        for name, of in found.items():
            bare = middle(of["bare"])
            took = {rate: middle(of["rates"][rate]) for rate in rates if of["rates"].get(rate)}
            cells = [f"{took[rate]:.1f} s, {bare / took[rate]:.1f} x" if rate in took else "not run" for rate in rates]
            rows.append([f"{size:,}: {name}", f"{bare:.1f} s", *cells, crossing(size, {r: bare / cpu for r, cpu in took.items()})])
    judged = [right for found in sizes.values() for of in found.values() for right in picked(of)]
    machine = stored["machine"]
    return (
        f"CPU seconds of the process, and how many times less than those of the bare query, {machine['date']}, {machine['cores']} cores of a "
        f"machine with other work (load {machine['load']:.0f}).\n\n{table(head, *rows)}\n\n"
        f"`auto` would have taken the way with less CPU time in {sum(judged)} of these {len(judged)} runs."
    )


def middle(runs: list[Stored]) -> float:
    return statistics.median(run["cpu"] for run in runs)


def crossing(size: int, ratios: dict[str, float]) -> str:
    """The rate at which a ratio passes 1, between two that were run: as a line would, over the logarithm of the rate."""
    points = sorted((1 / size if rate == "one" else float(rate), ratio) for rate, ratio in ratios.items())
    if points[0][1] < 1:
        return "always dearer"
    for (one, above), (other, below) in pairwise(points):
        if below < 1:
            share = math.log(above) / (math.log(above) - math.log(below))
            return f"{100 * math.exp(math.log(one) + share * (math.log(other) - math.log(one))):.2g} %"
    return f"more than {points[-1][0]:.0%}"


def picked(of: Stored) -> list[bool]:
    """For each run, whether `auto` expected less of the way that took less CPU time."""
    full = middle(of["full"])
    runs = [run for rate in of["rates"].values() for run in rate if run["predicted"]]
    return [(run["predicted"]["full"] < run["predicted"]["incremental"]) == (full < run["cpu"]) for run in runs]


PAGES: dict[str, tuple[str, Callable[[Stored], str]]] = {
    "peers": ("speed", peers),
    "spread": ("scale", spread),
    "maintain": ("maintain", maintained),
}


def of(name: str) -> str:
    """The tables of a benchmark's stored results."""
    return PAGES[name][1](json.loads((Path(__file__).parents[1] / f"{name}.json").read_text()))


if __name__ == "__main__":
    print(of(sys.argv[1]))
