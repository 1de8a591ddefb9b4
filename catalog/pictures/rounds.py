"""A picture of who has what, round by round: of ASSIGN_TASKS with `rounds => n`, or of its history as a Delta table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from streamtime.pictures.drawing import figures
from streamtime.sql.call.errors import echoed
from streamtime.widths import displayed

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


def kind_of(columns: Collection[str]) -> str | None:
    """What a column of the picture is, `round` or `commit`, if rows with these columns can be drawn so."""
    return next((kind for kind, needed in SHAPES.items() if set(needed) <= set(columns)), None)


def cells_of(df: DataFrame, kind: str) -> list[Cell]:
    """The copies in each round, or at each commit. Raises ValueError where there are none."""
    rows = [tuple(row) for row in df.select(*SHAPES[kind]).collect()]
    cells = _of_rounds(rows) if kind == "round" else of_history(rows)
    if not cells:
        raise ValueError("plot: there are no rows to draw.")
    return cells


def lines(cells: Iterable[Cell], kind: str, width: int) -> list[str]:
    """The same as text: a line for each task, a column for each round; as many columns as there is room for."""
    cells = sorted(cells)
    tasks, others = _worth_drawing(cells)
    at = sorted({c.at for c in cells})
    signs = {STANDBY: "+", WARMUP: "~"}
    held = {(t, r): " ".join(signs.get(c.role, "") + c.member for c in cells if (c.task, c.at) == (t, r)) for t in tasks for r in at}
    columns = [[kind, *tasks], *([str(r), *(held[t, r] for t in tasks)] for r in at)]
    widths = [max(map(displayed, map(echoed, column))) for column in columns]
    shown = next((n for n in range(len(columns), 1, -1) if sum(widths[:n]) + 2 * (n - 1) <= width), 1)
    said = [
        "  ".join(padded(column[row], size) for column, size in zip(columns[:shown], widths, strict=False)) for row in range(len(tasks) + 1)
    ]
    said += ["", "a name: the owner; +: standby; ~: warm-up"]
    said += [f"{others:,} more tasks are not drawn"] if others else []
    said += [f"{len(columns) - shown:,} more columns are not drawn: there is no room"] if shown < len(columns) else []
    return [line.rstrip() for line in said]


def padded(text: str, size: int) -> str:
    """Text in so many columns of a terminal."""
    text = echoed(text)
    return text + " " * (size - displayed(text))


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
    """Who has which task: a row for each task, a column for each round or commit (`kind`), a color for each member.

    Fields are owners, filled dots standbys, rings warm-ups. Of more than 60 tasks those are drawn that change, and the others counted.
    """
    figure_of = figures()
    from matplotlib import colormaps

    cells = sorted(cells)
    tasks, others = _worth_drawing(cells)
    rounds = sorted({c.at for c in cells})
    members = sorted({c.member for c in cells})
    colors = {m: colormaps["tab10" if len(members) <= 10 else "tab20"](n % 20) for n, m in enumerate(members)}
    row, column = {t: n for n, t in enumerate(tasks)}, {r: n for n, r in enumerate(rounds)}
    size = max(len(rounds) * SIZE * 1.6 + 1.5, 4), max(len(tasks) * SIZE + 1, 2)
    figure = figure_of(figsize=size)
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
    moves: dict[str, dict[int, set[tuple[str, str]]]] = {}
    for cell in cells:
        moves.setdefault(cell.task, {}).setdefault(cell.at, set()).add((cell.member, cell.role))
    if len(moves) <= MOST:
        return sorted(moves), 0
    rounds = len({c.at for c in cells})
    changing = [t for t, by_round in moves.items() if len(by_round) < rounds or len({frozenset(s) for s in by_round.values()}) > 1]
    shown = sorted(changing or moves)[:MOST]
    return shown, len(moves) - len(shown)
