"""Stored results as the tables of docs/: nobody copies a number by hand."""

from __future__ import annotations

from typing import Any

from .in_spark import FLOOR, OURS


def peers(stored: dict[str, Any]) -> str:
    """What `peers.py` found: in batch as a multiple of the floor, on a stream in rows a second; then what each cannot say."""
    parts = [one(suite, stored[suite]) for suite in ("batch", "stream") if suite in stored]
    cannot = [f"| {name} | {line} |" for name, lines in stored["cannot"].items() for line in lines]
    return "\n\n".join([*parts, "\n".join(["| | what it cannot say |", "|---|---|", *cannot])])


def one(suite: str, by_keys: dict[str, Any]) -> str:
    lines = [f"| {suite} | {' | '.join(by_keys)} |", "|---|" + "---|" * len(by_keys)]
    first = next(iter(by_keys.values()))
    for question, found in first["questions"].items():
        for name in (n for n in found["seconds"] if n != FLOOR):
            cells = [cell(suite, shape, question, name) for shape in by_keys.values()]
            bold = "**" if name == OURS else ""
            lines.append(f"| {bold}{question}: {name}{bold} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(suite: str, shape: dict[str, Any], question: str, name: str) -> str:
    found = shape["questions"][question]
    if name not in found["median_seconds"]:
        return found["left_out"].get(name, "not run")
    took = found["median_seconds"][name]
    return f"{took / found['median_seconds'][FLOOR]:.2f}" if suite == "batch" else f"{shape['rows'] / took:,.0f} rows/s"
