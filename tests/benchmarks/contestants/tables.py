"""Stored results as the tables of docs/: nobody copies a number by hand. `python -m contestants.tables peers`, in this folder's parent, prints
those of peers.json; tests/whole/test_stored.py compares the pages with them.
"""

from __future__ import annotations

import json
import math
import operator
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from .growth import IDLE, LIMITS, beyond, growth
from .headlines import as_of, deduplicate, doors, sessions, suppress, suppress_spread
from .in_spark import FLOOR, OURS
from .markdown import table

Stored = dict[str, Any]
PLAIN, SQL = ", plain", "plain SQL"
ABOUT = ("rows", "cores", "date", "load_average")
SUITES = {
    "batch": "In batch, time as a multiple of the bare shuffle + sort",
    "stream": "On a stream, rows a second, with start and end of the query",
}


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
    """What `spread.py` found, of calls and of maintain."""
    of_run, tables = "maintain", list[str]()
    for maintains, says in ((False, "input computed"), (True, "rows read, of those of its tables")):
        head = ["what is maintained" if maintains else "call", f"limit, of {stored['partitions']}", "share of the largest task", says]
        calls = [(name, one) for name, one in stored["calls"].items() if name.startswith(of_run) == maintains]
        lines = [
            [name.removeprefix(f"{of_run}, "), f"{one['limit']:.0f}", f"{one['largest']:.1%}", f"{often(one)} x"] for name, one in calls
        ]
        tables.append(table(head, *lines))
    return "\n\n".join(tables)


def spread_outputs(stored: Stored) -> str:
    """What `spread.py --output` found: every output of a call, and its plain SQL."""
    calls: dict[str, dict[str, str]] = {}
    for one in stored["calls"].values():
        said = "there is none" if "refused" in one else f"{one['limit']:.0f}, {often(one)} x"
        calls.setdefault(one["call"], {})[one["way"]] = said
    ways = list(dict.fromkeys(way for of in calls.values() for way in of if way != SQL))
    lines = [[call, *[of.get(way, "") for way in (*ways, SQL)]] for call, of in calls.items()]
    return table([f"limit, of {stored['partitions']}; input computed", *[f"`'{way}'`" for way in ways], SQL], *lines)


def often(one: Stored) -> str:
    """How often something was computed."""
    return f"{one['evaluations']:.1f}".removesuffix(".0")


def plain(stored: Stored) -> str:
    """What `plain.py` found: CPU of plain SQL over that of the call that it was compiled from, and the bar; the same by the clock."""
    shapes = stored["shapes"]
    found = [one for calls in shapes.values() for one in calls.values()]
    calls = list(dict.fromkeys(call for of in shapes.values() for call in of))
    cpus, rounds = between(one["machine"]["cpus"] for one in found), between(len(one["cpu_seconds"]["call"]) for one in found)
    rows, cores, date, load = (between(one[what] for one in found) for what in ABOUT)
    busy = " and other work" if max(one["load_average"] - one["cores"] for one in found) > 2 else ""
    how = (
        f"CPU of plain SQL over CPU of the call: {rows} rows, {cores} cores, medians of {rounds} interleaved rounds, {date}, on a machine with "
        f"{cpus} cores{busy} (load {load}); in parentheses, of single rounds"
    )
    ratios = [[call, *[of_call(of.get(call), call) for of in shapes.values()], f"{bar(call):.1f}"] for call in calls]
    clock = [[call, *[by_the_clock(of.get(call)) for of in shapes.values()]] for call in calls]
    took = [
        [call, *[f"{of[what]:.2f} s" if what in of else "not stored" for what in ("first", "median of three", "CPU of these")]]
        for call, of in stored["compile_seconds"].items()
    ]
    return "\n\n".join(
        [
            f"{how}.",
            table(["", *shapes, "bar"], *ratios),
            "The same by the clock, which other work disturbs:",
            table(["", *shapes], *clock),
            "To compile it, by the clock; and the CPU of that, JVM and Python together:",
            table(["", "the first time", "median of three more", "CPU of these"], *took),
        ]
    )


def between(values: Iterable[Any]) -> str:
    """The least and the largest."""
    least, *_, most = sorted(values := list(values)) * 2
    texts = [f"{value:,}" if isinstance(value, int) else str(value) for value in (least, most)]
    return " to ".join(dict.fromkeys(texts))


def plain_one_key(stored: Stored) -> str:
    """What became of plain SQL with all rows in one key."""
    calls = stored["plain SQL"]
    rows, _, date, load = (between(one[what] for one in calls.values()) for what in ABOUT)
    how = f"{rows} rows of one key, {stored['heap'].upper()}B for the driver, {date} (load {load})"
    lines = [
        [call, "failed", "", one["failed"].replace("|", "/")]
        if "failed" in one
        else [call, f"{one['seconds']:,.0f} s", stored_seconds(one.get("cpu_seconds")), f"{one['jvm_mb']:,.0f} MB"]
        for call, one in calls.items()
    ]
    return table([how, "elapsed", "CPU", "JVM, resident at most"], *lines)


def stored_seconds(seconds: float | None) -> str:
    return "not stored" if seconds is None else f"{seconds:,.0f} s"


def of_call(found: Stored | None, call: str) -> str:
    if found is None:
        return "not run"
    plain, called = (found["cpu_seconds"][who] for who in ("plain", "call"))
    rounds, ratio = sorted(map(operator.truediv, plain, called)), statistics.median(plain) / statistics.median(called)
    text = f"{ratio:.2f}" if ratio <= bar(call) else f"**{ratio:.2f}**"
    return f"{text} ({rounds[0]:.2f} to {rounds[-1]:.2f})"


def by_the_clock(found: Stored | None) -> str:
    if found is None or "seconds" not in found:
        return "not run" if found is None else "not stored"
    plain, called = (statistics.median(found["seconds"][who]) for who in ("plain", "call"))
    return f"{plain / called:.2f} ({plain:.1f} against {called:.1f} s)"


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
        f"{runs}, {machine['date']}, {machine['cores']} cores (load "
        f"{machine['load']:.0f}): what following took, and how many times that computing anew took: above 1 x, following is quicker."
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
    full = [f"{name} {middle(of['full'], 'seconds'):.1f} s" for found in sizes.values() for name, of in found.items()]
    parts.append(
        "Computed anew is the bare query with its write. A full run of `maintain`, which also looks at keys and writes a log, took by the clock: "
        f"{', '.join(full)}."
    )
    if hands := [(size, name, of) for size, found in sorted(sizes.items(), reverse=True) for name, of in found.items() if by_hand(of)]:
        rows = [[f"{size:,}: {name}", *[by_hand(of).get(rate, "not run") for rate in rates]] for size, name, of in hands]
        parts.append(
            "A MERGE that was written by hand for the same commit of the same table, as who knows that query would write it: by the clock, how "
            "many times that following took, and the CPU seconds of Spark's tasks of both:\n\n" + table([head[0], *head[2:-1]], *rows)
        )
    parts.append(
        f"`auto`, which chooses between following and such a full run, would have taken the quicker one by the clock in {sum(judged)} of {len(judged)} runs."
    )
    return "\n\n".join(parts)


def swept(stored: Stored) -> str:
    """What `tests/sweep.py` did."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in stored["of"].items())
    each = sorted(one["compared"] for one in stored["tables"].values())
    ways: Counter[str] = Counter()
    for one in stored["tables"].values():
        ways.update(one["ways"])
    followed = f"{ways['incremental']} times by following changes, {sum(t['row by row'] for t in stored['tables'].values())} of them by adding what came and went"
    return (
        f"{stored['date']}: {stored['commits']} random commits ({kinds}) of {stored['asked']['commits']} that were asked for, and "
        f"{stored['kills']} of {stored['asked']['kills']} kills of the process. Each commit was "
        f"followed by as many tables as there was time for. The {len(each)} tables were brought up to date {followed}, and {ways['full']} times "
        f"computed anew. They were compared with their queries {stored['comparisons']} times, each {each[0]} to {each[-1]} times; "
        f"{len(stored['failures']) or 'no'} runs failed or gave other rows."
    )


def by_hand(of: Stored) -> dict[str, str]:
    """For each rate what a MERGE by hand took, and following beside it."""
    found = {rate: [run for run in runs if "by hand" in run] for rate, runs in of["rates"].items()}
    told = {}
    for rate, runs in found.items():
        if runs:
            hands = [run["by hand"] for run in runs]
            took, ours = middle(hands, "seconds"), middle(runs, "seconds")
            told[rate] = f"{took:.1f} s, {ours / took:.1f} x; {middle(runs, 'tasks'):.1f} s, by hand {middle(hands, 'tasks'):.1f} s"
    return told


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
    """For each run, whether `auto` would have expected less of the way that took less, beside what was spent until it chose."""
    full = statistics.median(run["seconds"] - run["decided"] for run in of["full"])
    runs = [run for rate in of["rates"].values() for run in rate if run["predicted"]]
    return [(run["predicted"]["full"] < run["predicted"]["incremental"]) == (full < run["seconds"] - run["decided"]) for run in runs]


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


def changes(stored: Stored) -> str:
    """What `changes.py` found of most rows: seconds of the processor over those of bare shuffle + sort."""
    most = max(line["rows"] for line in stored["lines"])
    how = f"{most:,} rows, {stored['machine']['cores']} cores, medians of {stored['rounds']} interleaved rounds, {stored['date']}"
    rows = []
    for line in (line for line in stored["lines"] if line["rows"] == most):
        function, _, what = line["call"].partition(", ")
        rows.append([f"`{function}`, {what}", f"{line['cpu ratio']:.1f}"])
    return table([how, "CPU over that of bare shuffle + sort"], *rows)


SPARKS_OWN = ("dropDuplicatesWithinWatermark", "window, append mode")
BY_HAND = "transformWithState per key"


def streaming(stored: Stored) -> str:
    """What `streaming.py` found: rows a second, and how many times what Spark's own does."""
    shapes = stored["results"]
    reference = next(name for name in SPARKS_OWN if name in next(iter(shapes.values())))
    names = dict.fromkeys([reference, *(name for by in shapes.values() for name in by)])
    lines = []
    for name in names:
        cells = []
        for by in shapes.values():
            if name not in by:
                cells.append("not run")
                continue
            speed = by[name]["rows_per_second"]
            ratio = "" if name in (reference, BY_HAND) else f" ({speed / by[reference]['rows_per_second']:.2f} times)"
            cells.append(f"{speed:,.0f}{ratio}")
        lines.append([name if name in (reference, BY_HAND) else f"**{name}**", *cells])
    run = [one for by in shapes.values() for name, one in by.items() if name != BY_HAND]
    dates, rounds = (between(values) for values in ((one["date"] for one in run), (len(one["runs"]) for one in run)))
    return table([f"medians of {rounds} rounds, {dates}", *shapes], *lines)


FINAL = {  # what `sessions.py` calls a contestant: what the page does, and Spark's own with the same aggregates
    "WINDOW_UPDATES, final, exact sums": ("`WINDOW_UPDATES` in event-time order", "window, exact sums"),
    "WINDOW_UPDATES, final, exact sums, late rows": ("`WINDOW_UPDATES` in arrival order, with late rows", "window, exact sums"),
    "WINDOW_UPDATES, final": ("`WINDOW_UPDATES` with a sum of DOUBLE, in event-time order: a kernel", "window, aggregated"),
    "SESSION_UPDATES, final, exact sums": ("`SESSION_UPDATES` in event-time order", "session_window, exact sums"),
}


GROUPED = "Spark's own `GROUP BY k, window(..)`"
HELD = {  # the same of what is held until windows close
    "WINDOW_UPDATES, UNTIL_CLOSE, whole numbers, few columns": (
        "`SUPPRESS_UNTIL_CLOSE` of all `WINDOW_UPDATES`, planned as one, without `change_seq`",
        "window, whole numbers",
    ),
    "WINDOW_UPDATES, UNTIL_CLOSE, whole numbers": ("the same, all columns", "window, whole numbers"),
    "WINDOW_UPDATES, UNTIL_CLOSE": ("the same with a sum of DOUBLE: a kernel", "window, aggregated"),
    "WINDOW_UPDATES, UNTIL_CLOSE, apart": ("the same with a WHERE between: two calls, and a buffer", "window, aggregated"),
}


def of_finals(stored: Stored, what: str, contestants: dict[str, tuple[str, str]], owns: dict[str, str]) -> str:
    """Times of final rows, as multiples of Spark's own aggregate; `owns` are those whose seconds are shown, and what the page calls them."""
    shapes = stored["median_seconds"]
    how = f"{what}, medians of {stored['rounds']} rounds, {stored['date']}"
    lines = [[named, *(f"{by[name] / by[own]:.2f}" for by in shapes.values())] for name, (named, own) in contestants.items()]
    lines += [[named, *(f"1 ({by[own]:.1f} s)" for by in shapes.values())] for own, named in owns.items()]
    return table([how, *shapes], *lines)


def final_windows(stored: Stored) -> str:
    """What `sessions.py` found of final rows."""
    owns = {"window, exact sums": GROUPED, "session_window, exact sums": "its `session_window(..)`"}
    return of_finals(stored, f"`emit => 'final'`, {stored['rows']:,} rows", FINAL, owns)


def until_close(stored: Stored) -> str:
    """What `sessions.py` found of changes that are held until windows close."""
    return of_finals(stored, f"{stored['rows']:,} rows in event-time order", HELD, {"window, aggregated": GROUPED})


PAGES: dict[str, tuple[str, Callable[[Stored], str]]] = {
    "results": ("speed", deduplicate),
    "sessions": ("speed", sessions),
    "suppress": ("speed", suppress),
    "doors": ("speed", doors),
    "as_of": ("speed", as_of),
    "suppress_spread": ("scale", suppress_spread),
    "peers": ("speed", peers),
    "spread": ("scale", spread),
    "spread_outputs": ("scale", spread_outputs),
    "changes": ("changelogs", changes),
    "streaming": ("speed", streaming),
    "streaming_windows": ("speed", streaming),
    "final_windows": ("speed", final_windows),
    "until_close": ("speed", until_close),
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
