"""A picture of time as a figure of matplotlib. It has a background of its own, so that it reads on light and on dark pages."""

from __future__ import annotations

import io
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamtime.sql.call.errors import echoed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from streamtime.pictures.picture import Bar, Mark, Picture

PAPER, INK, PALE, LINE = "#ffffff", "#24292f", "#57606a", "#d8dee4"
# Colors that people with any kind of color vision tell apart (Okabe and Ito); and each look has a sign of its own as well
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072b2", "#d07a00", "#00805e", "#c2410c", "#a34b82", "#56b4e9"
SIGNS = {  # look -> marker, color, filled
    "passed": ("o", BLUE, True),
    "released": ("D", GREEN, True),
    "deletion": ("X", PALE, True),
    "duplicate": ("x", RED, True),
    "late": ("v", ORANGE, False),
    "replaced": ("o", PURPLE, False),
    "overwritten": ("o", PURPLE, False),
    "superseded": ("o", PURPLE, False),
    "out_of_order": ("<", ORANGE, False),
    "held": ("s", PALE, False),
}
OTHER = ("P", RED, False)
BARS = {"kept": SKY, "window": GREEN, "session": GREEN, "version": SKY, "wait": ORANGE}
LONGEST = 28  # characters of a name
LANE, LEVEL, BAR = 1.0, 0.42, 0.26  # heights
WIDTH, EACH, AROUND = 9.0, 0.52, 1.5  # inches
HASH = "streamtime"  # ids in a SVG hang on it: the same picture is the same file


def figures() -> type[Figure]:
    """The class of figures, which notebooks show as SVG. Raises ImportError that says what to install."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot draws with matplotlib, which is missing: in a clone, pip install '.[plot]'") from None

    class Shown(Figure):
        def savefig(self, fname: Any, **options: Any) -> None:
            """As matplotlib's; the same picture is the same SVG, whose text is text."""
            with rc_context({"svg.hashsalt": HASH, "svg.fonttype": "none"}), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing")  # whoever shows the file has more fonts
                if str(fname).endswith(".svg") or options.get("format") == "svg":
                    options = {"metadata": {"Date": None, "Creator": None}} | options
                super().savefig(fname, **options)

        def _repr_svg_(self) -> str:
            with io.StringIO() as file:
                self.savefig(file, format="svg", bbox_inches="tight")
                return file.getvalue()

    return Shown


def drawn(picture: Picture, title: str | None = None) -> Figure:
    """The figure. Each thing in it has an id that says what it is, such as `late ann 2024-05-01 10:00:00`."""
    figure_of = figures()
    # names with control characters are no XML, and those with dollars are no formulas
    picture = replace(picture, lanes=tuple(_named(lane) for lane in picture.lanes))
    tops, heights = [], []
    at = 0.0
    for levels in picture.levels:
        tops.append(at + 0.5)
        heights.append(LANE + LEVEL * levels)
        at += heights[-1]
    figure = figure_of(
        figsize=(WIDTH, max(at * EACH + AROUND + 0.2 * (len(picture.legend) // 2 + len(picture.notes)), 2.4)), facecolor=PAPER
    )
    axes = figure.subplots()
    low, high = picture.span
    axes.set(xlim=(0, high - low), ylim=(at, 0), facecolor=PAPER)
    for n, top in enumerate(tops):
        axes.axhspan(top - 0.5, top - 0.5 + heights[n], color="#f6f8fa" if n % 2 == 0 else PAPER, zorder=0)
    for bar in picture.bars:
        _bar(axes, picture, bar, _beneath(tops[bar.lane], bar.level), low, high)
    for arrow in picture.arrows:
        top = tops[arrow.lane]
        y = top if arrow.level is None else _beneath(top, arrow.level) - BAR / 2
        bend = "arc3,rad=0.3" if arrow.to < arrow.at else "arc3,rad=-0.3"
        style: dict[str, Any] = {"arrowstyle": "->", "color": PALE, "lw": 1.1, "shrinkA": 4, "shrinkB": 4 if arrow.level is None else 1}
        style |= {"connectionstyle": bend if arrow.level is None else "arc3,rad=0"}
        drawn_ = axes.annotate("", (arrow.to - low, y), (arrow.at - low, top), arrowprops=style, zorder=3)
        drawn_.set_gid(f"arrow {picture.lanes[arrow.lane]} {arrow.at} {arrow.to}")
    for mark in picture.marks:
        _mark(axes, picture, mark, tops[mark.lane], low)
    ticks = picture.ticks(9)
    axes.set_xticks([place - low for place, _ in ticks], [words for _, words in ticks], color=INK, fontsize=8)
    axes.set_yticks(tops, picture.lanes, color=INK, fontsize=9, parse_math=False)
    axes.grid(axis="x", color=LINE, lw=0.8, zorder=0.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title if title is not None else picture.title, loc="left", color=INK, fontsize=10, fontweight="bold", parse_math=False)
    _legend(axes, figure, picture)
    return figure


def _bar(axes: Axes, picture: Picture, bar: Bar, y: float, low: int, high: int) -> None:
    color, end = BARS[bar.look], high if bar.end is None else bar.end
    name = f"{bar.look} {picture.lanes[bar.lane]} {bar.start} {bar.end if bar.end is not None else 'open'}"
    for start, until in ((bar.opens, bar.start), (bar.end, bar.closes)):
        if start is not None and until is not None and until > start:
            axes.barh(y, until - start, left=start - low, height=BAR, color=color, alpha=0.22, lw=0, zorder=2, gid=f"{name} pale")
    least = (high - low) * 0.004  # a session of one row is to be seen
    axes.barh(y, max(end - bar.start, least), left=bar.start - low, height=BAR, color=color, alpha=0.62, lw=0, zorder=2, gid=name)
    if bar.start > low:  # what begins where another ends is to be told from it
        axes.plot([bar.start - low] * 2, [y - BAR / 2, y + BAR / 2], color=color, lw=2.2, solid_capstyle="butt", zorder=2.2)
    if bar.end is None:
        axes.plot(end - low, y, ">", color=color, markersize=6, clip_on=False, zorder=2.5)


def _mark(axes: Axes, picture: Picture, mark: Mark, y: float, low: int) -> None:
    sign, color, full = SIGNS.get(mark.look, OTHER)
    face = color if full else PAPER
    name = f"{mark.why} {picture.lanes[mark.lane]} {mark.at}"
    axes.plot(mark.at - low, y, sign, color=color, mfc=face, mec=color, mew=1.8, markersize=7, gid=name, zorder=4, clip_on=False)


def _legend(axes: Axes, figure: Figure, picture: Picture) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for look, words in sorted(picture.legend, key=lambda entry: entry[0] in BARS):
        if look in BARS:
            handles.append(Patch(color=BARS[look], alpha=0.75, lw=0, label=words))
        else:
            sign, color, full = SIGNS.get(look, OTHER)
            style: dict[str, Any] = {"color": color, "mfc": color if full else PAPER, "mec": color, "mew": 1.8, "markersize": 6}
            handles.append(Line2D([], [], ls="", marker=sign, label=words, **style))
    place = {"loc": "upper left", "bbox_to_anchor": (0, -26), "bbox_transform": _from_corner(axes, figure)}
    axes.legend(handles=handles, ncols=2, frameon=False, fontsize=8, labelcolor=INK, borderaxespad=0, handletextpad=0.5, **place)
    said = [picture.caption, *picture.notes]
    rows = (len(handles) + 1) // 2
    below = (0, -34 - rows * 14)
    axes.annotate(
        "\n".join(said),
        (0, 0),
        below,
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        color=PALE,
        va="top",
        parse_math=False,
    )


def _from_corner(axes: Axes, figure: Figure) -> Any:
    """Points, from the lower left corner of what is drawn."""
    from matplotlib.transforms import Affine2D, ScaledTranslation

    corner: Any = axes.transAxes  # which matplotlib takes here, and its types do not say
    return Affine2D().scale(1 / 72) + figure.dpi_scale_trans + ScaledTranslation(0, 0, corner)


def _named(lane: str) -> str:
    text = echoed(lane, 10 * LONGEST)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _beneath(top: float, level: int) -> float:
    return top + 0.5 + LEVEL * level - 0.02
