"""Results as text: aligned tables fitted to the terminal, one line per value, CSV, JSON Lines and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from streamtime.sql.call.errors import CONTROLS, TURNING
from streamtime.widths import displayed, fitted

FORMATS = ("table", "vertical", "csv", "json", "markdown")
STREAMED = ("csv", "json")  # formats that need no row but the one at hand
NARROWEST = 12  # a column of text is not cut below this many characters
GAP = 2

Row = Sequence[str | None]

CELL = CONTROLS | TURNING  # a cell is one line, and turns no text around
LINES = {code: text for code, text in CELL.items() if code not in (9, 10)}


@dataclass(frozen=True)
class Result:
    """Columns and rows, every value in its text form and None for a null. `numeric` says which columns stand to the right."""

    names: tuple[str, ...]
    rows: Iterable[Row]
    numeric: tuple[bool, ...] = ()

    def right(self, column: int) -> bool:
        """Whether that column stands to the right."""
        return column < len(self.numeric) and self.numeric[column]


def lines(result: Result, form: str, width: int | None = None) -> Iterator[str]:
    """The lines of a result in one of FORMATS. `width` is the terminal's, None where there is no terminal and nothing is to be fitted."""
    if form == "csv":
        return csv_lines(result)
    if form == "json":
        return json_lines(result)
    if form == "markdown":
        return iter(markdown(result).splitlines())
    if form == "vertical":
        return vertical(result)
    return table(result, width)


def table(result: Result, width: int | None = None) -> Iterator[str]:
    """An aligned table. Cells are cut to fit, or the rows written one below the other where cutting would leave nothing to read."""
    rows = [tuple(row) for row in result.rows]
    if len(result.names) == 1 and any(cell and "\n" in cell for (cell,) in rows):  # a plan, a definition, a help text: meant to be read
        yield from (line for (cell,) in rows for line in _text("NULL" if cell is None else cell))
        return
    names = [_cell(name) for name in result.names]
    cells = [["NULL" if cell is None else _cell(cell) for cell in row] for row in rows]
    widths = [max(map(displayed, column)) for column in zip(names, *cells, strict=True)]
    fits = widths if width is None else _fit(widths, [result.right(i) for i in range(len(names))], width)
    if fits is None:
        yield from vertical(Result(result.names, rows))
        yield "-- written row by row, as the table is wider than the terminal"
        return
    if fits != widths:
        names = [fitted(name, most) for name, most in zip(names, fits, strict=True)]
        cells = [[fitted(cell, most) for cell, most in zip(row, fits, strict=True)] for row in cells]
    yield from _tabulated(result, names, cells, "simple")
    if fits != widths:
        yield "-- what ends in … is cut to the terminal's width; the format `vertical` shows it whole"


def markdown(result: Result) -> str:
    """A Markdown table."""
    names = [_markdown_cell(name) for name in result.names]
    cells = [["NULL" if cell is None else _markdown_cell(cell) for cell in row] for row in result.rows]
    return "\n".join(_tabulated(result, names, cells, "pipe"))


def vertical(result: Result) -> Iterator[str]:
    """One line per value, row after row."""
    names = [_cell(name) for name in result.names]
    widest = max(map(displayed, names), default=0)
    for number, row in enumerate(result.rows, 1):
        yield f"-- row {number:,} --"
        for name, cell in zip(names, row, strict=True):
            yield f"{name}{' ' * (widest - displayed(name))}  {'NULL' if cell is None else _cell(cell)}".rstrip()


def csv_lines(result: Result) -> Iterator[str]:
    """CSV with a header: nulls are empty, quotes where they are needed. A line may hold line breaks, inside of quotes."""
    rows = iter(result.rows)
    first = next(rows, None)  # before the header, as a query that fails should write nothing
    yield _csv_line(result.names)
    if first is not None:
        yield _csv_line(first)
    yield from map(_csv_line, rows)


def json_lines(result: Result) -> Iterator[str]:
    """JSON Lines: one object per row, its values strings or null."""
    for row in result.rows:
        yield json.dumps(dict(zip(result.names, row, strict=True)), ensure_ascii=False)


def _cell(text: str) -> str:
    return text.translate(CELL)


def _text(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").translate(LINES).split("\n")


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\r\n", "<br>").replace("\n", "<br>").translate(CELL)


def _csv_line(row: Row) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(row)  # a cell is quoted if it has one of these, among others
    return line.getvalue().removesuffix("\r\n")


def _tabulated(result: Result, names: Sequence[str], cells: Sequence[Sequence[str]], form: str) -> list[str]:
    align = tuple("right" if result.right(i) else "left" for i in range(len(names)))
    text = tabulate(
        cells,
        headers=names,
        tablefmt=form,
        disable_numparse=True,
        preserve_whitespace=True,
        colalign=align if cells else None,  # which tabulate refuses without rows
    )
    return [line.rstrip() for line in text.splitlines()]


def _fit(widths: Sequence[int], numeric: Sequence[bool], width: int) -> list[int] | None:
    """The widths at which a table fits: the widest texts give way first, numbers never. None where it cannot fit."""
    room = width - GAP * (len(widths) - 1)
    for most in range(max(widths), NARROWEST - 1, -1):
        fits = [w if number else min(w, most) for w, number in zip(widths, numeric, strict=True)]
        if sum(fits) <= room:
            return fits
    return list(widths) if sum(widths) <= room else None
