"""plot(): the picture of a call, or of a DataFrame that is the output of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame

from streamtime.pictures import drawing, rounds, terminal
from streamtime.pictures.asking import Asked, asked, last_statement
from streamtime.pictures.meanings import Drawing, DrawnRow, grouped, picture
from streamtime.pictures.picture import Picture
from streamtime.pictures.seeing import LANES, ROWS, USUAL, Limits, of_frame
from streamtime.pictures.sentences import said
from streamtime.sql.call.errors import did_you_mean, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

DURATIONS = ("within", "at_most", "gap", "grace")
OPTIONS = (*DURATIONS, "keep", "refresh")  # what meanings and sentences ask for


def plot(
    source: SparkSession | DataFrame,
    text: str | None = None,
    *,
    args: dict[str, Any] | list[Any] | None = None,
    keys: str | Sequence[str] = (),
    time: str | None = None,
    title: str | None = None,
    call: int | None = None,
    where: str | None = None,
    rows: int = ROWS,
    lanes: int = LANES,
    options: Mapping[str, Any] | None = None,
) -> Figure:
    """Draws what a call did to its rows, on a time axis, with a lane for each key.

        streamtime.plot(spark, "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES)")
        streamtime.plot(explained, keys=["user_id"], time="ts")

    Rows are dots, those that were dropped have a sign of their own for each reason. Windows and sessions are bars, with their grace as a
    pale tail; versions are steps; an arrow leads from a duplicate to the row that was kept, and from a row to the version that it found.
    Of a plan of ASSIGN_TASKS, and of the history of a table of such plans, it draws who has which task, round by round.

    Args:
        source: a session, and then `text` has a call; or a DataFrame that is the output of a call: `'explain'`, `'all'` or `'dropped'`.
        text: SQL with a call of this pack; what stands around the call is not drawn. The call is run once, with the output that says most.
            Of several statements the last is drawn, and the others run before it.
        args: parameters of the text, as of `streamtime.query`: a dict for `:name`, a list for `?`.
        keys: with a DataFrame, the column or columns that have a lane for each of their values. Default: one lane.
        time: with a DataFrame, the column of the event time. Default: the only one there is.
        title: what stands above it. Default: the call and its durations.
        call: which call of the text, from 1, in the order in which they are written. Default: the outermost, or the last.
        where: a condition on the rows of the output, such as `"user_id = 'ann'"`. All rows still count for stream time.
        rows: how many rows of each key are drawn, the first in processing order. The picture says where there are more.
        lanes: how many keys are drawn, in their order. So about rows * lanes rows leave Spark at most, and of a lookup three times as many
            versions. Of plans of tasks all rows do that `where` leaves, and of more than 60 tasks those are drawn that change.
        options: with a DataFrame, durations of the call, which its columns do not tell: `{"grace": timedelta(minutes=1)}`, or microseconds.

    Returns:
        a matplotlib figure, which a notebook shows; `figure.savefig("clicks.svg")` writes it.

    Raises:
        ValueError: there is no call in the text, a column is missing, an argument does not fit, or there are no rows. The message says what
            was expected.
        AnalysisException: the call is wrong, as behind every door.
        ImportError: matplotlib is missing; the extra `plot` has it.
    """
    limits = Limits(_count("rows", rows), _count("lanes", lanes), where)
    of_df = {"keys": keys, "time": time, "options": options}
    if not isinstance(source, DataFrame):
        if text is None:
            raise ValueError("plot: expected a SQL text after the session. Write plot(spark, 'SELECT * FROM DEDUPLICATE(..)').")
        _refuse(of_df, "goes with a DataFrame: a text has a call, which says it")
        last, parameters = last_statement(source, text, args)
        asking = Asked(source, last, call, args=parameters)
        if asking.spec.named:
            return rounds.drawn(*_cells(asking.output()[1], where), title)
        given = asked(asking, limits)
    else:
        if text is not None:
            raise ValueError("plot: a text goes with a session, not with a DataFrame. Write plot(spark, text), or plot(df).")
        _refuse({"args": args, "call": call}, "goes with a text, not with a DataFrame")
        if rounds.kind_of(source.columns):
            _refuse(of_df, "is of no use for a plan of tasks, which is drawn by its own columns")
            return rounds.drawn(*_cells(source, where), title)
        columns = [keys] if isinstance(keys, str) else keys
        given = of_frame(source, columns, time, limits, options=_durations(options or {}))
    return drawing.drawn(told(given).picture, title)


def _count(name: str, value: int) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"plot, `{name}`: expected a whole number above zero, got {value!r}.")
    return value


def _refuse(given: Mapping[str, Any], why: str) -> None:
    name = next((name for name, value in given.items() if value), None)
    if name is not None:
        raise ValueError(f"plot, `{name}`: {why}. Leave it out.")


def _durations(options: Mapping[str, Any]) -> dict[str, Any]:
    """These options of a call, durations in microseconds."""
    read: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise ValueError(f"plot, `options`: {did_you_mean(name, OPTIONS) or f'expected one of {listed(OPTIONS)}'}, got `{name}`.")
        read[name] = value // timedelta(microseconds=1) if isinstance(value, timedelta) else value
        if name in DURATIONS and not (value is None or type(read[name]) is int):
            raise ValueError(f"plot, `options`: expected a timedelta or microseconds for `{name}`, got {value!r}.")
    return read


class Told(NamedTuple):
    """A picture, and its rows in processing order, each with a sentence."""

    picture: Picture
    rows: list[tuple[DrawnRow, str]]


def told(given: Drawing) -> Told:
    """The picture of these rows. Raises ValueError where there are none."""
    if not given.rows:
        raise ValueError("plot: there are no rows to draw.")
    rows = grouped(given.rows)
    return Told(picture(given), list(zip(rows, said(rows, given), strict=True)))


def pictured(spark: SparkSession, text: str, *, call: int | None = None, limits: Limits = USUAL) -> Told:
    """The picture of the last statement of a text, as data."""
    return told(asked(Asked(spark, last_statement(spark, text)[0], call), limits))


class Sketch(NamedTuple):
    """A picture as lines of text, and as the figure that it would be."""

    lines: list[str]
    figure: Callable[[], Figure]


def sketched(
    spark: SparkSession, text: str, width: int, *, ascii_only: bool = False, call: int | None = None, limits: Limits = USUAL
) -> Sketch:
    """The picture of the last statement of a text, for a terminal that has so many columns."""
    asking = Asked(spark, last_statement(spark, text)[0], call)
    if asking.spec.named:
        cells, kind = _cells(asking.output()[1], limits.where)
        return Sketch(rounds.lines(cells, kind, width), lambda: rounds.drawn(cells, kind))
    picture, rows = told(asked(asking, limits))
    return Sketch(terminal.lines(picture, rows, width, ascii_only=ascii_only), lambda: drawing.drawn(picture))


def _cells(df: DataFrame, where: str | None) -> tuple[list[rounds.Cell], str]:
    kind = rounds.kind_of(df.columns)
    if kind is None:
        raise ValueError(f"plot: expected a plan of tasks, got columns {listed(df.columns)}. Draw output => 'rows' or 'explain'.")
    return rounds.cells_of(df if where is None else df.where(where), kind), kind
