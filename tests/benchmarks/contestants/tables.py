"""Stored results as the tables of docs/: nobody copies a number by hand. `python -m contestants.tables peers`, in this folder's parent, prints
those of peers.json; tests/whole/test_stored.py compares the pages with them.
"""

from __future__ import annotations

import json
import math
import operator
import statistics
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from .growth import IDLE, LIMITS, beyond, growth
from .in_spark import FLOOR, OURS

Stored = dict[str, Any]
PLAIN = ", plain"
SUITES = {
    "batch": "In batch, time as a multiple of the bare shuffle + sort",
    "stream": "On a stream, rows a second, with start and end of the query",
}


def table(*lines: list[str]) -> str:
    head, *rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows]).replace("|  ", "| ")


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


def plain(stored: Stored) -> str:
    """What `plain.py` found: seconds of CPU of plain SQL over those of the call that it was compiled from, and the bar."""
    shapes = stored["cpu_seconds"]
    calls = list(dict.fromkeys(name for found in shapes.values() for name in found if f"{name}{PLAIN}" in found))
    rows = [[call, *[of_call(found, call) for found in shapes.values()], f"{bar(call):.1f}"] for call in calls]
    how = (
        f"CPU of plain SQL over CPU of the call: {stored['rows']:,} rows, {stored['cores']} cores, medians of {stored['rounds']} interleaved "
        f"rounds, {stored['date']}, on a machine with {stored['machine']['cpus']} cores and other work (load {stored['load_average']:.0f}); in parentheses, of single rounds"
    )
    return f"{how}.\n\n" + table(["", *shapes, "bar"], *rows)


def plain_one_key(stored: Stored) -> str:
    """What became of plain SQL with all rows in one key."""
    how = f"{stored['rows']:,} rows of one key, {stored['heap'].upper()}B for the driver, {stored['date']} (load {stored['load_average']:.0f})"
    rows = [[call, f"{one['seconds']:.0f} s", f"{one['jvm_mb']:,.0f} MB"] for call, one in stored["plain SQL"].items()]
    return table([how, "elapsed", "JVM, resident at most"], *rows)


def of_call(found: dict[str, list[float]], call: str) -> str:
    if f"{call}{PLAIN}" not in found:
        return "not run"
    plain, called = found[f"{call}{PLAIN}"], found[call]
    rounds, ratio = sorted(map(operator.truediv, plain, called)), statistics.median(plain) / statistics.median(called)
    text = f"{ratio:.2f}" if ratio <= bar(call) else f"**{ratio:.2f}**"
    return f"{text} ({rounds[0]:.2f} to {rounds[-1]:.2f})"


def bar(call: str) -> float:
    """What plain SQL may cost at most."""
    return 1.2 if not call.startswith("DEDUPLICATE") else 2.5 if "arrival" in call else 2.0


def cluster(stored: Stored) -> str:
    """What `cluster.py` found."""
    sizes = list(stored["workers"])
    first, *more = sizes
    head = ["call", f"CPU with {first}", *[f"{what} {size}" for what in ("speed-up with", "CPU with") for size in more]]
    rows = []
    for name, alone in stored["workers"][first].items():
        calls = [stored["workers"][size][name] for size in more]
        times = [f"{call['CPU'] / alone['CPU']:.2f} x" for call in calls]
        rows.append([name, f"{alone['CPU']:.1f} s", *[f"{call['speed-up']:.1f}" for call in calls], *times])
    return table(head, *rows)


def maintained(stored: Stored) -> str:
    """What `maintain.py` found: what following took and how many times the bare query takes that, where they cost the same, and `auto`."""
    sizes = {int(size): found for size, found in stored.items() if size.isdigit()}
    found_rates = {rate for found in sizes.values() for of in found.values() for rate in of["rates"]}
    rates = sorted(found_rates, key=lambda rate: 0.0 if rate == "one" else float(rate))
    machine, rounds = stored["machine"], [len(of["bare"]) for found in sizes.values() for of in found.values()]
    judged = [right for found in sizes.values() for of in found.values() for right in picked(of)]
    head = ["rows, query", "computed anew", *["one row" if rate == "one" else f"{float(rate):.2%}" for rate in rates], "the same at"]
    runs = "Each way once" if max(rounds) == 1 else f"Medians of {min(rounds)} to {max(rounds)} rounds"
    parts = [
        f"{runs}, {machine['date']}, {machine['cores']} cores of a machine with other work (load "
        f"{machine['load']:.0f}): what following took, and how many times that computing anew took."
    ]
    for measure, told in {
        "tasks": "CPU seconds of Spark's tasks",
        "cpu": "CPU seconds of all processes",
        "seconds": "By the clock",
    }.items():
        rows = []
        for size, found in sorted(sizes.items(), reverse=True):
            for name, of in found.items():
                bare = middle(of["bare"], measure)
                took = {rate: middle(of["rates"][rate], measure) for rate in rates if of["rates"].get(rate)}
                cells = [f"{took[rate]:.1f} s, {bare / took[rate]:.1f} x" if rate in took else "not run" for rate in rates]
                same = crossing(size, {rate: bare / seconds for rate, seconds in took.items()})
                rows.append([f"{size:,}: {name}", f"{bare:.1f} s", *cells, same])
        parts.append(f"{told}:\n\n{table(head, *rows)}")
    parts.append(f"`auto` would have taken the way of `maintain` that is quicker by the clock in {sum(judged)} of {len(judged)} runs.")
    return "\n\n".join(parts)


def middle(runs: list[Stored], measure: str) -> float:
    return statistics.median(run[measure] for run in runs)


def crossing(size: int, ratios: dict[str, float]) -> str:
    """The rate at which a ratio passes 1, between two that were run: as a line would, over the logarithm of the rate."""
    points = sorted((1 / size if rate == "one" else float(rate), ratio) for rate, ratio in ratios.items())
    if points[-1][1] >= 1:
        return f"more than {points[-1][0]:.0%}"
    for (one, above), (other, below) in reversed(list(pairwise(points))):
        if above >= 1:
            share = math.log(above) / (math.log(above) - math.log(below))
            return f"{100 * math.exp(math.log(one) + share * (math.log(other) - math.log(one))):.2g} %"
    return "always dearer"


def picked(of: Stored) -> list[bool]:
    """For each run, whether `auto` would have expected less of the way that took less."""
    full = middle(of["full"], "seconds")
    runs = [run for rate in of["rates"].values() for run in rate if run["predicted"]]
    return [(run["predicted"]["full"] < run["predicted"]["incremental"]) == (full < run["seconds"]) for run in runs]


def ready(stored: Stored) -> str:
    """What `ready.py` found."""
    head = ["until both doors answer", "Spark's own two servers", "`streamtime serve`", "ratio"]
    rows = [
        [
            line["until ready"].replace("seconds", "s").replace("CPU s", "s of CPU"),
            *[f"{line[who]:.1f}" for who in ("bare Spark", "streamtime serve")],
            f"{line['ratio']:.2f}",
        ]
        for line in stored["lines"]
    ]
    how = f"Medians of {stored['rounds']} interleaved rounds, {stored['machine']['cores']} cores, {stored['date']} (load {stored['load_average_before']:.0f})"
    return f"{how}:\n\n{table(head, *rows)}"


def load(stored: Stored) -> str:
    """What `load.py` found."""
    held, clients = stored["held"], stored["clients"]
    who = ", ".join(f"{count} of {name}" for name, count in clients.items())
    blocks = len(held) - 1
    each = sorted({stored["rounds"][name] / count / blocks for name, count in clients.items()})
    rounds = "1 round each" if each == [1] else f"{each[0]:.1f} to {each[-1]:.1f} rounds each"
    how = (
        f"{sum(clients.values())} clients at once ({who}), {blocks} blocks of {rounds}, on {stored['machine']['cores']} cores, {stored['date']}: "
        f"{stored['answers']:,} answers in {stored['seconds']} seconds with {IDLE} of rest after each block, {stored['wrong'] or 'none'} wrong"
    )
    grown, over = growth(held), beyond(held)
    head = ["", *held, "rose by", "may rise by"]
    rows = [
        [what, *[str(one[what]) for one in held.values()], *[str(of[what]) if what in of else "" for of in (grown, LIMITS)]]
        for what in held["before"]
    ]
    verdict = f"Over the limit: {'; '.join(over)}." if over else "No session is left, and nothing rose by more than it may."
    return f"{how}.\n\n{table(head, *rows)}\n\n{verdict}"


PAGES: dict[str, tuple[str, Callable[[Stored], str]]] = {
    "peers": ("speed", peers),
    "spread": ("scale", spread),
    "plain": ("plain", plain),
    "plain_one_key": ("plain", plain_one_key),
    "cluster": ("scale", cluster),
    "maintain": ("maintain", maintained),
    "ready": ("serve", ready),
    "load": ("serve", load),
}


def of(name: str) -> str:
    """The tables of a benchmark's stored results."""
    return PAGES[name][1](json.loads((Path(__file__).parents[1] / f"{name}.json").read_text()))


if __name__ == "__main__":
    print(of(sys.argv[1]))
