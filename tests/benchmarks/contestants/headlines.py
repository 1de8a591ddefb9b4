"""The tables at the top of docs/speed.md: what each function costs in batch, as multiples of the bare shuffle + sort of the same rows."""

from __future__ import annotations

from typing import Any

from .in_spark import FLOOR
from .markdown import table

Stored = dict[str, Any]
DEDUPLICATING = {  # what the benchmark calls a contestant, and what the page does
    "DEDUPLICATE within": "**`DEDUPLICATE`, within 6 hours**",
    "DEDUPLICATE within, late rows": "the same in arrival order, with exact stream time",
    "SQL fold": "the same as one SQL aggregate over collected rows",
    "DEDUPLICATE for ever": "**`DEDUPLICATE` without `within`**",
    "row_number() = 1": "`row_number() = 1` (the same result)",
    "dropDuplicates": "`dropDuplicates` (any row of a key, not the first)",
}
IN_SESSIONS = {  # and what else it is measured by, and what the page calls that
    "SESSIONIZE": ("**`SESSIONIZE`**", ("lag, sum, min, max", "the usual SQL")),
    "SESSIONIZE, late rows": ("the same in arrival order, with exact stream time", ("lag, sum, min, max", "the usual SQL")),
    "lag, sum, min, max": ("the usual SQL: `lag`, running `sum`, `min` and `max` per session", None),
    "session_window, joined back": ("`session_window`, joined back to the rows", None),
    "SESSION_UPDATES": ("**`SESSION_UPDATES`**, every change", None),
    "WINDOW_UPDATES": ("**`WINDOW_UPDATES`**, every change", None),
    "window, aggregated": ("Spark's own `GROUP BY k, window(..)`, which knows no lateness", None),
}
SUPPRESSING = {
    "UNTIL_CLOSE, days": ("**`SUPPRESS_UNTIL_CLOSE`**, rows in arrival order", "shuffle + sort, with days"),
    "UNTIL_CLOSE, all": ("the same with `output => 'all'`", "shuffle + sort, with days"),
    "UNTIL_CLOSE, explain": ("the same with `output => 'explain'`", "shuffle + sort, with days"),
    "UNTIL_TIME_LIMIT 6 hours": ("**`SUPPRESS_UNTIL_TIME_LIMIT`**, rows in arrival order", FLOOR),
    "UNTIL_TIME_LIMIT, spill": ("the same with a bound and `spill`", FLOOR),
    "UNTIL_TIME_LIMIT, emit_early": ("the same with a bound and `emit_early`, row by row", FLOOR),
}
SKEWS = ("40k keys", "50 keys", "one hot key")
BOUNDS = "bounds and outputs, 500k keys"


def how(stored: Stored) -> str:
    cpus, load = stored["machine"]["cpus"], stored.get("load_average", 0)
    busy = " and other work" if load > stored["machine"]["cores"] + 2 else ""
    return f"{stored['rows']:,} rows, medians of {stored['rounds']} rounds, {stored['date']}, {cpus} cores{busy}"


def floors(shapes: dict[str, dict[str, float]], floor: str = FLOOR) -> list[str]:
    return [f"1 ({by[floor]:.1f} s)" for by in shapes.values()]


def deduplicate(stored: Stored) -> str:
    """What `deduplicate.py` found: of each contestant how many times the floor; of ten rows, seconds."""
    shapes = {name: by for name, by in stored["median_seconds"].items() if FLOOR in by}
    lines = [[what, *(ratio(by, name, FLOOR) for by in shapes.values())] for name, what in DEDUPLICATING.items()]
    small = stored["median_seconds"]["ten rows"]
    first, late, own = (f"{small[name]:.2f}" for name in ("DEDUPLICATE within", "DEDUPLICATE within, late rows", "row_number() = 1"))
    said = f"Ten rows, analysis included, take {first} s, in arrival order {late} s; plain `row_number()` takes {own} s."
    return (
        table([how(stored), *shapes], ["bare shuffle + sort", *floors(shapes)], *lines)
        + f"\n\n{grown(stored, 'DEDUPLICATE within')} {said}"
    )


def sessions(stored: Stored) -> str:
    """What `sessions.py` found, to the floor; and to what one would write otherwise."""
    shapes = {name: by for name, by in stored["median_seconds"].items() if FLOOR in by}
    lines = []
    for name, (what, other) in IN_SESSIONS.items():
        line = [what]
        for by in shapes.values():
            beside = f" ({ratio(by, name, other[0])} of {other[1]})" if other and name in by else ""
            line.append(ratio(by, name, FLOOR) + beside)
        lines.append(line)
    return table([how(stored), *shapes], ["bare shuffle + sort", *floors(shapes)], *lines)


def suppress(stored: Stored) -> str:
    """What `suppress.py` found: rows with a day are measured by the floor of those."""
    shapes = {name: by for name, by in stored["median_seconds"].items() if name not in (BOUNDS, "growth")}
    bounded, first = stored["median_seconds"][BOUNDS], next(iter(shapes))
    lines = []
    for name, (what, floor) in SUPPRESSING.items():
        lines.append([what, *(ratio(bounded if name in bounded and shape == first else by, name, floor) for shape, by in shapes.items())])
    memory = f"One Python worker had up to {stored['peak_memory']['python_worker_mb'] / 1000:.1f} GB, with millions of rows held."
    said = f"{grown(stored, 'UNTIL_CLOSE, days')} {memory}"
    return table([how(stored), *shapes], ["bare shuffle + sort", *floors(shapes)], *lines) + f"\n\n{said}"


def grown(stored: Stored, name: str) -> str:
    """What a million rows take, of few and of many."""
    sizes = {
        found.rpartition(" ")[2][:-1]: took for found, took in stored["median_seconds"]["growth"].items() if found.startswith(f"{name}, ")
    }
    each = ", ".join(f"{took / int(millions):.2f}" for millions, took in sizes.items())
    return f"Of {', '.join(sizes)} million rows, a million takes {each} s."


def ratio(by: dict[str, float], name: str, to: str) -> str:
    return f"{by[name] / by[to]:.2f}" if name in by and to in by else "not run"


def doors(stored: Stored) -> str:
    """What `doors.py` found: seconds."""
    names = {
        "analysis, within": "to analyse a small call",
        "analysis, a constant to compute": "where an option is more than a literal",
        "analysis, within, late rows": "in arrival order, which asks for stream time first",
        "100,000 rows": "100,000 rows",
    }
    lines = []
    for name, what in names.items():
        by = stored["median_seconds"][name]
        seconds = [by["spark.sql"], by.get("query", by.get("streamtime.query")), by.get("Python UDTF")]
        lines.append([what, *("" if took is None else f"{took * 1000:.0f} ms" for took in seconds)])
    head = [f"medians, {stored['date']}, {stored['machine']['cpus']} cores", "`spark.sql`", "`streamtime.query`", "Python UDTF"]
    own = {name: f"{took * 1000:.1f} ms" for name, took in stored["median_seconds"]["parser"].items()}
    said = (
        f"A statement that is none of ours takes {own['SELECT 1, with the pack']} to be read with the pack and "
        f"{own['SELECT 1, without the pack']} without; to rewrite and parse an AS OF join takes {own['parse an AS OF join']}."
    )
    return table(head, *lines) + f"\n\n{said}"


def as_of(stored: Stored) -> str:
    """What `as_of.py` found, data set by data set: how many times the floor, of another Spark how many times its own."""
    shapes = {name: stored[name] for columns in (1, 30) for name in (f"{keys}, {columns} columns" for keys in SKEWS) if name in stored}
    floor = f"{FLOOR} of both sides"
    names = dict.fromkeys(
        name for one in shapes.values() for name in (*one["median_seconds"], *one.get("left_out", {})) if not name.startswith(floor)
    )
    lines = []
    for name in names:
        own = f"{floor},{name.partition(',')[2]}" if name.startswith("native") else floor
        cells = [
            one.get("left_out", {}).get(name, "").removeprefix("TimeoutError: ") or ratio(one["median_seconds"], name, own)
            for one in shapes.values()
        ]
        lines.append([f"**`{name}`**" if name == "AS_OF_JOIN" else f"{name}, by its own" if own != floor else name, *cells])
    runs = [one["rounds"] for one in shapes.values()]
    first = next(iter(shapes.values()))
    head = f"{first['rows']:,} rows a side, medians of {min(runs)} to {max(runs)} rounds, {first['date']}, {first['machine']['cpus']} cores"
    floors_of = floors({name: one["median_seconds"] for name, one in shapes.items()}, floor)
    alone = next((one["contestants"] for name, one in stored.items() if name.startswith("one key alone")), {})
    took = {name: f"{one['seconds']:.0f} s with at most {one['peak_mb'] / 1000:.1f} GB" for name, one in alone.items()}
    said = (
        f"100 million rows of one single key, half on each side, in a driver of 2 GB (`--hot 100e6`): {took['AS_OF_JOIN']}; the bare shuffle + "
        f"sort {took[floor]}."
    )
    return (
        table(
            [head, *(name.replace(" 1 columns", " 1 column") for name in shapes)], ["bare shuffle + sort of both sides", *floors_of], *lines
        )
        + f"\n\n{said}"
    )


def suppress_spread(stored: Stored) -> str:
    """What `suppress.py --spread` found."""
    by, lines = stored["median_seconds"], []
    for name, what in (("UNTIL_TIME_LIMIT 6 hours", "SUPPRESS_UNTIL_TIME_LIMIT"), ("UNTIL_CLOSE, days", "SUPPRESS_UNTIL_CLOSE")):
        floor = SUPPRESSING[name][1]
        lines.append([what, *(f"{by[f'{name}: {way}'] / by[f'{floor}: one buffer']:.1f}" for way in ("spread", "one buffer"))])
    return table([how(stored), "spread", "one buffer"], *lines)
