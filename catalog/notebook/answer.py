"""What a query gives in a notebook: a table that pages and sorts where HTML is shown, and one as in a terminal everywhere else."""

from __future__ import annotations

import functools
import html
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamtime.shell.rendering import LINES, Result, Row, table
from streamtime.shell.results import texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Answer:
    """The first rows of a DataFrame, as they were when it ran. `df` is the DataFrame: all of its rows, computed again."""

    df: DataFrame
    result: Result
    count: int
    more: bool

    @classmethod
    def of(cls, df: DataFrame, limit: int | None) -> Answer:
        """Run it, for at most so many rows; None gives all."""
        result, rows = texts(df, limit)
        fetched = Result(result.names, [tuple(row) for row in result.rows], result.numeric)
        return cls(df, fetched, rows.count, rows.more)

    @property
    def said(self) -> str:
        """How many rows there are."""
        count = "1 row" if self.count == 1 else f"{self.count:,} rows"
        return f"first {count}, there are more: --limit {self.count * 10} or --limit none shows them" if self.more else count

    def __repr__(self) -> str:
        """As in a terminal."""
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        return "\n".join([*table(self.result, width), self.said])

    def _repr_html_(self) -> str:
        return "".join(self._html())

    def _html(self) -> Iterator[str]:
        names, rows = self.result.names, self.result.rows
        lines = len(names) == 1 and any(cell and "\n" in cell for (cell,) in rows)  # a plan, a definition
        sides = ["number" if self.result.right(i) else "lines" if lines else "" for i in range(len(names))]
        yield f'<div class="streamtime-table"><style>{_file("table.css")}</style><table><thead><tr>'
        yield from (f"<th{_class(side)}>{_escaped(name)}</th>" for name, side in zip(names, sides, strict=True))
        yield "</tr></thead><tbody>\n"
        yield from (_row(row, sides) for row in rows)
        yield "</tbody></table>"
        yield '<p class="pages" hidden><button>‹ back</button> <span></span> <button>next ›</button></p>'
        yield f"<p>{html.escape(self.said)}</p></div><script>{_file('table.js')}</script>"


def _row(row: Row, sides: list[str]) -> str:
    cells = (
        f"<td{_class(f'{side} null'.strip())}>NULL</td>" if cell is None else f"<td{_class(side)}>{_escaped(cell)}</td>"
        for cell, side in zip(row, sides, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>\n"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _escaped(text: str) -> str:
    return html.escape(text.translate(LINES))  # a control character is no HTML


@functools.cache
def _file(name: str) -> str:
    return (Path(__file__).parent / "table" / name).read_text(encoding="utf-8")
