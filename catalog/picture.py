"""A picture of who has what, round by round: of ASSIGN_TASKS with `rounds => n`, or of its history as a Delta table."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from streamtime.sql.call.errors import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

MOST = 60  # tasks that a picture shows
COPIES = ["task", "member", "role"]
SHAPES = {"round": [*COPIES, "action", "round"], "commit": [*COPIES, "from_version", "to_version"]}
STANDBY, WARMUP = "standby", "warmup"
SIZE = 0.32  # inches, of a cell


class Cell(NamedTuple):
    """A copy of a task in a round, by their names."""

    task: str
    at: int
    member: str
    role: str


def plot(df: DataFrame, *, title: str | None = None) -> Figure:
    """Draws who has which task: a row for each task, a column for each round, a color for each member.

    Fields are owners, filled dots standbys, rings warm-ups. Of more than 60 tasks those are drawn that change, and the others counted.

    Args:
        df: rows of ASSIGN_TASKS, output 'rows' or 'explain' (`task`, `member`, `role`, `action`, `round`), or of TABLE_HISTORY over a table
            that holds its plans (`task`, `member`, `role`, `from_version`, `to_version`), whose commits are the rounds.
        title: what stands above it. Default: none.

    Returns:
        a matplotlib figure, which a notebook shows; `figure.savefig("rounds.svg")` writes it.

    Raises:
        ValueError: columns are missing, or there are no rows.
        ImportError: matplotlib is missing; the extra `plot` has it.
    """
    kind = next((k for k, needed in SHAPES.items() if set(needed) <= set(df.columns)), None)
    if kind is None:
        needs = f"{listed(SHAPES['round'])}, as ASSIGN_TASKS gives them, or {listed(SHAPES['commit'])}, as TABLE_HISTORY does"
        raise ValueError(f"plot: expected the columns {needs}; there are {listed(df.columns)}.")
    rows = [tuple(row) for row in df.select(*SHAPES[kind]).collect()]
    cells = _of_rounds(rows) if kind == "round" else of_history(rows)
    if not cells:
        raise ValueError("plot: there are no rows to draw.")
    return drawn(cells, kind, title)


def _of_rounds(rows: list[tuple[Any, ...]]) -> list[Cell]:
    return [Cell(str(task), at, str(member), role) for task, member, role, action, at in rows if action != "revoke"]


def of_history(rows: list[tuple[Any, ...]]) -> list[Cell]:
    """The copies at each commit at which one begins or ends."""
    commits = sorted({at for *_, begins, ends in rows for at in (begins, ends) if at is not None})
    return [
        Cell(str(task), at, str(member), role)
        for task, member, role, begins, ends in rows
        for at in commits
        if (begins is None or begins <= at) and (ends is None or at < ends)
    ]


def drawn(cells: Iterable[Cell], kind: str, title: str | None = None) -> Figure:
    """The picture of these cells; `kind` is what a column is."""
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot draws with matplotlib, which is missing: pip install 'streamtime[plot]'") from None

    class Picture(Figure):
        def _repr_svg_(self) -> str:
            with io.StringIO() as file:
                self.savefig(file, format="svg", bbox_inches="tight")
                return file.getvalue()

    cells = sorted(cells)
    tasks, others = _worth_drawing(cells)
    rounds = sorted({c.at for c in cells})
    members = sorted({c.member for c in cells})
    colors = {m: colormaps["tab10" if len(members) <= 10 else "tab20"](n % 20) for n, m in enumerate(members)}
    row, column = {t: n for n, t in enumerate(tasks)}, {r: n for n, r in enumerate(rounds)}
    size = max(len(rounds) * SIZE * 1.6 + 1.5, 4), max(len(tasks) * SIZE + 1, 2)
    figure = Picture(figsize=size)
    axes = figure.subplots()
    beside: dict[tuple[str, int], int] = {}
    for cell in (c for c in cells if c.task in row):
        x, y, color = column[cell.at], row[cell.task], colors[cell.member]
        name = f"{cell.task} {cell.at} {cell.member} {cell.role}"
        if cell.role in (STANDBY, WARMUP):
            at = beside[cell.task, cell.at] = beside.get((cell.task, cell.at), 0) + 1
            face = color if cell.role == STANDBY else "white"
            axes.plot(x + 0.5 - 0.22 * at, y, "o", mew=2, mec=color, mfc=face, markersize=6, gid=name, zorder=3)
        else:
            axes.barh(y, 0.96, left=x - 0.48, height=0.9, color=color, alpha=0.45, gid=name)
            axes.text(x - 0.42, y, cell.member[:6], va="center", fontsize=7)
    axes.set(xlim=(-0.5, len(rounds) - 0.5), ylim=(len(tasks) - 0.5, -0.5), xlabel=kind, title=title)
    axes.set_xticks(range(len(rounds)), [str(r) for r in rounds])
    axes.set_yticks(range(len(tasks)), tasks)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    said = "field: owner; dot: standby; ring: warm-up" + (f"; {others:,} more tasks are not drawn" if others > 0 else "")
    axes.annotate(said, (0, 0), (0, -32), xycoords="axes fraction", textcoords="offset points", fontsize=8, va="top")
    return figure


def _worth_drawing(cells: list[Cell]) -> tuple[list[str], int]:
    """Tasks, those that change if there are many, and how many others there are."""
    found: dict[str, dict[int, set[tuple[str, str]]]] = {}
    for cell in cells:
        found.setdefault(cell.task, {}).setdefault(cell.at, set()).add((cell.member, cell.role))
    if len(found) <= MOST:
        return sorted(found), 0
    rounds = len({c.at for c in cells})
    changing = [t for t, by_round in found.items() if len(by_round) < rounds or len({frozenset(s) for s in by_round.values()}) > 1]
    shown = sorted(changing or found)[:MOST]
    return shown, len(found) - len(shown)
